"""Pictures of class models: limits, dots, extremes and their band."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from widemargin import ConformalClassifier, HSSClassifier
from widemargin.inspection import AcceptanceDisplay, ExtremesDisplay

X, y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[y]
MODEL = ConformalClassifier(HSSClassifier(1, n_tangents=1), alpha=0.1, random_state=0)
MODEL.fit(X[::2], NAMES[::2])
FRESH, TRUTH = X[1::2], NAMES[1::2]


def test_dots_beyond_the_limits_are_those_refused():
    display = AcceptanceDisplay.from_estimator(
        MODEL, FRESH, TRUTH, classes=("versicolor", "virginica")
    )
    accepted = np.asarray(display.scores) <= display.limits
    np.testing.assert_array_equal(accepted, MODEL.predict_set(FRESH)[:, 1:])
    assert len(display.ax_.collections) == 3 + 0 * len(display.ax_.patches)
    lines = [line.get_xdata()[0] for line in display.ax_.lines[:1]]
    assert lines == [display.limits[0]]
    assert display.ax_.get_xscale() == "log"


def test_limits_of_every_level_are_those_of_the_p_values():
    p, scores = MODEL.p_values(FRESH), MODEL._scores(MODEL.estimator_, FRESH)
    for alpha in (0.1, 0.15, 0.3, 0.77):
        np.testing.assert_array_equal(
            scores <= MODEL.acceptance_limits(alpha), p > alpha
        )


def test_many_classes_have_dots_of_their_own():
    labels = np.arange(30) % 15
    display = AcceptanceDisplay(
        scores=np.ones((30, 2)), y=labels, limits=(1.0, 1.0), names=("3", "8")
    ).plot()
    looks = {
        (tuple(dots.get_facecolor()[0]), dots.get_paths()[0].vertices.tobytes())
        for dots in display.ax_.collections
        if len(dots.get_offsets())
    }
    assert len(looks) == 15


def test_one_class_stands_in_a_row():
    model = ConformalClassifier(
        HSSClassifier(1, n_tangents=1), one_class=True, alpha=0.1, random_state=0
    ).fit(X[:50:2], NAMES[:50:2])
    display = AcceptanceDisplay.from_estimator(model, FRESH, TRUTH)
    assert display.ax_.get_ylabel() == "sample"


def test_extremes_are_counted():
    display = ExtremesDisplay.from_estimator(MODEL, FRESH, TRUTH, classes=["virginica"])
    p = MODEL.p_values(FRESH)[TRUTH == "virginica", 2]
    line = display.lines_[0]
    for alpha, seen in zip(line.get_xdata(), line.get_ydata(), strict=True):
        assert seen == pytest.approx(100 * np.mean(p <= alpha / 100 + 1e-9))
    assert len(display.ax_.collections) == 1
    assert len(ExtremesDisplay.from_estimator(MODEL, FRESH, TRUTH).lines_) == 3


def test_folds_have_extremes_and_no_limits():
    model = ConformalClassifier(HSSClassifier(1, n_tangents=1), alpha=0.1, cv=3)
    model.fit(X[::2], NAMES[::2])
    assert len(ExtremesDisplay.from_estimator(model, FRESH, TRUTH).lines_) == 3
    with pytest.raises(ValueError, match="cv=3 compares 3 models"):
        AcceptanceDisplay.from_estimator(model, FRESH, TRUTH)


def test_bad_input():
    with pytest.raises(ValueError, match="classes holds 'rose'"):
        ExtremesDisplay.from_estimator(MODEL, FRESH, TRUTH, classes=["rose"])
    with pytest.raises(ValueError, match="classes must be two labels"):
        AcceptanceDisplay.from_estimator(MODEL, FRESH, TRUTH, classes=["setosa"])
    with pytest.raises(ValueError, match="acceptance_limits"):
        AcceptanceDisplay.from_estimator(HSSClassifier().fit(X, y), FRESH, TRUTH)
    with pytest.raises(ValueError, match="scores must have shape"):
        AcceptanceDisplay(scores=[[1.0]], limits=[1.0], y=[0], names=["a", "b"]).plot()
    with pytest.raises(ValueError, match="between 0 and 1"):
        ExtremesDisplay(p_values={"a": [2.0]}).plot()
    with pytest.raises(ValueError, match="p_values is empty"):
        ExtremesDisplay(p_values={}).plot()
