"""Contract tests: one line in METRICS gets a distance tested against its oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances
from tests.metrics import oracle

from widemargin.metrics import tangent_distances
from widemargin.tangents import Bundle, ImageTangents, orthonormalize

# name, symmetric in its two ends
METRICS = [("query", False), ("reference", False), ("both", True), ("mean", True)]
NAMES = [name for name, _ in METRICS]
SPRINGS = [0.0, 1e-5, 0.3]
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-9}


def samples(seed, n, l, d, dtype=np.float64):  # noqa: E741
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    frames = orthonormalize(rng.normal(size=(n, l, d)).astype(dtype))
    return X, frames


def distances(X, U, Y, V, sides, **options):
    return tangent_distances(X, Y, X_tangents=U, Y_tangents=V, sides=sides, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spring", SPRINGS)
@pytest.mark.parametrize("sides", NAMES)
def test_equals_least_squares(sides, spring, dtype):
    X, U = samples(0, 7, 3, 12, dtype)
    Y, V = samples(1, 70, 4, 12, dtype)
    expected = oracle.all_pairs(X, U, Y, V, sides, spring)
    found = distances(X, U, Y, V, sides, spring=spring)
    assert found.dtype == dtype
    assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@settings(max_examples=40, deadline=None)
@given(
    n_x=st.integers(1, 6),
    n_y=st.integers(1, 6),
    l_x=st.integers(0, 6),
    l_y=st.integers(0, 6),
    d=st.integers(1, 8),
    spring=st.sampled_from(SPRINGS),
    sides=st.sampled_from(NAMES),
    seed=st.integers(0, 2**16),
)
def test_any_shape_equals_least_squares(n_x, n_y, l_x, l_y, d, spring, sides, seed):
    X, U = samples(seed, n_x, l_x, d)
    Y, V = samples(seed + 1, n_y, l_y, d)
    expected = oracle.all_pairs(X, U, Y, V, sides, spring)
    # Full rank at both ends leaves nothing: an absolute tolerance decides there.
    assert_allclose(
        distances(X, U, Y, V, sides, spring=spring), expected, rtol=1e-7, atol=1e-8
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**16), spring=st.sampled_from(SPRINGS))
def test_two_sided_below_one_sided_below_euclid(seed, spring):
    X, U = samples(seed, 5, 2, 9)
    Y, V = samples(seed + 1, 6, 3, 9)
    by = {name: distances(X, U, Y, V, name, spring=spring) for name in NAMES}
    slack = 1e-9
    assert (by["both"] <= np.minimum(by["query"], by["reference"]) + slack).all()
    assert (by["mean"] <= np.maximum(by["query"], by["reference"]) + slack).all()
    assert (by["mean"] >= np.minimum(by["query"], by["reference"]) - slack).all()
    euclid = euclidean_distances(X, Y, squared=True)
    assert (np.maximum(by["query"], by["reference"]) <= euclid + slack).all()


@pytest.mark.parametrize("sides", NAMES)
def test_a_stiff_spring_gives_euclid(sides):
    X, U = samples(3, 5, 2, 9)
    Y, V = samples(4, 6, 3, 9)
    found = distances(X, U, Y, V, sides, spring=1e9)
    assert_allclose(found, euclidean_distances(X, Y, squared=True), rtol=1e-7)


@pytest.mark.parametrize(
    ("sides", "moving"),
    [("query", "query"), ("both", "query"), ("reference", "reference")],
)
def test_invariant_to_moves_along_the_own_frame(sides, moving):
    X, U = samples(5, 6, 3, 10)
    Y, V = samples(6, 6, 2, 10)
    before = distances(X, U, Y, V, sides, spring=0.0)
    rng = np.random.default_rng(0)
    if moving == "query":
        X = X + np.einsum("nl,nld->nd", rng.normal(size=(6, 3)), U)
    else:
        Y = Y + np.einsum("nl,nld->nd", rng.normal(size=(6, 2)), V)
    assert_allclose(distances(X, U, Y, V, sides, spring=0.0), before, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("sides", "symmetric"), METRICS)
def test_of_one_set_with_itself(sides, symmetric, dtype):
    X, U = samples(7, 300, 3, 8, dtype)
    X[5], U[5] = X[200], U[200]
    found = tangent_distances(X, X_tangents=U, sides=sides)
    assert_array_equal(np.diag(found), 0)
    assert found[5, 200] == found[200, 5] == 0
    assert (found >= 0).all()
    both = distances(X, U, X, U, sides)
    rounding = 1e-3 if dtype == np.float32 else 1e-12
    assert_allclose(found, both, rtol=rounding, atol=rounding)
    if symmetric:
        assert_array_equal(found, found.T)


@pytest.mark.parametrize("sides", NAMES)
def test_no_cancellation_far_from_the_origin(sides):
    """Nearly equal float32 points with large norms: expansion alone gives noise."""
    X, U = samples(8, 4, 2, 64, np.float32)
    X = X * 100
    Y = X + np.float32(1e-3) * samples(9, 4, 1, 64, np.float32)[0]
    V = samples(10, 4, 2, 64, np.float32)[1]
    expected = oracle.all_pairs(X, U, Y, V, sides, 1e-5)
    found = distances(X, U, Y, V, sides)
    assert_allclose(np.diag(found), np.diag(expected), rtol=1e-4)


def test_directions_common_to_both_ends():
    """A constant tangent at every sample makes S singular but for the spring."""
    for dtype, rtol in ((np.float32, 1e-5), (np.float64, 1e-9)):
        X, U = samples(11, 20, 3, 16, dtype)
        Y, V = samples(12, 30, 3, 16, dtype)
        U[:, 0] = V[:, 0] = 1
        U, V = orthonormalize(U), orthonormalize(V)
        for spring in SPRINGS:
            expected = oracle.all_pairs(X, U, Y, V, "both", spring)
            found = distances(X, U, Y, V, "both", spring=spring)
            assert_allclose(found, expected, rtol=rtol)


@pytest.mark.parametrize("sides", ["both", "mean", "reference"])
@pytest.mark.parametrize("spring", [0.0, 1e-5, 0.5])
def test_one_frame_shared_by_all(sides, spring):
    X, U = samples(13, 5, 3, 10)
    Y, _ = samples(14, 6, 3, 10)
    found = tangent_distances(X, Y, tangents=U[0], sides=sides, spring=spring)
    expected = oracle.all_pairs(X, [U[0]] * 5, Y, [U[0]] * 6, sides, spring)
    assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("sides", NAMES)
def test_threads_and_chunks_do_not_change_a_bit(sides):
    X, U = samples(15, 150, 7, 20, np.float32)
    Y, V = samples(16, 700, 7, 20, np.float32)
    alone = distances(X, U, Y, V, sides)
    assert_array_equal(distances(X, U, Y, V, sides, n_jobs=2), alone)
    with config_context(working_memory=64):
        assert_array_equal(distances(X, U, Y, V, sides, n_jobs=3), alone)
    with config_context(working_memory=0.05):
        assert_allclose(distances(X, U, Y, V, sides), alone, rtol=1e-4, atol=1e-4)


def test_square_root():
    X, U = samples(17, 5, 2, 6)
    squared = tangent_distances(X, X_tangents=U)
    assert_allclose(tangent_distances(X, X_tangents=U, squared=False) ** 2, squared)


def test_bundles_generators_and_arrays_agree():
    rng = np.random.default_rng(18)
    X, Y = rng.random((4, 64)), rng.random((5, 64))
    generator = ImageTangents(shape=(8, 8))
    expected = tangent_distances(X, Y, tangents=generator)
    raw = {"X_tangents": generator.tangents(X), "Y_tangents": generator.tangents(Y)}
    assert_allclose(tangent_distances(X, Y, **raw), expected, atol=1e-9)
    bundles = tangent_distances(generator.bundle(X), generator.bundle(Y))
    assert_array_equal(bundles, expected)
    mixed = tangent_distances(X, Y, tangents=generator, Y_tangents=raw["Y_tangents"])
    assert_allclose(mixed, expected, atol=1e-9)


@pytest.mark.parametrize("sides", NAMES)
@pytest.mark.parametrize("kind", ["integer", "read-only", "fortran", "strided"])
def test_unusual_arrays_simply_work(sides, kind):
    X, U = samples(19, 6, 2, 9)
    X = np.round(X * 10)
    expected = tangent_distances(X, X_tangents=U, sides=sides)
    if kind == "integer":
        X = X.astype(int)
    elif kind == "read-only":
        X.setflags(write=False)
        U.setflags(write=False)
    elif kind == "fortran":
        X, U = np.asfortranarray(X), np.asfortranarray(U)
    else:
        X, U = np.repeat(X, 2, axis=1)[:, ::2], np.repeat(U, 2, axis=0)[::2]
    assert_allclose(tangent_distances(X, X_tangents=U, sides=sides), expected)


def test_blank_images_warn_once_when_two_sided():
    X = np.random.default_rng(20).random((3, 64))
    X[1] = 0
    generator = ImageTangents(shape=(8, 8))
    with pytest.warns(
        UserWarning, match="1 of 3 samples in X have no tangents"
    ) as all_:
        found = tangent_distances(X, tangents=generator)
    assert len(all_) == 1
    assert np.isfinite(found).all()
    one = tangent_distances(X, tangents=generator, sides="reference")
    assert_allclose(one[:, 1], ((X - X[1]) ** 2).sum(1))


def test_more_tangents_than_features_leave_nothing():
    X, _ = samples(21, 4, 1, 3)
    tangents = np.random.default_rng(0).normal(size=(4, 5, 3))
    found = tangent_distances(X, X_tangents=tangents, spring=0.0)
    assert_allclose(found, 0, atol=1e-12)


def test_rank_deficient_tangents():
    X, U = samples(22, 4, 2, 8)
    doubled = np.concatenate([U, 3 * U[:, :1]], axis=1)
    assert_allclose(
        tangent_distances(X, X_tangents=doubled), tangent_distances(X, X_tangents=U)
    )


BAD = [
    (
        {"sides": "one"},
        "sides must be one of 'query', 'reference', 'both', 'mean', 'midpoint'",
    ),
    ({"spring": -1.0}, "spring"),
    ({"spring": np.inf}, "spring must be a finite number"),
    ({"X_tangents": np.ones((4, 8))[0]}, "X_tangents"),
    ({"X_tangents": np.ones((3, 2, 8))}, "X_tangents.*3 samples"),
    ({"X_tangents": np.ones((4, 2, 7))}, "X_tangents.*7 features"),
    ({"X_tangents": np.full((4, 2, 8), np.nan)}, "X_tangents"),
    ({"X_tangents": None}, "needs tangents at X: pass tangents="),
    ({"Y": np.ones((2, 7))}, "X has 8 features and Y has 7"),
    ({"Y": np.ones((0, 8))}, "0 sample"),
    ({"Y": np.full((2, 8), np.nan)}, "Y contains NaN"),
    ({"sides": "midpoint"}, "needs a generator"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input_is_named(options, message):
    X, U = samples(23, 4, 2, 8)
    options = {"X_tangents": U, **options}
    with pytest.raises(ValueError, match=message):
        tangent_distances(X, **options)


def test_bundle_of_one_dtype_and_points_of_another():
    X, U = samples(24, 4, 2, 8)
    mixed = tangent_distances(
        Bundle(X.astype(np.float32), U.astype(np.float32)), X, Y_tangents=U
    )
    assert mixed.dtype == np.float64
    assert_allclose(np.diag(mixed), 0, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spring", [0.0, 1e-12, 1e-5])
@pytest.mark.parametrize("scale", [1e-2, 1e-3, 1e-4])
def test_moving_both_ends_is_never_worse_where_frames_are_nearly_parallel(
    scale, spring, dtype
):
    """Frames in float32 are orthonormal to 1e-7, which is all that tells them apart."""
    X = load_digits().data
    X = ((10 * X[0] + scale * X) / 16).astype(dtype)
    two, at_x, at_y = (
        tangent_distances(
            X[300:340], X[:300], tangents=ImageTangents((8, 8)), sides=sides,
            spring=spring,
        ).astype(float)
        for sides in ("both", "query", "reference")
    )  # fmt: skip
    euclid = ((X[300:340, None].astype(float) - X[:300]) ** 2).sum(axis=2)
    rounding = 1e-4 if dtype is np.float32 else 1e-9
    assert (two <= np.minimum(at_x, at_y) + rounding * euclid).all()
    assert (np.maximum(at_x, at_y) <= (1 + rounding) * euclid).all()
