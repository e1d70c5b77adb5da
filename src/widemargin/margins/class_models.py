r"""How good class models are: sensitivity, specificity and efficiency, with intervals.

A class model accepts or refuses a sample, whatever other models say, as SIMCA's does.
Its sensitivity is the share of the samples of its class that it accepts, its
specificity the share of all others that it refuses, and its efficiency their geometric
mean.

Of k hits among n the exact interval of Clopper and Pearson has as its ends the p at
which so many hits or more, and so many or fewer, have the probability
:math:`(1 - \text{level}) / 2`:

.. math:: B^{-1}\bigl(\tfrac{1 - \text{level}}2;\ k,\ n - k + 1\bigr) \le p \le
          B^{-1}\bigl(\tfrac{1 + \text{level}}2;\ k + 1,\ n - k\bigr).

It holds p with probability `level` at least, at any n. That of an efficiency joins the
intervals of both shares, each at (1 + level) / 2.

References: C. Clopper, E. Pearson, The use of confidence or fiducial limits, 1934; A.
Pomerantsev, O. Rodionova, Concept and role of extreme objects in PCA/SIMCA, Journal of
Chemometrics 2014. Shapes: sets (n_samples, n_classes), rates (n_classes,).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv
from scipy.stats import betabinom

from widemargin._core.checks import (
    FloatArray,
    as_floats,
    check_count,
    check_number,
    naming,
)
from widemargin._core.decisions import are_alike, as_labels


class Rates(NamedTuple):
    """Shares and the ends of their intervals; nan where there was no sample."""

    value: FloatArray
    lower: FloatArray
    upper: FloatArray


class ClassModelRates(NamedTuple):
    """What class models accept and refuse, class by class."""

    classes: NDArray
    sensitivity: Rates
    specificity: Rates
    efficiency: Rates


def exact_interval(
    hits: ArrayLike, n_samples: ArrayLike, *, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Exact interval of a share, by Clopper and Pearson.

    Parameters
    ----------
    hits : array-like of int
        Samples that were hit.
    n_samples : array-like of int
        Samples that were asked, at least as many.
    level : float, default=0.95
        Probability with which the interval holds the share, at least.

    Returns
    -------
    lower, upper : ndarray
        Ends of the intervals; 0 and 1 of no samples.

    Examples
    --------
    >>> from widemargin.margins import exact_interval
    >>> lower, upper = exact_interval(95, 100)
    >>> print(f"{lower:.3f} to {upper:.3f}")
    0.887 to 0.984
    """
    with naming("hits and n_samples"):
        k, n = np.asarray(hits), np.asarray(n_samples)
    if k.shape != n.shape and 1 not in (k.size, n.size):
        raise ValueError(
            f"hits and n_samples must be of one shape; got {k.shape} and {n.shape}."
        )
    k, n = np.broadcast_arrays(k, n)
    whole = k.dtype.kind in "iu" and n.dtype.kind in "iu"
    if not whole or (k < 0).any() or (k > n).any():
        raise ValueError(
            "hits must be whole numbers between 0 and n_samples; got "
            f"{k.ravel()[:5].tolist()} of {n.ravel()[:5].tolist()}."
        )
    rest = (1 - check_number("level", level, above=0, below=1)) / 2
    lower = betaincinv(np.maximum(k, 1), n - k + 1, rest)
    upper = betaincinv(k + 1, np.maximum(n - k, 1), 1 - rest)
    return np.where(k == 0, 0.0, lower), np.where(k == n, 1.0, upper)


