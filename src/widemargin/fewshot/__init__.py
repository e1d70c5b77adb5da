"""Few labelled images in one line, and the parts that the line is made of."""

from widemargin.fewshot.classifier import FewShotImageClassifier

__all__ = ["FewShotImageClassifier"]
