r"""Rejection: answer only where the confidence reaches a threshold.

A sample is accepted if its confidence c (a margin, a probability, anything larger for
surer) is at least τ. The error-reject curve shows, for every τ, the fraction rejected
and the error among the accepted, e(τ) = P(wrong | c ≥ τ).

A threshold read off that curve is optimistic: it was chosen because its error looked
small. `reject_threshold` controls the selective risk by Learn-then-Test: it tests, from
strict to lax, the hypotheses e(τ) > ε by the exact binomial (Clopper-Pearson) test at
level δ₁, and stops before the first τ that fails. At a fixed τ the number of mistakes
among the accepted is binomial, so the first τ with e(τ) > ε on the way is passed with
probability δ₁ at most, and with it everything beyond: no correction for the number of
thresholds is due, and e need not be monotone.

The order must not depend on the sample, but "the k₁-th largest confidence", where the
way starts, does. It stands in for a quantile of the distribution: let q be such that a
binomial(n, q) falls below k₁ with probability δ₂/2 at most, and k₂ such that it reaches
k₂ with probability δ₂/2 at most. Except with probability δ₂ the upper q-quantile of the
confidence lies between the k₁-th and the k₂-th largest. A way that starts at the first
and is only believed from the second on has then passed every τ from that fixed quantile
down. In all, e ≤ ε with probability 1 − δ₁ − δ₂, for any distribution.

Where labels are noisy the surest answers are wrong as often as others, and a way that
starts among few of them ends at once. So there are three, which share δ: most of it has
the strict start, and a twentieth each have a start at half of the sample and accepting
everything, a single hypothesis that needs no quantile. The laxest τ that any of them
reaches is taken.

Few samples leave no room between k₁ and k₂. Then the hypothesis is tested of accepting
what is surer than t, the k-th largest confidence, with k fixed beforehand. Given t and
how many lie above it, those are independent draws from the distribution above t, so
their mistakes are binomial with the error of exactly that rule; ties at t are rejected.
It has all of δ, or what is left by that of accepting everything: this gets the level
(1 − ε)ⁿ that it passes at without a mistake, δ/10 if that is more, and none if it is
half of δ, so that what no sample speaks against is answered.

The confidence of one sample, asked alone and among others, differs by rounding, and
where features are discrete many samples have it: a threshold must not part them. So
confidences are rounded to multiples of a unit, which only makes ties of them; a
threshold is put between two of the sample, where all tests are the same, and above t by
half a unit.

Arrays have shape (n_samples,), curves (n_thresholds,).

References
----------
A. Angelopoulos, S. Bates, E. Candès, M. Jordan, L. Lei, Learn then test, 2021 (fixed
sequences). C. Clopper, E. Pearson, The use of confidence or fiducial limits, 1934.
"""

from functools import lru_cache
from math import ceil, floor, log1p, log2
from math import log as ln
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, betaincinv

from widemargin._core.checks import (
    FloatArray,
    as_float_vector,
    check_count,
    check_number,
    check_same_length,
)
from widemargin._core.decisions import are_alike, as_labels

# Parts of a usual confidence that are rounding, by the size of its numbers.
ROUNDING = {4: 2.0**-14, 8: 2.0**-30}
# Part of delta that the way from the strict end has; of every way's part that of its
# tests, the rest being that of the quantile it starts at.
STRICT, WALKED = 0.9, 0.9


class ErrorRejectCurve(NamedTuple):
    """Fraction rejected and error among the accepted, for rising thresholds."""

    rejection_rate: FloatArray
    error_rate: FloatArray
    thresholds: FloatArray


