"""Feature spaces seen through inner products: the samples themselves, or a kernel.

A hyperplane is a vector of weights in the space of the samples, or one coefficient per
sample in the space of a kernel; a combination of samples is one number per sample in
both. The solvers ask for vectors of a few samples and for the scores of all of them.
The certificates ask for the same with an error: every sum of m products computed in
arithmetic of unit u is off by at most ``m u / (1 - m u)`` times the sum of absolute
values, in whatever order it is added up (Higham, Accuracy and stability of numerical
algorithms, 2002, section 3.1); where that is too much, in extended precision.

A kernel is evaluated in blocks within scikit-learn's memory budget; the matrix of all
pairs is held only where the samples are few. Its values are rounded too, and each
named kernel knows by how much at most: those of differences, "rbf" among them, are
computed from differences, so that it does not matter how far from the origin the
samples are; of those of inner products all error is that of the products.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import pairwise_kernels

from widemargin._compute.machine import batched_slices, require_room, rows_in_budget
from widemargin._compute.nearest import squared_distances
from widemargin._compute.rounding import epsilon, product_error, rounding
from widemargin.hyperplanes.patterns import longest_row, squared_row_norms

SHARP = np.longdouble
# Entries beyond which extended precision would take longer than the fit.
_MANY = 4 * 10**6
# Samples up to which the matrix of a kernel is held.
_FEW = 1000
_WAY_OUT = (
    "Use kernel='linear', fewer samples, or TangentSVC(tangents='none', "
    "n_landmarks=1000), which approximates the kernel."
)
# Error, relatively, that no certificate notices.
SMALL = 1e-9
# Named kernels that are positive semidefinite for all their parameters.
_SEMIDEFINITE = {"linear", "rbf", "laplacian", "chi2", "cosine"}
# Samples on which a kernel that promises nothing is tested.
_TESTED = 1500
# Numbers up to which all squared distances are sums of squared differences; beyond,
# those are that a product would give with a larger relative error than the second.
_DIFFERENCES, _COARSE = 5 * 10**7, 1e-11
# Exponentials, powers and hyperbolic tangents are right to this, relatively.
_FUNCTION = 4 * epsilon()
_LEAST = 5e-324


class LinearSpace:
    """The space of the samples. `longest` bounds the length of all samples."""

    def __init__(self, X: Any, longest: float | None = None):
        self.X = X
        self._longest = longest

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.X.shape[0]

    @property
    def longest(self) -> float:
        """Length of the longest sample, or more."""
        if self._longest is None:
            self._longest = longest_row(self.X) * (1 + rounding(self.X.shape[1]))
        return self._longest

    def vectors(self, rows: NDArray) -> NDArray:
        """Give the chosen samples as dense rows."""
        chosen = self.X[rows]
        return chosen.toarray() if sp.issparse(chosen) else chosen

    def gram(self, rows: NDArray) -> NDArray:
        """Inner products of the chosen samples."""
        chosen = self.X[rows]
        K = chosen @ chosen.T
        return K.toarray() if sp.issparse(K) else K

    def weights(self, rows: NDArray, beta: NDArray) -> NDArray:
        """``sum_j beta_j x_j``."""
        return beta @ self.X[rows]

    def scores(self, coef: NDArray) -> NDArray:
        """``w.x`` of every sample."""
        return np.asarray(self.X @ coef, dtype=np.float64)

    def score_error(self, coef: NDArray, dtype: Any = np.float64) -> float:
        """How far a score can be off."""
        size = float(np.linalg.norm(coef)) * self.longest
        return rounding(self.X.shape[1], dtype) * size * 1.001 + 1e-300

    def sharp_scores(self, rows: NDArray, coef: NDArray) -> NDArray | None:
        """Scores of the chosen samples in extended precision; None for too many."""
        if len(rows) * self.X.shape[1] > _MANY:
            return None
        return np.asarray(self.X[rows].astype(SHARP) @ coef.astype(SHARP))

    def length(self, coef: NDArray) -> tuple[float, float]:
        """(Lower, upper) bound of ``||w||``."""
        error = rounding(len(coef))
        length = float(np.linalg.norm(coef))
        return length * (1 - error), length * (1 + error)

    def combined(
        self, rows: NDArray, c: NDArray, rho: float | None, beside: float = 0.0
    ) -> float:
        """Upper bound of ``||sum_k c_k [x_k, rho]||``; `rho` None if c sums to zero.

        `c` is in extended precision, its absolute values sum to one. `beside` is a
        length that the answer is seen beside.
        """
        upper, error = self._combined(rows, c, rho, np.float64)
        # Doubles will do where their rounding is no part of the answer.
        if error > SMALL * max(upper, beside) and len(rows) * self.X.shape[1] <= _MANY:
            upper, error = self._combined(rows, c, rho, SHARP)
        return upper

    def _combined(self, rows, c, rho, dtype: Any) -> tuple[float, float]:
        chosen = self.X[rows].astype(dtype, copy=False)
        c = c.astype(dtype)
        reach = self.longest
        if rho is None and not sp.issparse(chosen):
            # Seen from one of them the sums do not cancel.
            chosen = chosen - chosen[0]
            reach = float(np.sqrt(np.einsum("ij,ij->i", chosen, chosen).max()))
        total = chosen.T @ c
        square = np.sum(total * total)
        if rho is not None:
            square += (dtype(rho) * c.sum()) ** 2
        error = rounding(2 * len(rows) + 8, dtype) * (reach + (rho or 0.0)) * 1.001
        length = float(np.sqrt(square)) * (1 + rounding(len(total), dtype))
        return (length + error) * (1 + 4e-16), error


class KernelSpace:
    """Inner products given by a kernel, or by a Gram matrix computed beforehand."""

    def __init__(self, X: Any, kernel: "Kernel | None"):
        self.X = X
        self.kernel = kernel
        self._largest = 0.0
        self._whole: NDArray | None = None
        self._error: tuple[float, float] | None = None

    @property
    def value_error(self) -> float:
        """How far any value seen is off at most; 0 of a matrix computed beforehand."""
        if self._error is None:
            self._error = (
                (0.0, 0.0) if self.kernel is None else self.kernel.error(self.X)
            )
        return self._error[0] + self._error[1] * self._largest

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.X.shape[0]

    def _block(self, rows: Any, columns: NDArray) -> NDArray:
        """``K(x_i, x_j)`` as a new array."""
        n = self.n_samples
        if self._whole is None and self.kernel is not None and n <= _FEW:
            chosen = range(n)[rows] if isinstance(rows, slice) else rows
            if 4 * len(chosen) * len(columns) >= n * n:
                self._whole = self._checked(self.kernel(self.X, self.X))
        if self._whole is not None:
            return self._whole[rows].take(columns, axis=1)
        if self.kernel is None:
            part = self.X[rows][:, columns]
            return self._checked(part.toarray() if sp.issparse(part) else part)
        return self._checked(self.kernel(self.X[rows], self.X[columns]))

    def _checked(self, block: Any) -> NDArray:
        block = np.asarray(block, dtype=np.float64)
        largest = max(block.max(initial=0.0), -block.min(initial=0.0))
        if not largest <= 1e150:
            raise ValueError(
                f"kernel has values as large as {largest:.3g}, whose squares overflow; "
                "scale X, for instance by StandardScaler, or the kernel's parameters."
            )
        self._largest = max(self._largest, float(largest))
        return block

    def gram(self, rows: NDArray) -> NDArray:
        """``K(x_i, x_j)`` for the chosen rows."""
        if len(rows) > _FEW:
            # With the factors that are made of it.
            require_room(len(rows), len(rows), 24, _WAY_OUT)
        return self._block(rows, rows)

    def vectors(self, rows: NDArray) -> NDArray:
        """Vectors that have the inner products of the chosen samples."""
        gram = self.gram(rows)
        factor, pivots, rank, _ = dpstrf(gram, lower=1, tol=-1.0)
        factor = np.tril(factor)[:, : max(rank, 1)]
        vectors = np.empty_like(factor, order="C")
        vectors[pivots - 1] = factor
        return vectors

    def scores(self, coef: NDArray) -> NDArray:
        """``sum_j beta_j K(x, x_j)`` of every sample, in chunks."""
        rows = np.flatnonzero(coef)
        if len(rows) == 0:
            return np.zeros(self.n_samples)
        size = rows_in_budget(8.0 * max(1, len(rows)))
        chunks = [
            self._block(chunk, rows) @ coef[rows]
            for chunk in batched_slices(self.n_samples, size)
        ]
        return np.concatenate(chunks)

    def score_error(self, coef: NDArray, dtype: Any = np.float64) -> float:
        """How far a score can be off, from the largest value of the kernel seen."""
        off = rounding(int(np.count_nonzero(coef)), dtype) * self._largest
        return float(np.abs(coef).sum()) * (off + self.value_error) * 1.001

    def sharp_scores(self, rows: NDArray, coef: NDArray) -> NDArray | None:
        """Scores of the chosen samples in extended precision; None for too many."""
        columns = np.flatnonzero(coef)
        if len(rows) * len(columns) > _MANY:
            return None
        if len(columns) == 0:
            return np.zeros(len(rows), SHARP)
        return self._block(rows, columns).astype(SHARP) @ coef[columns].astype(SHARP)

    def _square(
        self, rows: NDArray, beta: NDArray, beside: float = 0.0, *, seen: bool = False
    ) -> tuple[float, float]:
        """``beta.K.beta``, a bit less and a bit more; `seen`: of K as computed."""
        gram, off = self.gram(rows), 0.0 if seen else self.value_error
        square, error = self._square_in(gram, beta, off, np.float64)
        # Doubles will do where their rounding is no part of the answer.
        if error > SMALL * max(square, beside * beside) and len(rows) ** 2 <= _MANY:
            square, error = self._square_in(gram, beta, off, SHARP)
        return max(0.0, square - error), max(0.0, square + error)

    def _square_in(self, gram, beta, off, dtype: Any) -> tuple[float, float]:
        gram, beta = gram.astype(dtype, copy=False), beta.astype(dtype, copy=False)
        square = float(beta @ (gram @ beta))
        # The coefficients themselves are right to a unit for each that was added up.
        off = off + rounding(5 * len(beta) + 16, dtype) * self._largest
        error = float(np.abs(beta).sum()) ** 2 * off * 1.001
        return square, error + 2e-16 * abs(square)

    def length(self, coef: NDArray, *, seen: bool = False) -> tuple[float, float]:
        """(Lower, upper) bound of ``||w||``; `seen`: of values as they are computed."""
        rows = np.flatnonzero(coef)
        if len(rows) == 0:
            return 0.0, 0.0
        low, high = self._square(rows, coef[rows], seen=seen)
        return float(np.sqrt(low)) * (1 - 4e-16), float(np.sqrt(high)) * (1 + 4e-16)

    def combined(
        self, rows: NDArray, c: NDArray, rho: float | None, beside: float = 0.0
    ) -> float:
        """Upper bound of ``||sum_k c_k [phi(x_k), rho]||``, as in a linear space."""
        _, square = self._square(rows, c, beside)
        if rho is not None:
            square += (rho * float(c.sum())) ** 2
        return float(np.sqrt(square)) * (1 + 1e-15)


def check_semidefinite(space: KernelSpace, kernel: Any, seed: int) -> None:
    """Refuse a kernel that belongs to no space: no plane there has a margin.

    Named kernels that are known to be positive semidefinite pass. Of others the matrix
    of all samples is tested, or that of a random part where there are many.
    """
    if isinstance(kernel, str) and kernel in _SEMIDEFINITE:
        return
    n = space.n_samples
    rows = np.arange(n)
    if n > _TESTED:
        rows = np.sort(np.random.default_rng(seed).permutation(n)[:_TESTED])
    gram = space.gram(rows)
    largest = float(np.abs(gram).max())
    if largest == 0.0:
        return
    name = repr(kernel) if isinstance(kernel, str) else "the kernel"
    advice = (
        "Allow for it by widemargin.metrics.repair_spectrum and kernel='precomputed', "
        "or choose another kernel."
    )
    if np.abs(gram - gram.T).max() > 1e-8 * largest:
        raise ValueError(f"kernel: the matrix of {name} is not symmetric. {advice}")
    gram = (gram + gram.T) / 2
    allowed = 1e-10 * largest * len(rows)
    try:
        np.linalg.cholesky(gram + allowed * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        lowest = float(np.linalg.eigvalsh(gram)[0])
        raise ValueError(
            f"kernel: {name} is not positive semidefinite on these samples (smallest "
            f"eigenvalue {lowest:.3g}), so that there is no space in which a margin "
            f"could be measured. {advice}"
        ) from None


@dataclass(frozen=True)
class Kernel:
    """A kernel with the parameters of an estimator, and how far its values are off.

    >>> Kernel("polynomial", 1.0, 2, 0.0)([[1.0]], [[3.0]])
    array([[9.]])
    """

    kernel: Any
    gamma: float
    degree: float
    coef0: float
    params: dict | None = None

    def __call__(self, A: Any, B: Any) -> NDArray:
        """Return the values (n_a, n_b)."""
        if self.kernel == "rbf" and (_is_few(A, B) or not sp.issparse(A)):
            return self._radial(A, B)
        extra: dict[str, Any] = dict(self.params or {})
        if not callable(self.kernel):
            extra = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        try:
            return pairwise_kernels(
                A, B, metric=self.kernel, filter_params=True, **extra
            )
        except (TypeError, ValueError) as error:
            if not callable(self.kernel):
                raise
            raise ValueError(
                "kernel must return a number for two samples, for rows of a sparse "
                f"matrix too if X is one; it failed: {error}"
            ) from error

    def _radial(self, A: Any, B: Any) -> NDArray:
        """``exp(-gamma d2)``, wherever the origin of the samples is."""
        if _is_few(A, B):
            A, B = (M.toarray() if sp.issparse(M) else np.asarray(M) for M in (A, B))
            K = cdist(A, B, "sqeuclidean")
        else:
            K = squared_distances(A, B, _COARSE)
        K *= -self.gamma
        return np.exp(K, out=K)

    def error(self, X: Any) -> tuple[float, float]:
        """How far values of samples are off, and that in units of the largest.

        ``exp(-t)`` moves by no more than t, and by no more than the relative move of t
        over e. A function of one's own is taken to be right as a sum of products is.
        """
        d = X.shape[1]
        small = rounding(d + 8)
        if self.kernel in ("rbf", "laplacian", "chi2"):
            moved = self._radial_error(X) if self.kernel == "rbf" else small / np.e
            return moved + _FUNCTION + self.gamma * (d + 8) * _LEAST, 0.0
        if callable(self.kernel) or self.kernel == "additive_chi2":
            return 0.0, small
        squares = squared_row_norms(X)
        if self.kernel == "cosine":
            lengths = squares[np.asarray((X != 0).sum(axis=1)).ravel() > 0]
            good = (lengths > 1e-290).all() and (lengths < 1e290).all()
            return rounding(2 * d + 16) if good else 2.0, 0.0
        return self._product_error(X, float(squares.max()) * (1 + small)), 0.0

    def _radial_error(self, X: Any) -> float:
        small = rounding(X.shape[1] + 8)
        if _is_few(X, X):
            return small / np.e
        # Products are taken about the mean of some samples, of sparse ones about zero.
        moved, times = (X, 1.0) if sp.issparse(X) else (X - X.mean(axis=0), 4.0)
        reach = times * float(squared_row_norms(moved).max())
        plain = self.gamma * 4 * small * reach
        if sp.issparse(X):
            return plain
        counted = product_error(np.float64, X.shape[1])
        return min(plain, _COARSE * max(1.0, 2 * small / counted)) + small / np.e

    def _product_error(self, X: Any, longest: float) -> float:
        """Error of a function of inner products of at most `longest`."""
        d, gamma, coef0, degree = X.shape[1], self.gamma, self.coef0, self.degree
        if self.kernel == "linear":
            gamma, coef0, degree = 1.0, 0.0, 1
        top = np.float64(gamma * longest + abs(coef0))
        off = rounding(d + 8) * top + gamma * (d + 8) * _LEAST
        if self.kernel == "sigmoid":
            return float(off + _FUNCTION)
        entries = X.data if sp.issparse(X) else X
        whole = all((np.rint(v) == v).all() for v in (gamma, coef0, entries))
        if degree == 0 or (whole and degree in (1, 2) and top**degree < 2.0**53):
            return 0.0
        with np.errstate(over="ignore"):
            steep = degree * (top + off) ** (degree - 1) * off
            return float(
                (steep if degree >= 1 else off**degree) + _FUNCTION * top**degree
            )


def _is_few(A: Any, B: Any) -> bool:
    """Whether all pairs are few enough to be subtracted from each other."""
    return np.shape(A)[0] * np.shape(B)[0] * np.shape(A)[1] <= _DIFFERENCES
