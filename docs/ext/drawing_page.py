"""Copy the pages to draw on into the site: they need no build, see ``docs/draw``."""

import shutil
from pathlib import Path

from sphinx.application import Sphinx

FILES = (
    *("index.html", "draw.css", "draw.js", "paper.js", "program.js", "digits.json"),
    *("symbols.html", "symbols.js", "fewshot.js"),
)


def copy(app, exception):
    """Copy their files once the other pages are written."""
    if not exception and app.builder.format == "html":
        out = Path(app.outdir, "draw")
        out.mkdir(exist_ok=True)
        for name in FILES:
            shutil.copy(Path(app.srcdir, "draw", name), out / name)


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
