r"""Direction features: where an image has edges, and which way they face.

The gradient g of the smoothed image, its length m = \|g\| saturated to
:math:`q = m/\sqrt{m^2+\varepsilon^2}`, is shared out linearly among D directions,

.. math:: p_k = q\,\max(0, 1 - |((\varphi - k + D/2) \bmod D) - D/2|),
          \quad \varphi = \operatorname{atan2}(g_y, g_x)\,D/2\pi,

and every direction is blurred and sampled on a coarse grid,

.. math:: f_{kij} = \sum_{uv} W_{iu} W_{jv}\, p_k(u, v),
          \quad W_{iu} = e^{-(u-c_i)^2/2b^2}.

Edges count by being there, not by being strong; a small shift of a stroke moves little
from one cell to the next; the root of f, the default `power`, evens out crowded cells.
Without the saturation or the root the features are clearly worse. One number, the root
mean square norm over the training images, scales all of them: a norm of each image's
own loses how much ink there is.

X is (n, h·w) or (n, h·w·c), channels last; the features are (n, D·G_y·G_x[·c]).

References: N. Dalal, B. Triggs, Histograms of oriented gradients, CVPR 2005; C.-L. Liu
et al., Handwritten digit recognition: benchmarking of state-of-the-art techniques,
Pattern Recognition 36 (2003).
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from widemargin._compute.machine import batched_slices, rows_in_budget
from widemargin._core.checks import (
    FLOATS,
    SIZES,
    as_array,
    check_background,
    check_count,
    check_number,
    check_option,
    check_sides,
    check_size,
    validate_data,
    warn_of_paper,
)
from widemargin._core.params import (
    Count,
    Finite,
    Number,
    Positive,
    check_declared,
    parameters,
)
from widemargin.tangents.preparing import KeepsKind, filter_matrix

# Pixels of background around the image, so that strokes at the border have edges.
PAD = 2


class _Plan(NamedTuple):
    """What the parameters mean for images of one shape, in their dtype."""

    height: int
    width: int
    channels: int
    smooth_y: NDArray
    smooth_x: NDArray
    cells_y: NDArray
    cells_x: NDArray


@parameters
class DirectionFeatures(
    KeepsKind, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Blurred maps of edge directions, as a step before any classifier of images.

    Parameters
    ----------
    shape : tuple (height, width) or (height, width, channels)
        Shape of one image; a row of `X` is the image flattened in C order.
    directions : int, default=8
        Number of directions that the circle is divided into.
    grid : int, tuple (rows, columns) or "auto", default="auto"
        Cells along each side. "auto" is ``14/3 + side/12``, rounded: 6 at 16 pixels,
        7 at 28.
    smoothing : float or "auto", default="auto"
        Standard deviation, in pixels, of the Gaussian that smooths the image before its
        gradient is taken. "auto" is ``7/30 + side/60`` of the shorter side: 0.5 at 16
        pixels, 0.7 at 28.
    eps : float, default=0.05
        Gradient, as a share of the largest value in the training images, above which
        an edge is an edge.
    blur : float or "auto", default="auto"
        Standard deviation, in pixels, of a cell's window; "auto" is 0.6 of the
        distance between cells.
    power : float, default=0.5
        Exponent of every feature, in (0, 1].
    background : float, default=0.0
        Value of the image outside its borders.
    channels : {"strongest", "keep"}, default="strongest"
        With several channels, take at every pixel the gradient of the channel in which
        it is strongest, or make features of every channel.

    Attributes
    ----------
    amplitude_ : float
        Largest deviation from the background in the training images: the unit of `eps`.
    scale_ : float
        Root mean square norm of the training images' features, by which all are
        divided.
    n_features_in_ : int
        Number of features of the images.

    See Also
    --------
    GaussianSmoother : Smoothing alone, for distances between images.
    Deskew : Upright characters.

    Notes
    -----
    A blank image has features of zero. `jvp` carries tangents of the images
    over to the features, so that tangent models work there.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.tangents import DirectionFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> DirectionFeatures((8, 8)).fit_transform(X).shape
    (1797, 200)
    """

    shape: Sequence[int] | None = None
    _: KW_ONLY
    directions: Annotated[int, Count(low=2)] = 8
    grid: int | Sequence[int] | Literal["auto"] = "auto"
    smoothing: float | Literal["auto"] = "auto"
    eps: Positive = 0.05
    blur: float | Literal["auto"] = "auto"
    power: Annotated[float, Number(above=0, at_most=1)] = 0.5
    background: Finite = 0.0
    channels: Literal["strongest", "keep"] = "strongest"

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Measure the images: their largest value and the norm of their features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images.
        y : None
            Ignored.

        Returns
        -------
        self : DirectionFeatures
            The fitted transformer.
        """
        check_declared(self)
        samples = validate_data(self, X, dtype=FLOATS)
        plan = self._plan(samples.shape[1], np.dtype(np.float64))
        background = check_background(self.background, samples)
        warn_of_paper(
            self.background, samples, (plan.height, plan.width, plan.channels)
        )
        self.amplitude_ = float(np.abs(samples - background).max()) or 1.0
        cells = len(plan.cells_y) * plan.cells_x.shape[1]
        self._n_features_out = self.directions * cells
        if self.channels == "keep":
            self._n_features_out *= plan.channels
        self.scale_ = 1.0
        squares = (self._features(samples) ** 2).sum(axis=1)
        self.scale_ = float(np.sqrt(squares.mean(dtype=np.float64))) or 1.0
        return self

    def transform(self, X: ArrayLike) -> NDArray:
        """Compute the features of images.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Direction by direction, cell by cell, row by row. float32 if `X` is, else
            float64.
        """
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=FLOATS, reset=False)
        return self._features(samples)

    def jvp(self, X: ArrayLike, tangents: ArrayLike) -> NDArray:
        r"""Carry tangents of images over to the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images.
        tangents : array-like of shape (n_samples, n_tangents, n_features)
            How each image may vary.

        Returns
        -------
        ndarray of shape (n_samples, n_tangents, n_features_out)
            The derivative of the features at x along every tangent t,
            :math:`\lim_{h \to 0} (F(x + h t) - F(x))/h`. Where the gradient of an
            image vanishes the features have no derivative; such pixels count as fixed.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin.tangents import DirectionFeatures, ImageTangents
        >>> X = np.random.default_rng(0).random((3, 64))
        >>> features = DirectionFeatures((8, 8)).fit(X)
        >>> T = ImageTangents((8, 8)).tangents(X)
        >>> features.jvp(X, T).shape
        (3, 7, 200)
        """
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=FLOATS, reset=False)
        moves = as_array("tangents", tangents)
        check_size(moves, "tangents", dtype=samples.dtype)
        moves = moves.astype(samples.dtype)
        n, d = samples.shape
        if moves.ndim != 3 or (moves.shape[0], moves.shape[2]) != (n, d):
            raise ValueError(
                "tangents must have shape (n_samples, n_tangents, n_features) = "
                f"({n}, n_tangents, {d}); got {moves.shape}."
            )
        plan = self._plan(d, samples.dtype)
        out = np.empty((n, moves.shape[1], self._n_features_out), samples.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for i in range(n):
                out[i] = self._derivative(samples[i : i + 1], moves[i], plan)
        if not np.isfinite(out).all():
            raise ValueError(
                "tangents are so large beside the gradients of X that the derivatives "
                "are no numbers; scale both alike."
            )
        return out

    def _features(self, X: NDArray) -> NDArray:
        plan = self._plan(X.shape[1], X.dtype)
        out = np.empty((len(X), self._n_features_out), X.dtype)
        pixels = (plan.height + 2 * PAD) * (plan.width + 2 * PAD) * plan.channels
        size = min(256, rows_in_budget(X.itemsize * pixels * (self.directions + 8)))
        for rows in batched_slices(len(X), size):
            out[rows] = self._transform(X[rows], plan)
        return out

    def _transform(self, X: NDArray, plan: _Plan) -> NDArray:
        ink = X - check_background(self.background, X)
        g_x, g_y = self._strongest(*self._gradient(ink, plan))
        length = np.hypot(g_x, g_y)
        # A number of this dtype that does not vanish under a gradient of zero.
        least, most = SIZES[X.dtype]
        eps = min(max(float(self.eps) * float(self.amplitude_), least**2), most)
        q = length / np.hypot(length, X.dtype.type(eps))
        angle = np.arctan2(g_y, g_x) * (self.directions / (2 * np.pi))
        planes = [
            q * np.maximum(0, 1 - np.abs(self._turn(angle, k)))
            for k in range(self.directions)
        ]
        sums = self._cells(np.stack(planes, axis=1), plan)
        return np.maximum(sums, 0) ** X.dtype.type(self.power) / self.scale_

    def _derivative(self, x: NDArray, moves: NDArray, plan: _Plan) -> NDArray:
        """Return the derivatives of the features of one image along its tangents."""
        G_x, G_y = self._gradient(x - check_background(self.background, x), plan)
        d_x, d_y = self._gradient(moves, plan)
        g_x, g_y, d_x, d_y = self._strongest(G_x, G_y, d_x, d_y)
        length = np.hypot(g_x, g_y)
        eps = self.eps * self.amplitude_
        there = length > SIZES[x.dtype][0] ** 1.5
        safe = np.where(there, length, 1)
        root = np.hypot(safe, eps)
        q = length / root
        # The derivatives of q and of the angle, per unit of the gradient's change.
        d_q = (eps / root) ** 2 * (g_x * d_x + g_y * d_y) / (safe * root)
        turn = self.directions / (2 * np.pi)
        d_angle = turn * (g_x * d_y - g_y * d_x) / safe**2
        d_q, d_angle = (np.where(there, d, 0) for d in (d_q, d_angle))
        angle = np.arctan2(g_y, g_x) * turn
        planes, changes = [], []
        for k in range(self.directions):
            away = self._turn(angle, k)
            part = np.maximum(0, 1 - np.abs(away))
            slope = np.where(part > 0, -np.sign(away), 0)
            planes.append(q * part)
            changes.append(d_q * part + q * slope * d_angle)
        sums = np.maximum(self._cells(np.stack(planes, axis=1), plan), 0)
        steps = self._cells(np.stack(changes, axis=1), plan)
        positive = sums > 0
        rates = self.power * np.where(positive, sums, 1) ** (self.power - 1)
        return np.where(positive, rates, 0) * steps / self.scale_

    def _turn(self, angle: NDArray, k: int) -> NDArray:
        """How far an angle, in directions, is from direction k, the shorter way."""
        away = angle - k
        # A remainder, in a fifth of the time that np.mod takes.
        return away - self.directions * np.rint(away / self.directions)

    def _gradient(self, X: NDArray, plan: _Plan) -> tuple[NDArray, NDArray]:
        """Sobel gradients (n, channels, height + 2 PAD, width + 2 PAD) over 8."""
        border = PAD + 1
        images = np.moveaxis(
            X.reshape(-1, plan.height, plan.width, plan.channels), 3, 1
        )
        images = np.pad(images, ((0, 0), (0, 0), (border,) * 2, (border,) * 2))
        images = plan.smooth_y @ images @ plan.smooth_x
        d_x = images[..., 2:] - images[..., :-2]
        d_y = images[..., 2:, :] - images[..., :-2, :]
        return (
            (d_x[..., :-2, :] + 2 * d_x[..., 1:-1, :] + d_x[..., 2:, :]) / 8,
            (d_y[..., :-2] + 2 * d_y[..., 1:-1] + d_y[..., 2:]) / 8,
        )

    def _strongest(self, g_x: NDArray, g_y: NDArray, *more: NDArray) -> list[NDArray]:
        """Drop all channels but that of the strongest gradient, if so asked."""
        arrays = [g_x, g_y, *more]
        if self.channels == "keep" or g_x.shape[1] == 1:
            return arrays
        best = np.argmax(g_x**2 + g_y**2, axis=1, keepdims=True)
        return [
            np.take_along_axis(a, np.broadcast_to(best, (len(a), *best.shape[1:])), 1)
            for a in arrays
        ]

    @staticmethod
    def _cells(planes: NDArray, plan: _Plan) -> NDArray:
        """Blurred samples of planes (n, directions, channels, rows, columns)."""
        cells = plan.cells_y @ planes @ plan.cells_x
        n_features = math.prod(cells.shape[1:])
        return np.moveaxis(cells, 2, -1).reshape(len(planes), n_features)

    def _plan(self, n_features: int, dtype: Any) -> _Plan:
        sides = check_sides(self.shape, "DirectionFeatures", n_features)
        height, width, channels = sides
        smoothing: Any = self.smoothing
        if isinstance(smoothing, str):
            check_option("smoothing", smoothing, ("auto",))
            smoothing = 7 / 30 + min(height, width) / 60
        most = 10 * max(sides)
        smoothing = check_number("smoothing", smoothing, at_least=0, at_most=most)
        border = 2 * (PAD + 1)
        smooth_y, smooth_x = (
            filter_matrix(side + border, smoothing, 0, dtype)
            for side in (height, width)
        )
        rows, columns = self._cell_counts(height, width)
        return _Plan(
            height,
            width,
            channels,
            smooth_y,
            smooth_x,
            self._windows(height, rows, dtype),
            self._windows(width, columns, dtype).T.copy(),
        )

    def _cell_counts(self, height: int, width: int) -> tuple[int, int]:
        if isinstance(self.grid, str):
            check_option("grid", self.grid, ("auto",))
            rows, columns = (round(14 / 3 + side / 12) for side in (height, width))
            return min(rows, height), min(columns, width)
        pair = self.grid if isinstance(self.grid, Sequence) else (self.grid,) * 2
        if len(pair) != 2:
            raise ValueError(f"grid must be one or two integers; got {self.grid!r}.")
        rows, columns = (check_count("grid", cells, "'auto' or ") for cells in pair)
        if rows > height or columns > width:
            raise ValueError(
                f"grid={self.grid!r} has more cells than the image has pixels, "
                f"({height}, {width}); use a smaller one."
            )
        return rows, columns

    def _windows(self, side: int, cells: int, dtype: Any) -> NDArray:
        """(cells, side + 2 PAD) Gaussian windows around the cells' centres."""
        blur: Any = self.blur
        if isinstance(blur, str):
            check_option("blur", blur, ("auto",))
            blur = 0.6 * side / cells
        blur = check_number("blur", blur, at_least=1e-100, at_most=1e100)
        centres = (np.arange(cells) + 0.5) * side / cells - 0.5
        pixels = np.arange(-PAD, side + PAD)
        offsets = pixels - centres[:, np.newaxis]
        return np.exp(-(offsets**2) / (2 * blur**2)).astype(dtype)
