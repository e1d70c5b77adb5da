r"""From duels between classes to one answer: voting, or a directed acyclic graph.

`decisions` is (n_samples, K(K-1)/2), one column per pair (i, j), i < j, in the order
(0, 1), (0, 2), ..., (K-2, K-1); positive means i.

* Voting: the class that wins most duels; sums of decisions order equals.
* DDAG: keep a list of classes, let the first meet the last, drop the loser: K - 1
  duels per sample. Wherever some class wins all its duels, both agree.

Reference: J. Platt, N. Cristianini, J. Shawe-Taylor, Large margin DAGs for multiclass
classification, NIPS 2000.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Pairs (i, j), i < j, in the order of the columns of `decisions`."""
    return list(combinations(range(n_classes), 2))


def vote_scores(decisions: NDArray, n_classes: int) -> NDArray:
    """Duels won, plus less than half a duel for how clearly they were won."""
    votes = np.zeros((len(decisions), n_classes))
    confidence = np.zeros_like(votes)
    for column, (i, j) in enumerate(class_pairs(n_classes)):
        first_wins = decisions[:, column] > 0
        votes[:, i] += first_wins
        votes[:, j] += ~first_wins
        confidence[:, i] += decisions[:, column]
        confidence[:, j] -= decisions[:, column]
    return votes + confidence / (3 * (np.abs(confidence) + 1))


def graph_scores(
    duel: Callable[[int, int, NDArray], NDArray], n_samples: int, n_classes: int
) -> NDArray:
    """Walk the graph; the later a class is dropped the higher its score.

    ``duel(i, j, rows)`` returns the decisions of some samples, positive for i. A class
    dropped in duel s = 0, 1, ... scores s and up to a half more for a narrow loss, the
    winner K - 1 and up to a half more for its narrowest win.
    """
    scores = np.zeros((n_samples, n_classes))
    first = np.zeros(n_samples, int)
    last = np.full(n_samples, n_classes - 1)
    narrowest = np.full(n_samples, 0.5)
    for step in range(n_classes - 1):
        for (i, j), rows in _meetings(first, last):
            decision = np.asarray(duel(i, j, rows), dtype=float)
            clearness = 0.5 * np.abs(decision) / (1 + np.abs(decision))
            first_wins = decision > 0
            losers = np.where(first_wins, j, i)
            scores[rows, losers] = step + 0.5 - clearness
            narrowest[rows] = np.minimum(narrowest[rows], clearness)
            last[rows] -= first_wins
            first[rows] += ~first_wins
    scores[np.arange(n_samples), first] = n_classes - 1 + narrowest
    return scores


def _meetings(first: NDArray, last: NDArray) -> Iterator[tuple]:
    """Group the samples by the two classes that meet next."""
    n_classes = last.max(initial=0) + 1
    met, group = np.unique(first * n_classes + last, return_inverse=True)
    members = [np.flatnonzero(group == g) for g in range(len(met))]
    for code, rows in zip(met, members, strict=True):
        yield (int(code // n_classes), int(code % n_classes)), rows


def combine(decisions: NDArray, n_classes: int, multiclass: str) -> NDArray:
    """Class scores from all duels: "ddag" or "ovo"."""
    if multiclass == "ovo":
        return vote_scores(decisions, n_classes)
    column = {pair: c for c, pair in enumerate(class_pairs(n_classes))}
    return graph_scores(
        lambda i, j, rows: decisions[rows, column[i, j]], len(decisions), n_classes
    )
