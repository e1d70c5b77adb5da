r"""Certificates: how large the margin is, and how large it could be at most.

Any hyperplane bounds the largest geometric margin gamma from below by its own margin,
and any two points p, q of the convex hulls of the two classes bound it from above:

.. math:: \frac{\min_{l=+} w \cdot x - \max_{l=-} w \cdot x}{2 \lVert w \rVert}
          \;\le\; \gamma \;\le\; \tfrac12 \lVert p - q \rVert .

A dual vector alpha >= 0 gives the points, p and q being the averages of each class
under alpha. With a 2-norm soft margin the same holds in the space where sample k owns a
coordinate of squared length 1 / (2 C_k); there the lower side is
``1 / sqrt(||w||^2 + sum_k 2 C_k xi_k^2)`` for slacks xi at functional margin one. Of a
soft margin much may be had by slack alone, with w = 0, so that the gap is measured
against what a plane can add to that. The directional margin of a = [w, w0] at the
height rho, and its bound ``||sum_k c_k y_k||`` with c >= 0 summing to one, do the same
around the origin.

All of it is computed from what is stored, after the fit, with the error of the
arithmetic taken to the safe side: a margin is never more, a bound never less than the
truth. That no hyperplane separates is said only where it is proven: by a combination
that is exactly zero, in integers, or by one so close to zero that a small change of its
coefficients, which leaves them positive, makes it so; with a kernel whose values are
rounded, by a sample that is in both classes.

Reference: Bennett and Bredensteiner, Duality and geometry in SVM classifiers,
ICML 2000.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from widemargin._compute.rounding import above, below, epsilon, rounding
from widemargin.hyperplanes.spaces import (
    SHARP,
    SMALL,
    KernelSpace,
    LinearSpace,
)

Space = LinearSpace | KernelSpace

# Unknowns up to which a combination is made exactly zero in integers.
_EXACT_SIZE = 64
# Gains of a plane over none, relative to the margin, that rounding hides.
SLIGHT = 1e-8
# Singular values are right to this many units times the largest.
_SAFE = 16


class Enclosure(NamedTuple):
    """A margin that a plane reaches, and a bound that no plane exceeds."""

    lower: float
    upper: float

    def scaled(self, unit: float) -> "Enclosure":
        """Return both times a power of two."""
        return Enclosure(float(self.lower) * unit, float(self.upper) * unit)


@dataclass(frozen=True)
class Certificate:
    """What is proven about a plane: its geometric and its directional margin.

    With slack, or a `free` bias, there is only one, which `geometric` is. `none` is
    what a soft margin is without a plane. `why` says that there is no plane for a hard
    margin: "inseparable" where that is proven, "undecided" where doubles do not tell.
    """

    geometric: Enclosure
    of_height: Enclosure | None = None
    none: float = 0.0
    free: bool = True
    why: str = ""

    @property
    def directional(self) -> Enclosure:
        """The margin at the height of the problem."""
        return self.geometric if self.of_height is None else self.of_height

    @property
    def asked(self) -> Enclosure:
        """The margin that the problem asks for."""
        return self.geometric if self.free else self.directional

    @cached_property
    def gap(self) -> float:
        """Return what could still be gained, of all that a plane can gain."""
        return relative_gap(*self.asked, self.none)

    def scaled(self, unit: float) -> "Certificate":
        """Return the certificate in another unit, a power of two."""
        height = self.of_height and self.of_height.scaled(unit)
        geometric, none = self.geometric.scaled(unit), float(self.none) * unit
        return replace(self, geometric=geometric, of_height=height, none=none)


def relative_gap(lower: float, upper: float, none: float = 0.0) -> float:
    """``(upper - lower) / (upper - none)``: of what a plane can gain, what is open.

    `none` is the margin without a plane, see :func:`no_plane`. Above one where nothing
    is separated; NaN stays NaN; where doubles see no gain, it is taken of all.

    >>> relative_gap(0.75, 1.0), relative_gap(0.75, 1.0, 0.5)
    (0.25, 0.5)
    """
    if not upper > 0.0 or lower == -np.inf:
        return np.nan if np.isnan(lower) or np.isnan(upper) else np.inf
    if upper == np.inf:
        return 1.0
    gap = 1.0 - lower / upper
    if has_gain(upper, none):
        gap /= 1.0 - none / upper
    return gap if not gap < 0.0 else 0.0


def has_gain(upper: float, none: float) -> bool:
    """Whether doubles see that a plane can be better than none."""
    return none < (1.0 - SLIGHT) * upper


def no_plane(
    private: NDArray | None, signs: NDArray, rho: float | None = None
) -> float:
    """Soft margin of ``w = 0`` with the best bias, for lengths `private`.

    Slack alone has it, the more so the smaller the unit of X: what a plane is good for
    is what it adds. Without slack it is zero.

    >>> round(no_plane(np.ones(2), np.array([1.0, -1.0])) ** 2, 12)
    0.5
    """
    if private is None or not private.any():
        return 0.0
    least = float(private.min())
    prices, positive = (least / private) ** 2, signs > 0
    return slack_alone(float(prices @ positive), float(prices @ ~positive), least, rho)


def best_side(private: NDArray | None, signs: NDArray) -> float:
    """Sign of the best bias for ``w = 0``, zero where classes weigh the same.

    >>> best_side(np.array([1.0, 0.5]), np.array([1.0, -1.0]))
    -1.0
    """
    if private is None or not private.any():
        return 0.0
    prices = (float(private.min()) / private) ** 2
    return float(np.sign(prices @ (signs > 0) - prices @ (signs <= 0)))


def slack_alone(
    first: float, second: float, least: float, rho: float | None = None
) -> float:
    """Return the same from sums over the samples of each class, wherever they are.

    They are prices over the highest, which belongs to the length `least`.
    """
    total = first + second
    # S - (S+ - S-)^2 / (S + 1 / rho^2) is what is paid, in units of 1 / least^2.
    pull = 0.0 if rho is None else min(least / rho, 1e150) ** 2
    paid = (4.0 * first * second + total * pull) / (total + pull)
    return float(least / np.sqrt(paid)) if paid > 0.0 else 0.0


def midpoint_bias(scores: NDArray, signs: NDArray) -> tuple[float, float]:
    """Best bias for given ``w.x``, and the functional margin it reaches.

    >>> midpoint_bias(np.array([3.0, 1.0, -2.0]), np.array([1.0, 1.0, -1.0]))
    (0.5, 1.5)
    """
    positive = signs > 0
    low = float(np.where(positive, scores, np.inf).min())
    high = float(np.where(positive, -np.inf, scores).max())
    return -(low + high) / 2, (low - high) / 2


def class_averages(alpha: NDArray, signs: NDArray) -> NDArray | None:
    """Signed weights, one in sum for each class and halved; None if a class has none.

    >>> class_averages(np.array([2.0, 2.0, 1.0]), np.array([1.0, 1.0, -1.0]))
    array([ 0.25,  0.25, -0.5 ])
    """
    positive = signs > 0
    first, second = alpha @ positive, alpha @ ~positive
    if not (first > 0.0 and second > 0.0):
        return None
    return alpha / np.where(positive, 2 * first, -2 * second)


def bias_from_dual(
    scores: NDArray, signs: NDArray, alpha: NDArray, diag: NDArray
) -> float:
    """Bias for which supports sit where alpha says: ``l f(x) = 1 - diag alpha``."""
    support = alpha > 0
    wanted = signs * (1.0 - diag * alpha) - scores
    return float(np.median(wanted[support])) if support.any() else 0.0


def _down(value: Any) -> float:
    return float(below(float(value)))


def _lowest(space: Space, signs: NDArray, coef: NDArray, bias: float) -> float:
    """Lower bound of the smallest ``l (w.x + bias)``."""
    values = signs * (space.scores(coef) + bias)
    error = space.score_error(coef) + rounding(1) * abs(bias)
    lowest = float(values.min())
    # Doubles will do where their rounding is no part of the answer.
    if error <= SMALL * lowest:
        return _down(lowest - error)
    # All others are larger than one of these, whatever the rounding.
    close = np.flatnonzero(values <= lowest + 2 * error)
    sharp = space.sharp_scores(close, coef)
    if sharp is None:
        return _down(lowest - error)
    error = space.score_error(coef, SHARP) + rounding(1, SHARP) * abs(bias)
    return _down((signs[close] * (sharp + SHARP(bias))).min() - SHARP(error))


def plane_margin(
    space: Space, signs: NDArray, coef: NDArray, bias: float, rho: float | None = None
) -> float:
    """Margin that ``w.x + bias`` reaches at least: geometric, directional with `rho`.

    >>> space = LinearSpace(np.array([[3.0], [-1.0]]))
    >>> round(plane_margin(space, np.array([1.0, -1.0]), np.array([2.0]), -2.0), 12)
    2.0
    """
    short, long = space.length(coef)
    if rho is not None:
        short, long = np.hypot(short, bias / rho), np.hypot(long, bias / rho)
    lowest = _lowest(space, signs, coef, bias)
    if long == 0.0:
        return 0.0
    length = long if lowest > 0.0 else short
    return _down(lowest / length * (1 - np.sign(lowest) * 4e-16)) if length else -np.inf


class Slack(NamedTuple):
    """Length of slacks over their private coordinates, at most, and how many pay."""

    paid: float
    n_inside: int


def soft_margin(length: float, slacks: Sequence[Slack], none: float = 0.0) -> float:
    """Margin at least reached in the space with private coordinates.

    The plane has at most this `length` at functional margin one, and `slacks` are those
    of all parts of the samples: the sides of a right angle. Without a plane the margin
    is at least `none`, that of the best bias.

    >>> soft_margin(1.0, [Slack(2.0, 3), Slack(2.0, 1)]) <= 1 / 3
    True
    """
    paid = safe_norm(np.array([slack.paid for slack in slacks]))
    n_terms = sum(slack.n_inside for slack in slacks) + len(slacks)
    size = float(np.hypot(length, paid)) * (1 + rounding(n_terms + 8))
    reached = _down(1.0 / size) if size > 0.0 else 0.0
    return reached if length > 0.0 else max(reached, none)


def slack_paid(
    space: Space,
    signs: NDArray,
    coef: NDArray,
    bias: float,
    norm: float,
    private: NDArray,
) -> Slack:
    """Slack of the samples beside a plane, `norm` times ``w.x + bias``.

    `private` are the lengths of the private coordinates, the root of ``1 / (2 C_k)``.
    """
    values = signs * (space.scores(coef) + bias)
    error = space.score_error(coef) + rounding(1) * abs(bias)
    inside = np.flatnonzero(norm * (values - error) < 1.0 + 1e-9)
    lacking = (values - error)[inside]
    if norm * error > 1e-9:
        sharp = space.sharp_scores(inside, coef)
        if sharp is not None:
            error = space.score_error(coef, SHARP) + rounding(1, SHARP) * abs(bias)
            sharp = signs[inside] * (sharp + SHARP(bias)) - SHARP(error)
            lacking = below(sharp.astype(np.float64))
    slack = np.maximum(0.0, 1.0 - norm * lacking + 4e-16 * (1 + norm * np.abs(lacking)))
    return Slack(safe_norm(slack / private[inside]), len(inside))


def safe_norm(values: NDArray) -> float:
    """Length of a vector whose squares may overflow or vanish.

    >>> safe_norm(np.array([3e-200, 4e-200]))
    5e-200
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(values / largest))


