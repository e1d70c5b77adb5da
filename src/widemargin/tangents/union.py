"""Several generators as one: the tangents of all of them, one after the other."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from widemargin._core.arrays import inside, xp_of
from widemargin.tangents.generator import DEVICE_METHODS, TangentGenerator


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

    def __init__(
        self,
        generators: Sequence[TangentGenerator | tuple[str, TangentGenerator]],
    ):
        self.generators = generators

    @property
    def n_tangents(self) -> int:
        """Number of tangents of all parts."""
        return sum(part.n_tangents for part in self._parts())

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
        samples = self._check_fit(X)
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

    def _tangents_of(
        self, X: NDArray, y: ArrayLike | None
    ) -> Callable[[slice], NDArray]:
        parts = [inside(part) for part in self._parts()]
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
