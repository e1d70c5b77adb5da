"""From inner products to margins and back to weights, one sample at a time.

A tangent model j is the affine space C_j + span(T_j); its rows in the stacked matrix
are [C_j; T_j1; ..; T_jm]. A block of samples times that matrix gives Z. `one_sided`
turns every row of Z into the squared distances z to all models, picks the nearest
right and the nearest wrong one, and overwrites the row with what the way back needs:
W = c [1, alpha] in the blocks of these two models, zero elsewhere, where

    c = 4 gamma z_minus / (z_plus + z_minus)^2       (right model),
    c = -4 gamma z_plus / (z_plus + z_minus)^2       (wrong model).

Then W^T X is the whole gradient but for the small corrections in `moments`.
Shapes: Z (n, K (1+m)), moments (K, 1+m, 1+m).
"""

import numpy as np
from numba import njit

# Sums may be reordered, which is what lets the loops over tangents vectorise.
_REORDER = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _explained(row, start, offset):
    """Squared length of the part of x - C within the model's tangents."""
    total = row[start] * 0
    for k in range(offset.shape[0]):
        alpha = row[start + k] - offset[k]
        total += alpha * alpha
    return total


@njit(cache=True, nogil=True)
def _add_outer(moments, sizes, weight, alpha):
    """Add weight alpha alpha^T (lower triangle), and |weight| times its diagonal."""
    for k in range(alpha.shape[0]):
        part = weight * alpha[k]
        for other in range(k + 1):
            moments[k, other] += part * alpha[other]
        sizes[k] += abs(part * alpha[k])


@njit(cache=True, nogil=True)
def _slopes(z_plus, z_minus, gamma, tiny):
    """Return c of the nearest right and of the nearest wrong model."""
    total = z_plus + z_minus
    if not total > tiny or np.isinf(total):
        return 0.0, 0.0
    scale = 4.0 * gamma / total
    return scale * (z_minus / total), -scale * (z_plus / total)


@njit(cache=True, nogil=True)
def one_sided(Z, norms, offsets, right, gamma, tiny, nearest, z, moments, sizes):
    """Fill nearest (n, 2), z (n, 2); Z becomes W; add to moments and sizes.

    `offsets` is (K, 1+m): the products of each model's rows with its own centroid.
    `right` is (n, K), true where the model has the sample's class.
    """
    n_models, width = offsets.shape
    alpha = np.empty(width)
    pair = np.empty((2, width))
    for i in range(Z.shape[0]):
        row = Z[i]
        z_plus = z_minus = np.inf
        plus = minus = -1
        for j in range(n_models):
            base = j * width
            squared = norms[i] - 2 * row[base] + offsets[j, 0]
            squared -= _explained(row, base + 1, offsets[j, 1:])
            squared = max(squared, 0.0)
            if right[i, j]:
                if squared < z_plus:
                    z_plus, plus = squared, j
            elif squared < z_minus:
                z_minus, minus = squared, j
        nearest[i, 0], nearest[i, 1] = plus, minus
        z[i, 0], z[i, 1] = z_plus, z_minus
        c_plus, c_minus = _slopes(z_plus, z_minus, gamma[i], tiny)
        for side in range(2):
            j = plus if side == 0 else minus
            c = c_plus if side == 0 else c_minus
            if j < 0:
                continue
            alpha[0] = 1.0
            for k in range(1, width):
                alpha[k] = row[j * width + k] - offsets[j, k]
            for k in range(width):
                pair[side, k] = c * alpha[k]
            _add_outer(moments[j], sizes[j], c, alpha)
        for k in range(n_models * width):
            row[k] = 0
        for side in range(2):
            j = plus if side == 0 else minus
            if j >= 0:
                for k in range(width):
                    row[j * width + k] = pair[side, k]
