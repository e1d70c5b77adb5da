r"""Rejection with every sample left out once: all of them learn, and all of them judge.

Fold k of K is left out of model k, which answers its m_k samples. Let V_i be the
confidence of model k in its answer to sample i of fold k where that is wrong, and minus
infinity where it is right. A new sample x, with its true label, has such a V under
every model, and given model k it is exchangeable with the samples of fold k, so that

.. math:: p_k = \frac{1 + \#\{i \in k : V_i \ge V^{(k)}(x)\}}{m_k + 1}

is a p-value, however the V are distributed. The label is not known. But where the
answer a(x) that is given is wrong, :math:`V^{(k)}(x)` is the confidence of model k if
it answers a(x) too, and at least minus infinity if not. With

.. math:: S(x) = \sum_k \begin{cases} \#\{i \in k : V_i \ge c_k(x)\} & f_k(x) = a(x) \\
          m_k & \text{otherwise} \end{cases}

x is answered where :math:`(1 + S(x)) / (n + 1) \le \alpha`. A wrong answer then has a
weighted mean of p-values of at most what :mod:`widemargin.margins.conformal` bounds,
and

.. math:: P(x \text{ is answered, and wrongly}) \le
          2\, \frac{\alpha (n + 1) + K - 1}{n + K},

and :math:`2 \alpha` where one sample is left out at a time and the learner does not
mind the order of its samples, which are shuffled for that. The model that answers may
be any, for instance that of all samples.

References: R. Barber, E. Candès, A. Ramdas, R. Tibshirani, Predictive inference with
the jackknife+, 2021; V. Vovk, R. Wang, Combining p-values via averaging, 2020. Shapes:
answers and S (n_samples,).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.margins.conformal import count_as_strange, rounding_of

# What a fitted model says of samples: its answers and their confidence.
Says = Callable[[Any, Any], tuple[NDArray, NDArray]]


class Fold(NamedTuple):
    """A model, and the sorted confidences of its mistakes on samples left out."""

    model: Any
    n_samples: int
    mistakes: NDArray
    width: float


def fold_of(model: Any, wrong: NDArray, sure: NDArray) -> Fold:
    """Keep how sure a model was of its mistakes."""
    sure = np.asarray(sure, np.float64)
    return Fold(model, len(wrong), np.sort(sure[wrong]), rounding_of(sure))


def alpha_for(max_error: float, n_samples: int, n_folds: int) -> float:
    """Return the alpha whose level is `max_error`; none is reached below 1 / (n + 1).

    >>> alpha_for(0.1, 199, 199)
    0.05
    >>> alpha_for(0.1, 199, 2) < 0.05
    True
    """
    if n_folds == n_samples:
        return max_error / 2
    level = max_error * (n_samples + n_folds) / 2
    return (level - n_folds + 1) / (n_samples + 1)


def least_error(n_samples: int, n_folds: int) -> float:
    """Return the smallest error that so many samples in so many folds can guarantee.

    >>> least_error(199, 199), least_error(198, 2)
    (0.01, 0.02)
    """
    if n_folds == n_samples:
        return 2 / (n_samples + 1)
    return 2 * n_folds / (n_samples + n_folds)


def folds_at_random(n_samples: int, n_folds: int, rng: Any) -> list[NDArray]:
    """Rows of each fold, as equal as they can be, labels unseen."""
    return np.array_split(rng.permutation(n_samples), n_folds)


def mistakes_as_sure(
    folds: list[Fold], X: Any, answers: NDArray, says: Says
) -> NDArray:
    """Count the left-out mistakes that were at least as sure as each answer: S."""
    total = np.zeros(len(answers))
    for model, n_samples, mistakes, width in folds:
        labels, sure = says(model, X)
        surer = count_as_strange(mistakes, np.asarray(sure, np.float64), width)
        total += np.where(labels == answers, surer, n_samples)
    return total
