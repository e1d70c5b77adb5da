r"""Descent of the TD-Neuron: squared error of the outputs, by models and by slopes.

With u_ij = a_j (z_ij - c_j), o = 1 / (1 + e^u) and targets t the error and its
derivatives are, for weights w that sum to one,

    E = sum_i w_i sum_j (o_ij - t_ij)^2,
    g_ij = dE/dz_ij = -2 w_i (o_ij - t_ij) o_ij (1 - o_ij) a_j,
    dE/dC_j = -2 sum_i g_ij r_ij,      dE/dT_jk = -2 sum_i g_ij alpha_ijk r_ij.

Distances are measured in units of `scale`, the mean distance of a sample to the first
model of its class, so that slopes, thresholds and steps have no unit. A step grows
while E falls; it is taken back and halved when E does not.

Shapes: stack (K, 1 + m, d), one model per class; slopes and thresholds (K,).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from widemargin._compute.threads import batched_slices
from widemargin.prototypes.affine import principal_model, retract
from widemargin.prototypes.samples import Samples

_BLOCK = 512
START, GROWTH, SMALLEST = 0.2, 1.2, 1e-6


class Units(NamedTuple):
    """Models with the slopes (as logarithms) and thresholds of their outputs."""

    stack: np.ndarray
    log_slope: np.ndarray
    threshold: np.ndarray
    scale: float


class _Slope(NamedTuple):
    """Error at some units and its derivatives."""

    error: float
    stack: np.ndarray
    sizes: np.ndarray
    log_slope: np.ndarray
    threshold: np.ndarray
    curvature: np.ndarray


def project(X: np.ndarray, stack: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances (n, K) and [1, alpha] (n, K, 1 + m) of samples to models."""
    n_models, width, d = stack.shape
    flat = stack.reshape(-1, d).astype(X.dtype)
    Z = (X @ flat.T).reshape(len(X), n_models, width)
    offsets = np.einsum("kwd,kd->kw", stack, stack[:, 0]).astype(X.dtype)
    z = np.einsum("ij,ij->i", X, X)[:, None] - 2 * Z[:, :, 0] + offsets[:, 0]
    Z[:, :, 1:] -= offsets[:, 1:]
    Z[:, :, 0] = 1
    z -= np.einsum("nkm,nkm->nk", Z[:, :, 1:], Z[:, :, 1:])
    return np.maximum(z, 0), Z


