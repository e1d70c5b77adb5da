"""Squared Euclidean distances to a few references, as one product.

``||x - p||^2 = ||x||^2 - 2 x.p + ||p||^2``. The expansion loses digits when the data
lie far from the origin, the distances themselves do not: subtract a common centre
from both sides first, as `squared_distances` does.
"""

import numpy as np


def squared_norms(X: np.ndarray) -> np.ndarray:
    """Squared lengths of the rows."""
    return np.einsum("ij,ij->i", X, X)


def expanded_distances(
    X: np.ndarray, P: np.ndarray, X_norms: np.ndarray | None = None
) -> np.ndarray:
    """Distances of data already near the origin; `X_norms` saves their squares."""
    D = X @ P.T
    D *= -2
    D += (squared_norms(X) if X_norms is None else X_norms)[:, None]
    D += squared_norms(P)
    return np.maximum(D, 0, out=D)


def squared_distances(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return the (n_samples, n_references) squared distances, never negative."""
    centre = P.mean(axis=0)
    return expanded_distances(X - centre, P - centre)
