r"""Losses of a margin: what a sample costs, and how fast that falls as it gets surer.

A loss is a pair of functions of the margin θ, ``value`` L(θ) and ``derivative`` L'(θ).
For every right-minded loss L' ≤ 0, so descent moves *along* the gradient of the margin
with the positive factor −L'. The hinge, the broken line and the exponential satisfy the
two axioms L ≥ 0 and L(θ) ≥ 1 for θ < 0: their sum bounds the number of mistakes.
Arrays of any shape go in and come out, float32 as float32.

A new loss subclasses :class:`MarginLoss` and defines ``_value`` and ``_derivative``,
which are given float64 at least. `BY_NAME` gives it a name, `LOSSES` in
tests/margins/test_losses.py its contract tests. It trains by NumPy; kernels have those
of `loss_and_slope` in _compute/lvq.py, which `LOSSES` in _compute/engines.py names.

References
----------
K. Crammer et al., Margin analysis of the LVQ algorithm, section 5.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from widemargin._core.arrays import in_dtype, numpy_dtype, through_numpy, xp_of
from widemargin._core.checks import FloatArray, as_floats, check_number


class MarginLoss(BaseEstimator, metaclass=ABCMeta):
    """Base of the margin losses: a component with `value` and `derivative`.

    Attributes
    ----------
    bounds_mistakes : bool
        Whether L ≥ 0 everywhere and L ≥ 1 at negative margins, so that the sum of the
        losses is at least the number of mistakes.

    Examples
    --------
    A loss of one's own, quadratic below margin 1:

    >>> import numpy as np
    >>> from widemargin.margins import MarginLoss
    >>> class SquaredHinge(MarginLoss):
    ...     bounds_mistakes = True
    ...     def _value(self, margin):
    ...         return np.maximum(0, 1 - margin) ** 2
    ...     def _derivative(self, margin):
    ...         return -2 * np.maximum(0, 1 - margin)
    >>> SquaredHinge()([-1.0, 0.5, 2.0])
    array([4.  , 0.25, 0.  ])
    """

    bounds_mistakes: bool = False
    # Whether the formulas are the array API's, so that tensors stay where they are.
    array_api: ClassVar[bool] = False

    def __call__(self, margin: ArrayLike) -> FloatArray:
        """Return the loss of each margin; the same as `value`."""
        return self.value(margin)

    def value(self, margin: ArrayLike) -> FloatArray:
        """Return the loss L(θ) of each margin, in the shape of `margin`."""
        return _saturated(self._value, as_floats("margin", margin))

    def derivative(self, margin: ArrayLike) -> FloatArray:
        """Return the derivative L'(θ) at each margin, in the shape of `margin`."""
        return _saturated(self._derivative, as_floats("margin", margin))

    @abstractmethod
    def _value(self, margin: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _derivative(self, margin: FloatArray) -> FloatArray: ...


class _ScaledLoss(MarginLoss):
    """A loss with one scale `beta`, checked when used as scikit-learn wants."""

    array_api = True

    def __init__(self, beta: float = 1.0):
        self.beta = beta

    def _beta(self) -> float:
        # Asked in every step: what needs no check is seen at a glance.
        if type(self.beta) is float and 0 < self.beta < np.inf:
            return self.beta
        return check_number("beta", self.beta, above=0)


class Hinge(_ScaledLoss):
    r"""Hinge loss :math:`L(\theta) = (1 - \beta\theta)_+`.

    Parameters
    ----------
    beta : float, default=1.0
        Scale; > 0. Margins of at least 1/beta cost nothing.

    Examples
    --------
    >>> from widemargin.margins import Hinge
    >>> loss = Hinge(beta=2.0)
    >>> loss([-1.0, 0.0, 1.0]), loss.derivative([-1.0, 0.0, 1.0])
    (array([3., 1., 0.]), array([-2., -2.,  0.]))
    """

    bounds_mistakes = True

    def _value(self, margin: FloatArray) -> FloatArray:
        return xp_of(margin).clip(1 - self._beta() * margin, min=0)

    def _derivative(self, margin: FloatArray) -> FloatArray:
        return _step(margin < 1 / self._beta(), margin, -self._beta())


class Ramp(_ScaledLoss):
    r"""Broken linear loss :math:`L(\theta) = \min(2, (1 - \beta\theta)_+)`.

    Active only in the window :math:`|\theta| < 1/\beta`, so that gross outliers do not
    pull; this is the window of LVQ2.1.

    Parameters
    ----------
    beta : float, default=1.0
        Scale; > 0.

    Examples
    --------
    >>> from widemargin.margins import Ramp
    >>> loss = Ramp()
    >>> loss([-3.0, 0.0, 2.0]), loss.derivative([-3.0, 0.0, 2.0])
    (array([2., 1., 0.]), array([ 0., -1.,  0.]))
    """

    bounds_mistakes = True

    def _value(self, margin: FloatArray) -> FloatArray:
        return xp_of(margin).clip(1 - self._beta() * margin, min=0, max=2)

    def _derivative(self, margin: FloatArray) -> FloatArray:
        return _step(abs(margin) < 1 / self._beta(), margin, -self._beta())


class Exponential(_ScaledLoss):
    r"""Exponential loss :math:`L(\theta) = e^{-\beta\theta}`.

    Parameters
    ----------
    beta : float, default=1.0
        Scale; > 0. Values beyond the floating-point range stay at its end, finite.

    Examples
    --------
    >>> from widemargin.margins import Exponential
    >>> loss = Exponential()
    >>> loss([0.0]), loss.derivative([0.0])
    (array([1.]), array([-1.]))
    """

    bounds_mistakes = True

    def _value(self, margin: FloatArray) -> FloatArray:
        return xp_of(margin).exp(-self._beta() * margin)

    def _derivative(self, margin: FloatArray) -> FloatArray:
        return -self._beta() * self._value(margin)


class Sigmoid(_ScaledLoss):
    r"""Sigmoid loss :math:`L(\theta) = 1 / (1 + e^{\beta\theta})`.

    A smooth count of the mistakes, the usual choice of generalised LVQ. It is 1/2 at
    margin 0; twice the loss bounds the number of mistakes.

    Parameters
    ----------
    beta : float, default=1.0
        Steepness; > 0. As it grows the loss becomes the count itself.

    Examples
    --------
    >>> from widemargin.margins import Sigmoid
    >>> loss = Sigmoid(beta=4.0)
    >>> loss([0.0, -1000.0]), loss.derivative([0.0, -1000.0])
    (array([0.5, 1. ]), array([-1., -0.]))
    """

    def _value(self, margin: FloatArray) -> FloatArray:
        decay = self._decay(margin)
        return xp_of(margin).where(margin < 0, 1.0, decay) / (1 + decay)

    def _derivative(self, margin: FloatArray) -> FloatArray:
        decay = self._decay(margin)
        return -self._beta() * decay / (1 + decay) ** 2

    def _decay(self, margin: FloatArray) -> FloatArray:
        # The exponent is never positive, so nothing overflows for either sign of θ.
        return xp_of(margin).exp(-self._beta() * abs(margin))


class LinearLoss(MarginLoss):
    r"""Linear loss :math:`L(\theta) = -\theta`: the mean margin itself is maximised.

    Examples
    --------
    >>> from widemargin.margins import LinearLoss
    >>> LinearLoss()([-0.5, 0.5]), LinearLoss().derivative([-0.5, 0.5])
    (array([ 0.5, -0.5]), array([-1., -1.]))
    """

    array_api = True

    def _value(self, margin: FloatArray) -> FloatArray:
        return -margin

    def _derivative(self, margin: FloatArray) -> FloatArray:
        return xp_of(margin).full_like(margin, -1)


# Scale up to which losses of relative margins and their slopes are numbers of float32.
TAME = 80.0

BY_NAME: dict[str, type[MarginLoss]] = {
    "hinge": Hinge,
    "ramp": Ramp,
    "exponential": Exponential,
    "sigmoid": Sigmoid,
    "linear": LinearLoss,
}


def check_loss(loss: Any) -> Any:
    """Return a usable margin loss for `loss`, or say what would be one.

    Parameters
    ----------
    loss : str, MarginLoss or object
        A name, such as "hinge" (with beta = 1), a :class:`MarginLoss`, or any object
        with the methods ``value(margin)`` and ``derivative(margin)``.

    Returns
    -------
    loss : object
        With `value` and `derivative`, both tried on five margins between −1 and 1,
        where they gave finite numbers of the same shape.

    Examples
    --------
    >>> from widemargin.margins import check_loss
    >>> check_loss("hinge")
    Hinge()
    """
    if isinstance(loss, str) and loss in BY_NAME:
        return BY_NAME[loss]()
    if isinstance(loss, type):
        raise ValueError(f"loss must be an instance: {loss.__name__}(), not the class.")
    probe = np.linspace(-1, 1, 5)
    for name in ("value", "derivative"):
        method = getattr(loss, name, None)
        if not callable(method):
            raise ValueError(
                f"loss must be one of {', '.join(map(repr, BY_NAME))}, a MarginLoss, "
                f"or an object with methods value and derivative; {loss!r} has no "
                f"method {name}."
            )
        result = np.asarray(method(probe.copy()))
        if result.shape != probe.shape or result.dtype.kind not in "iuf":
            raise ValueError(
                f"loss.{name} must return one number per margin; for margins of shape "
                f"{probe.shape} it returned {result.dtype} of shape {result.shape}."
            )
        if not np.isfinite(result).all():
            raise ValueError(
                f"loss.{name} must be finite for margins in [-1, 1]; it returned "
                f"{result.tolist()} at {probe.tolist()}."
            )
    return loss


def value_and_slope(loss: Any, margin: Any) -> tuple[Any, Any]:
    """Return L and L' of margins that are numbers, NumPy's or a tensor's, unchecked."""
    if not getattr(loss, "array_api", False):
        return through_numpy(loss.value, margin), through_numpy(loss.derivative, margin)
    if 0 < getattr(loss, "beta", 1.0) <= TAME:
        # Relative margins are at most one: every dtype holds what is made of them.
        return loss._value(margin), loss._derivative(margin)
    return _saturated(loss._value, margin), _saturated(loss._derivative, margin)


def _step(where: Any, like: Any, slope: float) -> Any:
    """Return the slope where a condition holds, and 0 elsewhere."""
    xp = xp_of(like)
    return xp.where(where, xp.full_like(like, slope), 0.0)


def _saturated(
    function: Callable[[FloatArray], FloatArray], margin: FloatArray
) -> FloatArray:
    """Compute in float64 at least; what the dtype does not hold is its largest.

    A scale need not be a number of the margins' dtype, nor what it gives.
    """
    dtype = numpy_dtype(margin)
    largest = float(np.finfo(dtype).max)
    with np.errstate(over="ignore"):
        values = function(in_dtype(margin, np.result_type(dtype, np.float64)))
        values = xp_of(margin).clip(values, min=-largest, max=largest)
        return in_dtype(values, dtype)[()]
