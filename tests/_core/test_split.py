import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin._core.split import (
    folds_of_classes,
    hold_out_at_random,
    hold_out_of_classes,
)


@settings(deadline=None, max_examples=60)
@given(
    codes=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 1000),
)
def test_every_class_keeps_a_sample_and_gives_its_share(codes, fraction, seed):
    codes, rng = np.array(codes), np.random.RandomState(seed)
    held = hold_out_of_classes(codes, fraction, rng, needed=False)
    for code in np.unique(codes):
        of = codes == code
        assert held[of].sum() == min(round(fraction * of.sum()), of.sum() - 1)


def test_unusable_samples_are_neither_held_nor_counted():
    codes, usable = np.zeros(20, int), np.arange(20) < 10
    held = hold_out_of_classes(codes, 0.5, np.random.RandomState(0), usable)
    assert held.sum() == 5
    assert not held[~usable].any()


def test_nothing_to_spare_is_an_error_where_it_is_needed():
    with pytest.raises(ValueError, match=r"validation_fraction=0\.1 of 4 samples"):
        hold_out_of_classes(np.arange(4), 0.1, np.random.RandomState(0))


@settings(deadline=None, max_examples=60)
@given(n=st.integers(2, 60), n_held=st.integers(0, 70), seed=st.integers(0, 1000))
def test_a_plain_draw_is_never_none_or_all(n, n_held, seed):
    held = hold_out_at_random(n, n_held, np.random.RandomState(seed))
    assert len(held) == n
    assert held.sum() == min(max(n_held, 1), n - 1)


@settings(deadline=None, max_examples=60)
@given(
    codes=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    n_folds=st.integers(2, 5),
)
def test_folds_part_every_class_and_leave_a_class_of_one_in_training(codes, n_folds):
    codes = np.array(codes)
    folds = folds_of_classes(codes, n_folds)
    left_out = np.concatenate([*folds, np.empty(0, int)])
    sizes = np.bincount(codes)
    np.testing.assert_array_equal(np.sort(left_out), np.flatnonzero(sizes[codes] > 1))
    for rows in folds:
        assert set(np.delete(codes, rows)) == set(codes)
        assert (
            np.bincount(codes[rows], minlength=4) <= -(-len(codes) // n_folds)
        ).all()


def test_equal_samples_are_left_out_together_and_enough_is_enough():
    codes = np.repeat([0, 1], 60)
    groups = np.arange(120) // 3
    folds = folds_of_classes(codes, 4, groups=groups)
    assert [len(rows) for rows in folds] == [30] * 4
    for rows in folds:
        assert np.isin(groups, groups[rows]).sum() == len(rows)
    assert len(folds_of_classes(codes, 4, enough=50)) == 2


def test_copies_are_not_counted_twice_towards_enough():
    codes, groups = np.repeat([0, 1], 60), np.arange(120) // 3
    assert len(folds_of_classes(codes, 4, enough=20, groups=groups)) == 2
