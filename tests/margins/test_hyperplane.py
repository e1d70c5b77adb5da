import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from widemargin.margins import directional_margin, geometric_margin

modest = settings(max_examples=50, deadline=None)


def random_problem(seed, n=7, d=3):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, d)),
        rng.normal(size=d),
        rng.normal(),
        rng.choice([-1, 1], n),
    )


@modest
@given(st.integers(0, 2**32 - 1), st.floats(1e-2, 1e2))
def test_directional_margin_is_the_margin_of_the_augmented_patterns(seed, rho):
    X, w, b, y = random_problem(seed)
    patterns = y[:, None] * np.column_stack([X, np.full(len(X), rho)])
    a = np.append(w, b / rho)
    directional = directional_margin(X, w, b, y, intercept_scaling=rho)
    np.testing.assert_allclose(directional, patterns @ a / np.linalg.norm(a))
    geometric = geometric_margin(X, w, b, y)
    # (2.61) and (2.62)
    np.testing.assert_allclose(
        directional, geometric * np.linalg.norm(w) / np.linalg.norm(a)
    )
    assert (np.abs(directional) <= np.abs(geometric)).all()


@modest
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_geometric_margin_is_the_distance_to_the_foot_on_the_plane(seed, scale):
    X, w, b, y = random_problem(seed)
    margin = geometric_margin(X, scale * w, scale * b, y)
    feet = X - (y * margin)[:, None] * w / np.linalg.norm(w)
    np.testing.assert_allclose(feet @ w + b, 0, atol=1e-12)
    np.testing.assert_array_equal(margin > 0, y * (X @ w + b) > 0)


def test_far_embedding_approaches_the_geometric_margin():
    X, w, b, y = random_problem(0)
    np.testing.assert_allclose(
        directional_margin(X, w, b, y, intercept_scaling=1e8),
        geometric_margin(X, w, b, y),
    )


def test_zero_normals_are_defined():
    X, y = np.eye(2), [1, -1]
    np.testing.assert_array_equal(
        geometric_margin(X, [0, 0], 2.0, y), [np.inf, -np.inf]
    )
    np.testing.assert_array_equal(geometric_margin(X, [0, 0], 0.0, y), [0, 0])
    np.testing.assert_array_equal(
        directional_margin(X, [0, 0], 2.0, y, intercept_scaling=3.0), [3, -3]
    )
    np.testing.assert_array_equal(directional_margin(X, [0, 0], 0.0, y), [0, 0])


def test_scikit_learn_shapes_sparse_and_float32():
    X, w, b, y = random_problem(1)
    expected = geometric_margin(X, w, b, y)
    np.testing.assert_allclose(geometric_margin(X, w[None], [b], y), expected)
    np.testing.assert_allclose(geometric_margin(csr_array(X), w, b, y), expected)
    for margin in (geometric_margin, directional_margin):
        assert margin(X.astype(np.float32), w, b, y).dtype == np.float32


@pytest.mark.parametrize("margin", [geometric_margin, directional_margin])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [[np.nan]]}, "X contains NaN"),
        ({"coef": [1.0, 2.0]}, r"coef must be .* shape \(1,\)"),
        ({"coef": [np.inf]}, "finite"),
        ({"intercept": [1.0, 2.0]}, "intercept must be one number"),
        ({"y": [0]}, r"-1 and \+1"),
        ({"y": ["a"]}, r"-1 and \+1"),
        ({"y": [1, 1]}, "X has 1, y has 2"),
    ],
)
def test_bad_input_is_refused(margin, change, message):
    good = {"X": [[1.0]], "coef": [1.0], "intercept": 0.0, "y": [1]}
    with pytest.raises(ValueError, match=message):
        margin(**good | change)


@pytest.mark.parametrize("rho", [0.0, -1.0, np.inf, np.nan])
def test_bad_rho_is_refused(rho):
    with pytest.raises(ValueError, match="intercept_scaling"):
        directional_margin([[1.0]], [1.0], 0.0, [1], intercept_scaling=rho)


@pytest.mark.parametrize("unit", [1e280, 1e-280])
@pytest.mark.parametrize("margin", [directional_margin, geometric_margin])
def test_a_plane_has_no_unit(margin, unit):
    X, y = np.array([[0.0, 1.0], [8.0, 2.0]]), [-1, 1]
    expected = margin(X, [3.0, 1.0], -12.0, y)
    found = margin(X, [3.0 * unit, unit], -12.0 * unit, y)
    np.testing.assert_allclose(found, expected)
