"""The rule behind every "auto", against its formula."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin._core.select import select, smallest


def slow(wrong, weights, z, r):
    """The formulas of the module, one number at a time."""
    total = sum(weights)
    e = [sum(w * m for w, m in zip(weights, row, strict=True)) / total for row in wrong]
    b = e.index(min(e))
    for c, row in enumerate(wrong):
        pairs = zip(weights, row, wrong[b], strict=True)
        s = sum((w * (m - n)) ** 2 for w, m, n in pairs) ** 0.5 / total
        if not e[c] - e[b] > z * s + r * e[b] + 1e-12:
            return c
    raise AssertionError


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 9999), z=st.sampled_from([0.0, 1.0, 2.0]))
def test_the_first_that_is_not_clearly_worse_is_taken(seed, z):
    rng = np.random.RandomState(seed)
    rates = rng.uniform(0.05, 0.4, rng.randint(2, 6))
    wrong = rng.uniform(size=(len(rates), 60)) < rates[:, None]
    weights = rng.randint(1, 4, 60).astype(float)
    found = select(range(len(rates)), wrong.__getitem__, weights, deviations=z)
    assert found == slow(wrong.astype(float), weights, z, 0.03)


def test_a_sample_of_weight_four_tells_as_much_as_four_in_the_mean_alone():
    one, other = np.array([1.0, 0, 0, 0, 0]), np.zeros(5)
    wrong = {"small": one, "large": other}
    # It is one observation: as likely the other way around.
    assert select(["small", "large"], wrong.__getitem__, [4, 1, 1, 1, 1]) == "small"
    # Four samples that are not equal are four.
    wrong["small"] = np.array([1.0, 1, 1, 1, 0])
    assert select(["small", "large"], wrong.__getitem__) == "large"


@pytest.mark.parametrize("n", [10**3, 10**5, 10**6])
def test_what_a_larger_model_must_spare_does_not_vanish_as_samples_grow(n):
    """4.9 against 5 %: with a million samples that is three hundred deviations."""
    wrong = {1: np.arange(n) < 0.05 * n, 20: np.arange(n) < 0.049 * n}
    assert select([1, 20], wrong.__getitem__) == 1
    wrong[20] = np.arange(n) < 0.04 * n
    assert select([1, 20], wrong.__getitem__) == 20


def test_where_order_is_no_size_the_best_follows_the_first():
    wrong = {"usual": np.ones(50), "near": np.arange(50) < 1, "best": np.zeros(50)}
    assert select(list(wrong), wrong.__getitem__) == "near"
    assert select(list(wrong), wrong.__getitem__, by_size=False) == "best"
    assert select(["near", "best"], wrong.__getitem__, by_size=False) == "near"


def test_one_candidate_is_not_tried():
    assert select(["only"], None) == "only"


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 9999), n=st.integers(1, 7))
def test_halves_find_what_all_would_where_larger_sizes_err_less(seed, n):
    """Nested mistakes: what a size gets right, larger ones do as well."""
    counts = np.sort(np.random.RandomState(seed).randint(0, 80, n))[::-1]
    wrong, asked = np.arange(100) < counts[:, None], []

    def mistakes(size):
        asked.append(size)
        return wrong[size]

    assert smallest(range(n), mistakes) == select(range(n), wrong.__getitem__)
    assert len(asked) == len(set(asked)) <= 2 + np.ceil(np.log2(n))


def test_sizes_between_are_not_asked_where_the_largest_is_no_better():
    wrong, asked = {1: np.arange(50) < 5, 20: np.arange(50) < 6}, []

    def mistakes(size):
        asked.append(size)
        return wrong[size]

    assert smallest([1, 2, 5, 20], mistakes) == 1
    assert asked == [1, 20]
