"""Many classes from two-class hyperplanes: one-vs-rest, one-vs-one, DDAG.

A problem is a pair (positive, negative) of class numbers, negative being -1 for the
rest. One-vs-one and DDAG share their k (k - 1) / 2 problems (i, j), i < j, positive on
the side of j; they differ in how they decide. One-vs-one counts votes and breaks ties
by distance. A decision DAG starts with all classes and lets the first and the last in
line meet until one is left: k - 1 distances per sample instead of all.

Reference: Platt, Cristianini and Shawe-Taylor, Large margin DAGs for multiclass
classification, NIPS 1999. Shapes: distances (n, n_problems); scores (n, n_classes).
"""

from itertools import combinations

import numpy as np

SCHEMES = ("ovr", "ovo", "ddag")


def two_class_problems(n_classes: int, scheme: str) -> list[tuple[int, int]]:
    """List the (positive, negative) pairs that a scheme trains.

    >>> two_class_problems(3, "ovr")
    [(0, -1), (1, -1), (2, -1)]
    >>> two_class_problems(3, "ddag")
    [(1, 0), (2, 0), (2, 1)]
    """
    if n_classes == 2:
        return [(1, 0)]
    if scheme == "ovr":
        return [(positive, -1) for positive in range(n_classes)]
    return [(j, i) for i, j in combinations(range(n_classes), 2)]


def vote_scores(distances: np.ndarray, n_classes: int) -> np.ndarray:
    """Votes of the pairs, plus less than half a vote for how far they were won by.

    >>> vote_scores(np.array([[1.0, -1.0, -2.0]]), 3).round(2)
    array([[ 1.  ,  2.25, -0.25]])
    """
    votes = np.zeros((distances.shape[0], n_classes))
    pull = np.zeros_like(votes)
    for p, (j, i) in enumerate(two_class_problems(n_classes, "ovo")):
        won = distances[:, p] > 0
        votes[:, j] += won
        votes[:, i] += ~won
        pull[:, j] += distances[:, p]
        pull[:, i] -= distances[:, p]
    return votes + pull / (3.0 * (np.abs(pull) + 1.0))


def dag_path(distances: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Round in which each class is eliminated, and the distance that decided it.

    The winner has round n_classes - 1 and the smallest distance met on its way.
    """
    n = distances.shape[0]
    index = {pair: p for p, pair in enumerate(two_class_problems(n_classes, "ovo"))}
    table = np.zeros((n_classes, n_classes), dtype=np.intp)
    for (j, i), p in index.items():
        table[i, j] = p
    first = np.zeros(n, dtype=np.intp)
    last = np.full(n, n_classes - 1)
    rows = np.arange(n)
    out = np.empty((n, n_classes), dtype=np.intp)
    by = np.empty((n, n_classes))
    closest = np.full((n, n_classes), np.inf)
    for step in range(n_classes - 1):
        met = distances[rows, table[first, last]]
        loser = np.where(met > 0, first, last)
        winner = np.where(met > 0, last, first)
        out[rows, loser] = step
        by[rows, loser] = np.abs(met)
        closest[rows, winner] = np.minimum(closest[rows, winner], np.abs(met))
        first, last = first + (met > 0), last - (met <= 0)
    out[rows, first] = n_classes - 1
    by[rows, first] = closest[rows, first]
    return out, by


def dag_scores(distances: np.ndarray, n_classes: int) -> np.ndarray:
    """One score per class whose order is the order of elimination.

    Within a round, a class that lost narrowly scores more than one that lost clearly.

    >>> dag_scores(np.array([[1.0, -1.0, -2.0]]), 3).round(2)
    array([[1.5, 2.5, 0.5]])
    """
    out, by = dag_path(distances, n_classes)
    rank = by / (1.0 + by)
    return out + np.where(out == n_classes - 1, rank, 1.0 - rank)


def dag_margins(distances: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Distance that kept the right class in, or minus the one that threw it out."""
    out, by = dag_path(distances, n_classes)
    rows = np.arange(len(codes))
    right = out[rows, codes] == n_classes - 1
    return np.where(right, by[rows, codes], -by[rows, codes])


def score_margins(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Score of the right class minus the best of the others.

    >>> score_margins(np.array([[2.0, -1.0, 0.5]]), np.array([2]))
    array([-1.5])
    """
    rows = np.arange(len(codes))
    others = np.array(scores, dtype=np.float64)
    right = others[rows, codes].copy()
    others[rows, codes] = -np.inf
    return right - others.max(axis=1)
