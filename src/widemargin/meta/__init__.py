"""Around any classifier: margins made wider, answers refused where it is not sure."""

from widemargin.meta.rejecting import RejectingClassifier
from widemargin.meta.reweighting import MarginReweightingClassifier

__all__ = ["MarginReweightingClassifier", "RejectingClassifier"]
