"""What cannot be carried exactly is refused, by name and with the reason."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from tests.export.models import IMAGES, glvq, tvq
from tests.export.test_onnx import fitted

import widemargin as wm
from widemargin.export import (
    NotExportable,
    check_export,
    register_converters,
    to_c,
    to_onnx,
)
from widemargin.export.agreement import compile_header
from widemargin.export.describe import CLASSIFIERS, WITHOUT_PROGRAM
from widemargin.tangents import LearnedTangents, TangentGenerator


class Halved(wm.GLVQClassifier):
    """A subclass, which could decide otherwise."""


class Foreign(TangentGenerator):
    n_tangents = 1
    is_affine = False

    def _tangents_of(self, X, y):
        return lambda rows: (X[rows] ** 3)[:, np.newaxis]


class Affine(Foreign):
    is_affine = True

    def _tangents_of(self, X, y):
        return lambda rows: (X[rows][:, ::-1] + 1)[:, np.newaxis]


def by_rank(distances):
    return 1 / (1 + distances)


def first_feature(estimator, X):
    return X[:, 20]


REFUSED = {
    "subclass of GLVQClassifier": lambda: Halved(random_state=0, max_iter=1),
    "LogisticRegression cannot be exported": LogisticRegression,
    "PolynomialFeatures cannot be exported.*skl2onnx": lambda: make_pipeline(
        PolynomialFeatures(1), glvq()
    ),
    "FunctionTransformer cannot be exported: its func": lambda: make_pipeline(
        FunctionTransformer(np.sqrt), glvq()
    ),
    "FeatureUnion cannot be exported: it does not know": lambda: make_pipeline(
        FeatureUnion([("a", "drop"), ("b", PCA(2))]), glvq()
    ),
    "FeatureUnion cannot be exported: its transformer_weights": lambda: make_pipeline(
        FeatureUnion([("a", PCA(2))], transformer_weights={"a": 2.0}), glvq()
    ),
    "TangentDensityClassifier cannot": lambda: wm.TangentDensityClassifier(
        tangents=IMAGES
    ),
    "sides='midpoint'": lambda: wm.TangentKNeighborsClassifier(
        tangents=IMAGES, sides="midpoint"
    ),
    "algorithm='rerank'": lambda: wm.TangentKNeighborsClassifier(
        tangents=IMAGES, algorithm="rerank", n_candidates=20
    ),
    "weights are a function": lambda: wm.TangentKNeighborsClassifier(
        3, tangents=IMAGES, weights=by_rank
    ),
    "LearnedTangents are not affine": lambda: tvq(
        sides="both", tangents=LearnedTangents(2, per_class=True), spring=1e-5
    ),
    "Foreign are not affine": lambda: tvq(
        sides="both", tangents=Foreign(), spring=1e-5
    ),
    "kernel='poly' cannot; use": lambda: wm.MaxMarginClassifier(
        kernel="poly", multiclass="ovo"
    ),
    "kernel='laplacian' cannot; use": lambda: wm.KernelLVQClassifier(
        1, kernel="laplacian", max_iter=1, random_state=0
    ),
    "kernel='sigmoid' cannot; use": lambda: wm.VirtualSVC(
        "sigmoid", tangents=IMAGES, step=0.1
    ),
    "use 'ovo' or 'ddag'": lambda: wm.MaxMarginClassifier(
        kernel="rbf", multiclass="ovr"
    ),
    "export its estimator_": lambda: wm.MarginReweightingClassifier(
        wm.MaxMarginClassifier(), max_iter=1
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason, digits):
    X, y, _, _ = digits
    model = fitted(REFUSED[reason], X, y)
    for export in (to_onnx, to_c):
        with pytest.raises(NotExportable, match=reason):
            export(model)


def test_an_affine_generator_of_ones_own_is_carried(digits):
    X, y, X_test, _ = digits
    model = fitted(lambda: tvq(sides="both", tangents=Affine()), X, y)
    assert check_export(model, to_onnx(model), X_test[:50]).agrees


@pytest.mark.parametrize("model", [glvq(), make_pipeline(glvq())])
def test_unfitted(model):
    with pytest.raises(NotExportable, match="not fitted"):
        to_onnx(model)


def test_c_refuses_what_only_onnx_carries(digits):
    X, y, _, _ = digits
    for make, reason in (
        (lambda: wm.TangentSVC(tangents=IMAGES), "training samples"),
        (
            lambda: wm.KernelLVQClassifier(1, max_iter=1, random_state=0),
            "training samples",
        ),
        (lambda: tvq(sides="both", tangents=IMAGES), "bends its inputs"),
        (lambda: wm.TDNeuronClassifier(max_tangents=1, max_iter=1), "logarithm"),
    ):
        with pytest.raises(NotExportable, match=f"to C.*{reason}"):
            to_c(fitted(make, X, y))


def test_labels_without_a_common_type(digits):
    X, y, _, _ = digits
    model = wm.RejectingClassifier(
        glvq(), max_error=0.3, reject_label="?", random_state=0
    ).fit(X, y)
    for export in (to_onnx, to_c):
        with pytest.raises(NotExportable, match="no common type"):
            export(model)


def test_the_check_says_what_is_wrong_with_its_samples(digits):
    X, y, _, _ = digits
    model = glvq().fit(X, y)
    exported = to_onnx(model)
    for samples, reason in (
        (X[:, :5], "5 features"),
        (X[0], "2D array"),
        (np.full((1, 64), np.nan), "NaN"),
        (X[:0], "0 sample"),
    ):
        with pytest.raises(ValueError, match=reason):
            check_export(model, exported, samples)
    with pytest.raises(ValueError, match="no header"):
        check_export(model, "int main;", X)


def test_parameters_set_after_fit_change_nothing(digits):
    X, y, _, _ = digits
    knn = wm.TangentKNeighborsClassifier(3, tangents=IMAGES).fit(X, y)
    before = to_onnx(knn).SerializeToString()
    knn.set_params(
        n_neighbors=1, weights="distance", sides="reference", algorithm="rerank"
    )
    assert to_onnx(knn).SerializeToString() == before


def test_dtypes_are_checked(digits):
    X, y, _, _ = digits
    model = glvq().fit(X, y)
    with pytest.raises(ValueError, match="dtype"):
        to_onnx(model, dtype="float16")
    with pytest.raises(ValueError, match="dtype"):
        to_c(model, dtype="float64")


@pytest.mark.parametrize("factor", [1e300, 1e30, 1e-30, 1e-300])
def test_numbers_without_squares_in_float32_are_refused(factor, digits):
    X, y, _, _ = digits
    model = glvq().fit(X.astype(float), y)
    model.prototypes_ = model.prototypes_ * factor
    for export in (to_c, to_onnx):
        with pytest.raises(NotExportable, match=r"float32|squares"):
            export(model)


def test_numbers_beyond_float32_are_refused(digits):
    X, y, _, _ = digits
    model = fitted(wm.MaxMarginClassifier, X.astype(float), y)
    model.intercept_ = model.intercept_ * 1e300
    with pytest.raises(NotExportable, match="range of float32"):
        to_c(model)
    # Hyperplanes of a graph are in float64.
    agreement = check_export(model, to_onnx(model, dtype="float64"), X)
    assert agreement.agrees, agreement


def test_a_criterion_of_ones_own_is_refused(digits):
    X, y, _, _ = digits
    model = wm.RejectingClassifier(
        glvq(), max_error=0.3, confidence_func=first_feature, random_state=0
    ).fit(X, y)
    with pytest.raises(NotExportable, match="confidence_func is a function"):
        to_onnx(model)


ASK = """#include <stdio.h>
#include "model.h"
int main(void)
{
  float x[UPPER_FEATURES], margin;
  while (fread(x, sizeof(float), UPPER_FEATURES, stdin) == UPPER_FEATURES)
    printf("%d\\n", NAME_predict(x, &margin));
  return 0;
}
"""


def test_missing_values_stay_in_python(tmp_path):
    """What completes them is not exported: no answer is better than a wrong one."""
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = load_iris(return_X_y=True)
    model = wm.GLVQClassifier(2, random_state=0).fit(X, y)
    asked = X[[0, 60, 120]].astype(np.float32)
    asked[1:, 1] = np.nan
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    (sure,) = session.run(["confidence"], {"X": asked})
    assert np.isnan(sure).tolist() == [False, True, True]
    with pytest.raises(ValueError, match="X has missing values, which the exported"):
        check_export(model, to_onnx(model), asked)
    if shutil.which("gcc"):
        program = compile_header(to_c(model), ASK, "model", tmp_path)
        said = subprocess.run([program], input=asked.tobytes(), stdout=subprocess.PIPE)
        assert said.stdout.split() == [b"0", b"-1", b"-1"]


@pytest.mark.parametrize("missing", ["onnx", "skl2onnx"])
def test_a_missing_library_is_named_with_what_brings_it(monkeypatch, missing):
    X, y = load_iris(return_X_y=True)
    model = wm.GLVQClassifier(random_state=0).fit(X, y)
    # None in the table of modules means that there is none of this name.
    monkeypatch.setitem(sys.modules, missing, None)
    call = register_converters if missing == "skl2onnx" else lambda: to_onnx(model)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'widemargin\[onnx\]'"):
        call()


@pytest.mark.parametrize("name", sorted(wm._ESTIMATORS))
def test_every_classifier_has_a_program_or_a_reason_for_none(name):
    kind = getattr(wm, name)
    assert (kind in CLASSIFIERS) != (kind in WITHOUT_PROGRAM)


def test_the_reason_for_no_program_is_said():
    X, y = load_iris(return_X_y=True)
    model = wm.DensityClassifier(gamma=1.0).fit(X, y)
    with pytest.raises(NotExportable, match=r"DensityClassifier .* sums over all"):
        to_c(model)
