"""Plain squared distances on a device, in float64: to prototypes, to neighbours.

An expanded square about the mean of the references is wrong by rounding of the norms;
where that is not small beside the distance, the difference itself is squared. Products
in float64 cost a device little for the few references these are used with.

Of squared distances the kernel densities of classes are made, in log space.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from widemargin._compute.device.pairs import halving

# Relative size below which a squared distance is computed from the difference.
SUSPECT = 1e-9
_NUMBERS = 2**27


def squared_distances(X: Tensor, P: Tensor, omega: Tensor | None = None) -> Tensor:
    """(n, K) squared distances in float64, under a linear map if there is one."""
    out = torch.empty((len(X), len(P)), dtype=torch.float64, device=X.device)
    centre = P.double().mean(0)
    p = P.double() - centre
    p = p if omega is None else p @ omega.double().T
    p_norms = (p * p).sum(1)

    def fill(rows: slice) -> None:
        x = X[rows].double() - centre
        x = x if omega is None else x @ omega.double().T
        x_norms = (x * x).sum(1)
        scale = x_norms[:, None] + p_norms
        d2 = torch.addmm(scale, x, p.T, alpha=-2)
        i, j = (d2 < SUSPECT * scale).nonzero(as_tuple=True)
        if len(i):
            delta = X[rows][i].double() - P[j].double()
            delta = delta if omega is None else delta @ omega.double().T
            d2[i, j] = (delta * delta).sum(1)
        out[rows] = d2

    halving(max(1, _NUMBERS // (2 * X.shape[1] + 3 * len(P))), len(X), fill)
    return out


def nearest_points(X: Tensor, queries: Tensor | None, k: int) -> Tensor:
    """(n, k) indices of the nearest rows of X; without queries, of X but itself."""
    asked = X if queries is None else queries
    out = torch.empty((len(asked), k), dtype=torch.long, device=asked.device)

    def fill(rows: slice) -> None:
        d2 = squared_distances(asked[rows], X)
        if queries is None:
            at = torch.arange(len(d2), device=d2.device)
            d2[at, at + rows.start] = torch.inf
        out[rows] = d2.topk(k, dim=1, largest=False).indices

    halving(max(1, _NUMBERS // (2 * len(X))), len(asked), fill)
    return out


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
