"""What both classifiers of this package ask of their parameters and samples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from widemargin._core.callbacks import HAS_CALLBACKS
from widemargin._core.checks import check_count, check_option, check_spring
from widemargin.metrics import blanks
from widemargin.metrics.ends import SIDES
from widemargin.tangents import Bundle

FLOATS = (np.float64, np.float32)


def check_distance_parameters(sides: Any, spring: Any) -> None:
    """Validate `sides` and `spring`."""
    check_option("sides", sides, SIDES)
    check_spring(spring)


def check_at_most(name: str, value: Any, at_most: int, of: str) -> int:
    """Return a positive integer, or say how many there may be."""
    if check_count(name, value) > at_most:
        raise ValueError(
            f"{name} must be at most n_samples={at_most}, {of}; got {value}."
        )
    return int(value)


def check_training(
    estimator: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Return samples, class codes, classes and weights; weightless samples go."""
    X, y = validate_data(estimator, X, y, dtype=FLOATS, order="C")
    check_classification_targets(y)
    weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    kept = weights > 0
    if not kept.any():
        raise ValueError("sample_weight must be positive for at least one sample.")
    classes, codes = np.unique(y[kept], return_inverse=True)
    return X[kept], codes, classes, weights[kept]


def warn_of_blanks(bundle: Bundle, sides: str) -> None:
    """Warn, once, of training samples that are near to everything."""
    if sides == "two":
        # To the caller of fit, whatever scikit-learn wraps around it.
        blanks.warn_of_blanks(bundle, "training samples", stacklevel=3 + HAS_CALLBACKS)


def check_squares(X: NDArray) -> NDArray:
    """Return samples whose squared distances are finite in their dtype."""
    largest = max(float(X.max(initial=0)), -float(X.min(initial=0)))
    # Squared distances reach four times the squared norms; sums, twice that.
    if largest > np.sqrt(float(np.finfo(X.dtype).max) / (8 * X.shape[1])):
        instead = "scale the data, for instance by StandardScaler"
        if X.dtype == np.float32:
            instead += ", or pass them as float64"
        raise ValueError(
            f"X contains {largest:.2g}, whose squared distances overflow {X.dtype}; "
            f"{instead}."
        )
    return X
