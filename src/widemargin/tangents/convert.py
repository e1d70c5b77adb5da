"""The one door through which everything accepts tangents."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from widemargin.tangents.base import TangentGenerator
from widemargin.tangents.bundle import Bundle
from widemargin.tangents.checks import FLOATS, check_samples
from widemargin.tangents.frames import fill_frames


def as_bundle(
    X: ArrayLike,
    tangents: Any,
    y: ArrayLike | None = None,
    *,
    name: str = "tangents",
    n_jobs: int | None = None,
) -> Bundle:
    """Make a bundle of samples and whatever describes how they may vary.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The samples.
    tangents : generator, array-like, Bundle or None
        - a tangent generator such as :class:`ImageTangents`, or any object whose
          method ``tangents(X)`` returns (n_samples, n_tangents, n_features);
        - an array (n_samples, n_tangents, n_features), tangents of every sample;
        - an array (n_tangents, n_features), tangents that all samples share;
        - a :class:`Bundle`, whose frames are laid on `X` as they are;
        - None, no tangents.
    y : array-like of shape (n_samples,), default=None
        Labels, for generators that use them.
    name : str, default="tangents"
        What errors call `tangents`: the parameter of the caller.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Returns
    -------
    Bundle

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import ImageTangents, as_bundle
    >>> X = np.arange(32.0).reshape(2, 16)
    >>> as_bundle(X, ImageTangents(shape=(4, 4)))
    Bundle(n_samples=2, n_tangents=7, n_features=16)
    >>> as_bundle(X, np.ones((1, 16)))
    Bundle(n_samples=2, n_tangents=1, n_features=16)
    >>> as_bundle(X, None)
    Bundle(n_samples=2, n_tangents=0, n_features=16)
    """
    if isinstance(tangents, TangentGenerator):
        return tangents.bundle(X, y, n_jobs=n_jobs)
    points = check_samples(X)
    if tangents is None:
        return Bundle(points, np.empty((len(points), 0, points.shape[1]), points.dtype))
    if isinstance(tangents, Bundle):
        if tangents.points.shape != points.shape:
            raise ValueError(
                f"{name} is a Bundle of points of shape {tangents.points.shape}, "
                f"which must be the shape of the samples, {points.shape}."
            )
        if tangents.frames.dtype == points.dtype and (
            tangents.points is points or np.array_equal(tangents.points, points)
        ):
            return tangents
        frames = tangents.frames[:1] if tangents.is_shared else tangents.frames
        frames = frames.astype(points.dtype, copy=False)
        return Bundle(points, np.broadcast_to(frames, tangents.frames.shape))
    if isinstance(tangents, type):
        raise TypeError(
            f"{name} is the class {tangents.__name__}; pass an instance, "
            f"{tangents.__name__}(...)."
        )
    if callable(getattr(tangents, "tangents", None)):
        return _generated(points, tangents, name, n_jobs)
    if isinstance(tangents, str) or not hasattr(tangents, "__len__"):
        raise TypeError(
            f"{name} must be a tangent generator such as ImageTangents(shape=(16, 16)),"
            " an array (n_samples, n_tangents, n_features) or (n_tangents, n_features),"
            f" a Bundle or None; got {tangents!r}."
        )
    return Bundle.from_tangents(points, tangents, n_jobs=n_jobs, name=name)


def _generated(X: np.ndarray, generator: Any, name: str, n_jobs: int | None) -> Bundle:
    """Bundle of a generator that is not ours: only its method `tangents` is known."""

    def tangents_of(rows: slice) -> np.ndarray:
        raw = np.asarray(generator.tangents(X[rows]))
        return raw if raw.dtype in FLOATS else raw.astype(np.float64)

    first = tangents_of(slice(0, 1))
    if first.ndim != 3:
        raise ValueError(
            f"{name}.tangents(X) must return (n_samples, n_tangents, n_features); "
            f"got shape {first.shape} for one sample."
        )
    frames = np.empty((len(X), first.shape[1], X.shape[1]), X.dtype)
    return Bundle(X, fill_frames(frames, tangents_of, n_jobs=n_jobs, name=name))
