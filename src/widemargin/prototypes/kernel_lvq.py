"""GLVQ in the space of a kernel: prototypes are combinations of training samples.

A prototype is ``w = sum_s a_s phi(x_s)`` over m support samples, so that

    ||phi(x) - w||^2 = k(x, x) - 2 a . k_S(x) + a^T K_SS a.

With ``K_SS = U diag(l) U^T`` the coordinates ``z(x) = diag(l)^(-1/2) U^T k_S(x)`` are
those of the projection of phi(x) onto the span of the support, and exactly

    ||phi(x) - w||^2 = ||z(x) - z_w||^2 + (k(x, x) - ||z(x)||^2),
    a = U diag(l)^(-1/2) z_w:

ordinary GLVQ on z, with an offset per sample that no prototype can change. Only the
leading eigenvalues are kept, which confines the prototypes to the span of their
directions and leaves all of this exact. Memory is m^2 + n m numbers. Negative
eigenvalues of a kernel that is not positive semi-definite are cut off.

Qin and Suganthan, "A novel kernel prototype-based learning algorithm", ICPR 2004;
Hofmann et al., "Efficient approximations of robust soft LVQ", Neurocomputing 2014.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._compute.nearest import (
    rbf_values,
    some_eigenpairs,
    squared_distances,
    squared_norms,
)
from widemargin._compute.rounding import epsilon
from widemargin._core.params import Counted, Number, Positive, parameters
from widemargin._core.samples import Samples
from widemargin.metrics.kernels import scale_gamma
from widemargin.prototypes.base import CERTAIN, no_bound
from widemargin.prototypes.glvq import GLVQClassifier, TransformedSamples
from widemargin.prototypes.initialization import (
    chosen_scale,
    class_means,
    class_variances,
)
from widemargin.prototypes.optimizer import State
from widemargin.prototypes.training import Run

# Coordinates that n_components="auto" keeps at most, and the share of the variance
# that they hold where fewer do.
MOST_COMPONENTS, HELD = 200, 0.99
# Classes are as many as their samples, or as all others; more is to favour them.
FAVOUR = 2.0
KERNELS = ("rbf", "linear", "polynomial", "poly", "sigmoid", "laplacian", "cosine")
SCALED_BY_GAMMA = ("rbf", "polynomial", "poly", "sigmoid", "laplacian", "chi2")


@parameters
class KernelLVQClassifier(GLVQClassifier):
    """Generalised LVQ in the feature space of a kernel, for curved classes.

    Prototypes are combinations of training samples in that space.

    Parameters
    ----------
    prototypes_per_class : int, dict of label to int, or "auto", default="auto"
        Number of prototypes per class; at most the number of distinct samples. "auto"
        takes the smallest of 1, 2, 5 and a tenth of the samples of a class, at most 20.
        It must not be clearly worse on validation samples than the others. The largest
        may double in the first half of the epochs. Prototypes nearest to no sample are
        dropped at the end.
    kernel : str or callable, default="rbf"
        "rbf", "linear", "poly", "sigmoid", "laplacian", "cosine" or another kernel of
        scikit-learn. With "precomputed", X is the square matrix of kernel values in
        ``fit``, and (n_samples, n_training_samples) in ``predict``. A callable takes
        two arrays of samples and returns the matrix of kernel values, as in ``SVC``.
    gamma : float, "scale" or "auto", default="scale"
        Scale of the named kernels: one over the sum of the weighted variances of the
        features, as they are scaled, or ``1 / n_features``.
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and sigmoid kernels.
    max_support : int, default=1000
        Number of training samples, at most, that the prototypes are made of; random
        ones, in the proportions of the classes, where there are more.
    n_components : int or "auto", default="auto"
        Coordinates of the prototypes: they lie in the span of so many leading
        directions of the support in the space of the kernel. "auto" takes those that
        hold 99 % of its variance, at most 200.
    loss : str or MarginLoss, optional
        Loss of the relative margin, see :mod:`widemargin.margins`. By default
        ``Sigmoid(beta=10)``. Or a soft one: "rslvq", robust soft LVQ, or
        "cross_entropy" of a softmax over the classes, see
        :mod:`widemargin.prototypes.glvq`.
    temperature : float or "auto", default="auto"
        Softmax temperature of ``predict_proba``, a multiple of the mean squared
        distance to the nearest prototype of the own class. "auto" fits it on validation
        samples, else on leave-one-out distances. Soft losses learn it together with the
        prototypes.
    init : {"kmeans", "means", "samples"} or array of shape (n_prototypes, n_features)
        Start of the prototypes: k-means within each class in the space of the kernel,
        class means, or random samples. An array gives the samples to start from, and
        their number.
    init_labels : array-like of shape (n_prototypes,), optional
        Labels of the array `init`.
    max_iter : int, default=15
        Number of epochs.
    learning_rate : float, default=0.1
        First step, in units of the within-class spread of each coordinate.
    batch_size : int or "auto", default="auto"
        Distinct samples per gradient; "auto" makes about twenty batches of 25 to
        512, and batches of 50 from fewer than 500 samples.
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
        Seed of the support, the initial prototypes, the batches and the validation
        samples.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of the training data that the prototypes are made of.
    support_vectors_ : ndarray of shape (n_support, n_features)
        Those samples; empty for a precomputed kernel.
    scale_ : ndarray of shape (n_features,) or None
        What features are divided by before the kernel sees them.
    gamma_ : float
        The gamma of named kernels, of features so divided.
    dual_coef_ : ndarray of shape (n_prototypes, n_support)
        The combinations ``a``.
    prototypes_ : ndarray of shape (n_prototypes, n_coordinates)
        The prototypes in the coordinates z.
    prototype_labels_ : ndarray of shape (n_prototypes,)
        Their labels.
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
    widemargin.GLVQClassifier : The same in the space of the samples.
    widemargin.TangentSVC : A support vector machine over a tangent kernel.

    Notes
    -----
    A sample of weight 2 and the same sample given twice lead to the same model, bit by
    bit. With a precomputed kernel this holds up to rounding, and only if the support
    holds all samples. Margins are relative margins in the space of the kernel. For a
    precomputed kernel, where k(x, x) of a new x is not known, they are those of the
    projection z. Images of two samples at a distance r are at most r apart for the
    linear kernel, and ``sqrt(2 gamma) r`` for "rbf". ``certified_radius`` divides by
    that; other kernels have none.

    If "auto" leaves one prototype per class, features are mostly noise. If weights
    favour no class, the prototypes are then the means of the classes, not those of
    ``history_``. The mean of a smaller class has more noise; a common shift takes it
    out of the differences of distances, as in [3]_.

    ``partial_fit`` takes its support from the first 500 samples, or from ``fit``; of a
    precomputed kernel from the first batch. After that it makes one pass over each
    batch. A batch of fewer than 200 samples is joined with the latest before it. The
    step is ``learning_rate * clip(5 * e, 0.03, 1)``, with e the error rate on the last
    200 samples before they were learned.

    References
    ----------
    .. [1] A. K. Qin, P. N. Suganthan, A novel kernel prototype-based learning
       algorithm, ICPR 2004.
    .. [2] D. Hofmann et al., Efficient approximations of robust soft learning vector
       quantization, Neurocomputing 2014.
    .. [3] Y.-B. Chan, P. Hall, Scale adjustments for classifiers in high-dimensional,
       low sample size settings, Biometrika 96 (2009).

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.prototypes import KernelLVQClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = KernelLVQClassifier(1, gamma=2.0, scale='none',
    ...     random_state=0).fit(X, y)
    >>> model.dual_coef_.shape
    (2, 200)
    >>> model.score(X, y) > 0.95
    True
    """

    device_methods: ClassVar[tuple[str, ...]] = ()
    lazy_methods: ClassVar[tuple[str, ...]] = ()

    _: KW_ONLY
    kernel: str | Callable = "rbf"
    gamma: Positive | Literal["scale", "auto"] = "scale"
    degree: Positive = 3
    coef0: Annotated[float, Number()] = 0.0
    max_support: Counted = 1000
    n_components: Counted | Literal["auto"] = "auto"
    max_iter: Counted = 15

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def _exact_weights(self) -> bool:  # type: ignore[override]
        return not self._precomputed

    @property
    def _begins_anew(self) -> bool:
        # Columns of a precomputed kernel are the samples of the first batch.
        return not self._precomputed

    @property
    def dual_coef_(self) -> NDArray:
        """The combinations of the support samples that the prototypes are."""
        return self.prototypes_ @ self._coordinates.T

    def _check_parameters(self) -> None:
        super()._check_parameters()
        known = {*PAIRWISE_KERNEL_FUNCTIONS, "precomputed"}
        named = isinstance(self.kernel, str) and self.kernel in known
        if not (callable(self.kernel) or named):
            raise ValueError(
                f"kernel must be a callable, 'precomputed' or one of "
                f"{', '.join(map(repr, KERNELS))}; got {self.kernel!r}."
            )

    def _prepare(
        self, samples: Samples, rng: np.random.RandomState, run: Run, first: bool
    ) -> TransformedSamples:
        if first:
            if self._precomputed and samples.X.shape[1] <= samples.rows.max():
                raise ValueError(
                    "kernel='precomputed' needs the square matrix of kernel values "
                    f"between the training samples; got {samples.X.shape[1]} columns."
                )
            self.scale_ = None
            if isinstance(self.kernel, str) and not self._precomputed:
                self.scale_ = chosen_scale(
                    samples.X, samples.codes, samples.weights, self.scale
                )
            self.gamma_ = self._gamma(samples)
            self._kernel = {
                "kernel": self.kernel,
                "gamma": self.gamma_,
                "degree": self.degree,
                "coef0": self.coef0,
            }
            self._choose_support(samples, rng)
        Z = self._coordinates_of(samples.X)
        return TransformedSamples(samples, Z, self._residual(samples.X, Z))

    def _postprocess(self, state: State, data: TransformedSamples) -> State:
        """Give the means of the classes, less their noise, where "auto" chose these.

        The mean of n samples of variance v has v / n more in its squared length than
        their expectation has: new samples would fall to the mean with least noise, that
        of the largest class. Moving all prototypes by t adds ``2 t.w_j`` to the squared
        distance to the j-th, and what is the same for all. Samples that were left out
        judged this model; training fits so few prototypes to noise where features are
        many. It does count what weights say of classes, which means do not.
        """
        samples = data.samples
        mass, size = (
            np.bincount(samples.codes, w)[np.unique(samples.codes)]
            for w in (samples.weights, None)
        )
        usual = np.maximum(size[:, None] / size, 1)
        if self._max_per_class != 1 or (mass[:, None] / mass > FAVOUR * usual).any():
            return state
        P, labels = state["prototypes"], state["codes"]
        given = data.X, samples.codes, samples.weights
        means = class_means(*given, len(self.classes_))[labels].astype(P.dtype)
        v, n = class_variances(*given, means, labels)
        apart, wanted = (a - a.mean(axis=0) for a in (means.astype(float), -v / n / 2))
        t = np.linalg.lstsq(apart, wanted, rcond=1e-6)[0]
        return {**state, "prototypes": (means + t).astype(P.dtype)}

    def _gamma(self, samples: Samples) -> float:
        if self.gamma == "auto":
            return 1.0 / samples.X.shape[1]
        if self.gamma != "scale":
            return float(self.gamma)
        return scale_gamma(self._scaled(samples.X), samples.weights)

    def _choose_support(self, samples: Samples, rng: np.random.RandomState) -> None:
        n = len(samples)
        rows = np.arange(n)
        if n > self.max_support:
            # Every class keeps its share, and at least one sample.
            shuffled = rng.permutation(n)
            rank = np.empty(n)
            for c in np.unique(samples.codes):
                own = shuffled[samples.codes[shuffled] == c]
                rank[own] = np.arange(len(own)) / len(own)
            rows = np.sort(np.argsort(rank, kind="stable")[: self.max_support])
        if rows_in_budget(len(rows) * samples.X.itemsize) < n:
            raise ValueError(
                f"{n} samples with max_support={len(rows)} need more than scikit-"
                f"learn's working_memory of {get_config()['working_memory']} MiB; "
                "lower max_support or raise working_memory."
            )
        self.support_ = samples.rows[rows]
        self.support_vectors_ = samples.X[:0] if self._precomputed else samples.X[rows]
        K = self._kernel_rows(samples.X[rows]).astype(np.float64)
        if not np.isfinite(K).all():
            raise ValueError(
                "kernel gives values that are not finite on these samples; scale the "
                "data, or lower gamma, degree or coef0."
            )
        chosen = isinstance(self.n_components, str)
        most = min(MOST_COMPONENTS if chosen else int(self.n_components), len(K))
        K = (K + K.T) / 2
        # Which directions lead, float32 can tell; what they are is made exact below.
        dtype = np.float32 if chosen and most < len(K) else np.float64
        size = np.abs(K).max() or 1.0
        leading = (len(K) - most, len(K) - 1)
        values, U = some_eigenpairs((K / size).astype(dtype), *leading)
        values, U = size * values.astype(float), U.astype(float)
        least = 1e-5 if dtype == np.float32 else 1e-10
        kept = values > least * max(np.abs(values).max(), np.abs(np.diag(K)).max())
        if chosen:
            beyond = np.trace(K) - np.cumsum(values[::-1])[::-1]
            kept &= beyond + values > (1 - HELD) * np.trace(K)
        if not kept.any():
            raise ValueError(
                "kernel has no positive eigenvalue on the training data; use another "
                "kernel, such as 'rbf'."
            )
        coordinates = U[:, kept] / np.sqrt(values[kept])
        if dtype == np.float32:
            inner = coordinates.T @ (K @ coordinates)
            coordinates = np.linalg.solve(np.linalg.cholesky(inner), coordinates.T).T
        self._coordinates = coordinates.astype(samples.X.dtype)

    def _kernel_values(self, X: NDArray, Y: NDArray) -> NDArray:
        kernel = self._kernel["kernel"]
        if callable(kernel):
            K = np.asarray(kernel(X, Y))
            if K.shape != (len(X), len(Y)):
                raise ValueError(
                    f"kernel must return an array of shape {(len(X), len(Y))}, a row "
                    f"per sample of its first argument; got {K.shape}."
                )
        elif kernel == "rbf":
            gamma = float(self._kernel["gamma"])  # type: ignore[arg-type]
            K = rbf_values(self._scaled(X), self._scaled(Y), gamma)
        else:
            settings = {k: v for k, v in self._kernel.items() if k != "kernel"}
            with np.errstate(over="ignore"):
                K = pairwise_kernels(
                    self._scaled(X),
                    self._scaled(Y),
                    metric=kernel,
                    filter_params=True,
                    **settings,
                )
        return K.astype(X.dtype, copy=False)

    def _kernel_rows(self, X: NDArray) -> NDArray:
        """Kernel values between samples and the support."""
        if self._kernel["kernel"] == "precomputed":
            return X[:, self.support_]
        return self._kernel_values(X, self.support_vectors_)

    def _self_kernel(self, X: NDArray) -> NDArray:
        """k(x, x) of every sample."""
        if self._kernel["kernel"] in ("rbf", "laplacian"):
            return np.ones(len(X), dtype=X.dtype)
        # Small squares waste little beyond their diagonal and save most of the calls.
        blocks = [X[s] for s in batched_slices(len(X), 16)]
        return np.concatenate([np.diag(self._kernel_values(x, x)) for x in blocks])

    def _coordinates_of(self, X: NDArray) -> NDArray:
        """Z of every sample, in bounded chunks."""
        size = rows_in_budget(len(self.support_) * X.itemsize)
        parts = [
            self._kernel_rows(X[s]) @ self._coordinates
            for s in batched_slices(len(X), size)
        ]
        return np.concatenate(parts)

    def _transform_samples(self, X: NDArray) -> NDArray:
        return self._coordinates_of(X)

    def _transform_prototypes(self, P: NDArray) -> NDArray:
        return P

    def _inverse_transform(self, P: NDArray) -> NDArray:
        return P

    def _lipschitz(self) -> float:
        kernel, gamma = self._kernel["kernel"], float(self._kernel["gamma"])  # type: ignore[arg-type]
        if kernel not in ("rbf", "linear"):
            named = repr(kernel) if isinstance(kernel, str) else "a callable"
            raise ValueError(
                "certified_radius needs kernel='rbf' or 'linear', whose images move no "
                f"faster than their samples by a known factor; got {named}."
            )
        # |phi(x) - phi(z)|^2 = 2 - 2 exp(-gamma r^2) <= 2 gamma r^2.
        steep = math.sqrt(2 * gamma) if kernel == "rbf" else 1.0
        return steep * super()._lipschitz() * (1 + 1e-9)

    def _residual(self, X: NDArray, Z: NDArray) -> NDArray:
        if self._kernel["kernel"] == "precomputed":
            return np.zeros(len(X), dtype=Z.dtype)
        return np.maximum(self._self_kernel(X) - squared_norms(Z), 0)

    def _squared_distances(self, X: NDArray, coarse: float | None = None) -> NDArray:
        Z = self._coordinates_of(X)
        D = squared_distances(Z, self.prototypes_, coarse)
        return D + self._residual(X, Z)[:, None]

    def _distance_bounds(self, X: NDArray) -> tuple[NDArray, NDArray]:
        D = self._squared_distances(X, coarse=CERTAIN / 4).astype(float)
        # Coordinates divide rounded kernel values by small eigenvalues.
        K = np.abs(self._kernel_rows(X))
        steep = float(np.linalg.norm(self._coordinates, 2))
        slip = epsilon(self._coordinates.dtype) * len(self.support_) * steep
        slip = slip * K.max(axis=1, initial=1)[:, None]
        error = CERTAIN * D + (2 * np.sqrt(D) + slip) * slip
        return np.maximum(D - error, 0), D + error

    def _squared_norms(self, X: NDArray) -> NDArray:
        return super()._squared_norms(self._coordinates_of(X))

    def _check_bound(self) -> None:
        super()._check_bound()
        if isinstance(self.gamma, str) and self._kernel["kernel"] in SCALED_BY_GAMMA:
            no_bound(f"gamma={self.gamma!r} was found in the same samples; give one")

    def _space_dimension(self) -> float:
        return np.inf
