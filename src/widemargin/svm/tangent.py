r"""Support vector machines with tangent distance kernels.

A kernel of the distance, with the distance replaced by a tangent distance (see
:mod:`widemargin.metrics.kernels`); LIBSVM solves the duel of every pair of classes on
one Gram matrix, and only the support vectors are kept, with their frames:

    f_ij(x) = sum_s coef_s,ij k(x, x_s) + b_ij.

With `landmarks` the Gram matrix is never formed: the kernel to m landmarks Z gives
features k(x, Z) K_ZZ^{-1/2} (Nyström), on which LIBLINEAR solves the duels.

Reference: B. Haasdonk, D. Keysers, Tangent distance kernels for support vector
machines, ICPR 2002.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._callbacks import FitTasks, with_callbacks
from widemargin._compute.memory import rows_in_budget
from widemargin._compute.progress import announced
from widemargin._compute.threads import batched_slices
from widemargin._validation import check_option
from widemargin.metrics import repair_spectrum, tangent_distances
from widemargin.metrics.kernels import (
    check_kernel,
    kernel_of_distances,
    resolve_gamma,
)
from widemargin.metrics.spectrum import METHODS
from widemargin.svm._checks import (
    FLOATS,
    check_positive,
    check_training,
    require_gram_fits,
)
from widemargin.svm._decisions import DecisionClassifier
from widemargin.svm.machine import PairwiseMachine, as_columns, calibrate
from widemargin.tangents import Bundle, as_bundle
from widemargin.tangents.fitting import fit_tangents

# Eigenvalues of the landmarks' Gram matrix below this share of the largest are noise.
_EIGENVALUE_RTOL = 1e-7


def _has_probabilities(machine):
    if not machine.probability:
        raise AttributeError("predict_proba needs TangentSVC(probability=True)")
    return True


class TangentSVC(DecisionClassifier):
    """Support vector machine with a tangent distance kernel.

    Parameters
    ----------
    kernel : {"rbf", "nd", "log"} or callable, default="rbf"
        ``exp(-gamma d²)``, ``-d**gamma``, ``-log(1 + d**gamma)``, or a function from
        squared distances to kernel values; see
        :func:`~widemargin.metrics.tangent_kernel`.
    C : float, default=10.0
        Penalty of margin errors.
    gamma : float or "scale", default="scale"
        Width of "rbf", exponent of the others. "scale" is two over the mean squared
        tangent distance of the training samples for "rbf", and 1 for the others.
    tangents : generator, array of shape (n_tangents, n_features) or None, default=None
        What may vary; None is the Euclidean distance.
    sides : {"mean", "two", "x", "y", "midpoint"}, default="mean"
        Which end may move. A kernel with tangents at one end is not symmetric, which
        the solver needs: for "x" and "y" it is replaced by (k(x, x') + k(x', x))/2, in
        training as in prediction, so that both give the same machine.
    spring : float, default=1e-5
        Cost of moving along the tangents.
    multiclass : {"ddag", "ovo"}, default="ddag"
        How the duels of all pairs of classes decide: by a directed acyclic graph, or
        by votes.
    repair : {"none", "clip", "flip", "shift"}, default="none"
        What happens to negative eigenvalues of the Gram matrix. With "clip" and "flip"
        all training samples take part in predictions; with landmarks it is always
        "clip".
    landmarks : int or None, default=None
        Number of training samples, drawn at random, to approximate the kernel with.
        For sets whose Gram matrix does not fit into memory.
    class_weight : dict, "balanced" or None, default=None
        Factor on C of each class.
    probability : bool, default=False
        Learn probabilities of the scores by five-fold cross-validation on the Gram
        matrix, for `predict_proba`.
    tol : float, default=1e-3
        Tolerance of the solver.
    random_state : int, RandomState instance or None, default=None
        For the draw of landmarks, and for LIBLINEAR.
    n_jobs : int, default=None
        Threads for the distances; None is one, -1 is one per core.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors among the training samples of positive weight.
    support_bundle_ : Bundle
        The support vectors (or landmarks) with their frames: all prediction needs.
    coef_ : ndarray of shape (n_support, n_duels)
        Coefficients of the duels (0, 1), (0, 2), ..., positive for the first class.
    intercept_ : ndarray of shape (n_duels,)
        Their offsets.
    gamma_ : float
        The gamma used.
    smallest_eigenvalue_ : float
        Of the Gram matrix before its repair; only with `repair` other than "none".
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

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

    def __init__(
        self,
        kernel: str | Callable = "rbf",
        *,
        C: float = 10.0,
        gamma: float | str = "scale",
        tangents: Any = None,
        sides: str = "mean",
        spring: float = 1e-5,
        multiclass: str = "ddag",
        repair: str = "none",
        landmarks: int | None = None,
        class_weight: Any = None,
        probability: bool = False,
        tol: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.tangents = tangents
        self.sides = sides
        self.spring = spring
        self.multiclass = multiclass
        self.repair = repair
        self.landmarks = landmarks
        self.class_weight = class_weight
        self.probability = probability
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Train the duels of all pairs of classes.

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
        self._check_parameters()
        X, y, self.classes_, weights = check_training(self, X, y, sample_weight)
        if self.landmarks is None:
            self._require_memory(X)
        if hasattr(self, "gamma_"):
            del self.gamma_
        repairs = self.repair != "none" and self.landmarks is None
        n_tasks = 3 + (self.landmarks is not None) + repairs + bool(self.probability)
        with FitTasks(self, n_tasks, X=X, y=y, sample_weight=weights) as tasks:
            with tasks.parts("tangents"):
                self.tangents_ = fit_tangents(self.tangents, X, y)
                bundle = self._bundle(X)
            if self.landmarks is None:
                self._fit_gram(bundle, y, weights, tasks)
            else:
                self._fit_landmarks(bundle, y, weights, self.landmarks, tasks)
        return self

    def _check_parameters(self):
        check_kernel(self.kernel, self.gamma)
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        check_option("multiclass", self.multiclass, ("ddag", "ovo"))
        check_option("repair", self.repair, METHODS)
        m = self.landmarks
        if m is not None and (isinstance(m, bool) or not isinstance(m, int) or m < 1):
            raise ValueError(
                f"landmarks must be None or an integer of at least 1; got {m!r}."
            )

    def _require_memory(self, X):
        # Distances in the dtype of the samples, and LIBSVM's copy in float64.
        require_gram_fits(
            len(X),
            X.dtype.itemsize + 8,
            "Use TangentSVC(landmarks=1000), which approximates the kernel, or fewer "
            "samples.",
        )

    def _bundle(self, X):
        if self.sides == "midpoint":
            # Its tangents belong to no sample: the points are enough.
            return as_bundle(X, None)
        return as_bundle(X, self.tangents_, n_jobs=self.n_jobs)

    def _squared_distances(self, x: Bundle, y: Bundle | None, sides: str) -> NDArray:
        if sides == "midpoint":
            return tangent_distances(
                x.points, None if y is None else y.points, tangents=self.tangents_,
                sides=sides, spring=self.spring, n_jobs=self.n_jobs,
            )  # fmt: skip
        return tangent_distances(
            x, y, sides=sides, spring=self.spring, n_jobs=self.n_jobs
        )

    def _kernel(self, x: Bundle, y: Bundle | None) -> NDArray:
        """Kernel values, symmetrised; y None is x."""
        # The first distances there are set the scale.
        K = self._squared_distances(x, y, self.sides)
        if not hasattr(self, "gamma_"):
            self.gamma_ = resolve_gamma(K, self.kernel, self.gamma)
        K = kernel_of_distances(K, self.kernel, self.gamma_)
        if self.sides in ("x", "y"):
            if y is None:
                return (K + K.T) / 2
            other = "y" if self.sides == "x" else "x"
            mirrored = self._squared_distances(x, y, other)
            K = (K + kernel_of_distances(mirrored, self.kernel, self.gamma_)) / 2
        elif y is None and callable(self.kernel):
            K = (K + K.T) / 2
        return K

    def _machine(self, matrix):
        return PairwiseMachine(
            matrix, self.C, self.class_weight, self.multiclass, self.tol,
            self._seed,
        )  # fmt: skip

    def _fit_gram(self, bundle, y, weights, tasks):
        self._seed = check_random_state(self.random_state).randint(2**31 - 1)
        with tasks.parts("distances"):
            K = self._kernel(bundle, None)
        change = None
        if self.repair != "none":
            with tasks.whole("repair"):
                K, change, self.smallest_eigenvalue_ = repair_spectrum(K, self.repair)
        with tasks.whole("solve"):
            machine = self._machine("gram").fit(K, y, weights)
        coef = machine.coef_ if change is None else change @ machine.coef_
        self.support_ = np.flatnonzero(np.any(coef != 0, axis=1))
        self._finish(machine, bundle, coef[self.support_], K, y, weights, tasks)

    def _fit_landmarks(self, bundle, y, weights, m, tasks):
        random = check_random_state(self.random_state)
        self._seed = random.randint(2**31 - 1)
        m = min(m, len(bundle))
        chosen = np.sort(random.choice(len(bundle), m, replace=False))
        landmarks = bundle[chosen]
        with tasks.parts("distances"):
            values, vectors = eigh(self._kernel(landmarks, None).astype(float))
        real = values > _EIGENVALUE_RTOL * values[-1]
        if not real.any():
            raise ValueError(
                "the kernel of the landmarks has no positive eigenvalue; use another "
                "kernel or gamma."
            )
        root = vectors[:, real] / np.sqrt(values[real])
        features = np.empty((len(bundle), root.shape[1]))
        chunks = batched_slices(len(bundle), min(1024, rows_in_budget(32 * m)))
        with tasks.parts("features"):
            for rows in announced(chunks, "features"):
                features[rows] = self._kernel(bundle[rows], landmarks) @ root
        with tasks.parts("solve"):
            machine = self._machine("features").fit(features, y, weights)
        self.support_ = chosen
        coef = root @ machine.coef_
        self._finish(machine, bundle, coef, features, y, weights, tasks)

    def _finish(self, machine, bundle, coef, matrix, y, weights, tasks):
        self.coef_, self.intercept_ = coef, machine.intercept_
        self.support_bundle_ = bundle[self.support_]
        self.machine_ = machine
        self._calibrator: Any = None
        if self.probability:
            with tasks.whole("calibrate"):
                self._calibrator = calibrate(machine, matrix, y, weights)
        # Coefficients of all training samples are not needed any more.
        machine.coef_ = machine.intercept_ = None

    def decision_function(self, X: Any) -> NDArray:
        """Class scores: duels won, or how long each class stays in the graph.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or, for two classes, (n_samples,)
        """
        duels = self.duels(X)
        return self.machine_.scores(duels)

    def duels(self, X: Any) -> NDArray:
        """Decisions of all duels, positive for the first class of the pair.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes * (n_classes - 1) / 2)
            Columns (0, 1), (0, 2), ..., by position in `classes_`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, order="C", reset=False)
        queries = self._bundle(X)
        out = np.empty((len(X), self.coef_.shape[1]))
        size = min(1024, rows_in_budget(24 * len(self.support_)))
        for rows in announced(batched_slices(len(X), size), "kernel"):
            out[rows] = self._kernel(queries[rows], self.support_bundle_) @ self.coef_
        return out + self.intercept_

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray:
        """Probabilities of the classes, from calibrated scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            They need not be largest for the class predicted.
        """
        scores = self.decision_function(X)
        return self._calibrator.predict_proba(as_columns(scores))
