"""What bends the inputs, as maps: tangents that are affine or quadratic in a sample.

An affine generator is known by what it gives to zero and to the unit vectors, so that
any generator that is affine can be carried, ours or not. Of the others only the
thickness of :class:`~widemargin.tangents.ImageTangents` can: it is the sum of the
squares of two affine tangents.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.export.program import (
    InputTangents,
    Project,
    References,
    Step,
    refuse,
)
from widemargin.tangents import (
    Bundle,
    ImageTangents,
    TangentGenerator,
    TangentUnion,
)

# A float64 tangent whose rest is below this share of its length depends on others.
RTOL = float(np.finfo(np.float64).eps ** (2 / 3))


def input_tangents(model: Any, generator: Any, n_features: int) -> InputTangents:
    """Describe what bends the inputs of a model, or refuse."""
    found = [_described(model, part, n_features) for part in _parts(generator)]
    squares = [part for part in found if part.squares is not None]
    if len(squares) > 1:
        raise refuse(model, "more than one of its tangents is quadratic in the input")
    maps = np.concatenate([part.maps for part in found])
    offset = np.concatenate([part.offset for part in found])
    last = squares[0] if squares else InputTangents(maps, offset)
    return InputTangents(maps, offset, last.squares, last.square_offset, RTOL)


def _parts(generator: Any) -> list[Any]:
    if not isinstance(generator, TangentUnion):
        return [generator]
    return [one for part in generator.generators_ for one in _parts(part)]


def _described(model: Any, generator: Any, n_features: int) -> InputTangents:
    if not isinstance(generator, TangentGenerator):
        if hasattr(generator, "tangents"):
            raise refuse(
                model, f"nothing is known of tangents by {type(generator).__name__}"
            )
        rows = np.atleast_2d(np.asarray(generator, float))
        return InputTangents(np.zeros((len(rows), *[n_features] * 2)), rows)
    if generator.is_affine:
        return InputTangents(*_probed(generator, n_features))
    if type(generator) is not ImageTangents:
        raise refuse(
            model,
            f"tangents by {type(generator).__name__} are not affine in the input",
        )
    others = [name for name in generator._names() if name != "thickness"]
    maps, offset = np.empty((0, *[n_features] * 2)), np.empty((0, n_features))
    if others:
        maps, offset = _probed(_with(generator, others), n_features)
    gradient = _probed(_with(generator, ["x_shift", "y_shift"]), n_features)
    return InputTangents(maps, offset, *gradient)


def _with(generator: ImageTangents, names: list[str]) -> ImageTangents:
    return ImageTangents(
        generator.shape, tuple(names), generator.sigma, generator.background
    )


def _probed(generator: Any, n_features: int) -> tuple[NDArray, NDArray]:
    """(l, d, d) matrices and (l, d) offsets of an affine generator."""
    offset = generator.tangents(np.zeros((1, n_features)))[0]
    # By unit vector, tangent, feature.
    images = generator.tangents(np.eye(n_features)) - offset
    return np.ascontiguousarray(images.transpose(1, 2, 0)), offset


def bend(
    model: Any,
    bundle: Bundle,
    generator: Any,
    sides: str,
    spring: float,
    *,
    mirrored: bool = False,
) -> tuple[References, tuple[Step, ...]]:
    """Return the references of a bundle, and the step that a shared frame becomes.

    `mirrored` distances with tangents at one end are also taken at the other.
    """
    if sides == "midpoint":
        raise refuse(model, "sides='midpoint' needs the tangents of every pair")
    points, d = bundle.points, bundle.points.shape[1]
    if not bundle.n_tangents:
        return References(points), ()
    if bundle.is_shared:
        # One frame for all is a linear map; at both ends the springs are in series.
        k = spring / 2 if sides == "two" else spring
        V = np.asarray(bundle.frames[0], float)
        fold = np.eye(d) - (1 - np.sqrt(1 - 1 / (1 + k))) * V.T @ V
        centre = points.mean(axis=0, dtype=float)
        return References((points - centre) @ fold.T), (Project(centre, fold),)
    tangents = None
    if sides != "y" or mirrored:
        tangents = input_tangents(model, generator, d)
    return References(points, bundle.frames, tangents, sides, float(spring)), ()
