"""How a row of features looks: an image of a shape, or curves over positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Look:
    """Images of `shape`, or without one, curves over `positions`."""

    shape: tuple[int, ...] | None
    positions: NDArray | None
    n_features: int

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


def check_look(
    n_features: int, shape: Sequence[int] | None, positions: ArrayLike | None
) -> Look:
    """Return how rows of `n_features` look, or say what does not fit."""
    if shape is not None and positions is not None:
        raise ValueError("Give shape for images or positions for curves, not both.")
    if shape is not None:
        size = tuple(int(side) for side in shape)
        if len(size) not in (2, 3) or int(np.prod(size)) != n_features:
            raise ValueError(
                "shape must be (height, width) or (height, width, channels) with "
                f"{n_features} entries in all; got {tuple(shape)}."
            )
        if len(size) == 3 and size[2] == 1:
            size = size[:2]
        elif len(size) == 3 and size[2] not in (3, 4):
            raise ValueError(
                f"Images of {size[2]} channels cannot be drawn; 1, 3 or 4 can. Select "
                "channels of the rows first."
            )
        return Look(size, None, n_features)
    if positions is None:
        return Look(None, None, n_features)
    where = np.asarray(positions)
    if where.ndim != 1 or not len(where) or n_features % len(where):
        raise ValueError(
            "positions must be one number per sample of time, and their number divide "
            f"the {n_features} features; got shape {where.shape}."
        )
    return Look(None, where, n_features)


def one_row(sample: Any, name: str) -> NDArray:
    """Return one sample given as (n_features,) or (1, n_features) as a float row."""
    row = np.asarray(sample, dtype=float)
    if row.ndim == 2 and len(row) == 1:
        row = row[0]
    if row.ndim != 1 or not row.size or not np.isfinite(row).all():
        raise ValueError(
            f"{name} must be one sample of finite numbers, shape (n_features,); got "
            f"shape {np.shape(sample)}."
        )
    return row
