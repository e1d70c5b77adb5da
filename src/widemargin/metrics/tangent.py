"""Tangent distances: tangents and distance in one object.

For samples x, x' whose small variations span the frames U, V, the two-sided tangent
distance is the Euclidean distance between the two affine spaces,

    d^2(x, x') = min_{p, q} |x + U^T p - x' - V^T q|^2 + k (|p|^2 + |q|^2),

and the one-sided distance lets only one end move. All pairs come from one product of
stacked [point; frame] matrices and a small solve per pair. X is (n_x, d), Y is
(n_y, d), the result (n_x, n_y).

The midpoint distance projects on the tangents of the image between. With T_m the
tangents of the image (x + x')/2 and P_m the projection on their span,

    d^2(x, x') = |delta|^2 - |P_m delta|^2 / (1 + k).

It needs a generator: frames of x and x' do not tell the tangents of an image between
them. Where the generator is affine in x, T_m = (T_x + T_x')/2, and every inner
product the projection needs comes from the products of the two ends:
G = T_m T_m^T = (T_x T_x^T + T_x' T_x'^T + N + N^T)/4 with N = T_x T_x'^T, and
d^2 = |delta|^2 - c^T G^+ c / (1 + k) with c = T_m delta. Otherwise (thickness is
quadratic in x), and for pairs whose G is nearly singular, the midpoint images and
their frames are made, chunk by chunk.

The sum of the two one-sided distances to the midpoint is this one, because both are
equal.

An alignment lays paired rows over each other: the moves p, q of the minimum. With
delta = x - x', a = U delta, b = V delta, M = U V^T:

    ((1+k) I - M^T M/(1+k)) q = b - M^T a/(1+k),     -p = (a - M q)/(1+k).

By the envelope theorem the residual is also the gradient: for a model with point C
and tangents T at the y end, the squared distance d2 has
d d2/dC = -2 residual and d d2/dT_k = -2 q_k residual.

Reference: B. Haasdonk, D. Keysers, Tangent distance kernels for support vector
machines, ICPR 2002, for the midpoint the equation for d_MP; P. Simard, Y. LeCun, J.
Denker, NIPS 1992.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._compute.engines import formula
from widemargin._compute.formulas import (
    affine_midpoint_tile,
    best_moves,
    fits_squares,
    on_a_shared_frame,
)
from widemargin._compute.machine import (
    batched_slices,
    matrix_of_pairs,
    rows_in_budget,
    thread_map,
)
from widemargin._compute.pairs import References, pair_distances
from widemargin._core.arrays import (
    check_one_place,
    dispatch_function,
    in_dtype,
    largest_of,
    numpy_dtype,
    place_of,
    refuse_device,
)
from widemargin._core.checks import (
    as_matrix,
    check_count,
    check_flag,
    check_option,
    check_spring,
    is_auto,
    warn_caller,
)
from widemargin._core.lazy import pairs
from widemargin.tangents import Bundle, as_bundle, orthonormalize
from widemargin.tangents.bundle import share_one_frame
from widemargin.tangents.generator import check_tangents, fit_tangents, is_generator

# Which ends carry the tangents that a distance looks at. Those of a midpoint belong
# to no sample.
ENDS = {
    "query": ("query",),
    "reference": ("reference",),
    "both": ("query", "reference"),
    "mean": ("query", "reference"),
    "midpoint": (),
}
SIDES = tuple(ENDS)
SYMMETRIC = ("both", "mean", "midpoint")
ALIGNED_SIDES = ("query", "reference", "both", "midpoint")
DEFAULT_SPRING = 1e-5
# Share of their squared length at which samples may not vanish. With contrast among the
# tangents, springs of 1e-5, 0.01, 0.03 and 0.1 have 90, 3.2, 1.8 and 1.2 % errors of
# the nearest neighbour on digits (1.5 without contrast), and 91, 79, 38 and 9.7 % on
# USPS (3.7 without).
FADED = 0.15


@dataclass(frozen=True, eq=False)
class TangentMetric:
    """A tangent distance: the tangents, which end moves, and the price of moving.

    Estimators hold one: it checks its parameters, fits its generator, gives samples
    their frames and bundles their distances. It never changes; :meth:`fit` returns
    another.

    Parameters
    ----------
    tangents : generator, array of shape (n_tangents, n_features) or None, default=None
        Changes that do not matter: a generator such as
        :class:`~widemargin.tangents.ImageTangents`, or tangents that all samples
        share. None is the Euclidean distance.
    sides : {"query", "reference", "both", "mean", "midpoint"}, default="both"
        Which end carries tangents: x is the sample asked about, y the reference. See
        :func:`tangent_distances`.
    spring : float, default=1e-5
        Cost of moving.
    pass_size : int or None, default=None
        Of how many samples a learner asks for the distances to its models, pass after
        pass; None where a matrix is asked for once. Kernels are compiled where that
        pays; the results differ by rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import TangentMetric
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> metric = TangentMetric(np.array([[1.0, 0.0]]), sides="reference", spring=0)
    >>> metric = metric.fit(X)
    >>> metric.squared_distances(metric.bundle(X))
    array([[ 0., 16.],
           [16.,  0.]])
    """

    tangents: Any = None
    sides: str = "both"
    spring: float = DEFAULT_SPRING
    pass_size: int | None = None

    def __post_init__(self) -> None:
        check_option("sides", self.sides, SIDES)
        tangents = check_tangents(self.tangents)
        if self.sides == "midpoint":
            require_generator(tangents)
        if self.pass_size is not None:
            check_count("pass_size", self.pass_size, low=0)
        # A spring is a float, and an array of tangents one of floats.
        vars(self).update(tangents=tangents, spring=check_spring(self.spring))

    def check(self, sides: Iterable[str] = SIDES) -> Self:
        """Return the same metric if its sides are among those that are allowed.

        Parameters
        ----------
        sides : sequence of str
            The sides to allow.

        Returns
        -------
        TangentMetric
        """
        if not isinstance(sides, list | tuple | set | frozenset | dict):
            raise ValueError(f"sides must list some of {SIDES}; got {sides!r}.")
        check_option("sides", self.sides, sides)
        return self

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Return the metric with a fitted clone of its generator as `tangents`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Their labels, for generators that learn from them.

        Returns
        -------
        TangentMetric
        """
        X = as_matrix("X", X)
        return replace(self, tangents=fit_tangents(self.tangents, X, y))

    @property
    def has_tangents(self) -> bool:
        """Whether anything may vary; else this is the Euclidean distance."""
        if self.tangents is None:
            return False
        return is_generator(self.tangents) or len(self.tangents) > 0

    def looks_at(self, end: str) -> bool:
        """Whether the distance looks at the tangents of "query" or "reference"."""
        check_option("end", end, ("query", "reference"))
        return end in ENDS[self.sides]

    def bundle(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        end: str | None = None,
        n_jobs: int | None = None,
    ) -> Bundle:
        """Join samples with the frames that the distance looks at.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Labels, for generators that use them: those of references are known.
        end : {"query", "reference"}, default=None
            Where the samples will stand. An end that stays put gets no frames.
        n_jobs : int, default=None
            Threads; None is one, -1 is one per core.

        Returns
        -------
        Bundle
            Frames have the dtype of the points.
        """
        bare = self.sides == "midpoint" or (end is not None and not self.looks_at(end))
        tangents = None if bare else self.tangents
        bundle = as_bundle(X, tangents, y, n_jobs=n_jobs)
        return bundle.astype(numpy_dtype(bundle.points))

    @staticmethod
    def bundle_like(bundle: Bundle, X: Any) -> Bundle:
        """Return a bundle where the samples `X` are, in the dtype that serves both.

        Parameters
        ----------
        bundle : Bundle
            References.
        X : ndarray or tensor
            Samples.

        Returns
        -------
        Bundle
            The same one where it is there already.
        """
        _check_bundle("bundle", bundle)
        device, here = place_of(X), place_of(bundle.points)
        moved = bundle if device == here else bundle.to(device)
        return moved.astype(_common_dtype(bundle.points, X))

    def squared_distances(
        self,
        x: Bundle,
        y: Bundle | None = None,
        *,
        sides: str | None = None,
        prepared: References | None = None,
        n_jobs: int | None = None,
    ) -> NDArray:
        """Squared distances between all samples of two bundles.

        Parameters
        ----------
        x : Bundle
            Samples, see :meth:`bundle`.
        y : Bundle, default=None
            References; None means `x`, and where the distance is symmetric every
            unordered pair is computed once.
        sides : {"query", "reference", "both", "mean", "midpoint"}, default=None
            Other sides than those of the metric.
        prepared : References, default=None
            What :meth:`prepare` made of `y`.
        n_jobs : int, default=None
            Threads. The result does not depend on it.

        Returns
        -------
        ndarray of shape (n_x, n_y)
        """
        return self._distances(x, y, sides, prepared, squared=True, n_jobs=n_jobs)

    def prepare(self, y: Bundle) -> References | None:
        """Prepare references that few samples at a time will be compared with.

        Parameters
        ----------
        y : Bundle
            References, see :meth:`bundle`.

        Returns
        -------
        References or None
            None where nothing is gained.
        """
        _check_bundle("y", y)
        if self.sides == "midpoint" or y.is_shared:
            return None
        return References(y.points, y.frames)

    def distances(
        self,
        x: Bundle,
        y: Bundle | None = None,
        *,
        sides: str | None = None,
        n_jobs: int | None = None,
    ) -> NDArray:
        """As :meth:`squared_distances`, not squared."""
        return self._distances(x, y, sides, None, squared=False, n_jobs=n_jobs)

    def _distances(self, x, y, sides, prepared, *, squared, n_jobs) -> NDArray:
        """Choose how pairs are computed."""
        if sides is None:
            sides = self.sides
        else:
            check_option("sides", sides, SIDES)
        spring = self.spring
        symmetric = y is None and sides in SYMMETRIC
        y = x if y is None else y
        for name, bundle in (("x", x), ("y", y)):
            _check_bundle(name, bundle)
        check_one_place(X=x.points, Y=y.points)
        dtype = _common_dtype(x.points, y.points)
        if prepared is not None and not isinstance(prepared, References):
            raise TypeError(
                "prepared must be None or what TangentMetric.prepare made of y; got "
                f"{type(prepared).__name__}."
            )
        if dtype != numpy_dtype(y.points):
            prepared = None
        x, y = x.astype(dtype), y.astype(dtype)
        if sides == "midpoint":
            require_generator(self.tangents)
            return midpoint_distances(
                x.points, y.points, self.tangents, spring, symmetric, squared, n_jobs
            )
        if share_one_frame(x, y):
            sides, spring = on_a_shared_frame(sides, spring)
        options = {
            "squared": squared, "symmetric": symmetric, "n_jobs": n_jobs,
            "references": prepared, "pass_size": self.pass_size,
        }  # fmt: skip
        return all_pairs(x.points, x.frames, y.points, y.frames, sides, spring, options)

    def warn_of_blanks(self, bundle: Bundle, samples: str = "training samples") -> bool:
        """Warn of samples that make two-sided distances zero; return whether any are.

        Where most samples lie in the span of their own tangents, all fade away. A
        sample without any tangents, a blank image, stays put while all others move
        towards it, so that it is near to everything. Functions warn of what they are
        given; estimators once, of their training samples.

        Parameters
        ----------
        bundle : Bundle
            Samples with their frames.
        samples : str
            What the warning calls them.

        Returns
        -------
        bool
            Whether there are any, and the distance is two-sided.
        """
        _check_bundle("bundle", bundle)
        if self.sides != "both" or bundle.n_tangents == 0:
            return False
        if self.fades(bundle):
            warn_caller(
                f"most {samples} lie in the span of their own tangents (contrast or "
                f"amplitude?). With sides='both' and a spring of {self.spring:g} both "
                "ends fade away and all distances are nearly 0; use sides='mean'."
            )
            return True
        blank = int(np.count_nonzero(bundle.ranks == 0))
        if blank:
            warn_caller(
                f"{blank} of {len(bundle)} {samples} have no tangents at all (blank "
                "images?). Two-sided distances make them near to everything; drop "
                "them, or use sides='mean'."
            )
        return blank > 0

    def fades(self, bundle: Bundle) -> bool:
        """Whether most samples can move to nothing at the cost of next to nothing.

        Let r be the part of x (less its background) outside the span of its own frame.
        Both ends of a pair can meet there, so that ``d^2 <= |r|^2 + k|x|^2`` of both.
        Where that is far below the distance with tangents at one end, it is the fading
        that makes samples near. What lies in the span of all, such as a drifting
        baseline, leaves both alike. Few samples, or tangents for most dimensions, tell
        nothing.
        """
        _check_bundle("bundle", bundle)
        few = len(bundle) < 5 or 2 * bundle.n_tangents > bundle.n_features
        if bundle.is_shared or few:
            return False
        some = bundle[:: -(-len(bundle) // 256)].to(None)
        frames = some.frames.astype(float)

        def left(x: NDArray) -> NDArray:
            moves = np.matmul(frames, x[:, :, None])[:, :, 0]
            return np.maximum(0, (x**2).sum(axis=1) - (moves**2).sum(axis=1))

        points = some.points.astype(float)
        points /= np.abs(points).max(initial=1e-60)
        gaps = points[np.random.RandomState(0).permutation(len(points))] - points
        # Copies, and a sample itself, are no measure of how far others are.
        differ = gaps.any(axis=1)
        apart = np.median(left(gaps)[differ]) if differ.any() else 0.0
        for background in (0.0, getattr(self.tangents, "background", 0.0)):
            x = some.points.astype(float) - background
            x /= np.abs(some.points.astype(float)).max(initial=1e-60)
            # Nothing fades with stiffer ones.
            spring = min(self.spring, 1e6)
            faded = 2 * np.median(left(x) + spring * (x**2).sum(axis=1))
            if faded < FADED * apart:
                return True
        return False


def metric_of(tangents: Any, sides: str, spring: Any) -> TangentMetric:
    """Metric of an estimator, checked; "auto" is two-sided and free until then."""
    check_option("sides", sides, ("auto", *SIDES))
    spring = DEFAULT_SPRING if is_auto(spring) else spring
    return TangentMetric(tangents, "both" if sides == "auto" else sides, spring)


def require_generator(tangents: Any) -> None:
    """Raise unless tangents can be computed at points that are not samples."""
    if not is_generator(tangents):
        raise ValueError(
            "sides='midpoint' takes its tangents at (x + y)/2, so it needs a "
            "generator: pass tangents=ImageTangents(...) or another object with a "
            "tangents(X) method instead of tangent arrays."
        )


@formula
def all_pairs(
    x: NDArray, x_frames: NDArray, y: NDArray, y_frames: NDArray, sides: str,
    spring: float, options: dict[str, Any],
) -> NDArray:  # fmt: skip
    """Tangent distances of all pairs of points with frames."""
    return pair_distances(
        x, x_frames, y, y_frames, sides=sides, spring=spring, **options
    )


def _common_dtype(x: Any, y: Any) -> np.dtype:
    return np.result_type(numpy_dtype(x), numpy_dtype(y))


@dispatch_function(lazily=pairs)
def tangent_distances(
    X: Any,
    Y: Any = None,
    *,
    X_tangents: Any = None,
    Y_tangents: Any = None,
    tangents: Any = None,
    sides: str = "both",
    spring: float = DEFAULT_SPRING,
    squared: bool = True,
    n_jobs: int | None = None,
) -> NDArray:
    r"""Compute the tangent distances between all rows of `X` and of `Y`.

    With :math:`\delta = x - x'`, orthonormal frames :math:`U, V` at :math:`x, x'`,
    :math:`a = U\delta`, :math:`b = V\delta`, :math:`M = UV^\top` and spring
    :math:`k`:

    - ``"reference"``: :math:`|\delta|^2 - |b|^2/(1+k)`, tangents at the rows of `Y`;
      ``"query"`` has them at the rows of `X`.
    - ``"both"``: :math:`|\delta|^2 - |a|^2/(1+k) - r^\top S^{-1} r` with
      :math:`r = b - M^\top a/(1+k)` and :math:`S = (1+k)I - M^\top M/(1+k)`.
    - ``"mean"``: the mean of ``"query"`` and ``"reference"``.
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
    sides : {"query", "reference", "both", "mean", "midpoint"}, default="both"
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
        float32 if `X` and `Y` are float32 and it can hold the squares, else float64.
        Never negative; exactly 0 for identical samples; finite. Of Dask collections a
        lazy array, with a block for every pair of blocks.

    Notes
    -----
    Inner products are expanded squares about the mean of `Y`. Pairs whose rounding
    error could reach 1e-3 of the distance (float64: 1e-6) are computed again from the
    explicit residual in float64. With a spring of 0, directions of two frames that
    agree to 1e-6 count as one. Squares that float64 cannot hold are refused. Memory
    beyond the result and the frames stays within ``working_memory``. A blank image has
    no tangents: it is spuriously near to everything under ``"both"``, which warns.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import tangent_distances
    >>> X = np.array([[0.0, 0.0, 1.0]])
    >>> Y = np.array([[3.0, 4.0, 1.0]])
    >>> along_first_axis = np.array([[1.0, 0.0, 0.0]])
    >>> tangent_distances(X, Y, tangents=along_first_axis, sides="reference", spring=0)
    array([[16.]])
    """
    metric, x, y = check_ends(
        X, Y, X_tangents, Y_tangents, tangents, sides, spring, n_jobs=n_jobs
    )
    ask = (
        metric.squared_distances if check_flag("squared", squared) else metric.distances
    )
    return ask(x, y, n_jobs=n_jobs)


def check_points(X: Any, name: str) -> NDArray:
    """Return `X` as a C-contiguous float array, float32 kept; a Bundle's points."""
    return X.points if isinstance(X, Bundle) else as_matrix(name, X, order="C")


def check_pair(X: Any, Y: Any) -> tuple[NDArray, NDArray]:
    """Points of both ends in one dtype; `Y` None means `X`."""
    x = check_points(X, "X")
    y = x if Y is None else check_points(Y, "Y")
    check_one_place(X=x, Y=y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"X has {x.shape[1]} features and Y has {y.shape[1]}: both must have the "
            "same number."
        )
    dtype = _common_dtype(x, y)
    return in_dtype(x, dtype), in_dtype(y, dtype)


def check_ends(
    X: Any,
    Y: Any,
    X_tangents: Any,
    Y_tangents: Any,
    tangents: Any,
    sides: str,
    spring: float,
    n_jobs: int | None = None,
) -> tuple[TangentMetric, Bundle, Bundle | None]:
    """Metric and bundles of what a function was given, the second None for the first.

    Says which tangents are missing, and warns of blanks.
    """
    if sides == "midpoint":
        at_ends = X_tangents is not None or Y_tangents is not None
        metric = TangentMetric(None if at_ends else tangents, sides, spring)
        x, y = check_pair(X, Y)
        return metric, Bundle.bare(x), None if Y is None else Bundle.bare(y)
    known = tangents if is_generator(tangents) else None
    metric = TangentMetric(known, sides, spring)
    x, y = check_pair(X, Y)
    own = Y is None and Y_tangents is None
    x_end, y_end = Bundle.bare(x), Bundle.bare(y)
    if metric.looks_at("query") or own:
        end = "X" if metric.looks_at("query") or X_tangents is not None else "Y"
        x_end = _carrier(X, x, X_tangents, tangents, end, sides, n_jobs)
    if own:
        y_end = x_end
    elif metric.looks_at("reference"):
        source = X if Y is None else Y
        y_end = _carrier(source, y, Y_tangents, tangents, "Y", sides, n_jobs)
    if not metric.warn_of_blanks(x_end, "samples in X"):
        metric.warn_of_blanks(y_end, "samples in Y")
    return metric, x_end, None if own else y_end


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
    # Frames of a Bundle may be laid on other points; names of columns must go with
    # those a generator was fitted on, and only the source has them.
    at = points if isinstance(source, Bundle) else source
    bundle = as_bundle(at, given, name=name, n_jobs=n_jobs)
    return Bundle(points, bundle.frames).astype(numpy_dtype(points))


def _check_bundle(name: str, bundle: Any) -> None:
    if not isinstance(bundle, Bundle):
        raise TypeError(
            f"{name} must be a Bundle, as TangentMetric.bundle makes it of samples; "
            f"got {type(bundle).__name__}."
        )


@formula
def midpoint_distances(
    x: NDArray,
    y: NDArray,
    generator: Any,
    spring: float,
    symmetric: bool,
    squared: bool,
    n_jobs: int | None,
) -> NDArray:
    """Compute midpoint distances between all rows of `x` and `y`; see the module."""
    affine = bool(getattr(generator, "is_affine", False))
    tile = _affine_tile if affine else _general_tile
    dtype = x.dtype if fits_squares(max(largest_of(x), largest_of(y))) else np.float64
    out = matrix_of_pairs(len(x), len(y), dtype)

    def fill(block):
        rows, columns = block
        d2 = tile(x[rows], y[columns], generator, spring)
        if not squared:
            d2 = np.sqrt(d2)
        if symmetric and rows == columns:
            d2 = np.triu(d2) + np.triu(d2, 1).T
        elif symmetric:
            out[columns, rows] = d2.T
        out[rows, columns] = d2

    size = _side(generator, x, n_jobs, affine)
    blocks = [
        (rows, columns)
        for rows in batched_slices(len(x), size)
        for columns in batched_slices(len(y), size)
        if not symmetric or rows.start <= columns.start
    ]
    thread_map(fill, blocks, n_jobs, "distances")
    return out


def _side(generator, x, n_jobs, affine) -> int:
    """Side of a square block of pairs that keeps a worker within its budget."""
    n_tangents = generator.tangents(x[:1]).shape[1]
    if affine:
        per_row = 8 * (1 + n_tangents) * (6 * x.shape[1] + 320 * (1 + n_tangents))
        return min(64, rows_in_budget(per_row, n_jobs))
    per_pair = 8 * 4 * (1 + n_tangents) * x.shape[1]
    return max(1, min(64, int(rows_in_budget(per_pair, n_jobs) ** 0.5)))


def _affine_tile(x, y, generator, spring) -> NDArray:
    x, y = x.astype(float), y.astype(float)
    x_tangents, y_tangents = generator.tangents(x), generator.tangents(y)
    tile = affine_midpoint_tile(x, x_tangents, y, y_tangents, spring)
    i, j = np.nonzero(tile < 0)
    if len(i):
        for part in batched_slices(len(i), 64):
            rows, columns = i[part], j[part]
            at_midpoint = (x_tangents[rows] + y_tangents[columns]) / 2
            tile[rows, columns] = _explicit(x[rows] - y[columns], at_midpoint, spring)
    return tile


def _general_tile(x, y, generator, spring) -> NDArray:
    x, y = x.astype(float), y.astype(float)
    d = x.shape[1]
    midpoints = ((x[:, None] + y) / 2).reshape(-1, d)
    delta = (x[:, None] - y).reshape(-1, d)
    d2 = _explicit(delta, generator.tangents(midpoints), spring)
    return d2.reshape(len(x), len(y))


def _explicit(delta, tangents, spring) -> NDArray:
    """Squared distance of each delta after the best move along its tangents."""
    frames = orthonormalize(tangents)
    coefficients = (frames @ delta[:, :, None])[:, :, 0] / (1 + spring)
    residual = delta - (coefficients[:, None] @ frames)[:, 0]
    return (residual**2).sum(1) + spring * (coefficients**2).sum(1)


@dataclass(frozen=True)
class Alignment:
    """Pairs of samples, each moved along its own tangents to where they are nearest.

    Attributes
    ----------
    squared_distances : ndarray of shape (n_samples,)
        What :func:`tangent_distances` gives for the pair, the spring's energy
        included.
    residual : ndarray of shape (n_samples, n_features)
        ``x_aligned - y_aligned``.
    x_coefficients, y_coefficients : ndarray of shape (n_samples, n_tangents)
        How far each end moved along the rows of its frame.
    x_frames, y_frames : ndarray of shape (n_samples, n_tangents, n_features)
        The orthonormal frames; no rows at an end that stays put.
    x_aligned, y_aligned : ndarray of shape (n_samples, n_features)
        ``x + x_coefficients @ x_frames`` for each pair, and likewise for y.
    """

    squared_distances: NDArray
    residual: NDArray
    x_coefficients: NDArray
    y_coefficients: NDArray
    x_frames: NDArray
    y_frames: NDArray
    x_aligned: NDArray
    y_aligned: NDArray


@dispatch_function
def tangent_alignment(
    X: Any,
    Y: Any,
    *,
    X_tangents: Any = None,
    Y_tangents: Any = None,
    tangents: Any = None,
    sides: str = "both",
    spring: float = DEFAULT_SPRING,
) -> Alignment:
    """Align row i of `X` with row i of `Y`, each moving along its own tangents.

    Parameters
    ----------
    X, Y : array-like of shape (n_samples, n_features) or Bundle
        Pairs of samples.
    X_tangents, Y_tangents, tangents : see :func:`tangent_distances`
    sides : {"query", "reference", "both", "midpoint"}, default="both"
        Which end may move. ``"mean"`` averages two alignments and has none of its own.
        Under ``"midpoint"`` both ends move by half along the midpoint's tangents.
    spring : float, default=1e-5
        Cost of moving.

    Returns
    -------
    Alignment

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.metrics import tangent_alignment
    >>> pair = tangent_alignment(
    ...     [[0.0, 0.0]], [[3.0, 4.0]], tangents=np.array([[1.0, 0.0]]),
    ...     sides="reference", spring=0,
    ... )
    >>> pair.y_aligned
    array([[0., 4.]])
    >>> pair.squared_distances
    array([16.])
    """
    refuse_device("tangent_alignment", X=X, Y=Y)
    check_option("sides", sides, ALIGNED_SIDES)
    y = X if Y is None else Y
    metric, x_end, y_end = check_ends(
        X, y, X_tangents, Y_tangents, tangents, sides, spring
    )
    assert y_end is not None
    x, y = x_end.points, y_end.points
    if len(x) != len(y):
        raise ValueError(
            f"tangent_alignment pairs rows: X has {len(x)} samples and Y has {len(y)}. "
            "For all pairs use tangent_distances."
        )
    if sides == "midpoint":
        return _align_at_midpoint(x, y, tangents, metric.spring)
    return align(x_end, y_end, metric.spring)


def align(x: Bundle, y: Bundle, spring: float = DEFAULT_SPRING) -> Alignment:
    """Align two bundles of equal length row by row."""
    delta = x.points.astype(float) - y.points
    d2, moves, residual = best_moves(delta, x.frames, y.frames, float(spring))
    # What is left of a difference in the span is rounding; where squares are nothing
    # because differences are too small, it is not.
    residual[(d2 == 0) & ((delta**2).sum(1) > 0)] = 0.0
    # Taken off delta = x - y: x moves by the opposite, y by the same.
    p, q = -moves[:, : x.n_tangents], moves[:, x.n_tangents :]
    return _moved(x, y, p, q, residual, d2)


def _align_at_midpoint(x, y, generator, spring) -> Alignment:
    middle = as_bundle((x + y) / 2, generator).frames.astype(x.dtype, copy=False)
    delta, frames = x.astype(float) - y, middle.astype(float)
    half = np.matmul(frames, delta[:, :, None])[:, :, 0] / (2 * (1 + spring))
    residual = delta - 2 * np.matmul(half[:, None], frames)[:, 0]
    # Two moves of half the size store half the energy of one: count the spring as
    # the distance does, once for the whole way.
    d2 = (residual**2).sum(1) + 4 * spring * (half**2).sum(1)
    return _moved(Bundle(x, middle), Bundle(y, middle), -half, half, residual, d2)


def _moved(x, y, p, q, residual, d2) -> Alignment:
    dtype = x.points.dtype
    x_aligned = x.points + np.matmul(p[:, None], x.frames)[:, 0]
    y_aligned = y.points + np.matmul(q[:, None], y.frames)[:, 0]
    residual, p, q, x_aligned, y_aligned = (
        array.astype(dtype) for array in (residual, p, q, x_aligned, y_aligned)
    )
    squared = d2.astype(dtype)
    if ((squared == 0) & (d2 > 0)).any():
        # What float32 cannot hold float64 can.
        squared = d2
    if not d2.any() and residual.any():
        raise ValueError(
            "the squared distances of X and Y cannot be told in float64; scale the "
            "data, for instance by StandardScaler."
        )
    return Alignment(squared, residual, p, q, x.frames, y.frames, x_aligned, y_aligned)
