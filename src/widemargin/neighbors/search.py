r"""Nearest neighbours under tangent distances, exact without all exact distances.

For any matrix P with orthonormal rows and the best moves p, q of the full problem,

    d^2(x, y) = |v|^2 + k (|p|^2 + |q|^2),   v = x + U^T p - y - V^T q,

and |v| >= |P v|. The projected frame U P^T = R U' has orthonormal rows U' again, and
P U^T p = U'^T p' with p' = R^T p; no row of R is longer than |R| = |U P^T U'^T| <= 1,
so |p'| <= |p|. Hence the tangent distance of the projected points and frames, with the
same spring, is a lower bound of the true one, and costs a product in fewer dimensions.
The exact distance of the best references under the bound is a radius; only references
whose bound, less its rounding, lies within it are looked at again.

Fewer tangents, or the tangents of one end only, give *upper* bounds: ranking by those
is the approximate ``"rerank"``.

Shapes: queries (n, d), references (m, d), answers (n, k).

Where to look: references that are near in features, for distances that are slow.

A transform turns samples into features whose plain distance is nearly that of the slow
metric: direction features, say, for distortion models of images. The references nearest
there are the candidates that a slow distance is computed to. Shapes: queries (n, d),
candidates (n, n_candidates).
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from widemargin._compute.formulas import (
    listed_distances,
    nearest_listed,
    worth_compiling,
)
from widemargin._compute.machine import (
    PAIR_ROWS,
    batched_slices,
    one_blas_thread,
    rows_in_budget,
    thread_map,
    worker_count,
)
from widemargin._compute.nearest import (
    expanded_distances,
    product_error,
    some_eigenpairs,
    squared_norms,
)
from widemargin._compute.pairs import References, pair_distances
from widemargin._core.arrays import is_tensor, made_once, put, to_numpy, xp_of
from widemargin._core.checks import as_matrix, check_squares, in_unit, unit_of_squares
from widemargin._core.classifier import MarginClassifier
from widemargin._core.shards import Shards
from widemargin.metrics.tangent import on_a_shared_frame
from widemargin.tangents import Bundle, orthonormalize

NAME = "candidate_transform"


def check_transform(transform: Any) -> Any:
    """Return a transformer, or say what is wrong with it; None is none."""
    if transform is None:
        return None
    methods = ("fit", "transform", "get_params")
    able = all(hasattr(transform, method) for method in methods)
    if isinstance(transform, type) or not able:
        raise ValueError(
            f"{NAME} must be None or a transformer with fit, transform and get_params, "
            f"such as DirectionFeatures(shape=(28, 28)); got {transform!r}."
        )
    return transform


def fit_transform(transform: Any, X: Any, y: Any) -> Any:
    """Return a clone of the transformer fitted to the references; None is none."""
    return None if transform is None else clone(transform).fit(to_numpy(X), y)


class FeatureCandidates:
    """References by their features, to be asked for the nearest of any queries.

    Parameters
    ----------
    transform : transformer or None
        Fitted; None leaves samples as they are.
    references : ndarray or tensor of shape (n_references, n_features)
        Where to look.
    n_candidates : int
        How many to find.
    scale : float
        What references and queries were divided by.
    """

    def __init__(
        self, transform: Any, references: Any, n_candidates: int, scale: float = 1.0
    ):
        self.transform, self.scale = transform, scale
        self.n_candidates = min(n_candidates, len(references))
        features = self._features(references)
        self.unit = unit_of_squares(features)
        self.centre = features.mean(axis=0)
        self.features = self._moved(features)
        self.squares = np.einsum("ij,ij->i", self.features, self.features)

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        return 2048

    def candidates(
        self,
        queries: Bundle,
        at_least: int = 1,
        n_jobs: int | None = None,
        groups: tuple[NDArray, NDArray] | None = None,
    ) -> NDArray:
        """Find the nearest references, as indices (n, n_candidates), ascending.

        `at_least` so many. `groups`, of samples and of references, leaves out those of
        a sample's own; where too few others are left, the first indices are -1.
        """
        count = min(len(self.features), max(self.n_candidates, at_least))
        features = check_squares(self._features(queries.points), self.unit)
        asked = self._moved(features)
        found = np.empty((len(asked), count), np.int64)

        def fill(rows: slice) -> None:
            d2 = self.squares - 2 * (asked[rows] @ self.features.T)
            if groups is not None:
                d2[groups[0][rows, None] == groups[1]] = np.inf
            near = smallest(d2, count)
            if groups is not None:
                near[np.isinf(np.take_along_axis(d2, near, axis=1))] = -1
            found[rows] = np.sort(near, axis=1)

        # Distances, their order and, with groups, a mask.
        size = rows_in_budget(24 * len(self.features), n_jobs)
        thread_map(fill, batched_slices(len(asked), min(64, size)), n_jobs, "nearest")
        return found

    def _features(self, X: Any) -> NDArray:
        samples = to_numpy(X)
        if self.scale != 1:
            samples = samples.astype(float) * self.scale
        if self.transform is None:
            return samples
        made = self.transform.transform(samples)
        if len(np.shape(made)) != 2:
            raise ValueError(
                f"{NAME} must return a table, one row per sample; it made an array of "
                f"shape {np.shape(made)}."
            )
        features = as_matrix(f"what {NAME} returns", made)
        if len(features) != len(samples):
            raise ValueError(
                f"{NAME} must return one row per sample; it made {len(features)} of "
                f"{len(samples)}."
            )
        n_features = len(self.centre) if hasattr(self, "centre") else features.shape[1]
        if features.shape[1] != n_features:
            raise ValueError(
                f"{NAME} must make as many features of every sample; it made "
                f"{features.shape[1]}, of the training samples {n_features}."
            )
        return features

    def _moved(self, features: NDArray) -> NDArray:
        """Take the mean off, so that products lose little by rounding."""
        return in_unit(features - self.centre, self.unit)


def smallest(values: NDArray, count: int) -> NDArray:
    """Columns (n, count) of the smallest of every row, or of all, in any order."""
    if count < values.shape[1]:
        return np.argpartition(values, count - 1, axis=1)[:, :count]
    return np.tile(np.arange(count), (len(values), 1))


MAX_QUERIES = 512
# Features from which a plain distance is worth a bound.
MANY_FEATURES = 512
# The largest matrix whose eigenvectors are worth their time.
MAX_GRAM = 1024
# The same on a device.
MAX_AXES = 4096


# References that ask for their neighbours to see how much bounds spare, and how many
# of the best under the bounds they look at.
N_PROBES, N_BEST = 8, 8
# The share left by bounds that need not be better, and the largest worth its time: to
# look at a pair again takes several times as long as to meet it among all.
FEW_LEFT, MOST_LEFT = 0.03, 0.1
# Sizes between which float32 holds squares and what they are made of.
NEAR, FAR = 1e-15, 1e15

# Which references count, by their label against that of the query.
ALL, SAME, OTHER = 0, 1, -1


class Request(NamedTuple):
    """How many of the nearest are wanted, among which references."""

    kind: int
    labels: NDArray | None
    how_many: int


class TangentSearch:
    """References, prepared once, to be asked for the nearest of any queries.

    Answers are distances in float64 from the points and frames as they are, whatever
    the dtypes; only the bounds are in the dtype of the references. Nothing changes by
    being asked.

    Parameters
    ----------
    references : Bundle
        What is searched. Where all share one frame, it is that of the queries too.
    sides : {"query", "reference", "both", "mean"}
    spring : float
    algorithm : {"exact", "brute", "rerank"}
    n_components : int
        Dimensions of the lower bound of "exact".
    n_candidates : int
        How many references "rerank" looks at.
    n_jobs : int or None
        Threads that prepare the bound.
    elsewhere : FeatureCandidates or None
        Where "rerank" gets its candidates, if not from distances with tangents at one
        end.
    """

    power = 2

    def __init__(
        self,
        references: Bundle,
        *,
        sides: str,
        spring: float,
        algorithm: str,
        n_components: int,
        n_candidates: int,
        n_jobs: int | None,
        elsewhere: FeatureCandidates | None = None,
    ):
        self.references, self.n_candidates = references, n_candidates
        self.elsewhere = elsewhere
        self.sides, self.spring = sides, float(spring)
        self.shared = None
        if references.is_shared:
            self.shared = np.array(references.frames[:1])
            # As orthonormal as float64 allows: a frame in float32 is so to 1e-7 only.
            self.directions = orthonormalize(self.shared.astype(float), rtol=1e-14)[0]
            self.sides, self.spring = on_a_shared_frame(sides, self.spring)
            self.shrinkage = 1 - np.sqrt(self.spring / (1 + self.spring))
        self.algorithm = algorithm
        n, d = references.points.shape
        n_tangents = references.n_tangents
        self.compiled = worth_compiling(
            n,
            *{"y": (0, n_tangents), "x": (n_tangents, 0)}.get(
                self.sides, (n_tangents,) * 2
            ),
        )
        # Without frames of their own references are met by one product.
        few = self.shared is not None and d < MANY_FEATURES
        few = few or not self.compiled
        if algorithm == "exact" and (few or not worth_a_bound(n, d, n_components)):
            self.algorithm = "brute"
        self.centre = references.points.mean(axis=0, dtype=np.float64)
        if self.shared is not None:
            self.lengths = self._lengths(references.points)
        self.axes: NDArray | None = None
        if self.algorithm == "exact":
            # The eigenvectors of so small a matrix take longer on many threads.
            with one_blas_thread():
                axes = principal_axes(references.points, n_components)
            self._project(axes, n_jobs)
        if self.algorithm != "exact":
            shadows = None
            if self.shared is not None:
                shadows = self._shadow(references, references.points.dtype, n_jobs)
            self._prepare(shadows)

    def _prepare(self, shadows: Bundle | None) -> None:
        """Keep what belongs to the references, for queries that come one by one."""
        self.shadows = shadows
        searched = self.references if shadows is None else shadows
        self.prepared = References(searched.points, searched.frames)

    def _project(self, axes: NDArray, n_jobs: int | None) -> None:
        """Take the coarsest bound that spares most of the work, or none at all.

        Bounds in float32 are made in half the time. Where they are too coarse, those
        in float64 may not be; where hardly anything can be spared, as among noise,
        meeting all references is faster.
        """
        self.axes = axes
        points, shares = self.references.points, {}
        shadows = self._shadow(self.references, points.dtype, n_jobs)
        size = np.abs(shadows.points).max()
        narrow = points.dtype == np.float64 and NEAR < size < FAR
        for dtype in (np.float32, np.float64) if narrow else (points.dtype,):
            self._prepare(shadows.astype(dtype))
            shares[dtype] = self._share_left(n_jobs)
            if shares[dtype] <= FEW_LEFT:
                return
        if narrow and shares[np.float32] <= 1.5 * shares[np.float64]:
            self._prepare(shadows.astype(np.float32))
        if min(shares.values()) > MOST_LEFT:
            self.algorithm, self.axes = "brute", None

    def _share_left(self, n_jobs: int | None) -> float:
        """Share of the references that bounds leave to some of them, or a bit more."""
        n = len(self.references)
        some = self.references[np.linspace(0, n - 1, N_PROBES).astype(int)]
        bounds = self._bounds(some, 1, n_jobs)
        best = np.argpartition(bounds, min(N_BEST, n) - 1, axis=1)[:, :N_BEST]
        # Each finds itself, and the nearest of the others within those few.
        within = np.full_like(bounds, np.inf)
        np.put_along_axis(within, best, np.take_along_axis(bounds, best, 1), axis=1)
        nobody = np.zeros(n, np.int64)
        ((d2, _),) = self._answer(
            some, nobody, [Request(ALL, None, 2)], n_jobs, lambda *_: within
        )
        return float(np.mean(bounds <= d2[:, 1:]))

    @property
    def needs_frames(self) -> bool:
        """Whether queries must bring their frames."""
        return self.sides != "reference"

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        n, n_tangents, d = self.references.frames.shape
        numbers = 2 * n + 4 * (1 + n_tangents * self.needs_frames) * d
        return min(MAX_QUERIES, rows_in_budget(8 * numbers))

    def query(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Distances, ascending, and indices of the nearest; ties by index."""
        anyone = np.zeros(len(self.references), np.int64)
        ((d2, index),) = self._answer(
            queries, anyone, [Request(ALL, None, n_neighbors)], n_jobs
        )
        return np.sqrt(d2), index

    def of_classes(
        self, queries: Bundle, codes: NDArray, n_classes: int, n_jobs: int | None = None
    ) -> NDArray:
        """Squared distances (n, n_classes) to the nearest reference of every class."""
        requests = [
            Request(SAME, np.full(len(queries), c), 1) for c in range(n_classes)
        ]
        found = self._answer(queries, codes, requests, n_jobs)
        return np.column_stack([d2[:, 0] for d2, _ in found])

    def rivals(
        self,
        queries: Bundle,
        codes: NDArray,
        wanted: NDArray | None,
        n_jobs: int | None = None,
    ) -> tuple[NDArray, NDArray]:
        """Squared distances to the nearest of the wanted class, and of all others.

        `wanted` None is the class of the nearest. Where there is no such reference the
        distance is inf.
        """
        first = Request(ALL, None, 1) if wanted is None else Request(SAME, wanted, 1)
        found = self._answer(queries, codes, [first, Request(OTHER, wanted, 1)], n_jobs)
        (d_plus, _), (d_minus, _) = found
        return d_plus[:, 0], d_minus[:, 0]

    def _answer(self, queries, codes, requests, n_jobs, given=None):
        """Squared distances and indices for each request.

        A request about others that names no labels means those of the first answer.
        `given` makes other bounds than :meth:`_bounds`.
        """
        y = self.references
        # Tangents at x alone are those of both ends, where y has none.
        sides = "both" if self.sides == "query" else self.sides
        dtype = np.result_type(queries.points, y.points)
        x, x_frames = np.ascontiguousarray(queries.points, dtype), queries.frames
        x_frames = x_frames[:, :0] if self.sides == "reference" else x_frames
        x_frames = np.ascontiguousarray(x_frames, dtype)
        y_frames = y.frames if self.shared is None else self.shared
        y_frames = y_frames[:, :0] if self.sides == "query" else y_frames
        most = max(request.how_many for request in requests)
        reranks = self.algorithm == "rerank"
        given = self.candidates if reranks else given or self._bounds
        # Another order would compile the search again, as another dtype would.
        material = np.ascontiguousarray(given(queries, most, n_jobs))
        y_points = np.ascontiguousarray(y.points)
        error = product_error(y.points.dtype, y.n_features)
        if not self.compiled:
            measure = partial(
                listed_distances, x, x_frames, y_points, y_frames,
                sides=sides, spring=self.spring,
            )  # fmt: skip
            return _answers(material, reranks, codes, requests, measure)
        from widemargin._compute import search
        from widemargin._compute.frames import SIDE_CODES

        nearest: Any = search.nearest_under_bounds
        if reranks:
            nearest = search.nearest_of_candidates
        answers = [
            (np.empty((len(x), r.how_many)), np.empty((len(x), r.how_many), np.int64))
            for r in requests
        ]

        def finish(rows):
            for request, (d2, index) in zip(requests, answers, strict=True):
                labels = request.labels
                if labels is not None:
                    labels = labels[rows]
                elif request.kind == OTHER:
                    labels = codes[answers[0][1][rows, 0]]
                else:
                    labels = np.zeros(rows.stop - rows.start, np.int64)
                nearest(
                    material[rows], x[rows], x_frames[rows], y_points, y_frames,
                    SIDE_CODES[sides], self.spring, error, labels, codes, request.kind,
                    d2[rows], index[rows],
                )  # fmt: skip

        thread_map(finish, batched_slices(len(x), 32), n_jobs, "neighbours")
        return answers

    def _bounds(self, queries, n_neighbors, n_jobs):
        """Lower bounds of the squared distances; "brute" gets all but the rounding."""
        bounds = self._all_pairs(queries, self.sides, n_jobs, lower=True)
        # One dtype for all: another would compile the search again.
        dtype = np.result_type(queries.points, self.references.points)
        if np.can_cast(bounds.dtype, dtype):
            return bounds.astype(dtype, copy=False)
        with np.errstate(over="ignore"):
            return np.nextafter(bounds.astype(dtype), dtype.type(-np.inf))

    def candidates(self, queries, n_neighbors, n_jobs):
        """Find references, (n, n_candidates), that the nearest should be among."""
        count = min(len(self.references), max(self.n_candidates, n_neighbors))
        if self.elsewhere is not None:
            return self.elsewhere.candidates(queries, n_neighbors, n_jobs)
        side = "query" if self.sides == "query" else "reference"
        upper = self._all_pairs(queries, side, n_jobs, lower=False)
        return smallest(upper, count)

    def _all_pairs(self, x, sides, n_jobs, *, lower):
        y = self.references
        prepared: References | None = self.prepared
        if self.shadows is not None:
            queries, y = x, self.shadows
            if y.points.dtype != x.points.dtype and np.abs(x.points).max() > FAR:
                # Nothing can be said in float32.
                return np.zeros((len(x), len(y)), y.points.dtype)
            x = self._shadow(x, y.points.dtype, n_jobs)
        elif x.points.dtype != y.points.dtype and np.abs(x.points).max() > FAR:
            y, prepared = y.astype(x.points.dtype), None
        elif x.points.dtype != y.points.dtype:
            # What rounding to the dtype of the references takes from a query must be
            # small against its distance, not against its offset.
            x = self._shadow(x, y.points.dtype, n_jobs)
            y = Bundle((y.points - self.centre).astype(y.points.dtype), y.frames)
            prepared = None
        out = pair_distances(
            x.points, x.frames, y.points, y.frames,
            sides=sides, spring=self.spring, lower=lower, n_jobs=n_jobs,
            references=prepared, compiled=self.compiled,
        )  # fmt: skip
        if lower and self.shared is not None:
            # Folding rounds in units of the points, of which it leaves little.
            whole, folded = self._lengths(queries.points)
            rounding = 2 * product_error(np.float64, queries.n_features)
            out -= (rounding * (whole[:, None] + self.lengths[0])) * (
                folded[:, None] + self.lengths[1]
            )
        return out

    def _lengths(self, points: NDArray) -> tuple[NDArray, NDArray]:
        """Distances of points from the centre, before and after they are folded."""
        lengths = np.empty((2, len(points)))
        for rows in batched_slices(len(points), 512):
            lengths[0, rows] = np.linalg.norm(points[rows] - self.centre, axis=1)
            lengths[1, rows] = np.linalg.norm(self._move(points[rows]), axis=1)
        return lengths[0], lengths[1]

    def _move(self, points: NDArray) -> NDArray:
        """Centre the points, in float64, and fold a frame that all share into them.

        |delta|^2 - |V delta|^2/(1+k) is the plain squared distance of points whose part
        along V is shrunk by sqrt(k/(1+k)).
        """
        centred = points - self.centre
        if self.shared is None:
            return centred
        along = (centred @ self.directions.T) @ self.directions
        return centred - self.shrinkage * along

    def _shadow(self, bundle: Bundle, dtype: Any, n_jobs: int | None) -> Bundle:
        """Return what the bound is made of: centred, folded, projected, cast."""
        if self.shared is not None:
            bundle = Bundle(bundle.points, bundle.frames[:, :0])
        if self.axes is not None:
            return project(bundle, self.axes, n_jobs, move=self._move, dtype=dtype)
        points = np.empty(bundle.points.shape, dtype)
        for rows in batched_slices(len(bundle), 512):
            points[rows] = self._move(bundle.points[rows])
        return Bundle(points, bundle.frames.astype(dtype, copy=False))


