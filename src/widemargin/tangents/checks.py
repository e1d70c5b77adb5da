"""Arrays as they come in: samples and tangents, finite and of a float dtype."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

FLOATS = (np.float64, np.float32)


def check_samples(X: ArrayLike, name: str = "X") -> NDArray:
    """Return `X` as a finite float array (n_samples, n_features)."""
    return check_array(X, dtype=FLOATS, input_name=name)


def check_tangent_array(tangents: ArrayLike, name: str) -> NDArray:
    """Return `tangents` as a finite float array of any number of axes."""
    try:
        return check_array(
            tangents,
            dtype=FLOATS,
            ensure_2d=False,
            allow_nd=True,
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name=name,
        )
    except (TypeError, ValueError) as error:
        if name in str(error):
            raise
        raise type(error)(f"{name} must be an array of numbers: {error}") from None
