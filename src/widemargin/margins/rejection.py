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

Where there are several groups, predicted, true or other classes, the samples of one are
independent draws from the distribution of that group: all this holds group by group.

*A threshold for each group*, where the group of a new sample is known, as its predicted
class is: each is chosen on its own samples. The guarantee is to hold of all of them at
once, so m groups have :math:`\delta / m` each. Groups with too few samples to show
anything at that level are never answered and have no part of delta.

*One threshold for all*, where the group of a new sample is not known, as its true class
is. A threshold passes only if all groups pass its test, each at the whole level: where
one group's error is too large, its test alone is passed with probability
:math:`\delta_1` at most. (The hypothesis is a union, and its test an intersection.) The
fixed sequence begins at the smallest of the groups' quantiles, each of which the sample
meets but for its part of :math:`\delta_2`. Where there is no room for quantiles, let t
be the smallest of the groups' k-th largest confidences. Given t, the group it comes
from and how many of each group lie above it, mistakes above t are binomial in every
group.

For a guaranteed coverage the smallest of the groups' thresholds is taken. It is too
strict for a group only if its own is, so that delta is not divided either.

Arrays have shape (n_samples,), curves (n_thresholds,), tables (n_groups, n_thresholds).

References
----------
A. Angelopoulos, S. Bates, E. Candès, M. Jordan, L. Lei, Learn then test, 2021 (fixed
sequences). C. Clopper, E. Pearson, The use of confidence or fiducial limits, 1934. R.
Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 1982
(intersection-union tests).
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
from widemargin._core.samples import check_orderable

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
        tables = counts.accepted[None], counts.mistakes[None]
        walked = [_walked(*tables, max_error, (one,)) for one in way]
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
    ways = _ways(n, max_error, delta)
    if ways is not None:
        return tuple(way for way in ways if way is not None)
    needed = samples_needed(max_error, delta)
    if needed >= n:
        return (_Rank(n + 1, delta),) if needed == n else ()
    faultless = float(binomial_cdf(np.array(0), np.array(n), max_error))
    if faultless > delta / 2:
        return (_Rank(needed + 1, delta),)
    of_all = max(faultless, delta - STRICT * delta)
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


class GroupThresholds(NamedTuple):
    """Thresholds of groups, and the part of delta that each had, nan for none."""

    groups: NDArray
    thresholds: FloatArray
    deltas: FloatArray


def reject_thresholds(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    confidence: ArrayLike,
    groups: ArrayLike,
    *,
    max_error: float | None = None,
    coverage: float | None = None,
    delta: float | None = 0.05,
) -> GroupThresholds:
    """Thresholds on the confidence, one for each group, that keep all guarantees.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of samples that the classifier was not fitted to.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        Finite; larger is surer.
    groups : array-like of shape (n_samples,)
        What is known of new samples too, for instance `y_pred`.
    max_error : float, optional
        Guarantee that in every group the error among accepted new samples is at most
        this.
    coverage : float, optional
        Guarantee instead that in every group new samples are accepted with this
        probability at least.
    delta : float or None, default=0.05
        Probability with which the guarantee may be broken in any group. None guarantees
        nothing.

    Returns
    -------
    found : GroupThresholds
        Named tuple ``(groups, thresholds, deltas)`` of arrays of shape (n_groups,). A
        threshold is inf where nothing may be accepted. A part of delta is nan where the
        group has too few samples to show anything.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.margins import reject_thresholds
    >>> confidence = np.arange(600) / 600
    >>> groups = np.repeat(["a", "b", "c"], [20, 290, 290])
    >>> y_true, y_pred = np.ones(600), np.where(confidence < 0.1, 0, 1)
    >>> found = reject_thresholds(y_true, y_pred, confidence, groups, max_error=0.05)
    >>> found.thresholds.round(2)
    array([ inf, 0.09, -inf])
    >>> found.deltas
    array([  nan, 0.025, 0.025])
    """
    truth, answer, sure, labels = _checked(y_true, y_pred, confidence, groups)
    known, codes = np.unique(labels, return_inverse=True)
    sizes = np.bincount(codes, minlength=len(known))
    deltas = deltas_of(sizes, max_error, delta)
    thresholds = np.full(len(known), np.inf)
    for g in range(len(known)):
        level = delta if delta is None else float(deltas[g])
        if level is None or np.isfinite(level):
            own = codes == g
            thresholds[g] = reject_threshold(
                truth[own],
                answer[own],
                sure[own],
                max_error=max_error,
                coverage=coverage,
                delta=level,
            )
    return GroupThresholds(known, thresholds, deltas)


