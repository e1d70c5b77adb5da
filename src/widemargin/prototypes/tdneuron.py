r"""TD-Neuron: one unit per class that fires for inputs near its tangent model.

The unit of class j has a model (C_j, T_j), a slope and a threshold; with z_j the
squared one-sided tangent distance its output is

.. math:: o_j(x) = \frac{1}{1 + e^{u_j}}, \qquad u_j = a_j (z_j(x) - c_j),

decreasing in z. Gradient descent on all of C, T, a, c makes the squared error of the
outputs to the targets 1 (own class) and 0 (others) small. The units are built up: they
start with no tangent, and get one more when the error stalls, for as long as that
helps on held-out samples.

With targets t the error and its derivatives are, for weights w that sum to one,

    E = sum_i w_i sum_j (o_ij - t_ij)^2,
    g_ij = dE/dz_ij = -2 w_i (o_ij - t_ij) o_ij (1 - o_ij) a_j,
    dE/dC_j = -2 sum_i g_ij r_ij,      dE/dT_jk = -2 sum_i g_ij alpha_ijk r_ij.

Distances are measured in units of `scale`, the mean distance of a sample to the first
model of its class, so that slopes, thresholds and steps have no unit. A step grows
while E falls; it is taken back and halved when E does not.

Reference: D. Sona, A. Sperduti, A. Starita, Discriminant pattern recognition using
transformation-invariant neurons, Neural Computation 12 (2000). Shapes: stack
(K, 1 + m, d), one model per class; slopes and thresholds (K,).
"""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from widemargin._compute.machine import SAMPLE_ROWS, batched_slices
from widemargin._compute.rounding import saturated
from widemargin._core.params import (
    Counted,
    Fraction,
    NotNegative,
    check_declared,
    parameters,
)
from widemargin._core.samples import Samples
from widemargin._core.temperature import LeftOut
from widemargin.prototypes.base import no_bound, with_mean_one
from widemargin.prototypes.optimizer import State
from widemargin.prototypes.tangent_models import (
    ONE_SIDED,
    TangentModels,
    principal_model,
    resolve_n_tangents,
    retract,
)
from widemargin.prototypes.training import (
    TANGENT_GAIN,
    Outcome,
    Run,
    Step,
    TrainedPrototypes,
    hold_out,
    run_epochs,
)

START, GROWTH, SMALLEST = 0.2, 1.2, 1e-6


class Units(NamedTuple):
    """Models with the slopes (as logarithms) and thresholds of their outputs."""

    stack: NDArray
    log_slope: NDArray
    threshold: NDArray
    scale: float

    def measured_in(self, scale: float) -> "Units":
        """Return the same units, distances measured in another scale."""
        ratio = scale / self.scale
        return Units(
            self.stack, self.log_slope + np.log(ratio), self.threshold / ratio, scale
        )


class _Slope(NamedTuple):
    """Error at some units and its derivatives."""

    error: float
    stack: NDArray
    sizes: NDArray
    log_slope: NDArray
    threshold: NDArray
    curvature: NDArray


def project(X: NDArray, stack: NDArray) -> tuple[NDArray, NDArray]:
    """Squared distances (n, K) and [1, alpha] (n, K, 1 + m) of samples to models."""
    n_models, width, d = stack.shape
    flat = stack.reshape(-1, d).astype(X.dtype)
    Z = (X @ flat.T).reshape(len(X), n_models, width)
    offsets = np.einsum("kwd,kd->kw", stack, stack[:, 0]).astype(X.dtype)
    z = np.einsum("ij,ij->i", X, X)[:, None] - 2 * Z[:, :, 0] + offsets[:, 0]
    Z[:, :, 1:] -= offsets[:, 1:]
    Z[:, :, 0] = 1
    z -= np.einsum("nkm,nkm->nk", Z[:, :, 1:], Z[:, :, 1:])
    return np.maximum(z, 0), Z


