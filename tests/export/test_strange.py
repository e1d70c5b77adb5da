"""Samples that nobody should give: no answer, or Python's, but no sure wrong one."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from tests.export.models import ALL, IN_C, glvq
from tests.export.test_onnx import fitted, run

import widemargin as wm
from widemargin.export import check_export, to_c, to_onnx
from widemargin.export.agreement import c_answers, onnx_answers

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
