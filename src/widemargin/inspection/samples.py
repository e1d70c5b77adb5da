"""How a row of features looks: an image, a curve over positions, or named numbers.

Features with names are the columns of a table: dots, since nothing lies between them.

Image (i, j) of a mosaic is one unit wide and stands at column j, row i, with gaps
between; labels stand to the left of rows or above images.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import as_floats, check_image_shape
from widemargin.inspection.style import FRAME, INK, check_axes, scaled_colours

_GAP, _LABEL_GAP = 0.1, 0.42
MOST_NAMES, LONGEST_NAME = 16, 18


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


def short(name: str) -> str:
    """Return a name that fits below a panel."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


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
    cmap: str,
    row_labels: Sequence[str] | None = None,
    labels: Sequence[Sequence[str]] | None = None,
) -> None:
    """Draw rows of images of one shape; rows may differ in length."""
    from matplotlib.patches import Rectangle

    check_axes(ax)
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
                    color=INK,
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
    ax.tick_params(length=0, colors=INK)
    ax.spines[:].set_visible(False)


def mosaic_inches(
    n_rows: int, n_columns: int, image: NDArray, *, labelled: bool, margin: float
) -> tuple[float, float]:
    """Return the size of a figure that shows each image 0.85 inches wide."""
    height = image.shape[0] / image.shape[1]
    gap = _LABEL_GAP if labelled else _GAP
    return 0.85 * n_columns * (1 + _GAP) + margin, 0.85 * n_rows * (height + gap) + 0.1
