"""Generalised matrix LVQ: prototypes and the metric that suits them, learned together.

Distances are ``||Omega (x - p)||^2`` with a learned Omega of shape
(n_components, n_features); ``Lambda = Omega^T Omega`` is the relevance matrix and its
diagonal says how much each feature counts. Both are learned with every feature divided
by its within-class spread, so that features may have any units; there Omega starts as
the identity, or as the discriminant directions if n_components is smaller.

With C the coefficients of :mod:`widemargin.prototypes.glvq`, r and s its row and column
sums, ``Z = X Omega^T`` and ``Q = P Omega^T``, the gradients are

    dP     = -2 (C^T X - diag(s) P) Omega^T Omega,
    dOmega =  2 (Z^T diag(r) X - (C^T Z)^T P - Q^T C^T X + Q^T diag(s) P).

Schneider, Biehl and Hammer, "Adaptive relevance matrices in learning vector
quantization", Neural Computation 2009; Bunte et al., "Limited rank matrix learning",
Neural Networks 2012.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from widemargin._compute.nearest import (
    expanded_distances,
    product_error,
    settled,
    squared_distances,
    squared_norms,
)
from widemargin._core.checks import check_count, check_number
from widemargin._core.samples import Samples
from widemargin.prototypes.base import CERTAIN, no_bound
from widemargin.prototypes.glvq import (
    Centred,
    GLVQClassifier,
    Mapped,
    adam,
    adam_grow,
    adam_start,
    changed,
    coefficients,
)
from widemargin.prototypes.placing import (
    chosen_scale,
    class_means,
    residuals,
    revivals,
    within_class_spread,
)
from widemargin.prototypes.training import Outcome, Run, State, Step


class MatrixSums(NamedTuple):
    """What samples contribute to one step: add those of shards."""

    loss: float
    prototypes: np.ndarray
    omega: np.ndarray
    wins: np.ndarray


def gmlvq_sums(
    P: np.ndarray, omega: np.ndarray, labels: np.ndarray, batch: Centred, loss: Any
) -> MatrixSums:
    """Loss, gradients in prototypes and Omega, and wins among the own class."""
    Z, Q = batch.X @ omega.T, P @ omega.T
    norms, size = squared_norms(Z), product_error(P.dtype, P.shape[1])
    length = float(np.linalg.norm(omega)) ** 2
    pairs = coefficients(
        expanded_distances(Z, Q, norms),
        labels,
        batch.codes,
        batch.weights,
        loss,
        size * length * batch.norms,
        size * length * squared_norms(P),
    )
    towards = pairs.transposed_product(batch.X) - pairs.column_sums[:, None] * P
    mapped = pairs.transposed_product(Z)
    row_sums = pairs.values.sum(axis=1)
    return MatrixSums(
        pairs.loss,
        -2 * (towards @ omega.T) @ omega,
        2 * ((Z * row_sums[:, None]).T @ batch.X - mapped.T @ P - Q.T @ towards),
        np.bincount(pairs.at[:, 0], minlength=len(P)),
    )


def mapped_errors(x: np.ndarray, z_norms: np.ndarray, length: float) -> np.ndarray:
    """Error of an expanded square of ``z = Omega x``, rounded when it was mapped.

    The map errs by about ``eps |Omega| |x|``, which enters a square times ``2 |z|``;
    by ``2ab <= a^2 / s + b^2 s`` it is a sum of a part of x and a part of z.
    `length` is the squared Frobenius norm of Omega.
    """
    root = np.sqrt(x.shape[1])
    eps = float(np.finfo(x.dtype).eps)
    own = product_error(x.dtype, x.shape[1]) + 4 * eps * root
    return own * z_norms + (4 * eps * length / root) * squared_norms(x)


class GMLVQClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, GLVQClassifier
):
    """Generalised matrix LVQ, full or limited rank.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Number of prototypes. A class with fewer distinct samples gets one for each.
        "auto" starts a class of n samples with n / 10, at least 1 and at most 20;
        in the first half of the epochs it adds some, up to twice as many, where
        margins are negative, and at the end drops those that win no sample.
    n_components : int, optional
        Rows of Omega, the dimension of ``transform``; by default n_features.
    loss : str or MarginLoss, optional
        Loss of the relative margin, see :mod:`widemargin.margins`. By default
        ``Sigmoid(beta=10)``.
    init : {"kmeans", "means", "samples"} or array of shape (n_prototypes, n_features)
        Where the prototypes start: k-means within each class (in the mapped
        space), class means (with a little noise to tell several apart), random
        samples, or the given array, which then also decides how many there are.
    init_labels : array-like of shape (n_prototypes,), optional
        Labels of the array `init`.
    max_iter : int, default=30
        Epochs.
    learning_rate : float, default=0.1
        First step of the prototypes, in units of the within-class spread.
    matrix_learning_rate : float, default=0.05
        First step of Omega, in units of its root mean square element.
    batch_size : int or "auto", default="auto"
        Distinct samples per gradient; "auto" makes about twenty batches, of 16 to 512.
    repair : {"dead", "none"}, default="dead"
        In the first half of the epochs, put a prototype that was the nearest of its
        class for no sample on the sample of its class that is covered worst, or leave
        it where it is.
    scale : {"auto", "spread", "none"}, default="auto"
        Unit in which the metric starts and is learned: each feature's within-class
        spread, one for all, or by "auto" the spreads where the nearest neighbours of
        up to 1000 training samples are then wrong less often.
    class_weight : dict or "balanced", optional
        Factors on the sample weights by label.
    early_stopping : bool, default=False
        Hold out a part of the training samples and return the model that was best
        on it.
    validation_fraction : float, default=0.1
        Part of each class that early stopping holds out.
    n_iter_no_change : int, default=5
        Epochs without a better validation score after which to stop.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial prototypes, the batches and the held-out samples.

    Attributes
    ----------
    prototypes_ : ndarray of shape (n_prototypes, n_features)
        The prototypes, in the space of the samples.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their labels.
    omega_ : ndarray of shape (n_components, n_features)
        The map, scaled so that the relevances sum to one.
    relevance_matrix_ : ndarray of shape (n_features, n_features)
        Lambda.
    relevances_ : ndarray of shape (n_features,)
        Its diagonal. It depends on the units of the features.
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
    by bit. The certified radius is in the units of the features: the margin in the
    mapped space divided by the largest singular value of Omega.

    References
    ----------
    .. [1] P. Schneider, M. Biehl, B. Hammer, Adaptive relevance matrices in learning
       vector quantization, Neural Computation 21 (2009).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from widemargin.prototypes import GMLVQClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = GMLVQClassifier(n_components=2, random_state=0).fit(X, y)
    >>> model.transform(X).shape
    (178, 2)
    >>> model.score(X, y) > 0.98
    True
    """

    _state_names: ClassVar = {"prototypes": "prototypes_", "omega": "omega_"}

    def __init__(
        self,
        prototypes_per_class: Any = "auto",
        *,
        n_components: int | None = None,
        loss: Any = None,
        init: Any = "kmeans",
        init_labels: Any = None,
        max_iter: int = 30,
        learning_rate: float = 0.1,
        matrix_learning_rate: float = 0.05,
        batch_size: int | str = "auto",
        repair: str = "dead",
        scale: str = "auto",
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            prototypes_per_class,
            loss=loss,
            init=init,
            init_labels=init_labels,
            max_iter=max_iter,
            learning_rate=learning_rate,
            batch_size=batch_size,
            repair=repair,
            scale=scale,
            class_weight=class_weight,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            random_state=random_state,
        )
        self.n_components = n_components
        self.matrix_learning_rate = matrix_learning_rate

    @property
    def relevance_matrix_(self) -> np.ndarray:
        """Lambda, the matrix of the squared distance."""
        return self.omega_.T @ self.omega_

    @property
    def relevances_(self) -> np.ndarray:
        """Diagonal of Lambda: how much each feature counts."""
        return np.einsum("ij,ij->j", self.omega_, self.omega_)

    @property
    def _n_features_out(self) -> int:
        return len(self.omega_)

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Map samples to the space in which distances are Euclidean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            ``X @ omega_.T``.
        """
        return self._check_predict(X) @ self.omega_.T

    def _squared_distances(
        self, X: np.ndarray, coarse: float | None = None
    ) -> np.ndarray:
        P, omega = self.prototypes_, self.omega_
        dtype = np.result_type(X, P)
        centre = P.mean(axis=0, dtype=np.float64).astype(dtype)
        omega = omega.astype(dtype, copy=False)
        x, p = X - centre, P - centre
        z, q = x @ omega.T, p @ omega.T
        z_norms, q_norms = squared_norms(z), squared_norms(q)
        length = float(squared_norms(omega).sum())
        return settled(
            expanded_distances(z, q, z_norms),
            mapped_errors(x, z_norms, length),
            mapped_errors(p, q_norms, length),
            lambda i, j: squared_norms((X[i].astype(float) - P[j]) @ omega.T),
            coarse=coarse,
            n_features=2 * X.shape[1],
        )

    def _distance_bounds(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        D = self._squared_distances(X, coarse=CERTAIN / 4)
        return D * (1 - CERTAIN), D * (1 + CERTAIN)

    def _lipschitz(self) -> float:
        return float(np.linalg.norm(self.omega_.astype(float), 2)) * (1 + 1e-9)

    def _check_bound(self) -> None:
        no_bound("the metric of GMLVQClassifier was learned from the same samples")

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> Mapped:
        return Mapped(samples, samples.X)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("matrix_learning_rate", self.matrix_learning_rate, above=0)
        if self.n_components is not None:
            check_count("n_components", self.n_components, "None or ")

    @property
    def _clusters(self) -> bool:
        """Whether prototypes start from clusters in the mapped space."""
        return isinstance(self.init, str) and self.init == "kmeans"

    def _start(self, data: Mapped, rng: np.random.RandomState) -> State:
        samples, n_features = data.samples, data.X.shape[1]
        rank = n_features if self.n_components is None else int(self.n_components)
        if rank > n_features:
            raise ValueError(
                f"n_components={rank} must not exceed the number of features, "
                f"{n_features}."
            )
        X, codes, weights = samples.X, samples.codes, samples.weights
        spread = chosen_scale(X, codes, weights, self.scale)
        if spread is None:
            # One unit for all: the spread of the typical feature.
            each = within_class_spread(X, codes, weights)
            mean = np.sqrt(np.mean(each**2, dtype=np.float64))
            spread = np.full(n_features, mean, X.dtype)
        if rank == n_features:
            inner = np.eye(n_features, dtype=X.dtype)
        else:
            inner = discriminant_directions(X / spread, codes, weights, rank)
        omega = _outer(inner, spread)
        if self._clusters:
            Q = self._place(X @ omega.T, samples, rng)
            P = _means(samples, omega, Q, self._prototype_codes)
        else:
            P = self._place(X, samples, rng)
        return {
            "prototypes": P,
            "omega": omega,
            "codes": self._prototype_codes,
            "spread": spread,
            **adam_start("prototypes", P),
            **adam_start("omega", omega),
        }

    def _resume(self, state: State, data: Mapped, rng: np.random.RandomState) -> State:
        samples, omega, n = data.samples, state["omega"], len(state["prototypes"])
        new = np.flatnonzero(~np.isin(samples.codes, self._prototype_codes))
        if self._clusters:
            added = self._place_new(samples.X @ omega.T, samples, rng)
            if len(new):
                codes = self._prototype_codes[n:]
                added = _means(samples.take(new), omega, added, codes)
            else:
                added = samples.X[:0]
        else:
            added = self._place_new(samples.X, samples, rng)
        P = np.concatenate([state["prototypes"], added])
        moments = adam_grow(state, "prototypes", P)
        return {**state, "prototypes": P, "codes": self._prototype_codes, **moments}

    def _step(self, data: Mapped, rng: np.random.RandomState, n_epochs: float) -> Step:
        loss = self._checked_loss()
        n, order = len(data.samples), rng.permutation(len(data.samples))
        ratio = self.matrix_learning_rate / self.learning_rate
        ratio /= np.sqrt(data.X.shape[1])
        prepared: list[Any] = []

        def train(state: State, epoch: int) -> Outcome:
            labels, spread = state["codes"], state["spread"]
            if not prepared:
                prepared.extend(data.centred(order, spread))
            centre, rows = prepared
            P = (state["prototypes"] - centre) / spread
            omega = _inner(state["omega"], spread)
            wins, total = np.zeros(len(P), dtype=np.intp), 0.0
            for batch, rate in self._batches(n, rng, epoch, n_epochs):
                sums = gmlvq_sums(P, omega, labels, rows[batch], loss)
                by_P, ascent = adam(state, "prototypes", sums.prototypes)
                by_omega, turn = adam(state, "omega", sums.omega)
                state = {**state, **by_P, **by_omega}
                P = P - P.dtype.type(rate) * ascent
                omega = omega - P.dtype.type(rate * ratio) * turn
                total += sums.loss
                wins += sums.wins
            if self._repairs(wins, epoch, n_epochs):
                mapped, Q = rows.X @ omega.T, P @ omega.T
                dead, samples = revivals(mapped, rows.codes, Q, labels, wins)
                P[dead] = rows.X[samples]
            added, stay = self._changes(
                rows.X @ omega.T, rows, P @ omega.T, labels, rng, epoch, n_epochs
            )
            state = {**state, "prototypes": P}
            state = changed(state, added, stay, rows.X[added], rows.codes[added])
            P = state["prototypes"] * spread + centre
            moved = {"prototypes": P, "omega": _outer(omega, spread)}
            return Outcome({**state, **moved}, {"loss": total / n})

        return train


def _outer(inner: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Omega for the features as they are, of Frobenius norm one."""
    omega = inner / spread
    # Divided first: squares of what is left neither overflow nor vanish.
    omega = omega / (np.abs(omega).max() or 1)
    return omega / (np.linalg.norm(omega) or 1)


def _inner(omega: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Omega for the divided features, with a root mean square row of one."""
    inner = omega * (spread / spread.max())
    return inner * float(np.sqrt(len(inner)) / (np.linalg.norm(inner) or 1))


def _means(
    samples: Samples, omega: np.ndarray, Q: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """Means of the samples that belong to centres `Q` found in the mapped space."""
    D = squared_distances(samples.X @ omega.T, Q)
    D[samples.codes[:, None] != codes[None, :]] = np.inf
    means = class_means(samples.X, D.argmin(axis=1), samples.weights, len(Q))
    return means.astype(samples.X.dtype)


def discriminant_directions(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    rank: int,
    shrinkage: float = 0.1,
) -> np.ndarray:
    """Return the `rank` directions in which the classes lie farthest apart.

    They are the widest directions of all samples together after a whitening W of the
    within-class covariance. A fraction `shrinkage` of its mean variance keeps
    directions of next to no variance from exploding.
    """
    R = residuals(X, codes, weights)
    weights = weights / weights.sum()
    S = ((R * weights[:, None]).T @ R).astype(np.float64)
    values, U = np.linalg.eigh(S)
    # Features come divided by their spread: below this there is none.
    ridge = shrinkage * max(values.mean(), 1e-12)
    W = (U / np.sqrt(np.maximum(values, 0) + ridge)) @ U.T
    Z = (X - np.average(X, axis=0, weights=weights)) @ W
    widest = np.linalg.eigh((Z * weights[:, None]).T @ Z)[1][:, ::-1][:, :rank]
    return (widest.T @ W).astype(X.dtype)
