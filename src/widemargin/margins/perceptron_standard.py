r"""Bounds for perceptrons with the standard margin condition.

A reflected pattern y_k is misclassified if :math:`y_k \cdot a \le b`; then
:math:`a \leftarrow a + \eta f\, y_k`, from a = 0. Let :math:`R` and :math:`r` be the
longest and the shortest pattern and :math:`\gamma_d` the best directional margin,
:math:`0 < \gamma_d \le r \le R`.

*Standard* updates have a bounded factor, :math:`f_{min} \le f \le f_{max}`, usually 1.
*Relaxation* updates have :math:`f = (b_u - y_k \cdot a) / \|y_k\|^2` with
:math:`b_u > b` and :math:`0 < \eta < 2`.

All functions take and return single numbers; equation numbers are those of the paper.

References
----------
P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, section 2.1.
"""

import math

__all__ = [
    "relaxation_margin",
    "relaxation_norm",
    "relaxation_updates",
    "standard_margin",
    "standard_norm",
    "standard_onset",
    "standard_updates",
]


def standard_updates(
    R: float,
    gamma_d: float,
    b: float,
    *,
    eta: float = 1.0,
    f_min: float = 1.0,
    f_max: float = 1.0,
) -> float:
    r"""Most updates until every pattern has :math:`y \cdot a > b` (2.11).

    .. math:: t_N = \left(\frac{f_{max}}{f_{min}}\right)^2 \frac{R^2}{\gamma_d^2}
        + 2 \frac{f_{max}}{f_{min}} \frac{b}{\eta f_{min} \gamma_d^2}

    Examples
    --------
    >>> standard_updates(R=2.0, gamma_d=0.5, b=1.0)
    24.0
    """
    ratio = f_max / f_min
    return (ratio**2 * R**2 + 2 * ratio * b / (eta * f_min)) / gamma_d**2


def standard_onset(
    R: float,
    gamma_d: float,
    b: float,
    *,
    eta: float = 1.0,
    f_min: float = 1.0,
    f_max: float = 1.0,
) -> float:
    r"""Onset, in updates: after it each one improves the direction of a (2.18).

    .. math:: t_c = \frac12 \frac{f_{max}}{f_{min}} \frac{R^2 - \gamma_d^2}{\gamma_d^2}
        + \frac{b}{\eta f_{min} \gamma_d^2}

    Examples
    --------
    >>> standard_onset(R=2.0, gamma_d=0.5, b=1.0)
    11.5
    """
    spread = max(R**2 - gamma_d**2, 0.0)
    return (f_max / f_min * spread / 2 + b / (eta * f_min)) / gamma_d**2


def standard_norm(
    R: float,
    gamma_d: float,
    b: float,
    *,
    eta: float = 1.0,
    f_min: float = 1.0,
    f_max: float = 1.0,
) -> float:
    r"""Longest a can become (2.20), in the form that is right for every f.

    .. math:: \|a\| \le \frac{f_{max}}{f_{min}}
        \frac{\eta f_{max} R^2 + 2 b}{\gamma_d}

    The paper prints the case f = 1.

    Examples
    --------
    >>> standard_norm(R=2.0, gamma_d=0.5, b=1.0)
    12.0
    """
    return f_max / f_min * (eta * f_max * R**2 + 2 * b) / gamma_d


def standard_margin(
    R: float,
    gamma_d: float,
    b: float,
    *,
    eta: float = 1.0,
    f_min: float = 1.0,
    f_max: float = 1.0,
) -> float:
    r"""Directional margin guaranteed at the end (2.21).

    .. math:: \beta_{min} = \frac{f_{min}}{f_{max}}
        \frac{\gamma_d}{2 + \eta f_{max} R^2 / b}

    It approaches :math:`(f_{min}/f_{max})\,\gamma_d/2` for
    :math:`b \gg \eta f_{max} R^2`.

    Examples
    --------
    >>> standard_margin(R=2.0, gamma_d=0.5, b=2.0)
    0.125
    """
    return f_min / f_max * gamma_d / (2 + eta * f_max * R**2 / b)


def relaxation_updates(
    R: float, r: float, gamma_d: float, b: float, b_u: float, *, eta: float = 1.0
) -> float:
    r"""Most updates of the relaxation algorithm (2.29).

    .. math:: t \le \frac{1}{\eta (2 - \eta)} \left(\frac{R^2}{b_u - b}\right)^2
        \frac{b_u^2}{r^2 \gamma_d^2}

    Examples
    --------
    >>> relaxation_updates(R=2.0, r=1.0, gamma_d=0.5, b=1.0, b_u=2.0)
    256.0
    """
    root = R**2 * b_u / ((b_u - b) * r * gamma_d)
    return root**2 / (eta * (2 - eta))


def relaxation_norm(r: float, b_u: float, t: float, *, eta: float = 1.0) -> float:
    r"""Longest a can be after t updates of the relaxation algorithm (2.28).

    .. math:: \|a_t\| \le \frac{b_u}{r} \sqrt{\frac{\eta t}{2 - \eta}}

    Examples
    --------
    >>> relaxation_norm(r=1.0, b_u=2.0, t=9)
    6.0
    """
    return b_u / r * math.sqrt(eta * t / (2 - eta))


def relaxation_margin(
    R: float, r: float, gamma_d: float, b: float, b_u: float, *, eta: float = 1.0
) -> float:
    r"""Directional margin guaranteed by the relaxation algorithm.

    .. math:: \frac{b\,(2 - \eta)(b_u - b)\,r^2 \gamma_d}{b_u^2 R^2}

    This is b over (2.28) at the last update of (2.29). Best at :math:`b = b_u/2`, where
    it is :math:`(2 - \eta)(r/R)^2 \gamma_d / 4`.

    Examples
    --------
    >>> relaxation_margin(R=2.0, r=1.0, gamma_d=0.5, b=1.0, b_u=2.0)
    0.03125
    """
    t = relaxation_updates(R, r, gamma_d, b, b_u, eta=eta)
    return b / relaxation_norm(r, b_u, t, eta=eta)
