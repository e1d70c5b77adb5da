"""Sequential learners: one pattern after the other is tested, and added if it fails.

*Rows* of a dense or CSR matrix are seen the same way by all of them. A matrix travels
as four plain arrays ``(dense, data, indices, indptr)``. Either `dense` is filled and
the other three are empty, or the reverse; the branch is taken once per row and costs
nothing next to the row itself.

Rows are shifted by a centre c and raised to the height rho without being copied: with
``v = sum_k m_k x_k`` and ``s = sum_k m_k`` the weight of the shifted patterns
``[x_k - c, rho]`` is ``w = v - s c`` and ``w0 = rho s``, and

    [x - c, rho] . [w, w0] = v.x - s c.x - v.c + s (c.c + rho^2),

so that one number per row (``c.x``) and two running ones (``s``, ``v.c``) are enough.
Reference: Tsampouka and Shawe-Taylor, Perceptron-like large margin classifiers, 2005.

The weighted Gram matrix of CSR rows, ``sum_k h_k [x_k, 1] [x_k, 1]^T``, is the
curvature of the squared hinge over the patterns inside the margin. Rows have few
entries, so that scattering their outer products beats both a dense product and a
general sparse one. Shapes: CSR (n, d); weight (n,); result (d + 1, d + 1), symmetric.

*Perceptrons* have one loop for all rules: test a pattern, add it, count the update. A
pattern is ``y_k = l_k [x_k - c, rho]``, optionally with a private coordinate of
squared length ``diag_k`` (2-norm soft margin). Every rule adds a positive multiple of a
pattern that fails its test, so that ``a = sum_k m_k y_k`` with m >= 0, and
``||a|| / sum(m)`` is always an upper bound of the largest directional margin.

=============  ========================  ============================================
rule           test                      step
=============  ========================  ============================================
STANDARD       y.a <= b                  rate f
RELAXATION     y.a <= b                  rate f (b_upper - y.a) / ||y||^2
FREE_LENGTH    y.a <= beta ||a||         f, or f (1 - beta (y.u) / ||y||^2)
FIXED_LENGTH   y.a <= beta ||a||         the same times rate ||a|| / beta
DYNAMIC        y.a <= (1 - eps) ||a||    f
               times ||a|| / sum(m)
=============  ========================  ============================================

The fixed-length rule normalises ``a`` to length beta after each update in the paper;
scaling the step by ``||a|| / beta`` instead walks through the same directions.

References: Tsampouka and Shawe-Taylor, Perceptron-like large margin classifiers, 2005;
Panagiotakopoulos and Tsampouka, The perceptron with dynamic margin, ALT 2011.

Shapes: matrix (n, d); signs, cx, squares, diag, factors, m, order (n,); v, centre (d,);
sums (6,) as named in :mod:`widemargin._compute.patterns`.

*Dual coordinate descent*, in random permutations of an active set that shrinks,
minimises ``a.(G + diag).a/2 - (1 - bias l).a`` over a >= 0 one coefficient at a time,

    a_k <- max(0, a_k - omega (l_k f(x_k) - 1 + diag_k a_k) / (G_kk + diag_k)),

where ``G_kj = l_k l_j ((x_k - c).(x_j - c) + rho^2)`` never exists: the weight vector
is kept instead. `diag` is zero for a hard margin and 1/(2 C_k) for the 2-norm soft one.
Steps beyond the exact minimum (omega > 1) take a third fewer passes on text-like data.
Patterns at zero whose slope is larger than any recent violation are set aside until
the rest has converged; only a pass over all of them may end the descent.

Reference: Hsieh, Chang, Lin, Keerthi and Sundararajan, A dual coordinate descent method
for large-scale linear SVM, ICML 2008. Shapes: as above; a (n,).
"""

import numpy as np

from widemargin._compute.compiled import njit
from widemargin._compute.patterns import (
    CYCLES,
    DYNAMIC,
    FIXED_LENGTH,
    FREE_LENGTH,
    INFEASIBLE,
    MASS,
    OUT_OF_SWEEPS,
    OUT_OF_UPDATES,
    PRIVATE,
    QUIET,
    RELAXATION,
    SHARE,
    SHIFT,
    SQUARE,
    STANDARD,
    TOTAL,
    UPDATES,
)


@njit(inner=True, fastmath=True)
def _dense_dot(row, vector):
    total = 0.0
    for j in range(row.shape[0]):
        total += row[j] * vector[j]
    return total


# Reordering sums pays only for contiguous rows: on sparse ones it makes the compiler
# gather and scatter, which is half as fast as reading one entry after another.
@njit(inner=True)
def row_dot(dense, data, indices, indptr, k, vector):
    """Inner product of row `k` with `vector`."""
    if indptr.shape[0] == 0:
        return _dense_dot(dense[k], vector)
    total = 0.0
    for j in range(indptr[k], indptr[k + 1]):
        total += data[j] * vector[indices[j]]
    return total


