"""One two-class problem, from samples and signs to a certified hyperplane."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from widemargin._compute.progress import announce
from widemargin.linear.certificate import class_averages
from widemargin.linear.dual import (
    few_unknowns,
    midpoint_of_means,
    solve_dual,
    solve_kernel_dual,
    spread_around,
)
from widemargin.linear.patterns import reflect, squared_row_norms
from widemargin.linear.recentring import solve_by_search
from widemargin.linear.solution import Options, Solution
from widemargin.linear.spaces import KernelSpace, LinearSpace


class Outcome(NamedTuple):
    """A solution with the margins a user asks about.

    `margin` and `upper` are geometric, `directional` and `directional_upper` belong to
    the height `rho` around `centre`; with a soft margin the pairs are equal. `norm` is
    ``||w||`` at functional margin one.
    """

    solution: Solution
    margin: float
    upper: float
    directional: float
    directional_upper: float
    norm: float
    rho: float
    centre: Any


def height_of(X: Any, rho: float | None) -> float:
    """Give the height asked for, else the length of the longest sample."""
    if rho is not None:
        return float(rho)
    return float(np.sqrt(squared_row_norms(X).max())) or 1.0


def solve_linear_problem(
    X: Any,
    signs: np.ndarray,
    diag: np.ndarray | None,
    method: str,
    rho: float | None,
    options: Options,
    start: np.ndarray | None,
) -> Outcome:
    """Solve in the space of the samples; `diag` None for a hard margin."""
    height = None if options.geometric else height_of(X, rho)
    if method in ("auto", "dual"):
        with announce("rounds") as tick:
            found = solve_dual(X, signs, diag, height, options, start, tick)
    else:
        found = _search(X, signs, diag, method, rho, height, options, start)
    if not found.separable:
        return Outcome(
            found, -np.inf, found.upper, -np.inf, found.upper, 0.0, 1.0, None
        )
    w = found.w
    norm = float(np.sqrt(w @ w))
    if options.geometric:
        # Any point of the hyperplane and any height will do: the nearest to the origin.
        centre = -found.bias / norm**2 * w if norm > 0 else np.zeros_like(w)
        margins = (found.margin, found.upper) * 2
        return Outcome(found, *margins, norm, float(rho or 1.0), centre)
    centre = np.zeros(X.shape[1])
    space = LinearSpace(X, centre)
    return _directional_outcome(found, space, signs, diag, norm, height, centre)


def _search(X, signs, diag, method, rho, height, options, start) -> Solution:
    if options.geometric:
        centre = midpoint_of_means(X, signs)
        level = rho or spread_around(X, centre)
    else:
        centre, level = np.zeros(X.shape[1]), height
    patterns = reflect(X, signs, rho=level, centre=centre, diag=diag)
    with announce("sweeps") as tick:
        found = solve_by_search(patterns, method, options, start, tick)
    if diag is None and found.margin <= 0.0 and few_unknowns(X):
        # The perceptrons never see that there is no solution; the dual does.
        proof = solve_dual(X, signs, None, height, options._replace(max_iter=1000))
        if not proof.separable:
            return proof
    return found


def solve_kernel_problem(
    X: Any,
    signs: np.ndarray,
    diag: np.ndarray | None,
    kernel: Callable[[Any, Any], np.ndarray] | None,
    rho: float | None,
    options: Options,
    start: np.ndarray | None,
) -> Outcome:
    """Solve in the feature space of a kernel, or of the Gram matrix X."""
    space = KernelSpace(X, kernel)
    height = None if options.geometric else (1.0 if rho is None else float(rho))
    with announce("rounds") as tick:
        found = solve_kernel_dual(space, signs, diag, height, options, start, tick)
    rows = np.flatnonzero(found.dual)
    norm = np.sqrt(space.square(rows, (found.dual * signs)[rows]))
    if options.geometric or not found.separable:
        margins = (found.margin, found.upper) * 2
        return Outcome(found, *margins, float(norm), height or 1.0, None)
    return _directional_outcome(found, space, signs, diag, float(norm), height, None)


def _directional_outcome(found, space, signs, diag, norm, rho, centre) -> Outcome:
    """Add the geometric margin, and its bound, of a plane that is optimal at rho."""
    pair = (found.margin, found.upper)
    if diag is not None:
        return Outcome(found, *pair, *pair, norm, rho, centre)
    tilt = np.hypot(1.0, found.bias / (rho * norm)) if norm > 0 else 1.0
    weights = class_averages(found.dual, signs)
    upper = np.inf
    if weights is not None:
        rows = np.flatnonzero(weights)
        upper = float(np.sqrt(space.square(rows, weights[rows])))
    return Outcome(found, found.margin * tilt, upper, *pair, norm, rho, centre)
