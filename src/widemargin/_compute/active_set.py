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

from widemargin._compute.compiled import add_times, dot, njit
from widemargin._compute.patterns import OUT_OF_STEPS, SOLVED, UNBOUNDED

# Relative residual below which a pattern depends on the active ones.
_DEPENDENT = 1e-14
_ROUNDING = 2.0**-53
# Rounds without a better plane or a better bound after which only rounding is left.
_PATIENCE = 30


@njit(inner=True)
def _fill(values, value):
    for i in range(values.shape[0]):
        values[i] = value


@njit(inner=True)
def _append_to_factor(Z, Q, factor, k, j):
    """Extend the factor by pattern j.

    Returns False, leaving the last row half done, if j depends on the active patterns.
    """
    rest = Q[k]
    for p in range(rest.shape[0]):
        rest[p] = Z[j, p]
    length = np.sqrt(dot(rest, rest))
    for i in range(k):
        factor[k, i] = 0.0
    inside = np.empty(k)
    size = 0.0
    for _ in range(2):
        for i in range(k):
            inside[i] = dot(Q[i], rest)
            factor[k, i] += inside[i]
        for i in range(k):
            add_times(rest, -inside[i], Q[i])
        size = np.sqrt(dot(rest, rest))
        # Where little was left, a second pass removes what is rounding of the first.
        if size > 0.1 * length:
            break
    factor[k, k] = size
    if size <= _DEPENDENT * length:
        return False
    for p in range(rest.shape[0]):
        rest[p] /= size
    return True


@njit(inner=True)
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


@njit(inner=True)
def _solve_upper(factor, k, x):
    for i in range(k - 1, -1, -1):
        x[i] /= factor[i, i]
        value = x[i]
        for p in range(i):
            x[p] -= factor[i, p] * value


@njit(inline="always")
def _step_until_zero(a, active, k, target):
    """Move the active part of `a` towards `target`; position that blocks, or -1."""
    # No literal: what takes it would be compiled for it, and again for numbers.
    step, blocking = 1.0, np.int64(-1)
    for i in range(k):
        if target[i] <= 0.0:
            current = a[active[i]]
            length = current / (current - target[i]) if current > 0.0 else 0.0
            if length < step or blocking < 0:
                step, blocking = min(step, length), np.int64(i)
    for i in range(k):
        a[active[i]] += step * (target[i] - a[active[i]])
    if blocking >= 0:
        a[active[blocking]] = 0.0
    return blocking


@njit(inline="always")
def _ray(a, active, k, j, ray):
    """Follow a direction without curvature; position that leaves, or -1 if none."""
    length, leaving = np.inf, np.int64(-1)
    for i in range(k):
        if ray[i] < 0.0:
            ratio = a[active[i]] / -ray[i]
            if ratio < length:
                length, leaving = ratio, np.int64(i)
    if leaving >= 0:
        for i in range(k):
            a[active[i]] += length * ray[i]
        a[active[leaving]] = 0.0
        a[j] = length
    return leaving


@njit(inner=True)
def _optimise_active(h, a, active, Q, factor, k, known, y, w, target):
    """Minimise over the active patterns, letting go of those that turn negative.

    `y` solves the lower half of the system, of which `known` are solved already, and
    `w` is their sum. Returns how many are still active.
    """
    while k > 0:
        if known == 0:
            _fill(w, 0.0)
        for i in range(known, k):
            y[i] = (h[active[i]] - dot(factor[i, :i], y[:i])) / factor[i, i]
            add_times(w, y[i], Q[i])
        for i in range(k):
            target[i] = y[i]
        _solve_upper(factor, k, target)
        blocking = _step_until_zero(a, active, k, target)
        if blocking < 0:
            break
        k = _remove_from_factor(Q, factor, active, k, blocking)
        known = blocking
        _fill(w, 0.0)
        for i in range(known):
            add_times(w, y[i], Q[i])
    return k


@njit(inner=True)
def _price(Z, signs, h, a, w, skip, tol, longest):
    """Most violated pattern that is not active, and that of the other class, or -1."""
    # Below this a violation is rounding.
    best = max(tol, 8.0 * _ROUNDING * longest * np.sqrt(dot(w, w)))
    plus, minus, most_plus, most_minus = -1, -1, best, best
    for j in range(h.shape[0]):
        if a[j] == 0.0 and not skip[j]:
            violation = h[j] - dot(Z[j], w)
            if signs[j] > 0 and violation > most_plus:
                plus, most_plus = j, violation
            elif signs[j] < 0 and violation > most_minus:
                minus, most_minus = j, violation
    return (plus, minus) if most_plus >= most_minus else (minus, plus)


