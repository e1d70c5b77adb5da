"""What is published is what is tested."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both archives, built from this tree without a network."""
    for tool in ("build", "hatchling", "twine"):
        pytest.importorskip(tool)
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_index_would_take_the_archives(built):
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *built.iterdir()],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_holds_what_the_package_reads(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    source = ROOT / "src"
    for path in (source / "widemargin").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert path.relative_to(source).as_posix() in names


def test_the_wheel_runs_where_it_is_all_there_is(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path)
    code = (
        "import widemargin, sys; from widemargin.cli.html import Page;"
        "assert widemargin.__file__.startswith(sys.argv[1]);"
        "assert 'Security-Policy' in Page('t', 'l', data='x').render()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_source_archive_runs_its_tests(built, tmp_path):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    assert not (folder / "docs" / "draw_site").exists()
    some = ["test_packaging.py", "test_readme.py", "margins/test_scores.py"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-k", "not archive and not wheel and not snippet and not index"),
            *(f"tests/{name}" for name in some),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


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
