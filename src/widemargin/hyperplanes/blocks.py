"""Questions about many planes, part by part: one number for every sample and plane.

Of pairs of classes there are so many planes that all distances of some thousand samples
fill the memory, several times over while they are decided.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from widemargin._compute.machine import batched_slices

# Distances that are held at once, 16 MB. Deciding them takes three times as much more:
# 1000 rows and 8128 pairs 52 MiB, 101 with twice as many, and no more time.
ENTRIES = 2**21


def blocks_of(n: int, n_planes: int) -> Iterable[slice]:
    """Cut n samples into parts whose distances to all planes are few enough."""
    return batched_slices(n, ENTRIES // max(1, n_planes))


def by_blocks(answer: Callable[[Any], Any], X: Any, n_planes: int) -> Any:
    """Return what `answer` says of samples, an array or several, part by part."""
    blocks = list(blocks_of(X.shape[0], n_planes))
    if len(blocks) <= 1:
        return answer(X)
    parts = [answer(X[block]) for block in blocks]
    if isinstance(parts[0], tuple):
        return tuple(map(np.concatenate, zip(*parts, strict=True)))
    return np.concatenate(parts)
