r"""A bundle: every sample together with the space in which it may vary.

Points (n, d) and frames (n, l, d); the rows of ``frames[i]`` are orthonormal and span
the tangent space at ``points[i]``, followed by zero rows where its rank is below l.
It is what the distances of :mod:`widemargin.metrics` work on.

Frames are the same space as the tangents, in the most convenient basis. The rows of
``tangents[n]``, shape (l, d), span what may vary at sample n. Their frame is an (l, d)
array whose rows are orthonormal and span the same space, so that the squared distance
from x to that space is :math:`\|x\|^2 - \|F x\|^2`. Where the rank is below l the last
rows are zero, which keeps batches rectangular.

Every row is scaled to length one before ranks are decided, so a dim image keeps the
tangents of a bright one. The work is done in float64 whatever the input: Gram-Schmidt
in float32 loses orthogonality to about 1e-3 (Golub, Van Loan: Matrix Computations,
section 5.2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from widemargin._compute.engines import formula
from widemargin._compute.formulas import orthonormal
from widemargin._compute.machine import (
    BLOCK_NUMBERS,
    batched_slices,
    rows_in_budget,
    thread_map,
)
from widemargin._compute.rounding import epsilon
from widemargin._core.arrays import (
    beside,
    check_one_place,
    in_dtype,
    is_array,
    is_one_row,
    numpy_dtype,
    to_device,
    to_numpy,
    xp_of,
)
from widemargin._core.checks import (
    FLOATS,
    as_array,
    as_matrix,
    check_number,
    check_text,
    is_plain,
)

# The tangents of some of the samples.
Blocks = Callable[[slice], NDArray]


def as_samples(X: ArrayLike, name: str = "X") -> NDArray:
    """Return `X` as a finite float array (n_samples, n_features)."""
    return X if is_plain(X) else as_matrix(name, X)


@formula
def fill_blocks(fill: Callable[[slice], None], out: Any, n_jobs: int | None) -> None:
    """Call ``fill(rows)`` for all rows of `out` (n, l, d), by threads."""
    n_numbers = out.shape[1] * out.shape[2]
    # Raw tangents, their float64 copy and as much again for what computes them.
    budget = rows_in_budget(4 * 8 * n_numbers, n_jobs)
    blocks = batched_slices(len(out), min(budget, BLOCK_NUMBERS // max(1, n_numbers)))
    thread_map(fill, blocks, n_jobs, "tangents")


def like(shape: tuple, array: Any) -> Any:
    """Return an empty array of a shape, of the kind of another."""
    return xp_of(array).empty(shape, dtype=array.dtype, device=array.device)


def broadcast(array: Any, shape: tuple) -> Any:
    """Return a view of `array` in a larger shape."""
    return xp_of(array).broadcast_to(array, shape)


def default_rtol(dtype: DTypeLike) -> float:
    """Relative size below which what is left of a tangent is rounding."""
    return epsilon(np.dtype(dtype)) ** (2 / 3)


def fill_frames(
    frames: NDArray,
    tangents_of: Blocks,
    *,
    rtol: float | None = None,
    n_jobs: int | None = None,
    name: str = "tangents",
) -> NDArray:
    """Write into `frames` (n, l, d) the frames of ``tangents_of(rows)``, by blocks."""
    if rtol is not None:
        check_number("rtol", rtol, at_least=0, below=1, otherwise="None or ")

    def fill(rows: slice) -> None:
        raw = tangents_of(rows)
        if raw.shape != frames[rows].shape:
            raise ValueError(
                f"{name} gave an array of shape {raw.shape} for samples "
                f"{rows.start} to {rows.stop - 1}; expected {frames[rows].shape}, "
                "that is (n_samples, n_tangents, n_features)."
            )
        if not xp_of(raw).isfinite(raw).all():
            raise ValueError(
                f"{name} contains NaN or infinity for samples {rows.start} to "
                f"{rows.stop - 1}; every tangent entry must be a finite number."
            )
        least = default_rtol(numpy_dtype(raw)) if rtol is None else float(rtol)
        frames[rows] = orthonormal(raw, least)

    if frames.shape[1]:
        fill_blocks(fill, frames, n_jobs)
    return frames


def orthonormalize(
    tangents: ArrayLike, *, rtol: float | None = None, n_jobs: int | None = None
) -> NDArray:
    """Turn tangents into orthonormal frames that span the same spaces.

    Parameters
    ----------
    tangents : array-like of shape (n_samples, n_tangents, n_features)
        Tangent vectors, one per row; they need not be independent, and there may be
        more of them than features. float32 stays float32.
    rtol : float, default=None
        A tangent whose part outside the span of the others is shorter than `rtol`
        times its length counts as dependent on them. None means the precision of
        the dtype to the power 2/3: 4e-11 for float64, 2e-5 for float32.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Returns
    -------
    frames : ndarray of shape (n_samples, n_tangents, n_features)
        Orthonormal rows, then zero rows where the rank is below `n_tangents`.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import orthonormalize
    >>> orthonormalize([[[3.0, 0.0], [1.0, 1.0], [0.0, 5.0]]])
    array([[[1., 0.],
            [0., 1.],
            [0., 0.]]])
    """
    raw = as_array("tangents", tangents)
    if raw.ndim != 3:
        raise ValueError(
            "tangents must have shape (n_samples, n_tangents, n_features); "
            f"got {tuple(raw.shape)}."
        )
    out = like(raw.shape, raw)
    return fill_frames(out, raw.__getitem__, rtol=rtol, n_jobs=n_jobs)


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
            if not is_array(array) or numpy_dtype(array) not in FLOATS:
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
        points = as_samples(X)
        check_text("name", name)
        raw = as_array(name, tangents)
        _check_tangent_shape(raw, points, name)
        if raw.ndim == 2:
            one = to_numpy(raw)[np.newaxis]
            # Orthonormal to the precision of the points, which may be the higher one.
            shared = np.empty(one.shape, numpy_dtype(points))
            fill_frames(shared, one.__getitem__, rtol=rtol, name=name)
            shape = (len(points), *raw.shape)
            return cls(points, broadcast(beside(points, shared), shape))
        check_one_place(**{"X": points, name: raw})
        frames = like(raw.shape, points)
        fill_frames(frames, raw.__getitem__, rtol=rtol, n_jobs=n_jobs, name=name)
        return cls(points, frames)

    @classmethod
    def bare(cls, points: NDArray) -> "Bundle":
        """Return a bundle of samples that may not vary: without tangents."""
        return cls(points, like((len(points), 0, points.shape[1]), points))

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
        if all(share_one_frame(bundle, first) for bundle in bundles):
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
        return is_one_row(self.frames)

    @property
    def ranks(self) -> NDArray:
        """Rank of every frame: how many of its rows are not zero."""
        frames = self.frames[:1] if self.is_shared else self.frames
        squares = xp_of(frames).einsum("nld,nld->nl", frames, frames)
        return np.broadcast_to(to_numpy((squares > 0.5).sum(1)), len(self))

    def to(self, device: Any) -> "Bundle":
        """Return the bundle on a device of torch; None is NumPy, on the CPU."""

        def moved(array: Any) -> Any:
            return to_numpy(array) if device is None else to_device(array, device)

        frames = self.frames[:1] if self.is_shared else self.frames
        return Bundle(moved(self.points), broadcast(moved(frames), self.frames.shape))

    def astype(self, dtype: DTypeLike) -> "Bundle":
        """Return points and frames in one float type; a shared frame stays one."""
        if numpy_dtype(self.points) == dtype == numpy_dtype(self.frames):
            return self
        points, frames = in_dtype(self.points, dtype), self.frames
        if not self.is_shared:
            return Bundle(points, in_dtype(frames, dtype))
        return Bundle(points, broadcast(in_dtype(frames[:1], dtype), frames.shape))

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


def share_one_frame(x: Bundle, y: Bundle) -> bool:
    """Whether all samples of two bundles carry the same frame."""
    return x.is_shared and y.is_shared and same_numbers(x.frames[0], y.frames[0])


def same_numbers(one: Any, other: Any) -> bool:
    """Whether two arrays in one place have the same shape and the same numbers."""
    return one.shape == other.shape and bool((one == other).all())


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
