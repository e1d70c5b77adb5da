"""Run what was exported, and compare it with the model in Python.

The scale of a margin is 1 where it is relative or a share, else the mean size of the
margins on the data at hand. Labels must agree wherever Python's margin exceeds 1e-5 of
the scale; closer calls are counted, and at most half of all answers may differ by them.
Of eight-bit tables the margins may differ by the bound that they carry, and nothing may
be answered that Python refuses.
"""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin._core.checks import as_matrix
from widemargin._core.confidence import (
    decisive,
    label_margins_of,
    margin_unit_of,
    nested,
)
from widemargin.export.c_header import PARTS, named

CLOSE = 1e-5
FLAGS = ("-Wall", "-Wextra", "-Werror", "-std=c99")
SANITISERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# Numbers in the tables times rows at a time: residuals of many rows fill the memory.
NUMBERS = 2**24


class NoCompiler(RuntimeError):
    """There is no C compiler to run a header with."""


@dataclass(frozen=True)
class Answers:
    """Labels, margins of all classes or of the answer, and what was accepted."""

    labels: NDArray
    margins: NDArray
    confidence: NDArray
    accepted: NDArray | None = None
    # The least that the confidence can have been before quantisation.
    least: NDArray | None = None


@dataclass(frozen=True)
class Agreement:
    """How an exported model compares with its original on some samples."""

    n_samples: int
    n_wrong: int
    n_close: int
    n_close_differing: int
    margin_error: float
    bound: float | None
    n_accepted: int | None
    n_accepted_python: int | None
    n_overbold: int

    @property
    def agrees(self) -> bool:
        """Whether every answer that is not a close call is the same, and most are.

        Eight bits leave more calls close, and may refuse more.
        """
        if self.n_wrong or self.n_overbold:
            return False
        alike = 2 * self.n_close_differing <= self.n_samples
        return self.bound is not None or (alike and self.margin_error <= CLOSE)

    def __str__(self) -> str:
        """One line for a person."""
        same = self.n_samples - self.n_wrong - self.n_close_differing
        said = (
            f"{same} of {self.n_samples} labels equal, {self.n_close} close calls "
            f"({self.n_close_differing} differ), margins within "
            f"{self.margin_error:.2g} of their scale"
        )
        if self.bound is not None:
            said += f" (bound {self.bound:.2g})"
        if self.n_accepted is not None:
            said += (
                f", {self.n_accepted} accepted against {self.n_accepted_python} in "
                "Python"
            )
        return said


def python_answers(model: Any, X: NDArray) -> Answers:
    """Return what the model says, in float64."""
    X = _framed(model, X.astype(np.float64))
    accepted = None
    inner, seen = decisive(model, X)
    margins = label_margins_of(inner, seen)
    confidence = margins.max(axis=1)
    rejecting = rejecting_in(model)
    if rejecting is not None:
        accepted = confidence >= rejecting.threshold_
    return Answers(np.asarray(model.predict(X)), margins, confidence, accepted)