def deltas_of(
    sizes: NDArray, max_error: float | None, delta: float | None
) -> FloatArray:
    """Divide delta among the groups whose samples can show anything at their part.

    >>> deltas_of(np.array([20, 100, 100]), 0.05, 0.05)
    array([  nan, 0.025, 0.025])
    """
    if delta is None:
        return np.full(len(sizes), np.nan)
    delta = check_number("delta", delta, above=0, below=1, otherwise="None or ")
    if max_error is None:
        return np.full(len(sizes), delta / max(1, len(sizes)))
    max_error = check_number("max_error", max_error, above=0, below=1)
    m = len(sizes)
    while m and np.count_nonzero(sizes >= samples_needed(max_error, delta / m)) < m:
        m -= 1
    if not m:
        return np.full(len(sizes), np.nan)
    return np.where(sizes >= samples_needed(max_error, delta / m), delta / m, np.nan)


def common_threshold(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    confidence: ArrayLike,
    groups: ArrayLike,
    *,
    max_error: float | None = None,
    coverage: float | None = None,
    delta: float | None = 0.05,
) -> float:
    """One threshold on the confidence that keeps a guarantee in every group.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of samples that the classifier was not fitted to.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    confidence : array-like of shape (n_samples,)
        Finite; larger is surer.
    groups : array-like of shape (n_samples,)
        Groups, which need not be known of new samples, for instance `y_true`.
    max_error : float, optional
        Guarantee that in every group the error among accepted new samples is at most
        this.
    coverage : float, optional
        Guarantee instead that in every group new samples are accepted with this
        probability at least.
    delta : float or None, default=0.05
        Probability with which the guarantee may be broken in any group. It is not
        divided. None guarantees nothing.

    Returns
    -------
    threshold : float
        Accept where ``confidence >= threshold``; inf where no threshold could be shown
        to keep the guarantee in all groups.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.margins import common_threshold
    >>> confidence = np.tile(np.arange(300) / 300, 2)
    >>> y_true, groups = np.ones(600), np.repeat(["a", "b"], 300)
    >>> y_pred = np.where((confidence < 0.2) & (groups == "a"), 0, 1)
    >>> found = common_threshold(y_true, y_pred, confidence, groups, max_error=0.1)
    >>> print(f"{found:.2f}")
    0.14
    """
    truth, answer, sure, labels = _checked(y_true, y_pred, confidence, groups)
    if (max_error is None) == (coverage is None):
        raise ValueError("Give exactly one of max_error and coverage.")
    if delta is not None:
        delta = check_number("delta", delta, above=0, below=1, otherwise="None or ")
    counts, accepted, mistakes = _tables(truth, answer, sure, labels)
    between = counts.between
    if coverage is not None:
        coverage = check_number("coverage", coverage, above=0, below=1)
        kept = np.array([a > 0 for a in accepted])
        for g, own in enumerate(accepted):
            kept[g, kept[g]] = covers(own[kept[g]], coverage, delta)
        every = np.flatnonzero(kept.all(axis=0))
        return float(between[every[-1]]) if len(every) else -np.inf
    max_error = check_number("max_error", max_error, above=0, below=1)
    if delta is None:
        keep = (mistakes <= max_error * accepted).all(axis=0) & (accepted > 0).any(
            axis=0
        )
        return float(between[keep][0]) if keep.any() else np.inf
    sizes = accepted[:, 0]
    if sizes.min() < samples_needed(max_error, delta):
        return np.inf
    plans = [_ways(int(n), max_error, delta, len(sizes)) for n in sizes]
    if all(plans):
        keep = np.zeros(len(between), bool)
        for ways in zip(*plans, strict=True):
            if all(ways):
                keep |= _walked(accepted, mistakes, max_error, ways)
        return float(between[keep][0]) if keep.any() else np.inf
    return _at_ranks(counts, accepted, mistakes, max_error, delta)


