import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter1d
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.neighbors import TangentKNeighborsClassifier
from widemargin.tangents import GaussianSmoother, ImageTangents

# Models answer in the kind of the question, whatever they were fitted on.
WAIVED = {"check_array_api_same_namespace": "answers in any kind"}


@parametrize_with_checks(
    [GaussianSmoother()], expected_failed_checks=lambda estimator: WAIVED
)
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


def slow(X, shape, sigma, background):
    """scipy's filter, one axis of the grid after the other."""
    grid = X.reshape(len(X), *shape)
    for axis in range(1, min(len(shape), 2) + 1):
        grid = gaussian_filter1d(
            grid,
            sigma,
            axis=axis,
            mode="constant",
            cval=background,
            radius=max(1, int(np.ceil(4 * sigma))),
        )
    return grid.reshape(X.shape)


@given(
    shape=st.sampled_from([(12,), (3, 4), (4, 3), (2, 3, 2), (5, 5)]),
    sigma=st.floats(0.2, 3.0),
    background=st.sampled_from([0.0, -1.0, 7.5]),
)
def test_equals_the_filter_of_scipy(shape, sigma, background):
    X = np.random.default_rng(0).normal(size=(3, int(np.prod(shape))))
    smoothed = GaussianSmoother(shape, sigma, background).fit_transform(X)
    np.testing.assert_allclose(
        smoothed, slow(X, shape, sigma, background), rtol=1e-9, atol=1e-9
    )


def test_nothing_changes_without_sigma_and_dtype_is_kept():
    X = np.random.default_rng(0).random((1500, 12)).astype(np.float32)
    smoothed = GaussianSmoother((3, 4), sigma=0, background=0).fit_transform(X)
    assert smoothed.dtype == np.float32
    np.testing.assert_array_equal(smoothed, X)


def test_a_sample_is_smoothed_alone():
    X = np.random.default_rng(0).random((1500, 12))
    smoother = GaussianSmoother((3, 4)).fit(X)
    together = smoother.transform(X)
    np.testing.assert_array_equal(smoother.transform(X[1100:1101])[0], together[1100])


def test_a_step_of_a_pipeline():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.random((40, 36)) + y[:, None]
    model = make_pipeline(
        GaussianSmoother((6, 6)),
        TangentKNeighborsClassifier(tangents=ImageTangents((6, 6))),
    )
    model.set_params(gaussiansmoother__sigma=0.4).fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": -0.1}, "sigma must be a finite number of at least 0"),
        ({"sigma": np.nan}, "sigma must be a finite number"),
        ({"sigma": "auto"}, "sigma must be a finite number"),
        ({"background": np.inf}, "background must be a finite number"),
        ({"shape": (3, 5)}, "pixels and values, but X has 12 features"),
        ({"shape": (3.0, 4.0)}, "positive integers"),
        ({"shape": 12}, "needs shape="),
        ({"shape": (1, 2, 3, 2)}, "needs shape="),
    ],
)
def test_bad_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        GaussianSmoother(**settings).fit(np.ones((2, 12)))
