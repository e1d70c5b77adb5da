"""Around any classifier: margins made wider."""

from widemargin.meta._reweighting import MarginReweightingClassifier

__all__ = ["MarginReweightingClassifier"]
