r"""Nearest neighbours under tangent distances, exact without all exact distances.

For any matrix P with orthonormal rows and the best moves p, q of the full problem,

.. math::

    d^2(x, y) = |v|^2 + k (|p|^2 + |q|^2), \quad v = x + U^T p - y - V^T q,

and :math:`|v| \ge |P v|`. The projected frame :math:`U P^T = R U'` has orthonormal rows
:math:`U'` again, and :math:`P U^T p = U'^T p'` with :math:`p' = R^T p`; no row of R is
longer than :math:`|R| = |U P^T U'^T| \le 1`, so :math:`|p'| \le |p|`. Hence the tangent
distance of the projected points and frames, with the same spring, is a lower bound of
the true one, and costs a product in fewer dimensions. The exact distance of the best
references under the bound is a radius; only references whose bound, less its rounding,
lies within it are looked at again.

Fewer tangents, or the tangents of one end only, give *upper* bounds: ranking by those
is the approximate "rerank".

Shapes: queries (n, d), references (m, d), answers (n, k).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.formulas import (
    ALL,
    OTHER,
    SAME,
    Counted,
    nearest_of_candidates,
    nearest_under_bounds,
    on_a_shared_frame,
    projected,
    smallest,
    worth_a_bound,
)
from widemargin._compute.machine import (
    batched_slices,
    one_blas_thread,
    rows_in_budget,
    thread_map,
)
from widemargin._compute.nearest import some_eigenpairs
from widemargin._compute.pairs import References, pair_distances
from widemargin._compute.rounding import product_error, rounded_down
from widemargin.metrics import TangentMetric
from widemargin.neighbors.index import Index
from widemargin.tangents import Bundle, orthonormalize

MAX_QUERIES = 512
# Products of a query with all references from which a bound is worth its time.
MANY_PRODUCTS = 2**17
# The largest matrix whose eigenvectors are worth their time.
MAX_GRAM = 1024
# References that ask for their neighbours to see how much bounds spare, and how many
# of the best under the bounds they look at.
N_PROBES, N_BEST = 8, 8
# Part of the references left by bounds that need not be better, and the largest worth
# its time: to look at a pair again takes several times as long as to meet it among all.
FEW_LEFT, MOST_LEFT = 0.03, 0.1
# Sizes between which float32 holds squares and what they are made of.
TINY, HUGE = 1e-15, 1e15


class PrunedIndex(Index):
    """References, prepared once, to be asked for the nearest of any queries.

    Answers are distances in float64 from the points and frames as they are, whatever
    the dtypes; only the bounds are in the dtype of the references.

    Parameters
    ----------
    references, codes, n_classes, metric
        As of `Index`. Where all references share one frame, it is that of the queries.
    algorithm : {"exact", "brute", "rerank"}
        By a projected bound, by one of all features, or among candidates.
    n_components : int
        Dimensions of the projected bound.
    n_candidates : int
        How many references "rerank" looks at.
    candidates : FeatureCandidates or None
        Where "rerank" gets its candidates, if not from distances with tangents at one
        end.
    n_jobs : int or None
        Threads that prepare the bound.
    """

    def __init__(
        self,
        references: Bundle,
        codes: NDArray,
        n_classes: int,
        metric: TangentMetric,
        *,
        algorithm: str = "exact",
        n_components: int = 32,
        n_candidates: int = 1,
        candidates: Any = None,
        n_jobs: int | None = None,
    ):
        super().__init__(references, codes, n_classes, metric)
        self.algorithm, self.n_candidates = algorithm, n_candidates
        self.candidate_index = candidates
        self.sides, self.spring = metric.sides, float(metric.spring)
        self.shared: NDArray | None = None
        if references.is_shared:
            self.shared = np.array(references.frames[:1])
            # As orthonormal as float64 allows: a frame in float32 is so to 1e-7 only.
            self.directions = orthonormalize(self.shared.astype(float), rtol=1e-14)[0]
            self.sides, self.spring = on_a_shared_frame(self.sides, self.spring)
            self.shrinkage = 1 - np.sqrt(self.spring / (1 + self.spring))
        n, d = references.points.shape
        ends = 1 if self.sides in ("query", "reference") else 2
        few = n * (1 + references.n_tangents) ** ends <= MANY_PRODUCTS
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
            self._choose_bound(axes, n_jobs)
        if self.algorithm != "exact":
            bounded = None
            if self.shared is not None:
                bounded = self._for_bounds(references, references.points.dtype, n_jobs)
            self._prepare(bounded)

    def _prepare(self, bounded: Bundle | None) -> None:
        """Keep what belongs to the references, for queries that come one by one."""
        self.bounded = bounded
        bounded = self.references if bounded is None else bounded
        self.prepared = References(bounded.points, bounded.frames)

    def _choose_bound(self, axes: NDArray, n_jobs: int | None) -> None:
        """Take the coarsest bound that spares most of the work, or none at all.

        Bounds in float32 are made in half the time. Where they are too coarse, those
        in float64 may not be; where hardly anything can be spared, as among noise,
        meeting all references is faster.
        """
        self.axes = axes
        points, parts = self.references.points, {}
        bounded = self._for_bounds(self.references, points.dtype, n_jobs)
        size = np.abs(bounded.points).max()
        narrow = points.dtype == np.float64 and TINY < size < HUGE
        for dtype in (np.float32, np.float64) if narrow else (points.dtype,):
            self._prepare(bounded.astype(dtype))
            parts[dtype] = self._fraction_left(n_jobs)
            if parts[dtype] <= FEW_LEFT:
                return
        if narrow and parts[np.float32] <= 1.5 * parts[np.float64]:
            self._prepare(bounded.astype(np.float32))
        if min(parts.values()) > MOST_LEFT:
            self.algorithm, self.axes = "brute", None

    def _fraction_left(self, n_jobs: int | None) -> float:
        """Part of the references that bounds leave to some of them, or a bit more."""
        n = len(self.references)
        some = self.references[np.linspace(0, n - 1, N_PROBES).astype(int)]
        bounds = self._bounds(some, n_jobs)
        best = np.argpartition(bounds, min(N_BEST, n) - 1, axis=1)[:, :N_BEST]
        # Each finds itself, and the nearest of the others within those few.
        within = np.full_like(bounds, np.inf)
        np.put_along_axis(within, best, np.take_along_axis(bounds, best, 1), axis=1)
        d2, _ = self._nearest(some, within, ALL, None, 2, n_jobs)
        return float(np.mean(bounds <= d2[:, 1:]))

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        n, n_tangents, d = self.references.frames.shape
        numbers = 2 * n + 4 * (1 + n_tangents * (self.sides != "reference")) * d
        return min(MAX_QUERIES, rows_in_budget(8 * numbers))

    def query(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Distances, ascending, and positions of the nearest; ties by position."""
        bounds = self._bounds_or_candidates(queries, n_neighbors, n_jobs)
        d2, found = self._nearest(queries, bounds, ALL, None, n_neighbors, n_jobs)
        return np.sqrt(d2), found

    def class_distances(self, queries: Bundle, n_jobs: int | None = None) -> NDArray:
        """Squared distances (n, n_classes) to the nearest of every class."""
        out = np.full((len(queries), self.n_classes), np.inf)
        bounds = self._bounds_or_candidates(queries, 1, n_jobs)
        for c in self.present:
            labels = np.full(len(queries), c)
            d2, _ = self._nearest(queries, bounds, SAME, labels, 1, n_jobs)
            out[:, c] = d2[:, 0]
        return out

    def two_class_distances(
        self, queries: Bundle, wanted: NDArray | None, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Squared distances to the nearest of the wanted class, and of all others."""
        bounds = self._bounds_or_candidates(queries, 1, n_jobs)
        kind = ALL if wanted is None else SAME
        d_plus, found = self._nearest(queries, bounds, kind, wanted, 1, n_jobs)
        wanted = self.codes[found[:, 0]] if wanted is None else wanted
        d_minus, _ = self._nearest(queries, bounds, OTHER, wanted, 1, n_jobs)
        return d_plus[:, 0], d_minus[:, 0]

    def _nearest(
        self,
        queries: Bundle,
        bounds: NDArray,
        kind: int,
        labels: NDArray | None,
        k: int,
        n_jobs: int | None,
    ) -> tuple[NDArray, NDArray]:
        """Squared distances and positions among the references that count."""
        references, sides = self.references, self.sides
        dtype = np.result_type(queries.points, references.points)
        x_frames = queries.frames[:, :0] if sides == "reference" else queries.frames
        y_frames = references.frames if self.shared is None else self.shared
        if sides == "query":
            # Tangents at x alone are those of both ends, where y has none.
            sides, y_frames = "both", y_frames[:, :0]
        labels = np.zeros(len(queries), np.int64) if labels is None else labels
        nearest: Any = nearest_under_bounds
        if self.algorithm == "rerank":
            nearest = nearest_of_candidates
        return nearest(
            bounds, queries.points.astype(dtype, copy=False),
            x_frames.astype(dtype, copy=False), references.points, y_frames, sides,
            self.spring, Counted(labels, self.codes, kind), k, n_jobs,
        )  # fmt: skip

    def _bounds_or_candidates(
        self, queries: Bundle, k: int, n_jobs: int | None
    ) -> NDArray:
        """Candidates (n, n_candidates), or lower bounds (n, m) of squared distances."""
        if self.algorithm == "rerank":
            return self.candidates(queries, k, n_jobs)
        return self._bounds(queries, n_jobs)

    def _bounds(self, queries: Bundle, n_jobs: int | None) -> NDArray:
        """Lower bounds of the squared distances; "brute" gets all but the rounding."""
        bounds = self._all_pairs(queries, self.sides, n_jobs, lower=True)
        # One dtype for all: another would compile the search again.
        dtype = np.result_type(queries.points, self.references.points)
        if np.can_cast(bounds.dtype, dtype):
            return bounds.astype(dtype, copy=False)
        return rounded_down(bounds, dtype)

    def candidates(
        self,
        queries: Bundle,
        at_least: int = 1,
        n_jobs: int | None = None,
        apart: Any = None,
    ) -> NDArray:
        """Positions (n, n_candidates) that the nearest should be among, ascending."""
        if self.candidate_index is not None:
            return self.candidate_index.candidates(queries, at_least, n_jobs)
        count = min(len(self.codes), max(self.n_candidates, at_least))
        side = "query" if self.sides == "query" else "reference"
        upper = self._all_pairs(queries, side, n_jobs, lower=False)
        return np.sort(smallest(upper, count), axis=1)

    def _all_pairs(self, x, sides, n_jobs, *, lower):
        y = self.references
        prepared: References | None = self.prepared
        if self.bounded is not None:
            queries, y = x, self.bounded
            if y.points.dtype != x.points.dtype and np.abs(x.points).max() > HUGE:
                # Nothing can be said in float32.
                return np.zeros((len(x), len(y)), y.points.dtype)
            x = self._for_bounds(x, y.points.dtype, n_jobs)
        elif x.points.dtype != y.points.dtype and np.abs(x.points).max() > HUGE:
            y, prepared = y.astype(x.points.dtype), None
        elif x.points.dtype != y.points.dtype:
            # What rounding to the dtype of the references takes from a query must be
            # small against its distance, not against its offset.
            x = self._for_bounds(x, y.points.dtype, n_jobs)
            y = Bundle((y.points - self.centre).astype(y.points.dtype), y.frames)
            prepared = None
        out = pair_distances(
            x.points, x.frames, y.points, y.frames,
            sides=sides, spring=self.spring, lower=lower, n_jobs=n_jobs,
            references=prepared,
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
            lengths[1, rows] = np.linalg.norm(self._fold(points[rows]), axis=1)
        return lengths[0], lengths[1]

    def _fold(self, points: NDArray) -> NDArray:
        """Centre the points, in float64, and shrink them along a frame that all share.

        See `.plain` for why.
        """
        centred = points - self.centre
        if self.shared is None:
            return centred
        along = (centred @ self.directions.T) @ self.directions
        return centred - self.shrinkage * along

    def _for_bounds(self, bundle: Bundle, dtype: Any, n_jobs: int | None) -> Bundle:
        """Return what the bound is made of: centred, folded, projected, cast."""
        if self.shared is not None:
            bundle = Bundle(bundle.points, bundle.frames[:, :0])
        if self.axes is not None:
            return project(bundle, self.axes, n_jobs, move=self._fold, dtype=dtype)
        points = np.empty(bundle.points.shape, dtype)
        for rows in batched_slices(len(bundle), 512):
            points[rows] = self._fold(bundle.points[rows])
        return Bundle(points, bundle.frames.astype(dtype, copy=False))


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
    dtype = bundle.points.dtype if dtype is None else dtype
    points = np.empty((len(bundle), len(axes)), dtype)
    frames = np.empty((len(bundle), bundle.n_tangents, len(axes)), dtype)

    def fill(rows):
        moved = bundle.points[rows] if move is None else move(bundle.points[rows])
        points[rows] = moved @ axes.T
        frames[rows] = projected(bundle.frames[rows], axes)

    thread_map(fill, batched_slices(len(bundle), 512), n_jobs, "projections")
    return Bundle(points, frames)
