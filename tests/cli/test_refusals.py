"""Bad input: one line that says what and how to mend it, code 2, nothing written."""

import errno
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from widemargin import saving
from widemargin.cli import Refusal, models

FIT = ("--target", "species", "--model", "glvq")


def edit(path, row, column, text):
    lines = path.read_text().splitlines()
    cells = lines[row].split(",")
    cells[column] = text
    lines[row] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")


def test_missing_file(refuses, iris):
    message = refuses("fit", "irsi.csv", *FIT)
    assert "no such file" in message
    assert "'iris.csv'" in message


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.libsvm", "a-idx3-ubyte"])
def test_empty_file(refuses, tmp_path, name):
    (tmp_path / name).touch()
    assert "is empty" in refuses("fit", name, *FIT)


def test_header_without_rows(refuses, tmp_path):
    (tmp_path / "a.csv").write_text("a,b,species\n")
    assert "no rows" in refuses("fit", "a.csv", *FIT)


def test_unknown_target_suggests(refuses, iris):
    message = refuses("fit", iris, "--target", "Species", "--model", "glvq")
    assert "no column 'Species'; did you mean 'species'?" in message


def test_no_target_lists_columns(refuses, iris):
    message = refuses("fit", iris, "--model", "glvq")
    assert "--target NAME" in message
    assert "petal_width" in message
    # A column without a name, as data frames write their index, is no suggestion.
    lines = iris.read_text().splitlines()
    iris.write_text("\n".join(f"{i or ''},{line}" for i, line in enumerate(lines)))
    message = refuses("fit", iris, "--model", "glvq")
    assert "did you mean" not in message
    assert "petal_width" in message


def test_text_column(refuses, iris):
    edit(iris, 3, 1, "wide")
    message = refuses("fit", iris, *FIT)
    assert "'sepal_width' holds text ('wide' in line 4)" in message
    assert "--drop sepal_width" in message


@pytest.mark.parametrize("cell", ["", "NaN", "NA", "?"])
def test_missing_cell_is_named(command, refuses, iris, cell):
    """A model that was fitted to whole rows fills nothing in."""
    assert command("fit", iris, *FIT, "--out", "whole.skops")[0] == 0
    edit(iris, 5, 2, cell)
    message = refuses("predict", "whole.skops", iris)
    assert "line 6, column 'petal_length': no value" in message
    assert "--impute median" in message


@pytest.mark.parametrize("cell", ["5,8", "1_0", "wide"])
def test_cells_that_are_no_numbers_say_what_would_do(refuses, iris_rows, cell):
    names, rows = iris_rows
    rows[2][1] = cell
    lines = [";".join(row) for row in [names, *rows]]
    Path("a.csv").write_text("\n".join(lines))
    message = refuses("fit", "a.csv", *FIT)
    way = "add --decimal ," if cell == "5,8" else "--drop sepal_width"
    assert repr(cell) in message
    assert way in message


def test_blanks_between_columns(refuses, iris):
    iris.write_text(iris.read_text().replace(",", " "))
    assert "--delimiter space" in refuses("fit", iris, *FIT)


def test_json_is_named(refuses, tmp_path):
    (tmp_path / "a.json").write_text('[{"a": 1, "species": "x"}]')
    assert "a.json is JSON; save it as CSV" in refuses("fit", "a.json", *FIT)


def test_archives_that_hold_no_arrays(command, refuses, iris, tmp_path):
    command("fit", iris, *FIT)
    for name, inside, words in [
        ("book.xlsx", "xl/workbook.xml", "is a spreadsheet; save it as CSV"),
        ("book.ods", "content.xml", "is a spreadsheet; save it as CSV"),
        ("texts.zip", "a.csv", "is an archive of other files"),
    ]:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(inside, "text")
        assert f"{name} {words}" in refuses("fit", name, *FIT)
        assert f"{name} {words}" in refuses("predict", "model.skops", name)
    message = refuses("predict", "model.skops", "model.skops")
    assert "model.skops is a model; give data" in message


