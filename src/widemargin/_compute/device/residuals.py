"""Tangent distances of listed pairs from the explicit residual, in float64.

The moves c along the stacked rows W = [U; V] solve (W W^T + k I) c = W delta, all inner
products taken, in two steps, the second from the residual of the first: the rule of
:mod:`widemargin._compute.residuals`, for many pairs at once.
"""

import torch
from torch import Tensor

# Below this a pivot is rounding: the direction is in the span of those before it.
SINGULAR = 1e-12


def paired_distances(
    x: Tensor, x_frames: Tensor, y: Tensor, y_frames: Tensor, sides: str, spring: float
) -> Tensor:
    """Squared distances (m,) of m pairs: points (m, d), frames (m, l, d)."""
    delta = x.double() - y.double()
    if sides == "two":
        return _energy(delta, torch.cat([x_frames, y_frames], 1), spring)
    if sides == "x":
        return _energy(delta, x_frames, spring)
    d2 = _energy(delta, y_frames, spring)
    if sides == "mean":
        d2 = (d2 + _energy(delta, x_frames, spring)) / 2
    return d2


def _energy(delta: Tensor, frames: Tensor, spring: float) -> Tensor:
    W = frames.double()
    n = W.shape[1]
    A = torch.bmm(W, W.mT)
    A.diagonal(dim1=1, dim2=2).add_(spring)
    factor(A)
    residual, moves = delta, torch.zeros_like(W[:, :, 0])
    for _ in range(2):
        r = torch.bmm(W, residual[:, :, None])[:, :, 0] - spring * moves
        r = solve(A, r, n)
        moves = moves + r
        residual = residual - torch.bmm(W.mT, r[:, :, None])[:, :, 0]
    energy = spring * (moves * moves).sum(1) + (residual * residual).sum(1)
    return torch.where((delta == 0).all(1), 0.0, energy)


def factor(A: Tensor) -> None:
    """Turn the lower triangles into L and D of L D L^T; no pivot is rounding."""
    n = A.shape[1]
    for s in range(n):
        pivot = A[:, s, s]
        there = pivot > SINGULAR
        A[:, s, s] = torch.where(there, pivot, 0.0)
        column = A[:, s + 1 :, s]
        scaled = torch.where(there[:, None], column / _or_one(pivot)[:, None], 0.0)
        A[:, s + 1 :, s + 1 :] -= scaled[:, :, None] * column[:, None, :]
        A[:, s + 1 :, s] = scaled


def solve(A: Tensor, r: Tensor, n: int) -> Tensor:
    """Solve with what `factor` left; directions without a pivot stay 0."""
    r = r.clone()
    for s in range(n):
        there = A[:, s, s] > 0
        r[:, s] = torch.where(there, r[:, s], 0.0)
        r[:, s + 1 :] -= A[:, s + 1 :, s] * r[:, s, None]
    for s in range(n - 1, -1, -1):
        pivot = A[:, s, s]
        value = r[:, s] / _or_one(pivot) - (A[:, s + 1 :, s] * r[:, s + 1 :]).sum(1)
        r[:, s] = torch.where(pivot > 0, value, 0.0)
    return r


def _or_one(values: Tensor) -> Tensor:
    return torch.where(values > SINGULAR, values, 1.0)
