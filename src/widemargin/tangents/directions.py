"""Generators whose directions have names, most of them linear in the sample.

A linear direction k has a matrix L_k with tangent L_k x (images: of x less its
background). Gradients of distances need its transpose, so both are public: `apply`
and `adjoint`, as functions, since the matrices themselves would be d × d.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.checks import check_option
from widemargin.tangents.base import TangentGenerator
from widemargin.tangents.checks import check_samples


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
        return self._linear(name, check_samples(X), transpose=False)

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
        return self._linear(name, check_samples(Z, "Z"), transpose=True)

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

    def _check_linear(self, name: str) -> None:
        check_option("name", name, self._known)
        if name in self._not_linear:
            linear = [other for other in self._known if other not in self._not_linear]
            raise ValueError(
                f"{name!r} has no linear map because its tangent "
                f"{self._not_linear[name]}; the linear directions are "
                f"{', '.join(map(repr, linear))}."
            )


def check_sigma(sigma: float | str, auto: float) -> float:
    """Return the standard deviation to smooth with, `auto` for "auto"."""
    if isinstance(sigma, str) and sigma == "auto":
        return auto
    if not isinstance(sigma, Real) or not np.isfinite(sigma) or sigma < 0:
        raise ValueError(f"sigma must be 'auto' or a number >= 0; got {sigma!r}.")
    return float(sigma)
