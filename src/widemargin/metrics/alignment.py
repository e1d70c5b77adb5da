"""How two samples are laid over each other: the moves behind a tangent distance.

The minimiser of |x + U^T p - y - V^T q|^2 + k(|p|^2 + |q|^2) for paired rows of X and
Y. With delta = x - y, a = U delta, b = V delta, M = U V^T:

    ((1+k) I - M^T M/(1+k)) q = b - M^T a/(1+k),     -p = (a - M q)/(1+k).

By the envelope theorem the residual is also the gradient: for a model with point C
and tangents T at the y end, the squared distance d2 has
d d2/dC = -2 residual and d d2/dT_k = -2 q_k residual.

Reference: SPEC D2 and D3; Simard, LeCun and Denker 1993.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._core.arrays import in_kind, refuse_device
from widemargin.metrics.tangent import DEFAULT_SPRING, check_ends
from widemargin.tangents import Bundle, as_bundle

ALIGNED_SIDES = ("x", "y", "two", "midpoint")


@dataclass(frozen=True)
class Alignment:
    """Pairs of samples, each moved along its own tangents to where they are nearest.

    Attributes
    ----------
    squared_distances : ndarray of shape (n_samples,)
        What :func:`tangent_distances` gives for the pair, the spring's energy
        included.
    residual : ndarray of shape (n_samples, n_features)
        ``x_aligned - y_aligned``.
    x_coefficients, y_coefficients : ndarray of shape (n_samples, n_tangents)
        How far each end moved along the rows of its frame.
    x_frames, y_frames : ndarray of shape (n_samples, n_tangents, n_features)
        The orthonormal frames; no rows at an end that stays put.
    x_aligned, y_aligned : ndarray of shape (n_samples, n_features)
        ``x + x_coefficients @ x_frames`` for each pair, and likewise for y.
    """

    squared_distances: np.ndarray
    residual: np.ndarray
    x_coefficients: np.ndarray
    y_coefficients: np.ndarray
    x_frames: np.ndarray
    y_frames: np.ndarray
    x_aligned: np.ndarray
    y_aligned: np.ndarray


@in_kind
def tangent_alignment(
    X: Any,
    Y: Any,
    *,
    X_tangents: Any = None,
    Y_tangents: Any = None,
    tangents: Any = None,
    sides: str = "two",
    spring: float = DEFAULT_SPRING,
) -> Alignment:
    """Align row i of `X` with row i of `Y`, each moving along its own tangents.

    Parameters
    ----------
    X, Y : array-like of shape (n_samples, n_features) or Bundle
        Pairs of samples.
    X_tangents, Y_tangents, tangents : see :func:`tangent_distances`
    sides : {"x", "y", "two", "midpoint"}, default="two"
        Which end may move. ``"mean"`` averages two alignments and has none of its own.
        Under ``"midpoint"`` both ends move by half along the midpoint's tangents.
    spring : float, default=1e-5
        Cost of moving.

    Returns
    -------
    Alignment

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import tangent_alignment
    >>> pair = tangent_alignment(
    ...     [[0.0, 0.0]], [[3.0, 4.0]], tangents=np.array([[1.0, 0.0]]), sides="y",
    ...     spring=0,
    ... )
    >>> pair.y_aligned
    array([[0., 4.]])
    >>> pair.squared_distances
    array([16.])
    """
    refuse_device("tangent_alignment", X=X, Y=Y)
    metric, x_end, y_end = check_ends(
        X, X if Y is None else Y, X_tangents, Y_tangents, tangents, sides, spring,
        allowed=ALIGNED_SIDES,
    )  # fmt: skip
    assert y_end is not None
    x, y = x_end.points, y_end.points
    if len(x) != len(y):
        raise ValueError(
            f"tangent_alignment pairs rows: X has {len(x)} samples and Y has {len(y)}. "
            "For all pairs use tangent_distances."
        )
    if sides == "midpoint":
        return _align_at_midpoint(x, y, tangents, metric.spring)
    return align(x_end, y_end, metric.spring)


def align(x: Bundle, y: Bundle, spring: float = DEFAULT_SPRING) -> Alignment:
    """Align two bundles of equal length row by row."""
    from widemargin._compute.frames import align as best_moves

    delta = x.points.astype(float) - y.points
    n, l_x = len(x), x.n_tangents
    d2, residual = np.empty(n), np.empty(delta.shape)
    moves = np.empty((n, l_x + y.n_tangents))
    best_moves(
        delta, x.frames.astype(float, order="C"), y.frames.astype(float, order="C"),
        float(spring), d2, moves, residual,
    )  # fmt: skip
    # Taken off delta = x - y: x moves by the opposite, y by the same.
    p, q = -moves[:, :l_x], moves[:, l_x:]
    return _moved(x, y, p, q, residual, d2)


def _align_at_midpoint(x, y, generator, spring) -> Alignment:
    middle = as_bundle((x + y) / 2, generator).frames.astype(x.dtype, copy=False)
    delta, frames = x.astype(float) - y, middle.astype(float)
    half = np.matmul(frames, delta[:, :, None])[:, :, 0] / (2 * (1 + spring))
    residual = delta - 2 * np.matmul(half[:, None], frames)[:, 0]
    # Two moves of half the size store half the energy of one: count the spring as
    # the distance does, once for the whole way.
    with np.errstate(over="ignore", under="ignore"):
        d2 = (residual**2).sum(1) + 4 * spring * (half**2).sum(1)
    return _moved(Bundle(x, middle), Bundle(y, middle), -half, half, residual, d2)


def _moved(x, y, p, q, residual, d2) -> Alignment:
    dtype = x.points.dtype
    x_aligned = x.points + np.matmul(p[:, None], x.frames)[:, 0]
    y_aligned = y.points + np.matmul(q[:, None], y.frames)[:, 0]
    residual, p, q, x_aligned, y_aligned = (
        array.astype(dtype) for array in (residual, p, q, x_aligned, y_aligned)
    )
    with np.errstate(over="ignore", under="ignore"):
        squared = d2.astype(dtype)
    if not np.isfinite(squared).all() or ((squared == 0) & (d2 > 0)).any():
        # What float32 cannot hold float64 can, or nothing.
        squared = d2
    lost = not d2.any() and residual.any()
    if lost or not np.isfinite(d2).all():
        raise ValueError(
            "the squared distances of X and Y cannot be told in float64; scale the "
            "data, for instance by StandardScaler."
        )
    return Alignment(squared, residual, p, q, x.frames, y.frames, x_aligned, y_aligned)
