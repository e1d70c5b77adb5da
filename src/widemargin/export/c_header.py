r"""Programs as one C99 header: tables and a few loops, no heap.

Distances come from residuals, as in :mod:`~widemargin.export.onnx_graph`, in float32.
With eight-bit tables every distance and score carries its bound, and so the header
knows the margin that the model had at least before it was quantised: answers are
refused by that one, which makes every sample that is answered one that Python answers
alike.

There every row of a table is stored as integers in [-127, 127] times one scale, which
leaves an error e per row. What follows holds for every sample, not on average:

* a score w.x is wrong by at most |e| |x|;
* the distance to a point is wrong by at most |e|;
* the distance to C + span(T), T orthonormal, stored as :math:`\hat C` and
  :math:`\hat T = T + E`, computed as :math:`\hat r = \delta - \hat T^\top a` with
  :math:`\delta = x - \hat C, a = \hat T \delta`, lies within

  .. math:: \sqrt{|\hat r|^2 - \rho^2 |a|^2} - \|E\| (|a| + \|E\| |\delta|) - |e|
     \;\le\; d \;\le\; |\hat r| + \|E\| |a| + |e|,

  where :math:`\rho^2` is the largest :math:`(1 - \lambda)^2 / \lambda` of the
  eigenvalues of :math:`\hat T \hat T^\top`, the price of rows that are no longer
  orthonormal. (Above: |r| is the least :math:`|\delta - T^\top b|`, take b = a. Below:
  the same with T and :math:`\hat T` exchanged, and Pythagoras.)
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

import widemargin
from widemargin._compute.rounding import above, rounded_up
from widemargin.export import program as ir
from widemargin.tangents.convolution_features import TAPS
from widemargin.tangents.spectra import FLAT, NO_GAIN

PER_LINE = 8
TEMPLATES = (files("widemargin.export") / "templates.c").read_text("utf-8")
PARTS = dict(re.findall(r"^/// (\w+)\n(.*?)\n*(?=\n///|\Z)", TEMPLATES, re.S | re.M))
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}")
LARGEST = 127


@dataclass(frozen=True, eq=False)
class Quantised:
    """Integers (n, d), scales (n,), and the length of each row's error (n,)."""

    integers: NDArray
    scales: NDArray
    errors: NDArray

    @property
    def values(self) -> NDArray:
        """What the integers stand for, in float64."""
        return self.integers * self.scales.astype(float)[:, None]


def quantise_rows(table: NDArray) -> Quantised:
    """Quantise every row by a scale of its own.

    >>> found = quantise_rows(np.array([[1.0, -0.5, 0.0]]))
    >>> found.integers
    array([[127, -64,   0]], dtype=int8)
    """
    table = np.asarray(table, float)
    largest = np.abs(table).max(axis=1)
    scales = np.where(largest > 0, largest / LARGEST, 1.0).astype(np.float32)
    steps = np.rint(table / scales.astype(float)[:, None])
    integers = np.clip(steps, -LARGEST, LARGEST).astype(np.int8)
    left = table - integers * scales.astype(float)[:, None]
    return Quantised(integers, scales, np.linalg.norm(left, axis=1))


def frame_bounds(frames: NDArray, stored: NDArray) -> tuple[NDArray, NDArray]:
    """Return ``||E||`` and rho of every frame (K, m, d), in float64."""
    errors = np.linalg.norm(stored - frames, ord=2, axis=(1, 2))
    rho = np.zeros(len(frames))
    for j, rows in enumerate(stored):
        real = rows[np.any(rows != 0, axis=1)]
        if len(real):
            eigenvalues = np.linalg.eigvalsh(real @ real.T)
            if eigenvalues[0] < 0.25:
                raise ir.NotExportable(
                    "eight bits lose a tangent of this model; export it in float32."
                )
            rho[j] = np.sqrt(np.max((1 - eigenvalues) ** 2 / eigenvalues))
    return errors, rho


@dataclass(frozen=True)
class Header:
    """The text of a header, the bytes of its tables, and the worst of rounding."""

    text: str
    table_bytes: int
    quantisation: str


