"""Which compiled kernel stands in for which formula, and from what size on.

A *formula* is a pure function of arrays, decorated by `formula`. It is the code to
read, the oracle of the tests, and what runs where nothing stands in for it. An *engine*
does the same faster: a kernel that numba compiles, which takes seconds, once per
machine. `ENGINES` lists them all, and `formula` is the one place that asks it.

A kernel is worth its compilation where the calls of some thirty fits of thirty epochs,
a thousand, save more seconds than it takes:

    calls * saves(*arguments) >= compiles.

Where "auto" tries sizes by short trainings, a fit has more calls; a matrix of distances
has fewer. That depends on the arguments alone and never on what was compiled before: a
new process and an old one give the same bits. A formula that answers questions is
called with one sample or with many, so its engine must return the same bits as the
formula does, or be chosen by the references alone. One that trains a model need not:
all calls of a fit are of one size.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
# Calls that have to pay for a compilation, and those where fits try sizes first.
CALLS, WITH_TRIALS = 1000, 2500
FLOATS = (np.float32, np.float64)


def in_memory(*arguments: Any) -> bool:
    """Whether all arrays are NumPy's, and all floats of one dtype that kernels know."""
    arrays = [a for a in arguments if hasattr(a, "dtype") and np.ndim(a)]
    if not all(isinstance(a, np.ndarray) for a in arrays):
        return False
    floats = {a.dtype for a in arrays if a.dtype.kind == "f"}
    return len(floats) < 2 and all(kind in FLOATS for kind in floats)


# Losses of `margins.losses` that `_compute.lvq.loss_and_slope` has, by number.
LOSSES = {"Hinge": 0, "Ramp": 1, "Exponential": 2, "Sigmoid": 3, "LinearLoss": 4}


def is_compiled(loss: Any) -> bool:
    """Whether kernels know the loss; a class derived from such a one is another."""
    kind = type(loss)
    return kind.__module__ == "widemargin.margins.losses" and kind.__name__ in LOSSES


def compiled_loss(loss: Any) -> tuple[int, float]:
    """Return what kernels know a loss by: its number and its scale."""
    return LOSSES[type(loss).__name__], float(getattr(loss, "beta", 1.0))


def of_plain_rows(rows: Any, loss: Any, *rest: Any) -> bool:
    """Whether rows are here, in memory, and kernels know their loss."""
    return rows is not None and in_memory(rows.X) and is_compiled(loss)


def on_device(*arguments: Any) -> bool:
    """Whether some of the arguments are tensors."""
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(a, torch.Tensor) for a in arguments)


def nothing(*arguments: Any) -> float:
    """Save no time: what needs no compilation is always taken."""
    return 0.0


class Engine(NamedTuple):
    """A kernel, the seconds it compiles and saves, and whether it takes arguments.

    `kernel` is a module of `_compute` and a name in it, or a module whose functions
    stand in together for those of a module of formulas. What needs no compilation, as
    code for a device does not, stands in wherever it takes the arguments. `calls` are
    those that have to pay for a compilation: how often thirty fits call the formula,
    where it is called once an epoch a thousand times.
    """

    kernel: str
    compiles: float = 0.0
    saves: Callable[..., float] = nothing
    takes: Callable[..., bool] = in_memory
    calls: int = CALLS

    def load(self) -> Any:
        """Import the kernel, and numba or torch with it."""
        module, _, name = self.kernel.partition(":")
        found = import_module(f"widemargin._compute.{module}")
        return getattr(found, name) if name else found

    def stands_in(self, *arguments: Any) -> bool:
        """Whether the kernel takes the arguments, and is worth its compilation."""
        if not self.takes(*arguments) or (_choice == "formulas" and self.compiles):
            return False
        paid = self.calls * self.saves(*arguments) >= self.compiles
        return paid or _choice == "engines"


def floats_in_memory(*arguments: Any) -> bool:
    """Whether all arrays are NumPy's, and all floats of dtypes that kernels know."""
    arrays = [a for a in arguments if hasattr(a, "dtype") and np.ndim(a)]
    return all(isinstance(a, np.ndarray) for a in arrays) and all(
        a.dtype in FLOATS for a in arrays if a.dtype.kind == "f"
    )


