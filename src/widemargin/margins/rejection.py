r"""Rejection: answer only where the confidence reaches a threshold.

A sample is accepted if its confidence c (a margin, a probability, anything larger for
surer) is at least τ. The error-reject curve shows, for every τ, the fraction rejected
and the error among the accepted, e(τ) = P(wrong | c ≥ τ).

A threshold read off that curve is optimistic: it was chosen because its error looked
small. `reject_threshold` tests instead, from strict to lax, the hypotheses e(τ) > ε by
the exact binomial (Clopper-Pearson) test at level δ₁, and stops before the first τ that
fails. At a fixed τ the number of mistakes among the accepted is binomial, so the first
τ with e(τ) > ε on the way is passed with probability δ₁ at most, and with it everything
beyond: no correction for the number of thresholds is due, and e need not be monotone.

The order must not depend on the sample, but "the k₁-th largest confidence", where the
way starts, does. It stands in for a quantile of the distribution: let q be such that a
binomial(n, q) falls below k₁ with probability δ₂/2 at most, and k₂ such that it reaches
k₂ with probability δ₂/2 at most. Except with probability δ₂ the upper q-quantile of the
confidence lies between the k₁-th and the k₂-th largest. A way that starts at the first
and is only believed from the second on has then passed every τ from that fixed quantile
down. In all, e ≤ ε with probability 1 − δ₁ − δ₂ = 1 − δ, for any distribution.

Arrays have shape (n_samples,), curves (n_thresholds,).

References
----------
A. Angelopoulos, S. Bates, E. Candès, M. Jordan, L. Lei, Learn then test, 2021 (fixed
sequences). C. Clopper, E. Pearson, The use of confidence or fiducial limits, 1934.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincc, betaincinv

from widemargin.margins.checks import (
    FloatArray,
    as_float_vector,
    as_labels,
    check_real,
    check_same_length,
)

__all__ = ["ErrorRejectCurve", "error_reject_curve", "reject_threshold"]


class ErrorRejectCurve(NamedTuple):
    """Fraction rejected and error among the accepted, for rising thresholds."""

    rejection_rate: FloatArray
    error_rate: FloatArray
    thresholds: FloatArray


def error_reject_curve(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, confidence: npt.ArrayLike
) -> ErrorRejectCurve:
    """Error among the accepted against the fraction rejected, at every threshold.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        Finite; larger is surer. A sample is accepted if its confidence is at least the
        threshold, so equal confidences are accepted or rejected together.

    Returns
    -------
    curve : ErrorRejectCurve
        Named tuple ``(rejection_rate, error_rate, thresholds)`` of arrays, one entry
        per distinct confidence in rising order and a last one for threshold inf, where
        everything is rejected and the error of nothing is defined as 0.

    Examples
    --------
    >>> from widemargin.margins import error_reject_curve
    >>> curve = error_reject_curve([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.7, 0.1, 0.7])
    >>> curve.rejection_rate
    array([0.  , 0.25, 0.75, 1.  ])
    >>> curve.error_rate
    array([0.25, 0.  , 0.  , 0.  ])
    >>> curve.thresholds
    array([0.1, 0.7, 0.9, inf])
    """
    thresholds, accepted, mistakes = _count_accepted(y_true, y_pred, confidence)
    return ErrorRejectCurve(
        rejection_rate=np.append(1 - accepted / accepted[0], 1.0),
        error_rate=np.append(mistakes / accepted, 0.0),
        thresholds=np.append(thresholds, thresholds.dtype.type(np.inf)),
    )


def reject_threshold(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    confidence: npt.ArrayLike,
    *,
    max_error: float | None = None,
    coverage: float | None = None,
    delta: float | None = 0.05,
) -> float:
    """Threshold on the confidence that keeps a promise on new samples.

    The sample must not have been used to fit or to choose the classifier, and new
    samples must come from where it came from.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        Finite; larger is surer.
    max_error : float, optional
        Promise that the error among accepted new samples is at most this; 0 < max_error
        < 1. The threshold is the laxest the test allows.
    coverage : float, optional
        Promise instead that new samples are accepted with this probability at least;
        0 < coverage < 1. The threshold is the strictest that allows it.
    delta : float or None, default=0.05
        Probability, over the draw of this sample, with which the promise may be broken.
        None makes no promise: the bound then holds on this sample only.

    Returns
    -------
    threshold : float
        Accept where ``confidence >= threshold``. inf, reject everything: no threshold
        could be shown to keep `max_error`; a larger sample, a larger `max_error` or
        a better classifier is needed. −inf, reject nothing.

    Notes
    -----
    With `max_error` no fewer than log(delta) / log(1 - max_error) samples, about
    3 / max_error at delta = 0.05, can ever show anything.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.margins import reject_threshold
    >>> confidence = np.arange(400) / 400
    >>> y_true, y_pred = np.ones(400), np.where(confidence < 0.1, 0, 1)
    >>> reject_threshold(y_true, y_pred, confidence, max_error=0.05, delta=None)
    0.055
    >>> reject_threshold(y_true, y_pred, confidence, max_error=0.05)
    0.07...
    >>> reject_threshold(y_true, y_pred, confidence, max_error=0.005)
    inf
    >>> reject_threshold(y_true, y_pred, confidence, coverage=0.5, delta=None)
    0.5
    """
    thresholds, accepted, mistakes = _count_accepted(y_true, y_pred, confidence)
    if delta is not None:
        delta = check_real(delta, "delta", 0, 1)
    if (max_error is None) == (coverage is None):
        raise ValueError("Give exactly one of max_error and coverage.")
    if coverage is not None:
        coverage = check_real(coverage, "coverage", 0, 1)
        keep = _covers(accepted, coverage, delta)
    else:
        max_error = check_real(max_error, "max_error", 0, 1)
        keep = _keeps_error(accepted, mistakes, max_error, delta)
    if not keep.any():
        return np.inf if coverage is None else -np.inf
    chosen = np.flatnonzero(keep)[0 if coverage is None else -1]
    return -np.inf if chosen == 0 else float(thresholds[chosen])


def _count_accepted(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, confidence: npt.ArrayLike
) -> tuple[FloatArray, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Distinct confidences, rising, with the accepted and the mistakes at each."""
    truth, answer = as_labels(y_true, "y_true"), as_labels(y_pred, "y_pred")
    score = as_float_vector(confidence, "confidence")
    check_same_length(y_true=truth, y_pred=answer, confidence=score)
    if not np.isfinite(score).all():
        raise ValueError("confidence contains infinity; every value must be finite.")
    thresholds, group = np.unique(score, return_inverse=True)
    total = np.bincount(group)
    wrong = np.bincount(group, weights=_differ(truth, answer)).astype(np.intp)
    return thresholds, total[::-1].cumsum()[::-1], wrong[::-1].cumsum()[::-1]


