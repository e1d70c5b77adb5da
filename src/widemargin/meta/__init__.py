"""Around any classifier: margins made wider by re-weighting, and refusal to answer."""

from widemargin.meta._reweighting import MarginReweightingClassifier
from widemargin.meta.rejecting import RejectingClassifier

__all__ = ["MarginReweightingClassifier", "RejectingClassifier"]
