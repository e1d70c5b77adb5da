"""The perceptrons: sweep, add what fails its test, count, bound.

Two conditions that a pattern has to meet, y.a > b (standard margin) and y.a > beta
||a|| (fixed directional margin), each with two ways to move. What they share: sweeping
to the end or until nothing improves, batches, the certificate of what is stored, and
the bounds of the paper for it. The loops are in
:mod:`widemargin._compute.sequential`.
"""

from abc import abstractmethod
from dataclasses import KW_ONLY, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.patterns import (
    FIXED_LENGTH,
    FREE_LENGTH,
    IDLE,
    INFEASIBLE,
    OUT_OF_SWEEPS,
    QUIET,
    RELAXATION,
    STANDARD,
    Rule,
    Walk,
)
from widemargin._core.callbacks import FitTasks
from widemargin._core.checks import (
    check_count,
    check_flag,
    check_number,
    check_option,
    check_random_state,
)
from widemargin._core.classifier import fit_method
from widemargin._core.params import parameters
from widemargin.hyperplanes.base import (
    SCHEMES,
    HyperplaneClassifier,
    scalar,
    signed_rows,
    walked_shifts,
    warn_unfinished,
)
from widemargin.hyperplanes.certificate import plane_margin, upper_bound
from widemargin.hyperplanes.patterns import (
    Patterns,
    comfortable_unit,
    height_of,
    longest_row,
    random_state_array,
    reflect,
    scaled,
    weight_vector,
)
from widemargin.hyperplanes.problem import some_rows
from widemargin.hyperplanes.spaces import LinearSpace
from widemargin.hyperplanes.walks import Budget, budget_of, run_sweeps, start_walk
from widemargin.margins import PerceptronBounds, perceptron_bounds
from widemargin.margins.perceptrons import projected_factor_range


class Geometry(NamedTuple):
    """What the bounds need to know of the patterns: lengths and factors."""

    R: float
    r: float
    f_min: float
    f_max: float

    def united(self, other: "Geometry") -> "Geometry":
        """Range of both."""
        low = (min(self.r, other.r), min(self.f_min, other.f_min))
        high = (max(self.R, other.R), max(self.f_max, other.f_max))
        return Geometry(high[0], low[0], low[1], high[1])


def pattern_geometry(patterns: Patterns, f: NDArray) -> Geometry:
    """Longest and shortest pattern, smallest and largest factor.

    >>> patterns = reflect(np.array([[3.0], [0.0]]), np.array([1.0, -1.0]), rho=4.0)
    >>> pattern_geometry(patterns, np.ones(2))
    Geometry(R=5.0, r=4.0, f_min=1.0, f_max=1.0)
    """
    longest = float(np.sqrt(patterns.squares.max()))
    shortest = float(np.sqrt(patterns.squares.min()))
    return Geometry(longest, shortest, float(f.min()), float(f.max()))


FAR = (
    "The samples lie farther from the origin than they spread, by more than ten times, "
    "where a perceptron learns little: centre them, for instance by StandardScaler."
)


def _is_far(X: Any) -> bool:
    """Whether samples spread by less than a tenth of their distance to the origin."""
    if issparse(X):
        return False
    return bool(10 * np.linalg.norm(X.std(axis=0)) < np.linalg.norm(X.mean(axis=0)))


