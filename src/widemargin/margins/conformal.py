r"""Conformal p-values: how ordinary a sample is among those of a class.

Let s_1..s_n be scores of samples of one class, larger for more unusual ones, that the
scoring function was not fitted to, and s that of a new sample. The p-value is

.. math:: p = \frac{1 + \#\{i : s_i \ge s\}}{n + 1}.

If the new sample is of that class and exchangeable with the n others, the rank of s
among the n + 1 scores is uniform where scores are never equal, and equal scores only
raise p. So P(p <= alpha) <= alpha for every alpha, any distribution and any score.

Folds use every sample for both: s_i comes from a model without the fold of i, and is
compared with the score that the same model gives to the new sample. With m_k samples in
fold k, each p_k = (1 + #_k) / (m_k + 1) is a p-value as above, and with K folds

.. math:: (n + 1)\, p + K - 1 = \sum_k (m_k + 1)\, p_k.

A weighted mean of p-values is at most t with probability 2t at most, however they
depend on each other. Hence P(p <= alpha) <= 2 (alpha (n + 1) + K - 1) / (n + K). With
one sample per fold and a learner that does not mind the order of its samples,
P(p <= alpha) <= 2 alpha.

References: V. Vovk, A. Gammerman, G. Shafer, Algorithmic learning in a random world,
2005; V. Vovk, R. Wang, Combining p-values via averaging, 2020; R. Barber, E. Candès, A.
Ramdas, R. Tibshirani, Predictive inference with the jackknife+, 2021. Shapes:
calibration (n,), scores any, p-values that of the scores.
"""

import sys
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import (
    FloatArray,
    as_float_vector,
    as_floats,
    check_count,
    check_number,
)
from widemargin.margins.rejection import tie_width


def conformal_p_values(calibration: ArrayLike, scores: ArrayLike) -> FloatArray:
    """Return conformal p-values of scores, from those of a calibration set.

    Parameters
    ----------
    calibration : array-like of shape (n,)
        Scores of samples that the scoring function was not fitted to, larger for
        more unusual ones; infinite ones are welcome.
    scores : array-like
        Scores of new samples, of any shape.

    Returns
    -------
    ndarray
        P-values in the shape of `scores`, between 1 / (n + 1) and 1. Of a sample that
        is exchangeable with those of the calibration set P(p <= alpha) <= alpha.

    Notes
    -----
    Scores that differ by rounding count as equal: by 2⁻³⁰ of their 90 % quantile
    (float32: 2⁻¹⁴). Equal scores count as large as that of the new sample. Both only
    raise p.

    Examples
    --------
    >>> from widemargin.margins import conformal_p_values
    >>> conformal_p_values([1.0, 2.0, 2.0, 3.0], [0.5, 2.0, 9.0])
    array([1. , 0.8, 0.2])
    """
    known = as_float_vector("calibration", calibration)
    asked = as_floats("scores", scores)
    counts = count_as_strange(np.sort(known), asked, rounding_of(known))
    return (1 + counts) / (len(known) + 1)


def rounding_of(calibration: FloatArray) -> float:
    """Return by how much equal scores may differ."""
    finite = calibration[np.isfinite(calibration)]
    return tie_width(finite) if len(finite) else 0.0


def count_as_strange(ordered: NDArray, scores: NDArray, width: float) -> NDArray:
    """Count the sorted scores that are at least as large, but for rounding.

    >>> count_as_strange(np.array([1.0, 2.0, 2.0]), np.array([2.0]), 0.0)
    array([2])
    """
    asked, last = scores.ravel(), ordered[-1:].max(initial=-np.inf)
    counts = np.zeros(len(asked), np.intp)
    # To most classes a sample is stranger than all of theirs, and need not be placed.
    known = np.flatnonzero(asked <= np.float64(last) + 2 * width)
    # In float64: beside float32 what is taken off would be rounded away.
    least = asked[known].astype(np.float64) - width
    places = np.searchsorted(ordered.astype(np.float64), least, "left")
    counts[known] = len(ordered) - places
    return counts.reshape(scores.shape)


def smallest_alpha(n_samples: int) -> float:
    """Smallest level that a p-value from so many calibration samples can reach.

    Parameters
    ----------
    n_samples : int
        Calibration samples of a class.

    Returns
    -------
    alpha : float
        1 / (n_samples + 1), the p-value of a sample that exceeds all of them.

    Examples
    --------
    >>> from widemargin.margins import smallest_alpha
    >>> smallest_alpha(19)
    0.05
    """
    return 1 / (check_count("n_samples", n_samples) + 1)


def samples_for_alpha(alpha: float) -> int:
    """Fewest calibration samples whose p-values can reach a level.

    Parameters
    ----------
    alpha : float
        The level, in (0, 1).

    Returns
    -------
    n_samples : int
        The smallest n with 1 / (n + 1) <= alpha.

    Examples
    --------
    >>> from widemargin.margins import samples_for_alpha
    >>> samples_for_alpha(0.05)
    19
    """
    alpha = check_number("alpha", alpha, above=0, below=1)
    # The inverse of the smallest floats is infinite.
    return max(1, ceil(min(1 / alpha - 1 - 1e-9, float(sys.maxsize))))


def cross_conformal_level(alpha: float, n_samples: int, n_folds: int) -> float:
    """Bound the probability of a p-value of at most `alpha` from folds.

    Parameters
    ----------
    alpha : float
        The level, in (0, 1).
    n_samples : int
        Samples of the class, in all folds together.
    n_folds : int
        Folds that hold some of them; `n_samples` is leave-one-out.

    Returns
    -------
    level : float
        Upper bound of P(p <= alpha) for a new sample of the class. For any learner and
        folds of any sizes it is 2 (alpha (n + 1) + K - 1) / (n + K). It is 2 alpha with
        leave-one-out, if the learner ignores the order of the samples.

    Examples
    --------
    >>> from widemargin.margins import cross_conformal_level
    >>> print(f"{cross_conformal_level(0.05, 200, 2):.3f}")
    0.109
    >>> cross_conformal_level(0.05, 30, 30)
    0.1
    """
    alpha = check_number("alpha", alpha, above=0, below=1)
    n, k = check_count("n_samples", n_samples), check_count("n_folds", n_folds)
    if k > n:
        raise ValueError(f"n_folds={k} must be at most n_samples={n}.")
    any_learner = 2 * (alpha * (n + 1) + k - 1) / (n + k)
    return min(1.0, 2 * alpha if k == n else any_learner)
