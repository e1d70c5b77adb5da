"""The metrics that GMLVQ can learn: one matrix, its diagonal, or a matrix per group.

Distances are ``||Omega (x - p)||^2``. With C the coefficients of
:mod:`widemargin.prototypes.glvq`, r and s its row and column sums, ``Z = X Omega^T``
and ``Q = P Omega^T``, the gradients of one matrix for all are

    dP     = -2 (C^T X - diag(s) P) Omega^T Omega,
    dOmega =  2 (Z^T diag(r) X - (C^T Z)^T P - Q^T C^T X + Q^T diag(s) P);

those of ``Omega = diag(o)`` its diagonal,

    do_f   =  2 o_f (sum_i r_i x_if^2 - 2 sum_j (C^T X)_jf p_jf + sum_j s_j p_jf^2);

and those of the matrix of group g, over the pairs (i, j) whose prototype j is in g,

    dOmega_g = 2 Omega_g sum_ij C_ij (x_i - p_j) (x_i - p_j)^T.

Shapes: Omega (rank, d), (d,) and (n_groups, rank, d); X and P as they are trained, each
feature in its unit, about the mean.

Hammer and Villmann, "Generalized relevance learning vector quantization", Neural
Networks 2002; Schneider, Biehl and Hammer, "Adaptive relevance matrices", Neural
Computation 2009; Schneider et al., "Regularization in matrix relevance learning", IEEE
TNN 2010; Strickert et al., "Regularization and improved interpretation of linear data
mappings and adaptive distance measures", CIDM 2013.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin._compute import nearest
from widemargin._compute.engines import formula
from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._compute.rounding import epsilon, product_error
from widemargin._core.arrays import numpy_dtype
from widemargin.prototypes.glvq import Centred, coefficients, squared_distances
from widemargin.prototypes.optimizer import Sums


def mapped_errors(x: NDArray, z_norms: NDArray, length: float) -> NDArray:
    """Error of an expanded square of ``z = Omega x``, rounded when it was mapped.

    The map errs by about ``eps |Omega| |x|``, which enters a square times ``2 |z|``;
    by ``2ab <= a^2 / s + b^2 s`` it is a sum of a part of x and a part of z.
    `length` is the squared Frobenius norm of Omega.
    """
    root = np.sqrt(x.shape[1])
    eps = epsilon(x.dtype)
    own = product_error(x.dtype, x.shape[1]) + 4 * eps * root
    return own * z_norms + (4 * eps * length / root) * nearest.squared_norms(x)


@formula
def mapped_distances(
    X: Any, P: NDArray, omega: NDArray, coarse: float | None
) -> NDArray:
    """(n, K) squared distances of samples mapped by one Omega, close ones exactly."""
    dtype = np.result_type(X, P)
    centre = P.mean(axis=0, dtype=np.float64).astype(dtype)
    omega = omega.astype(dtype, copy=False)
    x, p = X - centre, P - centre
    z, q = x @ omega.T, p @ omega.T
    z_norms, q_norms = nearest.squared_norms(z), nearest.squared_norms(q)
    length = float(nearest.squared_norms(omega).sum())
    return nearest.recompute_close(
        nearest.expanded_distances(z, q, z_norms),
        mapped_errors(x, z_norms, length),
        mapped_errors(p, q_norms, length),
        lambda i, j: nearest.squared_norms((X[i].astype(float) - P[j]) @ omega.T),
        coarse=coarse,
        n_features=2 * X.shape[1],
    )


class FullMatrix:
    """One matrix for all prototypes."""

    def start(self, inner: NDArray, n_groups: int) -> NDArray:
        """Omega to begin with, from the (rank, d) directions `inner`."""
        return inner

    def inner(self, omega: NDArray, spread: NDArray) -> NDArray:
        """Omega for the divided features, with a root mean square row of one."""
        inner = omega * (spread / spread.max())
        return inner * float(np.sqrt(len(inner)) / (np.linalg.norm(inner) or 1))

    def outer(self, inner: NDArray, spread: NDArray) -> NDArray:
        """Omega for the features as they are, of Frobenius norm one."""
        omega = inner / spread
        # Divided first: squares of what is left neither overflow nor vanish.
        omega = omega / (np.abs(omega).max() or 1)
        return omega / (np.linalg.norm(omega) or 1)

    def relevance_matrix(self, omega: NDArray) -> NDArray:
        """Lambda of Omega."""
        return np.swapaxes(omega, -1, -2) @ omega

    def mapped(self, X: NDArray, omega: NDArray) -> NDArray:
        """Map samples to where distances are Euclidean."""
        return X @ omega.T

    def sums(
        self,
        rows: Centred,
        P: NDArray,
        omega: NDArray,
        labels: NDArray,
        groups: NDArray,
        loss: Any,
    ) -> Sums:
        """Loss, gradients in prototypes and Omega, and wins among the own class."""
        Z, Q = rows.X @ omega.T, P @ omega.T
        error = product_error(numpy_dtype(P), P.shape[1]) * (omega**2).sum()
        pairs = coefficients(
            squared_distances(Z, Q),
            labels,
            rows.codes,
            rows.weights,
            loss,
            error * rows.norms,
            error * (P * P).sum(1),
        )
        C = pairs.C
        towards = C.T @ rows.X - C.sum(0)[:, None] * P
        by_omega = (Z * C.sum(1)[:, None]).T @ rows.X - (C.T @ Z).T @ P - Q.T @ towards
        return pairs.summed(
            prototypes=-2 * (towards @ omega.T) @ omega,
            omega=2 * by_omega,
            weight=rows.weights.sum(),
        )

    def distances(
        self,
        X: NDArray,
        P: NDArray,
        omega: NDArray,
        groups: NDArray,
        coarse: float | None = None,
    ) -> NDArray:
        """(n, K) squared distances, close ones recomputed exactly."""
        return mapped_distances(X, P, omega, coarse)

    def steepness(self, omega: NDArray) -> float:
        """How fast a distance can change with the sample."""
        return float(np.linalg.norm(omega.astype(float), 2))

    def shrinkage(self, omega: NDArray) -> float:
        """Logarithm of what `inner` will multiply squared distances by."""
        n_groups = len(omega) if omega.ndim == 3 else 1
        rows = omega.shape[1] if omega.ndim == 3 else len(omega)
        size = float(np.sum(omega.astype(float) ** 2)) / n_groups
        return float(np.log(rows / size)) if size > 0 else 0.0

    def log_det_slope(self, omega: NDArray) -> NDArray:
        """Gradient of ``ln det(Omega Omega^T) / 2``: the transposed pseudo-inverse."""
        if not np.isfinite(omega).all():
            # The loop stops at steps that are no numbers; LAPACK would raise.
            return np.full_like(omega, np.nan)
        return np.swapaxes(np.linalg.pinv(omega, rcond=1e-6), -1, -2)


class Diagonal(FullMatrix):
    """One weight per feature: generalised relevance LVQ."""

    def start(self, inner: NDArray, n_groups: int) -> NDArray:
        """See FullMatrix."""
        return np.ones(inner.shape[1], inner.dtype)

    def relevance_matrix(self, omega: NDArray) -> NDArray:
        """See FullMatrix."""
        return np.diag(omega * omega)

    def mapped(self, X: NDArray, omega: NDArray) -> NDArray:
        """See FullMatrix."""
        return X * omega

    def sums(self, rows, P, omega, labels, groups, loss):
        """See FullMatrix."""
        Q, Z = P * omega, rows.X * omega
        error = product_error(numpy_dtype(P), P.shape[1])
        errors = error * (Z * Z).sum(1), error * (Q * Q).sum(1)
        D = squared_distances(Z, Q)
        pairs = coefficients(D, labels, rows.codes, rows.weights, loss, *errors)
        pulled = pairs.C.T @ rows.X
        towards = pulled - pairs.C.sum(0)[:, None] * P
        slopes = pairs.C.sum(1) @ rows.X**2 - ((pulled + towards) * P).sum(0)
        return pairs.summed(
            prototypes=-2 * towards * omega**2,
            omega=2 * omega * slopes,
            weight=rows.weights.sum(),
        )

    def distances(self, X, P, omega, groups, coarse=None):
        """See FullMatrix."""
        return nearest.squared_distances(X * omega, P * omega, coarse)

    def steepness(self, omega: NDArray) -> float:
        """See FullMatrix."""
        return float(np.abs(omega).max())

    def log_det_slope(self, omega: NDArray) -> NDArray:
        """See FullMatrix."""
        return np.where(omega > 0, 1 / np.where(omega > 0, omega, 1), 0)


class Local(FullMatrix):
    """A matrix for every group of prototypes: each its own, or one per class."""

    def start(self, inner: NDArray, n_groups: int) -> NDArray:
        """See FullMatrix."""
        return np.repeat(inner[None], n_groups, axis=0)

    def inner(self, omega: NDArray, spread: NDArray) -> NDArray:
        """See FullMatrix."""
        inner = omega * (spread / spread.max())
        size = np.linalg.norm(inner, axis=(1, 2), keepdims=True)
        size[size == 0] = 1
        return (inner * (np.sqrt(inner.shape[1]) / size)).astype(omega.dtype)

    def mapped(self, X: NDArray, omega: NDArray) -> NDArray:
        """See FullMatrix."""
        return X

    def _spaces(self, groups: NDArray) -> list[tuple[int, NDArray]]:
        return [(g, np.flatnonzero(groups == g)) for g in np.unique(groups)]

    def sums(self, rows, P, omega, labels, groups, loss):
        """See FullMatrix."""
        X = rows.X
        D = np.empty((len(X), len(P)), X.dtype)
        x_errors, p_errors = np.zeros(len(X)), np.zeros(len(P))
        error = product_error(P.dtype, P.shape[1])
        for g, own in self._spaces(groups):
            Z, Q = X @ omega[g].T, P[own] @ omega[g].T
            D[:, own] = squared_distances(Z, Q)
            x_errors = np.maximum(x_errors, error * (Z * Z).sum(1))
            p_errors[own] = error * (Q * Q).sum(1)
        pairs = coefficients(
            D, labels, rows.codes, rows.weights, loss, x_errors, p_errors
        )
        by_P, by_omega = np.zeros_like(P), np.zeros_like(omega)
        size = rows_in_budget(4 * X.itemsize * X.shape[1])
        for g, own in self._spaces(groups):
            i, j = np.nonzero(pairs.C[:, own])
            for s in batched_slices(len(i), size):
                at = own[j[s]]
                gaps, c = X[i[s]] - P[at], pairs.C[i[s], at][:, None]
                mapped = gaps @ omega[g].T
                by_omega[g] += 2 * (mapped * c).T @ gaps
                np.add.at(by_P, at, -2 * c * (mapped @ omega[g]))
        weight = rows.weights.sum()
        return pairs.summed(prototypes=by_P, omega=by_omega, weight=weight)

    def distances(self, X, P, omega, groups, coarse=None):
        """See FullMatrix."""
        # Errors differ from group to group: none that could decide is left.
        D = np.empty((len(X), len(P)))
        for g, own in self._spaces(groups):
            D[:, own] = super().distances(
                X.astype(float), P[own].astype(float), omega[g], groups,
                min(coarse or 1e-9, 1e-9),
            )  # fmt: skip
        return D

    def steepness(self, omega: NDArray) -> float:
        """See FullMatrix."""
        return float(np.linalg.norm(omega.astype(float), 2, axis=(1, 2)).max())


def learned_metric(name: str) -> Any:
    """Return the metric of that name."""
    return {"full": FullMatrix, "diagonal": Diagonal}.get(name, Local)()


def span_of(X: NDArray) -> NDArray:
    """Projection onto the directions in which the centred samples vary.

    What a matrix does elsewhere no training sample can tell; without this correction
    it may be anything, and a new sample would meet it amplified.
    """
    values, U = np.linalg.eigh(nearest.second_moments(X, np.ones(len(X), X.dtype)))
    kept = U[:, values > 1e-6 * max(float(values[-1]), 0.0)]
    return (kept @ kept.T).astype(X.dtype)
