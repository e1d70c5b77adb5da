r"""Climbing the weighted mean margin: a pass, a step, more weight on small margins.

With z_plus, z_minus the squared distances of sample i to its nearest right and wrong
model and mu_i = (z_minus - z_plus) / (z_minus + z_plus), a pass returns mu and

    dH/dC = sum_i c_i r_i,      dH/dT_k = sum_i c_i q_ik r_i,
    c_i = +4 gamma_i z_minus / (z_plus + z_minus)^2   for the nearest right model,
    c_i = -4 gamma_i z_plus  / (z_plus + z_minus)^2   for the nearest wrong one,

of H = sum_i gamma_i mu_i, where r is the residual at the optimum and q the model's
coefficients there (envelope theorem). Since r = x~ - [1, q] [C; T], with x~ the sample
after it has moved along its own tangents (two-sided) or as it is (one-sided), the
sums are products (c [1, q])^T x~ less small moments times [C; T]. Passes over shards
of the samples add up: gradient, moments and sizes are sums.

Then H is climbed by [C; T], the frames are made orthonormal again, and the weights of
the samples with mu_i < theta grow by k.

* A fixed rate eta takes the plain gradient, as in Figure 2 of the paper, where the
  derivative by T_k is c alpha_k delta, the part inside the model included. A step after
  which H has collapsed is taken back and halved, with one warning.
* "auto" is a step without unit. With s_C = sum |c| and s_T = sum |c| |alpha|^2 / m
  (means over all models), C moves by eta G_C / s_C and T by eta G_T / s_T: eta = 1
  would about take a model to the weighted mean of its residuals. The step grows a
  little whenever H has grown and is taken back and halved whenever it has not, as
  Figure 1 asks of every hypothesis.

Reference: Aiolli and Sperduti, section 4.1 and Figures 1 and 2. Shapes: stack
(K, 1 + m, d), X (n, d).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from widemargin._compute.engines import engine_for, formula
from widemargin._compute.machine import (
    SAMPLE_ROWS,
    Scratch,
    batched_slices,
    even_slices,
    rows_in_budget,
)
from widemargin._compute.nearest import squared_norms
from widemargin._compute.rounding import epsilon
from widemargin._core.checks import warn_caller
from widemargin.margins import relative_margin
from widemargin.margins.reweight import reweighted
from widemargin.metrics import TangentMetric
from widemargin.prototypes.optimizer import State
from widemargin.prototypes.tangent_models import retract, slide
from widemargin.tangents import Bundle

START, GROWTH = 0.2, 1.05
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75)
# Intervals of margins that parts count in.
BINS = 4096
# Samples of a block, whose products stay in a core's cache, and blocks of one call.
BLOCK_ROWS, BLOCKS = 320, 4
# To gather a sample takes as long as this many of its products; passes that compare all
# pairs after one that had to compare too many.
GATHERING, WAIT = 5, 8
# Samples that tell whether float32 is enough.
TOLD_BY = 200
# Rates at which the models cannot move any more.
SMALLEST = 1e-7


class Pass(NamedTuple):
    """What one pass finds at some models, for weights gamma.

    Attributes
    ----------
    margins : (n,)
        Relative margins mu.
    nearest : (n, 2)
        Nearest right and nearest wrong model.
    gradient : (K, 1 + m, d)
        Of H, by [C; T]; its rows leave the model's own tangents out.
    moments : (K, 1 + m, 1 + m)
        sum_i c_i [1, q_i][1, q_i]^T.
    sizes : (K, 1 + m)
        sum_i |c_i| [1, q_i]^2: how much weight pulls at each row.
    """

    margins: NDArray
    nearest: NDArray
    gradient: NDArray
    moments: NDArray
    sizes: NDArray


class BoundCache(NamedTuple):
    """What a pass leaves to the next one, to tell which models may be nearest.

    The models it saw, and which were nearest; for parts of the samples (K, n) distances
    that are `low` enough, and `reach`, those to the centroids, and for how many passes
    more all pairs are to be compared.
    """

    stack: NDArray
    nearest: NDArray
    low: list[NDArray]
    reach: list[NDArray]
    waits: list[int]

    def moves(self, stack: NDArray) -> NDArray:
        """(K, 3) cosine and sine of how far models have turned since, and shifts."""
        change = stack - self.stack
        sine = np.minimum(np.linalg.norm(change[:, 1:], axis=(1, 2)), 1)
        shift = np.linalg.norm(change[:, 0], axis=1)
        return np.stack([np.sqrt(1 - sine**2), sine, shift], axis=1)


def one_sided(
    X: NDArray,
    norms: NDArray,
    right: NDArray,
    gamma: NDArray,
    stack: NDArray,
    tiny: float,
) -> Pass:
    """Pass over samples that stay put, of squared lengths `norms`."""
    n_models, width, d = stack.shape
    models = stack.astype(X.dtype)
    offsets = np.matmul(models, models[:, 0, :, None])[:, :, 0]
    margins, nearest = np.empty(len(X)), np.empty((len(X), 2), np.intp)
    sums = np.zeros(stack.shape)
    moments, sizes = np.zeros((n_models, width, width)), np.zeros((n_models, width))
    for s in batched_slices(len(X), rows_in_budget(16 * n_models * width)):
        Z = (X[s] @ models.reshape(-1, d).T).reshape(-1, n_models, width)
        alphas = Z - offsets
        D = norms[s, None] - 2 * Z[:, :, 0] + offsets[:, 0]
        D = (D - (alphas[:, :, 1:] ** 2).sum(axis=2)).clip(min=0)
        # A step may lead beyond the floats; it is taken back.
        D[np.isnan(D)] = np.inf
        D_plus, D_minus = np.where(right[s], D, np.inf), np.where(right[s], np.inf, D)
        at = np.stack([D_plus.argmin(axis=1), D_minus.argmin(axis=1)], axis=1)
        z = D_plus.min(axis=1), D_minus.min(axis=1)
        c = np.stack(margin_slopes(*z, gamma[s], tiny), axis=1)
        margins[s] = relative_margin(*z)
        nearest[s] = np.where(np.isinf(np.stack(z, axis=1)), -1, at)
        alphas[:, :, 0] = 1
        for j in range(n_models):
            rows, side = np.nonzero(at == j)
            ones, pulls = alphas[rows, j], c[rows, side, None]
            weighted = (pulls * ones).astype(X.dtype)
            sums[j] += weighted.T @ X[s][rows]
            moments[j] += weighted.T @ ones
            sizes[j] += (np.abs(pulls) * ones**2).sum(axis=0)
    gradient = sums - np.matmul(moments, stack)
    return Pass(margins, nearest, gradient, moments, sizes)


class OneSidedPass:
    """Passes over samples that stay put: only the models bend."""

    def __init__(self, X: NDArray, right: NDArray, centre: NDArray) -> None:
        self.right, self.given = right, (X, centre)
        self.scratch = Scratch()
        self._convert(X.dtype)

    def _convert(self, dtype: Any) -> None:
        X, centre = (part.astype(dtype, copy=False) for part in self.given)
        self.X = np.ascontiguousarray(X - centre)
        self.norms = np.einsum("ij,ij->i", self.X, self.X)
        scale = float(self.norms.mean(dtype=float))
        self.tiny = 1e2 * epsilon(dtype) * scale
        self.known: BoundCache | None = None
        # Of float32 the first pass tells whether it is enough.
        self.is_settled = dtype == np.float64

    def _settle(self, stack: NDArray) -> None:
        """Go on in float64 where models explain so much that little more is left."""
        rows = self.X[:: -(-len(self.X) // TOLD_BY)].astype(float)
        left = []
        for model in stack:
            moved, T = rows - model[0], model[1:]
            left.append(squared_norms(moved - (moved @ T.T) @ T))
        if np.quantile(np.min(left, axis=0), 0.1) < 1e2 * self.tiny:
            self._convert(np.float64)
        self.is_settled = True

    def __call__(self, stack: NDArray, gamma: NDArray, run: Any = map) -> Pass:
        """Run one pass; `run` is the ``map`` of ``held_threads``."""
        if not self.is_settled:
            self._settle(stack)
        given = self.X, self.norms, self.right, gamma, stack, self.tiny
        engine = engine_for("one_sided", *given)
        if engine is None:
            return one_sided(*given)
        n_models, width, d = stack.shape
        n, dtype = len(self.X), self.X.dtype
        flat = np.ascontiguousarray(stack.reshape(-1, d), dtype=dtype)
        offsets = np.matmul(stack, stack[:, 0, :, None])[:, :, 0].astype(dtype)
        margins = np.empty(n)
        size = min(BLOCK_ROWS, rows_in_budget(8 * n_models * width))
        needed = min(n, size) * _scratch_size(n_models, width, d)
        parts = list(even_slices(n, BLOCKS * size))
        sums = self.scratch.take("sums", (len(parts), *stack.shape), float)
        moments = np.empty((len(parts), n_models, width, width))
        sizes = np.empty((len(parts), n_models, width))
        # Taken away meanwhile: a pass that is broken off, or made beside this one, must
        # not go on from what is half of it.
        known, self.known = self.known or self._nothing_known(stack, parts), None
        moves = known.moves(stack).astype(dtype)
        nearest = known.nearest.copy()

        def one_part(p: int) -> int:
            rows = parts[p]
            scratch = self.scratch.take("scratch", (needed,), dtype)
            compared = engine(
                self.X[rows], self.norms[rows], self.right[rows], gamma[rows],
                (flat, offsets), self.tiny, nearest[rows], margins[rows],
                (sums[p], moments[p], sizes[p]),
                (known.waits[p] == 0, moves, known.low[p], known.reach[p]),
                size, scratch,
            )  # fmt: skip
            if known.waits[p] > 0:
                return known.waits[p] - 1
            return 0 if compared < _worth(width) * known.low[p].size else WAIT

        waits = list(run(one_part, range(len(parts))))
        if known.low[0].size:
            self.known = BoundCache(stack, nearest, known.low, known.reach, waits)
        total = moments.sum(axis=0)
        gradient = sums.sum(axis=0)
        gradient -= np.matmul(total, stack)
        return Pass(margins, nearest, gradient, total, sizes.sum(axis=0))

    def _nothing_known(self, stack: NDArray, parts: list[slice]) -> BoundCache:
        n_models, width, _ = stack.shape
        # Two are always compared: bounds that cannot pay are not kept.
        pays = 2 / n_models < _worth(width)
        low, reach = (
            [
                np.empty((n_models, pays * (p.stop - p.start)), self.X.dtype)
                for p in parts
            ]
            for _ in range(2)
        )
        nearest = np.empty((len(self.X), 2), np.intp)
        return BoundCache(stack, nearest, low, reach, [1] * len(parts))


def _scratch_size(n_models: int, width: int, d: int) -> int:
    """Return how many numbers an engine's block writes over, for each sample."""
    return n_models * width + n_models + 2 * (2 * width + (d + width) + width)