def unit_hyperplane(w: NDArray, bias: float) -> tuple[NDArray, float, float]:
    """Scale to ``||w|| = 1``: weights, bias, and the length that was divided out.

    >>> unit_hyperplane(np.array([3.0, 4.0]), 10.0)
    (array([0.6, 0.8]), 2.0, 5.0)
    """
    largest = float(np.abs(w).max(initial=0.0))
    if largest == 0.0:
        return w, float(np.sign(bias)), 0.0
    length = largest * float(np.linalg.norm(w / largest))
    return w / largest / (length / largest), bias / length, length


def upper_bound(
    space: Space,
    signs: NDArray,
    dual: NDArray,
    private: NDArray | None = None,
    rho: float | None = None,
) -> float:
    """No plane has a larger margin than this: what the combination `dual` proves.

    `private` are the lengths of the private coordinates, None for a hard margin.
    """
    rows = np.flatnonzero(dual > 0)
    alpha, sides = dual[rows].astype(SHARP), signs[rows]
    if len(rows) == 0:
        return np.inf
    c = class_averages(alpha, sides) if rho is None else sides * alpha / alpha.sum()
    if c is None:
        return np.inf
    own = 0.0
    if private is not None:
        own = safe_norm(private[rows] * np.asarray(c, dtype=np.float64))
    upper = space.combined(rows, c, rho, own)
    if private is not None:
        upper = np.hypot(upper, own) * (1 + rounding(len(rows) + 8))
    return float(above(float(upper)))


