import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from widemargin.margins import perceptron_bounds
from widemargin.margins import perceptrons as formulas

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
    arguments = {"R": R, "gamma_d": gamma_d, "margin": beta, "f_max": f_max}
    assert math.floor(formulas.free_length_updates_simple(**arguments)) == max(
        simple, default=1
    )
    assert math.floor(formulas.free_length_updates(**arguments)) == max(
        sharp, default=N
    )


@modest
@given(numbers)
def test_exact_learning_rate_minimises_the_bound(drawn):
    R, gamma_d, fraction, f_max = drawn
    arguments = (R, gamma_d, fraction * gamma_d)
    eta = formulas.fixed_length_optimal_rate(*arguments, f_max=f_max, exact=True)

    def bound(eta):
        return formulas.fixed_length_updates(*arguments, eta, f_max=f_max)

    assert bound(eta) <= min(bound(0.99 * eta), bound(1.01 * eta))
    approximate = formulas.fixed_length_optimal_rate(*arguments, f_max=f_max)
    assert bound(eta) <= bound(approximate) * (1 + 1e-10)
    assert eta == pytest.approx(approximate, rel=0.5)


def test_margins_that_cannot_be_reached_have_no_bound():
    for beta in (1.0, 1.5):
        assert formulas.free_length_onset(2.0, 1.0, beta) == math.inf
        assert formulas.free_length_updates(2.0, 1.0, beta) == math.inf
        assert formulas.free_length_updates_simple(2.0, 1.0, beta) == math.inf
        assert formulas.fixed_length_updates(2.0, 1.0, beta, 0.1) == math.inf
        assert formulas.fixed_length_optimal_updates(2.0, 1.0, beta) == math.inf
        assert formulas.fixed_length_critical_rate(2.0, 1.0, beta) == 0
    assert formulas.fixed_length_updates(2.0, 1.0, 0.5, 1e3) == math.inf
    assert formulas.fixed_length_critical_rate(1.0, 1.0, 0.5) == math.inf


@modest
@given(st.floats(0.5, 5), st.floats(0.01, 0.99))
def test_projected_factor_range_has_the_simple_quotient(r, fraction):
    f_min, f_max = formulas.projected_factor_range(r, fraction * r)
    assert f_max / f_min == pytest.approx(1 / (1 - fraction))
    # Both ends are taken: by a pattern of length r at the margin, and opposite to a.
    for cosine, f in ((fraction, f_min), (-1, f_max)):
        assert 1 - fraction * r * cosine * r / r**2 == pytest.approx(f)


GEOMETRY = {"R": 4.0, "r": 2.0, "gamma_d": 1.0}


def test_standard_bounds_are_collected():
    p = {"b": 2.0, "learning_rate": 0.5, "f_min": 0.8, "f_max": 1.5}
    bounds = perceptron_bounds("standard", **GEOMETRY, **p)
    assert bounds.updates == formulas.standard_updates(4.0, 1.0, **p)
    assert bounds.margin == formulas.standard_margin(4.0, 1.0, **p)
    assert bounds.norm == formulas.standard_norm(4.0, 1.0, **p)
    assert bounds.onset == formulas.standard_onset(4.0, 1.0, **p)
    assert bounds.rate == 0.5
    assert bounds.critical_rate is None


def test_relaxation_bounds_are_collected():
    p = {"b": 2.0, "b_u": 3.0, "learning_rate": 0.5}
    bounds = perceptron_bounds("relaxation", **GEOMETRY, **p)
    assert bounds.updates == formulas.relaxation_updates(4.0, 2.0, 1.0, **p)
    assert bounds.margin == formulas.relaxation_margin(4.0, 2.0, 1.0, **p)
    assert bounds.norm == pytest.approx(2.0 / bounds.margin)
    assert bounds.onset is None


def test_free_length_bounds_are_collected():
    p = {"margin": 0.5, "f_max": 1.2}
    bounds = perceptron_bounds("free_length", **GEOMETRY, **p)
    simple = formulas.free_length_updates_simple(4.0, 1.0, **p)
    sharp = formulas.free_length_updates(4.0, 1.0, **p)
    assert bounds.updates == min(simple, sharp)
    assert bounds.margin == 0.5
    assert bounds.onset == formulas.free_length_onset(4.0, 1.0, **p)
    assert bounds.rate is None


