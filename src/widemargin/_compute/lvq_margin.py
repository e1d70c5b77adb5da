"""The two inner loops of margin learning: nearest right and wrong, and Algorithm 1.

`right_wrong` reads a (n, K) array of distances once. `margin_epoch` is the online
descent of Crammer et al. on a loss of the hypothesis margin
``theta = (s_minus - s_plus) / 2``,

    p <- p - gamma L'(theta) w_p (x - p)/||x - p||   for the right class,
    p <- p + gamma L'(theta) w_p (x - p)/||x - p||   for the nearest wrong class,

where ``s_c`` is the distance of x to class c under one of three rules and ``w_p`` its
derivative: the nearest prototype (w = 1 there), the k-th nearest (w = 1 there), or the
soft minimum ``-h log sum exp(-d/h)`` (w = softmax of -d/h).
"""

import numpy as np
from numba import njit

from widemargin._compute.lvq import squared_distance

KTH, SOFT = 0, 1
HINGE, BROKEN, EXPONENTIAL = 0, 1, 2


@njit(cache=True, nogil=True)
def right_wrong(D, labels, y):
    """Distances to and columns of the nearest right and wrong reference, per row."""
    n, K = D.shape
    d_plus, d_minus = np.empty(n, D.dtype), np.empty(n, D.dtype)
    i_plus, i_minus = np.empty(n, np.intp), np.empty(n, np.intp)
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
        i_plus[i], i_minus[i] = at_plus, at_minus
    return d_plus, d_minus, i_plus, i_minus


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
        return low - h * np.log(total)
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
            rate = x.dtype.type(step * w[j] / d[j])
            for f in range(x.shape[0]):
                P[j, f] += rate * (x[f] - P[j, f])


@njit(cache=True, nogil=True)
def loss_and_slope(kind, beta, theta):
    """Value and derivative of a named loss."""
    if kind == EXPONENTIAL:
        value = np.exp(min(-beta * theta, 700.0))
        return value, -beta * value
    value = max(1.0 - beta * theta, 0.0)
    if kind == BROKEN and value >= 2.0:
        return 2.0, 0.0
    return value, (-beta if value > 0.0 else 0.0)


@njit(cache=True, nogil=True)
def margin_epoch(
    P, bounds, X, y, order, kind, beta, unit, gamma, start, total, rule, k, h
):
    """One epoch of Algorithm 1 with a named loss of theta/unit; return summed loss."""
    d, w = np.empty(P.shape[0]), np.empty(P.shape[0])
    losses = 0.0
    for t in range(order.shape[0]):
        i = order[t]
        c = y[i]
        s_plus, s_minus, wrong = find_pair(X[i], P, bounds, c, rule, k, h, d, w)
        value, slope = loss_and_slope(kind, beta, (s_minus - s_plus) / (2.0 * unit))
        losses += value
        if slope != 0.0:
            step = -gamma * unit * (1.0 - (start + t) / total) * slope
            move_class(X[i], P, bounds[c], bounds[c + 1], d, w, step)
            move_class(X[i], P, bounds[wrong], bounds[wrong + 1], d, w, -step)
    return losses