def _worth(width: int) -> float:
    """Share of the pairs up to which to gather them takes less than to compare all."""
    return 1 / (1 + GATHERING / width)


class TwoSidedPass:
    """Passes over samples that bend along their own tangents as well."""

    def __init__(
        self, bundle: Bundle, right: NDArray, centre: NDArray, metric: TangentMetric
    ) -> None:
        X = bundle.points
        self.bundle = Bundle(X - centre.astype(X.dtype), bundle.frames)
        self.right, self.metric = right, metric
        self.tiny = 1e2 * epsilon(X.dtype) * float(X.var(axis=0).sum())

    def __call__(self, stack: NDArray, gamma: NDArray, run: Any = map) -> Pass:
        """Run one pass; `run` is the ``map`` of ``held_threads``."""
        X = self.bundle.points
        models = stack.astype(X.dtype)
        C, T = np.ascontiguousarray(models[:, 0]), np.ascontiguousarray(models[:, 1:])

        def distances(rows: slice) -> NDArray:
            return self.metric.squared_distances(self.bundle[rows], Bundle(C, T))

        D = np.concatenate(list(run(distances, batched_slices(len(X), SAMPLE_ROWS))))
        D_plus = np.where(self.right, D, np.inf)
        D_minus = np.where(self.right, np.inf, D)
        nearest = np.stack([D_plus.argmin(axis=1), D_minus.argmin(axis=1)], axis=1)
        z_plus, z_minus = D_plus.min(axis=1), D_minus.min(axis=1)
        c = np.stack(margin_slopes(z_plus, z_minus, gamma, self.tiny), axis=1)

        def model(j: int) -> tuple[NDArray, ...]:
            rows, side = np.nonzero(nearest == j)
            return self._sums(rows, c[rows, side], C[j], T[j])

        parts = list(run(model, range(len(stack))))
        sums, moments, sizes = (np.stack(part) for part in zip(*parts, strict=True))
        gradient = sums - np.matmul(moments, stack)
        return Pass(relative_margin(z_plus, z_minus), nearest, gradient, moments, sizes)

    def _sums(self, rows, c, C, T) -> tuple[NDArray, ...]:
        width = 1 + len(T)
        sums = np.zeros((width, len(C)))
        moments, sizes = np.zeros((width, width)), np.zeros(width)
        for part in batched_slices(len(rows), SAMPLE_ROWS):
            some = self.bundle[rows[part]]
            moved, q = slide(some.points, some.frames, C, T, self.metric.spring)
            ones = np.concatenate([np.ones((len(q), 1), q.dtype), q], axis=1)
            weighted = c[part, None] * ones
            sums += weighted.astype(moved.dtype).T @ moved
            moments += weighted.T @ ones
            sizes += np.abs(c[part]) @ ones**2
        return sums, moments, sizes


