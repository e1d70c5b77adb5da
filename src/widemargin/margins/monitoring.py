r"""Evidence that a guarantee is broken, valid however often it is looked at.

A bettor starts with one unit of money and bets against a hypothesis. Money that is
multiplied at every step by a factor b_t >= 0 whose mean is at most one under the
hypothesis, whatever came before, is a supermartingale M, and by Ville's inequality

.. math:: P(\exists n : M_n \ge 1 / \delta) \le \delta.

An alarm at M >= 1 / delta is false with probability delta at most, over a stream
without end and a look after every step. Means of such M are such M again, which gives
power without a choice: over bets k, and over the times nu_j at which a bet begins,

.. math:: M_n = \sum_k v_k \Bigl( \sum_{\nu_j < n} w_j \prod_{t > \nu_j}^n b_{tk}
          + 1 - \sum_{\nu_j < n} w_j \Bigr).

Money that waits for a later start is not lost while all is well. After j starts
:math:`a / (a + j)` of it waits: most begins early, and some after any time.

*Errors.* The hypothesis is that an answer is wrong with probability epsilon at most,
given all before it. The factor is the likelihood ratio of q > epsilon,
:math:`(q / \epsilon)^x ((1 - q) / (1 - \epsilon))^{1 - x}` with x = 1 for a mistake. A
mean over all q of a beta distribution beyond epsilon, inverted, bounds the error.

*Samples without labels.* The hypothesis is that scores are exchangeable. The share of
the scores so far that are larger, ties broken at random, is then uniform on [0, 1] and
independent of those before it. Factors are densities on [0, 1] of such p-values:
:math:`\kappa p^{\kappa - 1}` and :math:`1 \pm c (1 - 2 p)`.

References: J. Ville, Étude critique de la notion de collectif, 1939; H. Robbins,
Statistical methods related to the law of the iterated logarithm, 1970; V. Vovk, A.
Gammerman, G. Shafer, Algorithmic learning in a random world, 2005 (exchangeability
martingales); I. Waudby-Smith, A. Ramdas, Estimating means of bounded random variables
by betting, 2024. Shapes: steps (n,), factors (n, n_bets).
"""

from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, betaln

from widemargin._core.checks import (
    FloatArray,
    as_float_vector,
    check_number,
    check_random_state,
)

# Odds of a mistake, in those of max_error, that are bet on, and the money on each: most
# on an error that doubles, and enough on others that 1.5 and 4 times cost 5 % at most.
ODDS, STAKES = (1.5, 2.1, 4.0), (0.1, 0.8, 0.1)
# Exponents of powers and slopes of lines that p-values are bet on.
POWERS, SLOPES = (0.4, 0.7), (0.9, -0.9)
# Steps between starts, for errors by 1 / max_error; after so many starts half waits. 15
# gains a twelfth where an error doubles at once, and loses 3 % where after 5000 steps.
BETWEEN_P_VALUES, HALF_AFTER = 50, 40
# A prior of the error that favours no part of [0, 1].
PRIOR = (0.5, 0.5)
HALVINGS = 36


