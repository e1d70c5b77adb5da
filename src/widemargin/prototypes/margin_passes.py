"""One pass over the data: margins of all samples and the gradient of their mean.

With z_plus, z_minus the squared distances of sample i to its nearest right and wrong
model and mu_i = (z_minus - z_plus) / (z_minus + z_plus), a pass returns mu and

    dH/dC = sum_i c_i r_i,      dH/dT_k = sum_i c_i q_ik r_i,
    c_i = +4 gamma_i z_minus / (z_plus + z_minus)^2   for the nearest right model,
    c_i = -4 gamma_i z_plus  / (z_plus + z_minus)^2   for the nearest wrong one,

of H = sum_i gamma_i mu_i, where r is the residual at the optimum and q the model's
coefficients there (envelope theorem). Since r = x~ - [1, q] [C; T], with x~ the sample
after it has moved along its own tangents (two-sided) or as it is (one-sided), the
sums are products (c [1, q])^T x~ less small moments times [C; T].

Reference: Aiolli and Sperduti, section 4.1. Shapes: stack (K, 1 + m, d), X (n, d).
"""

from typing import Any, NamedTuple

import numpy as np

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.pairs import pair_distances
from widemargin._compute.threads import batched_slices
from widemargin.margins import relative_margin
from widemargin.prototypes.affine import slide
from widemargin.tangents import Bundle

# Rows of a block: its samples and inner products stay in a core's cache.
_BLOCK = 1024


class Pass(NamedTuple):
    """What one pass finds at some models, for weights gamma.

    Attributes
    ----------
    margins : (n,)
        Relative margins mu.
    nearest : (n, 2)
        Nearest right and nearest wrong model.
    gradient : (K, 1 + m, d)
        Of H, by [C; T]; its rows leave the model's own tangents out.
    moments : (K, 1 + m, 1 + m)
        sum_i c_i [1, q_i][1, q_i]^T.
    sizes : (K, 1 + m)
        sum_i |c_i| [1, q_i]^2: how much weight pulls at each row.
    """

    margins: np.ndarray
    nearest: np.ndarray
    gradient: np.ndarray
    moments: np.ndarray
    sizes: np.ndarray


class OneSidedPass:
    """Passes over samples that stay put: only the models bend."""

    def __init__(self, X: np.ndarray, right: np.ndarray, centre: np.ndarray) -> None:
        self.X = np.ascontiguousarray(X - centre.astype(X.dtype))
        self.norms = np.einsum("ij,ij->i", self.X, self.X)
        self.right = right
        scale = float(self.norms.mean(dtype=float))
        self.tiny = 1e2 * np.finfo(X.dtype).eps * scale

    def __call__(self, stack: np.ndarray, gamma: np.ndarray, run: Any = map) -> Pass:
        """Run one pass; `run` is the ``map`` of ``held_threads``."""
        from widemargin._compute.models import one_sided, pull_sums

        n_models, width, d = stack.shape
        n, dtype = len(self.X), self.X.dtype
        flat = np.ascontiguousarray(stack.reshape(-1, d), dtype=dtype)
        offsets = np.einsum("kwd,kd->kw", stack, stack[:, 0]).astype(dtype)
        nearest, z = np.empty((n, 2), np.intp), np.empty((n, 2))

        def block(rows: slice) -> tuple[np.ndarray, ...]:
            moments = np.zeros((n_models, width, width))
            sizes = np.zeros((n_models, width))
            Z = self.X[rows] @ flat.T
            pulls = np.empty((len(Z), 2, width), dtype)
            one_sided(
                Z, self.norms[rows], offsets, self.right[rows], gamma[rows],
                self.tiny, nearest[rows], z[rows], pulls, moments, sizes,
            )  # fmt: skip
            sums = pull_sums(self.X[rows], nearest[rows], pulls, n_models)
            return sums, moments, sizes

        size = min(_BLOCK, rows_in_budget(8 * n_models * width))
        parts = list(run(block, batched_slices(n, size)))
        sums, moments, sizes = (
            np.sum(part, axis=0, dtype=float) for part in zip(*parts, strict=True)
        )
        moments = moments + np.tril(moments, -1).transpose(0, 2, 1)
        gradient = sums - np.matmul(moments, stack)
        return Pass(
            relative_margin(z[:, 0], z[:, 1]), nearest, gradient, moments, sizes
        )


