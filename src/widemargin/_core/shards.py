"""Samples in parts: functions go to where the parts are, and sums come back.

A fit that is made of sums needs the samples nowhere in one place. It asks
``parts.sum(function, *parameters)`` for the sum over all parts of a pure function of
(part, parameters): `OnePart` has that of a fit in this process, `Shards` those of a
Dask collection, each held by some worker. ``parts.map`` makes other parts of them,
which stay where they are; what a function returns is all that travels, as NumPy's
arrays. A worker that is lost takes its parts with it: Dask makes them again from where
they came from.

What is chosen and not summed, such as where prototypes start, is chosen on some of the
samples (`SampleShards.some`): on all of them, in their order, where they are `MANY` or
fewer. These are the samples of the fit, `DrawnSamples`, and know how to ask all others:
`widemargin._core.samples.Samples.parts` is the one place where the two ways part.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from widemargin._core import lazy
from widemargin._core.arrays import is_tensor, on_device, to_numpy
from widemargin._core.checks import check_class_weight, check_size, validate_data
from widemargin._core.samples import (
    Samples,
    check_classes,
    check_orderable,
    check_samples,
    class_factors,
)

# Samples that are brought together to choose what is not summed.
MANY = 10_000
# Sums that one task adds up.
GROUP = 16


class Shards:
    """Parts of a Dask collection, held by the workers.

    A part `zip_with`, of the same collection, comes after the parameters; where there
    are `own` parameters of each part, these do.
    """

    # The part of this process: there is none.
    here = None

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)

    def _ask(
        self,
        function: Callable,
        parameters: tuple,
        per_part: Sequence | None,
        zip_with: "Shards | None" = None,
        kept: Callable | None = None,
    ) -> list:
        from dask import delayed

        shared = lazy.as_graph_node((kept, function, parameters), "parameters")
        owns: Any = [()] * len(self.parts) if per_part is None else per_part
        if zip_with is not None:
            owns = [(part,) for part in zip_with.parts]
        ask = delayed(_asked, traverse=False)
        return [
            ask(shared, part, *one, dask_key_name=_key(function))
            for part, one in zip(self.parts, owns, strict=True)
        ]

    def map(
        self,
        function: Callable,
        *parameters: Any,
        per_part: Sequence | None = None,
        zip_with: Any = None,
    ) -> "Shards":
        """Return other parts, each made of one: they stay where they are."""
        import dask

        asked = self._ask(function, parameters, per_part, zip_with, lazy.Part)
        return Shards(dask.persist(*asked))

    def each(
        self, function: Callable, *parameters: Any, per_part: Sequence | None = None
    ) -> list:
        """Return what the function makes of each part, here: let it be small."""
        import dask

        return list(dask.compute(*self._ask(function, parameters, per_part)))

    def sum(self, function: Callable, *parameters: Any, zip_with: Any = None) -> Any:
        """Return the sum of what the function makes of the parts, in their order."""
        import dask

        return dask.compute(_total(self._ask(function, parameters, None, zip_with)))[0]

    def step(
        self, function: Callable, *parameters: Any, zip_with: Any = None
    ) -> tuple["Shards", Any]:
        """Return both other parts and a sum, of a function that makes both."""
        import dask
        from dask import delayed

        term = delayed(_term, traverse=False)
        asked = self._ask(function, parameters, None, zip_with, _both)
        terms = [term(part, dask_key_name=_key(_term)) for part in asked]
        *parts, total = dask.persist(*asked, _total(terms))
        return Shards(parts), dask.compute(total)[0]


def _total(terms: list) -> Any:
    """Return the sum of terms, some of them after the other."""
    from dask import delayed

    add = delayed(added, traverse=False)
    while len(terms) > 1:
        terms = [
            add(terms[i : i + GROUP], dask_key_name=_key(added))
            for i in range(0, len(terms), GROUP)
        ]
    return terms[0]


def _term(part: lazy.Part) -> Any:
    return part.term


def _key(function: Callable) -> str:
    from uuid import uuid4

    return f"{getattr(function, '__name__', 'part')}-{uuid4().hex}"


def _asked(shared: tuple[Callable | None, Callable, tuple], *parts: Any) -> Any:
    kept, function, parameters = shared
    part, *own = (one.value if isinstance(one, lazy.Part) else one for one in parts)
    found = function(part, *parameters, *own)
    return sent(found) if kept is None else kept(found)


def _both(found: tuple) -> lazy.Part:
    part, term = found
    return lazy.Part(part, sent(term))


def sent(found: Any) -> Any:
    """Return a structure of numbers and arrays as it travels: with NumPy's arrays."""
    if isinstance(found, dict):
        return {key: sent(value) for key, value in found.items()}
    if isinstance(found, tuple):
        parts = map(sent, found)
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)
    return to_numpy(found)


