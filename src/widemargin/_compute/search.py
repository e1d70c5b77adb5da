"""The last step of a neighbour search: exact distances for the few pairs that matter.

A row of lower bounds says which references can still be among the k nearest. Each of
those gets an estimate from delta = x - y in the dtype of the data, and only where the
estimate, less its possible rounding error, reaches the k nearest so far, the explicit
residual in float64. What is kept is therefore exact, ordered by (distance, index),
and independent of how the bounds were made.

Shapes: `x` (n_x, d), `x_frames` (n_x, l_x, d), likewise y; results (n_x, k).
"""

import numpy as np
from numba import njit

from widemargin._compute.residuals import repair

# Sums may be reordered, which is what lets the products over features vectorise.
_REORDER = {"reassoc", "contract", "nsz"}
# Sides as in residuals.repair.
TANGENTS_AT_Y, TWO_SIDED, MEAN = 0, 1, 2
# Pivots below this are rounding: the direction is in both frames.
SINGULAR = 1e-7
# Roundings a product over the features may collect, in units of the dtype's epsilon.
ROUNDINGS = 32.0


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _dot(u, v):
    total = u.dtype.type(0)
    for i in range(u.shape[0]):
        total += u[i] * v[i]
    return total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _rows_times(rows, vector, out):
    """Inner products of `vector` with every row, four rows at a time."""
    n, d = rows.shape
    zero = rows.dtype.type(0)
    s = 0
    while s + 4 <= n:
        u0, u1, u2, u3 = rows[s], rows[s + 1], rows[s + 2], rows[s + 3]
        t0, t1, t2, t3 = zero, zero, zero, zero
        for i in range(d):
            v = vector[i]
            t0 += u0[i] * v
            t1 += u1[i] * v
            t2 += u2[i] * v
            t3 += u3[i] * v
        out[s], out[s + 1], out[s + 2], out[s + 3] = t0, t1, t2, t3
        s += 4
    while s < n:
        out[s] = _dot(rows[s], vector)
        s += 1


@njit(cache=True, nogil=True)
def _eliminate(M, a, b, spring):
    """Energy taken off by both frames, and how far rounding may have been amplified."""
    l_x, l_y = M.shape
    stiffness = 1.0 + spring
    S = np.empty((l_y, l_y))
    r = np.empty(l_y)
    taken = 0.0
    for p in range(l_x):
        taken += a[p] * a[p] / stiffness
    for s in range(l_y):
        along = 0.0
        for p in range(l_x):
            along += M[p, s] * a[p]
        r[s] = b[s] - along / stiffness
        for t in range(s + 1):
            common = 0.0
            for p in range(l_x):
                common += M[p, s] * M[p, t]
            S[s, t] = -common / stiffness
        S[s, s] += stiffness
    amplified = taken
    for s in range(l_y):
        pivot = max(S[s, s], SINGULAR)
        energy = r[s] * r[s] / pivot
        taken += energy
        amplified += energy / pivot
        for t in range(s + 1, l_y):
            factor = S[t, s] / pivot
            r[t] -= factor * r[s]
            for u in range(s + 1, t + 1):
                S[t, u] -= factor * S[u, s]
    return taken, amplified


@njit(cache=True, nogil=True)
def _estimate(x, x_frame, y, y_frame, sides, spring, delta, products):
    """Squared distance of one pair in the dtype of the data, less its rounding."""
    for i in range(x.shape[0]):
        delta[i] = x[i] - y[i]
    norm = np.float64(_dot(delta, delta))
    l_x, l_y = x_frame.shape[0], y_frame.shape[0]
    a, b = products[l_x, l_y:], products[l_x, :l_y]
    _rows_times(y_frame, delta, b)
    if sides == TANGENTS_AT_Y:
        taken = np.float64(_dot(b, b)) / (1.0 + spring)
        amplified = taken
    else:
        a = a[:l_x]
        _rows_times(x_frame, delta, a)
        if sides == MEAN:
            both = np.float64(_dot(a, a)) + np.float64(_dot(b, b))
            taken = 0.5 * both / (1.0 + spring)
            amplified = taken
        else:
            for p in range(l_x):
                _rows_times(y_frame, x_frame[p], products[p, :l_y])
            taken, amplified = _eliminate(products[:l_x, :l_y], a, b, spring)
    eps = ROUNDINGS * np.finfo(x.dtype).eps
    return norm - taken - eps * (norm + amplified)


