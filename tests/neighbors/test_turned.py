"""Samples turned by any angle: a bound says which of their copies need not be met."""

import numpy as np

from widemargin import TangentKNeighborsClassifier
from widemargin.metrics import tangent_distances
from widemargin.neighbors import pruned
from widemargin.tangents import ImageAffine, ImageTangents

SIDE = 16
TURNS = [ImageAffine((SIDE, SIDE), 2 * np.pi * k / 24) for k in range(1, 24)]


def blobs(n, seed):
    """Smooth images of ten classes within a disc, each turned by any angle."""
    rng = np.random.default_rng(seed)
    r, c = np.indices((SIDE, SIDE)) - (SIDE - 1) / 2
    waves = np.fft.fftfreq(SIDE)
    smooth = np.exp(-60 * (waves[:, np.newaxis] ** 2 + waves**2))
    means = np.random.default_rng(0).normal(size=(10, SIDE, SIDE))
    means = np.fft.ifft2(np.fft.fft2(means) * smooth).real * (np.hypot(r, c) < 8)
    means /= means.std(axis=(1, 2), keepdims=True)
    codes = np.arange(n) % 10
    X = means[codes].reshape(n, -1)
    for row, angle in zip(X, rng.uniform(0, 2 * np.pi, n), strict=True):
        row[:] = ImageAffine((SIDE, SIDE), angle)(row[np.newaxis])[0]
    return X + 0.1 * rng.normal(size=X.shape), codes


def test_turned_copies_are_met_where_the_bound_says(monkeypatch):
    """The nearest copy is that of all, and hardly any copy was met for it."""
    X, y = blobs(200, 1)
    new, labels = blobs(10, 2)
    settings = {"tangents": ImageTangents((SIDE, SIDE)), "spring": 0.1}
    model = TangentKNeighborsClassifier(transformations=TURNS, sides="both", **settings)
    model.fit(X, y)
    index, met = model._index_at(new), []
    assert (len(index.references), index.algorithm) == (24 * len(X), "exact")
    nearest = pruned.nearest_under_bounds

    def counted(bounds, *args):
        d2, found = nearest(bounds, *args)
        met.append(np.mean(bounds <= d2[:, -1:]))
        return d2, found

    monkeypatch.setattr(pruned, "nearest_under_bounds", counted)
    distances, positions = model.kneighbors(new)
    assert len(met) == 1
    assert met[0] < 0.02
    versions = [X, *(turn(X) for turn in TURNS)]
    every = [
        tangent_distances(new, V, sides="both", squared=False, **settings)
        for V in versions
    ]
    without_bound = np.min(every, axis=0)
    np.testing.assert_allclose(distances[:, 0], without_bound.min(axis=1), rtol=1e-9)
    np.testing.assert_array_equal(positions[:, 0], without_bound.argmin(axis=1))
    # Far copies matter: without them others are nearer.
    assert np.mean(every[0].argmin(axis=1) != positions[:, 0]) > 0.5
    np.testing.assert_array_equal(model.predict(new), labels)
