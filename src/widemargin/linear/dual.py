"""Choose the engine of the certified dual for one two-class problem.

================  ==========================================  =======================
margin            few unknowns                                many
================  ==========================================  =======================
hard              :mod:`~widemargin.linear.active_set`        :mod:`~widemargin.linear.descent`
2-norm soft       :mod:`~widemargin.linear.newton`            :mod:`~widemargin.linear.descent`
================  ==========================================  =======================

A hard margin has at most d + 1 supports in general position, so few features mean few
unknowns. Newton pays for a d x d system, which sparse rows fill more cheaply. Kernels
are solved in the dual variables by the same two engines of the first column.
"""  # noqa: E501

from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._compute.progress import Advance, silent
from widemargin.linear.active_set import solve_active_set, solve_dense_active_set
from widemargin.linear.descent import solve_descent
from widemargin.linear.newton import solve_newton
from widemargin.linear.patterns import class_means, reflect, squared_row_norms
from widemargin.linear.solution import Options, Solution
from widemargin.linear.spaces import KernelSpace, LinearSpace

_FEW_FEATURES = 1000
_FEW_SPARSE_FEATURES = 2000


def midpoint_of_means(X: Any, signs: np.ndarray) -> np.ndarray:
    """Find a centre between the classes, to start from."""
    positive, negative = class_means(X, signs)
    return (positive + negative) / 2


def spread_around(X: Any, centre: np.ndarray) -> float:
    """Root mean squared distance from the centre, one if all of them are zero."""
    squares = squared_row_norms(X) - 2.0 * (X @ centre) + float(centre @ centre)
    return float(np.sqrt(max(squares.mean(), 0.0))) or 1.0


def few_unknowns(X: Any) -> bool:
    """Whether the exact engines are the faster ones."""
    limit = _FEW_SPARSE_FEATURES if sp.issparse(X) else _FEW_FEATURES
    return min(X.shape) <= limit


def solve_dual(
    X: Any,
    signs: np.ndarray,
    diag: np.ndarray | None,
    rho: float | None,
    options: Options,
    start: np.ndarray | None = None,
    tick: Advance = silent,
) -> Solution:
    """Certified margin of a linear problem; `rho` None for a free bias.

    `tick` is told every round, except those of the engine that is one compiled call.
    """
    d = X.shape[1]
    if diag is None and few_unknowns(X) and not sp.issparse(X):
        return solve_dense_active_set(X, signs, rho, options, start)
    centre = midpoint_of_means(X, signs) if rho is None else np.zeros(d)
    limit = _FEW_SPARSE_FEATURES if sp.issparse(X) else _FEW_FEATURES
    if diag is None and few_unknowns(X):
        space = LinearSpace(X, centre)
        found = solve_active_set(space, signs, rho, options, start, tick)
        support = np.flatnonzero(found.dual)
        w = space.weights(support, (found.dual * signs)[support])
        return found._replace(w=w, bias=found.bias - float(w @ centre))
    if diag is not None and d <= limit:
        plain = LinearSpace(X, np.zeros(d))
        return solve_newton(plain, signs, diag, rho, options, start, tick)
    height = spread_around(X, centre) if rho is None else rho
    patterns = reflect(X, signs, rho=height, centre=centre, diag=diag)
    return solve_descent(patterns, options, start, tick)


def solve_kernel_dual(
    space: KernelSpace,
    signs: np.ndarray,
    diag: np.ndarray | None,
    rho: float | None,
    options: Options,
    start: np.ndarray | None = None,
    tick: Advance = silent,
) -> Solution:
    """Certified margin in the feature space of a kernel."""
    if diag is None:
        return solve_active_set(space, signs, rho, options, start, tick)
    return solve_newton(space, signs, diag, rho, options, start, tick)
