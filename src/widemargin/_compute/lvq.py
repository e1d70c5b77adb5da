"""Online LVQ, margins of a batch, and what is nearest: loops over few prototypes.

Prototypes ``P`` (K, d) with class codes ``labels`` (K,) are moved in place; samples
``X[order[t]]`` are presented one after the other (`presentations`). ``wins`` counts how
often each prototype came first. Every function runs one epoch of a stage of `total`
presentations that began `start` presentations ago, with the rate
``alpha_0 (1 - t/total)``, and returns how many samples were on the wrong side when
they were presented, and how many pushes the box (2, d) stopped. Where most of the
samples that a prototype wins have another label, its rule is a flight at exponential
speed; once all have fled, the nearest of the far goes on winning. The box, far outside
the data, is where that ends. float32 data are computed in float32.

`search` (see `projection_bounds`) tells which prototypes may be the nearest; None asks
all of them. Distances decide, so that it changes no bit.

`margin_epoch` is the online descent of Crammer et al. on a loss of the hypothesis
margin ``theta = (s_minus - s_plus) / 2``,

    p <- p - gamma L'(theta) w_p (x - p)/||x - p||   for the right class,
    p <- p + gamma L'(theta) w_p (x - p)/||x - p||   for the nearest wrong class,

where ``s_c`` is the distance of x to class c under one of three rules and ``w_p`` its
derivative: the nearest prototype (w = 1 there), the k-th nearest (w = 1 there), or the
soft minimum ``-h log mean exp(-d/h)`` (w = softmax of -d/h). A step never carries a
prototype past the sample, nor farther away than that, nor out of the box.

T. Kohonen, "Self-Organizing Maps", 3rd edition, section 6.
"""

import numpy as np

from widemargin._compute.compiled import REORDER, fetch, njit, squared_distance, up_to
from widemargin._compute.engines import LOSSES, compiled_loss
from widemargin._compute.projection_bounds import lower_bounds, move_projection


@njit(inner=True)
def nearest(x, P):
    """Index of the first of the nearest prototypes, and its squared distance."""
    best, best_distance = -1, x.dtype.type(np.inf)
    for j in range(P.shape[0]):
        distance = squared_distance(x, P[j])
        if distance < best_distance:
            best, best_distance = j, distance
    return best, best_distance


@njit(inner=True)
def two_nearest(x, P):
    """Return index and squared distance of the nearest and the next prototype."""
    first, first_distance = -1, x.dtype.type(np.inf)
    second, second_distance = -1, x.dtype.type(np.inf)
    for j in range(P.shape[0]):
        distance = squared_distance(x, P[j])
        if distance < first_distance:
            second, second_distance = first, first_distance
            first, first_distance = j, distance
        elif distance < second_distance:
            second, second_distance = j, distance
    return first, first_distance, second, second_distance


@njit(inline="always")
def quick_nearest(i, X, P, search):
    """Return what `nearest` does, from those that may be."""
    if search is None:
        return nearest(X[i], P)
    x, at, low = X[i], lower_bounds(i, search), search.low
    best = squared_distance(x, P[at])
    if up_to(low, 0, low.shape[0], best)[0] == 1:
        return at, best
    for j in range(P.shape[0]):
        if j != at and not low[j] > best:
            distance = squared_distance(x, P[j])
            if distance < best or (distance == best and j < at):
                best, at = distance, j
    return at, best


@njit(inner=True)
def two_smallest(low, x, P):
    """Largest distance that one of the two nearest can have."""
    if low.shape[0] < 2:
        return x.dtype.type(np.inf)
    first, second = (0, 1) if low[0] <= low[1] else (1, 0)
    for j in range(2, low.shape[0]):
        if low[j] < low[first]:
            first, second = j, first
        elif low[j] < low[second]:
            second = j
    return max(squared_distance(x, P[first]), squared_distance(x, P[second]))


@njit(inline="always")
def quick_two_nearest(i, X, P, search):
    """Return what `two_nearest` does, from those that may be."""
    if search is None:
        return two_nearest(X[i], P)
    lower_bounds(i, search)
    x, low = X[i], search.low
    limit = two_smallest(low, x, P)
    first, first_distance = -1, x.dtype.type(np.inf)
    second, second_distance = -1, x.dtype.type(np.inf)
    for j in range(P.shape[0]):
        if low[j] > limit:
            continue
        distance = squared_distance(x, P[j])
        if distance < first_distance:
            second, second_distance = first, first_distance
            first, first_distance = j, distance
        elif distance < second_distance:
            second, second_distance = j, distance
    return first, first_distance, second, second_distance


