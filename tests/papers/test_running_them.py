"""Every paper runs by the same words: make reproduce PAPER=perceptrons."""

import importlib
import inspect
import sys

import matplotlib as mpl
import numpy as np
import pytest
import reproduce
from papers import tangent_kernels
from sklearn.datasets import load_digits

mpl.use("Agg")


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run papers in tmp_path; returns what was printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        reproduce.main(words)
        return capsys.readouterr().out

    return run


def test_the_paper_is_run_with_what_was_asked(command, monkeypatch, tmp_path):
    calls = []

    class Paper:
        @staticmethod
        def main(quick, out):
            calls.append((quick, out.resolve()))
            print("a table")

    monkeypatch.setattr(reproduce, "import_module", lambda name: Paper)
    for more in ((), ("--out", "new/figures")):
        assert command("perceptrons", "--quick", *more) == "a table\n"
    new = tmp_path.resolve() / "new" / "figures"
    assert calls == [(True, tmp_path.resolve()), (True, new)]
    assert new.is_dir()


@pytest.mark.parametrize("paper", reproduce.PAPERS)
def test_every_paper_has_a_main(paper):
    module = importlib.import_module(f"papers.{paper.replace('-', '_')}")
    assert list(inspect.signature(module.main).parameters)[:2] == ["quick", "out"]


def test_kernels_line_by_line(command, monkeypatch, tmp_path):
    X, y = load_digits(return_X_y=True)
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
    out = command("tangent-kernels", "--quick")
    (cells,) = (row.split() for row in out.splitlines() if row.startswith("RBF MN"))
    assert cells[2:9] == ["10", "10", "0.1", "1.5", "2.5", "2", "3.4"]
    paper = tangent_kernels.PUBLISHED[4]
    train, test = f"{paper.train_seconds:.4g}", f"{paper.test_seconds:.4g}"
    assert cells[9:] == ["0.1", train, "0.1", test, "33", str(paper.supports)]
    assert seen[0].X_train.shape == (90, 256)
    assert seen[0].X_test.shape == (30, 256)
    assert len(list(tmp_path.glob("tangent_kernels_figure_*.png"))) == 3


def test_without_data_the_reason_is_told(command, monkeypatch, tmp_path):
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(SystemExit, match=r"(?s)nowhere.*usps\.bz2|usps\.bz2.*nowhere"):
        command("tangent-kernels", "--quick")


def test_unknown_paper_and_folder(command, capsys, tmp_path):
    with pytest.raises(SystemExit):
        command("perceptron")
    assert "'perceptrons'" in capsys.readouterr().err
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        command("perceptrons", "--out", "file")
    assert "--out: file is a file; name a folder" in capsys.readouterr().err
