"""Tangent distances between all pairs of samples.

For samples x, x' whose small variations span the frames U, V, the two-sided tangent
distance is the Euclidean distance between the two affine spaces,

    d^2(x, x') = min_{p, q} |x + U^T p - x' - V^T q|^2 + k (|p|^2 + |q|^2),

and the one-sided distance lets only one end move. All pairs come from one product of
stacked [point; frame] matrices and a small solve per pair. X is (n_x, d), Y is
(n_y, d), the result (n_x, n_y).

Reference: B. Haasdonk, D. Keysers, Tangent distance kernels for support vector
machines, ICPR 2002; P. Simard, Y. LeCun, J. Denker, NIPS 1992.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.pairs import pair_distances
from widemargin.metrics.ends import (
    DEFAULT_SPRING,
    check_ends,
    check_pair,
    check_sides,
)
from widemargin.metrics.midpoint import midpoint_distances
from widemargin.tangents import Bundle


def tangent_distances(
    X: Any,
    Y: Any = None,
    *,
    X_tangents: Any = None,
    Y_tangents: Any = None,
    tangents: Any = None,
    sides: str = "two",
    spring: float = DEFAULT_SPRING,
    squared: bool = True,
    n_jobs: int | None = None,
) -> np.ndarray:
    r"""Compute the tangent distances between all rows of `X` and of `Y`.

    With :math:`\delta = x - x'`, orthonormal frames :math:`U, V` at :math:`x, x'`,
    :math:`a = U\delta`, :math:`b = V\delta`, :math:`M = UV^\top` and spring
    :math:`k`:

    - ``"y"``: :math:`|\delta|^2 - |b|^2/(1+k)`, tangents at the rows of `Y`;
      ``"x"`` has them at the rows of `X`.
    - ``"two"``: :math:`|\delta|^2 - |a|^2/(1+k) - r^\top S^{-1} r` with
      :math:`r = b - M^\top a/(1+k)` and :math:`S = (1+k)I - M^\top M/(1+k)`.
    - ``"mean"``: the mean of ``"x"`` and ``"y"``.
    - ``"midpoint"``: one-sided, with the tangents of the midpoint :math:`(x+x')/2`.

    For one spring, two-sided ≤ one-sided ≤ Euclidean. None of them is a metric: the
    triangle inequality does not hold.

    Parameters
    ----------
    X : array-like of shape (n_x, n_features) or Bundle
        Samples. A :class:`~widemargin.tangents.Bundle` brings its own frames.
    Y : array-like of shape (n_y, n_features) or Bundle, default=None
        References; None means `X`, and every unordered pair is computed once.
    X_tangents, Y_tangents : array-like, generator or Bundle, default=None
        Tangents of one end, overriding `tangents` there: an array of shape
        (n_samples, n_tangents, n_features), or (n_tangents, n_features) where all
        samples share them. Only the ends that `sides` names are looked at.
    tangents : generator or array-like of shape (n_tangents, n_features), default=None
        Tangents of both ends, for instance
        :class:`~widemargin.tangents.ImageTangents`.
    sides : {"x", "y", "two", "mean", "midpoint"}, default="two"
        Which end may move along its tangents.
    spring : float, default=1e-5
        Cost k of moving, relative to the orthonormal frame. It keeps the two-sided
        distance defined where both frames share a direction; 0 allows free movement
        and a large value approaches the Euclidean distance.
    squared : bool, default=True
        Return squared distances.
    n_jobs : int, default=None
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray of shape (n_x, n_y)
        float32 if `X` and `Y` are float32, else float64. Never negative; exactly 0
        for identical samples.

    Notes
    -----
    Inner products are expanded squares about the mean of `Y`; pairs whose distance is
    mostly rounding are computed again from the explicit residual in float64. Memory
    beyond the result and the frames stays within scikit-learn's ``working_memory``.
    A blank image has no tangents: it is spuriously near to everything under
    ``"two"``, which warns.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import tangent_distances
    >>> X = np.array([[0.0, 0.0, 1.0]])
    >>> Y = np.array([[3.0, 4.0, 1.0]])
    >>> along_first_axis = np.array([[1.0, 0.0, 0.0]])
    >>> tangent_distances(X, Y, tangents=along_first_axis, sides="y", spring=0)
    array([[16.]])
    """
    check_sides(sides, spring)
    if sides == "midpoint":
        x, y = check_pair(X, Y)
        return midpoint_distances(
            x,
            y,
            tangents,
            given_frames=X_tangents is not None or Y_tangents is not None,
            symmetric=Y is None,
            spring=spring,
            squared=squared,
            n_jobs=n_jobs,
        )
    ends = check_ends(X, Y, X_tangents, Y_tangents, tangents, sides, n_jobs)
    return bundle_distances(
        ends.x,
        ends.y,
        sides=sides,
        spring=spring,
        squared=squared,
        symmetric=ends.symmetric,
        n_jobs=n_jobs,
    )


def bundle_distances(
    x: Bundle,
    y: Bundle,
    *,
    sides: str,
    spring: float,
    squared: bool = True,
    symmetric: bool = False,
    n_jobs: int | None = None,
) -> NDArray:
    """Tangent distances of bundles, by those who have checked them, and warned.

    An end that stays put may carry frames all the same.
    """
    if sides in ("two", "mean") and _share_one_frame(x, y):
        # With one common frame both ends move along the same directions: two springs
        # in series are one of half the stiffness.
        sides, spring = "y", spring / 2 if sides == "two" else spring
    return pair_distances(
        x.points,
        x.frames,
        y.points,
        y.frames,
        sides=sides,
        spring=float(spring),
        squared=squared,
        symmetric=symmetric,
        n_jobs=n_jobs,
    )


def _share_one_frame(x: Bundle, y: Bundle) -> bool:
    """Whether every sample at both ends carries the same frame."""
    return x.is_shared and y.is_shared and np.array_equal(x.frames[0], y.frames[0])
