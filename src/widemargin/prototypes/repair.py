"""Dead prototypes, and the samples that their class covers worst.

A prototype is dead when it is nearest to no sample of its class: nothing moves it and
it answers for nothing. It is put on the sample of its class that is farthest from all
living prototypes of the class; several dead ones go to several samples, each chosen
with the earlier ones in place.
"""

import numpy as np

from widemargin._compute.nearest import squared_distances


def worst_covered(X: np.ndarray, alive: np.ndarray, count: int) -> list[int]:
    """Rows of `X`, at most `count`, that are worst covered by the prototypes `alive`.

    Fewer where every sample already lies on a prototype.
    """
    D = squared_distances(X, alive)
    # The distances come from an expanded square: below this they are rounding.
    zero = 1e3 * np.finfo(X.dtype).eps * max(float(D.max()), np.finfo(X.dtype).tiny)
    nearest = D.min(axis=1)
    rows: list[int] = []
    while len(rows) < count:
        worst = int(nearest.argmax())
        if nearest[worst] <= zero:
            break
        rows.append(worst)
        nearest = np.minimum(nearest, squared_distances(X, X[worst : worst + 1])[:, 0])
    return rows


def without_dead(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Revive the dead among the prototypes `P` of the class of `X`, or drop them."""
    wins = np.bincount(squared_distances(X, P).argmin(axis=1), minlength=len(P))
    alive = P[wins > 0]
    return np.concatenate([alive, X[worst_covered(X, alive, int(np.sum(wins == 0)))]])


def revivals(
    X: np.ndarray,
    codes: np.ndarray,
    P: np.ndarray,
    labels: np.ndarray,
    wins: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return which prototypes to put on which samples, given their `wins`."""
    prototypes: list[int] = []
    samples: list[int] = []
    for c in np.unique(labels[wins == 0]):
        dead = np.flatnonzero((labels == c) & (wins == 0))
        alive = P[(labels == c) & (wins > 0)]
        rows = np.flatnonzero(codes == c)
        if len(alive) and len(rows):
            worst = worst_covered(X[rows], alive, len(dead))
            prototypes.extend(dead[: len(worst)])
            samples.extend(rows[worst])
    return np.array(prototypes, dtype=np.intp), np.array(samples, dtype=np.intp)
