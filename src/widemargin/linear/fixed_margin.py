"""Perceptron that asks for a directional margin beta, of free or of fixed length."""

from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_scalar

from widemargin._compute.progress import Advance, silent
from widemargin._core.checks import check_option
from widemargin.linear.patterns import Patterns
from widemargin.linear.perceptrons import (
    Geometry,
    PerceptronClassifier,
    pattern_geometry,
)
from widemargin.linear.walks import Walk, learn, start_walk
from widemargin.margins import PerceptronBounds, perceptron_bounds
from widemargin.margins.perceptron_fixed import projected_factor_range

LENGTHS = ("free", "fixed")
FACTORS = ("constant", "projected")


class FixedMarginPerceptron(PerceptronClassifier):
    r"""Perceptron that asks for a directional margin and proves it where it cannot be.

    A pattern :math:`y = l\,[x, \rho]` with :math:`y \cdot a \le \beta \lVert a \rVert`
    is added, until a sweep over all samples is quiet: then the directional margin, and
    the geometric one with it, exceeds beta. If beta is out of reach the bound
    :math:`\lVert a \rVert / \sum m` falls to beta and `fit` raises an error that says
    how much is possible at most.

    Parameters
    ----------
    beta : float, default=0.0
        Directional margin asked for, >= 0. Zero asks only for separation: Rosenblatt's
        perceptron.
    length : {"free", "fixed"}, default="free"
        Whether the weight vector grows or is brought back to length beta after every
        update. "fixed" needs beta > 0.
    factor : {"constant", "projected"}, default="constant"
        The f of the update: 1, or :math:`1 - \beta (u \cdot y) / \lVert y \rVert^2`.
        Multiplied by `sample_weight`.
    eta : float or None, default=None
        Learning rate of the fixed length, > 0; a free length does not depend on one.
        None starts from the rate that would be best if the margin were as large as
        the bound allows, and halves it whenever the sweeps so far were not enough.
    rho : float or None, default=None
        Height of the samples in the additional dimension, > 0. None takes the length
        of the longest sample.
    max_iter : int, default=1000
        Most sweeps; reaching it warns.
    shuffle : bool, default=True
        Draw a new order for every sweep.
    warm_start : bool, default=False
        Begin from the coefficients of the previous fit if it had as many samples. A
        chain of fits with growing beta counts as one run for the bounds.
    random_state : int, RandomState instance or None, default=None
        Order of the samples.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. More than two are learned one against the rest.
    coef_, intercept_ : ndarray of shape (n_problems, n_features), (n_problems,)
        Unit normals and offsets: signed distances.
    weight_norm_ : ndarray of shape (n_problems,)
        Length of the normal that was divided out.
    margin_, directional_margin_ : float or ndarray of shape (n_problems,)
        Smallest margin of a training sample, geometric and directional at `rho_`.
    margin_upper_bound_ : float or ndarray of shape (n_problems,)
        No vector has a larger directional margin at `rho_`.
    bounds_ : PerceptronBounds, or a list of them
        The paper's bounds, evaluated at the margin reached; None where the classes
        were not separated. See :meth:`bounds`.
    support_ : ndarray of shape (n_support,)
        Samples that were ever added.
    eta_ : float
        Learning rate in the end (fixed length).
    n_iter_ : int
        Sweeps.
    n_updates_ : int or ndarray of shape (n_problems,)
        Updates.
    rho_ : float
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
    >>> model = FixedMarginPerceptron(beta=0.5, random_state=0).fit(X, y)
    >>> bool(model.directional_margin_ > 0.5)
    True
    """

    def __init__(
        self,
        beta: float = 0.0,
        *,
        length: Literal["free", "fixed"] = "free",
        factor: Literal["constant", "projected"] = "constant",
        eta: float | None = None,
        rho: float | None = None,
        max_iter: int = 1000,
        shuffle: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
    ):
        self.beta = beta
        self.length = length
        self.factor = factor
        self.eta = eta
        self.rho = rho
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.warm_start = warm_start
        self.random_state = random_state

    def _check_own_parameters(self) -> None:
        check_option("length", self.length, LENGTHS)
        check_option("factor", self.factor, FACTORS)
        check_scalar(self.beta, "beta", Real, min_val=0)
        if self.length == "fixed" and self.beta == 0:
            raise ValueError("length='fixed' needs beta > 0: beta is the length.")
        if self.eta is not None:
            if self.length == "free":
                raise ValueError("eta is for length='fixed' only.")
            check_scalar(self.eta, "eta", Real, min_val=0, include_boundaries="neither")

    def _first_walk(self, patterns: Patterns) -> Walk:
        if self.length == "free":
            return start_walk(patterns)
        # The fixed length cannot begin at zero; any pattern will do as a direction.
        m = np.zeros(len(patterns.signs))
        m[0] = self.beta / np.sqrt(patterns.squares[0])
        return start_walk(patterns, m)

    def _factor_range(self, geometry: Geometry) -> tuple[float, float]:
        low, high = geometry.f_min, geometry.f_max
        if self.factor == "projected" and self.beta > 0:
            shaped_low, shaped_high = projected_factor_range(geometry.r, self.beta)
            return low * shaped_low, high * shaped_high
        return low, high

    def _sweep(
        self,
        patterns: Patterns,
        walk: Walk,
        f: np.ndarray,
        max_sweeps: int,
        seed: np.ndarray,
        tick: Advance = silent,
    ) -> tuple[int, int]:
        from widemargin._compute import perceptron

        free = self.length == "free"
        rule = perceptron.FREE_LENGTH if free else perceptron.FIXED_LENGTH
        geometry = pattern_geometry(patterns, f)
        if self.beta >= geometry.r:
            # No vector can exceed the shortest pattern; one pattern proves it.
            shortest = int(patterns.squares.argmin())
            walk.sums[2], walk.sums[3] = patterns.squares[shortest], 1.0
            return perceptron.INFEASIBLE, 0

        def sweep(sweeps: int, eta: float) -> tuple[int, int]:
            return learn(
                patterns,
                walk,
                rule,
                beta=self.beta,
                eta=eta,
                f=f,
                shaped=self.factor == "projected",
                max_sweeps=sweeps,
                seed=seed,
                shuffle=self.shuffle,
                tick=tick,
            )

        if free or self.eta is not None:
            self.eta_ = 1.0 if self.eta is None else float(self.eta)
            return sweep(max_sweeps, self.eta_)
        return self._sweep_with_back_off(geometry, max_sweeps, sweep)

    def _sweep_with_back_off(self, geometry, max_sweeps, sweep):
        """Halve the rate after 8, 16, 32, ... sweeps that did not suffice."""
        from widemargin._compute import perceptron

        R, r = geometry.R, geometry.r
        _, f_max = self._factor_range(geometry)
        gap = r - self.beta
        rate = gap * self.beta / (f_max * R**2 * (1 + 2 * self.beta / R))
        done, chunk = 0, 8
        while True:
            self.eta_ = rate
            status, used = sweep(min(chunk, max_sweeps - done), rate)
            done += used
            if status != perceptron.OUT_OF_SWEEPS or done >= max_sweeps:
                return status, done
            chunk, rate = 2 * chunk, rate / 2

    def _evaluate_bounds(self, geometry: Geometry, gamma_d: float) -> PerceptronBounds:
        R, r = geometry.R, geometry.r
        f_min, f_max = self._factor_range(geometry)
        # The formulas are continuous at zero but divide by beta.
        beta = max(self.beta, 1e-12 * r)
        lengths = {"R": R, "r": r, "gamma_d": gamma_d, "beta": beta}
        if self.length == "free":
            return perceptron_bounds("free_length", **lengths, f_min=f_min, f_max=f_max)
        return perceptron_bounds(
            "fixed_length", **lengths, eta=self.eta_, f_min=f_min, f_max=f_max
        )
