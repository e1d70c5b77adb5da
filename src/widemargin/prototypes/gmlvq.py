"""Generalised matrix LVQ: prototypes and the metric that suits them, learned together.

Distances are ``||Omega (x - p)||^2`` with a learned Omega; ``Lambda = Omega^T Omega``
is the relevance matrix and its diagonal says how much each feature counts. Omega is one
matrix for all, its diagonal, or a matrix per class or per prototype. It is learned with
every feature divided by a unit, its within-class spread where units differ; there it
starts as the identity, or as the discriminant directions if n_components is smaller.

With C the coefficients of :mod:`widemargin.prototypes.glvq`, r and s its row and column
sums, ``Z = X Omega^T`` and ``Q = P Omega^T``, the gradients of one matrix for all are

    dP     = -2 (C^T X - diag(s) P) Omega^T Omega,
    dOmega =  2 (Z^T diag(r) X - (C^T Z)^T P - Q^T C^T X + Q^T diag(s) P);

those of ``Omega = diag(o)`` its diagonal,

    do_f   =  2 o_f (sum_i r_i x_if^2 - 2 sum_j (C^T X)_jf p_jf + sum_j s_j p_jf^2);

and those of the matrix of group g, over the pairs (i, j) whose prototype j is in g,

    dOmega_g = 2 Omega_g sum_ij C_ij (x_i - p_j) (x_i - p_j)^T.

Shapes: Omega (rank, d), (d,) and (n_groups, rank, d); X and P as they are trained, each
feature in its unit, about the mean.

Hammer and Villmann, "Generalized relevance learning vector quantization", Neural
Networks 2002; Schneider, Biehl and Hammer, "Adaptive relevance matrices in learning
vector quantization", Neural Computation 2009; Schneider et al., "Regularization in
matrix relevance learning", IEEE TNN 2010; Bunte et al., "Limited rank matrix learning",
Neural Networks 2012; Strickert et al., "Regularization and improved interpretation of
linear data mappings and adaptive distance measures", CIDM 2013.
"""

from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from widemargin._compute.engines import formula
from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._compute.nearest import (
    expanded_distances,
    recompute_close,
    second_moments,
    squared_distances,
    squared_norms,
)
from widemargin._compute.rounding import epsilon, product_error
from widemargin._core.arrays import beside, in_dtype, numpy_dtype, to_numpy
from widemargin._core.lazy import without_callbacks
from widemargin._core.params import Counted, NotNegative, Positive, parameters
from widemargin._core.samples import Samples
from widemargin.prototypes import initialization, optimizer
from widemargin.prototypes.base import CERTAIN, no_bound
from widemargin.prototypes.glvq import (
    TEMPERATURE_ROWS,
    Centred,
    GLVQClassifier,
    TransformedSamples,
    centred_part,
    coefficients,
    distances_by_product,
    share_sums,
    with_temperature,
)
from widemargin.prototypes.optimizer import Batch, Descent, State, Sums
from widemargin.prototypes.training import Outcome, Run, Step


def mapped_errors(x: NDArray, z_norms: NDArray, length: float) -> NDArray:
    """Error of an expanded square of ``z = Omega x``, rounded when it was mapped.

    The map errs by about ``eps |Omega| |x|``, which enters a square times ``2 |z|``;
    by ``2ab <= a^2 / s + b^2 s`` it is a sum of a part of x and a part of z.
    `length` is the squared Frobenius norm of Omega.
    """
    root = np.sqrt(x.shape[1])
    eps = epsilon(x.dtype)
    own = product_error(x.dtype, x.shape[1]) + 4 * eps * root
    return own * z_norms + (4 * eps * length / root) * squared_norms(x)


