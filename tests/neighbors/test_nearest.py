import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer

from widemargin.metrics import (
    TangentMetric,
    image_distortion_distances,
    tangent_distances,
)
from widemargin.neighbors import TangentKNeighborsClassifier
from widemargin.neighbors.plain import PlainIndex
from widemargin.tangents import DirectionFeatures, ImageTangents, LearnedTangents


@pytest.fixture(autouse=True)
def bounds_are_worth_it(monkeypatch):
    """Few samples: bounds are made, however little they spare."""
    monkeypatch.setattr("widemargin.neighbors.pruned.MOST_LEFT", 1.0)
    monkeypatch.setattr("widemargin.neighbors.base.MANY_FEATURES", 0)


@pytest.fixture(scope="module")
def images():
    """Bars at three slants, blurred by chance, as 8×8 images."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    grid = np.linspace(-1, 1, 8)
    across, down = np.meshgrid(grid, grid)
    offset = rng.normal(scale=0.2, size=90)
    slant = np.array([-0.9, 0.0, 0.9])[y] + rng.normal(scale=0.1, size=90)
    lines = across - slant[:, None, None] * down - offset[:, None, None]
    X = np.exp(-(lines**2) / 0.08) + 0.05 * rng.random((90, 8, 8))
    return X.reshape(90, 64), np.array(["left", "none", "right"])[y]


def votes(knn, X):
    """Share of the vote of every class, what probabilities are made of."""
    return knn._shares(knn._check_predict(X))[0]


def test_without_tangents_it_is_the_euclidean_classifier(images):
    X, y = images
    for weights in ("uniform", "distance"):
        ours = TangentKNeighborsClassifier(5, weights=weights).fit(X[:60], y[:60])
        theirs = KNeighborsClassifier(5, weights=weights).fit(X[:60], y[:60])
        np.testing.assert_allclose(
            votes(ours, X[60:]), theirs.predict_proba(X[60:]), atol=1e-9
        )
        for a, b in zip(
            ours.kneighbors(X[60:]), theirs.kneighbors(X[60:]), strict=True
        ):
            np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("sides", ["query", "reference", "both", "mean", "midpoint"])
@pytest.mark.parametrize("algorithm", ["exact", "brute"])
def test_neighbours_are_those_of_the_distance(images, sides, algorithm):
    X, y = images
    directions = ["x_shift", "y_shift", "rotation"]
    generator = ImageTangents((8, 8), directions)
    knn = TangentKNeighborsClassifier(
        4, tangents=generator, sides=sides, algorithm=algorithm, n_jobs=2
    ).fit(X[:60], y[:60])
    distances, indices = knn.kneighbors(X[60:])
    full = tangent_distances(
        X[60:], X[:60], tangents=generator, sides=sides, squared=False
    )
    np.testing.assert_array_equal(indices, np.argsort(full, axis=1)[:, :4])
    np.testing.assert_allclose(distances, np.sort(full, axis=1)[:, :4], rtol=1e-7)


def test_no_training_sample_is_its_own_neighbour(images):
    X, y = images
    doubled = np.concatenate([X[:20], X[:20]])
    knn = TangentKNeighborsClassifier(2, tangents=ImageTangents((8, 8)))
    knn.fit(doubled, np.tile(y[:20], 2))
    distances, indices = knn.kneighbors()
    assert (indices != np.arange(40)[:, None]).all()
    np.testing.assert_array_equal(distances[:, 0], 0)
    np.testing.assert_array_equal(indices[:, 0], (np.arange(40) + 20) % 40)


def test_distortion_metric_and_reranking(images):
    X, y = images
    metric = partial(image_distortion_distances, shape=(8, 8), window=1)
    full = metric(X[60:], X[:60])
    knn = TangentKNeighborsClassifier(metric=metric).fit(X[:60], y[:60])
    np.testing.assert_array_equal(knn.kneighbors(X[60:])[1][:, 0], full.argmin(axis=1))
    few = TangentKNeighborsClassifier(metric=metric, algorithm="rerank", n_candidates=7)
    distances, indices = few.fit(X[:60], y[:60]).kneighbors(X[60:])
    euclid = ((X[60:, None] - X[:60]) ** 2).sum(axis=2)
    candidates = np.argsort(euclid, axis=1)[:, :7]
    best = np.take_along_axis(full, candidates, axis=1).min(axis=1)
    np.testing.assert_allclose(distances[:, 0], best)
    assert (candidates == indices).any(axis=1).all()


@pytest.mark.parametrize("metric", ["tangent", "distortion"])
def test_candidates_from_features(images, metric):
    X, y = images
    options = {"tangents": ImageTangents((8, 8)), "sides": "both"}
    full = tangent_distances(X[60:], X[:60], squared=False, **options)
    if metric == "distortion":
        distortion = partial(image_distortion_distances, shape=(8, 8), window=1)
        options, full = {"metric": distortion}, distortion(X[60:], X[:60])
    transform = DirectionFeatures((8, 8))
    knn = TangentKNeighborsClassifier(
        2, algorithm="rerank", n_candidates=7, candidate_transform=transform, **options
    )
    distances, indices = knn.fit(X[:60], y[:60]).kneighbors(X[60:])
    features = transform.fit(X[:60]).transform(X)
    apart = ((features[60:, None] - features[:60]) ** 2).sum(axis=2)
    candidates = np.argsort(apart, axis=1)[:, :7]
    near = np.take_along_axis(full, candidates, axis=1)
    np.testing.assert_allclose(distances, np.sort(near, axis=1)[:, :2], rtol=1e-7)
    best = np.take_along_axis(candidates, np.argsort(near, axis=1)[:, :2], axis=1)
    np.testing.assert_array_equal(indices, best)
    # Others than by pixels, or this would test nothing.
    pixels = ((X[60:, None] - X[:60]) ** 2).sum(axis=2)
    assert (np.sort(np.argsort(pixels, axis=1)[:, :7]) != np.sort(candidates)).any()
    again = pickle.loads(pickle.dumps(knn))
    np.testing.assert_array_equal(again.kneighbors(X[60:])[1], indices)
    two = clone(knn).set_params(n_jobs=2).fit(X[:60], y[:60])
    np.testing.assert_array_equal(two.kneighbors(X[60:])[0], distances)


class NoParameters:
    fit = transform = None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"candidate_transform": DirectionFeatures((8, 8))},
            "candidate_transform needs algorithm='rerank'",
        ),
        (
            {"candidate_transform": DirectionFeatures, "algorithm": "rerank"},
            "candidate_transform must be None or a transformer",
        ),
        (
            {"candidate_transform": NoParameters(), "algorithm": "rerank"},
            "candidate_transform must be .* fit, transform and get_params",
        ),
        ({"metric": "euclidean"}, "metric must be .* tangents='none', or a function"),
        (
            {"candidate_transform": "pixels", "algorithm": "rerank"},
            "candidate_transform must be None or a transformer",
        ),
        (
            {"candidate_transform": FunctionTransformer(lambda X: X[::2]),
             "algorithm": "rerank"},
            "candidate_transform must return one row per sample; it made 10 of 20",
        ),
        (
            {"candidate_transform": FunctionTransformer(lambda X: X / 0),
             "algorithm": "rerank"},
            "what candidate_transform returns contains",
        ),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*by zero:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_bad_transforms(images, settings, message):
    X, y = images
    knn = TangentKNeighborsClassifier(tangents=ImageTangents((8, 8)), **settings)
    with pytest.raises(ValueError, match=message):
        knn.fit(X[:20], y[:20])


@pytest.mark.parametrize("n_neighbors", [1, 4])
def test_margins_are_positive_where_right(images, n_neighbors):
    X, y = images
    knn = TangentKNeighborsClassifier(n_neighbors, tangents=ImageTangents((8, 8)))
    knn.fit(X[:40], y[:40])
    # Other labels than the true ones, so that some are wrong.
    asked = np.roll(y[40:], 1)
    margins = knn.margins(X[40:], asked)
    np.testing.assert_array_equal(margins > 0, knn.predict(X[40:]) == asked)
    assert 0 < np.mean(margins > 0) < 1


def test_equal_votes_go_to_the_nearest():
    knn = TangentKNeighborsClassifier(2).fit([[0.0], [1.0], [5.0]], ["b", "a", "a"])
    np.testing.assert_array_equal(knn.predict([[0.4], [0.6]]), ["b", "a"])
    shares = knn.predict_proba([[0.4], [0.6]])
    np.testing.assert_allclose(shares, 0.5, rtol=1e-15)
    np.testing.assert_array_equal(shares.argmax(axis=1), [1, 0])


def test_sample_weight_is_a_factor_on_the_vote():
    X, y = [[0.0], [1.0], [1.2], [9.0]], [0, 1, 1, 0]
    knn = TangentKNeighborsClassifier(3).fit(X, y, [5.0, 1.0, 1.0, 0.0])
    assert knn.predict([[1.0]]) == 0
    assert len(knn.bundle_) == 3


def test_threads_change_nothing(images):
    X, y = images
    one, two = (
        TangentKNeighborsClassifier(3, tangents=ImageTangents((8, 8)), n_jobs=jobs)
        .fit(X[:60], y[:60])
        .kneighbors(X[60:])
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


def test_a_blank_training_image_is_warned_of(images):
    X, y = images
    with_blank = np.concatenate([X[:5], np.zeros((1, 64))])
    knn = TangentKNeighborsClassifier(tangents=ImageTangents((8, 8)))
    with pytest.warns(UserWarning, match="1 of 6 training samples have no tangents"):
        knn.fit(with_blank, y[:6])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be an integer of at least 1"),
        ({"n_neighbors": 100}, "n_neighbors must be at most n_samples=60"),
        ({"algorithm": "fast"}, "algorithm must be one of 'exact'"),
        ({"weights": "near"}, "weights must be one of"),
        ({"sides": "one"}, "sides must be one of"),
        ({"spring": -1}, "spring must be 'auto' or a finite number"),
        ({"metric": "cosine"}, "metric must be 'tangent'"),
        ({"n_candidates": 0}, "n_candidates must be an integer"),
        ({"tangents": np.zeros((60, 1, 64))}, "array .n_tangents, n_features."),
        ({"sides": "midpoint"}, "needs a generator"),
    ],
)
def test_bad_parameters(images, settings, message):
    X, y = images
    with pytest.raises(ValueError, match=message):
        TangentKNeighborsClassifier(**settings).fit(X[:60], y[:60]).predict(X[:2])


def test_bad_requests(images):
    X, y = images
    knn = TangentKNeighborsClassifier().fit(X[:60], y[:60])
    with pytest.raises(ValueError, match="at most n_samples=59"):
        knn.kneighbors(n_neighbors=60)
    with pytest.raises(ValueError, match="was not fitted"):
        knn.margins(X[:2], ["left", "up"])
    wrong = TangentKNeighborsClassifier(metric=lambda X, Y: np.zeros(3))
    with pytest.raises(ValueError, match="metric must return distances of shape"):
        wrong.fit(X, y).predict(X)


@pytest.mark.parametrize("settings", [{}, {"algorithm": "rerank", "n_candidates": 3}])
@pytest.mark.parametrize("metric", ["tangent", tangent_distances])
def test_margins_agree_with_predict_for_one_neighbour(settings, metric):
    X, y = load_digits(return_X_y=True)
    X = X.astype("f")
    options = {"tangents": ImageTangents((8, 8)), **settings}
    if callable(metric):
        options["metric"] = partial(metric, tangents=options["tangents"])
    knn = TangentKNeighborsClassifier(**options).fit(X[:400], y[:400])
    margins = knn.margins(X[400:700], y[400:700])
    right = knn.predict(X[400:700]) == y[400:700]
    np.testing.assert_array_equal(margins > 0, right)
    assert not right.all()
    assert np.abs(margins).max() <= 1


@pytest.mark.parametrize("algorithm", ["exact", "brute", "rerank"])
@pytest.mark.parametrize("metric", ["tangent", tangent_distances])
def test_margins_of_the_same_image_under_two_labels(images, algorithm, metric):
    X, _ = images
    generator = ImageTangents((8, 8))
    if callable(metric):
        metric = partial(metric, tangents=generator)
    knn = TangentKNeighborsClassifier(
        tangents=generator, algorithm=algorithm, metric=metric
    ).fit(np.concatenate([X[:30], X[:30]]), np.repeat(["a", "b"], 30))
    for label in ("a", "b"):
        margins = knn.margins(X[:30], np.full(30, label))
        np.testing.assert_array_equal(margins, 0)
    np.testing.assert_array_equal(knn.predict(X[:30]), "a")
    np.testing.assert_array_equal(knn.confidence(X[:30]), 0)
    np.testing.assert_array_equal(knn.decision_function(X[:30]), 0)


def test_frames_of_few_queries_are_held_at_once(images, monkeypatch):
    X, y = images
    knn = TangentKNeighborsClassifier(2, tangents=ImageTangents((8, 8)))
    knn.fit(X[:30], y[:30])
    many = np.tile(X, (20, 1))
    together = (
        knn.kneighbors(many),
        knn.predict_proba(many),
        knn.margins(many[:9], y[:9]),
    )
    held, real = [], TangentMetric.bundle

    def spy(self, X, *rest, **options):
        held.append(len(X))
        return real(self, X, *rest, **options)

    monkeypatch.setattr(TangentMetric, "bundle", spy)
    assert len(many) > knn._index_at(X).max_queries()
    with config_context(working_memory=0.1):
        few = (
            knn.kneighbors(many),
            knn.predict_proba(many),
            knn.margins(many[:9], y[:9]),
        )
    assert 1 < max(held) < 10
    for a, b in zip(np.hstack(together[0]), np.hstack(few[0]), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(together[1], few[1])
    np.testing.assert_array_equal(together[2], few[2])


class Refusing:
    """Tangents that must not be asked for."""

    def tangents(self, X):
        raise AssertionError("these frames are of no use")


def test_no_frames_that_nothing_uses(images):
    X, y = images
    metric = partial(image_distortion_distances, shape=(8, 8))
    own = TangentKNeighborsClassifier(metric=metric, tangents=Refusing())
    own.fit(X[:60], y[:60]).predict(X[60:])
    middle = TangentKNeighborsClassifier(
        sides="midpoint", tangents=ImageTangents((8, 8))
    )
    assert middle.fit(X[:60], y[:60]).bundle_.n_tangents == 0
    # The candidates move along their tangents, the queries do not.
    reranked = TangentKNeighborsClassifier(
        metric=metric, algorithm="rerank", tangents=ImageTangents((8, 8))
    ).fit(X[:60], y[:60])
    assert reranked.bundle_.n_tangents == 7
    reranked.tangents_ = Refusing()
    reranked.predict(X[60:])


def test_a_finer_query_changes_nothing_that_was_fitted(images):
    X, y = images
    knn = TangentKNeighborsClassifier(3, tangents=ImageTangents((8, 8)))
    knn.fit(X[:60].astype("f"), y[:60])
    before = knn.kneighbors(X[60:].astype("f"))
    fine = knn.kneighbors(X[60:])
    for again, first in zip(knn.kneighbors(X[60:].astype("f")), before, strict=True):
        np.testing.assert_array_equal(again, first)
    np.testing.assert_allclose(fine[0], before[0], rtol=1e-4)
    assert knn.bundle_.points.dtype == knn._index_at(X).references.points.dtype == "f4"


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("sides", ["both", "midpoint"])
@pytest.mark.parametrize(
    ("exponent", "dtype"),
    [(-190, "d"), (190, "d"), (-36, "f"), (36, "f")],
)
def test_any_scale_is_the_same_problem(images, exponent, dtype, sides, k):
    X, y = images
    scale = 2.0**exponent
    options = {"tangents": ImageTangents((8, 8)), "sides": sides}
    small = X.astype("f").astype(dtype)
    plain = TangentKNeighborsClassifier(k, **options).fit(small[:60], y[:60])
    scaled = TangentKNeighborsClassifier(k, **options)
    scaled.fit((small[:60] * scale).astype(dtype), y[:60])
    asked = small[60:], (small[60:] * scale).astype(dtype)
    for a, b in zip(
        plain.kneighbors(asked[0]), scaled.kneighbors(asked[1]), strict=True
    ):
        factor = scale if a.dtype.kind == "f" else 1
        np.testing.assert_allclose(a * factor, b, rtol=1e-5)
    for ask in ("predict_proba", "confidence", "decision_function"):
        np.testing.assert_allclose(
            getattr(plain, ask)(asked[0]), getattr(scaled, ask)(asked[1]), rtol=1e-4
        )


def chebyshev(X, Y):
    return np.abs(X[:, None] - Y).max(axis=2)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda d: 0 * d, "weights gave 0 to all neighbours"),
        (lambda d: d[:, :1], r"the shape of its distances, \(30, 2\)"),
        (lambda d: -1 - d, "finite numbers of at least 0"),
        (lambda d: np.full_like(d, np.nan), "finite numbers of at least 0"),
    ],
)
def test_bad_weights(images, weights, message):
    X, y = images
    knn = TangentKNeighborsClassifier(2, weights=weights).fit(X[:60], y[:60])
    for ask in (knn.predict_proba, knn.predict, knn.decision_function):
        with pytest.raises(ValueError, match=message):
            ask(X[60:])


def test_weights_of_ones_own(images):
    X, y = images
    ours = TangentKNeighborsClassifier(3, weights=lambda d: np.exp(-d)).fit(X, y)
    theirs = KNeighborsClassifier(3, weights=lambda d: np.exp(-d)).fit(X, y)
    asked = X + 0.01
    np.testing.assert_allclose(
        votes(ours, asked), theirs.predict_proba(asked), atol=1e-9
    )


def test_the_search_is_that_of_fit(images):
    X, y = images
    metric = partial(image_distortion_distances, shape=(8, 8))
    for first, then in (
        ({"metric": metric}, {"algorithm": "rerank"}),
        ({"metric": metric}, {"metric": "tangent"}),
        ({}, {"metric": metric, "algorithm": "rerank"}),
        ({"sides": "both"}, {"sides": "midpoint"}),
    ):
        knn = TangentKNeighborsClassifier(tangents=ImageTangents((8, 8)), **first)
        expected = knn.fit(X[:60], y[:60]).kneighbors(X[60:])
        margins = knn.margins(X[60:], y[60:])
        knn.set_params(**then)
        np.testing.assert_array_equal(knn.kneighbors(X[60:]), expected)
        np.testing.assert_array_equal(knn.margins(X[60:], y[60:]), margins)
    knn.set_params(n_neighbors=4, weights="foo", spring=3.0, tangents=None)
    np.testing.assert_array_equal(knn.kneighbors(X[60:]), expected)
    np.testing.assert_array_equal(knn.margins(X[60:], y[60:]), margins)
    assert knn.margin_unit == "relative"
    assert knn.kneighbors(X[60:], 4)[1].shape == (30, 4)


def test_few_samples_of_many_features_are_fitted_at_once(images):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4000)), rng.integers(2, size=50)
    knn = TangentKNeighborsClassifier().fit(X, y)
    assert isinstance(knn._index_at(X), PlainIndex)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 4),
    n_classes=st.integers(2, 4),
    weights=st.sampled_from(["uniform", "distance"]),
    algorithm=st.sampled_from(["exact", "brute", "rerank"]),
    metric=st.sampled_from(["tangent", "midpoint", chebyshev]),
)
def test_the_contract_on_a_lattice_full_of_ties(
    seed, k, n_classes, weights, algorithm, metric
):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(40, 2)).astype(float)
    y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=36)])
    options = {"metric": metric}
    if metric == "midpoint":
        generator = ImageTangents((1, 2), ["x_shift"])
        options = {"tangents": generator, "sides": "midpoint"}
    knn = TangentKNeighborsClassifier(
        k, weights=weights, algorithm=algorithm, **options
    ).fit(X[: len(y)], y)
    order = rng.permutation(len(y))
    shuffled = TangentKNeighborsClassifier(
        k, weights=weights, algorithm=algorithm, **options
    ).fit(X[order], y[order])
    answers, scores = knn.predict(X), knn.decision_function(X)
    if n_classes == 2:
        np.testing.assert_array_equal(answers, scores > 0)
    else:
        np.testing.assert_array_equal(answers, scores.argmax(axis=1))
    confidence = knn.confidence(X)
    assert (confidence >= 0).all()
    np.testing.assert_array_equal(confidence, knn.margins(X, answers))
    for c in range(n_classes):
        margins = knn.margins(X, np.full(len(X), c))
        assert ((margins > 0) == ((answers == c) & (confidence > 0))).all()
    alone = [knn.confidence(row[None])[0] for row in X[:5]]
    np.testing.assert_array_equal(alone, confidence[:5])
    if k == 1:
        np.testing.assert_array_equal(shuffled.predict(X), answers)
        np.testing.assert_array_equal(shuffled.confidence(X), confidence)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["left"] * 3, "X has 30 samples and y has 3"),
        (["left"] * 31, "X has 30 samples and y has 31"),
        (["left"], "X has 30 samples and y has 1"),
        (np.full((30, 2), "left"), "y must be a 1d array"),
    ],
)
def test_one_label_per_sample(images, k, y, message):
    X, labels = images
    knn = TangentKNeighborsClassifier(k).fit(X[:60], labels[:60])
    with pytest.raises(ValueError, match=message):
        knn.margins(X[60:], y)


def test_margins_of_one_neighbour_are_of_squared_distances(images):
    X, y = images
    generator = ImageTangents((8, 8), ["x_shift", "rotation"])
    knn = TangentKNeighborsClassifier(tangents=generator, sides="both")
    knn.fit(X[:60], y[:60])
    d2 = tangent_distances(X[60:], X[:60], tangents=generator)
    nearest = np.column_stack([d2[:, y[:60] == c].min(axis=1) for c in knn.classes_])
    rows = np.arange(30)
    expected = np.empty_like(nearest)
    for c in range(3):
        other = np.delete(nearest, c, axis=1).min(axis=1)
        expected[:, c] = (other - nearest[:, c]) / (other + nearest[:, c])
    np.testing.assert_allclose(knn.decision_function(X[60:]), expected, rtol=1e-6)
    codes = np.searchsorted(knn.classes_, y[60:])
    np.testing.assert_allclose(
        knn.margins(X[60:], y[60:]), expected[rows, codes], rtol=1e-6
    )
    np.testing.assert_allclose(knn.confidence(X[60:]), expected.max(axis=1), rtol=1e-6)


def test_references_have_the_tangents_of_their_class():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 3
    for algorithm in ("exact", "rerank"):
        knn = TangentKNeighborsClassifier(
            tangents=LearnedTangents(2, local=True), algorithm=algorithm
        ).fit(X, y)
        order = np.argsort(y, kind="stable")
        expected = knn.input_tangents_.bundle(X[order], y[order])
        np.testing.assert_array_equal(knn.bundle_.frames, expected.frames)


def test_class_weight_is_a_factor_on_the_votes():
    X, y = [[0.0], [1.0], [1.2]], [0, 1, 1]
    knn = TangentKNeighborsClassifier(3, class_weight={0: 5.0}).fit(X, y)
    np.testing.assert_allclose(votes(knn, [[1.0]]), [[5 / 7, 2 / 7]])


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_a_metric_must_give_distances(images, value):
    X, y = images

    def broken(X, Y):
        d = chebyshev(X, Y)
        d[0, 0] = value
        return d

    knn = TangentKNeighborsClassifier(metric=broken).fit(X[:60], y[:60])
    for ask in (knn.predict, knn.confidence, knn.kneighbors):
        with pytest.raises(ValueError, match="metric must return finite distances"):
            ask(X[60:])


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes"):
        TangentKNeighborsClassifier().fit([[0.0], [1.0]], ["a", "a"])


def test_without_tangents_it_says_so(images):
    X, y = images
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="given no tangents"):
            TangentKNeighborsClassifier().fit(X, y)
        TangentKNeighborsClassifier(tangents="none").fit(X, y)
        TangentKNeighborsClassifier(metric=chebyshev).fit(X, y)


def test_a_failed_fit_leaves_the_old_model(images):
    X, y = images
    knn = TangentKNeighborsClassifier(tangents=ImageTangents((8, 8)))
    before = knn.fit(X[:60], y[:60]).margins(X[60:], y[60:])
    with pytest.raises(ValueError, match="n_neighbors"):
        knn.set_params(n_neighbors=50).fit(X[:20], y[::-1][:20])
    np.testing.assert_array_equal(knn.margins(X[60:], y[60:]), before)


@pytest.mark.parametrize("k", [1, 5])
def test_probabilities_of_many_samples_are_shares_of_right_answers(k):
    """Leaving samples out takes no other fit: any number of them has a temperature."""
    rng = np.random.default_rng(0)
    y, q = rng.integers(3, size=10_200), rng.integers(3, size=2000)
    X, Q = (2.0 * np.eye(3, 2)[c] + rng.normal(size=(len(c), 2)) for c in (y, q))
    model = TangentKNeighborsClassifier(k, tangents="none").fit(X, y)
    shares = model.predict_proba(Q)
    right = np.mean(model.predict(Q) == q)
    # Three standard errors of either sample, 500 of which are left out.
    assert abs(shares.max(axis=1).mean() - right) < 0.07
