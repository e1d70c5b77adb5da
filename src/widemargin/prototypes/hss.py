"""HSS: every class described by its mean and its principal variations.

The model of a class is the affine space nearest to its samples (one-sided), or nearest
to them after each has moved along its own tangents (two-sided). Nothing is learned
from the other classes: HSS is where discriminant models start.

Reference: T. Hastie, P. Simard, E. Säckinger, Learning prototype models for tangent
distance, NIPS 1994.
"""

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, check_scalar

from widemargin._compute.threads import held_threads
from widemargin._core.callbacks import FitProgress, with_callbacks
from widemargin.prototypes.hss_rounds import ClassModels, class_rows
from widemargin.prototypes.samples import check_samples, merge_duplicates
from widemargin.prototypes.tangent_models import (
    TangentModels,
    fit_input_tangents,
    resolve_n_tangents,
)


class HSSClassifier(TangentModels):
    r"""Nearest class model, where a model is a mean with its principal variations.

    Each class gets `n_models` affine spaces that minimise the weighted sum of squared
    tangent distances to its samples. One-sided and with one model per class this is
    the class mean with the leading eigenvectors of the class covariance, in closed
    form; else an alternation whose objective never rises.

    Parameters
    ----------
    n_models : int, default=1
        Models per class; a class with fewer samples gets one per sample.
    n_tangents : int or "auto", default="auto"
        Dimensions of each model, at least 0 and below the number of features; "auto"
        is ``min(20, n_features // 12)``. Where a class varies in fewer directions
        (it has few samples, or constant features) the rest are rows of zeros.
    sides : {"one", "two"}, default="one"
        Whether only the models bend, or the inputs along their own tangents as well.
    tangents : generator or array-like of shape (n_tangents, n_features), default=None
        Tangents of the inputs, for ``sides="two"`` only: for instance
        :class:`~widemargin.tangents.ImageTangents`.
    spring : float, default=1e-5
        Cost of moving in two-sided distances, > 0; see
        :func:`~widemargin.metrics.tangent_distances`.
    max_iter : int, default=30
        Rounds of the alternation at most.
    tol : float, default=1e-4
        Stop when a round lowers the objective by less than this fraction.
    n_jobs : int, default=None
        Threads of the distances; results do not depend on it.
    random_state : int, RandomState or None, default=None
        Start of the alternation where `n_models` is above 1.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    prototypes_ : ndarray of shape (n_classes * n_models, n_features)
        Centroids.
    prototype_labels_ : ndarray of shape (n_classes * n_models,)
        Their labels.
    tangents_ : ndarray of shape (n_classes * n_models, n_tangents, n_features)
        Orthonormal frames, zero rows last.
    input_tangents_ : object or None
        What bends the inputs, fitted.
    history_ : dict
        ``"objective"``: value after every round.
    n_iter_ : int
        Rounds.
    n_features_in_ : int
        Number of features.

    References
    ----------
    .. [1] T. Hastie, P. Simard, E. Säckinger, Learning prototype models for tangent
       distance, NIPS 1994.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.prototypes import HSSClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = HSSClassifier(n_tangents=8).fit(X[:1000], y[:1000])
    >>> model.tangents_.shape
    (10, 8, 64)
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.96
    """

    # Every class is fitted alone: a weight that all its samples share cancels.
    class_weight = None

    def __init__(
        self,
        n_models: int = 1,
        n_tangents: int | str = "auto",
        *,
        sides: str = "one",
        tangents: Any = None,
        spring: float = 1e-5,
        max_iter: int = 30,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_models = n_models
        self.n_tangents = n_tangents
        self.sides = sides
        self.tangents = tangents
        self.spring = spring
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    @with_callbacks
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the models of every class to its samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; float32 is kept.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            A sample of weight 2 counts as two samples; zero leaves it out.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_model_parameters()
        check_scalar(self.max_iter, "max_iter", Integral, min_val=1)
        check_scalar(self.tol, "tol", Real, min_val=0)
        samples = merge_duplicates(check_samples(self, X, y, sample_weight))
        X, codes, weights, _ = samples
        n_tangents = resolve_n_tangents(self.n_tangents, X.shape[1])
        labels = self.classes_[codes]
        self.input_tangents_ = fit_input_tangents(self.sides, self.tangents, X, labels)
        rng = check_random_state(self.random_state)
        bundle = self._bundle(X)
        self._by_class = [
            ClassModels(
                bundle[rows],
                weights[rows],
                self.n_models,
                n_tangents,
                float(self.spring),
                rng,
            )
            for _, rows in class_rows(codes)
        ]
        counts = [len(models.C) for models in self._by_class]
        self.prototype_labels_ = np.repeat(self.classes_, counts)
        # One thread for the products of a round, too small to be worth sharing.
        with held_threads(1):
            self._alternate(X, labels, weights)
        del self._by_class
        return self

    def _alternate(
        self, X: np.ndarray, labels: np.ndarray, weights: np.ndarray
    ) -> None:
        progress = FitProgress(
            self,
            self.max_iter,
            X=X,
            y=labels,
            sample_weight=weights,
            state=lambda: self._collect(X.dtype),
        )
        objective: list[float] = []
        for _ in progress:
            objective.append(sum(m.round(self.n_jobs) for m in self._by_class))
            if all(m.is_exact for m in self._by_class) or (
                len(objective) > 1
                and objective[-2] - objective[-1] <= self.tol * objective[-2]
            ):
                progress.stop()
        self.history_ = {"objective": objective}
        self.n_iter_ = len(objective)
        for name, value in self._collect(X.dtype).items():
            setattr(self, name, value)

    def _collect(self, dtype: Any) -> dict[str, Any]:
        return {
            "prototypes_": np.concatenate([m.C for m in self._by_class]).astype(dtype),
            "tangents_": np.concatenate([m.T for m in self._by_class]).astype(dtype),
            "prototype_labels_": self.prototype_labels_.copy(),
        }
