r"""What prototype learners found, to look at: prototypes, and relevances of features.

A prototype lives in the space of the samples, so it can be drawn like one, as an image
or as a curve; what a class looks like to the classifier is there to be seen. Prototypes
have shape (n_prototypes, n_features).

A matrix learner measures :math:`(x - p)^\top \Lambda (x - p)`. The diagonal of the
relevance matrix :math:`\Lambda` says how much each feature counts by itself, an element
beside it how much two count together: where it is negative, the distance is small for
samples in which both are large or both small. Every matrix is divided by its trace, so
that its relevances are shares.

Reference: P. Schneider, M. Biehl, B. Hammer, Adaptive relevance matrices in learning
vector quantization, Neural Computation 21 (2009). Matrices have shape
(n_features, n_features), several of them (n_matrices, n_features, n_features).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import check_count
from widemargin._core.confidence import decisive
from widemargin.inspection import style
from widemargin.inspection.models import (
    as_given,
    as_seen,
    feature_names_of,
    fitted,
    innermost,
    look_of,
)

# Curves of more matrices than this cannot be told apart.
MOST_CURVES = 7


@dataclass(kw_only=True, eq=False, repr=False)
class PrototypeDisplay(style.SampleDisplay):
    """Prototypes as images, or as curves, by class.

    Parameters
    ----------
    prototypes : array-like of shape (n_prototypes, n_features)
        Prototypes.
    labels : array-like of shape (n_prototypes,), default=None
        Their labels; None numbers them.
    shape : tuple (height, width) or (height, width, channels), default=None
        Shape of a prototype as an image; None draws curves.
    positions : array-like of shape (length,), default=None
        Where the values of a curve lie: times, wavelengths. None counts them. A length
        that divides n_features gives several channels, channels last.
    feature_names : sequence of str, default=None
        Names of the features of a table, which is drawn as dots over them.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn; divided into panels for curves.
    axes_ : ndarray of matplotlib Axes of shape (n_rows, n_columns)
        One panel per class for curves; images are all in one.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.inspection import PrototypeDisplay
    >>> prototypes = np.random.default_rng(0).random((6, 16))
    >>> display = PrototypeDisplay(
    ...     prototypes=prototypes, labels=[0, 0, 1, 1, 2, 2], shape=(4, 4))
    >>> len(display.plot().ax_.images)
    6
    """

    prototypes: ArrayLike
    labels: ArrayLike | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        shape: Sequence[int] | None = None,
        positions: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "PrototypeDisplay":
        """Plot the prototypes of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            With ``prototypes_`` and ``prototype_labels_``. Prototypes of a pipeline are
            mapped back to its samples if every step has an inverse. Named columns are
            shown as the classifier sees them: divided by its ``scale_``, around the
            mean of the prototypes.
        shape : tuple (height, width) or (height, width, channels), default=None
            Shape of a prototype as an image. None takes that of the estimator's
            ``tangents``, if these are image tangents, and else draws curves.
        positions : array-like of shape (length,), default=None
            Where the values of a curve lie.
        feature_names : sequence of str, default=None
            Names of the features of a table. None takes those that the estimator was
            fitted with, where neither `shape` nor `positions` is given.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure. Divided into panels for curves.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : PrototypeDisplay
            The drawn display.
        """
        prototypes = np.asarray(fitted(estimator, "prototypes_"))
        model = innermost(estimator)
        expected = getattr(model, "n_features_in_", prototypes.shape[1])
        if prototypes.shape[1] != expected:
            raise ValueError(
                f"estimator: {type(model).__name__} has prototypes in a space of their "
                f"own, of {prototypes.shape[1]} coordinates where samples have "
                f"{expected} features; there is nothing to draw."
            )
        look = look_of(estimator, prototypes.shape[1], shape, positions, feature_names)
        # Columns of a table have units of their own: as the classifier sees them they
        # fit on one axis.
        unit = getattr(model, "scale_", None)
        if look["feature_names"] is None:
            prototypes, unit = as_given(estimator, prototypes), None
        elif unit is not None:
            prototypes = (prototypes - prototypes.mean(axis=0)) / np.asarray(unit)
        labels = getattr(model, "prototype_labels_", None)
        shown = cls(prototypes=prototypes, labels=labels, **look).plot(ax, **options)
        for panel in [] if unit is None else shown.axes_[:, 0]:
            panel.set_ylabel("spreads")
        return shown

    def plot(
        self,
        ax: Any = None,
        *,
        n_columns: int | None = None,
        limits: tuple[float, float] | None = None,
        cmap: str | None = None,
    ) -> "PrototypeDisplay":
        """Draw the prototypes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure. Divided into panels for curves.
        n_columns : int, default=None
            Images, or panels of curves, in a row. None gives every class a row of
            images, or fills a square where there is one image per class.
        limits : tuple of two floats, default=None
            Values drawn as the lightest and the darkest, or the vertical axis of
            curves. None is what 96 % of the values of images lie between, or room for
            every curve.
        cmap : str, default=None
            Colour map of images without channels. None is "gray" where most of their
            border is light, else "gray_r": paper is light.

        Returns
        -------
        self : PrototypeDisplay
            The display itself.
        """
        P = np.atleast_2d(np.asarray(self.prototypes, dtype=float))
        labels = np.arange(len(P)) if self.labels is None else np.asarray(self.labels)
        if labels.shape != (len(P),):
            raise ValueError(
                f"labels must have one entry for each of the {len(P)} prototypes; got "
                f"shape {labels.shape}."
            )
        look = self._look(P.shape[1])
        groups = [(label, P[labels == label]) for label in np.unique(labels)]
        draw = self._plot_images if look.is_image else self._plot_curves
        self.ax_, self.axes_ = draw(ax, groups, look, n_columns, limits, cmap)
        self.figure_ = self.ax_.figure
        return self

    def _plot_images(
        self,
        ax: Any,
        groups: list[tuple[Any, NDArray]],
        look: style.Look,
        n_columns: int | None,
        limits: tuple[float, float] | None,
        cmap: str | None,
    ) -> tuple[Any, Any]:
        most = max(len(rows) for _, rows in groups)
        by_class = n_columns is None and most > 1
        if by_class:
            cells = [[(str(label), row) for row in rows] for label, rows in groups]
        else:
            flat = [(str(label), row) for label, rows in groups for row in rows]
            width = n_columns or ceil(sqrt(len(flat)))
            cells = [flat[k : k + width] for k in range(0, len(flat), width)]
        images = [[look.image(row) for _, row in line] for line in cells]
        if ax is None:
            size = len(cells), max(len(line) for line in cells)
            inches = style.mosaic_inches(
                *size, images[0][0], labelled=not by_class, margin=0.4
            )
            ax = style.new_axes(type(self).__name__, inches)
        names = [[name for name, _ in line] for line in cells]
        style.draw_mosaic(
            ax,
            images,
            limits=limits or style.most_values([rows for _, rows in groups]),
            cmap=cmap,
            row_labels=[line[0] for line in names] if by_class else None,
            labels=None if by_class else names,
        )
        return ax, np.array([[ax]])

    def _plot_curves(
        self,
        ax: Any,
        groups: list[tuple[Any, NDArray]],
        look: style.Look,
        n_columns: int | None,
        limits: tuple[float, float] | None,
        cmap: str | None,
    ) -> tuple[Any, Any]:
        # Columns of a table want width, so far as the figure does not get too high.
        usual = ceil(sqrt(len(groups)) if look.names is None else len(groups) / 8)
        width = min(n_columns or usual, len(groups))
        size = (ceil(len(groups) / width), width)
        inches = (2.6 * size[1], 1.9 * size[0])
        if look.names is not None:
            inches = (max(inches[0], 6.4), 1.35 * size[0] + 1.2)
        ax, axes = style.panels(type(self).__name__, ax, size, inches)
        every = [rows for _, rows in groups]
        limits = limits or style.padded(*style.common_limits(every))
        for panel in axes.flat[len(groups) :]:
            panel.set_axis_off()
        for k, (panel, (label, rows)) in enumerate(
            zip(axes.flat, groups, strict=False)
        ):
            for n, row in enumerate(rows):
                look.draw(panel, row, linewidth=1.5, **style.series_style(n))
            panel.set_ylim(limits)
            panel.set_title(str(label), fontsize=9, pad=3)
            style.tidy(panel)
            look.label(panel, below=k + width >= len(groups), beside=k % width == 0)
        return ax, axes


@dataclass(kw_only=True, eq=False, repr=False)
class RelevanceDisplay(style.SampleDisplay):
    """Shares of the features in a learned distance: bars, a curve, or an image.

    Columns of a table are bars, the most relevant first. If the relevance matrix is not
    diagonal, it is drawn beside them, in a figure of its own. Of several matrices the
    relevances are the rows of one picture. Spectra and signals are curves, images are
    images.

    Parameters
    ----------
    matrix : array-like of shape (n_features, n_features)
        Relevance matrix, or several of shape (n_matrices, n_features, n_features).
    labels : array-like of shape (n_matrices,), default=None
        Names of several matrices; None numbers them.
    shape : tuple (height, width) or (height, width, channels), default=None
        Shape of a sample as an image.
    positions : array-like of shape (length,), default=None
        Where the values of a curve lie: times, wavelengths.
    feature_names : sequence of str, default=None
        Names of the features of a table; None numbers them.
    in_spreads : bool, default=False
        Whether the matrix is that of features in units of their spread: then relevances
        are shares of the distance, and the axis says so.

    Attributes
    ----------
    relevances_ : ndarray of shape (n_matrices, n_features)
        What was drawn: the diagonals, each of sum one.
    ax_ : matplotlib Axes
        Where it was drawn; divided into panels for bars beside a matrix.
    axes_ : ndarray of matplotlib Axes of shape (1, n_panels)
        The panels.
    figure_ : matplotlib Figure
        Their figure.

    See Also
    --------
    widemargin.GMLVQClassifier : Learns relevance matrices.
    PrototypeDisplay : The prototypes that the distance is measured to.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from widemargin import GMLVQClassifier
    >>> from widemargin.inspection import RelevanceDisplay
    >>> wine = load_wine()
    >>> model = GMLVQClassifier(random_state=0).fit(wine.data, wine.target)
    >>> display = RelevanceDisplay.from_estimator(
    ...     model, wine.data, feature_names=wine.feature_names)
    >>> display.relevances_.shape
    (1, 13)
    """

    matrix: ArrayLike
    labels: ArrayLike | None = None
    in_spreads: bool = False

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        shape: Sequence[int] | None = None,
        positions: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "RelevanceDisplay":
        """Plot the relevances of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            With ``relevance_matrix_``, or a pipeline that ends in one: the features are
            those that the classifier sees.
        X : array-like of shape (n_samples, n_features), default=None
            Samples, as the estimator takes them. Every feature is counted in its
            standard deviation among them, so that its unit does not count. None takes
            the training samples: what is drawn are ``feature_importances_``.
        shape : tuple (height, width) or (height, width, channels), default=None
            Shape of a sample as an image.
        positions : array-like of shape (length,), default=None
            Where the values of a curve lie.
        feature_names : sequence of str, default=None
            Names of the features. None takes those that the estimator was fitted with,
            where neither `shape` nor `positions` is given.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : RelevanceDisplay
            The drawn display.
        """
        matrix = np.asarray(fitted(estimator, "relevance_matrix_"), dtype=float)
        model = innermost(estimator)
        if X is None:
            spread = np.sqrt(model.feature_variances_, dtype=float)
        else:
            spread = as_seen(*decisive(estimator, X)).std(axis=0)
        if not (spread > 0).any():
            raise ValueError(
                "X must have samples that differ, whose spread is the unit of each "
                "feature; leave it out, or give more."
            )
        matrix = matrix * spread * spread[:, None]
        labels = None
        if matrix.ndim == 3:
            per_class = len(matrix) == len(model.classes_)
            labels = model.classes_ if per_class else model.prototype_labels_
        if shape is None and positions is None and feature_names is None:
            feature_names = feature_names_of(estimator)
        return cls(
            matrix=matrix,
            labels=labels,
            shape=shape,
            positions=positions,
            feature_names=feature_names,
            in_spreads=True,
        ).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, n_features: int = 20, cmap: str = "gray_r"
    ) -> "RelevanceDisplay":
        """Draw the relevances.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure. In given axes bars stand alone.
        n_features : int, default=20
            Features of a table to show at most, the most relevant ones.
        cmap : str, default="gray_r"
            Colour map of relevances that are drawn as images.

        Returns
        -------
        self : RelevanceDisplay
            The display itself.
        """
        check_count("n_features", n_features)
        matrices = shares(self.matrix)
        self.relevances_ = np.einsum("mii->mi", matrices)
        names = [""] if len(matrices) == 1 else self._labels(len(matrices))
        width = matrices.shape[1]
        look = self._look(width)
        is_table = look.names is not None or width <= n_features
        if look.is_image:
            self._plot_images(ax, look, names, cmap)
        elif look.positions is not None or not is_table:
            self._plot_curves(ax, look, names)
        else:
            # The most relevant of all matrices together.
            shown = np.argsort(-self.relevances_.mean(axis=0), kind="stable")
            shown = shown[:n_features]
            of = look.names or tuple(map(str, range(width)))
            columns = [style.short(of[k]) for k in shown]
            self._plot_table(ax, matrices[:, shown][:, :, shown], columns, names, cmap)
        self.figure_ = self.ax_.figure
        return self

    @property
    def _axis(self) -> str:
        if self.in_spreads:
            return "share of the distance, %"
        return "relevance in the unit of each feature, %"

    def _labels(self, n_matrices: int) -> list[str]:
        labels = range(n_matrices) if self.labels is None else np.ravel(self.labels)
        if len(labels) != n_matrices:
            raise ValueError(
                f"labels must have one entry for each of the {n_matrices} matrices; "
                f"got {len(labels)}."
            )
        return [str(label) for label in labels]

    def _plot_images(self, ax: Any, look: Any, names: list[str], cmap: str) -> None:
        images = [look.image(row) for row in self.relevances_]
        if ax is None:
            size = style.mosaic_inches(
                1, len(images), images[0], labelled=True, margin=0.4
            )
            ax = style.new_axes(
                type(self).__name__, (max(size[0], 2.4), max(size[1], 2.4))
            )
        top = float(self.relevances_.max()) or 1.0
        style.draw_mosaic(ax, [images], limits=(0.0, top), cmap=cmap, labels=[names])
        self.ax_, self.axes_ = ax, np.array([[ax]])

    def _plot_curves(self, ax: Any, look: style.Look, names: list[str]) -> None:
        if len(self.relevances_) > MOST_CURVES:
            raise ValueError(
                f"{len(self.relevances_)} curves of relevances cannot be told apart; "
                f"up to {MOST_CURVES} can. Use metric='full' or 'class', or give "
                "feature_names."
            )
        ax = style.own_axes(type(self).__name__, ax)
        for k, (name, row) in enumerate(zip(names, self.relevances_, strict=True)):
            look.draw(ax, 100 * row, linewidth=1.5, label=name, **style.series_style(k))
        look.label(ax)
        ax.set_ylabel(self._axis)
        style.from_zero(ax)
        if len(names) > 1:
            style.legend(ax)
        self.ax_, self.axes_ = ax, np.array([[ax]])

    def _plot_table(
        self,
        ax: Any,
        matrices: NDArray,
        columns: list[str],
        names: list[str],
        cmap: str,
    ) -> None:
        places = np.arange(len(columns))
        relevances = 100 * np.einsum("mii->mi", matrices)
        high = 0.24 * len(columns) + 1.0
        if len(matrices) > 1:
            size = (0.3 * len(columns) + 1.6, 0.24 * len(names) + 1.8)
            if ax is None:
                ax = style.new_axes(type(self).__name__, size)
            picture = ax.imshow(relevances, cmap=cmap, vmin=0, aspect="auto")
            ax.set_xticks(places, columns, rotation=40, ha="right", fontsize=8)
            ax.set_yticks(range(len(names)), names, fontsize=8)
            ax.set_title(self._axis, fontsize=10)
            ax.figure.colorbar(picture, ax=ax)
            self.ax_, self.axes_ = ax, np.array([[ax]])
            return
        matrix = matrices[0]
        with_matrix = ax is None and bool(np.any(matrix != np.diag(np.diag(matrix))))
        inches = (5.0 + with_matrix * (high + 0.5), high)
        self.ax_, self.axes_ = style.panels(
            type(self).__name__, ax, (1, 1 + with_matrix), inches
        )
        bars = self.axes_[0, 0]
        bars.barh(places, relevances[0], color=style.SERIES[1])
        bars.set_yticks(places, columns, fontsize=8)
        bars.set_ylim(len(columns) - 0.5, -0.5)
        bars.set_xlabel(self._axis)
        style.tidy(bars)
        if with_matrix:
            beside = self.axes_[0, 1]
            # The diagonal is in the bars; its colour would drown what is beside it.
            most = 100 * float(np.abs(matrix - np.diag(np.diag(matrix))).max())
            picture = beside.imshow(100 * matrix, cmap="RdBu_r", vmin=-most, vmax=most)
            beside.set_xticks(places, columns, rotation=40, ha="right", fontsize=8)
            beside.set_yticks([])
            beside.figure.colorbar(picture, ax=beside, label="of two together, %")


def shares(matrix: ArrayLike) -> NDArray:
    """Return matrices of shape (m, d, d), each divided by its trace."""
    values = np.asarray(matrix, dtype=float)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[1] != values.shape[2] or not values.size:
        raise ValueError(
            "matrix must have shape (n_features, n_features), or (n_matrices, "
            f"n_features, n_features); got {np.shape(matrix)}."
        )
    traces = np.einsum("mii->m", values)
    if not (np.isfinite(values).all() and (traces > 0).all()):
        raise ValueError("matrix must be finite, with relevances of a positive sum.")
    return values / traces[:, None, None]
