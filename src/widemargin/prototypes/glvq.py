"""Generalised LVQ: gradient descent on a loss of the relative margin.

The cost is ``sum_i w_i L(mu_i)`` with ``mu = (D_minus - D_plus)/(D_minus + D_plus)`` on
squared Euclidean distances. It depends on them through two coefficients per sample,

    c_plus  = w L'(mu) (-2 D_minus / (D_plus + D_minus)^2),
    c_minus = w L'(mu) (+2 D_plus  / (D_plus + D_minus)^2);

written into a sparse (n_samples, n_prototypes) matrix C with column sums s, the
gradient is ``-2 (C^T X - diag(s) P)``: a sum over samples (`glvq_sums`), which shards
may share.
Mini-batches, Adam steps measured in the within-class spread of the data, rate falling
linearly to zero.

Adam: ``m`` and ``v`` are running means of the gradient and of its square; the step is
``m_hat sqrt(v_hat) / (v_hat + epsilon^2)`` with both corrected for their start at zero,
epsilon being 1e-5 of the largest root of v_hat. A coordinate moves by at most
about one unit per step, so a unit chosen from the spread of the data makes one learning
rate do for data of any scale.

Sato and Yamada, "Generalized learning vector quantization", NIPS 1995; Kingma and Ba,
"Adam: a method for stochastic optimization", ICLR 2015.
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from widemargin._compute.nearest import (
    expanded_distances,
    paired_distances,
    product_error,
    settled,
    squared_norms,
)
from widemargin._core.arrays import (
    in_dtype,
    is_tensor,
    numpy_dtype,
    put,
    to_numpy,
    xp_of,
)
from widemargin._core.checks import check_count, check_number, check_option, parameters
from widemargin._core.lazy import bare
from widemargin._core.samples import Samples
from widemargin._core.shards import Here, Shards
from widemargin.margins import Sigmoid, check_loss
from widemargin.margins.losses import LOSSES
from widemargin.prototypes.placing import (
    REPAIRS,
    SCALES,
    chosen_scale,
    nearest_of,
    revivals,
    within_class_spread,
)
from widemargin.prototypes.soft import SOFT, SoftLoss, SoftPairs, soft_pairs
from widemargin.prototypes.training import (
    DEVICE_METHODS,
    Outcome,
    Run,
    State,
    Step,
    TrainedPrototypes,
    compiled_loss,
)

# Adam's epsilon, as a share of the largest gradient: what is smaller by far is
# rounding, depends on the order of a sum, and is not worth a step.
LEAST = 1e-5
# Samples that a temperature starts from.
WARMED = 1000


class Pairs(NamedTuple):
    """The loss of a batch, and C: two `values` per row in the columns `at`."""

    loss: float
    values: np.ndarray
    at: np.ndarray
    column_sums: np.ndarray

    def transposed_product(self, X: np.ndarray) -> np.ndarray:
        """Return ``C^T X``."""
        from widemargin._compute.lvq import pair_product

        return pair_product(self.values, self.at, X, len(self.column_sums))

    @property
    def winners(self) -> np.ndarray:
        """Nearest prototype of the own class."""
        return self.at[:, 0]

    @property
    def slope(self) -> float:
        """Derivative by a temperature, of which a loss of margins has none."""
        return 0.0


def coefficients(
    D: np.ndarray,
    labels: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    loss: Any,
    X_errors: np.ndarray,
    P_errors: np.ndarray,
) -> Pairs | SoftPairs:
    """Return the summed loss and C for (n, K) squared distances `D`.

    A sample whose two distances are both within ``X_errors + P_errors``, their
    rounding, pulls at nothing.
    """
    if isinstance(loss, SoftLoss):
        return soft_pairs(D, labels, codes, weights, loss)
    from widemargin._compute.lvq import relative_margins

    margin, slopes, at = relative_margins(D, labels, codes, X_errors, P_errors)
    values = (weights * loss.derivative(margin))[:, None] * slopes
    sums = np.bincount(at.ravel(), values.ravel(), minlength=D.shape[1])
    value = float(weights @ loss.value(margin))
    return Pairs(value, values, at, sums.astype(D.dtype, copy=False))


@dataclass(frozen=True)
class Centred:
    """Samples about their mean, as a gradient needs them; rows can be taken."""

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    norms: np.ndarray
    # Part of the squared distances that the prototypes cannot change.
    offsets: np.ndarray | None
    # Whether expanded squares may lose a distance between classes.
    is_risky: bool

    def __getitem__(self, rows: slice) -> "Centred":
        return self._each(lambda a: a[rows])

    @property
    def search(self) -> tuple:
        """What a compiled epoch takes of them; in float32 in units of the longest."""
        unit = 1 / (float(self.norms.max()) ** 0.5 or 1.0)
        offsets = self.X[:0, 0] if self.offsets is None else self.offsets
        narrow = np.empty(self.X.shape, np.float32)
        np.multiply(self.X, unit, out=narrow, casting="same_kind")
        return (
            self.X, narrow, unit, self.norms, offsets, self.codes, self.weights,
        )  # fmt: skip

    def at(self, device: Any) -> "Centred":
        """Return the samples, whole if they are to be on a device; None leaves them."""
        return self._each(lambda a: put(a, device))

    def _each(self, change: Callable[[Any], Any]) -> "Centred":
        names = "X", "codes", "weights", "norms", "offsets"
        rows = {name: getattr(self, name) for name in names}
        return replace(
            self, **{name: change(a) for name, a in rows.items() if a is not None}
        )


class Sums(NamedTuple):
    """What samples contribute to one step: add those of shards."""

    loss: float
    gradient: np.ndarray
    wins: np.ndarray
    # Derivative by the logarithm of the temperature.
    slope: float = 0.0


def glvq_sums(P: np.ndarray, labels: np.ndarray, batch: Centred, loss: Any) -> Sums:
    """Loss, gradient in the prototypes, and how often each was its class's nearest."""
    if is_tensor(P):
        return Sums(*device_lvq().glvq_sums(P, labels, batch, loss))
    error = product_error(P.dtype, P.shape[1])
    x_errors, p_errors = error * batch.norms, error * squared_norms(P)
    D = expanded_distances(batch.X, P, batch.norms)
    if batch.is_risky:
        settled(
            D, x_errors, p_errors, lambda i, j: paired_distances(batch.X[i], P[j]),
            n_features=P.shape[1],
        )  # fmt: skip
        x_errors, p_errors = 0 * x_errors, 0 * p_errors
    if batch.offsets is not None:
        D += batch.offsets[:, None]
    pairs = coefficients(
        D, labels, batch.codes, batch.weights, loss, x_errors, p_errors
    )
    towards = pairs.transposed_product(batch.X) - pairs.column_sums[:, None] * P
    wins = np.bincount(pairs.winners, minlength=len(P))
    return Sums(pairs.loss, -2 * towards, wins, pairs.slope)


