r"""Certified 2-norm soft margin by Newton steps on the squared hinge.

.. math:: P(w, b) = \tfrac12 \lVert w \rVert^2
          + \sum_k C_k \max(0, 1 - l_k f(x_k))^2, \qquad f(x) = w \cdot x + b .

P is a quadratic wherever the set of patterns inside the margin stays the same. A step
jumps to the minimum of the current quadratic and an exact line search between the two
points makes P fall; the set settles after a few steps, and then the minimum is exact.
The quadratic is solved in d + 1 unknowns (weights) or in as many as there are patterns
inside the margin (kernels). The slacks give the dual vector ``alpha_k = 2 C_k xi_k``
and with it the certificate: P is within the gap of its minimum, provably.

With a height rho the bias is penalised by ``(b / rho)^2 / 2``, as LIBLINEAR does.

Reference: Keerthi and DeCoste, A modified finite Newton method for fast solution of
large scale linear SVMs, JMLR 2005; Chapelle, Training a support vector machine in the
primal, 2007.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.progress import Advance, silent
from widemargin._compute.threads import batched_slices
from widemargin.linear.certificate import (
    bias_from_dual,
    class_averages,
    relative_gap,
)
from widemargin.linear.patterns import matrix_arrays
from widemargin.linear.solution import Options, Solution
from widemargin.linear.spaces import KernelSpace, LinearSpace


class _Point(NamedTuple):
    """A hyperplane: weights (or kernel coefficients), scores without bias, bias."""

    coef: np.ndarray
    scores: np.ndarray
    bias: float

    def towards(self, other: "_Point", t: float) -> "_Point":
        return _Point(
            self.coef + t * (other.coef - self.coef),
            self.scores + t * (other.scores - self.scores),
            self.bias + t * (other.bias - self.bias),
        )


def _inner(p: _Point, q: _Point, kernel: bool) -> float:
    """Inner product of the two weight vectors."""
    return float(p.coef @ q.scores) if kernel else float(p.coef @ q.coef)


def _weighted_gram(X, h):
    """``sum_k h_k [x_k, 1] [x_k, 1]^T`` over the rows with h > 0."""
    d = X.shape[1]
    if sp.issparse(X):
        from widemargin._compute.newton import weighted_gram

        _, data, indices, indptr = matrix_arrays(X)
        return weighted_gram(data, indices, indptr, h, d)
    gram = np.zeros((d + 1, d + 1))
    inside = np.flatnonzero(h)
    for chunk in batched_slices(len(inside), rows_in_budget(16.0 * (d + 1))):
        rows = inside[chunk]
        root = np.sqrt(h[rows])[:, None]
        block = np.hstack([X[rows] * root, root])
        gram += block.T @ block
    return gram


def _solve_linear(space: LinearSpace, signs, diag, inside, rho) -> _Point:
    d = space.X.shape[1]
    h = np.where(inside, 1.0 / diag, 0.0)
    system = _weighted_gram(space.X, h)
    system[np.arange(d), np.arange(d)] += 1.0
    system[d, d] += 0.0 if rho is None else 1.0 / rho**2
    pull = h * signs
    target = np.append(space.X.T @ pull, pull.sum())
    solved = scipy.linalg.solve(system, target, assume_a="pos")
    return _Point(solved[:d], space.X @ solved[:d], float(solved[d]))


def _solve_kernel(space: KernelSpace, signs, diag, inside, rho) -> _Point:
    rows = np.flatnonzero(inside)
    system = space.gram(rows)
    if rho is not None:
        system = system + rho**2
    system[np.diag_indices_from(system)] += diag[rows]
    sides = np.column_stack([signs[rows], np.ones(len(rows))])
    solved = scipy.linalg.solve(system, sides, assume_a="pos")
    if rho is None:
        bias = float(solved[:, 0].sum() / solved[:, 1].sum())
        beta = solved[:, 0] - bias * solved[:, 1]
    else:
        beta = solved[:, 0]
        bias = rho**2 * float(beta.sum())
    coef = np.zeros(space.n_samples)
    coef[rows] = beta
    return _Point(coef, space.scores(rows, beta), bias)


def _line_search(old: _Point, new: _Point, signs, diag, rho, kernel) -> float:
    """Minimiser of P on the line, by Newton on its piecewise linear slope."""
    oo, nn = _inner(old, old, kernel), _inner(new, new, kernel)
    on = _inner(old, new, kernel)
    penalty = 0.0 if rho is None else 1.0 / rho**2
    rise = new.bias - old.bias
    curve = oo - 2 * on + nn + penalty * rise**2
    start = on - oo + penalty * old.bias * rise
    slack = 1.0 - signs * (old.scores + old.bias)
    drop = signs * (new.scores + new.bias - old.scores - old.bias)
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(50):
        inside = slack > t * drop
        part = drop[inside] / diag[inside]
        second = curve + float(part @ drop[inside])
        slope = start + t * second - float(part @ slack[inside])
        low, high = (t, high) if slope < 0 else (low, t)
        step = slope / second if second > 0 else 0.0
        if abs(step) <= 1e-12 * max(1.0, t):
            break
        t -= step
        if not low < t < high:
            t = low + 1.0 if np.isinf(high) else (low + high) / 2
    return t


def _enclose(space, point: _Point, signs, diag, rho):
    """(lower, upper, alpha) of a hyperplane."""
    kernel = isinstance(space, KernelSpace)
    slack = np.maximum(0.0, 1.0 - signs * (point.scores + point.bias))
    alpha = slack / diag
    square = _inner(point, point, kernel)
    if rho is not None:
        square += (point.bias / rho) ** 2
    lower = 1.0 / np.sqrt(square + float(slack @ alpha))
    weights = class_averages(alpha, signs) if rho is None else alpha * signs
    if weights is None or not alpha.any():
        return lower, np.inf, alpha
    rows = np.flatnonzero(weights)
    dual = space.square(rows, weights[rows]) + float(diag @ weights**2)
    if rho is not None:
        dual += (rho * weights.sum()) ** 2
    return lower, float(np.sqrt(dual) / np.abs(weights).sum()), alpha


def _first_point(space, signs, diag, rho, options, start) -> _Point:
    kernel = isinstance(space, KernelSpace)
    n = space.n_samples
    if start is not None and start.any():
        rows = np.flatnonzero(start)
        beta = (start * signs)[rows]
        coef = start * signs if kernel else space.weights(rows, beta)
        scores = space.scores(rows, beta)
        if rho is not None:
            return _Point(coef, scores, rho**2 * float(beta.sum()))
        return _Point(coef, scores, bias_from_dual(scores, signs, start, diag))
    coef = np.zeros(n if kernel else space.X.shape[1])
    if kernel and n > 1000:
        # A start from half of the samples keeps the first systems small.
        rows = np.sort(np.random.default_rng(options.seed).permutation(n)[: n // 2])
        if np.unique(signs[rows]).size == 2:
            X = space.X[rows] if space.kernel else space.X[rows][:, rows]
            part = KernelSpace(X, space.kernel)
            rough = options._replace(tol=max(options.tol, 0.05))
            half = solve_newton(part, signs[rows], diag[rows], rho, rough)
            support = half.dual > 0
            beta = (half.dual * signs[rows])[support]
            coef[rows[support]] = beta
            return _Point(coef, space.scores(rows[support], beta), half.bias)
    return _Point(coef, np.zeros(n), 0.0)


def solve_newton(
    space: LinearSpace | KernelSpace,
    signs: np.ndarray,
    diag: np.ndarray,
    rho: float | None,
    options: Options,
    start: np.ndarray | None = None,
    tick: Advance = silent,
) -> Solution:
    """2-norm soft margin with ``diag = 1 / (2 C_k)``; `rho` None for a free bias."""
    kernel = isinstance(space, KernelSpace)
    solve: Any = _solve_kernel if kernel else _solve_linear
    point = _first_point(space, signs, diag, rho, options, start)
    lower, upper, alpha = _enclose(space, point, signs, diag, rho)
    n_iter = 0
    while n_iter < options.max_iter and relative_gap(lower, upper) > options.tol:
        inside = signs * (point.scores + point.bias) < 1.0
        new = solve(space, signs, diag, inside, rho)
        t = _line_search(point, new, signs, diag, rho, kernel)
        point = point.towards(new, t)
        n_iter += 1
        tick()
        lower, bound, alpha = _enclose(space, point, signs, diag, rho)
        upper = min(upper, bound)
        settled = np.array_equal(inside, signs * (point.scores + point.bias) < 1.0)
        if settled and abs(t - 1.0) < 1e-9:
            break
    w = None if kernel else point.coef
    return Solution(w, point.bias, alpha, lower, upper, n_iter, n_iter)
