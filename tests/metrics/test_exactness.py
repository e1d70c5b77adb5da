"""Distances are right to their promise, of any finite input, in any company."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tests.metrics.oracle import all_pairs

from widemargin._core.checks import SIZES
from widemargin.metrics import TangentMetric, tangent_alignment, tangent_distances
from widemargin.tangents import Bundle, ImageTangents, orthonormalize

# A frame of three tangents in four dimensions may well hold the samples themselves.
pytestmark = pytest.mark.filterwarnings("ignore:.*span of their own tangents")

SIDES = st.sampled_from(["query", "reference", "both", "mean"])
DTYPES = st.sampled_from([np.float32, np.float64])
SEEDS = st.integers(0, 2**20)


def bundles(seed, dtype, log_parallel, log_spread, n=6):
    """Points near each other whose frames may be nearly parallel."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([4, 16, 64]))
    n_tangents = int(rng.integers(1, min(8, d)))
    common, base = rng.normal(size=(n_tangents, d)), rng.normal(size=d)
    for _ in range(2):
        noise = rng.normal(size=(n, n_tangents, d))
        frames = orthonormalize((common + 10.0**log_parallel * noise).astype(dtype))
        points = base + 10.0**log_spread * rng.normal(size=(n, d))
        yield Bundle(points.astype(dtype), frames)


@settings(max_examples=80, deadline=None)
@given(
    seed=SEEDS,
    dtype=DTYPES,
    sides=SIDES,
    # Beyond 1e-4 frames agree to what a spring of 0 takes for one direction.
    log_parallel=st.floats(-4, 0.5),
    log_spread=st.floats(-4, 0),
    spring=st.sampled_from([0.0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-2]),
)
def test_relative_error_keeps_its_promise(
    seed, dtype, sides, log_parallel, log_spread, spring
):
    x, y = bundles(seed, dtype, log_parallel, log_spread)
    found = TangentMetric(None, sides, spring).squared_distances(x, y)
    expected = all_pairs(x.points, x.frames, y.points, y.frames, sides, spring)
    # The oracle's own rounding, where hardly anything is left.
    euclid = ((x.points[:, None].astype(float) - y.points) ** 2).sum(-1)
    rtol = 1e-3 if dtype == np.float32 else 1e-6
    assert_array_equal(np.abs(found - expected) <= rtol * expected + 1e-11 * euclid, 1)


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    dtype=DTYPES,
    log_parallel=st.floats(-4, 0.5),
    log_spread=st.floats(-4, 0),
    spring=st.sampled_from([0.0, 1e-9, 1e-7, 1e-5, 1e-2]),
)
def test_alone_as_in_a_batch_and_as_aligned(
    seed, dtype, log_parallel, log_spread, spring
):
    x, y = bundles(seed, dtype, log_parallel, log_spread)
    metric = TangentMetric(None, "both", spring)
    batch = np.diag(metric.squared_distances(x, y))
    alone = [metric.squared_distances(x[i], y[i])[0, 0] for i in range(len(x))]
    aligned = tangent_alignment(x, y, spring=spring)
    euclid = ((x.points.astype(float) - y.points) ** 2).sum(1)
    rtol = 2e-3 if dtype == np.float32 else 2e-6
    slack = 1e-11 * euclid
    for other in (alone, aligned.squared_distances):
        assert (np.abs(other - batch) <= rtol * batch + slack).all()
    assert (aligned.squared_distances <= euclid * (1 + 1e-6)).all()
    # The residual is what is left of the moves it names.
    moves = (x.points - y.points).astype(float)
    moves += np.einsum("nl,nld->nd", aligned.x_coefficients, x.frames.astype(float))
    moves -= np.einsum("nl,nld->nd", aligned.y_coefficients, y.frames.astype(float))
    size = np.linalg.norm(aligned.x_coefficients, axis=1, keepdims=True)
    rounding = np.finfo(dtype).eps * 16 * (size + np.sqrt(euclid)[:, None])
    assert (np.abs(moves - aligned.residual) <= rounding).all()


def test_pairs_whose_tangents_reach_everything_are_aligned():
    x, y = bundles(22070, np.float32, 0.0, 0.0)
    assert x.n_tangents + y.n_tangents == x.n_features
    aligned = tangent_alignment(x, y, spring=0.0)
    assert not aligned.squared_distances.any()
    assert not aligned.residual.any()


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    dtype=DTYPES,
    sides=SIDES,
    spring=st.sampled_from([0.0, 1e-8, 1e-5]),
    n_tangents=st.integers(1, 24),
    missing=st.integers(0, 5),
)
def test_many_dependent_tangents_give_no_nan(
    seed, dtype, sides, spring, n_tangents, missing
):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(2, 5, 24)).astype(dtype)
    T, S = rng.normal(size=(2, 5, n_tangents, 24)).astype(dtype)
    S[:, rng.integers(n_tangents, size=missing)] = 0
    S[:, 0] = 1
    found = tangent_distances(
        X, Y, X_tangents=T, Y_tangents=S, spring=spring, sides=sides
    )
    U, V = orthonormalize(T), orthonormalize(S)
    expected = all_pairs(X, U, Y, V, sides, spring)
    assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    dtype=DTYPES,
    sides=st.sampled_from(["query", "reference", "both", "mean", "midpoint"]),
    exponent=st.integers(-190, 190),
)
def test_any_unit_will_do(seed, dtype, sides, exponent):
    X = np.random.default_rng(seed).normal(size=(5, 16))
    with np.errstate(over="ignore", under="ignore"):
        scaled = (X * 2.0**exponent).astype(dtype)
    smallest, largest = SIZES[np.dtype(dtype)]
    if not smallest <= np.abs(scaled).max() <= largest:
        return
    options = {"tangents": ImageTangents((4, 4)), "sides": sides}
    expected = np.sqrt(tangent_distances(X, **options)) * 2.0**exponent
    found = tangent_distances(scaled, squared=False, **options)
    rtol = 1e-3 if dtype == np.float32 else 1e-7
    assert_allclose(found, expected, rtol=rtol, atol=0)
    squares = tangent_distances(scaled, **options)
    assert_allclose(np.sqrt(squares.astype(float)), expected, rtol=rtol, atol=0)


@pytest.mark.parametrize("sides", ["both", "query", "midpoint"])
@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e11), (np.float32, 1e-11)])
def test_alignments_and_midpoints_of_any_unit(dtype, scale, sides):
    X, Y = np.random.default_rng(0).normal(size=(2, 5, 16))
    options = {"tangents": ImageTangents((4, 4)), "sides": sides}
    small, large = X.astype(dtype), (X * scale).astype(dtype)
    expected = tangent_alignment(small, Y.astype(dtype), **options)
    found = tangent_alignment(large, (Y * scale).astype(dtype), **options)
    assert_allclose(
        np.sqrt(found.squared_distances.astype(float)) / scale,
        np.sqrt(expected.squared_distances),
        rtol=1e-3,
    )
    all_pairs = tangent_distances(large, (Y * scale).astype(dtype), **options)
    assert_allclose(np.diag(all_pairs), found.squared_distances, rtol=2e-3)
