"""Perceptron with the standard margin condition: plain and relaxation updates."""

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
from widemargin.linear.walks import Walk, learn
from widemargin.margins import PerceptronBounds, perceptron_bounds

UPDATES = ("plain", "relaxation")


class MarginPerceptron(PerceptronClassifier):
    r"""Perceptron that asks for :math:`y_k \cdot a > b` of every pattern.

    A pattern :math:`y = l\,[x, \rho]` that fails is added,
    :math:`a \leftarrow a + \eta f y`, until a sweep over all samples is quiet. The
    plain update has f = 1 (or the sample's weight) and reaches a directional margin of
    at least :math:`\gamma_d / (2 + \eta R^2 / b)` for equal weights, :math:`\gamma_d`
    being the best and R the length of the longest pattern. The relaxation update
    takes :math:`f = (b_u - y \cdot a) / \lVert y \rVert^2`, as far as needed to bring
    the pattern to :math:`b_u` if :math:`\eta = 1`.

    Parameters
    ----------
    update : {"plain", "relaxation"}, default="plain"
        How far to move.
    b : float or None, default=None
        Margin of the condition, > 0. None is :math:`\eta R^2` for the plain update
        (a third of the best margin guaranteed) and 1 for relaxation.
    b_upper : float or None, default=None
        Target of the relaxation, > b. None is 2 b, which makes the guarantee largest.
    eta : float, default=1.0
        Learning rate, > 0, and < 2 for relaxation.
    rho : float or None, default=None
        Height of the samples in the additional dimension, > 0. None takes the length
        of the longest sample.
    max_iter : int, default=1000
        Most sweeps; reaching it warns.
    shuffle : bool, default=True
        Draw a new order for every sweep.
    warm_start : bool, default=False
        Begin from the coefficients of the previous fit if it had as many samples.
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
    widemargin.FixedMarginPerceptron : A margin free of the weights' length.
    widemargin.MaxMarginClassifier : The largest margin there is, with a certificate.

    Notes
    -----
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

    def __init__(
        self,
        update: Literal["plain", "relaxation"] = "plain",
        *,
        b: float | None = None,
        b_upper: float | None = None,
        eta: float = 1.0,
        rho: float | None = None,
        max_iter: int = 1000,
        shuffle: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
    ):
        self.update = update
        self.b = b
        self.b_upper = b_upper
        self.eta = eta
        self.rho = rho
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.warm_start = warm_start
        self.random_state = random_state

    def _check_own_parameters(self) -> None:
        check_option("update", self.update, UPDATES)
        check_scalar(self.eta, "eta", Real, min_val=0, include_boundaries="neither")
        if self.b is not None:
            check_scalar(self.b, "b", Real, min_val=0, include_boundaries="neither")
        if self.update == "plain":
            if self.b_upper is not None:
                raise ValueError("b_upper is for update='relaxation' only.")
            return
        if not self.eta < 2:
            raise ValueError(
                f"eta must be below 2 for update='relaxation'; got {self.eta}."
            )
        b = 1.0 if self.b is None else self.b
        if self.b_upper is not None and not self.b_upper > b:
            raise ValueError(f"b_upper must exceed b={b}; got {self.b_upper}.")

    def _thresholds(self, geometry: Geometry) -> tuple[float, float]:
        """Give the margin asked for and the target of a relaxation step."""
        if self.update == "plain":
            b = self.eta * geometry.R**2 if self.b is None else float(self.b)
            return b, 0.0
        b = 1.0 if self.b is None else float(self.b)
        return b, (2.0 * b if self.b_upper is None else float(self.b_upper))

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

        plain = self.update == "plain"
        b, b_upper = self._thresholds(pattern_geometry(patterns, f))
        return learn(
            patterns,
            walk,
            perceptron.STANDARD if plain else perceptron.RELAXATION,
            b=b,
            b_upper=b_upper,
            eta=self.eta,
            f=f,
            max_sweeps=max_sweeps,
            seed=seed,
            shuffle=self.shuffle,
            tick=tick,
        )

    def _evaluate_bounds(self, geometry: Geometry, gamma_d: float) -> PerceptronBounds:
        R, r, f_min, f_max = geometry
        b, b_upper = self._thresholds(geometry)
        if self.update == "plain":
            return perceptron_bounds(
                "standard", R=R, r=r, gamma_d=gamma_d, b=b, eta=self.eta,
                f_min=f_min, f_max=f_max,
            )  # fmt: skip
        return perceptron_bounds(
            "relaxation", R=R, r=r, gamma_d=gamma_d, b=b, b_u=b_upper, eta=self.eta
        )
