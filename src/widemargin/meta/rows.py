"""Rows of whatever holds samples: arrays, sparse matrices, data frames, lists."""

from typing import Any

import numpy as np


def as_rows(X: Any) -> Any:
    """Return `X` itself if its rows can be taken, else as an array."""
    if isinstance(X, list) or hasattr(X, "iloc") or hasattr(X, "shape"):
        return X
    return np.asarray(X)


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of `X` in the kind of container that it is."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    if hasattr(X, "shape"):
        return X[rows]
    return [X[i] for i in rows]


def hold_out(
    y: np.ndarray, usable: np.ndarray, fraction: float, rng: np.random.RandomState
) -> np.ndarray:
    """Mask of `fraction` of every class; each keeps at least one sample to train on."""
    held = np.zeros(len(y), dtype=bool)
    for label in np.unique(y[usable]):
        rows = rng.permutation(np.flatnonzero((y == label) & usable))
        held[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
    return held
