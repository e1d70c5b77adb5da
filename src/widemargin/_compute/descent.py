"""Dual coordinate descent: random permutations, and an active set that shrinks.

Minimises ``a.(G + diag).a/2 - (1 - bias l).a`` over a >= 0 one coefficient at a time,

    a_k <- max(0, a_k - omega (l_k f(x_k) - 1 + diag_k a_k) / (G_kk + diag_k)),

where ``G_kj = l_k l_j ((x_k - c).(x_j - c) + rho^2)`` never exists: the weight vector
is kept instead. `diag` is zero for a hard margin and 1/(2 C_k) for the 2-norm soft one.
Steps beyond the exact minimum (omega > 1) take a third fewer passes on text-like data.
Patterns at zero whose slope is larger than any recent violation are set aside until
the rest has converged; only a pass over all of them may end the descent.

Reference: Hsieh, Chang, Lin, Keerthi and Sundararajan, A dual coordinate descent method
for large-scale linear SVM, ICML 2008. Shapes: matrix (n, d) as in
:mod:`widemargin._compute.rows`; signs, cx, squares, diag, a (n,); v (d,).
"""

import numpy as np

from widemargin._compute.compiled import njit
from widemargin._compute.rows import row_add, row_dot, shuffle

OMEGA = 1.6


@njit(cache=True, nogil=True)
def descend(rows, a, v, sums, bias, free, order, n_active, largest, seed, most, tol):
    """Run up to `most` passes over the active patterns; arrays change in place.

    `sums` holds (sum of l a, v.c). With `free` the bias moves by ``rho^2 sum(l a)``
    after every pass (method of multipliers). Returns (n_active, largest, spread,
    sweeps, updates, bias); `spread` is the range of the projected slopes in the last
    pass, and the passes end early when it is at most `tol`.
    """
    spread = np.inf
    updates = 0
    sweeps = 0
    while sweeps < most:
        shuffle(order, n_active, seed)
        high, low = -np.inf, np.inf
        i = 0
        while i < n_active:
            k = order[i]
            f = row_dot(rows.dense, rows.data, rows.indices, rows.indptr, k, v)
            f += sums[0] * (rows.lift - rows.cx[k]) - sums[1] + bias
            slope = rows.signs[k] * f - 1.0 + rows.diag[k] * a[k]
            projected = slope
            if a[k] == 0.0:
                if slope > largest:
                    n_active -= 1
                    order[i], order[n_active] = order[n_active], order[i]
                    continue
                projected = min(slope, 0.0)
            high, low = max(high, projected), min(low, projected)
            if abs(projected) > 1e-12:
                square = rows.squares[k] + rows.diag[k]
                new = max(0.0, a[k] - OMEGA * slope / square)
                step = (new - a[k]) * rows.signs[k]
                if step != 0.0:
                    a[k] = new
                    row_add(
                        rows.dense, rows.data, rows.indices, rows.indptr, k, step, v
                    )
                    sums[0] += step
                    sums[1] += step * rows.cx[k]
                    updates += 1
            i += 1
        sweeps += 1
        spread = high - low if n_active > 0 else 0.0
        if free:
            bias += rows.rho * rows.rho * sums[0]
        largest = high if high > 0.0 else np.inf
        if spread <= tol:
            break
    return n_active, largest, spread, sweeps, updates, bias