def test_fixed_length_bounds_are_collected():
    p = {"margin": 0.5, "f_min": 0.8, "f_max": 1.2}
    bounds = perceptron_bounds("fixed_length", **GEOMETRY, **p)
    best = formulas.fixed_length_optimal_rate(4.0, 1.0, 0.5, f_max=1.2)
    assert bounds.rate == bounds.optimal_rate == best
    assert bounds.updates == pytest.approx(
        formulas.fixed_length_optimal_updates(4.0, 1.0, **p)
    )
    assert bounds.critical_rate == formulas.fixed_length_critical_rate(
        4.0, 1.0, 0.5, f_max=1.2
    )
    slower = perceptron_bounds("fixed_length", **GEOMETRY, **p, learning_rate=best / 3)
    assert slower.rate == best / 3
    assert slower.updates > bounds.updates


@pytest.mark.parametrize(
    ("variant", "change", "message"),
    [
        ("perceptron", {}, "variant must be one of 'standard', 'relaxation'"),
        ("standard", {}, "needs b and may have learning_rate"),
        ("standard", {"b": 1.0, "margin": 0.5}, "not its own: .'margin'"),
        ("standard", {"b": 0.0}, "b"),
        ("standard", {"b": 1.0, "learning_rate": -1.0}, "learning_rate"),
        ("standard", {"b": 1.0, "f_min": 2.0}, "f_min must not exceed f_max"),
        ("standard", {"b": 1.0, "gamma_d": 3.0}, "gamma_d <= r <= R"),
        ("standard", {"b": 1.0, "r": 5.0}, "gamma_d <= r <= R"),
        ("standard", {"b": 1.0, "R": math.nan}, "R must be"),
        ("standard", {"b": 1.0, "gamma_d": 0.0}, "gamma_d"),
        ("relaxation", {"b": 1.0}, "missing: .'b_u'"),
        ("relaxation", {"b": 1.0, "b_u": 1.0}, "b_u > b and 0 < learning_rate"),
        (
            "relaxation",
            {"b": 1.0, "b_u": 2.0, "learning_rate": 2.0},
            "0 < learning_rate",
        ),
        (
            "free_length",
            {"margin": 0.5, "learning_rate": 1.0},
            "not its own: .'learning_rate'",
        ),
        ("fixed_length", {"margin": math.inf}, "margin must be"),
    ],
)
def test_bad_input_is_refused(variant, change, message):
    with pytest.raises(ValueError, match=message):
        perceptron_bounds(variant, **GEOMETRY | change)


@modest
@given(numbers, st.integers(1, 12))
def test_any_number_of_free_steps(drawn, N):
    """(2.43) against (2.42) and the growth of a along the best direction (2.7)."""
    R, gamma_d, fraction, f_max = drawn
    margin = fraction * gamma_d
    assume(f_max * margin < 0.99 * gamma_d)
    arguments = {"R": R, "gamma_d": gamma_d, "margin": margin, "f_max": f_max}
    most = formulas.free_length_updates_general(N=N, **arguments)
    assume(N + 1 < most < 1e6)

    def room(t):
        return formulas.free_length_norm(t=t, N=N, **arguments) - gamma_d * t

    # At the root the two sides of the squeeze meet.
    assert room(most) == pytest.approx(0, abs=1e-6 * gamma_d * most)
    assert room(1.01 * most + 1) < 0
    assert formulas.free_length_updates_simple(**arguments) >= (
        formulas.free_length_updates_general(N=1, **arguments) * (1 - 1e-9)
    )


def test_ratio_of_margins_is_bounded_by_the_height():
    assert formulas.margin_ratio_bound(math.hypot(3.0, 4.0), 4.0) == 1.25
    with pytest.raises(ValueError, match="rho must be"):
        formulas.margin_ratio_bound(5.0, 0.0)


@pytest.mark.parametrize("gamma_d", [1e-200, 5e-324])
def test_bounds_that_are_no_numbers_are_refused(gamma_d):
    with pytest.raises(ValueError, match=r"gamma_d=.* is so far from R"):
        perceptron_bounds("standard", R=1.0, r=1.0, gamma_d=gamma_d, b=1.0)
