"""Exact nearest point by an active set: min a.H.a/2 - h.a over a >= 0.

With ``H_ij = l_i l_j (x_i.x_j + rho^2)`` and ``h = 1`` the minimiser is the maximum
directional margin in dual form. A free bias asks for ``sum_i a_i l_i = 0``: the method
of multipliers keeps the same H and moves ``h = 1 - bias l`` until the sum vanishes,
which takes few rounds because the factor of H is reused.

H may be singular. When the entering pattern depends on the active ones there is a
direction along which a.H.a does not change and the objective falls: either it meets the
boundary, and an active pattern leaves, or it never does, and then it is a nonnegative
combination of patterns that sums to zero: a proof that they cannot be separated.

Reference: Wolfe, Finding the nearest point in a polytope, 1976; Lawson and Hanson,
Solving least squares problems, 1974. Shapes: H (m, m); h, a (m,).
"""

import numpy as np
from numba import njit

SOLVED, UNBOUNDED, OUT_OF_STEPS = 0, 1, 2


@njit(cache=True, nogil=True, fastmath=True)
def _append_to_factor(H, factor, active, k, j, eps):
    """Extend the Cholesky factor of ``H[active, active]`` by pattern j.

    Returns False, leaving the last row half done, if j depends on the active patterns.
    """
    rest = H[j, j]
    for i in range(k):
        value = H[j, active[i]]
        for p in range(i):
            value -= factor[i, p] * factor[k, p]
        value /= factor[i, i]
        factor[k, i] = value
        rest -= value * value
    factor[k, k] = np.sqrt(rest) if rest > 0.0 else 0.0
    return rest > eps * H[j, j]


@njit(cache=True, nogil=True, fastmath=True)
def _remove_from_factor(factor, active, k, position):
    """Drop one active pattern: shift the rows up and rotate the factor back."""
    for i in range(position, k - 1):
        active[i] = active[i + 1]
        for p in range(i + 2):
            factor[i, p] = factor[i + 1, p]
    for i in range(position, k - 1):
        x, y = factor[i, i], factor[i, i + 1]
        r = np.hypot(x, y)
        if r == 0.0:
            continue
        c, s = x / r, y / r
        for q in range(i, k - 1):
            u, w = factor[q, i], factor[q, i + 1]
            factor[q, i] = c * u + s * w
            factor[q, i + 1] = c * w - s * u
    return k - 1


@njit(cache=True, nogil=True, fastmath=True)
def _solve_lower(factor, k, x):
    for i in range(k):
        value = x[i]
        for p in range(i):
            value -= factor[i, p] * x[p]
        x[i] = value / factor[i, i]


@njit(cache=True, nogil=True, fastmath=True)
def _solve_upper(factor, k, x):
    for i in range(k - 1, -1, -1):
        x[i] /= factor[i, i]
        value = x[i]
        for p in range(i):
            x[p] -= factor[i, p] * value


@njit(cache=True, nogil=True)
def _step_until_zero(a, active, k, target):
    """Move the active part of `a` towards `target`; position that blocks, or -1."""
    step, blocking = 1.0, -1
    for i in range(k):
        if target[i] <= 0.0:
            current = a[active[i]]
            length = current / (current - target[i]) if current > 0.0 else 0.0
            if length < step or blocking < 0:
                step, blocking = min(step, length), i
    for i in range(k):
        a[active[i]] += step * (target[i] - a[active[i]])
    if blocking >= 0:
        a[active[blocking]] = 0.0
    return blocking


@njit(cache=True, nogil=True)
def _ray(a, active, k, j, ray):
    """Follow a direction without curvature; position that leaves, or -1 if none."""
    length, leaving = np.inf, -1
    for i in range(k):
        if ray[i] < 0.0:
            ratio = a[active[i]] / -ray[i]
            if ratio < length:
                length, leaving = ratio, i
    if leaving >= 0:
        for i in range(k):
            a[active[i]] += length * ray[i]
        a[active[leaving]] = 0.0
        a[j] = length
    return leaving


