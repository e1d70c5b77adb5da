"""Many images in one axes, as close together whatever the shape of the axes.

Image (i, j) of a mosaic is one unit wide and stands at column j, row i, with gaps
between; labels stand to the left of rows or above images.
"""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from widemargin.inspection.style import FRAME, INK, scaled_colours

_GAP, _LABEL_GAP = 0.1, 0.42


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
