r"""Tangent distance with the tangents of the midpoint.

With T_m the tangents of the image (x + x')/2 and P_m the projection on their span,

    d^2(x, x') = |delta|^2 - |P_m delta|^2 / (1 + k).

It needs a generator: frames of x and x' do not tell the tangents of an image between
them. Where the generator is affine in x, T_m = (T_x + T_x')/2, and every inner
product the projection needs comes from the products of the two ends:
G = T_m T_m^T = (T_x T_x^T + T_x' T_x'^T + N + N^T)/4 with N = T_x T_x'^T, and
d^2 = |delta|^2 - c^T G^+ c / (1 + k) with c = T_m delta. Otherwise (thickness is
quadratic in x), and for pairs whose G is nearly singular, the midpoint images and
their frames are made, chunk by chunk.

Reference: Haasdonk and Keysers 2002, equation for d_MP; the sum of the two one-sided
distances to the midpoint is this one, because both are equal.
"""

from typing import Any

import numpy as np

from widemargin._compute.machine import batched_slices, rows_in_budget, thread_map
from widemargin._core.arrays import is_tensor
from widemargin.tangents import orthonormalize


def midpoint_distances(
    x: np.ndarray,
    y: np.ndarray,
    generator: Any,
    *,
    symmetric: bool,
    spring: float,
    squared: bool,
    n_jobs: int | None,
) -> np.ndarray:
    """Compute midpoint distances between all rows of `x` and `y`; see the module."""
    if is_tensor(x):
        return _on_device(x, y, generator, spring, squared)
    affine = bool(getattr(generator, "is_affine", False))
    tile = _affine_tile if affine else _general_tile
    out = np.empty((len(x), len(y)), _dtype_of_squares(x, y))

    def fill(block):
        rows, columns = block
        d2 = tile(x[rows], y[columns], generator, spring)
        if not squared:
            d2 = np.sqrt(d2)
        if symmetric and rows == columns:
            d2 = np.triu(d2) + np.triu(d2, 1).T
        elif symmetric:
            out[columns, rows] = d2.T
        out[rows, columns] = d2

    size = _side(generator, x, n_jobs, affine)
    blocks = [
        (rows, columns)
        for rows in batched_slices(len(x), size)
        for columns in batched_slices(len(y), size)
        if not symmetric or rows.start <= columns.start
    ]
    thread_map(fill, blocks, n_jobs, "distances")
    return out


def _dtype_of_squares(x: np.ndarray, y: np.ndarray) -> Any:
    """Return the dtype of the points, or float64 where it cannot hold their squares."""
    largest = max(float(np.abs(points).max(initial=0)) for points in (x, y))
    if largest and not 1e-140 < largest < 1e150:
        raise ValueError(
            f"X and Y reach {largest:.2g}: their squared distances cannot be told in "
            "float64; scale the data, for instance by StandardScaler."
        )
    return x.dtype if not largest or 1e-12 < largest < 1e16 else np.float64


def _side(generator, x, n_jobs, affine) -> int:
    """Side of a square block of pairs that keeps a worker within its budget."""
    n_tangents = generator.tangents(x[:1]).shape[1]
    if affine:
        per_row = 8 * (1 + n_tangents) * (6 * x.shape[1] + 64 * (1 + n_tangents))
        return min(64, rows_in_budget(per_row, n_jobs))
    per_pair = 8 * 4 * (1 + n_tangents) * x.shape[1]
    return max(1, min(64, int(rows_in_budget(per_pair, n_jobs) ** 0.5)))


def _affine_tile(x, y, generator, spring) -> np.ndarray:
    from widemargin._compute.midpoint import affine_midpoint_tile

    x, y = x.astype(float), y.astype(float)
    x_tangents, y_tangents = generator.tangents(x), generator.tangents(y)
    tile = affine_midpoint_tile(x, x_tangents, y, y_tangents, spring)
    i, j = np.nonzero(tile < 0)
    if len(i):
        for part in batched_slices(len(i), 64):
            rows, columns = i[part], j[part]
            at_midpoint = (x_tangents[rows] + y_tangents[columns]) / 2
            tile[rows, columns] = _explicit(x[rows] - y[columns], at_midpoint, spring)
    return tile


def _general_tile(x, y, generator, spring) -> np.ndarray:
    x, y = x.astype(float), y.astype(float)
    d = x.shape[1]
    midpoints = ((x[:, None] + y) / 2).reshape(-1, d)
    delta = (x[:, None] - y).reshape(-1, d)
    d2 = _explicit(delta, generator.tangents(midpoints), spring)
    return d2.reshape(len(x), len(y))


def _explicit(delta, tangents, spring) -> np.ndarray:
    """Squared distance of each delta after the best move along its tangents."""
    frames = orthonormalize(tangents)
    coefficients = (frames @ delta[:, :, None])[:, :, 0] / (1 + spring)
    residual = delta - (coefficients[:, None] @ frames)[:, 0]
    return (residual**2).sum(1) + spring * (coefficients**2).sum(1)


def _on_device(x: Any, y: Any, generator: Any, spring: float, squared: bool) -> Any:
    """Make the midpoint images of all pairs, some at a time, and their frames."""
    import torch

    from widemargin._compute.device.pairs import GATHERED, halving

    n_x, (n_y, d) = len(x), y.shape
    out = torch.empty(n_x * n_y, dtype=x.dtype, device=x.device)

    def fill(pairs: slice) -> None:
        at = torch.arange(pairs.start, pairs.stop, device=x.device)
        one, other = x[at // n_y].double(), y[at % n_y].double()
        tangents = generator.tangents((one + other) / 2)
        d2: Any = _explicit(one - other, tangents, spring)
        out[pairs] = (d2 if squared else torch.sqrt(d2)).to(out.dtype)

    per_pair = 8 * d * (2 + generator.tangents(x[:1]).shape[1])
    halving(max(1, GATHERED // per_pair), len(out), fill)
    return out.reshape(n_x, n_y)
