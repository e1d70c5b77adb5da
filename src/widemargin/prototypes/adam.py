"""Adam: steps of a size that the caller sets, whatever the size of the gradient.

``m`` and ``v`` are running means of the gradient and of its square; the step is
``m_hat / sqrt(v_hat)`` with both corrected for their start at zero. A coordinate
moves by at most about one unit per step, so a unit chosen from the spread of the data
makes one learning rate do for data of any scale.

Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.
"""

from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Running means of gradient and squared gradient after `steps` steps."""

    m: np.ndarray
    v: np.ndarray
    steps: int


def start(like: np.ndarray) -> Moments:
    """Moments before the first step for a parameter of the shape of `like`."""
    return Moments(np.zeros_like(like), np.zeros_like(like), 0)


def grow(moments: Moments, like: np.ndarray) -> Moments:
    """Moments for a parameter that has gained rows."""
    m, v = np.zeros_like(like), np.zeros_like(like)
    m[: len(moments.m)], v[: len(moments.v)] = moments.m, moments.v
    return Moments(m, v, moments.steps)


def step(
    moments: Moments, gradient: np.ndarray, beta_1: float = 0.9, beta_2: float = 0.999
) -> tuple[Moments, np.ndarray]:
    """Take in one gradient; return the new moments and the direction of ascent."""
    steps = moments.steps + 1
    m = beta_1 * moments.m + (1 - beta_1) * gradient
    v = beta_2 * moments.v + (1 - beta_2) * gradient * gradient
    root = np.sqrt(v / (1 - beta_2**steps))
    # Where every gradient so far was zero there is nothing to divide.
    root[root == 0] = 1
    return Moments(m, v, steps), m / ((1 - beta_1**steps) * root)
