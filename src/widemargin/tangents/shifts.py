"""Really transformed images, as functions on samples.

Shifts by whole pixels, and rotations and stretches about the centre.

Where a tangent is the direction of a small change, these are the changed images
themselves, for virtual training images, virtual test images and jittering. Each
transformation maps X (n, h·w·c) to an array of the same shape.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, eye_array, kron
from sklearn.base import BaseEstimator

from widemargin._core.arrays import is_tensor, numpy_dtype, put, xp_of
from widemargin._core.checks import (
    check_background,
    check_count,
    check_flag,
    check_image_shape,
    check_number,
)
from widemargin.tangents.bundle import check_samples


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


class ImageAffine(BaseEstimator):
    """Turn and stretch every image about its centre, linearly between pixels.

    Parameters
    ----------
    shape : tuple (height, width) or (height, width, channels)
        Shape of one image; a row of `X` is the image flattened in C order.
    rotation : float, default=0.0
        Angle in radians, counter-clockwise as images are shown.
    down, right : float, default=1.0
        Factors by which the image grows along its columns and its rows, before it
        turns.
    background : float, default=0.0
        What comes in from outside the image.

    See Also
    --------
    image_affines : A few small ones.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import ImageAffine
    >>> ImageAffine((3, 3), rotation=np.pi / 2)([[0, 0, 0, 1, 2, 3, 0, 0, 0]]).round()
    array([[0., 3., 0., 0., 2., 0., 0., 1., 0.]])
    """

    def __init__(
        self,
        shape: Sequence[int],
        rotation: float = 0.0,
        down: float = 1.0,
        right: float = 1.0,
        background: float = 0.0,
    ):
        self.shape = shape
        self.rotation = rotation
        self.down = down
        self.right = right
        self.background = background

    def __call__(self, X: ArrayLike) -> NDArray:
        """Return the transformed samples."""
        X = check_samples(X)
        sides = check_image_shape(self.shape, "ImageAffine", X.shape[1])
        background = check_background(self.background, X)
        matrix = self._matrix(*(*sides, 1)[:3]).astype(numpy_dtype(X))
        if is_tensor(X):
            return (X - background) @ put(matrix.toarray().T, X.device) + background
        return np.ascontiguousarray((matrix @ (X - background).T).T) + background

    def _matrix(self, height: int, width: int, channels: int) -> csr_array:
        """Return the weights of given pixels (columns) in new ones (rows)."""
        angle = check_number("rotation", self.rotation)
        factors = [
            check_number(name, getattr(self, name), above=0)
            for name in ("down", "right")
        ]
        middle = np.array([height - 1, width - 1])[:, None] / 2
        new = np.indices((height, width)).reshape(2, -1)
        turn = np.array(
            [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        )
        # Where each new pixel was before, between which given ones.
        with np.errstate(over="ignore"):
            before = turn @ (new - middle) / np.array(factors)[:, None] + middle
        before = np.clip(before, -2, np.array([[height], [width]]) + 1)
        corner = np.floor(before)
        share = before - corner
        matrix = csr_array((height * width, height * width))
        for step in np.ndindex(2, 2):
            r, c = (corner + np.array(step)[:, None]).astype(int)
            weights = np.where(np.array(step)[:, None], share, 1 - share).prod(axis=0)
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            rows, columns = np.flatnonzero(inside), (r * width + c)[inside]
            matrix += csr_array((weights[inside], (rows, columns)), matrix.shape)
        return csr_array(kron(matrix, eye_array(channels)))


def image_affines(
    shape: Sequence[int],
    rotation: float = 0.12,
    growth: float = 1.15,
    *,
    background: float = 0.0,
) -> list[ImageAffine]:
    """Turn to both sides; stretch and shrink along either axis.

    Parameters
    ----------
    shape : tuple (height, width) or (height, width, channels)
        Shape of one image.
    rotation : float, default=0.12
        Angle of the turns in radians.
    growth : float, default=1.15
        Factor of the stretches; the shrinkages are by one over it.
    background : float, default=0.0
        What comes in from outside the image.

    Returns
    -------
    list of ImageAffine
        Six of them; with the image itself there are seven versions of it.

    Examples
    --------
    >>> from widemargin.tangents import image_affines
    >>> len(image_affines((16, 16)))
    6
    """
    check_image_shape(shape, "image_affines")
    rotation = check_number("rotation", rotation)
    growth = check_number("growth", growth, above=0)
    check_number("background", background)
    factors = [growth, 1 / growth]
    return [
        *(ImageAffine(shape, a, background=background) for a in (rotation, -rotation)),
        *(ImageAffine(shape, down=f, background=background) for f in factors),
        *(ImageAffine(shape, right=f, background=background) for f in factors),
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
