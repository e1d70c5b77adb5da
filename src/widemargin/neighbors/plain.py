r"""Neighbours without tangents of their own: by a tree or by products, made exact.

With one frame V for all, :math:`|\delta|^2 - |V \delta|^2 / (1 + k)` is the plain
squared distance of points whose part along V is shrunk by
:math:`\sqrt{k / (1 + k)}`. A tree or products find the k + 1 nearest of those. Their
distances are computed again from the difference; a query whose k-th is not clearly
nearer than the last one found meets all references.

The nearest of every class come from one product: a class has a segment of its columns,
and what may be the smallest there is computed again. Shapes: queries (n, d), answers
(n, k).
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from sklearn.neighbors import NearestNeighbors

from widemargin._compute.formulas import on_a_shared_frame
from widemargin._compute.machine import (
    batched_slices,
    rows_in_budget,
    thread_map,
    worker_count,
)
from widemargin._compute.nearest import (
    expanded_distances,
    squared_norms,
)
from widemargin._compute.rounding import product_error
from widemargin._core.arrays import cached_on
from widemargin.metrics import TangentMetric
from widemargin.neighbors.index import Index
from widemargin.tangents import Bundle, orthonormalize

# How many more than the k nearest are asked for: the next one is mostly far enough for
# its rounded distance to say so.
MORE = 1
# Up to this many features a tree of scipy's, with so many points in a leaf, finds
# neighbours sooner than products do (benchmarks/nearest.py).
TREE_FEATURES, LEAF = 15, 32
# Lengths whose squares float32 holds.
TOO_LONG = 1e15
# Products that stay in a cache, and how many references of a class may be the nearest
# before float32 tells too little.
IN_CACHE, CLOSE = 2**17, 4


class PlainIndex(Index):
    """References with one frame for all, or none, to be asked for the nearest.

    Parameters
    ----------
    references, codes, n_classes, metric
        As of `Index`.
    n_candidates : int
        How many `candidates` gives.
    n_jobs : int or None
        Threads of a tree; scikit-learn's products take the cores they find.
    """

    def __init__(
        self,
        references: Bundle,
        codes: NDArray,
        n_classes: int,
        metric: TangentMetric,
        *,
        n_candidates: int = 1,
        n_jobs: int | None = None,
    ):
        super().__init__(references, codes, n_classes, metric)
        self.n_candidates, self.n_jobs = n_candidates, n_jobs
        self.spring = on_a_shared_frame(metric.sides, float(metric.spring))[1]
        points, self.directions = references.points, references.frames[0].astype(float)
        if len(self.directions):
            self.directions = orthonormalize(self.directions[None], rtol=1e-14)[0]
        self.shrinkage = 1 - np.sqrt(self.spring / (1 + self.spring))
        self.centre = points.mean(axis=0, dtype=np.float64)
        self.folded = np.empty_like(points, order="C")
        self.lengths = np.zeros(2)
        for rows in batched_slices(len(points), 512):
            folded, *lengths = self._fold(points[rows])
            self.folded[rows] = folded
            self.lengths = np.maximum(self.lengths, np.max(lengths, axis=1))

    def _fold(self, points: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Points about the centre, shrunk, and their lengths before and after that."""
        folded = points - self.centre
        whole = np.sqrt(squared_norms(folded))
        if len(self.directions):
            along = (folded @ self.directions.T) @ self.directions
            folded -= self.shrinkage * along
        return folded, whole, np.sqrt(squared_norms(folded))

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        return min(4096, rows_in_budget(64 * self.references.n_features))

    def query(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Distances, ascending, and positions of the nearest; ties by position."""
        d2, found = self._nearest(queries.points, 0, len(self.codes), n_neighbors)
        return np.sqrt(d2), found

    def candidates(
        self, queries: Bundle, at_least: int = 1, n_jobs: Any = None, apart: Any = None
    ) -> NDArray:
        """Positions (n, n_candidates) of the nearest, ascending."""
        count = min(len(self.codes), max(self.n_candidates, at_least))
        return np.sort(self.query(queries, count)[1], axis=1)

    def class_distances(self, queries: Bundle, n_jobs: int | None = None) -> NDArray:
        """Squared distances (n, n_classes) to the nearest of every class."""
        x, out = queries.points, np.full((len(queries), self.n_classes), np.inf)
        if x.shape[1] > TREE_FEATURES:
            out[:, self.present] = self._nearest_of_each(x, n_jobs)
            return out
        stops = np.append(self.starts[1:], len(self.codes))
        for c, start, stop in zip(self.present, self.starts, stops, strict=True):
            d2, _ = self._nearest(x, int(start), int(stop), 1)
            out[:, c] = d2[:, 0]
        return out

    def _nearest_of_each(self, x: NDArray, n_jobs: int | None) -> NDArray:
        """Squared distances (n, n_present) to the nearest of every class, by products.

        Half of |x - y|^2 - |x|^2 is |y|^2 / 2 - x.y, which a product gives but for its
        rounding. Two of these may both be the smallest if they are no farther apart
        than what both may be wrong by.
        """
        folded, whole, lengths = self._fold(x)
        out = np.empty((len(x), len(self.present)))
        unit = float(self.lengths[1]) or 1.0
        near = lengths < TOO_LONG * unit
        folded /= unit
        folded[~near] = 0
        fine = 2 * product_error(np.float64, x.shape[1])
        before = fine * (whole + self.lengths[0]) * (lengths + self.lengths[1])
        before[~near] = np.inf
        reach = (lengths**2 + self.lengths[1] ** 2, before, unit**2)
        edges = list(pairwise([*self.starts.tolist(), len(self.codes)]))

        def fill(rows: slice) -> None:
            size = rows.stop - rows.start
            for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
                y, halves = self._in_unit(dtype, unit)
                error = product_error(dtype, x.shape[1]) * reach[0][rows]
                apart = ((error + reach[1][rows]) / reach[2])[:, None]
                rough = folded[rows].astype(dtype) @ y.T
                np.subtract(halves, rough, out=rough)
                least = np.minimum.reduceat(rough, self.starts, axis=1)
                most = np.nextafter((least + apart).astype(dtype), np.inf, dtype=dtype)
                close = np.empty(rough.shape, bool)
                for c, (start, stop) in enumerate(edges):
                    part = slice(start, stop)
                    np.less_equal(rough[:, part], most[:, [c]], out=close[:, part])
                found = np.flatnonzero(close)
                if len(found) <= CLOSE * least.size:
                    break
            i, j = np.divmod(found, len(self.codes))
            d2 = self._from_differences(x[rows], i, j)
            # Each has at least one: in the order of rows, and of classes in a row.
            own = i * self.n_classes + self.codes[j]
            first = np.flatnonzero(np.diff(own, prepend=-1))
            out[rows] = np.minimum.reduceat(d2, first).reshape(size, -1)

        rows = batched_slices(len(x), max(16, IN_CACHE // len(self.codes)))
        thread_map(fill, rows, n_jobs, "distances")
        return out

    def _in_unit(self, dtype: np.dtype, unit: float) -> tuple[NDArray, NDArray]:
        """Return the folded references in a unit, and half their squared norms."""

        def make() -> tuple[NDArray, NDArray]:
            y = self.folded.astype(float)
            if dtype != self.folded.dtype == np.float32:
                # What is kept was rounded.
                y = self._fold(self.references.points)[0]
            y /= unit
            return y.astype(dtype), (squared_norms(y) / 2).astype(dtype)

        return cached_on(self, ("unit", dtype), make)

    def _nearest(
        self, x: NDArray, start: int, stop: int, k: int
    ) -> tuple[NDArray, NDArray]:
        """Squared distances and positions of the k nearest of some references."""
        folded, whole, lengths = self._fold(x)
        # What rounds in the dtype of the references, and what folding rounds before.
        error = product_error(self.folded.dtype, x.shape[1])
        fine = 2 * product_error(np.float64, x.shape[1])
        rounding = error * (lengths**2 + self.lengths[1] ** 2)
        rounding += fine * (whole + self.lengths[0]) * (lengths + self.lengths[1])
        count = min(stop - start, k + MORE)
        near = lengths < TOO_LONG
        asked = np.where(near[:, None], folded, 0).astype(self.folded.dtype)
        rough, found = self._finder(start, stop)(asked, count)
        found = np.sort(found + start, axis=1)
        each = np.repeat(np.arange(len(x)), count)
        d2 = self._from_differences(x, each, found.ravel()).reshape(found.shape)
        order = np.argsort(d2, axis=1, kind="stable")[:, :k]
        d2, found = (np.take_along_axis(a, order, axis=1) for a in (d2, found))
        if count == stop - start:
            return d2, found
        clear = rough[:, -1].astype(float) ** 2 - rounding > d2[:, -1]
        rows = np.flatnonzero(~(clear & near))
        for part in batched_slices(len(rows), rows_in_budget(40 * (stop - start))):
            i = rows[part]
            bounds = expanded_distances(asked[i], self.folded[start:stop])
            bounds = bounds - rounding[i, None]
            bounds[~near[i]] = -np.inf
            meets, j = np.nonzero(bounds <= d2[i, -1:])
            again = self._from_differences(x, i[meets], j + start)
            order = np.lexsort((j, again, meets))
            first = np.searchsorted(meets, np.arange(len(i)))
            best = order[first[:, None] + np.arange(k)]
            d2[i], found[i] = again[best], j[best] + start
        return d2, found

    def _finder(self, start: int, stop: int) -> Callable[..., tuple[NDArray, NDArray]]:
        """Return what finds the nearest of some references, made when first needed.

        It takes queries and a count, and returns distances, ascending, and positions.
        """

        def make() -> Callable[..., tuple[NDArray, NDArray]]:
            some = self.folded[start:stop]
            if some.shape[1] > TREE_FEATURES:
                return NearestNeighbors(n_jobs=self.n_jobs).fit(some).kneighbors
            tree, workers = KDTree(some, leafsize=LEAF), worker_count(self.n_jobs)
            # A list of counts, for one would come without its axis.
            return lambda asked, count: tree.query(
                asked, np.arange(1, count + 1), workers=workers
            )

        return cached_on(self, (start, stop), make)

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