class Writer:
    """Tables and functions of one header in the making."""

    def __init__(self, name: str, bits: int):
        self.name, self.bits = name, bits
        self.tables: list[str] = []
        self.table_bytes = 0

    def table(self, name: str, values: Any, kind: str = "float") -> str:
        """Add a table, return its name; no values, no table."""
        values = np.ravel(values)
        cells = [_float(v) if kind == "float" else str(int(v)) for v in values]
        lines = [
            "  " + ", ".join(cells[i : i + PER_LINE])
            for i in range(0, len(cells), PER_LINE)
        ]
        full = f"{self.name}_{name}"
        body = ",\n".join(lines)
        self.tables.append(
            f"static const {kind} {full}[{len(cells)}] = {{\n{body}\n}};"
        )
        size = {"float": 4, "int8_t": 1, "uint16_t": 2, "int32_t": 4}[kind]
        self.table_bytes += size * len(cells)
        return full

    def rows(self, name: str, table: NDArray) -> tuple[str, str | None, NDArray]:
        """Add a table by rows: its name, that of its scales, its rows as stored."""
        if self.bits == 32:
            return self.table(name, table), None, np.asarray(table, np.float32)
        found = quantise_rows(table)
        integers = self.table(name, found.integers, "int8_t")
        return integers, self.table(f"{name}_scales", found.scales), found.values


def _float(value: float) -> str:
    number = ir.in_float32(value)[()]
    # The shortest digits that give the same number; through a float they would be more.
    return f"{number!s}f"


def c_header(program: ir.Program, name: str, dtype: str) -> Header:
    """Write the header of a program, its tables in "float32" or "int8"."""
    if not isinstance(name, str) or not IDENTIFIER.fullmatch(name):
        raise ValueError(
            f"name must be a short C identifier such as 'digits'; got {name!r}."
        )
    bits = 8 if dtype == "int8" else 32
    writer = Writer(name, bits)
    labels = _labels(program, name)
    write = {ir.Nearest: _nearest, ir.Planes: _planes}.get(type(program.decision))
    if write is None or any(isinstance(step, ir.Embed) for step in program.steps):
        raise ir.NotExportable(
            f"{program.name} cannot be exported to C: it answers by its training "
            "samples, which are too many for a header; use to_onnx."
        )
    prepare, width = _prepare(writer, program)
    decide, quantisation = write(writer, program, width)
    upper, guard = name.upper(), f"{name.upper()}_H"
    head = [
        _comment(program, writer, quantisation),
        f"#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n#include <stdint.h>\n",
        f"#define {upper}_FEATURES {program.n_features}",
        f"#define {upper}_CLASSES {len(program.classes)}",
        f"#define {upper}_REFUSED (-1)",
        f"{labels}\n",
        *writer.tables,
    ]
    end = f"#endif /* {guard} */\n"
    numbers = written("numbers", name)
    functions = [
        numbers,
        *_dots(name, bits),
        prepare,
        decide,
        _predict(program, name, bits),
    ]
    text = "\n\n".join(["\n".join(head), *functions, end])
    return Header(text, writer.table_bytes, quantisation)


def _comment(program: ir.Program, writer: Writer, quantisation: str) -> str:
    lines = [
        f"{program.name}, written by widemargin {widemargin.__version__}.",
        f"{program.n_features} features, {len(program.classes)} classes; tables of "
        f"{writer.table_bytes} bytes.",
        "",
        f"int {writer.name}_predict(const float *x, float *margin) answers with the",
        f"number of a class, 0 to {len(program.classes) - 1}, or -1 where it is not "
        "sure enough,",
        f"and writes how sure it is ({program.margin_unit}). "
        f"{writer.name}_label gives the label, of -1 {writer.name.upper()}_NO_LABEL.",
        "NaN is filled in where the model has an imputer. Else the answer is -1, as to",
        "infinity and to what overflows float32; with -ffast-math too.",
    ]
    if quantisation:
        lines += ["", quantisation]
    body = "\n".join(f" * {line}".rstrip() for line in lines)
    return f"/*\n{body}\n */"


