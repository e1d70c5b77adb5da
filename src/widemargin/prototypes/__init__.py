"""Learned models: classifiers by nearest prototype."""

from widemargin.prototypes._glvq import GLVQClassifier
from widemargin.prototypes._lvq import LVQClassifier

__all__ = [
    "GLVQClassifier",
    "LVQClassifier",
]
