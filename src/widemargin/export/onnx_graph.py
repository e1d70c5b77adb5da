r"""Programs as ONNX graphs: products and elementwise steps, nothing else.

Squared distances to a few references come from the residual itself,

.. math:: r = \delta - T^\top T \delta, \qquad D = |r|^2, \qquad \delta = x - C,

not from expanded squares: in float32 these lose the digits that decide close calls.
Where references are many, or where samples bend too, expanded squares are taken in
float64, whatever the dtype of the samples (`ReferenceGraph`).

Tensors: X (n, d); D (n, K); margins (n, n_classes). Opset and IR version are pinned, so
that a graph written today is read tomorrow; only the default domain is used.

The same graphs are converters of skl2onnx, so that its pipelines can hold our
classifiers: the program of the fitted estimator, built into the graph that skl2onnx is
making, with the outputs of :func:`~widemargin.export.to_onnx`.
"""

import json
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

import widemargin
from widemargin._compute.rounding import rounded_up, rounding
from widemargin.export import program as ir
from widemargin.export.describe import CLASSIFIERS, TRANSFORMERS, describe, prepared_by
from widemargin.tangents import orthonormalize
from widemargin.tangents.convolution_features import TAPS
from widemargin.tangents.spectra import FLAT, NO_GAIN

OPSET = 18
IR_VERSION = 8
# References times features up to which residuals are formed one by one.
MOST_RESIDUALS = 2**18
# Scores of hyperplanes that differ by less of the largest are equal, as in Python.
TIE = 1e-13
# Protobuf ends at two GiB.
MOST_BYTES = 2**31 - 2**20


