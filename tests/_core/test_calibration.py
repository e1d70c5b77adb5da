"""Probabilities of fresh samples are as large as answers are right: a slice.

All of it is `benchmarks/calibration.py`; each case here was false by more than its bar.
"""

import pickle
from copy import copy

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

import widemargin as wm
from widemargin._core.left_out import left_out_folds, refitted
from widemargin._core.samples import Samples
from widemargin._core.temperature import LeftOut


def classes(rng, n, d, shares, apart):
    """Return samples of Gaussian classes, and 2000 fresh ones."""
    centres = apart * rng.normal(size=(len(shares), d))
    shares = np.array(shares) / np.sum(shares)
    y = rng.choice(len(shares), n + 2000, p=shares)
    X = centres[y] + rng.normal(size=(n + 2000, d))
    return X[:n], y[:n], X[n:], y[n:]


def gap(model, X, y, Z, z):
    """Mean probability of the answer, less the share of right ones."""
    model.fit(X, y)
    P = model.predict_proba(Z)
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(Z))
    return P.max(axis=1).mean() - model.score(Z, z)


def test_one_neighbour_may_be_wrong():
    given = classes(np.random.default_rng(1), 600, 8, [3, 2, 1], 0.5)
    knn = wm.TangentKNeighborsClassifier(tangents="none")
    assert abs(gap(knn, *given)) < 0.05
    # A vote of five is no probability either.
    assert abs(gap(knn.set_params(n_neighbors=5), *given)) < 0.05
    P = knn.predict_proba(given[2])
    assert ((P > 0) & (P < 1)).all()


@pytest.mark.parametrize(
    "model",
    [
        wm.LVQClassifier(random_state=0),
        wm.MarginLVQClassifier(random_state=0),
        wm.GLVQClassifier(random_state=0),
    ],
    ids=["LVQ", "margin LVQ", "GLVQ"],
)
def test_more_features_than_samples(model):
    gaps = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        gaps.append(gap(model, *classes(rng, 200, 600, [6, 3, 2], 0.1)))
    assert abs(np.mean(gaps)) < 0.06


def test_a_hundred_classes():
    given = classes(np.random.default_rng(0), 1000, 20, [1] * 50, 1.0)
    perceptron = wm.FixedMarginPerceptron(max_iter=50, random_state=0)
    for model in (perceptron, wm.DensityClassifier(random_state=0)):
        assert abs(gap(model, *given)) < 0.05


def test_rows_that_are_there_many_times():
    X, y, Z, z = classes(np.random.default_rng(0), 250, 10, [5, 3, 2], 0.6)
    rows = np.repeat(np.arange(250), 1 + np.arange(250) % 8)
    vote = wm.TangentKNeighborsClassifier(5, tangents="none")
    for model in (vote, wm.DensityClassifier(random_state=0)):
        assert abs(gap(model, X[rows], y[rows], Z, z)) < 0.05


