"""From margins to probabilities: a softmax over the classes with one temperature.

Every class has a cost D_c, least for the answer and larger the less it is likely. With
the temperature T its probability is

    P_c = exp(-D_c / T) / sum_b exp(-D_b / T).

The inverse temperature s = 1 / T minimises the cross-entropy on labelled samples,

    sum_i w_i (log sum_c exp(-s D_ic) + s sum_c t_ic D_ic),

which is convex in s: at the minimum the expected cost under P is that of the targets t.
These are Platt's, ``(n + 1) / (n + 2)`` for the right class of n samples (the sum of
their weights) and the rest for the others, so that s stays finite. All of it are sums
over samples, kept at fixed s as the *heat* of a model: of samples that come in batches
the latest count.

Platt, "Probabilistic outputs for support vector machines", 1999; Guo et al., "On
calibration of modern neural networks", ICML 2017. Shapes: costs (n_samples, n_classes).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from widemargin._core.classifier import MarginClassifier

# Samples, at most, that a temperature is fitted to.
FITTED = 2000
# Inverse temperatures at which the expected cost is kept, in units of the mean gap.
INVERSE = np.logspace(-1, 5, 49)
FAR = 40.0
# Weights beyond this are certain enough.
HEAVY = 1e10


def heat_of(
    costs: NDArray, codes: NDArray, weights: NDArray, unit: float | None = None
) -> NDArray:
    """Return what the temperature depends on: sums over samples, after their unit.

    Samples of a class that is out of the question, at an infinite cost, say nothing.
    """
    known = np.isfinite(costs[np.arange(len(costs)), codes])
    costs, codes, weights = costs[known], codes[known], weights[known]
    weights = weights / max(1.0, float(weights.max(initial=0.0)) / HEAVY)
    D = costs - costs.min(axis=1, keepdims=True)
    there = np.isfinite(D)
    D = np.where(there, D, 4 * D.max(initial=0.0, where=there))
    gaps = np.partition(D, 1, axis=1)[:, 1]
    if unit is None:
        mean = float(weights @ gaps / weights.sum()) if len(gaps) else 0.0
        unit = float(2.0 ** np.round(np.log2(mean))) if mean > 0 else 1.0
    order = np.argsort(gaps)
    D, gaps, codes, weights = D[order] / unit, gaps[order], codes[order], weights[order]
    own = D[np.arange(len(D)), codes]
    others = (D.sum(axis=1) - own) / (D.shape[1] - 1)
    expected = np.zeros(len(INVERSE))
    for k, s in enumerate(INVERSE):
        # Farther classes than this have no share left, of this sample or a colder one.
        near = slice(np.searchsorted(gaps, FAR / s * unit))
        if near.stop == 0:
            break
        shares = np.exp(-s * D[near])
        means = np.einsum("ic,ic->i", shares, D[near]) / shares.sum(axis=1)
        expected[k] = weights[near] @ means
    sums = weights.sum(), weights @ own, weights @ others
    return np.array([unit, *sums, *expected])


def temperature_of(heat: NDArray) -> float:
    """Return the temperature of least cross-entropy."""
    unit, n, own, others = heat[:4]
    wanted, expected = ((n + 1) * own + others) / (n + 2), heat[4:]
    at = int(np.argmax(expected <= wanted)) if expected[-1] <= wanted else -1
    if at <= 0:
        s = INVERSE[at]
    else:
        # Costs fall exponentially with s.
        (warm, cold), tiny = expected[at - 1 : at + 1], np.finfo(float).tiny
        step = np.log(warm / wanted) / np.log(warm / max(cold, tiny))
        s = INVERSE[at - 1] + step * (INVERSE[at] - INVERSE[at - 1])
    return float(max(unit / s, np.finfo(float).tiny))


def softmax_of_costs(costs: NDArray, temperature: float, answers: NDArray) -> NDArray:
    """Return the probabilities of the classes; those of the `answers` are largest."""
    with np.errstate(over="ignore"):
        shares = np.exp((costs.min(axis=1, keepdims=True) - costs) / temperature)
    return with_answers(shares / shares.sum(axis=1, keepdims=True), answers)


def with_answers(P: NDArray, answers: NDArray) -> NDArray:
    """Let the first largest probability be that of the answer, by the least there is.

    >>> P = with_answers(np.array([[0.5, 0.5]]), np.array([1]))
    >>> int(P.argmax()), bool(np.allclose(P, 0.5, rtol=1e-15))
    (1, True)
    """
    behind = np.flatnonzero(P.argmax(axis=1) != answers)
    if len(behind):
        P = P.copy()
        P[behind, answers[behind]] = np.nextafter(
            P[behind].max(axis=1), P.dtype.type(2)
        )
    return P


class SoftClassifier(MarginClassifier):
    """Base of the classifiers whose margins become probabilities by a temperature.

    The answer costs nothing, another label minus its margin, or what `_costs` says; a
    subclass has the temperature learned in ``fit``.
    """

    temperature_: float
    _heat: NDArray

    def _costs(self, X: Any) -> tuple[NDArray, NDArray]:
        """(n, n_classes) costs of checked samples, and the codes of the answers."""
        scores, margins = self._scored(X)
        answers, costs = scores.argmax(axis=1), np.maximum(-margins, 0)
        costs[np.arange(len(costs)), answers] = 0
        return costs, answers

    def _probabilities(self, X: Any) -> NDArray:
        costs, answers = self._costs(X)
        return softmax_of_costs(costs, self.temperature_, answers)

    def _heat_up(self, costs: NDArray, codes: NDArray, weights: NDArray) -> None:
        """Fit the temperature to samples whose costs the model had no part in."""
        self._heat = heat_of(costs, codes, weights)
        self.temperature_ = temperature_of(self._heat)

    def _heat_further(self, costs: NDArray, codes: NDArray, weights: NDArray) -> None:
        """Fit it to more samples, of which the last FITTED count."""
        known = 0.0 if len(costs) >= FITTED else 1 - len(costs) / FITTED
        more = heat_of(costs, codes, weights, self._heat[0])
        self._heat = np.append(more[:1], known * self._heat[1:] + more[1:])
        self.temperature_ = temperature_of(self._heat)

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Softmax over the classes of ``-cost / temperature_``: the largest is the
            class predicted.
        """
        return self._probabilities(self._check_predict(X))
