"""The inner loops of margin learning: nearest right and wrong, and Algorithm 1.

`right_wrong` reads an (n, K) array of distances once; `pair_product` is the product
with a sparse matrix that has two entries per row. `margin_epoch` is the online
descent of Crammer et al. on a loss of the hypothesis margin
``theta = (s_minus - s_plus) / 2``,

    p <- p - gamma L'(theta) w_p (x - p)/||x - p||   for the right class,
    p <- p + gamma L'(theta) w_p (x - p)/||x - p||   for the nearest wrong class,

where ``s_c`` is the distance of x to class c under one of three rules and ``w_p`` its
derivative: the nearest prototype (w = 1 there), the k-th nearest (w = 1 there), or the
soft minimum ``-h log mean exp(-d/h)`` (w = softmax of -d/h). A step never carries a
prototype past the sample, nor farther away than that.
"""

import numpy as np

from widemargin._compute.compiled import njit
from widemargin._compute.lvq import squared_distance

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
