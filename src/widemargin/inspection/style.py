"""The look of the house: colours, axes, grids of panels.

The colours of unordered series differ in lightness as well as in hue, and come with
dashes of their own, so that no line is told apart by its hue alone. Ordered series run
through greys to red. Nothing here changes matplotlib's global settings.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

INK, GREY, RED = "#1f2933", "#9aa5b1", "#d64545"
FRAME = "#cbd2d9"
SERIES = (RED, "#1f5f8b", "#e0a526", INK, "#3fa796", "#8a6fb3", GREY)
DASHES = ("-", (0, (5, 1.5)), "-.", "-", (0, (1, 1.2)), (0, (5, 1.5)), "-")


def pyplot(user: str) -> Any:
    """Return matplotlib.pyplot, or say how to get it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{user} needs matplotlib; install it with `pip install widemargin[plot]`."
        ) from error
    return plt


def own_axes(user: str, ax: Any, figsize: tuple[float, float] = (6.0, 4.2)) -> Any:
    """Return `ax`, or the axes of a new figure, in the look of the house."""
    ax = new_axes(user, figsize) if ax is None else check_axes(ax)
    tidy(ax)
    return ax


def check_axes(ax: Any) -> Any:
    """Return the axes to draw on, or say what they are."""
    if isinstance(ax, type) or not all(hasattr(ax, n) for n in ("spines", "figure")):
        raise TypeError(f"ax must be None or matplotlib axes; got {ax!r:.80}.")
    return ax


def new_axes(user: str, figsize: tuple[float, float]) -> Any:
    """Return the axes of a new figure."""
    return pyplot(user).subplots(figsize=figsize, layout="constrained")[1]


def tidy(ax: Any) -> None:
    """Frame a plot by its two axes only."""
    ax.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(INK)
    ax.tick_params(colors=INK)
    for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
        text.set_color(INK)


def panels(
    user: str,
    ax: Any,
    shape: tuple[int, int],
    figsize: tuple[float, float],
    *,
    wspace: float = 0.08,
    hspace: float = 0.08,
    **options: Any,
) -> tuple[Any, Any]:
    """Return bounding axes and an array of panels laid out inside them.

    `ax` is None for a new figure, or axes of a subplot, which are then emptied and
    divided.
    """
    ax = new_axes(user, figsize) if ax is None else check_axes(ax)
    figure = ax.figure
    spec = ax.get_subplotspec()
    if spec is None:
        raise ValueError(
            f"{user} divides ax into panels, which only axes of a grid can be; make it "
            "with matplotlib's subplots or add_subplot."
        )
    ax.set_axis_off()
    grid = spec.subgridspec(*shape, wspace=wspace, hspace=hspace, **options)
    axes = np.array(
        [
            [figure.add_subplot(grid[i, j]) for j in range(shape[1])]
            for i in range(shape[0])
        ]
    )
    return ax, axes


def series_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of unordered series number `index`."""
    return {
        "color": SERIES[index % len(SERIES)],
        "linestyle": DASHES[index % len(DASHES)],
    }


def stage_colours(n_stages: int) -> list[Any]:
    """Return colours of ordered series: ever darker greys, and red for the last."""
    from matplotlib.colors import LinearSegmentedColormap

    ramp = LinearSegmentedColormap.from_list("stages", ["#c3cbd4", "#7b8794", INK])
    before = [ramp(k / max(n_stages - 2, 1)) for k in range(n_stages - 1)]
    return [*before, RED]


def show_image(ax: Any, image: Any, *, limits: tuple[float, float], cmap: str) -> Any:
    """Draw one image without ticks, in a thin frame; colours are scaled to `limits`."""
    image = scaled_colours(image, limits)
    artist = ax.imshow(image, cmap=cmap, vmin=limits[0], vmax=limits[1])
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_color(FRAME)
    return artist


def scaled_colours(image: Any, limits: tuple[float, float]) -> Any:
    """Return an image with colour channels in [0, 1]; one without as it is."""
    if image.ndim == 2:
        return image
    return np.clip((image - limits[0]) / (limits[1] - limits[0]), 0, 1)


def legend(ax: Any, **options: Any) -> Any:
    """Add a legend without a frame."""
    return ax.legend(frameon=False, labelcolor=INK, **options)


def from_zero(ax: Any, room: float = 1.0) -> None:
    """Start the vertical axis at zero, low enough to see a line that lies on it."""
    top = room * ax.get_ylim()[1]
    ax.set_ylim(-0.012 * top, top)


def padded(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    """Return limits with some room on either side."""
    room = share * (high - low) or 1.0
    return low - room, high + room


def common_limits(arrays: Sequence[Any]) -> tuple[float, float]:
    """Return the smallest and the largest value of all arrays, never equal."""
    low = min(float(np.min(array)) for array in arrays)
    high = max(float(np.max(array)) for array in arrays)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def most_values(arrays: Sequence[Any]) -> tuple[float, float]:
    """Return what 96 % of the values lie between: a few stray ones fade no image."""
    values = np.concatenate([np.ravel(array) for array in arrays])
    low, high = np.percentile(values, (2, 98))
    return (float(low), float(high)) if high > low else common_limits(arrays)
