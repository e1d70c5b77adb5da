r"""Nearest neighbours on a device: a cheap lower bound, then what it cannot exclude.

The bound is that of :mod:`widemargin.neighbors.pruned`: the distance of points and
frames projected on leading axes. Its products are TF32; the rows are rounded to TF32
beforehand, so that the error of a product per unit of norm is known,

    e = 2 max |x - x^| / |x| + p 2^-23,

and goes into the bound (:mod:`.pairs`). The k + SEEDS references of the smallest bounds
have upper bounds from float32 products; the k-th is a radius. References whose bound
lies within it get bounds from float32 products, projected and then whole, and those
that can still be among the k nearest their distance in float64 from the residual. The
answer is ordered by (distance, index) and is that of computing every distance in
float64.

Plain squared distances on a device, in float64: to prototypes, to neighbours.

An expanded square about the mean of the references is wrong by rounding of the norms;
where that is not small beside the distance, the difference itself is squared. Products
in float64 cost a device little for the few references these are used with.

Of squared distances the kernel densities of classes are made, in log space.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from widemargin._compute.device.bounds import (
    Side,
    bounds_kernel,
    stages_for,
    within,
)
from widemargin._compute.device.kernels import (
    compile_ahead,
    compiling,
    torch_alone,
    triton_for,
)
from widemargin._compute.device.pairs import (
    GATHERED,
    MOST_NUMBERS,
    MOST_ROWS,
    Ends,
    chunk_size,
    chunk_until_fits,
    error_of,
    floor_of,
    frames_kernel,
    gram_schmidt,
    listed,
    listed_bounds,
    pair_distances,
    pair_kernel,
    paired_distances,
    products_in,
    stacked_products,
    tail,
    tail_kernel,
)
from widemargin._compute.formulas import on_a_shared_frame, worth_a_bound
from widemargin._compute.machine import MOST_DISTANCES
from widemargin._compute.nearest import nearest_two_classes
from widemargin._compute.progress import announce
from widemargin._compute.rounding import product_error

SEEDS = 8
# Pairs that do not wait for kernels: beside the threads that compile, torch alone met
# 10^7 in 2.7 s, and compilation took 5.4 (benchmarks/gpu.md).
FEW_PAIRS = 2 * 10**7
# The largest matrix whose eigenvectors are worth their time.
MAX_AXES = 4096
# One in so many references gives the radius for all; so many are needed per seed.
STEP, FEWEST = 8, 32
# Places for references of a query that a first radius leaves, and how often those of
# whom there are more are asked again, by a better one.
ROOM, ROUNDS = 1024, 2
# Share of a density that may be left out.
NEGLECTED = 1e-6
# One in so many references of a class, listed one by one, costs as much as all; the
# same where a kernel lists them and gathers nothing. Entries of lists held at once.
GATHERED_SHARE, LISTED_SHARE, LIST_ENTRIES = 16, 4, 2**29
# Relative size below which a distance of a density is taken from its residual.
DOUBTFUL = 1e-3


def rounded(rows: Tensor) -> tuple[Tensor, Tensor, float]:
    """Rows (n, m, p) in float16, what the first of each was divided by, and the error.

    Divided by a power of two first rows are of length between 1/2 and 1; all others
    are directions. The error is the largest of a row, per unit of its length.
    """
    norms = torch.linalg.vector_norm(rows, dim=-1)
    units = torch.ldexp(torch.ones_like(norms[:, 0]), torch.frexp(norms[:, 0])[1])
    scaled = torch.cat([rows[:, :1] / units[:, None, None], rows[:, 1:]], 1)
    halves = scaled.half()
    lengths = torch.linalg.vector_norm(scaled, dim=-1)
    errors = torch.linalg.vector_norm(scaled - halves.float(), dim=-1)
    relative = errors / torch.where(lengths > 0, lengths, 1)
    return halves, units, float(relative.max()) if len(rows) else 0.0


def leading_axes(points: Tensor, count: int) -> Tensor:
    """Leading principal axes (count, d) of centred points, orthonormal rows."""
    with products_in(tf32=False):
        scatter = points.double().T @ points.double()
    return torch.linalg.eigh(scatter)[1][:, -count:].T.contiguous()


@dataclass(frozen=True)
class Shadow:
    """Projected samples as they are, and rounded, with the error of the rounding.

    `halves` (n, 1 + l, p) are the rows in float16, points divided by `units` (n,).
    """

    exact: Ends
    halves: Tensor
    units: Tensor
    error: float

    @cached_property
    def rough(self) -> Ends:
        """The rounded samples in float32, which TF32 holds without an error."""
        hats = self.halves.float()
        hats[:, 0] *= self.units[:, None]
        exact = self.exact
        return Ends(exact.points, hats, exact.norms, exact.coefficients)

    def take(self, rows: slice | Tensor) -> "Shadow":
        """Return some of the samples."""
        exact, halves = self.exact.take(rows), self.halves[rows]
        return Shadow(exact, halves, self.units[rows], self.error)

    @classmethod
    def cast(cls, ends: Ends, axes: Tensor) -> "Shadow":
        """Project points and frames; the frames are made orthonormal again."""
        n, n_tangents, _ = ends.frames.shape
        points = (ends.points.double() @ axes.T).float()
        frames = torch.empty((n, n_tangents, len(axes)), device=points.device)

        def fill(rows: slice) -> None:
            shadows = ends.frames[rows].double() @ axes.T
            # Directions are kept down to rounding: one too few breaks the bound.
            frames[rows] = gram_schmidt(shadows, 1e-14).float()

        numbers = max(1, 4 * n_tangents * axes.shape[1])
        chunk_until_fits(max(1, GATHERED // numbers), n, fill)
        exact = Ends.prepare(points, frames, torch.zeros_like(points[0]))
        return cls(exact, *rounded(exact.rows))


def launches(
    points: Tensor, height: int, n_components: int | None
) -> dict[Any, Callable[[], Any]]:
    """Kernels of a search with tangents at both ends, each with a call of it.

    `height` is 1 + the number of tangents. What takes longest to compile comes first.
    """
    n_tangents = height - 1
    zeros = partial(torch.zeros, device=points.device)
    one = zeros(1, dtype=torch.long)
    sample, width = zeros(1, height, points.shape[1]), n_components or points.shape[1]
    ends = Ends(sample[:, 0], sample, zeros(1), zeros(1, n_tangents))
    products = zeros(1, height, height, 1)
    found: dict[Any, Callable[[], Any]] = {}
    if n_components and stages_for(points, n_tangents, n_tangents, width):
        shadow = Shadow(ends, zeros(1, height, width).half(), zeros(1), 0.0)
        x, y = Side.of_queries(shadow), Side.of_references(shadow)
        found[bounds_kernel(n_tangents, n_tangents)] = lambda: within(
            x, y, zeros(1), zeros(1), 1, 1.0, 1.0
        )
    found[pair_kernel(n_tangents, n_tangents)] = lambda: listed_bounds(
        ends, one, ends, one, 1.0
    )
    found[tail_kernel(n_tangents, n_tangents)] = lambda: tail(
        products, zeros(1), zeros(1, n_tangents), zeros(1), zeros(n_tangents, 1),
        1.0, 1.0, 1.0,
    )  # fmt: skip
    small = zeros(1, n_tangents, width, dtype=torch.float64)
    if small.shape[1] <= MOST_ROWS and width <= MOST_NUMBERS:
        found[frames_kernel()] = lambda: gram_schmidt(small, 1e-14)
    return found


def components_on_device(n_features: int) -> int:
    """Return how many dimensions a bound should have here, a multiple of 32.

    Products are cheap beside what a bound leaves open, but slow where rows are not
    aligned.
    """
    return max(32, 32 * round(14 * float(np.cbrt(n_features)) / 32))


def tangent_index(
    points: Tensor, frames: Tensor, references: Any, codes: Any, n_classes: int,
    metric: Any, wanted: Any,
) -> "DeviceSearch":  # fmt: skip
    """As `neighbors.base.tangent_index`."""
    n, d = points.shape
    n_components = components_on_device(d)
    bounds = wanted.algorithm in ("exact", "sums") and d <= MAX_AXES
    # A frame that all share is folded into the points; densities of points without
    # tangents are products alone.
    bounds = bounds and not (references.is_shared and references.n_tangents)
    bounds = bounds and (wanted.algorithm == "exact" or references.n_tangents > 0)
    # Of references with one frame, or none, all distances are a product.
    plain = references.is_shared or not references.n_tangents
    reranks = wanted.algorithm == "rerank"
    reranks = reranks and not (plain and wanted.candidates is None)
    return DeviceSearch(
        references, codes, n_classes, metric,
        n_components=n_components if bounds and worth_a_bound(n, d, n_components)
        else None,
        n_candidates=wanted.n_candidates, reranks=reranks,
    )  # fmt: skip


class DeviceSearch:
    """References on a device: an index, see `widemargin.neighbors.index`.

    Answers are NumPy arrays: distances in float64 from the points and frames as they
    are.

    Parameters
    ----------
    references : Bundle
        Of tensors, ordered by class. One frame V that all samples have is folded into
        the points: |delta|^2 - |V delta|^2/(1+k) is the plain distance of points whose
        part along V is shrunk by sqrt(k/(1+k)).
    codes : ndarray of shape (n,)
        Their classes.
    n_classes : int
    metric : TangentMetric
        Not that of midpoints.
    n_components : int or None
        Dimensions of the bound; None computes everything.
    n_candidates : int
        How many candidates there are.
    reranks : bool
        Whether these alone are looked at: those nearest with tangents at one end.
    """

    # What is summed is in float64 where that matters.
    rounding = 0.0

    def __init__(
        self,
        references: Any,
        codes: np.ndarray,
        n_classes: int,
        metric: Any,
        *,
        n_components: int | None = None,
        n_candidates: int = 1,
        reranks: bool = False,
    ) -> None:
        self.references, self.codes, self.n_classes = references, codes, n_classes
        self.metric, self.n_candidates, self.reranks = metric, n_candidates, reranks
        self.present, self.starts = np.unique(codes, return_index=True)
        points, frames = references.points, references.frames
        self.sides, self.spring = metric.sides, float(metric.spring)
        self.shared: Tensor | None = None
        if not frames.shape[1]:
            self.sides = "reference"
        elif references.is_shared:
            self.shared = gram_schmidt(frames[:1].double(), 1e-14)[0]
            self.sides, self.spring = on_a_shared_frame(self.sides, self.spring)
            frames = frames[:, :0]
        self.centre = points.double().mean(0)
        self.shrinkage = 1 - (self.spring / (1 + self.spring)) ** 0.5
        self.axes = None
        height = 1 + frames.shape[1]
        kernels = {}
        if self.sides == "both" and height > 1 and triton_for(points) is not None:
            kernels = launches(points, height, n_components)
        self._stacks: dict[str, Tensor] = {}
        self._sides: dict[int, Side] = {}
        new = compile_ahead(kernels, points.device)
        told = announce("kernels") if new else nullcontext()
        with told, torch_alone(compiling()):
            self.ends = self._prepared(points, frames)
            if n_components is not None:
                self.axes = leading_axes(self.ends.points, n_components)
                self.shadow = Shadow.cast(self.ends, self.axes)

    def max_queries(self) -> int:
        """How many queries to ask about at once: as many as keep the device busy.

        Without bounds all distances are held; with them, lists that cut themselves.
        """
        n, height, d = self.ends.rows.shape
        most = 2**28 // (height * d)
        return max(1, min(most, MOST_DISTANCES // n) if self.axes is None else most)

    def query(
        self, queries: Any, n_neighbors: int, n_jobs: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Distances, ascending, and positions of the nearest; ties by position."""
        ends = self._ends_of(queries)
        if not self.reranks:
            d2, there = (a.cpu().numpy() for a in self.nearest(*ends, n_neighbors))
        else:
            d2, there = self._likely(ends, n_neighbors)
            order = np.lexsort((there, d2), axis=1)[:, :n_neighbors]
            d2, there = (np.take_along_axis(a, order, axis=1) for a in (d2, there))
        return np.sqrt(d2), there

    def candidates(
        self, queries: Any, at_least: int = 1, n_jobs: Any = None, apart: Any = None
    ) -> np.ndarray:
        """Positions (n, n_candidates) of the nearest, ascending."""
        count = min(len(self.codes), max(self.n_candidates, at_least))
        return np.sort(self.query(queries, count)[1], axis=1)

    def class_distances(self, queries: Any, n_jobs: int | None = None) -> np.ndarray:
        """Squared distances (n, n_classes) to the nearest of every class."""
        ends, out = (
            self._ends_of(queries),
            np.full((len(queries), self.n_classes), np.inf),
        )
        if self.reranks:
            d2, there = self._likely(ends, 1)
            for c in self.present:
                own = np.where(self.codes[there] == c, d2, np.inf)
                out[:, c] = own.min(axis=1)
            return out
        stops = np.append(self.starts[1:], len(self.codes))
        for c, start, stop in zip(self.present, self.starts, stops, strict=True):
            d2, _ = self.part(slice(int(start), int(stop))).nearest(*ends, 1)
            out[:, c] = d2.cpu().numpy()[:, 0]
        return out

    def two_class_distances(
        self, queries: Any, wanted: np.ndarray | None, n_jobs: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances to the nearest of the wanted class, and of all others."""
        return nearest_two_classes(self.class_distances(queries), wanted)

    def measured(
        self, queries: Any, at_least: int = 1, n_jobs: Any = None, apart: Any = None
    ) -> tuple[Tensor, None]:
        """Squared distances of all pairs; infinite in a group that is to be `apart`."""
        d2 = self.metric.squared_distances(queries, self.references)
        if apart is not None:
            same = apart[0][:, None] == apart[1]
            d2[torch.as_tensor(same, device=d2.device)] = torch.inf
        return d2, None

    def sum_exp(
        self, queries: Any, log_weights: np.ndarray, gamma: float, n_jobs: Any = None
    ) -> np.ndarray:
        """(n, n_classes) logarithms of the sums of weighted bumps of every class."""
        if self.axes is None:
            return self.sums(*self.measured(queries), log_weights, [gamma])[0]
        weights = torch.as_tensor(log_weights, device=self.ends.rows.device)
        ends, starts = self._ends_of(queries), self.starts.tolist()
        out = np.full((len(queries), self.n_classes), -np.inf)
        found = self.log_densities(*ends, starts, weights, float(gamma))
        out[:, self.present] = found.cpu().numpy()
        return out

    def sums(
        self, d2: Tensor, places: None, log_weights: np.ndarray, gammas: Any
    ) -> np.ndarray:
        """(n_gammas, n, n_classes), of what was `measured`."""
        out = np.full((len(gammas), len(d2), self.n_classes), -np.inf)
        found = log_sums(d2, self.starts, log_weights, gammas)
        out[:, :, self.present] = found.cpu().numpy()
        return out

    def _ends_of(self, queries: Any) -> tuple[Tensor, Tensor]:
        bare = self.sides == "reference"
        return queries.points, queries.frames[:, :0] if bare else queries.frames

    def _likely(self, ends: tuple[Tensor, Tensor], k: int) -> tuple[Any, Any]:
        count = min(len(self.codes), max(self.n_candidates, k))
        d2, there = self.likely(*ends, count)
        return d2.cpu().numpy(), there.cpu().numpy()

    def _prepared(self, points: Tensor, frames: Tensor) -> Ends:
        if self.shared is None:
            return Ends.prepare(points, frames, self.centre)
        centred = points.double() - self.centre
        along = (centred @ self.shared.T) @ self.shared
        folded = (centred - self.shrinkage * along).to(points.dtype)
        rows, nothing = folded[:, None], folded[:, :0]
        return Ends(points, rows, (folded.double() ** 2).sum(1).to(rows.dtype), nothing)

    def part(self, rows: slice) -> "DeviceSearch":
        """Return the search among some of the references."""
        some = copy(self)
        some.ends, some._stacks, some._sides = self.ends.take(rows), {}, {}
        if self.axes is not None:
            some.shadow = self.shadow.take(rows)
        return some

    def _stack(self, name: str, ends: Ends) -> Tensor:
        if name not in self._stacks:
            self._stacks[name] = ends.stack(tangent_major=True)
        return self._stacks[name]

    def _slack(self, x: Ends, i: Any, y: Ends, j: Any) -> Tensor | float:
        """Return what folding a shared frame may have rounded, in units of the points.

        Of the pairs that rows i of x make with rows j of y; 0 where nothing was folded.
        """
        if self.shared is None:
            return 0.0
        x_whole, y_whole = (
            torch.linalg.vector_norm(rows.double() - self.centre, dim=-1)
            for rows in (x.raw[i], y.raw[j])
        )
        folded = x.norms[i].double() ** 0.5 + y.norms[j].double() ** 0.5
        rounding = 2 * product_error(np.float64, x.raw.shape[1])
        return (rounding * (x_whole + y_whole) * folded).to(x.rows.dtype)

    def _error(self, shadow: Shadow) -> float:
        """Error of a product of rounded rows, summed in float32, per unit of norm."""
        p = shadow.halves.shape[-1]
        return shadow.error + self.shadow.error + p * 2.0**-23

    def _bounds(
        self, queries: Ends, shadow: Shadow | None, rough: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """(n_q, n) lower bounds of the squared distances; all products if whole.

        If `rough`, the rounding is not taken off.
        """
        spring, sides = self.spring, self.sides
        if shadow is None:
            x, y, kind = queries, self.ends, "whole"
            error, tf32 = 0.0 if rough else error_of(x.rows), False
        else:
            x, y, kind = shadow.rough, self.shadow.rough, "rough"
            error, tf32 = self._error(shadow), True
        if sides == "both":
            products = stacked_products(x, y, self._stack(kind, y), tf32)
            bounds, _ = tail(
                products, x.norms, x.coefficients, y.norms,
                y.coefficients.T.contiguous(), spring,
                floor_of(spring, products.dtype), error,
            )  # fmt: skip
            # Products of projections tell nothing of the distance from above.
            return bounds, products if shadow is None else None
        parts: list[Any] = []
        scale = x.norms[:, None] + y.norms
        if sides in ("reference", "mean"):
            G = stacked_products(x.frameless(), y, self._stack(kind, y), tf32)[:, 0]
            b = G[:, 1:] - y.coefficients.T
            parts.append(one_end(G[:, 0], b, scale, spring, error))
        if sides in ("query", "mean"):
            bare = y.frameless()
            G = stacked_products(x, bare, self._stack(kind + " points", bare), tf32)
            a = x.coefficients[:, :, None] - G[:, 1:, 0]
            parts.append(one_end(G[:, 0, 0], a, scale, spring, error))
        slack = self._slack(queries, np.s_[:, None], self.ends, np.s_[:])
        return sum(parts) / len(parts) - slack, None

    def nearest(
        self, points: Tensor, frames: Tensor, n_neighbors: int
    ) -> tuple[Tensor, Tensor]:
        """Squared distances in float64, ascending, and indices; ties by index.

        Few pairs do not wait for kernels that are being compiled: torch alone finds
        the same neighbours sooner.
        """
        few = len(points) * len(self.ends) <= FEW_PAIRS
        with torch_alone(few and compiling()):
            return self._nearest(points, frames, n_neighbors)

    def _nearest(
        self, points: Tensor, frames: Tensor, n_neighbors: int
    ) -> tuple[Tensor, Tensor]:
        n, n_y = len(points), len(self.ends)
        queries = self._prepared(points, frames)
        shadow = None if self.axes is None else Shadow.cast(queries, self.axes)
        radius = torch.empty(n, dtype=points.dtype, device=points.device)
        found: list[tuple[Tensor, Tensor]] = []
        rest = torch.arange(n, device=points.device)
        if shadow is not None and self._lists(shadow, n_neighbors):
            *first, radius, rest = self._listed(queries, shadow, n_neighbors)
            radius = radius.to(points.dtype)
            found.append((first[0], first[1]))

        def look(rows: slice) -> None:
            at = rest[rows]
            some = queries.take(at)
            bounds, products = self._bounds(
                some, None if shadow is None else shadow.take(at)
            )
            limit = self._radius(some, bounds, None, n_neighbors, products)
            i, j = (bounds <= limit[:, None]).nonzero(as_tuple=True)
            radius[at] = limit
            found.append((at[i], j))

        x_rows = 1 if self.sides == "reference" else 1 + frames.shape[1]
        y_rows = 1 if self.sides == "query" else 1 + self.ends.frames.shape[1]
        if self.sides == "mean":
            x_rows, y_rows = 1, x_rows + y_rows
        chunk_until_fits(chunk_size(n_y, x_rows, y_rows, queries.rows), len(rest), look)
        i, j = (torch.cat(parts) for parts in zip(*found, strict=True))
        if shadow is not None:
            near, _ = self._paired(shadow.exact, i, self.shadow.exact, j)
            kept = near <= radius[i]
            i, j = i[kept], j[kept]
        if len(i) > n * n_neighbors:
            i, j = self._closer(queries, i, j, n_neighbors)
        return smallest(i, j, self._exact(queries, i, j), n, n_neighbors)

    def likely(
        self, points: Tensor, frames: Tensor, count: int
    ) -> tuple[Tensor, Tensor]:
        """(n, count) squared distances in float64 to likely references, and indices.

        Likely are those nearest with tangents at one end only.
        """
        queries, end = (
            self._prepared(points, frames),
            "query" if self.sides == "query" else "reference",
        )
        shape = len(points), count
        there = torch.empty(shape, dtype=torch.long, device=points.device)
        cheap = self if self.sides == end else self.part(slice(None))
        cheap.sides = end

        def look(rows: slice) -> None:
            bounds, _ = cheap._bounds(queries.take(rows), None, rough=True)
            there[rows] = bounds.topk(count, dim=1, largest=False).indices

        width = 1 + max(frames.shape[1], self.ends.frames.shape[1])
        chunk_until_fits(
            chunk_size(len(self.ends), 1, width, queries.rows), len(points), look
        )
        i = torch.arange(len(points), device=there.device).repeat_interleave(count)
        d2 = self._exact(queries, i, there.flatten())
        return d2.view(there.shape), there

    def log_densities(
        self, points: Tensor, frames: Tensor, starts: list[int], log_weights: Tensor,
        gamma: float,
    ) -> Tensor:  # fmt: skip
        """(n, n_classes) logarithms of sum w exp(-gamma d^2), in float64.

        Class c has the references from ``starts[c]`` on. What the bound says is below
        NEGLECTED of a class's sum, all of it together, is left out; where that is
        little, every distance is computed.
        """
        queries = self._prepared(points, frames)
        shadow = None if self.axes is None else Shadow.cast(queries, self.axes)
        shape = len(points), len(starts)
        out = torch.empty(shape, dtype=torch.float64, device=points.device)
        edges = [*starts, len(self.ends)]
        width = (1 + frames.shape[1]) * (1 + self.ends.frames.shape[1])
        for c, start in enumerate(starts):
            own = slice(start, edges[c + 1])
            some, weights = self.part(own), log_weights[own].to(points.dtype)

            def look(rows: slice, c=c, some=some, weights=weights) -> None:
                x = queries.take(rows)
                seen = None if shadow is None else shadow.take(rows)
                out[rows, c] = some._log_sums(x, seen, weights, gamma)

            size = chunk_size(len(some.ends), 1, width, queries.rows)
            if shadow is not None and some._lists(shadow, 1):
                # Lists, of a share of the references at most.
                size = max(1, LIST_ENTRIES // len(some.ends))
            chunk_until_fits(size, len(points), look)
        return out

    def _log_sums(
        self, x: Ends, shadow: Shadow | None, weights: Tensor, gamma: float
    ) -> Tensor:
        n_y, depth = len(self.ends), math.log(len(self.ends) / NEGLECTED)
        if shadow is not None and self._lists(shadow, 1):
            i, j, least, rest = self._bumps_listed(x, shadow, weights, gamma, depth)
            base, sums = least.double(), self._sums_of
            out = base + torch.log(sums(x, i, j, weights, gamma, base))
            if len(rest):
                out[rest] = self._all_sums(x.take(rest), weights, gamma)
            return out
        bumps = weights - gamma * self._bounds(x, shadow)[0]
        _, j, far = self._seeds(x, -bumps, None, 1 + SEEDS)
        least = (weights[j].view(far.shape) - gamma * far).amax(1)
        i, j = (bumps >= (least - depth)[:, None]).nonzero(as_tuple=True)
        del bumps
        if len(i) > len(x) * n_y // GATHERED_SHARE:
            return self._all_sums(x, weights, gamma)
        base = least.double()
        return base + torch.log(self._sums_of(x, i, j, weights, gamma, base))

    def _all_sums(self, x: Ends, weights: Tensor, gamma: float) -> Tensor:
        """As `_log_sums`, of all references."""
        y = self.ends
        d2 = pair_distances(
            x.raw, x.frames, y.raw, y.frames, sides=self.sides, spring=self.spring
        )
        return torch.logsumexp(weights.double() - gamma * d2.double(), 1)

    def _bumps_listed(
        self, x: Ends, shadow: Shadow, weights: Tensor, gamma: float, depth: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Pairs that count, a bump that is there, and queries of too many that count.

        Bumps are w - gamma d^2; the kernel's bounds are those of d^2 - w/gamma.
        """
        offsets, side = -weights / gamma, Side.of_queries(shadow)
        least = torch.full((len(x),), -torch.inf, device=weights.device)
        some = max(16, len(self.ends) // LISTED_SHARE)
        for step in self._steps(ROOM):
            room = some if step == 1 else ROOM
            counts, whose, values = within(
                side, self._side(step), offsets[::step], (depth - least) / gamma, room,
                self.spring, self._error(shadow),
            )  # fmt: skip
            _, j, far = self._seeds(x, values, whose.long() * step, 1 + SEEDS)
            bumps = weights[j].view(far.shape) - gamma * far
            least = torch.maximum(least, bumps.amax(1))
        full = counts > room
        kept = (values <= ((depth - least) / gamma)[:, None]) & (values < torch.inf)
        i, at = (kept & ~full[:, None]).nonzero(as_tuple=True)
        j = whose[i, at].long()
        # Without the rounding of float16 fewer are left.
        near, _ = self._paired(shadow.exact, i, self.shadow.exact, j)
        kept = weights[j] - gamma * near >= (least - depth)[i]
        return i[kept], j[kept], least, full.nonzero()[:, 0]

    def _sums_of(
        self, x: Ends, i: Tensor, j: Tensor, weights: Tensor, gamma: float, base: Tensor
    ) -> Tensor:
        """Return sums of exp(w - gamma d^2 - base) over listed pairs."""
        near, far = self._paired(x, i, self.ends, j)
        d2 = (near.double() + far) / 2
        # Where little is left of large norms the residual says more.
        doubtful = ~(d2 > DOUBTFUL * (x.norms[i] + self.ends.norms[j]))
        if bool(doubtful.any()):
            d2[doubtful] = self._exact(x, i[doubtful], j[doubtful])
        logs = weights[j].double() - gamma * d2 - base[i]
        return torch.zeros_like(base).index_add_(0, i, torch.exp(logs))

    def _exact(self, queries: Ends, i: Tensor, j: Tensor) -> Tensor:
        """Squared distances in float64 of listed pairs, from the residual."""
        if self.shared is None:
            return listed(queries, i, self.ends, j, self.sides, self.spring)
        out = torch.empty(len(i), dtype=torch.float64, device=i.device)
        shared = self.shared

        def fill(rows: slice) -> None:
            at, to = i[rows], j[rows]
            frames = shared.expand(len(at), *shared.shape)
            out[rows] = paired_distances(
                queries.raw[at], frames[:, :0], self.ends.raw[to], frames,
                "reference", self.spring,
            )  # fmt: skip

        numbers = (3 + 2 * len(shared)) * shared.shape[1]
        chunk_until_fits(max(1, GATHERED // max(1, numbers)), len(i), fill)
        return out

    def _radius(
        self, queries: Ends, bounds: Tensor, whose: Tensor | None, k: int,
        products: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Return a distance within which every query has k references, rounded up.

        `whose` are the references of the bounds, by default all, in their order.
        """
        far = self._seeds(queries, bounds, whose, k + SEEDS, products)[2]
        return far.topk(k, dim=1, largest=False).values.amax(1)

    def _seeds(
        self, queries: Ends, bounds: Tensor, whose: Tensor | None, count: int,
        products: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Return queries, references, and upper bounds (n, count), of the least."""
        best = bounds.topk(min(bounds.shape[1], count), dim=1, largest=False)
        j = best.indices if whose is None else whose.gather(1, best.indices)
        i = torch.arange(len(bounds), device=bounds.device)
        i, j = i.repeat_interleave(j.shape[1]), j.flatten()
        given = None if products is None else products[i, :, :, j]
        _, far = self._paired(queries, i, self.ends, j, given)
        # Where there is no bound there is no reference.
        far = torch.where(
            best.values < torch.inf, far.view(best.values.shape), torch.inf
        )
        return i, j, far

    def _lists(self, shadow: Shadow, k: int) -> bool:
        """Whether one kernel makes bounds and lists what they leave."""
        _, height, width = shadow.halves.shape
        own = self.shadow.halves.shape[1]
        return (
            self.sides == "both"
            and len(self.ends) >= FEWEST * (k + SEEDS)
            and stages_for(shadow.exact.norms, height - 1, own - 1, width) > 0
        )

    def _side(self, step: int = 1) -> Side:
        """Every so many of the references, as the kernel reads them."""
        if step not in self._sides:
            some = (
                self.shadow if step == 1 else self.shadow.take(slice(None, None, step))
            )
            self._sides[step] = Side.of_references(some)
        return self._sides[step]

    def _steps(self, room: int) -> list[int]:
        """Of how many references one is looked at, in turn; last at all of them.

        There is room for those that are first, whatever their bounds.
        """
        first = -(-len(self.ends) // room)
        return [first, *(step for step in (STEP, 1) if step < first)]

    def _listed(
        self, queries: Ends, shadow: Shadow, k: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Pairs that bounds leave, the radius, and the queries that were left too many.

        Some of the references give a first radius, whose list gives the next. A list
        that was too long for its room gives one too, for another.
        """
        room, spring, error = max(ROOM, 16 * k), self.spring, self._error(shadow)
        radius = torch.full((len(queries),), torch.inf, device=shadow.units.device)
        rest, found = torch.arange(len(queries), device=radius.device), []
        x = Side.of_queries(shadow)
        for step in self._steps(room) + [1] * ROUNDS:
            y = self._side(step)
            counts, whose, values = within(
                x, y, radius.new_zeros(y.n), radius[rest], room, spring, error
            )
            nearer = self._radius(queries.take(rest), values, whose.long() * step, k)
            if nearer.dtype != radius.dtype:
                # Rounded up: a radius that is too small would lose a neighbour.
                nearer = torch.nextafter(
                    nearer.to(radius.dtype), radius.new_tensor(torch.inf)
                )
            radius[rest] = torch.minimum(radius[rest], nearer)
            if step > 1:
                continue
            full = counts > room
            kept = (values <= radius[rest, None]) & (values < torch.inf)
            i, at = (kept & ~full[:, None]).nonzero(as_tuple=True)
            found.append((rest[i], whose[i, at].long()))
            rest = rest[full]
            if not len(rest):
                break
            x = Side.of_queries(shadow.take(rest))
        i, j = (torch.cat(parts) for parts in zip(*found, strict=True))
        return i, j, radius, rest

    def _closer(self, queries: Ends, i: Tensor, j: Tensor, k: int):
        """Drop pairs that float32 distances, rounding counted, leave no chance."""
        near, far = self._paired(queries, i, self.ends, j)
        radius = smallest(i, j, far, len(queries), k)[0].amax(1)
        kept = near <= radius[i]
        return i[kept], j[kept]

    def _paired(
        self, x: Ends, i: Tensor, y: Ends, j: Tensor, given: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of listed pairs, from products in their own dtype."""
        if self.sides == "both":
            return paired_bounds(x, i, y, j, self.spring, given)
        near = torch.zeros(len(i), dtype=x.rows.dtype, device=i.device)
        far, error = torch.zeros_like(near), error_of(x.rows)
        half = 0.5 if self.sides == "mean" else 1.0

        def fill(rows: slice) -> None:
            at, to = i[rows], j[rows]
            scale = x.norms[at] + y.norms[to]
            with products_in(tf32=False):
                G = (x.points[at] * y.points[to]).sum(1)
                moves = []
                if self.sides in ("reference", "mean"):
                    along = torch.bmm(y.frames[to], x.points[at][:, :, None])[:, :, 0]
                    moves.append(along - y.coefficients[to])
                if self.sides in ("query", "mean"):
                    along = torch.bmm(x.frames[at], y.points[to][:, :, None])[:, :, 0]
                    moves.append(x.coefficients[at] - along)
            for b in moves:
                for sign, out in ((1, near), (-1, far)):
                    bound = one_end(G, b, scale, self.spring, sign * error)
                    out[rows] += half * bound
            if self.shared is not None:
                slack = self._slack(x, at, y, to)
                near[rows] -= slack
                far[rows] += slack

        numbers = (2 + x.frames.shape[1] + y.frames.shape[1]) * x.points.shape[1]
        chunk_until_fits(max(1, GATHERED // numbers), len(i), fill)
        return near, far


def one_end(
    products: Tensor, along: Tensor, scale: Tensor, spring: float, error: float
) -> Tensor:
    """|delta|^2 - |V delta|^2/(1+k), less its rounding; plus it, where error < 0.

    `along` is V delta, tangents on axis 1, each wrong by at most e per unit of the
    points: |V delta|^2 then by (4 sqrt(l) e + 2 l e^2) (|x|^2 + |y|^2).
    """
    slack = error * (2 + 6 * along.shape[1] ** 0.5)
    return scale * (1 - slack) - 2 * products - (along * along).sum(1) / (1 + spring)


def paired_bounds(
    x: Ends, i: Tensor, y: Ends, j: Tensor, spring: float, given: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Two-sided bounds of listed pairs, below and above, in the dtype of the rows.

    `given` (m, 1 + l_x, 1 + l_y) are the products where they are known already.
    """
    l_x, d = x.frames.shape[1:]
    l_y = y.frames.shape[1]
    if given is None and l_x and l_y and triton_for(x.rows) is not None:
        return listed_bounds(x, i, y, j, spring)
    error = error_of(x.rows)
    near = torch.empty(len(i), dtype=x.rows.dtype, device=i.device)
    far = torch.empty_like(near)
    nothing = torch.zeros(1, dtype=near.dtype, device=i.device)
    unmoved = nothing.repeat(1, l_x)

    def fill(rows: slice) -> None:
        at, to = i[rows], j[rows]
        if given is None:
            with products_in(tf32=False):
                G = torch.bmm(x.rows[at], y.rows[to].mT)
        else:
            G = given[rows]
        # The pairs go along the last axis, as references of one query; what belongs to
        # the query of each is moved to the reference's side: U x into the products.
        G = G.permute(1, 2, 0).contiguous()[None]
        G[0, 1:, 0] -= x.coefficients[at].T
        norms, offsets = x.norms[at] + y.norms[to], y.coefficients[to].T.contiguous()
        for sign, out in ((1, near), (-1, far)):
            out[rows] = tail(
                G, nothing, unmoved, norms, offsets,
                spring, floor_of(spring, G.dtype), sign * error,
            )[0][0]  # fmt: skip

    chunk_until_fits(max(1, GATHERED // ((2 + l_x + l_y) * d)), len(i), fill)
    return near, far


def smallest(i: Tensor, j: Tensor, d2: Tensor, n: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the k smallest of every query, ordered by (distance, index)."""
    order = torch.argsort(j, stable=True)
    order = order[torch.argsort(d2[order], stable=True)]
    order = order[torch.argsort(i[order], stable=True)]
    i, j, d2 = i[order], j[order], d2[order]
    starts = torch.searchsorted(i, torch.arange(n, device=i.device))
    at = starts[:, None] + torch.arange(k, device=i.device)
    return d2[at], j[at]


# Relative size below which a squared distance is computed from the difference.
SUSPECT = 1e-9
_NUMBERS = 2**27


def squared_distances(X: Tensor, P: Tensor, omega: Tensor | None = None) -> Tensor:
    """(n, K) squared distances in float64, under a linear map if there is one."""
    out = torch.empty((len(X), len(P)), dtype=torch.float64, device=X.device)
    centre = P.double().mean(0)
    p = P.double() - centre
    p = p if omega is None else p @ omega.double().T
    p_norms = (p * p).sum(1)

    def fill(rows: slice) -> None:
        x = X[rows].double() - centre
        x = x if omega is None else x @ omega.double().T
        x_norms = (x * x).sum(1)
        scale = x_norms[:, None] + p_norms
        d2 = torch.addmm(scale, x, p.T, alpha=-2)
        i, j = (d2 < SUSPECT * scale).nonzero(as_tuple=True)
        if len(i):
            delta = X[rows][i].double() - P[j].double()
            delta = delta if omega is None else delta @ omega.double().T
            d2[i, j] = (delta * delta).sum(1)
        out[rows] = d2

    chunk_until_fits(max(1, _NUMBERS // (2 * X.shape[1] + 3 * len(P))), len(X), fill)
    return out


def row_keys(X: Tensor, direction: Any) -> Any:
    """As `_core.duplicates.row_keys`, in one sum: another shape may round otherwise."""
    return (X * torch.as_tensor(direction, device=X.device)).sum(1).cpu().numpy()


def point_distances(X: Tensor, P: Any, unit: Any) -> Any:
    """As `prototypes.base.point_distances`."""
    dtype = np.result_type(str(X.dtype).removeprefix("torch."), P.dtype)
    # From their middle on: a quotient is rounded by its size.
    middle = torch.as_tensor(P.mean(axis=0, dtype=float), device=X.device)
    one = 1.0 if unit is None else torch.as_tensor(unit, device=X.device).double()
    Q = (torch.as_tensor(P, device=X.device).double() - middle) / one
    size = max(1, _NUMBERS // (2 * X.shape[1] + 3 * len(P)))
    parts = [
        squared_distances((x.double() - middle) / one, Q).cpu().numpy()
        for x in X.split(size)
    ]
    return np.concatenate(parts).astype(dtype)


def mapped_distances(X: Tensor, P: Any, omega: Any, coarse: float | None) -> Any:
    """As `prototypes.gmlvq.mapped_distances`, in float64."""
    dtype = np.result_type(str(X.dtype).removeprefix("torch."), P.dtype)
    P, omega = (torch.as_tensor(a, device=X.device) for a in (P, omega))
    return squared_distances(X, P, omega).cpu().numpy().astype(dtype)


def nearest_of(X: Tensor, P: Any) -> Any:
    """As `_compute.nearest.nearest_of`."""
    P = P.cpu().numpy() if isinstance(P, Tensor) else P
    return point_distances(X, P, None).argmin(axis=1)


def nearest_points(X: Tensor, queries: Tensor | None, k: int) -> Tensor:
    """(n, k) indices of the nearest rows of X; without queries, of X but itself."""
    asked = X if queries is None else queries
    out = torch.empty((len(asked), k), dtype=torch.long, device=asked.device)

    def fill(rows: slice) -> None:
        d2 = squared_distances(asked[rows], X)
        if queries is None:
            at = torch.arange(len(d2), device=d2.device)
            d2[at, at + rows.start] = torch.inf
        out[rows] = d2.topk(k, dim=1, largest=False).indices

    chunk_until_fits(max(1, _NUMBERS // (2 * len(X))), len(asked), fill)
    return out


def log_sums(
    d2: Tensor, starts: np.ndarray, log_weights: np.ndarray, gammas: Sequence[float]
) -> Tensor:
    """As `neighbors.index.log_sums`, in float64."""
    edges = [*starts.tolist(), d2.shape[1]]
    shape = len(gammas), len(d2), len(starts)
    out = torch.empty(shape, dtype=torch.float64, device=d2.device)
    weighted = bool(log_weights.any())
    finest = torch.finfo(d2.dtype)
    for c in range(len(starts)):
        own = d2[:, edges[c] : edges[c + 1]]
        nearest = own.amin(1)
        base = torch.where(torch.isfinite(nearest), nearest, 0.0)
        depth = base[:, None] - own
        for g, gamma in enumerate(gammas):
            bumps = depth * min(max(float(gamma), finest.tiny), finest.max)
            if weighted:
                own_weights = log_weights[edges[c] : edges[c + 1]]
                bumps += torch.as_tensor(own_weights, dtype=d2.dtype, device=d2.device)
            sums = torch.logsumexp(bumps, 1).double()
            out[g, :, c] = sums - float(gamma) * base.double()
    return out
