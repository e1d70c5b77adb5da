r"""Nearest neighbours that ignore what may vary.

The k training samples nearest to x in tangent distance vote for its class. The votes
are equal or weighted by 1/d; equal votes go to the class of the nearest neighbour, and
of equally near ones to the first class. With one neighbour the answer is as sure as its
distance d_+ is smaller than the distance d_- to any other class,

    (d_-^2 - d_+^2) / (d_-^2 + d_+^2);

with more, as the share of the votes is larger than the next. Training samples are kept
ordered by class, so that the first of equally near ones is of the first class.

Reference: P. Simard, Y. LeCun, J. Denker, Efficient pattern recognition using a new
transformation distance, NIPS 1992. Shapes: neighbours (n, k), scores (n, n_classes).
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.machine import batched_slices
from widemargin._compute.progress import announced, observed_by
from widemargin._core.arrays import (
    in_dtype,
    is_tensor,
    made_once,
    numpy_dtype,
    refuse_device,
)
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    check_count,
    check_neighbors,
    check_option,
    check_squares,
    hushed,
    in_unit,
)
from widemargin._core.classifier import SoftClassifier, fit_method
from widemargin._core.decisions import (
    best_other,
    label_margins,
    relative_distances,
)
from widemargin._core.lazy import bare
from widemargin._core.left_out import left_out_folds
from widemargin._core.params import parameters
from widemargin._core.samples import Samples, check_samples, check_X
from widemargin._core.shards import check_shards
from widemargin._core.temperature import LeftOut, fit_temperature, joined
from widemargin.margins import relative_margin
from widemargin.metrics import TangentMetric
from widemargin.metrics.tangent import helpful_metric, metric_of
from widemargin.neighbors.search import (
    DeviceTangentSearch,
    FeatureCandidates,
    MergedSearch,
    MetricSearch,
    PlainSearch,
    RemembersSamples,
    TangentSearch,
    check_transform,
    components_on_device,
    fit_transform,
    plain_search_serves,
)
from widemargin.tangents import Bundle
from widemargin.tangents.generator import tangents_meant

ALGORITHMS = ("exact", "brute", "rerank")
TANGENT_CANDIDATES = "candidate_transform with metric='tangent'"
# Of a vote: what nearness adds where votes are equal.
NEARNESS = 1e-9


@parameters
class TangentKNeighborsClassifier(RemembersSamples, SoftClassifier):
    """k nearest neighbours in tangent distance; in plain distance without `tangents`.

    Parameters
    ----------
    n_neighbors : int, default=1
        Number of neighbours that vote.
    weights : {"uniform", "distance"} or callable, default="uniform"
        Weights of the votes: equal, the inverse distance, or a function from an array
        of distances to weights.
    tangents : generator, array of shape (n_tangents, n_features), "none" or None, \
            default=None
        Changes to ignore, for instance ``ImageTangents(shape=(16, 16))``. None:
        Euclidean distance, with a warning; "none": without.
    sides : {"auto", "both", "query", "reference", "mean", "midpoint"}, default="auto"
        Which end may move along its tangents: the query, the reference, or both; see
        :func:`~widemargin.metrics.tangent_distances`. "auto" is "both", unless
        "reference" or no tangents clearly has a lower leave-one-out error.
    spring : float, default=1e-5
        Price of moving along the tangents.
    metric : "tangent" or callable, default="tangent"
        A function ``metric(X, Y) -> (n_x, n_y)`` replaces the tangent distance, for
        instance a ``functools.partial`` of
        :func:`~widemargin.metrics.image_distortion_distances`.
    algorithm : {"exact", "brute", "rerank"}, default="exact"
        "brute" computes all distances. "exact" finds the same neighbours by a lower
        bound in `n_components` dimensions; with a `metric` of your own, or
        ``sides="midpoint"``, it computes all. "rerank" is approximate: it computes
        distances to `n_candidates` only, and makes a slow `metric` affordable.
    n_components : int or "auto", default="auto"
        Dimensions of the lower bound. "auto" is ``8 * cbrt(n_features)`` for one
        neighbour, ``10 * cbrt(n_features)`` for more, and about ``14 *
        cbrt(n_features)`` on a GPU. Results do not depend on it.
    n_candidates : int, default=500
        Number of candidates of "rerank".
    candidate_transform : transformer or None, default=None
        Candidates of "rerank" are the nearest in Euclidean distance after this
        transformer, for instance :class:`~widemargin.tangents.DirectionFeatures`. None:
        the nearest with tangents at one end. It is fitted to the training samples.
    class_weight : dict, "balanced" or None, default=None
        Factor on the votes of each class. Ignored if ``n_neighbors=1``.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bundle_ : Bundle
        Training samples of positive weight, ordered by class, with their frames where
        the search uses them: not for ``sides="midpoint"`` or a `metric` of your own
        unless it reranks. Where squares would overflow or vanish, in another unit.
        There is none where the samples are those of a Dask collection.
    input_tangents_ : generator, ndarray or None
        What may vary, fitted.
    sides_ : {"both", "query", "reference", "mean", "midpoint", "none"}
        Which end moves; "none" where "auto" found that tangents only harm.
    candidate_transform_ : transformer or None
        What makes the features of candidates, fitted.
    temperature_ : float
        Of ``predict_proba``: found when it is first asked for, on about 500 training
        samples that look for their neighbours among the others.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    widemargin.TangentDensityClassifier : All samples count, the nearer the more.
    widemargin.TVQClassifier : A few models instead of all samples.
    widemargin.metrics.tangent_distances : The distances.

    Notes
    -----
    Margins are "relative" for one neighbour: of the squared distances to the nearest of
    the label and the nearest of all others that the search looks at. For more
    neighbours they are a "vote_fraction": of the votes, less that of the next class.
    Distances that are returned come from the explicit residual in float64, whatever the
    dtype of the samples. Equally near neighbours are ordered by class, then by index.
    Inside ``with widemargin.show_progress():`` a bar shows how far the search is.

    References
    ----------
    P. Simard, Y. LeCun, J. Denker, Efficient pattern recognition using a new
    transformation distance, NIPS 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.neighbors import TangentKNeighborsClassifier
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0]])
    >>> along_first_axis = np.array([[1.0, 0.0]])
    >>> knn = TangentKNeighborsClassifier(tangents=along_first_axis)
    >>> knn.fit(X, ["low", "high"]).predict([[50.0, 0.9]])
    array(['high'], dtype='<U4')
    """

    device_methods = (*RemembersSamples.device_methods, "kneighbors")
    _models_classes_alone = True
    # Temperature and lead that some samples of a Dask collection tell.
    _of_some = cast("tuple[float, float] | None", None)

    n_neighbors: int = 1
    _: KW_ONLY
    weights: Literal["uniform", "distance"] | Callable = "uniform"
    tangents: Any = None
    sides: Literal["auto", "both", "query", "reference", "mean", "midpoint"] = "auto"
    spring: float = 1e-5
    metric: Literal["tangent"] | Callable = "tangent"
    algorithm: Literal["exact", "brute", "rerank"] = "exact"
    n_components: int | Literal["auto"] = "auto"
    n_candidates: int = 500
    candidate_transform: Any = None
    class_weight: Any = None
    n_jobs: int | None = None

    @property
    def margin_unit(self) -> str:
        """A margin of one neighbour is "relative", of more a "vote_fraction"."""
        return "relative" if self._k == 1 else "vote_fraction"

    @property
    def _k(self) -> int:
        return getattr(self, "_n_neighbors", self.n_neighbors)

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remember the training samples and compute their frames.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples. Those of a Dask collection stay where they are, with an
            index for each partition.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Factor on the vote of each sample; samples of weight 0 are left out.

        Returns
        -------
        self : TangentKNeighborsClassifier
            The fitted classifier.
        """
        metric = self._check_parameters()
        samples = check_samples(self, X, y, sample_weight, stay=True)
        self._parts = self._of_some = None
        self._n_neighbors = check_neighbors(self.n_neighbors, len(samples))
        self.classes_, self._weights = samples.classes, self.weights
        # Of equally near ones the first is of the first class.
        order = np.argsort(samples.codes, kind="stable")
        self._positions, samples = order, samples.take(order)
        self._codes = samples.codes.astype(np.int64)
        self._n_training = len(samples)
        # Only ratios count, and they may be of any size.
        self._votes = samples.weights / samples.weights.max()
        data = {"X": samples.X, "y": samples.labels, "sample_weight": samples.weights}
        with FitTasks(self, 2, **data) as tasks:
            with tasks.parts("tangents"):
                self._fit_metric(metric, samples, samples.X)
                self.bundle_ = self._bundle(samples.X, samples.labels)
            self._dtype = numpy_dtype(self.bundle_.points)
            self._metric.warn_of_blanks(self.bundle_)
            with tasks.parts("projections"):
                self._search: Any = None
                if not is_tensor(self.bundle_.points):
                    self._search = self._choose_search(self.bundle_)
        return self

    def _check_parameters(self) -> TangentMetric:
        # A metric of one's own needs none, and "rerank" may do without.
        tangents = "none" if self.tangents is None else self.tangents
        if not callable(self.metric):
            tangents = self.tangents
        tangents = tangents_meant(tangents, type(self).__name__)
        metric = metric_of(tangents, self.sides, self.spring)
        check_option("algorithm", self.algorithm, ALGORITHMS)
        check_count("n_candidates", self.n_candidates)
        if check_transform(self.candidate_transform) and self.algorithm != "rerank":
            raise ValueError(
                "candidate_transform needs algorithm='rerank', which has candidates; "
                f"got {self.algorithm!r}."
            )
        if not isinstance(self.n_components, str) or self.n_components != "auto":
            check_count("n_components", self.n_components, "'auto' or ")
        if not callable(self.weights):
            check_option("weights", self.weights, ("uniform", "distance"))
        named = isinstance(self.metric, str) and self.metric == "tangent"
        if not (named or callable(self.metric)):
            raise ValueError(
                "metric must be 'tangent', Euclidean with tangents='none', "
                f"or a function metric(X, Y) -> (n_x, n_y); got {self.metric!r}."
            )
        return metric

    def _fit_metric(self, metric: TangentMetric, samples: Samples, limits: Any) -> None:
        """Fit the metric to samples, in a unit of all that lie within the limits."""
        # What belongs to no single sample needs no frames at all.
        self._measures_points = callable(self.metric) or metric.sides == "midpoint"
        if not callable(self.metric):
            metric = metric.in_unit_of(limits)
        metric = metric.fit(samples.X, samples.labels)
        self.sides_ = metric.sides
        if self.sides == "auto" and not callable(self.metric):
            metric, self.sides_ = helpful_metric(
                metric, samples.X, samples.codes, samples.labels, samples.weights
            )
        self._metric, self.input_tangents_ = metric, metric.tangents
        # A distance of one's own need not square anything.
        self._squares = not callable(self.metric) or self.algorithm == "rerank"
        if self._squares:
            check_squares(limits, metric.unit)
        if self.candidate_transform is not None and not self._measures_points:
            refuse_device(TANGENT_CANDIDATES, X=samples.X)
        self.candidate_transform_ = fit_transform(
            self.candidate_transform, samples.X, samples.labels
        )
        self._asked = {
            name: getattr(self, name)
            for name in ("algorithm", "metric", "n_candidates", "n_components")
        }

    @fit_method
    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Make an index of every partition of a Dask collection, where it is."""
        metric = self._check_parameters()
        given = check_shards(self, X, y, sample_weight, stay=True)
        self._n_neighbors = check_neighbors(self.n_neighbors, given.n_rows)
        some = given.some()
        few = clone(self).set_params(class_weight=None)
        few.set_params(n_neighbors=min(self._n_neighbors, len(some)))
        with hushed():
            few.fit(some.X, some.labels, some.weights)
        self._of_some = few._calibration
        self.classes_, self._weights = given.classes, self.weights
        self._n_training = given.n_rows
        data = {"X": some.X, "y": some.labels, "sample_weight": some.weights}
        with FitTasks(self, 1, **data) as tasks, tasks.whole("indices"):
            self._fit_metric(metric, some, given.limits)
            self._dtype = in_unit(given.limits, self._metric.unit).dtype
            # Where every part stands among all samples, class by class and as given.
            earlier = np.cumsum(given.counts, axis=0) - given.counts
            per_class = given.counts.sum(axis=0)
            before = earlier + (np.cumsum(per_class) - per_class)
            starts = earlier.sum(axis=1)
            self._parts = None
            own = list(zip(before, starts.tolist(), strict=True))
            light = self._with_found(("none",), None)
            self._parts = self._parted(given, _index, light, given.heaviest, own=own)
        self.__dict__.pop("bundle_", None)
        self._search = None
        return self

    def _question(
        self, name: str, n_neighbors: Any = None, return_distance: bool = True
    ) -> tuple:
        """Ask every part for the nearest of all, or of every class."""
        k = self._n_neighbors if n_neighbors is None else n_neighbors
        k = check_neighbors(k, self._n_training)
        scores = name not in ("predict", "kneighbors")
        return ("classes",) if scores and self._n_neighbors == 1 else ("nearest", k)

    def _example(self, question: tuple) -> Any:
        """Return what a part could have answered about one sample."""
        if question[0] == "classes":
            return np.ones((1, len(self.classes_)))
        zeros = np.zeros((1, question[1]), np.int64)
        return Nearest(zeros + 1.0, zeros, zeros, zeros + 1.0, zeros)

    def _found(self, X: Any, question: tuple) -> Any:
        """Answer a question about samples, as one of the parts."""
        X = self._check_predict(X)
        if question[0] == "nearest":
            distances, places = self._neighbors(X, min(question[1], len(self.bundle_)))
            facts = (self._places, self._codes, self._votes, self._positions)
            return Nearest(distances, *(fact[places] for fact in facts))
        parts = [
            search.of_classes(queries, self._codes, len(self.classes_), self.n_jobs)
            for _, queries, search in self._some_after_another(X, "margins")
        ]
        return np.concatenate(parts)

    def _with_found(self, question: tuple, found: list | None) -> Self:
        """Return a model that knows what the parts said, and nothing else."""
        twin = bare(self)
        if found is None:
            return twin
        if question[0] == "classes":
            twin._codes = np.arange(len(self.classes_))
            power = 1 if self._measures_points else 2
            twin._search = MergedSearch(np.minimum.reduce(found), power)
            return twin
        nearest = merged_nearest(found, question[1])
        twin._codes, twin._votes = nearest.codes.ravel(), nearest.votes.ravel()
        twin._positions = nearest.positions.ravel()
        twin._search = MergedSearch(nearest.distances, 1)
        return twin

    def _bundle(self, X: NDArray, labels: NDArray, unit: float | None = None) -> Bundle:
        metric = self._metric if unit is None else replace(self._metric, unit=unit)
        reranks = self._asked["algorithm"] == "rerank"
        if self._measures_points and reranks and self.candidate_transform_ is None:
            metric = replace(metric, sides="reference")
        elif self._measures_points:
            metric = replace(metric, tangents=None)
        return metric.bundle(X, labels, n_jobs=self.n_jobs)

    def _remake(self, points: NDArray) -> None:
        self.bundle_ = self._bundle(points, self.classes_[self._codes], unit=1.0)
        self._search = self._choose_search(self.bundle_)

    def _search_among(self, X):
        """Return the search where the queries are; made when it is first needed.

        What `fit` made for its own samples belongs to the model.
        """
        if self._search is not None and (
            not is_tensor(X) or isinstance(self._search, MergedSearch)
        ):
            return self._search
        place = (str(X.device), str(X.dtype)) if is_tensor(X) else "NumPy"

        def make():
            bundle = self._metric.bundle_like(self.bundle_, X)
            # Another object: what is kept for a bundle must not keep it alive.
            return self._choose_search(Bundle(bundle.points, bundle.frames))

        return made_once(self.bundle_, place, make)

    def _choose_search(self, bundle):
        algorithm, candidates = self._asked["algorithm"], None
        if self.candidate_transform_ is not None:
            candidates = FeatureCandidates(
                self.candidate_transform_,
                bundle.points,
                int(self._asked["n_candidates"]),
                self._metric.unit,
            )
        if not self._measures_points:
            return self._searcher(bundle, self._metric.sides, algorithm, candidates)
        if algorithm == "rerank" and candidates is None:
            # Candidates for another metric come from the cheapest tangent distance.
            candidates = self._searcher(bundle, "reference", "brute")
        metric = self._asked["metric"]
        if not callable(metric):
            metric = partial(_distances_of_points, self._metric)
        return MetricSearch(bundle, metric, candidates)

    def _searcher(self, bundle, sides, algorithm, candidates=None):
        on_device = is_tensor(bundle.points)
        n_components: Any = self._asked["n_components"]
        if n_components == "auto" and on_device:
            n_components = components_on_device(bundle.n_features)
        elif n_components == "auto":
            # More neighbours lie farther away, where a coarse bound spares less.
            factor = 8 if self._n_neighbors == 1 else 10
            n_components = round(factor * np.cbrt(bundle.n_features))
        options: dict[str, Any] = {
            "sides": sides,
            "spring": self._metric.spring,
            "n_candidates": int(self._asked["n_candidates"]),
            "n_jobs": self.n_jobs,
        }
        plain = plain_search_serves(bundle, algorithm, n_components, candidates)
        if plain and not on_device:
            return PlainSearch(bundle, **options)
        search: Any = DeviceTangentSearch if on_device else TangentSearch
        if candidates is not None:
            refuse_device(TANGENT_CANDIDATES, X=bundle.points)
            options["elsewhere"] = candidates
        options |= {"algorithm": algorithm, "n_components": n_components}
        return search(bundle, **options)

    def kneighbors(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest training samples.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Samples asked about; None means the training samples, none of which is
            then a neighbour of itself.
        n_neighbors : int, default=None
            How many; None is the parameter of the classifier.
        return_distance : bool, default=True
            Return distances too.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Not squared, ascending; only with `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors)
            Positions among the training samples of positive weight, as they were given.
        """
        check_is_fitted(self)
        own = X is None
        k = self._n_neighbors if n_neighbors is None else n_neighbors
        k = check_neighbors(k, self._n_training - own)
        X = None if own else self._check_predict(X)
        distances, found = self._neighbors(X, k + own)
        if own:
            distances, found = _without_self(distances, found)
            back = np.argsort(self._positions)
            distances, found = distances[back], found[back]
        indices = self._positions[found]
        return (distances * self._metric.unit, indices) if return_distance else indices

    def _neighbors(self, X, k):
        """Distances and places, among the ordered samples, of the k nearest."""
        found = [
            search.query(queries, k, self.n_jobs)
            for _, queries, search in self._some_after_another(X, "neighbours")
        ]
        distances, places = zip(*found, strict=True)
        return np.concatenate(distances), np.concatenate(places)

    def _check_predict(self, X):
        check_is_fitted(self)
        X = check_X(self, X, order="C")
        if self._squares:
            check_squares(X, self._metric.unit)
        # Frames have the dtype of their points; the finer one serves both ends.
        return in_dtype(X, np.result_type(numpy_dtype(X), self._dtype))

    def _some_after_another(self, X, what):
        """Cut queries, None for the training samples, into bundles; with their rows.

        Frames are made when they are needed, so that memory does not grow with X.
        """
        n = self._n_training if X is None else len(X)
        search = self._search_among(self.bundle_.points if X is None else X)
        metric = self._metric
        if not search.needs_frames:
            metric = replace(metric, tangents=None)
        for rows in announced(batched_slices(n, search.max_queries()), what):
            if X is None:
                yield rows, search.references[rows], search
            else:
                yield rows, metric.bundle(X[rows], None, n_jobs=self.n_jobs), search

    def _shares(self, X):
        """Share of the votes of every class, and how near it comes, in (0, 1)."""
        distances, places = self._neighbors(X, self._n_neighbors)
        weights = _vote_weights(self._weights, distances * self._metric.unit)
        weights = weights * self._votes[places]
        n, k = weights.shape
        shares, nearness = np.zeros((2, n, len(self.classes_)))
        # Equally near ones are equally good.
        rank = np.where(distances[:, 1:] > distances[:, :-1], np.arange(1, k), 0)
        rank = np.maximum.accumulate(np.pad(rank, ((0, 0), (1, 0))), axis=1)
        for place in range(k - 1, -1, -1):
            at = np.arange(n), self._codes[places[:, place]]
            shares[at] += weights[:, place]
            nearness[at] = (k - rank[:, place]) / (k + 1)
        return shares / shares.sum(axis=1, keepdims=True), nearness

    def _costs(self, X: Any) -> tuple[NDArray, NDArray]:
        """By how much of the vote classes are behind, or how far they are."""
        if self._n_neighbors > 1:
            shares, nearness = self._shares(X)
            answers = (shares + NEARNESS * nearness).argmax(axis=1)
            return shares.max(axis=1, keepdims=True) - shares, answers
        squares = []
        for _, nearest, search in self._nearest_of_classes(X):
            if search.power == 1:
                second = np.partition(nearest, 1, axis=1)[:, 1:2]
                unit = np.where((second > 0) & np.isfinite(second), second, 1)
                with np.errstate(over="ignore"):
                    nearest = (nearest / unit) ** 2
            squares.append(nearest)
        D = np.concatenate(squares)
        costs = relative_distances(D)
        # Of a class without candidates nothing nearer was seen.
        there = np.isfinite(costs)
        far = costs.max(axis=1, initial=1.0, where=there, keepdims=True)
        return np.where(there, costs, far), D.argmin(axis=1)

    @property
    def temperature_(self) -> float:  # type: ignore[override]
        """Temperature of ``predict_proba``, found when it is first asked for."""
        return self._calibration[0]

    @property
    def _lead(self) -> float:  # type: ignore[override]
        return self._calibration[1]

    @property
    def _calibration(self) -> tuple[float, float]:
        if self._parts is not None or self._of_some is not None:
            return cast("tuple[float, float]", self._of_some)

        def make() -> tuple[float, float]:
            return fit_temperature(self._left_out_costs())

        return made_once(self.bundle_, ("temperature", self._n_neighbors), make)

    def _left_out_costs(self) -> LeftOut:
        """Say what some training samples cost where they are no neighbours."""
        points, n = self.bundle_.points, self._n_training
        weights = self._votes / self._votes.mean()
        samples = Samples(points, self._codes, weights, self.classes_, np.arange(n))
        said = [LeftOut(np.zeros((0, len(self.classes_))), *3 * [np.arange(0)])]
        for rows in left_out_folds(samples, np.inf):
            keep, part = np.delete(np.arange(n), rows), bare(self)
            part.bundle_, part._codes = self.bundle_[keep], self._codes[keep]
            part._votes, part._n_training = self._votes[keep], len(keep)
            part._n_neighbors = min(self._n_neighbors, len(keep))
            part._search = None
            if not is_tensor(points):
                part._search = part._choose_search(part.bundle_)
            with observed_by(None):
                costs, answers = part._costs(points[rows] * self._metric.unit)
            said.append(LeftOut(costs, answers, self._codes[rows], weights[rows]))
        return joined(said)

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
            Softmax of what the share of the vote, or of one neighbour the relative
            squared distance to the class, is behind that of the answer, over
            ``temperature_``. It is found when probabilities are first asked for, on up
            to about 500 training samples that look for their neighbours among others.
        """
        return super().predict_proba(X)

    def _nearest_of_classes(self, X: Any) -> Iterator[tuple[slice, NDArray, Any]]:
        """Yield distances to the nearest of every class, in the power of the search."""
        n_classes = len(self.classes_)
        for rows, queries, search in self._some_after_another(X, "margins"):
            found = search.of_classes(queries, self._codes, n_classes, self.n_jobs)
            yield rows, found, search

    def _distances_to_classes(self, X: Any) -> NDArray:
        """(n_samples, n_classes) distances to the nearest sample of every class."""
        found = [
            nearest if search.power == 1 else np.sqrt(nearest)
            for _, nearest, search in self._nearest_of_classes(X)
        ]
        return np.concatenate(found)

    def predict(self, X: ArrayLike) -> NDArray:
        """Class of the most votes; among equals the class of the nearest neighbour.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries,)
        """
        samples = self._check_predict(X)
        if self._n_neighbors > 1:
            return self.classes_[self._class_scores(samples).argmax(axis=1)]
        # One neighbour is enough to answer, if not to say how surely.
        _, places = self._neighbors(samples, 1)
        return self.classes_[self._codes[places[:, 0]]]

    def _class_scores(self, X):
        if self._n_neighbors > 1:
            shares, nearness = self._shares(X)
            return shares + NEARNESS * nearness
        margins = np.empty((len(X), len(self.classes_)))
        for rows, nearest, search in self._nearest_of_classes(X):
            margins[rows] = _relative(search, nearest, -best_other(-nearest))
        return margins

    def _label_margins(self, scores):
        if self._n_neighbors == 1:
            return scores
        # What orders equal votes is no vote.
        return np.clip(label_margins(scores), -1, 1)

    def _margins(self, X, codes):
        if self._n_neighbors > 1:
            return super()._margins(X, codes)
        out = np.empty(len(X))
        for rows, queries, search in self._some_after_another(X, "margins"):
            wanted = None if codes is None else codes[rows]
            rivals = search.rivals(queries, self._codes, wanted, self.n_jobs)
            out[rows] = _relative(search, *rivals)
        return out


def _relative(search: Any, d_plus: NDArray, d_minus: NDArray) -> NDArray:
    """Relative margin of the squares; where these would vanish, in other units."""
    if search.power == 1:
        unit = np.maximum(d_plus, np.where(np.isfinite(d_minus), d_minus, 0))
        unit = np.where((unit > 0) & np.isfinite(unit), unit, 1)
        d_plus, d_minus = (d_plus / unit) ** 2, (d_minus / unit) ** 2
    return relative_margin(d_plus.ravel(), d_minus.ravel()).reshape(d_plus.shape)


class Nearest(NamedTuple):
    """The nearest of a part, and what is to be known of them, each (n, k).

    Places are those among all training samples ordered by class, positions those among
    all as they were given.
    """

    distances: NDArray
    places: NDArray
    codes: NDArray
    votes: NDArray
    positions: NDArray


def merged_nearest(found: list[Nearest], k: int) -> Nearest:
    """Nearest of all parts: by distance, and of equally near ones by place."""
    every = Nearest(*(np.concatenate(a, axis=1) for a in zip(*found, strict=True)))
    order = np.lexsort((every.places, every.distances), axis=1)[:, :k]
    return Nearest(*(np.take_along_axis(a, order, axis=1) for a in every))


def _index(
    samples: Samples, light: Any, heaviest: float, before: NDArray, start: int
) -> Any:
    """Return the model of one part: `before` it stand so many, class by class."""
    part, order = bare(light), np.argsort(samples.codes, kind="stable")
    samples = samples.take(order)
    codes = samples.codes.astype(np.int64)
    ranks = np.arange(len(codes)) - np.searchsorted(codes, codes)
    part._places, part._positions = before[codes] + ranks, start + order
    part._codes, part._votes = codes, samples.weights / heaviest
    part._n_training, part._search = len(codes), None
    part.bundle_ = part._bundle(samples.X, samples.labels)
    if not is_tensor(part.bundle_.points):
        part._search = part._choose_search(part.bundle_)
    return part


def _distances_of_points(metric: TangentMetric, X: NDArray, Y: NDArray) -> NDArray:
    """Distances that need no frames, of points that are in the metric's unit."""
    bare = replace(metric, unit=1.0)
    return bare.distances(bare.bundle(X), bare.bundle(Y))


