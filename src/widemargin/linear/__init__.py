"""Hyperplanes: perceptrons with margin, fixed margin, certified maximum margin."""

from widemargin.linear.fixed_margin import FixedMarginPerceptron
from widemargin.linear.margin_perceptron import MarginPerceptron
from widemargin.linear.max_margin import MaxMarginClassifier

__all__ = ["FixedMarginPerceptron", "MarginPerceptron", "MaxMarginClassifier"]
