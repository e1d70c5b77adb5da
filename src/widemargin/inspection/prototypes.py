"""Prototypes to look at: as images, or as curves where the samples are signals.

A prototype lives in the space of the samples, so it can be drawn like one; what a class
looks like to the classifier is there to be seen. Prototypes have shape
(n_prototypes, n_features).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin.inspection.models import (
    as_given,
    fitted,
    inside,
    look_of,
)
from widemargin.inspection.style import (
    Look,
    check_look,
    common_limits,
    draw_mosaic,
    mosaic_inches,
    most_values,
    new_axes,
    padded,
    panels,
    series_style,
    tidy,
)

__all__ = ["PrototypeDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class PrototypeDisplay:
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
    shape: Sequence[int] | None = None
    positions: ArrayLike | None = None
    feature_names: Sequence[str] | None = None

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
            With ``prototypes_`` and ``prototype_labels_``. Those of a pipeline are
            brought back to its samples where every step can be undone, unless they are
            named columns, which are shown as the classifier sees them.
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
        shape, feature_names = look_of(estimator, shape, positions, feature_names)
        # Columns of a table have units of their own: as the classifier sees them they
        # fit on one axis.
        if feature_names is None:
            prototypes = as_given(estimator, prototypes)
        return cls(
            prototypes=prototypes,
            labels=getattr(inside(estimator), "prototype_labels_", None),
            shape=shape,
            positions=positions,
            feature_names=feature_names,
        ).plot(ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        n_columns: int | None = None,
        limits: tuple[float, float] | None = None,
        cmap: str = "gray_r",
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
        cmap : str, default="gray_r"
            Colour map of images without channels.

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
        look = check_look(P.shape[1], self.shape, self.positions, self.feature_names)
        groups = [(label, P[labels == label]) for label in np.unique(labels)]
        draw = self._plot_images if look.is_image else self._plot_curves
        self.ax_, self.axes_ = draw(ax, groups, look, n_columns, limits, cmap)
        self.figure_ = self.ax_.figure
        return self

    def _plot_images(
        self,
        ax: Any,
        groups: list[tuple[Any, NDArray]],
        look: Look,
        n_columns: int | None,
        limits: tuple[float, float] | None,
        cmap: str,
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
            inches = mosaic_inches(
                *size, images[0][0], labelled=not by_class, margin=0.4
            )
            ax = new_axes(type(self).__name__, inches)
        names = [[name for name, _ in line] for line in cells]
        draw_mosaic(
            ax,
            images,
            limits=limits or most_values([rows for _, rows in groups]),
            cmap=cmap,
            row_labels=[line[0] for line in names] if by_class else None,
            labels=None if by_class else names,
        )
        return ax, np.array([[ax]])

    def _plot_curves(
        self,
        ax: Any,
        groups: list[tuple[Any, NDArray]],
        look: Look,
        n_columns: int | None,
        limits: tuple[float, float] | None,
        cmap: str,
    ) -> tuple[Any, Any]:
        usual = ceil(sqrt(len(groups))) if look.names is None else 1
        width = min(n_columns or usual, len(groups))
        size = (ceil(len(groups) / width), width)
        inches = (2.6 * size[1], 1.9 * size[0])
        if look.names is not None:
            inches = (max(inches[0], 6.4), 1.35 * size[0] + 1.2)
        ax, axes = panels(type(self).__name__, ax, size, inches)
        limits = limits or padded(*common_limits([rows for _, rows in groups]))
        for panel in axes.flat[len(groups) :]:
            panel.set_axis_off()
        for k, (panel, (label, rows)) in enumerate(
            zip(axes.flat, groups, strict=False)
        ):
            for n, row in enumerate(rows):
                look.draw(panel, row, linewidth=1.5, **series_style(n))
            panel.set_ylim(limits)
            panel.set_title(str(label), fontsize=9, pad=3)
            tidy(panel)
            look.label(panel, below=k + width >= len(groups), beside=k % width == 0)
        return ax, axes
