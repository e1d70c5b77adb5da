"""Tangent distances of single pairs from the explicit residual, in float64.

The expanded square loses everything below about 1e-7 of the norms in float32. Here
delta = x - y is formed first, so identical inputs give exactly zero, and the answer
is a sum of squares, so nothing is negative.

The moves c = [p; q] along the stacked rows W = [U; V] solve (W W^T + k I) c = W delta.
All inner products are taken, also those within one frame: frames in float32 are
orthonormal to 1e-7 only, and where two of them are nearly parallel, taking them for
orthonormal makes moves of noise over noise. A second step, from the residual of the
first, makes up for the squared condition of the normal equations, so that moving both
ends is never worse than moving one.
"""

import numpy as np
from numba import njit

# Below this a pivot is rounding: the direction is in the span of those before it,
# which are enough.
SINGULAR = 1e-12
# Sums over the features may be reordered, which lets them vectorise. The order
# depends on the number of features alone, never on how a block was cut.
_REORDER = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _dot(u, v):
    total = 0.0
    for i in range(u.shape[0]):
        total += u[i] * v[i]
    return total


@njit(cache=True, nogil=True)
def _stack(first, second):
    """Rows of both frames in float64; plain loops compile in a fraction of the time."""
    n, d = first.shape
    W = np.empty((n + second.shape[0], d))
    for s in range(W.shape[0]):
        for i in range(d):
            W[s, i] = first[s, i] if s < n else second[s - n, i]
    return W


@njit(cache=True, nogil=True)
def _factor(A):
    """Turn the lower triangle of A into L and D of L D L^T; no pivot is rounding."""
    n = A.shape[0]
    for s in range(n):
        if A[s, s] <= SINGULAR:
            A[s, s] = 0.0
            continue
        for t in range(s + 1, n):
            factor = A[t, s] / A[s, s]
            for u in range(s + 1, t + 1):
                A[t, u] -= factor * A[u, s]
        for t in range(s + 1, n):
            A[t, s] /= A[s, s]


@njit(cache=True, nogil=True)
def _solve(A, r):
    """Solve in place with what `_factor` left; directions of no pivot stay put."""
    n = r.shape[0]
    for s in range(n):
        if A[s, s] > 0.0:
            for t in range(s + 1, n):
                r[t] -= A[t, s] * r[s]
    for s in range(n - 1, -1, -1):
        if A[s, s] > 0.0:
            r[s] /= A[s, s]
            for t in range(s + 1, n):
                r[s] -= A[t, s] * r[t]
        else:
            r[s] = 0.0


@njit(cache=True, nogil=True)
def _least_squares(delta, first, second, spring, residual):
    """Energy of the best moves along the rows of two frames; `residual` is scratch."""
    W = _stack(first, second)
    n, d = W.shape
    A, r, moves = np.empty((n, n)), np.empty(n), np.zeros(n)
    for s in range(n):
        for t in range(s + 1):
            A[s, t] = _dot(W[s], W[t])
        A[s, s] += spring
    _factor(A)
    for i in range(d):
        residual[i] = delta[i]
    for _ in range(2):
        for s in range(n):
            r[s] = _dot(W[s], residual) - spring * moves[s]
        _solve(A, r)
        for s in range(n):
            moves[s] += r[s]
            for i in range(d):
                residual[i] -= r[s] * W[s, i]
    return spring * _dot(moves, moves) + _dot(residual, residual)


@njit(cache=True, nogil=True)
def squared_distance(x, x_frame, y, y_frame, sides, spring, delta, residual):
    """Squared distance of one pair; `delta` and `residual` are scratch, in float64.

    `sides` is 0 for tangents at y, 1 for both ends, 2 for the mean.
    """
    same = True
    for c in range(x.shape[0]):
        delta[c] = np.float64(x[c]) - np.float64(y[c])
        same = same and delta[c] == 0.0
    if same:
        return 0.0
    if sides == 1:
        return _least_squares(delta, x_frame, y_frame, spring, residual)
    d2 = _least_squares(delta, x_frame[:0], y_frame, spring, residual)
    if sides == 2:
        d2 += _least_squares(delta, x_frame, y_frame[:0], spring, residual)
        d2 *= 0.5
    return d2


@njit(cache=True, nogil=True)
def repair(tile, x, x_frames, y, y_frames, sides, spring):
    """Compute the suspect entries (below zero) of a tile of squared distances again.

    `sides` as in `squared_distance`.
    """
    delta, residual = np.empty(x.shape[1]), np.empty(x.shape[1])
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            if tile[i, j] < 0:
                tile[i, j] = squared_distance(
                    x[i], x_frames[i], y[j], y_frames[j], sides, spring, delta, residual
                )
