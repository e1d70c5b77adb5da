import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from widemargin.metrics import repair_spectrum, smallest_eigenvalue
from widemargin.metrics.kernels import repair_in_place, symmetrize


def indefinite(seed, n=7):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return (A + A.T) / 2


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), method=st.sampled_from(["clip", "flip", "shift"]))
def test_repairs_change_the_eigenvalues_as_said(seed, method):
    K = indefinite(seed)
    values = np.linalg.eigvalsh(K)
    repaired = repair_spectrum(K, method)
    expected = {
        "clip": np.maximum(values, 0),
        "flip": np.abs(values),
        "shift": values - min(values[0], 0),
    }[method]
    found = np.linalg.eigvalsh(repaired.K)
    np.testing.assert_allclose(found, np.sort(expected), atol=1e-9)
    assert repaired.smallest_eigenvalue == pytest.approx(values[0])
    if repaired.transform is not None:
        # Training samples, treated as new ones, get their repaired values.
        np.testing.assert_allclose(K @ repaired.transform, repaired.K, atol=1e-9)
    else:
        changed = repaired.K - K
        np.testing.assert_allclose(changed, np.diag(np.diag(changed)))


def test_a_definite_matrix_stays():
    K = indefinite(0) @ indefinite(0)
    for method in ("none", "clip", "flip", "shift"):
        repaired = repair_spectrum(K, method)
        np.testing.assert_allclose(repaired.K, (K + K.T) / 2)
        assert repaired.transform is None


def test_asymmetric_matrices_are_symmetrised():
    K = np.random.default_rng(0).normal(size=(5, 5))
    symmetric = (K + K.T) / 2
    np.testing.assert_array_equal(repair_spectrum(K, "none").K, symmetric)
    assert smallest_eigenvalue(K) == pytest.approx(np.linalg.eigvalsh(symmetric)[0])


@pytest.mark.parametrize("gamma", [1e-3, 0.05, 1.0])
def test_eigenvalues_of_large_smooth_kernels_crowd_at_zero(gamma):
    K = rbf_kernel(np.random.default_rng(0).normal(size=(800, 4)), gamma=gamma)
    expected = np.linalg.eigvalsh(K)
    tolerance = 1e-13 * expected[-1]
    assert smallest_eigenvalue(K) == pytest.approx(expected[0], abs=tolerance)
    shifted = repair_spectrum(K, "shift")
    assert np.linalg.eigvalsh(shifted.K)[0] >= -tolerance


def test_large_matrices_of_any_kind():
    assert smallest_eigenvalue(np.zeros((600, 600))) == 0
    K = indefinite(1, 600)
    assert smallest_eigenvalue(K) == pytest.approx(np.linalg.eigvalsh(K)[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", ["clip", "flip"])
def test_rounding_is_not_repaired(dtype, method):
    points = np.random.default_rng(0).random((60, 3))
    K = symmetrize(rbf_kernel(np.concatenate([points, points]))).astype(dtype)
    assert np.linalg.eigvalsh(K.astype(float))[0] < 0
    repaired = repair_spectrum(K, method)
    assert repaired.transform is None
    np.testing.assert_array_equal(repaired.K, K)
    # What is negative beyond rounding still goes.
    K[0, 1] = K[1, 0] = 2.0
    assert np.linalg.eigvalsh(repair_spectrum(K, method).K)[0] > -1e-4


def test_in_place_pieces_are_the_plain_formulas():
    K = np.random.default_rng(0).normal(size=(600, 600))
    expected = (K + K.T) / 2
    np.testing.assert_array_equal(symmetrize(K), expected)
    whole = repair_spectrum(K, "clip")
    coefficients = np.random.default_rng(1).normal(size=(600, 3))
    repair = repair_in_place(K, "clip", 1e-16)
    np.testing.assert_allclose(K, whole.K, atol=1e-10)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(
        repair.transform(coefficients), whole.transform @ coefficients, atol=1e-12
    )


def test_the_matrix_given_stays_as_it_is():
    K = indefinite(2)
    before = K.copy()
    for method in ("clip", "flip", "shift"):
        repair_spectrum(K, method)
    np.testing.assert_array_equal(K, before)


def test_bad_input():
    with pytest.raises(ValueError, match="method must be one of"):
        repair_spectrum(np.eye(2), "mend")
    with pytest.raises(ValueError, match="K must be a square matrix"):
        repair_spectrum(np.ones((2, 3)))
