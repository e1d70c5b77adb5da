"""LVQ as descent on a loss of the hypothesis margin (Algorithm 1 of the paper).

With the distance ``s_c(x)`` to class c and ``theta = (s_minus - s_plus)/2``, where
plus is the right class and minus the nearest wrong one, each presentation takes the
step (the paper prints it with the sign that would climb the loss)

    p <- p - gamma_t L'(theta) w_p (x - p)/||x - p||   in the right class,
    p <- p + gamma_t L'(theta) w_p (x - p)/||x - p||   in the nearest wrong class.

Three rules say what the distance to a class is; w_p is its derivative in ||x - p||:

* nearest: the distance to the nearest prototype of c;
* k nearest: to the k-th nearest one, so that the class wins which first collects k
  votes as a ball around x grows (for two classes, the majority of the 2k - 1 nearest);
* Parzen: ``-h log mean_p exp(-||x - p||/h)``, so that the class wins whose kernel
  density at x is highest.

Each is 1-Lipschitz in x and in the prototypes, which is all that the paper's two
lemmas need: theta stays a certified radius for all three.

The batch form (section 5.1) sums the steps of all samples at the same prototypes. It
rests where every prototype is the mean of the samples with the weights

    w_l^r = a_l^r / sum_l a_l^r,    a_l^r = L'(theta_l) S_l(r) / ||x_l - p_r||,

S_l(r) = +1, -1 or 0 as p_r answers for the right class, the nearest wrong one or none.

Crammer, Gilad-Bachrach, Navot and Tishby, "Margin analysis of the LVQ algorithm",
NIPS 2002.
"""

from dataclasses import KW_ONLY
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._compute.engines import formula
from widemargin._compute.nearest import class_minima, squared_distances
from widemargin._compute.presentations import Presentations
from widemargin._core.checks import SIZES
from widemargin._core.decisions import class_codes
from widemargin._core.params import Counted, Fraction, Positive, parameters
from widemargin._core.samples import Samples
from widemargin.margins import check_loss
from widemargin.margins.losses import value_and_slope
from widemargin.prototypes.base import no_bound
from widemargin.prototypes.glvq import GLVQClassifier
from widemargin.prototypes.lvq import (
    feature_range,
    glvq_like,
    padded_range,
    presentation_order,
)
from widemargin.prototypes.optimizer import State
from widemargin.prototypes.training import (
    Outcome,
    Run,
    Step,
    TrainedPrototypes,
)

# How distances to the prototypes of a class become one: the k-th smallest, or soft.
KTH, SOFT = 0, 1


