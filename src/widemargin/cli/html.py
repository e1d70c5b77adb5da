"""One self-contained HTML page: its styles inside, its pictures as data."""

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

STYLE = """
:root { --ink: #1f2933; --soft: #616e7c; --line: #e1e6ec; --red: #d64545;
  --paper: #ffffff; --ground: #f5f7fa; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 1.15rem; margin: 0 0 2px; }
p { margin: 4px 0 10px; }
.soft { color: var(--soft); }
.tiles { display: grid; gap: 12px; margin: 22px 0;
  grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); }
.tile, section { background: var(--paper); border: 1px solid var(--line);
  border-radius: 10px; }
.tile { padding: 12px 14px; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.25; }
.tile span { color: var(--soft); font-size: .86rem; }
.cards { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
section { padding: 18px 20px; min-width: 0; }
section.wide { grid-column: 1 / -1; }
section img { display: block; max-width: 100%; height: auto; margin: 10px auto 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin-top: 8px;
  width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 9px; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { color: var(--soft); font-weight: 600; }
table.confusion { width: auto; margin-left: auto; margin-right: auto; }
table.confusion td { text-align: center; min-width: 30px; border: 2px solid #fff;
  padding: 5px 3px; font-size: .84rem; }
table.confusion th { border: 0; text-align: center; }
pre { background: var(--ground); border-radius: 8px; padding: 12px 14px;
  margin: 8px 0 0; overflow-x: auto; font-size: .86rem; line-height: 1.45; }
footer { margin-top: 26px; color: var(--soft); font-size: .86rem; }
@media (max-width: 560px) { main { padding: 20px 12px 40px; }
  table.confusion td, table.confusion th { padding: 3px 1px; min-width: 22px;
    font-size: .8rem; }
  th, td { padding: 4px 5px; font-size: .82rem; }
  .panorama { overflow-x: auto; } .panorama img { max-width: none; width: 760px; }
  section { padding: 14px; } h1 { font-size: 1.5rem; }
  .tiles { grid-template-columns: 1fr 1fr; } }
@media print { body { background: #fff; } section { break-inside: avoid; } }
"""


@dataclass
class Page:
    """What a report says, in the order it is read."""

    title: str
    lead: str
    tiles: list[tuple[str, str]] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    footer: str = ""

    def add(self, title: str, words: str, body: str, wide: bool = False) -> None:
        """Append a section; `title` and `words` are text, `body` is HTML."""
        kind = ' class="wide"' if wide else ""
        self.sections.append(
            f"<section{kind}><h2>{escape(title)}</h2>"
            f'<p class="soft">{escape(words)}</p>{body}</section>'
        )

    def render(self) -> str:
        """Return the page."""
        tiles = "".join(
            f'<div class="tile"><b>{escape(value)}</b><span>{escape(what)}</span></div>'
            for what, value in self.tiles
        )
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title><style>{STYLE}</style></head>\n"
            f"<body><main><h1>{escape(self.title)}</h1>"
            f'<p class="soft">{escape(self.lead)}</p>\n'
            f'<div class="tiles">{tiles}</div>\n'
            f'<div class="cards">{"".join(self.sections)}</div>\n'
            f"<footer>{escape(self.footer)}</footer></main></body></html>\n"
        )


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
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def confusion(counts: Any, classes: Any) -> str:
    """Return the counts as a coloured table: right answers grey, wrong ones red."""
    head = "".join(f"<th>{escape(label)}</th>" for label in classes)
    rows = []
    for i, label in enumerate(classes):
        total = max(int(counts[i].sum()), 1)
        cells = "".join(
            _cell(int(counts[i][j]), total, i == j) for j in range(len(classes))
        )
        rows.append(f"<tr><th>{escape(label)}</th>{cells}</tr>")
    return (
        '<div class="scroll"><table class="confusion">'
        f"<thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(count: int, total: int, right: bool) -> str:
    if count == 0:
        return '<td style="color:#cbd2d9">·</td>'
    share = count / total
    # Square root: a single mistake among hundreds must still be seen.
    ink, depth = "31,41,51", 0.06 + 0.2 * share
    if not right:
        ink, depth = "214,69,69", 0.15 + 0.75 * share**0.5
    return f'<td style="background:rgba({ink},{depth:.2f})">{count}</td>'


def code(text: str) -> str:
    """Return a block of code."""
    return f"<pre><code>{escape(text)}</code></pre>"
