"""Frames and tangent distances as formulas over arrays: of blocks and of listed pairs.

The kernels of `frames`, `tangent_elimination` and `search` stand in for these, see
`engines`; symbols and rules are explained there. A frame, and the distance of a listed
pair, have the same bits alone and among others.

Shapes: tangents (n, l, d); a block of pairs (n_x, n_y); pairs (m,).
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.engines import formula
from widemargin._compute.machine import batched_slices

# What two projections leave of a dependent row of length one.
ROUNDING = 1e-14
# Below this a pivot is rounding: the direction is in the span of those before it.
SINGULAR = 1e-12
AMPLIFIED = 8.0
# Numbers of the pairs that are measured at once.
PAIR_NUMBERS = 2**18
# Pairs of a block at once: what a formula makes on its way stays small, and near.
BLOCK_PAIRS = 2**14


def fits_squares(largest: float) -> bool:
    """Whether float32 holds squared distances; raise where not even float64 does."""
    if largest and not 1e-140 < largest < 1e150:
        raise ValueError(
            f"X and Y reach {largest:.2g}: their squared distances cannot be told in "
            "float64; scale the data, for instance by StandardScaler."
        )
    return not largest or 1e-12 < largest < 1e16


@formula
def orthonormal(tangents: NDArray, rtol: float) -> NDArray:
    """Return the frames (n, l, d), in float64, of tangents that stay as they are."""
    return gram_schmidt(tangents, rtol)


def gram_schmidt(tangents: NDArray, rtol: float) -> NDArray:
    """Pivoted Gram-Schmidt.

    The row with the most left comes next, dependent ones last. A row is projected
    twice, which keeps orthogonality at rounding level.
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


@formula
def projected(frames: NDArray, axes: NDArray) -> NDArray:
    """Frames of projections of frames; directions are kept down to rounding."""
    return gram_schmidt(frames.astype(float) @ axes.T, ROUNDING)


def _or_one(values: NDArray, least: float = 0.0) -> NDArray:
    return np.where(values > least, values, 1.0)


