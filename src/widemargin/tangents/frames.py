r"""Orthonormal frames: the same space as the tangents, in the most convenient basis.

The rows of ``tangents[n]``, shape (l, d), span what may vary at sample n. Their frame
is an (l, d) array whose rows are orthonormal and span the same space, so that the
squared distance from x to that space is :math:`\|x\|^2 - \|F x\|^2`. Where the rank is
below l the last rows are zero, which keeps batches rectangular.

Every row is scaled to length one before ranks are decided, so a dim image keeps the
tangents of a bright one. The work is done in float64 whatever the input: Gram-Schmidt
in float32 loses orthogonality to about 1e-3 (Golub, Van Loan: Matrix Computations,
section 5.2).
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.utils import check_array

from widemargin._compute.memory import BLOCK_NUMBERS, DEVICE_NUMBERS, rows_in_budget
from widemargin._compute.threads import batched_slices, thread_map
from widemargin._core.arrays import (
    check_tensor,
    is_tensor,
    numpy_dtype,
    on_device,
    to_numpy,
    xp_of,
)
from widemargin._core.checks import FLOATS, as_matrix, check_number, is_plain


def check_samples(X: ArrayLike, name: str = "X") -> NDArray:
    """Return `X` as a finite float array (n_samples, n_features)."""
    return X if is_plain(X) else as_matrix(name, X)


def check_tangent_array(tangents: ArrayLike, name: str) -> NDArray:
    """Return `tangents` as a finite float array of any number of axes."""
    if on_device(tangents):
        return check_tensor(name, tangents, n_axes=None)
    tangents = to_numpy(tangents)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
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


def sample_blocks(
    n_samples: int, n_numbers: int, n_jobs: int | None
) -> Iterable[slice]:
    """Cut samples of `n_numbers` tangent entries each into blocks to work on."""
    # Raw tangents, their float64 copy and as much again for what computes them.
    budget = rows_in_budget(4 * 8 * n_numbers, n_jobs)
    return batched_slices(n_samples, min(budget, BLOCK_NUMBERS // max(1, n_numbers)))


def fill_blocks(
    fill: Callable[[slice], None], out: Any, n_jobs: int | None = None
) -> None:
    """Call ``fill(rows)`` for all rows of `out` (n, l, d), by threads or a device."""
    n_numbers = out.shape[1] * out.shape[2]
    if is_tensor(out):
        from widemargin._compute.device.pairs import halving

        halving(max(1, DEVICE_NUMBERS // max(1, n_numbers)), len(out), fill)
        return
    blocks = sample_blocks(len(out), n_numbers, n_jobs)
    thread_map(fill, blocks, n_jobs, "tangents")


def like(shape: tuple, array: Any) -> Any:
    """Return an empty array of a shape, of the kind of another."""
    return xp_of(array).empty(shape, dtype=array.dtype, device=array.device)


def broadcast(array: Any, shape: tuple) -> Any:
    """Return a view of `array` in a larger shape."""
    return array.expand(shape) if is_tensor(array) else np.broadcast_to(array, shape)


def default_rtol(dtype: DTypeLike) -> float:
    """Relative size below which what is left of a tangent is rounding."""
    return float(np.finfo(dtype).eps ** (2 / 3))


def fill_frames(
    frames: NDArray,
    tangents_of: Callable[[slice], NDArray],
    *,
    rtol: float | None = None,
    n_jobs: int | None = None,
    name: str = "tangents",
) -> NDArray:
    """Write into `frames` (n, l, d) the frames of ``tangents_of(rows)``, by blocks."""
    if is_tensor(frames):
        from widemargin._compute.device.frames import gram_schmidt
    else:
        from widemargin._compute.frames import orthonormal as gram_schmidt

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
        frames[rows] = gram_schmidt(raw, least)

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
    raw = check_tangent_array(tangents, "tangents")
    if raw.ndim != 3:
        raise ValueError(
            "tangents must have shape (n_samples, n_tangents, n_features); "
            f"got {tuple(raw.shape)}."
        )
    out = like(raw.shape, raw)
    return fill_frames(out, raw.__getitem__, rtol=rtol, n_jobs=n_jobs)
