r"""Reflected augmented patterns: what every hyperplane learner of this package sees.

A sample x with label l in {+1, -1} becomes ``y = l [x - c, rho]``: shifted by the
centre c, raised to the height rho and reflected through the origin, so that a vector
``a = [w, w0]`` separates the classes exactly when ``y.a > 0`` for all patterns. The
hyperplane is ``f(x) = w.(x - c) + rho w0``. With a 2-norm soft margin each pattern also
owns a private coordinate of squared length ``diag_k = 1 / (2 C_k)``.

Before that, samples are brought to where squares neither overflow nor cancel: scaled by
a power of two, which is exact, and moved next to the origin where they lie far from it.

Reference: Tsampouka and Shawe-Taylor (2005), section 2. Shapes: X (n, d), dense or CSR;
signs, diag (n,); centre (d,).
"""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from widemargin._compute.patterns import Rows
from widemargin._core.arrays import largest_of

# Larger entries, and those below its inverse, are scaled to about one.
_COMFORT = 2.0**64
# Heights, over the size of the samples, whose squares are still numbers beside theirs.
_TALLEST = 1e60
# Distance from the origin, over the spread, from which digits cancel away.
_FAR = 100.0
# Entries of a sparse matrix that may be made dense to move it.
_DENSE = 10**7


class Patterns(NamedTuple):
    """The samples as they are, and the arrays that the compiled loops take."""

    X: Any
    rows: Rows

    @property
    def signs(self) -> NDArray:
        """Labels +1 and -1."""
        return self.rows.signs

    @property
    def centre(self) -> NDArray:
        """Where the samples are seen from."""
        return self.rows.centre

    @property
    def rho(self) -> float:
        """Height in the additional dimension."""
        return self.rows.rho

    @property
    def diag(self) -> NDArray:
        """Squares of the private coordinates, zero for a hard margin."""
        return self.rows.diag

    @property
    def squares(self) -> NDArray:
        """Squared lengths of the patterns, without their private coordinates."""
        return self.rows.squares


def matrix_arrays(X: Any) -> tuple[NDArray, NDArray, NDArray, NDArray]:
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


def squared_row_norms(X: Any) -> NDArray:
    """Squared Euclidean length of each row, in double precision."""
    if sp.issparse(X):
        squared = X.copy()
        squared.data = squared.data.astype(np.float64) ** 2
        return np.asarray(squared.sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def longest_row(X: Any) -> float:
    """Length of the longest row, one if all are zero.

    >>> longest_row(np.array([[3.0, 4.0], [0.0, 0.0]]))
    5.0
    """
    return float(np.sqrt(squared_row_norms(X).max())) or 1.0


def height_of(rho: float | None, X: Any, unit: float) -> float:
    """Height of patterns of scaled X: `rho` in their unit, or the longest row.

    >>> X = np.array([[3.0, 4.0]])
    >>> height_of(None, X, 1.0), height_of(8.0, X, 4.0)
    (5.0, 2.0)
    """
    if rho is None:
        return longest_row(X)
    height = float(rho) / unit
    if not 1 / _TALLEST <= height <= _TALLEST:
        raise ValueError(
            f"intercept_scaling must be of the size of the samples in X, {unit:.2g}, "
            f"within a factor of {_TALLEST:.0e}; got {rho!r}."
        )
    return height


def size_of(X: Any) -> float:
    """Power of two above the largest entry, one of zeros.

    >>> size_of(np.array([[3.0, -4.0]])), size_of(np.zeros((1, 1)))
    (8.0, 1.0)
    """
    return 2.0 ** math.frexp(largest_of(X))[1]


def comfortable_unit(X: Any) -> float:
    """Power of two to divide by, so that squares are far from both ends of the floats.

    >>> comfortable_unit(np.array([[3.0, 4.0]]))
    1.0
    >>> comfortable_unit(np.array([[2.0**100]])) == 2.0**101
    True
    """
    size = size_of(X)
    return 1.0 if 1 / _COMFORT <= size <= _COMFORT else size


def scaled(X: Any, unit: float) -> Any:
    """X divided by a power of two: exact, X itself for one."""
    return X if unit == 1.0 else X / unit


def near_origin(X: Any) -> tuple[Any, NDArray | None]:
    """Move samples that lie far from the origin next to it; (X, what was subtracted).

    Sums of products would otherwise cancel. The rounding of the difference is that of
    the spread, and what is certified is certified for the samples as they were.
    """
    n, d = X.shape
    mean = np.asarray(X.mean(axis=0)).ravel()
    offset = float(mean @ mean)
    if offset == 0.0 or (sp.issparse(X) and n * d > _DENSE):
        return X, None
    # The first sample stands for all: far means far for every one of them.
    first = X[[0]].toarray()[0] if sp.issparse(X) else X[0]
    if float((first - mean) @ (first - mean)) * _FAR**2 > offset:
        return X, None
    return (X.toarray() if sp.issparse(X) else X) - mean, mean


def class_means(X: Any, signs: NDArray) -> tuple[NDArray, NDArray]:
    """Mean of the positive and of the negative samples."""
    positive = (signs > 0) / np.count_nonzero(signs > 0)
    negative = (signs < 0) / np.count_nonzero(signs < 0)
    return X.T @ positive, X.T @ negative


def midpoint_of_means(X: Any, signs: NDArray) -> NDArray:
    """Find a centre between the classes, to start from."""
    positive, negative = class_means(X, signs)
    return (positive + negative) / 2


def spread_around(X: Any, centre: NDArray) -> float:
    """Root mean squared distance from the centre, one if all of them are zero."""
    squares = squared_row_norms(X) - 2.0 * (X @ centre) + float(centre @ centre)
    return float(np.sqrt(max(squares.mean(), 0.0))) or 1.0


def reflect(
    X: Any,
    signs: NDArray,
    *,
    rho: float,
    centre: NDArray | None = None,
    diag: NDArray | None = None,
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
    far = float(centre @ centre)
    # Far from the origin the three terms cancel; a square is never negative.
    shifted = squared_row_norms(X) - 2.0 * cx + far
    if rho > 1e150:
        raise ValueError(
            "intercept_scaling is more than 1e150 times as large as the samples in X, "
            "so that its square overflows; give a smaller one, or scale X."
        )
    squares = np.maximum(shifted, 0.0) + rho**2
    rho = float(rho)
    rows = Rows(
        *matrix_arrays(X), signs, cx, squares, diag, centre, rho, far + rho * rho
    )
    return Patterns(X, rows)


def recentre(patterns: Patterns, centre: NDArray) -> Patterns:
    """Move the patterns to another centre."""
    return reflect(
        patterns.X, patterns.signs, rho=patterns.rho, centre=centre, diag=patterns.diag
    )


def weight_vector(patterns: Patterns, m: NDArray) -> tuple[NDArray, float]:
    """Weights and bias of ``a = sum_k m_k y_k`` as a function of the sample x itself.

    >>> patterns = reflect(np.array([[3.0], [-1.0]]), np.array([1.0, -1.0]), rho=2.0)
    >>> weight_vector(patterns, np.array([1.0, 1.0]))
    (array([4.]), 0.0)
    """
    signed = m * patterns.signs
    total = float(signed.sum())
    w = patterns.X.T @ signed - total * patterns.centre
    return w, patterns.rho**2 * total - float(w @ patterns.centre)


def random_state_array(seed: int) -> NDArray:
    """One-element state of the generator in the compiled loops; never zero."""
    return np.array([2 * seed + 1], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