def _answers(
    material: NDArray,
    reranks: bool,
    codes: NDArray,
    requests: list[Request],
    measure: Callable[[NDArray, NDArray], NDArray],
) -> list[tuple[NDArray, NDArray]]:
    """As :meth:`TangentSearch._answer`, over arrays: for few references.

    `material` are bounds of all pairs or candidates of every row; ``measure(i, j)``
    gives squared distances of listed pairs. The k least bounds give a radius.
    """
    n, nowhere = len(material), len(codes)
    answers: list[tuple[NDArray, NDArray]] = []
    for kind, labels, how_many in requests:
        if labels is None and kind == OTHER:
            labels = codes[answers[0][1][:, 0]]
        own = codes[material] if reranks else codes
        counts = np.ones(material.shape, bool)
        if kind != ALL:
            assert labels is not None
            counts = (labels[:, None] == own) == (kind == SAME)
        if reranks:
            i, c = np.nonzero(counts)
            j = material[i, c]
        else:
            bounds = np.where(counts, material, np.inf)
            seeds = smallest(bounds, how_many)
            i, j = np.repeat(np.arange(n), seeds.shape[1]), seeds.ravel()
            there = counts[i, j]
            d2 = measure(i[there], j[there])
            radius = nearest_listed(i[there], j[there], d2, n, how_many, nowhere)[0]
            i, j = np.nonzero(counts & (bounds <= radius[:, -1:]))
        answers.append(nearest_listed(i, j, measure(i, j), n, how_many, nowhere))
    return answers


