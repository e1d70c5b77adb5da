r"""Support vector machines with tangent distance kernels.

A kernel of the distance, with the distance replaced by a tangent distance (see
:mod:`widemargin.metrics.kernels`); LIBSVM solves the duel of every pair of classes on
one Gram matrix, and only the support vectors are kept, with their frames:

    f_ij(x) = sum_s coef_s,ij k(x, x_s) + b_ij.

`TangentKernel` is everything about it that must not change after fit. Kernels with
tangents at one end are made symmetric, (k(x, x') + k(x', x))/2, in training as in
prediction, so that both see the same machine.

With `n_landmarks` the Gram matrix, which may not fit into memory, is never formed. With
m landmarks Z, drawn from the samples, and K_ZZ = V diag(λ) Vᵀ, the features

    φ(x) = k(x, Z) V_+ diag(λ_+)^{-1/2}

have inner products k(x, Z) K_ZZ^+ k(Z, x'), which is k where landmarks are all samples
and k is definite. Negative eigenvalues go, as in the repair "clip".

References: B. Haasdonk, D. Keysers, Tangent distance kernels for support vector
machines, ICPR 2002; C. Williams, M. Seeger, Using the Nyström method to speed up kernel
machines, NIPS 2000. Shapes: features (n, rank), root (m, rank).
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.exceptions import NotFittedError

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._compute.progress import announced
from widemargin._core.arrays import available_if
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    check_random_state,
    check_size,
    is_auto,
)
from widemargin._core.classifier import SoftClassifier, fit_method
from widemargin._core.params import Counted, Positive, parameters
from widemargin._core.samples import (
    check_samples,
    distinct_rows,
)
from widemargin._core.select import select
from widemargin._core.split import folds_of_classes
from widemargin._core.temperature import LeftOut
from widemargin.hyperplanes import gram, pairwise
from widemargin.metrics import TangentMetric, kernels, stiffness
from widemargin.metrics.tangent import DEFAULT_SPRING
from widemargin.tangents import Bundle
from widemargin.tangents.generator import tangents_meant

# What the data choose from, and how: some of the samples, thirds of them left out.
PENALTIES = (10.0, 1.0)
LEAST, TRIED_ON, FOLDS = 9, 800, 3
# Eigenvalues of the landmarks' Gram matrix below this share of the largest are noise.
_EIGENVALUE_RTOL = 1e-7
# Samples whose mutual distances tell the scale of the kernel.
_SCALE_SAMPLES = 500


@dataclass(frozen=True)
class TangentKernel:
    """A function of a distance; `gamma`, in the metric's unit, may still be "scale"."""

    function: str | Callable
    gamma: Any
    metric: TangentMetric

    def fitted_to(self, bundle: Bundle) -> Self:
        """Take the cheapest of equal distances, knowing what frames look like."""
        if self.metric.sides in ("query", "reference") and bundle.is_shared:
            # With one frame for all, or none, either end gives the same.
            return replace(self, metric=replace(self.metric, sides="mean"))
        return self

    def scaled_to(self, d2: NDArray, n_samples: int | None = None) -> Self:
        """Turn the gamma "scale" into a number; see `resolve_gamma`."""
        return replace(
            self, gamma=kernels.resolve_gamma(d2, self.function, self.gamma, n_samples)
        )

    def gram(self, d2: NDArray) -> NDArray:
        """Kernel values of a set with itself, from its squared distances, in place."""
        K = kernels.kernel_of_distances(d2, self.function, self.gamma)
        if self.metric.sides in ("query", "reference") or callable(self.function):
            kernels.symmetrize(K)
        return K

    def between(
        self, x: Bundle, y: Bundle, n_jobs: int | None = None, prepared: Any = None
    ) -> NDArray:
        """Kernel values of two sets, the second prepared by the metric or not."""
        K = self._values(x, y, self.metric.sides, prepared, n_jobs)
        if self.metric.sides in ("query", "reference"):
            other = "reference" if self.metric.sides == "query" else "query"
            K += self._values(x, y, other, prepared, n_jobs)
            K /= 2
        return K

    def _values(self, x, y, sides, prepared, n_jobs) -> NDArray:
        d2 = self.metric.squared_distances(
            x, y, sides=sides, prepared=prepared, n_jobs=n_jobs
        )
        return kernels.kernel_of_distances(d2, self.function, self.gamma)


