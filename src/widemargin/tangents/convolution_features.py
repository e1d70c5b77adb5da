r"""Convolution features: for how long a signal has each of many small shapes.

Eighty-four kernels of nine taps, six of -1 and three of 2, meet the signal and its
differences at many dilations. With the output c(t) of a kernel w at the dilation d,

.. math:: c(t) = \sum_{k=-4}^{4} w_k\, x(t + k d),

a feature is the share of time for which c lies above a threshold, softened between a
low and a high one,

.. math:: f = \frac1T \sum_t
          \min\Bigl(1, \max\bigl(0, \frac{c(t) - a}{b - a}\bigr)\Bigr).

Thresholds are quantiles of the outputs for the training signals, `SOFTNESS` below and
above levels that spread evenly over (0, 1). A hard threshold, a = b, is MiniRocket's
"proportion of positive values". A soft one is as accurate, has a derivative, and a
rounding of c changes it by a rounding only.

With several channels every kernel meets a sum over some of them, which the number of
the kernel and of the dilation draws. Nothing is random: equal data have equal features.

X is (n, length·channels), channels last; the features are (n, n_features_out).

Reference: A. Dempster, D. F. Schmidt, G. I. Webb, MiniRocket: a very fast (almost)
deterministic transform for time series classification, KDD 2021.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import combinations
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.machine import batched_slices
from widemargin._core.checks import FLOATS, as_array, check_count, validate_data
from widemargin._core.params import Count, Counted, check_declared, parameters
from widemargin.tangents.preparing import KeepsKind

TAPS = 9
KERNELS = np.array(
    [
        [2.0 if k in three else -1.0 for k in range(TAPS)]
        for three in combinations(range(TAPS), 3)
    ]
)
# Half the distance of the two thresholds, as a share of the outputs. Errors of folds of
# fourteen training sets do not differ by more than chance from 0 to 0.25.
SOFTNESS = 0.1
# Outputs of a kernel from which its quantiles are taken, and numbers in one product.
SAMPLED, AT_ONCE = 2048, 2**18
GOLDEN = (5**0.5 - 1) / 2


class Bank(NamedTuple):
    """The kernels of one dilation, for the signal or for its differences.

    `weights` (kernels, channels·taps), thresholds `low` and `high` (kernels, levels).
    """

    differences: bool
    dilation: int
    weights: NDArray
    low: NDArray
    high: NDArray


@parameters
class ConvolutionFeatures(
    KeepsKind, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Shares of time that a signal has small shapes, as a step before a classifier.

    Parameters
    ----------
    n_channels : int, default=1
        Signals recorded together; a row of `X` is the array (length, n_channels)
        flattened in C order.
    n_features : int, default=5000
        About how many features there are; at least one for each kernel, dilation and
        view of the signal.
    max_dilations : int, default=8
        Number of dilations at most. They spread evenly on a logarithmic scale from 1 to
        the largest at which a kernel is as long as the signal.

    Attributes
    ----------
    mean_ : ndarray of shape (n_channels,)
        Mean of each channel; signals are at that level before and after their ends.
    scale_ : ndarray of shape (n_channels,)
        Standard deviation of each channel, 1 where the channel is constant. Channels
        are centred and divided by it, so that units do not matter.
    banks_ : list
        Kernels and thresholds, one entry for each view and dilation.
    n_features_in_ : int
        Number of features of the signals.

    See Also
    --------
    widemargin.SignalClassifier : These features and the classifier that fits them.
    DirectionFeatures : Features of images.
    pad_series : One array of series that differ in length.

    Notes
    -----
    Values that are NaN before or after a signal are not part of it: a row of `X` may be
    shorter than others, see :func:`pad_series`. NaN inside is interpolated linearly; a
    channel that a sample lacks stands at its mean.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import ConvolutionFeatures
    >>> X = np.sin(np.linspace(0, [[6.0], [9.0]], 100, axis=-1)).reshape(2, -1)
    >>> ConvolutionFeatures(n_features=1000).fit_transform(X).shape
    (2, 1008)
    """

    n_channels: Counted = 1
    _: KW_ONLY
    n_features: Counted = 5000
    max_dilations: Annotated[int, Count()] = 8

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Measure the channels and take thresholds from the signals.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Signals.
        y : None
            Ignored.

        Returns
        -------
        self : ConvolutionFeatures
            The fitted transformer.
        """
        check_declared(self)
        signals, lengths = self._signals(X, reset=True)
        there = _inside(signals, lengths)
        values = np.ma.masked_invalid(signals[there].astype(float))
        self.mean_ = values.mean(axis=0).filled(0)
        spread = values.std(axis=0).filled(0)
        varies = spread > 1e-6 * np.abs(values).max(axis=0).filled(0)
        self.scale_ = np.where(varies, spread, 1.0)
        signals = self._centred(signals, there)
        self.banks_ = list(self._made(signals, lengths))
        self._n_features_out = sum(bank.low.size for bank in self.banks_)
        return self

    def transform(self, X: ArrayLike) -> NDArray:
        """Compute the features of signals.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Features in [0, 1]: those of the signal, then those of its differences; by
            dilation, then by kernel. Of dtype float32 if `X` is, else float64.
        """
        check_is_fitted(self)
        signals, lengths = self._signals(X, reset=False)
        signals = self._centred(signals, _inside(signals, lengths))
        out = np.empty((len(signals), self._n_features_out), signals.dtype)
        at = 0
        for bank in self.banks_:
            columns = slice(at, at := at + bank.low.size)
            for rows, outputs, counts in _outputs(bank, signals, lengths):
                out[rows, columns] = _shares(outputs, counts, bank)
        return out

    def jvp(self, X: ArrayLike, tangents: ArrayLike) -> NDArray:
        r"""Carry tangents of signals over to the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Signals.
        tangents : array-like of shape (n_samples, n_tangents, n_features)
            How each signal may vary; NaN where `X` has it.

        Returns
        -------
        ndarray of shape (n_samples, n_tangents, n_features_out)
            The derivative of the features at x along every tangent t,
            :math:`\lim_{h \to 0} (F(x + h t) - F(x))/h`.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin.tangents import ConvolutionFeatures, SignalTangents
        >>> X = np.random.default_rng(0).normal(size=(3, 50))
        >>> features = ConvolutionFeatures(n_features=500).fit(X)
        >>> features.jvp(X, SignalTangents().tangents(X)).shape
        (3, 2, 840)
        """
        check_is_fitted(self)
        signals, lengths = self._signals(X, reset=False)
        n, length, channels = signals.shape
        moves = as_array("tangents", tangents, ensure_all_finite="allow-nan")
        if moves.ndim != 3 or (moves.shape[0], moves.shape[2]) != (
            n,
            length * channels,
        ):
            raise ValueError(
                "tangents must have shape (n_samples, n_tangents, n_features) = "
                f"({n}, n_tangents, {length * channels}); got {moves.shape}."
            )
        m = moves.shape[1]
        first = _first_values(np.asarray(X).reshape(n, length, channels))
        moves = moves.astype(signals.dtype).reshape(n * m, length, channels)
        moves = _to_the_left(moves, np.repeat(first, m))
        there = _inside(signals, lengths)
        scale = self.scale_.astype(signals.dtype)
        moves = np.where(np.repeat(there, m, axis=0)[..., None], moves / scale, 0)
        signals = self._centred(signals, there)
        # A signal and its tangents meet the kernels together.
        both = np.concatenate(
            [signals[:, np.newaxis], moves.reshape(n, m, length, channels)], axis=1
        ).reshape(-1, length, channels)
        out = np.empty((n, m, self._n_features_out), signals.dtype)
        at = 0
        for bank in self.banks_:
            columns = slice(at, at := at + bank.low.size)
            lasting = np.repeat(lengths, 1 + m)
            for rows, outputs, counts in _outputs(bank, both, lasting, 1 + m):
                out[rows, :, columns] = _slopes(outputs, counts, 1 + m, bank)
        return out

    def _signals(self, X: Any, reset: bool) -> tuple[NDArray, NDArray]:
        """Check signals: (n, length, channels) from their start, and lengths (n,)."""
        if isinstance(X, Sequence) and len({np.shape(row)[:1] for row in X}) > 1:
            raise ValueError(
                "X holds series of unequal length; use pad_series(X), which fills the "
                "shorter ones up with NaN."
            )
        rows = validate_data(
            self, X, dtype=FLOATS, ensure_all_finite="allow-nan", reset=reset
        )
        n, d = rows.shape
        channels = self.n_channels
        if d % channels:
            raise ValueError(
                f"n_channels={channels} does not divide the {d} features of X; a row "
                "of X holds length * n_channels numbers."
            )
        signals = rows.reshape(n, d // channels, channels)
        first = _first_values(signals)
        signals = _to_the_left(signals, first)
        refuse_rows_of_nan(rows)
        measured = ~np.isnan(signals).all(axis=2)
        lengths = signals.shape[1] - measured[:, ::-1].argmax(axis=1)
        signals = _interpolated(signals, lengths)
        return signals, lengths

    def _centred(self, signals: NDArray, there: NDArray) -> NDArray:
        """Signals in units of their channels, zero beyond their ends."""
        kind = signals.dtype.type
        moved = (signals - self.mean_.astype(kind)) / self.scale_.astype(kind)
        return np.where(there[..., np.newaxis] & ~np.isnan(moved), moved, kind(0))

    def _made(self, signals: NDArray, lengths: NDArray) -> Iterator[Bank]:
        """Kernels with the thresholds that these signals give them."""
        n, length, channels = signals.shape
        longest = max(1.0, (length - 1) / (TAPS - 1))
        powers = np.linspace(0, np.log2(longest), self.max_dilations)
        dilations = np.unique((2**powers).astype(int))
        views = (False, True) if lengths.min() > 1 else (False,)
        per_kernel = self.n_features / (len(views) * len(dilations) * len(KERNELS))
        n_levels = max(1, round(per_kernel))
        steps = np.arange(1, len(KERNELS) * n_levels + 1)
        levels = (GOLDEN * steps % 1).reshape(len(KERNELS), n_levels)
        # As many signals as hold the outputs that are looked at, spread over all.
        n_rows = min(n, -(-4 * SAMPLED // length))
        rows = (np.arange(n_rows) * n) // n_rows
        for differences in views:
            for number, dilation in enumerate(dilations):
                weights = _over_channels(channels, number).astype(signals.dtype)
                empty = np.empty((len(KERNELS), 0), signals.dtype)
                bank = Bank(differences, int(dilation), weights, empty, empty)
                found = [
                    outputs[:, _times(counts, outputs.shape[2])]
                    for _, outputs, counts in _outputs(
                        bank, signals[rows], lengths[rows]
                    )
                ]
                low, high = _thresholds(np.concatenate(found, axis=1), levels)
                yield bank._replace(low=low, high=high)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def pad_series(series: Sequence[ArrayLike], length: int | None = None) -> NDArray:
    """Put series that differ in length into one array, NaN after the shorter ones.

    Parameters
    ----------
    series : sequence of array-like of shape (length,) or (length, n_channels)
        One entry per sample; all have the same channels.
    length : int, default=None
        Length of the rows. None is that of the longest series; a model that is asked
        needs that of its training signals.

    Returns
    -------
    ndarray of shape (n_samples, length * n_channels)
        The series, channels last.

    Examples
    --------
    >>> from widemargin.tangents import pad_series
    >>> pad_series([[1.0, 2.0], [3.0]])
    array([[ 1.,  2.],
           [ 3., nan]])
    """
    if not isinstance(series, Iterable) or getattr(series, "ndim", 1) == 0:
        raise ValueError(
            f"series must be a sequence of arrays, one per sample; got {series!r:.100}."
        )
    found = [np.asarray(one) for one in series]
    if not found:
        raise ValueError("series must hold at least one series; it is empty.")
    if any(one.ndim not in (1, 2) for one in found):
        raise ValueError(
            "series must hold arrays of shape (length,) or (length, n_channels)."
        )
    columns = [one.reshape(len(one), -1) for one in found]
    channels = {one.shape[1] for one in columns if len(one)}
    if len(channels) > 1:
        raise ValueError(
            f"series differ in their channels, {sorted(channels)}; give all the same."
        )
    longest = max(map(len, columns))
    if length is not None and check_count("length", length) < longest:
        raise ValueError(
            f"length={length} is shorter than the longest series, {longest}; cut it."
        )
    kind = np.result_type(np.float32, *(one.dtype for one in columns))
    out = np.full(
        (len(found), length or longest, max(channels, default=1)), np.nan, kind
    )
    for row, one in zip(out, columns, strict=True):
        row[: len(one)] = one
    return out.reshape(len(out), -1)


def refuse_rows_of_nan(X: NDArray) -> None:
    """Raise ValueError where a row of X was not measured at all."""
    empty = np.isnan(X).all(axis=1)
    if empty.any():
        raise ValueError(
            f"Row {int(empty.argmax())} of X holds NaN only; leave that sample out."
        )


def _first_values(signals: NDArray) -> NDArray:
    """Where the signals (n, length, channels) begin, 0 of those that never do."""
    return (~np.isnan(signals).all(axis=2)).argmax(axis=1)


def _to_the_left(signals: NDArray, first: NDArray) -> NDArray:
    """Signals that begin at once, where they began at `first`."""
    if not first.any():
        return signals
    return np.stack(
        [np.roll(x, -k, axis=0) for x, k in zip(signals, first, strict=True)]
    )


def _interpolated(signals: NDArray, lengths: NDArray) -> NDArray:
    """Fill what is missing inside of signals, channel by channel."""
    missing = np.isnan(signals) & _inside(signals, lengths)[..., np.newaxis]
    if not missing.any():
        return signals
    filled = signals.copy()
    for row, channel in zip(*np.nonzero(missing.any(axis=1)), strict=True):
        x = filled[row, : lengths[row], channel]
        known = np.flatnonzero(~np.isnan(x))
        if len(known):
            x[:] = np.interp(np.arange(len(x)), known, x[known])
    return filled


def _inside(signals: NDArray, lengths: NDArray) -> NDArray:
    """(n, length): which times belong to a signal."""
    return np.arange(signals.shape[1]) < lengths[:, np.newaxis]


def _times(counts: NDArray, length: int) -> NDArray:
    """(n, length): which outputs count."""
    return np.arange(length) < counts[:, np.newaxis]


def _over_channels(channels: int, number: int) -> NDArray:
    """(kernels, channels·taps) weights: every kernel on some channels, added up."""
    if channels == 1:
        return KERNELS
    rng = np.random.RandomState(number)
    parts = np.zeros((len(KERNELS), channels, 1))
    for k in range(len(KERNELS)):
        # As often few channels as many: 2^u of them.
        n_meant = int(2 ** rng.uniform(0, np.log2(min(channels, TAPS) + 1)))
        parts[k, rng.permutation(channels)[:n_meant]] = 1
    return (parts * KERNELS[:, np.newaxis]).reshape(len(KERNELS), -1)


def _outputs(
    bank: Bank, signals: NDArray, lengths: NDArray, together: int = 1
) -> Iterator[tuple[slice, NDArray, NDArray]]:
    """Yield outputs (kernels, rows, times) of some signals, and how many count.

    Rows are numbered by `together`, as where several belong to one sample.
    """
    if bank.differences:
        following = np.arange(1, signals.shape[1]) < lengths[:, np.newaxis]
        signals = np.where(following[..., np.newaxis], np.diff(signals, axis=1), 0)
        # A single value is followed by nothing: it differs by 0, as a level does.
        lengths = np.maximum(1, lengths - 1)
    n, length, channels = signals.shape
    border = TAPS // 2 * bank.dilation
    size = max(1, AT_ONCE // (len(KERNELS) * length * together))
    for samples in batched_slices(n // together, size):
        rows = slice(samples.start * together, samples.stop * together)
        x = np.moveaxis(signals[rows], 2, 0)
        x = np.pad(x, ((0, 0), (0, 0), (border, border)))
        starts = range(0, TAPS * bank.dilation, bank.dilation)
        taps = np.stack([x[:, :, k : k + length] for k in starts], axis=1)
        outputs = bank.weights @ taps.reshape(channels * TAPS, -1)
        yield samples, outputs.reshape(len(KERNELS), -1, length), lengths[rows]


def _thresholds(outputs: NDArray, levels: NDArray) -> tuple[NDArray, NDArray]:
    """Quantiles of outputs (kernels, m) around levels (kernels, n_levels)."""
    m = outputs.shape[1]
    if m > SAMPLED:
        outputs = outputs[:, (GOLDEN * np.arange(SAMPLED) % 1 * m).astype(int)]
    ordered = np.sort(outputs, axis=1)
    low, high = (
        np.take_along_axis(
            ordered,
            np.rint(np.clip(shares, 0, 1) * (ordered.shape[1] - 1)).astype(int),
            axis=1,
        )
        for shares in (levels - SOFTNESS, levels + SOFTNESS)
    )
    # Outputs that differ by rounding are the same output.
    least = 1e-4 * np.abs(ordered).max(axis=1, keepdims=True, initial=1e-3)
    return low, np.maximum(high, low + least)


def _shares(outputs: NDArray, counts: NDArray, bank: Bank) -> NDArray:
    """(rows, kernels·levels) mean of what lies between two thresholds, in [0, 1]."""
    length = outputs.shape[2]
    short = None if (counts == length).all() else _times(counts, length)
    features = np.empty((outputs.shape[1], *bank.low.shape), outputs.dtype)
    room = np.empty_like(outputs)
    for level, (low, high) in enumerate(zip(bank.low.T, bank.high.T, strict=True)):
        a, b = low[:, np.newaxis, np.newaxis], high[:, np.newaxis, np.newaxis]
        np.clip(outputs, a, b, out=room)
        if short is None:
            sums = room.sum(axis=2)
        else:
            sums = np.where(short, room, 0).sum(axis=2)
        means = sums / counts
        features[:, :, level] = ((means - a[..., 0]) / (b - a)[..., 0]).T
    return features.reshape(len(features), -1)


def _slopes(outputs: NDArray, counts: NDArray, together: int, bank: Bank) -> NDArray:
    """Differentiate the shares along steps: (samples, tangents, kernels·levels)."""
    kernels, _, length = outputs.shape
    outputs = outputs.reshape(kernels, -1, together, length)
    outputs, steps = outputs[:, :, 0], outputs[:, :, 1:]
    counts = counts[::together]
    there = _times(counts, length)
    found = []
    for low, high in zip(bank.low.T, bank.high.T, strict=True):
        a, b = low[:, np.newaxis, np.newaxis], high[:, np.newaxis, np.newaxis]
        between = (outputs > a) & (outputs < b) & there
        rates = between / (counts[:, np.newaxis] * (b - a))
        found.append(np.einsum("knt,knmt->nmk", rates.astype(steps.dtype), steps))
    return np.stack(found, axis=3).reshape(*found[0].shape[:2], bank.low.size)
