r"""Kernel jittering: transform inside the kernel instead of the training set.

    k_J(x, x') = k(x, q*),   q* = argmin_q k(q, q) - 2 k(x, q)

over x' and its transformed copies q: the copy nearest to x in feature space. Which end
is transformed matters, so the kernel used is (k_J(x, x') + k_J(x', x))/2.

Reference: D. DeCoste, B. Schölkopf, Training invariant support vector machines,
Machine Learning 46 (2002), section 5.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import (
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.progress import announce, announced
from widemargin._compute.threads import batched_slices
from widemargin._core.callbacks import FitTasks, with_callbacks
from widemargin._core.checks import check_option
from widemargin.metrics.spectrum import symmetrize
from widemargin.svm.checks import (
    FLOATS,
    check_class_weight,
    check_positive,
    check_training,
    require_gram_fits,
)
from widemargin.svm.decisions import DecisionClassifier
from widemargin.svm.pairwise import PairwiseMachine
from widemargin.tangents.shifts import check_transformations, copies

KERNELS = ("rbf", "linear", "poly")


class JitteredSVC(DecisionClassifier):
    """Support vector machine whose kernel compares the nearest transformed copies.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        The kernel to jitter.
    C : float, default=10.0
        Penalty of margin errors.
    gamma : float or "scale", default="scale"
        Of "rbf" and "poly"; "scale" is as in ``sklearn.svm.SVC``.
    degree, coef0 : as in ``SVC``
    transformations : sequence of callables or None, default=None
        Functions ``X -> X``, for instance :func:`~widemargin.tangents.image_shifts`;
        none of them makes a plain SVC.
    multiclass : {"ddag", "ovo"}, default="ddag"
        How the duels of all pairs of classes decide.
    class_weight : dict, "balanced" or None, default=None
        Factor on C of each class.

    Attributes
    ----------
    support_vectors_ : ndarray of shape (n_support, n_features)
        All that prediction needs, with `coef_` (n_support, n_duels) and `intercept_`.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.svm import JitteredSVC
    >>> flip = lambda X: X[:, ::-1]
    >>> svc = JitteredSVC(transformations=[flip])
    >>> svc.fit([[0.0, 1.0], [1.0, 1.0]], ["edge", "full"]).predict([[1.0, 0.0]])
    array(['edge'], dtype='<U4')
    """

    def __init__(
        self,
        kernel: str = "rbf",
        *,
        C: float = 10.0,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        transformations: Sequence[Callable] | None = None,
        multiclass: str = "ddag",
        class_weight: Any = None,
    ):
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.transformations = transformations
        self.multiclass = multiclass
        self.class_weight = class_weight

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Train the duels of all pairs of classes on the jittered Gram matrix.

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
        self : JitteredSVC
            The fitted machine.
        """
        check_option("kernel", self.kernel, KERNELS)
        check_option("multiclass", self.multiclass, ("ddag", "ovo"))
        check_positive("C", self.C)
        if self.gamma != "scale":
            check_positive("gamma", self.gamma)
        self._transformations = check_transformations(
            "transformations", self.transformations
        )
        X, y, self.classes_, weights = check_training(self, X, y, sample_weight)
        check_class_weight(self.class_weight, self.classes_)
        require_gram_fits(
            len(X), 8, "Use VirtualSVC, which needs no Gram matrix, or fewer samples."
        )
        variance = X.var()
        scale = 1 / (X.shape[1] * variance) if variance > 0 else 1.0
        self.gamma_ = scale if self.gamma == "scale" else float(self.gamma)
        machine = PairwiseMachine("gram", self.C, self.class_weight, self.multiclass)
        with FitTasks(self, 2, X=X, y=y, sample_weight=weights) as tasks:
            with tasks.parts("kernel"):
                K = symmetrize(self._jittered(X, self._versions(X)))
            with tasks.whole("solve"):
                machine.fit(K, y, weights)
        self.support_ = np.flatnonzero(np.any(machine.coef_ != 0, axis=1))
        self.support_vectors_ = X[self.support_]
        self.coef_ = machine.coef_[self.support_]
        self.intercept_ = machine.intercept_
        machine.coef_ = self.coef_
        self._machine = machine
        return self

    def _values(self, X, Y):
        if self.kernel == "rbf":
            return rbf_kernel(X, Y, gamma=self.gamma_)
        if self.kernel == "linear":
            return linear_kernel(X, Y)
        return polynomial_kernel(
            X, Y, degree=self.degree, gamma=self.gamma_, coef0=self.coef0
        )

    def _own_values(self, Y):
        if self.kernel == "rbf":
            return np.ones(len(Y))
        inner = np.einsum("nd,nd->n", Y, Y, dtype=float)
        if self.kernel == "linear":
            return inner
        return (self.gamma_ * inner + self.coef0) ** self.degree

    def _versions(self, Y):
        """List samples and their copies, each with its own kernel values k(q, q)."""
        versions = [Y, *copies(Y, self._transformations, "transformations")]
        return [(version, self._own_values(version)) for version in versions]

    def _jittered(self, X, versions):
        """k_J(x, y) for all pairs, y any of its versions."""
        n = len(versions[0][0])
        out = np.empty((len(X), n))
        chunks = list(batched_slices(len(X), rows_in_budget(40 * n)))
        with announce("kernel", len(chunks) * len(versions)) as advance:
            for rows in chunks:
                nearest = np.full((rows.stop - rows.start, n), np.inf)
                for version, self_value in versions:
                    values = self._values(X[rows], version)
                    squared = self_value - 2 * values
                    closer = squared < nearest
                    np.copyto(nearest, squared, where=closer)
                    np.copyto(out[rows], values, where=closer)
                    advance()
        return out

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
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        supports = self.support_vectors_
        versions = self._versions(supports)
        out = np.empty((len(X), self.coef_.shape[1]))
        chunks = batched_slices(len(X), min(1024, rows_in_budget(80 * len(supports))))
        for rows in announced(chunks, "kernel"):
            K = self._jittered(X[rows], versions)
            K += self._jittered(supports, self._versions(X[rows])).T
            out[rows] = K / 2 @ self.coef_
        return self._machine.scores(out + self.intercept_)
