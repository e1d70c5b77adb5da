r"""Bounds for perceptrons that ask for a fixed directional margin β.

A reflected pattern y_k is misclassified if :math:`y_k \cdot a \le \beta \|a\|`; then
:math:`a \leftarrow a + \eta f\, y_k` with :math:`f_{min} \le f \le f_{max}`. With
*free length* the learning rate only scales a; with *fixed length* a is brought back to
length β after each update and η matters. Both stop for every β below the best
directional margin :math:`\gamma_d`, and then have a margin above β. For
:math:`\beta \ge \gamma_d` nothing is promised: bounds on updates are infinite.

All functions take and return single numbers; equation numbers are those of the paper.

References
----------
P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, section 2.2.
"""

import math
from collections.abc import Callable

from scipy.optimize import brentq

__all__ = [
    "fixed_length_critical_rate",
    "fixed_length_optimal_rate",
    "fixed_length_optimal_updates",
    "fixed_length_updates",
    "free_length_onset",
    "free_length_updates",
    "free_length_updates_simple",
    "projected_factor_range",
]


def projected_factor_range(r: float, beta: float) -> tuple[float, float]:
    r"""Range of the factor :math:`f = 1 - \beta (u \cdot y) / \|y\|^2` of (2.32).

    .. math:: f_{min} = 1 - \beta^2 / r^2, \qquad f_{max} = 1 + \beta / r

    Examples
    --------
    >>> projected_factor_range(r=4.0, beta=1.0)
    (0.9375, 1.25)
    """
    return 1 - (beta / r) ** 2, 1 + beta / r


def free_length_onset(
    R: float, gamma_d: float, beta: float, *, f_min: float = 1.0, f_max: float = 1.0
) -> float:
    r"""Onset, in updates: after it each one improves the direction of a (2.35).

    .. math:: t_c = \frac12 \frac{f_{max}}{f_{min}}
        \frac{R^2 - \gamma_d^2}{\gamma_d (\gamma_d - \beta)}

    Examples
    --------
    >>> free_length_onset(R=2.0, gamma_d=1.0, beta=0.5)
    3.0
    """
    if beta >= gamma_d:
        return math.inf
    spread = max(R**2 - gamma_d**2, 0.0)
    return f_max / f_min * spread / (2 * gamma_d * (gamma_d - beta))


def free_length_updates_simple(
    R: float, gamma_d: float, beta: float, *, f_min: float = 1.0, f_max: float = 1.0
) -> float:
    r"""Most updates with free length, the simpler bound (2.45).

    The largest t ≥ 2 with

    .. math:: \frac{t - 1}{3 + 2 \ln(t - 1)} \le \frac{K}{4}, \qquad
        K = \frac{(f_{max} R / (f_{min} \gamma_d))^2}
        {1 - f_{max} \beta / (f_{min} \gamma_d)},

    or 1 if there is none; infinite where K is not positive.

    Examples
    --------
    >>> round(free_length_updates_simple(R=2.0, gamma_d=1.0, beta=0.5), 3)
    18.434
    """
    K = _growth(R, gamma_d, beta, f_max / f_min)
    return _largest(lambda t: (t - 1) / (3 + 2 * math.log(t - 1)), K / 4, 2)


def free_length_updates(
    R: float, gamma_d: float, beta: float, *, f_min: float = 1.0, f_max: float = 1.0
) -> float:
    r"""Most updates with free length, the sharper bound (2.46) to (2.48).

    The largest t ≥ N + 1 with

    .. math:: \frac{t - N}{1 + 1/N + \ln((t - 1)/N)} \le \frac{K}{2}, \qquad
        N = \left[\frac12 \frac{f_{max}}{f_{min}} \frac{R}{\gamma_d}
        \frac{1}{1 - \beta/R}\right],

    or N if there is none, with K as in :func:`free_length_updates_simple`. The
    inequality holds for N = 1 too, which replaces N = 0.

    Examples
    --------
    >>> round(free_length_updates(R=9.0, gamma_d=1.0, beta=0.5), 1)
    495.4
    >>> round(free_length_updates_simple(R=9.0, gamma_d=1.0, beta=0.5), 1)
    646.6
    """
    ratio = f_max / f_min
    K = _growth(R, gamma_d, beta, ratio)
    if math.isinf(K):
        return math.inf
    N = max(1, math.floor(ratio * R / gamma_d / (2 * (1 - beta / R))))
    return _largest(
        lambda t: (t - N) / (1 + 1 / N + math.log((t - 1) / N)), K / 2, N + 1
    )


