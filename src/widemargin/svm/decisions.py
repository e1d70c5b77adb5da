"""Classes and margins from one score per class, for all machines of the package."""

from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from widemargin._core.callbacks import CallbackSupportMixin
from widemargin._core.decisions import class_codes, from_decision, score_margins


class DecisionClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of classifiers that say all they know in ``decision_function``."""

    decision_function: Any
    classes_: NDArray

    def predict(self, X: Any) -> NDArray:
        """Class of the highest score; the first one where scores are equal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = from_decision(self.decision_function(X))
        return self.classes_[scores.argmax(axis=1)]

    def margins(self, X: Any, y: Any) -> NDArray:
        """Score of the right class less the best other, positive where right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = from_decision(self.decision_function(X))
        return score_margins(scores, class_codes(y, self.classes_))
