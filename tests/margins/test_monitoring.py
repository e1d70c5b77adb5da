"""Bets against a guarantee: supermartingales, p-values of ranks, bounds."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, kstest

from widemargin.margins import error_bounds
from widemargin.margins.monitoring import (
    Bets,
    Ranks,
    error_bets,
    error_factors,
    least_error,
    log_evidence,
    p_value_factors,
    start_weights,
    weight_left,
)


def slow_money(factors, stakes, between):
    """Return the definition: the mean over bets and over the times they begin at."""
    n = len(factors)
    starts = np.arange(0, n, between)
    weights = start_weights(np.arange(len(starts)))
    money = np.empty(n)
    for last in range(n):
        begun = starts <= last
        products = np.array([factors[s : last + 1].prod(axis=0) for s in starts[begun]])
        money[last] = weights[begun] @ products @ stakes + 1 - weights[begun].sum()
    return money


class TestBets:
    def test_money_is_its_definition(self):
        rng = np.random.RandomState(0)
        factors, stakes = rng.uniform(0.5, 2, (60, 3)), (0.2, 0.5, 0.3)
        for between in (1, 7):
            bets = Bets(stakes, between)
            parts = [
                bets.follow(np.log(part)) for part in np.split(factors, [1, 1, 20])
            ]
            slow = slow_money(factors, stakes, between)
            np.testing.assert_allclose(np.exp(np.concatenate(parts)), slow)

    def test_starts_have_all_of_the_money(self):
        starts = np.arange(6400)
        weights = start_weights(starts)
        assert (weights > 0).all()
        assert (np.diff(weights) <= 0).all()
        np.testing.assert_allclose(weight_left(starts), 1 - np.cumsum(weights))
        assert weight_left(np.array(10**12)) < 1e-10
        assert (np.diff(start_weights(np.arange(10**9, 10**9 + 5))) <= 0).all()
        assert start_weights(np.array(10**9)) > 0

    @pytest.mark.parametrize("error", [0.05, 0.3])
    def test_money_is_a_martingale_at_the_guarantee_and_less_below(self, error):
        # All outcomes of eight answers, with their probabilities.
        outcomes = np.array(list(product([0, 1], repeat=8)))

        def mean(q):
            chance = np.prod(np.where(outcomes, q, 1 - q), axis=1)
            bets = [Bets((0.25, 0.5, 0.25), 3) for _ in outcomes]
            money = [
                np.exp(b.follow(error_factors(o, error)))
                for b, o in zip(bets, outcomes, strict=True)
            ]
            return chance @ np.array(money)

        np.testing.assert_allclose(mean(error), 1)
        assert (mean(error / 2) < 1).all()
        assert (mean(2 * error) > 1).all()

    @given(st.floats(1e-3, 0.9), st.floats(0, 1))
    def test_no_factor_gains_under_the_hypothesis(self, guaranteed, part):
        q = guaranteed * part
        wrong, right = np.exp(error_factors(np.array([1, 0]), guaranteed))
        assert (q * wrong + (1 - q) * right <= 1 + 1e-9).all()

    def test_bets_on_p_values_are_densities(self):
        n = p_value_factors(np.array([0.5])).shape[1]
        for k in range(n):
            area = quad(
                lambda p, k=k: np.exp(p_value_factors(np.array([p]))[0, k]), 0, 1
            )
            assert abs(area[0] - 1) < 1e-6

    def test_an_error_that_doubles_is_seen_and_the_guarantee_is_not(self):
        rng = np.random.default_rng(0)
        assert error_bets(0.05).follow(
            error_factors(rng.random(20_000) < 0.05, 0.05)
        ).max() < np.log(20)
        later = np.append(rng.random(5000) < 0.05, rng.random(2000) < 0.1)
        evidence = error_bets(0.05).follow(error_factors(later, 0.05))
        assert 5000 < np.argmax(evidence >= np.log(20)) < 6000


class TestErrorBounds:
    @pytest.mark.parametrize("n", [1, 7, 40])
    @pytest.mark.parametrize("error", [0.02, 0.4])
    def test_evidence_has_mean_one_at_the_error_and_less_below(self, n, error):
        k = np.arange(n + 1)
        money = np.exp(log_evidence(k, np.full(n + 1, n), np.full(n + 1, error)))
        np.testing.assert_allclose(binom.pmf(k, n, error) @ money, 1)
        assert binom.pmf(k, n, error / 2) @ money < 1

    @given(st.integers(1, 300), st.integers(0, 300))
    def test_evidence_falls_up_to_the_error_that_was_seen(self, n, mistakes):
        mistakes = min(mistakes, n)
        grid = np.linspace(1e-9, 1, 80) * mistakes / n
        money = log_evidence(np.full(80, mistakes), np.full(80, n), grid)
        money = money[np.isfinite(money)]
        assert (np.diff(money) <= 1e-6).all()

    def test_bounds_are_where_the_evidence_is(self):
        n = np.array([50, 400])
        low = least_error(np.array([10, 30]), n, 0.05)
        np.testing.assert_allclose(
            log_evidence(np.array([10, 30]), n, low), np.log(20), rtol=1e-6
        )
        assert least_error(np.array([0]), np.array([9]), 0.05)[0] == 0

    def test_they_hold_at_all_times_at_once(self):
        rng = np.random.default_rng(0)
        broken = 0
        for _ in range(200):
            lower, upper = error_bounds(rng.random(500) < 0.1, delta=0.2)
            assert (lower <= upper).all() or (lower[-1] > 0.1 or upper[-1] < 0.1)
            broken += bool((lower > 0.1).any() or (upper < 0.1).any())
        assert 0 < broken <= 0.2 * 200

    def test_of_no_answers(self):
        assert all(len(part) == 0 for part in error_bounds([]))

    @pytest.mark.parametrize("wrong", [[[0, 1]], [2, 0], [0.5], ["yes"]])
    def test_bad_mistakes(self, wrong):
        with pytest.raises(ValueError, match="wrong must be one of True and False"):
            error_bounds(wrong)

    def test_bad_delta(self):
        with pytest.raises(ValueError, match="delta"):
            error_bounds([True], delta=0)


class TestRanks:
    def test_all_orders_give_all_ranks_alike(self):
        # Of exchangeable scores every order is as likely: so is every row of ranks.
        rows = []
        for order in permutations([0.3, 1.0, 2.0, 7.0]):
            ranks = Ranks(0)
            p = ranks.follow(order)
            rows.append(np.ceil(p * np.arange(1, 5) - 1e-12).astype(int))
        assert len({tuple(row) for row in rows}) == 24

    def test_is_its_definition(self):
        rng = np.random.RandomState(1)
        known, scores = rng.randint(0, 6, 20), rng.randint(0, 8, 50)
        fast = Ranks(3).know(known).follow(scores)
        at_random = 1 - np.random.RandomState(3).random_sample(50)
        seen = list(known)
        for p, u, s in zip(fast, at_random, scores, strict=True):
            larger, same = np.sum(np.array(seen) > s), np.sum(np.array(seen) == s)
            assert p == pytest.approx((larger + u * (same + 1)) / (len(seen) + 1))
            seen.append(s)

    def test_uniform_with_ties_and_after_ranks_begin_anew(self):
        rng = np.random.RandomState(0)
        p = Ranks(0, most=700).follow(rng.randint(0, 4, 5000))
        assert kstest(p, "uniform").pvalue > 0.01
        assert abs(np.corrcoef(p[1:], p[:-1])[0, 1]) < 0.04
        assert p.min() > 0
        assert p.max() <= 1
