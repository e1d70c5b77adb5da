import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from widemargin._compute import engines, formulas, tangent_elimination
from widemargin._compute.pairs import pair_distances
from widemargin.metrics import TangentMetric, tangent_distances
from widemargin.neighbors import pruned
from widemargin.neighbors.pruned import PrunedIndex, principal_axes, project
from widemargin.tangents import Bundle, ImageTangents, as_bundle


@pytest.fixture(autouse=True, params=["kernels", "formulas"])
def bounds_are_worth_it(request, monkeypatch):
    """Few and random references: bounds are made, however little they spare."""
    few = 0 if request.param == "kernels" else 2**40
    monkeypatch.setattr(pruned, "MANY_PRODUCTS", few)
    monkeypatch.setattr(pruned, "MOST_LEFT", 1.0)
    with engines.chosen("engines" if few == 0 else "formulas"):
        yield


# Few references are met by formulas without a projection.
projects = pytest.mark.parametrize("bounds_are_worth_it", ["kernels"], indirect=True)


def bundle(rng, n, n_tangents=2, d=12, dtype=np.float64):
    points = (rng.normal(size=(n, d)) * np.geomspace(1, 0.01, d)).astype(dtype)
    return Bundle.from_tangents(
        points, rng.normal(size=(n, n_tangents, d)).astype(dtype)
    )


def searcher(
    references, sides="both", algorithm="exact", spring=1e-5, codes=None, **options
):
    codes = np.zeros(len(references), int) if codes is None else codes
    settings = {"n_components": 4, "n_candidates": 500, **options}
    metric = TangentMetric(None, sides, spring)
    return PrunedIndex(references, codes, 3, metric, algorithm=algorithm, **settings)


def explicit(queries, references, sides, spring):
    """All squared distances from their residuals in float64, without products."""
    if sides == "query":
        return explicit(references, queries, "reference", spring).T
    ends = (
        array.astype(float)
        for end in (queries, references)
        for array in (end.points, np.array(end.frames, order="C"))
    )
    # To the bit, which kernels and formulas do not share (tests/_compute).
    module = tangent_elimination if pruned.MANY_PRODUCTS == 0 else formulas
    shape = len(queries), len(references)
    listed = (index.ravel() for index in np.indices(shape))
    return module.listed_distances(*ends, *listed, sides, spring).reshape(shape)


def nearly_parallel(scale, dtype):
    """Digits that differ by little from one of them, so that their frames do."""
    X = load_digits().data
    X = ((10 * X[0] + scale * X) / 16).astype(dtype)
    generator = ImageTangents((8, 8))
    return as_bundle(X[1500:1540], generator), as_bundle(X[:500], generator)


