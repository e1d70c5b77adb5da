"""Exact nearest point by an active set, and the rounds around it on dense rows.

The quadratic programme is min ||sum_i a_i z_i||^2 / 2 - h.a over a >= 0. With
``z_i = l_i [x_i, rho]`` and ``h = 1`` its minimiser is the maximum directional margin
in dual form. A free bias asks for ``sum_i a_i l_i = 0``: the method of multipliers
keeps the z_i and moves ``h = 1 - bias l`` until the sum vanishes, which takes few steps
because the factor of the active patterns is reused.

The active patterns are kept as ``L Q``, triangular times orthonormal, made from the
vectors themselves and not from their products: a margin of 1e-10 of the spread is then
still found, where squares would have lost it at 1e-6. When an entering pattern depends
on the active ones there is a direction along which the sum does not change and the
objective falls: either it meets the boundary, and an active pattern leaves, or it never
does, and then it is a nonnegative combination that sums to zero up to rounding: the
classes are inseparable, or so nearly that doubles cannot tell.

Around it a round solves a working set, sweeps over all patterns, keeps the support and
adds the worst violators. Compiled as one call, because fifty small array calls per
round are most of what a problem with a few hundred samples costs.

Reference: Wolfe, Finding the nearest point in a polytope, 1976; Lawson and Hanson,
Solving least squares problems, 1974. Shapes: Z (m, p); h, a (m,); X (n, d) in double
precision; signs (n,); rows, alpha (k,); centre (d,).
"""

import numpy as np

from widemargin._compute.compiled import njit

SOLVED, UNBOUNDED, OUT_OF_STEPS = 0, 1, 2
# Relative residual below which a pattern depends on the active ones.
_DEPENDENT = 1e-14
_ROUNDING = 2.0**-53
# Rounds without a better plane or a better bound after which only rounding is left.
_PATIENCE = 30


@njit()
def _append_to_factor(Z, Q, factor, k, j):
    """Extend the factor by pattern j.

    Returns False, leaving the last row half done, if j depends on the active patterns.
    """
    rest = Z[j].copy()
    length = np.sqrt(np.dot(rest, rest))
    if k > 0:
        # Twice is enough: the second pass removes what the first left by rounding.
        factor[k, :k] = 0.0
        for _ in range(2):
            inside = np.dot(Q[:k], rest)
            shadow = np.dot(inside, Q[:k])
            for p in range(rest.shape[0]):
                rest[p] -= shadow[p]
            for i in range(k):
                factor[k, i] += inside[i]
    size = np.sqrt(np.dot(rest, rest))
    factor[k, k] = size
    if size <= _DEPENDENT * length:
        return False
    for p in range(rest.shape[0]):
        Q[k, p] = rest[p] / size
    return True


@njit(fastmath=True)
def _remove_from_factor(Q, factor, active, k, position):
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
        for q in range(Q.shape[1]):
            u, w = Q[i, q], Q[i + 1, q]
            Q[i, q] = c * u + s * w
            Q[i + 1, q] = c * w - s * u
    return k - 1


@njit(fastmath=True)
def _solve_lower(factor, k, x):
    for i in range(k):
        value = x[i]
        for p in range(i):
            value -= factor[i, p] * x[p]
        x[i] = value / factor[i, i]


@njit(fastmath=True)
def _solve_upper(factor, k, x):
    for i in range(k - 1, -1, -1):
        x[i] /= factor[i, i]
        value = x[i]
        for p in range(i):
            x[p] -= factor[i, p] * value


@njit()
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


@njit()
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


@njit()
def _optimise_active(h, a, active, Q, factor, k, target):
    """Minimise over the active patterns, letting go of those that turn negative."""
    while k > 0:
        for i in range(k):
            target[i] = h[active[i]]
        _solve_lower(factor, k, target)
        _solve_upper(factor, k, target)
        blocking = _step_until_zero(a, active, k, target)
        if blocking < 0:
            break
        k = _remove_from_factor(Q, factor, active, k, blocking)
    return k


