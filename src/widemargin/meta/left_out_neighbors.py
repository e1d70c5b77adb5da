r"""Neighbours without each of their samples, in closed form.

A model by neighbours that learns nothing else is, without sample i, the same model but
for the nearest of i's class: where that is i, the second nearest takes its place. So
with d_c(x) the distance to the nearest of class c, and i of class c,

.. math:: d_c^{-i}(x) = \min_{j \ne i,\ y_j = c} d(x, x_j),
   \qquad d_{c'}^{-i}(x) = d_{c'}(x) \quad (c' \ne c),

and the scores of n models are those of one. Shapes: distances (n, n_classes), those
without each sample (n, n_training).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._core.arrays import to_numpy
from widemargin._core.confidence import contrasts
from widemargin.margins.conformal import rounding_of

# Metrics of scikit-learn that are made of all samples, where nothing else is given.
OF_ALL_SAMPLES = ("seuclidean", "mahalanobis")


class LeftOutScores(NamedTuple):
    """Classes of the training samples, and how strange each is to the others.

    What rounding may add is in `scores`.
    """

    codes: NDArray
    scores: NDArray


def has_closed_form(estimator: Any) -> bool:
    """Whether leaving a sample out of this model changes no other distance."""
    if type(estimator) is KNeighborsClassifier:
        return estimator.metric not in OF_ALL_SAMPLES
    return getattr(estimator, "_keeps_distances", False)


def left_out_scores(
    model: Any, X: Any, codes: NDArray, n_classes: int, nonconformity: str
) -> LeftOutScores:
    """Return how strange each training sample is to its class without it."""
    scores = np.empty(len(codes))
    for rows, D in _all_distances(model, X, len(codes)):
        own = np.arange(rows.start, rows.stop)
        D[np.arange(len(D)), own] = np.inf
        nearest = _nearest(D, codes, n_classes)
        scores[rows] = _scores(nearest, nonconformity)[np.arange(len(D)), codes[own]]
    widths = [rounding_of(scores[[i]]) for i in range(len(scores))]
    return LeftOutScores(codes, scores + widths)


def count_left_out(
    model: Any, X: Any, known: LeftOutScores, n_classes: int, nonconformity: str
) -> NDArray:
    """(n, n_classes): training samples i that are as strange as x to their class.

    Both are compared by the model without i.
    """
    codes, scores = known
    counts = np.empty((_num_samples(X), n_classes))
    for rows, D in _all_distances(model, X, len(codes)):
        nearest = _nearest(D, codes, n_classes)
        as_they_are = _scores(nearest, nonconformity)
        for c in range(n_classes):
            own = codes == c
            second = nearest.copy()
            second[:, c] = np.partition(D[:, own], 1, axis=1)[:, 1]
            without = np.where(
                D[:, own] == nearest[:, [c]],
                _scores(second, nonconformity)[:, [c]],
                as_they_are[:, [c]],
            )
            counts[rows, c] = np.count_nonzero(scores[own] >= without, axis=1)
    return counts


def _all_distances(model: Any, X: Any, n: int) -> Any:
    """Yield rows and their distances to all n training samples, in the order given."""
    for rows in batched_slices(_num_samples(X), rows_in_budget(40 * n)):
        distances, places = model.kneighbors(_safe_indexing(X, rows), n)
        D = np.empty(distances.shape)
        np.put_along_axis(D, to_numpy(places), to_numpy(distances), axis=1)
        yield rows, D


def _nearest(D: NDArray, codes: NDArray, n_classes: int) -> NDArray:
    return np.column_stack([D[:, codes == c].min(axis=1) for c in range(n_classes)])


def _scores(nearest: NDArray, nonconformity: str) -> NDArray:
    return contrasts(nearest, "distance") if nonconformity == "contrast" else nearest
