"""What users asked of the command: pipes, JSON, other people's CSV, missing values."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from widemargin.cli import models
from widemargin.cli.app import app

FIT = ("--target", "species", "--model", "glvq")


def test_data_come_through_a_pipe(command, iris, tmp_path):
    command("fit", iris, *FIT)
    text = iris.read_bytes()
    piped = CliRunner().invoke(app, ["predict", "model.skops", "-"], input=text)
    assert piped.exit_code == 0, piped.stderr
    assert piped.stdout == command("predict", "model.skops", iris)[1]
    empty = CliRunner().invoke(app, ["predict", "model.skops", "-"], input=b"")
    assert (empty.exit_code, "standard input is empty" in empty.stderr) == (2, True)
    bad = CliRunner().invoke(app, ["predict", "model.skops", "-"], input=b"a,b\n1,2\n")
    assert bad.exit_code == 2
    assert str(tmp_path) not in bad.stderr


def test_json_holds_what_is_printed(command, iris):
    command("fit", iris, *FIT)
    code, out, err = command("evaluate", "model.skops", iris, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["samples"] == 50
    assert found["error"] == found["wrong"] / 50
    assert np.sum(found["confusion"]) == 50
    names = json.loads(command("models", "--json")[1])
    assert "theta" in {one["name"] for one in names["tvq"]["parameters"]}
    assert "numpy" in json.loads(command("doctor", "--json")[1])


def test_models_name_lists_its_parameters(command, refuses):
    code, out, _ = command("models", "tvq")
    assert code == 0
    assert "  theta=" in out
    assert "prototypes_per_class=" in out
    message = refuses("models", "tvk")
    assert message.startswith("widemargin: no model 'tvk'; did you mean 'tvq'")


def test_other_peoples_csv(command, refuses, iris_rows, tmp_path):
    names, rows = iris_rows
    theirs = [
        [cell.replace(".", ",") for cell in row[:4]] + ["Ä" + row[4]] for row in rows
    ]
    text = "\n".join(";".join(row) for row in [names, *theirs])
    (tmp_path / "d.csv").write_bytes(text.encode("latin-1"))
    options = ("--decimal", ",", "--encoding", "latin-1")
    assert "--encoding latin-1" in refuses("fit", "d.csv", *FIT)
    code, _, err = command("fit", "d.csv", *FIT, *options)
    assert code == 0, err
    code, out, _ = command("evaluate", "model.skops", "d.csv", *options, "--json")
    assert json.loads(out)["error"] < 0.1
    assert "Äsetosa" in json.loads(out)["classes"]
    bare = "\n".join("|".join(row) for row in rows)
    (tmp_path / "bare.txt").write_text(bare)
    code, _, err = command(
        "fit", "bare.txt", "--target=-1", "--model", "glvq",
        "--delimiter", "|", "--header", "no",
    )  # fmt: skip
    assert code == 0, err
    for option, value in [
        ("--decimal", "x"),
        ("--header", "maybe"),
        ("--delimiter", "ab"),
        ("--encoding", "klingon"),
    ]:
        assert option in refuses("fit", "bare.txt", *FIT, option, value)


def test_packed_csv_npy_and_one_image(command, refuses, iris, digits, tmp_path):
    (tmp_path / "iris.csv.gz").write_bytes(gzip.compress(iris.read_bytes()))
    command("fit", iris, *FIT)
    plain = command("predict", "model.skops", iris)[1]
    assert command("predict", "model.skops", "iris.csv.gz")[1] == plain
    X, y = digits
    np.save(tmp_path / "X.npy", X.reshape(-1, 8, 8))
    np.save(tmp_path / "y.npy", y)
    assert "npy file of the labels" in refuses("fit", "X.npy", "--model", "knn")
    code, _, err = command("fit", "X.npy", "--target", "y.npy", "--model", "knn")
    assert code == 0, err
    image = pytest.importorskip("PIL.Image")
    pixels = (255 * X[7].reshape(8, 8)).astype(np.uint8)
    image.fromarray(pixels).resize((16, 16)).save(tmp_path / "seven.png")
    code, out, err = command("predict", "model.skops", "seven.png")
    assert code == 0, err
    assert out.splitlines()[1].startswith(f"seven.png,{y[7]},")


def test_missing_values_are_filled_in(command, refuses, iris_rows, tmp_path):
    names, rows = iris_rows
    rows = [list(row) for row in rows]
    rows[3][1] = ""
    rows[20][0] = "NA"
    data = tmp_path / "d.csv"
    data.write_text("\n".join(",".join(row) for row in [names, *rows]))
    other = (*FIT[:-1], "hss")
    assert "--impute median" in refuses("fit", data, *other)
    assert "--impute must be" in refuses("fit", data, *FIT, "--impute", "magic")
    code, _, err = command("fit", data, *other, "--impute", "median")
    assert code == 0, err
    assert models.load(tmp_path / "model.skops").takes_missing
    assert command("predict", "model.skops", data)[0] == 0


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("model", ["glvq", "knn"])
@pytest.mark.parametrize("more", [(), ("--max-error", "0.2"), ("--search",)])
def test_models_that_take_missing_values(command, iris_rows, tmp_path, model, more):
    names, rows = iris_rows
    rows = [list(row) for row in rows]
    for i in range(0, len(rows), 5):
        rows[i][i % 4] = ""
    data = tmp_path / "d.csv"
    data.write_text("\n".join(",".join(row) for row in [names, *rows]))
    code, _, err = command("fit", data, *FIT[:-1], model, *more)
    assert code == 0, err
    saved = models.load(tmp_path / "model.skops")
    X = np.array([[float(c or "nan") for c in row[:4]] for row in rows])
    code, out, err = command("predict", "model.skops", data)
    assert code == 0, err
    answers = [line.split(",") for line in out.splitlines()]
    at = answers[0].index("label")
    expected = saved.pipeline.predict(X).astype(str)
    if not more:
        assert [line[at] for line in answers[1:]] == expected.tolist()
    assert command("evaluate", "model.skops", data)[0] == 0
    assert command("report", "model.skops", data, "--out", "page.html")[0] == 0


def test_the_default_model_is_told(command, iris):
    code, out, err = command("fit", iris, "--target", "species")
    assert code == 0, err
    assert out.startswith("svc:")
    assert "--model svc is the default" in err


def test_predict_keeps_a_promise_by_labelled_data(command, refuses, tmp_path):
    X, y = load_digits(return_X_y=True)
    X = (X / 16).reshape(-1, 8, 8)
    for name, rows in {
        "a": slice(400),
        "b": slice(400, 1100),
        "c": slice(1100, 1400),
    }.items():
        np.savez(tmp_path / f"{name}.npz", X=X[rows], y=y[rows])
    command("fit", "a.npz", "--model", "hss")
    assert "--calibrate FILE" in refuses(
        "predict", "model.skops", "c.npz", "--max-error", 0.05
    )
    code, out, err = command(
        "predict", "model.skops", "c.npz", "--max-error", 0.03, "--calibrate", "b.npz"
    )
    assert code == 0, err
    rows = [line.split(",") for line in out.splitlines()[1:]]
    kept = np.array([row[3] == "yes" for row in rows])
    wrong = np.array([row[1] for row in rows]) != y[1100:1400].astype(str)
    assert 0.3 < kept.mean() < 1
    assert wrong[kept].mean() <= 0.03


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "widemargin", "--version"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.startswith("widemargin ")
