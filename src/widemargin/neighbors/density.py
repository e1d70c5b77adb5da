r"""Kernel densities in any distance, tangent distances above all.

Every training sample carries a bump, and the class with the most density wins:

    p(c | x) ∝ (sum_{i in c} w_i exp(-gamma d^2(x, x_i)))^(1 / T).

gamma is the sharpness that classifies best where samples are left out, and T, see
`widemargin._core.temperature`, what makes the posteriors of these as likely as can be.
Of a function of one's own, its values stand for d^2.

With transformations, each training sample is accompanied by its transformed copies,
and each sample x by its own, whose densities are summed. All sums are taken in log
space. gamma is chosen by leaving training samples out, one distance matrix for all
candidates; a sample's transformed copies leave with it, and all samples of its group.

Where a distance is slow, only training samples that are near by their features count,
with all their copies. A class that has none among them counts as one bump at the
distance of the farthest: nothing nearer of it was seen.

Reference: D. Keysers, J. Dahmen, T. Theiner, H. Ney, Experiments with an extended
tangent distance, ICPR 2000. Shapes: distances (n_queries, n_references), class
scores (n_queries, n_classes).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import chain
from numbers import Real
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax
from sklearn.base import clone

from widemargin._compute.machine import MOST_DISTANCES, batched_slices
from widemargin._compute.progress import announced
from widemargin._core import shards
from widemargin._core.arrays import in_dtype, numpy_dtype, to_numpy, xp_of
from widemargin._core.callbacks import FitProgress
from widemargin._core.checks import (
    check_option,
    check_random_state,
    check_size,
    is_auto,
)
from widemargin._core.classifier import fit_method
from widemargin._core.decisions import as_labels
from widemargin._core.duplicates import duplicate_groups
from widemargin._core.lazy import without_callbacks
from widemargin._core.params import (
    Counted,
    NotNegative,
    check_declared,
    parameters,
)
from widemargin._core.samples import Samples, check_samples
from widemargin._core.temperature import LeftOut, fit_temperature, softmax_of_costs
from widemargin.metrics import TangentMetric
from widemargin.metrics.tangent import metric_of
from widemargin.neighbors.base import IndexOptions, RemembersSamples, index_of
from widemargin.neighbors.index import (
    LEAST,
    FeatureCandidates,
    FunctionMetric,
    check_transform,
    fit_transform,
)
from widemargin.tangents import Bundle
from widemargin.tangents.generator import tangents_meant
from widemargin.tangents.transform import check_transformations, copies

# Candidates of gamma, in units of one over the median squared nearest distance.
RELATIVE_GAMMAS = np.geomspace(0.5, 256, 19)
# How many more are tried beyond the end that the best is at, and how often.
# The best must become better by this part.
BEYOND, WIDER, CLEARLY = 8, 5, 1e-3
# What classes that are out of the question are behind, in single precision.
FARTHEST = 1e38


@parameters
class KernelDensities(RemembersSamples):
    """Base of the density classifiers: a subclass gives `_given_metric`."""

    margin_unit = "log-odds"
    _distance_kind = "log density"
    # All samples count, unless a subclass lets candidates be chosen.
    n_candidates = cast("int | None", None)
    candidate_transform = cast(Any, None)
    # A metric of its own says itself which end moves.
    sides = cast(Any, None)
    spring = cast(Any, None)

    gamma: float | Sequence[float] | Literal["cv"] = "cv"
    _: KW_ONLY
    transformations: Sequence[Callable] | None = None
    transform_test: bool = False
    max_cv_samples: Counted = 2000
    class_weight: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    @abstractmethod
    def _given_metric(self) -> TangentMetric:
        """Return the distance that was asked for, checked."""

    @fit_method
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None
    ) -> Self:
        """Remember the samples, transform them, and choose gamma.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples. Those of a Dask collection stay where they are.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each bump; samples of weight 0 are left out.
        groups : array-like of shape (n_samples,), default=None
            Samples that resemble each other, such as those of one writer or one day:
            all of a left-out sample's group are left out when `gamma` is chosen. By
            default those that are equal.

        Returns
        -------
        self : DensityClassifier
            The fitted classifier.
        """
        metric = self._given_metric()
        self._check_candidates()
        self._parts = None
        gammas = _check_gammas(self.gamma)
        transformations = check_transformations(self.transformations)
        samples = check_samples(self, X, y, sample_weight, stay=True)
        groups = _check_groups(groups, X, samples)
        self.classes_ = samples.classes
        self._test_transformations = transformations if self.transform_test else ()
        metric = metric.fit(samples.X, samples.labels)
        choose = is_auto(self.sides)
        self._metric = metric = self._keep_metric(metric, samples, choose, groups)
        self._n_candidates = self.n_candidates
        self.candidate_transform_ = fit_transform(
            self.candidate_transform, samples.X, samples.labels
        )
        weights = self._remember(samples, transformations, samples.weights.max())
        metric.warn_of_blanks(self.bundle_)
        self._dtype = numpy_dtype(self.bundle_.points)
        self.gammas_ = self.cv_errors_ = self.cv_scores_ = np.empty(0)
        if gammas is not None and len(gammas) == 1:
            self.gamma_ = float(gammas[0])
            self.temperature_, self._lead = 1.0, 0.0
            # Nothing to choose, and yet a fit that began and ended.
            list(FitProgress(self, 0, X=samples.X, y=samples.labels))
        else:
            self._choose_gamma(samples, weights, gammas, groups)
        return self

    def _remember(
        self, samples: Samples, transformations: Sequence[Callable], heaviest: float
    ) -> NDArray:
        """Bundle samples and copies, class by class; return weights of at most 1."""
        times = 1 + len(transformations)
        # Classes side by side, so that a class is a slice of every row of distances.
        order = np.argsort(np.tile(samples.codes, times), kind="stable")
        versions = [samples.X, *copies(samples.X, transformations)]
        origin = np.tile(np.arange(len(samples)), times)[order]
        self._origin = origin
        # Where the versions of every sample are, that as it was given first.
        self._versions = np.argsort(order).reshape(times, len(samples)).T
        self.bundle_ = self._metric.bundle(
            xp_of(samples.X).concatenate(versions)[order],
            samples.labels[origin],
            n_jobs=self.n_jobs,
        )
        self._codes = samples.codes[origin]
        # Only ratios count. Logarithms, as these may be of any size.
        self._log_weights = (np.log(samples.weights) - np.log(heaviest))[origin]
        return samples.weights / heaviest

    @fit_method
    def _fit_blocks(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None
    ) -> Self:
        """Remember the samples of a Dask collection where they are.

        The metric, and gamma where it is not given, are fitted to some of them.
        """
        self._given_metric()
        self._check_candidates()
        for name, value in (("groups", groups), ("n_candidates", self.n_candidates)):
            if value is not None:
                raise ValueError(
                    f"{name} must be None where X is a Dask collection; got {value!r}."
                )
        given = shards.check_shards(self, X, y, sample_weight, stay=True)
        some = given.subsample()
        few = clone(self).set_params(class_weight=None)
        few.fit(some.X, some.labels, some.weights)
        if hasattr(self, "feature_names_in_"):
            few.feature_names_in_ = self.feature_names_in_
        names = self._get_param_names()
        kept = {k: v for k, v in vars(without_callbacks(few)).items() if k not in names}
        parts = self._parted(
            given, _densities_of_part, without_callbacks(few), given.heaviest
        )
        self.__dict__.update(kept)
        self.__dict__.pop("bundle_", None)
        self._dtype, self._parts = numpy_dtype(few.bundle_.points), parts
        return self

    def _question(self, name: str) -> tuple:
        return ("densities",)

    def _example(self, question: tuple) -> NDArray:
        return np.zeros((1, len(self.classes_)))

    def _found(self, X: Any, question: tuple) -> NDArray:
        """Log densities of the classes by one part."""
        return self._log_densities(self._check_predict(X))

    def _merge(self, question: tuple, found: list) -> None:
        self._merged = np.maximum(np.logaddexp.reduce(found), LEAST)

    def _check_candidates(self) -> None:
        check_declared(self)
        check_transform(self.candidate_transform)
        if self.n_candidates is None and self.candidate_transform is not None:
            raise ValueError(
                "candidate_transform needs n_candidates, the number of candidates to "
                "look for by it, such as 200; got None."
            )

    def _remake(self, points: NDArray) -> None:
        labels = self.classes_[self._codes]
        self.bundle_ = self._metric.bundle(points, labels, n_jobs=self.n_jobs)

    def _make_index(self, references: Bundle) -> Any:
        options = IndexOptions(n_jobs=self.n_jobs)
        if self._n_candidates is not None:
            candidates = FeatureCandidates(
                self.candidate_transform_, references.points, self._n_candidates,
                self._versions,
            )  # fmt: skip
            options = options._replace(candidates=candidates)
        n_classes = len(self.classes_)
        return index_of(references, self._codes, n_classes, self._metric, options)

    def _choose_gamma(self, samples, weights, gammas, groups):
        """Leave groups out, copies and all, and score every gamma on one pass."""
        # In an order that depends on the values alone.
        equal = duplicate_groups(samples.X, samples.codes)
        # A sample that is there twice is not left out by half.
        groups = equal if groups is None else groups
        if len(np.unique(groups)) == 1:
            raise ValueError(
                "gamma='cv' leaves samples out, which one group of samples does not "
                "allow; give gamma a number."
            )
        left_out = np.argsort(equal, kind="stable")
        if len(samples) > self.max_cv_samples:
            random = check_random_state(self.random_state)
            some = random.choice(len(samples), int(self.max_cv_samples), replace=False)
            left_out = left_out[np.sort(some)]

        index, known = self._index_at(samples.X), groups[self._origin]
        # All distances of a chunk are held, whatever the index spares of answers.
        at_once = max(1, min(index.max_queries(), MOST_DISTANCES // len(known)))
        chunks = [left_out[s] for s in batched_slices(len(left_out), at_once)]

        def measured(asked):
            """Yield what the index measures for every version of some samples."""
            apart = groups[asked], known
            for queries in self._versions_of(samples.X[asked]):
                yield index.measured(queries, 1, self.n_jobs, apart)

        begun, is_free = None, gammas is None
        if is_free:
            # Some of all say how far the nearest is.
            n_left = len(left_out)
            spread = np.linspace(0, n_left - 1, min(200, n_left)).astype(int)
            if len(chunks) == 1:
                # They are not measured twice.
                begun = measured(left_out)
                first = next(begun)
                near, begun = first[0][spread], chain([first], begun)
            else:
                near, _ = next(measured(left_out[spread]))
            gammas = RELATIVE_GAMMAS / _typical(to_numpy(near))
        n_left_out, n_others = len(np.unique(equal[left_out])), len(self.classes_) - 1

        def judged(gammas, steps, begun=None):
            """Mistakes and Brier scores of every gamma, over the samples left out.

            And by how much the log density of a class is less than that of the answer.
            """
            errors, brier, other = np.zeros((3, len(gammas)))
            inner = np.minimum(gammas, SHARPEST)
            costs = []
            for step in steps:
                asked = chunks[step]
                truth, weight = samples.codes[asked], weights[asked]
                versions = measured(asked) if begun is None else begun
                every = _summed(
                    index.sums(*values, self._log_weights, inner) for values in versions
                )
                behind = every.max(axis=2, keepdims=True) - every
                costs.append(np.minimum(behind, FARTHEST).astype(np.float32))
                for g, scores in enumerate(every):
                    wrong = scores.argmax(axis=1) != truth
                    posterior = np.exp(log_softmax(scores, axis=1))
                    own = posterior[np.arange(len(truth)), truth]
                    squares = (posterior**2).sum(axis=1) + 1
                    errors[g] += weight @ wrong
                    brier[g] += weight @ (squares - 2 * own)
                    other[g] += weight @ (squares - 2 * (1 - own) / n_others)
            # And one more of another class: else, without a mistake, the sharpest is
            # the best.
            brier = (n_left_out * brier + other) / (n_left_out + 1)
            scores = np.stack([errors, brier]) / weights[left_out].sum()
            return scores, np.concatenate(costs, axis=1)

        progress = FitProgress(self, len(chunks), X=samples.X, y=samples.labels)
        scores, costs = judged(gammas, progress, begun)
        for _ in range(WIDER if is_free else 0):
            # In few dimensions the nearest is nearer by far than a bump is wide.
            best, ratio = int(scores[1].argmin()), gammas[1] / gammas[0]
            if 0 < best < len(gammas) - 1:
                break
            more = gammas[best] * ratio ** np.arange(1.0, BEYOND + 1)
            if best == 0:
                more = gammas[0] / ratio ** np.arange(BEYOND, 0.0, -1)
            (found, others), least = judged(more, range(len(chunks))), scores[1].min()
            at = 0 if best == 0 else len(gammas)
            gammas = np.insert(gammas, at, more)
            scores = np.insert(scores, [at], found, axis=1)
            costs = np.insert(costs, [at], others, axis=0)
            if not found[1].min() < (1 - CLEARLY) * least:
                break
        self.gammas_, (self.cv_errors_, self.cv_scores_) = gammas, scores
        # Proper, smooth in gamma as counts of errors are not, and bounded as the log
        # loss is not, which a few outliers would decide.
        best = int(scores[1].argmin())
        self.gamma_ = float(gammas[best])
        # Bumps as wide as classify best need not say how surely.
        of_samples = weights[left_out] / weights[left_out].mean()
        seen = costs[best], costs[best].argmin(axis=1), samples.codes[left_out]
        self.temperature_, self._lead = fit_temperature(LeftOut(*seen, of_samples))

    def _versions_of(self, X: Any) -> Iterator[Bundle]:
        """Yield samples and their copies, with the frames that the metric looks at."""
        for version in chain([X], copies(X, self._test_transformations)):
            yield self._metric.bundle(version, end="query", n_jobs=self.n_jobs)

    def _check_predict(self, X):
        X = super()._check_predict(X)
        check_size(X, dtype=self._dtype)
        return in_dtype(X, self._dtype)

    def _distances_to_classes(self, X) -> NDArray:
        """Minus the log densities of the classes, which no temperature changes."""
        return -self._log_densities(X)

    def _class_scores(self, X) -> NDArray:
        return log_softmax(self._log_densities(X) / self.temperature_, axis=1)

    def _log_densities(self, X: Any) -> NDArray:
        """(n_samples, n_classes); of close calls those in float64."""
        if self._merged is not None:
            return self._merged
        index, gamma = self._index_at(X), min(self.gamma_, SHARPEST)
        out = np.empty((len(X), len(self.classes_)))
        for rows in announced(
            list(batched_slices(len(X), index.max_queries())), "densities"
        ):
            out[rows] = _summed(
                index.sum_exp(version, self._log_weights, gamma, self.n_jobs)
                for version in self._versions_of(X[rows])
            )
        if out.shape[1] < 2 or not index.rounding:
            return out
        second, first = np.partition(out, -2, axis=1)[:, -2:].T
        close = first - second <= index.rounding * np.abs(first)
        for i in np.flatnonzero(close):
            out[i] = _summed(
                index.fine_sum_exp(version, self._log_weights, gamma)
                for version in self._versions_of(in_dtype(X[i : i + 1], float))
            )
        return out

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Posterior of each class.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
        """
        scores = self._class_scores(self._check_predict(X))
        return softmax_of_costs(-scores, 1.0, scores.argmax(axis=1), self._lead)


