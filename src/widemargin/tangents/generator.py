"""Tangent generators, and the parameter `tangents` that everything takes.

A generator says what may vary: ``tangents(X)`` returns, for every sample x, the
derivatives at p = 0 of l transformations t(x, p), as an array (n, l, d). Most named
directions are linear in the sample: a matrix L_k with tangent L_k x (images: of x less
its background). Gradients of distances need its transpose, so both are public: `apply`
and `adjoint`, as functions, since the matrices themselves would be d × d.

Below the classes is the one door through which everything accepts tangents: checked,
fitted, and applied to samples.

`TangentUnion` is several generators as one: the tangents of all of them, one after the
other.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from widemargin._core.arrays import (
    ArrayDispatchMixin,
    check_one_place,
    in_dtype,
    numpy_dtype,
    to_cpu,
    xp_of,
)
from widemargin._core.checks import (
    FLOATS,
    as_array,
    check_number,
    check_option,
    check_text,
    refuse_class,
    validate_data,
    warn_caller,
)
from widemargin._core.params import parameters
from widemargin._core.samples import check_rows
from widemargin.tangents.bundle import (
    Blocks,
    Bundle,
    as_samples,
    fill_blocks,
    fill_frames,
    like,
    same_numbers,
)

Generator = TypeVar("Generator", bound="TangentGenerator")
# What generators that work on tensors do there.
DEVICE_METHODS = ("fit", "tangents", "bundle", "apply", "adjoint")


class TangentGenerator(ArrayDispatchMixin, BaseEstimator, ABC):
    """Base class of tangent generators.

    A subclass has `n_tangents` (property or parameter), `is_affine` and the method
    ``_tangents_of(X, y)``, and gets validation, blocks and threads from here. Those
    that learn override :meth:`fit`; the others work without it.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import TangentGenerator
    >>> class Brightness(TangentGenerator):
    ...     n_tangents = 1
    ...     is_affine = True
    ...     def _tangents_of(self, X, y):
    ...         return lambda rows: np.ones_like(X[rows])[:, np.newaxis]
    >>> Brightness().tangents(np.zeros((2, 3)))
    array([[[1., 1., 1.]],
           [[1., 1., 1.]]])
    """

    n_tangents: Any

    @property
    @abstractmethod
    def is_affine(self) -> bool:
        """Whether ``tangents(X)`` is an affine function of X.

        Then the tangents at a midpoint are the mean of those at the ends.
        """

    @abstractmethod
    def _tangents_of(self, X: NDArray, y: ArrayLike | None) -> Blocks:
        """Prepare for validated samples; return the function rows -> raw tangents.

        Everything that depends on the parameters or on the samples as a whole is
        checked and computed here, once. The function returned is called with
        consecutive slices, perhaps from several threads, and must give every sample
        the same tangents whatever slice it is in.
        """

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Check the parameters against samples; there is nothing to learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored.

        Returns
        -------
        self : TangentGenerator
            The generator itself.
        """
        samples = check_rows(self, X)
        self._tangents_of(samples, None)
        self._look_at(samples)
        return self

    def _look_at(self, X: NDArray) -> None:
        """Warn of samples that the parameters are not made for."""

    def tangents(self, X: ArrayLike, y: ArrayLike | None = None) -> NDArray:
        """Tangents of every sample, as they come from the transformations.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Labels, for generators that use them.

        Returns
        -------
        tangents : ndarray of shape (n_samples, n_tangents, n_features)
            In the dtype of `X`, float64 for integers.
        """
        samples = self._check_samples(X)
        tangents_of = self._tangents_of(samples, y)
        out = like((len(samples), self.n_tangents, samples.shape[1]), samples)

        def fill(rows: slice) -> None:
            out[rows] = tangents_of(rows)

        fill_blocks(fill, out, None)
        return out

    def bundle(
        self, X: ArrayLike, y: ArrayLike | None = None, *, n_jobs: int | None = None
    ) -> Bundle:
        """Join samples with the orthonormal frames of their tangents.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Labels, for generators that use them.
        n_jobs : int, default=None
            Threads; None is one, -1 is one per core.

        Returns
        -------
        Bundle
            Beyond it, only a few blocks of samples are held in memory.
        """
        points = self._check_samples(X)
        tangents_of = self._tangents_of(points, y)
        frames = like((len(points), self.n_tangents, points.shape[1]), points)
        fill_frames(frames, tangents_of, n_jobs=n_jobs, name=type(self).__name__)
        return Bundle(points, frames)

    def less_one(self) -> list[Self]:
        """Return the generator without one of its directions, once for each.

        Returns
        -------
        list of TangentGenerator
            As it is fitted. None where there is one direction, or where all belong
            together, as those that were learned.
        """
        return []

    def _check_samples(self, X: ArrayLike) -> NDArray:
        if type(self).fit is not TangentGenerator.fit:
            # It learns. Others need no fit, and tags take as long as few tangents.
            check_is_fitted(self)
        if hasattr(X, "columns") and hasattr(self, "feature_names_in_"):
            return validate_data(self, X, dtype=FLOATS, reset=False)
        # Names are compared where both have them; a generator needs none.
        samples = as_samples(X)
        expected = getattr(self, "n_features_in_", samples.shape[1])
        if samples.shape[1] != expected:
            raise ValueError(
                f"X has {samples.shape[1]} features, but {type(self).__name__} is "
                f"expecting {expected} features as input."
            )
        return samples

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class DirectionalTangents(TangentGenerator):
    """Base class of generators with a parameter `directions`.

    A subclass lists the names it knows, says of those that are not linear why, and
    computes the linear ones in ``_linear``.
    """

    _known: ClassVar[Sequence[str]]
    _presets: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    _not_linear: ClassVar[Mapping[str, str]]

    directions: str | Sequence[str]

    @abstractmethod
    def _linear(self, name: str, vectors: NDArray, transpose: bool) -> NDArray:
        """Return L v, or the transpose of L times v, for every row v."""

    @property
    def linear_directions(self) -> tuple[str, ...]:
        """Directions in use that :meth:`apply` and :meth:`adjoint` know."""
        return tuple(name for name in self._names() if name not in self._not_linear)

    def apply(self, name: str, X: ArrayLike) -> NDArray:
        """Apply the linear map L of a direction.

        Parameters
        ----------
        name : str
            A direction that is linear in the sample.
        X : array-like of shape (n_samples, n_features)
            Samples, or any vectors of their length.

        Returns
        -------
        LX : ndarray of shape (n_samples, n_features)
            L x for every row x.
        """
        self._check_linear(name)
        return self._linear(name, as_samples(X), transpose=False)

    def adjoint(self, name: str, Z: ArrayLike) -> NDArray:
        """Apply the transpose of the linear map: ``<L u, v> = <u, adjoint(v)>``.

        Parameters
        ----------
        name : str
            A direction that is linear in the sample.
        Z : array-like of shape (n_samples, n_features)
            Vectors in the space of the tangents.

        Returns
        -------
        LtZ : ndarray of shape (n_samples, n_features)
            The transpose of L times z for every row z.
        """
        self._check_linear(name)
        return self._linear(name, as_samples(Z, "Z"), transpose=True)

    def _names(self) -> tuple[str, ...]:
        if isinstance(self.directions, str):
            if self.directions in self._presets:
                return self._presets[self.directions]
            options = (*self._presets, *self._known)
            return (check_option("directions", self.directions, options),)
        names = tuple(self.directions) if np.iterable(self.directions) else ()
        if not names:
            raise ValueError(
                "directions must be a name or a sequence of names out of "
                f"{', '.join(map(repr, self._known))}; got {self.directions!r}."
            )
        return tuple(check_option("directions", name, self._known) for name in names)

    def less_one(self) -> list[Self]:  # noqa: D102
        return less_one_name(self, self._names())

    def _check_linear(self, name: str) -> None:
        check_option("name", name, self._known)
        if name in self._not_linear:
            linear = [other for other in self._known if other not in self._not_linear]
            raise ValueError(
                f"{name!r} has no linear map because its tangent "
                f"{self._not_linear[name]}; the linear directions are "
                f"{', '.join(map(repr, linear))}."
            )


