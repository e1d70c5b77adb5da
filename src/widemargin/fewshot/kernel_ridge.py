r"""Kernel ridge regression to the classes, with what it says of images left out.

Of features z of images and of their copies, targets :math:`t_{ic} = [y_i = c] - 1/K`
and weights w,

.. math:: G = \bigl(e^{-\|z_i - z_j\|^2 / m}\bigr)_{ij} + \lambda\, W^{-1}, \qquad
   A = G^{-1} T, \qquad f(z) = \sum_i A_i\, e^{-\|z - z_i\|^2 / m},

m being the median squared distance of two images. An image leaves with its copies: of
the rows g of one image, the scores without them are

.. math:: f_{-g} = T_g - \bigl((G^{-1})_{gg}\bigr)^{-1} A_g ,

exactly those of a fit to all others. Shapes: Z (n·v, F), version by version, and
T (n·v, K).

Reference: R. Rifkin, R. Lippert, Notes on regularized least squares, MIT-CSAIL-TR-2007.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.spatial.distance import cdist

from widemargin._compute.rounding import epsilon

# λ, in units of the kernel's diagonal. On MNIST's training images .01, .05 and .1 err
# alike, from 1 to 30 labels a class.
PENALTY = 0.05
# Images and copies that a fit takes; the time grows with their cube.
MOST_ROWS = 1500
# What products may lose of a squared distance, as a share of ‖z‖².
ROUNDED = 64 * epsilon()


class KernelRidge(NamedTuple):
    """Rows that count, their coefficients, the unit of distances, and left-out scores.

    `left_out` is (n, K) of the images that rows stand for, in the order of `images`.
    """

    rows: NDArray
    coefficients: NDArray
    unit: float
    images: NDArray
    left_out: NDArray

    def scores(self, squares: NDArray) -> NDArray:
        """(n, K) of squared distances to all versions of all images."""
        kernel = laplacian(squares[:, self.rows], self.unit)
        return kernel.astype(float, copy=False) @ self.coefficients


def fit_kernel_ridge(
    Z: NDArray, codes: NDArray, weights: NDArray, n_classes: int
) -> KernelRidge:
    """Fit rows (v·n, F); as many versions, or images, as `MOST_ROWS` allows."""
    n = len(codes)
    images = np.arange(n)
    if n > MOST_ROWS:
        # As large a part of every class.
        order = np.random.RandomState(0).permutation(n)
        order = order[np.argsort(codes[order], kind="stable")]
        images = np.sort(order[np.linspace(0, n - 1, MOST_ROWS).astype(int)])
    n_versions = min(len(Z) // n, max(1, MOST_ROWS // n))
    rows = (np.arange(n_versions)[:, np.newaxis] * n + images).ravel()
    # Only ratios of weights count.
    share = weights[images] / weights[images].mean()
    penalties = np.tile(PENALTY / np.maximum(share, 1e-6), n_versions)
    Z, n_images = Z[rows].astype(float), len(images)
    squares = squared_distances(Z, Z)
    unit = _unit(squares[:n_images, :n_images])
    # A product rounds a distance by at most the root of `ROUNDED` ‖z‖², and rows of the
    # kernel by as much in units: where far rows bring that near λ, take differences.
    rounded = np.sqrt(ROUNDED * np.einsum("ij,ij->i", Z, Z).max())
    if 4 * len(Z) * rounded > penalties.min() * unit:
        squares = cdist(Z, Z, "sqeuclidean")
        unit = _unit(squares[:n_images, :n_images])
    # Roots of rounding are no distances.
    squares.flat[:: len(squares) + 1] = 0
    targets = (codes[images][:, np.newaxis] == np.arange(n_classes)) - 1 / n_classes
    targets = np.tile(targets, (n_versions, 1))
    G = laplacian(squares, unit)
    G.flat[:: len(G) + 1] += penalties
    factor, failed = dpotrf(G.T, lower=1, overwrite_a=1)
    assert not failed  # λ is above the rounding of the kernel
    A = dpotrs(factor, targets, lower=1)[0]
    inverse = dpotri(factor, lower=1, overwrite_c=1)[0]
    own = np.arange(n_versions) * len(images) + np.arange(len(images))[:, np.newaxis]
    # Only the lower half is there.
    i, j = own[:, :, np.newaxis], own[:, np.newaxis, :]
    blocks = inverse[np.maximum(i, j), np.minimum(i, j)]
    left_out = targets[own[:, 0]] - np.linalg.solve(blocks, A[own])[:, 0]
    return KernelRidge(rows, A, unit, images, left_out)


def _unit(among: NDArray) -> float:
    """Return the median distance of images that differ."""
    return float(np.sqrt(np.median(among[among > 0]))) if among.any() else 1.0


def laplacian(squares: NDArray, unit: float) -> NDArray:
    """Return the exponential kernel of squared distances, which are overwritten.

    >>> laplacian(np.array([0.0, 4.0]), 2.0).round(3)
    array([1.   , 0.368])
    """
    np.sqrt(squares, out=squares)
    squares /= -unit
    return np.exp(squares, out=squares)


def squared_distances(X: NDArray, Y: NDArray) -> NDArray:
    """Squared Euclidean distances, at least 0, of all pairs.

    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]]))
    array([[25.]])
    """
    of_x, of_y = (np.einsum("ij,ij->i", A, A) for A in (X, Y))
    squares = X @ Y.T
    squares *= -2
    squares += of_x[:, np.newaxis]
    squares += of_y
    # What is rounding is 0: its root would be a distance, and another in each batch.
    least = 64 * epsilon(squares.dtype) * of_x[:, np.newaxis]
    squares[squares < least] = 0
    return squares
