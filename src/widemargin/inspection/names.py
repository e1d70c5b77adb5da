"""What the tangents of a generator are called, for the labels of a picture."""

from typing import Any

from widemargin.tangents.signal import BASELINES

SIMARD7 = (
    "x_shift",
    "y_shift",
    "scaling",
    "rotation",
    "axis_deformation",
    "diagonal_deformation",
    "thickness",
)


def tangent_names(generator: Any, n_tangents: int) -> list[str]:
    """Return a name for every tangent, numbers where the generator has no names."""
    names = [name.replace("_", " ") for name in _known_names(generator)]
    if len(names) == n_tangents:
        return names
    return [f"tangent {k + 1}" for k in range(n_tangents)]


def _known_names(generator: Any) -> list[str]:
    if hasattr(generator, "directions"):
        return _direction_names(generator)
    if hasattr(generator, "functions"):
        functions = generator.functions
        functions = [functions] if callable(functions) else list(functions)
        return [_function_name(f, k) for k, f in enumerate(functions)]
    if hasattr(generator, "generators"):
        parts = getattr(generator, "generators_", None) or [
            part[1] if isinstance(part, tuple) else part
            for part in generator.generators
        ]
        return [name for part in parts for name in _part_names(part)]
    return []


def _part_names(part: Any) -> list[str]:
    return tangent_names(part, part.n_tangents)


def _direction_names(generator: Any) -> list[str]:
    directions = generator.directions
    if isinstance(directions, str):
        directions = SIMARD7 if directions == "simard7" else (directions,)
    channels = getattr(generator, "n_channels", 1)
    names = []
    for name in directions:
        if channels > 1 and name in BASELINES:
            names += [f"{name} {channel + 1}" for channel in range(channels)]
        else:
            names.append(name)
    return names


def _function_name(function: Any, k: int) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return f"function {k + 1}" if name in ("<lambda>", "partial") else name
