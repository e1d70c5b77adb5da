"""Tangents as they are, with their lengths: steps along them mean something."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def raw_tangents(generator: Any, X: NDArray) -> NDArray:
    """Tangents (n, l, d) of samples, from a fitted generator or a shared array."""
    if callable(getattr(generator, "tangents", None)):
        return np.asarray(generator.tangents(X))
    shared = np.asarray(generator, dtype=X.dtype)
    if shared.shape[1] != X.shape[1]:
        raise ValueError(
            f"tangents has {shared.shape[1]} features but the samples have "
            f"{X.shape[1]}."
        )
    return np.broadcast_to(shared, (len(X), *shared.shape))