class ByClasses:
    """A search that knows rivals from the nearest of every class, `of_classes`."""

    of_classes: Any

    def rivals(
        self,
        queries: Bundle,
        codes: NDArray,
        wanted: NDArray | None,
        n_jobs: int | None = None,
    ) -> tuple[NDArray, NDArray]:
        """As :meth:`TangentSearch.rivals`; not squared where distances are not."""
        nearest = self.of_classes(queries, codes, int(codes.max()) + 1, n_jobs)
        rows = np.arange(len(nearest))
        wanted = nearest.argmin(axis=1) if wanted is None else wanted
        d_plus = nearest[rows, wanted]
        nearest[rows, wanted] = np.inf
        return d_plus, nearest.min(axis=1)


# How many more than the k nearest are asked for: the next one is mostly far enough for
# its rounded distance to say so.
MORE = 1
# Up to this many features a tree of scipy's, with so many points in a leaf, finds
# neighbours sooner than products do (benchmarks/nearest.py).
TREE_FEATURES, LEAF = 15, 32


class PlainSearch(ByClasses):
    """What :class:`TangentSearch` is, where no reference has a frame of its own.

    With one frame V for all, |delta|^2 - |V delta|^2/(1+k) is the plain squared
    distance of points whose part along V is shrunk by sqrt(k/(1+k)). A tree or products
    find the k + 1 nearest of those. Their distances are computed again from the
    difference; a sample whose k-th is not clearly nearer than the last one found meets
    them all.

    Parameters
    ----------
    references : Bundle
        What is searched, ordered by class, with one frame for all or none.
    sides, spring
        As of the other search.
    n_candidates : int
        How many `candidates` gives.
    n_jobs : int or None
        Threads of a tree; scikit-learn's products take the cores they find.
    """

    power = 2
    needs_frames = False

    def __init__(
        self,
        references: Bundle,
        *,
        sides: str,
        spring: float,
        n_candidates: int,
        n_jobs: int | None,
    ):
        self.references, self.n_jobs = references, n_jobs
        self.n_candidates = n_candidates
        self.spring = on_a_shared_frame(sides, float(spring))[1]
        points, self.directions = references.points, references.frames[0].astype(float)
        if len(self.directions):
            self.directions = orthonormalize(self.directions[None], rtol=1e-14)[0]
        self.shrinkage = 1 - np.sqrt(self.spring / (1 + self.spring))
        self.centre = points.mean(axis=0, dtype=np.float64)
        self.moved = np.empty_like(points, order="C")
        self.lengths = np.zeros(2)
        for rows in batched_slices(len(points), 512):
            moved, *lengths = self._move(points[rows])
            self.moved[rows] = moved
            self.lengths = np.maximum(self.lengths, np.max(lengths, axis=1))

    def _move(self, points: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Points about the centre, folded, and their lengths before and after that."""
        moved = points - self.centre
        whole = np.sqrt(squared_norms(moved))
        if len(self.directions):
            along = (moved @ self.directions.T) @ self.directions
            moved -= self.shrinkage * along
        return moved, whole, np.sqrt(squared_norms(moved))

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        return min(4096, rows_in_budget(64 * self.references.n_features))

    def query(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Distances, ascending, and indices of the nearest; ties by index."""
        d2, index = self._nearest(queries.points, 0, len(self.references), n_neighbors)
        return np.sqrt(d2), index

    def candidates(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> NDArray:
        """As :meth:`TangentSearch.candidates`."""
        count = min(len(self.references), max(self.n_candidates, n_neighbors))
        return self.query(queries, count)[1]

    def of_classes(
        self, queries: Bundle, codes: NDArray, n_classes: int, n_jobs: int | None = None
    ) -> NDArray:
        """As :meth:`DeviceTangentSearch.of_classes`."""
        nearest = np.full((len(queries), n_classes), np.inf)
        edges = np.searchsorted(codes, np.arange(n_classes + 1)).tolist()
        for c, (start, stop) in enumerate(pairwise(edges)):
            if start < stop:
                nearest[:, c] = self._nearest(queries.points, start, stop, 1)[0][:, 0]
        return nearest

    def _nearest(
        self, x: NDArray, start: int, stop: int, k: int
    ) -> tuple[NDArray, NDArray]:
        """Squared distances and indices of the k nearest of some references."""
        moved, whole, folded = self._move(x)
        # What rounds in the dtype of the references, and what folding rounds before.
        error = product_error(self.moved.dtype, x.shape[1])
        fine = 2 * product_error(np.float64, x.shape[1])
        rounding = error * (folded**2 + self.lengths[1] ** 2)
        rounding += fine * (whole + self.lengths[0]) * (folded + self.lengths[1])
        count = min(stop - start, k + MORE)
        asked = np.where(folded[:, None] < FAR, moved, 0).astype(self.moved.dtype)
        rough, found = self._finder(start, stop)(asked, count)
        found = np.sort(found + start, axis=1)
        each = np.repeat(np.arange(len(x)), count)
        d2 = self._from_differences(x, each, found.ravel()).reshape(found.shape)
        order = np.argsort(d2, axis=1, kind="stable")[:, :k]
        d2, found = (np.take_along_axis(a, order, axis=1) for a in (d2, found))
        if count < stop - start:
            nearer = rough[:, -1].astype(float) ** 2 - rounding > d2[:, -1]
            rows = np.flatnonzero(~(nearer & (folded < FAR)))
            size = rows_in_budget(40 * (stop - start))
            for part in batched_slices(len(rows), size):
                i = rows[part]
                far = folded[i] >= FAR
                bounds = expanded_distances(asked[i], self.moved[start:stop])
                bounds = bounds - rounding[i, None]
                bounds[far] = -np.inf
                meets, j = np.nonzero(bounds <= d2[i, -1:])
                again = self._from_differences(x, i[meets], j + start)
                order = np.lexsort((j, again, meets))
                first = np.searchsorted(meets, np.arange(len(i)))
                best = order[first[:, None] + np.arange(k)]
                d2[i], found[i] = again[best], j[best] + start
        return d2, found

    def _finder(self, start: int, stop: int) -> Callable[..., tuple[NDArray, NDArray]]:
        """Return what finds the nearest of some references, made when first needed.

        It takes queries and a count, and returns distances, ascending, and indices.
        """

        def make() -> Callable[..., tuple[NDArray, NDArray]]:
            some = self.moved[start:stop]
            if some.shape[1] > TREE_FEATURES:
                return NearestNeighbors(n_jobs=self.n_jobs).fit(some).kneighbors
            tree, workers = KDTree(some, leafsize=LEAF), worker_count(self.n_jobs)
            # A list of counts, for one would come without its axis.
            return lambda asked, count: tree.query(
                asked, np.arange(1, count + 1), workers=workers
            )

        return made_once(self, (start, stop), make)

    def _from_differences(self, x: NDArray, i: NDArray, j: NDArray) -> NDArray:
        """Squared distances of samples `i` of x to references `j`, in float64."""
        d2, points = np.empty(len(j)), self.references.points
        # Small enough for a cache.
        for rows in batched_slices(len(j), 2**16 // x.shape[1]):
            delta = np.subtract(x[i[rows]], points[j[rows]], dtype=float)
            energy: Any = 0.0
            for direction in self.directions:
                # No BLAS: a pair is computed alone as among others.
                move = np.einsum("ij,j->i", delta, direction) / (1 + self.spring)
                delta -= move[:, None] * direction
                energy = energy + self.spring * move**2
            d2[rows] = squared_norms(delta) + energy
        return d2


class DeviceTangentSearch(ByClasses):
    """What :class:`TangentSearch` is, for references and queries on a device.

    Answers are NumPy arrays: distances in float64 from the points and frames as they
    are.
    """

    power = 2

    def __init__(
        self,
        references: Bundle,
        *,
        sides: str,
        spring: float,
        algorithm: str,
        n_components: int,
        n_candidates: int,
        n_jobs: int | None = None,
    ):
        from widemargin._compute.device.search import DeviceSearch

        self.references, self.n_candidates = references, n_candidates
        self.algorithm, shared = algorithm, None
        n, d = references.points.shape
        frames = references.frames
        if references.is_shared and references.n_tangents:
            one = to_numpy(frames[:1]).astype(float)
            shared = put(orthonormalize(one, rtol=1e-14)[0], frames.device)
            sides, spring = on_a_shared_frame(sides, float(spring))
            frames = frames[:, :0]
        elif not references.n_tangents:
            sides = "reference"
        bounds = algorithm == "exact" and shared is None and d <= MAX_AXES
        if not bounds or not worth_a_bound(n, d, n_components):
            n_components = 0
        self.needs_frames = sides != "reference"
        self.finder = DeviceSearch(
            references.points, frames, sides=sides, spring=spring,
            n_components=n_components or None, shared=shared,
        )  # fmt: skip

    def max_queries(self) -> int:
        """How many queries to ask about at once: as many as keep the device busy."""
        n_tangents = self.references.n_tangents * self.needs_frames
        return max(1, 2**28 // ((1 + n_tangents) * self.references.n_features))

    def _ends(self, queries: Bundle) -> tuple[Any, Any]:
        frames = queries.frames if self.needs_frames else queries.frames[:, :0]
        return queries.points, frames

    def query(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Distances, ascending, and indices of the nearest; ties by index."""
        ends = self._ends(queries)
        if self.algorithm == "rerank":
            d2, there = self._likely(ends, n_neighbors)
            order = np.lexsort((there, d2), axis=1)[:, :n_neighbors]
            d2, there = (np.take_along_axis(a, order, axis=1) for a in (d2, there))
        else:
            d2, there = map(to_numpy, self.finder.query(*ends, n_neighbors))
        return np.sqrt(d2), there

    def _likely(self, ends: tuple[Any, Any], n_neighbors: int) -> tuple[Any, Any]:
        count = min(len(self.references), max(self.n_candidates, n_neighbors))
        d2, there = self.finder.candidates(*ends, count)
        return to_numpy(d2), to_numpy(there)

    def candidates(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> NDArray:
        """As :meth:`TangentSearch.candidates`."""
        count = min(len(self.references), max(self.n_candidates, n_neighbors))
        return self.query(queries, count, n_jobs)[1]

    def of_classes(
        self, queries: Bundle, codes: NDArray, n_classes: int, n_jobs: int | None = None
    ) -> NDArray:
        """Squared distances (n, n_classes) to the nearest reference of every class.

        References are ordered by class.
        """
        ends, nearest = self._ends(queries), np.full((len(queries), n_classes), np.inf)
        if self.algorithm == "rerank":
            d2, there = self._likely(ends, 1)
            for c in range(n_classes):
                nearest[:, c] = np.where(codes[there] == c, d2, np.inf).min(axis=1)
            return nearest
        edges = np.searchsorted(codes, np.arange(n_classes + 1)).tolist()
        for c, (start, stop) in enumerate(pairwise(edges)):
            if start < stop:
                d2, _ = self.finder.part(slice(start, stop)).query(*ends, 1)
                nearest[:, c] = to_numpy(d2)[:, 0]
        return nearest


def plain_search_serves(
    references: Bundle, algorithm: str, n_components: int, elsewhere: Any = None
) -> bool:
    """Whether references without frames of their own are met by products alone."""
    if not references.is_shared or elsewhere is not None:
        return False
    n, d = references.points.shape
    bounded = d >= MANY_FEATURES and worth_a_bound(n, d, n_components)
    return algorithm != "exact" or not bounded


def worth_a_bound(n: int, d: int, n_components: int) -> bool:
    """Whether a projection of n references in d dimensions saves anything.

    It does not where it keeps most dimensions, or where making it takes longer than
    meeting the few references there are.
    """
    return n_components < 0.75 * d and n >= 4 * n_components


def components_on_device(n_features: int) -> int:
    """Return how many dimensions a bound should have there, a multiple of 32.

    Products are cheap beside what a bound leaves open, but slow where rows are not
    aligned.
    """
    return max(32, 32 * round(14 * float(np.cbrt(n_features)) / 32))


class MergedSearch(ByClasses):
    """What other searches found for some queries, to be looked up in their order.

    Parameters
    ----------
    found : ndarray of shape (n, k)
        Distances of the nearest, or those of every class as `of_classes` has them.
    power : {1, 2}
        Of those of the classes, as the searches have it that found them.
    """

    needs_frames = False

    def __init__(self, found: NDArray, power: int):
        self.found, self.power = found, power

    def max_queries(self) -> int:
        """All at once: nothing is computed."""
        return 2**30

    def query(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Distances, and places among all that was found, query by query."""
        places = np.arange(self.found.size).reshape(self.found.shape)
        return self.found[:, :n_neighbors], places[:, :n_neighbors]

    def of_classes(
        self, queries: Bundle, codes: NDArray, n_classes: int, n_jobs: int | None = None
    ) -> NDArray:
        """As those that were merged."""
        return self.found.copy()


class MetricSearch(ByClasses):
    """References to be asked for the nearest of any queries, in any distance.

    There is no bound to prune with: all distances are computed, or those to candidates
    that a tangent search gives.

    Parameters
    ----------
    references : Bundle
        What is searched.
    metric : callable
        ``metric(X, Y)`` gives the distances of all pairs, shape (n_x, n_y).
    candidates : FeatureCandidates, TangentSearch or None
        Where to look; None is everywhere.
    """

    needs_frames = False
    # What is compared: the distance itself, where TangentSearch has its square.
    power = 1

    def __init__(
        self,
        references: Bundle,
        metric: Callable[[NDArray, NDArray], Any],
        candidates: Any,
    ):
        self.references, self.metric = references, metric
        self.candidates = candidates

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        # Without candidates the blocks of a call are small enough by themselves.
        return 2**30 if self.candidates is None else self.candidates.max_queries()

    def query(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Distances, ascending, and indices of the nearest; ties by index."""
        shape = len(queries), n_neighbors
        distances, indices = np.empty(shape), np.empty(shape, np.int64)

        def fill(rows, d, j):
            order = np.argsort(d, axis=1, kind="stable")[:, :n_neighbors]
            distances[rows] = np.take_along_axis(d, order, axis=1)
            indices[rows] = np.take_along_axis(j, order, axis=1)

        self._meet(queries, n_neighbors, fill, n_jobs)
        return distances, indices

    def of_classes(
        self, queries: Bundle, codes: NDArray, n_classes: int, n_jobs: int | None = None
    ) -> NDArray:
        """Distances (n, n_classes) to the nearest reference of every class."""
        nearest = np.full((len(queries), n_classes), np.inf)

        def fill(rows, d, j):
            for c in range(n_classes):
                own = np.where(codes[j] == c, d, np.inf)
                nearest[rows, c] = own.min(axis=1)

        self._meet(queries, 1, fill, n_jobs)
        return nearest

    def _meet(self, queries, n_neighbors, use, n_jobs):
        """Call ``use(rows, distances, indices)`` for some queries after the other."""
        x, y = queries.points, self.references.points
        if self.candidates is None:
            size = min(PAIR_ROWS, rows_in_budget(32 * len(y)))
        else:
            near = self.candidates.candidates(queries, n_neighbors, n_jobs)
            near, size = np.sort(near, axis=1), 1

        def meet(rows):
            if self.candidates is None:
                d = to_numpy(distances_of(self.metric, x[rows], y))
                use(rows, d, np.broadcast_to(np.arange(len(y)), d.shape))
            else:
                some = near[rows.start]
                d = to_numpy(distances_of(self.metric, x[rows], y[some]))
                use(rows, d, some[None])

        thread_map(meet, batched_slices(len(x), size), n_jobs, "neighbours")


def distances_of(metric: Callable[[Any, Any], Any], X: Any, Y: Any) -> Any:
    """Distances (n_x, n_y) by a function, in the kind it gives, once they are some."""
    given = metric(X, Y)
    d = given if is_tensor(given) else np.asarray(to_numpy(given), dtype=float)
    if tuple(d.shape) != (len(X), len(Y)):
        raise ValueError(
            f"metric must return distances of shape {(len(X), len(Y))}, one per "
            f"pair; got {tuple(d.shape)}."
        )
    wrong = ~(xp_of(d).isfinite(d) & (d >= 0))
    if wrong.any():
        raise ValueError(
            "metric must return finite distances of at least 0; got "
            f"{float(d[wrong][0])}."
        )
    return d


def principal_axes(points: NDArray, n_components: int) -> NDArray:
    """Leading principal axes (n_components, d) of the points, orthonormal rows.

    There may be fewer of them than asked for, where the points span fewer dimensions.
    Any orthonormal rows give a bound: in many dimensions the axes are those of some
    of the points, whose Gram matrix is the smaller one.
    """
    n, d = points.shape
    centre = points.mean(axis=0, dtype=np.float64)
    if d <= MAX_GRAM and d <= n:
        scatter = np.zeros((d, d))
        for rows in batched_slices(n, 4096):
            centred = points[rows] - centre
            scatter += centred.T @ centred
        return _leading(scatter, n_components)[0]
    some = points[:: -(-n // MAX_GRAM)] - centre
    combinations, values = _leading(some @ some.T, n_components)
    # Directions of rounding are not worth their place.
    kept = values > 1e-10 * values[0]
    kept[0] = True
    return np.linalg.qr((combinations[kept] @ some).T)[0].T.copy()


def _leading(scatter: NDArray, count: int) -> tuple[NDArray, NDArray]:
    """Eigenvectors, as rows, of the largest eigenvalues, and those."""
    n = len(scatter)
    values, vectors = some_eigenpairs(scatter, max(0, n - count), n - 1)
    return vectors[:, ::-1].T.copy(), values[::-1]


def project(
    bundle: Bundle, axes: NDArray, n_jobs: int | None, *, move=None, dtype=None
) -> Bundle:
    """Bundle of the projected points and frames, the frames made orthonormal again.

    Directions are kept down to rounding: one too few would break the lower bound.
    `move` is applied to the points, in float64, before.
    """
    from widemargin._compute.frames import gram_schmidt

    dtype = bundle.points.dtype if dtype is None else dtype
    points = np.empty((len(bundle), len(axes)), dtype)
    frames = np.empty((len(bundle), bundle.n_tangents, len(axes)), dtype)

    def fill(rows):
        moved = bundle.points[rows] if move is None else move(bundle.points[rows])
        points[rows] = moved @ axes.T
        shadows = bundle.frames[rows].astype(float) @ axes.T
        if shadows.size:
            gram_schmidt(shadows, 1e-14)
        frames[rows] = shadows

    thread_map(fill, batched_slices(len(bundle), 512), n_jobs, "projections")
    return Bundle(points, frames)


class RemembersSamples(MarginClassifier):
    """Base of classifiers that remember samples as a `bundle_`, here or on a cluster.

    Frames are many times as large as the points they come from: a pickle has the points
    only, and a subclass says how to make the frames again. The samples of a Dask
    collection stay with its workers, a model for each partition.
    """

    device_methods: ClassVar[tuple[str, ...]] = (
        *("fit", "predict", "predict_proba", "decision_function"),
        *("margins", "confidence"),
    )
    lazy_methods = ("fit",)
    # Models of the partitions of a Dask collection, where that was fitted.
    _parts = cast("Shards | None", None)

    bundle_: Bundle

    @abstractmethod
    def _remake(self, points: NDArray) -> None:
        """Make the bundle of its points, which are in the metric's unit."""

    @staticmethod
    def _parted(shards: Shards, make: Callable, *args: Any, **options: Any) -> Shards:
        """Make the model of every partition, where it is."""
        parts = shards.map(make, *args, **options)
        # What goes wrong, goes wrong now.
        parts.sum(_size)
        return parts

    def __getstate__(self) -> dict[str, Any]:
        if self._parts is not None:
            raise ValueError(
                f"this {type(self).__name__} cannot be saved or sent: its training "
                "samples are with the workers that it was fitted on. Fit it again "
                "where it is needed."
            )
        state = dict(super().__getstate__())
        if "bundle_" in state:
            state["_points"] = to_numpy(state.pop("bundle_").points)
            state.pop("_search", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        points = state.pop("_points", None)
        super().__setstate__(state)
        if points is not None:
            self._remake(points)


def _size(part: Any) -> int:
    return len(part.bundle_)
