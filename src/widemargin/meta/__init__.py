"""Around any classifier: margins made wider, answers refused where it is not sure."""

from widemargin.meta._reweighting import MarginReweightingClassifier
from widemargin.meta.rejecting import RejectingClassifier

__all__ = ["MarginReweightingClassifier", "RejectingClassifier"]