class TwoSidedPass:
    """Passes over samples that bend along their own tangents as well."""

    def __init__(
        self, bundle: Bundle, right: np.ndarray, centre: np.ndarray, spring: float
    ) -> None:
        X = bundle.points
        self.bundle = Bundle(X - centre.astype(X.dtype), bundle.frames)
        self.right, self.spring = right, spring
        self.tiny = 1e2 * np.finfo(X.dtype).eps * float(X.var(axis=0).sum())

    def __call__(self, stack: np.ndarray, gamma: np.ndarray, run: Any = map) -> Pass:
        """Run one pass; `run` is the ``map`` of ``held_threads``."""
        X, frames = self.bundle.points, self.bundle.frames
        models = stack.astype(X.dtype)
        C, T = np.ascontiguousarray(models[:, 0]), np.ascontiguousarray(models[:, 1:])

        def distances(rows: slice) -> np.ndarray:
            return pair_distances(
                X[rows], frames[rows], C, T, sides="two", spring=self.spring
            )

        D = np.concatenate(list(run(distances, batched_slices(len(X), _BLOCK))))
        D_plus = np.where(self.right, D, np.inf)
        D_minus = np.where(self.right, np.inf, D)
        nearest = np.stack([D_plus.argmin(axis=1), D_minus.argmin(axis=1)], axis=1)
        z_plus, z_minus = D_plus.min(axis=1), D_minus.min(axis=1)
        c = np.stack(margin_slopes(z_plus, z_minus, gamma, self.tiny), axis=1)

        def model(j: int) -> tuple[np.ndarray, ...]:
            rows, side = np.nonzero(nearest == j)
            return self._sums(rows, c[rows, side], C[j], T[j])

        parts = list(run(model, range(len(stack))))
        sums, moments, sizes = (np.stack(part) for part in zip(*parts, strict=True))
        gradient = sums - np.matmul(moments, stack)
        return Pass(relative_margin(z_plus, z_minus), nearest, gradient, moments, sizes)

    def _sums(self, rows, c, C, T) -> tuple[np.ndarray, ...]:
        width = 1 + len(T)
        sums = np.zeros((width, len(C)))
        moments, sizes = np.zeros((width, width)), np.zeros(width)
        for part in batched_slices(len(rows), _BLOCK):
            some = self.bundle[rows[part]]
            moved, q = slide(some.points, some.frames, C, T, self.spring)
            ones = np.concatenate([np.ones((len(q), 1), q.dtype), q], axis=1)
            weighted = c[part, None] * ones
            sums += weighted.astype(moved.dtype).T @ moved
            moments += weighted.T @ ones
            sizes += np.abs(c[part]) @ ones**2
        return sums, moments, sizes


def margin_slopes(
    z_plus: np.ndarray, z_minus: np.ndarray, gamma: np.ndarray, tiny: float
) -> tuple[np.ndarray, np.ndarray]:
    """Factors c of the residuals of the nearest right and the nearest wrong model.

    Where both distances are rounding (at most `tiny`) the margin has no slope.
    """
    total = z_plus.astype(float) + z_minus
    flat = ~(total > tiny) | np.isinf(total)
    safe = np.where(flat, 1.0, total)
    scale = np.where(flat, 0.0, 4 * gamma / safe)
    plus, minus = np.where(flat, 0, z_plus), np.where(flat, 0, z_minus)
    return scale * (minus / safe), -scale * (plus / safe)
