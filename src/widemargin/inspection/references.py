"""What a model compared each sample with: the nearest reference, and what moving left.

References are prototypes, remembered samples or support vectors, whichever a model
keeps in the space of the samples. Both are moved along their tangents as the model's
metric moves them, and the residual is x - y after moving: samples (n, d), references
(m, d), residuals (n, d).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.memory import PAIR_ROWS
from widemargin._compute.nearest import squared_distances
from widemargin.inspection.models import generator_of
from widemargin.metrics import tangent_alignment, tangent_distances

__all__ = ["NearestReferences", "nearest_references"]

SPRING = 1e-5


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
    learned = isinstance(kept.tangents, np.ndarray) and kept.tangents.ndim == 3
    for start in range(0, len(X), PAIR_ROWS):
        rows = slice(start, start + PAIR_ROWS)
        ends: dict[str, Any] = {"sides": kept.sides, "spring": kept.spring}
        if learned:
            ends["Y_tangents"] = kept.tangents
            if kept.sides == "two":
                ends["X_tangents"] = generator_of(estimator)
        elif kept.tangents is not None:
            ends["tangents"] = kept.tangents
        found = _nearest(estimator, X[rows], kept, ends)
        if learned:
            ends["Y_tangents"] = kept.tangents[found]
        if ends["sides"] == "mean":
            ends["sides"] = "two"
        if kept.tangents is None:
            left = X[rows] - kept.points[found]
            length = np.linalg.norm(left, axis=1)
        else:
            aligned = tangent_alignment(X[rows], kept.points[found], **ends)
            left = aligned.x_aligned - aligned.y_aligned
            length = np.sqrt(aligned.squared_distances)
        index[rows], residuals[rows], distances[rows] = found, left, length
    return NearestReferences(kept.points, kept.labels, index, residuals, distances)


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
    spring = getattr(estimator, "spring_", getattr(estimator, "spring", None))
    spring = SPRING if spring is None else float(spring)
    sides = getattr(estimator, "sides", "y")
    if hasattr(estimator, "prototypes_"):
        points = np.asarray(estimator.prototypes_, dtype=float)
        if points.shape[1] != n_features or hasattr(estimator, "dual_coef_"):
            return None  # combinations of samples in the space of a kernel
        learned = getattr(estimator, "tangents_", None)
        if not (isinstance(learned, np.ndarray) and learned.ndim == 3):
            learned = None
        labels = np.asarray(estimator.prototype_labels_)
        return _References(points, labels, learned, sides, spring)
    generator = generator_of(estimator)
    codes = None
    if hasattr(estimator, "kneighbors") and hasattr(estimator, "bundle_"):
        # In the order in which kneighbors counts them.
        back = np.argsort(estimator._positions)
        points, codes = estimator.bundle_.points[back], estimator._codes[back]
        points = points * estimator._metric.unit
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
