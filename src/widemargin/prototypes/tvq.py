r"""TVQ: tangent models that learn from the samples whose margin is too small.

Every class has Q models, a centroid C with m tangents T. With z the squared tangent
distances to the nearest right and the nearest wrong model the margin of a sample is

.. math:: \mu_i = \frac{z_i^- - z_i^+}{z_i^- + z_i^+},
   \qquad H = \sum_i \gamma_i \mu_i \to \max,

by gradient ascent on all models, while the distribution γ gains weight wherever
:math:`\mu_i < \theta`. In the limit this minimises the hinge
:math:`\sum_i \max(0, \theta - \mu_i)`.

Reference: F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins in
classification, Artificial Intelligence 137 (2002).
"""

from copy import copy
from dataclasses import KW_ONLY
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from widemargin._core.arrays import numpy_dtype, run_at, to_numpy
from widemargin._core.checks import check_number, is_auto
from widemargin._core.lazy import without_callbacks
from widemargin._core.left_out import left_out_folds
from widemargin._core.params import (
    Counted,
    Fraction,
    NotNegative,
    Number,
    Positive,
    parameters,
)
from widemargin._core.samples import Samples
from widemargin._core.select import select
from widemargin._core.temperature import LeftOut
from widemargin.prototypes.base import margins_of_all_labels, with_mean_one
from widemargin.prototypes.hss import (
    ClassSamples,
    Models,
    by_class,
    random_models,
    suited_metric,
)
from widemargin.prototypes.margin_ascent import (
    Ascent,
    PassInput,
    Plateau,
    model_passes,
)
from widemargin.prototypes.optimizer import State, is_sound, stepping
from widemargin.prototypes.tangent_models import (
    TangentModels,
    Trials,
    check_metric,
    model_counts,
    random_frames,
    tried_rows,
    tried_tangents,
)
from widemargin.prototypes.training import (
    DEVICE_METHODS,
    TANGENT_GAIN,
    Outcome,
    Run,
    Step,
    TrainedPrototypes,
)
from widemargin.tangents import Bundle

INITS = ("hss", "weights", "random", "mean")
# The alternation of HSS need not end: the ascent goes on from wherever it is.
HSS_ROUNDS = 3
# More of a mistake leave nothing of the other samples in a sum.
MOST_COPIES = 1e12
# How long numbers of tangents are tried.
TRIAL_PASSES = 5
# Margins that tangent models of classes which can be told apart mostly have; the share
# of samples below them, of so many, that tells otherwise.
REACH, FEW_REACH, TOLD = 0.4, 0.75, 500


class TangentSamples(NamedTuple):
    """Samples with their frames, made once, and the threads to pass over them."""

    samples: Samples
    bundle: Bundle
    run: Run

    def take(self, rows: np.ndarray) -> "TangentSamples":
        """Return the samples of `rows`."""
        return TangentSamples(self.samples.take(rows), self.bundle[rows], self.run)

    @property
    def apart(self) -> Run:
        """An ordered map over models that know nothing of each other.

        Distances that bend inputs, and devices, have threads of their own.
        """
        bends = self.bundle.n_tangents
        return map if bends else run_at(self.bundle.points, self.run)


