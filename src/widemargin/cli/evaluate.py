"""Answers of a saved model: labels, how sure they are, and how good they were.

``widemargin predict`` and ``widemargin evaluate``. Answers, confidences, margins and
the reject curve all come from one pass over the data.
"""

import csv
import io
import json
import os
import sys
import time
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline

from widemargin._compute.progress import show_progress
from widemargin._core.confidence import Answers, answers_of
from widemargin.cli import (
    UNNAMED,
    Refusal,
    check_library,
    check_out,
    console,
    tell,
    text_table,
)
from widemargin.cli.models import MODELS, SavedModel, load, match_features
from widemargin.cli.read import Reading, Table, as_usable, read
from widemargin.margins import (
    ErrorRejectCurve,
    augrc_score,
    aurc_score,
    error_reject_curve,
)
from widemargin.meta import RejectingClassifier
from widemargin.saving import write_atomically

REJECTED = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 1.0)
WIDEST_CONFUSION = 26


@dataclass(frozen=True)
class Evaluation:
    """A model's answers on labelled samples; margins are positive where right.

    `accepted` says which answers it stands by, None where it refuses nothing.
    """

    truth: NDArray
    answers: NDArray
    confidence: NDArray
    margins: NDArray
    classes: NDArray
    seconds: float
    accepted: NDArray | None = None

    @property
    def wrong(self) -> NDArray:
        """Which answers are wrong, refused or not."""
        return np.asarray(self.truth != self.answers)

    @property
    def error(self) -> float:
        """Share of wrong answers, refused or not."""
        return float(np.mean(self.wrong))

    @property
    def microseconds(self) -> str:
        """Time of one prediction to three digits, never as a power of ten."""
        value = 1e6 * self.seconds / len(self.truth)
        return np.format_float_positional(value, 3, fractional=False, trim="-")

    @property
    def error_of_answered(self) -> float | None:
        """Share of wrong answers among those it stands by; None where there is none."""
        kept = self.wrong if self.accepted is None else self.wrong[self.accepted]
        return float(np.mean(kept)) if len(kept) else None

    @cached_property
    def curve(self) -> ErrorRejectCurve:
        """Error among the accepted at every threshold on the confidence."""
        return error_reject_curve(self.truth, self.answers, self.confidence)

    @cached_property
    def confusion(self) -> NDArray:
        """Counts: rows are true classes, columns are answers."""
        return confusion_matrix(self.truth, self.answers, labels=self.classes)

    def rejected_at(self, max_error: float) -> float:
        """Least share to reject, least sure first, for at most this error."""
        met = self.curve.error_rate <= max_error
        return float(self.curve.rejection_rate[met].min())

    @property
    def aurc(self) -> float:
        """Mean error among the surest, over all shares of them."""
        return aurc_score(self.truth, self.answers, self.confidence)

    @property
    def augrc(self) -> float:
        """Mean risk of a wrong answer, over all shares of the surest."""
        return augrc_score(self.truth, self.answers, self.confidence)

    def error_when_rejecting(self, share: float) -> float:
        """Error among the rest when at most this share is rejected."""
        within = self.curve.rejection_rate <= share + 1e-12
        return float(self.curve.error_rate[within][-1])


def answer(estimator: Any, X: Any, y: NDArray | None = None) -> Answers:
    """Ask a fitted classifier; what is not a number is no answer."""
    try:
        answers = answers_of(estimator, X, y)
    except (ValueError, TypeError, AttributeError) as error:
        raise Refusal(f"the model cannot answer: {error}") from error
    if not np.isfinite(answers.confidence).all():
        row = int(np.flatnonzero(~np.isfinite(answers.confidence))[0])
        raise Refusal(
            f"the model has no finite answer for sample {row + 1}; scale the data and "
            "fit again"
        )
    return answers


def evaluate_classifier(estimator: Any, X: Any, y: NDArray) -> Evaluation:
    """Compare a classifier's answers with the truth, on data as it sees them."""
    answer(estimator, X[:1])  # kernels load on first use; that is not the model's speed
    with show_progress():
        start = time.perf_counter()
        labels, sure, margins = answer(estimator, X, y)
        seconds = time.perf_counter() - start
    assert margins is not None
    return Evaluation(y, labels, sure, margins, estimator.classes_, seconds)


