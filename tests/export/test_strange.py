"""Samples that nobody should give: no answer, or Python's, but no sure wrong one."""

import subprocess

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from tests.export.models import ALL, IN_C, glvq
from tests.export.test_onnx import fitted, run

import widemargin as wm
from widemargin.export import check_export, to_c, to_onnx
from widemargin.export.agreement import c_answers, compile_header, onnx_answers

KINDS = (
    ("tvq", 4),
    ("max margin, ovo", 2),
    ("max margin, ovo", 4),
    ("max margin, ddag", 4),
    ("max margin, ovr", 4),
    ("unit length", 4),
    ("three neighbours", 4),
    ("svc", 2),
    ("svc", 4),
    ("svc, ddag", 4),
    ("tvq, two sides", 4),
    ("neuron", 4),
    ("scaled", 4),
    *((kind, 4) for kind in ("kernel lvq", "max margin, rbf", "virtual")),
    *((kind, 4) for kind in ("svc, nd", "svc, log", "invariant, rbf")),
)


@pytest.mark.usefixtures("gcc")
@pytest.mark.parametrize(("name", "n_classes"), KINDS)
def test_what_is_no_number_has_no_confidence_and_no_answer(name, n_classes, digits):
    X, y, X_test, _ = digits
    model = fitted(ALL[name], X, y % n_classes)
    asked = X_test[:7].copy()
    asked[0], asked[1, 20], asked[2, 63] = np.nan, np.nan, np.nan
    asked[3, 20], asked[4, 20], asked[5] = np.inf, -np.inf, np.inf
    for dtype in ("float32", "float64"):
        found = onnx_answers(to_onnx(model, dtype=dtype), asked)
        assert np.isnan(found.confidence).tolist() == [True] * 6 + [False]
    for dtype in ("float32", "int8") if name in IN_C else ():
        found = c_answers(to_c(model, dtype=dtype), asked, model.classes_, -9)
        assert np.isnan(found.confidence).tolist() == [True] * 6 + [False]
        assert (found.labels == -9).tolist() == [True] * 6 + [False]


@pytest.mark.usefixtures("gcc")
@pytest.mark.parametrize("scheme", ["ovo", "ddag", "ovr"])
def test_nothing_is_accepted_where_numbers_end(scheme, digits):
    X, y, X_test, _ = digits
    model = wm.RejectingClassifier(
        wm.MaxMarginClassifier(multiclass=scheme), max_error=0.2, random_state=0
    ).fit(X, y)
    asked = X_test[:4].copy()
    asked[0, 20] = np.nan
    asked[1] = 3e38 * np.sign(X_test[1] - 0.5)
    found = run(to_onnx(model), asked)
    assert not found["accepted"][0]
    mine = model.predict(asked[1:].astype(float))
    for labels, accepted in (
        (found["label"], found["accepted"]),
        *(
            (said.labels, said.accepted)
            for dtype in ("float32", "int8")
            for said in [
                c_answers(
                    to_c(model, dtype=dtype), asked, model.classes_, model.reject_label_
                )
            ]
        ),
    ):
        assert not accepted[0]
        # What overflows is refused, or right all the same.
        ours = labels[1:][accepted[1:]]
        np.testing.assert_array_equal(ours, mine[accepted[1:]])


@pytest.mark.usefixtures("gcc")
def test_yes_and_no_can_be_refused(digits):
    """Beside them the label of a refusal is -1: all are whole numbers, as in Python."""
    X, y, X_test, _ = digits
    model = wm.RejectingClassifier(glvq(), max_error=0.1, random_state=0)
    model.fit(X, y % 2 == 1)
    assert set(model.predict(X_test)) == {-1, 0, 1}
    for exported in (to_onnx(model), to_c(model)):
        agreement = check_export(model, exported, X_test)
        assert agreement.agrees, agreement
    assert run(to_onnx(model), X_test)["label"].dtype == np.int64


@pytest.mark.usefixtures("gcc")
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_unit_length_of_whatever_length(norm, digits):
    """Squares overflow in float32; below 2e-15 scikit-learn does not divide."""
    X, y, X_test, _ = digits
    model = fitted(lambda: make_pipeline(Normalizer(norm), glvq()), X.astype(float), y)
    factors = np.array([1e37, 1e25, 1e-12, 1e-14, 1e-30, 1e-41, 0.0])
    asked = (factors[:, None, None] * X_test[:20]).reshape(-1, 64)
    for exported in (to_onnx(model), to_onnx(model, dtype="float64"), to_c(model)):
        agreement = check_export(model, exported, asked)
        assert agreement.agrees, agreement