class Bets:
    """Money of a bettor: bets that begin again and again, see the module's docstring.

    Parameters
    ----------
    stakes : sequence of float
        Part of the money on each bet; they add up to one.
    between : int
        Steps between two starts.
    """

    def __init__(self, stakes: tuple[float, ...], between: int) -> None:
        self.stakes, self.between = stakes, between
        self.n_steps = 0
        # Logarithms: products of all factors, and sums of w_j over those at the starts.
        self.products = np.zeros(len(stakes))
        self.started = np.full(len(stakes), -np.inf)

    def follow(self, log_factors: NDArray) -> FloatArray:
        """Play (n, n_bets) factors; return the logarithm of the money after each."""
        n = len(log_factors)
        if not n:
            return np.zeros(0)
        steps = self.n_steps + np.arange(n)
        before = np.cumsum(np.vstack([self.products, log_factors]), axis=0)
        weights = np.where(
            steps % self.between == 0, start_weights(steps // self.between), 0.0
        )
        begun = log_or_never(weights)[:, None] - before[:-1]
        begun[0] = np.logaddexp(begun[0], self.started)
        started = np.logaddexp.accumulate(begun, axis=0)
        waiting = weight_left(steps // self.between)
        playing = np.log(self.stakes) + started + before[1:]
        self.products, self.started = before[-1], started[-1]
        self.n_steps += n
        return np.logaddexp(np.logaddexp.reduce(playing, axis=1), np.log(waiting))


def log_or_never(numbers: NDArray) -> FloatArray:
    """Return logarithms of numbers of at least 0; minus infinity of 0."""
    never = np.full(np.shape(numbers), -np.inf)
    return np.log(numbers, out=never, where=np.asarray(numbers) > 0)


def start_weights(starts: NDArray) -> FloatArray:
    """Money that begins with each start 0, 1, 2, ...; all of it is one.

    >>> float(start_weights(np.arange(40)).sum().round(3))
    0.5
    """
    waiting = HALF_AFTER + np.asarray(starts, float)
    return np.asarray(HALF_AFTER / (waiting * (waiting + 1)))


def weight_left(starts: NDArray) -> FloatArray:
    """Money that has not begun after each start.

    >>> float(weight_left(np.array(39)))
    0.5
    """
    return np.asarray(HALF_AFTER / (HALF_AFTER + 1.0 + starts))


def error_bets(max_error: float) -> Bets:
    """Return the bets against an error of at most `max_error`."""
    # Where mistakes are that rare, the second start never comes.
    return Bets(STAKES, max(1, min(round(1 / max_error), 2**62)))


def error_factors(wrong: NDArray, max_error: float) -> FloatArray:
    """(n, n_bets) logarithms of the likelihood ratios of mistakes and right answers."""
    odds = np.array(ODDS) * max_error / (1 - max_error)
    likely = odds / (1 + odds)
    of_wrong = np.log(likely / max_error)
    of_right = np.log1p(-likely) - np.log1p(-max_error)
    return np.where(np.asarray(wrong, bool)[:, None], of_wrong, of_right)


def p_value_bets() -> Bets:
    """Return the bets against exchangeable scores."""
    n = len(POWERS) + len(SLOPES)
    return Bets((1 / n,) * n, BETWEEN_P_VALUES)


def p_value_factors(p: NDArray) -> FloatArray:
    """(n, n_bets) logarithms of densities on [0, 1] at these p-values."""
    powers, slopes = np.array(POWERS), np.array(SLOPES)
    p = p[:, None]
    return np.hstack(
        [np.log(powers) + (powers - 1) * np.log(p), np.log1p(slopes * (1 - 2 * p))]
    )


class ErrorBounds(NamedTuple):
    """Bounds on the probability of a mistake, after each answer."""

    lower: FloatArray
    upper: FloatArray


def error_bounds(wrong: ArrayLike, *, delta: float = 0.05) -> ErrorBounds:
    """Bounds on the error that hold after every answer at once.

    Parameters
    ----------
    wrong : array-like of bool of shape (n_samples,)
        Whether each answer was wrong, in the order in which the labels came.
    delta : float, default=0.05
        Probability, over the whole stream, with which any bound may be wrong.

    Returns
    -------
    bounds : ErrorBounds
        Named tuple ``(lower, upper)`` of arrays of shape (n_samples,).

    Notes
    -----
    Where the probability of a mistake is the same for all answers, both bounds hold for
    it after every answer, with probability 1 - delta. Where it changes, given all
    before, the lower bound is at most the largest and the upper at least the smallest
    so far.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.margins import error_bounds
    >>> lower, upper = error_bounds(np.arange(1000) % 20 == 0)
    >>> print(f"{lower[-1]:.3f} to {upper[-1]:.3f}")
    0.029 to 0.077
    """
    mistakes = as_mistakes(wrong)
    delta = check_number("delta", delta, above=0, below=1)
    n, m = np.arange(1, len(mistakes) + 1), np.cumsum(mistakes)
    lower = least_error(m, n, delta / 2)
    upper = 1 - least_error(n - m, n, delta / 2)
    return ErrorBounds(
        np.maximum.accumulate(lower) if len(n) else lower,
        np.minimum.accumulate(upper) if len(n) else upper,
    )


def as_mistakes(wrong: ArrayLike) -> NDArray:
    """Return zeros and ones, or say what they should be."""
    values = np.asarray(wrong)
    if values.ndim != 1 or not np.isin(values, (0, 1)).all():
        raise ValueError(
            "wrong must be one of True and False per answer, shape (n_samples,); got "
            f"shape {values.shape} of {values.dtype}."
        )
    return values.astype(np.intp)


def least_error(mistakes: NDArray, n: NDArray, delta: float) -> FloatArray:
    """Largest error that the evidence speaks against at 1 / delta; elementwise."""
    low, high = np.zeros(len(n)), mistakes / n
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        against = log_evidence(mistakes, n, middle) >= -np.log(delta)
        low, high = np.where(against, middle, low), np.where(against, high, middle)
    return low


def log_evidence(mistakes: NDArray, n: NDArray, error: NDArray) -> FloatArray:
    """Logarithm of the mean likelihood ratio of errors beyond this one; elementwise."""
    a, b = PRIOR
    right, inside = n - mistakes, np.where((error > 0) & (error < 1), error, 0.5)
    beyond = log_or_never(betaincc(a + mistakes, b + right, inside))
    beyond -= np.log(betaincc(a, b, inside))
    own = mistakes * np.log(inside) + right * np.log1p(-inside)
    value = betaln(a + mistakes, b + right) - betaln(a, b) + beyond - own
    value = np.where(error >= 1, -np.inf, value)
    return np.asarray(np.where(error <= 0, np.where(mistakes > 0, np.inf, 0.0), value))


class Ranks:
    """P-values of a stream of scores, each among all before it.

    Ranks begin anew after `most` scores, so that streams need not end.
    """

    def __init__(self, random_state: Any = None, most: int = 100_000) -> None:
        self.rng, self.most = check_random_state(random_state), most
        self.ordered: list[float] = []

    def know(self, scores: ArrayLike) -> Self:
        """Begin with scores that the stream is compared with."""
        self.ordered = sorted(as_float_vector("scores", scores)[-self.most :].tolist())
        return self

    def follow(self, scores: ArrayLike) -> FloatArray:
        """Return how ordinary each score is among those before it, in (0, 1]."""
        values = as_float_vector("scores", scores)
        at_random = 1 - self.rng.random_sample(len(values))
        p = np.empty(len(values))
        for i, score in enumerate(values.tolist()):
            if len(self.ordered) >= self.most:
                self.ordered = []
            ordered = self.ordered
            low, high = bisect_left(ordered, score), bisect_right(ordered, score)
            n = len(ordered)
            p[i] = (n - high + at_random[i] * (high - low + 1)) / (n + 1)
            ordered.insert(high, score)
        return p
