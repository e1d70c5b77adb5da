"""Kohonen's online LVQ: one presentation is K distances and one or two moves.

Prototypes ``P`` (K, d) with class codes ``labels`` (K,) are moved in place; samples
``X[order[t]]`` are presented one after the other. ``wins`` counts how often each
prototype came first. Every function runs one epoch of a stage of `total`
presentations that began `start` presentations ago, with the rate
``alpha_0 (1 - t/total)``, and returns how many samples were on the wrong side when
they were presented. float32 data are computed in float32.

T. Kohonen, "Self-Organizing Maps", 3rd edition, section 6.
"""

import numpy as np
from numba import njit

# Sums may be reordered (that is what lets them use vector instructions), but NaN and
# infinity keep their meaning.
REORDER = {"reassoc", "contract"}


@njit(cache=True, nogil=True, fastmath=REORDER)
def squared_distance(x, p):
    """Squared Euclidean distance of two vectors."""
    total = x.dtype.type(0)
    for f in range(x.shape[0]):
        delta = x[f] - p[f]
        total += delta * delta
    return total


@njit(cache=True, nogil=True)
def nearest(x, P):
    """Index of the first of the nearest prototypes."""
    best, best_distance = -1, x.dtype.type(np.inf)
    for j in range(P.shape[0]):
        distance = squared_distance(x, P[j])
        if distance < best_distance:
            best, best_distance = j, distance
    return best


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def move(p, x, rate):
    """Move `p` by the fraction `rate` of the way to `x` (away where negative)."""
    step = x.dtype.type(rate)
    for f in range(p.shape[0]):
        p[f] += step * (x[f] - p[f])


@njit(cache=True, nogil=True, fastmath=REORDER)
def repel(p, x, rate, centre, radius_squared, guard):
    """Move `p` away from `x`, unless that takes it out of the ball of its class."""
    if guard:
        step = x.dtype.type(rate)
        reach = x.dtype.type(0)
        for f in range(p.shape[0]):
            offset = p[f] - step * (x[f] - p[f]) - centre[f]
            reach += offset * offset
        if reach > radius_squared:
            return
    move(p, x, -rate)


@njit(cache=True, nogil=True)
def lvq1_epoch(P, labels, X, y, order, wins, alpha_0, start, total):
    """LVQ1: the nearest prototype comes nearer if its label is right, else leaves."""
    errors = 0
    for t in range(order.shape[0]):
        i = order[t]
        j = nearest(X[i], P)
        rate = alpha_0 * (1.0 - (start + t) / total)
        wins[j] += 1
        if labels[j] == y[i]:
            move(P[j], X[i], rate)
        else:
            errors += 1
            move(P[j], X[i], -rate)
    return errors


@njit(cache=True, nogil=True)
def olvq1_epoch(P, labels, X, y, order, wins, alpha_0, rates):
    """OLVQ1: as LVQ1, with a rate per prototype that adapts after every move."""
    errors = 0
    for t in range(order.shape[0]):
        i = order[t]
        j = nearest(X[i], P)
        rate = rates[j]
        wins[j] += 1
        if labels[j] == y[i]:
            move(P[j], X[i], rate)
            rates[j] = min(alpha_0, rate / (1.0 + rate))
        else:
            errors += 1
            move(P[j], X[i], -rate)
            rates[j] = min(alpha_0, rate / (1.0 - rate))
    return errors


@njit(cache=True, nogil=True)
def window_epoch(
    P,
    labels,
    X,
    y,
    order,
    wins,
    alpha_0,
    start,
    total,
    window,
    epsilon,
    guard,
    centres,
    radii_squared,
):
    """LVQ2.1 (`epsilon` 0) and LVQ3: the two nearest move where they disagree.

    ``min(d1/d2, d2/d1) > (1 - window)/(1 + window)`` is tested on squared distances.
    """
    errors = 0
    ratio = ((1.0 - window) / (1.0 + window)) ** 2
    for t in range(order.shape[0]):
        i = order[t]
        first, d_first, second, d_second = two_nearest(X[i], P)
        rate = alpha_0 * (1.0 - (start + t) / total)
        wins[first] += 1
        first_right = labels[first] == y[i]
        second_right = labels[second] == y[i]
        if not first_right:
            errors += 1
        if first_right and second_right:
            if epsilon > 0.0:
                move(P[first], X[i], epsilon * rate)
                move(P[second], X[i], epsilon * rate)
        elif first_right != second_right and d_first > ratio * d_second:
            right, wrong = (first, second) if first_right else (second, first)
            move(P[right], X[i], rate)
            c = labels[wrong]
            repel(P[wrong], X[i], rate, centres[c], radii_squared[c], guard)
    return errors


