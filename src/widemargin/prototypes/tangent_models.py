"""What every tangent model shares: its distances, its parameters, its refusals.

A fitted model has ``prototypes_`` (K, d), the centroids, ``tangents_`` (K, m, d), their
orthonormal frames, and ``metric_``, which says whether inputs move as well. One-sided,
a sample is as far as its distance to the affine space C_j + span(T_j); two-sided, it
may move along its own tangents too.

A model is a centroid C and an orthonormal frame T, fitted and moved. The squared
distance of x to the model is |r|^2 with r = x - C - T^T alpha and alpha = T (x - C). Of
all models the weighted mean and the leading eigenvectors of the weighted covariance,

    C = sum_i g_i x_i,    Sigma = sum_i g_i (x_i - C)(x_i - C)^T,    sum_i g_i = 1,

make the weighted sum of these distances smallest. Shapes: C (d,), T (m, d); stacked
models (K, 1 + m, d) hold [C; T].

Reference: T. Hastie, P. Simard, E. Säckinger, Learning prototype models for tangent
distance, NIPS 1994; Aiolli and Sperduti, equations 4, 9 and 10.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from widemargin._compute.engines import formula
from widemargin._compute.machine import batched_slices
from widemargin._compute.nearest import some_eigenpairs
from widemargin._compute.pairs import pair_distances
from widemargin._core.arrays import (
    beside,
    in_dtype,
    numpy_dtype,
    rows_at_once,
    to_device,
    to_numpy,
)
from widemargin._core.checks import check_count, check_spring, is_auto
from widemargin._core.samples import Samples
from widemargin._core.split import folds_of_classes
from widemargin.metrics import TangentMetric
from widemargin.metrics.tangent import DEFAULT_SPRING
from widemargin.prototypes.base import PrototypeClassifier, no_bound
from widemargin.prototypes.counts import prototype_counts
from widemargin.tangents import Bundle, orthonormalize

SIDES = ("reference", "both")
# Nothing but the models' own frames, along which moving is free.
Trials = list[tuple[np.ndarray, np.ndarray]]
ONE_SIDED = TangentMetric(None, "reference", 0.0)
# Centroids and tangents of a class, together, that the data may ask for.
MOST_DIMENSIONS = 30
# What the data choose from, tangents as shares of the features, and how: by models of
# two thirds of some samples, and how many others they are asked at most.
SHARES, MOST_TANGENTS, TRIED_ON, ASKED = (0, 1 / 8, 1 / 4, 3 / 8), 20, 600, 2000
# Share of the variance below which a direction is none.
NO_VARIANCE = 1e-12


@formula
def weighted_moments(X: Any, weights: np.ndarray) -> tuple[Any, Any]:
    """Mean and population covariance, as if sample i came `weights[i]` times."""
    X, total = X.astype(float), weights.sum()
    mean = (weights @ X) / total
    centred = X - mean
    return mean, (centred * weights[:, None]).T @ centred / total


@formula
def leading_directions(matrix: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest eigenvalues of a symmetric matrix, ascending, and their vectors."""
    d = len(matrix)
    return some_eigenpairs(matrix, d - count, d - 1)


def principal_model(
    X: np.ndarray, weights: np.ndarray, n_tangents: int
) -> tuple[np.ndarray, np.ndarray]:
    """Centroid and frame that explain weighted samples best, in float64.

    Samples that vary in fewer than `n_tangents` directions leave zero rows, last.
    """
    d, weights = X.shape[1], weights.astype(float) / float(weights.max())
    if n_tangents and len(X) > d:
        mean, covariance = weighted_moments(X, weights)
        return to_numpy(mean), principal_of_moments(covariance, n_tangents)
    X, frame = to_numpy(X).astype(float), np.zeros((n_tangents, d))
    mean = (weights @ X) / weights.sum()
    if n_tangents == 0:
        return mean, frame
    centred = X - mean
    # Divided first, so that squares neither overflow nor vanish.
    size = float(np.max(np.abs(centred), initial=0.0)) or 1.0
    scale = np.sqrt(weights / weights.sum())[:, None]
    _, singular, axes = np.linalg.svd(centred / size * scale, full_matrices=False)
    axes = axes[:n_tangents][singular[:n_tangents] ** 2 > NO_VARIANCE]
    frame[: len(axes)] = axes
    return mean, frame


def principal_of_moments(covariance: Any, n_tangents: int) -> np.ndarray:
    """Frame of the leading eigenvectors; zero rows, last, where nothing varies."""
    frame, size = np.zeros((n_tangents, len(covariance))), float(covariance.trace())
    if n_tangents == 0 or not size > 0:
        return frame
    values, vectors = leading_directions(covariance / size, n_tangents)
    axes = vectors.T[::-1][values[::-1] > NO_VARIANCE]
    frame[: len(axes)] = axes
    return frame


