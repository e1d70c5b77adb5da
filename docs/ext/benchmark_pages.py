"""The pages of ``benchmarks/`` as pages of the site, under the same names.

Links from pages of ``docs/`` to the files of ``benchmarks/`` lead to them.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def write_pages(app):
    """Write one page that includes each."""
    folder = Path(app.srcdir, "benchmarks")
    folder.mkdir(exist_ok=True)
    for page in BENCHMARKS.glob("*.md"):
        text = f"```{{include}} ../../benchmarks/{page.name}\n```\n"
        target = folder / page.name
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


def relink(app, name, source):
    """Point links at the pages of the site instead of the files of the repository."""
    source[0] = re.sub(
        r"\]\((?:\.\./)+benchmarks/([\w.]+)\)", r"](/benchmarks/\1)", source[0]
    )


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", relink)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
