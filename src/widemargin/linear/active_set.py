r"""Hard margin by a growing and shrinking set of patterns.

The largest margin depends on few patterns. Solve exactly for a small working set,

.. math:: \min_{\alpha \ge 0} \tfrac12 \lVert \textstyle\sum_k \alpha_k y_k \rVert^2
          - \sum_k \alpha_k ,

sweep once over all patterns, keep the support, add the worst violators of each class,
repeat. The optimum of a subset is a feasible dual vector of the whole, hence each sweep
yields an upper bound (from the subset) and a lower one (from the sweep). The subset
optimum rises strictly as long as a violator is added: no set occurs twice.

Reference: Joachims, Making large-scale SVM learning practical, 1999, for the working
sets; :mod:`widemargin._compute.active_set` for the exact step, and for the whole loop
on dense samples.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from widemargin._compute.patterns import BATCH, FIRST_BATCH
from widemargin._compute.progress import announce
from widemargin.linear.certificate import (
    Options,
    Solution,
    class_averages,
    midpoint_bias,
)
from widemargin.linear.patterns import midpoint_of_means
from widemargin.linear.spaces import KernelSpace, LinearSpace

# Violation, in units of the functional margin, that a working set may be left with.
_EXACT = 1e-9
# Square of the height over the mean squared length, for a bias that is not penalised.
_HEIGHT = 10.0
# Rounds without a better plane or a better bound after which only rounding is left.
_PATIENCE = 30


def solve_active_set(
    space: LinearSpace | KernelSpace,
    signs: NDArray,
    rho: float | None,
    options: Options,
    start: NDArray | None = None,
) -> Solution:
    """Largest margin of `signs` in `space`; `rho` None for a free bias (geometric).

    `start` is a dual vector to begin from; any nonnegative one is correct, a good one
    saves the work.
    """
    if isinstance(space, LinearSpace) and not sp.issparse(space.X):
        every = np.arange(len(signs))
        return solve_rows(space.X, every, signs, rho, options, start)[0]
    with announce("rounds") as tell:
        return _solve_general(space, signs, rho, options, start, tell)


def solve_rows(
    X: NDArray,
    chosen: NDArray,
    signs: NDArray,
    rho: float | None,
    options: Options,
    start: NDArray | None = None,
) -> tuple[Solution, NDArray, NDArray]:
    """Give the same of chosen rows of dense X; who supports it, and how much."""
    from widemargin._compute.active_set import dense_active_set

    dual = np.zeros(len(signs))
    _, rounds, steps, w, bias, rows, alpha = dense_active_set(
        X, chosen, signs, dual if start is None else start,
        -1.0 if rho is None else rho, _HEIGHT, _EXACT, FIRST_BATCH, BATCH,
        options.tol, options.max_iter,
    )  # fmt: skip
    dual[rows] = alpha
    return Solution(w, bias, dual, rounds, steps), rows, alpha


def _worst(violation: NDArray, candidates: NDArray, least: float) -> NDArray:
    candidates = candidates[violation[candidates] > least]
    if len(candidates) > BATCH:
        chosen = np.argpartition(-violation[candidates], BATCH)[:BATCH]
        candidates = candidates[chosen]
    return candidates


def _first_rows(space, signs, start) -> NDArray:
    """Where to begin: the previous support, or the samples that face the other class.

    Facing is judged along the line between the class means.
    """
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    if start is not None and start.any():
        kept = np.flatnonzero(start)
        ends = np.array([positive[0], negative[0]])
        return np.union1d(kept, ends)
    sample = np.arange(space.n_samples)
    if isinstance(space, KernelSpace) and space.n_samples > 1000:
        step = space.n_samples // 500
        sample = np.union1d(positive[::step], negative[::step])
    beta = np.zeros(space.n_samples)
    beta[sample] = signs[sample]
    beta[beta > 0] /= np.count_nonzero(beta > 0)
    beta[beta < 0] /= np.count_nonzero(beta < 0)
    kernel = isinstance(space, KernelSpace)
    reach = signs * space.scores(beta if kernel else beta @ space.X)
    first = [
        side[np.argpartition(reach[side], min(FIRST_BATCH, len(side)) - 1)]
        for side in (positive, negative)
    ]
    return np.concatenate([side[:FIRST_BATCH] for side in first])


def _solve_general(space, signs, rho, options: Options, start, tell) -> Solution:
    """Run the rounds on sparse samples or in the space of a kernel."""
    from widemargin._compute import active_set

    kernel = isinstance(space, KernelSpace)
    centre: Any = 0.0
    if rho is None and not kernel:
        centre = midpoint_of_means(space.X, signs)
    rows = _first_rows(space, signs, start)
    alpha = np.zeros(len(rows)) if start is None else start[rows].astype(np.float64)
    sides = (np.flatnonzero(signs > 0), np.flatnonzero(signs < 0))
    bias, lower, upper, steps, idle, n_iter = 0.0, -np.inf, np.inf, 0, 0, 0
    size = space.n_samples if kernel else space.X.shape[1]
    best, dual = (np.zeros(size), 0.0), (rows, alpha)
    while n_iter < options.max_iter and idle < _PATIENCE:
        n_iter, idle = n_iter + 1, idle + 1
        tell()
        l = signs[rows]  # noqa: E741
        vectors = space.vectors(rows) - centre
        Z = np.ascontiguousarray(l[:, None] * vectors)
        status, alpha, bias, made = active_set.solve_working_set(
            Z, l, alpha, bias, -1.0 if rho is None else rho, _HEIGHT, _EXACT
        )
        steps += made
        if status == active_set.UNBOUNDED:
            dual = (rows, alpha)
            break
        w = alpha @ Z
        if kernel:
            coef = np.zeros(size)
            coef[rows] = alpha * l
            scores = space.scores(coef)
        else:
            coef = w
            scores = space.scores(coef) - float(w @ np.broadcast_to(centre, w.shape))
        square = float(w @ w)
        if rho is None:
            c = class_averages(alpha, l)
            bound = np.inf if c is None else float(np.linalg.norm((c * l) @ Z))
            found, lowest = midpoint_bias(scores, signs)
        else:
            square += (rho * float(alpha @ l)) ** 2
            bound = np.sqrt(square) / alpha.sum() if alpha.any() else np.inf
            found, lowest = bias, float((signs * (scores + bias)).min())
        reached = lowest / np.sqrt(square) if square > 0 else -np.inf
        noise = 4e-15 * np.sqrt(square * np.einsum("ij,ij->i", Z, Z).max())
        support = alpha > 0
        rows, alpha = rows[support], alpha[support]
        if bound < upper:
            upper, idle = bound, 0
            dual = dual if kernel else (rows, alpha)
        if reached > lower:
            lower, idle = reached, 0
            shift = float(w @ np.broadcast_to(centre, w.shape)) if not kernel else 0.0
            best = (coef, found - shift)
            dual = (rows, alpha) if kernel else dual
        violation = 1.0 - signs * (scores + bias)
        violation[rows] = 0.0
        least = max(10 * _EXACT, noise)
        added = np.concatenate([_worst(violation, side, least) for side in sides])
        if lower >= (1.0 - options.tol) * upper or len(added) == 0:
            break
        rows = np.concatenate([rows, added])
        alpha = np.concatenate([alpha, np.zeros(len(added))])
    weights = np.zeros(space.n_samples)
    weights[dual[0]] = dual[1]
    return Solution(*best, weights, n_iter, steps)