def _summed(versions: Iterable[NDArray]) -> NDArray:
    """Log densities of samples from those of their versions; none is below LEAST."""
    total: Any = -np.inf
    for sums in versions:
        total = np.logaddexp(total, np.maximum(sums, LEAST))
    return total


def _densities_of_part(samples: Samples, model: Any, heaviest: float) -> Any:
    """Return the model of one part."""
    part = without_callbacks(model)
    transformations = check_transformations(model.transformations)
    part._remember(samples, transformations, heaviest)
    return part


@parameters
class DensityClassifier(KernelDensities):
    """Bayes classifier with a kernel density in any distance for every class.

    Parameters
    ----------
    gamma : float, array-like of floats or "cv", default="cv"
        Sharpness of the bumps exp(-gamma d²). Of several values, the one with the least
        Brier score on left-out training samples is taken. "cv" tries 19 around one over
        the median squared distance to the nearest neighbour, and more if the best is at
        an end.
    metric : "euclidean", TangentMetric or callable, default="euclidean"
        The distance. A function ``metric(X, Y) -> (n_x, n_y)`` gives what stands for
        d², such as a ``functools.partial`` of
        :func:`~widemargin.metrics.pseudo_2d_distortion_distances`: sums of squares, not
        their roots. X are samples asked about, Y references.
    transformations : sequence of callables or None, default=None
        Functions ``X -> X`` that make a copy of every training sample, for instance
        :func:`~widemargin.tangents.image_affines`.
    transform_test : bool, default=False
        Transform the samples to predict too, and sum their densities.
    n_candidates : int or None, default=None
        Count only so many training samples, with all their copies: the nearest in plain
        distance of `candidate_transform`. None counts all. A class without a candidate
        counts as one bump at the distance of the farthest.
    candidate_transform : transformer or None, default=None
        Features in which candidates are searched, for instance
        :class:`~widemargin.tangents.DirectionFeatures`. It is fitted to the training
        samples. None takes the samples themselves. What to expect of either is said at
        :class:`~widemargin.TangentKNeighborsClassifier`.
    max_cv_samples : int, default=2000
        How many training samples, drawn at random, are left out to choose `gamma`. They
        are predicted as new samples are, with copies if `transform_test`.
    class_weight : dict, "balanced" or None, default=None
        Factor on the bumps of each class.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples that choose `gamma`.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Attributes
    ----------
    gamma_ : float
        The sharpness used.
    temperature_ : float
        What log densities are divided by, fitted by maximum likelihood to the samples
        left out to choose gamma; 1 if gamma was given.
    cv_scores_, cv_errors_ : ndarray of shape (n_gammas,)
        Mean Brier score, with one pseudo-error more, and error rate on the left-out
        samples, for each of `gammas_`. Empty if gamma was given.
    gammas_ : ndarray of shape (n_gammas,)
        The candidates.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bundle_ : Bundle
        Training samples and their copies, ordered by class; with frames where the
        metric has tangents.
    input_tangents_ : generator, ndarray or None
        The fitted tangent generator of the metric.
    candidate_transform_ : transformer or None
        What makes the features of candidates, fitted.

    See Also
    --------
    widemargin.TangentDensityClassifier : The same in tangent distance.
    widemargin.TangentKNeighborsClassifier : Counts the nearest instead of all.
    widemargin.metrics.image_distortion_distances : A slow distance of images.

    Notes
    -----
    Margins are "log-odds": the logarithm of how many times likelier the label is than
    the likeliest other one. Its scores are sums over all samples that it remembers:
    it cannot be exported.

    References
    ----------
    D. Keysers, T. Deselaers, C. Gollan, H. Ney, Deformation models for image
    recognition, IEEE PAMI 29 (2007).

    Examples
    --------
    >>> from functools import partial
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.metrics import image_distortion_distances
    >>> from widemargin.neighbors import DensityClassifier
    >>> from widemargin.tangents import DirectionFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> density = DensityClassifier(
    ...     gamma=4.0,
    ...     metric=partial(image_distortion_distances, shape=(8, 8), window=1),
    ...     n_candidates=20,
    ...     candidate_transform=DirectionFeatures((8, 8)),
    ... )
    >>> density.fit(X[:1500] / 16, y[:1500]).predict(X[1500:1505] / 16)
    array([1, 7, 4, 6, 3])
    """

    _: KW_ONLY
    metric: Literal["euclidean"] | TangentMetric | Callable = "euclidean"
    n_candidates: Counted | None = None
    candidate_transform: Any = None

    def _given_metric(self) -> TangentMetric:
        if isinstance(self.metric, TangentMetric):
            return self.metric
        if callable(self.metric):
            return FunctionMetric(function=self.metric)
        check_option("metric", self.metric, ("euclidean",))
        return TangentMetric()


