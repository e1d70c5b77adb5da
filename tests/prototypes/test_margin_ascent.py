import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from widemargin.prototypes import HSSClassifier, TVQClassifier
from widemargin.prototypes.margin_ascent import QUANTILES, Plateau, quantiles_of
from widemargin.tangents import orthonormalize


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400] / 16, y[:400]


def figure_2(X, y, C, T, labels, theta, eta, n_rounds):
    """The TVQ algorithm as the paper prints it, one sample at a time."""
    C, T = C.copy(), T.copy()
    n = len(X)
    W, gamma = n, np.full(n, 1 / n)
    for _ in range(n_rounds):
        change_C, change_T = np.zeros_like(C), np.zeros_like(T)
        mu = np.empty(n)
        for i in range(n):
            delta = X[i] - C
            alpha = np.einsum("kmd,kd->km", T, delta)
            z = (delta**2).sum(1) - (alpha**2).sum(1)
            p = np.where(labels == y[i], z, np.inf).argmin()
            q = np.where(labels != y[i], z, np.inf).argmin()
            mu[i] = (z[q] - z[p]) / (z[q] + z[p])
            for j, c in ((p, z[q]), (q, -z[p])):
                c = 4 * gamma[i] * c / (z[p] + z[q]) ** 2
                change_C[j] += c * (delta[j] - alpha[j] @ T[j])
                change_T[j] += c * np.outer(alpha[j], delta[j])
        C += eta * change_C
        T = orthonormalize(T + eta * change_T)
        gamma = gamma + (mu < theta) / W
        gamma /= gamma.sum()
        W += (mu < theta).sum()
    return C, T, gamma


def test_fixed_rate_is_figure_2(digits):
    X, y = digits
    start = HSSClassifier(1, n_tangents=3).fit(X, y)
    C, T, gamma = figure_2(
        X, y, start.prototypes_, start.tangents_, start.prototype_labels_, 0.3, 2.0, 6
    )
    model = TVQClassifier(
        1, n_tangents=3, theta=0.3, learning_rate=2.0, max_iter=6, record_weights=True
    ).fit(X, y)
    assert_allclose(model.prototypes_, C, atol=1e-9)
    for ours, theirs in zip(model.tangents_, T, strict=True):
        assert_allclose(ours.T @ ours, theirs.T @ theirs, atol=1e-8)
    assert_allclose(model.history_["weights"][-1], gamma, atol=1e-12)


def test_without_reweighting_the_mean_margin_never_falls(digits):
    model = TVQClassifier(1, n_tangents=4, weight_gain=0, max_iter=30).fit(*digits)
    assert np.all(np.diff(model.history_["H"]) >= 0)
    assert model.history_["H"][-1] > model.history_["H"][0] + 0.01


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e5])
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_default_step_knows_no_unit(digits, scale, shift):
    X, y = digits
    plain = TVQClassifier(1, n_tangents=3, max_iter=20).fit(X, y)
    scaled = TVQClassifier(1, n_tangents=3, max_iter=20).fit(scale * (X + shift), y)
    assert_allclose(scaled.history_["loss"], plain.history_["loss"], rtol=1e-4)


@pytest.mark.parametrize("rate", [1e3, 1e30, 1e308])
def test_rates_that_diverge_are_halved(digits, rate):
    X, y = digits
    model = TVQClassifier(1, n_tangents=3, learning_rate=rate, max_iter=30)
    with pytest.warns(ConvergenceWarning, match="learning_rate") as caught:
        model.fit(X, y)
    assert len(caught) == 1
    assert np.isfinite(model.prototypes_).all()
    assert np.isfinite(model.tangents_).all()
    assert model.history_["rate"][-1] < rate


def test_watch_counts_since_the_last_fall():
    watch, waited = Plateau(), []
    for value in (1.0, 0.95, 0.8, 0.79, 0.78):
        watch = watch.after(value, tol=0.1)
        waited.append(watch.waited)
    assert waited == [0, 1, 0, 1, 2]


@pytest.mark.parametrize("n", [1, 2, 3, 57, 1000])
def test_quantiles_are_numpys(n):
    margins = np.random.RandomState(n).uniform(-1, 1, n)
    assert_allclose(quantiles_of(margins), np.quantile(margins, QUANTILES), rtol=1e-12)
