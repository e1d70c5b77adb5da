r"""Programs as one C99 header: tables and a few loops, no heap.

Distances come from residuals, as in :mod:`~widemargin.export.onnx_graph`, in float32.
With eight-bit tables every distance and score carries its bound
(:mod:`~widemargin.export.quantise`), and so the header knows the margin that the model
had at least before it was quantised: answers are refused by that one, which makes
every sample that is answered one that Python answers alike.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import widemargin
from widemargin.export.program import (
    Affine,
    Clip,
    Nearest,
    NotExportable,
    Planes,
    Program,
    Project,
    Smooth,
    Unit,
    exact_labels,
    require_squares,
)
from widemargin.export.quantise import frame_bounds, quantise_rows

PER_LINE = 8
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}")


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
        size = {"float": 4, "int8_t": 1, "uint16_t": 2}[kind]
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
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        raise NotExportable(
            f"{value} is outside the range of float32, in which the header computes."
        )
    # The shortest digits that give the same number; through a float they would be more.
    return f"{number!s}f"


def c_header(program: Program, name: str, dtype: str) -> Header:
    """Write the header of a program, its tables in "float32" or "int8"."""
    if not isinstance(name, str) or not IDENTIFIER.fullmatch(name):
        raise ValueError(
            f"name must be a short C identifier such as 'digits'; got {name!r}."
        )
    bits = 8 if dtype == "int8" else 32
    writer = Writer(name, bits)
    labels = _labels(program, name)
    prepare, width = _prepare(writer, program)
    write = {Nearest: _nearest, Planes: _planes}.get(type(program.decision))
    if write is None:
        raise NotExportable(
            f"{program.name} cannot be exported to C: it answers by its training "
            "samples, which are too many for a header; use to_onnx."
        )
    decide, quantisation = write(writer, program, width)
    guard = f"{name.upper()}_H"
    parts = [
        _comment(program, writer, quantisation),
        f"#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n#include <stdint.h>\n",
        f"#define {name.upper()}_FEATURES {program.n_features}",
        f"#define {name.upper()}_CLASSES {len(program.classes)}",
        f"#define {name.upper()}_REFUSED (-1)\n",
        labels,
        *writer.tables,
        _filled(_DOT if bits == 32 else _DOTS, {}, name),
        prepare,
        decide,
        _predict(program, name, bits),
        f"#endif /* {guard} */\n",
    ]
    return Header("\n".join(parts), writer.table_bytes, quantisation)


def _comment(program: Program, writer: Writer, quantisation: str) -> str:
    lines = [
        f"{program.name}, written by widemargin {widemargin.__version__}.",
        f"{program.n_features} features, {len(program.classes)} classes; tables of "
        f"{writer.table_bytes} bytes.",
        "",
        f"int {writer.name}_predict(const float *x, float *margin) answers with the",
        f"number of a class, 0 to {len(program.classes) - 1}, or -1 where it is not "
        "sure enough,",
        f"and writes how sure it is ({program.margin_unit}). "
        f"{writer.name}_label gives the label.",
        "Features must be finite.",
    ]
    if quantisation:
        lines += ["", quantisation]
    body = "\n".join(f" * {line}".rstrip() for line in lines)
    return f"/*\n{body}\n */"


def _labels(program: Program, name: str) -> str:
    labels = exact_labels(program.classes, program.reject_label)
    first = labels[0]
    if isinstance(first, str):
        kind, cells = "const char *", [_quoted(label) for label in labels]
        held = "const char *const"
    elif isinstance(first, float):
        kind = held = "double"
        if not np.isfinite(labels).all():
            raise NotExportable("a label is not finite; use other labels.")
        held, cells = "const double", [repr(label) for label in labels]
    else:
        kind, held = "int64_t", "const int64_t"
        # The smallest 64-bit number has no literal of its own in C.
        cells = [f"INT64_C({int(v)})" if v > -(2**63) else "INT64_MIN" for v in labels]
    body = ", ".join(cells)
    last = len(labels) - 1 if program.reject_label is not None else 0
    space = "" if kind.endswith("*") else " "
    return f"""static {held} {name}_labels[{len(labels)}] = {{ {body} }};

