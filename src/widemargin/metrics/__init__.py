"""Tangent distances, their kernels, and distortion models of images."""

from widemargin.metrics.distortion import (
    image_distortion_distances,
    listed_distortion_distances,
    pseudo_2d_distortion_distances,
)
from widemargin.metrics.kernels import (
    RepairedSpectrum,
    repair_spectrum,
    smallest_eigenvalue,
    tangent_kernel,
)
from widemargin.metrics.tangent import (
    Alignment,
    TangentMetric,
    tangent_alignment,
    tangent_distances,
)

__all__ = [
    "Alignment",
    "RepairedSpectrum",
    "TangentMetric",
    "image_distortion_distances",
    "listed_distortion_distances",
    "pseudo_2d_distortion_distances",
    "repair_spectrum",
    "smallest_eigenvalue",
    "tangent_alignment",
    "tangent_distances",
    "tangent_kernel",
]
