r"""Densities of classes from lists of distances: a bump at every reference nearby.

.. math:: \log p(c \mid x) = \log \sum_{j: c_j = c} w_j e^{-\gamma d_j} + \text{const}.

Every query has a list of its own of references, with their distances; an infinite one
is none. A class without a reference in the list counts as one bump at the distance of
the farthest: nothing nearer of it was seen. Shapes: distances (n, m), codes (n, m) or
(m,), result (n, K).
"""

import numpy as np
from numpy.typing import NDArray

# No logarithm is below: the difference of two is a number.
LEAST = -1e300


def log_densities(
    distances: NDArray,
    codes: NDArray,
    log_weights: NDArray,
    gamma: float,
    n_classes: int,
) -> NDArray:
    """Logarithms of the densities of all classes, up to a constant of each query.

    >>> d = np.array([[1.0, 3.0, np.inf]])
    >>> log_densities(d, np.array([0, 1, 1]), np.zeros(3), 1.0, 3)
    array([[ 0., -2., -2.]])
    """
    n = len(distances)
    there = np.isfinite(distances)
    near = np.where(there, distances, np.inf).min(axis=1, initial=np.inf)
    near = np.where(np.isfinite(near), near, 0)[:, np.newaxis]
    depth = np.where(there, gamma * (near - distances), -np.inf)
    bumps = np.exp(np.maximum(depth, LEAST) + log_weights)
    cells = np.arange(n)[:, np.newaxis] * n_classes + codes
    sums = np.bincount(cells.ravel(), bumps.ravel(), n * n_classes)
    seen = np.bincount(cells[there], minlength=n * n_classes).reshape(n, n_classes) > 0
    farthest = np.where(there, depth, 0).min(axis=1, initial=0)[:, np.newaxis]
    sums = sums.reshape(n, n_classes)
    logs = np.log(sums, out=np.full_like(sums, LEAST), where=sums > 0)
    return np.maximum(np.where(seen, logs, farthest), LEAST)
