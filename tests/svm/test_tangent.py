import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from widemargin.metrics import repair_spectrum, tangent_kernel
from widemargin.svm import TangentSVC, _checks
from widemargin.tangents import ImageTangents

GENERATOR = ImageTangents((8, 8), ["x_shift", "y_shift", "rotation"])


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    X = X / 16
    return X[:160], y[:160], X[160:260], y[160:260]


def libsvm(digits, sides, kernel="rbf", gamma=0.1, C=10.0, **options):
    """LIBSVM on the full Gram matrix, through scikit-learn alone."""
    X, y, X_test, _ = digits

    def values(A, B):
        def one(side):
            return tangent_kernel(
                A, B, kernel=kernel, gamma=gamma, tangents=GENERATOR, sides=side
            )

        if sides in ("x", "y"):
            return (one("x") + one("y")) / 2
        return one(sides)

    svc = SVC(kernel="precomputed", C=C, decision_function_shape="ovo", **options)
    svc.fit(values(X, X), y)
    return svc, svc.decision_function(values(X_test, X))


@pytest.mark.parametrize("sides", ["x", "y", "two", "mean", "midpoint"])
def test_duels_are_libsvms(digits, sides):
    X, y, X_test, _ = digits
    svc, expected = libsvm(digits, sides)
    ours = TangentSVC(gamma=0.1, tangents=GENERATOR, sides=sides).fit(X, y)
    np.testing.assert_allclose(ours.duels(X_test), expected, atol=1e-6)
    np.testing.assert_array_equal(ours.support_, np.sort(svc.support_))
    np.testing.assert_array_equal(ours.support_bundle_.points, X[ours.support_])


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes")])
def test_two_classes(digits, labels):
    X, y, X_test, _ = digits
    two = np.array(labels)[(y > 1).astype(int)]
    ours = TangentSVC("nd", gamma=0.7, tangents=GENERATOR).fit(X, two)
    _, expected = libsvm((X, two, X_test, None), "mean", "nd", 0.7)
    np.testing.assert_allclose(ours.decision_function(X_test), expected, atol=1e-6)
    np.testing.assert_array_equal(
        ours.predict(X_test) == labels[1], ours.decision_function(X_test) > 0
    )


def test_voting_agrees_with_scikit_learn(digits):
    X, y, X_test, _ = digits
    svc, _ = libsvm(digits, "mean", break_ties=False)
    ours = TangentSVC(gamma=0.1, tangents=GENERATOR, multiclass="ovo").fit(X, y)
    K = tangent_kernel(X_test, X, gamma=0.1, tangents=GENERATOR)
    svc.set_params(decision_function_shape="ovr")
    np.testing.assert_allclose(
        ours.decision_function(X_test), svc.decision_function(K), atol=1e-6
    )


def test_weights_reach_the_solver(digits):
    X, y, X_test, _ = digits
    weights = np.linspace(0.01, 2, len(X))
    plain = TangentSVC(gamma=0.1, C=0.1).fit(X, y)
    for weighted in (
        TangentSVC(gamma=0.1, C=0.1).fit(X, y, weights),
        TangentSVC(gamma=0.1, C=0.1, class_weight={0: 9.0}).fit(X, y),
    ):
        assert np.abs(weighted.duels(X_test) - plain.duels(X_test)).max() > 0.01
    half = np.arange(len(X)) < 80
    some = TangentSVC(gamma=0.1).fit(X, y, half.astype(float))
    alone = TangentSVC(gamma=0.1).fit(X[half], y[half])
    np.testing.assert_allclose(some.duels(X_test), alone.duels(X_test), atol=1e-9)


@pytest.mark.parametrize("repair", ["clip", "flip", "shift"])
def test_repaired_spectra_hold_for_new_samples_too(digits, repair):
    X, y, X_test, _ = digits
    # So wide a negative distance has one strongly negative eigenvalue.
    ours = TangentSVC("nd", gamma=1.0, tangents=GENERATOR, repair=repair).fit(X, y)
    K = tangent_kernel(X, kernel="nd", gamma=1.0, tangents=GENERATOR)
    mended, change, smallest = repair_spectrum(K, repair)
    assert smallest < 0
    assert ours.smallest_eigenvalue_ == pytest.approx(smallest)
    svc = SVC(kernel="precomputed", C=10, decision_function_shape="ovo").fit(mended, y)
    k = tangent_kernel(X_test, X, kernel="nd", gamma=1.0, tangents=GENERATOR)
    k = k if change is None else k @ change
    np.testing.assert_allclose(ours.duels(X_test), svc.decision_function(k), atol=1e-6)


