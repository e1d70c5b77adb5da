"""What an estimator does with its `tangents` parameter when it is fitted."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from widemargin.tangents.base import TangentGenerator


def fit_tangents(tangents: Any, X: ArrayLike, y: ArrayLike | None = None) -> Any:
    """Return what :func:`as_bundle` can later apply to samples not seen yet.

    Generators are cloned and fitted; None and an array (n_tangents, n_features) that
    all samples share stay as they are. Tangents of single samples are refused: a
    sample to predict would have none.
    """
    if isinstance(tangents, TangentGenerator):
        return clone(tangents).fit(X, y)
    if tangents is None or callable(getattr(tangents, "tangents", None)):
        return tangents
    if hasattr(tangents, "__len__") and not isinstance(tangents, str):
        ndim = np.ndim(getattr(tangents, "frames", tangents))
        if ndim != 2:
            raise ValueError(
                "tangents must be a generator such as ImageTangents(shape=(16, 16)) "
                "or an array (n_tangents, n_features) that all samples share, so that "
                f"samples to predict have tangents too; got {ndim} axes."
            )
    return tangents
