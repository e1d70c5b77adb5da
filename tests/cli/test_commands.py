"""fit, predict, evaluate, models and doctor on small data."""

import contextlib
import csv
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.cli.writing import write_csv
from typer.testing import CliRunner

import widemargin
from widemargin.cli import fit, models
from widemargin.cli.app import app
from widemargin.cli.evaluate import Evaluation
from widemargin.cli.models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_the_grids_are_made_of_parameters(name):
    entry = MODELS[name]
    known = entry.load()().get_params()
    assert entry.grid
    assert set(entry.grid) <= set(known)
    assert ("tangents" in known) == (entry.tangents != "no")


@pytest.mark.parametrize("name", ["signal", "spectrum"])
def test_columns_of_curves_are_not_standardised(name, command, tmp_path):
    rng = np.random.default_rng(0)
    y, t = np.arange(60) % 2, np.linspace(0, 1, 40)
    late = rng.uniform(size=(60, 1))
    X = np.sin(2 * np.pi * (2 + 2 * y[:, None]) * (t + 0.1 * late)) + late
    np.savez(tmp_path / "curves.npz", X=X, y=y)
    code, out, err = command("fit", "curves.npz", "--model", name)
    assert code == 0, err
    assert "training error 0.00 %" in out
    model = models.load(tmp_path / "model.skops")
    assert [step for step, _ in model.pipeline.steps] == ["model"]
    code, _, err = command("fit", "curves.npz", "--model", name, "--scale")
    assert code == 0, err
    model = models.load(tmp_path / "model.skops")
    assert [step for step, _ in model.pipeline.steps] == ["scale", "model"]


