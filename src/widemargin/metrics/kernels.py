r"""Kernels from tangent distances, and ways to mend indefinite ones.

Any kernel that is a function of the distance becomes invariant when the distance is
replaced by a tangent distance d:

====== ============================== ==============================
name   k(x, x')                       with the Euclidean distance
====== ============================== ==============================
rbf    :math:`e^{-\gamma d^2}`        positive definite
nd     :math:`-d^\gamma`              conditionally p.d. for γ in (0, 2]
log    :math:`-\log(1 + d^\gamma)`    conditionally p.d. for γ in (0, 2]
====== ============================== ==============================

X is (n_x, d), Y (n_y, d), the result (n_x, n_y). One-sided distances are not symmetric,
and no tangent distance is a metric, so none of these stays definite for certain. With K
= V diag(λ) Vᵀ, three repairs give a positive semi-definite matrix:

* clip:  λ → max(λ, 0), the nearest such matrix in Frobenius norm;
* flip:  λ → |λ|;
* shift: λ → λ - min(λ_min, 0), which changes self-similarities only.

Clip and flip are K → K T with T = V diag(s) Vᵀ, so that values k(x, ·) of a new sample
follow as k(x, ·) T; shift leaves them alone.

References: B. Haasdonk, D. Keysers, Tangent distance kernels for support vector
machines, ICPR 2002, section 4; Y. Chen et al., Similarity-based classification:
concepts and algorithms, JMLR 10 (2009), section 4.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.sparse import issparse

from widemargin._compute.machine import BLOCK_NUMBERS, PAIR_ROWS, batched_slices
from widemargin._compute.nearest import some_eigenpairs, squared_norms
from widemargin._compute.rounding import epsilon
from widemargin._core.arrays import dispatch_function, largest_of, numpy_dtype, xp_of
from widemargin._core.checks import as_matrix, check_gamma, check_option
from widemargin.metrics.tangent import DEFAULT_SPRING, tangent_distances

KERNELS = ("rbf", "nd", "log")
METHODS = ("none", "clip", "flip", "shift")


def _lazily(function: Callable, args: tuple, options: dict[str, Any]) -> Any:
    """Kernel values of Dask collections, from their lazy distances."""
    given = inspect.signature(function).bind(*args, **options)
    given.apply_defaults()
    kernel, gamma = (given.arguments.pop(name) for name in ("kernel", "gamma"))
    X, Y = given.arguments.pop("X"), given.arguments.pop("Y")
    _check_scale(kernel, gamma, Y)
    d2 = tangent_distances(X, Y, **given.arguments)
    width: Any = gamma
    if gamma == "scale":
        # A number that is not known yet: it is computed once for all blocks.
        width = d2.mean(dtype=np.float64).map_blocks(_from_mean, kernel, dtype=float)
        width = width.to_delayed().ravel()[0]
    return d2.map_blocks(_of_block, kernel=kernel, gamma=width, dtype=d2.dtype)


def _from_mean(typical: Any, kernel: Any) -> Any:
    return np.asarray(resolve_gamma(np.full((1, 1), float(typical)), kernel, "scale"))


def _of_block(d2: NDArray, kernel: Any, gamma: Any) -> NDArray:
    return kernel_of_distances(d2.copy(), kernel, float(gamma)) if d2.size else d2


@dispatch_function(lazily=_lazily)
def tangent_kernel(
    X: Any,
    Y: Any = None,
    *,
    kernel: str | Callable[[NDArray], NDArray] = "rbf",
    gamma: float | str = "scale",
    X_tangents: Any = None,
    Y_tangents: Any = None,
    tangents: Any = None,
    sides: str = "mean",
    spring: float = DEFAULT_SPRING,
    n_jobs: int | None = None,
) -> NDArray:
    r"""Kernel values of all pairs, from their tangent distances.

    Parameters
    ----------
    X, Y, X_tangents, Y_tangents, tangents, sides, spring, n_jobs
        As in :func:`tangent_distances`.
    kernel : {"rbf", "nd", "log"} or callable, default="rbf"
        Radial basis :math:`e^{-\gamma d^2}`, negative distance :math:`-d^\gamma` or
        logarithmic :math:`-\log(1 + d^\gamma)`. A function takes an array of squared
        distances and returns the kernel values, for a few rows at a time.
    gamma : float or "scale", default="scale"
        Width of "rbf", exponent of the others; not used by a callable. "scale" is 1 for
        "nd" and "log". For "rbf" it is two over the mean squared distance of all pairs
        of rows of `X`. Without tangents this is one over the sum of the variances of
        the features. It needs ``Y=None``; kernels of other samples need the number of
        the training samples.

    Returns
    -------
    ndarray of shape (n_x, n_y)
        Symmetric where `Y` is None, unless `sides` is "query" or "reference". Of Dask
        collections a lazy array.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import tangent_kernel
    >>> X = np.array([[0.0, 0.0], [5.0, 2.0]])
    >>> along_first_axis = np.array([[1.0, 0.0]])
    >>> tangent_kernel(X, kernel="nd", gamma=1.0, tangents=along_first_axis, spring=0)
    array([[-0., -2.],
           [-2., -0.]])
    """
    _check_scale(kernel, gamma, Y)
    d2 = tangent_distances(
        X, Y, X_tangents=X_tangents, Y_tangents=Y_tangents, tangents=tangents,
        sides=sides, spring=spring, n_jobs=n_jobs,
    )  # fmt: skip
    return kernel_of_distances(d2, kernel, resolve_gamma(d2, kernel, gamma))


def _check_scale(kernel: Any, gamma: Any, Y: Any) -> None:
    check_kernel(kernel, gamma)
    if Y is not None and gamma == "scale" and kernel == "rbf":
        raise ValueError(
            "gamma='scale' would depend on the pairs of X and Y given, and differ from "
            "that of the training samples: pass a number, for instance "
            "2 / tangent_distances(X_train, ...).mean()."
        )


def check_kernel(kernel: Any, gamma: Any) -> None:
    """Validate the two parameters that make a kernel of a distance."""
    if not callable(kernel):
        check_option("kernel", kernel, KERNELS)
    check_gamma(gamma)


def resolve_gamma(
    d2: NDArray, kernel: Any, gamma: Any, n_samples: int | None = None
) -> float:
    """Turn "scale" into a number, from the squared distances (n, n) of a set to itself.

    Where the set is a part of `n_samples`, what all of them would give is estimated.
    """
    if gamma != "scale":
        return float(gamma)
    if kernel != "rbf":
        return 1.0
    n, typical = len(d2), float(d2.mean(dtype=xp_of(d2).float64))
    if n_samples is not None and n > 1:
        # Distances of samples to themselves, zero, are a share 1/n of all.
        typical *= (1 - 1 / n_samples) / (1 - 1 / n)
    return 2 / typical if typical > 0 else 1.0


def scale_gamma(X: Any, weights: NDArray) -> float:
    """Return what "scale" means for kernels of samples, dense or sparse.

    One over the sum of the weighted variances of the features, which neither constant
    features nor the means of the others change; 1 where nothing varies. scikit-learn's
    takes the variance of all entries together: the same where features share a mean.
    """
    share, parts, size = weights / weights.sum(), X, largest_of(X)
    mean = np.asarray(share @ parts, dtype=np.float64)
    if issparse(parts):
        parts = parts.tocoo(copy=True)
        parts.sum_duplicates()
        share = share[parts.row]
        # Entries that are not stored are zeros; what is left of all is rounding.
        zeros = 1 - np.bincount(parts.col, share, len(mean))
        share = np.concatenate([share, np.where(zeros > 1e-12, zeros, 0)])
        parts = np.concatenate([parts.data - mean[parts.col], mean])[:, None]
    else:
        parts = parts - mean
    spread = largest_of(parts)
    if spread <= 4 * epsilon() * (2 + len(weights) ** 0.5) * size:
        # Nothing but the rounding of the mean.
        return 1.0
    total = float(share @ squared_norms(parts))
    return 1 / total if total > 0 else 1.0


def kernel_of_distances(d2: NDArray, kernel: Any, gamma: float) -> NDArray:
    """Kernel values of squared distances, in place."""
    if callable(kernel):
        # A user's kernel sees a block at once: its temporary arrays stay small.
        for rows in batched_slices(len(d2), BLOCK_NUMBERS // max(1, d2.shape[1])):
            d2[rows] = _values(kernel, d2[rows])
        return d2
    xp = xp_of(d2)
    with np.errstate(over="ignore"):
        if kernel == "rbf":
            # A distance of zero has the value one, whatever gamma is.
            d2 *= -min(float(gamma), 1e150 if numpy_dtype(d2) == np.float64 else 1e38)
            return xp.exp(d2, out=d2)
        if gamma != 2:
            d2 **= float(gamma / 2)
        if kernel == "log":
            xp.log1p(d2, out=d2)
    if not xp.isfinite(d2).all():
        raise ValueError(
            f"gamma={gamma:g} gives values of kernel={kernel!r} that are no numbers; "
            "it is a power, at most 2 for a kernel that is conditionally definite."
        )
    return xp.negative(d2, out=d2)


def _values(kernel: Callable, d2: NDArray) -> NDArray:
    """Values of a kernel that is not ours, checked."""
    values = xp_of(d2).asarray(kernel(d2), device=d2.device)
    if values.shape != d2.shape or not xp_of(values).isfinite(values).all():
        raise ValueError(
            "kernel must return finite values of the shape of the squared distances "
            f"it is given, {d2.shape}; got "
            f"{'NaN or infinity' if values.shape == d2.shape else values.shape}."
        )
    return values


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
    eigenvalues. These two keep eigenvalues that are negative by rounding only. The
    limit is ``10 sqrt(n)`` times the precision of K times its largest row sum of
    absolute values.

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
    subtract_in_place(K, share * values, vectors)
    return Repair(smallest, vectors, share)


def subtract_in_place(K: NDArray, values: NDArray, vectors: NDArray) -> None:
    """Subtract V diag(values) Vᵀ from a symmetric matrix, by blocks."""
    for rows in batched_slices(len(K), PAIR_ROWS):
        K[rows] -= (vectors[rows] * values) @ vectors.T
    symmetrize(K)


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
    return float(some_eigenpairs(K, 0, 0)[0][0])


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
    return epsilon(dtype if dtype == np.float32 else np.float64)


def _check_square(K: Any, copy: bool = False) -> NDArray:
    K = as_matrix("K", K, dtype=np.float64, copy=copy)
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"K must be a square matrix of kernel values between samples; got shape "
            f"{K.shape}."
        )
    if np.array_equal(K, K.T):
        return K
    return symmetrize(K if copy else K.copy())
