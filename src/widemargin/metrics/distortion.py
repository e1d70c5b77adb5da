r"""Distortion models: distances that let every pixel move a little.

The cost of explaining pixel (i, j) of x by the pixel of y that is moved from there by
(a, b) is that of a patch of gradients,

.. math:: c(i, j; a, b) = \sum_{|u|,|v| \le p}
          \|g_x(i+u, j+v) - g_y(i+a+u, j+b+v)\|^2 .

In the image distortion model pixels move without regard to each other, which no tangent
space of few dimensions can express,

.. math:: d(x, y) = \sum_{i,j} \min_{|a|, |b| \le w} c(i, j; a, b) + \lambda (a^2+b^2).

In the pseudo two-dimensional model those of a column move along the rows together, give
or take one pixel, and neighbours differ by one at most. With
:math:`\tilde c = \min_{|e| \le 1} c(i, j; a, b+e)`,

.. math:: D_{jb}(i, a) = \tilde c(i, j; a, b) + \min_{|a'-a| \le 1} D_{jb}(i-1, a'),
          \quad
          E(j, b) = \min_a D_{jb}(h, a) + \min_{|b'-b| \le 1} E(j-1, b'),

and d(x, y) is the least E(w, b). Neither is symmetric: x is explained by y, not the
reverse.

Reference: D. Keysers, T. Deselaers, C. Gollan, H. Ney, Deformation models for image
recognition, IEEE PAMI 29 (2007). X is (n_x, h·w), Y (n_y, h·w).
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._compute.engines import formula
from widemargin._compute.machine import (
    batched_slices,
    matrix_of_pairs,
    rows_in_budget,
    thread_map,
)
from widemargin._core.arrays import dispatch_function, numpy_dtype
from widemargin._core.checks import (
    SIZES,
    check_background,
    check_count,
    check_image_shape,
    check_number,
    check_option,
)
from widemargin.metrics.tangent import check_pair

GRADIENTS = ("sobel", "normalised")


@dispatch_function
def image_distortion_distances(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    shape: Sequence[int],
    window: int = 2,
    patch: int = 1,
    gradients: Literal["sobel", "normalised"] = "sobel",
    eps: float = 0.1,
    penalty: float = 0.0,
    background: float = 0.0,
    n_jobs: int | None = None,
) -> NDArray:
    """Compute image distortion distances of rows of `X` from rows of `Y`.

    Parameters
    ----------
    X : array-like of shape (n_x, height * width)
        Images to be explained: the test images of a classifier.
    Y : array-like of shape (n_y, height * width), default=None
        Images that explain them; None means `X`.
    shape : tuple (height, width)
        Shape of one image.
    window : int, default=2
        How many pixels a pixel may move, along each axis.
    patch : int, default=1
        Pixels are compared with the surrounding `patch` pixels on each side.
    gradients : {"sobel", "normalised"}, default="sobel"
        Compare Sobel gradients g, or ``g / sqrt(|g|² + eps²)``, which tell an edge by
        its direction and hardly by its strength.
    eps : float, default=0.1
        Gradient above which an edge is an edge, in the unit of the images: the default
        is for values from 0 to 1. Only "normalised" uses it.
    penalty : float, default=0.0
        Cost of a move by one pixel; it grows with the square of the way. For normalised
        gradients 0.033 is a good one.
    background : float, default=0.0
        Value of the image outside its borders.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Returns
    -------
    ndarray of shape (n_x, n_y)
        Sums of squared differences of gradients; 0 for identical images.

    See Also
    --------
    pseudo_2d_distortion_distances : Neighbouring pixels move alike.
    widemargin.DensityClassifier : Takes such a distance as its `metric`.

    References
    ----------
    D. Keysers, T. Deselaers, C. Gollan, H. Ney, Deformation models for image
    recognition, IEEE PAMI 29 (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import image_distortion_distances
    >>> dot, moved = np.zeros((2, 1, 8, 8))
    >>> dot[0, 3, 3] = moved[0, 4, 4] = 1.0
    >>> X, Y = dot.reshape(1, 64), moved.reshape(1, 64)
    >>> float(image_distortion_distances(X, Y, shape=(8, 8))[0, 0])
    0.0
    >>> float(image_distortion_distances(X, Y, shape=(8, 8), window=0)[0, 0])
    6.75
    """
    x, y = check_pair(X, Y)
    model = _check(x, "image_distortion_distances", shape, window, patch,
                   gradients, eps, background)  # fmt: skip
    penalty = check_number("penalty", penalty, at_least=0)
    return distortion_pairs(x, y, model, penalty, n_jobs)


@formula
def distortion_pairs(
    x: NDArray, y: NDArray, model: "_Model", penalty: float, n_jobs: int | None
) -> NDArray:
    """Distances of the image distortion model, of all pairs."""
    from widemargin._compute.distortion import distortion_tile

    def tile(a: NDArray, b: NDArray, patches: tuple, lanes: tuple, out: NDArray):
        shape, window = model.shape, model.window
        distortion_tile(a, b, shape, window, penalty, patches, lanes, out)

    return model.all_pairs(x, y, model.window, tile, n_jobs)


def listed_distortion_distances(
    X: ArrayLike,
    Y: ArrayLike,
    listed: NDArray,
    *,
    shape: Sequence[int],
    window: int = 2,
    patch: int = 1,
    gradients: Literal["sobel", "normalised"] = "sobel",
    eps: float = 0.1,
    penalty: float = 0.0,
    background: float = 0.0,
    n_jobs: int | None = None,
) -> NDArray:
    """Compute distortion distances of every row of `X` to some rows of `Y`.

    Parameters
    ----------
    X : array-like of shape (n_x, height * width)
        Images to be explained: the test images of a classifier.
    Y : array-like of shape (n_y, height * width)
        Images that explain them.
    listed : ndarray of shape (n_x, n_listed)
        Rows of `Y` that each row of `X` is compared with.
    shape, window, patch, gradients, eps, penalty, background
        As in :func:`image_distortion_distances`.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Returns
    -------
    ndarray of shape (n_x, n_listed)
        Entry (i, k) is the distance of ``X[i]`` and ``Y[listed[i, k]]``.

    See Also
    --------
    image_distortion_distances : Of all pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import listed_distortion_distances
    >>> X = np.random.default_rng(0).random((3, 64))
    >>> d = listed_distortion_distances(X, X, np.array([[0], [1], [0]]), shape=(8, 8))
    >>> d[:2].ravel()
    array([0., 0.])
    """
    x, y = check_pair(X, Y)
    listed = np.asarray(listed)
    fits = listed.ndim == 2 and len(listed) == len(x) and listed.dtype.kind in "iu"
    if not fits or (listed.size and not 0 <= listed.min() <= listed.max() < len(y)):
        raise ValueError(
            f"listed must hold rows of Y, integers from 0 to {len(y) - 1}, in an array "
            f"of shape ({len(x)}, n_listed); got shape {listed.shape}."
        )
    model = _check(x, "listed_distortion_distances", shape, window, patch,
                   gradients, eps, background)  # fmt: skip
    penalty = check_number("penalty", penalty, at_least=0)
    out = np.empty(listed.shape, x.dtype)

    def fill(i: int) -> None:
        out[i] = distortion_pairs(x[i : i + 1], y[listed[i]], model, penalty, None)[0]

    thread_map(fill, range(len(x)), n_jobs, "distances")
    return out


@dispatch_function
def pseudo_2d_distortion_distances(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    shape: Sequence[int],
    window: int = 2,
    patch: int = 1,
    gradients: Literal["sobel", "normalised"] = "sobel",
    eps: float = 0.1,
    background: float = 0.0,
    n_jobs: int | None = None,
) -> NDArray:
    """Compute distortion distances with similar moves of neighbouring pixels.

    The pseudo two-dimensional hidden Markov distortion model. Pixels of a column move
    along the rows together, give or take one. The moves of neighbouring pixels down a
    column differ by one at most, and so do those of neighbouring columns.

    Parameters
    ----------
    X : array-like of shape (n_x, height * width)
        Images to be explained: the test images of a classifier.
    Y : array-like of shape (n_y, height * width), default=None
        Images that explain them; None means `X`.
    shape : tuple (height, width)
        Shape of one image.
    window : int, default=2
        How many pixels a column, and a pixel down its column, may move.
    patch : int, default=1
        Pixels are compared with the surrounding `patch` pixels on each side.
    gradients : {"sobel", "normalised"}, default="sobel"
        Compare Sobel gradients g, or ``g / sqrt(|g|² + eps²)``, which tell an edge by
        its direction and hardly by its strength.
    eps : float, default=0.1
        Gradient above which an edge is an edge, in the unit of the images: the default
        is for values from 0 to 1. Only "normalised" uses it.
    background : float, default=0.0
        Value of the image outside its borders.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Returns
    -------
    ndarray of shape (n_x, n_y)
        Sums of squared differences of gradients; 0 for identical images. Never below
        the distances of the image distortion model with a window one larger.

    See Also
    --------
    image_distortion_distances : Every pixel moves by itself.
    widemargin.DensityClassifier : Takes such a distance as its `metric`.

    References
    ----------
    D. Keysers, T. Deselaers, C. Gollan, H. Ney, Deformation models for image
    recognition, IEEE PAMI 29 (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import pseudo_2d_distortion_distances
    >>> X = np.zeros((1, 8, 8))
    >>> X[0, 2:5, 3] = 1.0
    >>> Y = np.roll(X, (1, -2), axis=(1, 2))
    >>> X, Y = X.reshape(1, 64), Y.reshape(1, 64)
    >>> float(pseudo_2d_distortion_distances(X, Y, shape=(8, 8))[0, 0])
    0.0
    """
    x, y = check_pair(X, Y)
    model = _check(x, "pseudo_2d_distortion_distances", shape, window, patch,
                   gradients, eps, background)  # fmt: skip
    return pseudo_2d_pairs(x, y, model, n_jobs)


@formula
def pseudo_2d_pairs(
    x: NDArray, y: NDArray, model: "_Model", n_jobs: int | None
) -> NDArray:
    """Distances of the pseudo two-dimensional model, of all pairs."""
    from widemargin._compute.distortion import pseudo_2d_tile

    moves = (0,) * (2 * model.window + 1)

    def tile(a: NDArray, b: NDArray, patches: tuple, lanes: tuple, out: NDArray):
        pseudo_2d_tile(a, b, model.shape, model.window, patches, moves, lanes, out)

    return model.all_pairs(x, y, model.window + 1, tile, n_jobs)


class _Model(NamedTuple):
    """What both models share: patches of gradient images, for all pairs.

    `softness` is eps², negative where gradients stay as they are.
    """

    shape: tuple[int, int]
    window: int
    patch: int
    background: float
    softness: float

    def all_pairs(
        self, x: NDArray, y: NDArray, reach: int, tile: Callable, n_jobs: int | None
    ) -> NDArray:
        """Distances by a compiled `tile`, which sees `reach` pixels around `y`."""
        from widemargin._compute.distortion import gradient_images, lanes_for

        lanes = (0,) * lanes_for(self.shape[1], self.patch)
        patches = (0,) * (2 * self.patch + 1)
        out = matrix_of_pairs(len(x), len(y), x.dtype)
        height, width = (side + 2 * (self.patch + reach) for side in self.shape)
        images = 4 * x.itemsize * (height * width + len(lanes))
        size = min(64, rows_in_budget(images, n_jobs))
        blocks = [
            (rows, columns)
            for columns in batched_slices(len(y), size)
            for rows in batched_slices(len(x), size)
        ]

        def gradients(images, pad):
            images = np.ascontiguousarray(images)
            return gradient_images(
                images, self.shape, pad, self.background, self.softness, len(lanes)
            )

        def fill(block):
            rows, columns = block
            a = gradients(x[rows], self.patch)
            b = gradients(y[columns], self.patch + reach)
            found = np.empty((len(a), len(b)), x.dtype)
            tile(a, b, patches, lanes, found)
            out[rows, columns] = found

        thread_map(fill, blocks, n_jobs, "distances")
        return out


def _check(x: Any, owner: str, shape: Any, window: Any, patch: Any,
           gradients: Any, eps: Any, background: Any) -> _Model:  # fmt: skip
    height, width = check_image_shape(shape, owner, x.shape[1], axes=(2,))
    for name, value in (("window", window), ("patch", patch)):
        if check_count(name, value, low=0) > min(height, width):
            raise ValueError(
                f"{name} must be at most {min(height, width)} for images of shape "
                f"({height}, {width}); got {value}."
            )
    # Not 0, in whatever dtype: constant images have gradients of 0.
    least = SIZES[numpy_dtype(x)][0] ** 2
    softness = max(check_number("eps", eps, above=0, at_most=1e100) ** 2, least)
    if check_option("gradients", gradients, GRADIENTS) == "sobel":
        softness = -1.0
    background = check_background(background, x)
    return _Model((height, width), int(window), int(patch), background, softness)