def check_sigma(sigma: float | str, auto: float, size: int) -> float:
    """Return the standard deviation to smooth with, `auto` for "auto".

    Over ten times the `size` of a sample nothing is left of it, but filters grow.
    """
    if isinstance(sigma, str) and sigma == "auto":
        return auto
    return check_number(
        "sigma", sigma, at_least=0, at_most=10 * size, otherwise="'auto' or "
    )


def as_bundle(
    X: ArrayLike,
    tangents: Any,
    y: ArrayLike | None = None,
    *,
    name: str = "tangents",
    n_jobs: int | None = None,
) -> Bundle:
    """Make a bundle of samples and whatever describes how they may vary.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The samples.
    tangents : generator, array-like, Bundle or None
        - a tangent generator such as :class:`ImageTangents`, or any object whose
          method ``tangents(X)`` returns (n_samples, n_tangents, n_features);
        - an array (n_samples, n_tangents, n_features), tangents of every sample;
        - an array (n_tangents, n_features), tangents that all samples share;
        - a :class:`Bundle`, whose frames are laid on `X` as they are;
        - None, no tangents.
    y : array-like of shape (n_samples,), default=None
        Labels, for generators that use them.
    name : str, default="tangents"
        What errors call `tangents`: the parameter of the caller.
    n_jobs : int, default=None
        Threads; None is one, -1 is one per core.

    Returns
    -------
    Bundle

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import ImageTangents, as_bundle
    >>> X = np.arange(32.0).reshape(2, 16)
    >>> as_bundle(X, ImageTangents(shape=(4, 4)))
    Bundle(n_samples=2, n_tangents=7, n_features=16)
    >>> as_bundle(X, np.ones((1, 16)))
    Bundle(n_samples=2, n_tangents=1, n_features=16)
    >>> as_bundle(X, None)
    Bundle(n_samples=2, n_tangents=0, n_features=16)
    """
    if isinstance(tangents, TangentGenerator):
        return tangents.bundle(X, y, n_jobs=n_jobs)
    points = as_samples(X)
    if not check_text("name", name):
        raise ValueError("name must be what errors call the tangents; got ''.")
    if tangents is None:
        return Bundle.bare(points)
    if isinstance(tangents, Bundle):
        if tangents.points.shape != points.shape:
            raise ValueError(
                f"{name} is a Bundle of points of shape {tangents.points.shape}, "
                f"which must be the shape of the samples, {points.shape}."
            )
        check_one_place(**{"X": points, name: tangents.points})
        if tangents.frames.dtype == points.dtype and (
            tangents.points is points or same_numbers(tangents.points, points)
        ):
            return tangents
        return Bundle(points, tangents.frames).astype(numpy_dtype(points))
    refuse_class(name, tangents)
    if callable(getattr(tangents, "tangents", None)):
        return _generated(points, tangents, name, n_jobs)
    if isinstance(tangents, str) or not hasattr(tangents, "__len__"):
        raise TypeError(
            f"{name} must be a tangent generator such as ImageTangents(shape=(16, 16)),"
            " an array (n_samples, n_tangents, n_features) or (n_tangents, n_features),"
            f" a Bundle or None; got {tangents!r}."
        )
    return Bundle.from_tangents(points, tangents, n_jobs=n_jobs, name=name)


