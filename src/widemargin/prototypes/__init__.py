"""Prototype classifiers: the LVQ family and tangent models."""

from widemargin.prototypes.glvq import GLVQClassifier
from widemargin.prototypes.gmlvq import GMLVQClassifier
from widemargin.prototypes.hss import HSSClassifier
from widemargin.prototypes.kernel_lvq import KernelLVQClassifier
from widemargin.prototypes.lvq import LVQClassifier
from widemargin.prototypes.margin_lvq import MarginLVQClassifier
from widemargin.prototypes.relational import RelationalLVQClassifier
from widemargin.prototypes.tdneuron import TDNeuronClassifier
from widemargin.prototypes.tvq import TVQClassifier

__all__ = [
    "GLVQClassifier",
    "GMLVQClassifier",
    "HSSClassifier",
    "KernelLVQClassifier",
    "LVQClassifier",
    "MarginLVQClassifier",
    "RelationalLVQClassifier",
    "TDNeuronClassifier",
    "TVQClassifier",
]