@formula
def model_passes(
    points: NDArray,
    frames: NDArray,
    right: NDArray,
    centre: NDArray,
    metric: TangentMetric,
) -> Callable[..., Any]:
    """Prepare samples: what it returns makes a `Pass` of models, weights and a map.

    `right` (n, K) is true where a model has the class of the sample.
    """
    if metric.has_tangents:
        return TwoSidedPass(Bundle(points, frames), right, centre, metric)
    return OneSidedPass(points, right, centre)


def margin_slopes(
    z_plus: NDArray, z_minus: NDArray, gamma: NDArray, tiny: float
) -> tuple[NDArray, NDArray]:
    """Factors c of the residuals of the nearest right and the nearest wrong model.

    Where both distances are rounding (at most `tiny`) the margin has no slope.
    """
    total = z_plus.astype(float) + z_minus
    flat = ~(total > tiny) | np.isinf(total)
    safe = np.where(flat, 1.0, total)
    scale = np.where(flat, 0.0, 4 * gamma / safe)
    plus, minus = np.where(flat, 0, z_plus), np.where(flat, 0, z_minus)
    return scale * (minus / safe), -scale * (plus / safe)


def paper_direction(sums: "Sums", stack: NDArray) -> NDArray:
    """Plain gradient; that of the tangents keeps its part inside the model."""
    direction = sums.gradient.copy()
    direction[:, 1:] += np.matmul(sums.moments[:, 1:, 1:], stack[:, 1:])
    return direction / sums.total


