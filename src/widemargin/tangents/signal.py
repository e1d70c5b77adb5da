r"""Signal tangents: what delays, stretches and drifting baselines do to a signal.

A displacement of time moves the signal, :math:`t(x, p)(u) = x(u + p\,f(u))`, so its
tangent is :math:`f x'`; a baseline is added, and its tangent is the baseline. Time
:math:`\tau` is centred, in units of half the length; s runs from 0 to 1.

==========  ======================================  ==================
direction   tangent                                 in x
==========  ======================================  ==================
shift       :math:`x'`                              linear
scale       :math:`\tau x'`                         linear
warp        :math:`\sin(\pi s)\, x'`                linear
warp2       :math:`\sin(2 \pi s)\, x'`              linear
amplitude   x                                       linear
offset      1                                       constant
slope       :math:`\tau`                            constant
curvature   :math:`\tau^2` less its mean            constant
==========  ======================================  ==================

The derivative is the slope of a line fitted with Gaussian weights around each sample
(Cleveland: Robust locally weighted regression, 1979, without the robustness). Inside
the signal that is the derivative of the Gaussian-smoothed signal; at its ends it still
gives a ramp its slope, where padding would invent a jump.
Arrays: X (n, length·channels), channels last; tangents (n, l, length·channels).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import correlate1d
from sklearn.base import BaseEstimator

from widemargin._compute.engines import formula
from widemargin._core.arrays import ArrayDispatchMixin, beside, in_dtype, numpy_dtype
from widemargin._core.checks import check_count, check_flag, check_number
from widemargin._core.params import (
    Count,
    Counted,
    Number,
    check_declared,
    parameters,
)
from widemargin.tangents.bundle import Blocks, as_samples, like
from widemargin.tangents.generator import (
    DEVICE_METHODS,
    DirectionalTangents,
    check_sigma,
)
from widemargin.tangents.preparing import gaussian_weights

# Displacement of time as a function of centred time tau and of s in [0, 1].
FIELDS: dict[str, Callable] = {
    "shift": lambda tau, s: np.ones_like(tau),
    "scale": lambda tau, s: tau,
    "warp": lambda tau, s: np.sin(np.pi * s),
    "warp2": lambda tau, s: np.sin(2 * np.pi * s),
}
BASELINES: dict[str, Callable] = {
    "offset": lambda tau: np.ones_like(tau),
    "slope": lambda tau: tau,
    "curvature": lambda tau: tau**2 - np.mean(tau**2),
}


@parameters
class SignalTangents(DirectionalTangents):
    """Tangents of one-dimensional signals: time series, spectra, pen strokes.

    Parameters
    ----------
    directions : str or sequence of str, default=("shift", "scale")
        Names out of "shift", "scale", "warp" and "warp2" (displacements of time, the
        warps vanishing at both ends), "amplitude", and the baselines "offset", "slope"
        and "curvature". Name only what carries no meaning in the data at hand.
    sigma : float or "auto", default="auto"
        Standard deviation, in samples, of the Gaussian that smooths the signal before
        it is differentiated; 0 takes differences of neighbours. "auto" is
        ``sqrt(length) / 8``: 1 at 64 samples, 4 at 1024.
    n_channels : int, default=1
        Signals recorded together; a row of `X` is the array (length, n_channels)
        flattened in C order. Time moves all channels alike, amplitude scales them
        alike; every baseline gives one tangent per channel.

    Notes
    -----
    A shift of p is p samples; the other displacements are p samples where they are
    largest.

    Amplitude is for distances with tangents at one end. With tangents at both ends two
    signals can both be scaled to zero. Every distance is then nearly zero, unless a
    stiff spring holds them. Distances and estimators warn of it.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import SignalTangents
    >>> ramp = np.arange(6.0).reshape(1, -1)
    >>> SignalTangents(directions="shift").tangents(ramp).round(6)
    array([[[1., 1., 1., 1., 1., 1.]]])
    """

    device_methods = DEVICE_METHODS
    _known = (*FIELDS, "amplitude", *BASELINES)
    _not_linear: ClassVar = dict.fromkeys(BASELINES, "is the same for every signal")

    directions: str | Sequence[str] = ("shift", "scale")
    sigma: float | Literal["auto"] = "auto"
    n_channels: int = 1

    @property
    def n_tangents(self) -> int:
        """Number of directions, baselines counted once per channel."""
        names = self._names()
        n_baselines = sum(name in BASELINES for name in names)
        return len(names) + n_baselines * (self.n_channels - 1)

    @property
    def is_affine(self) -> bool:
        """True: every direction is linear in the signal or the same for all."""
        self._names()
        return True

    def _linear(self, name: str, vectors: NDArray, transpose: bool) -> NDArray:
        line = self._line(vectors)
        if name == "amplitude":
            return vectors + 0
        field = line.field(name)
        if transpose:
            return line.slope(field * vectors, transpose=True)
        return field * line.slope(vectors)

    def _line(self, X: NDArray) -> "_Line":
        n_features = X.shape[1]
        channels = check_count("n_channels", self.n_channels)
        if n_features % channels:
            raise ValueError(
                f"n_channels={channels} does not divide the {n_features} features of "
                "X; a row of X holds length * n_channels numbers."
            )
        length = n_features // channels
        if length < 2:
            raise ValueError(
                f"SignalTangents needs at least 2 samples of time; {n_features} "
                f"features and n_channels={channels} leave {length}."
            )
        sigma = check_sigma(self.sigma, np.sqrt(length) / 8, length)
        return _Line(length, channels, sigma, X)

    def _tangents_of(self, X: NDArray, y: ArrayLike | None) -> Blocks:
        names = self._names()
        line = self._line(X)

        def tangents_of(rows: slice) -> NDArray:
            signals = X[rows]
            slope = line.slope(signals)
            out = like((len(signals), self.n_tangents, X.shape[1]), X)
            k = 0
            for name in names:
                if name in BASELINES:
                    baselines = line.baselines(name)
                    out[:, k : k + len(baselines)] = baselines
                    k += len(baselines)
                else:
                    out[:, k] = (
                        signals if name == "amplitude" else line.field(name) * slope
                    )
                    k += 1
            return out

        return tangents_of


@parameters
class SignalShift(ArrayDispatchMixin, BaseEstimator):
    """Shift every signal in time; its first and last values go on beyond its ends.

    Parameters
    ----------
    steps : int, default=1
        Steps of time to move by; negative moves to earlier times.
    cyclic : bool, default=False
        What leaves at one end comes in at the other, as for outlines and periods.
    n_channels : int, default=1
        Signals recorded together; a row of `X` is the array (length, n_channels)
        flattened in C order.

    See Also
    --------
    signal_shifts : Several of them, as `transformations` of a classifier.

    Examples
    --------
    >>> from widemargin.tangents import SignalShift
    >>> SignalShift(1)([[1.0, 2.0, 3.0]])
    array([[1., 1., 2.]])
    >>> SignalShift(1, cyclic=True)([[1.0, 2.0, 3.0]])
    array([[3., 1., 2.]])
    """

    steps: Annotated[int, Count(low=-(2**31))] = 1
    cyclic: bool = False
    n_channels: Counted = 1

    def __call__(self, X: ArrayLike) -> NDArray:
        """Return the shifted signals."""
        check_declared(self)
        signals = _in_time(as_samples(X), self.n_channels)
        length = signals.shape[1]
        at = np.arange(length) - self.steps
        at = at % length if self.cyclic else np.clip(at, 0, length - 1)
        return signals[:, at].reshape(len(signals), -1)


@parameters
class SignalStretch(ArrayDispatchMixin, BaseEstimator):
    """Stretch every signal about its middle, linearly between its values.

    Parameters
    ----------
    factor : float, default=1.1
        Above 1 it becomes longer, and its ends are cut off; below 1 shorter, and its
        first and last values go on.
    n_channels : int, default=1
        Signals recorded together; a row of `X` is the array (length, n_channels)
        flattened in C order.

    See Also
    --------
    SignalShift : Moves signals.

    Examples
    --------
    >>> from widemargin.tangents import SignalStretch
    >>> SignalStretch(2.0)([[0.0, 1.0, 2.0, 3.0, 4.0]])
    array([[1. , 1.5, 2. , 2.5, 3. ]])
    """

    factor: Annotated[float, Number(at_least=1e-6, at_most=1e6)] = 1.1
    n_channels: Counted = 1

    def __call__(self, X: ArrayLike) -> NDArray:
        """Return the stretched signals."""
        check_declared(self)
        signals = _in_time(as_samples(X), self.n_channels)
        length = signals.shape[1]
        middle = (length - 1) / 2
        at = (np.arange(length) - middle) / self.factor + middle
        at = np.clip(at, 0, length - 1)
        before = np.minimum(at.astype(int), max(0, length - 2))
        after = np.minimum(before + 1, length - 1)
        share = (at - before).astype(signals.dtype)[:, np.newaxis]
        moved = signals[:, before] * (1 - share) + signals[:, after] * share
        return moved.reshape(len(signals), -1)


def _in_time(X: NDArray, n_channels: int) -> NDArray:
    """(n, length, channels) of rows of samples."""
    if X.shape[1] % n_channels:
        raise ValueError(
            f"n_channels={n_channels} does not divide the {X.shape[1]} features of X; "
            "a row of X holds length * n_channels numbers."
        )
    return X.reshape(len(X), -1, n_channels)


def signal_shifts(
    length: int,
    reach: float = 0.1,
    *,
    n_shifts: int = 10,
    cyclic: bool = False,
    n_channels: int = 1,
) -> list[SignalShift]:
    """Shifts that spread evenly over a window, the signal itself left out.

    Parameters
    ----------
    length : int
        Steps of time of a signal.
    reach : float, default=0.1
        Largest shift, as a share of the length; 0.5 with `cyclic` is any shift.
    n_shifts : int, default=10
        How many at most. Tangents do what is between two.
    cyclic : bool, default=False
        What leaves at one end comes in at the other.
    n_channels : int, default=1
        Signals recorded together.

    Returns
    -------
    list of SignalShift

    Examples
    --------
    >>> from widemargin.tangents import signal_shifts
    >>> [shift.steps for shift in signal_shifts(100, n_shifts=4)]
    [-10, -5, 5, 10]
    """
    farthest = check_count("length", length) * check_number(
        "reach", reach, at_least=0, at_most=1
    )
    count = check_count("n_shifts", n_shifts)
    steps = np.linspace(-farthest, farthest, count + 1).astype(int)
    return [
        SignalShift(int(k), check_flag("cyclic", cyclic), n_channels)
        for k in np.unique(steps)
        if k
    ]


class _Line:
    """The time axis: fields and baselines on it, and the derivative along it.

    With the weights g at the offsets k that exist around a sample, the fitted slope is
    Σ g (k - k̄) x / Σ g (k - k̄)², where k̄ = Σ g k / Σ g. Written as two correlations,
    ``(Σ g k x - k̄ Σ g x) * scale``, it needs no matrix.
    """

    def __init__(self, length: int, channels: int, sigma: float, X: NDArray):
        self.length, self.channels = length, channels
        self.alike = partial(beside, X[:0], alike=True)
        self.tau = (np.arange(length) - (length - 1) / 2) / (length / 2)
        k, g = gaussian_weights(sigma)
        # Scaled to be of order one, lest the weights of a tiny sigma underflow.
        self.smooth, self.differ = g / g.sum(), k * g / (k**2 @ g)
        present = np.ones((1, length, 1))
        mass, first, second, shift = (
            correlate(present, weights)
            for weights in (self.smooth, self.differ, k * self.differ, k * self.smooth)
        )
        pull = first / mass
        self.pull = beside(X, pull)
        self.scale = beside(X, 1 / (second - pull * shift))

    def slope(self, signals: Any, transpose: bool = False) -> NDArray:
        """Differentiate every signal, or apply the transpose of that linear map."""
        x = signals.reshape(len(signals), self.length, self.channels)
        if transpose:
            x = self.scale * x
            out = correlate(x, self.differ[::-1]) - correlate(
                self.pull * x, self.smooth
            )
        else:
            smooth = self.pull * correlate(x, self.smooth)
            out = self.scale * (correlate(x, self.differ) - smooth)
        return in_dtype(out.reshape(len(signals), -1), numpy_dtype(signals))

    def field(self, name: str) -> NDArray:
        s = np.arange(self.length) / (self.length - 1)
        field = np.repeat(FIELDS[name](self.tau, s), self.channels)
        return self.alike(field)

    def baselines(self, name: str) -> NDArray:
        rows = np.kron(BASELINES[name](self.tau), np.eye(self.channels))
        return self.alike(rows)


@formula
def correlate(x: NDArray, weights: NDArray) -> NDArray:
    """Sum of weights times what surrounds each sample of (n, length, channels)."""
    return correlate1d(x, weights, axis=1, mode="constant", output=np.float64)
