import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from widemargin._compute.nearest import nearest_points
from widemargin.tangents import LearnedTangents, learned


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:120] + np.random.default_rng(0).normal(scale=0.01, size=(120, 64)), y[
        :120
    ]


def nearest(X, i, candidates, k):
    """The slow way: the k candidates nearest to X[i], itself left out."""
    candidates = [j for j in candidates if j != i]
    order = np.argsort([np.sum((X[j] - X[i]) ** 2) for j in candidates], kind="stable")
    return [candidates[j] for j in order[:k]]


def moment(X, labels, k, among):
    """Sum of outer products of differences within classes, over samples `among`."""
    total, count = np.zeros((X.shape[1], X.shape[1])), 0
    for i in among:
        for j in nearest(X, i, np.flatnonzero(labels == labels[i]), k):
            total += np.outer(X[j] - X[i], X[j] - X[i])
            count += 1
    return total / count


def check_eigenvectors(tangents, eigenvalues, expected_moment):
    values, vectors = np.linalg.eigh(expected_moment)
    np.testing.assert_allclose(eigenvalues, values[::-1][: len(eigenvalues)], rtol=1e-9)
    leading = vectors[:, ::-1][:, : len(tangents)].T
    np.testing.assert_allclose(np.abs(np.sum(leading * tangents, axis=1)), 1, rtol=1e-9)


@pytest.mark.parametrize("k", [1, 3])
def test_pooled_over_all_classes(digits, k):
    X, y = digits
    generator = LearnedTangents(n_tangents=4, n_neighbors=k).fit(X, y)
    expected = moment(X, y, k, range(len(X)))
    check_eigenvectors(generator.tangents_, generator.eigenvalues_, expected)
    assert generator.bundle(X).is_shared
    np.testing.assert_array_equal(generator.tangents(X)[7], generator.tangents_)


def test_without_labels_every_sample_is_compared_with_any(digits):
    X, _ = digits
    generator = LearnedTangents(n_tangents=3).fit(X)
    expected = moment(X, np.zeros(len(X)), 1, range(len(X)))
    check_eigenvectors(generator.tangents_, generator.eigenvalues_, expected)
    assert not hasattr(generator, "classes_")


def test_per_class(digits):
    X, y = digits
    names = np.array(["zero", "one", "two", "three"] * 3)[y]
    generator = LearnedTangents(n_tangents=2, per_class=True).fit(X, names)
    for c, name in enumerate(generator.classes_):
        expected = moment(X, names, 1, np.flatnonzero(names == name))
        check_eigenvectors(generator.tangents_[c], generator.eigenvalues_[c], expected)
    codes = np.searchsorted(generator.classes_, names)
    np.testing.assert_array_equal(
        generator.tangents(X, names), generator.tangents_[codes]
    )
    means = np.array([X[names == name].mean(axis=0) for name in generator.classes_])
    guess = [np.argmin(((means - x) ** 2).sum(axis=1)) for x in X]
    assert (guess != codes).any()
    np.testing.assert_array_equal(generator.tangents(X), generator.tangents_[guess])


@pytest.mark.parametrize("with_labels", [True, False])
@pytest.mark.parametrize("seen", [True, False])
def test_local(digits, with_labels, seen):
    X, y = digits
    known = np.arange(len(X)) if seen else np.arange(90)
    generator = LearnedTangents(n_tangents=2, n_neighbors=5, local=True)
    generator.fit(X[known], y[known])
    queries = np.arange(90, 120)
    found = generator.tangents(X[queries], y[queries] if with_labels else None)
    for i, tangents in zip(queries, found, strict=True):
        candidates = known[y[known] == y[i]] if with_labels else known
        near = nearest(X, i, candidates, 5)
        _, _, expected = np.linalg.svd(X[near] - X[i], full_matrices=False)
        np.testing.assert_allclose(
            np.abs(np.sum(expected[:2] * tangents, axis=1)), 1, rtol=1e-7
        )


def test_local_takes_twice_as_many_neighbours_as_tangents(digits):
    X, y = digits
    few = LearnedTangents(n_tangents=2, local=True).fit(X, y)
    same = LearnedTangents(n_tangents=2, n_neighbors=4, local=True).fit(X, y)
    np.testing.assert_array_equal(few.tangents(X, y), same.tangents(X, y))


def test_fewer_directions_than_tangents_are_padded():
    X = np.zeros((8, 5))
    X[:, 1] = np.arange(8.0) ** 2
    y = np.repeat([0, 1], 4)
    pooled = LearnedTangents(n_tangents=3).fit(X, y)
    np.testing.assert_allclose(pooled.tangents_, [[0, 1, 0, 0, 0], [0] * 5, [0] * 5])
    np.testing.assert_array_equal(pooled.bundle(X).ranks, 1)
    wide = LearnedTangents(n_tangents=9).fit(X, y)
    assert wide.tangents(X).shape == (8, 9, 5)
    local = LearnedTangents(n_tangents=3, local=True).fit(X, y)
    np.testing.assert_array_equal(local.bundle(X, y).ranks, 1)


def test_classes_of_one_sample_have_no_tangents():
    X = np.random.default_rng(0).normal(size=(5, 4))
    y = [0, 0, 0, 0, 1]
    per_class = LearnedTangents(n_tangents=2, per_class=True).fit(X, y)
    assert not per_class.tangents(X, y)[4].any()
    assert per_class.tangents(X, y)[:4].any(axis=2).all()
    local = LearnedTangents(n_tangents=2, local=True).fit(X, y)
    assert not local.tangents(X, y)[4].any()
    with pytest.raises(ValueError, match="no two samples of the same class"):
        LearnedTangents(n_tangents=2).fit(X, np.arange(5))


