import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.metrics import repair_spectrum, smallest_eigenvalue


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


def test_large_matrices_by_lanczos():
    K = indefinite(1, 600)
    assert smallest_eigenvalue(K) == pytest.approx(np.linalg.eigvalsh(K)[0], rel=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match="method must be one of"):
        repair_spectrum(np.eye(2), "mend")
    with pytest.raises(ValueError, match="K must be a square matrix"):
        repair_spectrum(np.ones((2, 3)))
