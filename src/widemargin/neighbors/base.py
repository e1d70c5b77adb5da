"""What neighbours and densities share: samples that are remembered, and their index.

Frames are many times as large as the points they come from: a pickle has the points
only, and a subclass says how to make the frames again. Samples of a Dask collection
stay with its workers, a model for each partition.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.engines import formula
from widemargin._compute.formulas import worth_a_bound
from widemargin._compute.machine import batched_slices
from widemargin._compute.progress import announced
from widemargin._core import shards
from widemargin._core.arrays import cached_on, numpy_dtype, place_of, to_numpy
from widemargin._core.checks import is_auto
from widemargin._core.classifier import MarginClassifier
from widemargin._core.duplicates import duplicate_groups
from widemargin._core.lazy import without_callbacks
from widemargin._core.samples import Samples
from widemargin.margins import relative_margin
from widemargin.metrics import TangentMetric, stiffness
from widemargin.neighbors.index import FunctionMetric, Index
from widemargin.neighbors.plain import PlainIndex
from widemargin.neighbors.pruned import PrunedIndex
from widemargin.tangents import Bundle

# Features from which a plain distance is worth a bound (benchmarks/nearest.py).
MANY_FEATURES = 512
# Dimensions of lower bounds, per cube root of the features: for one neighbour, and for
# more, which lie farther away, where a coarse bound spares less.
FOR_ONE, FOR_MORE = 8, 10


class IndexOptions(NamedTuple):
    """What an index is for.

    `algorithm` says how neighbours are found, "sums" that densities are asked for.
    `candidates` is where to look for `n_candidates`, see `Index`.
    """

    algorithm: Literal["exact", "brute", "rerank", "sums"] = "sums"
    n_neighbors: int = 1
    n_candidates: int = 1
    candidates: Any = None
    n_jobs: int | None = None


def index_of(
    references: Bundle,
    codes: NDArray,
    n_classes: int,
    metric: TangentMetric,
    options: IndexOptions,
) -> Any:
    """Return the index that answers soonest, see `widemargin.neighbors.index`."""
    given = references, codes, n_classes, metric
    sums, own = options.algorithm == "sums", isinstance(metric, FunctionMetric)
    if own or metric.sides == "midpoint" or (sums and options.candidates is not None):
        squared = sums or not own
        return Index(*given, squared=squared, candidates=options.candidates)
    return tangent_index(references.points, references.frames, *given, options)


@formula
def tangent_index(
    points: NDArray,
    frames: NDArray,
    references: Bundle,
    codes: NDArray,
    n_classes: int,
    metric: TangentMetric,
    options: IndexOptions,
) -> Any:
    """Return the index of samples with tangents, of a metric that has no midpoint."""
    algorithm, _, n_candidates, candidates, n_jobs = options
    given = references, codes, n_classes, metric
    if algorithm == "sums":
        return Index(*given)
    n, d = points.shape
    factor = FOR_ONE if options.n_neighbors == 1 else FOR_MORE
    n_components = round(factor * np.cbrt(d))
    bounded = d >= MANY_FEATURES and worth_a_bound(n, d, n_components)
    plain = references.is_shared and candidates is None
    if plain and not (bounded and algorithm == "exact"):
        return PlainIndex(*given, n_candidates=n_candidates, n_jobs=n_jobs)
    return PrunedIndex(
        *given, algorithm=algorithm, n_components=n_components,
        n_candidates=n_candidates, candidates=candidates, n_jobs=n_jobs,
    )  # fmt: skip


def suited_metric(
    metric: TangentMetric, samples: Samples, spring: Any, groups: NDArray | None = None
) -> TangentMetric:
    """Return how samples may move: what the nearest of left-out ones asks for.

    Each of up to 300 samples is answered by the nearest of the others, less its copies
    or its group. Where all of these are of other classes, both ends move freely, as
    nothing says whether they should.

    Parameters
    ----------
    metric : TangentMetric
        Fitted and two-sided.
    samples : Samples
        Training samples.
    spring : float or "auto"
        What was asked for.
    groups : ndarray of shape (n_samples,), default=None
        Samples that resemble each other; by default those that are equal.
    """
    if not metric.has_tangents:
        return metric
    order = np.random.RandomState(0).permutation(len(samples))
    some = np.sort(order[: stiffness.TRIED_ON])
    few, codes = samples.take(some), samples.codes[some]
    groups = duplicate_groups(few.X, codes) if groups is None else groups[some]
    same, apart = codes[:, None] == codes, groups[:, None] != groups
    asked = np.flatnonzero((same & apart).any(axis=1))
    bundle = metric.bundle(few.X, few.labels)
    if len(asked) == 0 or bundle.n_tangents == 0 or same.all():
        return metric
    *stiffer, free = stiffness.ladder(metric, is_auto(spring))
    candidates = [*stiffer, replace(metric, sides="reference")]
    # Where most can move to nothing they are near to each other for that.
    candidates += [] if metric.fades(bundle) else [free]

    def margins(candidate: TangentMetric) -> NDArray:
        seen = bundle
        if candidate.tangents is not metric.tangents:
            seen = candidate.bundle(few.X, few.labels)
        d2 = to_numpy(candidate.squared_distances(seen))[asked]
        d2 = np.where(apart[asked], d2, np.inf)
        own, others = (
            np.where(of, d2, np.inf).min(axis=1) for of in (same[asked], ~same[asked])
        )
        return relative_margin(own, others)

    weights = few.weights[asked] / few.weights[asked].max()
    return stiffness.as_stiff_as_asked(candidates, margins, weights)


class RemembersSamples(MarginClassifier):
    """Base of classifiers that remember samples as a `bundle_`, here or on a cluster.

    A subclass makes the index that it asks, by `_make_index`.
    """

    device_methods: ClassVar[tuple[str, ...]] = (
        *("fit", "predict", "predict_proba", "decision_function"),
        *("margins", "confidence"),
    )
    lazy_methods = ("fit",)
    _memory_order = "C"
    # Models of the partitions of a Dask collection, where that was fitted, and what
    # they said together of the samples that are asked about.
    _parts = cast("shards.Shards | None", None)
    _merged = cast(Any, None)

    bundle_: Bundle
    _metric: TangentMetric
    spring: Any

    def _keep_metric(
        self,
        given: TangentMetric,
        samples: Samples,
        choose: bool,
        groups: NDArray | None = None,
    ) -> TangentMetric:
        """Return how samples move, by themselves where that is to `choose`; say it."""
        metric = given
        if choose:
            metric = suited_metric(given, samples, self.spring, groups)
        self.sides_ = stiffness.sides_told(metric, given)
        self.spring_, self.input_tangents_ = metric.spring, metric.tangents
        return metric

    @abstractmethod
    def _remake(self, points: NDArray) -> None:
        """Make the bundle of its points, which are in the metric's unit."""

    @abstractmethod
    def _make_index(self, references: Bundle) -> Any:
        """Return the index of the training samples, where they are asked for."""

    def _index_at(self, X: Any) -> Any:
        """Return the index where the samples are; made when it is first needed."""
        place = place_of(X)
        # Here queries of another dtype leave the references as they are.
        key = "index", place and (str(place), numpy_dtype(X))

        def make() -> Any:
            bundle = (
                self.bundle_.to(None)
                if place is None
                else self._metric.bundle_like(self.bundle_, X)
            )
            # Another object: what is kept for a bundle must not keep it alive.
            return self._make_index(Bundle(bundle.points, bundle.frames))

        return cached_on(self.bundle_, key, make)

    def _queries(self, X: Any, index: Any, what: str) -> Iterator[tuple[slice, Bundle]]:
        """Cut samples, None for those that are remembered, into bundles.

        Frames are made when they are needed, so that memory does not grow with X.
        """
        n = len(index.references) if X is None else len(X)
        for rows in announced(list(batched_slices(n, index.max_queries())), what):
            if X is None:
                yield rows, index.references[rows]
            else:
                yield (
                    rows,
                    self._metric.bundle(X[rows], end="query", n_jobs=self.n_jobs),
                )

    @staticmethod
    def _parted(parts: Any, make: Callable, *args: Any, **options: Any) -> Any:
        """Make the model of every partition, where it is."""
        made = parts.map(make, *args, **options)
        # What goes wrong, goes wrong now.
        made.sum(_size)
        return made

    def _with_found(self, question: tuple, found: list | None) -> Self:
        """Return a model that knows what the parts said, and nothing else."""
        twin = without_callbacks(self)
        if found is not None:
            twin._merge(question, found)
        return twin

    def _merge(self, question: tuple, found: list) -> None:
        """Remember what the parts said of some samples."""
        raise NotImplementedError

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
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        points = state.pop("_points", None)
        super().__setstate__(state)
        if points is not None:
            self._remake(points)


def _size(part: Any) -> int:
    return len(part.bundle_)
