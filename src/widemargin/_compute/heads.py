"""Which prototypes may be the nearest: distances bounded by a few coordinates.

With m orthonormal rows V, z = (x - centre) unit and what they leave of its length,
``r = sqrt(|z|^2 - |V z|^2)``,

    unit^2 |x - p|^2  >=  |V z_x - V z_p|^2 + (r_x - r_p)^2 :

squares of m + 1 numbers, the head of a point. V are leading directions of the samples,
and most prototypes are told to be farther than the nearest by their heads. A prototype
that moves by a fraction of the way to a sample takes its head along, V being linear.

Heads are float32, and made of z in float32. A coordinate is known up to 1e-4 of |z|: a
projection is rounded by less than d eps of it, and is made anew after `RENEW` moves, or
after pushes that add up to the whole way and let an error grow by e. Hence r is made of
a square that is ``SLACK |z|^2`` too large, and from every bound is taken
``(SLACK + d eps) 8 (|z_x|^2 + |z_p|^2)``. What a bound leaves open is decided by the
distances themselves.

Shapes: X (n, d), P (K, d), V (m, d), heads (n, m + 1) and (K, m + 1).
"""

from typing import Any

import numpy as np

from widemargin._compute.compiled import REORDER, dot, njit, squared_distance

LENGTH, RENEW, SLACK = 32, 64, 2e-4
# Features from which a bound is worth its price.
WIDE = 128


class Heads:
    """Heads of samples, and of the prototypes of an epoch."""

    def __init__(self, X: np.ndarray) -> None:
        n, d = X.shape
        self.centre = X.mean(axis=0)
        reach = max((X.max(axis=0) - self.centre).max(), 0.0)
        self.unit = 1.0 / (max(float((self.centre - X.min(axis=0)).max()), reach) or 1)
        Z = self._narrow(X)
        rows = Z[:: -(-n // 1000)]
        axes = np.random.RandomState(0).standard_normal((d, LENGTH - 1))
        for _ in range(2):
            leading = rows.T @ (rows @ axes.astype(np.float32))
            axes = np.linalg.qr(leading.astype(np.float64))[0]
        self.axes = np.ascontiguousarray(axes.T, np.float32)
        self.slack = 8 * (SLACK + d * float(np.finfo(np.float32).eps))
        self.samples = self._heads(Z)

    def _narrow(self, X: np.ndarray) -> np.ndarray:
        """Points about the centre in units, in float32."""
        Z, unit = np.empty(X.shape, np.float32), X.dtype.type(self.unit)
        return np.multiply(X - self.centre, unit, out=Z, casting="same_kind")

    def _heads(self, Z: np.ndarray) -> tuple[np.ndarray, ...]:
        """Heads of points, what to take from their bounds, and squared lengths."""
        H = Z @ self.axes.T
        inside, squares = (np.einsum("ij,ij->i", A, A).astype(float) for A in (H, Z))
        rest = np.maximum(squares - inside, 0) + SLACK * squares
        heads = np.column_stack([H, np.sqrt(rest).astype(np.float32)])
        return heads, (self.slack * squares + 1e-30).astype(np.float32), squares

    def at(self, P: np.ndarray) -> tuple[Any, ...]:
        """Return what the kernels need to find the nearest of some prototypes."""
        low, ages = np.empty(len(P)), np.zeros(len(P))
        *x, x_squares = self.samples
        *p, p_squares = self._heads(self._narrow(P))
        scale = (self.centre, P.dtype.type(self.unit), self.slack)
        return (*x, *p, self.axes, *scale, ages, low, p_squares, x_squares)


@njit(inline="always")
def lower_bounds(i, search):
    """Fill in the bounds of the squared distances of sample i; index of the least."""
    x, heads, slacks, low = search[0][i], search[2], search[3], search[9]
    scale, slack = 1.0 / (np.float64(search[6]) ** 2), search[1][i]
    at = 0
    for j in range(heads.shape[0]):
        low[j] = scale * np.float64(squared_distance(x, heads[j]) - slack - slacks[j])
        if low[j] < low[at]:
            at = j
    return at


@njit(fastmath=REORDER)
def _moved(head, x, step):
    """Move a head, and return its squared length but for its end, which is not one."""
    for k in range(x.shape[0]):
        head[k] += step * (x[k] - head[k])
    return dot(head, head) - head[-1] * head[-1]


@njit(inline="always")
def take_along(j, i, rate, distance, P, search):
    """Move the head of prototype j as it was moved, a fraction of the way to i.

    Their squared distance was `distance` before. With a rate of NaN it was moved
    otherwise.
    """
    heads, slacks, axes, centre = search[2], search[3], search[4], search[5]
    unit, slack, ages, squares = search[6], search[7], search[8], search[10]
    m = len(axes)
    ages[j] += 1.0 if rate > 0 else 1.0 - RENEW * rate
    if ages[j] < RENEW:
        inside = _moved(heads[j], search[0][i], np.float32(rate))
        # |(1 - a) p + a x|^2 = (1 - a) |p|^2 + a |x|^2 - a (1 - a) |x - p|^2.
        far = (np.float64(unit) ** 2) * distance
        squares[j] += rate * (search[11][i] - squares[j] - (1.0 - rate) * far)
        slacks[j] = max(slacks[j], search[1][i], np.float32(slack * squares[j]))
    else:
        z = (P[j] - centre) * unit
        for k in range(m):
            heads[j, k] = dot(axes[k], z)
        inside = dot(heads[j], heads[j]) - heads[j, m] * heads[j, m]
        ages[j], squares[j] = 0.0, dot(z, z)
        slacks[j] = slack * squares[j] + 1e-30
    heads[j, m] = np.sqrt(max(squares[j] - inside, 0.0) + SLACK * squares[j])