def oracle(queries, references, sides, k):
    """All distances, a stable sort."""
    d2 = tangent_distances(queries, references, sides=sides)
    order = np.argsort(d2, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(d2, order, axis=1), order


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sides", ["query", "reference", "both", "mean"])
@pytest.mark.parametrize("algorithm", ["exact", "brute"])
def test_finds_what_all_distances_say(sides, algorithm, dtype):
    rng = np.random.default_rng(0)
    references, queries = bundle(rng, 300, dtype=dtype), bundle(rng, 40, dtype=dtype)
    d2, index = searcher(references, sides, algorithm).query(queries, 5)
    exact = Bundle(references.points.astype(float), references.frames.astype(float))
    asked = Bundle(queries.points.astype(float), queries.frames.astype(float))
    expected_d2, expected = oracle(asked, exact, sides, 5)
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_allclose(d2**2, expected_d2, rtol=1e-6)


@projects
def test_exact_prunes_with_the_projection():
    rng = np.random.default_rng(0)
    search = searcher(bundle(rng, 300))
    assert search.algorithm == "exact"
    assert search.bounded.n_features == 4
    assert searcher(bundle(rng, 30), n_components=10).algorithm == "brute"


@projects
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_bounds_spare_nothing_all_distances_are_computed(monkeypatch, dtype):
    monkeypatch.setattr(pruned, "MOST_LEFT", 0.1)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(400, 64)).astype(dtype)
    generator = ImageTangents((8, 8))
    references, queries = (as_bundle(X, generator) for X in (noise[40:], noise[:40]))
    found = searcher(references, n_components=30)
    assert found.algorithm == "brute"
    assert found.axes is None
    assert found.bounded is None
    for ours, theirs in zip(
        found.query(queries, 3),
        searcher(references, algorithm="brute").query(queries, 3),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    X = load_digits().data[:600].astype(dtype)
    assert searcher(as_bundle(X, generator), n_components=32).algorithm == "exact"


@projects
def test_bounds_are_narrow_where_that_is_enough():
    X = load_digits().data[:640]
    generator = ImageTangents((8, 8))
    references, queries = as_bundle(X[40:], generator), as_bundle(X[:40], generator)
    search = searcher(references, n_components=32)
    assert search.bounded.points.dtype == np.float32
    expected = searcher(references, algorithm="brute").query(queries, 3)
    np.testing.assert_array_equal(search.query(queries, 3), expected)
    # Far away float32 says nothing, and does not say it wrongly.
    far = Bundle(queries.points + 1e20, queries.frames)
    expected = searcher(references, algorithm="brute").query(far, 3)
    np.testing.assert_array_equal(search.query(far, 3), expected)
    for unit in (1e-30, 1e30):
        scaled = Bundle(references.points * unit, references.frames)
        assert searcher(scaled, n_components=32).bounded.points.dtype == np.float64
    # Groups whose distance rounds away what is between their members.
    apart = Bundle(
        references.points + 1e5 * (np.arange(600) % 2)[:, None], references.frames
    )
    assert searcher(apart, n_components=32).bounded.points.dtype == np.float64


@pytest.mark.parametrize("algorithm", ["exact", "brute"])
@pytest.mark.parametrize("sides", ["query", "reference", "both", "mean"])
def test_one_query_alone_is_one_of_many(sides, algorithm):
    X = load_digits().data[:460].astype(np.float32)
    generator = ImageTangents((8, 8))
    references, queries = as_bundle(X[60:], generator), as_bundle(X[:60], generator)
    search = searcher(references, sides, algorithm, n_components=32)
    together = search.query(queries, 3)
    for i in range(0, 60, 7):
        alone = search.query(queries[i : i + 1], 3)
        for ours, theirs in zip(alone, together, strict=True):
            np.testing.assert_array_equal(ours[0], theirs[i])


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
    for sides in ("query", "reference", "both", "mean"):
        d2, index = searcher(references, sides, spring=0.3).query(queries, 3)
        full = tangent_distances(queries, references, sides=sides, spring=0.3)
        np.testing.assert_array_equal(index, np.argsort(full, axis=1)[:, :3])
        np.testing.assert_allclose(d2**2, np.sort(full, axis=1)[:, :3], rtol=1e-9)


def test_rerank_looks_at_its_candidates_only():
    rng = np.random.default_rng(3)
    references, queries = bundle(rng, 200), bundle(rng, 20)
    all_of_them = searcher(references, algorithm="rerank", n_candidates=200)
    expected = oracle(queries, references, "both", 3)[1]
    np.testing.assert_array_equal(all_of_them.query(queries, 3)[1], expected)
    few = searcher(references, algorithm="rerank", n_candidates=10)
    _, index = few.query(queries, 3)
    one_sided = tangent_distances(queries, references, sides="reference")
    ranks = np.argsort(np.argsort(one_sided, axis=1), axis=1)
    assert np.take_along_axis(ranks, index, axis=1).max() < 10


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 8),
    n_tangents=st.integers(0, 3),
    sides=st.sampled_from(["query", "reference", "both", "mean"]),
    spring=st.sampled_from([0.0, 1e-5, 0.5]),
)
def test_the_heads_from_below(seed, k, n_tangents, sides, spring):
    rng = np.random.default_rng(seed)
    x, y = bundle(rng, 4, n_tangents), bundle(rng, 6, n_tangents)
    axes = principal_axes(y.points, k)
    np.testing.assert_allclose(axes @ axes.T, np.eye(len(axes)), atol=1e-12)
    bound = tangent_distances(
        project(x, axes, None), project(y, axes, None), sides=sides, spring=spring
    )
    true = tangent_distances(x, y, sides=sides, spring=spring)
    assert (bound <= true + 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    angle=st.sampled_from([1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0]),
    offset=st.sampled_from([0.0, 10.0, 1000.0]),
    sides=st.sampled_from(["query", "reference", "both", "mean"]),
    spring=st.sampled_from([0.0, 1e-7, 1e-5, 0.5]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_lower_distances_are_below_the_explicit_ones(
    seed, angle, offset, sides, spring, dtype
):
    """Whatever the angles between the frames, however far apart two clusters are."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(3, 9))

    def end(n):
        points = rng.normal(size=(n, 9))
        points[:, 0] += offset * rng.choice([-1, 1], size=n)
        tangents = common + angle * rng.normal(size=(n, 3, 9))
        return Bundle.from_tangents(points.astype(dtype), tangents.astype(dtype))

    x, y = end(20), end(30)
    lower = pair_distances(
        x.points, x.frames, y.points, y.frames, sides=sides, spring=spring, lower=True
    )
    true = explicit(x, y, sides, spring)
    assert (lower <= true).all()
    if angle == 1.0 and offset == 0.0:
        # Not by giving everything away.
        assert np.mean(lower >= 0.9 * true - 1e-3) > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spring", [0.0, 1e-5])
@pytest.mark.parametrize("scale", [1e-2, 1e-3])
def test_nearly_parallel_frames(scale, spring, dtype):
    queries, references = nearly_parallel(scale, dtype)
    true = explicit(queries, references, "both", spring)
    expected = np.argsort(true, axis=1, kind="stable")[:, :3]
    for algorithm in ("exact", "brute"):
        d, index = searcher(
            references, algorithm=algorithm, spring=spring, n_components=40
        ).query(queries, 3)
        np.testing.assert_array_equal(index, expected)
        near = np.take_along_axis(true, index, axis=1)
        np.testing.assert_allclose(d, np.sqrt(near), rtol=1e-9)


@pytest.mark.parametrize("algorithm", ["exact", "brute"])
@pytest.mark.parametrize("sides", ["reference", "both", "mean"])
def test_clusters_far_apart(sides, algorithm):
    """Products of points at ±1000 round by more than neighbours differ."""
    rng = np.random.default_rng(0)

    def end(n):
        points = rng.normal(size=(n, 32))
        points[:, 0] += rng.choice([-1000, 1000], size=n)
        return Bundle.from_tangents(
            points.astype("f"), rng.normal(size=(n, 2, 32)).astype("f")
        )

    references, queries = end(1000), end(30)
    true = explicit(queries, references, sides, 1e-5)
    d, index = searcher(references, sides, algorithm, n_components=16).query(queries, 3)
    np.testing.assert_array_equal(index, np.argsort(true, axis=1, kind="stable")[:, :3])
    np.testing.assert_array_equal(d, np.sqrt(np.sort(true, axis=1)[:, :3]))


def test_a_float32_estimate_above_a_tie_is_not_believed():
    """Equal distances whose float32 sums are rounded up: the first index counts."""
    rng = np.random.default_rng(0)
    # Squares of 25 bits: float32 rounds them, float64 adds them without rounding.
    values = 1 + (2 * rng.integers(2**11, size=8) + 1) * 2.0**-12
    references = np.stack([rng.permutation(values) for _ in range(40)])
    far = np.stack([rng.permutation(values) for _ in range(60)]) * 64
    points = np.concatenate([references, far]).astype("f")
    ties = Bundle(points, np.empty((100, 0, 8), "f"))
    for query in (0.0, 0.125, -0.25):
        at = np.full((1, 8), query, "f")
        asked = Bundle(at, np.empty((1, 0, 8), "f"))
        for algorithm in ("exact", "brute", "rerank"):
            d, index = searcher(
                ties, algorithm=algorithm, n_components=2, n_candidates=60
            ).query(asked, 1)
            assert index[0, 0] == 0
            assert d[0, 0] == np.sqrt(((values - query) ** 2).sum())


def test_nearest_of_a_class_and_of_the_others():
    rng = np.random.default_rng(4)
    references, queries = bundle(rng, 60), bundle(rng, 5)
    codes, asked = np.arange(60) // 30, np.array([0, 1, 0, 1, 2])
    true = explicit(queries, references, "both", 1e-5)
    of_class = np.column_stack(
        [np.where(codes == c, true, np.inf).min(axis=1) for c in range(3)]
    )
    for algorithm in ("exact", "brute", "rerank"):
        search = searcher(references, algorithm=algorithm, codes=codes)
        np.testing.assert_array_equal(search.class_distances(queries), of_class)
        for wanted in (asked, None):
            d_plus, d_minus = search.two_class_distances(queries, wanted)
            labels = of_class.argmin(axis=1) if wanted is None else wanted
            own = labels[:, None] == codes
            np.testing.assert_array_equal(d_plus, of_class[range(5), labels])
            np.testing.assert_array_equal(
                d_minus, np.where(own, np.inf, true).min(axis=1)
            )


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 6),
    sides=st.sampled_from(["query", "reference", "both", "mean"]),
    spring=st.sampled_from([0.0, 1e-9, 1e-5, 0.5]),
    scale=st.sampled_from([1.0, 1e6]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_ties_under_a_shared_frame(seed, d, sides, spring, scale, dtype):
    """As many tangents as features: nothing is left of a distance but its rounding."""
    rng = np.random.default_rng(seed)
    frame = rng.normal(size=(rng.integers(max(1, d - 1), d + 1), d)).astype(dtype)
    lattice = (rng.integers(-2, 3, size=(60, d)) * scale).astype(dtype)
    references = Bundle.from_tangents(lattice[:40], frame)
    queries = Bundle.from_tangents(lattice[40:], frame)
    side, stiffness = "reference", spring / 2 if sides == "both" else spring
    true = explicit(queries, references, side, stiffness)
    order = np.argsort(true, axis=1, kind="stable")[:, :3]
    for algorithm in ("exact", "brute"):
        search = searcher(
            references, sides, algorithm, spring, np.arange(40) // 14,
            n_components=max(1, d // 2),
        )  # fmt: skip
        _, index = search.query(queries, 3)
        np.testing.assert_array_equal(index, order)
        of_class = search.class_distances(queries)
        first = order[:, 0]
        np.testing.assert_array_equal(of_class.min(axis=1), true[range(20), first])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sides", ["query", "reference", "both", "mean"])
@pytest.mark.parametrize("algorithm", ["exact", "brute"])
def test_shared_frames_answer_from_the_points_themselves(algorithm, sides, dtype):
    rng = np.random.default_rng(5)
    points = (100 + rng.normal(size=(90, 12))).astype(dtype)
    frame = rng.normal(size=(2, 12)).astype(dtype)
    references = Bundle.from_tangents(points, frame)
    d, index = searcher(references, sides, algorithm).query(references[:20], 3)
    np.testing.assert_array_equal(d[:, 0], 0)
    np.testing.assert_array_equal(index[:, 0], np.arange(20))
    true = np.sqrt(explicit(references[:20], references, sides, 1e-5))
    np.testing.assert_array_equal(index, np.argsort(true, axis=1)[:, :3])
    np.testing.assert_allclose(d, np.sort(true, axis=1)[:, :3], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("algorithm", ["exact", "brute", "rerank"])
def test_finer_queries_leave_the_references_alone(algorithm):
    rng = np.random.default_rng(6)
    points = 1e4 + rng.normal(size=(80, 12))
    tangents = rng.normal(size=(80, 2, 12))
    references = Bundle.from_tangents(points.astype("f"), tangents.astype("f"))
    queries = Bundle.from_tangents(points[:20] + 1e-3, tangents[:20])
    search = searcher(references, algorithm=algorithm, n_candidates=80)
    before = search.query(references[:20], 3)
    d, index = search.query(queries, 3)
    true = explicit(queries, references, "both", 1e-5)
    np.testing.assert_array_equal(index, np.argsort(true, axis=1)[:, :3])
    np.testing.assert_array_equal(d, np.sqrt(np.sort(true, axis=1)[:, :3]))
    assert search.references.points.dtype == np.float32
    for again, first in zip(search.query(references[:20], 3), before, strict=True):
        np.testing.assert_array_equal(again, first)


def test_axes_come_from_the_smaller_matrix(monkeypatch):
    sizes = []

    def spy(matrix, *ends):
        sizes.append(len(matrix))
        return real(matrix, *ends)

    real = pruned.some_eigenpairs
    monkeypatch.setattr(pruned, "some_eigenpairs", spy)
    rng = np.random.default_rng(7)
    low = rng.normal(size=(1500, 3)) @ rng.normal(size=(3, 2000))
    for points in (low[:40], low):
        axes = principal_axes(points, 10)
        np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-9)
        centred = points - points.mean(axis=0)
        np.testing.assert_allclose(centred @ axes.T @ axes, centred, atol=1e-6)
    assert max(sizes) <= 1024
    assert len(principal_axes(np.ones((3, 5)), 2)) == 1


def test_few_references_are_not_worth_a_projection():
    rng = np.random.default_rng(8)
    few = Bundle(rng.normal(size=(15, 40)), np.empty((15, 0, 40)))
    assert searcher(few).algorithm == "brute"