def scaled_dual(dual: NDArray, margin: float) -> NDArray:
    """Bring a combination to the length that it has at functional margin one.

    There the coefficients sum to one over the squared margin; the combination that they
    name stays the same.
    """
    total = float(dual.sum())
    if not (0.0 < total < np.inf and 1e-150 < margin < 1e150):
        return dual
    return dual / total / margin / margin


def is_proven_inseparable(space: Space, signs: NDArray, dual: NDArray) -> bool:
    """Whether a combination near `dual` is zero: then the convex hulls meet."""
    rows = np.flatnonzero(dual > 0)
    if len(rows) == 0 or class_averages(dual, signs) is None:
        return False
    alpha, sides = dual[rows] / dual[rows].sum(), signs[rows]
    linear = isinstance(space, LinearSpace)
    if isinstance(space, KernelSpace) and space.value_error > 0.0:
        # Values that are rounded prove nothing; a sample of both classes does.
        first, second = (space.X[rows[sides == side]] for side in (1.0, -1.0))
        return _have_common_row(first, second)
    # K c = 0 is the same as c.K.c = 0 in a space that exists.
    points = space.vectors(rows) if linear else space.gram(rows)
    m, d = points.shape
    if m <= _EXACT_SIZE and d * m * m <= 4 * _EXACT_SIZE**3:
        return _is_zero_in_integers(points, sides, alpha)
    return isinstance(space, LinearSpace) and _is_zero_nearby(points, sides, alpha)


