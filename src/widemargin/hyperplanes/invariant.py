r"""Invariant hyperplanes: whiten the directions in which samples may vary.

With the tangents t of all samples, C = sum of t tᵀ / sum of tᵀt, of trace 1, and
C_λ = (1-λ) C + λ I, the map

    x -> C_λ^{-1/2} x

shrinks what varies without meaning, and a hyperplane found there by a plain SVM
hardly depends on it; λ = 1 is the plain SVM. In the papers C is the mean of t tᵀ, in
units of the samples squared, on which then depends what λ means. For a kernel all
is done in a Nyström feature space φ, with the tangents (φ(x + ht) - φ(x - ht)) / 2h.

Reference: B. Schölkopf, P. Simard, A. Smola, V. Vapnik, Prior knowledge in support
vector kernels, NIPS 1997; O. Chapelle, B. Schölkopf, Incorporating invariances in
nonlinear support vector machines, NIPS 2001.
"""

from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy.linalg import eigh, svd

from widemargin._compute.machine import batched_slices
from widemargin._compute.progress import announce, announced
from widemargin._compute.rounding import epsilon
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    SIZES,
    check_random_state,
    check_size,
)
from widemargin._core.classifier import SoftClassifier, fit_method
from widemargin._core.left_out import OF_A_CLASS
from widemargin._core.params import Counted, Finite, Number, Positive, parameters
from widemargin._core.samples import check_samples
from widemargin._core.temperature import FITTED, LeftOut
from widemargin.hyperplanes import pairwise
from widemargin.tangents.generator import (
    check_tangents,
    fit_tangents,
    raw_tangents,
    tangents_meant,
)


