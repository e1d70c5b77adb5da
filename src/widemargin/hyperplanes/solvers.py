r"""The solvers of hyperplanes, what each takes, and the certificate of what they find.

==============  ====================================  ================================
margin          few unknowns                          many
==============  ====================================  ================================
hard            `active_set`                          `descent`
soft            `newton`                              the same
soft, of pairs  `small_pairs`                         the same
==============  ====================================  ================================

A hard margin has at most d + 1 supports in general position, so few features mean few
unknowns. Newton pays for a d x d system, which sparse rows fill more cheaply. Kernels
are solved in the dual variables. Perceptrons search where `method` names a search.
`SOLVERS` says which problem each takes; the first that does solves it.

Whatever the solver, `certify` has the last word, about the plane as it is stored. Two
solvers are fast because they certify in doubles what they find: `small_pairs`, and
`active_set` for rows of dense samples. Where doubles are not enough, `certify` and the
next solver follow.

Shapes: see :mod:`widemargin.hyperplanes.problem`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.rounding import rounding
from widemargin.hyperplanes import active_set, small_pairs
from widemargin.hyperplanes.certificate import (
    Certificate,
    Enclosure,
    best_side,
    is_proven_inseparable,
    midpoint_bias,
    no_plane,
    plane_margin,
    safe_norm,
    scaled_dual,
    slack_paid,
    soft_margin,
    unit_hyperplane,
    upper_bound,
)
from widemargin.hyperplanes.descent import proven, solve_descent
from widemargin.hyperplanes.left_out import (
    Expansion,
    LeaveOneOut,
    loo_shifts,
    walk_private,
)
from widemargin.hyperplanes.newton import solve_newton
from widemargin.hyperplanes.problem import Problem, Solution
from widemargin.hyperplanes.spaces import SHARP, SMALL
from widemargin.hyperplanes.walks import solve_by_search

SEARCHES = ("dynamic", "bisection", "bisection2", "paper-bisection", "paper-bisection2")
# Squared private coordinates of samples of size one, below which slack does not pay.
_ALMOST_HARD = 1e-24


class Plane(NamedTuple):
    """A plane as it is stored: ``norm (coef.x + intercept)`` is one at the margin.

    `coef` is a unit normal; with a kernel None, as the dual coefficients have it.
    """

    coef: Any
    intercept: float
    norm: float


@dataclass(frozen=True)
class Result:
    """What a fit keeps of a problem, in the units of X.

    Of the samples in `support`, `dual` proves the upper bound, `start` is the dual
    vector to begin from again, and `shifts` are what they add to their own functional
    margins. All three are zero of the others.
    """

    support: NDArray
    plane: Plane
    rho: float
    dual: NDArray
    start: NDArray
    certificate: Certificate
    n_iter: int
    n_updates: int
    shifts: NDArray

    def among_all(self, intercept: float, margin: float) -> "Result":
        """Return it with the bias and the margin that samples elsewhere give it."""
        enclosure = self.certificate.geometric._replace(lower=margin)
        certificate = replace(self.certificate, geometric=enclosure, of_height=None)
        plane = self.plane._replace(intercept=intercept)
        return replace(self, plane=plane, certificate=certificate)


class Solver(NamedTuple):
    """A solver: which problems it takes, and how it solves one."""

    name: str
    takes: Callable[[Problem], bool]
    solve: Callable[[Problem], Solution]


SOLVERS = (
    Solver(
        "search",
        lambda problem: problem.method in SEARCHES,
        lambda problem: solve_by_search(
            problem.patterns, problem.method, problem.options, problem.start
        ),
    ),
    Solver(
        "active set",
        lambda problem: (
            problem.is_hard
            and (problem.has_few_unknowns or not problem.field.is_linear)
        ),
        lambda problem: active_set.solve_active_set(
            problem.near, problem.signs, problem.height, problem.options, problem.start
        ),
    ),
    Solver(
        "newton",
        lambda problem: (
            not problem.is_hard
            and (problem.has_few_features or not problem.field.is_linear)
        ),
        solve_newton,
    ),
    Solver(
        "descent",
        lambda problem: True,
        lambda problem: solve_descent(problem.patterns, problem.options, problem.start),
    ),
)


def solve(problem: Problem, dtype: Any, leave: LeaveOneOut | None = None) -> Result:
    """Solve and certify a problem; normals are stored as `dtype`.

    `leave` says which samples of the fit are left out for probabilities.
    """
    found = None
    if active_set.takes_rows(problem):
        solution, at, alpha = active_set.solve_rows(problem)
        result = _certified_rows(problem, solution, at, alpha, dtype, leave)
        if result is not None:
            return result
        found = solution
    return certify(problem, found or _solution(problem), dtype, leave)


def _solution(problem: Problem) -> Solution:
    """Take the plane of a fit before if it is good enough; else solve."""
    found, start, begin = None, problem.start, problem.begin
    known = None if begin is None else begin.plane(problem.field)
    if known is not None and start is not None:
        found = proven(problem.patterns, start, known, problem.options)
    if found is None:
        solver = next(solver for solver in SOLVERS if solver.takes(problem))
        found = solver.solve(problem)
    return _checked_hard(problem, found)


def _checked_hard(problem: Problem, found: Solution) -> Solution:
    """Take plane or combination of the hard margin where slack is too dear.

    Its slack is zero up to rounding, which Newton's steps do not see; and of slacks
    that are rounding, times their price, no combination comes near to the bound.
    """
    diag, space, signs = problem.diag, problem.near, problem.signs
    if diag is None or not problem.field.is_linear or not problem.has_few_unknowns:
        return found
    if diag.max() >= _ALMOST_HARD and found.closed:
        return found
    hard = active_set.solve_active_set(space, signs, problem.height, problem.options)

    def size(solution: Solution) -> float:
        scores = signs * (space.X @ solution.coef + solution.bias)
        slack = np.maximum(0.0, 1.0 - 1e-12 - scores) / np.sqrt(diag)
        return float(np.hypot(np.linalg.norm(solution.coef), safe_norm(slack)))

    if not hard.dual.any():
        return found
    duals, private = (found.dual, hard.dual), np.sqrt(diag)
    bounds = [
        upper_bound(space, signs, dual, private, problem.height) for dual in duals
    ]
    dual = duals[int(bounds[1] < bounds[0])]
    if not size(hard) < size(found):
        return found._replace(dual=dual)
    # A little more than margin one costs no slack at all.
    more = 1.0 + 1e-9
    return hard._replace(coef=hard.coef * more, bias=hard.bias * more, dual=dual)


def solve_together(
    problems: list[Problem], dtype: Any, leave: LeaveOneOut | None
) -> list[Result]:
    """Solve and certify small soft pairs at once, and alone what doubles leave open."""
    if len(problems) == 1:
        return [solve(problems[0], dtype, leave)]
    solved = small_pairs.solve_problems(problems, dtype, leave)
    found = []
    for k, problem in enumerate(problems):
        n, diag = len(problem.rows), problem.diag
        if not (solved.sure[k] and diag.max() >= _ALMOST_HARD):
            found.append(solve(problem, dtype, leave))
            continue
        dual, shifts = solved.dual[k, :n], solved.own[k, :n]
        if leave is not None and leave.groups is not None:
            expansion = Expansion(problem.space, dual, diag, None)
            shifts = loo_shifts(expansion, leave.take(problem.rows))
        at = dual.nonzero()[0]
        enclosure = Enclosure(float(solved.margin[k]), float(solved.upper[k]))
        certificate = Certificate(enclosure, none=float(solved.none[k]))
        plane = Plane(solved.coef[k], float(solved.bias[k]), float(solved.norm[k]))
        steps = int(solved.n_iter[k])
        found.append(
            _in_units_of_X(
                problem, plane, at, (dual[at], solved.alpha[k, at], shifts[at]),
                certificate, (steps, steps),
            )
        )  # fmt: skip
    return found


def batches(sizes: NDArray, first: Problem) -> list[NDArray]:
    """Divide problems of these sizes, all like the `first`, by who solves them."""
    every = np.arange(len(sizes))
    is_small = (sizes <= small_pairs.MOST) & (len(sizes) > 1)
    small = every[is_small & small_pairs.takes(first)]
    together = [small[group] for group in small_pairs.batches(sizes[small])]
    return together + list(np.setdiff1d(every, small)[:, None])


def _certified_rows(
    problem: Problem,
    found: Solution,
    at: NDArray,
    alpha: NDArray,
    dtype: Any,
    leave: LeaveOneOut | None,
) -> Result | None:
    """Certify rows of dense X in one compiled call; None if doubles are not enough."""
    from widemargin._compute.planes import certified
    from widemargin._compute.spans import FEW_SAMPLES

    rows, signs, given = problem.rows, problem.signs, problem.field
    sure, coef, bias, norm, margin, upper, dual, shifts = certified(
        given.X, rows, signs, found.coef, at, alpha, given.longest, SMALL,
        np.dtype(dtype) == np.float32,
    )  # fmt: skip
    if not sure:
        return None
    if leave is not None and leave.groups is None and len(at) <= FEW_SAMPLES:
        shifts = shifts * leave.asked[rows[at]]
    elif leave is not None:
        whole = np.zeros(len(rows))
        whole[at] = dual
        expansion = Expansion(problem.space, whole, None, None)
        shifts = loo_shifts(expansion, leave.take(rows))[at]
    certificate, steps = Certificate(Enclosure(margin, upper)), found[3:5]
    plane = Plane(coef, bias, norm)
    return _in_units_of_X(problem, plane, at, (dual, alpha, shifts), certificate, steps)


def certify(
    problem: Problem, found: Solution, dtype: Any, leave: LeaveOneOut | None
) -> Result:
    """Prove what a solution is worth as it is stored, normals as `dtype`."""
    signs, space, height = problem.signs, problem.space, problem.height
    if problem.field.is_linear:
        plane = asked = _stored_plane(problem, found, dtype)
    else:
        shortest, norm = space.length(found.coef, seen=True)
        # A normal that may be nothing but rounding has no direction.
        norm = norm if shortest > 0.0 else 0.0
        bias = found.bias / norm if norm > 0.0 else _bias_alone(problem, found)
        plane = Plane(None, bias, norm)
        asked = Plane(found.coef, bias * norm, float(norm > 0.0))
    geometric, directional = _margins(problem, asked)
    reached, why = (geometric if height is None else directional), ""
    if problem.is_hard and reached <= 0.0:
        why = _why_not_separated(problem, found)
    if problem.field.is_linear:
        dual = alpha = scaled_dual(found.dual, reached)
    else:
        dual = found.coef * signs
        alpha = np.maximum(0.0, dual)
    uppers = _upper_bounds(problem, alpha)
    certificate = Certificate(
        Enclosure(geometric, uppers[0]), Enclosure(directional, uppers[1]),
        no_plane(problem.private, signs, height), height is None, why,
    )  # fmt: skip
    shifts = np.zeros(len(signs))
    if leave is not None and plane.norm > 0.0:
        diag = problem.diag
        if problem.method in SEARCHES:
            # Coefficients of a perceptron, and more of them than a largest margin has.
            scores = plane.norm * signs * (space.X @ plane.coef + plane.intercept)
            diag = walk_private(
                scores, alpha, 1.0 if diag is None else diag.min() / diag
            )
        expansion = Expansion(problem.near, alpha, diag, height, found.system)
        shifts = loo_shifts(expansion, leave.take(problem.rows))
    steps = found.n_iter, found.n_updates
    at = np.flatnonzero((dual != 0.0) | (found.dual != 0.0))
    each = dual[at], found.dual[at], shifts[at]
    return _in_units_of_X(problem, plane, at, each, certificate, steps)


def _stored_plane(problem: Problem, found: Solution, dtype: Any) -> Plane:
    """Return the plane with a unit normal that `dtype` holds, for samples as given."""
    coef, bias, norm = unit_hyperplane(found.coef, found.bias)
    if norm == 0.0:
        bias = _bias_alone(problem, found)
    coef = coef.astype(dtype).astype(np.float64)
    if problem.is_hard and problem.height is None:
        bias, _ = midpoint_bias(np.asarray(problem.near.X @ coef), problem.signs)
    if problem.field.offset is not None:
        offset = problem.field.offset.astype(SHARP) @ coef.astype(SHARP)
        bias = float(bias - offset)
    return Plane(coef, bias, norm)


def _bias_alone(problem: Problem, found: Solution) -> float:
    """Side that all samples are on without a plane, whatever the rounding."""
    if problem.is_hard:
        return float(np.sign(found.bias))
    return best_side(problem.private, problem.signs)


def _margins(problem: Problem, plane: Plane) -> tuple[float, float]:
    """(Geometric, directional) margin of a plane, equal where there is but one.

    Without a plane, its norm zero, a soft margin is that of the best bias.
    """
    coef, bias, norm = plane
    space, signs, height = problem.space, problem.signs, problem.height
    if problem.private is not None:
        _, length = space.length(coef)
        if height is not None:
            length = np.hypot(length, bias / height)
        none = 0.0
        if norm == 0.0:
            none = no_plane(problem.private, signs, height)
            none *= 1 - rounding(len(signs) + 8)
        slack = slack_paid(space, signs, coef, bias, norm, problem.private)
        soft = soft_margin(norm * length, [slack], none)
        return soft, soft
    geometric = plane_margin(space, signs, coef, bias)
    if height is None:
        return geometric, geometric
    return geometric, plane_margin(space, signs, coef, bias, height)


def _upper_bounds(problem: Problem, dual: NDArray) -> tuple[float, float]:
    """Upper bounds of both margins from one combination."""
    space, signs, height = problem.space, problem.signs, problem.height
    bound = upper_bound(space, signs, dual, problem.private, height)
    if problem.private is not None or height is None:
        return bound, bound
    return upper_bound(space, signs, dual), bound


def _why_not_separated(problem: Problem, found: Solution) -> str:
    """Proven "inseparable", "undecided" at this precision, or "" if unfinished."""
    space, signs, options = problem.space, problem.signs, problem.options
    dual, searched = found.dual, problem.method in SEARCHES
    if searched:
        # The perceptrons never see that there is no solution; the dual does.
        if not problem.has_few_unknowns:
            return ""
        rounds = options._replace(max_iter=1000)
        dual = active_set.solve_active_set(space, signs, problem.height, rounds).dual
    if is_proven_inseparable(space, signs, dual):
        return "inseparable"
    return "" if searched or found.n_iter >= options.max_iter else "undecided"


def _in_units_of_X(
    problem: Problem,
    plane: Plane,
    at: NDArray,
    each: tuple[NDArray, NDArray, NDArray],
    certificate: Certificate,
    steps: tuple[int, int],
) -> Result:
    """Return what was found of samples in their unit as it is of the samples given.

    `each` are dual, start and shifts of the samples `at` these places.
    """
    dual, start, shifts = each
    unit, rho = problem.field.unit, problem.rho
    if unit != 1.0:
        intercept, norm = float(plane.intercept) * unit, float(plane.norm) / unit
        plane = plane._replace(intercept=intercept, norm=norm)
        certificate = certificate.scaled(unit)
        in_X = dual / unit / unit
        dual = in_X if in_X.any() else dual
    rho = 1.0 if rho is None else rho * unit
    support = problem.rows[at]
    return Result(support, plane, rho, dual, start, certificate, *steps, shifts)
