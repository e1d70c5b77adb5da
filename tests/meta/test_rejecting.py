import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin.margins import (
    MARGIN_UNITS,
    confidence_of,
    margins_of,
    reject_threshold,
    smallest_max_error,
)
from widemargin.meta import MarginReweightingClassifier, RejectingClassifier
from widemargin.neighbors import TangentKNeighborsClassifier
from widemargin.prototypes import GLVQClassifier
from widemargin.tangents import ImageTangents


def noisy(n=400, classes=(0, 1, 2), seed=0):
    X, codes = make_classification(
        n, n_features=6, n_informative=4, n_classes=3, flip_y=0.1, random_state=seed
    )
    return X, np.array(classes)[codes]


def test_threshold_is_that_of_the_held_out_samples():
    X, y = load_digits(return_X_y=True)
    inner = GaussianNB().fit(X[:900], y[:900])
    model = RejectingClassifier(inner, coverage=0.8, cv="prefit")
    model.fit(X[900:], y[900:])
    probabilities = np.sort(inner.predict_proba(X[900:]), axis=1)
    gap = probabilities[:, -1] - probabilities[:, -2]
    expected = reject_threshold(y[900:], inner.predict(X[900:]), gap, coverage=0.8)
    assert model.threshold_ == expected
    answered = gap >= expected
    assert 0 < answered.mean() < 1
    assert model.coverage_ == answered.mean()
    wrong = inner.predict(X[900:]) != y[900:]
    assert model.error_ == wrong[answered].mean()
    np.testing.assert_array_equal(model.accepts(X[900:]), answered)


