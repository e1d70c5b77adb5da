"""Every Python snippet of the README runs, and every picture and command exists."""

import re
import warnings
from pathlib import Path

import pytest
import sklearn

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
# Seeds mean other samples in other versions.
WRITTEN_WITH, SKLEARN = "1.9", ".".join(sklearn.__version__.split(".")[:2])
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_there_are_snippets():
    assert SNIPPETS


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_prints_what_it_says(number, tmp_path, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(SNIPPETS[number], "README.md", "exec"), {"__name__": "__main__"})
    plt.close("all")
    said = re.findall(r"print\(.*\)  # (.*)", SNIPPETS[number])
    if SKLEARN == WRITTEN_WITH:
        assert capsys.readouterr().out.splitlines() == said


HOME = "github.com/widemargin/widemargin/"
RAW = "raw.githubusercontent.com/widemargin/widemargin/"


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_are_absolute_and_what_they_name_is_here(target):
    # A package index shows this page too, and has none of the files.
    assert target.startswith("https://")
    inside = re.fullmatch(
        rf"https://(?:{HOME}(?:blob|tree)|{RAW[:-1]})/main/(.*)", target
    )
    if inside:
        assert (ROOT / inside[1]).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"make (\w+)", README))))
def test_make_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_first_own_prediction_comes_soon():
    # Words that are read, code included, up to the first answers of a model.
    before = README[: README.index("model.confidence(")]
    assert "model.predict(" in before
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", before)
    assert len(re.findall(r"[\w.]*\w", text)) <= 150


def test_it_says_how_long_the_tests_take():
    assert re.search(r"^make test .*\d+ minutes", README, re.MULTILINE)
