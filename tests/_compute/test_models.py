"""Passes of tangent models read what is theirs."""

import numpy as np

from widemargin._compute.models import one_sided


def test_models_without_tangents_read_nothing_behind_their_products():
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(5, 3)), rng.normal(size=(2, 3))
    right = np.arange(5)[:, None] % 2 == np.arange(2)
    norms, offsets = (X**2).sum(axis=1), (C**2).sum(axis=1)[:, None]
    # The products end where numbers end.
    behind = np.full(5 * 2 + 1, np.nan)
    Z, pulls = behind[:-1].reshape(2, 5), np.empty((2, 5, 1))
    nearest, margins = np.empty((5, 2), np.intp), np.empty(5)
    one_sided(
        X, C, norms, offsets, right, np.ones(5), 0.0, nearest, margins, Z,
        np.empty((2, 5)), pulls, np.empty((2, 5, 1)), np.empty((10, 4)),
        np.empty((10, 1)),
    )  # fmt: skip
    D = ((X[:, None] - C) ** 2).sum(axis=2)
    plus, minus = D[right], D[~right]
    np.testing.assert_allclose(margins, (minus - plus) / (minus + plus))
