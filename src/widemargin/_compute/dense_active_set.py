"""The active set on dense rows: solve exactly, sweep, pick violators, repeat.

The same arithmetic as the general loop in :mod:`widemargin.linear.active_set`, without
the price of fifty small array calls per round, which is most of what a problem with a
few hundred samples costs. Shapes: X (n, d) in double precision; signs (n,); rows, alpha
(m,); centre (d,).
"""

import numpy as np
from numba import njit

from widemargin._compute.active_set import UNBOUNDED, nonnegative_qp


@njit(cache=True, nogil=True)
def _reflected_rows(X, centre, signs, rows):
    Z = np.empty((rows.shape[0], X.shape[1]))
    for i in range(rows.shape[0]):
        k = rows[i]
        for j in range(X.shape[1]):
            Z[i, j] = signs[k] * (X[k, j] - centre[j])
    return Z


@njit(cache=True, nogil=True, fastmath=True)
def _scores(X, w, offset):
    scores = np.empty(X.shape[0])
    for k in range(X.shape[0]):
        total = offset
        for j in range(X.shape[1]):
            total += X[k, j] * w[j]
        scores[k] = total
    return scores


@njit(cache=True, nogil=True)
def _hull_distance(Z, alpha, positive):
    """Half the distance of the class averages under `alpha`; inf if one is empty."""
    plus, minus = 0.0, 0.0
    for i in range(alpha.shape[0]):
        if positive[i]:
            plus += alpha[i]
        else:
            minus += alpha[i]
    if plus == 0.0 or minus == 0.0:
        return np.inf
    share = np.where(positive, 0.5 * alpha / plus, 0.5 * alpha / minus)
    difference = np.dot(share, Z)
    return np.sqrt(np.dot(difference, difference))


@njit(cache=True, nogil=True)
def _worst(violation, signs, side, batch, least):
    """Rows of one class with the largest violations above `least`, `batch` at most."""
    count = 0
    for k in range(violation.shape[0]):
        if signs[k] == side and violation[k] > least:
            count += 1
    chosen = np.empty(count, dtype=np.int64)
    values = np.empty(count)
    i = 0
    for k in range(violation.shape[0]):
        if signs[k] == side and violation[k] > least:
            chosen[i], values[i] = k, -violation[k]
            i += 1
    if count <= batch:
        return chosen
    limit = np.partition(values, batch - 1)[batch - 1]
    return chosen[values <= limit][:batch]


@njit(cache=True, nogil=True)
def _facing_rows(X, signs, w, batch):
    """Rows of each class least far along `w`, `batch` of each at most."""
    reach = -signs * _scores(X, w, 0.0)
    first = _worst(reach, signs, 1.0, batch, -np.inf)
    return np.concatenate((first, _worst(reach, signs, -1.0, batch, -np.inf)))


@njit(cache=True, nogil=True)
def _round(X, centre, signs, rows, alpha, bias, height, rho, exact, batch):
    """Solve the working set `rows` and look at all patterns once.

    `rho` is the height of a penalised bias; with a negative one the bias is free and
    `height` is the square that pulls it. Returns (status, steps, rows, alpha, bias,
    lower, upper, best bias, weights, rows to add).
    """
    free = rho < 0.0
    Z = _reflected_rows(X, centre, signs, rows)
    H = np.dot(Z, Z.T)
    scale = np.trace(H) / rows.shape[0]
    if scale <= 0.0:
        scale = 1.0
    l = signs[rows]  # noqa: E741
    pull = height if free else rho * rho / scale
    for i in range(rows.shape[0]):
        for j in range(rows.shape[0]):
            H[i, j] = H[i, j] / scale + pull * l[i] * l[j]
    alpha = alpha * scale
    status, bias, steps = nonnegative_qp(
        H, np.ones(rows.shape[0]), l, alpha, bias if free else 0.0,
        pull if free else 0.0, exact, 1e-11, 1000 + 50 * rows.shape[0],
    )  # fmt: skip
    if not free:
        bias = pull * np.dot(alpha, l)
    alpha = alpha / scale
    w = np.dot(alpha, Z)
    if status == UNBOUNDED:
        none = np.empty(0, dtype=np.int64)
        return status, steps, rows, alpha, bias, -np.inf, 0.0, 0.0, w, none
    scores = _scores(X, w, -np.dot(w, centre))
    low, high = np.inf, -np.inf
    for k in range(scores.shape[0]):
        if signs[k] > 0:
            low = min(low, scores[k])
        else:
            high = max(high, scores[k])
    square = np.dot(w, w)
    if free:
        upper = _hull_distance(Z, alpha, l > 0)
        found, lowest = -(low + high) / 2, (low - high) / 2
    else:
        square += (rho * np.dot(alpha, l)) ** 2
        upper = np.sqrt(square) / np.sum(alpha)
        found, lowest = bias, min(low + bias, -(high + bias))
    lower = lowest / np.sqrt(square) if square > 0.0 else -np.inf
    support = alpha > 0.0
    rows, alpha = rows[support], alpha[support]
    violation = 1.0 - signs * (scores + bias)
    for i in range(rows.shape[0]):
        violation[rows[i]] = 0.0
    added = np.concatenate(
        (
            _worst(violation, signs, 1.0, batch, 10 * exact),
            _worst(violation, signs, -1.0, batch, 10 * exact),
        )
    )
    return status, steps, rows, alpha, bias, lower, upper, found, w, added


@njit(cache=True, nogil=True)
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
    return plus / n_plus, minus / (X.shape[0] - n_plus)


@njit(cache=True, nogil=True)
def dense_active_set(
    X, signs, start, rho, height, exact, first_batch, batch, tol, max_iter
):
    """Run rounds until the certified gap is at most `tol`.

    `start` is a dual vector, zero for none; `rho` negative leaves the bias free.
    Returns (status, lower, upper, rounds, steps, weights, bias, rows, alpha); the bias
    refers to the samples as they are.
    """
    plus, minus = _class_means(X, signs)
    centre = (plus + minus) / 2 if rho < 0.0 else np.zeros(X.shape[1])
    rows = np.flatnonzero(start)
    if rows.shape[0] == 0:
        rows = _facing_rows(X, signs, plus - minus, first_batch)
    alpha = start[rows]
    bias, lower, upper, steps, rounds = 0.0, -np.inf, np.inf, 0, 0
    best_w, best_bias, best_rows, best_alpha = centre, 0.0, rows, alpha
    status = 0
    while rounds < max_iter:
        status, made, rows, alpha, bias, low, high, found, w, added = _round(
            X, centre, signs, rows, alpha, bias, height, rho, exact, batch
        )
        rounds += 1
        steps += made
        if status == UNBOUNDED:
            return status, -np.inf, 0.0, rounds, steps, w, 0.0, rows, alpha
        upper = min(upper, high)
        if low > lower:
            lower = low
            best_w, best_bias, best_rows, best_alpha = w, found, rows, alpha
        if lower >= (1.0 - tol) * upper or added.shape[0] == 0:
            break
        rows = np.concatenate((rows, added))
        alpha = np.concatenate((alpha, np.zeros(added.shape[0])))
    best_bias -= np.dot(best_w, centre)
    return (
        status, lower, upper, rounds, steps, best_w, best_bias, best_rows, best_alpha,
    )  # fmt: skip
