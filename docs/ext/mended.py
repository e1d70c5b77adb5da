"""What the theme and the writers of pages bring, and a page is better without.

Icons come as a font of 0.1 and as a script of 1.5 MB; the style sheet draws them from
the font wherever the script does not, so the script is emptied. Maps for debuggers of
the theme are left out. Lists of references say that they are lists of items, which they
do not hold, and the list of modules nests lists without an item between; screen readers
stumble over both. Signatures of a line for each parameter are lists of definitions
without terms, and what opens a part of the side bar has no name.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx


def true_lists(app, page, template, context, doctree):
    """Take the roles from lists of references, and flatten the list of modules."""
    if page == "_modules/index":
        title, items = context["body"].split("<ul>", 1)
        flat = re.sub(r"</?ul>", "", items)
        context["body"] = f"{title}<ul>{flat}</ul>"
    if "sig-paren" in context.get("body", ""):
        context["body"] = re.sub(
            r'(<span class="sig-paren">\(</span>)\s*<dl>(.*?)</dl>',
            lambda found: found[1] + lines_of(found[2]),
            context["body"],
            flags=re.DOTALL,
        )
    if "citation-list" in context.get("body", ""):
        context["body"] = re.sub(
            r'(<div[^>]* )role="(?:list|doc-biblioentry)"(?=[^>]*>)',
            r"\1",
            context["body"],
        )


def lines_of(signature):
    """Return the parameters of a signature, each a line, in no list."""
    lines = signature.replace("<dd>", "<span>").replace("</dd>", "</span>")
    return f'<span class="sig-lines">{lines}</span>'


def name_openers(app):
    """Name what opens a part of the side bar after the link before it."""
    opener = re.compile(r'>([^<>]+)</a><details([^>]*)><summary><span class="toctree')
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text("utf-8")
        named = opener.sub(
            r'>\1</a><details\2><summary aria-label="\1: its pages">'
            r'<span class="toctree',
            text,
        )
        if named != text:
            path.write_text(named, "utf-8")


def lighten(app, exception):
    """Empty the script, once everything is copied."""
    if exception or app.builder.format != "html":
        return
    name_openers(app)
    static = Path(app.outdir, "_static")
    Path(static, "scripts", "fontawesome.js").write_text("")
    for path in static.rglob("*.map"):
        path.unlink()


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("html-page-context", true_lists)
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
