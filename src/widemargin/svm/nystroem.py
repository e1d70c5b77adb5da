r"""Landmarks: kernel machines on sets whose Gram matrix does not fit into memory.

With m landmarks Z, drawn from the samples, and K_ZZ = V diag(λ) Vᵀ, the features

    φ(x) = k(x, Z) V_+ diag(λ_+)^{-1/2}

have inner products k(x, Z) K_ZZ^+ k(Z, x'), which is k where landmarks are all samples
and k is definite. Negative eigenvalues go, as in the repair "clip".

Reference: C. Williams, M. Seeger, Using the Nyström method to speed up kernel
machines, NIPS 2000. Shapes: features (n, rank), root (m, rank).
"""

from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.linalg import eigh

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.progress import announced
from widemargin._compute.threads import batched_slices
from widemargin.svm.tangent_kernel import TangentKernel
from widemargin.tangents import Bundle

# Eigenvalues of the landmarks' Gram matrix below this share of the largest are noise.
_EIGENVALUE_RTOL = 1e-7
# Samples whose mutual distances tell the scale of the kernel.
_SCALE_SAMPLES = 500


class Landmarks(NamedTuple):
    """Positions of the landmarks, the scaled kernel, and root: k(·, Z) to features."""

    positions: NDArray
    kernel: TangentKernel
    root: NDArray


def choose_landmarks(
    kernel: TangentKernel,
    bundle: Bundle,
    m: int,
    random: RandomState,
    n_jobs: int | None,
) -> Landmarks:
    """Draw m landmarks, find the scale of the kernel and its root on them."""
    n = len(bundle)
    positions = np.sort(random.choice(n, min(m, n), replace=False))
    if kernel.needs_scale:
        # As many whatever m is, so that the kernel does not depend on it.
        some = np.sort(random.choice(n, min(_SCALE_SAMPLES, n), replace=False))
        d2 = kernel.squared_distances(bundle[some], n_jobs)
        kernel = kernel.scaled_to(d2, n)
    d2 = kernel.squared_distances(bundle[positions], n_jobs)
    kernel = kernel.scaled_to(d2)
    values, vectors = eigh(kernel.gram(d2).astype(float, copy=False))
    real = values > _EIGENVALUE_RTOL * values[-1]
    if not real.any():
        raise ValueError(
            "the kernel of the landmarks has no positive eigenvalue; use another "
            "kernel or gamma."
        )
    return Landmarks(positions, kernel, vectors[:, real] / np.sqrt(values[real]))


def landmark_features(
    landmarks: Landmarks, bundle: Bundle, n_jobs: int | None
) -> NDArray:
    """Features of samples, a few rows of kernel values at a time."""
    references = bundle[landmarks.positions]
    features = np.empty((len(bundle), landmarks.root.shape[1]))
    size = min(1024, rows_in_budget(32 * len(references)))
    for rows in announced(batched_slices(len(bundle), size), "features"):
        K = landmarks.kernel.between(bundle[rows], references, n_jobs)
        features[rows] = K @ landmarks.root
    return features