@parameters
class PerceptronClassifier(HyperplaneClassifier):
    """Base of the perceptrons; not for direct use.

    A subclass provides ``_check_own_parameters()``, ``_sweep(...)`` as in
    :class:`~widemargin.hyperplanes.base.HyperplaneClassifier`, and
    ``_bound_arguments(geometry, unit)``.
    """

    # They are no optimum: closed forms tell less of them, and fits are quick.
    _many = 20

    _: KW_ONLY
    intercept_scaling: float | None = None
    shuffle: bool = True
    multiclass: Literal["ovo", "ddag", "ovr"] = "ovo"
    warm_start: bool = False
    class_weight: dict | Literal["balanced"] | None = None
    max_iter: int = 1000
    n_iter_no_change: int | None = 50
    random_state: Any = None

    @property
    def _order(self) -> Literal["random", "given"]:
        return "random" if self.shuffle else "given"

    @abstractmethod
    def _check_own_parameters(self) -> None:
        """Raise where a parameter of this perceptron is out of its range."""

    @abstractmethod
    def _bound_arguments(self, geometry: Geometry, unit: float) -> dict[str, Any]:
        """Arguments of the bounds for patterns like these, all but gamma_d."""

    def _factors(self, weights: NDArray) -> NDArray:
        """Give the f of the update."""
        return weights

    def _check_parameters(self) -> None:
        check_count("max_iter", self.max_iter)
        check_flag("shuffle", self.shuffle)
        check_flag("warm_start", self.warm_start)
        check_option("multiclass", self.multiclass, SCHEMES)
        if self.n_iter_no_change is not None:
            check_count("n_iter_no_change", self.n_iter_no_change, "None or ")
        if self.intercept_scaling is not None:
            check_number(
                "intercept_scaling",
                self.intercept_scaling,
                above=0,
                otherwise="None or ",
            )
        self._check_own_parameters()

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Sweep over the samples until a full sweep changes nothing.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of the update: the f of the paper. Samples of weight zero are left
            out.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._check_parameters()
        previous = getattr(self, "_walks", None) if self.warm_start else None
        samples, dtype = self._check_samples(X, y, sample_weight)
        problems = self._set_classes(samples.classes, samples.X)
        unit = comfortable_unit(samples.X)
        X = scaled(samples.X, unit)
        rho = height_of(self.intercept_scaling, X, unit)
        self.intercept_scaling_ = rho * unit
        factors = self._factors(samples.weights)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        parts = [signed_rows(samples.codes, problem) for problem in problems]
        if previous is not None and [len(m) for m in previous] != [
            len(rows) for rows, _ in parts
        ]:
            previous = None
        runs: list[tuple[Patterns, Walk]] = []
        sweeps, geometry, unfinished = [], None, []
        every = list(enumerate(problems))
        with FitTasks(self, len(problems), X=X, y=samples.labels) as tasks:
            for p, problem in tasks.each(every, "problem"):
                rows, signs = parts[p]
                patterns = reflect(some_rows(X, rows), signs, rho=rho)
                if previous is not None and previous[p].any():
                    walk = start_walk(patterns, previous[p])
                else:
                    walk = self._first_walk(patterns)
                state, f = random_state_array(seed + p), factors[rows]
                with budget_of(self.max_iter, self.max_iter) as budget:
                    status = self._sweep(patterns, walk, f, budget, state, unit)
                unfinished.append(self._judge(status, walk, problem, budget, unit))
                here = pattern_geometry(patterns, f)
                geometry = here if geometry is None else geometry.united(here)
                runs.append((patterns, walk))
                sweeps.append(budget.spent)
        planes = [weight_vector(patterns, walk.m) for patterns, walk in runs]
        self._set_planes(planes, unit, dtype)
        self._walks = [walk.m for _, walk in runs] if self.warm_start else None
        online = [walk.without_patterns(patterns.diag) for patterns, walk in runs]
        self._longest = float(np.hypot(longest_row(X), rho))
        self._go_online(list(online), rho, unit, dtype)
        assert geometry is not None
        self._bound_of = self._bound_arguments(geometry, unit)
        self._unit_of_bounds = unit
        self.n_iter_ = max(1, max(sweeps))
        self._publish(samples, problems, parts, runs, rho, unit)
        leave, shifts = self._leave_out(samples), []
        if leave is not None:
            walks = [walk for _, walk in runs]
            shifts = walked_shifts(X, parts, walks, rho, factors, leave)
        self._calibrate_without(samples, shifts, leave)
        if any(unfinished) and _is_far(X):
            unfinished = [text and f"{text} {FAR}" for text in unfinished]
        warn_unfinished(unfinished)
        return self

    def _judge(self, status, walk: Walk, problem, budget: Budget, unit) -> str:
        """Raise if there is no plane; what there is to say if it is not finished."""
        if status == QUIET:
            return ""
        name = self._problem_name(self.classes_, problem)
        upper = float(walk.upper_bound) * unit
        if status == INFEASIBLE:
            raise ValueError(
                f"{name}: margin={self._asked()} is out of reach, no hyperplane has a "
                f"directional margin above {upper:.6g} (certified upper bound at "
                f"intercept_scaling={self.intercept_scaling_:.6g}). Ask for less."
            )
        why = f"still updating after max_iter={self.max_iter} sweeps"
        if status == IDLE:
            why = (
                f"stopped after {budget.spent} sweeps, of which the last "
                "brought no fewer updates (n_iter_no_change="
                f"{self.n_iter_no_change})"
            )
        return (
            f"{name}: {why}. Either the classes are not separable or max_iter is too "
            f"small; the largest directional margin is at most {upper:.3g}."
        )

    def _asked(self) -> float:
        """Give the margin asked for, where one is."""
        return 0.0

    def _publish(self, samples, problems, parts, runs, rho, unit) -> None:
        """Certify what is stored and set the attributes that describe the run."""
        proven = np.zeros((3, len(runs)))
        for p, (_, signs) in enumerate(parts):
            patterns, walk = runs[p]
            space = LinearSpace(patterns.X)
            coef = self.coef_[p].astype(np.float64)
            bias = float(self.intercept_[p]) / unit
            proven[0, p] = plane_margin(space, signs, coef, bias)
            proven[1, p] = plane_margin(space, signs, coef, bias, rho)
            proven[2, p] = upper_bound(space, signs, walk.m, None, rho)
        margins, directional, uppers = (proven * unit).tolist()
        self._keep_duals(
            samples,
            problems,
            [(rows, walk.m) for (rows, _), (_, walk) in zip(parts, runs, strict=True)],
        )
        self.margin_, self.margin_upper_bound_ = scalar(margins), scalar(uppers)
        self.directional_margin_ = scalar(directional)
        self.n_updates_ = scalar([walk.n_updates for _, walk in runs])
        found = [self._bounds_at(margin) for margin in directional]
        self.bounds_ = found[0] if len(found) == 1 else found

    def _bounds_at(self, margin: float) -> PerceptronBounds | None:
        """Bounds, None where there is no margin or one too small to speak of them."""
        try:
            return self.bounds(margin) if margin > 0 else None
        except ValueError:
            return None

    def bounds(self, gamma_d: float) -> PerceptronBounds:
        """Bounds of the paper for the patterns of the last fit.

        `bounds_` evaluates them at the directional margin reached, a lower estimate of
        the best one: the bounds on updates are true but not tight.

        Parameters
        ----------
        gamma_d : float
            Best directional margin at height ``intercept_scaling_``, if it is known.

        Returns
        -------
        bounds : PerceptronBounds
            Those that apply to this variant.
        """
        check_is_fitted(self, "coef_")
        if not hasattr(self, "_bound_of"):
            raise ValueError("The bounds are about a whole fit, not about batches.")
        check_number("gamma_d", gamma_d, above=0)
        given = dict(self._bound_of)
        # One hyperplane cannot do better than the shortest pattern is long.
        unit = self._unit_of_bounds
        given["gamma_d"] = min(float(gamma_d) / unit, given["r"])
        found = perceptron_bounds(**given)
        return replace(found, margin=float(found.margin) * unit)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Any:
        """Sweep once over a batch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Batch.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels there will ever be; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of the update.

        Returns
        -------
        self : object
            The classifier after this batch.
        """
        self._check_parameters()
        return self._partial_fit(X, y, classes, sample_weight)


