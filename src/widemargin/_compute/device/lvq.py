"""Sums of generalised LVQ over a batch of tensors: loss, gradients, wins.

The twin of :mod:`widemargin.prototypes.glvq` and ``gmlvq`` for a device. The loss of
the margins is whatever the user gave: the margins of a batch, a few hundred numbers,
visit the CPU for it.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from widemargin._compute.device.replay import jitted, triton_for


class Pairs(NamedTuple):
    """Loss of a batch, the (n, K) coefficients C, their sums, and who was nearest."""

    loss: Tensor
    C: Tensor
    column_sums: Tensor
    wins: Tensor


def _squared_norms(X: Tensor) -> Tensor:
    return (X * X).sum(1)


def _expanded(X: Tensor, P: Tensor, norms: Tensor, P_norms: Tensor) -> Tensor:
    scale = norms[:, None] + P_norms
    return torch.addmm(scale, X, P.T, alpha=-2).clamp_(min=0)


def product_error(P: Tensor) -> float:
    """Error of an expanded square, per unit of the two squared norms."""
    return float(torch.finfo(P.dtype).eps) * (16.0 + P.shape[1] ** 0.5)


def coefficients(
    D: Tensor, labels: Tensor, batch: Any, loss: Any, x_errors: Tensor, p_errors: Tensor
) -> Pairs:
    """Return the summed loss and C for (n, K) squared distances."""
    triton = triton_for(D) if stays_there(loss) else None
    if triton is not None:
        return _in_one_kernel(triton, D, labels, batch, loss, x_errors, p_errors)
    right = labels[None] == batch.codes[:, None]
    plus, at_plus = torch.where(right, D, torch.inf).min(1)
    minus, at_minus = torch.where(right, torch.inf, D).min(1)
    total = plus + minus
    rounding = 2 * x_errors + p_errors[at_plus] + p_errors[at_minus]
    clear = torch.isfinite(total) & (total > rounding)
    safe = torch.where(clear, total, 1)
    margins = torch.where(clear, (minus - plus) / safe, 0)
    # Where a side has no prototype at all the other has won.
    margins = torch.where(torch.isinf(minus) & ~torch.isinf(plus), 1, margins)
    margins = torch.where(torch.isinf(plus) & ~torch.isinf(minus), -1, margins)
    value, slope = _loss_of(loss, margins.to(D.dtype))
    slope = torch.where(clear, batch.weights * slope, 0)
    C = torch.zeros_like(D)
    rows = torch.arange(len(D), device=D.device)
    C[rows, at_plus] = slope * (-2 * (minus / safe) / safe).nan_to_num(0, 0, 0)
    C[rows, at_minus] += slope * (2 * (plus / safe) / safe).nan_to_num(0, 0, 0)
    # Not bincount, which waits for the device.
    wins = torch.zeros_like(labels).index_add_(0, at_plus, torch.ones_like(at_plus))
    # Not a Python number: that would wait for the device, batch after batch.
    return Pairs((batch.weights * value).sum(), C, C.sum(0), wins)


def _in_one_kernel(
    triton: Any, D: Tensor, labels: Tensor, batch: Any, loss: Any,
    x_errors: Tensor, p_errors: Tensor,
) -> Pairs:  # fmt: skip
    n, K = D.shape
    C, losses = torch.empty_like(D), torch.empty_like(D[:, 0])
    wins = torch.zeros_like(labels)
    _kernel()[(n,)](
        D, labels, batch.codes, batch.weights, x_errors, p_errors, C, losses, wins,
        float(loss.beta), K, triton.next_power_of_2(K),
    )  # fmt: skip
    # A product: sums down the columns take a device longer.
    return Pairs(losses.sum(), C, C.T @ torch.ones_like(losses), wins)


@cache
def _kernel() -> Any:
    return jitted("coefficients_kernel", _SOURCE)


# What `coefficients` does in torch, line by line, for the sample of one program.
_SOURCE = """
def coefficients_kernel(D, labels, codes, weights, x_errors, p_errors, C, losses, wins,
                        beta, n_columns, WIDTH: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, WIDTH)
    there = k < n_columns
    d = tl.load(D + i * n_columns + k, mask=there, other=float('inf'))
    own = there & (tl.load(labels + k, mask=there, other=-1) == tl.load(codes + i))
    d_plus = tl.where(own, d, float('inf'))
    d_minus = tl.where(own, float('inf'), d)
    plus, at_plus = tl.min(d_plus, axis=0, return_indices=True)
    minus, at_minus = tl.min(d_minus, axis=0, return_indices=True)
    total = plus + minus
    rounding = 2.0 * tl.load(x_errors + i)
    rounding += tl.load(p_errors + at_plus) + tl.load(p_errors + at_minus)
    clear = (total < float('inf')) & (total > rounding)
    safe = tl.where(clear, total, 1.0)
    margin = tl.where(clear, (minus - plus) / safe, 0.0)
    alone = (minus == float('inf')) & (plus < float('inf'))
    margin = tl.where(alone, 1.0, margin)
    lost = (plus == float('inf')) & (minus < float('inf'))
    margin = tl.where(lost, -1.0, margin)
    value = 1.0 / (1.0 + tl.exp(beta * margin))
    weight = tl.load(weights + i)
    slope = tl.where(clear, -beta * value * (1.0 - value) * weight, 0.0)
    c_plus = tl.where(clear, slope * (-2.0 * (minus / safe) / safe), 0.0)
    c_minus = tl.where(clear, slope * (2.0 * (plus / safe) / safe), 0.0)
    row = tl.where(k == at_plus, c_plus, 0.0) + tl.where(k == at_minus, c_minus, 0.0)
    tl.store(C + i * n_columns + k, row, mask=there)
    tl.store(losses + i, weight * value)
    tl.atomic_add(wins + at_plus, 1)
