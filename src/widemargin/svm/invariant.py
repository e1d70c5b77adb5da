r"""Invariant hyperplanes: whiten the directions in which samples may vary.

With the tangents t of all samples, C = mean of t tᵀ and C_λ = (1-λ) C + λ I, the map

    x -> C_λ^{-1/2} x

shrinks what varies without meaning, and a hyperplane found there by a plain SVM
hardly depends on it; λ = 1 is the plain SVM. For a kernel the same is done in a
Nyström feature space φ, with the tangents (φ(x + h t) - φ(x - h t)) / 2h.

Reference: B. Schölkopf, P. Simard, A. Smola, V. Vapnik, Prior knowledge in support
vector kernels, NIPS 1997; O. Chapelle, B. Schölkopf, Incorporating invariances in
nonlinear support vector machines, NIPS 2001.
"""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.kernel_approximation import Nystroem
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._compute.progress import announce, announced
from widemargin._compute.threads import batched_slices
from widemargin._core.callbacks import FitTasks, with_callbacks
from widemargin._core.checks import check_count, check_option
from widemargin.svm.checks import (
    FLOATS,
    check_class_weight,
    check_positive,
    check_training,
)
from widemargin.svm.decisions import DecisionClassifier
from widemargin.svm.raw import raw_tangents
from widemargin.tangents.generator import fit_tangents

KERNELS = ("linear", "rbf", "poly")


class InvariantHyperplaneSVC(DecisionClassifier):
    """Support vector machine in a space where meaningless variation is small.

    Parameters
    ----------
    lam : float in (0, 1], default=0.1
        Weight of the identity in C_λ; 1 is the plain SVM.
    kernel : {"linear", "rbf", "poly"}, default="linear"
        "linear" whitens the samples themselves, the others whiten a Nyström
        approximation of their feature space.
    C : float, default=10.0
        Penalty of margin errors.
    gamma : float or "scale", default="scale"
        Of "rbf" and "poly"; "scale" is as in ``sklearn.svm.SVC``.
    degree, coef0 : as in ``SVC``
    tangents : generator, array of shape (n_tangents, n_features) or None, default=None
        What may vary; None makes a plain SVM.
    step : float, default=0.1
        h of the difference quotient in feature space, in units of the tangents.
    n_components : int, default=1000
        Dimensions of the feature space of "rbf" and "poly".
    class_weight : dict, "balanced" or None, default=None
        Factor on C of each class.
    random_state : int, RandomState instance or None, default=None
        For the choice of Nyström's samples.

    Attributes
    ----------
    whitening_ : ndarray of shape (n_dimensions, n_dimensions)
        C_λ^{-1/2}.
    svc_ : SVC
        The linear machine in the whitened space.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.svm import InvariantHyperplaneSVC
    >>> X = np.array([[0.0, 0.0], [3.0, 1.0]])
    >>> along_first_axis = np.array([[1.0, 0.0]])
    >>> svc = InvariantHyperplaneSVC(1e-3, tangents=along_first_axis, C=1e3)
    >>> svc.fit(X, [0, 1]).predict([[30.0, 0.0], [-30.0, 1.0]])
    array([0, 1])
    """

    def __init__(
        self,
        lam: float = 0.1,
        *,
        kernel: str = "linear",
        C: float = 10.0,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tangents: Any = None,
        step: float = 0.1,
        n_components: int = 1000,
        class_weight: Any = None,
        random_state: Any = None,
    ):
        self.lam = lam
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tangents = tangents
        self.step = step
        self.n_components = n_components
        self.class_weight = class_weight
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Learn the whitening and train the machine.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Factor on C of each sample.

        Returns
        -------
        self : InvariantHyperplaneSVC
            The fitted machine.
        """
        self._check_parameters()
        X, y, self.classes_, weights = check_training(self, X, y, sample_weight)
        check_class_weight(self.class_weight, self.classes_)
        with FitTasks(self, 4, X=X, y=y, sample_weight=weights) as tasks:
            with tasks.whole("tangents"):
                generator = fit_tangents(self.tangents, X, y)
            with tasks.whole("features"):
                self._features = self._feature_map(X)
                mapped = self._map(X)
            with tasks.parts("whitening"):
                self.whitening_ = self._whiten(X, generator, mapped.shape[1])
            with tasks.whole("solve"):
                self.svc_ = SVC(
                    kernel="linear",
                    C=self.C,
                    class_weight=self.class_weight,
                    break_ties=len(self.classes_) > 2,
                ).fit(mapped @ self.whitening_, y, weights)
        return self

    def _whiten(self, X, generator, n_dimensions):
        if generator is None or self.lam >= 1:
            return np.eye(n_dimensions)
        covariance = self._tangent_covariance(X, generator, n_dimensions)
        covariance *= 1 - self.lam
        covariance[np.diag_indices_from(covariance)] += self.lam
        values, vectors = eigh(covariance)
        return (vectors / np.sqrt(values)) @ vectors.T

    def _check_parameters(self):
        if not isinstance(self.lam, Real) or not 0 < self.lam <= 1:
            raise ValueError(f"lam must be above 0 and at most 1; got {self.lam!r}.")
        check_option("kernel", self.kernel, KERNELS)
        check_positive("C", self.C)
        check_positive("step", self.step)
        check_count("n_components", self.n_components)
        if self.gamma != "scale":
            check_positive("gamma", self.gamma)

    def _feature_map(self, X):
        if self.kernel == "linear":
            return None
        gamma = self.gamma
        if gamma == "scale":
            variance = X.var()
            gamma = 1 / (X.shape[1] * variance) if variance > 0 else 1.0
        shape = {"degree": self.degree, "coef0": self.coef0}
        return Nystroem(
            self.kernel,
            gamma=gamma,
            n_components=min(int(self.n_components), len(X)),
            random_state=self.random_state,
            **(shape if self.kernel == "poly" else {}),
        ).fit(X)

    def _map(self, X):
        return X if self._features is None else self._features.transform(X)

    def _tangent_covariance(self, X, generator, n_dimensions):
        """Mean of t tᵀ over all tangents of all samples, in the mapped space."""
        total = np.zeros((n_dimensions, n_dimensions))
        count = 0
        h = X.dtype.type(self.step)
        for rows in announced(batched_slices(len(X), 256), "whitening"):
            tangents = raw_tangents(generator, X[rows])
            for t in range(tangents.shape[1]):
                moves = tangents[:, t]
                if self._features is not None:
                    forward = self._map(X[rows] + h * moves)
                    moves = (forward - self._map(X[rows] - h * moves)) / (2 * h)
                total += moves.T.astype(float) @ moves
            count += tangents.shape[0] * tangents.shape[1]
        return total / max(1, count)

    def decision_function(self, X: Any) -> NDArray:
        """Class scores of the machine in the whitened space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or, for two classes, (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        with announce("decisions"):
            return self.svc_.decision_function(self._map(X) @ self.whitening_)
