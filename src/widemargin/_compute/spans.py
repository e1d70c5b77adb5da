"""Distances of samples from the span of the others, where they are few.

What :mod:`widemargin._core.left_out` says, in one call: array calls on matrices of
twenty rows, and the threads that LAPACK wakes for them, cost more than their sums.
Shapes: K (m, m), private (m,).
"""

import numpy as np

from widemargin._compute.compiled import dot, njit

# Samples that are few.
FEW_SAMPLES = 64


@njit(inner=True)
def _factored(K, diagonal, L):
    """Put the Cholesky factor into the lower half of L; False if there is none."""
    for i in range(K.shape[0]):
        for j in range(i):
            L[i, j] = (K[i, j] - dot(L[i, :j], L[j, :j])) / L[j, j]
        square = diagonal[i] - dot(L[i, :i], L[i, :i])
        if not square > 0.0:
            return False
        L[i, i] = np.sqrt(square)
    return True


@njit()
def squared_spans(K, private, bias):
    """Squared distance of every sample from the span of the others; overwrites K.

    NaN where there is none, see `widemargin._core.left_out.squared_spans`.
    """
    m, size = K.shape[0], 0.0
    for i in range(m):
        size += K[i, i] / m
    size = size if size != 0.0 else 1.0
    if bias:
        # With a border, a number more in all products changes nothing but rounding.
        for i in range(m):
            for j in range(m):
                K[i, j] += size
    L, diagonal, spans = np.empty((m, m)), np.empty(m), np.empty(m)
    for i in range(m):
        spans[i] = np.nan
    ridge, most = 1e-10, 0.0
    while True:
        for i in range(m):
            diagonal[i] = K[i, i] + private[i] + ridge * size
            most = max(most, 4.0 * diagonal[i])
        if _factored(K, diagonal, L):
            break
        ridge *= 100.0
        if ridge > 2.0:
            return spans
    # The inverse of L takes the place of K, u is the sum of the columns of K's.
    u = np.zeros(m)
    for i in range(m):
        K[i, i] = total = 1.0 / L[i, i]
        for j in range(i):
            product = 0.0
            for k in range(j, i):
                product += L[i, k] * K[k, j]
            K[i, j] = -product * K[i, i]
            total += K[i, j]
        for j in range(i + 1):
            u[j] += total * K[i, j]
    border = 0.0
    for i in range(m):
        border += u[i]
    for i in range(m):
        inverse = -u[i] * u[i] / border if bias else 0.0
        for j in range(i, m):
            inverse += K[j, i] * K[j, i]
        # Without others there is no span, but none is infinitely far away.
        spans[i] = 1.0 / max(inverse, 1.0 / most)
    return spans