def _labels(program: ir.Program, name: str) -> str:
    labels = ir.exact_labels(program.classes, program.reject_label)
    taken, first = set(labels), labels[0]
    # What stands for no answer is no label of a class.
    unused: Any = count(-1, -1)
    cell: Any
    if isinstance(first, str):
        kind, held, cell = "const char *", "const char *const", _quoted
        unused = ("none" * i for i in count())
    elif isinstance(first, float):
        if not np.isfinite(labels).all():
            raise ir.NotExportable("a label is not finite; use other labels.")
        kind, held, cell = "double ", "const double", repr
        unused = map(float, unused)
    else:
        kind, held, cell = "int64_t ", "const int64_t", _integer
    none = next(value for value in unused if value not in taken)
    if program.reject_label is not None:
        none = labels.pop()
    text = written("labels", name, HELD=held, KIND=kind, N=len(labels))
    # Last, since nothing in a label is to be replaced.
    text = text.replace("@CELLS@", ", ".join(map(cell, labels)))
    return f"#define {name.upper()}_NO_LABEL {cell(none)}\n\n{text}"


def _integer(value: int) -> str:
    # The smallest 64-bit number has no literal of its own in C.
    return f"INT64_C({int(value)})" if value > -(2**63) else "INT64_MIN"


def _quoted(text: str) -> str:
    """Return a C string literal of the UTF-8 bytes, whatever they are."""
    if "\0" in text:
        raise ir.NotExportable("a label contains a zero character; use other labels.")
    out = []
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        out.append(chr(byte) if plain else f"\\{byte:03o}")
    return f'"{"".join(out)}"'


def written(part: str, name: str, **values: Any) -> str:
    """Return a part of a header, with values where it has their names in @ signs."""
    text = PARTS[part]
    # Values may be parts themselves, and have names in them.
    for _ in range(2):
        for key, value in values.items():
            text = text.replace(f"@{key}@", str(value))
    return named(text, name)


def named(text: str, name: str) -> str:
    """Return C with the name of a header in it."""
    text = re.sub(r"\bUPPER_", f"{name.upper()}_", text)
    return re.sub(r"\bNAME_", f"{name}_", text)


def _dots(name: str, bits: int) -> list[str]:
    """Inner products of floats and, of eight-bit tables, of integers with floats."""
    plain = written("dot", name)
    if bits == 32:
        return [plain]
    eight = plain.replace("_dot(const float *a", "_dot8(const int8_t *a")
    return [plain, eight.replace("+= a[i", "+= (float)a[i")]


def _prepare(writer: Writer, program: ir.Program) -> tuple[str, int]:
    """Write the steps, as functions of which the last fills z; how wide z is then."""
    functions: list[str] = []
    width = program.n_features
    body, after, widest = _steps(writer, program.steps, width, "step", functions)
    text = written("prepare", writer.name, FEATURES=width, BODY=body, AS="prepare")
    wide = f"#define {writer.name.upper()}_WIDEST {widest}"
    text = "\n\n".join([wide, *functions, text])
    return re.sub(r"\n\n+", "\n\n", text), after


def _steps(
    writer: Writer, steps: Iterable[ir.Step], width: int, tag: str, functions: list[str]
) -> tuple[str, int, int]:
    """Write steps on z, how wide it is after them, and at most on the way.

    What they call is put to the functions.
    """
    body: list[str] = []
    widest = width
    for number, step in enumerate(steps):
        own = f"{tag}{number}"
        if isinstance(step, ir.Join):
            body.append(_join(writer, step, own, width, functions))
        elif isinstance(step, ir.Convolve):
            body.append(_convolve(writer, step, own, width, functions))
        else:
            write: Any = STEPS[type(step)]
            body.append(write(writer, step, own, width))
        width = ir.width_after(step, width)
        widest = max(widest, width)
    return "\n".join(body), width, widest


def _join(
    writer: Writer, step: ir.Join, tag: str, width: int, functions: list[str]
) -> str:
    """Write every chain as a function of its own, and the calls of all."""
    calls, size, room = [], 0, 0
    for number, part in enumerate(step.parts):
        own = f"{tag}_{number}"
        body, after, widest = _steps(writer, part, width, f"{own}_", functions)
        functions.append(
            written("prepare", writer.name, FEATURES=width, BODY=body, AS=own)
        )
        calls.append(f"    NAME_{own}(z, joined + {size});")
        # What a chain leaves behind its features the next ones cover.
        room, size = max(room, size + widest), size + after
    return written("join", writer.name, ROOM=room, N=size, CALLS="\n".join(calls))