def random_frames(
    n_models: int, n_tangents: int, d: int, rng: np.random.RandomState
) -> np.ndarray:
    """Orthonormal frames of uniformly distributed random subspaces."""
    return orthonormalize(rng.standard_normal((n_models, n_tangents, d)))


# What a projection leaves, squared, of a row that depends on others.
DEPENDENT = 1e-20


@formula
def retract(frames: np.ndarray) -> np.ndarray:
    """Orthonormalise frames that a step has moved; dependent rows are zero, last.

    In their order, and by one projection where they nearly are orthonormal.
    """
    straight = np.array(frames, dtype=float, order="C")
    for j in range(straight.shape[1]):
        row, before = straight[:, j], np.inf
        square = left = np.einsum("nd,nd->n", row, row)
        # Once more where most of it has gone, and with it digits.
        while (again := (DEPENDENT * square < left) & (left < 0.5 * before)).any():
            done, before = straight[again, :j], left
            along = np.einsum("nkd,nd->nk", done, row[again])
            row[again] -= np.einsum("nk,nkd->nd", along, done)
            left = np.where(again, np.einsum("nd,nd->n", row, row), left)
        depends = left <= DEPENDENT * square
        row /= np.where(depends, np.inf, np.sqrt(left))[:, None]
    order = np.argsort(~straight.any(axis=2), axis=1, kind="stable")
    return np.take_along_axis(straight, order[:, :, None], axis=1)