@dataclass(frozen=True)
class Training:
    """Samples that units are trained on, about their mean; classes that have one."""

    samples: Samples
    codes: NDArray
    X: NDArray
    centre: NDArray
    targets: NDArray
    weights: NDArray
    run: Run = map

    @classmethod
    def of(
        cls, samples: Samples, run: Run = map, codes: NDArray | None = None
    ) -> "Training":
        """Prepare samples: about the mean expanded squares keep their digits.

        `codes` are those of the classes that have a unit, by default all.
        """
        centre = samples.X.mean(axis=0, dtype=float)
        codes = np.arange(len(samples.classes)) if codes is None else codes
        return cls(
            samples,
            codes,
            samples.X - centre.astype(samples.X.dtype),
            centre,
            samples.codes[:, None] == codes,
            samples.weights / samples.weights.sum(),
            run,
        )

    def shifted(self, units: Units, sign: int) -> Units:
        """Units where the samples are (sign 1), or about their mean (-1)."""
        stack = units.stack.copy()
        stack[:, 0] += sign * self.centre
        return units._replace(stack=stack)

    def first(self, n_tangents: int = 0) -> Units:
        """Models of the classes, by default their means, and one slope for all."""
        models = [
            principal_model(self.X[own], self.weights[own], n_tangents)
            for own in self.targets.T
        ]
        stack = np.array([[C, *T] for C, T in models])
        z, _ = project(self.X, stack)
        own = np.where(self.targets, z, 0).sum(axis=1)
        scale = float(self.weights @ own)
        if not scale > 0:
            scale = float(np.einsum("kwd,kwd->", stack, stack)) / len(stack) or 1.0
        n_classes = len(stack)
        return Units(stack, np.full(n_classes, np.log(4.0)), np.ones(n_classes), scale)

    def add_tangent(self, units: Units) -> Units:
        """Give every unit the direction in which its own class strays most from it."""
        C, T = units.stack[:, 0], units.stack[:, 1:]
        added = np.zeros((len(C), 1, C.shape[1]))
        for j, own in enumerate(self.targets.T):
            delta = self.X[own].astype(float) - C[j]
            residual = delta - (delta @ T[j].T) @ T[j]
            both_ways = np.concatenate([residual, -residual])
            weights = np.tile(self.weights[own], 2)
            added[j] = principal_model(both_ways, weights, 1)[1]
        T = retract(np.concatenate([T, added], axis=1))
        # What the new tangent explains is no distance any more: thresholds follow.
        before = self._own_distances(units.stack)
        stack = np.concatenate([C[:, None], T], axis=1)
        ratio = self._own_distances(stack) / np.where(before > 0, before, 1)
        threshold = units.threshold * np.where(before > 0, ratio, 1)
        return units._replace(stack=stack, threshold=threshold)

    def _own_distances(self, stack: NDArray) -> NDArray:
        z, _ = project(self.X, stack)
        w = self.weights[:, None] * self.targets
        return (w * z).sum(axis=0) / w.sum(axis=0)

    def train(
        self, units: Units, max_iter: int, tol: float
    ) -> tuple[Units, float, int]:
        """Descend until the error stalls; return units, error and steps."""
        rate, slope, stalls, n_steps = START, self.slope(units), 0, 0
        for _ in range(max_iter):
            proposal = self._step(units, slope, rate)
            new = self.slope(proposal)
            n_steps += 1
            if not new.error <= slope.error:
                rate /= 2
                if rate < SMALLEST:
                    break
                continue
            stalls = stalls + 1 if slope.error - new.error <= tol * slope.error else 0
            units, slope, rate = proposal, new, rate * GROWTH
            if stalls >= 2:
                break
        return units, slope.error, n_steps

    def step(self, units: Units, rate: float = START) -> tuple[Units, float]:
        """One step, so short that the error falls; return units and error."""
        slope = self.slope(units)
        while rate >= SMALLEST:
            proposal = self._step(units, slope, rate)
            error = self.slope(proposal).error
            if error <= slope.error:
                return proposal, error
            rate /= 2
        return units, slope.error

    def slope(self, units: Units) -> _Slope:
        """One pass: the error and all derivatives, by blocks of samples."""
        a = np.exp(units.log_slope)

        def block(rows: slice) -> tuple[Any, ...]:
            X, w = self.X[rows], self.weights[rows, None]
            z, ones = project(X, units.stack)
            away = z / units.scale - units.threshold
            o = expit(-a * away)
            miss = o - self.targets[rows]
            by_u = -2 * w * miss * o * (1 - o)
            g = by_u * a / units.scale
            weighted = g[:, :, None].astype(X.dtype) * ones
            moments = np.matmul(weighted.transpose(1, 2, 0), ones.transpose(1, 0, 2))
            flat = weighted.reshape(len(X), -1)
            bend = w * (o * (1 - o)) ** 2
            return (
                float((w * miss**2).sum()),
                (flat.T @ X).reshape(units.stack.shape),
                moments,
                np.einsum("nk,nkw->kw", np.abs(g), ones.astype(float) ** 2),
                (by_u * a * away).sum(axis=0),
                (-by_u * a).sum(axis=0),
                np.stack([(bend * (a * away) ** 2).sum(0), (bend * a**2).sum(0)]),
            )

        parts = list(self.run(block, batched_slices(len(self.X), SAMPLE_ROWS)))
        error, sums, moments, sizes, log_slope, threshold, curvature = (
            sum(part[1:], start=part[0]) for part in zip(*parts, strict=True)
        )
        gradient = -2 * (sums - np.matmul(moments, units.stack))
        return _Slope(error, gradient, sizes, log_slope, threshold, 2 * curvature)

    def _step(self, units: Units, slope: _Slope, rate: float) -> Units:
        stack = units.stack.copy()
        centroids, tangents = slope.sizes[:, 0].mean(), slope.sizes[:, 1:]
        if centroids > 0:
            stack[:, 0] -= rate * slope.stack[:, 0] / (2 * centroids)
        if tangents.size and tangents.mean() > 0:
            stack[:, 1:] -= rate * slope.stack[:, 1:] / (2 * tangents.mean())
            stack[:, 1:] = retract(stack[:, 1:])
        # Gauss-Newton for the two numbers of a unit, no further than a tenth at once.
        flat = slope.curvature + 1e-6
        by_slope = np.clip(rate * slope.log_slope / flat[0], -0.1, 0.1)
        by_threshold = np.clip(rate * slope.threshold / flat[1], -0.1, 0.1)
        return Units(
            stack, units.log_slope - by_slope, units.threshold - by_threshold,
            units.scale,
        )  # fmt: skip


