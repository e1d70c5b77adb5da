r"""Upright characters: the slant of an image, measured and taken out.

With the mean row and column of the ink as origin, the slant is the regression of
columns on rows, and the rows are shifted by it,

.. math:: \alpha = \frac{\sum x\,(r - \bar r)(c - \bar c)}{\sum x\,(r - \bar r)^2},
          \qquad x'(r, c) = x(r, c + \alpha (r - \bar r)),

linearly between pixels. X is (n, h·w) or (n, h·w·c), channels last; all channels move
together.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.threads import batched_slices
from widemargin._core.checks import (
    FLOATS,
    check_background,
    check_image_shape,
    check_number,
    validate_data,
)

# Beyond 45 degrees it is no slant: ink would leave the image.
STEEPEST = 1.0


class Deskew(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Shear images so that their ink stands upright, as a step before a classifier.

    Parameters
    ----------
    shape : tuple (height, width) or (height, width, channels)
        Shape of one image; a row of `X` is the image flattened in C order.
    background : float, default=0.0
        Value of the image outside its borders; ink is what differs from it.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.

    See Also
    --------
    DirectionFeatures : Edge directions, which profit from upright characters.

    Notes
    -----
    Slants of more than 45 degrees are taken for 45. An image without ink, or with ink
    in one row only, stays as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import Deskew
    >>> slanted = np.eye(5).reshape(1, 25)
    >>> Deskew((5, 5)).fit_transform(slanted).reshape(5, 5)[:, 2]
    array([1., 1., 1., 1., 1.])
    """

    def __init__(self, shape: Sequence[int] | None = None, *, background: float = 0.0):
        self.shape = shape
        self.background = background

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Check the images and the parameters; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images.
        y : None
            Ignored.

        Returns
        -------
        self : Deskew
            The transformer.
        """
        samples = validate_data(self, X, dtype=FLOATS)
        self._check(samples.shape[1])
        return self

    def transform(self, X: ArrayLike) -> NDArray:
        """Set images upright.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            float32 if `X` is float32, else float64.
        """
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=FLOATS, reset=False)
        shape = self._check(samples.shape[1])
        background = check_background(self.background, samples)
        out = np.empty_like(samples)
        for rows in batched_slices(len(samples), 1024):
            images = samples[rows].reshape(-1, *shape)
            out[rows] = upright(images, background).reshape(len(images), -1)
        return out

    def _check(self, n_features: int) -> tuple[int, int, int]:
        check_number("background", self.background)
        sides = check_image_shape(self.shape, "Deskew", n_features)
        height, width, channels = (*sides, 1)[:3]
        return height, width, channels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def upright(images: NDArray, background: float) -> NDArray:
    """Shear images (n, height, width, channels) by the slant of their ink."""
    _, height, width, _ = images.shape
    ink = np.abs(images.astype(np.float64) - background).sum(axis=3)
    # Whatever the unit of the image, sums neither overflow nor vanish.
    ink /= np.maximum(ink.max(axis=(1, 2), keepdims=True), np.finfo(float).tiny)
    r, c = np.arange(height)[:, np.newaxis], np.arange(width)
    total = np.maximum(ink.sum(axis=(1, 2)), np.finfo(float).tiny)
    mean_r = (ink * r).sum(axis=(1, 2)) / total
    mean_c = (ink * c).sum(axis=(1, 2)) / total
    from_r = r.ravel() - mean_r[:, np.newaxis]
    spread = (ink.sum(axis=2) * from_r**2).sum(axis=1)
    from_c = c - mean_c[:, np.newaxis]
    joint = np.einsum("nrc,nr,nc->n", ink, from_r, from_c)
    slanted = spread > 1e-9 * total
    slant = np.where(slanted, joint / np.where(slanted, spread, 1), 0)
    shift = np.clip(slant, -STEEPEST, STEEPEST)[:, np.newaxis] * from_r
    position = c + shift[:, :, np.newaxis]
    left = np.floor(position).astype(np.intp)
    share = (position - left)[..., np.newaxis].astype(images.dtype)
    # Two columns of background at either side catch everything that leaves.
    padded = np.pad(
        images, ((0, 0), (0, 0), (2, 2), (0, 0)), constant_values=background
    )
    at = np.clip(left + 2, 0, width + 2)[..., np.newaxis]
    here = np.take_along_axis(padded, at, axis=2)
    there = np.take_along_axis(padded, at + 1, axis=2)
    return (1 - share) * here + share * there
