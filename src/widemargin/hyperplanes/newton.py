r"""Certified 2-norm soft margin by Newton steps on the squared hinge.

.. math:: P(w, b) = \tfrac12 \lVert w \rVert^2
          + \sum_k C_k \max(0, 1 - l_k f(x_k))^2, \qquad f(x) = w \cdot x + b .

P is a quadratic wherever the set of patterns inside the margin stays the same. A step
jumps to the minimum of the current quadratic and an exact line search between the two
points makes P fall; the set settles after a few steps, and then the minimum is exact.
The quadratic is solved in d + 1 unknowns (weights) or in as many as there are patterns
inside the margin (kernels). The slacks give the dual vector ``alpha_k = 2 C_k xi_k``
and with it the certificate: P is within the gap of its minimum, provably. In a kernel
space the plane is its own coefficients, and the dual vector their positive part: at the
minimum the two are the same.

With a height rho the bias is penalised by ``(b / rho)^2 / 2``, as LIBLINEAR does.

Reference: Keerthi and DeCoste, A modified finite Newton method for fast solution of
large scale linear SVMs, JMLR 2005; Chapelle, Training a support vector machine in the
primal, 2007.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._compute.progress import announce
from widemargin._compute.rounding import rounding
from widemargin.hyperplanes.certificate import (
    bias_from_dual,
    class_averages,
    has_gain,
    no_plane,
    relative_gap,
    safe_norm,
)
from widemargin.hyperplanes.patterns import matrix_arrays
from widemargin.hyperplanes.problem import Options, Problem, Solution
from widemargin.hyperplanes.spaces import KernelSpace, LinearSpace

# Steps without a smaller gap or a better plane after which only rounding is left.
_PATIENCE = 5
# What counts as better, relatively.
_RISE = 1e-9


class _Point(NamedTuple):
    """A hyperplane: weights (or kernel coefficients), scores without bias, bias."""

    coef: NDArray
    scores: NDArray
    bias: float

    def towards(self, other: "_Point", t: float) -> "_Point":
        return _Point(
            self.coef + t * (other.coef - self.coef),
            self.scores + t * (other.scores - self.scores),
            self.bias + t * (other.bias - self.bias),
        )


class Factor(NamedTuple):
    """Of a system that was solved: its upper Cholesky factor at a unit diagonal.

    The system is that of the patterns `inside`, multiplied by `scale` on both sides.
    """

    upper: NDArray
    scale: NDArray
    inside: NDArray | None = None


def _inner(p: _Point, q: _Point, kernel: bool) -> float:
    """Inner product of the two weight vectors."""
    return float(p.coef @ q.scores) if kernel else float(p.coef @ q.coef)


def _solve_symmetric(system: NDArray, sides: NDArray) -> tuple[NDArray, Factor | None]:
    """Solve a positive system, scaled to a unit diagonal; the shortest if singular."""
    diagonal = np.diag(system)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    system = scale[:, None] * system * scale
    sides = scale[:, None] * sides
    # The transpose of a symmetric system is in the order that LAPACK likes.
    upper, solved, failed = dposv(system.T, sides)
    if failed:
        if not (np.isfinite(system).all() and np.isfinite(sides).all()):
            return np.full(sides.shape, np.nan), None
        solved = scipy.linalg.lstsq(system, sides, cond=1e-14)[0]
    return scale[:, None] * solved, None if failed else Factor(upper, scale)


def penalised_gram(X: Any, h: NDArray, penalty: float, rho: float | None) -> NDArray:
    """Matrix of the quadratic: ``sum_k h_k [x_k, 1] [x_k, 1]^T`` and the penalty.

    The sum is over rows with h > 0; the penalty is that of w, over rho^2 of the bias.
    """
    d = X.shape[1]
    gram = _weighted_gram(X, h)
    gram[np.arange(d), np.arange(d)] += penalty
    gram[d, d] += 0.0 if rho is None else penalty / rho**2
    return gram


def _weighted_gram(X, h):
    d = X.shape[1]
    if sp.issparse(X):
        from widemargin._compute.sequential import weighted_gram

        _, data, indices, indptr = matrix_arrays(X)
        return weighted_gram(data, indices, indptr, h, d)
    gram = np.zeros((d + 1, d + 1))
    inside = np.flatnonzero(h)
    for chunk in batched_slices(len(inside), rows_in_budget(16.0 * (d + 1))):
        rows = inside[chunk]
        root = np.sqrt(h[rows])[:, None]
        block = np.empty((len(rows), d + 1))
        np.multiply(X[rows], root, out=block[:, :d])
        block[:, d:] = root
        gram += block.T @ block
    return gram


def _solve_linear(space: LinearSpace, signs, diag, inside, rho):
    d = space.X.shape[1]
    # Times the smallest diag, so that no price is too high for the arithmetic.
    least = diag.min()
    h = np.where(inside, least / diag, 0.0)
    system = penalised_gram(space.X, h, least, rho)
    pull = h * signs
    target = np.append(space.X.T @ pull, pull.sum())
    solved, factor = _solve_symmetric(system, target[:, None])
    w, bias = solved[:d, 0], float(solved[d, 0])
    return _Point(w, space.scores(w), bias), factor


def _solve_kernel(space: KernelSpace, signs, diag, inside, rho):
    rows = np.flatnonzero(inside)
    if len(rows) == 0:
        # Nothing pulls: the shortest weights are none.
        return _Point(np.zeros(space.n_samples), np.zeros(space.n_samples), 0.0), None
    system = space.gram(rows)
    if rho is not None:
        system = system + rho**2
    system[np.diag_indices_from(system)] += diag[rows]
    sides = np.column_stack([signs[rows], np.ones(len(rows))])
    solved, factor = _solve_symmetric(system, sides)
    if rho is None:
        bias = float(solved[:, 0].sum() / solved[:, 1].sum())
        beta = solved[:, 0] - bias * solved[:, 1]
    else:
        beta = solved[:, 0]
        bias = rho**2 * float(beta.sum())
    coef = np.zeros(space.n_samples)
    coef[rows] = beta
    return _Point(coef, space.scores(coef), bias), factor


def _line_search(old: _Point, new: _Point, signs, diag, rho, kernel) -> float:
    """Minimiser of P on the line, by Newton on its piecewise linear slope."""
    least = diag.min()
    oo, nn = _inner(old, old, kernel), _inner(new, new, kernel)
    on = _inner(old, new, kernel)
    penalty = 0.0 if rho is None else 1.0 / rho**2
    rise = new.bias - old.bias
    curve = least * (oo - 2 * on + nn + penalty * rise**2)
    start = least * (on - oo + penalty * old.bias * rise)
    slack = 1.0 - signs * (old.scores + old.bias)
    drop = signs * (new.scores + new.bias - old.scores - old.bias)
    part = drop * (least / diag)
    bends, pulls = part * drop, part * slack
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(50):
        inside = (slack > t * drop).astype(np.float64)
        second = curve + float(bends @ inside)
        slope = start + t * second - float(pulls @ inside)
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
    alpha = np.maximum(0.0, point.coef * signs) if kernel else slack / diag
    square = _inner(point, point, kernel)
    if rho is not None:
        square += (point.bias / rho) ** 2
    size = np.hypot(np.sqrt(max(square, 0.0)), safe_norm(slack / np.sqrt(diag)))
    lower = 1.0 / size if size > 0.0 else 0.0
    if not alpha.any() or not np.isfinite(alpha.sum()):
        return lower, np.inf, np.where(np.isfinite(alpha), alpha, 0.0)
    weights = class_averages(alpha, signs)
    if rho is not None:
        weights = alpha / alpha.sum() * signs
    if weights is None:
        return lower, np.inf, alpha
    if kernel:
        rows = np.flatnonzero(weights)
        dual = float(weights[rows] @ space.gram(rows) @ weights[rows])
    else:
        w = weights @ space.X
        dual = float(w @ w)
    dual = max(dual, 0.0) + float(np.sum((np.sqrt(diag) * weights) ** 2))
    if rho is not None:
        dual += (rho * weights.sum()) ** 2
    return lower, float(np.sqrt(dual)), alpha


def _first_point(space, signs, diag, rho, options, start) -> _Point:
    kernel = isinstance(space, KernelSpace)
    n = space.n_samples
    coef = np.zeros(n if kernel else space.X.shape[1])
    if start is not None and start.any():
        coef = start * signs if kernel else (start * signs) @ space.X
        scores = space.scores(coef)
        if rho is not None:
            return _Point(coef, scores, rho**2 * float((start * signs).sum()))
        return _Point(coef, scores, bias_from_dual(scores, signs, start, diag))
    if kernel and n > 1000:
        # A start from half of the samples keeps the first systems small.
        rows = np.sort(np.random.default_rng(options.seed).permutation(n)[: n // 2])
        if np.unique(signs[rows]).size == 2:
            X = space.X[rows] if space.kernel else space.X[rows][:, rows]
            part = KernelSpace(X, space.kernel)
            rough = options._replace(tol=max(options.tol, 0.05))
            half = _descend(part, signs[rows], diag[rows], rho, rough, None)
            coef[rows] = half.coef
            return _Point(coef, space.scores(coef), half.bias)
    return _Point(coef, np.zeros(n), 0.0)


def solve_newton(problem: Problem) -> Solution:
    """Solve for a 2-norm soft margin."""
    # A price beyond all bounds may overflow: such a point is no better, and goes.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _descend(
            problem.near, problem.signs, problem.diag, problem.height, problem.options,
            problem.start,
        )  # fmt: skip


def _descend(space, signs, diag, rho, options: Options, start) -> Solution:
    """Take Newton's steps until the gap is closed, or nothing improves."""
    kernel = isinstance(space, KernelSpace)
    solve: Any = _solve_kernel if kernel else _solve_linear
    point = _first_point(space, signs, diag, rho, options, start)
    none = no_plane(np.sqrt(diag), signs, rho)
    lower, upper, alpha = _enclose(space, point, signs, diag, rho)
    smallest, idle, n_iter, highest = np.inf, 0, 0, 0.0
    best, system = (point, alpha), None
    with announce("rounds") as tell:
        while n_iter < options.max_iter and idle < _PATIENCE:
            gap = relative_gap(lower, upper, none)
            idle += 1
            # The bound may wait for its turn while the objective falls.
            if lower > highest * (1 + _RISE):
                highest, idle = lower, 0
            if gap < smallest:
                smallest, idle, best = gap, 0, (point, alpha)
            # Where no gap can be seen, steps tell: one to the minimum is the last.
            if gap <= options.tol and has_gain(upper, none):
                break
            inside = signs * (point.scores + point.bias) < 1.0
            new, factor = solve(space, signs, diag, inside, rho)
            system = factor and factor._replace(inside=inside)
            t = _line_search(point, new, signs, diag, rho, kernel)
            point = point.towards(new, t)
            n_iter += 1
            tell()
            if not np.isfinite(point.scores + point.bias).all():
                break
            lower, upper, alpha = _enclose(space, point, signs, diag, rho)
            settled = np.array_equal(inside, signs * (point.scores + point.bias) < 1.0)
            if settled and abs(t - 1.0) < 1e-9:
                gap = relative_gap(lower, upper, none)
                if gap <= smallest or not has_gain(upper, none):
                    smallest, best = gap, (point, alpha)
                break
    point, alpha = best
    closed = smallest <= options.tol
    if not (kernel or has_gain(upper, none)):
        noise = rounding(space.n_samples) * space.longest * alpha.sum()
        if safe_norm(point.coef) <= noise:
            # A normal that may be nothing but rounding has no direction.
            point = point._replace(coef=np.zeros_like(point.coef))
    return Solution(point.coef, point.bias, alpha, n_iter, n_iter, closed, system)
