"""HSS: every class described by its mean and its principal variations.

The models of a class minimise the weighted sum of squared distances

    E = sum_i w_i min_q min_{p, a} |x_i + U_i^T p - C_q - T_q^T a|^2 + k (|p|^2 + |a|^2)

over the models (C_q, T_q). One-sided there is no U and k = 0. A round (1) fits every
model to the samples it owns, moved along their own tangents to where they met it,
(2) gives every sample to the model nearest to it now and moves it again. Neither half
can raise E. Nothing is learned from the other classes: HSS is where discriminant models
start.

Reference: T. Hastie, P. Simard, E. Säckinger, Learning prototype models for tangent
distance, NIPS 1994. Shapes: points (n, d), frames (n, l, d).
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.nearest import squared_distances, squared_norms
from widemargin._core.arrays import beside, numpy_dtype, to_numpy, xp_of
from widemargin._core.checks import is_auto
from widemargin._core.lazy import without_callbacks
from widemargin._core.params import Counted, NotNegative, parameters
from widemargin._core.samples import Samples
from widemargin._core.select import select
from widemargin.margins import relative_margin
from widemargin.metrics import TangentMetric, stiffness
from widemargin.prototypes.initialization import k_means
from widemargin.prototypes.optimizer import State
from widemargin.prototypes.tangent_models import (
    ONE_SIDED,
    TRIED_ON,
    TangentModels,
    Trials,
    check_metric,
    model_counts,
    model_distances,
    principal_model,
    principal_of_moments,
    slide,
    tried_rows,
    tried_tangents,
    weighted_moments,
)
from widemargin.prototypes.training import (
    DEVICE_METHODS,
    Outcome,
    Run,
    Step,
    TrainedPrototypes,
)
from widemargin.tangents import Bundle

INITS = ("kmeans", "weights")
# Rounds of the alternation that numbers of models and tangents are tried with, and
# models without some of the samples.
TRIAL_ROUNDS = 3
# How many samples per class they are tried on, TRIED_ON in all at least. On 60 of each
# pendigits got one model per class, which errs twice as often as the ten of 200.
PER_CLASS = 200
# By how many deviations models of the kind that is fitted must be better where inputs
# bend. Of 0 to 2 that errs least on parts of training sets (tangents_hurt.md).
KEPT = 2.0
# What a fit leaves of the moments of its models.
LEADING = ("mass", "along", "across")


class Models(NamedTuple):
    """The models of one class, whose samples they own, and where these have moved."""

    C: NDArray
    T: NDArray
    owner: Any
    moved: Any


@dataclass(frozen=True)
class ClassSamples:
    """The samples of one class, which its models describe better round by round."""

    bundle: Bundle
    weights: NDArray
    metric: TangentMetric
    n_tangents: int
    n_jobs: int | None = None
    # How many models it starts with.
    count: int = 1

    def start(self, count: int, init: str, rng: np.random.RandomState) -> Models:
        """First models, no more than samples; their rounds begin with a fit."""
        X, d = self.bundle.points, self.bundle.n_features
        count = min(count, len(X))
        host = to_numpy(X) if count > 1 or init == "weights" else X
        C, T = np.zeros((count, d)), np.zeros((count, self.n_tangents, d))
        if init == "weights":
            C, T = random_models(host, self.weights, count, self.n_tangents, rng)
            owner, _ = self._hand_out(C, T)
            return self._moved(C, T, owner)
        owner = np.zeros(len(X), np.intp)
        if count > 1:
            w = (self.weights / self.weights.max()).astype(host.dtype)
            centres = k_means(host, w, count, rng, max_iter=20)
            owner = squared_distances(host, centres).argmin(axis=1)
            owner = np.unique(owner, return_inverse=True)[1]
        count = int(owner.max()) + 1
        return Models(C[:count], T[:count], owner, X)

    def is_exact(self, models: Models) -> bool:
        """Whether one round is all: there is nothing to alternate with."""
        return len(models.C) == 1 and self.bundle.n_tangents == 0

    def alternate(self, models: Models, max_iter: int) -> Models:
        """Models after `max_iter` rounds, or fewer where these change nothing."""
        if self.is_exact(models):
            return self._fitted(models)
        for _ in range(max_iter):
            before = models.owner
            models, _ = self.round(models)
            if self.bundle.n_tangents == 0 and np.array_equal(models.owner, before):
                break
        return models

    def owned(self, C: NDArray, T: NDArray) -> tuple[Models, float]:
        """Give every sample to the nearest of models that stay as they are."""
        D = model_distances(self.metric, self.bundle, C, T, self.n_jobs)
        value = float(self.weights @ D.min(axis=1))
        return self._moved(C, T, D.argmin(axis=1)), value

    def round(self, models: Models) -> tuple[Models, float]:
        """Refit, hand out, move; return the models and the objective E."""
        C, T, _, _ = self._fitted(models)
        owner, nearest = self._hand_out(C, T)
        return self._moved(C, T, owner), float(self.weights @ nearest)

    def _fitted(self, models: Models) -> Models:
        """Fit every model to what it owns."""
        C, T = models.C.copy(), models.T.copy()
        for q in range(len(C)):
            own = np.flatnonzero(models.owner == q)
            if len(own):
                C[q], T[q] = principal_model(
                    models.moved[own], self.weights[own], self.n_tangents
                )
        return models._replace(C=C, T=T)

    def _distances(self, C: NDArray, T: NDArray) -> NDArray:
        """(n, Q) squared distances to the models."""
        X = self.bundle.points
        if self.bundle.n_tangents:
            return model_distances(self.metric, self.bundle, C, T, self.n_jobs)
        D = np.empty((len(X), len(C)))
        for q in range(len(C)):
            # From differences: few models need no search, and lose no digits.
            centre, frame = beside(X, C[q]), beside(X, T[q])
            delta = X - centre
            delta -= (delta @ frame.T) @ frame
            D[:, q] = to_numpy(xp_of(X).einsum("ij,ij->i", delta, delta))
        return D

    def _hand_out(self, C: NDArray, T: NDArray) -> tuple[NDArray, NDArray]:
        """Owner of every sample, and its distance; none is left without a sample."""
        D = self._distances(C, T)
        owner, nearest = D.argmin(axis=1), D.min(axis=1).astype(float)
        worst_first = iter(np.argsort(-self.weights * nearest, kind="stable"))
        for q in range(len(C)):
            if not np.any(owner == q):
                owner[next(worst_first)] = q
        return owner, nearest

    def _moved(self, C: NDArray, T: NDArray, owner: NDArray) -> Models:
        X, spring = self.bundle.points, self.metric.spring
        if self.bundle.n_tangents == 0:
            return Models(C, T, owner, X)
        moved, dtype = xp_of(X).empty_like(X), numpy_dtype(X)
        for q in range(len(C)):
            own = np.flatnonzero(owner == q)
            some = self.bundle[own]
            c, t = C[q].astype(dtype), T[q].astype(dtype)
            moved[own], _ = slide(some.points, some.frames, c, t, spring)
        return Models(C, T, owner, moved)


def random_models(
    X: NDArray,
    weights: NDArray,
    count: int,
    n_tangents: int,
    rng: np.random.RandomState,
) -> tuple[NDArray, NDArray]:
    """Models of one class under `count` random distributions over its samples.

    Each weighs every sample by a number of its own, drawn from the exponential
    distribution: uniform over all distributions there are. Section 5.1 of Aiolli and
    Sperduti, with the weighted moments of equation 4.
    """
    draws = rng.exponential(size=(count, len(X)))
    parts = [principal_model(X, weights * draw, n_tangents) for draw in draws]
    C, T = zip(*parts, strict=True)
    return np.stack(C), np.stack(T)


def by_class(
    bundle: Bundle,
    samples: Samples,
    metric: TangentMetric,
    n_tangents: int,
    n_jobs: int | None,
) -> dict[int, ClassSamples]:
    """Part the samples by class."""
    out = {}
    for c in np.unique(samples.codes):
        rows = np.flatnonzero(samples.codes == c)
        out[int(c)] = ClassSamples(
            bundle[rows], samples.weights[rows], metric, n_tangents, n_jobs
        )
    return out


def model_moments(own: ClassSamples, models: Models) -> dict[str, NDArray]:
    """Weight (Q,), mean (Q, d) and covariance (Q, d, d) of what each model owns."""
    parts = []
    for q in range(len(models.C)):
        rows = np.flatnonzero(models.owner == q)
        w, moved = own.weights[rows], to_numpy(models.moved[rows]).astype(float)
        mean, covariance = np.zeros(moved.shape[1]), np.zeros((moved.shape[1],) * 2)
        if len(rows):
            mean, covariance = weighted_moments(moved, w)
        parts.append((w.sum(), mean, covariance))
    mass, mean, covariance = (np.stack(part) for part in zip(*parts, strict=True))
    return {"mass": mass, "mean": mean, "covariance": covariance}


def leading_moments(own: ClassSamples, models: Models) -> State:
    """Moments of what each model owns in the directions of its frame.

    Weight (Q,), variances along the frame (Q, m), and the mean one across it (Q,).
    """
    parts = []
    for q, (C, T) in enumerate(zip(models.C, models.T, strict=True)):
        rows = np.flatnonzero(models.owner == q)
        w, delta = own.weights[rows], to_numpy(models.moved[rows]) - C
        share = w / (w.sum() or 1.0)
        parts.append(
            (w.sum(), share @ (delta @ T.T) ** 2, share @ squared_norms(delta))
        )
    mass, along, total = (np.array(part) for part in zip(*parts, strict=True))
    return _leading(mass, along, total, models.C.shape[1])


def leading_of(moments: State, T: NDArray) -> State:
    """Return the same where all moments are known."""
    S = moments["covariance"]
    along = np.einsum("kmi,kij,kmj->km", T, S, T, optimize=True)
    return _leading(moments["mass"], along, np.einsum("kii->k", S), S.shape[1])


def _leading(mass: NDArray, along: NDArray, total: NDArray, d: int) -> State:
    across = np.maximum(total - along.sum(axis=1), 0) / (d - along.shape[1])
    return {"mass": mass, "along": along, "across": across}


def whole_moments(C: NDArray, T: NDArray, state: State) -> State:
    """Moments of models (C, T) from the leading ones, alike in all other directions."""
    along, across = state["along"], state["across"]
    beyond = along - across[:, None]
    covariance = np.einsum("kmi,km,kmj->kij", T, beyond, T, optimize=True)
    covariance += across[:, None, None] * np.eye(C.shape[1])
    return {"mass": state["mass"], "mean": C, "covariance": covariance}


def add_moments(one: State, other: State) -> State:
    """Moments of two sets of samples together, model by model."""
    mass = one["mass"] + other["mass"]
    share = other["mass"] / np.where(mass > 0, mass, 1)
    delta = other["mean"] - one["mean"]
    mean = one["mean"] + share[:, None] * delta
    between = (share * (1 - share))[:, None, None] * delta[:, :, None] * delta[:, None]
    t = share[:, None, None]
    covariance = (1 - t) * one["covariance"] + t * other["covariance"] + between
    return {"mass": mass, "mean": mean, "covariance": covariance}


def at_moments(moments: State, C: NDArray, T: NDArray) -> tuple[NDArray, NDArray]:
    """Models at these moments; one that owns nothing stays where it is."""
    C, T = C.copy(), T.copy()
    for q in np.flatnonzero(moments["mass"] > 0):
        C[q] = moments["mean"][q]
        T[q] = principal_of_moments(moments["covariance"][q], T.shape[1])
    return C, T


@dataclass(frozen=True)
class Moments:
    """Moments of what the models of every class own, and the objective: they add up."""

    by_class: dict[int, State]
    objective: float

    def __add__(self, other: "Moments") -> "Moments":
        """Moments of both sets of samples together."""
        both = {**other.by_class, **self.by_class}
        for c in self.by_class.keys() & other.by_class.keys():
            both[c] = add_moments(self.by_class[c], other.by_class[c])
        return Moments(both, self.objective + other.objective)


def classes_of_part(
    samples: Samples, model: Any, n_tangents: int
) -> dict[int, ClassSamples]:
    """Part the samples of a shard by class."""
    bundle = model._bundle_references(samples)
    return by_class(bundle, samples, model.metric_, n_tangents, model.n_jobs)


def owned_moments(
    classes: dict[int, ClassSamples], models: dict[int, tuple[NDArray, NDArray]]
) -> Moments:
    """Give the samples of a part to the nearest model of their class: its moments."""
    moments, objective = {}, 0.0
    for c, own in classes.items():
        handed, value = own.owned(*models[c])
        moments[c] = model_moments(own, handed)
        objective += value
    return Moments(moments, objective)


class ByClass(NamedTuple):
    """Samples by class, and the parts of all samples, each by class."""

    classes: dict[int, ClassSamples]
    parts: Any


def _left_out_distances(
    classes: dict[int, ClassSamples],
    metric: TangentMetric,
    asked: Bundle,
    init: str = "kmeans",
    rounds: int = TRIAL_ROUNDS,
) -> NDArray:
    """(n, n_classes) distances to models of `classes` that are fitted in few rounds."""
    random, D = np.random.RandomState(0), []
    for own in classes.values():
        start = own.start(own.count, init, random)
        C, T, _, _ = own.alternate(start, rounds)
        D.append(model_distances(metric, asked, C, T).min(axis=1))
    return np.stack(D, axis=1)


def suited_metric(
    model: Any, samples: Samples, bent: Bundle
) -> tuple[TangentMetric, Bundle]:
    """Let inputs bend as left-out samples ask for: freely, stiffly or not at all.

    `bent` are the samples with their frames; what is returned are the metric, and the
    samples with those that it looks at. Left-out samples are answered by one model per
    class of the others, for TVQ as well. Inputs then keep still unless models of the
    kind that is fitted are clearly better, too. Where too few are there to leave some
    out, inputs bend freely.
    """
    usual = model.metric_
    if not usual.has_tangents or not is_auto(model.spring):
        return usual, bent
    random = np.random.RandomState(0)
    trials = tried_rows(samples.codes, random, stiffness.TRIED_ON)
    if not trials:
        return usual, bent
    n_tangents = tried_tangents(model.n_tangents, samples.X.shape[1])[0]

    def seen_by(metric: TangentMetric) -> Bundle:
        if not metric.has_tangents:
            return Bundle.bare(bent.points)
        if metric.tangents is usual.tangents:
            return bent
        return model._bundle_references(samples, metric)

    def margins(metric: TangentMetric) -> NDArray:
        bundle, found = seen_by(metric), []
        for fit, asked in trials:
            few = samples.take(fit)
            parts = by_class(bundle[fit], few, metric, n_tangents, model.n_jobs)
            D = _left_out_distances(parts, metric, bundle[asked], rounds=1)
            found.append(_margins(D, samples.codes[asked], parts))
        return np.concatenate(found)

    def own_losses(metric: TangentMetric) -> NDArray:
        trial = copy(model)
        trial.metric_ = metric
        own = trial._left_out_margins(samples, seen_by(metric), trials)
        return stiffness.logistic_losses(own, weights / weights.mean())

    candidates = [ONE_SIDED, *stiffness.ladder(usual)[1:]]
    weights = np.concatenate([samples.weights[asked] for _, asked in trials])
    metric = stiffness.as_stiff_as_asked(candidates, margins, weights)
    if metric.has_tangents:
        metric = select(
            [ONE_SIDED, metric], own_losses, weights,
            deviations=KEPT, share=stiffness.SHARE,
        )  # fmt: skip
    return metric, seen_by(metric)


def _margins(D: NDArray, codes: NDArray, classes: Iterable[int]) -> NDArray:
    """Margins (n,) of samples by their distances (n, n_classes) to `classes`."""
    own = codes[:, None] == list(classes)
    return relative_margin(
        np.where(own, D, np.inf).min(axis=1), np.where(own, np.inf, D).min(axis=1)
    )


@parameters
class HSSClassifier(TangentModels, TrainedPrototypes):
    r"""Nearest class model: a mean with its principal directions of variation.

    Each class gets `prototypes_per_class` affine spaces that minimise the weighted sum
    of squared tangent distances to its samples. With ``sides="reference"`` and one
    model per class this is the class mean with the leading eigenvectors of the class
    covariance, in closed form. Otherwise it is an alternation whose objective never
    rises.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Models per class; a class with fewer samples gets one per sample. "auto" is one.
        If that is clearly worse on held-out samples, it is one for every ``10 * min(1 +
        n_tangents, 30)`` samples.
    n_tangents : int or "auto", default="auto"
        Dimensions of each model, at least 0 and below the number of features. Where a
        class varies in fewer directions (it has few samples, or constant features) the
        rest are rows of zeros. "auto" is 20 from 160 features on. With fewer it tries
        an eighth of the features, 0, a quarter and three eighths (20 at most). Together
        with the number of models it takes the smallest that is not clearly worse on
        held-out samples. The trials train on 400 samples at most. The papers have one
        model per class and a number.
    sides : {"reference", "both"}, default="reference"
        "reference": only models have tangents. "both": samples too, see `tangents`.
    tangents : generator or array-like of shape (n_tangents, n_features), default=None
        Tangents of the inputs, for ``sides="both"`` only: for instance
        :class:`~widemargin.tangents.ImageTangents`.
    spring : float or "auto", default="auto"
        Price of moving along tangents, for ``sides="both"``; see
        :func:`~widemargin.metrics.tangent_distances`. "auto" tries infinity
        (samples keep still), 1, 0.3, 0.1, 0.03 and 1e-5 on left-out samples. It takes
        the first that is not clearly worse than the best. It then leaves out directions
        that harm. Tangents stay where models with them are clearly better, by two
        deviations. Where samples keep still, `metric_` is one-sided.
    init : {"kmeans", "weights"}, default="kmeans"
        Start of several models of a class: the clusters of k-means, or models of
        samples with random weights (section 5.1 of [2]_).
    max_iter : int, default=30
        Maximum number of rounds of the alternation.
    tol : float, default=1e-4
        Stop when a round lowers the objective by less than this fraction.
    scale : {"auto", "within_class_std", "none"}, default="auto"
        Scaling of the features: by the standard deviation within classes, or none.
        "auto" scales if that lowers the leave-one-out error of 1-NN on up to 1000
        training samples. With ``sides="both"`` features stay as they are, unless
        left-out samples ask that inputs do not bend. The papers have "none".
    random_state : int, RandomState or None, default=None
        Seed of the first models where a class has several.
    n_jobs : int, default=None
        Threads of the distances; results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    prototypes_ : ndarray of shape (n_models, n_features)
        Centroids.
    prototype_labels_ : ndarray of shape (n_models,)
        Their labels.
    tangents_ : ndarray of shape (n_models, n_tangents, n_features)
        Frames, zero rows last; orthonormal where features are divided by `scale_`.
    scale_ : ndarray of shape (n_features,) or None
        What features are divided by in distances; None where they are not.
    metric_ : TangentMetric
        How inputs are compared with models.
    input_tangents_ : object or None
        What bends the inputs, fitted.
    temperature_ : float
        Softmax temperature of ``predict_proba``, fitted to leave-one-out distances.
        With few samples it is fitted to samples left out of refits. After
        ``partial_fit`` it is fitted to the latest 2000 samples, each predicted before
        it was learned.
    history_ : dict
        ``"objective"``: value after every round.
    n_iter_ : int
        Rounds.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    widemargin.TVQClassifier : Begins here and learns from small margins.
    widemargin.TDNeuronClassifier : Tangents that discriminate, one after the other.

    Notes
    -----
    Every class is fitted alone: a weight that all its samples share cancels, so that
    there is no ``class_weight``. :meth:`partial_fit` keeps the mean and the covariance
    of the samples of each model. With ``sides="reference"``, one model per class and a
    given number of tangents, batches give the model of all their samples. The first 500
    of them choose the scale. A class gets its models with its first batch.
    After :meth:`fit`, it continues from the variances along the tangents and the mean
    of the others. The same holds after the first 500 samples of a stream, if "auto"
    needs them to choose the numbers of models and tangents. All samples count the same:
    a stream that changes is followed ever more slowly.

    References
    ----------
    .. [1] T. Hastie, P. Simard, E. Säckinger, Learning prototype models for tangent
       distance, NIPS 1994.
    .. [2] F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
       Artificial Intelligence 137 (2002).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.prototypes import HSSClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = HSSClassifier(1, n_tangents=8).fit(X[:1000], y[:1000])
    >>> model.tangents_.shape
    (10, 8, 64)
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.96
    """

    # Every class is fitted alone: a weight that all its samples share cancels.
    class_weight = None
    _models_classes_alone: ClassVar = True
    early_stopping = False
    n_iter_no_change = 1

    device_methods: ClassVar = DEVICE_METHODS
    _state_names: ClassVar = {"prototypes": "prototypes_", "tangents": "tangents_"}
    _exact_weights = True
    _of_samples = ("models", "moments", "objective")
    lazy_methods: ClassVar = ("fit",)
    # Whether every class has one model, where the data decide.
    _one_each = False

    prototypes_per_class: Any = "auto"
    n_tangents: int | Literal["auto"] = "auto"
    _: KW_ONLY
    sides: Literal["reference", "both"] = "reference"
    tangents: Any = None
    spring: float | Literal["auto"] = "auto"
    init: Literal["kmeans", "weights"] = "kmeans"
    max_iter: Counted = 30
    tol: NotNegative = 1e-4
    scale: Literal["auto", "within_class_std", "none"] = "auto"
    random_state: Any = None
    n_jobs: int | None = None

    @property
    def _begins_anew(self) -> bool:
        # Moments add up: a batch tells as much whenever it comes, but not how many
        # models and tangents there should be, or in which units.
        in_units = is_auto(self.scale) and self.sides == "reference"
        return in_units or self._chooses_numbers

    @property
    def _chooses_numbers(self) -> bool:
        return is_auto(self.prototypes_per_class) or is_auto(self.n_tangents)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_metric(self.tangents, self.sides, self.spring)
        if self.sides == "both" and self.scale == "within_class_std":
            raise ValueError(
                "scale='within_class_std' divides features, whose changes along "
                "tangents sides='both' compares as they are; use sides='reference', "
                "or scale='none'."
            )

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> ByClass:
        if first:
            self._fit_metric(samples)
            self.scale_ = None
        may_bend = self.metric_.has_tangents
        if not may_bend:
            samples = self._divided(samples, first)
        bundle = self._bundle_references(samples)
        if first:
            self.metric_, bundle = suited_metric(self, samples, bundle)
            if may_bend and not self.metric_.has_tangents:
                samples, bundle = self._at_rest(samples)
            n_tangents, self._one_each = self._chosen(samples, bundle, rng)
        else:
            n_tangents = self.tangents_.shape[1]
        classes = self._by_class(bundle, samples, n_tangents, self._one_each)
        given = classes_of_part, without_callbacks(self), n_tangents
        return ByClass(classes, samples.parts(classes, *given))

    def _at_rest(self, samples: Samples) -> tuple[Samples, Bundle]:
        """Return samples as a fit without tangents of the inputs sees them."""
        samples = self._divided(samples, True)
        return samples, self._bundle_references(samples)

    def _left_out_margins(
        self, samples: Samples, bundle: Bundle, trials: Trials
    ) -> NDArray:
        """Margins of samples that models of others leave out."""
        if not self.metric_.has_tangents:
            samples, bundle = self._at_rest(samples)
        size, found = self._chosen(samples, bundle, np.random.RandomState(0)), []
        for fit, asked in trials:
            classes = self._by_class(bundle[fit], samples.take(fit), *size)
            D = _left_out_distances(classes, self.metric_, bundle[asked], self.init)
            found.append(_margins(D, samples.codes[asked], classes))
        return np.concatenate(found)

    def _by_class(
        self, bundle: Bundle, samples: Samples, n_tangents: int, one_per_class: bool
    ) -> dict[int, ClassSamples]:
        given = 1 if one_per_class else self.prototypes_per_class
        counts = model_counts(given, self.classes_, samples, n_tangents)
        parts = by_class(bundle, samples, self.metric_, n_tangents, self.n_jobs)
        return {c: replace(own, count=int(counts[c])) for c, own in parts.items()}

    def _chosen(
        self, samples: Samples, bundle: Bundle, rng: np.random.RandomState
    ) -> tuple[int, bool]:
        """How many tangents, and whether a class has one model, by held-out samples."""
        self._counts_chosen = is_auto(self.prototypes_per_class)
        sizes = {}
        for m in tried_tangents(self.n_tangents, samples.X.shape[1]):
            counts = model_counts(self.prototypes_per_class, self.classes_, samples, m)
            both = self._counts_chosen and counts.max() > 1
            for one_per_class in (True, False) if both else (False,):
                count = len(counts) if one_per_class else int(counts.sum())
                sizes[m, one_per_class] = count * (1 + m)
        usual = next(iter(sizes))
        enough = max(TRIED_ON, PER_CLASS * len(self.classes_))
        trials = tried_rows(samples.codes, rng, enough) if len(sizes) > 1 else []
        if not trials:
            return usual

        def wrong(candidate: tuple[int, bool], fit: NDArray, asked: NDArray) -> NDArray:
            classes = self._by_class(bundle[fit], samples.take(fit), *candidate)
            D = _left_out_distances(classes, self.metric_, bundle[asked], self.init)
            return np.array(list(classes))[D.argmin(axis=1)] != samples.codes[asked]

        def mistakes(candidate: tuple[int, bool]) -> NDArray:
            return np.concatenate([wrong(candidate, *rows) for rows in trials])

        smallest_first = sorted(sizes, key=sizes.__getitem__)
        of_asked = np.concatenate([samples.weights[asked] for _, asked in trials])
        return select(smallest_first, mistakes, of_asked)

    def _begin(self, samples: Samples, rng: np.random.RandomState, run: Run) -> Outcome:
        if self._chooses_numbers:
            return super()._begin(samples, rng, run)
        # Units alone are chosen: in these the moments of all that came are known.
        data = self._prepare(samples, rng, run, True)
        return self._absorb({}, data.classes, rng)

    def _start(self, data: ByClass, rng: Any) -> State:
        classes = data.classes.items()
        models = {c: own.start(own.count, self.init, rng) for c, own in classes}
        return self._gathered(models, data.classes)

    def _gathered(
        self, models: dict[int, Models], data: dict, leading: Sequence[State] = ()
    ) -> State:
        codes = np.repeat(list(models), [len(m.C) for m in models.values()])
        self.prototype_labels_ = self.classes_[codes]
        dtype = numpy_dtype(next(iter(data.values())).bundle.points)
        C = self._inverse_transform(np.concatenate([m.C for m in models.values()]))
        return {
            "models": models,
            "prototypes": C.astype(dtype),
            "tangents": np.concatenate([m.T for m in models.values()]).astype(dtype),
            **{
                name: np.concatenate([part[name] for part in leading])
                for name in LEADING
                if leading
            },
        }

    def _resume(self, state: State, data: Any, rng: Any) -> State:
        if "along" not in state:
            return state
        C, T = (state[name].astype(float) for name in ("prototypes", "tangents"))
        known = {name: state[name] for name in ("prototypes", "tangents")}
        return {**known, **whole_moments(self._scaled(C), T, state)}

    def _absorb(self, state: State, data: dict[int, ClassSamples], rng: Any) -> Outcome:
        """Add the moments of a batch to those of the models that own its samples."""
        own = next(iter(data.values()))
        d, m = own.bundle.n_features, own.n_tangents
        dtype = numpy_dtype(own.bundle.points)
        known = "mass" in state
        codes = self._prototype_codes if known else np.empty(0, np.intp)
        C = np.empty((0, d))
        if known:
            C = self._scaled(state["prototypes"].astype(float))
        T = state["tangents"].astype(float) if known else np.empty((0, m, d))
        for c in data.keys() - {*codes.tolist()}:
            start = data[c].start(data[c].count, self.init, rng)
            models = data[c].alternate(start, self.max_iter)
            codes = np.concatenate([codes, np.full(len(models.C), c)])
            C, T = np.concatenate([C, models.C]), np.concatenate([T, models.T])
        shapes = {"mass": (), "mean": (d,), "covariance": (d, d)}
        moments = {name: np.zeros((len(codes), *shapes[name])) for name in shapes}
        for name in shapes if known else ():
            moments[name][: len(state[name])] = state[name]
        objective = 0.0
        for c, own in data.items():
            at = np.flatnonzero(codes == c)
            models, value = own.owned(C[at], T[at])
            before = {name: moments[name][at] for name in shapes}
            grown = add_moments(before, model_moments(own, models))
            for name, values in grown.items():
                moments[name][at] = values
            C[at], T[at] = at_moments(grown, C[at], T[at])
            objective += value
        self.prototype_labels_ = self.classes_[codes]
        C = self._inverse_transform(C)
        fitted = {"prototypes": C.astype(dtype), "tangents": T.astype(dtype)}
        return Outcome({**fitted, **moments}, {"objective": objective})

    def _over_blocks(self, state: State, parts: Any, few: dict) -> Outcome:
        """Make one round over all blocks; the first begins where `few` would."""
        before = state.get("objective")
        if "moments" in state:
            owned = state["moments"].by_class
            models = {
                c: at_moments(owned[c], C, T) for c, (C, T) in state["models"].items()
            }
        else:
            rounds = {c: own.round(state["models"][c])[0] for c, own in few.items()}
            models = {c: (found.C, found.T) for c, found in rounds.items()}
        moments = parts.sum(owned_moments, models)
        exact = all(len(C) == 1 for C, _ in models.values()) and (
            not self.metric_.has_tangents
        )
        if exact and "moments" not in state:
            # One model owns all, wherever it is.
            state = {"models": models, "moments": moments}
            return self._over_blocks(state, parts, few)
        done = exact
        if before is not None:
            done = done or before - moments.objective <= self.tol * before
        found = {c: Models(C, T, None, None) for c, (C, T) in models.items()}
        leading = [leading_of(moments.by_class[c], T) for c, (_, T) in models.items()]
        state = {
            **self._gathered(found, few, leading),
            "models": models,
            "moments": moments,
            "objective": moments.objective,
        }
        return Outcome(state, {"objective": moments.objective}, done)

    def _step(self, data: ByClass, rng: Any, n_epochs: float) -> Step:
        classes, parts = data
        if n_epochs == np.inf:
            return lambda state, epoch: self._absorb(state, classes, rng)
        if parts.here is None:
            return lambda state, epoch: self._over_blocks(state, parts, classes)

        def train(state: State, epoch: int) -> Outcome:
            rounds = {c: own.round(state["models"][c]) for c, own in classes.items()}
            objective = sum(value for _, value in rounds.values())
            models = {c: found for c, (found, _) in rounds.items()}
            before = state.get("objective")
            done = all(own.is_exact(models[c]) for c, own in classes.items())
            if before is not None:
                done = done or before - objective <= self.tol * before
            leading = [leading_moments(own, models[c]) for c, own in classes.items()]
            state = self._gathered(models, classes, leading)
            state = {**state, "objective": objective}
            return Outcome(state, {"objective": objective}, done)

        return train
