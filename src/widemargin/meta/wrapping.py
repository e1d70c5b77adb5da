"""What meta-estimators share: samples handed on as they are, answers from inside."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import MetaEstimatorMixin, is_clusterer, is_regressor
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter

from widemargin._core.arrays import available_if
from widemargin._core.checks import validate_data
from widemargin._core.classifier import MarginClassifier
from widemargin._core.confidence import (
    answering,
    class_scores_of,
    margin_unit_of,
    margins_of,
)
from widemargin._core.samples import check_classes, check_weights, class_labels


def estimator_has(method: str) -> Any:
    """Return a check of whether the classifier inside has a method."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


class HandingClassifier(MetaEstimatorMixin, MarginClassifier):
    """Base of classifiers that hand samples on to others as they are."""

    def _check_rows(self, X: Any, y: Any) -> tuple[Any, NDArray]:
        """Return samples that can be indexed, in their own kind, and labels."""
        if X is None:
            raise ValueError("X must hold one row per sample; got None.")
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None.")
        try:
            X, y = indexable(X, y)
        except TypeError as error:
            raise TypeError(f"X and y must hold one row per sample: {error}") from error
        if getattr(X, "shape", (1,))[1:] == (0,):
            raise ValueError(
                f"X has 0 feature(s) (shape={X.shape}) while a minimum of 1 is "
                "required."
            )
        validate_data(self, X, skip_check_array=True)
        return X, class_labels(y)

    def _set_classes(self, labels: NDArray) -> NDArray:
        """Keep the classes of labels of positive weight; return the labels' codes."""
        self.classes_, codes = np.unique(labels, return_inverse=True)
        check_classes(self, self.classes_)
        return codes

    def _check_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        shape = getattr(X, "shape", (0, 0))
        if hasattr(self, "n_features_in_") and len(shape) != 2:
            how = (
                "(1, -1) is one sample" if len(shape) == 1 else "(len(X), -1) are rows"
            )
            raise ValueError(
                f"X must have shape (n_samples, {self.n_features_in_}); got one of "
                f"{shape}. Reshape your data: X.reshape{how}."
            )
        # Of plain arrays nothing else is asked; asking takes a tenth of an answer.
        plain = type(X) is np.ndarray and "feature_names_in_" not in vars(self)
        if not plain or shape[1:] != (getattr(self, "n_features_in_", -1),):
            validate_data(self, X, skip_check_array=True, reset=False)
        return X


class WrappingClassifier(HandingClassifier):
    """Base of classifiers that ask the one they keep in ``estimator_``."""

    estimator: Any
    estimator_: Any

    @property
    def margin_unit(self) -> str:
        """Unit of the margins: that of the classifier inside."""
        return margin_unit_of(getattr(self, "estimator_", self.estimator))

    def _check_rows(self, X: Any, y: Any) -> tuple[Any, NDArray]:
        check_classifier("estimator", self.estimator)
        return super()._check_rows(X, y)

    def _class_scores(self, X: Any) -> NDArray:
        return class_scores_of(self.estimator_, X)

    def predict(self, X: Any) -> NDArray:
        """Return the labels of the classifier inside.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels.
        """
        self._check_predict(X)
        return self._inner_labels(X)

    def _inner_labels(self, X: Any) -> NDArray:
        with answering(self.estimator_):
            return np.asarray(self.estimator_.predict(X))

    @available_if(estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray:
        """Return the probabilities of the classifier inside.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        self._check_predict(X)
        with answering(self.estimator_):
            return self.estimator_.predict_proba(X)

    def decision_function(self, X: Any) -> NDArray:
        """Return the scores of the classifier inside; the largest is its answer.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Scores in the order of ``classes_``; for two classes the margin of
            ``classes_[1]``.
        """
        self._check_predict(X)
        if len(self.classes_) == 2:
            return self._margins(X, np.ones(_num_samples(X), np.intp))
        return self._class_scores(X)

    def _margins(self, X: Any, codes: NDArray | None) -> NDArray:
        labels = self._inner_labels(X) if codes is None else self.classes_[codes]
        return margins_of(self.estimator_, X, labels)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags


def check_classifier(name: str, estimator: Any) -> None:
    """Refuse what is no classifier; `name` says which parameter it is."""
    if isinstance(estimator, type) or not (
        hasattr(estimator, "fit") and hasattr(estimator, "predict")
    ):
        raise ValueError(
            f"{name} must be a classifier, an object with fit and predict, for "
            f"instance SVC(); got {estimator!r}."
        )
    try:
        other = is_regressor(estimator) or is_clusterer(estimator)
    except AttributeError as error:
        # A meta-estimator around what is no estimator cannot tell what it is.
        raise ValueError(
            f"{name} must be a classifier around others; got {estimator!r}."
        ) from error
    if other:
        raise ValueError(
            f"{name} must be a classifier, for instance SVC(); {estimator!r} predicts "
            "no labels."
        )


def takes_weights(estimator: Any) -> bool:
    """Whether fit takes `sample_weight`, by itself or by metadata routing."""
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    if not get_config()["enable_metadata_routing"]:
        return False
    consumed = get_routing_for_object(estimator).consumes("fit", ["sample_weight"])
    return bool(consumed)


def weighed_rows(
    estimators: Sequence[Any], y: NDArray, sample_weight: Any
) -> tuple[NDArray, NDArray]:
    """Rows of positive weight, and their weights, which all `estimators` can take."""
    if sample_weight is None:
        return np.arange(len(y)), np.ones(len(y))
    weights = check_weights(sample_weight, y)
    rows = np.flatnonzero(weights)
    if len(np.unique(y[rows])) < min(2, len(np.unique(y))):
        raise ValueError(
            "sample_weight is zero for all samples but those of one class; at "
            "least two classes must have weight."
        )
    for estimator in estimators:
        if np.ptp(weights[rows]) > 0 and not takes_weights(estimator):
            raise ValueError(
                f"sample_weight has no place to go: {type(estimator).__name__}"
                ".fit does not take it; leave it out, or use zeros and ones, which "
                "leave samples out."
            )
    return rows, weights[rows]


def refuse_unrouted(params: dict) -> None:
    """Refuse metadata that only scikit-learn's routing knows where to take."""
    if params:
        raise ValueError(
            f"fit got {', '.join(sorted(params))}; parameters of the "
            "estimator's fit need sklearn.set_config(enable_metadata_routing=True)."
        )