/* Label of an answer. */
static inline {kind}{space}{name}_label(int answer)
{{
  return {name}_labels[answer < 0 ? {last} : answer];
}}
"""


def _quoted(text: str) -> str:
    """Return a C string literal of the UTF-8 bytes, whatever they are."""
    if "\0" in text:
        raise NotExportable("a label contains a zero character; use other labels.")
    out = []
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        out.append(chr(byte) if plain else f"\\{byte:03o}")
    return f'"{"".join(out)}"'


_DOT = """
static inline float NAME_dot(const float *a, const float *b, int n)
{
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  int i = 0;
  for (; i + 3 < n; i += 4) {
    s0 += a[i] * b[i];
    s1 += a[i + 1] * b[i + 1];
    s2 += a[i + 2] * b[i + 2];
    s3 += a[i + 3] * b[i + 3];
  }
  for (; i < n; i++)
    s0 += a[i] * b[i];
  return (s0 + s1) + (s2 + s3);
}
"""

_DOTS = _DOT + _DOT.replace(
    "NAME_dot(const float *a", "NAME_dot8(const int8_t *a"
).replace("+= a[i", "+= (float)a[i")


def _prepare(writer: Writer, program: Program) -> tuple[str, int]:
    """Write the steps, as a function that fills z, and how wide z is after them."""
    name, width = writer.name, program.n_features
    body: list[str] = []
    for number, step in enumerate(program.steps):
        tag = f"step{number}"
        if isinstance(step, Affine):
            body.append(_affine(writer, step, tag, width))
        elif isinstance(step, Clip):
            low, high = _float(step.low), _float(step.high)
            body.append(
                f"  for (i = 0; i < {width}; i++)\n"
                f"    z[i] = z[i] < {low} ? {low} : z[i] > {high} ? {high} : z[i];"
            )
        elif isinstance(step, Unit):
            body.append(_unit(step, width))
        elif isinstance(step, Smooth):
            body.append(_smooth(writer, step, tag))
        elif isinstance(step, Project):
            body.append(_project(writer, step, tag, width))
            width = len(step.matrix)
    widest = max(width, program.n_features)
    text = f"""
#define {name.upper()}_WIDEST {widest}

