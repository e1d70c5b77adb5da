"""From inner products to margins and back to weights, one sample at a time.

A tangent model j is the affine space C_j + span(T_j); its rows in the stacked matrix
are [C_j; T_j1; ..; T_jm]. A block of samples times that matrix gives Z. `one_sided`
turns every row of Z into the squared distances z to all models, picks the nearest
right and the nearest wrong one, and makes what the way back needs of these two: the
pulls c [1, alpha], where

    c = 4 gamma z_minus / (z_plus + z_minus)^2       (right model),
    c = -4 gamma z_plus / (z_plus + z_minus)^2       (wrong model).

Then the sums of pull x^T over the samples of each model are the whole gradient but for
the small corrections in `moments`; `_pull_sums` forms them, by products.
Shapes: Z (n, K (1+m)), pulls (n, 2, 1+m), moments (K, 1+m, 1+m).
"""

import numpy as np

from widemargin._compute.compiled import njit

# Sums may be reordered, which is what lets the loops over tangents vectorise.
_REORDER = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _explained(row, start, offset):
    """Squared length of the part of x - C within the model's tangents."""
    total = row.dtype.type(0)
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
def _margin(z_plus, z_minus):
    """Relative margin; an infinite distance means that there is no such model."""
    if z_plus == z_minus:
        return 0.0
    if np.isinf(z_plus) or np.isinf(z_minus):
        return 1.0 if z_plus < z_minus else -1.0
    return (z_minus - z_plus) / (z_minus + z_plus)


@njit(cache=True, nogil=True)
def one_sided(
    X,
    rows,
    norms,
    offsets,
    right,
    gamma,
    tiny,
    nearest,
    margins,
    Z,
    pulls,
    gathered,
    weighted,
):
    """Fill nearest (n, 2) and margins (n,); return the sums of pulls, moments, sizes.

    `rows` is (K (1+m), d), the stacked models, and `offsets` (K, 1+m) their products
    with the own centroid; `right` is (n, K), true where the model has the sample's
    class. Sums are (K, 1+m, d). Z (n, K (1+m)), pulls (n, 2, 1+m), gathered (2n, d) and
    weighted (2n, 1+m) are written over.
    """
    n_models, width = offsets.shape
    n = X.shape[0]
    np.dot(X, rows.T, Z)
    moments, sizes = np.zeros((n_models, width, width)), np.zeros((n_models, width))
    starts = np.zeros(n_models + 1, np.intp)
    alpha = np.empty(width)
    alpha[0] = 1.0
    for i in range(n):
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
        margins[i] = _margin(z_plus, z_minus)
        slopes = _slopes(z_plus, z_minus, gamma[i], tiny)
        for side in range(2):
            j, c = nearest[i, side], slopes[side]
            if j < 0:
                continue
            starts[j + 1] += 1
            for k in range(1, width):
                alpha[k] = row[j * width + k] - offsets[j, k]
            for k in range(width):
                pulls[i, side, k] = c * alpha[k]
            _add_outer(moments[j], sizes[j], c, alpha)
    sums = _pull_sums(X, nearest, pulls, np.cumsum(starts), gathered, weighted)
    return sums, moments, sizes


@njit(cache=True, nogil=True)
def _pull_sums(X, nearest, pulls, starts, gathered, weighted):
    """(K, 1+m, d) sums of pull x^T over the samples that pull at each model."""
    n, width, n_models = X.shape[0], pulls.shape[2], starts.shape[0] - 1
    sums = np.zeros((n_models, width, X.shape[1]), X.dtype)
    # Gathered once, the samples of a model lie side by side: one product for each.
    at = starts[:-1].copy()
    for i in range(n):
        for side in range(2):
            j = nearest[i, side]
            if j >= 0:
                gathered[at[j]] = X[i]
                weighted[at[j]] = pulls[i, side]
                at[j] += 1
    for j in range(n_models):
        own = slice(starts[j], starts[j + 1])
        if own.start < own.stop:
            np.dot(weighted[own].T, gathered[own], sums[j])
    return sums
