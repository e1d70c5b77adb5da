"""What every solver of a two-class problem takes and returns."""

from typing import Any, NamedTuple

import numpy as np


class Options(NamedTuple):
    """How far to go: stop at a certified relative gap of `tol`."""

    tol: float
    max_iter: int
    geometric: bool
    seed: int


class Solution(NamedTuple):
    """A hyperplane ``f = sum_k beta_k K(., x_k) + bias`` with its certificate.

    `dual` is alpha >= 0 of shape (n,), with ``beta = signs * dual``; `w` is None in a
    kernel space. `margin` and `upper` enclose the largest margin asked for: geometric
    if `Options.geometric`, else directional. `separable` is False once it is proven
    that no hyperplane separates the classes.
    """

    w: Any
    bias: float
    dual: np.ndarray
    margin: float
    upper: float
    n_iter: int
    n_updates: int
    separable: bool = True


def random_state_array(seed: int) -> np.ndarray:
    """One-element state of the generator in the compiled loops; never zero."""
    return np.array([2 * seed + 1], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
