"""The reference, from one registry: what the packages say is public, and nothing else.

``FRONT_DOOR`` names the classifiers that a newcomer needs; ``SECTIONS`` names the
packages, whose public names are those of their ``__all__``. From both come the pages of
the reference, the table of what every estimator can do, and the links: a public name in
backticks, anywhere on the site, leads to its page.
"""

import importlib
import inspect
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import widemargin

# Each with the data it is for.
FRONT_DOOR = {
    "GMLVQClassifier": "tables",
    "TVQClassifier": "a small, fast model of images or signals",
    "FewShotImageClassifier": "few labelled images",
    "TangentKNeighborsClassifier": "images and signals, all samples remembered",
    "TangentSVC": "images and signals, a support vector machine",
    "MaxMarginClassifier": "many features: text, sparse data, linear models",
    "RejectingClassifier": "around any classifier: abstains when it is unsure",
}
SECTIONS = {
    "fewshot": "Few labels",
    "prototypes": "Prototypes",
    "neighbors": "Neighbours and densities",
    "svm": "Support vector machines",
    "linear": "Linear classifiers",
    "meta": "Wrappers",
    "tangents": "Tangents and transformers",
    "metrics": "Distances and kernels",
    "margins": "Margins, losses and scores",
    "inspection": "Plots",
    "export": "Export",
    "datasets": "Datasets",
}
# Metadata routing: scikit-learn's own words, with links into its own pages.
NOT_SHOWN = (
    "set_fit_request",
    "set_partial_fit_request",
    "set_predict_request",
    "set_score_request",
    "set_transform_request",
    "set_inverse_transform_request",
    "get_metadata_routing",
    "set_callbacks",
)


def short_names():
    """Return every public name and where it is documented."""
    home = dict.fromkeys(widemargin._ESTIMATORS, "widemargin")
    home |= dict.fromkeys(widemargin._OTHERS, "widemargin")
    for package in SECTIONS:
        module = importlib.import_module(f"widemargin.{package}")
        for name in module.__all__:
            home.setdefault(name, f"widemargin.{package}")
    return {name: f"{place}.{name}" for name, place in home.items()}


