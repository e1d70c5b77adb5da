"""Generalised LVQ: gradient descent on a loss of the relative margin.

The cost is ``sum_i w_i L(mu_i)`` with ``mu = (D_minus - D_plus)/(D_minus + D_plus)`` on
squared Euclidean distances. It depends on them through two coefficients per sample,

    c_plus  = w L'(mu) (-2 D_minus / (D_plus + D_minus)^2),
    c_minus = w L'(mu) (+2 D_plus  / (D_plus + D_minus)^2);

written into a sparse (n_samples, n_prototypes) matrix C with column sums s, the
gradient is ``-2 (C^T X - diag(s) P)``: a sum over samples (`glvq_sums`), which the
blocks of a cluster may share. Mini-batches, Adam's steps measured in the within-class
spread of the data (`widemargin.prototypes.optimizer`), rate falling linearly to zero.

The formulas take arrays of NumPy and tensors alike. `glvq_pass` has a compiled engine.

With soft assignments and a temperature T, a prototype j has the share ``exp(-D_j / T)``
of a sample. Two losses follow, both minus the logarithm of the probability of the right
class:

* "rslvq", robust soft LVQ, gives a class the shares of all its prototypes,

      L = -log (sum_{j of y} exp(-D_j / T) / sum_j exp(-D_j / T));

* "cross_entropy" gives it that of its nearest one: a softmax over the classes,

      L = -log (exp(-D_y / T) / sum_c exp(-D_c / T)),   D_c = min_{j of c} D_j.

With P the probabilities of the prototypes (of the nearest ones), and R those within the
right class, ``dL/dD_j = (R_j - P_j) / T``. L depends on D / T only, so that
``dL / d log T = -sum_j D_j dL/dD_j``.

Sato and Yamada, "Generalized learning vector quantization", NIPS 1995; Seo and
Obermayer, "Soft learning vector quantization", Neural Computation 2003; Villmann et
al., "Probabilistic learning vector quantization with cross-entropy for probabilistic
class assignments", ICAISC 2018.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from widemargin._compute.engines import formula
from widemargin._compute.nearest import expanded_distances, nearest_of
from widemargin._compute.rounding import product_error
from widemargin._core.arrays import (
    beside,
    in_dtype,
    numpy_dtype,
    to_device,
    to_numpy,
    xp_of,
)
from widemargin._core.checks import check_option
from widemargin._core.lazy import without_callbacks
from widemargin._core.params import Counted, Fraction, Positive, parameters
from widemargin._core.samples import Samples
from widemargin.margins import Sigmoid, check_loss
from widemargin.margins.losses import BY_NAME, value_and_slope
from widemargin.prototypes import optimizer
from widemargin.prototypes.initialization import (
    chosen_scale,
    revivals,
    within_class_spread,
)
from widemargin.prototypes.optimizer import Batch, Descent, State, Sums
from widemargin.prototypes.training import (
    DEVICE_METHODS,
    Outcome,
    Run,
    Step,
    TrainedPrototypes,
)

# Samples from which on twenty batches are worth a compiled pass.
COMPILED = 500
# Samples that a temperature starts from.
TEMPERATURE_ROWS = 1000
SOFT = ("rslvq", "cross_entropy")


class Pairs(NamedTuple):
    """The loss of a batch and its derivatives C (n, K) by the squared distances."""

    loss: Any
    C: Any
    # The nearest prototype of the own class.
    winners: Any
    # Derivative by the logarithm of the temperature, of soft losses alone.
    slope: float | None = None

    def summed(self, **gradients: Any) -> Sums:
        """Return what a step takes of a batch with these gradients."""
        if self.slope is not None:
            gradients["log_temperature"] = np.array([self.slope])
        xp = xp_of(self.C)
        columns = xp.arange(self.C.shape[1], device=self.C.device)
        # How often each prototype is the nearest of the own class.
        wins = (self.winners[:, None] == columns).sum(0)
        return Sums(self.loss, wins, gradients)


class SoftLoss(NamedTuple):
    """One of SOFT at a temperature."""

    kind: str
    temperature: float


def soft_pairs(
    D: NDArray, labels: NDArray, codes: NDArray, weights: NDArray, loss: SoftLoss
) -> Pairs:
    """Return a soft loss and its derivatives by the (n, K) squared distances `D`."""
    kind, temperature = loss
    right = labels[None, :] == codes[:, None]
    winners = np.where(right, D, np.inf).argmin(axis=1)
    Z = -D / D.dtype.type(temperature)
    if kind == "cross_entropy":
        order = np.argsort(labels, kind="stable")
        _, starts = np.unique(labels[order], return_index=True)
        best = np.maximum.reduceat(Z[:, order], starts, axis=1)
        group = np.searchsorted(np.unique(labels), labels)
        Z = np.where(best[:, group] == Z, Z, -np.inf)
    own = np.where(right, Z, -np.inf)
    whole = logsumexp(Z, axis=1, keepdims=True)
    inside = logsumexp(own, axis=1, keepdims=True)
    # A class without a prototype has nothing to pull at.
    there = np.isfinite(inside)
    inside = np.where(there, inside, whole)
    values = np.where(there, np.exp(own - inside) - np.exp(Z - whole), 0)
    values *= (weights[:, None] / temperature).astype(D.dtype)
    value = float(weights @ (whole - inside)[:, 0])
    slope = -float(np.sum(values * D))
    return Pairs(value, values, winners, slope)


def coefficients(
    D: Any,
    labels: Any,
    codes: Any,
    weights: Any,
    loss: Any,
    x_errors: Any,
    p_errors: Any,
) -> Pairs:
    """Return the summed loss and C for (n, K) squared distances `D`.

    A sample whose two distances are both within ``x_errors + p_errors``, their
    rounding, pulls at nothing. Where a side has no prototype the other has won.
    """
    if isinstance(loss, SoftLoss):
        return soft_pairs(D, labels, codes, weights, loss)
    xp = xp_of(D)
    right = labels[None, :] == codes[:, None]
    own, others = xp.where(right, D, np.inf), xp.where(right, np.inf, D)
    plus, minus = own.argmin(1), others.argmin(1)
    rows = xp.arange(D.shape[0], device=D.device)
    d_plus, d_minus = own[rows, plus], others[rows, minus]
    no_plus, no_minus = xp.isinf(d_plus), xp.isinf(d_minus)
    total = d_plus + d_minus
    clear = total > 2 * x_errors + p_errors[plus] + p_errors[minus]
    clear &= ~xp.isinf(total)
    d_plus, d_minus = xp.where(clear, d_plus, 1.0), xp.where(clear, d_minus, 1.0)
    total = xp.where(clear, total, 2.0)
    dtype = numpy_dtype(D)
    won = in_dtype(no_minus, dtype) - in_dtype(no_plus, dtype)
    value, slope = value_and_slope(loss, (d_minus - d_plus) / total + won)
    slope = 2 * xp.where(clear, weights * slope, 0.0) / total
    C = xp.zeros_like(D)
    C[rows, plus] = -slope * (d_minus / total)
    C[rows, minus] += slope * (d_plus / total)
    value = in_dtype(weights * value, np.float64).sum()
    return Pairs(value, C, xp.where(no_plus, minus, plus))


@dataclass(frozen=True)
class Centred:
    """Samples about their mean, as a gradient needs them; rows can be taken."""

    X: Any
    codes: Any
    weights: Any
    norms: Any
    # Part of the squared distances that the prototypes cannot change.
    offsets: Any = None
    # Whether expanded squares may lose a distance between classes.
    is_risky: bool = False

    def __getitem__(self, rows: Any) -> "Centred":
        offsets = None if self.offsets is None else self.offsets[rows]
        own = self.X[rows], self.codes[rows], self.weights[rows], self.norms[rows]
        return Centred(*own, offsets, self.is_risky)

    @cached_property
    def narrow(self) -> tuple[np.ndarray, float]:
        """Samples in float32, in units of the longest, and the unit; for engines."""
        unit = 1 / (float(self.norms.max()) ** 0.5 or 1.0)
        narrow = np.empty(self.X.shape, np.float32)
        np.multiply(self.X, unit, out=narrow, casting="same_kind")
        return narrow, unit

    def at(self, device: Any) -> "Centred":
        """Return the samples on a device; None leaves them."""
        names = (field.name for field in fields(self))
        return Centred(**{n: to_device(getattr(self, n), device) for n in names})


def distances_by_product(X: Any, P: Any, X_norms: Any = None) -> Any:
    """(n, K) squared distances by one product, rounded as their norms are."""
    norms = (X * X).sum(1) if X_norms is None else X_norms
    return (norms[:, None] + (P * P).sum(1) - 2 * (X @ P.T)).clip(min=0)


def glvq_sums(rows: Centred, P: Any, labels: Any, loss: Any) -> Sums:
    """Loss, gradient in the prototypes, and how often each was its class's nearest."""
    xp, p_norms = xp_of(P), (P * P).sum(1)
    error = product_error(numpy_dtype(P), P.shape[1])
    if rows.is_risky:
        # From the differences, which do not cancel.
        X = in_dtype(rows.X, np.float64)
        D = xp.stack([((X - p) ** 2).sum(1) for p in P], axis=1)
        D, error = in_dtype(D, numpy_dtype(P)), 0.0
    else:
        D = distances_by_product(rows.X, P, rows.norms)
    if rows.offsets is not None:
        D = D + rows.offsets[:, None]
    pairs = coefficients(
        D, labels, rows.codes, rows.weights, loss, error * rows.norms, error * p_norms
    )
    gradient = 2 * (pairs.C.sum(0)[:, None] * P - pairs.C.T @ rows.X)
    return pairs.summed(prototypes=gradient)


