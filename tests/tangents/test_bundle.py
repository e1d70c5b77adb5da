import pickle

import numpy as np
import pytest

from widemargin.tangents import Bundle, orthonormalize


@pytest.fixture
def tangents():
    return np.random.default_rng(0).normal(size=(6, 2, 5))


@pytest.fixture
def bundle(tangents):
    return Bundle.from_tangents(np.arange(30.0).reshape(6, 5), tangents)


@pytest.fixture
def shared(tangents):
    return Bundle.from_tangents(np.arange(30.0).reshape(6, 5), tangents[0])


def test_from_tangents_orthonormalises(bundle, tangents):
    np.testing.assert_array_equal(bundle.frames, orthonormalize(tangents))
    assert (len(bundle), bundle.n_tangents, bundle.n_features) == (6, 2, 5)
    np.testing.assert_array_equal(bundle.ranks, 2)
    assert not bundle.is_shared


def test_frames_have_the_dtype_of_the_points(tangents):
    X = np.ones((6, 5), np.float32)
    assert Bundle.from_tangents(X, tangents).frames.dtype == np.float32
    assert Bundle.from_tangents(X, tangents[0]).frames.dtype == np.float32
    assert Bundle.from_tangents(X.astype(int), tangents).points.dtype == np.float64


def test_shared_frames_are_stored_once(shared, tangents):
    assert shared.is_shared
    assert shared.frames.strides[0] == 0
    expected = orthonormalize(tangents[:1])[0]
    for i in range(6):
        np.testing.assert_array_equal(shared.frames[i], expected)
    for part in (
        shared[1:4],
        shared[np.array([0, 5, 5])],
        shared[shared.points[:, 0] > 7],
        Bundle.concatenate([shared, shared[:2]]),
        pickle.loads(pickle.dumps(shared)),
    ):
        assert part.is_shared
        np.testing.assert_array_equal(part.frames[-1], expected)
    assert len(pickle.dumps(shared)) < shared.points.nbytes + expected.nbytes + 1000


def test_indexing(bundle):
    for rows in (slice(1, 5, 2), [3, 0], np.array([True, False] * 3), np.arange(2)):
        part = bundle[rows]
        np.testing.assert_array_equal(part.points, bundle.points[rows])
        np.testing.assert_array_equal(part.frames, bundle.frames[rows])
    for i in (2, -1, np.int64(3)):
        np.testing.assert_array_equal(bundle[i].points, bundle.points[[i]])
        np.testing.assert_array_equal(bundle[i].frames, bundle.frames[[i]])
    assert len(bundle[:0]) == 0
    assert len(list(bundle)) == 6
    with pytest.raises(IndexError):
        bundle[6]


def test_concatenate(bundle, shared):
    joined = Bundle.concatenate([bundle, shared[:2]])
    np.testing.assert_array_equal(joined[:6].frames, bundle.frames)
    np.testing.assert_array_equal(joined[6:].frames, shared.frames[:2])
    np.testing.assert_array_equal(joined[6:].points, shared.points[:2])
    assert not joined.is_shared


def test_concatenate_pads_frames_of_fewer_tangents(bundle):
    single = Bundle.from_tangents(np.ones((1, 5)), np.ones((1, 5)))
    joined = Bundle.concatenate([single, bundle])
    assert joined.n_tangents == 2
    np.testing.assert_array_equal(joined.ranks, [1] + [2] * 6)


def test_ranks_count_rows_that_are_not_zero():
    tangents = np.zeros((3, 2, 4))
    tangents[1, 0, 0] = tangents[2, :, 1:3] = 1
    tangents[2, 0, 0] = 1
    bundle = Bundle.from_tangents(np.zeros((3, 4)), tangents)
    np.testing.assert_array_equal(bundle.ranks, [0, 1, 2])
    empty = Bundle(np.zeros((3, 4)), np.zeros((3, 0, 4)))
    np.testing.assert_array_equal(empty.ranks, [0, 0, 0])


def test_rtol_is_checked_and_used(tangents):
    X = np.ones((6, 5))
    nearly = np.repeat(tangents[:, :1], 2, axis=1)
    nearly[:, 1, 0] += 1e-6
    np.testing.assert_array_equal(Bundle.from_tangents(X, nearly).ranks, 2)
    for given in (nearly, nearly[0]):
        np.testing.assert_array_equal(
            Bundle.from_tangents(X, given, rtol=1e-3).ranks, 1
        )
        with pytest.raises(ValueError, match="rtol must be None or a finite number"):
            Bundle.from_tangents(X, given, rtol=-1)


def test_is_frozen_and_has_a_short_repr(bundle):
    with pytest.raises(AttributeError):
        bundle.points = bundle.points
    assert repr(bundle) == "Bundle(n_samples=6, n_tangents=2, n_features=5)"


def test_pickle(bundle):
    again = pickle.loads(pickle.dumps(bundle))
    np.testing.assert_array_equal(again.points, bundle.points)
    np.testing.assert_array_equal(again.frames, bundle.frames)


@pytest.mark.parametrize(
    ("points", "frames", "message"),
    [
        (np.ones(3), np.ones((3, 1, 3)), "points must have shape"),
        (np.ones((3, 3)), np.ones((3, 3)), "frames must have shape"),
        (np.ones((3, 4)), np.ones((2, 1, 4)), r"\(3, 1, 4\)"),
        (np.ones((3, 4)), np.ones((3, 1, 5)), r"\(3, 1, 4\)"),
        (np.ones((3, 4), int), np.ones((3, 1, 4)), "points must be a float32"),
        (np.ones((3, 4)), [[[1.0]]], "frames must be a float32"),
    ],
)
def test_shapes_are_checked(points, frames, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Bundle(points, frames)


def test_concatenate_errors(bundle):
    with pytest.raises(ValueError, match="bundles is empty"):
        Bundle.concatenate([])
    other = Bundle(np.ones((1, 4)), np.ones((1, 0, 4)))
    with pytest.raises(ValueError, match="same number of features; got 4, 5"):
        Bundle.concatenate([bundle, other])
