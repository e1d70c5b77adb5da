"""The pages a user reads are in plain words: short sentences, words of the field."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from tests.writing import long_ones, sentences, words

import widemargin

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NAMED = (
    "index", "what_for", "first_hour", "faq", "install", "command_line", "glossary",
    "performance",
)  # fmt: skip
PAGES = [
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in NAMED),
    *sorted(DOCS.glob("guide/*.md")),
    *sorted(DOCS.glob("howto/*.md")),
    *sorted(DOCS.glob("papers/*.md")),
]
# The share of sentences that may be longer than 25 words.
ALLOWED = 0.05


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_sentences_are_short(path):
    text = path.read_text()
    found = long_ones(text)
    assert len(found) <= ALLOWED * len(sentences(text)), "\n\n".join(found)


def test_sentences_are_counted():
    text = """# A title of no account

A first sentence, with `code of many words`, and $x = y$.
A second: [a link](to/it), two.
- an item of a list
  that goes on

| a | cell of five short words |
|---|---|

```python
no.words
```
"""
    assert [words(one) for one in sentences(text)] == [7, 5, 8, 5]
    assert long_ones("word " * 26 + ".")
    assert not long_ones("word " * 25 + ".")


# Riddles of older pages; plain words stand beside.
FORBIDDEN = {
    "had not seen it": "left out",
    "what may vary": "tangents; changes that do not matter",
    "knows how sure": "reports a confidence",
    "know how sure": "report a confidence",
    "meaningless": "harmless, nuisance",
    "to the letter": "exactly",
    "stranger": "outlier",
    "the house": "the code",
    "of no account": "ignored",
    "share of mistakes": "error rate",
    "is told": "a note says",
    "duel": "pair of classes",
    "left-out samples is clearly": "validation error",
    " promise ": "guarantee",
    "promised": "guaranteed",
}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_no_riddles(path):
    text = " ".join(path.read_text().lower().split())
    found = {words: plain for words, plain in FORBIDDEN.items() if words in text}
    assert found == {}


# What people search for, and the pages that must have it.
SEARCHED = {
    "abstain": ["README.md", "docs/index.md", "docs/howto/rejecting.md", "docs/faq.md"],
    "reject option": ["docs/howto/rejecting.md", "docs/guide/wrappers.md"],
    "out-of-distribution": ["docs/howto/rejecting.md", "docs/howto/conformal.md"],
    "novelty": ["docs/howto/rejecting.md", "docs/howto/conformal.md"],
    "conformal": ["docs/howto/conformal.md", "docs/guide/wrappers.md"],
    "data augmentation": ["docs/guide/tangents.md", "docs/what_for.md"],
    "NIR": ["docs/what_for.md", "docs/howto/index.md"],
    "chemometrics": ["docs/what_for.md", "docs/howto/index.md"],
    "baseline correction": ["docs/guide/tangents.md"],
    "feature importance": ["docs/guide/plots.md"],
    "interpretab": ["docs/guide/prototypes.md", "docs/guide/plots.md"],
    "imbalanced": ["docs/faq.md", "docs/howto/rejecting.md"],
    "categorical": ["docs/faq.md", "docs/command_line.md"],
    "few-shot": ["docs/howto/index.md", "docs/guide/neighbors.md"],
    "hyperparameter": ["docs/howto/tuning.md"],
    "CNN": ["docs/what_for.md"],
    "boosting": ["docs/what_for.md"],
}


@pytest.mark.parametrize("word", SEARCHED)
def test_words_that_are_searched_stand_where_they_belong(word):
    lacking = [
        page
        for page in SEARCHED[word]
        if word.lower() not in " ".join((ROOT / page).read_text().lower().split())
    ]
    assert lacking == []


def public():
    """Yield the name and docstring of everything public, methods included."""
    for package in widemargin._SUBPACKAGES:
        module = importlib.import_module(f"widemargin.{package}")
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if not inspect.isclass(thing) and not inspect.isfunction(thing):
                continue
            yield f"{package}.{name}", inspect.getdoc(thing)
            for method, value in vars(thing).items() if inspect.isclass(thing) else ():
                written = inspect.isroutine(value) or isinstance(value, property)
                if written and not method.startswith("_") and inspect.getdoc(value):
                    yield f"{package}.{name}.{method}", inspect.getdoc(value)


def packages():
    """Yield the name and docstring of every public package."""
    yield "widemargin", widemargin.__doc__
    for package in widemargin._SUBPACKAGES:
        yield package, importlib.import_module(f"widemargin.{package}").__doc__


def prose(docstring):
    """Return what a docstring says, without types of parameters and examples."""
    # What is described deeper is a type, mostly with a name.
    types = r"^(\s*)\S.*(?=\n\1    )|^[\w, ]+ : .*"
    text = re.sub(types, "", docstring, flags=re.MULTILINE)
    text = re.sub(r"^\s*(>>>|\.\.\.) .*$", "", text, flags=re.MULTILINE)
    return re.sub(r":\w+:`", "`", text)


def test_docstrings_have_short_sentences():
    found = {name: long_ones(prose(said)) for name, said in public()}
    assert len(found) > 300
    assert {name: long for name, long in found.items() if long} == {}


def test_docstrings_have_no_riddles():
    riddles = [*FORBIDDEN, "strange"]
    found = {
        name: [words for words in riddles if words in " ".join(said.lower().split())]
        for name, said in [*public(), *packages()]
    }
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize("name", widemargin._ESTIMATORS)
def test_parameters_are_described_without_benchmarks(name):
    text = inspect.getdoc(getattr(widemargin, name))
    parameters = text.partition("\nParameters\n")[2].partition("\n\n")[0]
    assert not re.search(r"USPS|MNIST|\d\.\d %", parameters)