def test_tables_are_standardised_and_columns_found_by_name(command, iris, iris_rows):
    code, _, err = command("fit", iris, "--target", "species", "--model", "tvq")
    assert code == 0, err
    model = models.load(iris.with_name("model.skops"))
    assert [step for step, _ in model.pipeline.steps] == ["scale", "model"]
    _, first, _ = command("predict", "model.skops", iris)
    names, rows = iris_rows
    with open("turned.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["note", *names[:-1][::-1]])
        writer.writerows(["text", *row[:-1][::-1]] for row in rows)
    code, second, err = command("predict", "model.skops", "turned.csv")
    assert code == 0, err
    assert first == second


@pytest.mark.parametrize(
    "more", [(), ("--no-scale",), ("--impute", "mean"), ("--max-error", 0.2)]
)
def test_python_knows_the_names_of_the_columns(command, iris, more):
    pandas = pytest.importorskip("pandas")
    code, _, err = command("fit", iris, "--target", "species", "--model", "glvq", *more)
    assert code == 0, err
    X = pandas.read_csv(iris)
    y = X.pop("species")
    model = widemargin.load("model.skops")
    answers = model.predict(X)
    assert (answers == y).mean() > 0.4
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(X[X.columns[::-1]])
    if "--max-error" in more:
        np.testing.assert_array_equal(model.accepts(X), answers != "reject")
    # The command asks by name, too, and has nothing to tell.
    for name in ("predict", "evaluate", "report"):
        code, _, err = command(name, "model.skops", iris)
        assert (code, err) == (0, "")


def test_models_of_python_and_names_of_columns(command, iris):
    pandas = pytest.importorskip("pandas")
    X = pandas.read_csv(iris)
    y = X.pop("species")
    model = widemargin.GLVQClassifier(random_state=0)
    for samples, told in ((X, False), (X.to_numpy(), True)):
        widemargin.save(model.fit(samples, y), "m.skops")
        code, _, err = command("predict", "m.skops", iris_without_labels(iris))
        assert code == 0, err
        assert ("names of columns; those of bare.csv are taken in their" in err) == told
        more = ("--max-error", 0.2, "--calibrate", iris)
        code, _, err = command("predict", "m.skops", "bare.csv", *more)
        assert "feature names" not in err


def iris_without_labels(iris):
    lines = iris.read_text().splitlines()
    bare = iris.with_name("bare.csv")
    bare.write_text("\n".join(line.rpartition(",")[0] for line in lines))
    return bare


def test_no_scale(command, iris):
    options = ("--target", "species", "--model", "tvq", "--no-scale")
    assert command("fit", iris, *options)[0] == 0
    assert len(models.load(iris.with_name("model.skops")).pipeline) == 1


def test_what_chooses_its_units_is_not_standardised_before(command, iris):
    """Wine by gmlvq is wrong on 1.8 % as it is, and on 2.7 % standardised."""
    fitting = ("fit", iris, "--target", "species", "--model", "glvq")
    for more, n_steps in (((), 1), (("--set", "scale=none"), 2), (("--scale",), 2)):
        assert command(*fitting, *more)[0] == 0
        assert len(models.load(iris.with_name("model.skops")).pipeline) == n_steps


def test_a_larger_setting_must_be_clearly_better():
    wrong = np.zeros((4, 100))
    wrong[0, :20] = 1
    wrong[1, :19] = 1
    assert fit.simplest(list(wrong)[:2]) == 0
    wrong[2:, :5] = 1
    assert fit.simplest(list(wrong)) == 2
    assert fit.simplest([None, *wrong[:2]]) == 1


def test_what_remembers_its_samples_is_asked_some(command, iris, monkeypatch):
    fitting = ("fit", iris, "--target", "species", "--model", "knn")
    assert "of them" not in command(*fitting)[1]
    monkeypatch.setattr(fit, "ASKED", 20)
    code, out, err = command(*fitting)
    assert code == 0, err
    assert "training error 0.00 % (of 20 of them)" in out


def test_search_takes_the_best_and_says_so(command, iris):
    options = ("--target", "species", "--model", "tvq", "--set", "max_iter=5")
    code, out, err = command("fit", iris, *options, "--search")
    assert code == 0, err
    assert "5-fold cross-validation" in out
    # Four features leave no room for models of 4 or 8 tangents: the data choose.
    assert "n_tangents=auto" in out
    assert "n_tangents=4" not in out
    best = out.split("Best: ")[1].splitlines()[0].split(", ")[:-1]
    fitted = models.load(iris.with_name("model.skops")).estimator.get_params()
    assert len(best) == 3
    assert [f"{s.split('=')[0]}={fitted[s.split('=')[0]]}" for s in best] == best


def test_evaluate(command, iris):
    command("fit", iris, "--target", "species", "--model", "glvq")
    code, out, err = command("evaluate", "model.skops", iris)
    assert code == 0, err
    for part in ("error", "Margins", "Rejecting", "Confusion", "Confused most"):
        assert part in out


def test_judgement_counts_by_hand():
    results = Evaluation(
        truth=np.array([0, 0, 1, 1]),
        answers=np.array([0, 1, 1, 1]),
        confidence=np.array([0.9, 0.1, 0.5, 0.7]),
        margins=np.array([0.9, -0.1, 0.5, 0.7]),
        classes=np.array([0, 1]),
        seconds=1.0,
    )
    assert results.error == 0.25
    assert results.microseconds == "250000"
    assert replace(results, seconds=4.321e-6).microseconds == "1.08"
    assert results.rejected_at(0.01) == 0.25
    assert results.error_when_rejecting(0.2) == 0.25
    assert results.error_when_rejecting(0.25) == 0
    np.testing.assert_array_equal(results.confusion, [[1, 1], [0, 2]])


def test_a_model_that_refuses_keeps_refusing(command, refuses, tmp_path):
    X, y = load_digits(return_X_y=True)
    new = np.arange(len(y)) % 3 == 0
    np.savez(tmp_path / "a.npz", X=X[~new] / 16, y=y[~new])
    np.savez(tmp_path / "b.npz", X=X[new] / 16, y=y[new])
    options = ("--model", "glvq", "--max-error", "0.02")
    code, out, err = command("fit", "a.npz", *options)
    assert code == 0, err
    assert "at most 2 % are wrong, with probability 95 %" in out
    _, out, _ = command("predict", "model.skops", "b.npz")
    header, *rows = csv.reader(io.StringIO(out))
    assert header == ["row", "label", "margin", "answered"]
    labels, answered = (np.array([row[i] for row in rows]) for i in (1, 3))
    yes = answered == "yes"
    assert 0.3 < yes.mean() < 1
    assert (labels[yes].astype(int) != y[new][yes]).mean() <= 0.02
    for line in (["evaluate"], ["report"]):
        code, _, err = command(*line, "model.skops", "b.npz")
        assert code == 0, err
    said = refuses("fit", "a.npz", "--model", "glvq", "--max-error", "2")
    assert "--max-error must be" in said


@pytest.fixture
def overlapping(tmp_path):
    """Two classes that overlap, some values missing; the labels are those of SVMs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=400) > 0, 1, -1)
    X[::7, 1] = np.nan
    np.savez(tmp_path / "a.npz", X=X, y=y)
    return X, y


def test_the_guarantee_is_made_on_samples_that_nothing_has_seen(
    command, overlapping, monkeypatch, tmp_path
):
    searched = []
    whole = fit.search_grid

    def search_grid(pipeline, grid, X, y, seed):
        searched.append(len(X))
        return whole(pipeline, grid, X, y, seed)

    monkeypatch.setattr(fit, "search_grid", search_grid)
    options = ("--model", "knn", "--search", "--impute", "mean", "--max-error", "0.2")
    code, out, err = command("fit", "a.npz", *options)
    assert code == 0, err
    saved = models.load(tmp_path / "model.skops")
    refusing = saved.refusing
    learned = 400 - refusing.n_held_out_
    assert searched == [learned]
    assert refusing.estimator_["scale"].n_samples_seen_ == learned
    assert len(saved.estimator.bundle_.points) == learned
    assert f"knn: {learned} samples" in out
    # The share is that of samples held out: k-NN is sure of those it remembers.
    share = 100 * refusing.coverage_
    assert f"Answers {share:.1f} % of {refusing.n_held_out_} samples held out" in out
    X, _ = overlapping
    _, out, _ = command("predict", "model.skops", "a.npz")
    answered = [row[3] == "yes" for row in list(csv.reader(io.StringIO(out)))[1:]]
    np.testing.assert_array_equal(answered, saved.pipeline.predict(X) != -2)


def test_a_model_that_refuses_everything_says_so(command, overlapping):
    options = ("--model", "knn", "--impute", "mean", "--max-error", "0.001")
    code, out, err = command("fit", "a.npz", *options)
    assert code == 0, err
    assert "Rejects every sample: that at most 0.1 % of its answers are wrong" in out
    assert "Answers" not in out
    assert "held-out samples are needed" in err


def test_repeated_rows_are_told_in_words_of_the_command(command, digits, tmp_path):
    X, y = digits
    np.savez(tmp_path / "a.npz", X=np.r_[X, X, X], y=np.r_[y, y, y])
    code, _, err = command("fit", "a.npz", "--model", "glvq", "--max-error", "0.1")
    assert code == 0, err
    assert "the guarantee does not hold: give each once. Where" in err


def test_unknown_labels_break_no_guarantee(command, refuses, overlapping, tmp_path):
    """A third of the samples to calibrate by are of a class that was never learned."""
    rng = np.random.default_rng(1)
    X = np.r_[rng.normal(size=(400, 3)), rng.normal(size=(200, 3))]
    y = np.r_[np.where(X[:400, 0] > 0, 1, -1), np.full(200, 7)]
    np.savez(tmp_path / "b.npz", X=X, y=y)
    # As text: files that hold a name among numbers are read so.
    np.savez(tmp_path / "c.npz", X=X, y=np.where(y == 7, "other", y.astype(str)))
    code, _, err = command("fit", "a.npz", "--model", "glvq", "--impute", "mean")
    assert code == 0, err
    for name, label in (("b.npz", "7"), ("c.npz", "other")):
        options = ("--max-error", "0.1", "--calibrate", name)
        code, out, err = command("predict", "model.skops", "b.npz", *options)
        assert code == 0, err
        assert "200 of 600 samples that --max-error is kept by have labels" in err
        assert f"does not know: {label}; they count as mistakes" in err
        rows = list(csv.reader(io.StringIO(out)))[1:]
        # They are as likely as others to be sure ones: nothing can be guaranteed.
        assert {row[3] for row in rows} == {"no"}
        assert "200 of 600 samples are wrong" in refuses(
            "evaluate", "model.skops", name
        )


def test_refusing_around_a_pipeline_is_read_from_python(command, tmp_path):
    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "b.npz", X=X[600:900].reshape(-1, 8, 8), y=y[600:900])
    inner = make_pipeline(StandardScaler(), widemargin.GLVQClassifier(random_state=0))
    model = widemargin.RejectingClassifier(inner, max_error=0.04, random_state=0)
    model.fit(X[:600], y[:600])
    widemargin.save(model, tmp_path / "m.skops")
    _, out, err = command("predict", "m.skops", "b.npz")
    answered = [row[3] == "yes" for row in list(csv.reader(io.StringIO(out)))[1:]]
    assert 0.3 < np.mean(answered) < 1, err
    np.testing.assert_array_equal(answered, model.accepts(X[600:900]))
    more = ("--max-error", "0.2", "--calibrate", "b.npz")
    code, _, err = command("predict", "m.skops", "b.npz", *more)
    assert code == 0, err
    code, out, err = command("evaluate", "m.skops", "b.npz", "--json")
    assert code == 0, err
    right = (model.estimator_.predict(X[600:900]) == y[600:900]).mean()
    assert json.loads(out)["error"] == pytest.approx(1 - right)
    code, _, err = command("report", "m.skops", "b.npz", "--out", "page.html")
    assert code == 0, err
    page = (tmp_path / "page.html").read_text()
    assert "in features as StandardScaler gives them" in page
    if shutil.which("gcc"):
        options = ("--to", "c", "--out", "m.h", "--data", "b.npz")
        code, out, err = command("export", "m.skops", *options)
        assert code == 0, err
        assert "GLVQClassifier to c" in out


def test_light_paper_is_the_background(command, digits, tmp_path):
    X, y = digits
    np.savez(tmp_path / "dark.npz", X=X.reshape(-1, 8, 8), y=y)
    np.savez(tmp_path / "light.npz", X=1 - X.reshape(-1, 8, 8), y=y)
    margins, notes = [], []
    for name in ("dark", "light"):
        _, _, err = command("fit", f"{name}.npz", "--model", "knn")
        notes.append("most of the border of the images is 1, which tangents" in err)
        model = models.load(tmp_path / "model.skops").estimator
        margins.append(model.confidence(X[::-1] if name == "dark" else 1 - X[::-1]))
    assert notes == [False, True]
    np.testing.assert_allclose(*margins, atol=1e-6)
    options = ("--model", "knn", "--set", "tangents__background=0")
    _, _, err = command("fit", "light.npz", *options)
    assert "which tangents" not in err
    assert "note: background is 0" in err
    assert models.load(tmp_path / "model.skops").estimator.tangents.background == 0


def test_sparse_text_is_fitted_sparse_or_made_dense(command, digits, tmp_path):
    X, y = digits
    dump_svmlight_file(X[y < 2], y[y < 2], str(tmp_path / "a"))
    rbf = ("--set", "kernel=rbf")
    for name, *options in (("maxmargin",), ("maxmargin", *rbf), ("glvq",)):
        code, _, err = command("fit", tmp_path / "a", "--model", name, *options)
        assert code == 0, err
        code, _, err = command("evaluate", "model.skops", tmp_path / "a")
        assert code == 0, err


def test_images_are_resized_as_in_training(command, image_folder):
    options = ("--model", "knn", "--image-shape", "6x6")
    code, _, err = command("fit", image_folder, *options)
    assert code == 0, err
    code, _, err = command("predict", "model.skops", image_folder, "--out", "p.csv")
    assert code == 0, err
    assert image_folder.with_name("p.csv").read_text().count("digit1") > 5


def test_a_folder_of_few_images(command, image_folder):
    code, out, err = command("fit", image_folder, "--few")
    assert code == 0, err
    assert "fewshot: " in out
    assert "training error 0.00 %" in out
    code, _, err = command("predict", "model.skops", image_folder, "--out", "p.csv")
    assert code == 0, err
    assert image_folder.with_name("p.csv").read_text().count("digit1") > 5
    code, _, err = command("fit", image_folder, "--few", "--model", "knn")
    assert code == 2
    assert "--few is --model fewshot" in err


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_terminal_shows_progress_and_the_file_does_not_keep_it(
    process, iris, tmp_path
):
    ours, theirs = os.openpty()
    options = ["--target", "species", "--model", "glvq", "--out", tmp_path / "m"]
    terminal = os.ttyname(theirs)
    done = process("fit", iris, *options, out=terminal, err=terminal)
    os.close(theirs)
    shown = b""
    # Reading a pseudo-terminal that nobody writes to any more is an error on Linux.
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    assert done.wait() == 0, shown
    assert b"100%" in shown
    assert models.load(tmp_path / "m").name == "glvq"


def test_models_are_listed(command):
    code, out, _ = command("models")
    assert code == 0
    assert all(name in out for name in MODELS)


def test_doctor(command):
    code, out, _ = command("doctor")
    assert code == 0
    for part in ("numpy", "BLAS", "threads", "numba cache", "memory", "GiB"):
        assert part in out


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
    assert "--impute must be" in refuses("fit", data, *FIT, "--impute", "magic")
    code, _, err = command("fit", data, *other)
    assert code == 0, err
    assert "filled in by MixtureImputer" in err
    as_c = ("export", "model.skops", "--to", "c", "--out", "model.h")
    assert "fit --impute median" in refuses(*as_c)
    code, _, err = command("fit", data, *other, "--impute", "median")
    assert code == 0, err
    assert "MixtureImputer" not in err
    assert command(*as_c)[0] == 0
    assert models.load(tmp_path / "model.skops").takes_missing
    assert command("predict", "model.skops", data)[0] == 0


def test_signals_that_end_earlier_are_not_filled_in(command, refuses, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    at = np.linspace(0, 1, 60) + rng.uniform(size=(40, 1))
    X = np.sin(2 * np.pi * (3 + 3 * y[:, np.newaxis]) * at)
    rows = [["kind", *(f"t{i}" for i in range(60))]]
    lengths = np.where(np.arange(40) < 20, 60, rng.integers(40, 60, 40))
    for label, x, length in zip(y, X, lengths, strict=True):
        cells = [f"{value:.3f}" for value in x[:length]]
        rows.append([str(label), *cells, *[""] * (60 - length)])
    data = tmp_path / "d.csv"
    data.write_text("\n".join(",".join(row) for row in rows))
    fit = ("--target", "kind", "--model")
    code, _, err = command("fit", data, *fit, "signal")
    assert code == 0, err
    assert "not part of it" in err
    assert "MixtureImputer" not in err
    code, out, err = command("predict", "model.skops", data)
    assert code == 0, err
    assert [line.split(",")[1] for line in out.splitlines()[1:]] == list(map(str, y))
    code, _, err = command("fit", data, *fit, "signal", "--impute", "mean")
    assert code == 0
    assert "not part of it" not in err
    code, _, err = command("fit", data, *fit, "spectrum")
    assert code == 0, err
    assert "filled in by MixtureImputer" in err
    lines = data.read_text().splitlines()
    data.write_text("\n".join([*lines[:30], lines[30].rstrip(","), *lines[31:]]))
    assert "empty cells" in refuses("fit", data, *fit, "signal")


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("model", ["glvq", "knn", "hss"])
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
    assert out.startswith("gmlvq:")
    assert "--model gmlvq is the default" in err


def test_the_default_of_images_and_of_sparse_data(command, digits, digits_npz):
    code, out, err = command("fit", digits_npz)
    assert code == 0, err
    assert out.startswith("svc:")
    dump_svmlight_file(*digits, str(digits_npz.with_name("sparse.txt")))
    code, out, err = command("fit", "sparse.txt")
    assert code == 0, err
    assert out.startswith("maxmargin:")


def test_predict_keeps_a_guarantee_by_labelled_data(command, refuses, tmp_path):
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


def test_probabilities_and_names_of_rows(command, refuses, iris_rows, tmp_path):
    names, rows = iris_rows
    named = [[f"0{i}", *row] for i, row in enumerate(rows)]
    write_csv(tmp_path / "a.csv", ["plant", *names], named)
    options = ("--target", "species", "--model", "gmlvq", "--drop", "plant")
    assert command("fit", "a.csv", *options)[0] == 0
    code, out, err = command(
        "predict", "model.skops", "a.csv", "--proba", "--id", "plant"
    )
    assert code == 0, err
    header, *lines = csv.reader(io.StringIO(out))
    assert header[:3] == ["plant", "label", "margin"]
    classes = [name.removeprefix("p(").removesuffix(")") for name in header[3:]]
    P = np.array([line[3:] for line in lines], float)
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-4)
    assert [line[1] for line in lines] == [classes[k] for k in P.argmax(axis=1)]
    assert [line[0] for line in lines] == [row[0] for row in named]
    error = refuses("predict", "model.skops", "a.csv", "--id", "plan")
    assert "did you mean 'plant'" in error
    fitted = command(
        "fit", "a.csv", "--target", "species", "--model", "svc", *options[4:]
    )
    assert fitted[0] == 0
    (tmp_path / "out").mkdir()
    assert "--proba: svc has no prob" in refuses(
        "predict", "model.skops", "a.csv", "--proba"
    )


def test_categories_become_columns(command, refuses, tmp_path):
    rng = np.random.RandomState(0)
    city, size = rng.choice(["Rome", "Oslo", "Bonn"], 120), rng.normal(size=120)
    north = np.where((city == "Oslo") ^ (size > 2), "yes", "no")
    rows = zip(city, size, north, strict=True)
    write_csv(tmp_path / "a.csv", ["city", "size", "north"], rows)
    assert "--encode city" in refuses("fit", "a.csv", "--target", "north")
    fitted = command("fit", "a.csv", "--target", "north", "--encode", "city")
    assert fitted[0] == 0, fitted[2]
    names = models.load(tmp_path / "model.skops").names
    assert names == ["city=Bonn", "city=Oslo", "city=Rome", "size"]
    new = [[0, "Oslo"], [0, "Rome"], [0, "Lima"], [0, ""]]
    write_csv(tmp_path / "new.csv", ["size", "city"], new)
    code, out, err = command("predict", "model.skops", "new.csv")
    assert code == 0, err
    assert "values that the model does not know: Lima" in err
    assert [line.split(",")[1] for line in out.splitlines()[1:3]] == ["yes", "no"]
    error = refuses("fit", "a.csv", "--target", "north", "--encode", "size")
    assert "--drop size" in error
    assert "no column" in refuses("fit", "a.csv", "--target", "north", "--encode", "x")