def test_folds_are_those_of_whole_observations():
    """Every class stays, copies leave together, and no user hears of parts."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    X, y = np.concatenate([X, X[:30]]), np.concatenate([y, y[:30]])
    samples = Samples(X, y, np.ones(90), np.arange(3), np.arange(90))
    folds = left_out_folds(samples, 1000)
    assert sorted(np.concatenate(folds)) == list(range(90))
    for rows in folds:
        keep = np.delete(np.arange(90), rows)
        assert not {*map(bytes, X[rows])} & {*map(bytes, X[keep])}
        assert set(y[keep]) == {0, 1, 2}
    assert left_out_folds(samples, 1) == []


def test_copies_do_not_make_fewer_observations_enough():
    """As many observations are left out whether they come once or five times."""
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(300, 3)), 5, axis=0), np.arange(1500) // 5 % 3
    samples = Samples(X, y, np.ones(1500), np.arange(3), np.arange(1500))
    folds = left_out_folds(samples, 1000)
    assert len(folds) == 5
    assert sorted(np.concatenate(folds)) == list(range(1500))


def test_few_samples_are_left_out_when_that_is_asked_for(monkeypatch):
    """Fits without some of the samples wait for the first probability, or the file."""
    X, y = load_iris(return_X_y=True)
    fits = []
    fit = wm.GLVQClassifier.fit

    def counted(self, *args, **options):
        fits.append(self)
        return fit(self, *args, **options)

    monkeypatch.setattr(wm.GLVQClassifier, "fit", counted)
    model = wm.GLVQClassifier(random_state=0).fit(X, y)
    model.predict(X), model.margins(X, y)
    assert len(fits) == 1
    model.set_params(max_iter=1)
    before = dict(vars(model))
    chances = model.predict_proba(X)
    assert len(fits) > 3
    assert fits[-1].max_iter == 30
    assert vars(model) == before
    n = len(fits)
    np.testing.assert_array_equal(model.predict_proba(X), chances)
    other = pickle.loads(pickle.dumps(wm.GLVQClassifier(random_state=0).fit(X, y)))
    assert len(fits) > n
    n = len(fits)
    np.testing.assert_array_equal(other.predict_proba(X), chances)
    assert len(fits) == n
    # A copy, and a fit anew, ask for nothing of the fit before.
    anew = wm.GLVQClassifier(random_state=0).fit(X, y)
    n = len(fits)
    copied = copy(anew)
    anew.fit(X, y)
    assert len(fits) == n + 1
    np.testing.assert_array_equal(copied.predict_proba(X), chances)
    # What the model that was there before said is forgotten.
    assert model.fit(X[:, :2], y).temperature_ != other.temperature_


class Moody(BaseEstimator):
    """Right where the second feature is below a number that its fit ends at."""

    def __init__(self, ends=None):
        self.ends = ends

    def fit(self, X, y, sample_weight=None):
        self.classes_, self.right_ = np.unique(y), self.ends[len(X)]
        return self

    def said_of(self, samples):
        X = samples.X
        answers = np.where(X[:, 1] < self.right_, X[:, 0], 1 - X[:, 0]).astype(int)
        costs = np.ones((len(X), 2))
        costs[np.arange(len(X)), answers] = 0
        return LeftOut(costs, answers, samples.codes, samples.weights)


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [(0.9, 0.5, 0.9), (0.5, 0.9, 0.5), (0.7, 0.7, 0.7), (1.0, 0.5, 0.5)],
)
def test_a_fit_that_ends_elsewhere_speaks_for_itself(whole, part, expected):
    """One that is right in all that trained it says nothing of others."""
    rng = np.random.default_rng(0)
    codes = np.arange(500) % 2
    X = np.column_stack([codes, rng.permutation(500) / 500])
    samples = Samples(X, codes, rng.integers(1, 3, 500) * 1.0, np.arange(2), codes)
    parts = [np.arange(k, 500, 5) for k in range(5)]
    model = Moody({500: whole, 400: part}).fit(X, codes)
    seen = refitted(model, samples, parts, Moody.said_of)
    shares = seen.weights / samples.weights.sum()
    assert shares.sum() == pytest.approx(1)
    assert shares @ (seen.answers == seen.codes) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_planes_of_features_of_mixed_units(seed):
    """Each fit without a part ends at another plane; they are right in .3 to .7."""
    rng = np.random.default_rng(seed)
    X, y, Z, z = classes(rng, 600, 12, [4, 3, 3], 0.6)
    units = 10.0 ** rng.integers(-3, 7, 12)
    for part in (X, Z):
        part[:, ::4] = np.exp(part[:, ::4])
        part *= units
    perceptron = wm.FixedMarginPerceptron(random_state=0)
    with pytest.warns(ConvergenceWarning):
        assert abs(gap(perceptron, X, y, Z, z)) < 0.06


def copies(rng, n, d, shares, apart):
    """Return rows that are there one to eight times, and fresh samples."""
    X, y, Z, z = classes(rng, n, d, shares, apart)
    rows = rng.permutation(np.repeat(np.arange(n), rng.integers(1, 9, n)))
    return X[rows], y[rows], Z, z


@pytest.mark.parametrize(
    "model",
    [
        wm.InvariantHyperplaneSVC(tangents="none", kernel="rbf"),
        wm.TVQClassifier(random_state=0),
        wm.MarginReweightingClassifier(
            wm.GLVQClassifier(1, random_state=0), max_iter=8, random_state=0
        ),
    ],
    ids=["invariant", "TVQ", "re-weighting"],
)
def test_copies_leave_models_that_are_fitted_again(model):
    gaps = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        gaps.append(gap(model, *copies(rng, 250, 10, [5, 3, 2], 0.6)))
    assert abs(np.mean(gaps)) < 0.05


def test_duels_of_a_hundred_classes():
    given = classes(np.random.default_rng(0), 1000, 20, [1] * 50, 1.0)
    for model in (
        wm.InvariantHyperplaneSVC(tangents="none"),
        wm.MaxMarginClassifier(random_state=0),
    ):
        assert abs(gap(model, *given)) < 0.04


def test_borders_that_are_biased():
    """Wide, unequal classes: nearly all answers are the largest class."""
    gaps = []
    for seed in range(3):
        given = classes(np.random.default_rng(seed), 267, 1500, [6, 3, 2], 0.075)
        svc = wm.InvariantHyperplaneSVC(tangents="none", kernel="rbf", C=10.0)
        gaps.append(gap(svc, *given))
    assert abs(np.mean(gaps)) < 0.04


def test_answers_are_no_surer_than_they_are_right():
    """Of biased costs the least cross-entropy alone says .65, where .55 are right."""
    from widemargin._core.temperature import LeftOut, fit_temperature, softmax_of_costs

    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    codes = (rng.random(2000) < 1 / (1 + np.exp(-4 * (x - 0.5)))).astype(int)
    behind = np.maximum(3.0 - x, 0.01)
    costs = np.stack([np.zeros(2000), behind], axis=1)
    answers = np.zeros(2000, int)
    seen = LeftOut(costs, answers, codes, np.ones(2000))
    P = softmax_of_costs(costs, *_in_order(fit_temperature(seen), answers))
    assert P.max(axis=1).mean() < np.mean(codes == 0) + 0.02


def _in_order(fitted, answers):
    temperature, lead = fitted
    return temperature, answers, lead