def _generated(X: NDArray, generator: Any, name: str, n_jobs: int | None) -> Bundle:
    """Bundle of a generator that is not ours: only its method `tangents` is known."""

    def tangents_of(rows: slice) -> NDArray:
        raw = xp_of(X).asarray(generator.tangents(X[rows]), device=X.device)
        return raw if numpy_dtype(raw) in FLOATS else in_dtype(raw, np.float64)

    first = tangents_of(slice(0, 1))
    if first.ndim != 3:
        raise ValueError(
            f"{name}.tangents(X) must return (n_samples, n_tangents, n_features); "
            f"got shape {first.shape} for one sample."
        )
    frames = like((len(X), first.shape[1], X.shape[1]), X)
    return Bundle(X, fill_frames(frames, tangents_of, n_jobs=n_jobs, name=name))


def is_generator(tangents: Any) -> bool:
    """Whether `tangents` computes tangents of any sample: it has that method."""
    return not isinstance(tangents, type) and callable(
        getattr(tangents, "tangents", None)
    )


def check_tangents(tangents: Any) -> Any:
    """Return what can give any sample tangents: a generator, a shared array or None.

    Arrays come back as finite float arrays (n_tangents, n_features). Tangents of single
    samples are refused: a sample to predict would have none.
    """
    if tangents is None or is_generator(tangents):
        return tangents
    refuse_class("tangents", tangents)
    wanted = (
        "tangents must be a generator such as ImageTangents(shape=(16, 16)), an array "
        "(n_tangents, n_features) that all samples share, or None"
    )
    # A generator of Python is used up by one look: the next would find nothing.
    if isinstance(tangents, str | bytes) or not hasattr(tangents, "__len__"):
        raise TypeError(f"{wanted}; got {tangents!r}.")
    try:
        ndim = np.ndim(getattr(tangents, "frames", tangents))
    except ValueError:
        raise ValueError(f"{wanted}; got rows of different lengths.") from None
    if ndim != 2:
        raise ValueError(
            f"{wanted}, so that samples to predict have tangents too; got {ndim} "
            f"ax{'i' if ndim == 1 else 'e'}s."
        )
    return as_array("tangents", tangents)


