"""Kernel machines that know what may vary."""

from widemargin.svm.invariant import InvariantHyperplaneSVC
from widemargin.svm.jittered import JitteredSVC
from widemargin.svm.pairwise import DDAGClassifier
from widemargin.svm.tangent import TangentSVC
from widemargin.svm.virtual import VirtualSVC

__all__ = [
    "DDAGClassifier",
    "InvariantHyperplaneSVC",
    "JitteredSVC",
    "TangentSVC",
    "VirtualSVC",
]
