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

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_scalar

from widemargin._compute.threads import held_threads
from widemargin._core.callbacks import FitProgress
from widemargin._core.checks import check_option
from widemargin.prototypes.ascent import (
    MarginAscent,
    Reweighting,
    Watch,
    summary,
)
from widemargin.prototypes.margin_passes import OneSidedPass, TwoSidedPass
from widemargin.prototypes.samples import Samples
from widemargin.prototypes.tangent_models import (
    TangentModels,
    fit_input_tangents,
    resolve_n_tangents,
)
from widemargin.prototypes.training import TrainedPrototypes, fraction_right
from widemargin.prototypes.tvq_start import INITS, initial_models, weights_by_row


class TVQClassifier(TangentModels, TrainedPrototypes):
    r"""Tangent vector quantisation: discriminant tangent models with wide margins.

    Starts from models that describe their class and moves, in every pass over the
    data, the nearest right and the nearest wrong model of each sample so that the
    weighted mean margin rises; samples whose margin is below `theta` gain weight.

    Parameters
    ----------
    n_models : int, default=1
        Models per class; a class with fewer samples gets one per sample.
    n_tangents : int or "auto", default="auto"
        Tangents of each model, at least 0 and below the number of features; "auto" is
        ``min(20, n_features // 12)``. With 0 this is LVQ with re-weighting. Where a
        class varies in fewer directions the rest are rows of zeros.
    theta : float, default=0.4
        Margin that every sample should have, in (-1, 1). Smaller for simpler models:
        0.1 where there are no tangents.
    sides : {"one", "two"}, default="one"
        Whether only the models bend, or the inputs along their own tangents as well.
    tangents : generator or array-like of shape (n_tangents, n_features), default=None
        Tangents of the inputs, for ``sides="two"`` only: for instance
        :class:`~widemargin.tangents.ImageTangents`.
    spring : float, default=1e-5
        Cost of moving in two-sided distances, > 0; see
        :func:`~widemargin.metrics.tangent_distances`.
    init : {"hss", "random", "mean"}, default="hss"
        First models: those of :class:`HSSClassifier`; random samples with random
        tangents; or class means with random tangents (and, for several models, a
        little noise).
    reweight : bool, default=True
        Whether samples with small margins gain weight. Without, the plain mean margin
        is maximised, which on digits ends worse than it started.
    k : float, "ratio" or callable, default=1.0
        How much weight they gain; see :func:`~widemargin.margins.margin_reweight`.
    learning_rate : "auto" or float, default="auto"
        "auto" is a step without unit that grows while the mean margin does and is
        taken back and halved when it does not. A number is the fixed rate of the
        paper, in the units of the data: with ``k=1`` and ``n_steps_per_reweight=1``
        the fit is Figure 2 of the paper to the letter. A fixed rate that diverges is
        halved with a warning.
    n_steps_per_reweight : int, default=1
        Steps of the ascent between two changes of the weights.
    max_iter : int, default=150
        Passes over the data at most.
    tol : float, default=1e-4
        Stop when the loss (without re-weighting: minus the mean margin) has not
        fallen by this fraction for `n_iter_no_change` passes. Training also stops
        where no margin is below `theta`.
    early_stopping : bool, default=False
        Keep the models that are best on `validation_fraction` of the samples, and stop
        when they have not become better for `n_iter_no_change` passes.
    validation_fraction : float, default=0.1
        See `early_stopping`.
    n_iter_no_change : int, default=20
        See `tol` and `early_stopping`.
    record_weights : bool, default=False
        Keep the distribution γ of every pass in ``history_["weights"]``.
    record_models : bool, default=False
        Keep the models of every pass in ``history_["models"]``.
    class_weight : dict or "balanced", default=None
        Factors of the sample weights.
    n_jobs : int, default=None
        Threads; results do not depend on it.
    random_state : int, RandomState or None, default=None
        First models and the validation samples.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    prototypes_ : ndarray of shape (n_classes * n_models, n_features)
        Centroids.
    prototype_labels_ : ndarray of shape (n_classes * n_models,)
        Their labels.
    tangents_ : ndarray of shape (n_classes * n_models, n_tangents, n_features)
        Orthonormal frames.
    input_tangents_ : object or None
        What bends the inputs, fitted.
    history_ : dict of lists
        One entry per pass, of the models after it: ``"loss"``, the mean of
        max(0, theta - margin) weighted by `sample_weight`; ``"H"``, the mean margin
        under the distribution of the next step; ``"n_theta_mistakes"``;
        ``"train_error"``; ``"margin_quantiles"`` (0, 5, 25, 50 and 75 %); ``"rate"``;
        with early stopping ``"validation_score"``; on request ``"weights"``, γ of
        every training row, and ``"models"``, pairs (prototypes, tangents).
    n_iter_ : int
        Passes.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    A sample that lies in models of two classes (duplicates with different labels can)
    has margin 0 and pulls at neither. A class of one sample is a point.

    :meth:`partial_fit` takes one step per batch with the limit of the re-weighting:
    only the samples of the batch whose margin is below `theta` count (all of them,
    where ``reweight=False``). A class gets its models with the first batch that has it.

    References
    ----------
    .. [1] F. Aiolli, A. Sperduti, A re-weighting strategy for improving margins,
       Artificial Intelligence 137 (2002).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.prototypes import HSSClassifier, TVQClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TVQClassifier(n_tangents=8, max_iter=50).fit(X[:1000], y[:1000])
    >>> describing = HSSClassifier(n_tangents=8).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > describing.score(X[1000:], y[1000:]))
    True
    >>> model.history_["loss"][-1] < model.history_["loss"][0]
    True
    """

    _state_names = ("prototypes_", "tangents_")
    _exact_weights = True

    def __init__(
        self,
        n_models: int = 1,
        n_tangents: int | str = "auto",
        *,
        theta: float = 0.4,
        sides: str = "one",
        tangents: Any = None,
        spring: float = 1e-5,
        init: str = "hss",
        reweight: bool = True,
        k: Any = 1.0,
        learning_rate: float | str = "auto",
        n_steps_per_reweight: int = 1,
        max_iter: int = 150,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        record_weights: bool = False,
        record_models: bool = False,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_models = n_models
        self.n_tangents = n_tangents
        self.theta = theta
        self.sides = sides
        self.tangents = tangents
        self.spring = spring
        self.init = init
        self.reweight = reweight
        self.k = k
        self.learning_rate = learning_rate
        self.n_steps_per_reweight = n_steps_per_reweight
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.record_weights = record_weights
        self.record_models = record_models
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Place the models and train them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; float32 is kept.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            A sample of weight 2 counts as two samples; zero leaves it out.

        Returns
        -------
        self
            The fitted estimator.
        """
        super().fit(X, y, sample_weight)
        if self.record_weights:
            weights_by_row(self, X, y, sample_weight)
        del self._trained
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_model_parameters()
        check_scalar(
            self.theta,
            "theta",
            Real,
            min_val=-1,
            max_val=1,
            include_boundaries="neither",
        )
        check_option("init", self.init, INITS)
        check_scalar(
            self.n_steps_per_reweight, "n_steps_per_reweight", Integral, min_val=1
        )
        check_scalar(self.tol, "tol", Real, min_val=0)
        check_scalar(self.n_iter_no_change, "n_iter_no_change", Integral, min_val=1)
        if isinstance(self.learning_rate, str):
            check_option("learning_rate (unless it is a number)", self.learning_rate,
                         ("auto",))  # fmt: skip
        else:
            check_scalar(
                self.learning_rate,
                "learning_rate",
                Real,
                min_val=0,
                include_boundaries="neither",
            )

    def _place(self, samples: Samples, rng: np.random.RandomState) -> None:
        labels = self.classes_[samples.codes]
        self.input_tangents_ = fit_input_tangents(
            self.sides, self.tangents, samples.X, labels
        )
        C, T, codes = self._first_models(samples, rng)
        self.prototypes_, self.tangents_ = C, T
        self.prototype_labels_ = self.classes_[codes]

    def _place_new_classes(self, samples: Samples, rng: np.random.RandomState) -> None:
        new = ~np.isin(samples.codes, self._prototype_codes)
        if new.any():
            C, T, codes = self._first_models(samples.take(np.flatnonzero(new)), rng)
            self.prototypes_ = np.concatenate([self.prototypes_, C])
            self.tangents_ = np.concatenate([self.tangents_, T])
            self.prototype_labels_ = np.concatenate(
                [self.prototype_labels_, self.classes_[codes]]
            )

    def _first_models(self, samples: Samples, rng: Any) -> tuple[np.ndarray, ...]:
        return initial_models(
            self._bundle(samples.X),
            samples.codes,
            samples.weights,
            n_models=self.n_models,
            n_tangents=resolve_n_tangents(self.n_tangents, samples.X.shape[1]),
            init=self.init,
            spring=float(self.spring),
            n_jobs=self.n_jobs,
            rng=rng,
        )

    def _ascent(self, samples: Samples, run: Any, reweight: bool) -> MarginAscent:
        """Prepare the climb; models are held about the mean of the samples."""
        centre = samples.X.mean(axis=0, dtype=float)
        right = samples.codes[:, None] == self._prototype_codes
        one_pass: Any
        if self.input_tangents_ is None:
            one_pass = OneSidedPass(samples.X, right, centre)
        else:
            bundle = self._bundle(samples.X)
            one_pass = TwoSidedPass(bundle, right, centre, float(self.spring))
        stack = np.concatenate(
            [(self.prototypes_ - centre)[:, None], self.tangents_], axis=1
        ).astype(float)
        rule = Reweighting(
            float(self.theta),
            self.k,
            self.n_steps_per_reweight,
            reweight,
            samples.weights,
        )
        self._centre, self._dtype = centre, samples.X.dtype
        return MarginAscent(
            lambda stack, gamma: one_pass(stack, gamma, run),
            stack,
            rule,
            self.learning_rate,
        )

    def _take(self, stack: np.ndarray) -> None:
        self.prototypes_ = (stack[:, 0] + self._centre).astype(self._dtype)
        self.tangents_ = stack[:, 1:].astype(self._dtype)

    def _trainer(self, samples: Samples, rng: np.random.RandomState) -> Any:
        """Nothing yet: the climb needs its threads, which `_run` holds."""
        return None

    def _run(self, samples: Samples, held: Samples | None, trainer: Any) -> None:
        keys = ["loss", "H", "n_theta_mistakes", "train_error", "margin_quantiles"]
        keys += ["rate"] + ["weights"] * self.record_weights
        keys += ["models"] * self.record_models
        keys += ["validation_score"] * (held is not None)
        self.history_ = {key: [] for key in keys}
        self._trained = samples
        progress = FitProgress(
            self,
            self.max_iter,
            X=samples.X,
            y=self.classes_[samples.codes],
            sample_weight=samples.weights,
            state=self._state,
        )
        watch = Watch(self.tol, self.n_iter_no_change)
        best, best_score, waited = None, -np.inf, 0
        with held_threads(self.n_jobs) as run:
            ascent = self._ascent(samples, run, self.reweight)
            for _ in progress:
                ascent.step()
                self._take(ascent.stack)
                row = summary(ascent, samples.weights, self.theta)
                row["models"] = (self.prototypes_, self.tangents_)
                for key in row.keys() & self.history_.keys():
                    self.history_[key].append(row[key])
                done = ascent.is_stuck or self._is_done(watch)
                if held is not None:
                    score = fraction_right(self, held)
                    self.history_["validation_score"].append(score)
                    waited += 1
                    if score > best_score:
                        best, best_score, waited = self._state(), score, 0
                    done |= waited >= self.n_iter_no_change
                if done:
                    progress.stop()
        self.n_iter_ = len(self.history_["loss"])
        for name, value in (best or {}).items():
            setattr(self, name, value)
        del self._centre, self._dtype

    def _is_done(self, watch: Watch) -> bool:
        if self.reweight and self.history_["n_theta_mistakes"][-1] == 0:
            return True
        value = self.history_["loss"][-1] if self.reweight else -self.history_["H"][-1]
        return watch.stalls(value)

    def _partial_trainer(self, samples: Samples, rng: np.random.RandomState) -> Any:
        def step(_: int) -> float:
            share = samples.weights / samples.weights.sum()
            if len(np.unique(self._prototype_codes)) < 2:
                return 0.0
            with held_threads(self.n_jobs) as run:
                ascent = self._ascent(samples, run, False)
                mu = ascent.found.margins
                mistakes = mu < self.theta if self.reweight else np.full(len(mu), True)
                if mistakes.any():
                    ascent = self._ascent(
                        samples.take(np.flatnonzero(mistakes)), run, False
                    )
                    ascent.step()
                    self._take(ascent.stack)
            del self._centre, self._dtype
            return float(share @ np.maximum(0, self.theta - mu))

        return step