@parameters
class TVQClassifier(TangentModels, TrainedPrototypes):
    r"""Tangent vector quantisation: discriminant tangent models with wide margins.

    Starts from models that describe each class (HSS). Every pass moves the nearest
    right and the nearest wrong model of each sample so that the weighted mean margin
    rises. Samples with margins below `theta` gain weight.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Models per class; at most the number of samples. "auto" takes one for every ``10
        * (1 + n_tangents)`` samples, and at most ``30 / (1 + n_tangents)``.
    n_tangents : int or "auto", default="auto"
        Tangents of each model, from 0 to n_features - 1. "auto" is 20 from 160 features
        on. With fewer features it is an eighth of them, unless 0, a quarter or three
        eighths (at most 20) have a clearly lower validation error. If a class varies in
        fewer directions, the other rows are zeros.
    theta : float, default=0.4
        Margin that every training sample should have, in (-1, 1).
    sides : {"reference", "both"}, default="reference"
        "reference": only models have tangents. "both": samples too, see `tangents`.
    tangents : generator or array-like of shape (n_tangents, n_features), default=None
        Tangents of the samples, for ``sides="both"``, such as
        :class:`~widemargin.tangents.ImageTangents`.
    spring : float or "auto", default="auto"
        Price of moving along tangents, for ``sides="both"``; see
        :func:`~widemargin.metrics.tangent_distances`. "auto" tries infinity
        (samples keep still), 1, 0.3, 0.1, 0.03 and 1e-5 on left-out samples. It takes
        the first that is not clearly worse than the best. It then leaves out directions
        that harm. Tangents stay where models with them are clearly better, by two
        deviations. Where samples keep still, `metric_` is one-sided.
    init : {"hss", "weights", "random", "mean"}, default="hss"
        First models: those of :class:`HSSClassifier`; those of HSS under random sample
        weights, section 5.1 of [1]_; random samples, or class means, with random
        tangents.
    weight_gain : float, "ratio" or callable, default=1.0
        Weight that samples with margins below `theta` gain per pass; see
        :func:`~widemargin.margins.margin_reweight`. 0 maximises the plain mean margin.
    learning_rate : "auto" or float, default="auto"
        "auto" is a scale-free step that grows while the mean margin rises, and is
        halved when it falls. A number is the fixed rate of [1]_, in the units of the
        data; it is halved, with a warning, if it diverges.
    max_iter : int, default=40
        Maximum number of passes. With few samples, 5-fold cross-validation may choose
        fewer, even 0, if that is better by two standard deviations. It does not with
        early stopping or a fixed rate.
    tol : float, default=1e-3
        Stop if the loss has not fallen by this fraction for `n_iter_no_change` passes,
        or if no margin is below `theta`.
    early_stopping : bool, default=False
        Hold out `validation_fraction` of the samples, keep the models that are best on
        them, and stop after `n_iter_no_change` passes without improvement.
    validation_fraction : float, default=0.1
        Fraction of each class that early stopping holds out.
    n_iter_no_change : int, default=10
        Passes without improvement before stopping; see `tol` and `early_stopping`.
    record_weights : bool, default=False
        Keep the sample weights of every pass in ``history_["weights"]``.
    record_models : bool, default=False
        Keep the models of every pass in ``history_["models"]``.
    temperature : float or "auto", default="auto"
        Softmax temperature of ``predict_proba``, a multiple of the mean relative
        distance to the true class. "auto" fits it on validation samples, else on
        leave-one-out distances.
    class_weight : dict or "balanced", default=None
        Factors of the sample weights.
    random_state : int, RandomState or None, default=None
        Seed of the first models and the validation samples.
    n_jobs : int, default=None
        Threads; results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    prototypes_ : ndarray of shape (n_models, n_features)
        Centroids.
    prototype_labels_ : ndarray of shape (n_models,)
        Their labels.
    tangents_ : ndarray of shape (n_models, n_tangents, n_features)
        Orthonormal frames.
    temperature_ : float
        Of ``predict_proba``.
    metric_ : TangentMetric
        How inputs are compared with models.
    input_tangents_ : object or None
        What bends the inputs, fitted.
    history_ : dict of lists
        One entry per pass, of the models after it. ``"loss"`` is the mean of max(0,
        theta - margin) weighted by `sample_weight`. ``"H"`` is the mean margin under
        the distribution of the next step. The others are ``"n_theta_mistakes"``,
        ``"train_error"``, ``"margin_quantiles"`` (0, 5, 25, 50 and 75 %) and
        ``"rate"``. Early stopping adds ``"validation_score"``. On request there are
        ``"weights"``, γ of every training row, and ``"models"``, pairs (prototypes,
        tangents).
    n_iter_ : int
        Passes; 1 where the first models were best.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    widemargin.HSSClassifier : What it begins with.
    widemargin.inspection.TangentDisplay : A model along what it learned.
    widemargin.MarginReweightingClassifier : The same around any classifier.

    Notes
    -----
    A sample that lies in models of two classes has margin 0 and moves neither. A class
    of one sample is a point.

    :meth:`partial_fit` takes one step per batch after the first 500 samples, or after
    :meth:`fit`. Only samples with margins below `theta` count (all of them with
    ``weight_gain=0``). A batch of fewer than 200 samples is joined with the latest
    before it. The step is the first step of training times ``clip(15 * e, 0.09, 1)``,
    with e the error rate on the last 200 samples before they were learned. A step that
    lowers the margins of the batch is not taken. See :doc:`/guide/prototypes`.

    References
    ----------
    .. [1] F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
       Artificial Intelligence 137 (2002).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.prototypes import HSSClassifier, TVQClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TVQClassifier(n_tangents=8, max_iter=50, random_state=0)
    >>> model = model.fit(X[:1000], y[:1000])
    >>> describing = HSSClassifier(1, n_tangents=8).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > describing.score(X[1000:], y[1000:]))
    True
    >>> model.history_["loss"][-1] < model.history_["loss"][0]
    True
    """

    device_methods: ClassVar = DEVICE_METHODS
    _state_names: ClassVar = {"prototypes": "prototypes_", "tangents": "tangents_"}
    _exact_weights = True
    # The climb itself: weights and margins belong to the samples it was made on.
    _of_samples = (
        "stack",
        "climbers",
        "sums",
        "found",
        "H",
        "rate",
        "warned",
        "watch",
        "passes",
    )
    lazy_methods: ClassVar = ("fit",)
    _joins_batches = True

    prototypes_per_class: Any = "auto"
    n_tangents: int | Literal["auto"] = "auto"
    _: KW_ONLY
    theta: Annotated[float, Number(above=-1, below=1)] = 0.4
    sides: Literal["reference", "both"] = "reference"
    tangents: Any = None
    spring: float | Literal["auto"] = "auto"
    init: Literal["hss", "weights", "random", "mean"] = "hss"
    weight_gain: Any = 1.0
    learning_rate: Positive | Literal["auto"] = "auto"
    max_iter: Counted = 40
    tol: NotNegative = 1e-3
    early_stopping: bool = False
    validation_fraction: Fraction = 0.1
    n_iter_no_change: Counted = 10
    record_weights: bool = False
    record_models: bool = False
    temperature: Positive | Literal["auto"] = "auto"
    class_weight: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_metric(self.tangents, self.sides, self.spring)
        if not (
            callable(self.weight_gain)
            or (isinstance(self.weight_gain, str) and self.weight_gain == "ratio")
        ):
            check_number(
                "weight_gain", self.weight_gain, at_least=0, at_most=MOST_COPIES,
                otherwise="'ratio', a function of (weights, mistakes), or ",
            )  # fmt: skip

    @property
    def _reweights(self) -> bool:
        return callable(self.weight_gain) or self.weight_gain != 0

    def _check_lazy(self) -> None:
        if callable(self.weight_gain):
            raise ValueError(
                "weight_gain must be a number or 'ratio' where X is a Dask collection: "
                "a function would have to see the weights of all samples."
            )
        if self.record_weights:
            raise ValueError(
                "record_weights must be False where X is a Dask collection: the "
                "weights stay with their samples."
            )

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> TangentSamples:
        if first:
            self._fit_metric(samples)
        bundle = self._bundle_references(samples)
        if first:
            self.metric_, bundle = suited_metric(self, samples, bundle)
        return TangentSamples(samples, bundle, run)

    def _left_out_margins(
        self, samples: Samples, bundle: Bundle, trials: Trials
    ) -> np.ndarray:
        """Margins of samples that few passes over others left out."""
        data = TangentSamples(samples, bundle, map)
        n_tangents = self._chosen(data, np.random.RandomState(0))
        margins = [
            self._trial_margins(data.take(fit), data.take(asked), n_tangents)
            for fit, asked in trials
        ]
        return np.concatenate(margins)

    def _start(self, data: TangentSamples, rng: np.random.RandomState) -> State:
        n_tangents = self._chosen(data, rng)
        state = self._first_state(data, n_tangents, rng)
        return {**state, **self._shortened(data, state)}

    def _shortened(self, data: TangentSamples, state: State) -> State:
        """After how many passes to end, where samples that are left out say so.

        They are asked where they are few, or out of the reach of theta: weights that
        all grow change nothing, and to raise the mean margin may give up a class. What
        they say of their models without them is kept for the temperature.
        """
        samples, n_tangents = data.samples, state["tangents"].shape[1]
        many = np.inf if self._reaches_few(data, state) else samples.X.shape[1]
        folds = left_out_folds(samples, many)
        if not folds or self.early_stopping:
            return {}
        marks = [self.max_iter]
        if is_auto(self.learning_rate):
            marks += [0, *(2**k for k in range((int(self.max_iter) - 1).bit_length()))]
        each = data.apart(
            lambda rows: self._without(rows, data, n_tangents, marks), folds
        )
        D, rows = np.concatenate(list(each), axis=1), np.concatenate(folds)
        wrong = (D.argmin(axis=2) != samples.codes[rows]).astype(float)
        # Twice as clearly as chance would: there are several, and all were asked for.
        weights = samples.weights[rows]
        at = select(
            range(len(marks)), wrong.__getitem__, weights, deviations=2, by_size=False
        )
        if not hasattr(self, "_is_part"):
            self._left_out_of_fit = len(samples), rows, D[at]
        return {"passes": marks[at]} if at else {}

    def _reaches_few(self, data: TangentSamples, state: State) -> bool:
        """Whether most margins of models that describe their class are small."""
        if self.init != "hss" or not is_auto(self.learning_rate):
            return False
        start = copy(self)
        start._set_fitted(state)
        rows = np.random.RandomState(0).permutation(len(data.samples))[:TOLD]
        some = data.take(rows)
        D = start._reduced(start._bundle_distances(some.bundle))
        scores = margins_of_all_labels(D)
        codes, weights = some.samples.codes, some.samples.weights
        small = scores[np.arange(len(rows)), codes] < min(self.theta, REACH)
        return bool(weights @ small > FEW_REACH * weights.sum())

    def _without(
        self, rows: np.ndarray, data: TangentSamples, n_tangents: int, marks: list[int]
    ) -> np.ndarray:
        """Return the distances of `rows` to the classes of models without them.

        (marks, rows, classes): after as many passes as each of `marks` says, or as many
        as training takes.
        """
        others = data.take(np.delete(np.arange(len(data.samples)), rows))
        others, without = others._replace(run=map), copy(self)
        state = without._first_state(others, n_tangents, np.random.RandomState(0))
        # What a rate does is said once, of the whole.
        state["warned"] = True
        asked, found = data.bundle[rows], {}
        with stepping():
            step, done, epoch = without._climb(others), False, 0
            while not done:
                if epoch in marks:
                    without._set_fitted(state)
                    found[epoch] = without._reduced(without._bundle_distances(asked))
                after = step(state, epoch)
                epoch, sound = epoch + 1, is_sound(without, after.state)
                state = after.state if sound else state
                done = after.done or not sound or epoch == self.max_iter
            without._set_fitted(state)
            last = without._reduced(without._bundle_distances(asked))
        return np.stack([found.get(mark, last) for mark in marks])

    def _left_out_costs(self, samples: Samples) -> LeftOut:
        n, *told = self.__dict__.pop("_left_out_of_fit", (0,))
        if n != len(samples):
            return super()._left_out_costs(samples)
        rows, D = told
        return self._left_out_from(D, with_mean_one(samples).take(rows))

    def _calibrate_further(self, later: LeftOut) -> None:
        # A batch tells of itself.
        self.__dict__.pop("_left_out_of_fit", None)
        super()._calibrate_further(later)

    def _first_state(
        self, data: TangentSamples, n_tangents: int, rng: np.random.RandomState
    ) -> State:
        C, T, codes = self._first_models(data, n_tangents, rng)
        self.prototype_labels_ = self.classes_[codes]
        return {"prototypes": C, "tangents": T}

    def _chosen(self, data: TangentSamples, rng: np.random.RandomState) -> int:
        """How many tangents: as given, or the usual unless it is clearly worse."""
        candidates = tried_tangents(self.n_tangents, data.samples.X.shape[1])
        trials = tried_rows(data.samples.codes, rng) if len(candidates) > 1 else []
        if not trials:
            return candidates[0]
        # One of them: these fits take longer than the means of HSS.
        fit, held_out = (data.take(rows) for rows in trials[0])

        def mistakes(candidate: int) -> np.ndarray:
            return self._mistakes(fit, held_out, candidate)

        return select(candidates, mistakes, held_out.samples.weights, by_size=False)

    def _mistakes(
        self, fit: TangentSamples, held: TangentSamples, n_tangents: int
    ) -> np.ndarray:
        """1 where a sample that was held out is not told apart, else 0."""
        margins = self._trial_margins(fit, held, n_tangents)
        return (~(margins > 0)).astype(float)

    def _trial_margins(
        self, fit: TangentSamples, held: TangentSamples, n_tangents: int
    ) -> np.ndarray:
        """Margins of samples that were held out, after a few passes over others."""
        state = self._first_state(fit, n_tangents, np.random.RandomState(0))
        # As in training, and a model that leaves the numbers tells nothing apart.
        with stepping():
            centre, ascent = self._ascent(fit, self.weight_gain)
            climb = ascent.start(_stacked(state, centre))
            for _ in range(min(TRIAL_PASSES, self.max_iter)):
                climb = ascent.step(climb)
            state = _unstacked(climb, centre, held.samples.X.dtype)
            centre, ascent = self._ascent(held, 0)
            found = ascent.start(_stacked(state, centre))["found"]
        return np.nan_to_num(found.margins, nan=-1.0)

    def _resume(
        self, state: State, data: TangentSamples, rng: np.random.RandomState
    ) -> State:
        new = np.flatnonzero(~np.isin(data.samples.codes, self._prototype_codes))
        if not len(new):
            return state
        n_tangents = state["tangents"].shape[1]
        C, T, codes = self._first_models(data.take(new), n_tangents, rng)
        labels = [self.prototype_labels_, self.classes_[codes]]
        self.prototype_labels_ = np.concatenate(labels)
        return {
            **state,
            "prototypes": np.concatenate([state["prototypes"], C]),
            "tangents": np.concatenate([state["tangents"], T]),
        }

    def _first_models(
        self, data: TangentSamples, n_tangents: int, rng: np.random.RandomState
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Centroids (K, d), frames (K, m, d) and class codes (K,) to start from."""
        self._counts_chosen = is_auto(self.prototypes_per_class)
        counts = model_counts(
            self.prototypes_per_class, self.classes_, data.samples, n_tangents
        )
        classes = by_class(
            data.bundle, data.samples, self.metric_, n_tangents, self.n_jobs
        )
        models = [
            self._first_of_class(own, int(counts[c]), rng) for c, own in classes.items()
        ]
        if self.init == "hss":
            settled = data.apart(
                lambda pair: pair[0].alternate(pair[1], HSS_ROUNDS),
                zip(classes.values(), models, strict=True),
            )
            models = list(settled)
        dtype = numpy_dtype(data.bundle.points)
        return (
            np.concatenate([own.C for own in models]).astype(dtype),
            np.concatenate([own.T for own in models]).astype(dtype),
            np.repeat(list(classes), [len(own.C) for own in models]),
        )

    def _first_of_class(
        self, own: ClassSamples, count: int, rng: np.random.RandomState
    ) -> Models:
        """Models of one class; those of HSS have yet to settle."""
        if self.init == "hss":
            return own.start(count, "kmeans", rng)
        X, w, m = to_numpy(own.bundle.points), own.weights, own.n_tangents
        count = min(count, len(X))
        if self.init == "weights":
            return Models(*random_models(X, w, count, m, rng), None, X)
        C = _centroids(X, w, count, self.init, rng)
        return Models(C, random_frames(len(C), m, X.shape[1], rng), None, X)

    def _ascent(self, data: TangentSamples, k: Any) -> tuple[np.ndarray, Ascent]:
        """Prepare the climb; models are held about the mean of the samples."""
        samples, centre = data.samples, data.samples.X.mean(axis=0, dtype=float)
        mean = samples.mean_weight
        here = self._passed(samples, data.bundle, centre, mean, data.run)
        parts = samples.parts(here, _part, without_callbacks(self), centre, mean)
        return centre, Ascent(parts, self.theta, k, self.learning_rate)

    def _passed(
        self,
        samples: Samples,
        bundle: Bundle,
        centre: np.ndarray,
        mean: float,
        run: Run,
    ) -> PassInput:
        """Make of samples what a climb passes over, weights in units of the mean."""
        right = samples.codes[:, None] == self._prototype_codes
        points, frames = bundle.points, bundle.frames
        passes = model_passes(points, frames, right, centre, self.metric_)
        return PassInput(passes, samples.weights / mean, run)

    def _step(
        self, data: TangentSamples, rng: np.random.RandomState, n_epochs: float
    ) -> Step:
        if n_epochs == np.inf:
            return lambda state, _: self._partial_step(state, data)
        return self._climb(data)

    def _climb(self, data: TangentSamples) -> Step:
        """Return the step of one pass over the samples."""
        centre, ascent = self._ascent(data, self.weight_gain)
        dtype = data.samples.X.dtype

        def train(state: State, epoch: int) -> Outcome:
            if "stack" not in state:
                state = {**ascent.start(_stacked(state, centre)), **state}
            passes = state.get("passes", self.max_iter + 1)
            if passes > 0:
                state = ascent.step(state)
            state = {**state, **_unstacked(state, centre, dtype)}
            row = ascent.summary(state)
            value = row["loss"] if self._reweights else -row["H"]
            done = self._reweights and row["n_theta_mistakes"] == 0
            watch = state.get("watch", Plateau()).after(value, self.tol)
            state = {**state, "watch": watch}
            done = done or watch.waited >= self.n_iter_no_change
            done = done or ascent.is_stuck(state) or epoch + 1 >= passes
            if self.record_weights:
                row["weights"] = ascent.gamma(state)
            if self.record_models:
                row["models"] = (state["prototypes"], state["tangents"])
            return Outcome(state, row, done)

        return train

    def _partial_step(self, state: State, data: TangentSamples) -> Outcome:
        """One step with the limit of the re-weighting: the mistakes of the batch."""
        if len(np.unique(self._prototype_codes)) < 2:
            return Outcome(state, {"loss": 0.0})
        centre, ascent = self._ascent(data, 0)
        climb = ascent.start(_stacked(state, centre))
        margins = climb["found"].margins
        mistakes = np.flatnonzero(margins < self.theta)
        loss = ascent.summary(climb)["loss"]
        if self._reweights and len(mistakes) < len(margins):
            if not len(mistakes):
                return Outcome(state, {"loss": loss})
            centre, ascent = self._ascent(data.take(mistakes), 0)
            climb = ascent.start(_stacked(state, centre))
        climb["rate"] *= min(1.0, TANGENT_GAIN * self._pace)
        climb = ascent.step(climb)
        moved = _unstacked(climb, centre, data.samples.X.dtype)
        return Outcome({**state, **moved}, {"loss": loss})

    def _finish(
        self, n_rows: int, checked: Samples, merged: Samples, trained: Samples
    ) -> None:
        """Rewrite the weights of distinct samples as those of the user's rows.

        Equal samples share the weight of the one they were merged into, in proportion
        to what the user gave them; samples held out or of weight zero have none.
        """
        if not self.record_weights:
            return
        assert merged.inverse is not None
        # Held-out samples left `trained`; both know where a group's first row stood.
        place = np.full(int(merged.rows.max()) + 1, -1)
        place[trained.rows] = np.arange(len(trained))
        group = place[merged.rows][merged.inverse]
        totals = np.bincount(merged.inverse, checked.weights)[merged.inverse]
        share = np.where(group >= 0, checked.weights / totals, 0.0)
        rows = []
        for gamma in self.history_["weights"]:
            full = np.zeros(n_rows)
            full[checked.rows] = gamma[group] * share
            rows.append(full)
        self.history_["weights"] = rows


def _part(samples: Samples, model: Any, centre: np.ndarray, mean: float) -> PassInput:
    """Prepare the samples of a shard for a climb."""
    bundle = model._bundle_references(samples)
    return model._passed(samples, bundle, centre, mean, map)


def _stacked(state: State, centre: np.ndarray) -> np.ndarray:
    """(K, 1 + m, d) centroids about the mean of the samples, with their tangents."""
    C = (state["prototypes"] - centre)[:, None]
    return np.concatenate([C, state["tangents"]], axis=1).astype(float)


def _unstacked(state: State, centre: np.ndarray, dtype: Any) -> State:
    stack = state["stack"]
    return {
        "prototypes": (stack[:, 0] + centre).astype(dtype),
        "tangents": stack[:, 1:].astype(dtype),
    }


def _centroids(
    X: np.ndarray,
    weights: np.ndarray,
    count: int,
    init: str,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Random samples, or the mean with a little noise."""
    share = weights / weights.sum()
    if init == "random":
        return X[rng.choice(len(X), count, replace=False, p=share)].astype(float)
    mean = share @ X.astype(float)
    if count == 1:
        return mean[None]
    spread = np.sqrt(share @ (X - mean) ** 2)
    return mean + 0.1 * spread * rng.standard_normal((count, X.shape[1]))
