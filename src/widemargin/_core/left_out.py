r"""What a sample adds to its own margin: planes without it, in closed form.

A plane of largest margin is a sum over samples, :math:`w = \sum_i \alpha_i y_i x_i`.
Without sample i it is the largest margin of the others. As long as the same of them
stay free, neither without a weight nor at the largest weight allowed,

.. math:: y_i f^{-i}(x_i) = y_i f(x_i) - \alpha_i S_i^2,

:math:`S_i` being the distance of :math:`x_i` from the span of the other free samples:
from all combinations of them, whose coefficients sum to one where the bias is free. In
a space where samples own a coordinate of squared length :math:`D_i` (slack that is paid
by its square), the distance includes it and the margin does not,
:math:`y_i f(x_i) - \alpha_i (S_i^2 - D_i)`. A sample without a weight changes nothing.

With K of the free samples, D on its diagonal and a border of ones for the bias,
:math:`S_i^2 = 1 / (K^{-1})_{ii}` of a free sample, and
:math:`k_{ii} - v_i^T K^{-1} v_i` of another. Fewer samples span less: with some of them
the distance is too large, and nobody is made too sure.

A weight is left out with its sample. Samples with the same values and class are one
observation that came several times, as a sample of weight 2 is, and are left out
together, unless chance makes equal rows: where features have few values, or equal rows
are in two classes, each is an observation of its own.

Reference: O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple
parameters for support vector machines, Machine Learning 46, 2002. Shapes: K (m, m) of
the free samples.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dtrtrs

from widemargin._core.arrays import largest_of
from widemargin._core.samples import repeated_rows, twins

# What the smallest distances may be off by, relative to the mean square.
_RIDGE = 1e-10


def observations(X: Any, codes: NDArray) -> NDArray | None:
    """Return one number for all samples that are the same observation.

    None where each is an observation of its own.

    >>> X = np.random.RandomState(0).normal(size=(200, 2))
    >>> X[7] = X[5]
    >>> alike = observations(X, np.zeros(200, int))
    >>> bool(alike[7] == alike[5]), len(np.unique(alike))
    (True, 199)
    """
    # Products with numbers that have no pattern tell rows apart, up to rounding.
    numbers = np.random.RandomState(0).uniform(1, 2, X.shape[1])
    keys = np.asarray(X @ numbers)
    noise = 1e-15 * X.shape[1] * largest_of(X)
    if not (np.diff(np.sort(keys)) <= noise).any():
        return None
    if sp.issparse(X):
        pairs = np.column_stack([keys, codes])
        groups = np.unique(pairs, axis=0, return_inverse=True)[1]
        return None if groups.max() >= len(np.unique(keys)) else groups.ravel()
    groups = twins(X, codes)
    # Rows that are in two classes are no copies, and neither are others then.
    if twins(X, 0 * codes).max() < groups.max():
        return None
    repeated = repeated_rows(X, codes)
    if not repeated.any():
        return None
    return np.where(repeated, groups, len(codes) + np.arange(len(codes)))


def squared_spans(K: NDArray, private: NDArray | None = None, *, bias: bool) -> NDArray:
    """Squared distance of every free sample from the span of the others.

    `private` are squared private coordinates, which are in the distances; `bias` says
    whether the bias is free.

    >>> K = np.array([[0.0, 0.0], [0.0, 9.0]])
    >>> squared_spans(K, bias=True).round(6)
    array([9., 9.])
    """
    factor, _, most = _factor(K, private, bias)
    inverse = np.diag(dpotri(factor, lower=1)[0])
    if bias:
        u = dpotrs(factor, np.ones(len(K)), lower=1)[0]
        inverse = inverse - u * u / u.sum()
    return 1.0 / np.maximum(inverse, 1.0 / most)


def squared_spans_beside(
    K: NDArray, beside: NDArray, squares: NDArray, *, bias: bool
) -> NDArray:
    """Squared distance of other samples from the span of the free.

    `beside` (q, m) are their inner products with the free, `squares` with themselves.

    >>> squared_spans_beside(np.array([[1.0]]), np.ones((1, 1)), np.ones(1), bias=True)
    array([0.])
    """
    if not len(K):
        return 2.0 * (squares + squares.mean()) if bias else squares
    factor, shift, most = _factor(K, None, bias)
    inner = dtrtrs(factor, (beside + shift).T, lower=1)[0]
    left = squares + shift - np.einsum("ij,ij->j", inner, inner)
    if bias:
        ones = dtrtrs(factor, np.ones(len(K)), lower=1)[0]
        left += (1.0 - ones @ inner) ** 2 / (ones @ ones)
    return np.clip(left, 0.0, most + 4.0 * squares)


def _factor(
    K: NDArray, private: NDArray | None, bias: bool
) -> tuple[NDArray, float, float]:
    """Return the factor of the system, what its products were raised by, and a limit.

    With a border, a number more in all products changes nothing but rounding. Where
    nothing else is free there is no span, but two samples are not infinitely far apart.
    """
    size = float(np.diag(K).mean()) or 1.0
    shift, ridge = size if bias else 0.0, _RIDGE * size
    while True:
        system = K + shift
        system.flat[:: len(K) + 1] += ridge if private is None else private + ridge
        most = 4.0 * float(np.diag(system).max())
        factor, failed = dpotrf(system.T, lower=1, overwrite_a=1)
        if not failed:
            return factor, shift, most
        ridge *= 100.0
