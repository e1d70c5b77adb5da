import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin._core.decisions import (
    class_pairs,
    combine,
    duel_costs,
    duel_margins,
    vote_scores,
    walk_graph,
)

decisions = st.integers(0, 10**6).map(np.random.default_rng)


def slow_graph(row, n_classes):
    """The list of classes, first against last."""
    column = {pair: c for c, pair in enumerate(class_pairs(n_classes))}
    left = list(range(n_classes))
    while len(left) > 1:
        first_wins = row[column[left[0], left[-1]]] > 0
        left.pop(-1 if first_wins else 0)
    return left[0]


@settings(max_examples=40, deadline=None)
@given(rng=decisions, n_classes=st.integers(2, 6))
def test_the_graph_is_the_list_of_classes(rng, n_classes):
    duels = rng.normal(size=(20, n_classes * (n_classes - 1) // 2))
    scores = combine(duels, n_classes, "ddag")
    expected = [slow_graph(row, n_classes) for row in duels]
    np.testing.assert_array_equal(scores.argmax(axis=1), expected)


@settings(max_examples=40, deadline=None)
@given(rng=decisions, n_classes=st.integers(2, 6))
def test_a_class_that_wins_all_duels_wins_both_ways(rng, n_classes):
    duels = rng.normal(size=(20, n_classes * (n_classes - 1) // 2))
    votes = vote_scores(duels, n_classes)
    undisputed = votes.max(axis=1) > n_classes - 1.5
    graph = combine(duels, n_classes, "ddag")
    np.testing.assert_array_equal(
        graph.argmax(axis=1)[undisputed], votes.argmax(axis=1)[undisputed]
    )


@settings(max_examples=40, deadline=None)
@given(rng=decisions, n_classes=st.integers(2, 6))
def test_votes_and_costs_are_those_of_duels(rng, n_classes):
    duels = rng.normal(size=(20, n_classes * (n_classes - 1) // 2)).round(1)
    answers = rng.integers(n_classes, size=20)
    votes, clear, costs = np.zeros((3, 20, n_classes))
    for row, (duel, answer) in enumerate(zip(duels, answers, strict=True)):
        for value, (i, j) in zip(duel, class_pairs(n_classes), strict=True):
            votes[row, i if value > 0 else j] += 1
            clear[row, i] += value
            clear[row, j] -= value
            if answer in (i, j):
                costs[row, i + j - answer] = max(0, value if answer == i else -value)
    found = vote_scores(duels, n_classes)
    np.testing.assert_array_equal(found, votes + clear / (3 * (np.abs(clear) + 1)))
    np.testing.assert_array_equal(duel_costs(duels, answers, n_classes), costs)


def test_each_sample_meets_one_duel_less_than_classes():
    rng = np.random.default_rng(0)
    met = np.zeros(30, int)

    def duel(i, j, rows):
        met[rows] += 1
        return rng.normal(size=len(rows))

    walk_graph(duel, 30, 5)
    np.testing.assert_array_equal(met, 4)


@settings(max_examples=60, deadline=None)
@given(rng=decisions, n_classes=st.integers(3, 6))
def test_the_answer_stays_while_duels_change_by_less_than_its_margin(rng, n_classes):
    """Duels of two others may give one of them as many votes as the answer has."""
    pairs = class_pairs(n_classes)
    duels = rng.normal(size=(200, len(pairs))) * rng.choice(
        [0.05, 1], (200, len(pairs))
    )
    answers = combine(duels, n_classes, "ovo").argmax(axis=1)
    margins = duel_margins(duels, n_classes, "ovo")[np.arange(200), answers]
    assert (margins >= 0).all()
    changes = [rng.uniform(-1, 1, duels.shape)]
    for rival in range(n_classes):
        # All for the rival and against the answer, which may win from others.
        helped = [[(i == rival) - (j == rival) for i, j in pairs]] * 200
        hurt = np.array(
            [[int(j == a) - int(i == a) for i, j in pairs] for a in answers]
        )
        changes.append(np.clip(helped + hurt, -1, 1))
    for change in changes:
        changed = duels + 0.999 * margins[:, None] * change
        found = combine(changed, n_classes, "ovo").argmax(axis=1)
        np.testing.assert_array_equal(found, answers)