def first_line(thing):
    """Return what a docstring says first."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return "What the units of margins are called."
    return inspect.getdoc(thing).split("\n\n")[0].replace("\n", " ")


def page_of(name, full):
    """Return the page of one public name."""
    place, _, _ = full.rpartition(".")
    thing = getattr(importlib.import_module(place), name)
    lines = [name, "=" * len(name), "", f".. currentmodule:: {place}", ""]
    if inspect.isclass(thing):
        lines += [
            f".. autoclass:: {name}",
            "   :members:",
            "   :inherited-members: tuple, dict, Exception, BaseException",
            f"   :exclude-members: {', '.join(NOT_SHOWN)}",
        ]
    elif inspect.isroutine(thing):
        lines += [f".. autofunction:: {name}"]
    else:
        lines += [f".. autodata:: {name}"]
    lines += ["", f".. minigallery:: {full}", "   :add-heading: In the gallery", ""]
    return "\n".join(lines)


def front_door():
    """Return the classifiers to begin with that there are, and what each is for."""
    return {k: v for k, v in FRONT_DOOR.items() if k in widemargin._ESTIMATORS}


def names_of(package):
    """Return the public names of a package; of "" those that belong to none."""
    if not package:
        # What belongs to a package is listed there.
        listed = {name for one in SECTIONS for name in names_of(one)}
        return sorted({*widemargin._OTHERS} - listed)
    return importlib.import_module(f"widemargin.{package}").__all__


def table_of(rows):
    """Return the lines of a table without a head."""
    lines = [".. list-table::", "   :widths: 35 65", ""]
    for row in rows:
        lines += [
            f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)
        ]
    return [*lines, ""]


def section_page(package, title):
    """Return the page of one package: its names, each with its first line."""
    home, path = short_names(), f"widemargin.{package}" if package else "widemargin"
    rows = [
        (
            f":doc:`{name} <{home[name]}>`",
            first_line(
                getattr(importlib.import_module(home[name].rpartition(".")[0]), name)
            ),
        )
        for name in names_of(package)
    ]
    lines = [title, "=" * len(title), "", f"``{path}``", "", *table_of(rows)]
    lines += [".. toctree::", "   :hidden:", ""]
    lines += [f"   {name} <{home[name]}>" for name in names_of(package)]
    return "\n".join([*lines, ""])


def index_page():
    """Return the page that lists them all, the classifiers to begin with first."""
    home = short_names()
    lines = ["Reference", "=========", "", "Classifiers", "-----------", ""]
    lines += [
        "Begin with these. Estimators are imported from ``widemargin``, the rest from",
        "its package. :doc:`capabilities` shows what every estimator can do.",
        "",
    ]
    lines += table_of(
        (f":doc:`{name} <{home[name]}>`", text) for name, text in front_door().items()
    )
    listed = {**SECTIONS, "": "Functions"}
    for package, title in listed.items():
        names = [name for name in names_of(package) if name not in front_door()]
        if not names:
            continue
        links = ", ".join(f":doc:`{name} <{home[name]}>`" for name in names)
        title = f":doc:`{title} <{package or 'functions'}>`"
        lines += [title, "-" * len(title), "", links, ""]
    lines += [".. toctree::", "   :hidden:", "", "   capabilities"]
    lines += [
        f"   {title} <{package or 'functions'}>" for package, title in listed.items()
    ]
    return "\n".join([*lines, ""])


def capabilities_page():
    """Return the table of what every estimator can do, by asking them."""
    from sklearn.linear_model import LogisticRegression

    from widemargin import DensityClassifier as Density
    from widemargin import TangentSVC

    def by(name, it_is):
        return f"by ``{name}``" if it_is else False

    title = "What every estimator can do"
    columns = [
        "estimator",
        "unit of margins",
        "tangents",
        "partial fit",
        "class weight",
        "probabilities",
        "missing values",
        "sparse X",
        "tensors",
        "Dask in fit",
    ]
    lines = [
        ":html_theme.sidebar_secondary.remove: true",
        "",
        title,
        "=" * len(title),
        "",
        "Generated from the code. Wrappers inherit from the wrapped classifier (here",
        "logistic regression). Tensors are torch's, also on a GPU, by scikit-learn's",
        "array API dispatch. All estimators take sample weights. :doc:`/performance`",
        "has what they cost.",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "   :class: capabilities",
        "",
    ]
    lines += [f"   {'* -' if i == 0 else '  -'} {c}" for i, c in enumerate(columns)]
    for name, package in widemargin._ESTIMATORS.items():
        kind = getattr(importlib.import_module(f"widemargin.{package}"), name)
        model = kind(LogisticRegression()) if package == "meta" else kind()
        tags = model.__sklearn_tags__()
        try:
            unit = model.margin_unit
        except Exception:  # It depends on what was fitted.
            unit = None
        row = [
            f":doc:`{name} <widemargin.{name}>`",
            unit or ":doc:`varies </guide/margins>`",
            "tangents" in kind._get_param_names() or by("metric", kind is Density),
            hasattr(model, "partial_fit"),
            "class_weight" in kind._get_param_names(),
            hasattr(model, "predict_proba") or by("probability", kind is TangentSVC),
            tags.input_tags.allow_nan,
            tags.input_tags.sparse,
            tags.array_api_support,
            "fit" in getattr(kind, "lazy_methods", ()),
        ]
        cells = [("yes" if c else "·") if isinstance(c, bool) else c for c in row]
        lines += [f"   {'* -' if i == 0 else '  -'} {c}" for i, c in enumerate(cells)]
    return "\n".join([*lines, ""])


def write_if_changed(path, text):
    """Write a page, unless it is there already: Sphinx reads only what is new."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write_pages(app):
    """Write the pages of the reference before anything is read."""
    folder = Path(app.srcdir, "reference")
    folder.mkdir(exist_ok=True)
    pages = {full: page_of(name, full) for name, full in short_names().items()}
    pages |= {"index": index_page(), "capabilities": capabilities_page()}
    pages |= {package: section_page(package, SECTIONS[package]) for package in SECTIONS}
    pages |= {"functions": section_page("", "Functions")}
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        write_if_changed(folder / f"{name}.rst", text)


def link_names(app, doctree):
    """Turn public names in backticks into links to their pages."""
    home = app.env.widemargin_names
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext().removesuffix("()")
        inside = (nodes.title, nodes.reference, addnodes.pending_xref)
        if name not in home or isinstance(literal.parent, inside):
            continue
        reference = addnodes.pending_xref(
            "",
            refdomain="py",
            reftype="obj",
            reftarget=home[name],
            refexplicit=True,
            refwarn=False,
            refdoc=app.env.docname if hasattr(app.env, "docname") else "",
        )
        literal.replace_self(reference)
        reference += literal


def unlink_scikit_learn(app, what, name, thing, options, lines):
    """Take links into scikit-learn's own pages out of what was inherited from it."""
    text = "\n".join(lines)
    text = re.sub(r":ref:`([^<`]+?)\s*<[^>`]+>`", r"\1", text)
    lines[:] = re.sub(r":ref:`([^<`]+)`", r"``\1``", text).split("\n")


def remember_names(app, env, names):
    """Give the environment the registry once per build."""
    env.widemargin_names = short_names()


def setup(app: Sphinx):
    """Connect the registry with the build."""
    app.connect("builder-inited", write_pages)
    app.connect("env-before-read-docs", remember_names)
    app.connect("autodoc-process-docstring", unlink_scikit_learn)
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
