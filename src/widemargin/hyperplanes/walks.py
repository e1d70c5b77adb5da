r"""Perceptrons on their way, and in search of the largest margin.

``a = sum_k m_k y_k`` with m >= 0, whatever the rule, so ``||a|| / sum(m)`` bounds the
largest directional margin from above at every moment, and the smallest
``y_k.a / ||a||`` from below. Between batches only ``v = sum m l x``, the running sums
and the private length of past patterns are kept; the bound stays true for everything
shown so far. Shapes: m (n,), v (d,), sums (6,) as in
:mod:`widemargin._compute.patterns`.

*Bisection.* The fixed-margin perceptron either reaches the margin beta it is asked for,
or its bound :math:`U = \lVert a \rVert / \sum m` falls to beta, which proves that beta
is out of reach. Halving the interval between the best margin seen and the smallest
bound seen converges to the largest margin. A round that only runs out of sweeps proves
nothing: it lowers the next target, and once the targets have met the best margin the
rounds get twice the sweeps.

*Bisection in two modules.* A round without success is not thrown away: the standard
margin condition with b = beta ||a|| continues from where it stopped and, being relaxed
as ``||a||`` grows, usually ends with a margin close to beta.

Both also to the letter of the paper ("paper-bisection"): beta and the step begin at
r/2, the step is halved after every round and added after a success, else subtracted.
A round that ran out of sweeps then counts as a failure for good.

*Dynamic margin.* One run with the test :math:`y \cdot a \le (1 - \epsilon) \lVert a
\rVert^2 / \sum m` ends with at least 1 - eps of the largest margin, no beta asked.

The largest directional margin depends on the height rho and on the origin; the
geometric one on neither. They agree for every rho once the centre lies on the optimal
hyperplane. So: search at the present centre, project the centre onto the hyperplane
found (with the midpoint bias), :math:`c \leftarrow c - f(c) w / \lVert w \rVert^2`, and
go on. The geometric enclosure, which does not know about centres, says when to stop.

References: Tsampouka and Shawe-Taylor (2005), section 3; Panagiotakopoulos and
Tsampouka, The perceptron with dynamic margin, ALT 2011.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.patterns import (
    DYNAMIC,
    FREE_LENGTH,
    IDLE,
    INFEASIBLE,
    OUT_OF_SWEEPS,
    QUIET,
    STANDARD,
    Limits,
    Order,
    Rule,
    Trace,
    Walk,
)
from widemargin._compute.progress import Advance, announce, silent
from widemargin.hyperplanes.certificate import (
    no_plane,
    relative_gap,
)
from widemargin.hyperplanes.descent import enclose
from widemargin.hyperplanes.patterns import (
    Patterns,
    random_state_array,
    recentre,
    weight_vector,
)
from widemargin.hyperplanes.problem import Options, Solution
from widemargin.hyperplanes.sweeps import sweep

# Seconds of sweeping between two words to whoever watches.
_PATIENCE = 0.01
_NO_TRACE = Trace(np.empty(0, dtype=np.int64), np.empty(0))
# Share of the patterns that a sweep still adds, below which the end may be near.
_FEW = 0.01
# Sweeps that a round of a bisection is given at first.
CHECKS = 50
# Share of the coefficients that survives a change of centre: they were right for
# another problem, and the steps to come must be able to outvote them.
_MEMORY = 0.2


def start_walk(patterns: Patterns, m: NDArray | None = None) -> Walk:
    """Begin a walk at ``a = sum_k m_k y_k``, by default at zero.

    >>> from widemargin.hyperplanes.patterns import reflect
    >>> X, signs = np.array([[3.0], [-1.0]]), np.array([1.0, -1.0])
    >>> start_walk(reflect(X, signs, rho=2.0), np.array([1.0, 1.0])).norm
    4.0
    """
    n, d = patterns.X.shape
    if m is None or not m.any():
        return Walk(np.zeros(n), np.zeros(d), np.zeros(6))
    m = m.astype(np.float64)
    signed = m * patterns.signs
    v = np.asarray(patterns.X.T @ signed)
    w, _ = weight_vector(patterns, m)
    total = signed.sum()
    square = w @ w + (patterns.rho * total) ** 2 + np.sum(patterns.diag * m**2)
    return Walk(m, v, np.array([total, v @ patterns.centre, square, m.sum(), 0.0, 0.0]))


class Budget:
    """Sweeps that may still be made; whoever watches is told of those that were.

    With `patience` a walk is idle after so many sweeps, and as many as it made until
    then, in which the number of patterns added did not fall, unless they are one in a
    hundred. `updates` are the most updates.
    """

    def __init__(
        self,
        most: int,
        tell: Advance = silent,
        *,
        patience: int | None = None,
        updates: float = np.inf,
        is_watched: bool | None = None,
        whole: int | None = None,
    ) -> None:
        self.most, self.spent, self._tell = most, 0, tell
        # Of what this is a part: all its walks are one fit, and take one engine.
        self.whole = most if whole is None else whole
        self.patience, self.updates = patience, float(updates)
        # Whether sweeps are to be counted in pieces.
        self.is_watched = tell is not silent if is_watched is None else is_watched

    @property
    def left(self) -> int:
        """Sweeps left."""
        return self.most - self.spent

    def part(self, most: int | None = None, patience: int | None = None) -> "Budget":
        """Return a part of what is left, all of it by default."""
        most = self.left if most is None else min(most, self.left)
        return Budget(
            most,
            self.spend,
            patience=patience,
            is_watched=self.is_watched,
            whole=self.whole,
        )

    def spend(self, sweeps: int) -> None:
        """Count `sweeps` as made."""
        self.spent += sweeps
        self._tell(sweeps)


@contextmanager
def budget_of(most: int, total: float | None = None) -> Iterator[Budget]:
    """Announce sweeps, `total` of them if that is known, and give their budget."""
    with announce("sweeps", total) as tell:
        yield Budget(most, tell)


def run_sweeps(
    patterns: Patterns,
    walk: Walk,
    rule: Rule,
    budget: Budget,
    seed: NDArray,
    *,
    factors: NDArray | None = None,
    order: Literal["random", "quick", "given"] = "random",
    trace: Trace = _NO_TRACE,
) -> int:
    """Sweep with a rule within a budget, in place; return the status.

    A "random" `order` is drawn anew for every sweep. "quick" also adds a pattern
    several times at once and cycles over the patterns just added: the same algorithm in
    an order that it leaves free.
    """
    n, quick = patterns.signs.shape[0], order == "quick"
    repeat = quick and rule.kind in (FREE_LENGTH, DYNAMIC) and not rule.shaped
    show = Order(np.arange(n), seed, repeat, quick, order != "given")
    factors = np.ones(n) if factors is None else factors
    # All that a sweep leaves behind is in the arrays: in pieces it is the same walk.
    status, piece = OUT_OF_SWEEPS, 1 if budget.is_watched else budget.most
    fewest, idle, best = n + 1, 0, 0
    while status == OUT_OF_SWEEPS and budget.left > 0:
        limited = budget.patience is not None and fewest > _FEW * n
        limit = max(budget.patience or 0, best)
        if limited and idle >= limit:
            return IDLE
        start = perf_counter()
        sweeps = min(piece, budget.left, limit - idle if limited else budget.left)
        limits = Limits(sweeps, budget.updates, fewest, budget.whole)
        status, used, now, since = sweep(
            patterns.rows, factors, walk, rule, show, limits, trace
        )
        budget.spend(used)
        idle = since if now < fewest else idle + since
        if now < fewest:
            fewest, best = now, budget.spent - since
        if perf_counter() - start < _PATIENCE:
            piece *= 2
    return status


def pattern_scores(patterns: Patterns, walk: Walk) -> NDArray:
    """``y_k.a`` of every pattern, private coordinates included."""
    w, bias = weight_vector(patterns, walk.m)
    return patterns.signs * (patterns.X @ w + bias) + patterns.diag * walk.m


def directional_margin(patterns: Patterns, walk: Walk) -> float:
    """Smallest ``y_k.a / ||a||``, zero for ``a = 0``."""
    if walk.norm == 0.0:
        return 0.0
    return float(pattern_scores(patterns, walk).min()) / walk.norm


class Search(NamedTuple):
    """Best walk and its margin, the smallest bound and its combination, the rounds.

    A round is (margin asked for, how it ended).
    """

    walk: Walk
    margin: float
    dual: NDArray
    upper: float
    updates: int
    rounds: list[tuple[float, str]]


def search_dynamic(
    patterns: Patterns, walk: Walk, tol: float, budget: Budget, seed: NDArray
) -> Search:
    """Run the dynamic-margin rule until its own certificate is within `tol`."""
    before = walk.n_updates
    run_sweeps(patterns, walk, Rule(DYNAMIC, eps=tol), budget, seed, order="quick")
    margin = directional_margin(patterns, walk)
    updates = walk.n_updates - before
    return Search(walk, margin, walk.m, walk.upper_bound, updates, [])


def _attempt(patterns, walk, beta, checks, modules, budget, seed, quick=True) -> str:
    """Try for margin `beta` in place; how it ended."""
    first = checks if modules == 1 else max(1, checks // 2)
    order: Any = "quick" if quick else "random"
    rule, part = Rule(FREE_LENGTH, beta=beta), budget.part(first)
    status = run_sweeps(patterns, walk, rule, part, seed, order=order)
    if status == QUIET:
        return "reached"
    if status == INFEASIBLE:
        return "impossible"
    if modules == 2:
        relaxed = Rule(STANDARD, b=beta * walk.norm)
        part = budget.part(checks - first)
        status = run_sweeps(patterns, walk, relaxed, part, seed, order=order)
        if status == QUIET:
            return "relaxed"
    return "out of sweeps"


def search_bisection(
    patterns: Patterns,
    walk: Walk,
    tol: float,
    budget: Budget,
    seed: NDArray,
    *,
    modules: int = 1,
    checks: int = CHECKS,
) -> Search:
    """Bisect on the margin asked for, with one module per round or with two."""
    upper = float(np.sqrt((patterns.squares + patterns.diag).min()))
    lower = max(0.0, directional_margin(patterns, walk))
    dual, target = walk.m, upper
    if walk.upper_bound < upper:
        upper = target = walk.upper_bound
    updates, rounds = 0, []
    while budget.left > 0 and lower < (1.0 - tol) * upper:
        beta = (lower + target) / 2
        trial = walk.copy()
        ending = _attempt(patterns, trial, beta, checks, modules, budget, seed)
        updates += trial.n_updates - walk.n_updates
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
    return Search(walk, lower, dual, upper, updates, rounds)


def search_bisection_of_paper(
    patterns: Patterns,
    walk: Walk,
    tol: float,
    budget: Budget,
    seed: NDArray,
    *,
    modules: int = 1,
    checks: int = CHECKS,
    quick: bool = False,
) -> Search:
    """Bisect with the steps of the paper, until the step is `tol` of the first one.

    Only the first module makes a round successful. With two modules the larger of the
    margins is kept together with its vector, and a beta below it is a success without a
    run.
    """
    shortest = float(np.sqrt((patterns.squares + patterns.diag).min()))
    beta = step = shortest / 2
    lower = max(0.0, directional_margin(patterns, walk))
    upper, dual = shortest, walk.m
    if walk.upper_bound < upper:
        upper = walk.upper_bound
    smallest, updates, rounds = tol * step, 0, []
    while budget.left > 0 and step > smallest:
        if modules == 2 and beta < lower:
            ending = "known"
        else:
            trial = walk.copy()
            ending = _attempt(
                patterns, trial, beta, checks, modules, budget, seed, quick
            )
            updates += trial.n_updates - walk.n_updates
            if trial.upper_bound < upper:
                upper, dual = trial.upper_bound, trial.m
            found = directional_margin(patterns, trial)
            if ending == "reached" or (ending == "relaxed" and found > lower):
                lower, walk = max(lower, found), trial
        rounds.append((beta, ending))
        step /= 2
        beta += step if ending in ("reached", "known") else -step
    return Search(walk, lower, dual, upper, updates, rounds)


def _search(method: str) -> Callable[..., Search]:
    if method == "dynamic":
        return search_dynamic
    modules = 2 if method.endswith("2") else 1
    paper = method.startswith("paper")
    bisect = search_bisection_of_paper if paper else search_bisection

    def search(*args):
        return bisect(*args, modules=modules)

    return search


def functional_weights(patterns: Patterns, walk: Walk) -> tuple[NDArray, float]:
    """Weights and bias of a walk, scaled to functional margin one if it has any."""
    w, bias = weight_vector(patterns, walk.m)
    lowest = float(pattern_scores(patterns, walk).min())
    scale = 1.0 / lowest if lowest > 0.0 else 1.0
    return w * scale, bias * scale


def solve_by_search(
    patterns: Patterns, method: str, options: Options, start: NDArray | None = None
) -> Solution:
    """Find the margin by one of the perceptron searches.

    Geometric with recentring if ``options.geometric``, else directional at the height
    and centre of `patterns`.
    """
    search = _search(method)
    seed = random_state_array(options.seed)
    walk = start_walk(patterns, start)
    with budget_of(options.max_iter) as budget:
        if not options.geometric:
            found = search(patterns, walk, options.tol, budget, seed)
            plane = functional_weights(patterns, found.walk)
            return Solution(*plane, found.dual, budget.spent, found.updates)
        return _solve_recentring(patterns, walk, search, options, budget, seed)


def _solve_recentring(patterns, walk, search, options, budget, seed) -> Solution:
    # Half of the tolerance for the search, the other half for the centre.
    inner = options.tol / 2
    rough = max(inner, 0.1)
    none = no_plane(np.sqrt(patterns.diag), patterns.signs)
    lower, upper, updates = -np.inf, np.inf, 0
    best, dual = (np.zeros(patterns.X.shape[1]), 0.0), walk.m
    while budget.left > 0:
        before = budget.spent
        found = search(patterns, walk, rough, budget, seed)
        if budget.spent == before:
            # Nothing left to find at this centre is a look at all patterns, too.
            budget.spend(1)
        updates += found.updates
        walk = found.walk
        w, bias = functional_weights(patterns, walk)
        for combination in (found.dual, walk.m):
            margin, bound, shifted = enclose(patterns, combination, w, bias, True)
            if bound < upper:
                upper, dual = bound, combination
        if margin > lower:
            lower, best = margin, (w, shifted)
        if relative_gap(lower, upper, none) <= options.tol or not w.any():
            break
        if relative_gap(found.margin, found.upper) <= rough:
            rough = max(rough / 2, inner / 4 * (1.0 - none / upper))
        centre = patterns.centre
        height = float(w @ centre) + shifted
        patterns = recentre(patterns, centre - height / float(w @ w) * w)
        walk = start_walk(patterns, _MEMORY * walk.m)
    return Solution(*best, dual, budget.spent, updates)
