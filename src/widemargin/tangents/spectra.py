r"""Spectra made ready as chemists do: scatter taken out, derivatives, one axis.

A powder scatters light: its spectrum x comes with a gain and an offset of its own,
:math:`x = a + b\,c`. The standard normal variate takes mean and spread for them,

.. math:: x' = \frac{x - \bar x}{s_x},

multiplicative scatter correction the regression on a reference r, the mean spectrum,

.. math:: x' = \bar r + \frac{x - \bar x}{b}, \qquad
          b = \frac{\sum (x - \bar x)(r - \bar r)}{\sum (r - \bar r)^2},

and derivatives, of polynomials fitted to a window around each wavelength, know neither
offset (the first) nor slope (the second). scipy has that filter, as a function; the
other two are in neither scipy nor scikit-learn. X is (n, n_wavelengths).

References: R. J. Barnes, M. S. Dhanoa, S. J. Lister, Standard normal variate
transformation, Appl. Spectrosc. 43 (1989); P. Geladi, D. MacDougall, H. Martens,
Linearization and scatter-correction, Appl. Spectrosc. 39 (1985); A. Savitzky, M. J. E.
Golay, Anal. Chem. 36 (1964).
"""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from widemargin._core.checks import (
    as_float_vector,
    as_matrix,
    check_count,
)
from widemargin._core.params import Counted, check_declared, parameters
from widemargin._core.samples import check_rows
from widemargin.tangents.preparing import KeepsKind

# Steps of an axis that differ by less of their mean are equal.
EVEN = 0.01
# A spread below this share of the largest value is rounding, and so is such a gain.
FLAT, NO_GAIN = 1e-14, 1e-9


class _Spectral(KeepsKind, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of transformers of spectra: a subclass has `_transformed`."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters against spectra.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_wavelengths)
            Spectra.
        y : None
            Ignored.

        Returns
        -------
        self : transformer
            The transformer itself.
        """
        check_declared(self)
        self._learn(check_rows(self, X).astype(float))
        return self

    def transform(self, X: Any) -> NDArray:
        """Correct spectra.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_wavelengths)
            Spectra.

        Returns
        -------
        ndarray of shape (n_samples, n_wavelengths)
            float32 if `X` is float32, else float64.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        # Derivatives of smooth spectra are small differences of large numbers.
        return self._transformed(X.astype(float)).astype(X.dtype, copy=False)

    def _learn(self, X: NDArray) -> None:
        """Look at the training spectra."""

    def _transformed(self, X: NDArray) -> NDArray:
        raise NotImplementedError


class StandardNormalVariate(_Spectral):
    """Subtract from every spectrum its mean and divide it by its standard deviation.

    Attributes
    ----------
    n_features_in_ : int
        Number of wavelengths.

    See Also
    --------
    MultiplicativeScatterCorrection : Takes the mean spectrum as a reference.

    Notes
    -----
    A spectrum that is constant becomes zero.

    Examples
    --------
    >>> from widemargin.tangents import StandardNormalVariate
    >>> StandardNormalVariate().fit_transform([[1.0, 3.0], [10.0, 50.0]])
    array([[-1.,  1.],
           [-1.,  1.]])
    """

    def _transformed(self, X: NDArray) -> NDArray:
        centred = X - X.mean(axis=1, keepdims=True)
        spread = X.std(axis=1, keepdims=True)
        flat = spread <= FLAT * np.abs(X).max(axis=1, keepdims=True)
        return np.where(flat, 0.0, centred / np.where(flat, 1.0, spread))


class MultiplicativeScatterCorrection(_Spectral):
    """Take out of every spectrum its offset and gain, relative to the mean spectrum.

    Attributes
    ----------
    reference_ : ndarray of shape (n_wavelengths,)
        Mean of the training spectra.
    n_features_in_ : int
        Number of wavelengths.

    See Also
    --------
    StandardNormalVariate : Needs no reference.
    SpectrumTangents : Says the same of pairs of spectra, to a distance.

    Notes
    -----
    A spectrum that has nothing in common with the reference, a constant one for
    instance, is only shifted to its mean.

    Examples
    --------
    >>> from widemargin.tangents import MultiplicativeScatterCorrection
    >>> X = [[0.0, 1.0, 0.0], [1.0, 3.0, 1.0], [2.0, 5.0, 2.0]]
    >>> MultiplicativeScatterCorrection().fit_transform(X)
    array([[1., 3., 1.],
           [1., 3., 1.],
           [1., 3., 1.]])
    """

    def _learn(self, X: NDArray) -> None:
        self.reference_ = X.mean(axis=0)

    def _transformed(self, X: NDArray) -> NDArray:
        mean = self.reference_.mean()
        shape = self.reference_ - mean
        centred = X - X.mean(axis=1, keepdims=True)
        gain = centred @ shape / (shape @ shape or 1.0)
        gain = np.where(np.abs(gain) < NO_GAIN, 1.0, gain)
        return mean + centred / gain[:, np.newaxis]


