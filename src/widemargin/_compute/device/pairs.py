"""All-pairs tangent distances on a device: one stacked product, one tail, by chunks.

`Ends` keeps what belongs to one set of samples, so that references are prepared once.
A chunk is some queries against all references; where the device runs out of memory the
chunk is halved and the work goes on. Pairs whose distance is mostly rounding are
computed again from their residual in float64, as on the CPU.

*Tails* are what is left of a pair once its inner products are there: the small solve.
As in :mod:`widemargin._compute.tangent_elimination`, with delta = x - y, a = U delta, b
= V delta, M = U V^T and stiffness s = 1 + k,

    d^2 = |delta|^2 - |a|^2/s - r^T S^-1 r,   r = b - M^T a/s,   S = s I - M^T M/s.

S is factored S = L L^T, z = L^-1 r takes |z|^2 off, and the trace of S^-1 is the sum of
the squares of L^-1: no eigenvalue of S is below its inverse. With `rounding` = e > 0,
the error of a product per unit of norm, the result is a lower bound,
d^2 - 8e (|x|^2 + |y|^2 + |q|^2) with q = S^-1 r, and -inf where 1/tr(S^-1) < 2e: there
nothing can be said. The proof is that of
:mod:`widemargin._compute.tangent_elimination`. With `rounding` = -e it is an upper
bound: the moves found are moves. With `rounding` = 0 it is the distance, and `scale`,
the second result, is what rounding must be compared with.

Products are (n_x, 1 + l_x, 1 + l_y, n_y): point and frame of the query against those of
the reference. One kernel reads each of them once; its straight code is written out for
the numbers of tangents, as the loops of a compiler would be.

*Residuals*, in float64, give the distances of listed pairs. The moves c along the
stacked rows W = [U; V] solve (W W^T + k I) c = W delta, all inner products taken, in
two steps, the second from the residual of the first: the rule of
:mod:`widemargin._compute.frames`, for many pairs at once.

*Frames* of many samples at once are made orthonormal by pivoted Gram-Schmidt over the
batch. The rule is that of :mod:`widemargin._compute.frames`: rows of length one, the
row with the most left outside the span so far comes next, what is left below `rtol` is
dependent, zero rows stand last. All samples take the same number of steps; the work is
done in float64, and costs a few passes over the tangents.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from widemargin._compute.device.kernels import jitted, launch, triton_for
from widemargin._compute.formulas import ROUNDING, fits_squares
from widemargin._compute.machine import DEVICE_NUMBERS
from widemargin._compute.rounding import epsilon, product_error

# Relative size below which a squared distance is recomputed from its residual.
SUSPECT = {torch.float32: 1e-5, torch.float64: 1e-10}
# Products held at once, in numbers: 8 GiB in float32, or a third of what is free.
PRODUCTS = 2**31
# Pairs whose frames are gathered at once, in numbers.
GATHERED = 2**29


def error_of(rows: Tensor) -> float:
    """Error of a product in the dtype of the rows, per unit of norm."""
    return product_error(_name(rows.dtype), rows.shape[-1])


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


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


def chunk_until_fits(size: int, n: int, work: Callable[[slice], None]) -> None:
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


def fill_blocks(fill: Callable[[slice], None], out: Tensor, n_jobs: Any) -> None:
    """As `tangents.bundle.fill_blocks`."""
    chunk_until_fits(max(1, DEVICE_NUMBERS // max(1, out[:1].numel())), len(out), fill)


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
    return max((1 + spring) - 1 / (1 + spring), 8 * epsilon(_name(dtype)))


def two_sided(x: Ends, y: Ends, y_stack: Tensor, spring: float) -> Tensor:
    """Squared distances of all pairs, suspects computed again."""
    products = stacked_products(x, y, y_stack)
    d2, scale = tail(
        products, x.norms, x.coefficients, y.norms, y.coefficients.T.contiguous(),
        spring, floor_of(spring, products.dtype),
    )  # fmt: skip
    # Not d2 < ...: NaN must be suspect too.
    return repaired(d2, ~(d2 >= SUSPECT[d2.dtype] * scale), x, y, "both", spring)


def one_sided(x: Ends, y: Ends, y_stack: Tensor, spring: float) -> Tensor:
    """|delta|^2 - |V delta|^2/(1 + k), tangents at y."""
    products = stacked_products(x.frameless(), y, y_stack)[:, 0]
    scale = x.norms[:, None] + y.norms[None]
    d2 = scale - 2 * products[:, 0]
    for q in range(y.frames.shape[1]):
        b = products[:, 1 + q] - y.coefficients[:, q]
        d2 = d2 - b * b / (1 + spring)
    return repaired(d2, ~(d2 >= SUSPECT[d2.dtype] * scale), x, y, "reference", spring)


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

    chunk_until_fits(max(1, GATHERED // numbers), len(i), fill)
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
    if sides == "query" or (sides == "both" and y_frames.shape[1] > x_frames.shape[1]):
        x, x_frames, y, y_frames, target = y, y_frames, x, x_frames, out.T
        sides = "reference" if sides == "query" else sides
    centre = y.double().mean(0)
    x_end = Ends.prepare(x, x_frames, centre)
    y_end = Ends.prepare(y, y_frames, centre)
    y_stack = y_end.stack(tangent_major=True)

    def fill(rows: slice) -> None:
        some = x_end.take(rows)
        if sides == "both":
            d2 = two_sided(some, y_end, y_stack, spring)
        else:
            d2 = one_sided(some, y_end, y_stack, spring)
            if sides == "mean":
                other = one_sided(y_end, some, some.stack(tangent_major=True), spring).T
                d2 = (d2 + other) / 2
        target[rows] = d2 if squared else torch.sqrt(d2)

    rows = 1 + (x_frames.shape[1] if sides == "both" else 0)
    chunk_until_fits(chunk_size(len(y), rows, 1 + y_frames.shape[1], x), len(x), fill)
    return out


def all_pairs(
    x: Tensor, x_frames: Tensor, y: Tensor, y_frames: Tensor, sides: str, spring: float,
    options: dict[str, Any],
) -> Tensor:  # fmt: skip
    """As `metrics.tangent.all_pairs`."""
    ends = x, x_frames, y, y_frames
    if not fits_squares(max(_largest(x), _largest(y))):
        ends = tuple(end.double() for end in ends)
    squared = options["squared"]
    return pair_distances(*ends, sides=sides, spring=spring, squared=squared)


def by_function(function: Any, X: Tensor, Y: Tensor, n_jobs: Any) -> Any:
    """As `neighbors.index.by_function`, of all rows at once."""
    return function(X, Y)


def _largest(X: Tensor) -> float:
    return float(X.abs().max()) if X.numel() else 0.0


def midpoint_distances(
    x: Tensor, y: Tensor, generator: Any, spring: float, symmetric: bool, squared: bool,
    n_jobs: Any,
) -> Tensor:  # fmt: skip
    """As `metrics.tangent.midpoint_distances`: images and frames of some pairs."""
    fits_squares(max(_largest(x), _largest(y)))
    n_x, (n_y, d) = len(x), y.shape
    out = torch.empty(n_x * n_y, dtype=x.dtype, device=x.device)
    rtol = epsilon() ** (2 / 3)

    def fill(pairs: slice) -> None:
        at = torch.arange(pairs.start, pairs.stop, device=x.device)
        one, other = x[at // n_y].double(), y[at % n_y].double()
        frames = gram_schmidt(generator.tangents((one + other) / 2), rtol)
        d2 = paired_distances(one, frames[:, :0], other, frames, "reference", spring)
        out[pairs] = (d2 if squared else torch.sqrt(d2)).to(out.dtype)

    per_pair = 8 * d * (2 + generator.tangents(x[:1]).shape[1])
    chunk_until_fits(max(1, GATHERED // per_pair), len(out), fill)
    return out.reshape(n_x, n_y)


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
    launch(
        tail_kernel(rows - 1, columns - 1), (triton.cdiv(n_y, _BLOCK), n_x),
        *(array.contiguous() for array in given), out, scale, n_y,
        1.0 + spring, 1.0 / (1.0 + spring), floor, rounding,
        LOWER=rounding != 0, BLOCK=_BLOCK,
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
def tail_kernel(l_x: int, l_y: int) -> Any:
    """Compile the kernel for so many tangents at the query and at the reference."""
    return jitted("tail_kernel", _source(l_x, l_y), f"{l_x} and {l_y} tangents", ())


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
    if l_x:
        # A loop, not written out: Triton compiles that in a tenth of the time.
        zeros = [f"    s{q}_{t} = tl.zeros_like(scale)" for q, t in _triangle(l_y)]
        lines += [
            *zeros,
            f"    for p in range({l_x}):",
            f"        row = base + ((1 + p) * {1 + l_y}) * step",
            *(
                f"        m{q} = tl.load(row + {q} * step, mask=there, other=0.0)"
                for q in range(1 + l_y)
            ),
            f"        a = tl.load(a0 + i * {l_x} + p) - m0",
            *("        " + line for line in eliminated(l_y)),
        ]
    lines += ["    " + line for line in solved(l_x, l_y)]
    lines += [
        "    if LOWER:",
        *("        " + line for line in bounded(l_y)),
        "        d2 = near",
        "    else:",
        "        amplified = tl.zeros_like(scale)",
        *(
            f"        amplified += z{q} * z{q} * s{q}_{q} * s{q}_{q}"
            for q in range(l_y)
        ),
        f"        scale += {AMPLIFIED} * amplified",
        "        tl.store(scales + i * step + j, scale, mask=there)",
        "    tl.store(out + i * step + j, d2, mask=there)",
    ]
    return "\n".join(lines) + "\n"


def _triangle(n: int) -> list[tuple[int, int]]:
    """Rows and columns of a lower triangle."""
    return [(q, t) for q in range(n) for t in range(q + 1)]


def eliminated(l_y: int, first: bool = False) -> list[str]:
    """Lines of a kernel that take a direction of x away: a, and its products m1, ...

    `s` holds the lower triangle of M^T M meanwhile; the first direction begins it.
    """
    lines = ["d2 -= a * a * shrink", "a *= shrink"]
    adds = "=" if first else "+="
    for q in range(l_y):
        lines.append(f"r{q} -= m{1 + q} * a")
        lines += [f"s{q}_{t} {adds} m{1 + q} * m{1 + t}" for t in range(q + 1)]
    return lines


def solved(l_x: int, l_y: int) -> list[str]:
    """Lines that factor S, in place, its diagonal inverted, and take |z|^2 off."""
    lines = []
    for q in range(l_y):
        for t in range(q + 1):
            size = "stiffness" if q == t else "0.0"
            product = f"s{q}_{t} * shrink" if l_x else "tl.zeros_like(scale)"
            lines.append(f"s{q}_{t} = {size} - {product}")
            lines += [f"s{q}_{t} -= s{q}_{u} * s{t}_{u}" for u in range(t)]
            if t < q:
                lines.append(f"s{q}_{t} *= s{t}_{t}")
        lines.append(f"s{q}_{q} = tl.rsqrt(tl.maximum(s{q}_{q}, floor))")
        lines.append(f"z{q} = r{q}")
        lines += [f"z{q} -= s{q}_{t} * z{t}" for t in range(q)]
        lines += [f"z{q} *= s{q}_{q}", f"d2 -= z{q} * z{q}"]
    return lines


def bounded(l_y: int) -> list[str]:
    """Lines for the bounds of d2: the trace of S^-1, and the lengths with S^-1 r.

    The inverse of L is made column by column, of which one is held at a time.
    """
    lines = ["trace = tl.zeros_like(scale)"]
    for t in range(l_y):
        lines += [f"c{t} = s{t}_{t}", f"trace += c{t} * c{t}"]
        for q in range(t + 1, l_y):
            total = " + ".join(f"s{q}_{u} * c{u}" for u in range(t, q))
            lines += [f"c{q} = -({total}) * s{q}_{q}", f"trace += c{q} * c{q}"]
    lines.append("lengths = scale")
    for t in reversed(range(l_y)):
        lines.append(f"q{t} = z{t}")
        lines += [f"q{t} -= s{u}_{t} * q{u}" for u in range(t + 1, l_y)]
        lines += [f"q{t} *= s{t}_{t}", f"lengths += q{t} * q{t}"]
    return [
        *lines,
        "known = trace * (2.0 * rounding) <= 1.0",
        "slack = 8.0 * rounding * lengths",
        "near = tl.where(known, d2 - slack, -float('inf'))",
    ]


# Pairs of a program, one a warp, whose lanes share the numbers of a row.
_PAIRS, _LANES = 2, 32


def listed_bounds(
    x: Ends, i: Tensor, y: Ends, j: Tensor, spring: float
) -> tuple[Tensor, Tensor]:
    """Two-sided bounds of listed pairs, below and above, in one kernel."""
    near = torch.empty(len(i), dtype=x.rows.dtype, device=i.device)
    far = torch.empty_like(near)
    ends = [
        array.contiguous()
        for end in (x, y)
        for array in (end.rows, end.norms, end.coefficients)
    ]
    l_x, l_y = x.frames.shape[1], y.frames.shape[1]
    if len(i):
        launch(
            pair_kernel(l_x, l_y), (-(-len(i) // _PAIRS),),
            *ends, i.contiguous(), j.contiguous(), near, far, len(i), x.rows.shape[2],
            1.0 + spring, 1.0 / (1.0 + spring), floor_of(spring, near.dtype),
            error_of(x.rows), PAIRS=_PAIRS, LANES=_LANES, num_warps=_PAIRS,
        )  # fmt: skip
    return near, far


@cache
def pair_kernel(l_x: int, l_y: int) -> Any:
    of = f"{l_x} and {l_y} tangents"
    return jitted("pair_kernel", _pair_source(l_x, l_y), of, aligned=())


def columns(name: str, rows: str, count: int) -> list[str]:
    """Lines that load the columns of a matrix at once, and take them apart."""
    columns = f"tl.arange(0, {padded(count)})[None, :]"
    return [
        f"column = {columns}",
        f"whole = tl.load({name} + {rows}[:, None] * {count} + column,"
        f" mask=column < {count}, other=0.0)",
        *(
            f"{name}{p} = tl.sum(tl.where(column == {p}, whole, 0.0), axis=1)"
            for p in range(count)
        ),
    ]


def padded(height: int) -> int:
    """Return the next power of two."""
    return 1 << (height - 1).bit_length()


def _pair_source(l_x: int, l_y: int) -> str:
    """Write out a kernel for listed pairs: products in float32, then the tail."""
    products = [(p, q) for p in range(1 + l_x) for q in range(1 + l_y)]
    ends = [("x", p) for p in range(1 + l_x)] + [("y", q) for q in range(1 + l_y)]
    lines = [
        "pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)",
        "there = pair < m",
        "i = tl.load(xs + pair, mask=there, other=0)",
        "j = tl.load(ys + pair, mask=there, other=0)",
        "lane = tl.arange(0, LANES)",
        f"x = X + i[:, None] * ({1 + l_x} * width) + lane[None, :]",
        f"y = Y + j[:, None] * ({1 + l_y} * width) + lane[None, :]",
        # Addresses go through the loop: what else follows from them would be looked
        # through by Triton once for each, for seconds.
        *(f"at_{name}{p} = {name} + {p} * width" for name, p in ends),
        *(f"g{p}_{q} = tl.zeros([PAIRS, LANES], tl.float32)" for p, q in products),
        "for k in range(0, width, LANES):",
        "    inside = (lane < width - k)[None, :] & there[:, None]",
    ]
    for name, p in ends:
        lines += [
            f"    {name}{p} = tl.load(at_{name}{p}, mask=inside, other=0.0)",
            f"    at_{name}{p} += LANES",
        ]
    lines += [f"    g{p}_{q} += x{p} * y{q}" for p, q in products]
    lines += [f"g{p}_{q} = tl.sum(g{p}_{q}, axis=1)" for p, q in products]
    lines += [
        "scale = tl.load(x_norms + i) + tl.load(y_norms + j)",
        "d2 = scale - 2.0 * g0_0",
        *columns("y_along", "j", l_y),
        *(f"r{q} = g0_{1 + q} - y_along{q}" for q in range(l_y)),
        *columns("x_along", "i", l_x),
    ]
    for p in range(l_x):
        lines.append(f"a = x_along{p} - g{1 + p}_0")
        lines += [f"m{1 + q} = g{1 + p}_{1 + q}" for q in range(l_y)]
        lines += eliminated(l_y, first=p == 0)
    lines += [
        *solved(l_x, l_y),
        *bounded(l_y),
        "tl.store(below + pair, near, mask=there)",
        "tl.store(above + pair, d2 + slack, mask=there)",
    ]
    head = [
        "def pair_kernel(X, x_norms, x_along, Y, y_norms, y_along, xs, ys, below,",
        "                above, m, width, stiffness, shrink, floor, rounding,",
        "                PAIRS: tl.constexpr, LANES: tl.constexpr):",
    ]
    return "\n".join([*head, *("    " + line for line in lines)]) + "\n"


# Below this a pivot is rounding: the direction is in the span of those before it.
SINGULAR = 1e-12


def paired_distances(
    x: Tensor, x_frames: Tensor, y: Tensor, y_frames: Tensor, sides: str, spring: float
) -> Tensor:
    """Squared distances (m,) of m pairs: points (m, d), frames (m, l, d)."""
    delta = x.double() - y.double()
    if sides == "both":
        return _energy(delta, torch.cat([x_frames, y_frames], 1), spring)
    if sides == "query":
        return _energy(delta, x_frames, spring)
    d2 = _energy(delta, y_frames, spring)
    if sides == "mean":
        d2 = (d2 + _energy(delta, x_frames, spring)) / 2
    return d2


def _energy(delta: Tensor, frames: Tensor, spring: float) -> Tensor:
    W = frames.double()
    n = W.shape[1]
    A = torch.bmm(W, W.mT)
    A.diagonal(dim1=1, dim2=2).add_(spring)
    factor(A)
    residual, moves = delta, torch.zeros_like(W[:, :, 0])
    for _ in range(2):
        r = torch.bmm(W, residual[:, :, None])[:, :, 0] - spring * moves
        r = solve(A, r, n)
        moves = moves + r
        residual = residual - torch.bmm(W.mT, r[:, :, None])[:, :, 0]
    energy = spring * (moves * moves).sum(1) + (residual * residual).sum(1)
    whole = (delta * delta).sum(1)
    return torch.where(energy <= ROUNDING * ROUNDING * whole, 0.0, energy)


def factor(A: Tensor) -> None:
    """Turn the lower triangles into L and D of L D L^T; no pivot is rounding."""
    n = A.shape[1]
    for s in range(n):
        pivot = A[:, s, s]
        there = pivot > SINGULAR
        A[:, s, s] = torch.where(there, pivot, 0.0)
        column = A[:, s + 1 :, s]
        scaled = torch.where(
            there[:, None], column / _or_one(pivot, SINGULAR)[:, None], 0.0
        )
        A[:, s + 1 :, s + 1 :] -= scaled[:, :, None] * column[:, None, :]
        A[:, s + 1 :, s] = scaled


def solve(A: Tensor, r: Tensor, n: int) -> Tensor:
    """Solve with what `factor` left; directions without a pivot stay 0."""
    r = r.clone()
    for s in range(n):
        there = A[:, s, s] > 0
        r[:, s] = torch.where(there, r[:, s], 0.0)
        r[:, s + 1 :] -= A[:, s + 1 :, s] * r[:, s, None]
    for s in range(n - 1, -1, -1):
        pivot = A[:, s, s]
        value = r[:, s] / _or_one(pivot, SINGULAR)
        value = value - (A[:, s + 1 :, s] * r[:, s + 1 :]).sum(1)
        r[:, s] = torch.where(pivot > 0, value, 0.0)
    return r


def gram_schmidt(tangents: Tensor, rtol: float) -> Tensor:
    """Frames (n, l, d) in float64 of tangents (n, l, d)."""
    rtol = max(rtol, ROUNDING)
    n, n_tangents, d = tangents.shape
    small = 0 < n_tangents <= MOST_ROWS and 0 < d <= MOST_NUMBERS
    triton = triton_for(tangents, double=True) if small else None
    if triton is not None:
        frames = tangents.new_empty((n, n_tangents, d), dtype=torch.float64)
        height, width = (triton.next_power_of_2(size) for size in (n_tangents, d))
        if n:
            launch(
                frames_kernel(), (n,), tangents.contiguous(), frames, n_tangents, d,
                rtol, HEIGHT=height, WIDTH=width,
                num_warps=min(16, max(1, height * width // 1024)),
            )  # fmt: skip
        return frames
    rows = tangents.to(torch.float64)
    # Scaled by the largest entry first, lest squares overflow.
    rows = rows / _or_one(rows.abs().amax(dim=2, keepdim=True))
    left = torch.linalg.vector_norm(rows, dim=2, keepdim=True)
    rows = rows / _or_one(left)
    n, n_tangents, _ = rows.shape
    frames = torch.zeros_like(rows)
    every = torch.arange(n, device=rows.device)
    left = (left[:, :, 0] > 0).to(rows.dtype)
    rank = torch.zeros(n, dtype=torch.long, device=rows.device)
    for step in range(n_tangents):
        pivot = left.argmax(dim=1)
        # A copy, projected once more: that keeps orthogonality at rounding level.
        unit = rows[every, pivot]
        done = frames[:, :step]
        for _ in range(min(step, 1)):
            along = torch.bmm(done, unit[:, :, None])
            unit = unit - torch.bmm(done.mT, along)[:, :, 0]
        norm = torch.linalg.vector_norm(unit, dim=1)
        independent = (left[every, pivot] > rtol * rtol) & (norm > rtol)
        unit = torch.where(independent[:, None], unit / _or_one(norm)[:, None], 0)
        frames[every, rank] = torch.where(
            independent[:, None], unit, frames[every, rank]
        )
        rank = (rank + independent).clamp(max=n_tangents - 1)
        along = torch.bmm(rows, unit[:, :, None])
        rows = rows - along * unit[:, None, :]
        left = torch.where(left > 0, (rows * rows).sum(dim=2), 0)
        left[every, pivot] = 0
    return frames


# Rows of a program, and numbers in each, that its registers hold.
MOST_ROWS, MOST_NUMBERS = 16, 2048


@cache
def frames_kernel() -> Any:
    return jitted("frames_kernel", _FRAMES, aligned=())


# What `gram_schmidt` does in torch, for the sample of one program.
_FRAMES = """
def frames_kernel(T, F, n_rows, d, rtol, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    p = tl.arange(0, HEIGHT)
    k = tl.arange(0, WIDTH)
    at = tl.program_id(0).to(tl.int64) * n_rows * d + p[:, None] * d + k[None, :]
    there = (p < n_rows)[:, None] & (k < d)[None, :]
    rows = tl.load(T + at, mask=there, other=0.0).to(tl.float64)
    size = tl.max(tl.abs(rows), axis=1)
    rows = rows / tl.where(size > 0.0, size, 1.0)[:, None]
    left = tl.sqrt(tl.sum(rows * rows, axis=1))
    rows = rows / tl.where(left > 0.0, left, 1.0)[:, None]
    left = tl.where(left > 0.0, 1.0, 0.0).to(tl.float64)
    frame = tl.zeros([HEIGHT, WIDTH], tl.float64)
    rank = n_rows * 0
    for _ in range(n_rows):
        most = tl.max(left, axis=0)
        pivot = tl.min(tl.where(left == most, p, HEIGHT), axis=0)
        unit = tl.sum(tl.where((p == pivot)[:, None], rows, 0.0), axis=0)
        along = tl.sum(frame * unit[None, :], axis=1)
        unit -= tl.sum(frame * along[:, None], axis=0)
        norm = tl.sqrt(tl.sum(unit * unit, axis=0))
        independent = tl.where(most > rtol * rtol, norm, 0.0) > rtol
        unit = tl.where(independent, unit / tl.where(norm > 0.0, norm, 1.0), 0.0)
        place = tl.where(independent, rank, HEIGHT)
        frame = tl.where((p == place)[:, None], unit[None, :], frame)
        rank += tl.where(independent, 1, 0)
        along = tl.sum(rows * unit[None, :], axis=1)
        rows -= along[:, None] * unit[None, :]
        left = tl.where(left > 0.0, tl.sum(rows * rows, axis=1), 0.0)
        left = tl.where(p == pivot, 0.0, left)
    tl.store(F + at, frame, mask=there)
"""


def _or_one(values: Tensor, least: float = 0.0) -> Tensor:
    return torch.where(values > least, values, 1.0)
