r"""Margins of a hyperplane: geometric, and directional in the augmented space.

A hyperplane :math:`f(x) = w \cdot x + b` is one vector :math:`a = [w, b/\rho]` once
every sample is placed at height :math:`\rho` in one more dimension: with the reflected
pattern :math:`\bar y = l\,[x, \rho]` of label :math:`l = \pm 1`,
:math:`\bar y \cdot a = l f(x)`. Dividing by :math:`\|a\|` gives the directional margin,
by :math:`\|w\|` the geometric one, so directional ≤ geometric in absolute value, and
for the best planes :math:`1 \le \gamma/\gamma_d \le \sqrt{1 + R_x^2/\rho^2}` with
:math:`R_x` the longest sample. Both functions return one signed number per sample,
shape (n_samples,); the smallest is the margin of the set.

References
----------
P. Tsampouka, J. Shawe-Taylor, Perceptron-like large margin classifiers, sections 2.1
and 2.3.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._core.checks import (
    FloatArray,
    as_floats,
    as_matrix,
    check_number,
    check_same_length,
)
from widemargin._core.decisions import as_labels

__all__ = ["directional_margin", "geometric_margin"]


def directional_margin(
    X: npt.ArrayLike,
    coef: npt.ArrayLike,
    intercept: float,
    y: npt.ArrayLike,
    *,
    rho: float = 1.0,
) -> FloatArray:
    r"""Directional margin :math:`l\,f(x) / \sqrt{\|w\|^2 + (b/\rho)^2}` per sample.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Samples.
    coef : array-like of shape (n_features,) or (1, n_features)
        Normal vector w of the hyperplane.
    intercept : float or array-like of shape (1,)
        Offset b of the hyperplane.
    y : array-like of shape (n_samples,)
        Labels −1 and +1.
    rho : float, default=1.0
        Height of the samples in the additional dimension; > 0. As it grows the
        directional margin approaches the geometric one.

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        Positive iff on the right side; 0 everywhere for ``coef = 0, intercept = 0``.

    Examples
    --------
    >>> from widemargin.margins import directional_margin
    >>> directional_margin([[0.0], [8.0]], [3.0], -12.0, [-1, 1], rho=3.0)
    array([2.4, 2.4])
    """
    rho = check_number("rho", rho, above=0)
    f, norm, b, dtype = _functional_margin(X, coef, intercept, y)
    # Multiplied by a small rho rather than divided by it, nothing overflows.
    unit = min(rho, 1.0)
    length = math.hypot(norm * unit, b * (unit / rho))
    with np.errstate(over="ignore"):
        return (f * (unit / length if length else 1.0)).astype(dtype)


def geometric_margin(
    X: npt.ArrayLike, coef: npt.ArrayLike, intercept: float, y: npt.ArrayLike
) -> FloatArray:
    r"""Geometric margin :math:`l\,f(x) / \|w\|`: signed distance to the hyperplane.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Samples.
    coef : array-like of shape (n_features,) or (1, n_features)
        Normal vector w of the hyperplane.
    intercept : float or array-like of shape (1,)
        Offset b of the hyperplane.
    y : array-like of shape (n_samples,)
        Labels −1 and +1.

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        Positive iff on the right side. Without a plane (``coef = 0``) no step changes
        the answer: ±inf by the sign of the intercept, 0 if that is 0 too.

    Examples
    --------
    >>> from widemargin.margins import geometric_margin
    >>> geometric_margin([[0.0], [8.0]], [3.0], -12.0, [-1, 1])
    array([4., 4.])
    """
    f, norm, _, dtype = _functional_margin(X, coef, intercept, y)
    if norm == 0:
        return np.where(f == 0, f, np.copysign(np.inf, f)).astype(dtype)
    with np.errstate(over="ignore"):
        return (f / norm).astype(dtype)


def _functional_margin(
    X: Any, coef: npt.ArrayLike, intercept: float, y: npt.ArrayLike
) -> tuple[FloatArray, float, float, np.dtype]:
    """Values l f(x) in float64, length of w, b, and the dtype of the samples."""
    X = as_matrix("X", X, accept_sparse=("csr", "csc"))
    w = as_floats("coef", coef)
    w = w[0] if w.ndim == 2 and len(w) == 1 else w
    if w.shape != (X.shape[1],):
        raise ValueError(
            f"coef must be one hyperplane of X's {X.shape[1]} features, shape "
            f"({X.shape[1]},); got shape {np.shape(coef)}."
        )
    b = as_floats("intercept", intercept)
    if b.size != 1:
        raise ValueError(f"intercept must be one number; got shape {b.shape}.")
    if not (np.isfinite(w).all() and np.isfinite(b).all()):
        raise ValueError("coef and intercept must be finite.")
    labels = as_labels("y", y)
    if not np.isin(labels, (-1, 1)).all():
        raise ValueError(
            "y must contain -1 and +1 only; two classes a, b become such labels by "
            "np.where(y == b, 1, -1)."
        )
    check_same_length(X=X, y=labels)
    w, offset = w.astype(np.float64), float(b.reshape(()))
    # A plane has no unit: lengths of any size become numbers of ordinary size.
    unit = _power_of_two(float(np.abs(w).max()) or abs(offset))
    w, offset = w / unit, offset / unit
    with np.errstate(over="ignore", invalid="ignore"):
        f = X @ w + offset
    if np.isnan(f).any():
        raise ValueError("X is so large that its margins are no numbers; scale it.")
    return f * labels.astype(np.float64), float(np.linalg.norm(w)), offset, X.dtype


def _power_of_two(size: float) -> float:
    return math.ldexp(1.0, min(max(math.frexp(size)[1], -1022), 1023))
