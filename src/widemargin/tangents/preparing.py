r"""Samples made ready: smoothed, upright, of one size and place.

What a tangent promises, the sample should keep. A tangent is the derivative of the
smoothed image or signal; a distance compares the sample itself. Where strokes or peaks
are as narrow as a pixel, the sample leaves its tangent plane within a fraction of a
pixel, and a little smoothing of the samples,

.. math:: x \leftarrow g_\sigma * x,

widens the range over which :math:`x + p\,t` stays close to the moved sample. X is
(n, length), (n, h·w) or (n, h·w·c), channels last.

The derivative of a function smoothed by a Gaussian is the function filtered by the
Gaussian's derivative. The filters here are sampled Gaussians times polynomials in the
offset k, scaled so that they are exact on the polynomials they stand for:

=========  =====================  ==========================
order      weight at offset k     gives
=========  =====================  ==========================
0, smooth  :math:`g_k`            a constant: itself
1, slope   :math:`k g_k`          a ramp: its slope
2, curve   :math:`(k^2-m) g_k`    a parabola: its curvature
=========  =====================  ==========================

with :math:`g_k = \exp(-k^2/2\sigma^2)` and m its mean of :math:`k^2`. As sigma goes to
zero they become the identity, the central difference and the second difference.

The slant of a character is measured and taken out. With the mean row and column of the
ink as origin, the slant is the regression of columns on rows, and the rows are shifted
by it,

.. math:: \alpha = \frac{\sum x\,(r - \bar r)(c - \bar c)}{\sum x\,(r - \bar r)^2},
          \qquad x'(r, c) = x(r, c + \alpha (r - \bar r)),

linearly between pixels. Where sizes are to be alike too, the upright ink goes to the
middle :math:`(m_r, m_c)` of the image and is stretched there, by how its spreads
:math:`\sigma` compare with a fifth of the sides s,

.. math:: x'(r, c) = x(\rho,\; \bar c + f_c (c - m_c) + \alpha (\rho - \bar r)),
          \quad \rho = \bar r + f_r (r - m_r),
          \quad f = (5 \sigma / s)^q .

X is (n, h·w) or (n, h·w·c), channels last; all channels move together.

References: Simard, LeCun, Denker, Victorri: Transformation invariance in pattern
recognition: tangent distance and tangent propagation (1998), section 2; C.-L. Liu, K.
Nakashima, H. Sako, H. Fujisawa, Handwritten digit recognition: investigation of
normalization and feature extraction techniques, Pattern Recognition 37 (2004).
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.machine import SAMPLE_ROWS, batched_slices
from widemargin._core.arrays import ArrayDispatchMixin, beside, numpy_dtype
from widemargin._core.checks import (
    FLOATS,
    check_background,
    check_image_shape,
    check_number,
    check_sides,
    validate_data,
    warn_of_paper,
)
from widemargin._core.params import Finite, Number, check_declared, parameters
from widemargin._core.samples import check_rows
from widemargin.tangents.bundle import like

# Below this sigma the filters equal their limits to all digits, and squares of g_1
# do not underflow.
_SMALLEST_SIGMA = 0.05
# Beyond 45 degrees it is no slant: ink would leave the image.
STEEPEST = 1.0
# Spread of ink that is resized, as a share of the side; thinner ink than a third of it
# counts as so thin: a bar stays a bar.
SPREAD, THINNEST = 1 / 5, 1 / 3


def gaussian_weights(sigma: float) -> tuple[NDArray, NDArray]:
    """Offsets k = -r..r and the Gaussian at them."""
    sigma = max(sigma, _SMALLEST_SIGMA)
    radius = max(1, int(np.ceil(4 * sigma)))
    k = np.arange(-radius, radius + 1.0)
    return k, np.exp(-(k**2) / (2 * sigma**2))


def gaussian_filter(sigma: float, order: int) -> NDArray:
    """Weights at offsets -r..r, to be used as sum_k weight[k] x[i + k]."""
    k, g = gaussian_weights(sigma)
    if order == 0:
        return g / g.sum()
    if order == 1:
        return k * g / (k**2 @ g)
    mean = (k**2 @ g) / g.sum()
    curve = (k**2 - mean) * g
    return 2 * curve / (k**2 @ curve)


def filter_matrix(size: int, sigma: float, order: int, dtype: DTypeLike) -> NDArray:
    """Matrix (size, size) of the filter on signals that are zero outside."""
    weights = gaussian_filter(sigma, order)
    radius = len(weights) // 2
    offset = np.arange(size) - np.arange(size)[:, np.newaxis]
    inside = np.abs(offset) <= radius
    matrix = np.where(inside, weights[np.clip(offset + radius, 0, 2 * radius)], 0.0)
    return matrix.astype(dtype)


class KeepsKind(ArrayDispatchMixin):
    """Mixin: answers in kind, float32 in float32 and all other numbers in float64."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@parameters
