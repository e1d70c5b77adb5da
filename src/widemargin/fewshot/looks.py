r"""What images look like: their shape, the paper around them, and whether they are ink.

Rows become images of a background 0 and values of at most 1,

.. math:: x' = \frac{x - b}{\max |x - b|},

b being the median of the border of the training images. Large images are averaged over
squares of pixels: a distance that moves pixels grows with the fourth power of a side.

Ink lies on paper: most of the image is background, and so is nearly all of the border.
What was cut out and laid on one ground has a border of background, too; scenes do not.
Shapes: rows (n, h·w·c), images (n, h, w, c).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._core.checks import border_of, check_image_shape

# A side is averaged down to less than this: twice the smallest common size, 24 pixels.
LARGE = 48
# Rows of fewer features are no images, unless a shape is given.
SMALLEST = 64
# How far from the background paper may be, as a share of the largest value; and how
# much of the image and of its border it is, in the median image. Digits of MNIST have
# .75 to .85 and 1; clothes, photographs and digits that fill their image have less.
NEAR, PAPER, BORDER = 0.2, 0.7, 0.95
# How much of its border is background where a thing lies on one ground. Digits that
# fill their image have .76 to .86, drawn clothes and letters .98 and 1; patches of
# photographs and of a map, faces, solids and textures before any ground 0 to .52.
GROUND = 0.65


def as_rows(X: Any, shape: Any) -> tuple[Any, Any]:
    """Return rows, and the shape of an image; images (n, h, w[, c]) are flattened."""
    if isinstance(X, list | tuple) and len(X) and hasattr(X[0], "shape"):
        sizes = {tuple(image.shape) for image in X}
        if len(sizes) > 1:
            raise ValueError(
                "X must hold images of one size; got "
                f"{', '.join(map(str, sorted(sizes)[:3]))}. Bring them to one size "
                "first, for instance by skimage.transform.resize."
            )
        X = np.stack(X)
    if getattr(X, "ndim", 2) not in (3, 4):
        return X, shape
    sides = tuple(int(side) for side in X.shape[1:])
    # Grey images may have one channel or no axis for it.
    named = shape is not None and not isinstance(shape, str)
    if named and (*shape, 1)[:3] != (*sides, 1)[:3]:
        raise ValueError(f"X holds images of shape {sides}; shape says {tuple(shape)}.")
    return X.reshape(X.shape[0], math.prod(sides)), sides


def shape_of(shape: Any, n_features: int) -> tuple[int, int, int] | None:
    """Return (height, width, channels); None where rows are no images.

    "auto" takes squares of at least 8 × 8 pixels, of one channel or three.

    >>> shape_of("auto", 784), shape_of("auto", 3072), shape_of("auto", 30)
    ((28, 28, 1), (32, 32, 3), None)
    """
    if isinstance(shape, str) and shape == "auto":
        for channels in (1, 3):
            side = math.isqrt(n_features // channels)
            if side * side * channels == n_features >= SMALLEST * channels:
                return side, side, channels
        return None
    sides = check_image_shape(shape, "FewShotImageClassifier", n_features)
    height, width, channels = (*sides, 1)[:3]
    return height, width, channels


class Looks(NamedTuple):
    """What training images look like, and how others are brought to the same form."""

    given: tuple[int, int, int] | None
    background: float
    amplitude: float
    step: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels after averaging."""
        assert self.given is not None
        height, width, channels = self.given
        return -(-height // self.step), -(-width // self.step), channels

    def images(self, X: NDArray) -> NDArray:
        """Rows with a background of 0 and, in training, values of at most 1."""
        rows = (X - X.dtype.type(self.background)) / X.dtype.type(self.amplitude)
        if self.given is None or self.step == 1:
            return rows
        height, width, channels = self.shape
        by = self.step
        images = rows.reshape(-1, *self.given)
        rest = (height * by - self.given[0], width * by - self.given[1])
        images = np.pad(images, ((0, 0), (0, rest[0]), (0, rest[1]), (0, 0)))
        images = images.reshape(-1, height, by, width, by, channels).mean(axis=(2, 4))
        return images.reshape(len(X), -1)

    def as_images(self, rows: NDArray) -> NDArray:
        """Arrays (n, height, width[, channels]); rows where these are no images."""
        if self.given is None:
            return rows
        height, width, channels = self.shape
        sides = (height, width) if channels == 1 else self.shape
        return rows.reshape(-1, *sides)

    def are_ink(self, images: NDArray) -> bool:
        """Whether images of a background 0 are mostly background, as is the border."""
        if self.given is None or self.shape[2] > 1:
            return False
        paper = np.abs(images) < NEAR
        whole = np.median(paper.mean(axis=1)) >= PAPER
        return bool(whole and self._empty_border(images) >= BORDER)

    def have_ground(self, images: NDArray) -> bool:
        """Whether things lie on one ground, which most of the border shows."""
        return self.given is not None and self._empty_border(images) >= GROUND

    def _empty_border(self, images: NDArray) -> float:
        """Share of the border that is background, in the median image."""
        empty = np.abs(images.reshape(-1, *self.shape)) < NEAR
        border = border_of(empty.all(axis=3))
        return float(np.median(border.mean(axis=1)))


def look_at(X: NDArray, shape: tuple[int, int, int] | None) -> Looks:
    """Measure the background, the largest difference from it, and the size."""
    if shape is None:
        background, step = float(np.median(X)), 1
    else:
        background = float(np.median(border_of(X.reshape(-1, *shape))))
        step = max(1, -(-max(shape[:2]) // LARGE))
    largest = max(float(X.max()) - background, background - float(X.min()))
    return Looks(shape, background, largest or 1.0, step)
