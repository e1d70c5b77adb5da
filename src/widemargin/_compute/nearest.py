"""Squared distances to a few references: one product, and close calls once more.

``||x - p||^2 = ||x||^2 - 2 x.p + ||p||^2`` costs one product, and loses digits when the
distance is small beside the norms: each entry is only known up to

    e_ij = err (|x_i|^2 + |p_j|^2),    err = eps (16 + sqrt(d)).

`recompute_close` computes an entry again, from the difference itself, wherever that
decides something: where e exceeds a small fraction of the distance, and where two
references could both be the nearest. What is nearest here is then nearest, whatever the
offset, an outlier among the references, or the other rows of the batch. Shapes: X (n,
d), P (K, d), D (n, K).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh

from widemargin._compute.engines import formula
from widemargin._compute.machine import BLOCK_NUMBERS, batched_slices, rows_in_budget
from widemargin._compute.rounding import product_error

# Relative error above which a squared distance is computed again.
COARSE = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-6}


def squared_norms(X: np.ndarray) -> np.ndarray:
    """Squared lengths of the rows."""
    return np.einsum("ij,ij->i", X, X)


def narrowed(X: Any, centre: Any, limits: Any = None) -> tuple[np.ndarray, Any]:
    """Return rows about a centre in float32, in units of the largest, and the unit.

    `limits` are the smallest and largest rows, if known. Made block by block: what is
    between stays in the cache.
    """
    low, high = (X.min(axis=0), X.max(axis=0)) if limits is None else limits
    unit = X.dtype.type(max((high - centre).max(), (centre - low).max()) or 1)
    narrow = np.empty(X.shape, np.float32)
    for s in batched_slices(len(X), BLOCK_NUMBERS // (8 * max(1, X.shape[1]))):
        np.divide(X[s] - centre, unit, out=narrow[s], casting="same_kind")
    return narrow, unit


def expanded_distances(
    X: np.ndarray, P: np.ndarray, X_norms: np.ndarray | None = None
) -> np.ndarray:
    """Distances of data already near the origin; `X_norms` saves their squares."""
    D = X @ P.T
    D *= -2
    D += (squared_norms(X) if X_norms is None else X_norms)[:, None]
    D += squared_norms(P)
    return np.maximum(D, 0, out=D)


@formula
def doubtful(
    D: np.ndarray, x_errors: np.ndarray, p_errors: np.ndarray, rtol: float
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs whose squared distance decides something that its rounding leaves open.

    These are the entries known to less than the fraction `rtol`, and, where several
    references may be the nearest of a row, all of those.
    """
    errors = x_errors[:, None] + p_errors
    above = (D + x_errors[:, None] + p_errors).min(axis=1, keepdims=True)
    near = D - errors <= above
    near &= np.count_nonzero(near, axis=1)[:, None] > 1
    near |= errors > D.dtype.type(rtol) * D
    rows, columns = np.nonzero(near)
    return rows, columns


def recompute_close(
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
    """Return the (n_samples, n_references) squared distances, close ones exactly.

    Differences are divided by `unit`, one number per feature: those of the samples
    themselves, since a quotient of numbers far from the origin is rounded.
    """
    dtype = np.result_type(X, P)
    if not len(P):
        return np.empty((len(X), 0), dtype)
    # Rounded once: both sides must lose the same offset.
    centre = P.mean(axis=0, dtype=np.float64).astype(dtype)
    one = 1 if unit is None else unit
    x, p = X - centre, P - centre
    if unit is not None:
        x /= unit
        p /= unit
    x_norms, p_norms = squared_norms(x), squared_norms(p)
    D = expanded_distances(x, p, x_norms)
    # Of quotients, the rounding of one more number at either end.
    error = product_error(D.dtype, X.shape[1]) * (1 if unit is None else 1.5)
    return recompute_close(
        D,
        error * x_norms,
        error * p_norms,
        lambda i, j: squared_norms((X[i].astype(np.float64) - P[j]) / one),
        coarse=coarse,
        n_features=X.shape[1],
    )


@formula
def nearest_rows(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return the nearest of the references P of every row."""
    size = rows_in_budget(X.itemsize * (X.shape[1] + 3 * len(P)))
    parts = [squared_distances(X[s], P) for s in batched_slices(len(X), size)]
    return np.concatenate([D.argmin(axis=1) for D in parts])


@formula
def nearest_of(X: Any, P: np.ndarray) -> np.ndarray:
    """Return the nearest of the references P of every row, wherever the rows are."""
    return nearest_rows(X, P)


# Up to this many features a tree finds neighbours sooner than products do.
TREE_FEATURES = 15


@formula
def nearest_points(X: np.ndarray, queries: np.ndarray | None, k: int) -> np.ndarray:
    """(n, k) indices of the nearest rows of X; without queries, of X but itself.

    In the order of distance, whatever the other queries of the batch are.
    """
    if X.shape[1] <= TREE_FEATURES:
        from sklearn.neighbors import NearestNeighbors

        # A tree meets every query alone; scikit-learn's products do not.
        search = NearestNeighbors(algorithm="kd_tree").fit(X)
        return search.kneighbors(queries, k, return_distance=False)
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


def rbf_values(X: np.ndarray, Y: np.ndarray, gamma: float) -> np.ndarray:
    """Return exp(-gamma d²) of all pairs, wherever the origin of the data is."""
    # Twice the digits of float32: neighbours' values differ by less than its rounding.
    d2 = squared_distances(X.astype(np.float64), Y.astype(np.float64))
    # No product overflows; with larger ones, too, all but copies are worth nothing.
    d2 *= -min(gamma, 1e150)
    return np.exp(d2, out=d2)


@formula
def class_minima(D: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Reduce distances to references to distances to classes (inf for a bare class)."""
    least = np.full((len(D), n_classes), np.inf, D.dtype)
    for c in np.unique(codes):
        least[:, c] = D[:, codes == c].min(axis=1)
    return least


def nearest_two_classes(
    of_classes: np.ndarray, wanted: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Distances to the wanted class and to the nearest other, of those to all (n, K).

    Without `wanted`, to the nearest class.
    """
    rows = np.arange(len(of_classes))
    wanted = of_classes.argmin(axis=1) if wanted is None else wanted
    others = of_classes.copy()
    others[rows, wanted] = np.inf
    return of_classes[rows, wanted], others.min(axis=1)


def second_moments(R: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(d, d) mean of r r^T."""
    weights = weights / weights.sum()
    return ((R * weights[:, None]).T @ R).astype(np.float64)


def some_eigenpairs(
    matrix: np.ndarray, first: int, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of a symmetric matrix from `first` to `last`, ascending, and vectors.

    LAPACK's search for some of them now and then finds none and says nothing.
    """
    values, vectors = eigh(matrix, subset_by_index=(first, last))
    if len(values) <= last - first:
        values, vectors = (part[..., first : last + 1] for part in eigh(matrix))
    return values, vectors