@njit(inner=True)
def nearest_pair(x, P, labels, code):
    """Return index and squared distance of the nearest of a class and of the others."""
    plus, d_plus = -1, x.dtype.type(np.inf)
    minus, d_minus = -1, x.dtype.type(np.inf)
    for j in range(P.shape[0]):
        distance = squared_distance(x, P[j])
        if labels[j] == code:
            if distance < d_plus:
                plus, d_plus = j, distance
        elif distance < d_minus:
            minus, d_minus = j, distance
    return plus, d_plus, minus, d_minus


@njit(inline="always")
def quick_nearest_pair(i, X, P, labels, code, search):
    """Return what `nearest_pair` does, from those that may be."""
    if search is None:
        return nearest_pair(X[i], P, labels, code)
    lower_bounds(i, search)
    x, low = X[i], search.low
    plus = minus = -1
    for j in range(P.shape[0]):
        if labels[j] == code:
            if plus < 0 or low[j] < low[plus]:
                plus = j
        elif minus < 0 or low[j] < low[minus]:
            minus = j
    d_plus = d_minus = x.dtype.type(np.inf)
    if plus >= 0:
        d_plus = squared_distance(x, P[plus])
    if minus >= 0:
        d_minus = squared_distance(x, P[minus])
    for j in range(P.shape[0]):
        if labels[j] == code:
            if j != plus and not low[j] > d_plus:
                distance = squared_distance(x, P[j])
                if distance < d_plus or (distance == d_plus and j < plus):
                    plus, d_plus = j, distance
        elif j != minus and not low[j] > d_minus:
            distance = squared_distance(x, P[j])
            if distance < d_minus or (distance == d_minus and j < minus):
                minus, d_minus = j, distance
    return plus, d_plus, minus, d_minus


@njit(inline="always")
def fetch_next(X, order, t):
    """Let the sample of the next presentation come while this one is learned."""
    if t + 1 < order.shape[0]:
        fetch(X, order[t + 1])


@njit(inline="always")
def follow(j, i, rate, distance, P, search):
    """Move the projection of a prototype, where there are projections."""
    if search is not None:
        move_projection(j, i, rate, np.float64(distance), P, search)


@njit(inner=True)
def follow_apart(j, i, rate, distance, P, search):
    """As `follow`, compiled once: where there are four calls, not where each counts."""
    follow(j, i, rate, distance, P, search)


@njit(inner=True)
def move(p, x, rate):
    """Move `p` by the fraction `rate` of the way to `x` (away where negative)."""
    step = x.dtype.type(rate)
    for f in range(p.shape[0]):
        p[f] += step * (x[f] - p[f])


@njit(inner=True)
def push(p, x, rate, box):
    """Move `p` away from `x`, unless that takes it out of the box; whether it did."""
    step = x.dtype.type(rate)
    for f in range(p.shape[0]):
        moved = p[f] - step * (x[f] - p[f])
        # Written so that NaN counts as outside.
        if not (box[0, f] <= moved <= box[1, f]):
            return False
    move(p, x, -step)
    return True


@njit(inner=True)
def push_inside(p, x, rate, box):
    """Move `p` away from `x`, and back into the box; whether that was needed."""
    step, back = x.dtype.type(rate), False
    for f in range(p.shape[0]):
        moved = p[f] - step * (x[f] - p[f])
        p[f] = min(max(moved, box[0, f]), box[1, f])
        back |= p[f] != moved
    return back


@njit(inner=True, fastmath=REORDER)
def leaves_ball(p, x, rate, balls, code):
    """Whether a push away from `x` takes `p` out of the ball of a class."""
    step, centre = x.dtype.type(rate), balls.centres[code]
    reach = x.dtype.type(0)
    for f in range(p.shape[0]):
        offset = p[f] - step * (x[f] - p[f]) - centre[f]
        reach += offset * offset
    return reach > balls.radii_squared[code]


