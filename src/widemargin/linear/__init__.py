"""Hyperplanes: perceptrons with margin, fixed margin, certified maximum margin."""

from widemargin.hyperplanes.max_margin import MaxMarginClassifier
from widemargin.hyperplanes.perceptrons import FixedMarginPerceptron, MarginPerceptron
from widemargin.linear.signal import SignalClassifier
from widemargin.linear.spectrum import SpectrumClassifier

__all__ = [
    "FixedMarginPerceptron",
    "MarginPerceptron",
    "MaxMarginClassifier",
    "SignalClassifier",
    "SpectrumClassifier",
]
