"""What every tangent model shares: its distances, its parameters, its refusals.

A fitted model has ``prototypes_`` (K, d), the centroids, and ``tangents_`` (K, m, d),
their orthonormal frames. One-sided, a sample is as far as its distance to the affine
space C_j + span(T_j); two-sided, it may move along its own tangents as well.
"""

from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_scalar

from widemargin._compute.memory import rows_in_budget
from widemargin._compute.pairs import pair_distances
from widemargin._compute.threads import batched_slices
from widemargin._core.checks import check_option
from widemargin.prototypes.base import PrototypeClassifier
from widemargin.tangents import Bundle, as_bundle

SIDES = ("one", "two")


def resolve_n_tangents(n_tangents: Any, n_features: int) -> int:
    """Return the number of tangents; "auto" is a twelfth of d, at most 20."""
    if isinstance(n_tangents, str) and n_tangents == "auto":
        return min(20, n_features // 12)
    if not isinstance(n_tangents, Integral) or isinstance(n_tangents, bool):
        raise ValueError(
            f"n_tangents must be an integer or 'auto'; got {n_tangents!r}."
        )
    number = int(n_tangents)
    if not 0 <= number < n_features:
        raise ValueError(
            f"n_tangents must be at least 0 and below the number of features, "
            f"{n_features}, or every sample would lie in every model; got {number}."
        )
    return number


def fit_input_tangents(sides: str, tangents: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """Check `tangents` against `sides`; return what bends inputs, fitted, or None."""
    check_option("sides", sides, SIDES)
    if sides == "one":
        if tangents is not None:
            raise ValueError(
                "tangents bends the inputs, which sides='one' keeps as they are: set "
                "sides='two', or tangents=None."
            )
        return None
    if tangents is None:
        raise ValueError(
            "sides='two' needs tangents of the inputs: pass tangents=, a generator "
            "such as ImageTangents(shape=(16, 16)), or an array (n_tangents, "
            "n_features) that all samples share."
        )
    if isinstance(tangents, BaseEstimator) and hasattr(tangents, "fit"):
        return clone(tangents).fit(X, y)
    if callable(getattr(tangents, "tangents", None)) or isinstance(tangents, type):
        return tangents
    array = np.asarray(tangents)
    if array.ndim == 3:
        raise ValueError(
            "tangents of single samples say nothing about new samples; pass a "
            "generator such as ImageTangents(shape=(16, 16)), or an array "
            f"(n_tangents, n_features); got an array of shape {array.shape}."
        )
    return array


def no_frames(X: np.ndarray) -> np.ndarray:
    """Frames of samples that do not bend."""
    return np.empty((len(X), 0, X.shape[1]), X.dtype)


class TangentModels(PrototypeClassifier):
    """Base of the classifiers whose references are affine spaces.

    Subclasses have the parameters ``sides``, ``n_models``, ``n_tangents``,
    ``tangents``, ``spring`` and ``n_jobs`` (or say otherwise below) and set
    ``prototypes_``, ``tangents_`` and ``input_tangents_``.
    """

    def _check_model_parameters(self) -> None:
        check_scalar(self.n_models, "n_models", Integral, min_val=1)
        check_option("sides", self.sides, SIDES)
        check_scalar(
            self.spring, "spring", Real, min_val=0, include_boundaries="neither"
        )
        if not np.isfinite(self.spring):
            raise ValueError(f"spring must be finite; got {self.spring}.")

    def _bundle(self, X: np.ndarray) -> Bundle:
        """Join samples with the frames along which they may move."""
        if self.input_tangents_ is None:
            return Bundle(X, no_frames(X))
        bundle = as_bundle(X, self.input_tangents_, n_jobs=self.n_jobs)
        return Bundle(X, bundle.frames.astype(X.dtype, copy=False))

    def _squared_distances(self, X: np.ndarray) -> np.ndarray:
        dtype = np.result_type(X, self.prototypes_)
        X = X.astype(dtype, copy=False)
        C = self.prototypes_.astype(dtype, copy=False)
        T = self.tangents_.astype(dtype, copy=False)
        if self.input_tangents_ is None:
            return pair_distances(
                X, no_frames(X), C, T, sides="y", spring=0.0, n_jobs=self.n_jobs
            )
        out = np.empty((len(X), len(C)), dtype)
        # Frames are many times the samples: they come and go by blocks.
        for rows in batched_slices(len(X), rows_in_budget(32 * 8 * X.shape[1])):
            bundle = self._bundle(X[rows])
            out[rows] = pair_distances(
                bundle.points,
                bundle.frames,
                C,
                T,
                sides="two",
                spring=float(self.spring),
                n_jobs=self.n_jobs,
            )
        return out

    def _lipschitz(self) -> float:
        if self.input_tangents_ is not None:
            raise ValueError(
                "certified_radius needs sides='one': a two-sided distance changes with "
                "the tangents of the sample, at no known rate."
            )
        return 1.0

    def margin_bound(self, X: Any, y: Any, *, theta: float, **options: Any) -> Any:
        """Refuse, unless the models are points: the theorem counts half-spaces.

        Parameters
        ----------
        X, y, theta, **options
            As in :meth:`LVQClassifier.margin_bound`.

        Returns
        -------
        bound
            Of the centroids, where the models have no tangents.
        """
        if self.tangents_.shape[1] or self.input_tangents_ is not None:
            _no_bound()
        return super().margin_bound(X, y, theta=theta, **options)


def _no_bound() -> NoReturn:
    raise ValueError(
        "margin_bound holds for prototypes that are points; models with tangents have "
        "quadratic boundaries, which its theorem does not count. Use n_tangents=0."
    )
