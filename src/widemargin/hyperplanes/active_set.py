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
from scipy.linalg.lapack import dtrtrs

from widemargin._compute.engines import formula
from widemargin._compute.patterns import (
    BATCH,
    FIRST_BATCH,
    OUT_OF_STEPS,
    SOLVED,
    UNBOUNDED,
)
from widemargin._compute.progress import announce
from widemargin.hyperplanes.certificate import (
    class_averages,
    midpoint_bias,
)
from widemargin.hyperplanes.patterns import midpoint_of_means
from widemargin.hyperplanes.problem import SYSTEM_SIZE, Options, Problem, Solution
from widemargin.hyperplanes.spaces import KernelSpace, LinearSpace

# Violation, in units of the functional margin, that a working set may be left with.
_EXACT = 1e-9
# Square of the height over the mean squared length, for a bias that is not penalised.
_HEIGHT = 10.0
# Entries of dense samples from which on rounds and certificate are one compiled call.
# Beside other work it compiles for 13 s; without it hard planes of iris (400 entries)
# take 2.2 ms instead of 1.4, of digits 3 and 8 (22 848) 11 instead of 2, of all digits
# 220 instead of 12. A thousand fits pay at 30 000: a pair of digits, whose time beside
# an SVC is a bar of benchmarks/linear.py, is let in.
_WORTH_IT = 20_000
# Rounds without a better plane or a better bound after which only rounding is left.
_PATIENCE = 30


# Relative residual below which a pattern depends on the active ones.
_DEPENDENT = 1e-14


class _Active:
    """Patterns with weights, kept as ``L Q``, triangular times orthonormal.

    Made from the vectors and not from their products: a margin of 1e-10 of the spread
    is then still found, where squares would have lost it at 1e-6.
    """

    def __init__(self, Z: NDArray, rows: list[int]):
        self.Z, self.rows = Z, rows
        Q, R = np.linalg.qr(Z[rows].T)
        self.Q, self.L = Q, R.T

    def with_row(self, j: int) -> "_Active | None":
        """Return them with pattern j, None if it depends on the others."""
        if len(self.rows) == self.Z.shape[1]:
            return None
        more = _Active(self.Z, [*self.rows, j])
        length = np.linalg.norm(self.Z[j])
        return more if abs(more.L[-1, -1]) > _DEPENDENT * length else None

    def without(self, position: int) -> "_Active":
        """Return them without one."""
        return _Active(self.Z, self.rows[:position] + self.rows[position + 1 :])

    def solve(self, h: NDArray) -> tuple[NDArray, NDArray]:
        """Weights whose sum has inner product h with each; and the sum."""
        if not self.rows:
            return np.zeros(0), np.zeros(self.Z.shape[1])
        y = dtrtrs(self.L, h[self.rows], lower=1)[0]
        return dtrtrs(self.L, y, lower=1, trans=1)[0], self.Q @ y

    def coordinates(self, j: int) -> NDArray:
        """Weights whose sum is pattern j, which depends on them."""
        return dtrtrs(self.L, self.Q.T @ self.Z[j], lower=1, trans=1)[0]


def _optimised(active: _Active, h: NDArray, a: NDArray) -> tuple[_Active, NDArray]:
    """Minimise over the active patterns; let go of those that turn negative.

    `a` changes in place. Returns who is still active, and their sum.
    """
    while True:
        target, w = active.solve(h)
        current = a[active.rows]
        down = np.flatnonzero(target <= 0.0)
        if not len(down):
            a[active.rows] = target
            return active, w
        lengths = current[down] / (current[down] - target[down])
        lengths = np.where(current[down] > 0.0, lengths, 0.0)
        first = int(lengths.argmin())
        a[active.rows] = current + min(1.0, lengths[first]) * (target - current)
        a[active.rows[down[first]]] = 0.0
        active = active.without(int(down[first]))