@parameters
class SavitzkyGolay(_Spectral):
    """Smooth spectra or differentiate them, by polynomials fitted to a moving window.

    Parameters
    ----------
    window : int, default=11
        Wavelengths in the window; an odd number.
    degree : int, default=2
        Degree of the polynomial.
    derivative : int, default=1
        Which derivative of the polynomial: 0 smooths, 1 takes offsets out, 2 offsets
        and slopes.
    wavelengths : array-like of shape (n_wavelengths,), default=None
        The axis, evenly spaced: derivatives are by its unit. None is 0, 1, 2, ...

    Attributes
    ----------
    n_features_in_ : int
        Number of wavelengths.

    See Also
    --------
    scipy.signal.savgol_filter : The function that does it.

    Examples
    --------
    >>> from widemargin.tangents import SavitzkyGolay
    >>> SavitzkyGolay(window=3).fit_transform([[1.0, 4.0, 9.0, 16.0]]).round(6)
    array([[2., 4., 6., 8.]])
    """

    window: Counted = 11
    degree: int = 2
    derivative: int = 1
    _: KW_ONLY
    wavelengths: Any = None

    def _learn(self, X: NDArray) -> None:
        self._check(X.shape[1])

    def _check(self, n: int) -> dict[str, Any]:
        degree = check_count("degree", self.degree, low=0)
        derivative = check_count("derivative", self.derivative, low=0)
        if self.window % 2 == 0 or self.window > n:
            raise ValueError(
                f"window must be odd and at most the {n} wavelengths of X, such as "
                f"{min(11, n - 1 + n % 2)}; got {self.window}."
            )
        if not derivative <= degree < self.window:
            raise ValueError(
                "derivative <= degree < window must hold; got "
                f"derivative={derivative}, degree={degree}, window={self.window}."
            )
        step = 1.0
        if self.wavelengths is not None:
            step = even_step(check_wavelengths(self.wavelengths, n), "SavitzkyGolay")
        return {
            "window_length": self.window, "polyorder": degree, "deriv": derivative,
            "delta": step,
        }  # fmt: skip

    def _transformed(self, X: NDArray) -> NDArray:
        # Imported here: scipy.signal takes a fifth of a second.
        from scipy.signal import savgol_filter

        return savgol_filter(X, axis=1, **self._check(X.shape[1]))


def check_wavelengths(wavelengths: Any, n_features: int | None = None) -> NDArray:
    """Return an axis that ascends, of as many wavelengths as spectra have features."""
    if np.ndim(wavelengths) != 1:
        raise ValueError(
            "wavelengths must be one number for each column of X, an array of shape "
            f"(n_wavelengths,); got shape {np.shape(wavelengths)}."
        )
    axis = as_float_vector("wavelengths", wavelengths)
    if n_features is not None and len(axis) != n_features:
        raise ValueError(
            f"wavelengths has {len(axis)} entries and X has {n_features} features; "
            "files with axes of their own come to one by resample_spectra(X, "
            "wavelengths, onto)."
        )
    if not (np.diff(axis) > 0).all():
        if len(axis) > 1 and (np.diff(axis) < 0).all():
            raise ValueError(
                "wavelengths must ascend and these descend; turn both round, "
                "X[:, ::-1] and wavelengths[::-1]."
            )
        at = int(np.argmax(np.diff(axis) <= 0)) + 1
        raise ValueError(
            f"wavelengths must ascend; entry {at}, {axis[at]:g}, does not exceed the "
            f"one before, {axis[at - 1]:g}. Sort them, and the columns of X, alike."
        )
    return axis


def even_step(axis: NDArray, owner: str) -> float:
    """Return the step of an evenly spaced axis, or refuse it."""
    steps = np.diff(axis)
    if len(steps) and np.ptp(steps) > EVEN * steps.mean():
        raise ValueError(
            f"{owner} needs evenly spaced wavelengths and these are {steps.min():g} to "
            f"{steps.max():g} apart; use resample_spectra(X, wavelengths, "
            "np.linspace(...)) first."
        )
    return float(steps.mean()) if len(steps) else 1.0


def resample_spectra(X: ArrayLike, wavelengths: ArrayLike, onto: ArrayLike) -> NDArray:
    """Bring spectra from one axis to another, linearly between wavelengths.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_wavelengths)
        Spectra.
    wavelengths : array-like of shape (n_wavelengths,)
        Their axis. It ascends.
    onto : array-like of shape (n_new,)
        The axis that is wanted, within theirs.

    Returns
    -------
    ndarray of shape (n_samples, n_new)
        In the dtype of `X`, float64 for integers.

    Examples
    --------
    >>> from widemargin.tangents import resample_spectra
    >>> resample_spectra([[1.0, 2.0, 4.0]], [900, 910, 930], [905, 920])
    array([[1.5, 3. ]])
    """
    spectra = as_matrix("X", X)
    axis = check_wavelengths(wavelengths, spectra.shape[1])
    wanted = check_wavelengths(onto)
    room = 1e-9 * (axis[-1] - axis[0])
    if wanted[0] < axis[0] - room or wanted[-1] > axis[-1] + room:
        raise ValueError(
            f"onto reaches from {wanted[0]:g} to {wanted[-1]:g} and the spectra from "
            f"{axis[0]:g} to {axis[-1]:g} only; cut it to what was measured."
        )
    out = np.array([np.interp(wanted, axis, row) for row in spectra])
    return out.reshape(len(spectra), -1).astype(spectra.dtype, copy=False)