@formula
def mapped_distances(
    X: Any, P: NDArray, omega: NDArray, coarse: float | None
) -> NDArray:
    """(n, K) squared distances of samples mapped by one Omega, close ones exactly."""
    dtype = np.result_type(X, P)
    centre = P.mean(axis=0, dtype=np.float64).astype(dtype)
    omega = omega.astype(dtype, copy=False)
    x, p = X - centre, P - centre
    z, q = x @ omega.T, p @ omega.T
    z_norms, q_norms = squared_norms(z), squared_norms(q)
    length = float(squared_norms(omega).sum())
    return recompute_close(
        expanded_distances(z, q, z_norms),
        mapped_errors(x, z_norms, length),
        mapped_errors(p, q_norms, length),
        lambda i, j: squared_norms((X[i].astype(float) - P[j]) @ omega.T),
        coarse=coarse,
        n_features=2 * X.shape[1],
    )


class FullMatrix:
    """One matrix for all prototypes."""

    def start(self, inner: NDArray, n_groups: int) -> NDArray:
        """Omega to begin with, from the (rank, d) directions `inner`."""
        return inner

    def inner(self, omega: NDArray, spread: NDArray) -> NDArray:
        """Omega for the divided features, with a root mean square row of one."""
        inner = omega * (spread / spread.max())
        return inner * float(np.sqrt(len(inner)) / (np.linalg.norm(inner) or 1))

    def outer(self, inner: NDArray, spread: NDArray) -> NDArray:
        """Omega for the features as they are, of Frobenius norm one."""
        omega = inner / spread
        # Divided first: squares of what is left neither overflow nor vanish.
        omega = omega / (np.abs(omega).max() or 1)
        return omega / (np.linalg.norm(omega) or 1)

    def relevance_matrix(self, omega: NDArray) -> NDArray:
        """Lambda of Omega."""
        return np.swapaxes(omega, -1, -2) @ omega

    def mapped(self, X: NDArray, omega: NDArray) -> NDArray:
        """Map samples to where distances are Euclidean."""
        return X @ omega.T

    def sums(
        self,
        rows: Centred,
        P: NDArray,
        omega: NDArray,
        labels: NDArray,
        groups: NDArray,
        loss: Any,
    ) -> Sums:
        """Loss, gradients in prototypes and Omega, and wins among the own class."""
        Z, Q = rows.X @ omega.T, P @ omega.T
        error = product_error(numpy_dtype(P), P.shape[1]) * (omega**2).sum()
        pairs = coefficients(
            distances_by_product(Z, Q),
            labels,
            rows.codes,
            rows.weights,
            loss,
            error * rows.norms,
            error * (P * P).sum(1),
        )
        C = pairs.C
        towards = C.T @ rows.X - C.sum(0)[:, None] * P
        by_omega = (Z * C.sum(1)[:, None]).T @ rows.X - (C.T @ Z).T @ P - Q.T @ towards
        return pairs.summed(
            prototypes=-2 * (towards @ omega.T) @ omega,
            omega=2 * by_omega,
            weight=rows.weights.sum(),
        )

    def distances(
        self,
        X: NDArray,
        P: NDArray,
        omega: NDArray,
        groups: NDArray,
        coarse: float | None = None,
    ) -> NDArray:
        """(n, K) squared distances, close ones recomputed exactly."""
        return mapped_distances(X, P, omega, coarse)

    def steepness(self, omega: NDArray) -> float:
        """How fast a distance can change with the sample."""
        return float(np.linalg.norm(omega.astype(float), 2))

    def shrinkage(self, omega: NDArray) -> float:
        """Logarithm of what `inner` will multiply squared distances by."""
        n_groups = len(omega) if omega.ndim == 3 else 1
        rows = omega.shape[1] if omega.ndim == 3 else len(omega)
        size = float(np.sum(omega.astype(float) ** 2)) / n_groups
        return float(np.log(rows / size)) if size > 0 else 0.0

    def log_det_slope(self, omega: NDArray) -> NDArray:
        """Gradient of ``ln det(Omega Omega^T) / 2``: the transposed pseudo-inverse."""
        if not np.isfinite(omega).all():
            # The loop stops at steps that are no numbers; LAPACK would raise.
            return np.full_like(omega, np.nan)
        return np.swapaxes(np.linalg.pinv(omega, rcond=1e-6), -1, -2)