def saved_by_elimination(
    x: Any, x_frames: Any, y: Any, y_frames: Any, pass_size: int | None = None
) -> float:
    """Seconds that kernels save where samples meet all y.

    These are those of a pass; without passes as many as there are references, or more:
    an answer is not made otherwise because others are asked for with it.
    """
    n = max(len(x), len(y)) if pass_size is None else pass_size
    return 1.5e-9 * n * len(y) * (1 + x_frames.shape[1]) * (1 + y_frames.shape[1])


def saved_by_search(
    material: Any, x: Any, x_frames: Any, y: Any, y_frames: Any, *rest: Any
) -> float:
    """Seconds that kernels save where references meet as many queries as they are."""
    return saved_by_elimination(y, x_frames, y, y_frames)


def in_a_pass(batches: list) -> int:
    """Return how many batches the rows have, which trials pass several times."""
    return len({rows.start for rows, _ in batches})


# Seconds were measured on two cores of an EPYC; sizes are those of the arguments.
ENGINES: dict[str, Engine | tuple[Engine, ...]] = {
    # Of pairs of samples with tangents. Matrices of distances are seldom made again and
    # again: ten of them pay for a compilation.
    "elimination": Engine("tangent_elimination", 4.0, saved_by_elimination, calls=10),
    "elimination of a pass": Engine("tangent_elimination", 4.0, saved_by_elimination),
    **{
        name: Engine(f"search:{name}", 4.0, saved_by_search, floats_in_memory, calls=10)
        for name in ("nearest_under_bounds", "nearest_of_candidates")
    },
    "project_midpoints": Engine(
        "tangent_elimination:project_midpoints",
        1.0,
        lambda products, *rest: 1e-8 * products[2].size,
        lambda products, *rest: in_memory(*products),
        calls=10,
    ),
    "projected": Engine(
        "frames:projected",
        1.5,
        lambda frames, axes: 1.5e-8 * len(frames) * frames.shape[1] * len(axes),
        floats_in_memory,
    ),
    "best_moves": Engine(
        "frames:best_moves",
        2.5,
        lambda delta, x_frames, y_frames, spring: (
            2e-9 * delta.size * (x_frames.shape[1] + y_frames.shape[1])
        ),
        lambda delta, x_frames, y_frames, spring: in_memory(delta),
    ),
    # Of hyperplanes. A step is an orthonormal basis of the active patterns.
    "solve_working_set": Engine(
        "active_set:solve_working_set",
        8.0,
        lambda Z, *_: 1e-5 * len(Z) + 1e-11 * len(Z) ** 3 * Z.shape[1],
    ),
    # Most sweeps are never made: 150 irises take .15 s where .01 would do. The formula
    # has all products of patterns.
    "sweep": Engine(
        "sequential:sweep",
        2.6,
        lambda rows, factors, walk, rule, show, limits, *rest: (
            limits.most * len(factors) * (1e-8 + 1e-11 * len(walk.v))
            + len(factors) ** 2 * (1e-9 + 1e-10 * len(walk.v))
        ),
    ),
    "class_minima": Engine(
        "lvq:class_minima", 0.7, lambda D, codes, n_classes: 2e-9 * D.size
    ),
    "doubtful": Engine(
        "lvq:doubtful", 1.4, lambda D, x_errors, p_errors, rtol: 6e-9 * D.size
    ),
    "nearest_rows": Engine(
        "glvq:nearest_rows", 3.7, lambda X, P: 2e-10 * X.size * len(P)
    ),
    # A presentation is ten requests of NumPy's.
    **{
        name: Engine(
            f"lvq:{name}",
            2.6,
            lambda moving, shown, *rest: (
                len(shown.order) * (1e-5 + 1e-9 * moving.P.size)
            ),
            lambda moving, shown, *rest: in_memory(moving.P, shown.X),
        )
        for name in ("lvq1_epoch", "window_epoch", "pair_epoch")
    },
    "margin_coefficients": Engine(
        "lvq:margin_coefficients",
        1.5,
        lambda P, bounds, X, *rest: 1e-9 * P.size * len(X),
        lambda P, bounds, X, *rest: in_memory(P, X),
    ),
    "margin_epoch": Engine(
        "lvq:margin_epoch",
        12.0,
        lambda P, bounds, box, shown, *rest: len(shown.order) * (6e-5 + 1e-9 * P.size),
        lambda P, bounds, box, shown, loss, *rest: (
            in_memory(P, shown.X) and is_compiled(loss)
        ),
    ),
    # Of TVQ: frames after a step, and a pass over samples that stay put.
    "retract": Engine(
        "frames:retract",
        1.0,
        lambda frames: frames.shape[1] * (2e-5 + 5e-10 * frames.size),
    ),
    "one_sided": Engine(
        "models:one_sided",
        5.0,
        lambda X, norms, right, gamma, stack, tiny: (
            5e-5 * len(stack) + 4e-9 * len(X) * stack.shape[0] * stack.shape[1]
        ),
        lambda X, norms, right, gamma, stack, tiny: in_memory(X),
    ),
    # A batch is thirty requests of NumPy's, and some passes over its distances. Trials
    # are six or more, of a hundred steps.
    "glvq_pass": Engine(
        "glvq:glvq_pass",
        4.4,
        lambda rows, loss, descent, state, units, batches: (
            1e-4 * in_a_pass(batches) + 8e-9 * len(rows.X) * len(state["prototypes"])
        ),
        of_plain_rows,
        WITH_TRIALS,
    ),
    "gmlvq_pass": Engine(
        "glvq:gmlvq_pass",
        9.0,
        lambda rows, loss, descent, state, units, batches: (
            2e-4 * in_a_pass(batches) + 8e-9 * len(rows.X) * len(state["prototypes"])
        ),
        of_plain_rows,
        WITH_TRIALS,
    ),
    "run_batches": Engine(
        "device.replay:run_batches",
        takes=lambda descent, state, units, batches: descent.device is not None,
    ),
    # Of tangent models on a device.
    **{
        name: Engine(f"device.models:{name}", takes=on_device)
        for name in (
            "class_means",
            "weighted_moments",
            "leading_directions",
            "model_passes",
            "slide",
        )
    },
    # Frames and differences between neighbours on a device, and signals.
    **{
        name: Engine(f"device.pairs:{name}", takes=on_device)
        for name in ("all_pairs", "midpoint_distances")
    },
    **{
        name: Engine(f"device.distortion:{name}", takes=on_device)
        for name in ("distortion_pairs", "pseudo_2d_pairs")
    },
    "fill_blocks": Engine("device.pairs:fill_blocks", takes=on_device),
    # By the size of one frame, so that all are made alike; a call has a hundred.
    "orthonormal": (
        Engine("device.pairs:gram_schmidt", takes=on_device),
        Engine(
            "frames:orthonormal",
            1.5,
            lambda tangents, rtol: 1.5e-7 * tangents.shape[1] * tangents.shape[2],
            lambda tangents, rtol: in_memory(tangents),
            calls=10_000,
        ),
    ),
    "nearest_points": Engine("device.search:nearest_points", takes=on_device),
    "correlate": Engine("device.models:correlate", takes=on_device),
    "row_keys": Engine("device.search:row_keys", takes=on_device),
    "mapped_distances": Engine("device.search:mapped_distances", takes=on_device),
    "nearest_of": Engine("device.search:nearest_of", takes=on_device),
    "tangent_index": Engine("device.search:tangent_index", takes=on_device),
    "log_sums": Engine("device.search:log_sums", takes=on_device),
    "by_function": Engine("device.pairs:by_function", takes=on_device),
    "point_distances": Engine("device.search:point_distances", takes=on_device),
}

