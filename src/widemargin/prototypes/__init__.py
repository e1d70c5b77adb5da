"""Learned models: classifiers by nearest prototype."""

from widemargin.prototypes._glvq import GLVQClassifier
from widemargin.prototypes._gmlvq import GMLVQClassifier
from widemargin.prototypes._hss import HSSClassifier
from widemargin.prototypes._kernel_lvq import KernelLVQClassifier
from widemargin.prototypes._lvq import LVQClassifier
from widemargin.prototypes._margin_lvq import MarginLVQClassifier
from widemargin.prototypes._tdneuron import TDNeuronClassifier
from widemargin.prototypes._tvq import TVQClassifier

__all__ = [
    "GLVQClassifier",
    "GMLVQClassifier",
    "HSSClassifier",
    "KernelLVQClassifier",
    "LVQClassifier",
    "MarginLVQClassifier",
    "TDNeuronClassifier",
    "TVQClassifier",
]
