"""Soft LVQ: the published losses, their slopes, and calibrated probabilities."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    KernelLVQClassifier,
    TVQClassifier,
)
from widemargin.prototypes.soft import (
    SoftLoss,
    fitted_temperature,
    probabilities,
    soft_pairs,
)

rng = np.random.RandomState(0)
D = rng.uniform(0.5, 3, (20, 6))
labels = np.array([0, 1, 2, 0, 1, 2])
codes = rng.randint(0, 3, 20)
weights = rng.uniform(0.5, 2, 20)


def slow(D, kind, T):
    """The published costs, sample by sample."""
    total = 0.0
    for d, c, w in zip(D, codes, weights, strict=True):
        shares = np.exp(-d / T)
        combine = np.sum if kind == "rslvq" else np.max
        of_class = [combine(shares[labels == b]) for b in range(3)]
        total -= w * np.log(of_class[c] / np.sum(of_class))
    return total


@pytest.mark.parametrize("kind", ["rslvq", "cross_entropy"])
def test_losses_and_slopes(kind):
    T, step = 0.7, 1e-6
    pairs = soft_pairs(D, labels, codes, weights, SoftLoss(kind, T))
    assert pairs.loss == pytest.approx(slow(D, kind, T))
    for i, j in [(0, 0), (3, 1), (7, 5), (12, 2)]:
        up, down = D.copy(), D.copy()
        up[i, j] += step
        down[i, j] -= step
        expected = (slow(up, kind, T) - slow(down, kind, T)) / (2 * step)
        assert pairs.values[i, j] == pytest.approx(expected, abs=1e-6)
    up, down = slow(D, kind, T * np.exp(step)), slow(D, kind, T * np.exp(-step))
    assert pairs.slope == pytest.approx((up - down) / (2 * step), rel=1e-5)


def test_the_temperature_is_the_likeliest():
    gaps = rng.exponential(size=(4000, 3))
    T = 0.4
    P = probabilities(gaps, T)
    drawn = (P.cumsum(axis=1) > rng.uniform(size=(4000, 1))).argmax(axis=1)
    assert fitted_temperature(gaps, drawn, np.ones(4000)) == pytest.approx(T, rel=0.1)
    scaled = fitted_temperature(100 * gaps, drawn, np.ones(4000))
    assert scaled == pytest.approx(100 * fitted_temperature(gaps, drawn, np.ones(4000)))


def calibration_error(P, y, n_bins=15):
    top, right = P.max(axis=1), P.argmax(axis=1) == y
    bins = np.minimum((top * n_bins).astype(int), n_bins - 1)
    gaps = [
        abs(np.sum(right[bins == b]) - np.sum(top[bins == b])) for b in range(n_bins)
    ]
    return sum(gaps) / len(y)


MODELS = [
    GLVQClassifier(3, loss="rslvq"),
    GLVQClassifier(3, loss="cross_entropy"),
    GLVQClassifier(3, loss="rslvq", temperature=0.5),
    GLVQClassifier(3),
    GMLVQClassifier(2, loss="rslvq"),
    GMLVQClassifier(2, metric="diagonal", loss="cross_entropy"),
    GMLVQClassifier(2, metric="class", n_components=10, loss="rslvq"),
    KernelLVQClassifier(3, loss="rslvq", max_support=200),
    TVQClassifier(1, n_tangents=5, max_iter=20),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_probabilities(model):
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
    model.set_params(random_state=0).fit(X, y)
    P = model.predict_proba(X_test)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(P.argmax(axis=1), model.predict(X_test))
    assert model.score(X_test, y_test) > 0.93
    if isinstance(model.temperature, str):
        assert calibration_error(P, y_test) < 0.04
    np.testing.assert_allclose(model.predict_proba(X_test[:1]), P[:1])


def test_bad_temperatures_are_named():
    X, y = load_iris(return_X_y=True)
    for bad in (0.0, -1, np.nan, "warm", True):
        with pytest.raises(ValueError, match="temperature"):
            GLVQClassifier(temperature=bad).fit(X, y)


def test_batches_have_probabilities_too():
    X, y = load_iris(return_X_y=True)
    model = GLVQClassifier(2, loss="rslvq", random_state=0)
    for rows in np.array_split(np.random.RandomState(0).permutation(150), 3):
        model.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    assert model.predict_proba(X).shape == (150, 3)
    assert model.score(X, y) > 0.8
