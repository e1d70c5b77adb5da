"""Really transformed samples, checked: virtual training samples and virtual tests."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_transformations(name: str, transformations: Any) -> tuple[Callable, ...]:
    """Return functions X -> X as a tuple; None is none of them.

    `name` is what the caller calls the parameter.
    """
    if transformations is None:
        return ()
    # An iterator is used up by one look: the next would silently find nothing.
    sized = hasattr(transformations, "__len__")
    if not sized or not all(map(callable, transformations)):
        raise ValueError(
            f"{name} must be a sequence of functions X -> X, such as a list or "
            f"image_shifts(shape=(16, 16)); got {transformations!r}."
        )
    return tuple(transformations)


def copies(
    X: NDArray, transformations: Sequence[Callable], name: str
) -> Iterator[NDArray]:
    """Yield the samples transformed by one function after the other."""
    for transformation in transformations:
        out = np.asarray(transformation(X), dtype=X.dtype)
        if out.shape != X.shape or not np.isfinite(out).all():
            raise ValueError(
                f"each of {name} must return finite samples of the shape it is given, "
                f"{X.shape}; {transformation!r} returned shape {out.shape}."
            )
        yield out
