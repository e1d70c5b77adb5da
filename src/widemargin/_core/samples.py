"""What a fit works on: checked samples, class codes, and weights that really act.

A weight of zero removes the sample. Learners that take the whole set at once may bring
it into a canonical form (`merge_duplicates`): equal rows with equal labels become one
row that carries the sum of the weights, in an order that depends on the values alone.
What they do afterwards, random choices included, then cannot tell a sample of weight 2
from a sample given twice. Shapes: X (n, d), the rest (n,).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _num_samples

from widemargin._core.arrays import (
    beside,
    device_of,
    to_numpy,
    xp_of,
)
from widemargin._core.checks import (
    FLOATS,
    check_class_weight,
    check_size,
    format_labels,
    is_hushed,
    is_plain,
    validate_data,
)
from widemargin._core.decisions import as_labels, class_codes
from widemargin._core.duplicates import duplicate_groups, observation_groups

# Between these, sums of weights times fourth powers of samples are numbers.
SMALL, LARGE = 1e-50, 1e50


class OnePart:
    """One part that is in this process; `widemargin._core.shards.Shards` has many."""

    def __init__(self, here: Any) -> None:
        self.here = here

    def map(
        self, function: Callable, *parameters: Any, zip_with: Any = None
    ) -> "OnePart":
        """Return another part made of this one."""
        return OnePart(self.sum(function, *parameters, zip_with=zip_with))

    def sum(self, function: Callable, *parameters: Any, zip_with: Any = None) -> Any:
        """Return what the function makes of the part (and of the one of `zip_with`)."""
        others = () if zip_with is None else (zip_with.here,)
        return function(self.here, *parameters, *others)

    def step(
        self, function: Callable, *parameters: Any, zip_with: Any = None
    ) -> tuple["OnePart", Any]:
        """Return both another part and a sum, of a function that makes both."""
        part, term = self.sum(function, *parameters, zip_with=zip_with)
        return OnePart(part), term


@dataclass(frozen=True)
class Samples:
    """Rows of X with the position of their class in `classes` and a positive weight.

    `rows` tells where they stood in the data that came in; after `merge_duplicates`,
    where the first of each group stood, and `inverse` which group each of the samples
    merged went into. `device` is where they came from, and what is heavy is done.
    """

    X: Any
    codes: NDArray
    weights: NDArray
    classes: NDArray
    rows: NDArray
    inverse: NDArray | None = None
    device: Any = None

    def __len__(self) -> int:
        return self.X.shape[0]

    @property
    def n_rows(self) -> int:
        """How many there are, those that are elsewhere included."""
        return len(self)

    @property
    def share(self) -> float:
        """Which part of all samples these are: 1 where none are elsewhere."""
        return 1.0

    @property
    def mass(self) -> float:
        """Sum of the weights, of those that are elsewhere, too."""
        return float(self.weights.sum())

    @property
    def mean_weight(self) -> float:
        """Mean weight of a sample."""
        return self.mass / self.n_rows

    def divided(self, scale: Any) -> "Samples":
        """Return the samples with features divided by their scale."""
        return replace(self, X=self.X / beside(self.X, scale))

    def parts(self, here: Any, make: Callable | None = None, *given: Any) -> Any:
        """Return what a learner sums over: the one part `here`, made of these samples.

        Where these were drawn from the blocks of a cluster, each block is a part, as
        ``make(block, *given)`` makes it there.
        """
        return OnePart(here)

    def seed(self, seed: int = 0) -> int:
        """Return a seed that other parts of all samples do not have."""
        return (seed + int(self.rows[0])) % 2**32 if len(self) else seed

    @property
    def labels(self) -> NDArray:
        """The labels in the user's terms."""
        return self.classes[self.codes]

    @cached_property
    def limits(self) -> Any:
        """(2, d) smallest and largest value of every feature."""
        if not len(self):
            return np.zeros((2, self.X.shape[1]))
        xp = xp_of(self.X)
        return xp.stack([xp.min(self.X, axis=0), xp.max(self.X, axis=0)])

    @cached_property
    def observations(self) -> NDArray | None:
        """Numbers of equal samples, None without any; see `observation_groups`."""
        return observation_groups(to_numpy(self.X), self.codes)

    def with_own_columns(self) -> "Samples":
        """Return the samples of a square matrix with no columns of other samples.

        Kernel values or distances to samples of weight zero must decide nothing.
        """
        if len(self) == self.X.shape[1]:
            return self
        return replace(self, X=self.X[:, self.rows])

    def take(self, rows: NDArray | slice) -> "Samples":
        """Return the samples of `rows`."""
        return Samples(
            self.X[rows],
            self.codes[rows],
            self.weights[rows],
            self.classes,
            self.rows[rows],
            device=self.device,
        )


