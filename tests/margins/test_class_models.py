"""Sensitivity, specificity, efficiency; intervals that are exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from widemargin.margins import class_model_rates, exact_interval, extremes_band


class TestExactInterval:
    @given(st.integers(1, 200), st.integers(0, 200), st.sampled_from([0.8, 0.95]))
    def test_is_that_of_clopper_and_pearson(self, n, k, level):
        k = min(k, n)
        theirs = binomtest(k, n).proportion_ci(level, method="exact")
        np.testing.assert_allclose(
            exact_interval(k, n, level=level), (theirs.low, theirs.high), atol=1e-9
        )

    @pytest.mark.parametrize("n", [1, 5, 30])
    def test_holds_the_share(self, n):
        k = np.arange(n + 1)
        lower, upper = exact_interval(k, n, level=0.9)
        for p in np.linspace(0.001, 0.999, 57):
            held = binom.pmf(k, n, p) @ ((lower <= p) & (p <= upper))
            assert held >= 0.9 - 1e-9

    def test_of_no_samples(self):
        assert exact_interval(0, 0) == (0, 1)

    @pytest.mark.parametrize(("k", "n"), [(3, 2), (-1, 2), (0.5, 2)])
    def test_bad_counts(self, k, n):
        with pytest.raises(ValueError, match="hits must be whole numbers"):
            exact_interval(k, n)


class TestRates:
    def test_are_their_definition(self):
        rng = np.random.RandomState(0)
        y, classes = rng.choice(["a", "b", "other"], 200), np.array(["a", "b"])
        sets = rng.random_sample((200, 2)) < 0.6
        rates = class_model_rates(y, sets, classes)
        for c, label in enumerate(classes):
            own = y == label
            sensitivity, specificity = sets[own, c].mean(), (~sets[~own, c]).mean()
            assert rates.sensitivity.value[c] == pytest.approx(sensitivity)
            assert rates.specificity.value[c] == pytest.approx(specificity)
            efficiency = np.sqrt(sensitivity * specificity)
            assert rates.efficiency.value[c] == pytest.approx(efficiency)
            low, high = exact_interval(sets[own, c].sum(), own.sum())
            assert rates.sensitivity.lower[c] == low
            assert rates.sensitivity.upper[c] == high
        for rate in rates[1:]:
            assert (rate.lower <= rate.value).all()
            assert (rate.value <= rate.upper).all()

    def test_interval_of_the_efficiency_holds_it(self):
        rng, held = np.random.RandomState(1), 0
        for _ in range(300):
            y = np.repeat([0, 1], [20, 40])
            sets = rng.random_sample(60) < np.where(y == 0, 0.9, 0.3)
            rates = class_model_rates(y, sets[:, None], [0], level=0.8)
            held += (
                rates.efficiency.lower[0] <= np.sqrt(0.63) <= rates.efficiency.upper[0]
            )
        assert held >= 0.8 * 300

    def test_a_class_without_samples_is_nan(self):
        rates = class_model_rates([1, 1], [[True, False], [True, True]], [1, 2])
        assert np.isnan(rates.sensitivity.value[1])
        assert rates.sensitivity.upper[1] == 1

    def test_bad_input(self):
        with pytest.raises(ValueError, match=r"sets must be .* shape \(2, 1\)"):
            class_model_rates([0, 1], [[1], [0]], [0])
        with pytest.raises(ValueError, match="labels like classes"):
            class_model_rates([0, 1], [[True], [False]], ["a"])
        with pytest.raises(ValueError, match="level"):
            class_model_rates([0], [[True]], [0], level=1)


def test_band_is_that_of_fresh_samples():
    # Calibrations of 19 and 30 fresh samples, uniform scores.
    rng, inside = np.random.RandomState(0), np.zeros(3)
    alphas = np.array([0.05, 0.2, 0.5])
    lower, upper = extremes_band(19, 30, alphas, level=0.9)
    for _ in range(400):
        known, fresh = np.sort(rng.random_sample(19)), rng.random_sample(30)
        p = (1 + 19 - np.searchsorted(known, fresh)) / 20
        seen = (p[:, None] <= alphas + 1e-9).sum(axis=0)
        inside += (lower <= seen) & (seen <= upper)
    assert (inside >= 0.88 * 400).all()
    assert extremes_band(19, 30, [0.04]) == (0, 0)
    with pytest.raises(ValueError, match="alphas must be levels"):
        extremes_band(19, 30, [1.0])
    with pytest.raises(ValueError, match="n_calibration"):
        extremes_band(0, 30, [0.5])
