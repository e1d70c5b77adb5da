"""All-pairs tangent distances on a device: one stacked product, one tail, by chunks.

`Ends` keeps what belongs to one set of samples, so that references are prepared once.
A chunk is some queries against all references; where the device runs out of memory the
chunk is halved and the work goes on. Pairs whose distance is mostly rounding are
computed again from their residual in float64, as on the CPU.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from widemargin._compute.device.residuals import paired_distances
from widemargin._compute.device.tails import tail

# Relative size below which a squared distance is recomputed from its residual.
SUSPECT = {torch.float32: 1e-5, torch.float64: 1e-10}
# Products held at once, in numbers: 8 GiB in float32, or a third of what is free.
PRODUCTS = 2**31
# Pairs whose frames are gathered at once, in numbers.
GATHERED = 2**28


@contextmanager
def products_in(tf32: bool) -> Iterator[None]:
    """Let float32 products on CUDA be rounded to TF32, or forbid it."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@dataclass(frozen=True)
class Ends:
    """Samples of one end, with the inner products of each with itself.

    `raw` (n, d) are the points as they came; `rows` (n, 1 + l, d) are [point; frame],
    the points centred; `norms` (n,) and `coefficients` (n, l) are of the centred ones.
    """

    raw: Tensor
    rows: Tensor
    norms: Tensor
    coefficients: Tensor

    @classmethod
    def prepare(cls, points: Tensor, frames: Tensor, centre: Tensor) -> "Ends":
        """Centre the points and take the products with themselves."""
        centred = (points.to(centre.dtype) - centre).to(points.dtype)
        norms = (centred.double() ** 2).sum(1).to(points.dtype)
        with products_in(tf32=False):
            coefficients = torch.einsum("nld,nd->nl", frames, centred)
        rows = torch.cat([centred[:, None], frames], 1)
        return cls(points, rows, norms, coefficients)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def points(self) -> Tensor:
        """(n, d) centred points."""
        return self.rows[:, 0]

    @property
    def frames(self) -> Tensor:
        """(n, l, d) frames."""
        return self.rows[:, 1:]

    def take(self, some: Tensor | slice) -> "Ends":
        """Return some of the samples."""
        fields = (self.raw, self.rows, self.norms, self.coefficients)
        return Ends(*(field[some] for field in fields))

    def stack(self, *, tangent_major: bool) -> Tensor:
        """[point; frame] as rows of one matrix."""
        rows = self.rows.transpose(0, 1) if tangent_major else self.rows
        return rows.reshape(-1, self.rows.shape[2])

    def frameless(self) -> "Ends":
        """Return the same samples, staying put."""
        return Ends(self.raw, self.rows[:, :1], self.norms, self.coefficients[:, :0])


