"""A learner, or a loss, of one's own is one file: here are both, and they are whole."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator

from widemargin.margins import MarginLoss
from widemargin.prototypes import GLVQClassifier
from widemargin.prototypes.training import Outcome, TrainedPrototypes

iris, y = load_iris(return_X_y=True)


class KMeansClassifier(TrainedPrototypes):
    """Prototypes that go to the mean of the samples of their class nearest to them."""

    init, init_labels, class_weight, early_stopping = "samples", None, None, False
    validation_fraction, n_iter_no_change, _exact_weights = 0.1, 5, True

    def __init__(self, prototypes_per_class=1, *, max_iter=10, random_state=None):
        self.prototypes_per_class = prototypes_per_class
        self.max_iter = max_iter
        self.random_state = random_state

    def _start(self, data, rng):
        return {"prototypes": self._place(data.X, data, rng)}

    def _resume(self, state, data, rng):
        added = self._place_new(data.X, data, rng)
        return {"prototypes": np.concatenate([state["prototypes"], added])}

    def _step(self, data, rng, n_epochs):
        def train(state, epoch):
            P = state["prototypes"]
            D = ((data.X[:, None] - P) ** 2).sum(axis=2)
            D[data.codes[:, None] != self._prototype_codes] = np.inf
            owned = data.weights * (D.argmin(axis=1) == np.arange(len(P))[:, None])
            mass, sums = owned.sum(axis=1, keepdims=True), owned @ data.X
            moved = np.where(mass > 0, sums / np.where(mass > 0, mass, 1), P)
            loss = data.weights @ D.min(axis=1) / data.weights.sum()
            return Outcome({"prototypes": moved.astype(P.dtype)}, {"loss": loss})

        return train


class SquaredHinge(MarginLoss):
    """Quadratic below margin 1."""

    def _value(self, margin):
        return np.maximum(0, 1 - margin) ** 2

    def _derivative(self, margin):
        return -2 * np.maximum(0, 1 - margin)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_a_learner_of_ones_own_is_whole():
    model = KMeansClassifier(2, random_state=0).fit(iris, y)
    assert model.score(iris, y) > 0.9
    assert model.history_["loss"][-1] <= model.history_["loss"][0]
    np.testing.assert_array_equal(model.margins(iris, y) > 0, model.predict(iris) == y)
    assert np.all(model.certified_radius(iris) >= 0)
    stopped = clone(model).set_params(max_iter=50)
    stopped.early_stopping = True
    assert stopped.fit(iris, y).n_iter_ < 50
    batches = KMeansClassifier(2, random_state=0)
    for rows in np.array_split(np.arange(150), 3):
        batches.partial_fit(iris[rows], y[rows], classes=[0, 1, 2])
    assert batches.score(iris, y) > 0.8
    check_estimator(KMeansClassifier())


def test_a_loss_of_ones_own_trains():
    model = GLVQClassifier(2, loss=SquaredHinge(), random_state=0).fit(iris, y)
    assert model.score(iris, y) > 0.9
    assert model.history_["loss"][-1] < model.history_["loss"][0]
