"""Areas under risk-coverage curves: their definitions, ties, an identity, scorers."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin import RejectingClassifier
from widemargin.margins import (
    augrc_score,
    aurc_score,
    coverage_at_error,
    neg_augrc_scorer,
    neg_aurc_scorer,
)

answers = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=6)


def unpacked(rows):
    wrong, sure = (np.array(column) for column in zip(*rows, strict=True))
    return np.zeros(len(wrong), int), wrong.astype(int), sure.astype(float)


@given(answers)
def test_aurc_is_the_mean_over_all_orders_of_ties(rows):
    truth, wrong, sure = unpacked(rows)
    means = []
    for order in permutations(range(len(wrong))):
        if (np.diff(sure[list(order)]) <= 0).all():
            w = wrong[list(order)]
            means.append(np.mean([w[:k].mean() for k in range(1, len(w) + 1)]))
    assert aurc_score(truth, wrong, sure) == pytest.approx(np.mean(means))


@given(answers)
def test_augrc_is_accuracy_and_ranking(rows):
    truth, wrong, sure = unpacked(rows)
    a = 1 - wrong.mean()
    rank = roc_auc_score(1 - wrong, sure) if 0 < a < 1 else 0.5
    told = (1 - rank) * a * (1 - a) + (1 - a) ** 2 / 2
    assert augrc_score(truth, wrong, sure) == pytest.approx(told, abs=1e-12)


def test_coverage_at_an_error_is_by_definition():
    rng = np.random.RandomState(0)
    sure = rng.randint(0, 20, 200).astype(float)
    wrong = (rng.uniform(size=200) < 0.4 - sure / 60).astype(int)
    shares = [
        np.mean(sure >= t)
        for t in np.unique(sure)
        if wrong[sure >= t].mean() <= 0.15
    ]  # fmt: skip
    found = coverage_at_error(np.zeros(200), wrong, sure, max_error=0.15)
    assert found == pytest.approx(max(shares))
    assert coverage_at_error([0], [1], [1.0], max_error=0.5) == 0
    with pytest.raises(ValueError, match="max_error must be"):
        coverage_at_error([0], [0], [1.0], max_error=0)


@pytest.mark.parametrize("scorer", [neg_aurc_scorer, neg_augrc_scorer])
def test_scorers_refuse_labels_of_another_kind(scorer):
    model = SVC().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="y must hold labels of the kind"):
        scorer(model, [[0.0]], ["no"])


def test_scorers_go_where_scikit_learn_asks_for_one():
    X, y = load_iris(return_X_y=True)
    model = KNeighborsClassifier(5).fit(X[::2], y[::2])
    P = model.predict_proba(X[1::2])
    gap = np.sort(P, axis=1)[:, -1] - np.sort(P, axis=1)[:, -2]
    told = y[1::2], model.predict(X[1::2]), gap
    for scorer, score in (
        (neg_aurc_scorer, aurc_score),
        (neg_augrc_scorer, augrc_score),
    ):
        assert scorer(model, X[1::2], y[1::2]) == pytest.approx(-score(*told))
        assert (cross_val_score(model, X, y, scoring=scorer) <= 0).all()
    search = GridSearchCV(model, {"n_neighbors": [3, 60]}, scoring=neg_aurc_scorer)
    assert -0.1 < search.fit(X, y).best_score_ <= 0
    # Refusals are no mistakes.
    careful = RejectingClassifier(model, max_error=0.2, cv="prefit")
    careful.fit(X[1::2], y[1::2])
    assert neg_aurc_scorer(careful, X[1::2], y[1::2]) == pytest.approx(
        -aurc_score(*told)
    )
