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
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.pairs import pair_distances, product_error
from widemargin._compute.threads import batched_slices, thread_map
from widemargin.tangents import Bundle, orthonormalize

MAX_QUERIES = 512
KERNEL_SIDES = {"y": 0, "x": 1, "two": 1, "mean": 2}
# The largest matrix whose eigenvectors are worth their time.
MAX_GRAM = 1024


class TangentSearch:
    """References, prepared once, to be asked for the nearest of any queries.

    Answers are distances in float64 from the points and frames as they are, whatever
    the dtypes; only the bounds are in the dtype of the references. Nothing changes by
    being asked.

    Parameters
    ----------
    references : Bundle
        What is searched. Where all share one frame, it is that of the queries too.
    sides : {"x", "y", "two", "mean"}
    spring : float
    algorithm : {"exact", "brute", "rerank"}
    n_components : int
        Dimensions of the lower bound of "exact".
    n_candidates : int
        How many references "rerank" looks at.
    n_jobs : int or None
        Threads that prepare the bound.
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
        self.references, self.n_candidates = references, n_candidates
        self.sides, self.spring = sides, float(spring)
        self.shared = None
        if references.is_shared:
            # With one common frame both ends move along the same directions: two
            # springs in series are one of half the stiffness.
            self.shared = np.array(references.frames[:1])
            self.spring = self.spring / 2 if sides == "two" else self.spring
            self.sides = "y"
        self.algorithm = algorithm
        n, d = references.points.shape
        # A projection saves nothing where it keeps most dimensions, or where making
        # it takes longer than meeting the few references there are.
        worthwhile = n_components < 0.75 * d and n >= 4 * n_components
        if algorithm == "exact" and not worthwhile:
            self.algorithm = "brute"
        self.centre = references.points.mean(axis=0, dtype=np.float64)
        self.axes = None
        if self.algorithm == "exact":
            self.axes = principal_axes(references.points, n_components)
        self.shadows = None
        if self.axes is not None or self.shared is not None:
            self.shadows = self._shadow(references, n_jobs)

    @property
    def needs_frames(self) -> bool:
        """Whether queries must bring their frames."""
        return self.sides != "y"

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        n, n_tangents, d = self.references.frames.shape
        numbers = 2 * n + 4 * (1 + n_tangents * self.needs_frames) * d
        return min(MAX_QUERIES, rows_in_budget(8 * numbers))

    def query(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Distances, ascending, and indices of the nearest; ties by index."""
        labels = np.zeros(len(queries), np.int64)
        reference_labels = np.zeros(len(self.references), np.int64)
        ((d2, index),) = self._answer(
            queries, labels, reference_labels, ((0, n_neighbors),), n_jobs
        )
        return np.sqrt(d2), index

    def right_and_wrong(
        self,
        queries: Bundle,
        labels: NDArray,
        reference_labels: NDArray,
        n_jobs: int | None = None,
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Distances to the nearest of the own and of another label, and who wins.

        The last array is True where the nearest reference, of equals the first, has
        the label of the query. Where there is no such reference the distance is inf.
        """
        (d2_plus, j_plus), (d2_minus, j_minus) = (
            (d2[:, 0], index[:, 0])
            for d2, index in self._answer(
                queries, labels, reference_labels, ((1, 1), (-1, 1)), n_jobs
            )
        )
        wins = (d2_plus < d2_minus) | ((d2_plus == d2_minus) & (j_plus < j_minus))
        return np.sqrt(d2_plus), np.sqrt(d2_minus), wins

    def _answer(self, queries, labels, reference_labels, requests, n_jobs):
        """Squared distances and indices, for each request (kind, n_neighbors)."""
        from widemargin._compute import search

        y, sides = self.references, KERNEL_SIDES[self.sides]
        dtype = np.result_type(queries.points, y.points)
        x, x_frames = queries.points.astype(dtype, copy=False), queries.frames
        x_frames = x_frames[:, :0] if self.sides == "y" else x_frames
        x_frames = x_frames.astype(dtype, copy=False)
        y_frames = y.frames if self.shared is None else self.shared
        y_frames = y_frames[:, :0] if self.sides == "x" else y_frames
        most = max(n_neighbors for _, n_neighbors in requests)
        if self.algorithm == "rerank":
            nearest, given = search.nearest_of_candidates, self._candidates
        else:
            nearest, given = search.nearest_under_bounds, self._bounds
        material = given(queries, most, n_jobs)
        error = product_error(y.points.dtype, y.n_features)
        answers = [
            (np.empty((len(x), count)), np.empty((len(x), count), np.int64))
            for _, count in requests
        ]

        def finish(rows):
            for (kind, _), (d2, index) in zip(requests, answers, strict=True):
                nearest(
                    material[rows], x[rows], x_frames[rows], y.points, y_frames,
                    sides, self.spring, error, labels[rows], reference_labels, kind,
                    d2[rows], index[rows],
                )  # fmt: skip

        thread_map(finish, batched_slices(len(x), 32), n_jobs, "neighbours")
        return answers

    def _bounds(self, queries, n_neighbors, n_jobs):
        """Lower bounds of the squared distances; "brute" gets all but the rounding."""
        return self._all_pairs(queries, self.sides, n_jobs, lower=True)

    def _candidates(self, queries, n_neighbors, n_jobs):
        count = min(len(self.references), max(self.n_candidates, n_neighbors))
        side = "x" if self.sides == "x" else "y"
        upper = self._all_pairs(queries, side, n_jobs, lower=False)
        if count < upper.shape[1]:
            return np.argpartition(upper, count - 1, axis=1)[:, :count]
        return np.tile(np.arange(count), (len(upper), 1))

    def _all_pairs(self, x, sides, n_jobs, *, lower):
        y = self.references
        if self.shadows is not None:
            x, y = self._shadow(x, n_jobs), self.shadows
        elif x.points.dtype != y.points.dtype:
            # What rounding to the dtype of the references takes from a query must be
            # small against its distance, not against its offset.
            x = self._shadow(x, n_jobs)
            y = Bundle((y.points - self.centre).astype(y.points.dtype), y.frames)
        return pair_distances(
            x.points, x.frames, y.points, y.frames,
            sides=sides, spring=self.spring, lower=lower, n_jobs=n_jobs,
        )  # fmt: skip

    def _shadow(self, bundle: Bundle, n_jobs: int | None) -> Bundle:
        """Return what the bound is made of: centred, folded, projected, cast."""
        dtype = self.references.points.dtype
        move = partial(_centred, centre=self.centre)
        if self.shared is not None:
            bundle = Bundle(bundle.points, bundle.frames[:, :0])
            move = partial(
                _folded, centre=self.centre, frame=self.shared[0], spring=self.spring
            )
        if self.axes is not None:
            return project(bundle, self.axes, n_jobs, move=move, dtype=dtype)
        points = np.empty(bundle.points.shape, dtype)
        for rows in batched_slices(len(bundle), 512):
            points[rows] = move(bundle.points[rows])
        return Bundle(points, bundle.frames.astype(dtype, copy=False))


def _centred(points: NDArray, centre: NDArray) -> NDArray:
    return points - centre


def _folded(points: NDArray, centre: NDArray, frame: NDArray, spring: float) -> NDArray:
    """Turn one frame that all samples share into a linear map of the points.

    |delta|^2 - |V delta|^2/(1+k) is the plain squared distance of points whose part
    along V is shrunk by sqrt(1 - 1/(1+k)).
    """
    centred, frame = points - centre, frame.astype(float)
    return centred - (1 - np.sqrt(1 - 1 / (1 + spring))) * (centred @ frame.T) @ frame


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
    values, vectors = eigh(scatter, subset_by_index=(max(0, n - count), n - 1))
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
        shadows = bundle.frames[rows].astype(float) @ axes.T
        frames[rows] = orthonormalize(shadows, rtol=1e-14) if shadows.size else shadows

    thread_map(fill, batched_slices(len(bundle), 512), n_jobs, "projections")
    return Bundle(points, frames)