@parameters
class MarginLVQClassifier(TrainedPrototypes):
    """Prototypes that minimise a loss of the hypothesis margin, one sample at a time.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Number of prototypes per class; at most the number of distinct samples. "auto"
        takes the smallest of 1, 2, 5 and a tenth of the samples of a class, at most 20.
        It must not be clearly worse on validation samples than the others.
    loss : str or MarginLoss, default="hinge"
        Any loss of :mod:`widemargin.margins`, or an object of your own with
        ``value`` and ``derivative`` (slower: it is called once per presentation).
    decision : {"nearest", "k_nearest", "parzen"}, default="nearest"
        How prototypes decide: the nearest one; the class that first has
        `n_neighbors` of them as one looks farther; the highest kernel density.
    n_neighbors : int, default=2
        The k of "k_nearest". A class with fewer prototypes counts by its farthest.
    bandwidth : float or "auto", default="auto"
        Width h of the exponential kernel of "parzen". "auto" is a tenth of the mean
        distance of samples to the nearest initial prototype of their class.
    margin_scale : float or "auto", default="auto"
        Unit of the margin in the loss and of the steps. "auto" is the mean absolute
        hypothesis margin at the start, which makes a loss with beta = 1 fit data of any
        scale. 1.0, with ``scale="none"``, is the paper's formula.
    init : {"kmeans", "means", "samples"} or array of shape (n_prototypes, n_features)
        Start of the prototypes: k-means within each class, class means, random samples,
        or the given array, which then sets their number.
    init_labels : array-like of shape (n_prototypes,), optional
        Labels of the array `init`.
    max_iter : int, default=30
        Number of epochs.
    learning_rate : float, default=0.1
        gamma at the start, in units of `margin_scale`; it falls linearly to zero.
    update : {"online", "batch"}, default="online"
        One step per sample, or one step per epoch along the mean of all of them.
    scale : {"auto", "within_class_std", "none"}, default="auto"
        Scaling of the features: by the standard deviation within classes, or none.
        "auto" scales if that lowers the leave-one-out error of 1-NN on up to 1000
        training samples.
    shuffle : bool, default=True
        Present the samples in a new random order every epoch; False keeps the order
        of the data.
    class_weight : dict or "balanced", optional
        Factors on the sample weights by label.
    early_stopping : bool, default=False
        Hold out validation samples and return the model that is best on them.
    validation_fraction : float, default=0.1
        Fraction of each class that early stopping holds out.
    n_iter_no_change : int, default=5
        Early stopping ends after so many epochs without a better validation score.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial prototypes, the order of the samples and the validation
        samples.

    Attributes
    ----------
    prototypes_ : ndarray of shape (n_prototypes, n_features)
        The prototypes, sorted by class.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their labels.
    scale_ : ndarray of shape (n_features,) or None
        What features are divided by in distances; None where they are not.
    margin_scale_, bandwidth_ : float
        The unit and the bandwidth in use.
    decision_ : str
        How the fitted prototypes decide.
    temperature_ : float
        Softmax temperature of ``predict_proba``, fitted to validation samples, else to
        leave-one-out distances; after ``partial_fit`` to the latest 2000 samples, each
        predicted before it was learned.
    classes_ : ndarray of shape (n_classes,)
        The labels there are.
    history_ : dict of list of float
        Per epoch, ``"loss"``: the mean loss at presentation; with early stopping
        ``"validation_score"``: the accuracy.
    n_iter_ : int
        Epochs run.

    See Also
    --------
    widemargin.LVQClassifier : The rules whose margin it explains.
    widemargin.margins.lvq_margin_bound : What its margins guarantee for new samples.

    Notes
    -----
    ``margins`` and ``decision_function`` are relative margins of the squared distances
    to the classes. The hypothesis margin of an answer, in the units of the features, is
    its ``certified_radius`` (a lower bound of it if features are divided). Weights of
    samples set how often they are presented: ``n w / sum(w)`` times per epoch in
    expectation. The batch form uses them as factors. After the first 500 samples, or
    after ``fit``, ``partial_fit`` presents each batch once, with a constant rate. With
    an array as `init` it does so from the first batch on. No prototype is pushed
    farther out of the data than the data are wide.

    References
    ----------
    .. [1] K. Crammer, R. Gilad-Bachrach, A. Navot, N. Tishby, Margin analysis of the
       LVQ algorithm, NIPS 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin.margins import Hinge
    >>> from widemargin.prototypes import MarginLVQClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MarginLVQClassifier(2, loss=Hinge(beta=2.0), random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.history_["loss"][-1] < model.history_["loss"][0]
    True
    """

    lazy_methods: ClassVar = ("fit",)

    prototypes_per_class: Any = "auto"
    _: KW_ONLY
    loss: Any = "hinge"
    decision: Literal["nearest", "k_nearest", "parzen"] = "nearest"
    n_neighbors: Counted = 2
    bandwidth: Positive | Literal["auto"] = "auto"
    margin_scale: Positive | Literal["auto"] = "auto"
    init: Any = "kmeans"
    init_labels: Any = None
    max_iter: Counted = 30
    learning_rate: Positive = 0.1
    update: Literal["online", "batch"] = "online"
    scale: Literal["auto", "within_class_std", "none"] = "auto"
    shuffle: bool = True
    class_weight: Any = None
    early_stopping: bool = False
    validation_fraction: Fraction = 0.1
    n_iter_no_change: Counted = 5
    random_state: Any = None

    def _check_lazy(self) -> None:
        if self.update != "batch":
            raise ValueError(
                "update must be 'batch' where X is a Dask collection: 'online' takes "
                "one sample after the other, wherever they are."
            )

    @property
    def _begins_anew(self) -> bool:
        # Prototypes that are given need no samples to be placed.
        return isinstance(self.init, str)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_loss(self.loss)

    def _squared_distances(self, X: NDArray) -> NDArray:
        # Ranks and densities rest on all distances of a class: none may be coarse.
        coarse = None if self.decision_ == "nearest" else 0.0
        return squared_distances(X, self.prototypes_, coarse=coarse, unit=self.scale_)

    def _reduced(self, D: NDArray) -> NDArray:
        if self.decision_ == "nearest":
            return super()._reduced(D)
        d = np.sqrt(D)
        out = np.full((len(D), len(self.classes_)), np.inf, dtype=d.dtype)
        for c, (start, stop) in enumerate(pairwise(self._bounds().tolist())):
            if start == stop:
                continue
            own = d[:, start:stop]
            if self.decision_ == "k_nearest":
                k = min(self.n_neighbors_, stop - start) - 1
                out[:, c] = np.partition(own, k, axis=1)[:, k] ** 2
            else:
                # Its inverse is a number in the dtype of the distances.
                h = max(self.bandwidth_, SIZES[d.dtype][0] ** 2)
                low = own.min(axis=1)
                # Beyond 800 bandwidths the exponential is 0.
                behind = np.maximum(low[:, None] - own, -800 * h)
                density = np.exp(behind / h).mean(axis=1)
                out[:, c] = np.square(low - h * np.log(density))
        return out

    def _check_bound(self) -> None:
        super()._check_bound()
        if self.decision_ != "nearest":
            no_bound(f"decision={self.decision_!r} compares more than the nearest")

    def _bounds(self) -> NDArray:
        codes = self._prototype_codes
        return np.searchsorted(codes, np.arange(len(self.classes_) + 1))

    def _rule(self) -> tuple[int, int, float]:
        rule = SOFT if self.decision_ == "parzen" else KTH
        k = self.n_neighbors_ if self.decision_ == "k_nearest" else 1
        return rule, k, float(self.bandwidth_)

    def _trial_model(self) -> GLVQClassifier:
        return glvq_like(self)

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> Samples:
        return self._divided(samples, first)

    def _start(self, data: Samples, rng: np.random.RandomState) -> State:
        P = self._sorted(self._place(data.X, data, rng))
        self.decision_, self.n_neighbors_ = self.decision, int(self.n_neighbors)
        self._loss = check_loss(self.loss)
        self._set_scale(data, P)
        return {
            "prototypes": self._inverse_transform(P),
            "feature_range": feature_range(data.limits, P),
        }

    def _resume(self, state: State, data: Samples, rng: np.random.RandomState) -> State:
        added = self._place_new(data.X, data, rng)
        P = np.concatenate([self._scaled(state["prototypes"]), added])
        P = self._sorted(P)
        return {
            "prototypes": self._inverse_transform(P),
            "feature_range": feature_range(data.limits, P, state["feature_range"]),
        }

    def _sorted(self, P: NDArray) -> NDArray:
        """Put the prototypes of a class side by side."""
        order = np.argsort(self._prototype_codes, kind="stable")
        self.prototype_labels_ = self.prototype_labels_[order]
        return np.ascontiguousarray(P[order])

    def _set_scale(self, samples: Samples, P: NDArray) -> None:
        """Bandwidth and unit from the first prototypes, where they are "auto"."""
        codes, n_classes = self._prototype_codes, len(self.classes_)
        D = self._in_chunks(
            samples.X, lambda x: class_minima(squared_distances(x, P), codes, n_classes)
        )
        rows = np.arange(len(D))
        own = np.sqrt(D[rows, samples.codes]).astype(float)
        D[rows, samples.codes] = np.inf
        theta = np.abs(np.sqrt(D.min(axis=1)) - own) / 2
        share = samples.weights / samples.weights.sum()
        mean = float(share @ own)
        self.bandwidth_ = (0.1 * mean or 1.0) if self.bandwidth == "auto" else (
            float(self.bandwidth)
        )  # fmt: skip
        if self.margin_scale != "auto":
            self.margin_scale_ = float(self.margin_scale)
            if self.margin_scale_ < 1e-100 * mean:
                raise ValueError(
                    f"margin_scale={self.margin_scale_:g} is so small beside the "
                    f"distances, {mean:.2g} on average, that margins in it are no "
                    "numbers; give a larger one."
                )
        else:
            # With one class in the first batch there are no margins yet.
            known = np.isfinite(theta).all()
            self.margin_scale_ = (float(share @ theta) if known else 0) or mean or 1.0

    def _step(self, data: Samples, rng: np.random.RandomState, n_epochs: float) -> Step:
        loss, n = check_loss(self.loss), len(data)
        bounds, rule = self._bounds(), self._rule()
        unit, gamma = self.margin_scale_, float(self.learning_rate)
        parts, mass = data.parts(data), data.mass

        def batch(state: State, epoch: int) -> Outcome:
            P = self._scaled(state["prototypes"])
            sums, total = parts.sum(margin_sums, P, bounds, loss, unit, rule)
            step = gamma * unit * (1 - epoch / n_epochs) * sums / mass
            box = padded_range(state["feature_range"])
            moved = (P - step).clip(box[0], box[1]).astype(P.dtype)
            moved = self._inverse_transform(moved)
            return Outcome({**state, "prototypes": moved}, {"loss": total / mass})

        def online(state: State, epoch: int) -> Outcome:
            order = presentation_order(data.weights, self.shuffle, rng)
            # A copy of its own, divided or not.
            P = np.array(self._scaled(state["prototypes"]))
            box, span = padded_range(state["feature_range"]), float(n_epochs * n)
            shown = Presentations(data.X, data.codes, order, epoch * n, span)
            total = margin_epoch(P, bounds, box, shown, loss, unit, gamma, rule)
            P = self._inverse_transform(P)
            return Outcome({**state, "prototypes": P}, {"loss": total / len(order)})

        return batch if self.update == "batch" else online

    def support_weights(self, X: ArrayLike, y: ArrayLike) -> NDArray:
        """Return how much each sample holds each prototype where it is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training samples.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        ndarray of shape (n_samples, n_prototypes)
            The weights w_l^r of the paper's section 5. They sum to 1 over the samples,
            or are all 0 if no sample pulls. At a minimum of the loss prototypes are
            ``weights.T @ X``. Samples that pull at a prototype are its support vectors;
            those of a wrong class have a negative weight.
        """
        samples = self._check_predict(X)
        codes = class_codes(y, self.classes_, len(samples))
        _, alpha = margin_pulls(
            self._scaled(self.prototypes_),
            self._bounds(),
            self._scaled(samples),
            codes,
            self._loss,
            self.margin_scale_,
            self._rule(),
        )
        totals = alpha.sum(axis=0)
        return alpha / np.where(totals == 0, 1, totals)


