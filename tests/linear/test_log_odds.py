"""Log-odds of regressions to classes: against known distributions, with few labels."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.preprocessing import FunctionTransformer

from widemargin import SpectrumClassifier
from widemargin.linear.log_odds import ADDED, PRIOR, fit_log_odds
from widemargin.linear.ridge import fit_ridge


def normal_classes(counts, seed, apart=1.5, n_features=4):
    """Classes of normal distributions, and the log-odds of theirs by these counts."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    centres = apart * np.random.default_rng(7).normal(size=(len(counts), n_features))
    X = centres[y] + rng.normal(size=(len(y), n_features))
    squares = ((X[:, np.newaxis] - centres) ** 2).sum(axis=2)
    return X, y, np.log(np.array(counts) / len(y)) - squares / 2


def regressed(X, y, X_new):
    """Left-out scores of training samples, and scores of new ones."""
    targets = np.where(y[:, np.newaxis] == np.arange(y.max() + 1), 1.0, -1.0)
    mean = X.mean(axis=0)
    (ridge,) = fit_ridge(X - mean, targets, np.ones(len(X)))
    return ridge.left_out, (X_new - mean) @ ridge.coef.T + ridge.intercept


def cross_entropy(P, y):
    return -np.log(P[np.arange(len(y)), y]).mean()


def test_rare_classes_have_the_log_odds_of_their_distributions():
    X, y, _ = normal_classes((800, 150, 50), 0)
    X_new, y_new, known = normal_classes((8000, 1500, 500), 1)
    left_out, scores = regressed(X, y, X_new)
    slopes, offsets = fit_log_odds(left_out, y, np.ones(len(y)))
    found = cross_entropy(softmax(slopes * scores + offsets, axis=1), y_new)
    least = cross_entropy(softmax(known, axis=1), y_new)
    assert found < least + 0.01
    # One slope for all, as a temperature would have it, is far from it.
    temperatures = np.logspace(-2, 2, 100)
    assert found < min(
        cross_entropy(softmax(scores / T, axis=1), y_new) for T in temperatures
    )


@pytest.mark.parametrize("n_classes", [2, 4])
def test_slopes_and_biases_are_of_least_cost(n_classes):
    X, y, _ = normal_classes((9, 14, 6, 11)[:n_classes], 0, apart=1.0)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y))
    left_out = regressed(X, y, X)[0]
    slopes, offsets = fit_log_odds(left_out, y, weights)
    total, is_class = weights.sum(), y[:, np.newaxis] == np.arange(n_classes)
    share = weights @ is_class / total
    roots = np.sqrt(share)
    s = slopes * roots
    np.testing.assert_allclose(s, s[0])
    b = offsets - np.log(share) + slopes * (2 * share - 1)
    f, leads, seen = np.empty_like(left_out), [], []
    for i, (w, c) in enumerate(zip(weights, y, strict=True)):
        rest = np.arange(len(y)) != i
        others = weights[rest] @ is_class[rest] / weights[rest].sum()
        f[i] = (left_out[i] - (2 * others - 1)) / roots
        leads += [f[i, c] - f[i, k] for k in range(n_classes) if k != c]
        seen += (n_classes - 1) * [w]
    a = np.average(leads, weights=seen)
    v = np.average((leads - a) ** 2, weights=seen) * len(y) / (len(y) - 1)
    log_s_0 = np.log(2 * a / v * (len(y) - 3) / (len(y) - 1))
    right = (total + ADDED) / (total + 2 * ADDED)
    targets = np.where(is_class, right, (1 - right) / (n_classes - 1))

    def cost(log_s, b):
        P = softmax(np.exp(log_s) * f + np.log(share) + b, axis=1)
        prior = (log_s - log_s_0) ** 2 + b @ b
        return -weights @ (targets * np.log(P)).sum(axis=1) + PRIOR / 2 * prior

    least = cost(np.log(s[0]), b)
    rng = np.random.default_rng(2)
    for step in rng.normal(0, 0.03, (100, n_classes + 1)):
        assert least < cost(np.log(s[0]) + step[0], b + step[1:]) + 1e-6


@pytest.mark.parametrize("per_class", [3, 5, 10])
def test_few_labels_are_as_sure_as_they_are_right(per_class):
    sure, right = [], []
    for seed in range(60):
        X, y, _ = normal_classes(3 * (per_class,), seed, 1.0, 10)
        X_new, y_new, _ = normal_classes((30, 30, 30), 1000 + seed, 1.0, 10)
        P = SpectrumClassifier([FunctionTransformer()]).fit(X, y).predict_proba(X_new)
        sure.append(P.max(axis=1).mean())
        right.append((P.argmax(axis=1) == y_new).mean())
    assert abs(np.mean(sure) - np.mean(right)) < 0.035


def test_a_row_far_from_all_others_does_not_decide():
    X, y, _ = normal_classes((40, 40), 0)
    left_out = regressed(X, y, X)[0]
    slopes, _ = fit_log_odds(left_out, y, np.ones(80))
    left_out[0] *= 1e9
    with_one, _ = fit_log_odds(left_out, y, np.ones(80))
    assert 0.5 < with_one[0] / slopes[0] <= 1


def test_labels_that_say_nothing_and_labels_that_say_all():
    rng = np.random.default_rng(0)
    y, ones = np.arange(60) % 3, np.ones(60)
    slopes, _ = fit_log_odds(rng.normal(size=(60, 3)), y, ones)
    assert 0 < slopes.max() < 0.2
    certain = np.where(y[:, np.newaxis] == np.arange(3), 1.0, -1.0)
    for scores in (certain, np.zeros((60, 3))):
        slopes, offsets = fit_log_odds(scores, y, ones)
        assert np.isfinite([slopes, offsets]).all()
    np.testing.assert_array_equal(fit_log_odds(np.ones((2, 1)), y[:2], ones[:2])[0], 1)


@pytest.mark.parametrize("largest", [1e-6, 1e12, 1e20])
def test_weights_of_any_size(largest):
    X, y, _ = normal_classes((20, 20), 0)
    weights = np.ones(40)
    weights[3] = largest
    slopes, offsets = fit_log_odds(regressed(X, y, X)[0], y, weights)
    assert np.isfinite([slopes, offsets]).all()
