"""Which samples are left out: to judge a model, or to guarantee something about it.

Samples are left out by the same share of every class, or by a plain random draw. A
share of every class keeps each class in training, which is what choosing a model wants;
scikit-learn's stratified splitters leave a class of one sample out altogether. A
guarantee about new samples needs a draw that does not look at the labels. Masks are
(n_samples,), True where a sample is held out.
"""

import numpy as np
from numpy.typing import NDArray


def hold_out_of_classes(
    codes: NDArray,
    fraction: float,
    rng: np.random.RandomState,
    usable: NDArray | None = None,
    groups: NDArray | None = None,
    *,
    needed: bool = True,
) -> NDArray:
    """Hold out `fraction` of every class; each keeps at least one sample.

    Equal samples, those of one class with one number in `groups`, are held out
    together. Where that leaves nothing to hold out, it is an error if some is `needed`.

    >>> codes = np.array([0, 0, 0, 0, 1])
    >>> hold_out_of_classes(codes, 0.25, np.random.RandomState(0)).sum()
    np.int64(1)
    """
    if groups is not None:
        groups, first, of = np.unique(groups, return_index=True, return_inverse=True)
        if usable is not None:
            usable = np.bincount(of, usable) > 0
        args = codes[first], fraction, rng, usable
        return hold_out_of_classes(*args, needed=needed)[of]
    held = np.zeros(len(codes), dtype=bool)
    shuffled = rng.permutation(len(held))
    if usable is not None:
        shuffled = shuffled[usable[shuffled]]
    shuffled = shuffled[np.argsort(codes[shuffled], kind="stable")]
    _, starts = np.unique(codes[shuffled], return_index=True)
    for rows in np.split(shuffled, starts[1:]):
        held[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
    if needed and not held.any():
        raise none_held_out(fraction, len(codes))
    return held


def hold_out_counts(
    codes: NDArray, counts: NDArray, rng: np.random.RandomState
) -> NDArray:
    """Hold out so many random samples of every class; `counts` is (n_classes,).

    >>> codes = np.array([0, 0, 0, 1, 1])
    >>> held = hold_out_counts(codes, np.array([2, 1]), np.random.RandomState(0))
    >>> np.bincount(codes[held])
    array([2, 1])
    """
    held = np.zeros(len(codes), dtype=bool)
    shuffled = rng.permutation(len(codes))
    for c, count in enumerate(counts):
        held[shuffled[codes[shuffled] == c][:count]] = True
    return held


def none_held_out(fraction: float, n_samples: int) -> ValueError:
    """Return what is raised where there is nothing to hold out."""
    return ValueError(
        f"validation_fraction={fraction} of {n_samples} samples holds none out, "
        "as every class keeps one to learn from; raise it, give more samples, or "
        "do without."
    )


def hold_out_at_random(
    n_samples: int, n_held: int, rng: np.random.RandomState
) -> NDArray:
    """Hold out `n_held` samples, at least one and never all, labels unseen."""
    held = np.zeros(n_samples, dtype=bool)
    held[rng.permutation(n_samples)[: min(max(1, n_held), n_samples - 1)]] = True
    return held


def folds_of_classes(
    codes: NDArray,
    n_folds: int,
    enough: float = np.inf,
    groups: NDArray | None = None,
) -> list[NDArray]:
    """Rows of each fold: of `n_folds` that part every class, as many as are `enough`.

    Folds are as equal as they can be, class by class. There are as many as it takes to
    leave out `enough` samples. A class of one sample is in none; equal samples, those
    of one class with one number in `groups`, are in the same and count as one.

    >>> [len(rows) for rows in folds_of_classes(np.repeat([0, 1, 2], [6, 3, 1]), 3)]
    [3, 3, 3]
    """
    _, first, of = np.unique(
        np.arange(len(codes)) if groups is None else groups,
        return_index=True,
        return_inverse=True,
    )
    own = codes[first]
    shuffled = np.random.RandomState(0).permutation(len(own))
    shuffled = shuffled[np.bincount(own)[own[shuffled]] > 1]
    # Class by class, so that no fold has more than one of a class that is rare.
    shuffled = shuffled[np.argsort(own[shuffled], kind="stable")]
    fold = np.full(len(own), -1)
    fold[shuffled] = np.arange(len(shuffled)) % n_folds
    rows = [np.flatnonzero(fold[of] == k) for k in range(n_folds)]
    wanted = min(n_folds, -(-n_folds * enough // len(own)))
    return [part for part in rows if len(part)][: int(wanted)]