@formula
def margin_coefficients(
    P: NDArray, bounds: NDArray, X: NDArray, y: NDArray, rule: int, k: int, h: float
) -> tuple[NDArray, NDArray]:
    """Theta (n,) and S_l(r) w_r / ||x_l - p_r|| (n, K), S the sign of the class.

    A class with fewer than `k` prototypes counts by its farthest one.
    """
    n, n_classes = len(X), len(bounds) - 1
    d = np.sqrt(np.stack([((X - p) ** 2).sum(axis=1) for p in P], axis=1)).astype(float)
    s, w = np.full((n, n_classes), np.inf), np.zeros(d.shape)
    for c, (start, stop) in enumerate(pairwise(bounds.tolist())):
        if start == stop:
            continue
        own = d[:, start:stop]
        if rule == SOFT:
            low = own.min(axis=1, keepdims=True)
            shares = np.exp(-(own - low) / h)
            s[:, c] = low[:, 0] - h * np.log(shares.mean(axis=1))
            w[:, start:stop] = shares / shares.sum(axis=1, keepdims=True)
        else:
            order = np.argsort(own, axis=1, kind="stable")
            at = start + order[:, min(k, stop - start) - 1]
            s[:, c] = d[np.arange(n), at]
            w[np.arange(n), at] = 1
    rows = np.arange(n)
    s_plus = s[rows, y]
    s[rows, y] = np.inf
    wrong, s_minus = s.argmin(axis=1), s.min(axis=1)
    classes = np.repeat(np.arange(n_classes), np.diff(bounds))
    signs = (classes == y[:, None]).astype(float) - (classes == wrong[:, None])
    pulls = signs * np.divide(w, d, out=np.zeros_like(w), where=(w > 0) & (d > 0))
    return (s_minus - s_plus) / 2, np.where(np.isinf(s_minus)[:, None], 0.0, pulls)


