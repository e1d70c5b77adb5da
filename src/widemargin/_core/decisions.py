"""From labels to codes, from scores to answers and margins, from duels to scores.

Scores are (n_samples, n_classes), larger is likelier; the answer is the largest, the
first of equals. The margin of a label is its score less the best other score: positive
exactly where that label is the answer, zero on a tie.

Duels are (n_samples, K(K-1)/2), one column per pair (i, j), i < j, in the order (0, 1),
(0, 2), ..., (K-2, K-1); positive means i. They are decided

* by votes: the class that wins most duels; how clearly they were won orders equals;
* by a directed acyclic graph (DDAG): let the first of the classes left meet the last,
  drop the loser: K - 1 duels per sample. Where some class wins all its duels, both
  agree.

Reference: J. Platt, N. Cristianini, J. Shawe-Taylor, Large margin DAGs for multiclass
classification, NIPS 2000.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, column_or_1d

from widemargin._core.checks import format_labels


def as_labels(name: str, y: ArrayLike, n_samples: int | None = None) -> NDArray:
    """Return labels as a non-empty one-dimensional array, of `n_samples` if given."""
    shape = np.shape(y)
    if len(shape) != 1 and (len(shape) != 2 or shape[1] != 1):
        raise ValueError(
            f"{name} must be a 1d array, one label per sample; got shape {shape}."
        )
    labels = np.asarray(column_or_1d(y, warn=True))
    if labels.size == 0:
        raise ValueError(f"{name} is empty; at least one label is needed.")
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name=name)
    if n_samples is not None and len(labels) != n_samples:
        raise ValueError(
            f"{name} must have one label per sample: X has {n_samples} samples and "
            f"{name} has {len(labels)}."
        )
    return labels


def are_alike(one: NDArray, other: NDArray) -> bool:
    """Whether labels can be equal: NumPy would take 1 for "1" to compare them."""
    texts = {labels.dtype.kind in "SU" for labels in (one, other)}
    return len(texts) == 1 or "O" in (one.dtype.kind, other.dtype.kind)


def class_codes(
    y: ArrayLike,
    classes: NDArray,
    n_samples: int | None = None,
    *,
    name: str = "y",
    owner: str = "the classifier was not fitted with; its classes",
) -> NDArray:
    """Positions of labels among sorted `classes`, or an error naming the unknown.

    >>> class_codes(["b", "a", "b"], np.array(["a", "b"]))
    array([1, 0, 1])
    """
    labels = as_labels(name, y, n_samples)
    if "O" in (classes.dtype.kind, labels.dtype.kind):
        place = {label: code for code, label in enumerate(classes.tolist())}
        codes = np.array([place.get(label, -1) for label in labels.tolist()], np.intp)
        unknown = codes < 0
    elif not are_alike(classes, labels):
        unknown = np.ones(len(labels), bool)
        codes = np.zeros(len(labels), np.intp)
    else:
        codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
        unknown = classes[codes] != labels
    if unknown.any():
        strange = list(dict.fromkeys(labels[unknown].tolist()))
        listed = ", ".join(repr(label) for label in strange[:10])
        raise ValueError(
            f"{name} contains {listed}{', …' if len(strange) > 10 else ''}, which "
            f"{owner} are {format_labels(classes)}."
        )
    return codes


def from_decision(decision: NDArray) -> NDArray:
    """Return scores; of one column, positive for the second class, those of two."""
    if decision.ndim == 2:
        return decision
    # Halving the smallest numbers there are would lose which is larger.
    return np.column_stack([np.where(decision > 0, 0, -decision),
                            np.where(decision > 0, decision, 0)])  # fmt: skip


def brier_scores(P: NDArray, codes: NDArray) -> NDArray:
    """Squared error of every sample's probabilities, between 0 and 2.

    >>> brier_scores(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1]))
    array([0.5, 0. ])
    """
    right = P[np.arange(len(P)), codes]
    return (P**2).sum(axis=1) - 2 * right + 1


def best_other(scores: NDArray) -> NDArray:
    """Return, for every sample and class, the largest score of another class."""
    rows, best = np.arange(len(scores)), scores.argmax(axis=1)
    rest = scores.copy()
    rest[rows, best] = -np.inf
    others = np.repeat(scores[rows, best][:, None], scores.shape[1], axis=1)
    others[rows, best] = rest.max(axis=1)
    return others


def two_smallest(D: NDArray) -> tuple[NDArray, NDArray]:
    """Return the smallest and the next of every row of two or more, (n, 1) each.

    >>> two_smallest(np.array([[3.0, 1.0, 2.0], [1.0, 4.0, 1.0]]))
    (array([[1.],
           [1.]]), array([[2.],
           [1.]]))
    """
    # Column by column: a reduction of short rows takes longer.
    least, *others = np.ascontiguousarray(D.T)
    second = np.full_like(least, np.inf)
    for column in others:
        second = np.minimum(second, np.maximum(least, column))
        least = np.minimum(least, column)
    return least[:, None], second[:, None]


def label_margins(scores: NDArray) -> NDArray:
    """Margin that each label would have: its score less the best other one.

    A class that is out of the question scores -inf; two such classes tie. With a single
    class there is nothing to compare: its margin is its score.

    >>> label_margins(np.array([[3.0, 1.0, 2.0]]))
    array([[ 1., -2., -1.]])
    """
    if scores.shape[1] < 2:
        return scores
    others = best_other(scores)
    none = np.zeros_like(scores)
    return np.subtract(scores, others, out=none, where=scores != others)


def score_margins(scores: NDArray, codes: NDArray) -> NDArray:
    """Score of the right class less the best score of a wrong one.

    >>> score_margins(np.array([[2.0, -1.0, 0.5]]), np.array([2]))
    array([-1.5])
    """
    return label_margins(scores)[np.arange(len(scores)), codes]


def relative_distances(D: NDArray) -> NDArray:
    """Divide class distances by the sum of the two smallest of their row."""
    D = D.astype(np.float64)
    second = min(1, D.shape[1] - 1)
    both = np.partition(D, second, axis=1)[:, :2].sum(axis=1, keepdims=True)
    # A class without prototypes, before its first batch, is infinitely far; so is one
    # whose share is no number any more.
    far = np.where(D > 0, np.inf, 0.0)
    return np.divide(D, both, out=far, where=np.isfinite(D) & (both > 1e-300 * D))


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Pairs (i, j), i < j, in the order of the columns of duels."""
    return list(combinations(range(n_classes), 2))


