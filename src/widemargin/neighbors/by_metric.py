"""Nearest neighbours in a distance that is only known as a function of samples.

There is no bound to prune with: all distances are computed, or those to candidates
that a tangent search gives.

Shapes: queries (n, d), references (m, d), answers (n, k).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.threads import batched_slices, thread_map
from widemargin.neighbors.search import TangentSearch
from widemargin.tangents import Bundle

MAX_ROWS = 256


class MetricSearch:
    """References to be asked for the nearest of any queries, in any distance.

    Parameters
    ----------
    references : Bundle
        What is searched.
    metric : callable
        ``metric(X, Y)`` gives the distances of all pairs, shape (n_x, n_y).
    candidates : TangentSearch or None
        Where to look; None is everywhere.
    n_candidates : int
        How many candidates to ask for.
    """

    needs_frames = False

    def __init__(
        self,
        references: Bundle,
        metric: Callable[[NDArray, NDArray], Any],
        candidates: TangentSearch | None,
        n_candidates: int,
    ):
        self.references, self.metric = references, metric
        self.candidates, self.n_candidates = candidates, n_candidates

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

    def right_and_wrong(
        self,
        queries: Bundle,
        labels: NDArray,
        reference_labels: NDArray,
        n_jobs: int | None = None,
    ) -> tuple[NDArray, NDArray, NDArray]:
        """As :meth:`TangentSearch.right_and_wrong`."""
        d_plus, d_minus = np.empty(len(queries)), np.empty(len(queries))
        wins = np.empty(len(queries), bool)

        def fill(rows, d, j):
            right = reference_labels[j] == labels[rows, None]
            d_plus[rows] = np.where(right, d, np.inf).min(axis=1)
            d_minus[rows] = np.where(right, np.inf, d).min(axis=1)
            nearest = d.argmin(axis=1)[:, None]
            wins[rows] = np.take_along_axis(right, nearest, axis=1)[:, 0]

        self._meet(queries, 1, fill, n_jobs)
        return d_plus, d_minus, wins

    def _meet(self, queries, n_neighbors, use, n_jobs):
        """Call ``use(rows, distances, indices)`` for some queries after the other."""
        x, y = queries.points, self.references.points
        if self.candidates is None:
            size = min(MAX_ROWS, rows_in_budget(32 * len(y)))
        else:
            count = min(len(y), max(n_neighbors, self.n_candidates))
            near = np.sort(self.candidates.query(queries, count, n_jobs)[1], axis=1)
            size = 1

        def meet(rows):
            if self.candidates is None:
                d = self._distances(x[rows], y)
                use(rows, d, np.broadcast_to(np.arange(len(y)), d.shape))
            else:
                some = near[rows.start]
                use(rows, self._distances(x[rows], y[some]), some[None])

        thread_map(meet, batched_slices(len(x), size), n_jobs, "neighbours")

    def _distances(self, X, Y):
        d = np.asarray(self.metric(X, Y), dtype=float)
        if d.shape != (len(X), len(Y)):
            raise ValueError(
                f"metric must return distances of shape {(len(X), len(Y))}, one per "
                f"pair; got {d.shape}."
            )
        return d
