"""Convolution features against their formula, one time after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.tangents import ConvolutionFeatures, SignalTangents, pad_series

TAPS = 9


def slow_features(x, features):
    """Sums over time of what lies between thresholds, of one signal (length, C)."""
    z = (x - features.mean_) / features.scale_
    found = []
    for bank in features.banks_:
        signal = np.diff(z, axis=0) if bank.differences else z
        weights = bank.weights.reshape(len(bank.weights), -1, TAPS)
        length, channels = signal.shape
        for kernel in range(len(weights)):
            outputs = np.zeros(length)
            for t in range(length):
                for c in range(channels):
                    for k in range(TAPS):
                        at = t + (k - TAPS // 2) * bank.dilation
                        if 0 <= at < length:
                            outputs[t] += weights[kernel, c, k] * signal[at, c]
            for a, b in zip(bank.low[kernel], bank.high[kernel], strict=True):
                found.append(np.mean(np.clip((outputs - a) / (b - a), 0, 1)))
    return np.array(found)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 30))
def test_the_formula(seed, channels, length):
    X = np.random.default_rng(seed).normal(3, 2, size=(4, length * channels))
    features = ConvolutionFeatures(channels, n_features=300, max_dilations=2)
    found = features.fit_transform(X)
    for x, row in zip(X, found, strict=True):
        expected = slow_features(x.reshape(length, channels), features)
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 2))
def test_pushed_tangents_are_derivatives(seed, channels):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3, 20 * channels))
    T = rng.normal(size=(3, 2, 20 * channels))
    # Thresholds are outputs of the signals that they were taken from.
    others = rng.normal(size=(5, 20 * channels))
    features = ConvolutionFeatures(channels, n_features=300, max_dilations=2)
    features.fit(others)
    h = 1e-8
    for k in range(2):
        step = h * T[:, k]
        moved = features.transform(X + step) - features.transform(X - step)
        found = features.jvp(X, T)[:, k]
        np.testing.assert_allclose(found, moved / (2 * h), rtol=1e-3, atol=1e-4)


def test_tangents_of_many_signals_are_pushed_batch_by_batch(monkeypatch):
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(7, 20)), rng.normal(size=(7, 2, 20))
    features = ConvolutionFeatures(n_features=300, max_dilations=2).fit(X)
    whole = features.jvp(X, T)
    # Two signals at once, and one with its tangents.
    batch = 2 * 84 * 20
    monkeypatch.setattr("widemargin.tangents.convolution_features.AT_ONCE", batch)
    np.testing.assert_allclose(features.jvp(X, T), whole, atol=1e-12)
    assert features.jvp(X, T[:, :0]).shape == (7, 0, whole.shape[2])


@pytest.mark.parametrize("before", [0, 3])
def test_what_is_nan_at_the_ends_is_no_part_of_a_signal(before):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 40))
    features = ConvolutionFeatures(n_features=300, max_dilations=3).fit(X)
    short = rng.normal(size=25)
    row = np.full(40, np.nan)
    row[before : before + 25] = short
    expected = slow_features(short[:, np.newaxis], features)
    np.testing.assert_allclose(features.transform([row])[0], expected, atol=1e-9)
    T = np.full((1, 1, 40), np.nan)
    T[0, 0, before : before + 25] = rng.normal(size=25)
    h = 1e-8
    moved = features.transform([row + h * T[0, 0]]) - features.transform([row])
    np.testing.assert_allclose(features.jvp([row], T)[0], moved / h, atol=1e-3)


def test_thresholds_come_from_signals_and_not_from_what_fills_them_up():
    rng = np.random.default_rng(1)
    series = [rng.normal(size=n) for n in rng.integers(20, 30, 50)]
    wide = ConvolutionFeatures(n_features=300, max_dilations=1)
    wide.fit(pad_series(series, 60))
    narrow = ConvolutionFeatures(n_features=300, max_dilations=1)
    narrow.fit(pad_series(series))
    for one, other in zip(wide.banks_, narrow.banks_, strict=True):
        np.testing.assert_allclose(one.low, other.low, rtol=1e-12)


def test_missing_values_inside_are_interpolated():
    X = np.random.default_rng(2).normal(size=(5, 2 * 30))
    features = ConvolutionFeatures(2, n_features=300, max_dilations=2).fit(X)
    signal = X[0].reshape(30, 2).copy()
    signal[7] = (signal[6] + signal[8]) / 2
    holed = signal.copy()
    holed[7] = np.nan
    found, expected = features.transform([holed.ravel(), signal.ravel()])
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_constant_channels_and_units_of_channels_change_nothing():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6, 30, 3))
    X[:, :, 1] = 7.0
    scaled = X * [1.0, 1.0, 1e3] + [0.0, 5.0, 1e4]
    a, b = (
        ConvolutionFeatures(3, n_features=300).fit_transform(x.reshape(6, -1))
        for x in (X, scaled)
    )
    np.testing.assert_allclose(a, b, atol=1e-8)
    assert np.isfinite(a).all()


def test_features_do_not_depend_on_what_else_is_asked():
    X = np.random.default_rng(4).normal(size=(50, 300)).astype(np.float32)
    features = ConvolutionFeatures(n_features=1000).fit(X[:10])
    found = features.transform(X)
    assert found.dtype == np.float32
    assert (np.abs(found - 0.5) <= 0.5 + 1e-6).all()
    alone = np.vstack([features.transform(X[i : i + 1]) for i in range(50)])
    np.testing.assert_allclose(found, alone, atol=2e-6)


def test_bad_input_is_named():
    series = [np.zeros(5), np.zeros(4)]
    with pytest.raises(ValueError, match="pad_series"):
        ConvolutionFeatures().fit(series)
    with pytest.raises(ValueError, match="does not divide"):
        ConvolutionFeatures(3).fit(np.zeros((2, 10)))
    X = np.random.default_rng(5).normal(size=(3, 12))
    X[1] = np.nan
    with pytest.raises(ValueError, match="Row 1 of X holds NaN only"):
        ConvolutionFeatures().fit(X)
    X[1] = 0.0
    features = ConvolutionFeatures().fit(X)
    with pytest.raises(ValueError, match="tangents must have shape"):
        features.jvp(X, SignalTangents().tangents(X)[:2])
    with pytest.raises(ValueError, match="differ in their channels"):
        pad_series([np.zeros((4, 2)), np.zeros((4, 3))])
    with pytest.raises(ValueError, match="shorter than the longest"):
        pad_series(series, 4)
    with pytest.raises(ValueError, match="at least one"):
        pad_series([])
    for one in (np.True_, 3.0, np.array(2.0)):
        with pytest.raises(ValueError, match="series must be a sequence"):
            pad_series(one)


@parametrize_with_checks([ConvolutionFeatures(n_features=200, max_dilations=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
