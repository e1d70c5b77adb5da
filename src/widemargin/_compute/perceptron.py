"""One loop for all perceptron-like rules: test a pattern, add it, count the update.

A pattern is ``y_k = l_k [x_k - c, rho]``, optionally with a private coordinate of
squared length ``diag_k`` (2-norm soft margin). Every rule adds a positive multiple of a
pattern that fails its test, so that ``a = sum_k m_k y_k`` with m >= 0, and
``||a|| / sum(m)`` is always an upper bound of the largest directional margin.

=============  ========================  ============================================
rule           test                      step
=============  ========================  ============================================
STANDARD       y.a <= b                  eta f
RELAXATION     y.a <= b                  eta (b_upper - y.a) / ||y||^2
FREE_LENGTH    y.a <= beta ||a||         f, or f (1 - beta (y.u) / ||y||^2)
FIXED_LENGTH   y.a <= beta ||a||         the same times eta ||a|| / beta
DYNAMIC        y.a <= (1 - eps) ||a||    f
               times ||a|| / sum(m)
=============  ========================  ============================================

The fixed-length rule normalises ``a`` to length beta after each update in the paper;
scaling the step by ``||a|| / beta`` instead walks through the same directions.

References: Tsampouka and Shawe-Taylor, Perceptron-like large margin classifiers, 2005;
Panagiotakopoulos and Tsampouka, The perceptron with dynamic margin, ALT 2011.
Shapes: matrix (n, d) as in :mod:`widemargin._compute.rows`; signs, cx, squares,
diag, f, m, order (n,); v, centre (d,); sums (6,) holds sum(l m), v.c, ||a||^2, sum(m),
the number of updates, and the squared length along the private coordinates of patterns
that are no longer at hand.
"""

import numpy as np
from numba import njit

from widemargin._compute.rows import row_add, row_dot, shuffle

STANDARD, RELAXATION, FREE_LENGTH, FIXED_LENGTH, DYNAMIC = 0, 1, 2, 3, 4
QUIET, OUT_OF_SWEEPS, INFEASIBLE, OUT_OF_UPDATES = 0, 1, 2, 3

# More repetitions of one pattern than a small share of the updates so far would let
# ||a|| grow exponentially when the margin asked for does not exist.
_SHARE = 0.02
_CYCLES = 20


@njit(cache=True, nogil=True)
def squared_norm(v, centre, lift_rho, diag, m, sums):
    """``||a||^2`` from scratch: the running value drifts. `lift_rho` is rho^2."""
    total = lift_rho * sums[0] * sums[0] + sums[5]
    for j in range(v.shape[0]):
        w = v[j] - sums[0] * centre[j]
        total += w * w
    for k in range(m.shape[0]):
        total += diag[k] * m[k] * m[k]
    return total


@njit(cache=True, nogil=True)
def _rescale(v, m, sums, factor):
    for j in range(v.shape[0]):
        v[j] *= factor
    for k in range(m.shape[0]):
        m[k] *= factor
    sums[0] *= factor
    sums[1] *= factor
    sums[2] *= factor * factor
    sums[3] *= factor
    sums[5] *= factor * factor


@njit(cache=True, nogil=True)
def _fails(rule, s, q, mass, b, beta, eps):
    if rule <= RELAXATION:
        return s <= b
    if rule == DYNAMIC:
        return s * mass <= (1.0 - eps) * q
    return s <= beta * np.sqrt(q)


@njit(cache=True, nogil=True)
def _repetitions(rule, s, q, n, mass, updates, beta, eps, step):
    """How often the pattern would be presented in a row before it passes its test."""
    cap = 1.0 + _SHARE * updates
    if rule == FREE_LENGTH:
        # smallest t with s + t n > beta ||a + t y||
        short = n - beta * beta
        if short <= 0.0:
            return 1.0
        root = s * s - n * (s * s - beta * beta * q) / short
        times = (-s + np.sqrt(max(root, 0.0))) / (n * step)
    else:
        # smallest t with (s + t n)(mass + t) > (1 - eps) ||a + t y||^2
        p = (s + n * mass - 2.0 * (1.0 - eps) * s) / (eps * n)
        r = (s * mass - (1.0 - eps) * q) / (eps * n)
        times = (-p + np.sqrt(max(p * p - 4.0 * r, 0.0))) / (2.0 * step)
    return max(1.0, min(np.floor(times) + 1.0, np.floor(cap)))