Choice = Literal["worth it", "engines", "formulas"]
# Of the process and not of a context: threads of a fit must choose as it does.
_choice: Choice = "worth it"


@contextmanager
def chosen(choice: Choice) -> Iterator[None]:
    """Take every engine that takes the arguments, or none, whatever it is worth."""
    global _choice
    before, _choice = _choice, choice
    try:
        yield
    finally:
        _choice = before


def listed(name: str) -> tuple[Engine, ...]:
    """Return the engines of a formula."""
    found = ENGINES.get(name, ())
    return (found,) if isinstance(found, Engine) else found


def engine_for(name: str, *arguments: Any) -> Any:
    """Return the engine that stands in for a formula, None for the formula itself."""
    for engine in listed(name):
        if engine.stands_in(*arguments):
            return engine.load()
    return None


_homes: dict[str, str] = {}


def formula(function: Function) -> Function:
    """Decorate a formula: its engine stands in for it where that is worth it.

    It is called with positional arguments; ``formula.__wrapped__`` is the function.
    `ENGINES` knows formulas by name, so that no two may have the same.
    """
    home = _homes.setdefault(function.__name__, function.__module__)
    if home != function.__module__:
        raise TypeError(f"there is a formula {function.__name__} in {home} already")

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return (engine_for(function.__name__, *arguments) or function)(*arguments)

    return call  # type: ignore[return-value]
