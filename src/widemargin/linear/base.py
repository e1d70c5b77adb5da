"""What the hyperplane classifiers share: labels, distances, decisions, margins."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from widemargin._core.callbacks import CallbackSupportMixin
from widemargin.linear.multiclass import (
    dag_margins,
    dag_scores,
    score_margins,
    two_class_problems,
    vote_scores,
)


def unit_hyperplane(
    w: np.ndarray, bias: float, dtype: Any
) -> tuple[np.ndarray, float, float]:
    """Scale to ``||w|| = 1``, so that the score is the signed distance.

    Returns the weights, the bias and the length that was divided out. Zero weights
    stay: then there is no plane, only the sign of the bias.

    >>> unit_hyperplane(np.array([3.0, 4.0]), 10.0, np.float64)
    (array([0.6, 0.8]), 2.0, 5.0)
    """
    length = float(np.sqrt(w @ w))
    if length == 0.0:
        return w.astype(dtype), float(np.sign(bias)), 0.0
    return (w / length).astype(dtype), bias / length, length


class HyperplaneClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of the classifiers in :mod:`widemargin.linear`; not for direct use."""

    classes_: np.ndarray

    def __sklearn_tags__(self) -> Any:
        """Say that sparse input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _scheme(self) -> str:
        return "ovr"

    def _check_training_data(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True
    ) -> tuple[Any, np.ndarray, np.ndarray | None, np.ndarray]:
        """Validate: X in double precision, y, weights, and the rows that count."""
        X, y = validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
            order="C",
        )
        check_classification_targets(y)
        self._dtype = X.dtype
        weight = None
        rows = np.arange(X.shape[0])
        if sample_weight is not None:
            weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            rows = np.flatnonzero(weight)
            if len(rows) == 0:
                raise ValueError("sample_weight is zero for every sample.")
            if len(rows) < len(weight):
                X, y, weight = X[rows], y[rows], weight[rows]
        class_weight = getattr(self, "class_weight", None)
        if class_weight is not None:
            balance = compute_sample_weight(class_weight, y)
            weight = balance if weight is None else weight * balance
        X = X.astype(np.float64, copy=False)
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return X, y, weight, rows

    def _encode(self, y: np.ndarray) -> np.ndarray:
        """Set `classes_`; the class number of each label."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes; the data "
                f"contains only one class: {self.classes_.tolist()[0]!r}."
            )
        return codes

    def _problems(self) -> list[tuple[int, int]]:
        return two_class_problems(len(self.classes_), self._scheme())

    def _problem_name(self, problem: tuple[int, int]) -> str:
        positive, negative = problem
        labels = self.classes_.tolist()
        rest = "the rest" if negative < 0 else repr(labels[negative])
        return f"{labels[positive]!r} against {rest}"

    def _set_hyperplanes(self, planes: list[tuple[np.ndarray, float]]) -> None:
        """Store unit normals and biases, in the precision of the training data."""
        units = [unit_hyperplane(w, bias, self._dtype) for w, bias in planes]
        self.coef_ = np.vstack([unit[0] for unit in units])
        self.intercept_ = np.array([unit[1] for unit in units], dtype=self._dtype)
        self.weight_norm_ = np.array([unit[2] for unit in units])

    def _check_predict_data(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(
            self,
            X,
            reset=False,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
        )

    def _distances(self, X: Any) -> np.ndarray:
        """Signed distances (n, n_problems) of validated X."""
        return X @ self.coef_.T + self.intercept_

    def pairwise_distances(self, X: Any) -> np.ndarray:
        """Signed distance of every sample to every hyperplane.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_hyperplanes)
            One column per two-class problem: one for two classes, one per class for
            one-vs-rest, one per pair of classes otherwise.

        Examples
        --------
        >>> from widemargin.linear import MaxMarginClassifier
        >>> X, y = [[0.0], [4.0], [9.0]], [0, 1, 2]
        >>> model = MaxMarginClassifier(C=float("inf"), multiclass="ovo").fit(X, y)
        >>> model.pairwise_distances([[4.0]])
        array([[ 2. , -0.5, -2.5]])
        """
        return self._distances(self._check_predict_data(X))

    def _class_scores(self, distances: np.ndarray) -> np.ndarray:
        n_classes = len(self.classes_)
        if n_classes == 2:
            return distances.ravel()
        if self._scheme() == "ovr":
            return distances
        if self._scheme() == "ovo":
            return vote_scores(distances, n_classes)
        return dag_scores(distances, n_classes)

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed distance to the hyperplane, or one score per class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: the signed distance, positive on the side of ``classes_[1]``.
            One-vs-rest: the signed distance to the hyperplane of each class.
            One-vs-one: votes, ties broken by distance. DDAG: order of elimination. The
            largest score is the predicted class.
        """
        return self._class_scores(self.pairwise_distances(X))

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Members of `classes_`.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]

    def margins(self, X: Any, y: Any) -> np.ndarray:
        """How surely each sample is on its own side: positive if and only if right.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels, members of `classes_`.

        Returns
        -------
        margins : ndarray of shape (n_samples,)
            Two classes: the distance to the hyperplane, negative on the wrong side.
            One-vs-rest and one-vs-one: score of the right class minus the best other.
            DDAG: the smallest distance on the way to the right class, or minus the
            distance by which it was eliminated.

        Examples
        --------
        >>> from widemargin.linear import MaxMarginClassifier
        >>> model = MaxMarginClassifier(C=float("inf")).fit([[0.0], [4.0]], ["a", "b"])
        >>> model.margins([[3.0], [3.0]], ["b", "a"])
        array([ 1., -1.])
        """
        distances = self.pairwise_distances(X)
        y = np.asarray(y)
        unknown = np.setdiff1d(unique_labels(y), self.classes_)
        if unknown.size:
            raise ValueError(
                f"y contains {unknown.tolist()}, which were not seen in fit; known "
                f"classes are {self.classes_.tolist()}."
            )
        codes = np.searchsorted(self.classes_, y)
        if len(codes) != distances.shape[0]:
            raise ValueError(
                f"X and y must have the same length; got {distances.shape[0]} and "
                f"{len(codes)}."
            )
        if len(self.classes_) == 2:
            return np.where(codes == 1, distances[:, 0], -distances[:, 0])
        if self._scheme() == "ddag":
            return dag_margins(distances, codes, len(self.classes_))
        return score_margins(self._class_scores(distances), codes)