class Graph:
    """Nodes and constants in the making; every method returns names of tensors."""

    def __init__(self, real: Any, prefix: str = ""):
        self.real = np.dtype(real)
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.constants: dict[tuple, str] = {}
        self.initializers: list[Any] = []

    @property
    def never(self) -> float:
        """The largest number of its dtype: no decision needs more."""
        return float(np.finfo(self.real).max)

    @property
    def tiny(self) -> float:
        """The smallest number of its dtype that has all digits."""
        return float(np.finfo(self.real).tiny)

    def __call__(self, op: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node with one output; arrays and numbers become constants."""
        return self.many(op, inputs, 1, **attributes)[0]

    def many(
        self, op: str, inputs: Any, n_outputs: int, **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs."""
        from onnx import helper

        names = [self.constant(value) for value in inputs]
        stem = f"{self.prefix}{op.lower()}_{len(self.nodes)}"
        outputs = [stem if n_outputs == 1 else f"{stem}_{i}" for i in range(n_outputs)]
        self.nodes.append(helper.make_node(op, names, outputs, stem, **attributes))
        return outputs

    def constant(self, value: Any) -> str:
        """Return the name of a constant, the same one for equal values."""
        if isinstance(value, str):
            return value
        from onnx import numpy_helper

        array = np.asarray(value)
        if array.dtype.kind == "f" and np.ndim(value) == 0:
            array = array.astype(self.real)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            name = f"{self.prefix}constant_{len(self.constants)}"
            tensor = numpy_helper.from_array(np.ascontiguousarray(array), name)
            self.initializers.append(tensor)
            self.constants[key] = name
        return self.constants[key]

    def table(self, array: Any) -> str:
        """Return a constant in the dtype of the arithmetic, stored in its own."""
        array = np.asarray(array)
        if self.real == np.float64 and array.dtype == np.float32:
            # Half the file; the runtime widens it once.
            return self.cast(self.constant(array), np.float64)
        if self.real == np.float32:
            return self.constant(ir.in_float32(array))
        return self.constant(array.astype(self.real))

    def cast(self, tensor: str, dtype: Any) -> str:
        """Change the dtype of a tensor."""
        from onnx import helper

        return self("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def slice(self, tensor: str, starts: list, ends: list, axes: list) -> str:
        """Cut a tensor along axes."""
        return self("Slice", tensor, *map(np.array, (starts, ends, axes)))

    def axes(self, op: str, tensor: str, axes: list[int]) -> str:
        """Apply an operator that takes its axes as an input."""
        return self(op, tensor, np.array(axes))

    def sum_of_squares(self, tensor: str, axis: int, keepdims: int = 0) -> str:
        """Sum the squares along one axis."""
        return self("ReduceSumSquare", tensor, np.array([axis]), keepdims=keepdims)


def prepare(graph: Graph, x: str, step: Any, width: int) -> str:
    """Apply one step before the decision to x (n, width)."""
    if isinstance(step, ir.Affine):
        short = graph.real == np.float32
        for part in ir.in_parts(step.centre) if short else [step.centre]:
            x = graph("Sub", x, graph.table(part))
        if (step.scale != 1).any():
            x = graph("Mul", x, graph.table(step.scale))
        return graph("Add", x, graph.table(step.shift)) if step.shift.any() else x
    if isinstance(step, ir.Clip):
        clipped = graph("Clip", x, float(step.low), float(step.high))
        return graph("Add", clipped, graph("Mul", x, 0.0))
    if isinstance(step, ir.Fill):
        return graph("Where", graph("IsNaN", x), graph.table(step.values), x)
    if isinstance(step, ir.Pick):
        return graph("Gather", x, step.columns, axis=1)
    if isinstance(step, ir.Join):
        parts = [prepare_all(graph, x, part, width) for part in step.parts]
        return graph("Concat", *parts, axis=1)
    if isinstance(step, ir.Project):
        return graph("MatMul", x, graph.table(step.matrix.T))
    if isinstance(step, ir.Convolve):
        return _convolve(graph, x, step, width)
    if isinstance(step, ir.Embed):
        d2, graph = squared_distances(graph, x, ir.References(step.points))
        K = kernel_values(graph, d2, "rbf", step.gamma)
        z = graph("MatMul", K, graph.table(step.matrix))
        left = graph("Sub", 1.0, graph.sum_of_squares(z, 1, keepdims=1))
        return graph("Concat", z, graph("Sqrt", graph("Max", left, 0.0)), axis=1)
    if isinstance(step, ir.Unit):
        return _unit(graph, x, step.norm)
    if isinstance(step, ir.Smooth):
        return _smooth(graph, x, step, width)
    if isinstance(step, ir.Stencil):
        return _stencil(graph, x, step, width)
    if isinstance(step, ir.Scatter):
        return _scatter(graph, x, step)
    raise TypeError(step)


def prepare_all(graph: Graph, x: str, steps: Iterable[ir.Step], width: int) -> str:
    """Apply steps, one after another, to x (n, width)."""
    for step in steps:
        x = prepare(graph, x, step, width)
        width = ir.width_after(step, width)
    return x


def _unit(graph: Graph, x: str, norm: str) -> str:
    # By the largest first, lest sums overflow.
    top = graph("ReduceMax", graph("Abs", x), np.array([1]), keepdims=1)
    unit = graph("Div", x, graph("Where", graph("Equal", top, 0.0), 1.0, top))
    length = top
    if norm != "max":
        reduce = {"l1": "ReduceL1", "l2": "ReduceL2"}[norm]
        length = graph(reduce, unit, np.array([1]), keepdims=1)
        unit = graph("Div", unit, graph("Max", length, 1.0))
        length = graph("Mul", top, length)
    return graph("Where", graph("Less", length, ir.SHORT), x, unit)


def _smooth(graph: Graph, x: str, step: ir.Smooth, width: int) -> str:
    height, side, channels = len(step.down), len(step.across), step.channels
    if step.background:
        x = graph("Sub", x, float(step.background))
    # Samples on the left of every product, where there may be none of them.
    x = graph("Reshape", x, np.array([-1, height, side, channels]))
    for matrix, turned in ((step.down, [0, 3, 2, 1]), (step.across, [0, 1, 3, 2])):
        if len(matrix) > 1:
            x = graph("Transpose", x, perm=turned)
            x = graph("MatMul", x, graph.table(matrix.T))
            x = graph("Transpose", x, perm=turned)
    x = graph("Reshape", x, np.array([-1, width]))
    return graph("Add", x, float(step.background)) if step.background else x


def _convolve(graph: Graph, x: str, step: ir.Convolve, width: int) -> str:
    """Shares of time that signals have each of the shapes."""
    length, border = width // step.n_channels, TAPS // 2
    x = graph("Reshape", x, np.array([-1, length, step.n_channels]))
    x = graph("Transpose", x, perm=[0, 2, 1])
    later, earlier = (graph.slice(x, [a], [b], [2]) for a, b in ((1, length), (0, -1)))
    views = {False: x, True: graph("Sub", later, earlier)}
    parts = []
    for bank in step.banks:
        n_times = length - bank.differences
        pad = border * bank.dilation
        padded = graph("Pad", views[bank.differences], np.array([0, 0, pad] * 2))
        places = bank.dilation * np.arange(TAPS)[:, None] + np.arange(n_times)
        taps = graph("Gather", padded, places, axis=2)
        taps = graph("Reshape", taps, np.array([-1, bank.weights.shape[1], n_times]))
        outputs = graph("MatMul", graph.table(bank.weights), taps)
        low, high = (b.astype(float)[:, :, None] for b in (bank.low, bank.high))
        above = graph("Sub", graph.axes("Unsqueeze", outputs, [2]), graph.table(low))
        shares = graph("Mul", above, graph.table(1 / (high - low)))
        shares = graph("Clip", shares, 0.0, 1.0)
        # What is no number stays none.
        means = graph("ReduceMean", shares, np.array([3]), keepdims=0)
        parts.append(graph("Reshape", means, np.array([-1, bank.low.size])))
    blank = graph("ReduceSum", graph("Mul", x, 0.0), np.array([1, 2]), keepdims=0)
    blank = graph.axes("Unsqueeze", blank, [1])
    return graph("Add", graph("Concat", *parts, axis=1), blank)


def _stencil(graph: Graph, x: str, step: ir.Stencil, width: int) -> str:
    """Weigh what surrounds each feature, about the feature itself: exact if smooth."""
    w = len(step.weights)
    starts = np.clip(np.arange(width) - w // 2, 0, width - w)
    around = graph("Gather", x, starts[:, None] + np.arange(w), axis=1)
    gaps = graph("Sub", around, graph.axes("Unsqueeze", x, [2]))
    inner = np.broadcast_to(step.weights, (width - 2 * (w // 2), w))
    weights = np.concatenate([step.left, inner, step.right])
    found = graph("Mul", gaps, graph.table(weights))
    found = graph("ReduceSum", found, np.array([2]), keepdims=0)
    return graph("Add", found, graph("Mul", x, graph.table(_sums(step, width))))


def _sums(step: ir.Stencil, width: int) -> NDArray:
    """Add the weights around each feature up; zero of derivatives."""
    inner = np.full(width - 2 * len(step.left), step.weights.sum())
    sums = np.concatenate([step.left.sum(axis=1), inner, step.right.sum(axis=1)])
    size = np.abs(step.weights).sum()
    return np.where(np.abs(sums) < 1e-12 * size, 0.0, sums)


def _scatter(graph: Graph, x: str, step: ir.Scatter) -> str:
    centred = graph("Sub", x, graph("ReduceMean", x, np.array([1]), keepdims=1))
    if step.reference is None:
        square = graph("Mul", centred, centred)
        spread = graph("Sqrt", graph("ReduceMean", square, np.array([1]), keepdims=1))
        top = graph("ReduceMax", graph("Abs", x), np.array([1]), keepdims=1)
        flat = graph("LessOrEqual", spread, graph("Mul", top, FLAT))
        whole = graph("Div", centred, graph("Where", flat, 1.0, spread))
        # What is no number stays none.
        return graph("Where", flat, graph("Mul", x, 0.0), whole)
    mean = float(step.reference.mean())
    shape = step.reference - mean
    gain = graph(
        "MatMul", centred, graph.table((shape / (shape @ shape or 1))[:, None])
    )
    small = graph("Less", graph("Abs", gain), NO_GAIN)
    return graph("Add", graph("Div", centred, graph("Where", small, 1.0, gain)), mean)


def squared_distances(graph: Graph, x: str, references: ir.References) -> tuple:
    """Return D (n, K), and the graph in whose dtype it is."""
    points, frames = references.points, references.frames
    plain = references.sides == "reference" and not references.spring
    if plain and points.size <= MOST_RESIDUALS:
        ir.require_squares(points, graph.real)
        if frames is None or not frames.shape[1]:
            at = graph.axes("Unsqueeze", x, [1])
            delta = graph("Sub", at, graph.table(points))
            return graph.sum_of_squares(delta, 2), graph
        # References first: one product per model.
        delta = graph("Sub", x, graph.table(points[:, None]))
        along = graph("MatMul", delta, graph.table(frames.swapaxes(1, 2)))
        moved = graph("MatMul", along, graph.table(frames))
        d2 = graph.sum_of_squares(graph("Sub", delta, moved), 2)
        return graph("Transpose", d2, perm=[1, 0]), graph
    x, wide = widened(graph, x)
    return expanded(wide, x, references), wide


class Widened(Graph):
    """The same graph, from here on in float64."""

    def __init__(self, graph: Graph):
        super().__init__(np.float64, graph.prefix)
        self.nodes, self.constants = graph.nodes, graph.constants
        self.initializers = graph.initializers


def widened(graph: Graph, tensor: str) -> tuple[str, Graph]:
    """Return a tensor in float64, and the graph to go on with."""
    if graph.real == np.float64:
        return tensor, graph
    return graph.cast(tensor, np.float64), Widened(graph)


def expanded(graph: Graph, x: str, references: ir.References) -> str:
    r"""Distances from inner products, in float64 and about the references' mean.

    With orthonormal frames U of the samples and V of the references, delta = x - y,
    a = U delta, b = V delta, M = U V^T and spring k,

    * y: |delta|² - |b|²/(1+k), x: |delta|² - |a|²/(1+k), mean: the mean of both;
    * two: the Schur complement of [[S, r], [rᵀ, (1+k)|delta|² - |a|²]] over 1+k, with
      r = (1+k) b - Mᵀa and S = (1+k)² I - MᵀM, one pivot after another.
    """
    points, frames, sides = references.points, references.frames, references.sides
    stiff = 1.0 + references.spring
    centre = points.mean(axis=0, dtype=float)
    # As differences to the mean, in double once and for all.
    offsets = points.astype(float) - centre
    x = graph("Sub", x, centre)
    y = graph("Sub", graph.table(points), centre)
    products = graph("MatMul", x, graph("Transpose", y, perm=[1, 0]))
    norms = graph.sum_of_squares(x, 1, keepdims=1)
    y_norms = np.einsum("kd,kd->k", offsets, offsets)
    d2 = graph("Add", norms, y_norms)
    d2 = graph("Sub", d2, graph("Mul", products, 2.0))
    b = a = None
    if (
        sides in ("reference", "both", "mean")
        and frames is not None
        and frames.shape[1]
    ):
        n, m, d = frames.shape
        V = graph("Reshape", graph.table(frames), np.array([n * m, d]))
        along = graph("MatMul", x, graph("Transpose", V, perm=[1, 0]))
        along = graph("Reshape", along, np.array([-1, n, m]))
        b = graph("Sub", along, np.einsum("kmd,kd->km", frames.astype(float), offsets))
    if sides in ("query", "both", "mean") and references.tangents is not None:
        # The tangents are those of the sample itself, not of the centred one.
        U = input_frames(graph, graph("Add", x, centre), references.tangents)
        own = graph("MatMul", U, graph.axes("Unsqueeze", x, [2]))
        met = graph("MatMul", U, graph("Transpose", y, perm=[1, 0]))
        a = graph("Sub", own, met)
    shrink = 1 / stiff if sides != "mean" else 0.5 / stiff
    if a is not None:
        taken = graph.sum_of_squares(a, 1)
        d2 = graph("Sub", d2, graph("Mul", taken, shrink))
    if b is None:
        return graph("Max", d2, 0.0)
    if sides != "both" or a is None:
        taken = graph.sum_of_squares(b, 2)
        return graph("Max", graph("Sub", d2, graph("Mul", taken, shrink)), 0.0)
    assert frames is not None
    n, m, _ = frames.shape
    M = graph("MatMul", U, graph("Transpose", V, perm=[1, 0]))
    M = graph("Reshape", M, np.array([0, 0, n, m]))
    M = graph("Transpose", M, perm=[0, 2, 1, 3])
    a = graph.axes("Unsqueeze", graph("Transpose", a, perm=[0, 2, 1]), [3])
    Mt = graph("Transpose", M, perm=[0, 1, 3, 2])
    # All times 1+k, since runtimes fuse a factor of a product with it, in float32.
    r = graph.axes("Unsqueeze", graph("Mul", b, stiff), [3])
    r = graph("Sub", r, graph("MatMul", Mt, a))
    S = graph("Sub", stiff**2 * np.eye(m), graph("MatMul", Mt, M))
    d2 = graph.axes("Unsqueeze", graph("Mul", d2, stiff), [2, 3])
    d2 = schur_complement(graph, S, r, d2, m, max(stiff**2 - 1, 2e-15))
    return graph("Div", d2, stiff)


def schur_complement(
    graph: Graph, S: str, r: str, d2: str, m: int, floor: float
) -> str:
    """``d2 - rᵀ S⁻¹ r`` by eliminating m pivots, each at least `floor`."""
    top = graph("Concat", S, r, axis=3)
    last = graph("Transpose", r, perm=[0, 1, 3, 2])
    A = graph("Concat", top, graph("Concat", last, d2, axis=3), axis=2)
    end = [2**31]
    for _ in range(m):
        row = graph.slice(A, [0], [1], [2])
        pivot = graph("Max", graph.slice(row, [0], [1], [3]), floor)
        row = graph.slice(row, [1], end, [3])
        column = graph.slice(A, [1, 0], [*end, 1], [2, 3])
        rest = graph.slice(A, [1, 1], end * 2, [2, 3])
        A = graph("Sub", rest, graph("Mul", column, graph("Div", row, pivot)))
    return graph("Max", graph.axes("Squeeze", A, [2, 3]), 0.0)


def input_frames(graph: Graph, x: str, tangents: ir.InputTangents) -> str:
    """(n, l, d) orthonormal tangents of every sample, zero rows where they depend."""
    n_maps, d, _ = tangents.maps.shape
    rows = []
    if not tangents.maps.any() and tangents.squares is None:
        # The same for all samples; as many copies as there are samples.
        frames = orthonormalize(tangents.offset[None].astype(float))
        blank = graph("Mul", graph.axes("Unsqueeze", x, [1]), 0.0)
        return graph("Add", blank, frames)
    if n_maps:
        flat = tangents.maps.transpose(2, 0, 1).reshape(d, -1)
        linear = graph("MatMul", x, graph.table(flat))
        linear = graph("Add", linear, tangents.offset.astype(float).ravel())
        linear = graph("Reshape", linear, np.array([-1, n_maps, d]))
        rows = [graph.slice(linear, [i], [i + 1], [1]) for i in range(n_maps)]
    if tangents.squares is not None and tangents.square_offset is not None:
        flat = tangents.squares.transpose(2, 0, 1).reshape(d, -1)
        parts = graph("MatMul", x, graph.table(flat))
        parts = graph("Add", parts, tangents.square_offset.astype(float).ravel())
        parts = graph("Reshape", parts, np.array([-1, len(tangents.squares), d]))
        rows.append(graph.sum_of_squares(parts, 1, keepdims=1))
    return orthonormal(graph, rows, tangents.rtol)


def orthonormal(graph: Graph, rows: list[str], rtol: float) -> str:
    """Gram-Schmidt, every row projected twice; what is left below rtol is zero."""
    frame = None
    for row in rows:
        # By the largest entry first, lest squares vanish or overflow.
        row = _divided(graph, row, graph("ReduceMax", graph("Abs", row), np.array([2])))
        row = _divided(graph, row, _length(graph, row))
        if frame is not None:
            transposed = graph("Transpose", frame, perm=[0, 2, 1])
            for _ in range(2):
                along = graph("MatMul", row, transposed)
                row = graph("Sub", row, graph("MatMul", along, frame))
        row = _divided(graph, row, _length(graph, row), rtol)
        frame = row if frame is None else graph("Concat", frame, row, axis=1)
    assert frame is not None
    return frame


def _length(graph: Graph, row: str) -> str:
    return graph("ReduceL2", row, np.array([2]), keepdims=1)


def _divided(graph: Graph, row: str, length: str, least: float = 0.0) -> str:
    """Return row / length, zero where the length is not above `least`."""
    real = graph("Greater", length, least)
    unit = graph("Div", row, graph("Where", real, length, 1.0))
    return graph("Where", real, unit, 0.0)


def nearest_margins(
    graph: Graph, x: str, decision: ir.Nearest, n_classes: int
) -> tuple:
    """Margins from the distances to the references of every class."""
    d2, graph = squared_distances(graph, x, decision.references)
    if decision.slopes is not None:
        u = graph("Sub", d2, graph.table(decision.thresholds))
        u = graph("Mul", u, graph.table(decision.slopes))
        # log(1 + e^u), without overflow, and as exact where it is next to nothing.
        tail = graph("Exp", graph("Neg", graph("Abs", u)))
        whole = graph("Add", tail, 1.0)
        kept = graph("Sub", whole, 1.0)
        gone = graph("Equal", kept, 0.0)
        factor = graph("Div", tail, graph("Where", gone, 1.0, kept))
        log = graph("Where", gone, tail, graph("Mul", graph("Log", whole), factor))
        d2 = graph("Add", graph("Max", u, 0.0), log)
    d2 = class_distances(graph, d2, decision, n_classes)
    nearest = graph.many("TopK", (d2, np.array([2])), 2, largest=0)
    first, second = (graph.slice(nearest[0], [i], [i + 1], [1]) for i in range(2))
    place = graph.slice(nearest[1], [0], [1], [1])
    own = graph("Equal", place, np.arange(n_classes))
    others = graph("Where", own, second, first)
    gap, total = graph("Sub", others, d2), graph("Add", others, d2)
    return graph("Div", gap, graph("Max", total, graph.tiny)), graph


def class_distances(graph: Graph, d2: str, decision: ir.Nearest, n_classes: int) -> str:
    """Reduce (n, K) to (n, n_classes) by the rule of the decision."""
    codes = decision.codes
    counts = np.bincount(codes, minlength=n_classes)
    order = np.argsort(codes, kind="stable")
    starts = np.cumsum(counts) - counts
    most = int(counts.max())
    if decision.rule == "nearest":
        if not np.array_equal(order, np.arange(len(codes))) or counts.min() < most:
            # A class with fewer references repeats its first, which changes no minimum.
            place = np.minimum(np.arange(most), counts[:, None] - 1) + starts[:, None]
            d2 = graph("Gather", d2, order[place].ravel(), axis=1)
        if most == 1:
            return d2
        d2 = graph("Reshape", d2, np.array([-1, n_classes, most]))
        return graph("ReduceMin", d2, np.array([2]), keepdims=0)
    parts = []
    for start, count in zip(starts, counts, strict=True):
        own = graph("Gather", d2, order[start : start + count], axis=1)
        if decision.rule == "k_nearest":
            k = min(int(decision.number), int(count))
            found = graph.many("TopK", (own, np.array([k])), 2, largest=0)[0]
            parts.append(graph.slice(found, [k - 1], [k], [1]))
        else:
            width = float(decision.number)
            u = graph("Div", graph("Sqrt", own), -width)
            soft = graph("ReduceLogSumExp", u, np.array([1]), keepdims=1)
            soft = graph("Mul", graph("Sub", soft, float(np.log(count))), width)
            parts.append(graph("Mul", soft, soft))
    return graph("Concat", *parts, axis=1)


def gap_margins(graph: Graph, scores: str, n_classes: int) -> str:
    """Score less the best other score."""
    best = graph.many("TopK", (scores, np.array([2])), 2)
    first, second = (graph.slice(best[0], [i], [i + 1], [1]) for i in range(2))
    own = graph("Equal", graph.slice(best[1], [0], [1], [1]), np.arange(n_classes))
    return graph("Sub", scores, graph("Where", own, second, first))


def numbers(graph: Graph, margins: str, found: str) -> str:
    """Return margins, all NaN of samples of which something that was found is none.

    Comparisons with NaN have an answer, which looks sure.
    """
    nothing = graph.axes("ReduceSum", graph("Mul", found, 0.0), [1])
    return graph("Add", margins, nothing)


def duel_margins(
    graph: Graph, duels: str, n_classes: int, scheme: str, unit: float = 1.0
) -> tuple[str, str]:
    """Margins of all classes from the duels of all pairs, and who wins."""
    if n_classes == 2:
        margins = graph("Concat", duels, graph("Neg", duels), axis=1)
        margins = numbers(graph, margins, duels)
        return margins, graph("ArgMax", margins, axis=1)
    if scheme == "ddag":
        return _graph_margins(graph, duels, n_classes)
    column = np.zeros((n_classes, n_classes), np.int64)
    sign = np.zeros((n_classes, n_classes))
    for number, (i, j) in enumerate(combinations(range(n_classes), 2)):
        column[i, j] = column[j, i] = number
        sign[i, j], sign[j, i] = 1, -1
    scaled = graph("Div", duels, unit) if unit != 1 else duels
    scores = _vote_scores(graph, scaled, n_classes)
    against = graph("Gather", duels, column, axis=1)
    against = graph("Mul", against, graph.table(sign))
    margins, best = margins_of_pairs(graph, scores, against, n_classes)
    need = _rivals_need(graph, scores, against, best, n_classes)
    own = graph("Equal", best, np.arange(n_classes))
    margins = graph("Where", own, graph("Min", margins, need), margins)
    equal = graph("Equal", gap_margins(graph, scores, n_classes), 0.0)
    return numbers(graph, graph("Where", equal, 0.0, margins), scores), best


def margins_of_pairs(
    graph: Graph, scores: str, against: str, n_classes: int
) -> tuple[str, str]:
    """Margins from (n, K, K): by how much each class beats each other one; the answer.

    The closest of the answer; of another class what it lost to the answer by, or where
    it beat the answer, the closest of those it lost.
    """
    best = graph.many("TopK", (scores, np.array([1])), 2)[1]
    own = graph("Equal", best, np.arange(n_classes))
    size = graph("Abs", against)
    others = ~np.eye(n_classes, dtype=bool)
    closest = graph("Where", others, size, graph.never)
    closest = graph("ReduceMin", closest, np.array([2]), keepdims=0)
    of_answer = graph.cast(graph.axes("Unsqueeze", own, [1]), graph.real)
    beaten = graph.axes("ReduceSum", graph("Mul", against, of_answer), [2])
    beaten = graph.axes("Squeeze", beaten, [2])
    lost = graph("And", graph("LessOrEqual", against, 0.0), others)
    lost = graph("Where", lost, size, graph.never)
    lost = graph("Neg", graph("ReduceMin", lost, np.array([2]), keepdims=0))
    behind = graph("Where", graph("Greater", beaten, 0.0), lost, beaten)
    return graph("Where", own, closest, behind), best


def _rivals_need(
    graph: Graph, scores: str, against: str, best: str, n_classes: int
) -> str:
    """By how much duels must change to give another class the answer's votes."""
    votes, others = graph("Round", scores), ~np.eye(n_classes, dtype=bool)
    most = graph("ReduceMax", votes, np.array([1]), keepdims=1)
    behind = graph("Where", others, graph("Neg", against), graph.never)
    ranked = graph.many("TopK", (behind, np.array([n_classes])), 2, axis=2, largest=0)
    equal = graph("Equal", votes, most)
    last = graph("Add", graph("Sub", most, 1.0), graph.cast(equal, graph.real))
    # Of duels that are no numbers any place will do.
    last = graph(
        "Clip", graph.cast(last, np.int64), np.int64(0), np.int64(n_classes - 1)
    )
    last = graph.axes("Unsqueeze", last, [2])
    need = graph("GatherElements", ranked[0], last, axis=2)
    need = graph.axes("Squeeze", need, [2])
    clear = graph.axes("Squeeze", graph.axes("ReduceSum", against, [2]), [2])
    lead = graph("Sub", graph("GatherElements", clear, best, axis=1), clear)
    lead = graph("Div", lead, 2.0 * n_classes - 2)
    need = graph("Where", equal, graph("Min", lead, need), need)
    own = graph("Equal", best, np.arange(n_classes))
    need = graph("Where", own, graph.never, need)
    return graph("ReduceMin", need, np.array([1]), keepdims=1)


def _vote_scores(graph: Graph, duels: str, n_classes: int) -> str:
    pairs = list(combinations(range(n_classes), 2))
    first, second = np.zeros((2, len(pairs), n_classes))
    for row, (i, j) in enumerate(pairs):
        first[row, i] = second[row, j] = 1
    wins = graph.cast(graph("Greater", duels, 0.0), graph.real)
    # A duel won is a vote for the first class, else for the second.
    votes = graph("MatMul", wins, graph.table(first - second))
    votes = graph("Add", votes, graph.table(second.sum(axis=0)))
    clear = graph("MatMul", duels, graph.table(first - second))
    damped = graph("Mul", graph("Add", graph("Abs", clear), 1.0), 3.0)
    return graph("Add", votes, graph("Div", clear, damped))


def _graph_margins(graph: Graph, duels: str, n_classes: int) -> tuple[str, str]:
    """Let the first of the classes left meet the last, drop the loser, again."""
    column = np.zeros((n_classes, n_classes), np.int64)
    for number, (i, j) in enumerate(combinations(range(n_classes), 2)):
        column[i, j] = number
    # A zero per sample, even where a duel is no number.
    never = graph("Greater", graph.slice(duels, [0], [1], [1]), np.inf)
    first, zero = graph.cast(never, np.int64), graph.cast(never, graph.real)
    last = graph("Add", first, np.array([n_classes - 1]))
    classes, margins = np.arange(n_classes), None
    # Of each class that is still in, the closest duel so far.
    closest = graph("Add", zero, np.full((1, n_classes), np.inf, graph.real))
    for _ in range(n_classes - 1):
        place = graph("Add", graph("Mul", first, np.array([n_classes])), last)
        met = graph("Gather", column.ravel(), place)
        decision = graph("GatherElements", duels, met, axis=1)
        wins = graph("Greater", decision, 0.0)
        size = graph("Abs", decision)
        loser = graph("Equal", graph("Where", wins, last, first), classes)
        winner = graph("Equal", graph("Where", wins, first, last), classes)
        near = graph("Min", closest, size)
        closest = graph("Where", winner, near, closest)
        out = graph("Neg", size)
        margins = (
            graph("Where", loser, out, 0.0)
            if margins is None
            else graph("Where", loser, out, margins)
        )
        won = graph.cast(wins, np.int64)
        last = graph("Sub", last, won)
        first = graph("Add", first, graph("Sub", np.array([1]), won))
    own = graph("Equal", first, classes)
    return numbers(graph, graph("Where", own, closest, margins), duels), first


def plane_margins(graph: Graph, x: str, decision: ir.Planes, n_classes: int) -> tuple:
    """Margins of signed distances to hyperplanes."""
    values = graph("MatMul", x, graph.table(decision.coef.T))
    values = graph("Add", values, graph.table(decision.intercept))
    if decision.reach is not None:
        lengths = graph("ReduceL2", x, np.array([1]), keepdims=1)
        # Farther out no value is small.
        lengths = graph("Min", lengths, 1e150)
        slope, least = rounding(decision.coef.shape[1]) * decision.reach.T
        noise = graph("Add", graph("Mul", lengths, slope), least)
        zero = graph("LessOrEqual", graph("Abs", values), noise)
        values = graph("Where", zero, 0.0, values)
    if decision.shares is not None:
        values = mean_log_odds(graph, values, decision.shares, n_classes)
    if decision.borders is None:
        scheme, unit = decision.scheme, decision.unit
        return *duel_margins(graph, values, n_classes, scheme, unit), graph
    best = graph("ReduceMax", values, np.array([1]), keepdims=1)
    size = graph("ReduceMax", graph("Abs", values), np.array([1]), keepdims=1)
    tie = graph("LessOrEqual", graph("Sub", best, values), graph("Mul", size, TIE))
    values = graph("Where", tie, best, values)
    gaps = graph.axes("Unsqueeze", values, [2])
    gaps = graph("Sub", gaps, graph.axes("Unsqueeze", values, [1]))
    gaps = graph("Div", gaps, graph.table(decision.borders))
    margins, best = margins_of_pairs(graph, values, gaps, n_classes)
    return numbers(graph, margins, values), best, graph


def mean_log_odds(graph: Graph, values: str, shares: NDArray, n_classes: int) -> str:
    """Log-odds of the mean probabilities of several regressions."""
    rows = 1 if n_classes == 2 else n_classes
    values = graph("Reshape", values, np.array([-1, len(shares), rows]))
    if rows == 1:
        values = graph("Concat", values, graph("Mul", values, 0.0), axis=2)
    log_P = graph("LogSoftmax", values, axis=2)
    log_P = graph("Add", log_P, graph.table(np.log(shares)[:, np.newaxis]))
    top = graph("ReduceMax", log_P, np.array([1]), keepdims=1)
    sums = graph.axes("ReduceSum", graph("Exp", graph("Sub", log_P, top)), [1])
    top = graph("Reshape", top, np.array([-1, n_classes]))
    sums = graph("Reshape", sums, np.array([-1, n_classes]))
    mean = graph("Add", top, graph("Log", sums))
    if rows > 1:
        return mean
    first, second = (graph.slice(mean, [a], [a + 1], [1]) for a in (0, 1))
    return graph("Sub", first, second)


def expansion_margins(
    graph: Graph, x: str, decision: ir.Expansion, n_classes: int
) -> tuple:
    """Margins of a kernel machine."""
    references = decision.references
    d2, graph = squared_distances(graph, x, references)
    K = kernel_values(graph, d2, decision.kernel, decision.gamma)
    if references.sides in ("query", "reference") and references.frames is not None:
        # A kernel with tangents at one end is made symmetric by the other end.
        other = references._replace(
            sides="reference" if references.sides == "query" else "query"
        )
        d2, graph = squared_distances(graph, x, other)
        mirrored = kernel_values(graph, d2, decision.kernel, decision.gamma)
        K = graph("Mul", graph("Add", K, mirrored), 0.5)
    duels = graph("MatMul", K, graph.table(decision.coef))
    duels = graph("Add", duels, graph.table(decision.intercept))
    # What is rounding is a tie, as in Python.
    noise = graph("ReduceMax", graph("Abs", K), np.array([1]), keepdims=1)
    noise = graph("Mul", noise, decision.noise * np.abs(decision.coef).sum(axis=0))
    noise = graph("Add", noise, decision.noise * np.abs(decision.intercept))
    tie = graph("LessOrEqual", graph("Abs", duels), noise)
    duels = graph("Where", tie, 0.0, duels)
    return *duel_margins(graph, duels, n_classes, decision.scheme), graph


def kernel_values(graph: Graph, d2: str, kernel: str, gamma: float) -> str:
    """Kernel values from squared distances."""
    if kernel == "rbf":
        values = graph("Exp", graph("Mul", d2, -float(gamma)))
        # What is infinitely far is no sample, not one that is like none.
        return graph("Add", values, graph("Mul", d2, 0.0))
    power = graph("Pow", d2, gamma / 2)
    if kernel == "nd":
        return graph("Neg", power)
    return graph("Neg", graph("Log", graph("Add", power, 1.0)))


def rounded(graph: Graph, d2: str) -> str:
    """Make distances that differ by rounding alone equal: the first references vote."""
    far = graph("ReduceMax", d2, np.array([1]), keepdims=1)
    far = graph("Where", graph("Greater", far, 0.0), far, 1.0)
    size = graph("Ceil", graph("Div", graph("Log", far), np.log(2.0)))
    step = graph("Pow", np.full((1, 1), 2.0), graph("Sub", size, 46.0))
    return graph("Mul", graph("Round", graph("Div", d2, step)), step)


def vote_margins(graph: Graph, x: str, decision: ir.Votes, n_classes: int) -> tuple:
    """Shares of the vote of the nearest references; of equal shares the nearer."""
    d2, graph = squared_distances(graph, x, decision.references)
    k = decision.n_neighbors
    near, place = graph.many("TopK", (rounded(graph, d2), np.array([k])), 2, largest=0)
    weights = graph("Gather", graph.table(decision.weights), place)
    if decision.by_distance:
        distance = graph("Sqrt", near)
        zero = graph("Equal", distance, 0.0)
        exact = graph.cast(zero, graph.real)
        any_zero = graph("ReduceMax", exact, np.array([1]), keepdims=1)
        inverse = graph("Div", 1.0, graph("Where", zero, 1.0, distance))
        inverse = graph("Where", graph("Greater", any_zero, 0.0), exact, inverse)
        weights = graph("Mul", weights, inverse)
    codes = graph.axes("Unsqueeze", graph("Gather", decision.codes, place), [2])
    belongs = graph.cast(graph("Equal", codes, np.arange(n_classes)), graph.real)
    votes = graph("Mul", belongs, graph.axes("Unsqueeze", weights, [2]))
    shares = graph.axes("ReduceSum", votes, [1])
    votes = graph("Reshape", shares, np.array([-1, n_classes]))
    shares = graph("Div", votes, graph("ReduceSum", votes, np.array([1]), keepdims=1))
    # Equally near ones are equally good.
    one, other = (graph.axes("Unsqueeze", near, [axis]) for axis in (1, 2))
    ahead = graph.cast(graph("Less", one, other), graph.real)
    ahead = graph("ReduceSum", ahead, np.array([2]), keepdims=1)
    nearness = graph("Div", graph("Sub", float(k), ahead), k + 1.0)
    rank = graph(
        "ReduceMax", graph("Mul", belongs, nearness), np.array([1]), keepdims=0
    )
    scores = graph("Add", shares, graph("Mul", rank, 1e-9))
    margins = graph("Clip", gap_margins(graph, scores, n_classes), -1.0, 1.0)
    return numbers(graph, margins, x), graph


MARGINS = {
    ir.Nearest: nearest_margins,
    ir.Planes: plane_margins,
    ir.Expansion: expansion_margins,
    ir.Votes: vote_margins,
}


def build(graph: Graph, x: str, program: ir.Program) -> dict[str, str]:
    """Add a program to a graph; the names of its outputs."""
    inner = graph
    decision = program.decision
    is_fine = isinstance(decision, ir.Votes | ir.Expansion | ir.Planes)
    is_fine |= isinstance(decision, ir.Nearest) and decision.slopes is not None
    if is_fine or any(isinstance(step, ir.Embed) for step in program.steps):
        # In float64, whose digits tell who is near enough to vote, what is left of
        # coefficients of either sign, who of equally many duels won them more clearly,
        # and which of two outputs is nearer to one.
        x, inner = widened(graph, x)
    x = prepare_all(inner, x, program.steps, program.n_features)
    n_classes = len(program.classes)
    write: Any = MARGINS[type(program.decision)]
    margins, *winner, wide = write(inner, x, program.decision, n_classes)
    # On a tie margins do not tell who wins.
    best = winner[0] if winner else graph("ArgMax", margins, axis=1)
    answer = graph.axes("Squeeze", best, [1])
    if wide.real != graph.real:
        margins = graph.cast(margins, graph.real)
    confidence = graph("ReduceMax", margins, np.array([1]), keepdims=0)
    outputs = {"margin": margins, "confidence": confidence}
    labels = ir.exact_labels(program.classes, program.reject_label)
    if program.threshold is not None:
        # The next number up, so that rounding never lets in what Python refuses.
        threshold = rounded_up(program.threshold, graph.real)
        accepted = graph("GreaterOrEqual", confidence, threshold)
        answer = graph("Where", accepted, answer, np.array(n_classes))
        outputs["accepted"] = accepted
    outputs["label"] = graph("Gather", label_tensor(labels), answer)
    return outputs


def label_tensor(labels: list) -> NDArray:
    """Labels as an array that a tensor can hold."""
    if isinstance(labels[0], str):
        return np.array(labels, dtype=object)
    return np.array(labels)


def onnx_model(program: ir.Program, dtype: Any) -> Any:
    """Return the program as an ONNX model."""
    import onnx
    from onnx import TensorProto, helper

    graph = Graph(dtype)
    outputs = build(graph, "X", program)
    real = helper.np_dtype_to_tensor_dtype(graph.real)
    labels = label_tensor(ir.exact_labels(program.classes, program.reject_label))
    kinds = {"O": TensorProto.STRING, "i": TensorProto.INT64, "b": TensorProto.BOOL}
    n_classes = len(program.classes)
    shapes: dict[str, tuple] = {
        "label": (kinds.get(labels.dtype.kind, TensorProto.DOUBLE), ["n"]),
        "margin": (real, ["n", n_classes]),
        "confidence": (real, ["n"]),
        "accepted": (TensorProto.BOOL, ["n"]),
    }
    declared = []
    for name, (kind, shape) in shapes.items():
        if name in outputs:
            graph.nodes.append(helper.make_node("Identity", [outputs[name]], [name]))
            declared.append(helper.make_tensor_value_info(name, kind, shape))
    size = sum(len(tensor.raw_data) for tensor in graph.initializers)
    if size > MOST_BYTES:
        raise ir.NotExportable(
            f"{program.name} cannot be exported: its tables have {size / 2**30:.1f} "
            "GiB and an ONNX file ends at 2; use fewer references, or float32."
        )
    inputs = [helper.make_tensor_value_info("X", real, ["n", program.n_features])]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes, program.name, inputs, declared, graph.initializers
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="widemargin",
        producer_version=widemargin.__version__,
    )
    helper.set_model_props(
        model,
        {
            "classes": json.dumps(ir.exact_labels(program.classes)),
            "margin_unit": program.margin_unit,
        },
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def register() -> None:
    """Register a converter for each type that can be described."""
    from skl2onnx import update_registered_converter

    for kind in _ours(CLASSIFIERS):
        update_registered_converter(
            kind,
            f"Widemargin{kind.__name__}",
            _no_shapes,
            _convert_classifier,
            parser=_parse_classifier,
        )
    for kind in _ours(TRANSFORMERS):
        update_registered_converter(
            kind, f"Widemargin{kind.__name__}", _own_shape, _convert_transformer
        )


def _ours(kinds: dict[type, Any]) -> list[type]:
    return [kind for kind in kinds if kind.__module__.startswith("widemargin.")]


def _no_shapes(operator: Any) -> None:
    """Do nothing: outputs were declared with their shapes."""


def _own_shape(operator: Any) -> None:
    width = operator.raw_operator.n_features_in_
    for step in prepared_by(operator.raw_operator):
        width = ir.width_after(step, width)
    operator.outputs[0].type = type(operator.inputs[0].type)([None, width])


def _parse_classifier(
    scope: Any, model: Any, inputs: list, custom_parsers: Any = None
) -> list:
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )

    program = describe(model)
    operator = scope.declare_local_operator(f"Widemargin{type(model).__name__}", model)
    operator.inputs = inputs
    real = DoubleTensorType if _is_double(inputs[0]) else FloatTensorType
    kind = label_tensor(
        ir.exact_labels(program.classes, program.reject_label)
    ).dtype.kind
    labels = {"O": StringTensorType, "i": Int64TensorType, "b": BooleanTensorType}
    outputs = {
        "label": labels.get(kind, DoubleTensorType)([None]),
        "margin": real([None, len(program.classes)]),
        "confidence": real([None]),
    }
    if program.threshold is not None:
        outputs["accepted"] = BooleanTensorType([None])
    for name, shape in outputs.items():
        operator.outputs.append(scope.declare_local_variable(name, shape))
    return operator.outputs


def _is_double(variable: Any) -> bool:
    return "Double" in type(variable.type).__name__


def _graph(scope: Any, operator: Any, container: Any) -> tuple[Graph, str]:
    if container.target_opset_any_domain("") < OPSET:
        raise ir.NotExportable(
            f"{type(operator.raw_operator).__name__} needs target_opset={OPSET} or "
            "later."
        )
    if len(operator.inputs) != 1:
        raise ir.NotExportable(
            f"{type(operator.raw_operator).__name__} takes one input with all "
            "features; declare one instead of one per column."
        )
    real = np.float64 if _is_double(operator.inputs[0]) else np.float32
    prefix = scope.get_unique_variable_name("widemargin")
    return Graph(real, f"{prefix}_"), operator.inputs[0].full_name


def _add(graph: Graph, container: Any, renamed: dict[str, str]) -> None:
    """Hand over what was built; `renamed` are the outputs of the operator."""
    from onnx import TensorProto, helper

    for tensor in graph.initializers:
        text = tensor.data_type == TensorProto.STRING
        container.add_initializer(
            tensor.name,
            tensor.data_type,
            list(tensor.dims),
            list(tensor.string_data) if text else tensor,
        )
    for name, variable in renamed.items():
        graph.nodes.append(helper.make_node("Identity", [name], [variable]))
    for node in graph.nodes:
        attributes = {
            one.name: helper.get_attribute_value(one) for one in node.attribute
        }
        container.add_node(
            node.op_type,
            list(node.input),
            list(node.output),
            op_domain="",
            op_version=OPSET,
            name=node.name,
            **attributes,
        )


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    graph, x = _graph(scope, operator, container)
    outputs = build(graph, x, describe(operator.raw_operator))
    variables = {variable.raw_name: variable for variable in operator.outputs}
    names = ("label", "margin", "confidence", "accepted")
    _add(
        graph,
        container,
        {outputs[n]: variables[n].full_name for n in names if n in variables},
    )


def _convert_transformer(scope: Any, operator: Any, container: Any) -> None:
    graph, x = _graph(scope, operator, container)
    transformer = operator.raw_operator
    x = prepare_all(graph, x, prepared_by(transformer), transformer.n_features_in_)
    _add(graph, container, {x: operator.outputs[0].full_name})
