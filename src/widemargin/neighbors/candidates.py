"""Where to look: references that are near in features, for distances that are slow.

A transform turns samples into features whose plain distance is nearly that of the slow
metric: direction features, say, for distortion models of images. The references nearest
there are the candidates that a slow distance is computed to. Shapes: queries (n, d),
candidates (n, n_candidates).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from widemargin._compute.formulas import smallest
from widemargin._compute.machine import batched_slices, rows_in_budget, thread_map
from widemargin._core.arrays import to_numpy
from widemargin._core.checks import as_matrix, check_size
from widemargin.tangents import Bundle


def check_transform(transform: Any) -> Any:
    """Return a transformer, or say what is wrong with it; None is none."""
    if transform is None:
        return None
    methods = ("fit", "transform", "get_params")
    able = all(hasattr(transform, method) for method in methods)
    if isinstance(transform, type) or not able:
        raise ValueError(
            "candidate_transform must be None or a transformer with fit, transform and "
            f"get_params, such as DirectionFeatures(shape=(28, 28)); got {transform!r}."
        )
    return transform


def fit_transform(transform: Any, X: Any, y: Any) -> Any:
    """Return a clone of the transformer fitted to the references; None is none."""
    return None if transform is None else clone(transform).fit(to_numpy(X), y)


class FeatureCandidates:
    """References by their features, to be asked for the nearest of any queries.

    Parameters
    ----------
    transform : transformer or None
        Fitted; None leaves samples as they are.
    references : ndarray or tensor of shape (n_references, n_features)
        Where to look.
    n_candidates : int
        How many to find.
    scale : float
        What references and queries were divided by.
    versions : ndarray of shape (n_samples, n_versions) or None
        Which references are one sample and its copies, that as it was given first:
        samples are looked for, all versions are candidates. None is no copies.
    """

    def __init__(
        self,
        transform: Any,
        references: Any,
        n_candidates: int,
        versions: NDArray | None = None,
    ):
        if versions is None:
            versions = np.arange(len(references))[:, None]
        self.transform, self.versions = transform, versions
        self.n_candidates = min(n_candidates, len(versions))
        features = self._features(references[versions[:, 0]])
        check_size(features, "what candidate_transform returns", whole=True)
        # Taken off, so that products lose little by rounding.
        self.centre = features.mean(axis=0)
        self.features = features - self.centre
        self.squares = np.einsum("ij,ij->i", self.features, self.features)

    def max_queries(self) -> int:
        """How many queries to ask about at once, within the memory budget."""
        return min(
            2048, rows_in_budget(80 * self.n_candidates * self.versions.shape[1])
        )

    def candidates(
        self,
        queries: Bundle,
        at_least: int = 1,
        n_jobs: int | None = None,
        apart: tuple[NDArray, NDArray] | None = None,
    ) -> NDArray:
        """Find the nearest references, as positions (n, n_candidates), ascending.

        `at_least` so many. Groups that are to be `apart`, of queries and of references,
        leave out those of a query's own; where too few are left, positions are -1.
        """
        first = self.versions[:, 0]
        count = min(len(first), max(self.n_candidates, at_least))
        asked = self._features(queries.points) - self.centre
        found = np.empty((len(asked), count), np.int64)

        def fill(rows: slice) -> None:
            d2 = self.squares - 2 * (asked[rows] @ self.features.T)
            if apart is not None:
                d2[apart[0][rows, None] == apart[1][first]] = np.inf
            near = smallest(d2, count)
            if apart is not None:
                near[np.isinf(np.take_along_axis(d2, near, axis=1))] = -1
            found[rows] = near

        # Distances, their order and a mask.
        size = rows_in_budget(24 * len(first), n_jobs)
        thread_map(fill, batched_slices(len(asked), min(64, size)), n_jobs, "nearest")
        places = self.versions[found]
        places[found < 0] = -1
        return np.sort(places.reshape(len(asked), -1), axis=1)

    def _features(self, X: Any) -> NDArray:
        samples = to_numpy(X)
        if self.transform is None:
            return samples
        made = self.transform.transform(samples)
        if len(np.shape(made)) != 2:
            raise ValueError(
                "candidate_transform must return a table, one row per sample; it made "
                f"an array of shape {np.shape(made)}."
            )
        features = as_matrix("what candidate_transform returns", made)
        if len(features) != len(samples):
            raise ValueError(
                "candidate_transform must return one row per sample; it made "
                f"{len(features)} of {len(samples)}."
            )
        n_features = len(self.centre) if hasattr(self, "centre") else features.shape[1]
        if features.shape[1] != n_features:
            raise ValueError(
                "candidate_transform must make as many features of every sample; it "
                f"made {features.shape[1]}, of the training samples {n_features}."
            )
        return features
