r"""Indefinite kernels: how far off they are, and ways to mend them.

With K = V diag(λ) Vᵀ, three repairs give a positive semi-definite matrix:

* clip:  λ → max(λ, 0), the nearest such matrix in Frobenius norm;
* flip:  λ → |λ|;
* shift: λ → λ - min(λ_min, 0), which changes self-similarities only.

Clip and flip are K → K T with T = V diag(s) Vᵀ, so that values k(x, ·) of a new sample
follow as k(x, ·) T; shift leaves them alone.

Reference: Y. Chen et al., Similarity-based classification: concepts and algorithms,
JMLR 10 (2009), section 4.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from widemargin._compute.memory import PAIR_ROWS
from widemargin._compute.threads import batched_slices
from widemargin._core.arrays import largest_of
from widemargin._core.checks import as_matrix, check_option

METHODS = ("none", "clip", "flip", "shift")


class RepairedSpectrum(NamedTuple):
    """A repaired kernel matrix and what was done to it.

    Attributes
    ----------
    K : ndarray of shape (n, n)
        The repaired matrix.
    transform : ndarray of shape (n, n) or None
        T, with which kernel values of new samples go along, ``k @ T``; None where they
        stay as they are.
    smallest_eigenvalue : float
        Of the matrix as it came.
    """

    K: NDArray
    transform: NDArray | None
    smallest_eigenvalue: float


class Repair(NamedTuple):
    """A repair without its matrix: T = I - share · V Vᵀ, V (n, n_negative)."""

    smallest_eigenvalue: float
    vectors: NDArray | None = None
    share: float = 0.0

    def transform(self, coefficients: NDArray) -> NDArray:
        """T @ coefficients: what coefficients on repaired values are on plain ones."""
        if self.vectors is None:
            return coefficients
        V = self.vectors
        return coefficients - V @ (self.share * (V.T @ coefficients))


def repair_spectrum(K: ArrayLike, method: str = "clip") -> RepairedSpectrum:
    """Make a symmetric kernel matrix positive semi-definite.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Kernel values. They are symmetrised first, to (K + Kᵀ)/2: one-sided tangent
        kernels are not symmetric.
    method : {"clip", "flip", "shift", "none"}, default="clip"
        What happens to negative eigenvalues; "none" only reports the smallest.

    Returns
    -------
    RepairedSpectrum
        Named tuple ``(K, transform, smallest_eigenvalue)``.

    Notes
    -----
    All methods take time n³; "clip" and "flip" also need the eigenvectors of negative
    eigenvalues. These two leave alone what is negative by rounding only: up to
    ``10 sqrt(n)`` times the precision of K and its largest row sum of absolute values.

    Examples
    --------
    >>> from widemargin.metrics import repair_spectrum
    >>> repair_spectrum([[0.0, 1.0], [1.0, 0.0]], "flip").K.round(12)
    array([[1., 0.],
           [0., 1.]])
    """
    check_option("method", method, METHODS)
    values = _check_square(K, copy=True)
    repair = repair_in_place(values, method, rounding_of(K))
    changed = repair.vectors is not None
    transform = repair.transform(np.eye(len(values))) if changed else None
    return RepairedSpectrum(values, transform, repair.smallest_eigenvalue)


def repair_in_place(K: NDArray, method: str, rounding: float) -> Repair:
    """Repair a symmetric float64 matrix and say how; needs memory for two more.

    `rounding` is the relative size of rounding in the entries of K.
    """
    n = len(K)
    smallest = _smallest(K)
    if method in ("none", "shift"):
        if method == "shift" and smallest < 0:
            K[np.diag_indices_from(K)] -= smallest
        return Repair(smallest)
    # No eigenvalue is larger than a sum of absolute values along a row.
    size = max(
        np.abs(K[rows]).sum(axis=1).max() for rows in batched_slices(n, PAIR_ROWS)
    )
    tolerance = 10 * np.sqrt(n) * rounding * size
    if smallest >= -tolerance:
        return Repair(smallest)
    values, vectors = eigh(K, subset_by_value=(-np.inf, -tolerance))
    share = 2.0 if method == "flip" else 1.0
    for rows in batched_slices(n, PAIR_ROWS):
        K[rows] -= (vectors[rows] * (share * values)) @ vectors.T
    symmetrize(K)
    return Repair(smallest, vectors, share)


def smallest_eigenvalue(K: ArrayLike) -> float:
    """Smallest eigenvalue of a symmetric matrix: below 0, the kernel is indefinite.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Kernel values, symmetrised first.

    Returns
    -------
    float

    Examples
    --------
    >>> from widemargin.metrics import smallest_eigenvalue
    >>> round(smallest_eigenvalue([[0.0, 1.0], [1.0, 0.0]]), 12)
    -1.0
    """
    return _smallest(_check_square(K))


def _smallest(K: NDArray) -> float:
    # Not by Lanczos: the eigenvalues of a smooth kernel crowd at zero, where it does
    # not converge, and the reduction to tridiagonal form takes n³ whatever they are.
    return float(eigh(K, eigvals_only=True, subset_by_index=(0, 0))[0])


def symmetrize(K: NDArray) -> NDArray:
    """Replace K by (K + Kᵀ)/2, in place and by blocks: it needs no second matrix."""
    for rows in batched_slices(len(K), PAIR_ROWS):
        right = slice(rows.start, None)
        mean = (K[rows, right] + K[right, rows].T) / 2
        # Its first columns are a block on the diagonal: both triangles at once.
        K[rows, right] = mean
        K[right, rows] = mean.T
    return K


def rounding_of(K: Any) -> float:
    """Relative size of rounding in kernel values, by their dtype."""
    dtype = getattr(K, "dtype", np.float64)
    return float(np.finfo(dtype if dtype == np.float32 else np.float64).eps)


def _check_square(K: Any, copy: bool = False) -> NDArray:
    K = as_matrix("K", K, dtype=np.float64, copy=copy)
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"K must be a square matrix of kernel values between samples; got shape "
            f"{K.shape}."
        )
    largest = largest_of(K)
    if largest > np.finfo(np.float64).max / (8 * len(K)):
        raise ValueError(
            f"K contains {largest:.2g}, whose sums overflow; divide it by its largest "
            "value."
        )
    if np.array_equal(K, K.T):
        return K
    return symmetrize(K if copy else K.copy())
