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
and probabilities rise with margins. Its temperature (`widemargin._core.temperature`)
is fitted to samples that were held out, or that are left out one at a time: of the
weight M that a prototype p stands for, one part is that of a sample x which it is
nearest to and of whose class it is. Without x, the mean of the others is
``p + (p - x) / (M - 1)``, and

    D_plus becomes (M / (M - 1))^2 D_plus.

The nearest prototype of another class was pushed by x, and as in GLVQ by r = D_plus /
D_minus of what the right one was pulled:

    D_minus becomes (M / (M + r))^2 D_minus.

Seo and Obermayer, "Soft learning vector quantization", Neural Computation 2003;
Villmann et al., "Probabilistic learning vector quantization with cross-entropy for
probabilistic class assignments", ICAISC 2018.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

SOFT = ("rslvq", "cross_entropy")
# The least that the others of a prototype count, beside a sample that is left out.
LEAST_OTHERS = 0.1
UNSEEN = 0.5


class SoftLoss(NamedTuple):
    """One of SOFT at a temperature."""

    kind: str
    temperature: float


def soft_pairs(
    D: NDArray, labels: NDArray, codes: NDArray, weights: NDArray, loss: SoftLoss
) -> tuple[float, NDArray, NDArray, float]:
    """Return the loss of (n, K) squared distances `D`, C, winners and the slope.

    C are the derivatives by D, the slope is that by the logarithm of the temperature.
    """
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
    return value, values, winners, slope


def leave_one_out(
    D: NDArray,
    labels: NDArray,
    codes: NDArray,
    weights: NDArray,
    share: float = 1.0,
    freedom: int = 1,
) -> NDArray:
    """Change (n, K) squared distances to those of prototypes that never saw the sample.

    The samples are a `share` of those that trained. A model that bends in m directions
    has a `freedom` of ``1 + m``: a sample counts as so many in it.
    """
    rows = np.arange(len(D))
    right = labels[None, :] == codes[:, None]
    nearest = np.where(right, D, np.inf).argmin(axis=1)
    wrong = np.where(right, np.inf, D).argmin(axis=1)
    mass = np.bincount(nearest, weights, len(labels))
    # Classes without prototypes, before their first batch, have nothing to leave out.
    rows = np.flatnonzero(right[rows, nearest] & ~right[rows, wrong])
    nearest, wrong, weights_of = nearest[rows], wrong[rows], weights[rows]
    D_plus, D_minus = D[rows, nearest], D[rows, wrong]
    pulled = freedom * weights_of
    # Of those that were not looked at, half a one more than of those that were.
    more = 0.0 if share == 1 else UNSEEN * float(weights.mean())
    others = weights_of + (mass[nearest] - weights_of + more) / share - pulled
    others = np.maximum(others, LEAST_OTHERS * weights_of)
    ones = np.ones_like(D_plus)
    pushed = pulled * np.divide(D_plus, D_minus, out=ones, where=D_plus < D_minus)
    rivals = np.maximum((mass[wrong] + more) / share, LEAST_OTHERS * weights_of)
    D[rows, nearest] = D_plus * (1 + pulled / others) ** 2
    D[rows, wrong] = D_minus / (1 + pushed / rivals) ** 2
    return D
