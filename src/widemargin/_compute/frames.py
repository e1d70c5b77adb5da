"""Orthonormal frames, one sample at a time while its rows stay in the cache."""

import numpy as np

from widemargin._compute.compiled import REORDER, njit

# What two projections leave of a dependent row of length one.
ROUNDING = 1e-14


@njit(fastmath=REORDER)
def _dot(u, v):
    total = 0.0
    for i in range(u.shape[0]):
        total += u[i] * v[i]
    return total


@njit(fastmath=REORDER)
def _remove(row, unit):
    """Take the part along `unit` out of `row`; return the squared norm that is left."""
    along = _dot(row, unit)
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
            norm = np.sqrt(_dot(row, row))
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
            square = _dot(unit, unit)
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


def orthonormal(tangents, rtol):
    """Return the frames, in float64, of tangents that stay as they are."""
    frames = np.array(tangents, dtype=np.float64, order="C")
    gram_schmidt(frames, rtol)
    return frames
