r"""Nearest neighbours in tangent distance.

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

from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.nearest import nearest_two_classes
from widemargin._compute.progress import observed_by
from widemargin._core import shards
from widemargin._core.arrays import (
    cached_on,
    in_dtype,
    numpy_dtype,
    refuse_device,
    xp_of,
)
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    check_neighbors,
    check_option,
    hushed,
    is_auto,
)
from widemargin._core.classifier import SoftClassifier, fit_method
from widemargin._core.decisions import (
    best_other,
    label_margins,
    relative_distances,
)
from widemargin._core.lazy import without_callbacks
from widemargin._core.left_out import left_out_folds
from widemargin._core.params import (
    Counted,
    NotNegative,
    check_declared,
    parameters,
)
from widemargin._core.samples import Samples, check_samples
from widemargin._core.temperature import LeftOut, fit_temperature, joined
from widemargin.margins import relative_margin
from widemargin.metrics import TangentMetric
from widemargin.metrics.tangent import metric_of
from widemargin.neighbors.base import IndexOptions, RemembersSamples, index_of
from widemargin.neighbors.index import (
    FeatureCandidates,
    FunctionMetric,
    check_transform,
    fit_transform,
)
from widemargin.tangents import Bundle
from widemargin.tangents.generator import TangentGenerator, tangents_meant
from widemargin.tangents.transform import check_transformations, copies

TANGENT_CANDIDATES = "candidate_transform with metric='tangent'"
# Of a vote: what nearness adds where votes are equal.
NEARNESS = 1e-9


@parameters
class TangentKNeighborsClassifier(RemembersSamples, SoftClassifier):
    """k nearest neighbours in tangent distance; Euclidean without `tangents`.

    It keeps all training samples, needs few labels, and finds the exact neighbours.

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
        :func:`~widemargin.metrics.tangent_distances`. "auto" tries no moves,
        springs of 1, 0.3, 0.1 and 0.03, and free moves of the reference or of both. Up
        to 300 left-out samples judge. It takes the first that is not clearly worse than
        the best, and leaves out directions that harm. With one sample of each class
        both ends move freely.
    spring : float or "auto", default="auto"
        Price of moving along the tangents. "auto" is chosen with ``sides="auto"``, else
        1e-5, nearly free.
    metric : "tangent" or callable, default="tangent"
        A function ``metric(X, Y) -> (n_x, n_y)`` replaces the tangent distance, for
        instance a ``functools.partial`` of
        :func:`~widemargin.metrics.image_distortion_distances`.
    algorithm : {"exact", "brute", "rerank"}, default="exact"
        "brute" computes all distances. "exact" finds the same neighbours by a lower
        bound in few dimensions; with a `metric` of your own, or
        ``sides="midpoint"``, it computes all. "rerank" is approximate: it computes
        distances to `n_candidates` only, and makes a slow `metric` affordable.
    n_candidates : int, default=500
        Number of candidates of "rerank".
    candidate_transform : transformer or None, default=None
        Candidates of "rerank" are the nearest in Euclidean distance after this
        transformer, for instance :class:`~widemargin.tangents.DirectionFeatures`. None:
        the nearest with tangents at one end. It is fitted to the training samples.
    transformations : sequence of callables or None, default=None
        Functions ``X -> X`` that make a copy of every training sample, for what is
        beyond tangents: :func:`~widemargin.tangents.signal_shifts` for instance. A
        sample is as near as the nearest of its copies. Only with ``n_neighbors=1``.
    class_weight : dict, "balanced" or None, default=None
        Factor on the votes of each class. Ignored if ``n_neighbors=1``.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core. Results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bundle_ : Bundle
        Training samples of positive weight, ordered by class, with their frames if the
        search uses them. It does not with ``sides="midpoint"``, or with a `metric` of
        your own unless it reranks. There is none for samples of a Dask collection.
    input_tangents_ : generator, ndarray or None
        The fitted tangent generator.
    sides_ : {"both", "query", "reference", "mean", "midpoint", "none"}
        Which end moves; "none" where "auto" found that tangents only harm.
    spring_ : float
        Price of moving.
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
    Margins are "relative" for one neighbour. They compare the squared distances to the
    nearest sample of the label and to the nearest other one. For more neighbours they
    are a "vote_fraction": of the votes, less that of the next class. Distances that are
    returned come from the explicit residual in float64, whatever the dtype of the
    samples. Equally near neighbours are ordered by class, then by index. Inside ``with
    widemargin.show_progress():`` a bar shows how far the search is.

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
    # Which of the samples that were given each one is a copy of; None without copies.
    _origin = cast("NDArray | None", None)
    # Temperature and lead that some samples of a Dask collection tell.
    _of_some = cast("tuple[float, float] | None", None)

    n_neighbors: Counted = 1
    _: KW_ONLY
    weights: Literal["uniform", "distance"] | Callable = "uniform"
    tangents: Any = None
    sides: Literal["auto", "both", "query", "reference", "mean", "midpoint"] = "auto"
    spring: NotNegative | Literal["auto"] = "auto"
    metric: Literal["tangent"] | Callable = "tangent"
    algorithm: Literal["exact", "brute", "rerank"] = "exact"
    n_candidates: Counted = 500
    candidate_transform: Any = None
    transformations: Any = None
    class_weight: Any = None
    n_jobs: int | None = None

    @property
    def margin_unit(self) -> str:
        """A margin of one neighbour is "relative", of more a "vote_fraction"."""
        one = getattr(self, "_n_neighbors", self.n_neighbors) == 1
        return "relative" if one else "vote_fraction"

    @property
    def _keeps_distances(self) -> bool:
        """Whether distances between samples do not depend on the others."""
        if self.algorithm == "rerank" or self.transformations is not None:
            return False
        if callable(self.metric):
            return True
        given = "none" if self.tangents is None else self.tangents
        if isinstance(given, str):
            return given == "none"
        learns = getattr(type(given), "fit", None) not in (None, TangentGenerator.fit)
        return self.sides != "auto" and not learns

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
        # Only ratios count, and they may be of any size.
        self._votes = samples.weights / samples.weights.max()
        data = {"X": samples.X, "y": samples.labels, "sample_weight": samples.weights}
        with FitTasks(self, 2, **data) as tasks:
            with tasks.parts("tangents"):
                self._fit_metric(metric, samples)
                samples = self._with_copies(samples)
                self.bundle_ = self._bundle(samples.X, samples.labels)
            self._dtype = numpy_dtype(self.bundle_.points)
            self._metric.warn_of_blanks(self.bundle_)
            with tasks.parts("projections"):
                self._index_at(self.bundle_.points)
        return self

    def _with_copies(self, samples: Samples) -> Samples:
        """Put the copies of samples beside them, class by class."""
        transformations = check_transformations(self.transformations)
        self._origin = None
        if not transformations:
            return samples
        n, times = len(samples), 1 + len(transformations)
        versions = [samples.X, *copies(samples.X, transformations)]
        order = np.argsort(np.tile(samples.codes, times), kind="stable")
        # Of a class those that were given come first.
        origin = np.tile(np.arange(n), times)[order]
        X = xp_of(samples.X).concatenate(versions)[order]
        self._origin, self._given = origin, np.flatnonzero(order < n)
        self._codes, self._votes = self._codes[origin], self._votes[origin]
        self._positions = self._positions[origin]
        return replace(samples.take(origin), X=X)

    def _check_parameters(self) -> TangentMetric:
        check_declared(self)
        if check_transformations(self.transformations) and self.n_neighbors != 1:
            raise ValueError(
                "transformations needs n_neighbors=1, since copies of one sample would "
                f"vote together; got n_neighbors={self.n_neighbors}."
            )
        if not callable(self.weights):
            check_option("weights", self.weights, ("uniform", "distance"))
        named = isinstance(self.metric, str) and self.metric == "tangent"
        if not (named or callable(self.metric)):
            raise ValueError(
                "metric must be 'tangent', Euclidean with tangents='none', "
                f"or a function metric(X, Y) -> (n_x, n_y); got {self.metric!r}."
            )
        # A metric of one's own needs none, and "rerank" may do without.
        tangents = "none" if self.tangents is None else self.tangents
        if not callable(self.metric):
            tangents = self.tangents
        tangents = tangents_meant(tangents, type(self).__name__)
        if check_transform(self.candidate_transform) and self.algorithm != "rerank":
            raise ValueError(
                "candidate_transform needs algorithm='rerank', which has candidates; "
                f"got {self.algorithm!r}."
            )
        return metric_of(tangents, self.sides, self.spring)

    def _fit_metric(self, metric: TangentMetric, samples: Samples) -> None:
        """Fit the metric to samples, and what looks for candidates."""
        own = callable(self.metric)
        metric = metric.fit(samples.X, samples.labels)
        metric = self._keep_metric(metric, samples, is_auto(self.sides) and not own)
        self._index_options = IndexOptions(
            self.algorithm, n_candidates=int(self.n_candidates)
        )
        reranks = self.algorithm == "rerank"
        # What says where to look, where the metric itself belongs to no end.
        self._scout: TangentMetric | None = None
        if self.candidate_transform is None and (own or metric.sides == "midpoint"):
            self._scout = replace(metric, sides="reference") if reranks else None
        self._metric = FunctionMetric(function=self.metric) if own else metric
        self.candidate_transform_ = fit_transform(
            self.candidate_transform, samples.X, samples.labels
        )

    @fit_method
    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Make an index of every partition of a Dask collection, where it is."""
        metric = self._check_parameters()
        if self.transformations is not None:
            raise ValueError(
                "transformations must be None where X is a Dask collection; got "
                f"{self.transformations!r}."
            )
        given = shards.check_shards(self, X, y, sample_weight, stay=True)
        self._n_neighbors = check_neighbors(self.n_neighbors, given.n_rows)
        some = given.subsample()
        few = clone(self).set_params(class_weight=None)
        few.set_params(n_neighbors=min(self._n_neighbors, len(some)))
        with hushed():
            few.fit(some.X, some.labels, some.weights)
        self._of_some = few._calibration
        self.classes_, self._weights = given.classes, self.weights
        data = {"X": some.X, "y": some.labels, "sample_weight": some.weights}
        with FitTasks(self, 1, **data) as tasks, tasks.whole("indices"):
            self._fit_metric(metric, some)
            self._dtype = given.limits.dtype
            # Where every part stands among all samples, class by class and as given.
            earlier = np.cumsum(given.counts, axis=0) - given.counts
            per_class = given.counts.sum(axis=0)
            before = earlier + (np.cumsum(per_class) - per_class)
            own = list(zip(before, earlier.sum(axis=1).tolist(), strict=True))
            light = without_callbacks(self)
            parts = self._parted(given, _model_of, light, given.heaviest, per_part=own)
        self.__dict__.pop("bundle_", None)
        self._n_rows, self._parts = given.n_rows, parts
        return self

    def _question(
        self, name: str, n_neighbors: Any = None, return_distance: bool = True
    ) -> tuple:
        """Ask every part for the nearest of all, or of every class."""
        k = self._n_neighbors if n_neighbors is None else n_neighbors
        k = check_neighbors(k, self._n_rows)
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
        return self._class_distances(X)

    def _merge(self, question: tuple, found: list) -> None:
        if question[0] == "classes":
            self._merged = np.minimum.reduce(found)
            return
        nearest = merged_nearest(found, question[1])
        places = np.arange(nearest.places.size).reshape(nearest.places.shape)
        self._merged = nearest.distances, places
        self._codes, self._votes = nearest.codes.ravel(), nearest.votes.ravel()
        self._positions = nearest.positions.ravel()

    def _bundle(self, X: NDArray, labels: NDArray) -> Bundle:
        metric = self._scout or self._metric
        return metric.bundle(X, labels, n_jobs=self.n_jobs)

    def _remake(self, points: NDArray) -> None:
        self.bundle_ = self._bundle(points, self.classes_[self._codes])

    def _make_index(self, references: Bundle) -> Any:
        given = references, self._codes, len(self.classes_)
        options = self._index_options._replace(
            n_neighbors=self._n_neighbors, n_jobs=self.n_jobs
        )
        candidates: Any = None
        if self.candidate_transform_ is not None:
            if self._is_squared and self._metric.sides != "midpoint":
                refuse_device(TANGENT_CANDIDATES, X=references.points)
            candidates = FeatureCandidates(
                self.candidate_transform_, references.points, options.n_candidates
            )
        elif self._scout is not None:
            look = options._replace(algorithm="brute")
            candidates = index_of(*given, self._scout, look)
        return index_of(*given, self._metric, options._replace(candidates=candidates))

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
            Positions among the training samples of positive weight, as they were given;
            those of copies are the sample's.
        """
        check_is_fitted(self)
        own = X is None
        if own and self._origin is not None:
            raise ValueError(
                "X must be given where transformations are: a training sample is the "
                "nearest of its own copies."
            )
        k = self._n_neighbors if n_neighbors is None else n_neighbors
        k = check_neighbors(k, len(self._codes) - own)
        X = None if own else self._check_predict(X)
        distances, found = self._neighbors(X, k + own)
        if own:
            distances, found = _without_self(distances, found)
            back = np.argsort(self._positions)
            distances, found = distances[back], found[back]
        indices = self._positions[found]
        return (distances, indices) if return_distance else indices

    def _neighbors(self, X: Any, k: int) -> tuple[NDArray, NDArray]:
        """Distances and places, among the ordered samples, of the k nearest."""
        if self._merged is not None:
            return self._merged
        index = self._index_at(self.bundle_.points if X is None else X)
        found = [
            index.query(queries, k, self.n_jobs)
            for _, queries in self._queries(X, index, "neighbours")
        ]
        distances, places = zip(*found, strict=True)
        return np.concatenate(distances), np.concatenate(places)

    def _class_distances(self, X: Any) -> NDArray:
        """(n_samples, n_classes) to the nearest of every class, see `_measure`."""
        if self._merged is not None:
            return self._merged
        index = self._index_at(X)
        found = [
            index.class_distances(queries, self.n_jobs)
            for _, queries in self._queries(X, index, "margins")
        ]
        return np.concatenate(found)

    @property
    def _is_squared(self) -> bool:
        """Whether distances to classes are squared; those of a function are not."""
        return not isinstance(self._metric, FunctionMetric)

    def _check_predict(self, X):
        X = super()._check_predict(X)
        # Frames have the dtype of their points; the finer one serves both ends.
        return in_dtype(X, np.result_type(numpy_dtype(X), self._dtype))

    def _shares(self, X):
        """Share of the votes of every class, and how near it comes, in (0, 1)."""
        distances, places = self._neighbors(X, self._n_neighbors)
        weights = _vote_weights(self._weights, distances)
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
        D = self._class_distances(X)
        if not self._is_squared:
            second = np.partition(D, 1, axis=1)[:, 1:2]
            unit = np.where((second > 0) & np.isfinite(second), second, 1)
            D = (
                np.where(np.isfinite(D), np.minimum(D, 1e100 * unit) / unit, np.inf)
                ** 2
            )
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

        return cached_on(self.bundle_, ("temperature", self._n_neighbors), make)

    def _left_out_costs(self) -> LeftOut:
        """Say what some training samples cost where they are no neighbours."""
        points, n = self.bundle_.points, len(self._codes)
        origin, given = self._origin, np.arange(n)
        if origin is None:
            origin = given
        else:
            given = self._given
        weights = self._votes / self._votes[given].mean()
        asked = Samples(
            points[given], self._codes[given], weights[given], self.classes_,
            np.arange(len(given)),
        )  # fmt: skip
        said = [LeftOut(np.zeros((0, len(self.classes_))), *3 * [np.arange(0)])]
        for places in left_out_folds(asked, np.inf):
            rows, part = given[places], without_callbacks(self)
            # Copies of a sample leave with it.
            keep = np.flatnonzero(~np.isin(origin, origin[rows]))
            part.bundle_, part._codes = self.bundle_[keep], self._codes[keep]
            part._votes = self._votes[keep]
            part._n_neighbors = min(self._n_neighbors, len(keep))
            with observed_by(None):
                costs, answers = part._costs(points[rows])
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
            Softmax over ``temperature_`` of the shares of the votes or, with one
            neighbour, of the relative squared distances. It is found when probabilities
            are first asked for, on up to about 500 training samples that look for their
            neighbours among others.
        """
        return super().predict_proba(X)

    def _distances_to_classes(self, X: Any) -> NDArray:
        """(n_samples, n_classes) distances to the nearest sample of every class."""
        found = self._class_distances(X)
        return np.sqrt(found) if self._is_squared else found

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
        nearest = self._class_distances(X)
        return self._relative(nearest, -best_other(-nearest))

    def _label_margins(self, scores):
        if self._n_neighbors == 1:
            return scores
        # What orders equal votes is no vote.
        return np.clip(label_margins(scores), -1, 1)

    def _margins(self, X, codes):
        if self._n_neighbors > 1:
            return super()._margins(X, codes)
        if self._merged is not None:
            return self._relative(*nearest_two_classes(self._merged, codes))
        index, out = self._index_at(X), np.empty(len(X))
        for rows, queries in self._queries(X, index, "margins"):
            wanted = None if codes is None else codes[rows]
            found = index.two_class_distances(queries, wanted, self.n_jobs)
            out[rows] = self._relative(*found)
        return out

    def _relative(self, d_plus: NDArray, d_minus: NDArray) -> NDArray:
        """Relative margin of the squares; where these would vanish, in other units."""
        if not self._is_squared:
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


def _model_of(
    samples: Samples, light: Any, heaviest: float, before: NDArray, start: int
) -> Any:
    """Return the model of one part: `before` it stand so many, class by class."""
    part, order = without_callbacks(light), np.argsort(samples.codes, kind="stable")
    samples = samples.take(order)
    codes = samples.codes.astype(np.int64)
    ranks = np.arange(len(codes)) - np.searchsorted(codes, codes)
    part._places, part._positions = before[codes] + ranks, start + order
    part._codes, part._votes = codes, samples.weights / heaviest
    part.bundle_ = part._bundle(samples.X, samples.labels)
    part._index_at(part.bundle_.points)
    return part


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
    ones = np.ones_like(distances)
    return np.divide(nearest, distances, out=ones, where=distances > 0)


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
