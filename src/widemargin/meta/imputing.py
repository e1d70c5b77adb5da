"""Missing values: conditional means under a Gaussian mixture.

Each class is a mixture of Gaussians of at most 36 factors, fitted by EM. A missing
value is replaced by its mean given the values that are there,

    E[x_m | x_o] = sum_k P(k | x_o) (mu_mk + F_m z_k),

see `widemargin._compute.missing`. That is right where values are missing at random
given those that are there. Where they are missing because of what they are, add an
indicator feature (:class:`sklearn.impute.MissingIndicator`).

Rubin and Thayer, "EM algorithms for ML factor analysis", Psychometrika 1982; Ghahramani
and Jordan, "Supervised learning from incomplete data via an EM approach", NIPS 1993.
Shapes: X (n_samples, n_features).
"""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.machine import one_blas_thread
from widemargin._core.checks import check_random_state, validate_data
from widemargin._core.params import Counted, check_declared, parameters
from widemargin._core.samples import check_weights, class_labels

FLOATS = (np.float64, np.float32)


@parameters
class MixtureImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill in missing values by their mean given the values that are there.

    Put it before any classifier. It learns one Gaussian mixture per class and does not
    need the class of a sample that it fills in.

    Parameters
    ----------
    max_samples : int, default=2000
        Training samples, at most, that the mixtures are learned from. More samples
        take longer and change little.
    random_state : int, RandomState instance or None, default=0
        Seed of the training samples that are drawn.

    Attributes
    ----------
    mixture_ : object
        The learned mixtures.
    n_features_in_ : int
        Number of features seen in `fit`.

    See Also
    --------
    sklearn.impute.SimpleImputer : Means or medians; its models can be exported.
    sklearn.impute.KNNImputer : Means of the nearest samples.

    Notes
    -----
    A class has one Gaussian, or several where these predict hidden values better.
    Fewer than ten samples per class, or more than 32 classes, are taken for one class.
    Values that are filled in stay within the range of the training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from widemargin import GMLVQClassifier, MixtureImputer
    >>> X, y = load_iris(return_X_y=True)
    >>> holes = np.random.RandomState(0).uniform(size=X.shape) < 0.1
    >>> X[holes] = np.nan
    >>> model = make_pipeline(MixtureImputer(), GMLVQClassifier(random_state=0))
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    # As of scikit-learn's imputers: what is taken for missing.
    missing_values = np.nan

    _: KW_ONLY
    max_samples: Counted = 2000
    random_state: Any = 0

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the mixtures.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; NaN is a missing value.
        y : array-like of shape (n_samples,), optional
            Their labels; without them, or in regression, all are one class.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, not negative.

        Returns
        -------
        self
            The fitted transformer.
        """
        from widemargin._compute.missing import learned_factors

        check_declared(self)
        rng = check_random_state(self.random_state)
        samples = self._checked(X, reset=True)
        check_missing(samples, features=True)
        codes = np.zeros(len(samples), np.intp)
        if y is not None:
            codes = self._codes_of(np.asarray(y), len(samples))
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)
        weights = check_weights(sample_weight, samples)
        rows = np.flatnonzero(weights)
        rows = rows[rng.permutation(len(rows))[: self.max_samples]]
        with one_blas_thread():
            self.mixture_ = learned_factors(samples[rows], codes[rows], weights[rows])
        return self

    def _codes_of(self, y: NDArray, n_samples: int) -> NDArray:
        """Numbers of the classes; 0 of all where `y` holds no labels."""
        if y.ndim == 0:
            raise ValueError(f"y must hold one label per sample; got {y!r:.200}.")
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        if type_of_target(y, "y") not in ("binary", "multiclass"):
            return np.zeros(n_samples, np.intp)
        return np.unique(class_labels(y, n_samples), return_inverse=True)[1]

    def transform(self, X: ArrayLike) -> NDArray:
        """Return the samples with their missing values filled in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples; NaN is a missing value.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            A copy, or `X` itself if no value is missing.
        """
        check_is_fitted(self)
        return self.mixture_.completed(check_missing(self._checked(X, reset=False)))

    def _checked(self, X: Any, *, reset: bool) -> Any:
        return validate_data(
            self, X, dtype=FLOATS, ensure_all_finite="allow-nan", reset=reset
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_missing(X: Any, *, features: bool = False) -> Any:
    """Return samples of which each, and with `features` each feature, has a value."""
    there = ~np.isnan(X)
    blank = np.flatnonzero(~there.any(axis=1))
    if len(blank):
        raise ValueError(
            f"X has no value in row {blank[0]}"
            f"{f' and {len(blank) - 1} more' if len(blank) > 1 else ''}, only NaN; "
            "leave out rows of which nothing is known."
        )
    blank = np.flatnonzero(~there.any(axis=0))
    if features and len(blank):
        raise ValueError(
            f"X has no value of feature {blank[0]}"
            f"{f' and {len(blank) - 1} more' if len(blank) > 1 else ''} in any sample, "
            "only NaN; leave out features of which nothing is known."
        )
    return X
