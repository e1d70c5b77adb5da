import pickle

import numpy as np
import pytest
from scipy.ndimage import map_coordinates
from sklearn.base import clone

from widemargin.tangents import ImageAffine, ImageShift, image_affines, image_shifts


@pytest.mark.parametrize("down", [-2, -1, 0, 1, 5])
@pytest.mark.parametrize("right", [-1, 0, 3])
def test_pixels_move_and_background_comes_in(down, right):
    X = np.random.default_rng(0).random((2, 12)).astype(np.float32)
    moved = ImageShift((3, 4), down, right, background=-1.0)(X)
    assert moved.dtype == np.float32
    for image, result in zip(X.reshape(2, 3, 4), moved.reshape(2, 3, 4), strict=True):
        for r in range(3):
            for c in range(4):
                inside = 0 <= r - down < 3 and 0 <= c - right < 4
                expected = image[r - down, c - right] if inside else -1.0
                assert result[r, c] == expected


def test_channels_stay_together():
    X = np.arange(24.0).reshape(1, 24)
    moved = ImageShift((2, 4, 3), right=1)(X).reshape(2, 4, 3)
    np.testing.assert_array_equal(moved[:, 1:], X.reshape(2, 4, 3)[:, :-1])
    np.testing.assert_array_equal(moved[:, 0], 0)


def test_all_shifts_but_none():
    shifts = image_shifts((5, 5), 2)
    assert len({(s.down, s.right) for s in shifts}) == 24
    assert (0, 0) not in {(s.down, s.right) for s in shifts}
    straight = image_shifts((5, 5), diagonal=False)
    assert all(s.down == 0 or s.right == 0 for s in straight)
    X = np.random.default_rng(0).random((1, 25))
    again = pickle.loads(pickle.dumps(clone(shifts[0])))
    np.testing.assert_array_equal(again(X), shifts[0](X))


def test_wrong_shape():
    with pytest.raises(ValueError, match=r"shape=.3, 3. has 9 pixels .* 10 features"):
        ImageShift((3, 3), 1)(np.ones((1, 10)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rotation", "down", "right"), [(0.3, 1.0, 1.0), (0.0, 1.2, 0.7), (-2.0, 0.5, 3.0)]
)
def test_affine_images_are_looked_up_where_they_came_from(rotation, down, right, dtype):
    X = np.random.default_rng(0).normal(size=(3, 7, 5)).astype(dtype)
    u, v = np.indices((7, 5)) - np.array([3, 2])[:, None, None]
    cos, sin = np.cos(rotation), np.sin(rotation)
    came_from = (cos * u + sin * v) / down + 3, (cos * v - sin * u) / right + 2
    expected = [
        map_coordinates(image, came_from, order=1, mode="grid-constant", cval=-1.0)
        for image in X.astype(float)
    ]
    move = ImageAffine((7, 5), rotation, down, right, background=-1.0)
    found = move(X.reshape(3, 35))
    assert found.dtype == dtype
    np.testing.assert_allclose(found.reshape(3, 7, 5), expected, atol=1e-5)
    same = ImageAffine((7, 5), background=0.5)(X.reshape(3, 35))
    np.testing.assert_allclose(same, X.reshape(3, 35), atol=1e-6)


def test_affine_channels_stay_together():
    X = np.random.default_rng(0).random((2, 6, 4, 3))
    turned = ImageAffine((6, 4, 3), 0.4)(X.reshape(2, -1)).reshape(X.shape)
    for k in range(3):
        alone = ImageAffine((6, 4), 0.4)(X[..., k].reshape(2, -1))
        np.testing.assert_allclose(turned[..., k].reshape(2, -1), alone)


def test_six_affine_images():
    X = np.random.default_rng(0).random((1, 64))
    moves = image_affines((8, 8))
    several = np.concatenate([X, *(clone(move)(X) for move in moves)])
    assert len(np.unique(several.round(6), axis=0)) == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rotation": np.nan}, "rotation must be a finite number"),
        ({"down": 0.0}, "down must be a finite number above 0"),
        ({"right": -1}, "right must be a finite number above 0"),
        ({"shape": (3, 4)}, "shape=.3, 4. has 12 pixels"),
    ],
)
def test_bad_affine_images(settings, message):
    with pytest.raises(ValueError, match=message):
        ImageAffine(**({"shape": (3, 3)} | settings))(np.ones((1, 9)))


def test_images_that_do_not_grow():
    with pytest.raises(ValueError, match="growth must be a finite number above 0"):
        image_affines((3, 3), growth=0)
