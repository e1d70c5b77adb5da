r"""What is left of a pair once its inner products are there: the small solve.

As in :mod:`widemargin._compute.tails`, with delta = x - y, a = U delta, b = V delta,
M = U V^T and stiffness s = 1 + k,

    d^2 = |delta|^2 - |a|^2/s - r^T S^-1 r,   r = b - M^T a/s,   S = s I - M^T M/s.

S is factored S = L L^T, z = L^-1 r takes |z|^2 off, and the trace of S^-1 is the sum of
the squares of L^-1: no eigenvalue of S is below its inverse. With `rounding` = e > 0,
the error of a product per unit of norm, the result is a lower bound,
d^2 - 8e (|x|^2 + |y|^2 + |q|^2) with q = S^-1 r, and -inf where 1/tr(S^-1) < 2e: there
nothing can be said. The proof is that of :mod:`widemargin._compute.tails`. With
`rounding` = -e it is an upper bound: the moves found are moves. With `rounding` = 0 it
is the distance, and `scale`, the second result, is what rounding must be compared with.

Products are (n_x, 1 + l_x, 1 + l_y, n_y): point and frame of the query against those of
the reference. One kernel reads each of them once; its straight code is written out for
the numbers of tangents, as the loops of a compiler would be.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from widemargin._compute.device.replay import jitted, triton_for

AMPLIFIED = 32.0
_BLOCK = 256


def tail(
    products: Tensor,
    x_norms: Tensor,
    x_coefficients: Tensor,
    y_norms: Tensor,
    y_coefficients: Tensor,
    spring: float,
    floor: float,
    rounding: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Squared distances, or lower bounds, and the scale of their rounding.

    Shapes: norms (n,), `x_coefficients` = U x (n_x, l_x), `y_coefficients` = V y
    (l_y, n_y); results (n_x, n_y).
    """
    n_x, rows, columns, n_y = products.shape
    triton = triton_for(products)
    given = (products, x_norms, x_coefficients, y_norms, y_coefficients)
    if triton is None:
        return _plain(*given, spring, floor, rounding)
    out = torch.empty((n_x, n_y), dtype=products.dtype, device=products.device)
    scale = out if rounding else torch.empty_like(out)
    kernel = _kernel(rows - 1, columns - 1)
    grid = (triton.cdiv(n_y, _BLOCK), n_x)
    kernel[grid](
        *(array.contiguous() for array in given), out, scale, n_y,
        1.0 + spring, 1.0 / (1.0 + spring), floor, rounding, rounding != 0, _BLOCK,
    )  # fmt: skip
    return out, scale


def _plain(G, nx, a0, ny, b0, spring, floor, rounding):
    """Do the same in torch operations, one for every line of the kernel."""
    l_x, l_y = G.shape[1] - 1, G.shape[2] - 1
    stiffness, shrink = 1.0 + spring, 1.0 / (1.0 + spring)
    scale = nx[:, None] + ny[None]
    d2 = scale - 2 * G[:, 0, 0]
    r = [G[:, 0, 1 + q] - b0[q][None] for q in range(l_y)]
    S: list[list[Any]] = [[0.0] * (q + 1) for q in range(l_y)]
    for p in range(l_x):
        a = a0[:, p, None] - G[:, 1 + p, 0]
        d2 = d2 - a * a * shrink
        for q in range(l_y):
            m = G[:, 1 + p, 1 + q]
            r[q] = r[q] - m * a * shrink
            for t in range(q + 1):
                S[q][t] = S[q][t] - m * G[:, 1 + p, 1 + t] * shrink
    inverse: list[list[Any]] = []
    trace: Any = 0.0
    moves: list[Any] = [0.0] * l_y
    for q in range(l_y):
        S[q][q] = S[q][q] + stiffness
        for t in range(q + 1):
            for u in range(t):
                S[q][t] = S[q][t] - S[q][u] * S[t][u]
            if t < q:
                S[q][t] = S[q][t] * inverse[t][t]
        unit = torch.rsqrt(torch.clamp(torch.as_tensor(S[q][q]), min=floor))
        row = []
        for t in range(q):
            total = sum(S[q][u] * inverse[u][t] for u in range(t, q))
            row.append(-total * unit)
        inverse.append([*row, unit])
        z = sum(inverse[q][t] * r[t] for t in range(q + 1))
        d2 = d2 - z * z
        for t in range(q + 1):
            moves[t] = moves[t] + inverse[q][t] * z
            trace = trace + inverse[q][t] * inverse[q][t]
        if rounding == 0:
            scale = scale + AMPLIFIED * z * z * unit * unit
    if rounding != 0:
        lengths = scale + sum(q * q for q in moves)
        d2 = torch.where(
            torch.as_tensor(trace * (2 * rounding) <= 1),
            d2 - 8 * rounding * lengths,
            -torch.inf,
        )
    return d2, scale


