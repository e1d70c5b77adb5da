"""Transformed copies of samples: virtual training images and virtual test images."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_shifts(shifts: Any) -> tuple[Callable, ...]:
    """Return the transformations as a tuple; None is none of them."""
    if shifts is None:
        return ()
    # An iterator would be empty at the second look.
    if not isinstance(shifts, Sequence | np.ndarray) or not all(map(callable, shifts)):
        raise ValueError(
            "shifts must be a sequence of functions X -> X, for instance "
            f"image_shifts(shape=(16, 16)); got {shifts!r}."
        )
    return tuple(shifts)


def with_copies(X: NDArray, shifts: Sequence[Callable]) -> Iterator[NDArray]:
    """Yield the samples as they are, then transformed by each of `shifts`."""
    yield X
    for shift in shifts:
        copies = np.asarray(shift(X), dtype=X.dtype)
        if copies.shape != X.shape or not np.isfinite(copies).all():
            raise ValueError(
                f"each of shifts must return finite samples of shape {X.shape}; "
                f"{shift!r} returned shape {copies.shape}."
            )
        yield copies