def tangents_meant(tangents: Any, owner: str) -> Any:
    """Return the tangents of an estimator; None for a plain one.

    None warns, as the result is an ordinary classifier. "none" is None without a
    warning.
    """
    if isinstance(tangents, str) and tangents == "none":
        return None
    if tangents is None:
        warn_caller(
            f"{owner} was given no tangents, so its distances are plain Euclidean. "
            "Give tangents, for instance ImageTangents(shape=(16, 16)), or "
            "tangents='none' for the Euclidean distance without this warning."
        )
    return tangents


def fit_tangents(tangents: Any, X: ArrayLike, y: ArrayLike | None = None) -> Any:
    """Return what :func:`as_bundle` can later apply to samples not seen yet.

    Generators are cloned and fitted; what all samples share stays as it is.
    """
    tangents = check_tangents(tangents)
    if isinstance(tangents, BaseEstimator) and hasattr(tangents, "fit"):
        return clone(tangents).fit(X, y)
    n_features = np.shape(X)[1]
    if isinstance(tangents, np.ndarray) and tangents.shape[1] != n_features:
        raise ValueError(
            f"tangents has {tangents.shape[1]} features but the samples have "
            f"{n_features}."
        )
    return tangents


def less_one(tangents: Any) -> list[Any]:
    """Return what may vary without one of its directions, once for each.

    None where that would leave nothing, or where directions cannot be parted.
    """
    if isinstance(tangents, np.ndarray):
        return [np.delete(tangents, k, axis=0) for k in parted(tangents)]
    return tangents.less_one() if isinstance(tangents, TangentGenerator) else []


def parted(directions: Sequence | NDArray) -> range:
    """Return the places of directions that can go: none where there is one."""
    return range(len(directions) if len(directions) > 1 else 0)


def changed(generator: Generator, **attributes: Any) -> Generator:
    """Return a copy with other attributes, as it is fitted."""
    other: Any = copy(generator)
    vars(other).update(attributes)
    return other


def less_one_name(generator: Generator, names: tuple[str, ...]) -> list[Generator]:
    """Return generators whose `directions` are all `names` but one."""
    return [
        changed(generator, directions=names[:k] + names[k + 1 :]) for k in parted(names)
    ]


def raw_tangents(tangents: Any, X: NDArray, y: NDArray | None = None) -> NDArray:
    """Tangents (n, l, d) of samples as they are, with their lengths.

    From a fitted generator or a shared array; steps along them mean something.
    """
    if isinstance(tangents, np.ndarray):
        shared = tangents.astype(X.dtype, copy=False)
        return np.broadcast_to(shared, (len(X), *shared.shape))
    if isinstance(tangents, TangentGenerator):
        raw = tangents.tangents(X, y)
    else:
        raw = np.asarray(tangents.tangents(X))
    expected = len(X), X.shape[1]
    if raw.ndim != 3 or (raw.shape[0], raw.shape[2]) != expected:
        raise ValueError(
            "tangents.tangents(X) must return (n_samples, n_tangents, n_features); got "
            f"shape {raw.shape} for {len(X)} samples of {X.shape[1]} features."
        )
    return as_array("tangents", raw)


