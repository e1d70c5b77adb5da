r"""Tables in eight bits, and how wrong that can make a distance or a score.

Every row of a table is stored as integers in [-127, 127] times one scale, which leaves
an error e per row. What follows holds for every sample, not on average:

* a score w.x is wrong by at most |e| |x|;
* the distance to a point is wrong by at most |e|;
* the distance to C + span(T), T orthonormal, stored as :math:`\hat C` and
  :math:`\hat T = T + E`, computed as :math:`\hat r = \delta - \hat T^\top a` with
  :math:`\delta = x - \hat C, a = \hat T \delta`, lies within

  .. math:: \sqrt{|\hat r|^2 - \rho^2 |a|^2} - \|E\| (|a| + \|E\| |\delta|) - |e|
     \;\le\; d \;\le\; |\hat r| + \|E\| |a| + |e|,

  where :math:`\rho^2` is the largest :math:`(1 - \lambda)^2 / \lambda` of the
  eigenvalues of :math:`\hat T \hat T^\top`, the price of rows that are no longer
  orthonormal. (Above: |r| is the least :math:`|\delta - T^\top b|`, take b = a. Below:
  the same with T and :math:`\hat T` exchanged, and Pythagoras.)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from widemargin.export.program import NotExportable

LARGEST = 127


@dataclass(frozen=True, eq=False)
class Quantised:
    """Integers (n, d), scales (n,), and the length of each row's error (n,)."""

    integers: NDArray
    scales: NDArray
    errors: NDArray

    @property
    def values(self) -> NDArray:
        """What the integers stand for, in float64."""
        return self.integers * self.scales.astype(float)[:, None]


def quantise_rows(table: NDArray) -> Quantised:
    """Quantise every row by a scale of its own.

    >>> found = quantise_rows(np.array([[1.0, -0.5, 0.0]]))
    >>> found.integers
    array([[127, -64,   0]], dtype=int8)
    """
    table = np.asarray(table, float)
    largest = np.abs(table).max(axis=1)
    scales = np.where(largest > 0, largest / LARGEST, 1.0).astype(np.float32)
    steps = np.rint(table / scales.astype(float)[:, None])
    integers = np.clip(steps, -LARGEST, LARGEST).astype(np.int8)
    left = table - integers * scales.astype(float)[:, None]
    return Quantised(integers, scales, np.linalg.norm(left, axis=1))


def frame_bounds(frames: NDArray, stored: NDArray) -> tuple[NDArray, NDArray]:
    """Return ``||E||`` and rho of every frame (K, m, d), in float64."""
    errors = np.linalg.norm(stored - frames, ord=2, axis=(1, 2))
    rho = np.zeros(len(frames))
    for j, rows in enumerate(stored):
        real = rows[np.any(rows != 0, axis=1)]
        if len(real):
            eigenvalues = np.linalg.eigvalsh(real @ real.T)
            if eigenvalues[0] < 0.25:
                raise NotExportable(
                    "eight bits lose a tangent of this model; export it in float32."
                )
            rho[j] = np.sqrt(np.max((1 - eigenvalues) ** 2 / eigenvalues))
    return errors, rho
