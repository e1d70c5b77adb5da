import math

import pytest

from widemargin.margins import perceptron_bounds
from widemargin.margins import perceptron_fixed as fixed
from widemargin.margins import perceptron_standard as standard

GEOMETRY = {"R": 4.0, "r": 2.0, "gamma_d": 1.0}


def test_standard_bounds_are_collected():
    p = {"b": 2.0, "eta": 0.5, "f_min": 0.8, "f_max": 1.5}
    bounds = perceptron_bounds("standard", **GEOMETRY, **p)
    assert bounds.updates == standard.standard_updates(4.0, 1.0, **p)
    assert bounds.margin == standard.standard_margin(4.0, 1.0, **p)
    assert bounds.norm == standard.standard_norm(4.0, 1.0, **p)
    assert bounds.onset == standard.standard_onset(4.0, 1.0, **p)
    assert bounds.rate == 0.5
    assert bounds.critical_rate is None


def test_relaxation_bounds_are_collected():
    p = {"b": 2.0, "b_u": 3.0, "eta": 0.5}
    bounds = perceptron_bounds("relaxation", **GEOMETRY, **p)
    assert bounds.updates == standard.relaxation_updates(4.0, 2.0, 1.0, **p)
    assert bounds.margin == standard.relaxation_margin(4.0, 2.0, 1.0, **p)
    assert bounds.norm == pytest.approx(2.0 / bounds.margin)
    assert bounds.onset is None


def test_free_length_bounds_are_collected():
    p = {"beta": 0.5, "f_max": 1.2}
    bounds = perceptron_bounds("free_length", **GEOMETRY, **p)
    simple = fixed.free_length_updates_simple(4.0, 1.0, **p)
    sharp = fixed.free_length_updates(4.0, 1.0, **p)
    assert bounds.updates == min(simple, sharp)
    assert bounds.margin == 0.5
    assert bounds.onset == fixed.free_length_onset(4.0, 1.0, **p)
    assert bounds.rate is None


def test_fixed_length_bounds_are_collected():
    p = {"beta": 0.5, "f_min": 0.8, "f_max": 1.2}
    bounds = perceptron_bounds("fixed_length", **GEOMETRY, **p)
    best = fixed.fixed_length_optimal_rate(4.0, 1.0, 0.5, f_max=1.2)
    assert bounds.rate == bounds.optimal_rate == best
    assert bounds.updates == pytest.approx(
        fixed.fixed_length_optimal_updates(4.0, 1.0, **p)
    )
    assert bounds.critical_rate == fixed.fixed_length_critical_rate(
        4.0, 1.0, 0.5, f_max=1.2
    )
    slower = perceptron_bounds("fixed_length", **GEOMETRY, **p, eta=best / 3)
    assert slower.rate == best / 3
    assert slower.updates > bounds.updates


@pytest.mark.parametrize(
    ("variant", "change", "message"),
    [
        ("perceptron", {}, "variant must be one of 'standard', 'relaxation'"),
        ("standard", {}, "needs b and may have eta"),
        ("standard", {"b": 1.0, "beta": 0.5}, "not its own: .'beta'"),
        ("standard", {"b": 0.0}, "b"),
        ("standard", {"b": 1.0, "eta": -1.0}, "eta"),
        ("standard", {"b": 1.0, "f_min": 2.0}, "f_min must not exceed f_max"),
        ("standard", {"b": 1.0, "gamma_d": 3.0}, "gamma_d <= r <= R"),
        ("standard", {"b": 1.0, "r": 5.0}, "gamma_d <= r <= R"),
        ("standard", {"b": 1.0, "R": math.nan}, "R is NaN"),
        ("standard", {"b": 1.0, "gamma_d": 0.0}, "gamma_d"),
        ("relaxation", {"b": 1.0}, "missing: .'b_u'"),
        ("relaxation", {"b": 1.0, "b_u": 1.0}, "b_u > b and 0 < eta < 2"),
        ("relaxation", {"b": 1.0, "b_u": 2.0, "eta": 2.0}, "0 < eta < 2"),
        ("free_length", {"beta": 0.5, "eta": 1.0}, "not its own: .'eta'"),
        ("fixed_length", {"beta": math.inf}, "beta is infinite"),
    ],
)
def test_bad_input_is_refused(variant, change, message):
    with pytest.raises(ValueError, match=message):
        perceptron_bounds(variant, **GEOMETRY | change)