@parameters
class TDNeuronClassifier(TangentModels, TrainedPrototypes):
    """One discriminant tangent model per class, trained by gradient descent.

    Tangents are added while the validation error falls.

    Parameters
    ----------
    max_tangents : int or "auto", default="auto"
        Tangents of a unit at most, at least 0 and below the number of features; "auto"
        is ``min(20, n_features // 8)``.
    max_iter : int, default=20
        Steps of the descent at most between two additions of a tangent; the last
        training, with all samples, takes five times as many.
    tol : float, default=1e-3
        The error stalls when a step lowers it by less than this fraction.
    validation_fraction : float, default=0.2
        Share of the samples on which the number of tangents is chosen.
    n_iter_no_change : int, default=4
        Additions without a better validation score after which none is tried any more.
    class_weight : dict or "balanced", default=None
        Factors of the sample weights.
    random_state : int, RandomState or None, default=None
        Choice of the validation samples.
    n_jobs : int, default=None
        Threads; results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    prototypes_ : ndarray of shape (n_classes, n_features)
        Centroids of the units.
    prototype_labels_ : ndarray of shape (n_classes,)
        Their labels.
    tangents_ : ndarray of shape (n_classes, n_tangents, n_features)
        Orthonormal frames.
    slopes_, thresholds_ : ndarray of shape (n_classes,)
        a and c of every unit.
    temperature_ : float
        Softmax temperature of ``predict_proba``, fitted to samples left out of refits,
        or with many samples to the training samples. After ``partial_fit`` it is fitted
        to the latest 2000, each predicted before it was learned.
    n_tangents_ : int
        Number of tangents found.
    history_ : dict of lists
        Per number of tangents tried: ``"n_tangents"``, ``"error"`` (weighted mean
        squared error of the outputs), ``"validation_score"``.
    n_iter_ : int
        Steps of the last training, with all samples.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    widemargin.HSSClassifier : Tangents that describe a class.
    widemargin.TVQClassifier : Several models per class, learned from margins.

    Notes
    -----
    The answer is the unit with the largest output. Distances, in
    :meth:`decision_function` and :meth:`margins`, are ``-log(output)``: outputs and not
    distances decide, so that there is neither a certified radius nor a margin bound.

    After the first 500 samples, or after :meth:`fit`, :meth:`partial_fit` takes one
    step per batch. It is short enough for the error of the batch to fall. A batch of
    fewer than 200 samples is joined with the latest before it. The step is the first
    step of training times ``clip(15 * e, 0.09, 1)``, with e the error rate on the last
    200 samples before they were learned. The model of a new class gets as many tangents
    as the others.

    References
    ----------
    .. [1] D. Sona, A. Sperduti, A. Starita, Discriminant pattern recognition using
       transformation-invariant neurons, Neural Computation 12 (2000).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.prototypes import TDNeuronClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TDNeuronClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> model.outputs(X[1000:]).shape
    (797, 10)
    >>> bool(model.score(X[1000:], y[1000:]) > 0.9)
    True
    """

    max_tangents: int | Literal["auto"] = "auto"
    _: KW_ONLY
    max_iter: Counted = 20
    tol: NotNegative = 1e-3
    validation_fraction: Fraction = 0.2
    n_iter_no_change: Counted = 4
    class_weight: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    # Its validation samples say how many tangents there are.
    early_stopping = False
    _exact_weights = True
    _joins_batches: ClassVar[bool] = True
    _of_samples = ("units", "dtype", "n_steps")

    def _check_parameters(self) -> None:
        check_declared(self)

    def _learn(
        self,
        samples: Samples,
        held: Samples | None,
        rng: np.random.RandomState,
        run: Run,
    ) -> State:
        state, self.history_ = self._built(samples, rng, run)
        self.n_iter_ = state["n_steps"]
        return state

    def _left_out_costs(self, samples: Samples) -> LeftOut:
        # A unit has the samples of a whole class: one more or less hardly moves it.
        samples = with_mean_one(samples)
        found = self._refitted_costs(samples)
        return self._costs_of_unseen(samples) if found is None else found

    def _built(
        self, samples: Samples, rng: np.random.RandomState, run: Run, told: bool = True
    ) -> tuple[State, dict[str, list]]:
        """Build up units of the classes there are; return the state and the history."""
        self.metric_ = replace(ONE_SIDED, pass_size=len(samples))
        n_features, codes = samples.X.shape[1], np.unique(samples.codes)
        n_tangents = resolve_n_tangents(self.max_tangents, n_features, "max_tangents")
        self.prototype_labels_ = self.classes_[codes]
        train, held = samples, None
        # Without some samples it has as many tangents as with all.
        whole_model = self.__dict__.get("_is_part")
        if whole_model is not None:
            n_tangents = whole_model.n_tangents_
        elif n_tangents:
            train, held = _parted(samples, self.validation_fraction, rng)
        parts, whole = (Training.of(some, run, codes) for some in (train, samples))

        def grow(state: State, count: int) -> Outcome:
            units = parts.shifted(state["units"], -1)
            if count:
                units = parts.add_tangent(units)
            return _outcome(parts, *parts.train(units, self.max_iter, self.tol))

        def finish(state: State, _: int) -> Outcome:
            units = whole.shifted(state["units"], -1)
            return _outcome(whole, *whole.train(units, 5 * self.max_iter, self.tol))

        state, history = run_epochs(
            self,
            self._start(parts, rng),
            grow,
            n_tangents + 2 if n_tangents else 1,
            samples,
            held=held,
            last=finish,
            told=told,
        )
        return state, {"validation_score": [], **history}

    def _begin(self, samples: Samples, rng: np.random.RandomState, run: Run) -> Outcome:
        state, history = self._built(samples, rng, run, told=False)
        return Outcome(
            state, {key: history[key][-1] for key in ("n_tangents", "error")}
        )

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> Training:
        codes = np.union1d(self._prototype_codes, samples.codes)
        return Training.of(samples, run, codes)

    def _start(self, data: Training, rng: np.random.RandomState) -> State:
        return _outcome(data, data.first(), 0.0).state

    def _resume(
        self, state: State, data: Training, rng: np.random.RandomState
    ) -> State:
        known = self._prototype_codes
        self.prototype_labels_ = self.classes_[data.codes]
        return {"units": self._with_new(data.samples, known, state["scale"])}

    def _step(
        self, data: Training, rng: np.random.RandomState, n_epochs: float
    ) -> Step:
        rate = START * min(1.0, TANGENT_GAIN * self._pace)

        def descend(state: State, _: int) -> Outcome:
            return _outcome(data, *data.step(data.shifted(state["units"], -1), rate))

        return descend

    def _with_new(self, samples: Samples, known: NDArray, scale: float) -> Units:
        """Units of the classes known, and of those that a batch brings."""
        stack = np.concatenate([self.prototypes_[:, None], self.tangents_], axis=1)
        a, c = self.slopes_.astype(float), self.thresholds_.astype(float)
        old = Units(stack.astype(float), np.log(a), c, 1.0).measured_in(scale)
        new = np.setdiff1d(samples.codes, known)
        if not len(new):
            return old
        own = samples.take(np.flatnonzero(np.isin(samples.codes, new)))
        beside = Training.of(own, codes=new)
        added = beside.shifted(beside.first(stack.shape[1] - 1), 1)
        added = added.measured_in(old.scale)
        order = np.argsort(np.concatenate([known, new]))
        return Units(
            np.concatenate([old.stack, added.stack])[order],
            np.concatenate([old.log_slope, added.log_slope])[order],
            np.concatenate([old.threshold, added.threshold])[order],
            old.scale,
        )

    def _fitted_attributes(self, state: State) -> dict[str, Any]:
        units, dtype = state["units"], state["dtype"]
        # Steeper ones are steps, and a product with a distance might be no number.
        steepest = 345.0 if dtype == np.float64 else 85.0
        log_slope = np.minimum(units.log_slope - np.log(units.scale), steepest)
        return {
            "prototypes_": units.stack[:, 0].astype(dtype),
            "tangents_": units.stack[:, 1:].astype(dtype),
            "slopes_": np.exp(log_slope).astype(dtype),
            "thresholds_": (units.threshold * units.scale).astype(dtype),
            "n_tangents_": units.stack.shape[1] - 1,
        }

    def _squared_distances(self, X: NDArray) -> NDArray:
        z = super()._squared_distances(X)
        u = self.slopes_.astype(float) * (z - self.thresholds_)
        # Far from all units -log(output) is the largest number there is, not infinity.
        return saturated(np.logaddexp(0, u) / 4, z.dtype) * z.dtype.type(4)

    def outputs(self, X: ArrayLike) -> NDArray:
        """Return the outputs of all units.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Numbers between 0 and 1, one column per class; they do not sum to 1.
        """
        samples = self._check_predict(X)
        return np.exp(-self._in_chunks(samples, self._squared_distances))

    def _lipschitz(self) -> float:
        raise ValueError(
            "certified_radius is not defined for TDNeuronClassifier, whose answers "
            "compare outputs and not distances."
        )

    def _check_bound(self) -> None:
        no_bound("TDNeuronClassifier compares outputs")


def _outcome(data: Training, units: Units, error: float, n_steps: int = 0) -> Outcome:
    """Say what units, about the mean of the samples, have come to."""
    state = {
        "units": data.shifted(units, 1),
        "scale": units.scale,
        "dtype": data.X.dtype,
        "n_steps": n_steps,
    }
    return Outcome(state, {"n_tangents": units.stack.shape[1] - 1, "error": error})


def _parted(
    samples: Samples, fraction: float, rng: np.random.RandomState
) -> tuple[Samples, Samples]:
    """Part training from validation; where no class can spare one, both are all."""
    if not np.any(np.round(fraction * np.bincount(samples.codes)) >= 1):
        return samples, samples
    if np.bincount(samples.codes).max() < 2:
        return samples, samples
    return hold_out(samples, fraction, rng)
