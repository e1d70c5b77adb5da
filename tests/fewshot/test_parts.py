"""The mathematics of the parts, against the slow and obvious."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import log_softmax, logsumexp
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge

from widemargin.fewshot.bumps import log_densities
from widemargin.fewshot.discriminant import SHRUNK, fit_discriminant
from widemargin.fewshot.kernel_ridge import (
    PENALTY,
    fit_kernel_ridge,
    squared_distances,
)
from widemargin.fewshot.looks import as_rows, look_at, shape_of
from widemargin.fewshot.members import LEAST_LOG, fit_weights
from widemargin.fewshot.views import View, small_copies
from widemargin.metrics import (
    image_distortion_distances,
    listed_distortion_distances,
)


def slow_ridge(Z, codes, weights, unit, n_versions, n_classes, keep):
    """Coefficients of a fit to the versions of some images, by scikit-learn."""
    rows = (np.arange(n_versions)[:, None] * len(codes) + keep).ravel()
    share = np.tile((weights / weights.mean())[keep], n_versions)
    targets = (codes[keep][:, None] == np.arange(n_classes)) - 1 / n_classes
    K = np.exp(-cdist(Z[rows], Z[rows]) / unit)
    model = KernelRidge(alpha=PENALTY, kernel="precomputed")
    model.fit(K, np.tile(targets, (n_versions, 1)), sample_weight=share)
    return rows, model


@pytest.mark.parametrize("n_versions", [1, 3])
def test_left_out_scores_are_those_of_fits_without_an_image_and_its_copies(n_versions):
    rng = np.random.default_rng(0)
    codes, weights = np.arange(12) % 3, rng.uniform(0.5, 2, 12)
    Z = rng.normal(size=(12 * n_versions, 5))
    found = fit_kernel_ridge(Z, codes, weights, 3)
    everyone = np.arange(12)
    rows, model = slow_ridge(Z, codes, weights, found.unit, n_versions, 3, everyone)
    np.testing.assert_allclose(found.coefficients, model.dual_coef_, atol=1e-10)
    queries = squared_distances(rng.normal(size=(4, 5)), Z)
    expected = model.predict(np.exp(-np.sqrt(queries[:, rows]) / found.unit))
    np.testing.assert_allclose(found.scores(queries), expected, atol=1e-10)
    for i in everyone:
        keep = np.delete(everyone, i)
        rows, model = slow_ridge(Z, codes, weights, found.unit, n_versions, 3, keep)
        K = np.exp(-cdist(Z[i : i + 1], Z[rows]) / found.unit)
        np.testing.assert_allclose(found.left_out[i], model.predict(K)[0], atol=1e-9)


def test_more_images_than_a_fit_takes_are_a_share_of_every_class(monkeypatch):
    monkeypatch.setattr("widemargin.fewshot.kernel_ridge.MOST_ROWS", 20)
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], [30, 10])
    Z = rng.normal(size=(80, 3)) + 4 * np.tile(codes, 2)[:, None]
    found = fit_kernel_ridge(Z, codes, np.ones(40), 2)
    assert np.bincount(codes[found.images]).tolist() == [15, 5]
    right = found.scores(squared_distances(Z, Z)).argmax(axis=1) == np.tile(codes, 2)
    assert right.mean() > 0.95


def slow_log_densities(distances, codes, logs, gamma, n_classes):
    out = np.empty((len(distances), n_classes))
    for i, row in enumerate(distances):
        there = np.isfinite(row)
        for c in range(n_classes):
            own = there & (codes[i] == c)
            out[i, c] = -gamma * row[there].max()
            if own.any():
                out[i, c] = logsumexp(-gamma * row[own] + logs[i][own])
    return out


def test_log_densities():
    rng = np.random.default_rng(0)
    distances = rng.gamma(3.0, size=(20, 9))
    distances[rng.random((20, 9)) < 0.2] = np.inf
    codes = rng.integers(0, 4, (20, 9))
    logs = np.log(rng.uniform(0.1, 1, (20, 9)))
    slow = slow_log_densities(distances, codes, logs, 1.7, 5)
    fast = log_densities(distances, codes, logs, 1.7, 5)
    np.testing.assert_allclose(
        fast - fast[:, :1], slow - slow[:, :1], rtol=1e-10, atol=1e-10
    )


def test_log_densities_of_no_reference_are_equal():
    found = log_densities(
        np.full((1, 2), np.inf), np.array([0, 1]), np.zeros(2), 1.0, 3
    )
    assert (found == found[0, 0]).all()


def test_listed_distances_are_those_of_all_pairs():
    rng = np.random.default_rng(0)
    X, Y = rng.random((5, 80)), rng.random((7, 80))
    listed = rng.integers(0, 7, (5, 4))
    options = {"shape": (8, 10), "window": 1, "gradients": "normalised"}
    every = image_distortion_distances(X, Y, **options)
    found = listed_distortion_distances(X, Y, listed, n_jobs=2, **options)
    np.testing.assert_array_equal(found, np.take_along_axis(every, listed, axis=1))
    for bad in (listed[:3], listed + 4, listed.astype(float)):
        with pytest.raises(ValueError, match="listed must hold rows of Y"):
            listed_distortion_distances(X, Y, bad, **options)


@pytest.mark.parametrize(
    ("n_features", "shape"),
    [(64, (8, 8, 1)), (192, (8, 8, 3)), (49, None), (100, (10, 10, 1)), (65, None)],
)
def test_a_shape_is_guessed_where_that_is_safe(n_features, shape):
    assert shape_of("auto", n_features) == shape


def test_images_have_a_background_of_zero_and_values_of_at_most_one():
    rng = np.random.default_rng(0)
    X = np.full((3, 10, 12), 250.0)
    X[:, 3:7, 3:7] = rng.uniform(0, 200, (3, 4, 4))
    rows, shape = as_rows(X, "auto")
    looks = look_at(rows, shape_of(shape, 120))
    images = looks.images(rows)
    assert looks.background == 250.0
    assert images.max() == 0
    assert images.min() == -1
    assert looks.are_ink(images)
    noise = rng.random((3, 120))
    looks = look_at(noise, (10, 12, 1))
    assert not looks.are_ink(looks.images(noise))


def test_large_images_are_averaged():
    X = np.arange(2 * 100 * 60 * 3, dtype=float).reshape(2, -1)
    looks = look_at(X, (100, 60, 3))
    assert looks.shape == (34, 20, 3)
    images = looks.images(X).reshape(2, 34, 20, 3)
    block = X.reshape(2, 100, 60, 3)[0, 3:6, 6:9].mean(axis=(0, 1))
    expected = (block - looks.background) / looks.amplitude
    np.testing.assert_allclose(images[0, 1, 2], expected)


def test_whitening_makes_copies_nearer_beside_other_images():
    X, _ = load_digits(return_X_y=True)
    looks = look_at(X, (8, 8, 1))
    images, copies = looks.images(X[:30]), small_copies((8, 8))
    view = View(looks, images, upright=False, features=None, transformations=copies)
    assert view.images.shape == (27 * 30, 64)
    plain = view.features.transform(view.images).reshape(27, 30, -1)
    white = view.Z.reshape(27, 30, -1)

    def ratio(Z):
        within = ((Z - Z.mean(axis=0)) ** 2).sum(axis=2).mean()
        return within / ((Z[0] - Z[0].mean(axis=0)) ** 2).sum(axis=1).mean()

    assert ratio(white) < 0.9 * ratio(plain)
    # By the formula, of the covariance about the mean of an image's versions.
    apart = (plain - plain.mean(axis=0)).reshape(-1, plain.shape[2])
    S = apart.T @ apart
    values, vectors = np.linalg.eigh(np.eye(len(S)) + S / (0.1 * np.linalg.norm(S, 2)))
    expected = (plain[0] - plain[0].mean(axis=0)) @ (vectors / values**0.5) @ vectors.T
    found = white[0] - white[0].mean(axis=0)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_small_copies_begin_with_single_moves():
    moves = [
        (copy.rotation != 0) + (copy.down != 1) + (copy.right != 1)
        for copy in small_copies((8, 8))
    ]
    assert moves == [1] * 6 + [2] * 12 + [3] * 8


@pytest.mark.parametrize(
    ("dtype", "far"),
    [(np.float32, 1e4), (np.float32, 1e8), (np.float64, 1e9), (np.float64, 1e30)],
)
def test_far_rows_leave_the_kernel_positive(dtype, far):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 4)).astype(dtype)
    codes = np.arange(60) % 2
    Z[codes == 1] += 3
    # Steps that products cannot see, while they see two of them.
    step = 0.7 * (64 * np.finfo(dtype).eps) ** 0.5
    Z[::4] += dtype(far) * (1 + step * np.arange(15, dtype=dtype)[:, None])
    found = fit_kernel_ridge(Z, codes, rng.uniform(0.5, 2, 60), 2)
    near = np.arange(60) % 4 > 0
    kernel = np.exp(-cdist(Z.astype(float), Z.astype(float)) / found.unit)
    answers = (kernel @ found.coefficients).argmax(axis=1)
    assert (answers == codes)[near].mean() > 0.9
    assert np.isfinite(found.left_out).all()


def test_a_far_row_of_single_precision_leaves_the_others_where_they_are():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 2
    X = (rng.normal(size=(60, 3)) + 4 * codes[:, None]).astype(np.float32)
    X[0, 2] = -1e6
    looks = look_at(X, None)
    images = looks.images(X)
    view = View(looks, images, upright=False, features="values", transformations=())
    squares = view.seen(images[1:]).squares
    exact = cdist(images[1:].astype(float), images.astype(float), "sqeuclidean")
    np.testing.assert_allclose(squares, exact, rtol=1e-3, atol=1e-6 * np.median(exact))


@pytest.mark.parametrize("n_features", [3, 40])
def test_discriminant_and_what_it_says_without_a_sample(n_features):
    rng = np.random.default_rng(0)
    codes, weights = np.arange(14) % 3, rng.uniform(0.5, 2, 14)
    codes[-1] = 3  # alone
    Z = rng.normal(size=(14, n_features))
    found = fit_discriminant(Z, codes, weights, 4)

    def slow(keep, queries, rho):
        w = weights[keep] / weights.mean()
        means = [
            np.average(Z[keep][codes[keep] == c], axis=0, weights=w[codes[keep] == c])
            for c in range(4)
        ]
        apart = Z[keep] - np.array(means)[codes[keep]]
        A = (apart.T * w) @ apart + rho * np.eye(n_features)
        far = queries[:, None] - np.array(means)
        return -np.einsum("qcf,fg,qcg->qc", far, np.linalg.inv(A), far)

    w = weights / weights.mean()
    apart = Z - np.stack(
        [np.average(Z[codes == c], axis=0, weights=w[codes == c]) for c in codes]
    )
    rho = SHRUNK * np.trace((apart.T * w) @ apart) / n_features
    everyone, queries = np.arange(14), rng.normal(size=(5, n_features))

    def centred(scores):
        return scores - scores[:, :1]

    np.testing.assert_allclose(
        centred(found.scores(queries)), centred(slow(everyone, queries, rho)), rtol=1e-8
    )
    for i in range(13):
        expected = slow(np.delete(everyone, i), Z[i : i + 1], rho)
        left_out = found.left_out[i : i + 1]
        np.testing.assert_allclose(centred(left_out), centred(expected), rtol=1e-8)
    assert np.isnan(found.left_out[13]).any()


def test_weights_are_those_of_least_cross_entropy_with_the_prior():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 3
    # The first knows much, the second little, the third only that it is wrong.
    knows = (codes[:, None] == np.arange(3)) * np.array([3.0, 0.5, -2.0])[:, None, None]
    logs = log_softmax(knows + rng.normal(size=knows.shape), axis=2)
    of_images = rng.uniform(0.5, 1.5, 60)
    usual, spread = np.array([0.3, 0.2, 0.3]), np.array([0.5, 0.1, 0.2])
    found = fit_weights(logs, codes, of_images, usual, spread)
    assert found[0] > found[1] > found[2] == 0

    def loss(weights):
        P = log_softmax(np.tensordot(weights, np.maximum(logs, LEAST_LOG), 1), axis=1)
        prior = (((weights - usual) / spread) ** 2).sum() / 2
        return prior - of_images @ P[np.arange(60), codes]

    steps = 1e-3 * np.eye(3)[[0, 1, 0, 1, 2]] * np.array([1, 1, -1, -1, 1])[:, None]
    assert all(loss(found) < loss(found + step) for step in steps)
    nothing = fit_weights(logs[:, :0], codes[:0], of_images[:0], usual, spread)
    np.testing.assert_array_equal(nothing, usual)
