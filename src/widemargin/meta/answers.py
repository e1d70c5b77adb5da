"""Answers of a meta-estimator: those of the learner it has kept."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data


def _inner_has(name: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return check


class DelegatesAnswers:
    """Mixin of meta-estimators that answer as their ``estimator_`` does."""

    estimator_: Any
    classes_: np.ndarray
    _margins: Callable[..., np.ndarray]

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of the best round's learner.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels.
        """
        return self._checked(X).predict(X)

    @available_if(_inner_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the best round's learner.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities; those of re-weighted learners are not calibrated.
        """
        return self._checked(X).predict_proba(X)

    @available_if(_inner_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the best round's learner.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores.
        """
        return self._checked(X).decision_function(X)

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        if hasattr(self, "n_features_in_") and len(getattr(X, "shape", (0, 0))) == 1:
            raise ValueError(
                f"X must have shape (n_samples, {self.n_features_in_}); got one of "
                f"{X.shape}. Reshape your data: X.reshape(1, -1) is one sample."
            )
        validate_data(self, X, skip_check_array=True, reset=False)
        return self.estimator_

    def margins(self, X: Any, y: ArrayLike) -> np.ndarray:
        """Return how sure the learner is of each given label.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels, all among ``classes_``.

        Returns
        -------
        ndarray of shape (n_samples,)
            Margins in [-1, 1], as in training; positive where the answer is `y`.
        """
        learner = self._checked(X)
        y = np.asarray(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y holds labels that fit did not see: {unknown[:5]}; "
                f"the model knows {self.classes_[:10]}."
            )
        return self._margins(learner, X, y)