@njit(cache=True, nogil=True)
def _insert(d2, j, best_d2, best_j):
    """Keep the k smallest, ordered by (distance, index)."""
    k = best_d2.shape[0]
    last = k - 1
    if d2 > best_d2[last] or (d2 == best_d2[last] and j > best_j[last]):
        return
    while last > 0 and (
        d2 < best_d2[last - 1] or (d2 == best_d2[last - 1] and j < best_j[last - 1])
    ):
        best_d2[last] = best_d2[last - 1]
        best_j[last] = best_j[last - 1]
        last -= 1
    best_d2[last] = d2
    best_j[last] = j


@njit(cache=True, nogil=True)
def nearest_under_bounds(
    bounds, shrink, x, x_frames, y, y_frames, sides, spring, best_d2, best_j
):
    """Fill `best_d2` and `best_j` with the k nearest references of every row of x.

    ``shrink * bounds[i, j]`` never exceeds the squared distance of the pair.
    """
    n_x, n_y = bounds.shape
    k = best_d2.shape[1]
    l_x, l_y = x_frames.shape[1], y_frames.shape[1]
    delta = np.empty(x.shape[1], x.dtype)
    products = np.empty((l_x + 1, l_x + l_y), x.dtype)
    seed_bound, seed = np.empty(k), np.empty(k, np.int64)
    for i in range(n_x):
        best_d2[i] = np.inf
        best_j[i] = n_y
        seed_bound[:] = np.inf
        seed[:] = n_y
        for j in range(n_y):
            if bounds[i, j] < seed_bound[k - 1]:
                _insert(np.float64(bounds[i, j]), j, seed_bound, seed)
        for s in range(k):
            _consider(i, seed[s], x, x_frames, y, y_frames, sides, spring,
                      best_d2[i], best_j[i])  # fmt: skip
        radius = best_d2[i, k - 1]
        for j in range(n_y):
            bound = np.float64(bounds[i, j])
            if shrink * bound > radius:
                continue
            if bound <= seed_bound[k - 1] and (seed == j).any():
                continue
            estimate = _estimate(x[i], x_frames[i], y[j], y_frames[j], sides, spring,
                                 delta, products)  # fmt: skip
            if estimate <= radius:
                _consider(i, j, x, x_frames, y, y_frames, sides, spring,
                          best_d2[i], best_j[i])  # fmt: skip
                radius = best_d2[i, k - 1]


@njit(cache=True, nogil=True)
def nearest_of_candidates(
    candidates, x, x_frames, y, y_frames, sides, spring, best_d2, best_j
):
    """As `nearest_under_bounds`, among the given `candidates` (n_x, n_candidates)."""
    k = best_d2.shape[1]
    l_x, l_y = x_frames.shape[1], y_frames.shape[1]
    delta = np.empty(x.shape[1], x.dtype)
    products = np.empty((l_x + 1, l_x + l_y), x.dtype)
    for i in range(x.shape[0]):
        best_d2[i] = np.inf
        best_j[i] = y.shape[0]
        for c in range(candidates.shape[1]):
            j = candidates[i, c]
            estimate = _estimate(x[i], x_frames[i], y[j], y_frames[j], sides, spring,
                                 delta, products)  # fmt: skip
            if estimate <= best_d2[i, k - 1]:
                _consider(i, j, x, x_frames, y, y_frames, sides, spring,
                          best_d2[i], best_j[i])  # fmt: skip


@njit(cache=True, nogil=True)
def _consider(i, j, x, x_frames, y, y_frames, sides, spring, best_d2, best_j):
    """Insert one pair with its distance from the explicit residual."""
    tile = np.full((1, 1), -1.0)
    repair(tile, x[i : i + 1], x_frames[i : i + 1], y[j : j + 1], y_frames[j : j + 1],
           sides, spring)  # fmt: skip
    _insert(tile[0, 0], j, best_d2, best_j)
