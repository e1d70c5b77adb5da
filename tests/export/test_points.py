"""Exported answers are Python's on training rows, between them, and far away."""

import contextlib

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin as wm
from widemargin.export import NotExportable, to_c, to_onnx
from widemargin.export.agreement import Answers, c_answers, compare, onnx_answers

pytestmark = [
    pytest.mark.usefixtures("gcc"),
    # Some are told to stop early.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
T = np.eye(6)[:1]
HYPERPLANES = {
    "max margin": lambda: wm.MaxMarginClassifier(C=1.0, multiclass="ovo"),
    "perceptron": lambda: wm.MarginPerceptron(random_state=0),
    "fixed margin": lambda: wm.FixedMarginPerceptron(random_state=0),
    "invariant": lambda: wm.InvariantHyperplaneSVC(tangents=T),
}
FEW = {"max_iter": 3, "random_state": 0}
OTHERS = {
    "max margin, ovr": lambda: wm.MaxMarginClassifier(C=1.0, multiclass="ovr"),
    "max margin, ddag": lambda: wm.MaxMarginClassifier(C=1.0, multiclass="ddag"),
    "glvq": lambda: wm.GLVQClassifier(**FEW),
    "gmlvq": lambda: wm.GMLVQClassifier(**FEW),
    "margin lvq": lambda: wm.MarginLVQClassifier(**FEW),
    "kernel lvq": lambda: wm.KernelLVQClassifier(**FEW),
    "hss": lambda: wm.HSSClassifier(1, n_tangents=1),
    "neuron": lambda: wm.TDNeuronClassifier(max_tangents=1, **FEW),
    "knn": lambda: wm.TangentKNeighborsClassifier(tangents=T),
    "five neighbours": lambda: wm.TangentKNeighborsClassifier(5, tangents=T),
    "three by distance": lambda: wm.TangentKNeighborsClassifier(3, weights="distance"),
    "svc": lambda: wm.TangentSVC(tangents=T, multiclass="ovo"),
    "max margin, rbf": lambda: wm.MaxMarginClassifier(kernel="rbf", C=10.0),
}


def points(X, n):
    """Samples of every kind, in float32."""
    rng = np.random.default_rng(0)
    low, high = X.min(axis=0), X.max(axis=0)
    middle = (low + high) / 2
    i, j = rng.integers(len(X), size=(2, n))
    box = rng.uniform(low, high, (n, X.shape[1]))
    single = np.eye(X.shape[1])[i % X.shape[1]] * rng.choice([0, 1, 10], (n, 1))
    far = [middle + times * (box - middle) for times in (50, 1e6)]
    return np.concatenate([X[i], (X[i] + X[j]) / 2, box, single, *far]).astype("f4")


def blobs(n_classes):
    return make_blobs(600, 6, centers=n_classes, cluster_std=2.0, random_state=0)


def whole_numbers():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (400, 6)).astype(float)
    return X, (X[:, 0] > 2) + 2 * (X[:, 1] > 2)


def one_hot():
    rng = np.random.default_rng(0)
    C = rng.integers(0, 3, (400, 2))
    X = np.column_stack([np.eye(3)[column] for column in C.T])
    y = (C[:, 0] + 2 * C[:, 1]) % 4
    return X, np.where(rng.random(400) < 0.1, rng.integers(0, 4, 400), y)


def check(model, X, n, monkeypatch):
    """No answer differs where Python is sure, in either language, of any kind."""
    # Thousands of samples need a compiler that optimises.
    monkeypatch.setattr("widemargin.export.agreement.SANITISERS", ("-O1",))
    asked = points(X, n)
    answers = [onnx_answers(to_onnx(model), asked)]
    with contextlib.suppress(NotExportable):
        answers.append(c_answers(to_c(model), asked, model.classes_, None))
    for found in answers:
        assert np.isfinite(found.confidence).all()
        for start in range(0, len(asked), n):
            kind = slice(start, start + n)
            said = found.labels[kind], found.margins[kind], found.confidence[kind]
            agreement = compare(model, Answers(*said), asked[kind])
            assert not agreement.n_wrong, (start // n, agreement)
            assert agreement.margin_error < 1e-4, (start // n, agreement)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", HYPERPLANES)
def test_hyperplanes_of_many_pairs(name, scaled, monkeypatch):
    """Of equal votes, how clearly is asked: far away by numbers that are all large."""
    X, y = blobs(20)
    model = HYPERPLANES[name]()
    model = make_pipeline(StandardScaler(), model) if scaled else model
    check(model.fit(X, y), X, 400, monkeypatch)


@pytest.mark.parametrize("data", [lambda: blobs(5), whole_numbers, one_hot])
@pytest.mark.parametrize("name", HYPERPLANES | OTHERS)
def test_points_of_every_kind(name, data, monkeypatch):
    X, y = data()
    check((HYPERPLANES | OTHERS)[name]().fit(X, y), X, 150, monkeypatch)