def added(terms: Sequence[Any]) -> Any:
    """Return the sum of equal structures of numbers and arrays; None adds nothing.

    >>> added([(1, {"a": 2.0}), None, (3, {"a": 4.0})])
    (4, {'a': 6.0})
    """
    terms = [term for term in terms if term is not None]
    if not terms:
        return None
    first = terms[0]
    if isinstance(first, dict):
        return {key: added([term[key] for term in terms]) for key in first}
    if isinstance(first, tuple):
        parts = [added(column) for column in zip(*terms, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    total = first
    for term in terms[1:]:
        total = total + term
    return total


class Summary(NamedTuple):
    """What is known of a part without looking at its rows again."""

    n_rows: int
    n_given: int
    classes: NDArray
    counts: NDArray
    totals: NDArray
    heaviest: NDArray
    dtype: Any
    limits: NDArray


@dataclass(eq=False)
class SampleShards(Shards):
    """Checked samples of a Dask collection, and what is known of them all.

    `counts` are the samples of positive weight by (part, class), `totals` what those of
    each class weigh; `limits` are the smallest and the largest value of every feature,
    `heaviest` is the largest weight.
    """

    parts: list
    classes: NDArray
    counts: NDArray
    limits: NDArray
    heaviest: float
    totals: NDArray

    @property
    def n_rows(self) -> int:
        """How many samples of positive weight there are."""
        return int(self.counts.sum())

    def taken(self, function: Callable, *parameters: Any) -> "SampleShards":
        """Return those samples of every part that a function takes of it."""
        some = self.map(function, *parameters)
        counts, totals = zip(*some.each(_counted), strict=True)
        return replace(
            self,
            parts=some.parts,
            counts=np.stack(counts),
            totals=np.sum(totals, axis=0),
        )

    def divided(self, scale: NDArray) -> "SampleShards":
        """Return the samples with features divided by their scale."""
        parts = self.map(Samples.divided, scale).parts
        return replace(self, parts=parts, limits=self.limits / scale)

    def drawn(self, change: Callable[[Samples], Samples]) -> "DrawnSamples":
        """Return some samples, changed, that know all others."""
        some = change(self.subsample())
        given = {field.name: getattr(some, field.name) for field in fields(some)}
        return DrawnSamples(**given, of=self)

    def subsample(self, many: int | None = None) -> Samples:
        """Return `many` samples that stand for all: weights of a class sum to its own.

        No weight is that of the sample, but where these are all samples.
        """
        few = self.few(MANY if many is None else many)
        if len(few) == self.n_rows:
            return few
        drawn = np.bincount(few.codes, few.weights, minlength=len(self.totals))
        return replace(few, weights=few.weights * (self.totals / drawn)[few.codes])

    def few(self, many: int) -> Samples:
        """Return `many` samples, of each class its share but not too few; or all."""
        if self.n_rows <= many:
            return joined(self.each(_as_it_is))
        per_class = self.counts.sum(axis=0)
        fair = np.ceil(many * per_class / per_class.sum())
        least = many // (10 * len(per_class))
        wanted = np.minimum(per_class, np.maximum(fair, least))
        quotas = np.ceil(wanted * self.counts / per_class).astype(int)
        return joined(self.each(_drawn, per_part=[(quota,) for quota in quotas]))


@dataclass(frozen=True)
class DrawnSamples(Samples):
    """Some samples of a Dask collection, on which is chosen what is not summed."""

    of: Any = None

    @property
    def n_rows(self) -> int:
        return self.of.n_rows

    @property
    def share(self) -> float:
        return len(self if self.inverse is None else self.inverse) / self.n_rows

    @property
    def limits(self) -> Any:
        return self.of.limits

    @property
    def mass(self) -> float:
        return float(self.of.totals.sum())

    def divided(self, scale: Any) -> Samples:
        some: Any = super().divided(scale)
        return replace(some, of=self.of.divided(scale))

    def parts(self, here: Any, make: Callable | None = None, *given: Any) -> Shards:
        return self.of if make is None else self.of.map(make, *given)


def _counted(samples: Samples) -> tuple[NDArray, NDArray]:
    codes, k = samples.codes, len(samples.classes)
    return np.bincount(codes, minlength=k), np.bincount(codes, samples.weights, k)


def _as_it_is(samples: Samples) -> Samples:
    return replace(samples, X=to_numpy(samples.X))


def _drawn(samples: Samples, quota: NDArray) -> Samples:
    """Return so many samples of each class."""
    order = np.random.RandomState(samples.seed()).permutation(len(samples))
    order = order[np.argsort(samples.codes[order], kind="stable")]
    codes = samples.codes[order]
    rank = np.arange(len(codes)) - np.searchsorted(codes, codes)
    return _as_it_is(samples.take(np.sort(order[rank < quota[codes]])))


def joined(given: Iterable[Samples | None]) -> Samples:
    """Return the samples of all parts that there are in one place."""
    parts = [part for part in given if part is not None]
    return Samples(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.weights for part in parts]),
        parts[0].classes,
        np.concatenate([part.rows for part in parts]),
    )


