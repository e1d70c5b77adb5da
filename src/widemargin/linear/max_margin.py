"""Maximum margin hyperplanes that come with a proof of how near they are."""

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, check_scalar

from widemargin._compute.threads import thread_map
from widemargin._core.callbacks import FitTasks, with_callbacks
from widemargin._core.checks import check_option
from widemargin.linear.certificate import relative_gap
from widemargin.linear.dynamic import DynamicMarginClassifier
from widemargin.linear.multiclass import SCHEMES
from widemargin.linear.online import signed_rows
from widemargin.linear.problem import (
    Outcome,
    solve_kernel_problem,
    solve_linear_problem,
)
from widemargin.linear.solution import Options, Solution
from widemargin.linear.spaces import kernel_function

METHODS = ("auto", "bisection", "bisection2", "dynamic", "dual")


class MaxMarginClassifier(DynamicMarginClassifier):
    r"""Hyperplane with the largest margin, hard or soft, with a certificate.

    Finds the hyperplane whose distance to the nearest sample is largest, and an upper
    bound of what any hyperplane could reach. Training stops when the two are within
    `tol` of each other, so that the result is known to be at least ``1 - tol`` of the
    optimum. A hard margin (``C=inf``) is the geometric one,

    .. math:: \gamma = \max_{w, b} \min_k \frac{l_k (w \cdot x_k + b)}{\lVert w \rVert}.

    A finite `C` allows slack at the price :math:`\sum_k C_k \xi_k^2` beside
    :math:`\tfrac12 \lVert w \rVert^2`: the same problem in a space where sample k owns
    a coordinate of length :math:`1 / \sqrt{2 C_k}`.

    Parameters
    ----------
    method : {"auto", "dual", "dynamic", "bisection", "bisection2"}, default="auto"
        "dual" solves the dual exactly (active set or Newton) where the unknowns are
        few, and by coordinate descent otherwise. "dynamic" is the perceptron with
        dynamic margin. "bisection" asks a fixed-margin perceptron for margins between
        the best one found and the smallest bound; "bisection2" gives a round without
        success a second chance with a relaxed condition. "auto" is "dual".
    C : float, default=1.0
        Price of slack, > 0; ``inf`` for a hard margin. Multiplied by `sample_weight`
        and `class_weight`.
    rho : float or None, default=None
        Height of the samples in the additional dimension. With ``recenter=True`` it
        changes the way of the perceptrons and of the descent, not the result, and None
        takes the spread of the data. With ``recenter=False`` it is part of the
        problem, and None takes the length of the longest sample.
    recenter : bool, default=True
        True leaves the bias free: `margin_` is geometric. False maximises the
        directional margin at height `rho` around the origin, which is the same as
        adding :math:`(b / \rho)^2 / 2` to the objective.
    kernel : str or callable, default="linear"
        "linear", another name known to
        :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function
        of two samples. All but "linear" need ``method="dual"`` or "auto".
    gamma, degree, coef0 : float or None, float, float, default=None, 3, 1
        Parameters of the named kernels.
    kernel_params : dict or None, default=None
        Keyword arguments of a callable kernel.
    multiclass : {"ovr", "ovo", "ddag"}, default="ovr"
        One-vs-rest, one-vs-one by votes, or one-vs-one along a decision DAG.
    tol : float, default=1e-3
        Certified relative gap to stop at, 0 < tol < 1.
    max_iter : int, default=10000
        Most sweeps over the training set per two-class problem; reaching it with the
        gap still above `tol` warns.
    class_weight : dict, "balanced" or None, default=None
        Factors of `C` per class.
    warm_start : bool, default=False
        Begin from the dual vector of the previous fit if it had as many samples.
    n_jobs : int or None, default=None
        Two-class problems solved at the same time.
    random_state : int, RandomState instance or None, default=None
        Order of the samples.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    coef_ : ndarray of shape (n_problems, n_features)
        Unit normals, linear kernel only.
    intercept_ : ndarray of shape (n_problems,)
        Offsets: ``X @ coef_.T + intercept_`` are signed distances.
    weight_norm_ : ndarray of shape (n_problems,)
        Length of the normal at functional margin one.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        Signed dual coefficients of the supports at functional margin one.
    support_ : ndarray of shape (n_support,)
        Row numbers of the supports.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        The supports, kernels other than "linear" and "precomputed" only.
    margin_ : float or ndarray of shape (n_problems,)
        Margin reached; an array if there is more than one problem. With a finite `C`
        it is that of the space with one more coordinate per sample,
        :math:`1 / \sqrt{2 P}` for the primal objective P.
    margin_upper_bound_ : float or ndarray of shape (n_problems,)
        No hyperplane has a larger margin.
    directional_margin_, directional_margin_upper_bound_ : float or ndarray
        The same for the vector [w, w0] at height `rho_` around `center_`. With
        ``recenter=True`` the centre lies on the hyperplane, and they agree.
    gap_ : float or ndarray of shape (n_problems,)
        What could still be gained, relatively: one minus the margin maximised over its
        upper bound (geometric, or directional with ``recenter=False``).
    rho_ : float or ndarray of shape (n_problems,)
        Height that the directional margin refers to.
    center_ : ndarray of shape (n_problems, n_features)
        Centre that it refers to, linear kernel only.
    n_iter_ : int
        Most sweeps any problem took.
    n_updates_ : int or ndarray of shape (n_problems,)
        Updates made: pattern additions, pivots or Newton steps.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has some.

    See Also
    --------
    widemargin.linear.MarginPerceptron : Online, a guaranteed share of the margin.
    widemargin.linear.FixedMarginPerceptron : Online, a margin asked for.

    Notes
    -----
    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

    References
    ----------
    P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, 2005.

    Examples
    --------
    >>> from widemargin.linear import MaxMarginClassifier
    >>> X = [[0.0, 0.0], [1.0, 0.0], [4.0, 0.0], [5.0, 1.0]]
    >>> model = MaxMarginClassifier(C=float("inf")).fit(X, [0, 0, 1, 1])
    >>> round(model.margin_, 6), round(model.margin_upper_bound_, 6)
    (1.5, 1.5)
    >>> model.decision_function([[4.5, 3.0]]).round(6)
    array([2.])
    """

    def __init__(
        self,
        method: Literal["auto", "dual", "dynamic", "bisection", "bisection2"] = "auto",
        *,
        C: float = 1.0,
        rho: float | None = None,
        recenter: bool = True,
        kernel: str | Callable = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        multiclass: Literal["ovr", "ovo", "ddag"] = "ovr",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        class_weight: dict | Literal["balanced"] | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.method = method
        self.C = C
        self.rho = rho
        self.recenter = recenter
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.multiclass = multiclass
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Say that a precomputed kernel is pairwise input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _scheme(self) -> str:
        return self.multiclass

    def _check_parameters(self) -> None:
        check_option("method", self.method, METHODS)
        check_option("multiclass", self.multiclass, SCHEMES)
        check_scalar(self.C, "C", Real, min_val=0, include_boundaries="neither")
        check_scalar(
            self.tol, "tol", Real, min_val=0, max_val=1, include_boundaries="neither"
        )
        check_scalar(self.max_iter, "max_iter", Integral, min_val=1)
        if self.rho is not None:
            check_scalar(self.rho, "rho", Real, min_val=0, include_boundaries="neither")
        if self.kernel != "linear" and self.method not in ("auto", "dual"):
            raise ValueError(
                f"kernel={self.kernel!r} needs method='dual' or 'auto'; got "
                f"method={self.method!r}."
            )
        if self.kernel_params is not None and not callable(self.kernel):
            raise ValueError(
                "kernel_params are for a callable kernel; named kernels take gamma, "
                "degree and coef0."
            )

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the hyperplanes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training samples, or their Gram matrix if ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of `C`; samples of weight zero are left out. A hard margin knows no
            other weights.

        Returns
        -------
        self : MaxMarginClassifier
            The fitted classifier.
        """
        self._check_parameters()
        previous = getattr(self, "_duals", None) if self.warm_start else None
        X, y, weight, rows = self._check_training_data(X, y, sample_weight)
        if self.kernel == "precomputed":
            X = self._square_part(X, rows)
        codes = self._encode(y)
        problems = self._problems()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if previous is not None and (
            len(previous) != len(problems) or previous[0].shape != (X.shape[0],)
        ):
            previous = None

        def solve(p: int) -> Outcome:
            return self._solve_problem(
                X, codes, weight, problems[p], seed, previous and previous[p]
            )

        every, alone = range(len(problems)), effective_n_jobs(self.n_jobs) == 1
        n_tasks = len(problems) if alone else 1
        with FitTasks(self, n_tasks, X=X, y=y, sample_weight=weight) as tasks:
            if alone:
                found = [solve(p) for p in tasks.each(every, "problem")]
            else:
                with tasks.parts("problems"):
                    found = thread_map(solve, every, self.n_jobs, "problems")
        self._store(X, codes, rows, problems, found)
        self._online = None
        if self.method == "dynamic":
            self._continue_online(X, codes, weight, found)
        return self

    def _square_part(self, X: Any, rows: np.ndarray) -> Any:
        if self.n_features_in_ <= rows.max():
            raise ValueError(
                f"kernel='precomputed' needs a square matrix; got {X.shape}."
            )
        return X if X.shape[0] == X.shape[1] else X[:, rows]

    def _solve_problem(self, X, codes, weight, problem, seed, start) -> Outcome:
        """Solve one two-class problem; the dual vector covers all rows of X."""
        chosen, signs = signed_rows(codes, problem)
        f = np.ones(len(chosen)) if weight is None else weight[chosen]
        diag = self._private_squares(f)
        whole = len(chosen) == len(codes)
        options = Options(self.tol, self.max_iter, bool(self.recenter), seed)
        # take copies dense rows in a third of the time that indexing needs.
        part = X if whole else X[chosen] if issparse(X) else X.take(chosen, axis=0)
        begin = None if start is None else start[chosen]
        if self.kernel == "linear":
            outcome = solve_linear_problem(
                part, signs, diag, self.method, self.rho, options, begin
            )
        else:
            precomputed = self.kernel == "precomputed"
            if precomputed and not whole:
                part = part[:, chosen]
            kernel = None if precomputed else self._kernel()
            outcome = solve_kernel_problem(
                part, signs, diag, kernel, self.rho, options, begin
            )
        self._judge(outcome.solution, problem)
        dual = np.zeros(len(codes))
        dual[chosen] = outcome.solution.dual
        return outcome._replace(solution=outcome.solution._replace(dual=dual))

    def _kernel(self) -> Callable[[Any, Any], np.ndarray]:
        return kernel_function(
            self.kernel, self.gamma, self.degree, self.coef0, self.kernel_params
        )

    def _judge(self, found: Solution, problem: tuple[int, int]) -> None:
        """Raise if the classes are proven inseparable, warn if the gap stayed open."""
        if not found.separable:
            raise ValueError(
                f"{self._problem_name(problem)}: no hyperplane separates the classes "
                "(certified: the upper "
                f"bound of the margin is {found.upper:.3g}, their convex hulls meet). "
                "Allow slack with a finite C, for example C=1.0."
            )
        gap = relative_gap(found.margin, found.upper)
        if gap > self.tol:
            hint = ""
            if found.margin <= 0.0 and not np.isfinite(self.C):
                hint = " The classes are not separated yet; a finite C allows slack."
            warnings.warn(
                f"{self._problem_name(problem)}: stopped after {found.n_iter} sweeps "
                f"(max_iter={self.max_iter}) with a certified gap of {gap:.3g}, above "
                f"tol={self.tol}. Raise max_iter or tol, or try method='dual'.{hint}",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _store(self, X, codes, rows, problems, found: list[Outcome]) -> None:
        def scalar(values):
            return values[0] if len(values) == 1 else np.array(values)

        solutions = [outcome.solution for outcome in found]
        self._duals = [s.dual for s in solutions] if self.warm_start else None
        signed = np.zeros((len(found), len(codes)))
        for p, (positive, _) in enumerate(problems):
            signed[p] = solutions[p].dual * np.where(codes == positive, 1.0, -1.0)
        kept = np.flatnonzero((signed != 0).any(axis=0))
        self.support_ = rows[kept]
        self.dual_coef_ = signed[:, kept]
        self.margin_ = scalar([float(o.margin) for o in found])
        self.margin_upper_bound_ = scalar([float(o.upper) for o in found])
        self.directional_margin_ = scalar([float(o.directional) for o in found])
        self.directional_margin_upper_bound_ = scalar(
            [float(o.directional_upper) for o in found]
        )
        self.gap_ = scalar([relative_gap(s.margin, s.upper) for s in solutions])
        self.n_iter_ = max(1, max(s.n_iter for s in solutions))
        self.n_updates_ = scalar([s.n_updates for s in solutions])
        self.rho_ = scalar([o.rho for o in found])
        if self.kernel == "linear":
            self._set_hyperplanes([(s.w, s.bias) for s in solutions])
            self.center_ = np.vstack([o.centre for o in found])
        else:
            self._set_kernel_expansion(X, kept, found)

    def _set_kernel_expansion(self, X, kept, found: list[Outcome]) -> None:
        norms = np.array([outcome.norm for outcome in found])
        self.weight_norm_ = norms
        safe = np.where(norms > 0, norms, 1.0)
        bias = np.array([outcome.solution.bias for outcome in found])
        self._expansion = self.dual_coef_ / safe[:, None]
        self.intercept_ = bias / safe
        if self.kernel != "precomputed":
            self.support_vectors_ = X[kept]

    def _distances(self, X: Any) -> np.ndarray:
        if self.kernel == "linear":
            return super()._distances(X)
        if self.kernel == "precomputed":
            block = X[:, self.support_]
        else:
            block = self._kernel()(X, self.support_vectors_)
        return np.asarray(block @ self._expansion.T + self.intercept_)
