r"""Images as the members of the product see them: upright or not, with their copies.

A view holds the labelled images with their copies, version by version, and the features
of all. Features are divided by how copies of one image differ: with the covariance S of
the differences from the mean of an image's versions, and its largest eigenvalue s,

.. math:: z = F(x)\, \bigl(I + S / \tau s\bigr)^{-1/2},

directions in which small turns and stretches move an image count less. Shapes: images
(v·n, h·w·c), features (v·n, F).
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.base import clone

from widemargin._core.checks import hushed
from widemargin.fewshot.kernel_ridge import squared_distances
from widemargin.fewshot.looks import Looks
from widemargin.tangents import Deskew, DirectionFeatures
from widemargin.tangents.image import ImageAffine
from widemargin.tangents.transform import copies

# All constants here were chosen on MNIST's training images, 800 to 1500 of held-out
# writers, by the errors of the ridge regression at 1 and 4 labels a class. Its errors
# fall from 19.2 and 5.1 % by the power (18.7 and 4.9), 26 small affine copies instead
# of six (17.0 and 4.7), whitening (16.5 and 4.5), 12 directions (15.9), and the
# exponential kernel (15.1).
DIRECTIONS, POWER = 12, 0.3
TURN, GROWTH = 0.15, 1.15
SOFTENED = 0.1
# Features, at most, that are whitened: time grows with their cube.
WHITENED = 1024
# How far sizes of ink are made alike: .3, .5 and .8 are alike; chosen by the records.
RESIZE = 0.5


def small_copies(shape: tuple[int, ...]) -> list[ImageAffine]:
    """Return small turns and stretches, and their combinations; single ones first."""
    steps = (0, 1, -1)
    moves = [move for move in product(steps, repeat=3) if any(move)]
    moves.sort(key=np.count_nonzero)
    return [
        ImageAffine(shape, TURN * a, down=GROWTH**b, right=GROWTH**c)
        for a, b, c in moves
    ]


def full_turns(shape: tuple[int, ...]) -> list[ImageAffine]:
    """Return turns by multiples of 15 degrees; the first few are spread out."""
    # 0 to 23 by the bits of the numbers read backwards: 0, 12, 6, 18, 3, 15, ...
    order = sorted(range(24), key=lambda k: f"{k * 32 // 24:05b}"[::-1])
    return [ImageAffine(shape, 2 * np.pi * k / 24) for k in order if k]


def mirrored(shape: tuple[int, ...], then: Callable | None = None) -> Callable:
    """Return a function that turns left and right about, and then does more."""
    height, width, channels = (*shape, 1)[:3]

    def about(X: NDArray) -> NDArray:
        images = X.reshape(-1, height, width, channels)[:, :, ::-1]
        rows = np.ascontiguousarray(images).reshape(X.shape)
        return rows if then is None else then(rows)

    return about


class SeenImages(NamedTuple):
    """Prepared images, features (q, F), and their squared distances (q, v·n)."""

    images: NDArray
    features: NDArray
    squares: NDArray


class View:
    """Labelled images and their copies, upright or as they are, with features.

    `transformations` make a copy of each image; `features` is a transformer, None
    takes DirectionFeatures of images, and "values" takes the images as they are.
    """

    def __init__(
        self,
        looks: Looks,
        images: NDArray,
        *,
        upright: bool,
        features: Any,
        transformations: Sequence[Callable],
    ) -> None:
        self.looks = looks
        shape = None if looks.given is None else looks.shape
        self.upright = Deskew(shape, resize=RESIZE) if upright else None
        self.n = len(images)
        images = self._prepared(images)
        self.images = np.concatenate([images, *copies(images, transformations)])
        self.n_versions = len(self.images) // self.n
        if isinstance(features, str) or (features is None and shape is None):
            features = None
        elif features is None:
            features = DirectionFeatures(shape, directions=DIRECTIONS, power=POWER)
        with hushed():
            self.features = None if features is None else clone(features)
            if self.features is not None:
                self.features.fit(images)
        plain = self._plain(self.images)
        # A far image would bring the mean, and the rounding of all others, with it.
        self.centre = np.median(plain[: self.n], axis=0)
        self.whitening = _whitening(plain.reshape(self.n_versions, self.n, -1))
        self.Z = self._white(plain)

    def _prepared(self, images: NDArray) -> NDArray:
        if self.upright is None:
            return images
        with hushed():
            return self.upright.fit_transform(images)

    def _plain(self, images: NDArray) -> NDArray:
        return images if self.features is None else self.features.transform(images)

    def _white(self, plain: NDArray) -> NDArray:
        Z = plain - self.centre
        return Z if self.whitening is None else Z @ self.whitening

    def seen(self, images: NDArray) -> SeenImages:
        """See queries as the labelled images are seen."""
        images = self._prepared(images)
        Z = self._white(self._plain(images))
        return SeenImages(images, Z, squared_distances(Z, self.Z))

    def squares_of(self, rows: NDArray) -> NDArray:
        """Squared distances (len(rows), v·n) of the features of labelled images."""
        return squared_distances(self.Z[rows], self.Z)


def _whitening(versions: NDArray) -> NDArray | None:
    """Return the matrix that takes out how versions (v, n, F) of an image differ."""
    if len(versions) == 1 or versions.shape[2] > WHITENED:
        return None
    apart = (versions - versions.mean(axis=0)).reshape(-1, versions.shape[2])
    # In units that neither overflow nor vanish.
    unit = float(np.abs(apart).max()) or 1.0
    apart = apart.astype(float) / unit
    values, vectors = eigh(apart.T @ apart)
    if not values[-1] > 0:
        return None
    shrunk = 1 / np.sqrt(1 + np.maximum(values, 0) / (SOFTENED * values[-1]))
    return ((vectors * shrunk) @ vectors.T).astype(versions.dtype)
