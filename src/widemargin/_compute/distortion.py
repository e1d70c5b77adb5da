r"""Image distortion distances: each pixel looks for its match in a small window.

The cost of moving pixel (r, c) by (a, b) is the squared difference of two gradient
images summed over a patch. For one displacement a strip of neighbouring columns goes
down the rows in the lanes of registers: the squares of the last rows are kept there and
summed, then neighbouring lanes. Every lane but the last 2 patch gives one pixel.

Shapes: `x` (n_x, 2, pixels), images of height + 2 patch rows and width + 2 patch
columns; `y` (n_y, 2, pixels), with `window` more on all sides, along the rows one more
still for the pseudo two-dimensional model. Rows one after the other, and at the end as
many entries as there are lanes, which are read but count for nothing.
"""

import numpy as np

from widemargin._compute.compiled import REORDER, njit
from widemargin._compute.simd import (
    all_of,
    first,
    least,
    least_near,
    least_of_all,
    load,
    pushed,
    splat,
    store,
    total,
    total_of_next,
)


def lanes_for(width: int, patch: int) -> int:
    """How many lanes to give to rows of this width; a few large strips are fastest."""
    return 16 if width + 2 * patch <= 16 else 32 * (1 + patch // 8)


@njit(fastmath=REORDER)
def gradient_images(X, shape, pad, background, softness, n_lanes):
    """Sobel gradients (n, 2, pixels + n_lanes) of images with a border of `pad` pixels.

    They are 1/8 of the usual sums, divided by sqrt(|g|^2 + softness) unless that is
    negative.
    """
    height, width = shape
    rows, columns = height + 2 * pad, width + 2 * pad
    image = np.full((rows + 2, columns + 2), X.dtype.type(background))
    out = np.zeros((len(X), 2, rows * columns + n_lanes), X.dtype)
    eighth, soft = X.dtype.type(0.125), X.dtype.type(softness)
    for i in range(len(X)):
        # One by one: of arrays numba compiles what it would say of their shapes too,
        # which takes three seconds.
        for r in range(height):
            for c in range(width):
                image[pad + 1 + r, pad + 1 + c] = X[i, r * width + c]
        for r in range(rows):
            above, here, below = image[r], image[r + 1], image[r + 2]
            g_x = out[i, 0, r * columns : (r + 1) * columns]
            g_y = out[i, 1, r * columns : (r + 1) * columns]
            for c in range(columns):
                corner = below[c + 2] - above[c]
                other = above[c + 2] - below[c]
                right, down = here[c + 2] - here[c], below[c + 1] - above[c + 1]
                g_x[c] = (corner + other + right + right) * eighth
                g_y[c] = (corner - other + down + down) * eighth
            if softness >= 0:
                for c in range(columns):
                    root = np.sqrt(g_x[c] * g_x[c] + g_y[c] * g_y[c] + soft)
                    g_x[c] /= root
                    g_y[c] /= root
    return out


@njit(inner=True, fastmath=REORDER)
def _lower_costs(
    x, y, at_x, at_y, rows, strides, penalty, patches, lanes, costs, at_costs
):
    """Costs of a strip of pixels, all moved alike, where they are lower than `costs`.

    The strip begins `at_x` and is compared with what is `at_y`, `rows` far down.
    `patches` and `lanes` are tuples as long as a patch and a strip are wide. A literal
    for `at_costs` would be another type, and compile it again.
    """
    x_0, x_1, y_0, y_1 = x[0], x[1], y[0], y[1]
    extra = splat(costs.dtype.type(penalty), lanes)
    last = all_of(extra, patches)
    for r in range(rows + len(patches) - 1):
        d_0 = load(x_0, at_x, lanes) - load(y_0, at_y, lanes)
        d_1 = load(x_1, at_x, lanes) - load(y_1, at_y, lanes)
        last = pushed(last, d_0 * d_0 + d_1 * d_1)
        if r >= len(patches) - 1:
            cost = total_of_next(total(last), patches) + extra
            store(costs, at_costs, least(cost, load(costs, at_costs, lanes)))
            at_costs += len(lanes)
        at_x, at_y = at_x + strides[0], at_y + strides[1]


@njit(fastmath=REORDER)
def distortion_tile(x, y, shape, window, penalty, patches, lanes, out):
    """Sum the cost of the best move of every pixel, for all pairs, into `out`."""
    height, width = shape
    new = len(lanes) - len(patches) + 1
    strides = width + len(patches) - 1, width + len(patches) - 1 + 2 * window
    best = np.empty(height * len(lanes), x.dtype)
    sums = np.empty(len(lanes), x.dtype)
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            distance = 0.0
            for left in range(0, width, new):
                best[:] = np.inf
                for a in range(2 * window + 1):
                    for b in range(2 * window + 1):
                        far = (a - window) ** 2 + (b - window) ** 2
                        _lower_costs(
                            x[i], y[j], left, a * strides[1] + b + left, height,
                            strides, penalty * far, patches, lanes, best, np.int64(0),
                        )  # fmt: skip
                down = load(best, 0, lanes)
                for r in range(1, height):
                    down = down + load(best, r * len(lanes), lanes)
                store(sums, 0, down)
                for k in range(min(new, width - left)):
                    distance += sums[k]
            out[i, j] = distance


@njit(fastmath=REORDER)
def pseudo_2d_tile(x, y, shape, window, patches, moves, lanes, out):
    """Cost of the best moves that neighbours share, for all pairs, into `out`.

    Pixels of a column move along the rows together, give or take one, and down it by
    what their neighbours above do, give or take one; so do columns among each other.
    `moves` is a tuple of 2 window + 1 entries.
    """
    height, width = shape
    new, size = len(lanes) - len(patches) + 1, height * len(lanes)
    strides = width + len(patches) - 1, width + len(patches) + 1 + 2 * window
    # Costs of three displacements along the rows, of all down the columns.
    costs = np.empty((3, len(moves) * size), x.dtype)
    columns = np.empty((len(moves), width + len(lanes)), x.dtype)
    nothing = splat(x.dtype.type(0), lanes)
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            for left in range(0, width, new):
                for b in range(len(moves) + 2):
                    here = costs[b % 3]
                    here[:] = np.inf
                    for a in range(len(moves)):
                        _lower_costs(
                            x[i], y[j], left, (a + 1) * strides[1] + b + left, height,
                            strides, 0.0, patches, lanes, here, a * size,
                        )  # fmt: skip
                    if b < 2:
                        continue
                    least_cost = all_of(nothing, moves)
                    for at in range(0, size, len(lanes)):
                        least_cost = least_near(least_cost)
                        for a in range(at, at + len(moves) * size, size):
                            cost = load(costs[0], a, lanes)
                            cost = least(cost, load(costs[1], a, lanes))
                            cost = least(cost, load(costs[2], a, lanes))
                            least_cost = pushed(least_cost, first(least_cost) + cost)
                    store(columns[b - 2], left, least_of_all(least_cost))
            out[i, j] = _cheapest_path(columns, width)


@njit(fastmath=REORDER)
def _cheapest_path(costs, width):
    """Least sum of one entry of each column, in the same row as the last or beside."""
    n = len(costs)
    path, longer = costs[:, 0].copy(), np.empty(n, costs.dtype)
    for j in range(1, width):
        for b in range(n):
            before = path[b]
            if b > 0:
                before = min(before, path[b - 1])
            if b < n - 1:
                before = min(before, path[b + 1])
            longer[b] = costs[b, j] + before
        path, longer = longer, path
    return path.min()