def sent_to(X: Any, device: str) -> Any:
    """Return samples as a tensor there, and let the library work there; "cpu" is X."""
    if device == "cpu":
        return X
    if not hasattr(X, "dtype") or hasattr(X, "toarray"):
        raise Refusal(f"--device {device} needs a dense table; leave it out")
    check_library("torch", f"--device {device}", "'widemargin[gpu]'")
    import sklearn
    import torch

    try:
        there = torch.as_tensor(X, device=device)
    except (AssertionError, RuntimeError) as error:
        if "device type" in str(error):
            raise Refusal(f"--device must be cpu or cuda; got {device}") from None
        words = str(error).partition("\n")[0]
        raise Refusal(f"--device {device} cannot be used: {words}") from error
    # scikit-learn asks whether SciPy would take part; nothing here needs it to.
    os.environ.setdefault("SCIPY_ARRAY_API", "1")
    sklearn.set_config(array_api_dispatch=True)
    return there


def read_for(
    model: SavedModel,
    data: Path,
    *,
    labelled: bool,
    target: str | None = None,
    how: Reading | None = None,
    called: str | None = None,
) -> tuple[Table, Any]:
    """Read data the way the model's training data were read."""
    table = read(
        data,
        target=target,
        usual_target=model.target,
        labelled=labelled,
        keep=model.names,
        n_features=model.n_features,
        how=replace(how or Reading(), missing=model.takes_missing),
        size=model.image_shape,
        called=called,
    )
    match_features(model, table, data)
    if table.names and not model.names:
        table.notes.append(
            f"the model does not know names of columns; those of {data.name} are taken "
            "in their order"
        )
    takes_sparse = model.name in MODELS and MODELS[model.name].sparse
    return table, as_usable(table.X, takes_sparse, model.name)


def predict(
    model: Path,
    data: Path,
    max_error: float | None,
    calibrate: Path | None,
    out: Path | None,
    proba: bool,
    called: str | None,
    device: str,
    how: Reading,
) -> None:
    """Write one line per sample: its name, the label, how sure."""
    if out is not None:
        check_out("--out", out, inputs=(model, data, calibrate))
    saved = load(model)
    if max_error is not None or calibrate is not None:
        calibrated(saved, max_error, calibrate, how)
    if proba and not hasattr(saved.estimator, "predict_proba"):
        more = "; fit it with --set probability=True" if saved.name == "svc" else ""
        raise Refusal(f"--proba: {saved.name} has no probabilities{more}")
    table, X = read_for(saved, data, labelled=False, how=how, called=called)
    with show_progress():
        seen = sent_to(saved.prepare(X), device)
        labels, sure, _ = answer(saved.estimator, seen)
        accepted = saved.accepts(X)
        chances = saved.estimator.predict_proba(seen) if proba else None
    header = [table.rows_are, "label", "margin"]
    lines: list[Any] = [
        table.rows or range(1, len(labels) + 1),
        labels,
        [f"{value:.6g}" for value in sure],
    ]
    if accepted is not None:
        header.append("answered")
        lines.append(np.where(accepted, "yes", "no"))
    if chances is not None:
        chances = np.asarray(chances.cpu() if hasattr(chances, "cpu") else chances)
        header += [f"p({label})" for label in saved.estimator.classes_]
        lines += [[f"{value:.6g}" for value in column] for column in chances.T]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*lines, strict=True))
    tell(table.notes)
    if out is None:
        sys.stdout.write(text.getvalue())
        return
    write_atomically(out, lambda path: path.write_text(text.getvalue(), "utf-8"))
    print(f"Predictions: {out} ({len(labels)} rows)")


def calibrated(
    model: SavedModel,
    max_error: float | None,
    calibrate: Path | None,
    how: Reading | None,
) -> None:
    """Make the model refuse, so that errors stay below a share on data like these."""
    if max_error is None:
        raise Refusal("--calibrate goes with --max-error 0.02: how many errors may be")
    if calibrate is None:
        raise Refusal(
            "--max-error needs labelled data that fit has not seen: --calibrate FILE; "
            "or fit with --max-error, which holds some out"
        )
    table, X = read_for(model, calibrate, labelled=True, how=how)
    assert table.y is not None
    answering = make_pipeline(*model.before, model.estimator)
    model.pipeline, notes = guarantee(answering, max_error, X, table.y)
    tell(notes)


