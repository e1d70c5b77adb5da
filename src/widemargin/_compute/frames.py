"""Orthonormal frames, and tangent distances of single pairs from their residuals.

Frames are made one sample at a time while its rows stay in the cache.

Distances are computed in float64 from the explicit residual: the expanded square loses
everything below about 1e-7 of the norms in float32. Here delta = x - y is formed first,
so identical inputs give exactly zero, and the answer is a sum of squares, so nothing is
negative.

The moves c = [p; q] along the stacked rows W = [U; V] solve (W W^T + k I) c = W delta.
All inner products are taken, also those within one frame: frames in float32 are
orthonormal to 1e-7 only, and where two of them are nearly parallel, taking them for
orthonormal makes moves of noise over noise. A second step, from the residual of the
first, makes up for the squared condition of the normal equations, so that moving both
ends is never worse than moving one.
"""

import numpy as np

from widemargin._compute.compiled import REORDER, dot, njit

# What two projections leave of a dependent row of length one.
ROUNDING = 1e-14
# What projections leave, squared, of a row that depends on others.
DEPENDENT = 1e-20
# What kernels call the sides; "query" is "reference" with the ends exchanged.
AT_Y, TWO_SIDED, MEAN = 0, 1, 2
SIDE_CODES = {"reference": AT_Y, "both": TWO_SIDED, "mean": MEAN}
# Below this a pivot is rounding: the direction is in the span of those before it,
# which are enough.
SINGULAR = 1e-12


@njit(inner=True, fastmath=REORDER)
def _remove(row, unit):
    """Take the part along `unit` out of `row`; return the squared norm that is left."""
    along = dot(row, unit)
    left = 0.0
    for i in range(row.shape[0]):
        row[i] -= along * unit[i]
        left += row[i] * row[i]
    return left


@njit(inline="always")
def _unit_rows(rows, left):
    """Scale rows to length one, by their largest entry first lest squares overflow."""
    for j in range(rows.shape[0]):
        row = rows[j]
        largest = 0.0
        for i in range(row.shape[0]):
            largest = max(largest, abs(row[i]))
        left[j] = 0.0
        if largest > 0.0:
            for i in range(row.shape[0]):
                row[i] /= largest
            norm = np.sqrt(dot(row, row))
            for i in range(row.shape[0]):
                row[i] /= norm
            left[j] = 1.0


@njit()
def gram_schmidt(tangents, rtol):
    """Pivoted Gram-Schmidt of every ``tangents[n]`` (l, d) in place, in float64.

    The row with the most left outside the span so far comes next; it is projected
    once more before it is normalised, which keeps orthogonality at rounding level.
    What is left with a norm below `rtol` of its row, or below its rounding, counts as
    dependent; those rows become zero and stand last.
    """
    rtol = max(rtol, ROUNDING)
    n_samples, n_tangents, n_features = tangents.shape
    left = np.empty(n_tangents)
    for s in range(n_samples):
        rows = tangents[s]
        _unit_rows(rows, left)
        rank = 0
        while rank < n_tangents:
            pivot = rank
            for j in range(rank + 1, n_tangents):
                if left[j] > left[pivot]:
                    pivot = j
            if left[pivot] <= rtol * rtol:
                break
            if pivot != rank:
                left[pivot] = left[rank]
                for i in range(n_features):
                    rows[rank, i], rows[pivot, i] = rows[pivot, i], rows[rank, i]
            unit = rows[rank]
            square = dot(unit, unit)
            for k in range(rank):
                square = _remove(unit, rows[k])
            if square <= rtol * rtol:
                left[rank] = 0.0
                continue
            norm = np.sqrt(square)
            for i in range(n_features):
                unit[i] /= norm
            rank += 1
            for j in range(rank, n_tangents):
                if left[j] > 0.0:
                    left[j] = _remove(rows[j], unit)
        for j in range(rank, n_tangents):
            for i in range(n_features):
                rows[j, i] = 0.0


@njit()
def straighten(stack, first):
    """Make the rows of every ``stack[n]`` from `first` on orthonormal again, in place.

    In their order, and by one projection where they nearly are. Rows that depend on
    those before them become zero and stand last.
    """
    for n in range(stack.shape[0]):
        rank = first
        for j in range(first, stack.shape[1]):
            row = stack[n, rank]
            if rank < j:
                for i in range(row.shape[0]):
                    row[i] = stack[n, j, i]
            square = left = dot(row, row)
            before = np.inf
            # Once more where most of it has gone, and with it digits.
            while DEPENDENT * square < left < 0.5 * before:
                before = left
                for k in range(first, rank):
                    left = _remove(row, stack[n, k])
            if not left <= DEPENDENT * square:
                norm = np.sqrt(left)
                for i in range(row.shape[0]):
                    row[i] /= norm
                rank += 1
        for j in range(rank, stack.shape[1]):
            for i in range(stack.shape[2]):
                stack[n, j, i] = 0.0


