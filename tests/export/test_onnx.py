"""Exported graphs answer as the models do, and are what they promise to be."""

import json
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from sklearn.datasets import load_iris
from sklearn.utils.fixes import parse_version
from tests.export.models import ALL, glvq

import widemargin as wm
from widemargin._core import decisions
from widemargin._core.confidence import margin_unit_of
from widemargin.export import check_export, to_onnx
from widemargin.export.agreement import onnx_answers
from widemargin.export.onnx_graph import Graph, duel_margins


def fitted(make, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make().fit(X, y)


def run(model, X):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_answers_are_those_of_the_model(make, digits):
    X, y, X_test, _ = digits
    # Python's own answers in float32 are no measure: kernels cancel.
    model = fitted(make, X.astype(float), y)
    exported = to_onnx(model)
    onnx.checker.check_model(exported, full_check=True)
    # Of 300 references with tangents, every sample takes three milliseconds.
    agreement = check_export(model, exported, X_test[:150])
    assert agreement.agrees, agreement
    assert agreement.n_close_differing == 0, agreement


@pytest.mark.parametrize("name", ["tvq", "knn", "svc", "max margin, ddag", "neuron"])
def test_two_classes_and_labels_of_text(name, digits):
    X, y, X_test, _ = digits
    names = np.array(["even", "odd"])
    model = fitted(ALL[name], X, names[y % 2])
    exported = to_onnx(model)
    agreement = check_export(model, exported, X_test[:100])
    assert agreement.agrees, agreement
    assert set(run(exported, X_test[:100])["label"]) == {"even", "odd"}


@pytest.mark.parametrize("name", ["tvq", "knn", "max margin, ovo", "standardised"])
def test_in_float64(name, digits):
    X, y, X_test, _ = digits
    model = fitted(ALL[name], X.astype(float), y)
    exported = to_onnx(model, dtype="float64")
    agreement = check_export(model, exported, X_test[:100])
    assert agreement.agrees
    assert agreement.margin_error < 1e-9


def test_what_a_graph_declares(digits):
    X, y, X_test, _ = digits
    model = fitted(ALL["rejecting"], X, y)
    exported = to_onnx(model)
    assert exported.ir_version == 8
    assert [(o.domain, o.version) for o in exported.opset_import] == [("", 18)]
    props = {prop.key: prop.value for prop in exported.metadata_props}
    assert json.loads(props["classes"]) == [0, 1, 2, 3]
    assert props["margin_unit"] == margin_unit_of(model.estimator_)
    found = run(exported, X_test)
    assert {name: (v.dtype.name, v.shape) for name, v in found.items()} == {
        "label": ("int64", (len(X_test),)),
        "margin": ("float32", (len(X_test), 4)),
        "confidence": ("float32", (len(X_test),)),
        "accepted": ("bool", (len(X_test),)),
    }
    refused = ~found["accepted"]
    np.testing.assert_array_equal(found["label"] == model.reject_label_, refused)
    np.testing.assert_array_equal(found["confidence"], found["margin"].max(axis=1))
    np.testing.assert_array_equal(found["label"], model.predict(X_test))


def test_one_row_is_the_row_of_a_batch(digits):
    X, y, X_test, _ = digits
    for name in ("tvq", "knn", "max margin"):
        exported = to_onnx(fitted(ALL[name], X, y))
        batch, one = run(exported, X_test[:100]), run(exported, X_test[5:6])
        assert batch["label"][5] == one["label"][0]
        np.testing.assert_allclose(batch["margin"][5], one["margin"][0], atol=1e-6)


@pytest.mark.skipif(
    parse_version(onnxruntime.__version__) < parse_version("1.31"),
    reason="onnxruntime below 1.31 divides by the number of rows and ends the process",
)
@pytest.mark.parametrize(
    "name", ["tvq", "smoothed", "max margin, ddag", "by columns", "three neighbours"]
)
def test_no_rows_have_no_answers(name, digits):
    X, y, _, _ = digits
    model = fitted(ALL[name], X, y)
    found = run(to_onnx(model), X[:0])
    assert (found["label"].shape, found["margin"].shape) == ((0,), (0, 4))


def test_far_from_the_origin_float64_agrees_and_float32_is_told(digits):
    X, y, X_test, _ = digits
    X, X_test = (part.astype(float) + 1e7 for part in (X, X_test))
    model = fitted(glvq, X, y)
    assert check_export(model, to_onnx(model, dtype="float64"), X_test).agrees


@pytest.mark.parametrize(
    "name",
    ["max margin, rbf", "invariant, rbf", "virtual", "virtual, linear", "invariant"],
)
def test_machines_far_from_the_origin_are_exported_about_it(name, digits):
    X, y, X_test, _ = digits
    # Float32 holds these pixels.
    X, X_test = X + 4096, X_test + 4096
    model = fitted(ALL[name], X, y)
    for dtype in ("float32", "float64"):
        assert check_export(model, to_onnx(model, dtype=dtype), X_test).agrees


@pytest.mark.parametrize("scheme", ["ovo", "ddag"])
@pytest.mark.parametrize("n_classes", [3, 4, 7])
def test_duels_decide_as_in_python(scheme, n_classes):
    rng = np.random.default_rng(n_classes)
    duels = rng.normal(size=(500, n_classes * (n_classes - 1) // 2))
    # Many ties.
    duels[250:] = duels[250:].round()
    graph = Graph(np.float64)
    out, best = duel_margins(graph, "duels", n_classes, scheme)
    double, whole = onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "duels",
            [onnx.helper.make_tensor_value_info("duels", double, ["n", None])],
            [
                onnx.helper.make_tensor_value_info(out, double, ["n", n_classes]),
                onnx.helper.make_tensor_value_info(best, whole, ["n", 1]),
            ],
            graph.initializers,
        ),
        opset_imports=[onnx.helper.make_opsetid("", 18)],
        ir_version=8,
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found, answers = session.run([out, best], {"duels": duels})
    scores = decisions.combine(duels, n_classes, scheme)
    np.testing.assert_array_equal(answers[:, 0], scores.argmax(axis=1))
    expected = decisions.duel_margins(duels, n_classes, scheme)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_tie_goes_to_the_first_class():
    model = wm.GLVQClassifier(
        init=np.array([[0.0], [2.0]]), init_labels=["b", "a"], max_iter=1,
        learning_rate=1e-9,
    ).fit([[0.0], [2.0]], ["b", "a"])  # fmt: skip
    model.prototypes_ = np.array([[0.0], [2.0]])
    found = run(to_onnx(model), np.array([[1.0], [0.5]], np.float32))
    assert found["label"].tolist() == ["a", "b"]
    assert found["confidence"][0] == 0
    assert model.predict([[1.0], [0.5]]).tolist() == ["a", "b"]


def test_a_sample_on_a_prototype_has_margin_one(digits):
    X, y, _, _ = digits
    model = fitted(glvq, X, y)
    found = run(to_onnx(model), model.prototypes_.astype(np.float32))
    np.testing.assert_allclose(found["confidence"], 1, atol=1e-4)


def test_what_is_not_a_number_is_not_accepted(digits):
    X, y, _, _ = digits
    found = run(to_onnx(fitted(ALL["rejecting"], X, y)), np.full_like(X[:1], np.nan))
    assert not found["accepted"].any()


def test_labels_may_be_numbers_of_any_kind():
    X, y = load_iris(return_X_y=True)
    for labels, kind in ((y * 1.0, "f"), (y == 1, "b"), (y.astype(np.uint8), "i")):
        model = glvq().fit(X, labels)
        found = onnx_answers(to_onnx(model), X)
        assert found.labels.dtype.kind == kind
        np.testing.assert_array_equal(found.labels, model.predict(X))
