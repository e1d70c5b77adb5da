import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from widemargin.margins import (
    error_reject_curve,
    reject_threshold,
    smallest_max_error,
)
from widemargin.margins.rejection import tie_width

modest = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def random_answers(seed, n=30, levels=8):
    rng = np.random.default_rng(seed)
    y_true = rng.choice(["a", "b", "c"], n)
    y_pred = np.where(rng.random(n) < 0.7, y_true, rng.choice(["a", "b", "c"], n))
    return y_true, y_pred, rng.integers(0, levels, n) / levels


@modest
@given(seeds, st.integers(1, 30))
def test_curve_equals_a_loop_over_thresholds(seed, n):
    y_true, y_pred, confidence = random_answers(seed, n)
    curve = error_reject_curve(y_true, y_pred, confidence)
    np.testing.assert_array_equal(
        curve.thresholds, [*sorted(set(confidence.tolist())), np.inf]
    )
    for rejected, error, threshold in zip(*curve, strict=True):
        accepted = confidence >= threshold
        assert rejected == pytest.approx(1 - accepted.mean())
        wrong = (y_true != y_pred)[accepted]
        assert error == pytest.approx(wrong.mean() if accepted.any() else 0)
    assert (np.diff(curve.rejection_rate) > 0).all()


@modest
@given(seeds, st.floats(0.01, 0.6))
def test_empirical_threshold_is_the_laxest_on_the_curve(seed, max_error):
    answers = random_answers(seed)
    threshold = reject_threshold(*answers, max_error=max_error, delta=None)
    _, errors, thresholds = error_reject_curve(*answers)
    allowed = thresholds[errors <= max_error]
    expected = -np.inf if allowed[0] == thresholds[0] else allowed[0]
    accepted = answers[2] >= threshold
    np.testing.assert_array_equal(accepted, answers[2] >= expected)


@modest
@given(seeds, st.floats(0.01, 0.99))
def test_empirical_coverage_is_kept_by_the_strictest_threshold(seed, coverage):
    _, _, confidence = answers = random_answers(seed)
    threshold = reject_threshold(*answers, coverage=coverage, delta=None)
    assert (confidence >= threshold).mean() >= coverage
    least = confidence[confidence >= threshold].min()
    if threshold > -np.inf:
        assert (confidence > least).mean() < coverage


@settings(max_examples=30, deadline=None)
@given(seeds, st.floats(0.05, 0.3), st.floats(0.01, 0.3))
def test_accepted_thresholds_pass_the_binomial_test_and_order_is_free(
    seed, max_error, delta
):
    y_true, y_pred, confidence = random_answers(seed, 400, 60)
    threshold = reject_threshold(
        y_true, y_pred, confidence, max_error=max_error, delta=delta
    )
    accepted = confidence >= threshold
    wrong = (y_true != y_pred)[accepted].sum()
    if accepted.any():
        assert binom.cdf(wrong, accepted.sum(), max_error) <= delta
    order = np.random.default_rng(seed).permutation(400)
    shuffled = (values[order] for values in (y_true, y_pred, confidence))
    assert reject_threshold(*shuffled, max_error=max_error, delta=delta) == threshold


@pytest.mark.parametrize("levels", [12, 5000])
@pytest.mark.parametrize(
    "mistake_rate",
    [
        lambda c: np.where(c < 0.55, 0.35, 0.08),
        # Confidently wrong at the top and in a band: the error is not monotone.
        lambda c: np.where((c > 0.97) | ((c > 0.45) & (c < 0.6)), 0.55, 0.05),
        # Every threshold breaks the guarantee, by as little as can be.
        lambda c: np.full(c.shape, 0.1001),
    ],
    ids=["monotone", "not monotone", "hopeless"],
)
def test_guaranteed_error_is_kept(mistake_rate, levels):
    rng = np.random.default_rng(7)
    n, rounds, max_error, delta = 300, 400, 0.1, 0.05
    grid = (np.arange(levels) + 0.5) / levels
    rates = mistake_rate(grid)
    true_error = np.append(rates[::-1].cumsum()[::-1] / np.arange(levels, 0, -1), 0)

    def fails(threshold):
        return true_error[np.searchsorted(grid, threshold)] > max_error

    broken, naive = 0, 0
    for _ in range(rounds):
        level = rng.integers(0, levels, n)
        answers = np.zeros(n), rng.random(n) < rates[level], grid[level]
        threshold = reject_threshold(*answers, max_error=max_error, delta=delta)
        broken += fails(threshold)
        naive += fails(reject_threshold(*answers, max_error=max_error, delta=None))
    noise = 3 * np.sqrt(delta * (1 - delta) / rounds)
    assert broken / rounds <= delta + noise
    # The threshold read off the curve shows that the simulation can tell.
    assert naive / rounds > delta + noise