@parameters
class TangentUnion(TangentGenerator):
    """Tangents of several generators together.

    Parameters
    ----------
    generators : sequence of generators or of pairs (name, generator)
        Without names they are called by their classes in lower case, numbered where a
        class comes twice: "imagetangents", "learnedtangents-1", "learnedtangents-2".
        Parameters of the parts are set as ``set_params(imagetangents__sigma=1.0)``.

    Attributes
    ----------
    generators_ : list of generators
        Fitted clones of the parts. Without `fit` the parts are used as they are,
        which suffices unless one of them learns.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import ImageTangents, LearnedTangents, TangentUnion
    >>> X = np.random.default_rng(0).random((20, 64))
    >>> union = TangentUnion([ImageTangents((8, 8)), LearnedTangents(n_tangents=3)])
    >>> union.fit(X).tangents(X).shape
    (20, 10, 64)
    >>> union.set_params(imagetangents__directions="rotation").fit(X).n_tangents
    4
    """

    device_methods = DEVICE_METHODS

    generators: Sequence[TangentGenerator | tuple[str, TangentGenerator]]

    @property
    def n_tangents(self) -> int:
        """Number of tangents of all parts."""
        return sum(part.n_tangents for part in self._parts())

    @property
    def shape(self) -> Any:
        """Shape of the images that a part makes tangents of; None if none does."""
        return next(
            filter(None, (getattr(p, "shape", None) for p in self._parts())), None
        )

    @property
    def is_affine(self) -> bool:
        """Whether the tangents of every part are affine."""
        return all(part.is_affine for part in self._parts())

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fit a clone of every part.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Labels, for parts that use them.

        Returns
        -------
        self : TangentUnion
            The fitted union.
        """
        named = self._named_parts()
        samples = check_rows(self, X)
        self.generators_ = [clone(part).fit(samples, y) for _, part in named]
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, of the parts too if `deep`.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parts by name and their parameters.

        Returns
        -------
        params : dict
            Values by name.
        """
        params = super().get_params(deep=False)
        if deep:
            for name, part in self._named_parts():
                params[name] = part
                for key, value in part.get_params(deep=True).items():
                    params[f"{name}__{key}"] = value
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters: `generators`, a part by its name, or one of a part.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        self : TangentUnion
            The union itself.
        """
        if "generators" in params:
            self.generators = params.pop("generators")
        names = [name for name, _ in self._named_parts()]
        if any(name in params for name in names):
            self.generators = [
                self._with_part(given, params.pop(name, None))
                for name, given in zip(names, self.generators, strict=True)
            ]
        return super().set_params(**params)

    @staticmethod
    def _with_part(given: Any, part: TangentGenerator | None) -> Any:
        if part is None:
            return given
        return part if isinstance(given, TangentGenerator) else (given[0], part)

    def _parts(self) -> list[TangentGenerator]:
        if hasattr(self, "generators_"):
            return self.generators_
        return [part for _, part in self._named_parts()]

    def less_one(self) -> list[Self]:  # noqa: D102
        parts, found = self._parts(), []
        for k, part in enumerate(parts):
            rest = [[fewer] for fewer in part.less_one()]
            # One that cannot be parted goes as a whole.
            for own in rest or [[]] * (len(parts) > 1):
                left = [*parts[:k], *own, *parts[k + 1 :]]
                found.append(changed(self, generators=left, generators_=left))
        return found

    def _named_parts(self) -> list[tuple[str, TangentGenerator]]:
        given = self.generators
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise TypeError(
                "generators must be a sequence of tangent generators or of pairs "
                f"(name, generator); got {given!r}."
            )
        parts = [part for part in given if isinstance(part, TangentGenerator)]
        if len(parts) == len(given):
            return _name_by_class(parts)
        named: list[tuple[str, TangentGenerator]] = []
        for i, pair in enumerate(given):
            if not (
                isinstance(pair, Sequence)
                and len(pair) == 2
                and isinstance(pair[0], str)
                and isinstance(pair[1], TangentGenerator)
            ):
                raise TypeError(
                    f"generators[{i}] must be a pair (name, generator), or all must be "
                    f"generators without names; got {pair!r}."
                )
            named.append((pair[0], pair[1]))
        for name, count in Counter(name for name, _ in named).items():
            if count > 1 or name == "generators" or "__" in name:
                raise ValueError(
                    f"generators has the name {name!r}; names must differ from each "
                    "other and from 'generators' and hold no '__'."
                )
        return named

    def _tangents_of(self, X: NDArray, y: ArrayLike | None) -> Blocks:
        parts = [to_cpu(part) for part in self._parts()]
        functions = [part._tangents_of(part._check_samples(X), y) for part in parts]
        return lambda rows: xp_of(X).concatenate([f(rows) for f in functions], 1)


def _name_by_class(
    parts: Sequence[TangentGenerator],
) -> list[tuple[str, TangentGenerator]]:
    names = [type(part).__name__.lower() for part in parts]
    totals, seen = Counter(names), Counter[str]()
    named = []
    for name, part in zip(names, parts, strict=True):
        seen[name] += 1
        number = f"-{seen[name]}" if totals[name] > 1 else ""
        named.append((name + number, part))
    return named
