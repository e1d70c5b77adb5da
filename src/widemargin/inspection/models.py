"""What displays ask of models, by the names of the house and not by their types.

Pipelines and searches are looked through: the classifier inside has the prototypes, the
tangents and the history, in the space of the samples as it sees them.

What a model compared each sample with is its nearest reference. References are
prototypes, remembered samples or support vectors, whichever a model keeps in the space
of the samples. Both are moved along their tangents as the model's metric moves them,
and the residual is x - y after moving: samples (n, d), references (m, d), residuals (n,
d).
"""

import re
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.machine import PAIR_ROWS
from widemargin._compute.nearest import squared_distances
from widemargin._core.checks import check_text
from widemargin._core.confidence import inner_of, look_through
from widemargin.metrics import tangent_alignment, tangent_distances
from widemargin.metrics.tangent import DEFAULT_SPRING, TangentMetric

_NUMBER = re.compile(r"\W*\d+(\.\d*)?\W*(nm|cm-1|s|ms|Hz|kHz)?", re.ASCII)


def by_name(estimator: Any, name: str | None = None) -> dict[str, Any]:
    """Return one thing or a mapping of things as a mapping from names."""
    if isinstance(estimator, Mapping):
        if not estimator:
            raise ValueError(
                "estimator is an empty mapping; at least one entry is needed."
            )
        if name is not None:
            raise ValueError("name goes with a single one; the mapping has the names.")
        return {str(key): value for key, value in estimator.items()}
    return {check_name(name) or type(estimator).__name__: estimator}


def check_name(name: str | None) -> str:
    """Return the name of a curve, empty for None."""
    return "" if name is None else check_text("name", name, "None or ")


def innermost(estimator: Any) -> Any:
    """Return the classifier inside pipelines, searches and refusing classifiers."""
    while True:
        inner = getattr(estimator, "estimator_", None)
        if inner is None or hasattr(estimator, "best_estimator_"):
            inner = inner_of(estimator)
        if inner is None:
            return estimator
        estimator = inner


