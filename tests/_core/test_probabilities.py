"""One temperature: the likeliest, in any unit, of batches as of all at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from widemargin._core.classifier import (
    FITTED,
    heat_of,
    softmax_of_costs,
    temperature_of,
    with_answers,
)


def some(seed, n=300, n_classes=3, T=0.4):
    """Costs, and labels drawn with the probabilities that they stand for."""
    rng = np.random.default_rng(seed)
    costs = rng.exponential(size=(n, n_classes))
    P = softmax_of_costs(costs, T, costs.argmin(axis=1))
    codes = (P.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)
    return costs, codes, rng.uniform(0.5, 2, n)


def slow_temperature(costs, codes, weights):
    """Minimise the cross-entropy with Platt's targets."""
    n = weights.sum()
    targets = np.full(costs.shape, 1 / (n + 2) / (costs.shape[1] - 1))
    targets[np.arange(len(costs)), codes] = (n + 1) / (n + 2)

    def loss(log_T):
        Z = -costs / np.exp(log_T)
        log_P = Z - np.logaddexp.reduce(Z, axis=1, keepdims=True)
        return -np.sum(weights[:, None] * targets * log_P)

    return np.exp(minimize_scalar(loss, bounds=(-9, 3), method="bounded").x)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.02, 0.4, 1.0]))
def test_the_temperature_is_the_likeliest(seed, n_classes, T):
    given = some(seed, n_classes=n_classes, T=T)
    found = temperature_of(heat_of(*given))
    assert found == pytest.approx(slow_temperature(*given), rel=0.02)


def test_the_temperature_is_that_of_the_labels():
    assert temperature_of(heat_of(*some(0, 4000))) == pytest.approx(0.4, rel=0.1)


@pytest.mark.parametrize("unit", [2.0**-90, 100.0, 2.0**90])
def test_temperatures_have_the_unit_of_the_costs(unit):
    costs, codes, weights = some(1)
    plain = temperature_of(heat_of(costs, codes, weights))
    scaled = temperature_of(heat_of(unit * costs, codes, weights))
    assert scaled == pytest.approx(unit * plain, rel=1e-2)


@pytest.mark.parametrize("n", [0, 1, 30, 2000])
@pytest.mark.parametrize("T", [1e-7, 0.02, 0.4, 100.0])
def test_temperatures_without_further_samples_are_the_same(n, T):
    costs, codes, weights = some(3, max(n, 1), T=T)
    if n == 0:
        costs[0, codes[0]] = np.inf
    found = temperature_of(heat_of(costs, codes, weights, further=False))
    whole = temperature_of(heat_of(costs, codes, weights))
    assert found == pytest.approx(whole, rel=1e-12)


def test_heat_adds_up():
    costs, codes, weights = some(2)
    whole = heat_of(costs, codes, weights)
    first, second = (
        heat_of(costs[s], codes[s], weights[s], whole[0])
        for s in (slice(100), slice(100, None))
    )
    np.testing.assert_allclose(first[1:] + second[1:], whole[1:])


def test_faultless_samples_make_no_certainty():
    costs = np.tile([[0.0, 1.0]], (50, 1))
    T = temperature_of(heat_of(costs, np.zeros(50, int), np.ones(50)))
    P = softmax_of_costs(costs, T, np.zeros(50, int))
    # Platt's (n + 1) / (n + 2).
    np.testing.assert_allclose(P[:, 0], 51 / 52, rtol=1e-3)


@pytest.mark.parametrize(
    "costs",
    [
        np.zeros((4, 3)),
        np.full((4, 3), 1e300),
        np.where(np.eye(4, 3), np.inf, 1),
        np.ones((0, 3)),
    ],
    ids=["ties", "large", "infinite", "none"],
)
def test_whatever_the_costs_probabilities_are_numbers(costs):
    answers = costs.argmin(axis=1)
    T = temperature_of(heat_of(costs, np.zeros(len(costs), int), np.ones(len(costs))))
    assert 0 < T < np.inf
    P = softmax_of_costs(costs, T, answers)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert np.array_equal(P.argmax(axis=1), answers)


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_the_answer_is_the_first_of_the_largest(seed):
    rng = np.random.default_rng(seed)
    P = rng.integers(1, 4, (20, 4)) / 4
    answers = rng.integers(0, 4, 20)
    found = with_answers(P, answers)
    assert np.array_equal(found.argmax(axis=1), answers)
    others = np.arange(4) != answers[:, None]
    assert np.array_equal(found[others], P[others])
    kept = P.argmax(axis=1) == answers
    assert np.array_equal(found[kept], P[kept])


def test_the_latest_samples_count():
    """A model that was sure and right, and is now as good as a coin."""
    from widemargin import GLVQClassifier

    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(200, 2)), np.repeat([0, 1], 100)
    X[100:] += 9
    model = GLVQClassifier(1, random_state=0, learning_rate=1e-9).fit(X, y)
    sure = model.predict_proba(X).max(axis=1).mean()
    assert sure > 0.95
    for _ in range(2 * FITTED // 200):
        model.partial_fit(X, rng.permutation(y))
    assert model.predict_proba(X).max(axis=1).mean() < 0.6


@pytest.mark.parametrize("weight", [1e-300, 1.0, 1e300])
def test_weights_of_any_size_make_a_temperature(weight):
    costs, codes, weights = some(3)
    T = temperature_of(heat_of(costs, codes, weight * weights))
    assert 0 < T < np.inf
    if weight > 1:
        # As many samples as these leave no doubt about Platt's targets.
        plain = temperature_of(heat_of(costs, codes, 1e9 * weights))
        assert pytest.approx(plain, rel=1e-6) == T
