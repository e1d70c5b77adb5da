"""Every Python snippet of the README runs, and every picture and command exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_there_are_snippets():
    assert SNIPPETS


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_runs(number, tmp_path):
    code = "import matplotlib; matplotlib.use('Agg')\n" + SNIPPETS[number]
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr


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
