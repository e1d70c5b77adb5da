"""How the site is built: ``make docs``, on a fresh clone and without a network."""

import os
import re
import sys
from pathlib import Path
from urllib.request import urlopen

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "ext"))

import widemargin
from widemargin.datasets import load_ucr

project = "widemargin"
author = "The widemargin developers"
copyright = author
version = release = widemargin.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    # Ours, in ext/.
    "benchmark_pages",
    "drawing_page",
    "llms",
    "mathml",
    "mended",
    "pictures",
    "registry",
    "sample_report",
    "sharing",
]
exclude_patterns = [
    "_build",
    "_templates",
    "draw",
    "ext",
    "examples/*.ipynb",
]
templates_path = ["_templates"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
root_doc = "index"
default_role = "literal"
smartquotes = False
toc_object_entries_show_parents = "hide"
# A line for each parameter.
python_maximum_signature_line_length = 72
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_use_plots = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

INVENTORIES = {
    "numpy": "https://numpy.org/doc/stable/",
    "python": "https://docs.python.org/3/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
}


def reachable(address):
    """Whether an inventory can be read: without a network, none is asked for."""
    try:
        with urlopen(f"{address}objects.inv", timeout=3) as answer:
            return answer.status == 200
    except OSError:
        return False


offline = bool(os.environ.get("WIDEMARGIN_DOCS_OFFLINE")) or not reachable(
    INVENTORIES["python"]
)
intersphinx_mapping = {
    name: (address, None)
    for name, address in INVENTORIES.items()
    if not offline and reachable(address)
}
intersphinx_disabled_reftypes = ["*"]
linkcheck_timeout = 20
linkcheck_workers = 4
linkcheck_anchors = False

# Examples on measured data run where the data are or can be had; others show code.
BESIDE = HERE.parents[1] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("WIDEMARGIN_DATA", str(BESIDE))


def lacks_data(example):
    """Whether a set that an example loads is neither here nor to be had."""
    for name in set(re.findall(r'load_ucr\("(\w+)"', example.read_text())):
        try:
            load_ucr(name, download_if_missing=not offline)
        except OSError:
            return True
    return False


without_data = [
    re.escape(path.name)
    for path in HERE.parent.glob("examples/*/*.py")
    if lacks_data(path)
]
examples_run = rf"(?<![\w])(?!(?:{'|'.join(without_data)})$)\w+\.py$"

html_theme = "pydata_sphinx_theme"
html_title = "widemargin"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["filter.js"]
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
# Without it the theme finds no mode and writes an error to the console.
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "widemargin"},
    "navbar_end": ["version-switcher", "theme-switcher"],
    "switcher": {
        "json_url": os.environ.get("WIDEMARGIN_SWITCHER", "_static/switcher.json"),
        "version_match": version,
    },
    "check_switcher": False,
    "show_prev_next": False,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {
    "index": [],
    "install": [],
    "what_for": [],
    "first_hour": [],
    "performance": [],
    "examples/index": [],
    "changelog": [],
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": examples_run,
    "backreferences_dir": "examples/used",
    "doc_module": ("widemargin",),
    "reference_url": {"widemargin": None},
    "subsection_order": [
        f"../examples/{part}" for part in ("images", "signals", "tables", "sure", "out")
    ],
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "min_reported_time": 1,
    "plot_gallery": "True",
    "thumbnail_size": (400, 280),
    "nested_sections": False,
}
