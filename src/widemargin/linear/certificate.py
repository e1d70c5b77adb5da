r"""Certificates: how large the margin is, and how large it could be at most.

Any hyperplane bounds the largest geometric margin gamma from below by its own margin,
and any two points p, q of the convex hulls of the two classes bound it from above:

.. math:: \frac{\min_{l=+} w \cdot x - \max_{l=-} w \cdot x}{2 \lVert w \rVert}
          \;\le\; \gamma \;\le\; \tfrac12 \lVert p - q \rVert .

Both sides are blind to where the origin is. A dual vector alpha >= 0 gives the points,
p and q being the averages of each class under alpha. With a 2-norm soft margin the same
holds in the space where sample k owns a coordinate of squared length 1 / (2 C_k); there
the lower side is ``1 / sqrt(||w||^2 + sum_k 2 C_k xi_k^2)`` for slacks xi at functional
margin one, and the upper one ``||sum_k alpha_k y_k|| / sum(alpha)``.

The directional margin of a = [w, w0] and its bound ``||sum_k c_k y_k||``, c >= 0
summing to one, do the same for patterns at a given height and centre.

Reference: Bennett and Bredensteiner, Duality and geometry in SVM classifiers,
ICML 2000.
"""

from typing import NamedTuple

import numpy as np

from widemargin.linear.patterns import Patterns


class Certificate(NamedTuple):
    """A hyperplane and the interval that the largest margin is known to lie in."""

    margin: float
    upper: float
    bias: float

    @property
    def gap(self) -> float:
        """Relative distance still possible: 0 is optimal, above 1 not separated."""
        return relative_gap(self.margin, self.upper)


def relative_gap(lower: float, upper: float) -> float:
    """``1 - lower / upper``, zero where there is nothing left to gain.

    >>> relative_gap(0.75, 1.0)
    0.25
    """
    if upper <= 0.0:
        return 0.0 if lower >= upper else np.inf
    return max(0.0, 1.0 - lower / upper)


def midpoint_bias(scores: np.ndarray, signs: np.ndarray) -> tuple[float, float]:
    """Best bias for given ``w.x``, and the functional margin it reaches.

    >>> midpoint_bias(np.array([3.0, 1.0, -2.0]), np.array([1.0, 1.0, -1.0]))
    (0.5, 1.5)
    """
    positive = signs > 0
    low = float(np.where(positive, scores, np.inf).min())
    high = float(np.where(positive, -np.inf, scores).max())
    return -(low + high) / 2, (low - high) / 2


def soft_margin(
    scores: np.ndarray, signs: np.ndarray, diag: np.ndarray, square: float
) -> float:
    """Margin in the space with private coordinates, of f = `scores` with ||w||^2 given.

    The functional margin asked for is one. `scores` include the bias.
    """
    slack = np.maximum(0.0, 1.0 - signs * scores)
    return float(1.0 / np.sqrt(square + np.sum(slack**2 / diag)))


def class_averages(alpha: np.ndarray, signs: np.ndarray) -> np.ndarray | None:
    """Signed weights, one in sum for each class and halved; None if a class has none.

    >>> class_averages(np.array([2.0, 2.0, 1.0]), np.array([1.0, 1.0, -1.0]))
    array([ 0.25,  0.25, -0.5 ])
    """
    positive = alpha[signs > 0].sum()
    negative = alpha[signs < 0].sum()
    if positive <= 0.0 or negative <= 0.0:
        return None
    share = np.where(signs > 0, alpha / positive, alpha / negative)
    return 0.5 * share * signs


def bias_from_dual(
    scores: np.ndarray, signs: np.ndarray, alpha: np.ndarray, diag: np.ndarray
) -> float:
    """Bias for which supports sit where alpha says: ``l f(x) = 1 - diag alpha``."""
    support = alpha > 0
    wanted = signs * (1.0 - diag * alpha) - scores
    return float(np.median(wanted[support])) if support.any() else 0.0


def hull_bound(patterns: Patterns, alpha: np.ndarray) -> float:
    """Upper bound of the geometric margin from a dual vector."""
    weights = class_averages(alpha, patterns.signs)
    if weights is None:
        return np.inf
    # Relative to the centre the two halves do not cancel digits away.
    difference = patterns.X.T @ weights - weights.sum() * patterns.centre
    square = difference @ difference + np.sum(patterns.diag * weights**2)
    return float(np.sqrt(square))


def geometric_certificate(
    patterns: Patterns, alpha: np.ndarray, w: np.ndarray, bias: float
) -> Certificate:
    """Certify ``f(x) = w.x + bias`` against the dual vector `alpha`.

    With a hard margin the bias is replaced by the best one. With a soft margin w and
    bias are taken at functional margin one.
    """
    scores = np.asarray(patterns.X @ w, dtype=np.float64)
    square = float(w @ w)
    upper = hull_bound(patterns, alpha)
    if patterns.diag.any():
        margin = soft_margin(scores + bias, patterns.signs, patterns.diag, square)
        return Certificate(margin, upper, bias)
    bias, functional = midpoint_bias(scores, patterns.signs)
    margin = functional / np.sqrt(square) if square > 0.0 else 0.0
    return Certificate(margin, upper, bias)


def directional_certificate(
    patterns: Patterns, alpha: np.ndarray, w: np.ndarray, bias: float
) -> Certificate:
    """Certify ``a = [w, w0]`` at the height and centre of the patterns."""
    scores = np.asarray(patterns.X @ w, dtype=np.float64) + bias
    height = (bias + float(w @ patterns.centre)) / patterns.rho
    square = float(w @ w) + height**2
    signed = alpha * patterns.signs
    total = signed.sum()
    sum_w = patterns.X.T @ signed - total * patterns.centre
    dual = sum_w @ sum_w + patterns.rho**2 * total**2
    dual += np.sum(patterns.diag * alpha**2)
    mass = alpha.sum()
    upper = float(np.sqrt(dual) / mass) if mass > 0.0 else np.inf
    if patterns.diag.any():
        margin = soft_margin(scores, patterns.signs, patterns.diag, square)
    else:
        lowest = float((patterns.signs * scores).min())
        margin = lowest / np.sqrt(square) if square > 0.0 else 0.0
    return Certificate(margin, upper, bias)
