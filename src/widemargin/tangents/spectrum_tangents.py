r"""Spectrum tangents: what an instrument, a powder and a solvent do to a spectrum.

Wavelengths :math:`\lambda` are centred, in units of half their range, :math:`\tau` in
[-1, 1]. Names of directions and their tangents at x:

=========  ===========================================  ==============================
direction  tangent                                      what it is
=========  ===========================================  ==============================
gain       x                                            path length, coarse powder
scatter    :math:`\tau x`                               gain that depends on wavelength
shift      :math:`dx/d\lambda`                          the axis is off
stretch    :math:`\tau\,dx/d\lambda`                    the axis is stretched
offset     1                                            baseline
slope      :math:`\tau`                                 baseline
curvature  :math:`\tau^2` less its mean                 baseline
cubic      :math:`\tau^3` less its slope                baseline
=========  ===========================================  ==============================

Known interferents, spectra of water, a solvent or a substrate, are constant directions,
as the "bad spectra" of extended multiplicative signal correction; and what two
instruments, or two temperatures, do differently is learned from samples that were
measured on both. Shapes: X (n, d), tangents (n, l, d).

Reference: H. Martens, E. Stark, Extended multiplicative signal correction and spectral
interference subtraction, J. Pharm. Biomed. Anal. 9 (1991).
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import as_matrix, check_option
from widemargin._core.params import Counted, parameters
from widemargin.tangents.bundle import Blocks
from widemargin.tangents.generator import TangentGenerator, less_one_name
from widemargin.tangents.learned import LearnedTangents
from widemargin.tangents.signal import SignalTangents
from widemargin.tangents.spectra import check_wavelengths

# Of a spectrum, its derivative and the axis.
DIRECTIONS: dict[str, Callable[[NDArray, NDArray, NDArray], NDArray]] = {
    "gain": lambda x, slope, tau: x,
    "scatter": lambda x, slope, tau: tau * x,
    "shift": lambda x, slope, tau: slope,
    "stretch": lambda x, slope, tau: tau * slope,
    "offset": lambda x, slope, tau: np.ones_like(x),
    "slope": lambda x, slope, tau: tau + 0 * x,
    "curvature": lambda x, slope, tau: tau**2 - np.mean(tau**2) + 0 * x,
    "cubic": lambda x, slope, tau: (
        tau**3 - tau * np.mean(tau**4) / np.mean(tau**2) + 0 * x
    ),
}
MOVES = ("shift", "stretch")


@parameters
class SpectrumTangents(TangentGenerator):
    """Tangents of spectra: gain, baselines, wavelength errors, known interferents.

    Parameters
    ----------
    directions : str or sequence of str, default=("gain", "offset", "slope")
        Names out of "gain", "scatter", "shift", "stretch", "offset", "slope",
        "curvature" and "cubic". Name what carries no meaning in the data at hand.
    wavelengths : array-like of shape (n_wavelengths,), default=None
        The axis, ascending; it need not be even. None is 0, 1, 2, ...
    interferents : array-like of shape (n_interferents, n_wavelengths), default=None
        Spectra of what may be there in any amount: water, a solvent, a substrate.
    pairs : tuple of two array-likes of shape (n_pairs, n_wavelengths), default=None
        Spectra of the same samples on two instruments, or at two temperatures, row by
        row: the main directions of their differences are tangents.
    n_differences : int, default=1
        How many directions are learned from `pairs`.
    sigma : float or "auto", default="auto"
        Standard deviation, in wavelengths, of the Gaussian that smooths a spectrum
        before it is differentiated, see :class:`SignalTangents`.

    Attributes
    ----------
    n_features_in_ : int
        Number of wavelengths.

    See Also
    --------
    SignalTangents : Several channels, warps.
    LearnedTangents : Directions of the differences between neighbours.
    StandardNormalVariate, MultiplicativeScatterCorrection, SavitzkyGolay : Correct
        every spectrum by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import SpectrumTangents
    >>> water = [[0.0, 1.0, 0.0, 0.0]]
    >>> drift = SpectrumTangents("gain", interferents=water)
    >>> drift.tangents([[1.0, 2.0, 3.0, 4.0]])
    array([[[1., 2., 3., 4.],
            [0., 1., 0., 0.]]])
    """

    directions: str | Sequence[str] = ("gain", "offset", "slope")
    _: KW_ONLY
    wavelengths: Any = None
    interferents: Any = None
    pairs: Any = None
    n_differences: Counted = 1
    sigma: float | Literal["auto"] = "auto"

    @property
    def n_tangents(self) -> int:
        """Number of directions, interferents and learned differences."""
        extra = (
            0 if self.interferents is None else len(np.atleast_2d(self.interferents))
        )
        learned = 0 if self.pairs is None else int(self.n_differences)
        return len(self._names()) + extra + learned

    @property
    def is_affine(self) -> bool:
        """True: every direction is linear in the spectrum or the same for all."""
        self._names()
        return True

    def _names(self) -> tuple[str, ...]:
        given = self.directions
        if not isinstance(given, str | list | tuple | set | frozenset):
            raise ValueError(
                f"directions must be a name or several of {', '.join(DIRECTIONS)}; got "
                f"{given!r}."
            )
        names = (given,) if isinstance(given, str) else tuple(given)
        if not names and self.interferents is None and self.pairs is None:
            raise ValueError(
                "directions must name at least one, where there are neither "
                f"interferents nor pairs; known are {', '.join(DIRECTIONS)}."
            )
        return tuple(check_option("directions", name, DIRECTIONS) for name in names)

    def less_one(self) -> list[Self]:  # noqa: D102
        return less_one_name(self, self._names())

    def _tangents_of(self, X: NDArray, y: ArrayLike | None) -> Blocks:
        n_features, names = X.shape[1], self._names()
        axis = np.arange(float(n_features))
        if self.wavelengths is not None:
            axis = check_wavelengths(self.wavelengths, n_features)
        tau = 2 * (axis - axis.mean()) / (np.ptp(axis) or 1.0)
        # An even axis in its own step: a shift of one is one wavelength.
        per_entry = (
            np.gradient(axis) / (np.ptp(axis) / (n_features - 1 or 1) or 1.0)
            if n_features > 1
            else np.ones(1)
        )
        constant = self._constant(n_features).astype(X.dtype)
        moves = SignalTangents("shift", sigma=self.sigma)

        def tangents_of(rows: slice) -> NDArray:
            x = X[rows].astype(float)
            slope = x
            if set(names) & set(MOVES):
                slope = moves._line(x).slope(x) / per_entry
            own = [DIRECTIONS[name](x, slope, tau) for name in names]
            shared = np.broadcast_to(constant, (len(x), *constant.shape))
            varying = np.reshape(own, (len(names), len(x), n_features))
            parts = varying.swapaxes(0, 1).astype(X.dtype), shared
            return np.concatenate(parts, axis=1)

        return tangents_of

    def _constant(self, n_features: int) -> NDArray:
        """Return interferents and the differences of pairs, (m, n_features)."""
        rows = [np.empty((0, n_features))]
        if self.interferents is not None:
            rows.append(
                _spectra("interferents", np.atleast_2d(self.interferents), n_features)
            )
        if self.pairs is not None:
            rows.append(self._differences(n_features))
        return np.concatenate(rows)

    def _differences(self, n_features: int) -> NDArray:
        if not isinstance(self.pairs, tuple | list) or len(self.pairs) != 2:
            raise ValueError(
                "pairs must be two arrays, the same samples measured twice, row by row."
            )
        one, other = (_spectra("pairs", half, n_features) for half in self.pairs)
        if len(one) != len(other):
            raise ValueError(
                f"pairs must have the same samples in both arrays; got {len(one)} and "
                f"{len(other)} rows."
            )
        # Every pair is a class of two: the nearest of the class is the partner.
        learned = LearnedTangents(self.n_differences)
        same = np.tile(np.arange(len(one)), 2)
        return learned.fit(np.concatenate([one, other]), same).tangents_


def _spectra(name: str, values: Any, n_features: int) -> NDArray:
    found = as_matrix(name, values).astype(float)
    if found.shape[1] != n_features:
        raise ValueError(
            f"{name} must have the {n_features} wavelengths of X; got "
            f"{found.shape[1]}. resample_spectra brings them to one axis."
        )
    return found
