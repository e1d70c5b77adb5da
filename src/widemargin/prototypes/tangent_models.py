"""What every tangent model shares: its distances, its parameters, its refusals.

A fitted model has ``prototypes_`` (K, d), the centroids, ``tangents_`` (K, m, d), their
orthonormal frames, and ``metric_``, which says whether inputs move as well. One-sided,
a sample is as far as its distance to the affine space C_j + span(T_j); two-sided, it
may move along its own tangents too.
"""

from typing import Any

import numpy as np

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.pairs import pair_distances
from widemargin._compute.threads import batched_slices
from widemargin._core.arrays import in_dtype, is_tensor, numpy_dtype, put, to_numpy
from widemargin._core.checks import check_count, check_number
from widemargin._core.samples import Samples
from widemargin.metrics import TangentMetric
from widemargin.prototypes.base import PrototypeClassifier, no_bound
from widemargin.tangents import Bundle, orthonormalize
from widemargin.tangents.frames import like

SIDES = ("y", "two")
# Nothing but the models' own frames, along which moving is free.
ONE_SIDED = TangentMetric(None, "y", 0.0)


def resolve_n_tangents(
    n_tangents: Any, n_features: int, name: str = "n_tangents"
) -> int:
    """Return the number of tangents; "auto" is an eighth of d, at most 20."""
    if isinstance(n_tangents, str) and n_tangents == "auto":
        return min(20, n_features // 8)
    number = check_count(name, n_tangents, "'auto' or ", low=0)
    if number >= n_features:
        raise ValueError(
            f"{name} must be at least 0 and below the number of features, "
            f"{n_features}, or every sample would lie in every model; got {number}."
        )
    return number


def check_metric(tangents: Any, sides: Any, spring: Any) -> TangentMetric:
    """Metric of models with tangents: one-sided, or with inputs that bend."""
    check_number("spring", spring, above=0)
    metric = TangentMetric(tangents, sides, spring).check(SIDES)
    if sides == "y":
        if metric.tangents is not None:
            raise ValueError(
                "tangents bends the inputs, which sides='y' keeps as they are: set "
                "sides='two', or tangents=None."
            )
        return ONE_SIDED
    if metric.tangents is None:
        raise ValueError(
            "sides='two' needs tangents of the inputs: pass tangents=, a generator "
            "such as ImageTangents(shape=(16, 16)), or an array (n_tangents, "
            "n_features) that all samples share."
        )
    return metric


def model_distances(
    metric: TangentMetric, x: Bundle, C: np.ndarray, T: np.ndarray, n_jobs: Any = None
) -> np.ndarray:
    """(n, K) squared distances of samples to models, in the dtype of the samples."""
    dtype = numpy_dtype(x.points)
    models = Bundle(C.astype(dtype, copy=False), T.astype(dtype, copy=False))
    if is_tensor(x.points):
        models = models.to(x.points.device)
    return to_numpy(metric.squared_distances(x, models, n_jobs=n_jobs))


class TangentModels(PrototypeClassifier):
    """Base of the classifiers whose references are affine spaces.

    Subclasses have the parameter ``n_jobs`` and set ``prototypes_``, ``tangents_`` and
    ``metric_``, fitted.
    """

    metric_: TangentMetric = ONE_SIDED

    @property
    def input_tangents_(self) -> Any:
        """What bends the inputs, fitted; None where they stay as they are."""
        return self.metric_.tangents

    @property
    def _freedom(self) -> int:
        return 1 + self.tangents_.shape[1]

    def _fit_metric(self, samples: Samples) -> None:
        metric = check_metric(self.tangents, self.sides, self.spring)
        self.metric_ = metric.fit(put(samples.X, samples.device), samples.labels)

    def _bundle_references(self, samples: Samples) -> Bundle:
        """Training samples with their frames; their labels are known."""
        X = put(samples.X, samples.device)
        bundle = self.metric_.bundle(X, samples.labels, end="x", n_jobs=self.n_jobs)
        self.metric_.warn_of_blanks(bundle)
        return bundle

    def _squared_distances(self, X: np.ndarray) -> np.ndarray:
        X = in_dtype(X, np.result_type(numpy_dtype(X), self.prototypes_))
        parts = []
        # Frames are many times the samples: they come and go by blocks.
        per_row = 8 * X.shape[1] * (32 if self.metric_.has_tangents else 1)
        size = 2**31 // per_row if is_tensor(X) else rows_in_budget(per_row)
        for rows in batched_slices(len(X), size):
            x = self._checked_bundle(X[rows])
            parts.append(
                model_distances(
                    self.metric_, x, self.prototypes_, self.tangents_, self.n_jobs
                )
            )
        return np.concatenate(parts)

    def _checked_bundle(self, X: np.ndarray) -> Bundle:
        """Give checked samples their frames; a second check costs more than a row."""
        if not self.metric_.has_tangents:
            return Bundle(X, like((len(X), 0, X.shape[1]), X))
        return self.metric_.bundle(X, end="x", n_jobs=self.n_jobs)

    def _distance_bounds(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        C = self.prototypes_.astype(float)
        # Stored in float32 the frames are orthonormal up to its rounding only.
        T = orthonormalize(self.tangents_.astype(float))
        ends = (X, np.empty((len(X), 0, X.shape[1])), C, T)
        D = pair_distances(*ends, sides="y", spring=0.0)
        below = pair_distances(*ends, sides="y", spring=0.0, lower=True)
        error = 2 * np.maximum(D - below, 1e-12 * D)
        return np.maximum(D - error, 0), D + error

    def _lipschitz(self) -> float:
        if self.metric_.has_tangents:
            raise ValueError(
                "certified_radius needs sides='y': a two-sided distance changes with "
                "the tangents of the sample, at no known rate."
            )
        return 1.0

    def _check_bound(self) -> None:
        if self.tangents_.shape[1] or self.metric_.has_tangents:
            no_bound(
                "models with tangents have quadratic boundaries, which its theorem "
                "does not count. Use n_tangents=0"
            )