static inline void {name}_prepare(const float *x, float *z)
{{
  int i;
  for (i = 0; i < {program.n_features}; i++)
    z[i] = x[i];
{chr(10).join(body)}
}}
"""
    return re.sub(r"\n\n+", "\n\n", text), width


def _affine(writer: Writer, step: Affine, tag: str, width: int) -> str:
    value = "z[i]"
    if step.centre.any():
        value = f"(z[i] - {writer.table(f'{tag}_centre', step.centre)}[i])"
    if (step.scale != 1).any():
        value = f"{value} * {writer.table(f'{tag}_scale', step.scale)}[i]"
    if step.shift.any():
        value = f"{value} + {writer.table(f'{tag}_shift', step.shift)}[i]"
    if value == "z[i]":
        return ""
    return f"  for (i = 0; i < {width}; i++)\n    z[i] = {value};"


def _unit(step: Unit, width: int) -> str:
    grow = {
        "l1": "length += fabsf(z[i])",
        "l2": "length += z[i] * z[i]",
        "max": "length = fabsf(z[i]) > length ? fabsf(z[i]) : length",
    }[step.norm]
    root = "length = sqrtf(length);\n    " if step.norm == "l2" else ""
    return f"""  {{
    float length = 0;
    for (i = 0; i < {width}; i++)
      {grow};
    {root}if (length == 0)
      length = 1;
    for (i = 0; i < {width}; i++)
      z[i] /= length;
  }}"""


def _smooth(writer: Writer, step: Smooth, tag: str) -> str:
    h, w, c = len(step.down), len(step.across), step.channels
    across = writer.table(f"{tag}_across", step.across)
    down = writer.table(f"{tag}_down", step.down)
    back = _float(step.background)
    return f"""  {{
    float rows[{h * w * c}];
    int j, k, m;
    for (j = 0; j < {h}; j++)
      for (k = 0; k < {w}; k++)
        for (m = 0; m < {c}; m++) {{
          float sum = 0;
          for (i = 0; i < {w}; i++)
            sum += {across}[k * {w} + i] * (z[(j * {w} + i) * {c} + m] - {back});
          rows[(j * {w} + k) * {c} + m] = sum;
        }}
    for (j = 0; j < {h}; j++)
      for (k = 0; k < {w * c}; k++) {{
        float sum = 0;
        for (i = 0; i < {h}; i++)
          sum += {down}[j * {h} + i] * rows[i * {w * c} + k];
        z[j * {w * c} + k] = sum + {back};
      }}
  }}"""


def _project(writer: Writer, step: Project, tag: str, width: int) -> str:
    # In float32 whatever the references are: rounded, it would spoil their bounds.
    centre = writer.table(f"{tag}_centre", step.centre)
    matrix = writer.table(f"{tag}_matrix", step.matrix)
    n, name = len(step.matrix), writer.name
    return f"""  {{
    float mapped[{n}];
    int j;
    for (i = 0; i < {width}; i++)
      z[i] -= {centre}[i];
    for (j = 0; j < {n}; j++)
      mapped[j] = {name}_dot(z, {matrix} + j * {width}, {width});
    for (j = 0; j < {n}; j++)
      z[j] = mapped[j];
  }}"""


def _up(bound: float) -> str:
    """Return a bound as a float literal that is not below it."""
    return _float(np.nextafter(np.float32(bound), np.float32(np.inf)))


def _rounding(width: int) -> str:
    """Return how wrong float32 can make a length, per unit of it."""
    return _up((width / 4 + 16) * 2.0**-23)


def _nearest(writer: Writer, program: Program, width: int) -> tuple[str, str]:
    decision = program.decision
    assert isinstance(decision, Nearest)
    references = decision.references
    if references.tangents is not None or references.sides != "y":
        raise NotExportable(
            f"{program.name} cannot be exported to C: it bends its inputs along their "
            "own tangents; use sides='y', or to_onnx."
        )
    if decision.slopes is not None:
        raise NotExportable(
            f"{program.name} cannot be exported to C: its units need a logarithm; use "
            "to_onnx, or TVQClassifier."
        )
    if decision.rule != "nearest":
        raise NotExportable(
            f"{program.name} cannot be exported to C: only decision='nearest' can; "
            "use to_onnx."
        )
    name, n_classes = writer.name, len(program.classes)
    points = np.asarray(references.points, float)
    require_squares(points, np.float32)
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
        text = _FLOAT_NEAREST
        tangents = writer.table("tangents", frames) if m else ""
        parts = {"PROJECT": _FLOAT_PROJECT if m else ""}
        quantisation = ""
    else:
        text = _EIGHT_NEAREST
        tangents = tangent_scales = ""
        errors = np.linalg.norm(stored - (points - centre), axis=1)
        E, rho = np.zeros(K), np.zeros(K)
        if m:
            flat = frames.reshape(K * m, width)
            tangents, held, kept = writer.rows("tangents", flat)
            tangent_scales = str(held)
            E, rho = frame_bounds(np.asarray(frames, float), kept.reshape(K, m, width))
        bounds = np.column_stack([errors, E, rho]) * (1 + 1e-6)
        parts = {
            "PROJECT": _EIGHT_PROJECT if m else "",
            "POINT_SCALES": str(scales),
            "TANGENT_SCALES": tangent_scales,
            "BOUNDS": writer.table("bounds", bounds),
            "ROUNDING": _rounding(width),
        }
        quantisation = (
            f"Eight-bit tables: points are off by at most {errors.max():.3g}, frames "
            f"by {E.max():.3g} of what they explain."
        )
    parts |= {
        "SUBTRACT": subtract,
        "POINTS": table,
        "TANGENTS": tangents,
        "CODES": codes,
        "REFERENCES": str(K),
        "WIDTH": str(width),
        "FRAME": str(m),
        "N_CLASSES": str(n_classes),
        "WIDEST": f"{name.upper()}_WIDEST",
    }
    return _filled(text, parts, name), quantisation


def _filled(text: str, parts: dict[str, str], name: str) -> str:
    text = re.sub(r"\bNAME_", f"{name}_", text)
    for _ in range(2):
        for key, value in parts.items():
            text = text.replace(f"@{key}@", re.sub(r"\bNAME_", f"{name}_", value))
    return text


_MARGINS_OF_DISTANCES = """
  for (c = 1; c < @N_CLASSES@; c++)
    if (near[c] < near[best])
      best = c;
  for (c = 0; c < @N_CLASSES@; c++)
    if (c != best && near[c] < second)
      second = near[c];
  for (c = 0; c < @N_CLASSES@; c++) {
    const float other = c == best ? second : near[best], total = other + near[c];
    margins[c] = total == 0 ? 0 : (other - near[c]) / total;
  }"""

_FLOAT_PROJECT = """
    for (k = 0; k < @FRAME@; k++) {
      const float *t = @TANGENTS@ + (j * @FRAME@ + k) * @WIDTH@;
      const float along = NAME_dot(t, r, @WIDTH@);
      for (i = 0; i < @WIDTH@; i++)
        r[i] -= along * t[i];
    }"""

_FLOAT_NEAREST = f"""
/* Margins of all classes; returns the class of the largest. */
static inline int NAME_margins(const float *x, float *margins, float *least)
{{
  float z[@WIDEST@], r[@WIDTH@], near[@N_CLASSES@], second = HUGE_VALF;
  int c, i, j, k, best = 0;
  (void)k;
  NAME_prepare(x, z);@SUBTRACT@
  for (c = 0; c < @N_CLASSES@; c++)
    near[c] = HUGE_VALF;
  for (j = 0; j < @REFERENCES@; j++) {{
    float squared;
    for (i = 0; i < @WIDTH@; i++)
      r[i] = z[i] - @POINTS@[j * @WIDTH@ + i];@PROJECT@
    squared = NAME_dot(r, r, @WIDTH@);
    if (squared < near[@CODES@[j]])
      near[@CODES@[j]] = squared;
  }}{_MARGINS_OF_DISTANCES}
  *least = margins[best];
  return best;
}}
"""

_EIGHT_PROJECT = """
    for (k = 0; k < @FRAME@; k++) {
      const int8_t *t = @TANGENTS@ + (j * @FRAME@ + k) * @WIDTH@;
      const float scale = @TANGENT_SCALES@[j * @FRAME@ + k];
      const float along = scale * NAME_dot8(t, delta, @WIDTH@);
      const float step = scale * along;
      moved += along * along;
      for (i = 0; i < @WIDTH@; i++)
        r[i] -= step * (float)t[i];
    }"""

_EIGHT_NEAREST = f"""
/* Margins of all classes, and the least that the winner's can have been before the
   tables were rounded; returns the class of the largest. */
