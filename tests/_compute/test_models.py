"""Passes of tangent models read what is theirs."""

import numpy as np

from widemargin._compute.models import one_sided, scratch_size


def test_models_without_tangents_read_nothing_behind_their_products():
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(5, 3)), rng.normal(size=(2, 3))
    right = np.arange(5)[:, None] % 2 == np.arange(2)
    norms, offsets = (X**2).sum(axis=1), (C**2).sum(axis=1)[:, None]
    nearest, margins = np.empty((5, 2), np.intp), np.empty(5)
    # What may be written over ends where numbers end, and holds blocks of two samples.
    behind = np.full(2 * scratch_size(2, 1, 3) + 1, np.nan)
    ones = np.ones(5)
    sums, moments, sizes = one_sided(
        X, C, norms, offsets, right, ones, 0.0, nearest, margins, 2, behind[:-1]
    )
    assert np.isnan(behind[-1])
    D = ((X[:, None] - C) ** 2).sum(axis=2)
    plus, minus = D[right], D[~right]
    np.testing.assert_allclose(margins, (minus - plus) / (minus + plus))
    pulls = 4 * np.array([minus, -plus]) / (minus + plus) ** 2
    for j in range(2):
        c = np.where(right[:, j], pulls[0], pulls[1])
        np.testing.assert_allclose(sums[j, 0], c @ X)
        np.testing.assert_allclose(moments[j, 0, 0], c.sum())
        np.testing.assert_allclose(sizes[j, 0], np.abs(c).sum())
