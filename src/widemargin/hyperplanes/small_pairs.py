r"""Soft margins of many small pairs of classes at once, certified.

The mathematics is that of :mod:`~widemargin.hyperplanes.newton` in the dual, of
:mod:`~widemargin.hyperplanes.certificate` and of `left_out`, with pairs along the
first axis of every array. For pairs of twenty samples one after the
other, calls on small arrays take a hundred times as long as the sums in them.

A Newton step of samples inside the margin, I, with squared private coordinates D:

.. math:: (K_{II} + D_I) \beta_I + b 1 = l_I , \qquad 1 \cdot \beta_I = 0 .

Classes of unequal size are filled up with samples at the origin whose slack has no
price (`prices` zero): they are never inside. What is not beyond doubt in doubles is
left to those who solve one problem after the other.

Shapes: X (p, m, d) in double precision; K (p, m, m); signs, prices, private, scores,
beta, alpha (p, m); bias, lower, upper (p,) for p pairs.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from widemargin._compute.rounding import above, below, rounding
from widemargin.hyperplanes.certificate import (
    SLIGHT,
)
from widemargin.hyperplanes.left_out import LeaveOneOut
from widemargin.hyperplanes.problem import Options, Problem
from widemargin.hyperplanes.spaces import SMALL

# Samples of a pair, at most. Pairs of 40 samples take 0.1 to 0.16 ms here and 1.1 one
# after the other, of 100 samples 0.6 and 1.2, of 200 2.2 and 0.9.
MOST = 100
# Entries of all products of a batch, at most: what a cache holds.
_ENTRIES = 2**20
# Systems are of this size, or a multiple of it.
_STEP = 8
# Share of the diagonal that keeps a system from being singular.
_RIDGE = 1e-14
# Steps in a row without a better lower bound, after which rounding keeps the gap open.
# Without it, 23 samples in units of 1e4 took 10 000 steps, 16 s.
_STALLED = 10


class Solved(NamedTuple):
    """Planes of pairs as they are stored, and what is proven; `sure` says of which.

    `dual` proves `upper`, `alpha` is the same before it was scaled, `own` what samples
    add to their functional margins; all three (p, m).
    """

    sure: NDArray
    coef: NDArray
    bias: NDArray
    norm: NDArray
    margin: NDArray
    upper: NDArray
    dual: NDArray
    alpha: NDArray
    none: Any = None
    own: Any = None
    n_iter: Any = None


class _State(NamedTuple):
    """Pairs on their way: products, signs, prices 1 / D, and the present planes."""

    at: NDArray
    K: NDArray
    signs: NDArray
    prices: NDArray
    none: NDArray
    beta: NDArray
    scores: NDArray
    bias: NDArray

    def some(self, which: NDArray) -> "_State":
        return _State(*(array[which] for array in self))


def batches(sizes: NDArray) -> list[NDArray]:
    """Divide pairs of these sizes into batches of about equal ones."""
    order = np.argsort(sizes, kind="stable")
    found, first = [], 0
    while first < len(order):
        # The last of a batch is its largest.
        last = first + 1
        while last < len(order) and (last + 1 - first) * sizes[order[last]] ** 2 <= (
            _ENTRIES
        ):
            last += 1
        found.append(order[first:last])
        first = last
    return found


def takes(problem: Problem) -> bool:
    """Whether small problems like this one are solved together."""
    return (
        problem.field.is_linear
        and problem.field.offset is None
        and not (sp.issparse(problem.field.X) or problem.is_hard)
        and problem.options.geometric
        and problem.method in ("auto", "dual")
        and problem.begin is None
    )


def solve_problems(
    problems: list[Problem], dtype: Any, leave: LeaveOneOut | None
) -> Solved:
    """Solve problems of one field; see `solve_pairs`."""
    given, options = problems[0].field, problems[0].options
    sizes = np.array([len(problem.rows) for problem in problems])
    there = np.arange(sizes.max()) < sizes[:, None]
    rows, signs = np.zeros(there.shape, int), np.zeros(there.shape)
    diag, asked = np.full(there.shape, np.inf), np.zeros_like(there)
    rows[there] = np.concatenate([problem.rows for problem in problems])
    signs[there] = np.concatenate([problem.signs for problem in problems])
    diag[there] = np.concatenate([problem.diag for problem in problems])
    X = given.X[rows]
    X[~there] = 0.0
    if leave is not None and leave.groups is None:
        asked = there & leave.asked[rows]
    return solve_pairs(X, signs, diag, options, given.longest or 0.0, dtype, asked)


def solve_pairs(
    X: NDArray, signs: NDArray, diag: NDArray, options: Options, longest: float,
    dtype: Any, asked: NDArray,
) -> Solved:  # fmt: skip
    """Planes of largest 2-norm soft margin with a free bias, ``diag = 1 / (2 C_k)``.

    Samples that only fill up have an infinite one. No sample is longer than `longest`,
    normals are stored as `dtype`, those `asked` are left out.
    """
    with np.errstate(all="ignore"):
        K = np.matmul(X, X.transpose(0, 2, 1))
        beta, bias, alpha, n_iter, none = _descend(K, signs, diag, options)
        w = np.matmul(beta[:, None, :], X)[:, 0]
        norm = _length(w)
        coef = (w / norm[:, None]).astype(dtype).astype(np.float64)
        plane = coef, bias / norm, norm
        found = _certified(X, signs, diag, plane, alpha, longest)
        sure = found.sure & (_gap(found.margin, found.upper, none) <= options.tol)
        own = _own_margins(K, diag, found.dual, asked)
    return found._replace(sure=sure, none=none, own=own, n_iter=n_iter)


def _no_plane(prices: NDArray, signs: NDArray) -> NDArray:
    """Soft margin of ``w = 0`` with the best bias, see `certificate.no_plane`."""
    first, second = ((prices * (signs == side)).sum(axis=1) for side in (1, -1))
    return 1.0 / np.sqrt(4.0 * first * second / (first + second))


def _gap(lower: NDArray, upper: NDArray, none: NDArray) -> NDArray:
    """See `certificate.relative_gap`; NaN where doubles see no gain of a plane."""
    seen = none < (1.0 - SLIGHT) * upper
    gap = (1.0 - lower / upper) / np.where(seen, 1.0 - none / upper, np.nan)
    return np.maximum(gap, 0.0)


def _descend(K: NDArray, signs: NDArray, diag: NDArray, options: Options) -> Any:
    """Take Newton's steps: beta, bias, alpha, their number, margins of no plane."""
    p, m = signs.shape
    prices = 1.0 / diag
    none = _no_plane(prices, signs)
    beta, alpha = np.zeros((2, p, m))
    bias, n_iter = np.zeros(p), np.zeros(p, int)
    state = _State(
        np.arange(p), K, signs, prices, none, *_between_means(K, signs, prices)
    )
    best, since = np.zeros(p), np.zeros(p, int)
    for step in range(1, options.max_iter + 1):
        inside = (state.signs * (state.scores + state.bias[:, None]) < 1.0) & (
            state.prices > 0.0
        )
        state, t = _step(state, inside)
        slack = np.maximum(
            0.0, 1.0 - state.signs * (state.scores + state.bias[:, None])
        )
        lower, upper, some = _enclosed(state, slack)
        gap = _gap(lower, upper, state.none)
        same = (((slack > 0.0) & (state.prices > 0.0)) == inside).all(axis=1)
        done = (gap <= options.tol) | ~np.isfinite(gap) | (same & (abs(t - 1) < 1e-9))
        # Every step raises the lower bound, until rounding is all that is left of it.
        since[state.at] = np.where(lower > best[state.at], 0, since[state.at] + 1)
        best[state.at] = np.fmax(best[state.at], lower)
        done |= since[state.at] >= _STALLED
        at = state.at[done]
        beta[at], bias[at], alpha[at] = state.beta[done], state.bias[done], some[done]
        n_iter[at] = step
        if done.any():
            state = state.some(~done)
        if not len(state.at):
            break
    return beta, bias, alpha, n_iter, none