def check_shards(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, stay: bool = False
) -> SampleShards:
    """Validate the input of a fit where it is: `check_samples` for Dask collections."""
    X = lazy.check_blocks(X)
    # A row of this kind says how many features there are, and their names.
    validate_data(estimator, lazy.first_rows(X), whole=False)
    columns = [lazy.cut_alike(y, X, "y")]
    if sample_weight is not None:
        columns.append(lazy.cut_alike(sample_weight, X, "sample_weight"))
    others = [column.to_delayed().ravel() for column in columns]
    # What classes weigh is known when all are seen.
    light, class_weight = (
        lazy.without_callbacks(clone(estimator)),
        estimator.class_weight,
    )
    light.class_weight = None
    blocks = lazy.blocks_of(X)
    beside = list(zip(range(len(blocks)), *others, strict=True))
    shards = Shards(blocks).map(_checked, light, stay, per_part=beside)
    found = shards.each(_summary)
    starts = np.cumsum([0, *(one.n_given for one in found)])
    full = [i for i, one in enumerate(found) if one.n_rows]
    if not full:
        raise ValueError(
            "X must hold at least one sample of positive weight; got "
            f"{int(starts[-1])} samples, none of which has one."
        )
    labels = [found[i].classes for i in full]
    if len({one.dtype.kind in "SU" for one in labels}) > 1:
        # NumPy would turn numbers into strings, and 1 is not "1".
        labels = [one.astype(object) for one in labels]
    classes = np.unique(check_orderable(np.concatenate(labels)))
    check_classes(estimator, classes)
    check_class_weight(class_weight, classes)
    counts, totals, heaviest = np.zeros((3, len(full), len(classes)))
    for at, i in enumerate(full):
        own = np.searchsorted(classes, found[i].classes)
        counts[at, own], totals[at, own] = found[i].counts, found[i].totals
        heaviest[at, own] = found[i].heaviest
    factors = class_factors(class_weight, classes, totals.sum(axis=0))
    dtype = np.result_type(*(found[i].dtype for i in full))
    recoded = Shards([shards.parts[i] for i in full]).map(
        _recoded, classes, factors, dtype, per_part=[(int(starts[i]),) for i in full]
    )
    limits = np.stack([found[i].limits for i in full]).astype(dtype)
    check_size(limits, whole=True)
    return SampleShards(
        recoded.parts,
        classes,
        counts.astype(int),
        np.stack([limits[:, 0].min(axis=0), limits[:, 1].max(axis=0)]),
        float((heaviest * factors).max()),
        totals.sum(axis=0) * factors,
    )


def _checked(
    X: Any, estimator: Any, stay: bool, number: int, y: Any, weights: Any = None
) -> tuple[int, Samples | None]:
    """Return how many rows there are, and those of positive weight."""
    n = X.shape[0]
    if n == 0 or (weights is not None and not np.any(weights)):
        return n, None
    if is_tensor(X) and not on_device(X):
        X = to_numpy(X)
    with lazy.naming_block(number):
        samples = check_samples(
            estimator, X, to_numpy(y), weights, stay=stay, whole=False
        )
    return n, samples


def _summary(given: tuple[int, Samples | None]) -> Summary:
    n, samples = given
    if samples is None:
        none, nothing = np.empty(0), np.empty((2, 0))
        return Summary(0, n, none, none, none, none, np.float32, nothing)
    codes, k = samples.codes, len(samples.classes)
    X, heaviest = to_numpy(samples.X), np.zeros(k)
    np.maximum.at(heaviest, codes, samples.weights)
    return Summary(
        len(samples),
        n,
        samples.classes,
        np.bincount(codes, minlength=k),
        np.bincount(codes, samples.weights, minlength=k),
        heaviest,
        X.dtype,
        np.stack([X.min(axis=0), X.max(axis=0)]),
    )


def _recoded(
    given: tuple[int, Samples], classes: NDArray, factors: NDArray, dtype: Any, at: int
) -> Samples:
    """Return a part that knows the classes of all, and where it stood among them."""
    samples = given[1]
    codes = np.searchsorted(classes, samples.classes)[samples.codes]
    X = samples.X if is_tensor(samples.X) else samples.X.astype(dtype, copy=False)
    weights = samples.weights * factors[codes]
    return replace(
        samples, X=X, codes=codes, weights=weights, classes=classes,
        rows=samples.rows + at,
    )  # fmt: skip
