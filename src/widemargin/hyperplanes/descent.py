"""Margin by dual coordinate descent, for many features or many supports.

The weights of :mod:`widemargin._compute.sequential` are looked at whenever the slopes
of the active patterns have come close enough to zero: one product gives the margin of
the hyperplane, one more the bound from the dual vector. The tolerance of the slopes
then shrinks in proportion to what the enclosure still lacks.
"""

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.progress import announce
from widemargin.hyperplanes.certificate import (
    SLIGHT,
    bias_from_dual,
    class_averages,
    has_gain,
    midpoint_bias,
    no_plane,
    relative_gap,
)
from widemargin.hyperplanes.patterns import Patterns, random_state_array
from widemargin.hyperplanes.problem import Options, Solution

_LOOK_EVERY = 100


def enclose(
    patterns: Patterns, alpha: NDArray, w: NDArray, bias: float, geometric: bool
) -> tuple[float, float, float]:
    """(Margin, bound, bias) of a plane and a dual vector, as doubles round them.

    With a hard geometric margin the bias is replaced by the best one. With a soft
    margin w and bias are taken at functional margin one.
    """
    signs, rho = patterns.signs, patterns.rho
    scores = np.asarray(patterns.X @ w, dtype=np.float64)
    square = float(w @ w)
    if geometric:
        c = class_averages(alpha, signs)
    else:
        square += ((bias + float(w @ patterns.centre)) / rho) ** 2
        mass = alpha.sum()
        c = alpha * signs / mass if mass > 0.0 else None
    upper = np.inf
    if c is not None:
        total = float(c.sum())
        # Relative to the centre the two halves do not cancel digits away.
        difference = patterns.X.T @ c - total * patterns.centre
        dual = difference @ difference + np.sum(patterns.diag * c**2)
        upper = float(np.sqrt(dual + (0.0 if geometric else (rho * total) ** 2)))
    if patterns.diag.any():
        slack = np.maximum(0.0, 1.0 - signs * (scores + bias))
        size = np.hypot(np.sqrt(square), np.linalg.norm(slack / np.sqrt(patterns.diag)))
        return (1.0 / size if size > 0.0 else 0.0), upper, bias
    if geometric:
        bias, lowest = midpoint_bias(scores, signs)
    else:
        lowest = float((signs * (scores + bias)).min())
    return (lowest / np.sqrt(square) if square > 0.0 else 0.0), upper, bias


def proven(
    patterns: Patterns, dual: NDArray, plane: tuple[NDArray, float], options: Options
) -> Solution | None:
    """Give a plane that is known already if `dual` proves it good enough.

    It is weights and bias at functional margin one.
    """
    rho = None if options.geometric else patterns.rho
    none = no_plane(np.sqrt(patterns.diag), patterns.signs, rho)
    margin, upper, bias = enclose(patterns, dual, *plane, options.geometric)
    if relative_gap(margin, upper, none) <= options.tol:
        return Solution(plane[0], bias, dual, 0, 0)
    return None


def solve_descent(
    patterns: Patterns, options: Options, start: NDArray | None = None
) -> Solution:
    """Largest margin of the patterns, hard (``diag`` zero) or 2-norm soft.

    `patterns.rho` is the height: part of the problem if ``options.geometric`` is false,
    else only the strength with which the bias is pulled.
    """
    from widemargin._compute.sequential import descend

    X, signs, rows = patterns.X, patterns.signs, patterns.rows
    n, d = X.shape
    a = np.zeros(n) if start is None else start.astype(np.float64)
    signed = a * signs
    v = X.T @ signed if a.any() else np.zeros(d)
    sums = np.array([signed.sum(), float(v @ patterns.centre)])
    free = options.geometric
    order, seed = np.arange(n), random_state_array(options.seed)
    active, largest, bias = n, np.inf, 0.0
    if free and a.any():
        scores = X @ v - sums[0] * rows.cx - sums[1] + rows.lift * sums[0]
        bias = bias_from_dual(scores, signs, a, patterns.diag)
    hard = not patterns.diag.any()
    height = None if free else patterns.rho
    none = no_plane(np.sqrt(patterns.diag), signs, height)
    slope_tol = 1.5 * options.tol if hard else max(0.1, options.tol)
    lower, upper, n_updates, n_iter = -np.inf, np.inf, 0, 0
    best, dual = (np.zeros(d), 0.0), a
    with announce("rounds") as tell:
        while n_iter < options.max_iter:
            most = min(_LOOK_EVERY, options.max_iter - n_iter)
            active, largest, spread, sweeps, updates, bias = descend(
                rows, a, v, sums, bias, free, order, active, largest, seed, most,
                slope_tol,
            )  # fmt: skip
            n_iter += sweeps
            n_updates += updates
            tell()
            w = v - sums[0] * patterns.centre
            offset = bias + (0.0 if free else patterns.rho**2 * sums[0])
            offset -= float(w @ patterns.centre)
            margin, bound, offset = enclose(patterns, a, w, offset, free)
            if bound < upper:
                upper, dual = bound, a.copy()
            # Where no gap can be seen, slopes tell, and the last is the best.
            seen = has_gain(upper, none)
            if margin > lower or not seen:
                lower, best = margin, (w, offset)
            gap = relative_gap(lower, upper, none)
            if gap <= options.tol and (seen or spread <= SLIGHT):
                break
            if spread <= slope_tol:
                if spread == 0.0:
                    break
                lacking = 0.9 * options.tol / max(gap, options.tol)
                slope_tol = spread * np.clip(lacking, 0.1, 0.7)
                active, largest = n, np.inf
    return Solution(*best, dual, n_iter, n_updates)