@njit(inline="always")
def _set_demands(h, bias, signs):
    for p in range(h.shape[0]):
        h[p] = 1.0 - bias * signs[p]


@njit(inner=True)
def nonnegative_qp(
    Z, longest, signs, a, bias, pull, tol, balance_tol, max_steps, Q, factor, k
):
    """Minimise ||Z a||^2 / 2 - (1 - bias signs).a over a >= 0, starting from `a`.

    Patterns are rows of Z, none longer than `longest`. `pull` is the square of the
    last coordinate if the bias is free: it moves until the sum of ``signs * a`` is
    below `balance_tol` times that of `a`; if it is zero the bias is left alone. The
    first `k` patterns are ``factor @ Q`` already; these arrays have room for all that
    can be active, and are overwritten as `a` is. Returns (status, bias, steps, active);
    with UNBOUNDED, `a` holds the combination that sums to zero.
    """
    m, most = Z.shape[0], factor.shape[0] - 2
    active = np.empty(most + 2, dtype=np.int64)
    target, y = np.empty(most + 2), np.empty(most + 2)
    skip = np.zeros(m, dtype=np.bool_)
    w = np.zeros(Z.shape[1])
    for j in range(k):
        active[j] = j
    for j in range(k, m):
        if a[j] > 0.0:
            if k < most and _append_to_factor(Z, Q, factor, k, j):
                active[k] = j
                k += 1
            else:
                a[j] = 0.0
    h = np.empty(m)
    _set_demands(h, bias, signs)
    # A literal zero would be a type of its own, and compiled once more.
    steps, previous, careful, none = 0, np.inf, False, np.int64(0)
    while steps < max_steps:
        k = _optimise_active(h, a, active, Q, factor, k, none, y, w, target)
        entering, other = _price(Z, signs, h, a, w, skip, tol, longest)
        while entering >= 0 and steps < max_steps:
            steps += 1
            known = np.int64(k)
            if _append_to_factor(Z, Q, factor, k, entering):
                active[k] = entering
                k += 1
                # One of the other class comes along, if it can.
                if other >= 0 and _append_to_factor(Z, Q, factor, k, other):
                    active[k] = other
                    k += 1
            else:
                known = none
                for i in range(k):
                    target[i] = factor[k, i]
                _solve_upper(factor, k, target)
                for i in range(k):
                    target[i] = -target[i]
                leaving = _ray(a, active, k, entering, target)
                if leaving < 0:
                    for j in range(m):
                        a[j] = 1.0 if j == entering else 0.0
                    for i in range(k):
                        a[active[i]] = target[i]
                    return UNBOUNDED, bias, steps, active[:k]
                k = _remove_from_factor(Q, factor, active, k, leaving)
                if _append_to_factor(Z, Q, factor, k, entering):
                    active[k] = entering
                    k += 1
                else:
                    a[entering] = 0.0
            kept = k
            k = _optimise_active(h, a, active, Q, factor, k, known, y, w, target)
            # Rounding may send the newcomer straight back: look elsewhere then.
            skip[entering] = a[entering] == 0.0
            if k == kept and not skip[entering]:
                _fill(skip, False)
            entering, other = _price(Z, signs, h, a, w, skip, tol, longest)
        if entering >= 0:
            break
        tilt, mass = 0.0, 0.0
        for i in range(k):
            tilt += signs[active[i]] * a[active[i]]
            mass += a[active[i]]
        worse = abs(tilt) >= previous
        if pull == 0.0 or abs(tilt) <= balance_tol * mass or (worse and careful):
            return SOLVED, bias, steps, active[:k]
        # Newton's step is exact while the same are active. The smaller one never fails.
        careful = careful or worse
        previous = np.inf if worse else abs(tilt)
        for i in range(k):
            side = signs[active[i]] - dot(factor[i, :i], target[:i])
            target[i] = side / factor[i, i]
        bias += tilt * pull if careful else tilt / dot(target[:k], target[:k])
        _set_demands(h, bias, signs)
        _fill(skip, False)
        steps += 1
    return OUT_OF_STEPS, bias, steps, active[:k]


@njit(inner=True)
def _spread(Z):
    """Power of two next to the mean length, one if that is no number above zero."""
    square = 0.0
    for i in range(Z.shape[0]):
        square += dot(Z[i], Z[i]) / Z.shape[0]
    return 2.0 ** np.round(np.log2(square) / 2.0) if square > 0.0 else 1.0


@njit(inline="always")
def _room(m, p):
    """Room for the factor of as many of m patterns, or soon more, as can be active."""
    most = min(2 * m, p) + 3
    return np.empty((most, p)), np.empty((most, most))


