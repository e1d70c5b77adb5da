import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.metrics import tangent_distances
from widemargin.neighbors.search import TangentSearch, principal_axes, project
from widemargin.tangents import Bundle


def bundle(rng, n, n_tangents=2, d=12, dtype=np.float64):
    points = (rng.normal(size=(n, d)) * np.geomspace(1, 0.01, d)).astype(dtype)
    return Bundle.from_tangents(
        points, rng.normal(size=(n, n_tangents, d)).astype(dtype)
    )


def searcher(references, sides="two", algorithm="exact", **options):
    settings = {"spring": 1e-5, "n_components": 4, "n_candidates": 500, "n_jobs": None}
    return TangentSearch(
        references, sides=sides, algorithm=algorithm, **{**settings, **options}
    )


def oracle(queries, references, sides, k):
    """All distances, a stable sort."""
    d2 = tangent_distances(queries, references, sides=sides)
    order = np.argsort(d2, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(d2, order, axis=1), order


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sides", ["x", "y", "two", "mean"])
@pytest.mark.parametrize("algorithm", ["exact", "brute"])
def test_finds_what_all_distances_say(sides, algorithm, dtype):
    rng = np.random.default_rng(0)
    references, queries = bundle(rng, 300, dtype=dtype), bundle(rng, 40, dtype=dtype)
    d2, index = searcher(references, sides, algorithm).query(queries, 5)
    exact = Bundle(references.points.astype(float), references.frames.astype(float))
    asked = Bundle(queries.points.astype(float), queries.frames.astype(float))
    expected_d2, expected = oracle(asked, exact, sides, 5)
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_allclose(d2, expected_d2, rtol=1e-6)


def test_exact_prunes_with_the_projection():
    rng = np.random.default_rng(0)
    search = searcher(bundle(rng, 300))
    assert search.algorithm == "exact"
    assert search.projected.n_features == 4
    assert searcher(bundle(rng, 30), n_components=10).algorithm == "brute"


def test_ties_go_to_the_first():
    rng = np.random.default_rng(1)
    one = bundle(rng, 50)
    references = Bundle.concatenate([one, one])
    _, index = searcher(references).query(bundle(rng, 9), 4)
    np.testing.assert_array_equal(index[:, 1::2], index[:, ::2] + 50)


def test_shared_frames_are_folded_into_the_points():
    rng = np.random.default_rng(2)
    frame = rng.normal(size=(2, 12))
    references = Bundle.from_tangents(rng.normal(size=(80, 12)), frame)
    queries = Bundle.from_tangents(rng.normal(size=(10, 12)), frame)
    for sides in ("x", "y", "two", "mean"):
        d2, index = searcher(references, sides, spring=0.3).query(queries, 3)
        full = tangent_distances(queries, references, sides=sides, spring=0.3)
        np.testing.assert_array_equal(index, np.argsort(full, axis=1)[:, :3])
        np.testing.assert_allclose(d2, np.sort(full, axis=1)[:, :3], rtol=1e-9)


def test_rerank_looks_at_its_candidates_only():
    rng = np.random.default_rng(3)
    references, queries = bundle(rng, 200), bundle(rng, 20)
    all_of_them = searcher(references, algorithm="rerank", n_candidates=200)
    expected = oracle(queries, references, "two", 3)[1]
    np.testing.assert_array_equal(all_of_them.query(queries, 3)[1], expected)
    few = searcher(references, algorithm="rerank", n_candidates=10)
    _, index = few.query(queries, 3)
    one_sided = tangent_distances(queries, references, sides="y")
    ranks = np.argsort(np.argsort(one_sided, axis=1), axis=1)
    assert np.take_along_axis(ranks, index, axis=1).max() < 10


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 8),
    n_tangents=st.integers(0, 3),
    sides=st.sampled_from(["x", "y", "two", "mean"]),
    spring=st.sampled_from([0.0, 1e-5, 0.5]),
)
def test_the_projection_bounds_from_below(seed, k, n_tangents, sides, spring):
    rng = np.random.default_rng(seed)
    x, y = bundle(rng, 4, n_tangents), bundle(rng, 6, n_tangents)
    axes = principal_axes(y.points, k)
    np.testing.assert_allclose(axes @ axes.T, np.eye(k), atol=1e-12)
    bound = tangent_distances(
        project(x, axes, None), project(y, axes, None), sides=sides, spring=0.0
    )
    true = tangent_distances(x, y, sides=sides, spring=spring)
    assert (bound <= true + 1e-9).all()