class NeuronDescent:
    """Units and the samples they are trained on."""

    def __init__(
        self, samples: Samples, n_classes: int, units: Units | None, run: Any
    ) -> None:
        # About the mean, where expanded squares keep their digits.
        self.centre = samples.X.mean(axis=0, dtype=float)
        self.X = samples.X - self.centre.astype(samples.X.dtype)
        self.targets = samples.codes[:, None] == np.arange(n_classes)
        self.weights = samples.weights / samples.weights.sum()
        self.run = run
        self.n_steps = 0
        self._units = self._first() if units is None else self._shift(units, -1)

    @property
    def units(self) -> Units:
        """The units, in the coordinates of the samples."""
        return self._shift(self._units, 1)

    def _shift(self, units: Units, sign: int) -> Units:
        stack = units.stack.copy()
        stack[:, 0] += sign * self.centre
        return units._replace(stack=stack)

    def _first(self) -> Units:
        means = [
            principal_model(self.X[own], self.weights[own], 0)[0]
            for own in self.targets.T
        ]
        stack = np.array(means)[:, None]
        z, _ = project(self.X, stack)
        own = np.where(self.targets, z, 0).sum(axis=1)
        scale = float(self.weights @ own)
        if not scale > 0:
            scale = float(np.einsum("kwd,kwd->", stack, stack)) / len(stack) or 1.0
        n_classes = len(stack)
        return Units(stack, np.full(n_classes, np.log(4.0)), np.ones(n_classes), scale)

    def add_tangent(self) -> None:
        """Give every unit the direction in which its own class strays most from it."""
        C, T = self._units.stack[:, 0], self._units.stack[:, 1:]
        added = np.zeros((len(C), 1, C.shape[1]))
        for j, own in enumerate(self.targets.T):
            delta = self.X[own].astype(float) - C[j]
            residual = delta - (delta @ T[j].T) @ T[j]
            both_ways = np.concatenate([residual, -residual])
            weights = np.tile(self.weights[own], 2)
            added[j] = principal_model(both_ways, weights, 1)[1]
        T = retract(np.concatenate([T, added], axis=1))
        # What the new tangent explains is no distance any more: thresholds follow.
        before = self._own_distances(self._units.stack)
        stack = np.concatenate([C[:, None], T], axis=1)
        ratio = self._own_distances(stack) / np.maximum(before, 1e-300)
        self._units = self._units._replace(
            stack=stack, threshold=self._units.threshold * np.where(before, ratio, 1)
        )

    def _own_distances(self, stack: np.ndarray) -> np.ndarray:
        z, _ = project(self.X, stack)
        w = self.weights[:, None] * self.targets
        return (w * z).sum(axis=0) / w.sum(axis=0)

    def train(self, max_iter: int, tol: float) -> float:
        """Descend until the error stalls; return it."""
        rate, slope, stalls = START, self._slope(self._units), 0
        for _ in range(max_iter):
            proposal = self._step(self._units, slope, rate)
            new = self._slope(proposal)
            self.n_steps += 1
            if not new.error <= slope.error:
                rate /= 2
                if rate < SMALLEST:
                    break
                continue
            stalls = stalls + 1 if slope.error - new.error <= tol * slope.error else 0
            self._units, slope, rate = proposal, new, rate * GROWTH
            if stalls >= 2:
                break
        return slope.error

    def _slope(self, units: Units) -> _Slope:
        """One pass: the error and all derivatives, by blocks of samples."""
        a = np.exp(units.log_slope)

        def block(rows: slice) -> tuple[Any, ...]:
            X, w = self.X[rows], self.weights[rows, None]
            z, ones = project(X, units.stack)
            away = z / units.scale - units.threshold
            o = expit(-a * away)
            miss = o - self.targets[rows]
            by_u = -2 * w * miss * o * (1 - o)
            g = by_u * a / units.scale
            weighted = g[:, :, None].astype(X.dtype) * ones
            moments = np.matmul(weighted.transpose(1, 2, 0), ones.transpose(1, 0, 2))
            flat = weighted.reshape(len(X), -1)
            bend = w * (o * (1 - o)) ** 2
            return (
                float((w * miss**2).sum()),
                (flat.T @ X).reshape(units.stack.shape),
                moments,
                np.einsum("nk,nkw->kw", np.abs(g), ones.astype(float) ** 2),
                (by_u * a * away).sum(axis=0),
                (-by_u * a).sum(axis=0),
                np.stack([(bend * (a * away) ** 2).sum(0), (bend * a**2).sum(0)]),
            )

        parts = list(self.run(block, batched_slices(len(self.X), _BLOCK)))
        error, sums, moments, sizes, log_slope, threshold, curvature = (
            sum(part[1:], start=part[0]) for part in zip(*parts, strict=True)
        )
        gradient = -2 * (sums - np.matmul(moments, units.stack))
        return _Slope(error, gradient, sizes, log_slope, threshold, 2 * curvature)

    def _step(self, units: Units, slope: _Slope, rate: float) -> Units:
        stack = units.stack.copy()
        centroids, tangents = slope.sizes[:, 0].mean(), slope.sizes[:, 1:]
        if centroids > 0:
            stack[:, 0] -= rate * slope.stack[:, 0] / (2 * centroids)
        if tangents.size and tangents.mean() > 0:
            stack[:, 1:] -= rate * slope.stack[:, 1:] / (2 * tangents.mean())
            stack[:, 1:] = retract(stack[:, 1:])
        # Gauss-Newton for the two numbers of a unit, no further than a tenth at once.
        flat = slope.curvature + 1e-6
        by_slope = np.clip(rate * slope.log_slope / flat[0], -0.1, 0.1)
        by_threshold = np.clip(rate * slope.threshold / flat[1], -0.1, 0.1)
        return Units(
            stack, units.log_slope - by_slope, units.threshold - by_threshold,
            units.scale,
        )  # fmt: skip
