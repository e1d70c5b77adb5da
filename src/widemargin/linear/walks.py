"""A perceptron on its way: its vector, its coefficients, and the bound they carry.

``a = sum_k m_k y_k`` with m >= 0, whatever the rule, so ``||a|| / sum(m)`` bounds the
largest directional margin from above at every moment, and the smallest
``y_k.a / ||a||`` from below. Between batches only ``v = sum m l x``, the running sums
and the private length of past patterns are kept; the bound stays true for everything
shown so far. Shapes: m (n,), v (d,), sums (6,) as in
:mod:`widemargin._compute.patterns`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

import numpy as np

from widemargin._compute.patterns import (
    DYNAMIC,
    FREE_LENGTH,
    IDLE,
    MASS,
    OUT_OF_SWEEPS,
    PRIVATE,
    SQUARE,
    TOTAL,
    UPDATES,
    Order,
    Rule,
    Trace,
)
from widemargin._compute.progress import Advance, announce, silent
from widemargin.linear.patterns import Patterns, weight_vector

# Seconds of sweeping between two words to whoever watches.
_PATIENCE = 0.01
_NO_TRACE = Trace(np.empty(0, dtype=np.int64), np.empty(0))
# Share of the patterns that a sweep still adds, below which the end may be near.
_FEW = 0.01


class Walk(NamedTuple):
    """Coefficients, ``v = sum m l x``, and running sums; the arrays change in place."""

    m: np.ndarray
    v: np.ndarray
    sums: np.ndarray

    @property
    def norm(self) -> float:
        """``||a||``."""
        return float(np.sqrt(self.sums[SQUARE]))

    @property
    def total(self) -> float:
        """``sum(l m)``: the weight of the additional dimension, over rho."""
        return float(self.sums[TOTAL])

    @property
    def n_updates(self) -> int:
        """Updates made so far, repetitions included."""
        return int(self.sums[UPDATES])

    @property
    def upper_bound(self) -> float:
        """Upper bound of the largest directional margin, up to rounding."""
        mass = self.sums[MASS]
        return self.norm / float(mass) if mass > 0.0 else np.inf

    def copy(self) -> "Walk":
        """Begin a walk that goes its own way from here."""
        return Walk(*(array.copy() for array in self))

    def begin_at(self, patterns: Patterns, k: int) -> None:
        """Begin again, in place, at pattern k."""
        m = np.zeros(len(patterns.signs))
        m[k] = 1.0
        for mine, new in zip(self, start_walk(patterns, m), strict=True):
            mine[:] = new

    def on_batch(self, n_samples: int) -> "Walk":
        """Continue with patterns that were never added."""
        return self._replace(m=np.zeros(n_samples))

    def without_patterns(self, patterns: Patterns) -> "Walk":
        """Forget which patterns were added, keep what they added up to."""
        sums = self.sums.copy()
        # Weights may be so large that their squares are no numbers.
        private = np.sqrt(patterns.diag) * self.m
        with np.errstate(over="ignore"):
            sums[PRIVATE] += private @ private
        return Walk(np.empty(0), self.v, sums)


def start_walk(patterns: Patterns, m: np.ndarray | None = None) -> Walk:
    """Begin a walk at ``a = sum_k m_k y_k``, by default at zero.

    >>> from widemargin.linear.patterns import reflect
    >>> X, signs = np.array([[3.0], [-1.0]]), np.array([1.0, -1.0])
    >>> start_walk(reflect(X, signs, rho=2.0), np.array([1.0, 1.0])).norm
    4.0
    """
    n, d = patterns.X.shape
    if m is None or not m.any():
        return Walk(np.zeros(n), np.zeros(d), np.zeros(6))
    m = m.astype(np.float64)
    signed = m * patterns.signs
    v = np.asarray(patterns.X.T @ signed)
    w, _ = weight_vector(patterns, m)
    total = signed.sum()
    square = w @ w + (patterns.rho * total) ** 2 + np.sum(patterns.diag * m**2)
    return Walk(m, v, np.array([total, v @ patterns.centre, square, m.sum(), 0.0, 0.0]))


class Budget:
    """Sweeps that may still be made; whoever watches is told of those that were."""

    def __init__(self, most: int, tell: Advance = silent) -> None:
        self.most, self.spent, self._tell = most, 0, tell

    @property
    def left(self) -> int:
        """Sweeps left."""
        return self.most - self.spent

    @property
    def is_watched(self) -> bool:
        """Whether sweeps are to be counted in pieces."""
        return self._tell is not silent

    def spend(self, sweeps: int) -> None:
        """Count `sweeps` as made."""
        self.spent += sweeps
        self._tell(sweeps)


@contextmanager
def budget_of(most: int, total: float | None = None) -> Iterator[Budget]:
    """Announce sweeps, `total` of them if that is known, and give their budget."""
    with announce("sweeps", total) as tell:
        yield Budget(most, tell)


def learn(
    patterns: Patterns,
    walk: Walk,
    rule: Rule,
    budget: Budget,
    seed: np.ndarray,
    *,
    most: int | None = None,
    factors: np.ndarray | None = None,
    quick: bool = False,
    shuffle: bool = True,
    patience: int | None = None,
    max_updates: float = np.inf,
    trace: Trace = _NO_TRACE,
) -> int:
    """Sweep with a rule, `most` times at most and within the budget; the status.

    `quick` adds a pattern several times at once and cycles over the patterns just
    added: the same algorithm in an order that it leaves free. With `patience` the walk
    is IDLE after so many sweeps, and as many as it made until then, in which the number
    of patterns added did not fall, unless they are one in a hundred.
    """
    from widemargin._compute.sequential import learn

    n = patterns.signs.shape[0]
    repeat = quick and rule.kind in (FREE_LENGTH, DYNAMIC) and not rule.shaped
    show = Order(np.arange(n), seed, repeat, quick, shuffle)
    factors = np.ones(n) if factors is None else factors
    end = budget.spent + (budget.left if most is None else min(most, budget.left))
    # All that a sweep leaves behind is in the arrays: in pieces it is the same walk.
    status, piece = OUT_OF_SWEEPS, 1 if budget.is_watched else end
    fewest, idle, best = n + 1, 0, 0
    while status == OUT_OF_SWEEPS and budget.spent < end:
        limited = patience is not None and fewest > _FEW * n
        limit = max(patience or 0, best)
        if limited and idle >= limit:
            return IDLE
        start = perf_counter()
        sweeps = min(piece, end - budget.spent, limit - idle if limited else end)
        status, used, now, since = learn(
            patterns.rows, factors, walk.m, walk.v, walk.sums, rule, show, sweeps,
            float(max_updates), fewest, trace,
        )  # fmt: skip
        budget.spend(used)
        idle = since if now < fewest else idle + since
        if now < fewest:
            fewest, best = now, budget.spent - since
        if perf_counter() - start < _PATIENCE:
            piece *= 2
    return status


def pattern_scores(patterns: Patterns, walk: Walk) -> np.ndarray:
    """``y_k.a`` of every pattern, private coordinates included."""
    w, bias = weight_vector(patterns, walk.m)
    return patterns.signs * (patterns.X @ w + bias) + patterns.diag * walk.m


def directional_margin(patterns: Patterns, walk: Walk) -> float:
    """Smallest ``y_k.a / ||a||``, zero for ``a = 0``."""
    if walk.norm == 0.0:
        return 0.0
    return float(pattern_scores(patterns, walk).min()) / walk.norm