@parameters
class TangentDensityClassifier(KernelDensities):
    """Bayes classifier with a kernel density in tangent distance for every class.

    Without `tangents` the distance is Euclidean.

    Parameters
    ----------
    gamma : float, array-like of floats or "cv", default="cv"
        Sharpness of the bumps exp(-gamma d²). Of several values, the one with the least
        Brier score on left-out training samples is taken. "cv" tries 19 around one over
        the median squared distance to the nearest neighbour, and more if the best is at
        an end.
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
    transformations : sequence of callables or None, default=None
        Functions ``X -> X`` that make a copy of every training sample, for instance
        :func:`~widemargin.tangents.image_shifts`.
    transform_test : bool, default=True
        Transform the samples to predict too, and sum their densities.
    max_cv_samples : int, default=2000
        How many training samples, drawn at random, are left out to choose `gamma`. They
        are predicted as new samples are, with copies if `transform_test`.
    class_weight : dict, "balanced" or None, default=None
        Factor on the bumps of each class.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples that choose `gamma`.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Attributes
    ----------
    gamma_ : float
        The sharpness used.
    temperature_ : float
        What log densities are divided by, fitted by maximum likelihood to the samples
        left out to choose gamma; 1 if gamma was given.
    cv_scores_, cv_errors_ : ndarray of shape (n_gammas,)
        Mean Brier score, with one pseudo-error more, and error rate on the left-out
        samples, for each of `gammas_`. Empty if gamma was given.
    gammas_ : ndarray of shape (n_gammas,)
        The candidates.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bundle_ : Bundle
        Training samples and their copies, with frames, ordered by class.
    input_tangents_ : generator, ndarray or None
        The fitted tangent generator.
    sides_ : {"both", "query", "reference", "mean", "midpoint", "none"}
        Which end moves; "none" where "auto" found that tangents only harm.
    spring_ : float
        Price of moving.

    See Also
    --------
    widemargin.DensityClassifier : The same in any distance, or among candidates.
    widemargin.TangentKNeighborsClassifier : Counts the nearest instead of all.
    widemargin.metrics.tangent_distances : The distances.

    Notes
    -----
    Margins are "log-odds": the logarithm of how many times likelier the label is than
    the likeliest other one. Choosing gamma takes most of the time of `fit`; on
    scikit-learn 1.9 and later, ``set_callbacks(sklearn.callback.ProgressBar())`` shows
    how far it is. Its scores are sums over all samples that it remembers: it cannot be
    exported.

    References
    ----------
    D. Keysers, J. Dahmen, T. Theiner, H. Ney, Experiments with an extended tangent
    distance, ICPR 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.neighbors import TangentDensityClassifier
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0]])
    >>> along_first_axis = np.array([[1.0, 0.0]])
    >>> density = TangentDensityClassifier(1.0, tangents=along_first_axis)
    >>> density.fit(X, [0, 1]).predict_proba([[50.0, 0.5]])
    array([[0.5, 0.5]])
    """

    _: KW_ONLY
    tangents: Any = None
    sides: Literal["auto", "both", "query", "reference", "mean", "midpoint"] = "auto"
    spring: NotNegative | Literal["auto"] = "auto"
    transform_test: bool = True

    def _given_metric(self) -> TangentMetric:
        tangents = tangents_meant(self.tangents, type(self).__name__)
        return metric_of(tangents, self.sides, self.spring)


