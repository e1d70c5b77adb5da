import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from widemargin.margins import margin_reweight

modest = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def random_round(seed, n=9):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 5, n), rng.uniform(-1, 1, n), rng.uniform(-0.5, 0.9)


def normalise(w):
    return w / w.sum()


@modest
@given(seeds, st.sampled_from([0.3, 1.0, 7.5, "ratio"]))
def test_step_moves_gamma_towards_uniform_on_the_mistakes(seed, k):
    w, mu, theta = random_round(seed)
    mistakes = mu < theta
    assume(mistakes.any())
    new = margin_reweight(w, mu, theta, k)
    dW = new.sum() - w.sum()
    number = w.size / mistakes.sum() if k == "ratio" else k
    assert dW == pytest.approx(number * mistakes.sum())
    rate = dW / new.sum()
    expected = rate * (mistakes / mistakes.sum() - normalise(w))
    np.testing.assert_allclose(normalise(new) - normalise(w), expected, atol=1e-12)

    def energy(gamma):
        return rate * (gamma @ gamma / 2 - gamma[mistakes].sum() / mistakes.sum())

    step = 1e-6 * np.eye(w.size)
    gamma = normalise(w)
    slope = [(energy(gamma + e) - energy(gamma - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(expected, np.negative(slope), atol=1e-8)


@modest
@given(seeds)
def test_ratio_makes_gamma_a_running_mean(seed):
    rng = np.random.default_rng(seed)
    n, theta = 6, 0.2
    w = np.ones(n)
    distributions = [np.full(n, 1 / n)]
    for t in range(1, 12):
        mu = rng.uniform(-1, 1, n)
        mu[rng.integers(n)] = -1
        w = margin_reweight(w, mu, theta, "ratio")
        distributions.append(normalise((mu < theta).astype(float)))
        assert w.sum() == pytest.approx(n * (t + 1))
        np.testing.assert_allclose(normalise(w), np.mean(distributions, axis=0))


@modest
@given(seeds)
def test_constant_one_is_the_rule_of_figure_2(seed):
    w, mu, theta = random_round(seed)
    mistakes = mu < theta
    gamma, W = normalise(w), w.sum()
    figure = (gamma + mistakes / W) / (1 + mistakes.sum() / W)
    np.testing.assert_allclose(normalise(margin_reweight(w, mu, theta)), figure)


@pytest.mark.parametrize("k", [0.5, "ratio", lambda w, mistakes: 1 / mistakes.sum()])
def test_settled_mistakes_end_up_uniform(k):
    mu = np.array([0.9, 0.1, 0.5, -0.2, 0.1])
    w = np.array([1.0, 1.0, 3.0, 2.0, 1.0])
    for _ in range(4000):
        w = margin_reweight(w, mu, 0.3, k)
    np.testing.assert_allclose(normalise(w), [0, 1 / 3, 0, 1 / 3, 1 / 3], atol=2e-3)


def test_rounds_of_best_responses_minimise_the_hinge():
    # w_i / t is the mean of the best answers of the weights, the hypotheses answer
    # them: fictitious play for min_h sum_i (theta - mu_i)_+ over unit vectors h.
    rng = np.random.default_rng(3)
    Z = rng.normal((0.8, 0.3), size=(15, 2))
    Z /= 2 * np.abs(Z).max()
    theta, rounds = 0.25, 3000
    w, mean = np.ones(len(Z)), np.zeros(2)
    for t in range(rounds):
        h = w @ Z / np.linalg.norm(w @ Z)
        mean += (h - mean) / (t + 1)
        w = margin_reweight(w, Z @ h, theta)

    def hinge(h):
        return np.maximum(0, theta - Z @ h).sum()

    starts = np.stack([np.cos(np.arange(8)), np.sin(np.arange(8))], axis=1) / 2
    inside = {"type": "ineq", "fun": lambda h: 1 - h @ h}
    best = min(minimize(hinge, s, constraints=inside).fun for s in starts)
    assert hinge(mean) <= best + 0.02
    assert hinge(mean) < hinge(Z.sum(0) / np.linalg.norm(Z.sum(0))) - 0.001


@modest
@given(seeds)
def test_sample_weights_are_copies(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, 6)
    counts[0] = 1
    _, mu, theta = random_round(seed, 6)
    for k in (2.0, "ratio"):
        weighted = margin_reweight(counts, mu, theta, k, sample_weight=counts)
        copied = margin_reweight(np.ones(counts.sum()), np.repeat(mu, counts), theta, k)
        index = np.repeat(np.arange(6), counts)
        np.testing.assert_allclose(weighted, np.bincount(index, copied, minlength=6))


def test_threshold_is_strict_and_input_is_not_changed():
    w = np.ones(3)
    new = margin_reweight(w, [0.3, 0.29, 0.31], 0.3)
    np.testing.assert_array_equal(new, [1, 2, 1])
    np.testing.assert_array_equal(w, [1, 1, 1])


@pytest.mark.parametrize("k", [1.0, "ratio", lambda w, mistakes: 1 / mistakes.sum()])
def test_without_mistakes_nothing_changes(k):
    w = np.array([1.0, 2.0])
    new = margin_reweight(w, [0.5, np.inf], 0.3, k)
    np.testing.assert_array_equal(new, w)
    assert new is not w


def test_callable_sees_weights_and_mistakes():
    seen = []

    def k(weights, mistakes):
        seen.append((weights.tolist(), mistakes.tolist()))
        weights[:] = 0
        return 0.5

    np.testing.assert_array_equal(margin_reweight([1, 2], [0, 1], 0.5, k), [1.5, 2])
    assert seen == [([1.0, 2.0], [True, False])]


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_float32_is_kept(seed):
    w, mu, theta = random_round(seed)
    assert margin_reweight(w.astype(np.float32), mu, theta, "ratio").dtype == np.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [1.0, np.nan]}, "weights contains NaN"),
        ({"weights": [1.0, -1.0]}, "weights must be finite and >= 0"),
        ({"weights": [0.0, 0.0]}, "one of them > 0"),
        ({"weights": [[1.0, 1.0]]}, r"weights must be .* shape \(1, 2\)"),
        ({"weights": []}, "n_samples >= 1"),
        ({"margins": [0.1, np.nan]}, "margins contains NaN"),
        ({"margins": [0.1]}, "margins has 1"),
        ({"theta": np.nan}, "theta"),
        ({"theta": np.inf}, "theta"),
        ({"weight_gain": 0.0}, "weight_gain"),
        (
            {"weight_gain": np.inf},
            "weight_gain must be .* finite number above 0; got inf",
        ),
        ({"weight_gain": "ratios"}, 'weight_gain must be a number > 0, "ratio"'),
        ({"weight_gain": None}, "weight_gain must be a number"),
        (
            {"weight_gain": lambda w, mistakes: -1.0},
            r"weight_gain\(weights, mistakes\)",
        ),
        ({"sample_weight": [1.0]}, "sample_weight has 1"),
        ({"sample_weight": [1.0, -2.0]}, "sample_weight must be finite"),
    ],
)
def test_bad_input_is_refused(change, message):
    good = {"weights": [1.0, 1.0], "margins": [0.1, 0.9], "theta": 0.3}
    with pytest.raises(ValueError, match=message):
        margin_reweight(**good | change)