def _differ(truth: npt.NDArray[Any], answer: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    kinds = {truth.dtype.kind in "SU", answer.dtype.kind in "SU"}
    if len(kinds) > 1 and "O" not in (truth.dtype.kind, answer.dtype.kind):
        raise ValueError(
            f"y_true and y_pred must hold the same kind of label; got {truth.dtype} "
            f"and {answer.dtype}."
        )
    return np.asarray(truth != answer)


def _covers(
    accepted: npt.NDArray[np.intp], coverage: float, delta: float | None
) -> npt.NDArray[np.bool_]:
    n = accepted[0]
    if delta is None:
        return accepted / n >= coverage
    # P(c >= the a-th largest of n) is at least a Beta(a, n − a + 1) variable.
    return betainc(accepted, n - accepted + 1, coverage) <= delta


def _keeps_error(
    accepted: npt.NDArray[np.intp],
    mistakes: npt.NDArray[np.intp],
    max_error: float,
    delta: float | None,
) -> npt.NDArray[np.bool_]:
    if delta is None:
        return mistakes / accepted <= max_error
    delta_walk, delta_start = 0.9 * delta, 0.1 * delta
    start, believed = _start_window(accepted[0], max_error, delta_walk, delta_start)
    passed = _binomial_cdf(mistakes, accepted, max_error) <= delta_walk
    # From the strict end: stricter than the start counts as passed, so that the
    # product breaks at the first failure on the way.
    on_the_way = (passed | (accepted < start))[::-1]
    return np.logical_and.accumulate(on_the_way)[::-1] & (accepted >= believed)


def _start_window(
    n: int, max_error: float, delta_walk: float, delta_start: float
) -> tuple[int, int]:
    """Return the accepted counts (k₁, k₂): the start, and from where it is believed."""
    counts = np.arange(1, n + 1)
    # One mistake allowed at the start makes it robust; small samples allow none.
    for allowed in (1, 0):
        passing = _binomial_cdf(np.full(n, allowed), counts, max_error) <= delta_walk
        if not passing.any():
            continue
        start = int(counts[passing][0])
        q = betaincinv(start, n - start + 1, 1 - delta_start / 2)
        beyond = betainc(counts, n - counts + 1, q) <= delta_start / 2
        if beyond.any():
            return start, int(counts[beyond][0])
    # Accepting everything is a threshold that does not depend on the sample.
    return n, n


def _binomial_cdf(
    k: npt.NDArray[np.intp], n: npt.NDArray[np.intp], p: float
) -> FloatArray:
    """P(binomial(n, p) <= k), elementwise; 1 where k >= n."""
    return np.where(k < n, betaincc(k + 1, np.maximum(n - k, 1), p), 1.0)