class Diagonal(FullMatrix):
    """One weight per feature: generalised relevance LVQ."""

    def start(self, inner: NDArray, n_groups: int) -> NDArray:
        """See FullMatrix."""
        return np.ones(inner.shape[1], inner.dtype)

    def relevance_matrix(self, omega: NDArray) -> NDArray:
        """See FullMatrix."""
        return np.diag(omega * omega)

    def mapped(self, X: NDArray, omega: NDArray) -> NDArray:
        """See FullMatrix."""
        return X * omega

    def sums(self, rows, P, omega, labels, groups, loss):
        """See FullMatrix."""
        Q, Z = P * omega, rows.X * omega
        error = product_error(numpy_dtype(P), P.shape[1])
        errors = error * (Z * Z).sum(1), error * (Q * Q).sum(1)
        D = distances_by_product(Z, Q)
        pairs = coefficients(D, labels, rows.codes, rows.weights, loss, *errors)
        pulled = pairs.C.T @ rows.X
        towards = pulled - pairs.C.sum(0)[:, None] * P
        slopes = pairs.C.sum(1) @ rows.X**2 - ((pulled + towards) * P).sum(0)
        return pairs.summed(
            prototypes=-2 * towards * omega**2,
            omega=2 * omega * slopes,
            weight=rows.weights.sum(),
        )

    def distances(self, X, P, omega, groups, coarse=None):
        """See FullMatrix."""
        return squared_distances(X * omega, P * omega, coarse)

    def steepness(self, omega: NDArray) -> float:
        """See FullMatrix."""
        return float(np.abs(omega).max())

    def log_det_slope(self, omega: NDArray) -> NDArray:
        """See FullMatrix."""
        return np.where(omega > 0, 1 / np.where(omega > 0, omega, 1), 0)


class Local(FullMatrix):
    """A matrix for every group of prototypes: each its own, or one per class."""

    def start(self, inner: NDArray, n_groups: int) -> NDArray:
        """See FullMatrix."""
        return np.repeat(inner[None], n_groups, axis=0)

    def inner(self, omega: NDArray, spread: NDArray) -> NDArray:
        """See FullMatrix."""
        inner = omega * (spread / spread.max())
        size = np.linalg.norm(inner, axis=(1, 2), keepdims=True)
        size[size == 0] = 1
        return (inner * (np.sqrt(inner.shape[1]) / size)).astype(omega.dtype)

    def mapped(self, X: NDArray, omega: NDArray) -> NDArray:
        """See FullMatrix."""
        return X

    def _spaces(self, groups: NDArray) -> list[tuple[int, NDArray]]:
        return [(g, np.flatnonzero(groups == g)) for g in np.unique(groups)]

    def sums(self, rows, P, omega, labels, groups, loss):
        """See FullMatrix."""
        X = rows.X
        D = np.empty((len(X), len(P)), X.dtype)
        x_errors, p_errors = np.zeros(len(X)), np.zeros(len(P))
        error = product_error(P.dtype, P.shape[1])
        for g, own in self._spaces(groups):
            Z, Q = X @ omega[g].T, P[own] @ omega[g].T
            D[:, own] = distances_by_product(Z, Q)
            x_errors = np.maximum(x_errors, error * (Z * Z).sum(1))
            p_errors[own] = error * (Q * Q).sum(1)
        pairs = coefficients(
            D, labels, rows.codes, rows.weights, loss, x_errors, p_errors
        )
        by_P, by_omega = np.zeros_like(P), np.zeros_like(omega)
        size = rows_in_budget(4 * X.itemsize * X.shape[1])
        for g, own in self._spaces(groups):
            i, j = np.nonzero(pairs.C[:, own])
            for s in batched_slices(len(i), size):
                at = own[j[s]]
                gaps, c = X[i[s]] - P[at], pairs.C[i[s], at][:, None]
                mapped = gaps @ omega[g].T
                by_omega[g] += 2 * (mapped * c).T @ gaps
                np.add.at(by_P, at, -2 * c * (mapped @ omega[g]))
        weight = rows.weights.sum()
        return pairs.summed(prototypes=by_P, omega=by_omega, weight=weight)

    def distances(self, X, P, omega, groups, coarse=None):
        """See FullMatrix."""
        # Errors differ from group to group: none that could decide is left.
        D = np.empty((len(X), len(P)))
        for g, own in self._spaces(groups):
            D[:, own] = super().distances(
                X.astype(float), P[own].astype(float), omega[g], groups,
                min(coarse or 1e-9, 1e-9),
            )  # fmt: skip
        return D

    def steepness(self, omega: NDArray) -> float:
        """See FullMatrix."""
        return float(np.linalg.norm(omega.astype(float), 2, axis=(1, 2)).max())


