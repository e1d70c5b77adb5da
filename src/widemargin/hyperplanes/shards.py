r"""A margin over shards: supports come together, the certificate goes to all samples.

Every shard solves its own problem and hands in its supports. The plane of these few is
the plane of all samples as soon as no other sample lies nearer to it than they do. So
it is asked for the largest margin among the samples gathered, all shards are asked for
those that it treats worse, which join them, and so on. A convex combination of some
samples is one of all, so that its upper bound holds for all; the margin is measured
again over all shards,

.. math:: \gamma = \min_s \gamma_s, \qquad
          \frac1{\gamma^2} = \lVert w \rVert^2 + \sum_s \sum_{k \in s} 2 C_k \xi_k^2

for a hard margin and a soft one, and so is the margin without a plane, from what the
classes weigh: what is certified is certified as on one machine. Every sample keeps its
own price :math:`C_k` wherever it goes, or a combination would bound another problem.

Shapes: planes hold one (coef (d,), intercept, norm) for each two-class problem.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.patterns import JOINING
from widemargin._compute.rounding import rounding
from widemargin._core import shards as blocks
from widemargin._core.lazy import without_callbacks
from widemargin._core.samples import Samples
from widemargin.hyperplanes.base import signed_rows
from widemargin.hyperplanes.certificate import (
    Slack,
    plane_margin,
    slack_alone,
    slack_paid,
    soft_margin,
)
from widemargin.hyperplanes.patterns import scaled
from widemargin.hyperplanes.problem import private_lengths
from widemargin.hyperplanes.solvers import solve
from widemargin.hyperplanes.spaces import LinearSpace

# Samples that come together beside the supports of the shards.
FIRST = 100


class NoPlane(NamedTuple):
    """Soft margin of ``w = 0`` over all samples, and the sign of its best bias."""

    margin: float
    side: float


class StoredPlane(NamedTuple):
    """A plane as it is stored, about which shards are asked.

    A sample nearer than `wanted` joins; soft planes, at functional margin one, have it
    None, and those join that need slack. `none` is what there is without a plane.
    """

    problem: tuple[int, int]
    coef: NDArray
    intercept: float
    norm: float
    wanted: float | None
    none: NoPlane


class Edge(NamedTuple):
    """How near the samples of both classes come to a plane, less its intercept."""

    low: float
    high: float


def doubled(samples: Samples) -> Samples:
    """Return the samples in double precision."""
    return replace(samples, X=samples.X.astype(np.float64, copy=False))


def part_supports(
    samples: Samples, model: Any, problems: list[tuple[int, int]], seed: int
) -> Samples:
    """Solve the problems of one shard alone; return the samples that matter there."""
    mine, there = doubled(samples), np.zeros(len(samples), bool)
    given = model._field(mine, len(mine), seed)
    for pair in problems:
        problem = model._problem(given, mine, pair, seed)
        if len(problem.rows) and problem.signs.min() < 0 < problem.signs.max():
            found = solve(problem, samples.X.dtype)
            there[found.support[found.dual > 0]] = True
    return samples.take(np.flatnonzero(there))


def part_joining(
    samples: Samples, planes: list[StoredPlane], known: NDArray
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


def part_margins(
    samples: Samples, planes: list[StoredPlane], unit: float, price: float
) -> list[float | Slack]:
    """Return what a shard leaves of the margin of each plane, in units of scaled X.

    Of a soft one, the slack that it pays for.
    """
    out: list[float | Slack] = []
    for plane in planes:
        rows, signs = signed_rows(samples.codes, plane.problem)
        if not len(rows):
            out.append(np.inf if plane.wanted is not None else Slack(0.0, 0))
            continue
        space = LinearSpace(scaled(samples.X[rows].astype(np.float64), unit))
        bias, norm = plane.intercept / unit, plane.norm * unit
        if plane.wanted is not None:
            out.append(plane_margin(space, signs, plane.coef, bias))
            continue
        private = private_lengths(price * samples.weights[rows], unit)
        out.append(slack_paid(space, signs, plane.coef, bias, norm, private))
    return out


def ask_all(
    given: blocks.SampleShards,
    planes: list[StoredPlane],
    known: NDArray,
    unit: float,
    price: float,
) -> tuple[list[StoredPlane], list[float], list[Samples]]:
    """Return the planes, their margins among all samples, and samples that should join.

    Hard planes come back in the middle between the classes, and where there is no plane
    the bias is that of all samples.
    """
    parts = given.each(part_joining, planes, known)
    joining = [part for part, _ in parts if len(part)]
    for i, plane in enumerate(planes):
        if plane.wanted is not None:
            low = min(edges[i].low for _, edges in parts)
            high = max(edges[i].high for _, edges in parts)
            planes[i] = plane._replace(intercept=-(low + high) / 2)
        elif plane.norm == 0.0:
            planes[i] = plane._replace(intercept=plane.none.side)
    found = given.each(part_margins, planes, unit, price)
    columns = zip(planes, zip(*found, strict=True), strict=True)
    margins = [margin_of_all(plane, seen, unit) for plane, seen in columns]
    return planes, margins, joining


def margin_of_all(plane: StoredPlane, seen: Sequence[Any], unit: float) -> float:
    """Join what the shards have left of the margin of one plane, in units of X."""
    if plane.wanted is not None:
        return float(min(seen)) * unit
    none = plane.none.margin / unit * (1 - rounding(8))
    _, long = LinearSpace(np.zeros((0, len(plane.coef)))).length(plane.coef)
    return float(soft_margin(plane.norm * unit * long, seen, none)) * unit


def no_planes(
    given: blocks.SampleShards,
    problems: list[tuple[int, int]],
    price: float,
    unit: float,
) -> list[NoPlane]:
    """Return what there is without a plane of each problem, from what classes weigh."""
    if not np.isfinite(price):
        return [NoPlane(0.0, 0.0)] * len(problems)
    totals = given.totals / given.heaviest * (1 + rounding(given.n_rows + 8))
    least = float(private_lengths(np.array([price * given.heaviest]), unit)[0])
    nones = []
    for positive, negative in problems:
        rest = np.delete(totals, positive).sum() if negative < 0 else totals[negative]
        none = float(slack_alone(totals[positive], rest, least)) * unit
        nones.append(NoPlane(none, float(np.sign(totals[positive] - rest))))
    return nones


def gathered(
    given: blocks.SampleShards, model: Any, problems: list[tuple[int, int]], seed: int
) -> Samples:
    """Return the supports of all shards; where these have none, a sample of each class.

    A shard of one class has no plane, and waits for that of the others.
    """
    model = without_callbacks(model)
    # The height is of the size of all samples, and changes no plane of a free bias.
    model.intercept_scaling = None
    parts = given.each(part_supports, model, problems, seed)
    first = given.few(FIRST)
    found = blocks.joined([*(part for part in parts if len(part)), first])
    # In the order that they were given in: all of them are solved for as here.
    once = np.unique(found.rows, return_index=True)[1]
    return replace(found.take(once), classes=given.classes)
