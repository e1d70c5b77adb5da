"""A classifier that answers with the label of the nearest reference.

A model is a set of references ``p_1..p_K`` with labels and a squared distance from a
sample to each of them. Everything a user asks of a fitted model follows from that one
(n_samples, K) array: the nearest reference gives the label, and with ``D_c`` the
squared distance to the nearest reference of class c the margin of label c is

    mu_c = (min_{b != c} D_b - D_c) / (min_{b != c} D_b + D_c),

in [-1, 1] and positive exactly for the predicted class.

Crammer, Gilad-Bachrach, Navot and Tishby, "Margin analysis of the LVQ algorithm",
NIPS 2002. Subclasses say how far (`_squared_distances`) and how learned (`fit`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from widemargin._compute.nearest import squared_distances
from widemargin._compute.memory import rows_in_budget
from widemargin._compute.progress import announced
from widemargin._compute.threads import batched_slices
from widemargin._core.callbacks import CallbackSupportMixin
from widemargin.margins import (
    MarginBound,
    hypothesis_margin,
    lvq_margin_bound,
    relative_margin,
)


def class_distances(D: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Reduce distances to references to distances to classes (inf for a bare class)."""
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    out = np.full((len(D), n_classes), np.inf, dtype=D.dtype)
    out[:, present] = np.minimum.reduceat(D[:, order], starts, axis=1)
    return out


def margins_of_all_labels(
    D: np.ndarray, margin: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return, for (n, n_classes) class distances, the margin each label would have."""
    rows = np.arange(len(D))
    nearest = D.argmin(axis=1)
    others = np.repeat(D[rows, nearest][:, None], D.shape[1], axis=1)
    rest = D.copy()
    rest[rows, nearest] = np.inf
    others[rows, nearest] = rest.min(axis=1)
    return margin(D, others)


class PrototypeClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of the classifiers by nearest reference.

    A fitted subclass has ``classes_``, ``prototypes_`` and ``prototype_labels_`` (in
    the user's terms). It may replace `_squared_distances` (another metric, other
    models than points), `_class_distances` (another rule than the nearest reference)
    and `_margin` (another margin of the two squared distances).
    """

    def _squared_distances(self, X: np.ndarray) -> np.ndarray:
        """(n_samples, n_references) squared distances; called on bounded chunks."""
        return squared_distances(X, self.prototypes_)

    def _margin(self, D_plus: np.ndarray, D_minus: np.ndarray) -> np.ndarray:
        """Margin from squared distances to the nearest right and wrong reference."""
        return relative_margin(D_plus, D_minus)

    @property
    def _prototype_codes(self) -> np.ndarray:
        return np.asarray(np.searchsorted(self.classes_, self.prototype_labels_))

    def _class_distances(self, X: np.ndarray) -> np.ndarray:
        """(n_samples, n_classes) squared distances; the smallest decides."""
        return class_distances(
            self._squared_distances(X), self._prototype_codes, len(self.classes_)
        )

    def _check_predict(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def _in_chunks(
        self, X: np.ndarray, function: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        width = X.shape[1] + 3 * (len(self.prototype_labels_) + len(self.classes_))
        size = rows_in_budget(width * X.itemsize)
        chunks = announced(batched_slices(len(X), size), "distances")
        return np.concatenate([function(X[s]) for s in chunks])

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the label of the nearest reference.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels.
        """
        X = self._check_predict(X)
        nearest = self._in_chunks(X, lambda x: self._class_distances(x).argmin(1))
        return self.classes_[nearest]

    def _all_margins(self, X: np.ndarray) -> np.ndarray:
        return self._in_chunks(
            X, lambda x: margins_of_all_labels(self._class_distances(x), self._margin)
        )

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the margin that each label would have.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Column c is ``margins(X, y)`` for ``y = classes_[c]``; for two classes,
            the margin of ``classes_[1]``.
        """
        margins = self._all_margins(self._check_predict(X))
        return margins[:, 1] if len(self.classes_) == 2 else margins

    def margins(self, X: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return how sure the model is of each given label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels, all among ``classes_``.

        Returns
        -------
        ndarray of shape (n_samples,)
            One number per sample, positive if and only if it is classified as `y`
            (zero on a tie).
        """
        X = self._check_predict(X)
        codes = self._check_labels(X, y)
        return self._all_margins(X)[np.arange(len(X)), codes]

    def _check_labels(self, X: np.ndarray, y: ArrayLike) -> np.ndarray:
        y = np.asarray(y)
        check_consistent_length(X, y)
        codes = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if np.any(unknown):
            raise ValueError(
                f"y holds labels that fit did not see: {np.unique(y[unknown])[:5]}; "
                f"the model knows {self.classes_[:10]}."
            )
        return codes

    def _two_nearest_classes(self, X: np.ndarray) -> np.ndarray:
        def two(x):
            D = self._class_distances(x)
            return np.sqrt(np.partition(D, 1, axis=1)[:, :2])

        return self._in_chunks(X, two)

    def certified_radius(self, X: ArrayLike) -> np.ndarray:
        """Return a radius around each sample within which its label cannot change.

        It is the hypothesis margin ``(d_minus - d_plus) / 2`` of the predicted label,
        which never exceeds the distance to the decision boundary, and at the same
        time how far every prototype may move without changing the answer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Radii, in the units of the features.
        """
        d = self._two_nearest_classes(self._check_predict(X))
        return hypothesis_margin(d[:, 0], d[:, 1]) / self._lipschitz()

    def _lipschitz(self) -> float:
        """How fast the distance to a reference can change with the sample."""
        return 1.0

    def _hypothesis_margins(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        def euclidean(D_plus, D_minus):
            return hypothesis_margin(np.sqrt(D_plus), np.sqrt(D_minus))

        margins = self._in_chunks(
            X, lambda x: margins_of_all_labels(self._class_distances(x), euclidean)
        )
        return margins[np.arange(len(X)), codes]

    def margin_bound(
        self, X: ArrayLike, y: ArrayLike, *, theta: float, **options: Any
    ) -> MarginBound:
        """Bound the error on new samples by the margins on the training samples.

        Theorem 1 of the reference, with this model's number of prototypes per class
        and its hypothesis margins on `X`. Distances and `theta` are divided by the
        largest norm of a sample, so that the theorem's ``theta < 1/2`` has a meaning
        whatever the units of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training samples.
        y : array-like of shape (n_samples,)
            Their labels.
        theta : float in (0, 0.5)
            Margin, as a fraction of the largest norm of a centred sample.
        **options
            ``delta``, ``formula`` and ``log_base`` of
            :func:`widemargin.margins.lvq_margin_bound`.

        Returns
        -------
        MarginBound
            The bound, whether it says anything, and its terms.
        """
        X = self._check_predict(X)
        codes = self._check_labels(X, y)
        radius = float(np.sqrt(self._squared_norms(X).max())) or 1.0
        margins = self._hypothesis_margins(X, codes) / radius
        counts = np.bincount(self._prototype_codes, minlength=len(self.classes_))
        return lvq_margin_bound(
            margins,
            theta=theta,
            radius=1.0,
            n_features=self._space_dimension(),
            prototypes_per_class=counts.clip(min=1).tolist(),
            **options,
        )

    def _space_dimension(self) -> float:
        """Dimension of the space of the distances."""
        return self.n_features_in_

    def _squared_norms(self, X: np.ndarray) -> np.ndarray:
        """Squared norms of the centred samples in the space of the distances."""
        centred = X - X.mean(axis=0)
        return np.einsum("ij,ij->i", centred, centred)
