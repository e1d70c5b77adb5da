"""Gradient of a loss of the relative margin, as matrix products.

With ``D_plus``, ``D_minus`` the squared distances of x to the nearest right and wrong
prototype and ``mu = (D_minus - D_plus)/(D_minus + D_plus)``, the loss
``sum_i w_i L(mu_i)`` depends on the distances through two coefficients per sample,

    c_plus  = w L'(mu) (-2 D_minus / (D_plus + D_minus)^2),
    c_minus = w L'(mu) (+2 D_plus  / (D_plus + D_minus)^2).

Written into a sparse (n_samples, n_prototypes) matrix C with row and column sums r and
s, the gradients of ``||Omega (x - p)||^2`` are

    dP     = -2 (C^T X - diag(s) P) Omega^T Omega,
    dOmega =  2 (Z^T diag(r) X - (C^T Z)^T P - Q^T C^T X + Q^T diag(s) P),

with ``Z = X Omega^T`` and ``Q = P Omega^T``; for a Euclidean distance Omega is the
identity. X and P should be centred, see :mod:`widemargin._compute.nearest`.

Sato and Yamada, "Generalized learning vector quantization", NIPS 1995; Schneider,
Biehl and Hammer, "Adaptive relevance matrices in LVQ", Neural Computation 2009.
"""

from typing import Any, NamedTuple

import numpy as np

from widemargin._compute.nearest import expanded_distances


class Pairs(NamedTuple):
    """The loss of a batch, and C: two `values` per row in the columns `at`."""

    loss: float
    values: np.ndarray
    at: np.ndarray
    column_sums: np.ndarray

    def transposed_product(self, X: np.ndarray) -> np.ndarray:
        """Return ``C^T X``."""
        from widemargin._compute.lvq import pair_product

        return pair_product(self.values, self.at, X, len(self.column_sums))


def coefficients(
    D: np.ndarray, labels: np.ndarray, codes: np.ndarray, weights: np.ndarray, loss: Any
) -> Pairs:
    """Return the summed loss and the coefficients for (n, K) squared distances `D`."""
    from widemargin._compute.lvq import right_wrong

    D_plus, D_minus, at = right_wrong(D, labels, codes)
    total = np.maximum(D_plus + D_minus, np.finfo(D.dtype).tiny)
    margin = (D_minus - D_plus) / total
    slope = 2 * weights * loss.derivative(margin) / total
    values = np.empty((len(D), 2), dtype=D.dtype)
    values[:, 0] = -slope * (D_minus / total)
    values[:, 1] = slope * (D_plus / total)
    sums = np.bincount(at.ravel(), values.ravel(), minlength=D.shape[1])
    value = float(weights @ loss.value(margin))
    return Pairs(value, values, at, sums.astype(D.dtype, copy=False))


def prototype_gradient(pairs: Pairs, X: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Gradient in the prototypes of Euclidean distances."""
    return -2 * (pairs.transposed_product(X) - pairs.column_sums[:, None] * P)


def matrix_gradients(
    pairs: Pairs, X: np.ndarray, P: np.ndarray, Omega: np.ndarray, Z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients in the prototypes and in Omega; ``Z = X Omega^T``."""
    towards = pairs.transposed_product(X) - pairs.column_sums[:, None] * P
    mapped = pairs.transposed_product(Z)
    row_sums = pairs.values.sum(axis=1)
    dP = -2 * (towards @ Omega.T) @ Omega
    dOmega = 2 * (
        (Z * row_sums[:, None]).T @ X - mapped.T @ P - (P @ Omega.T).T @ towards
    )
    return dP, dOmega


def mapped_distances(
    X: np.ndarray, P: np.ndarray, Omega: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances in the mapped space, and Z."""
    Z = X @ Omega.T
    return expanded_distances(Z, P @ Omega.T), Z