NO_ANSWER = """
#include <stdio.h>
#include "model.h"

int main(void)
{
  float x[UPPER_FEATURES], margin;
  while (fread(x, sizeof(float), UPPER_FEATURES, stdin) == UPPER_FEATURES) {
    const int answer = NAME_predict(x, &margin);
    printf("%d %s\\n", answer, NAME_label(answer));
  }
  return 0;
}
"""


@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O3", "-ffast-math")])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(
    "name", ["glvq", "tvq", "max margin, ovo", "max margin, ddag", "max margin, ovr"]
)
def test_no_answer_has_no_label(name, dtype, flags, digits, gcc, tmp_path):
    """With -ffast-math too, which takes every float for a finite number."""
    X, y, X_test, _ = digits
    labels = np.array(["a", "b", "c", ""])
    model = fitted(ALL[name], X, labels[y])
    asked = X_test[:6].copy()
    asked[0], asked[1, 20], asked[2, 63] = np.nan, np.nan, np.nan
    asked[3, 20], asked[4, 20] = np.inf, -np.inf
    header = to_c(model, dtype=dtype)
    program = compile_header(header, NO_ANSWER, "model", tmp_path, *flags)
    out = subprocess.run([str(program)], input=asked.tobytes(), capture_output=True)
    *none, answer = out.stdout.decode().splitlines()
    # The empty text is a class here, so that another one stands for none.
    assert none == ["-1 none"] * 5
    number, _, label = answer.partition(" ")
    assert label == model.classes_[int(number)]
    labels[3] = "d"
    header = to_c(fitted(ALL[name], X, labels[y]), dtype=dtype)
    assert '#define MODEL_NO_LABEL ""' in header


def test_imputers_and_clips_know_nan_with_fast_math(gcc, tmp_path):
    X, y = load_iris(return_X_y=True)
    holes = X.copy()
    holes[::7, 2] = np.nan
    model = make_pipeline(SimpleImputer(), glvq()).fit(holes, y)
    clipped = make_pipeline(MinMaxScaler(clip=True), glvq()).fit(X, y)
    asked = holes[:20].astype(np.float32)
    for one, expected in (
        (model, model.predict(asked.astype(float))),
        (clipped, np.where(np.isnan(asked).any(axis=1), -1, 0)),
    ):
        folder = tmp_path / one[0].__class__.__name__
        folder.mkdir()
        main = NO_ANSWER.replace("%s", "%d").replace("NAME_label(answer)", "1")
        flags = "-O3", "-ffast-math"
        program = compile_header(to_c(one), main, "model", folder, *flags)
        out = subprocess.run([str(program)], input=asked.tobytes(), capture_output=True)
        found = [int(line.split()[0]) for line in out.stdout.decode().splitlines()]
        np.testing.assert_array_equal(found, expected)


FAR = {
    "glvq": lambda: wm.GLVQClassifier(random_state=0),
    "glvq, as they are": lambda: wm.GLVQClassifier(scale="none", random_state=0),
    "gmlvq": lambda: wm.GMLVQClassifier(max_iter=3, random_state=0),
    "gmlvq, diagonal": lambda: wm.GMLVQClassifier(
        metric="diagonal", max_iter=3, random_state=0
    ),
    "margin lvq": lambda: wm.MarginLVQClassifier(random_state=0),
    "hss": lambda: wm.HSSClassifier(1, n_tangents=1),
    "components": lambda: make_pipeline(PCA(3), glvq()),
    "standardised": lambda: make_pipeline(StandardScaler(), wm.MaxMarginClassifier()),
}


@pytest.mark.usefixtures("gcc")
@pytest.mark.parametrize("make", FAR.values(), ids=FAR)
def test_a_thousand_from_zero_float32_keeps_its_digits(make):
    """Kelvin, years, hectopascals: what rounding leaves of a centre is subtracted."""
    X, y = load_iris(return_X_y=True)
    X = (X + 1000).astype(np.float32).astype(float)
    model = fitted(make, X, y)
    for exported in (to_onnx(model), to_c(model)):
        agreement = check_export(model, exported, X)
        assert agreement.agrees, agreement


def test_far_away_a_kernel_machine_knows_nothing(digits):
    """Its values cancel to rounding, which is a tie in Python and no sure answer."""
    X, y, X_test, _ = digits
    for kernel in ("nd", "log"):
        model = wm.TangentSVC(
            kernel=kernel, tangents=np.eye(64)[20:22], multiclass="ovo"
        ).fit(X.astype(float), y)
        asked = (X_test[:50] * 1e18).astype(np.float32)
        mine = model.confidence(asked.astype(float))
        for dtype in ("float32", "float64"):
            found = run(to_onnx(model, dtype=dtype), asked.astype(dtype))
            np.testing.assert_array_equal(found["confidence"] == 0, mine == 0)
        if kernel == "nd":
            assert (mine == 0).all()
            np.testing.assert_array_equal(
                found["label"], model.predict(asked.astype(float))
            )
