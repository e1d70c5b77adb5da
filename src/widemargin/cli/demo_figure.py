"""The picture of the demonstration: a digit along its tangents, and the gain."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from widemargin.cli.demo import LABELS_PER_CLASS, SHAPE, Story
from widemargin.tangents import ImageTangents

SWEEP = (-1.2, -0.6, 0.0, 0.6, 1.2)
INK = "#1f2933"
EUCLID, TANGENT = "#9aa5b1", "#d64545"


def sweep(image: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Images x + p t for every direction and every p: (directions, steps, h, w)."""
    generator = ImageTangents(shape=SHAPE)
    tangents = generator.tangents(image.reshape(1, -1))[0]
    # Equal steps in grey value, so that every row shows a change of the same size.
    tangents = tangents / np.abs(tangents).max(axis=1, keepdims=True)
    steps = 0.5 * np.array(SWEEP)[:, None] * tangents[:, None]
    names = ("shift x", "shift y", "scale", "rotate", "stretch", "shear", "thickness")
    return names, (image.reshape(-1) + steps).reshape(len(names), len(SWEEP), *SHAPE)


def draw(story: Story, path: Path) -> None:
    """Save the figure as PNG."""
    with matplotlib.rc_context({"font.size": 10, "text.color": INK}):
        layout = ConstrainedLayoutEngine(wspace=0.06)
        figure = Figure(figsize=(12.6, 5.6), dpi=150, layout=layout)
        parts = figure.subfigures(1, 3, width_ratios=(1.05, 1.1, 1.1), squeeze=False)
        left, middle, right = parts[0]
        _draw_sweep(left, story)
        _draw_case(middle, story)
        _draw_errors(right, story)
        figure.savefig(path, format="png", facecolor="white")


def _show(axes, image, title="", signed=False):
    limits = (-1, 1) if signed else (0, 1)
    colours = "RdBu_r" if signed else "gray_r"
    axes.imshow(image, cmap=colours, vmin=limits[0], vmax=limits[1])
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color("#cbd2d9")
    axes.set_title(title, fontsize=9, color=INK)


def _draw_sweep(figure, story: Story) -> None:
    figure.suptitle("What may vary: one digit along its tangents", fontsize=11)
    names, images = sweep(story.images[story.query])
    grid = figure.subplots(len(names), len(SWEEP))
    for row, name, strip in zip(grid, names, images, strict=True):
        for axes, image in zip(row, strip, strict=True):
            _show(axes, image)
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)


def _draw_case(figure, story: Story) -> None:
    figure.suptitle("How far: each image moves before it is measured", fontsize=11)
    grid = figure.subplots(2, 3)
    pairs = ((story.relative, 0), (story.lookalike, 1))
    for row, (other, k) in zip(grid, pairs, strict=True):
        label = story.labels[other]
        residual = story.alignment.residual[k].reshape(SHAPE)
        _show(row[0], story.images[story.query], f"a {story.labels[story.query]}")
        _show(row[1], story.images[other], f"a {label}")
        _show(row[2], residual, "what differs\nafter moving", signed=True)
        row[1].set_xlabel(
            f"Euclidean {story.euclid[other]:.2f}   tangent {story.tangent[other]:.2f}",
            fontsize=10,
            color=INK,
            labelpad=8,
        )


def _draw_errors(figure, story: Story) -> None:
    figure.suptitle("What it buys: 1-NN error with few labels", fontsize=11)
    axes = figure.subplots()
    places = np.arange(len(LABELS_PER_CLASS))
    for offset, (name, values), colour in zip(
        (-0.2, 0.2), story.errors.items(), (EUCLID, TANGENT), strict=True
    ):
        percent = 100 * np.array(values)
        bars = axes.bar(places + offset, percent, 0.38, color=colour, label=name)
        axes.bar_label(bars, fmt="%.1f", fontsize=9, padding=2)
    axes.set_xticks(places, [str(count) for count in LABELS_PER_CLASS])
    axes.set_xlabel("labelled images per class")
    axes.set_ylabel("error, %")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
