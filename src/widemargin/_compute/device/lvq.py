"""Sums of generalised LVQ over a batch of tensors: loss, gradients, wins.

The twin of :mod:`widemargin.prototypes.glvq` and ``gmlvq`` for a device. The loss of
the margins is whatever the user gave: the margins of a batch, a few hundred numbers,
visit the CPU for it.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from widemargin._compute.device.kernels import jitted, launch, triton_for
from widemargin._compute.device.pairs import error_of


class Pairs(NamedTuple):
    """Loss of a batch, the (n, K) coefficients C, their sums, and who was nearest."""

    loss: Tensor
    C: Tensor
    column_sums: Tensor
    wins: Tensor


def _squared_norms(X: Tensor) -> Tensor:
    return (X * X).sum(1)


class Products(NamedTuple):
    """Squared distances ``x_norms + p_norms - 2 G``, and the rounding of either side.

    The rounding is `error` times `x_errors` and `p_errors`.
    """

    G: Tensor
    x_norms: Tensor
    p_norms: Tensor
    x_errors: Tensor
    p_errors: Tensor
    error: float


def coefficients(products: Products, labels: Tensor, batch: Any, loss: Any) -> Pairs:
    """Return the summed loss and C for (n, K) squared distances."""
    G, x_norms, p_norms, x_errors, p_errors, error = products
    triton = triton_for(G) if stays_there(loss) else None
    if triton is not None:
        return _in_one_kernel(triton, products, labels, batch, loss)
    D = (x_norms[:, None] + p_norms).sub_(G, alpha=2).clamp_(min=0)
    right = labels[None] == batch.codes[:, None]
    plus, at_plus = torch.where(right, D, torch.inf).min(1)
    minus, at_minus = torch.where(right, torch.inf, D).min(1)
    total = plus + minus
    rounding = error * (2 * x_errors + p_errors[at_plus] + p_errors[at_minus])
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
    triton: Any, products: Products, labels: Tensor, batch: Any, loss: Any
) -> Pairs:
    G = products.G
    n, K = G.shape
    C, losses = torch.empty_like(G), torch.empty_like(G[:, 0])
    wins = torch.zeros_like(labels)
    launch(
        _kernel(), (n,), *products, labels, batch.codes, batch.weights, C, losses, wins,
        float(loss.beta), K, WIDTH=triton.next_power_of_2(K),
    )  # fmt: skip
    # A product: sums down the columns take a device longer.
    return Pairs(losses.sum(), C, C.T @ torch.ones_like(losses), wins)


@cache
def _kernel() -> Any:
    return jitted("coefficients_kernel", _SOURCE)


# What `coefficients` does in torch, line by line, for the sample of one program.
_SOURCE = """
def coefficients_kernel(G, x_norms, p_norms, x_errors, p_errors, error, labels, codes,
                        weights, C, losses, wins, beta, n_columns, WIDTH: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, WIDTH)
    there = k < n_columns
    d = tl.load(x_norms + i) + tl.load(p_norms + k, mask=there, other=0.0)
    d -= 2.0 * tl.load(G + i * n_columns + k, mask=there, other=0.0)
    d = tl.where(there, tl.maximum(d, 0.0), float('inf'))
    own = there & (tl.load(labels + k, mask=there, other=-1) == tl.load(codes + i))
    d_plus = tl.where(own, d, float('inf'))
    d_minus = tl.where(own, float('inf'), d)
    plus, at_plus = tl.min(d_plus, axis=0, return_indices=True)
    minus, at_minus = tl.min(d_minus, axis=0, return_indices=True)
    total = plus + minus
    rounding = 2.0 * tl.load(x_errors + i)
    rounding += tl.load(p_errors + at_plus) + tl.load(p_errors + at_minus)
    rounding *= error
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