@parameters
class MarginPerceptron(PerceptronClassifier):
    r"""Perceptron with margin: updates until :math:`y_k \cdot a > b` for all samples.

    A pattern :math:`y = l\,[x, \rho]` that fails is added, :math:`a \leftarrow a + \eta
    f y`, until a sweep over all samples is quiet. The plain update has f = 1 (or the
    sample's weight). For equal weights it reaches a directional margin of at least
    :math:`\gamma_d / (2 + \eta R^2 / b)`. Here :math:`\gamma_d` is the best margin and
    R the length of the longest pattern. The relaxation update takes :math:`f = (b_u - y
    \cdot a) / \lVert y \rVert^2`, as far as needed to bring the pattern to :math:`b_u`
    if :math:`\eta = 1`, times the weight over the largest one. :math:`\eta` is the
    learning rate.

    Parameters
    ----------
    update : {"plain", "relaxation"}, default="plain"
        How far to move.
    margin_threshold : float or None, default=None
        Margin b of the condition, > 0. None is :math:`\eta R^2` for the plain update
        (a third of the best margin guaranteed) and 1 for relaxation.
    relaxation_target : float or None, default=None
        Target :math:`b_u` of the relaxation, > `margin_threshold`. None is twice that,
        which makes the guarantee largest.
    learning_rate : float, default=1.0
        Learning rate, > 0, and < 2 for relaxation.
    intercept_scaling : float or None, default=None
        Value of the constant feature that carries the intercept, > 0. None is the
        length of the longest sample.
    shuffle : bool, default=True
        Draw a new order for every sweep.
    multiclass : {"ovo", "ddag", "ovr"}, default="ovo"
        One-vs-one by votes, one-vs-one along a decision DAG, or one-vs-rest by
        functional scores. Hundreds of classes have thousands of pairs: "ovr" is many
        times as fast there, if not as right.
    warm_start : bool, default=False
        Begin from the coefficients of the previous fit if it had as many samples.
    class_weight : dict, "balanced" or None, default=None
        Factors of the update per class, multiplied by `sample_weight`.
    max_iter : int, default=1000
        Most sweeps per two-class problem; reaching it warns.
    n_iter_no_change : int or None, default=50
        Stop, with a warning, after so many sweeps without fewer updates than the best
        sweep, and at least as many as came before. Sweeps with updates of less than 1 %
        of the samples go on. None goes on to `max_iter`.
    random_state : int, RandomState instance or None, default=None
        Order of the samples.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    coef_, intercept_ : ndarray of shape (n_problems, n_features), (n_problems,)
        Unit normals, in the precision of X, and offsets, in double: signed distances.
    weight_norm_ : ndarray of shape (n_problems,)
        Length of the normal that was divided out.
    margin_, directional_margin_ : float or ndarray of shape (n_problems,)
        Smallest margin of a training sample under the stored plane, geometric and
        directional at `intercept_scaling_`; never more than the truth, whatever the
        rounding.
    margin_upper_bound_ : float or ndarray of shape (n_problems,)
        No vector has a larger directional margin at `intercept_scaling_`; the
        combination of samples that proves it is `dual_coef_`.
    bounds_ : PerceptronBounds, or a list of them
        The paper's bounds, evaluated at the margin reached; None where the classes
        were not separated. See :meth:`bounds`.
    support_ : ndarray of shape (n_support,)
        Samples that were ever added.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        How much of each, with its sign: ``coef_ * weight_norm_`` is their sum.
    temperature_ : float
        Softmax temperature of ``predict_proba``, fitted when it is first asked for, to
        at most 2000 training samples, each left out. After ``partial_fit`` it is fitted
        to the latest 2000, each predicted before it was learned.
    n_iter_ : int
        Sweeps.
    n_updates_ : int or ndarray of shape (n_problems,)
        Updates.
    intercept_scaling_ : float
        Height used.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has some.

    See Also
    --------
    widemargin.FixedMarginPerceptron : A margin free of the weights' length.
    widemargin.MaxMarginClassifier : The largest margin there is, with a certificate.

    Notes
    -----
    Margins of samples are distances in the units of X. For ``predict_proba`` a sample
    is left out as from a soft margin with similar coefficients. Sweeps without it find
    about the same.

    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

    References
    ----------
    P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, section
    2.1.

    Examples
    --------
    >>> from widemargin.linear import MarginPerceptron
    >>> X, y = [[0.0], [1.0], [3.0], [5.0]], ["low", "low", "high", "high"]
    >>> model = MarginPerceptron(random_state=0).fit(X, y)
    >>> model.predict([[0.5], [4.0]])
    array(['low', 'high'], dtype='<U4')
    >>> bool(model.n_updates_ <= model.bounds_.updates)
    True
    """

    update: Literal["plain", "relaxation"] = "plain"
    _: KW_ONLY
    margin_threshold: float | None = None
    relaxation_target: float | None = None
    learning_rate: float = 1.0

    def _check_own_parameters(self) -> None:
        check_option("update", self.update, ("plain", "relaxation"))
        check_number("learning_rate", self.learning_rate, above=0)
        if self.margin_threshold is not None:
            check_number(
                "margin_threshold", self.margin_threshold, above=0, otherwise="None or "
            )
        if self.update == "plain":
            if self.relaxation_target is not None:
                raise ValueError("relaxation_target is for update='relaxation' only.")
            return
        if not self.learning_rate < 2:
            raise ValueError(
                "learning_rate must be below 2 for update='relaxation'; got "
                f"{self.learning_rate}."
            )
        if self.relaxation_target is not None:
            b = 1.0 if self.margin_threshold is None else self.margin_threshold
            check_number(
                "relaxation_target",
                self.relaxation_target,
                above=b,
                otherwise="None or ",
            )

    def _factors(self, weights: NDArray) -> NDArray:
        # A relaxation converges for factors of at most one.
        return weights if self.update == "plain" else weights / weights.max()

    def _thresholds(self, R: float, unit: float) -> tuple[float, float]:
        """Give the margin asked for and the target of a relaxation step."""
        if self.update == "plain":
            # The weights are sums of samples: b has the unit of their squares.
            if self.margin_threshold is not None:
                b = float(self.margin_threshold) / unit / unit
                if not np.isfinite(b):
                    raise ValueError(
                        f"margin_threshold={self.margin_threshold:g} is so large "
                        "beside the samples, whose lengths are of the size of "
                        f"{unit:.2g}, that no weights reach it; "
                        "leave it out, or scale the data."
                    )
                return b, 0.0
            return float(self.learning_rate) * R**2, 0.0
        b = 1.0 if self.margin_threshold is None else float(self.margin_threshold)
        return b, (
            2.0 * b if self.relaxation_target is None else float(self.relaxation_target)
        )

    def _sweep(self, patterns, walk, weights, budget, seed, unit) -> int:
        kind = STANDARD if self.update == "plain" else RELAXATION
        b, b_upper = self._thresholds(float(np.sqrt(patterns.squares.max())), unit)
        rule = Rule(kind, b=b, b_upper=b_upper, rate=float(self.learning_rate))
        return run_sweeps(
            patterns, walk, rule, budget.part(patience=self.n_iter_no_change), seed,
            factors=self._factors(weights), order=self._order,
        )  # fmt: skip

    def _bound_arguments(self, geometry: Geometry, unit: float) -> dict[str, Any]:
        b, b_upper = self._thresholds(geometry.R, unit)
        own = {"variant": "standard", "b": b}
        if self.update == "relaxation":
            own = {"variant": "relaxation", "b": b, "b_u": b_upper}
        return own | geometry._asdict() | {"learning_rate": float(self.learning_rate)}