def test_easy_problem_rejects_little():
    rng = np.random.default_rng(0)
    confidence = rng.random(2000)
    wrong = (rng.random(2000) < 0.5) & (confidence < 0.1)
    threshold = reject_threshold(
        np.zeros(2000), wrong.astype(float), confidence, max_error=0.02
    )
    assert 0.02 < threshold < 0.1


def test_nothing_can_be_guaranteed_from_few_samples():
    # 29 faultless ones are needed: log(0.05) / log(0.9) is 28.4.
    for n, n_accepted in ((28, 0), (29, 29), (30, 29), (36, 36)):
        answers = np.zeros(n), np.zeros(n), np.arange(n) / n
        threshold = reject_threshold(*answers, max_error=0.1)
        assert np.sum(answers[2] >= threshold) == n_accepted
    assert smallest_max_error(28) > 0.1 >= smallest_max_error(29)
    n = 29
    for max_error, kept in ((0.999, True), (1.001, False)):
        answers = np.zeros(n), np.zeros(n), np.arange(n)
        least = smallest_max_error(n) / max_error
        assert (reject_threshold(*answers, max_error=least) < np.inf) == kept


@pytest.mark.parametrize(("n", "surest"), [(35, 29), (40, 32)])
def test_few_samples_accept_what_is_surer_than_one_rank(n, surest):
    # Of 35 the surest 29 must be faultless, whatever the others are: 0.9^29 < 0.05. Of
    # 40 there is a second test, of all, at 0.9^40: 0.9^32 < 0.05 - 0.9^40.
    truth, confidence = np.zeros(n), np.arange(float(n))
    last = n - surest - 1
    for mistake_at, answered in ((last, True), (last + 1, False)):
        wrong = confidence == mistake_at
        threshold = reject_threshold(truth, wrong, confidence, max_error=0.1)
        assert (threshold < np.inf) == answered
    worst = confidence == 0
    ties = np.minimum(confidence, 20)
    threshold = reject_threshold(truth, worst, ties, max_error=0.1)
    assert last < threshold < last + 1e-6
    # A tie at the rank is rejected, and what is left is too little to tell.
    ties = np.maximum(confidence, last + 2)
    assert reject_threshold(truth, worst, ties, max_error=0.1) == np.inf
    assert reject_threshold(truth, worst, ties, max_error=0.14) > last + 2


