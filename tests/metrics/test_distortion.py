import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.metrics import image_distortion_distances


def slow_gradients(image, background):
    """Sobel gradients at every pixel of an endless background around the image."""
    height, width = image.shape

    def value(r, c):
        inside = 0 <= r < height and 0 <= c < width
        return image[r, c] if inside else background

    def gradient(r, c):
        across = sum(
            w * (value(r + a, c + 1) - value(r + a, c - 1))
            for a, w in ((-1, 1), (0, 2), (1, 1))
        )
        down = sum(
            w * (value(r + 1, c + a) - value(r - 1, c + a))
            for a, w in ((-1, 1), (0, 2), (1, 1))
        )
        return np.array([across, down]) / 8

    return gradient


def slow_distance(x, y, window, patch, background):
    g_x, g_y = slow_gradients(x, background), slow_gradients(y, background)
    offsets = range(-patch, patch + 1)
    total = 0.0
    for r in range(x.shape[0]):
        for c in range(x.shape[1]):
            total += min(
                sum(
                    ((g_x(r + a, c + b) - g_y(r + dr + a, c + dc + b)) ** 2).sum()
                    for a in offsets
                    for b in offsets
                )
                for dr in range(-window, window + 1)
                for dc in range(-window, window + 1)
            )
    return total


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from([(4, 4), (3, 5), (5, 2)]),
    window=st.integers(0, 2),
    patch=st.integers(0, 1),
    background=st.sampled_from([0.0, -1.0]),
)
def test_the_formula(seed, shape, window, patch, background):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(2, *shape)), rng.normal(size=(1, *shape))
    found = image_distortion_distances(
        X.reshape(2, -1), Y.reshape(1, -1), shape=shape, window=window, patch=patch,
        background=background,
    )  # fmt: skip
    expected = [[slow_distance(x, Y[0], window, patch, background)] for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_wider_windows_are_nearer_and_identical_images_at_zero():
    X = np.random.default_rng(0).random((70, 64)).astype(np.float32)
    d0, d1, d2 = (
        image_distortion_distances(X, shape=(8, 8), window=w, n_jobs=2)
        for w in range(3)
    )
    assert d0.dtype == np.float32
    assert (d2 <= d1).all()
    assert (d1 <= d0).all()
    np.testing.assert_array_equal(np.diag(d1), 0)
    # Row and column blocks are 64: all pairs, not only the first block.
    assert (d0[np.triu_indices(70, 1)] > 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": (5, 5)}, "shape=.5, 5. has 25 pixels"),
        ({"shape": 8}, "needs shape=.height, width."),
        ({"shape": (8, 8), "window": -1}, "window must be an integer"),
        ({"shape": (8, 8), "patch": 1.5}, "patch must be an integer"),
        ({"shape": (8, 8), "background": np.nan}, "background must be a finite"),
        ({"shape": (8, 8), "background": "0"}, "background must be a finite"),
    ],
)
def test_bad_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        image_distortion_distances(np.ones((2, 64)), **settings)
