r"""One guarantee for each of several groups: predicted, true or other classes.

Given the groups of the samples that a threshold is chosen on, those of one group are
independent draws from the distribution of that group. So everything in
:mod:`widemargin.margins.rejection` holds group by group.

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

References: R. Berger, Multiparameter hypothesis testing and acceptance sampling,
Technometrics 1982 (intersection-union tests). Arrays have shape (n_samples,), tables
(n_groups, n_thresholds).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import (
    FloatArray,
    as_float_vector,
    check_number,
    check_same_length,
)
from widemargin._core.decisions import as_labels
from widemargin._core.samples import check_orderable
from widemargin.margins.rejection import (
    STRICT,
    Counts,
    Way,
    binomial_cdf,
    count_accepted,
    covers,
    reject_threshold,
    samples_needed,
    strict_way,
    way_from,
)


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
    n: int, max_error: float, delta: float, groups: int
) -> tuple[Way | None, ...] | None:
    """Plan a group's tests from its size alone; None where there is no room."""
    share = STRICT * delta
    other = (delta - share) / 2
    for allowed, latest in ((2, n / 2), (1, n / 2), (0, 0.8 * n)):
        way = strict_way(n, allowed, max_error, share, groups)
        if way is not None and way.believed <= latest:
            return (way, way_from(n, n // 2, other, groups), Way(n, n, other))
    return None


def _walked(
    accepted: NDArray, mistakes: NDArray, max_error: float, ways: tuple[Way, ...]
) -> NDArray:
    """Which thresholds are reached and believed, if all groups must pass each."""
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
