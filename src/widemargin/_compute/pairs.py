"""All-pairs tangent distances: a product and a small tail per block, in threads.

A block is a few queries against a few hundred references, sized so that its inner
products stay near the core. The grid of blocks depends on the shapes alone, so that
neither the number of threads nor the chunking changes a bit of the result; only a
``working_memory`` smaller than one block makes the blocks smaller.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn import get_config

from widemargin._compute import formulas
from widemargin._compute.engines import engine_for
from widemargin._compute.machine import (
    Scratch,
    batched_slices,
    matrix_of_pairs,
    thread_map,
    worker_count,
)
from widemargin._compute.rounding import epsilon, product_error

# Rows and columns of one block of inner products: 2 MiB in float32.
PRODUCT_ROWS, PRODUCT_COLUMNS = 512, 1024
COLUMN_STEP = 64
# One over the share of those rows that counts as few queries, and how many times more
# references these meet at once: a call costs as much as a product then.
FEW_QUERIES, MORE_COLUMNS = 8, 32
# Springs beyond move nothing that any dtype can tell, and are numbers in all of them.
STIFF = 1e30
# Size below which a squared distance is computed again from its residual, relative to
# the squares it is made of. What is kept is right to 1e-3 in float32, with frames as
# parallel as rounding allows, and to 1e-6 in float64.
SUSPECT = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-9}


@dataclass(frozen=True)
class _End:
    """One end of the pairs, with the inner products of each sample with itself."""

    points: np.ndarray
    frames: np.ndarray
    center: np.ndarray
    norms: np.ndarray
    coefficients: np.ndarray

    @classmethod
    def prepare(cls, points, frames, center):
        n, n_tangents = frames.shape[:2]
        norms = np.empty(n, points.dtype)
        coefficients = np.empty((n, n_tangents), points.dtype)
        for rows in batched_slices(n, 512):
            centred = points[rows] - center
            norms[rows] = np.einsum("nd,nd->n", centred, centred, dtype=np.float64)
            coefficients[rows] = np.einsum("nld,nd->nl", frames[rows], centred)
        return cls(points, frames, center, norms, coefficients)

    def write(self, rows, out):
        """Write points and frames of some samples into `out` (1 + l, n, d)."""
        np.subtract(self.points[rows], self.center, out=out[0])
        out[1:] = self.frames[rows].transpose(1, 0, 2)


class References:
    """The y end of many calls, prepared once: centred products, and packed for blocks.

    What is packed is as large as points and frames. A call with few queries makes it
    and keeps it, where the memory budget has room for eight of it; it is not pickled.
    """

    def __init__(self, points, frames):
        self.end = _End.prepare(points, frames, _center(points, points.dtype))
        self._columns, self._packed = 0, {}

    @property
    def _fits_memory(self):
        frames = self.end.frames
        n_bytes = frames.itemsize * len(frames) * (1 + frames.shape[1])
        return 8 * n_bytes * frames.shape[2] <= get_config()["working_memory"] * 2**20

    def pack(self, columns, scratch, *, few):
        """Give what a block needs of some references; for few queries made once."""
        if not (few and self._fits_memory):
            return _Packed.of(self.end, columns, scratch)
        key = columns.start, columns.stop
        kept = self._packed.get(key)
        if kept is None:
            # One grid of blocks is kept, the latest.
            if self._columns != columns.stop - columns.start and columns.start == 0:
                self._packed, self._columns = {}, columns.stop - columns.start
            kept = self._packed[key] = _Packed.of(self.end, columns, feature_major=True)
        return kept

    def __getstate__(self):
        return {"end": self.end, "_columns": 0, "_packed": {}}


class _Packed(NamedTuple):
    """Some references as a block needs them; `stack` is tangent-major."""

    stack: np.ndarray
    norms: np.ndarray
    coefficients: np.ndarray

    @classmethod
    def of(cls, end, columns, scratch=None, *, feature_major=False):
        """Pack, in `scratch` if it is not to be kept.

        A product with few rows is much faster if features come first.
        """
        n, (n_tangents, d) = columns.stop - columns.start, end.frames.shape[1:]
        rows = n * (1 + n_tangents)
        if feature_major:
            stack = np.empty((d, rows), end.points.dtype).T
            out = stack.T.reshape(d, 1 + n_tangents, n).transpose(1, 2, 0)
        else:
            stack = scratch.take("stack", (rows, d), end.points.dtype)
            out = stack.reshape(1 + n_tangents, n, d)
        end.write(columns, out)
        coefficients = np.ascontiguousarray(end.coefficients[columns].T)
        return cls(stack, end.norms[columns], coefficients)


def _center(points, dtype):
    if not len(points):
        return np.zeros(points.shape[1], dtype)
    return points.mean(axis=0, dtype=np.float64).astype(dtype)


def pair_distances(
    x,
    x_frames,
    y,
    y_frames,
    *,
    sides,
    spring,
    squared=True,
    symmetric=False,
    lower=False,
    references=None,
    pass_size=None,
    n_jobs=None,
):
    """Tangent distances between all rows of `x` and of `y`.

    Parameters
    ----------
    x, y : ndarray of shape (n_x, d) and (n_y, d), one float dtype
    x_frames, y_frames : ndarray of shape (n_x, l_x, d) and (n_y, l_y, d)
        Orthonormal rows, or zero rows.
    sides : {"query", "reference", "both", "mean"}
    symmetric : bool
        `y` is `x`: compute each unordered pair once.
    lower : bool
        Squared distances less their possible rounding, negative where nothing can be
        said: never above the true ones, and nothing is computed twice.
    references : References or None
        `y` and `y_frames`, prepared; of no use where the ends change places.
    pass_size : int or None
        Samples in a pass of which this is one call of many; None for a call of its own.

    Returns
    -------
    ndarray of shape (n_x, n_y)
    """
    way_out = "; TangentSVC(n_landmarks=1000) needs no such matrix"
    target = out = matrix_of_pairs(len(x), len(y), x.dtype, way_out)
    x_frames = x_frames[:, :0] if sides == "reference" else x_frames
    y_frames = y_frames[:, :0] if sides == "query" else y_frames
    name = "elimination" if pass_size is None else "elimination of a pass"
    elimination = engine_for(name, x, x_frames, y, y_frames, pass_size)
    elimination = formulas if elimination is None else elimination
    # The tail eliminates on the reference side: give it the end with fewer tangents.
    if sides == "query" or (sides == "both" and y_frames.shape[1] > x_frames.shape[1]):
        x, x_frames, y, y_frames, target = y, y_frames, x, x_frames, out.T
        sides, references = "reference" if sides == "query" else sides, None
    center = _center(y, x.dtype) if references is None else references.end.center
    x_end = _End.prepare(x, x_frames, center)
    if references is not None:
        y_end = references.end
    elif symmetric and sides != "reference":
        y_end = x_end
    else:
        y_end = _End.prepare(y, y_frames, center)
    if _vanishes(x_end, y_end):
        ends = (x, x_frames, y, y_frames)
        d2 = pair_distances(
            *(end.astype(float, order="C") for end in ends), sides=sides, spring=spring,
            symmetric=symmetric, lower=lower, pass_size=pass_size, n_jobs=n_jobs,
        )  # fmt: skip
        d2 = d2 if target is out else d2.T
        return d2 if squared else np.sqrt(d2).astype(x.dtype)
    few, n_x, n_y, workers = _plan(x_end, y_end, sides, symmetric, n_jobs)
    scratch = Scratch()

    def fill(columns):
        if references is None:
            packed = _Packed.of(y_end, columns, scratch)
        else:
            packed = references.pack(columns, scratch, few=few)
        block = _Block(
            elimination,
            x_end,
            y_end,
            columns,
            packed,
            n_x,
            sides,
            spring,
            lower,
            scratch,
        )
        last, suspects = columns.stop if symmetric else len(x), []
        for rows in batched_slices(last, n_x):
            tile, n_suspects = block.squared_distances(rows)
            _write(target, rows, columns, tile, symmetric)
            if n_suspects:
                i, j = np.nonzero(tile < 0)
                suspects.append((rows.start + i, columns.start + j))
        if suspects:
            i, j = (np.concatenate(part) for part in zip(*suspects, strict=True))
            if symmetric:
                i, j = i[i <= j], j[i <= j]
            d2 = elimination.listed_distances(
                x, x_frames, y, y_frames, i, j, sides, spring
            )
            target[i, j] = d2
            if symmetric:
                target[j, i] = d2

    # Late columns have the most rows in the symmetric case: start with them.
    blocks = list(batched_slices(len(y), n_y))[:: -1 if symmetric else 1]
    weights = [b.stop if symmetric else 1 for b in blocks]
    thread_map(fill, blocks, workers, "distances", weights)
    return out if squared else np.sqrt(out, out=out)


def _vanishes(x_end, y_end):
    """Whether squares are so small that float32 loses them, or most of their digits."""
    if x_end.norms.dtype != np.float32:
        return False
    largest = max(end.norms.max(initial=0) for end in (x_end, y_end))
    same = all((end.points == end.center).all() for end in (x_end, y_end))
    return largest < 1e-26 and not same


def _plan(x_end, y_end, sides, symmetric, n_jobs):
    """Block sizes (queries, references) and how many workers fit the memory budget.

    First comes whether the queries are few; those meet more references at once.
    """
    l_x, d = x_end.frames.shape[1:]
    l_y = y_end.frames.shape[1]
    rows_per_x = {"reference": 1, "both": 1 + l_x, "mean": max(1, l_x)}[sides]
    n_x = max(1, PRODUCT_ROWS // rows_per_x)
    n_y = max(COLUMN_STEP, PRODUCT_COLUMNS // (1 + l_y) // COLUMN_STEP * COLUMN_STEP)
    n_x = min(n_x, len(x_end.points))
    few = not symmetric and n_x * rows_per_x <= PRODUCT_ROWS // FEW_QUERIES
    if few:
        n_y *= MORE_COLUMNS
    n_y = min(n_y, len(y_end.points))
    itemsize = x_end.points.dtype.itemsize
    budget = get_config()["working_memory"] * 2**20

    def block_bytes():
        products = n_x * rows_per_x * n_y * (1 + l_y)
        # Packed once, and once more in float64 where suspects are recomputed.
        stacks = 3 * d * (n_x * (1 + l_x) + n_y * (1 + l_y))
        return itemsize * (products + stacks + n_x * n_y)

    while block_bytes() > budget and max(n_x, n_y) > 1:
        n_x, n_y = max(1, n_x // 2), max(1, n_y // 2)
    affordable = max(1, int(budget // block_bytes()))
    return few, n_x, n_y, min(worker_count(n_jobs), affordable)


class _Block:
    """Some references, packed once, and the buffers to meet all queries with.

    The buffers are kept from tile to tile, and from block to block in the `scratch` of
    a thread: fresh pages for each product would cost as much as the tail.
    """

    def __init__(
        self,
        elimination,
        x_end,
        y_end,
        columns,
        packed,
        n_x,
        sides,
        spring,
        lower,
        scratch,
    ):
        self.elimination, self.x_end = elimination, x_end
        self.sides, self.spring, self.lower = sides, min(spring, STIFF), lower
        n_y = columns.stop - columns.start
        l_x, d = x_end.frames.shape[1:]
        stack_rows = n_y * (1 + y_end.frames.shape[1])
        take = partial(scratch.take, dtype=x_end.points.dtype)
        self.y_stack, self.y_norms, self.y_coefficients = packed
        rows_per_x = 1 + l_x if sides == "both" else 1
        self.x_stack = take("x_stack", (n_x * rows_per_x, d))
        self.products = take("products", (n_x * rows_per_x, stack_rows))
        x_products = n_x * l_x if sides == "mean" else 0
        self.x_products = take("x_products", (x_products, n_y))
        self.tile = take("tile", (n_x, n_y))

    def squared_distances(self, rows):
        """Fill the tile for some queries; below zero are suspects, so many."""
        elimination, n = self.elimination, rows.stop - rows.start
        tile, x_end, y_stack = self.tile[:n], self.x_end, self.y_stack
        x_norms, x_coefficients = x_end.norms[rows], x_end.coefficients[rows]
        y_norms, y_coefficients = self.y_norms, self.y_coefficients
        spring, lower = self.spring, self.lower
        error = product_error(tile.dtype, y_stack.shape[1])
        tau = 8 * error if lower else SUSPECT[tile.dtype]
        n_rows = n * (1 + x_coefficients.shape[1]) if self.sides == "both" else n
        x_stack, products = self.x_stack[:n_rows], self.products[:n_rows]
        if self.sides == "both":
            by_row = x_stack.reshape(n, -1, x_stack.shape[1])
            x_end.write(rows, by_row.transpose(1, 0, 2))
        else:
            np.subtract(x_end.points[rows], x_end.center, out=x_stack)
        np.matmul(x_stack, y_stack.T, out=products)
        if self.sides == "both":
            # The smallest eigenvalue S can have; float32 may round below it.
            stiffness = (1 + spring) - 1 / (1 + spring)
            floor = max(stiffness, 8 * epsilon(tile.dtype))
            # A spring that keeps S above its rounding spares a look at the pivots.
            clear = 0.0 if stiffness >= 2 * error else 2 * error
            suspects = elimination.two_sided(
                products, x_norms, x_coefficients, y_norms, y_coefficients,
                spring, tau, floor, clear, lower, tile,
            )  # fmt: skip
        else:
            # Tangents at y, or of a mean at both ends, each by half.
            l_x, share = (
                (x_coefficients.shape[1], 0.5) if self.sides == "mean" else (0, 1.0)
            )
            x_rows = x_end.frames[rows, :l_x].reshape(-1, y_stack.shape[1])
            x_products = self.x_products[: len(x_rows)]
            np.matmul(x_rows, y_stack[: len(y_norms)].T, out=x_products)
            suspects = elimination.one_sided(
                products, x_products, x_norms, x_coefficients[:, :l_x], y_norms,
                y_coefficients, share, spring, tau, lower, tile,
            )  # fmt: skip
        return tile, suspects


def _write(target, rows, columns, tile, symmetric):
    if not symmetric:
        target[rows, columns] = tile
    elif rows.stop <= columns.start:
        target[rows, columns] = tile
        target[columns, rows] = tile.T
    else:
        # On the diagonal both triangles are in the tile; keep one, mirror it.
        upper = np.arange(rows.start, rows.stop)[:, None] <= np.arange(
            columns.start, columns.stop
        )
        np.copyto(target[rows, columns], tile, where=upper)
        np.copyto(target[columns, rows], tile.T, where=upper.T)
