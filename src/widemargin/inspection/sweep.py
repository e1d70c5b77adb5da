r"""One sample swept along each of its tangents: what the model takes for the same.

Row k shows :math:`x + s\,a_k t_k` for several steps s; a tangent that means what it
should looks like its transformation near s = 0 and like its linear continuation farther
out. Steps are measured in what is seen: s = 0.5 changes some feature by half the range
of the sample. Sample (n_features,), tangents (n_tangents, n_features).

Reference: P. Simard et al., Transformation invariance in pattern recognition: tangent
distance and tangent propagation, 1998.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import check_count
from widemargin.inspection.models import (
    as_seen,
    fitted,
    generator_of,
    look_of,
)
from widemargin.inspection.style import (
    INK,
    Look,
    check_look,
    common_limits,
    draw_mosaic,
    mosaic_inches,
    new_axes,
    one_row,
    padded,
    panels,
    tidy,
)
from widemargin.tangents.signal import BASELINES

__all__ = ["TangentDisplay"]

SIMARD7 = (
    "x_shift",
    "y_shift",
    "scaling",
    "rotation",
    "axis_deformation",
    "diagonal_deformation",
    "thickness",
)


@dataclass(kw_only=True, eq=False, repr=False)
class TangentDisplay:
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
    shape: Sequence[int] | None = None
    positions: ArrayLike | None = None
    feature_names: Sequence[str] | None = None

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
            given one as ``tangents``; in a pipeline, the sample is shown as the
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
        shape, feature_names = look_of(estimator, shape, positions, feature_names)
        if sample is None:
            centres = np.asarray(fitted(estimator, "prototypes_"))
            frames = np.asarray(fitted(estimator, "tangents_"))
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
            row = as_seen(estimator, one_row(sample, "sample")[None])[0]
            tangents = generator.tangents(row[None])[0]
            names = tangent_names(generator, len(tangents))
        return cls(
            sample=row,
            tangents=tangents,
            names=names,
            shape=shape,
            positions=positions,
            feature_names=feature_names,
        ).plot(ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        steps: Sequence[float] = (-0.6, -0.3, 0.0, 0.3, 0.6),
        cmap: str = "gray_r",
    ) -> "TangentDisplay":
        """Draw the sweeps.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure. Divided into panels for curves.
        steps : sequence of float, default=(-0.6, -0.3, 0.0, 0.3, 0.6)
            Largest change of a feature at each step, in units of the sample's range.
        cmap : str, default="gray_r"
            Colour map of images without channels.

        Returns
        -------
        self : TangentDisplay
            The display itself.
        """
        sample = one_row(self.sample, "sample")
        tangents = np.atleast_2d(np.asarray(self.tangents, dtype=float))
        if tangents.ndim != 2 or tangents.shape[1] != len(sample) or not len(tangents):
            raise ValueError(
                f"tangents must have shape (n_tangents, {len(sample)}), like the "
                f"sample; got {np.shape(self.tangents)}."
            )
        names = self.names or tangent_names(None, len(tangents))
        look = check_look(len(sample), self.shape, self.positions, self.feature_names)
        swept = sweep(sample, tangents, steps)
        if look.is_image:
            self.ax_, self.axes_ = self._plot_images(ax, swept, names, look, cmap)
        else:
            self.ax_, self.axes_ = self._plot_curves(ax, swept, names, look, steps)
        self.figure_ = self.ax_.figure
        return self

    def _plot_images(
        self, ax: Any, swept: NDArray, names: Sequence[str], look: Look, cmap: str
    ) -> tuple[Any, Any]:
        images = [[look.image(row) for row in strip] for strip in swept]
        if ax is None:
            n_rows, n_columns = swept.shape[:2]
            # Beside the rows, names of letters that are some seven points wide.
            margin = 0.35 + 0.11 * max(map(len, names))
            inches = mosaic_inches(
                n_rows, n_columns, images[0][0], labelled=False, margin=margin
            )
            ax = new_axes(type(self).__name__, inches)
        # The grey values of the sample itself, so that every panel shares them.
        limits = common_limits([np.asarray(self.sample, dtype=float)])
        draw_mosaic(ax, images, limits=limits, cmap=cmap, row_labels=names)
        return ax, np.array([[ax]])

    def _plot_curves(
        self,
        ax: Any,
        swept: NDArray,
        names: Sequence[str],
        look: Look,
        steps: Sequence[float],
    ) -> tuple[Any, Any]:
        width = min(3, len(names))
        size = (ceil(len(names) / width), width)
        inches = (2.7 * size[1], 2.0 * size[0])
        ax, axes = panels(type(self).__name__, ax, size, inches)
        limits = padded(*common_limits([swept]))
        for panel in axes.flat[len(names) :]:
            panel.set_axis_off()
        for k, (panel, name) in enumerate(zip(axes.flat, names, strict=False)):
            for step, row in zip(steps, swept[k], strict=True):
                look.draw(panel, row, **_step_style(step, steps))
            panel.set_ylim(limits)
            panel.set_title(name, fontsize=10, pad=3)
            tidy(panel)
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
        return {"color": INK, "linewidth": 1.8, "zorder": 3}
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
    if hasattr(generator, "directions"):
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
        return [name for part in parts for name in _part_names(part)]
    return []


def _part_names(part: Any) -> list[str]:
    return tangent_names(part, part.n_tangents)


def _direction_names(generator: Any) -> list[str]:
    directions = generator.directions
    if isinstance(directions, str):
        directions = SIMARD7 if directions == "simard7" else (directions,)
    channels = getattr(generator, "n_channels", 1)
    names = []
    for name in directions:
        if channels > 1 and name in BASELINES:
            names += [f"{name} {channel + 1}" for channel in range(channels)]
        else:
            names.append(name)
    return names


def _function_name(function: Any, k: int) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return f"function {k + 1}" if name in ("<lambda>", "partial") else name
