"""Signals in one line, and its regression against fits without each sample."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import Ridge

from widemargin import SignalClassifier
from widemargin.linear.log_odds import fit_log_odds
from widemargin.linear.ridge import fit_ridge
from widemargin.tangents import pad_series


def waves(n, length, seed, noise=0.3):
    """Three classes of waves that begin anywhere."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    at = np.linspace(0, 1, length) + rng.uniform(size=(n, 1))
    X = np.sin(2 * np.pi * (3 + 2 * y[:, np.newaxis]) * at)
    return X + noise * rng.normal(size=X.shape), np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("shape", [(12, 40), (40, 12)])
def test_left_out_scores_are_those_of_fits_without_a_sample(shape):
    rng = np.random.default_rng(0)
    Z, weights = rng.normal(size=shape), rng.uniform(0.5, 2, shape[0])
    targets = np.where(rng.random((shape[0], 2)) < 0.5, 1.0, -1.0)
    Z -= weights @ Z / weights.sum()
    (found,) = fit_ridge(Z, targets, weights, 0.7)
    whole = Ridge(alpha=0.7).fit(Z, targets, weights)
    np.testing.assert_allclose(found.coef, whole.coef_, atol=1e-10)
    np.testing.assert_allclose(found.intercept, whole.intercept_, atol=1e-10)
    for i in range(shape[0]):
        rest = np.arange(shape[0]) != i
        model = Ridge(alpha=0.7).fit(Z[rest], targets[rest], weights[rest])
        np.testing.assert_allclose(found.left_out[i], model.predict(Z[i : i + 1])[0])


def test_waves_that_begin_anywhere():
    X, y = waves(60, 100, 0)
    model = SignalClassifier().fit(X, y)
    X_new, y_new = waves(300, 100, 1)
    assert model.score(X_new, y_new) > 0.99
    P = model.predict_proba(X_new)
    right = P[np.arange(300), np.searchsorted(model.classes_, y_new)]
    assert right.mean() > 0.9


def test_probabilities_of_noise_are_not_sure():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 50)), np.arange(80) % 2
    P = SignalClassifier().fit(X, y).predict_proba(rng.normal(size=(200, 50)))
    assert P.max(axis=1).mean() < 0.7


def test_margins_are_log_odds():
    X, y = waves(60, 50, 0, noise=2.0)
    y = np.where(y == "c", "a", y)
    model = SignalClassifier().fit(X, y)
    P = model.predict_proba(X)
    odds = np.log(P[:, 1] / P[:, 0])
    np.testing.assert_allclose(model.decision_function(X), odds, atol=1e-5)


def test_probabilities_are_means_of_three_penalties():
    X, y = waves(18, 60, 0, noise=2.0)
    for labels in (y, np.where(y == "c", "a", y)):
        model = SignalClassifier(n_features=300).fit(X, labels)
        Z, X_new = model.features_.transform(X), waves(50, 60, 1, noise=2.0)[0]
        spread = Z.std(axis=0) + 0.1 * Z.std(axis=0).mean()
        Z = (Z - Z.mean(axis=0)) / spread
        Z_new = (model.features_.transform(X_new) - model.center_) / spread
        codes = np.searchsorted(model.classes_, labels)
        targets = np.where(
            codes[:, np.newaxis] == np.arange(len(model.classes_)), 1, -1
        )
        # The last fit of each is that of all samples.
        held = [np.arange(18) != i for i in range(19)]
        P = 0
        assert len(set(model.alphas_)) == 3
        for alpha, share in zip(model.alphas_, (0.8, 0.1, 0.1), strict=True):
            fits = [Ridge(alpha=alpha).fit(Z[rest], targets[rest]) for rest in held]
            left_out = [fits[i].predict(Z[i : i + 1])[0] for i in range(18)]
            slope, offset = fit_log_odds(np.array(left_out), codes, np.ones(18))
            P += share * softmax(slope * fits[-1].predict(Z_new) + offset, axis=1)
        np.testing.assert_allclose(model.predict_proba(X_new), P, atol=1e-7)


def test_a_penalty_that_is_given_is_the_only_one():
    X, y = waves(18, 60, 0, noise=2.0)
    model = SignalClassifier(n_features=300, alpha=3.0).fit(X, y)
    assert model.alphas_.tolist() == [3.0]
    assert model.coef_.shape == (1, 3, len(model.center_))
    # As little as all others.
    asked = SignalClassifier(n_features=300, alpha=1e9).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(asked, 1 / 3, atol=0.1)


def test_the_penalty_next_to_the_chosen_has_no_second_vote():
    rng = np.random.default_rng(0)
    Z, targets = rng.normal(size=(20, 30)), np.ones((20, 1))
    Z -= Z.mean(axis=0)
    unit = (Z**2).sum() / 20
    found = fit_ridge(Z, targets, np.ones(20), 0.06 * unit, (2.0, 0.05, 0.001))
    np.testing.assert_allclose([r.alpha / unit for r in found], [0.06, 2.0, 0.001])


def test_series_of_unequal_length():
    X, y = waves(60, 100, 0)
    rng = np.random.default_rng(1)
    cut = [x[: rng.integers(60, 101)] for x in X]
    model = SignalClassifier().fit(pad_series(cut, 100), y)
    X_new, y_new = waves(60, 70, 2)
    # Of 70 samples in the time of 100, waves are slower by as much.
    assert model.score(pad_series(cut, 100), y) == 1.0
    assert model.predict(pad_series(list(X_new), 100)).shape == y_new.shape


def test_channels_count_together():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    common = rng.normal(size=(60, 80))
    sign = np.where(y, 1, -1)[:, np.newaxis]
    X = np.stack([common, sign * common], axis=2).reshape(60, -1)
    assert SignalClassifier(2).fit(X[:40], y[:40]).score(X[40:], y[40:]) == 1.0
    # Neither channel says anything alone.
    alone = SignalClassifier().fit(common[:40], y[:40])
    assert alone.score(common[40:], y[40:]) < 0.9


def test_rows_that_cannot_be_signals_are_named():
    X, y = waves(12, 40, 0)
    cut = [list(x[: 30 + k]) for k, x in enumerate(X)]
    for given in (cut, np.array(cut, dtype=object)):
        with pytest.raises(ValueError, match=r"Every row .*tangents\.pad_series"):
            SignalClassifier().fit(given, y)
    X[3] = np.nan
    with pytest.raises(ValueError, match="Row 3 of X holds NaN only"):
        SignalClassifier().fit(X, y)
