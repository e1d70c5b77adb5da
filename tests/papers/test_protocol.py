"""The protocol: groups stay whole, test data stay unseen, errors have their spread."""

import numpy as np
import pytest
from papers import (
    Choice,
    best,
    folds,
    judged,
    measured,
    over_draws,
    some_groups,
    stretches,
)
from sklearn.naive_bayes import GaussianNB


def test_stretches_are_whole_and_alike():
    groups = stretches(7291)
    assert np.all(np.diff(groups) >= 0)
    sizes = np.bincount(groups)
    assert len(sizes) == 10
    assert np.ptp(sizes) <= 1


@pytest.mark.parametrize("n_folds", [2, 3, 10])
def test_folds_hold_every_sample_out_once_and_groups_whole(n_folds):
    groups = np.array([3, 3, 1, 1, 1, 0, 2, 2, 5, 5, 3])
    splits = folds(groups, n_folds)
    assert len(splits) == min(n_folds, 5)
    held = np.concatenate([part for _, part in splits])
    assert sorted(held) == list(range(len(groups)))
    for fit, part in splits:
        assert not set(groups[fit]) & set(groups[part])


def test_some_groups_are_whole():
    groups = np.arange(60) % 12
    held = some_groups(groups, 0.25)
    assert len(np.unique(groups[held])) == 3
    assert not set(groups[held]) & set(groups[~held])
    assert np.array_equal(held, some_groups(groups, 0.25))


def test_candidates_are_judged_where_held_out():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + y[:, None]
    splits = folds(stretches(60, 4))
    choices = list(judged({"a": GaussianNB(), "b": GaussianNB(priors=[0.99, 0.01])},
                          X, y, splits, 2))  # fmt: skip
    assert [one.name for one in choices] == ["a", "b"]
    scores, wrong = [], []
    for fit, held in splits:
        P = GaussianNB().fit(X[fit], y[fit]).predict_proba(X[held])
        scores.extend(((P - np.eye(2)[y[held]]) ** 2).sum(axis=1))
        wrong.extend(P.argmax(axis=1) != y[held])
    assert choices[0].brier == pytest.approx(np.mean(scores))
    assert choices[0].error == pytest.approx(100 * np.mean(wrong))
    assert best(choices).name == "a"
    assert best([Choice("x", 0.2, 1, 0), Choice("y", 0.1, 9, 0)]).name == "y"


def test_standard_errors():
    wrong = np.arange(200) < 20
    assert measured(wrong) == pytest.approx((10.0, 100 * np.sqrt(0.09 / 200)))
    errors = [1.0, 1.5, 3.5]
    assert over_draws(errors) == pytest.approx((2.0, np.std(errors, ddof=1) / 3**0.5))
    assert np.isnan(over_draws([2.0]).standard_error)
    assert str(over_draws(errors)) == "2.00 ± 0.76"
