"""Temperature and lead: the likeliest, in any unit, of the latest samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from widemargin._core.temperature import (
    FITTED,
    LeftOut,
    fit_temperature,
    softmax_of_costs,
    with_answers,
)


def some(seed, n=300, n_classes=3, T=0.4):
    """Costs, and labels drawn with the probabilities that they stand for."""
    rng = np.random.default_rng(seed)
    costs = rng.exponential(size=(n, n_classes))
    P = softmax_of_costs(costs, T, costs.argmin(axis=1))
    codes = (P.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)
    return costs, codes, rng.uniform(0.5, 2, n)


def fitted(costs, codes, weights):
    """Temperature and lead of costs whose least is the answer."""
    return fit_temperature(LeftOut(costs, costs.argmin(axis=1), codes, weights))


def cross_entropy(costs, codes, weights, T, lead):
    """Mean cross-entropy with Platt's targets."""
    n = weights.sum()
    targets = np.full(costs.shape, 1 / (n + 2) / (costs.shape[1] - 1))
    targets[np.arange(len(costs)), codes] = (n + 1) / (n + 2)
    Z = -costs / T - lead
    Z[np.arange(len(Z)), costs.argmin(axis=1)] += lead
    log_P = Z - np.logaddexp.reduce(Z, axis=1, keepdims=True)
    return -np.sum(weights[:, None] / n * targets * log_P) + lead**2 / (2 * n)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.02, 0.4, 1.0]))
def test_temperature_and_lead_are_the_likeliest(seed, n_classes, T):
    given = some(seed, n_classes=n_classes, T=T)
    bounds = [(-9, 9), (-5, 0 if n_classes == 2 else 30)]
    slow = minimize(
        lambda p: cross_entropy(*given, np.exp(p[0]), p[1]), [np.log(T), 0.0],
        bounds=bounds, method="Nelder-Mead", options={"maxiter": 1000},
    )  # fmt: skip
    assert cross_entropy(*given, *fitted(*given)) <= slow.fun + 1e-6


def test_the_temperature_is_that_of_the_labels():
    T, lead = fitted(*some(0, 4000))
    assert pytest.approx(0.4, rel=0.1) == T
    assert pytest.approx(0, abs=0.2) == lead


@pytest.mark.parametrize("unit", [2.0**-90, 100.0, 2.0**90])
def test_temperatures_have_the_unit_of_the_costs(unit):
    costs, codes, weights = some(1)
    plain, scaled = fitted(costs, codes, weights), fitted(unit * costs, codes, weights)
    assert scaled == pytest.approx((unit * plain[0], plain[1]), rel=1e-2, abs=1e-3)


def test_the_answer_is_as_likely_as_it_is_right():
    """A hundred classes of heavy-tailed costs: no temperature alone says so."""
    rng = np.random.default_rng(0)
    costs = rng.exponential(size=(4000, 100)) ** 2
    answers = costs.argmin(axis=1)
    codes = np.where(rng.uniform(size=4000) < 0.8, answers, rng.integers(0, 100, 4000))
    T, lead = fitted(costs[:2000], codes[:2000], np.ones(2000))
    P = softmax_of_costs(costs[2000:], T, answers[2000:], lead)
    right = np.mean(codes[2000:] == answers[2000:])
    assert P.max(axis=1).mean() == pytest.approx(right, abs=0.03)
    assert lead > 1


def test_a_lead_below_zero_makes_near_rivals_equal():
    costs, answers = np.array([[0.0, 0.1, 0.5]]), np.array([0])
    P = softmax_of_costs(costs, 0.1, answers, -2.0)
    np.testing.assert_allclose(P, np.array([[1, 1, np.exp(-3)]]) / (2 + np.exp(-3)))
    assert P.argmax() == 0


def test_faultless_samples_make_no_certainty():
    costs = np.tile([[0.0, 1.0]], (50, 1))
    T, lead = fitted(costs, np.zeros(50, int), np.ones(50))
    P = softmax_of_costs(costs, T, np.zeros(50, int), lead)
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
    T, lead = fitted(costs, np.zeros(len(costs), int), np.ones(len(costs)))
    assert 0 < T < np.inf
    P = softmax_of_costs(costs, T, answers, lead)
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
    T, _ = fitted(costs, codes, weight * weights)
    assert 0 < T < np.inf
    if weight > 1:
        # As many samples as these leave no doubt about Platt's targets.
        plain, _ = fitted(costs, codes, 1e9 * weights)
        assert pytest.approx(plain, rel=1e-4) == T
