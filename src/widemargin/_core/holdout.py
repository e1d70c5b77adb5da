"""Holding samples out: the same share of every class, or a plain random draw.

A share of every class keeps each class in training, which is what choosing a model
wants. A promise about new samples needs a draw that does not look at the labels.
Masks are (n_samples,), True where a sample is held out.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Candidate = TypeVar("Candidate")


def hold_out_of_classes(
    codes: NDArray,
    fraction: float,
    rng: np.random.RandomState,
    usable: NDArray | None = None,
    *,
    name: str = "validation_fraction",
    needed: bool = True,
) -> NDArray:
    """Hold out `fraction` of every class; each keeps at least one sample.

    Where that leaves nothing to hold out, it is an error if some is `needed`.

    >>> codes = np.array([0, 0, 0, 0, 1])
    >>> hold_out_of_classes(codes, 0.25, np.random.RandomState(0)).sum()
    np.int64(1)
    """
    held = np.zeros(len(codes), dtype=bool)
    shuffled = rng.permutation(len(held))
    if usable is not None:
        shuffled = shuffled[usable[shuffled]]
    shuffled = shuffled[np.argsort(codes[shuffled], kind="stable")]
    _, starts = np.unique(codes[shuffled], return_index=True)
    for rows in np.split(shuffled, starts[1:]):
        held[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
    if needed and not held.any():
        raise ValueError(
            f"{name}={fraction} of {len(codes)} samples holds none out, as every class "
            f"keeps one to learn from; raise {name}, give more samples, or do without."
        )
    return held


def hold_out_at_random(
    n_samples: int, n_held: int, rng: np.random.RandomState
) -> NDArray:
    """Hold out `n_held` samples, at least one and never all, labels unseen."""
    held = np.zeros(n_samples, dtype=bool)
    held[rng.permutation(n_samples)[: min(max(1, n_held), n_samples - 1)]] = True
    return held


def clear_winner(
    candidates: Sequence[Candidate],
    mistakes: Callable[[Candidate], NDArray],
    weights: NDArray | float = 1.0,
) -> Candidate:
    """Return the first candidate, unless another makes clearly fewer mistakes.

    Clearly: by more than one standard deviation of what chance would do where the two
    differ, the root of the number of differences. `mistakes` are 1 where a held-out
    sample is answered wrongly, else 0.

    >>> wrong = {"old": np.array([1, 1, 1, 0]), "new": np.array([0, 0, 0, 0])}
    >>> clear_winner(["old", "new"], wrong.__getitem__)
    'new'
    """
    winner, most = candidates[0], 0.0
    first = mistakes(winner) if len(candidates) > 1 else None
    for other in candidates[1:]:
        gains = (first - mistakes(other)) * weights
        clear = float(gains.sum() - np.sqrt((gains**2).sum()))
        if clear > most:
            winner, most = other, clear
    return winner
