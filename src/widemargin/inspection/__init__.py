"""Plots of margins, rejection, prototypes, relevances, tangents and training.

Displays follow scikit-learn's convention: the constructor takes data, ``plot`` takes
style and draws, ``from_estimator`` and its like compute the data and plot it. After
``plot`` a display has ``ax_`` and ``figure_``, and those of several panels ``axes_``.
matplotlib is imported by ``plot`` only.
"""

from widemargin.inspection.class_models import AcceptanceDisplay, ExtremesDisplay
from widemargin.inspection.margins import (
    BoundDisplay,
    ErrorRejectDisplay,
    MarginDistributionDisplay,
)
from widemargin.inspection.monitoring import PromiseMonitorDisplay
from widemargin.inspection.prototypes import PrototypeDisplay, RelevanceDisplay
from widemargin.inspection.tangents import AlignmentDisplay, TangentDisplay
from widemargin.inspection.training import SampleWeightDisplay, TrainingCurveDisplay

__all__ = [
    "AcceptanceDisplay",
    "AlignmentDisplay",
    "BoundDisplay",
    "ErrorRejectDisplay",
    "ExtremesDisplay",
    "MarginDistributionDisplay",
    "PromiseMonitorDisplay",
    "PrototypeDisplay",
    "RelevanceDisplay",
    "SampleWeightDisplay",
    "TangentDisplay",
    "TrainingCurveDisplay",
]
