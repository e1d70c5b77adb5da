"""Lower bounds on distances from a few coordinates: which prototypes may be nearest.

With m orthonormal rows V, z = (x - centre) / u and the length that V leaves,
``r = sqrt(|z|^2 - |V z|^2)``,

    |x - p|^2 / u^2  >=  |V z_x - V z_p|^2 + (r_x - r_p)^2 :

squares of m + 1 numbers, the projection of a point. V are leading directions of the
samples, and the bound excludes most prototypes. A prototype that moves by a fraction of
the way to a sample moves its projection by the same fraction, V being linear.

Projections are float32, and made of z in float32. A coordinate is known up to 1e-4 of
|z|: it is rounded by less than d eps of it, and is computed anew after `RENEW` moves,
or after pushes that add up to the whole way and let an error grow by e. Hence r is made
of a square that is ``SLACK |z|^2`` too large, and from every bound is taken ``(SLACK +
d eps) 8 (|z_x|^2 + |z_p|^2)``. What a bound leaves open is decided by the distances
themselves.

Shapes: X (n, d), P (K, d), V (m, d), projections (n, m + 1). Those of prototypes lie
side by side, coordinate k of prototype j at ``k K' + j``, and are filled up to K',
whole groups of lanes, with some that are infinitely far.
"""

from typing import Any

import numpy as np

from widemargin._compute.compiled import REORDER, dot, least_of, njit, up_to
from widemargin._compute.presentations import Projections
from widemargin._compute.rounding import epsilon
from widemargin._compute.simd import load, splat, store

LENGTH, RENEW, SLACK = 32, 64, 2e-4
# Prototypes that are compared at once.
GROUP = (0,) * 32


class ProjectionBounds:
    """Projections of samples, and of the prototypes of an epoch.

    Of samples are given z in float32, its centre and the unit it is divided by.
    """

    def __init__(self, Z: np.ndarray, centre: np.ndarray, unit: Any) -> None:
        n, d = Z.shape
        self.centre, self.unit = centre, unit
        rows = Z[:: -(-n // 1000)]
        axes = np.random.RandomState(0).standard_normal((d, LENGTH - 1))
        for _ in range(2):
            leading = rows.T @ (rows @ axes.astype(np.float32))
            axes = np.linalg.qr(leading.astype(np.float64))[0]
        self.axes = np.ascontiguousarray(axes.T, np.float32)
        self.slack = 8 * (SLACK + d * epsilon(np.float32))
        self.samples = self._project(Z)

    def _project(self, Z: np.ndarray) -> tuple[np.ndarray, ...]:
        """Projections of points, slacks of their bounds, and squared lengths."""
        H = Z @ self.axes.T
        inside, squares = (np.einsum("ij,ij->i", A, A).astype(float) for A in (H, Z))
        rest = np.maximum(squares - inside, 0) + SLACK * squares
        projections = np.column_stack([H, np.sqrt(rest).astype(np.float32)])
        return projections, (self.slack * squares + 1e-30).astype(np.float32), squares

    def at(self, P: np.ndarray) -> Projections:
        """Return what the kernels need to find the nearest of some prototypes."""
        K = -(-len(P) // len(GROUP)) * len(GROUP)
        projections, slacks = (
            np.zeros((LENGTH, K), np.float32),
            np.full(K, -np.inf, "f4"),
        )
        Z = ((P - self.centre) / self.unit).astype(np.float32)
        H, slacks[: len(P)], squares = self._project(Z)
        projections[:, : len(P)] = H.T
        x, x_slacks, x_squares = self.samples
        unit, n = P.dtype.type(1 / self.unit), len(P)
        return Projections(
            x, x_slacks, projections.ravel(), slacks, self.axes, self.centre, unit,
            self.slack, np.zeros(n), np.empty(n), np.empty(K, np.float32), squares,
            x_squares,
        )  # fmt: skip


@njit(inner=True, fastmath=REORDER)
def _grouped_bounds(x, projections, slacks, slack, group, low):
    """Fill in the bounds of a sample in units, one group of prototypes after another.

    A group stays in registers while the coordinates pass by.
    """
    K = slacks.shape[0]
    for j in range(0, K, len(group)):
        total = splat(np.float32(-slack), group) - load(slacks, j, group)
        for k in range(x.shape[0]):
            delta = splat(x[k], group) - load(projections, k * K + j, group)
            total = total + delta * delta
        store(low, j, total)


@njit(inline="always")
def lower_bounds(i, search):
    """Fill in the bounds of the squared distances of sample i; index of the least."""
    low, grouped = search.low, search.grouped
    _grouped_bounds(
        search.x[i], search.p, search.p_slacks, search.x_slacks[i], GROUP, grouped
    )
    scale = 1.0 / (np.float64(search.unit) ** 2)
    for j in range(low.shape[0]):
        low[j] = scale * np.float64(grouped[j])
    smallest = least_of(grouped, 0, low.shape[0])
    count, at = up_to(grouped, 0, low.shape[0], smallest)
    if count != 1:
        at = 0
        for j in range(low.shape[0]):
            if low[j] < low[at]:
                at = j
    return at


@njit(inner=True, fastmath=REORDER)
def _moved(projections, at, K, x, step):
    """Move a projection; return its squared length without the last coordinate."""
    inside = np.float32(0)
    for k in range(x.shape[0] - 1):
        value = projections[at] + step * (x[k] - projections[at])
        projections[at] = value
        inside += value * value
        at += K
    return inside


@njit(inner=True)
def _renewed(j, P, search):
    """Project a prototype anew; return the squared length without the last coordinate.

    Apart, and in loops: it is seldom called, and would be compiled wherever
    projections move.
    """
    projections, slacks, axes = search.p, search.p_slacks, search.axes
    K, inside, z = slacks.shape[0], np.float32(0), np.empty(P.shape[1], P.dtype)
    for f in range(P.shape[1]):
        z[f] = (P[j, f] - search.centre[f]) * search.unit
    for k in range(len(axes)):
        value = dot(axes[k], z)
        projections[k * K + j] = value
        inside += value * value
    search.p_squares[j] = dot(z, z)
    slacks[j] = search.slack * search.p_squares[j] + 1e-30
    return inside


@njit(inline="always")
def move_projection(j, i, rate, distance, P, search):
    """Move the projection of prototype j as it was moved, a fraction of the way to i.

    Their squared distance was `distance` before. With a rate of NaN it was moved
    otherwise.
    """
    projections, slacks, slack = search.p, search.p_slacks, search.slack
    ages, squares = search.ages, search.p_squares
    m, K = len(search.axes), slacks.shape[0]
    ages[j] += 1.0 if rate > 0 else 1.0 - RENEW * rate
    if ages[j] < RENEW:
        inside = _moved(projections, j, K, search.x[i], np.float32(rate))
        # |(1 - a) p + a x|^2 = (1 - a) |p|^2 + a |x|^2 - a (1 - a) |x - p|^2.
        far = (np.float64(search.unit) ** 2) * distance
        squares[j] += rate * (search.x_squares[i] - squares[j] - (1.0 - rate) * far)
        slacks[j] = max(slacks[j], search.x_slacks[i], np.float32(slack * squares[j]))
    else:
        inside, ages[j] = _renewed(j, P, search), 0.0
    projections[m * K + j] = np.sqrt(max(squares[j] - inside, 0.0) + SLACK * squares[j])
