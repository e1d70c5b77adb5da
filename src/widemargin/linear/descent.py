"""Certified margin by dual coordinate descent, for many features or many supports.

The weights of :mod:`widemargin._compute.descent` are looked at whenever the
slopes of the active patterns have come close enough to zero: one product gives the true
margin of the hyperplane, one more the bound from the dual vector. The tolerance of the
slopes then shrinks in proportion to what the certificate still lacks.
"""

import numpy as np

from widemargin._compute.progress import Advance, silent
from widemargin.linear.certificate import (
    bias_from_dual,
    directional_certificate,
    geometric_certificate,
    relative_gap,
)
from widemargin.linear.patterns import Patterns
from widemargin.linear.solution import Options, Solution, random_state_array

_LOOK_EVERY = 100


def solve_descent(
    patterns: Patterns,
    options: Options,
    start: np.ndarray | None = None,
    tick: Advance = silent,
) -> Solution:
    """Largest margin of the patterns, hard (``diag`` zero) or 2-norm soft.

    `patterns.rho` is the height: part of the problem if ``options.geometric`` is false,
    else only the strength with which the bias is pulled.
    """
    from widemargin._compute.descent import descend

    X, signs = patterns.X, patterns.signs
    n, d = X.shape
    a = np.zeros(n) if start is None else start.astype(np.float64)
    signed = a * signs
    v = X.T @ signed if a.any() else np.zeros(d)
    sums = np.array([signed.sum(), float(v @ patterns.centre)])
    pull, free = patterns.rho**2, options.geometric
    certify = geometric_certificate if free else directional_certificate
    order, seed = np.arange(n), random_state_array(options.seed)
    active, largest, bias = n, np.inf, 0.0
    if free and a.any():
        scores = X @ v - sums[0] * patterns.cx - sums[1] + patterns.lift * sums[0]
        bias = bias_from_dual(scores, signs, a, patterns.diag)
    hard = not patterns.diag.any()
    slope_tol = 1.5 * options.tol if hard else max(0.1, options.tol)
    lower, upper, n_updates, n_iter = -np.inf, np.inf, 0, 0
    best = (np.zeros(d), 0.0)
    while n_iter < options.max_iter:
        budget = min(_LOOK_EVERY, options.max_iter - n_iter)
        active, largest, spread, sweeps, updates, bias = descend(
            *patterns.matrix, signs, patterns.cx, patterns.lift, patterns.squares,
            patterns.diag, a, v, sums, bias, pull, free, order, active, largest, seed,
            budget, slope_tol,
        )  # fmt: skip
        n_iter += sweeps
        n_updates += updates
        tick()
        w = v - sums[0] * patterns.centre
        offset = bias + (0.0 if free else pull * sums[0]) - float(w @ patterns.centre)
        found = certify(patterns, a, w, offset)
        upper = min(upper, found.upper)
        if found.margin > lower:
            lower, best = found.margin, (w, found.bias)
        gap = relative_gap(lower, upper)
        if gap <= options.tol:
            break
        if spread <= slope_tol:
            slope_tol = spread * np.clip(0.9 * options.tol / gap, 0.1, 0.7)
            active, largest = n, np.inf
    w, offset = best
    return Solution(w, offset, a, lower, upper, n_iter, n_updates)
