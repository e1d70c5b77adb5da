"""Answers of a saved model: labels, how sure they are, and how good they were."""

import csv
import io
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from widemargin.cli.columns import Table
from widemargin.cli.files import write_atomically
from widemargin.cli.modelfile import SavedModel, load, match_features
from widemargin.cli.models import MODELS
from widemargin.cli.read import as_usable, read
from widemargin.cli.refusal import Refusal
from widemargin.margins import ErrorRejectCurve, error_reject_curve
from widemargin.progress import show_progress


@dataclass(frozen=True)
class Judgement:
    """A model's answers on labelled samples; margins are positive where right."""

    truth: np.ndarray
    answers: np.ndarray
    confidence: np.ndarray
    margins: np.ndarray
    classes: np.ndarray
    seconds: float

    @property
    def error(self) -> float:
        """Share of wrong answers."""
        return float(np.mean(self.truth != self.answers))

    @property
    def curve(self) -> ErrorRejectCurve:
        """Error among the accepted at every threshold on the confidence."""
        return error_reject_curve(self.truth, self.answers, self.confidence)

    @property
    def confusion(self) -> np.ndarray:
        """Counts: rows are true classes, columns are answers."""
        return confusion_matrix(self.truth, self.answers, labels=self.classes)

    def rejected_at(self, max_error: float) -> float:
        """Least share to reject, least sure first, for at most this error."""
        curve = self.curve
        return float(curve.rejection_rate[curve.error_rate <= max_error].min())

    def error_when_rejecting(self, share: float) -> float:
        """Error among the rest when at most this share is rejected."""
        curve = self.curve
        return float(curve.error_rate[curve.rejection_rate <= share + 1e-12][-1])


def answer(model: SavedModel, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted labels and the margin of each as its confidence."""
    try:
        prepared = model.prepare(X)
        labels = model.estimator.predict(prepared)
        return labels, np.asarray(model.estimator.margins(prepared, labels), float)
    except (ValueError, TypeError, AttributeError) as error:
        raise Refusal(f"the model cannot answer: {error}") from error


def judge(model: SavedModel, X: Any, y: np.ndarray) -> Judgement:
    """Compare a model's answers with the truth."""
    answer(model, X[:1])  # kernels load on first use; that is not the model's speed
    with show_progress():
        start = time.perf_counter()
        answers, confidence = answer(model, X)
        seconds = time.perf_counter() - start
        margins = np.asarray(model.estimator.margins(model.prepare(X), y), float)
    classes = model.estimator.classes_
    return Judgement(y, answers, confidence, margins, classes, seconds)


def read_for(
    model: SavedModel, data: Path, *, labelled: bool, target: str | None = None
) -> tuple[Table, Any]:
    """Read data the way the model's training data were read."""
    table = read(
        data,
        target=target,
        usual_target=model.target,
        labelled=labelled,
        image_shape=model.image_shape if data.is_dir() else None,
        keep=model.names,
        n_features=model.n_features,
    )
    match_features(model, table, data)
    takes_sparse = model.name in MODELS and MODELS[model.name].sparse
    return table, as_usable(table.X, takes_sparse, model.name)


def predict(model_path: Path, data: Path, out: Path | None) -> None:
    """Write one line per sample: its name, the label, how sure."""
    model = load(model_path)
    table, X = read_for(model, data, labelled=False)
    with show_progress():
        labels, confidence = answer(model, X)
    rows = table.rows or range(1, len(labels) + 1)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "label", "margin"])
    writer.writerows(
        (row, label, f"{sure:.6g}")
        for row, label, sure in zip(rows, labels, confidence, strict=True)
    )
    if out is None:
        sys.stdout.write(text.getvalue())
        return
    if not out.parent.is_dir():
        raise Refusal(f"--out: there is no folder {out.parent}; make it first")
    write_atomically(out, lambda path: path.write_text(text.getvalue()))
    print(f"Predictions: {out} ({len(labels)} rows)")


def check_labels_known(model: SavedModel, y: np.ndarray, data: Path) -> np.ndarray:
    """Return `y` in the type of the model's classes, or name what it never saw."""
    classes = model.estimator.classes_
    if classes.dtype.kind in "SU" or y.dtype.kind in "SU":
        y = y.astype(str)
        classes = classes.astype(str)
    unseen = sorted(set(y.tolist()) - set(classes.tolist()), key=str)
    if unseen:
        knows = ", ".join(map(str, classes[:10]))
        raise Refusal(
            f"{data} has labels that were not in the training data: "
            f"{', '.join(map(str, unseen[:5]))}; the model knows {knows}. Remove those "
            "rows or fit again with them"
        )
    order = {str(label): label for label in model.estimator.classes_.tolist()}
    known = [order[str(label)] for label in y.tolist()]
    return np.array(known, dtype=model.estimator.classes_.dtype)


def load_and_judge(
    model_path: Path, data: Path, target: str | None
) -> tuple[SavedModel, Any, Judgement]:
    """Read model and labelled data and compare."""
    model = load(model_path)
    table, X = read_for(model, data, labelled=True, target=target)
    assert table.y is not None
    y = check_labels_known(model, table.y, data)
    return model, X, judge(model, X, y)
