"""Every paper runs by the same words: ``python -m widemargin.reproduce.NAME``."""

import runpy
import sys
from pathlib import Path

import pytest

import widemargin.reproduce

PAPERS = sorted(Path(widemargin.reproduce.__file__).parent.glob("[a-z]*.py"))


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_a_module_takes_quick_and_out(path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(path), run_name="__main__")
    assert done.value.code == 0
    said = capsys.readouterr().out
    assert "--quick" in said
    assert "--out" in said
