"""Shifted and stretched signals, and the nearest neighbour among copies."""

import numpy as np
import pytest

from widemargin import TangentKNeighborsClassifier
from widemargin.metrics import tangent_distances
from widemargin.tangents import (
    SignalShift,
    SignalStretch,
    SignalTangents,
    signal_shifts,
)

RNG = np.random.default_rng(0)


def test_shifts_move_channels_alike():
    X = RNG.normal(size=(3, 20, 2))
    flat = X.reshape(3, -1)
    for steps in (-3, 0, 2, 30):
        cyclic = SignalShift(steps, cyclic=True, n_channels=2)(flat)
        np.testing.assert_array_equal(cyclic.reshape(X.shape), np.roll(X, steps, 1))
        found = SignalShift(steps, n_channels=2)(flat).reshape(X.shape)
        for t in range(20):
            np.testing.assert_array_equal(found[:, t], X[:, np.clip(t - steps, 0, 19)])


def test_stretches_are_about_the_middle():
    t = np.linspace(-1, 1, 101)
    X = np.sin(3 * t)[np.newaxis]
    longer = SignalStretch(1.25)(X)
    np.testing.assert_allclose(longer[0], np.sin(3 * t / 1.25), atol=1e-3)
    shorter = SignalStretch(0.8)(X)[0]
    inside = np.abs(t) < 0.8
    np.testing.assert_allclose(shorter[inside], np.sin(3.75 * t[inside]), atol=2e-3)
    assert (shorter[:10] == X[0, 0]).all()
    assert SignalStretch(2.0)([[3.0]]) == 3.0


def test_shifts_spread_evenly():
    steps = [shift.steps for shift in signal_shifts(50, 0.1, n_shifts=100)]
    assert steps == [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]
    assert signal_shifts(50, 0.0) == []
    with pytest.raises(ValueError, match="reach"):
        signal_shifts(50, 1.5)
    with pytest.raises(ValueError, match="n_channels=3"):
        SignalShift(1, n_channels=3)(np.ones((1, 10)))
    with pytest.raises(ValueError, match="factor"):
        SignalStretch(0.0)(np.ones((1, 10)))


def late(n, seed):
    """Pulses of two widths that begin anywhere in a window."""
    rng, t = np.random.default_rng(seed), np.arange(60)
    y = np.arange(n) % 2
    at = rng.uniform(22, 38, (n, 1))
    X = np.exp(-(((t - at) / (2.0 + y[:, np.newaxis])) ** 2))
    return X + rng.normal(0, 0.02, X.shape), y


TANGENTS = SignalTangents("shift", sigma=1.0)
COPIES = signal_shifts(60, 0.2, n_shifts=8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sides", ["both", "reference"])
def test_a_sample_is_as_near_as_the_nearest_of_its_copies(sides, dtype):
    (X, y), (X_new, _) = late(30, 0), late(40, 1)
    X, X_new = X.astype(dtype), X_new.astype(dtype)
    model = TangentKNeighborsClassifier(
        tangents=TANGENTS, sides=sides, transformations=COPIES
    ).fit(X, y)
    D = np.min(
        [
            tangent_distances(X_new, move(X), tangents=TANGENTS, sides=sides)
            for move in [lambda x: x, *COPIES]
        ],
        axis=0,
    )
    distances, indices = model.kneighbors(X_new)
    scale = D.max()
    np.testing.assert_allclose(distances[:, 0] ** 2, D.min(axis=1), atol=1e-5 * scale)
    np.testing.assert_array_equal(model.predict(X_new), y[indices[:, 0]])
    picked = D[np.arange(40), indices[:, 0]]
    np.testing.assert_allclose(picked, D.min(axis=1), atol=1e-5 * scale)


def test_copies_answer_what_moves_beyond_tangents():
    (X, y), (X_new, y_new) = late(6, 0), late(300, 1)
    ends = {"tangents": TANGENTS, "sides": "both"}
    plain = TangentKNeighborsClassifier(**ends).fit(X, y)
    moved = TangentKNeighborsClassifier(**ends, transformations=COPIES)
    assert moved.fit(X, y).score(X_new, y_new) > plain.score(X_new, y_new) + 0.1
    assert moved.score(X_new, y_new) > 0.9


def test_copies_leave_with_their_sample():
    X, _ = late(80, 0)
    y = np.random.default_rng(3).permutation(80) % 2
    model = TangentKNeighborsClassifier(tangents=TANGENTS, transformations=COPIES)
    # Labels mean nothing: were copies there, left-out samples would find themselves.
    assert model.fit(X, y).predict_proba(late(50, 1)[0]).max() < 0.8


def test_copies_of_one_vote_not_together():
    X, y = late(10, 0)
    made = TangentKNeighborsClassifier(3, tangents="none", transformations=COPIES)
    with pytest.raises(ValueError, match="n_neighbors=1"):
        made.fit(X, y)
    made = TangentKNeighborsClassifier(tangents="none", transformations="shift")
    with pytest.raises(ValueError, match="transformations"):
        made.fit(X, y)
    made = TangentKNeighborsClassifier(tangents="none", transformations=COPIES)
    with pytest.raises(ValueError, match="X must be given"):
        made.fit(X, y).kneighbors()
