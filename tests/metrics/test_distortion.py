"""Contract tests: one line in METRICS gets a distortion model tested."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from tests.metrics import oracle

from widemargin.metrics import (
    image_distortion_distances,
    pseudo_2d_distortion_distances,
)

METRICS = [
    (image_distortion_distances, oracle.distortion),
    (pseudo_2d_distortion_distances, oracle.pseudo_2d),
]
EACH = pytest.mark.parametrize(("metric", "slow"), METRICS)


def noise(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@EACH
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from([(4, 4), (3, 5), (5, 2)]),
    reach=st.sampled_from([(1, 1), (1, 0), (0, 1)]),  # each is compiled
    eps=st.sampled_from([None, 0.2]),
    penalty=st.sampled_from([0.0, 0.3]),
    background=st.sampled_from([0.0, -1.0]),
)
def test_the_formula(metric, slow, seed, shape, reach, eps, penalty, background):
    window, patch = reach
    X, Y = noise(2, *shape, seed=seed), noise(1, *shape, seed=seed + 1)
    moves = {"penalty": penalty} if metric is image_distortion_distances else {}
    found = metric(
        X.reshape(2, -1), Y.reshape(1, -1), shape=shape, window=window, patch=patch,
        background=background, **moves, eps=eps or 0.1,
        gradients="sobel" if eps is None else "normalised",
    )  # fmt: skip
    expected = [
        [slow(x, Y[0], window, patch, background=background, eps=eps, **moves)]
        for x in X
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@EACH
@pytest.mark.parametrize(
    ("shape", "window", "patch"), [((3, 40), 1, 1), ((4, 3), 2, 2), ((3, 9), 1, 3)]
)
def test_rows_of_many_strips_and_wide_patches(metric, slow, shape, window, patch):
    X, Y = noise(1, *shape), noise(1, *shape, seed=1)
    options = {"window": window, "patch": patch}
    found = metric(X.reshape(1, -1), Y.reshape(1, -1), shape=shape, **options)
    if metric is pseudo_2d_distortion_distances and shape[1] > 5:
        # Too many paths to try: one after the other instead.
        expected = by_steps(X[0], Y[0], **options)
    else:
        expected = slow(X[0], Y[0], **options)
    np.testing.assert_allclose(found, [[expected]], rtol=1e-9)


def by_steps(x, y, window, patch):
    """Run both dynamic programs of the pseudo two-dimensional model as written."""
    cost, moves = oracle.patch_cost(x, y, patch), range(2 * window + 1)

    def least(values, k):
        return min(values[max(0, k - 1) : k + 2])

    def near(i, j, a, b):
        return min(cost(i, j, a - window, b + e - window) for e in (-1, 0, 1))

    E = [0.0] * len(moves)
    for j in range(x.shape[1]):
        columns = []
        for b in moves:
            D = [0.0] * len(moves)
            for i in range(x.shape[0]):
                D = [near(i, j, a, b) + least(D, a) for a in moves]
            columns.append(min(D))
        E = [columns[b] + least(E, b) for b in moves]
    return min(E)


@EACH
def test_wider_windows_are_nearer_and_identical_images_at_zero(metric, slow):
    X = np.random.default_rng(0).random((70, 64))
    d0, d1, d2 = (metric(X, shape=(8, 8), window=w, n_jobs=2) for w in range(3))
    assert (d2 <= d1).all()
    assert (d1 <= d0).all()
    np.testing.assert_array_equal(np.diag(d1), 0)
    # Row and column blocks are 64: all pairs, not only the first block.
    assert (d0[np.triu_indices(70, 1)] > 0).all()


def test_neighbours_that_move_alike_are_no_nearer():
    X = np.random.default_rng(1).random((20, 64))
    alike = pseudo_2d_distortion_distances(X, shape=(8, 8), window=1)
    alone = image_distortion_distances(X, shape=(8, 8), window=2)
    assert (alike >= alone - 1e-12).all()


@EACH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_and_chunks_do_not_change_a_bit(metric, slow, dtype):
    X, Y = noise(70, 30, dtype=dtype), noise(130, 30, dtype=dtype, seed=1)
    alone = metric(X, Y, shape=(6, 5))
    assert alone.dtype == dtype
    np.testing.assert_array_equal(metric(X, Y, shape=(6, 5), n_jobs=2), alone)
    with config_context(working_memory=0.05):
        np.testing.assert_array_equal(metric(X, Y, shape=(6, 5)), alone)


@EACH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eps", [0.1, 1e-30])
def test_constant_images_have_no_edges(metric, slow, dtype, eps):
    X = np.ones((2, 36), dtype) * np.array([[1], [3]], dtype)
    options = {"shape": (6, 6), "gradients": "normalised", "eps": eps}
    inside = metric(X, X, background=1.0, **options)
    assert np.isfinite(inside).all()
    assert inside[0, 0] == inside[1, 1] == 0
    assert inside[1, 0] > 0


@EACH
def test_normalised_gradients_hardly_see_contrast(metric, slow):
    X = np.zeros((2, 8, 8))
    X[:, 2:6, 2:6] = [[[1.0]], [[0.6]]]
    X = X.reshape(2, 64)
    by = {
        kind: metric(X, shape=(8, 8), gradients=kind, eps=0.01)[0, 1]
        for kind in ("sobel", "normalised")
    }
    assert by["normalised"] < 0.1 * by["sobel"]


def test_a_penalty_keeps_pixels_where_they_are():
    X, Y = noise(5, 36), noise(4, 36, seed=1)
    stay = image_distortion_distances(X, Y, shape=(6, 6), window=0)
    stiff = image_distortion_distances(X, Y, shape=(6, 6), penalty=1e6)
    np.testing.assert_allclose(stiff, stay)


@EACH
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": (5, 5)}, "shape=.5, 5. has 25 pixels"),
        ({"shape": 8}, "needs shape=.height, width."),
        ({"shape": (8, 8), "window": -1}, "window must be an integer"),
        ({"shape": (2, 32), "window": 3}, "window must be at most 2 for images of"),
        ({"shape": (8, 8), "patch": 1.5}, "patch must be an integer"),
        ({"shape": (8, 8), "patch": 9}, "patch must be at most 8"),
        ({"shape": (8, 8), "background": np.nan}, "background must be a finite"),
        ({"shape": (8, 8), "background": "0"}, "background must be a finite"),
        ({"shape": (8, 8), "gradients": "unit"}, "gradients must be one of"),
        ({"shape": (8, 8), "eps": 0}, "eps must be a finite number above 0"),
    ],
)
def test_bad_parameters(metric, slow, settings, message):
    with pytest.raises(ValueError, match=message):
        metric(np.ones((2, 64)), **settings)


def test_a_penalty_is_no_reward():
    with pytest.raises(ValueError, match="penalty must be a finite number"):
        image_distortion_distances(np.ones((2, 64)), shape=(8, 8), penalty=-1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "distances", [image_distortion_distances, pseudo_2d_distortion_distances]
)
def test_a_background_whose_square_is_no_number_is_refused(distances, dtype):
    X = np.array([[10000.5], [9999.9]], dtype)
    with pytest.raises(ValueError, match="background must be"):
        distances(X, shape=(1, 1), window=0, patch=1, background=1e300)
    assert np.isfinite(distances(X, shape=(1, 1), window=0, patch=1)).all()
