"""The affine midpoint distance of a block of pairs, from products of its two ends."""

import numpy as np

from widemargin._compute.compiled import njit

# Squares and products have half the digits of the tangents themselves: a direction of
# which, squared, no more than this share is left outside the ones before it may be a
# short one or mere rounding. Such pairs are left to orthonormalize, which can tell.
UNCLEAR = 1e-6
SUSPECT = 1e-9


@njit()
def _project(products, x_grams, y_grams, x_moves, y_moves, spring, tile):
    """Subtract c^T G^+ c/(1+k) from every entry of `tile` (which holds |delta|^2)."""
    n_x, n_y = tile.shape
    n_tangents = x_moves.shape[1]
    sizes = np.empty(n_tangents)
    G = np.empty((n_tangents, n_tangents))
    c = np.empty(n_tangents)
    for i in range(n_x):
        for j in range(n_y):
            for s in range(n_tangents):
                row, column = i * n_tangents + s, j * n_tangents + s
                along_x = x_moves[i, s] - products[0][row, j]
                along_y = products[1][i, column] - y_moves[j, s]
                c[s] = 0.5 * (along_x + along_y)
                sizes[s] = 0.25 * (x_grams[i, s, s] + y_grams[j, s, s])
                for t in range(n_tangents):
                    cross = products[2][row, j * n_tangents + t]
                    mirrored = products[2][i * n_tangents + t, column]
                    own = x_grams[i, s, t] + y_grams[j, s, t]
                    G[s, t] = 0.25 * (own + cross + mirrored)
            tile[i, j] -= _quadratic_form(G, c, sizes) / (1.0 + spring)


@njit()
def _quadratic_form(G, c, sizes):
    """c^T G^+ c by elimination, infinite where `UNCLEAR`; G and c are overwritten.

    `sizes` are what the diagonal of G was summed from: its rounding is relative to
    them, not to G, where tangents of the two ends nearly cancel.
    """
    n = c.shape[0]
    total = 0.0
    for s in range(n):
        pivot = G[s, s]
        if sizes[s] == 0.0:
            continue
        if pivot <= UNCLEAR * sizes[s]:
            return np.inf
        total += c[s] * c[s] / pivot
        for t in range(s + 1, n):
            factor = G[t, s] / pivot
            c[t] -= factor * c[s]
            for u in range(s + 1, n):
                G[t, u] -= factor * G[s, u]
    return total


def affine_midpoint_tile(x, x_tangents, y, y_tangents, spring):
    """Squared midpoint distances of a block of pairs, -1 where rounding may decide.

    `x` is (n_x, d) and `x_tangents` (n_x, l, d), raw tangents, float64; `y` likewise.
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
    _project(
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
