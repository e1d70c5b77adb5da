"""What online rules of LVQ are given: prototypes that move, and samples in an order.

NumPy alone: formulas and kernels take the same records.
"""

from typing import Any, NamedTuple

import numpy as np


class Moving(NamedTuple):
    """Prototypes that a rule moves, of classes `labels`; `wins` counts, in place."""

    P: np.ndarray
    labels: np.ndarray
    wins: np.ndarray
    # (2, d): no push leaves it.
    box: np.ndarray


class Presentations(NamedTuple):
    """Samples ``X[order]`` of codes ``y[order]``, one after the other.

    `start` presentations of `total` came before.
    """

    X: np.ndarray
    y: np.ndarray
    order: np.ndarray
    start: int
    total: float


class Balls(NamedTuple):
    """Where the prototypes of a class stay; of no classes, they go anywhere."""

    centres: np.ndarray
    radii_squared: np.ndarray


class Projections(NamedTuple):
    """Projections of samples and prototypes, see `projection_bounds`."""

    x: np.ndarray
    x_slacks: np.ndarray
    p: np.ndarray
    p_slacks: np.ndarray
    axes: np.ndarray
    centre: np.ndarray
    # What z is multiplied by, and the slack of a bound per squared length.
    unit: Any
    slack: float
    ages: np.ndarray
    # Written over: bounds of one sample, and the same in float32 by groups.
    low: np.ndarray
    grouped: np.ndarray
    p_squares: np.ndarray
    x_squares: np.ndarray
