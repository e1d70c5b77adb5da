"""What a tangent is and what it buys: the first tables of ``widemargin demo``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.style import Style
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances

from widemargin.cli import text_table
from widemargin.metrics import Alignment, tangent_alignment, tangent_distances
from widemargin.tangents import ImageTangents

SHAPE = (8, 8)
LABELS_PER_CLASS = (1, 3, 10, 30)
DRAWS = 20
RAMP = " .:-=+*#%@"


@dataclass(frozen=True)
class Case:
    """One image and two labelled ones; indices are rows of `images`."""

    images: NDArray
    labels: NDArray
    query: int
    lookalike: int  # nearest by Euclid, another class
    relative: int  # nearest by tangent distance, the same class
    euclid: dict[int, float]
    tangent: dict[int, float]
    alignment: Alignment  # of the query with its relative, and with its lookalike


def find_case() -> Case:
    """Find the image that Euclid gets wrong and tangent distance right most clearly.

    Ten images per class are labelled: their distances take a second less than all.
    """
    images, labels = _images()
    generator = ImageTangents(shape=SHAPE)
    labelled = draw_labelled(labels, 10, seed=0)
    euclid = euclidean_distances(images, images[labelled])
    tangent = tangent_distances(
        images, images[labelled], tangents=generator, squared=False, n_jobs=-1
    )
    rest = np.setdiff1d(np.arange(len(images)), labelled)
    by_euclid, by_tangent = euclid[rest].argmin(axis=1), tangent[rest].argmin(axis=1)
    right = labels[rest]
    helped = (labels[labelled][by_euclid] != right) & (
        labels[labelled][by_tangent] == right
    )
    gain = tangent[rest, by_euclid] - tangent[rest, by_tangent]
    best = np.where(helped, gain, -np.inf).argmax()
    query, places = rest[best], (by_euclid[best], by_tangent[best])
    lookalike, relative = (int(labelled[place]) for place in places)
    return Case(
        images.reshape(-1, *SHAPE),
        labels,
        int(query),
        lookalike,
        relative,
        {int(labelled[place]): euclid[query, place] for place in places},
        {int(labelled[place]): tangent[query, place] for place in places},
        tangent_alignment(
            images[[query, query]], images[[relative, lookalike]], tangents=generator
        ),
    )


def errors_with_few_labels() -> dict[str, list[float]]:
    """Return 1-NN errors by name of the distance, for `LABELS_PER_CLASS`."""
    images, labels = _images()
    generator = ImageTangents(shape=SHAPE)
    tangent = tangent_distances(images, tangents=generator, squared=False, n_jobs=-1)
    return {
        name: [mean_error(distances, labels, n) for n in LABELS_PER_CLASS]
        for name, distances in (
            ("Euclidean", euclidean_distances(images)),
            ("tangent", tangent),
        )
    }


def _images() -> tuple[NDArray, NDArray]:
    """Return the digits, pixels in 0..1, and their labels."""
    images, labels = load_digits(return_X_y=True)
    return images / 16.0, labels


def draw_labelled(labels: NDArray, per_class: int, seed: int) -> NDArray:
    """Pick `per_class` samples of every class at random."""
    rng = np.random.default_rng(seed)
    picks = [
        rng.choice(np.flatnonzero(labels == label), per_class, replace=False)
        for label in np.unique(labels)
    ]
    return np.concatenate(picks)


def mean_error(distances: NDArray, labels: NDArray, per_class: int) -> float:
    """1-NN error on everything that is not labelled, over repeated draws."""
    errors = []
    for seed in range(DRAWS):
        labelled = draw_labelled(labels, per_class, seed)
        rest = np.setdiff1d(np.arange(len(distances)), labelled)
        nearest = labelled[distances[np.ix_(rest, labelled)].argmin(axis=1)]
        errors.append(np.mean(labels[nearest] != labels[rest]))
    return float(np.mean(errors))


def print_case(case: Case, screen: Any) -> None:
    """Print the three images and their distances."""
    labels, images = case.labels, case.images
    trio = Table(title="Whose digit is this?", title_justify="left")
    trio.add_column(f"the image (a {labels[case.query]})")
    trio.add_column(f"nearest by Euclid (a {labels[case.lookalike]})")
    trio.add_column(f"nearest by tangent distance (a {labels[case.relative]})")
    chosen = (case.query, case.lookalike, case.relative)
    trio.add_row(*(image_text(images[i]) for i in chosen))
    for name, distances in (("Euclidean", case.euclid), ("tangent", case.tangent)):
        trio.add_row(
            f"{name} distance",
            f"{distances[case.lookalike]:.3f}",
            f"{distances[case.relative]:.3f}",
        )
    screen.print(trio)
    screen.print(
        "A tangent is how an image begins to change when it is shifted, turned, "
        "scaled or thickened. The tangent distance lets both images move along "
        "their tangents before it measures.\n"
    )


def print_errors(found: dict[str, list[float]], screen: Any) -> None:
    """Print the errors with few labels."""
    rows = [
        (name, *(f"{100 * value:.1f} %" for value in values))
        for name, values in found.items()
    ]
    title = f"1-NN error, mean of {DRAWS} draws of labelled images"
    screen.print(text_table(title, ["labels per class", *LABELS_PER_CLASS], rows))


def image_text(image: NDArray) -> Text:
    """Render a (height, width) image in 0..1 as text, two cells a pixel.

    The characters carry the picture where there is no colour; the background carries
    it where there is.
    """
    text = Text()
    for i, row in enumerate(np.clip(np.asarray(image, float), 0, 1)):
        if i:
            text.append("\n")
        for value in row:
            level = round(255 * value)
            shade = f"rgb({level},{level},{level})"
            mark = RAMP[round(value * (len(RAMP) - 1))] * 2
            text.append(mark, Style(color=shade, bgcolor=shade))
    return text


def draw(case: Case, errors: dict[str, list[float]], path: Path) -> None:
    """Save it all as a PNG: tangents, alignments, errors."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from widemargin.inspection import AlignmentDisplay, TangentDisplay, style

    figure = plt.figure(figsize=(13.2, 5.6), dpi=150, layout="constrained")
    parts: Any = figure.subfigures(1, 3, width_ratios=(1.05, 1.05, 1.1))
    left, middle, right = parts
    left.suptitle("Tangents: small changes of one digit", fontsize=11)
    TangentDisplay.from_estimator(
        ImageTangents(SHAPE), case.images[case.query].ravel(), ax=left.subplots()
    )
    middle.suptitle("Tangent distance: images move first", fontsize=11)
    query = f"a {case.labels[case.query]}"
    others = (case.relative, case.lookalike)
    for pair, (ax, other) in enumerate(zip(middle.subplots(2), others, strict=True)):
        names = (query, f"a {case.labels[other]}")
        AlignmentDisplay.from_alignment(
            case.alignment, pair, names=names, shape=SHAPE, ax=ax
        )
    right.suptitle("1-NN error with few labels", fontsize=11)
    axes = right.subplots()
    places = np.arange(len(LABELS_PER_CLASS))
    for offset, (name, values), colour in zip(
        (-0.2, 0.2), errors.items(), (style.GREY, style.RED), strict=True
    ):
        percent = 100 * np.array(values)
        bars = axes.bar(places + offset, percent, 0.38, color=colour, label=name)
        axes.bar_label(bars, fmt="%.1f", fontsize=9, padding=2)
    axes.set_xticks(places, [str(count) for count in LABELS_PER_CLASS])
    axes.set(xlabel="labelled images per class", ylabel="error, %")
    axes.legend(frameon=False)
    style.tidy(axes)
    figure.savefig(path, format="png", facecolor="white")
    plt.close(figure)
