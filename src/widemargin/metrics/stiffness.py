r"""How stiff tangents are: not there, stiff or free, as left-out samples ask for.

A move that makes the samples of one class alike may do so with two classes. Metrics are
asked in the order of their freedom, first without tangents, last with both ends free.
With :math:`\mu_{ci}` the margin of left-out sample i under metric c and
:math:`w_i` its weight, the metric costs

.. math:: \ell_{ci} = \log(1 + e^{-\mu_{ci} / T_c}),

with the temperature :math:`T_c` that makes :math:`\sum_i w_i \ell_{ci} +
\log(1 + e^{1 / (2 T_c)})` smallest; the last term is one more sample, answered wrongly,
without which few samples would be infinitely sure. Margins tell of few samples what
counts of mistakes cannot. The first metric that is not clearly worse than the best is
taken, see `widemargin._core.select`; of its directions, one after the other, those go
without which it is clearly better.

Neighbours and densities ask the nearest of the other samples, models of classes and
support vector machines themselves without a part of the samples. How clear is clear was
decided on parts of training sets (benchmarks/tangents_hurt.md). Shapes: margins (n,).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from widemargin._core.select import select
from widemargin.metrics.tangent import TangentMetric
from widemargin.tangents.generator import less_one

# Springs between no tangents and free ones.
STIFF = (1.0, 0.3, 0.1, 0.03)
# By how many deviations of chance a freer metric, or fewer directions, must be better,
# and by what share of the losses.
FREER, FEWER, SHARE = 0.5, 2.0, 0.01
# How many samples say so: 300 digits take 25 ms a metric.
TRIED_ON = 300
# Where temperatures are looked for, in the units of margins.
TEMPERATURES = np.geomspace(0.01, 30, 20)[:, None]

Margins = Callable[[TangentMetric], NDArray]


def ladder(metric: TangentMetric, choose: bool = True) -> list[TangentMetric]:
    """Return metrics by their freedom: without tangents, stiffer ones, itself.

    Without `choose` its spring is given, and there are no stiffer ones.
    """
    springs = STIFF if choose else ()
    stiffer = [replace(metric, spring=k) for k in springs]
    return [replace(metric, tangents=None, sides="both"), *stiffer, metric]


def sides_told(metric: TangentMetric, given: TangentMetric) -> str:
    """Return which end moves, or "none" where tangents were given in vain."""
    harm = given.has_tangents and not metric.has_tangents
    return "none" if harm else metric.sides


def as_stiff_as_asked(
    candidates: Sequence[TangentMetric], margins: Margins, weights: NDArray
) -> TangentMetric:
    """Return the least free metric that serves, less the directions that harm.

    Parameters
    ----------
    candidates : sequence of TangentMetric
        In the order of their freedom, all with the same tangents or with none.
    margins : callable
        Margins (n,) of left-out samples under a metric.
    weights : ndarray of shape (n,)
        Weights of these samples.

    Returns
    -------
    TangentMetric
    """
    weights = weights / weights.mean()

    def losses(metric: TangentMetric) -> NDArray:
        return logistic_losses(margins(metric), weights)

    metric = select(candidates, losses, weights, deviations=FREER, share=SHARE)
    while metric.has_tangents:
        fewer = [replace(metric, tangents=rest) for rest in less_one(metric.tangents)]
        best = select(
            [metric, *fewer], losses, weights,
            deviations=FEWER, share=SHARE, by_size=False,
        )  # fmt: skip
        if best is metric:
            break
        metric = best
    return metric


def logistic_losses(margins: NDArray, weights: NDArray) -> NDArray:
    """Losses (n,) of margins at the temperature that is best for them all.

    >>> logistic_losses(np.array([0.5, 0.5, 0.5, -0.5]), np.ones(4)).round(2)
    array([0.48, 0.48, 0.48, 0.96])
    """
    every = np.logaddexp(0, -margins / TEMPERATURES)
    totals = every @ weights + np.logaddexp(0, 0.5 / TEMPERATURES[:, 0])
    return every[totals.argmin()]
