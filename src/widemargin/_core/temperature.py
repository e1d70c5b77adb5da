r"""From costs of classes to probabilities: one temperature, where asked a lead.

Every class has a cost D_c, least for the answer and larger the less it is likely. With
the temperature T and the lead b of the answer a, the probability of a class is

.. math:: P_c = \frac{e^{-D_c / T - b [c \ne a]}}{\sum_k e^{-D_k / T - b [k \ne a]}}.

The inverse temperature s = 1 / T and b minimise the cross-entropy on samples that the
model has not seen, `LeftOut`,

.. math:: \sum_i w_i \bigl(\log \sum_c e^{-s D_{ic} - b [c \ne a_i]}
          + \sum_c t_{ic} (s D_{ic} + b [c \ne a_i])\bigr) + b^2 / 2,

which is convex in both. The targets t are Platt's, (n + 1) / (n + 2) for the right
class of n samples (the sum of their weights) and the rest for the others, so that s
stays finite, and leads are normally distributed before anything is seen. Where the
derivative by b is zero, the mean probability of the answer is the share of right
answers, up to these.

Above zero the lead is a step at the border, for more than two classes: of costs whose
tails are heavy, as those of votes and of all pairs, a temperature alone would be too
warm. Below zero it says that borders are biased: rivals that are nearer than -b T are
as likely as the answer, which is never less likely than another. That may leave answers
surer than they are right, by more than a standard error; T and b are then those of
least cross-entropy among the pairs with which they are not.

Platt, "Probabilistic outputs for support vector machines", 1999; Guo et al., "On
calibration of modern neural networks", ICML 2017. Shapes: costs (n_samples, n_classes).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin._compute.rounding import above

# Samples, at most, that a temperature is fitted to.
FITTED = 2000
# Costs in units of the mean gap, inverse temperatures in its inverse, and leads.
# Temperatures and probabilities are not below LEAST.
LEAST = 1e-300
MOST, SHARPNESS, LEADS = 1e200, (0.1, 1e6), (-5.0, 30.0)
# Leads that are tried where answers would be too sure, and logarithms of temperatures
# beside the one that was found.
N_LEADS, WIDER, LOGARITHMS = 6, np.array([-5.0, 5.0]), (-700.0, 700.0)
# Weights beyond this are certain enough.
HEAVY = 1e10


class LeftOut(NamedTuple):
    """What a model says of labelled samples that it did not see.

    `costs` (n, n_classes) of the classes and `answers`, both as the model would have
    them without the sample, its class and its weight.
    """

    costs: NDArray
    answers: NDArray
    codes: NDArray
    weights: NDArray

    def followed_by(self, later: "LeftOut") -> "LeftOut":
        """Return the latest FITTED of these and of later ones."""
        return LeftOut(*(part[-FITTED:] for part in joined([self, later])))


def joined(parts: "list[LeftOut]") -> LeftOut:
    """Return several as one."""
    return LeftOut(*(np.concatenate(pair) for pair in zip(*parts, strict=True)))


def fit_temperature(seen: LeftOut) -> tuple[float, float]:
    """Return temperature and lead of least cross-entropy.

    Samples whose class is out of the question, at an infinite cost, say nothing.
    """
    if seen.costs.shape[1] < 2:
        # One class has all the probability.
        return 1.0, 0.0
    known = np.isfinite(seen.costs[np.arange(len(seen.costs)), seen.codes])
    seen = LeftOut(*(part[known] for part in seen))
    costs, answers, codes, weights = seen
    # Class by class: sums over few classes are slow along rows.
    costs = np.ascontiguousarray(costs.T, dtype=float)
    n, at = len(codes), np.arange(len(codes))
    weights = weights / max(1.0, float(weights.max(initial=0.0)) / HEAVY)
    D = costs - costs.min(axis=0) if n else costs
    there = np.isfinite(D)
    D = np.where(there, D, 4 * D.max(initial=0.0, where=there))
    others = np.sort(D, axis=0)[1] if n else D[:1]
    mean = float((weights / weights.sum()) @ others) if n else 0.0
    if not mean > 0:
        return 1.0, 0.0
    # A power of two: temperatures have the unit of the costs, bit by bit.
    unit = float(2.0 ** np.round(np.log2(mean)))
    D = np.minimum(D, min(MOST, 1e300 / unit) * unit) / unit
    behind = np.ones_like(D)
    behind[answers, at] = 0.0
    total = weights.sum()
    # What any cost counts, and how much more that of the right class.
    rest = 1 / (total + 2) / (len(D) - 1)
    right = (total + 1) / (total + 2) - rest
    shares = weights / total
    goal = np.array(
        [
            shares @ (right * costs[codes, at] + rest * costs.sum(axis=0))
            for costs in (D, behind)
        ]
    )

    def loss(parameters: NDArray) -> tuple[float, NDArray]:
        """Mean cross-entropy and its derivatives by log s and b."""
        s, b = np.exp(parameters[0]), parameters[1]
        Z = -s * D - b * behind
        top = Z.max(axis=0)
        P = np.exp(Z - top)
        sums = P.sum(axis=0)
        means = (P * D).sum(axis=0) / sums, 1 - P[answers, at] / sums
        slopes = goal - np.array([shares @ mean for mean in means])
        value = shares @ (np.log(sums) + top) + s * goal[0] + b * goal[1]
        # As if a normal distribution of leads were known: a few samples prove none.
        value, slopes[1] = value + b * b / (2 * total), slopes[1] + b / total
        return float(value), slopes * np.array([s, 1.0])

    from scipy.optimize import minimize

    bounds = [np.log(SHARPNESS), (LEADS[0], LEADS[1] if len(D) > 2 else 0.0)]
    options = {"ftol": 1e-12, "gtol": 1e-7}
    found = minimize(
        loss, np.zeros(2), jac=True, bounds=bounds, method="L-BFGS-B", options=options
    ).x
    T = float(max(unit / np.exp(found[0]), LEAST))
    return _no_surer_than_right(seen._replace(weights=weights), T, float(found[1]))


def _no_surer_than_right(seen: LeftOut, T: float, lead: float) -> tuple[float, float]:
    """Return temperature and lead with which answers are not surer than they are right.

    They are those given, unless answers would be surer by more than a standard error.
    """
    if lead >= 0:
        return T, lead
    costs, answers, codes, weights = seen
    shares, rows = weights / weights.sum(), np.arange(len(codes))
    right = min(1.0, float(shares @ (answers == codes)))
    most = right + float(np.sqrt(right * (1 - right) * (shares @ shares)))

    def chances(T: float, lead: float) -> NDArray:
        return softmax_of_costs(costs, T, answers, lead)

    def excess(log_T: float, lead: float) -> float:
        P = chances(float(np.exp(log_T)), lead)
        return float(shares @ P[rows, answers]) - most

    if excess(float(np.log(T)), lead) <= 0:
        return T, lead

    from scipy.optimize import brentq

    best = np.inf, T, lead
    for b in np.linspace(LEADS[0], 0.0, N_LEADS):
        low, high = np.clip(np.log(T) + WIDER, *LOGARITHMS)
        if excess(low, b) > 0 > excess(high, b):
            warm = float(np.exp(brentq(excess, low, high, (b,), xtol=1e-3)))
        else:
            warm = float(np.exp(high if excess(high, b) > 0 else low))
        P = np.maximum(chances(warm, b).astype(np.float64), LEAST)
        cost = -float(shares @ np.log(P[rows, codes]))
        best = min(best, (cost, warm, float(b)))
    return best[1:]


def softmax_of_costs(
    costs: NDArray, temperature: float, answers: NDArray, lead: float = 0.0
) -> NDArray:
    """Return the probabilities of the classes; those of the `answers` are largest."""
    behind = (costs.min(axis=1, keepdims=True) - costs).astype(np.float64)
    # Beyond 800 temperatures a share is 0.
    Z = np.maximum(behind, -800.0 * temperature) / temperature
    if lead:
        Z = np.minimum(Z - lead, 0.0)
        Z[np.arange(len(Z)), answers] = 0.0
    shares = np.exp(Z)
    shares = (shares / shares.sum(axis=1, keepdims=True)).astype(costs.dtype)
    return with_answers(shares, answers)


def with_answers(P: NDArray, answers: NDArray) -> NDArray:
    """Let the first largest of each row be that of the answer, by the least there is.

    >>> P = with_answers(np.array([[0.5, 0.5]]), np.array([1]))
    >>> int(P.argmax()), bool(np.allclose(P, 0.5, rtol=1e-15))
    (1, True)
    """
    behind = np.flatnonzero(P.argmax(axis=1) != answers)
    if len(behind):
        P = P.copy()
        P[behind, answers[behind]] = above(P[behind].max(axis=1))
    return P