@cache
def _kernel(l_x: int, l_y: int) -> Any:
    """Compile the kernel for so many tangents at the query and at the reference."""
    return jitted("tail_kernel", _source(l_x, l_y), f"{l_x} and {l_y} tangents")


def _source(l_x: int, l_y: int) -> str:
    """Write the kernel out: `_plain` line by line, a scalar for every array there."""
    lines = [
        "def tail_kernel(G, nx, a0, ny, b0, out, scales, n, stiffness, shrink, floor,",
        "                rounding, LOWER: tl.constexpr, BLOCK: tl.constexpr):",
        "    i = tl.program_id(1).to(tl.int64)",
        "    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "    there = j < n",
        f"    base = G + i * n * {(1 + l_x) * (1 + l_y)} + j",
        # Triton makes a plain 1 of an argument that is 1.
        "    step = i * 0 + n",
        "    scale = tl.load(nx + i) + tl.load(ny + j, mask=there, other=0.0)",
        "    d2 = scale - 2.0 * tl.load(base, mask=there, other=0.0)",
    ]
    say = lines.append
    for q in range(l_y):
        say(
            f"    r{q} = tl.load(base + {1 + q} * step, mask=there, other=0.0)"
            f" - tl.load(b0 + {q} * step + j, mask=there, other=0.0)"
        )
        for t in range(q + 1):
            say(f"    s{q}_{t} = tl.zeros([BLOCK], tl.float32)")
    for p in range(l_x):
        row = (1 + p) * (1 + l_y)
        say(
            f"    a = tl.load(a0 + i * {l_x} + {p})"
            f" - tl.load(base + {row} * step, mask=there, other=0.0)"
        )
        say("    d2 -= a * a * shrink")
        for q in range(l_y):
            at = row + 1 + q
            say(f"    m{q} = tl.load(base + {at} * step, mask=there, other=0.0)")
            say(f"    r{q} -= m{q} * a * shrink")
            lines += [f"    s{q}_{t} -= m{q} * m{t} * shrink" for t in range(q + 1)]
    say("    trace = tl.zeros([BLOCK], tl.float32)")
    say("    amplified = tl.zeros([BLOCK], tl.float32)")
    lines += [f"    q{t} = tl.zeros([BLOCK], tl.float32)" for t in range(l_y)]
    for q in range(l_y):
        say(f"    s{q}_{q} += stiffness")
        for t in range(q + 1):
            lines += [f"    s{q}_{t} -= s{q}_{u} * s{t}_{u}" for u in range(t)]
            if t < q:
                say(f"    s{q}_{t} *= i{t}_{t}")
        say(f"    i{q}_{q} = tl.rsqrt(tl.maximum(s{q}_{q}, floor))")
        for t in range(q):
            total = " + ".join(f"s{q}_{u} * i{u}_{t}" for u in range(t, q))
            say(f"    i{q}_{t} = -({total}) * i{q}_{q}")
        total = " + ".join(f"i{q}_{t} * r{t}" for t in range(q + 1))
        say(f"    z = {total}")
        say("    d2 -= z * z")
        say(f"    amplified += z * z * i{q}_{q} * i{q}_{q}")
        for t in range(q + 1):
            say(f"    q{t} += i{q}_{t} * z")
            say(f"    trace += i{q}_{t} * i{q}_{t}")
    squares = " + ".join(f"q{t} * q{t}" for t in range(l_y)) or "0.0"
    lines += [
        "    if LOWER:",
        f"        lengths = scale + {squares}",
        "        known = trace * (2.0 * rounding) <= 1.0",
        "        d2 = tl.where(known, d2 - 8.0 * rounding * lengths, -float('inf'))",
        "    else:",
        f"        scale += {AMPLIFIED} * amplified",
        "        tl.store(scales + i * step + j, scale, mask=there)",
        "    tl.store(out + i * step + j, d2, mask=there)",
    ]
    return "\n".join(lines) + "\n"