@njit(cache=True, nogil=True)
def _optimise_active(H, h, a, active, factor, k, target):
    """Minimise over the active patterns, letting go of those that turn negative."""
    while k > 0:
        for i in range(k):
            target[i] = h[active[i]]
        _solve_lower(factor, k, target)
        _solve_upper(factor, k, target)
        blocking = _step_until_zero(a, active, k, target)
        if blocking < 0:
            break
        k = _remove_from_factor(factor, active, k, blocking)
    return k


@njit(cache=True, nogil=True, fastmath=True)
def _price(H, h, a, active, k, skip, tol):
    """Most violated pattern outside the active ones, or -1."""
    m = h.shape[0]
    slope = h.copy()
    for i in range(k):
        row, value = H[active[i]], a[active[i]]
        for p in range(m):
            slope[p] -= value * row[p]
    best, entering = tol, -1
    for p in range(m):
        if a[p] == 0.0 and not skip[p] and slope[p] > best:
            best, entering = slope[p], p
    return entering


@njit(cache=True, nogil=True)
def nonnegative_qp(H, linear, signs, a, bias, pull, tol, balance_tol, max_steps):
    """Minimise a.H.a/2 - (linear - bias signs).a over a >= 0, starting from `a`.

    `pull` is the rho^2 already inside H. If it is positive the bias is free: it moves
    by ``pull * signs.a`` until the sum is below `balance_tol` times ``sum(a)``; if it
    is zero the bias is left alone. `a` is overwritten. Returns (status, bias, steps);
    with UNBOUNDED, `a` holds the combination that sums to zero.
    """
    m = linear.shape[0]
    factor = np.zeros((m + 1, m + 1))
    active = np.empty(m + 1, dtype=np.int64)
    target = np.empty(m + 1)
    skip = np.zeros(m, dtype=np.bool_)
    eps = 1e-11
    k = 0
    for j in range(m):
        if a[j] > 0.0:
            if _append_to_factor(H, factor, active, k, j, eps):
                active[k] = j
                k += 1
            else:
                a[j] = 0.0
    h = linear - bias * signs
    steps = 0
    previous = np.inf
    while steps < max_steps:
        k = _optimise_active(H, h, a, active, factor, k, target)
        entering = _price(H, h, a, active, k, skip, tol)
        if entering < 0:
            if pull == 0.0:
                return SOLVED, bias, steps
            tilt, mass = 0.0, 0.0
            for i in range(k):
                tilt += signs[active[i]] * a[active[i]]
                mass += a[active[i]]
            if abs(tilt) <= balance_tol * mass or abs(tilt) >= previous:
                return SOLVED, bias, steps
            previous = abs(tilt)
            bias += pull * tilt
            h = linear - bias * signs
            skip[:] = False
            steps += 1
            continue
        steps += 1
        if _append_to_factor(H, factor, active, k, entering, eps):
            active[k] = entering
            k += 1
            kept = k
            k = _optimise_active(H, h, a, active, factor, k, target)
            # Rounding may send the newcomer straight back: look elsewhere then.
            skip[entering] = a[entering] == 0.0
            if k == kept:
                skip[:] = False
            continue
        for i in range(k):
            target[i] = factor[k, i]
        _solve_upper(factor, k, target)
        for i in range(k):
            target[i] = -target[i]
        leaving = _ray(a, active, k, entering, target)
        if leaving < 0:
            a[:] = 0.0
            a[entering] = 1.0
            for i in range(k):
                a[active[i]] = target[i]
            return UNBOUNDED, bias, steps
        k = _remove_from_factor(factor, active, k, leaving)
        if _append_to_factor(H, factor, active, k, entering, eps):
            active[k] = entering
            k += 1
        else:
            a[entering] = 0.0
            skip[entering] = True
    return OUT_OF_STEPS, bias, steps