def test_columns_without_values(command, refuses, iris_rows, tmp_path):
    names, rows = iris_rows
    rows = [[*row[:2], "", *row[2:]] for row in rows]
    lines = [",".join(row) for row in [[*names[:2], "none", *names[2:]], *rows]]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    message = refuses("fit", "a.csv", *FIT)
    assert "column 'none' has no value at all; leave it out with --drop none" in message
    code, out, err = command("fit", "a.csv", *FIT, "--impute", "median")
    assert code == 0, err
    assert "note: column 'none' has no value at all and is filled with 0" in err
    assert "5 features" in out


@pytest.mark.parametrize("end", [",", ",,,"])
def test_commas_at_the_end_of_every_line(command, iris, end):
    lines = iris.read_text().splitlines()
    iris.write_text("\n".join(line + end for line in lines))
    code, out, err = command("fit", iris, *FIT)
    assert code == 0, err
    assert "4 features" in out
    assert f"note: {len(end)} columns of no name and no value were left out" in err


@pytest.mark.parametrize(
    "line",
    [
        ("fit", "iris.csv", *FIT, "--out", "iris.csv"),
        ("predict", "model.skops", "iris.csv", "--out", "iris.csv"),
        ("predict", "model.skops", "iris.csv", "--out", "model.skops"),
        ("predict", "model.skops", "iris.csv", "--max-error", 0.1, "--calibrate",
         "other.csv", "--out", "link.csv"),
        ("report", "model.skops", "iris.html", "--out", "iris.html"),
    ],
)  # fmt: skip
def test_what_is_read_is_not_written_over(command, refuses, iris, line):
    command("fit", iris, *FIT)
    for name in ("other.csv", "iris.html"):
        Path(name).write_text(iris.read_text())
    Path("link.csv").hardlink_to("other.csv")
    before = iris.read_text()
    assert "is to be read; name another file" in refuses(*line)
    assert iris.read_text() == before == Path("other.csv").read_text()


def test_missing_label(refuses, iris):
    edit(iris, 2, 4, "")
    assert "line 3, column 'species': no label" in refuses("fit", iris, *FIT)


def test_nan_in_an_array(command, refuses, tmp_path):
    X, y = np.arange(12.0).reshape(4, 3), [0, 0, 1, 1]
    np.savez(tmp_path / "whole.npz", X=X, y=y)
    assert command("fit", "whole.npz", "--model", "hss", "--out", "h.skops")[0] == 0
    X[2, 1] = np.nan
    np.savez(tmp_path / "a.npz", X=X, y=y)
    assert "row 3, column 2" in refuses("predict", "h.skops", "a.npz")


def test_ragged_line(refuses, iris):
    iris.write_text(iris.read_text() + "1,2,3\n")
    assert "line 52: 3 cells" in refuses("fit", iris, *FIT)
    iris.write_text(iris.read_text().replace("1,2,3\n", "1,2,3,4,x,5\n"))
    assert "line 52: 6 cells" in refuses("fit", iris, *FIT)


def test_real_target(refuses, iris):
    message = refuses("fit", iris, "--target", "sepal_width", "--model", "glvq")
    assert "real numbers" in message


def test_class_with_one_sample(refuses, iris):
    edit(iris, 1, 4, "rara")
    assert "class rara has one sample" in refuses("fit", iris, *FIT)


def test_one_class(refuses, tmp_path):
    (tmp_path / "a.csv").write_text("a,species\n1,x\n2,x\n")
    assert "all labels are x" in refuses("fit", "a.csv", *FIT)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("16x16", "64 features could be (8, 8)"),
        ("16", "write 16x16"),
        ("8x0", "write 16x16"),
    ],
)
def test_image_shape(refuses, digits_npz, shape, message):
    assert message in refuses(
        "fit", digits_npz, "--model", "knn", "--image-shape", shape
    )


