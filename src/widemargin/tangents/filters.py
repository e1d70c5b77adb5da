r"""Derivatives of sampled functions: Gaussian filters as small dense matrices.

The derivative of a function smoothed by a Gaussian is the function filtered by the
Gaussian's derivative. The filters here are sampled Gaussians times polynomials in the
offset k, scaled so that they are exact on the polynomials they stand for:

=========  =====================  ==========================
order      weight at offset k     gives
=========  =====================  ==========================
0, smooth  :math:`g_k`            a constant: itself
1, slope   :math:`k g_k`          a ramp: its slope
2, curve   :math:`(k^2-m) g_k`    a parabola: its curvature
=========  =====================  ==========================

with :math:`g_k = \exp(-k^2/2\sigma^2)` and m its mean of :math:`k^2`. As sigma goes to
zero they become the identity, the central difference and the second difference.
"""

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Below this sigma the filters equal their limits to all digits, and squares of g_1
# do not underflow.
_SMALLEST_SIGMA = 0.05


def gaussian_weights(sigma: float) -> tuple[NDArray, NDArray]:
    """Offsets k = -r..r and the Gaussian at them."""
    sigma = max(sigma, _SMALLEST_SIGMA)
    radius = max(1, int(np.ceil(4 * sigma)))
    k = np.arange(-radius, radius + 1.0)
    return k, np.exp(-(k**2) / (2 * sigma**2))


def gaussian_filter(sigma: float, order: int) -> NDArray:
    """Weights at offsets -r..r, to be used as sum_k weight[k] x[i + k]."""
    k, g = gaussian_weights(sigma)
    if order == 0:
        return g / g.sum()
    if order == 1:
        return k * g / (k**2 @ g)
    mean = (k**2 @ g) / g.sum()
    curve = (k**2 - mean) * g
    return 2 * curve / (k**2 @ curve)


def filter_matrix(size: int, sigma: float, order: int, dtype: DTypeLike) -> NDArray:
    """Matrix (size, size) of the filter on signals that are zero outside."""
    weights = gaussian_filter(sigma, order)
    radius = len(weights) // 2
    offset = np.arange(size) - np.arange(size)[:, np.newaxis]
    inside = np.abs(offset) <= radius
    matrix = np.where(inside, weights[np.clip(offset + radius, 0, 2 * radius)], 0.0)
    return matrix.astype(dtype)
