"""Squared Euclidean distances to a few references, as one product.

``||x - p||^2 = ||x||^2 - 2 x.p + ||p||^2``, with the mean of the references
subtracted from both sides first: the expansion loses digits when the data lie far
from the origin, the distances themselves do not.
"""

import numpy as np


def squared_distances(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return the (n_samples, n_references) squared distances, never negative."""
    centre = P.mean(axis=0)
    X = X - centre
    P = P - centre
    D = X @ P.T
    D *= -2
    D += np.einsum("ij,ij->i", X, X)[:, None]
    D += np.einsum("ij,ij->i", P, P)
    return np.maximum(D, 0, out=D)