def retract(frames):
    """As `prototypes.tangent_models.retract`."""
    straight = np.array(frames, dtype=np.float64, order="C")
    straighten(straight, 0)
    return straight


def orthonormal(tangents, rtol):
    """Return the frames, in float64, of tangents that stay as they are."""
    frames = np.array(tangents, dtype=np.float64, order="C")
    gram_schmidt(frames, rtol)
    return frames


def projected(frames, axes):
    """As the formula."""
    shadows = frames.astype(float) @ axes.T
    gram_schmidt(shadows, ROUNDING)
    return shadows


@njit(inline="always")
def _stack(first, second):
    """Rows of both frames in float64; plain loops compile in a fraction of the time."""
    n, d = first.shape
    W = np.empty((n + second.shape[0], d))
    for s in range(W.shape[0]):
        for i in range(d):
            W[s, i] = first[s, i] if s < n else second[s - n, i]
    return W


@njit(inline="always")
def _factor(A):
    """Turn the lower triangle of A into L and D of L D L^T; no pivot is rounding."""
    n = A.shape[0]
    for s in range(n):
        if A[s, s] <= SINGULAR:
            A[s, s] = 0.0
            continue
        for t in range(s + 1, n):
            factor = A[t, s] / A[s, s]
            for u in range(s + 1, t + 1):
                A[t, u] -= factor * A[u, s]
        for t in range(s + 1, n):
            A[t, s] /= A[s, s]


@njit(inline="always")
def _solve(A, r):
    """Solve in place with what `_factor` left; directions of no pivot stay put."""
    n = r.shape[0]
    for s in range(n):
        if A[s, s] > 0.0:
            for t in range(s + 1, n):
                r[t] -= A[t, s] * r[s]
    for s in range(n - 1, -1, -1):
        if A[s, s] > 0.0:
            r[s] /= A[s, s]
            for t in range(s + 1, n):
                r[s] -= A[t, s] * r[t]
        else:
            r[s] = 0.0


@njit(inner=True)
def _least_squares(delta, first, second, spring, moves, residual):
    """Energy of the best moves along the rows of two frames, and what they leave.

    `moves` (at least as many as rows) and `residual` are written. Called and not
    inlined: distances and alignments share its compilation.
    """
    W = _stack(first, second)
    n, d = W.shape
    A, r = np.empty((n, n)), np.empty(n)
    moves = moves[:n]
    for s in range(n):
        moves[s] = 0.0
    for s in range(n):
        for t in range(s + 1):
            A[s, t] = dot(W[s], W[t])
        A[s, s] += spring
    _factor(A)
    for i in range(d):
        residual[i] = delta[i]
    for _ in range(2):
        for s in range(n):
            r[s] = dot(W[s], residual) - spring * moves[s]
        _solve(A, r)
        for s in range(n):
            moves[s] += r[s]
            for i in range(d):
                residual[i] -= r[s] * W[s, i]
    energy = spring * dot(moves, moves) + dot(residual, residual)
    # What is left of a difference in the span is rounding.
    return 0.0 if energy <= ROUNDING * ROUNDING * dot(delta, delta) else energy


@njit(inner=True)
def squared_distance(x, x_frame, y, y_frame, sides, spring, delta, residual):
    """Squared distance of one pair; `delta` and `residual` are scratch, in float64.

    `sides` is one of SIDE_CODES.
    """
    same = True
    for c in range(x.shape[0]):
        delta[c] = np.float64(x[c]) - np.float64(y[c])
        same = same and delta[c] == 0.0
    if same:
        return 0.0
    l_x, l_y = x_frame.shape[0], y_frame.shape[0]
    moves, d2 = np.empty(l_x + l_y), 0.0
    # One call for all sides: the compiler would write out each.
    for of_x in range(2 if sides == MEAN else 1):
        at_x = l_x if of_x or sides == TWO_SIDED else 0
        at_y = 0 if of_x else l_y
        d2 += _least_squares(
            delta, x_frame[:at_x], y_frame[:at_y], spring, moves, residual
        )
    return 0.5 * d2 if sides == MEAN else d2


@njit()
def _align(delta, x_frames, y_frames, spring, d2, moves, residual):
    for i in range(delta.shape[0]):
        d2[i] = _least_squares(
            delta[i], x_frames[i], y_frames[i], spring, moves[i], residual[i]
        )


def best_moves(delta, x_frames, y_frames, spring):
    """As the formula."""
    delta, x_frames, y_frames = (
        array.astype(float, order="C") for array in (delta, x_frames, y_frames)
    )
    n = len(delta)
    d2, residual = np.empty(n), np.empty(delta.shape)
    moves = np.empty((n, x_frames.shape[1] + y_frames.shape[1]))
    _align(delta, x_frames, y_frames, float(spring), d2, moves, residual)
    return d2, moves, residual
