"""Squared distances to a few references: one product, and close calls once more.

``||x - p||^2 = ||x||^2 - 2 x.p + ||p||^2`` costs one product, and loses digits when the
distance is small beside the norms: each entry is only known up to

    e_ij = err (|x_i|^2 + |p_j|^2),    err = eps (16 + sqrt(d)).

`settled` computes an entry again, from the difference itself, wherever that decides
something: where e exceeds a small fraction of the distance, and where two references
could both be the nearest. What is nearest here is then nearest, whatever the offset, an
outlier among the references, or the other rows of the batch. NaN in a row is a value
that is missing, and sums run over what is there. With m_i of d values there in sample
i, the squared distance to a whole point p is

    D_i = d / m_i  sum_{f there} (x_if - p_f)^2,

and under a linear map Omega it is ``d / m_i ||Omega diag(there_i) (x_i - p)||^2``; of
two samples it runs over the m values that both have. Where values are missing at
random, whatever they are, D is right in the mean over what may be missing. It is
biased where values are missing because of what they are, and says less than it could
where features depend on each other, or few of them tell the classes apart.
Shapes: X (n, d), P (K, d), D (n, K); Y (m, d), Omega (rank, d).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin._compute.machine import BLOCK_NUMBERS, batched_slices, rows_in_budget

# Relative error above which a squared distance is computed again.
COARSE = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-6}


def squared_norms(X: np.ndarray) -> np.ndarray:
    """Squared lengths of the rows."""
    return np.einsum("ij,ij->i", X, X)


def expanded_distances(
    X: np.ndarray, P: np.ndarray, X_norms: np.ndarray | None = None
) -> np.ndarray:
    """Distances of data already near the origin; `X_norms` saves their squares."""
    D = X @ P.T
    D *= -2
    D += (squared_norms(X) if X_norms is None else X_norms)[:, None]
    D += squared_norms(P)
    return np.maximum(D, 0, out=D)


def product_error(dtype: Any, n_features: int) -> float:
    """Return the rounding of an inner product and its uses, per unit of the norms.

    In units of the dtype's epsilon, 16 and the root of the number of features, as
    errors of either sign add up.
    """
    return float(np.finfo(dtype).eps) * (16.0 + np.sqrt(n_features))


def settled(
    D: np.ndarray,
    X_errors: np.ndarray,
    P_errors: np.ndarray,
    direct: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    coarse: float | None = None,
    n_features: int = 1,
) -> np.ndarray:
    """Compute again, in place, what rounding of X_errors + P_errors leaves open.

    ``direct(rows, columns)`` returns the squared distances of some pairs.
    """
    from widemargin._compute.lvq import doubtful

    rtol = COARSE[D.dtype] if coarse is None else coarse
    rows, columns = doubtful(D, X_errors, P_errors, rtol)
    if not len(rows):
        return D
    for s in batched_slices(len(rows), rows_in_budget(32 * n_features)):
        D[rows[s], columns[s]] = direct(rows[s], columns[s])
    return D


def paired_distances(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Squared distances of paired rows, from their differences in float64."""
    return squared_norms(X.astype(np.float64) - P)


def squared_distances(
    X: np.ndarray,
    P: np.ndarray,
    coarse: float | None = None,
    unit: np.ndarray | None = None,
) -> np.ndarray:
    """Return the (n_samples, n_references) squared distances, close calls settled.

    Differences are divided by `unit`, one number per feature: those of the samples
    themselves, since a quotient of numbers far from the origin is rounded.
    """
    dtype = np.result_type(X, P)
    if not len(P):
        return np.empty((len(X), 0), dtype)
    # Rounded once: both sides must lose the same offset.
    centre = P.mean(axis=0, dtype=np.float64).astype(dtype)
    one = 1 if unit is None else unit
    if np.isnan(centre).any():
        return distances_there(X / one, P / one).astype(dtype)
    x, p = X - centre, P - centre
    if unit is not None:
        x /= unit
        p /= unit
    x_norms, p_norms = squared_norms(x), squared_norms(p)
    D = expanded_distances(x, p, x_norms)
    # Of quotients, the rounding of one more number at either end.
    error = product_error(D.dtype, X.shape[1]) * (1 if unit is None else 1.5)
    D = settled(
        D,
        error * x_norms,
        error * p_norms,
        lambda i, j: squared_norms((X[i].astype(np.float64) - P[j]) / one),
        coarse=coarse,
        n_features=X.shape[1],
    )
    return with_partial(
        D, x_norms, lambda rows: distances_there(X[rows] / one, P / one)
    )