def _nonnegative_qp(
    Z: NDArray, signs: NDArray, a: NDArray, bias: float, pull: float, exact: float,
    balance: float, most: int,
) -> tuple[int, float, int]:  # fmt: skip
    """Minimise ``||a Z||^2 / 2 - (1 - bias signs).a`` over a >= 0, from `a`, in place.

    `pull` is the square of the last coordinate if the bias is free: it moves until
    ``signs.a`` is below `balance` times the sum of a; zero leaves it alone. Returns
    (status, bias, steps); with UNBOUNDED, `a` is the combination that sums to zero.
    """
    active = _Active(Z, [])
    for j in np.flatnonzero(a > 0.0).tolist():
        more = active.with_row(j)
        if more is None:
            a[j] = 0.0
        active = more or active
    longest = float(np.sqrt(np.einsum("ij,ij->i", Z, Z).max()))
    steps, previous, careful = 0, np.inf, False
    skip = np.zeros(len(a), bool)
    while True:
        h = 1.0 - bias * signs
        active, w = _optimised(active, h, a)
        while steps < most:
            violation = np.where((a > 0.0) | skip, -np.inf, h - Z @ w)
            j = int(violation.argmax())
            # Below this a violation is rounding.
            if violation[j] <= max(exact, 2.0**-50 * longest * np.linalg.norm(w)):
                break
            steps += 1
            more = active.with_row(j)
            if more is None:
                # The sum stays the same along this way, and the objective falls.
                ray = -active.coordinates(j)
                falling = np.flatnonzero(ray < 0.0)
                if not len(falling):
                    a[:] = 0.0
                    a[active.rows], a[j] = ray, 1.0
                    return UNBOUNDED, bias, steps
                lengths = a[active.rows][falling] / -ray[falling]
                leaving = int(falling[lengths.argmin()])
                a[active.rows] += lengths.min() * ray
                a[active.rows[leaving]], a[j] = 0.0, lengths.min()
                active = active.without(leaving)
                more = active.with_row(j)
                if more is None:
                    a[j] = 0.0
            n_active = len(active.rows)
            active, w = _optimised(more or active, h, a)
            # Rounding may send the newcomer straight back: look elsewhere then.
            skip[j] = a[j] == 0.0
            if len(active.rows) > n_active and not skip[j]:
                skip[:] = False
        else:
            return OUT_OF_STEPS, bias, steps
        tilt, mass = float(signs @ a), float(a.sum())
        worse = abs(tilt) >= previous
        if pull == 0.0 or abs(tilt) <= balance * mass or (worse and careful):
            return SOLVED, bias, steps
        # Newton's step is exact while the same are active. The smaller one never fails.
        careful = careful or worse
        previous = np.inf if worse else abs(tilt)
        side = active.solve(signs)[0]
        newton = float(signs[active.rows] @ side)
        bias += tilt * pull if careful else tilt / newton
        skip[:] = False
        steps += 1


@formula
def solve_working_set(
    Z: NDArray, signs: NDArray, alpha: NDArray, bias: float, rho: float, height: float,
    exact: float,
) -> tuple[int, NDArray, float, int]:  # fmt: skip
    """Optimum of the reflected rows Z; a negative `rho` leaves the bias free.

    Rows are scaled so that the conditioning is that of the data alone, and raised to
    their height: `rho`, or the root of `height` that pulls a free bias. Returns
    (status, alpha, bias, steps).
    """
    free, square = rho < 0.0, float(np.einsum("ij,ij->i", Z, Z).mean())
    scale = float(2.0 ** np.round(np.log2(square) / 2)) if square > 0.0 else 1.0
    pull = height if free else (rho / scale) ** 2
    raised = np.column_stack([Z / scale, signs * np.sqrt(pull)])
    a = alpha * scale * scale
    status, bias, steps = _nonnegative_qp(
        raised, signs, a, bias if free else 0.0, pull if free else 0.0, exact, 1e-11,
        1000 + 50 * len(Z),
    )  # fmt: skip
    if not free:
        bias = pull * float(a @ signs)
    return status, a / scale / scale, bias, steps


def is_compiled(X: Any) -> bool:
    """Whether rounds over these samples are worth a compilation."""
    return not sp.issparse(X) and X.size >= _WORTH_IT


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
    if isinstance(space, LinearSpace) and is_compiled(space.X):
        every = np.arange(len(signs))
        return _solve_rows(space.X, every, signs, rho, options, start)[0]
    with announce("rounds") as tell:
        return _solve_general(space, signs, rho, options, start, tell)


def takes_rows(problem: Problem) -> bool:
    """Whether rows of the samples are solved for where they stand, and certified."""
    return (
        problem.is_hard
        and problem.options.geometric
        and problem.rho is None
        and problem.method in ("auto", "dual")
        and problem.field.is_linear
        and problem.field.offset is None
        and is_compiled(problem.field.X)
        and min(len(problem.rows), problem.field.X.shape[1]) <= SYSTEM_SIZE
    )


def solve_rows(problem: Problem) -> tuple[Solution, NDArray, NDArray]:
    """Solve for rows where they stand; who supports the plane, and how much."""
    return _solve_rows(
        problem.field.X, problem.rows, problem.signs, None, problem.options,
        problem.start,
    )  # fmt: skip


def _solve_rows(
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
        status, alpha, bias, made = solve_working_set(
            Z, l, alpha, bias, -1.0 if rho is None else rho, _HEIGHT, _EXACT
        )
        steps += made
        if status == UNBOUNDED:
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