def _checked(
    y_true: ArrayLike, y_pred: ArrayLike, confidence: ArrayLike, groups: ArrayLike
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    truth, answer = as_labels("y_true", y_true), as_labels("y_pred", y_pred)
    labels = check_orderable(as_labels("groups", groups), "groups")
    sure = as_float_vector("confidence", confidence)
    check_same_length(y_true=truth, y_pred=answer, confidence=sure, groups=labels)
    return truth, answer, sure, labels


def _tables(
    truth: NDArray, answer: NDArray, sure: NDArray, labels: NDArray
) -> tuple[Counts, NDArray, NDArray]:
    """Return thresholds, and how many each group has accepted, and wrong, at each."""
    counts = count_accepted(truth, answer, sure, ties=True)
    rounded = np.round(sure.astype(np.float64) / counts.width) * counts.width
    place = np.searchsorted(counts.thresholds, rounded)
    known, codes = np.unique(labels, return_inverse=True)
    tables = np.zeros((2, len(known), len(counts.thresholds)), np.intp)
    np.add.at(tables[0], (codes, place), 1)
    np.add.at(tables[1], (codes, place), np.asarray(truth != answer).astype(np.intp))
    accepted, mistakes = tables[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    return counts, accepted, mistakes


def _ways(
    n: int, max_error: float, delta: float, groups: int = 1
) -> tuple[Way | None, ...] | None:
    """Plan a group's tests from its size alone; None where there is no room."""
    share = STRICT * delta
    other = (delta - share) / 2
    # A mistake allowed at the start makes it robust, where it does not come too late.
    for allowed, latest in ((2, n / 2), (1, n / 2), (0, 0.8 * n)):
        way = strict_way(n, allowed, max_error, share, groups)
        if way is not None and way.believed <= latest:
            return (way, way_from(n, n // 2, other, groups), Way(n, n, other))
    return None


def _walked(
    accepted: NDArray, mistakes: NDArray, max_error: float, ways: tuple[Way, ...]
) -> NDArray:
    """Which thresholds are reached and believed, if all groups must pass each.

    From the strict end: stricter than the start counts as passed, so that the product
    breaks at the first failure on the way.
    """
    on_the_way = np.ones(accepted.shape[1], bool)
    believed = on_the_way.copy()
    for counts, wrong, way in zip(accepted, mistakes, ways, strict=True):
        passed = binomial_cdf(wrong, counts, max_error) <= way.level
        on_the_way &= passed | (counts < way.start)
        believed &= counts >= way.believed
    return np.logical_and.accumulate(on_the_way[::-1])[::-1] & believed


def _at_ranks(
    counts: Counts,
    accepted: NDArray,
    mistakes: NDArray,
    max_error: float,
    delta: float,
) -> float:
    """Accept everything, or what is surer than a rank of every group, or nothing."""
    fewest = int(accepted[:, 0].min())
    faultless = (1 - max_error) ** fewest
    needed = samples_needed(max_error, delta)
    of_all = delta if fewest == needed else max(faultless, (1 - STRICT) * delta)
    if fewest > needed and faultless > delta / 2:
        of_all = 0.0
    rest = delta - of_all

    def passed(at: int, level: float) -> bool:
        cdf = binomial_cdf(mistakes[:, at], accepted[:, at], max_error)
        return level > 0 and bool((cdf <= level).all())

    if passed(0, of_all):
        return -np.inf
    if rest <= 0:
        return np.inf
    rank = samples_needed(max_error, rest) + 1
    if fewest < rank:
        return np.inf
    # The place of t, the smallest of the groups' confidences of this rank.
    lax = int(np.count_nonzero((accepted >= rank).all(axis=0))) - 1
    if lax + 1 == accepted.shape[1] or not passed(lax + 1, rest):
        return np.inf
    # What lies between t and the next larger of the sample is accepted too.
    return float(counts.thresholds[lax] + counts.width / 2)
