"""A hard plane of dense rows: certified, and left by its supports, in one call.

What :mod:`widemargin.hyperplanes` says in some sixty calls on small arrays, which take
longer than all rounds of a problem with a few hundred samples. The certificate is of
:mod:`widemargin.hyperplanes.certificate`, from what is stored, with the error of any
order of the sums on the safe side, where doubles are enough; where they are not, the
answer is that nothing is sure.
Shapes: X (n, d) in double precision; chosen, signs (m,) of the samples of one problem;
at, alpha (k,) of its supports.
"""

import numpy as np

from widemargin._compute.active_set import edges, scores_of, taken
from widemargin._compute.compiled import add_times, dot, njit
from widemargin._compute.spans import FEW_SAMPLES, squared_spans

# A step to the safe side: more than one unit in the last place, less than three.
_STEP = 2.0**-52


@njit(inner=True)
def _rounding(n_terms):
    unit = (n_terms + 4) * 2.0**-53
    return unit / (1 - unit)


@njit(inline="always")
def _unit_normal(w, single):
    """Give the unit vector along w as it is stored, and the length of w."""
    largest = 0.0
    for j in range(w.shape[0]):
        largest = max(largest, abs(w[j]))
    if not 0.0 < largest < np.inf:
        return w, 0.0
    coef = np.empty(w.shape[0])
    for j in range(w.shape[0]):
        coef[j] = w[j] / largest
    length = np.sqrt(dot(coef, coef))
    for j in range(w.shape[0]):
        coef[j] /= length
        if single:
            coef[j] = np.float32(coef[j])
    return coef, largest * length


@njit(inline="always")
def _hull_bound(X, rows, signs, dual):
    """Half the distance of the class averages under `dual`, or more; and the error."""
    first, d = X[rows[0]], X.shape[1]
    total, delta = np.zeros(d), np.empty(d)
    plus, minus, reach = 0.0, 0.0, 0.0
    for i in range(rows.shape[0]):
        if signs[i] > 0:
            plus += dual[i]
        else:
            minus += dual[i]
    if plus == 0.0 or minus == 0.0:
        return np.inf, np.inf
    for i in range(rows.shape[0]):
        # Seen from one of them the sums do not cancel.
        x = X[rows[i]]
        for j in range(d):
            delta[j] = x[j] - first[j]
        add_times(total, 0.5 * dual[i] / (plus if signs[i] > 0 else -minus), delta)
        reach = max(reach, dot(delta, delta))
    error = _rounding(2 * rows.shape[0] + 8) * np.sqrt(reach) * 1.001
    length = np.sqrt(dot(total, total)) * (1 + _rounding(d))
    return (length + error) * (1 + 4e-16) * (1 + _STEP), error


@njit(inline="always")
def _own_margins(X, rows, dual):
    """Say what supports add to their own margins, see `hyperplanes.left_out`."""
    m = rows.shape[0]
    K = np.empty((m, m))
    for i in range(m):
        for j in range(i + 1):
            K[i, j] = K[j, i] = dot(X[rows[i]], X[rows[j]])
    spans = squared_spans(K, np.zeros(m), True)
    for i in range(m):
        own = dual[i] * spans[i]
        spans[i] = own if 0.0 < own < np.inf else 0.0
    return spans


@njit()
def certified(X, chosen, signs, w, at, alpha, longest, small, single):
    """Prove what a plane along `w` and the supports `at` with `alpha` are worth.

    No row is longer than `longest`, `small` is the error, relatively, that no
    certificate notices, `single` says whether weights are stored in single precision.
    Returns (sure, unit normal, bias, length of w, margin, upper bound, dual
    coefficients, what supports add to their own margins: zero where they are not few).
    """
    d = X.shape[1]
    coef, norm = _unit_normal(w, single)
    low, high = edges(scores_of(X, chosen, coef, 0.0), signs)
    bias = -(low + high) / 2
    length = np.sqrt(dot(coef, coef))
    lowest = min(low + bias, -(high + bias))
    error = _rounding(d) * length * longest * 1.001 + 1e-300 + _rounding(1) * abs(bias)
    margin = (lowest - error) * (1 - _STEP) / (length * (1 + _rounding(d)))
    margin *= (1 - 4e-16) * (1 - _STEP)
    sure = norm > 0.0 and error <= small * lowest and 1e-150 < margin < 1e150
    dual, own, bound, mass = np.empty(at.shape[0]), np.zeros(at.shape[0]), np.inf, 0.0
    for i in range(at.shape[0]):
        mass += alpha[i]
    for i in range(at.shape[0]):
        dual[i] = alpha[i] / mass / margin / margin
        sure = sure and 0.0 < dual[i] < np.inf
    if sure:
        rows = taken(chosen, at)
        bound, error = _hull_bound(X, rows, taken(signs, at), dual)
        sure = error <= small * bound < np.inf
        if at.shape[0] <= FEW_SAMPLES:
            own = _own_margins(X, rows, dual)
    return sure, coef, bias, norm, margin, bound, dual, own
