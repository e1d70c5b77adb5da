r"""Generalisation bound of nearest-prototype classifiers from their margins.

Theorem 1 of Crammer et al.: draw m samples with ‖x‖ ≤ R; then with probability 1 − δ,
for every set of k prototypes per class at once,

.. math:: \mathrm{err} \le \alpha_\theta
   + \sqrt{\tfrac{8}{m}\left(D \log^2 \tfrac{32 m}{\theta^2}
   + \log \tfrac{4}{\delta}\right)},
   \qquad 0 < \theta < \tfrac12,

where :math:`\alpha_\theta` is the fraction of samples with hypothesis margin below θ
and D a VC dimension, with :math:`V = \min(n + 1, 64 R^2/\theta^2)`:

* "printed", as in the paper: :math:`D = V \cdot 2 k^{|Y|} \log(e k^2)`;
* "pairwise": a boolean function of the M = Σ_{a<b} k_a k_b bisectors between prototypes
  of different classes, :math:`D = V \cdot 2 M \log(e M)`.

They agree for two classes. For more, the printed one grows exponentially with the
number of classes for k > 1 and does not depend on it for k = 1, while M is what the
classifier's boundary is made of. The paper does not name the base of its logarithms.

References
----------
K. Crammer, R. Gilad-Bachrach, A. Navot, N. Tishby, Margin analysis of the LVQ
algorithm, Theorem 1.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from widemargin._core.checks import (
    as_float_vector,
    as_matrix,
    check_count,
    check_number,
    check_option,
)


@dataclass(frozen=True)
class MarginBound:
    """A margin bound on the error and the terms it is made of.

    Attributes
    ----------
    value : float
        The bound itself, alpha + complexity; may exceed 1.
    vacuous : bool
        Whether the bound says nothing, value >= 1.
    samples_needed : int or float
        Smallest sample size at which the bound falls below 1 with the same alpha; inf
        if there is none (alpha = 1) or none below 1e300.
    alpha : float
        Fraction of the sample with margin below theta.
    complexity : float
        The square root.
    vc_dimension : float
        The factor D.
    n_samples : int
        Size m of the sample.
    """

    value: float
    vacuous: bool
    samples_needed: int | float
    alpha: float
    complexity: float
    vc_dimension: float
    n_samples: int


def prototype_displacement(prototypes: ArrayLike, others: ArrayLike) -> float:
    r"""Distance ρ(μ, μ̂) = max_i ‖μ_i − μ̂_i‖ between two sets of prototypes.

    The hypothesis margin is measured in this distance. Two sets of prototypes with the
    same labels, nearer to each other than the margin of a sample, give it the same
    label.

    Parameters
    ----------
    prototypes, others : array-like of shape (n_prototypes, n_features)
        The two sets, in the same order.

    Returns
    -------
    float
        The largest distance between paired prototypes.

    References
    ----------
    .. [1] K. Crammer et al., Margin analysis of the LVQ algorithm, section 3.

    Examples
    --------
    >>> from widemargin.margins import prototype_displacement
    >>> prototype_displacement([[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [4.0, 5.0]])
    5.0
    """
    one, other = as_matrix("prototypes", prototypes), as_matrix("others", others)
    if one.shape != other.shape:
        raise ValueError(
            "prototypes and others must have the same shape, a row for every pair; got "
            f"{one.shape} and {other.shape}."
        )
    return float(max(math.dist(p, q) for p, q in zip(one, other, strict=True)))


def lvq_margin_bound(
    margins: ArrayLike | None = None,
    *,
    theta: float,
    radius: float,
    n_features: float,
    prototypes_per_class: int | Sequence[int],
    n_classes: int | None = None,
    delta: float = 0.05,
    formula: str = "printed",
    log_base: float = 2.0,
    alpha: float | None = None,
    n_samples: int | None = None,
) -> MarginBound:
    """Bound the error of a nearest-prototype classifier by its hypothesis margins.

    Parameters
    ----------
    margins : array-like of shape (n_samples,), optional
        Hypothesis margins of the training sample. In their place, `alpha` and
        `n_samples` may be given.
    theta : float
        Margin below which a sample counts as a mistake; 0 < theta < 1/2. Fixed before
        the data are seen.
    radius : float
        Bound R on the length of the samples; > 0.
    n_features : int or inf
        Dimension of the space; inf in the space of a kernel.
    prototypes_per_class : int or sequence of int
        Number k of prototypes of every class, or one number for each. The printed
        formula knows equal numbers only and takes the largest.
    n_classes : int, optional
        Number of classes, at least 2; needed if `prototypes_per_class` is one number.
    delta : float, default=0.05
        Probability with which the bound may fail; 0 < delta < 1.
    formula : {"printed", "pairwise"}, default="printed"
        Reading of the VC dimension.
    log_base : float, default=2.0
        Base of every logarithm; > 1. Base 2 is the cautious reading, e the other.
    alpha : float, optional
        Fraction of the sample with margin below theta, in place of `margins`.
    n_samples : int, optional
        Size of the sample, in place of `margins`.

    Returns
    -------
    bound : MarginBound
        Value, vacuity, the sample size that would be needed, and the terms.

    Notes
    -----
    The constants are large and the bound is vacuous at most sample sizes met in
    practice, as in the example. Of use is rather how it ranks numbers of prototypes and
    margins.

    Examples
    --------
    >>> from widemargin.margins import lvq_margin_bound
    >>> bound = lvq_margin_bound(
    ...     [0.3, 0.1, 0.4, 0.5], theta=0.2, radius=1.0, n_features=2,
    ...     prototypes_per_class=1, n_classes=2)
    >>> bound.alpha, bound.vacuous, bound.samples_needed
    (0.25, True, 83241)
    """
    theta = check_number("theta", theta, above=0, below=0.5)
    radius = check_number("radius", radius, above=0)
    n_features = check_number("n_features", n_features, at_least=1, infinite=True)
    delta = check_number("delta", delta, above=0, below=1)
    log_base = check_number("log_base", log_base, above=1)
    check_option("formula", formula, ("printed", "pairwise"))
    counts = _prototype_counts(prototypes_per_class, n_classes)
    alpha, m = _theta_mistakes(margins, theta, alpha, n_samples)

    log_unit = math.log(log_base)
    ratio = radius / theta
    V = min(n_features + 1, 64 * ratio * ratio)
    D = V * _bisector_factor(counts, formula, log_unit)

    def complexity(m: int) -> float:
        log_m = (math.log(32) - 2 * math.log(theta) + math.log(m)) / log_unit
        return math.sqrt(8 / m * (D * log_m**2 + math.log(4 / delta) / log_unit))

    value = alpha + complexity(m)
    return MarginBound(
        value=value,
        vacuous=value >= 1,
        samples_needed=_first_below(lambda m: alpha + complexity(m)),
        alpha=alpha,
        complexity=complexity(m),
        vc_dimension=D,
        n_samples=m,
    )


def _bisector_factor(counts: list[int], formula: str, log_unit: float) -> float:
    if formula == "pairwise":
        M = (sum(counts) ** 2 - sum(k * k for k in counts)) // 2
        return 2 * M * (1 + math.log(M)) / log_unit
    k = max(counts)
    try:
        return 2 * math.pow(k, len(counts)) * (1 + 2 * math.log(k)) / log_unit
    except OverflowError:
        return math.inf


def _prototype_counts(
    per_class: int | Sequence[int], n_classes: int | None
) -> list[int]:
    name = "prototypes_per_class"
    if np.ndim(per_class) == 0:
        if n_classes is None:
            raise ValueError(
                f"n_classes is needed with {name}={per_class!r}, one number for all."
            )
        return [check_count(name, per_class)] * check_count(
            "n_classes", n_classes, low=2
        )
    counts = [check_count(name, k) for k in np.asarray(per_class).ravel()]
    if len(counts) < 2 or n_classes not in (None, len(counts)):
        raise ValueError(
            f"{name} must be one number, or one for each of the n_classes >= 2 "
            f"classes; got {len(counts)} numbers and n_classes={n_classes}."
        )
    return counts


def _theta_mistakes(
    margins: ArrayLike | None, theta: float, alpha: float | None, n_samples: int | None
) -> tuple[float, int]:
    if margins is not None:
        if alpha is not None or n_samples is not None:
            raise ValueError("Give either margins, or alpha and n_samples; not both.")
        sample = as_float_vector("margins", margins)
        return float(np.mean(sample < theta)), sample.size
    if alpha is None or n_samples is None:
        raise ValueError("Give the margins of the sample, or both alpha and n_samples.")
    alpha = check_number("alpha", alpha, at_least=0, at_most=1)
    return alpha, check_count("n_samples", n_samples, bits=62)


def _first_below(bound: Callable[[int], float]) -> int | float:
    # The bound falls with m for every m >= 1, because log²(c m)/m does where c m > e²
    # and here c = 32/θ² > 128: doubling brackets the crossing, halving finds it.
    low, high = 0, 1
    while bound(high) >= 1:
        low, high = high, 2 * high
        if high > 1e300:
            return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        if bound(middle) < 1:
            high = middle
        else:
            low = middle
    return high