def test_unreadable_image_is_named(refuses, image_folder):
    (image_folder / "digit1" / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n junk")
    message = refuses("fit", image_folder, "--model", "knn")
    assert "bad.png is no readable image" in message


def test_images_of_two_sizes(refuses, image_folder):
    image = pytest.importorskip("PIL.Image")
    image.new("L", (9, 8)).save(image_folder / "digit1" / "zz.png")
    message = refuses("fit", image_folder, "--model", "knn")
    assert "zz.png is 8x9" in message
    assert "--image-shape 8x8" in message


def test_a_target_that_would_be_ignored(refuses, image_folder, tmp_path):
    message = refuses("fit", image_folder, "--model", "knn", "--target", "digit1")
    assert "leave it out" in message
    (tmp_path / "a.libsvm").write_text("1 1:2 2:3\n0 1:1\n")
    message = refuses("fit", "a.libsvm", "--model", "lvq", "--target", "y")
    assert "leave it out" in message


def test_folder_without_classes(refuses, tmp_path):
    (tmp_path / "flat").mkdir()
    assert "one per class" in refuses("fit", "flat", "--model", "knn")


def test_labels_unseen_in_training(command, refuses, iris):
    command("fit", iris, *FIT)
    edit(iris, 1, 4, "rara")
    message = refuses("evaluate", "model.skops", iris)
    assert "not in the training data: rara" in message
    assert "setosa" in message


def test_unknown_devices(command, refuses, iris):
    pytest.importorskip("torch")
    command("fit", iris, *FIT)
    message = refuses("predict", "model.skops", iris, "--device", "gpu")
    assert message == "widemargin: --device must be cpu or cuda; got gpu\n"


def test_other_features(command, refuses, iris, digits_npz):
    command("fit", iris, *FIT)
    message = refuses("predict", "model.skops", digits_npz)
    assert "64 features and the model was fitted on 4" in message
    iris.write_text(iris.read_text().replace("petal_width", "petal_breadth"))
    message = refuses("predict", "model.skops", iris)
    assert "lack 'petal_width'" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "glvqx"], "did you mean 'glvq'"),
        (["--model", "glvq", "--set", "max_itr=3"], "did you mean 'max_iter'"),
        (["--model", "glvq", "--set", "max_iter"], "KEY=VALUE"),
        (["--model", "glvq", "--set", "max_iter=-1"], "the model refuses: max_iter"),
        (["--model", "tvq", "--set", "sides=both"], "--image-shape"),
        (["--model", "glvq", "--drop", "sepal"], "--drop: no column 'sepal'"),
        (["--model", "glvq", "--out", "no/model"], "--out"),
    ],
)
def test_bad_options(refuses, iris, options, message):
    assert message in refuses("fit", iris, "--target", "species", *options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit"], "DATA"),
        (["fti"], "fti"),
        (["fit", "iris.csv", "--modell", "lvq"], "--model"),
        (["fit", "iris.csv", "--model", "lvq", "--seed", "x"], "--seed"),
    ],
)
def test_wrong_options_are_one_line_too(refuses, iris, arguments, message):
    assert message in refuses(*arguments)


def test_disk_full(refuses, iris, monkeypatch):
    def full(path, data):
        with path.open("wb") as file:
            file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    assert "No space left" in refuses("fit", iris, *FIT)


def test_interrupted_write(refuses, iris, monkeypatch):
    def interrupted(path, data):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.write_bytes", interrupted)
    assert "interrupted" in refuses("fit", iris, *FIT, expected=130)


@pytest.fixture
def streams(tmp_path_factory):
    """Files for what a process prints, in no folder that it writes to."""
    folder = tmp_path_factory.mktemp("said")
    return folder / "out", folder / "err"


