r"""Nearest neighbours under tangent distances, exact without all exact distances.

For any matrix P with orthonormal rows and the best moves p, q of the full problem,

    d(x, y) = |v| >= |P v| >= min_{p, q} |P (x + U^T p - y - V^T q)|,

so the tangent distance of the projected points and frames, without a spring, is a
lower bound of the true one, and costs a product in k instead of d dimensions. The
exact distance of the best references under the bound is a radius; only references
whose bound lies within it are looked at again.

Fewer tangents, or the tangents of one end only, give *upper* bounds: ranking by those
is the approximate ``"rerank"``.

Shapes: queries (n, d), references (m, d), answers (n, k).
"""

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.pairs import pair_distances
from widemargin._compute.progress import announced
from widemargin._compute.threads import batched_slices, thread_map
from widemargin.tangents import Bundle, orthonormalize

# Rounding of a bound, relative: below pairs.SUSPECT of the norms it is recomputed,
# which leaves an error of about the precision divided by that share.
SLACK = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-4}
MAX_QUERIES = 512
KERNEL_SIDES = {"y": 0, "x": 1, "two": 1, "mean": 2}


class TangentSearch:
    """References, prepared once, to be asked for the nearest of any queries.

    Parameters
    ----------
    references : Bundle
        What is searched.
    sides : {"x", "y", "two", "mean"}
    spring : float
    algorithm : {"exact", "brute", "rerank"}
    n_components : int
        Dimensions k of the lower bound of "exact".
    n_candidates : int
        How many references "rerank" looks at.
    """

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
    ):
        self.sides, self.spring, self.n_jobs = sides, float(spring), n_jobs
        self.n_candidates = n_candidates
        self.shared = references if references.is_shared else None
        self.references = references = self._fold(references)
        # A projection that keeps most dimensions saves nothing.
        worthwhile = n_components < 0.75 * references.n_features
        self.algorithm = algorithm
        if algorithm == "exact" and not worthwhile:
            self.algorithm = "brute"
        if self.algorithm == "exact":
            self.axes = principal_axes(references.points, n_components)
            self.projected = project(references, self.axes, n_jobs)

    def query(self, queries: Bundle, n_neighbors: int) -> tuple[NDArray, NDArray]:
        """Squared distances, ascending, and indices of the nearest; ties by index."""
        queries = self._fold(queries)
        dtype = np.result_type(queries.points, self.references.points)
        if self.references.points.dtype != dtype:
            self.references = _cast(self.references, dtype)
        queries = _cast(queries, dtype)
        shape = len(queries), n_neighbors
        d2, index = np.empty(shape), np.empty(shape, np.int64)
        per_query = 2 * len(self.references) * np.dtype(dtype).itemsize
        size = min(MAX_QUERIES, rows_in_budget(per_query))
        for rows in announced(batched_slices(len(queries), size), "neighbours"):
            self._query_some(queries[rows], d2[rows], index[rows])
        return d2, index

    def _query_some(self, queries, d2, index):
        from widemargin._compute import search

        y, sides = self.references, KERNEL_SIDES[self.sides]
        y_frames = y.frames[:, :0] if self.sides == "x" else y.frames
        if self.algorithm == "rerank":
            ranking = self._candidates(queries, d2.shape[1])
        else:
            bounds, shrink = self._bounds(queries)

        def finish(rows):
            ends = (
                queries.points[rows], queries.frames[rows], y.points, y_frames,
                sides, self.spring, d2[rows], index[rows],
            )  # fmt: skip
            if self.algorithm == "rerank":
                search.nearest_of_candidates(ranking[rows], *ends)
            else:
                search.nearest_under_bounds(bounds[rows], shrink, *ends)

        thread_map(finish, batched_slices(len(queries), 32), self.n_jobs, "neighbours")

    def _bounds(self, queries):
        """Lower bounds of the squared distances, and the factor that makes them safe.

        For "brute" they are the distances themselves.
        """
        slack = SLACK[queries.points.dtype]
        x, y, spring = queries, self.references, self.spring
        if self.algorithm == "exact":
            x, y, spring = project(x, self.axes, self.n_jobs), self.projected, 0.0
            y = _cast(y, x.points.dtype)
        bounds = self._all_pairs(x, y, self.sides, spring)
        return bounds, 1 - slack

    def _candidates(self, queries, n_neighbors):
        y = self.references
        count = min(len(y), max(self.n_candidates, n_neighbors))
        side = "x" if self.sides == "x" else "y"
        upper = self._all_pairs(queries, y, side, self.spring)
        if count < len(y):
            return np.argpartition(upper, count - 1, axis=1)[:, :count]
        return np.broadcast_to(np.arange(len(y)), upper.shape)

    def _all_pairs(self, x, y, sides, spring):
        return pair_distances(
            x.points, x.frames, y.points, y.frames,
            sides=sides, spring=spring, n_jobs=self.n_jobs,
        )  # fmt: skip

    def _fold(self, bundle: Bundle) -> Bundle:
        """Turn one frame that all samples share into a linear map of the points.

        |delta|^2 - |V delta|^2/(1+k) is the plain squared distance of points whose
        part along V is shrunk by sqrt(1 - 1/(1+k)); two springs in series have k/2.
        """
        if self.shared is None:
            return bundle
        frame = self.shared.frames[0].astype(float)
        spring = self.spring / 2 if self.sides == "two" else self.spring
        keep = 1 - np.sqrt(1 - 1 / (1 + spring))
        points = bundle.points.astype(float)
        folded = (points - keep * (points @ frame.T) @ frame).astype(
            bundle.points.dtype
        )
        return Bundle(folded, np.empty((len(folded), 0, folded.shape[1]), folded.dtype))


def principal_axes(points: NDArray, n_components: int) -> NDArray:
    """Leading principal axes (n_components, d) of the points, orthonormal rows."""
    centre = points.mean(axis=0, dtype=np.float64)
    scatter = np.zeros((points.shape[1], points.shape[1]))
    for rows in batched_slices(len(points), 4096):
        centred = points[rows] - centre
        scatter += centred.T @ centred
    return np.linalg.eigh(scatter)[1][:, ::-1][:, :n_components].T.copy()


def project(bundle: Bundle, axes: NDArray, n_jobs: int | None) -> Bundle:
    """Bundle of the projected points and frames, the frames made orthonormal again.

    Directions are kept down to rounding: one too few would break the lower bound.
    """
    dtype = bundle.points.dtype
    frames = np.empty((len(bundle), bundle.n_tangents, len(axes)), dtype)

    def fill(rows):
        shadows = bundle.frames[rows].astype(float) @ axes.T
        frames[rows] = orthonormalize(shadows, rtol=1e-10) if shadows.size else shadows

    thread_map(fill, batched_slices(len(bundle), 512), n_jobs, "projections")
    return Bundle((bundle.points @ axes.T).astype(dtype), frames)


def _cast(bundle: Bundle, dtype) -> Bundle:
    return Bundle(
        bundle.points.astype(dtype, copy=False), bundle.frames.astype(dtype, copy=False)
    )
