"""What the perceptron classifiers share: sweeping to the end, counting, bounding."""

import warnings
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.progress import announce
from widemargin._core.callbacks import FitTasks, with_callbacks
from widemargin.linear.online import OnlineClassifier, forget_patterns
from widemargin.linear.patterns import (
    Patterns,
    reflect,
    squared_row_norms,
    weight_vector,
)
from widemargin.linear.solution import random_state_array
from widemargin.linear.walks import Walk, directional_margin, start_walk
from widemargin.margins import PerceptronBounds


class Geometry(NamedTuple):
    """What the bounds need to know of the patterns: lengths and factors."""

    R: float
    r: float
    f_min: float
    f_max: float


def pattern_geometry(patterns: Patterns, f: np.ndarray) -> Geometry:
    """Longest and shortest pattern, smallest and largest factor.

    >>> patterns = reflect(np.array([[3.0], [0.0]]), np.array([1.0, -1.0]), rho=4.0)
    >>> pattern_geometry(patterns, np.ones(2))
    Geometry(R=5.0, r=4.0, f_min=1.0, f_max=1.0)
    """
    longest = float(np.sqrt(patterns.squares.max()))
    shortest = float(np.sqrt(patterns.squares.min()))
    return Geometry(longest, shortest, float(f.min()), float(f.max()))


class PerceptronClassifier(OnlineClassifier):
    """Base of the perceptrons; not for direct use.

    A subclass provides ``_check_own_parameters()``, ``_sweep(...)`` as in
    :class:`~widemargin.linear.online.OnlineClassifier`, and
    ``_evaluate_bounds(geometry, gamma_d)``.
    """

    def _check_parameters(self) -> None:
        check_scalar(self.max_iter, "max_iter", Integral, min_val=1)
        if self.rho is not None:
            check_scalar(self.rho, "rho", Real, min_val=0, include_boundaries="neither")
        self._check_own_parameters()

    @with_callbacks
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
        X, y, weight, rows = self._check_training_data(X, y, sample_weight)
        codes = self._encode(y)
        problems = self._problems()
        longest = float(np.sqrt(squared_row_norms(X).max())) or 1.0
        self.rho_ = float(self.rho or longest)
        f = np.ones(len(codes)) if weight is None else weight
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if previous is not None and (
            len(previous) != len(problems) or len(previous[0].m) != len(codes)
        ):
            previous = None
        walks, online, planes, sweeps, reached = [], [], [], [], []
        with FitTasks(self, len(problems), X=X, y=y, sample_weight=weight) as tasks:
            for p, problem in tasks.each(list(enumerate(problems)), "problem"):
                signs = np.where(codes == problem[0], 1.0, -1.0)
                patterns = reflect(X, signs, rho=self.rho_)
                start = None if previous is None else previous[p].m
                if start is not None and start.any():
                    walk = start_walk(patterns, start)
                else:
                    walk = self._first_walk(patterns)
                state = random_state_array(seed + p)
                with announce("sweeps", self.max_iter) as tick:
                    status, used = self._sweep(
                        patterns, walk, f, self.max_iter, state, tick
                    )
                self._judge(status, walk, problem)
                walks.append(walk)
                online.append(forget_patterns(walk, patterns))
                planes.append(weight_vector(patterns, walk.m))
                reached.append(directional_margin(patterns, walk))
                sweeps.append(used)
        self._set_hyperplanes(planes)
        self._walks = walks if self.warm_start else None
        self._go_online(online, self.rho_)
        # Reflection changes no length: one geometry serves all problems.
        self._geometry = pattern_geometry(patterns, f)
        self.n_iter_ = max(1, max(sweeps))
        self._publish(rows, walks, reached)
        return self

    def _judge(self, status: int, walk: Walk, problem: tuple[int, int]) -> None:
        from widemargin._compute import perceptron

        name = self._problem_name(problem)
        if status == perceptron.INFEASIBLE:
            raise ValueError(
                f"{name}: beta={self.beta} is out of reach, no hyperplane has a "
                f"directional margin above {walk.upper_bound:.6g} (certified upper "
                f"bound at rho={self.rho_:.6g}). Ask for less."
            )
        if status != perceptron.QUIET:
            warnings.warn(
                f"{name}: still updating after max_iter={self.max_iter} sweeps. Either "
                "the classes are not separable or max_iter is too small; the largest "
                f"directional margin is at most {walk.upper_bound:.3g}.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _publish(self, rows: np.ndarray, walks: list[Walk], reached: list) -> None:
        """Set the attributes that describe the run."""

        def scalar(values):
            return values[0] if len(values) == 1 else np.array(values)

        used = np.any([walk.m > 0 for walk in walks], axis=0)
        tilt = np.hypot(1.0, self.intercept_ / self.rho_)
        self.support_ = rows[np.flatnonzero(used)]
        self.directional_margin_ = scalar(reached)
        self.margin_ = scalar(
            [float(m * t) for m, t in zip(reached, tilt, strict=True)]
        )
        self.margin_upper_bound_ = scalar([float(walk.upper_bound) for walk in walks])
        self.n_updates_ = scalar([walk.n_updates for walk in walks])
        found = [
            self._evaluate_bounds(self._geometry, margin) if margin > 0 else None
            for margin in reached
        ]
        self.bounds_ = found[0] if len(found) == 1 else found

    def bounds(self, gamma_d: float) -> PerceptronBounds:
        """Bounds of the paper for the patterns of the last fit.

        `bounds_` evaluates them at the directional margin reached, a lower estimate of
        the best one: the bounds on updates are true but not tight.

        Parameters
        ----------
        gamma_d : float
            Best directional margin at height ``rho_``, if it is known.

        Returns
        -------
        bounds : PerceptronBounds
            Those that apply to this variant.
        """
        check_is_fitted(self, "bounds_")
        return self._evaluate_bounds(self._geometry, gamma_d)

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
