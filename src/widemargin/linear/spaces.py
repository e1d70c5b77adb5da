"""Feature spaces seen through inner products: the samples themselves, or a kernel.

The dual solvers ask three things of a space: the Gram matrix of a few samples, the
scores ``sum_j beta_j K(x, x_j)`` of all samples for a combination of a few, and the
squared norm of such a combination. A linear space answers through a weight vector; a
kernel space evaluates blocks of the kernel within scikit-learn's memory budget and
never holds the matrix of all pairs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.threads import batched_slices


class LinearSpace:
    """Inner products of samples shifted by `centre`."""

    def __init__(self, X: Any, centre: np.ndarray):
        self.X = X
        self.centre = centre

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.X.shape[0]

    def gram(self, rows: np.ndarray) -> np.ndarray:
        """``(x_i - c).(x_j - c)`` for the chosen rows."""
        chosen = self.X[rows]
        if sp.issparse(chosen):
            cx = chosen @ self.centre
            products = (chosen @ chosen.T).toarray()
            products -= cx[:, None] + cx[None, :]
            return products + self.centre @ self.centre
        chosen = chosen - self.centre
        return chosen @ chosen.T

    def weights(self, rows: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """``sum_j beta_j (x_j - c)``."""
        return beta @ self.X[rows] - beta.sum() * self.centre

    def scores(self, rows: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """``w.(x - c)`` of every sample."""
        w = self.weights(rows, beta)
        return self.X @ w - float(w @ self.centre)

    def square(self, rows: np.ndarray, beta: np.ndarray) -> float:
        """``||w||^2``."""
        w = self.weights(rows, beta)
        return float(w @ w)


class KernelSpace:
    """Inner products given by a kernel, or by a Gram matrix computed beforehand."""

    def __init__(self, X: Any, kernel: Callable[[Any, Any], np.ndarray] | None):
        self.X = X
        self.kernel = kernel

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.X.shape[0]

    def _block(self, rows: Any, columns: np.ndarray) -> np.ndarray:
        if self.kernel is None:
            return np.asarray(self.X[rows][:, columns], dtype=np.float64)
        return np.asarray(self.kernel(self.X[rows], self.X[columns]), dtype=np.float64)

    def gram(self, rows: np.ndarray) -> np.ndarray:
        """``K(x_i, x_j)`` for the chosen rows."""
        return self._block(rows, rows)

    def scores(self, rows: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """``sum_j beta_j K(x, x_j)`` of every sample, in chunks."""
        size = rows_in_budget(8.0 * max(1, len(rows)))
        chunks = [
            self._block(chunk, rows) @ beta
            for chunk in batched_slices(self.n_samples, size)
        ]
        return np.concatenate(chunks)

    def square(self, rows: np.ndarray, beta: np.ndarray) -> float:
        """Squared norm of the combination; rounding below zero is cut off."""
        return max(0.0, float(beta @ self.gram(rows) @ beta))


def kernel_function(
    kernel: Any, gamma: float | None, degree: float, coef0: float, params: dict | None
) -> Callable[[Any, Any], np.ndarray]:
    """Make a two-argument kernel from the parameters of an estimator.

    >>> kernel_function("polynomial", 1.0, 2, 0.0, None)([[1.0]], [[3.0]])
    array([[9.]])
    """
    if callable(kernel):
        extra = dict(params or {})
    else:
        extra = {"gamma": gamma, "degree": degree, "coef0": coef0}

    def evaluate(A: Any, B: Any) -> np.ndarray:
        return pairwise_kernels(A, B, metric=kernel, filter_params=True, **extra)

    return evaluate