KTH, SOFT = 0, 1
HINGE, BROKEN, EXPONENTIAL, SIGMOID, IDENTITY = 0, 1, 2, 3, 4


@njit(cache=True, nogil=True)
def right_wrong(D, labels, y):
    """Return distances to the nearest right and wrong reference, and their columns.

    The columns come as one (n, 2) array.
    """
    n, K = D.shape
    d_plus, d_minus = np.empty(n, D.dtype), np.empty(n, D.dtype)
    at = np.empty((n, 2), np.intp)
    for i in range(n):
        plus = minus = D.dtype.type(np.inf)
        at_plus = at_minus = -1
        for j in range(K):
            d = D[i, j]
            if labels[j] == y[i]:
                if d < plus:
                    plus, at_plus = d, j
            elif d < minus:
                minus, at_minus = d, j
        d_plus[i], d_minus[i] = plus, minus
        at[i, 0], at[i, 1] = at_plus, at_minus
    return d_plus, d_minus, at


@njit(cache=True, nogil=True)
def pair_product(pair, at, X, K):
    """Return ``C^T X`` for the (n, K) matrix C with entries `pair` in columns `at`."""
    out = np.zeros((K, X.shape[1]), X.dtype)
    for i in range(X.shape[0]):
        for side in range(2):
            row, c = out[at[i, side]], pair[i, side]
            for f in range(X.shape[1]):
                row[f] += c * X[i, f]
    return out


@njit(cache=True, nogil=True)
def class_distance(d, start, stop, rule, k, h, w):
    """Distance to the class of prototypes [start, stop); its derivative goes to `w`.

    A class with fewer than `k` prototypes counts by its farthest one.
    """
    size = stop - start
    if rule == SOFT:
        low = d[start:stop].min()
        total = 0.0
        for j in range(start, stop):
            w[j] = np.exp(-(d[j] - low) / h)
            total += w[j]
        for j in range(start, stop):
            w[j] /= total
        return low - h * np.log(total / size)
    w[start:stop] = 0.0
    if k == 1 or size == 1:
        at = start + np.argmin(d[start:stop])
    else:
        at = start + np.argsort(d[start:stop])[min(k, size) - 1]
    w[at] = 1.0
    return d[at]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def move_class(x, P, start, stop, d, w, step):
    """Move the prototypes of a class by `step` in all, along the unit vectors to x."""
    for j in range(start, stop):
        if w[j] > 0.0 and d[j] > 0.0:
            rate = x.dtype.type(min(max(step * w[j] / d[j], -1.0), 1.0))
            for f in range(x.shape[0]):
                P[j, f] += rate * (x[f] - P[j, f])


@njit(cache=True, nogil=True)
def loss_and_slope(kind, beta, theta):
    """Value and derivative of a named loss."""
    if kind == EXPONENTIAL:
        value = np.exp(min(-beta * theta, 700.0))
        return value, -beta * value
    if kind == SIGMOID:
        value = 1.0 / (1.0 + np.exp(min(beta * theta, 700.0)))
        return value, -beta * value * (1.0 - value)
    if kind == IDENTITY:
        return -theta, -1.0
    value = max(1.0 - beta * theta, 0.0)
    if kind == BROKEN and value >= 2.0:
        return 2.0, 0.0
    return value, (-beta if value > 0.0 else 0.0)


@njit(cache=True, nogil=True)
def move_pair(x, P, bounds, right, wrong, d, w, step):
    """Bring the right class nearer by `step` and drive the wrong one away."""
    move_class(x, P, bounds[right], bounds[right + 1], d, w, step)
    move_class(x, P, bounds[wrong], bounds[wrong + 1], d, w, -step)


@njit(cache=True, nogil=True)
def margin_epoch(
    P, bounds, X, y, order, kind, beta, unit, gamma, start, total, rule, k, h
):
    """One epoch of Algorithm 1 with a named loss of theta/unit; return summed loss."""
    d, w = np.empty(P.shape[0]), np.empty(P.shape[0])
    losses = 0.0
    for t in range(order.shape[0]):
        i = order[t]
        s_plus, s_minus, wrong = find_pair(X[i], P, bounds, y[i], rule, k, h, d, w)
        value, slope = loss_and_slope(kind, beta, (s_minus - s_plus) / (2.0 * unit))
        losses += value
        if slope != 0.0 and wrong >= 0:
            step = -gamma * unit * (1.0 - (start + t) / total) * slope
            move_pair(X[i], P, bounds, y[i], wrong, d, w, step)
    return losses
