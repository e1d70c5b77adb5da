"""Nearest neighbours and kernel densities in tangent distance."""

from widemargin.neighbors.density import DensityClassifier, TangentDensityClassifier
from widemargin.neighbors.nearest import TangentKNeighborsClassifier

__all__ = [
    "DensityClassifier",
    "TangentDensityClassifier",
    "TangentKNeighborsClassifier",
]