"""


def stays_there(loss: Any) -> bool:
    """Whether the loss of margins is computed without leaving the device."""
    return bool(getattr(loss, "is_logistic", False))


def _loss_of(loss: Any, margins: Tensor) -> tuple[Tensor, Tensor]:
    """Value and derivative of a loss; the usual one without leaving the device."""
    if stays_there(loss):
        value = torch.sigmoid(-loss.beta * margins)
        return value, -loss.beta * value * (1 - value)
    host = margins.cpu().numpy()
    found = loss.value(host), loss.derivative(host)
    value, slope = (torch.from_numpy(a).to(margins) for a in found)
    return value, slope


def glvq_sums(P: Tensor, labels: Tensor, batch: Any, loss: Any) -> tuple:
    """Loss, gradient in the prototypes, and how often each was its class's nearest."""
    error, P_norms = product_error(P), _squared_norms(P)
    x_errors, p_errors = error * batch.norms, error * P_norms
    if batch.is_risky:
        # An outlier would blur what is near among the others: more digits then.
        X, Q = batch.X.double(), P.double()
        D = _expanded(X, Q, _squared_norms(X), _squared_norms(Q)).to(P.dtype)
        x_errors, p_errors = 0 * x_errors, 0 * p_errors
    else:
        D = _expanded(batch.X, P, batch.norms, P_norms)
    if batch.offsets is not None:
        D = D + batch.offsets[:, None]
    pairs = coefficients(D, labels, batch, loss, x_errors, p_errors)
    towards = pairs.C.T @ batch.X - pairs.column_sums[:, None] * P
    return pairs.loss, -2 * towards, pairs.wins


def gmlvq_sums(
    P: Tensor, omega: Tensor, labels: Tensor, batch: Any, loss: Any
) -> tuple:
    """Loss, gradients in prototypes and Omega, and wins among the own class."""
    Z, Q = batch.X @ omega.T, P @ omega.T
    size = product_error(P) * (omega * omega).sum()
    pairs = coefficients(
        _expanded(Z, Q, _squared_norms(Z), _squared_norms(Q)), labels, batch, loss,
        size * batch.norms, size * _squared_norms(P),
    )  # fmt: skip
    towards = pairs.C.T @ batch.X - pairs.column_sums[:, None] * P
    mapped, row_sums = pairs.C.T @ Z, pairs.C.sum(1)
    by_omega = (Z * row_sums[:, None]).T @ batch.X - mapped.T @ P - Q.T @ towards
    return pairs.loss, -2 * (towards @ omega.T) @ omega, 2 * by_omega, pairs.wins
