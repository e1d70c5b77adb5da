"""The second part of the demonstration: models side by side on the same digits.

All get the same 500 labelled digits and are asked about the other 1297. Settings are
the defaults or round numbers; none was chosen by looking at the answers.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from widemargin.cli.counting import vectors_kept
from widemargin.cli.judge import Judgement
from widemargin.cli.modelfile import SavedModel
from widemargin.cli.terminal import image_text
from widemargin.linear import MaxMarginClassifier
from widemargin.prototypes import GLVQClassifier, HSSClassifier, TVQClassifier
from widemargin.svm import TangentSVC
from widemargin.tangents import ImageTangents

SHAPE = (8, 8)
N_TRAIN = 500
SNIPPET = """\
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from widemargin.prototypes import TVQClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, train_size=500, stratify=y, random_state=0
)
model = TVQClassifier(n_tangents=8, max_iter=60, random_state=0)
model.fit(X_train, y_train)
print(1 - model.score(X_test, y_test), model.margins(X_test, y_test).min())
"""


@dataclass(frozen=True)
class Row:
    """One model: what it costs, what it gets wrong, how well it knows."""

    name: str
    model: Any
    error: float
    kept: int
    fit_seconds: float
    predict_seconds: float
    rejected: float | None
    judged: Judgement | None


def digits() -> tuple:
    """Return X_train, X_test, y_train, y_test, pixels in 0..1."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16, y, train_size=N_TRAIN, stratify=y, random_state=0)


def contestants() -> dict[str, Any]:
    """Return the unfitted models by name; two of scikit-learn's for comparison."""
    tangents = ImageTangents(shape=SHAPE)
    return {
        "sklearn 1-NN": KNeighborsClassifier(1),
        "sklearn SVC": SVC(),
        "maximum margin": MaxMarginClassifier(random_state=0),
        "GLVQ": GLVQClassifier(prototypes_per_class=2, random_state=0),
        "HSS": HSSClassifier(n_tangents=8, random_state=0),
        "TVQ": TVQClassifier(n_tangents=8, max_iter=60, random_state=0),
        "tangent SVC": TangentSVC(tangents=tangents, random_state=0),
    }


def compare(data: tuple, models: dict[str, Any]) -> list[Row]:
    """Fit and judge every model."""
    X_train, X_test, y_train, y_test = data
    rows = []
    for name, model in models.items():
        # Kernels compile on first use, once per machine: that is not the model's time.
        clone(model).fit(X_train[:100], y_train[:100]).predict(X_test[:2])
        start = time.perf_counter()
        model.fit(X_train, y_train)
        fitted = time.perf_counter()
        answers = model.predict(X_test)
        seconds = time.perf_counter() - fitted
        judged = _judge(model, X_test, y_test, answers, seconds)
        rows.append(
            Row(
                name,
                model,
                float(np.mean(answers != y_test)),
                _kept(model),
                fitted - start,
                seconds / len(y_test),
                None if judged is None else judged.rejected_at(0.01),
                judged,
            )
        )
    return rows


def _kept(model: Any) -> int:
    if isinstance(model, KNeighborsClassifier):
        return int(model.n_samples_fit_)
    return vectors_kept(model) or 0


def _judge(
    model: Any, X: np.ndarray, y: np.ndarray, answers: np.ndarray, seconds: float
) -> Judgement | None:
    if hasattr(model, "margins"):
        sure, margins = model.margins(X, answers), model.margins(X, y)
    elif hasattr(model, "decision_function"):
        ordered = np.sort(model.decision_function(X), axis=1)
        sure = ordered[:, -1] - ordered[:, -2]
        margins = np.where(answers == y, sure, -sure)
    else:
        return None  # the votes of one neighbour say nothing about how sure it is
    return Judgement(
        y, answers, np.asarray(sure, float), margins, model.classes_, seconds
    )


HEADER = (
    "model",
    "error",
    "vectors",
    "fit, s",
    "µs each",
    "refused for 1 %",
)


def cells(row: Row) -> list[str]:
    """Return one row of the table as text."""
    return [
        row.name,
        f"{100 * row.error:.1f} %",
        str(row.kept),
        f"{row.fit_seconds:.2f}",
        f"{1e6 * row.predict_seconds:.0f}",
        "cannot" if row.rejected is None else f"{100 * row.rejected:.1f} %",
    ]


def print_rows(rows: list[Row], console: Console) -> None:
    """Print the table and the prototypes of the tangent models."""
    table = Table(
        title=f"{N_TRAIN} labelled digits, asked about the others",
        title_justify="left",
    )
    for i, head in enumerate(HEADER):
        table.add_column(head, justify="right" if i else "left")
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    console.print(
        "vectors: how many the model keeps; µs: of one prediction; refused: how many "
        "of the least sure answers, for one wrong answer in a hundred among the rest.\n"
    )


def print_prototypes(model: Any, console: Console) -> None:
    """Draw one prototype per class."""
    per_row = max(1, min(5, (console.width - 1) // (2 * SHAPE[1] + 3)))
    images = model.prototypes_.reshape(-1, *SHAPE)
    table = Table(
        title="What TVQ keeps of each digit", title_justify="left", show_header=False
    )
    for start in range(0, len(images), per_row):
        chosen = range(start, min(start + per_row, len(images)))
        table.add_row(*(image_text(images[i]) for i in chosen), end_section=True)
    console.print(table)


def saved(model: Any, n_features: int) -> SavedModel:
    """Wrap a fitted classifier the way ``widemargin report`` wants it."""
    return SavedModel(Pipeline([("model", model)]), "tvq", [], SHAPE, None, n_features)
