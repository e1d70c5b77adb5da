"""What meta-estimators share: samples handed on as they are, answers from inside.

Those that may refuse to answer share more: a label for that, and the fits of parts.
They fit the classifier inside to some of the samples and ask it about the others, or
take one that is fitted already, with ``cv="prefit"``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from numbers import Integral, Number
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn import get_config
from sklearn.base import MetaEstimatorMixin, clone, is_clusterer, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import (
    UNUSED,
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.validation import (
    _check_method_params,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
)

from widemargin._core.arrays import available_if
from widemargin._core.checks import check_count, check_number, validate_data
from widemargin._core.classifier import MarginClassifier
from widemargin._core.confidence import (
    answering,
    class_scores_of,
    margin_unit_of,
    margins_of,
)
from widemargin._core.decisions import are_alike, as_labels
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


@dataclass(frozen=True)
class Cut:
    """A fraction to hold out, or a number of folds."""

    def check(self, name: str, value: Any, otherwise: str) -> None:
        """Refuse any other value; the error begins with what else would do."""
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            check_count(name, value, otherwise, low=2)
        else:
            check_number(name, value, above=0, below=1, otherwise=otherwise)


class RefusingClassifier(WrappingClassifier):
    """Base of classifiers that answer ``reject_label_`` where they refuse."""

    # It goes to the estimator, where its own requests decide.
    __metadata_request__fit = {"sample_weight": UNUSED}  # noqa: RUF012

    def _copy_of_estimator(self) -> Any:
        return clone(self.estimator)

    def _fit_part(
        self, X: Any, y: NDArray, rows: NDArray, params: dict, tasks: Any
    ) -> Any:
        """Return a copy of the estimator fitted to some rows."""
        if get_config()["enable_metadata_routing"]:
            params = process_routing(self, "fit", **params).estimator.fit
        return tasks.delegate("estimator").fit(
            self._copy_of_estimator(),
            _safe_indexing(X, rows),
            y[rows],
            **_check_method_params(X, params, indices=rows),
        )

    def _check_prefit(self, params: dict[str, Any]) -> None:
        if params:
            raise ValueError(
                f"cv='prefit' fits nothing, so {', '.join(params)} has no place to go; "
                "leave it out, or let cv be a fraction."
            )
        try:
            check_is_fitted(self.estimator)
        except NotFittedError as error:
            raise NotFittedError(
                "cv='prefit' needs a fitted estimator; fit it first, wrapped in "
                "sklearn.frozen.FrozenEstimator if this classifier is to be cloned."
            ) from error

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy, where a rejected sample counts as wrong.

        :meth:`selective_accuracy` is the accuracy among the answers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        float
            Plain accuracy, whatever the kind of ``reject_label_``.
        """
        answers = self.predict(X)
        right = ~differs(as_labels("y", y, len(answers)), answers)
        return float(np.average(right, weights=check_weights(sample_weight, answers)))

    def selective_accuracy(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy among the samples that are answered.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        float
            Share of right answers, nan if all samples are rejected.
        """
        answers = self.predict(X)
        answered = answers != self.reject_label_
        right = ~differs(as_labels("y", y, len(answers)), answers)
        weights = check_weights(sample_weight, answers)[answered]
        if not weights.sum() > 0:
            return float("nan")
        return float(np.average(right[answered], weights=weights))

    def get_metadata_routing(self) -> MetadataRouter:
        """Say where metadata goes: everything to the `fit` of the estimator.

        Returns
        -------
        routing : MetadataRouter
            The routing.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self)
        return router.add(estimator=self.estimator, method_mapping=mapping)


def differs(truth: NDArray, answers: NDArray) -> NDArray:
    """Where an answer is wrong; labels of another kind than the truth all are."""
    alike = are_alike(truth, answers)
    return np.asarray(truth != answers) if alike else np.ones(len(truth), bool)


def choose_reject_label(label: Any, classes: NDArray) -> Any:
    """Return `label`, or a fitting one if it is None, unless it is one of `classes`."""
    classes = np.asarray(classes)
    if label is None:
        label = _default_label(classes)
    is_number = isinstance(label, Number) and not isinstance(label, Integral)
    if np.ndim(label) or label != label or (is_number and not np.isfinite(label)):
        raise ValueError(
            "reject_label must be one label, and a finite one if it is a number; got "
            f"{label!r}."
        )
    if any(label == known for known in classes.tolist()):
        raise ValueError(
            f"reject_label={label!r} is one of the classes; give a reject_label that "
            "is not, of the same kind as the labels."
        )
    return label


def _default_label(classes: NDArray) -> Any:
    if classes.dtype.kind in "biuf":
        return -1 if -1 not in classes else floor(classes.min()) - 1
    if all(isinstance(known, str) for known in classes.tolist()):
        label = "reject"
        while label in classes:
            label += "_"
        return label
    raise ValueError(
        "reject_label must be given for labels that are neither all strings nor all "
        f"numbers; the classes are {classes.tolist()[:5]}."
    )


def mixed_dtype(answers: NDArray, label: Any) -> DTypeLike:
    """Return a dtype that holds the answers and the label without changing either."""
    kinds = answers.dtype.kind, np.asarray(label).dtype.kind
    if kinds == ("U", "U"):
        return np.result_type(answers.dtype, np.asarray(label).dtype)
    if kinds[0] in "biuf" and kinds[1] in "biuf":
        short = np.result_type(answers.dtype, np.min_scalar_type(label))
        return (
            short
            if short.type(label).item() == label
            else np.result_type(short, np.asarray(label).dtype)
        )
    return np.dtype(object)


def round_up(number: float) -> float:
    """Two significant digits, never less than `number`.

    >>> round_up(1 / 14), round_up(0.05)
    (0.072, 0.05)
    """
    step = 10.0 ** (np.floor(np.log10(number)) - 1)
    return float(f"{ceil(number / step - 1e-9) * step:.2g}")
