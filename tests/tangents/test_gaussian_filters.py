import numpy as np
import pytest
from scipy import ndimage

from widemargin.tangents.preparing import filter_matrix, gaussian_filter

SIGMAS = [0, 1e-3, 0.1, 0.3, 0.57, 1.0, 2.5]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_filters_are_exact_on_their_polynomials(sigma):
    for order in range(3):
        weights = gaussian_filter(sigma, order)
        k = np.arange(len(weights)) - len(weights) // 2
        for power in range(order + 1):
            derivative = (1, 1, 2)[order] if power == order else 0
            assert weights @ k**power == pytest.approx(derivative, abs=1e-12)


def test_sigma_zero_gives_differences():
    np.testing.assert_allclose(gaussian_filter(0, 0), [0, 1, 0], atol=1e-15)
    np.testing.assert_allclose(gaussian_filter(0, 1), [-0.5, 0, 0.5], atol=1e-15)
    np.testing.assert_allclose(gaussian_filter(0, 2), [1, -2, 1], atol=1e-15)
    for order in range(3):
        close = gaussian_filter(0.12, order)
        np.testing.assert_allclose(close, gaussian_filter(0, order), atol=1e-9)


@pytest.mark.parametrize("sigma", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_against_ndimage(sigma, order):
    signal = np.random.default_rng(0).normal(size=30)
    expected = ndimage.gaussian_filter1d(
        signal, sigma, order=order, mode="constant", truncate=4
    )
    found = filter_matrix(30, sigma, order, np.float64) @ signal
    np.testing.assert_allclose(found, expected, atol=5e-3 * np.abs(expected).max())


def test_filter_wider_than_the_signal():
    signal = np.random.default_rng(0).normal(size=4)
    weights = gaussian_filter(3.0, 1)
    expected = np.correlate(np.pad(signal, len(weights) // 2), weights, mode="valid")
    found = filter_matrix(4, 3.0, 1, np.float64) @ signal
    np.testing.assert_allclose(found, expected, atol=1e-15)
