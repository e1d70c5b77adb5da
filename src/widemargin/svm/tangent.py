r"""Support vector machines with tangent distance kernels.

A kernel of the distance, with the distance replaced by a tangent distance (see
:mod:`widemargin.metrics.kernels`); LIBSVM solves the duel of every pair of classes on
one Gram matrix, and only the support vectors are kept, with their frames:

    f_ij(x) = sum_s coef_s,ij k(x, x_s) + b_ij.

With `landmarks` the Gram matrix is never formed; see :mod:`widemargin.svm.nystroem`.

Reference: B. Haasdonk, D. Keysers, Tangent distance kernels for support vector
machines, ICPR 2002.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.progress import announced
from widemargin._compute.threads import batched_slices
from widemargin._core.callbacks import HAS_CALLBACKS, FitTasks, with_callbacks
from widemargin._core.checks import check_count, check_option, check_spring
from widemargin.metrics.blanks import warn_of_blanks
from widemargin.metrics.kernels import check_kernel
from widemargin.metrics.spectrum import METHODS, repair_in_place, rounding_of
from widemargin.svm.checks import (
    FLOATS,
    check_class_weight,
    check_positive,
    check_training,
    require_gram_fits,
)
from widemargin.svm.decisions import DecisionClassifier
from widemargin.svm.nystroem import choose_landmarks, landmark_features
from widemargin.svm.pairwise import PairwiseMachine, as_columns, calibrate
from widemargin.svm.tangent_kernel import TangentKernel
from widemargin.tangents.generator import fit_tangents

SIDES = ("mean", "two", "x", "y", "midpoint")


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
        tangent distance of the training samples for "rbf" (with `landmarks` of 500 of
        them), and 1 for the others.
    tangents : generator, array of shape (n_tangents, n_features) or None, default=None
        What may vary; None is the Euclidean distance.
    sides : {"mean", "two", "x", "y", "midpoint"}, default="mean"
        Which end may move. A kernel with tangents at one end is not symmetric, which
        the solver needs: for "x" and "y" it is replaced by (k(x, x') + k(x', x))/2, in
        training as in prediction, so that both give the same machine.
    spring : float, default=1e-5
        Cost of moving along the tangents. ``sides="two"`` gains from 0.1 or 0.2, which
        keeps both ends from meeting far away and the kernel nearer to positive.
    multiclass : {"ddag", "ovo"}, default="ddag"
        How the duels of all pairs of classes decide: by a directed acyclic graph, or
        by votes.
    repair : {"none", "clip", "flip", "shift"}, default="none"
        What happens to negative eigenvalues of the Gram matrix. With "clip" and "flip"
        all training samples take part in predictions, unless the matrix needs no
        repair. Landmarks always clip.
    landmarks : int or None, default=None
        Number of training samples, drawn at random, to approximate the kernel with.
        For sets whose Gram matrix does not fit into memory. If it is all of them the
        machine is that of "clip", but for a small penalty on the offsets.
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
    n_support_ : ndarray of shape (n_duels,)
        Training samples (or landmarks) that support each duel.
    machine_ : PairwiseMachine
        The duels: takes kernel values of samples with `support_bundle_`.
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
        check_class_weight(self.class_weight, self.classes_)
        if self.landmarks is None:
            self._require_memory(X)
        if hasattr(self, "smallest_eigenvalue_"):
            del self.smallest_eigenvalue_
        repairs = self.repair != "none" and self.landmarks is None
        n_tasks = 3 + (self.landmarks is not None) + repairs + bool(self.probability)
        with FitTasks(self, n_tasks, X=X, y=y, sample_weight=weights) as tasks:
            with tasks.parts("tangents"):
                self.tangents_ = fit_tangents(self.tangents, X, y)
                kernel = self._new_kernel()
                bundle = kernel.bundle(X, self.n_jobs)
            if self.sides == "two":
                warn_of_blanks(bundle, "training samples", stacklevel=2 + HAS_CALLBACKS)
            kernel = kernel.fitted_to(bundle)
            if self.landmarks is None:
                self._fit_gram(kernel, bundle, y, weights, tasks)
            else:
                m = int(self.landmarks)
                self._fit_landmarks(kernel, bundle, m, y, weights, tasks)
        return self

    def _check_parameters(self):
        check_kernel(self.kernel, self.gamma)
        check_option("sides", self.sides, SIDES)
        check_spring(self.spring)
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        check_option("multiclass", self.multiclass, ("ddag", "ovo"))
        check_option("repair", self.repair, METHODS)
        if self.landmarks is None:
            return
        check_count("landmarks", self.landmarks, "None or ")
        if self.repair in ("flip", "shift"):
            raise ValueError(
                f"repair={self.repair!r} needs the whole Gram matrix: landmarks always "
                "clip negative eigenvalues. Use repair='clip' or 'none', or "
                "landmarks=None."
            )

    def _require_memory(self, X):
        # Distances in the dtype of the samples, then LIBSVM's float64.
        needed = 8 if X.dtype == np.float64 else 12
        if self.probability:
            # The part of the matrix that five-fold cross-validation trains on.
            needed = max(needed, 16)
        if self.repair != "none":
            # LAPACK overwrites a copy, and eigenvectors are as large again.
            needed = max(needed, 16 if self.repair == "shift" else 24)
        require_gram_fits(
            len(X),
            needed,
            "Use TangentSVC(landmarks=1000), which approximates the kernel, or fewer "
            "samples.",
        )

    def _new_kernel(self):
        return TangentKernel(
            self.kernel, self.gamma, self.tangents_, self.sides, self.spring
        )

    def _new_machine(self, matrix, random):
        return PairwiseMachine(
            matrix, self.C, self.class_weight, self.multiclass, self.tol,
            random.randint(2**31 - 1),
        )  # fmt: skip

    def _fit_gram(self, kernel, bundle, y, weights, tasks):
        machine = self._new_machine("gram", check_random_state(self.random_state))
        with tasks.parts("distances"):
            d2 = kernel.squared_distances(bundle, n_jobs=self.n_jobs)
        kernel = kernel.scaled_to(d2)
        rounding = rounding_of(d2)
        K = kernel.gram(d2).astype(np.float64, copy=False)
        del d2
        repair = None
        if self.repair != "none":
            with tasks.whole("repair"):
                repair = repair_in_place(K, self.repair, rounding)
            self.smallest_eigenvalue_ = repair.smallest_eigenvalue
        with tasks.whole("solve"):
            machine.fit(K, y, weights)
        self._calibrate(machine, K, y, weights, tasks)
        self.n_support_ = machine.n_support_
        coef = machine.coef_ if repair is None else repair.transform(machine.coef_)
        self.support_ = np.flatnonzero(np.any(coef != 0, axis=1))
        self._keep(machine, kernel, bundle, coef[self.support_])

    def _fit_landmarks(self, kernel, bundle, m, y, weights, tasks):
        random = check_random_state(self.random_state)
        machine = self._new_machine("features", random)
        with tasks.parts("distances"):
            landmarks = choose_landmarks(kernel, bundle, m, random, self.n_jobs)
        with tasks.parts("features"):
            features = landmark_features(landmarks, bundle, self.n_jobs)
        with tasks.parts("solve"):
            machine.fit(features, y, weights)
        self._calibrate(machine, features, y, weights, tasks)
        self.support_ = landmarks.positions
        self._keep(machine, landmarks.kernel, bundle, landmarks.root @ machine.coef_)
        self.n_support_ = machine.n_support_

    def _calibrate(self, machine, matrix, y, weights, tasks):
        self._calibrator: Any = None
        if self.probability:
            with tasks.whole("calibrate"):
                self._calibrator = calibrate(machine, matrix, y, weights)

    def _keep(self, machine, kernel, bundle, coef):
        """Keep what prediction needs; `coef` are those of the supports."""
        self.coef_, self.intercept_ = coef, machine.intercept_
        self.support_bundle_ = bundle[self.support_]
        self.gamma_, self._kernel = kernel.gamma, kernel
        machine.coef_ = coef
        self.machine_ = machine

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
        supports = self.support_bundle_
        X = X.astype(supports.points.dtype, copy=False)
        out = np.empty((len(X), self.coef_.shape[1]))
        of_frames = 8 * supports.n_tangents * supports.n_features
        size = min(1024, rows_in_budget(24 * len(supports) + of_frames))
        for rows in announced(batched_slices(len(X), size), "kernel"):
            queries = self._kernel.bundle(X[rows], self.n_jobs)
            K = self._kernel.between(queries, supports, self.n_jobs)
            out[rows] = K @ self.coef_
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
        check_is_fitted(self)
        if self._calibrator is None:
            raise NotFittedError(
                "this TangentSVC was fitted with probability=False: call fit again to "
                "learn probabilities."
            )
        scores = self.decision_function(X)
        return self._calibrator.predict_proba(as_columns(scores))
