"""The look of the house: colours, axes, grids of panels, and of a row of features.

The colours of unordered series differ in lightness as well as in hue, and come with
dashes of their own, so that no line is told apart by its hue alone. Ordered series run
through greys to red. Nothing here changes matplotlib's global settings; where these ask
for a dark background, what is ink elsewhere has the colour of their text.

A row of features is an image, a curve over positions, or named numbers. Features with
names are the columns of a table: dots, since nothing lies between them. Image (i, j) of
a mosaic is one unit wide and stands at column j, row i, with gaps between; labels stand
to the left of rows or above images.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import as_floats, border_of, check_image_shape

INK, GREY, RED = "#1f2933", "#9aa5b1", "#d64545"
FRAME = "#cbd2d9"
SERIES = (RED, "#1f5f8b", "#e0a526", INK, "#3fa796", "#8a6fb3", GREY)
DASHES = ("-", (0, (5, 1.5)), "-.", "-", (0, (1, 1.2)), (0, (5, 1.5)), "-")
_GAP, _LABEL_GAP = 0.1, 0.42
MOST_NAMES, LONGEST_NAME = 16, 18
MOST_INCHES = 12.0


def pyplot(user: str) -> Any:
    """Return matplotlib.pyplot, or say how to get it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{user} needs matplotlib; install it with `pip install widemargin[plot]`."
        ) from error
    return plt


def ink() -> str:
    """Return the colour of lines and text: dark, or the text's on a dark background."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgb

    paper = rcParams["axes.facecolor"]
    dark = paper != "none" and sum(to_rgb(paper)) < 1.5
    return rcParams["text.color"] if dark else INK


def own_axes(user: str, ax: Any) -> Any:
    """Return `ax`, or the axes of a new figure, in the look of the house."""
    ax = new_axes(user, (6.0, 4.2)) if ax is None else check_axes(ax)
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
    colour = ink()
    ax.spines[["left", "bottom"]].set_color(colour)
    ax.tick_params(colors=colour)
    for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
        text.set_color(colour)


def panels(
    user: str,
    ax: Any,
    shape: tuple[int, int],
    figsize: tuple[float, float],
    *,
    wspace: float = 0.08,
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
    grid = spec.subgridspec(*shape, wspace=wspace, hspace=0.08, **options)
    axes = np.array(
        [
            [figure.add_subplot(grid[i, j]) for j in range(shape[1])]
            for i in range(shape[0])
        ]
    )
    return ax, axes


def series_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of unordered series number `index`."""
    colour = SERIES[index % len(SERIES)]
    return {
        "color": ink() if colour == INK else colour,
        "linestyle": DASHES[index % len(DASHES)],
    }


def stage_colours(n_stages: int) -> list[Any]:
    """Return colours of ordered series: greys ever nearer to ink, red for the last."""
    from matplotlib.colors import LinearSegmentedColormap

    faint = "#c3cbd4" if ink() == INK else "#4a5560"
    ramp = LinearSegmentedColormap.from_list("stages", [faint, "#7b8794", ink()])
    before = [ramp(k / max(n_stages - 2, 1)) for k in range(n_stages - 1)]
    return [*before, RED]


def is_light(images: Any, limits: tuple[float, float]) -> bool:
    """Whether images are on light paper: most of their border is above the middle."""
    images = np.asarray(images)
    return images.ndim == 3 and float(np.median(border_of(images))) > sum(limits) / 2


def grey_map(images: Any, limits: tuple[float, float]) -> str:
    """Return the colour map in which the paper of images is light."""
    return "gray" if is_light(images, limits) else "gray_r"


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
    return ax.legend(frameon=False, labelcolor=ink(), **options)


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