def _accepted(estimator: Any) -> dict[str, Any]:
    """Options of `validate_data` that say which samples an estimator takes."""
    return {
        "dtype": FLOATS,
        "accept_sparse": "csr" if estimator._sparse else False,
        "accept_large_sparse": True,
        "ensure_all_finite": "allow-nan" if estimator._allow_nan else True,
    }


def check_X(estimator: Any, X: Any) -> Any:
    """Return samples to predict, as the fitted classifier expects them."""
    order = estimator._memory_order
    expected = getattr(estimator, "n_features_in_", -1)
    if "feature_names_in_" not in vars(estimator) and is_plain(X, expected):
        return X if order is None else np.ascontiguousarray(X)
    options = _accepted(estimator)
    rows = validate_data(estimator, X, order=order, reset=False, **options)
    return with_short_indices(rows)


def with_short_indices(X: Any) -> Any:
    """Return a CSR matrix with indices of 32 bits where these do, as LIBSVM asks."""
    if not issparse(X) or {X.indices.dtype, X.indptr.dtype} == {np.dtype(np.int32)}:
        return X
    if max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    short = (part.astype(np.int32) for part in (X.indices, X.indptr))
    return type(X)((X.data, *short), shape=X.shape)


def check_rows(estimator: Any, X: Any, *, reset: bool = True, **options: Any) -> Any:
    """Return samples of floats, on a device if they are there."""
    return validate_data(estimator, X, dtype=FLOATS, reset=reset, **options)


def class_labels(y: Any, n_samples: int | None = None) -> NDArray:
    """Return labels that can be sorted into classes, one per sample."""
    labels = check_orderable(as_labels("y", y, n_samples))
    check_classification_targets(labels)
    return labels


def check_weights(sample_weight: Any, X: Any) -> NDArray:
    """Return one finite weight per sample, none negative, with a finite sum."""
    if sample_weight is None:
        return np.ones(_num_samples(X))
    given = np.asarray(sample_weight)
    if given.dtype.kind not in "buif":
        try:
            if np.iscomplexobj(given):
                raise TypeError
            sample_weight = given = given.astype(float)
        except (TypeError, ValueError):
            raise ValueError(
                "sample_weight must be numbers, one per sample; got an array of "
                f"{given.dtype}."
            ) from None
    if given.size > 0 and not given.any():
        raise ValueError(
            "sample_weight is zero for every sample; give one a weight above 0."
        )
    try:
        weights = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
    except ValueError as error:
        if "sample_weight" in str(error):
            raise
        raise ValueError(f"sample_weight cannot be used: {error}") from error
    largest = float(weights.max(initial=0.0))
    if largest and not SMALL <= largest <= LARGE:
        raise ValueError(
            f"sample_weight contains {largest:.2g}, with which sums of squares are no "
            "numbers; divide the weights by their mean."
        )
    return weights


