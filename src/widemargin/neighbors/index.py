r"""What neighbours and densities ask of the samples they remember: one protocol.

An index holds references, a bundle ordered by class, and answers for queries, a bundle:

* ``query(queries, k)``: distances (n, k), ascending, and positions of the k nearest
  references; of equally near ones the first come first;
* ``class_distances(queries)``: (n, n_classes) to the nearest of every class, infinite
  where there is none;
* ``two_class_distances(queries, wanted)``: (n,) twice, to the nearest of the wanted
  class and of all others; without `wanted`, of the class of the nearest;
* ``sum_exp(queries, log_weights, gamma)``: (n, n_classes) logarithms of
  :math:`\sum_{i \in c} w_i e^{-\gamma d^2(x, x_i)}`;
* ``measured(queries)``: the values all this is made of, and ``sums``, what they give
  for many gammas;
* ``max_queries()``: how many to ask about at once.

``class_distances`` and ``two_class_distances`` are squared where the index is
``squared``. Nothing changes by being asked, and a query has the same answer alone and
among others.

`Index` measures everything, in any metric, and is the oracle of the tests. Faster ones
take its place for tangent distances, see `.base.index_of`:

======================= ======================================================
`.pruned.PrunedIndex`   lower bounds first, then exact distances of what is left
`.plain.PlainIndex`     trees or products, where no reference has tangents of its own
`_compute.device.search` the same on a device
======================= ======================================================

Where a metric is slow, an index looks at candidates alone. `FeatureCandidates` are the
references that are near in features: a transform turns samples into features whose
plain distance is nearly that of the metric, such as direction features for distortion
models of images. Shapes: queries (n, d), candidates (n, n_candidates).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from widemargin._compute.engines import formula
from widemargin._compute.formulas import smallest
from widemargin._compute.machine import batched_slices, rows_in_budget, thread_map
from widemargin._compute.nearest import nearest_two_classes
from widemargin._core.arrays import (
    as_numbers,
    beside,
    numpy_dtype,
    rows_at_once,
    to_numpy,
)
from widemargin._core.checks import as_matrix, check_size
from widemargin.metrics import TangentMetric
from widemargin.tangents import Bundle
from widemargin.tangents.bundle import default_rtol

# No log density is below this: the difference of two is a number.
LEAST = -1e300


@dataclass(frozen=True, eq=False)
class FunctionMetric(TangentMetric):
    """A function of points under the methods of a metric without tangents.

    What it returns stands for distances and for squared ones alike.
    """

    function: Any = None

    def _distances(self, x, y, sides, prepared, *, squared, n_jobs) -> NDArray:
        y = x if y is None else y
        found = by_function(self.function, x.points, y.points, n_jobs)
        return checked(found, x.points, y.points)


@formula
def by_function(function: Callable, X: NDArray, Y: NDArray, n_jobs: Any) -> NDArray:
    """Distances (n_x, n_y) by a function, of some rows after the others."""
    out = np.empty((len(X), len(Y)))

    def fill(rows: slice) -> None:
        out[rows] = checked(function(X[rows], Y), X[rows], Y)

    thread_map(fill, batched_slices(len(X), 64), n_jobs, "distances")
    return out


def checked(given: Any, X: Any, Y: Any) -> Any:
    """Return what a function gave as the distances of X and Y, if it is that."""
    d = as_numbers(given)
    if tuple(d.shape) != (len(X), len(Y)):
        raise ValueError(
            f"metric must return distances of shape {(len(X), len(Y))}, one per "
            f"pair; got {tuple(d.shape)}."
        )
    wrong = ~((d >= 0) & (d <= 1e150))
    if wrong.any():
        raise ValueError(
            "metric must return finite distances of at least 0; got "
            f"{float(d[wrong][0])}; the largest may be 1e150."
        )
    return d


class Index:
    """References that are all measured, or candidates among them, in any metric.

    Parameters
    ----------
    references : Bundle
        Ordered by class.
    codes : ndarray of shape (n_references,)
        Their classes.
    n_classes : int
        How many classes there are; some may have no reference.
    metric : TangentMetric
        How far, of bundles in its unit.
    squared : bool
        Whether values are its squared distances.
    candidates : object with a method ``candidates`` or None
        Where to look, such as `FeatureCandidates`; None is everywhere.
    """

    # Part of a log density that may be rounding.
    rounding = 0.0

    def __init__(
        self,
        references: Bundle,
        codes: NDArray,
        n_classes: int,
        metric: TangentMetric,
        *,
        squared: bool = True,
        candidates: Any = None,
    ):
        self.references, self.codes, self.n_classes = references, codes, n_classes
        self.metric, self.squared, self.candidates_of = metric, squared, candidates
        self.present, self.starts = np.unique(codes, return_index=True)
        if candidates is None:
            self.rounding = default_rtol(numpy_dtype(references.points))

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        if self.candidates_of is not None:
            return self.candidates_of.max_queries()
        # Distances, their exponentials and a mask.
        return rows_at_once(self.references.points, 5.25 * len(self.codes), most=1024)

    def measured(
        self,
        queries: Bundle,
        at_least: int = 1,
        n_jobs: int | None = None,
        apart: tuple[NDArray, NDArray] | None = None,
    ) -> tuple[Any, NDArray | None]:
        """Values (n, m) of the metric, and whose they are; None is all references.

        Groups that are to be `apart`, of queries and of references, make the values
        between members of one group infinite.
        """
        ask = self.metric.squared_distances if self.squared else self.metric.distances
        if self.candidates_of is None:
            values = ask(queries, self.references, n_jobs=n_jobs)
            if apart is not None:
                values[beside(values, apart[0][:, None] == apart[1])] = np.inf
            return values, None
        places = self.candidates_of.candidates(queries, at_least, n_jobs, apart)
        values = np.full(places.shape, np.inf)

        def fill(i: int) -> None:
            there = places[i] >= 0
            known = self.references[places[i, there]]
            values[i, there] = to_numpy(ask(queries[i : i + 1], known))[0]

        thread_map(fill, range(len(places)), n_jobs, "distances")
        return values, places

    def query(
        self, queries: Bundle, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Distances, ascending, and positions of the nearest; ties by position."""
        values, places = self.measured(queries, n_neighbors, n_jobs)
        values = to_numpy(values)
        order = np.argsort(values, axis=1, kind="stable")[:, :n_neighbors]
        values = np.take_along_axis(values, order, axis=1).astype(float)
        if places is not None:
            order = np.take_along_axis(places, order, axis=1)
        return np.sqrt(values) if self.squared else values, order

    def class_distances(self, queries: Bundle, n_jobs: int | None = None) -> NDArray:
        """Values (n, n_classes) of the nearest reference of every class."""
        values, places = self.measured(queries, 1, n_jobs)
        values = to_numpy(values)
        out = np.full((len(queries), self.n_classes), np.inf)
        if places is None:
            out[:, self.present] = np.minimum.reduceat(values, self.starts, axis=1)
            return out
        for c in self.present:
            own = np.where(self.codes[places] == c, values, np.inf)
            out[:, c] = own.min(axis=1)
        return out

    def two_class_distances(
        self, queries: Bundle, wanted: NDArray | None, n_jobs: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """Values of the nearest of the wanted class, and of all others."""
        return nearest_two_classes(self.class_distances(queries, n_jobs), wanted)

    def sum_exp(
        self,
        queries: Bundle,
        log_weights: NDArray,
        gamma: float,
        n_jobs: int | None = None,
    ) -> NDArray:
        """(n, n_classes) logarithms of the sums of weighted bumps of every class."""
        measured = self.measured(queries, 1, n_jobs)
        return self.sums(*measured, log_weights, [gamma])[0]

    def fine_sum_exp(
        self, query: Bundle, log_weights: NDArray, gamma: float
    ) -> NDArray:
        """As `sum_exp`, (1, n_classes), in float64 where that matters.

        The query is one, in float64. Far from all references the rounding of a squared
        distance outweighs any density, and depends on the other rows of a product.
        """
        ask, dtype = self.metric.squared_distances, numpy_dtype(self.references.points)
        d2 = to_numpy(ask(query.astype(dtype), self.references)).astype(float)
        fall = gamma * d2[0]
        bumps, error = log_weights - fall, default_rtol(dtype) * fall
        sizes = np.diff(np.append(self.starts, len(self.codes)))
        least = np.repeat(np.maximum.reduceat(bumps - error, self.starts), sizes)
        # A bump that is exp(-40) of the highest adds nothing.
        near = np.flatnonzero(bumps + error >= least - 40)
        d2[0, near] = to_numpy(ask(query, self.references[near]))[0]
        return self.sums(d2, None, log_weights, [gamma])[0]

    def sums(
        self, values: Any, places: NDArray | None, log_weights: NDArray, gammas: Any
    ) -> NDArray:
        """(n_gammas, n, n_classes), of what was `measured`, which is overwritten."""
        out = np.full((len(gammas), len(values), self.n_classes), -np.inf)
        if places is None:
            found = log_sums(values, self.starts, log_weights, gammas)
            out[:, :, self.present] = to_numpy(found)
            return out
        # Every query has references of its own: a class of it is one part.
        known = np.isfinite(values)
        whose = places[known]
        cells = np.nonzero(known)[0] * self.n_classes + self.codes[whose]
        order = np.argsort(cells, kind="stable")
        cells, starts = np.unique(cells[order], return_index=True)
        # Nothing nearer was seen of a class that has no candidate.
        farthest = np.where(known, values, 0).max(axis=1)
        out[:] = np.multiply.outer(-np.asarray(gammas), farthest)[:, :, None]
        flat = out.reshape(len(gammas), -1)
        flat[:, cells] = log_sums(
            values[known][order], starts, log_weights[whose[order]], gammas
        )
        return out


@formula
def log_sums(
    d2: NDArray, starts: NDArray, log_weights: NDArray, gammas: Any
) -> NDArray:
    """Logarithms of sum w exp(-gamma d2) over parts of the last axis of `d2`.

    The parts begin at `starts`; (n_gammas, ..., n_parts). `d2` is overwritten. The
    nearest of a part is taken out first, so that what is left is small in any dtype.
    """
    nearest = np.minimum.reduceat(d2, starts, axis=-1)
    base = np.where(np.isfinite(nearest), nearest, 0)
    sizes = np.diff(np.append(starts, d2.shape[-1]))
    depth = np.subtract(np.repeat(base, sizes, axis=-1), d2, out=d2)
    weights = log_weights.astype(depth.dtype) if log_weights.any() else None
    least, most = (1e-150, 1e150) if depth.dtype == np.float64 else (1e-37, 1e37)
    # A bump that leaves the numbers is worth nothing.
    sums: list[NDArray] = []
    with np.errstate(over="ignore", divide="ignore"):
        for gamma in gammas:
            bumps = depth * depth.dtype.type(np.clip(gamma, least, most))
            top: Any = 0.0
            if weights is not None:
                bumps += weights
                top = np.maximum.reduceat(bumps, starts, axis=-1)
                top = np.where(np.isfinite(top), top, 0)
                bumps -= np.repeat(top, sizes, axis=-1)
            np.exp(bumps, out=bumps)
            sums.append(np.log(np.add.reduceat(bumps, starts, axis=-1, dtype=float)))
            sums[-1] += top
        return np.stack(sums) - np.multiply.outer(
            np.asarray(gammas, float), base.astype(float)
        )


def check_transform(transform: Any) -> Any:
    """Return a transformer, or say what is wrong with it; None is none."""
    if transform is None:
        return None
    methods = ("fit", "transform", "get_params")
    able = all(hasattr(transform, method) for method in methods)
    if isinstance(transform, type) or not able:
        raise ValueError(
            "candidate_transform must be None or a transformer with fit, transform and "
            f"get_params, such as DirectionFeatures(shape=(28, 28)); got {transform!r}."
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
    versions : ndarray of shape (n_samples, n_versions) or None
        Which references are one sample and its copies, that as it was given first:
        samples are looked for, all versions are candidates. None is no copies.
    """

    def __init__(
        self,
        transform: Any,
        references: Any,
        n_candidates: int,
        versions: NDArray | None = None,
    ):
        if versions is None:
            versions = np.arange(len(references))[:, None]
        self.transform, self.versions = transform, versions
        self.n_candidates = min(n_candidates, len(versions))
        features = self._features(references[versions[:, 0]])
        check_size(features, "what candidate_transform returns", whole=True)
        # Taken off, so that products lose little by rounding.
        self.centre = features.mean(axis=0)
        self.features = features - self.centre
        self.squares = np.einsum("ij,ij->i", self.features, self.features)

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        return min(
            2048, rows_in_budget(80 * self.n_candidates * self.versions.shape[1])
        )

    def candidates(
        self,
        queries: Bundle,
        at_least: int = 1,
        n_jobs: int | None = None,
        apart: tuple[NDArray, NDArray] | None = None,
    ) -> NDArray:
        """Find the nearest references, as positions (n, n_candidates), ascending.

        `at_least` so many. Groups that are to be `apart`, of queries and of references,
        leave out those of a query's own; where too few are left, positions are -1.
        """
        first = self.versions[:, 0]
        count = min(len(first), max(self.n_candidates, at_least))
        asked = self._features(queries.points) - self.centre
        found = np.empty((len(asked), count), np.int64)

        def fill(rows: slice) -> None:
            d2 = self.squares - 2 * (asked[rows] @ self.features.T)
            if apart is not None:
                d2[apart[0][rows, None] == apart[1][first]] = np.inf
            near = smallest(d2, count)
            if apart is not None:
                near[np.isinf(np.take_along_axis(d2, near, axis=1))] = -1
            found[rows] = near

        # Distances, their order and a mask.
        size = rows_in_budget(24 * len(first), n_jobs)
        thread_map(fill, batched_slices(len(asked), min(64, size)), n_jobs, "nearest")
        places = self.versions[found]
        places[found < 0] = -1
        return np.sort(places.reshape(len(asked), -1), axis=1)

    def _features(self, X: Any) -> NDArray:
        samples = to_numpy(X)
        if self.transform is None:
            return samples
        made = self.transform.transform(samples)
        if len(np.shape(made)) != 2:
            raise ValueError(
                "candidate_transform must return a table, one row per sample; it made "
                f"an array of shape {np.shape(made)}."
            )
        features = as_matrix("what candidate_transform returns", made)
        if len(features) != len(samples):
            raise ValueError(
                "candidate_transform must return one row per sample; it made "
                f"{len(features)} of {len(samples)}."
            )
        n_features = len(self.centre) if hasattr(self, "centre") else features.shape[1]
        if features.shape[1] != n_features:
            raise ValueError(
                "candidate_transform must make as many features of every sample; it "
                f"made {features.shape[1]}, of the training samples {n_features}."
            )
        return features
