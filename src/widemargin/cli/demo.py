"""``widemargin demo``: what a tangent is and what it buys, on bundled digits.

Everything shown is computed here and now. First the distances of all pairs, and 1-NN
errors over repeated draws of a few labelled images per class. Then models side by side:
all get the same 500 labelled digits and are asked about the other 1297; settings are
the defaults or round numbers, none was chosen by looking at the answers.
"""

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
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin.cli import Refusal, check_out, console, html, text_table
from widemargin.cli.evaluate import evaluate_classifier
from widemargin.cli.models import SavedModel
from widemargin.cli.report import build, use_agg, write_page
from widemargin.comparison import HEADER, LEGEND, Comparison, compare
from widemargin.linear import MaxMarginClassifier
from widemargin.metrics import Alignment, tangent_alignment, tangent_distances
from widemargin.prototypes import GLVQClassifier, HSSClassifier, TVQClassifier
from widemargin.saving import write_atomically
from widemargin.svm import TangentSVC
from widemargin.tangents import ImageTangents

SHAPE = (8, 8)
LABELS_PER_CLASS = (1, 3, 10, 30)
DRAWS = 20
N_TRAIN = 500
RAMP = " .:-=+*#%@"
SNIPPET = """\
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from widemargin.metrics import tangent_distances
from widemargin.prototypes import TVQClassifier
from widemargin.tangents import ImageTangents

X, y = load_digits(return_X_y=True)
D = tangent_distances(X[:100], X[100:], tangents=ImageTangents(shape=(8, 8)))

X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, train_size=500, stratify=y, random_state=0
)
model = TVQClassifier(n_tangents=8, max_iter=60, random_state=0)
model.fit(X_train, y_train)
print(1 - model.score(X_test, y_test), model.margins(X_test, y_test).min())
"""


def run(out: Path, report: Path) -> None:
    """Tell the story in the terminal, as a picture and as a page."""
    check_out("--out", out, ".png")
    check_out("--report", report, ".html")
    screen, missing = console(), None
    try:
        use_agg()
    except Refusal as refusal:
        missing = f"No picture, no report: {refusal}"
        screen.print(missing + "\n")
    with screen.status("distances of all pairs of 1797 digits"):
        story = tell_story()
    print_story(story, screen)
    with screen.status("seven models on the same digits"):
        data = digits()
        found = side_by_side(data, contestants())
    print_rows(found, screen)
    tvq = next(row.estimator for row in found.rows if row.name == "TVQ")
    print_prototypes(tvq, screen)
    if missing is None:
        write_atomically(out, lambda path: draw(story, path))
        write_page(demo_page(found, tvq, data, out), report)
        screen.print(f"\nPicture: {out}\nReport: {report}")
    screen.print(f"\nThe Python that does the same:\n\n{SNIPPET}")


@dataclass(frozen=True)
class Story:
    """All that the first half shows; indices are rows of `images`."""

    images: NDArray
    labels: NDArray
    query: int
    lookalike: int  # nearest by Euclid, another class
    relative: int  # nearest by tangent distance, the same class
    euclid: dict[int, float]
    tangent: dict[int, float]
    alignment: Alignment  # of the query with its relative, and with its lookalike
    errors: dict[str, list[float]]