def scaled_rates(sizes: NDArray) -> NDArray:
    """(1 + m,) steps along the gradient: centroids and tangents each by their mass."""
    rates = np.zeros(sizes.shape[1])
    for rows in (slice(0, 1), slice(1, None)):
        mass = sizes[:, rows].mean() if rates[rows].size else 0.0
        if mass > 0:
            rates[rows] = 1 / mass
    return rates


class WeightState(NamedTuple):
    """What a climb knows of the samples of one part, beside the samples.

    `weights` are those that the models were last passed with, `before` those of the
    pass before, and `found` is what the last one found.
    """

    weights: NDArray
    before: NDArray
    found: Pass | None = None


class PassInput(NamedTuple):
    """The samples of one part: what passes over them, and the weights given."""

    passes: Callable[..., Any]
    given: NDArray
    run: Callable = map

    def one_pass(self, stack: NDArray, gamma: NDArray) -> Pass:
        """Pass over the samples with these models and weights."""
        return Pass(*self.passes(stack, gamma, self.run))


def climbing(samples: PassInput) -> WeightState:
    """Return what is known before the first pass."""
    return WeightState(samples.given, samples.given)


class Sums(NamedTuple):
    """What parts add up to: a pass, and what weighs how much."""

    gradient: NDArray
    moments: NDArray
    sizes: NDArray
    # Of the weights, and of their products with the margins; so for those before.
    total: float
    value: float
    total_before: float
    value_before: float
    # Of the weights given: all, times the hinge, of mistakes, and of those below theta.
    given: float
    hinge: float
    wrong: float
    small: float
    n_small: int
    # How many margins lie in each of many intervals.
    counts: NDArray

    @property
    def H(self) -> float:
        """Weighted mean margin."""
        return self.value / self.total


