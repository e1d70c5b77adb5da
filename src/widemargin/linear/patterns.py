r"""Reflected augmented patterns: what every hyperplane learner of this package sees.

A sample x with label l in {+1, -1} becomes ``y = l [x - c, rho]``: shifted by the
centre c, raised to the height rho and reflected through the origin, so that a vector
``a = [w, w0]`` separates the classes exactly when ``y.a > 0`` for all patterns. The
hyperplane is ``f(x) = w.(x - c) + rho w0``. With a 2-norm soft margin each pattern also
owns a private coordinate of squared length ``diag_k = 1 / (2 C_k)``.

Reference: Tsampouka and Shawe-Taylor (2005), section 2. Shapes: X (n, d), dense or CSR;
signs, cx, squares, diag (n,); centre (d,).
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class Patterns(NamedTuple):
    """The arrays of :mod:`widemargin._compute.rows`, and what goes with them."""

    X: Any
    matrix: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    signs: np.ndarray
    cx: np.ndarray
    squares: np.ndarray
    diag: np.ndarray
    centre: np.ndarray
    rho: float

    @property
    def lift(self) -> float:
        """``c.c + rho^2``."""
        return float(self.centre @ self.centre) + self.rho**2


def matrix_arrays(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Split a dense or CSR matrix into (dense, data, indices, indptr).

    >>> import scipy.sparse as sp
    >>> dense, data, indices, indptr = matrix_arrays(sp.csr_array([[0.0, 2.0]]))
    >>> dense.size, data, indices, indptr
    (0, array([2.]), array([1], dtype=int32), array([0, 1]))
    """
    if sp.issparse(X):
        return (
            np.empty((0, 0), dtype=X.dtype),
            X.data,
            X.indices.astype(np.int32, copy=False),
            X.indptr.astype(np.int64, copy=False),
        )
    no_index = np.empty(0, dtype=np.int64)
    dense = np.ascontiguousarray(X)
    return dense, np.empty(0, dtype=X.dtype), no_index.astype(np.int32), no_index


def squared_row_norms(X: Any) -> np.ndarray:
    """Squared Euclidean length of each row, in double precision."""
    if sp.issparse(X):
        squared = X.copy()
        squared.data = squared.data.astype(np.float64) ** 2
        return np.asarray(squared.sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def class_means(X: Any, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the positive and of the negative samples."""
    positive = (signs > 0) / np.count_nonzero(signs > 0)
    negative = (signs < 0) / np.count_nonzero(signs < 0)
    return X.T @ positive, X.T @ negative


def reflect(
    X: Any,
    signs: np.ndarray,
    *,
    rho: float,
    centre: np.ndarray | None = None,
    diag: np.ndarray | None = None,
) -> Patterns:
    """Build the patterns of one two-class problem.

    >>> patterns = reflect(np.array([[3.0], [-1.0]]), np.array([1.0, -1.0]), rho=2.0)
    >>> patterns.squares
    array([13.,  5.])
    """
    if centre is None:
        centre = np.zeros(X.shape[1])
    if diag is None:
        diag = np.zeros(X.shape[0])
    cx = np.asarray(X @ centre, dtype=np.float64)
    # Far from the origin the three terms cancel; a square is never negative.
    shifted = squared_row_norms(X) - 2.0 * cx + float(centre @ centre)
    squares = np.maximum(shifted, 0.0) + rho**2
    return Patterns(X, matrix_arrays(X), signs, cx, squares, diag, centre, float(rho))


def recentre(patterns: Patterns, centre: np.ndarray) -> Patterns:
    """Move the patterns to another centre."""
    return reflect(
        patterns.X,
        patterns.signs,
        rho=patterns.rho,
        centre=centre,
        diag=patterns.diag,
    )


def weight_vector(patterns: Patterns, m: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights and bias of ``a = sum_k m_k y_k`` as a function of the sample x itself.

    >>> patterns = reflect(np.array([[3.0], [-1.0]]), np.array([1.0, -1.0]), rho=2.0)
    >>> weight_vector(patterns, np.array([1.0, 1.0]))
    (array([4.]), 0.0)
    """
    signed = m * patterns.signs
    total = float(signed.sum())
    w = patterns.X.T @ signed - total * patterns.centre
    return w, patterns.rho**2 * total - float(w @ patterns.centre)