@dataclass(frozen=True)
class Look:
    """Images of `shape`, else curves over `positions`, else numbers with `names`."""

    shape: tuple[int, ...] | None
    positions: NDArray | None
    n_features: int
    names: tuple[str, ...] | None = None

    @property
    def is_image(self) -> bool:
        """Whether a row is an image."""
        return self.shape is not None

    def image(self, row: NDArray) -> NDArray:
        """Row as an array (height, width) or (height, width, channels)."""
        assert self.shape is not None
        return row.reshape(self.shape)

    def curves(self, row: NDArray) -> tuple[NDArray, NDArray]:
        """Positions (length,) and values (length, channels)."""
        length = self.n_features if self.positions is None else len(self.positions)
        x = np.arange(length) if self.positions is None else self.positions
        return x, row.reshape(length, -1)

    def draw(self, ax: Any, row: NDArray, **style: Any) -> Any:
        """Draw a row that is no image; return its lines."""
        x, values = self.curves(row)
        if self.names is None:
            return ax.plot(x, values, **style)
        style |= {"linestyle": "none", "marker": style.pop("marker", "o")}
        return ax.plot(x, values, markersize=4.5, **style)

    def label(self, ax: Any, *, below: bool = True, beside: bool = True) -> None:
        """Say what the axes are; only on those panels that stand at an edge."""
        if self.names is not None:
            # As many names as can be read below a panel.
            every = -(-self.n_features // MOST_NAMES)
            ax.set_xticks(range(0, self.n_features, every))
            labels = [short(name) for name in self.names[::every]]
            ax.set_xticklabels(labels, rotation=40, ha="right", fontsize=8)
            ax.set_xlim(-0.5, self.n_features - 0.5)
            ax.grid(axis="x", color=FRAME, linewidth=0.6)
            ax.set_axisbelow(True)
        elif below:
            ax.set_xlabel("feature" if self.positions is None else "position")
        if beside:
            ax.set_ylabel("value")
        else:
            ax.set_yticklabels([])
        if not below:
            ax.set_xticklabels([])


def short(name: str, most: int = LONGEST_NAME) -> str:
    """Return a name of at most so many letters, which fits below a panel."""
    if len(name) <= most:
        return name
    half = most // 2
    return f"{name[: most - half]}…{name[1 - half :]}"


def check_look(
    n_features: int,
    shape: Sequence[int] | None,
    positions: ArrayLike | None,
    names: Sequence[str] | None = None,
) -> Look:
    """Return how rows of `n_features` look, or say what does not fit."""
    if shape is not None and positions is not None:
        raise ValueError("Give shape for images or positions for curves, not both.")
    if shape is not None:
        size = check_image_shape(shape, "The display", n_features)
        if len(size) == 3 and size[2] == 1:
            size = size[:2]
        elif len(size) == 3 and size[2] not in (3, 4):
            raise ValueError(
                f"Images of {size[2]} channels cannot be drawn; 1, 3 or 4 can. Select "
                "channels of the rows first."
            )
        return Look(size, None, n_features)
    if positions is None and names is not None:
        listed = isinstance(names, Iterable) and not isinstance(names, str)
        if not listed or np.shape(names) != (n_features,):
            raise ValueError(
                f"feature_names must be one name for each of the {n_features} "
                f"features; got {names!r:.80}."
            )
        return Look(None, None, n_features, tuple(map(str, names)))
    if positions is None:
        return Look(None, None, n_features)
    where = as_floats("positions", positions)
    if where.ndim != 1 or not len(where) or n_features % len(where):
        raise ValueError(
            "positions must be one number per sample of time, and their number divide "
            f"the {n_features} features; got shape {where.shape}."
        )
    return Look(None, where, n_features)


@dataclass(kw_only=True, eq=False, repr=False)
class SampleDisplay:
    """Base of displays that draw samples, as images or as curves."""

    shape: Sequence[int] | None = None
    positions: ArrayLike | None = None
    feature_names: Sequence[str] | None = None

    def _look(self, n_features: int) -> Look:
        return check_look(n_features, self.shape, self.positions, self.feature_names)


def one_row(sample: Any, name: str) -> NDArray:
    """Return one sample given as (n_features,) or (1, n_features) as a float row."""
    row = as_floats(name, sample).astype(float)
    if row.ndim == 2 and len(row) == 1:
        row = row[0]
    if row.ndim != 1 or not row.size or not np.isfinite(row).all():
        raise ValueError(
            f"{name} must be one sample of finite numbers, shape (n_features,); got "
            f"shape {np.shape(sample)}."
        )
    return row


def draw_mosaic(
    ax: Any,
    images: Sequence[Sequence[NDArray]],
    *,
    limits: tuple[float, float],
    cmap: str | None = None,
    row_labels: Sequence[str] | None = None,
    labels: Sequence[Sequence[str]] | None = None,
) -> None:
    """Draw rows of images of one shape; rows may differ in length."""
    from matplotlib.patches import Rectangle

    check_axes(ax)
    cmap = cmap or grey_map([image for row in images for image in row], limits)
    height = images[0][0].shape[0] / images[0][0].shape[1]
    gap = _GAP if labels is None else _LABEL_GAP
    step = height + gap
    for i, row in enumerate(images):
        for j, image in enumerate(row):
            left, top = j * (1 + _GAP), i * step
            ax.imshow(
                scaled_colours(image, limits),
                extent=(left, left + 1, top + height, top),
                cmap=cmap,
                vmin=limits[0],
                vmax=limits[1],
            )
            ax.add_patch(Rectangle((left, top), 1, height, fill=False, edgecolor=FRAME))
            if labels is not None:
                ax.text(
                    left + 0.5,
                    top - 0.06,
                    labels[i][j],
                    ha="center",
                    va="bottom",
                    fontsize=9,
                    color=ink(),
                )
    width = max(len(row) for row in images) * (1 + _GAP) - _GAP
    above = 0 if labels is None else _LABEL_GAP
    ax.set_xlim(-0.03, width + 0.03)
    ax.set_ylim(len(images) * step - gap + 0.03, -above - 0.03)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    if row_labels is not None:
        middles = [i * step + height / 2 for i in range(len(images))]
        ax.set_yticks(middles, row_labels)
    ax.tick_params(length=0, colors=ink())
    ax.spines[:].set_visible(False)


def mosaic_inches(
    n_rows: int, n_columns: int, image: NDArray, *, labelled: bool, margin: float
) -> tuple[float, float]:
    """Return the size of a figure: images 0.85 inches wide, less where many or high."""
    height = image.shape[0] / image.shape[1]
    gap = _LABEL_GAP if labelled else _GAP
    wide = min(0.85, MOST_INCHES / (n_rows * (height + gap)))
    return wide * n_columns * (1 + _GAP) + margin, wide * n_rows * (height + gap) + 0.1