def vote_scores(duels: NDArray, n_classes: int) -> NDArray:
    """Duels won, plus less than half a duel for how clearly they were won.

    >>> vote_scores(np.array([[-1.0, 1.0, 2.0]]), 3).round(2)
    array([[ 1.  ,  2.25, -0.25]])
    """
    # A duel is a vote for the second class, taken back where the first one wins.
    votes = np.repeat(np.arange(float(n_classes))[:, None], len(duels), axis=1)
    clearness = np.zeros_like(votes)
    duels = np.ascontiguousarray(duels.T)
    for totals, parts in ((votes, (duels > 0) * 1.0), (clearness, duels)):
        first = 0
        for i in range(n_classes - 1):
            # All pairs of class i with later ones, added one after the other.
            own = parts[first : first + n_classes - 1 - i]
            totals[i] = np.cumsum(np.vstack([totals[i], own]), axis=0)[-1]
            totals[i + 1 :] -= own
            first += len(own)
    return (votes + clearness / (3 * (np.abs(clearness) + 1))).T


Duel = Callable[[int, int, NDArray], NDArray]


def walk_graph(duel: Duel, n_samples: int, n_classes: int) -> tuple[NDArray, NDArray]:
    """Round in which each class is dropped, and the decision that dropped it.

    ``duel(i, j, rows)`` returns the decisions of some samples, positive for i. The
    winner has round n_classes - 1 and the smallest decision met on its way.
    """
    rounds = np.full((n_samples, n_classes), n_classes - 1)
    decided = np.full((n_samples, n_classes), np.inf)
    first = np.zeros(n_samples, int)
    last = np.full(n_samples, n_classes - 1)
    for step in range(n_classes - 1):
        for (i, j), rows in _meetings(first, last):
            decision = np.asarray(duel(i, j, rows), dtype=float)
            first_wins = decision > 0
            losers = np.where(first_wins, j, i)
            winners = np.where(first_wins, i, j)
            size = np.abs(decision)
            rounds[rows, losers] = step
            decided[rows, losers] = size
            decided[rows, winners] = np.minimum(decided[rows, winners], size)
            last[rows] -= first_wins
            first[rows] += ~first_wins
    return rounds, decided