class GaussianSmoother(
    KeepsKind, OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    """Smooth images or signals by a Gaussian, as a step before a classifier.

    Parameters
    ----------
    shape : tuple (length,), (height, width) or (height, width, channels), default=None
        Shape of one sample; a row of `X` is the sample flattened in C order. None
        takes the features as one signal.
    sigma : float, default=0.6
        Standard deviation of the Gaussian in pixels or time steps; 0 changes nothing.
    background : float, default=0.0
        Value of the sample outside its borders.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Choose `sigma` together with that of the tangents, which smooth once more. After
    smoothing by 0.6 pixels, tangents of 16×16 images need about 0.7 instead of 0.8.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from widemargin import TangentKNeighborsClassifier
    >>> from widemargin.tangents import GaussianSmoother, ImageTangents
    >>> dot = np.zeros((1, 25))
    >>> dot[0, 12] = 1.0
    >>> GaussianSmoother((5, 5)).fit_transform(dot).reshape(5, 5)[2].round(2)
    array([0.  , 0.11, 0.44, 0.11, 0.  ])
    >>> model = make_pipeline(
    ...     GaussianSmoother((5, 5)),
    ...     TangentKNeighborsClassifier(tangents=ImageTangents((5, 5))),
    ... )
    """

    device_methods = ("fit", "transform")

    shape: Sequence[int] | None = None
    sigma: float = 0.6
    background: Finite = 0.0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the samples and the parameters; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored.

        Returns
        -------
        self : GaussianSmoother
            The transformer.
        """
        samples = check_rows(self, X)
        warn_of_paper(self.background, samples, self._check(samples.shape[1]))
        return self

    def transform(self, X: Any) -> NDArray:
        """Smooth samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            float32 if `X` is float32, else float64.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        height, width, channels = self._check(X.shape[1])
        down, across = (self._filter(side, numpy_dtype(X)) for side in (height, width))
        down, across = beside(X, down), beside(X, across)
        background = check_background(self.background, X)
        out = like(X.shape, X)
        for rows in batched_slices(len(X), SAMPLE_ROWS):
            images: NDArray = X[rows] - background
            # Every image by products of its own: it does not depend on its neighbours.
            images = down @ images.reshape(-1, height, width * channels)
            images = across @ images.reshape(-1, height, width, channels)
            out[rows] = images.reshape(-1, X.shape[1]) + background
        return out

    def _filter(self, side: int, dtype: Any) -> NDArray:
        # A signal is an image of one row, with nothing above or below it.
        sigma = float(self.sigma) if side > 1 else 0.0
        return filter_matrix(side, sigma, 0, dtype)

    def _check(self, n_features: int) -> tuple[int, int, int]:
        """Return (height, width, channels); a signal is one row."""
        given = (n_features,) if self.shape is None else self.shape
        sides = check_image_shape(
            given, type(self).__name__, n_features, axes=(1, 2, 3)
        )
        check_declared(self)
        check_number("sigma", self.sigma, at_least=0, at_most=10 * max(sides))
        if len(sides) == 1:
            return 1, sides[0], 1
        height, width, channels = (*sides, 1)[:3]
        return height, width, channels


@parameters
class Deskew(KeepsKind, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Shear images so that their ink stands upright, as a step before a classifier.

    Parameters
    ----------
    shape : tuple (height, width) or (height, width, channels)
        Shape of one image; a row of `X` is the image flattened in C order.
    resize : float, default=0.0
        How far ink is brought to one size, in [0, 1]. With 0 it keeps its size. With 1
        its standard deviations along rows and columns become a fifth of the sides.
        Above 0 its mean goes to the middle of the image too. From few labels,
        handwritten digits are told apart far better with 0.5.
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
    in one row only, stays upright as it is. What leaves the image is lost.

    References
    ----------
    C.-L. Liu, K. Nakashima, H. Sako, H. Fujisawa, Handwritten digit recognition:
    investigation of normalization and feature extraction techniques, Pattern
    Recognition 37 (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import Deskew
    >>> slanted = np.eye(5).reshape(1, 25)
    >>> Deskew((5, 5)).fit_transform(slanted).reshape(5, 5)[:, 2]
    array([1., 1., 1., 1., 1.])
    """

    shape: Sequence[int] | None = None
    _: KW_ONLY
    resize: Annotated[float, Number(at_least=0, at_most=1)] = 0.0
    background: Finite = 0.0

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
        warn_of_paper(self.background, samples, self._check(samples.shape[1]))
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
            moved = _upright(images, background, self.resize)
            out[rows] = moved.reshape(len(images), -1)
        return out

    def _check(self, n_features: int) -> tuple[int, int, int]:
        check_declared(self)
        return check_sides(self.shape, "Deskew", n_features)


class _Ink(NamedTuple):
    """Mean row and column (n, 2), slant (n,) and spreads (n, 2) of the upright ink."""

    mean: NDArray
    slant: NDArray
    spread: NDArray


def _ink(images: NDArray, background: float) -> _Ink:
    """Measure the ink of images (n, height, width, channels)."""
    _, height, width, _ = images.shape
    ink = np.abs(images.astype(np.float64) - background).sum(axis=3)
    # Whatever the unit of the image, sums neither overflow nor vanish.
    ink /= np.maximum(ink.max(axis=(1, 2), keepdims=True), 1e-300)
    total = np.maximum(ink.sum(axis=(1, 2)), 1e-300)
    of_rows, of_columns = (ink.sum(axis=a) / total[:, np.newaxis] for a in (2, 1))
    r, c = np.arange(height), np.arange(width)
    mean = np.stack([of_rows @ r, of_columns @ c], axis=1)
    from_r, from_c = r - mean[:, :1], c - mean[:, 1:]
    down, along = (
        (of_rows * from_r**2).sum(axis=1),
        (of_columns * from_c**2).sum(axis=1),
    )
    joint = np.einsum("nrc,nr,nc->n", ink, from_r, from_c) / total
    slanted = down > 1e-9
    slant = np.where(slanted, joint / np.where(slanted, down, 1), 0)
    slant = np.clip(slant, -STEEPEST, STEEPEST)
    along = along - 2 * slant * joint + slant**2 * down
    spread = np.sqrt(np.maximum(np.stack([down, along], axis=1), 0))
    return _Ink(mean, slant, spread)


def _upright(images: NDArray, background: float, resize: float) -> NDArray:
    """Shear images (n, height, width, channels) by the slant of their ink; stretch."""
    mean, slant, spread = _ink(images, background)
    sides = np.array(images.shape[1:3])
    factors = np.maximum(spread / (SPREAD * sides), THINNEST) ** resize
    middle = (sides - 1) / 2 if resize else mean
    from_r, from_c = (
        factors[:, [k]] * (np.arange(sides[k]) - middle[..., [k]]) for k in (0, 1)
    )
    if resize:
        rows = mean[:, :1] + from_r
        images = _between(images.transpose(0, 2, 1, 3), rows[:, np.newaxis], background)
        images = images.transpose(0, 2, 1, 3)
    shift = mean[:, 1:] + slant[:, np.newaxis] * from_r
    return _between(images, shift[:, :, np.newaxis] + from_c[:, np.newaxis], background)


def _between(images: NDArray, at: NDArray, background: float) -> NDArray:
    """Values at positions (n, height or 1, width) along the rows, linearly between."""
    width = images.shape[2]
    left = np.floor(at).astype(np.intp)
    share = (at - left)[..., np.newaxis].astype(images.dtype)
    # Two columns of background at either side catch everything that leaves.
    padded = np.pad(
        images, ((0, 0), (0, 0), (2, 2), (0, 0)), constant_values=background
    )
    place = np.clip(left + 2, 0, width + 2)[..., np.newaxis]
    here = np.take_along_axis(padded, place, axis=2)
    there = np.take_along_axis(padded, place + 1, axis=2)
    return (1 - share) * here + share * there
