"""``llms.txt``: the pages of the site, a line each, for readers that are programs."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

PARTS = {
    "": "Start",
    "guide": "User guide",
    "howto": "How to",
    "papers": "Papers",
    "examples": "Gallery",
    "reference": "Reference",
}


def collect(app, doctree):
    """Keep title and first paragraph of every page as it is read."""
    title = next(iter(doctree.findall(nodes.title)), None)
    text = next(
        (
            paragraph.astext()
            for paragraph in doctree.findall(nodes.paragraph)
            if not isinstance(paragraph.parent, nodes.note | nodes.sidebar)
        ),
        "",
    )
    if title is not None and not hasattr(app.env, "widemargin_pages"):
        app.env.widemargin_pages = {}
    if title is not None:
        pages = app.env.widemargin_pages
        pages[app.env.docname] = (title.astext(), " ".join(text.split()))


def merge(app, env, names, other):
    """Join what several processes have read."""
    env.widemargin_pages = getattr(env, "widemargin_pages", {}) | getattr(
        other, "widemargin_pages", {}
    )


def write(app, exception):
    """Write the list beside the pages."""
    if exception or app.builder.format != "html":
        return
    pages = {
        name: page
        for name, page in getattr(app.env, "widemargin_pages", {}).items()
        if name in app.env.found_docs
    }
    lines = [
        "# widemargin",
        "",
        "> Classifiers for scikit-learn that ignore changes you know are harmless, "
        "report a confidence, and can abstain.",
    ]
    for part, title in PARTS.items():
        chosen = {
            name: page
            for name, page in sorted(pages.items())
            if (name.partition("/")[0] if "/" in name else "") == part
            and not name.endswith("sg_execution_times")
        }
        lines += ["", f"## {title}", ""]
        for name, (heading, text) in chosen.items():
            first = text.split(". ")[0].rstrip(".,:")[:200]
            lines.append(f"- [{heading}]({app.builder.get_target_uri(name)}): {first}.")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n")


def setup(app: Sphinx):
    """Connect with the build."""
    app.connect("doctree-read", collect)
    app.connect("env-merge-info", merge)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