def own_share(rows: Centred, batch: slice, n: int) -> Centred:
    """Return the rows of a part that belong to a batch of `n` rows in all parts."""
    m = len(rows.codes)
    return rows[slice(batch.start * m // n, batch.stop * m // n)]


def batch_sums(
    rows: Centred, batch: slice, n: int, P: np.ndarray, labels: np.ndarray, loss: Any
) -> Sums | None:
    """Return what a part contributes to the step of one batch."""
    some = own_share(rows, batch, n)
    if not len(some.codes):
        return None
    if not is_tensor(some.X):
        return glvq_sums(P, labels, some, loss)
    device = some.X.device
    sums = glvq_sums(put(P, device), put(labels, device), some, loss)
    found: Any = [to_numpy(part) for part in sums]
    return Sums(float(found[0]), *found[1:])


def centred_part(
    samples: Samples,
    model: Any,
    scale: Any,
    centre: np.ndarray,
    mean_weight: float,
    device: bool,
) -> Centred:
    """Prepare the samples of a shard, in an order of its own."""
    rng = np.random.RandomState(int(samples.rows[0]) % 2**32)
    mapped = Mapped(samples, model._mapped(samples.X))
    order = rng.permutation(len(samples))
    rows = mapped.centred(order, scale, centre, mean_weight)[1]
    return rows.at(samples.device if device else None)


def adam_names(name: str) -> tuple[str, str, str]:
    """Where a state has the moments of the parameter `name`, and the steps so far."""
    return f"{name}_m", f"{name}_v", f"{name}_t"


def adam_start(name: str, like: np.ndarray) -> State:
    """Moments before the first step of the parameter `name`."""
    values = np.zeros_like(like), np.zeros_like(like), 0
    return dict(zip(adam_names(name), values, strict=True))


def adam_grow(state: State, name: str, like: np.ndarray) -> State:
    """Moments of a parameter that has gained rows."""
    grown = adam_start(name, like) | {f"{name}_t": state[f"{name}_t"]}
    for key in (f"{name}_m", f"{name}_v"):
        grown[key][: len(state[key])] = state[key]
    return grown


def adam(
    state: State, name: str, gradient: np.ndarray, rates: tuple = (0.9, 0.999)
) -> tuple[State, np.ndarray]:
    """Take in one gradient; return the new moments and the direction of ascent."""
    t = state[f"{name}_t"] + 1
    m, v = (state[f"{name}_{key}"] for key in "mv")
    if is_tensor(gradient):
        m, v, ascent = device_lvq().adam_step(m, v, gradient, *rates, t, LEAST)
    else:
        from widemargin._compute.lvq import adam_in_place

        m, v = m.copy(), v.copy()
        # In the type of the moments, whatever a loss of one's own returned.
        ascent = np.array(gradient, dtype=m.dtype, order="C")
        adam_in_place(m.ravel(), v.ravel(), ascent.ravel(), *rates, t, LEAST)
    return dict(zip(adam_names(name), (m, v, t), strict=True)), ascent


def compiled() -> Any:
    """Return the compiled epochs."""
    from widemargin._compute import glvq

    return glvq


def class_order(labels: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Prototypes in the order of their classes, and where each class begins."""
    order = np.argsort(labels, kind="stable")
    return order, np.searchsorted(labels[order], np.arange(n_classes + 1))


def edges_and_rates(batches: list[tuple[slice, float]]) -> tuple[np.ndarray, ...]:
    """First and last rows of batches, and their rates."""
    rows = np.array([(b.start, b.stop) for b, _ in batches], dtype=np.intp).T
    return rows[0].copy(), rows[1].copy(), np.array([rate for _, rate in batches])


def adam_copy(state: State, name: str) -> State:
    """Copy the moments of the parameter `name`, to be changed in place."""
    m, v, t = adam_names(name)
    return {m: state[m].copy(), v: state[v].copy(), t: state[t]}


def flat(moments: State) -> tuple:
    """Moments as compiled epochs take them: both in one row, and the steps so far."""
    m, v, t = moments.values()
    return (m.ravel(), v.ravel()), t


def changed(
    state: State,
    added: np.ndarray,
    stay: np.ndarray,
    X: np.ndarray,
    codes: np.ndarray,
) -> State:
    """Add the prototypes `X` to a state, and leave those that do not stay."""
    if stay.all() and not len(added):
        return state
    P = np.concatenate([state["prototypes"][stay], X])
    kept = {k: state[f"prototypes_{k}"][stay] for k in ("m", "v")}
    small = {f"prototypes_{k}": v for k, v in kept.items()}
    moments = adam_grow({**state, **small}, "prototypes", P)
    labels = np.concatenate([state["codes"][stay], codes])
    return {**state, **moments, "prototypes": P, "codes": labels}


def batch_edges(size: int, n: int) -> np.ndarray:
    """Where batches of at most `size` of n rows begin, and the end."""
    return np.linspace(0, n, -(-n // size) + 1).astype(np.intp)


def shuffled_batches(
    size: int,
    rate: float,
    n: int,
    rng: np.random.RandomState,
    epoch: int,
    n_epochs: float,
) -> Iterator[tuple[slice, float]]:
    """Consecutive rows in random order, and the learning rate of each batch.

    The rows themselves were shuffled once.
    """
    pieces = list(pairwise(batch_edges(size, n).tolist()))
    for t, i in enumerate(rng.permutation(len(pieces)), epoch * len(pieces)):
        now = rate * (1 - t / (n_epochs * len(pieces)))
        # A Python number: it leaves the dtype of what it multiplies.
        yield slice(*pieces[i]), float(now)


def at(loss: Any, state: State) -> Any:
    """Return the loss, a soft one at the temperature of the state."""
    if isinstance(loss, SoftLoss):
        return loss._replace(temperature=float(np.exp(state["heat"][0])))
    return loss


@dataclass(frozen=True)
class Mapped:
    """Samples, and the rows that stand for them where prototypes are trained."""

    samples: Samples
    X: np.ndarray
    offsets: np.ndarray | None = None
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
        X -= put(centre, X.device if is_tensor(X) else None)
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


def device_lvq() -> Any:
    """Return the same sums for tensors; needs torch."""
    from widemargin._compute.device import lvq

    return lvq


def replayed_on(device: Any, step: Any, loss: Any) -> Any:
    """Return the step of a batch, made ready to be repeated on a device."""
    if device is None:
        return None
    from widemargin._compute.device.replay import Replayed

    return Replayed(step, device, recorded=device_lvq().stays_there(loss))


def uncounted(P: np.ndarray, labels: np.ndarray) -> State:
    """Prototypes before the first batch of an epoch on a device."""
    wins = np.zeros(len(P), dtype=np.intp)
    return {"P": P, "labels": labels, "wins": wins, "total": 0.0}


def counted(now: State, sums: Any) -> State:
    """Add the loss and the wins of a batch to those of the epoch."""
    return {"wins": now["wins"] + sums.wins, "total": now["total"] + sums.loss}


@parameters
class GLVQClassifier(TrainedPrototypes):
    """Generalised learning vector quantisation.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Number of prototypes. A class with fewer distinct samples gets one for each.
        "auto" starts a class of n samples with n / 10, at least 1 and at most 20;
        in the first half of the epochs it adds some, up to twice as many, where
        margins are negative, and at the end drops those that win no sample. One is all
        where samples that are left out fall to the means of the classes more rightly,
        as they do where features are many and noisy.
    loss : str or MarginLoss, optional
        Loss of the relative margin, see :mod:`widemargin.margins`. By default
        ``Sigmoid(beta=10)``, a smooth count of the mistakes; smaller beta widens the
        margins, larger beta counts harder. Or a soft one: "rslvq", robust soft LVQ,
        or "cross_entropy" of a softmax over the classes, see
        :mod:`widemargin.prototypes.soft`.
    temperature : float or "auto", default="auto"
        Of the soft assignment, in units of the mean squared distance of a training
        sample to the nearest prototype of its class. "auto" learns it: together with
        the prototypes where the loss is soft, and for ``predict_proba`` at the end, on
        the samples that early stopping holds out or on every sample as if its
        prototypes had not seen it.
    init : {"kmeans", "means", "samples"} or array of shape (n_prototypes, n_features)
        Where they start: k-means within each class, class means (with a little noise
        to tell several apart), random samples, or the given array, which then also
        decides how many there are.
    init_labels : array-like of shape (n_prototypes,), optional
        Labels of the array `init`.
    max_iter : int, default=30
        Epochs.
    learning_rate : float, default=0.1
        First step, in units of the within-class spread of each feature.
    batch_size : int or "auto", default="auto"
        Distinct samples per gradient; "auto" makes about twenty batches, of 16 to 512,
        or of any size where X is a Dask collection.
    repair : {"dead", "none"}, default="dead"
        In the first half of the epochs, put a prototype that was the nearest of its
        class for no sample on the sample of its class that is covered worst, or leave
        it where it is.
    scale : {"auto", "spread", "none"}, default="auto"
        Whether features are divided by their within-class spread before they are
        compared. "auto" does so where the nearest neighbours of up to 1000 training
        samples are then wrong less often, as they are for features of unequal units;
        pixels stay as they are.
    class_weight : dict or "balanced", optional
        Factors on the sample weights by label.
    early_stopping : bool, default=False
        Hold out a part of the training samples and return the prototypes that were
        best on it.
    validation_fraction : float, default=0.1
        Part of each class that early stopping holds out.
    n_iter_no_change : int, default=5
        Epochs without a better validation score after which to stop.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial prototypes, the batches and the held-out samples.

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

    ``partial_fit`` makes one pass over each batch after the first 500 samples, or
    after ``fit``, with Adam's moments and the spread of the samples before. A batch
    of fewer than 200 samples is joined with the latest before it, and the rate is lower
    by its share in them. The rate is `learning_rate`, times five times the share of
    mistakes among about the latest 200 samples before they were learned, at most once
    and at least 0.03 times: a good model stays so, and a stream that changes is
    followed.

    NaN in X is a missing value: in its place, in training too, is what the values that
    are there let expect, by a mixture of Gaussians of at most 36 factors, one per class
    or up to eight where these expect more of values that were hidden, learned from up
    to 2000 training samples, 1000 if all are whole. That is right where values are
    missing at random given those that are there; what is missing because of its value
    is better told by a feature more. Margins take what is expected for known.
    ``partial_fit`` learns the mixture from the first samples, as many.

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
    _takes_missing = True
    _joins = True
    device_methods: ClassVar[tuple[str, ...]] = DEVICE_METHODS
    lazy_methods: ClassVar[tuple[str, ...]] = ("fit",)

    prototypes_per_class: Any = "auto"
    _: KW_ONLY
    loss: Any = None
    temperature: float | Literal["auto"] = "auto"
    init: Any = "kmeans"
    init_labels: Any = None
    max_iter: int = 30
    learning_rate: float = 0.1
    batch_size: int | Literal["auto"] = "auto"
    repair: Literal["dead", "none"] = "dead"
    scale: Literal["auto", "spread", "none"] = "auto"
    class_weight: Any = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    random_state: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.batch_size, str) and self.batch_size == "auto"):
            check_count("batch_size", self.batch_size, "'auto' or ")
        check_number("learning_rate", self.learning_rate, above=0)
        check_option("repair", self.repair, REPAIRS)
        check_option("scale", self.scale, SCALES)
        self._checked_loss()
        self._check_temperature()

    @property
    def _is_soft(self) -> bool:
        return isinstance(self.loss, str) and self.loss in SOFT

    @property
    def _stays(self) -> bool:
        return not self._is_soft

    def _checked_loss(self) -> Any:
        if self._is_soft:
            return SoftLoss(self.loss, 1.0)
        if isinstance(self.loss, str):
            check_option("loss", self.loss, (*LOSSES, *SOFT))
        return check_loss(Sigmoid(beta=10.0) if self.loss is None else self.loss)

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> Mapped:
        spread = None
        if first:
            labelled = samples.X, samples.codes, samples.weights
            spread = within_class_spread(*labelled)
            self.scale_ = chosen_scale(*labelled, self.scale, spread)
        # That of the features as they are, where they stay so.
        known = spread if self.scale_ is None else None
        return Mapped(samples, self._scaled(samples.X), spread=known)

    def _start(self, data: Mapped, rng: np.random.RandomState) -> State:
        P = self._place(data.X, data.samples, rng)
        spread = data.spread
        if spread is None:
            spread = within_class_spread(
                data.X, data.samples.codes, data.samples.weights
            )
        return {
            "prototypes": self._shown(P),
            "codes": self._prototype_codes,
            "spread": spread,
            **adam_start("prototypes", P),
        }

    def _resume(self, state: State, data: Mapped, rng: np.random.RandomState) -> State:
        added = self._shown(self._place_new(data.X, data.samples, rng))
        P = np.concatenate([state["prototypes"], added])
        moments = adam_grow(state, "prototypes", P)
        return {**state, "prototypes": P, "codes": self._prototype_codes, **moments}

    def _batches(
        self,
        n: int,
        rng: np.random.RandomState,
        epoch: int,
        n_epochs: float,
        most: int = 512,
    ) -> list[tuple[slice, float]]:
        size = self._size_of_batch(n, most)
        rate = self.learning_rate * (self._pace if n_epochs == np.inf else 1)
        return list(shuffled_batches(size, rate, n, rng, epoch, n_epochs))

    def _size_of_batch(self, n: int, most: int = 512) -> int:
        if isinstance(self.batch_size, str):
            return min(max(n // 20, 16), most)
        return self.batch_size

    def _order(self, samples: Samples, rng: np.random.RandomState) -> np.ndarray:
        """Random order, but by class within a batch: its prototypes stay at hand."""
        order = rng.permutation(len(samples))
        if samples.shards is not None:
            return order
        edges = batch_edges(self._size_of_batch(len(order)), len(order))
        batch = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        return order[np.lexsort((samples.codes[order], batch))]

    def _mapped(self, X: np.ndarray) -> np.ndarray:
        """Map samples to the space that prototypes are trained in."""
        return self._scaled(X)

    def _summed_over(
        self,
        samples: Samples,
        rows: Centred,
        scale: Any,
        centre: np.ndarray,
        plain: bool,
    ) -> Here | Shards:
        """Return where the sums of a batch are made; on devices if they are `plain`."""
        shards = samples.shards
        if shards is None:
            return Here(rows)
        given = (bare(self), scale, centre, shards.mean_weight, plain)
        return shards.shards.map(centred_part, *given)

    def _step(self, data: Mapped, rng: np.random.RandomState, n_epochs: float) -> Step:
        loss, n = self._checked_loss(), data.samples.n_rows
        centre, host = data.centred(self._order(data.samples, rng))
        # The sums are made where the samples came from; states are always NumPy's.
        device = None if self._is_soft else data.samples.device
        rows = host.at(device)
        parts = self._summed_over(data.samples, rows, 1, centre, not self._is_soft)
        most = 512 if isinstance(parts, Here) else n
        named = None
        if isinstance(parts, Here) and device is None:
            named = compiled_loss(loss)
        search = () if named is None else host.search

        def descend(now: State, some: Any, rate: Any) -> State:
            """One step on a device."""
            sums = glvq_sums(now["P"], now["labels"], rows[some], loss)
            moments, ascent = adam(now, "prototypes", sums.gradient)
            steps = rate * now["spread"]
            P = now["P"].addcmul(ascent, steps, value=-1)
            return {**moments, "P": P, **counted(now, sums)}

        replayed = replayed_on(device, descend, loss)

        def train(state: State, epoch: int) -> Outcome:
            labels = state["codes"]
            P = self._placed_again(state["prototypes"]) - centre
            state = self._warm(state, host.X[:WARMED], host.codes[:WARMED], P)
            batches = self._batches(n, rng, epoch, n_epochs, most)
            wins, total = np.zeros(len(P), dtype=np.intp), 0.0
            if named is not None:
                moments = adam_copy(state, "prototypes")
                total = compiled().glvq_epoch(
                    P, *search, *class_order(labels, len(self.classes_)),
                    *edges_and_rates(batches), state["spread"], *flat(moments), *named,
                    LEAST, wins,
                )  # fmt: skip
                moments["prototypes_t"] += len(batches)
                state = {**state, **moments}
            elif device is None:
                for batch, rate in batches:
                    sums = parts.sum(batch_sums, batch, n, P, labels, at(loss, state))
                    state = self._heated(state, sums.slope, rate)
                    moments, ascent = adam(state, "prototypes", sums.gradient)
                    state = {**state, **moments}
                    P = P - rate * state["spread"] * ascent
                    total += sums.loss
                    wins += sums.wins
            else:
                names = "spread", *adam_names("prototypes")
                now = {name: state[name] for name in names}
                now = replayed.run({**now, **uncounted(P, labels)}, batches)
                P, wins, total = now["P"], now["wins"], now["total"]
                state = {**state, **{name: now[name] for name in names}}
            if self._repairs(wins, epoch, n_epochs):
                dead, samples = revivals(host.X, host.codes, P, labels, wins)
                P[dead] = to_numpy(host.X[samples])
            added, stay = self._changes(
                host, labels, lambda: nearest_of(host.X, P), rng, epoch, n_epochs
            )
            state = {**state, "prototypes": P}
            fresh = to_numpy(host.X[added])
            state = changed(state, added, stay, fresh, host.codes[added])
            P = self._shown(state["prototypes"] + centre)
            return Outcome({**state, "prototypes": P}, {"loss": float(total) / n})

        return train

    def _warm(
        self, state: State, X: np.ndarray, codes: np.ndarray, P: np.ndarray
    ) -> State:
        """Begin with the temperature of a soft loss: that of the own distances."""
        if not self._is_soft or "heat" in state:
            return state
        D = expanded_distances(X, P)
        D[codes[:, None] != state["codes"][None, :]] = np.inf
        own = D.min(axis=1)
        unit = float(np.mean(own[np.isfinite(own)], dtype=np.float64)) or 1.0
        if not isinstance(self.temperature, str):
            unit *= float(self.temperature)
        heat = np.log([unit])
        return {**adam_start("heat", heat), **state, "heat": heat}

    def _heated(self, state: State, slope: float, rate: float) -> State:
        """Take a step in the logarithm of the temperature, where it is learned."""
        if not self._is_soft or not isinstance(self.temperature, str):
            return state
        moments, ascent = adam(state, "heat", np.array([slope]))
        return {**state, **moments, "heat": state["heat"] - rate * ascent}

    def _repairs(self, wins: np.ndarray, epoch: int, n_epochs: float) -> bool:
        # A batch of an endless training says little about who is dead.
        early = n_epochs < np.inf and epoch + 1 < n_epochs / 2
        return self.repair == "dead" and early and not wins.all()
