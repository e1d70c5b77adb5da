"""A bundle: every sample together with the space in which it may vary.

Points (n, d) and frames (n, l, d); the rows of ``frames[i]`` are orthonormal and span
the tangent space at ``points[i]``, followed by zero rows where its rank is below l.
It is what the distances of :mod:`widemargin.metrics` work on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.arrays import (
    check_one_place,
    is_tensor,
    numpy_dtype,
    on_device,
    put,
    to_numpy,
    xp_of,
)
from widemargin._core.checks import FLOATS, check_text
from widemargin.tangents.frames import (
    broadcast,
    check_samples,
    check_tangent_array,
    fill_frames,
    like,
)


@dataclass(frozen=True, eq=False, repr=False)
class Bundle:
    """Points and their orthonormal tangent frames.

    Parameters
    ----------
    points : ndarray of shape (n_samples, n_features)
        The samples, float32 or float64. Both may be tensors on one device instead; a
        pickle then holds them as NumPy arrays.
    frames : ndarray of shape (n_samples, n_tangents, n_features)
        Orthonormal rows, zero rows last. They are taken as they are; use
        :meth:`from_tangents` for tangents that are not orthonormal. Where all
        samples share one frame this may be a ``numpy.broadcast_to`` view, which
        indexing, concatenation and pickling keep as one frame.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import Bundle
    >>> bundle = Bundle.from_tangents(np.ones((4, 3)), [[0.0, 0.0, 2.0]])
    >>> bundle
    Bundle(n_samples=4, n_tangents=1, n_features=3)
    >>> bundle[1:3].frames[0]
    array([[0., 0., 1.]])
    """

    points: NDArray
    frames: NDArray

    def __post_init__(self) -> None:
        for name, ndim, axes in (
            ("points", 2, "(n_samples, n_features)"),
            ("frames", 3, "(n_samples, n_tangents, n_features)"),
        ):
            array = getattr(self, name)
            known = isinstance(array, np.ndarray) or on_device(array)
            if not known or numpy_dtype(array) not in FLOATS:
                raise TypeError(
                    f"{name} must be a float32 or float64 numpy array, or a tensor of "
                    "these on a device."
                )
            if array.ndim != ndim:
                raise ValueError(
                    f"{name} must have shape {axes}; got {tuple(array.shape)}."
                )
        check_one_place(points=self.points, frames=self.frames)
        expected = (len(self.points), self.frames.shape[1], self.points.shape[1])
        if self.frames.shape != expected:
            raise ValueError(
                f"frames must have shape {expected} to go with points of shape "
                f"{self.points.shape}; got {self.frames.shape}."
            )

    @classmethod
    def from_tangents(
        cls,
        X: ArrayLike,
        tangents: ArrayLike,
        *,
        rtol: float | None = None,
        n_jobs: int | None = None,
        name: str = "tangents",
    ) -> "Bundle":
        """Orthonormalise tangents into the frames of a bundle.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points.
        tangents : array-like of shape (n_samples, n_tangents, n_features) or \
                (n_tangents, n_features)
            Tangents of every sample, or those that all samples share.
        rtol, n_jobs
            As in :func:`orthonormalize`.
        name : str, default="tangents"
            What errors call `tangents`.

        Returns
        -------
        Bundle
            Its frames have the dtype of its points.
        """
        points = check_samples(X)
        check_text("name", name)
        raw = check_tangent_array(tangents, name)
        _check_tangent_shape(raw, points, name)
        if raw.ndim == 2:
            one = to_numpy(raw)[np.newaxis]
            # Orthonormal to the precision of the points, which may be the higher one.
            shared = np.empty(one.shape, numpy_dtype(points))
            fill_frames(shared, one.__getitem__, rtol=rtol, name=name)
            if is_tensor(points):
                shared = put(shared, points.device)
            return cls(points, broadcast(shared, (len(points), *raw.shape)))
        check_one_place(**{"X": points, name: raw})
        frames = like(raw.shape, points)
        fill_frames(frames, raw.__getitem__, rtol=rtol, n_jobs=n_jobs, name=name)
        return cls(points, frames)

    @classmethod
    def concatenate(cls, bundles: Sequence["Bundle"]) -> "Bundle":
        """Join bundles of the same number of features, one after the other.

        Bundles of fewer tangents get zero rows.
        """
        bundles = list(bundles)
        if not bundles:
            raise ValueError("bundles is empty; concatenate needs at least one Bundle.")
        features = sorted({bundle.n_features for bundle in bundles})
        if len(features) > 1:
            raise ValueError(
                "bundles must all have the same number of features; "
                f"got {', '.join(map(str, features))}."
            )
        check_one_place(**{f"bundles[{i}]": b.points for i, b in enumerate(bundles)})
        first = bundles[0]
        xp = xp_of(first.points)
        points = xp.concatenate([bundle.points for bundle in bundles])
        if all(bundle._shares(first) for bundle in bundles):
            shape = (len(points), *first.frames.shape[1:])
            return cls(points, broadcast(first.frames[:1], shape))
        n_tangents = max(bundle.n_tangents for bundle in bundles)
        frames = like((len(points), n_tangents, features[0]), points)
        frames[:] = 0
        start = 0
        for bundle in bundles:
            frames[start : start + len(bundle), : bundle.n_tangents] = bundle.frames
            start += len(bundle)
        return cls(points, frames)

    @property
    def n_tangents(self) -> int:
        """Rows of a frame, zero rows included."""
        return self.frames.shape[1]

    @property
    def n_features(self) -> int:
        """Entries of a point."""
        return self.points.shape[1]

    @property
    def is_shared(self) -> bool:
        """Whether all samples share one frame, stored once."""
        frames: Any = self.frames
        step = frames.stride(0) if is_tensor(frames) else frames.strides[0]
        return len(self) > 0 and step == 0

    @property
    def ranks(self) -> NDArray:
        """Rank of every frame: how many of its rows are not zero."""
        frames = self.frames[:1] if self.is_shared else self.frames
        squares = xp_of(frames).einsum("nld,nld->nl", frames, frames)
        return np.broadcast_to(to_numpy((squares > 0.5).sum(1)), len(self))

    def _shares(self, other: "Bundle") -> bool:
        return (
            self.is_shared
            and other.is_shared
            and same_numbers(self.frames[0], other.frames[0])
        )

    def to(self, device: Any) -> "Bundle":
        """Return the bundle on a device of torch; None is NumPy, on the CPU."""

        def moved(array: Any) -> Any:
            return to_numpy(array) if device is None else put(array, device)

        frames = self.frames[:1] if self.is_shared else self.frames
        return Bundle(moved(self.points), broadcast(moved(frames), self.frames.shape))

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, rows: Any) -> "Bundle":
        """Return the bundle of some samples; one integer gives a bundle of one."""
        if isinstance(rows, int | np.integer):
            rows = [rows]
        points = self.points[rows]
        if self.is_shared:
            shape = (len(points), *self.frames.shape[1:])
            return Bundle(points, broadcast(self.frames[:1], shape))
        return Bundle(points, self.frames[rows])

    def __getstate__(self) -> tuple[NDArray, NDArray, bool]:
        shared = self.is_shared
        frames = self.frames[:1] if shared else self.frames
        return to_numpy(self.points), to_numpy(frames), shared

    def __setstate__(self, state: tuple[NDArray, NDArray, bool]) -> None:
        points, frames, shared = state
        if shared:
            frames = np.broadcast_to(frames, (len(points), *frames.shape[1:]))
        self.__dict__.update(points=points, frames=frames)

    def __repr__(self) -> str:
        return (
            f"Bundle(n_samples={len(self)}, n_tangents={self.n_tangents}, "
            f"n_features={self.n_features})"
        )


def same_numbers(one: Any, other: Any) -> bool:
    """Whether two arrays in one place have the same shape and the same numbers."""
    if is_tensor(one):
        return one.shape == other.shape and bool((one == other).all())
    return np.array_equal(one, other)


def _check_tangent_shape(tangents: NDArray, X: NDArray, name: str) -> None:
    """Say how an array of tangents fails to go with `X`."""
    n_samples, n_features = X.shape
    if tangents.ndim not in (2, 3):
        raise ValueError(
            f"{name} must have shape (n_samples, n_tangents, n_features) or, shared by "
            f"all samples, (n_tangents, n_features); got {tangents.shape}."
        )
    if tangents.ndim == 3 and len(tangents) != n_samples:
        raise ValueError(
            f"{name} holds tangents of {len(tangents)} samples but there are "
            f"{n_samples} samples; tangents that all samples share have shape "
            "(n_tangents, n_features)."
        )
    if tangents.shape[-1] != n_features:
        raise ValueError(
            f"{name} has {tangents.shape[-1]} features but the samples have "
            f"{n_features}; got shape {tangents.shape}, whose last axis must be "
            f"{n_features}."
        )
