"""Image distortion distances: each pixel looks for its match in a small window.

One displacement at a time, over flattened images that share one row length: then the
displacement is a constant offset, the sum over a patch a few shifted sums, and every
loop is long and straight. The few entries between the rows are computed for nothing.
"""

import numpy as np

from widemargin._compute.compiled import REORDER, njit


@njit(fastmath=REORDER)
def _sum_of_shifted(source, target, n, count, step):
    """target[k] = sum of source[k + p * step] over p < count."""
    for k in range(n):
        target[k] = source[k]
    for p in range(1, count):
        moved = source[p * step :]
        for k in range(n):
            target[k] += moved[k]


@njit(fastmath=REORDER)
def distortion_tile(x, y, height, width, patch, window, out):
    """Distances of all pairs of padded channel images.

    `x` is (n_x, channels, rows * stride) with rows = height + 2 patch and stride =
    width + 2 (patch + window), the last 2 window entries of a row unused; `y` is
    (n_y, channels, (rows + 2 window) * stride); `out` (n_x, n_y).
    """
    channels = x.shape[1]
    stride = width + 2 * (patch + window)
    n_squares = (height + 2 * patch) * stride - 2 * window
    n_across = n_squares - 2 * patch
    n_sums = n_across - 2 * patch * stride
    squares = np.empty(n_squares, x.dtype)
    across = np.empty(n_squares, x.dtype)
    sums = np.empty(n_squares, x.dtype)
    best = np.empty(n_sums, x.dtype)
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            best[:] = np.inf
            for down in range(2 * window + 1):
                for right in range(2 * window + 1):
                    squares[:] = 0
                    for c in range(channels):
                        a, b = x[i, c], y[j, c, down * stride + right :]
                        for k in range(n_squares):
                            difference = a[k] - b[k]
                            squares[k] += difference * difference
                    _sum_of_shifted(squares, across, n_across, 2 * patch + 1, 1)
                    _sum_of_shifted(across, sums, n_sums, 2 * patch + 1, stride)
                    for k in range(n_sums):
                        best[k] = min(best[k], sums[k])
            total = 0.0
            for r in range(height):
                for k in range(r * stride, r * stride + width):
                    total += best[k]
            out[i, j] = total