def test_all_landmarks_are_the_whole_kernel(digits):
    X, y, X_test, y_test = digits
    whole = TangentSVC(tangents=GENERATOR, landmarks=160, random_state=0).fit(X, y)
    some = TangentSVC(tangents=GENERATOR, landmarks=60, random_state=0).fit(X, y)
    exact = TangentSVC(tangents=GENERATOR).fit(X, y)
    assert whole.score(X_test, y_test) >= exact.score(X_test, y_test) - 0.02
    assert some.score(X_test, y_test) >= exact.score(X_test, y_test) - 0.1
    assert len(some.support_bundle_) == 60
    balanced = TangentSVC(
        landmarks=60, class_weight={0: 50.0}, random_state=0, C=0.01
    ).fit(X, y)
    plain = TangentSVC(landmarks=60, random_state=0, C=0.01).fit(X, y)
    assert (balanced.predict(X_test) == 0).sum() > (plain.predict(X_test) == 0).sum()


def test_probabilities(digits):
    X, y, X_test, y_test = digits
    svc = TangentSVC(tangents=GENERATOR, probability=True).fit(X, y)
    proba = svc.predict_proba(X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    likeliest = svc.classes_[proba.argmax(axis=1)]
    assert np.mean(likeliest == y_test) >= svc.score(X_test, y_test) - 0.03
    assert not hasattr(TangentSVC(), "predict_proba")


def test_margins_are_positive_where_right(digits):
    X, y, X_test, y_test = digits
    svc = TangentSVC(tangents=GENERATOR).fit(X, y)
    asked = np.where(np.arange(100) % 2, y_test, np.roll(y_test, 1))
    margins = svc.margins(X_test, asked)
    np.testing.assert_array_equal(margins > 0, svc.predict(X_test) == asked)
    assert 0 < np.mean(margins > 0) < 1


def test_prediction_needs_no_training_set(digits):
    X, y, X_test, _ = digits
    svc = TangentSVC(tangents=GENERATOR).fit(X, y)
    copy = pickle.loads(pickle.dumps(svc))
    np.testing.assert_array_equal(copy.duels(X_test), svc.duels(X_test))
    kept = sum(
        a.nbytes
        for a in (svc.support_bundle_.points, svc.support_bundle_.frames, svc.coef_)
    )
    assert len(pickle.dumps(svc)) < 1.2 * kept + 20_000


def test_tangents_help_when_there_are_few_samples(digits):
    X, y, X_test, y_test = digits
    with_tangents = TangentSVC(tangents=GENERATOR).fit(X[:24], y[:24])
    without = TangentSVC().fit(X[:24], y[:24])
    assert with_tangents.score(X_test, y_test) >= without.score(X_test, y_test)


def test_a_gram_matrix_beyond_memory_is_refused(digits, monkeypatch):
    X, y, *_ = digits
    monkeypatch.setattr(_checks, "available_bytes", lambda: 1e5)
    with pytest.raises(MemoryError, match=r"160 × 160 × 16 bytes.*landmarks=1000"):
        TangentSVC().fit(X, y)
    TangentSVC(landmarks=10).fit(X, y)


def test_memory_there_is():
    assert 1e6 < _checks.available_bytes() < 1e16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "linear"}, "kernel must be one of"),
        ({"gamma": -1.0}, "gamma must be a positive number"),
        ({"C": 0}, "C must be a number above 0"),
        ({"sides": "both"}, "sides must be one of"),
        ({"multiclass": "ovr"}, "multiclass must be one of"),
        ({"repair": "mend"}, "repair must be one of"),
        ({"landmarks": 0}, "landmarks must be None or an integer"),
        ({"sides": "midpoint"}, "needs a generator"),
    ],
)
def test_bad_parameters(digits, settings, message):
    with pytest.raises(ValueError, match=message):
        TangentSVC(**settings).fit(*digits[:2])


def test_classes_of_one_sample(digits):
    X, y, *_ = digits
    one = [0, *np.flatnonzero(y != y[0])]
    svc = TangentSVC(tangents=GENERATOR).fit(X[one], y[one])
    assert svc.predict(X[:1]) == y[0]
    with pytest.raises(ValueError, match="at least 2 samples of every class"):
        TangentSVC(probability=True).fit(X[one], y[one])
    with pytest.raises(ValueError, match="at least 2 classes"):
        TangentSVC().fit(X, np.zeros(len(X)))
