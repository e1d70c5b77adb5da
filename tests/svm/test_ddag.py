import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsOneClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from widemargin._core.decisions import class_pairs
from widemargin.svm import DDAGClassifier


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300] / 16, y[:300], X[300:500] / 16, y[300:500]


@pytest.mark.parametrize(
    "node", [SVC(C=5), GaussianNB(), DecisionTreeClassifier(random_state=0)]
)
def test_agrees_with_voting_where_it_is_unanimous(digits, node):
    X, y, X_test, _ = digits
    ddag = DDAGClassifier(node).fit(X, y)
    assert len(ddag.estimators_) == 45
    votes = np.zeros((len(X_test), 10), int)
    for (i, j), fitted in zip(class_pairs(10), ddag.estimators_, strict=True):
        second = fitted.predict(X_test) == 1
        votes[:, j] += second
        votes[:, i] += ~second
    unanimous = votes.max(axis=1) == 9
    assert unanimous.mean() > 0.5
    np.testing.assert_array_equal(
        ddag.predict(X_test)[unanimous], votes.argmax(axis=1)[unanimous]
    )


def test_is_as_good_as_voting(digits):
    X, y, X_test, y_test = digits
    ours = DDAGClassifier(SVC(C=5)).fit(X, y)
    theirs = OneVsOneClassifier(SVC(C=5)).fit(X, y)
    assert ours.score(X_test, y_test) >= theirs.score(X_test, y_test) - 0.01
    margins = ours.margins(X_test, y_test)
    np.testing.assert_array_equal(margins > 0, ours.predict(X_test) == y_test)


def test_two_classes_are_the_node_itself(digits):
    X, y, X_test, _ = digits
    names = np.where(y > 4, "high", "low")
    node = LogisticRegression()
    ddag = DDAGClassifier(node).fit(X, names)
    alone = node.fit(X, (names == "low").astype(int))
    np.testing.assert_allclose(
        ddag.decision_function(X_test), alone.decision_function(X_test)
    )
    np.testing.assert_array_equal(
        ddag.predict(X_test), np.where(alone.predict(X_test) == 1, "low", "high")
    )


def test_sample_weight_goes_to_the_nodes(digits):
    X, y, X_test, _ = digits
    kept = np.arange(300) % 3 > 0
    weighted = DDAGClassifier(GaussianNB()).fit(X, y, kept.astype(float))
    alone = DDAGClassifier(GaussianNB(var_smoothing=1e-9)).fit(X[kept], y[kept])
    agree = weighted.predict(X_test) == alone.predict(X_test)
    assert agree.mean() > 0.95
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        DDAGClassifier(KNeighborsClassifier()).fit(X, y, np.ones(300))


def test_weights_are_repetitions(digits):
    X, y, X_test, _ = digits
    times = 1 + np.arange(300) % 3
    node = LogisticRegression(tol=1e-8, max_iter=1000)
    rows = np.repeat(np.arange(300), times)
    weighted = DDAGClassifier(node).fit(X, y, times.astype(float))
    repeated = DDAGClassifier(node).fit(X[rows], y[rows])
    plain = DDAGClassifier(node).fit(X, y)
    for node, fitted in enumerate(weighted.estimators_):
        expected = repeated.estimators_[node].decision_function(X_test)
        found = fitted.decision_function(X_test)
        np.testing.assert_allclose(found, expected, atol=1e-3)
    other = plain.estimators_[node].decision_function(X_test)
    assert np.abs(other - found).max() > 0.02


def test_a_regression_is_refused(digits):
    with pytest.raises(ValueError, match=r"must be a classifier.*LinearRegression"):
        DDAGClassifier(LinearRegression()).fit(*digits[:2])


def test_one_class_is_refused(digits):
    with pytest.raises(ValueError, match="at least 2 classes"):
        DDAGClassifier().fit(digits[0], np.zeros(300))