def test_a_real_write_that_fails_leaves_the_old_model(
    command, process, streams, iris, tmp_path
):
    command("fit", iris, *FIT)
    model, (out, err) = tmp_path / "model.skops", streams
    before = model.read_bytes()
    # The fit above has filled numba's cache: no other file is written than the model.
    done = process("fit", iris, *FIT, "--out", model, out=out, err=err, largest=4096)
    code, said = done.wait(), err.read_text()
    assert code == 2, said
    assert "File too large" in said
    assert said.strip().count("\n") == 0
    assert out.read_text() == ""
    assert model.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["iris.csv", "model.skops"]


def catches_termination(pid):
    """Whether a process has a handler for it; that it is not over, too."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no status of processes here")
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line for line in lines if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1


def test_a_terminated_command_leaves_nothing(process, streams, digits, tmp_path):
    X, y = digits
    np.savez(tmp_path / "a.npz", X=np.tile(X, (40, 1)), y=np.tile(y, 40))
    out, err = streams
    long = ["--model", "lvq", "--set", "max_iter=100000", "--out", tmp_path / "m"]
    running = process("fit", tmp_path / "a.npz", *long, out=out, err=err)
    # From here on it ends well at any time; a second later it fits, as a rule.
    while not catches_termination(running.pid):
        time.sleep(0.1)
    time.sleep(1)
    os.kill(running.pid, signal.SIGTERM)
    code, said = running.wait(), err.read_text()
    assert code == 143, said
    assert "interrupted" in said.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("during", ["a callback", "the start", "cleaning up"])
def test_a_termination_at_any_time_ends_the_command(during):
    program = f"""
import ctypes, os, sys, time, types, signal
from widemargin import cli

def terminate():
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):
        pass

@cli.one_line
def command():
    if {during!r} == "a callback":
        ctypes.CFUNCTYPE(None)(terminate)()
        time.sleep(60)
    try:
        terminate()
    finally:
        time.sleep(1.5)
        print("clean")

def app():
    if {during!r} == "the start":
        terminate()
    command()

sys.modules["widemargin.cli.app"] = types.SimpleNamespace(app=app)
cli.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 143, done.stderr
    assert done.stderr == "widemargin: interrupted; no file is half written\n"
    assert (done.stdout == "clean\n") == (during == "cleaning up")


def test_model_files(command, refuses, iris, tmp_path):
    skops = pytest.importorskip("skops.io")
    assert "no such model" in refuses("predict", "model.skops", iris)
    command("fit", iris, *FIT)
    good = (tmp_path / "model.skops").read_bytes()
    damaged = bytearray(good)
    damaged[len(good) // 2] ^= 255
    cases = {
        "cut": (good[: len(good) // 2], "damaged"),
        "flipped": (bytes(damaged), "damaged"),
        "empty": (b"", "damaged"),
        "other": (skops.dumps([1, 2]), "holds no widemargin model"),
        "old": (
            skops.dumps({"format": 0, "version": "0.0.1"}),
            "written by widemargin 0.0.1 in format 0",
        ),
    }
    fields = dict.fromkeys(saving.FIELDS, 0)
    fields |= {"format": saving.FORMAT, "version": "0.1.0", "names": []}
    cases["hollow"] = (skops.dumps(fields), "holds no classifier")
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        assert message in refuses("predict", name, iris), name


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    pytest.importorskip("skops.io")
    pipeline = Pipeline([("model", FunctionTransformer(os.getcwd))])
    model = models.SavedModel(pipeline, "odd", [], None, None, 1)
    with pytest.raises(Refusal, match="getcwd inside cannot be saved"):
        models.save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_unknown_types_are_refused_and_never_made(refuses, iris, tmp_path):
    skops = pytest.importorskip("skops.io")
    from sklearn.preprocessing import FunctionTransformer

    for function in (os.system, models.load):
        (tmp_path / "evil").write_bytes(skops.dumps(FunctionTransformer(function)))
        message = refuses("predict", "evil", iris)
        assert "it was not loaded" in message
        assert function.__name__ in message