@njit(inline="always")
def _solve_scaled(Z, signs, alpha, bias, rho, height, exact, scale, Q, factor, k):
    """Optimum of the reflected rows Z; see `solve_working_set` and `nonnegative_qp`."""
    m, d = Z.shape
    free = rho < 0.0
    pull = height if free else (rho / scale) ** 2
    raised, scaled, longest = np.empty((m, d + 1)), np.empty(m), 0.0
    shrink = 1.0 / scale
    for i in range(m):
        z, row = Z[i], raised[i]
        for j in range(d):
            row[j] = z[j] * shrink
        row[d] = signs[i] * np.sqrt(pull)
        scaled[i] = alpha[i] * scale * scale
        longest = max(longest, dot(Z[i], Z[i]))
    longest = np.sqrt(longest / scale / scale + pull)
    status, bias, steps, active = nonnegative_qp(
        raised, longest, signs, scaled, bias if free else 0.0, pull if free else 0.0,
        exact, 1e-11, 1000 + 50 * m, Q, factor, k,
    )  # fmt: skip
    if not free:
        bias = pull * dot(scaled, signs)
    for i in range(m):
        scaled[i] = scaled[i] / scale / scale
    return status, scaled, bias, steps, active


@njit()
def solve_working_set(Z, signs, alpha, bias, rho, height, exact):
    """Optimum of the reflected rows Z; a negative `rho` leaves the bias free.

    Rows are scaled so that the conditioning is that of the data alone, and raised to
    their height: `rho`, or the root of `height` that pulls a free bias. Returns
    (status, alpha, bias, steps).
    """
    Q, factor = _room(Z.shape[0], Z.shape[1] + 1)
    status, alpha, bias, steps, _ = _solve_scaled(
        Z, signs, alpha, bias, rho, height, exact, _spread(Z), Q, factor, np.int64(0)
    )
    return status, alpha, bias, steps


@njit(inner=True)
def _with(values, more, m):
    """Values and more of them, zeros after the end of both, m in all."""
    out = np.zeros(m, values.dtype)
    for i in range(values.shape[0]):
        out[i] = values[i]
    for i in range(more.shape[0]):
        out[values.shape[0] + i] = more[i]
    return out


@njit(inner=True)
def _combined(alpha, Z):
    total = np.zeros(Z.shape[1])
    for i in range(Z.shape[0]):
        add_times(total, alpha[i], Z[i])
    return total


@njit(inner=True)
def taken(values, places):
    """Values at some places."""
    out = np.empty(places.shape[0], values.dtype)
    for i in range(places.shape[0]):
        out[i] = values[places[i]]
    return out


@njit(inner=True)
def _reflected_rows(X, chosen, centre, signs, rows):
    Z = np.empty((rows.shape[0], X.shape[1]))
    for i in range(rows.shape[0]):
        # Views let loops over features vectorise.
        x, z, sign = X[chosen[rows[i]]], Z[i], signs[rows[i]]
        for j in range(X.shape[1]):
            z[j] = sign * (x[j] - centre[j])
    return Z


@njit(inner=True)
def scores_of(X, chosen, w, offset):
    """``w.x + offset`` of the chosen rows."""
    scores = np.empty(chosen.shape[0])
    for k in range(chosen.shape[0]):
        scores[k] = dot(X[chosen[k]], w) + offset
    return scores


@njit(inner=True)
def edges(scores, signs):
    """Smallest score of the positive samples, and largest of the negative ones."""
    low, high = np.inf, -np.inf
    for k in range(scores.shape[0]):
        if signs[k] > 0:
            low = min(low, scores[k])
        else:
            high = max(high, scores[k])
    return low, high


@njit(inner=True)
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
    difference = _combined(share, Z)
    return np.sqrt(dot(difference, difference))


@njit(inner=True)
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


@njit(inner=True)
def _worst(violation, signs, batch, least):
    """Rows of either class with the largest violations above `least`.

    Those of the first class come first; `batch` of each at most.
    """
    m = violation.shape[0]
    chosen, values, count = np.empty(m, dtype=np.int64), np.empty(m), 0
    for side in (1.0, -1.0):
        begin = count
        for k in range(m):
            if violation[k] > least and signs[k] == side:
                chosen[count] = k
                values[count] = violation[k]
                count += 1
        if count > begin + batch:
            limit, end = _kth_largest(values[begin:count], batch - 1), count
            count = begin
            for i in range(begin, end):
                if violation[chosen[i]] >= limit and count < begin + batch:
                    chosen[count] = chosen[i]
                    count += 1
    return chosen[:count]


