r"""Certified hard margin by a growing and shrinking set of patterns.

The largest margin depends on few patterns. Solve exactly for a small working set,

.. math:: \min_{\alpha \ge 0} \tfrac12 \lVert \textstyle\sum_k \alpha_k y_k \rVert^2
          - \sum_k \alpha_k ,

sweep once over all patterns, keep the support, add the worst violators of each class,
repeat. The optimum of a subset is a feasible dual vector of the whole, hence each sweep
yields a true upper bound (from the subset) and a true lower one (from the sweep). The
subset optimum rises strictly as long as a violator is added: no set occurs twice.

Reference: Joachims, Making large-scale SVM learning practical, 1999, for the working
sets; :mod:`widemargin._compute.active_set` for the exact step.
"""

from typing import NamedTuple

import numpy as np

from widemargin._compute.progress import Advance, silent
from widemargin.linear.certificate import class_averages, midpoint_bias, relative_gap
from widemargin.linear.solution import Options, Solution
from widemargin.linear.spaces import KernelSpace, LinearSpace

# Violation, in units of the functional margin, that a working set may be left with.
_EXACT = 1e-9
_BATCH = 64
_FIRST_BATCH = 32
# Square of the height over the mean squared length, for a bias that is not penalised.
_HEIGHT = 10.0


class _Step(NamedTuple):
    alpha: np.ndarray
    bias: float
    steps: int
    separable: bool


def _solve_working_set(space, signs, rows, alpha, bias, rho) -> _Step:
    """Exact optimum of the patterns in `rows`; `rho` None leaves the bias free."""
    from widemargin._compute import active_set

    l = signs[rows]  # noqa: E741
    H = np.outer(l, l) * space.gram(rows)
    # Scaled so that the conditioning is that of the data alone.
    scale = float(np.trace(H)) / len(rows)
    if scale <= 0.0:
        scale = 1.0
    H /= scale
    pull = _HEIGHT if rho is None else rho**2 / scale
    H += pull * np.outer(l, l)
    alpha = alpha * scale
    status, bias, steps = active_set.nonnegative_qp(
        H, np.ones(len(rows)), l, alpha, bias if rho is None else 0.0,
        pull if rho is None else 0.0, _EXACT, 1e-11, 1000 + 50 * len(rows),
    )  # fmt: skip
    if rho is not None:
        bias = pull * float(alpha @ l)
    return _Step(alpha / scale, bias, steps, status != active_set.UNBOUNDED)


def _enclose(space, signs, rows, step, scores, rho):
    """(lower, upper, bias) for the optimum of one working set."""
    l = signs[rows]  # noqa: E741
    beta = step.alpha * l
    square = space.square(rows, beta)
    if rho is None:
        weights = class_averages(step.alpha, l)
        if weights is None:
            return -np.inf, np.inf, 0.0
        upper = np.sqrt(space.square(rows, weights))
        bias, lowest = midpoint_bias(scores, signs)
    else:
        square += (rho * beta.sum()) ** 2
        upper = np.sqrt(square) / step.alpha.sum()
        bias, lowest = step.bias, float((signs * (scores + step.bias)).min())
    return (lowest / np.sqrt(square) if square > 0 else -np.inf), upper, bias


def _worst(violation: np.ndarray, candidates: np.ndarray, batch: int) -> np.ndarray:
    candidates = candidates[violation[candidates] > 10 * _EXACT]
    if len(candidates) > batch:
        chosen = np.argpartition(-violation[candidates], batch)[:batch]
        candidates = candidates[chosen]
    return candidates


def _first_rows(space, signs, start, batch) -> np.ndarray:
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
    beta = np.where(signs > 0, 1.0, -1.0)[sample]
    beta[beta > 0] /= np.count_nonzero(beta > 0)
    beta[beta < 0] /= np.count_nonzero(beta < 0)
    reach = signs * space.scores(sample, beta)
    first = [
        side[np.argpartition(reach[side], min(batch, len(side)) - 1)[:batch]]
        for side in (positive, negative)
    ]
    return np.concatenate(first)


