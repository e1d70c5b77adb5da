"""The last step of a neighbour search: exact distances for the few pairs that matter.

A row of lower bounds says which references can still be among the k nearest. Each of
those gets an estimate from delta = x - y in the dtype of the data, and only where the
estimate, less its possible rounding error, reaches the k nearest so far, the explicit
residual in float64. What is kept is therefore exact, ordered by (distance, index),
and independent of how the bounds were made.

The rounding taken off is that of :mod:`widemargin._compute.tangent_elimination`, with
|delta|^2 in the place of |x|^2 + |y|^2: `error` is the rounding of a product per unit
of norm.

What is inlined is compiled once, with what calls it, instead of twice.

Shapes: `x` (n_x, d), `x_frames` (n_x, l_x, d), likewise y, where a single frame is
that of all references; results (n_x, k). Which references count for a row is told by
`counted`, see :class:`widemargin._compute.formulas.Counted`.
"""

import numpy as np

from widemargin._compute.compiled import REORDER, dot, njit
from widemargin._compute.frames import (
    AT_Y,
    MEAN,
    SIDE_CODES,
    TWO_SIDED,
    squared_distance,
)
from widemargin._compute.machine import batched_slices, thread_map
from widemargin._compute.rounding import product_error

# References that are looked at first, beyond k: the best under the bound are nearly
# always the nearest, and a small radius spares most of the rest.
MORE_SEEDS = 8


@njit(inner=True, fastmath=REORDER)
def _cross(u, v, out):
    """Inner products of all rows of `u` with all rows of `v`, two by four at a time.

    Where the rows run out the last is taken again, to the same place.
    """
    n, m, zero = u.shape[0], v.shape[0], u.dtype.type(0)
    for p in range(0, n, 2):
        p1 = min(p + 1, n - 1)
        u0, u1 = u[p], u[p1]
        for s in range(0, m, 4):
            s1, s2, s3 = min(s + 1, m - 1), min(s + 2, m - 1), min(s + 3, m - 1)
            v0, v1, v2, v3 = v[s], v[s1], v[s2], v[s3]
            a0, a1, a2, a3 = zero, zero, zero, zero
            b0, b1, b2, b3 = zero, zero, zero, zero
            for i in range(u.shape[1]):
                a, b = u0[i], u1[i]
                a0 += a * v0[i]
                a1 += a * v1[i]
                a2 += a * v2[i]
                a3 += a * v3[i]
                b0 += b * v0[i]
                b1 += b * v1[i]
                b2 += b * v2[i]
                b3 += b * v3[i]
            out[p, s], out[p, s1], out[p, s2], out[p, s3] = a0, a1, a2, a3
            out[p1, s], out[p1, s1], out[p1, s2], out[p1, s3] = b0, b1, b2, b3


@njit(inline="always")
def _eliminate(M, a, r, S, spring, least):
    """Energy taken off by both frames, and the squared length of the moves at y.

    `r` holds b and is overwritten, `S` is scratch. The length is infinite where S is
    singular but for rounding.
    """
    l_x, l_y = M.shape
    stiffness = 1.0 + spring
    taken, det, length = 0.0, 1.0, 0.0
    for p in range(l_x):
        taken += a[p] * a[p] / stiffness
    for s in range(l_y):
        for p in range(l_x):
            r[s] -= M[p, s] * a[p] / stiffness
        for t in range(s + 1):
            common = 0.0
            for p in range(l_x):
                common += M[p, s] * M[p, t]
            S[s, t] = -common / stiffness
        S[s, s] += stiffness
    for s in range(l_y):
        pivot = S[s, s]
        det *= pivot / stiffness
        if pivot <= 0.0 or det < least:
            return taken, np.inf
        taken += r[s] * r[s] / pivot
        for t in range(s + 1, l_y):
            factor = S[t, s] / pivot
            r[t] -= factor * r[s]
            for u in range(s + 1, t + 1):
                S[t, u] -= factor * S[u, s]
    for s in range(l_y - 1, -1, -1):
        for t in range(s + 1, l_y):
            r[s] -= S[t, s] * r[t]
        r[s] /= S[s, s]
        length += r[s] * r[s]
    return taken, length


@njit(inline="always")
def _estimate(rows, x, y, y_frame, sides, spring, error, products, small):
    """Squared distance of one pair in the dtype of the data, less its rounding.

    The frame of x is in `rows`, after a first row for delta; `products` (1 + l_x, l_y)
    and `small` (2 + l_y, l_x + l_y) are scratch.
    """
    delta, l_x, l_y = rows[0], rows.shape[0] - 1, y_frame.shape[0]
    for i in range(x.shape[0]):
        delta[i] = x[i] - y[i]
    norm, length, taken = np.float64(dot(delta, delta)), 0.0, 0.0
    _cross(rows if sides == TWO_SIDED else rows[:1], y_frame, products)
    a, b = small[0], small[1]
    for s in range(l_y):
        b[s] = products[0, s]
        taken += b[s] * b[s] / (1.0 + spring)
    if sides != AT_Y:
        for p in range(l_x):
            a[p] = dot(rows[1 + p], delta)
            taken += a[p] * a[p] / (1.0 + spring)
    if sides == MEAN:
        taken *= 0.5
    if sides == TWO_SIDED:
        # No eigenvalue of S is below twice the spring.
        least = 0.0 if spring >= error else 2.0 * error
        taken, length = _eliminate(products[1:], a, b, small[2:], spring, least)
    return norm - taken - 8.0 * error * (norm + length)


