"""What every tangent generator is: samples in, tangents or a bundle out.

A generator says what may vary: ``tangents(X)`` returns, for every sample x, the
derivatives at p = 0 of l transformations t(x, p), as an array (n, l, d).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._compute.threads import thread_map
from widemargin.tangents.bundle import Bundle
from widemargin.tangents.checks import FLOATS, check_samples
from widemargin.tangents.frames import fill_frames, sample_blocks


class TangentGenerator(BaseEstimator, ABC):
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
    def _tangents_of(
        self, X: NDArray, y: ArrayLike | None
    ) -> Callable[[slice], NDArray]:
        """Prepare for validated samples; return the function rows -> raw tangents.

        Everything that depends on the parameters or on the samples as a whole is
        checked and computed here, once. The function returned is called with
        consecutive slices, perhaps from several threads, and must give every sample
        the same tangents whatever slice it is in.
        """

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "TangentGenerator":
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
        samples = validate_data(self, X, dtype=FLOATS)
        self._tangents_of(samples, None)
        return self

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
        out = self._allocate(samples)

        def fill(rows: slice) -> None:
            out[rows] = tangents_of(rows)

        blocks = sample_blocks(len(out), out[0].size, None)
        thread_map(fill, blocks, description="tangents")
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
        frames = self._allocate(points)
        fill_frames(frames, tangents_of, n_jobs=n_jobs, name=type(self).__name__)
        return Bundle(points, frames)

    def _check_samples(self, X: ArrayLike) -> NDArray:
        check_is_fitted(self)
        if hasattr(X, "columns") and hasattr(self, "feature_names_in_"):
            return validate_data(self, X, dtype=FLOATS, reset=False)
        # Names are compared where both have them; a generator needs none.
        samples = check_samples(X)
        expected = getattr(self, "n_features_in_", samples.shape[1])
        if samples.shape[1] != expected:
            raise ValueError(
                f"X has {samples.shape[1]} features, but {type(self).__name__} is "
                f"expecting {expected} features as input."
            )
        return samples

    def _allocate(self, X: NDArray) -> NDArray:
        return np.empty((len(X), self.n_tangents, X.shape[1]), X.dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
