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
identity. X and P should be centred, see :mod:`widemargin._compute.lvq_distances`.

Sato and Yamada, "Generalized learning vector quantization", NIPS 1995; Schneider,
Biehl and Hammer, "Adaptive relevance matrices in LVQ", Neural Computation 2009.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array

from widemargin._compute.lvq_distances import expanded_distances
from widemargin.margins import relative_margin


class Pairs(NamedTuple):
    """The loss of a batch and its coefficients on the distances: C^T, r and s."""

    loss: float
    C_T: csc_array
    r: np.ndarray
    s: np.ndarray
    index_plus: np.ndarray


def coefficients(
    D: np.ndarray, labels: np.ndarray, codes: np.ndarray, weights: np.ndarray, loss: Any
) -> Pairs:
    """Return the summed loss and the coefficients for (n, K) squared distances `D`."""
    from widemargin._compute.lvq_margin import right_wrong

    n, K = D.shape
    D_plus, D_minus, i_plus, i_minus = right_wrong(D, labels, codes)
    margin = relative_margin(D_plus, D_minus)
    total = np.maximum(D_plus + D_minus, np.finfo(D.dtype).tiny)
    slope = 2 * weights * loss.derivative(margin) / total
    pair = np.empty((n, 2), dtype=D.dtype)
    pair[:, 0], pair[:, 1] = -slope * (D_minus / total), slope * (D_plus / total)
    at = np.empty((n, 2), dtype=np.int32)
    at[:, 0], at[:, 1] = i_plus, i_minus
    ends = np.arange(0, 2 * n + 1, 2, dtype=np.int32)
    C_T = csc_array((pair.ravel(), at.ravel(), ends), shape=(K, n))
    s = np.bincount(at.ravel(), pair.ravel(), minlength=K).astype(D.dtype, copy=False)
    return Pairs(float(weights @ loss.value(margin)), C_T, pair.sum(axis=1), s, i_plus)


def prototype_gradient(pairs: Pairs, X: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Gradient in the prototypes of Euclidean distances."""
    return -2 * (pairs.C_T @ X - pairs.s[:, None] * P)


def matrix_gradients(
    pairs: Pairs, X: np.ndarray, P: np.ndarray, Omega: np.ndarray, Z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients in the prototypes and in Omega; ``Z = X Omega^T``."""
    towards = pairs.C_T @ X - pairs.s[:, None] * P
    mapped = pairs.C_T @ Z
    dP = -2 * (towards @ Omega.T) @ Omega
    dOmega = 2 * (
        (Z * pairs.r[:, None]).T @ X - mapped.T @ P - (P @ Omega.T).T @ towards
    )
    return dP, dOmega


def mapped_distances(
    X: np.ndarray, P: np.ndarray, Omega: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances in the mapped space, and Z."""
    Z = X @ Omega.T
    return expanded_distances(Z, P @ Omega.T), Z
