r"""Ridge regression to the classes, with what it says of samples that are left out.

Of standardised features Z (n, F), weights w and targets T of 1 and -1,

.. math:: \min_{B, b} \sum_i w_i \|t_i - B z_i - b\|^2 + \alpha \|B\|^2 .

With the rows of Z centred and times :math:`\sqrt{w_i}`, A, and its singular values,
:math:`A = V S^{1/2} U^\top`, the leverage of a sample is

.. math:: h_i = \frac{w_i}{\sum_k w_k} + \sum_j V_{ij}^2 \frac{S_j}{S_j + \alpha},

and the residual of a sample, were it left out, is its residual over :math:`1 - h_i`:
exact, with all alphas for one decomposition. So regressions with other alphas, beside
the best one, cost little.

Reference: R. Rifkin, R. Lippert, Notes on regularized least squares, MIT-CSAIL-TR-2007.
Shapes: targets, scores (n, K); coefficients (K, F).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from widemargin._core.select import select

# Alphas that are tried, in units of the mean square of the rows.
ALPHAS = np.logspace(1, -4, 16)


class Ridge(NamedTuple):
    """Coefficients, what is added, the alpha, and the scores of left-out samples."""

    coef: NDArray
    intercept: NDArray
    alpha: float
    left_out: NDArray


def fit_ridge(
    Z: NDArray,
    targets: NDArray,
    weights: NDArray,
    alpha: float | None = None,
    beside: Sequence[float] = (),
) -> list[Ridge]:
    """Fit centred features; without an alpha, that of least left-out squared error.

    Others follow with the alphas `beside`, in units of the mean square of the rows,
    except the one next to the first.
    """
    total, roots = weights.sum(), np.sqrt(weights)[:, np.newaxis]
    mean = weights @ targets / total
    A = roots * Z
    b = roots * (targets - mean)
    wide = A.shape[0] <= A.shape[1]
    squares, vectors = eigh(A @ A.T if wide else A.T @ A)
    kept = squares > 1e-12 * squares[-1]
    squares, vectors = squares[kept], vectors[:, kept]
    V = vectors if wide else A @ vectors / np.sqrt(squares)
    unit = squares.sum() / len(A) or 1.0
    seen = V.T @ b

    def left_out(candidate: float) -> NDArray:
        shrunk = squares / (squares + candidate)
        residuals = b - V @ (shrunk[:, np.newaxis] * seen)
        rest = 1 - weights / total - V**2 @ shrunk
        return targets - residuals / (roots * np.maximum(rest, 1e-9)[:, np.newaxis])

    def mistakes(candidate: float) -> NDArray:
        return ((targets - left_out(candidate)) ** 2).mean(axis=1)

    if alpha is None:
        candidates = [float(a) for a in unit * ALPHAS]
        alpha = select(candidates, mistakes, weights, deviations=0, share=0)

    def fitted(candidate: float) -> Ridge:
        dual = seen / (squares + candidate)[:, np.newaxis]
        if wide:
            coef = (A.T @ (V @ dual)).T
        else:
            coef = (vectors @ (np.sqrt(squares)[:, np.newaxis] * dual)).T
        return Ridge(coef, mean, candidate, left_out(candidate))

    others = unit * np.array(beside)
    if len(others):
        others = np.delete(others, np.abs(np.log(others / alpha)).argmin())
    return [fitted(alpha), *(fitted(float(other)) for other in others)]
