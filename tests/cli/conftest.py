"""Small data in every format the command reads, and the command as a function."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from tests.cli.writing import write_csv
from typer.testing import CliRunner

from widemargin.cli.app import app


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run the command in tmp_path; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


class Copy:
    """The command in a process of its own."""

    def __init__(self, answers):
        self.answers = answers
        self.pid = self.read()

    def read(self):
        assert select.select([self.answers], [], [], 120)[0], "it does not end"
        return int(self.answers.readline())

    def wait(self):
        return self.read()


@pytest.fixture(scope="session")
def process():
    """Start the command as a process of its own: see `ready.py`."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cli.ready"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        bufsize=0,
    ) as ready:

        def start(*arguments, out=os.devnull, err, unbuffered=False, largest=0):
            asked = {
                "arguments": [str(argument) for argument in arguments],
                "out": str(out), "err": str(err),
                "unbuffered": unbuffered, "largest": largest,
            }  # fmt: skip
            ready.stdin.write(json.dumps(asked).encode() + b"\n")
            return Copy(ready.stdout)

        yield start
        ready.stdin.close()


@pytest.fixture
def refuses(command, tmp_path):
    """Check that a call ends in one line on stderr, code 2, and no new file."""

    def check(*arguments, expected=2):
        before = sorted(tmp_path.rglob("*"))
        code, out, err = command(*arguments)
        assert code == expected, err
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("widemargin: ")
        assert "Traceback" not in err
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return check


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:120] / 16, y[:120]


@pytest.fixture
def iris_rows():
    data = load_iris()
    names = ["sepal_length", "sepal_width", "petal_length", "petal_width", "species"]
    rows = [
        [*map(str, row), str(data.target_names[label])]
        for row, label in zip(data.data[::3], data.target[::3], strict=True)
    ]
    return names, rows


@pytest.fixture
def iris(tmp_path, iris_rows):
    return write_csv(tmp_path / "iris.csv", *iris_rows)


@pytest.fixture
def digits_npz(tmp_path, digits):
    X, y = digits
    np.savez(tmp_path / "digits.npz", X=X.reshape(-1, 8, 8), y=y)
    return tmp_path / "digits.npz"


@pytest.fixture
def image_folder(tmp_path, digits):
    image = pytest.importorskip("PIL.Image")
    X, y = digits
    for i in np.flatnonzero(y < 3):
        folder = tmp_path / "images" / f"digit{y[i]}"
        folder.mkdir(parents=True, exist_ok=True)
        pixels = (255 * X[i].reshape(8, 8)).astype(np.uint8)
        image.fromarray(pixels).save(folder / f"{i:03d}.png")
    return tmp_path / "images"
