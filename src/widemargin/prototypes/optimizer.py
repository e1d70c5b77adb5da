"""Adam, on batches of consecutive rows: one formula for NumPy, tensors and Dask.

``m`` and ``v`` are running means of the gradient and of its square; the direction is
``m_hat sqrt(v_hat) / (v_hat + epsilon^2)`` with both corrected for their start at zero,
epsilon being 1e-5 of the largest root of v_hat. A coordinate moves by at most about one
unit per step, so a unit chosen from the spread of the data makes one learning rate do
for data of any scale.

A state is a dict. The parameter "p" has its moments at "p_m" and "p_v", in its shape,
and at "p_t" the number of steps so far.

Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from widemargin._compute.engines import formula
from widemargin._core.arrays import (
    in_dtype,
    largest_of,
    numpy_dtype,
    to_device,
    to_numpy,
    xp_of,
)

State = dict[str, Any]
# A slice of the rows, and the learning rate there.
Batch = tuple[slice, float]
FORGET, FORGET_SQUARES = 0.9, 0.999
# Epsilon, as a share of the largest gradient: what is smaller by far is rounding,
# depends on the order of a sum, and is not worth a step.
LEAST_GRADIENT = 1e-5
# A number of every dtype.
TINY = 2e-38


def moments_of(name: str) -> tuple[str, str, str]:
    """Where a state has the moments of the parameter `name`, and the steps so far."""
    return f"{name}_m", f"{name}_v", f"{name}_t"


def start(name: str, like: Any) -> State:
    """Moments before the first step of the parameter `name`."""
    values = np.zeros_like(like), np.zeros_like(like), 0
    return dict(zip(moments_of(name), values, strict=True))


def grow(state: State, name: str, like: Any) -> State:
    """Moments of a parameter that has gained rows."""
    m, v, t = moments_of(name)
    grown = start(name, like) | {t: state[t]}
    for key in (m, v):
        grown[key][: len(state[key])] = state[key]
    return grown


def edited(
    state: State, kept: np.ndarray, codes: np.ndarray, added: dict[str, np.ndarray]
) -> State:
    """Return a state with the prototypes that are kept, and those `added`.

    By the name of each parameter with a row per prototype `added` has its new rows,
    of the classes `codes`; their moments begin anew.
    """
    if kept.all() and not len(codes):
        return state
    for name, rows in added.items():
        m, v, _ = moments_of(name)
        some = {**state, m: state[m][kept], v: state[v][kept]}
        parameter = np.concatenate([state[name][kept], rows])
        state = {**some, **grow(some, name, parameter), name: parameter}
    return {**state, "codes": np.concatenate([state["codes"][kept], codes])}


def adam(
    state: State,
    name: str,
    gradient: Any,
    forget: float = FORGET,
    forget_squares: float = FORGET_SQUARES,
) -> tuple[State, Any]:
    """Take in one gradient; return the new moments and the direction of ascent.

    Where every gradient so far was zero the direction is zero; where it was
    `LEAST_GRADIENT` of the largest, it is half of what it would be.
    """
    m, v, t = (state[key] for key in moments_of(name))
    xp, t = xp_of(gradient), t + 1
    gradient = in_dtype(gradient, numpy_dtype(m))
    m = forget * m + (1 - forget) * gradient
    v = forget_squares * v + (1 - forget_squares) * gradient * gradient
    # Squares may be so small that `LEAST_GRADIENT` of them vanishes.
    floor = LEAST_GRADIENT * LEAST_GRADIENT * xp.max(v)
    floor = xp.where(floor > 0, floor, TINY)
    steps = t if isinstance(t, int) else xp.asarray(t, dtype=xp.float64)
    scale = (1 - forget_squares**steps) ** 0.5 / (1 - forget**steps)
    scale = scale if isinstance(t, int) else in_dtype(scale, numpy_dtype(m))
    # A root by its square: at most one over the root, which is a number.
    ascent = scale * m * (v**0.5 / (v + floor))
    return dict(zip(moments_of(name), (m, v, t), strict=True)), ascent


class Sums(NamedTuple):
    """What samples contribute to one step: add those of shards."""

    loss: Any
    wins: Any
    # By the name of the parameter.
    gradients: dict[str, Any]


@dataclass(eq=False)
class Descent:
    """Steps of Adam down the sums over batches.

    ``sums(state, rows)`` are the `Sums` of a batch, a slice or numbers of rows, where
    the samples are: on `device`, None for NumPy. The parameter "p", one of `names`,
    moves by the rate times ``state["p_unit"]``. Steps are `recordable` if they look at
    no number on the way.
    """

    least: ClassVar[float] = LEAST_GRADIENT

    sums: Callable[[State, Any], Sums]
    names: tuple[str, ...]
    device: Any = None
    recordable: bool = False
    # What the parameters of a name become after a step, where not all may be.
    project: dict[str, Callable[[Any], Any]] = field(default_factory=dict)

    def step(self, now: State, rows: Any, rate: Any) -> State:
        """Return what one batch changes of the state."""
        found = self.sums(now, rows)
        after = {"loss": now["loss"] + found.loss, "wins": now["wins"] + found.wins}
        for name in self.names:
            moments, ascent = adam(now, name, found.gradients[name])
            moved = now[name] - rate * now[f"{name}_unit"] * ascent
            project = self.project.get(name)
            after |= {**moments, name: project(moved) if project else moved}
        return after


@formula
def run_batches(
    descent: Descent, state: State, units: dict[str, Any], batches: list[Batch]
) -> tuple[State, float, np.ndarray]:
    """Pass over batches; return the next state, the summed loss and the wins.

    States are NumPy's, before and after. `units` are what one unit of a step is.
    """
    wins = np.zeros(len(state["prototypes"]), dtype=np.int64)
    given = {f"{name}_unit": unit for name, unit in units.items()}
    now = {**state, **given, "loss": 0.0, "wins": wins}
    now = {key: to_device(value, descent.device) for key, value in now.items()}
    for rows, rate in batches:
        now |= descent.step(now, rows, rate)
    after = {key: to_numpy(now[key]) for key in state}
    return after, float(now["loss"]), to_numpy(now["wins"])


def batch_edges(size: int, n: int) -> np.ndarray:
    """Where batches of at most `size` of n rows begin, and the end."""
    return np.linspace(0, n, -(-n // size) + 1).astype(np.intp)


def shuffled_batches(
    size: int,
    rate: float,
    n: int,
    rng: np.random.RandomState,
    epoch: int,
    n_epochs: float,
) -> Iterator[Batch]:
    """Consecutive rows in random order, and the learning rate of each batch.

    The rows themselves were shuffled once.
    """
    pieces = list(pairwise(batch_edges(size, n).tolist()))
    for t, i in enumerate(rng.permutation(len(pieces)), epoch * len(pieces)):
        now = rate * (1 - t / (n_epochs * len(pieces)))
        # A Python number: it leaves the dtype of what it multiplies.
        yield slice(*pieces[i]), float(now)


@contextmanager
def stepping() -> Iterator[None]:
    """Let steps leave the numbers: a rate may be too large, which `is_sound` tells."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        yield


def is_sound(model: Any, state: State) -> bool:
    """Whether a state has finite numbers, and prototypes with finite distances."""
    numbers = (v for v in state.values() if isinstance(v, float | np.ndarray))
    if not all(bool(np.isfinite(value).all()) for value in numbers):
        return False
    if "prototypes" not in state:
        return True
    P = model._transform_prototypes(state["prototypes"])
    # They may leave the room of the samples.
    return largest_of(P) <= (1e150 if numpy_dtype(P) == np.float64 else 1e16)
