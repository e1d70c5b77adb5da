import pickle

import numpy as np
import pytest
from sklearn.base import clone

from widemargin.tangents import ImageShift, image_shifts


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
