from functools import partial

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from widemargin.metrics import image_distortion_distances, tangent_distances
from widemargin.neighbors import TangentKNeighborsClassifier
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
