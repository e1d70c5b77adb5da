r"""Images that move: what shifts, rotations and thicker strokes do to them.

A displacement field moves the image, :math:`t(x, p)(u) = x(u + p\,f(u))`, so that its
tangent is the field times the gradient, :math:`f_x g_x + f_y g_y`. With centred
coordinates X, Y in units of half the image size the six fields of Simard span all
affine maps; thickness, :math:`g_x^2 + g_y^2`, is the seventh direction.

=====================  =============================  =========
direction              tangent                        in x
=====================  =============================  =========
x_shift                :math:`g_x`                    linear
y_shift                :math:`g_y`                    linear
scaling                :math:`X g_x + Y g_y`          linear
rotation               :math:`Y g_x - X g_y`          linear
axis_deformation       :math:`X g_x - Y g_y`          linear
diagonal_deformation   :math:`Y g_x + X g_y`          linear
thickness              :math:`g_x^2 + g_y^2`          quadratic
brightness             1                              constant
contrast               x                              linear
blur                   :math:`g_{xx} + g_{yy}`        linear
=====================  =============================  =========

Here x is the image less its background, and the derivatives are those of the image
smoothed by a Gaussian. Arrays: X (n, h·w·c), tangents (n, l, h·w·c), channels last.

Where a tangent is the direction of a small change, `ImageShift` and `ImageAffine` are
the changed images themselves, for virtual training images, virtual test images and
jittering: shifts by whole pixels, rotations and stretches about the centre.

Reference: Simard, LeCun, Denker, Victorri: Transformation invariance in pattern
recognition: tangent distance and tangent propagation (1998).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator

from widemargin._compute.machine import PAIR_ROWS, batched_slices
from widemargin._core.arrays import (
    ArrayDispatchMixin,
    beside,
    numpy_dtype,
    place_of,
    to_device,
    xp_of,
)
from widemargin._core.checks import (
    check_background,
    check_count,
    check_flag,
    check_image_shape,
    check_number,
    check_sides,
    warn_of_paper,
)
from widemargin._core.params import Count, Finite, Positive, check_declared, parameters
from widemargin.tangents.bundle import Blocks, as_samples, like
from widemargin.tangents.generator import (
    DEVICE_METHODS,
    DirectionalTangents,
    check_sigma,
)
from widemargin.tangents.preparing import filter_matrix

FIELDS: dict[str, Callable] = {
    "x_shift": lambda x, y: (x * 0 + 1, x * 0),
    "y_shift": lambda x, y: (x * 0, x * 0 + 1),
    "scaling": lambda x, y: (x, y),
    "rotation": lambda x, y: (y, -x),
    "axis_deformation": lambda x, y: (x, -y),
    "diagonal_deformation": lambda x, y: (y, x),
}


@parameters
class ImageTangents(DirectionalTangents):
    """Tangents of images under small geometric and tonal changes.

    Parameters
    ----------
    shape : tuple (height, width) or (height, width, channels)
        Shape of one image; a row of `X` is the image flattened in C order.
    directions : str or sequence of str, default="simard7"
        "simard7" for the first seven of "x_shift", "y_shift", "scaling", "rotation",
        "axis_deformation", "diagonal_deformation", "thickness", "brightness",
        "contrast", "blur"; or one name; or several.
    sigma : float or "auto", default="auto"
        Standard deviation, in pixels, of the Gaussian that smooths the image before it
        is differentiated; 0 takes central differences of the image as it is. "auto" is
        ``0.2 * sqrt(min(height, width))``: 0.57 at 8×8, 0.8 at 16×16, 1.06 at 28×28.
    background : float, default=0.0
        Value of the image outside its borders: 0 for images in [0, 1] on black,
        -1 for images in [-1, 1] on black.

    Notes
    -----
    A shift of p is p pixels. The other displacements are p pixels at a border of the
    longer side: equal coefficients mean changes of equal size.

    The factor 0.2 of "auto" was chosen on training data, for two-sided nearest
    neighbours. It had the fewest errors at 16×16 (USPS) and 28×28 (MNIST), and within
    0.2 points of the fewest at 8×8 (digits). ``python benchmarks/tangents.py --sigma``
    prints the table.

    Contrast is for distances with tangents at one end. With tangents at both ends two
    images can both fade into the background. Every distance is then nearly zero, unless
    a spring holds them. Distances and estimators warn of it. On digits with the default
    spring of 1e-5 the nearest neighbour has 90 % errors then, and 0.8 % with
    ``sides="mean"``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import ImageTangents
    >>> ramp = np.tile(np.arange(5.0), (5, 1))
    >>> generator = ImageTangents(shape=(5, 5), directions="x_shift", sigma=0)
    >>> generator.tangents(ramp.reshape(1, -1)).reshape(5, 5)[2, 1:-1]
    array([1., 1., 1.])
    """

    device_methods = DEVICE_METHODS
    _known = (*FIELDS, "thickness", "brightness", "contrast", "blur")
    _presets: ClassVar = {"simard7": (*FIELDS, "thickness")}
    _not_linear: ClassVar = {
        "thickness": "is quadratic in the image",
        "brightness": "is the same for every image",
    }

    shape: Sequence[int] | None = None
    directions: str | Sequence[str] = "simard7"
    sigma: float | Literal["auto"] = "auto"
    background: float = 0.0

    @property
    def n_tangents(self) -> int:
        """Number of directions."""
        return len(self._names())

    @property
    def is_affine(self) -> bool:
        """Whether the tangents are affine in the image: all but thickness are."""
        return "thickness" not in self._names()

    def _linear(self, name: str, vectors: NDArray, transpose: bool) -> NDArray:
        grid = self._grid(vectors)
        return grid.flatten(grid.linear(name, grid.unflatten(vectors), transpose))

    def _look_at(self, X: NDArray) -> None:
        sides = check_sides(self.shape, "ImageTangents", X.shape[1])
        warn_of_paper(self.background, X, sides)

    def _grid(self, X: NDArray) -> "_Grid":
        sides = check_sides(self.shape, "ImageTangents", X.shape[1])
        height, width, _ = sides
        auto = 0.2 * np.sqrt(min(height, width))
        sigma = check_sigma(self.sigma, auto, max(height, width))
        return _grid_of(sides, sigma, numpy_dtype(X), place_of(X))

    def _tangents_of(self, X: NDArray, y: ArrayLike | None) -> Blocks:
        names = self._names()
        grid = self._grid(X)
        background = check_background(self.background, X)

        def tangents_of(rows: slice) -> NDArray:
            images = grid.unflatten(X[rows]) - background
            if any(name in FIELDS or name == "thickness" for name in names):
                gradient = grid.gradient(images)
            tangents = []
            for name in names:
                if name in FIELDS:
                    tangent = grid.along(name, gradient)
                elif name == "thickness":
                    tangent = grid.thickness(gradient)
                elif name == "brightness":
                    tangent = xp_of(X).ones_like(images)
                else:
                    tangent = grid.linear(name, images)
                tangents.append(grid.flatten(tangent))
            return xp_of(X).stack(tangents, 1)

        return tangents_of


class _Grid:
    """Derivatives on the pixel grid, of stacks (n, channels, height, width).

    Each image is filtered by products of its own, so that its tangents do not depend
    on its neighbours in the stack, not even in the last digit.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        sigma: float,
        dtype: DTypeLike,
        device: Any = None,
    ):
        self.shape = height, width, _ = shape
        self.smooth_y, self.slope_y, self.curve_y = (
            to_device(filter_matrix(height, sigma, order, dtype), device)
            for order in range(3)
        )
        self.smooth_x, self.slope_x, self.curve_x = (
            to_device(filter_matrix(width, sigma, order, dtype).T.copy(), device)
            for order in range(3)
        )
        # One unit for both axes, else a rotation of an oblong image would shear it.
        unit = max(height, width) / 2
        y = ((np.arange(height) - (height - 1) / 2) / unit).astype(dtype)
        x = ((np.arange(width) - (width - 1) / 2) / unit).astype(dtype)
        self.y, self.x = (
            to_device(a, device) for a in np.meshgrid(y, x, indexing="ij")
        )

    def unflatten(self, X: NDArray) -> NDArray:
        height, width, channels = self.shape
        images = like((len(X), channels, height, width), X)
        images[:] = xp_of(X).moveaxis(X.reshape(len(X), *self.shape), 3, 1)
        return images

    def flatten(self, images: Any) -> Any:
        return xp_of(images).moveaxis(images, 1, 3).reshape(len(images), -1)

    def gradient(self, images: NDArray) -> tuple[NDArray, NDArray]:
        return (
            self.smooth_y @ (images @ self.slope_x),
            self.slope_y @ (images @ self.smooth_x),
        )

    def along(self, name: str, gradient: tuple[NDArray, NDArray]) -> NDArray:
        field_x, field_y = FIELDS[name](self.x, self.y)
        tangent = field_x * gradient[0]
        tangent += field_y * gradient[1]
        return tangent

    def thickness(self, gradient: tuple[NDArray, NDArray]) -> NDArray:
        """Squared length of the gradient."""
        along_x, along_y = gradient
        return along_x**2 + along_y**2

    def linear(self, name: str, images: NDArray, transpose: bool = False) -> NDArray:
        if name == "contrast":
            return images + 0
        if name == "blur":
            along_x = self.smooth_y @ (images @ self.curve_x)
            return along_x + self.curve_y @ (images @ self.smooth_x)
        if not transpose:
            return self.along(name, self.gradient(images))
        field_x, field_y = FIELDS[name](self.x, self.y)
        # Smoothing is symmetric, and so its own transpose; the slope is not.
        from_x = self.smooth_y @ ((field_x * images) @ self.slope_x.T)
        return from_x + self.slope_y.T @ ((field_y * images) @ self.smooth_x)


