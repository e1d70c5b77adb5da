r"""Machines on a Gram matrix that need not be positive, and what their solver sees.

The dual problem of a support vector machine with an offset,

    max  Σ_i |β_i| - βᵀ K β / 2,   Σ_i β_i = 0,   0 <= ±β_i <= C_i,

has one maximum if βᵀKβ >= 0 for all β of sum zero: if P K P, P = I - 11ᵀ/n, has no
negative eigenvalue. Else LIBSVM, which changes two coefficients at a time, stops where
no two can be changed for the better; that may be far from any good machine, and the
further the more samples there are and the larger C is. Repairs act on P K P, so that
kernels that are conditionally positive, as -d of the Euclidean distance, need none.

With β of the repaired matrix, and T of :mod:`widemargin.metrics.kernels`, new samples
are decided by kernel values as they come:

    f(x) = k(x, ·) Tβ + b - mᵀTβ,   m = K 1/n.

Shapes: K (n, n), coefficients (n, n_duels).
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.blas import dsymv
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning

from widemargin._core.checks import warn_caller
from widemargin._core.params import parameters
from widemargin.hyperplanes import pairwise
from widemargin.metrics import kernels

# "auto" looks at so many samples, and repairs where the smallest eigenvalue is below
# this share of the matrix' Frobenius norm. On parts of the training sets of digits,
# USPS and MNIST it is at 0.008 at most (mean distance) and no repair changes anything;
# machines on drawn signals lose accuracy from 0.01 on, and nearly all at 0.05.
LOOKED_AT, SHARE = 800, 0.01
# Larger matrices lose their lowest eigenvalues first, which are those that matter; if
# that was not enough all, but of LARGE ones, where it takes an hour.
LARGE = 8000
WHOLE, LOWEST = 2000, 200
# What a sum of products may round to, as a share of the sum of their sizes.
_NEGATIVE = -1e-6


class Repaired(NamedTuple):
    """What was done to a Gram matrix, which is centred now, and the means it had."""

    repair: kernels.Repair
    means: NDArray

    def as_they_come(
        self, coef: NDArray, intercept: NDArray
    ) -> tuple[NDArray, NDArray]:
        """Coefficients and offsets for kernel values that nothing was done to."""
        coef = self.repair.transform(coef)
        return coef, intercept - self.means @ coef


def is_indefinite(K: NDArray) -> bool:
    """Whether a symmetric matrix is too far from positive for a solver, by a look."""
    rows = np.sort(RandomState(0).permutation(len(K))[:LOOKED_AT])
    part = K[np.ix_(rows, rows)]
    largest = np.abs(part).max()
    if largest == 0.0:
        return False
    part /= largest
    _centre(part)
    # Values that are all the same differ by rounding only.
    size = max(float(np.linalg.norm(part)), 1e-9 * len(part))
    part.flat[:: len(part) + 1] += SHARE * size
    try:
        # In place, in the order of memory that LAPACK has.
        cholesky(part.T, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return True
    return False


def repair_gram(K: NDArray, method: str, rounding: float) -> Repaired | None:
    """Repair a symmetric float64 matrix in place; None where it stays as it was."""
    if method == "none" or (method == "auto" and not is_indefinite(K)):
        return None
    means = _centre(K)
    # The constant, which no coefficients see, gets the mean eigenvalue, not an end.
    K += np.trace(K) / (len(K) * (len(K) - 1))
    if method != "auto" or len(K) <= WHOLE:
        method = "clip" if method == "auto" else method
        return Repaired(kernels.repair_in_place(K, method, rounding), means)
    repair = _cut_lowest(K)
    if len(K) <= LARGE and is_indefinite(K):
        rest = kernels.repair_in_place(K, "clip", rounding)
        # What was cut is orthogonal to what is left.
        parts = [v for v in (repair.vectors, rest.vectors) if v is not None]
        smallest = min(repair.smallest_eigenvalue, rest.smallest_eigenvalue)
        repair = kernels.Repair(smallest, np.hstack(parts) if parts else None, 1.0)
    return Repaired(repair, means)


def _centre(K: NDArray) -> NDArray:
    """Replace K by P K P; return the means of its columns."""
    means = K.mean(axis=0)
    K -= means
    K -= (means - means.mean())[:, None]
    return means


def _cut_lowest(K: NDArray) -> kernels.Repair:
    """Clip the lowest eigenvalues, as many as Lanczos' method finds soon."""
    size = np.linalg.norm(K)
    # Of K itself the lowest crowd at zero, where nothing is found in relative terms.
    turned = LinearOperator(
        K.shape, lambda v: size * v - dsymv(1.0, K.T, v), dtype=np.float64
    )
    start = RandomState(0).normal(size=len(K))
    try:
        found, vectors = eigsh(
            turned, LOWEST, which="LA", tol=1e-8, maxiter=5, v0=start
        )
    except ArpackNoConvergence as error:
        found, vectors = error.eigenvalues, error.eigenvectors
    values = size - found
    low = values < 0
    if not low.any():
        return kernels.Repair(0.0)
    values, vectors = values[low], vectors[:, low]
    kernels.subtract_in_place(K, values, vectors)
    return kernels.Repair(float(values.min()), vectors, 1.0)


