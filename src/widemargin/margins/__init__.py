"""Margins of samples, losses of margins, bounds, re-weighting, rejection.

A margin is one signed number per sample, positive where the classifier is right and
larger where it is surer. This package computes margins from distances or hyperplanes,
turns them into losses with derivatives, into bounds on errors and on updates, into
sample weights for the next round, and into thresholds below which not to answer. It
is functions on arrays, and two that ask any fitted classifier.
"""

from widemargin._core.classifier import MARGIN_UNITS
from widemargin._core.confidence import confidence_of, margins_of
from widemargin.margins.bounds import (
    MarginBound,
    lvq_margin_bound,
    prototype_displacement,
)
from widemargin.margins.class_models import (
    ClassModelRates,
    Rates,
    class_model_rates,
    exact_interval,
    extremes_band,
)
from widemargin.margins.conformal import (
    conformal_p_values,
    cross_conformal_level,
    samples_for_alpha,
    smallest_alpha,
)
from widemargin.margins.losses import (
    Exponential,
    Hinge,
    LinearLoss,
    MarginLoss,
    Ramp,
    Sigmoid,
    check_loss,
)
from widemargin.margins.monitoring import ErrorBounds, error_bounds
from widemargin.margins.perceptrons import PerceptronBounds, perceptron_bounds
from widemargin.margins.rejection import (
    ErrorRejectCurve,
    GroupThresholds,
    common_threshold,
    error_reject_curve,
    reject_threshold,
    reject_thresholds,
    smallest_max_error,
)
from widemargin.margins.reweight import margin_reweight
from widemargin.margins.scores import (
    NearestRightWrong,
    directional_margin,
    geometric_margin,
    hypothesis_margin,
    nearest_right_wrong,
    relative_margin,
    sample_margin,
)
from widemargin.margins.selective import (
    augrc_score,
    aurc_score,
    coverage_at_error,
    neg_augrc_scorer,
    neg_aurc_scorer,
)

__all__ = [
    "MARGIN_UNITS",
    "ClassModelRates",
    "ErrorBounds",
    "ErrorRejectCurve",
    "Exponential",
    "GroupThresholds",
    "Hinge",
    "LinearLoss",
    "MarginBound",
    "MarginLoss",
    "NearestRightWrong",
    "PerceptronBounds",
    "Ramp",
    "Rates",
    "Sigmoid",
    "augrc_score",
    "aurc_score",
    "check_loss",
    "class_model_rates",
    "common_threshold",
    "confidence_of",
    "conformal_p_values",
    "coverage_at_error",
    "cross_conformal_level",
    "directional_margin",
    "error_bounds",
    "error_reject_curve",
    "exact_interval",
    "extremes_band",
    "geometric_margin",
    "hypothesis_margin",
    "lvq_margin_bound",
    "margin_reweight",
    "margins_of",
    "nearest_right_wrong",
    "neg_augrc_scorer",
    "neg_aurc_scorer",
    "perceptron_bounds",
    "prototype_displacement",
    "reject_threshold",
    "reject_thresholds",
    "relative_margin",
    "sample_margin",
    "samples_for_alpha",
    "smallest_alpha",
    "smallest_max_error",
]