def fixed_length_critical_rate(
    R: float, gamma_d: float, beta: float, *, f_max: float = 1.0
) -> float:
    r"""Learning rate below which every update improves the direction (2.51).

    .. math:: \eta_c = \frac{2}{f_{max}}
        \frac{(\gamma_d - \beta)\,\beta}{R^2 - \gamma_d^2}

    Examples
    --------
    >>> round(fixed_length_critical_rate(R=2.0, gamma_d=1.0, beta=0.5), 4)
    0.1667
    """
    spread = R**2 - gamma_d**2
    gain = max(gamma_d - beta, 0.0) * beta
    return 2 / f_max * gain / spread if spread > 0 else math.inf


def fixed_length_updates(
    R: float,
    gamma_d: float,
    beta: float,
    eta: float,
    *,
    f_min: float = 1.0,
    f_max: float = 1.0,
) -> float:
    r"""Most updates with fixed length and learning rate η (2.56).

    .. math:: t < \frac{f_{max}}{f_{min}}
        \left(g z - \frac{h z^2}{2} - \frac{z^3}{2}\right)^{-1}, \quad
        z = \frac{\eta f_{max} R}{\beta},\; g = \frac{\gamma_d - \beta}{R},\;
        h = 1 + \frac{2\beta}{R}

    Infinite where the bracket is not positive: η is too large for a promise.

    Examples
    --------
    >>> round(fixed_length_updates(R=2.0, gamma_d=1.0, beta=0.5, eta=0.04), 2)
    53.33
    """
    g, h = _gap(R, gamma_d, beta)
    z = eta * f_max * R / beta
    progress = g * z - h * z**2 / 2 - z**3 / 2
    return f_max / f_min / progress if progress > 0 else math.inf


def fixed_length_optimal_rate(
    R: float, gamma_d: float, beta: float, *, f_max: float = 1.0, exact: bool = False
) -> float:
    r"""Learning rate that makes the bound of (2.56) smallest.

    .. math:: \eta_{opt} = \frac{(\gamma_d - \beta)\,\beta}{f_{max} R^2 h}

    is the paper's approximation (2.57), always below half the critical rate; with
    ``exact`` the minimiser :math:`z = (\sqrt{h^2 + 6 g} - h) / 3` itself.

    Examples
    --------
    >>> round(fixed_length_optimal_rate(R=2.0, gamma_d=1.0, beta=0.5), 4)
    0.0417
    """
    g, h = _gap(R, gamma_d, beta)
    # The conjugate form of the root, which does not cancel for small g.
    z = 2 * g / (h + math.sqrt(h * h + 6 * g)) if exact else g / h
    return z * beta / (f_max * R)


def fixed_length_optimal_updates(
    R: float, gamma_d: float, beta: float, *, f_min: float = 1.0, f_max: float = 1.0
) -> float:
    r"""Most updates with fixed length at the learning rate of (2.57), (2.58).

    .. math:: t < 2 \frac{f_{max}}{f_{min}} \frac{h}{g^2}
        \left(1 - \frac{g}{h^2}\right)^{-1}

    Examples
    --------
    >>> round(fixed_length_optimal_updates(R=2.0, gamma_d=1.0, beta=0.5), 2)
    54.0
    """
    g, h = _gap(R, gamma_d, beta)
    if g == 0:
        return math.inf
    return 2 * f_max / f_min * h / g**2 / (1 - g / h**2)


def _gap(R: float, gamma_d: float, beta: float) -> tuple[float, float]:
    return max(gamma_d - beta, 0.0) / R, 1 + 2 * beta / R


def _growth(R: float, gamma_d: float, beta: float, ratio: float) -> float:
    slack = 1 - ratio * beta / gamma_d
    return (ratio * R / gamma_d) ** 2 / slack if slack > 0 else math.inf


def _largest(left: Callable[[float], float], right: float, first: int) -> float:
    """Largest t with left(t) <= right, for a left that increases from `first` on."""
    if math.isinf(right):
        return math.inf
    if left(first) > right:
        return float(first - 1)
    high = 2.0 * first
    while left(high) <= right:
        high *= 2
    root = brentq(lambda t: left(t) - right, first, high, xtol=1e-12, rtol=1e-14)
    # Never below the true root, whose integer part is the bound.
    return float(root * (1 + 1e-12))
