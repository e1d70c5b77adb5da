r"""Neighbours without tangents of their own: by a tree or by products, made exact.

With one frame V for all, :math:`|\delta|^2 - |V \delta|^2 / (1 + k)` is the plain
squared distance of points whose part along V is shrunk by
:math:`\sqrt{k / (1 + k)}`. A tree or products find the k + 1 nearest of those. Their
distances are computed again from the difference; a query whose k-th is not clearly
nearer than the last one found meets all references. Shapes: queries (n, d), answers
(n, k).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from sklearn.neighbors import NearestNeighbors

from widemargin._compute.formulas import on_a_shared_frame
from widemargin._compute.machine import batched_slices, rows_in_budget, worker_count
from widemargin._compute.nearest import (
    expanded_distances,
    product_error,
    squared_norms,
)
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
        out = np.full((len(queries), self.n_classes), np.inf)
        stops = np.append(self.starts[1:], len(self.codes))
        for c, start, stop in zip(self.present, self.starts, stops, strict=True):
            d2, _ = self._nearest(queries.points, int(start), int(stop), 1)
            out[:, c] = d2[:, 0]
        return out

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