class _Round(NamedTuple):
    """What one round leaves: its optimum, what it proves, and what to add."""

    separable: bool
    steps: int
    rows: np.ndarray
    alpha: np.ndarray
    bias: float
    lower: float
    upper: float
    found: float
    added: np.ndarray


def _general_round(space, signs, rows, alpha, bias, rho) -> _Round:
    """Solve `rows`, sweep over all patterns, pick the worst violators of each class."""
    step = _solve_working_set(space, signs, rows, alpha, bias, rho)
    if not step.separable:
        nothing = np.empty(0, dtype=np.intp)
        proof = (rows, step.alpha, step.bias, -np.inf, 0.0, 0.0, nothing)
        return _Round(False, step.steps, *proof)
    support = step.alpha > 0
    rows, step = rows[support], step._replace(alpha=step.alpha[support])
    scores = space.scores(rows, step.alpha * signs[rows])
    lower, upper, found = _enclose(space, signs, rows, step, scores, rho)
    violation = 1.0 - signs * (scores + step.bias)
    violation[rows] = 0.0
    sides = (np.flatnonzero(signs > 0), np.flatnonzero(signs < 0))
    added = np.concatenate([_worst(violation, side, _BATCH) for side in sides])
    here = (rows, step.alpha, step.bias, lower, upper, found, added)
    return _Round(True, step.steps, *here)


def solve_dense_active_set(
    X: np.ndarray,
    signs: np.ndarray,
    rho: float | None,
    options: Options,
    start: np.ndarray | None = None,
) -> Solution:
    """Do the same as :func:`solve_active_set` on dense rows in one compiled call.

    The solution holds the weights, and its bias refers to the samples themselves.
    """
    from widemargin._compute import active_set
    from widemargin._compute.dense_active_set import dense_active_set

    dual = np.zeros(len(signs))
    status, lower, upper, rounds, steps, w, bias, rows, alpha = dense_active_set(
        X, signs, dual if start is None else start, -1.0 if rho is None else rho,
        _HEIGHT, _EXACT, _FIRST_BATCH, _BATCH, options.tol, options.max_iter,
    )  # fmt: skip
    dual[rows] = alpha
    separable = status != active_set.UNBOUNDED
    return Solution(w, bias, dual, lower, upper, rounds, steps, separable)


def solve_active_set(
    space: LinearSpace | KernelSpace,
    signs: np.ndarray,
    rho: float | None,
    options: Options,
    start: np.ndarray | None = None,
    tick: Advance = silent,
) -> Solution:
    """Largest margin of `signs` in `space`; `rho` None for a free bias (geometric).

    `start` is a dual vector to begin from; any nonnegative one is correct, a good one
    saves the work. The bias refers to the scores of the space.
    """
    rows = _first_rows(space, signs, start, _FIRST_BATCH)
    alpha = np.zeros(len(rows)) if start is None else start[rows].astype(np.float64)
    bias, lower, upper, n_updates = 0.0, -np.inf, np.inf, 0
    best = (rows, alpha, bias)
    dual = np.zeros(space.n_samples)
    for n_iter in range(1, options.max_iter + 1):
        here = _general_round(space, signs, rows, alpha, bias, rho)
        n_updates += here.steps
        tick()
        if not here.separable:
            dual[here.rows] = here.alpha
            return Solution(None, 0.0, dual, -np.inf, 0.0, n_iter, n_updates, False)
        upper = min(upper, here.upper)
        if here.lower > lower:
            lower, best = here.lower, (here.rows, here.alpha, here.found)
        if relative_gap(lower, upper) <= options.tol or len(here.added) == 0:
            break
        rows, bias = np.concatenate([here.rows, here.added]), here.bias
        alpha = np.concatenate([here.alpha, np.zeros(len(here.added))])
    rows, alpha, bias = best
    dual[rows] = alpha
    return Solution(None, bias, dual, lower, upper, n_iter, n_updates)
