"""The look: ink that is seen on any background, names that are told apart."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.text import Text

from widemargin.inspection import (
    AlignmentDisplay,
    BoundDisplay,
    ErrorRejectDisplay,
    MarginDistributionDisplay,
    PrototypeDisplay,
    RelevanceDisplay,
    TangentDisplay,
)
from widemargin.inspection.style import LONGEST_NAME, series_style, short, stage_colours

rng = np.random.default_rng(0)
X = rng.normal(size=(6, 16))
names = [f"feature {k}" for k in range(16)]
moved = {"x": X[0], "y": X[1], "x_aligned": X[2], "y_aligned": X[3]}
DISPLAYS = [
    MarginDistributionDisplay(margins={"a": X[0], "b": X[1]}, theta=0.2),
    BoundDisplay(counts=[1, 2], bounds=[3.0, 2.0], errors=[0.2, 0.1]),
    PrototypeDisplay(prototypes=X, labels=[0, 0, 1, 1, 2, 2], shape=(4, 4)),
    PrototypeDisplay(prototypes=X),
    RelevanceDisplay(matrix=X.T @ X, feature_names=names),
    TangentDisplay(sample=X[0], tangents=X[1:], shape=(4, 4)),
    TangentDisplay(sample=X[0], tangents=X[1:]),
    AlignmentDisplay(**moved, tangent_distance=1.0, shape=(4, 4)),
    AlignmentDisplay(**moved, tangent_distance=1.0),
]


@pytest.mark.parametrize("display", DISPLAYS, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("name", ["default", "dark_background"])
def test_text_and_lines_are_seen_on_any_background(display, name):
    with plt.style.context(name):
        figure = display.plot().figure_
        figure.canvas.draw()
        paper = np.mean(to_rgb(figure.get_facecolor()))
    texts = [text for text in figure.findobj(Text) if text.get_text().strip()]
    assert texts
    for text in texts:
        assert abs(np.mean(to_rgb(text.get_color())) - paper) > 0.5, text
    for line in figure.findobj(Line2D):
        assert abs(np.mean(to_rgb(line.get_color())) - paper) > 0.15, line


def test_colours_of_series_are_seen_on_dark_paper():
    with plt.style.context("dark_background"):
        shown = [series_style(k)["color"] for k in range(7)] + stage_colours(5)
    assert min(np.mean(to_rgb(colour)) for colour in shown) > 0.25


def test_long_names_are_told_apart_by_their_ends():
    long = [f"a very long feature name of column {k}" for k in range(8)]
    assert len({short(name) for name in long}) == 8
    assert {len(short(name)) for name in long} == {LONGEST_NAME}
    assert short("brief") == "brief"


def test_a_curve_of_one_point_is_seen():
    display = ErrorRejectDisplay.from_predictions([0, 1], [0, 0], [1.0, 1.0])
    assert display.lines_[0].get_marker() == "o"
