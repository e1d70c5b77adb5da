"""Draw the pictures of the README again: python docs/pictures.py."""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from widemargin.cli.demo import LABELS_PER_CLASS, SHAPE, tell_story
from widemargin.tangents import ImageTangents

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"


def draw_hero(story, path):
    """Draw a digit along three tangents, and the error they save, to be read small."""
    figure = plt.figure(figsize=(9.6, 3.9), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    directions = {"x_shift": "shift", "rotation": "rotation", "thickness": "thickness"}
    digit = story.images[story.query].reshape(1, -1)
    axes = left.subplots(3, 5)
    for row, (direction, name) in zip(axes, directions.items(), strict=True):
        tangent = ImageTangents(SHAPE, direction).tangents(digit)[:, 0]
        step = 0.35 * np.linalg.norm(digit) / np.linalg.norm(tangent)
        for ax, p in zip(row, (-2, -1, 0, 1, 2), strict=True):
            moved = (digit + p * step * tangent).reshape(SHAPE)
            ax.imshow(moved, cmap="gray_r", vmin=0, vmax=digit.max())
            ax.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, fontsize=16)
    ax = right.subplots()
    places = np.arange(len(LABELS_PER_CLASS))
    colours = ("#9aa5b1", "#d64545")
    for side, ((name, values), colour) in enumerate(
        zip(story.errors.items(), colours, strict=True)
    ):
        shown = 100 * np.array(values)
        ax.bar(places + 0.4 * side - 0.2, shown, 0.4, color=colour, label=name)
    ax.set_xticks(places, LABELS_PER_CLASS, fontsize=15)
    ax.set_xlabel("labelled images per class", fontsize=15)
    ax.set_ylabel("1-NN error, %", fontsize=15)
    ax.tick_params(axis="y", labelsize=13)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=15, title="distance", title_fontsize=15)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Run the README's picture and the demonstration, and save what they draw."""
    text = (ROOT / "README.md").read_text()
    snippet = re.search(r"```python\n(import matplotlib.*?)```", text, re.DOTALL)
    plt.figure(figsize=(8, 1.8), layout="constrained")
    exec(snippet.group(1), {})
    plt.axis("off")
    plt.savefig(IMAGES / "turned.png", dpi=110)
    draw_hero(tell_story(), IMAGES / "hero.png")


if __name__ == "__main__":
    main()
