"""Kohonen's learning vector quantisation: LVQ1, OLVQ1, LVQ2.1, LVQ3 and chains of them.

Samples are presented one at a time. With the rate ``alpha_t = alpha_0 (1 - t/T)`` of
presentation t = 0..T-1,

* LVQ1 moves the nearest prototype, ``p += s alpha_t (x - p)``, s = +1 if its label is
  right and -1 if not;
* OLVQ1 does so with a rate of its own for every prototype, changed after the move to
  ``min(alpha_0, alpha / (1 + s alpha))``;
* LVQ2.1 moves the two nearest when exactly one has the right label and x lies in the
  window ``min(d1/d2, d2/d1) > (1 - w)/(1 + w)``: the right one nearer, the other away;
* LVQ3 does that, and where both have the right label moves both by epsilon alpha_t.

T. Kohonen, "Self-Organizing Maps", 3rd edition, section 6.
"""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_scalar

from widemargin._compute.nearest import squared_norms
from widemargin._core.checks import check_option
from widemargin.prototypes.presentations import presentation_order
from widemargin.prototypes.repair import revivals
from widemargin.prototypes.samples import Samples
from widemargin.prototypes.training import TrainedPrototypes, Trainer

DEFAULT_RATES = {"lvq1": 0.05, "olvq1": 0.3, "lvq2.1": 0.05, "lvq3": 0.05}