@njit()
def _price(Z, h, a, active, k, skip, tol, longest):
    """Most violated pattern outside the active ones, or -1."""
    w = np.zeros(Z.shape[1])
    for i in range(k):
        for j in range(Z.shape[1]):
            w[j] += a[active[i]] * Z[active[i], j]
    along = np.dot(Z, w)
    # Below this a violation is rounding.
    best = max(tol, 8.0 * _ROUNDING * longest * np.sqrt(np.dot(w, w)))
    entering = -1
    for p in range(h.shape[0]):
        if a[p] == 0.0 and not skip[p] and h[p] - along[p] > best:
            best, entering = h[p] - along[p], p
    return entering


@njit()
def _set_demands(h, bias, signs):
    for p in range(h.shape[0]):
        h[p] = 1.0 - bias * signs[p]


@njit()
def nonnegative_qp(Z, signs, a, bias, pull, tol, balance_tol, max_steps):
    """Minimise ||a.Z||^2 / 2 - (1 - bias signs).a over a >= 0, starting from `a`.

    `pull` is the square of the last coordinate of Z if the bias is free: it moves by
    ``pull * signs.a`` until the sum is below `balance_tol` times ``sum(a)``; if it is
    zero the bias is left alone. `a` is overwritten. Returns (status, bias, steps); with
    UNBOUNDED, `a` holds the combination that sums to zero.
    """
    m, p = Z.shape
    most = min(m, p) + 1
    factor = np.zeros((most + 1, most + 1))
    Q = np.zeros((most + 1, p))
    active = np.empty(most + 1, dtype=np.int64)
    target = np.empty(most + 1)
    skip = np.zeros(m, dtype=np.bool_)
    longest = 0.0
    for j in range(m):
        longest = max(longest, np.sqrt(np.dot(Z[j], Z[j])))
    # No literal: functions would be compiled for it, and again for a number.
    k = np.int64(0)
    for j in range(m):
        if a[j] > 0.0:
            if k < most and _append_to_factor(Z, Q, factor, k, j):
                active[k] = j
                k += 1
            else:
                a[j] = 0.0
    h = np.empty(m)
    _set_demands(h, bias, signs)
    steps = 0
    previous = np.inf
    while steps < max_steps:
        k = _optimise_active(h, a, active, Q, factor, k, target)
        entering = _price(Z, h, a, active, k, skip, tol, longest)
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
            _set_demands(h, bias, signs)
            skip[:] = False
            steps += 1
            continue
        steps += 1
        if _append_to_factor(Z, Q, factor, k, entering):
            active[k] = entering
            k += 1
            kept = k
            k = _optimise_active(h, a, active, Q, factor, k, target)
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
        k = _remove_from_factor(Q, factor, active, k, leaving)
        if _append_to_factor(Z, Q, factor, k, entering):
            active[k] = entering
            k += 1
        else:
            a[entering] = 0.0
            skip[entering] = True
    return OUT_OF_STEPS, bias, steps


@njit()
def solve_working_set(Z, signs, alpha, bias, rho, height, exact):
    """Optimum of the reflected rows Z; a negative `rho` leaves the bias free.

    Rows are scaled so that the conditioning is that of the data alone, and raised to
    their height: `rho`, or the root of `height` that pulls a free bias. Returns
    (status, alpha, bias, steps).
    """
    m, d = Z.shape
    scale = 0.0
    for i in range(m):
        scale += np.dot(Z[i], Z[i]) / m
    scale = np.sqrt(scale) if scale > 0.0 else 1.0
    free = rho < 0.0
    pull = height if free else (rho / scale) ** 2
    raised, scaled = np.empty((m, d + 1)), np.empty(m)
    for i in range(m):
        for j in range(d):
            raised[i, j] = Z[i, j] / scale
        raised[i, d] = signs[i] * np.sqrt(pull)
        scaled[i] = alpha[i] * scale * scale
    status, bias, steps = nonnegative_qp(
        raised, signs, scaled, bias if free else 0.0, pull if free else 0.0,
        exact, 1e-11, 1000 + 50 * m,
    )  # fmt: skip
    if not free:
        bias = pull * np.dot(scaled, signs)
    for i in range(m):
        scaled[i] = scaled[i] / scale / scale
    return status, scaled, bias, steps


