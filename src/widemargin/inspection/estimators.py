"""What displays ask of estimators, by the names of the house and not by their types."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core import decisions


def by_name(estimator: Any, name: str | None = None) -> dict[str, Any]:
    """Return one thing or a mapping of things as a mapping from names."""
    if isinstance(estimator, Mapping):
        if not estimator:
            raise ValueError("The mapping is empty; at least one entry is needed.")
        if name is not None:
            raise ValueError("name goes with a single one; the mapping has the names.")
        return {str(key): value for key, value in estimator.items()}
    return {type(estimator).__name__ if name is None else name: estimator}


def fitted(estimator: Any, attribute: str) -> Any:
    """Return an attribute that a fitted estimator must have, or say that it lacks."""
    try:
        return getattr(estimator, attribute)
    except AttributeError:
        raise ValueError(
            f"{type(estimator).__name__} has no {attribute}; fit it first, or give an "
            "estimator that keeps it."
        ) from None


def margins_of(estimator: Any, X: Any, y: ArrayLike) -> NDArray:
    """Margins of labelled samples: the estimator's own, or the gap of its scores."""
    if hasattr(estimator, "margins"):
        return np.asarray(estimator.margins(X, y))
    for method in ("decision_function", "predict_proba"):
        if hasattr(estimator, method):
            return score_margins(y, getattr(estimator, method)(X), estimator.classes_)
    raise ValueError(
        f"{type(estimator).__name__} has no margins, decision_function or "
        "predict_proba; compute margins yourself and give them to the constructor."
    )


def score_margins(
    y: ArrayLike, scores: ArrayLike, classes: ArrayLike | None = None
) -> NDArray:
    """Score of the right class less the best of the others.

    One score per sample is that of the second of two classes.
    """
    truth, values = np.asarray(y), np.asarray(scores)
    labels = np.unique(truth) if classes is None else np.asarray(classes)
    n_classes = 2 if values.ndim == 1 else values.shape[1]
    if len(labels) != n_classes:
        raise ValueError(
            f"The scores are of {n_classes} classes but there are {len(labels)} "
            "labels; give classes, in the order of the columns."
        )
    if len(values) != len(truth):
        raise ValueError(
            f"y has {len(truth)} samples but the scores have {len(values)}."
        )
    right = truth[:, None] == labels[None, :]
    if not right.any(axis=1).all():
        unknown = np.unique(truth[~right.any(axis=1)])[:5].tolist()
        raise ValueError(f"y holds labels that have no score: {unknown}.")
    return decisions.score_margins(
        decisions.from_decision(values), right.argmax(axis=1)
    )


def common_theta(estimators: Iterable[Any]) -> float | None:
    """Return the margin that all estimators aimed at, if it is one and the same."""
    aims: list[Any] = [
        getattr(model, "theta_", getattr(model, "theta", None)) for model in estimators
    ]
    # Other estimators have other things of that name, naive Bayes its class means.
    if not all(isinstance(aim, Real) for aim in aims) or len(set(aims)) > 1:
        return None
    return float(aims[0])


def generator_of(estimator: Any) -> Any:
    """Return the tangent generator that `estimator` is or was given, or None."""
    for candidate in (
        estimator,
        getattr(estimator, "input_tangents_", None),
        getattr(estimator, "tangents", None),
    ):
        tangents: Callable | None = getattr(candidate, "tangents", None)
        if callable(tangents):
            return candidate
    return None


def image_shape_of(estimator: Any) -> tuple[int, ...] | None:
    """Return the image shape that an estimator's tangent generator was given."""
    shape = getattr(generator_of(estimator), "shape", None)
    return None if shape is None else tuple(shape)