def _rows_at_once(out: NDArray) -> Iterable[slice]:
    """Rows of a block whose pairs are computed together."""
    return batched_slices(len(out), max(1, BLOCK_PAIRS // max(1, out.shape[1])))


def one_sided(
    products: NDArray, x_products: NDArray, x_norms: NDArray, x_coefficients: NDArray,
    y_norms: NDArray, y_coefficients: NDArray, share: float, spring: float, tau: float,
    lower: bool, out: NDArray,
) -> int:  # fmt: skip
    """As the kernel of :mod:`widemargin._compute.tangent_elimination`."""
    n, l_x = x_coefficients.shape
    l_y, n_y = y_coefficients.shape
    real = out.dtype.type
    shrink = real(share / (1.0 + spring))
    of_y = products.reshape(n, 1 + l_y, n_y)
    of_x, suspects = x_products.reshape(n, l_x, n_y), 0
    for rows in _rows_at_once(out):
        G, own = of_y[rows], of_x[rows]
        scale = x_norms[rows, None] + y_norms
        d2 = scale - real(2) * G[:, 0]
        for s in range(l_y):
            d2 -= shrink * (G[:, 1 + s] - y_coefficients[s]) ** 2
        for q in range(l_x):
            d2 -= shrink * (x_coefficients[rows, q, None] - own[:, q]) ** 2
        suspects += _marked(d2, scale, tau, lower, out[rows])
    return suspects


def _marked(d2: NDArray, scale: NDArray, tau: float, lower: bool, out: NDArray) -> int:
    """Take the rounding off, or write -1 where it is most of the result."""
    rounding = out.dtype.type(tau) * scale
    if lower:
        np.subtract(d2, rounding, out=out)
        return 0
    kept = d2 >= rounding
    out[:] = np.where(kept, d2, -1)
    return int(out.size - np.count_nonzero(kept))


# A determinant that overflows is not resolved.
@np.errstate(over="ignore", invalid="ignore")
def two_sided(
    products: NDArray, x_norms: NDArray, x_coefficients: NDArray, y_norms: NDArray,
    y_coefficients: NDArray, spring: float, tau: float, floor: float, clear: float,
    lower: bool, out: NDArray,
) -> int:  # fmt: skip
    """As the kernel of :mod:`widemargin._compute.tangent_elimination`."""
    l_x, (l_y, n_y) = x_coefficients.shape[1], y_coefficients.shape
    G = products.reshape(len(out), 1 + l_x, 1 + l_y, n_y)
    return sum(
        _two_sided_rows(
            G[rows], x_norms[rows], x_coefficients[rows], y_norms, y_coefficients,
            spring, tau, floor, clear, lower, out[rows],
        )
        for rows in _rows_at_once(out)
    )  # fmt: skip


def _two_sided_rows(
    G: NDArray, x_norms: NDArray, x_coefficients: NDArray, y_norms: NDArray,
    y_coefficients: NDArray, spring: float, tau: float, floor: float, clear: float,
    lower: bool, out: NDArray,
) -> int:  # fmt: skip
    """Measure the pairs of some rows of a block; G is (n, 1 + l_x, 1 + l_y, n_y)."""
    l_y = len(y_coefficients)
    real = out.dtype.type
    stiffness, shrink = real(1.0 + spring), real(1.0 / (1.0 + spring))
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
    spring: float, moves: Callable[..., tuple[NDArray, NDArray, NDArray]],
) -> NDArray:  # fmt: skip
    """Squared distances (m,) of points (m, d) with frames (m, l, d), from residuals.

    `sides` is "reference", "both" or "mean"; `moves` is `best_moves` or its kernel.
    """
    delta = np.subtract(x, y, dtype=float)
    if sides == "both":
        return moves(delta, x_frames, y_frames, spring)[0]
    d2 = moves(delta, x_frames[:, :0], y_frames, spring)[0]
    if sides == "mean":
        d2 = (d2 + moves(delta, x_frames, y_frames[:, :0], spring)[0]) / 2
    return d2


@formula
def best_moves(
    delta: NDArray, x_frames: NDArray, y_frames: NDArray, spring: float
) -> tuple[NDArray, NDArray, NDArray]:
    """Energy (m,) of the best moves of paired rows, the moves, and what they leave.

    `delta` (m, d) is x - y, from which the moves (m, l_x + l_y) are taken.
    """
    return _moves(delta, x_frames, y_frames, spring)


def _moves(
    delta: NDArray, x_frames: NDArray, y_frames: NDArray, spring: float
) -> tuple[NDArray, NDArray, NDArray]:
    """Solve for the moves in two steps, as :mod:`.frames` explains."""
    frames = np.concatenate([x_frames, y_frames], axis=1)
    delta = delta.astype(float, copy=False)
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
    # What is left of a difference in the span is rounding, as of a dependent row.
    whole = np.einsum("md,md->m", delta, delta)
    return np.where(d2 <= ROUNDING * ROUNDING * whole, 0.0, d2), moves, residual


def listed_distances(
    x: NDArray, x_frames: NDArray, y: NDArray, y_frames: NDArray, i: NDArray,
    j: NDArray, sides: str, spring: float, moves: Callable = _moves,
) -> NDArray:  # fmt: skip
    """Squared distances of samples `i` of x to `j` of y, whose frame may be one."""
    d2 = np.empty(len(i))
    step = int(len(y_frames) == len(y))
    per_pair = x.shape[1] * (x_frames.shape[1] + y_frames.shape[1] + 1)
    for s in batched_slices(len(i), PAIR_NUMBERS // per_pair):
        d2[s] = paired_distances(
            x[i[s]], x_frames[i[s]], y[j[s]], y_frames[j[s] * step], sides, spring,
            moves,
        )  # fmt: skip
    return d2


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


# Which references count, by their label against that of the query.
ALL, SAME, OTHER = 0, 1, -1


class Counted(NamedTuple):
    """Which references count for query i: ALL, those of SAME label or those of OTHER.

    The label of reference j is ``y_labels[j]``, that to compare it with ``labels[i]``.
    """

    labels: NDArray
    y_labels: NDArray
    kind: int


@formula
def nearest_under_bounds(
    bounds: NDArray,
    x: NDArray,
    x_frames: NDArray,
    y: NDArray,
    y_frames: NDArray,
    sides: str,
    spring: float,
    counted: Counted,
    k: int,
    n_jobs: int | None,
) -> tuple[NDArray, NDArray]:
    """Squared distances and indices of the k nearest references of every row of x.

    ``bounds[i, j]`` never exceeds the squared distance of the pair. Where fewer than k
    count, the distance is infinite and the index len(y). The k least bounds give a
    radius.
    """
    counts = _counts(counted, counted.y_labels, bounds.shape)
    bounds = np.where(counts, bounds, np.inf)
    seeds = smallest(bounds, k)
    i, j = np.repeat(np.arange(len(x)), seeds.shape[1]), seeds.ravel()
    i, j = i[counts[i, j]], j[counts[i, j]]
    ends = x, x_frames, y, y_frames
    d2 = listed_distances(*ends, i, j, sides, spring)
    radius = nearest_listed(i, j, d2, len(x), k, len(y))[0][:, -1:]
    i, j = np.nonzero(counts & (bounds <= radius))
    d2 = listed_distances(*ends, i, j, sides, spring)
    return nearest_listed(i, j, d2, len(x), k, len(y))


@formula
def nearest_of_candidates(
    candidates: NDArray,
    x: NDArray,
    x_frames: NDArray,
    y: NDArray,
    y_frames: NDArray,
    sides: str,
    spring: float,
    counted: Counted,
    k: int,
    n_jobs: int | None,
) -> tuple[NDArray, NDArray]:
    """As `nearest_under_bounds`, among the `candidates` (n_x, n_candidates)."""
    own = counted.y_labels[candidates]
    i, c = np.nonzero(_counts(counted, own, candidates.shape))
    j = candidates[i, c]
    d2 = listed_distances(x, x_frames, y, y_frames, i, j, sides, spring)
    return nearest_listed(i, j, d2, len(x), k, len(y))


def _counts(counted: Counted, y_labels: NDArray, shape: Any) -> NDArray:
    labels, kind = counted.labels[:, None], counted.kind
    return np.broadcast_to(
        (kind == ALL) | ((labels == y_labels) == (kind == SAME)), shape
    )


def on_a_shared_frame(sides: str, spring: float) -> tuple[str, float]:
    """Sides and spring of the same distance where all samples share one frame.

    Both ends move along the same directions then, so that one end is enough: two
    springs in series are one of half the stiffness.
    """
    return "reference", spring / 2 if sides == "both" else spring


def worth_a_bound(n: int, d: int, n_components: int) -> bool:
    """Whether a projection of n references in d dimensions saves anything.

    It does not where it keeps most dimensions, or where making it takes longer than
    meeting the few references there are.
    """
    return n_components < 0.75 * d and n >= 4 * n_components


def smallest(values: NDArray, count: int) -> NDArray:
    """Columns (n, count) of the smallest of every row, or of all, in any order."""
    if count < values.shape[1]:
        return np.argpartition(values, count - 1, axis=1)[:, :count]
    return np.tile(np.arange(values.shape[1]), (len(values), 1))


# Squares and products have half the digits of the tangents themselves: a direction of
# which, squared, no more than this share is left outside the ones before it may be a
# short one or mere rounding. Such pairs are left to orthonormalize, which can tell.
UNCLEAR = 1e-6
SUSPECT = 1e-9


@formula
def project_midpoints(
    products: tuple[NDArray, NDArray, NDArray], x_grams: NDArray, y_grams: NDArray,
    x_moves: NDArray, y_moves: NDArray, spring: float, tile: NDArray,
) -> None:  # fmt: skip
    """Subtract c^T G^+ c/(1+k) from every entry of `tile` (which holds |delta|^2).

    By elimination, infinite where `UNCLEAR`: the rounding of a pivot is relative to
    what the diagonal of G was summed from, not to G, where tangents of the two ends
    nearly cancel. `products` are U y^T, x V^T and U V^T.
    """
    (n_x, n_y), n_tangents = tile.shape, x_moves.shape[1]
    along_x, along_y = (
        products[0].reshape(n_x, n_tangents, n_y).transpose(0, 2, 1),
        products[1].reshape(n_x, n_y, n_tangents),
    )
    c = 0.5 * (x_moves[:, None] - along_x + along_y - y_moves)
    N = products[2].reshape(n_x, n_tangents, n_y, n_tangents).transpose(0, 2, 1, 3)
    own = x_grams[:, None] + y_grams
    G, sizes = 0.25 * (own + N + N.transpose(0, 1, 3, 2)), 0.25 * own
    total, unclear = np.zeros(tile.shape), np.zeros(tile.shape, bool)
    for s in range(n_tangents):
        pivot, there = G[:, :, s, s], sizes[:, :, s, s] > 0
        unclear |= there & (pivot <= UNCLEAR * sizes[:, :, s, s])
        there = there & ~unclear
        pivot = np.where(there, pivot, 1)
        total += np.where(there, c[:, :, s] ** 2 / pivot, 0)
        factor = np.where(there, 1 / pivot, 0)[:, :, None] * G[:, :, s + 1 :, s]
        c[:, :, s + 1 :] -= factor * c[:, :, s : s + 1]
        G[:, :, s + 1 :, s + 1 :] -= factor[..., None] * G[:, :, s, None, s + 1 :]
    tile -= np.where(unclear, np.inf, total) / (1.0 + spring)


def affine_midpoint_tile(
    x: NDArray, x_tangents: NDArray, y: NDArray, y_tangents: NDArray, spring: float
) -> NDArray:
    """Squared midpoint distances of a block of pairs, -1 where rounding may decide.

    `x` is (n_x, d) and `x_tangents` (n_x, l, d), raw tangents, float64; `y` likewise.
    The products of the two ends say it all, see `widemargin.metrics.tangent`.
    """
    if len(x) == 1:
        # A product with a vector rounds otherwise than the same row of a matrix.
        twice = np.repeat(x, 2, axis=0), np.repeat(x_tangents, 2, axis=0)
        return affine_midpoint_tile(*twice, y, y_tangents, spring)[:1]
    d = x.shape[1]
    center = y.mean(axis=0)
    x, y = x - center, y - center
    x_rows, y_rows = x_tangents.reshape(-1, d), y_tangents.reshape(-1, d)
    scale = (x**2).sum(1)[:, None] + (y**2).sum(1)
    tile = scale - 2 * (x @ y.T)
    project_midpoints(
        (x_rows @ y.T, x @ y_rows.T, x_rows @ y_rows.T),
        np.matmul(x_tangents, x_tangents.transpose(0, 2, 1)),
        np.matmul(y_tangents, y_tangents.transpose(0, 2, 1)),
        np.einsum("nld,nd->nl", x_tangents, x),
        np.einsum("nld,nd->nl", y_tangents, y),
        float(spring),
        tile,
    )
    tile[tile < SUSPECT * scale] = -1.0
    return tile
