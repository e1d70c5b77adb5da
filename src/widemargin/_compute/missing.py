"""Missing values: NaN in samples, and sums over what is there.

With m_i of d values there in sample i, the squared distance to a whole point p is

    D_i = d / m_i  sum_{f there} (x_if - p_f)^2,

and under a linear map Omega it is ``d / m_i ||Omega diag(there_i) (x_i - p)||^2``; of
two samples it runs over the m values that both have. Where values are missing at
random, whatever they are, D is right in the mean over what may be missing. It is
biased where values are missing because of what they are, and says less than it could
where features depend on each other, or few of them tell the classes apart.
Shapes: X (n, d), Y (m, d), Omega (rank, d).
"""

import numpy as np

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.threads import batched_slices


def present(X: np.ndarray) -> np.ndarray | None:
    """Return 1 where a value is there and 0 where it is missing; None if none is.

    What is on a device is whole.
    """
    if not isinstance(X, np.ndarray):
        return None
    holes = np.isnan(X)
    return (~holes).astype(X.dtype) if holes.any() else None


def shares(there: np.ndarray) -> np.ndarray:
    """Factor d / m of every row."""
    return (there.shape[1] / there.sum(axis=1)).astype(there.dtype)


def distances_there(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the (n, m) squared distances over what both have, scaled, in float64."""
    from widemargin._compute import lvq

    return lvq.distances_there(np.ascontiguousarray(X), np.ascontiguousarray(Y))


def mapped_distances_there(
    X: np.ndarray, P: np.ndarray, omega: np.ndarray
) -> np.ndarray:
    """Return the (n, K) squared distances under a map, over what is there, scaled."""
    D = np.empty((len(X), len(P)), np.result_type(X, P))
    one = rows_in_budget(X.itemsize * len(X) * (2 * X.shape[1] + len(omega)))
    for s in batched_slices(len(P), max(1, one)):
        gaps = np.nan_to_num(X[:, None, :] - P[s], nan=0.0)
        mapped = gaps @ omega.T
        D[:, s] = np.einsum("ijk,ijk->ij", mapped, mapped)
    return D * (X.shape[1] / np.count_nonzero(~np.isnan(X), axis=1))[:, None]


def means_there(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Mean of every feature over what is there, in float64; 0 where nothing is."""
    there = ~np.isnan(X)
    w = np.ones(len(X)) if weights is None else weights
    mass = w @ there
    return (w @ np.where(there, X, 0)) / np.where(mass > 0, mass, 1)


def second_moments(R: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(d, d) mean of r r^T, each entry over the samples that have both features."""
    weights = weights / weights.sum()
    there = present(R)
    if there is None:
        return ((R * weights[:, None]).T @ R).astype(np.float64)
    R = np.nan_to_num(R, nan=0.0)
    mass = (there * weights[:, None]).T @ there
    return ((R * weights[:, None]).T @ R) / np.where(mass > 0, mass, 1)
