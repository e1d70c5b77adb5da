"""fit, predict, evaluate, models and doctor on small data."""

import contextlib
import csv
import io
import json
import os
import shutil

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin
from widemargin.cli import fit, models
from widemargin.cli.judge import Judgement
from widemargin.cli.models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_the_grids_are_made_of_parameters(name):
    entry = MODELS[name]
    known = entry.load()().get_params()
    assert entry.grid
    assert set(entry.grid) <= set(known)
    assert ("tangents" in known) == (entry.tangents != "no")


def test_tables_are_standardised_and_columns_found_by_name(command, iris, iris_rows):
    code, _, err = command("fit", iris, "--target", "species", "--model", "glvq")
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
    options = ("--target", "species", "--model", "lvq", "--no-scale")
    assert command("fit", iris, *options)[0] == 0
    assert len(models.load(iris.with_name("model.skops")).pipeline) == 1


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
    judged = Judgement(
        truth=np.array([0, 0, 1, 1]),
        answers=np.array([0, 1, 1, 1]),
        confidence=np.array([0.9, 0.1, 0.5, 0.7]),
        margins=np.array([0.9, -0.1, 0.5, 0.7]),
        classes=np.array([0, 1]),
        seconds=1.0,
    )
    assert judged.error == 0.25
    assert judged.rejected_at(0.01) == 0.25
    assert judged.error_when_rejecting(0.2) == 0.25
    assert judged.error_when_rejecting(0.25) == 0
    np.testing.assert_array_equal(judged.confusion, [[1, 1], [0, 2]])


def test_a_model_that_refuses_keeps_refusing(command, refuses, tmp_path):
    X, y = load_digits(return_X_y=True)
    new = np.arange(len(y)) % 3 == 0
    np.savez(tmp_path / "a.npz", X=X[~new] / 16, y=y[~new])
    np.savez(tmp_path / "b.npz", X=X[new] / 16, y=y[new])
    options = ("--model", "glvq", "--max-error", "0.04")
    code, out, err = command("fit", "a.npz", *options)
    assert code == 0, err
    assert "at most 4 % are wrong, with probability 95 %" in out
    _, out, _ = command("predict", "model.skops", "b.npz")
    header, *rows = csv.reader(io.StringIO(out))
    assert header == ["row", "label", "margin", "answered"]
    labels, answered = (np.array([row[i] for row in rows]) for i in (1, 3))
    yes = answered == "yes"
    assert 0.3 < yes.mean() < 1
    assert (labels[yes].astype(int) != y[new][yes]).mean() <= 0.04
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


def test_the_promise_is_made_on_samples_that_nothing_has_seen(
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
    assert "Refuses every sample: that at most 0.1 % of its answers are wrong" in out
    assert "Answers" not in out
    assert "held-out samples are needed" in err


def test_repeated_rows_are_told_in_words_of_the_command(command, digits, tmp_path):
    X, y = digits
    np.savez(tmp_path / "a.npz", X=np.r_[X, X, X], y=np.r_[y, y, y])
    code, _, err = command("fit", "a.npz", "--model", "glvq", "--max-error", "0.1")
    assert code == 0, err
    assert "the promise does not hold: give each once. Where" in err


def test_unknown_labels_break_no_promise(command, refuses, overlapping, tmp_path):
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
        # They are as likely as others to be sure ones: nothing can be promised.
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
    assert "border" not in err
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
