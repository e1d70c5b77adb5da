"""Tangent distances of single pairs from the explicit residual, in float64.

The expanded square loses everything below about 1e-7 of the norms in float32. Here
delta = x - y is formed first, so identical inputs give exactly zero, and the answer
is a sum of squares, so nothing is negative.
"""

import numpy as np
from numba import njit

# Below this a pivot of S is rounding: both frames contain that direction, and moving
# along it at one end is enough.
SINGULAR = 1e-12


@njit(cache=True, nogil=True)
def _dot(u, v):
    total = 0.0
    for i in range(u.shape[0]):
        total += np.float64(u[i]) * np.float64(v[i])
    return total


@njit(cache=True, nogil=True)
def _copy(values, out):
    # A plain loop compiles in a fraction of the time of a slice assignment.
    for i in range(values.shape[0]):
        out[i] = values[i]


@njit(cache=True, nogil=True)
def _one_sided(delta, frame, spring, residual):
    """Energy of the best move along `frame`; `residual` is scratch."""
    _copy(delta, residual)
    energy = 0.0
    for s in range(frame.shape[0]):
        q = _dot(frame[s], delta) / (1.0 + spring)
        energy += spring * q * q
        for i in range(delta.shape[0]):
            residual[i] -= q * frame[s, i]
    return energy + _dot(residual, residual)


@njit(cache=True, nogil=True)
def _solve(S, r, q):
    """Solve the small system S q = r in place; directions of no stiffness stay put."""
    n = r.shape[0]
    for s in range(n):
        if S[s, s] <= SINGULAR:
            S[s, s] = 0.0
            continue
        for t in range(s + 1, n):
            factor = S[t, s] / S[s, s]
            r[t] -= factor * r[s]
            for u in range(s, n):
                S[t, u] -= factor * S[s, u]
    for s in range(n - 1, -1, -1):
        q[s] = 0.0
        if S[s, s] > 0.0:
            total = r[s]
            for u in range(s + 1, n):
                total -= S[s, u] * q[u]
            q[s] = total / S[s, s]


@njit(cache=True, nogil=True)
def _two_sided(delta, x_frame, y_frame, spring, residual):
    l_x, l_y = x_frame.shape[0], y_frame.shape[0]
    stiffness = 1.0 + spring
    a, q, r = np.empty(l_x), np.empty(l_y), np.empty(l_y)
    M, S = np.empty((l_x, l_y)), np.empty((l_y, l_y))
    for p in range(l_x):
        a[p] = _dot(x_frame[p], delta)
        for s in range(l_y):
            M[p, s] = _dot(x_frame[p], y_frame[s])
    for s in range(l_y):
        r[s] = _dot(y_frame[s], delta) - _dot(M[:, s], a) / stiffness
        for t in range(l_y):
            S[s, t] = -_dot(M[:, s], M[:, t]) / stiffness
        S[s, s] += stiffness
    _solve(S, r, q)
    _copy(delta, residual)
    energy = 0.0
    for s in range(l_y):
        energy += spring * q[s] * q[s]
        for i in range(delta.shape[0]):
            residual[i] -= q[s] * y_frame[s, i]
    # The best p for this q, from what is left of delta: optimal even where q is not.
    for p in range(l_x):
        move = (a[p] - _dot(M[p], q)) / stiffness
        energy += spring * move * move
        for i in range(delta.shape[0]):
            residual[i] -= move * x_frame[p, i]
    return energy + _dot(residual, residual)


@njit(cache=True, nogil=True)
def repair(tile, x, x_frames, y, y_frames, sides, spring):
    """Compute the suspect entries (below zero) of a tile of squared distances again.

    `sides` is 0 for tangents at y, 1 for both ends, 2 for the mean.
    """
    delta = np.empty(x.shape[1])
    residual = np.empty(x.shape[1])
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            if tile[i, j] >= 0:
                continue
            for c in range(x.shape[1]):
                delta[c] = np.float64(x[i, c]) - np.float64(y[j, c])
            if sides == 1:
                d2 = _two_sided(delta, x_frames[i], y_frames[j], spring, residual)
            else:
                d2 = _one_sided(delta, y_frames[j], spring, residual)
                if sides == 2:
                    d2 += _one_sided(delta, x_frames[i], spring, residual)
                    d2 *= 0.5
            tile[i, j] = d2
