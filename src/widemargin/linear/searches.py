r"""Perceptrons in search of the largest directional margin.

*Bisection.* The fixed-margin perceptron either reaches the margin beta it is asked for,
or its bound :math:`U = \lVert a \rVert / \sum m` falls to beta, which proves that beta
is out of reach. Halving the interval between the best margin seen and the smallest
bound seen converges to the largest margin. A round that only runs out of sweeps proves
nothing: it lowers the next target, and once the targets have met the best margin the
rounds get twice the sweeps.

*Bisection in two modules.* A round without success is not thrown away: the standard
margin condition with b = beta ||a|| continues from where it stopped and, being relaxed
as ``||a||`` grows, usually ends with a margin close to beta.

*Dynamic margin.* One run with the test :math:`y \cdot a \le (1 - \epsilon) \lVert a
\rVert^2 / \sum m` ends with at least 1 - eps of the largest margin, no beta asked.

References: Tsampouka and Shawe-Taylor (2005), section 3; Panagiotakopoulos and
Tsampouka, The perceptron with dynamic margin, ALT 2011.
"""

from typing import NamedTuple

import numpy as np

from widemargin._compute.progress import Advance, silent
from widemargin.linear.patterns import Patterns
from widemargin.linear.walks import Walk, directional_margin, learn


class Search(NamedTuple):
    """Best walk, the walk with the smallest bound, that bound, and the price paid."""

    walk: Walk
    margin: float
    dual: np.ndarray
    upper: float
    sweeps: int
    updates: int
    rounds: list[tuple[float, str]]


def search_dynamic(
    patterns: Patterns,
    walk: Walk,
    tol: float,
    max_sweeps: int,
    seed: np.ndarray,
    tick: Advance = silent,
) -> Search:
    """Run the dynamic-margin rule until its own certificate is within `tol`."""
    from widemargin._compute import perceptron

    before = walk.n_updates
    _, sweeps = learn(
        patterns,
        walk,
        perceptron.DYNAMIC,
        eps=tol,
        max_sweeps=max_sweeps,
        seed=seed,
        quick=True,
        tick=tick,
    )
    margin = directional_margin(patterns, walk)
    updates = walk.n_updates - before
    return Search(walk, margin, walk.m, walk.upper_bound, sweeps, updates, [])


def _round(patterns, walk, beta, checks, modules, seed, tick) -> tuple[str, int, int]:
    """One attempt at margin `beta` in place; how it ended, sweeps and updates."""
    from widemargin._compute import perceptron

    before = walk.n_updates
    first = checks if modules == 1 else max(1, checks // 2)
    status, sweeps = learn(
        patterns, walk, perceptron.FREE_LENGTH,
        beta=beta, max_sweeps=first, seed=seed, quick=True, tick=tick,
    )  # fmt: skip
    ending = {perceptron.QUIET: "reached", perceptron.INFEASIBLE: "impossible"}.get(
        status, "out of sweeps"
    )
    if ending == "out of sweeps" and modules == 2:
        status, more = learn(
            patterns, walk, perceptron.STANDARD,
            b=beta * walk.norm, max_sweeps=checks - first, seed=seed, quick=True,
            tick=tick,
        )  # fmt: skip
        sweeps += more
        if status == perceptron.QUIET:
            ending = "relaxed"
    return ending, sweeps, walk.n_updates - before


def search_bisection(
    patterns: Patterns,
    walk: Walk,
    tol: float,
    max_sweeps: int,
    seed: np.ndarray,
    tick: Advance = silent,
    *,
    modules: int = 1,
    checks: int = 50,
) -> Search:
    """Bisect on the margin asked for, with one module per round or with two."""
    upper = float(np.sqrt((patterns.squares + patterns.diag).min()))
    lower = max(0.0, directional_margin(patterns, walk))
    dual, target = walk.m, upper
    if walk.upper_bound < upper:
        upper = target = walk.upper_bound
    sweeps, updates, rounds = 0, 0, []
    while sweeps < max_sweeps and lower < (1.0 - tol) * upper:
        beta = (lower + target) / 2
        trial = walk.copy()
        budget = min(checks, max_sweeps - sweeps)
        ending, used, made = _round(patterns, trial, beta, budget, modules, seed, tick)
        sweeps, updates = sweeps + used, updates + made
        rounds.append((beta, ending))
        if trial.upper_bound < upper:
            upper, dual = trial.upper_bound, trial.m
        if ending in ("reached", "relaxed"):
            found = directional_margin(patterns, trial)
            if found > lower:
                lower, walk = found, trial
        target = min(upper, beta if ending in ("out of sweeps", "relaxed") else target)
        if ending == "reached":
            target = upper
        elif target - lower <= 0.5 * tol * upper:
            checks, target = 2 * checks, upper
            if walk.n_updates == 0:
                walk = trial
    return Search(walk, lower, dual, upper, sweeps, updates, rounds)
