"""Generalised matrix LVQ: prototypes and the metric that suits them, learned together.

Distances are ``||Omega (x - p)||^2`` with a learned Omega of shape
(n_components, n_features); ``Lambda = Omega^T Omega`` is the relevance matrix and its
diagonal says how much each feature counts. Both are learned with every feature divided
by its within-class spread, so that features may have any units; there Omega starts as
the identity, or as the discriminant directions if n_components is smaller.

Schneider, Biehl and Hammer, "Adaptive relevance matrices in learning vector
quantization", Neural Computation 2009; Bunte et al., "Limited rank matrix learning",
Neural Networks 2012.
"""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_scalar

from widemargin._compute.nearest import squared_distances
from widemargin.prototypes import adam
from widemargin.prototypes.class_statistics import (
    class_means,
    discriminant_directions,
    within_class_spread,
)
from widemargin.prototypes.glvq import GLVQClassifier, LinearDecay
from widemargin.prototypes.gradients import (
    coefficients,
    mapped_distances,
    matrix_gradients,
)
from widemargin.prototypes.repair import revivals
from widemargin.prototypes.samples import Samples
from widemargin.prototypes.training import Trainer


class GMLVQClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, GLVQClassifier
):
    """Generalised matrix LVQ, full or limited rank.

    Parameters
    ----------
    prototypes_per_class : int or dict of label to int, default=1
        Number of prototypes. A class with fewer distinct samples gets one for each.
    n_components : int, optional
        Rows of Omega, the dimension of ``transform``; by default n_features.
    loss : str or MarginLoss, optional
        Loss of the relative margin, see :mod:`widemargin.margins`. By default
        ``Sigmoid(beta=10)``.
    init : {"kmeans", "means", "samples"} or array of shape (n_prototypes, n_features)
        Where the prototypes start: k-means within each class (in the mapped
        space), class means (with a little noise to tell several apart), random
        samples, or the given array, which then also decides how many there are.
    init_labels : array-like of shape (n_prototypes,), optional
        Labels of the array `init`.
    max_iter : int, default=30
        Epochs.
    learning_rate : float, default=0.1
        First step of the prototypes, in units of the within-class spread.
    matrix_learning_rate : float, default=0.05
        First step of Omega, in units of its root mean square element.
    batch_size : int or "auto", default="auto"
        Distinct samples per gradient; "auto" makes about twenty batches, of 16 to 512.
    repair : bool, default=True
        In the first half of the epochs, put a prototype that was the nearest of its
        class for no sample on the sample of its class that is covered worst.
    class_weight : dict or "balanced", optional
        Factors on the sample weights by label.
    early_stopping : bool, default=False
        Hold out a part of the training samples and return the model that was best
        on it.
    validation_fraction : float, default=0.1
        Part of each class that early stopping holds out.
    n_iter_no_change : int, default=5
        Epochs without a better validation score after which to stop.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial prototypes, the batches and the held-out samples.

    Attributes
    ----------
    prototypes_ : ndarray of shape (n_prototypes, n_features)
        The prototypes, in the space of the samples.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their labels.
    omega_ : ndarray of shape (n_components, n_features)
        The map, scaled so that the relevances sum to one.
    relevance_matrix_ : ndarray of shape (n_features, n_features)
        Lambda.
    relevances_ : ndarray of shape (n_features,)
        Its diagonal. It depends on the units of the features.
    classes_ : ndarray of shape (n_classes,)
        The labels there are.
    history_ : dict of list of float
        Per epoch, ``"loss"``: the mean loss while training; with early stopping
        ``"validation_score"``: the accuracy.
    n_iter_ : int
        Epochs run.

    Notes
    -----
    A sample of weight 2 and the same sample given twice lead to the same model, bit
    by bit. The certified radius is in the units of the features: the margin in the
    mapped space divided by the largest singular value of Omega.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from widemargin.prototypes import GMLVQClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = GMLVQClassifier(n_components=2, random_state=0).fit(X, y)
    >>> model.transform(X).shape
    (178, 2)
    >>> model.score(X, y) > 0.98
    True
    """

    _state_names = ("prototypes_", "omega_")

    def __init__(
        self,
        prototypes_per_class: Any = 1,
        *,
        n_components: int | None = None,
        loss: Any = None,
        init: Any = "kmeans",
        init_labels: Any = None,
        max_iter: int = 30,
        learning_rate: float = 0.1,
        matrix_learning_rate: float = 0.05,
        batch_size: int | str = "auto",
        repair: bool = True,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            prototypes_per_class,
            loss=loss,
            init=init,
            init_labels=init_labels,
            max_iter=max_iter,
            learning_rate=learning_rate,
            batch_size=batch_size,
            repair=repair,
            class_weight=class_weight,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            random_state=random_state,
        )
        self.n_components = n_components
        self.matrix_learning_rate = matrix_learning_rate

    @property
    def relevance_matrix_(self) -> np.ndarray:
        """Lambda, the matrix of the squared distance."""
        return self.omega_.T @ self.omega_

    @property
    def relevances_(self) -> np.ndarray:
        """Diagonal of Lambda: how much each feature counts."""
        return np.einsum("ij,ij->j", self.omega_, self.omega_)

    @property
    def _n_features_out(self) -> int:
        return len(self.omega_)

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Map samples to the space in which distances are Euclidean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            ``X @ omega_.T``.
        """
        return self._check_predict(X) @ self.omega_.T

    def _squared_distances(self, X: np.ndarray) -> np.ndarray:
        return squared_distances(X @ self.omega_.T, self.prototypes_ @ self.omega_.T)

    def _lipschitz(self) -> float:
        return float(np.linalg.norm(self.omega_, 2))

    def _squared_norms(self, X: np.ndarray) -> np.ndarray:
        return super()._squared_norms(X @ self.omega_.T)

    def _space_dimension(self) -> float:
        return len(self.omega_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_scalar(
            self.matrix_learning_rate,
            "matrix_learning_rate",
            Real,
            min_val=0,
            include_boundaries="neither",
        )
        if self.n_components is not None:
            check_scalar(self.n_components, "n_components", Integral, min_val=1)

    def _place(self, samples: Samples, rng: np.random.RandomState) -> None:
        n_features = samples.X.shape[1]
        rank = n_features if self.n_components is None else self.n_components
        if rank > n_features:
            raise ValueError(
                f"n_components={rank} must not exceed the number of features, "
                f"{n_features}."
            )
        X, codes, weights, _ = samples
        self._spread = within_class_spread(X, codes, weights)
        if rank == n_features:
            start = np.eye(n_features, dtype=X.dtype)
        else:
            start = discriminant_directions(X / self._spread, codes, weights, rank)
        self._set_omega(start)
        super()._place(samples, rng)
        if isinstance(self.init, str) and self.init == "kmeans":
            self._place_means(samples)

    def _feature_map(self, X: np.ndarray) -> np.ndarray:
        # Only the placing of prototypes asks for it: they are clustered where the
        # metric is Euclidean, and placed as means of samples.
        clustered = isinstance(self.init, str) and self.init == "kmeans"
        return X @ self.omega_.T if clustered else X

    def _place_means(self, samples: Samples, rows: slice = slice(None)) -> None:
        """Replace centres found in the mapped space by the means of their samples."""
        Q, codes = self.prototypes_[rows], self._prototype_codes[rows]
        D = squared_distances(samples.X @ self.omega_.T, Q)
        D[samples.codes[:, None] != codes[None, :]] = np.inf
        means = class_means(samples.X, D.argmin(axis=1), samples.weights, len(Q))
        self.prototypes_ = means.astype(samples.X.dtype)

    def _place_new_classes(self, samples: Samples, rng: np.random.RandomState) -> None:
        before, n = self.prototypes_, len(self.prototypes_)
        new = ~np.isin(samples.codes, self._prototype_codes)
        if not new.any():
            return
        self.prototypes_ = self._feature_map(before)
        super()._place_new_classes(samples, rng)
        if isinstance(self.init, str) and self.init == "kmeans":
            self._place_means(samples.take(np.flatnonzero(new)), slice(n, None))
            self.prototypes_ = np.concatenate([before, self.prototypes_])

    def _set_omega(self, inner: np.ndarray) -> None:
        omega = inner / self._spread
        self.omega_ = omega / np.linalg.norm(omega)

    def _inner_omega(self) -> np.ndarray:
        """Omega for the divided features, with a root mean square row of one."""
        inner = self.omega_ * self._spread
        return inner * float(np.sqrt(len(inner)) / np.linalg.norm(inner))

    def _trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        self._moments = adam.start(self.prototypes_)
        self._matrix_moments = adam.start(self.omega_)
        return self._epochs(samples, rng, self._decay(len(samples.X)))

    def _partial_trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        if not hasattr(self, "_matrix_moments"):
            self._moments = adam.start(self.prototypes_)
            self._matrix_moments = adam.start(self.omega_)
        self._moments = adam.grow(self._moments, self.prototypes_)
        return self._epochs(samples, rng, LinearDecay(self.learning_rate, np.inf))

    def _epochs(
        self, samples: Samples, rng: np.random.RandomState, rate: LinearDecay
    ) -> Trainer:
        loss = self._checked_loss()
        samples = samples.take(rng.permutation(len(samples.X)))
        centre = samples.X.mean(axis=0)
        X = (samples.X - centre) / self._spread
        weights = (samples.weights / samples.weights.mean()).astype(X.dtype)
        labels = self._prototype_codes
        omega = self._inner_omega()
        ratio = self.matrix_learning_rate / self.learning_rate / np.sqrt(X.shape[1])

        def train(epoch: int) -> float:
            nonlocal omega
            P = (self.prototypes_ - centre) / self._spread
            wins = np.zeros(len(P), dtype=np.intp)
            total = 0.0
            for b in self._batches(len(X), rng):
                x = X[b]
                D, z = mapped_distances(x, P, omega)
                pairs = coefficients(D, labels, samples.codes[b], weights[b], loss)
                dP, dOmega = matrix_gradients(pairs, x, P, omega, z)
                self._moments, ascent = adam.step(self._moments, dP)
                self._matrix_moments, turn = adam.step(self._matrix_moments, dOmega)
                step = rate()
                P = P - X.dtype.type(step) * ascent
                omega = omega - X.dtype.type(step * ratio) * turn
                total += pairs.loss
                wins += np.bincount(pairs.at[:, 0], minlength=len(P))
            if self.repair and not wins.all() and epoch + 1 < self.max_iter / 2:
                mapped = X @ omega.T
                dead, rows = revivals(mapped, samples.codes, P @ omega.T, labels, wins)
                P[dead] = X[rows]
            self.prototypes_ = P * self._spread + centre
            self._set_omega(omega)
            return total / len(X)

        return train