def _framed(model: Any, X: NDArray) -> Any:
    """Return samples with the names of their features, where the model knows these."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or find_spec("pandas") is None:
        return X
    import pandas

    return pandas.DataFrame(X, columns=names)


def rejecting_in(model: Any) -> Any:
    """Return the classifier within that has learned when to refuse, or None."""
    return next((one for one in nested(model) if hasattr(one, "threshold_")), None)


def onnx_answers(exported: Any, X: NDArray) -> Answers:
    """Run an ONNX model by onnxruntime."""
    import onnxruntime

    data = exported if isinstance(exported, bytes) else exported.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        data, options, providers=["CPUExecutionProvider"]
    )
    (given,) = session.get_inputs()
    real = np.float64 if "double" in given.type else np.float32
    names = [output.name for output in session.get_outputs()]
    rows = np.ascontiguousarray(X, real)
    size = int(np.clip(4 * NUMBERS // len(data), 1, 256))
    parts = [
        session.run(names, {given.name: rows[i : i + size]})
        for i in range(0, len(rows), size)
    ]
    joined = dict(
        zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True)
    )
    return Answers(
        joined["label"], joined["margin"], joined["confidence"], joined.get("accepted")
    )


def compiler() -> str:
    """Return the path of a C compiler."""
    found = shutil.which("gcc") or shutil.which("cc")
    if found is None:
        raise NoCompiler("there is no gcc or cc to compile the header with.")
    return found


def compile_header(
    header: str, main: str, name: str, folder: Path, *flags: str
) -> Path:
    """Compile a program that includes the header as "model.h"."""
    (folder / "model.h").write_text(header)
    source = folder / "main.c"
    source.write_text(named(main, name))
    out = folder / "program"
    result = subprocess.run(
        [compiler(), *FLAGS, *flags, str(source), "-o", str(out), "-lm"],
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise RuntimeError(f"the header does not compile: {result.stderr[:2000]}")
    return out


def code_bytes(header: str) -> int | None:
    """Bytes of machine code without the tables, optimised for size; None if unknown."""
    measure = shutil.which("size")
    if measure is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_header(
            header, PARTS["object"], name_of(header), Path(folder), "-Os", "-c"
        )
        result = subprocess.run(
            [measure, "-A", str(compiled)], capture_output=True, text=True
        )
    sizes = re.findall(r"^\.text\S*\s+(\d+)", result.stdout, re.MULTILINE)
    return sum(map(int, sizes)) if sizes else None


def c_answers(header: str, X: NDArray, classes: NDArray, reject_label: Any) -> Answers:
    """Compile a header with sanitisers and run it on samples."""
    rows = np.ascontiguousarray(X, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        program = compile_header(
            header, PARTS["check"], name_of(header), Path(folder), "-O0", *SANITISERS
        )
        result = subprocess.run(
            [str(program)], input=rows.tobytes(), capture_output=True
        )
    if result.returncode:
        raise RuntimeError(f"the header fails: {result.stderr.decode()[:2000]}")
    kind = np.dtype(
        [("answer", "i4"), ("best", "i4"), ("least", "f4"),
         ("margins", "f4", (len(classes),))]
    )  # fmt: skip
    found = np.frombuffer(result.stdout, kind)
    accepted = found["answer"] >= 0
    labels = np.asarray(classes)[found["best"]]
    if not accepted.all():
        labels = labels.astype(np.result_type(labels.dtype, np.asarray(reject_label)))
        labels[~accepted] = reject_label
    margins = found["margins"]
    return Answers(
        labels,
        margins,
        margins[np.arange(len(margins)), found["best"]],
        accepted if reject_label is not None else None,
        found["least"],
    )


def name_of(header: str) -> str:
    """Return what the functions of a header are called after."""
    found = re.search(r"static inline int (\w+)_predict\(", header)
    if found is None:
        raise ValueError("exported is no header made by widemargin.export.to_c.")
    return found[1]


def check(model: Any, exported: Any, X: Any) -> Agreement:
    """Run an ONNX model or a header, and compare it with the model."""
    X = as_matrix("X", X, ensure_all_finite="allow-nan")
    n_features = getattr(model, "n_features_in_", X.shape[1])
    if X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features and the model was fitted on {n_features}."
        )
    if not isinstance(exported, str):
        answers = onnx_answers(exported, X)
        _check_filled(answers, X)
        # Python gets what the exported model got.
        return compare(model, answers, X.astype(answers.confidence.dtype))
    X = X.astype(np.float32)
    rejecting = rejecting_in(model)
    label = None if rejecting is None else rejecting.reject_label_
    answers = c_answers(exported, X, model.classes_, label)
    _check_filled(answers, X)
    return compare(model, answers, X, quantised="const int8_t " in exported)


def _check_filled(answers: Answers, X: NDArray) -> None:
    if np.isnan(answers.confidence[np.isnan(X).any(axis=1)]).any():
        raise ValueError(
            "X has missing values, which the exported model does not fill in. Put a "
            "SimpleImputer before the model (widemargin fit --impute mean), or compare "
            "without NaN."
        )


def compare(
    model: Any,
    exported: Answers,
    X: NDArray,
    *,
    mine: Answers | None = None,
    quantised: bool = False,
) -> Agreement:
    """Compare exported answers with the model's own."""
    mine = python_answers(model, X) if mine is None else mine
    inner = decisive(model, _framed(model, X[:1]))[0]
    unit = margin_unit_of(inner)
    scale = (
        1.0
        if unit in ("relative", "vote_fraction")
        else np.abs(mine.margins).mean() or 1.0
    )
    close = mine.confidence <= CLOSE * scale
    rejecting = rejecting_in(model)
    overbold = 0
    counts: tuple[int | None, int | None] = None, None
    if rejecting is not None and mine.accepted is not None:
        threshold = rejecting.threshold_
        assert exported.accepted is not None
        close |= np.abs(mine.confidence - threshold) <= CLOSE * scale
        overbold = int((exported.accepted & ~mine.accepted & ~close).sum())
        counts = int(exported.accepted.sum()), int(mine.accepted.sum())
    differs = np.asarray(exported.labels) != mine.labels
    each = np.abs(exported.margins - mine.margins) / scale
    errors = each.max(axis=1)
    if getattr(inner, "multiclass", "ovr") != "ovr":
        # A label's margin is what it lost to the answer by, or if it beat the answer,
        # to another: where that duel is rounding, rounding says which of the two.
        leads = np.abs(exported.confidence - mine.confidence) / scale
        smaller = np.minimum(np.abs(exported.margins), np.abs(mine.margins))
        each[close[:, None] & (smaller <= CLOSE * scale)] = 0.0
        errors = np.maximum(each.max(axis=1), leads)
        # Of equal votes, where rounding says which is the answer, all are others'.
        turned = differs & close
        errors[turned] = leads[turned]
    bound = None
    if quantised:
        assert exported.least is not None
        # What the bound does not cover is a close call of eight bits; what it covers
        # must be so in Python.
        bound = float((exported.confidence - exported.least).max() / scale)
        place = np.arange(len(errors)), exported.margins.argmax(axis=1)
        own = mine.margins[place]
        errors = np.abs(exported.confidence - own) / scale
        sure = exported.least > 0
        close |= ~sure
        if exported.accepted is not None:
            close |= ~exported.accepted
        differs |= sure & (own < exported.least - CLOSE * scale)
    return Agreement(
        len(errors),
        int((differs & ~close).sum()),
        int(close.sum()),
        int((differs & close).sum()),
        float(errors.max(initial=0.0)),
        bound,
        *counts,
        overbold,
    )
