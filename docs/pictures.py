"""Draw the pictures of the README again: python docs/pictures.py.

The curves of few_labels.png are the numbers that `benchmarks/few_labels.py` printed, in
the table of `benchmarks/few_labels.md`; its digits are MNIST's, found through
`WIDEMARGIN_DATA`.
"""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from widemargin.cli.story import (
    LABELS_PER_CLASS,
    SHAPE,
    errors_with_few_labels,
    find_case,
)
from widemargin.datasets import load_mnist
from widemargin.tangents import ImageTangents

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
INK = "#1f2933"


def draw_hero(case, errors, path):
    """Draw a digit along three tangents, and the error they save, to be read small."""
    figure = plt.figure(figsize=(9.6, 3.9), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    directions = {"x_shift": "shift", "rotation": "rotation", "thickness": "thickness"}
    digit = case.images[case.query].reshape(1, -1)
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
        zip(errors.items(), colours, strict=True)
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


def errors_by_labels():
    """Return labels per class, and errors of three models, of the benchmark's draws."""
    page = (ROOT / "benchmarks" / "few_labels.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.split("## MNIST,")[1].split("\n## ")[0].splitlines()
        if re.match(r"\| (\d+, \d+ draw|labels)", line)
    ]
    head, *body = rows
    wanted = {"error %": [], "SVC": [], "nearest neighbour": []}
    for name, values in wanted.items():
        for row in body:
            values.append(float(re.match(r"[\d.]+", row[head.index(name)])[0]))
    return [int(row[0].split(",")[0]) for row in body], wanted


# Bruna and Mallat, Invariant scattering convolution networks, IEEE PAMI 35 (2013):
# 300 labelled digits, the same number of each class.
SCATTERING = {30: 4.7}


def draw_few_labels(path):
    """Draw ten labelled digits, and the error by the number of labels per class."""
    labels, errors = errors_by_labels()
    X, y = load_mnist(subset="train", return_X_y=True)
    figure = plt.figure(figsize=(9.6, 4.1), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.45))
    axes = left.subplots(4, 3)
    left.suptitle("one label of each class …", fontsize=15, color=INK)
    for ax, digit in zip(axes.ravel(), [*range(1, 10), None, 0, None], strict=True):
        ax.axis("off")
        if digit is not None:
            image = X[np.flatnonzero(np.asarray(y, int) == digit)[0]].reshape(28, 28)
            ax.imshow(image, cmap="gray_r")
    ax = right.subplots()
    right.suptitle("… and the error on 10 000 new digits", fontsize=15, color=INK)
    told = {
        "nearest neighbour": ("nearest neighbour", "#8592a0", 2, (4, 38)),
        "SVC": ("SVM", "#52606d", 2, (4, -21)),
        "error %": ("widemargin", "#d64545", 3.5, (5, 5)),
    }
    for key, (name, colour, width, offset) in told.items():
        ax.plot(labels, errors[key], "o-", color=colour, lw=width, ms=2.4 * width)
        # Beside the end of the curve; ours above its steepest part.
        place = (labels[-1], errors[key][-1])
        if key == "error %":
            place = np.sqrt([labels[0] * labels[1], errors[key][0] * errors[key][1]])
        ax.annotate(
            name, place, offset, textcoords="offset points", color=colour, fontsize=15,
            ha="left" if key == "error %" else "right",
            weight="bold" if key == "error %" else "normal",
        )  # fmt: skip
    for x, value in zip(labels, errors["error %"], strict=True):
        ax.annotate(
            f"{value:.1f} %", (x, value), (0, -21), textcoords="offset points",
            color="#d64545", fontsize=13, ha="center",
        )  # fmt: skip
    ((x, value),) = SCATTERING.items()
    ax.plot(x, value, "D", color="#1f5f8b", ms=8)
    ax.annotate(
        "scattering", (x, value), (-10, -5), textcoords="offset points",
        color="#1f5f8b", fontsize=15, ha="right",
    )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(0.72, 40), ylim=(0.95, 80))
    ax.set_xticks(labels, labels, fontsize=14)
    ax.set_yticks([1, 2, 5, 10, 20, 50], ["1 %", "2 %", "5 %", "10 %", "20 %", "50 %"])
    ax.tick_params(axis="y", labelsize=13)
    ax.minorticks_off()
    ax.set_xlabel("labelled images per class", fontsize=15)
    ax.grid(axis="y", color="#e4e8ec", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
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
    draw_hero(find_case(), errors_with_few_labels(), IMAGES / "hero.png")
    draw_few_labels(IMAGES / "few_labels.png")


if __name__ == "__main__":
    main()
