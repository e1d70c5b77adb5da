r"""Tangents to look at: one sample swept along its own, two laid over each other.

*Swept.* Row k shows :math:`x + s\,a_k t_k` for several steps s; a tangent that means
what it should looks like its transformation near s = 0 and like its linear continuation
farther out. Steps are measured in what is seen: s = 0.5 changes some feature by half
the range of the sample. Sample (n_features,), tangents (n_tangents, n_features).

*Laid over each other.* Before: x, y and :math:`x - y`, whose length is the Euclidean
distance. After: both moved along their tangents to where they are nearest, and the
residual, whose length is the tangent distance up to the cost of the spring.

References: P. Simard et al., Transformation invariance in pattern recognition: tangent
distance and tangent propagation, 1998; P. Simard, Y. LeCun, J. Denker, Efficient
pattern recognition using a new transformation distance, 1993.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import check_count
from widemargin.inspection import style
from widemargin.inspection.models import (
    as_seen,
    ends_of,
    fitted,
    frames_unit,
    generator_of,
    innermost,
    look_of,
)
from widemargin.metrics import Alignment, tangent_alignment, tangent_distances
from widemargin.metrics.tangent import DEFAULT_SPRING
from widemargin.tangents.generator import DirectionalTangents
from widemargin.tangents.signal import BASELINES


@dataclass(kw_only=True, eq=False, repr=False)
class TangentDisplay(style.SampleDisplay):
    """A sample moved along each of its tangents, as images or as curves.

    Parameters
    ----------
    sample : array-like of shape (n_features,)
        The sample.
    tangents : array-like of shape (n_tangents, n_features)
        Its tangents.
    names : sequence of str, default=None
        Their names; None numbers them.
    shape : tuple (height, width) or (height, width, channels), default=None
        Shape of the sample as an image; None draws curves.
    positions : array-like of shape (length,), default=None
        Where the values of a curve lie: times, wavelengths. None counts them.
    feature_names : sequence of str, default=None
        Names of the features of a table, which is drawn as dots over them.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn; divided into panels for curves.
    axes_ : ndarray of matplotlib Axes of shape (n_rows, n_columns)
        One panel per tangent for curves; images are all in one.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.inspection import TangentDisplay
    >>> from widemargin.tangents import ImageTangents
    >>> image = np.zeros((8, 8))
    >>> image[2:6, 4] = 1.0
    >>> display = TangentDisplay.from_estimator(ImageTangents((8, 8)), image.ravel())
    >>> len(display.ax_.images), display.names[3]
    (35, 'rotation')
    """

    sample: ArrayLike
    tangents: ArrayLike
    names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        sample: ArrayLike | None = None,
        *,
        index: int = 0,
        shape: Sequence[int] | None = None,
        positions: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "TangentDisplay":
        """Sweep a sample along its tangents, or a fitted model along its own.

        Parameters
        ----------
        estimator : tangent generator or fitted classifier
            With a `sample`: a generator, fitted if it learns, or a classifier that was
            given one as ``tangents``. In a pipeline, the sample is shown as the
            classifier sees it. Without: a classifier with ``prototypes_`` and
            ``tangents_``, as tangent models have.
        sample : array-like of shape (n_features,), default=None
            The sample; None is prototype number `index` of the classifier.
        index : int, default=0
            Which prototype.
        shape : tuple (height, width) or (height, width, channels), default=None
            Shape of the sample as an image. None takes that of the generator, if it
            makes image tangents, and else draws curves.
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
        display : TangentDisplay
            The drawn display.
        """
        if sample is None:
            centres = np.asarray(fitted(estimator, "prototypes_"))
            frames = np.asarray(fitted(estimator, "tangents_"))
            frames = frames * frames_unit(innermost(estimator))
            number = check_count("index", index, low=-len(centres))
            if number >= len(centres):
                raise ValueError(
                    f"index must be below {len(centres)}, the number of prototypes; "
                    f"got {number}."
                )
            row, tangents = centres[number], frames[number]
            # A model of a class that varies in few directions ends in rows of zeros.
            tangents = tangents[np.abs(tangents).max(axis=1) > 0]
            names = tangent_names(None, len(tangents))
        else:
            generator = generator_of(estimator)
            if generator is None:
                raise ValueError(
                    f"estimator: {type(estimator).__name__} makes no tangents of "
                    "samples; give a tangent generator, or leave sample out to sweep a "
                    "prototype."
                )
            row = as_seen(estimator, style.one_row(sample, "sample")[None])[0]
            tangents = generator.tangents(row[None])[0]
            names = tangent_names(generator, len(tangents))
        look = look_of(estimator, len(row), shape, positions, feature_names)
        shown = cls(sample=row, tangents=tangents, names=names, **look)
        return shown.plot(ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        steps: Sequence[float] = (-0.6, -0.3, 0.0, 0.3, 0.6),
        cmap: str | None = None,
    ) -> "TangentDisplay":
        """Draw the sweeps.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure. Divided into panels for curves.
        steps : sequence of float, default=(-0.6, -0.3, 0.0, 0.3, 0.6)
            Largest change of a feature at each step, in units of the sample's range.
        cmap : str, default=None
            Colour map of images without channels. None is "gray" where most of their
            border is light, else "gray_r": paper is light.

        Returns
        -------
        self : TangentDisplay
            The display itself.
        """
        sample = style.one_row(self.sample, "sample")
        tangents = np.atleast_2d(np.asarray(self.tangents, dtype=float))
        if tangents.ndim != 2 or tangents.shape[1] != len(sample) or not len(tangents):
            raise ValueError(
                f"tangents must have shape (n_tangents, {len(sample)}), like the "
                f"sample; got {np.shape(self.tangents)}."
            )
        names = self.names or tangent_names(None, len(tangents))
        look = self._look(len(sample))
        swept = sweep(sample, tangents, steps)
        if look.is_image:
            self.ax_, self.axes_ = self._plot_images(ax, swept, names, look, cmap)
        else:
            self.ax_, self.axes_ = self._plot_curves(ax, swept, names, look, steps)
        self.figure_ = self.ax_.figure
        return self

    def _plot_images(
        self,
        ax: Any,
        swept: NDArray,
        names: Sequence[str],
        look: style.Look,
        cmap: str | None,
    ) -> tuple[Any, Any]:
        images = [[look.image(row) for row in strip] for strip in swept]
        if ax is None:
            n_rows, n_columns = swept.shape[:2]
            # Beside the rows, names of letters that are some seven points wide.
            margin = 0.35 + 0.11 * max(map(len, names))
            inches = style.mosaic_inches(
                n_rows, n_columns, images[0][0], labelled=False, margin=margin
            )
            ax = style.new_axes(type(self).__name__, inches)
        # The grey values of the sample itself, so that every panel shares them.
        limits = style.common_limits([np.asarray(self.sample, dtype=float)])
        style.draw_mosaic(ax, images, limits=limits, cmap=cmap, row_labels=names)
        return ax, np.array([[ax]])

    def _plot_curves(
        self,
        ax: Any,
        swept: NDArray,
        names: Sequence[str],
        look: style.Look,
        steps: Sequence[float],
    ) -> tuple[Any, Any]:
        width = min(3, len(names))
        size = (ceil(len(names) / width), width)
        inches = (2.7 * size[1], 2.0 * size[0])
        ax, axes = style.panels(type(self).__name__, ax, size, inches)
        limits = style.padded(*style.common_limits([swept]))
        for panel in axes.flat[len(names) :]:
            panel.set_axis_off()
        for k, (panel, name) in enumerate(zip(axes.flat, names, strict=False)):
            for step, row in zip(steps, swept[k], strict=True):
                look.draw(panel, row, **_step_style(step, steps))
            panel.set_ylim(limits)
            panel.set_title(name, fontsize=10, pad=3)
            style.tidy(panel)
            look.label(panel, below=k + width >= len(names), beside=k % width == 0)
        return ax, axes


def sweep(sample: NDArray, tangents: NDArray, steps: Sequence[float]) -> NDArray:
    """Return the moved samples (n_tangents, n_steps, n_features).

    Step 1 changes some feature by the range of the sample. A tangent of zeros moves
    nothing.
    """
    size = np.abs(tangents).max(axis=1, keepdims=True)
    unit = np.divide(tangents, size, out=np.zeros_like(tangents), where=size > 0)
    reach = float(np.ptp(sample)) or 1.0
    return sample + reach * np.asarray(steps, float)[:, None] * unit[:, None]


def _step_style(step: float, steps: Sequence[float]) -> dict[str, Any]:
    """Blue against the tangent, ink at the sample, red along the tangent."""
    from matplotlib.colors import LinearSegmentedColormap

    if step == 0:
        return {"color": style.ink(), "linewidth": 1.8, "zorder": 3}
    ends = ["#1f5f8b", "#b5cbdc", "#eec4c4", "#d64545"]
    ramp = LinearSegmentedColormap.from_list("steps", ends)
    share = step / max(abs(s) for s in steps)
    return {"color": ramp((1 + share) / 2), "linewidth": 1.3}


def tangent_names(generator: Any, n_tangents: int) -> list[str]:
    """Return a name for every tangent, numbers where the generator has no names."""
    names = _known_names(generator)
    if len(names) == n_tangents:
        return names
    return [f"tangent {k + 1}" for k in range(n_tangents)]


def _known_names(generator: Any) -> list[str]:
    if isinstance(generator, DirectionalTangents):
        return _direction_names(generator)
    if hasattr(generator, "functions"):
        functions = generator.functions
        functions = [functions] if callable(functions) else list(functions)
        return [_function_name(f, k) for k, f in enumerate(functions)]
    if hasattr(generator, "generators"):
        parts = getattr(generator, "generators_", None) or [
            part[1] if isinstance(part, tuple) else part
            for part in generator.generators
        ]
        return [name for p in parts for name in tangent_names(p, p.n_tangents)]
    return []


def _direction_names(generator: DirectionalTangents) -> list[str]:
    channels = getattr(generator, "n_channels", 1)
    names = []
    for name in generator._names():
        if channels > 1 and name in BASELINES:
            names += [f"{name} {channel + 1}" for channel in range(channels)]
        else:
            names.append(name)
    return names


def _function_name(function: Any, k: int) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return f"function {k + 1}" if name in ("<lambda>", "partial") else name


@dataclass(kw_only=True, eq=False, repr=False)
class AlignmentDisplay(style.SampleDisplay):
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
        spring: float = DEFAULT_SPRING,
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
        sides : {"query", "reference", "both", "midpoint"}, default=None
            Which sample may move, as in :func:`widemargin.metrics.tangent_alignment`.
            None is "both" with `y`, and "reference", the model's own side, without.
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
        row = as_seen(estimator, style.one_row(x, "x")[None])[0]
        look = look_of(estimator, len(row), shape, positions, feature_names)
        other = None
        if y is not None:
            other = as_seen(estimator, style.one_row(y, "y")[None])[0]
        estimator = innermost(estimator)
        generator = generator_of(estimator)
        ends: dict[str, Any] = {"tangents": generator}
        if other is None:
            k, ends = _nearest_model(estimator, row, sides or "reference", spring)
            other = np.asarray(estimator.prototypes_, dtype=float)[k]
            names = names or ("x", f"model of {estimator.prototype_labels_[k]}")
        elif generator is None:
            raise ValueError(
                f"estimator: {type(estimator).__name__} makes no tangents of samples; "
                "give a tangent generator, or leave y out to align x with a model."
            )
        sides = sides or ("both" if "tangents" in ends else "reference")
        unit = frames_unit(estimator) if "tangents" not in ends else 1.0
        aligned = tangent_alignment(
            row[None] / unit, other[None] / unit, sides=sides, spring=spring, **ends
        )
        aligned = replace(
            aligned,
            x_aligned=aligned.x_aligned * unit,
            y_aligned=aligned.y_aligned * unit,
            x_frames=aligned.x_frames * unit,
            y_frames=aligned.y_frames * unit,
            residual=aligned.residual * unit,
        )
        names = names or ("x", "y")
        return cls.from_alignment(aligned, names=names, ax=ax, **look, **options)

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

    def plot(self, ax: Any = None, *, cmap: str | None = None) -> "AlignmentDisplay":
        """Draw both samples before and after, and what differs.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to divide into panels; None makes a figure.
        cmap : str, default=None
            Colour map of images without channels. None is "gray" where most of their
            border is light, else "gray_r": paper is light.

        Returns
        -------
        self : AlignmentDisplay
            The display itself.
        """
        rows = [
            style.one_row(getattr(self, name), name)
            for name in ("x", "y", "x_aligned", "y_aligned")
        ]
        look = self._look(len(rows[0]))
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
        self, ax: Any, pairs: Any, titles: Any, look: style.Look, cmap: str | None
    ) -> tuple[Any, Any]:
        ax, axes = style.panels(type(self).__name__, ax, (2, 3), (6.2, 4.4))
        limits = style.common_limits(pairs[0])
        cmap = cmap or style.grey_map(list(map(look.image, pairs[0])), limits)
        reach = float(np.abs(pairs[0][0] - pairs[0][1]).max()) or 1.0
        stages = ("before", "after")
        for row, (x, y), title, stage in zip(axes, pairs, titles, stages, strict=True):
            for panel, sample in zip(row, (x, y), strict=False):
                style.show_image(panel, look.image(sample), limits=limits, cmap=cmap)
            difference = look.image(x - y)
            if difference.ndim == 3:
                difference = difference.mean(axis=2)
            style.show_image(row[2], difference, limits=(-reach, reach), cmap="RdBu_r")
            row[0].set_ylabel(stage, color=style.ink())
            words = (*self.names, title.replace(": ", "\n"))
            if stage == "after":
                words = (*(f"{name}, moved" for name in self.names), words[2])
            for panel, text in zip(row, words, strict=True):
                panel.set_title(text, fontsize=9, color=style.ink(), pad=4)
        return ax, axes

    def _plot_curves(
        self, ax: Any, pairs: Any, titles: Any, look: style.Look, cmap: str | None
    ) -> tuple[Any, Any]:
        ax, axes = style.panels(type(self).__name__, ax, (2, 2), (8.0, 4.8))
        limits = style.padded(*style.common_limits([*pairs[0], *pairs[1]]))
        x, y = pairs[0]
        gap = style.padded(*style.common_limits([0 * x, x - y]))
        stages = ("before", "after")
        for row, (x, y), title, stage in zip(axes, pairs, titles, stages, strict=True):
            for sample, name, colour, dashes in (
                (x, self.names[0], style.ink(), "-"),
                (y, self.names[1], style.RED, (0, (5, 1.5))),
            ):
                lines = look.draw(row[0], sample, color=colour, linestyle=dashes)
                lines[0].set_label(name)
            look.draw(row[1], x - y, color=style.SERIES[1])
            row[1].axhline(0, color=style.ink(), linewidth=0.6)
            row[0].set_title(stage, fontsize=10)
            row[1].set_title(title, fontsize=10)
            row[0].set_ylim(limits)
            row[1].set_ylim(gap)
            for panel in row:
                style.tidy(panel)
                look.label(panel, below=stage == "after")
        style.legend(axes[0, 0], fontsize=9)
        return ax, axes


def _nearest_model(
    estimator: Any, x: NDArray, sides: str, spring: float
) -> tuple[int, dict[str, Any]]:
    """Return the number of the model nearest to x, and the tangents at both ends."""
    if generator_of(estimator) is not None and not hasattr(estimator, "prototypes_"):
        raise ValueError(
            f"y must be given: {type(estimator).__name__} keeps no models that x could "
            "be aligned with; give the other sample, from_estimator(estimator, x, y)."
        )
    centres = np.asarray(fitted(estimator, "prototypes_"), dtype=float)
    frames = np.asarray(fitted(estimator, "tangents_"), dtype=float)
    ends = ends_of(estimator, frames, sides)
    unit = frames_unit(estimator)
    distances = tangent_distances(
        x[None] / unit, centres / unit, sides=sides, spring=spring, **ends
    )
    k = int(distances[0].argmin())
    return k, ends | {"Y_tangents": frames[k : k + 1]}