def _meetings(first: NDArray, last: NDArray) -> Iterator[tuple]:
    """Group the samples by the two classes that meet next."""
    n_classes = last.max(initial=0) + 1
    met, group = np.unique(first * n_classes + last, return_inverse=True)
    members = [np.flatnonzero(group == g) for g in range(len(met))]
    for code, rows in zip(met, members, strict=True):
        yield (int(code // n_classes), int(code % n_classes)), rows


def graph_scores(rounds: NDArray, decided: NDArray) -> NDArray:
    """Scores from what `walk_graph` found: the later a class is dropped the higher.

    A class dropped in round s = 0, 1, ... scores s and up to a half more for a narrow
    loss, the winner K - 1 and up to a half more for its narrowest win.
    """
    ones = np.ones_like(decided)
    known = np.isfinite(decided)
    clearness = 0.5 * np.divide(decided, 1 + decided, out=ones, where=known)
    last = rounds.shape[1] - 1
    return rounds + np.where(rounds == last, clearness, 0.5 - clearness)


def graph_margins(rounds: NDArray, decided: NDArray) -> NDArray:
    """Margins of all labels, from what `walk_graph` found.

    That of the answer is the smallest decision that kept it in, that of another minus
    the one that threw it out.
    """
    return np.where(rounds == rounds.shape[1] - 1, 1, -1) * decided


def vote_margins(duels: NDArray, scores: NDArray) -> NDArray:
    """Return by how much duels may change before another class wins.

    Of the answer this is the closest of its own duels, or what `rivals_need`; of
    another label minus the duel it lost to the winner, or where it beat the winner, the
    closest of those it lost to others. `scores` are those of `vote_scores`.
    """
    n_classes, winners = scores.shape[1], scores.argmax(axis=1)
    closest, lost, to_winner = np.full((3, len(duels), n_classes), np.inf)
    for column, pair in enumerate(class_pairs(n_classes)):
        for (i, j), duel in ((pair, duels[:, column]), (pair[::-1], -duels[:, column])):
            np.minimum(closest[:, i], np.abs(duel), out=closest[:, i])
            np.minimum(lost[:, i], -duel, out=lost[:, i], where=duel <= 0)
            np.copyto(to_winner[:, i], -duel, where=winners == j)
    margins = -np.where(to_winner >= 0, to_winner, lost)
    closest = np.minimum(closest, rivals_need(duels, scores, winners)[:, None])
    margins = np.where(winners[:, None] == np.arange(n_classes), closest, margins)
    return np.where(label_margins(scores) == 0, 0, margins)


def rivals_need(duels: NDArray, scores: NDArray, winners: NDArray) -> NDArray:
    """Return by how much duels must change to give another class the winner's votes.

    A class that has as many already needs one more, or to be as clear. A winner of all
    its duels loses one of them first; the others' are not looked at.

    >>> duels = np.array([[1.0, -2.0, 3.0]])
    >>> rivals_need(duels, vote_scores(duels, 3), np.array([1]))
    array([0.75])
    """
    n_classes, votes = scores.shape[1], np.rint(scores)
    found = np.full(len(duels), np.inf)
    some = np.flatnonzero(votes.max(axis=1) < n_classes - 1)
    duels, votes, answers = duels[some], votes[some], (range(len(some)), winners[some])
    i, j = np.triu_indices(n_classes, 1)
    behind = np.full((len(some), n_classes, n_classes), np.inf)
    behind[:, i, j], behind[:, j, i] = -duels, duels
    most = votes.max(axis=1, keepdims=True)
    equal = votes == most
    last = (most - 1 + equal).astype(int)[:, :, None]
    need = np.take_along_axis(np.sort(behind, axis=2), last, axis=2)[:, :, 0]
    behind[:, range(n_classes), range(n_classes)] = 0
    clear = -behind.sum(axis=2)
    lead = (clear[answers][:, None] - clear) / (2 * n_classes - 2)
    need = np.where(equal, np.minimum(lead, need), need)
    need[answers] = np.inf
    found[some] = need.min(axis=1, initial=np.inf)
    return found


def combine(duels: NDArray, n_classes: int, multiclass: str) -> NDArray:
    """Class scores from all duels: "ddag" or "ovo"; of two classes the duel itself."""
    if n_classes == 2:
        return from_decision(-duels[:, 0])
    if multiclass == "ovo":
        return vote_scores(duels, n_classes)
    return graph_scores(*_walk(duels, n_classes))


def winners(duels: NDArray, n_classes: int, multiclass: str) -> NDArray:
    """Codes of the classes whose scores of `combine` are largest.

    >>> winners(np.array([[-1.0, 1.0, 2.0]]), 3, "ovo")
    array([1])
    """
    if n_classes == 2 or multiclass != "ovo":
        return combine(duels, n_classes, multiclass).argmax(axis=1)
    sides = np.zeros((n_classes, duels.shape[1]), np.float32)
    first, second = np.triu_indices(n_classes, 1)
    sides[first, np.arange(len(first))] = 1
    sides[second, np.arange(len(first))] = -1
    # Counts are exact in any order, and how clearly is asked of equals alone.
    votes = sides @ (duels > 0).T.astype(np.float32) + np.arange(n_classes)[:, None]
    answers = votes.argmax(axis=0)
    equal = np.count_nonzero(votes == votes.max(axis=0), axis=0) > 1
    answers[equal] = vote_scores(duels[equal], n_classes).argmax(axis=1)
    return answers


def decided(duels: NDArray, n_classes: int, multiclass: str) -> tuple[NDArray, NDArray]:
    """Class scores as of `combine`, and the margins of all labels."""
    if n_classes == 2:
        margins = np.column_stack([duels[:, 0], -duels[:, 0]])
        return combine(duels, n_classes, multiclass), margins
    if multiclass == "ovo":
        scores = vote_scores(duels, n_classes)
        return scores, vote_margins(duels, scores)
    walk = _walk(duels, n_classes)
    return graph_scores(*walk), graph_margins(*walk)


def duel_margins(duels: NDArray, n_classes: int, multiclass: str) -> NDArray:
    """Margins of all labels in the unit of the duels: "ddag" or "ovo"; of two the duel.

    >>> duels = np.array([[-1.0, 1.0, 2.0]])
    >>> duel_margins(duels, 3, "ovo")
    array([[-1.,  1., -2.]])
    """
    return decided(duels, n_classes, multiclass)[1]


def duel_costs(duels: NDArray, answers: NDArray, n_classes: int) -> NDArray:
    """How clearly the answer beat each class, (n, n_classes); 0 where it did not.

    >>> duel_costs(np.array([[-1.0, 1.0, 2.0]]), np.array([1]), 3)
    array([[1., 0., 2.]])
    """
    columns, signs = np.zeros((2, n_classes, n_classes), int)
    i, j = np.triu_indices(n_classes, 1)
    columns[i, j] = columns[j, i] = np.arange(len(i))
    signs[i, j], signs[j, i] = 1, -1
    rows = np.arange(len(duels))
    costs = np.maximum(signs[answers] * duels[rows[:, None], columns[answers]], 0)
    costs[rows, answers] = 0
    return costs


def _walk(duels: NDArray, n_classes: int) -> tuple[NDArray, NDArray]:
    column = {pair: c for c, pair in enumerate(class_pairs(n_classes))}
    return walk_graph(
        lambda i, j, rows: duels[rows, column[i, j]], len(duels), n_classes
    )
