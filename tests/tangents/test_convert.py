import numpy as np
import pytest

from widemargin.tangents import (
    Bundle,
    ImageTangents,
    LearnedTangents,
    as_bundle,
    orthonormalize,
)
from widemargin.tangents import (
    bundle as bundles,
)

X = np.random.default_rng(0).normal(size=(5, 9))
T = np.random.default_rng(1).normal(size=(5, 2, 9))


class Mine:
    """Not one of ours: it only has the method."""

    def tangents(self, X):
        return np.stack([X, X**2], axis=1)


def test_generator():
    generator = ImageTangents((3, 3))
    expected = generator.bundle(X)
    found = as_bundle(X, generator, n_jobs=2)
    np.testing.assert_array_equal(found.frames, expected.frames)


def test_generator_gets_the_labels():
    y = np.array([0, 1, 0, 1, 0])
    generator = LearnedTangents(1, per_class=True).fit(X, y)
    found = as_bundle(X, generator, 1 - y)
    expected = orthonormalize(generator.tangents_[1 - y])
    np.testing.assert_array_equal(found.frames, expected)


def test_any_object_with_tangents(monkeypatch):
    expected = orthonormalize(Mine().tangents(X))
    np.testing.assert_array_equal(as_bundle(X, Mine()).frames, expected)
    monkeypatch.setattr(bundles, "BLOCK_NUMBERS", 2 * 2 * 9)
    np.testing.assert_array_equal(as_bundle(X, Mine(), n_jobs=2).frames, expected)


class Whole:
    def tangents(self, X):
        return np.ones((len(X), 1, X.shape[1]), int)


def test_generators_may_return_integers():
    np.testing.assert_allclose(as_bundle(X, Whole()).frames, 1 / 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays(dtype):
    points = X.astype(dtype)
    own = as_bundle(points, T)
    np.testing.assert_array_equal(own.frames, orthonormalize(T).astype(dtype))
    shared = as_bundle(points, T[0].tolist())
    assert shared.is_shared
    np.testing.assert_array_equal(
        shared.frames[3], orthonormalize(T[:1])[0].astype(dtype)
    )


def test_bundle_is_taken_as_it_is():
    bundle = Bundle.from_tangents(X, T)
    assert as_bundle(X, bundle) is bundle
    with pytest.raises(ValueError, match=r"Y_tangents is a Bundle .*\(5, 9\)"):
        as_bundle(X[:4], bundle, name="Y_tangents")


def test_none_is_no_tangents():
    bundle = as_bundle(X.astype(np.float32), None)
    assert bundle.n_tangents == 0
    assert bundle.frames.dtype == np.float32


class Flat:
    def tangents(self, X):
        return X


class Moody:
    def tangents(self, X):
        return np.ones((len(X), 1 + len(X) // 2, X.shape[1]))


class Broken:
    def tangents(self, X):
        return np.full((len(X), 1, X.shape[1]), np.nan)


@pytest.mark.parametrize(
    ("tangents", "message"),
    [
        (T[0, 0], r"n_features\) or, shared by all samples.*got \(9,\)"),
        (T[np.newaxis], r"X_tangents must have shape .* got \(1, 5, 2, 9\)"),
        (T[:4], "X_tangents holds tangents of 4 samples but there are 5"),
        (T[:, :, :8], "X_tangents has 8 features but the samples have 9"),
        (T[0, :, :8], "X_tangents has 8 features but the samples have 9"),
        (np.full_like(T, np.nan), "X_tangents contains NaN"),
        (np.full_like(T[0], np.inf), "X_tangents contains infinity"),
        ("simard7", "X_tangents must be a tangent generator such as ImageTangents"),
        (7, "X_tangents must be a tangent generator such as ImageTangents"),
        (ImageTangents, r"class ImageTangents; pass an instance, ImageTangents\(...\)"),
        (Flat(), r"X_tangents.tangents\(X\) must return .* \(1, 9\)"),
        (Moody(), r"X_tangents gave an array of shape \(5, 3, 9\) .*\(5, 1, 9\)"),
        (Broken(), "X_tangents contains NaN or infinity for samples 0 to 4"),
    ],
)
def test_errors_name_the_parameter(tangents, message):
    with pytest.raises((TypeError, ValueError), match=f"(?s){message}"):
        as_bundle(X, tangents, name="X_tangents")


def test_bad_samples():
    for bad in (X[:0], np.full_like(X, np.nan)):
        for tangents in (None, T, ImageTangents((3, 3))):
            with pytest.raises(ValueError, match=r"0 sample|X contains NaN"):
                as_bundle(bad, tangents)
