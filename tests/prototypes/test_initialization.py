"""Where prototypes start, and dead ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from widemargin._compute.nearest import squared_distances
from widemargin.prototypes.initialization import (
    chosen_scale,
    class_variances,
    initial_prototypes,
    lloyd,
    revivals,
    spread_rows,
    within_class_spread,
    without_dead,
    worst_covered,
)

rng = np.random.RandomState(0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_squared_distances_against_the_definition(dtype):
    X, P = rng.standard_normal((9, 4)) + 100, rng.standard_normal((5, 4)) + 100
    expected = ((X[:, None] - P[None]) ** 2).sum(axis=2)
    found = squared_distances(X.astype(dtype), P.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, expected, rtol=1e-3 if dtype == np.float32 else 1e-9
    )


def test_lloyd_agrees_with_scikit_learn():
    X = rng.standard_normal((200, 3)) + 5 * rng.randint(0, 3, 200)[:, None]
    weights = rng.uniform(0.5, 2, 200)
    start = X[:4].copy()
    reference = KMeans(4, init=start, n_init=1, tol=0, algorithm="lloyd")
    expected = reference.fit(X, sample_weight=weights).cluster_centers_
    np.testing.assert_allclose(lloyd(X, weights, start, max_iter=300), expected)
    np.testing.assert_array_equal(start, X[:4])


def test_seeds_are_spread():
    X = np.concatenate([rng.standard_normal((500, 2)), [[1e3, 0], [0, 1e3]]])
    X -= X.mean(axis=0)
    rows = spread_rows(X, np.ones(502), 3, np.random.RandomState(0))
    assert {500, 501} <= set(rows.tolist())
    equal = spread_rows(np.zeros((5, 2)), np.ones(5), 3, np.random.RandomState(0))
    assert len(equal) == 1


@pytest.mark.parametrize("init", ["kmeans", "samples"])
@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=3, max_size=25), st.integers(1, 6))
def test_no_prototype_starts_dead(init, values, count):
    X = np.array(values, dtype=float)[:, None]
    codes = np.zeros(len(X), dtype=int)
    P, labels = initial_prototypes(
        X, codes, np.ones(len(X)), np.array([count]), init, np.random.RandomState(0)
    )
    wins = np.bincount(((X - P.T) ** 2).argmin(axis=1), minlength=len(P))
    assert np.all(wins > 0)
    assert len(P) == len(labels) == min(count, len(np.unique(X)))


def test_worst_covered_samples_come_one_by_one():
    X = np.array([[0.0], [1.0], [10.0], [10.5], [-4.0]])
    assert worst_covered(X, np.array([[0.0]]), 2) == [3, 4]
    assert worst_covered(X, X, 2) == []
    P = without_dead(X, np.array([[0.0], [1e6]]))
    assert P.ravel().tolist() == [0.0, 10.5]


def test_revivals_name_prototypes_and_samples_of_their_class():
    X = np.array([[0.0], [9.0], [100.0], [1.0]])
    codes = np.array([0, 0, 1, 1])
    P, labels = np.array([[0.0], [1e6], [1.0]]), np.array([0, 0, 1])
    dead, rows = revivals(X, codes, P, labels, np.array([5, 0, 3]))
    assert dead.tolist() == [1]
    assert rows.tolist() == [1]


def test_spread_is_within_classes_and_never_zero():
    X = np.array([[0.0, 5, 1], [2.0, 5, 1], [10.0, 5, 2], [12.0, 5, 2]])
    spread = within_class_spread(X, np.array([0, 0, 1, 1]), np.ones(4))
    assert spread[0] == pytest.approx(1.0)
    assert np.all(spread > 0)
    # The third differs between the classes only, the second nowhere.
    assert spread[2] == pytest.approx(1e-3 * X[:, 2].std())
    assert spread[1] == pytest.approx(np.sqrt(np.mean([1.0, 0])))
    flat = within_class_spread(np.ones((4, 2)), np.array([0, 0, 1, 1]), np.ones(4))
    assert np.all(flat == 1)


@pytest.mark.parametrize("n", [20, 300, 3000])
@pytest.mark.parametrize("constant", [1.0, 7.0, 0.1, 37.5, 2026.0])
def test_a_constant_feature_takes_its_unit_from_others(n, constant):
    rng = np.random.default_rng(n)
    X = np.c_[rng.normal(size=(n, 3)), np.full(n, constant)]
    codes, weights = rng.integers(0, 3, n), rng.uniform(0.5, 2, n)
    spread = within_class_spread(X, codes, weights)
    np.testing.assert_allclose(spread[3], np.sqrt(np.mean(spread[:3] ** 2)))


def test_spread_of_a_feature_is_in_its_own_unit():
    X, codes = rng.standard_normal((40, 3)), rng.randint(0, 2, 40)
    units = np.array([1e-9, 1.0, 1e9])
    spread, weights = within_class_spread(X, codes, np.ones(40)), np.ones(40)
    np.testing.assert_allclose(within_class_spread(X * units, codes, weights),
                               spread * units)  # fmt: skip


def test_broken_records_set_no_unit():
    X, y = rng.standard_normal((60, 5)), np.arange(60) % 3
    weights = rng.uniform(1, 2, 60)
    usual = within_class_spread(X, y, weights)
    for far in ([1e3], [1e3, -1e5], [1e3, 1e3]):
        broken = np.append(X, np.outer(far, np.ones(5)), axis=0)
        labels = np.append(y, np.arange(len(far)))
        found = within_class_spread(
            broken, labels, np.append(weights, np.ones(len(far)))
        )
        np.testing.assert_allclose(found, usual)
    # Nor do many features that are rarely other than nothing hide a sample.
    rare = np.eye(60)
    shares = rare.var(axis=0)
    np.testing.assert_array_less(shares / 2, within_class_spread(rare, y, weights) ** 2)


def test_duplicates_tell_nothing_of_units():
    X, y = rng.standard_normal((90, 2)), np.arange(90) % 3
    X[:, 0] += 6 * y
    X[:, 1] *= 1e3
    for times in (1, 2):
        given = np.repeat(X, times, axis=0), np.repeat(y, times), np.ones(90 * times)
        assert chosen_scale(*given, "auto") is not None


def test_variances_of_classes_are_unbiased():
    draw = np.random.RandomState(2)
    X, codes = draw.standard_normal((31, 4)), np.arange(31) % 2
    codes[0] = 2
    means = np.stack([X[codes == c].mean(axis=0) for c in range(3)])
    found = class_variances(X, codes, np.full(31, 0.3), means, np.arange(3))
    expected = [X[codes == c].var(axis=0, ddof=1).sum() for c in (0, 1)]
    np.testing.assert_allclose(found[0], [*expected, 0])
    np.testing.assert_allclose(found[1], np.bincount(codes))
