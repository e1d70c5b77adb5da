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

from widemargin._compute.compiled import njit

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