def check_samples(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    classes: ArrayLike | None = None,
    reset: bool = True,
    stay: bool = False,
    whole: bool = True,
) -> Samples:
    """Validate the input of a fit and drop samples of weight zero.

    Weights are multiplied by those of the estimator's ``class_weight``, if it has one.

    Samples on a device come as NumPy arrays too, unless they may `stay` there. Those
    of one block are not the `whole` training set, and may be of one class.

    With `classes`, the call is one of a series (``partial_fit``): the batch may lack
    classes, but not bring new ones. `reset` is False after the first of them.
    """
    if reset and is_plain(X) and _are_plain_labels(y, len(X)):
        # What scikit-learn's checks would leave, in a tenth of their time.
        check_size(X, whole=whole)
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
        rows, labels = np.ascontiguousarray(X), y
    else:
        options = _accepted(estimator) | {"order": "C", "reset": reset}
        rows, labels = validate_data(estimator, X, y, whole=whole, **options)
    rows = with_short_indices(rows if stay else to_numpy(rows))
    labels = check_orderable(as_labels("y", labels, rows.shape[0]))
    # Integers and texts are classes; scikit-learn only warns where these are many.
    # Of a part with few of a class it would warn, which nobody can act on.
    surely = labels.dtype.kind in "biuU"
    if not surely and not is_hushed():
        check_classification_targets(labels)
    # Weights are few: they are NumPy's wherever the samples are.
    weights = check_weights(sample_weight, np.empty((rows.shape[0], 0)))
    kept = weights > 0
    at = np.arange(rows.shape[0])
    if not kept.all():
        rows, labels, weights, at = rows[kept], labels[kept], weights[kept], at[kept]
    if classes is None:
        known, codes = np.unique(labels, return_inverse=True)
    else:
        known = np.unique(check_orderable(np.asarray(classes), "classes"))
        codes = class_codes(labels, known, owner="classes does not name: they")
    if surely and 2 * len(known) > len(labels) and not is_hushed():
        check_classification_targets(labels)
    check_classes(estimator, known, 2 if whole else 1)
    class_weight = getattr(estimator, "class_weight", None)
    check_class_weight(class_weight, known)
    totals = np.bincount(codes, weights, minlength=len(known))
    factors = class_factors(class_weight, known, totals)
    weights = weights * factors[codes]
    if not np.isfinite(weights.sum()):
        raise ValueError(
            "sample_weight (times class_weight) sums to infinity; give smaller weights."
        )
    return Samples(rows, codes, weights, known, at, device=device_of(X))


def _are_plain_labels(y: Any, n_samples: int) -> bool:
    """Whether labels are an array that any check of them would return as it is."""
    return type(y) is np.ndarray and y.shape == (n_samples,) and y.dtype.kind in "biuU"


def check_orderable(labels: NDArray, name: str = "y") -> NDArray:
    """Return labels of one kind: those that can be sorted into classes."""
    if labels.dtype.kind == "O":
        try:
            np.unique(labels)
        except TypeError as error:
            kinds = sorted({type(label).__name__ for label in labels.ravel().tolist()})
            raise ValueError(
                f"{name} holds labels of kinds that have no common order, "
                f"{', '.join(kinds)}; let all be strings, or all numbers. "
                f"Unknown label type: {error}"
            ) from error
    return labels


def check_classes(owner: Any, classes: NDArray, least: int = 2) -> None:
    """Refuse fewer classes, of samples of positive weight, than can be told apart.

    An owner that models each class by itself may do with one, where `_one_class`.
    """
    if getattr(owner, "_one_class", False):
        least = 1
    if len(classes) < least:
        raise ValueError(
            f"y must hold at least {least} classes with samples of positive weight "
            f"for {type(owner).__name__}; it holds one class, {format_labels(classes)}."
        )


def class_factors(class_weight: Any, classes: NDArray, totals: NDArray) -> NDArray:
    """Return one factor per class; "balanced" gives every class the same total.

    `totals` are the weights of the classes so far.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        there = totals > 0
        mean = totals.sum() / max(1, np.count_nonzero(there))
        return np.where(there, mean / np.where(there, totals, 1), 1.0)
    return np.array([class_weight.get(label, 1.0) for label in classes.tolist()], float)


def merge_duplicates(samples: Samples) -> Samples:
    """Bring the samples into the canonical form of the module's docstring."""
    # Equal up to rounding: a projection may round the copies of a row differently.
    groups = duplicate_groups(samples.X, samples.codes)
    order = np.argsort(groups, kind="stable")
    ordered, starts = (
        samples.take(order),
        np.flatnonzero(np.diff(groups[order], prepend=-1)),
    )
    merged = ordered if len(starts) == len(order) else ordered.take(starts)
    totals = np.add.reduceat(ordered.weights, starts)
    merged = replace(merged, weights=totals, inverse=groups)
    # The same rows have the same limits.
    merged.__dict__["limits"] = samples.limits
    return merged


def distinct_rows(samples: Samples) -> tuple[NDArray, NDArray]:
    """Return the first of equal samples, in an order of values alone, and weights."""
    groups = duplicate_groups(samples.X, samples.codes)
    first = np.unique(groups, return_index=True)[1]
    return first, np.bincount(groups, samples.weights)


def batch_classes(classes: Any, known: NDArray | None) -> Any:
    """Return all labels there will be: said with the first batch, the same ever after.

    `known` are those of the batches before, None in the first call.
    """
    if known is None:
        if classes is None:
            raise ValueError("classes must be given in the first call of partial_fit.")
        return classes
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(
            f"classes={classes!r} is not what the first call of partial_fit said: "
            f"{known.tolist()}."
        )
    return known