def test_a_class_instead_of_a_classifier_is_refused(digits):
    with pytest.raises(
        TypeError, match=r"estimator is the class SVC; pass .*, SVC\(...\)"
    ):
        DDAGClassifier(SVC).fit(*digits[:2])


@pytest.mark.parametrize("node", [SVC(C=5), GaussianNB()])
def test_margins_are_the_decisions_on_the_way(digits, node):
    X, y, X_test, _ = digits
    ddag = DDAGClassifier(node).fit(X, y)
    place = {pair: at for at, pair in enumerate(class_pairs(10))}
    for row in X_test[:20]:
        left, closest, dropped = list(range(10)), np.inf, {}
        lowest = {}
        while len(left) > 1:
            i, j = left[0], left[-1]
            fitted = ddag.estimators_[place[i, j]]
            if hasattr(fitted, "decision_function"):
                decision = -fitted.decision_function(row[None])[0]
            else:
                decision = 1 - 2 * fitted.predict_proba(row[None])[0, 1]
            loser = j if decision > 0 else i
            dropped[loser] = abs(decision)
            for c in (i, j):
                lowest[c] = min(lowest.get(c, np.inf), abs(decision))
            left.remove(loser)
        closest = lowest[left[0]]
        assert ddag.predict(row[None]) == left[0]
        assert ddag.confidence(row[None])[0] == pytest.approx(closest)
        for c, decision in dropped.items():
            assert ddag.margins(row[None], [c])[0] == pytest.approx(-decision)
    assert ddag.margin_unit == (
        "distance" if isinstance(node, SVC) else "vote_fraction"
    )


def test_class_weight_goes_to_the_nodes(digits):
    X, y, X_test, _ = digits
    node = LogisticRegression(tol=1e-8, max_iter=1000)
    weighted = DDAGClassifier(node, class_weight={3: 4.0}).fit(X, y)
    same = DDAGClassifier(node).fit(X, y, np.where(y == 3, 4.0, 1.0))
    np.testing.assert_allclose(
        weighted.decision_function(X_test), same.decision_function(X_test)
    )


def test_files_of_models(digits):
    io = pytest.importorskip("skops.io")
    X, y, X_test, _ = digits
    ddag = DDAGClassifier().fit(X, y)
    data = io.dumps(ddag)
    again = io.loads(data, trusted=io.get_untrusted_types(data=data))
    np.testing.assert_array_equal(
        again.decision_function(X_test), ddag.decision_function(X_test)
    )


def test_samples_may_be_sparse(digits):
    sparse = pytest.importorskip("scipy.sparse")
    X, y, X_test, _ = digits
    dense = DDAGClassifier(SVC(kernel="linear")).fit(X, y)
    thin = DDAGClassifier(SVC(kernel="linear")).fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(
        thin.predict(sparse.csr_array(X_test)), dense.predict(X_test)
    )


def test_weights_that_libsvm_never_comes_to_an_end_with():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]] * 5)
    y = np.random.default_rng(0).permutation(np.arange(20) % 2)
    with pytest.warns(ConvergenceWarning, match="a node's solver stopped"):
        DDAGClassifier().fit(X, y, np.full(20, 1e36))


def test_sparse_samples_without_spread():
    X = sp.csr_array(np.full((20, 4), 0.9702328184227406))
    model = DDAGClassifier().fit(X, np.arange(20) % 2)
    assert np.isfinite(model.decision_function(X)).all()


def test_indices_of_64_bits_are_indices(digits):
    X, y, X_test, _ = digits
    short = sp.csr_array(X)
    long, asked = (
        sp.csr_array(
            (a.data, a.indices.astype(np.int64), a.indptr.astype(np.int64)), a.shape
        )
        for a in map(sp.csr_array, (X, X_test))
    )
    assert long.indices.dtype == np.int64
    expected = DDAGClassifier().fit(short, y).decision_function(sp.csr_array(X_test))
    found = DDAGClassifier().fit(long, y).decision_function(asked)
    np.testing.assert_array_equal(found, expected)
    assert long.indices.dtype == asked.indptr.dtype == np.int64
