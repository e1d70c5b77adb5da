"""Frames, tangent distances of blocks and of single pairs, as formulas over arrays.

What the kernels of `frames` and `tangent_elimination` do for one sample or pair after
the other is done here for all of a block at once, in NumPy: their oracle, and what
small work takes, for which nobody should wait for a compiler. Symbols and rules are
explained there. A frame, and the distance of a listed pair, have the same bits alone
and among others.

Shapes: tangents (n, l, d); a block of pairs (n_x, n_y); pairs (m,).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.engines import formula
from widemargin._compute.machine import batched_slices

# What two projections leave of a dependent row of length one.
ROUNDING = 1e-14
# Below this a pivot is rounding: the direction is in the span of those before it.
SINGULAR = 1e-12
AMPLIFIED = 8.0
# Numbers of the tangents of one sample from which frames are worth a compiled loop,
# which takes a third of the time: 900 digits of 8 x 8 take 15 ms here.
WIDE = 1024
# References, times the products of a pair, from which neighbours and densities are
# worth compiled loops: those of 900 digits answer each other here in 0.4 s.
MANY_PRODUCTS = 2**17


def fits_squares(largest: float) -> bool:
    """Whether float32 holds squared distances; raise where not even float64 does."""
    if largest and not 1e-140 < largest < 1e150:
        raise ValueError(
            f"X and Y reach {largest:.2g}: their squared distances cannot be told in "
            "float64; scale the data, for instance by StandardScaler."
        )
    return not largest or 1e-12 < largest < 1e16


def worth_compiling(n: int, x_tangents: int, y_tangents: int) -> bool:
    """Whether so many references are to be met by compiled loops, by whatever query."""
    return n * (1 + x_tangents) * (1 + y_tangents) > MANY_PRODUCTS


@formula
def orthonormal(tangents: NDArray, rtol: float) -> NDArray:
    """Return the frames (n, l, d), in float64, of tangents that stay as they are."""
    _, n_tangents, d = tangents.shape
    if n_tangents * d > WIDE:
        from widemargin._compute.frames import orthonormal as compiled

        return compiled(tangents, rtol)
    return gram_schmidt(tangents, rtol)


def gram_schmidt(tangents: NDArray, rtol: float) -> NDArray:
    """Pivoted Gram-Schmidt: the row with the most left comes next, dependent ones last.

    A row is projected twice, which keeps orthogonality at rounding level.
    """
    rtol = max(rtol, ROUNDING)
    # Scaled by the largest entry first, lest squares overflow.
    rows = tangents.astype(float)
    rows /= _or_one(np.abs(rows).max(axis=2, keepdims=True, initial=0))
    lengths = np.sqrt(np.einsum("nld,nld->nl", rows, rows))
    rows /= _or_one(lengths)[:, :, None]
    left = (lengths > 0).astype(float)
    frames, every = np.zeros_like(rows), np.arange(len(rows))
    rank = np.zeros(len(rows), np.intp)
    for step in range(rows.shape[1]):
        pivot = left.argmax(axis=1)
        unit, done = rows[every, pivot], frames[:, :step]
        along = np.matmul(done, unit[:, :, None])
        unit -= np.matmul(done.transpose(0, 2, 1), along)[:, :, 0]
        norm = np.sqrt(np.einsum("nd,nd->n", unit, unit))
        good = (left[every, pivot] > rtol * rtol) & (norm > rtol)
        unit *= (good / _or_one(norm))[:, None]
        # A row that is none adds nothing to the place of the next.
        frames[every, rank] += unit
        rank = np.minimum(rank + good, rows.shape[1] - 1)
        rows -= np.matmul(rows, unit[:, :, None]) * unit[:, None]
        left = np.where(left > 0, np.einsum("nld,nld->nl", rows, rows), 0)
        left[every, pivot] = 0
    return frames


def _or_one(values: NDArray, least: float = 0.0) -> NDArray:
    return np.where(values > least, values, 1.0)


# What overflows says nothing, and is computed again, or not resolved.
@np.errstate(over="ignore", invalid="ignore")
def one_sided(
    products: NDArray, x_products: NDArray, x_norms: NDArray, x_coefficients: NDArray,
    y_norms: NDArray, y_coefficients: NDArray, share: float, spring: float, tau: float,
    lower: bool, out: NDArray,
) -> int:  # fmt: skip
    """As the kernel of :mod:`widemargin._compute.tangent_elimination`."""
    n, l_x = x_coefficients.shape
    l_y, n_y = y_coefficients.shape
    real = out.dtype.type
    G = products.reshape(n, 1 + l_y, n_y)
    scale = x_norms[:, None] + y_norms
    d2 = scale - real(2) * G[:, 0]
    shrink = real(share / (1.0 + spring))
    for s in range(l_y):
        d2 -= shrink * (G[:, 1 + s] - y_coefficients[s]) ** 2
    a = x_coefficients[:, :, None] - x_products.reshape(n, l_x, n_y)
    for q in range(l_x):
        d2 -= shrink * a[:, q] ** 2
    return _marked(d2, scale, tau, lower, out)


def _marked(d2: NDArray, scale: NDArray, tau: float, lower: bool, out: NDArray) -> int:
    """Take the rounding off, or write -1 where it is most of the result."""
    rounding = out.dtype.type(tau) * scale
    if lower:
        np.subtract(d2, rounding, out=out)
        return 0
    kept = d2 >= rounding
    out[:] = np.where(kept, d2, -1)
    return int(out.size - np.count_nonzero(kept))


@np.errstate(over="ignore", invalid="ignore")
def two_sided(
    products: NDArray, x_norms: NDArray, x_coefficients: NDArray, y_norms: NDArray,
    y_coefficients: NDArray, spring: float, tau: float, floor: float, clear: float,
    lower: bool, out: NDArray,
) -> int:  # fmt: skip
    """As the kernel of :mod:`widemargin._compute.tangent_elimination`."""
    l_x, (l_y, n_y) = x_coefficients.shape[1], y_coefficients.shape
    real = out.dtype.type
    stiffness, shrink = real(1.0 + spring), real(1.0 / (1.0 + spring))
    G = products.reshape(len(out), 1 + l_x, 1 + l_y, n_y)
    lengths = x_norms[:, None] + y_norms
    d2 = lengths - real(2) * G[:, 0, 0]
    a = x_coefficients[:, :, None] - G[:, 1:, 0]
    d2 -= shrink * np.einsum("ipj,ipj->ij", a, a)
    M = [G[:, 1:, 1 + s] for s in range(l_y)]
    r = [
        G[:, 0, 1 + s] - y_coefficients[s] - shrink * np.einsum("ipj,ipj->ij", m, a)
        for s, m in enumerate(M)
    ]
    S = [
        [-shrink * np.einsum("ipj,ipj->ij", M[s], M[t]) for t in range(s + 1)]
        for s in range(l_y)
    ]
    scale, inverses = lengths.copy(), []
    for s in range(l_y):
        pivot = stiffness + S[s][s]
        inverse = real(1) / np.maximum(pivot, real(floor))
        taken = r[s] * r[s] * inverse
        d2 -= taken
        if not lower:
            amplified = real(AMPLIFIED) * taken * inverse
            scale += np.where(pivot >= real(clear), amplified, real(np.inf))
        for t in range(s + 1, l_y):
            factor = S[t][s] * inverse
            r[t] -= factor * r[s]
            for u in range(s + 1, t + 1):
                S[t][u] -= factor * S[u][s]
        inverses.append(inverse)
    if not lower:
        return _marked(d2, scale, tau, lower, out)
    det = np.ones_like(d2)
    for s in range(l_y - 1, -1, -1):
        for t in range(s + 1, l_y):
            r[s] -= S[t][s] * r[t]
        r[s] *= inverses[s]
        lengths += r[s] * r[s]
        det *= stiffness * inverses[s]
    bound = d2 - real(tau) * lengths
    resolved = (det * real(clear) <= 1) & np.isfinite(bound)
    out[:] = np.where(resolved, bound, -1)
    return 0


def paired_distances(
    x: NDArray, x_frames: NDArray, y: NDArray, y_frames: NDArray, sides: str,
    spring: float,
) -> NDArray:  # fmt: skip
    """Squared distances (m,) of points (m, d) with frames (m, l, d), from residuals.

    `sides` is "reference", "both" or "mean".
    """
    delta = np.subtract(x, y, dtype=float)
    if sides == "both":
        return _energy(delta, np.concatenate([x_frames, y_frames], axis=1), spring)
    d2 = _energy(delta, y_frames, spring)
    if sides == "mean":
        d2 = (d2 + _energy(delta, x_frames, spring)) / 2
    return d2


def _energy(delta: NDArray, frames: NDArray, spring: float) -> NDArray:
    """Energy of the best moves along the rows of the frames; two steps, as there."""
    W = np.ascontiguousarray(frames, float)
    n = W.shape[1]
    A = np.matmul(W, W.transpose(0, 2, 1))
    A[:, np.arange(n), np.arange(n)] += spring
    for s in range(n):
        pivot = A[:, s, s].copy()
        there = pivot > SINGULAR
        A[:, s, s] = np.where(there, pivot, 0)
        column = A[:, s + 1 :, s]
        scaled = column * (there / _or_one(pivot, SINGULAR))[:, None]
        A[:, s + 1 :, s + 1 :] -= scaled[:, :, None] * column[:, None]
        A[:, s + 1 :, s] = scaled
    residual, moves = delta, np.zeros(W.shape[:2])
    for _ in range(2):
        r = np.matmul(W, residual[:, :, None])[:, :, 0] - spring * moves
        for s in range(n):
            r[:, s] *= A[:, s, s] > 0
            r[:, s + 1 :] -= A[:, s + 1 :, s] * r[:, s, None]
        for s in range(n - 1, -1, -1):
            r[:, s] /= _or_one(A[:, s, s])
            r[:, s] -= np.einsum("mt,mt->m", A[:, s + 1 :, s], r[:, s + 1 :])
            r[:, s] *= A[:, s, s] > 0
        moves = moves + r
        residual = residual - np.matmul(W.transpose(0, 2, 1), r[:, :, None])[:, :, 0]
    d2 = np.einsum("md,md->m", residual, residual)
    d2 += spring * np.einsum("ml,ml->m", moves, moves)
    return np.where(delta.any(axis=1), d2, 0.0)


def listed_distances(
    x: NDArray, x_frames: NDArray, y: NDArray, y_frames: NDArray, i: NDArray,
    j: NDArray, sides: str, spring: float,
) -> NDArray:  # fmt: skip
    """Squared distances of samples `i` of x to `j` of y, whose frame may be one."""
    d2 = np.empty(len(i))
    step = int(len(y_frames) == len(y))
    per_pair = x.shape[1] * (x_frames.shape[1] + y_frames.shape[1] + 1)
    for s in batched_slices(len(i), 2**18 // per_pair):
        d2[s] = paired_distances(
            x[i[s]], x_frames[i[s]], y[j[s]], y_frames[j[s] * step], sides, spring
        )
    return d2


def repair(
    tile: NDArray, x: NDArray, x_frames: NDArray, y: NDArray, y_frames: NDArray,
    sides: str, spring: float,
) -> None:  # fmt: skip
    """Compute the suspect entries (below zero) of a tile of squared distances again."""
    i, j = np.nonzero(tile < 0)
    tile[i, j] = listed_distances(x, x_frames, y, y_frames, i, j, sides, spring)


def nearest_listed(
    i: NDArray, j: NDArray, d2: NDArray, n: int, k: int, nowhere: int
) -> tuple[NDArray, NDArray]:
    """Of listed pairs the k nearest of every row, by distance and index; (n, k) each.

    Where there are fewer, the distance is infinite and the index `nowhere`.
    """
    order = np.lexsort((j, d2, i))
    i, j, d2 = i[order], j[order], d2[order]
    place = np.arange(len(i)) - np.searchsorted(i, i)
    kept = place < k
    out: Any = np.full((n, k), np.inf), np.full((n, k), nowhere, np.int64)
    out[0][i[kept], place[kept]] = d2[kept]
    out[1][i[kept], place[kept]] = j[kept]
    return out
