"""Passes over samples of tangent models, and what describes them, on a device.

The mathematics is that of :mod:`widemargin.prototypes.margin_ascent` and ``affine``;
sums over samples are taken in float64. Shapes: points (n, d), frames (n, l, d), models
[C; T] (K, 1 + m, d).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from widemargin._compute.device.pairs import (
    GATHERED,
    SUSPECT,
    Ends,
    chunk_until_fits,
    factor,
    floor_of,
    products_in,
    repaired,
    solve,
    stacked_products,
    tail,
)
from widemargin._compute.rounding import epsilon

# Products of a part of the samples with all models, in numbers.
NUMBERS = 2**29


def weighted_moments(X: Tensor, weights: Any) -> tuple[Tensor, Tensor]:
    """Mean and population covariance, in float64."""
    w = torch.as_tensor(weights, dtype=torch.float64, device=X.device)
    total = w.sum()
    mean = (w @ X.double()) / total
    centred = X.double() - mean
    return mean, (centred * w[:, None]).T @ centred / total


def correlate(x: Tensor, weights: Any) -> Tensor:
    """As `tangents.signal.correlate`."""
    n, reach = x.shape[1], len(weights) // 2
    padded = torch.nn.functional.pad(x.double(), (0, 0, reach, reach))
    return sum(w * padded[:, i : i + n] for i, w in enumerate(weights.tolist()))


def leading_directions(matrix: Tensor, count: int) -> tuple[Any, Any]:
    """As `prototypes.tangent_models.leading_directions`."""
    values, vectors = torch.linalg.eigh(matrix)
    return values[-count:].cpu().numpy(), vectors[:, -count:].cpu().numpy()


def class_means(X: Tensor, codes: Any, weights: Any, n_classes: int) -> Any:
    """As `prototypes.initialization.class_means`."""
    w, c = (torch.as_tensor(a, device=X.device) for a in (weights, codes))
    sums = X.new_zeros((n_classes, X.shape[1]), dtype=torch.float64)
    sums.index_add_(0, c, (X * w[:, None]).double())
    totals = torch.bincount(c, w, n_classes)
    means = sums / torch.where(totals > 0, totals, 1)[:, None]
    return means.cpu().numpy()


def slide(
    points: Tensor, frames: Tensor, C: Any, T: Any, spring: float
) -> tuple[Tensor, Tensor]:
    """Move every sample along its own frame to where it meets the model."""
    C, T = (
        torch.as_tensor(a, dtype=points.dtype, device=points.device) for a in (C, T)
    )
    stiffness = 1.0 + spring
    n, n_own, d = frames.shape
    moved, q = torch.empty_like(points), points.new_empty((n, len(T)))

    def fill(rows: slice) -> None:
        x, U = points[rows], frames[rows]
        with products_in(tf32=False):
            delta = x - C
            b = delta @ T.T
            if n_own == 0:
                moved[rows], q[rows] = x, b / stiffness
                return
            a = torch.bmm(U, delta[:, :, None])[:, :, 0]
            M = (U.reshape(-1, d) @ T.T).view(len(x), n_own, len(T))
            S = -torch.bmm(M, M.mT).double() / stiffness
            S.diagonal(dim1=1, dim2=2).add_(stiffness)
            r = a - torch.bmm(M, b[:, :, None])[:, :, 0] / stiffness
            minus_p = torch.linalg.solve(S, r.double()[:, :, None])[:, :, 0]
            minus_p = minus_p.to(points.dtype)
            q[rows] = (b - torch.bmm(minus_p[:, None], M)[:, 0]) / stiffness
            moved[rows] = x - torch.bmm(minus_p[:, None], U)[:, 0]

    chunk_until_fits(max(1, GATHERED // (4 * (1 + n_own) * d)), n, fill)
    return moved, q


class ModelPasses:
    """Samples, prepared once, over which passes are made: two products each.

    One product of the models with all points and frames has everything in it: the
    distances, and the moves of a sample and its two nearest models. What a sample then
    pulls by is, for each of the two, c [1, q] times [1, -p] along its own rows: one
    matrix, whose product with the points and frames is the whole sum.
    """

    def __init__(self, points: Tensor, frames: Tensor, right: Tensor, spring: float):
        self.points, self.frames = points, frames
        self.right, self.spring = right, float(spring)
        self.parts: list[tuple[slice, Ends, Tensor]] = []

    def _prepared(self, n_rows: int) -> list[tuple[slice, Ends, Tensor]]:
        n, n_own, _ = self.frames.shape
        size = max(1, NUMBERS // (n_rows * (1 + n_own)))
        if not self.parts or self.parts[0][0].stop < min(n, size):
            centre = torch.zeros_like(self.points[0], dtype=torch.float64)
            self.parts = []
            for start in range(0, n, size):
                rows = slice(start, min(start + size, n))
                ends = Ends.prepare(self.points[rows], self.frames[rows], centre)
                self.parts.append((rows, ends, ends.stack(tangent_major=True)))
        return self.parts

    def __call__(self, stack: Tensor, gamma: Tensor, tiny: float) -> tuple[Tensor, ...]:
        """Distances to the nearest right and wrong model, who they are, and the sums.

        `stack` is in float64. Returns z (n, 2), nearest (n, 2), and the gradient,
        moments and sizes of :class:`widemargin.prototypes.margin_ascent.Pass`.
        """
        n_models, width, d = stack.shape
        z = torch.empty((len(self.points), 2), dtype=torch.float64, device=stack.device)
        nearest = torch.empty_like(z, dtype=torch.long)
        sums = torch.zeros_like(stack)
        moments = stack.new_zeros((n_models, width, width))
        sizes = stack.new_zeros((n_models, width))
        models = Ends.prepare(
            stack[:, 0].to(self.points.dtype), stack[:, 1:].to(self.points.dtype),
            torch.zeros_like(stack[0, 0]),
        )  # fmt: skip
        for rows, ends, rows_of in self._prepared(n_models * width):
            products = stacked_products(models, ends, rows_of)
            some = self.right[rows]
            z[rows], nearest[rows] = self._nearest(models, ends, products, some)
            c = slopes(z[rows], gamma[rows], tiny)
            pulls = torch.zeros_like(products)
            for side in range(2):
                j = nearest[rows, side]
                there, own = self._moves(models, ends, products, j)
                ones = torch.cat([own.new_ones((len(own), 1)), own], 1)
                weighted = c[:, side, None] * ones
                by = (weighted[:, :, None] * there[:, None]).to(pulls.dtype)
                pulls[j, :, :, torch.arange(len(j), device=j.device)] = by
                owners = torch.nn.functional.one_hot(j, n_models).to(ones.dtype)
                outer = (weighted[:, :, None] * ones[:, None]).reshape(len(j), -1)
                moments += (owners.T @ outer).view(moments.shape)
                sizes += owners.T @ (c[:, side, None].abs() * ones**2)
            with products_in(tf32=False):
                found = pulls.view(n_models * width, -1) @ rows_of
            sums += found.view(n_models, width, d).double()
        return z, nearest, sums - moments @ stack, moments, sizes

    def _nearest(self, models: Ends, ends: Ends, products: Tensor, right: Tensor):
        spring = self.spring
        d2, scale = tail(
            products, models.norms, models.coefficients, ends.norms,
            ends.coefficients.T.contiguous(), spring, floor_of(spring, products.dtype),
        )  # fmt: skip
        suspect = ~(d2 >= SUSPECT[d2.dtype] * scale)
        D = repaired(d2, suspect, models, ends, "both", spring).T
        z_plus, plus = torch.where(right, D, torch.inf).min(1)
        z_minus, minus = torch.where(right, torch.inf, D).min(1)
        return torch.stack([z_plus, z_minus], 1).double(), torch.stack([plus, minus], 1)

    def _moves(self, models: Ends, ends: Ends, products: Tensor, j: Tensor):
        """[1, p] along the rows of each sample, and q along those of its model j."""
        stiffness = 1.0 + self.spring
        at = torch.arange(len(j), device=j.device)
        G = products[j, :, :, at].double()
        b = G[:, 1:, 0] - models.coefficients[j].double()
        one = b.new_ones((len(b), 1))
        n_own = G.shape[2] - 1
        if n_own == 0:
            return one, b / stiffness
        a = ends.coefficients.double() - G[:, 0, 1:]
        M = G[:, 1:, 1:].mT
        S = -torch.bmm(M, M.mT) / stiffness
        S.diagonal(dim1=1, dim2=2).add_(stiffness)
        r = a - torch.bmm(M, b[:, :, None])[:, :, 0] / stiffness
        factor(S)
        minus_p = solve(S, r, n_own)
        q = (b - torch.bmm(minus_p[:, None], M)[:, 0]) / stiffness
        return torch.cat([one, -minus_p], 1), q


def model_passes(
    points: Tensor, frames: Tensor, right: Any, centre: Any, metric: Any
) -> Callable[..., tuple[Any, ...]]:
    """As `prototypes.margin_ascent.model_passes`; what it finds is NumPy's."""
    device = points.device
    moved = points - torch.as_tensor(centre, device=device).to(points.dtype)
    known = torch.as_tensor(right, device=device)
    passes = ModelPasses(moved, frames, known, metric.spring)
    rounding = epsilon(str(points.dtype).removeprefix("torch."))
    tiny = 1e2 * rounding * float(points.double().var(0, correction=0).sum())

    def one_pass(stack: Any, gamma: Any, run: Any = map) -> tuple[Any, ...]:
        stack, gamma = (torch.as_tensor(a, device=device) for a in (stack, gamma))
        z, *sums = passes(stack, gamma, tiny)
        found = (relative_margins(z), *sums)
        return tuple(array.cpu().numpy() for array in found)

    return one_pass


def relative_margins(z: Tensor) -> Tensor:
    """As `margins.relative_margin`, of the two columns."""
    z_plus, z_minus = z.T
    margins = (z_minus - z_plus) / (z_minus + z_plus)
    margins = torch.where(torch.isinf(z_minus), 1.0, margins)
    margins = torch.where(torch.isinf(z_plus), -1.0, margins)
    return torch.where(z_plus == z_minus, 0.0, margins)


def slopes(z: Tensor, gamma: Tensor, tiny: float) -> Tensor:
    """Factors c (n, 2) of the residuals of the nearest right and wrong model."""
    total = z.sum(1)
    flat = ~(total > tiny) | torch.isinf(total)
    safe = torch.where(flat, 1.0, total)
    scale = torch.where(flat, 0.0, 4 * gamma / safe)
    held = torch.where(flat[:, None], 0.0, z)
    return torch.stack([scale * held[:, 1] / safe, -scale * held[:, 0] / safe], dim=1)
