r"""Relational and median LVQ: prototypes where only dissimilarities are known.

D holds the dissimilarity ``D_ik`` of sample i to sample k, symmetric or not. A
relational prototype is a convex combination of the samples of its class, with weights a
that sum to one, and

    d(x_i, a) = (D a)_i - a^T D a / 2,

which is the squared Euclidean distance where D holds such. With the coefficients C of
:mod:`widemargin.prototypes.glvq`, s its column sums and S = (D + D^T) / 2, the gradient
in the weights of prototype j is

    da_j = (C^T D)_j - s_j S a_j;

weights are a softmax of what Adam moves, so that they stay a convex combination. Where
D is not that of points in a Euclidean space d may fall below zero, and counts as zero.

A median prototype is a sample of its class. The cost is the same; an epoch goes through
the prototypes in random order and puts each on the sample of its class at which the
cost is smallest, the others in place: it never rises, and where nothing moves no single
exchange lowers it. Published is a generalised EM whose steps lower a bound of the cost.

Hammer, Hofmann, Schleif and Zhu, "Learning vector quantization for (dis-)similarities",
Neurocomputing 131 (2014); Nebel, Hammer, Frohberg and Villmann, "Median variants of
learning vector quantization for learning of dissimilarity data", Neurocomputing 169
(2015). Shapes: D (n, n), weights (K, n).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn import get_config
from sklearn.utils.validation import _num_samples, check_is_fitted

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._core.checks import SIZES, as_matrix, check_option, is_auto
from widemargin._core.decisions import relative_distances
from widemargin._core.left_out import refitted
from widemargin._core.params import Counted, Fraction, Positive, parameters
from widemargin._core.samples import Samples, check_samples, check_X
from widemargin._core.temperature import LeftOut
from widemargin.margins import Sigmoid, check_loss
from widemargin.prototypes import optimizer
from widemargin.prototypes.base import no_bound, with_mean_one
from widemargin.prototypes.counts import prototype_counts, unused
from widemargin.prototypes.glvq import coefficients
from widemargin.prototypes.optimizer import State, Sums
from widemargin.prototypes.training import (
    Outcome,
    Run,
    Step,
    TrainedPrototypes,
    with_relative_weights,
)

METHODS = ("relational", "median")
# Share of a weight that the samples of a class outside of the own cluster start with.
OUTSIDE = 1e-3
# Weights below this fraction of the largest of their prototype are left out.
LEFT_OUT = 1e-2


class Related(NamedTuple):
    """Samples and the dissimilarities (n, n) between them."""

    samples: Samples
    D: NDArray


def self_terms(D: NDArray, A: NDArray) -> NDArray:
    """Return ``a^T D a / 2`` of every row of weights."""
    return np.einsum("jk,jk->j", A @ D, A) / 2


def relational_distances(rows: NDArray, A: NDArray, own: NDArray) -> NDArray:
    """(n, K) dissimilarities to prototypes, of the samples with these rows of D."""
    return np.maximum(rows @ A.T - own, 0)


class Block(NamedTuple):
    """Prototypes, the samples that they are made of, and S between these."""

    prototypes: Any
    samples: slice
    S: NDArray


def relational_sums(
    A: NDArray,
    labels: NDArray,
    blocks: list[Block],
    rows: NDArray,
    codes: NDArray,
    weights: NDArray,
    loss: Any,
) -> Sums:
    """Loss of samples with these rows of D, its gradient in A, and who came first.

    The gradient is that of the weights within the blocks.
    """
    pulled, d = np.zeros_like(A), np.empty((len(rows), len(A)), rows.dtype)
    for js, ks, S in blocks:
        # S a: the part of the gradient that is the same for every sample.
        a = A[js, ks]
        pulled[js, ks] = a @ S
        own = np.einsum("jk,jk->j", pulled[js, ks], a) / 2
        d[:, js] = relational_distances(rows[:, ks], a, own)
    n, K = d.shape
    none = np.zeros(n, d.dtype), np.zeros(K, d.dtype)
    pairs = coefficients(d, labels, codes, weights, loss, *none)
    slopes = pairs.C.T @ rows - pairs.C.sum(axis=0)[:, None] * pulled
    return pairs.summed(weights=slopes)


def clusters(
    D: NDArray, weights: NDArray, count: int, rng: np.random.RandomState
) -> NDArray:
    """Return (count, n) weights of the means of clusters, by relational k-means.

    Seeds are drawn as for k-means++. There are fewer where samples coincide.
    """
    nearest, chances = np.full(len(D), np.inf), weights / weights.sum()
    seeds: list[int] = []
    while len(seeds) < count and chances.sum() > 0:
        seeds.append(int(rng.choice(len(D), p=chances / chances.sum())))
        nearest = np.minimum(nearest, D[:, seeds[-1]])
        nearest[seeds] = 0
        chances = weights * nearest
    members = D[:, seeds].argmin(axis=1)
    for _ in range(12):
        A = np.where(members[None, :] == np.arange(len(seeds))[:, None], weights, 0)
        A = A[A.any(axis=1)]
        A = A / A.sum(axis=1, keepdims=True)
        found = relational_distances(D, A, self_terms(D, A)).argmin(axis=1)
        # Of dissimilarities that are no squares a cluster may lose all its members.
        if np.array_equal(found, members) or len(np.unique(found)) < len(A):
            break
        members = found
    return A


def exchange_costs(
    D: NDArray,
    medoids: NDArray,
    labels: NDArray,
    codes: NDArray,
    weights: NDArray,
    loss: Any,
    j: int,
    candidates: NDArray,
) -> NDArray:
    """Cost of the medoids with each of the `candidates` in place of number j."""
    others = np.arange(len(medoids)) != j
    d = D[:, medoids[others]]
    right = codes[:, None] == labels[others][None, :]
    plus = np.where(right, d, np.inf).min(axis=1, initial=np.inf)
    minus = np.where(right, np.inf, d).min(axis=1, initial=np.inf)
    mine = codes == labels[j]
    costs = np.empty(len(candidates))
    for s in batched_slices(len(candidates), rows_in_budget(8 * 8 * len(D))):
        tried = D[:, candidates[s]]
        d_plus = np.where(
            mine[:, None], np.minimum(plus[:, None], tried), plus[:, None]
        )
        d_minus = np.where(
            mine[:, None], minus[:, None], np.minimum(minus[:, None], tried)
        )
        total = d_plus + d_minus
        margin = (d_minus - d_plus) / np.where(total > 0, total, 1)
        costs[s] = weights @ loss.value(margin.ravel()).reshape(margin.shape)
    return costs


@parameters
class RelationalLVQClassifier(TrainedPrototypes):
    """LVQ on dissimilarities, such as edit distances: no features are needed.

    Prototypes are mixtures of training samples, or training samples.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Number of prototypes. A class with fewer distinct samples gets one for each.
        "auto" is a tenth of the samples of a class, between 1 and 20. Those nearest to
        no sample are dropped at the end.
    method : {"relational", "median"}, default="relational"
        "relational": prototypes are convex combinations of the samples of their class.
        "median": they are samples, and a prediction needs the dissimilarities to them
        only.
    metric : "precomputed" or callable, default="precomputed"
        With "precomputed", X holds dissimilarities, none negative: ``X[i, k]`` that of
        sample i to training sample k. Or a function ``metric(X, Y) -> (n_x, n_y)``.
    loss : MarginLoss, optional
        Loss of the relative margin, see :mod:`widemargin.margins`. By default
        ``Sigmoid(beta=10)``.
    temperature : float or "auto", default="auto"
        Softmax temperature of ``predict_proba``, a multiple of the mean relative
        dissimilarity to the nearest prototype of the own class. "auto" fits it on
        leave-one-out dissimilarities.
    max_iter : int, default=30
        Epochs; "median" ends when no exchange of one prototype lowers the cost.
    learning_rate : float, default=0.1
        First step of "relational", in the logarithm of the weights.
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
    support_ : ndarray of shape (n_support,)
        Training samples that the prototypes are made of.
    coefficients_ : ndarray of shape (n_prototypes, n_support)
        Weights of these; every row sums to one.
    self_terms_ : ndarray of shape (n_prototypes,)
        What is taken off: ``a D a / 2``; 0 for "median".
    prototype_indices_ : ndarray of shape (n_prototypes,)
        The training samples that are the prototypes, for "median" only; the same as
        `support_`.
    support_vectors_ : ndarray of shape (n_support, n_features)
        The samples themselves, where `metric` is a function.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Labels of the prototypes.
    classes_ : ndarray of shape (n_classes,)
        The labels there are.
    temperature_ : float
        Of ``predict_proba``.
    history_ : dict of list of float
        Per epoch, ``"loss"``: the mean loss, while training or for "median" after the
        epoch; with early stopping ``"validation_score"``: the accuracy.
    n_iter_ : int
        Epochs run.

    See Also
    --------
    widemargin.GLVQClassifier : The same where samples are points.
    widemargin.KernelLVQClassifier : Prototypes in the space of a kernel.
    widemargin.metrics.tangent_distances : Distances that ignore known changes.

    Notes
    -----
    Dissimilarities are used unchanged. Give the squares of distances that are close to
    Euclidean ones, such as those of :func:`~widemargin.metrics.tangent_distances`. Edit
    distances and those of warped series may stay as they are. To predict, "precomputed"
    needs the dissimilarities to the training samples, (n, n_train), or to those of
    `support_` alone, in that order, (n, n_support). Weights below a hundredth of the
    largest of their prototype are left out. Training holds the matrix of the training
    samples; an epoch is a product with it per batch. It cannot be exported.

    References
    ----------
    .. [1] B. Hammer, D. Hofmann, F.-M. Schleif, X. Zhu, Learning vector quantization
       for (dis-)similarities, Neurocomputing 131 (2014).
    .. [2] D. Nebel, B. Hammer, K. Frohberg, T. Villmann, Median variants of learning
       vector quantization for learning of dissimilarity data, Neurocomputing 169
       (2015).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.metrics import pairwise_distances
    >>> from widemargin.prototypes import RelationalLVQClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> D = pairwise_distances(X, metric="cityblock")
    >>> model = RelationalLVQClassifier(2, method="median", random_state=0).fit(D, y)
    >>> model.prototype_indices_.shape
    (6,)
    >>> to_prototypes = D[:, model.prototype_indices_]
    >>> bool((model.predict(to_prototypes) == model.predict(D)).all())
    True
    >>> model.score(D, y) > 0.9
    True
    """

    _state_names: ClassVar = {
        "support": "support_",
        "coefficients": "coefficients_",
        "self_terms": "self_terms_",
        "vectors": "support_vectors_",
    }

    prototypes_per_class: Any = "auto"
    _: KW_ONLY
    method: Literal["relational", "median"] = "relational"
    metric: Literal["precomputed"] | Callable = "precomputed"
    loss: Any = None
    temperature: Positive | Literal["auto"] = "auto"
    max_iter: Counted = 30
    learning_rate: Positive = 0.1
    class_weight: Any = None
    early_stopping: bool = False
    validation_fraction: Fraction = 0.1
    n_iter_no_change: Counted = 5
    random_state: Any = None

    @property
    def partial_fit(self) -> Any:
        """Not there: a batch says nothing of its dissimilarities to what was before."""
        raise AttributeError(f"{type(self).__name__} has no partial_fit; use fit.")

    @property
    def _exact_weights(self) -> bool:
        # Equal rows of a matrix need not be the same sample.
        return callable(self.metric)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = not callable(self.metric)
        tags.input_tags.positive_only = not callable(self.metric)
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not callable(self.metric):
            check_option(
                "metric (unless it is a function)", self.metric, ("precomputed",)
            )
        self._checked_loss()

    def _checked_loss(self) -> Any:
        return check_loss(Sigmoid(beta=10.0) if self.loss is None else self.loss)

    def _check_samples(self, *args: Any, **options: Any) -> Samples:
        self._metric = self.metric
        with self._naming_dissimilarities():
            samples = check_samples(self, *args, **options)
        self.classes_ = samples.classes
        if not callable(self._metric):
            n_rows, n_columns = _num_samples(args[0]), samples.X.shape[1]
            if n_rows != n_columns:
                raise ValueError(
                    "metric='precomputed' needs the square matrix of dissimilarities "
                    f"between the training samples; X has shape {(n_rows, n_columns)}."
                )
            check_dissimilarities(samples.X, "X")
        return with_relative_weights(samples)

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> Related:
        if not callable(self._metric):
            return Related(samples, samples.X[:, samples.rows])
        n = len(samples)
        if rows_in_budget(n * samples.X.itemsize) < n:
            raise ValueError(
                f"X has {n} samples, whose dissimilarities need more than scikit-"
                f"learn's working_memory of {get_config()['working_memory']} MiB; give "
                "fewer, or raise working_memory."
            )
        return Related(samples, self._dissimilarities(samples.X, samples.X))

    def _dissimilarities(self, X: NDArray, Y: NDArray) -> NDArray:
        metric: Any = self._metric
        D = np.asarray(metric(X, Y))
        if D.shape != (len(X), len(Y)):
            raise ValueError(
                f"metric must return an array of shape {(len(X), len(Y))}, one "
                f"dissimilarity per pair; got {D.shape}."
            )
        return check_dissimilarities(D, "metric", X.dtype)

    def _start(self, data: Related, rng: np.random.RandomState) -> State:
        samples, D = data
        codes, weights = samples.codes, samples.weights
        counts = prototype_counts(
            self.prototypes_per_class, self.classes_, codes, weights
        )
        starts, labels = [], []
        for c in np.unique(codes):
            own = np.flatnonzero(codes == c)
            w = weights[own] / weights[own].max()
            A = np.zeros((min(int(counts[c]), len(own)), len(D)), D.dtype)
            found = clusters(D[np.ix_(own, own)], w, len(A), rng)
            A = A[: len(found)]
            A[:, own] = found
            starts.append(A)
            labels.append(np.full(len(A), c))
        A, owners = np.concatenate(starts), np.concatenate(labels)
        self.prototype_labels_ = self.classes_[owners]
        if self.method == "median":
            # The member whose samples are nearest to it, all in all.
            members = A > 0
            costs = np.where(members, A @ D, np.inf)
            return self._shown_as({"codes": owners}, data, medoids=costs.argmin(axis=1))
        spare = codes[None, :] == owners[:, None]
        A = (1 - OUTSIDE) * A + OUTSIDE * spare / spare.sum(axis=1, keepdims=True)
        theta = np.log(np.where(spare, A, 1)).astype(D.dtype)
        state = {"codes": owners, "theta": theta, **optimizer.start("theta", theta)}
        return self._shown_as(state, data)

    def _shown_as(
        self, state: State, data: Related, medoids: NDArray | None = None
    ) -> State:
        """Add to a state what a model needs of it."""
        samples, D = data
        if medoids is None:
            A = mixture(state["theta"], state["codes"], samples.codes)
            least = LEFT_OUT * A.max(axis=1, keepdims=True)
            A = np.where(least <= A, A, 0)
            A = A / A.sum(axis=1, keepdims=True)
            used = np.flatnonzero(A.any(axis=0))
            A = A[:, used]
            own = self_terms(D[np.ix_(used, used)], A)
        else:
            used, A = medoids, np.eye(len(medoids), dtype=D.dtype)
            own = np.zeros(len(medoids), D.dtype)
            state = {**state, "medoids": medoids}
        vectors = samples.X[used] if callable(self._metric) else samples.X[:0, :0]
        shown = {"support": samples.rows[used], "coefficients": A, "self_terms": own}
        return {**state, **shown, "vectors": vectors}

    def _fitted_attributes(self, state: State) -> dict[str, Any]:
        fitted = super()._fitted_attributes(state)
        if not callable(self._metric):
            del fitted["support_vectors_"]
        if "medoids" in state:
            fitted["prototype_indices_"] = state["support"]
        return fitted

    def _store(self, state: State) -> None:
        # There is no way to go on from here.
        self._set_fitted(state)

    def _step(self, data: Related, rng: np.random.RandomState, n_epochs: float) -> Step:
        loss, weights = self._checked_loss(), data.samples.weights
        weights = (weights / weights.mean()).astype(data.D.dtype)
        if self.method == "median":
            return self._exchanges(data, weights, loss, rng)
        n, codes = len(data.samples), data.samples.codes
        # Samples in any order, those that prototypes are made of class by class.
        order, sorted_ = rng.permutation(n), np.argsort(codes, kind="stable")
        back, rows = np.argsort(sorted_), data.D[np.ix_(order, sorted_)]
        owners, mixed, w = codes[order], codes[sorted_], weights[order]
        edges = np.searchsorted(mixed, np.arange(len(self.classes_) + 1))
        halves = []
        for start, stop in pairwise(edges.tolist()):
            own = sorted_[start:stop]
            D = data.D[np.ix_(own, own)]
            halves.append((slice(start, stop), (D + D.T) / 2))
        size, names = min(max(n // 20, 16), 512), ("theta", "theta_m", "theta_v")

        def train(state: State, epoch: int) -> Outcome:
            labels, total = state["codes"], 0.0
            state = {**state, **{name: state[name][:, sorted_] for name in names}}
            blocks = [
                Block(np.flatnonzero(labels == c), *half)
                for c, half in enumerate(halves)
            ]
            blocks = [block for block in blocks if len(block.prototypes)]
            for batch, rate in optimizer.shuffled_batches(
                size, self.learning_rate, n, rng, epoch, n_epochs
            ):
                A = mixture(state["theta"], labels, mixed)
                sums = relational_sums(
                    A, labels, blocks, rows[batch], owners[batch], w[batch], loss
                )
                slope = sums.gradients["weights"]
                slope = A * (slope - np.einsum("jk,jk->j", A, slope)[:, None])
                moments, ascent = optimizer.adam(state, "theta", slope)
                theta = state["theta"] - rate * ascent
                state = {**state, **moments, "theta": theta}
                total += float(sums.loss)
            state = {**state, **{name: state[name][:, back] for name in names}}
            if is_auto(self.prototypes_per_class) and epoch + 1 == n_epochs:
                A = mixture(state["theta"], labels, codes)
                d = relational_distances(data.D, A, self_terms(data.D, A))
                stay = ~unused(d.argmin(axis=1), labels, len(self.classes_))
                state |= {name: state[name][stay] for name in (*names, "codes")}
            return Outcome(self._shown_as(state, data), {"loss": total / n})

        return train

    def _exchanges(
        self, data: Related, weights: NDArray, loss: Any, rng: np.random.RandomState
    ) -> Step:
        codes, D = data.samples.codes, data.D

        def train(state: State, epoch: int) -> Outcome:
            labels, medoids = state["codes"], state["medoids"].copy()
            moved, cost = False, np.inf
            for j in rng.permutation(len(medoids)):
                own = np.flatnonzero(codes == labels[j])
                # First where it is: it stays unless another is better.
                taken = medoids[np.arange(len(medoids)) != j]
                rest = own[~np.isin(own, taken) & (own != medoids[j])]
                tried = np.concatenate([medoids[j : j + 1], rest])
                costs = exchange_costs(
                    D, medoids, labels, codes, weights, loss, j, tried
                )
                best = int(costs.argmin())
                # By more than rounding: an endless exchange of equals would follow.
                better = costs[best] < costs[0] - 1e-10 * abs(costs[0])
                cost = costs[best] if better else costs[0]
                if better:
                    medoids[j], moved = tried[best], True
            if is_auto(self.prototypes_per_class) and not moved:
                nearest = D[:, medoids].argmin(axis=1)
                stay = ~unused(nearest, labels, len(self.classes_))
                medoids, labels = medoids[stay], labels[stay]
            state = self._shown_as({**state, "codes": labels}, data, medoids=medoids)
            return Outcome(state, {"loss": float(cost) / len(codes)}, done=not moved)

        return train

    def _check_predict(self, X: Any) -> NDArray:
        check_is_fitted(self)
        if callable(self._metric):
            return check_X(self, X)
        shape = np.asarray(X).shape
        few = len(shape) == 2 and shape[1] == len(self.support_) != self.n_features_in_
        with self._naming_dissimilarities():
            D = as_matrix("X", X) if few else check_X(self, X)
        return check_dissimilarities(D, "X")

    @contextmanager
    def _naming_dissimilarities(self) -> Iterator[None]:
        """Let the errors of scikit-learn's checks say what X holds."""
        try:
            yield
        except ValueError as error:
            if callable(self._metric):
                raise
            if "contains NaN" in str(error) or "contains infinity" in str(error):
                raise ValueError(
                    "X must hold finite dissimilarities of at least 0; got NaN or "
                    "infinity. Leave out samples whose dissimilarities are not known."
                ) from error
            if "is expecting" in str(error):
                raise ValueError(
                    f"{error} They are dissimilarities to the training samples, or to "
                    f"the {len(self.support_)} of support_."
                ) from error
            raise

    def _squared_distances(self, X: NDArray) -> NDArray:
        if callable(self._metric):
            rows = self._dissimilarities(X, self.support_vectors_)
        else:
            rows = X[:, self.support_] if X.shape[1] == self.n_features_in_ else X
        return relational_distances(rows, self.coefficients_, self.self_terms_)

    def _left_out_costs(self, samples: Samples) -> LeftOut:
        samples = with_mean_one(samples)
        parts = self._left_out_parts(samples, len(self.prototype_labels_))
        if not parts or not callable(self._metric):
            return super()._left_out_costs(samples)

        def distances(model: Any, some: Samples) -> LeftOut:
            D = model._class_distances(model._check_predict(some.X))
            return LeftOut(D, D.argmin(axis=1), some.codes, some.weights)

        found = refitted(self, samples, parts, distances, with_terms_of)
        return found._replace(costs=relative_distances(found.costs))

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the probability of each class, by soft assignment.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_train), (n_samples, n_support) or \
                (n_samples, n_features)
            Dissimilarities, or samples where `metric` is a function.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As those of :meth:`widemargin.GLVQClassifier.predict_proba`.
        """
        return super().predict_proba(X)

    def _lipschitz(self) -> float:
        raise ValueError(
            f"certified_radius is not defined for {type(self).__name__}: a "
            "dissimilarity does not say how far a sample may move."
        )

    def _check_bound(self) -> None:
        no_bound("those of RelationalLVQClassifier are made of the same samples")


def with_terms_of(said: LeftOut, mine: LeftOut, theirs: LeftOut) -> LeftOut:
    """Return distances `said` of samples left out, as the model of all would say them.

    Self-terms of mixtures add to all distances to a class, and differ from fit to fit;
    where features are many, by more than samples do. What a class is away from samples
    of others, of which its mixtures are not made, tells by how much: `mine` are these
    distances to the model and `theirs` to the fit that said it, of the same samples.
    """
    D = said.costs.copy()
    for c in range(D.shape[1]):
        more = (mine.costs - theirs.costs)[mine.codes != c, c]
        if len(more) and np.isfinite(more).all():
            # Differences of single samples may be heavy-tailed, as features are.
            D[:, c] += np.median(more)
    D = np.maximum(D, 0)
    return said._replace(costs=D, answers=D.argmin(axis=1))


def mixture(theta: NDArray, labels: NDArray, codes: NDArray) -> NDArray:
    """Return the weights: a softmax over the samples of the class of each prototype."""
    own = labels[:, None] == codes[None, :]
    return softmax(np.where(own, theta, -np.inf), axis=1).astype(theta.dtype)


def check_dissimilarities(D: NDArray, name: str, dtype: Any = None) -> NDArray:
    """Return dissimilarities that are numbers of at least 0, also in `dtype`."""
    dtype = D.dtype if dtype is None else dtype
    bad = ~((D >= 0) & np.isfinite(D))
    if bad.any():
        # scikit-learn's checks look for these words.
        negative = " (Negative values in data)" if D[bad][0] < 0 else ""
        raise ValueError(
            f"{name} must hold finite dissimilarities of at least 0; got "
            f"{D[bad][0]:g}{negative}. A similarity s becomes one by s.max() - s, a "
            "kernel k by k(x, x) + k(y, y) - 2 k(x, y)."
        )
    largest = float(D.max(initial=0.0))
    # Squared distances of samples that may come in are below.
    if largest > SIZES[np.dtype(dtype)][1] ** 2.5:
        raise ValueError(
            f"{name} holds a dissimilarity of {largest:.2g}, with which sums overflow "
            f"{dtype}; divide all by their largest."
        )
    return D.astype(dtype, copy=False)
