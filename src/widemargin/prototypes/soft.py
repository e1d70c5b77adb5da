"""Soft assignments: probabilities from squared distances, and losses made of them.

With a temperature T, a prototype j has the share ``exp(-D_j / T)`` of a sample. Two
losses follow, both minus the logarithm of the probability of the right class:

* "rslvq", robust soft LVQ, gives a class the shares of all its prototypes,

      L = -log (sum_{j of y} exp(-D_j / T) / sum_j exp(-D_j / T));

* "cross_entropy" gives it that of its nearest one: a softmax over the classes,

      L = -log (exp(-D_y / T) / sum_c exp(-D_c / T)),   D_c = min_{j of c} D_j.

With P the probabilities of the prototypes (of the nearest ones), and R those within the
right class, ``dL/dD_j = (R_j - P_j) / T``. L depends on D / T only, so that
``dL / d log T = -sum_j D_j dL/dD_j``.

What a model answers to ``predict_proba`` is a softmax over the classes, whatever it was
trained with, of the relative distances ``D_c / (D_first + D_second)``, the denominator
being the sum of the two smallest: between two classes their difference is the margin,
and probabilities rise with margins. Its inverse temperature s minimises the
cross-entropy on the samples that `fit` saw, or held out,

    sum_i w_i (log sum_c exp(-s D_ic) + s sum_c t_ic D_ic),

which is convex in s. The targets t are those of Platt: ``(n + 1) / (n + 2)`` for the
right class of n samples and the rest for the others, so that s stays finite.

Seo and Obermayer, "Soft learning vector quantization", Neural Computation 2003;
Villmann et al., "Probabilistic learning vector quantization with cross-entropy for
probabilistic class assignments", ICAISC 2018; Platt, "Probabilistic outputs for SVMs",
1999.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

SOFT = ("rslvq", "cross_entropy")
# Samples, at most, that a temperature is fitted to.
FITTED = 2000


class SoftLoss(NamedTuple):
    """One of SOFT at a temperature."""

    kind: str
    temperature: float


class SoftPairs(NamedTuple):
    """The loss of a batch, and C, dense: dL/dD of every sample and prototype."""

    loss: float
    values: np.ndarray
    winners: np.ndarray
    column_sums: np.ndarray
    # Derivative of the loss by the logarithm of the temperature.
    slope: float

    @property
    def at(self) -> np.ndarray:
        """Prototype of every entry of `values`."""
        n, K = self.values.shape
        return np.broadcast_to(np.arange(K), (n, K))

    def transposed_product(self, X: np.ndarray) -> np.ndarray:
        """Return ``C^T X``."""
        return self.values.T @ X


def soft_pairs(
    D: np.ndarray,
    labels: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    loss: SoftLoss,
) -> SoftPairs:
    """Return loss and slopes of (n, K) squared distances `D`."""
    kind, temperature = loss
    right = labels[None, :] == codes[:, None]
    winners = np.where(right, D, np.inf).argmin(axis=1)
    Z = -D / D.dtype.type(temperature)
    if kind == "cross_entropy":
        order = np.argsort(labels, kind="stable")
        _, starts = np.unique(labels[order], return_index=True)
        best = np.maximum.reduceat(Z[:, order], starts, axis=1)
        group = np.searchsorted(np.unique(labels), labels)
        Z = np.where(best[:, group] == Z, Z, -np.inf)
    own = np.where(right, Z, -np.inf)
    whole = logsumexp(Z, axis=1, keepdims=True)
    inside = logsumexp(own, axis=1, keepdims=True)
    # A class without a prototype has nothing to pull at.
    there = np.isfinite(inside)
    inside = np.where(there, inside, whole)
    values = np.where(there, np.exp(own - inside) - np.exp(Z - whole), 0)
    values *= (weights[:, None] / temperature).astype(D.dtype)
    value = float(weights @ (whole - inside)[:, 0])
    slope = -float(np.sum(values * D))
    return SoftPairs(value, values, winners, values.sum(axis=0), slope)


def fitted_temperature(D: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> float:
    """Return the temperature under which class distances predict labels best."""
    n_classes = D.shape[1]
    weights = weights / weights.sum()
    n = 1 / float(weights @ weights)
    finite = np.where(np.isfinite(D), D, np.nan)
    D = np.where(np.isfinite(D), D, 4 * np.nanmax(finite))
    right = (n + 1) / (n + 2)
    targets = np.full(D.shape, (1 - right) / max(1, n_classes - 1))
    targets[np.arange(len(D)), codes] = right
    # Only gaps to the nearest matter, and small ones most.
    D = D - D.min(axis=1, keepdims=True)
    unit = float(weights @ np.partition(D, 1, axis=1)[:, 1]) or 1.0
    D = D / unit
    wanted = float(weights @ np.einsum("ic,ic->i", targets, D))

    def surplus(s: float) -> float:
        """How far the expected distance lies above the one wanted."""
        shares = np.exp(-s * D)
        shares /= shares.sum(axis=1, keepdims=True)
        return float(weights @ np.einsum("ic,ic->i", shares, D)) - wanted

    low, high = np.log(1e-3), np.log(1e6)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if surplus(np.exp(middle)) > 0 else (low, middle)
    return float(unit / np.exp(low))


def relative_distances(D: np.ndarray) -> np.ndarray:
    """Divide class distances by the sum of the two smallest of their row."""
    D = D.astype(np.float64)
    both = np.partition(D, 1, axis=1)[:, :2].sum(axis=1, keepdims=True)
    tied = both == 0
    with np.errstate(invalid="ignore"):
        shares = D / np.where(tied, 1, both)
    # A class without prototypes, before its first batch, is infinitely far.
    return np.where(np.isinf(D) | (tied & (D > 0)), np.inf, shares)


def probabilities(D: np.ndarray, temperature: float) -> np.ndarray:
    """Return the softmax over the classes of ``-D / temperature``."""
    with np.errstate(over="ignore"):
        Z = (D.min(axis=1, keepdims=True) - D) / temperature
    shares = np.exp(Z)
    return shares / shares.sum(axis=1, keepdims=True)
