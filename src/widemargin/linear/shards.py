r"""A margin over shards: supports come together, the certificate goes to all samples.

Every shard solves its own problem and hands in its supports. The plane of these few is
the plane of all samples as soon as no other sample lies nearer to it than they do. So
it is asked for the largest margin among the samples gathered, all shards are asked for
those that it treats worse, which join them, and so on. A convex combination of some
samples is one of all, so that its upper bound holds for all; the margin is measured
again over all shards,

.. math:: \gamma = \min_s \gamma_s, \qquad
          \frac1{\gamma^2} = \lVert w \rVert^2 + \sum_s \sum_{k \in s} 2 C_k \xi_k^2

for a hard margin and a soft one: what is certified is certified as on one machine.

Shapes: planes hold one (coef (d,), intercept, norm) for each two-class problem.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.patterns import JOINING
from widemargin._core.samples import Samples
from widemargin._core.shards import SampleShards, joined
from widemargin.linear.base import signed_rows
from widemargin.linear.certificate import plane_margin, safe_norm, slack_paid
from widemargin.linear.patterns import scaled
from widemargin.linear.spaces import LinearSpace, rounding

# Rounds at most: every one but the last brings samples that were not there.
ROUNDS = 100


class Plane(NamedTuple):
    """A stored plane, as shards are asked about it.

    A sample nearer than `wanted` joins; soft planes, at functional margin one, have it
    None, and those join that need slack.
    """

    problem: tuple[int, int]
    coef: NDArray
    intercept: float
    norm: float
    wanted: float | None


class Edge(NamedTuple):
    """How near the samples of both classes come to a plane, less its intercept."""

    low: float
    high: float

    def join(self, other: "Edge") -> "Edge":
        """Return that of both sets of samples."""
        return Edge(min(self.low, other.low), max(self.high, other.high))

    @property
    def bias(self) -> float:
        """Intercept that leaves both classes equally far away."""
        return -(self.low + self.high) / 2


def doubled(samples: Samples) -> Samples:
    """Return the samples in double precision."""
    return replace(samples, X=samples.X.astype(np.float64, copy=False))


def part_supports(
    samples: Samples, model: Any, problems: list[tuple[int, int]], seed: int
) -> Samples:
    """Solve the problems of one shard alone; return the samples that matter there."""
    mine, there = doubled(samples), np.zeros(len(samples), bool)
    data = model._prepare(mine, len(mine), seed)
    for problem in problems:
        signs = signed_rows(mine.codes, problem)[1]
        if len(signs) and signs.min() < 0 < signs.max():
            found = model._solve_problem(data, problem, samples.X.dtype, seed, None)
            there |= found.dual > 0
    return samples.take(np.flatnonzero(there))


def part_joining(
    samples: Samples, planes: list[Plane], known: NDArray
) -> tuple[Samples, list[Edge]]:
    """Return the samples of a shard that the planes treat worst, and their edges."""
    joins = np.zeros(len(samples), bool)
    fresh = ~np.isin(samples.rows, known)
    edges = []
    for plane in planes:
        rows, signs = signed_rows(samples.codes, plane.problem)
        scores = samples.X[rows].astype(np.float64) @ plane.coef
        low = np.where(signs > 0, scores, np.inf).min(initial=np.inf)
        high = np.where(signs < 0, scores, -np.inf).max(initial=-np.inf)
        edges.append(Edge(float(low), float(high)))
        values = signs * (scores + plane.intercept)
        if plane.wanted is None:
            near = plane.norm * values < 1.0
        else:
            near = values < plane.wanted
        worse = np.flatnonzero(near & fresh[rows])
        worse = worse[np.argsort(values[worse], kind="stable")[:JOINING]]
        joins[rows[worse]] = True
    return samples.take(np.flatnonzero(joins)), edges


def part_reached(
    samples: Samples, planes: list[Plane], exponent: int, price: float
) -> list[tuple[float, int]]:
    """Return what a shard leaves of the margin of each plane.

    Of a soft one, the slack that it pays for and how many samples need it.
    """
    out: list[tuple[float, int]] = []
    for plane in planes:
        rows, signs = signed_rows(samples.codes, plane.problem)
        if not len(rows):
            out.append((0.0 if plane.wanted is None else np.inf, 0))
            continue
        space = LinearSpace(scaled(samples.X[rows].astype(np.float64), exponent))
        bias = float(np.ldexp(plane.intercept, -exponent))
        if plane.wanted is not None:
            margin = plane_margin(space, signs, plane.coef, bias)
            out.append((float(np.ldexp(margin, exponent)), 0))
            continue
        norm = float(np.ldexp(plane.norm, exponent))
        private = np.ldexp(np.sqrt(0.5 / (price * samples.weights[rows])), -exponent)
        paid, n_inside = slack_paid(space, signs, plane.coef, bias, norm, private)
        out.append((float(np.ldexp(paid, -exponent)), n_inside))
    return out


def margin_of_all(plane: Plane, found: list[tuple[float, int]]) -> float:
    """Join what the shards have left of the margin of one plane."""
    values = np.array([value for value, _ in found])
    if plane.wanted is not None:
        return float(values.min())
    n_inside = sum(count for _, count in found)
    _, long = LinearSpace(np.zeros((0, len(plane.coef)))).length(plane.coef)
    size = np.hypot(plane.norm * long, safe_norm(values))
    size *= 1 + rounding(n_inside + len(found) + 8)
    return float(np.nextafter(1.0 / size, 0.0)) if size > 0.0 else 0.0


def gathered(
    given: SampleShards, model: Any, problems: list[tuple[int, int]], seed: int
) -> Samples:
    """Return the supports of all shards; where these have none, a sample of each class.

    A shard of one class has no plane, and waits for that of the others.
    """
    parts = given.shards.each(part_supports, model, problems, seed)
    first = given.some(many=100)
    found = joined([*(part for part in parts if len(part)), first])
    keep = np.unique(found.rows, return_index=True)[1]
    return replace(found.take(np.sort(keep)), classes=given.classes)