static inline int NAME_margins(const float *x, float *margins, float *least)
{{
  float z[@WIDEST@], delta[@WIDTH@], r[@WIDTH@], second = HUGE_VALF;
  float near[@N_CLASSES@], lows[@N_CLASSES@], highs[@N_CLASSES@];
  float low = HUGE_VALF, high, whole;
  int c, i, j, k, best = 0;
  (void)k;
  NAME_prepare(x, z);@SUBTRACT@
  for (c = 0; c < @N_CLASSES@; c++)
    near[c] = lows[c] = highs[c] = HUGE_VALF;
  for (j = 0; j < @REFERENCES@; j++) {{
    const float *bound = @BOUNDS@ + 3 * j;
    const float scale = @POINT_SCALES@[j];
    float squared, moved = 0, error, under;
    for (i = 0; i < @WIDTH@; i++)
      r[i] = delta[i] = z[i] - scale * (float)@POINTS@[j * @WIDTH@ + i];@PROJECT@
    squared = NAME_dot(r, r, @WIDTH@);
    c = @CODES@[j];
    if (squared < near[c])
      near[c] = squared;
    whole = sqrtf(NAME_dot(delta, delta, @WIDTH@));
    under = squared - bound[2] * bound[2] * moved;
    under = under > 0 ? sqrtf(under) : 0;
    moved = sqrtf(moved);
    error = bound[0] + @ROUNDING@ * whole + bound[1] * moved;
    if (sqrtf(squared) + error < highs[c])
      highs[c] = sqrtf(squared) + error;
    under -= error + bound[1] * bound[1] * whole;
    if (under < lows[c])
      lows[c] = under > 0 ? under : 0;
  }}{_MARGINS_OF_DISTANCES}
  for (c = 0; c < @N_CLASSES@; c++)
    if (c != best && lows[c] < low)
      low = lows[c];
  high = highs[best];
  whole = low * low + high * high;
  *least = whole == 0 ? 0 : (low * low - high * high) / whole;
  return best;
}}
"""


def _planes(writer: Writer, program: Program, width: int) -> tuple[str, str]:
    decision = program.decision
    assert isinstance(decision, Planes)
    name, n_classes, coef = writer.name, len(program.classes), decision.coef
    centre = decision.centre
    subtract = ""
    if centre is not None and np.any(centre):
        middle = writer.table("centre", centre)
        subtract = f"\n  for (i = 0; i < {width}; i++)\n    z[i] -= {middle}[i];"
    table, scales, stored = writer.rows("weights", coef)
    offsets = writer.table("offsets", decision.intercept)
    n_planes = len(coef)
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
    if decision.borders is None:
        rule = _plane_rule(decision.scheme, n_classes, decision.unit)
    else:
        table_of = writer.table(
            "borders", decision.borders[np.triu_indices(n_classes, 1)]
        )
        rule = _SCORES.replace("@K@", str(n_classes)).replace("@BORDERS@", table_of)
    text = f"""
