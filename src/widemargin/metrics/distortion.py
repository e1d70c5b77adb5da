r"""The image distortion model: a distance that lets every pixel move a little.

Each pixel (r, c) of x is explained by the best pixel of y within a window, compared on
a patch of gradient values:

.. math:: d(x, y) = \sum_{r,c} \min_{|r'-r|, |c'-c| \le w} \sum_{|a|,|b| \le p}
          \|g_x(r+a, c+b) - g_y(r'+a, c'+b)\|^2

The pixels move without regard to each other, which no tangent space of few dimensions
can express. It is not symmetric: x is explained by y, not the reverse.

Reference: D. Keysers, T. Deselaers, C. Gollan, H. Ney, Deformation models for image
recognition, IEEE PAMI 29 (2007). X is (n_x, h·w), Y (n_y, h·w).
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._compute.threads import batched_slices, thread_map
from widemargin._core.arrays import in_kind, is_tensor, xp_of
from widemargin._core.checks import (
    check_count,
    check_image_shape,
    check_number,
    check_squares,
)
from widemargin.metrics.tangent import check_pair


@in_kind
def image_distortion_distances(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    shape: Sequence[int],
    window: int = 2,
    patch: int = 1,
    background: float = 0.0,
    n_jobs: int | None = None,
) -> NDArray:
    """Compute the distances at which rows of `Y`, distorted, explain rows of `X`.

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
    background : float, default=0.0
        Value of the image outside its borders.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Returns
    -------
    ndarray of shape (n_x, n_y)
        Sums of squared differences of Sobel gradients; 0 for identical images.

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
    from widemargin._compute.distortion import distortion_tile

    x, y = check_pair(X, Y)
    height, width = check_image_shape(
        shape, "image_distortion_distances", x.shape[1], axes=(2,)
    )
    window = check_count("window", window, low=0)
    patch = check_count("patch", patch, low=0)
    background = check_number("background", background)
    check_squares(x)
    check_squares(y)
    if is_tensor(x):
        return _on_device(x, y, (height, width), window, patch, background)
    out = np.empty((len(x), len(y)), x.dtype)
    blocks = [
        (rows, columns)
        for columns in batched_slices(len(y), 64)
        for rows in batched_slices(len(x), 64)
    ]

    def fill(block):
        rows, columns = block
        gradients = partial(_gradients, shape=(height, width), background=background)
        tile = np.empty((len(x[rows]), len(y[columns])), x.dtype)
        distortion_tile(
            _flat(gradients(x[rows], pad=patch), 2 * window),
            _flat(gradients(y[columns], pad=patch + window), 0),
            height, width, patch, window, tile,
        )  # fmt: skip
        out[rows, columns] = tile

    thread_map(fill, blocks, n_jobs, "distances")
    return out


def _gradients(X: NDArray, *, shape: tuple[int, int], pad: int, background: float):
    """Sobel gradients (n, 2, height + 2 pad, width + 2 pad), 1/8 of the usual sums."""
    border = pad + 1
    images = X.reshape(len(X), *shape)
    if is_tensor(X):
        from torch.nn.functional import pad as torch_pad

        images = torch_pad(images, (border,) * 4, value=background)
    else:
        around = ((0, 0), (border, border), (border, border))
        images = np.pad(images, around, constant_values=background)
    along_y = images[:, 2:] - images[:, :-2]
    along_x = images[:, :, 2:] - images[:, :, :-2]
    gradients = (
        along_x[:, :-2] + 2 * along_x[:, 1:-1] + along_x[:, 2:],
        along_y[:, :, :-2] + 2 * along_y[:, :, 1:-1] + along_y[:, :, 2:],
    )
    return xp_of(X).stack(gradients, 1) / 8.0


def _on_device(x, y, shape, window, patch, background):
    from widemargin._compute.device.distortion import distortion_distances

    gradients = partial(_gradients, shape=shape, background=background)
    return distortion_distances(
        gradients(x, pad=patch), gradients(y, pad=patch + window),
        patch=patch, window=window,
    )  # fmt: skip


def _flat(images: NDArray, lengthen: int) -> NDArray:
    """Rows made longer at their end, one after the other."""
    longer = np.pad(images, ((0, 0), (0, 0), (0, 0), (0, lengthen)))
    return np.ascontiguousarray(longer).reshape(*images.shape[:2], -1)
