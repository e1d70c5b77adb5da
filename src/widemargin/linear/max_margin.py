"""Maximum margin hyperplanes that come with a proof of how near they are.

=========  ==========================================  ================================
margin     few unknowns                                many
=========  ==========================================  ================================
hard       :mod:`~widemargin.linear.active_set`        :mod:`~widemargin.linear.descent`
soft       :mod:`~widemargin.linear.newton`            :mod:`~widemargin.linear.descent`
=========  ==========================================  ================================

A hard margin has at most d + 1 supports in general position, so few features mean few
unknowns. Newton pays for a d x d system, which sparse rows fill more cheaply. Kernels
are solved in the dual variables by the two engines of the first column. Whatever the
engine, :mod:`~widemargin.linear.certificate` has the last word.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils.validation import _num_samples

from widemargin._compute.machine import check_n_jobs, thread_map
from widemargin._compute.patterns import DYNAMIC, Rule
from widemargin._core.arrays import available_if
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    check_count,
    check_flag,
    check_gamma,
    check_number,
    check_option,
    check_random_state,
)
from widemargin._core.classifier import fit_method
from widemargin._core.left_out import observations
from widemargin._core.params import parameters
from widemargin._core.samples import Samples
from widemargin._core.shards import SampleShards, check_shards, joined
from widemargin._core.temperature import FITTED
from widemargin.linear import shards, small_pairs
from widemargin.linear.active_set import is_compiled, solve_active_set, solve_rows
from widemargin.linear.base import (
    SCHEMES,
    HyperplaneClassifier,
    check_size,
    class_members,
    scalar,
    signed_rows,
    some_rows,
    unit_hyperplane,
    warn_unfinished,
)
from widemargin.linear.certificate import (
    Options,
    Solution,
    is_proven_inseparable,
    midpoint_bias,
    no_plane,
    plane_margin,
    private_lengths,
    relative_gap,
    safe_norm,
    scaled_dual,
    slack_paid,
    soft_margin,
    upper_bound,
)
from widemargin.linear.descent import proven, solve_descent
from widemargin.linear.left_out import (
    Left,
    Plane,
    own_margins,
    walk_private,
)
from widemargin.linear.newton import solve_newton
from widemargin.linear.patterns import (
    comfortable_exponent,
    height_of,
    longest_row,
    midpoint_of_means,
    near_origin,
    reflect,
    scaled,
    spread_around,
)
from widemargin.linear.spaces import (
    SHARP,
    SMALL,
    Kernel,
    KernelSpace,
    LinearSpace,
    check_semidefinite,
    rounding,
)
from widemargin.linear.walks import Walk, learn, solve_by_search, start_walk
from widemargin.metrics.kernels import scale_gamma

SEARCHES = ("dynamic", "bisection", "bisection2", "paper-bisection", "paper-bisection2")
METHODS = ("auto", "dual", *SEARCHES)
KERNELS = (
    "linear",
    "precomputed",
    *sorted(set(PAIRWISE_KERNEL_FUNCTIONS) - {"linear"}),
)
_FEW_FEATURES = 1000
_FEW_SPARSE_FEATURES = 2000
# Squared private coordinates of samples of size one, below which slack does not pay.
_ALMOST_HARD = 1e-24


class _Data(NamedTuple):
    """The samples of a fit as the solvers see them.

    `X` is scaled by ``2**-exponent``; `moved` is X, less `offset` where that is far
    from zero. With a kernel all three are the samples as they are. No row of X is
    longer than `longest`. Where probabilities are wanted, `left` says who is left out.
    `members` are the rows of each class. A `plain` problem is that of a hard margin of
    dense X as they are.
    """

    X: Any
    moved: Any
    offset: NDArray | None
    exponent: int
    codes: NDArray
    weights: NDArray
    longest: float | None = None
    left: Left | None = None
    members: list[NDArray] | None = None
    plain: bool = False


class _Certified(NamedTuple):
    """A plane as it is stored, and what is proven about it, in the units of X.

    `margin` and `upper` are geometric, `directional` and `directional_upper` belong to
    the height `rho`; with a soft margin, or a free bias, the pairs are equal. `none` is
    what a soft margin is without a plane, `own` what samples add to their own
    functional margins, before that the plane to ask. `rows` are the samples that
    `dual`, `start` and `own` are about.
    """

    coef: Any
    intercept: float
    norm: float
    dual: NDArray
    margin: float
    upper: float
    directional: float
    directional_upper: float
    rho: float
    start: NDArray
    n_iter: int
    n_updates: int
    verdict: str
    none: float = 0.0
    own: Any = None
    rows: Any = None


class _Start(NamedTuple):
    """What a fit leaves to the next: the dual vector, and the plane in units of X."""

    rows: NDArray
    dual: NDArray
    n_samples: int
    coef: NDArray | None
    intercept: float
    norm: float

    def dual_of(self, chosen: NDArray) -> NDArray:
        """Return the dual vector of the chosen samples."""
        whole = np.zeros(self.n_samples)
        whole[self.rows] = self.dual
        return whole[chosen]

    def plane(self, data: _Data) -> tuple[NDArray, float] | None:
        """Weights and bias at functional margin one, as the solvers see samples."""
        if self.coef is None or len(self.coef) != data.X.shape[1]:
            return None
        norm, bias = np.ldexp(
            [self.norm, self.intercept], [data.exponent, -data.exponent]
        )
        if data.offset is not None:
            bias = bias + data.offset @ self.coef
        return norm * self.coef, float(norm * bias)


def few_unknowns(X: Any) -> bool:
    """Whether the exact engines are the faster ones."""
    limit = _FEW_SPARSE_FEATURES if sp.issparse(X) else _FEW_FEATURES
    return min(X.shape) <= limit


def solve_dual(
    X: Any,
    signs: NDArray,
    diag: NDArray | None,
    rho: float | None,
    options: Options,
    start: NDArray | None = None,
) -> Solution:
    """Largest margin of a linear problem; `rho` None for a free bias."""
    d = X.shape[1]
    limit = _FEW_SPARSE_FEATURES if sp.issparse(X) else _FEW_FEATURES
    if diag is None and few_unknowns(X):
        return solve_active_set(LinearSpace(X), signs, rho, options, start)
    if diag is not None and d <= limit:
        return solve_newton(LinearSpace(X), signs, diag, rho, options, start)
    centre = midpoint_of_means(X, signs) if rho is None else np.zeros(d)
    height = spread_around(X, centre) if rho is None else rho
    patterns = reflect(X, signs, rho=height, centre=centre, diag=diag)
    return solve_descent(patterns, options, start)


def _certified(
    data: _Data,
    chosen: NDArray,
    signs: NDArray,
    found: Solution,
    rows: NDArray,
    alpha: NDArray,
    dtype: Any,
) -> _Certified | None:
    """Certify the solution of a plain problem; None where doubles are not enough."""
    from widemargin._compute.planes import certified
    from widemargin._compute.spans import FEW

    single = np.dtype(dtype) == np.float32
    sure, coef, bias, norm, margin, upper, some_dual, some_own = certified(
        data.X, chosen, signs, found.coef, rows, alpha, data.longest, SMALL, single
    )
    if not sure:
        return None
    dual, start, own = np.zeros((3, len(chosen)))
    dual[rows], start[rows] = some_dual, alpha
    if data.left is not None and data.left.groups is None and len(rows) <= FEW:
        own[rows] = some_own * data.left.asked[chosen[rows]]
    elif data.left is not None:
        space = LinearSpace(some_rows(data.X, chosen))
        plane = Plane(space, dual, None, None)
        own = own_margins(plane, data.left.take(chosen))
    return _Certified(
        coef, bias, norm, dual, margin, upper, margin, upper, 1.0, start, found.n_iter,
        found.n_updates, "", 0.0, own, chosen,
    )  # fmt: skip


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
    bound of what any hyperplane could reach. Training stops when the two are within
    `tol` of each other, so that the result is known to be at least ``1 - tol`` of the
    optimum; of a soft margin, of what a plane can add to slack alone, whatever the unit
    of X. A hard margin (``C=inf``) is the geometric one,

    .. math:: \gamma = \max_{w, b} \min_k \frac{l_k (w \cdot x_k + b)}{\lVert w \rVert}.

    A finite `C` allows slack at the price :math:`\sum_k C_k \xi_k^2` beside
    :math:`\tfrac12 \lVert w \rVert^2`: the same problem in a space where sample k owns
    a coordinate of length :math:`1 / \sqrt{2 C_k}`.

    Parameters
    ----------
    method : str, default="auto"
        "auto", "dual", "dynamic", "bisection", "bisection2", "paper-bisection" or
        "paper-bisection2". "dual" solves the dual exactly (active set or Newton) where
        the unknowns are few, and by coordinate descent otherwise. "dynamic" is the
        perceptron with dynamic margin. "bisection" asks a fixed-margin perceptron for
        margins between the best one found and the smallest bound; "bisection2" gives a
        round without success a second chance with a relaxed condition; both with the
        steps of the paper to the letter after "paper-". "auto" is "dual".
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
    gamma : "scale" or float, default="scale"
        Parameter of the named kernels; "scale" is one over the sum of the weighted
        variances of the features, as in ``SVC`` where these share a mean.
    degree, coef0 : float, default=3, 0.0
        Further parameters of the named kernels.
    kernel_params : dict or None, default=None
        Keyword arguments of a callable kernel.
    multiclass : {"ovo", "ddag", "ovr"}, default="ovo"
        One-vs-one by votes, one-vs-one along a decision DAG, or one-vs-rest by
        functional scores. Hundreds of classes have thousands of pairs: "ovr" is many
        times as fast there, if not as right.
    warm_start : bool, default=False
        Begin from the dual vector of the previous fit if it had as many samples. Where
        that proves the previous plane good enough, nothing is left to do.
    class_weight : dict, "balanced" or None, default=None
        Factors of `C` per class.
    tol : float, default=1e-3
        Certified relative gap to stop at, 0 < tol < 1; see `gap_`.
    max_iter : int, default=10000
        Most sweeps over the training set per two-class problem; reaching it with the
        gap still above `tol` warns.
    random_state : int, RandomState instance or None, default=None
        Order of the samples.
    n_jobs : int or None, default=None
        Two-class problems solved at the same time.

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
        Signed dual coefficients of the supports at functional margin one: with a kernel
        ``K @ dual_coef_.T / weight_norm_ + intercept_`` are signed distances, and with
        any the averages of the two classes under them bound the margin.
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
        No hyperplane has a larger margin, whatever the rounding: half the distance of
        the averages named by `dual_coef_`; infinite where it names none yet, of a
        search that `max_iter` or `tol` ended at its start.
    directional_margin_, directional_margin_upper_bound_ : float or ndarray
        The same for the vector [w, w0] at height `rho_` around `center_`. With
        ``recenter=True`` the centre lies on the hyperplane, and they agree.
    gap_ : float or ndarray of shape (n_problems,)
        What could still be gained, relatively: upper bound less margin (geometric, or
        directional with ``recenter=False``) over the upper bound. With a finite `C`
        over what the bound leaves above the margin of no plane at all, w = 0 with its
        best bias, which slack alone has; classes of one mean have nothing above it.
    rho_ : float or ndarray of shape (n_problems,)
        Height that the directional margin refers to.
    center_ : ndarray of shape (n_problems, n_features)
        Centre that it refers to, linear kernel only.
    temperature_ : float
        Of ``predict_proba``, in the units of margins: fitted to at most 2000 training
        samples, each left out of the planes that it helped make; of batches to the
        latest 2000, each as it was before it was learned.
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
    certificates are computed again from what is stored, with the error of the
    arithmetic on the safe side, that of each value of a named kernel included; values
    of a function are taken to be right to a few units of the largest, those of a
    precomputed matrix as they are.
    That no hyperplane separates the classes is said only with a proof in integers, or
    by a perturbation argument; otherwise the error says that it is not decided.
    Indefinite kernels are refused: there is no space in which they have a margin.
    A sample is left out for ``predict_proba`` by the span rule of Chapelle and others,
    in closed form, exact as long as the same others support the plane. With a kernel,
    or with more than 100 features, about 250 of each class are.

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
    C: float = 1.0
    rho: float | None = None
    recenter: bool = True
    kernel: str | Callable = "linear"
    gamma: Literal["scale"] | float = "scale"
    degree: float = 3
    coef0: float = 0.0
    kernel_params: dict | None = None
    multiclass: Literal["ovo", "ddag", "ovr"] = "ovo"
    warm_start: bool = False
    class_weight: dict | Literal["balanced"] | None = None
    tol: float = 1e-3
    max_iter: int = 10_000
    random_state: Any = None
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        """Say that a precomputed kernel is pairwise input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _check_parameters(self) -> None:
        check_option("method", self.method, METHODS)
        check_option("multiclass", self.multiclass, SCHEMES)
        check_number("C", self.C, above=0, infinite=True)
        check_number("tol", self.tol, above=0, below=1)
        check_count("max_iter", self.max_iter)
        check_flag("recenter", self.recenter)
        check_flag("warm_start", self.warm_start)
        if self.rho is not None:
            check_number("rho", self.rho, above=0, otherwise="None or ")
        if not callable(self.kernel):
            check_option("kernel", self.kernel, KERNELS)
        check_gamma(self.gamma)
        check_number("degree", self.degree, at_least=0)
        check_number("coef0", self.coef0)
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
        previous = getattr(self, "_duals", None) if self.warm_start else None
        samples, dtype = self._check_samples(X, y, sample_weight)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        left = self._left_out(samples, few=self.kernel != "linear")
        data = self._prepare(samples, _num_samples(y), seed)._replace(left=left)
        problems = self._set_classes(samples.classes, samples.X)
        if self.kernel != "linear":
            self._unit = 1.0
        if previous is not None and (
            len(previous) != len(problems) or previous[0].n_samples != len(samples)
        ):
            previous = None

        def solve(group: NDArray) -> list[_Certified]:
            together: list[_Certified | None] = [None]
            if len(group) > 1:
                together = self._solve_together(data, group, problems, dtype, seed)
            begin = previous or [None] * len(problems)
            return [
                one or self._solve_problem(data, problems[p], dtype, seed, begin[p])
                for p, one in zip(group.tolist(), together, strict=True)
            ]

        groups = self._groups(data, problems, previous)
        n_tasks = len(groups) if effective_n_jobs(self.n_jobs) == 1 else 1
        with FitTasks(self, n_tasks, X=samples.X, y=samples.labels) as tasks:
            if effective_n_jobs(self.n_jobs) == 1:
                parts = [solve(group) for group in tasks.each(groups, "problem")]
            else:
                with tasks.parts("problems"):
                    parts = thread_map(solve, groups, self.n_jobs, "problems")
        order = np.argsort(np.concatenate(groups))
        each = [one for part in parts for one in part]
        found = [each[k] for k in order.tolist()]
        own = [(one.rows, one.own) for one in found]
        calibrating = samples, problems, own, left
        return self._finish(samples, problems, found, data, dtype, calibrating)

    @fit_method
    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the hyperplanes of a Dask collection, see `widemargin.linear.shards`."""
        self._check_parameters()
        asked = {
            "method": (self.method in ("auto", "dual"), "'dual' or 'auto'"),
            "kernel": (self.kernel == "linear", "'linear'"),
            "recenter": (bool(self.recenter), "True"),
            "warm_start": (not self.warm_start, "False"),
        }
        for name, (fits, instead) in asked.items():
            if not fits:
                raise ValueError(
                    f"{name} must be {instead} where X is a Dask collection; got "
                    f"{getattr(self, name)!r}."
                )
        given = check_shards(self, X, y, sample_weight)
        check_size(given.limits, small=True)
        problems = self._set_classes(given.classes, given.limits)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        few = shards.gathered(given, self, problems, seed)
        # The samples gathered are the hard ones; all count for probabilities.
        typical = shards.doubled(given.some(FITTED))
        with FitTasks(self, 1, X=few.X, y=few.labels) as tasks, tasks.whole("rounds"):
            few, found = self._rounds(given, few, typical.rows, problems, seed)
        samples, dtype = shards.doubled(few), given.limits.dtype
        data = self._prepare(samples, len(samples), seed)
        _, here, there = np.intersect1d(few.rows, typical.rows, return_indices=True)
        place = np.full(len(few), -1)
        place[here] = there
        own = [(place[one.rows], one.own * (place[one.rows] >= 0)) for one in found]
        calibrating = typical, problems, own, Left(np.ones(len(typical), bool))
        return self._finish(samples, problems, found, data, dtype, calibrating)

    def _rounds(
        self,
        given: SampleShards,
        few: Samples,
        asked: NDArray,
        problems: list,
        seed: int,
    ) -> tuple[Samples, list[_Certified]]:
        """Solve for some samples and ask all shards, until none has a worse one.

        `asked` are numbers of the samples that are left out for probabilities.
        """
        exponent, dtype = comfortable_exponent(given.limits), given.limits.dtype
        hard, found = not math.isfinite(self.C), dict[int, _Certified]()
        left, price = list(range(len(problems))), float(self.C)
        nones = shards.no_planes(given, problems, price, exponent)
        for sweep in range(1, self.max_iter + 1):
            samples = shards.doubled(few)
            leaving = Left(np.isin(few.rows, asked), observations(few.X, few.codes))
            data = self._prepare(samples, len(samples), seed)._replace(left=leaving)
            planes = []
            for p in left:
                one = self._solve_problem(data, problems[p], dtype, seed, None)
                sweeps = max(one.n_iter, sweep)
                found[p] = one._replace(none=nones[p].margin, n_iter=sweeps)
                wanted = one.upper * (1 - self.tol / 4) if hard else None
                stored = one.coef, one.intercept, one.norm, wanted, nones[p]
                planes.append(shards.StoredPlane(problems[p], *stored))
            if any(found[p].verdict == "inseparable" for p in left):
                break
            planes, margins, joining = shards.ask_all(
                given, planes, few.rows, exponent, price
            )
            for p, plane, margin in zip(left, planes, margins, strict=True):
                found[p] = found[p]._replace(
                    intercept=plane.intercept, margin=margin, directional=margin
                )
            left = [p for p in left if not self._gap(found[p]) <= self.tol]
            if not left or not joining:
                break
            few = joined([few, *joining])
        return few, [one for _, one in sorted(found.items())]

    def _prepare(self, samples: Any, n_given: int, seed: int) -> _Data:
        """Bring the samples to where the arithmetic is good; remember the kernel."""
        X, codes, weights = samples.X, samples.codes, samples.weights
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
            exponent = comfortable_exponent(X)
            X = scaled(X, exponent)
            moved, offset = near_origin(X) if self.recenter else (X, None)
            longest = LinearSpace(X).longest
            members = class_members(codes, len(samples.classes))
            hard = not math.isfinite(self.C)
            plain = hard and self.recenter and self.rho is None and exponent == 0
            plain = plain and self.method in ("auto", "dual") and offset is None
            plain = plain and is_compiled(X)
            return _Data(
                X, moved, offset, exponent, codes, weights, longest, None, members,
                plain,
            )  # fmt: skip
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
        return _Data(X, X, None, 0, codes, weights)

    def _gamma_of(self, X: Any, weights: NDArray) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        return scale_gamma(X, weights)

    def _kernel(self) -> Kernel | None:
        state = self._kernel_state
        return Kernel(**state) if len(state) > 1 else None

    def _private(self, weights: NDArray, exponent: int) -> NDArray | None:
        """Lengths of the private coordinates of a soft margin, in units of scaled X."""
        if not math.isfinite(self.C):
            return None
        return private_lengths(float(self.C) * weights, exponent)

    def _private_squares(self, weights: NDArray, exponent: int) -> Any:
        private = self._private(weights, exponent)
        if private is None:
            return None
        # Beyond these the margin is hard, or all slack, as far as doubles can tell.
        return np.clip(private, 1e-120, 1e120) ** 2

    def _groups(self, data: _Data, problems: list, previous: Any) -> list[NDArray]:
        """Problems that are solved together: small soft pairs of dense samples."""
        every, sizes = np.arange(len(problems)), np.full(len(problems), np.inf)
        plain = self.kernel == "linear" and not sp.issparse(data.X) and self.recenter
        plain = plain and self.method in ("auto", "dual") and math.isfinite(self.C)
        plain = plain and data.exponent == 0 and data.offset is None
        if plain and previous is None and data.members and len(problems) > 1:
            counts = np.array([len(rows) for rows in data.members])
            if problems[0][1] >= 0:
                sizes = counts[np.array(problems)].sum(axis=1)
        small = every[sizes <= small_pairs.MOST]
        together = small_pairs.batches(sizes[small])
        alone = every[sizes > small_pairs.MOST]
        return [small[group] for group in together] + list(alone[:, None])

    def _solve_together(
        self, data: _Data, group: NDArray, problems: list, dtype: Any, seed: int
    ) -> list[_Certified | None]:
        """Solve and certify small pairs; None for those that need more than doubles."""
        parts = [
            signed_rows(data.codes, problems[p], data.members) for p in group.tolist()
        ]
        sizes = np.array([len(rows) for rows, _ in parts])
        there = np.arange(sizes.max()) < sizes[:, None]
        rows, signs = np.zeros(there.shape, int), np.zeros(there.shape)
        rows[there] = np.concatenate([some for some, _ in parts])
        signs[there] = np.concatenate([some for _, some in parts])
        diag = np.full(there.shape, np.inf)
        diag[there] = self._private_squares(data.weights[rows[there]], data.exponent)
        X = data.X[rows]
        X[~there] = 0.0
        left, asked = data.left, np.zeros_like(there)
        plain = left is None or left.groups is None
        if left is not None and plain:
            asked = there & left.asked[rows]
        options = Options(self.tol, self.max_iter, True, seed)
        solved = small_pairs.solve_pairs(
            X, signs, diag, options, data.longest or 0.0, dtype, asked
        )
        found: list[_Certified | None] = []
        slack = np.where(there, diag, 0.0).max(axis=1) >= _ALMOST_HARD
        for k, n in enumerate(sizes.tolist()):
            if not (solved.sure[k] and slack[k]):
                found.append(None)
                continue
            margin, upper = float(solved.margin[k]), float(solved.upper[k])
            dual, own = solved.dual[k, :n], solved.own[k, :n]
            if left is not None and not plain:
                space = LinearSpace(X[k, :n], data.longest)
                plane = Plane(space, dual, diag[k, :n], None)
                own = own_margins(plane, left.take(rows[k, :n]))
            steps = int(solved.n_iter[k])
            found.append(
                _Certified(
                    solved.coef[k], float(solved.bias[k]), float(solved.norm[k]), dual,
                    margin, upper, margin, upper, float(self.rho or 1.0),
                    solved.alpha[k, :n], steps, steps, "", float(solved.none[k]), own,
                    rows[k, :n],
                )
            )  # fmt: skip
        return found

    def _solve_problem(self, data: _Data, problem, dtype, seed, start) -> _Certified:
        """Solve and certify one two-class problem; dual vectors cover all rows."""
        chosen, signs = signed_rows(data.codes, problem, data.members)
        options = Options(self.tol, self.max_iter, bool(self.recenter), seed)
        begin = None if start is None else start.dual_of(chosen)
        known = None
        if data.plain and min(len(chosen), data.X.shape[1]) <= _FEW_FEATURES:
            solved = solve_rows(data.X, chosen, signs, None, options, begin)
            certified = _certified(data, chosen, signs, *solved, dtype)
            if certified is not None:
                return certified
            known = solved[0]
        weights = data.weights[chosen]
        private = self._private(weights, data.exponent)
        diag = self._private_squares(weights, data.exponent)
        X = some_rows(data.X, chosen)
        if self.kernel == "linear":
            moved = X if data.offset is None else some_rows(data.moved, chosen)
            plane = None if start is None else start.plane(data)
            args = (X, moved, data, signs, private, diag, options, begin, dtype)
            found = self._solve_linear(*args, known, plane)
        else:
            if self.kernel == "precomputed" and len(chosen) < len(data.codes):
                X = X[:, chosen]
            space = KernelSpace(X, self._kernel())
            found = self._solve_kernel(space, signs, private, diag, options, begin)
        own = np.zeros(len(chosen))
        if data.left is not None and found.norm > 0.0:
            own = own_margins(found.own, data.left.take(chosen))
        return found._replace(own=own, rows=chosen)

    def _solve_linear(
        self, X, moved, data, signs, private, diag, options, start, dtype, known, plane
    ) -> _Certified:
        exponent, free = data.exponent, options.geometric
        rho = None if self.rho is None else height_of(self.rho, X, exponent)
        height = None if free else height_of(self.rho, X, exponent)
        verdict = ""
        patterns: Any = None
        searching = self.method in SEARCHES
        if known is None and (searching or plane is not None):
            centre = midpoint_of_means(moved, signs) if free else np.zeros(X.shape[1])
            level = height or rho or spread_around(moved, centre)
            patterns = reflect(moved, signs, rho=level, centre=centre, diag=diag)
            known = plane and proven(patterns, start, plane, options)
        if known is not None:
            found = known
        elif searching:
            found = solve_by_search(patterns, self.method, options, start)
        else:
            found = solve_dual(moved, signs, diag, height, options, start)
        hard = diag is not None and (diag.max() < _ALMOST_HARD or not found.closed)
        if hard and few_unknowns(X):
            found = self._harder(moved, signs, diag, height, options, found)
        unit, bias, norm = unit_hyperplane(found.coef, found.bias)
        coef = unit.astype(dtype).astype(np.float64)
        if free and diag is None:
            bias, _ = midpoint_bias(np.asarray(moved @ coef), signs)
        if data.offset is not None:
            bias = float(bias - data.offset.astype(SHARP) @ coef.astype(SHARP))
        space = LinearSpace(X, data.longest)
        pair = self._margins_of(space, signs, coef, bias, norm, private, height)
        reached = pair[0] if free else pair[1]
        if diag is None and reached <= 0.0:
            verdict = self._why_not_separated(space, signs, found, height, options)
        with np.errstate(over="ignore", under="ignore"):
            scale = float(np.ldexp(reached, exponent))
            dual = scaled_dual(found.dual, scale)
            dual = dual if dual.any() and np.isfinite(dual).all() else found.dual
        uppers = self._uppers_of(space, signs, dual, private, height)
        margins = [float(np.ldexp(v, exponent)) for v in (*pair, *uppers)]
        given = self.rho or 1.0 if height is None else float(np.ldexp(height, exponent))
        with np.errstate(over="ignore", under="ignore"):
            alpha = np.ldexp(dual, 2 * exponent)
        if self.method in SEARCHES:
            # Coefficients of a perceptron, and more of them than a largest margin has.
            scores = norm * signs * (X @ coef + bias)
            factors = 1.0 if diag is None else diag.min() / diag
            diag = walk_private(scores, alpha, factors)
        plane = Plane(LinearSpace(moved), alpha, diag, height, found.system)
        return _Certified(
            coef, float(np.ldexp(bias, exponent)), float(np.ldexp(norm, -exponent)),
            dual, margins[0], margins[2], margins[1], margins[3], float(given),
            found.dual, found.n_iter, found.n_updates, verdict,
            float(np.ldexp(no_plane(private, signs, height), exponent)), plane,
        )  # fmt: skip

    def _harder(self, X, signs, diag, height, options, found: Solution) -> Solution:
        """Take plane or combination of the hard margin where slack is too dear.

        Its slack is zero up to rounding, which Newton's steps do not see; and of slacks
        that are rounding, times their price, no combination comes near to the bound.
        """
        space = LinearSpace(X)
        hard = solve_active_set(space, signs, height, options)

        def size(solution: Solution) -> float:
            scores = signs * (X @ solution.coef + solution.bias)
            slack = np.maximum(0.0, 1.0 - 1e-12 - scores) / np.sqrt(diag)
            return float(np.hypot(np.linalg.norm(solution.coef), safe_norm(slack)))

        if not hard.dual.any():
            return found
        duals, private = (found.dual, hard.dual), np.sqrt(diag)
        bounds = [upper_bound(space, signs, dual, private, height) for dual in duals]
        dual = duals[int(bounds[1] < bounds[0])]
        if not size(hard) < size(found):
            return found._replace(dual=dual)
        # A little more than margin one costs no slack at all.
        more = 1.0 + 1e-9
        return hard._replace(coef=hard.coef * more, bias=hard.bias * more, dual=dual)

    def _solve_kernel(self, space, signs, private, diag, options, start) -> _Certified:
        height = None if options.geometric else height_of(self.rho or 1.0, space, 0)
        if diag is None:
            found = solve_active_set(space, signs, height, options, start)
        else:
            found = solve_newton(space, signs, diag, height, options, start)
        shortest, norm = space.length(found.coef, seen=True)
        # A normal that may be nothing but rounding has no direction.
        norm = norm if shortest > 0.0 else 0.0
        intercept = found.bias / norm if norm > 0.0 else float(np.sign(found.bias))
        args = (found.coef, intercept * norm, float(norm > 0.0), private, height)
        pair = self._margins_of(space, signs, *args)
        verdict = ""
        if diag is None and pair[height is not None] <= 0.0:
            verdict = self._why_not_separated(space, signs, found, height, options)
        positive = np.maximum(0.0, found.coef * signs)
        uppers = self._uppers_of(space, signs, positive, private, height)
        return _Certified(
            None, intercept, norm, found.coef * signs, pair[0], uppers[0], pair[1],
            uppers[1], height or 1.0, found.dual, found.n_iter, found.n_updates,
            verdict, no_plane(private, signs, height),
            Plane(space, positive, diag, height, found.system),
        )  # fmt: skip

    def _margins_of(self, space, signs, coef, bias, norm, private, height):
        """(Geometric, directional) margin of a plane, equal where there is but one.

        Without a plane, `norm` zero, a soft margin is that of the best bias.
        """
        if private is not None:
            _, length = space.length(coef)
            if height is not None:
                length = np.hypot(length, bias / height)
            none = 0.0
            if norm == 0.0:
                none = no_plane(private, signs, height)
                none *= 1 - rounding(len(signs) + 8)
            slack = slack_paid(space, signs, coef, bias, norm, private)
            soft = soft_margin(norm * length, [slack], none)
            return soft, soft
        geometric = plane_margin(space, signs, coef, bias)
        if height is None:
            return geometric, geometric
        return geometric, plane_margin(space, signs, coef, bias, height)

    def _uppers_of(self, space, signs, dual, private, height):
        """Upper bounds of both margins from one combination."""
        if private is not None or height is None:
            both = upper_bound(space, signs, dual, private, height)
            return both, both
        directional = upper_bound(space, signs, dual, None, height)
        return upper_bound(space, signs, dual), directional

    def _why_not_separated(self, space, signs, found, height, options) -> str:
        """Proven "inseparable", "undecided" at this precision, or "" if unfinished."""
        dual = found.dual
        if self.method not in ("auto", "dual"):
            # The perceptrons never see that there is no solution; the dual does.
            if not few_unknowns(space.X):
                return ""
            rounds = options._replace(max_iter=1000)
            dual = solve_active_set(space, signs, height, rounds).dual
        if is_proven_inseparable(space, signs, dual):
            return "inseparable"
        searched = self.method not in ("auto", "dual")
        return "" if searched or found.n_iter >= self.max_iter else "undecided"

    def _enclosure(self, found: _Certified) -> tuple[float, float]:
        """Margin and upper bound of the kind that is asked for."""
        if self.recenter:
            return found.margin, found.upper
        return found.directional, found.directional_upper

    def _gap(self, found: _Certified) -> float:
        """Return what could still be gained, of all that a plane can gain."""
        return relative_gap(*self._enclosure(found), found.none)

    def _judge(self, found: _Certified, problem: tuple[int, int]) -> str:
        """Raise if there is no plane; what there is to say if the gap stayed open."""
        gap = self._gap(found)
        if gap <= self.tol and not found.verdict:
            return ""
        name = self._problem_name(self.classes_, problem)
        if found.verdict == "inseparable":
            raise ValueError(
                f"{name}: no hyperplane separates the classes (proven: a combination "
                "of samples lies in both convex hulls, so that the upper bound of the "
                "margin is 0). Allow slack with a finite C, for example C=1.0."
            )
        reached, upper = self._enclosure(found)
        if found.verdict == "undecided":
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

    def _finish(self, samples, problems, found, data, dtype, calibrating) -> Self:
        """Refuse what has no plane, keep the others, and say whose gap is open."""
        pairs = zip(problems, found, strict=True)
        unfinished = [self._judge(result, problem) for problem, result in pairs]
        self._store(samples, problems, found, data, dtype)
        self._calibrate(self._left_out_costs(*calibrating))
        self._online = None
        if self.method == "dynamic":
            self._continue_online(data, problems, found, dtype)
        warn_unfinished(unfinished)
        return self

    def _store(self, samples, problems, found: list[_Certified], data, dtype) -> None:
        self._duals = None
        if self.warm_start:
            self._duals = [
                _Start(f.rows, f.start, len(samples), f.coef, f.intercept, f.norm)
                for f in found
            ]
        duals = [(f.rows, f.dual) for f in found]
        kept = self._keep_duals(samples, problems, duals)
        self.margin_ = scalar([f.margin for f in found])
        self.margin_upper_bound_ = scalar([f.upper for f in found])
        self.directional_margin_ = scalar([f.directional for f in found])
        self.directional_margin_upper_bound_ = scalar(
            [f.directional_upper for f in found]
        )
        self.gap_ = scalar([self._gap(f) for f in found])
        self.n_iter_ = max(1, max(f.n_iter for f in found))
        self.n_updates_ = scalar([f.n_updates for f in found])
        self.rho_ = scalar([f.rho for f in found])
        self.intercept_ = np.array([f.intercept for f in found])
        self.weight_norm_ = np.array([f.norm for f in found])
        if self.kernel == "linear":
            self.coef_ = np.vstack([f.coef for f in found]).astype(dtype)
            coef = self.coef_.astype(np.float64)
            on_plane = self.recenter * -self.intercept_[:, None]
            self.center_ = on_plane * coef
        elif self.kernel != "precomputed":
            self.support_vectors_ = samples.X[kept].astype(dtype)

        def products() -> NDArray:
            if self.kernel == "linear":
                return coef @ coef.T
            gram = KernelSpace(data.X, self._kernel()).gram(kept)
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

    def _continue_online(self, data: _Data, problems, found, dtype) -> None:
        """Let `partial_fit` go on from the combination of patterns found."""
        exponent = data.exponent
        rho = height_of(self.rho, data.X, exponent)
        walks: list[Walk | None] = []
        for problem, result in zip(problems, found, strict=True):
            chosen, signs = signed_rows(data.codes, problem)
            diag = self._private_squares(data.weights[chosen], exponent)
            X = some_rows(data.X, chosen)
            patterns = reflect(X, signs, rho=rho, diag=diag)
            walk = start_walk(patterns, result.start)
            walks.append(walk.without_patterns(patterns))
        self._longest = float(np.hypot(longest_row(data.X), rho))
        self._go_online(walks, rho, exponent, dtype)

    def _sweep(self, patterns, walk, weights, budget, seed, exponent) -> int:
        return learn(patterns, walk, Rule(DYNAMIC, eps=self.tol), budget, seed)

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