@pytest.mark.parametrize("max_error", [0.01, 0.02, 0.1, 0.3, 0.5])
def test_what_no_sample_speaks_against_is_answered(max_error):
    """More samples, all right, do not answer much less; many answer all."""
    fewest = math.ceil(math.log(0.05) / math.log1p(-max_error))
    for n in {*range(fewest, fewest + 9), *range(fewest, 4 * fewest, fewest // 5 + 1)}:
        confidence = np.arange(float(n))
        found = reject_threshold(
            confidence, confidence, confidence, max_error=max_error
        )
        share = np.mean(confidence >= found)
        assert share >= (1 if n > 1.25 * fewest + 1 else 0.8), (n, share)


@pytest.mark.parametrize(("dtype", "rounding"), [("f8", 1e-12), ("f4", 1e-7)])
@pytest.mark.parametrize(
    ("n_sure", "guarantee"),
    [
        (200, {"max_error": 0.1}),
        (31, {"max_error": 0.1}),
        (200, {"max_error": 0.1, "delta": None}),
        (200, {"coverage": 0.8}),
        (200, {"coverage": 0.8, "delta": None}),
    ],
)
def test_rounding_parts_no_ties(dtype, rounding, n_sure, guarantee):
    """Samples of one kind have one confidence, but for the last digits."""
    rng = np.random.default_rng(0)
    kinds = np.array([0.123, 0.7, 0.71])
    n_others = n_sure // 2
    kind = rng.integers(0, 3, n_others)
    # Of the surest no two are of one kind.
    exact = np.concatenate([kinds[kind], 1 + np.arange(n_sure) / n_sure])
    wrong = np.concatenate([rng.random(n_others) < 0.5, np.zeros(n_sure, bool)])

    def asked():
        return (exact * (1 + rounding * rng.normal(size=len(exact)))).astype(dtype)

    threshold = reject_threshold(0 * exact, wrong, asked(), **guarantee)
    assert 0.2 < threshold < 1.01
    for _ in range(5):
        accepted = asked().astype(float) >= threshold
        np.testing.assert_array_equal(accepted, exact >= threshold)


@given(st.floats(1e-250, 1e300))
def test_what_is_a_tie_has_a_unit(largest):
    width = tie_width(np.array([largest, -largest / 2]))
    assert 2.0**-31 <= width / largest <= 2.0**-29
    assert tie_width(np.zeros(3)) > 0


def test_one_far_sample_makes_no_ties_of_others():
    rng = np.random.default_rng(0)
    confidence = rng.random(400).astype(np.float32)
    wrong = rng.random(400) < 0.5 * np.exp(-8 * confidence)
    threshold = reject_threshold(np.zeros(400), wrong, confidence, max_error=0.06)
    far = confidence.copy()
    far[confidence.argmax()] = 1e9
    assert threshold < 1
    assert threshold == reject_threshold(np.zeros(400), wrong, far, max_error=0.06)


def test_noisy_labels_leave_answers():
    """Where the surest are wrong as often as others, all of them can be guaranteed."""
    answered = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        confidence = rng.random(300)
        wrong = rng.random(300) < np.where(confidence < 0.05, 0.5, 0.1)
        t = reject_threshold(np.zeros(300), wrong, confidence, max_error=0.25)
        answered.append(np.mean(confidence >= t))
    assert np.mean(np.array(answered) > 0.9) > 0.9


def test_guaranteed_coverage_is_kept():
    rng = np.random.default_rng(1)
    n, rounds, coverage, delta = 100, 800, 0.8, 0.1
    zeros = np.zeros(n)
    for levels in (10, 10**6):
        accepted = []
        for _ in range(rounds):
            confidence = rng.integers(0, levels, n) / levels
            threshold = reject_threshold(
                zeros, zeros, confidence, coverage=coverage, delta=delta
            )
            below = np.ceil(threshold * levels - 1e-9) if threshold > -np.inf else 0
            accepted.append(1 - below / levels)
        broken = np.mean(np.array(accepted) < coverage - 1e-12)
        assert broken <= delta + 3 * np.sqrt(delta * (1 - delta) / rounds)
        if levels > 10:
            assert broken > delta / 3
    assert reject_threshold([0], [0], [1.0], coverage=0.9) == -np.inf


def test_labels_of_any_kind():
    curve = error_reject_curve(["x", "y"], np.array(["x", "z"], object), [1, 2])
    np.testing.assert_array_equal(curve.error_rate, [0.5, 1.0, 0.0])
    single = error_reject_curve([0, 1], [0, 1], np.float32([1, 2]))
    assert single.thresholds.dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0], [0.1, 0.2]), "y_true has 2, y_pred has 1"),
        (([0, 1], [0, 1], [0.1]), "confidence has 1"),
        (([0, 1], [0, 1], [0.1, np.nan]), "confidence contains NaN"),
        (([0, 1], [0, 1], [0.1, np.inf]), "confidence contains infinity"),
        (([0, np.nan], [0, 1], [0.1, 0.2]), "y_true contains NaN"),
        (([0, 1], ["0", "1"], [0.1, 0.2]), "same kind of label"),
        (([], [], []), "y_true is empty"),
        (([0, 1], [0, 1], [[0.1, 0.2]]), "confidence must be one number per sample"),
    ],
)
def test_bad_arrays_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        error_reject_curve(*arguments)
    with pytest.raises(ValueError, match=message):
        reject_threshold(*arguments, max_error=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one"),
        ({"max_error": 0.1, "coverage": 0.5}, "exactly one"),
        ({"max_error": 0.0}, "max_error"),
        ({"max_error": 1.0}, "max_error"),
        ({"coverage": 1.0}, "coverage"),
        ({"coverage": 0.5, "delta": 0.0}, "delta"),
        ({"max_error": 0.1, "delta": 1.0}, "delta"),
        ({"max_error": np.nan}, "max_error"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        reject_threshold([0, 1], [0, 1], [0.1, 0.2], **options)


def test_ties_at_the_rank_are_rejected_in_float32_too():
    """The sure are all right; of those that tie behind them, none is."""
    confidence = np.repeat([0.9, 0.3], [59, 11]).astype(np.float32)
    wrong = confidence < 0.5
    threshold = reject_threshold(np.zeros(70), wrong, confidence, max_error=0.05)
    # As anybody compares, by a Python number, which float32 rounds to its own.
    np.testing.assert_array_equal(confidence >= threshold, ~wrong)
    assert np.float32(threshold) == threshold
