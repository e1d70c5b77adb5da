"""A label for "no answer" that no class has, and a dtype that holds it as well."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def choose_reject_label(label: Any, classes: NDArray) -> Any:
    """Return `label`, or a fitting one if it is None, unless it is one of `classes`."""
    classes = np.asarray(classes)
    if label is None:
        label = _default_label(classes)
    if any(label == known for known in classes.tolist()):
        raise ValueError(
            f"reject_label={label!r} is one of the classes; give a reject_label that "
            "is not, of the same kind as the labels."
        )
    return label


def _default_label(classes: NDArray) -> Any:
    if classes.dtype.kind in "biuf":
        return -1
    if all(isinstance(known, str) for known in classes.tolist()):
        return "reject"
    raise ValueError(
        "reject_label must be given for labels that are neither all strings nor all "
        f"numbers; the classes are {classes.tolist()[:5]}."
    )


def mixed_dtype(answers: NDArray, label: Any) -> DTypeLike:
    """Return a dtype that holds the answers and the label without changing either."""
    kinds = answers.dtype.kind, np.asarray(label).dtype.kind
    if kinds == ("U", "U"):
        return np.result_type(answers.dtype, np.asarray(label).dtype)
    if kinds[0] in "biuf" and kinds[1] in "biuf":
        return np.result_type(answers.dtype, np.min_scalar_type(label))
    return np.dtype(object)