@formula
def slide(
    points: np.ndarray,
    frames: np.ndarray,
    C: np.ndarray,
    T: np.ndarray,
    spring: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Move every sample along its own frame to where it meets the model.

    Minimises |x + U^T p - C - T^T q|^2 + spring (|p|^2 + |q|^2) over p and q.

    Returns
    -------
    moved : ndarray of shape (n, d)
        x + U^T p.
    q : ndarray of shape (n, m)
        Coefficients of the model's own tangents.
    """
    stiffness = 1.0 + spring
    n, n_own, d = frames.shape
    delta = points - C
    b = delta @ T.T
    if n_own == 0:
        return points, b / stiffness
    a = np.matmul(frames, delta[:, :, None])[:, :, 0]
    M = (frames.reshape(n * n_own, d) @ T.T).reshape(n, n_own, len(T))
    S = stiffness * np.eye(n_own) - np.matmul(M, M.transpose(0, 2, 1)) / stiffness
    r = a - np.matmul(M, b[:, :, None])[:, :, 0] / stiffness
    minus_p = np.linalg.solve(S.astype(float), r[:, :, None].astype(float))[:, :, 0]
    minus_p = minus_p.astype(points.dtype)
    q = (b - np.matmul(minus_p[:, None], M)[:, 0]) / stiffness
    return points - np.matmul(minus_p[:, None], frames)[:, 0], q


def model_counts(
    prototypes_per_class: Any, classes: np.ndarray, samples: Samples, n_tangents: int
) -> np.ndarray:
    """Return the number of models of each class; "auto" counts their dimensions."""
    return prototype_counts(
        prototypes_per_class, classes, samples.codes, samples.weights,
        size=1 + n_tangents, most=MOST_DIMENSIONS,
    )  # fmt: skip


def tried_tangents(n_tangents: Any, n_features: int) -> list[int]:
    """Return the number of tangents, or those that the data choose from.

    The first is that of "auto" where they cannot. With many features it is the only
    one: to try others would take long.
    """
    first = resolve_n_tangents(n_tangents, n_features)
    if not is_auto(n_tangents) or first == MOST_TANGENTS:
        return [first]
    counts = {min(MOST_TANGENTS, int(share * n_features)) for share in SHARES}
    return [first, *sorted(counts - {first})]


def tried_rows(
    codes: np.ndarray, rng: np.random.RandomState, tried_on: int = TRIED_ON
) -> Trials:
    """Return rows to fit models to and rows to ask them, three times; none of a class.

    Thirds of so many samples are left out in turn. Where there are more samples, some
    of them are asked as well.
    """
    shuffled = rng.permutation(len(codes))
    rows = np.sort(shuffled[:tried_on])
    folds = folds_of_classes(codes[rows], 3)
    if not folds or len(np.unique(codes[rows])) < 2:
        return []
    more = np.array_split(shuffled[tried_on : tried_on + ASKED], len(folds))
    return [
        (np.delete(rows, part), np.sort(np.concatenate([rows[part], others])))
        for part, others in zip(folds, more, strict=True)
    ]


def resolve_n_tangents(
    n_tangents: Any, n_features: int, name: str = "n_tangents"
) -> int:
    """Return the number of tangents; "auto" is an eighth of d, at most 20."""
    if isinstance(n_tangents, str) and n_tangents == "auto":
        return min(MOST_TANGENTS, n_features // 8)
    number = check_count(name, n_tangents, "'auto' or ", low=0)
    if number >= n_features:
        raise ValueError(
            f"{name} must be at least 0 and below the number of features, "
            f"{n_features}, or every sample would lie in every model; got {number}."
        )
    return number


def check_metric(tangents: Any, sides: Any, spring: Any) -> TangentMetric:
    """Metric of models with tangents: one-sided, or with inputs that bend."""
    spring = DEFAULT_SPRING if is_auto(spring) else check_spring(spring, free=False)
    metric = TangentMetric(tangents, sides, spring).check(SIDES)
    if sides == "reference":
        if metric.tangents is not None:
            raise ValueError(
                "tangents bends the inputs, which sides='reference' keeps as they are: "
                "set sides='both', or tangents=None."
            )
        return ONE_SIDED
    if metric.tangents is None:
        raise ValueError(
            "sides='both' needs tangents of the inputs: pass tangents=, a generator "
            "such as ImageTangents(shape=(16, 16)), or an array (n_tangents, "
            "n_features) that all samples share."
        )
    return metric


def model_distances(
    metric: TangentMetric, x: Bundle, C: np.ndarray, T: np.ndarray, n_jobs: Any = None
) -> np.ndarray:
    """(n, K) squared distances of samples to models, in the dtype of the samples."""
    models = Bundle(*(beside(x.points, part, alike=True) for part in (C, T)))
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
        metric = metric.fit(to_device(samples.X, samples.device), samples.labels)
        self.metric_ = replace(metric, pass_size=len(samples))

    def _bundle_references(
        self, samples: Samples, metric: TangentMetric | None = None
    ) -> Bundle:
        """Training samples with their frames; their labels are known."""
        X, metric = to_device(samples.X, samples.device), metric or self.metric_
        bundle = metric.bundle(X, samples.labels, end="query", n_jobs=self.n_jobs)
        metric.warn_of_blanks(bundle)
        return bundle

    def _squared_distances(self, X: np.ndarray) -> np.ndarray:
        X = in_dtype(X, np.result_type(numpy_dtype(X), self.prototypes_))
        # Frames are many times the samples: they come and go by blocks.
        per_row = X.shape[1] * (64 if self.metric_.has_tangents else 2)
        blocks = batched_slices(len(X), rows_at_once(X, per_row))
        parts = [
            self._bundle_distances(self._checked_bundle(self._in_spreads(X[s])))
            for s in blocks
        ]
        return np.concatenate(parts)

    def _bundle_distances(self, x: Bundle) -> np.ndarray:
        """Squared distances of samples whose frames are made to all models."""
        T = self.tangents_
        if numpy_dtype(x.points) != T.dtype:
            # Stored in float32 they are orthonormal up to its rounding only.
            T = orthonormalize(T.astype(float))
        C = self._in_spreads(self.prototypes_)
        return model_distances(self.metric_, x, C, T, self.n_jobs)

    def _in_spreads(self, X: Any) -> Any:
        """Divide what samples and models are apart from one point by the scale.

        Of what is far from the origin a quotient would be rounded.
        """
        if self.scale_ is None:
            return X
        centre = self.prototypes_.mean(axis=0, dtype=float)
        centre = centre.astype(self.prototypes_.dtype)
        return self._scaled(X - beside(X, centre))

    def _checked_bundle(self, X: np.ndarray) -> Bundle:
        """Give checked samples their frames; a second check costs more than a row."""
        if not self.metric_.has_tangents:
            return Bundle.bare(X)
        return self.metric_.bundle(X, end="query", n_jobs=self.n_jobs)

    def _distance_bounds(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        X, C = self._in_spreads(X), self._in_spreads(self.prototypes_.astype(float))
        # Stored in float32 the frames are orthonormal up to its rounding only.
        T = orthonormalize(self.tangents_.astype(float))
        ends = (X, np.empty((len(X), 0, X.shape[1])), C, T)
        options: Any = {"sides": "reference", "spring": 0.0}
        options["pass_size"] = self.metric_.pass_size
        D = pair_distances(*ends, **options)
        below = pair_distances(*ends, lower=True, **options)
        error = 2 * np.maximum(D - below, 1e-12 * D)
        return np.maximum(D - error, 0), D + error

    def _lipschitz(self) -> float:
        if self.metric_.has_tangents:
            raise ValueError(
                "certified_radius needs sides='reference': a two-sided distance "
                "changes with the tangents of the sample, at no known rate."
            )
        return super()._lipschitz()

    def _check_bound(self) -> None:
        chosen = is_auto(getattr(self, "n_tangents", 0))
        if self.tangents_.shape[1] or self.metric_.has_tangents or chosen:
            no_bound(
                "models with tangents have quadratic boundaries, which its theorem "
                "does not count. Use n_tangents=0"
            )
        super()._check_bound()