def some_of(distinct: tuple[NDArray, NDArray], most: int) -> list[NDArray]:
    """Return rows and weights of so many samples, always the same ones."""
    some = np.sort(RandomState(0).permutation(len(distinct[0]))[:most])
    return [part[some] for part in distinct]


class Landmarks(NamedTuple):
    """Positions of the landmarks, the scaled kernel, and root: k(·, Z) to features."""

    positions: NDArray
    kernel: TangentKernel
    root: NDArray


def choose_landmarks(
    kernel: TangentKernel,
    bundle: Bundle,
    m: int,
    random: RandomState,
    n_jobs: int | None,
) -> Landmarks:
    """Draw m landmarks, find the scale of the kernel and its root on them."""
    n = len(bundle)
    positions = np.sort(random.choice(n, min(m, n), replace=False))
    if isinstance(kernel.gamma, str) and kernel.function == "rbf":
        # As many whatever m is, so that the kernel does not depend on it.
        some = np.sort(random.choice(n, min(_SCALE_SAMPLES, n), replace=False))
        d2 = kernel.metric.squared_distances(bundle[some], n_jobs=n_jobs)
        kernel = kernel.scaled_to(d2, n)
    d2 = kernel.metric.squared_distances(bundle[positions], n_jobs=n_jobs)
    kernel = kernel.scaled_to(d2)
    values, vectors = eigh(kernel.gram(d2).astype(float, copy=False))
    real = values > _EIGENVALUE_RTOL * values[-1]
    if not real.any():
        raise ValueError(
            "the kernel of the landmarks has no positive eigenvalue; use another "
            "kernel or gamma."
        )
    return Landmarks(positions, kernel, vectors[:, real] / np.sqrt(values[real]))


def landmark_features(
    landmarks: Landmarks, bundle: Bundle, n_jobs: int | None
) -> NDArray:
    """Features of samples, a few rows of kernel values at a time."""
    references = bundle[landmarks.positions]
    features = np.empty((len(bundle), landmarks.root.shape[1]))
    size = min(1024, rows_in_budget(32 * len(references)))
    for rows in announced(batched_slices(len(bundle), size), "features"):
        K = landmarks.kernel.between(bundle[rows], references, n_jobs)
        features[rows] = K @ landmarks.root
    return features


def _has_probabilities(machine):
    if not machine.probability:
        raise AttributeError("predict_proba needs TangentSVC(probability=True).")
    return True


