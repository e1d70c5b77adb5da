r"""Principal directions of differences between samples.

With the differences as rows of D, the directions are the leading eigenvectors of the
second moment :math:`D^T D / n`. It is not centred: a difference and its opposite tell
the same. All in float64.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.neighbors import NearestNeighbors

from widemargin._compute.threads import batched_slices

# Up to this many features the moment is formed (128 MiB), beyond it only applied.
_MAX_DENSE_FEATURES = 4096

# Directions whose eigenvalue is below this share of the largest are rounding.
_EIGENVALUE_RTOL = 1e-12

# Differences are formed in blocks of this many numbers.
_BLOCK = 2**20


class Differences:
    """Differences of samples to their nearest other samples, a block at a time."""

    def __init__(self, X: NDArray, n_neighbors: int):
        self.X = X
        self.neighbors = np.empty((len(X), 0), int)
        k = min(n_neighbors, len(X) - 1)
        if k:
            search = NearestNeighbors(n_neighbors=k).fit(X)
            self.neighbors = search.kneighbors(return_distance=False)

    def __len__(self) -> int:
        return self.neighbors.size

    def __iter__(self) -> Iterator[NDArray]:
        n_features = self.X.shape[1]
        size = _BLOCK // (max(1, self.neighbors.shape[1]) * n_features)
        for rows in batched_slices(len(self.X) if len(self) else 0, size):
            others = self.X[self.neighbors[rows]].astype(np.float64)
            yield (others - self.X[rows, np.newaxis]).reshape(-1, n_features)


def leading_directions(
    parts: Sequence[Differences], n_directions: int
) -> tuple[NDArray, NDArray]:
    """Eigenvectors (n_directions, d) and eigenvalues of the pooled second moment.

    Largest first; zero rows where the differences span fewer directions.
    """
    n_features = parts[0].X.shape[1]
    k = min(n_directions, n_features)
    directions = np.zeros((n_directions, n_features))
    eigenvalues = np.zeros(n_directions)
    count = sum(len(part) for part in parts)
    if count == 0:
        return directions, eigenvalues
    values, vectors = _top_eigenpairs(parts, n_features, k)
    values, vectors = values[::-1] / count, vectors.T[::-1]
    real = values > _EIGENVALUE_RTOL * values[0]
    # The sign of an eigenvector is arbitrary: make its largest entry positive.
    largest = np.abs(vectors).argmax(axis=1)
    signs = np.sign(vectors[np.arange(k), largest])
    directions[:k][real] = (signs[:, np.newaxis] * vectors)[real]
    eigenvalues[:k][real] = values[real]
    return directions, eigenvalues


def _top_eigenpairs(
    parts: Sequence[Differences], n_features: int, k: int
) -> tuple[NDArray, NDArray]:
    """Return the k largest eigenvalues of Dᵀ D, ascending, and their columns."""
    if n_features <= _MAX_DENSE_FEATURES or 2 * k > n_features:
        moment = np.zeros((n_features, n_features))
        for part in parts:
            for block in part:
                moment += block.T @ block
        return eigh(moment, subset_by_index=(n_features - k, n_features - 1))

    def apply(vector: NDArray) -> NDArray:
        product = np.zeros(n_features)
        for part in parts:
            for block in part:
                product += block.T @ (block @ vector.ravel())
        return product

    operator = LinearOperator((n_features, n_features), apply, dtype=np.float64)
    return eigsh(operator, k, v0=np.random.default_rng(0).normal(size=n_features))


def principal_directions(differences: NDArray, n_directions: int) -> NDArray:
    """Leading directions (n, n_directions, d) of each ``differences[i]`` (k, d).

    They are unit rows; zero rows follow where the differences span fewer directions.
    """
    rows = differences.astype(np.float64)
    n, k, d = rows.shape
    keep = min(n_directions, k)
    values, vectors = np.linalg.eigh(rows @ rows.swapaxes(1, 2))
    values, vectors = values[:, ::-1][:, :keep], vectors[:, :, ::-1][:, :, :keep]
    real = values > np.maximum(_EIGENVALUE_RTOL * values[:, :1], 0)
    scale = np.sqrt(np.where(real, values, np.inf))
    out = np.zeros((n, n_directions, d))
    # Contiguous, so that every sample takes the same route through the product.
    coefficients = np.ascontiguousarray(
        vectors.swapaxes(1, 2) / scale[:, :, np.newaxis]
    )
    np.matmul(coefficients, rows, out=out[:, :keep])
    return out
