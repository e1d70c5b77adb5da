"""Checks shared by the margin functions: each error names the parameter."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array, check_scalar, column_or_1d

FloatArray = npt.NDArray[np.floating[Any]]


def check_real(
    value: Any,
    name: str,
    low: float | None = None,
    high: float | None = None,
    boundaries: str = "neither",
) -> float:
    """Return `value` as a float if it is a number between `low` and `high`."""
    check_scalar(
        value,
        name,
        Real,
        min_val=low,
        max_val=high,
        include_boundaries=boundaries,
    )
    if math.isnan(value):
        raise ValueError(f"{name} is NaN; it must be a number.")
    return float(value)


def check_finite(value: Any, name: str, low: float | None = None) -> float:
    """Return `value` as a float if it is finite and greater than `low`."""
    number = check_real(value, name, low)
    if math.isinf(number):
        raise ValueError(f"{name} is infinite; it must be a finite number.")
    return number


def check_count(value: Any, name: str, low: int = 1) -> int:
    """Return `value` as an int if it is an integer of at least `low`."""
    check_scalar(value, name, Integral, min_val=low)
    return int(value)


def check_option(value: Any, name: str, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`, else say which ones there are."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")
    return value


def as_floats(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return `values` as a float array without NaN; float32 stays float32."""
    array = np.asarray(values)
    if array.dtype.kind not in "buif":
        raise ValueError(f"{name} must be numbers; got an array of {array.dtype}.")
    array = np.asarray(array, dtype=np.result_type(array.dtype, np.float32))
    if np.isnan(array).any():
        raise ValueError(f"{name} contains NaN; every value must be a number.")
    return array


def as_float_vector(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return `values` as a non-empty one-dimensional float array without NaN."""
    vector = as_floats(values, name)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(
            f"{name} must be one number per sample, an array of shape (n_samples,) "
            f"with n_samples >= 1; got shape {vector.shape}."
        )
    return vector


def as_matrix(values: Any, name: str, **options: Any) -> Any:
    """Return `values` as a two-dimensional array; float32 stays float32."""
    options = {"dtype": [np.float64, np.float32], "input_name": name} | options
    return check_array(values, **options)


def as_labels(labels: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """Return `labels` as a non-empty one-dimensional array of labels."""
    vector = np.asarray(column_or_1d(labels))
    if vector.size == 0:
        raise ValueError(f"{name} is empty; at least one label is needed.")
    if vector.dtype.kind == "f" and not np.isfinite(vector).all():
        raise ValueError(f"{name} contains NaN or infinity; every label must be known.")
    return vector


def encode_labels(
    reference_labels: npt.ArrayLike, y: npt.ArrayLike, name: str
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return both label arrays as positions among the labels of the references."""
    references, labels = as_labels(reference_labels, name), as_labels(y, "y")
    classes, codes = np.unique(references, return_inverse=True)
    # NumPy would turn numbers into strings to compare them, and 1 is not "1".
    mixed = {references.dtype.kind in "SU", labels.dtype.kind in "SU"} == {True, False}
    comparable = "O" in (references.dtype.kind, labels.dtype.kind) or not mixed
    unknown = np.setdiff1d(labels, classes) if comparable else np.unique(labels)
    if unknown.size:
        raise ValueError(
            f"y contains {_some(unknown)}, which {name} does not; "
            f"the labels there are {_some(classes)}."
        )
    return codes, np.searchsorted(classes, labels)


def _some(labels: npt.NDArray[Any], n_shown: int = 10) -> str:
    shown = ", ".join(repr(label) for label in labels[:n_shown].tolist())
    return shown + (", …" if len(labels) > n_shown else "")


def check_same_length(**arrays: npt.NDArray[Any]) -> None:
    """Raise unless all named arrays have the same number of samples."""
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise ValueError(f"One entry per sample is needed in each: {listed}.")