def climb_sums(now: WeightState, theta: float, bins: int, samples: PassInput) -> Sums:
    """Return what a part contributes after a pass, its margins counted in `bins`."""
    found, given = now.found, samples.given
    assert found is not None
    mu = found.margins
    counts = np.histogram(mu, bins, (-1.0, 1.0))[0] if bins else np.zeros(0)
    # Written so that NaN counts.
    small = ~(mu >= theta)
    hinge = given[small] @ (theta - mu[small])
    return Sums(
        *found[2:],
        total=float(now.weights.sum()),
        value=float(now.weights @ mu),
        total_before=float(now.before.sum()),
        value_before=float(now.before @ mu),
        given=float(given.sum()),
        hinge=float(hinge),
        wrong=float(given @ (mu <= 0)),
        small=float(given @ small),
        n_small=int(small.sum()),
        counts=counts,
    )


def climbed(
    now: WeightState,
    stack: NDArray,
    theta: float,
    k: Any,
    bins: int,
    samples: PassInput,
) -> tuple[WeightState, Sums]:
    """Pass once over a part, with weights that have grown where margins are small.

    Weights are not divided by their sum: all that is found is linear in them.
    """
    weights = now.weights
    if now.found is not None and (callable(k) or k != 0):
        weights = reweighted(weights, now.found.margins, theta, k, samples.given)
    found = samples.one_pass(stack, weights)
    after = WeightState(weights, now.weights, found)
    return after, climb_sums(after, theta, bins, samples)


def quantiles_of(margins: NDArray) -> NDArray:
    """Quantiles as NumPy has them, in half its time: there are some after each pass."""
    ranks, beyond = _ranks(len(margins))
    low, high = np.partition(margins, ranks.ravel())[ranks]
    return low + beyond * (high - low)


@lru_cache(maxsize=4)
def _ranks(n: int) -> tuple[NDArray, NDArray]:
    """Say between which ranks of n the quantiles are, and how far beyond the lower."""
    places = np.multiply(QUANTILES, n - 1)
    return np.stack([np.floor(places), np.ceil(places)]).astype(np.intp), places % 1


def quantiles_of_counts(counts: NDArray) -> NDArray:
    """Quantiles of margins from how many lie in each of equal intervals of [-1, 1]."""
    edges = np.linspace(-1, 1, len(counts) + 1)
    shares = np.concatenate([[0], np.cumsum(counts)]) / counts.sum()
    # The smallest is half a margin from nothing; an interval without one ends no part.
    wanted = np.maximum(QUANTILES, 0.5 / counts.sum())
    last = np.searchsorted(shares, wanted)
    part = (wanted - shares[last - 1]) / (shares[last] - shares[last - 1])
    return edges[last - 1] + part * (edges[1] - edges[0])