@njit()
def _taken(values, places):
    out = np.empty(places.shape[0], values.dtype)
    for i in range(places.shape[0]):
        out[i] = values[places[i]]
    return out


@njit()
def _reflected_rows(X, centre, signs, rows):
    Z = np.empty((rows.shape[0], X.shape[1]))
    for i in range(rows.shape[0]):
        k = rows[i]
        for j in range(X.shape[1]):
            Z[i, j] = signs[k] * (X[k, j] - centre[j])
    return Z


@njit(fastmath=True)
def _scores(X, w, offset):
    scores = np.empty(X.shape[0])
    for k in range(X.shape[0]):
        total = offset
        for j in range(X.shape[1]):
            total += X[k, j] * w[j]
        scores[k] = total
    return scores


@njit()
def _hull_distance(Z, alpha, signs):
    """Half the distance of the class averages under `alpha`; inf if one is empty."""
    plus, minus = 0.0, 0.0
    for i in range(alpha.shape[0]):
        if signs[i] > 0:
            plus += alpha[i]
        else:
            minus += alpha[i]
    if plus == 0.0 or minus == 0.0:
        return np.inf
    share = np.empty(alpha.shape[0])
    for i in range(alpha.shape[0]):
        share[i] = 0.5 * alpha[i] / (plus if signs[i] > 0 else minus)
    difference = np.dot(share, Z)
    return np.sqrt(np.dot(difference, difference))