/* Margins of all classes, and the least that the winner's can have been before the
   tables were rounded; returns the class of the largest. */
static inline int NAME_margins(const float *x, float *margins, float *least)
{{
  float z[@WIDEST@], value[{n_planes}], wrong[{n_planes}];
  int c, i, j, best = 0;
  float length;
  NAME_prepare(x, z);{subtract}
  length = sqrtf(NAME_dot(z, z, {width}));
  (void)length;
  (void)i;
  for (j = 0; j < {n_planes}; j++) {{
    value[j] = {product} + {offsets}[j];
    wrong[j] = 0;{fill}
  }}
{rule}
}}
"""
    return _filled(text, {"WIDEST": f"{name.upper()}_WIDEST"}, name), quantisation


def _plane_rule(scheme: str, n_classes: int, unit: float) -> str:
    if n_classes == 2:
        return """  margins[0] = value[0];
  margins[1] = -value[0];
  best = margins[1] > margins[0];
  c = best;
  *least = margins[c] - wrong[0];
  return best;"""
    K = str(n_classes)
    if scheme == "ovo":
        return _VOTES.replace("@K@", K).replace("@UNIT@", _float(unit))
    # Where the duel of classes i < j stands among all duels.
    place = f"first * (2 * {K} - first - 1) / 2 + last - first - 1"
    return f"""  {{
    float closest[{K}], kept[{K}], sure = HUGE_VALF;
    int first = 0, last = {n_classes - 1};
    (void)j;
    for (c = 0; c < {K}; c++)
      closest[c] = kept[c] = HUGE_VALF;
    while (first < last) {{
      const int at = {place};
      const float size = fabsf(value[at]), left = size - wrong[at];
      const int wins = value[at] > 0, winner = wins ? first : last;
      if (size < closest[winner])
        closest[winner] = size;
      if (left < kept[winner])
        kept[winner] = left;
      if (left < sure)
        sure = left;
      margins[wins ? last : first] = -size;
      last -= wins;
      first += !wins;
    }}
    best = first;
    margins[best] = closest[best];
    /* A duel in doubt on the way may have ended otherwise. */
    *least = sure < 0 ? sure : kept[best];
    return best;
  }}"""


# The answer keeps its votes as long as the closest of its duels. With rounded tables it
# must stay ahead whichever way the duels in doubt ended.
_VOTES = """  {
    float votes[@K@], clear[@K@], sure = HUGE_VALF;
    int most[@K@], fewest[@K@], doubtful = 0;
    for (c = 0; c < @K@; c++) {
      votes[c] = clear[c] = 0;
      most[c] = fewest[c] = 0;
    }
    for (i = 0, j = 0; i < @K@; i++)
      for (c = i + 1; c < @K@; c++, j++) {
        const int winner = value[j] > 0 ? i : c, loser = value[j] > 0 ? c : i;
        const int doubt = wrong[j] > 0 && !(fabsf(value[j]) > wrong[j]);
        votes[winner] += 1;
        most[winner] += 1;
        most[loser] += doubt;
        fewest[winner] += !doubt;
        clear[i] += value[j] / @UNIT@;
        clear[c] -= value[j] / @UNIT@;
      }
    for (c = 0; c < @K@; c++) {
      votes[c] += clear[c] / (3 * (fabsf(clear[c]) + 1));
      if (votes[c] > votes[best])
        best = c;
    }
    for (c = 0; c < @K@; c++) {
      float won = HUGE_VALF, lost = HUGE_VALF, direct = 0;
      for (i = 0; i < @K@; i++) {
        const int low = c < i ? c : i, high = c < i ? i : c;
        float own;
        if (i == c)
          continue;
        j = low * (2 * @K@ - low - 1) / 2 + high - low - 1;
        own = c < i ? value[j] : -value[j];
        if (fabsf(own) < won)
          won = fabsf(own);
        if (own < 0 && -own < lost)
          lost = -own;
        if (i == best)
          direct = own;
        if (c == best && fabsf(own) - wrong[j] < sure)
          sure = fabsf(own) - wrong[j];
      }
      margins[c] = c == best ? won : -(direct < 0 ? -direct : lost);
      doubtful |= wrong[0] > 0 && c != best && most[c] >= fewest[best];
    }
    *least = doubtful ? -1 : sure;
    return best;
  }"""

_SCORES = """  {
    for (c = 1; c < @K@; c++)
      if (value[c] > value[best])
        best = c;
    margins[best] = *least = HUGE_VALF;
    for (c = 0; c < @K@; c++) {
      const int low = c < best ? c : best, high = c < best ? best : c;
      float border, gap, sure;
      if (c == best)
        continue;
      border = @BORDERS@[low * (2 * @K@ - low - 1) / 2 + high - low - 1];
      gap = (value[best] - value[c]) / border;
      sure = gap - (wrong[best] + wrong[c]) / border;
      margins[c] = -gap;
      if (gap < margins[best])
        margins[best] = gap;
      if (sure < *least)
        *least = sure;
    }
    return best;
  }"""


def _predict(program: Program, name: str, bits: int) -> str:
    refuse = ""
    if program.threshold is not None:
        # Of rounded tables an answer that may have been another is refused as well.
        wanted = program.threshold if bits == 32 else max(program.threshold, 0.0)
        threshold = np.float32(wanted)
        if threshold < wanted:
            # The next number up: rounding never lets in what Python refuses.
            threshold = np.nextafter(threshold, np.float32(np.inf))
        refuse = f"  if (!(least >= {_float(float(threshold))}))\n    return -1;\n"
    return f"""
/* The answer, -1 if refused, and how sure it is. */
static inline int {name}_predict(const float *x, float *margin)
{{
  float margins[{name.upper()}_CLASSES], least;
  const int best = {name}_margins(x, margins, &least);
  (void)least;
  *margin = margins[best];
{refuse}  return best;
}}
"""
