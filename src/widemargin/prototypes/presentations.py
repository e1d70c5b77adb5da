"""In what order, and how often, online learners see their samples.

An epoch has n presentations. Sample i has ``n w_i / sum(w)`` of them in expectation,
and never more than one away from that (systematic sampling); equal weights present
every sample exactly once.
"""

import numpy as np


def presentation_order(
    weights: np.ndarray, shuffle: bool, rng: np.random.RandomState
) -> np.ndarray:
    """Return the rows to present in one epoch."""
    n = len(weights)
    if np.all(weights == weights[0]):
        order = np.arange(n)
    else:
        edges = np.cumsum(weights)
        edges *= n / edges[-1]
        edges[-1] = n
        marks = np.floor(np.concatenate([[0.0], edges]) + rng.uniform())
        order = np.repeat(np.arange(n), np.diff(marks).astype(np.intp))
    if shuffle:
        rng.shuffle(order)
    return order