def lacks_a_plane(values: Callable[[NDArray], NDArray], coef: NDArray) -> bool:
    """Whether the normal of a duel has no length: βᵀKβ is below zero.

    `values` gives the kernel values of some of the rows of `coef` with each other.
    """
    for beta in coef.T:
        rows = np.flatnonzero(beta)
        own, beta = values(rows), beta[rows]
        # The sign is all that counts.
        own, beta = (part / (np.abs(part).max(initial=0) or 1) for part in (own, beta))
        size = np.abs(beta) @ np.abs(own) @ np.abs(beta)
        if beta @ own @ beta < _NEGATIVE * size:
            return True
    return False


def warn_of_no_machine(estimator: Any, way_out: str) -> None:
    """Say that a solver was misled."""
    warn_caller(
        f"the solver of {type(estimator).__name__} found no machine: the kernel is "
        "indefinite on these samples, and the normal of a plane has a negative squared "
        f"length. {way_out}",
        ConvergenceWarning,
    )


@parameters
class GramClassifier(pairwise.DuelClassifier):
    """Base of the machines that are trained on a Gram matrix, repaired or not."""

    _: KW_ONLY
    psd_correction: Literal["auto", "none", "clip", "flip", "shift"] = "auto"

    def _bytes_of_repair(self) -> int:
        """Bytes per entry of the Gram matrix that a repair holds, itself included."""
        # LAPACK overwrites a copy, and eigenvectors are as large again. "auto" needs
        # that of matrices that are small only.
        return {"auto": 0, "none": 0, "shift": 16}.get(self.psd_correction, 24)

    def _solve(
        self,
        machine: pairwise.PairwiseMachine,
        K: NDArray,
        y: NDArray,
        weights: NDArray,
        rounding: float,
        tasks: Any,
    ) -> tuple[NDArray, NDArray]:
        """Coefficients (n, n_duels) and offsets; K is repaired in place."""
        repaired = None

        def is_misled() -> bool:
            return lacks_a_plane(lambda rows: K[np.ix_(rows, rows)], machine.coef_)

        if self.psd_correction != "none":
            with tasks.whole("repair"):
                repaired = repair_gram(K, self.psd_correction, rounding)
        with tasks.whole("solve"):
            machine.fit(K, y, weights)
            passed = (
                self.psd_correction == "auto" and repaired is None and len(K) <= LARGE
            )
            if passed and is_misled():
                repaired = repair_gram(K, "clip", rounding)
                machine.fit(K, y, weights)
        pairwise.say_how_it_ended(machine.end_, self)
        if is_misled():
            warn_of_no_machine(
                self, f"Use psd_correction='clip' instead of {self.psd_correction!r}."
            )
        self.__dict__.pop("smallest_eigenvalue_", None)
        if repaired is None:
            return machine.coef_, machine.intercept_
        self.smallest_eigenvalue_ = repaired.repair.smallest_eigenvalue
        return repaired.as_they_come(machine.coef_, machine.intercept_)