def tell_story() -> Story:
    """Compute the story."""
    images, labels = load_digits(return_X_y=True)
    images = images / 16.0
    generator = ImageTangents(shape=SHAPE)
    euclid = euclidean_distances(images)
    tangent = tangent_distances(images, tangents=generator, squared=False, n_jobs=-1)
    errors = {
        name: [mean_error(distances, labels, n) for n in LABELS_PER_CLASS]
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


def draw_labelled(labels: NDArray, per_class: int, seed: int) -> NDArray:
    """Pick `per_class` samples of every class at random."""
    rng = np.random.default_rng(seed)
    picks = [
        rng.choice(np.flatnonzero(labels == label), per_class, replace=False)
        for label in np.unique(labels)
    ]
    return np.concatenate(picks)


def nearest_labelled(distances: NDArray, labelled: NDArray) -> tuple[NDArray, NDArray]:
    """Return all samples that are not labelled, and which labelled one is nearest."""
    rest = np.setdiff1d(np.arange(len(distances)), labelled)
    return rest, labelled[distances[np.ix_(rest, labelled)].argmin(axis=1)]


def mean_error(distances: NDArray, labels: NDArray, per_class: int) -> float:
    """1-NN error on everything that is not labelled, over repeated draws."""
    errors = []
    for seed in range(DRAWS):
        rest, nearest = nearest_labelled(
            distances, draw_labelled(labels, per_class, seed)
        )
        errors.append(np.mean(labels[nearest] != labels[rest]))
    return float(np.mean(errors))


def _telling_case(euclid, tangent, labels) -> tuple[int, int, int]:
    """Find the query that Euclid gets wrong and tangent distance right most clearly."""
    labelled = draw_labelled(labels, 10, seed=0)
    rest, by_euclid = nearest_labelled(euclid, labelled)
    _, by_tangent = nearest_labelled(tangent, labelled)
    helped = (labels[by_euclid] != labels[rest]) & (labels[by_tangent] == labels[rest])
    gain = tangent[rest, by_euclid] - tangent[rest, by_tangent]
    best = np.where(helped, gain, -np.inf).argmax()
    return int(rest[best]), int(by_euclid[best]), int(by_tangent[best])


def print_story(story: Story, screen: Any) -> None:
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
    screen.print(trio)
    screen.print(
        "A tangent is how an image begins to change when it is shifted, turned, "
        "scaled or thickened. The tangent distance lets both images move along "
        "their tangents before it measures.\n"
    )
    errors = [
        (name, *(f"{100 * value:.1f} %" for value in values))
        for name, values in story.errors.items()
    ]
    title = f"1-NN error, mean of {DRAWS} draws of labelled images"
    screen.print(text_table(title, ["labels per class", *LABELS_PER_CLASS], errors))


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


def draw(story: Story, path: Path) -> None:
    """Save the story as a PNG: tangents, alignments, errors."""
    import matplotlib.pyplot as plt

    from widemargin.inspection import AlignmentDisplay, TangentDisplay, style

    figure = plt.figure(figsize=(13.2, 5.6), dpi=150, layout="constrained")
    parts: Any = figure.subfigures(1, 3, width_ratios=(1.05, 1.05, 1.1))
    left, middle, right = parts
    left.suptitle("Tangents: small changes of one digit", fontsize=11)
    TangentDisplay.from_estimator(
        ImageTangents(SHAPE), story.images[story.query].ravel(), ax=left.subplots()
    )
    middle.suptitle("Tangent distance: images move first", fontsize=11)
    query = f"a {story.labels[story.query]}"
    others = (story.relative, story.lookalike)
    for pair, (ax, other) in enumerate(zip(middle.subplots(2), others, strict=True)):
        names = (query, f"a {story.labels[other]}")
        AlignmentDisplay.from_alignment(
            story.alignment, pair, names=names, shape=SHAPE, ax=ax
        )
    right.suptitle("1-NN error with few labels", fontsize=11)
    axes = right.subplots()
    places = np.arange(len(LABELS_PER_CLASS))
    for offset, (name, values), colour in zip(
        (-0.2, 0.2), story.errors.items(), (style.GREY, style.RED), strict=True
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


def digits() -> tuple:
    """Return X_train, X_test, y_train, y_test, pixels in 0..1."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16, y, train_size=N_TRAIN, stratify=y, random_state=0)


def contestants() -> dict[str, Any]:
    """Return the unfitted models by name; two of scikit-learn's for comparison."""
    return {
        "sklearn 1-NN": KNeighborsClassifier(1),
        "sklearn SVC": SVC(),
        "maximum margin": MaxMarginClassifier(random_state=0),
        "GLVQ": GLVQClassifier(prototypes_per_class=2, random_state=0),
        "HSS": HSSClassifier(1, n_tangents=8, random_state=0),
        "TVQ": TVQClassifier(n_tangents=8, max_iter=60, random_state=0),
        "tangent SVC": TangentSVC(tangents=ImageTangents(shape=SHAPE), random_state=0),
    }


def side_by_side(data: tuple, models: dict[str, Any]) -> Comparison:
    """Fit every model on the labelled digits and ask it about the others."""
    X_train, X_test, y_train, y_test = data
    X, y = np.concatenate([X_train, X_test]), np.concatenate([y_train, y_test])
    rows = np.arange(len(y))
    split = (rows[: len(y_train)], rows[len(y_train) :])
    return compare(X, y, models=models, cv=[split])


def print_rows(found: Comparison, screen: Any) -> None:
    """Print the models side by side."""
    title = f"{N_TRAIN} labelled digits, asked about the others"
    screen.print(text_table(title, HEADER, found.table()))
    screen.print(LEGEND + "\n")


def print_prototypes(model: Any, screen: Any) -> None:
    """Draw one prototype per class."""
    per_row = max(1, min(5, (screen.width - 1) // (2 * SHAPE[1] + 3)))
    images = model.prototypes_.reshape(-1, *SHAPE)
    table = Table(
        title="What TVQ keeps of each digit", title_justify="left", show_header=False
    )
    for start in range(0, len(images), per_row):
        chosen = range(start, min(start + per_row, len(images)))
        table.add_row(*(image_text(images[i]) for i in chosen), end_section=True)
    screen.print(table)


def demo_page(found: Comparison, tvq: Any, data: tuple, picture: Path) -> html.Page:
    """Return TVQ's report with the story and the table of models before it."""
    _, X_test, _, y_test = data
    model = SavedModel(tvq, "tvq", [], SHAPE, None, X_test.shape[1])
    results = evaluate_classifier(tvq, X_test, y_test)
    page = build(model, X_test, results, "scikit-learn's digits")
    page.title = "widemargin: the demonstration"
    page.lead = (
        "What a tangent is, what it is worth, and how models use it. The tiles and "
        "everything below the table of models are TVQ's."
    )
    page.tiles = [(f"TVQ: {what}", value) for what, value in page.tiles]
    parts, page.sections = page.sections, []
    image = html.embed(picture.read_bytes(), "the story of the tangents", 1320)
    page.add(
        "Tangents and what they are worth",
        "One digit along its tangents, two pairs of digits, and 1-NN with few labels.",
        f'<div class="panorama">{image}</div>',
        wide=True,
    )
    page.add(
        "Models side by side",
        f"{N_TRAIN} labelled digits, asked about {len(X_test)} others. {LEGEND}",
        html.table(HEADER, found.table()),
        wide=True,
    )
    page.sections += parts
    page.add("The same in Python", "", html.code(SNIPPET), wide=True)
    return page
