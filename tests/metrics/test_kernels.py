import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from widemargin.linear import MaxMarginClassifier
from widemargin.metrics import tangent_distances, tangent_kernel
from widemargin.metrics.kernels import resolve_gamma, scale_gamma
from widemargin.prototypes import KernelLVQClassifier
from widemargin.svm import (
    InvariantHyperplaneSVC,
    JitteredSVC,
    TangentSVC,
    VirtualSVC,
)
from widemargin.tangents import ImageTangents

GENERATOR = ImageTangents((4, 4), ["x_shift", "rotation"])


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).random((9, 16))


@pytest.mark.parametrize("sides", ["query", "reference", "both", "mean", "midpoint"])
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


@pytest.mark.parametrize("sides", ["both", "mean", "midpoint"])
def test_symmetric_where_the_distance_is(X, sides):
    K = tangent_kernel(X, kernel="rbf", gamma=1.0, tangents=GENERATOR, sides=sides)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), 1)


def test_without_tangents_it_is_the_euclidean_kernel(X):
    none = np.empty((0, 16))
    K = tangent_kernel(X, gamma=2.0, tangents=none, sides="reference")
    np.testing.assert_allclose(K, rbf_kernel(X, gamma=2.0), rtol=1e-9)
    # Mean squared distance is twice the total variance.
    scaled = tangent_kernel(X, tangents=none, sides="reference")
    np.testing.assert_allclose(scaled, rbf_kernel(X, gamma=1 / X.var(axis=0).sum()))


def test_a_kernel_of_ones_own(X):
    K = tangent_kernel(X, kernel=lambda d2: 1 / (1 + d2), tangents=GENERATOR)
    d2 = tangent_distances(X, tangents=GENERATOR, sides="mean")
    np.testing.assert_allclose(K, 1 / (1 + d2))


def test_a_large_kernel_of_ones_own_is_computed_by_rows():
    X = np.random.default_rng(0).random((1100, 16)).astype(np.float32)
    shapes = []

    def kernel(d2):
        shapes.append(d2.shape)
        return 1 / (1 + d2)

    K = tangent_kernel(X, kernel=kernel, tangents=np.empty((0, 16)))
    d2 = tangent_distances(X, tangents=np.empty((0, 16)), sides="mean")
    np.testing.assert_array_equal(K, 1 / (1 + d2))
    assert len(shapes) > 1
    assert K.dtype == np.float32


def test_the_scale_is_that_of_one_set(X):
    with pytest.raises(ValueError, match="gamma='scale' would depend on the pairs"):
        tangent_kernel(X[:1], X, tangents=GENERATOR)
    # The exponent of the others is 1 whatever the pairs.
    np.testing.assert_array_equal(
        tangent_kernel(X[:2], X, kernel="nd", tangents=GENERATOR),
        tangent_kernel(X[:2], X, kernel="nd", gamma=1.0, tangents=GENERATOR),
    )


def test_the_scale_of_a_part_estimates_that_of_the_whole():
    rng = np.random.default_rng(0)
    d2 = tangent_distances(rng.random((300, 8)), tangents=np.empty((0, 8)))
    whole = resolve_gamma(d2, "rbf", "scale")
    assert resolve_gamma(d2, "rbf", "scale", 300) == whole
    for size in (2, 5, 50):
        guesses = []
        for _ in range(2000 // size):
            chosen = rng.choice(300, size, replace=False)
            part = d2[np.ix_(chosen, chosen)]
            guesses.append(1 / resolve_gamma(part, "rbf", "scale", 300))
        assert np.mean(guesses) == pytest.approx(1 / whole, rel=0.05)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "gauss"}, "kernel must be one of 'rbf', 'nd', 'log'"),
        ({"gamma": 0}, "gamma must be .scale. or a finite number above 0"),
        ({"gamma": "auto"}, "gamma must be 'scale' or a finite number above 0"),
        ({"kernel": lambda d2: d2[0]}, "kernel must return finite values"),
        ({"kernel": lambda d2: d2 * np.nan}, "finite values .*; got NaN or infinity"),
    ],
)
def test_bad_parameters(X, settings, message):
    with pytest.raises(ValueError, match=message):
        tangent_kernel(X, tangents=GENERATOR, **settings)


@pytest.mark.parametrize("kind", [np.float64, np.float32, "csr", "csc"])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_scale_is_one_over_the_sum_of_the_variances(kind, offset):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 5)) * [1, 2, 3, 4, 0]
    X[rng.random(X.shape) < 0.4] = 0
    X += np.array([0, 0, 1, 1, 1]) * offset
    weights = rng.integers(0, 4, 30)
    each = np.repeat(X, weights, axis=0)
    expected = 1 / each.var(axis=0).sum()
    given = X.astype(kind) if isinstance(kind, type) else sparse.csr_array(X)
    given = given.tocsc() if kind == "csc" else given
    rtol = 1e-3 if kind == np.float32 else 1e-9
    assert scale_gamma(given, weights.astype(float)) == pytest.approx(expected, rtol)


def test_scale_is_that_of_svc_where_features_share_a_mean():
    X = np.random.default_rng(2).normal(size=(40, 6))
    X -= X.mean(axis=0) - 3
    svc = SVC().fit(X, np.arange(40) % 2)
    assert scale_gamma(X, np.ones(40)) == pytest.approx(svc._gamma, 1e-12)


def test_scale_of_what_does_not_vary_and_of_any_size():
    for n in (4, 50, 1001):
        assert scale_gamma(np.full((n, 3), 0.1), np.ones(n)) == 1
    X = np.random.default_rng(3).normal(size=(9, 2))
    for unit in (1e-150, 1e150):
        assert scale_gamma(X * unit, np.ones(9)) * unit * unit == pytest.approx(
            scale_gamma(X, np.ones(9))
        )


@pytest.mark.parametrize(
    "model",
    [
        MaxMarginClassifier(kernel="rbf"),
        VirtualSVC(tangents="none"),
        JitteredSVC(transformations=[]),
        InvariantHyperplaneSVC(kernel="rbf", tangents="none", random_state=0),
        TangentSVC(tangents="none"),
        KernelLVQClassifier(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_constant_features_and_means_change_no_kernel(model):
    X, y = load_iris(return_X_y=True)
    X = X - X.mean(axis=0)
    train, test = np.arange(150) % 3 > 0, np.arange(150) % 3 == 0
    before = model.fit(X[train], y[train]).predict(X[test])
    moved = np.column_stack([X + np.array([0, 500, -500, 1000]), np.full(150, 2026.0)])
    after = model.fit(moved[train], y[train]).predict(moved[test])
    assert np.mean(before == y[test]) > 0.9
    assert np.mean(before != after) < 0.03
