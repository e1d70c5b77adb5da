"""What an estimator does with its `tangents` parameter: check it, and fit it."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from widemargin._core.checks import warn_caller
from widemargin.tangents.checks import check_tangent_array


def is_generator(tangents: Any) -> bool:
    """Whether `tangents` computes tangents of any sample: it has that method."""
    return not isinstance(tangents, type) and callable(
        getattr(tangents, "tangents", None)
    )


def check_tangents(tangents: Any, name: str = "tangents") -> Any:
    """Return what can give any sample tangents: a generator, a shared array or None.

    Arrays come back as finite float arrays (n_tangents, n_features). Tangents of single
    samples are refused: a sample to predict would have none.
    """
    if tangents is None or is_generator(tangents):
        return tangents
    if isinstance(tangents, type):
        raise TypeError(
            f"{name} is the class {tangents.__name__}; pass an instance, "
            f"{tangents.__name__}(...)."
        )
    wanted = (
        f"{name} must be a generator such as ImageTangents(shape=(16, 16)), an array "
        "(n_tangents, n_features) that all samples share, or None"
    )
    # A generator of Python is used up by one look: the next would find nothing.
    if isinstance(tangents, str | bytes) or not hasattr(tangents, "__len__"):
        raise TypeError(f"{wanted}; got {tangents!r}.")
    try:
        ndim = np.ndim(getattr(tangents, "frames", tangents))
    except ValueError:
        raise ValueError(f"{wanted}; got rows of different lengths.") from None
    if ndim != 2:
        raise ValueError(
            f"{wanted}, so that samples to predict have tangents too; got {ndim} "
            f"ax{'i' if ndim == 1 else 'e'}s."
        )
    return check_tangent_array(tangents, name)


def tangents_meant(tangents: Any, owner: str) -> Any:
    """Return what an estimator that promises invariance was given to make it so.

    None, nothing, is said aloud: the result is an ordinary classifier. "none" says that
    this is meant, and is None without a word.
    """
    if isinstance(tangents, str) and tangents == "none":
        return None
    if tangents is None:
        warn_caller(
            f"{owner} was given no tangents, so nothing may vary: its distances are "
            "plain Euclidean. Give tangents, for instance ImageTangents(shape=(16, "
            "16)), or tangents='none' to say that this is meant."
        )
    return tangents


def fit_tangents(tangents: Any, X: ArrayLike, y: ArrayLike | None = None) -> Any:
    """Return what :func:`as_bundle` can later apply to samples not seen yet.

    Generators are cloned and fitted; what all samples share stays as it is.
    """
    tangents = check_tangents(tangents)
    if isinstance(tangents, BaseEstimator) and hasattr(tangents, "fit"):
        return clone(tangents).fit(X, y)
    n_features = np.shape(X)[1]
    if isinstance(tangents, np.ndarray) and tangents.shape[1] != n_features:
        raise ValueError(
            f"tangents has {tangents.shape[1]} features but the samples have "
            f"{n_features}."
        )
    return tangents
