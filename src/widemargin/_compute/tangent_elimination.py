"""What is left of a tangent distance once the inner products are there.

One product of stacked [point; frame] matrices gives a block C of inner products; the
functions here turn it into squared distances. The reference columns are
tangent-major (all points, then all first tangents, ...), so that the pair index j is
contiguous and every scalar step of the small linear algebra is a loop over LANES
pairs that vectorises.

Symbols, for points x, y with orthonormal frames U, V and spring k:
delta = x - y, a = U delta, b = V delta, M = U V^T. The two-sided distance is

    |delta|^2 - |a|^2/(1+k) - r^T S^-1 r,
    r = b - M^T a/(1+k),   S = (1+k) I - M^T M/(1+k).

A pair whose rounding could be seen is written as -1: the caller computes it again from
the explicit residual. Kept is what has d2 >= tau (|x|^2 + |y|^2 + c sum_s e_s/p_s) and
no pivot below `clear`, where e_s is what pivot p_s took off: the first two terms are
the cancellation of the expanded square, the last is how strongly a small pivot
amplifies errors (c = AMPLIFIED), and pivots below `clear` are rounding themselves. NaN
is never kept.

With `lower` the result is a lower bound instead, d2 - tau (|x|^2 + |y|^2 + |q|^2), and
nothing is suspect. Let products be wrong by at most e per unit of norm. For the best
moves q of the true problem, r^T S^-1 r = 2 r.q - q^T S q exceeds what was computed by
at most 2e (|x| + |y|) |q| + e |q|^2, and where S has no eigenvalue below 2e, q is at
most twice the computed one plus |x| + |y|; so tau = 8e is enough. The pivots, in units
of 1+k, multiply to no more than the smallest eigenvalue: where their product is below
`clear`, nothing can be said and the bound is negative.

Shapes: C is (n_x * rows, columns * n_y); `x_norms` (n_x,), `x_coefficients` = U x
(n_x, l_x), `y_norms` (n_y,), `y_coefficients` = V y (l_y, n_y); `out` (n_x, n_y).

Last, the affine midpoint distance of a block of pairs, from products of its two ends.
"""

import numpy as np

from widemargin._compute import formulas, frames
from widemargin._compute.compiled import IN_ORDER, njit
from widemargin._compute.formulas import UNCLEAR

LANES = 128
AMPLIFIED = 8.0


@njit(inner=True, fastmath=IN_ORDER)
def _mark(d2, x_norm, y_norms, tau, lower):
    """Take the rounding off, or write -1 where it is most of the result."""
    suspects = 0
    for j in range(d2.shape[0]):
        rounding = tau * (x_norm + y_norms[j])
        if lower:
            d2[j] -= rounding
        elif not d2[j] >= rounding:
            d2[j] = d2.dtype.type(-1)
            suspects += 1
    return suspects


@njit(fastmath=IN_ORDER)
def one_sided(
    products, x_products, x_norms, x_coefficients, y_norms, y_coefficients, share,
    spring, tau, lower, out,
):  # fmt: skip
    """|delta|^2 - share (|a|^2 + |b|^2)/(1+k): both one-sided distances for a half.

    The distance with tangents at y for one, `x_coefficients` being (n_x, 0) then.
    `products` is (n_x, (1 + l_y) * n_y); `x_products` (n_x * l_x, n_y) is U y.
    """
    l_x = x_coefficients.shape[1]
    l_y, n_y = y_coefficients.shape
    real = products.dtype.type
    shrink = real(share / (1.0 + spring))
    tau = real(tau)
    suspects = 0
    for i in range(out.shape[0]):
        row, d2, x_norm = products[i], out[i], x_norms[i]
        for j in range(n_y):
            d2[j] = x_norm + y_norms[j] - real(2) * row[j]
        for s in range(l_y):
            b_row = row[(1 + s) * n_y : (2 + s) * n_y]
            offset = y_coefficients[s]
            for j in range(n_y):
                b = b_row[j] - offset[j]
                d2[j] -= b * b * shrink
        for q in range(l_x):
            a_row = x_products[i * l_x + q]
            own = x_coefficients[i, q]
            for j in range(n_y):
                a = own - a_row[j]
                d2[j] -= a * a * shrink
        suspects += _mark(d2, x_norm, y_norms, tau, lower)
    return suspects


