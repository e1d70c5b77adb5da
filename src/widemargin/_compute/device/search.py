r"""Nearest neighbours on a device: a cheap lower bound, then what it cannot exclude.

The bound is that of :mod:`widemargin.neighbors.search`: the distance of points and
frames projected on leading axes. Its products are TF32; the rows are rounded to TF32
beforehand, so that the error of a product per unit of norm is known,

    e = 2 max |x - x^| / |x| + p 2^-23,

and goes into the bound (:mod:`.tails`). The k + SEEDS references of the smallest bounds
have upper bounds from float32 products; the k-th is a radius. References whose bound
lies within it get bounds from float32 products, projected and then whole, and those
that can still be among the k nearest their distance in float64 from the residual. The
answer is ordered by (distance, index) and is that of computing every distance in
float64.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from widemargin._compute.device.frames import gram_schmidt
from widemargin._compute.device.pairs import (
    GATHERED,
    Ends,
    chunk_size,
    floor_of,
    halving,
    listed,
    products_in,
    stacked_products,
)
from widemargin._compute.device.tails import tail

SEEDS = 8


def rounded(rows: Tensor) -> Tensor:
    """Round float32 numbers to TF32, to nearest."""
    bits = rows.contiguous().view(torch.int32)
    # Half a unit of the last of ten bits that stay, and the rest off.
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def rounding_of(rows: Tensor, hats: Tensor) -> float:
    """Largest relative error of a rounded row."""
    norms = torch.linalg.vector_norm(rows, dim=-1)
    errors = torch.linalg.vector_norm(rows - hats, dim=-1)
    return float((errors / torch.where(norms > 0, norms, 1)).max()) if len(rows) else 0


def leading_axes(points: Tensor, count: int) -> Tensor:
    """Leading principal axes (count, d) of centred points, orthonormal rows."""
    with products_in(tf32=False):
        scatter = points.double().T @ points.double()
    return torch.linalg.eigh(scatter)[1][:, -count:].T.contiguous()


@dataclass(frozen=True)
class Shadow:
    """Projected samples as they are, and rounded, with the error of the rounding."""

    exact: Ends
    rough: Ends
    error: float

    def take(self, rows: slice) -> "Shadow":
        """Return some of the samples."""
        return Shadow(self.exact.take(rows), self.rough.take(rows), self.error)

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
        halving(max(1, GATHERED // numbers), n, fill)
        exact = Ends.prepare(points, frames, torch.zeros_like(points[0]))
        hats = rounded(exact.rows)
        rough = Ends(points, hats, exact.norms, exact.coefficients)
        return cls(exact, rough, rounding_of(exact.rows, hats))


class DeviceSearch:
    """References on a device, prepared once; two-sided, float32 bounds.

    Parameters
    ----------
    points, frames : Tensor of shape (n, d) and (n, l, d)
    sides : {"x", "y", "two", "mean"}
    spring : float
    n_components : int or None
        Dimensions of the bound; None computes everything.
    """

    def __init__(
        self,
        points: Tensor,
        frames: Tensor,
        *,
        sides: str,
        spring: float,
        n_components: int | None,
    ) -> None:
        self.sides, self.spring = sides, float(spring)
        self.centre = points.double().mean(0)
        self.ends = Ends.prepare(points, frames, self.centre)
        self.axes = None
        if n_components is not None:
            self.axes = leading_axes(self.ends.points, n_components)
            self.shadow = Shadow.cast(self.ends, self.axes)
            self.rough_stack = self.shadow.rough.stack(tangent_major=True)
        self._stack: Tensor | None = None

    def _bounds(self, queries: Ends, shadow: Shadow | None) -> tuple[Tensor, Tensor]:
        """(n_q, n) lower bounds of the squared distances, and their products."""
        spring = self.spring
        if shadow is None:
            x, y, stack = queries, self.ends, self._full_stack()
            d = x.points.shape[1]
            error, tf32 = float((16 + d**0.5) * torch.finfo(x.points.dtype).eps), False
        else:
            x, y, stack = shadow.rough, self.shadow.rough, self.rough_stack
            p = x.points.shape[1]
            error, tf32 = shadow.error + self.shadow.error + p * 2.0**-23, True
        products = stacked_products(x, y, stack, tf32)
        bounds, _ = tail(
            products, x.norms, x.coefficients, y.norms, y.coefficients.T.contiguous(),
            spring, floor_of(spring, products.dtype), error,
        )  # fmt: skip
        return bounds, products

    def _full_stack(self) -> Tensor:
        if self._stack is None:
            self._stack = self.ends.stack(tangent_major=True)
        return self._stack

    def query(
        self, points: Tensor, frames: Tensor, n_neighbors: int
    ) -> tuple[Tensor, Tensor]:
        """Squared distances in float64, ascending, and indices; ties by index."""
        n, n_y = len(points), len(self.ends)
        queries = Ends.prepare(points, frames, self.centre)
        shadow = None if self.axes is None else Shadow.cast(queries, self.axes)
        radius = torch.empty(n, device=points.device)
        found: list[tuple[Tensor, Tensor]] = []

        def look(rows: slice) -> None:
            some = queries.take(rows)
            bounds, products = self._bounds(
                some, None if shadow is None else shadow.take(rows)
            )
            if shadow is not None:
                # Products of projections tell nothing of the distance from above.
                del products
                products = None
            limit = self._radius(some, bounds, products, n_neighbors)
            radius[rows] = limit
            i, j = (bounds <= limit[:, None]).nonzero(as_tuple=True)
            found.append((i + rows.start, j))

        size = chunk_size(n_y, 1 + frames.shape[1], 1 + self.ends.frames.shape[1])
        halving(size, n, look)
        i, j = (torch.cat(parts) for parts in zip(*found, strict=True))
        if shadow is not None:
            near, _ = paired_bounds(shadow.exact, i, self.shadow.exact, j, self.spring)
            kept = near <= radius[i]
            i, j = i[kept], j[kept]
        if len(i) > n * n_neighbors:
            i, j = self._closer(queries, i, j, n_neighbors)
        d2 = listed(queries, i, self.ends, j, self.sides, self.spring)
        return smallest(i, j, d2, n, n_neighbors)

    def _radius(
        self, queries: Ends, bounds: Tensor, products: Tensor | None, k: int
    ) -> Tensor:
        """Return a distance within which every query has k references, rounded up."""
        n, n_y = bounds.shape
        n_seeds = min(n_y, k + SEEDS)
        seeds = bounds.topk(n_seeds, dim=1, largest=False, sorted=False).indices
        i = torch.arange(n, device=bounds.device).repeat_interleave(n_seeds)
        j = seeds.flatten()
        given = None if products is None else products[i, :, :, j]
        _, far = paired_bounds(queries, i, self.ends, j, self.spring, given)
        return far.view(n, n_seeds).topk(k, dim=1, largest=False).values.amax(1)

    def _closer(self, queries: Ends, i: Tensor, j: Tensor, k: int):
        """Drop pairs that float32 distances, rounding counted, leave no chance."""
        near, far = paired_bounds(queries, i, self.ends, j, self.spring)
        radius = smallest(i, j, far, len(queries), k)[0].amax(1)
        kept = near <= radius[i]
        return i[kept], j[kept]


def paired_bounds(
    x: Ends, i: Tensor, y: Ends, j: Tensor, spring: float, given: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds of listed pairs, from products in their own dtype.

    `given` (m, 1 + l_x, 1 + l_y) are the products where they are known already.
    """
    l_x, d = x.frames.shape[1:]
    l_y = y.frames.shape[1]
    error = float((16 + d**0.5) * torch.finfo(x.rows.dtype).eps)
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

    halving(max(1, GATHERED // ((2 + l_x + l_y) * d)), len(i), fill)
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
