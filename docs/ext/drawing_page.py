"""Copy the page to draw on into the site: it needs no build, see ``docs/draw``."""

import shutil
from pathlib import Path

from sphinx.application import Sphinx

FILES = ("index.html", "draw.css", "draw.js", "program.js", "digits.json")


def copy(app, exception):
    """Copy the page's files once the other pages are written."""
    if not exception and app.builder.format == "html":
        out = Path(app.outdir, "draw")
        out.mkdir(exist_ok=True)
        for name in FILES:
            shutil.copy(Path(app.srcdir, "draw", name), out / name)


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
