r"""Two samples laid over each other: what moving explains and what it leaves.

Before: x, y and :math:`x - y`, whose length is the Euclidean distance. After: both
moved along their tangents to where they are nearest, and the residual, whose length is
the tangent distance up to the cost of the spring. Samples have shape (n_features,).

Reference: P. Simard, Y. LeCun, J. Denker, Efficient pattern recognition using a new
transformation distance, 1993.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from widemargin._core.checks import check_count
from widemargin.inspection.models import (
    as_seen,
    fitted,
    generator_of,
    inside,
    look_of,
)
from widemargin.inspection.style import (
    INK,
    RED,
    SERIES,
    Look,
    check_look,
    common_limits,
    legend,
    one_row,
    padded,
    panels,
    show_image,
    tidy,
)
from widemargin.metrics import Alignment, tangent_alignment, tangent_distances

__all__ = ["AlignmentDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class AlignmentDisplay:
    """Two samples before and after moving, the residual and the two distances.

    Parameters
    ----------
    x, y : array-like of shape (n_features,)
        The samples.
    x_aligned, y_aligned : array-like of shape (n_features,)
        The samples after moving.
    tangent_distance : float
        Distance after moving, not squared.
    names : tuple of two str, default=("x", "y")
        What the samples are called.
    shape : tuple (height, width) or (height, width, channels), default=None
        Shape of a sample as an image; None draws curves.
    positions : array-like of shape (length,), default=None
        Where the values of a curve lie: times, wavelengths. None counts them.
    feature_names : sequence of str, default=None
        Names of the features of a table, which is drawn as dots over them.

    Attributes
    ----------
    euclidean_distance : float
        Distance before moving.
    ax_ : matplotlib Axes
        The axes that were divided into panels.
    axes_ : ndarray of matplotlib Axes of shape (2, 3), or (2, 2) for curves
        The panels: before above, after below, differences on the right.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.inspection import AlignmentDisplay
    >>> from widemargin.tangents import SignalTangents
    >>> time = np.linspace(0, 1, 50)
    >>> display = AlignmentDisplay.from_estimator(
    ...     SignalTangents(["offset", "slope"]), time**3, time**3 + time - 2)
    >>> round(display.euclidean_distance, 3), round(display.tangent_distance, 3)
    (10.809, 0.024)
    """

    x: ArrayLike
    y: ArrayLike
    x_aligned: ArrayLike
    y_aligned: ArrayLike
    tangent_distance: float
    names: tuple[str, str] = ("x", "y")
    shape: Sequence[int] | None = None
    positions: ArrayLike | None = None
    feature_names: Sequence[str] | None = None

    @property
    def euclidean_distance(self) -> float:
        """Distance before moving."""
        return float(np.linalg.norm(np.asarray(self.x) - np.asarray(self.y)))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sides: str | None = None,
        spring: float = 1e-5,
        names: tuple[str, str] | None = None,
        shape: Sequence[int] | None = None,
        positions: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "AlignmentDisplay":
        """Align two samples, or a sample with the nearest model, and plot it.

        Parameters
        ----------
        estimator : tangent generator or fitted classifier
            With `y`: a generator, or a classifier that was given one as ``tangents``.
            Without: a classifier with ``prototypes_`` and ``tangents_``, whose model
            nearest to `x` is the other sample.
        x : array-like of shape (n_features,)
            A sample.
        y : array-like of shape (n_features,), default=None
            Another sample, or None for the nearest model.
        sides : {"x", "y", "two", "midpoint"}, default=None
            Which sample may move, as in :func:`widemargin.metrics.tangent_alignment`.
            None is "two" with `y`, and "y", the model's own side, without.
        spring : float, default=1e-5
            Cost of moving.
        names : tuple of two str, default=None
            What the samples are called; None is "x" and "y", or the model's label.
        shape : tuple (height, width) or (height, width, channels), default=None
            Shape of a sample as an image. None takes that of the generator, if it
            makes image tangents, and else draws curves.
        positions : array-like of shape (length,), default=None
            Where the values of a curve lie.
        feature_names : sequence of str, default=None
            Names of the features of a table. None takes those that the estimator was
            fitted with, where neither `shape` nor `positions` is given.
        ax : matplotlib Axes, default=None
            Axes to divide into panels; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : AlignmentDisplay
            The drawn display.
        """
        shape, feature_names = look_of(estimator, shape, positions, feature_names)
        row = as_seen(estimator, one_row(x, "x")[None])[0]
        other = None
        if y is not None:
            other = as_seen(estimator, one_row(y, "y")[None])[0]
        estimator = inside(estimator)
        generator = generator_of(estimator)
        ends: dict[str, Any] = {"tangents": generator}
        if other is None:
            k, ends = _nearest_model(estimator, row, sides or "y", spring)
            other = np.asarray(estimator.prototypes_, dtype=float)[k]
            names = names or ("x", f"model of {estimator.prototype_labels_[k]}")
        elif generator is None:
            raise ValueError(
                f"estimator: {type(estimator).__name__} makes no tangents of samples; "
                "give a tangent generator, or leave y out to align x with a model."
            )
        sides = sides or ("two" if "tangents" in ends else "y")
        aligned = tangent_alignment(
            row[None], other[None], sides=sides, spring=spring, **ends
        )
        return cls.from_alignment(
            aligned,
            names=names or ("x", "y"),
            shape=shape,
            positions=positions,
            feature_names=feature_names,
            ax=ax,
            **options,
        )

    @classmethod
    def from_alignment(
        cls,
        alignment: Alignment,
        pair: int = 0,
        *,
        names: tuple[str, str] = ("x", "y"),
        shape: Sequence[int] | None = None,
        positions: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "AlignmentDisplay":
        """Plot one pair of what :func:`widemargin.metrics.tangent_alignment` returned.

        Parameters
        ----------
        alignment : Alignment
            Pairs of aligned samples.
        pair : int, default=0
            Which pair.
        names : tuple of two str, default=("x", "y")
            What the samples are called.
        shape : tuple (height, width) or (height, width, channels), default=None
            Shape of a sample as an image; None draws curves.
        positions : array-like of shape (length,), default=None
            Where the values of a curve lie.
        feature_names : sequence of str, default=None
            Names of the features of a table.
        ax : matplotlib Axes, default=None
            Axes to divide into panels; None makes a figure.
        **options : dict
            Passed on to :meth:`plot`.

        Returns
        -------
        display : AlignmentDisplay
            The drawn display.
        """
        if not isinstance(alignment, Alignment):
            raise TypeError(
                "alignment must be what tangent_alignment returned; got "
                f"{alignment!r:.80}."
            )
        n_pairs = len(alignment.x_aligned)
        if check_count("pair", pair, low=-n_pairs) >= n_pairs:
            raise ValueError(f"pair must be below {n_pairs}, their number; got {pair}.")
        x_aligned, y_aligned = alignment.x_aligned[pair], alignment.y_aligned[pair]
        display = cls(
            x=x_aligned - alignment.x_coefficients[pair] @ alignment.x_frames[pair],
            y=y_aligned - alignment.y_coefficients[pair] @ alignment.y_frames[pair],
            x_aligned=x_aligned,
            y_aligned=y_aligned,
            tangent_distance=float(np.sqrt(alignment.squared_distances[pair])),
            names=names,
            shape=shape,
            positions=positions,
            feature_names=feature_names,
        )
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, cmap: str = "gray_r") -> "AlignmentDisplay":
        """Draw both samples before and after, and what differs.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to divide into panels; None makes a figure.
        cmap : str, default="gray_r"
            Colour map of images without channels.

        Returns
        -------
        self : AlignmentDisplay
            The display itself.
        """
        rows = [
            one_row(getattr(self, name), name)
            for name in ("x", "y", "x_aligned", "y_aligned")
        ]
        look = check_look(len(rows[0]), self.shape, self.positions, self.feature_names)
        titles = (
            f"difference: Euclidean {self.euclidean_distance:.3g}",
            f"residual: tangent {self.tangent_distance:.3g}",
        )
        pairs = (rows[:2], rows[2:])
        draw = self._plot_images if look.is_image else self._plot_curves
        self.ax_, self.axes_ = draw(ax, pairs, titles, look, cmap)
        self.figure_ = self.ax_.figure
        return self

    def _plot_images(
        self, ax: Any, pairs: Any, titles: Any, look: Look, cmap: str
    ) -> tuple[Any, Any]:
        ax, axes = panels(type(self).__name__, ax, (2, 3), (6.2, 4.4))
        limits = common_limits(pairs[0])
        reach = float(np.abs(pairs[0][0] - pairs[0][1]).max()) or 1.0
        stages = ("before", "after")
        for row, (x, y), title, stage in zip(axes, pairs, titles, stages, strict=True):
            for panel, sample in zip(row, (x, y), strict=False):
                show_image(panel, look.image(sample), limits=limits, cmap=cmap)
            difference = look.image(x - y)
            if difference.ndim == 3:
                difference = difference.mean(axis=2)
            show_image(row[2], difference, limits=(-reach, reach), cmap="RdBu_r")
            row[0].set_ylabel(stage, color=INK)
            words = (*self.names, title.replace(": ", "\n"))
            if stage == "after":
                words = (*(f"{name}, moved" for name in self.names), words[2])
            for panel, text in zip(row, words, strict=True):
                panel.set_title(text, fontsize=9, color=INK, pad=4)
        return ax, axes

    def _plot_curves(
        self, ax: Any, pairs: Any, titles: Any, look: Look, cmap: str
    ) -> tuple[Any, Any]:
        ax, axes = panels(type(self).__name__, ax, (2, 2), (8.0, 4.8))
        limits = padded(*common_limits([*pairs[0], *pairs[1]]))
        gap = padded(*common_limits([0 * pairs[0][0], pairs[0][0] - pairs[0][1]]))
        stages = ("before", "after")
        for row, (x, y), title, stage in zip(axes, pairs, titles, stages, strict=True):
            for sample, name, colour, dashes in (
                (x, self.names[0], INK, "-"),
                (y, self.names[1], RED, (0, (5, 1.5))),
            ):
                lines = look.draw(row[0], sample, color=colour, linestyle=dashes)
                lines[0].set_label(name)
            look.draw(row[1], x - y, color=SERIES[1])
            row[1].axhline(0, color=INK, linewidth=0.6)
            row[0].set_title(stage, fontsize=10)
            row[1].set_title(title, fontsize=10)
            row[0].set_ylim(limits)
            row[1].set_ylim(gap)
            for panel in row:
                tidy(panel)
                look.label(panel, below=stage == "after")
        legend(axes[0, 0], fontsize=9)
        return ax, axes


def _nearest_model(
    estimator: Any, x: np.ndarray, sides: str, spring: float
) -> tuple[int, dict[str, Any]]:
    """Return the number of the model nearest to x, and the tangents at both ends."""
    centres = np.asarray(fitted(estimator, "prototypes_"), dtype=float)
    frames = np.asarray(fitted(estimator, "tangents_"), dtype=float)
    ends: dict[str, Any] = {"Y_tangents": frames}
    if sides in ("x", "two"):
        ends["X_tangents"] = generator_of(estimator)
        if ends["X_tangents"] is None:
            raise ValueError(
                f"estimator: {type(estimator).__name__} has no tangents for inputs, "
                f"so that sides={sides!r} has none for x; use sides='y'."
            )
    distances = tangent_distances(x[None], centres, sides=sides, spring=spring, **ends)
    k = int(distances[0].argmin())
    return k, ends | {"Y_tangents": frames[k : k + 1]}
