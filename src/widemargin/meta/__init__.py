"""Around any classifier: refusing to answer where it is not sure."""

from widemargin.meta.rejecting import RejectingClassifier

__all__ = ["RejectingClassifier"]
