"""Equal rows: copies of one sample, and rows that are equal by chance.

A row is compared by one number, its sum with weights that have no pattern; only rows
whose numbers agree are compared feature by feature. Copies of a sample are the same
observation and are learned from, or left out, together. Where features have so few
values that equal rows are usual, equal rows are different observations. Shapes: X
(n, d), codes and groups (n,).
"""

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from widemargin._compute.engines import formula
from widemargin._compute.machine import batched_slices
from widemargin._compute.rounding import epsilon
from widemargin._core.arrays import largest_of, to_numpy, xp_of

# What copies of a row may differ by, beside the largest of a feature: roundings of
# float64, by projections. Fewer digits tell different rows apart by chance alone.
ROUNDING = 64 * epsilon()
# Entries of X that are weighted at once: they stay in a cache.
ENTRIES = 2**14


@lru_cache
def direction(n_features: int) -> NDArray:
    """Weights without a pattern: sums with them tell rows apart."""
    return np.random.RandomState(0).uniform(1, 2, n_features)


@formula
def row_keys(X: Any, weights: NDArray) -> NDArray:
    """Return one number per row, the same for equal rows wherever they are.

    Not a product: BLAS may round equal rows differently, depending on where they are.
    """
    size = max(1, ENTRIES // max(1, X.shape[1]))
    blocks = [(X[s] * weights).sum(axis=1) for s in batched_slices(len(X), size)]
    return np.concatenate(blocks)


def duplicate_groups(X: Any, codes: NDArray) -> NDArray:
    """Return one number for equal rows of one class, in an order of values alone.

    Equal up to rounding: a projection may round the copies of a sample differently.

    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0 + 1e-15, 2.0]])
    >>> duplicate_groups(X, np.zeros(3, int))
    array([0, 1, 0])
    """
    weights = direction(X.shape[1])
    key = row_keys(X, weights)
    one = len(codes) > 0 and bool((codes == codes[0]).all())
    order = np.argsort(key, kind="stable") if one else np.lexsort((key, codes))
    codes, key, xp = codes[order], key[order], xp_of(X)
    most = ROUNDING * to_numpy(xp.max(xp.abs(X), axis=0)).astype(float)
    same = np.diff(key) <= weights @ most
    same &= codes[1:] == codes[:-1]
    for at in np.array_split(np.flatnonzero(same), 1 + len(X) // 4096):
        a, b = (to_numpy(X[order[rows]]).astype(float) for rows in (at, at + 1))
        same[at] = (np.abs(a - b) <= most).all(axis=1)
    groups = np.empty(len(order), np.intp)
    groups[order] = np.concatenate([[0], np.cumsum(~same)])
    return groups


def equal_by_chance(rows: NDArray) -> bool:
    """Whether features have so few values that equal rows are usual."""
    enough = np.log(100 * len(rows))
    # A few rows have as many values as it takes, if all have many more.
    for part in (rows[:1000], rows):
        sizes = [len(np.unique(column)) for column in part.T]
        if np.log(sizes).sum() > enough:
            return False
    return True


def groups_by_value(X: Any, y: NDArray) -> NDArray:
    """Return one number for samples that are equal, as chance does not make them.

    Numbers are in an order of values alone: they do not depend on where samples stand,
    or how often. Each sample has the number of its row in what is neither an array of
    numbers nor sparse, and where equal rows are usual.
    """
    alone, codes = np.arange(len(y)), np.unique(y, return_inverse=True)[1]
    if sp.issparse(X):
        groups = sparse_groups(X)
        return alone if _in_two_classes(groups, codes) else groups
    try:
        rows = np.asarray(X)
    except (TypeError, ValueError):
        return alone
    if rows.ndim != 2 or rows.dtype.kind not in "biuf" or len(rows) != len(y):
        return alone
    groups = duplicate_groups(rows.astype(float), codes)
    if int(groups.max()) + 1 == len(y):
        return groups
    return alone if equal_by_chance(rows) else groups


def groups_of_copies(X: Any, y: NDArray) -> NDArray:
    """Return `groups_by_value`, or numbers of rows where no sample has a copy."""
    groups = groups_by_value(X, y)
    return groups if int(groups.max()) + 1 < len(y) else np.arange(len(y))


def sparse_groups(X: Any) -> NDArray:
    """Return one number for equal rows of a sparse matrix, in an order of values."""
    keys = np.asarray(X @ direction(X.shape[1]))
    order = np.argsort(keys)
    fresh = np.diff(keys[order]) > 1e-15 * X.shape[1] * largest_of(X)
    groups = np.empty(len(keys), int)
    groups[order] = np.cumsum(np.concatenate([[0], fresh]))
    return groups


def _in_two_classes(groups: NDArray, codes: NDArray) -> bool:
    """Whether equal rows have different classes: then they are no copies."""
    pairs = np.unique(groups * (codes.max() + 1) + codes)
    return len(pairs) > int(groups.max()) + 1


def repeated_rows(X: Any, y: NDArray) -> NDArray:
    """Return which samples are there more than once, as chance does not make them."""
    groups = groups_of_copies(X, y)
    return np.bincount(groups)[groups] > 1


def observation_groups(X: Any, codes: NDArray) -> NDArray | None:
    """Return one number for all samples that are the same observation.

    None where each is an observation of its own.

    >>> X = np.random.RandomState(0).normal(size=(200, 2))
    >>> X[7] = X[5]
    >>> alike = observation_groups(X, np.zeros(200, int))
    >>> bool(alike[7] == alike[5]), len(np.unique(alike))
    (True, 199)
    """
    if len(codes) == 0:
        return None
    if sp.issparse(X):
        groups = sparse_groups(X)
    else:
        groups = duplicate_groups(X, np.zeros(len(X), int))
    n_groups = int(groups.max()) + 1
    if n_groups == len(codes):
        return None
    # Rows that are in two classes are no copies, and neither are others then.
    if _in_two_classes(groups, codes):
        return None
    if not sp.issparse(X) and equal_by_chance(X):
        return None
    return groups