@parameters
class InvariantHyperplaneSVC(pairwise.DuelClassifier, SoftClassifier):
    """Support vector machine that weighs nuisance directions less (whitening).

    Parameters
    ----------
    shrinkage : float in (0, 1], default=0.1
        Weight of the identity in C_λ; 1 is the plain SVM. Where all tangents are one
        direction it becomes shorter by the root of shrinkage, beside all others; where
        they are many each does less.
    kernel : {"linear", "rbf", "poly"}, default="linear"
        "linear" whitens the samples themselves, the others whiten a Nyström
        approximation of their feature space.
    C : float, default=10.0
        Penalty of margin errors.
    gamma : float or "scale", default="scale"
        Of "rbf" and "poly"; "scale" is one over the sum of the weighted variances of
        the features, as in ``sklearn.svm.SVC`` where these share a mean.
    degree, coef0 : as in ``SVC``
    tangents : generator, array of shape (n_tangents, n_features), "none" or None, \
            default=None
        Changes to ignore. None: a plain SVM, with a warning; "none": without.
    step : float, default=0.1
        h of the difference quotient in feature space, in units of the tangents.
    n_components : int, default=1000
        Dimensions of the feature space of "rbf" and "poly".
    multiclass : {"ovo", "ddag"}, default="ovo"
        How the decisions of all pairs of classes are combined: "ovo" by votes, "ddag"
        by a decision graph.
    class_weight : dict, "balanced" or None, default=None
        Factor on C of each class.
    tol : float, default=1e-3
        Tolerance of the solver.
    max_iter : int, default=1_000_000
        Maximum number of solver steps per pair of classes; reaching it warns.
    random_state : int, RandomState instance or None, default=None
        For the choice of Nyström's samples.

    Attributes
    ----------
    whitening_ : ndarray of shape (n_dimensions, n_dimensions)
        C_λ^{-1/2}.
    svc_ : SVC
        The linear machine in the whitened space, of samples less their mean (not with
        "poly"); its labels are positions in `classes_`.
    gamma_ : float
        The gamma of "rbf" and "poly".
    temperature_ : float
        Of ``predict_proba``, in the units of margins: fitted to training samples that
        were left out, when it is asked for first.
    n_iter_ : int
        Solver steps of the pair of classes that took most.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    widemargin.TangentSVC : Invariance in the kernel instead of the hyperplane.
    widemargin.VirtualSVC : Invariance by moved support vectors.

    Notes
    -----
    Margins are a "distance" in units of the machines' own margin. That of the predicted
    label is its closest decision against another class. That of another label is minus
    the decision that it lost. Samples that trained a machine lie at its margin by
    construction: for ``predict_proba`` machines are fitted again without some of them.
    With more than 10 000 samples a closed form leaves out about 250 of each class, 2000
    at most. With the linear kernel it does so from five samples for each class and
    feature on. It is that of a machine with squared slack and similar coefficients; the
    whitening is kept. The solver is LIBSVM with either kernel. Its time grows at least
    with the square of the number of samples: use it for some thousands. On scikit-learn
    1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())`` shows how far `fit`
    is.

    References
    ----------
    O. Chapelle, B. Schölkopf, Incorporating invariances in nonlinear support vector
    machines, NIPS 2001.

    O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple parameters for
    support vector machines, Machine Learning 46, 2002.

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

    # A sample that leaves changes who is at the margin where supports are most samples.
    _many = 5

    shrinkage: Annotated[float, Number(above=0, at_most=1)] = 0.1
    _: KW_ONLY
    kernel: Literal["linear", "rbf", "poly"] = "linear"
    degree: Counted = 3
    coef0: Finite = 0.0
    tangents: Any = None
    step: Positive = 0.1
    n_components: Counted = 1000
    random_state: Any = None

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
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
        tangents = self._check_parameters()
        samples = check_samples(self, X, y, sample_weight)
        self.classes_ = samples.classes
        X, labels, weights = samples.X, samples.labels, samples.weights
        self._centre = pairwise.centre_for(X, self.kernel)
        inside = self._inside(X)
        with FitTasks(self, 4, X=X, y=labels, sample_weight=weights) as tasks:
            with tasks.whole("tangents"):
                generator = fit_tangents(tangents, X, labels)
            with tasks.whole("features"):
                self._choose_landmarks(inside, weights)
                mapped = self._map(inside)
            with tasks.parts("whitening"):
                self.whitening_ = self._whiten(X, labels, generator, mapped.shape[1])
            with tasks.whole("solve"):
                self.svc_ = pairwise.new_machine(self, kernel="linear")
                whitened = mapped @ self.whitening_
                try:
                    end = pairwise.solve(self.svc_, whitened, samples.codes, weights)
                except ValueError as error:
                    if "not finite" not in str(error):
                        raise
                    raise self._overflow() from error
        self._calibrate_later(samples)
        pairwise.say_how_it_ended(end, self)
        return self

    def _calibrate_on(self, samples):
        """Calibrate on training samples, each left out of the machine.

        A kernel's features are as many as samples, which are few beside them.
        """
        n_features = len(self.whitening_) * len(self.classes_)
        found = self._refitted_costs(samples, n_features)
        self._calibrate(self._left_out_costs(samples) if found is None else found)

    def _left_out_costs(self, samples):
        """Say what samples cost in closed form."""
        whitened = self._map(self._inside(samples.X)) @ self.whitening_
        most = min(FITTED, OF_A_CLASS * len(samples.classes))
        rows = np.random.RandomState(0).permutation(len(samples))[:most]
        linked = samples.observations
        with np.errstate(all="ignore"):
            duels = pairwise.spanned_duels(self.svc_, whitened, samples, rows, linked)
        costs, answers = self._costs_of(duels)
        return LeftOut(costs, answers, samples.codes[rows], samples.weights[rows])

    def _whiten(self, X, labels, generator, n_dimensions):
        if generator is None or self.shrinkage >= 1:
            return np.eye(n_dimensions)
        values, vectors = self._directions(X, labels, generator, n_dimensions)
        values /= values.sum() or 1.0
        # Outside the vectors there is the identity alone.
        shrunk = (
            np.sqrt(self.shrinkage / ((1 - self.shrinkage) * values + self.shrinkage))
            - 1
        )
        whitening = (vectors * shrunk) @ vectors.T
        whitening[np.diag_indices_from(whitening)] += 1
        return whitening / np.sqrt(self.shrinkage)

    def _directions(self, X, labels, generator, n_dimensions):
        """Eigenvalues and -vectors of the sum of t tᵀ, those of nothing left out."""
        few, total = np.zeros((0, n_dimensions)), None
        for moves in self._moves(X, labels, generator):
            few = np.concatenate([few, moves])
            if len(few) >= n_dimensions:
                total = few.T @ few + (0.0 if total is None else total)
                few = few[:0]
        if total is not None:
            total += few.T @ few
        if total is not None:
            values, vectors = eigh(total)
            return np.maximum(values, 0), vectors
        # Fewer tangents than dimensions: no matrix of all these is needed.
        _, lengths, vectors = np.linalg.svd(few, full_matrices=False)
        return lengths**2, vectors.T

    def _check_parameters(self):
        tangents = tangents_meant(self.tangents, type(self).__name__)
        tangents = check_tangents(tangents)
        self._check_solver()
        return tangents

    def _choose_landmarks(self, X, weights):
        """Fit Nyström's map φ(x) = K_mm^(-1/2) k(x), of some samples x_1, ..., x_m."""
        self._landmarks: Any = None
        self.gamma_ = pairwise.gamma_for(self.gamma, X, weights)
        if self.kernel == "linear":
            return
        self._kernel = self.kernel, self.gamma_, self.degree, self.coef0
        order = check_random_state(self.random_state).permutation(len(X))
        self._landmarks = X[order[: int(self.n_components)]]
        left, values, right = svd(self._kernel_values(self._landmarks))
        # What is rounding beside the largest has no direction.
        noise = values[0] * len(values) * epsilon()
        parts = np.where(values > noise, 1 / np.sqrt(np.maximum(values, 1e-12)), 0.0)
        self._root = (left * parts) @ right

    def _kernel_values(self, X):
        """Values of the kernel (n, m) at the landmarks."""
        X, Y = X.astype(float), self._landmarks.astype(float)
        return pairwise.kernel_values(X, Y, *self._kernel)

    def _overflow(self) -> ValueError:
        return ValueError(
            f"kernel={self.kernel!r} gives values that are not finite on these "
            "samples; scale the data, or lower gamma, degree or coef0."
        )

    def _map(self, X):
        if self._landmarks is None:
            return X
        return self._kernel_values(X) @ self._root.T

    def _moves(self, X, labels, generator):
        """Tangents of all samples in the mapped space, a block at a time."""
        h, (least, most) = float(self.step), SIZES[X.dtype]
        if self._landmarks is not None and not least <= h <= most:
            raise ValueError(
                f"step must be of the size of samples in {X.dtype}, from {least:g} to "
                f"{most:g}; got {self.step!r}."
            )
        for rows in announced(batched_slices(len(X), 256), "whitening"):
            tangents = raw_tangents(generator, X[rows], labels[rows])
            check_size(tangents, "what tangents return")
            for t in range(tangents.shape[1]):
                moves = tangents[:, t]
                if self._landmarks is not None:
                    here = self._inside(X[rows])
                    forward = self._map(here + h * moves)
                    moves = (forward - self._map(here - h * moves)) / (2 * h)
                yield moves.astype(float)

    def _duels(self, X):
        planes, intercept = pairwise.pairwise_planes(self.svc_)
        with announce("decisions"):
            whitened = self._map(self._inside(X)) @ self.whitening_
            return pairwise.decide(whitened.astype(float), planes, intercept)
