"""What the machines of this package ask of their parameters, samples and memory."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from widemargin._compute.memory import available_bytes

FLOATS = (np.float64, np.float32)
# scikit-learn's cache_size, in bytes.
LIBSVM_CACHE = 200 * 2**20


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above 0."""
    if not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a number above 0; got {value!r}.")
    return float(value)


def check_class_weight(class_weight: Any, classes: NDArray) -> None:
    """Refuse weights of classes that are not there, and unknown names."""
    if class_weight is None or class_weight == "balanced":
        return
    if not isinstance(class_weight, dict):
        raise ValueError(
            "class_weight must be a dict {label: weight}, 'balanced' or None; got "
            f"{class_weight!r}."
        )
    labels = classes.tolist()
    for label, weight in class_weight.items():
        if label not in labels:
            raise ValueError(
                f"class_weight has a weight for {label!r}, which is no class of y; the "
                f"classes are {labels}."
            )
        check_positive(f"class_weight[{label!r}]", weight)


def weigh(
    class_weight: Any, classes: NDArray, y: NDArray, sample_weight: NDArray | None
) -> NDArray | None:
    """Factor on C of every sample: that of its class times its own; None is 1."""
    if class_weight is None:
        return sample_weight
    of_class = compute_class_weight(class_weight, classes=classes, y=y)
    factors = of_class[np.searchsorted(classes, y)]
    return factors if sample_weight is None else factors * sample_weight


def require_two_classes(classes: NDArray) -> None:
    """Raise if there is nothing to tell apart."""
    if len(classes) < 2:
        raise ValueError(
            f"y must have at least 2 classes; got {len(classes)} class, "
            f"{classes.tolist()}."
        )


def check_weights(sample_weight: Any, X: Any) -> NDArray | None:
    """Weights as an array, or None."""
    if sample_weight is None:
        return None
    return _check_sample_weight(sample_weight, X, ensure_non_negative=True)


def check_training(
    estimator: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[NDArray, NDArray, NDArray, NDArray | None]:
    """Return samples, labels, classes and weights; weightless samples go."""
    X, y = validate_data(estimator, X, y, dtype=FLOATS, order="C")
    check_classification_targets(y)
    weights = check_weights(sample_weight, X)
    if weights is not None:
        kept = weights > 0
        X, y, weights = X[kept], y[kept], weights[kept]
    classes = np.unique(y)
    require_two_classes(classes)
    return X, y, classes, weights


def require_gram_fits(n: int, bytes_per_entry: int, way_out: str) -> None:
    """Refuse a Gram matrix that memory does not hold, before any of it exists."""
    # What LIBSVM keeps of it in single precision comes on top, up to a limit.
    cache = min(4 * n**2, LIBSVM_CACHE)
    needed, there = float(n) ** 2 * bytes_per_entry + cache, available_bytes()
    if needed > there:
        raise MemoryError(
            f"the Gram matrix of {n} samples needs {needed / 2**30:.1f} GiB, "
            f"{n} × {n} × {bytes_per_entry} bytes and what the solver keeps, and "
            f"{there / 2**30:.1f} GiB of memory are available. {way_out}"
        )