@njit(inner=True)
def row_add(dense, data, indices, indptr, k, factor, vector):
    """Add `factor` times row `k` to `vector`, in place."""
    if indptr.shape[0] == 0:
        row = dense[k]
        for j in range(row.shape[0]):
            vector[j] += factor * row[j]
    else:
        for j in range(indptr[k], indptr[k + 1]):
            vector[indices[j]] += factor * data[j]


@njit(inner=True)
def next_random(state):
    """Next 64 pseudo-random bits of the one-element `state` (xorshift64*)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(2685821657736338717)


@njit()
def shuffle(order, n, state):
    """Permute the first `n` entries of `order` at random, in place."""
    for i in range(n - 1, 0, -1):
        j = np.int64((next_random(state) >> np.uint64(11)) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]


@njit()
def weighted_gram(data, indices, indptr, weight, n_features):
    """Sum of `weight`-ed outer products of the rows, each extended by a one."""
    gram = np.zeros((n_features + 1, n_features + 1))
    for k in range(weight.shape[0]):
        h = weight[k]
        if h == 0.0:
            continue
        gram[n_features, n_features] += h
        for i in range(indptr[k], indptr[k + 1]):
            value = h * data[i]
            row = gram[indices[i]]
            row[n_features] += value
            for j in range(indptr[k], indptr[k + 1]):
                row[indices[j]] += value * data[j]
    gram[n_features, :n_features] = gram[:n_features, n_features]
    return gram


@njit(inner=True)
def squared_norm(rows, m, v, sums):
    """``||a||^2`` from scratch: the running value drifts."""
    total = rows.rho * rows.rho * sums[TOTAL] * sums[TOTAL] + sums[PRIVATE]
    for j in range(v.shape[0]):
        w = v[j] - sums[TOTAL] * rows.centre[j]
        total += w * w
    for k in range(m.shape[0]):
        total += rows.diag[k] * m[k] * m[k]
    return total


@njit(inner=True)
def _rescale(v, m, sums, factor):
    for j in range(v.shape[0]):
        v[j] *= factor
    for k in range(m.shape[0]):
        m[k] *= factor
    sums[TOTAL] *= factor
    sums[SHIFT] *= factor
    sums[SQUARE] *= factor * factor
    sums[MASS] *= factor
    sums[PRIVATE] *= factor * factor


@njit(inner=True)
def _fails(rule, s, q, mass):
    if rule.kind <= RELAXATION:
        return s <= rule.b
    if rule.kind == DYNAMIC:
        return s * mass <= (1.0 - rule.eps) * q
    return s <= rule.beta * np.sqrt(q)


@njit(inner=True)
def _repetitions(rule, s, q, n, mass, updates, step):
    """How often the pattern would be presented in a row before it passes its test."""
    cap = 1.0 + SHARE * updates
    if rule.kind == FREE_LENGTH:
        # smallest t with s + t n > beta ||a + t y||
        short = n - rule.beta * rule.beta
        if short <= 0.0:
            return 1.0
        root = s * s - n * (s * s - rule.beta * rule.beta * q) / short
        times = (-s + np.sqrt(max(root, 0.0))) / (n * step)
    else:
        # smallest t with (s + t n)(mass + t) > (1 - eps) ||a + t y||^2
        p = (s + n * mass - 2.0 * (1.0 - rule.eps) * s) / (rule.eps * n)
        r = (s * mass - (1.0 - rule.eps) * q) / (rule.eps * n)
        times = (-p + np.sqrt(max(p * p - 4.0 * r, 0.0))) / (2.0 * step)
    return max(1.0, min(np.floor(times) + 1.0, np.floor(cap)))


@njit(inner=True)
def _step(rule, s, q, n, f):
    if rule.kind == STANDARD:
        return rule.rate * f
    if rule.kind == RELAXATION:
        return rule.rate * f * (rule.b_upper - s) / n
    if rule.shaped and q > 0.0:
        f *= 1.0 - rule.beta * s / (np.sqrt(q) * n)
    if rule.kind == FIXED_LENGTH:
        return rule.rate * f * np.sqrt(q) / rule.beta
    return f


@njit(inner=True)
def _add(rows, factors, m, v, sums, rule, repeat, k, s, trace):
    """Add pattern k, whose ``y.a`` is s."""
    n = rows.squares[k] + rows.diag[k]
    step = _step(rule, s, sums[SQUARE], n, factors[k])
    times = 1.0
    if repeat and sums[SQUARE] > 0.0:
        times = _repetitions(rule, s, sums[SQUARE], n, sums[MASS], sums[UPDATES], step)
    updates = int(sums[UPDATES])
    if updates < trace.pattern.shape[0]:
        trace.pattern[updates] = k
        trace.step[updates] = step
    step *= times
    move = step * rows.signs[k]
    row_add(rows.dense, rows.data, rows.indices, rows.indptr, k, move, v)
    sums[TOTAL] += move
    sums[SHIFT] += move * rows.cx[k]
    sums[SQUARE] += 2.0 * step * s + step * step * n
    sums[MASS] += step
    sums[UPDATES] += times
    m[k] += step
    if sums[SQUARE] > 1e200:
        _rescale(v, m, sums, 1e-90)


@njit()
def sweep(rows, factors, walk, rule, show, limits, trace):
    """Sweep over the patterns, see `widemargin.hyperplanes.sweeps`."""
    m, v, sums = walk.m, walk.v, walk.sums
    max_sweeps, max_updates, fewest = limits.sweeps, limits.updates, limits.fewest
    n_patterns = show.order.shape[0]
    # Arrays of their own: out of the tuple each look would count a reference to all.
    dense, data, indices, indptr = rows.dense, rows.data, rows.indices, rows.indptr
    signs, cx, diag, lift = rows.signs, rows.cx, rows.diag, rows.lift
    order = show.order
    # A margin of zero is refuted only by a = 0, which rounding can fake.
    fixed_margin = rule.beta > 0.0 and rule.kind in (FREE_LENGTH, FIXED_LENGTH)
    target = rule.beta if fixed_margin else -1.0
    touched = np.empty(n_patterns, dtype=np.int64)
    sweeps, idle = 0, 0
    while sweeps < max_sweeps:
        if show.mix:
            shuffle(order, n_patterns, show.seed)
        n_touched = 0
        for i in range(n_patterns):
            if sums[UPDATES] >= max_updates:
                return OUT_OF_UPDATES, sweeps, fewest, idle
            k = order[i]
            score = row_dot(dense, data, indices, indptr, k, v)
            score += sums[TOTAL] * (lift - cx[k]) - sums[SHIFT]
            s = signs[k] * score + diag[k] * m[k]
            if _fails(rule, s, sums[SQUARE], sums[MASS]):
                _add(rows, factors, m, v, sums, rule, show.repeat, k, s, trace)
                touched[n_touched] = k
                n_touched += 1
                if np.sqrt(sums[SQUARE]) <= target * sums[MASS]:
                    break
        sweeps += 1
        if n_touched == 0:
            return QUIET, sweeps, fewest, 0
        idle += 1
        if n_touched < fewest:
            fewest, idle = n_touched, 0
        quiet = False
        rounds = 0
        while (
            show.cycle and rounds < CYCLES and not quiet and sums[UPDATES] < max_updates
        ):
            quiet = True
            for i in range(n_touched):
                k = touched[i]
                score = row_dot(dense, data, indices, indptr, k, v)
                score += sums[TOTAL] * (lift - cx[k]) - sums[SHIFT]
                s = signs[k] * score + diag[k] * m[k]
                if _fails(rule, s, sums[SQUARE], sums[MASS]):
                    _add(rows, factors, m, v, sums, rule, show.repeat, k, s, trace)
                    quiet = False
                    if np.sqrt(sums[SQUARE]) <= target * sums[MASS]:
                        rounds = CYCLES
                        break
            rounds += 1
        sums[SQUARE] = squared_norm(rows, m, v, sums)
        if np.sqrt(sums[SQUARE]) <= target * sums[MASS]:
            return INFEASIBLE, sweeps, fewest, idle
    return OUT_OF_SWEEPS, sweeps, fewest, idle


OMEGA = 1.6


@njit()
def descend(rows, a, v, sums, bias, free, order, n_active, largest, seed, most, tol):
    """Run up to `most` passes over the active patterns; arrays change in place.

    `sums` holds (sum of l a, v.c). With `free` the bias moves by ``rho^2 sum(l a)``
    after every pass (method of multipliers). Returns (n_active, largest, spread,
    sweeps, updates, bias); `spread` is the range of zero and the projected slopes in
    the last pass, and the passes end early when it is at most `tol`.
    """
    spread = np.inf
    updates = 0
    sweeps = 0
    while sweeps < most:
        shuffle(order, n_active, seed)
        high, low = 0.0, 0.0
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
        spread = high - low
        if free:
            bias += rows.rho * rows.rho * sums[0]
        largest = high if high > 0.0 else np.inf
        if spread <= tol:
            break
    return n_active, largest, spread, sweeps, updates, bias
