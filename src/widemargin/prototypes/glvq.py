"""Generalised LVQ: gradient descent on a loss of the relative margin.

The cost is ``sum_i w_i L(mu_i)`` with ``mu = (D_minus - D_plus)/(D_minus + D_plus)``
on squared Euclidean distances. Mini-batches, Adam steps measured in the
within-class spread of the data, rate falling linearly to zero; each gradient is one
sparse product (:mod:`widemargin.prototypes.gradients`).

Sato and Yamada, "Generalized learning vector quantization", NIPS 1995.
"""

from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_scalar

from widemargin._compute.nearest import expanded_distances, squared_norms
from widemargin.margins import Sigmoid, check_loss
from widemargin.prototypes import adam
from widemargin.prototypes.class_statistics import within_class_spread
from widemargin.prototypes.gradients import coefficients, prototype_gradient
from widemargin.prototypes.repair import revivals
from widemargin.prototypes.samples import Samples
from widemargin.prototypes.training import TrainedPrototypes, Trainer


class GradientPrototypes(TrainedPrototypes):
    """Base of the mini-batch learners of the relative margin."""

    _exact_weights = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.batch_size != "auto":
            check_scalar(self.batch_size, "batch_size", Integral, min_val=1)
        check_scalar(
            self.learning_rate,
            "learning_rate",
            Real,
            min_val=0,
            include_boundaries="neither",
        )
        self._checked_loss()

    def _checked_loss(self) -> Any:
        return check_loss(Sigmoid(beta=10.0) if self.loss is None else self.loss)

    def _n_batches(self, n: int) -> int:
        size = self.batch_size
        if size == "auto":
            size = min(max(n // 20, 16), 512)
        return -(-n // size)

    def _batches(self, n: int, rng: np.random.RandomState) -> list[slice]:
        """Consecutive rows, in random order; the rows themselves were shuffled once."""
        edges = np.linspace(0, n, self._n_batches(n) + 1).astype(int).tolist()
        pieces = list(pairwise(edges))
        return [slice(*pieces[i]) for i in rng.permutation(len(pieces))]

    def _decay(self, n: int) -> "LinearDecay":
        return LinearDecay(self.learning_rate, self.max_iter * self._n_batches(n))


class LinearDecay:
    """A rate that falls from `rate` to zero in `total` steps; never, if it is inf."""

    def __init__(self, rate: float, total: float) -> None:
        self.rate, self.total, self.t = rate, total, 0

    def __call__(self) -> float:
        """Return the rate of this step."""
        rate = self.rate * (1 - self.t / self.total)
        self.t += 1
        return rate


class GLVQClassifier(GradientPrototypes):
    """Generalised learning vector quantisation.

    Parameters
    ----------
    prototypes_per_class : int or dict of label to int, default=1
        Number of prototypes. A class with fewer distinct samples gets one for each.
    loss : str or MarginLoss, optional
        Loss of the relative margin, see :mod:`widemargin.margins`. By default
        ``Sigmoid(beta=10)``, a smooth count of the mistakes; smaller beta widens the
        margins, larger beta counts harder.
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
        Distinct samples per gradient; "auto" makes about twenty batches, of 16 to 512.
    repair : bool, default=True
        In the first half of the epochs, put a prototype that was the nearest of its
        class for no sample on the sample of its class that is covered worst.
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
    classes_ : ndarray of shape (n_classes,)
        The labels there are.
    history_ : dict of list of float
        Per epoch, ``"loss"``: the mean loss while training; with early stopping
        ``"validation_score"``: the accuracy.
    n_iter_ : int
        Epochs run.

    Notes
    -----
    A sample of weight 2 and the same sample given twice lead to the same model, bit
    by bit. ``partial_fit`` makes one pass over each batch with a rate that stays.

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

    def __init__(
        self,
        prototypes_per_class: Any = 1,
        *,
        loss: Any = None,
        init: Any = "kmeans",
        init_labels: Any = None,
        max_iter: int = 30,
        learning_rate: float = 0.1,
        batch_size: int | str = "auto",
        repair: bool = True,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        random_state: Any = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.loss = loss
        self.init = init
        self.init_labels = init_labels
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.repair = repair
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state

    def _trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        self._spread = self._feature_spread(samples)
        self._moments = adam.start(self.prototypes_)
        return self._epochs(samples, rng, self._decay(len(samples.X)))

    def _partial_trainer(self, samples: Samples, rng: np.random.RandomState) -> Trainer:
        if not hasattr(self, "_spread"):
            self._spread = self._feature_spread(samples)
            self._moments = adam.start(self.prototypes_)
        self._moments = adam.grow(self._moments, self.prototypes_)
        return self._epochs(samples, rng, LinearDecay(self.learning_rate, np.inf))

    def _feature_spread(self, samples: Samples) -> np.ndarray:
        X = self._feature_map(samples.X)
        return within_class_spread(X, samples.codes, samples.weights)

    def _offsets(self, X: np.ndarray) -> np.ndarray | None:
        """Part of the squared distances that the prototypes cannot change."""
        return None

    def _epochs(
        self, samples: Samples, rng: np.random.RandomState, rate: LinearDecay
    ) -> Trainer:
        loss = self._checked_loss()
        samples = samples.take(rng.permutation(len(samples.X)))
        X = self._feature_map(samples.X)
        centre = X.mean(axis=0)
        X = X - centre
        norms, offsets = squared_norms(X), self._offsets(samples.X)
        weights = (samples.weights / samples.weights.mean()).astype(X.dtype)
        labels = self._prototype_codes

        def train(epoch: int) -> float:
            P = self.prototypes_ - centre
            wins = np.zeros(len(P), dtype=np.intp)
            total = 0.0
            for b in self._batches(len(X), rng):
                x = X[b]
                D = expanded_distances(x, P, norms[b])
                if offsets is not None:
                    D += offsets[b, None]
                pairs = coefficients(D, labels, samples.codes[b], weights[b], loss)
                gradient = prototype_gradient(pairs, x, P)
                self._moments, ascent = adam.step(self._moments, gradient)
                P = P - X.dtype.type(rate()) * self._spread * ascent
                total += pairs.loss
                wins += np.bincount(pairs.at[:, 0], minlength=len(P))
            if self.repair and not wins.all() and epoch + 1 < self.max_iter / 2:
                dead, rows = revivals(X, samples.codes, P, labels, wins)
                P[dead] = X[rows]
            self.prototypes_ = P + centre
            return total / len(X)

        return train