def adam_step(
    m: Tensor, v: Tensor, gradient: Tensor,
    forget: float, forget_squares: float, t: Any, least: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Moments of Adam after one more gradient, and the direction of ascent.

    The twin of :func:`widemargin._compute.lvq.adam_in_place`; it writes the moments
    in place too.
    """
    triton, t = triton_for(m), torch.as_tensor(t, device=m.device)
    if triton is not None:
        top, ascent = m.new_zeros(1), torch.empty_like(m)
        grid = (triton.cdiv(m.numel(), 1024),)
        moments, direction = _adam_kernels()
        # Both shares: one less 0.999 has lost its digits in float32.
        launch(
            moments, grid, m, v, gradient, top, forget, 1 - forget, forget_squares,
            1 - forget_squares, m.numel(), BLOCK=1024,
        )  # fmt: skip
        launch(
            direction, grid, m, v, top, t, ascent, math.log(forget),
            math.log(forget_squares), least * least, m.numel(), BLOCK=1024,
        )  # fmt: skip
        return m, v, ascent
    m.mul_(forget).add_(gradient, alpha=1 - forget)
    v.mul_(forget_squares).addcmul_(gradient, gradient, value=1 - forget_squares)
    steps = t.double()
    short, shorter = 1 - forget**steps, 1 - forget_squares**steps
    square = v + least * least * v.max()
    safe = torch.where(square > 0, square, 1)
    # Divided last: one over a square may be no number.
    root = (v / safe).sqrt() * (shorter.sqrt().to(v.dtype) / safe.sqrt())
    return m, v, m / short.to(m.dtype) * root


@cache
def _adam_kernels() -> tuple[Any, Any]:
    return jitted("moments_kernel", _MOMENTS), jitted("direction_kernel", _DIRECTION)


# The largest square has to be known before the first direction: two kernels.
_MOMENTS = """
def moments_kernel(m, v, gradient, top, old, new, old_squares, new_squares, n,
                   BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = i < n
    g = tl.load(gradient + i, mask=there, other=0.0)
    first = tl.load(m + i, mask=there, other=0.0)
    second = tl.load(v + i, mask=there, other=0.0)
    first = old * first + new * g
    second = old_squares * second + new_squares * g * g
    tl.store(m + i, first, mask=there)
    tl.store(v + i, second, mask=there)
    tl.atomic_max(top, tl.max(second, axis=0))
"""
_DIRECTION = """
def direction_kernel(m, v, top, t, ascent, log_forget, log_forget_squares, least, n,
                     BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = i < n
    steps = tl.load(t).to(tl.float64)
    short = (1.0 - tl.exp(steps * log_forget)).to(tl.float32)
    shorter = (1.0 - tl.exp(steps * log_forget_squares)).to(tl.float32)
    second = tl.load(v + i, mask=there, other=0.0)
    square = second + least * tl.load(top)
    safe = tl.where(square > 0.0, square, 1.0)
    root = tl.sqrt(second / safe) * (tl.sqrt(shorter) / tl.sqrt(safe))
    first = tl.load(m + i, mask=there, other=0.0) / short
    tl.store(ascent + i, first * root, mask=there)
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
    P_norms = _squared_norms(P)
    x_norms = batch.norms if batch.offsets is None else batch.norms + batch.offsets
    errors = batch.norms, P_norms, error_of(P)
    products = Products(batch.X @ P.T, x_norms, P_norms, *errors)
    if batch.is_risky:
        # An outlier would blur what is near among the others: more digits then.
        X, Q = batch.X.double(), P.double()
        D = _squared_norms(X)[:, None] + _squared_norms(Q) - 2 * X @ Q.T
        D = D if batch.offsets is None else D + batch.offsets[:, None]
        none = torch.zeros_like(x_norms), torch.zeros_like(P_norms)
        products = Products((-0.5 * D).to(P.dtype), *none, *none, 0.0)
    pairs = coefficients(products, labels, batch, loss)
    pulls = pairs.column_sums[:, None] * P
    gradient = torch.addmm(pulls, pairs.C.T, batch.X, beta=2, alpha=-2)
    return pairs.loss, gradient, pairs.wins


def gmlvq_sums(
    P: Tensor, omega: Tensor, labels: Tensor, batch: Any, loss: Any
) -> tuple:
    """Loss, gradients in prototypes and Omega, and wins among the own class."""
    Z, Q = batch.X @ omega.T, P @ omega.T
    size = error_of(P) * (omega * omega).sum()
    norms = _squared_norms(Z), _squared_norms(Q)
    errors = size * batch.norms, size * _squared_norms(P)
    pairs = coefficients(Products(Z @ Q.T, *norms, *errors, 1.0), labels, batch, loss)
    towards = pairs.C.T @ batch.X - pairs.column_sums[:, None] * P
    mapped, row_sums = pairs.C.T @ Z, pairs.C.sum(1)
    by_omega = (Z * row_sums[:, None]).T @ batch.X - mapped.T @ P - Q.T @ towards
    return pairs.loss, -2 * (towards @ omega.T) @ omega, 2 * by_omega, pairs.wins
