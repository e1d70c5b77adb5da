import importlib
import inspect
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from widemargin.cli import app
from widemargin.reproduce import tangent_kernels

mpl.use("Agg")


def test_the_paper_is_run_with_what_was_asked(command, monkeypatch, tmp_path):
    calls = []

    class Paper:
        @staticmethod
        def main(quick, out):
            calls.append((quick, out.resolve()))
            print("a table")

    monkeypatch.setattr(app, "import_module", lambda name: Paper)
    for more in ((), ("--out", "new/figures")):
        code, out, err = command("reproduce", "perceptrons", "--quick", *more)
        assert code == 0, err
        assert out == "a table\n"
    new = tmp_path.resolve() / "new" / "figures"
    assert calls == [(True, tmp_path.resolve()), (True, new)]
    assert new.is_dir()


@pytest.mark.parametrize("paper", app.PAPERS)
def test_every_paper_has_a_main(paper):
    name = f"widemargin.reproduce.{paper.replace('-', '_')}"
    module = importlib.import_module(name)
    assert list(inspect.signature(module.main).parameters)[:2] == ["quick", "out"]


def test_kernels_line_by_line(command, monkeypatch, digits, tmp_path):
    X, y = digits
    wide = np.zeros((len(X), 16, 16), np.float32)
    wide[:, 4:12, 4:12] = X.reshape(-1, 8, 8)
    small = wide.reshape(len(X), -1), y
    monkeypatch.setattr(tangent_kernels, "load_usps", lambda subset, return_X_y: small)
    monkeypatch.setattr(tangent_kernels, "QUICK", (90, 30))
    line = tangent_kernels.Line(
        "RBF MN",
        10.0,
        10.0,
        0.1,
        1.5,
        2.5,
        0.1,
        0.1,
        33.0,
        tangent_kernels.PUBLISHED[4],
        2.0,
    )
    seen = []

    def tables(given):
        seen.append(given)
        yield line

    monkeypatch.setattr(tangent_kernels, "tables", tables)
    monkeypatch.setattr(tangent_kernels, "rivals", lambda given: iter(()))
    code, out, err = command("reproduce", "tangent-kernels", "--quick")
    assert code == 0, err
    (cells,) = (row.split() for row in out.splitlines() if row.startswith("RBF MN"))
    assert cells[2:9] == ["10", "10", "0.1", "1.5", "2.5", "2", "3.4"]
    paper = tangent_kernels.PUBLISHED[4]
    train, test = f"{paper.train_seconds:.4g}", f"{paper.test_seconds:.4g}"
    assert cells[9:] == ["0.1", train, "0.1", test, "33", str(paper.supports)]
    assert seen[0].X_train.shape == (90, 256)
    assert seen[0].X_test.shape == (30, 256)
    assert len(list(tmp_path.glob("tangent_kernels_figure_*.png"))) == 3


def test_without_data_the_reason_is_one_line(refuses, monkeypatch, tmp_path):
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "pooch", None)
    message = refuses("reproduce", "tangent-kernels", "--quick")
    assert "usps.bz2" in message
    assert "nowhere" in message


def test_unknown_paper_and_folder(refuses):
    assert "did you mean 'perceptrons'" in refuses("reproduce", "perceptron")
    Path("file").touch()
    message = refuses("reproduce", "perceptrons", "--out", "file")
    assert "--out: file is a file; name a folder" in message