@formula
def glvq_pass(
    rows: Centred | None,
    loss: Any,
    descent: Descent,
    state: State,
    units: dict[str, Any],
    batches: list[Batch],
) -> tuple[State, float, np.ndarray]:
    """Pass over batches; `rows` are those here, None where blocks have their own."""
    return optimizer.run_batches(descent, state, units, batches)


def share_sums(
    part: Centred, sums: Callable, batch: Any, n: int, *parameters: Any
) -> Sums | None:
    """Return what a part contributes to the step of one batch of all `n` rows."""
    m = len(part.codes)
    # Of a batch of all parts this one has its share.
    own = batch if m == n else slice(batch.start * m // n, batch.stop * m // n)
    rows = part[own]
    if not len(rows.codes):
        return None
    return sums(rows, *(beside(rows.X, one) for one in parameters))


def centred_part(
    samples: Samples,
    model: Any,
    scale: Any,
    centre: np.ndarray,
    mean_weight: float,
    device: bool,
) -> Centred:
    """Prepare the samples of a shard, in an order of its own."""
    mapped = TransformedSamples(samples, model._transform_samples(samples.X))
    order = np.random.RandomState(samples.seed()).permutation(len(samples))
    rows = mapped.centred(order, scale, centre, mean_weight)[1]
    return rows.at(samples.device if device else None)


def with_temperature(loss: Any, log_temperature: Any) -> Any:
    """Return the loss, a soft one at the temperature of the state."""
    if isinstance(loss, SoftLoss):
        return loss._replace(temperature=float(np.exp(log_temperature[0])))
    return loss


@dataclass(frozen=True)
class TransformedSamples:
    """Samples, and the rows that stand for them where prototypes are trained."""

    samples: Samples
    X: Any
    offsets: Any = None
    # Of the rows within classes, where it is known already.
    spread: np.ndarray | None = None

    def centred(
        self,
        order: np.ndarray,
        scale: Any = 1,
        centre: np.ndarray | None = None,
        mean_weight: float | None = None,
    ) -> tuple[np.ndarray, Centred]:
        """Return the mean and, in the given order, the samples about it.

        Mean and mean weight may be those of more samples than these.
        """
        X, dtype = self.X[order], numpy_dtype(self.X)
        if centre is None:
            centre = to_numpy(in_dtype(X, np.float64).mean(axis=0)).astype(dtype)
        X -= beside(X, centre)
        if np.ndim(scale):
            X = X / scale
        norms = xp_of(X).einsum("ij,ij->i", X, X)
        weights = self.samples.weights[order]
        weights = (weights / (mean_weight or weights.mean())).astype(dtype)
        offsets = None if self.offsets is None else self.offsets[order]
        # Beyond this an outlier would blur what is near among the others.
        rounding = product_error(dtype, X.shape[1]) * float(norms.max())
        is_risky = rounding > 1e-3 * float(xp_of(X).median(norms))
        codes = self.samples.codes[order]
        return centre, Centred(X, codes, weights, norms, offsets, is_risky)


@parameters
class GLVQClassifier(TrainedPrototypes):
    """Generalised learning vector quantisation (GLVQ).

    Learns a few prototypes per class by gradient descent. The nearest one predicts.
    Smaller and faster than :class:`GMLVQClassifier`, which also learns a distance.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Number of prototypes per class; at most the number of distinct samples. "auto"
        takes the smallest of 1, 2, 5 and a tenth of the samples of a class, at most 20.
        It must not be clearly worse on validation samples than the others. The largest
        may double in the first half of the epochs. Prototypes nearest to no sample are
        dropped at the end.
    loss : str or MarginLoss, optional
        Loss of the relative margin, see :mod:`widemargin.margins`; by default
        ``Sigmoid(beta=10)``, a smooth error count. A smaller beta gives larger margins.
        "rslvq" (robust soft LVQ) and "cross_entropy" are soft losses, see
        :mod:`widemargin.prototypes.glvq`.
    temperature : float or "auto", default="auto"
        Softmax temperature of ``predict_proba``, a multiple of the mean squared
        distance to the nearest prototype of the own class. "auto" fits it on validation
        samples, else on leave-one-out distances. Soft losses learn it together with the
        prototypes.
    init : {"kmeans", "means", "samples"} or array of shape (n_prototypes, n_features)
        Start of the prototypes: k-means within each class, class means, random samples,
        or the given array, which then sets their number.
    init_labels : array-like of shape (n_prototypes,), optional
        Labels of the array `init`.
    max_iter : int, default=30
        Number of epochs.
    learning_rate : float, default=0.1
        First step, a multiple of the standard deviation of each feature within classes.
    batch_size : int or "auto", default="auto"
        Distinct samples per gradient. "auto" makes about twenty batches of 25 to 512
        samples, and batches of 50 from fewer than 500 samples.
    reinit_dead : bool, default=True
        In the first half of the epochs, move prototypes that are nearest to no sample
        of their class. They go to the sample farthest from all prototypes of the class.
    scale : {"auto", "within_class_std", "none"}, default="auto"
        Scaling of the features: by the standard deviation within classes, or none.
        "auto" scales if that lowers the leave-one-out error of 1-NN on up to 1000
        training samples.
    class_weight : dict or "balanced", optional
        Factors on the sample weights by label.
    early_stopping : bool, default=False
        Hold out validation samples and return the model that is best on them.
    validation_fraction : float, default=0.1
        Fraction of each class that early stopping holds out.
    n_iter_no_change : int, default=5
        Early stopping ends after so many epochs without a better validation score.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial prototypes, the batches and the validation samples.

    Attributes
    ----------
    prototypes_ : ndarray of shape (n_prototypes, n_features)
        The prototypes.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their labels.
    scale_ : ndarray of shape (n_features,) or None
        What features are divided by in distances; None where they are not.
    classes_ : ndarray of shape (n_classes,)
        The labels there are.
    temperature_ : float
        Of ``predict_proba``.
    history_ : dict of list of float
        Per epoch, ``"loss"``: the mean loss while training; with early stopping
        ``"validation_score"``: the accuracy.
    n_iter_ : int
        Epochs run.

    See Also
    --------
    widemargin.GMLVQClassifier : Learns the metric as well.
    widemargin.LVQClassifier : The same one sample at a time, and Kohonen's rules.
    widemargin.KernelLVQClassifier : Prototypes in the space of a kernel.

    Notes
    -----
    A sample of weight 2 and the same sample given twice lead to the same model, bit
    by bit.

    ``partial_fit`` makes one pass over each batch after the first 500 samples, or after
    ``fit``. A batch of fewer than 200 samples is joined with the latest before it. The
    step is ``learning_rate * clip(5 * e, 0.03, 1)``, with e the error rate on the last
    200 samples before they were learned; see :doc:`/guide/prototypes`.

    References
    ----------
    .. [1] A. Sato, K. Yamada, Generalized learning vector quantization, NIPS 1995.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin.prototypes import GLVQClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GLVQClassifier(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> bool((model.margins(X, y) > 0).mean() == model.score(X, y))
    True
    """

    _exact_weights = True
    _joins_batches = True
    # Samples of a batch where there are few.
    _few_batch = 50
    # Passes over the samples in one epoch.
    _rounds = 1
    # Whether prototypes and nothing else is learned: models that are apart are so.
    _apart = True
    device_methods: ClassVar[tuple[str, ...]] = DEVICE_METHODS
    lazy_methods: ClassVar[tuple[str, ...]] = ("fit",)

    prototypes_per_class: Any = "auto"
    _: KW_ONLY
    loss: Any = None
    temperature: Positive | Literal["auto"] = "auto"
    init: Any = "kmeans"
    init_labels: Any = None
    max_iter: Counted = 30
    learning_rate: Positive = 0.1
    batch_size: Counted | Literal["auto"] = "auto"
    reinit_dead: bool = True
    scale: Literal["auto", "within_class_std", "none"] = "auto"
    class_weight: Any = None
    early_stopping: bool = False
    validation_fraction: Fraction = 0.1
    n_iter_no_change: Counted = 5
    random_state: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.loss, str):
            check_option("loss", self.loss, (*BY_NAME, *SOFT))
        if not self._is_soft:
            check_loss(self._resolved_loss())

    @property
    def _is_soft(self) -> bool:
        return isinstance(self.loss, str) and self.loss in SOFT

    @property
    def _stays_on_device(self) -> bool:
        return not self._is_soft

    def _resolved_loss(self) -> Any:
        if self._is_soft:
            return SoftLoss(self.loss, 1.0)
        if isinstance(self.loss, str):
            return BY_NAME[self.loss]()
        return Sigmoid(beta=10.0) if self.loss is None else self.loss

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> TransformedSamples:
        spread = None
        if first:
            labelled = samples.X, samples.codes, samples.weights
            spread = within_class_spread(*labelled)
            self.scale_ = chosen_scale(*labelled, self.scale, spread)
        # That of the features as they are, where they stay so.
        known = spread if self.scale_ is None else None
        return TransformedSamples(
            samples, self._transform_samples(samples.X), spread=known
        )

    def _start(self, data: TransformedSamples, rng: np.random.RandomState) -> State:
        samples, spread = data.samples, data.spread
        P = self._place(data.X, samples, rng)
        if spread is None:
            spread = within_class_spread(data.X, samples.codes, samples.weights)
        return {
            "prototypes": self._inverse_transform(P),
            "codes": self._prototype_codes,
            "spread": spread,
            **optimizer.start("prototypes", P),
        }

    def _resume(
        self, state: State, data: TransformedSamples, rng: np.random.RandomState
    ) -> State:
        added = self._inverse_transform(self._place_new(data.X, data.samples, rng))
        P = np.concatenate([state["prototypes"], added])
        moments = optimizer.grow(state, "prototypes", P)
        return {**state, "prototypes": P, "codes": self._prototype_codes, **moments}

    def _batches(
        self,
        parts: Any,
        n: int,
        rng: np.random.RandomState,
        epoch: int,
        n_epochs: float,
    ) -> list[Batch]:
        # A sum over blocks is a trip to all of them, however few the rows.
        size = self._size_of_batch(n, n if parts.here is None else 512)
        rate = self.learning_rate * (self._pace if n_epochs == np.inf else 1)
        rounds = self._rounds
        return [
            batch
            for k in range(epoch * rounds, (epoch + 1) * rounds)
            for batch in optimizer.shuffled_batches(
                size, rate, n, rng, k, n_epochs * rounds
            )
        ]

    def _size_of_batch(self, n: int, most: int = 512) -> int:
        if isinstance(self.batch_size, str):
            # In NumPy a step of 50 takes as long as one of 16.
            return min(n // 20 if n >= COMPILED else self._few_batch, most)
        return self.batch_size

    def _trial(self, size: int | None) -> Self:
        """Return a model to try a number of prototypes with."""
        trial = copy(self)
        trial._max_per_class, trial._is_trial = size, True
        # All epochs are one, after which nothing revives or grows.
        trial._rounds = self._n_epochs()
        trial.max_iter = 1
        return trial

    def _order(self, samples: Samples, rng: np.random.RandomState) -> np.ndarray:
        """Random order, but by class within a batch: its prototypes stay at hand."""
        order = rng.permutation(len(samples))
        edges = optimizer.batch_edges(self._size_of_batch(len(order)), len(order))
        batch = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        return order[np.lexsort((samples.codes[order], batch))]

    @property
    def _learned(self) -> tuple[str, ...]:
        """Parameters that batches move."""
        learned = self._is_soft and isinstance(self.temperature, str)
        return ("prototypes", "log_temperature") if learned else ("prototypes",)

    def _step(
        self, data: TransformedSamples, rng: np.random.RandomState, n_epochs: float
    ) -> Step:
        loss, samples = self._resolved_loss(), data.samples
        centre, host = data.centred(self._order(samples, rng))
        # The sums are made where the samples came from; states are always NumPy's.
        device = None if self._is_soft else samples.device
        there = not self._is_soft
        given = without_callbacks(self), 1, centre, samples.mean_weight, there
        parts = samples.parts(host.at(device), centred_part, *given)
        n = samples.n_rows

        def sums(now: State, batch: Any) -> Sums:
            P, labels = now["prototypes"], now["codes"]
            at_temperature = with_temperature(loss, now.get("log_temperature"))
            return parts.sum(share_sums, glvq_sums, batch, n, P, labels, at_temperature)

        recordable = getattr(loss, "array_api", False)
        descent = Descent(sums, self._learned, device, recordable)

        def train(state: State, epoch: int) -> Outcome:
            P = self._transform_prototypes(state["prototypes"]) - centre
            state = self._with_first_temperature(state, host.X, host.codes, P)
            batches = self._batches(parts, n, rng, epoch, n_epochs)
            units = {"prototypes": state["spread"], "log_temperature": 1.0}
            state, total, wins = glvq_pass(
                parts.here, loss, descent, {**state, "prototypes": P}, units, batches
            )
            mapped = host.X, state["prototypes"]
            state = self._after_pass(state, host, mapped, wins, rng, epoch, n_epochs)
            P = self._inverse_transform(state["prototypes"] + centre)
            return Outcome({**state, "prototypes": P}, {"loss": total / n})

        return train

    def _with_first_temperature(
        self, state: State, X: np.ndarray, codes: np.ndarray, P: np.ndarray
    ) -> State:
        """Begin with the temperature of a soft loss: that of the own distances."""
        if not self._is_soft or "log_temperature" in state:
            return state
        D, codes = expanded_distances(X[:TEMPERATURE_ROWS], P), codes[:TEMPERATURE_ROWS]
        D[codes[:, None] != state["codes"][None, :]] = np.inf
        own = D.min(axis=1)
        unit = float(np.mean(own[np.isfinite(own)], dtype=np.float64)) or 1.0
        if not isinstance(self.temperature, str):
            unit *= float(self.temperature)
        first = np.log([unit])
        moments = optimizer.start("log_temperature", first)
        return {**moments, **state, "log_temperature": first}

    def _after_pass(
        self,
        state: State,
        rows: Centred,
        mapped: tuple[np.ndarray, np.ndarray],
        wins: np.ndarray,
        rng: np.random.RandomState,
        epoch: int,
        n_epochs: float,
    ) -> State:
        """Return the state with dead prototypes revived, some added and some dropped.

        `mapped` are samples and prototypes where their distances are Euclidean.
        """
        (X, Q), labels = mapped, state["codes"]
        # A batch of an endless training says little about who is dead.
        early = n_epochs < np.inf and epoch + 1 < n_epochs / 2
        if self.reinit_dead and early and not wins.all():
            dead, revived = revivals(X, rows.codes, Q, labels, wins)
            state["prototypes"][dead] = to_numpy(rows.X[revived])
        added, kept = self._added_and_kept(
            rows,
            labels,
            lambda: self._nearest(state, rows, mapped),
            rng,
            epoch,
            n_epochs,
        )
        fresh = self._new_parameters(state, rows, mapped, added)
        return optimizer.edited(state, kept, rows.codes[added], fresh)

    def _nearest(self, state: State, rows: Centred, mapped: tuple) -> np.ndarray:
        """Return the nearest prototype of every sample."""
        return nearest_of(*mapped)

    def _new_parameters(
        self, state: State, rows: Centred, mapped: tuple, added: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Return what prototypes at the samples `added` begin with."""
        return {"prototypes": to_numpy(rows.X[added])}