def error_reject_curve(
    y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike
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
        per distinct confidence in rising order. The last entry is for threshold inf:
        everything is rejected, and the error is defined as 0.

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
    thresholds, accepted, mistakes, *_ = count_accepted(y_true, y_pred, confidence)
    return ErrorRejectCurve(
        rejection_rate=np.append(1 - accepted / accepted[0], 1.0),
        error_rate=np.append(mistakes / accepted, 0.0),
        thresholds=np.append(thresholds, thresholds.dtype.type(np.inf)),
    )


def reject_threshold(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    confidence: ArrayLike,
    *,
    max_error: float | None = None,
    coverage: float | None = None,
    delta: float | None = 0.05,
) -> float:
    """Threshold on the confidence that keeps a guarantee on new samples.

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
        Guarantee that the error among accepted new samples is at most this; 0 <
        max_error < 1. The threshold is the laxest the test allows.
    coverage : float, optional
        Guarantee instead that new samples are accepted with this probability at least;
        0 < coverage < 1. The threshold is the strictest that allows it.
    delta : float or None, default=0.05
        Probability, over the draw of this sample, with which the guarantee may be
        broken. None makes no guarantee: the bound then holds on this sample only.

    Returns
    -------
    threshold : float
        Accept where ``confidence >= threshold``. inf, reject everything: no threshold
        could be shown to keep `max_error`. It takes a larger sample, a larger
        `max_error` or a better classifier. −inf, reject nothing. Others lie between two
        confidences of this sample.

    Notes
    -----
    Confidences that differ by rounding, 2⁻³⁰ of what nine in ten are below (float32:
    2⁻¹⁴), count as ties and are accepted or rejected together.

    `max_error` needs at least log(delta) / log(1 - max_error) samples, about 3 /
    max_error at delta = 0.05. Twice as many leave room for rejecting the unsure third.
    `max_error` must be chosen before looking: to try smaller and smaller ones on the
    same sample is to read off the curve again.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.margins import reject_threshold
    >>> confidence = np.arange(400) / 400
    >>> y_true, y_pred = np.ones(400), np.where(confidence < 0.1, 0, 1)
    >>> threshold = reject_threshold(
    ...     y_true, y_pred, confidence, max_error=0.05, delta=None
    ... )
    >>> print(np.sum(confidence >= threshold))
    378
    >>> reject_threshold(y_true, y_pred, confidence, max_error=0.05)
    0.07...
    >>> reject_threshold(y_true, y_pred, confidence, max_error=0.005)
    inf
    >>> threshold = reject_threshold(
    ...     y_true, y_pred, confidence, coverage=0.5, delta=None
    ... )
    >>> print(np.sum(confidence >= threshold))
    200
    """
    counts = count_accepted(y_true, y_pred, confidence, ties=True)
    if delta is not None:
        delta = check_number("delta", delta, above=0, below=1, otherwise="None or ")
    if (max_error is None) == (coverage is None):
        raise ValueError("Give exactly one of max_error and coverage.")
    if coverage is not None:
        coverage = check_number("coverage", coverage, above=0, below=1)
        keep = covers(counts.accepted, coverage, delta)
        return float(counts.between[np.flatnonzero(keep)[-1] if keep.any() else 0])
    max_error = check_number("max_error", max_error, above=0, below=1)
    return _laxest(counts, max_error, delta)


class Counts(NamedTuple):
    """Distinct confidences, rising, with the accepted and the mistakes at each.

    Where rounding makes ties they are multiples of its `width`; `between` is a number
    below those that stand for each, and above all smaller ones.
    """

    thresholds: FloatArray
    accepted: NDArray
    mistakes: NDArray
    width: float
    between: FloatArray


def tie_width(values: FloatArray) -> float:
    """Return what a number may differ by for rounding: a part of what most are below.

    It is a power of two, so that the few samples it is told from hardly matter to it,
    and those that are far from all others do not.
    """
    sizes = np.sort(np.abs(values.astype(np.float64)))
    usual = sizes[int(0.9 * (len(sizes) - 1))] or sizes[-1]
    part = ROUNDING.get(values.dtype.itemsize, ROUNDING[8])
    power = 2.0 ** floor(log2(usual)) if usual else 0.5
    return max(2 * part * power, 1e-300)


def _laxest(counts: Counts, max_error: float, delta: float | None) -> float:
    """Return the laxest threshold at which `max_error` is shown, or inf."""
    if delta is None:
        keep = counts.mistakes / counts.accepted <= max_error
    else:
        way = _plan(int(counts.accepted[0]), max_error, delta)
        if not way:
            return np.inf
        if isinstance(way[0], _Rank):
            return min(_tested_rank(counts, max_error, rank) for rank in way)
        walked = [_walked(counts.accepted, counts.mistakes, max_error, w) for w in way]
        keep = np.any(walked, axis=0)
    return float(counts.between[keep][0]) if keep.any() else np.inf


def smallest_max_error(n_samples: int, delta: float = 0.05) -> float:
    """Smallest error that so many samples, all answered rightly, can guarantee.

    Parameters
    ----------
    n_samples : int
        Samples to choose the threshold on.
    delta : float, default=0.05
        Probability with which the guarantee may be broken.

    Returns
    -------
    max_error : float
        The e with (1 - e)^n = delta, about 3 / n_samples at delta = 0.05.

    Examples
    --------
    >>> from widemargin.margins import smallest_max_error
    >>> print(f"{smallest_max_error(150):.4f}")
    0.0198
    """
    n = check_count("n_samples", n_samples, bits=62)
    delta = check_number("delta", delta, above=0, below=1)
    return float(-np.expm1(ln(delta) / n))


def smallest_shown(
    wrong: ArrayLike, confidence: ArrayLike, delta: float
) -> float | None:
    """Smallest error that answers with these mistakes would have shown, or None."""
    wrong = np.asarray(wrong)
    truth = np.zeros(len(wrong), bool)
    counts = count_accepted(truth, wrong, confidence, ties=True)
    errors = np.geomspace(smallest_max_error(len(wrong), delta), 0.99, 48)
    low, high = -1, len(errors)
    while high - low > 1:
        middle = (low + high) // 2
        shown = _laxest(counts, float(errors[middle]), delta) < np.inf
        low, high = (low, middle) if shown else (middle, high)
    return float(errors[high]) if high < len(errors) else None


def samples_needed(max_error: float, delta: float) -> int:
    """Fewest samples, all answered rightly, that can guarantee `max_error`."""
    return ceil(min(ln(delta) / log1p(-max_error) - 1e-9, 2.0**62))


@lru_cache(maxsize=32)
def samples_for_rejecting(max_error: float, delta: float) -> int:
    """Fewest samples of which the surest two thirds without a mistake suffice."""
    n = samples_needed(max_error, delta)
    share = STRICT * delta
    while (
        way := strict_way(n, 0, max_error, share)
    ) is None or way.believed > 2 * n / 3:
        n += 1 + n // 50
    return n


def count_accepted(
    y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike, *, ties: bool = False
) -> Counts:
    """Count what is accepted at each confidence; `ties` takes rounding for equal."""
    truth, answer = as_labels("y_true", y_true), as_labels("y_pred", y_pred)
    score = as_float_vector("confidence", confidence)
    check_same_length(y_true=truth, y_pred=answer, confidence=score)
    if not np.isfinite(score).all():
        raise ValueError("confidence contains infinity; every value must be finite.")
    width = tie_width(score) if ties else 0.0
    rounded = score
    if ties:
        # Larger numbers are multiples of the width as they are.
        near = np.abs(score) < 2.0**53 * width
        rounded = score.astype(np.float64)
        rounded[near] = np.round(rounded[near] / width) * width
    thresholds, group = np.unique(rounded, return_inverse=True)
    total = np.bincount(group)
    first, ordered = total.cumsum()[:-1], np.sort(score.astype(np.float64))
    between = np.append(-np.inf, ordered[first - 1] / 2 + ordered[first] / 2)
    wrong = np.bincount(group, weights=differing(truth, answer)).astype(np.intp)
    accepted, mistakes = (part[::-1].cumsum()[::-1] for part in (total, wrong))
    return Counts(thresholds, accepted, mistakes, width, between)


def differing(truth: NDArray, answer: NDArray) -> NDArray:
    """Return where an answer is wrong; labels of two kinds are refused."""
    if not are_alike(truth, answer):
        raise ValueError(
            f"y_true and y_pred must hold the same kind of label; got {truth.dtype} "
            f"and {answer.dtype}."
        )
    return np.asarray(truth != answer)


def covers(accepted: NDArray, coverage: float, delta: float | None) -> NDArray:
    """Which counts, of as many samples as the first, show a coverage."""
    n = accepted[0]
    if delta is None:
        return accepted / n >= coverage
    # P(c >= the a-th largest of n) is at least a Beta(a, n − a + 1) variable.
    return betainc(accepted, n - accepted + 1, coverage) <= delta


class Way(NamedTuple):
    """Counts of accepted samples at the start and from where it is believed."""

    start: int
    believed: int
    level: float


class _Rank(NamedTuple):
    """Place, from the largest, of the confidence beyond which all are accepted."""

    rank: int
    level: float


@lru_cache(maxsize=1024)
def _plan(n: int, max_error: float, delta: float) -> tuple:
    """Plan the tests from the size of the sample alone: ways, ranks, or nothing."""
    share = STRICT * delta
    # A mistake allowed at the start makes it robust, where it does not come too late.
    for allowed, latest in ((2, n / 2), (1, n / 2), (0, 0.8 * n)):
        way = strict_way(n, allowed, max_error, share)
        if way is not None and way.believed <= latest:
            other = (delta - share) / 2
            halfway, everything = way_from(n, n // 2, other), Way(n, n, other)
            return tuple(w for w in (way, halfway, everything) if w is not None)
    needed = samples_needed(max_error, delta)
    if needed >= n:
        return (_Rank(n + 1, delta),) if needed == n else ()
    faultless = float(binomial_cdf(np.array(0), np.array(n), max_error))
    if faultless > delta / 2:
        return (_Rank(needed + 1, delta),)
    of_all = max(faultless, delta - share)
    rest = delta - of_all
    rank = samples_needed(max_error, rest) + 1
    return _Rank(rank, rest), _Rank(n + 1, of_all)


def strict_way(
    n: int, allowed: int, max_error: float, delta: float, groups: int = 1
) -> Way | None:
    """Start where so many mistakes still pass; None where there is no room for it."""
    counts = np.arange(1, n + 1)
    level = WALKED * delta
    passing = binomial_cdf(np.full(n, allowed), counts, max_error) <= level
    return (
        way_from(n, int(counts[passing][0]), delta, groups) if passing.any() else None
    )


def way_from(n: int, start: int, delta: float, groups: int = 1) -> Way | None:
    """Start at a rank; None where no rank is beyond the quantile it stands in for.

    Of several groups, all of whose quantiles must be met, each has a part of the rest.
    """
    counts = np.arange(1, n + 1)
    missed = (1 - WALKED) * delta / 2 / groups
    q = betaincinv(start, n - start + 1, 1 - missed)
    beyond = betainc(counts, n - counts + 1, q) <= missed
    return Way(start, int(counts[beyond][0]), WALKED * delta) if beyond.any() else None


def _walked(
    accepted: NDArray, mistakes: NDArray, max_error: float, way: Way
) -> NDArray:
    """Which thresholds the way reaches and is believed at."""
    passed = binomial_cdf(mistakes, accepted, max_error) <= way.level
    # From the strict end: stricter than the start counts as passed, so that the
    # product breaks at the first failure on the way.
    on_the_way = (passed | (accepted < way.start))[::-1]
    reached = np.logical_and.accumulate(on_the_way)[::-1]
    return reached & (accepted >= way.believed)


def _tested_rank(counts: Counts, max_error: float, tested: _Rank) -> float:
    """Accept what is surer than t, the confidence of a rank, or nothing.

    The rank after the last stands for -inf: everything is accepted.
    """
    thresholds, accepted, mistakes, width, _ = counts
    rank, level = tested
    lax = int(np.count_nonzero(accepted >= rank)) - 1  # the place of t
    above = lax + 1
    if above == len(accepted):
        return np.inf
    if binomial_cdf(mistakes[[above]], accepted[[above]], max_error)[0] > level:
        return np.inf
    # What lies between t and the next larger of the sample is accepted too.
    return -np.inf if lax < 0 else float(thresholds[lax] + width / 2)


def binomial_cdf(k: NDArray, n: NDArray, p: float) -> FloatArray:
    """P(binomial(n, p) <= k), elementwise; 1 where k >= n."""
    return np.where(k < n, betaincc(k + 1, np.maximum(n - k, 1), p), 1.0)
