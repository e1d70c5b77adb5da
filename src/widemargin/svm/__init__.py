"""Support vector machines that ignore known changes."""

from widemargin.hyperplanes.invariant import InvariantHyperplaneSVC
from widemargin.hyperplanes.jittered import JitteredSVC
from widemargin.hyperplanes.pairwise import DDAGClassifier
from widemargin.hyperplanes.tangent import TangentSVC
from widemargin.hyperplanes.virtual import VirtualSVC

__all__ = [
    "DDAGClassifier",
    "InvariantHyperplaneSVC",
    "JitteredSVC",
    "TangentSVC",
    "VirtualSVC",
]