def _convolve(
    writer: Writer, step: ir.Convolve, tag: str, width: int, functions: list[str]
) -> str:
    """Write how one bank of kernels is applied, and a call for each of them."""
    channels, length = step.n_channels, width // step.n_channels
    kernels = len(step.banks[0].low)
    values: dict[str, Any] = {
        "CHANNELS": channels, "KERNELS": kernels, "TAPS": TAPS, "HALF": TAPS // 2,
        "LEVELS": max(bank.low.shape[1] for bank in step.banks), "AS": tag,
    }  # fmt: skip
    functions.append(written("convolve_bank", writer.name, **values))
    tables: dict[bytes, str] = {}
    low, rate, calls, at = [], [], [], 0
    for number, bank in enumerate(step.banks):
        # Kernels last: loops over all of them at once become vectors.
        key = bank.weights.tobytes()
        if key not in tables:
            name = f"{tag}_kernels{number}"
            tables[key] = writer.table(name, bank.weights.T)
        low.append(bank.low.T.ravel())
        rate.append(1 / (bank.high.astype(float) - bank.low).T.ravel())
        view, n_times = ("view", length - 1) if bank.differences else ("z", length)
        calls.append(
            f"    NAME_{tag}_bank({view}, {n_times}, {bank.dilation}, "
            f"{bank.low.shape[1]}, {tables[key]},\n      @LOW@ + {at}, @RATE@ + {at}, "
            f"found + {at});"
        )
        at += bank.low.size
    values |= {
        "CALLS": "\n".join(calls), "N": at, "WIDTH": width,
        "LOW": writer.table(f"{tag}_low", np.concatenate(low)),
        "RATE": writer.table(f"{tag}_rate", np.concatenate(rate)),
        "DIFFERENCES": max(1, width - channels),
    }  # fmt: skip
    return written("convolve", writer.name, **values)


def _clip(writer: Writer, step: ir.Clip, tag: str, width: int) -> str:
    low, high = _float(step.low), _float(step.high)
    return (
        f"  for (i = 0; i < {width}; i++)\n"
        f"    z[i] = !{writer.name}_all_finite(z + i, 1) ? z[i]\n"
        f"      : z[i] < {low} ? {low} : z[i] > {high} ? {high} : z[i];"
    )


def _fill(writer: Writer, step: ir.Fill, tag: str, width: int) -> str:
    values = writer.table(f"{tag}_values", step.values)
    return (
        f"  for (i = 0; i < {width}; i++)\n"
        f"    z[i] = {writer.name}_is_nan(z[i]) ? {values}[i] : z[i];"
    )


def _pick(writer: Writer, step: ir.Pick, tag: str, width: int) -> str:
    columns = writer.table(f"{tag}_columns", step.columns, "int32_t")
    return written("pick", writer.name, N=len(step.columns), COLUMNS=columns)


def _affine(writer: Writer, step: ir.Affine, tag: str, width: int) -> str:
    value = "z[i]"
    for number, part in enumerate(ir.in_parts(step.centre)):
        value = f"({value} - {writer.table(f'{tag}_centre{number}', part)}[i])"
    if (step.scale != 1).any():
        value = f"{value} * {writer.table(f'{tag}_scale', step.scale)}[i]"
    if step.shift.any():
        value = f"{value} + {writer.table(f'{tag}_shift', step.shift)}[i]"
    if value == "z[i]":
        return ""
    return f"  for (i = 0; i < {width}; i++)\n    z[i] = {value};"


def _unit(writer: Writer, step: ir.Unit, tag: str, width: int) -> str:
    length = {
        "l1": "length += fabsf(z[i] / top)",
        "l2": "length += (z[i] / top) * (z[i] / top)",
        "max": "length = 1",
    }[step.norm]
    root = "sqrtf(length)" if step.norm == "l2" else "length"
    short = _float(ir.SHORT)
    return written("unit", "", WIDTH=width, LENGTH=length, ROOT=root, SHORT=short)


