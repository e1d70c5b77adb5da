"""Weighted means and spreads of classes: what sets the scale of a learning step."""

import numpy as np
from scipy.sparse import csr_array


def class_means(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return the (n_classes, n_features) means; zero for a class without samples."""
    totals = np.bincount(codes, weights, minlength=n_classes)
    members = csr_array(
        (weights, codes, np.arange(len(codes) + 1)), shape=(len(codes), n_classes)
    )
    return (members.T @ X) / np.where(totals > 0, totals, 1)[:, None]


def residuals(X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the samples minus the mean of their class.

    Where every class consists of equal samples there is no spread within classes, and
    the spread between them has to do.
    """
    means = class_means(X, codes, weights, int(codes.max()) + 1).astype(X.dtype)
    out = X - means[codes]
    if not out.any():
        out = X - means.mean(axis=0)
    return out


def within_class_spread(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Root mean square deviation of each feature from its class mean, never zero."""
    R = residuals(X, codes, weights)
    variance = np.einsum("i,ij,ij->j", weights, R, R) / weights.sum()
    floor = 1e-6 * variance.mean() or 1.0
    return np.sqrt(np.maximum(variance, floor)).astype(X.dtype)


def discriminant_directions(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    rank: int,
    shrinkage: float = 0.1,
) -> np.ndarray:
    """Return the `rank` directions in which the classes lie farthest apart.

    They are the widest directions of all samples together after a whitening W of the
    within-class covariance. A fraction `shrinkage` of its mean variance keeps
    directions of next to no variance from exploding.
    """
    R = residuals(X, codes, weights)
    S = ((R * weights[:, None]).T @ R / weights.sum()).astype(np.float64)
    values, U = np.linalg.eigh(S)
    ridge = shrinkage * max(values.mean(), np.finfo(np.float64).tiny)
    W = (U / np.sqrt(np.maximum(values, 0) + ridge)) @ U.T
    Z = (X - np.average(X, axis=0, weights=weights)) @ W
    widest = np.linalg.eigh((Z * weights[:, None]).T @ Z)[1][:, ::-1][:, :rank]
    return (widest.T @ W).astype(X.dtype)
