"""What classifiers share that may refuse to answer: a label for it, and fits of parts.

They fit the classifier inside to some of the samples and ask it about the others, or
take one that is fitted already, with ``cv="prefit"``.
"""

from dataclasses import dataclass
from math import ceil, floor
from numbers import Integral, Number
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import (
    UNUSED,
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import _check_method_params, check_is_fitted

from widemargin._core.checks import check_count, check_number
from widemargin._core.decisions import are_alike, as_labels
from widemargin._core.samples import check_weights
from widemargin.meta.wrapping import WrappingClassifier


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
