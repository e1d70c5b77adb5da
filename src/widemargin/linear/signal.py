r"""Signals in one line: convolution features, a hyperplane per class, probabilities.

The features f(x) of :class:`~widemargin.tangents.ConvolutionFeatures`, divided by their
spread, meet one ridge regression per class,

.. math:: s_c(x) = b_c + \sum_j B_{cj} \frac{f_j(x) - \mu_j}{\sigma_j + \bar\sigma/10},

and the largest score is the answer. What the regression says of each training sample
that is left out, in closed form, chooses the penalty, and slopes and intercepts by
which differences of scores are log-odds. Regressions of two other penalties have a
tenth each in the probabilities: where they disagree, the answer is less sure.
Shapes: X (n, length·channels), coef_ (P, K, F).

Reference: A. Dempster, D. F. Schmidt, G. I. Webb, MiniRocket: a very fast (almost)
deterministic transform for time series classification, KDD 2021.
"""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from widemargin._core.callbacks import FitTasks
from widemargin._core.classifier import fit_method
from widemargin._core.params import Counted, check_declared, parameters
from widemargin._core.samples import check_samples, distinct_rows
from widemargin.linear.feature_ridge import FeatureRidge
from widemargin.tangents.convolution_features import (
    ConvolutionFeatures,
    refuse_rows_of_nan,
)


@parameters
class SignalClassifier(FeatureRidge):
    """Classifier of time series: convolution features and a ridge regression.

    Parameters
    ----------
    n_channels : int, default=1
        Signals recorded together; a row of `X` is the array (length, n_channels)
        flattened in C order.
    n_features : int, default=5000
        About how many features there are, see
        :class:`~widemargin.tangents.ConvolutionFeatures`.
    alpha : float or "auto", default="auto"
        Penalty of the coefficients. "auto" takes that of the least squared error of
        left-out training samples, and two others of a tenth of the vote each.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the samples of each class.

    Attributes
    ----------
    features_ : ConvolutionFeatures
        The fitted features.
    coef_ : ndarray of shape (n_penalties, n_classes or 1, n_features_out)
        Coefficients of the features; for two classes those of ``classes_[1]``.
    center_ : ndarray of shape (n_features_out,)
        Mean of the features, which is subtracted from them.
    intercept_ : ndarray of shape (n_penalties, n_classes or 1)
        What is added.
    alphas_ : ndarray of shape (n_penalties,)
        The penalties, the chosen one first.
    temperature_ : float
        Always 1: slopes and intercepts were fitted to left-out training samples, so
        that differences of scores are log-odds.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    widemargin.tangents.ConvolutionFeatures : The features, for other classifiers.
    widemargin.tangents.pad_series : Series of unequal length as one array.
    widemargin.TangentKNeighborsClassifier : Answers by a nearest, aligned signal.

    Notes
    -----
    A series may be shorter than a row of `X`: NaN before and after it is not part of
    it. What :func:`~widemargin.export.to_c` and :func:`~widemargin.export.to_onnx`
    write takes series of full length only. With m the smaller of the numbers of samples
    and of features, `fit` takes memory m² and time m³.

    References
    ----------
    A. Dempster, D. F. Schmidt, G. I. Webb, MiniRocket: a very fast (almost)
    deterministic transform for time series classification, KDD 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SignalClassifier
    >>> rng, t = np.random.default_rng(0), np.linspace(0, 1, 60)
    >>> starts = rng.uniform(size=(40, 1))
    >>> X = np.sin(2 * np.pi * np.repeat([[3], [5]], 20, axis=0) * (t + starts))
    >>> y = np.repeat(["slow", "fast"], 20)
    >>> model = SignalClassifier().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2])
    1.0
    """

    _allow_nan = True
    # About a large, a middling and a small one of those that are tried; the one next to
    # the chosen is not needed.
    _beside = (2.0, 0.05, 0.001)

    n_channels: Counted = 1
    _: KW_ONLY
    n_features: Counted = 5000

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Compute the features and fit the regression.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training signals.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        self : SignalClassifier
            The fitted classifier.
        """
        check_declared(self)
        samples = check_samples(self, X, y, sample_weight)
        # Rows are named as they were given, before equal ones are one.
        refuse_rows_of_nan(samples.X)
        self.classes_ = samples.classes
        first, weights = distinct_rows(samples)
        samples = samples.take(first)
        with FitTasks(self, 2, X=X, y=y, sample_weight=sample_weight) as tasks:
            with tasks.whole("features"):
                features = ConvolutionFeatures(
                    self.n_channels, n_features=self.n_features
                )
                Z = features.fit_transform(samples.X)
            with tasks.whole("regression"):
                (alphas,) = self._fit_planes([Z], samples, weights)
        self.features_, self.alphas_ = features, np.array(alphas)
        return self

    def _features(self, X: Any) -> NDArray:
        return self.features_.transform(X)