def class_model_rates(
    y_true: ArrayLike, sets: ArrayLike, classes: ArrayLike, *, level: float = 0.95
) -> ClassModelRates:
    """Sensitivity, specificity and efficiency of every class model.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels; those that are none of `classes` are outliers, which all should refuse.
    sets : array-like of bool of shape (n_samples, n_classes)
        Which classes accept each sample, as
        :meth:`widemargin.ConformalClassifier.predict_set` says.
    classes : array-like of shape (n_classes,)
        Labels of the columns.
    level : float, default=0.95
        Probability of each interval.

    Returns
    -------
    rates : ClassModelRates
        Named tuple ``(classes, sensitivity, specificity, efficiency)``, the last three
        with ``value``, ``lower`` and ``upper`` of shape (n_classes,).

    Notes
    -----
    Where alpha is the level of the class models, sensitivity is expected to be 1 -
    alpha or a little more. Specificity is what the data allow.

    Examples
    --------
    >>> from widemargin.margins import class_model_rates
    >>> sets = [[True, False], [True, False], [False, True], [True, True]]
    >>> rates = class_model_rates(["a", "a", "b", "b"], sets, ["a", "b"])
    >>> rates.sensitivity.value, rates.specificity.value
    (array([1., 1.]), array([0.5, 1. ]))
    >>> rates.efficiency.value.round(2)
    array([0.71, 1.  ])
    """
    truth, labels = as_labels("y_true", y_true), as_labels("classes", classes)
    accepted = np.asarray(sets)
    if accepted.dtype != bool or accepted.shape != (len(truth), len(labels)):
        raise ValueError(
            "sets must be one of True and False per sample and class, shape "
            f"({len(truth)}, {len(labels)}); got shape {accepted.shape} of "
            f"{accepted.dtype}."
        )
    if not are_alike(truth, labels):
        raise ValueError(
            f"y_true must hold labels like classes, which are {labels.dtype}; got "
            f"{truth.dtype}."
        )
    level = check_number("level", level, above=0, below=1)
    own = truth[:, None] == labels
    counts = (accepted & own).sum(axis=0), own.sum(axis=0)
    others = (~accepted & ~own).sum(axis=0), (~own).sum(axis=0)
    sensitivity, specificity = (_rates(*c, level) for c in (counts, others))
    wide = [_rates(*c, (1 + level) / 2) for c in (counts, others)]
    efficiency = Rates(
        np.sqrt(sensitivity.value * specificity.value),
        np.sqrt(wide[0].lower * wide[1].lower),
        np.sqrt(wide[0].upper * wide[1].upper),
    )
    return ClassModelRates(labels, sensitivity, specificity, efficiency)


def _rates(hits: NDArray, n: NDArray, level: float) -> Rates:
    lower, upper = exact_interval(hits, n, level=level)
    none = np.full(n.shape, np.nan)
    return Rates(np.divide(hits, n, out=none, where=n > 0), lower, upper)


def extremes_band(
    n_calibration: int, n_samples: int, alphas: ArrayLike, *, level: float = 0.95
) -> tuple[NDArray, NDArray]:
    """Numbers of new samples with a p-value of at most alpha that are ordinary.

    Parameters
    ----------
    n_calibration : int
        Calibration samples of the class.
    n_samples : int
        New samples of the class.
    alphas : array-like
        Levels, in (0, 1).
    level : float, default=0.95
        Probability of each interval, at least.

    Returns
    -------
    lower, upper : ndarray of int
        Quantiles of a beta-binomial distribution: given the calibration samples all new
        ones are refused with the same probability, which is itself a draw.

    Examples
    --------
    >>> from widemargin.margins import extremes_band
    >>> extremes_band(99, 100, [0.05, 0.5])
    (array([ 0, 36]), array([12, 64]))
    """
    rest = (1 - check_number("level", level, above=0, below=1)) / 2
    known = check_count("n_calibration", n_calibration)
    fresh = check_count("n_samples", n_samples)
    levels = as_floats("alphas", alphas).astype(float)
    if not ((levels > 0) & (levels < 1)).all():
        raise ValueError("alphas must be levels between 0 and 1, both excluded.")
    k = np.floor(levels * (known + 1) + 1e-9)
    ordinary = betabinom(fresh, np.maximum(k, 1), np.maximum(known + 1 - k, 1))
    lower, upper = ordinary.ppf(rest), ordinary.ppf(1 - rest)
    # No sample has a p-value below 1 / (n_calibration + 1).
    lower, upper = (np.where(k < 1, 0, end).astype(int) for end in (lower, upper))
    return lower, upper
