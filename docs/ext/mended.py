"""What the theme and the writers of pages bring, and a page is better without.

Icons come as a font of 0.1 and as a script of 1.5 MB; the style sheet draws them from
the font wherever the script does not, so the script is emptied. Maps for debuggers of
the theme are left out. Lists of references say that they are lists of items, which they
do not hold; screen readers stumble over that.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx


def without_roles(app, page, template, context, doctree):
    """Take the roles from lists of references."""
    if "citation-list" in context.get("body", ""):
        context["body"] = re.sub(
            r'(<div[^>]* )role="(?:list|doc-biblioentry)"(?=[^>]*>)',
            r"\1",
            context["body"],
        )


def lighten(app, exception):
    """Empty the script, once everything is copied."""
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    Path(static, "scripts", "fontawesome.js").write_text("")
    for path in static.rglob("*.map"):
        path.unlink()


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("html-page-context", without_roles)
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
