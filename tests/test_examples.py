"""Every example runs in its quick form, prints numbers and shows one picture."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
PNG = b"\x89PNG\r\n\x1a\n"
# Shown pictures are saved, so that they can be looked at here.
RUN = """
import runpy, sys
from pathlib import Path
from matplotlib import pyplot as plt
path = Path(sys.argv[1])
plt.show = lambda: plt.savefig(path.stem + ".png")
runpy.run_path(str(path), run_name="__main__")
"""


def test_there_are_examples():
    assert len(EXAMPLES) >= 18


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    source = str(ROOT / "src")
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(path)],
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
    title, line, *_ = path.read_text().removeprefix('"""\n').splitlines()
    assert line == "=" * len(title)
