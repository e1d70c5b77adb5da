"""Bounds of perceptron-like large-margin algorithms, collected by variant.

How many updates an algorithm can make, how long its weight vector can become, what
directional margin it guarantees and when every update begins to help: the formulas
are one function each in :mod:`widemargin.margins.perceptron_standard` (condition
y·a ≤ b) and :mod:`widemargin.margins.perceptron_fixed` (condition y·a ≤ β‖a‖); here
those that apply to a variant are put together, after a check of the arguments.

References
----------
P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, section 2.
"""

from dataclasses import dataclass

from widemargin.margins import perceptron_fixed as fixed
from widemargin.margins import perceptron_standard as standard
from widemargin.margins.checks import check_finite, check_option

__all__ = ["PerceptronBounds", "perceptron_bounds"]

# Per variant: the parameters it needs, then those it has with their defaults.
_NEEDED = {
    "standard": ("b",),
    "relaxation": ("b", "b_u"),
    "free_length": ("beta",),
    "fixed_length": ("beta",),
}
_OPTIONAL = {
    "standard": ("eta", "f_min", "f_max"),
    "relaxation": ("eta",),
    "free_length": ("f_min", "f_max"),
    "fixed_length": ("eta", "f_min", "f_max"),
}


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
    beta: float | None = None,
    eta: float | None = None,
    f_min: float | None = None,
    f_max: float | None = None,
) -> PerceptronBounds:
    """Collect the bounds that hold for a perceptron with margin.

    Parameters
    ----------
    variant : {"standard", "relaxation", "free_length", "fixed_length"}
        The algorithm: condition y·a ≤ b with bounded or with relaxation updates, or
        condition y·a ≤ beta‖a‖ with a weight vector of free or of fixed length.
    R, r : float
        Length of the longest and of the shortest augmented pattern, 0 < r ≤ R.
    gamma_d : float
        Best directional margin of the patterns, 0 < gamma_d ≤ r. An upper estimate of
        it gives optimistic bounds.
    b : float, optional
        Margin of the condition, for "standard" and "relaxation"; > 0.
    b_u : float, optional
        Target of an update, for "relaxation"; > b.
    beta : float, optional
        Directional margin asked for, for "free_length" and "fixed_length"; > 0. From
        gamma_d on no bound exists, and `updates` is infinite.
    eta : float, optional
        Learning rate, 1 unless given; below 2 for "relaxation". For "fixed_length"
        the paper's nearly optimal one unless given; "free_length" has none.
    f_min, f_max : float, optional
        Range of the update factor, 0 < f_min ≤ f_max, 1 unless given; "relaxation"
        has its own. For the factor of (2.32), which depends on beta, see
        :func:`widemargin.margins.perceptron_fixed.projected_factor_range`.

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
    >>> bounds = perceptron_bounds("fixed_length", R=2.0, r=1.0, gamma_d=1.0, beta=0.5)
    >>> round(bounds.updates, 1), bounds.margin
    (54.0, 0.5)
    """
    check_option(variant, "variant", _NEEDED)
    _check_geometry(R, r, gamma_d)
    given = {
        "b": b, "b_u": b_u, "beta": beta, "eta": eta, "f_min": f_min, "f_max": f_max,
    }  # fmt: skip
    p = _check_parameters(variant, given)
    if variant == "standard":
        return PerceptronBounds(
            updates=standard.standard_updates(R, gamma_d, **p),
            margin=standard.standard_margin(R, gamma_d, **p),
            norm=standard.standard_norm(R, gamma_d, **p),
            onset=standard.standard_onset(R, gamma_d, **p),
            rate=p["eta"],
        )
    if variant == "relaxation":
        updates = standard.relaxation_updates(R, r, gamma_d, **p)
        return PerceptronBounds(
            updates=updates,
            margin=standard.relaxation_margin(R, r, gamma_d, **p),
            norm=standard.relaxation_norm(r, p["b_u"], updates, eta=p["eta"]),
            rate=p["eta"],
        )
    if variant == "free_length":
        return PerceptronBounds(
            updates=min(
                fixed.free_length_updates(R, gamma_d, **p),
                fixed.free_length_updates_simple(R, gamma_d, **p),
            ),
            margin=p["beta"],
            onset=fixed.free_length_onset(R, gamma_d, **p),
        )
    return _fixed_length(R, gamma_d, p)


def _fixed_length(R: float, gamma_d: float, p: dict[str, float]) -> PerceptronBounds:
    beta, f_min, f_max = p["beta"], p["f_min"], p["f_max"]
    optimal = fixed.fixed_length_optimal_rate(R, gamma_d, beta, f_max=f_max)
    rate = p.get("eta", optimal)
    return PerceptronBounds(
        updates=fixed.fixed_length_updates(
            R, gamma_d, beta, rate, f_min=f_min, f_max=f_max
        ),
        margin=beta,
        norm=beta,
        rate=rate,
        critical_rate=fixed.fixed_length_critical_rate(R, gamma_d, beta, f_max=f_max),
        optimal_rate=optimal,
    )


def _check_geometry(R: float, r: float, gamma_d: float) -> None:
    for name, value in (("R", R), ("r", r), ("gamma_d", gamma_d)):
        check_finite(value, name, 0)
    # gamma_d comes out of a solver, and equals r for a single direction.
    if not gamma_d * (1 - 1e-9) <= r <= R:
        raise ValueError(
            f"The longest pattern R, the shortest r and the best directional margin "
            f"must satisfy 0 < gamma_d <= r <= R; got R={R}, r={r}, gamma_d={gamma_d}."
        )


def _check_parameters(variant: str, given: dict[str, float | None]) -> dict[str, float]:
    needed, optional = _NEEDED[variant], _OPTIONAL[variant]
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
    # The rate of the fixed-length variant has no default of its own here.
    p = {name: 1.0 for name in optional if (variant, name) != ("fixed_length", "eta")}
    p |= {
        name: check_finite(value, name, 0)
        for name, value in given.items()
        if value is not None
    }
    if variant == "relaxation" and not (p["b_u"] > p["b"] and p["eta"] < 2):
        raise ValueError(
            f"variant='relaxation' needs b_u > b and 0 < eta < 2; got b={p['b']}, "
            f"b_u={p['b_u']}, eta={p['eta']}."
        )
    if p.get("f_min", 1.0) > p.get("f_max", 1.0):
        raise ValueError(
            f"f_min must not exceed f_max; got {p['f_min']} > {p['f_max']}."
        )
    return p
