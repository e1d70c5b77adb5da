"""Passes of tangent models read what is theirs; sums of their margins."""

import numpy as np
import pytest

from widemargin._compute.models import one_sided
from widemargin.prototypes import margin_ascent


def test_models_without_tangents_read_nothing_behind_their_products():
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(5, 3)), rng.normal(size=(2, 3))
    right = np.arange(5)[:, None] % 2 == np.arange(2)
    norms, offsets = (X**2).sum(axis=1), (C**2).sum(axis=1)[:, None]
    nearest, margins = np.empty((5, 2), np.intp), np.empty(5)
    # What may be written over ends where numbers end, and holds blocks of two samples.
    behind = np.full(2 * margin_ascent._scratch_size(2, 1, 3) + 1, np.nan)
    ones = np.ones(5)
    sums, moments, sizes = np.empty((2, 1, 3)), np.empty((2, 1, 1)), np.empty((2, 1))
    one_sided(
        X, norms, right, ones, (C, offsets), 0.0, nearest, margins,
        (sums, moments, sizes), (False, np.empty((2, 3)), *np.empty((2, 2, 0))),
        2, behind[:-1],
    )  # fmt: skip
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


@pytest.mark.parametrize("theta", [-0.3, 0.0, 0.4])
def test_sums_of_margins(theta):
    rng = np.random.default_rng(1)
    mu = np.concatenate([rng.uniform(-1, 1, 40), [0.0, theta]])
    w, before, given = rng.uniform(0, 3, (3, len(mu)))
    expected = (
        w.sum(), w @ mu, before.sum(), before @ mu, given.sum(),
        given @ np.maximum(0, theta - mu), given @ (mu <= 0), given @ (mu < theta),
        np.count_nonzero(mu < theta),
    )  # fmt: skip
    found = margin_ascent.Pass(mu, *np.zeros((4, 1)))
    samples = margin_ascent.PassInput(None, given)
    sums = margin_ascent.climb_sums(
        margin_ascent.WeightState(w, before, found), theta, 0, samples
    )
    np.testing.assert_allclose(sums[3:-1], expected)
    mu[3] = np.nan
    sums = margin_ascent.climb_sums(
        margin_ascent.WeightState(w, before, found), theta, 0, samples
    )
    assert np.isnan([sums.value, sums.value_before, sums.hinge]).all()
