r"""From the directional margin to the geometric one, without rho going to infinity.

The largest directional margin depends on the height rho and on the origin; the
geometric one on neither. They agree for every rho once the centre lies on the optimal
hyperplane. So: search at the present centre, project the centre onto the hyperplane
found (with the midpoint bias),

.. math:: c \leftarrow c - \frac{f(c)}{\lVert w \rVert^2} w ,

and go on. The geometric certificate, which does not know about centres, says when to
stop.
"""

from collections.abc import Callable

import numpy as np

from widemargin._compute.progress import Advance, silent
from widemargin.linear.certificate import (
    directional_certificate,
    geometric_certificate,
    hull_bound,
    relative_gap,
)
from widemargin.linear.patterns import Patterns, recentre, weight_vector
from widemargin.linear.searches import (
    Search,
    search_bisection,
    search_dynamic,
)
from widemargin.linear.solution import Options, Solution, random_state_array
from widemargin.linear.walks import pattern_scores, scaled, start_walk

# Share of the coefficients that survives a change of centre: they were right for
# another problem, and the steps to come must be able to outvote them.
_MEMORY = 0.2


def _search(method: str) -> Callable[..., Search]:
    if method == "dynamic":
        return search_dynamic
    modules = 2 if method == "bisection2" else 1

    def bisect(*args):
        return search_bisection(*args, modules=modules)

    return bisect


def functional_weights(patterns: Patterns, m: np.ndarray, walk) -> tuple:
    """Weights and bias of a walk, scaled to functional margin one if it has any."""
    w, bias = weight_vector(patterns, m)
    lowest = float(pattern_scores(patterns, walk).min())
    scale = 1.0 / lowest if lowest > 0.0 else 1.0
    return w * scale, bias * scale


def solve_by_search(
    patterns: Patterns,
    method: str,
    options: Options,
    start: np.ndarray | None = None,
    tick: Advance = silent,
) -> Solution:
    """Certified margin by one of the perceptron searches.

    Geometric with recentring if ``options.geometric``, else directional at the height
    and centre of `patterns`. `tick` is told the sweeps.
    """
    search = _search(method)
    seed = random_state_array(options.seed)
    walk = start_walk(patterns, start)
    # Half of the tolerance for the search, the other half for the centre.
    inner = options.tol if not options.geometric else options.tol / 2
    if not options.geometric:
        found = search(patterns, walk, inner, options.max_iter, seed, tick)
        w, bias = functional_weights(patterns, found.walk.m, found.walk)
        # The slack that a soft margin needs is at most what the walk itself uses.
        here = directional_certificate(patterns, found.dual, w, bias)
        upper = min(here.upper, found.upper)
        price = (found.sweeps, found.updates)
        return Solution(w, bias, found.dual, here.margin, upper, *price)
    lower, upper, sweeps, updates = -np.inf, np.inf, 0, 0
    best = (np.zeros(patterns.X.shape[1]), 0.0, walk.m)
    rough = max(inner, 0.1)
    while sweeps < options.max_iter:
        found = search(patterns, walk, rough, options.max_iter - sweeps, seed, tick)
        sweeps, updates = sweeps + found.sweeps, updates + found.updates
        walk = found.walk
        w, bias = functional_weights(patterns, walk.m, walk)
        here = geometric_certificate(patterns, found.dual, w, bias)
        upper = min(upper, here.upper, hull_bound(patterns, walk.m))
        if here.margin > lower:
            lower, best = here.margin, (w, here.bias, found.dual)
        if relative_gap(lower, upper) <= options.tol or not w.any():
            break
        settled = relative_gap(found.margin, found.upper) <= rough
        if settled:
            rough = max(rough / 2, inner / 4)
        centre = patterns.centre
        height = float(w @ centre) + here.bias
        patterns = recentre(patterns, centre - height / float(w @ w) * w)
        walk = start_walk(patterns, scaled(walk, _MEMORY).m)
    w, bias, dual = best
    return Solution(w, bias, dual, lower, upper, sweeps, updates)