@formula
def margin_epoch(
    P: NDArray,
    bounds: NDArray,
    box: NDArray,
    shown: Presentations,
    loss: Any,
    unit: float,
    gamma: float,
    rule: tuple[int, int, float],
) -> float:
    """One epoch of Algorithm 1, which moves P in place; return the summed loss."""
    X, y, order, start, total = shown
    losses = 0.0
    for t, i in enumerate(order, start):
        x = X[i]
        theta, pulls = margin_coefficients(P, bounds, x[None], y[i : i + 1], *rule)
        if np.isinf(theta[0]):
            continue
        value, slope = value_and_slope(loss, theta / unit)
        losses += float(value[0])
        step = -gamma * unit * (1 - t / total) * float(slope[0])
        rates = (step * pulls[0]).clip(-1, 1)
        for j in np.flatnonzero(rates):
            moved = P[j] + rates[j] * (x - P[j])
            # A push does not leave the box; written so that NaN counts as outside.
            if rates[j] > 0 or ((box[0] <= moved) & (moved <= box[1])).all():
                P[j] = moved
    return losses


def margin_pulls(
    P: NDArray,
    bounds: NDArray,
    X: NDArray,
    codes: NDArray,
    loss: Any,
    unit: float,
    rule: tuple[int, int, float],
) -> tuple[NDArray, NDArray]:
    """theta/unit (n,) and alpha (n, K): the slope of the loss along ``x - p``."""
    theta, pulls = margin_coefficients(P, bounds, X, codes, *rule)
    with np.errstate(over="ignore"):
        theta = theta / unit
    slopes = np.where(np.isfinite(theta), loss.derivative(theta.clip(-1e9, 1e9)), 0)
    return theta, slopes[:, None] * pulls


def margin_sums(
    samples: Samples,
    P: NDArray,
    bounds: NDArray,
    loss: Any,
    unit: float,
    rule: tuple[int, int, float],
) -> tuple[NDArray, float] | None:
    """Sum the step of the batch form, (K, d), and the loss over samples."""
    if not len(samples):
        return None
    X, codes, weights = samples.X, samples.codes, samples.weights
    theta, alpha = margin_pulls(P, bounds, X, codes, loss, unit, rule)
    pulls = weights[:, None] * alpha
    values = loss.value(theta.clip(-1e9, 1e9))
    return pulls.T @ X - pulls.sum(axis=0)[:, None] * P, float(weights @ values)