def _smooth(writer: Writer, step: ir.Smooth, tag: str, width: int) -> str:
    h, w, c = len(step.down), len(step.across), step.channels
    across = writer.table(f"{tag}_across", step.across)
    down = writer.table(f"{tag}_down", step.down)
    return written(
        "smooth", writer.name, H=h, W=w, C=c, ROW=w * c, SIZE=h * w * c,
        ACROSS=across, DOWN=down, BACK=_float(step.background),
    )  # fmt: skip


def _stencil(writer: Writer, step: ir.Stencil, tag: str, width: int) -> str:
    size = np.abs(step.weights).sum()
    table = np.vstack([step.left, step.weights, step.right])
    sums = table.sum(axis=1)
    sums = np.where(np.abs(sums) < 1e-12 * size, 0.0, sums)
    return written(
        "stencil", writer.name, WIDTH=width, WINDOW=len(step.weights),
        HALF=len(step.left), WEIGHTS=writer.table(f"{tag}_weights", table),
        SUMS=writer.table(f"{tag}_sums", sums),
    )  # fmt: skip


def _scatter(writer: Writer, step: ir.Scatter, tag: str, width: int) -> str:
    if step.reference is None:
        return written("scatter", writer.name, WIDTH=width, FLAT=_float(FLAT))
    mean = float(step.reference.mean())
    shape = step.reference - mean
    table = writer.table(f"{tag}_reference", shape / (shape @ shape or 1.0))
    return written(
        "scatter_reference", writer.name, WIDTH=width, REFERENCE=table,
        MEAN=_float(mean), NO_GAIN=_float(NO_GAIN),
    )  # fmt: skip


def _project(writer: Writer, step: ir.Project, tag: str, width: int) -> str:
    # In float32 whatever the references are: rounded, it would spoil their bounds.
    matrix = writer.table(f"{tag}_matrix", step.matrix)
    return written(
        "project", writer.name, N=len(step.matrix), WIDTH=width, MATRIX=matrix,
    )  # fmt: skip


STEPS = {
    ir.Affine: _affine,
    ir.Clip: _clip,
    ir.Fill: _fill,
    ir.Pick: _pick,
    ir.Unit: _unit,
    ir.Smooth: _smooth,
    ir.Stencil: _stencil,
    ir.Scatter: _scatter,
    ir.Project: _project,
}


def _rounding(width: int) -> str:
    """Return how wrong float32 can make a length, per unit of it, and not less."""
    bound = np.float32((width / 4 + 16) * 2.0**-23)
    return _float(above(bound))


def _nearest(writer: Writer, program: ir.Program, width: int) -> tuple[str, str]:
    decision = program.decision
    assert isinstance(decision, ir.Nearest)
    references = decision.references
    if references.tangents is not None or references.sides != "reference":
        raise ir.NotExportable(
            f"{program.name} cannot be exported to C: it bends its inputs along their "
            "own tangents; use sides='reference', or to_onnx."
        )
    if decision.slopes is not None:
        raise ir.NotExportable(
            f"{program.name} cannot be exported to C: its units need a logarithm; use "
            "to_onnx, or TVQClassifier."
        )
    if decision.rule != "nearest":
        raise ir.NotExportable(
            f"{program.name} cannot be exported to C: only decision='nearest' can; "
            "use to_onnx."
        )
    values: dict[str, Any]
    points = np.asarray(references.points, float)
    ir.require_squares(points, np.float32)
    frames = references.frames
    if frames is None or not frames.shape[1]:
        frames = np.empty((len(points), 0, width))
    K, m = len(points), frames.shape[1]
    codes = writer.table("codes", decision.codes, "uint16_t")
    centre = np.zeros(width)
    if writer.bits == 8:
        # As it will be stored, so that its rounding is no error.
        centre = points.mean(axis=0).astype(np.float32).astype(float)
    middle = writer.table("centre", centre) if centre.any() else None
    table, scales, stored = writer.rows("points", points - centre)
    subtract = f"\n    z[i] -= {middle}[i];" if middle else ""
    if subtract:
        subtract = f"\n  for (i = 0; i < {width}; i++){subtract}"
    if writer.bits == 32:
        part = "nearest"
        tangents = writer.table("tangents", frames) if m else ""
        values = {}
        quantisation = ""
    else:
        part = "nearest8"
        tangents = tangent_scales = ""
        errors = np.linalg.norm(stored - (points - centre), axis=1)
        E, rho = np.zeros(K), np.zeros(K)
        if m:
            flat = frames.reshape(K * m, width)
            tangents, held, kept = writer.rows("tangents", flat)
            tangent_scales = str(held)
            E, rho = frame_bounds(np.asarray(frames, float), kept.reshape(K, m, width))
        bounds = np.column_stack([errors, E, rho]) * (1 + 1e-6)
        values = {
            "POINT_SCALES": scales,
            "TANGENT_SCALES": tangent_scales,
            "BOUNDS": writer.table("bounds", bounds),
            "ROUNDING": _rounding(width),
        }
        quantisation = (
            f"Eight-bit tables: points are off by at most {errors.max():.3g}, frames "
            f"by {E.max():.3g} of what they explain."
        )
    values |= {
        "MARGINS": "\n" + PARTS["nearest_margins"],
        "PROJECT": "\n" + PARTS[f"{part}_project"] if m else "",
        "SUBTRACT": subtract,
        "POINTS": table,
        "TANGENTS": tangents,
        "CODES": codes,
        "REFERENCES": K,
        "WIDTH": width,
        "FRAME": m,
        "N_CLASSES": len(program.classes),
        "WIDEST": "UPPER_WIDEST",
    }
    return written(part, writer.name, **values), quantisation


