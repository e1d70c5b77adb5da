"""Orthonormal frames of many samples at once: pivoted Gram-Schmidt over the batch.

The rule is that of :mod:`widemargin._compute.frames`: rows of length one, the row with
the most left outside the span so far comes next, what is left below `rtol` is
dependent, zero rows stand last. All samples take the same number of steps; the work is
done in float64, and costs a few passes over the tangents.
"""

import torch
from torch import Tensor

from widemargin._compute.frames import ROUNDING


def gram_schmidt(tangents: Tensor, rtol: float) -> Tensor:
    """Frames (n, l, d) in float64 of tangents (n, l, d)."""
    rtol = max(rtol, ROUNDING)
    rows = tangents.to(torch.float64)
    # Scaled by the largest entry first, lest squares overflow.
    rows = rows / _or_one(rows.abs().amax(dim=2, keepdim=True))
    left = torch.linalg.vector_norm(rows, dim=2, keepdim=True)
    rows = rows / _or_one(left)
    n, n_tangents, _ = rows.shape
    frames = torch.zeros_like(rows)
    every = torch.arange(n, device=rows.device)
    left = (left[:, :, 0] > 0).to(rows.dtype)
    rank = torch.zeros(n, dtype=torch.long, device=rows.device)
    for step in range(n_tangents):
        pivot = left.argmax(dim=1)
        # A copy, projected once more: that keeps orthogonality at rounding level.
        unit = rows[every, pivot]
        done = frames[:, :step]
        for _ in range(min(step, 1)):
            along = torch.bmm(done, unit[:, :, None])
            unit = unit - torch.bmm(done.mT, along)[:, :, 0]
        norm = torch.linalg.vector_norm(unit, dim=1)
        independent = (left[every, pivot] > rtol * rtol) & (norm > rtol)
        unit = torch.where(independent[:, None], unit / _or_one(norm)[:, None], 0)
        frames[every, rank] = torch.where(
            independent[:, None], unit, frames[every, rank]
        )
        rank = (rank + independent).clamp(max=n_tangents - 1)
        along = torch.bmm(rows, unit[:, :, None])
        rows = rows - along * unit[:, None, :]
        left = torch.where(left > 0, (rows * rows).sum(dim=2), 0)
        left[every, pivot] = 0
    return frames


def _or_one(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1)
