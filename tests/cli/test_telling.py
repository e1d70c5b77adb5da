"""Nothing wrong is silent: models that learned nothing, text like markup, disks."""

import io
import os
import sys

import numpy as np
import pytest
from rich.table import Table as RichTable
from tests.cli.writing import text_rows

from widemargin.cli import Refusal, console, evaluate, fit
from widemargin.prototypes import GLVQClassifier


def test_the_note_reaches_the_user(command, tmp_path):
    X, _ = text_rows()
    rows = (f"{i},{a + 5 * (i % 2)},{'pq'[i % 2]}" for i, a in enumerate(X[:, 0]))
    (tmp_path / "a.csv").write_text("\n".join([",b,k", *rows]))
    code, _, err = command("fit", "a.csv", "--target", "k", "--model", "lvq")
    assert code == 0, err
    assert "note: column '' is an index and was left out" in err


def test_a_model_that_learned_nothing_is_refused():
    y = np.array([0] * 6 + [1] * 4)
    with pytest.raises(Refusal, match=r"learned nothing: training error 40.00 %"):
        fit.check_learned(np.zeros(10, int), y)
    with pytest.raises(Refusal, match="always answering 0"):
        fit.check_learned(1 - y, y)
    # Weighted classes: more errors, but far from nothing.
    weighted = np.array([0] * 2 + [1] * 8)
    wrong, notes = fit.check_learned(weighted, y)
    assert wrong == 0.4
    assert "no better than" in notes[0]
    assert fit.check_learned(y, y) == (0.0, [])
    # By counts: 1 - 117 / 120 is a little more than 3 / 120.
    with pytest.raises(Refusal, match=r"learned nothing: training error 2.50 %"):
        fit.check_learned(np.zeros(120, int), np.array([0] * 117 + [1] * 3))


def test_hopeless_and_infinite_models_leave_no_file(refuses, iris, monkeypatch):
    call = ("fit", iris, "--target", "species", "--model", "glvq")
    monkeypatch.setattr(
        "widemargin.prototypes.GLVQClassifier.margins",
        lambda self, X, y: np.full(len(X), np.nan),
    )
    monkeypatch.setattr(
        "widemargin.prototypes.GLVQClassifier.confidence",
        lambda self, X: np.full(len(X), np.nan),
        raising=False,
    )
    assert "no finite answer for sample 1" in refuses(*call)
    monkeypatch.undo()


@pytest.mark.parametrize("command_line", [["fit", "iris.csv"], ["report", "m", "d"]])
def test_missing_libraries_are_told_before_any_work(
    refuses, iris, monkeypatch, command_line
):
    options = ["--target", "species", "--model", "glvq"]
    name = {"fit": "skops", "report": "matplotlib"}[command_line[0]]
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(fit, "read", lambda *a, **k: pytest.fail("read"))
    options = options if command_line[0] == "fit" else []
    message = refuses(*command_line, *options)
    assert f"needs {name}: pip install" in message


@pytest.mark.parametrize(
    ("out", "message"),
    [("no/m", "no folder no"), (".", "is a folder"), ("/dev/null", "no plain file")],
)
def test_out_is_looked_at_before_the_data(refuses, out, message):
    err = refuses("fit", "nowhere.csv", "--model", "glvq", "--out", out)
    assert message in err
    assert "--out" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable(refuses, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    err = refuses("fit", "nowhere.csv", "--model", "glvq", "--out", "locked/m")
    assert "locked/m is not writable" in err


def test_text_is_never_markup(capsys):
    table = RichTable(title="[plot]")
    table.add_column("[red]")
    table.add_row("'widemargin[plot]'")
    console().print(table)
    console().print("pip install 'widemargin[plot]'")
    printed = capsys.readouterr().out
    assert printed.count("[plot]") == 3
    assert "[red]" in printed


def test_labels_that_look_like_markup_are_shown(command, tmp_path):
    X, _ = text_rows()
    lines = [
        f"{a + 5 * (i % 2)},{b},{('[bold]', '[/]')[i % 2]}"
        for i, (a, b, _) in enumerate(X)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,k", *lines]))
    code, _, err = command("fit", "a.csv", "--target", "k", "--model", "glvq")
    assert code == 0, err
    code, out, err = command("evaluate", "model.skops", "a.csv")
    assert code == 0, err
    assert "[bold]" in out
    assert "[/]" in out


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_full_disk_is_an_error_though_some_rows_went_through(
    command, process, iris, tmp_path, unbuffered
):
    command("fit", iris, "--target", "species", "--model", "glvq")
    command("predict", "model.skops", iris)  # fills numba's cache
    rows = iris.read_text().splitlines()
    many = tmp_path / "many.csv"
    many.write_text("\n".join([rows[0], *(rows[1:] * 40)]))
    out, said = tmp_path / "out.csv", tmp_path / "said"
    asked = "predict", tmp_path / "model.skops", many
    done = process(*asked, out=out, err=said, unbuffered=unbuffered, largest=4096)
    code, err = done.wait(), said.read_text()
    assert code == 2, err
    assert err.startswith("widemargin: File too large")
    assert err.count("\n") == 1
    assert out.stat().st_size == 4096


def test_one_pass_answers_everything(command, iris, monkeypatch):
    command("fit", iris, "--target", "species", "--model", "glvq")
    calls = []
    original = evaluate.answers_of

    def counted(estimator, X, y=None):
        calls.append(len(X))
        return original(estimator, X, y)

    monkeypatch.setattr(evaluate, "answers_of", counted)
    code, _, err = command("report", "model.skops", iris)
    assert code == 0, err
    # One row to load what loads on first use, then everything once.
    assert calls == [1, 50]


def test_a_report_asks_once_how_far_samples_are(command, iris, monkeypatch):
    command("fit", iris, "--target", "species", "--model", "glvq")
    asked, distances = [], GLVQClassifier._squared_distances

    def counted(self, X):
        asked.append(len(X))
        return distances(self, X)

    monkeypatch.setattr(GLVQClassifier, "_squared_distances", counted)
    code, _, err = command("report", "model.skops", iris)
    assert code == 0, err
    # One row to load what loads on first use, then all; at last which prototype is
    # nearest to those in its list of pictures.
    assert asked == [1, 50, 50]


def test_output_that_python_would_not_buffer_is_buffered(monkeypatch, tmp_path):
    from widemargin import cli

    with (tmp_path / "out").open("wb", buffering=0) as raw:
        stream = io.TextIOWrapper(raw, write_through=True)
        monkeypatch.setattr(sys, "stdout", stream)
        cli._write_whole_lines()
        assert isinstance(sys.stdout.buffer, io.BufferedWriter)
        sys.stdout.write("row\n")
        assert (tmp_path / "out").read_text() == "row\n"
        sys.stdout.close()
