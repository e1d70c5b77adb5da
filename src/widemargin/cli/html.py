"""One self-contained HTML page: its styles inside, its pictures as data.

The page allows itself one style sheet and at most one script, both named by their
hashes, and pictures that are inside it; nothing can be loaded, sent or run besides.
"""

import base64
import hashlib
import html
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template
from typing import Any

ASSETS = files("widemargin.cli") / "assets"


@dataclass
class Page:
    """What a report says, in the order it is read."""

    title: str
    lead: str
    tiles: list[tuple[str, str]] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    footer: str = ""
    # Before the sections, and after them: what the script needs, as HTML.
    bar: str = ""
    data: str = ""

    def add(self, title: str, words: str, body: str, wide: bool = False) -> None:
        """Append a section; `title` and `words` are text, `body` is HTML."""
        kind = ' class="wide"' if wide else ""
        self.sections.append(
            f"<section{kind}><h2>{escape(title)}</h2>"
            f'<p class="soft">{escape(words)}</p>{body}</section>'
        )

    def render(self) -> str:
        """Return the page; it has a script only where it has data for one."""
        tiles = "".join(
            f'<div class="tile"><b>{escape(value)}</b><span>{escape(what)}</span></div>'
            for what, value in self.tiles
        )
        style, script = asset("report.css"), asset("report.js") if self.data else ""
        return Template(asset("page.html")).substitute(
            title=escape(self.title),
            lead=escape(self.lead),
            footer=escape(self.footer),
            tiles=tiles,
            bar=self.bar,
            sections="".join(self.sections),
            data=self.data + (f"<script>{script}</script>" if script else ""),
            style=style,
            style_hash=_hash(style),
            script_hash=_hash(script),
        )


def asset(name: str) -> str:
    """Return a piece of the page that is the same in every report."""
    return (ASSETS / name).read_text("utf-8")


def _hash(text: str) -> str:
    """Return what a content security policy calls a piece of code by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def escape(text: Any) -> str:
    """Return text safe inside HTML."""
    return html.escape(str(text))


def picture(figure: Any, alt: str) -> str:
    """Return a matplotlib figure as an image inside the page, and close it."""
    from matplotlib import pyplot as plt

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140, facecolor="white")
    width = round(figure.get_size_inches()[0] * 96)
    plt.close(figure)
    return embed(buffer.getvalue(), alt, width)


def embed(png: bytes, alt: str, width: int) -> str:
    """Return a PNG as an image inside the page, `width` CSS pixels wide at most."""
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return f'<img src="{source}" alt="{escape(alt)}" width="{width}">'


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table of text cells, the first column to the left."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return scrolled(
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", header[0]
    )


def scrolled(inner: str, what: str) -> str:
    """Return HTML that scrolls sideways where it is too wide, by keyboard too."""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(what)}">'
        f"{inner}</div>"
    )


def confusion(counts: Any, classes: Any) -> str:
    """Return the counts as a coloured table: right answers grey, wrong ones red."""
    # Names that are wider than a count stand upright.
    upright = ' class="upright"' if max(len(str(c)) for c in classes) > 4 else ""
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in classes)
    rows = []
    for i, label in enumerate(classes):
        total = max(int(counts[i].sum()), 1)
        cells = "".join(
            _cell(int(counts[i][j]), total, i, j) for j in range(len(classes))
        )
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>')
    return scrolled(
        f'<table class="confusion"><thead{upright}><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>",
        "true classes against answers",
    )


def _cell(count: int, total: int, i: int, j: int) -> str:
    if count == 0:
        return '<td class="none">·</td>'
    share = count / total
    # Square root: a single mistake among hundreds must still be seen.
    depth = min(int(4 * (share if i == j else share**0.5)), 3)
    kind = f"{'right' if i == j else 'wrong'}{depth}"
    return f'<td class="{kind}" data-cell="{i} {j}">{count}</td>'


def code(text: str) -> str:
    """Return a block of code."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


@dataclass(frozen=True)
class Plot:
    """A curve in a frame, drawn as SVG; the script moves marks over it.

    `low` to `high` is the horizontal axis, `bottom` to `ceiling` the vertical one.
    """

    low: float
    high: float
    bottom: float
    ceiling: float
    left: float = 56
    top: float = 10
    width: float = 450
    height: float = 240

    def x(self, value: Any) -> Any:
        """Where a value of the horizontal axis lies."""
        return self.left + self.width * (value - self.low) / (self.high - self.low)

    def y(self, value: Any) -> Any:
        """Where a value of the vertical axis lies."""
        share = (value - self.bottom) / (self.ceiling - self.bottom)
        return self.top + self.height * (1 - share)

    def curve(self, xs: Any, ys: Any) -> str:
        """Return a line through points."""
        points = zip(self.x(xs), self.y(ys), strict=True)
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        return f'<polyline class="curve" points="{text}"/>'

    def render(
        self, inner: str, words: str, xlabel: str, ylabel: str, ticks: Sequence[float]
    ) -> str:
        """Return the plot; `inner` is what is drawn in it."""
        base, right = self.top + self.height, self.left + self.width
        parts = []
        for value in ticks:
            x = self.x(value)
            parts.append(
                f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{value:g}'
                "</text>"
            )
        for value in round_steps(self.bottom, self.ceiling):
            y = self.y(value)
            parts.append(
                f'<line class="grid" x1="{self.left}" x2="{right}" y1="{y:.1f}" '
                f'y2="{y:.1f}"/><text x="{self.left - 7}" y="{y + 4:.1f}" '
                f'text-anchor="end">{value:g}</text>'
            )
        middle = self.top + self.height / 2
        return (
            f'<svg class="plot" viewBox="0 0 {right + 14} {base + 44}" role="img" '
            f'aria-label="{escape(words)}">{"".join(parts)}'
            f'<line class="axis" x1="{self.left}" x2="{right}" y1="{base}" '
            f'y2="{base}"/>'
            f'<line class="axis" x1="{self.left}" x2="{self.left}" y1="{self.top}" '
            f'y2="{base}"/>{inner}'
            f'<text x="{self.left + self.width / 2}" y="{base + 38}" '
            f'text-anchor="middle">{escape(xlabel)}</text>'
            f'<text transform="translate(13 {middle}) rotate(-90)" '
            f'text-anchor="middle">{escape(ylabel)}</text></svg>'
        )


def round_steps(low: float, high: float) -> list[float]:
    """Return a few round numbers from low to high."""
    span = high - low
    step = 10.0 ** math.floor(math.log10(span))
    for divisor in (1, 2, 5, 10):
        if span / (step / divisor) >= 3:
            step /= divisor
            break
    first = math.ceil(low / step - 1e-9)
    return [float(f"{k * step:.6g}") for k in range(first, int(high / step + 1e-9) + 1)]
