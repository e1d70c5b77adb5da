"""Which end moves by default: what left-out training samples ask for."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from widemargin import TangentDensityClassifier, TangentKNeighborsClassifier
from widemargin._core.samples import Samples
from widemargin.metrics import TangentMetric, tangent_distances
from widemargin.metrics.stiffness import STIFF
from widemargin.neighbors.base import suited_metric
from widemargin.tangents import ImageTangents, SignalTangents, TransformTangents

CLASSIFIERS = [TangentKNeighborsClassifier, TangentDensityClassifier]
AT = np.linspace(0, 1, 60)


def scatter(X, p):
    return X * np.exp(p)


def baseline(X, p):
    return X + p


def slope(X, p):
    return X + p * AT


POWDER = TransformTangents([scatter, baseline, slope])


def spectra(per_class, seed):
    """Two bands of three substances, with scatter and a tilted baseline."""
    rng = np.random.default_rng(seed)
    heights = np.repeat([[0.5, 0.5], [0.6, 0.4], [0.4, 0.7]], per_class, axis=0)
    bands = np.exp(-(((AT - np.array([[0.3], [0.6]])) / 0.05) ** 2))
    gain = np.exp(rng.normal(0, 0.3, (len(heights), 1)))
    drift = rng.normal(0, 0.5, (len(heights), 2)) @ np.stack([AT**0, AT])
    noise = rng.normal(0, 0.004, (len(heights), len(AT)))
    return gain * (0.3 + heights @ bands) + drift + noise, np.repeat(
        ["A", "B", "C"], per_class
    )


@pytest.mark.parametrize("Classifier", CLASSIFIERS)
def test_scatter_leaves_no_default_at_chance(Classifier):
    X, y = spectra(6, 0)
    X_new, y_new = spectra(100, 1)
    free = Classifier(tangents=POWDER, sides="both")
    with pytest.warns(UserWarning, match="fade away"):
        free.fit(X, y)
    assert np.mean(free.predict(X_new) != y_new) > 0.5
    # And without a warning: it was acted on.
    model = Classifier(tangents=POWDER).fit(X, y)
    assert model.sides_ == "reference"
    assert np.mean(model.predict(X_new) != y_new) < 0.02


@pytest.mark.parametrize("Classifier", CLASSIFIERS)
def test_tangents_that_tell_classes_apart_are_not_used(Classifier):
    rng = np.random.default_rng(0)
    late = np.repeat([0.3, 0.315], 60) + rng.normal(0, 0.002, 120)
    X = np.exp(-(((AT - late[:, None]) / 0.1) ** 2))
    X += rng.normal(0, 0.02, X.shape)
    y = np.repeat([0, 1], 60)
    moves = SignalTangents(["shift"])
    model = Classifier(tangents=moves).fit(X[::2], y[::2])
    assert model.sides_ == "none"
    assert model.input_tangents_ is None
    assert model.score(X[1::2], y[1::2]) > 0.95
    both = Classifier(tangents=moves, sides="both").fit(X[::2], y[::2])
    assert both.score(X[1::2], y[1::2]) < 0.8


@pytest.mark.parametrize("Classifier", CLASSIFIERS)
def test_both_ends_move_where_that_helps_or_nothing_is_known(Classifier):
    X, y = load_digits(return_X_y=True)
    once = np.array([np.flatnonzero(y == digit)[0] for digit in range(10)])
    for some, springs in ((slice(100), STIFF), (once, [1e-5])):
        tangents = ImageTangents((8, 8))
        model = Classifier(tangents=tangents).fit(X[some], y[some])
        assert model.sides_ == "both"
        assert model.spring_ in springs
        both = Classifier(tangents=tangents, sides="both", spring=model.spring_)
        both.fit(X[some], y[some])
        np.testing.assert_array_equal(
            model.predict_proba(X[100:200]), both.predict_proba(X[100:200])
        )


@pytest.mark.parametrize("Classifier", CLASSIFIERS)
def test_what_is_given_is_not_chosen(Classifier):
    X, y = load_digits(return_X_y=True)
    tangents = ImageTangents((8, 8))
    model = Classifier(tangents=tangents, sides="query").fit(X[:100], y[:100])
    assert (model.sides_, model.spring_) == ("query", 1e-5)
    model = Classifier(tangents=tangents, spring=0.2).fit(X[:100], y[:100])
    assert (model.sides_, model.spring_) == ("both", 0.2)


@pytest.mark.parametrize("Classifier", CLASSIFIERS)
def test_a_direction_that_tells_classes_apart_is_left_out(Classifier):
    rng = np.random.default_rng(0)
    late = np.repeat([0.3, 0.33], 60) + rng.normal(0, 0.004, 120)
    X = np.exp(-(((AT - late[:, None]) / 0.1) ** 2))
    X += rng.normal(0, 0.02, X.shape) + rng.normal(0, 1, (120, 1))
    y = np.repeat([0, 1], 60)
    model = Classifier(tangents=SignalTangents(["shift", "offset"]))
    model.fit(X[::2], y[::2])
    assert model.input_tangents_.directions == ("offset",)
    assert model.score(X[1::2], y[1::2]) > 0.95


def margins_of(d2, y, groups):
    """Relative margins by the nearest of the others, in plain loops."""
    margins = []
    for i in range(len(y)):
        others = [j for j in range(len(y)) if groups[j] != groups[i]]
        own = min(d2[i, j] for j in others if y[j] == y[i])
        wrong = min(d2[i, j] for j in others if y[j] != y[i])
        margins.append((wrong - own) / (wrong + own))
    return np.array(margins)


def losses_of(margins, weights):
    """Logistic losses, with the temperature that is best with one mistake more."""

    def total(T):
        more = np.log1p(np.exp(0.5 / T))
        return weights @ np.log1p(np.exp(-margins / T)) + more

    T = min(np.geomspace(0.01, 30, 20), key=total)
    return np.log1p(np.exp(-margins / T))


def first_that_serves(losses, weights, deviations):
    totals = [weights @ found for found in losses]
    best = int(np.argmin(totals))
    for k, found in enumerate(losses):
        gains = weights * (found - losses[best])
        clear = deviations * np.sqrt((gains**2).sum()) + 0.01 * totals[best]
        if gains.sum() <= clear:
            return k
    raise AssertionError("the best is no worse than itself")


@pytest.mark.parametrize("seed", range(8))
def test_the_rule(seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(40) % 3)
    late = 0.3 + 0.1 * y + rng.normal(0, 0.05 * (seed % 4), 40)
    X = np.exp(-(((np.linspace(0, 1, 12) - late[:, None]) / 0.2) ** 2))
    X += rng.normal(0, 0.1, X.shape) + rng.normal(0, 0.2 * (seed % 3), (40, 1))
    X[:5], y[:5] = X[5:10], y[5:10]
    groups = np.r_[np.arange(5, 10), np.arange(5, 40)]
    weights = rng.uniform(0.5, 1, 40)
    weights /= weights.mean()

    def losses(names, sides, spring):
        d2 = ((X[:, None] - X) ** 2).sum(axis=2)
        if spring is not None:
            ends = {"tangents": SignalTangents(names), "sides": sides}
            d2 = tangent_distances(X, spring=spring, **ends)
        return losses_of(margins_of(d2, y, groups), weights)

    names = ["shift", "offset", "slope"]
    ladder = [("both", k) for k in (None, 1.0, 0.3, 0.1, 0.03)]
    ladder += [("reference", 1e-5), ("both", 1e-5)]
    every = [losses(names, *end) for end in ladder]
    sides, spring = ladder[first_that_serves(every, weights, 0.5)]
    while spring is not None and len(names) > 1:
        rest = [[name for name in names if name != gone] for gone in names]
        every = [losses(some, sides, spring) for some in [names, *rest]]
        best = int(np.argmin([weights @ found for found in every]))
        if first_that_serves([every[0], every[best]], weights, 2.0) == 0:
            break
        names = rest[best - 1]
    samples = Samples(X, y, weights, np.arange(3), np.arange(40))
    metric = TangentMetric(SignalTangents(["shift", "offset", "slope"])).fit(X)
    found = suited_metric(metric, samples, "auto")
    if spring is None:
        assert not found.has_tangents
    else:
        assert (found.sides, found.spring) == (sides, spring)
        assert list(found.tangents.directions) == names


def test_groups_are_left_out_whole():
    X, y = spectra(8, 2)
    twice = X + 1e-6 * np.random.default_rng(0).normal(size=X.shape)
    both, labels = np.concatenate([X, twice]), np.r_[y, y]
    # With its double among the others every sample is right however ends move.
    model = TangentDensityClassifier(tangents=POWDER)
    model.fit(both, labels, groups=np.r_[np.arange(24), np.arange(24)])
    assert model.sides_ == "reference"
