import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from widemargin.metrics import tangent_alignment, tangent_distances
from widemargin.tangents import ImageTangents, orthonormalize


def pairs(seed, n=6, l_x=3, l_y=2, d=12, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(2, n, d)).astype(dtype)
    U = orthonormalize(rng.normal(size=(n, l_x, d)).astype(dtype))
    V = orthonormalize(rng.normal(size=(n, l_y, d)).astype(dtype))
    return X, U, Y, V


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    sides=st.sampled_from(["query", "reference", "both"]),
    spring=st.sampled_from([0.0, 1e-5, 0.4]),
)
def test_moves_explain_the_distance(seed, sides, spring):
    X, U, Y, V = pairs(seed)
    found = tangent_alignment(
        X, Y, X_tangents=U, Y_tangents=V, sides=sides, spring=spring
    )
    expected = tangent_distances(
        X, Y, X_tangents=U, Y_tangents=V, sides=sides, spring=spring
    )
    assert_allclose(found.squared_distances, np.diag(expected), rtol=1e-8)
    assert_allclose(found.residual, found.x_aligned - found.y_aligned, atol=1e-12)
    moved = X + np.einsum("nl,nld->nd", found.x_coefficients, found.x_frames)
    assert_allclose(found.x_aligned, moved)
    moved = Y + np.einsum("nl,nld->nd", found.y_coefficients, found.y_frames)
    assert_allclose(found.y_aligned, moved)
    assert found.x_coefficients.shape == (6, 0 if sides == "reference" else 3)
    assert found.y_coefficients.shape == (6, 0 if sides == "query" else 2)


@pytest.mark.parametrize("sides", ["query", "reference", "both"])
def test_no_move_is_better(sides):
    X, U, Y, V = pairs(1)
    spring = 0.1
    found = tangent_alignment(
        X, Y, X_tangents=U, Y_tangents=V, sides=sides, spring=spring
    )
    rng = np.random.default_rng(0)
    for _ in range(20):
        p = found.x_coefficients + 0.1 * rng.normal(size=found.x_coefficients.shape)
        q = found.y_coefficients + 0.1 * rng.normal(size=found.y_coefficients.shape)
        residual = X - Y
        residual = residual + np.einsum("nl,nld->nd", p, found.x_frames)
        residual = residual - np.einsum("nl,nld->nd", q, found.y_frames)
        energy = (residual**2).sum(1) + spring * ((p**2).sum(1) + (q**2).sum(1))
        assert (energy > found.squared_distances).all()


@pytest.mark.parametrize("sides", ["reference", "both"])
def test_residual_is_the_gradient(sides):
    """Envelope theorem, by finite differences on the point and the raw tangents."""
    X, U, Y, V = pairs(2, n=1)
    options = {"X_tangents": U, "sides": sides, "spring": 0.0}

    def d2(point, tangents):
        return tangent_distances(X, point, Y_tangents=tangents, **options)[0, 0]

    found = tangent_alignment(X, Y, Y_tangents=V, **options)
    step = 1e-6
    for i in range(X.shape[1]):
        shift = np.zeros_like(Y)
        shift[0, i] = step
        slope = (d2(Y + shift, V) - d2(Y - shift, V)) / (2 * step)
        assert_allclose(slope, -2 * found.residual[0, i], atol=1e-6)
        for k in range(V.shape[1]):
            frame, bend = found.y_frames, np.zeros_like(V)
            bend[0, k, i] = step
            slope = (d2(Y, frame + bend) - d2(Y, frame - bend)) / (2 * step)
            expected = -2 * found.y_coefficients[0, k] * found.residual[0, i]
            assert_allclose(slope, expected, atol=1e-6)


def test_identical_samples_stay_put():
    X, U, _, _ = pairs(3, dtype=np.float32)
    found = tangent_alignment(X, X, X_tangents=U, Y_tangents=U)
    assert found.residual.dtype == np.float32
    assert_array_equal(found.squared_distances, 0)
    assert_array_equal(found.x_aligned, X)


def test_a_shared_direction_needs_no_spring():
    X, U, Y, _ = pairs(4)
    found = tangent_alignment(X, Y, X_tangents=U, Y_tangents=U, spring=0.0)
    one = tangent_distances(X, Y, Y_tangents=U, sides="reference", spring=0.0)
    assert_allclose(found.squared_distances, np.diag(one))
    assert_allclose(found.y_coefficients, 0, atol=1e-8)


def test_midpoint_moves_both_ends_by_half():
    rng = np.random.default_rng(5)
    X, Y = rng.random((2, 4, 36))
    options = {"tangents": ImageTangents(shape=(6, 6)), "sides": "midpoint"}
    for spring in (1e-5, 0.3):
        found = tangent_alignment(X, Y, spring=spring, **options)
        expected = tangent_distances(X, Y, spring=spring, **options)
        assert_allclose(found.squared_distances, np.diag(expected))
        assert_allclose(found.x_aligned - X, Y - found.y_aligned)


def test_bad_input_is_named():
    X, U, Y, V = pairs(6)
    with pytest.raises(ValueError, match="X has 6 samples and Y has 5"):
        tangent_alignment(X, Y[:5], tangents=np.ones((1, 12)))
    with pytest.raises(
        ValueError, match="sides must be one of 'query', 'reference', 'both', 'mid"
    ):
        tangent_alignment(X, Y, X_tangents=U, Y_tangents=V, sides="mean")
