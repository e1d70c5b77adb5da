"""Margins in [-1, 1] of any classifier, positive exactly where it is right.

* ``margins``: what the classifier itself calls its margins;
* ``decision_function``: with f_y the score of the right label and f_o the largest
  other one (for two classes ±f against 0), m = (f_y - f_o)/2 is brought into (-1, 1) by
  m / (|m| + s), with s the median of |m| in the first round;
* ``predict_proba``: p_y - max of the others.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin._core.decisions import from_decision, score_margins

METHODS = ("margins", "decision_function", "predict_proba")


def gap(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Score of the right label less the largest other one; (n,) scores are binary."""
    return score_margins(from_decision(scores), codes)


def choose_method(margin: Any, estimator: Any) -> str | Callable:
    """Return the method of `estimator` to take margins from, or the function given."""
    if callable(margin):
        return margin
    if margin == "auto":
        for method in METHODS:
            if hasattr(estimator, method):
                return method
        raise ValueError(
            f"{type(estimator).__name__} has none of {', '.join(METHODS)}: pass "
            "margin=, a function of (estimator, X, y) that returns one number in "
            "[-1, 1] per sample, positive where the estimator is right."
        )
    if not isinstance(margin, str) or margin not in METHODS:
        raise ValueError(
            f"margin must be 'auto', one of {', '.join(map(repr, METHODS))} or a "
            f"function of (estimator, X, y); got {margin!r}."
        )
    if not hasattr(estimator, margin):
        raise ValueError(
            f"margin={margin!r}, but {type(estimator).__name__} has no such method."
        )
    return margin


class Margins:
    """Margins of one learner after another, all on the scale of the first."""

    def __init__(self, method: str | Callable, classes: np.ndarray) -> None:
        self.method, self.classes = method, classes
        self.scale: float | None = None

    def __call__(self, estimator: Any, X: Any, y: np.ndarray) -> np.ndarray:
        """Return the margin of every sample."""
        if callable(self.method):
            mu = np.asarray(self.method(estimator, X, y), dtype=float)
            if mu.shape != (len(y),) or not np.all(np.abs(mu) <= 1):
                raise ValueError(
                    "margin(estimator, X, y) must return one number in [-1, 1] per "
                    f"sample; got shape {mu.shape} for {len(y)} samples."
                )
            return mu
        if self.method == "margins":
            return np.asarray(estimator.margins(X, y), dtype=float)
        scores = np.asarray(getattr(estimator, self.method)(X))
        codes = np.searchsorted(self.classes, y)
        if self.method == "predict_proba":
            return gap(scores, codes)
        m = gap(scores, codes) / (1 if scores.ndim == 1 else 2)
        if self.scale is None:
            self.scale = float(np.median(np.abs(m))) or 1.0
        return m / (np.abs(m) + self.scale)
