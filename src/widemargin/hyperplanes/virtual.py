r"""Virtual support vectors: train, transform what supports, train again.

The support vectors of a first machine carry what the classes look like at their
borders; a second machine is trained on them and their transformed copies, either
moved along tangents, x ± h t_i, or really transformed.

Reference: B. Schölkopf, C. Burges, V. Vapnik, Incorporating invariances in support
vector learning machines, ICANN 1996.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels

from widemargin._compute.progress import announce
from widemargin._core.arrays import largest_of
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import check_option, check_size
from widemargin._core.classifier import fit_method
from widemargin._core.params import Counted, Finite, Positive, parameters
from widemargin._core.samples import check_samples
from widemargin.hyperplanes import gram, pairwise
from widemargin.tangents.generator import (
    check_tangents,
    fit_tangents,
    raw_tangents,
    tangents_meant,
)
from widemargin.tangents.transform import check_transformations, copies

KERNELS = ("linear", "poly", "rbf", "sigmoid")


@parameters
class VirtualSVC(pairwise.DuelClassifier):
    """Support vector machine trained again on transformed support vectors.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        Kernel of both stages, as in ``sklearn.svm.SVC``.
    C : float, default=10.0
        Penalty of margin errors.
    gamma : float or "scale", default="scale"
        As in ``SVC``, but "scale" is one over the sum of the weighted variances of the
        features of the training samples, in both stages.
    degree, coef0 : as in ``SVC``
    tangents : generator, array of shape (n_tangents, n_features), "none" or None, \
            default=None
        Directions of the copies x ± step · t; "none" says that there are none.
    step : float, default=1.0
        Length of the move in units of the tangents: pixels for image shifts.
    transformations : sequence of callables or None, default=None
        Functions ``X -> X`` that make copies, for instance
        :func:`~widemargin.tangents.image_shifts`. Without these and without tangents
        there is one stage only, an ordinary SVC, which warns.
    multiclass : {"ovo", "ddag"}, default="ovo"
        How the decisions of all pairs of classes are combined: "ovo" by votes, "ddag"
        by a decision graph.
    class_weight : dict, "balanced" or None, default=None
        Factor on C of each class; "balanced" counts the training samples.
    tol : float, default=1e-3
        Tolerance of the solver.
    max_iter : int, default=1_000_000
        Maximum number of solver steps per pair of classes; reaching it warns.

    Attributes
    ----------
    svc_ : SVC
        The machine of the second stage; its labels are positions in `classes_`, and
        with the kernels "rbf" and "linear" its samples are less their mean.
    gamma_ : float
        The gamma of both stages.
    n_iter_ : int
        Solver steps of the pair of classes that took most.
    first_support_ : ndarray of shape (n_first,)
        Training samples (of positive weight) that support the first stage.
    n_virtual_ : int
        Copies added to them.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    widemargin.JitteredSVC : Moves samples within the kernel.
    widemargin.TangentSVC : Invariance in the kernel, to first order.

    Notes
    -----
    Margins are a "distance" in units of the machines' own margin. That of the predicted
    label is its closest decision against another class. That of another label is minus
    the decision that it lost. There is no ``predict_proba``: samples that trained a
    machine lie at its margin by construction, so that a temperature needs others, as
    :class:`~sklearn.calibration.CalibratedClassifierCV` leaves out. On scikit-learn 1.9
    and later ``set_callbacks(sklearn.callback.ProgressBar())`` shows how far `fit` is.

    References
    ----------
    B. Schölkopf, C. Burges, V. Vapnik, Incorporating invariances in support vector
    learning machines, ICANN 1996.

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

    kernel: str | Callable = "rbf"
    _: KW_ONLY
    degree: Counted = 3
    coef0: Finite = 0.0
    tangents: Any = None
    step: Positive = 1.0
    transformations: Sequence[Callable] | None = None

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
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
        tangents, transformations = self._check_parameters()
        samples = check_samples(self, X, y, sample_weight)
        self.classes_ = samples.classes
        X, codes, weights = samples.X, samples.codes, samples.weights
        self._centre = pairwise.centre_for(X, self.kernel)
        inside = self._inside(X)
        self.gamma_ = pairwise.gamma_for(self.gamma, inside, weights)
        labels = samples.labels
        with FitTasks(self, 4, X=X, y=labels, sample_weight=weights) as tasks:
            with tasks.whole("tangents"):
                generator = fit_tangents(tangents, X, labels)
            with tasks.whole("solve"):
                self.svc_ = self._new_machine()
                end = pairwise.solve(self.svc_, inside, codes, weights)
            self.first_support_ = rows = self.svc_.support_
            with tasks.whole("virtual samples"):
                virtual = [
                    *self._moved(X[rows], labels[rows], generator),
                    *copies(X[rows], transformations),
                ]
            self.n_virtual_ = len(rows) * len(virtual)
            with tasks.whole("solve again"):
                if virtual:
                    times = 1 + len(virtual)
                    inside = self._inside(np.concatenate([X[rows], *virtual]))
                    self.svc_ = self._new_machine()
                    labels, weights = codes[rows], weights[rows]
                    again = np.tile(labels, times), np.tile(weights, times)
                    end = end.and_(pairwise.solve(self.svc_, inside, *again))
        pairwise.say_how_it_ended(end, self)
        self._check_planes(inside[self.svc_.support_])
        return self

    def _check_planes(self, supports):
        """Warn of an indefinite kernel that misled the solver."""
        if self.kernel in ("linear", "rbf"):
            return
        coef = pairwise.pairwise_coefficients(self.svc_)[0]
        if gram.lacks_a_plane(lambda rows: self._values(supports[rows]), coef):
            gram.warn_of_no_machine(
                self, "Use kernel='rbf', or another gamma or coef0."
            )

    def _values(self, X):
        if callable(self.kernel):
            return np.asarray(self.kernel(X, X), float)
        known = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        return pairwise_kernels(X, metric=self.kernel, filter_params=True, **known)

    def _check_parameters(self):
        transformations = check_transformations(self.transformations)
        tangents = self.tangents
        if self.transformations is None or isinstance(tangents, str):
            tangents = tangents_meant(tangents, type(self).__name__)
        tangents = check_tangents(tangents)
        if not callable(self.kernel):
            check_option("kernel", self.kernel, KERNELS)
        self._check_solver()
        return tangents, transformations

    def _new_machine(self):
        names = ("kernel", "degree", "coef0")
        options = {name: getattr(self, name) for name in names}
        return pairwise.new_machine(self, gamma=self.gamma_, **options)

    def _moved(self, X, labels, generator):
        if generator is None:
            return
        directions = raw_tangents(generator, X, labels)
        reach = largest_of(X) + float(self.step) * largest_of(directions)
        check_size(np.array(reach), f"X moved by step={self.step:g}", dtype=X.dtype)
        for t in range(directions.shape[1]):
            move = (self.step * directions[:, t].astype(float)).astype(X.dtype)
            yield X + move
            yield X - move

    def _duels(self, X):
        with announce("decisions"):
            return pairwise.duels_of(self.svc_, self._inside(X))