@parameters
class TangentSVC(gram.GramClassifier, SoftClassifier):
    """Support vector machine with a tangent distance kernel.

    It is accurate from some hundred labelled images or signals on. Without `tangents`
    the distance is Euclidean.

    Parameters
    ----------
    kernel : {"rbf", "nd", "log"} or callable, default="rbf"
        ``exp(-gamma d²)``, ``-d**gamma``, ``-log(1 + d**gamma)``, or a function from
        squared distances to kernel values; see
        :func:`~widemargin.metrics.tangent_kernel`.
    C : float or "auto", default="auto"
        Penalty of margin errors. "auto" is 10, or 1 if that has a clearly lower
        validation error.
    gamma : float or "scale", default="scale"
        Width of "rbf", exponent of the others. "scale" is 1 for the others. For "rbf"
        it is two over the mean squared tangent distance of the training samples (with
        `n_landmarks`, of 500 of them).
    tangents : generator, array of shape (n_tangents, n_features), "none" or None, \
            default=None
        Changes to ignore, for instance ``ImageTangents(shape=(16, 16))``. None:
        Euclidean distance, with a warning; "none": without.
    sides : {"mean", "both", "query", "reference", "midpoint"}, default="mean"
        Which end may move along its tangents: the query, the reference, or both; see
        :func:`~widemargin.metrics.tangent_distances`. "query" and "reference" are not
        symmetric, so the kernel is replaced by (k(x, x') + k(x', x)) / 2.
    spring : float or "auto", default="auto"
        Price of moving along the tangents. "auto" tries infinity (no tangents), 1,
        0.3, 0.1, 0.03 and 1e-5 on left-out samples. It takes the first that is not
        clearly worse than the best. It then leaves out directions that harm, see
        `input_tangents_`. Fewer than nine samples have 1e-5.
    multiclass : {"ovo", "ddag"}, default="ovo"
        Combination of the pairs of classes: by votes, or by a directed acyclic graph.
    psd_correction : {"auto", "none", "clip", "flip", "shift"}, default="auto"
        Correction of negative eigenvalues of the kernel matrix. "auto" clips them if
        those of 800 samples are large enough to mislead the solver, else does nothing.
        With "clip" and "flip" all training samples are needed to predict. Landmarks
        always clip.
    n_landmarks : int or None, default=None
        Number of random training samples that approximate the kernel (Nyström), for
        kernel matrices that do not fit into memory.
    probability : bool, default=False
        Fit the temperature of `predict_proba` by five-fold cross-validation.
    class_weight : dict, "balanced" or None, default=None
        Factor on C of each class.
    tol : float, default=1e-3
        Tolerance of the solver.
    max_iter : int, default=1_000_000
        Maximum number of solver steps for each pair of classes; with landmarks a tenth
        as many passes. Reaching it warns.
    random_state : int, RandomState instance or None, default=None
        Seed of the landmarks and of LIBLINEAR.
    n_jobs : int, default=None
        Threads for the distances; None is one, -1 is one per core.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors among the training samples of positive weight.
    support_bundle_ : Bundle
        The support vectors (or landmarks) with their frames: all prediction needs.
    input_tangents_ : generator, ndarray or None
        The fitted tangent generator; None where tangents would harm.
    coef_ : ndarray of shape (n_support, n_pairs)
        Coefficients of the pairs of classes (0, 1), (0, 2), ..., positive for the first
        of a pair.
    intercept_ : ndarray of shape (n_pairs,)
        Their offsets.
    n_support_ : ndarray of shape (n_pairs,)
        Support vectors (or landmarks) of each pair of classes.
    gamma_ : float
        The gamma used.
    C_, spring_ : float
        The penalty and the spring used.
    sides_ : {"mean", "both", "query", "reference", "midpoint", "none"}
        Which end moves; "none" where "auto" found that tangents only harm.
    temperature_ : float
        Of `predict_proba`, in the units of margins; only with ``probability=True``.
    n_iter_ : int
        Solver steps of the pair of classes that took most.
    smallest_eigenvalue_ : float
        Smallest eigenvalue of the kernel matrix before its correction, for coefficients
        that sum to zero. Only if it was corrected.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    widemargin.TangentKNeighborsClassifier : Nearest neighbours, the same distances.
    widemargin.metrics.tangent_kernel : The kernel.
    widemargin.DDAGClassifier : Pairs of classes, with any classifier.

    Notes
    -----
    Margins are a "distance" in units of the machines' own margin. That of the predicted
    label is its closest decision against another class. That of another label is minus
    the decision that it lost. On scikit-learn 1.9 and later
    ``set_callbacks(sklearn.callback.ProgressBar())`` shows how far `fit` is.

    References
    ----------
    B. Haasdonk, D. Keysers, Tangent distance kernels for support vector machines,
    ICPR 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.svm import TangentSVC
    >>> X = np.array([[0.0, 0.0], [9.0, 0.1], [0.0, 1.0], [9.0, 1.1]])
    >>> along_first_axis = np.array([[1.0, 0.0]])
    >>> svc = TangentSVC(tangents=along_first_axis).fit(X, [0, 0, 1, 1])
    >>> svc.predict([[90.0, 0.0], [-90.0, 1.0]])
    array([0, 1])
    """

    kernel: Literal["rbf", "nd", "log"] | Callable = "rbf"
    _: KW_ONLY
    C: Positive | Literal["auto"] = "auto"  # type: ignore[assignment]
    tangents: Any = None
    sides: Literal["mean", "both", "query", "reference", "midpoint"] = "mean"
    spring: float | Literal["auto"] = "auto"
    n_landmarks: Counted | None = None
    probability: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    _memory_order = "C"

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train one machine for every pair of classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Factor on C of each sample; samples of weight 0 are left out.

        Returns
        -------
        self : TangentSVC
            The fitted machine.
        """
        metric = self._check_parameters()
        samples = check_samples(self, X, y, sample_weight)
        if self.n_landmarks is None:
            self._require_memory(samples.X)
        self.classes_ = samples.classes
        self.__dict__.pop("smallest_eigenvalue_", None)
        X, codes, weights = samples.X, samples.codes, samples.weights
        gamma = self.gamma if isinstance(self.gamma, str) else float(self.gamma)
        data = {"X": X, "y": samples.labels, "sample_weight": weights}
        repairs = self.psd_correction != "none" and self.n_landmarks is None
        n_tasks = 3 + (self.n_landmarks is not None) + repairs + bool(self.probability)
        with FitTasks(self, n_tasks, **data) as tasks:
            with tasks.parts("tangents"):
                metric = metric.fit(X, samples.labels)
                kernel = TangentKernel(self.kernel, gamma, metric)
                # A sample that comes twice is not told by itself, nor by its place.
                distinct = distinct_rows(samples)
                given, metric = metric, self._suited(kernel, samples, distinct)
                kernel = replace(kernel, metric=metric)
                bundle = metric.bundle(X, samples.labels, n_jobs=self.n_jobs)
            self.C_ = self._chosen_penalty(kernel, bundle, codes, distinct)
            self.input_tangents_, self.spring_ = metric.tangents, metric.spring
            self.sides_ = stiffness.sides_told(metric, given)
            metric.warn_of_blanks(bundle)
            train = self._fit_gram if self.n_landmarks is None else self._fit_landmarks
            machine, matrix = train(
                kernel.fitted_to(bundle), bundle, codes, weights, tasks
            )
            self.__dict__.pop("temperature_", None)
            if self.probability:
                with tasks.whole("calibrate"):
                    seen = self._left_out_costs(machine, matrix, codes, *distinct)
                    self._calibrate(seen)
        return self

    def _check_parameters(self) -> TangentMetric:
        tangents = tangents_meant(self.tangents, type(self).__name__)
        spring: Any = DEFAULT_SPRING if is_auto(self.spring) else self.spring
        metric = TangentMetric(tangents, self.sides, spring).check()
        kernels.check_kernel(self.kernel, self.gamma)
        self._check_solver()
        if self.n_landmarks is None:
            return metric
        if self.psd_correction in ("flip", "shift"):
            raise ValueError(
                f"psd_correction={self.psd_correction!r} needs the whole Gram matrix: "
                "landmarks always clip negative eigenvalues. Use psd_correction='auto' "
                "or 'clip', or n_landmarks=None."
            )
        return metric

    def _suited(self, kernel, samples, distinct):
        """Return how samples may move, as machines without some of them ask for."""
        metric = kernel.metric
        rows, weights = some_of(distinct, stiffness.TRIED_ON)
        X, labels, codes = samples.X[rows], samples.labels[rows], samples.codes[rows]
        trials = self._trials(codes)
        if not (trials and is_auto(self.spring) and metric.has_tangents):
            return metric

        def margins(candidate):
            bundle = candidate.bundle(X, labels, n_jobs=self.n_jobs)
            K, parts = self._tried(kernel, candidate, bundle, trials)
            answered = self._answered(K, parts, trials, codes, weights, PENALTIES[0])
            first, second = np.triu_indices(codes.max() + 1, 1)
            # Of all duels of its class the one that is nearest to being lost.
            return np.concatenate([
                np.minimum(
                    np.where(codes[held][:, None] == first, duels, np.inf),
                    np.where(codes[held][:, None] == second, -duels, np.inf),
                ).min(axis=1)
                for held, (duels, _) in zip(trials, answered, strict=True)
            ])  # fmt: skip

        of_held = np.concatenate([weights[held] for held in trials])
        return stiffness.as_stiff_as_asked(stiffness.ladder(metric), margins, of_held)

    def _chosen_penalty(self, kernel, bundle, codes, distinct):
        """C: that given, or the usual unless it is clearly worse than the other."""
        if not is_auto(self.C):
            return float(self.C)
        rows, weights = some_of(distinct, TRIED_ON)
        codes, trials = codes[rows], self._trials(codes[rows])
        if not trials:
            return PENALTIES[0]
        K, parts = self._tried(kernel, kernel.metric, bundle[rows], trials)

        def mistakes(C):
            answered = self._answered(K, parts, trials, codes, weights, C)
            return np.concatenate([
                found != codes[held]
                for held, (_, found) in zip(trials, answered, strict=True)
            ]).astype(float)  # fmt: skip

        of_held = np.concatenate([weights[held] for held in trials])
        return select(PENALTIES, mistakes, of_held, by_size=False)

    @staticmethod
    def _trials(codes):
        """Rows that are left out in turn; none where they are too few."""
        few = len(codes) < LEAST or len(np.unique(codes)) < 2
        folds = [] if few else folds_of_classes(codes, FOLDS)
        return [np.isin(np.arange(len(codes)), part) for part in folds]

    def _tried(self, kernel, metric, bundle, trials):
        """Gram matrix of a metric, and its parts as they are repaired."""
        own = replace(kernel, metric=metric).fitted_to(bundle)
        d2 = own.metric.squared_distances(bundle, n_jobs=self.n_jobs)
        rounding = kernels.rounding_of(d2)
        K = own.scaled_to(d2).gram(d2).astype(np.float64, copy=False)
        return K, self._repaired(K, trials, rounding)

    def _answered(self, K, parts, trials, codes, weights, C):
        """Duels and answers of what each trial leaves out."""
        said = []
        for held, (own, repaired) in zip(trials, parts, strict=True):
            machine = pairwise.PairwiseMachine(
                "gram", C, self.multiclass, self.tol, int(self.max_iter), 0
            )
            own = K[np.ix_(~held, ~held)] if repaired is None else own
            machine.fit(own, codes[~held], weights[~held])
            if repaired is not None:
                found = machine.coef_, machine.intercept_
                machine.coef_, machine.intercept_ = repaired.as_they_come(*found)
            asked = K[np.ix_(held, ~held)]
            said.append((machine.duels(asked), machine.predict(asked)))
        return said

    def _repaired(self, K, trials, rounding):
        """Gram matrices of trials, repaired, and how; nothing where none needs it."""
        method = "auto" if self.n_landmarks is not None else self.psd_correction
        if method == "none" or (method == "auto" and not gram.is_indefinite(K)):
            return [(None, None)] * len(trials)
        method = "clip" if method == "auto" else method
        parts = [K[np.ix_(~held, ~held)] for held in trials]
        return [(own, gram.repair_gram(own, method, rounding)) for own in parts]

    def _require_memory(self, X):
        # Distances in the dtype of the samples, then LIBSVM's float64.
        needed = 8 if X.dtype == np.float64 else 12
        if self.probability:
            # What comes once, and the part that five-fold cross-validation trains on.
            needed = max(needed, 24)
        needed = max(needed, self._bytes_of_repair())
        pairwise.require_gram_fits(
            len(X),
            needed,
            "Use TangentSVC(n_landmarks=1000), which approximates the kernel, or fewer "
            "samples.",
        )

    def _new_machine(self, matrix, random):
        return pairwise.PairwiseMachine(
            matrix, self.C_, self.multiclass, self.tol, int(self.max_iter),
            random.randint(2**31 - 1),
        )  # fmt: skip

    def _fit_gram(self, kernel, bundle, codes, weights, tasks):
        machine = self._new_machine("gram", check_random_state(self.random_state))
        with tasks.parts("distances"):
            d2 = kernel.metric.squared_distances(bundle, n_jobs=self.n_jobs)
        kernel = kernel.scaled_to(d2)
        rounding = kernels.rounding_of(d2)
        K = kernel.gram(d2).astype(np.float64, copy=False)
        del d2
        coef, offsets = self._solve(machine, K, codes, weights, rounding, tasks)
        self.support_ = np.flatnonzero(np.any(coef != 0, axis=1))
        self._keep(machine, kernel, bundle, coef[self.support_], offsets)
        return machine, K

    def _fit_landmarks(self, kernel, bundle, codes, weights, tasks):
        random = check_random_state(self.random_state)
        machine = self._new_machine("features", random)
        with tasks.parts("distances"):
            m: Any = self.n_landmarks
            landmarks = choose_landmarks(kernel, bundle, int(m), random, self.n_jobs)
        with tasks.parts("features"):
            features = landmark_features(landmarks, bundle, self.n_jobs)
        with tasks.parts("solve"):
            machine.fit(features, codes, weights)
        pairwise.say_how_it_ended(machine.end_, self)
        self.support_ = landmarks.positions
        coef = landmarks.root @ machine.coef_
        self._keep(machine, landmarks.kernel, bundle, coef, machine.intercept_)
        return machine, features

    def _left_out_costs(self, machine, matrix, codes, rows, weights):
        own = matrix[np.ix_(rows, rows)] if self.n_landmarks is None else matrix[rows]
        duels = pairwise.left_out_duels(machine, own, codes[rows], weights)
        costs, answers = self._costs_of(duels)
        return LeftOut(costs, answers, codes[rows], weights)

    def _keep(self, machine, kernel, bundle, coef, offsets):
        """Keep what prediction needs; `coef` are those of the supports."""
        self.n_support_ = machine.n_support_
        self.coef_, self.intercept_ = coef, offsets
        self.support_bundle_ = bundle[self.support_]
        self._kernel = kernel
        # For samples that come one by one.
        self._prepared = kernel.metric.prepare(self.support_bundle_)
        self.gamma_ = float(kernel.gamma)

    def _check_predict(self, X):
        X, dtype = super()._check_predict(X), self.support_bundle_.points.dtype
        check_size(X, dtype=dtype)
        return X.astype(dtype, copy=False)

    def duels(self, X: ArrayLike) -> NDArray:
        """Decisions of all pairs of classes, positive for the first of a pair.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes * (n_classes - 1) / 2)
            Columns (0, 1), (0, 2), ..., by position in `classes_`.
        """
        return self._duels(self._check_predict(X))

    def _duels(self, X):
        supports = self.support_bundle_
        out = np.empty((len(X), self.coef_.shape[1]))
        of_frames = 8 * supports.n_tangents * supports.n_features
        size = min(1024, rows_in_budget(24 * len(supports) + of_frames))
        for rows in announced(batched_slices(len(X), size), "kernel"):
            queries = self._kernel.metric.bundle(X[rows], n_jobs=self.n_jobs)
            K = self._kernel.between(queries, supports, self.n_jobs, self._prepared)
            out[rows] = pairwise.decide(K, self.coef_, self.intercept_)
        return out

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Probabilities of the classes, with what left-out samples taught.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Softmax over the classes of ``-decision / temperature_``, with the decision
            that the class lost to the answer. The largest is the class predicted.
        """
        samples = self._check_predict(X)
        if not hasattr(self, "temperature_"):
            raise NotFittedError(
                "this TangentSVC was fitted with probability=False: call fit again to "
                "learn probabilities."
            )
        return self._probabilities(samples)
