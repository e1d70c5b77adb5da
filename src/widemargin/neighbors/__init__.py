"""Remembered data: nearest neighbours and kernel densities under tangent distances."""

from widemargin.neighbors.density import TangentDensityClassifier
from widemargin.neighbors.nearest import TangentKNeighborsClassifier

__all__ = ["TangentDensityClassifier", "TangentKNeighborsClassifier"]
