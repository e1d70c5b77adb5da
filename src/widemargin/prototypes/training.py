"""How prototypes are trained: one loop around any update rule.

A learner derives from `TrainedPrototypes` and gives

* `_prepare`: what one pass needs of the samples (mapped, centred, with frames), once;
* `_start`: the first state, a dict of arrays;
* `_step`: a function of (state, epoch) that returns the next state and a row of
  numbers for ``history_``. It changes nothing it is given: what it adds up over the
  samples is a sum of a pure function of parameters and samples, so that shards of the
  samples can be summed in its place.

Checks, weights, early stopping, ``history_``, callbacks, keeping the best, refusing
numbers that are not finite, and ``partial_fit`` are here, once for all of them. A whole
learner in forty lines is tests/prototypes/test_adding_one.py.

A state has "prototypes", in the user's units, and "codes", their classes; `_start` gets
the first ones from `_place`. `_transform_prototypes` and `_inverse_transform`
go to the space of training and back. Where "auto" may add prototypes a step asks
`_added_and_kept` which come and which stay, and `_trial_model` is the model that "auto"
tries, `lvq.glvq_like(self)` for learners that are not GLVQ. Distances by products
cancel far from the origin: a step centres its samples first.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples

from widemargin._compute.machine import held_threads
from widemargin._core import shards
from widemargin._core.arrays import numpy_dtype
from widemargin._core.callbacks import FitProgress
from widemargin._core.checks import (
    SIZES,
    check_random_state,
    is_auto,
    warn_caller,
)
from widemargin._core.classifier import fit_method, restore_on_failure
from widemargin._core.lazy import without_callbacks
from widemargin._core.params import check_declared
from widemargin._core.samples import (
    Samples,
    batch_classes,
    check_samples,
    merge_duplicates,
)
from widemargin._core.split import (
    hold_out_of_classes,
    none_held_out,
)
from widemargin.prototypes.base import PrototypeClassifier, with_mean_one
from widemargin.prototypes.counts import (
    check_counts,
    largest_count,
    prototype_counts,
    rows_to_add,
    unused,
)
from widemargin.prototypes.initialization import (
    chosen_scale,
    given_prototypes,
    initial_prototypes,
)
from widemargin.prototypes.optimizer import State, is_sound, stepping

# The model of a stream is begun with WARMUP_ROWS samples, and a small batch is joined
# with earlier samples to MIN_BATCH. The pace, by which the first learning rate is
# multiplied, is clip(ERROR_GAIN * error rate, LEAST_PACE, 1). Tangent models make one
# step per batch and take TANGENT_GAIN times that pace, at most 1.
WARMUP_ROWS, MIN_BATCH, ERROR_GAIN, LEAST_PACE, TANGENT_GAIN = 500, 200, 5.0, 0.03, 3.0
# What the learners do on a device that know how to.
DEVICE_METHODS = (
    *("fit", "partial_fit", "predict", "predict_proba", "decision_function"),
    *("margins", "confidence", "transform"),
)
# An ordered map over blocks of samples, on the threads held for the fit.
Run = Callable[..., Iterable[Any]]


class Outcome(NamedTuple):
    """What one epoch gives: the next state, a row of the history, whether to stop."""

    state: State
    row: dict[str, Any]
    done: bool = False


Step = Callable[[State, int], Outcome]


def check_scale(limits: Any) -> None:
    """Raise where no feature varies enough for squared distances."""
    dtype, reach = numpy_dtype(limits), float((limits[1] - limits[0]).max())
    if 0 < reach < 1e-5 * SIZES[dtype][0]:
        instead = "scale the data, for instance by StandardScaler"
        if dtype == np.float32:
            instead += ", or pass them as float64"
        raise ValueError(
            f"X varies by no more than {reach:.2g}, whose squares vanish in {dtype}; "
            f"{instead}."
        )


def with_relative_weights(samples: Samples) -> Samples:
    """Bring weights near one where their products would leave the range of numbers.

    They are relative to each other: a power of two changes no bit of a model.
    """
    largest = float(samples.weights.max())
    if 1e-10 < largest < 1e10:
        return samples
    unit = 2.0 ** np.round(np.log2(largest))
    return replace(samples, weights=samples.weights / unit)


def fraction_right(model: PrototypeClassifier, samples: Samples) -> float:
    """Weighted accuracy of `model` on samples already checked."""
    right, total = samples.parts(samples).sum(weight_right, without_callbacks(model))
    return right / total


def weight_right(
    samples: Samples, model: PrototypeClassifier
) -> tuple[float, float] | None:
    """Weight of the samples that `model` tells right, and of all."""
    if not len(samples):
        return None
    right = model._nearest_codes(samples.X) == samples.codes
    return float(samples.weights @ right), float(samples.weights.sum())


def _held_out(samples: Samples, fraction: float, seed: int, wanted: bool) -> Samples:
    """Return the samples of a shard that are held out, or the others."""
    rng = np.random.RandomState(samples.seed(seed))
    held = hold_out_of_classes(samples.codes, fraction, rng, needed=False)
    return samples.take(np.flatnonzero(held == wanted))


def hold_out(
    samples: Samples, fraction: float, rng: np.random.RandomState
) -> tuple[Samples, Samples]:
    """Set aside `fraction` of every class that can spare it."""
    held = hold_out_of_classes(samples.codes, fraction, rng)
    return samples.take(np.flatnonzero(~held)), samples.take(np.flatnonzero(held))


def run_epochs(
    model: Any,
    state: State,
    step: Step,
    n_epochs: int,
    samples: Samples,
    *,
    held: Samples | None = None,
    last: Step | None = None,
    told: bool = True,
) -> tuple[State, dict[str, list]]:
    """Step from `state` until the epochs, the learner or the held-out samples say stop.

    Every state becomes that of the `model` (``_set_fitted``), so that callbacks and
    held-out samples see it. Returned is the last state, or the best on `held`, the
    first of equals; never one that is not finite. Where there is a `last` step, it is
    the last epoch, and takes what would else be returned. Callbacks are `told` in a
    fit.
    """
    history: dict[str, list] = {}
    best, best_score, waited = state, -np.inf, 0
    progress = FitProgress(
        model if told else None,
        n_epochs,
        X=samples.X,
        y=samples.labels,
        sample_weight=samples.weights,
        state=lambda: model._fitted_attributes(state),
    )
    done = False
    for epoch in progress:
        if last is not None and (done or epoch == n_epochs - 1):
            state, step, held = (state if held is None else best), last, None
            progress.stop()
        with stepping():
            outcome = step(state, epoch)
        for key in outcome.row:
            history.setdefault(key, [])
        if not is_sound(model, outcome.state):
            warn_caller(
                f"training met numbers without finite squares in epoch {epoch + 1} and "
                "stopped before it; a smaller learning_rate, or scaled data, may help.",
                ConvergenceWarning,
            )
            progress.stop()
            continue
        state = outcome.state
        for key, value in outcome.row.items():
            history[key].append(value)
        model._set_fitted(state)
        done = outcome.done
        if held is not None:
            score = fraction_right(model, held)
            history.setdefault("validation_score", []).append(score)
            waited += 1
            if score > best_score:
                best, best_score, waited = state, score, 0
            done = done or waited >= model.n_iter_no_change
        if done and last is None:
            progress.stop()
    return (state if held is None else best), history


@dataclass(frozen=True)
class Stream:
    """What is known of the samples that came in batches, or in a fit before.

    The first ones are kept until a model was begun with WARMUP_ROWS of them: it is
    begun anew whenever there are twice as many as it was begun with. The latest are
    kept for small batches to be joined with. Steps are shorter by the share of a batch
    in what it is joined to: whatever it is cut into, a stream moves a model about as
    far. They grow with the recent error rate: a good model stays as it is, and one
    whose samples change follows them.
    """

    first: Samples | None = None
    begun: int = 0
    latest: Samples | None = None
    # Rows given, those of no weight and equal ones included.
    rows: int = 0
    # Share of mistakes, of about the latest MIN_BATCH samples before they were learned;
    # what it is after a fit, samples that were learned cannot say.
    mistakes: float = 0.06

    def after(
        self,
        batch: Samples,
        n_rows: int,
        wrong: float | None,
        rng: np.random.RandomState,
        begins: int,
        joins: bool,
    ) -> "Stream":
        """Take in a batch of `n_rows` rows, a part `wrong` of which was not known.

        It is one of the first where fewer than `begins` were kept.
        """
        batch = replace(batch, rows=batch.rows + self.rows, inverse=None, device=None)
        first = self.first
        if begins and (first is not None or wrong is None):
            first = shards.joined([first, batch])
        latest = None
        if joins:
            last = batch
            if len(batch) > MIN_BATCH:
                last = batch.take(np.sort(rng.permutation(len(batch))[:MIN_BATCH]))
            latest = shards.joined([self.latest, last])
            latest = latest.take(slice(max(0, len(latest) - MIN_BATCH), None))
        mistakes = self.mistakes
        if wrong is not None:
            mistakes += len(batch) / (len(batch) + MIN_BATCH) * (wrong - mistakes)
        return Stream(first, self.begun, latest, self.rows + n_rows, mistakes)

    def begins(self, most: int) -> bool:
        """Whether there are enough samples to begin, or to begin anew with `most`."""
        n = 0 if self.first is None else len(self.first)
        return n > 0 and n >= min(2 * self.begun, most)

    def begin(self, most: int) -> tuple["Stream", Samples]:
        """Return what to keep, and the samples to begin with."""
        assert self.first is not None
        n = len(self.first)
        kept = None if n >= most else self.first
        return replace(self, first=kept, begun=n), self.first

    def joined(self, batch: Samples) -> Samples:
        """Return the last batch, a small one with the latest samples before it."""
        if self.latest is None or len(batch) >= MIN_BATCH:
            return batch
        return replace(self.latest, device=batch.device)

    def pace(self, n: int) -> float:
        """Return the length of the steps of the last batch, of `n` samples."""
        return min(1.0, n / MIN_BATCH) * min(
            1.0, max(LEAST_PACE, ERROR_GAIN * self.mistakes)
        )


class TrainedPrototypes(PrototypeClassifier):
    """Base of the classifiers whose prototypes are moved epoch by epoch."""

    # Which entries of a state are fitted attributes, and their names there.
    _state_names: ClassVar[dict[str, str]] = {"prototypes": "prototypes_"}
    # Whether a sample of weight 2 and a sample given twice must give the same model.
    _exact_weights: Any = False
    # Whether samples that come on a device are left there, by `fit`.
    _stays_on_device: Any = False
    # Entries of a state that belong to the samples: the next batch has its own.
    _of_samples: ClassVar[tuple[str, ...]] = ()
    # Whether a small batch is joined with the samples before it.
    _joins_batches: ClassVar[bool] = False
    # Whether a stream's model is begun anew when there are more samples to begin with.
    _begins_anew: Any = True
    # Most prototypes per class where "auto" chose so; with None they may grow.
    _max_per_class: int | None = None
    # Whether this is a model that `_max_per_class` is tried with.
    _is_trial = False
    # How long the steps of a batch are, where the first of a training are one.
    _pace = 1.0

    def _n_epochs(self) -> int:
        return self.max_iter

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> Any:
        """Return what the steps need of the samples; `first` if there is no model."""
        return samples

    @abstractmethod
    def _start(self, data: Any, rng: np.random.RandomState) -> State:
        """Place the prototypes; ``prototype_labels_`` is set here."""

    @abstractmethod
    def _step(self, data: Any, rng: np.random.RandomState, n_epochs: float) -> Step:
        """Return the step of one epoch; endless training has ``n_epochs=inf``."""

    def _resume(self, state: State, data: Any, rng: np.random.RandomState) -> State:
        """Add prototypes for the classes first seen in the batch `data`."""
        return state

    def _check_parameters(self) -> None:
        check_declared(self)
        check_counts(self.prototypes_per_class)

    def _fitted_attributes(self, state: State) -> dict[str, Any]:
        """Attributes that make a usable model of a state."""
        fitted = {name: state[key] for key, name in self._state_names.items()}
        labels = self.prototype_labels_
        if "codes" in state:
            labels = self.classes_[state["codes"]]
        return {**fitted, "prototype_labels_": labels}

    def _set_fitted(self, state: State) -> None:
        """Set the fitted attributes of a usable model."""
        for name, value in self._fitted_attributes(state).items():
            setattr(self, name, value)

    def _check_samples(self, *args: Any, **options: Any) -> Samples:
        samples = check_samples(self, *args, **options)
        check_scale(samples.limits)
        self.classes_ = samples.classes
        return with_relative_weights(samples)

    def _store(self, state: State) -> None:
        """Store the model, and what more `partial_fit` needs to go on."""
        self._set_fitted(state)
        inner = {*self._state_names, *self._of_samples, "codes"}
        self._training = {key: state[key] for key in state.keys() - inner}

    @fit_method
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Place the prototypes and train them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; float32 is kept.
        y : array-like of shape (n_samples,)
            Their labels, of any type that sorts.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, not negative, relative to each other; zero leaves a sample out.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        rng, held = check_random_state(self.random_state), None
        checked = self._check_samples(X, y, sample_weight, stay=self._stays_on_device)
        samples = merged = self._merged(checked)
        if self.early_stopping:
            samples, held = hold_out(merged, self.validation_fraction, rng)
        self._train(samples, held, rng)
        self._finish(_num_samples(X), checked, merged, samples)
        return self

    @fit_method
    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on a Dask collection.

        What is chosen is chosen on some samples; what is summed is summed over all.
        """
        self._check_parameters()
        self._check_lazy()
        rng, held = check_random_state(self.random_state), None
        given = shards.check_shards(
            self, X, y, sample_weight, stay=self._stays_on_device
        )
        check_scale(given.limits)
        self.classes_ = given.classes
        if self.early_stopping:
            part = float(self.validation_fraction), int(rng.randint(2**31 - 1))
            apart = given.taken(_held_out, *part, True)
            if not apart.n_rows:
                raise none_held_out(self.validation_fraction, given.n_rows)
            held = apart.drawn(self._merged)
            given = given.taken(_held_out, *part, False)
        self._train(given.drawn(self._merged), held, rng)
        return self

    def _merged(self, samples: Samples) -> Samples:
        return merge_duplicates(samples) if self._exact_weights else samples

    def _train(
        self, samples: Samples, held: Samples | None, rng: np.random.RandomState
    ) -> None:
        """Train on samples, as long as those that are held out say."""
        # BLAS has one thread per worker: products of a batch are too small to share.
        with held_threads(getattr(self, "n_jobs", 1)) as run:
            state = self._learn(samples, held, rng, run)
        self._store(state)
        if held is not None:
            samples = held
            self._calibrate(self._costs_of_unseen(with_mean_one(held)))
            self._set_temperature(samples)
        else:
            self._calibrate_now_or_later(samples)
        self.__dict__.pop("_rng", None)
        self._stream = Stream()

    def _learn(
        self,
        samples: Samples,
        held: Samples | None,
        rng: np.random.RandomState,
        run: Run,
    ) -> State:
        """Return the state that a whole training ends with; keep its history."""
        data = self._prepare(samples, rng, run, True)
        state, self.history_ = run_epochs(
            self,
            self._start(data, rng),
            self._step(data, rng, self._n_epochs()),
            self._n_epochs(),
            samples,
            held=held,
        )
        self.n_iter_ = max(map(len, self.history_.values()))
        return self._postprocess(state, data)

    def _check_lazy(self) -> None:
        """Refuse parameters with which samples cannot stay in shards."""

    def _finish(
        self, n_rows: int, checked: Samples, merged: Samples, trained: Samples
    ) -> None:
        """Say what is left to say of the `n_rows` given once training is over."""

    @restore_on_failure
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Go on with one batch, of one sample or of many.

        The first samples of a stream are kept and trained on as by `fit`, anew whenever
        there are twice as many, until there are 500; a model that was fitted goes on
        from there. After that a batch is learned by one pass, see the Notes. A class
        gets its prototypes with the first batch that holds it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Batch of samples.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), optional
            All labels there will be; needed in the first call.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, not negative, relative to each other, also of other batches.

        Returns
        -------
        self
            The estimator, one batch further.
        """
        self._check_parameters()
        first = not hasattr(self, "prototypes_")
        classes = batch_classes(classes, None if first else self.classes_)
        samples = self._check_samples(X, y, sample_weight, classes=classes, reset=first)
        if not first and samples.X.dtype != self.prototypes_.dtype:
            samples = replace(samples, X=samples.X.astype(self.prototypes_.dtype))
        samples = self._merged(samples)
        rng = self.__dict__.get("_rng") or check_random_state(self.random_state)
        # What a model knew of samples that it had not seen is what it knows of others.
        before = None
        if not first:
            before = self._costs_of_unseen(with_mean_one(samples))
        stream = Stream() if first else self._stream
        most = WARMUP_ROWS if self._begins_anew else 0
        anew = self._begins_anew and stream.begun < WARMUP_ROWS
        wrong = None
        if before is not None:
            mistakes = before.answers != before.codes
            wrong = float(np.average(mistakes, weights=before.weights))
        stream = stream.after(
            samples, _num_samples(X), wrong, rng, most, self._joins_batches
        )
        self._pace = stream.pace(len(samples))
        outcome = None
        with held_threads(getattr(self, "n_jobs", 1)) as run, stepping():
            if stream.begins(most):
                stream, known = stream.begin(most)
                known = self._merged(known)
                if anew:
                    known = replace(known, device=samples.device)
                    outcome = self._begin(known, rng, run)
            if outcome is None:
                batch = stream.joined(samples)
                data = self._prepare(batch, rng, run, first)
                if first:
                    state = self._start(data, rng)
                else:
                    names = self._state_names.items()
                    state = {key: getattr(self, name) for key, name in names}
                    state = self._resume({**self._training, **state}, data, rng)
                outcome = self._step(data, rng, np.inf)(state, 0)
        state, row, _ = outcome
        if not is_sound(self, state):
            raise ValueError(
                "this batch leads to prototypes without finite squares; the model is "
                "kept as it was. A smaller learning_rate, or scaled data, may help."
            )
        self._store(state)
        if before is None:
            self._calibrate_now_or_later(samples)
        else:
            self._calibrate_further(before)
            self._set_temperature(samples)
        self._rng, self._stream = rng, stream
        if first:
            self.history_, self.n_iter_ = {}, 0
        for key, value in row.items():
            self.history_.setdefault(key, []).append(value)
        self.n_iter_ += 1
        return self

    def _begin(self, samples: Samples, rng: np.random.RandomState, run: Run) -> Outcome:
        """Train a model on the first samples of a stream, as `fit` would."""
        data = self._prepare(samples, rng, run, True)
        state = self._start(data, rng)
        if len(np.unique(self._prototype_codes)) < 2:
            # One class has nothing to be told from.
            return self._step(data, rng, np.inf)(state, 0)
        step = self._step(data, rng, self._n_epochs())
        state, history = run_epochs(
            self, state, step, self._n_epochs(), samples, told=False
        )
        state = self._postprocess(state, data)
        # Of a batch its loss is told, the first entry.
        key, values = next(iter(history.items()))
        return Outcome(state, {key: values[-1]} if values else {})

    def _divided(self, samples: Samples, first: bool) -> Samples:
        """Return samples divided by their scale, which the `first` ones decide."""
        if first:
            self.scale_ = chosen_scale(
                samples.X, samples.codes, samples.weights, self.scale
            )
        return samples if self.scale_ is None else samples.divided(self.scale_)

    def _postprocess(self, state: State, data: Any) -> State:
        """Return the state of a whole training as it is kept."""
        return state

    def _place(
        self, X: np.ndarray, samples: Samples, rng: np.random.RandomState
    ) -> np.ndarray:
        """First prototypes among the rows `X` that stand for the samples."""
        self._counts_chosen = self._is_auto_sized
        if hasattr(self, "_is_part"):
            self._max_per_class = self._is_part._max_per_class
        elif not self._is_trial:
            self._max_per_class = None
            if self._is_auto_sized:
                most = int(self._counts(samples).max())
                self._max_per_class = largest_count(self, samples, most)
        counts = self._counts(samples)
        if isinstance(self.init, str):
            if self.init_labels is not None:
                raise ValueError(
                    f"init_labels goes with an array as init; init is {self.init!r}."
                )
            P, codes = initial_prototypes(
                X, samples.codes, samples.weights, counts, self.init, rng
            )
        else:
            P, codes = given_prototypes(
                self.init,
                self.init_labels,
                self.classes_,
                samples.X.shape[1],
                numpy_dtype(samples.X),
            )
            P = self._transform_samples(P)
        self.prototype_labels_ = self.classes_[codes]
        return P

    def _counts(self, samples: Any) -> np.ndarray:
        """Return the number of prototypes that every class starts with."""
        counts = prototype_counts(
            self.prototypes_per_class, self.classes_, samples.codes, samples.weights
        )
        most = self._max_per_class
        return counts if most is None else np.minimum(counts, most)

    def _trial_model(self) -> Any:
        """Return the model that counts are tried with: one that descends in batches."""
        return self

    def _transform_samples(self, X: np.ndarray) -> np.ndarray:
        """Map samples to the space that prototypes are trained in."""
        return self._scaled(X)

    def _transform_prototypes(self, P: np.ndarray) -> np.ndarray:
        """Map the prototypes of a state to the space that they are trained in."""
        return self._scaled(P)

    def _inverse_transform(self, P: np.ndarray) -> np.ndarray:
        """Map prototypes back from the space that they are trained in."""
        return P if self.scale_ is None else P * self.scale_

    @property
    def _is_auto_sized(self) -> bool:
        """Whether the data decide how many prototypes there are."""
        return is_auto(self.prototypes_per_class) and isinstance(self.init, str)

    def _added_and_kept(
        self,
        samples: Any,
        codes: np.ndarray,
        nearest: Callable[[], np.ndarray],
        rng: np.random.RandomState,
        epoch: int,
        n_epochs: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows to become prototypes, and which prototypes stay, after an epoch.

        In the first half of the epochs prototypes are added where margins are
        negative, up to twice as many as there were, if "auto" chose the largest number;
        after the last one those that win no sample go. `nearest` finds the nearest
        prototype of every sample.
        """
        none, all_stay = np.empty(0, np.intp), np.ones(len(codes), bool)
        if not self._is_auto_sized or n_epochs == np.inf:
            return none, all_stay
        if epoch + 1 == n_epochs:
            return none, ~unused(nearest(), codes, len(self.classes_))
        if self._max_per_class is not None:
            return none, all_stay
        if (epoch + 1) % max(1, n_epochs // 10) or epoch + 1 > n_epochs / 2:
            return none, all_stay
        most = 2 * self._counts(samples)
        rows = rows_to_add(
            samples.X, samples.codes, samples.weights, nearest(), codes, most, rng
        )
        return rows, all_stay

    def _place_new(
        self, X: np.ndarray, samples: Samples, rng: np.random.RandomState
    ) -> np.ndarray:
        """Prototypes of the classes that have none yet; none, mostly."""
        new = np.flatnonzero(~np.isin(samples.codes, self._prototype_codes))
        if not len(new):
            return X[:0]
        fresh, counts = samples.take(new), self._counts(samples)
        init = self.init if isinstance(self.init, str) else "kmeans"
        P, codes = initial_prototypes(
            X[new], fresh.codes, fresh.weights, counts, init, rng
        )
        self.prototype_labels_ = np.concatenate(
            [self.prototype_labels_, self.classes_[codes]]
        )
        return P
