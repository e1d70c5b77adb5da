r"""Virtual support vectors: train, transform what supports, train again.

The support vectors of a first machine carry what the classes look like at their
borders; a second machine is trained on them and their transformed copies, either
moved along tangents, x ± h t_i, or really transformed.

Reference: B. Schölkopf, C. Burges, V. Vapnik, Incorporating invariances in support
vector learning machines, ICANN 1996.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._compute.progress import announce
from widemargin._core.callbacks import FitTasks, with_callbacks
from widemargin.svm.checks import (
    FLOATS,
    check_class_weight,
    check_positive,
    check_training,
    weigh,
)
from widemargin.svm.decisions import DecisionClassifier
from widemargin.svm.raw import raw_tangents
from widemargin.tangents.generator import fit_tangents
from widemargin.tangents.shifts import check_transformations, copies


class VirtualSVC(DecisionClassifier):
    """Support vector machine trained again on transformed support vectors.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Kernel of both stages, as in ``sklearn.svm.SVC``.
    C : float, default=10.0
        Penalty of margin errors.
    gamma : float, "scale" or "auto", default="scale"
        As in ``SVC``; what "scale" means for the training samples holds in both stages.
    degree, coef0 : as in ``SVC``
    tangents : generator, array of shape (n_tangents, n_features) or None, default=None
        Directions of the copies x ± step · t.
    step : float, default=1.0
        Length of the move in units of the tangents: pixels for image shifts.
    transformations : sequence of callables or None, default=None
        Functions ``X -> X`` that make copies, for instance
        :func:`~widemargin.tangents.image_shifts`. Without these and without tangents
        there is one stage only.
    class_weight : dict, "balanced" or None, default=None
        Factor on C of each class; "balanced" counts the training samples.

    Attributes
    ----------
    svc_ : SVC
        The machine of the second stage.
    first_support_ : ndarray of shape (n_first,)
        Training samples (of positive weight) that support the first stage.
    n_virtual_ : int
        Copies added to them.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.svm import VirtualSVC
    >>> X = np.array([[0.0, 0.0], [0.5, 0.2], [0.0, 1.0], [0.5, 1.2]])
    >>> along_first_axis = np.array([[1.0, 0.0]])
    >>> svc = VirtualSVC("linear", tangents=along_first_axis, step=9.0)
    >>> svc.fit(X, [0, 0, 1, 1]).predict([[5.0, 0.1], [-5.0, 1.1]])
    array([0, 1])
    """

    def __init__(
        self,
        kernel: str | Callable = "rbf",
        *,
        C: float = 10.0,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tangents: Any = None,
        step: float = 1.0,
        transformations: Sequence[Callable] | None = None,
        class_weight: Any = None,
    ):
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tangents = tangents
        self.step = step
        self.transformations = transformations
        self.class_weight = class_weight

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None):
        """Train both stages.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Factor on C of each sample, and of its copies.

        Returns
        -------
        self : VirtualSVC
            The fitted machine.
        """
        check_positive("C", self.C)
        check_positive("step", self.step)
        transformations = check_transformations("transformations", self.transformations)
        X, y, self.classes_, weights = check_training(self, X, y, sample_weight)
        check_class_weight(self.class_weight, self.classes_)
        # What "balanced" means for the whole set holds in both stages.
        factors = weigh(self.class_weight, self.classes_, y, weights)
        gamma = self.gamma
        if gamma == "scale":
            variance = X.var()
            gamma = 1 / (X.shape[1] * variance) if variance > 0 else 1.0
        with FitTasks(self, 4, X=X, y=y, sample_weight=weights) as tasks:
            with tasks.whole("tangents"):
                generator = fit_tangents(self.tangents, X, y)
            with tasks.whole("solve"):
                first = self._stage(gamma).fit(X, y, factors)
            self.first_support_ = rows = first.support_
            with tasks.whole("virtual samples"):
                virtual = [
                    *self._moved(X[rows], generator),
                    *copies(X[rows], transformations, "transformations"),
                ]
            self.n_virtual_ = len(rows) * len(virtual)
            with tasks.whole("solve again"):
                self.svc_ = first
                if virtual:
                    self.svc_ = self._second(gamma, X, y, factors, virtual)
        return self

    def _second(self, gamma, X, y, factors, virtual):
        """Train on the support vectors of the first stage and their copies."""
        rows, times = self.first_support_, 1 + len(virtual)
        return self._stage(gamma).fit(
            np.concatenate([X[rows], *virtual]),
            np.tile(y[rows], times),
            None if factors is None else np.tile(factors[rows], times),
        )

    def _stage(self, gamma):
        return SVC(
            kernel=self.kernel,
            C=self.C,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            break_ties=len(self.classes_) > 2,
        )

    def _moved(self, X, generator):
        if generator is None:
            return
        directions = raw_tangents(generator, X)
        for t in range(directions.shape[1]):
            yield X + X.dtype.type(self.step) * directions[:, t]
            yield X - X.dtype.type(self.step) * directions[:, t]

    def decision_function(self, X: Any) -> NDArray:
        """Class scores of the second stage.

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
            return self.svc_.decision_function(X)
