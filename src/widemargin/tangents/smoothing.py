r"""Smoothed samples: what a tangent promises, the sample should keep.

A tangent is the derivative of the smoothed image or signal; a distance compares the
sample itself. Where strokes or peaks are as narrow as a pixel, the sample leaves its
tangent plane within a fraction of a pixel, and a little smoothing of the samples,

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

Reference: Simard, LeCun, Denker, Victorri: Transformation invariance in pattern
recognition: tangent distance and tangent propagation (1998), section 2.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.threads import batched_slices
from widemargin._core.arrays import (
    AnswersInKind,
    is_tensor,
    numpy_dtype,
    on_device,
    put,
)
from widemargin._core.checks import (
    FLOATS,
    check_background,
    check_image_shape,
    check_number,
    validate_data,
)
from widemargin._core.samples import check_on_device
from widemargin.tangents.bundle import like

# Below this sigma the filters equal their limits to all digits, and squares of g_1
# do not underflow.
_SMALLEST_SIGMA = 0.05


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


class GaussianSmoother(
    AnswersInKind, OneToOneFeatureMixin, TransformerMixin, BaseEstimator
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
    Choose `sigma` together with that of the tangents, which smooths once more before
    it differentiates: after smoothing by 0.6 pixels the tangents of 16×16 images want
    about 0.7 instead of 0.8.

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

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        sigma: float = 0.6,
        background: float = 0.0,
    ):
        self.shape = shape
        self.sigma = sigma
        self.background = background

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
        self._check(self._check_samples(X, reset=True).shape[1])
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
        X = self._check_samples(X, reset=False)
        height, width, channels = self._check(X.shape[1])
        down, across = (self._filter(side, numpy_dtype(X)) for side in (height, width))
        if is_tensor(X):
            down, across = put(down, X.device), put(across, X.device)
        background = check_background(self.background, X)
        out = like(X.shape, X)
        for rows in batched_slices(len(X), 2**15 if is_tensor(X) else 1024):
            images: NDArray = X[rows] - background
            # Every image by products of its own: it does not depend on its neighbours.
            images = down @ images.reshape(-1, height, width * channels)
            images = across @ images.reshape(-1, height, width, channels)
            out[rows] = images.reshape(-1, X.shape[1]) + background
        return out

    def _check_samples(self, X: Any, *, reset: bool) -> Any:
        if on_device(X):
            return check_on_device(self, X, reset=reset)
        return validate_data(self, X, dtype=FLOATS, reset=reset)

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
        check_number("sigma", self.sigma, at_least=0, at_most=10 * max(sides))
        check_number("background", self.background)
        if len(sides) == 1:
            return 1, sides[0], 1
        height, width, channels = (*sides, 1)[:3]
        return height, width, channels

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
