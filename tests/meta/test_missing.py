"""Factor models of incomplete samples: dense Gaussians, slow EM, exact recovery."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from widemargin.meta import imputing
from widemargin.meta.imputing import (
    LEAST,
    RIDGE,
    em_pass,
    learned_factors,
    start,
)


def draws(seed, n=60, d=6, q=2, noise=0.3, n_classes=1):
    """Samples of a factor model per class, and their codes."""
    rng = np.random.RandomState(seed)
    codes = np.arange(n) % n_classes
    means, maps = rng.randn(n_classes, d), rng.randn(n_classes, q, d)
    X = means[codes] + np.einsum("iq,iqd->id", rng.randn(n, q), maps[codes])
    return X + noise * rng.randn(n, d), codes


def with_holes(X, share, seed=0):
    rng = np.random.RandomState(seed)
    holes = rng.uniform(size=X.shape) < share
    holes[np.arange(len(X)), rng.randint(X.shape[1], size=len(X))] = False
    holes[rng.randint(len(X), size=X.shape[1]), np.arange(X.shape[1])] = False
    return np.where(holes, np.nan, X)


def dense(model):
    """Log share, mean and covariance of every part, in the units of the samples."""
    for log, mean, c in zip(model.logs, model.means, model.owners, strict=True):
        F, mean = model.factors[c].astype(np.float64), mean.astype(np.float64)
        covariance = F @ F.T + np.diag(model.psi[c])
        covariance *= np.outer(model.unit, model.unit)
        yield log, model.centre + model.unit * mean, covariance


def slow_completed(model, X):
    out = X.copy()
    for x in out:
        o = ~np.isnan(x)
        scores, expected = [], []
        for log, mean, S in dense(model):
            density = multivariate_normal(mean[o], S[np.ix_(o, o)])
            scores.append(log + density.logpdf(x[o]))
            gap = np.linalg.solve(S[np.ix_(o, o)], x[o] - mean[o])
            expected.append(mean[~o] + S[np.ix_(~o, o)] @ gap)
        shares = np.exp(np.array(scores) - max(scores))
        value = shares @ np.array(expected) / shares.sum()
        x[~o] = np.clip(value, model.low[~o], model.high[~o])
    return out


@given(st.integers(0, 10**6), st.integers(1, 3), st.floats(0.05, 0.8))
@settings(max_examples=25, deadline=None)
def test_conditional_means_are_those_of_dense_gaussians(seed, n_classes, share):
    X, codes = draws(seed, n_classes=n_classes)
    H = with_holes(X, share, seed)
    model = learned_factors(H, codes, np.ones(len(X)))
    found = model.completed(H)
    np.testing.assert_allclose(found, slow_completed(model, H), rtol=1e-7, atol=1e-9)
    assert np.array_equal(found[~np.isnan(H)], H[~np.isnan(H)])
    for i in (0, 7):
        assert np.array_equal(model.completed(H[i : i + 1])[0], found[i])
    assert model.completed(X) is X


def slow_pass(state, X, w):
    """One pass of EM, sample by sample and feature by feature; and what it climbs."""
    mean, F, psi = state
    n, (d, q) = len(X), F.shape
    S, height = F @ F.T + np.diag(psi), 0.0
    z, C = np.ones((n, q + 1)), np.zeros((n, q + 1, q + 1))
    for i, x in enumerate(X):
        o = ~np.isnan(x)
        height += w[i] * multivariate_normal(mean[o], S[np.ix_(o, o)]).logpdf(x[o])
        C[i, :q, :q] = np.linalg.inv(np.eye(q) + (F[o].T / psi[o]) @ F[o])
        z[i, :q] = C[i, :q, :q] @ (F[o].T / psi[o]) @ (x[o] - mean[o])
    height -= 0.5 * np.sum((RIDGE * np.sum(F**2, axis=1) + LEAST) / psi + np.log(psi))
    B, left = np.empty((d, q + 1)), np.empty(d)
    for j in range(d):
        o = ~np.isnan(X[:, j])
        E = np.diag(np.append(np.full(q, RIDGE), 0.0))
        for i in np.flatnonzero(o):
            E += w[i] * (np.outer(z[i], z[i]) + C[i])
        B[j] = np.linalg.solve(E, (w[o] * X[o, j]) @ z[o])
        squares = [(X[i, j] - B[j] @ z[i]) ** 2 + B[j] @ C[i] @ B[j] for i in range(n)]
        squares = np.array(squares)[o] @ w[o] + RIDGE * np.sum(B[j, :q] ** 2)
        left[j] = (squares + LEAST) / (w[o].sum() + 1)
    return (B[:, q], B[:, :q], left), height


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("q", [0, 2])
def test_a_pass_is_that_of_loops_and_climbs(share, q):
    X = with_holes(draws(3)[0], share)
    X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    w = np.random.RandomState(0).uniform(0.5, 2, len(X))
    R, t = np.nan_to_num(X), (~np.isnan(X)).astype(float)
    state, heights = start(R, w, q), []
    for _ in range(6):
        expected, height = slow_pass(state, X, w)
        state, found = em_pass(state, R, t, w)
        heights.append(found)
        assert found == pytest.approx(height, rel=1e-9)
        for a, b in zip(state, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    assert np.all(np.diff(heights) > -1e-9 * abs(heights[0]))


@pytest.mark.parametrize("n_classes", [1, 3])
def test_what_few_factors_made_is_found_again(n_classes):
    X, codes = draws(1, n=900, d=12, q=2, noise=0.0, n_classes=n_classes)
    H = with_holes(X, 0.2)
    holes = np.isnan(H)
    for given_ in (X, H):
        found = learned_factors(given_, codes, np.ones(len(X))).completed(H)
        error = np.sqrt(np.mean((found - X)[holes] ** 2) / X.var(axis=0).mean())
        assert error < 0.1
    means = np.broadcast_to(np.nanmean(H, axis=0), X.shape)
    assert np.mean((means - X)[holes] ** 2) > 10 * np.mean((found - X)[holes] ** 2)


def test_parts_of_a_class_know_what_no_line_does(monkeypatch):
    """Four shapes of one class: the third feature is the product of the others."""
    rng = np.random.RandomState(0)
    signs = rng.choice([-2.0, 2.0], size=(160, 2))
    X = np.column_stack([signs, signs.prod(axis=1) / 2]) + 0.3 * rng.randn(160, 3)
    codes, w, error = np.zeros(160, int), np.ones(160), []
    asked = X.copy()
    asked[:, 2] = np.nan
    for parts in (imputing.PARTS, 1):
        monkeypatch.setattr(imputing, "PARTS", parts)
        model = learned_factors(with_holes(X, 0.2), codes, w)
        assert len(model.logs) <= parts
        assert np.exp(model.logs).sum() == pytest.approx(1)
        error.append(np.mean((model.completed(asked) - X)[:, 2] ** 2))
    assert error[0] < 0.1 * error[1]


def test_units_and_offsets_do_not_matter():
    X, codes = draws(2, n_classes=2)
    H = with_holes(X, 0.3)
    unit, offset = 10.0 ** np.arange(-3, 3), np.array([0, 1e3, -5, 0, 0.1, 9])
    one = learned_factors(H, codes, np.ones(len(H))).completed(H)
    G = H * unit + offset
    other = learned_factors(G, codes, np.ones(len(H))).completed(G)
    np.testing.assert_allclose((other - offset) / unit, one, rtol=1e-6, atol=1e-6)


def test_weights_are_repetitions():
    X = draws(4)[0]
    H, w = with_holes(X, 0.3), 1.0 + (np.arange(len(X)) % 3 == 0)
    rows = np.repeat(np.arange(len(X)), w.astype(int))
    R, t = np.nan_to_num(H), (~np.isnan(H)).astype(float)
    state = start(R, w, 2)
    once, height = em_pass(state, R, t, w)
    twice, same = em_pass(state, R[rows], t[rows], np.ones(len(rows)))
    assert height == pytest.approx(same)
    for a, b in zip(once, twice, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "d", "n_classes"), [(1, 2, 1), (3, 5, 2), (6, 200, 2), (90, 3, 40)]
)
def test_odd_shapes_stay_within_what_was_seen(n, d, n_classes):
    rng = np.random.RandomState(0)
    X, codes = rng.randn(n, d), np.arange(n) % n_classes
    X[:, -1] = 7.0
    H = with_holes(X, 0.5)
    model = learned_factors(H, codes, np.ones(n))
    assert len(model.psi) == (1 if n < 10 * n_classes else n_classes)
    found = model.completed(np.vstack([H, 1e6 * H]))
    assert np.all(found[np.isnan(np.vstack([H, 1e6 * H]))] <= np.nanmax(H))
    assert np.isfinite(found).all()
    assert np.all(found[:n, -1] == 7)


@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_extreme_units_and_float32(size):
    X, codes = draws(5, n_classes=2)
    H = with_holes(X, 0.3)
    found = learned_factors(H * size, codes, np.ones(len(H))).completed(H * size)
    one = learned_factors(H, codes, np.ones(len(H)))
    np.testing.assert_allclose(found / size, one.completed(H), rtol=1e-9)
    short = one.completed(H.astype(np.float32))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, one.completed(H), rtol=1e-4, atol=1e-5)


def test_a_feature_that_is_nearly_always_missing():
    X, codes = draws(6, n_classes=2)
    X[1:, 3] = np.nan
    model = learned_factors(X, codes, np.ones(len(X)))
    np.testing.assert_allclose(model.completed(X)[:, 3], X[0, 3])
