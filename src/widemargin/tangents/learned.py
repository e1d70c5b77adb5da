r"""Learned tangents: what varies between neighbours of one class.

Where no transformation is known, the differences between a sample and its nearest
neighbours of the same class show what does not matter. The tangents are the leading
eigenvectors of their second moment :math:`\sum (x_i - x_j)(x_i - x_j)^T`: pooled over
all classes, over each class, or over the neighbours of one sample.

With the differences as rows of D, the directions are the leading eigenvectors of the
second moment :math:`D^T D / n`. It is not centred: a difference and its opposite tell
the same. All in float64.

Reference: Hastie, Simard, Säckinger: Learning prototype models for tangent distance
(1995); Keysers, Macherey, Ney, Dahmen: Adaptation in statistical pattern recognition
using tangent vectors (2004).
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from widemargin._compute import nearest
from widemargin._compute.machine import BLOCK_NUMBERS, batched_slices
from widemargin._core.arrays import (
    beside,
    in_dtype,
    numpy_dtype,
    to_numpy,
    xp_of,
)
from widemargin._core.decisions import class_codes
from widemargin._core.duplicates import duplicate_groups
from widemargin._core.params import Counted, check_declared, parameters
from widemargin._core.samples import check_rows, class_labels
from widemargin.tangents.bundle import Blocks, Bundle, broadcast, like
from widemargin.tangents.generator import DEVICE_METHODS, TangentGenerator

# Up to this many features the moment is formed (128 MiB), beyond it only applied.
_MAX_DENSE_FEATURES = 4096
_FEW_FEATURES = 500

# Directions whose eigenvalue is below this share of the largest are rounding.
_EIGENVALUE_RTOL = 1e-12


@parameters
class LearnedTangents(TangentGenerator):
    """Tangents learned from differences between neighbours.

    Parameters
    ----------
    n_tangents : int
        Tangents per sample. Where the data show fewer directions the rest are zero.
    per_class : bool, default=False
        Learn tangents for every class instead of one set for all.
    n_neighbors : int, default=None
        Nearest neighbours of the same class that a sample is compared with (of any
        class where no labels are known). None means 1, or ``2 * n_tangents`` if
        `local`.
    local : bool, default=False
        Give every sample tangents of its own: the principal directions of its
        differences to its nearest neighbours among the samples seen in `fit`.

    Attributes
    ----------
    tangents_ : ndarray of shape (n_tangents, n_features) or \
            (n_classes, n_tangents, n_features)
        Learned tangents, orthonormal; not if `local`.
    eigenvalues_ : ndarray of shape (n_tangents,) or (n_classes, n_tangents)
        Mean squared difference along each of them; not if `local`.
    classes_ : ndarray of shape (n_classes,)
        Labels seen in `fit`; only if it was given labels.
    class_means_ : ndarray of shape (n_classes, n_features)
        Mean of every class; only if `per_class`.

    Notes
    -----
    ``tangents(X, y)`` and ``bundle(X, y)`` use the labels `y` if `per_class` or
    `local`. Without them a sample gets the tangents of the class with the nearest mean
    (`per_class`), or its neighbours are taken from all classes (`local`).

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.tangents import LearnedTangents
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.1], [0.0, 9.0], [1.0, 9.0]])
    >>> LearnedTangents(n_tangents=1).fit(X, [0, 0, 0, 1, 1]).tangents_.round(2)
    array([[1.  , 0.02]])
    """

    device_methods = DEVICE_METHODS

    n_tangents: Counted
    per_class: bool = False
    n_neighbors: Counted | None = None
    local: bool = False

    @property
    def is_affine(self) -> bool:
        """Whether all samples have the same tangents."""
        return not (self.per_class or self.local)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "LearnedTangents":
        """Learn tangents from samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Labels; without them every sample is compared with its nearest neighbours
            whatever they are.

        Returns
        -------
        self : LearnedTangents
            The fitted generator.
        """
        n_neighbors = self._check_parameters()
        samples = check_rows(self, X, ensure_min_samples=2)
        if len(samples) < 2:
            raise ValueError("X has 1 sample; at least 2 are needed to learn from.")
        codes = np.zeros(len(samples), int)
        # Labels of an earlier fit must not be taken for labels of this one.
        self.__dict__.pop("classes_", None)
        if y is not None:
            labels = class_labels(y, len(samples))
            self.classes_, codes = np.unique(labels, return_inverse=True)
        elif self.per_class:
            raise ValueError("y must be given to learn tangents with per_class=True.")
        # The nearest of a sample that comes twice is itself, and shows no direction.
        first = np.sort(
            np.unique(duplicate_groups(samples, codes), return_index=True)[1]
        )
        samples, codes = samples[first], codes[first]
        if self.local:
            self.samples_, self.codes_ = to_numpy(samples), codes
            return self
        groups = [samples[codes == c] for c in range(codes.max() + 1)]
        pairs = [Differences(group, n_neighbors) for group in groups]
        if not any(len(part) for part in pairs):
            raise ValueError(
                "LearnedTangents found no two samples of the same class that differ; y "
                "must have at least two samples of some class."
            )
        if self.per_class:
            learned = [leading_directions([part], self.n_tangents) for part in pairs]
            dtype = numpy_dtype(samples)
            self.tangents_ = np.array([rows for rows, _ in learned], dtype)
            self.eigenvalues_ = np.array([values for _, values in learned])
            means = np.array([to_numpy(group.mean(0)) for group in groups])
            self.class_means_ = means.astype(dtype)
        else:
            rows, self.eigenvalues_ = leading_directions(pairs, self.n_tangents)
            self.tangents_ = rows.astype(numpy_dtype(samples))
        return self

    def bundle(
        self, X: ArrayLike, y: ArrayLike | None = None, *, n_jobs: int | None = None
    ) -> Bundle:
        """Join samples with their frames; one frame, stored once, if all share it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Labels, used if `per_class` or `local`.
        n_jobs : int, default=None
            Threads; None is one, -1 is one per core.

        Returns
        -------
        Bundle
        """
        if not self.is_affine:
            return super().bundle(X, y, n_jobs=n_jobs)
        return Bundle.from_tangents(self._check_samples(X), self.tangents_)

    def _tangents_of(self, X: NDArray, y: ArrayLike | None) -> Blocks:
        codes = self._codes_of(X, y)
        if self.local:
            return self._local_tangents_of(X, codes)
        if self.per_class:
            if codes is None:
                codes = nearest.nearest_of(X, self.class_means_)
            known = beside(X, self.tangents_, alike=True)
            return lambda rows: known[codes[rows]]
        shared = beside(X, self.tangents_, alike=True)
        return lambda rows: broadcast(shared, (len(X[rows]), *shared.shape))

    def _local_tangents_of(self, X: NDArray, codes: NDArray | None) -> Blocks:
        n_neighbors = self._check_parameters()
        learned = beside(X, self.samples_)
        # One more than needed, since a sample seen in fit finds itself.
        neighbors = np.full((len(X), n_neighbors + 1), -1)
        groups = [None] if codes is None else np.unique(codes)
        for c in groups:
            members = np.arange(len(self.samples_))
            queries = np.arange(len(X))
            if c is not None:
                members, queries = members[self.codes_ == c], queries[codes == c]
            k = min(n_neighbors + 1, len(members))
            found = nearest.nearest_points(learned[members], X[queries], k)
            neighbors[queries, :k] = members[to_numpy(found)]
        neighbors = beside(X, neighbors)

        def tangents_of(rows: slice) -> NDArray:
            x, near = X[rows], neighbors[rows]
            out = like((len(x), self.n_tangents, X.shape[1]), X)
            # As many numbers at a time as the tangents of the whole block have.
            size = len(x) * self.n_tangents // (n_neighbors + 1)
            for part in batched_slices(len(x), size):
                differences = learned[near[part]] - x[part][:, None]
                differences[near[part] < 0] = 0
                seen = 1 * (differences == 0).all(2)
                surplus = xp_of(X).where(seen.any(1), seen.argmax(1), n_neighbors)
                differences[xp_of(X).arange(len(surplus)), surplus] = 0
                out[part] = principal_directions(differences, self.n_tangents)
            return out

        return tangents_of

    def _check_parameters(self) -> int:
        """Return the number of neighbours to compare with."""
        check_declared(self)
        if self.local and self.per_class:
            raise ValueError(
                "per_class and local exclude each other; local=True already compares "
                "samples of the same class."
            )
        if self.n_neighbors is not None:
            return int(self.n_neighbors)
        return 2 * int(self.n_tangents) if self.local else 1

    def _codes_of(self, X: NDArray, y: ArrayLike | None) -> NDArray | None:
        """Index in `classes_` of every label, None where there are no labels."""
        if y is None or not hasattr(self, "classes_") or self.is_affine:
            return None
        owner = "fit has not seen; the labels it knows"
        return class_codes(class_labels(y, len(X)), self.classes_, owner=owner)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


class Differences:
    """Differences of samples to their nearest other samples, a block at a time."""

    def __init__(self, X: NDArray, n_neighbors: int):
        self.X = X
        self.neighbors = np.empty((len(X), 0), int)
        k = min(n_neighbors, len(X) - 1)
        if k:
            self.neighbors = to_numpy(nearest.nearest_points(X, None, k))

    def __len__(self) -> int:
        return self.neighbors.size

    def __iter__(self) -> Iterator[NDArray]:
        n_features = self.X.shape[1]
        size = BLOCK_NUMBERS // (max(1, self.neighbors.shape[1]) * n_features)
        for rows in batched_slices(len(self.X) if len(self) else 0, size):
            others = in_dtype(self.X[self.neighbors[rows]], np.float64)
            yield (others - self.X[rows][:, None]).reshape(-1, n_features)


def leading_directions(
    parts: Sequence[Differences], n_directions: int
) -> tuple[NDArray, NDArray]:
    """Eigenvectors (n_directions, d) and eigenvalues of the pooled second moment.

    Largest first; zero rows where the differences span fewer directions.
    """
    n_features = parts[0].X.shape[1]
    k = min(n_directions, n_features)
    directions = np.zeros((n_directions, n_features))
    eigenvalues = np.zeros(n_directions)
    count = sum(len(part) for part in parts)
    if count == 0:
        return directions, eigenvalues
    values, vectors = _top_eigenpairs(parts, n_features, k)
    values, vectors = values[::-1] / count, vectors.T[::-1]
    real = values > _EIGENVALUE_RTOL * values[0]
    # The sign of an eigenvector is arbitrary: make its largest entry positive.
    largest = np.abs(vectors).argmax(axis=1)
    signs = np.sign(vectors[np.arange(k), largest])
    directions[:k][real] = (signs[:, np.newaxis] * vectors)[real]
    eigenvalues[:k][real] = values[real]
    return directions, eigenvalues


def _top_eigenpairs(
    parts: Sequence[Differences], n_features: int, k: int
) -> tuple[NDArray, NDArray]:
    """Return the k largest eigenvalues of Dᵀ D, ascending, and their columns."""
    n_pairs = sum(len(part) for part in parts)
    is_small = n_features <= min(_MAX_DENSE_FEATURES, max(_FEW_FEATURES, n_pairs))
    if is_small or 2 * k > n_features:
        moment = np.zeros((n_features, n_features))
        for part in parts:
            for block in part:
                moment += to_numpy(block.T @ block)
        return nearest.some_eigenpairs(moment, n_features - k, n_features - 1)

    def apply(vector: NDArray) -> NDArray:
        product = np.zeros(n_features)
        for part in parts:
            for block in part:
                product += to_numpy(block).T @ (to_numpy(block) @ vector.ravel())
        return product

    operator = LinearOperator((n_features, n_features), apply, dtype=np.float64)
    return eigsh(operator, k, v0=np.random.default_rng(0).normal(size=n_features))


def principal_directions(differences: NDArray, n_directions: int) -> NDArray:
    """Leading directions (n, n_directions, d) of each ``differences[i]`` (k, d).

    They are unit rows; zero rows follow where the differences span fewer directions.
    """
    rows, xp = in_dtype(differences, np.float64), xp_of(differences)
    n, k, d = rows.shape
    keep = min(n_directions, k)
    values, vectors = xp.linalg.eigh(rows @ xp.swapaxes(rows, 1, 2))
    values, vectors = xp.flip(values, axis=1), xp.flip(vectors, axis=2)
    values, vectors = values[:, :keep], vectors[:, :, :keep]
    real = (values > _EIGENVALUE_RTOL * values[:, :1]) & (values > 0)
    scale = xp.where(real, values, np.inf) ** 0.5
    out = xp.zeros((n, n_directions, d), dtype=rows.dtype, device=rows.device)
    coefficients = xp.swapaxes(vectors, 1, 2) / scale[:, :, None]
    # Contiguous, so that every sample takes the same route through the product.
    coefficients = coefficients.reshape(n * keep, k).reshape(n, keep, k)
    xp.matmul(coefficients, rows, out=out[:, :keep])
    return out
