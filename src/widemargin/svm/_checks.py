"""What the machines of this package ask of their parameters, samples and memory."""

import os
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

FLOATS = (np.float64, np.float32)


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above 0."""
    if not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a number above 0; got {value!r}.")
    return float(value)


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


def check_transformations(transformations: Any) -> tuple:
    """Functions X -> X, as a tuple."""
    if transformations is None:
        return ()
    if callable(transformations) or not all(callable(t) for t in transformations):
        raise ValueError(
            "transformations must be a sequence of functions X -> X, for instance "
            f"image_shifts(shape=(16, 16)); got {transformations!r}."
        )
    return tuple(transformations)


def transform(X: NDArray, transformation: Any) -> NDArray:
    """Return the transformed samples, checked."""
    out = np.asarray(transformation(X), dtype=X.dtype)
    if out.shape != X.shape or not np.isfinite(out).all():
        raise ValueError(
            "each of transformations must return finite samples of the shape it is "
            f"given, {X.shape}; {transformation!r} returned shape {out.shape}."
        )
    return out


def available_bytes() -> float:
    """Memory that can still be had, as far as the system says."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def require_gram_fits(n: int, bytes_per_entry: int, way_out: str) -> None:
    """Refuse a Gram matrix that memory does not hold, before any of it exists."""
    needed, there = float(n) ** 2 * bytes_per_entry, available_bytes()
    if needed > there:
        raise MemoryError(
            f"the Gram matrix of {n} samples needs {needed / 2**30:.1f} GiB, "
            f"{n} × {n} × {bytes_per_entry} bytes, and {there / 2**30:.1f} GiB of "
            f"memory are available. {way_out}"
        )
