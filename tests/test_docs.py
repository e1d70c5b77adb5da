"""What the site says is true: every snippet of its pages runs, every name is listed."""

import doctest
import importlib
import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest
import sklearn
from sklearn.utils.discovery import all_estimators

import widemargin

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if not {"_build", "draw", "node_modules"} & set(path.relative_to(DOCS).parts)
]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# What snippets need beyond NumPy and scikit-learn.
NEEDS = {
    "PIL": "PIL",
    "dask.array": "dask",
    "matplotlib": "matplotlib",
    "export": "onnx",
}


# Seeds mean other samples in other versions; the numbers on the pages are of this one.
WRITTEN_WITH = (1, 9)


def snippets(path):
    """Return the Python blocks of a page, in order, with the lines they begin at."""
    text = path.read_text()
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield text[: block.start(1)].count("\n"), block.group(1)


def run_page(path):
    """Run the snippets of a page in one namespace; return what went wrong."""
    names, parser = {}, doctest.DocTestParser()
    runner, problems = doctest.DocTestRunner(optionflags=OPTIONS), []
    for line, code in snippets(path):
        if ">>>" not in code:
            exec(compile(code, f"{path.name}:{line}", "exec"), names)
            continue
        test = parser.get_doctest(code, names, path.name, str(path), line)
        test.globs = names
        runner.run(test, out=problems.append, clear_globs=False)
    return "".join(problems)


@pytest.mark.parametrize(
    "path",
    [page for page in PAGES if any(snippets(page))],
    ids=lambda path: str(path.relative_to(DOCS)),
)
def test_snippets_of_a_page_run(path, monkeypatch, tmp_path):
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < WRITTEN_WITH:
        pytest.skip("the numbers on the pages are those of scikit-learn 1.9")
    text = path.read_text()
    for word, library in NEEDS.items():
        if f"from {word}" in text or f"import {word}" in text or f".{word} " in text:
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    # What a page sets must not reach the tests after it.
    with sklearn.config_context():
        assert run_page(path) == ""


@pytest.fixture
def registry(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "ext"))
    yield importlib.import_module("registry")
    sys.modules.pop("registry", None)


def test_the_reference_lists_every_public_name(registry):
    listed = set(registry.short_names())
    for package in widemargin._SUBPACKAGES:
        module = importlib.import_module(f"widemargin.{package}")
        public = set(getattr(module, "__all__", ()))
        assert public <= listed, f"widemargin.{package} is not in SECTIONS"
    assert set(widemargin._ESTIMATORS) <= listed


def test_pages_of_the_guide_are_in_it():
    for folder in ("guide", "howto", "papers"):
        index = (DOCS / folder / "index.md").read_text()
        for page in (DOCS / folder).glob("*.md"):
            listed = re.search(rf"^(.+ <)?{page.stem}>?$", index, re.MULTILINE)
            assert page.stem == "index" or listed, page.stem


def test_the_reference_begins_with_the_classifiers_to_begin_with(registry):
    text = registry.index_page()
    heads = re.findall(r"^(.+)\n-+$", text, re.MULTILINE)
    assert heads[0] == "Classifiers"
    places = [text.index(f"`{name} <") for name in registry.front_door()]
    assert places == sorted(places)
    assert text.index("GMLVQClassifier") < text.index("GLVQClassifier <")
    toctree = text.rpartition("toctree")[2]
    for package in registry.SECTIONS:
        assert f"<{package}>" in toctree


def test_the_classifiers_to_begin_with_have_few_parameters_of_their_own(registry):
    usual = {
        name
        for _, kind in all_estimators(type_filter="classifier")
        for name in inspect.signature(kind.__init__).parameters
    }
    for name in registry.front_door():
        parameters = set(inspect.signature(getattr(widemargin, name)).parameters)
        assert len(parameters - usual) <= 12, (name, sorted(parameters - usual))


def test_the_page_of_installing_says_what_extras_bring():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| (.*) \|$", (DOCS / "install.md").read_text(), re.MULTILINE
    )
    assert len(rows) == 6
    for extra, said in rows:
        wanted = project["optional-dependencies"][extra]
        brought = {re.match(r"[\w-]+", one)[0] for one in wanted}
        assert set(said.lower().split(", ")) == brought, extra
