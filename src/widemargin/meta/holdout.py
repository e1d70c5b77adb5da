"""Hold out a random part of the samples, for a threshold that keeps its promise."""

from math import ceil, log
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import (
    assert_all_finite,
    check_random_state,
    column_or_1d,
    indexable,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight


def check_samples(X: Any, y: ArrayLike) -> tuple[Any, NDArray]:
    """Return samples that can be indexed, and labels as an array."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None.")
    X, y = indexable(X, y)
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return X, labels


def check_fraction(cv: Any) -> float:
    """Return the fraction of samples to hold out."""
    if not isinstance(cv, Real) or isinstance(cv, bool) or not 0 < float(cv) < 1:
        raise ValueError(
            "cv must be the fraction of samples to hold out, above 0 and below 1, or "
            f"'prefit'; got {cv!r}. Several folds would give several classifiers, and "
            "a promise can only be made for one."
        )
    return float(cv)


def hold_out(
    y: NDArray, sample_weight: Any, cv: Any, random_state: Any
) -> tuple[NDArray, NDArray]:
    """Rows to fit on and rows to hold out: a random draw, not stratified.

    A class that the draw would leave without a row to fit on gets one back. Rows of
    weight zero are in neither part.
    """
    fraction = check_fraction(cv)
    rows = np.arange(len(y))
    if sample_weight is not None:
        rows = rows[_check_sample_weight(sample_weight, y) != 0]
        if len(np.unique(y[rows])) < 2 <= len(np.unique(y)):
            raise ValueError(
                "sample_weight is zero for all samples but those of one class; at "
                "least two classes must have weight."
            )
    order = check_random_state(random_state).permutation(rows)
    n_held_out = max(1, round(len(rows) * fraction))
    held_out, train = order[:n_held_out], order[n_held_out:]
    labels, first = np.unique(y[held_out], return_index=True)
    moved = first[~np.isin(labels, y[train])]
    train = np.concatenate([train, held_out[moved]])
    held_out = np.delete(held_out, moved)
    if not len(held_out):
        raise ValueError(
            f"cv={cv} of n_samples={len(rows)} leaves nothing to hold out once every "
            "class has a sample to learn from; more samples or cv='prefit' is needed."
        )
    return np.sort(train), np.sort(held_out)


def nothing_promised(max_error: float | None, delta: float | None, n: int) -> str:
    """Say that no threshold keeps `max_error`, and what would help."""
    said = (
        f"max_error={max_error} could not be shown on {n} held-out samples at any "
        "threshold, so every sample will be rejected."
    )
    if delta is None or max_error is None:
        return said
    needed = ceil(log(delta) / log(1 - max_error))
    return (
        f"{said} Even without a mistake {needed} held-out samples are needed: give "
        "more samples, a larger max_error or a larger delta."
    )