def as_seen(estimator: Any, rows: NDArray) -> NDArray:
    """Return samples as the classifier inside a pipeline sees them."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        return rows
    try:
        return np.asarray(look_through(estimator, rows)[1], dtype=float)
    except NotFittedError:
        raise ValueError(
            f"estimator: this {type(estimator).__name__} is not fitted; fit it first."
        ) from None


def as_given(estimator: Any, rows: NDArray) -> NDArray:
    """Bring what a classifier learned back to the samples a pipeline was given.

    Where a step cannot be undone they stay as the classifier sees them.
    """
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    if not hasattr(estimator, "steps") or not hasattr(estimator, "named_steps"):
        return rows
    before = estimator[:-1]
    undone = len(before.steps) and hasattr(before, "inverse_transform")
    return np.asarray(before.inverse_transform(rows)) if undone else rows


def fitted(estimator: Any, attribute: str, name: str = "estimator") -> Any:
    """Return an attribute that a fitted estimator must have, or say that it lacks."""
    for candidate in (estimator, innermost(estimator)):
        if hasattr(candidate, attribute):
            return getattr(candidate, attribute)
    model = innermost(estimator)
    kind = type(model).__name__
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise ValueError(f"{name}: this {kind} is not fitted; fit it first.") from None
    except TypeError:
        pass
    raise ValueError(f"{name}: {kind} has no {attribute}; give one that keeps it.")


def common_theta(estimators: Iterable[Any]) -> float | None:
    """Return the margin that all estimators aimed at, if it is one and the same."""
    aims: list[Any] = [
        getattr(model, "theta_", getattr(model, "theta", None))
        for model in (_aiming(estimator) for estimator in estimators)
    ]
    # Other estimators have other things of that name, naive Bayes its class means.
    if not all(isinstance(aim, Real) for aim in aims) or len(set(aims)) > 1:
        return None
    return float(aims[0])


def _aiming(estimator: Any) -> Any:
    # A re-weighting classifier has the aim, not the learner inside it.
    return estimator if hasattr(estimator, "theta_") else innermost(estimator)


def generator_of(estimator: Any) -> Any:
    """Return the tangent generator that `estimator` is or was given, or None.

    The one that was fitted comes first: a generator that learns is cloned by fit.
    """
    model = innermost(estimator)
    for candidate in (
        model,
        getattr(model, "input_tangents_", None),
        getattr(model, "tangents_", None),
        getattr(model, "tangents", None),
    ):
        if callable(getattr(candidate, "tangents", None)):
            return candidate
    return None


def learned_tangents(estimator: Any) -> NDArray | None:
    """Return the (n_models, n_tangents, n_features) tangents a model learned, if any.

    They are changes of samples as these are, also where the model divides features.
    Models of remembered samples have ``tangents_`` too, but that is a generator.
    """
    frames = _learned_frames(estimator)
    return None if frames is None else frames * frames_unit(estimator)


def _learned_frames(estimator: Any) -> NDArray | None:
    """Return the frames of a model, orthonormal in its `frames_unit`."""
    tangents = getattr(estimator, "tangents_", None)
    if isinstance(tangents, np.ndarray) and tangents.ndim == 3:
        return tangents
    return None


def frames_unit(estimator: Any) -> Any:
    """Return what features are divided by where learned frames are orthonormal."""
    scale = getattr(estimator, "scale_", None)
    if scale is None or _learned_frames(estimator) is None:
        return 1.0
    return np.asarray(scale, dtype=float)


def feature_names_of(estimator: Any) -> list[str] | None:
    """Return the names of the columns it was fitted with, if they are a table's.

    Names that are numbers, such as wavelengths, belong to curves. Of a pipeline that
    changes the number of features, none of the names fits what its classifier sees.
    """
    model = innermost(estimator)
    for candidate in (estimator, model):
        names = getattr(candidate, "feature_names_in_", None)
        if names is None or len(names) != getattr(model, "n_features_in_", len(names)):
            continue
        if not all(_NUMBER.fullmatch(str(name)) for name in names):
            return [str(name) for name in names]
    return None


def look_of(
    estimator: Any, n_features: int, shape: Any, positions: Any, feature_names: Any
) -> dict[str, Any]:
    """Return how its samples look: what was given, else what the estimator knows."""
    if shape is None and positions is None:
        generator = generator_of(estimator)
        shape = getattr(generator, "shape", None)
        channels = getattr(generator, "n_channels", 1)
        if channels > 1:
            positions = np.arange(n_features // channels)
        elif shape is None and feature_names is None:
            feature_names = feature_names_of(estimator)
        shape = None if shape is None else tuple(shape)
    return {"shape": shape, "positions": positions, "feature_names": feature_names}


class NearestReferences(NamedTuple):
    """For every sample the number of its reference, and what is left between them."""

    points: NDArray
    labels: NDArray
    nearest: NDArray
    residuals: NDArray
    distances: NDArray


class _References(NamedTuple):
    points: NDArray
    labels: NDArray
    tangents: Any  # of every reference (m, l, d), a generator, or None
    sides: str
    spring: float


def nearest_references(estimator: Any, X: NDArray) -> NearestReferences | None:
    """Find the reference nearest to each sample, and align the two.

    Parameters
    ----------
    estimator : fitted classifier
        Not a pipeline: samples are as the classifier sees them.
    X : ndarray of shape (n_samples, n_features)
        Samples.

    Returns
    -------
    NearestReferences or None
        None where the model keeps nothing that looks like a sample.
    """
    kept = _references_of(estimator, X.shape[1])
    if kept is None or not len(kept.points):
        return None
    X = np.asarray(X, dtype=float)
    index = np.empty(len(X), dtype=int)
    residuals, distances = np.empty(X.shape), np.empty(len(X))
    unit = frames_unit(estimator)
    given, X = kept, X / unit
    kept = kept._replace(points=kept.points / unit)
    learned = isinstance(kept.tangents, np.ndarray) and kept.tangents.ndim == 3
    for start in range(0, len(X), PAIR_ROWS):
        rows = slice(start, start + PAIR_ROWS)
        ends: dict[str, Any] = {"sides": kept.sides, "spring": kept.spring}
        if learned:
            ends |= ends_of(estimator, kept.tangents, kept.sides)
        elif kept.tangents is not None:
            ends["tangents"] = kept.tangents
        found = _nearest(estimator, X[rows], kept, ends)
        if learned:
            ends["Y_tangents"] = kept.tangents[found]
        if ends["sides"] == "mean":
            ends["sides"] = "both"
        if kept.tangents is None:
            left = X[rows] - kept.points[found]
            length = np.linalg.norm(left, axis=1)
        else:
            aligned = tangent_alignment(X[rows], kept.points[found], **ends)
            left = aligned.x_aligned - aligned.y_aligned
            length = np.sqrt(aligned.squared_distances)
        index[rows], residuals[rows], distances[rows] = found, left * unit, length
    return NearestReferences(given.points, given.labels, index, residuals, distances)


def ends_of(estimator: Any, frames: NDArray, sides: str) -> dict[str, Any]:
    """Return the tangents at both ends of a distance to models with `frames`."""
    ends: dict[str, Any] = {"Y_tangents": frames}
    if sides in ("query", "both"):
        ends["X_tangents"] = generator_of(estimator)
        if ends["X_tangents"] is None:
            raise ValueError(
                f"estimator: {type(estimator).__name__} has no tangents for inputs, "
                f"so that sides={sides!r} has none for x; use sides='reference'."
            )
    return ends


def _nearest(
    estimator: Any, X: NDArray, kept: _References, ends: dict[str, Any]
) -> NDArray:
    if hasattr(estimator, "kneighbors"):
        return estimator.kneighbors(X, 1, return_distance=False)[:, 0]
    if kept.tangents is not None:
        return tangent_distances(X, kept.points, **ends).argmin(axis=1)
    if hasattr(estimator, "_squared_distances"):
        return estimator._squared_distances(X).argmin(axis=1)  # scaled, or learned
    return squared_distances(X, kept.points).argmin(axis=1)


def _references_of(estimator: Any, n_features: int) -> _References | None:
    # Where it was chosen by the fit, what was chosen.
    metric = getattr(estimator, "metric_", None)
    chosen = metric if isinstance(metric, TangentMetric) else estimator
    spring = getattr(estimator, "spring_", getattr(chosen, "spring", None))
    spring = DEFAULT_SPRING if spring is None else float(spring)
    sides = getattr(estimator, "sides_", getattr(chosen, "sides", "reference"))
    if hasattr(estimator, "prototypes_"):
        points = np.asarray(estimator.prototypes_, dtype=float)
        if points.shape[1] != n_features or hasattr(estimator, "dual_coef_"):
            return None  # combinations of samples in the space of a kernel
        labels = np.asarray(estimator.prototype_labels_)
        learned = _learned_frames(estimator)
        return _References(points, labels, learned, sides, spring)
    generator = None if sides == "none" else generator_of(estimator)
    codes = None
    if hasattr(estimator, "kneighbors") and hasattr(estimator, "bundle_"):
        # In the order in which kneighbors counts them.
        back = np.argsort(estimator._positions)
        points, codes = estimator.bundle_.points[back], estimator._codes[back]
    elif hasattr(estimator, "support_bundle_"):
        points = estimator.support_bundle_.points
    elif hasattr(estimator, "bundle_"):
        points = estimator.bundle_.points
    else:
        return None
    labels = np.full(len(points), "", dtype=object)
    if codes is not None:
        labels = estimator.classes_[codes]
    points = np.asarray(points, dtype=float)
    return _References(points, labels, generator, sides, spring)
