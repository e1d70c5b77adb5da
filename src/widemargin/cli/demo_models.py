"""Models side by side on the digits of ``widemargin demo``, and its page.

All get the same 500 labelled digits and are asked about the other 1297; settings are
the defaults or round numbers, none was chosen by looking at the answers.
"""

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin.cli import html, text_table
from widemargin.cli.evaluate import evaluate_classifier
from widemargin.cli.models import SavedModel
from widemargin.cli.report import build, write_page
from widemargin.cli.story import SHAPE, image_text
from widemargin.comparison import HEADER, LEGEND, Comparison, compare
from widemargin.linear import MaxMarginClassifier
from widemargin.prototypes import GLVQClassifier, HSSClassifier, TVQClassifier
from widemargin.svm import TangentSVC
from widemargin.tangents import ImageTangents

N_TRAIN = 500
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


def write_report(
    found: Comparison, tvq: Any, data: tuple, picture: Path, out: Path
) -> None:
    """Write TVQ's report, with the picture and the table of models before it."""
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
    write_page(page, out)