def test_held_out_samples_are_new_to_the_estimator():
    class Recorder(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_, self.seen_ = np.unique(y), X[:, 0]
            return self

        def predict(self, X):
            return np.full(len(X), self.classes_[0])

        def decision_function(self, X):
            assert not np.isin(X[:, 0], self.seen_).any()
            return X[:, 0]

    X, y = np.arange(100.0).reshape(-1, 1), np.arange(100) % 2
    model = RejectingClassifier(Recorder(), coverage=0.5, cv=0.3, random_state=0)
    model.fit(X, y)
    assert model.n_held_out_ == 30
    assert len(model.estimator_.seen_) == 70


def test_samples_of_classes_that_were_not_learned_are_mistakes():
    X, y = noisy(200)
    y = y.copy()
    y[:40] = 100 + np.arange(40)  # each the only one of its class
    model = RejectingClassifier(
        KNeighborsClassifier(), coverage=0.99, cv=0.5, delta=None, random_state=0
    ).fit(X, y)
    assert model.n_held_out_ == 100
    seen = np.isin(y, model.classes_)
    assert 0 < (~seen).sum() <= 40
    # About half of the forty were held out, and each of them is answered wrongly.
    assert model.error_ * model.coverage_ * 100 >= (~seen).sum()


def test_the_draw_does_not_look_at_labels():
    X, y = noisy(200)
    masks = []
    for labels in (y, np.arange(200) % 7, np.repeat([0, 1], 100)):
        model = RejectingClassifier(FirstColumn(), coverage=0.5, cv=0.3, random_state=1)
        masks.append(set(model.fit(X, labels).estimator_.seen_))
    assert masks[0] == masks[1] == masks[2]


class FirstColumn(ClassifierMixin, BaseEstimator):
    """Remembers the first column that it was fitted with."""

    def fit(self, X, y):
        self.classes_, self.seen_ = np.array([0, 1, 2]), X[:, 0].tolist()
        return self

    def predict(self, X):
        return np.zeros(len(X), int)

    def decision_function(self, X):
        return np.zeros((len(X), 3))


@pytest.mark.parametrize(
    ("n", "max_error", "held_out"),
    [
        (2000, 0.05, 500),  # a quarter is enough
        (600, 0.02, 300),  # half: the guarantee wants 318
        (800, 0.02, 318),
        (200, 0.01, 100),  # nothing can be guaranteed at all
    ],
)
@pytest.mark.filterwarnings("ignore:max_error=")
def test_as_much_is_held_out_as_the_guarantee_wants(n, max_error, held_out):
    X, y = noisy(n)
    model = RejectingClassifier(FirstColumn(), max_error=max_error, random_state=0)
    assert model.fit(X, y).n_held_out_ == held_out
    model = RejectingClassifier(FirstColumn(), coverage=0.5, random_state=0)
    assert model.fit(X, y).n_held_out_ == n // 4


def test_600_digits_are_enough_for_two_per_cent():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    fit, new = order[:600], order[600:]
    tangents = ImageTangents((8, 8))
    answered = []
    for seed in range(4):
        model = RejectingClassifier(
            TangentKNeighborsClassifier(tangents=tangents),
            max_error=0.02,
            random_state=seed,
        ).fit(X[fit], y[fit])
        accepted, answers = model.accepts(X[new]), model.predict(X[new])
        answered.append(accepted.mean())
        assert (answers != y[new])[accepted].mean() <= 0.02
    assert min(answered) > 0.5
    assert np.mean(answered) > 0.8


class Oracle(ClassifierMixin, BaseEstimator):
    """Wrong with probability (1 − x) / 2, surer for larger x; labels carry the fate."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return np.ones(len(X), int)

    def decision_function(self, X):
        return X[:, 0]


@pytest.mark.filterwarnings("ignore:max_error=0.1 could not be shown")
@pytest.mark.parametrize("guarantee", [{"max_error": 0.1}, {"coverage": 0.5}])
def test_guarantee_holds_on_new_samples(guarantee):
    rng = np.random.default_rng(0)
    broken, n_draws = 0, 300
    for _ in range(n_draws):
        x = rng.random(300)
        y = (rng.random(300) > (1 - x) / 2).astype(int)
        model = RejectingClassifier(
            Oracle().fit(None, None), cv="prefit", delta=0.2, **guarantee
        ).fit(x[:, None], y)
        tau = np.clip(model.threshold_, 0, 1)
        true_error, true_coverage = (1 - tau) / 4, 1 - tau
        broken += true_error > 0.1 if "max_error" in guarantee else true_coverage < 0.5
    # 0.2 and three standard deviations; and it must not be trivially safe.
    assert 0 < broken / n_draws <= 0.2 + 3 * np.sqrt(0.16 / n_draws)


@pytest.mark.parametrize(
    ("classes", "given", "label", "dtype"),
    [
        ((0, 1, 2), None, -1, np.int64),
        ((np.uint8(0), np.uint8(1), np.uint8(9)), None, -1, np.int16),
        ((0.0, 1.0, 2.0), None, -1, np.float64),
        (("a", "b", "c"), None, "reject", np.dtype("<U6")),
        (("a", "b", "c"), "?", "?", np.dtype("<U1")),
        ((-1, 0, 1), -9, -9, np.int64),
        ((-1, 0, 1), None, -2, np.int64),
        ((-1.0, 0.0, 2.0), None, -2, np.float64),
        (("a", "b", "reject"), None, "reject_", np.dtype("<U7")),
        ((0, 1, 2), "unknown", "unknown", np.dtype(object)),
    ],
)
def test_refusals_have_a_label_of_their_own(classes, given, label, dtype):
    X, y = noisy(classes=classes)
    model = RejectingClassifier(
        LogisticRegression(), coverage=0.5, reject_label=given, random_state=0
    ).fit(X, y)
    answers, accepted = model.predict(X), model.accepts(X)
    assert 0 < accepted.mean() < 1
    assert model.reject_label_ == label
    assert answers.dtype == dtype
    assert all(answer == label for answer in answers[~accepted])
    inner = model.estimator_.predict(X)
    np.testing.assert_array_equal(answers[accepted], inner[accepted])


def test_object_labels_keep_their_objects():
    X, codes = noisy()
    y = np.array(["a", "bb", "ccc"], dtype=object)[codes]
    model = RejectingClassifier(LogisticRegression(), coverage=0.5).fit(X, y)
    assert model.predict(X).dtype == object
    assert set(model.predict(X)) == {"a", "bb", "ccc", "reject"}


@pytest.mark.parametrize(
    ("classes", "given"),
    [((-1, 0, 1), -1), (("a", "b", "reject"), "reject"), ((0, 1, 2), 2)],
)
def test_a_label_that_is_a_class_is_refused(classes, given):
    X, y = noisy(classes=classes)
    model = RejectingClassifier(LogisticRegression(), coverage=0.5, reject_label=given)
    with pytest.raises(ValueError, match="reject_label"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "exactly one of max_error and coverage"),
        ({"max_error": 0.1, "coverage": 0.5}, "exactly one of max_error and coverage"),
        ({"max_error": 1.5}, "max_error"),
        (
            {"coverage": 0.5, "cv": 5},
            "cv=5 guarantees max_error on average",
        ),
        (
            {"coverage": 0.5, "cv": True},
            "cv must be 'auto' or 'prefit' or 'leave-one-out' or a",
        ),
        (
            {"coverage": 0.5, "cv": "half"},
            "cv must be 'auto' or 'prefit' or 'leave-one-out' or a",
        ),
        (
            {"coverage": 0.5, "confidence_func": "margin"},
            "confidence_func must be None or",
        ),
        (
            {"coverage": 0.5, "confidence_func": lambda model, X: X},
            "one number per sample",
        ),
        ({"coverage": 0.5, "delta": 2.0}, "delta"),
        ({"coverage": np.nan}, "coverage"),
        ({"max_error": "0.1"}, "max_error must be"),
        ({"coverage": 0.5, "reject_label": np.nan}, "reject_label"),
        ({"coverage": 0.5, "reject_label": [1, 2]}, "reject_label"),
    ],
)
def test_bad_parameters_are_named(params, words):
    with pytest.raises(ValueError, match=words):
        RejectingClassifier(LogisticRegression(), **params).fit(*noisy())


@pytest.mark.parametrize("wrapper", [RejectingClassifier, MarginReweightingClassifier])
@pytest.mark.parametrize("estimator", [None, "svc", LogisticRegression, 3, Ridge()])
def test_what_is_no_classifier_is_refused(wrapper, estimator):
    model = wrapper(LogisticRegression())
    if wrapper is RejectingClassifier:
        model.set_params(coverage=0.5)
    with pytest.raises(ValueError, match="estimator must be a classifier"):
        model.set_params(estimator=estimator).fit(*noisy())


@pytest.mark.parametrize("wrapper", [RejectingClassifier, MarginReweightingClassifier])
@pytest.mark.parametrize("bad", ["a", np.nan, -1.0, 1e308, 0.0])
def test_bad_weights_are_named(wrapper, bad):
    X, y = noisy()
    model = wrapper(LogisticRegression())
    if wrapper is RejectingClassifier:
        model.set_params(coverage=0.5)
    with pytest.raises(ValueError, match=r"sample_weight|Sample weights"):
        model.fit(X, y, sample_weight=np.repeat(bad, len(y)))


def test_prefit_needs_a_fitted_estimator_and_no_weights():
    X, y = noisy()
    model = RejectingClassifier(LogisticRegression(), coverage=0.5, cv="prefit")
    with pytest.raises(NotFittedError, match="prefit"):
        model.fit(X, y)
    model.estimator.fit(X, y)
    with pytest.raises(ValueError, match="sample_weight has no place"):
        model.fit(X, y, sample_weight=np.ones(len(y)))


def test_too_few_samples_refuse_everything_and_say_how_many_are_needed():
    X, y = noisy(100)
    model = RejectingClassifier(LogisticRegression(), max_error=0.01, random_state=0)
    with pytest.warns(UserWarning, match="299 held-out"):
        model.fit(X, y)
    assert model.threshold_ == np.inf
    assert (model.predict(X) == -1).all()
    assert model.coverage_ == 0
    assert np.isnan(model.error_)
    assert not model.accepts(X).any()


def test_the_smallest_guarantee_is_named():
    X, y = noisy(100)
    with pytest.warns(UserWarning, match="0.068"):
        RejectingClassifier(FirstColumn(), max_error=0.01, cv=0.43).fit(X, y)
    assert smallest_max_error(43) <= 0.068
    wrong = np.arange(60) % 6 == 0
    model = RejectingClassifier(FirstColumn().fit(X, y), max_error=0.1, cv="prefit")
    with pytest.warns(UserWarning, match="it would be 0.2") as caught:
        model.fit(X[:60], wrong * 1)
    assert "60 faultless ones guarantee max_error=0.049" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_confidence_is_that_of_the_estimator():
    X, y = noisy()
    for inner in (GaussianNB(), LogisticRegression(), GLVQClassifier(max_iter=2)):
        for whole in (inner, make_pipeline(StandardScaler(), inner)):
            model = RejectingClassifier(whole, coverage=0.5, random_state=0).fit(X, y)
            fitted = model.estimator_
            np.testing.assert_array_equal(model.confidence(X), confidence_of(fitted, X))
            np.testing.assert_array_equal(model.margins(X, y), margins_of(fitted, X, y))
            answers = fitted.predict(X)
            np.testing.assert_array_equal(
                model.margins(X, answers), model.confidence(X)
            )
            best = model.decision_function(X).argmax(axis=1)
            np.testing.assert_array_equal(model.classes_[best], answers)
            outside = make_pipeline(StandardScaler(), model).fit(X, y)
            np.testing.assert_array_equal(
                confidence_of(outside, X),
                outside[1].confidence(outside[0].transform(X)),
            )


def test_one_neighbour_is_sure_by_its_margins():
    X, y = load_digits(return_X_y=True)
    model = RejectingClassifier(
        TangentKNeighborsClassifier(), max_error=0.02, random_state=0
    ).fit(X[:1400], y[:1400])
    assert model.margin_unit in MARGIN_UNITS
    assert model.accepts(X[1400:]).mean() > 0.7


def test_a_criterion_can_be_given():
    X, y = noisy()

    def largest(model, X):
        return model.predict_proba(X).max(axis=1)

    model = RejectingClassifier(
        GaussianNB(), coverage=0.5, confidence_func=largest
    ).fit(X, y)
    np.testing.assert_array_equal(model.confidence(X), largest(model.estimator_, X))
    model.set_params(confidence_func=None)  # nothing until the next fit
    np.testing.assert_array_equal(model.confidence(X), largest(model.estimator_, X))


def test_a_failed_fit_leaves_the_old_model():
    X, y = noisy()
    model = RejectingClassifier(LogisticRegression(), coverage=0.5, random_state=0)
    before = model.fit(X, y).predict(X)
    with pytest.raises(ValueError, match="is one of the classes"):
        model.set_params(reject_label=1).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_methods_are_those_of_the_estimator():
    X, y = noisy()
    with_proba = RejectingClassifier(GaussianNB(), coverage=0.5)
    assert hasattr(with_proba, "predict_proba")
    without = RejectingClassifier(Perceptron(), coverage=0.5)
    assert not hasattr(without, "predict_proba")
    with pytest.raises(NotFittedError):
        with_proba.predict(X)
    assert not hasattr(with_proba, "classes_")
    with_proba.fit(X, y)
    np.testing.assert_array_equal(
        with_proba.predict_proba(X), with_proba.estimator_.predict_proba(X)
    )


def test_margins_are_passed_through():
    class WithMargins(LogisticRegression):
        def margins(self, X, y):
            return np.where(self.predict(X) == y, 1.0, -1.0)

    X, y = noisy()
    model = RejectingClassifier(WithMargins(), coverage=0.5).fit(X, y)
    right = model.estimator_.predict(X) == y
    np.testing.assert_array_equal(model.margins(X, y) > 0, right)


def test_weights_that_no_fit_takes_are_refused_unless_they_leave_out():
    X, y = noisy()
    model = RejectingClassifier(KNeighborsClassifier(), coverage=0.5, random_state=0)
    with pytest.raises(ValueError, match="sample_weight has no place to go: KNeigh"):
        model.fit(X, y, sample_weight=1.0 + y)
    assert model.fit(X, y, sample_weight=2.0 * (y < 2)).n_held_out_ == sum(y < 2) // 4


def test_sample_weight_reaches_the_estimator_with_its_rows():
    class Weighed(KNeighborsClassifier):
        def fit(self, X, y, sample_weight=None):
            self.weights_, self.first_ = sample_weight, X[:, 0]
            return super().fit(X, y)

    X, y = noisy()
    model = RejectingClassifier(Weighed(), coverage=0.5, random_state=0)
    model.fit(X, y, sample_weight=np.abs(X[:, 0]))
    np.testing.assert_array_equal(
        model.estimator_.weights_, np.abs(model.estimator_.first_)
    )


def test_samples_of_weight_zero_take_no_part():
    X, y = noisy()
    weights = (np.arange(len(y)) < 300).astype(float)
    model = RejectingClassifier(LogisticRegression(), coverage=0.5, random_state=0)
    weighed = clone(model).fit(X, y, sample_weight=weights)
    fewer = clone(model).fit(X[:300], y[:300])
    assert weighed.threshold_ == pytest.approx(fewer.threshold_)
    assert weighed.n_held_out_ == fewer.n_held_out_ == 75


def test_sample_weight_is_routed_through_pipelines():
    X, y = noisy()
    with config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        model = RejectingClassifier(inner, coverage=0.5, random_state=0)
        weights = 1.0 + (y == 1) * 50
        routed = make_pipeline(model).fit(X, y, sample_weight=weights)[-1]
    direct = clone(model).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(routed.estimator_.coef_, direct.estimator_.coef_)
    plain = clone(model).fit(X, y)
    assert np.abs(plain.estimator_.coef_ - direct.estimator_.coef_).max() > 0.1


def test_works_in_pipelines_cross_validation_and_search():
    X, y = noisy()
    inside = RejectingClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()),
        coverage=0.7,
        random_state=0,
    )
    outside = make_pipeline(
        StandardScaler(),
        RejectingClassifier(LogisticRegression(), coverage=0.7, random_state=0),
    )
    for model in (inside, outside):
        answers = cross_val_predict(clone(model), X, y, cv=3)
        answered = answers != -1
        assert 0.6 < answered.mean() < 1
        everything = cross_val_score(LogisticRegression(), X, y, cv=3).mean()
        assert (answers == y)[answered].mean() > everything
    search = GridSearchCV(inside, {"coverage": [0.5, 0.9]}, cv=2).fit(X, y)
    assert search.best_params_ == {"coverage": 0.9}  # a refusal counts as a mistake


def test_frozen_estimator_survives_cloning():
    X, y = noisy()
    frozen = FrozenEstimator(LogisticRegression().fit(X[:200], y[:200]))
    model = RejectingClassifier(frozen, coverage=0.5, cv="prefit")
    again = clone(model).fit(X[200:], y[200:])
    assert again.threshold_ == model.fit(X[200:], y[200:]).threshold_


def test_real_digits_are_answered_within_the_guarantee():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    fit, new = order[:1200], order[1200:]
    model = RejectingClassifier(KNeighborsClassifier(), max_error=0.02, random_state=0)
    model.fit(X[fit], y[fit])
    answered, answers = model.accepts(X[new]), model.predict(X[new])
    assert 0.8 < answered.mean() < 1
    assert (answers != y[new])[answered].mean() <= 0.02


@pytest.mark.parametrize("label", [0.25, "none", None])
def test_score_counts_refusals_of_any_kind_as_mistakes(label):
    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200]
    model = RejectingClassifier(
        KNeighborsClassifier(), coverage=0.5, reject_label=label, random_state=0
    ).fit(X, y)
    right = model.accepts(X) & (model.estimator_.predict(X) == y)
    assert model.score(X, y) == pytest.approx(right.mean())
    weights = np.arange(1.0, len(y) + 1)
    expected = np.average(right, weights=weights)
    assert model.score(X, y, weights) == pytest.approx(expected)
    with pytest.raises(ValueError, match="y must have one label per sample"):
        model.score(X, y[1:])


def test_copies_are_told():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = rng.standard_normal((300, 10)) + 0.35 * y[:, None]
    model = RejectingClassifier(
        RandomForestClassifier(5, random_state=0), max_error=0.2, random_state=0
    )
    twice = np.tile(X, (2, 1))
    for given in (twice, twice.astype(np.float32), pd.DataFrame(twice)):
        with pytest.warns(UserWarning, match=r"of \d+ samples held out equal others"):
            model.fit(given, np.tile(y, 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
        # Two places are not many, nor is a place where both classes are.
        model.fit(np.concatenate([X, X[:2], X]), np.concatenate([y, y[:2], 1 - y]))
    assert not any("equal others" in str(warning.message) for warning in caught)


def test_what_is_wrong_with_labels_and_shapes_is_told():
    X, y = noisy()
    model = RejectingClassifier(LogisticRegression(), coverage=0.5)
    with pytest.raises(ValueError, match=r"^y must hold at least 2 classes"):
        model.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match=r"X.reshape\(len\(X\), -1\)"):
        model.fit(X, y).predict(X.reshape(len(X), 2, -1))


def test_accuracy_of_the_answers_beside_that_of_all():
    X, y = load_digits(return_X_y=True)
    model = RejectingClassifier(GaussianNB(), max_error=0.15, random_state=0).fit(
        X[:900], y[:900]
    )
    X, y, weight = X[900:], y[900:], np.arange(897) % 3
    answered, right = model.accepts(X), model.predict(X) == y
    assert 0 < answered.mean() < 1
    np.testing.assert_allclose(model.selective_accuracy(X, y), right[answered].mean())
    np.testing.assert_allclose(
        model.selective_accuracy(X, y, weight),
        (right * weight)[answered].sum() / weight[answered].sum(),
    )
    assert model.score(X, y) < model.selective_accuracy(X, y)
    assert np.isnan(model.selective_accuracy(X[~answered], y[~answered]))
