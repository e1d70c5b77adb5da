import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from widemargin.margins import perceptron_fixed as fixed

modest = settings(max_examples=50, deadline=None)
numbers = st.tuples(
    st.floats(1, 30), st.floats(0.2, 1), st.floats(0.01, 0.99), st.floats(1, 3)
)


@modest
@given(numbers)
def test_roots_are_the_largest_numbers_of_updates_allowed(drawn):
    R, gamma_d, fraction, f_max = drawn
    beta = fraction * gamma_d
    slack = 1 - f_max * beta / gamma_d
    assume(slack > 0.01)
    K = (f_max * R / gamma_d) ** 2 / slack
    assume(K < 2000)
    N = max(1, int(0.5 * f_max * R / gamma_d / (1 - beta / R)))
    t = np.arange(2, 200_000)
    simple = t[(t - 1) / (3 + np.log((t - 1.0) ** 2)) <= K / 4]
    t = np.arange(N + 1, 200_000)
    sharp = t[(t - N) / (1 + 1 / N + np.log((t - 1) / N)) <= K / 2]
    arguments = {"R": R, "gamma_d": gamma_d, "beta": beta, "f_max": f_max}
    assert math.floor(fixed.free_length_updates_simple(**arguments)) == max(
        simple, default=1
    )
    assert math.floor(fixed.free_length_updates(**arguments)) == max(sharp, default=N)


@modest
@given(numbers)
def test_exact_learning_rate_minimises_the_bound(drawn):
    R, gamma_d, fraction, f_max = drawn
    arguments = (R, gamma_d, fraction * gamma_d)
    eta = fixed.fixed_length_optimal_rate(*arguments, f_max=f_max, exact=True)

    def bound(eta):
        return fixed.fixed_length_updates(*arguments, eta, f_max=f_max)

    assert bound(eta) <= min(bound(0.99 * eta), bound(1.01 * eta))
    approximate = fixed.fixed_length_optimal_rate(*arguments, f_max=f_max)
    assert bound(eta) <= bound(approximate) * (1 + 1e-10)
    assert eta == pytest.approx(approximate, rel=0.5)


def test_margins_that_cannot_be_reached_have_no_bound():
    for beta in (1.0, 1.5):
        assert fixed.free_length_onset(2.0, 1.0, beta) == math.inf
        assert fixed.free_length_updates(2.0, 1.0, beta) == math.inf
        assert fixed.free_length_updates_simple(2.0, 1.0, beta) == math.inf
        assert fixed.fixed_length_updates(2.0, 1.0, beta, 0.1) == math.inf
        assert fixed.fixed_length_optimal_updates(2.0, 1.0, beta) == math.inf
        assert fixed.fixed_length_critical_rate(2.0, 1.0, beta) == 0
    assert fixed.fixed_length_updates(2.0, 1.0, 0.5, 1e3) == math.inf
    assert fixed.fixed_length_critical_rate(1.0, 1.0, 0.5) == math.inf


@modest
@given(st.floats(0.5, 5), st.floats(0.01, 0.99))
def test_projected_factor_range_has_the_simple_quotient(r, fraction):
    f_min, f_max = fixed.projected_factor_range(r, fraction * r)
    assert f_max / f_min == pytest.approx(1 / (1 - fraction))
    # Both ends are taken: by a pattern of length r at the margin, and opposite to a.
    for cosine, f in ((fraction, f_min), (-1, f_max)):
        assert 1 - fraction * r * cosine * r / r**2 == pytest.approx(f)
