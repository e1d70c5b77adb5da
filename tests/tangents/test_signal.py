import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.tangents import SignalTangents
from widemargin.tangents.preparing import gaussian_filter

LENGTH = 60


def slope_matrix(length, sigma):
    """Matrix of the linear map of "shift", one column per unit vector."""
    return SignalTangents(sigma=sigma).apply("shift", np.eye(length)).T


LINEAR = ("shift", "scale", "warp", "warp2", "amplitude")


def tangent_of(signal, name, **params):
    return SignalTangents(name, **params).tangents(signal.reshape(1, -1))[0, 0]


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_slopes_are_those_of_weighted_line_fits(sigma):
    signal = np.random.default_rng(0).normal(size=12)
    found = slope_matrix(12, sigma) @ signal
    for i in range(12):
        k = np.arange(12) - i
        weights = np.where(
            np.abs(k) <= np.ceil(4 * sigma), np.exp(-(k**2) / 2 / sigma**2), 0
        )
        expected = np.polyfit(k, signal, 1, w=np.sqrt(weights))[0]
        assert found[i] == pytest.approx(expected, rel=1e-8)


def test_inside_the_signal_slopes_are_gaussian_derivatives():
    weights = gaussian_filter(1.5, 1)
    row = slope_matrix(40, 1.5)[20]
    np.testing.assert_allclose(row[20 - 6 : 20 + 7], weights, atol=1e-15)
    assert np.count_nonzero(row) <= len(weights)


@pytest.mark.parametrize("sigma", [0, 1.0, 3.0])
def test_a_baseline_makes_no_jump_at_the_ends(sigma):
    signal = np.random.default_rng(0).normal(size=LENGTH)
    baseline = 5 + 0.25 * np.arange(LENGTH)
    without = tangent_of(signal, "shift", sigma=sigma)
    found = tangent_of(signal + baseline, "shift", sigma=sigma)
    np.testing.assert_allclose(found, without + 0.25, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("shift", lambda tau, s: 1 + 0 * s),
        ("scale", lambda tau, s: tau),
        ("warp", lambda tau, s: np.sin(np.pi * s)),
        ("warp2", lambda tau, s: np.sin(2 * np.pi * s)),
    ],
)
def test_tangent_is_the_derivative_of_the_moved_signal(name, field):
    u = np.arange(LENGTH, dtype=float)
    displacement = field((u - (LENGTH - 1) / 2) / (LENGTH / 2), u / (LENGTH - 1))
    sigma = 1.2

    def moved(p, variance=9 + sigma**2):
        at = u + p * displacement - 33
        return np.exp(-(at**2) / (2 * variance)) / np.sqrt(variance)

    tangent = tangent_of(moved(0, 9.0), name, sigma=sigma)
    errors = [np.linalg.norm(moved(p) - moved(0) - p * tangent) for p in (1.0, 0.5)]
    assert errors[0] < 0.3 * np.linalg.norm(moved(1.0) - moved(0))
    assert 3.4 < errors[0] / errors[1] < 4.6


def test_warps_vanish_at_the_ends():
    ramp = np.arange(9.0)
    for name in ("warp", "warp2"):
        tangent = tangent_of(ramp, name)
        np.testing.assert_allclose(tangent[[0, -1]], 0, atol=1e-15)
        assert np.abs(tangent).max() == pytest.approx(1, abs=0.05)


def test_baselines_and_amplitude():
    signal = np.random.default_rng(0).normal(size=10)
    centred = np.arange(10) - 4.5
    np.testing.assert_array_equal(tangent_of(signal, "offset"), np.ones(10))
    np.testing.assert_allclose(tangent_of(signal, "slope"), centred / 5)
    curvature = tangent_of(signal, "curvature")
    np.testing.assert_allclose(np.diff(curvature, 2), 2 / 25)
    assert curvature.sum() == pytest.approx(0, abs=1e-14)
    np.testing.assert_array_equal(tangent_of(signal, "amplitude"), signal)


def test_channels_move_together_and_drift_alone():
    channels = np.random.default_rng(0).normal(size=(10, 3))
    generator = SignalTangents(("shift", "slope", "amplitude"), n_channels=3)
    assert generator.n_tangents == 5
    shift, *slopes, amplitude = generator.tangents(channels.reshape(1, -1))[0]
    np.testing.assert_array_equal(amplitude.reshape(10, 3), channels)
    single = SignalTangents("shift")
    for c in range(3):
        expected = single.tangents(channels[:, c].reshape(1, -1))[0, 0]
        np.testing.assert_allclose(shift.reshape(10, 3)[:, c], expected, atol=1e-14)
        expected = np.zeros((10, 3))
        expected[:, c] = (np.arange(10) - 4.5) / 5
        np.testing.assert_allclose(slopes[c].reshape(10, 3), expected)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(2, 30),
    channels=st.integers(1, 3),
    sigma=st.floats(0, 5),
    name=st.sampled_from(LINEAR),
)
def test_adjoint_is_the_transpose(seed, length, channels, sigma, name):
    u, v = np.random.default_rng(seed).normal(size=(2, 2, length * channels))
    generator = SignalTangents(sigma=sigma, n_channels=channels)
    left = np.sum(generator.apply(name, u) * v, axis=1)
    right = np.sum(u * generator.adjoint(name, v), axis=1)
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LINEAR)
def test_tangents_are_the_linear_map(name):
    X = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)
    generator = SignalTangents(name, n_channels=2)
    assert generator.linear_directions == (name,)
    found = generator.apply(name, X)
    assert found.dtype == np.float32
    assert not np.shares_memory(found, X)
    np.testing.assert_array_equal(generator.tangents(X)[:, 0], found)


def test_long_signals_need_no_square_matrix():
    X = np.random.default_rng(0).normal(size=(2, 200_000))
    assert SignalTangents().bundle(X).frames.shape == (2, 2, 200_000)


@pytest.mark.parametrize(
    ("params", "n_features", "message"),
    [
        ({"directions": "spin"}, 9, "directions must be one of 'shift', .*'spin'"),
        ({"n_channels": 2}, 9, "n_channels=2 does not divide the 9 features"),
        ({"n_channels": 0}, 9, "n_channels must be an integer of at least 1"),
        ({"n_channels": 1.0}, 9, "n_channels must be an integer of at least 1"),
        ({"n_channels": 9}, 9, "at least 2 samples of time"),
        ({"sigma": -0.5}, 9, "sigma must be 'auto' or a finite number of at least 0"),
    ],
)
def test_errors_teach(params, n_features, message):
    X = np.zeros((2, n_features))
    for method in ("fit", "tangents", "bundle"):
        with pytest.raises(ValueError, match=message):
            getattr(SignalTangents(**params), method)(X)


def test_baselines_have_no_linear_map():
    with pytest.raises(ValueError, match=r"'offset' .* same for every signal"):
        SignalTangents().apply("offset", np.ones((1, 4)))