@njit()
def lvq1_epoch(prototypes, shown, alpha_0, rates, search=None):
    """LVQ1: the nearest prototype comes nearer if its label is right, else leaves.

    With `rates`, one per prototype, it is OLVQ1: they adapt after every move.
    """
    P, labels, wins, box = prototypes
    X, y, order, start, total = shown
    errors, stopped, adapts = 0, 0, rates.shape[0] > 0
    for t in range(order.shape[0]):
        i = order[t]
        fetch_next(X, order, t)
        j, distance = quick_nearest(i, X, P, search)
        rate = rates[j] if adapts else alpha_0 * (1.0 - (start + t) / total)
        wins[j] += 1
        right = labels[j] == y[i]
        if right:
            move(P[j], X[i], rate)
            follow(j, i, rate, distance, P, search)
        else:
            errors += 1
            if push(P[j], X[i], rate, box):
                follow(j, i, -rate, distance, P, search)
            else:
                stopped += 1
        if adapts:
            rates[j] = min(alpha_0, rate / (1.0 + (rate if right else -rate)))
    return errors, stopped


@njit()
def window_epoch(prototypes, shown, alpha_0, window, epsilon, balls, search=None):
    """LVQ2.1 (`epsilon` 0) and LVQ3: the two nearest move where they disagree.

    ``min(d1/d2, d2/d1) > (1 - window)/(1 + window)`` is tested on squared distances.
    """
    P, labels, wins, box = prototypes
    X, y, order, start, total = shown
    errors, stopped, guard = 0, 0, balls.radii_squared.shape[0] > 0
    ratio = ((1.0 - window) / (1.0 + window)) ** 2
    for t in range(order.shape[0]):
        i = order[t]
        fetch_next(X, order, t)
        first, d_first, second, d_second = quick_two_nearest(i, X, P, search)
        rate = alpha_0 * (1.0 - (start + t) / total)
        wins[first] += 1
        first_right = labels[first] == y[i]
        errors += not first_right
        if second < 0:
            continue
        second_right = labels[second] == y[i]
        if first_right and second_right:
            if epsilon > 0.0:
                move(P[first], X[i], epsilon * rate)
                move(P[second], X[i], epsilon * rate)
                follow_apart(first, i, epsilon * rate, d_first, P, search)
                follow_apart(second, i, epsilon * rate, d_second, P, search)
        elif first_right != second_right and d_first > ratio * d_second:
            right, d_right, wrong, d_wrong = first, d_first, second, d_second
            if second_right:
                right, d_right, wrong, d_wrong = second, d_second, first, d_first
            move(P[right], X[i], rate)
            follow_apart(right, i, rate, d_right, P, search)
            c = labels[wrong]
            if guard and leaves_ball(P[wrong], X[i], rate, balls, c):
                continue
            if push(P[wrong], X[i], rate, box):
                follow_apart(wrong, i, -rate, d_wrong, P, search)
            else:
                stopped += 1
    return errors, stopped


@njit()
def pair_epoch(prototypes, shown, alpha_0, slope, last_slope, balls, search=None):
    """GLVQ: the nearest of the class comes nearer, that of the others leaves.

    With squared distances D and ``mu = (D_minus - D_plus) / (D_plus + D_minus)`` they
    move by the fractions ``rate g D_minus / (D_plus + D_minus)`` and ``rate g D_plus /
    (D_plus + D_minus)`` of the way, g = 4 s (1 - s) and s = 1/(1 + exp(beta mu)): a
    soft window, the narrower the larger beta, which grows from `slope` to `last_slope`
    by equal factors.
    """
    P, labels, wins, box = prototypes
    X, y, order, start, total = shown
    errors, guard = 0, balls.radii_squared.shape[0] > 0
    growth = np.log(last_slope / slope)
    for t in range(order.shape[0]):
        i = order[t]
        fetch_next(X, order, t)
        plus, d_plus, minus, d_minus = quick_nearest_pair(i, X, P, labels, y[i], search)
        right = d_plus < d_minus or (d_plus == d_minus and plus < minus)
        wins[plus if right else minus] += 1
        errors += not right
        both = np.float64(d_plus) + np.float64(d_minus)
        if plus < 0 or minus < 0 or not both > 0.0:
            continue
        progress = (start + t) / total
        beta = slope * np.exp(growth * progress)
        s = 1.0 / (1.0 + np.exp(beta * (d_minus - d_plus) / both))
        rate = alpha_0 * (1.0 - progress) * 4.0 * s * (1.0 - s)
        nearer = rate * (d_minus / both)
        move(P[plus], X[i], nearer)
        follow(plus, i, nearer, d_plus, P, search)
        away, c = rate * (d_plus / both), labels[minus]
        if guard and leaves_ball(P[minus], X[i], away, balls, c):
            continue
        back = push_inside(P[minus], X[i], away, box)
        follow(minus, i, np.nan if back else -away, d_minus, P, search)
    return errors, 0