def test_duplicates_have_no_tangents():
    X = np.ones((6, 3))
    generator = LearnedTangents(n_tangents=2, local=True).fit(X)
    assert not generator.tangents(X).any()
    with pytest.raises(ValueError, match="samples of the same class that differ"):
        LearnedTangents(n_tangents=2).fit(X)


def test_many_features_are_never_squared(digits, monkeypatch):
    X, y = digits
    dense = LearnedTangents(n_tangents=3).fit(X, y)
    monkeypatch.setattr(learned, "_MAX_DENSE_FEATURES", 10)
    monkeypatch.setattr(learned, "BLOCK_NUMBERS", 64 * 7)
    lanczos = LearnedTangents(n_tangents=3).fit(X, y)
    np.testing.assert_allclose(lanczos.tangents_, dense.tangents_, atol=1e-8)
    np.testing.assert_allclose(lanczos.eigenvalues_, dense.eigenvalues_, rtol=1e-9)


def test_a_second_fit_forgets_the_labels_of_the_first(digits):
    X, y = digits
    generator = LearnedTangents(n_tangents=2, local=True).fit(X, y).fit(X)
    fresh = LearnedTangents(n_tangents=2, local=True).fit(X)
    np.testing.assert_array_equal(generator.tangents(X, y), fresh.tangents(X))


def test_float32_is_kept(digits):
    X, y = digits
    single = LearnedTangents(n_tangents=3).fit(X.astype(np.float32), y)
    assert single.tangents_.dtype == np.float32
    double = LearnedTangents(n_tangents=3).fit(X, y)
    np.testing.assert_allclose(single.tangents_, double.tangents_, atol=1e-4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_tangents": 0}, "n_tangents must be an integer of at least 1; got 0"),
        ({"n_tangents": 2.5}, "n_tangents must be an integer"),
        ({"n_tangents": 2, "n_neighbors": 0}, "n_neighbors must be None or an integer"),
        ({"n_tangents": 2, "local": True, "per_class": True}, "exclude each other"),
    ],
)
def test_bad_parameters(digits, params, message):
    with pytest.raises(ValueError, match=message):
        LearnedTangents(**params).fit(*digits)


def test_bad_labels_and_samples(digits):
    X, y = digits
    with pytest.raises(ValueError, match=r"y must be given .* per_class=True"):
        LearnedTangents(2, per_class=True).fit(X)
    with pytest.raises(ValueError, match="one label per sample"):
        LearnedTangents(2).fit(X, y[:-1])
    with pytest.raises(ValueError, match="Unknown label type"):
        LearnedTangents(2).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        LearnedTangents(2).fit(X[:1], y[:1])
    generator = LearnedTangents(2, per_class=True).fit(X, y)
    with pytest.raises(ValueError, match="y contains 77, which fit has not seen"):
        generator.tangents(X[:2], [0, 77])
    for params in ({}, {"per_class": True}, {"local": True}):
        with pytest.raises(NotFittedError):
            LearnedTangents(2, **params).bundle(X)


@pytest.mark.parametrize("unit", [2.0**190, 2.0**-190])
@pytest.mark.parametrize("options", [{}, {"per_class": True}, {"local": True}])
def test_tangents_are_learned_in_any_unit(unit, options):
    X, y = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    expected = LearnedTangents(2, **options).fit(X, y).tangents(X)
    found = LearnedTangents(2, **options).fit(X * unit, y)
    np.testing.assert_allclose(found.tangents(X * unit), expected, rtol=1e-9)
    if not options.get("local"):
        assert np.isfinite(found.eigenvalues_).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_neighbours_are_nearest_and_ties_go_by_their_number(dtype, offset):
    rng = np.random.default_rng(0)
    X = (rng.integers(2, size=(40, 16)) + offset).astype(dtype)
    X[3] += 1e5  # spoils the rounding of products
    everyone = range(len(X))
    found = nearest_points(X, None, 7)
    expected = [nearest(X.astype(float), i, everyone, 7) for i in everyone]
    np.testing.assert_array_equal(found, expected)
    Q = (rng.integers(2, size=(30, 16)) + offset).astype(dtype)
    together = nearest_points(X, Q, 40)
    d2 = ((Q[:, None].astype(float) - X) ** 2).sum(axis=2)
    np.testing.assert_array_equal(together, np.argsort(d2, axis=1, kind="stable"))


@pytest.mark.parametrize("n_features", [3, 20])
@pytest.mark.parametrize("n", [3, 30])
def test_local_tangents_of_a_row_alone_are_those_in_a_batch(n_features, n):
    rng = np.random.default_rng(n)
    X, Q = (rng.integers(-1, 2, size=(m, n_features)).astype(float) for m in (n, 60))
    generator = LearnedTangents(1, local=True).fit(X)
    together = generator.tangents(Q)
    alone = np.concatenate([generator.tangents(q[None]) for q in Q])
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("options", [{}, {"per_class": True}, {"local": True}])
def test_copies_show_no_direction(options):
    X, y = load_digits(return_X_y=True)
    X, y = X[:60], y[:60]
    once = LearnedTangents(3, **options).fit(X, y)
    twice = LearnedTangents(3, **options).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    frames = (model.bundle(X, y).frames for model in (once, twice))
    np.testing.assert_allclose(*frames, atol=1e-9)
