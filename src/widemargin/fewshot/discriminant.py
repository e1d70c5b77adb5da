r"""Linear discriminant analysis of few samples, with what it says of those left out.

Classes are normal distributions with means m_c and one covariance, that of the samples
about their means, shrunk towards a multiple of the identity:

.. math:: A = \sum_i w_i\, r_i r_i^\top + \rho I, \quad r_i = z_i - m_{c_i}, \qquad
   \delta_c(z) = -(z - m_c)^\top A^{-1} (z - m_c).

A sample that is left out takes its share of its mean and of A with it. With W the
weight of its class, :math:`m = m_c - \frac{w}{W - w} r` and
:math:`k = \frac{w W}{W - w}`, A loses k r rᵀ, so that for u = z - m

.. math:: u^\top (A - k r r^\top)^{-1} u
   = u^\top A^{-1} u + \frac{k (r^\top A^{-1} u)^2}{1 - k\, r^\top A^{-1} r} .

Shapes: Z (n, F), scores (n, K).

Reference: J. Friedman, Regularized discriminant analysis, JASA 84 (1989).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

# ρ over the mean of S's eigenvalues.
SHRUNK = 0.5


class Discriminant(NamedTuple):
    """Means (K, r) of the classes where A is the identity, and the way there.

    `left_out` is (n, K) of the samples, NaN of those that are alone in their class.
    """

    basis: NDArray
    means: NDArray
    left_out: NDArray

    def scores(self, Z: NDArray) -> NDArray:
        """(n, K) of features, up to a constant of each row."""
        return -_squares(Z.astype(float, copy=False) @ self.basis, self.means)


def fit_discriminant(
    Z: NDArray, codes: NDArray, weights: NDArray, n_classes: int
) -> Discriminant:
    """Fit rows (n, F) of positive weights; some class has two."""
    Z, w = Z.astype(float), weights / weights.mean()
    n_features = Z.shape[1]
    # Beyond the span of the samples all classes are alike.
    span = np.linalg.qr((Z - Z[0]).T)[0] if n_features > len(Z) else np.eye(n_features)
    Z = Z @ span
    totals = np.bincount(codes, w, n_classes)
    means = np.zeros((n_classes, Z.shape[1]))
    np.add.at(means, codes, w[:, np.newaxis] * Z)
    means /= totals[:, np.newaxis]
    apart = Z - means[codes]
    values, vectors = eigh((apart.T * w) @ apart)
    values = np.maximum(values, 0)
    rho = SHRUNK * float(values.sum()) / n_features or 1.0
    whitening = vectors / np.sqrt(values + rho)
    Z, means, apart = Z @ whitening, means @ whitening, apart @ whitening
    rest = np.where(w < totals[codes], totals[codes] - w, np.nan)
    further = totals[codes] / rest
    own = np.einsum("ij,ij->i", apart, apart)
    # rᵀ u of all classes; u of the own one is longer, as its mean moves away.
    across = np.einsum("ij,ij->i", apart, Z)[:, np.newaxis] - apart @ means.T
    squares, at = _squares(Z, means), np.arange(len(Z))
    across[at, codes] = own * further
    squares[at, codes] = own * further**2
    k = w * further
    left_out = -(squares + (k / (1 - k * own))[:, np.newaxis] * across**2)
    return Discriminant(span @ whitening, means, left_out)


def _squares(Z: NDArray, means: NDArray) -> NDArray:
    """Squared distances (n, K), by differences: classes are few."""
    return np.stack([((Z - m) ** 2).sum(axis=1) for m in means], axis=1)