# With a larger gamma, too, all but the nearest are worth nothing.
SHARPEST = 1e150
# Squares below are rounding, and their inverse is too large to multiply by.
TINY = 1e-140


def _typical(d2: NDArray) -> float:
    """Median squared distance to the nearest; where that is a copy, to the next.

    1 where all are copies of each other: then any gamma will do.
    """
    nearest = d2.min(axis=1)
    typical = float(np.median(nearest[np.isfinite(nearest)]))
    if typical > TINY:
        return typical
    nearest = np.where(d2 > TINY, d2, np.inf).min(axis=1)
    nearest = nearest[np.isfinite(nearest)]
    return float(np.median(nearest)) if len(nearest) else 1.0


def _check_groups(groups: Any, X: Any, samples: Samples) -> NDArray | None:
    """Return the group of every sample that has weight, numbered; None if not given."""
    if groups is None:
        return None
    given = as_labels("groups", groups, X.shape[0] if hasattr(X, "shape") else len(X))
    return np.unique(given, return_inverse=True)[1][samples.rows]


def _check_gammas(gamma: Any) -> NDArray | None:
    if isinstance(gamma, str) and gamma == "cv":
        return None
    values = np.array([np.nan])
    if isinstance(gamma, Real) and not isinstance(gamma, bool):
        values = np.array([float(gamma)])
    elif not isinstance(gamma, str) and np.ndim(gamma) == 1 and len(gamma) > 0:
        given = np.asarray(gamma)
        values = given.astype(float) if given.dtype.kind in "iuf" else values
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(
            f"gamma must be a number above 0, several of them, or 'cv'; got {gamma!r}."
        )
    return values
