"""Soft LVQ: the published losses, their slopes, and calibrated probabilities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from widemargin._core.decisions import relative_distances
from widemargin._core.temperature import LeftOut
from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    KernelLVQClassifier,
    TVQClassifier,
)
from widemargin.prototypes.base import leave_one_out
from widemargin.prototypes.glvq import SoftLoss, soft_pairs

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


def test_a_class_too_far_to_be_said_is_infinitely_far():
    shares = relative_distances(np.array([[1e-316, 1.0, 3e-316], [1.0, 2.0, 3.0]]))
    np.testing.assert_allclose(
        shares, [[0.25, np.inf, 0.75], [1 / 3, 2 / 3, 1]], rtol=1e-6
    )


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
        assert pairs.C[i, j] == pytest.approx(expected, abs=1e-6)
    up, down = slow(D, kind, T * np.exp(step)), slow(D, kind, T * np.exp(-step))
    assert pairs.slope == pytest.approx((up - down) / (2 * step), rel=1e-5)


def slow_left_out(D, labels, codes, weights):
    """Prototypes as means: of each, the weight it has and that of a sample less."""
    out = D.copy()
    mass = np.zeros(len(labels))
    winners = []
    for d, c, w in zip(D, codes, weights, strict=True):
        own, other = np.flatnonzero(labels == c), np.flatnonzero(labels != c)
        winners.append((own[d[own].argmin()], other[d[other].argmin()]))
        mass[winners[-1][0]] += w
    for i, (near, wrong) in enumerate(winners):
        w, others = weights[i], mass[near] - weights[i]
        out[i, near] *= ((others + w) / others) ** 2
        push = w * min(1, D[i, near] / D[i, wrong])
        out[i, wrong] *= (mass[wrong] / (mass[wrong] + push)) ** 2
    return out


def test_samples_are_left_out_of_their_prototypes():
    labels, many = np.array([0, 1, 2]), rng.uniform(0.5, 3, (40, 3))
    codes, weights = np.arange(40) % 3, rng.uniform(0.5, 2, 40)
    found = leave_one_out(many.copy(), labels, codes, weights)
    np.testing.assert_allclose(found, slow_left_out(many, labels, codes, weights))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_a_mean_without_a_sample_is_as_far_as_said(seed, n):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    far = np.full((n, 1), 1e9)
    D = np.column_stack([((X - X.mean(axis=0)) ** 2).sum(axis=1), far])
    found = leave_one_out(D, np.array([0, 1]), np.zeros(n, int), np.ones(n))
    for i in range(n):
        others = np.delete(X, i, axis=0).mean(axis=0)
        assert found[i, 0] == pytest.approx(((X[i] - others) ** 2).sum())


def test_some_of_the_samples_tell_what_a_prototype_stands_for():
    """Every fourth one; and a model that bends in two directions is held by less."""
    D = np.column_stack([np.ones(10), np.full(10, 1e9)])
    given = (np.array([0, 1]), np.zeros(10, int), np.ones(10))
    found = leave_one_out(D.copy(), *given, share=0.25)
    # Nine others of the ten seen, and half a one, stand for four times as many.
    np.testing.assert_allclose(found[:, 0], (39 / 38) ** 2)
    found = leave_one_out(D.copy(), *given, freedom=3)
    np.testing.assert_allclose(found[:, 0], (10 / 7) ** 2)


@pytest.mark.parametrize("loss", ["rslvq", "cross_entropy"])
def test_temperatures_are_those_of_samples_not_seen(loss):
    """Of classes that overlap: prototypes for every tenth sample fit them too well."""
    draw = np.random.RandomState(0)
    y = draw.randint(0, 3, 3000)
    X = draw.normal(size=(3000, 8)) + 1.2 * np.eye(8)[y]
    model = GLVQClassifier(30, loss=loss, random_state=0).fit(X[:900], y[:900])
    error = calibration_error(model.predict_proba(X[900:]), y[900:])
    # That of the samples as the prototypes have learned them.
    model._calibrate(LeftOut(*model._costs(X[:900]), y[:900], np.ones(900)))
    assert error < 0.1
    assert calibration_error(model.predict_proba(X[900:]), y[900:]) > 3 * error


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
