"""Models that describe their class: Hastie, Simard and Säckinger's alternation.

Minimise, class by class, the weighted sum of squared distances

    E = sum_i w_i min_q min_{p, a} |x_i + U_i^T p - C_q - T_q^T a|^2 + k (|p|^2 + |a|^2)

over the models (C_q, T_q). One-sided there is no U and k = 0. A round (1) fits every
model to the samples it owns, moved along their own tangents to where they met it,
(2) gives every sample to the model nearest to it now and moves it again. Neither half
can raise E.

Reference: T. Hastie, P. Simard, E. Säckinger, Learning prototype models for tangent
distance, NIPS 1994. Shapes: points (n, d), frames (n, l, d).
"""

import numpy as np
from sklearn.cluster import kmeans_plusplus

from widemargin._compute.nearest import squared_distances
from widemargin._compute.pairs import pair_distances
from widemargin.prototypes.affine import principal_model, slide
from widemargin.prototypes.placing import lloyd
from widemargin.tangents import Bundle


class ClassModels:
    """The models of one class, improved round by round."""

    def __init__(
        self,
        bundle: Bundle,
        weights: np.ndarray,
        n_models: int,
        n_tangents: int,
        spring: float,
        rng: np.random.RandomState,
    ) -> None:
        self.bundle, self.weights = bundle, weights.astype(float)
        self.n_tangents = n_tangents
        self.spring = spring if bundle.n_tangents else 0.0
        self.moved = bundle.points
        self.owner = _first_owners(bundle.points, weights, n_models, rng)
        n_models = self.owner.max() + 1
        self.C = np.zeros((n_models, bundle.n_features))
        self.T = np.zeros((n_models, n_tangents, bundle.n_features))
        # The way to exactness in one round: nothing to alternate with.
        self.is_exact = n_models == 1 and bundle.n_tangents == 0

    def round(self, n_jobs: int | None) -> float:
        """Refit, hand out, move; return the objective E."""
        for q in range(len(self.C)):
            own = np.flatnonzero(self.owner == q)
            if len(own):
                self.C[q], self.T[q] = principal_model(
                    self.moved[own], self.weights[own], self.n_tangents
                )
        D = self._distances(n_jobs)
        self.owner = D.argmin(axis=1)
        nearest = D.min(axis=1)
        self._revive(nearest)
        self._move()
        return float(self.weights @ nearest)

    def _distances(self, n_jobs: int | None) -> np.ndarray:
        X = self.bundle.points
        sides = "two" if self.bundle.n_tangents else "y"
        return pair_distances(
            X,
            self.bundle.frames,
            self.C.astype(X.dtype),
            self.T.astype(X.dtype),
            sides=sides,
            spring=self.spring,
            n_jobs=n_jobs,
        ).astype(float)

    def _revive(self, nearest: np.ndarray) -> None:
        """Give a model that owns nothing the sample that is explained worst."""
        worst_first = iter(np.argsort(-self.weights * nearest, kind="stable"))
        for q in range(len(self.C)):
            if not np.any(self.owner == q):
                self.owner[next(worst_first)] = q

    def _move(self) -> None:
        if self.bundle.n_tangents == 0:
            return
        X = self.bundle.points
        self.moved = np.empty_like(X)
        for q in range(len(self.C)):
            own = np.flatnonzero(self.owner == q)
            some = self.bundle[own]
            C, T = self.C[q].astype(X.dtype), self.T[q].astype(X.dtype)
            self.moved[own], _ = slide(some.points, some.frames, C, T, self.spring)


def _first_owners(
    X: np.ndarray, weights: np.ndarray, n_models: int, rng: np.random.RandomState
) -> np.ndarray:
    """Partition the samples of a class by k-means; no more parts than samples."""
    n_models = min(n_models, len(X))
    if n_models == 1:
        return np.zeros(len(X), np.intp)
    w = weights.astype(X.dtype)
    centres, _ = kmeans_plusplus(X, n_models, sample_weight=w, random_state=rng)
    owner = squared_distances(X, lloyd(X, w, centres, max_iter=20)).argmin(axis=1)
    return np.unique(owner, return_inverse=True)[1]


def class_rows(codes: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Every class that occurs, with the rows it has."""
    return [(int(c), np.flatnonzero(codes == c)) for c in np.unique(codes)]
