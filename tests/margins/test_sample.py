import itertools

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.margins import hypothesis_margin, nearest_right_wrong, sample_margin

modest = settings(max_examples=50, deadline=None)


def signed_distance(x, P, labels, y):
    """Distance to the full Voronoi cells by trying every set of active bisectors."""
    d = np.linalg.norm(P - x, axis=1)
    right = d[labels == y].min() < d[labels != y].min()
    best = np.inf
    for j in np.flatnonzero((labels != y) if right else (labels == y)):
        others = P[np.any(P[j] != P, axis=1)]
        normals = P[j] - others
        offsets = (P[j] @ P[j] - (others**2).sum(1)) / 2
        for size in range(min(len(x), len(others)) + 1):
            for active in map(list, itertools.combinations(range(len(others)), size)):
                gap = offsets[active] - normals[active] @ x
                v = np.linalg.lstsq(normals[active], gap, rcond=None)[0]
                if (normals @ (x + v) >= offsets - 1e-9).all():
                    best = min(best, np.linalg.norm(v))
    return best if right else -best


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, n_prototypes = draw(st.integers(1, 3)), draw(st.integers(2, 6))
    P, X = rng.normal(size=(n_prototypes, d)), 2 * rng.normal(size=(4, d))
    if draw(st.booleans()):
        P, X = np.round(P), np.round(X)
    labels = rng.integers(0, 3, n_prototypes)
    labels[:2] = 0, 1
    return X, P, labels, rng.choice(labels, len(X))


@settings(deadline=None, max_examples=60)
@given(problems())
def test_sample_margin_equals_the_enumeration_of_active_sets(problem):
    X, P, labels, y = problem
    expected = [signed_distance(x, P, labels, c) for x, c in zip(X, y, strict=True)]
    margin = sample_margin(X, P, labels, y)
    np.testing.assert_allclose(margin, expected, rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(2, 15))
def test_lemma_2_sample_margin_is_at_least_the_hypothesis_margin(seed, d, n):
    rng = np.random.default_rng(seed)
    X, P = rng.normal(size=(10, d)), rng.normal(size=(n, d))
    labels = np.arange(n) % 3
    y = rng.choice(labels, 10)
    D = np.linalg.norm(X[:, None] - P, axis=2)
    theta = hypothesis_margin(*nearest_right_wrong(D, labels, y)[:2])
    margin = sample_margin(X, P, labels, y)
    np.testing.assert_array_equal(np.sign(margin), np.sign(theta))
    assert (np.abs(margin) >= np.abs(theta) * (1 - 1e-9)).all()


@modest
@given(st.integers(0, 2**32 - 1), st.integers(1, 50))
def test_one_prototype_per_side_has_the_closed_form(seed, d):
    rng = np.random.default_rng(seed)
    X, P = rng.normal(size=(5, d)), rng.normal(size=(2, d))
    squared = ((X[:, None] - P) ** 2).sum(2)
    expected = (squared[:, 1] - squared[:, 0]) / (2 * np.linalg.norm(P[0] - P[1]))
    margin = sample_margin(X, P, ["right", "wrong"], ["right"] * 5)
    np.testing.assert_allclose(margin, expected, atol=1e-10 * (1 + d))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_invariances(seed):
    rng = np.random.default_rng(seed)
    X, P = rng.normal(size=(8, 3)), rng.normal(size=(9, 3))
    labels, y = np.arange(9) % 3, rng.integers(0, 3, 8)
    margin = sample_margin(X, P, labels, y)
    order = rng.permutation(9)
    permuted = sample_margin(X, P[order], labels[order], y)
    np.testing.assert_allclose(permuted, margin, atol=1e-12)
    # More dimensions than prototypes takes the other path; a rotation mixes them.
    Q = np.linalg.qr(rng.normal(size=(12, 12)))[0][:3]
    shift = rng.normal(size=12)
    moved = sample_margin(1e-3 * (X @ Q + shift), 1e-3 * (P @ Q + shift), labels, y)
    # A margin near zero is a difference of sizes near one.
    np.testing.assert_allclose(moved, 1e-3 * margin, rtol=1e-9, atol=1e-14)
    with sklearn.config_context(working_memory=1e-6):
        np.testing.assert_allclose(sample_margin(X, P, labels, y), margin, rtol=1e-12)


def test_boundary_and_coinciding_prototypes():
    P, labels = [[0.0, 0.0], [0.0, 0.0], [4.0, 0.0]], [0, 1, 1]
    X = [[1.0, 0.0], [2.0, 5.0], [3.0, 0.0]]
    np.testing.assert_allclose(sample_margin(X, P, labels, [0, 0, 0]), [0, 0, -1])
    np.testing.assert_allclose(sample_margin(X, P, labels, [1, 1, 1]), [0, 0, 1])
    repeated = np.repeat(P[1:], 3, axis=0)
    np.testing.assert_allclose(
        sample_margin(X, repeated, [0, 0, 0, 1, 1, 1], [0, 0, 0]), [1, 0, -1]
    )


def test_sharp_wedge_far_away():
    # The cell of the middle prototype is a thin wedge: its apex is far from x, the
    # nearest bisector close, so only the full problem gives the distance.
    P = np.array([[0.0, 0.0], [1e-3, 1.0], [1e-3, -1.0]])
    apex = (1 + 1e-6) / (2e-3)
    x = np.array([[-1.0, 0.0]])
    margin = sample_margin(x, P, ["far", "own", "own"], ["far"])
    assert margin[0] < apex
    expected = signed_distance(x[0], P, np.array([0, 1, 1]), 0)
    np.testing.assert_allclose(margin[0], expected, rtol=1e-9)
    x = np.array([[600.0, 0.0]])
    expected = signed_distance(x[0], P, np.array([0, 1, 1]), 0)
    assert expected == pytest.approx(-(600 - apex))
    np.testing.assert_allclose(
        sample_margin(x, P, [0, 1, 1], [0]), [expected], rtol=1e-9
    )


def test_float32_is_kept():
    rng = np.random.default_rng(0)
    X, P = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    labels, y = [0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 2]
    single = sample_margin(X.astype(np.float32), P.astype(np.float32), labels, y)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, sample_margin(X, P, labels, y), rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [[np.nan, 0.0]]}, "X contains NaN"),
        ({"X": [[0.0]]}, "X has 1 features but prototypes have 2"),
        ({"prototype_labels": [0, 0]}, "one label only"),
        ({"prototype_labels": [0, 1, 1]}, "prototypes has 2, prototype_labels has 3"),
        ({"y": [0, 1]}, "X has 1, y has 2"),
        ({"y": [2]}, "y contains 2"),
        ({"prototypes": [[0.0, np.inf], [1.0, 1.0]]}, "prototypes contains infinity"),
    ],
)
def test_bad_input_is_refused(change, message):
    good = {
        "X": [[0.0, 0.0]],
        "prototypes": [[0.0, 1.0], [1.0, 1.0]],
        "prototype_labels": [0, 1],
        "y": [0],
    }
    sample_margin(**good)
    with pytest.raises(ValueError, match=message):
        sample_margin(**good | change)
