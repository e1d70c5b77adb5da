r"""Kernel jittering: transform inside the kernel instead of the training set.

    k_J(x, x') = k(x, q*),   q* = argmin_q k(q, q) - 2 k(x, q)

over x' and its transformed copies q: the copy nearest to x in feature space. Which end
is transformed matters, so the kernel used is (k_J(x, x') + k_J(x', x))/2.

Reference: D. DeCoste, B. Schölkopf, Training invariant support vector machines,
Machine Learning 46 (2002), section 5.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._compute.progress import announce, announced
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import warn_caller
from widemargin._core.classifier import fit_method
from widemargin._core.params import Counted, Finite, parameters
from widemargin._core.samples import check_samples
from widemargin.hyperplanes import gram, pairwise
from widemargin.metrics.kernels import rounding_of, symmetrize
from widemargin.tangents.transform import check_transformations, copies


@dataclass(frozen=True)
class JitteredKernel:
    """A kernel and what it jitters with, of samples about a `centre`."""

    name: str
    gamma: float
    degree: int
    coef0: float
    transformations: tuple[Callable, ...]
    centre: NDArray | None = None

    def versions(self, Y: NDArray) -> list[tuple[NDArray, NDArray, Any]]:
        """List samples and their copies, each with its own kernel values k(q, q).

        The third are what a linear kernel about the centre c lacks: x.q is
        (x - c).(q - c) + c.(q - y) and terms of x or y alone, which are only a bias.
        """
        versions = [Y, *copies(Y, self.transformations)]
        versions = [pairwise.about(version, self.centre) for version in versions]
        lacks: list[Any] = [0.0] * len(versions)
        if self.name == "linear" and self.centre is not None:
            centre = self.centre.astype(float)
            lacks = [(version - versions[0]) @ centre for version in versions]
        own = map(self._own_values, versions)
        return list(zip(versions, own, lacks, strict=True))

    def _own_values(self, Y):
        if self.name == "rbf":
            return np.ones(len(Y))
        inner = np.einsum("nd,nd->n", Y, Y, dtype=float)
        if self.name == "linear":
            return inner
        return pairwise.polynomial(inner, self.gamma, self.degree, self.coef0)

    def values(self, X: NDArray, versions: list[tuple]) -> NDArray:
        """k_J(x, y) for all pairs, y any of its versions."""
        n = len(versions[0][0])
        kernel = (self.name, self.gamma, self.degree, self.coef0)
        out = np.full((len(X), n), np.nan)
        chunks = list(batched_slices(len(X), rows_in_budget(40 * n)))
        with announce("kernel", len(chunks) * len(versions)) as advance:
            for rows in chunks:
                nearest = np.full((rows.stop - rows.start, n), np.inf)
                for version, self_value, lacking in versions:
                    values = pairwise.kernel_values(X[rows], version, *kernel)
                    squared = self_value - 2 * values
                    closer = squared < nearest
                    np.copyto(nearest, squared, where=closer)
                    np.copyto(out[rows], values + lacking, where=closer)
                    advance()
        return out


@parameters
class JitteredSVC(gram.GramClassifier):
    """Support vector machine whose kernel takes the nearest of transformed copies.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        The kernel to jitter. "rbf" knows differences only; with the others, "linear"
        if there are transformations, it matters where the origin of the samples is.
    C : float, default=10.0
        Penalty of margin errors.
    gamma : float or "scale", default="scale"
        Of "rbf" and "poly"; "scale" is one over the sum of the weighted variances of
        the features, as in ``sklearn.svm.SVC`` where these share a mean.
    degree, coef0 : as in ``SVC``
    transformations : sequence of callables or None, default=None
        Functions ``X -> X``, for instance :func:`~widemargin.tangents.image_shifts`.
        None: a plain SVC, with a warning; an empty list: without.
    multiclass : {"ovo", "ddag"}, default="ovo"
        How the decisions of all pairs of classes are combined: "ovo" by votes, "ddag"
        by a decision graph.
    psd_correction : {"auto", "none", "clip", "flip", "shift"}, default="auto"
        What happens to negative eigenvalues of the Gram matrix, as in
        :class:`~widemargin.TangentSVC`. "auto" clips them if they are large enough to
        mislead the solver. Then all training samples take part in predictions.
    class_weight : dict, "balanced" or None, default=None
        Factor on C of each class.
    tol : float, default=1e-3
        Tolerance of the solver.
    max_iter : int, default=1_000_000
        Maximum number of solver steps per pair of classes; reaching it warns.

    Attributes
    ----------
    support_vectors_ : ndarray of shape (n_support, n_features)
        All that prediction needs, with `coef_` (n_support, n_pairs) and `intercept_`.
    gamma_ : float
        The gamma used.
    n_iter_ : int
        Solver steps of the pair of classes that took most.
    smallest_eigenvalue_ : float
        Of the Gram matrix before its repair, of coefficients that sum to zero; only
        where there was a repair.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    widemargin.VirtualSVC : Moves support vectors and fits again.
    widemargin.TangentSVC : The same idea to first order.

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
    D. DeCoste, B. Schölkopf, Training invariant support vector machines, Machine
    Learning 46 (2002).

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.svm import JitteredSVC
    >>> flip = lambda X: X[:, ::-1]
    >>> svc = JitteredSVC(transformations=[flip])
    >>> svc.fit([[0.0, 1.0], [1.0, 1.0]], ["edge", "full"]).predict([[1.0, 0.0]])
    array(['edge'], dtype='<U4')
    """

    kernel: Literal["rbf", "linear", "poly"] = "rbf"
    _: KW_ONLY
    degree: Counted = 3
    coef0: Finite = 0.0
    transformations: Sequence[Callable] | None = None

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train one machine for every pair of classes on the jittered Gram matrix.

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
        self._check_solver()
        if self.transformations is None:
            warn_caller(
                "JitteredSVC was given no transformations, so it is a plain SVC. Give "
                "some, for instance image_shifts(shape=(16, 16)), or an empty list for "
                "a plain SVC without this warning."
            )
        transformations = check_transformations(self.transformations)
        samples = check_samples(self, X, y, sample_weight)
        self.classes_ = samples.classes
        X, weights = samples.X, samples.weights
        pairwise.require_gram_fits(
            len(X),
            max(8, self._bytes_of_repair()),
            "Use VirtualSVC, which needs no Gram matrix, or fewer samples.",
        )
        self.gamma_ = pairwise.gamma_for(self.gamma, X, weights)
        kernel = JitteredKernel(
            self.kernel, self.gamma_, int(self.degree), float(self.coef0),
            transformations, pairwise.centre_for(X, self.kernel),
        )  # fmt: skip
        machine = pairwise.PairwiseMachine(
            "gram", self.C, self.multiclass, self.tol, int(self.max_iter)
        )
        data = {"X": X, "y": samples.labels, "sample_weight": weights}
        with FitTasks(self, 2 + (self.psd_correction != "none"), **data) as tasks:
            with tasks.parts("kernel"):
                versions = kernel.versions(X)
                K = symmetrize(kernel.values(versions[0][0], versions))
            coef, self.intercept_ = self._solve(
                machine, K, samples.codes, weights, rounding_of(X), tasks
            )
        self.support_ = np.flatnonzero(np.any(coef != 0, axis=1))
        self.support_vectors_ = X[self.support_]
        self.coef_ = coef[self.support_]
        self._kernel = kernel
        return self

    def _duels(self, X):
        kernel, supports = self._kernel, self.support_vectors_
        versions = kernel.versions(supports)
        out = np.empty((len(X), self.coef_.shape[1]))
        chunks = batched_slices(len(X), min(1024, rows_in_budget(80 * len(supports))))
        for rows in announced(chunks, "kernel"):
            of_queries = kernel.versions(X[rows])
            K = kernel.values(of_queries[0][0], versions)
            K += kernel.values(versions[0][0], of_queries).T
            out[rows] = pairwise.decide(K / 2, self.coef_, self.intercept_)
        return out
