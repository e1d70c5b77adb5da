"""Really transformed images: whole-pixel shifts as functions on samples.

Where a tangent is the direction of a small change, these are the changed images
themselves, for virtual training images, virtual test images and jittering. Each
transformation maps X (n, h·w·c) to an array of the same shape.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from widemargin._core.arrays import is_tensor, xp_of
from widemargin._core.checks import (
    check_background,
    check_count,
    check_flag,
    check_image_shape,
    check_number,
)
from widemargin.tangents.frames import check_samples


class ImageShift(BaseEstimator):
    """Shift every image by whole pixels, filling in the background.

    Parameters
    ----------
    shape : tuple (height, width) or (height, width, channels)
        Shape of one image; a row of `X` is the image flattened in C order.
    down, right : int, default=0
        Pixels to move by; negative moves up or left.
    background : float, default=0.0
        What comes in from outside the image.

    Examples
    --------
    >>> from widemargin.tangents import ImageShift
    >>> ImageShift((2, 2), right=1)([[1.0, 2.0, 3.0, 4.0]])
    array([[0., 1., 0., 3.]])
    """

    def __init__(
        self,
        shape: Sequence[int],
        down: int = 0,
        right: int = 0,
        background: float = 0.0,
    ):
        self.shape = shape
        self.down = down
        self.right = right
        self.background = background

    def __call__(self, X: ArrayLike) -> NDArray:
        """Return the shifted samples."""
        X = check_samples(X)
        shape = check_image_shape(self.shape, "ImageShift", X.shape[1])
        steps = [
            check_count(name, getattr(self, name), low=-(2**31))
            for name in ("down", "right")
        ]
        images = X.reshape(len(X), *shape)
        background = check_background(self.background, X)
        shifted = xp_of(X).full_like(images, background)
        (to_y, from_y), (to_x, from_x) = (
            _overlap(size, step) for size, step in zip(shape[:2], steps, strict=True)
        )
        shifted[:, to_y, to_x] = images[:, from_y, from_x]
        return shifted.reshape(X.shape)


def _overlap(size: int, step: int) -> tuple[slice, slice]:
    step = max(-size, min(size, step))
    return slice(max(step, 0), size + min(step, 0)), slice(
        max(-step, 0), size - max(step, 0)
    )


def image_shifts(
    shape: Sequence[int],
    radius: int = 1,
    *,
    diagonal: bool = True,
    background: float = 0.0,
) -> list[ImageShift]:
    """All shifts by up to `radius` pixels, the image itself left out.

    Parameters
    ----------
    shape : tuple (height, width) or (height, width, channels)
        Shape of one image.
    radius : int, default=1
        Largest shift along each axis.
    diagonal : bool, default=True
        Shift along both axes at once too; else along one at a time.
    background : float, default=0.0
        What comes in from outside the image.

    Returns
    -------
    list of ImageShift
        8 of them for radius 1, 4 without diagonals.

    Examples
    --------
    >>> from widemargin.tangents import image_shifts
    >>> len(image_shifts((16, 16))), len(image_shifts((16, 16), diagonal=False))
    (8, 4)
    """
    check_image_shape(shape, "image_shifts")
    check_number("background", background)
    diagonal = check_flag("diagonal", diagonal)
    steps = range(-check_count("radius", radius, low=0), radius + 1)
    return [
        ImageShift(shape, down, right, background)
        for down in steps
        for right in steps
        if (down or right) and (diagonal or not (down and right))
    ]


def check_transformations(name: str, transformations: Any) -> tuple[Callable, ...]:
    """Return functions X -> X as a tuple; None is none of them.

    `name` is what the caller calls the parameter.
    """
    if transformations is None:
        return ()
    # An iterator is used up by one look: the next would silently find nothing.
    sized = hasattr(transformations, "__len__") and np.ndim(transformations) == 1
    if not sized or not all(map(callable, transformations)):
        raise ValueError(
            f"{name} must be a sequence of functions X -> X, such as a list or "
            f"image_shifts(shape=(16, 16)); got {transformations!r}."
        )
    return tuple(transformations)


def copies(
    X: NDArray, transformations: Sequence[Callable], name: str
) -> Iterator[NDArray]:
    """Yield the samples transformed by one function after the other."""
    for transformation in transformations:
        out = transformation(X)
        if not (is_tensor(X) and is_tensor(out)):
            out = np.asarray(out, dtype=None if is_tensor(X) else X.dtype)
        if is_tensor(X):
            out = xp_of(X).as_tensor(out, dtype=X.dtype, device=X.device)
        if out.shape != X.shape or not xp_of(X).isfinite(out).all():
            raise ValueError(
                f"each of {name} must return finite samples of the shape it is given, "
                f"{tuple(X.shape)}; {transformation!r} returned shape "
                f"{tuple(out.shape)}."
            )
        yield out