def guarantee(
    estimator: Any, max_error: float, X: Any, y: NDArray, seed: int | None = None
) -> tuple[RejectingClassifier, list[str]]:
    """Make it refuse, by samples that it has not seen; return notes, too.

    Samples of a class that it does not know are mistakes, whatever it answers. `seed`,
    which chose the samples, is kept with it.
    """
    classes = estimator.classes_
    codes, unknown = known_codes(y, classes)
    numbers = classes.dtype.kind in "biuf"
    label: Any = min(-1, int(classes.min()) - 1) if numbers else "reject"
    while label in classes.tolist():
        label += "?"
    # An unknown label has the place -1, the last.
    truth = np.array([*classes.tolist(), label])[codes]
    refusing = RejectingClassifier(
        estimator,
        max_error=max_error,
        cv="prefit",
        reject_label=label,
        random_state=seed,
    )
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNNAMED)
            refusing.fit(X, truth)
    except (ValueError, TypeError) as error:
        raise Refusal(f"--max-error: {error}") from error
    notes = [str(warning.message) for warning in caught]
    if unknown:
        notes.insert(
            0,
            f"{int((codes < 0).sum())} of {len(y)} samples that --max-error is kept by "
            f"have labels that the model does not know: {', '.join(unknown[:5])}; "
            "they count as mistakes where it answers",
        )
    return refusing, notes


def known_codes(y: NDArray, classes: NDArray) -> tuple[NDArray, list[str]]:
    """Return the places of labels among `classes`, -1 for others, and these others."""
    if classes.dtype.kind in "SU" or y.dtype.kind in "SU":
        y, classes = y.astype(str), classes.astype(str)
    places = {label: i for i, label in enumerate(classes.tolist())}
    codes = np.array([places.get(label, -1) for label in y.tolist()])
    return codes, sorted({str(label) for label in y[codes < 0].tolist()})


def check_labels_known(model: SavedModel, y: NDArray, data: Path) -> NDArray:
    """Return `y` in the type of the model's classes, or name what it never saw."""
    classes = model.estimator.classes_
    codes, unknown = known_codes(y, classes)
    if unknown:
        knows = ", ".join(map(str, classes[:10]))
        raise Refusal(
            f"{data} has labels that were not in the training data: "
            f"{', '.join(unknown[:5])}; the model knows {knows}. Its answers to these "
            f"{int((codes < 0).sum())} of {len(y)} samples are wrong, whatever they "
            "are: fit again with such samples, or leave them out to judge the others"
        )
    return classes[codes]


def load_and_evaluate(
    model_path: Path,
    data: Path,
    target: str | None,
    how: Reading | None = None,
    device: str = "cpu",
) -> tuple[SavedModel, Table, Any, Evaluation]:
    """Read model and labelled data, as the classifier sees them, and compare."""
    model = load(model_path)
    table, X = read_for(model, data, labelled=True, target=target, how=how)
    assert table.y is not None
    y = check_labels_known(model, table.y, data)
    accepted = model.accepts(X)
    X = model.prepare(X)
    results = evaluate_classifier(model.estimator, sent_to(X, device), y)
    tell(table.notes)
    return model, table, X, replace(results, accepted=accepted)


def evaluate(
    model: Path,
    data: Path,
    target: str | None,
    as_json: bool,
    device: str,
    how: Reading,
) -> None:
    """Print how good the model is on labelled data."""
    saved, _, _, results = load_and_evaluate(model, data, target, how, device)
    if as_json:
        print(json.dumps(as_data(saved, results)))
        return
    out = console()
    n, wrong = len(results.truth), int(results.wrong.sum())
    out.print(
        f"{saved.name} on {data.name}: error {100 * results.error:.2f} % "
        f"({wrong} of {n}), {results.microseconds} µs per sample"
    )
    if saved.refusing is not None:
        out.print(refusal_words(saved.refusing, results))
    out.print(margin_table(results))
    out.print(reject_table(results))
    if len(results.classes) <= WIDEST_CONFUSION:
        out.print(confusion_table(results))
    out.print(worst_pairs(results))


