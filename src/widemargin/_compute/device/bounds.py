r"""Which pairs may be near: bounds of all pairs in one kernel, and a list of the few.

Projected points and frames of queries and references meet in float16, summed in
float32: rows of length at most one, so that the error of a product is that of rounding
them, 2^-11 of their length. A program keeps some queries, point and frame, and passes
over references in tiles. The products of one direction of the queries with all rows of
a tile are used up before those of the next: nothing of size queries times references is
ever written. What is: the references of every query whose bound, with a number added
per reference, is within its limit.

Tiles are 16 references. Rows of a tile are ordered by halves, then by point and
tangents, then by reference: the tensor cores then leave all products of a pair in the
registers of one thread. Tangents are padded to a power of two; tiles and queries are
filled up with samples that are never near.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from widemargin._compute.device.kernels import jitted, launch, triton_for
from widemargin._compute.device.pairs import (
    bounded,
    columns,
    eliminated,
    floor_of,
    padded,
    solved,
)

# Queries and references that meet at once, and references of half a tile.
ROWS, COLUMNS, _HALF = 64, 16, 8
# Tiles that a program passes over: enough to make up for reading its queries.
_TILES = 256


@dataclass(frozen=True)
class Side:
    """Samples as the kernel reads them: n of them, the rest is filling.

    `rows` are in float16, `along` (l, n) the points' products with their own frame,
    `units` what rows of points were divided by.
    """

    n: int
    rows: Tensor
    norms: Tensor
    along: Tensor
    units: Tensor

    @classmethod
    def of_queries(cls, shadow: Any) -> "Side":
        """Lay samples out point and tangent by point and tangent."""
        halves = _filled(_widened(shadow.halves), ROWS).transpose(0, 1)
        return cls._of(shadow, halves.contiguous(), ROWS)

    @classmethod
    def of_references(cls, shadow: Any) -> "Side":
        """Lay samples out by tiles."""
        halves = _filled(_widened(shadow.halves), COLUMNS)
        n, height, width = halves.shape
        rows = halves.new_zeros((n // _HALF, padded(height), _HALF, width))
        rows[:, :height] = halves.view(-1, _HALF, height, width).transpose(1, 2)
        return cls._of(shadow, rows, COLUMNS)

    @classmethod
    def _of(cls, shadow: Any, rows: Tensor, multiple: int) -> "Side":
        norms = _filled(shadow.exact.norms, multiple)
        along = _filled(shadow.exact.coefficients, multiple).T.contiguous()
        units = _filled(shadow.units, multiple)
        return cls(len(shadow.exact), rows, norms, along, units)


def _filled(array: Tensor, multiple: int, value: float = 0.0) -> Tensor:
    """Fill up to a multiple of so many entries."""
    more = -len(array) % multiple
    filling = array.new_full((more, *array.shape[1:]), value)
    return torch.cat([array, filling]) if more else array.contiguous()


def _widened(halves: Tensor) -> Tensor:
    """Fill rows up with zeros to the next power of two."""
    width = halves.shape[-1]
    return torch.nn.functional.pad(halves, (0, padded(max(16, width)) - width))


def shared_memory(l_x: int, l_y: int, width: int, stages: int) -> int:
    """Bytes that a program keeps near: its queries, and tiles that are on their way."""
    return (
        2
        * padded(max(16, width))
        * ((1 + l_x) * ROWS + stages * padded(1 + l_y) * COLUMNS)
    )


def stages_for(like: Tensor, l_x: int, l_y: int, width: int) -> int:
    """How many tiles may be on their way; 0 where the kernel cannot run at all."""
    if triton_for(like) is None or l_x == 0 or l_y == 0:
        return 0
    there = 227 * 1024
    if like.is_cuda:
        device = torch.cuda.get_device_properties(like.device)
        there = device.shared_memory_per_block_optin
    # Besides, the kernel needs a little for itself.
    fits = [n for n in (1, 2) if shared_memory(l_x, l_y, width, n) + 2048 <= there]
    return max(fits, default=0)


def within(
    x: Side, y: Side, offsets: Tensor, limits: Tensor, room: int, spring: float,
    error: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """How many references are within the limit of each query, which, and their bounds.

    Of a query that has more than `room` of them some are left out. Places that are
    not taken have a bound of infinity.
    """
    n_x, n_y, width = len(x.norms), len(y.norms), x.rows.shape[-1]
    l_x, l_y = len(x.along), len(y.along)
    counts = torch.zeros(n_x, dtype=torch.int32, device=limits.device)
    there = torch.zeros((x.n, room), dtype=torch.int32, device=limits.device)
    values = torch.full((x.n, room), torch.inf, device=limits.device)
    # Filling is at infinity, and within no limit.
    limits = limits.clamp(max=torch.finfo(torch.float32).max)
    limits = _filled(limits, ROWS, -torch.inf)
    numbers = torch.stack([x.norms, x.units, limits, *x.along], dim=1)
    launch(
        bounds_kernel(l_x, l_y),
        (n_x // ROWS, -(-(n_y // COLUMNS) // _TILES)),
        x.rows, y.rows, numbers, y.norms, y.along, y.units,
        _filled(offsets, COLUMNS, torch.inf), counts, there, values, n_x, n_y, room,
        _TILES,
        1.0 + spring, 1.0 / (1.0 + spring), floor_of(spring, torch.float32), error,
        K=width, ROWS=ROWS, COLUMNS=COLUMNS,
        STAGES=stages_for(x.norms, l_x, l_y, width), num_warps=8,
    )  # fmt: skip
    return counts[: x.n].long(), there, values


@cache
def bounds_kernel(l_x: int, l_y: int) -> Any:
    of = f"{l_x} and {l_y} tangents"
    return jitted("bounds_kernel", _source(l_x, l_y), of, aligned=("X", "Y"))


def _source(l_x: int, l_y: int) -> str:
    """Write the kernel out, for so many tangents at the query and at the reference."""
    height = padded(1 + l_y)
    start = [
        "i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)",
        "k = tl.arange(0, K)",
        *(
            f"x{p} = tl.load(X + ({p} * n_x + i)[:, None] * K + k[None, :])"
            for p in range(1 + l_x)
        ),
        *columns("numbers", "i", 3 + l_x),
        "nx = numbers0[:, None]",
        "ux = numbers1[:, None]",
        "limit = numbers2[:, None]",
        *(f"a{p} = numbers{3 + p}[:, None]" for p in range(l_x)),
        "first = tl.program_id(1) * tiles",
        "last = tl.minimum(first + tiles, n_y // COLUMNS)",
        "whole = tl.zeros([ROWS, COLUMNS], tl.int32)",
        "query = i[:, None] + whole",
        # Addresses go through the loop: Triton looks for all that follows from any
        # other, for a tenth of a second each.
        f"rows = first * (COLUMNS * {height}) + tl.arange(0, COLUMNS * {height})",
        "at_y = Y + rows.to(tl.int64)[None, :] * K + k[:, None]",
        "j = first * COLUMNS + tl.arange(0, COLUMNS)",
        *(f"at_{name} = y_{name} + j" for name in ("norms", "units", "offsets")),
        *(f"at_along{q} = y_along + {q} * n_y + j" for q in range(l_y)),
    ]
    carried = ["norms", "units", "offsets", *(f"along{q}" for q in range(l_y))]
    each = [
        "y = tl.load(at_y)",
        "ny = tl.load(at_norms)[None, :]",
        "uy = tl.load(at_units)[None, :]",
        "scale = nx + ny",
        *_products("g", 0, l_y),
        "d2 = scale - 2.0 * (g0 * (ux * uy))",
        *(f"r{q} = g{1 + q} * ux - tl.load(at_along{q})[None, :]" for q in range(l_y)),
    ]
    for p in range(l_x):
        each += [*_products("m", 1 + p, l_y), f"a = a{p} - m0 * uy"]
        each += eliminated(l_y, first=p == 0)
    each += [*solved(l_x, l_y), *bounded(l_y)]
    each += [
        "near += tl.load(at_offsets)[None, :]",
        "within = near <= limit",
        "counter = counts + query",
        "place = tl.atomic_add(counter, whole + 1, mask=within, sem='relaxed')",
        "kept = within & (place < room)",
        "at = query.to(tl.int64) * room + place",
        "tl.store(places + at, j[None, :] + whole, mask=kept)",
        "tl.store(values + at, near, mask=kept)",
        f"at_y += COLUMNS * {height} * K",
        "j += COLUMNS",
        *(f"at_{name} += COLUMNS" for name in carried),
    ]
    lines = [
        "def bounds_kernel(X, Y, numbers, y_norms, y_along, y_units, y_offsets,",
        "                  counts, places, values, n_x, n_y, room, tiles, stiffness,",
        "                  shrink, floor, rounding, K: tl.constexpr,",
        "                  ROWS: tl.constexpr, COLUMNS: tl.constexpr,",
        "                  STAGES: tl.constexpr):",
        *("    " + line for line in start),
        "    for t in tl.range(first, last, num_stages=STAGES):",
        *("        " + line for line in each),
    ]
    return "\n".join(lines) + "\n"


def _products(name: str, p: int, l_y: int) -> list[str]:
    """Lines that multiply row p of the queries with a tile, and take it apart by row.

    The last axis of two is taken apart, as often as there are bits in the row.
    """
    bits = padded(1 + l_y).bit_length() - 1
    twos, order = ", ".join(["2"] * bits), ", ".join(str(2 + b) for b in range(bits))
    lines = [
        f"{name} = tl.dot(x{p}, y)",
        f"{name} = tl.reshape({name}, [ROWS, COLUMNS // {_HALF}, {twos}, {_HALF}])",
        f"{name} = tl.permute({name}, [0, 1, {2 + bits}, {order}])",
    ]

    def split(part: str, bit: int, row: int) -> None:
        if row > l_y:
            return
        if bit == bits:
            lines.append(f"{name}{row} = tl.reshape({part}, [ROWS, COLUMNS])")
            return
        low, high = f"{part}_0", f"{part}_1"
        lines.append(f"{low}, {high} = tl.split({part})")
        split(low, bit + 1, row)
        split(high, bit + 1, row + (1 << bit))

    split(name, 0, 0)
    return lines
