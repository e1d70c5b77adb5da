"""Wrappers: rejection, conformal prediction, monitoring, re-weighting, products."""

from widemargin.meta.conformal import ConformalClassifier
from widemargin.meta.imputing import MixtureImputer
from widemargin.meta.monitoring import PromiseMonitor
from widemargin.meta.product import ProductClassifier
from widemargin.meta.rejecting import RejectingClassifier
from widemargin.meta.reweighting import MarginReweightingClassifier

__all__ = [
    "ConformalClassifier",
    "MarginReweightingClassifier",
    "MixtureImputer",
    "ProductClassifier",
    "PromiseMonitor",
    "RejectingClassifier",
]