@njit()
def _kth_largest(values, k):
    """Give entry k of `values` in falling order, by quickselect; reorders them."""
    first, last = 0, values.shape[0] - 1
    while first < last:
        pivot, i, j = values[(first + last) // 2], first, last
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if k <= j:
            last = j
        elif k >= i:
            first = i
        else:
            break
    return values[k]


@njit()
def _worst(violation, signs, batch, least):
    """Rows of either class with the largest violations above `least`.

    Those of the first class come first; `batch` of each at most.
    """
    chosen, count = np.empty(2 * batch, dtype=np.int64), 0
    values = np.empty(violation.shape[0])
    for side in (1.0, -1.0):
        n = 0
        for k in range(violation.shape[0]):
            if signs[k] == side and violation[k] > least:
                values[n] = violation[k]
                n += 1
        limit = _kth_largest(values[:n], batch - 1) if n > batch else -np.inf
        end = count + min(n, batch)
        for k in range(violation.shape[0]):
            wanted = violation[k] > least and violation[k] >= limit
            if signs[k] == side and wanted and count < end:
                chosen[count] = k
                count += 1
    return chosen[:count].copy()


@njit()
def _facing_rows(X, signs, w, batch):
    """Rows of each class least far along `w`, `batch` of each at most."""
    reach = _scores(X, w, 0.0)
    for k in range(reach.shape[0]):
        reach[k] *= -signs[k]
    return _worst(reach, signs, batch, -np.inf)


@njit()
def _round(X, centre, signs, rows, alpha, bias, height, rho, exact, batch):
    """Solve the working set `rows` and look at all patterns once.

    `rho` is the height of a penalised bias; with a negative one the bias is free and
    `height` is the square that pulls it. Returns (status, steps, rows, alpha, bias,
    lower, upper, best bias, weights, rows to add).
    """
    free = rho < 0.0
    Z = _reflected_rows(X, centre, signs, rows)
    l = _taken(signs, rows)  # noqa: E741
    status, alpha, bias, steps = solve_working_set(
        Z, l, alpha, bias, rho, height, exact
    )
    w = np.dot(alpha, Z)
    if status == UNBOUNDED:
        none = np.empty(0, dtype=np.int64)
        return status, steps, rows, alpha, bias, -np.inf, np.inf, 0.0, w, none
    scores = _scores(X, w, -np.dot(w, centre))
    low, high = np.inf, -np.inf
    for k in range(scores.shape[0]):
        if signs[k] > 0:
            low = min(low, scores[k])
        else:
            high = max(high, scores[k])
    square = np.dot(w, w)
    if free:
        upper = _hull_distance(Z, alpha, l)
        found, lowest = -(low + high) / 2, (low - high) / 2
    else:
        square += (rho * np.dot(alpha, l)) ** 2
        upper = np.sqrt(square) / np.sum(alpha)
        found, lowest = bias, min(low + bias, -(high + bias))
    lower = lowest / np.sqrt(square) if square > 0.0 else -np.inf
    support = np.flatnonzero(alpha)
    rows, alpha = _taken(rows, support), _taken(alpha, support)
    violation = scores
    for k in range(scores.shape[0]):
        violation[k] = 1.0 - signs[k] * (scores[k] + bias)
    noise = 0.0
    for i in range(Z.shape[0]):
        noise = max(noise, np.dot(Z[i], Z[i]))
    least = max(10 * exact, 32.0 * _ROUNDING * np.sqrt(noise * np.dot(w, w)))
    for i in range(rows.shape[0]):
        violation[rows[i]] = 0.0
    added = _worst(violation, signs, batch, least)
    return status, steps, rows, alpha, bias, lower, upper, found, w, added


@njit()
def _class_means(X, signs):
    d = X.shape[1]
    plus, minus = np.zeros(d), np.zeros(d)
    n_plus = 0
    for k in range(X.shape[0]):
        if signs[k] > 0:
            n_plus += 1
            for j in range(d):
                plus[j] += X[k, j]
        else:
            for j in range(d):
                minus[j] += X[k, j]
    for j in range(d):
        plus[j] /= n_plus
        minus[j] /= X.shape[0] - n_plus
    return plus, minus


@njit()
def dense_active_set(
    X, signs, start, rho, height, exact, first_batch, batch, tol, max_iter
):
    """Run rounds until lower and upper bound are within `tol` of each other.

    `start` is a dual vector, zero for none; `rho` negative leaves the bias free.
    Returns (status, rounds, steps, weights, bias, rows, alpha): the plane with the
    largest margin seen, its bias for the samples as they are, and the combination with
    the smallest bound, or with UNBOUNDED the one that sums to nearly zero.
    """
    plus, minus = _class_means(X, signs)
    centre, between = np.zeros(X.shape[1]), np.empty(X.shape[1])
    for j in range(X.shape[1]):
        between[j] = plus[j] - minus[j]
        if rho < 0.0:
            centre[j] = (plus[j] + minus[j]) / 2
    rows = np.flatnonzero(start)
    if rows.shape[0] == 0:
        rows = _facing_rows(X, signs, between, first_batch)
    alpha = _taken(start, rows)
    bias, lower, upper, steps, rounds, idle = 0.0, -np.inf, np.inf, 0, 0, 0
    best_w, best_bias, best_rows, best_alpha = centre, 0.0, rows, alpha
    status = SOLVED
    while rounds < max_iter and idle < _PATIENCE:
        status, made, rows, alpha, bias, low, high, found, w, added = _round(
            X, centre, signs, rows, alpha, bias, height, rho, exact, batch
        )
        rounds += 1
        steps += made
        idle += 1
        if status == UNBOUNDED:
            best_rows, best_alpha = rows, alpha
            break
        if high < upper:
            upper, best_rows, best_alpha, idle = high, rows, alpha, 0
        if low > lower:
            lower, best_w, best_bias, idle = low, w, found, 0
        if lower >= (1.0 - tol) * upper or added.shape[0] == 0:
            break
        rows = np.append(rows, added)
        alpha = np.append(alpha, np.zeros(added.shape[0]))
    best_bias -= np.dot(best_w, centre)
    return status, rounds, steps, best_w, best_bias, best_rows, best_alpha
