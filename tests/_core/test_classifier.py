"""The contract of MarginClassifier, on the smallest classifier there can be."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from widemargin._core.checks import check_number, warn_caller
from widemargin._core.classifier import MarginClassifier, fit_method
from widemargin._core.confidence import answers_of, confidence_of, margins_of
from widemargin._core.decisions import class_codes, label_margins
from widemargin._core.samples import Samples, check_samples, merge_duplicates
from widemargin.meta import RejectingClassifier
from widemargin.neighbors import TangentKNeighborsClassifier


class NearestMean(MarginClassifier):
    """Thirty lines are enough for a classifier of the house."""

    margin_unit = "distance"

    def __init__(self, fail=False):
        self.fail = fail

    @fit_method
    def fit(self, X, y, sample_weight=None):
        samples = check_samples(self, X, y, sample_weight)
        self.classes_ = samples.classes
        if self.fail:
            self.means_ *= np.nan
            raise RuntimeError("half way")
        self.means_ = np.array(
            [
                np.average(samples.X[of], axis=0, weights=samples.weights[of])
                for of in (samples.codes == c for c in range(len(self.classes_)))
            ]
        )
        return self

    def _class_scores(self, X):
        return -np.linalg.norm(X[:, None] - self.means_, axis=2)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_everything_follows_from_the_scores(n_classes):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(60, 3))
    y = np.array([f"c{i}" for i in np.arange(60) % n_classes])
    model = NearestMean().fit(X, y)
    answer = model.predict(X)
    decision = model.decision_function(X)
    if n_classes == 2:
        np.testing.assert_array_equal(answer, model.classes_[(decision > 0) * 1])
    else:
        np.testing.assert_array_equal(answer, model.classes_[decision.argmax(1)])
    for label in model.classes_:
        margins = model.margins(X, np.repeat(label, 60))
        np.testing.assert_array_equal(margins > 0, answer == label)
    confidence = model.confidence(X)
    assert np.all(confidence >= 0)
    np.testing.assert_array_equal(confidence, model.margins(X, answer))
    np.testing.assert_array_equal(confidence, confidence_of(model, X))


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = np.arange(6.0).reshape(-1, 1), [0, 0, 0, 1, 1, 1]
    model = NearestMean().fit(X, y)
    expected = model.decision_function(X)
    with pytest.raises(RuntimeError):
        model.set_params(fail=True).fit(X, list("abcabc"))
    np.testing.assert_array_equal(model.decision_function(X), expected)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(np.ones((4, 2)), [0, 1])
    assert model.n_features_in_ == 1


def test_labels_are_checked_in_one_place():
    model = NearestMean().fit([[0.0], [1.0]], ["a", "b"])
    with pytest.raises(ValueError, match=r"y contains 'c', which .* are 'a', 'b'"):
        model.margins([[0.0]], ["c"])
    with pytest.raises(ValueError, match="X has 2 samples and y has 1"):
        model.margins([[0.0], [1.0]], ["a"])
    with pytest.raises(NotFittedError):
        NearestMean().confidence([[0.0]])
    mixed = np.array([1, "a"], object)
    assert class_codes(mixed, mixed).tolist() == [0, 1]
    with pytest.raises(ValueError, match="y contains 1, which"):
        class_codes([1], np.array(["1", "2"]))


def test_label_margins_of_impossible_classes_tie():
    scores = np.array([[-np.inf, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf]])
    expected = [[-np.inf, -np.inf, np.inf], [0, 0, 0]]
    np.testing.assert_array_equal(label_margins(scores), expected)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        SVC(),
        make_pipeline(StandardScaler(), SVC()),
        make_pipeline(StandardScaler(), NearestMean()),
        GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 2]}),
    ],
)
def test_foreign_classifiers_and_pipelines_say_how_sure_they_are(model):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)) * [1, 100], np.arange(60) % 3
    X[:, 0] += y
    model.fit(X, y)
    answer = model.predict(X)
    np.testing.assert_array_equal(confidence_of(model, X), margins_of(model, X, answer))
    for label in range(3):
        right = margins_of(model, X, np.repeat(label, 60)) > 0
        np.testing.assert_array_equal(right, answer == label)


def test_duels_of_a_machine_are_votes():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 4
    X = rng.normal(size=(80, 2)) + np.c_[y, y % 2]
    model = SVC(decision_function_shape="ovo").fit(X, y)
    margins = margins_of(model, X, model.predict(X))
    assert np.all(margins > 0)
    np.testing.assert_array_equal(margins, confidence_of(model, X))


def test_a_class_out_of_the_question_leaves_a_finite_confidence():
    class Certain(LogisticRegression):
        def decision_function(self, X):
            return np.where(super().decision_function(X) > 0, np.inf, -np.inf)

    model = Certain().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    assert np.isfinite(confidence_of(model, [[0.0], [3.0]])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [1.0, 1e8])
def test_a_large_feature_hides_no_duplicates(dtype, constant):
    rng = np.random.default_rng(0)
    rows = np.c_[rng.normal(size=(200, 3)), np.full(200, constant)].astype(dtype)
    X, codes = np.tile(rows, (2, 1)), np.zeros(400, int)
    merged = merge_duplicates(
        Samples(X, codes, np.ones(400), np.array([0]), np.arange(400))
    )
    np.testing.assert_array_equal(merged.weights, 2)
    order = rng.permutation(400)
    other = merge_duplicates(
        Samples(X[order], codes, np.ones(400), np.array([0]), np.arange(400))
    )
    np.testing.assert_array_equal(merged.X, other.X)


def test_merged_duplicates_know_where_they_went():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, size=(50, 2)).astype(float), rng.integers(0, 2, 50)
    samples = check_samples(NearestMean(), X, y, rng.integers(0, 3, 50))
    merged = merge_duplicates(samples)
    np.testing.assert_array_equal(merged.X[merged.inverse], samples.X)
    np.testing.assert_array_equal(merged.codes[merged.inverse], samples.codes)
    totals = np.bincount(merged.inverse, samples.weights)
    np.testing.assert_array_equal(merged.weights, totals)
    assert len(np.unique(np.c_[merged.X, merged.codes], axis=0)) == len(merged)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 0, True, "1", None])
def test_numbers_are_numbers(value):
    with pytest.raises(ValueError, match="eta must be a finite number above 0; got"):
        check_number("eta", value, above=0)


def test_warnings_point_at_the_caller():
    with pytest.warns(UserWarning, match="look here") as caught:
        warn_caller("look here")
    assert caught[0].filename == __file__
    # Through a decorator, a base class and scikit-learn.
    with pytest.warns(UserWarning, match="could not be shown") as caught:
        RejectingClassifier(NearestMean(), max_error=0.01).fit(
            np.arange(9.0)[:, None], np.arange(9) % 2
        )
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "model",
    [
        FixedThresholdClassifier(LogisticRegression(), threshold=0.1),
        FixedThresholdClassifier(
            LogisticRegression(),
            threshold=0.7,
            pos_label=0,
            response_method="decision_function",
        ),
        TunedThresholdClassifierCV(LogisticRegression(), scoring="f1", cv=3),
        # Answers by vote, scores by mean.
        BaggingClassifier(LinearSVC(), 5, max_samples=0.1, random_state=0),
    ],
    ids=["probability", "decision", "tuned", "vote"],
)
def test_margins_are_positive_for_the_answer_of_other_peoples_models(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 0) * 1
    model.fit(X, y)
    answers = model.predict(X)
    assert (answers != y).any()
    for label in (0, 1):
        margins = margins_of(model, X, np.full(300, label))
        np.testing.assert_array_equal(margins > 0, answers == label)
    np.testing.assert_array_equal(
        margins_of(model, X, answers), confidence_of(model, X)
    )
    told = answers_of(model, X, answers)
    np.testing.assert_array_equal(told.confidence, told.margins)
    if hasattr(model, "response_method"):
        # They fall to nothing at the threshold, and not only beyond it.
        margins = margins_of(model, X, np.ones(300))
        beyond, before = margins[margins > 0].min(), -margins[margins <= 0].max()
        assert max(beyond, before) < 0.1 * np.ptp(margins)


def test_answers_about_a_frame():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = TangentKNeighborsClassifier(tangents="none").fit(X, y)
    other = np.roll(y, 7)
    told = answers_of(model, X, other)
    np.testing.assert_array_equal(told.margins, margins_of(model, X, other))
