import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from widemargin.metrics import tangent_distances, tangent_kernel
from widemargin.tangents import ImageTangents

GENERATOR = ImageTangents((4, 4), ["x_shift", "rotation"])


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).random((9, 16))


@pytest.mark.parametrize("sides", ["x", "y", "two", "mean", "midpoint"])
@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        ("rbf", lambda d: np.exp(-0.7 * d**2)),
        ("nd", lambda d: -(d**0.7)),
        ("log", lambda d: -np.log(1 + d**0.7)),
    ],
)
def test_kernels_are_their_formulas(X, kernel, value, sides):
    d = tangent_distances(X[:4], X[4:], tangents=GENERATOR, sides=sides, squared=False)
    K = tangent_kernel(
        X[:4], X[4:], kernel=kernel, gamma=0.7, tangents=GENERATOR, sides=sides
    )
    np.testing.assert_allclose(K, value(d), rtol=1e-9)


@pytest.mark.parametrize("sides", ["two", "mean", "midpoint"])
def test_symmetric_where_the_distance_is(X, sides):
    K = tangent_kernel(X, kernel="rbf", gamma=1.0, tangents=GENERATOR, sides=sides)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), 1)


def test_without_tangents_it_is_the_euclidean_kernel(X):
    none = np.empty((0, 16))
    K = tangent_kernel(X, gamma=2.0, tangents=none, sides="y")
    np.testing.assert_allclose(K, rbf_kernel(X, gamma=2.0), rtol=1e-9)
    # Mean squared distance is twice the total variance.
    scaled = tangent_kernel(X, tangents=none, sides="y")
    np.testing.assert_allclose(scaled, rbf_kernel(X, gamma=1 / X.var(axis=0).sum()))


def test_a_kernel_of_ones_own(X):
    K = tangent_kernel(X, kernel=lambda d2: 1 / (1 + d2), tangents=GENERATOR)
    d2 = tangent_distances(X, tangents=GENERATOR, sides="mean")
    np.testing.assert_allclose(K, 1 / (1 + d2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "gauss"}, "kernel must be one of 'rbf', 'nd', 'log'"),
        ({"gamma": 0}, "gamma must be a positive number"),
        ({"gamma": "auto"}, "gamma must be a positive number or 'scale'"),
        ({"kernel": lambda d2: d2[0]}, "kernel must return finite values"),
    ],
)
def test_bad_parameters(X, settings, message):
    with pytest.raises(ValueError, match=message):
        tangent_kernel(X, tangents=GENERATOR, **settings)