def _between_means(K: NDArray, signs: NDArray, prices: NDArray) -> Any:
    """Planes at which the means of the classes have functional margin one."""
    c = 2.0 * _averages(1.0 * (prices > 0.0), signs)
    image = np.matmul(K, c[:, :, None])[:, :, 0]
    scale = 2.0 / (c * image).sum(axis=1)[:, None]
    # Classes of one mean begin without a plane.
    scale = np.where(np.isfinite(scale), scale, 0.0)
    bias = -0.5 * (np.abs(c) * image).sum(axis=1) * scale[:, 0]
    return scale * c, scale * image, bias


def _step(state: _State, inside: NDArray) -> tuple[_State, NDArray]:
    """Go to the minimum along the way to that of the present quadratic."""
    beta, bias = _newton_point(state, inside)
    scores = np.matmul(state.K, beta[:, :, None])[:, :, 0]
    t = _line_search(state, beta, scores, bias)
    s = t[:, None]
    return state._replace(
        beta=state.beta + s * (beta - state.beta),
        scores=state.scores + s * (scores - state.scores),
        bias=state.bias + t * (bias - state.bias),
    ), t


def _newton_point(state: _State, inside: NDArray) -> tuple[NDArray, NDArray]:
    """Minimum of the quadratic of the samples inside: coefficients and bias."""
    beta, bias = np.zeros(inside.shape), np.zeros(len(inside))
    for some, rows, there, system in _systems(state.K, state.prices, inside):
        at = some[:, None]
        sides = np.stack([state.signs[at, rows] * there, there * 1.0], axis=2)
        first, second = np.linalg.solve(system, sides).transpose(2, 0, 1)
        b = first.sum(axis=1) / second.sum(axis=1)
        beta[at, rows] = first - b[:, None] * second
        bias[some] = b
    return beta, bias


