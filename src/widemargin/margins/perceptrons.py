r"""Bounds of perceptron-like large-margin algorithms: one function each, one table.

How many updates an algorithm can make, how long its weight vector can become, what
directional margin it guarantees and when every update begins to help. A reflected
pattern y_k is added, :math:`a \leftarrow a + \eta f\, y_k`, if it fails a condition:

* *standard*: :math:`y_k \cdot a \le b`, from a = 0, with a bounded factor
  :math:`f_{min} \le f \le f_{max}`, usually 1;
* *relaxation*: the same with :math:`f = w_k (b_u - y_k \cdot a) / \|y_k\|^2`,
  :math:`b_u > b`, weights :math:`f_{min} \le w_k \le f_{max}` (1 in the paper) and
  :math:`0 < \eta f_{max} < 2`;
* *free length*: :math:`y_k \cdot a \le \beta \|a\|`, where the learning rate only
  scales a;
* *fixed length*: the same, a brought back to length β after each update.

:math:`R` is the longest and :math:`r` the shortest pattern, :math:`\gamma_d` the best
directional margin, :math:`0 < \gamma_d \le r \le R`. The last two stop for every
β below :math:`\gamma_d`, and then have a margin above β; from there on nothing is
guaranteed: bounds on updates are infinite. All formulas take and return single numbers;
equation numbers are those of the paper.

References
----------
P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, section 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from scipy.optimize import brentq

from widemargin._core.checks import check_number, check_option


@dataclass(frozen=True)
class PerceptronBounds:
    """What is known beforehand about a run of a perceptron variant.

    Attributes
    ----------
    updates : float
        The run makes at most this many updates; inf if no bound is known.
    margin : float
        Directional margin the result is guaranteed to exceed, once the run stops.
    norm : float or None
        Longest the weight vector can become.
    onset : float or None
        Number of updates after which every further one turns the weight vector towards
        the best direction.
    rate : float or None
        The learning rate the bounds are for, where it matters.
    critical_rate : float or None
        Learning rate below which every update helps.
    optimal_rate : float or None
        Learning rate that makes `updates` nearly smallest.
    """

    updates: float
    margin: float
    norm: float | None = None
    onset: float | None = None
    rate: float | None = None
    critical_rate: float | None = None
    optimal_rate: float | None = None


def perceptron_bounds(
    variant: str,
    *,
    R: float,
    r: float,
    gamma_d: float,
    b: float | None = None,
    b_u: float | None = None,
    margin: float | None = None,
    learning_rate: float | None = None,
    f_min: float | None = None,
    f_max: float | None = None,
) -> PerceptronBounds:
    """Collect the bounds that hold for a perceptron with margin.

    Parameters
    ----------
    variant : {"standard", "relaxation", "free_length", "fixed_length"}
        The algorithm: condition y·a ≤ b with bounded or with relaxation updates, or
        condition y·a ≤ β‖a‖ with a weight vector of free or of fixed length.
    R, r : float
        Length of the longest and of the shortest augmented pattern, 0 < r ≤ R.
    gamma_d : float
        Best directional margin of the patterns, 0 < gamma_d ≤ r. An upper estimate of
        it gives optimistic bounds.
    b : float, optional
        Margin of the condition, for "standard" and "relaxation"; > 0.
    b_u : float, optional
        Target of an update, for "relaxation"; > b.
    margin : float, optional
        Directional margin β asked for, for "free_length" and "fixed_length"; > 0. From
        gamma_d on no bound exists, and `updates` is infinite.
    learning_rate : float, optional
        1 unless given; below 2 for "relaxation". For "fixed_length"
        the paper's nearly optimal one unless given; "free_length" has none.
    f_min, f_max : float, optional
        Range of the update factor, 0 < f_min ≤ f_max, 1 unless given; of the weights
        for "relaxation". For the factor of (2.32), which depends on the margin, see
        :func:`widemargin.margins.perceptrons.projected_factor_range`.

    Returns
    -------
    bounds : PerceptronBounds
        What applies to the variant; None for the rest.

    Examples
    --------
    >>> from widemargin.margins import perceptron_bounds
    >>> bounds = perceptron_bounds("standard", R=2.0, r=1.0, gamma_d=0.5, b=2.0)
    >>> bounds.updates, bounds.margin
    (32.0, 0.125)
    >>> lengths = {"R": 2.0, "r": 1.0, "gamma_d": 1.0}
    >>> bounds = perceptron_bounds("fixed_length", margin=0.5, **lengths)
    >>> round(bounds.updates, 1), bounds.margin
    (54.0, 0.5)
    """
    check_option("variant", variant, _VARIANTS)
    _check_geometry(R, r, gamma_d)
    given = {
        "b": b, "b_u": b_u, "margin": margin, "learning_rate": learning_rate,
        "f_min": f_min, "f_max": f_max,
    }  # fmt: skip
    p = _check_parameters(variant, given)
    try:
        found = _VARIANTS[variant].collect(R, r, gamma_d, p)
        if "b" in p and not math.isfinite(found.updates + (found.norm or 0)):
            raise OverflowError  # of a product: those do not raise it themselves
        return found
    except (ZeroDivisionError, OverflowError) as error:
        raise ValueError(
            f"gamma_d={gamma_d:g} is so far from R={R:g} that the bounds are no "
            f"numbers, with {', '.join(f'{k}={v:g}' for k, v in p.items())}."
        ) from error


def _standard(R: float, r: float, gamma_d: float, p: dict) -> PerceptronBounds:
    return PerceptronBounds(
        updates=standard_updates(R, gamma_d, **p),
        margin=standard_margin(R, gamma_d, **p),
        norm=standard_norm(R, gamma_d, **p),
        onset=standard_onset(R, gamma_d, **p),
        rate=p["learning_rate"],
    )


def _relaxation(R: float, r: float, gamma_d: float, p: dict) -> PerceptronBounds:
    updates = relaxation_updates(R, r, gamma_d, **p)
    rates = {"learning_rate": p["learning_rate"], "f_max": p["f_max"]}
    return PerceptronBounds(
        updates=updates,
        margin=relaxation_margin(R, r, gamma_d, **p),
        norm=relaxation_norm(r, p["b_u"], updates, **rates),
        rate=p["learning_rate"],
    )


def _free_length(R: float, r: float, gamma_d: float, p: dict) -> PerceptronBounds:
    return PerceptronBounds(
        updates=min(
            free_length_updates(R, gamma_d, **p),
            free_length_updates_simple(R, gamma_d, **p),
        ),
        margin=p["margin"],
        onset=free_length_onset(R, gamma_d, **p),
    )


def _fixed_length(R: float, r: float, gamma_d: float, p: dict) -> PerceptronBounds:
    margin, f_min, f_max = p["margin"], p["f_min"], p["f_max"]
    optimal = fixed_length_optimal_rate(R, gamma_d, margin, f_max=f_max)
    rate = p.get("learning_rate", optimal)
    return PerceptronBounds(
        updates=fixed_length_updates(
            R, gamma_d, margin, rate, f_min=f_min, f_max=f_max
        ),
        margin=margin,
        norm=margin,
        rate=rate,
        critical_rate=fixed_length_critical_rate(R, gamma_d, margin, f_max=f_max),
        optimal_rate=optimal,
    )


class _Variant(NamedTuple):
    """The parameters that a variant needs, those it has as well, and its bounds."""

    needed: tuple[str, ...]
    defaults: dict[str, float]
    optional: tuple[str, ...]
    collect: Callable[[float, float, float, dict], PerceptronBounds]


_FACTORS = {"f_min": 1.0, "f_max": 1.0}
_RATE = {"learning_rate": 1.0}
_VARIANTS = {
    "standard": _Variant(("b",), _RATE | _FACTORS, (), _standard),
    "relaxation": _Variant(("b", "b_u"), _RATE | _FACTORS, (), _relaxation),
    "free_length": _Variant(("margin",), _FACTORS, (), _free_length),
    # The rate of the fixed length has no default of its own: the best one is taken.
    "fixed_length": _Variant(("margin",), _FACTORS, ("learning_rate",), _fixed_length),
}


def _check_geometry(R: float, r: float, gamma_d: float) -> None:
    for name, value in (("R", R), ("r", r), ("gamma_d", gamma_d)):
        check_number(name, value, above=0)
    # gamma_d comes out of a solver, and equals r for a single direction.
    if not gamma_d * (1 - 1e-9) <= r <= R:
        raise ValueError(
            f"The longest pattern R, the shortest r and the best directional margin "
            f"must satisfy 0 < gamma_d <= r <= R; got R={R}, r={r}, gamma_d={gamma_d}."
        )


def _check_parameters(variant: str, given: dict[str, float | None]) -> dict[str, float]:
    needed, defaults, others, _ = _VARIANTS[variant]
    optional = (*others, *defaults)
    missing = [name for name in needed if given[name] is None]
    foreign = [
        name
        for name, value in given.items()
        if value is not None and name not in needed + optional
    ]
    if missing or foreign:
        raise ValueError(
            f"variant={variant!r} needs {', '.join(needed)} and may have "
            f"{', '.join(optional)}; missing: {missing}, not its own: {foreign}."
        )
    p = defaults | {
        name: check_number(name, value, above=0)
        for name, value in given.items()
        if value is not None
    }
    if variant == "relaxation" and not (
        p["b_u"] > p["b"] and p["learning_rate"] * p["f_max"] < 2
    ):
        raise ValueError(
            "variant='relaxation' needs b_u > b and 0 < learning_rate * f_max < 2; got "
            f"b={p['b']}, b_u={p['b_u']}, learning_rate={p['learning_rate']}."
        )
    if p["f_min"] > p["f_max"]:
        raise ValueError(
            f"f_min must not exceed f_max; got {p['f_min']} > {p['f_max']}."
        )
    return p


def standard_updates(
    R, gamma_d, b, *, learning_rate=1.0, f_min=1.0, f_max=1.0
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
    return (ratio**2 * R**2 + 2 * ratio * b / (learning_rate * f_min)) / gamma_d**2


def standard_onset(R, gamma_d, b, *, learning_rate=1.0, f_min=1.0, f_max=1.0) -> float:
    r"""Onset, in updates: after it each one improves the direction of a (2.18).

    .. math:: t_c = \frac12 \frac{f_{max}}{f_{min}} \frac{R^2 - \gamma_d^2}{\gamma_d^2}
        + \frac{b}{\eta f_{min} \gamma_d^2}

    Examples
    --------
    >>> standard_onset(R=2.0, gamma_d=0.5, b=1.0)
    11.5
    """
    spread = max(R**2 - gamma_d**2, 0.0)
    return (f_max / f_min * spread / 2 + b / (learning_rate * f_min)) / gamma_d**2


def standard_norm(R, gamma_d, b, *, learning_rate=1.0, f_min=1.0, f_max=1.0) -> float:
    r"""Longest a can become (2.20), in the form that is right for every f.

    .. math:: \|a\| \le \frac{f_{max}}{f_{min}}
        \frac{\eta f_{max} R^2 + 2 b}{\gamma_d}

    The paper prints the case f = 1.

    Examples
    --------
    >>> standard_norm(R=2.0, gamma_d=0.5, b=1.0)
    12.0
    """
    return f_max / f_min * (learning_rate * f_max * R**2 + 2 * b) / gamma_d


def standard_margin(R, gamma_d, b, *, learning_rate=1.0, f_min=1.0, f_max=1.0) -> float:
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
    return f_min / f_max * gamma_d / (2 + learning_rate * f_max * R**2 / b)


def relaxation_updates(
    R, r, gamma_d, b, b_u, *, learning_rate=1.0, f_min=1.0, f_max=1.0
) -> float:
    r"""Most updates of the relaxation algorithm (2.29).

    .. math:: t \le \frac{f_{max} / f_{min}^2}{\eta (2 - \eta f_{max})}
        \left(\frac{R^2}{b_u - b}\right)^2 \frac{b_u^2}{r^2 \gamma_d^2}

    The paper prints weights of one.

    Examples
    --------
    >>> relaxation_updates(R=2.0, r=1.0, gamma_d=0.5, b=1.0, b_u=2.0)
    256.0
    """
    root = R**2 * b_u / ((b_u - b) * r * gamma_d)
    return root**2 * f_max / f_min**2 / (learning_rate * (2 - learning_rate * f_max))


def relaxation_norm(r, b_u, t, *, learning_rate=1.0, f_max=1.0) -> float:
    r"""Longest a can be after t updates of the relaxation algorithm (2.28).

    .. math:: \|a_t\| \le \frac{b_u}{r}
        \sqrt{\frac{\eta f_{max} t}{2 - \eta f_{max}}}

    Examples
    --------
    >>> relaxation_norm(r=1.0, b_u=2.0, t=9)
    6.0
    """
    rate = learning_rate * f_max
    return b_u / r * math.sqrt(rate * t / (2 - rate))


def relaxation_margin(
    R, r, gamma_d, b, b_u, *, learning_rate=1.0, f_min=1.0, f_max=1.0
) -> float:
    r"""Directional margin guaranteed by the relaxation algorithm.

    .. math:: \frac{b\,(2 - \eta)(b_u - b)\,r^2 \gamma_d}{b_u^2 R^2}

    for equal weights: this is b over (2.28) at the last update of (2.29). Best at
    :math:`b = b_u/2`, where it is :math:`(2 - \eta)(r/R)^2 \gamma_d / 4`.

    Examples
    --------
    >>> relaxation_margin(R=2.0, r=1.0, gamma_d=0.5, b=1.0, b_u=2.0)
    0.03125
    """
    weights = {"learning_rate": learning_rate, "f_max": f_max}
    t = relaxation_updates(R, r, gamma_d, b, b_u, f_min=f_min, **weights)
    return b / relaxation_norm(r, b_u, t, **weights)


def projected_factor_range(r, margin) -> tuple[float, float]:
    r"""Range of the factor :math:`f = 1 - \beta (u \cdot y) / \|y\|^2` of (2.32).

    .. math:: f_{min} = 1 - \beta^2 / r^2, \qquad f_{max} = 1 + \beta / r

    Examples
    --------
    >>> projected_factor_range(r=4.0, margin=1.0)
    (0.9375, 1.25)
    """
    return 1 - (margin / r) ** 2, 1 + margin / r


def free_length_onset(R, gamma_d, margin, *, f_min=1.0, f_max=1.0) -> float:
    r"""Onset, in updates: after it each one improves the direction of a (2.35).

    .. math:: t_c = \frac12 \frac{f_{max}}{f_{min}}
        \frac{R^2 - \gamma_d^2}{\gamma_d (\gamma_d - \beta)}

    Examples
    --------
    >>> free_length_onset(R=2.0, gamma_d=1.0, margin=0.5)
    3.0
    """
    if margin >= gamma_d:
        return math.inf
    spread = max(R**2 - gamma_d**2, 0.0)
    return f_max / f_min * spread / (2 * gamma_d * (gamma_d - margin))


def free_length_updates_simple(R, gamma_d, margin, *, f_min=1.0, f_max=1.0) -> float:
    r"""Most updates with free length, the simpler bound (2.45).

    The largest t ≥ 2 with

    .. math:: \frac{t - 1}{3 + 2 \ln(t - 1)} \le \frac{K}{4}, \qquad
        K = \frac{(f_{max} R / (f_{min} \gamma_d))^2}
        {1 - f_{max} \beta / (f_{min} \gamma_d)},

    or 1 if there is none; infinite where K is not positive.

    Examples
    --------
    >>> round(free_length_updates_simple(R=2.0, gamma_d=1.0, margin=0.5), 3)
    18.434
    """
    K = _growth(R, gamma_d, margin, f_max / f_min)
    return _largest(lambda t: (t - 1) / (3 + 2 * math.log(t - 1)), K / 4, 2)


def free_length_updates(R, gamma_d, margin, *, f_min=1.0, f_max=1.0) -> float:
    r"""Most updates with free length, the sharper bound (2.46) to (2.48).

    The largest t ≥ N + 1 with

    .. math:: \frac{t - N}{1 + 1/N + \ln((t - 1)/N)} \le \frac{K}{2}, \qquad
        N = \left[\frac12 \frac{f_{max}}{f_{min}} \frac{R}{\gamma_d}
        \frac{1}{1 - \beta/R}\right],

    or N if there is none, with K as in :func:`free_length_updates_simple`. The
    inequality holds for N = 1 too, which replaces N = 0.

    Examples
    --------
    >>> round(free_length_updates(R=9.0, gamma_d=1.0, margin=0.5), 1)
    495.4
    >>> round(free_length_updates_simple(R=9.0, gamma_d=1.0, margin=0.5), 1)
    646.6
    """
    ratio = f_max / f_min
    K = _growth(R, gamma_d, margin, ratio)
    if math.isinf(K):
        return math.inf
    N = max(1, math.floor(ratio * R / gamma_d / (2 * (1 - margin / R))))
    return _largest(
        lambda t: (t - N) / (1 + 1 / N + math.log((t - 1) / N)), K / 2, N + 1
    )


def free_length_norm(R, gamma_d, margin, t, N=1, *, f_min=1.0, f_max=1.0) -> float:
    r"""Longest a can be after t ≥ N + 1 updates with free length and η = 1 (2.42).

    .. math:: \|a_t\| \le f_{max} \left\{R N + \beta (t - N) + \frac12
        \frac{f_{max}}{f_{min}} \frac{R^2}{\gamma_d}
        \left(\ln \frac{t - 1}{N} + \frac1N\right)\right\}

    It holds for every N ≥ 1.

    Examples
    --------
    >>> round(free_length_norm(R=2.0, gamma_d=1.0, margin=0.5, t=10, N=3), 3)
    12.364
    """
    _check_steps(t, N)
    growth = f_max / f_min * R**2 / gamma_d * (math.log((t - 1) / N) + 1 / N) / 2
    return f_max * (R * N + margin * (t - N) + growth)


def free_length_updates_general(
    R, gamma_d, margin, N=1, *, f_min=1.0, f_max=1.0
) -> float:
    r"""Most updates with free length, for any N (2.43).

    The largest t ≥ N + 1 with

    .. math:: \frac{t - N}{N q (1 - q) + \frac{1}{2N} + \ln\sqrt{(t - 1)/N}} \le K,
        \qquad q = \frac{f_{min} \gamma_d}{f_{max} R},

    or N if there is none, with K as in :func:`free_length_updates_simple`, which is
    N = 1 with q (1 - q) replaced by its largest value 1/4.

    Examples
    --------
    >>> round(free_length_updates_general(R=2.0, gamma_d=1.0, margin=0.5), 3)
    18.434
    >>> round(free_length_updates_general(R=9.0, gamma_d=1.0, margin=0.5, N=4), 1)
    475.0
    """
    _check_steps(N + 1, N)
    K = _growth(R, gamma_d, margin, f_max / f_min)
    if math.isinf(K):
        return math.inf
    q = f_min * gamma_d / (f_max * R)
    flat = N * q * (1 - q) + 1 / (2 * N)
    return _largest(lambda t: (t - N) / (flat + math.log((t - 1) / N) / 2), K, N + 1)


def _check_steps(t: float, N: int) -> None:
    if not (N >= 1 and t >= N + 1):
        raise ValueError(f"t must be at least N + 1 and N at least 1; got {t}, {N}.")


def margin_ratio_bound(R, rho) -> float:
    r"""How far the best geometric margin can exceed the best directional one (2.67).

    .. math:: 1 \le \frac{\gamma}{\gamma_d} \le \frac{R}{\rho}

    `R` is the longest pattern at height `rho`, its height included; both classes must
    be present.

    Examples
    --------
    >>> margin_ratio_bound(R=5.0, rho=4.0)
    1.25
    """
    check_number("rho", rho, above=0)
    return check_number("R", R, at_least=rho) / rho


def fixed_length_critical_rate(R, gamma_d, margin, *, f_max=1.0) -> float:
    r"""Learning rate below which every update improves the direction (2.51).

    .. math:: \eta_c = \frac{2}{f_{max}}
        \frac{(\gamma_d - \beta)\,\beta}{R^2 - \gamma_d^2}

    Examples
    --------
    >>> round(fixed_length_critical_rate(R=2.0, gamma_d=1.0, margin=0.5), 4)
    0.1667
    """
    spread = R**2 - gamma_d**2
    gain = max(gamma_d - margin, 0.0) * margin
    return 2 / f_max * gain / spread if spread > 0 else math.inf


def fixed_length_updates(
    R, gamma_d, margin, learning_rate, *, f_min=1.0, f_max=1.0
) -> float:
    r"""Most updates with fixed length and learning rate η (2.56).

    .. math:: t < \frac{f_{max}}{f_{min}}
        \left(g z - \frac{h z^2}{2} - \frac{z^3}{2}\right)^{-1}, \quad
        z = \frac{\eta f_{max} R}{\beta},\; g = \frac{\gamma_d - \beta}{R},\;
        h = 1 + \frac{2\beta}{R}

    Infinite where the bracket is not positive: η is too large for a guarantee.

    Examples
    --------
    >>> round(fixed_length_updates(2.0, 1.0, margin=0.5, learning_rate=0.04), 2)
    53.33
    """
    g, h = _gap(R, gamma_d, margin)
    z = learning_rate * f_max * R / margin
    progress = g * z - h * z**2 / 2 - z**3 / 2
    return f_max / f_min / progress if progress > 0 else math.inf


def fixed_length_optimal_rate(R, gamma_d, margin, *, f_max=1.0, exact=False) -> float:
    r"""Learning rate that makes the bound of (2.56) smallest.

    .. math:: \eta_{opt} = \frac{(\gamma_d - \beta)\,\beta}{f_{max} R^2 h}

    is the paper's approximation (2.57), always below half the critical rate; with
    ``exact`` the minimiser :math:`z = (\sqrt{h^2 + 6 g} - h) / 3` itself.

    Examples
    --------
    >>> round(fixed_length_optimal_rate(R=2.0, gamma_d=1.0, margin=0.5), 4)
    0.0417
    """
    g, h = _gap(R, gamma_d, margin)
    # The conjugate form of the root, which does not cancel for small g.
    z = 2 * g / (h + math.sqrt(h * h + 6 * g)) if exact else g / h
    return z * margin / (f_max * R)


def fixed_length_optimal_updates(R, gamma_d, margin, *, f_min=1.0, f_max=1.0) -> float:
    r"""Most updates with fixed length at the learning rate of (2.57), (2.58).

    .. math:: t < 2 \frac{f_{max}}{f_{min}} \frac{h}{g^2}
        \left(1 - \frac{g}{h^2}\right)^{-1}

    Examples
    --------
    >>> round(fixed_length_optimal_updates(R=2.0, gamma_d=1.0, margin=0.5), 2)
    54.0
    """
    g, h = _gap(R, gamma_d, margin)
    if g == 0:
        return math.inf
    return 2 * f_max / f_min * h / g**2 / (1 - g / h**2)


def _gap(R: float, gamma_d: float, margin: float) -> tuple[float, float]:
    return max(gamma_d - margin, 0.0) / R, 1 + 2 * margin / R


def _growth(R: float, gamma_d: float, margin: float, ratio: float) -> float:
    slack = 1 - ratio * margin / gamma_d
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
