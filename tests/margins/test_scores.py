import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from widemargin.margins import (
    hypothesis_margin,
    nearest_right_wrong,
    relative_margin,
)

modest = settings(max_examples=50, deadline=None)
distances = st.floats(0, 1e300, allow_subnormal=False)
pairs = st.integers(1, 8).flatmap(
    lambda n: st.tuples(*2 * [hnp.arrays(np.float64, n, elements=distances)])
)


@modest
@given(pairs)
def test_relative_margin_is_the_quotient_and_changes_sign_with_the_roles(pair):
    d_plus, d_minus = pair
    margin = relative_margin(d_plus, d_minus)
    for p, m, mu in zip(d_plus.tolist(), d_minus.tolist(), margin, strict=True):
        assert mu == pytest.approx((m - p) / (m + p) if m + p else 0, abs=1e-15)
    assert (np.abs(margin) <= 1).all()
    np.testing.assert_array_equal(margin > 0, d_plus < d_minus)
    np.testing.assert_array_equal(relative_margin(d_minus, d_plus), -margin)


@modest
@given(pairs)
def test_hypothesis_margin_is_half_the_difference(pair):
    d_plus, d_minus = pair
    np.testing.assert_array_equal(
        hypothesis_margin(d_plus, d_minus), (d_minus - d_plus) / 2
    )


@pytest.mark.parametrize("score", [relative_margin, hypothesis_margin])
def test_equal_distances_have_no_margin(score):
    inf = np.inf
    np.testing.assert_array_equal(score([0, 2, inf], [0, 2, inf]), [0, 0, 0])


def test_missing_models_are_infinitely_far():
    inf = np.inf
    np.testing.assert_array_equal(relative_margin([1, inf], [inf, 1]), [1, -1])
    np.testing.assert_array_equal(hypothesis_margin([1, inf], [inf, 1]), [inf, -inf])


def test_huge_distances_do_not_overflow():
    big = np.finfo(np.float32).max
    margin = relative_margin(np.float32([big]), np.float32([big / 2]))
    assert margin.dtype == np.float32
    assert margin[0] == pytest.approx(-1 / 3)


@pytest.mark.parametrize("score", [relative_margin, hypothesis_margin])
def test_dtype_and_shape_are_kept(score):
    single = np.ones((3, 2), dtype=np.float32)
    assert score(single, single).dtype == np.float32
    assert score(single, single).shape == (3, 2)
    assert np.ndim(score(1, 3)) == 0
    assert score([1, 2], 3.0).dtype == np.float64


@pytest.mark.parametrize("score", [relative_margin, hypothesis_margin])
@pytest.mark.parametrize(
    ("d_plus", "d_minus", "message"),
    [
        ([-1.0], [1.0], "d_plus contains negative"),
        ([1.0], [np.nan], "d_minus contains NaN"),
        ([1.0, 2.0], [1.0], "same shape"),
        ([[1.0], [2.0]], [1.0, 2.0], "same shape"),
        (["a"], [1.0], "d_plus must be numbers"),
    ],
)
def test_bad_distances_are_refused(score, d_plus, d_minus, message):
    with pytest.raises(ValueError, match=message):
        score(d_plus, d_minus)


@modest
@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_nearest_right_wrong_equals_a_loop(n, m, seed):
    rng = np.random.default_rng(seed)
    D = rng.integers(0, 5, size=(n, m)).astype(float)
    D[rng.random(D.shape) < 0.2] = np.inf
    labels = rng.choice(["a", "b", "c"], m)
    y = rng.choice(labels, n)
    nearest = nearest_right_wrong(D, labels, y)
    for i in range(n):
        for distance, index, columns in (
            (nearest.d_plus[i], nearest.index_plus[i], np.flatnonzero(labels == y[i])),
            (
                nearest.d_minus[i],
                nearest.index_minus[i],
                np.flatnonzero(labels != y[i]),
            ),
        ):
            finite = [j for j in columns if np.isfinite(D[i, j])]
            best = min(finite, key=lambda j: D[i, j]) if finite else -1
            assert index == best
            assert distance == (D[i, best] if finite else np.inf)


def test_nearest_right_wrong_keeps_float32_and_takes_integer_labels():
    nearest = nearest_right_wrong(np.float32([[1, 2]]), [7, -3], [-3])
    assert nearest.d_plus.dtype == np.float32
    assert (nearest.d_plus[0], nearest.d_minus[0]) == (2, 1)
    one_class = nearest_right_wrong([[1.0, 2.0]], [0, 0], [0])
    assert one_class.d_minus[0] == np.inf
    assert one_class.index_minus[0] == -1


@pytest.mark.parametrize(
    ("D", "labels", "y", "message"),
    [
        ([[1.0, np.nan]], [0, 1], [0], "without NaN"),
        ([[1.0, -2.0]], [0, 1], [0], "numbers >= 0"),
        ([[1.0, 2.0]], [0, 1, 1], [0], r"shape \(1, 3\)"),
        ([[1.0, 2.0]], [0, 1], [0, 1], r"shape \(2, 2\)"),
        ([[1.0, 2.0]], [0, 1], [5], r"y contains 5, .* are 0, 1"),
        (np.ones((1, 20)), np.arange(20), ["0"], "y contains '0'"),
        ([[1.0, 2.0]], [0, np.nan], [0], "reference_labels contains NaN"),
        ([[1.0, 2.0]], [], [0], "reference_labels is empty"),
    ],
)
def test_bad_matrices_and_labels_are_refused(D, labels, y, message):
    with pytest.raises(ValueError, match=message):
        nearest_right_wrong(D, labels, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_margin_loses_its_sign_or_overflows(dtype):
    info = np.finfo(dtype)
    tiny = info.smallest_subnormal
    near = np.array([0, tiny, info.tiny, 1, info.max / 2], dtype)
    far = np.nextafter(near, dtype(np.inf))
    for margin in (relative_margin, hypothesis_margin):
        with np.errstate(all="raise", under="ignore"):
            right, wrong = margin(near, far), margin(far, near)
        assert right.dtype == dtype
        assert np.all(right > 0)
        np.testing.assert_array_equal(wrong, -right)
    np.testing.assert_array_equal(
        relative_margin(dtype([info.max, 0, tiny, 0]), dtype([0, info.max, tiny, 0])),
        [-1, 1, 0, 0],
    )
