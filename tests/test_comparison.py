"""`compare`: every model is asked about samples that it has not seen."""

import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC
from typer.testing import CliRunner

from widemargin import GMLVQClassifier, compare
from widemargin.cli.app import app
from widemargin.comparison import ComparedModel, default_models
from widemargin.tangents import ImageTangents


def test_errors_are_those_of_cross_val_predict():
    X, y = load_wine(return_X_y=True)
    models = {"bayes": GaussianNB(), "svc": SVC()}
    found = compare(X, y, models=models, random_state=3)
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    for row in found.rows:
        answers = cross_val_predict(models[row.name], X, y, cv=folds)
        assert row.error == np.mean(answers != y)
    assert found.best == ["bayes"]


def test_the_numbers_of_a_row():
    rng = np.random.default_rng(0)
    confidence = np.arange(1000.0)
    wrong = rng.permutation(confidence < 100) & (rng.random(1000) < 0.9)
    wrong[confidence < 100] = True
    row = ComparedModel("", None, wrong, confidence, 0.5 + 0.0 * confidence, 1, 1)
    by_hand = min(k for k in range(1000) if wrong[k:].sum() <= 0.01 * (1000 - k))
    assert row.rejected == pytest.approx(by_hand / 1000)
    # Ten bins by a constant probability are ten parts of the rows, in their order.
    gaps = [abs(0.5 - np.mean(~part)) for part in np.array_split(wrong, 10)]
    assert row.calibration_error == pytest.approx(np.mean(gaps))
    assert row.standard_error == pytest.approx(
        np.sqrt(row.error * (1 - row.error) / 1000)
    )


def test_missing_values_large_data_and_failures_are_told():
    X, y = load_iris(return_X_y=True)
    X[::7, 1] = np.nan
    models = {"GMLVQ": GMLVQClassifier(random_state=0), "broken": SVC(C=-1)}
    found = compare(X, y, models=models, cv=2, max_samples=90)
    assert [row.name for row in found.rows] == ["GMLVQ"]
    assert len(found.rows[0].wrong) == 90
    assert "C" in found.failed["broken"]
    assert "broken: " in str(found)
    assert any("90 of 150" in note for note in found.notes)
    assert any("MixtureImputer" in note for note in found.notes)
    frame = found.to_frame()
    assert frame.loc["GMLVQ", "error"] == found.rows[0].error


def test_models_without_probabilities_or_order_say_so():
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, models={"svc": SVC(), "same": DummyClassifier()}, cv=2)
    machine, same = found.rows
    assert machine.calibration_error is None
    assert same.rejected is None
    assert "none" in machine.cells()
    assert "cannot" in same.cells()


def test_tangents_bring_the_models_that_use_them():
    assert "tangent SVC" not in default_models()
    moves = ImageTangents(shape=(8, 8))
    assert default_models(moves)["tangent SVC"].tangents is moves
    # Standardised pixels have other tangents.
    assert isinstance(default_models(moves)["SVC"], SVC)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": 1}, "cv must be at least 2"),
        ({"cv": 60}, "has 50 samples, fewer than cv=60"),
        ({"models": {}}, "models is empty"),
        ({"models": {"a": SVC(C=-1)}}, "none could be fitted"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        compare(*load_iris(return_X_y=True), **options)


def test_columns_of_text_are_named():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X["colour"] = ["red", "blue"] * 75
    with pytest.raises(ValueError, match="Text is in column 'colour'"):
        compare(X, y)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class"):
        compare(np.eye(4), np.zeros(4))


def test_the_picture_has_a_row_a_model():
    pytest.importorskip("matplotlib")
    X, y = load_iris(return_X_y=True)
    models = {"bayes": GaussianNB(), "logistic": LogisticRegression(max_iter=500)}
    ax = compare(X, y, models=models, cv=2).plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["logistic", "bayes"]


def test_the_command_prints_draws_and_refuses(tmp_path):
    X, y = load_iris(return_X_y=True)
    data, out = tmp_path / "iris.csv", tmp_path / "iris.png"
    np.savetxt(data, np.c_[X, y], delimiter=",", header="a,b,c,d,kind", comments="")
    call = ["compare", str(data), "--target", "kind", "--model", "GMLVQ", "--cv", "2"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = CliRunner().invoke(app, [*call, "--out", str(out)])
        assert shown.exit_code == 0, shown.output
        assert " *" in shown.output
        assert out.read_bytes().startswith(b"\x89PNG")
        found = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
        refused = CliRunner().invoke(app, [*call, "--model", "forest"])
    assert found["best"] == ["GMLVQ"]
    assert refused.exit_code == 2


def test_the_command_encodes_and_drops_columns(tmp_path):
    X, y = load_iris(return_X_y=True)
    data = tmp_path / "plants.csv"
    rows = [
        f"p{i},{x[0]},{('red', 'blue')[i % 2]},{kind}"
        for i, (x, kind) in enumerate(zip(X, y, strict=True))
    ]
    data.write_text("\n".join(["plant,length,colour,kind", *rows]))
    call = ["compare", str(data), "--target", "kind", "--model", "SVC", "--cv", "2"]
    refused = CliRunner().invoke(app, [*call, "--drop", "plant"])
    assert refused.exit_code == 2
    assert "--encode colour" in refused.output
    shown = CliRunner().invoke(
        app, [*call, "--drop", "plant", "--encode", "colour", "--json"]
    )
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["models"][0]["error"] < 0.4


def test_a_forest_in_trees_of_its_own_is_larger_than_a_machine():
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, models={"forest": RandomForestClassifier(20), "svc": SVC()})
    assert found.rows[0].size > found.rows[1].size > 1000
