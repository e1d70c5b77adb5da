"""Passes over samples of tangent models, and what describes them, on a device.

The mathematics is that of :mod:`widemargin.prototypes.ascent` and ``affine``; sums over
samples are taken in float64. Shapes: points (n, d), frames (n, l, d), models [C; T]
(K, 1 + m, d).
"""

from typing import Any

import torch
from torch import Tensor

from widemargin._compute.device.pairs import GATHERED, halving, products_in


def weighted_moments(X: Tensor, weights: Any) -> tuple[Tensor, Tensor]:
    """Mean and population covariance, in float64."""
    w = torch.as_tensor(weights, dtype=torch.float64, device=X.device)
    total = w.sum()
    mean = (w @ X.double()) / total
    centred = X.double() - mean
    return mean, (centred * w[:, None]).T @ centred / total


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

    halving(max(1, GATHERED // (4 * (1 + n_own) * d)), n, fill)
    return moved, q


def model_pass(
    X: Tensor,
    frames: Tensor,
    stack: Tensor,
    D: Tensor,
    right: Tensor,
    gamma: Tensor,
    spring: float,
    tiny: float,
) -> tuple[Tensor, ...]:
    """Distances to the nearest right and wrong model, who they are, and the sums.

    `stack` is in float64. Returns z (n, 2), nearest (n, 2), and the gradient, moments
    and sizes of :class:`widemargin.prototypes.ascent.Pass`.
    """
    n_models, width, _ = stack.shape
    z_plus, plus = torch.where(right, D, torch.inf).min(1)
    z_minus, minus = torch.where(right, torch.inf, D).min(1)
    z = torch.stack([z_plus, z_minus], 1).double()
    nearest = torch.stack([plus, minus], 1)
    total = z.sum(1)
    flat = ~(total > tiny) | torch.isinf(total)
    safe = torch.where(flat, 1.0, total)
    scale = torch.where(flat, 0.0, 4 * gamma / safe)
    held = torch.where(flat[:, None], 0.0, z)
    c = torch.stack([scale * (held[:, 1] / safe), -scale * (held[:, 0] / safe)], dim=1)
    sums = torch.zeros_like(stack)
    moments = stack.new_zeros((n_models, width, width))
    sizes = stack.new_zeros((n_models, width))
    for j in range(n_models):
        rows, side = (nearest == j).nonzero(as_tuple=True)
        if not len(rows):
            continue
        some = frames[rows] if frames.shape[1] else frames[: len(rows)]
        moved, q = slide(X[rows], some, stack[j, 0], stack[j, 1:], spring)
        ones = torch.cat([q.new_ones((len(q), 1)), q], 1).double()
        own = c[rows, side]
        weighted = own[:, None] * ones
        sums[j] = weighted.T @ moved.double()
        moments[j] = weighted.T @ ones
        sizes[j] = own.abs() @ ones**2
    return z, nearest, sums - moments @ stack, moments, sizes