@njit(inline="always")
def _facing_rows(X, chosen, signs, w, batch):
    """Rows of each class least far along `w`, `batch` of each at most."""
    reach = scores_of(X, chosen, w, 0.0)
    for k in range(reach.shape[0]):
        reach[k] *= -signs[k]
    return _worst(reach, signs, batch, -np.inf)


@njit(inner=True)
def _class_means(X, chosen, signs):
    means, counts = np.zeros((2, X.shape[1])), np.zeros(2)
    for k in range(chosen.shape[0]):
        side = 0 if signs[k] > 0 else 1
        counts[side] += 1.0
        add_times(means[side], 1.0, X[chosen[k]])
    for side in range(2):
        for j in range(X.shape[1]):
            means[side, j] /= counts[side]
    return means


@njit()
def dense_active_set(
    X, chosen, signs, start, rho, height, exact, first_batch, batch, tol, max_iter
):
    """Run rounds on the `chosen` rows of X until two bounds are within `tol`.

    A round solves a working set and looks at all patterns once. `start` is a dual
    vector, zero for none; `rho` is the height of a penalised bias; with a negative one
    the bias is free and `height` is the square that pulls it. Returns (status, rounds,
    steps, weights, bias, rows, alpha): the plane with the largest margin seen, its bias
    for the samples as they are, and the combination with the smallest bound, or with
    UNBOUNDED the one that sums to nearly zero.
    """
    free, d = rho < 0.0, X.shape[1]
    means = _class_means(X, chosen, signs)
    centre, between = np.zeros(d), np.empty(d)
    for j in range(d):
        between[j] = means[0, j] - means[1, j]
        if free:
            centre[j] = (means[0, j] + means[1, j]) / 2
    rows = _worst(start, signs, start.shape[0], 0.0)
    if rows.shape[0] == 0:
        rows = _facing_rows(X, chosen, signs, between, first_batch)
    alpha = taken(start, rows)
    bias, lower, upper, steps, rounds, idle = 0.0, -np.inf, np.inf, 0, 0, 0
    best_w, best_bias, best_rows, best_alpha = centre, 0.0, rows, alpha
    status, scale, known = SOLVED, 0.0, np.int64(0)
    Q, factor = _room(rows.shape[0], d + 1)
    while rounds < max_iter and idle < _PATIENCE:
        Z = _reflected_rows(X, chosen, centre, signs, rows)
        l = taken(signs, rows)  # noqa: E741
        scale = _spread(Z) if rounds == 0 else scale
        if factor.shape[0] < min(rows.shape[0], d + 1) + 3:
            Q, factor = _room(rows.shape[0], d + 1)
            known = np.int64(0)
        status, alpha, bias, made, active = _solve_scaled(
            Z, l, alpha, bias, rho, height, exact, scale, Q, factor, known
        )
        rounds += 1
        steps += made
        idle += 1
        if status == UNBOUNDED:
            best_rows, best_alpha = rows, alpha
            break
        w = _combined(alpha, Z)
        violation = scores_of(X, chosen, w, -dot(w, centre))
        low, high = edges(violation, signs)
        length = square = dot(w, w)
        if free:
            bound = _hull_distance(Z, alpha, l)
            found, lowest = -(low + high) / 2, (low - high) / 2
        else:
            square += (rho * dot(alpha, l)) ** 2
            mass = 0.0
            for i in range(alpha.shape[0]):
                mass += alpha[i]
            bound = np.sqrt(square) / mass
            found, lowest = bias, min(low + bias, -(high + bias))
        reached = lowest / np.sqrt(square) if square > 0.0 else -np.inf
        rows, alpha = taken(rows, active), taken(alpha, active)
        if bound < upper:
            upper, best_rows, best_alpha, idle = bound, rows, alpha, 0
        if reached > lower:
            lower, best_w, best_bias, idle = reached, w, found, 0
        for k in range(violation.shape[0]):
            violation[k] = 1.0 - signs[k] * (violation[k] + bias)
        for i in range(rows.shape[0]):
            violation[rows[i]] = 0.0
        noise = 0.0
        for i in range(Z.shape[0]):
            noise = max(noise, dot(Z[i], Z[i]))
        least = max(10 * exact, 32.0 * _ROUNDING * np.sqrt(noise * length))
        added = _worst(violation, signs, batch, least)
        if lower >= (1.0 - tol) * upper or added.shape[0] == 0:
            break
        # What is left of rounding in the factor goes where rounds no longer help.
        known = np.int64(0 if idle else rows.shape[0])
        m = rows.shape[0] + added.shape[0]
        rows, alpha = _with(rows, added, m), _with(alpha, alpha[:0], m)
    best_bias -= dot(best_w, centre)
    return status, rounds, steps, best_w, best_bias, best_rows, best_alpha
