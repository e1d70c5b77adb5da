r"""Hyperplanes without one of their samples: what it adds to its own margin.

See :mod:`widemargin._core.left_out`. A soft margin has private coordinates of squared
length :math:`D_i`, and Newton's last system has the distances: of a kernel,
:math:`S_i^2 = 1 / (K + D)^{-1}_{ii}`, bordered where the bias is free; of weights,
with :math:`z = [x, 1]`, :math:`A = \sum_j z_j z_j^T / D_j` and the price of w and bias
on its diagonal,

.. math:: q_i = z_i^T A^{-1} z_i, \qquad S_i^2 - D_i = \frac{q_i}{1 - q_i / D_i}.

A hard margin has none: D = 0. A perceptron is no optimum: without a sample others take
over only what the sweeps leave time for. Its coefficients rise as margins fall, as
those of a soft margin do, where :math:`m_i = (1 - y_i f(x_i)) / D_i`: so D is taken to
be the spread of its margins over that of its coefficients.

Where neither features nor supports are few, the mean of the diagonal of
:math:`(K + D)^{-1}` is estimated by a random vector and a few conjugate gradients, and
all samples have the same share of their length beyond the span. Gradients that stop
early make the share too large, and nobody too sure.

Shapes: supports (m,), of one two-class problem.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri, dtrtrs

from widemargin._core.left_out import (
    feature_spans,
    spread_ratio,
    squared_spans,
    unit_factor,
)
from widemargin.hyperplanes.newton import Factor, penalised_gram
from widemargin.hyperplanes.patterns import squared_row_norms
from widemargin.hyperplanes.spaces import KernelSpace, LinearSpace

# Features or supports, at most, whose system is solved for this alone.
_FEW = 1000
# Supports, at most, where features are not few.
_SOME = 200
# Steps of conjugate gradients.
_STEPS = 6


class LeaveOneOut(NamedTuple):
    """Who is left out of planes: a mask of samples; of the same group together.

    `groups` is None where all samples are observations of their own.
    """

    asked: NDArray
    groups: NDArray | None = None

    def take(self, rows: NDArray) -> "LeaveOneOut":
        """Return the same of some of the samples."""
        return LeaveOneOut(
            self.asked[rows], None if self.groups is None else self.groups[rows]
        )


class Expansion(NamedTuple):
    """A plane as a sum of samples, with coefficients `alpha` (n,), of a space.

    `private` are squared private coordinates (n,), None for a hard margin; `rho` is the
    height, None for a free bias; `factor` is of Newton's last system, if there was one.
    """

    space: LinearSpace | KernelSpace
    alpha: NDArray
    private: NDArray | None
    rho: float | None
    factor: Factor | None = None

    def merged(self, groups: NDArray) -> tuple["Expansion", NDArray]:
        """Return the plane with the first of each group, and who that is, (n,)."""
        rows, n = np.flatnonzero(self.alpha > 0.0), len(self.alpha)
        _, first, at = np.unique(groups[rows], return_index=True, return_inverse=True)
        alpha, private, who = np.zeros(n), np.ones(n), np.full(n, -1)
        first = rows[first]
        alpha[first], who[rows] = np.bincount(at, self.alpha[rows]), first[at]
        if self.private is None:
            return self._replace(alpha=alpha), who
        private[first] = 1.0 / np.bincount(at, 1.0 / self.private[rows])
        return self._replace(alpha=alpha, private=private, factor=None), who


def loo_shifts(plane: Expansion, left: LeaveOneOut) -> NDArray:
    """Return what samples add to their own margins, (n,), 0 where that is not asked."""
    own, asked = np.zeros(len(plane.alpha)), np.flatnonzero(left.asked)
    first = asked = asked[plane.alpha[asked] > 0.0]
    if not len(asked):
        return own
    # Prices may be such that squares are no numbers; nothing is known then.
    with np.errstate(all="ignore"):
        if left.groups is not None:
            plane, who = plane.merged(left.groups)
            first = who[asked]
        found = plane.alpha[first] * _distances(plane, first)
    own[asked] = np.where(np.isfinite(found), np.maximum(found, 0.0), 0.0)
    return own


def walk_private(margins: NDArray, m: NDArray, factors: Any) -> NDArray | None:
    """Squared private coordinates of a soft margin with coefficients `m` like these.

    `factors` are those of the updates, by which coefficients differ anyway.
    """
    ratio = spread_ratio(margins, m / factors)
    return np.full(len(m), ratio) / factors if ratio > 0.0 else None


def walk_shifts(
    X: Any, signs: NDArray, walk: Any, rho: float, factors: NDArray, left: LeaveOneOut
) -> NDArray:
    """Return the same of a walk over the patterns of samples, centred nowhere."""
    scores = np.asarray(X @ walk.v) + rho**2 * walk.total
    private = walk_private(signs * scores, walk.m, factors)
    return loo_shifts(Expansion(LinearSpace(X), walk.m, private, rho), left)


def _distances(plane: Expansion, asked: NDArray) -> NDArray:
    """Squared distances from the span, less private coordinates, of some supports."""
    space, alpha, private, rho, factor = plane
    rows = np.flatnonzero(alpha > 0.0)
    if isinstance(space, KernelSpace):
        if factor is not None:
            return _by_factor(factor, private, rho, asked)
    elif private is not None and (factor or space.X.shape[1] < min(len(rows), _FEW)):
        return _by_features(plane, rows, asked)
    elif len(rows) > _FEW or (space.X.shape[1] > _FEW and len(rows) > _SOME):
        return _by_share(plane, rows, asked)
    K = space.gram(rows)
    if rho is not None:
        K = K + rho**2
    own = None if private is None else private[rows]
    spans = squared_spans(K, own, bias=rho is None)
    return (spans if own is None else spans - own)[np.searchsorted(rows, asked)]


def _by_factor(factor: Factor, private: Any, rho: Any, asked: NDArray) -> NDArray:
    """From Newton's system of a kernel, which is about the samples inside."""
    upper, scale, inside = factor
    assert inside is not None
    known = inside[asked]
    at = (np.cumsum(inside) - 1)[asked[known]]
    if 3 * len(at) > len(upper):
        columns = scale[at] * np.triu(dtrtri(upper)[0])[at].T
    else:
        columns = np.zeros((len(upper), len(at)))
        columns[at, np.arange(len(at))] = scale[at]
        columns = dtrtrs(upper, columns, trans=1)[0]
    inverse = np.einsum("ij,ij->j", columns, columns)
    if rho is None:
        ones = dtrtrs(upper, scale, trans=1)[0]
        inverse -= (ones @ columns) ** 2 / (ones @ ones)
    own = private[inside]
    lengths = 1.0 / scale**2 - own
    # One that came inside with the last step has hardly a weight, and its own length.
    distances = np.full(len(asked), lengths.mean())
    distances[known] = np.minimum(1.0 / inverse - own[at], 4.0 * lengths.max())
    return distances