def _systems(K: NDArray, prices: NDArray, inside: NDArray) -> Any:
    """Yield ``K + D`` of the samples inside, of pairs that have about as many.

    Each with the numbers of the pairs and of the samples, and where these are inside:
    the others have a system of their own.
    """
    m = inside.shape[1]
    sizes = np.minimum(-(-inside.sum(axis=1) // _STEP) * _STEP, m)
    order = np.argsort(~inside, axis=1, kind="stable")
    for size in np.unique(sizes[sizes > 0]).tolist():
        some = np.flatnonzero(sizes == size)
        at = some[:, None]
        if size == m:
            rows, system = np.broadcast_to(np.arange(m), (len(some), m)), K[some]
        else:
            rows = order[some, :size]
            system = K[some[:, None, None], rows[:, :, None], rows[:, None, :]]
        there = inside[at, rows]
        if not there.all():
            system *= there[:, :, None] & there[:, None, :]
        ends = np.arange(size)
        system[:, ends, ends] += np.where(there, 1.0 / prices[at, rows], 1.0)
        # Equal samples without slack would have no system at all.
        system[:, ends, ends] *= 1.0 + _RIDGE
        yield some, rows, there, system


def _line_search(
    state: _State, beta: NDArray, scores: NDArray, bias: NDArray
) -> NDArray:
    """Minimiser of P on the way to a point, by Newton on its piecewise linear slope."""
    oo, nn, on = (
        (left * right).sum(axis=1)
        for left, right in (
            (state.beta, state.scores), (beta, scores), (state.beta, scores),
        )
    )  # fmt: skip
    curve, start = oo - 2 * on + nn, on - oo
    before = state.scores + state.bias[:, None]
    slack = 1.0 - state.signs * before
    drop = state.signs * (scores + bias[:, None] - before)
    bends, pulls = (state.prices * drop * part for part in (drop, slack))
    t = np.ones(len(bias))
    low, high = np.zeros(len(t)), np.full(len(t), np.inf)
    open_ = np.arange(len(t))
    for _ in range(50):
        at = t[open_]
        inside = slack[open_] > at[:, None] * drop[open_]
        second = curve[open_] + np.where(inside, bends[open_], 0.0).sum(axis=1)
        slope = start[open_] + at * second
        slope -= np.where(inside, pulls[open_], 0.0).sum(axis=1)
        low[open_] = np.where(slope < 0, at, low[open_])
        high[open_] = np.where(slope < 0, high[open_], at)
        step = np.where(second > 0, slope / second, 0.0)
        moving = np.abs(step) > 1e-12 * np.maximum(1.0, at)
        open_, at = open_[moving], (at - step)[moving]
        if not len(open_):
            break
        out = ~((low[open_] < at) & (at < high[open_]))
        middle = np.where(
            np.isinf(high[open_]), low[open_] + 1.0, (low[open_] + high[open_]) / 2
        )
        t[open_] = np.where(out, middle, at)
    return t


def _enclosed(state: _State, slack: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """(Lower, upper bound, alpha) of the present planes."""
    alpha = slack * state.prices
    square = (state.beta * state.scores).sum(axis=1) + (slack * alpha).sum(axis=1)
    c = _averages(alpha, state.signs)
    image = np.matmul(state.K, c[:, :, None])[:, :, 0]
    own = np.where(state.prices > 0.0, c * c / state.prices, 0.0).sum(axis=1)
    upper = np.sqrt(np.maximum((c * image).sum(axis=1), 0.0) + own)
    return 1.0 / np.sqrt(square), np.where(np.isnan(upper), np.inf, upper), alpha


def _averages(alpha: NDArray, signs: NDArray) -> NDArray:
    """See `certificate.class_averages`; NaN or infinite where a class has no weight."""
    positive = signs > 0
    first = np.where(positive, alpha, 0.0).sum(axis=1)[:, None]
    second = np.where(positive, 0.0, alpha).sum(axis=1)[:, None]
    return alpha / np.where(positive, 2 * first, -2 * second)


def _length(values: NDArray) -> NDArray:
    return np.sqrt((values * values).sum(axis=1))


def _certified(
    X: NDArray, signs: NDArray, diag: NDArray, plane: tuple[NDArray, NDArray, NDArray],
    alpha: NDArray, longest: float,
) -> Solved:  # fmt: skip
    """Prove what planes are worth; sure where doubles are enough.

    A plane has a unit normal as it is stored, its bias and the length divided out.
    The bounds are those of `certificate.soft_margin` and `certificate.upper_bound`.
    """
    d, (coef, bias, norm) = X.shape[2], plane
    private = np.sqrt(diag)
    long = _length(coef) * (1 + rounding(d))
    error = rounding(d) * _length(coef) * longest * 1.001 + 1e-300
    error += rounding(1) * np.abs(bias)
    values = signs * (np.matmul(X, coef[:, :, None])[:, :, 0] + bias[:, None])
    lacking = norm[:, None] * (values - error[:, None])
    slack = np.maximum(0.0, 1.0 - lacking + 4e-16 * (1 + np.abs(lacking)))
    n_inside = ((lacking < 1.0 + 1e-9) & (diag < np.inf)).sum(axis=1)
    size = np.hypot(norm * long, _length(slack / private))
    size *= 1 + _roundings(n_inside + 8)
    margin = below(1.0 / size)
    dual = alpha / alpha.sum(axis=1)[:, None] / margin[:, None] / margin[:, None]

    c, support = _averages(dual, signs), dual > 0.0
    n_support = support.sum(axis=1)
    # Seen from one of them the sums do not cancel.
    moved = X - X[np.arange(len(X)), support.argmax(axis=1)][:, None, :]
    reach = np.where(support, np.einsum("pij,pij->pi", moved, moved), 0.0).max(axis=1)
    away = _roundings(2 * n_support + 8) * np.sqrt(reach) * 1.001
    between = _length(np.matmul(c[:, None, :], moved)[:, 0]) * (1 + rounding(d))
    beside = _length(np.where(support, private * c, 0.0))
    upper = np.hypot((between + away) * (1 + 4e-16), beside)
    upper = above(upper * (1 + _roundings(2 * n_support + 16)))
    # Comparisons with NaN are false.
    sure = (norm > 0.0) & (norm * error <= 1e-9) & np.isfinite(dual).all(axis=1)
    sure &= away <= SMALL * np.maximum(between, beside)
    sure &= (margin > 1e-150) & (upper < 1e150)
    return Solved(sure, *plane, margin, upper, dual, alpha)


def _own_margins(K: NDArray, diag: NDArray, dual: NDArray, asked: NDArray) -> NDArray:
    """Say what supports add to their own margins, see `_core.left_out`."""
    own = np.zeros(dual.shape)
    for some, rows, there, system in _systems(K, 1.0 / diag, dual > 0.0):
        at = some[:, None]
        most = 4.0 * np.einsum("pii->pi", system).max(axis=1)
        inverse = np.linalg.inv(system)
        u = np.matmul(inverse, there[:, :, None] * 1.0)[:, :, 0]
        inverse = np.einsum("pii->pi", inverse)
        inverse = inverse - u * u / (u * there).sum(axis=1)[:, None]
        spans = 1.0 / np.maximum(inverse, 1.0 / most[:, None]) - diag[at, rows]
        own[at, rows] = np.where(there, dual[at, rows] * spans, 0.0)
    return np.where(asked & np.isfinite(own), np.maximum(own, 0.0), 0.0)


def _roundings(n_terms: NDArray) -> NDArray:
    """See `_compute.rounding`, of many sums."""
    unit = (n_terms + 4) * 2.0**-53
    return unit / (1 - unit)
