"""Maximum margin hyperplanes that come with a proof of how near they are.

The classifier checks what it is given and brings the samples into one unit (`_field`),
cuts them into problems of two classes (`_problem`), and keeps what
:mod:`~widemargin.hyperplanes.solvers` finds and proves of each.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils.validation import _num_samples

from widemargin._compute.machine import check_n_jobs, thread_map
from widemargin._compute.patterns import DYNAMIC, Rule, Walk
from widemargin._core import shards as blocks
from widemargin._core.arrays import available_if
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import check_option, check_random_state
from widemargin._core.classifier import fit_method
from widemargin._core.duplicates import observation_groups
from widemargin._core.params import (
    Counted,
    Finite,
    Fraction,
    NotNegative,
    Number,
    Positive,
    check_declared,
    parameters,
)
from widemargin._core.samples import Samples
from widemargin._core.temperature import FITTED
from widemargin.hyperplanes import shards
from widemargin.hyperplanes.base import (
    HyperplaneClassifier,
    class_members,
    scalar,
    signed_rows,
    warn_unfinished,
)
from widemargin.hyperplanes.left_out import LeaveOneOut
from widemargin.hyperplanes.patterns import (
    comfortable_unit,
    height_of,
    longest_row,
    near_origin,
    reflect,
    scaled,
)
from widemargin.hyperplanes.problem import (
    Field,
    Options,
    Problem,
    Start,
    private_lengths,
    some_rows,
    squared,
)
from widemargin.hyperplanes.solvers import Result, batches, solve, solve_together
from widemargin.hyperplanes.spaces import (
    Kernel,
    KernelSpace,
    LinearSpace,
    check_semidefinite,
)
from widemargin.hyperplanes.walks import run_sweeps, start_walk
from widemargin.metrics.kernels import scale_gamma

KERNELS = (
    "linear",
    "precomputed",
    *sorted(set(PAIRWISE_KERNEL_FUNCTIONS) - {"linear"}),
)


def _is_online(estimator: Any) -> bool:
    if estimator.method == "dynamic" and estimator.kernel == "linear":
        return True
    raise AttributeError(
        "partial_fit needs method='dynamic' and kernel='linear': the other methods "
        "look at all samples at once."
    )


@parameters
class MaxMarginClassifier(HyperplaneClassifier):
    r"""Hyperplane with the largest margin, hard or soft, with a certificate.

    Finds the hyperplane whose distance to the nearest sample is largest, and an upper
    bound for all hyperplanes. Training stops when the relative gap is below `tol`, so
    the result is certified to be at least ``1 - tol`` of the optimum. For soft margins
    `tol` is relative to the gain over w = 0; see `gap_`. A hard margin (``C=inf``) is
    the geometric one,

    .. math:: \gamma = \max_{w, b} \min_k \frac{l_k (w \cdot x_k + b)}{\lVert w \rVert}.

    A finite `C` allows slack at the price :math:`\sum_k C_k \xi_k^2` beside
    :math:`\tfrac12 \lVert w \rVert^2`. This is the same problem in a larger space.
    Sample k has a coordinate of its own there, of length :math:`1 / \sqrt{2 C_k}`.

    Parameters
    ----------
    method : str, default="auto"
        "auto", "dual", "dynamic", "bisection", "bisection2", "paper-bisection" or
        "paper-bisection2". "dual" solves small problems exactly (active set or Newton),
        others by coordinate descent. "dynamic" is the perceptron with dynamic margin.
        "bisection" searches for the largest margin of a fixed-margin perceptron;
        "bisection2" repeats failed rounds with a relaxed condition. "paper-..." uses
        the paper's step sizes. "auto" is "dual".
    C : float, default=1.0
        Price of slack, > 0; ``inf`` for a hard margin. Multiplied by `sample_weight`
        and `class_weight`.
    intercept_scaling : float or None, default=None
        Value of the constant feature that carries the intercept. With
        ``penalize_intercept=False`` it affects the path of the solver but not the
        result; None is the spread of the data. With ``penalize_intercept=True`` it is
        part of the problem; None is the length of the longest sample.
    penalize_intercept : bool, default=False
        False: `margin_` is the geometric margin. True: maximise the directional margin,
        which adds ``(b / intercept_scaling)**2 / 2`` to the objective.
    kernel : str or callable, default="linear"
        "linear", another name known to
        :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", or a function
        of two samples. All but "linear" need ``method="dual"`` or "auto".
    gamma : "scale" or float, default="scale"
        Parameter of the named kernels. "scale" is one over the sum of the weighted
        variances of the features.
    degree, coef0 : float, default=3, 0.0
        Further parameters of the named kernels.
    kernel_params : dict or None, default=None
        Keyword arguments of a callable kernel.
    multiclass : {"ovo", "ddag", "ovr"}, default="ovo"
        One-vs-one by votes, one-vs-one by a decision DAG, or one-vs-rest. "ovr" is much
        faster for hundreds of classes, and less accurate.
    warm_start : bool, default=False
        Start from the dual solution of the previous fit if it had as many samples.
    class_weight : dict, "balanced" or None, default=None
        Factors on `C` per class.
    tol : float, default=1e-3
        Certified relative gap to stop at, in (0, 1); see `gap_`.
    max_iter : int, default=10000
        Maximum number of sweeps for each two-class problem. Reaching it with a gap
        above `tol` warns.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of the samples.
    n_jobs : int or None, default=None
        Two-class problems solved in parallel.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    coef_ : ndarray of shape (n_problems, n_features)
        Unit normals in the precision of X, linear kernel only.
    intercept_ : ndarray of shape (n_problems,)
        Offsets, in double precision: ``X @ coef_.T + intercept_`` are signed distances.
    weight_norm_ : ndarray of shape (n_problems,)
        Length of the normal at functional margin one.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        Signed dual coefficients of the support vectors at functional margin one. Signed
        distances are ``K @ dual_coef_.T / weight_norm_ + intercept_``. The averages of
        the two classes under them bound the margin.
    support_ : ndarray of shape (n_support,)
        Row numbers of the supports.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        The supports, kernels other than "linear" and "precomputed" only.
    gamma_ : float
        The gamma used, kernels other than "linear" and "precomputed" only.
    margin_ : float or ndarray of shape (n_problems,)
        Margin that the stored plane reaches, never more than the truth whatever the
        rounding; an array if there is more than one problem. With a finite `C` it is
        that of the space with one more coordinate per sample, :math:`1 / \sqrt{2 P}`
        for the primal objective P.
    margin_upper_bound_ : float or ndarray of shape (n_problems,)
        Proven upper bound of the margin of any hyperplane, rounding included: half the
        distance of the averages named by `dual_coef_`. ``inf`` if no dual solution was
        found.
    directional_margin_, directional_margin_upper_bound_ : float or ndarray
        The same for the vector [w, w0] at height `intercept_scaling_` around `center_`.
        With ``penalize_intercept=False`` the centre lies on the hyperplane, and they
        agree.
    gap_ : float or ndarray of shape (n_problems,)
        Relative gap. Hard margin: ``(upper - margin) / upper``. Soft margin: ``(upper -
        margin) / (upper - m0)``, with m0 the soft margin of w = 0. It is directional
        with ``penalize_intercept=True``.
    intercept_scaling_ : float or ndarray of shape (n_problems,)
        Height that the directional margin refers to.
    center_ : ndarray of shape (n_problems, n_features)
        Centre that it refers to, linear kernel only.
    temperature_ : float
        Softmax temperature of ``predict_proba``, fitted when it is first asked for, to
        at most 2000 training samples, each left out. After ``partial_fit`` it is fitted
        to the latest 2000, each predicted before it was learned.
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
    Margins of samples are distances in the units of X, or of the kernel's space. Both
    certificates are computed again from the stored model. All rounding errors are on
    the safe side, also those of the values of a named kernel. Values of a kernel
    function are taken to be right to a few units of the largest, those of a precomputed
    matrix to be exact. The error "no hyperplane separates the classes" has a proof in
    integers, or by a perturbation argument. Without a proof the error says that it is
    not decided. Indefinite kernels are refused: there is no space in which they have a
    margin. ``predict_proba`` leaves samples out in closed form, by the span rule of
    Chapelle and others. It is exact as long as the same others support the plane. With
    a kernel, or with more than 100 features, about 250 of each class are.

    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

    References
    ----------
    P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, 2005.

    O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple parameters for
    support vector machines, Machine Learning 46, 2002.

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

    lazy_methods: ClassVar = ("fit",)

    method: Literal[
        "auto",
        "dual",
        "dynamic",
        "bisection",
        "bisection2",
        "paper-bisection",
        "paper-bisection2",
    ] = "auto"
    _: KW_ONLY
    C: Annotated[float, Number(above=0, infinite=True)] = 1.0
    intercept_scaling: Positive | None = None
    penalize_intercept: bool = False
    kernel: str | Callable = "linear"
    gamma: Positive | Literal["scale"] = "scale"
    degree: NotNegative = 3
    coef0: Finite = 0.0
    kernel_params: dict | None = None
    multiclass: Literal["ovo", "ddag", "ovr"] = "ovo"
    warm_start: bool = False
    class_weight: dict | Literal["balanced"] | None = None
    tol: Fraction = 1e-3
    max_iter: Counted = 10_000
    random_state: Any = None
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        """Say that a precomputed kernel is pairwise input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _check_parameters(self) -> None:
        check_declared(self)
        if not callable(self.kernel):
            check_option("kernel", self.kernel, KERNELS)
        check_n_jobs(self.n_jobs)
        if self.kernel != "linear" and self.method not in ("auto", "dual"):
            raise ValueError(
                f"kernel={self.kernel!r} needs method='dual' or 'auto'; got "
                f"method={self.method!r}."
            )
        if self.kernel_params is not None and not (
            isinstance(self.kernel_params, Mapping)
            and all(isinstance(name, str) for name in self.kernel_params)
        ):
            raise ValueError(
                "kernel_params must be None or a dict {name: value}; got "
                f"{self.kernel_params!r}."
            )
        if self.kernel_params is not None and not callable(self.kernel):
            raise ValueError(
                "kernel_params are for a callable kernel; named kernels take gamma, "
                "degree and coef0."
            )

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the hyperplanes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training samples, or their Gram matrix if ``kernel="precomputed"``. Of a
            Dask collection supports come together and all others stay where they are;
            the certificate is that of all samples.
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
        samples, dtype = self._check_samples(X, y, sample_weight)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        field = self._field(samples, _num_samples(y), seed)
        leave = self._leave_out(samples, few=self.kernel != "linear")
        pairs = self._set_classes(samples.classes, samples.X)
        if self.kernel != "linear":
            self._unit = 1.0
        begin: list[Start | None] = [None] * len(pairs)
        previous = getattr(self, "_starts", None) if self.warm_start else None
        if previous is not None and len(previous) == len(pairs):
            fits = previous[0].n_samples == len(samples)
            begin = previous if fits else begin
        members = class_members(samples.codes, len(samples.classes))

        def problem_of(p: int) -> Problem:
            return self._problem(field, samples, pairs[p], seed, begin[p], members)

        def solve_group(group: NDArray) -> list[Result]:
            problems = [problem_of(p) for p in group.tolist()]
            return solve_together(problems, dtype, leave)

        counts = np.array([*map(len, members), np.inf])
        groups = batches(counts[np.array(pairs)].sum(axis=1), problem_of(0))
        n_tasks = len(groups) if effective_n_jobs(self.n_jobs) == 1 else 1
        with FitTasks(self, n_tasks, X=samples.X, y=samples.labels) as tasks:
            if effective_n_jobs(self.n_jobs) == 1:
                parts = list(map(solve_group, tasks.each(groups, "problem")))
            else:
                with tasks.parts("problems"):
                    parts = thread_map(solve_group, groups, self.n_jobs, "problems")
        order = np.argsort(np.concatenate(groups))
        each = [one for part in parts for one in part]
        found = [each[k] for k in order.tolist()]
        shifts = [(one.support, one.shifts) for one in found]
        self._finish(samples, pairs, found, field, dtype)
        self._calibrate_without(samples, shifts, leave)
        return self

    @fit_method
    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the hyperplanes of a Dask collection, see `hyperplanes.shards`."""
        self._check_parameters()
        asked = {
            "method": (self.method in ("auto", "dual"), "'dual' or 'auto'"),
            "kernel": (self.kernel == "linear", "'linear'"),
            "penalize_intercept": (not self.penalize_intercept, "False"),
            "warm_start": (not self.warm_start, "False"),
        }
        for name, (fits, instead) in asked.items():
            if not fits:
                raise ValueError(
                    f"{name} must be {instead} where X is a Dask collection; got "
                    f"{getattr(self, name)!r}."
                )
        given = blocks.check_shards(self, X, y, sample_weight)
        pairs = self._set_classes(given.classes, given.limits)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        few = shards.gathered(given, self, pairs, seed)
        # The samples gathered are the hard ones; all count for probabilities.
        typical = shards.doubled(given.subsample(FITTED))
        with FitTasks(self, 1, X=few.X, y=few.labels) as tasks, tasks.whole("rounds"):
            few, found = self._rounds(given, few, typical.rows, pairs, seed)
        samples, dtype = shards.doubled(few), given.limits.dtype
        field = self._field(samples, len(samples), seed)
        _, here, there = np.intersect1d(few.rows, typical.rows, return_indices=True)
        place = np.full(len(few), -1)
        place[here] = there
        shifts = [
            (place[one.support], one.shifts * (place[one.support] >= 0))
            for one in found
        ]
        self._finish(samples, pairs, found, field, dtype)
        leave = None
        if not self._left_out_parts(typical):
            leave = LeaveOneOut(np.ones(len(typical), bool))
        self._calibrate_without(typical, shifts, leave)
        return self

    def _rounds(
        self,
        given: blocks.SampleShards,
        few: Samples,
        asked: NDArray,
        pairs: list,
        seed: int,
    ) -> tuple[Samples, list[Result]]:
        """Solve for some samples and ask all shards, until none has a worse one.

        `asked` are numbers of the samples that are left out for probabilities.
        """
        unit, dtype = comfortable_unit(given.limits), given.limits.dtype
        hard, found = not math.isfinite(self.C), dict[int, Result]()
        left, price = list(range(len(pairs))), float(self.C)
        nones = shards.no_planes(given, pairs, price, unit)
        for sweep in range(1, self.max_iter + 1):
            samples = shards.doubled(few)
            groups = observation_groups(few.X, few.codes)
            leave = LeaveOneOut(np.isin(few.rows, asked), groups)
            field = self._field(samples, len(samples), seed)
            planes = []
            for p in left:
                problem = self._problem(field, samples, pairs[p], seed)
                one = solve(problem, dtype, leave)
                certificate = replace(one.certificate, none=nones[p].margin)
                sweeps = max(one.n_iter, sweep)
                found[p] = replace(one, certificate=certificate, n_iter=sweeps)
                upper = one.certificate.geometric.upper
                wanted = upper * (1 - self.tol / 4) if hard else None
                planes.append(
                    shards.StoredPlane(pairs[p], *one.plane, wanted, nones[p])
                )
            if any(found[p].certificate.why == "inseparable" for p in left):
                break
            planes, margins, joining = shards.ask_all(
                given, planes, few.rows, unit, price
            )
            for p, plane, margin in zip(left, planes, margins, strict=True):
                found[p] = found[p].among_all(plane.intercept, margin)
            left = [p for p in left if not found[p].certificate.gap <= self.tol]
            if not left or not joining:
                break
            few = blocks.joined([few, *joining])
        return few, [one for _, one in sorted(found.items())]

    def _field(self, samples: Samples, n_given: int, seed: int) -> Field:
        """Bring the samples to where the arithmetic is good; remember the kernel."""
        X, weights = samples.X, samples.weights
        if math.isfinite(self.C):
            prices = float(self.C) * weights
            if not (np.isfinite(prices).all() and (prices > 1e-300).all()):
                raise ValueError(
                    "C times sample_weight (and class_weight) must be a number between "
                    f"1e-300 and 1e308; got C={self.C!r} and weights from "
                    f"{weights.min():.3g} to {weights.max():.3g}."
                )
        self._kernel_state: dict[str, Any] = {"kernel": self.kernel}
        if self.kernel == "linear":
            unit = comfortable_unit(X)
            X = scaled(X, unit)
            near, offset = near_origin(X) if not self.penalize_intercept else (X, None)
            private = self._private(weights, unit)
            return Field(X, private, unit, near, offset, LinearSpace(X).longest)
        if self.kernel == "precomputed":
            if self.n_features_in_ != n_given:
                raise ValueError(
                    "X: kernel='precomputed' needs a square matrix of all pairs; got "
                    f"shape {(n_given, self.n_features_in_)}."
                )
            X = X if X.shape[0] == X.shape[1] else X[:, samples.rows]
        else:
            self.gamma_ = self._gamma_of(X, weights)
            self._kernel_state |= {
                "gamma": self.gamma_,
                "degree": self.degree,
                "coef0": self.coef0,
                "params": self.kernel_params,
            }
        polynomial = self.kernel in ("poly", "polynomial")
        if not (polynomial and self.coef0 >= 0 and float(self.degree).is_integer()):
            check_semidefinite(KernelSpace(X, self._kernel()), self.kernel, seed)
        private = self._private(weights, 1.0)
        return Field(X, private, kernel=self._kernel(), is_linear=False)

    def _problem(
        self,
        field: Field,
        samples: Samples,
        pair: tuple[int, int],
        seed: int,
        begin: Start | None = None,
        members: list[NDArray] | None = None,
    ) -> Problem:
        """Say what is solved for two classes, or for one against the rest."""
        rows, signs = signed_rows(samples.codes, pair, members)
        rho = None
        if not field.is_linear:
            if self.penalize_intercept:
                rho = height_of(self.intercept_scaling or 1.0, field.X, 1.0)
        elif self.intercept_scaling is not None or self.penalize_intercept:
            rho = height_of(
                self.intercept_scaling, some_rows(field.X, rows), field.unit
            )
        options = Options(self.tol, self.max_iter, not self.penalize_intercept, seed)
        return Problem(field, rows, signs, rho, options, self.method, begin)

    def _gamma_of(self, X: Any, weights: NDArray) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        return scale_gamma(X, weights)

    def _kernel(self) -> Kernel | None:
        state = self._kernel_state
        return Kernel(**state) if len(state) > 1 else None

    def _private(self, weights: NDArray, unit: float) -> NDArray | None:
        """Lengths of the private coordinates of a soft margin, in units of scaled X."""
        if not math.isfinite(self.C):
            return None
        return private_lengths(float(self.C) * weights, unit)

    @property
    def _many(self) -> float:  # type: ignore[override]
        # Soft margins of a sample for each feature are too unsure in closed form, by
        # .05; hard ones are dear to fit again.
        soft = math.isfinite(float(self.C)) and self.kernel == "linear"
        return 2.0 if soft else 1.0

    def _private_squares(self, weights: NDArray, unit: float) -> Any:
        private = self._private(weights, unit)
        return None if private is None else squared(private)

    def _judge(self, found: Result, pair: tuple[int, int]) -> str:
        """Raise if there is no plane; what there is to say if the gap stayed open."""
        certificate = found.certificate
        gap, why = certificate.gap, certificate.why
        if gap <= self.tol and not why:
            return ""
        name = self._problem_name(self.classes_, pair)
        if why == "inseparable":
            raise ValueError(
                f"{name}: no hyperplane separates the classes (proven: a combination "
                "of samples lies in both convex hulls, so that the upper bound of the "
                "margin is 0). Allow slack with a finite C, for example C=1.0."
            )
        reached, upper = certificate.asked
        if why == "undecided":
            raise ValueError(
                f"{name}: no hyperplane was found that separates the classes, and none "
                f"can have a margin above {upper:.3g}; whether there is one is not "
                "decided at this precision. Allow slack with a finite C, for example "
                "C=1.0, or scale the features to similar sizes."
            )
        hint = " Raise max_iter or tol, or try method='dual'."
        if self.method in ("auto", "dual") and found.n_iter < self.max_iter:
            hint = (
                " Rounding leaves it open: raise tol, or bring the features to similar "
                "sizes around zero, for instance by StandardScaler."
            )
        if reached <= 0.0 and not math.isfinite(self.C):
            hint += " The classes are not separated yet; a finite C allows slack."
        return (
            f"{name}: stopped after {found.n_iter} sweeps "
            f"(max_iter={self.max_iter}) with a certified gap of {gap:.3g}, above "
            f"tol={self.tol}.{hint}"
        )

    def _finish(self, samples, pairs, found, field, dtype) -> None:
        """Refuse what has no plane, keep the others, and say whose gap is open."""
        judged = zip(found, pairs, strict=True)
        unfinished = [self._judge(result, pair) for result, pair in judged]
        self._store(samples, pairs, found, field, dtype)
        self._online = None
        if self.method == "dynamic":
            self._continue_online(samples, field, pairs, found, dtype)
        warn_unfinished(unfinished)

    def _store(self, samples, pairs, found: list[Result], field, dtype) -> None:
        self._starts = None
        if self.warm_start:
            self._starts = [
                Start(f.support, f.start, len(samples), *f.plane) for f in found
            ]
        kept = self._keep_duals(samples, pairs, [(f.support, f.dual) for f in found])
        geometric = [f.certificate.geometric for f in found]
        directional = [f.certificate.directional for f in found]
        self.margin_ = scalar([one.lower for one in geometric])
        self.margin_upper_bound_ = scalar([one.upper for one in geometric])
        self.directional_margin_ = scalar([one.lower for one in directional])
        uppers = [one.upper for one in directional]
        self.directional_margin_upper_bound_ = scalar(uppers)
        self.gap_ = scalar([f.certificate.gap for f in found])
        self.n_iter_ = max(1, max(f.n_iter for f in found))
        self.n_updates_ = scalar([f.n_updates for f in found])
        self.intercept_scaling_ = scalar([f.rho for f in found])
        self.intercept_ = np.array([f.plane.intercept for f in found])
        self.weight_norm_ = np.array([f.plane.norm for f in found])
        if self.kernel == "linear":
            self.coef_ = np.vstack([f.plane.coef for f in found]).astype(dtype)
            coef = self.coef_.astype(np.float64)
            on_plane = (not self.penalize_intercept) * -self.intercept_[:, None]
            self.center_ = on_plane * coef
        elif self.kernel != "precomputed":
            self.support_vectors_ = samples.X[kept].astype(dtype)

        def products() -> NDArray:
            if self.kernel == "linear":
                return coef @ coef.T
            gram = KernelSpace(field.X, field.kernel).gram(kept)
            norms = np.where(self.weight_norm_ > 0, self.weight_norm_, 1.0)
            units = self.dual_coef_ / norms[:, None]
            return units @ gram @ units.T

        self._set_borders(products)

    def _distances(self, X: Any) -> NDArray:
        kernel = self._kernel_state["kernel"]
        if kernel == "linear":
            return super()._distances(X)
        X = X.astype(np.float64, copy=False)
        evaluate = self._kernel()
        if evaluate is None or not len(self.support_):
            block = X[:, self.support_]
        else:
            block = evaluate(X, self.support_vectors_.astype(np.float64))
        there = self.weight_norm_ > 0
        units = np.where(there, 1.0, 0.0) / np.where(there, self.weight_norm_, 1.0)
        return np.asarray(block @ self.dual_coef_.T * units + self.intercept_)

    def _continue_online(self, samples, field: Field, pairs, found, dtype) -> None:
        """Let `partial_fit` go on from the combination of patterns found."""
        rho = height_of(self.intercept_scaling, field.X, field.unit)
        walks: list[Walk | None] = []
        for pair, result in zip(pairs, found, strict=True):
            rows, signs = signed_rows(samples.codes, pair)
            diag = self._private_squares(samples.weights[rows], field.unit)
            patterns = reflect(some_rows(field.X, rows), signs, rho=rho, diag=diag)
            start = np.zeros(len(samples))
            start[result.support] = result.start
            walk = start_walk(patterns, start[rows])
            walks.append(walk.without_patterns(patterns.diag))
        self._longest = float(np.hypot(longest_row(field.X), rho))
        self._go_online(walks, rho, field.unit, dtype)

    def _sweep(self, patterns, walk, weights, budget, seed, unit) -> int:
        return run_sweeps(patterns, walk, Rule(DYNAMIC, eps=self.tol), budget, seed)

    @available_if(_is_online)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Any:
        """Sweep once over a batch with the dynamic-margin rule.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Batch.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels there will ever be; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of `C`.

        Returns
        -------
        self : object
            The classifier after this batch; `margin_upper_bound_` bounds the
            directional margin of everything seen so far.
        """
        self._check_parameters()
        self._kernel_state = {"kernel": "linear"}
        return self._partial_fit(X, y, classes, sample_weight)