def class_balls(samples: Samples, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean of every class and the largest squared distance of its samples to it."""
    X, codes = samples.X, samples.codes
    centres = np.zeros((n_classes, X.shape[1]), dtype=X.dtype)
    np.add.at(centres, codes, X)
    sizes = np.bincount(codes, minlength=n_classes).clip(min=1)
    centres /= sizes[:, None].astype(X.dtype)
    radii_squared = np.zeros(n_classes, dtype=X.dtype)
    np.maximum.at(radii_squared, codes, squared_norms(X - centres[codes]))
    return centres, radii_squared


class LVQClassifier(TrainedPrototypes):
    """Learning vector quantisation, as Kohonen defined it.

    Parameters
    ----------
    algorithm : {"lvq1", "olvq1", "lvq2.1", "lvq3"} or tuple of them
        Learning rule, or several to run one after the other, each from where the
        one before it stopped. The default is Kohonen's advice: OLVQ1 to get near,
        then LVQ2.1 to settle the borders.
    prototypes_per_class : int or dict of label to int, default=1
        Number of prototypes. A class with fewer distinct samples gets one for each.
    init : {"kmeans", "means", "samples"} or array of shape (n_prototypes, n_features)
        Where they start: k-means within each class, class means (with a little noise
        to tell several apart), random samples, or the given array, which then also
        decides how many there are.
    init_labels : array-like of shape (n_prototypes,), optional
        Labels of the array `init`.
    max_iter : int or tuple of int, default=20
        Epochs of every rule, or of each rule of the chain.
    learning_rate : float or tuple of float, optional
        alpha_0, in (0, 1), for every rule or for each. By default 0.3 for OLVQ1 and
        0.05 for the others.
    window : float in (0, 1), default=0.3
        Kohonen's w, for LVQ2.1 and LVQ3.
    epsilon : float in (0, 1], default=0.1
        LVQ3's step where both nearest prototypes have the right label.
    shuffle : bool, default=True
        Present the samples in a new random order every epoch; False keeps the order
        of the data.
    guard : bool, default=True
        Keep LVQ2.1 and LVQ3 from running away: a step that pushes a prototype out of
        the smallest ball around its class mean that holds the training samples of
        its class is left out.
    repair : bool, default=True
        Put a prototype that came first for no sample in an epoch of LVQ1 or OLVQ1 on
        the sample of its class that is covered worst.
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
        The prototypes.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their labels.
    classes_ : ndarray of shape (n_classes,)
        The labels there are.
    history_ : dict of list of float
        Per epoch, ``"loss"``: the fraction of the samples that were wrong when
        presented; with early stopping ``"validation_score"``: the accuracy.
    n_iter_ : int
        Epochs run, over all rules.

    Notes
    -----
    The weights of samples act through how often they are presented: an epoch has as
    many presentations as there are samples, and a sample of weight w takes part
    ``n w / sum(w)`` times in expectation. ``partial_fit`` presents each batch once,
    with the last rule of the chain and a rate that stays at alpha_0 (OLVQ1 keeps
    adapting its rates).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin.prototypes import LVQClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LVQClassifier(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.prototypes_.shape
    (6, 4)
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        algorithm: str | Sequence[str] = ("olvq1", "lvq2.1"),
        *,
        prototypes_per_class: Any = 1,
        init: Any = "kmeans",
        init_labels: Any = None,
        max_iter: int | Sequence[int] = 20,
        learning_rate: float | Sequence[float] | None = None,
        window: float = 0.3,
        epsilon: float = 0.1,
        shuffle: bool = True,
        guard: bool = True,
        repair: bool = True,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        random_state: Any = None,
    ) -> None:
        self.algorithm = algorithm
        self.prototypes_per_class = prototypes_per_class
        self.init = init
        self.init_labels = init_labels
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.window = window
        self.epsilon = epsilon
        self.shuffle = shuffle
        self.guard = guard
        self.repair = repair
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state

    def _stages(self) -> list[tuple[str, int, float]]:
        """Check and spread the parameters: (rule, epochs, alpha_0) of every stage."""
        names = [self.algorithm] if isinstance(self.algorithm, str) else self.algorithm
        names = [check_option("algorithm", name, DEFAULT_RATES) for name in names]
        if not names:
            raise ValueError("algorithm must name at least one rule; got none.")
        epochs = self._per_stage("max_iter", self.max_iter, Integral, len(names))
        if self.learning_rate is None:
            rates = [DEFAULT_RATES[name] for name in names]
        else:
            rates = self._per_stage(
                "learning_rate", self.learning_rate, Real, len(names)
            )
        for count in epochs:
            check_scalar(count, "max_iter", Integral, min_val=1)
        for rate in rates:
            _check_open("learning_rate", rate)
        return list(zip(names, epochs, rates, strict=True))

    def _per_stage(self, name: str, value: Any, kind: type, n_stages: int) -> list:
        if isinstance(value, kind):
            return [value] * n_stages
        if np.ndim(value) != 1 or len(value) != n_stages:
            raise ValueError(
                f"{name} must be one number or one for each of the {n_stages} rules "
                f"of algorithm; got {value!r}."
            )
        return list(value)

    def _check_parameters(self) -> None:
        self._stages()
        _check_open("window", self.window)
        if "lvq3" in np.atleast_1d(self.algorithm):
            check_scalar(
                self.epsilon,
                "epsilon",
                Real,
                min_val=0,
                max_val=1,
                include_boundaries="right",
            )
        self._check_early_stopping()

    def _n_epochs(self) -> int:
        return sum(epochs for _, epochs, _ in self._stages())

    def _trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        plan = [
            (name, epoch, epochs, rate)
            for name, epochs, rate in self._stages()
            for epoch in range(epochs)
        ]
        balls = self._balls(samples)

        def train(at: int) -> float:
            name, epoch, epochs, rate = plan[at]
            order = presentation_order(samples.weights, self.shuffle, rng)
            span = (epoch * len(order), epochs * len(order))
            if epoch == 0:
                self._rates = np.full(len(self.prototypes_), float(rate))
            wins, errors = self._present(name, samples, order, rate, span, balls)
            if self.repair and name in ("lvq1", "olvq1") and epoch + 1 < epochs:
                self._revive(samples, wins, rate)
            return errors / len(order)

        return train

    def _partial_trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        name, _, rate = self._stages()[-1]
        balls = self._balls(samples)
        rates = np.full(len(self.prototypes_), float(rate))
        known = getattr(self, "_rates", np.empty(0))
        rates[: len(known)] = known
        self._rates = rates

        def train(epoch: int) -> float:
            order = presentation_order(samples.weights, self.shuffle, rng)
            # A span without end keeps the rate where it is.
            _, errors = self._present(name, samples, order, rate, (0, np.inf), balls)
            return errors / len(order)

        return train

    def _balls(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Where the guard keeps the prototypes of each class; empty if not needed."""
        names = {name for name, _, _ in self._stages()}
        n = len(self.classes_) if self.guard and names & {"lvq2.1", "lvq3"} else 0
        return class_balls(samples if n else samples.take(slice(0, 0)), n)

    def _present(
        self,
        name: str,
        samples: Samples,
        order: np.ndarray,
        rate: float,
        span: tuple[int, float],
        balls: tuple[np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, int]:
        from widemargin._compute import lvq

        wins = np.zeros(len(self.prototypes_), dtype=np.intp)
        shared = (
            self.prototypes_,
            self._prototype_codes,
            samples.X,
            samples.codes,
            order,
            wins,
        )
        alpha_0, start, total = float(rate), span[0], float(span[1])
        if name == "olvq1":
            return wins, lvq.olvq1_epoch(*shared, alpha_0, self._rates)
        if name == "lvq1":
            return wins, lvq.lvq1_epoch(*shared, alpha_0, start, total)
        epsilon = float(self.epsilon) if name == "lvq3" else 0.0
        window, guard = float(self.window), bool(self.guard)
        return wins, lvq.window_epoch(
            *shared, alpha_0, start, total, window, epsilon, guard, *balls
        )

    def _revive(self, samples: Samples, wins: np.ndarray, rate: float) -> None:
        if wins.all():
            return
        dead, rows = revivals(
            samples.X, samples.codes, self.prototypes_, self._prototype_codes, wins
        )
        self.prototypes_[dead] = samples.X[rows]
        self._rates[dead] = rate


def _check_open(name: str, value: Any) -> None:
    check_scalar(value, name, Real, min_val=0, max_val=1, include_boundaries="neither")