def _by_features(plane: Expansion, rows: NDArray, asked: NDArray) -> NDArray:
    """From a system of the size of the features, Newton's or the same."""
    X, private, rho, factor = plane.space.X, plane.private, plane.rho, plane.factor
    assert private is not None
    if factor is None:
        least = private[rows].min()
        system = penalised_gram(X[rows], least / private[rows], least, rho)
        return feature_spans(X[asked], private[asked], unit_factor(system), least)
    upper, scale, inside = factor
    own = np.where(inside[asked], private[asked], np.inf)  # type: ignore[index]
    return feature_spans(X[asked], own, (upper, scale), private.min())


def _by_share(plane: Expansion, rows: NDArray, asked: NDArray) -> NDArray:
    """Take the same share of every sample's length, by the mean of an inverse."""
    X, rho = plane.space.X[rows], plane.rho
    middle = np.asarray(X.mean(axis=0)).ravel() if rho is None else np.zeros(X.shape[1])
    height = (rho or 0.0) ** 2
    lengths = squared_row_norms(X) - 2 * (X @ middle) + middle @ middle + height
    own = np.full(len(rows), 1e-10 * lengths.mean())
    own = own if plane.private is None else plane.private[rows]

    def product(v: NDArray) -> NDArray:
        total = v.sum()
        inner = X.T @ v - total * middle
        return X @ inner - middle @ inner + height * total + own * v

    # Conjugate gradients from zero: what they have reached of the form only grows.
    z = np.random.RandomState(0).choice([-1.0, 1.0], len(rows))
    residual, direction, solved = z, z, np.zeros(len(rows))
    square = residual @ residual
    for _ in range(_STEPS):
        image = product(direction)
        step = square / (direction @ image)
        solved = solved + step * direction
        residual = residual - step * image
        square, before = residual @ residual, square
        if not square > 1e-20 * len(z):
            break
        direction = residual + square / before * direction
    mean, low, high = float(z @ solved) / len(z), 0.0, 1.0
    for _ in range(20):
        share = (low + high) / 2
        above = np.mean(1.0 / (own + share * lengths)) > mean
        low, high = (share, high) if above else (low, share)
    return high * lengths[np.searchsorted(rows, asked)]