def nearest_points(X: np.ndarray, queries: np.ndarray | None, k: int) -> np.ndarray:
    """(n, k) indices of the nearest rows of X; without queries, of X but itself.

    In the order of distance and index, whatever the other queries of the batch are.
    """
    asked = X if queries is None else queries
    centre = X.mean(axis=0, dtype=np.float64)
    p = X - centre
    p_norms, error = squared_norms(p), product_error(p.dtype, X.shape[1])
    groups = np.arange(0, len(X), max(1, len(X) // (16 * k)))
    out = np.empty((len(asked), k), np.intp)
    for part in batched_slices(len(asked), max(64, BLOCK_NUMBERS // len(X))):
        x = asked[part] - centre
        e = squared_norms(x)[:, None] + p_norms
        D = e - 2 * (x @ p.T)
        e *= error
        if queries is None:
            np.fill_diagonal(D[:, part], np.inf)
        # The k-th best of the best of groups is not before the k-th best of all.
        best = np.minimum.reduceat(D + e, groups, axis=1)
        reach = np.partition(best, k - 1, axis=1)[:, k - 1 : k]
        rows, columns = np.nonzero(D - e <= reach)
        exact = np.empty(len(rows))
        for s in batched_slices(len(rows), rows_in_budget(32 * X.shape[1])):
            exact[s] = paired_distances(asked[part][rows[s]], X[columns[s]])
        first = np.searchsorted(rows, np.arange(len(x)))
        order = np.lexsort((columns, exact, rows))
        out[part] = columns[order[first[:, None] + np.arange(k)]]
    return out


def with_partial(
    D: np.ndarray, X_norms: np.ndarray, direct: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Put in, in place, the distances of rows whose norm is NaN: values are missing."""
    rows = np.flatnonzero(np.isnan(X_norms))
    if len(rows):
        D[rows] = direct(rows)
    return D


def rbf_values(X: np.ndarray, Y: np.ndarray, gamma: float) -> np.ndarray:
    """Return exp(-gamma d²) of all pairs, wherever the origin of the data is."""
    # Twice the digits of float32: neighbours' values differ by less than its rounding.
    d2 = squared_distances(X.astype(np.float64), Y.astype(np.float64))
    with np.errstate(over="ignore"):
        d2 *= -gamma
    return np.exp(d2, out=d2)


def class_minima(D: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Reduce distances to references to distances to classes (inf for a bare class)."""
    from widemargin._compute import lvq

    return lvq.class_minima(D, codes, n_classes)


def present(X: np.ndarray) -> np.ndarray | None:
    """Return 1 where a value is there and 0 where it is missing; None if none is.

    What is on a device is whole.
    """
    if not isinstance(X, np.ndarray):
        return None
    holes = np.isnan(X)
    return (~holes).astype(X.dtype) if holes.any() else None


def shares(there: np.ndarray) -> np.ndarray:
    """Factor d / m of every row."""
    return (there.shape[1] / there.sum(axis=1)).astype(there.dtype)


def distances_there(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the (n, m) squared distances over what both have, scaled, in float64."""
    from widemargin._compute import lvq

    return lvq.distances_there(np.ascontiguousarray(X), np.ascontiguousarray(Y))


def mapped_distances_there(
    X: np.ndarray, P: np.ndarray, omega: np.ndarray
) -> np.ndarray:
    """Return the (n, K) squared distances under a map, over what is there, scaled."""
    D = np.empty((len(X), len(P)), np.result_type(X, P))
    one = rows_in_budget(X.itemsize * len(X) * (2 * X.shape[1] + len(omega)))
    for s in batched_slices(len(P), max(1, one)):
        gaps = np.nan_to_num(X[:, None, :] - P[s], nan=0.0)
        mapped = gaps @ omega.T
        D[:, s] = np.einsum("ijk,ijk->ij", mapped, mapped)
    return D * (X.shape[1] / np.count_nonzero(~np.isnan(X), axis=1))[:, None]


def means_there(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Mean of every feature over what is there, in float64; 0 where nothing is."""
    there = ~np.isnan(X)
    w = np.ones(len(X)) if weights is None else weights
    mass = w @ there
    return (w @ np.where(there, X, 0)) / np.where(mass > 0, mass, 1)


def second_moments(R: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(d, d) mean of r r^T, each entry over the samples that have both features."""
    weights = weights / weights.sum()
    there = present(R)
    if there is None:
        return ((R * weights[:, None]).T @ R).astype(np.float64)
    R = np.nan_to_num(R, nan=0.0)
    mass = (there * weights[:, None]).T @ there
    return ((R * weights[:, None]).T @ R) / np.where(mass > 0, mass, 1)