@njit(inner=True, fastmath=IN_ORDER)
def _eliminate(
    gram, r, stiffness, shrink, floor, clear, d2, scale, inverses, factor, width
):
    """Subtract r^T S^-1 r from `d2` by Gaussian elimination, LANES pairs at a time.

    `gram` holds the lower triangle of M^T M and is overwritten. Every pivot of S is
    at least its smallest eigenvalue, hence at least `floor`; rounding may say less.
    """
    real = gram.dtype.type
    l_y = r.shape[0]
    for s in range(l_y):
        pivots, r_s, inverse = gram[s * (s + 1) // 2 + s], r[s], inverses[s]
        for j in range(width):
            pivot = stiffness - shrink * pivots[j]
            inverse[j] = real(1) / max(pivot, floor)
            taken = r_s[j] * r_s[j] * inverse[j]
            d2[j] -= taken
            amplified = real(AMPLIFIED) * taken * inverse[j]
            scale[j] += amplified if pivot >= clear else real(np.inf)
        for t in range(s + 1, l_y):
            column, r_t = gram[t * (t + 1) // 2 + s], r[t]
            for j in range(width):
                factor[j] = shrink * column[j] * inverse[j]
                r_t[j] += factor[j] * r_s[j]
            for u in range(s + 1, t + 1):
                target = gram[t * (t + 1) // 2 + u]
                other = gram[u * (u + 1) // 2 + s]
                for j in range(width):
                    target[j] += factor[j] * other[j]


@njit(inner=True, fastmath=IN_ORDER)
def _lower(gram, r, stiffness, shrink, inverses, tau, clear, norms, d2, det, out):
    """Bounds from what `_eliminate` left: solve for q, take its rounding off."""
    real = gram.dtype.type
    width = d2.shape[0]
    for j in range(width):
        det[j] = real(1)
    for s in range(r.shape[0] - 1, -1, -1):
        r_s, inverse = r[s], inverses[s]
        for t in range(s + 1, r.shape[0]):
            column, r_t = gram[t * (t + 1) // 2 + s], r[t]
            for j in range(width):
                r_s[j] += shrink * column[j] * r_t[j]
        for j in range(width):
            r_s[j] *= inverse[j]
            norms[j] += r_s[j] * r_s[j]
            det[j] *= stiffness * inverse[j]
    for j in range(width):
        bound = d2[j] - tau * norms[j]
        resolved = det[j] * clear <= real(1) and bound == bound
        out[j] = bound if resolved else real(-1)


@njit(fastmath=IN_ORDER)
def two_sided(
    products,
    x_norms,
    x_coefficients,
    y_norms,
    y_coefficients,
    spring,
    tau,
    floor,
    clear,
    lower,
    out,
):
    """Tangents at both ends; `products` is (n_x * (1 + l_x), (1 + l_y) * n_y)."""
    l_x = x_coefficients.shape[1]
    l_y, n_y = y_coefficients.shape
    real = products.dtype.type
    stiffness, shrink = real(1.0 + spring), real(1.0 / (1.0 + spring))
    tau, floor, clear = real(tau), real(floor), real(clear)
    gram = np.empty((l_y * (l_y + 1) // 2, LANES), products.dtype)
    r = np.empty((l_y, LANES), products.dtype)
    d2 = np.empty(LANES, products.dtype)
    scale = np.empty(LANES, products.dtype)
    inverses = np.empty((l_y, LANES), products.dtype)
    a = np.empty(LANES, products.dtype)
    suspects = 0
    for i in range(out.shape[0]):
        top = i * (1 + l_x)
        x_norm = x_norms[i]
        for start in range(0, n_y, LANES):
            width = min(LANES, n_y - start)
            inner, norms = products[top, start:], y_norms[start:]
            for j in range(width):
                scale[j] = x_norm + norms[j]
                d2[j] = scale[j] - real(2) * inner[j]
            for s in range(l_y):
                b_row = products[top, (1 + s) * n_y + start :]
                offset, r_s = y_coefficients[s, start:], r[s]
                for j in range(width):
                    r_s[j] = b_row[j] - offset[j]
            for entry in gram:
                for j in range(width):
                    entry[j] = real(0)
            for q in range(l_x):
                row, own = products[top + 1 + q], x_coefficients[i, q]
                a_row = row[start:]
                for j in range(width):
                    a[j] = own - a_row[j]
                    d2[j] -= a[j] * a[j] * shrink
                for s in range(l_y):
                    m_s, r_s = row[(1 + s) * n_y + start :], r[s]
                    for j in range(width):
                        r_s[j] -= m_s[j] * a[j] * shrink
                    for t in range(s + 1):
                        m_t = row[(1 + t) * n_y + start :]
                        entry = gram[s * (s + 1) // 2 + t]
                        for j in range(width):
                            entry[j] += m_s[j] * m_t[j]
            target = out[i, start : start + width]
            _eliminate(gram, r, stiffness, shrink, floor, clear, d2, scale, inverses,
                       a, width)  # fmt: skip
            if lower:
                for j in range(width):
                    scale[j] = x_norm + norms[j]
                _lower(gram, r, stiffness, shrink, inverses, tau, clear, scale,
                       d2[:width], a, target)  # fmt: skip
                continue
            for j in range(width):
                if d2[j] >= tau * scale[j]:
                    target[j] = d2[j]
                else:
                    target[j] = real(-1)
                    suspects += 1
    return suspects


@njit()
def project_midpoints(products, x_grams, y_grams, x_moves, y_moves, spring, tile):
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


@njit(inner=True)
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


def listed_distances(x, x_frames, y, y_frames, i, j, sides, spring):
    """As the formula."""
    return formulas.listed_distances(
        x, x_frames, y, y_frames, i, j, sides, spring, frames.best_moves
    )
