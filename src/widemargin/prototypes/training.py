"""How prototypes are trained: the epochs around any update rule.

A learner derives from `TrainedPrototypes`, names its fitted arrays in ``_state_names``
and gives `_trainer`: a function of the epoch number that changes those arrays once and
returns the epoch's loss. Validation, weights, initial prototypes, early stopping,
``history_``, callbacks and ``partial_fit`` are here, once for all of them.
"""

from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, check_scalar

from widemargin._compute.threads import thread_map
from widemargin._core.callbacks import FitProgress, with_callbacks
from widemargin.prototypes.base import PrototypeClassifier
from widemargin.prototypes.placing import (
    given_prototypes,
    initial_prototypes,
    prototype_counts,
)
from widemargin.prototypes.samples import (
    Samples,
    check_samples,
    merge_duplicates,
    split_validation,
)

Trainer = Callable[[int], float]


def fraction_right(model: PrototypeClassifier, samples: Samples) -> float:
    """Weighted accuracy of `model` on samples already checked."""
    nearest = model._in_chunks(
        samples.X, lambda x: model._class_distances(x).argmin(axis=1)
    )
    return float(np.average(nearest == samples.codes, weights=samples.weights))


class TrainedPrototypes(PrototypeClassifier):
    """Base of the classifiers whose prototypes are moved epoch by epoch."""

    _state_names: tuple[str, ...] = ("prototypes_",)
    # Whether a sample of weight 2 and a sample given twice must give the same model.
    _exact_weights = False

    def _n_epochs(self) -> int:
        return self.max_iter

    @abstractmethod
    def _trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        """Prepare the training; the function returned runs one epoch."""

    @abstractmethod
    def _partial_trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        """Like `_trainer`, for one epoch of a series without a known end."""

    def _check_parameters(self) -> None:
        check_scalar(self.max_iter, "max_iter", Integral, min_val=1)
        self._check_early_stopping()

    def _check_early_stopping(self) -> None:
        if self.early_stopping:
            check_scalar(
                self.validation_fraction,
                "validation_fraction",
                Real,
                min_val=0,
                max_val=1,
                include_boundaries="neither",
            )
            check_scalar(self.n_iter_no_change, "n_iter_no_change", Integral, min_val=1)

    def _state(self) -> dict[str, Any]:
        names = (*self._state_names, "prototype_labels_")
        return {name: np.copy(getattr(self, name)) for name in names}

    @with_callbacks
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
            Weights, not negative, relative to each other.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        samples = check_samples(self, X, y, sample_weight)
        if self._exact_weights:
            samples = merge_duplicates(samples)
        rng = check_random_state(self.random_state)
        held = None
        if self.early_stopping:
            samples, held = split_validation(samples, self.validation_fraction, rng)
        # One thread: the products of a batch are too small to be worth sharing.
        thread_map(lambda held: self._train(samples, held, rng), [held], n_jobs=1)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch on one batch, with a step that does not decay.

        A class gets its prototypes with the first batch that holds it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Batch of samples.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), optional
            All labels there will be; needed in the first call.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, not negative, relative to each other.

        Returns
        -------
        self
            The estimator, one batch further.
        """
        self._check_parameters()
        first = not hasattr(self, "prototypes_")
        if first and classes is None:
            raise ValueError("classes must be given in the first call of partial_fit.")
        if not (first or classes is None or self._are_classes(classes)):
            raise ValueError(
                f"classes={classes!r} is not what the first call of partial_fit "
                f"said: {self.classes_!r}."
            )
        known = classes if first else self.classes_
        samples = check_samples(self, X, y, sample_weight, known, reset=first)
        if self._exact_weights:
            samples = merge_duplicates(samples)
        rng = self._partial_rng(first)
        if first:
            self.history_: dict[str, list[float]] = {"loss": []}
            self.n_iter_ = 0
            self._place(samples, rng)
        else:
            self._place_new_classes(samples, rng)
        self.history_["loss"].append(self._partial_trainer(samples, rng)(0))
        self.n_iter_ += 1
        return self

    def _are_classes(self, classes: ArrayLike) -> bool:
        return np.array_equal(np.unique(classes), self.classes_)

    def _partial_rng(self, first: bool) -> np.random.RandomState:
        if first or not hasattr(self, "_rng"):
            self._rng = check_random_state(self.random_state)
        return self._rng

    def _feature_map(self, X: np.ndarray) -> np.ndarray:
        """Map samples into the space the prototypes live in."""
        return X

    def _place(self, samples: Samples, rng: np.random.RandomState) -> None:
        counts = prototype_counts(self.prototypes_per_class, self.classes_)
        X = self._feature_map(samples.X)
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
                samples.X.dtype,
            )
            P = self._feature_map(P)
        self.prototypes_ = P
        self.prototype_labels_ = self.classes_[codes]

    def _place_new_classes(self, samples: Samples, rng: np.random.RandomState) -> None:
        new = ~np.isin(samples.codes, self._prototype_codes)
        if not new.any():
            return
        fresh = samples.take(np.flatnonzero(new))
        counts = prototype_counts(self.prototypes_per_class, self.classes_)
        init = self.init if isinstance(self.init, str) else "kmeans"
        P, codes = initial_prototypes(
            self._feature_map(fresh.X), fresh.codes, fresh.weights, counts, init, rng
        )
        self.prototypes_ = np.concatenate([self.prototypes_, P])
        self.prototype_labels_ = np.concatenate(
            [self.prototype_labels_, self.classes_[codes]]
        )

    def _train(
        self, samples: Samples, held: Samples | None, rng: np.random.RandomState
    ) -> None:
        self._place(samples, rng)
        self._run(samples, held, self._trainer(samples, rng))

    def _run(self, samples: Samples, held: Samples | None, trainer: Trainer) -> None:
        self.history_ = {"loss": []}
        if held is not None:
            self.history_["validation_score"] = []
        progress = FitProgress(
            self,
            self._n_epochs(),
            X=samples.X,
            y=self.classes_[samples.codes],
            sample_weight=samples.weights,
            state=self._state,
        )
        best, best_score, waited = None, -np.inf, 0
        for epoch in progress:
            self.history_["loss"].append(float(trainer(epoch)))
            if held is None:
                continue
            score = fraction_right(self, held)
            self.history_["validation_score"].append(score)
            if score > best_score:
                best, best_score, waited = self._state(), score, 0
            else:
                waited += 1
                if waited >= self.n_iter_no_change:
                    progress.stop()
        self.n_iter_ = len(self.history_["loss"])
        for name, value in (best or {}).items():
            setattr(self, name, value)
