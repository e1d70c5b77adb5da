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
    delta = x.points - y.points
    stiffness = 1.0 + spring
    a = np.matmul(x.frames, delta[:, :, None])[:, :, 0]
    b = np.matmul(y.frames, delta[:, :, None])[:, :, 0]
    M = np.matmul(x.frames, y.frames.transpose(0, 2, 1)).astype(float)
    r = b - np.matmul(a[:, None], M)[:, 0] / stiffness
    S = stiffness * np.eye(M.shape[2]) - np.matmul(M.transpose(0, 2, 1), M) / stiffness
    q = _solve(S, r, spring)
    minus_p = (a - np.matmul(M, q[:, :, None])[:, :, 0]) / stiffness
    p, q = (-minus_p).astype(delta.dtype), q.astype(delta.dtype)
    return _moved(x.points, y.points, p, x.frames, q, y.frames, spring)


def _solve(S, r, spring):
    if S.shape[1] == 0:
        return r.astype(float)
    if spring > 0:
        return np.linalg.solve(S, r[:, :, None])[:, :, 0]
    # The eigenvalues of S are squared sines between the frames: absolute numbers.
    # Along a direction both ends share, x alone moves.
    values, vectors = np.linalg.eigh(S)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 1e-10)
    along = np.matmul(vectors.transpose(0, 2, 1), r[:, :, None])[:, :, 0]
    return np.matmul(vectors, (inverse * along)[:, :, None])[:, :, 0]


def _align_at_midpoint(x, y, generator, spring) -> Alignment:
    frames = as_bundle((x + y) / 2, generator).frames.astype(x.dtype, copy=False)
    half = np.matmul(frames, (x - y)[:, :, None])[:, :, 0] / (2 * (1 + spring))
    # Two moves of half the size store half the energy of one: count the spring as
    # the distance does, once for the whole way.
    return _moved(x, y, -half, frames, half, frames, 2 * spring)


def _moved(x, y, p, x_frames, q, y_frames, spring) -> Alignment:
    x_aligned = x + np.matmul(p[:, None], x_frames)[:, 0]
    y_aligned = y + np.matmul(q[:, None], y_frames)[:, 0]
    # Formed from delta, so that identical samples leave exactly nothing.
    residual = (x - y) + (
        np.matmul(p[:, None], x_frames) - np.matmul(q[:, None], y_frames)
    )[:, 0]
    energy = spring * ((p**2).sum(1) + (q**2).sum(1))
    squared = (residual**2).sum(1) + energy
    return Alignment(squared, residual, p, q, x_frames, y_frames, x_aligned, y_aligned)