@njit(cache=True, nogil=True)
def _step(rule, s, q, n, f, b_upper, eta, beta, shaped):
    if rule == STANDARD:
        return eta * f
    if rule == RELAXATION:
        return eta * (b_upper - s) / n
    if shaped and q > 0.0:
        f *= 1.0 - beta * s / (np.sqrt(q) * n)
    if rule == FIXED_LENGTH:
        return eta * f * np.sqrt(q) / beta
    return f


@njit(cache=True, nogil=True)
def _present(
    dense, data, indices, indptr, signs, cx, lift, squares, diag, f, m, v, sums,
    rule, b, b_upper, eta, beta, eps, shaped, repeat, k, trace, trace_step,
):  # fmt: skip
    """Show pattern k once; True if it was added."""
    score = row_dot(dense, data, indices, indptr, k, v)
    score += sums[0] * (lift - cx[k]) - sums[1]
    s = signs[k] * score + diag[k] * m[k]
    if not _fails(rule, s, sums[2], sums[3], b, beta, eps):
        return False
    n = squares[k] + diag[k]
    step = _step(rule, s, sums[2], n, f[k], b_upper, eta, beta, shaped)
    times = 1.0
    if repeat and sums[2] > 0.0:
        times = _repetitions(rule, s, sums[2], n, sums[3], sums[4], beta, eps, step)
    updates = int(sums[4])
    if updates < trace.shape[0]:
        trace[updates] = k
        trace_step[updates] = step
    step *= times
    row_add(dense, data, indices, indptr, k, step * signs[k], v)
    sums[0] += step * signs[k]
    sums[1] += step * signs[k] * cx[k]
    sums[2] += 2.0 * step * s + step * step * n
    sums[3] += step
    sums[4] += times
    m[k] += step
    if sums[2] > 1e200:
        _rescale(v, m, sums, 1e-90)
    return True


@njit(cache=True, nogil=True)
def learn(
    dense, data, indices, indptr, signs, cx, lift, squares, diag, centre, lift_rho,
    f, m, v, sums, rule, b, b_upper, eta, beta, eps, shaped, repeat, cycle, mix,
    order, seed, max_sweeps, max_updates, trace, trace_step,
):  # fmt: skip
    """Sweep over the patterns until a full sweep is quiet; arrays change in place.

    `cycle` revisits the patterns just added before the next full sweep, `repeat` adds a
    pattern several times at once (each counted), `mix` draws a new order per sweep.
    Returns (status, sweeps): QUIET, OUT_OF_SWEEPS, OUT_OF_UPDATES, or INFEASIBLE when
    ``||a|| / sum(m) <= beta`` proves that no vector has the margin asked for.
    """
    n_patterns = order.shape[0]
    # A margin of zero is refuted only by a = 0, which rounding can fake.
    fixed_margin = beta > 0.0 and rule in (FREE_LENGTH, FIXED_LENGTH)
    target = beta if fixed_margin else -1.0
    touched = np.empty(n_patterns, dtype=np.int64)
    sweeps = 0
    while sweeps < max_sweeps:
        if mix:
            shuffle(order, n_patterns, seed)
        n_touched = 0
        for i in range(n_patterns):
            if sums[4] >= max_updates:
                return OUT_OF_UPDATES, sweeps
            if _present(
                dense, data, indices, indptr, signs, cx, lift, squares, diag, f, m, v,
                sums, rule, b, b_upper, eta, beta, eps, shaped, repeat, order[i],
                trace, trace_step,
            ):  # fmt: skip
                touched[n_touched] = order[i]
                n_touched += 1
                if np.sqrt(sums[2]) <= target * sums[3]:
                    break
        sweeps += 1
        if n_touched == 0:
            return QUIET, sweeps
        quiet = False
        rounds = 0
        while cycle and rounds < _CYCLES and not quiet and sums[4] < max_updates:
            quiet = True
            for i in range(n_touched):
                if _present(
                    dense, data, indices, indptr, signs, cx, lift, squares, diag, f, m,
                    v, sums, rule, b, b_upper, eta, beta, eps, shaped, repeat,
                    touched[i], trace, trace_step,
                ):  # fmt: skip
                    quiet = False
                    if np.sqrt(sums[2]) <= target * sums[3]:
                        rounds = _CYCLES
                        break
            rounds += 1
        sums[2] = squared_norm(v, centre, lift_rho, diag, m, sums)
        if np.sqrt(sums[2]) <= target * sums[3]:
            return INFEASIBLE, sweeps
    return OUT_OF_SWEEPS, sweeps
