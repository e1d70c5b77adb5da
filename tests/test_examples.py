"""Every example runs in its quick form, prints numbers and shows one picture."""

import re
import runpy
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
PNG = b"\x89PNG\r\n\x1a\n"


def test_there_are_examples():
    assert len(EXAMPLES) >= 18


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WIDEMARGIN_QUICK", "1")
    # Shown pictures are saved, so that they can be looked at here.
    monkeypatch.setattr(plt, "show", lambda: plt.savefig(f"{path.stem}.png"))
    with warnings.catch_warnings(), plt.rc_context():
        warnings.simplefilter("error")
        runpy.run_path(str(path), run_name="__main__")
    plt.close("all")
    assert re.search(r"\d", capsys.readouterr().out)
    assert [file.name for file in tmp_path.iterdir()] == [f"{path.stem}.png"]
    assert (tmp_path / f"{path.stem}.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_says_what_it_is(path):
    title, line, *_ = path.read_text().removeprefix('"""\n').splitlines()
    assert line == "=" * len(title)