KTH, SOFT = 0, 1
HINGE, RAMP, EXPONENTIAL, SIGMOID, LINEAR = LOSSES.values()


@njit(inner=True)
def adam_in_place(m, v, gradient, forget, forget_squares, t, least):
    """Take one more gradient into the moments of Adam; make it the ascent. All flat.

    Where every gradient so far was zero the direction is zero; where it was `least` of
    the largest, it is half of what it would be.
    """
    kind = m.dtype.type
    old, new = kind(forget), kind(1.0 - forget)
    old_squares, new_squares = kind(forget_squares), kind(1.0 - forget_squares)
    top = kind(0.0)
    for i in range(m.shape[0]):
        g = gradient[i]
        m[i] = old * m[i] + new * g
        v[i] = old_squares * v[i] + new_squares * g * g
        top = max(top, v[i])
    floor = kind(least) * kind(least) * top
    if not floor > 0:
        # Squares so small that `least` of them vanishes.
        floor = kind(2e-38)
    scale = kind(np.sqrt(1.0 - forget_squares**t) / (1.0 - forget**t))
    for i in range(m.shape[0]):
        # A root by its square: at most one over the root, which is a number.
        gradient[i] = scale * m[i] * (np.sqrt(v[i]) / (v[i] + floor))


@njit(inner=True)
def class_distance(d, start, stop, rule, k, h, w):
    """Distance to the class of prototypes [start, stop); its derivative goes to `w`.

    A class with fewer than `k` prototypes counts by its farthest one.
    """
    size = stop - start
    if rule == SOFT:
        low, total = d[start], 0.0
        for j in range(start + 1, stop):
            low = min(low, d[j])
        for j in range(start, stop):
            w[j] = np.exp(-(d[j] - low) / h)
            total += w[j]
        for j in range(start, stop):
            w[j] /= total
        return low - h * np.log(total / size)
    for j in range(start, stop):
        w[j] = 0.0
    # By passes, as k is small: a sort compiles for a second.
    last, at = -np.inf, -1
    for _ in range(min(k, size)):
        following, then = np.inf, start
        for j in range(start, stop):
            is_later = d[j] > last or (d[j] == last and j > at)
            if is_later and d[j] < following:
                following, then = d[j], j
        last, at = following, then
    w[at] = 1.0
    return d[at]


@njit(inner=True)
def find_pair(x, P, bounds, c_plus, rule, k, h, d, w):
    """Return s_plus, s_minus and the nearest wrong class; fill distances, weights."""
    for j in range(P.shape[0]):
        d[j] = np.sqrt(squared_distance(x, P[j]))
    s_plus = s_minus = np.inf
    c_minus = -1
    for c in range(bounds.shape[0] - 1):
        if bounds[c] == bounds[c + 1]:
            continue
        s = class_distance(d, bounds[c], bounds[c + 1], rule, k, h, w)
        if c == c_plus:
            s_plus = s
        elif s < s_minus:
            s_minus, c_minus = s, c
    return s_plus, s_minus, c_minus


@njit()
def margin_coefficients(P, bounds, X, y, rule, k, h):
    """Theta (n,) and S_l(r) w_r / ||x_l - p_r|| (n, K), S the sign of the class."""
    n, K = X.shape[0], P.shape[0]
    theta, pulls = np.empty(n), np.zeros((n, K))
    d, w = np.empty(K), np.empty(K)
    for i in range(n):
        s_plus, s_minus, wrong = find_pair(X[i], P, bounds, y[i], rule, k, h, d, w)
        theta[i] = (s_minus - s_plus) / 2.0
        if wrong < 0:
            continue
        for side in range(2):
            c = y[i] if side == 0 else wrong
            for j in range(bounds[c], bounds[c + 1]):
                if w[j] > 0.0 and d[j] > 0.0:
                    pulls[i, j] = (1.0 - 2.0 * side) * w[j] / d[j]
    return theta, pulls


@njit(inner=True)
def move_class(x, P, start, stop, d, w, step, box):
    """Move the prototypes of a class by `step` in all, along the unit vectors to x."""
    for j in range(start, stop):
        if w[j] > 0.0 and d[j] > 0.0:
            rate = min(max(step * w[j] / d[j], -1.0), 1.0)
            if rate > 0.0:
                move(P[j], x, rate)
            elif rate < 0.0:
                push(P[j], x, -rate, box)


