"""A perceptron on its way: its vector, its coefficients, and the bound they carry.

``a = sum_k m_k y_k`` with m >= 0, whatever the rule, so ``||a|| / sum(m)`` bounds the
largest directional margin from above at every moment, and the smallest
``y_k.a / ||a||`` from below. Shapes: m (n,), v (d,), sums (6,) as in
:mod:`widemargin._compute.perceptron`.
"""

from time import perf_counter
from typing import NamedTuple

import numpy as np

from widemargin._compute.progress import Advance, silent
from widemargin.linear.patterns import Patterns, weight_vector

# Seconds of sweeping between two words to whoever watches.
_PATIENCE = 0.01
_NO_TRACE = (np.empty(0, dtype=np.int64), np.empty(0))


class Walk(NamedTuple):
    """Coefficients, ``v = sum m l x``, and running sums; the arrays change in place."""

    m: np.ndarray
    v: np.ndarray
    sums: np.ndarray

    @property
    def norm(self) -> float:
        """``||a||``."""
        return float(np.sqrt(self.sums[2]))

    @property
    def n_updates(self) -> int:
        """Updates made so far, repetitions included."""
        return int(self.sums[4])

    @property
    def upper_bound(self) -> float:
        """Upper bound of the largest directional margin."""
        return self.norm / self.sums[3] if self.sums[3] > 0.0 else np.inf

    def copy(self) -> "Walk":
        """Begin a walk that goes its own way from here."""
        return Walk(*(array.copy() for array in self))


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


def scaled(walk: Walk, factor: float) -> Walk:
    """Keep direction and bound, change the length: later steps weigh more or less."""
    powers = np.array([factor, factor, factor**2, factor, 1.0, factor**2])
    return Walk(walk.m * factor, walk.v * factor, walk.sums * powers)


def learn(
    patterns: Patterns,
    walk: Walk,
    rule: int,
    *,
    max_sweeps: int,
    seed: np.ndarray,
    b: float = 0.0,
    b_upper: float = 0.0,
    eta: float = 1.0,
    beta: float = 0.0,
    eps: float = 0.0,
    shaped: bool = False,
    f: np.ndarray | None = None,
    quick: bool = False,
    shuffle: bool = True,
    max_updates: float = np.inf,
    trace: tuple[np.ndarray, np.ndarray] = _NO_TRACE,
    tick: Advance = silent,
) -> tuple[int, int]:
    """Sweep with one of the rules; returns (status, sweeps).

    `quick` adds a pattern several times at once and cycles over the patterns just
    added: the same algorithm in an order that it leaves free. `tick` is told how many
    sweeps have been made.
    """
    from widemargin._compute import perceptron

    n = patterns.signs.shape[0]
    repeatable = rule in (perceptron.FREE_LENGTH, perceptron.DYNAMIC) and not shaped
    f = np.ones(n) if f is None else f
    order = np.arange(n)

    def sweep(most: int) -> tuple[int, int]:
        return perceptron.learn(
            *patterns.matrix, patterns.signs, patterns.cx, patterns.lift,
            patterns.squares, patterns.diag, patterns.centre, patterns.rho**2,
            f, walk.m, walk.v, walk.sums, rule, b, b_upper, eta, beta, eps, shaped,
            quick and repeatable, quick, shuffle, order, seed, most, max_updates,
            *trace,
        )  # fmt: skip

    if tick is silent:
        return sweep(max_sweeps)
    # All that a sweep leaves behind is in the arrays: in pieces it is the same walk.
    status, done, piece = perceptron.OUT_OF_SWEEPS, 0, 1
    while status == perceptron.OUT_OF_SWEEPS and done < max_sweeps:
        start = perf_counter()
        status, used = sweep(min(piece, max_sweeps - done))
        tick(used)
        done += used
        if perf_counter() - start < _PATIENCE:
            piece *= 2
    return status, done


def pattern_scores(patterns: Patterns, walk: Walk) -> np.ndarray:
    """``y_k.a`` of every pattern, private coordinates included."""
    w, bias = weight_vector(patterns, walk.m)
    return patterns.signs * (patterns.X @ w + bias) + patterns.diag * walk.m


def directional_margin(patterns: Patterns, walk: Walk) -> float:
    """Smallest ``y_k.a / ||a||``, zero for ``a = 0``."""
    if walk.norm == 0.0:
        return 0.0
    return float(pattern_scores(patterns, walk).min()) / walk.norm
