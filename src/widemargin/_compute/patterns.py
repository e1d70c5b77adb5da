"""Patterns, rules and walks as plain arrays: what the sequential loops take.

Named tuples that compiled code reads by name. Nothing here needs the compiler, so that
what prepares the arrays can be imported without it. Shapes: as in
:mod:`widemargin._compute.sequential`.
"""

from typing import NamedTuple

import numpy as np

STANDARD, RELAXATION, FREE_LENGTH, FIXED_LENGTH, DYNAMIC = 0, 1, 2, 3, 4
QUIET, OUT_OF_SWEEPS, INFEASIBLE, OUT_OF_UPDATES, IDLE = 0, 1, 2, 3, 4
# How a quadratic programme over a working set ends.
SOLVED, UNBOUNDED, OUT_OF_STEPS = 0, 1, 2
# What `Walk.sums` holds: sum(l m), v.c, ||a||^2, sum(m), the number of updates, and the
# squared length along the private coordinates of patterns that are no longer at hand.
TOTAL, SHIFT, SQUARE, MASS, UPDATES, PRIVATE = 0, 1, 2, 3, 4, 5

# More repetitions of one pattern than a small share of the updates so far would let
# ||a|| grow exponentially when the margin asked for does not exist.
SHARE = 0.02
# Times that the patterns just added are revisited before the next full sweep.
CYCLES = 20
# Patterns of each class that begin a working set, and that join it in one round.
FIRST_BATCH, BATCH = 32, 64
# Samples of one shard of a cluster that join in one round, for one problem.
JOINING = 5000


class Rows(NamedTuple):
    """Reflected patterns ``l [x - c, rho]`` as plain arrays; `lift` is c.c + rho^2.

    `cx` are the products c.x, `squares` the squared lengths of the patterns, `diag`
    those of their private coordinates, zero for a hard margin.
    """

    dense: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    signs: np.ndarray
    cx: np.ndarray
    squares: np.ndarray
    diag: np.ndarray
    centre: np.ndarray
    rho: float
    lift: float


class Rule(NamedTuple):
    """Which test and which step; the numbers that a rule does not use are ignored."""

    kind: int
    b: float = 0.0
    b_upper: float = 0.0
    rate: float = 1.0
    beta: float = 0.0
    eps: float = 0.0
    shaped: bool = False


class Order(NamedTuple):
    """How patterns are shown: `repeat` adds one several times at once (each counted).

    `cycle` revisits the patterns just added before the next full sweep, `mix` draws a
    new order per sweep.
    """

    order: np.ndarray
    seed: np.ndarray
    repeat: bool
    cycle: bool
    mix: bool


class Trace(NamedTuple):
    """Which pattern each of the first updates added, and by how much."""

    pattern: np.ndarray
    step: np.ndarray


class Limits(NamedTuple):
    """Most sweeps and updates of a call, and the fewest patterns that a sweep added.

    `most` are the sweeps of all calls together, which tell whether a kernel pays.
    """

    sweeps: int
    updates: float
    fewest: int
    most: int


class Walk(NamedTuple):
    """Coefficients m, ``v = sum m l x``, and running sums; the arrays change in place.

    It stands here, because what numba keeps on disk names the place of its types.
    """

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

    def restart(self, other: "Walk") -> None:
        """Begin again, in place, where another walk is."""
        for mine, new in zip(self, other, strict=True):
            mine[:] = new

    def without_patterns(self, diag: np.ndarray) -> "Walk":
        """Forget which patterns were added, keep what they added up to."""
        sums = self.sums.copy()
        # Weights may be so large that their squares are no numbers.
        private = np.sqrt(diag) * self.m
        with np.errstate(over="ignore"):
            sums[PRIVATE] += private @ private
        return Walk(np.empty(0), self.v, sums)
