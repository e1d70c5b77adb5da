"""Small estimators with the attribute names of the house, computed the obvious way."""

import numpy as np


class Prototypes:
    """Nearest class mean."""

    def __init__(self, theta=None):
        self.theta = theta

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.prototypes_ = np.array([X[y == c].mean(axis=0) for c in self.classes_])
        self.prototype_labels_ = self.classes_
        return self

    def _distances(self, X):
        return ((X[:, None] - self.prototypes_[None]) ** 2).sum(axis=2)

    def predict(self, X):
        return self.classes_[self._distances(X).argmin(axis=1)]

    def score(self, X, y):
        return float(np.mean(self.predict(X) == y))

    def decision_function(self, X):
        return -self._distances(X)

    def margins(self, X, y):
        D = self._distances(X)
        right = y[:, None] == self.classes_[None]
        d_plus = D[right]
        d_minus = np.where(right, np.inf, D).min(axis=1)
        return (d_minus - d_plus) / (d_minus + d_plus)

    def margin_bound(self, X, y, *, theta, slack=1.0):
        return float(np.mean(self.margins(X, y) < theta)) + slack


class TangentModels(Prototypes):
    """Nearest class mean with the leading variations of each class."""

    def __init__(self, n_tangents=2, tangents=None):
        self.n_tangents, self.tangents = n_tangents, tangents

    def fit(self, X, y):
        super().fit(X, y)
        frames = [
            np.linalg.svd(X[y == c] - mean, full_matrices=False)[2][: self.n_tangents]
            for c, mean in zip(self.classes_, self.prototypes_, strict=True)
        ]
        self.tangents_ = np.array(frames)
        return self