class Ascent(NamedTuple):
    """The rule of a climb: the samples it is made on, how steps and weights change."""

    # The parts that are summed over, see `Samples.parts`.
    samples: Any
    theta: float
    k: Any
    learning_rate: float | str

    @property
    def adapts(self) -> bool:
        """Whether the step finds its own size."""
        return isinstance(self.learning_rate, str)

    @property
    def _bins(self) -> int:
        """Intervals that margins are counted in, where they stay with their samples."""
        return 0 if self.samples.here is not None else BINS

    def start(self, stack: NDArray) -> State:
        """State of a climb that begins at `stack`.

        `stack`, `climbers` and `sums`, its pass, are always of the last step that was
        not taken back.
        """
        reached = self.samples.map(climbing).step(
            climbed, stack, self.theta, 0, self._bins, zip_with=self.samples
        )
        return {
            **self._reached(stack, *reached),
            "rate": START if self.adapts else float(self.learning_rate),
            "warned": False,
        }

    def _reached(self, stack: NDArray, climbers: Any, sums: Sums) -> State:
        return {
            "stack": stack,
            "climbers": climbers,
            "sums": sums,
            "found": climbers.here and climbers.here.found,
            "H": sums.H,
        }

    def _copies(self, sums: Sums) -> Any:
        """How many copies of a mistake to add; a part does not see all of them."""
        if self.samples.here is not None or self.k != "ratio":
            return self.k
        return sums.given / sums.small if sums.small > 0 else 1.0

    def step(self, state: State) -> State:
        """Climb once; a step that fails is taken back, and the next one is half."""
        stack, sums = state["stack"], state["sums"]
        direction, rates = sums.gradient, np.ones(stack.shape[1])
        if self.adapts:
            rates = scaled_rates(sums.sizes)
        else:
            direction = paper_direction(sums, stack)
        proposal = stack + (state["rate"] * rates)[:, None] * direction
        size, grown = np.abs(stack).sum(), np.abs(proposal).sum()
        # Written so that NaN is too large.
        if not grown <= 1e100 * (size + 1):
            return self._taken_back(state)
        proposal[:, 1:] = retract(proposal[:, 1:])
        reached = state["climbers"].step(
            climbed,
            proposal,
            self.theta,
            self._copies(sums),
            self._bins,
            zip_with=self.samples,
        )
        after = self._reached(proposal, *reached)
        # The same weights before and after: H of the step, not of the re-weighting.
        found = after["sums"]
        if self._fails(state["H"], found.value_before / found.total_before):
            return self._taken_back(state)
        rate = state["rate"] * GROWTH if self.adapts else state["rate"]
        return {**state, **after, "rate": rate}

    def _fails(self, before: float, after: float) -> bool:
        if self.adapts:
            return not after >= before
        # A rate is not wrong because H dips; it is when most of the way down to the
        # worst margin, -1, is gone in one step.
        return not after >= before - 0.5 * (1 + before)

    def _taken_back(self, state: State) -> State:
        if not self.adapts and not state["warned"]:
            warn_caller(
                f"learning_rate={state['rate']:g} diverges on these data: the step is "
                "taken back and halved. Use learning_rate='auto' or a smaller rate.",
                ConvergenceWarning,
            )
        return {**state, "rate": state["rate"] / 2, "warned": True}

    def is_stuck(self, state: State) -> bool:
        """Whether no step is small enough to climb."""
        return self.adapts and state["rate"] < SMALLEST

    def gamma(self, state: State) -> NDArray:
        """Distribution over samples of this process that the models were made by."""
        return state["climbers"].here.weights / state["sums"].total

    def summary(self, state: State) -> dict[str, Any]:
        """One row of a training history: the current models in a few numbers."""
        sums, found = state["sums"], state["found"]
        if found is None:
            quantiles = quantiles_of_counts(sums.counts)
        else:
            quantiles = quantiles_of(found.margins)
        return {
            "loss": sums.hinge / sums.given,
            "H": state["H"],
            "n_theta_mistakes": sums.n_small,
            "train_error": sums.wrong / sums.given,
            "margin_quantiles": quantiles,
            "rate": state["rate"],
        }


class Plateau(NamedTuple):
    """How long ago a value fell for the last time."""

    best: float = np.inf
    waited: int = 0

    def after(self, value: float, tol: float) -> "Plateau":
        """Take in a new value: it has fallen if it is lower by the fraction `tol`."""
        if np.isinf(self.best) or value < self.best - tol * abs(self.best):
            return Plateau(value, 0)
        return Plateau(self.best, self.waited + 1)
