"""Spectra in one line: six preprocessings, a ridge regression on each, their mean.

Which preprocessing suits a spectrum is seldom known, and few labels do not tell. So
each has a vote: the spectrum as it is, its first and its second derivative by Savitzky
and Golay, and the three with offset and gain taken out, by the standard normal variate.
Each meets ridge regressions whose penalty left-out samples choose; see
:mod:`~widemargin.linear.feature_ridge` for the formula. Shapes: X (n, n_wavelengths).

Reference: Å. Rinnan, F. van den Berg, S. B. Engelsen, Review of the most common
pre-processing techniques for near-infrared spectra, Trends Anal. Chem. 28 (2009).
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import is_auto
from widemargin._core.classifier import fit_method
from widemargin._core.params import check_declared, parameters
from widemargin._core.samples import check_samples, check_X, distinct_rows
from widemargin.linear.feature_ridge import FeatureRidge
from widemargin.tangents.spectra import (
    SavitzkyGolay,
    StandardNormalVariate,
    check_wavelengths,
    even_step,
)

# Windows of the first and of the second derivative, and degrees of their polynomials.
FIRST, SECOND = (11, 2), (15, 3)
# Fewer features than these are no spectrum, and are taken as they are.
LEAST = 5


@parameters
class SpectrumClassifier(FeatureRidge):
    """Classifier of spectra: several preprocessings, a ridge regression on each.

    Parameters
    ----------
    preprocessing : "auto" or sequence of transformers, default="auto"
        What spectra go through, one after another each, before the regressions; their
        mean answers. "auto" are six: the spectrum, its first and its second derivative,
        each without and with standard normal variate.
    wavelengths : array-like of shape (n_wavelengths,), default=None
        The axis: ascending and, for derivatives, even. It is checked, and nothing else
        depends on it. None says that features follow each other in equal steps.
    alpha : float or "auto", default="auto"
        Penalty of the coefficients. "auto" takes for each preprocessing that of the
        least squared error of left-out training samples.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the samples of each class.

    Attributes
    ----------
    preprocessing_ : list of transformers
        The fitted preprocessings.
    alphas_ : ndarray of shape (n_preprocessings,)
        The penalty of each.
    coef_ : ndarray of shape (n_classes, n_features_out) or (1, n_features_out)
        Coefficients of what the preprocessings give, side by side; for two classes
        those of ``classes_[1]``.
    center_ : ndarray of shape (n_features_out,)
        Mean of the same, which is subtracted from it.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        What is added.
    temperature_ : float
        Always 1: slopes and intercepts were fitted to left-out training samples, so
        that differences of scores are log-odds.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_in_ : int
        Number of wavelengths.

    See Also
    --------
    widemargin.tangents.SavitzkyGolay, widemargin.tangents.StandardNormalVariate : \
        The preprocessings, for other classifiers.
    widemargin.tangents.SpectrumTangents : Gain, baseline and interferents, for \
        tangent distances.
    widemargin.SignalClassifier : Classifies by shapes that may be anywhere.

    Notes
    -----
    Left-out samples choose the penalties and the unit of the scores, in closed form.
    Computations are in float64 whatever the dtype, as derivatives of smooth spectra are
    small differences of large numbers.

    References
    ----------
    Å. Rinnan, F. van den Berg, S. B. Engelsen, Review of the most common pre-processing
    techniques for near-infrared spectra, Trends Anal. Chem. 28 (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SpectrumClassifier
    >>> rng, w = np.random.default_rng(0), np.linspace(-1, 1, 100)
    >>> y = np.repeat([0, 1], 20)
    >>> bands = np.exp(-(((w - 0.1 * y[:, np.newaxis]) / 0.3) ** 2))
    >>> gain, offset = rng.uniform(0.5, 2, (40, 1)), rng.normal(size=(40, 1))
    >>> X = gain * bands + offset + rng.normal(0, 0.01, (40, 100))
    >>> model = SpectrumClassifier().fit(X[::4], y[::4])
    >>> model.score(X[1::4], y[1::4])
    1.0
    """

    preprocessing: Any = "auto"
    _: KW_ONLY
    wavelengths: Any = None

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Preprocess the spectra and fit the regressions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_wavelengths)
            Training spectra.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        self : SpectrumClassifier
            The fitted classifier.
        """
        check_declared(self)
        samples = check_samples(self, X, y, sample_weight)
        chains = self._chains(samples.X.shape[1])
        self.classes_ = samples.classes
        first, weights = distinct_rows(samples)
        samples = samples.take(first)
        spectra = samples.X.astype(float)
        with FitTasks(self, 2, X=X, y=y, sample_weight=sample_weight) as tasks:
            with tasks.whole("preprocessing"):
                fitted = [clone(chain).fit(spectra, samples.labels) for chain in chains]
                views = [np.asarray(chain.transform(spectra)) for chain in fitted]
            with tasks.whole("regression"):
                alphas = self._fit_planes(views, samples, weights)
        self.preprocessing_, self.alphas_ = fitted, np.array(alphas)[:, 0]
        self._dtype = samples.X.dtype
        return self

    def _chains(self, n: int) -> list[Any]:
        """Return the preprocessings that were asked for, not fitted."""
        if self.wavelengths is not None:
            axis = check_wavelengths(self.wavelengths, n)
        if not isinstance(self.preprocessing, str):
            return _checked(self.preprocessing)
        if not is_auto(self.preprocessing):
            raise ValueError(
                "preprocessing must be 'auto' or a sequence of transformers; got "
                f"{self.preprocessing!r}."
            )
        if n < LEAST:
            return [FunctionTransformer()]
        if self.wavelengths is not None:
            even_step(axis, "SpectrumClassifier(preprocessing='auto')")
        chains: list[Any] = [FunctionTransformer(), StandardNormalVariate()]
        for derivative, (window, degree) in ((1, FIRST), (2, SECOND)):
            window = min(window, n - 1 + n % 2)
            filter_ = SavitzkyGolay(window, degree, derivative)
            chains += [filter_, make_pipeline(filter_, StandardNormalVariate())]
        return chains

    def _features(self, X: Any) -> NDArray:
        X = check_X(self, X).astype(float)
        views = [np.asarray(chain.transform(X)) for chain in self.preprocessing_]
        return np.hstack(views)

    def _class_scores(self, X: Any) -> NDArray:
        return super()._class_scores(X).astype(self._dtype)


def _checked(chains: Any) -> list[Any]:
    """Return transformers as a list, or say what was wanted."""
    if not isinstance(chains, Sequence) or not chains:
        raise TypeError(
            "preprocessing must be 'auto' or a sequence of transformers, such as "
            f"[SavitzkyGolay(), StandardNormalVariate()]; got {chains!r}."
        )
    for chain in chains:
        if not (hasattr(chain, "fit") and hasattr(chain, "transform")):
            raise TypeError(f"preprocessing holds {chain!r}, which is no transformer.")
    return list(chains)