def _have_common_row(A: Any, B: Any) -> bool:
    """Whether a row of one matrix is one of the other, bit for bit but for -0."""
    some, others = (
        {row.tobytes() for row in (M.toarray() if sp.issparse(M) else M) + 0.0}
        for M in (A, B)
    )
    return not some.isdisjoint(others)


def _is_zero_nearby(points: NDArray, signs: NDArray, alpha: NDArray) -> bool:
    """Whether a change of alpha that keeps it positive makes the combination zero.

    Among the solutions e of ``Y (alpha + e) = 0`` the shortest has a length of at most
    ``||Y alpha|| / sigma``, sigma the smallest singular value of Y, if its rows are
    independent. Features that are equal, or constant, ask for nothing new.
    """
    columns = np.unique(points.T, axis=0)
    columns = columns[np.ptp(columns, axis=1) > 0.0]
    moved = columns - columns[:, :1]
    scale = float(np.abs(moved).max(initial=0.0)) or 1.0
    Y = np.vstack([moved / scale * signs, signs])
    if Y.shape[0] > Y.shape[1]:
        return False
    u, sigma, vt = np.linalg.svd(Y, full_matrices=False)
    unit = epsilon()
    size = float(np.linalg.norm(Y))
    least = float(sigma[-1]) - _SAFE * unit * size * max(Y.shape)
    if least <= 0.0:
        return False
    for _ in range(2):
        alpha = alpha - vt.T @ ((u.T @ (Y @ alpha)) / sigma)
    # Differences are rounded too: that changes Y by a unit of its size.
    error = (rounding(len(alpha)) + 2 * unit) * size * float(np.linalg.norm(alpha))
    residual = float(np.linalg.norm(Y @ alpha)) + 2 * error
    return bool(residual / least < alpha.min())


def _is_zero_in_integers(points: NDArray, signs: NDArray, alpha: NDArray) -> bool:
    """Solve for some coefficients, leave the others as they are, look at the signs.

    Elimination without fractions (Bareiss): all entries stay integers.
    """
    m = len(alpha)
    system = []
    for column in [*points.T, np.ones(m)]:
        entries = [Fraction(float(v)) for v in column * signs]
        common = max(entry.denominator for entry in entries)
        system.append([int(entry * common) for entry in entries])
    # Large coefficients are solved for: they stay positive under small changes.
    order = np.argsort(-alpha, kind="stable").tolist()
    system = [[row[k] for k in order] for row in system]
    pivots: list[int] = []
    previous, top = 1, 0
    for k in range(m):
        chosen = next((i for i in range(top, len(system)) if system[i][k]), None)
        if chosen is None:
            continue
        system[top], system[chosen] = system[chosen], system[top]
        head = system[top]
        for i in range(top + 1, len(system)):
            row, factor = system[i], system[i][k]
            system[i] = [
                (head[k] * row[j] - factor * head[j]) // previous if j > k else 0
                for j in range(m)
            ]
        previous, top = head[k], top + 1
        pivots.append(k)
        if top == len(system):
            break
    values = [Fraction(float(alpha[k])) for k in order]
    if len(pivots) == m:
        return False
    for row, k in zip(reversed(system[:top]), reversed(pivots), strict=True):
        rest = sum((row[j] * values[j] for j in range(k + 1, m)), Fraction(0))
        values[k] = -rest / row[k]
    return all(value >= 0 for value in values) and any(values)
