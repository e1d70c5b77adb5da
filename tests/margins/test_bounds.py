import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.margins import lvq_margin_bound

modest = settings(max_examples=50, deadline=None)
GOOD = {
    "theta": 0.2,
    "radius": 1.5,
    "n_features": 10,
    "prototypes_per_class": 3,
    "n_classes": 2,
    "alpha": 0.1,
    "n_samples": 1000,
}


def log(x, base):
    return np.log(x) / np.log(base)


def theorem_1(m, n, k, n_classes, R, theta, delta, alpha, formula, base):
    if formula == "printed":
        factor = 2 * k**n_classes * log(np.e * k**2, base)
    else:
        M = sum(k * k for a in range(n_classes) for b in range(a))
        factor = 2 * M * log(np.e * M, base)
    d = min(n + 1, 64 * R**2 / theta**2) * factor
    root = 8 / m * (d * log(32 * m / theta**2, base) ** 2 + log(4 / delta, base))
    return d, alpha + np.sqrt(root)


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 10**7),
    n=st.integers(1, 5000),
    k=st.integers(1, 12),
    n_classes=st.integers(2, 6),
    R=st.floats(0.01, 10),
    theta=st.floats(0.01, 0.49),
    delta=st.floats(0.001, 0.5),
    alpha=st.floats(0, 1),
    formula=st.sampled_from(["printed", "pairwise"]),
    base=st.sampled_from([2.0, math.e, 10.0]),
)
def test_bound_is_the_formula(
    m, n, k, n_classes, R, theta, delta, alpha, formula, base
):
    d, value = theorem_1(m, n, k, n_classes, R, theta, delta, alpha, formula, base)
    bound = lvq_margin_bound(
        alpha=alpha,
        n_samples=m,
        theta=theta,
        radius=R,
        n_features=n,
        prototypes_per_class=k,
        n_classes=n_classes,
        delta=delta,
        formula=formula,
        log_base=base,
    )
    assert bound.vc_dimension == pytest.approx(d)
    assert bound.value == pytest.approx(value)
    assert bound.value == pytest.approx(bound.alpha + bound.complexity)
    assert bound.vacuous == (bound.value >= 1)
    assert bound.n_samples == m


@settings(max_examples=40, deadline=None)
@given(
    alpha=st.floats(0, 0.95),
    theta=st.floats(0.05, 0.49),
    formula=st.sampled_from(["printed", "pairwise"]),
)
def test_samples_needed_is_where_the_bound_stops_being_vacuous(alpha, theta, formula):
    arguments = GOOD | {"alpha": alpha, "theta": theta, "formula": formula}
    needed = lvq_margin_bound(**arguments).samples_needed
    assert isinstance(needed, int)
    at, before = (
        lvq_margin_bound(**arguments | {"n_samples": m}) for m in (needed, needed - 1)
    )
    assert not at.vacuous
    assert before.vacuous
    assert at.samples_needed == needed


@modest
@given(st.integers(1, 20))
def test_both_readings_agree_for_two_classes(k):
    printed, pairwise = (
        lvq_margin_bound(**GOOD | {"prototypes_per_class": k, "formula": formula})
        for formula in ("printed", "pairwise")
    )
    assert printed.vc_dimension == pytest.approx(pairwise.vc_dimension)


def test_unequal_numbers_of_prototypes():
    counts = [1, 2, 4]
    printed, pairwise = (
        lvq_margin_bound(
            **GOOD | {"prototypes_per_class": counts, "n_classes": None, "formula": f}
        )
        for f in ("printed", "pairwise")
    )
    M = 1 * 2 + 1 * 4 + 2 * 4
    assert pairwise.vc_dimension == pytest.approx(11 * 2 * M * np.log2(np.e * M))
    assert printed.vc_dimension == pytest.approx(11 * 2 * 4**3 * np.log2(np.e * 16))


def test_margins_are_counted_strictly_below_theta():
    given_margins = GOOD | {"alpha": None, "n_samples": None}
    bound = lvq_margin_bound([-0.3, 0.19, 0.2, 0.4], **given_margins)
    assert (bound.alpha, bound.n_samples) == (0.5, 4)
    by_fraction = lvq_margin_bound(**GOOD | {"alpha": 0.5, "n_samples": 4})
    assert bound == by_fraction


def test_nothing_helps_against_mistakes_everywhere():
    bound = lvq_margin_bound(**GOOD | {"alpha": 1.0})
    assert bound.samples_needed == math.inf
    assert bound.vacuous


def test_extreme_arguments_are_defined():
    kernel = lvq_margin_bound(**GOOD | {"n_features": math.inf})
    assert kernel.vc_dimension > lvq_margin_bound(**GOOD).vc_dimension
    many = lvq_margin_bound(**GOOD | {"n_classes": 2000})
    assert many.value == math.inf
    assert many.vacuous
    assert many.samples_needed == math.inf
    tiny = lvq_margin_bound(**GOOD | {"theta": 1e-200, "radius": 1e200})
    assert math.isfinite(tiny.value)


def test_result_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        lvq_margin_bound(**GOOD).value = 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"theta": 0.0}, "theta"),
        ({"theta": 0.5}, "theta"),
        ({"theta": math.nan}, "theta"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"radius": 0.0}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"n_features": 0}, "n_features"),
        ({"prototypes_per_class": 0}, "prototypes_per_class"),
        ({"prototypes_per_class": [2]}, "prototypes_per_class"),
        ({"prototypes_per_class": [2, 2, 2]}, "3 numbers and n_classes=2"),
        ({"prototypes_per_class": [2, 0]}, "prototypes_per_class"),
        ({"n_classes": 1}, "n_classes"),
        ({"n_classes": None}, "n_classes is needed"),
        ({"formula": "exact"}, "formula must be one of 'printed', 'pairwise'"),
        ({"log_base": 1.0}, "log_base"),
        ({"alpha": 1.2}, "alpha"),
        ({"n_samples": 0}, "n_samples"),
        ({"n_samples": None}, "both alpha and n_samples"),
        ({"margins": [0.1]}, "not both"),
        ({"margins": [np.nan], "alpha": None, "n_samples": None}, "margins contains"),
        ({"margins": [[0.1]], "alpha": None, "n_samples": None}, "margins must be one"),
    ],
)
def test_bad_input_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        lvq_margin_bound(**GOOD | change)


@pytest.mark.parametrize("name", ["theta", "radius", "delta", "prototypes_per_class"])
def test_wrong_types_are_refused(name):
    with pytest.raises(ValueError, match=name):
        lvq_margin_bound(**GOOD | {name: "many"})