@parameters
class FixedMarginPerceptron(PerceptronClassifier):
    r"""Perceptron that reaches a given directional margin, or proves it impossible.

    A pattern :math:`y = l\,[x, \rho]` with :math:`y \cdot a \le \beta \lVert a \rVert`
    is added. The algorithm ends when a sweep over all samples adds none. Then the
    directional margin exceeds beta, and so does the geometric one. If beta is out of
    reach the bound :math:`\lVert a \rVert / \sum m` falls to beta and `fit` raises an
    error that says how much is possible at most.

    Parameters
    ----------
    margin : float, default=0.0
        Directional margin beta asked for, >= 0. Zero is Rosenblatt's perceptron: it
        ends at any plane that separates the classes. If classes overlap it keeps the
        plane of its last sweep; take :class:`MarginPerceptron` for such data.
    normalize : bool, default=False
        Whether the weight vector is brought back to length beta after every update, or
        grows. True needs margin > 0.
    update_factor : {"constant", "projected"}, default="constant"
        The f of the update: 1, or :math:`1 - \beta (u \cdot y) / \lVert y \rVert^2`.
        Multiplied by `sample_weight`.
    learning_rate : float or None, default=None
        Learning rate of the fixed length, > 0; a free length does not depend on one.
        None starts from the rate that is best for the largest margin possible, and
        halves it whenever the sweeps were not enough.
    intercept_scaling : float or None, default=None
        Value of the constant feature that carries the intercept, > 0. None is the
        length of the longest sample.
    shuffle : bool, default=True
        Draw a new order for every sweep.
    multiclass : {"ovo", "ddag", "ovr"}, default="ovo"
        One-vs-one by votes, one-vs-one along a decision DAG, or one-vs-rest by
        functional scores. Hundreds of classes have thousands of pairs: "ovr" is many
        times as fast there, if not as right.
    warm_start : bool, default=False
        Begin from the coefficients of the previous fit if it had as many samples. A
        chain of fits with a growing margin counts as one run for the bounds.
    class_weight : dict, "balanced" or None, default=None
        Factors of the update per class, multiplied by `sample_weight`.
    max_iter : int, default=1000
        Most sweeps per two-class problem; reaching it warns.
    n_iter_no_change : int or None, default=50
        Stop, with a warning, after so many sweeps without fewer updates than the best
        sweep, and at least as many as came before. Sweeps with updates of less than 1 %
        of the samples go on. None goes on to `max_iter`.
    random_state : int, RandomState instance or None, default=None
        Order of the samples.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    coef_, intercept_ : ndarray of shape (n_problems, n_features), (n_problems,)
        Unit normals, in the precision of X, and offsets, in double: signed distances.
    weight_norm_ : ndarray of shape (n_problems,)
        Length of the normal that was divided out.
    margin_, directional_margin_ : float or ndarray of shape (n_problems,)
        Smallest margin of a training sample under the stored plane, geometric and
        directional at `intercept_scaling_`; never more than the truth, whatever the
        rounding.
    margin_upper_bound_ : float or ndarray of shape (n_problems,)
        No vector has a larger directional margin at `intercept_scaling_`; the
        combination of samples that proves it is `dual_coef_`.
    bounds_ : PerceptronBounds, or a list of them
        The paper's bounds, evaluated at the margin reached; None where the classes
        were not separated. See :meth:`bounds`.
    support_ : ndarray of shape (n_support,)
        Samples that were ever added.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        How much of each, with its sign: ``coef_ * weight_norm_`` is their sum.
    learning_rate_ : float
        Learning rate in the end (fixed length).
    temperature_ : float
        Softmax temperature of ``predict_proba``, fitted when it is first asked for, to
        at most 2000 training samples, each left out. After ``partial_fit`` it is fitted
        to the latest 2000, each predicted before it was learned.
    n_iter_ : int
        Sweeps.
    n_updates_ : int or ndarray of shape (n_problems,)
        Updates.
    intercept_scaling_ : float
        Height used.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has some.

    See Also
    --------
    widemargin.MarginPerceptron : The condition on the margin as it is measured.
    widemargin.MaxMarginClassifier : The largest margin there is, with a certificate.

    Notes
    -----
    Margins of samples are distances in the units of X. For ``predict_proba`` a sample
    is left out as from a soft margin with similar coefficients. Sweeps without it find
    about the same.

    On scikit-learn 1.9 and later ``set_callbacks(sklearn.callback.ProgressBar())``
    shows how far `fit` is.

    References
    ----------
    P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, section
    2.2.

    Examples
    --------
    >>> from widemargin.linear import FixedMarginPerceptron
    >>> X, y = [[0.0], [1.0], [3.0], [5.0]], [0, 0, 1, 1]
    >>> model = FixedMarginPerceptron(0.5, random_state=0).fit(X, y)
    >>> bool(model.directional_margin_ > 0.5)
    True
    """

    margin: float = 0.0
    _: KW_ONLY
    normalize: bool = False
    update_factor: Literal["constant", "projected"] = "constant"
    learning_rate: float | None = None

    def _check_own_parameters(self) -> None:
        check_flag("normalize", self.normalize)
        check_option("update_factor", self.update_factor, ("constant", "projected"))
        check_number("margin", self.margin, at_least=0)
        if self.normalize and self.margin == 0:
            raise ValueError("normalize=True needs margin > 0: it is the length.")
        if self.learning_rate is not None:
            if not self.normalize:
                raise ValueError("learning_rate is for normalize=True only.")
            check_number(
                "learning_rate", self.learning_rate, above=0, otherwise="None or "
            )

    def _asked(self) -> float:
        return float(self.margin)

    def _first_walk(self, patterns: Patterns) -> Walk:
        if not self.normalize:
            return start_walk(patterns)
        # The fixed length cannot begin at zero; any pattern will do as a direction.
        m = np.zeros(len(patterns.signs))
        m[0] = 1.0
        return start_walk(patterns, m)

    def _factor_range(self, geometry: Geometry, beta: float) -> tuple[float, float]:
        low, high = geometry.f_min, geometry.f_max
        if self.update_factor == "projected" and beta > 0:
            shaped_low, shaped_high = projected_factor_range(geometry.r, beta)
            return low * shaped_low, high * shaped_high
        return low, high

    def _sweep(self, patterns, walk, weights, budget, seed, unit) -> int:
        free = not self.normalize
        geometry = pattern_geometry(patterns, weights)
        beta = float(self.margin) / unit
        if beta >= geometry.r:
            # No vector can exceed the shortest pattern; one pattern proves it.
            shortest = np.zeros(len(patterns.signs))
            shortest[patterns.squares.argmin()] = 1.0
            walk.restart(start_walk(patterns, shortest))
            return INFEASIBLE

        def sweep(rate: float, most: int | None, patience: int | None) -> int:
            self.learning_rate_ = rate
            rule = Rule(
                FREE_LENGTH if free else FIXED_LENGTH, beta=beta, rate=rate,
                shaped=self.update_factor == "projected",
            )  # fmt: skip
            return run_sweeps(
                patterns, walk, rule, budget.part(most, patience), seed,
                factors=weights, order=self._order,
            )  # fmt: skip

        if free or self.learning_rate is not None:
            rate = 1.0 if self.learning_rate is None else float(self.learning_rate)
            return sweep(rate, None, self.n_iter_no_change)
        # Halve the rate after 8, 16, 32, ... sweeps that did not suffice.
        _, f_max = self._factor_range(geometry, beta)
        R = geometry.R
        rate = (geometry.r - beta) * beta / (f_max * R**2 * (1 + 2 * beta / R))
        most = 8
        while True:
            status = sweep(rate, most, None)
            if status != OUT_OF_SWEEPS or budget.left <= 0:
                return status
            most, rate = 2 * most, rate / 2

    def _bound_arguments(self, geometry: Geometry, unit: float) -> dict[str, Any]:
        asked = float(self.margin) / unit
        f_min, f_max = self._factor_range(geometry, asked)
        given: dict[str, Any] = geometry._replace(f_min=f_min, f_max=f_max)._asdict()
        # The formulas are continuous at zero but divide by the margin.
        given["margin"] = max(asked, 1e-12 * geometry.r)
        if self.normalize:
            given["learning_rate"] = self.learning_rate_
        return given | {"variant": "fixed_length" if self.normalize else "free_length"}
