"""The mathematics of the parts, against the slow and obvious."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge

from widemargin.fewshot.bumps import log_densities
from widemargin.fewshot.kernel_ridge import (
    PENALTY,
    fit_kernel_ridge,
    squared_distances,
)
from widemargin.fewshot.looks import as_rows, look_at, shape_of
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
    np.testing.assert_allclose(white[0], expected, atol=1e-8)


def test_small_copies_begin_with_single_moves():
    moves = [
        (copy.rotation != 0) + (copy.down != 1) + (copy.right != 1)
        for copy in small_copies((8, 8))
    ]
    assert moves == [1] * 6 + [2] * 12 + [3] * 8