def halving(size: int, n: int, work: Callable[[slice], None]) -> None:
    """Do `work` on consecutive slices; halve them where memory runs out."""
    start = 0
    while start < n:
        rows = slice(start, min(start + size, n))
        try:
            work(rows)
        except torch.cuda.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            if size == 1:
                raise MemoryError(
                    f"the device has no memory for row {start} of {n}, alone in its "
                    "chunk; use fewer references, float32, or a larger device."
                ) from error
            size = max(1, size // 2)
            continue
        start = rows.stop


def chunk_size(n_y: int, rows: int, columns: int, like: Tensor) -> int:
    """How many queries may meet all references at once."""
    numbers = PRODUCTS
    if like.is_cuda:
        free, _ = torch.cuda.mem_get_info(like.device)
        # What torch holds, and does not use, is free too.
        free += torch.cuda.memory_reserved(like.device)
        free -= torch.cuda.memory_allocated(like.device)
        numbers = min(numbers, free // (3 * like.element_size()))
    return max(1, numbers // max(1, n_y * rows * columns))


def stacked_products(x: Ends, y: Ends, y_stack: Tensor, tf32: bool = False) -> Tensor:
    """(n_x, 1 + l_x, 1 + l_y, n_y) products of points and frames."""
    with products_in(tf32):
        products = x.stack(tangent_major=False) @ y_stack.T
    return products.view(len(x), 1 + x.frames.shape[1], 1 + y.frames.shape[1], len(y))


def floor_of(spring: float, dtype: torch.dtype) -> float:
    """Return the smallest pivot S can have; rounding may say less."""
    return max((1 + spring) - 1 / (1 + spring), 8 * torch.finfo(dtype).eps)


def two_sided(x: Ends, y: Ends, y_stack: Tensor, spring: float) -> Tensor:
    """Squared distances of all pairs, suspects computed again."""
    products = stacked_products(x, y, y_stack)
    d2, scale = tail(
        products, x.norms, x.coefficients, y.norms, y.coefficients.T.contiguous(),
        spring, floor_of(spring, products.dtype),
    )  # fmt: skip
    # Not d2 < ...: NaN must be suspect too.
    return repaired(d2, ~(d2 >= SUSPECT[d2.dtype] * scale), x, y, "two", spring)


def one_sided(x: Ends, y: Ends, y_stack: Tensor, spring: float) -> Tensor:
    """|delta|^2 - |V delta|^2/(1 + k), tangents at y."""
    products = stacked_products(x.frameless(), y, y_stack)[:, 0]
    scale = x.norms[:, None] + y.norms[None]
    d2 = scale - 2 * products[:, 0]
    for q in range(y.frames.shape[1]):
        b = products[:, 1 + q] - y.coefficients[:, q]
        d2 = d2 - b * b / (1 + spring)
    return repaired(d2, ~(d2 >= SUSPECT[d2.dtype] * scale), x, y, "y", spring)


def repaired(
    d2: Tensor, suspect: Tensor, x: Ends, y: Ends, sides: str, spring: float
) -> Tensor:
    """Compute the suspects again from their residuals."""
    i, j = suspect.nonzero(as_tuple=True)
    if len(i):
        d2[i, j] = listed(x, i, y, j, sides, spring).to(d2.dtype)
    return d2


def listed(x: Ends, i: Tensor, y: Ends, j: Tensor, sides: str, spring: float) -> Tensor:
    """Squared distances in float64 of the pairs (x[i], y[j])."""
    numbers = (2 + x.frames.shape[1] + y.frames.shape[1]) * x.points.shape[1]
    out = torch.empty(len(i), dtype=torch.float64, device=x.points.device)

    def fill(rows: slice) -> None:
        at, to = i[rows], j[rows]
        out[rows] = paired_distances(
            x.raw[at], x.frames[at], y.raw[to], y.frames[to], sides, spring
        )

    halving(max(1, GATHERED // numbers), len(i), fill)
    return out


def pair_distances(
    x: Tensor,
    x_frames: Tensor,
    y: Tensor,
    y_frames: Tensor,
    *,
    sides: str,
    spring: float,
    squared: bool = True,
) -> Tensor:
    """Tangent distances (n_x, n_y) between all rows of `x` and of `y`.

    Parameters and rules as in :func:`widemargin._compute.pairs.pair_distances`.
    """
    out = torch.empty((len(x), len(y)), dtype=x.dtype, device=x.device)
    target = out
    if sides == "x" or (sides == "two" and y_frames.shape[1] > x_frames.shape[1]):
        x, x_frames, y, y_frames, target = y, y_frames, x, x_frames, out.T
        sides = "y" if sides == "x" else sides
    centre = y.double().mean(0)
    x_end = Ends.prepare(x, x_frames, centre)
    y_end = Ends.prepare(y, y_frames, centre)
    y_stack = y_end.stack(tangent_major=True)

    def fill(rows: slice) -> None:
        some = x_end.take(rows)
        if sides == "two":
            d2 = two_sided(some, y_end, y_stack, spring)
        else:
            d2 = one_sided(some, y_end, y_stack, spring)
            if sides == "mean":
                other = one_sided(y_end, some, some.stack(tangent_major=True), spring).T
                d2 = (d2 + other) / 2
        target[rows] = d2 if squared else torch.sqrt(d2)

    rows = 1 + (x_frames.shape[1] if sides == "two" else 0)
    halving(chunk_size(len(y), rows, 1 + y_frames.shape[1], x), len(x), fill)
    return out
