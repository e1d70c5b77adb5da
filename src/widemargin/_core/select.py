r"""What "auto" picks: the first candidate that is not clearly worse than the best.

Candidates come by size, the smallest first; or the usual one comes first, and in its
stead is the best of the others. With m_c
the mistakes of candidate c, one number per sample that its model has not seen, w the
weights of these samples, and b the candidate with the fewest mistakes,

.. math:: e_c = \frac{\sum_i w_i m_{ci}}{\sum_i w_i}, \qquad
   s_c^2 = \frac{\sum_i w_i^2 (m_{ci} - m_{bi})^2}{(\sum_i w_i)^2},

candidate c is clearly worse than b if

.. math:: e_c - e_b > z\, s_c + r\, e_b .

The first term is what chance does to a paired difference. It vanishes as samples grow;
the second does not: a larger model has to spare a share r of the mistakes, whatever the
number of samples. Equal samples are one, with the sum of their weights. Shapes: (n,).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Candidate = TypeVar("Candidate")


def select(
    candidates: Sequence[Candidate],
    mistakes: Callable[[Candidate], NDArray],
    weights: NDArray | float = 1.0,
    *,
    deviations: float = 1.0,
    share: float = 0.03,
    by_size: bool = True,
) -> Candidate:
    """Return the first candidate that is not clearly worse than the best.

    Parameters
    ----------
    candidates : sequence
        The smallest first, or the usual one.
    mistakes : callable
        Mistakes of a candidate, (n_samples,): 1 where a left-out sample is answered
        wrongly, else 0. Other costs do as well.
    weights : ndarray of shape (n_samples,), default=1
        Weights of the left-out samples.
    deviations, share : float
        z and r of the module's docstring.
    by_size : bool, default=True
        Whether the order of candidates is one of sizes. If not, only the first is
        preferred to the best.

    >>> wrong = {1: np.array([1, 1, 1, 0]), 5: np.array([0, 0, 0, 0])}
    >>> select([1, 5], wrong.__getitem__)
    5
    >>> select([1, 5], wrong.__getitem__, deviations=2)
    1
    """
    if len(candidates) == 1:
        return candidates[0]
    found = np.stack([mistakes(candidate) for candidate in candidates]).astype(float)
    weights = np.broadcast_to(weights, found.shape[1:])
    worse = clearly_worse(found, weights, deviations=deviations, share=share)
    if by_size or not worse[0]:
        return candidates[int(np.argmin(worse))]
    return candidates[int((found @ weights).argmin())]


def smallest(
    candidates: Sequence[Candidate],
    mistakes: Callable[[Candidate], NDArray],
    weights: NDArray | float = 1.0,
) -> Candidate:
    """Return what `select` does of sizes whose mistakes fall as they grow.

    The ends are asked first, then by halves: none between two neighbours of which one
    is clearly worse and the other is not, and none larger than what will do. Mistakes
    of few samples that rise in between may be missed.

    >>> asked, wrong = [], {1: 40, 2: 30, 5: 20, 20: 20}
    >>> def mistakes(size):
    ...     asked.append(size)
    ...     return np.arange(100) < wrong[size]
    >>> smallest([1, 2, 5, 20], mistakes), asked
    (5, [1, 20, 5, 2])
    """
    found = {0: np.asarray(mistakes(candidates[0]), float)}
    # Where one without a mistake would be no better, none is asked.
    if not clearly_worse(np.stack([found[0], np.zeros_like(found[0])]), weights)[0]:
        return candidates[0]
    last = len(candidates) - 1
    if last:
        found[last] = np.asarray(mistakes(candidates[last]), float)
    while True:
        asked = sorted(found)
        worse = clearly_worse(np.stack([found[at] for at in asked]), weights)
        k = int(np.argmin(worse))
        below = asked[k - 1] if k else asked[k] - 1
        at = (below + asked[k] + 1) // 2
        if at == asked[k]:
            return candidates[at]
        found[at] = np.asarray(mistakes(candidates[at]), float)


def clearly_worse(
    mistakes: NDArray,
    weights: NDArray | float = 1.0,
    *,
    deviations: float = 1.0,
    share: float = 0.03,
) -> NDArray:
    """Return which rows of (n_candidates, n_samples) are clearly worse than the best.

    >>> clearly_worse(np.array([[1.0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0]]))
    array([ True, False, False])
    """
    weights = np.broadcast_to(weights, mistakes.shape[1:])
    totals = mistakes @ weights
    best = int(totals.argmin())
    chance = np.sqrt(((mistakes - mistakes[best]) ** 2) @ weights**2)
    return totals - totals[best] > deviations * chance + share * totals[best]