def _planes(writer: Writer, program: ir.Program, width: int) -> tuple[str, str]:
    decision = program.decision
    assert isinstance(decision, ir.Planes)
    n_classes, coef = len(program.classes), decision.coef
    table, scales, stored = writer.rows("weights", coef)
    offsets = writer.table("offsets", decision.intercept)
    norms = np.linalg.norm(np.asarray(coef, float), axis=1)
    product = f"NAME_dot({table} + j * {width}, z, {width})"
    fill, quantisation = "", ""
    if scales is not None:
        errors = np.linalg.norm(stored - coef, axis=1)
        product = f"{scales}[j] * NAME_dot8({table} + j * {width}, z, {width})"
        grown = errors + (norms + np.abs(decision.intercept)) * (width / 4 + 16) / 2**23
        bounds = writer.table("bounds", grown * (1 + 1e-6))
        fill = f"\n    wrong[j] = {bounds}[j] * (1 + length);"
        quantisation = (
            f"Eight-bit tables: scores are off by at most {errors.max():.3g} of the "
            "length of a sample."
        )
    # Roundings of a sum of so many products, and of the steps before, by chance.
    small = (np.sqrt(width) / 2 + 4) * 2.0**-24
    if decision.reach is not None:
        zero = writer.table("reach", small * decision.reach)
        fill += "\n" + written("planes_zero", writer.name, REACH=zero)
    mix = ""
    if decision.shares is not None:
        n_regressions = len(decision.shares)
        mix = written(
            "planes_mean", writer.name, P=n_regressions, K=n_classes,
            ROWS=len(coef) // n_regressions, PLANES=len(coef),
            SHARES=writer.table("shares", np.log(decision.shares)),
        )  # fmt: skip
    rule = "two" if n_classes == 2 else "votes" if decision.scheme == "ovo" else "ddag"
    borders = ""
    if decision.borders is not None:
        rule, upper = "scores", np.triu_indices(n_classes, 1)
        borders = writer.table("borders", decision.borders[upper])
    text = written(
        "planes", writer.name, RULE=PARTS[f"planes_{rule}"],
        PRODUCT=product, OFFSETS=offsets, FILL=fill, PLANES=len(coef), WIDTH=width,
        WIDEST="UPPER_WIDEST", K=n_classes, UNIT=repr(float(decision.unit)),
        BORDERS=borders, TIE=_float(small), MEAN=mix,
    )  # fmt: skip
    return text, quantisation


def _predict(program: ir.Program, name: str, bits: int) -> str:
    refuse = ""
    if program.threshold is not None:
        # Of rounded tables an answer that may have been another is refused as well.
        wanted = program.threshold if bits == 32 else max(program.threshold, 0.0)
        # Rounding never lets in what Python refuses.
        threshold = rounded_up(wanted, np.float32)
        refuse = f"  if (!(least >= {_float(float(threshold))}))\n    return -1;\n"
    return written("predict", name, REFUSE=refuse)
