"""What a tangent is and what it buys, on scikit-learn's bundled digits.

Everything shown is computed here and now: the distances of all pairs once, then
1-NN errors over repeated draws of a few labelled images per class.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances

from widemargin.cli.files import write_atomically
from widemargin.cli.terminal import image_text
from widemargin.metrics import Alignment, tangent_alignment, tangent_distances
from widemargin.tangents import ImageTangents

SHAPE = (8, 8)
LABELS_PER_CLASS = (1, 3, 10, 30)
DRAWS = 20
SNIPPET = """\
from sklearn.datasets import load_digits
from widemargin.metrics import tangent_distances
from widemargin.tangents import ImageTangents

X, y = load_digits(return_X_y=True)
D = tangent_distances(X[:100], X[100:], tangents=ImageTangents(shape=(8, 8)))
"""


@dataclass(frozen=True)
class Story:
    """All the demonstration shows; indices are rows of `images`."""

    images: np.ndarray
    labels: np.ndarray
    query: int
    lookalike: int  # nearest by Euclid, another class
    relative: int  # nearest by tangent distance, the same class
    euclid: dict[int, float]
    tangent: dict[int, float]
    alignment: Alignment
    errors: dict[str, list[float]]


def draw_labelled(labels: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """Pick `per_class` samples of every class at random."""
    rng = np.random.default_rng(seed)
    picks = [
        rng.choice(np.flatnonzero(labels == label), per_class, replace=False)
        for label in np.unique(labels)
    ]
    return np.concatenate(picks)


def nearest_neighbour_error(
    distances: np.ndarray, labels: np.ndarray, labelled: np.ndarray
) -> float:
    """1-NN error on everything that is not labelled."""
    rest = np.setdiff1d(np.arange(len(labels)), labelled)
    nearest = labelled[distances[np.ix_(rest, labelled)].argmin(axis=1)]
    return float(np.mean(labels[nearest] != labels[rest]))


def tell() -> Story:
    """Compute the story."""
    images, labels = load_digits(return_X_y=True)
    images = images / 16.0
    generator = ImageTangents(shape=SHAPE)
    euclid = euclidean_distances(images)
    tangent = tangent_distances(images, tangents=generator, squared=False, n_jobs=-1)
    errors = {
        name: [
            float(
                np.mean(
                    [
                        nearest_neighbour_error(
                            distances, labels, draw_labelled(labels, per_class, seed)
                        )
                        for seed in range(DRAWS)
                    ]
                )
            )
            for per_class in LABELS_PER_CLASS
        ]
        for name, distances in (("Euclidean", euclid), ("tangent", tangent))
    }
    query, lookalike, relative = _telling_case(euclid, tangent, labels)
    return Story(
        images.reshape(-1, *SHAPE),
        labels,
        query,
        lookalike,
        relative,
        {other: euclid[query, other] for other in (lookalike, relative)},
        {other: tangent[query, other] for other in (lookalike, relative)},
        tangent_alignment(
            images[[query, query]], images[[relative, lookalike]], tangents=generator
        ),
        errors,
    )


def _telling_case(euclid, tangent, labels) -> tuple[int, int, int]:
    """Find the query that Euclid gets wrong and tangent distance right most clearly."""
    labelled = draw_labelled(labels, 10, seed=0)
    rest = np.setdiff1d(np.arange(len(labels)), labelled)
    by_euclid = labelled[euclid[np.ix_(rest, labelled)].argmin(axis=1)]
    by_tangent = labelled[tangent[np.ix_(rest, labelled)].argmin(axis=1)]
    helped = (labels[by_euclid] != labels[rest]) & (labels[by_tangent] == labels[rest])
    gain = tangent[rest, by_euclid] - tangent[rest, by_tangent]
    best = np.where(helped, gain, -np.inf).argmax()
    return int(rest[best]), int(by_euclid[best]), int(by_tangent[best])


def print_story(story: Story, console: Console) -> None:
    """Print the pictures and the numbers."""
    labels, images = story.labels, story.images
    trio = Table(title="Whose digit is this?", title_justify="left")
    trio.add_column(f"the image (a {labels[story.query]})")
    trio.add_column(f"nearest by Euclid (a {labels[story.lookalike]})")
    trio.add_column(f"nearest by tangent distance (a {labels[story.relative]})")
    chosen = (story.query, story.lookalike, story.relative)
    trio.add_row(*(image_text(images[i]) for i in chosen))
    for name, distances in (("Euclidean", story.euclid), ("tangent", story.tangent)):
        trio.add_row(
            f"{name} distance",
            f"{distances[story.lookalike]:.3f}",
            f"{distances[story.relative]:.3f}",
        )
    console.print(trio)
    console.print(
        "A tangent is how an image begins to change when it is shifted, turned, "
        "scaled or thickened. The tangent distance lets both images move along "
        "their tangents before it measures.\n"
    )
    errors = Table(
        title=f"1-NN error, mean of {DRAWS} draws of labelled images",
        title_justify="left",
    )
    errors.add_column("labels per class")
    for per_class in LABELS_PER_CLASS:
        errors.add_column(str(per_class), justify="right")
    for name, values in story.errors.items():
        errors.add_row(name, *(f"{100 * value:.1f} %" for value in values))
    console.print(errors)


def run(out: Path, report: Path) -> None:
    """Tell the story in the terminal, as a picture and as a page."""
    console = Console()
    with console.status("distances of all pairs of 1797 digits"):
        story = tell()
    print_story(story, console)
    # The models load and compile what the story above does not need.
    from widemargin.cli import demo_models

    with console.status("seven models on the same digits"):
        data = demo_models.digits()
        rows = demo_models.compare(data, demo_models.contestants())
    demo_models.print_rows(rows, console)
    tvq = next(row for row in rows if row.name == "TVQ")
    demo_models.print_prototypes(tvq.model, console)
    try:
        from widemargin.cli.demo_figure import draw
    except ModuleNotFoundError:
        console.print(
            "No picture, no report: they need matplotlib (pip install "
            "'widemargin[plot]')."
        )
    else:
        write_atomically(out, lambda path: draw(story, path))
        _write_report(story, rows, tvq, data[1], out, report)
        console.print(f"\nPicture: {out}\nReport: {report}", highlight=False)
    console.print("\nThe Python that does the same:\n")
    console.print(SNIPPET + "\n" + demo_models.SNIPPET, highlight=False, markup=False)


def _write_report(story, rows, tvq, X_test, picture_path: Path, report: Path) -> None:
    from widemargin.cli import demo_models, html
    from widemargin.cli.report import build, use_agg, write_page

    use_agg()
    model = demo_models.saved(tvq.model, X_test.shape[1])
    page = build(model, X_test, tvq.judged, "scikit-learn's digits")
    page.title = "widemargin: the demonstration"
    page.lead = (
        "What a tangent is, what it buys, and what models make of it. The tiles and "
        "everything below the table of models are TVQ's."
    )
    page.tiles = [(f"TVQ: {what}", value) for what, value in page.tiles]
    parts, page.sections = page.sections, []
    image = html.embed(picture_path.read_bytes(), "the story of the tangents", 1260)
    page.add(
        "What may vary, how far, what it buys",
        "One digit along its tangents, two pairs of digits, and 1-NN with few labels.",
        f'<div class="panorama">{image}</div>',
        wide=True,
    )
    page.add(
        "Models side by side",
        f"{demo_models.N_TRAIN} labelled digits, asked about {len(X_test)} others. "
        "Vectors: how many the model keeps. Refused: how many of the least sure "
        "answers, for one wrong answer in a hundred among the rest.",
        html.table(demo_models.HEADER, [demo_models.cells(row) for row in rows]),
        wide=True,
    )
    page.sections += parts
    page.add("The same in Python", "", html.code(demo_models.SNIPPET), wide=True)
    write_page(page, report)