def span_of(X: NDArray) -> NDArray:
    """Projection onto the directions in which the centred samples vary.

    What a matrix does elsewhere no training sample can tell; without this correction
    it may be anything, and a new sample would meet it amplified.
    """
    values, U = np.linalg.eigh(second_moments(X, np.ones(len(X), X.dtype)))
    kept = U[:, values > 1e-6 * max(float(values[-1]), 0.0)]
    return (kept @ kept.T).astype(X.dtype)


# Rows of Omega at most, unless n_components says more: beyond, they tell little.
MOST_COMPONENTS = 100


@formula
def gmlvq_pass(
    rows: Any,
    loss: Any,
    descent: Descent,
    state: State,
    units: dict[str, Any],
    batches: list[Batch],
) -> tuple[State, float, NDArray]:
    """Pass over batches; `rows` are those here, of one matrix and a plain loss."""
    return optimizer.run_batches(descent, state, units, batches)


@parameters
class GMLVQClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, GLVQClassifier
):
    """Generalised matrix LVQ: full, limited rank, diagonal (GRLVQ) or local (LGMLVQ).

    Learns a few prototypes per class and a matrix that weighs features and their
    combinations. It is the first choice for tables: features may have any units, and
    useless ones get little weight.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Number of prototypes per class; at most the number of distinct samples. "auto"
        takes the smallest of 1, 2, 5 and a tenth of the samples of a class, at most 20.
        It must not be clearly worse on validation samples than the others. The largest
        may double in the first half of the epochs. Prototypes nearest to no sample are
        dropped at the end.
    metric : {"full", "diagonal", "class", "local"}, default="full"
        Learned matrices: one full Omega; one weight per feature (generalised relevance
        LVQ); an Omega per class; or an Omega per prototype (local).
    n_components : int, optional
        Rows of Omega, the dimension of ``transform``. By default n_features, at most
        100, and fewer than samples above 100 features. Not for ``metric="diagonal"``.
    sparsity : float, default=0.0
        L1/2 penalty on the relevances, for ``metric="diagonal"``. Larger values set
        more of them to 0.
    regularization : float, default=0.0
        Weight of ``-ln det(Omega Omega^T) / 2`` in the mean loss. It keeps Omega from
        collapsing to few directions.
    loss : str or MarginLoss, optional
        Loss of the relative margin, see :mod:`widemargin.margins`; by default
        ``Sigmoid(beta=10)``. "rslvq" (robust soft LVQ) and "cross_entropy" are soft
        losses, see :mod:`widemargin.prototypes.glvq`.
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
        First step of the prototypes, a multiple of the standard deviation within
        classes.
    matrix_learning_rate : float, default=0.05
        First step of Omega, a multiple of its root mean square element.
    batch_size : int or "auto", default="auto"
        Distinct samples per gradient. "auto" makes about twenty batches of 25 to 512
        samples, and batches of 20 from fewer than 500 samples.
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
        The prototypes, in the space of the samples.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their labels.
    omega_ : ndarray of shape (n_components, n_features)
        The map, scaled so that the relevances sum to one. For "diagonal" of shape
        (n_features,); for "class" and "local" one more dimension in front, of classes
        or prototypes, and all relevances together sum to one.
    relevance_matrix_ : ndarray of shape (n_features, n_features)
        Lambda; for "class" and "local" one for each.
    relevances_ : ndarray of shape (n_features,)
        Its diagonal; for "class" and "local" one for each. Do not rank features of
        different units by it: ask ``feature_importances_``.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the distance, in any unit: its relevance times its
        variance among the training samples. For "class" and "local" the mean of those
        of each matrix.
    feature_variances_ : ndarray of shape (n_features,)
        Variances of the training samples, of the first ones of a stream.
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
    widemargin.GLVQClassifier : The same with the Euclidean distance.
    widemargin.TVQClassifier : Learns tangents of each prototype instead of a metric.

    Notes
    -----
    A sample of weight 2 and the same sample given twice lead to the same model, bit
    by bit. The certified radius is in the units of the features: the margin in the
    mapped space divided by the largest singular value of Omega. Local matrices are
    corrected for the null space of the training data: directions in which these do not
    vary count nothing.

    ``partial_fit`` makes one pass over each batch after the first 500 samples, or after
    ``fit``. A batch of fewer than 200 samples is joined with the latest before it. The
    step is ``learning_rate * clip(5 * e, 0.03, 1)``, with e the error rate on the last
    200 samples before they were learned; see :doc:`/guide/prototypes`.

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
    # Samples that are left out of a prototype are still in the directions it lies in.
    _stays_on_device = False

    _: KW_ONLY
    metric: Literal["full", "diagonal", "class", "local"] = "full"
    n_components: Counted | None = None
    sparsity: NotNegative = 0.0
    regularization: NotNegative = 0.0
    matrix_learning_rate: Positive = 0.05

    @property
    def relevance_matrix_(self) -> NDArray:
        """Lambda, the matrix of the squared distance."""
        return self._metric.relevance_matrix(self.omega_)

    @property
    def relevances_(self) -> NDArray:
        """Diagonal of Lambda; its values depend on the units of the features."""
        if self.omega_.ndim == 1:
            return self.omega_**2
        return np.einsum("...ij,...ij->...j", self.omega_, self.omega_)

    @property
    def feature_variances_(self) -> NDArray:
        """Variances of the training samples."""
        return self._training["variances"]

    @property
    def feature_importances_(self) -> NDArray:
        """Share of each feature in the distance between training samples."""
        shares = np.atleast_2d(self.relevances_ * self.feature_variances_)
        sums = shares.sum(axis=1, keepdims=True)
        return np.mean(shares / np.where(sums > 0, sums, 1), axis=0)

    @property
    def _metric(self) -> Any:
        """What is learned of the metric, and how."""
        return {"full": FullMatrix, "diagonal": Diagonal}.get(
            self._metric_name, Local
        )()

    @property
    def _groups(self) -> NDArray:
        """Which matrix belongs to each prototype."""
        return self._grouped(self._prototype_codes)

    def _grouped(self, codes: NDArray) -> NDArray:
        if self._metric_name == "local":
            return np.arange(len(codes))
        return codes if self._metric_name == "class" else 0 * codes

    @property
    def _n_features_out(self) -> int:
        return len(self.omega_) if self.omega_.ndim < 3 else self.omega_.shape[1]

    def transform(self, X: ArrayLike) -> NDArray:
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
        samples: Any = self._check_predict(X)
        if self.omega_.ndim == 3:
            raise ValueError(
                "transform needs one map for all samples; "
                f"metric={self._metric_name!r} learns several. Use metric='full' or "
                "'diagonal'."
            )
        omega = beside(samples, self.omega_.astype(float))
        mapped = self._metric.mapped(in_dtype(samples, np.float64), omega)
        return in_dtype(mapped, numpy_dtype(samples))

    def _squared_distances(self, X: NDArray, coarse: float | None = None) -> NDArray:
        X = X if self.omega_.ndim == 2 else to_numpy(X)
        return self._metric.distances(
            X, self.prototypes_, self.omega_, self._groups, coarse
        )

    def _distance_bounds(self, X: NDArray) -> tuple[NDArray, NDArray]:
        D = self._squared_distances(X, coarse=CERTAIN / 4)
        return D * (1 - CERTAIN), D * (1 + CERTAIN)

    def _lipschitz(self) -> float:
        return self._metric.steepness(self.omega_) * (1 + 1e-9)

    def _check_bound(self) -> None:
        no_bound("the metric of GMLVQClassifier was learned from the same samples")

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> TransformedSamples:
        if first:
            self._metric_name = self.metric
        return TransformedSamples(samples, samples.X)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.sparsity and self.metric != "diagonal":
            raise ValueError(
                "sparsity is for metric='diagonal', whose weights it makes zero; got "
                f"metric={self.metric!r}."
            )
        if self.n_components is not None and self.metric == "diagonal":
            raise ValueError(
                "n_components is the rank of a matrix; metric='diagonal' has one "
                "weight per feature."
            )

    # Models share the metric, which takes more steps to learn.
    _apart, _few_batch = False, 20

    def _trial(self, size: int | None) -> Self:
        trial = super()._trial(size)
        trial.scale = "within_class_std" if self._divides else "none"
        return trial

    @property
    def _clusters(self) -> bool:
        """Whether prototypes start from clusters in the mapped space."""
        return isinstance(self.init, str) and self.init == "kmeans"

    def _start(self, data: TransformedSamples, rng: np.random.RandomState) -> State:
        samples, n_features = data.samples, data.X.shape[1]
        rank = n_features
        if n_features > MOST_COMPONENTS:
            # Samples about their mean span no more.
            rank = min(MOST_COMPONENTS, max(len(samples) - 1, 1))
        if self.n_components is not None:
            rank = int(self.n_components)
        if rank > n_features:
            raise ValueError(
                f"n_components={rank} must not exceed the number of features, "
                f"{n_features}."
            )
        X, codes, weights = samples.X, samples.codes, samples.weights
        spread = initialization.chosen_scale(X, codes, weights, self.scale)
        self._divides = spread is not None
        if spread is None:
            # One unit for all: the spread of the typical feature.
            each = initialization.within_class_spread(X, codes, weights)
            mean = np.sqrt(np.mean(each**2, dtype=np.float64))
            spread = np.full(n_features, mean, X.dtype)
        if rank == n_features or self.metric == "diagonal":
            inner = np.eye(n_features, dtype=X.dtype)
        else:
            inner = discriminant_directions(X / spread, codes, weights, rank, rng)
        if self._clusters:
            Q = self._place((X / spread) @ inner.T, samples, rng)
            P = _means(samples, inner / spread, Q, self._prototype_codes)
        else:
            P = self._place(X, samples, rng)
        n_groups = int(self._groups.max()) + 1
        if self.metric == "class":
            n_groups = len(self.classes_)
        omega = self._metric.outer(self._metric.start(inner, n_groups), spread)
        return {
            "prototypes": P,
            "omega": omega,
            "codes": self._prototype_codes,
            "spread": spread,
            "variances": variances_of(X, weights),
            **optimizer.start("prototypes", P),
            **optimizer.start("omega", omega),
        }

    def _resume(
        self, state: State, data: TransformedSamples, rng: np.random.RandomState
    ) -> State:
        samples, spread, n = data.samples, state["spread"], len(state["prototypes"])
        new = np.flatnonzero(~np.isin(samples.codes, self._prototype_codes))
        omega = state["omega"] if state["omega"].ndim == 2 else np.diag(1 / spread)
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
        moments = optimizer.grow(state, "prototypes", P)
        codes = self._prototype_codes
        state = {**state, "prototypes": P, "codes": codes, **moments}
        if self._metric_name == "local" and len(added):
            fresh = np.repeat(state["omega"].mean(axis=0)[None], len(added), axis=0)
            omega = np.concatenate([state["omega"], fresh])
            state = {**state, "omega": omega, **optimizer.grow(state, "omega", omega)}
        return state

    @property
    def _learned(self) -> tuple[str, ...]:
        return (*super()._learned, "omega")

    def _step(
        self, data: TransformedSamples, rng: np.random.RandomState, n_epochs: float
    ) -> Step:
        loss, metric, samples = self._resolved_loss(), self._metric, data.samples
        n, order = samples.n_rows, rng.permutation(len(samples))
        # Other rules than the plain one of a full matrix are the CPU's.
        plain = self._metric_name == "full" and not (self._is_soft or self._penalised)
        device = samples.device if plain else None
        ratio = self.matrix_learning_rate / self.learning_rate
        ratio /= np.sqrt(data.X.shape[1])
        if self._metric_name == "diagonal":
            # They are d weights of size one, not d^2 of which most are zero.
            ratio *= 4 * np.sqrt(data.X.shape[1])
        units = {"prototypes": 1.0, "omega": float(ratio), "log_temperature": 1.0}
        # Weights are squared: a sign would say nothing.
        weights = {"omega": lambda omega: omega.clip(min=0)}
        prepared: list[Any] = []

        def prepare(spread: NDArray) -> None:
            centre, host = data.centred(order, spread)
            is_local = self._metric_name in ("class", "local")
            span = span_of(host.X) if is_local else None
            given = without_callbacks(self), spread, centre, samples.mean_weight, False
            parts = samples.parts(host.at(device), centred_part, *given)

            def sums(now: State, batch: Any) -> Sums:
                P, omega, labels = now["prototypes"], now["omega"], now["codes"]
                at_temperature = with_temperature(loss, now.get("log_temperature"))
                given = P, omega, labels, self._grouped(labels), at_temperature
                found = parts.sum(share_sums, metric.sums, batch, n, *given)
                if self._penalised:
                    weight = found.gradients["weight"]
                    penalty = weight * self._penalty_slope(metric, omega)
                    found.gradients["omega"] = found.gradients["omega"] + penalty
                return found

            descent = Descent(
                sums,
                self._learned,
                device,
                getattr(loss, "array_api", False),
                weights if self._metric_name == "diagonal" else {},
            )
            prepared.extend([centre, host, parts, span, descent])

        def train(state: State, epoch: int) -> Outcome:
            spread = state["spread"]
            if not prepared:
                prepare(spread)
            centre, host, parts, span, descent = prepared
            P = (state["prototypes"] - centre) / spread
            omega = metric.inner(state["omega"], spread)
            few = slice(0, TEMPERATURE_ROWS)
            state = self._with_first_temperature(
                state,
                metric.mapped(host.X[few], omega),
                host.codes[few],
                metric.mapped(P, omega),
            )
            batches = self._batches(parts, n, rng, epoch, n_epochs)
            state, total, wins = gmlvq_pass(
                parts.here if plain else None,
                loss,
                descent,
                {**state, "prototypes": P, "omega": omega},
                units,
                batches,
            )
            P, omega = state["prototypes"], state["omega"]
            if span is not None:
                omega = omega @ span
            if "log_temperature" in state:
                # In the units that the next pass begins with.
                shrunk = state["log_temperature"] + metric.shrinkage(omega)
                state["log_temperature"] = shrunk
            mapped = metric.mapped(host.X, omega), metric.mapped(P, omega)
            state = {**state, "omega": omega}
            state = self._after_pass(state, host, mapped, wins, rng, epoch, n_epochs)
            P = state["prototypes"] * spread + centre
            moved = {"prototypes": P, "omega": metric.outer(state["omega"], spread)}
            return Outcome({**state, **moved}, {"loss": total / n})

        return train

    @property
    def _penalised(self) -> bool:
        return bool(self.regularization or self.sparsity)

    def _penalty_slope(self, metric: Any, omega: NDArray) -> Any:
        """Gradient of what is added to the mean loss."""
        slope: Any = 0.0
        if self.regularization:
            slope = -self.regularization * metric.log_det_slope(omega)
        if self.sparsity:
            slope = slope + self.sparsity / len(omega) * (omega > 0)
        return slope

    def _nearest(self, state: State, rows: Any, mapped: tuple) -> NDArray:
        P, omega, codes = state["prototypes"], state["omega"], state["codes"]
        if omega.ndim < 3:
            return super()._nearest(state, rows, mapped)
        D = self._metric.distances(rows.X, P, omega, self._grouped(codes))
        return np.asarray(D.argmin(axis=1))

    def _new_parameters(
        self, state: State, rows: Any, mapped: tuple, added: NDArray
    ) -> dict[str, NDArray]:
        fresh = super()._new_parameters(state, rows, mapped, added)
        if self._metric_name == "local":
            # The matrix of the nearest prototype of the class.
            D = squared_distances(mapped[0][added], mapped[1])
            D[rows.codes[added][:, None] != state["codes"][None, :]] = np.inf
            fresh["omega"] = state["omega"][D.argmin(axis=1)]
        return fresh


def variances_of(X: NDArray, weights: NDArray) -> NDArray:
    """Weighted variance of every feature."""
    mean = np.average(X, axis=0, weights=weights)
    return np.average((X - mean) ** 2, axis=0, weights=weights).astype(X.dtype)


def _means(samples: Samples, omega: NDArray, Q: NDArray, codes: NDArray) -> NDArray:
    """Means of the samples that belong to centres `Q` found in the mapped space."""
    D = squared_distances(samples.X @ omega.T, Q)
    D[samples.codes[:, None] != codes[None, :]] = np.inf
    means = initialization.class_means(
        samples.X, D.argmin(axis=1), samples.weights, len(Q)
    )
    return means.astype(samples.X.dtype)


def discriminant_directions(
    X: NDArray,
    codes: NDArray,
    weights: NDArray,
    rank: int,
    rng: np.random.RandomState,
) -> NDArray:
    """Return the `rank` directions in which the classes lie farthest apart.

    They are the widest directions of all samples together after a whitening W of the
    within-class covariance. A tenth of its mean variance keeps directions of next to no
    variance from exploding.
    """
    centred, span = X - weights @ X / weights.sum(), None
    size = max(len(X), rank)
    if size < X.shape[1]:
        # What no sample leaves its mean by tells nothing: matrices of few directions.
        # If more are asked for, they favour no feature.
        others = rng.standard_normal((size - len(X), X.shape[1]))
        span = np.linalg.qr(np.concatenate([centred, others]).T)[0]
        centred = centred @ span
    S = second_moments(initialization.residuals(centred, codes, weights), weights)
    values, U = np.linalg.eigh(S)
    # Features come divided by their spread: below this there is none.
    ridge = 0.1 * max(values.sum() / X.shape[1], 1e-12)
    W = (U / np.sqrt(np.maximum(values, 0) + ridge)) @ U.T
    T = second_moments(centred, weights)
    directions = np.linalg.eigh(W @ T @ W)[1][:, ::-1][:, :rank].T @ W
    return (directions if span is None else directions @ span.T).astype(X.dtype)
