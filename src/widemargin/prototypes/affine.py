"""Affine models: a centroid C and an orthonormal frame T, fitted and moved.

The squared distance of x to the model is |r|^2 with r = x - C - T^T alpha and
alpha = T (x - C). Of all models the weighted mean and the leading eigenvectors of the
weighted covariance,

    C = sum_i g_i x_i,    Sigma = sum_i g_i (x_i - C)(x_i - C)^T,    sum_i g_i = 1,

make the weighted sum of these distances smallest. Shapes: C (d,), T (m, d); stacked
models (K, 1 + m, d) hold [C; T].

Reference: T. Hastie, P. Simard, E. Säckinger, Learning prototype models for tangent
distance, NIPS 1994; Aiolli and Sperduti, equations 4, 9 and 10.
"""

import numpy as np
from scipy.linalg import eigh

from widemargin._core.arrays import is_tensor, to_numpy, xp_of
from widemargin.tangents import orthonormalize

# Share of the variance below which a direction is none.
NO_VARIANCE = 1e-12


def weighted_moments(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean and population covariance, as if sample i came `weights[i]` times."""
    total = weights.sum()
    mean = (weights @ X) / total
    centred = X - mean
    return mean, (centred * weights[:, None]).T @ centred / total


def principal_model(
    X: np.ndarray, weights: np.ndarray, n_tangents: int
) -> tuple[np.ndarray, np.ndarray]:
    """Centroid and frame that explain weighted samples best, in float64.

    Samples that vary in fewer than `n_tangents` directions leave zero rows, last.
    """
    if is_tensor(X) and n_tangents and len(X) > X.shape[1]:
        from widemargin._compute.device.models import weighted_moments as on_device

        mean, covariance = on_device(X, weights / weights.max())
        return to_numpy(mean), principal_of_moments(covariance, n_tangents)
    X = to_numpy(X)
    X, weights = X.astype(float), weights.astype(float)
    d = X.shape[1]
    frame = np.zeros((n_tangents, d))
    if n_tangents == 0:
        return (weights @ X) / weights.sum(), frame
    weights = weights / weights.max()
    if len(X) > d:
        mean, covariance = weighted_moments(X, weights)
        return mean, principal_of_moments(covariance, n_tangents)
    mean = (weights @ X) / weights.sum()
    centred = X - mean
    # Divided first, so that squares neither overflow nor vanish.
    size = float(np.max(np.abs(centred), initial=0.0)) or 1.0
    scale = np.sqrt(weights / weights.sum())[:, None]
    _, singular, axes = np.linalg.svd(centred / size * scale, full_matrices=False)
    axes = axes[:n_tangents][singular[:n_tangents] ** 2 > NO_VARIANCE]
    frame[: len(axes)] = axes
    return mean, frame


def principal_of_moments(covariance: np.ndarray, n_tangents: int) -> np.ndarray:
    """Frame of the leading eigenvectors; zero rows, last, where nothing varies."""
    d = len(covariance)
    frame = np.zeros((n_tangents, d))
    size = float(covariance.trace())
    if n_tangents == 0 or not size > 0:
        return frame
    if is_tensor(covariance):
        every = xp_of(covariance).linalg.eigh(covariance / size)
        values, vectors = (to_numpy(a[..., d - n_tangents :]) for a in every)
    else:
        leading = [d - n_tangents, d - 1]
        values, vectors = eigh(covariance / size, subset_by_index=leading)
    axes = vectors.T[::-1][values[::-1] > NO_VARIANCE]
    frame[: len(axes)] = axes
    return frame


def random_frames(
    n_models: int, n_tangents: int, d: int, rng: np.random.RandomState
) -> np.ndarray:
    """Orthonormal frames of uniformly distributed random subspaces."""
    return orthonormalize(rng.standard_normal((n_models, n_tangents, d)))


def retract(frames: np.ndarray) -> np.ndarray:
    """Orthonormalise frames that a step has moved; rows of zero stay so."""
    if frames.shape[1] == 0:
        return frames
    gram = np.matmul(frames, frames.transpose(0, 2, 1))
    diagonal = np.einsum("kii->ki", gram)
    diagonal[diagonal == 0] = 1.0
    # Near an orthonormal frame two small products do; far from it they lose digits.
    if diagonal.max() > 1e4 * diagonal.min():
        return orthonormalize(frames)
    try:
        return np.linalg.solve(np.linalg.cholesky(gram), frames)
    except np.linalg.LinAlgError:
        return orthonormalize(frames)


def slide(
    points: np.ndarray,
    frames: np.ndarray,
    C: np.ndarray,
    T: np.ndarray,
    spring: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Move every sample along its own frame to where it meets the model.

    Minimises |x + U^T p - C - T^T q|^2 + spring (|p|^2 + |q|^2) over p and q.

    Returns
    -------
    moved : ndarray of shape (n, d)
        x + U^T p.
    q : ndarray of shape (n, m)
        Coefficients of the model's own tangents.
    """
    if is_tensor(points):
        from widemargin._compute.device.models import slide as on_device

        return on_device(points, frames, C, T, spring)
    stiffness = 1.0 + spring
    n, n_own, d = frames.shape
    delta = points - C
    b = delta @ T.T
    if n_own == 0:
        return points, b / stiffness
    a = np.matmul(frames, delta[:, :, None])[:, :, 0]
    M = (frames.reshape(n * n_own, d) @ T.T).reshape(n, n_own, len(T))
    S = stiffness * np.eye(n_own) - np.matmul(M, M.transpose(0, 2, 1)) / stiffness
    r = a - np.matmul(M, b[:, :, None])[:, :, 0] / stiffness
    minus_p = np.linalg.solve(S.astype(float), r[:, :, None].astype(float))[:, :, 0]
    minus_p = minus_p.astype(points.dtype)
    q = (b - np.matmul(minus_p[:, None], M)[:, 0]) / stiffness
    return points - np.matmul(minus_p[:, None], frames)[:, 0], q
