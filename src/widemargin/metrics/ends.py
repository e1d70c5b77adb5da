"""The two ends of a tangent distance: validated points and the frames they carry."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_scalar

from widemargin._core.checks import check_option
from widemargin.metrics.blanks import warn_of_blanks
from widemargin.tangents import Bundle, as_bundle

SIDES = ("x", "y", "two", "mean", "midpoint")
DEFAULT_SPRING = 1e-5


@dataclass(frozen=True)
class Ends:
    """Both ends as bundles of one dtype; an end that stays put has no tangents."""

    x: Bundle
    y: Bundle
    symmetric: bool


def check_sides(sides: Any, spring: Any, allowed: tuple[str, ...] = SIDES) -> None:
    """Validate the two parameters every tangent distance has."""
    check_option("sides", sides, allowed)
    check_scalar(spring, "spring", (int, float, np.integer, np.floating), min_val=0.0)
    if not np.isfinite(spring):
        raise ValueError(
            f"spring must be finite; got {spring}. An infinitely stiff spring is the "
            "Euclidean distance: use sklearn.metrics.pairwise.euclidean_distances."
        )


def check_points(X: Any, name: str) -> np.ndarray:
    """Return `X` as a C-contiguous float array, float32 kept; a Bundle's points."""
    if isinstance(X, Bundle):
        return X.points
    return check_array(X, dtype=[np.float64, np.float32], order="C", input_name=name)


def check_pair(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points of both ends in one dtype; `Y` None means `X`."""
    x = check_points(X, "X")
    y = x if Y is None else check_points(Y, "Y")
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"X has {x.shape[1]} features and Y has {y.shape[1]}: both must have the "
            "same number."
        )
    dtype = np.result_type(x, y)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


def check_ends(
    X: Any,
    Y: Any,
    X_tangents: Any,
    Y_tangents: Any,
    tangents: Any,
    sides: str,
    n_jobs: int | None,
) -> Ends:
    """Build the bundles that `sides` asks for, or say which tangents are missing."""
    x, y = check_pair(X, Y)
    symmetric = Y is None and Y_tangents is None
    x_end, y_end = _without_tangents(x), _without_tangents(y)
    if sides in ("x", "two", "mean"):
        x_end = _carrier(X, x, X_tangents, tangents, "X", sides, n_jobs)
    if sides in ("two", "mean") and symmetric:
        y_end = x_end
    elif sides in ("y", "two", "mean"):
        source = X if Y is None else Y
        given = X_tangents if symmetric else Y_tangents
        y_end = _carrier(source, y, given, tangents, "Y", sides, n_jobs)
    if sides == "two":
        for end, bundle in (("X", x_end), ("Y", y_end)):
            if warn_of_blanks(bundle, f"samples in {end}", stacklevel=3):
                break
    return Ends(x_end, y_end, symmetric and sides in ("two", "mean"))


def _without_tangents(points: np.ndarray) -> Bundle:
    n, d = points.shape
    return Bundle(points, np.empty((n, 0, d), points.dtype))


def _carrier(source, points, own, shared, end, sides, n_jobs) -> Bundle:
    """Bundle of the end called `end`, from the most specific tangents given."""
    name = f"{end}_tangents" if own is not None else "tangents"
    given = own if own is not None else shared
    if given is None and isinstance(source, Bundle):
        given = source
    if given is None:
        raise ValueError(
            f"sides={sides!r} needs tangents at {end}: pass tangents= (a generator "
            f"such as ImageTangents) or {end}_tangents= (an array of shape (n_samples, "
            "n_tangents, n_features))."
        )
    bundle = as_bundle(points, given, name=name, n_jobs=n_jobs)
    frames = bundle.frames.astype(points.dtype, copy=False)
    return Bundle(points, frames)
