"""Kernel densities of classes from squared distances, in log space, on a device."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def log_densities(
    d2: Tensor, starts: np.ndarray, log_weights: np.ndarray, gammas: Sequence[float]
) -> Tensor:
    """(n_gammas, n, n_classes) logarithms of sum w exp(-gamma d2), in float64.

    Class c has the columns from ``starts[c]`` on. The nearest of a class is taken out
    first, so that what is left is small in any float type.
    """
    edges = [*starts.tolist(), d2.shape[1]]
    shape = len(gammas), len(d2), len(starts)
    out = torch.empty(shape, dtype=torch.float64, device=d2.device)
    weighted = bool(log_weights.any())
    finest = torch.finfo(d2.dtype)
    for c in range(len(starts)):
        own = d2[:, edges[c] : edges[c + 1]]
        nearest = own.amin(1)
        base = torch.where(torch.isfinite(nearest), nearest, 0.0)
        depth = base[:, None] - own
        for g, gamma in enumerate(gammas):
            bumps = depth * min(max(float(gamma), finest.tiny), finest.max)
            if weighted:
                own_weights = log_weights[edges[c] : edges[c + 1]]
                bumps += torch.as_tensor(own_weights, dtype=d2.dtype, device=d2.device)
            sums = torch.logsumexp(bumps, 1).double()
            out[g, :, c] = sums - float(gamma) * base.double()
    return out
