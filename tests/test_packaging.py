"""What is published is what is tested."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("name", ["docs", "examples", "benchmarks", "Makefile", ".ci"])
def test_the_source_archive_holds_what_tests_read(name):
    listed = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert f"/{name}" in listed
    assert (ROOT / name).exists()


def test_the_lowest_versions_are_those_of_the_project():
    script = ROOT / ".ci" / "lowest.py"
    printed = subprocess.run(
        [sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    listed = [line.replace("==", ">=") for line in printed]
    extras = PROJECT["project"]["optional-dependencies"]
    assert listed == [
        *PROJECT["project"]["dependencies"],
        *extras["plot"],
        *extras["cli"],
        *extras["data"],
    ]