# Single images, one call after the other, share what belongs to their shape.
_grid_of = lru_cache(maxsize=16)(_Grid)


@parameters
class ImageShift(ArrayDispatchMixin, BaseEstimator):
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

    device_methods = ("__call__",)

    shape: Sequence[int]
    down: Annotated[int, Count(low=-(2**31))] = 0
    right: Annotated[int, Count(low=-(2**31))] = 0
    background: Finite = 0.0

    def __call__(self, X: ArrayLike) -> NDArray:
        """Return the shifted samples."""
        check_declared(self)
        X = as_samples(X)
        shape = check_image_shape(self.shape, "ImageShift", X.shape[1])
        images = X.reshape(len(X), *shape)
        background = check_background(self.background, X)
        shifted = xp_of(X).full_like(images, background)
        (to_y, from_y), (to_x, from_x) = (
            _overlap(shape[0], int(self.down)),
            _overlap(shape[1], int(self.right)),
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


@parameters
class ImageAffine(ArrayDispatchMixin, BaseEstimator):
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

    device_methods = ("__call__",)

    shape: Sequence[int]
    rotation: Finite = 0.0
    down: Positive = 1.0
    right: Positive = 1.0
    background: Finite = 0.0

    def __call__(self, X: ArrayLike) -> NDArray:
        """Return the transformed samples."""
        check_declared(self)
        X = as_samples(X)
        sides = check_sides(self.shape, "ImageAffine", X.shape[1])
        background = check_background(self.background, X)
        corners = [
            (beside(X, places), beside(X, weights, alike=True))
            for places, weights in self._corners(*sides)
        ]
        xp, out = xp_of(X), like(X.shape, X)
        # What is gathered stays in the cache: half the time of a sparse product.
        for rows in batched_slices(len(X), PAIR_ROWS):
            pixels = X[rows] - background
            moved = sum(w * xp.take(pixels, places, axis=1) for places, w in corners)
            out[rows] = moved + background
        return out

    def _corners(
        self, height: int, width: int, channels: int
    ) -> Iterator[tuple[NDArray, NDArray]]:
        """Yield the four pixels that every new one lies between, and their weights."""
        angle = float(self.rotation)
        factors = np.array([[self.down], [self.right]], float)
        middle = np.array([height - 1, width - 1])[:, None] / 2
        new = np.indices((height, width)).reshape(2, -1)
        turn = np.array(
            [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        )
        # Where each new pixel was before, between which given ones.
        before = turn @ (new - middle) / np.maximum(factors, 1e-100) + middle
        before = np.clip(before, -2, np.array([[height], [width]]) + 1)
        corner = np.floor(before)
        share = before - corner
        for step in np.ndindex(2, 2):
            r, c = (corner + np.array(step)[:, None]).astype(int)
            weights = np.where(np.array(step)[:, None], share, 1 - share).prod(axis=0)
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            first = np.where(inside, r * width + c, 0) * channels
            places = (first[:, None] + np.arange(channels)).ravel()
            yield places, np.repeat(inside * weights, channels)


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
