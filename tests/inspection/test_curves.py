"""Displays of curves: what is drawn is what was measured."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.inspection.stand_ins import Prototypes

from widemargin.inspection import (
    BoundDisplay,
    ErrorRejectDisplay,
    MarginDistributionDisplay,
    SampleWeightDisplay,
    TrainingCurveDisplay,
)
from widemargin.margins import confidence_of, error_reject_curve
from widemargin.meta import RejectingClassifier
from widemargin.prototypes import GLVQClassifier

X, y = load_iris(return_X_y=True)


def height_at(line, x):
    """Value of a drawn step curve (where="post") at x."""
    xs, heights = line.get_data()
    return heights[np.searchsorted(xs, x, side="right") - 1]


class TestMarginDistribution:
    def test_curve_counts_the_samples_at_or_below(self):
        margins = np.random.default_rng(0).normal(size=37).round(1)
        display = MarginDistributionDisplay(margins={"a": margins}).plot()
        for value in np.unique(margins):
            counted = 100 * np.mean(margins <= value)
            assert height_at(display.lines_[0], value) == pytest.approx(counted)

    def test_from_estimator_takes_the_estimators_own_margins(self):
        model = Prototypes(theta=0.4).fit(X, y)
        display = MarginDistributionDisplay.from_estimator(model, X, y)
        assert list(display.margins) == ["Prototypes"]
        np.testing.assert_array_equal(
            display.margins["Prototypes"], model.margins(X, y)
        )
        assert display.theta == 0.4
        wrong = 100 * np.mean(model.predict(X) != y)
        assert height_at(display.lines_[0], 0) == pytest.approx(wrong)

    def test_from_estimator_makes_margins_of_scores(self):
        for model in (LogisticRegression(max_iter=500), GaussianNB()):
            model.fit(X, y)
            display = MarginDistributionDisplay.from_estimator(model, X, y, name="m")
            right = model.predict(X) == y
            np.testing.assert_array_equal(display.margins["m"] > 0, right)

    def test_binary_scores_belong_to_the_second_class(self):
        display = MarginDistributionDisplay.from_predictions(
            ["n", "y", "y"], [-2.0, 3.0, -0.5]
        )
        np.testing.assert_array_equal(display.margins[""], [2.0, 3.0, -0.5])
        assert display.ax_.get_legend() is None

    def test_stages_share_the_axes_they_are_given(self):
        ax = plt.figure().add_subplot()
        early, late = Prototypes(0.1).fit(X[::10], y[::10]), Prototypes(0.2).fit(X, y)
        display = MarginDistributionDisplay.from_estimator(
            {"early": early, "late": late}, X, y, ax=ax
        )
        assert display.ax_ is ax
        assert display.figure_ is ax.figure
        assert display.theta is None  # they disagree
        assert [line.get_label() for line in display.lines_] == ["early", "late"]
        colours = {line.get_color() for line in display.lines_}
        assert len(colours) == 2

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: MarginDistributionDisplay(margins={"a": [np.nan]}).plot(), "NaN"),
            (
                lambda: MarginDistributionDisplay.from_predictions(
                    [0, 1], [[0, 1, 2], [0, 1, 2]]
                ),
                "classes",
            ),
            (
                lambda: MarginDistributionDisplay.from_predictions(
                    [0, 7], [0.0, 1.0], classes=[0, 1]
                ),
                "no score",
            ),
            (
                lambda: MarginDistributionDisplay.from_estimator(object(), X, y),
                "none of margins, decision_function, predict_proba",
            ),
            (lambda: MarginDistributionDisplay.from_estimator({}, X, y), "empty"),
        ],
    )
    def test_bad_input_is_named(self, make, words):
        with pytest.raises(ValueError, match=words):
            make()


class TestErrorReject:
    def test_curve_is_the_error_of_what_is_left(self):
        rng = np.random.default_rng(1)
        truth, answers = rng.integers(0, 2, (2, 50))
        sure = rng.random(50)
        display = ErrorRejectDisplay.from_predictions(truth, answers, sure)
        refused, error = display.lines_[0].get_data()
        order = np.argsort(sure)
        for k in range(50):
            left = order[k:]
            expected = 100 * np.mean(truth[left] != answers[left])
            at = np.flatnonzero(np.isclose(refused, 2 * k))[0]
            assert error[at] == pytest.approx(expected)

    def test_a_refusing_classifier_is_judged_by_its_complete_answers(self):
        plain = LogisticRegression(max_iter=500).fit(X, y)
        refusing = RejectingClassifier(plain, coverage=0.3, cv="prefit").fit(X, y)
        assert (refusing.predict(X) == -1).any()
        display = ErrorRejectDisplay.from_estimator(
            {"plain": plain, "refusing": refusing}, X, y
        )
        a, b = display.curves.values()
        np.testing.assert_array_equal(a.error_rate, b.error_rate)

    def test_confidence_is_looked_for_inside_pipelines(self):
        plain = make_pipeline(StandardScaler(), GLVQClassifier(max_iter=3)).fit(X, y)
        refusing = RejectingClassifier(plain, coverage=0.3, cv="prefit").fit(X, y)
        curves = ErrorRejectDisplay.from_estimator({"a": plain, "b": refusing}, X, y)
        expected = error_reject_curve(y, plain.predict(X), confidence_of(plain, X))
        for curve in curves.curves.values():
            np.testing.assert_array_equal(curve.error_rate, expected.error_rate)
        margins = MarginDistributionDisplay.from_estimator(plain, X, y, name="a")
        np.testing.assert_array_equal(
            margins.margins["a"], plain[1].margins(plain[0].transform(X), y)
        )

    def test_several_classifiers_and_a_limit(self):
        answers = {"a": y, "b": np.roll(y, 1)}
        sure = {"b": np.arange(150.0), "a": np.arange(150.0)}
        display = ErrorRejectDisplay.from_predictions(
            y, answers, sure, max_rejection=0.5
        )
        labels = [line.get_label() for line in display.lines_]
        assert labels[0] == "a (AURC 0 %)"
        assert labels[1].startswith("b (AURC ")
        assert all(line.get_xdata().max() <= 50 for line in display.lines_)
        assert not display.lines_[0].get_ydata().any()
        with pytest.raises(ValueError, match="same names as y_pred: a, b"):
            ErrorRejectDisplay.from_predictions(y, answers, {"a": sure["a"]})


class TestSampleWeights:
    def test_weights_follow_the_rule_of_the_paper(self):
        margins = np.random.default_rng(0).uniform(-1, 1, (6, 20))
        display = SampleWeightDisplay.from_margins(margins, 0.2, rounds=[1, 4, 7])
        for number, name in ((1, "round 1"), (4, "round 4"), (7, "round 7")):
            times_below = (margins[: number - 1] < 0.2).sum(axis=0)
            np.testing.assert_array_equal(display.weights[name], 1 + times_below)

    def test_curve_is_sorted_and_relative_to_the_mean(self):
        display = SampleWeightDisplay(weights={"a": [1.0, 5.0, 0.0, 2.0]}).plot()
        share, heights = display.lines_[0].get_data()
        np.testing.assert_allclose(heights, [2.5, 1.0, 0.5, 0.0, 0.0])
        np.testing.assert_allclose(share, [0, 25, 50, 75, 100])

    def test_from_estimator_reads_the_record(self):
        rounds = [np.full(5, 0.2), np.array([0.4, 0.3, 0.1, 0.1, 0.1])]
        recorded = SimpleNamespace(history_={"weights": rounds})
        display = SampleWeightDisplay.from_estimator(recorded)
        assert list(display.weights) == ["round 1", "round 2"]
        np.testing.assert_array_equal(display.weights["round 2"], rounds[1])
        last = SimpleNamespace(history_={"loss": [1.0]}, sample_weight_=rounds[1])
        assert list(SampleWeightDisplay.from_estimator(last).weights) == ["last round"]
        with pytest.raises(ValueError, match="record_weights=True"):
            SampleWeightDisplay.from_estimator(SimpleNamespace(history_={}))
        with pytest.raises(ValueError, match="from 1 to 2; got 3"):
            SampleWeightDisplay.from_estimator(recorded, rounds=[3])

    def test_rounds_without_mistakes_leave_the_weights(self):
        display = SampleWeightDisplay.from_margins([[1.0, 1.0], [1.0, 1.0]], 0.5)
        np.testing.assert_array_equal(display.weights["round 3"], [1.0, 1.0])


class TestTrainingCurve:
    def test_a_score_is_drawn_as_an_error_beside_the_errors(self):
        model = SimpleNamespace(
            history_={
                "loss": [3.0, 2.0],
                "train_error": [0.5, 0.25],
                "validation_score": [0.4, 0.7],
                "margin_quantiles": [[0, 1], [0, 1]],
                "rate": [1.0, 1.0],
            }
        )
        display = TrainingCurveDisplay.from_estimator(model)
        loss, errors = display.axes_[0]
        assert (loss.get_ylabel(), errors.get_ylabel()) == ("loss", "error, %")
        drawn = {line.get_label(): line.get_ydata() for line in errors.lines}
        np.testing.assert_allclose(drawn["train error"], [50, 25])
        np.testing.assert_allclose(drawn["validation error"], [60, 30])
        np.testing.assert_array_equal(errors.lines[0].get_xdata(), [1, 2])

    @pytest.mark.parametrize(
        "history",
        [[3.0, 2.0], [{"loss": 3.0}, {"loss": 2.0}], {"loss": [3.0, 2.0]}],
        ids=["list", "list of dicts", "dict"],
    )
    def test_histories_of_every_kind(self, history):
        display = TrainingCurveDisplay.from_estimator(SimpleNamespace(history_=history))
        np.testing.assert_array_equal(display.ax_.lines[0].get_ydata(), [3.0, 2.0])

    def test_a_single_pass_is_seen(self):
        one = SimpleNamespace(history_={"loss": [0.5]})
        display = TrainingCurveDisplay.from_estimator(one)
        assert display.ax_.lines[0].get_marker() == "o"

    def test_rivals_share_a_panel(self):
        rivals = {
            name: SimpleNamespace(history_={"train_error": [0.1], "test_error": [0.2]})
            for name in ("with", "without")
        }
        display = TrainingCurveDisplay.from_estimator(rivals)
        labels = [line.get_label() for line in display.ax_.lines]
        assert labels[0] == "with: train error"
        assert len(set(labels)) == 4

    def test_bad_input_is_named(self):
        model = SimpleNamespace(history_={"loss": [1.0]})
        with pytest.raises(ValueError, match="keys can be 'loss'"):
            TrainingCurveDisplay.from_estimator(model, keys=["error"])
        with pytest.raises(ValueError, match="Regression is not fitted; fit it"):
            TrainingCurveDisplay.from_estimator(LogisticRegression())
        with pytest.raises(ValueError, match="no quantity to draw"):
            TrainingCurveDisplay(histories={"a": {}}).plot()


class TestBound:
    def test_from_estimator_bounds_and_scores(self):
        models = [Prototypes().fit(X[::k], y[::k]) for k in (10, 1)]
        models[1].prototypes_ = np.repeat(models[1].prototypes_, 2, axis=0)[:3]
        display = BoundDisplay.from_estimator(
            models, X[1::2], y[1::2], theta=0.1, X_test=X[::2], y_test=y[::2], slack=2
        )
        expected = [
            m.margin_bound(X[1::2], y[1::2], theta=0.1, slack=2) for m in models
        ]
        assert display.bounds == expected
        assert display.errors == [1 - m.score(X[::2], y[::2]) for m in models]
        assert display.counts == [3, 3]

    def test_counts_are_drawn_in_order(self):
        display = BoundDisplay(counts=[40, 10, 20], bounds=[0.9, 0.5, 0.7]).plot()
        (line,) = display.ax_.lines
        np.testing.assert_allclose(line.get_xdata(), [10, 20, 40])
        np.testing.assert_allclose(line.get_ydata(), [50, 70, 90])

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match="3 counts but 2 values of the held-out"):
            BoundDisplay(counts=[1, 2, 3], bounds=[1, 2, 3], errors=[0, 0]).plot()
        with pytest.raises(ValueError, match="estimators is empty"):
            BoundDisplay.from_estimator([], X, y, theta=0.1)
        with pytest.raises(ValueError, match="both of X_test and y_test"):
            BoundDisplay.from_estimator(
                [Prototypes().fit(X, y)], X, y, theta=0.1, X_test=X
            )


def test_without_matplotlib_the_way_out_is_told():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from widemargin.inspection import BoundDisplay\n"
        "display = BoundDisplay(counts=[1], bounds=[1])\n"
        "try:\n    display.plot()\n"
        "except ImportError as error:\n    print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install widemargin[plot]" in result.stdout
