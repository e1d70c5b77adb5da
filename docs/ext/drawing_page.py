"""Copy the page to draw on, built by ``docs/draw/build.py``, into the site as it is."""

import shutil
from pathlib import Path

from sphinx.application import Sphinx


def copy(app, exception):
    """Copy the folder once the pages are written."""
    source = Path(app.srcdir, "draw_site", "draw")
    if not exception and app.builder.format == "html" and source.is_dir():
        shutil.copytree(source, Path(app.outdir, "draw"), dirs_exist_ok=True)


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
