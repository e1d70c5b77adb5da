"""The second threshold: far samples refused, one guarantee for both, its arithmetic."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import (
    GLVQClassifier,
    HSSClassifier,
    RejectingClassifier,
    TangentKNeighborsClassifier,
)
from widemargin._core.confidence import distance_of
from widemargin.meta.rejecting import farthest

X, y = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 1200), slice(1200, None)


def rejecting(estimator=None, **options):
    options = {"max_error": 0.05, "outlier_fraction": 0.02, "random_state": 0} | options
    estimator = GLVQClassifier(random_state=0) if estimator is None else estimator
    return RejectingClassifier(estimator, **options)


@pytest.fixture(scope="module")
def model():
    return rejecting().fit(X[TRAIN], y[TRAIN])


def test_distance_is_that_to_the_nearest_reference(model):
    points = model.estimator_.prototypes_
    gaps = np.sqrt(((X[TEST][:, None] - points) ** 2).sum(axis=2)).min(axis=1)
    np.testing.assert_allclose(distance_of(model.estimator_, X[TEST]), gaps)
    for neighbours in (
        KNeighborsClassifier(3),
        TangentKNeighborsClassifier(tangents="none"),
    ):
        neighbours.fit(X[TRAIN], y[TRAIN])
        gaps = np.sqrt(((X[TEST][:50, None] - X[TRAIN]) ** 2).sum(axis=2)).min(axis=1)
        np.testing.assert_allclose(distance_of(neighbours, X[TEST][:50]), gaps)
    steps = make_pipeline(StandardScaler(), GLVQClassifier(random_state=0))
    steps.fit(X[TRAIN], y[TRAIN])
    inner = distance_of(steps[-1], steps[0].transform(X[TEST]))
    assert np.array_equal(distance_of(steps, X[TEST]), inner)
    affine = HSSClassifier(1, n_tangents=4).fit(X[TRAIN], y[TRAIN])
    assert (distance_of(affine, X[TEST]) >= 0).all()


def test_both_thresholds_decide(model):
    near = distance_of(model.estimator_, X[TEST]) <= model.outlier_threshold_
    sure = model.confidence(X[TEST]) >= model.threshold_
    assert np.array_equal(model.accepts(X[TEST]), near & sure)
    answers = model.predict(X[TEST])
    assert np.array_equal(answers != -1, near & sure)
    assert not near.all()
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X[TEST]), answers)
    twin = clone(model).fit(X[TRAIN], y[TRAIN])
    assert twin.outlier_threshold_ == model.outlier_threshold_


def test_what_is_strange_is_refused(model):
    rng = np.random.RandomState(0)
    strange = {
        "noise": rng.randint(0, 17, (500, 64)),
        "shuffled pixels": X[TEST][:, rng.permutation(64)],
        "negatives": 16 - X[TEST],
    }
    plain = rejecting(outlier_fraction=None).fit(X[TRAIN], y[TRAIN])
    assert plain.outlier_threshold_ is None
    for name, inputs in strange.items():
        assert model.accepts(inputs).mean() < 0.05, name
        assert plain.accepts(inputs).mean() > 0.05, name
    assert model.accepts(X[TEST]).mean() > 0.8


def test_the_rank_of_the_farthest():
    rng = np.random.RandomState(0)
    for n, share, k in ((99, 0.05, 5), (100, 0.05, 5), (10, 0.01, 1), (4, 0.9, 4)):
        d = rng.permutation(np.arange(float(n)))
        assert np.count_nonzero(d > farthest(d, share)) == k
    # Of new samples a share k / (n + 1), in the mean over draws.
    refused = [1 - farthest(rng.uniform(size=99), 0.05) for _ in range(2000)]
    assert np.mean(refused) == pytest.approx(0.05, abs=0.002)
    ties = np.array([1.0, 1.0, 2.0, 2.0, 2.0])
    assert np.count_nonzero(ties <= farthest(ties, 0.2)) == 2


class Zero(ClassifierMixin, BaseEstimator):
    """Always answers 0."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), int)


def first(_, X):
    return X[:, 0]


def second(_, X):
    return X[:, 1]


# P(wrong) of (confidence, nearness), both uniform: the true error is an integral.
WORLDS = {
    "error in the far": lambda c, s: np.where(s < 0.2, 0.5, 0.09),
    "error in the near": lambda c, s: np.where(s > 0.9, 0.5, 0.07),
    "error in the sure": lambda c, s: np.where(c > 0.9, 0.3, 0.05),
    "just above": lambda c, s: np.full(c.shape, 0.1005),
    "both": lambda c, s: 0.3 * (1 - c) + 0.1 * (1 - s),
}


@pytest.mark.filterwarnings("ignore:max_error=")
@pytest.mark.parametrize("name", WORLDS)
def test_one_guarantee_for_both(name):
    chance, rng, broken, n_draws = WORLDS[name], np.random.RandomState(1), 0, 200
    grid = (np.arange(100) + 0.5) / 100
    C, S = np.meshgrid(grid, grid, indexing="ij")
    truth = chance(C, S)
    model = RejectingClassifier(
        Zero().fit(None, [0, 1]), max_error=0.1, outlier_fraction=0.1, cv="prefit",
        confidence_func=first, outlier_score=second, reject_label=-1,
    )  # fmt: skip
    for _ in range(n_draws):
        inputs = rng.uniform(size=(300, 2))
        # The second column is how far: nearness turned round.
        wrong = rng.uniform(size=300) < chance(inputs[:, 0], 1 - inputs[:, 1])
        model.fit(inputs, wrong.astype(int))
        accepted = (model.threshold_ <= C) & (model.outlier_threshold_ >= 1 - S)
        broken += accepted.any() and truth[accepted].mean() > 0.1
    assert broken / n_draws <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_draws)


class TestRefusals:
    def test_parameters(self):
        with pytest.raises(
            ValueError, match="outlier_fraction must be None or a finite number"
        ):
            rejecting(outlier_fraction=1.5).fit(X, y)
        with pytest.raises(ValueError, match="outlier_fraction goes with max_error"):
            rejecting(max_error=None, coverage=0.5).fit(X, y)
        with pytest.raises(
            ValueError, match="outlier_score must be None or a function"
        ):
            rejecting(outlier_score="far").fit(X, y)
        with pytest.raises(ValueError, match="outlier_score needs outlier_fraction"):
            rejecting(outlier_score=first, outlier_fraction=None).fit(X, y)

    def test_no_distance(self):
        with pytest.raises(ValueError, match="LogisticRegression has no prototypes"):
            rejecting(LogisticRegression(max_iter=5000)).fit(X[:500] / 16, y[:500])
        with pytest.raises(ValueError, match="outlier_score must tell samples apart"):
            rejecting(outlier_score=lambda _, X: np.ones(len(X))).fit(X[:500], y[:500])
        with pytest.raises(ValueError, match="outlier_score must return one number"):
            rejecting(outlier_score=lambda _, X: X).fit(X[:500], y[:500])
