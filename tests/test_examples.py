"""Every example runs in its quick form, prints numbers and leaves its picture."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PNG = b"\x89PNG\r\n\x1a\n"


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    source = str(ROOT / "src")
    result = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ
        | {
            "WIDEMARGIN_QUICK": "1",
            "MPLBACKEND": "Agg",
            "PYTHONPATH": os.pathsep.join(
                filter(None, [source, os.environ.get("PYTHONPATH")])
            ),
        },
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"\d", result.stdout)
    assert [file.name for file in tmp_path.iterdir()] == [f"{path.stem}.png"]
    assert (tmp_path / f"{path.stem}.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_says_what_it_is(path):
    assert path.read_text().startswith('"""')
