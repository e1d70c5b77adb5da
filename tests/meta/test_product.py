"""Products of classifiers: formula, weights, who is held out, what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, make_classification, make_moons
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    StratifiedKFold,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import ProductClassifier, RejectingClassifier, TangentDensityClassifier
from widemargin.meta.product import MOST_WEIGHT, product_brier, product_weights


def noisy(n=300, classes=(0, 1, 2), seed=0):
    X, codes = make_classification(
        n, n_features=6, n_informative=4, n_classes=3, flip_y=0.1, random_state=seed
    )
    return X, np.array(classes)[codes]


def two():
    return [("nb", GaussianNB()), ("line", LogisticRegression())]


def test_copies_of_a_sample_are_held_out_together():
    X, y = noisy(200)
    members = [("near", KNeighborsClassifier(1)), ("nb", GaussianNB())]
    once = ProductClassifier(members).fit(X, y)
    twice = ProductClassifier(members).fit(np.repeat(X, 2, 0), np.repeat(y, 2))
    # A neighbour that is the sample itself would know every label.
    assert twice.cv_score_ == pytest.approx(once.cv_score_, abs=0.03)
    np.testing.assert_allclose(twice.weights_, once.weights_, atol=0.1)
    # All samples of a class are one: it cannot be held out and learned.
    with pytest.raises(ValueError, match="y has a class of one sample"):
        ProductClassifier(members).fit(
            np.r_[X, np.repeat(X[:1], 3, 0)], np.r_[y, [3, 3, 3]]
        )


def random_logs(seed, n_members=3, n=40, n_classes=4):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_classes, size=n)
    scores = rng.normal(size=(n_members, n, n_classes))
    scores[:, np.arange(n), codes] += 1.5
    P = np.exp(scores)
    return np.log(P / P.sum(axis=2, keepdims=True)), codes


def test_probabilities_are_the_floored_product():
    X, y = noisy(classes=("a", "b", "c"))
    w, floor = np.array([0.7, 0.4]), 0.02
    model = ProductClassifier(two(), weights=w, min_proba=floor).fit(X, y)
    product = np.ones((len(X), 3))
    for (_, member), power in zip(two(), w, strict=True):
        product *= np.maximum(member.fit(X, y).predict_proba(X), floor) ** power
    expected = product / product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict(X), model.classes_[expected.argmax(1)])
    ordered = np.sort(np.log(expected), axis=1)
    np.testing.assert_allclose(
        model.confidence(X), ordered[:, -1] - ordered[:, -2], atol=1e-12
    )
    assert not hasattr(model, "cv_score_")


def test_one_member_of_weight_one_is_that_member():
    X, y = noisy()
    model = ProductClassifier(two()[:1], weights=[1.0], min_proba=1e-300).fit(X, y)
    alone = GaussianNB().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X))


@given(st.integers(0, 10**6), st.lists(st.floats(0.01, 3), min_size=3, max_size=3))
@settings(max_examples=30, deadline=None)
def test_derivative_of_the_brier_score(seed, at):
    logs, codes = random_logs(seed)
    shares = np.random.default_rng(seed).random(len(codes))
    shares /= shares.sum()
    w, h = np.array(at), 1e-6
    value, slope = product_brier(w, logs, codes, shares)
    P = np.exp(np.tensordot(w, logs, 1))
    P /= P.sum(axis=1, keepdims=True)
    slow = shares @ ((P - np.eye(4)[codes]) ** 2).sum(axis=1)
    assert value == pytest.approx(slow)
    for m in range(3):
        step = h * np.eye(3)[m]
        up = product_brier(w + step, logs, codes, shares)[0]
        down = product_brier(w - step, logs, codes, shares)[0]
        assert slope[m] == pytest.approx((up - down) / (2 * h), abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_weights_have_the_least_brier_score(seed):
    logs, codes = random_logs(seed, n_members=2, n=200)
    shares = np.full(len(codes), 1 / len(codes))
    found, score = product_weights(logs, codes, shares)
    grid = np.linspace(0, 2, 41)
    others = [
        product_brier(np.array([a, b]), logs, codes, shares)[0]
        for a in grid
        for b in grid
    ]
    assert score <= min(others)
    assert (found >= 0).all()
    assert score == product_brier(found, logs, codes, shares)[0]


def test_a_member_that_knows_nothing_counts_nothing():
    logs, codes = random_logs(0, n_members=2, n=2000)
    logs[1] = np.random.default_rng(1).permutation(logs[1])
    weights, _ = product_weights(logs, codes, np.full(2000, 1 / 2000))
    assert weights[1] < 0.05 * weights[0]


def test_members_that_are_always_wrong_count_alike():
    logs, codes = random_logs(0, n_members=2)
    logs[:] = np.log(0.1)
    logs[:, np.arange(len(codes)), codes] = np.log(0.01)
    weights, _ = product_weights(logs, codes, np.full(len(codes), 1 / len(codes)))
    assert weights.tolist() == [0.5, 0.5]


def test_perfect_members_stay_finite():
    logs = np.full((1, 20, 2), np.log(1e-4))
    codes = np.arange(20) % 2
    logs[0, np.arange(20), codes] = 0.0
    weights, score = product_weights(logs, codes, np.full(20, 1 / 20))
    assert 0 < weights[0] <= MOST_WEIGHT
    assert score < 1e-6


def test_weights_are_those_of_predictions_held_out():
    X, y = noisy()
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    model = ProductClassifier(two(), cv=cv).fit(X, y)
    logs, codes = [], []
    for fit, held in cv.split(X, y):
        parts = [m.fit(X[fit], y[fit]).predict_proba(X[held]) for _, m in two()]
        logs.append(np.log(np.maximum(parts, 1e-4)))
        codes.append(y[held])
    logs, codes = np.concatenate(logs, axis=1), np.concatenate(codes)
    shares = np.full(len(codes), 1 / len(codes))
    np.testing.assert_allclose(model.weights_, product_weights(logs, codes, shares)[0])
    for m in range(2):
        P = np.exp(logs[m])
        P /= P.sum(axis=1, keepdims=True)
        slow = ((P - np.eye(3)[codes]) ** 2).sum(axis=1).mean()
        assert model.member_scores_[m] == pytest.approx(slow)
    assert model.cv_score_ <= model.member_scores_.min() + 1e-9


class Remembering(ClassifierMixin, BaseEstimator):
    """Asks only about groups, the first feature, that it has not seen."""

    asked: list = []  # noqa: RUF012

    def fit(self, X, y, groups=None):
        self.classes_, self.seen_, self.groups_ = np.unique(y), X[:, 0], groups
        return self

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X):
        self.asked.append(np.isin(X[:, 0], self.seen_).any())
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


@pytest.mark.parametrize("cv", [None, 3, GroupKFold(3), GroupShuffleSplit(2)])
def test_groups_are_held_out_whole(cv):
    groups = np.repeat(np.arange(6), 10)
    X, y = groups[:, None].astype(float), np.arange(60) % 2
    Remembering.asked.clear()
    ProductClassifier([("a", Remembering())], cv=cv).fit(X, y, groups=groups)
    assert len(Remembering.asked) >= 2
    assert not any(Remembering.asked)


def test_routing_takes_groups_to_members_that_ask():
    groups = np.repeat(np.arange(6), 10)
    X, y = groups[:, None].astype(float), np.arange(60) % 2
    with config_context(enable_metadata_routing=True):
        members = [
            ("a", Remembering().set_fit_request(groups=True)),
            ("b", Remembering().set_fit_request(groups=False)),
            ("c", TangentDensityClassifier(tangents="none").set_fit_request(
                groups=True, sample_weight=True)),
        ]  # fmt: skip
        model = ProductClassifier(members).fit(X, y, groups=groups)
    assert np.array_equal(model.named_estimators_.a.groups_, groups)
    assert model.named_estimators_.b.groups_ is None
    plain = ProductClassifier(two()[:1])
    with pytest.raises(ValueError, match=r"fit got extra; .*enable_metadata_routing"):
        plain.fit(X, y, extra=groups)


def test_weights_of_samples():
    X, y = noisy()
    weights = (np.arange(len(y)) % 3).astype(float)
    kept = weights > 0
    model = ProductClassifier(two(), cv=4).fit(X, y, sample_weight=weights)
    rest = ProductClassifier(two(), cv=4).fit(X[kept], y[kept], weights[kept])
    np.testing.assert_array_equal(model.weights_, rest.weights_)
    np.testing.assert_array_equal(model.predict_proba(X), rest.predict_proba(X))
    ones = [("near", KNeighborsClassifier(3)), two()[0]]
    only = ProductClassifier(ones, cv=4).fit(X, y, kept.astype(float))
    same = ProductClassifier(ones, cv=4).fit(X[kept], y[kept])
    np.testing.assert_array_equal(only.weights_, same.weights_)
    with pytest.raises(ValueError, match=r"sample_weight has no place.*KNeighbors"):
        ProductClassifier(ones, cv=4).fit(X, y, weights)


def test_positions_of_a_given_split_are_those_of_all_samples():
    X, y = noisy(60)
    weights = np.ones(60)
    weights[:7] = 0
    splits = list(KFold(3).split(X))
    model = ProductClassifier(two(), cv=splits).fit(X, y, weights)
    inside = [(fit[fit > 6] - 7, held[held > 6] - 7) for fit, held in splits]
    rest = ProductClassifier(two(), cv=inside).fit(X[7:], y[7:])
    np.testing.assert_allclose(model.weights_, rest.weights_)


def test_a_class_that_a_part_lacks_has_the_floor():
    X, y = noisy(90)
    order = np.argsort(y, kind="stable")
    model = ProductClassifier(two(), cv=KFold(3)).fit(X[order], y[order])
    assert np.isfinite(model.cv_score_)
    assert model.cv_score_ <= 2


def test_at_home_in_pipelines_searches_and_around():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    members = [
        ("near", KNeighborsClassifier(3)),
        ("line", make_pipeline(StandardScaler(), LogisticRegression())),
    ]
    model = ProductClassifier(members, cv=3)
    assert model.get_params()["near__n_neighbors"] == 3
    search = GridSearchCV(
        model, {"near__n_neighbors": [1, 3], "min_proba": [1e-4]}, cv=2
    )
    assert search.fit(X, y).best_params_["min_proba"] == 1e-4
    rejecting = RejectingClassifier(model, coverage=0.8, random_state=0).fit(X, y)
    assert rejecting.margin_unit == "log-odds"
    assert 0.5 < rejecting.accepts(X).mean() < 1
    model.set_params(near=GaussianNB())
    assert isinstance(model.estimators[0][1], GaussianNB)


X, y = noisy(60)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"estimators": []}, "estimators must be a list of"),
        ({"estimators": GaussianNB()}, "estimators must be a list of"),
        ({"estimators": [GaussianNB()]}, "estimators must be a list of"),
        ({"estimators": [("a", GaussianNB)]}, "estimators: 'a' must be a classifier"),
        ({"estimators": [("a", Perceptron())]}, "estimators: 'a'.*no predict_proba"),
        ({"estimators": [("a", GaussianNB())] * 2}, "Names provided are not unique"),
        ({"min_proba": 0}, "min_proba must be"),
        ({"weights": [1]}, "weights must be 2 numbers"),
        ({"weights": [1, -1]}, "weights must be 2 numbers"),
        ({"weights": [0, 0]}, "weights must be 2 numbers"),
        ({"weights": "many"}, "weights"),
        ({"cv": 1}, "cv must be"),
        ({"cv": "auto"}, "cv must be None, a number of parts"),
        ({"cv": [([0, 1], [99])]}, "cv must be None, a number of parts"),
        ({"cv": GroupKFold(3)}, "groups must be given to fit: cv=GroupKFold"),
        ({"cv": [([0], [1])]}, "cv=.*leaves 1 samples held out and 1 class"),
    ],
)
def test_bad_parameters_are_named(settings, said):
    with pytest.raises(ValueError, match=said):
        ProductClassifier(**({"estimators": two()} | settings)).fit(X, y)


def test_bad_data_are_named():
    model = ProductClassifier(two())
    with pytest.raises(ValueError, match="groups must have one label per sample"):
        model.fit(X, y, groups=[0, 1])
    with pytest.raises(ValueError, match="groups must hold at least two"):
        model.fit(X, y, groups=np.zeros(60))
    with pytest.raises(ValueError, match="y must hold at least 2 classes"):
        model.fit(X, np.zeros(60))
    with pytest.raises(ValueError, match="y has a class of one sample"):
        model.fit(X, np.arange(60) == 0)
    kept = ProductClassifier(two(), weights=[1, 1]).fit(X, np.arange(60) == 0)
    assert kept.predict_proba(X).shape == (60, 2)


def test_a_failed_fit_leaves_the_old_model():
    model = ProductClassifier(two(), cv=3).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="groups"):
        model.fit(X, y, groups=np.zeros(60))
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_a_sorted_file_chooses_the_same_weights():
    """Parts that follow each other would be slabs of the space."""
    X, y = make_moons(300, noise=0.25, random_state=0)
    members = [("line", LogisticRegression()), ("near", KNeighborsClassifier(15))]
    order = np.argsort(X[:, 0])
    drawn = ProductClassifier(members).fit(X, y)
    ordered = ProductClassifier(members).fit(X[order], y[order])
    assert ordered.cv_score_ == pytest.approx(drawn.cv_score_, rel=0.1)
    assert ordered.weights_.argmax() == drawn.weights_.argmax() == 1
