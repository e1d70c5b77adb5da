"""How far: distances that ignore what may vary."""

from widemargin.metrics.alignment import Alignment, tangent_alignment
from widemargin.metrics.distances import tangent_distances

__all__ = ["Alignment", "tangent_alignment", "tangent_distances"]
