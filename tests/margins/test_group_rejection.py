"""One guarantee for each of several groups: divided delta, common thresholds."""

import numpy as np
import pytest

from widemargin.margins import (
    common_threshold,
    reject_threshold,
    reject_thresholds,
)
from widemargin.margins.rejection import deltas_of, samples_needed

RNG = np.random.RandomState(0)


def samples(n=600, n_groups=3, rng=RNG):
    """Group 0 has mistakes among the unsure half, the others hardly any."""
    sure, groups = rng.random_sample(n), rng.randint(0, n_groups, n)
    wrong = rng.random_sample(n) < np.where((groups == 0) & (sure < 0.5), 0.5, 0.01)
    return np.zeros(n), wrong.astype(float), sure, groups


class TestThresholdsOfGroups:
    def test_each_is_that_of_its_own_samples_at_its_part_of_delta(self):
        truth, answer, sure, groups = samples()
        found = reject_thresholds(truth, answer, sure, groups, max_error=0.1)
        assert found.groups.tolist() == [0, 1, 2]
        for g in range(3):
            own = groups == g
            alone = reject_threshold(
                truth[own], answer[own], sure[own], max_error=0.1, delta=0.05 / 3
            )
            assert found.thresholds[g] == alone
        assert found.thresholds[0] > 0.3 > found.thresholds[1:].max()

    def test_a_group_that_is_too_small_costs_the_others_nothing(self):
        truth, answer, sure, groups = samples()
        few = np.append(groups, [9] * 5)
        more = [np.append(part, np.zeros(5)) for part in (truth, answer)]
        found = reject_thresholds(*more, np.append(sure, [1.0] * 5), few, max_error=0.1)
        whole = reject_thresholds(truth, answer, sure, groups, max_error=0.1)
        assert found.thresholds[-1] == np.inf
        assert np.isnan(found.deltas[-1])
        np.testing.assert_array_equal(found.deltas[:3], whole.deltas)

    def test_delta_is_divided_among_as_many_as_can_show_anything(self):
        for m in (1, 2, 3):
            enough = samples_needed(0.05, 0.05 / m)
            sizes = np.array([enough] * m + [samples_needed(0.05, 0.05) - 1] * 2)
            deltas = deltas_of(sizes, 0.05, 0.05)
            np.testing.assert_allclose(deltas[:m], 0.05 / m)
            assert np.isnan(deltas[m:]).all()
        assert np.isnan(deltas_of(np.array([3, 4]), 0.05, 0.05)).all()

    def test_coverage_and_no_guarantee(self):
        truth, answer, sure, groups = samples()
        found = reject_thresholds(truth, answer, sure, groups, coverage=0.5)
        kept = [np.mean(sure[groups == g] >= found.thresholds[g]) for g in range(3)]
        assert all(0.5 < share < 0.7 for share in kept)
        plain = reject_thresholds(
            truth, answer, sure, groups, max_error=0.1, delta=None
        )
        for g in range(3):
            taken = (groups == g) & (sure >= plain.thresholds[g])
            assert answer[taken].mean() <= 0.1


class TestCommonThreshold:
    def test_of_one_group_it_is_the_usual_one(self):
        for n in (40, 100, 400):
            truth, answer, sure, _ = samples(n)
            for error in (0.05, 0.1, 0.2):
                guarantee = {"max_error": error}
                one = common_threshold(truth, answer, sure, np.zeros(n), **guarantee)
                assert one == reject_threshold(truth, answer, sure, **guarantee)

    def test_all_groups_must_pass(self):
        truth, answer, sure, groups = samples(1500)
        found = common_threshold(truth, answer, sure, groups, max_error=0.1)
        assert 0.3 < found < 0.7
        # The others alone would allow much more.
        rest = groups > 0
        lax = common_threshold(
            truth[rest], answer[rest], sure[rest], groups[rest], max_error=0.1
        )
        assert lax < 0.1

    def test_delta_is_not_divided(self):
        n = samples_needed(0.05, 0.05)
        truth, sure = np.zeros(10 * n), RNG.random_sample(10 * n)
        groups = np.repeat(np.arange(10), n)
        assert common_threshold(truth, truth, sure, groups, max_error=0.05) == -np.inf
        fewer = slice(1, None)
        assert common_threshold(
            truth[fewer], truth[fewer], sure[fewer], groups[fewer], max_error=0.05
        ) == np.inf  # fmt: skip

    @pytest.mark.parametrize("n", [120, 400])
    def test_guarantees_are_kept(self, n):
        # Group 1 errs with .3 below a half and never above: the error is known.
        rng = np.random.RandomState(3)
        broken, found = 0, []
        for _ in range(300):
            sure, groups = rng.random_sample(n), np.arange(n) % 2
            wrong = (rng.random_sample(n) < 0.3) & (groups == 1) & (sure < 0.5)
            t = common_threshold(
                np.zeros(n), wrong.astype(float), sure, groups, max_error=0.1, delta=0.2
            )
            found.append(t)
            t = max(t, 0.0)
            error = 0.3 * max(0.5 - t, 0) / (1 - t) if t < 1 else 0.0
            broken += error > 0.1
        assert broken <= 0.2 * 300
        assert np.mean(np.array(found) < np.inf) > 0.2

    def test_coverage_and_no_guarantee(self):
        truth, answer, sure, groups = samples(900)
        sure = sure + 0.3 * (groups == 2)
        t = common_threshold(truth, answer, sure, groups, coverage=0.5)
        shares = [np.mean(sure[groups == g] >= t) for g in range(3)]
        assert 0.5 < min(shares) < 0.65
        t = common_threshold(truth, answer, sure, groups, max_error=0.1, delta=None)
        assert max(answer[(groups == g) & (sure >= t)].mean() for g in range(3)) <= 0.1

    def test_bad_input(self):
        truth, answer, sure, groups = samples(50)
        with pytest.raises(ValueError, match="exactly one of max_error and coverage"):
            common_threshold(truth, answer, sure, groups)
        with pytest.raises(ValueError, match="groups"):
            common_threshold(truth, answer, sure, groups[:-1], max_error=0.1)
        with pytest.raises(ValueError, match="delta"):
            reject_thresholds(truth, answer, sure, groups, max_error=0.1, delta=2.0)