def _without_self(distances, places):
    """Drop each training sample from its own neighbours, or else the farthest."""
    n, k = places.shape
    own = places == np.arange(n)[:, None]
    own[~own.any(axis=1), k - 1] = True
    return distances[~own].reshape(n, k - 1), places[~own].reshape(n, k - 1)


def _vote_weights(weights: str | Callable, distances: NDArray) -> NDArray:
    """Weight of every neighbour, or an error that says what a function did wrong."""
    if callable(weights):
        return _checked_weights(weights(distances), distances.shape)
    if weights == "uniform":
        return np.ones_like(distances)
    # A neighbour at distance 0 outvotes all that are farther. Only ratios count.
    nearest = distances[:, :1]
    with np.errstate(invalid="ignore"):
        return np.where(nearest == 0, distances == 0, nearest / distances)


def _checked_weights(given: Any, shape: tuple[int, ...]) -> NDArray:
    given = np.asarray(given, dtype=float)
    if given.shape != shape:
        raise ValueError(
            f"weights must return an array of the shape of its distances, {shape}; got "
            f"{given.shape}."
        )
    if not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError(
            "weights must return finite numbers of at least 0; weights='distance' "
            "takes care of distances of 0."
        )
    largest = given.max(axis=1, keepdims=True)
    if not (largest > 0).all():
        raise ValueError(
            "weights gave 0 to all neighbours of some sample, which leaves no vote; "
            "it must return a number above 0 for at least one of them."
        )
    return given / largest