@njit(inner=True)
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


@njit(inner=True)
def _counts(label, reference, kind):
    return kind == 0 or (label == reference) == (kind > 0)


@njit(inner=True)
def _begin(x_frame, rows, best_d2, best_j, n_y):
    """Write the frame below the first row; nothing is found yet.

    Plain loops, here and below: an assignment of arrays takes seconds to compile.
    """
    for p in range(x_frame.shape[0]):
        for i in range(x_frame.shape[1]):
            rows[1 + p, i] = x_frame[p, i]
    for place in range(best_d2.shape[0]):
        best_d2[place] = np.inf
        best_j[place] = n_y


@njit(inner=True)
def _holds(places, j):
    found = False
    for place in range(places.shape[0]):
        found = found or places[place] == j
    return found


@njit()
def _under_bounds(
    bounds, x, x_frames, y, y_frames, sides, spring, error, counted, best_d2, best_j
):
    """Fill `best_d2` and `best_j` with the k nearest references of every row of x.

    Places for which there is no reference keep an infinite distance and the index n_y.
    """
    labels, y_labels, kind = counted
    n_x, n_y = bounds.shape
    k, step = best_d2.shape[1], int(len(y_frames) == n_y)
    l_x, l_y = x_frames.shape[1], y_frames.shape[1]
    rows = np.empty((1 + l_x, x.shape[1]), x.dtype)
    products, small = np.empty((1 + l_x, l_y), x.dtype), np.empty((2 + l_y, l_x + l_y))
    delta, residual = np.empty(x.shape[1]), np.empty(x.shape[1])
    n_seeds = k + MORE_SEEDS
    seed_bound, seed = np.empty(n_seeds), np.empty(n_seeds, np.int64)
    for i in range(n_x):
        _begin(x_frames[i], rows, best_d2[i], best_j[i], n_y)
        for place in range(n_seeds):
            seed_bound[place] = np.inf
            seed[place] = n_y
        for j in range(n_y):
            if bounds[i, j] < seed_bound[n_seeds - 1] and _counts(
                labels[i], y_labels[j], kind
            ):
                _insert(np.float64(bounds[i, j]), j, seed_bound, seed)
        for place in range(n_seeds + n_y):
            j = seed[place] if place < n_seeds else place - n_seeds
            if j == n_y:
                continue
            bound = np.float64(bounds[i, j])
            if bound > best_d2[i, k - 1]:
                continue
            if place >= n_seeds and (
                not _counts(labels[i], y_labels[j], kind)
                or (bound <= seed_bound[n_seeds - 1] and _holds(seed, j))
            ):
                continue
            if place >= k:
                estimate = _estimate(rows, x[i], y[j], y_frames[j * step], sides,
                                     spring, error, products, small)  # fmt: skip
                if estimate > best_d2[i, k - 1]:
                    continue
            d2 = squared_distance(x[i], x_frames[i], y[j], y_frames[j * step], sides,
                                  spring, delta, residual)  # fmt: skip
            _insert(d2, j, best_d2[i], best_j[i])


@njit()
def _of_candidates(
    candidates, x, x_frames, y, y_frames, sides, spring, error, counted, best_d2, best_j
):
    """As `_under_bounds`, among the given `candidates` (n_x, n_candidates)."""
    labels, y_labels, kind = counted
    k, step = best_d2.shape[1], int(len(y_frames) == len(y))
    l_x, l_y = x_frames.shape[1], y_frames.shape[1]
    rows = np.empty((1 + l_x, x.shape[1]), x.dtype)
    products, small = np.empty((1 + l_x, l_y), x.dtype), np.empty((2 + l_y, l_x + l_y))
    delta, residual = np.empty(x.shape[1]), np.empty(x.shape[1])
    for i in range(x.shape[0]):
        _begin(x_frames[i], rows, best_d2[i], best_j[i], len(y))
        for c in range(candidates.shape[1]):
            j = candidates[i, c]
            if not _counts(labels[i], y_labels[j], kind):
                continue
            estimate = _estimate(rows, x[i], y[j], y_frames[j * step], sides,
                                 spring, error, products, small)  # fmt: skip
            if estimate <= best_d2[i, k - 1]:
                d2 = squared_distance(x[i], x_frames[i], y[j], y_frames[j * step],
                                      sides, spring, delta, residual)  # fmt: skip
                _insert(d2, j, best_d2[i], best_j[i])


# Queries of one task.
ROWS = 32


def nearest_under_bounds(*arguments):
    """As the formula."""
    return _in_threads(_under_bounds, *arguments)


def nearest_of_candidates(*arguments):
    """As the formula."""
    return _in_threads(_of_candidates, *arguments)


def _in_threads(
    kernel, material, x, x_frames, y, y_frames, sides, spring, counted, k, n_jobs
):
    # Another order of an array would compile the search again.
    x, y, x_frames, y_frames, material = map(
        np.ascontiguousarray, (x, y, x_frames, y_frames, material)
    )
    error = product_error(y.dtype, y.shape[1])
    d2, index = np.empty((len(x), k)), np.empty((len(x), k), np.int64)

    def fill(rows):
        kernel(
            material[rows], x[rows], x_frames[rows], y, y_frames, SIDE_CODES[sides],
            float(spring), error, counted._replace(labels=counted.labels[rows]),
            d2[rows], index[rows],
        )  # fmt: skip

    thread_map(fill, batched_slices(len(x), ROWS), n_jobs, "neighbours")
    return d2, index
