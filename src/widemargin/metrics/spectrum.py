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
from scipy.sparse.linalg import eigsh
from sklearn.utils import check_array

from widemargin._validation import check_option

METHODS = ("none", "clip", "flip", "shift")
_DENSE = 500


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
    "clip" and "flip" need all eigenvectors, in time n³; "shift" and "none" only the
    smallest eigenvalue.

    Examples
    --------
    >>> from widemargin.metrics import repair_spectrum
    >>> repair_spectrum([[0.0, 1.0], [1.0, 0.0]], "flip").K.round(12)
    array([[1., 0.],
           [0., 1.]])
    """
    check_option("method", method, METHODS)
    K = _check_square(K)
    if method in ("none", "shift"):
        smallest = smallest_eigenvalue(K)
        if method == "shift" and smallest < 0:
            K = K.copy()
            K[np.diag_indices_from(K)] -= smallest
        return RepairedSpectrum(K, None, smallest)
    values, vectors = eigh(K)
    smallest = float(values[0])
    if smallest >= 0:
        return RepairedSpectrum(K, None, smallest)
    signs = np.where(values < 0, -1.0 if method == "flip" else 0.0, 1.0)
    repaired = (vectors * (values * signs)) @ vectors.T
    return RepairedSpectrum(
        (repaired + repaired.T) / 2, (vectors * signs) @ vectors.T, smallest
    )


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
    K = _check_square(K)
    if len(K) <= _DENSE:
        return float(eigh(K, eigvals_only=True, subset_by_index=(0, 0))[0])
    start = np.random.default_rng(0).normal(size=len(K))
    values = eigsh(K, 1, which="SA", v0=start, return_eigenvectors=False, tol=1e-6)
    return float(values[0])


def _check_square(K: Any) -> NDArray:
    K = check_array(K, dtype=np.float64, input_name="K")
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"K must be a square matrix of kernel values between samples; got shape "
            f"{K.shape}."
        )
    return K if np.array_equal(K, K.T) else (K + K.T) / 2
