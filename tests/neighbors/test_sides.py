"""Which end moves by default: what left-out training samples ask for."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from widemargin import TangentDensityClassifier, TangentKNeighborsClassifier
from widemargin.metrics import tangent_distances
from widemargin.metrics.tangent import TangentMetric, helpful_metric
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
    for some in (slice(100), once):
        model = Classifier(tangents=ImageTangents((8, 8))).fit(X[some], y[some])
        assert model.sides_ == "both"
        both = Classifier(tangents=ImageTangents((8, 8)), sides="both")
        both.fit(X[some], y[some])
        np.testing.assert_array_equal(
            model.predict_proba(X[100:200]), both.predict_proba(X[100:200])
        )


def mistakes_of(d2, y, groups):
    """Answer every sample by the nearest of the others, in plain loops."""
    wrong = []
    for i in range(len(y)):
        others = [j for j in range(len(y)) if groups[j] != groups[i]]
        wrong.append(float(y[min(others, key=lambda j: d2[i, j])] != y[i]))
    return np.array(wrong)


@pytest.mark.parametrize("seed", range(6))
def test_the_rule(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=40)
    X = rng.normal(size=(40, 8)) + rng.uniform(0, 2) * np.eye(3, 8)[y]
    X[:5] = X[5:10]
    y[:5] = y[5:10]
    groups = np.r_[np.arange(5, 10), np.arange(5, 40)]
    weights = rng.uniform(0.5, 1, 40)
    tangents = SignalTangents(["shift", "slope"])
    metric = TangentMetric(tangents).fit(X)
    d2 = {
        "both": tangent_distances(X, tangents=tangents),
        "reference": tangent_distances(X, tangents=tangents, sides="reference"),
        "none": ((X[:, None] - X) ** 2).sum(axis=2),
    }
    wrong = {sides: mistakes_of(d, y, groups) for sides, d in d2.items()}
    totals = {sides: weights @ found for sides, found in wrong.items()}
    best = min(totals, key=totals.get)
    gains = weights * (wrong["both"] - wrong[best])
    clear = gains.sum() > np.sqrt((gains**2).sum()) + 0.03 * totals[best]
    assert helpful_metric(metric, X, y, y, weights)[1] == (best if clear else "both")


def test_groups_are_left_out_whole():
    X, y = spectra(8, 2)
    twice = X + 1e-6 * np.random.default_rng(0).normal(size=X.shape)
    both, labels = np.concatenate([X, twice]), np.r_[y, y]
    # With its double among the others every sample is right however ends move.
    model = TangentDensityClassifier(tangents=POWDER)
    model.fit(both, labels, groups=np.r_[np.arange(24), np.arange(24)])
    assert model.sides_ == "reference"
