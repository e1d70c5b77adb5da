"""Class scores in the shapes scikit-learn wants, and the margins they imply.

Scores are (n_samples, n_classes), larger is likelier; two classes collapse to the
one column score[1] - score[0]. The margin of a sample is the score of its own class
less the best other score: positive exactly where the largest score is the right one.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_decision(scores: NDArray) -> NDArray:
    """Return scores of more than two classes as they are, of two as one column."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def from_decision(decision: NDArray) -> NDArray:
    """Undo `as_decision`, up to what two classes have in common."""
    if decision.ndim == 2:
        return decision
    return np.column_stack([-decision, decision]) / 2


def class_codes(y: Any, classes: NDArray) -> NDArray:
    """Positions of labels among `classes`, or an error that names the unknown ones."""
    y = np.asarray(y)
    codes = np.searchsorted(classes, y)
    codes = np.minimum(codes, len(classes) - 1)
    unknown = np.unique(y[classes[codes] != y])
    if len(unknown):
        raise ValueError(
            f"y contains {unknown[:10].tolist()}, which the classifier was not fitted "
            f"with; its classes are {classes.tolist()}."
        )
    return codes


def score_margins(scores: NDArray, codes: NDArray) -> NDArray:
    """Score of the right class less the best score of a wrong one."""
    scores = np.array(scores, dtype=float)
    rows = np.arange(len(scores))
    right = scores[rows, codes].copy()
    scores[rows, codes] = -np.inf
    return right - scores.max(axis=1)
