r"""Re-weighting by θ-margin: samples whose margin is too small come more often.

Of the hypothesis of round t, the θ-mistakes are the samples with margin below θ. Each
gets k(t) further copies, an un-normalised weight w with the distribution
:math:`\gamma_i = w_i / W`, :math:`W = \sum_j w_j`:

.. math:: w_i(t + 1) = w_i(t) + k(t)\,[\mu_i(t) < \theta],
   \qquad w_i(1) = 1.

One step moves γ towards the uniform distribution on the mistakes :math:`S_M`,

.. math:: \Delta\gamma_i = \frac{\Delta W}{W(t+1)}
   \left(\frac{[\mu_i < \theta]}{|S_M|} - \gamma_i\right),
   \qquad \Delta W = k\,|S_M|,

and k = N/|S_M| makes γ the running mean of these uniform distributions. If the set of
mistakes settles and Σ k(t) diverges, γ becomes uniform on it: a learner that maximises
Σ γ_i μ_i then minimises the hinge at θ.

References
----------
F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins, section 2.
"""

from collections.abc import Callable
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import (
    FloatArray,
    as_float_vector,
    check_number,
    check_same_length,
)

StepRule = float | str | Callable[[FloatArray, NDArray], float]


def margin_reweight(
    weights: ArrayLike,
    margins: ArrayLike,
    theta: float,
    weight_gain: StepRule = 1.0,
    *,
    sample_weight: ArrayLike | None = None,
) -> FloatArray:
    """Return the weights of the next round: k more copies of every θ-mistake.

    Parameters
    ----------
    weights : array-like of shape (n_samples,)
        Current un-normalised weights; non-negative, finite, not all zero. Ones in the
        first round, or `sample_weight`. Normalised weights would be a different rule:
        divide by the sum (or the mean) only what is handed to the learner.
    margins : array-like of shape (n_samples,)
        Margins of the current hypothesis, positive iff right.
    theta : float
        Margin below which, strictly, a sample is a mistake.
    weight_gain : float, "ratio" or callable, default=1.0
        Number of copies to add, > 0. "ratio" is (number of samples) / (number of
        θ-mistakes): every round then counts the same. A function ``weight_gain(weights,
        mistakes)`` gets the current weights and the boolean mask of the θ-mistakes, and
        returns a number > 0.
    sample_weight : array-like of shape (n_samples,), optional
        The user's weights: sample i stands for that many. They multiply the copies and
        enter both counts of "ratio"; a sample of weight 0 stays out for ever.

    Returns
    -------
    new_weights : ndarray of shape (n_samples,)
        Un-normalised. Without any θ-mistake, where "ratio" is undefined and nothing is
        to be added, a copy of `weights` whatever `weight_gain` is: the round to stop
        at.

    Examples
    --------
    >>> from widemargin.margins import margin_reweight
    >>> margin_reweight([1.0, 1.0, 1.0, 1.0], [0.9, 0.2, -0.1, 0.6], theta=0.3)
    array([1., 2., 2., 1.])
    >>> margin_reweight([1.0] * 4, [0.9, 0.2, 0.7, 0.6], 0.3, weight_gain="ratio")
    array([1., 5., 1., 1.])
    """
    w = _check_weights("weights", weights)
    mu = as_float_vector("margins", margins)
    theta = check_number("theta", theta)
    copies = np.ones_like(w)
    if sample_weight is not None:
        copies = _check_weights("sample_weight", sample_weight)
    check_same_length(weights=w, margins=mu, sample_weight=copies)
    return reweighted(w, mu, theta, weight_gain, copies)


def reweighted(
    w: FloatArray, mu: FloatArray, theta: float, k: StepRule, copies: FloatArray
) -> FloatArray:
    """Return the weights of the next round, of arrays that were checked."""
    mistakes = mu < np.float64(theta)
    step = float(_step(k, w, mistakes, copies))
    # Of Python's numbers, which may be infinite.
    largest = float(w.max()) + step * float(copies.max())
    if largest > (1e300 if w.dtype == np.float64 else 1e38):
        raise ValueError(
            f"weights must stay finite in {w.dtype}; got more from "
            f"weight_gain={step:.3g} and sample_weight. Divide them by their mean."
        )
    return (w + step * copies.astype(np.float64) * mistakes).astype(w.dtype)


def _step(
    k: StepRule,
    weights: FloatArray,
    mistakes: NDArray,
    copies: FloatArray,
) -> float:
    if isinstance(k, Real) and not isinstance(k, bool):
        return check_number(
            "weight_gain", k, above=0, otherwise='"ratio", a function or '
        )
    if not (callable(k) or (isinstance(k, str) and k == "ratio")):
        raise ValueError(
            f'weight_gain must be a number > 0, "ratio" or a function of (weights, '
            f"mistakes); got {k!r}."
        )
    # Of the share that each sample is of the largest, nothing overflows.
    shares = copies / copies.max()
    n_mistakes = float(shares[mistakes].sum())
    if n_mistakes == 0:
        return 0.0
    if callable(k):
        step = k(weights.copy(), mistakes.copy())
        return check_number("weight_gain(weights, mistakes)", step, above=0)
    return float(shares.sum()) / n_mistakes


def _check_weights(name: str, weights: ArrayLike) -> FloatArray:
    vector = as_float_vector(name, weights)
    if (vector < 0).any() or not np.isfinite(vector).all() or not vector.any():
        raise ValueError(f"{name} must be finite and >= 0, and one of them > 0.")
    return vector
