import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from tests.metrics import oracle

from widemargin.metrics import tangent_distances
from widemargin.tangents import ImageTangents

AFFINE = ("x_shift", "y_shift", "scaling", "rotation", "brightness")
GENERATORS = [
    pytest.param(ImageTangents(shape=(6, 6), directions=AFFINE), id="affine"),
    pytest.param(ImageTangents(shape=(6, 6)), id="with thickness"),
]


def images(seed, n):
    return np.random.default_rng(seed).random((n, 36))


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("spring", [0.0, 1e-5, 0.2])
def test_equals_frames_of_the_midpoint_image(generator, spring):
    X, Y = images(0, 5), images(1, 70)
    expected = oracle.midpoint_pairs(X, Y, generator, spring)
    found = tangent_distances(X, Y, tangents=generator, sides="midpoint", spring=spring)
    assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("generator", GENERATORS)
def test_of_one_set_with_itself(generator):
    X = images(2, 90)
    X[3] = X[80]
    found = tangent_distances(X, tangents=generator, sides="midpoint")
    assert_array_equal(found, found.T)
    assert_array_equal(np.diag(found), 0)
    assert found[3, 80] == 0
    threaded = tangent_distances(X, tangents=generator, sides="midpoint", n_jobs=2)
    assert_array_equal(threaded, found)
    with config_context(working_memory=1):
        small = tangent_distances(X, tangents=generator, sides="midpoint")
    assert_allclose(small, found, rtol=1e-7, atol=1e-12)


class Pair:
    """Tangents A x and A x + share · B x; affine, and told so or not."""

    def __init__(self, share, is_affine):
        self.share, self.is_affine = share, is_affine

    def tangents(self, X):
        rng = np.random.default_rng(7)
        A, B = rng.normal(size=(2, X.shape[1], X.shape[1]))
        along = X @ A
        return np.stack([along, along + self.share * (X @ B)], axis=1)


@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6, 1e-8, 0.0])
def test_nearly_dependent_tangents_count_alike_on_both_paths(share):
    X, Y = images(5, 6), images(6, 7)
    fast, general = (
        tangent_distances(X, Y, tangents=Pair(share, affine), sides="midpoint")
        for affine in (True, False)
    )
    assert_allclose(fast, general, rtol=1e-5 if 0 < share < 1e-7 else 1e-7)


def test_tangents_that_cancel_at_the_midpoint():
    X = images(8, 4)
    Y = -X * (1 + 1e-7 * np.arange(4))[:, None]
    fast, general = (
        tangent_distances(X, Y, tangents=Pair(0.5, affine), sides="midpoint")
        for affine in (True, False)
    )
    assert_allclose(fast, general, rtol=1e-6)


def test_keeps_float32_and_takes_roots():
    X = images(3, 4).astype(np.float32)
    generator = ImageTangents(shape=(6, 6), directions=AFFINE)
    squared = tangent_distances(X, tangents=generator, sides="midpoint")
    assert squared.dtype == np.float32
    root = tangent_distances(X, tangents=generator, sides="midpoint", squared=False)
    assert_allclose(root**2, squared, rtol=1e-6)


def test_an_array_is_not_enough():
    X = images(4, 3)
    with pytest.raises(ValueError, match=r"ImageTangents\(\.\.\.\)"):
        tangent_distances(X, tangents=np.ones((2, 36)), sides="midpoint")
