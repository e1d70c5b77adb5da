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

Crammer, Gilad-Bachrach, Navot and Tishby, "Margin analysis of the LVQ algorithm",
NIPS 2002.
"""

from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_scalar

from widemargin._core.checks import check_option
from widemargin.margins import (
    BrokenLinear,
    Exponential,
    Hinge,
    Identity,
    Sigmoid,
    check_loss,
    hypothesis_margin,
)
from widemargin.prototypes.presentations import presentation_order
from widemargin.prototypes.samples import Samples
from widemargin.prototypes.training import TrainedPrototypes, Trainer

DECISIONS = ("nearest", "k_nearest", "parzen")
NAMED_LOSSES = {
    Hinge: "HINGE",
    BrokenLinear: "BROKEN",
    Exponential: "EXPONENTIAL",
    Sigmoid: "SIGMOID",
    Identity: "IDENTITY",
}


class MarginLVQClassifier(TrainedPrototypes):
    """Prototypes that minimise a loss of the hypothesis margin, one sample at a time.

    Parameters
    ----------
    prototypes_per_class : int or dict of label to int, default=1
        Number of prototypes. A class with fewer distinct samples gets one for each.
    loss : str or MarginLoss, default="hinge"
        Any loss of :mod:`widemargin.margins`, or an object of your own with
        ``value`` and ``derivative`` (slower: it is called once per presentation).
    decision : {"nearest", "k_nearest", "parzen"}, default="nearest"
        How prototypes decide: the nearest one; the class that first has
        `n_neighbors` of them as one looks farther; the highest kernel density.
    n_neighbors : int, default=2
        The k of "k_nearest". A class with fewer prototypes counts by its farthest.
    bandwidth : float or "auto", default="auto"
        Width h of the exponential kernel of "parzen"; "auto" is a tenth of the mean
        distance of the samples to the nearest prototype of their class at the start.
    unit : float or "auto", default="auto"
        The loss sees theta/unit, and steps are measured in it. "auto" is the mean
        absolute hypothesis margin at the start, which makes a loss with beta = 1 fit
        data of any scale; 1.0 is the paper's formula to the letter.
    init : {"kmeans", "means", "samples"} or array of shape (n_prototypes, n_features)
        Where they start: k-means within each class, class means (with a little noise
        to tell several apart), random samples, or the given array, which then also
        decides how many there are.
    init_labels : array-like of shape (n_prototypes,), optional
        Labels of the array `init`.
    max_iter : int, default=30
        Epochs.
    learning_rate : float, default=0.1
        gamma at the start, in units of `unit`; it falls linearly to zero.
    shuffle : bool, default=True
        Present the samples in a new random order every epoch; False keeps the order
        of the data.
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
        Seed of the initial prototypes, the order and the held-out samples.

    Attributes
    ----------
    prototypes_ : ndarray of shape (n_prototypes, n_features)
        The prototypes, sorted by class.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their labels.
    unit_, bandwidth_ : float
        The unit and the bandwidth in use.
    classes_ : ndarray of shape (n_classes,)
        The labels there are.
    history_ : dict of list of float
        Per epoch, ``"loss"``: the mean loss at presentation; with early stopping
        ``"validation_score"``: the accuracy.
    n_iter_ : int
        Epochs run.

    Notes
    -----
    ``margins`` and ``decision_function`` are hypothesis margins, in the units of the
    features. The weights of samples act through how often they are presented, n
    times ``w / sum(w)`` per epoch in expectation. ``partial_fit`` presents each
    batch once, with a rate that stays.

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

    def __init__(
        self,
        prototypes_per_class: Any = 1,
        *,
        loss: Any = "hinge",
        decision: str = "nearest",
        n_neighbors: int = 2,
        bandwidth: float | str = "auto",
        unit: float | str = "auto",
        init: Any = "kmeans",
        init_labels: Any = None,
        max_iter: int = 30,
        learning_rate: float = 0.1,
        shuffle: bool = True,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        random_state: Any = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.loss = loss
        self.decision = decision
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.unit = unit
        self.init = init
        self.init_labels = init_labels
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("decision", self.decision, DECISIONS)
        check_scalar(self.n_neighbors, "n_neighbors", Integral, min_val=1)
        for name in ("learning_rate", "bandwidth", "unit"):
            value = getattr(self, name)
            if name == "learning_rate" or value != "auto":
                check_scalar(value, name, Real, min_val=0, include_boundaries="neither")
        check_loss(self.loss)

    def _margin(self, D_plus: np.ndarray, D_minus: np.ndarray) -> np.ndarray:
        return hypothesis_margin(np.sqrt(D_plus), np.sqrt(D_minus))

    def _class_distances(self, X: np.ndarray) -> np.ndarray:
        if self.decision == "nearest":
            return super()._class_distances(X)
        d = np.sqrt(self._squared_distances(X))
        out = np.full((len(X), len(self.classes_)), np.inf, dtype=d.dtype)
        for c, (start, stop) in enumerate(self._ranges()):
            if start == stop:
                continue
            own = d[:, start:stop]
            if self.decision == "k_nearest":
                k = min(self.n_neighbors, stop - start) - 1
                out[:, c] = np.partition(own, k, axis=1)[:, k] ** 2
            else:
                h = self.bandwidth_
                soft = logsumexp(-own / h, axis=1) - np.log(stop - start)
                out[:, c] = np.square(h * soft)
        return out

    def _bounds(self) -> np.ndarray:
        codes = self._prototype_codes
        return np.searchsorted(codes, np.arange(len(self.classes_) + 1))

    def _ranges(self) -> list[tuple[int, int]]:
        bounds = self._bounds().tolist()
        return list(pairwise(bounds))

    def _sort_by_class(self) -> None:
        order = np.argsort(self._prototype_codes, kind="stable")
        self.prototypes_ = np.ascontiguousarray(self.prototypes_[order])
        self.prototype_labels_ = self.prototype_labels_[order]

    def _place(self, samples: Samples, rng: np.random.RandomState) -> None:
        super()._place(samples, rng)
        self._sort_by_class()
        self._set_scale(samples)

    def _place_new_classes(self, samples: Samples, rng: np.random.RandomState) -> None:
        super()._place_new_classes(samples, rng)
        self._sort_by_class()

    def _set_scale(self, samples: Samples) -> None:
        D = self._in_chunks(samples.X, super()._class_distances)
        own = np.sqrt(D[np.arange(len(D)), samples.codes])
        mean = float(np.average(own, weights=samples.weights))
        self.bandwidth_ = self.bandwidth
        if self.bandwidth == "auto":
            self.bandwidth_ = 0.1 * mean or 1.0
        self.unit_ = self.unit
        if self.unit == "auto":
            theta = np.abs(self._hypothesis_margins(samples.X, samples.codes))
            theta, weights = theta[np.isfinite(theta)], samples.weights
            weights = weights if len(theta) == len(weights) else np.ones(len(theta))
            self.unit_ = float(np.average(theta, weights=weights)) if len(theta) else 0
            self.unit_ = self.unit_ or mean or 1.0

    def _trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        n = len(samples.X)

        def train(epoch: int) -> float:
            return self._present(samples, rng, epoch * n, float(self.max_iter * n))

        return train

    def _partial_trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        return lambda _: self._present(samples, rng, 0, np.inf)

    def _present(
        self, samples: Samples, rng: np.random.RandomState, start: int, total: float
    ) -> float:
        from widemargin._compute import lvq

        order = presentation_order(samples.weights, self.shuffle, rng)
        loss = check_loss(self.loss)
        rule = lvq.SOFT if self.decision == "parzen" else lvq.KTH
        k = self.n_neighbors if self.decision == "k_nearest" else 1
        data = (self.prototypes_, self._bounds(), samples.X, samples.codes, order)
        schedule = (float(self.unit_), float(self.learning_rate), start, total)
        how = (rule, k, float(self.bandwidth_))
        name = NAMED_LOSSES.get(type(loss))
        if name is None:
            summed = _present_with_own_loss(*data, loss, *schedule, *how)
        else:
            beta = float(getattr(loss, "beta", 1.0))
            kind = getattr(lvq, name)
            summed = lvq.margin_epoch(*data, kind, beta, *schedule, *how)
        return summed / len(order)


def _present_with_own_loss(
    P, bounds, X, y, order, loss, unit, gamma, start, total, rule, k, h
):
    """As ``margin_epoch``, with a loss that numba does not know."""
    from widemargin._compute.lvq import find_pair, move_pair

    d, w = np.empty(len(P)), np.empty(len(P))
    losses = 0.0
    for t, i in enumerate(order):
        s_plus, s_minus, wrong = find_pair(X[i], P, bounds, y[i], rule, k, h, d, w)
        if wrong < 0:
            continue
        theta = np.array([(s_minus - s_plus) / (2 * unit)])
        losses += float(loss.value(theta)[0])
        slope = float(loss.derivative(theta)[0])
        if slope != 0:
            step = -gamma * unit * (1 - (start + t) / total) * slope
            move_pair(X[i], P, bounds, y[i], wrong, d, w, step)
    return losses