def refusal_words(refusing: Any, results: Evaluation) -> str:
    """Say how many samples a refusing model answers, and how many of them wrongly."""
    assert results.accepted is not None
    n, error = int(results.accepted.sum()), results.error_of_answered
    share = 100 * results.accepted.mean()
    words = f"It answers {n} of {len(results.truth)} ({share:.1f} %)"
    if error is not None:
        wrong = int(results.wrong[results.accepted].sum())
        words += f", {wrong} of them wrongly: error {100 * error:.2f} %"
    return f"{words}. {guarantee_of(refusing)} What follows is of all answers."


def guarantee_of(refusing: Any) -> str:
    """Say what a refusing model guarantees for new data, if anything."""
    if refusing.threshold_ == np.inf:
        return "It rejects every sample: nothing could be guaranteed."
    shown = (
        f"of its answers at most {100 * refusing.max_error:g} % are wrong"
        if refusing.max_error is not None
        else f"at least {100 * refusing.coverage:g} % of samples are answered"
    )
    if refusing.delta is None:
        return f"It rejects so that, on the samples held out, {shown}."
    percent = 100 * (1 - refusing.delta)
    return f"Guaranteed: {shown}, with probability {percent:g} %."


def as_data(model: SavedModel, results: Evaluation) -> dict[str, Any]:
    """Return what evaluate prints, as JSON has it."""
    quantiles = np.quantile(results.margins, QUANTILES)
    refusal = None
    if model.refusing is not None and results.accepted is not None:
        refusal = {
            "answered": int(results.accepted.sum()),
            "wrong": int(results.wrong[results.accepted].sum()),
            "error": results.error_of_answered,
            **{
                k: getattr(model.refusing, k)
                for k in ("max_error", "coverage", "delta")
            },
        }
    return {
        "model": model.name,
        "samples": len(results.truth),
        "wrong": int(results.wrong.sum()),
        "error": results.error,
        "refusal": refusal,
        "seconds_per_sample": results.seconds / len(results.truth),
        "margins": {
            str(share): float(value)
            for share, value in zip(QUANTILES, quantiles, strict=True)
        },
        "error_when_rejecting": {
            str(share): results.error_when_rejecting(share) for share in REJECTED
        },
        "rejected_for_1_percent_error": results.rejected_at(0.01),
        "aurc": results.aurc,
        "augrc": results.augrc,
        "classes": results.classes.tolist(),
        "confusion": results.confusion.tolist(),
    }


def margin_table(results: Evaluation) -> Any:
    """Quantiles of the margins."""
    values = np.quantile(results.margins, QUANTILES)
    return text_table(
        "Margins (negative: wrong)",
        ["quantile", *(f"{100 * quantile:.0f} %" for quantile in QUANTILES)],
        [["margin", *(f"{value:.3g}" for value in values)]],
    )


def reject_table(results: Evaluation) -> Any:
    """Error among the answered when the least sure are rejected."""
    errors = (results.error_when_rejecting(share) for share in REJECTED)
    return text_table(
        "Rejecting the least sure",
        ["rejected", *(f"{100 * share:.0f} %" for share in REJECTED)],
        [["error", *(f"{100 * error:.2f} %" for error in errors)]],
        caption=f"For an error of 1 % reject {100 * results.rejected_at(0.01):.1f} %. "
        f"Mean error over all shares (AURC): {100 * results.aurc:.2f} %. "
        "Measured on these data; it is no guarantee for others.",
    )


def confusion_table(results: Evaluation) -> Any:
    """Show counts: rows are true classes, columns are answers."""
    rows = (
        [
            str(label),
            *(
                Text(str(count), "bold") if i == j else str(count) if count else "·"
                for j, count in enumerate(counts)
            ),
        ]
        for i, (label, counts) in enumerate(
            zip(results.classes, results.confusion, strict=True)
        )
    )
    title = "Confusion (rows: truth, columns: answer)"
    return text_table(title, ["", *results.classes], rows)


def worst_pairs(results: Evaluation) -> str:
    """Name the three pairs of classes that are confused most."""
    counts = results.confusion.copy()
    np.fill_diagonal(counts, 0)
    order = np.argsort(counts, axis=None)[::-1][:3]
    pairs = [np.unravel_index(place, counts.shape) for place in order]
    words = [
        f"{results.classes[i]} taken for {results.classes[j]} ({counts[i, j]} ×)"
        for i, j in pairs
        if counts[i, j]
    ]
    return "Confused most: " + ("; ".join(words) if words else "nothing")
