r"""Sweeps of a perceptron over few patterns, without a compiler.

The rules are those of :mod:`widemargin._compute.sequential`, which stands in where
patterns are many. A pattern that is added moves the products of all others with a,

.. math:: s_j = y_j \cdot a, \qquad s \leftarrow s + \eta K_k, \qquad
          K_{kj} = l_k l_j \bigl((x_k - c) \cdot (x_j - c) + \rho^2\bigr) + [j = k] D_k,

so that the next one that fails its test is found in one comparison of arrays. Shapes:
as in :mod:`widemargin._compute.patterns`; K (n, n); s (n,).
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from widemargin._compute.engines import formula
from widemargin._compute.patterns import (
    CYCLES,
    DYNAMIC,
    FIXED_LENGTH,
    FREE_LENGTH,
    INFEASIBLE,
    MASS,
    OUT_OF_SWEEPS,
    OUT_OF_UPDATES,
    PRIVATE,
    QUIET,
    RELAXATION,
    SHARE,
    SHIFT,
    SQUARE,
    STANDARD,
    TOTAL,
    UPDATES,
    Limits,
    Order,
    Rows,
    Rule,
    Trace,
)

# Squared lengths beyond this are brought back, and by how much.
_LARGE, _SMALLER = 1e200, 1e-90


class _Sweeper:
    """Patterns, their products, and the vector on its way, in arrays of the walk."""

    def __init__(self, rows: Rows, factors: NDArray, walk: Any, rule: Rule) -> None:
        self.rows, self.factors, self.rule = rows, factors, rule
        self.m, self.v, self.sums = walk
        n = len(rows.signs)
        X: Any = rows.dense
        if len(rows.indptr):
            given = rows.data, rows.indices, rows.indptr
            X = sp.csr_array(given, shape=(n, len(self.v)))
        products = X @ X.T
        K = products.toarray() if sp.issparse(products) else products
        K = K - rows.cx - rows.cx[:, None] + rows.lift
        self.K = rows.signs[:, None] * K * rows.signs
        self.K[np.arange(n), np.arange(n)] += rows.diag
        self.X, self.squares = X, rows.squares + rows.diag
        self.begin()

    def begin(self) -> None:
        """Compute products from the vector: what adds up drifts."""
        rows, sums = self.rows, self.sums
        scores = np.asarray(self.X @ self.v) - sums[SHIFT]
        scores = scores + sums[TOTAL] * (rows.lift - rows.cx)
        self.s = rows.signs * scores + rows.diag * self.m
        self.kept = self.m.copy()

    def end(self) -> None:
        """Bring the vector, and its length, up to the coefficients."""
        rows, sums = self.rows, self.sums
        self.v += self.X.T @ (rows.signs * (self.m - self.kept))
        w = self.v - sums[TOTAL] * rows.centre
        own = rows.diag @ (self.m * self.m) + sums[PRIVATE]
        sums[SQUARE] = w @ w + (rows.rho * sums[TOTAL]) ** 2 + own
        self.begin()

    def shrink(self) -> None:
        """Bring a vector back that is about to leave the numbers."""
        for values in (self.m, self.kept, self.v, self.s):
            values *= _SMALLER
        self.sums[[TOTAL, SHIFT, MASS]] *= _SMALLER
        self.sums[[SQUARE, PRIVATE]] *= _SMALLER**2

    @property
    def limit(self) -> float:
        """Patterns fail whose product with a is this or less."""
        rule, sums = self.rule, self.sums
        if rule.kind in (STANDARD, RELAXATION):
            return rule.b
        if rule.kind == DYNAMIC:
            mass = float(sums[MASS])
            return (1.0 - rule.eps) * float(sums[SQUARE]) / mass if mass else 0.0
        return rule.beta * math.sqrt(max(float(sums[SQUARE]), 0.0))

    def first_to_fail(self, patterns: NDArray) -> int:
        """Return the place of the first of these patterns that fails, -1 for none."""
        fails = self.s[patterns] <= self.limit
        place = int(fails.argmax()) if len(fails) else 0
        return place if len(fails) and fails[place] else -1

    def step(self, k: int) -> float:
        """Return what the rule adds of pattern k."""
        rule, s, n = self.rule, float(self.s[k]), float(self.squares[k])
        square, f = float(self.sums[SQUARE]), float(self.factors[k])
        if rule.kind == STANDARD:
            return rule.rate * f
        if rule.kind == RELAXATION:
            return rule.rate * f * (rule.b_upper - s) / n
        if rule.shaped and square > 0.0:
            f *= 1.0 - rule.beta * s / (math.sqrt(square) * n)
        if rule.kind == FIXED_LENGTH:
            return rule.rate * f * math.sqrt(square) / rule.beta
        return f

    def repetitions(self, k: int, step: float) -> float:
        """How often pattern k would be presented in a row before it passes its test."""
        rule, s, n = self.rule, float(self.s[k]), float(self.squares[k])
        q, mass = float(self.sums[SQUARE]), float(self.sums[MASS])
        if rule.kind == FREE_LENGTH:
            # smallest t with s + t n > beta ||a + t y||
            short = n - rule.beta * rule.beta
            if short <= 0.0:
                return 1.0
            root = s * s - n * (s * s - rule.beta * rule.beta * q) / short
            times = (-s + math.sqrt(max(root, 0.0))) / (n * step)
        else:
            # smallest t with (s + t n)(mass + t) > (1 - eps) ||a + t y||^2
            p = (s + n * mass - 2.0 * (1.0 - rule.eps) * s) / (rule.eps * n)
            r = (s * mass - (1.0 - rule.eps) * q) / (rule.eps * n)
            times = (-p + math.sqrt(max(p * p - 4.0 * r, 0.0))) / (2.0 * step)
        most = math.floor(1.0 + SHARE * float(self.sums[UPDATES]))
        # Not `math.floor`: overflow of a square is infinite, and no error.
        return max(1.0, min(float(np.floor(times)) + 1.0, most))

    def add(self, k: int, repeat: bool, trace: Trace) -> None:
        """Add pattern k to the vector."""
        sums, s, n = self.sums, float(self.s[k]), float(self.squares[k])
        step, times = self.step(k), 1.0
        if repeat and sums[SQUARE] > 0.0:
            times = self.repetitions(k, step)
        updates = int(sums[UPDATES])
        if updates < len(trace.pattern):
            trace.pattern[updates], trace.step[updates] = k, step
        step *= times
        move = step * self.rows.signs[k]
        self.s += step * self.K[k]
        self.m[k] += step
        sums[TOTAL] += move
        sums[SHIFT] += move * self.rows.cx[k]
        sums[SQUARE] += 2.0 * step * s + step * step * n
        sums[MASS] += step
        sums[UPDATES] += times
        if sums[SQUARE] > _LARGE:
            self.shrink()

    def show(self, patterns: NDArray, ends: Any, repeat: bool, trace: Trace) -> list:
        """Show patterns in order, those that fail are added; return them.

        It is over where `ends` says so, after an addition.
        """
        added, at = [], 0
        while at < len(patterns):
            place = self.first_to_fail(patterns[at:])
            if place < 0:
                break
            at += place + 1
            added.append(int(patterns[at - 1]))
            self.add(added[-1], repeat, trace)
            if ends():
                break
        return added


@lru_cache
def _jumps(n: int) -> NDArray:
    """Return the states 1, ..., n steps after each single bit, (64, n).

    A step of xorshift64* is linear in the bits: the states of a seed are those of its
    bits, added without carry.
    """
    x = np.uint64(1) << np.arange(64, dtype=np.uint64)
    states = np.empty((64, n), np.uint64)
    for i in range(n):
        x = x ^ x >> np.uint64(12)
        x ^= x << np.uint64(25)
        x ^= x >> np.uint64(27)
        states[:, i] = x
    return states


def shuffle(order: NDArray, seed: NDArray) -> None:
    """Permute as the kernel does, in place: both see samples in the same order."""
    n = len(order)
    if n < 2:
        return
    bits = np.flatnonzero(seed[0] >> np.arange(64, dtype=np.uint64) & np.uint64(1))
    # Sizes differ from pair to pair: few tables serve all.
    steps = _jumps(1 << (n - 2).bit_length())[bits, : n - 1]
    states = np.bitwise_xor.reduce(steps, axis=0)
    draws = states * np.uint64(2685821657736338717) >> np.uint64(11)
    places = (draws % np.arange(n, 1, -1, dtype=np.uint64)).tolist()
    shown = order.tolist()
    for i, j in zip(range(n - 1, 0, -1), places, strict=True):
        shown[i], shown[j] = shown[j], shown[i]
    order[:], seed[0] = shown, states[-1]


# What leaves the numbers is refused where planes are stored.
@formula
@np.errstate(over="ignore", invalid="ignore")
def sweep(
    rows: Rows,
    factors: NDArray,
    walk: Any,
    rule: Rule,
    show: Order,
    limits: Limits,
    trace: Trace,
) -> tuple[int, int, int, int]:
    """Sweep over the patterns until a full sweep is quiet; the walk changes in place.

    `limits` has the most sweeps and updates, and the smallest number of patterns that a
    sweep has added so far; sweeps that add no fewer count as idle. Returns (status,
    sweeps, fewest, idle), idle since the last improvement: QUIET, OUT_OF_SWEEPS,
    OUT_OF_UPDATES, or INFEASIBLE when ``||a|| / sum(m) <= beta`` proves that no vector
    has the margin asked for.
    """
    one, sums = _Sweeper(rows, factors, walk, rule), walk[2]
    # A margin of zero is refuted only by a = 0, which rounding can fake.
    fixed = rule.beta > 0.0 and rule.kind in (FREE_LENGTH, FIXED_LENGTH)
    target = rule.beta if fixed else -1.0

    def is_refuted() -> bool:
        return math.sqrt(max(float(sums[SQUARE]), 0.0)) <= target * sums[MASS]

    def ends() -> bool:
        return is_refuted() or sums[UPDATES] >= limits.updates

    sweeps, idle, fewest = 0, 0, limits.fewest
    while sweeps < limits.sweeps:
        if show.mix:
            shuffle(show.order, show.seed)
        if sums[UPDATES] >= limits.updates:
            return OUT_OF_UPDATES, sweeps, fewest, idle
        added = one.show(show.order, ends, show.repeat, trace)
        is_last = bool(added) and added[-1] == show.order[-1]
        if sums[UPDATES] >= limits.updates and not (is_last or is_refuted()):
            one.end()
            return OUT_OF_UPDATES, sweeps, fewest, idle
        sweeps += 1
        if not added:
            return QUIET, sweeps, fewest, 0
        idle += 1
        if len(added) < fewest:
            fewest, idle = len(added), 0
        touched, rounds = np.array(added), 0
        while show.cycle and rounds < CYCLES and sums[UPDATES] < limits.updates:
            rounds += 1
            again = one.show(touched, is_refuted, show.repeat, trace)
            if not again or is_refuted():
                break
        one.end()
        if is_refuted():
            return INFEASIBLE, sweeps, fewest, idle
    return OUT_OF_SWEEPS, sweeps, fewest, idle