@njit()
def loss_and_slope(kind, beta, theta):
    """Value and derivative of a named loss."""
    if kind == EXPONENTIAL:
        value = np.exp(min(-beta * theta, 700.0))
        return value, -beta * value
    if kind == SIGMOID:
        value = 1.0 / (1.0 + np.exp(min(beta * theta, 700.0)))
        return value, -beta * value * (1.0 - value)
    if kind == LINEAR:
        return -theta, -1.0
    if kind != HINGE and kind != RAMP:
        return np.nan, np.nan
    value = max(1.0 - beta * theta, 0.0)
    if kind == RAMP and value >= 2.0:
        return 2.0, 0.0
    return value, (-beta if value > 0.0 else 0.0)


@njit(inner=True)
def move_pair(x, P, bounds, right, wrong, d, w, step, box):
    """Bring the right class nearer by `step` and drive the wrong one away."""
    move_class(x, P, bounds[right], bounds[right + 1], d, w, step, box)
    move_class(x, P, bounds[wrong], bounds[wrong + 1], d, w, -step, box)


def margin_epoch(P, bounds, box, shown, loss, unit, gamma, rule):
    """As `prototypes.margin_lvq.margin_epoch`."""
    kind = compiled_loss(loss)
    return _margin_epoch(P, bounds, box, shown, *kind, unit, gamma, *rule)


@njit()
def _margin_epoch(P, bounds, box, shown, kind, beta, unit, gamma, rule, k, h):
    """One epoch of Algorithm 1 with a named loss of theta/unit; return summed loss."""
    X, y, order, start, total = shown
    d, w = np.empty(P.shape[0]), np.empty(P.shape[0])
    losses = 0.0
    for t in range(order.shape[0]):
        i = order[t]
        fetch_next(X, order, t)
        s_plus, s_minus, wrong = find_pair(X[i], P, bounds, y[i], rule, k, h, d, w)
        if wrong < 0:
            continue
        value, slope = loss_and_slope(kind, beta, (s_minus - s_plus) / (2.0 * unit))
        losses += value
        if slope != 0.0:
            step = -gamma * unit * (1.0 - (start + t) / total) * slope
            move_pair(X[i], P, bounds, y[i], wrong, d, w, step, box)
    return losses


def doubtful(D, x_errors, p_errors, rtol):
    """As `nearest.doubtful`, row by row."""
    n, K = D.shape
    room = max(64, 4 * K)
    coarse, start, parts = D.dtype.type(rtol), 0, []
    while start < n:
        found = np.empty((2, room), np.intp)
        start, count = _doubtful(D, x_errors, p_errors, coarse, start, found)
        parts.append(found[:, :count])
        room *= 2
    rows, columns = np.concatenate(parts or [np.empty((2, 0), np.intp)], axis=1)
    return rows, columns


@njit()
def _doubtful(D, x_errors, p_errors, coarse, start, found):
    """Fill rows and columns of `found` from row `start` on.

    Return the row where there was no more room, and how many were found.
    """
    n, K = D.shape
    count = 0
    for i in range(start, n):
        if count + K > found.shape[1]:
            return i, count
        nearest_above = np.inf
        for j in range(K):
            nearest_above = min(nearest_above, D[i, j] + x_errors[i] + p_errors[j])
        n_near = 0
        any_coarse = False
        for j in range(K):
            error = x_errors[i] + p_errors[j]
            n_near += D[i, j] - error <= nearest_above
            any_coarse |= error > coarse * D[i, j]
        if n_near < 2 and not any_coarse:
            continue
        for j in range(K):
            error = x_errors[i] + p_errors[j]
            near = n_near > 1 and D[i, j] - error <= nearest_above
            if not (near or error > coarse * D[i, j]):
                continue
            found[0, count] = i
            found[1, count] = j
            count += 1
    return n, count


def class_minima(D, codes, n_classes):
    """As `nearest.class_minima`."""
    out = np.full((len(D), n_classes), np.inf, D.dtype)
    _class_minima(D, codes, out)
    return out


@njit()
def _class_minima(D, codes, out):
    for i in range(D.shape[0]):
        for j in range(D.shape[1]):
            c = codes[j]
            out[i, c] = min(out[i, c], D[i, j])
