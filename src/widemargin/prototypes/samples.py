"""What a fit works on: checked samples, class codes, and weights that really act.

Weights are relative to each other and a weight of zero removes the sample. Learners
that take the whole set at once first bring it into a canonical form
(`merge_duplicates`): equal rows with equal labels become one row that carries the sum
of the weights, in an order that depends on the values alone. What they do afterwards,
random choices included, then cannot tell a sample of weight 2 from a sample given
twice.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from widemargin._compute.threads import batched_slices


class Samples(NamedTuple):
    """Rows of X with the index of their class and a positive weight.

    `rows` tells where they stood in the data that came in.
    """

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    rows: np.ndarray

    def take(self, rows: np.ndarray | slice) -> "Samples":
        """Return the samples of `rows`."""
        return Samples(*(field[rows] for field in self))


def class_weights(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return one factor per class; "balanced" gives every class the same total."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, Mapping):
        unknown = set(class_weight) - set(classes.tolist())
        if unknown:
            raise ValueError(
                f"class_weight names classes that y does not hold: "
                f"{sorted(unknown, key=str)[:5]}."
            )
        out = np.array([class_weight.get(c, 1.0) for c in classes.tolist()], float)
        if not np.all(np.isfinite(out)) or np.any(out < 0):
            raise ValueError(f"class_weight must be >= 0; got {class_weight!r}.")
        return out
    if not (isinstance(class_weight, str) and class_weight == "balanced"):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict; got {class_weight!r}."
        )
    totals = np.bincount(codes, weights, minlength=len(classes))
    return np.where(totals > 0, totals.sum() / (len(classes) * totals.clip(1e-300)), 1)


def check_samples(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None = None,
    reset: bool = True,
) -> Samples:
    """Validate the input of a fit; set ``classes_``; drop samples of weight zero.

    With `classes`, the call is one of a series (``partial_fit``): the batch may lack
    classes, but not bring new ones. `reset` is False after the first of them.
    """
    rows, labels = validate_data(
        estimator, X, y, dtype=[np.float64, np.float32], order="C", reset=reset
    )
    check_classification_targets(labels)
    found, codes = np.unique(labels, return_inverse=True)
    estimator.classes_ = found if classes is None else np.unique(classes)
    if len(estimator.classes_) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least two classes; "
            f"y holds one class, {estimator.classes_[0]!r}."
        )
    if classes is not None:
        new = ~np.isin(found, estimator.classes_)
        if new.any():
            raise ValueError(
                f"y holds labels that are not in classes: {found[new][:5]}."
            )
        codes = np.searchsorted(estimator.classes_, found)[codes]
    weights = _check_sample_weight(
        sample_weight, rows, dtype=np.float64, ensure_non_negative=True
    )
    factors = class_weights(estimator.class_weight, estimator.classes_, codes, weights)
    samples = Samples(rows, codes, weights * factors[codes], np.arange(len(rows)))
    return _drop_weightless(estimator, samples, classes is None)


def _drop_weightless(estimator: Any, samples: Samples, all_classes: bool) -> Samples:
    keep = samples.weights > 0
    if not keep.any():
        raise ValueError("sample_weight (times class_weight) is zero for every sample.")
    if all_classes:
        totals = np.bincount(samples.codes, samples.weights)
        if np.any(totals == 0):
            raise ValueError(
                "sample_weight (times class_weight) is zero for every sample of the "
                f"class {estimator.classes_[totals == 0][0]!r}; give one of them a "
                "positive weight or leave the class out."
            )
    return samples if keep.all() else samples.take(np.flatnonzero(keep))


def merge_duplicates(samples: Samples) -> Samples:
    """Bring the samples into the canonical form of the module's docstring."""
    X, codes = samples.X, samples.codes
    direction = np.random.RandomState(0).uniform(1, 2, size=(X.shape[1],))
    direction = direction.astype(X.dtype)
    # Not a product: BLAS may round equal rows differently, depending on where they are.
    key = np.concatenate(
        [(X[s] * direction).sum(axis=1) for s in batched_slices(len(X), 64)]
    )
    order = np.lexsort((key, codes))
    X, codes, weights, rows = samples.take(order)
    key = key[order]
    same = (codes[1:] == codes[:-1]) & (key[1:] == key[:-1])
    at = np.flatnonzero(same)
    same[at] = np.all(X[at + 1] == X[at], axis=1)
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    totals = np.add.reduceat(weights, starts)
    return Samples(X[starts], codes[starts], totals, rows[starts])


def split_validation(
    samples: Samples, fraction: float, rng: np.random.RandomState
) -> tuple[Samples, Samples]:
    """Set aside `fraction` of every class that can spare it."""
    held = np.zeros(len(samples.codes), dtype=bool)
    shuffled = rng.permutation(len(held))
    shuffled = shuffled[np.argsort(samples.codes[shuffled], kind="stable")]
    _, starts = np.unique(samples.codes[shuffled], return_index=True)
    for rows in np.split(shuffled, starts[1:]):
        held[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
    if not held.any():
        raise ValueError(
            f"validation_fraction={fraction} leaves no validation sample; "
            "raise it or set early_stopping=False."
        )
    return samples.take(np.flatnonzero(~held)), samples.take(np.flatnonzero(held))
