"""Votes of the neighbours: (n, k) distances and classes to (n, n_classes) shares."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def vote_weights(weights: str | Callable, distances: NDArray) -> NDArray:
    """Weight of every neighbour, or an error that says what a function did wrong."""
    if callable(weights):
        return _checked(weights(distances), distances.shape)
    if weights == "uniform":
        return np.ones_like(distances)
    # A neighbour at distance 0 outvotes all that are farther.
    zero = distances == 0
    with np.errstate(divide="ignore"):
        return np.where(zero.any(1)[:, None], zero, 1 / distances)


def _checked(given: Any, shape: tuple[int, ...]) -> NDArray:
    given = np.asarray(given, dtype=float)
    if given.shape != shape:
        raise ValueError(
            f"weights must return an array of the shape of its distances, {shape}; got "
            f"{given.shape}."
        )
    if not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError(
            "weights must return finite numbers of at least 0; weights='distance' "
            "takes care of distances of 0."
        )
    if not (given > 0).any(axis=1).all():
        raise ValueError(
            "weights gave 0 to all neighbours of some sample, which leaves no vote; "
            "it must return a number above 0 for at least one of them."
        )
    return given


def shares_of_votes(
    weights: NDArray, codes: NDArray, n_classes: int
) -> tuple[NDArray, NDArray]:
    """Share of every class, and how near it comes: below 1, no two classes equal."""
    n, k = weights.shape
    shares, rank = np.zeros((n, n_classes)), np.zeros((n, n_classes))
    for place in range(k - 1, -1, -1):
        at = np.arange(n), codes[:, place]
        shares[at] += weights[:, place]
        rank[at] = k - place
    return shares / shares.sum(axis=1, keepdims=True), rank / (k + 1)
