from functools import partial

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from widemargin.metrics import image_distortion_distances, tangent_distances
from widemargin.neighbors import TangentKNeighborsClassifier, nearest
from widemargin.tangents import ImageTangents


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


def test_without_tangents_it_is_the_euclidean_classifier(images):
    X, y = images
    for weights in ("uniform", "distance"):
        ours = TangentKNeighborsClassifier(5, weights=weights).fit(X[:60], y[:60])
        theirs = KNeighborsClassifier(5, weights=weights).fit(X[:60], y[:60])
        np.testing.assert_allclose(
            ours.predict_proba(X[60:]), theirs.predict_proba(X[60:]), atol=1e-9
        )
        for a, b in zip(
            ours.kneighbors(X[60:]), theirs.kneighbors(X[60:]), strict=True
        ):
            np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("sides", ["x", "y", "two", "mean", "midpoint"])
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
    np.testing.assert_array_equal(knn.predict_proba([[0.4]]), [[0.5, 0.5]])


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
        ({"sides": "both"}, "sides must be one of"),
        ({"spring": -1}, "spring must be a finite number"),
        ({"metric": "cosine"}, "metric must be one of"),
        ({"n_components": 0}, "n_components must be an integer"),
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
        asked = np.full(30, label)
        right = knn.predict(X[:30]) == asked
        margins = knn.margins(X[:30], asked)
        np.testing.assert_array_equal(margins > 0, right)
        np.testing.assert_allclose(margins, 0, atol=1e-12)
    np.testing.assert_array_equal(knn.predict(X[:30]), "a")


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
    held, real = [], nearest.as_bundle

    def spy(X, *rest, **options):
        held.append(len(X))
        return real(X, *rest, **options)

    monkeypatch.setattr(nearest, "as_bundle", spy)
    assert len(many) > knn._search.max_queries()
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
    assert knn.bundle_.points.dtype == knn._search.references.points.dtype == "f4"


def test_squares_that_overflow_are_refused():
    X, y = load_digits(return_X_y=True)
    Z = ((X / 16 - 0.5) * 1e20).astype("f")
    knn = TangentKNeighborsClassifier(3, n_components=5)
    with pytest.raises(ValueError, match=r"X contains 5e.19.*scale the data.*float64"):
        knn.fit(Z[:300], y[:300])
    knn.fit(X[:300].astype("f"), y[:300])
    with pytest.raises(ValueError, match=r"X contains 5e.19"):
        knn.kneighbors(Z[:1])
    fine = Z.astype(float)
    _, index = knn.fit(fine[:300], y[:300]).kneighbors(fine[:1])
    assert index[0, 0] == 0
    with pytest.raises(ValueError, match="overflow float64; scale the data"):
        knn.fit(fine[:300] * 1e160, y[:300])
    # A distance of one's own need not square anything.
    largest = TangentKNeighborsClassifier(metric=chebyshev).fit(Z[:300], y[:300])
    assert largest.kneighbors(Z[:1])[1][0, 0] == 0


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
        ours.predict_proba(asked), theirs.predict_proba(asked), atol=1e-9
    )


def test_the_search_is_that_of_fit(images):
    X, y = images
    metric = partial(image_distortion_distances, shape=(8, 8))
    for first, then in (
        ({"metric": metric}, {"algorithm": "rerank"}),
        ({"metric": metric}, {"metric": "tangent"}),
        ({}, {"metric": metric, "algorithm": "rerank"}),
        ({"sides": "two"}, {"sides": "midpoint"}),
    ):
        knn = TangentKNeighborsClassifier(tangents=ImageTangents((8, 8)), **first)
        expected = knn.fit(X[:60], y[:60]).kneighbors(X[60:])
        margins = knn.margins(X[60:], y[60:])
        knn.set_params(**then)
        np.testing.assert_array_equal(knn.kneighbors(X[60:]), expected)
        np.testing.assert_array_equal(knn.margins(X[60:], y[60:]), margins)
    wider = knn.set_params(n_neighbors=4).kneighbors(X[60:])[1]
    assert wider.shape == (30, 4)


def test_few_samples_of_many_features_are_fitted_at_once(images):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4000)), rng.integers(2, size=50)
    knn = TangentKNeighborsClassifier().fit(X, y)
    assert knn._search.axes is None
