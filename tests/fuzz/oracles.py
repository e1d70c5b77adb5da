"""The slow and obvious answers, in extended precision."""

from typing import Any

import numpy as np
from tests.fuzz.judge import Outcome, wrong

WIDE = np.longdouble


def squares(X: np.ndarray, Y: np.ndarray, unit: Any = 1) -> np.ndarray:
    """Squared distances by direct differences, each feature in its unit."""
    X, Y = np.asarray(X, WIDE), np.asarray(Y, WIDE)
    return (((X[:, None] - Y[None]) / np.asarray(unit, WIDE)) ** 2).sum(axis=-1)


def not_nearest(
    Q: np.ndarray,
    points: np.ndarray,
    labels: np.ndarray,
    answers: np.ndarray,
    unit: Any = 1,
) -> np.ndarray:
    """Where the answer is no label of a nearest point, ties in rounding aside."""
    d = squares(Q, points, unit)
    kind = np.result_type(np.asarray(Q), np.asarray(points))
    eps = np.finfo(kind if kind.kind == "f" else np.float64).eps
    best = d.min(axis=1, keepdims=True)
    near = d <= best * (1 + 16 * Q.shape[1] * eps)
    return ~((labels[None] == answers[:, None]) & near).any(axis=1)


EUCLIDEAN = ("LVQClassifier", "GLVQClassifier", "MarginLVQClassifier")


def model(
    fitted: Any, name: str, X: Any, y: Any, Q: np.ndarray, answers: dict, rng: Any
) -> list[Outcome]:
    """Wrong answers of a fitted model, as far as they can be known."""
    X, Q = np.asarray(X), np.asarray(Q)
    out = []
    predicted = answers["predict"]
    if name in EUCLIDEAN and getattr(fitted, "decision", "nearest") == "nearest":
        points, unit = np.asarray(fitted.prototypes_), getattr(fitted, "scale_", None)
        labels = np.asarray(fitted.prototype_labels_)
        # Features of unequal units are divided by their spread.
        bad = not_nearest(Q, points, labels, predicted, 1 if unit is None else unit)
        if bad.any():
            out.append(wrong(name, "not the nearest prototype", Q=Q[bad], points=points,
                             answers=predicted[bad]))  # fmt: skip
    if (
        name == "TangentKNeighborsClassifier"
        and fitted.n_neighbors == 1
        and fitted.tangents is None
        and not fitted.transformations
        and fitted.metric == "tangent"
        and fitted.algorithm in ("exact", "brute")
    ):
        labels = np.asarray(y).ravel()
        bad = not_nearest(Q.astype(np.result_type(Q, X)), X, labels, predicted)
        if bad.any():
            out.append(wrong(name, "not the nearest neighbour", Q=Q[bad],
                             answers=predicted[bad]))  # fmt: skip
    radius = answers.get("certified_radius")
    # That of a kernel is in the kernel's space.
    if radius is not None and name != "KernelLVQClassifier":
        # Radii are stated for samples the model gets right, and never negative.
        if (radius < 0).any():
            out.append(wrong(name, "certified_radius below 0", radius=radius))
        away = rng.normal(size=Q.shape)
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        # Not out of the numbers whose squares are answered: any step within will do.
        step = np.minimum(radius, 1e3 * (1 + np.abs(Q).max()))
        moved = Q + 0.999 * np.asarray(step, Q.dtype)[:, None] * away
        if np.isfinite(moved).all():
            moved = moved.astype(Q.dtype)
            changed = fitted.predict(moved) != predicted
            # Rounded to their dtype they may lie a bit farther away.
            gone = np.sqrt(((moved.astype(WIDE) - Q) ** 2).sum(axis=1))
            visible = (radius > 1e-5 * np.abs(Q).max()) & (gone <= radius)
            if (changed & visible).any():
                out.append(wrong(name, "answer changes within certified_radius",
                                 radius=radius, Q=Q))  # fmt: skip
    if name == "MaxMarginClassifier":
        out += _certificate(fitted, name)
    return out


def _certificate(fitted: Any, name: str) -> list[Outcome]:
    margin = getattr(fitted, "margin_", None)
    upper = getattr(fitted, "margin_upper_bound_", None)
    if margin is None or upper is None:
        return []
    margin, upper = np.asarray(margin, float), np.asarray(upper, float)
    named = [(row > 0).any() and (row < 0).any() for row in fitted.dual_coef_]
    if (np.isinf(upper) & named).any():
        return [wrong(name, "infinite bound of a combination", upper=upper)]
    if margin.shape == upper.shape and (margin > upper * (1 + 1e-12)).any():
        return [wrong(name, "margin above its upper bound", margin=margin, upper=upper)]
    return []
