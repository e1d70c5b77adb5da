"""Points of every kind to ask exported models about, and small data to fit them to.

`benchmarks/export.py --sections points` asks about 10 000 points of each kind,
test_points.py about fewer.
"""

import contextlib

import numpy as np
from sklearn.datasets import load_digits, make_blobs

import widemargin as wm
from widemargin.export import NotExportable, to_c, to_onnx
from widemargin.export.agreement import (
    Answers,
    c_answers,
    compare,
    onnx_answers,
    python_answers,
    rejecting_in,
)

T = np.eye(6)[:1]
FEW = {"max_iter": 3, "random_state": 0}
HYPERPLANES = {
    "max margin": lambda: wm.MaxMarginClassifier(C=1.0, multiclass="ovo"),
    "perceptron": lambda: wm.MarginPerceptron(random_state=0),
    "fixed margin": lambda: wm.FixedMarginPerceptron(random_state=0),
    "invariant": lambda: wm.InvariantHyperplaneSVC(tangents=T),
}
MODELS = HYPERPLANES | {
    "max margin, ovr": lambda: wm.MaxMarginClassifier(C=1.0, multiclass="ovr"),
    "max margin, ddag": lambda: wm.MaxMarginClassifier(C=1.0, multiclass="ddag"),
    "lvq": lambda: wm.LVQClassifier(**FEW),
    "glvq": lambda: wm.GLVQClassifier(**FEW),
    "gmlvq": lambda: wm.GMLVQClassifier(**FEW),
    "margin lvq": lambda: wm.MarginLVQClassifier(**FEW),
    "kernel lvq": lambda: wm.KernelLVQClassifier(**FEW),
    "hss": lambda: wm.HSSClassifier(1, n_tangents=1),
    "tvq": lambda: wm.TVQClassifier(1, n_tangents=1, **FEW),
    "neuron": lambda: wm.TDNeuronClassifier(max_tangents=1, **FEW),
    "knn": lambda: wm.TangentKNeighborsClassifier(tangents=T),
    "knn, no tangents": wm.TangentKNeighborsClassifier,
    "five neighbours": lambda: wm.TangentKNeighborsClassifier(5, tangents=T),
    "three by distance": lambda: wm.TangentKNeighborsClassifier(3, weights="distance"),
    "svc": lambda: wm.TangentSVC(tangents=T, multiclass="ovo"),
    "max margin, rbf": lambda: wm.MaxMarginClassifier(kernel="rbf", C=10.0),
    "virtual, linear": lambda: wm.VirtualSVC("linear", tangents=T),
}
KINDS = ("training", "halfway", "box", "single", "50 times", "1e6 times")


def points(X, n):
    """Samples of every kind, n of each, in float32."""
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


def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:300] / 16, y[:300]


DATA = {
    "blobs": lambda: blobs(5),
    "20 blobs": lambda: blobs(20),
    "whole numbers": whole_numbers,
    "one-hot": one_hot,
}


def compared(model, X, n):
    """Compare what a model exports to, on n points of every kind, with Python.

    Gives the language, the kind of points and the `Agreement`.
    """
    asked = points(X, n)
    answers = {"ONNX": onnx_answers(to_onnx(model), asked)}
    label = getattr(rejecting_in(model), "reject_label_", None)
    with contextlib.suppress(NotExportable):
        answers["C"] = c_answers(to_c(model), asked, model.classes_, label)
    mine = python_answers(model, asked)
    for language, found in answers.items():
        assert np.isfinite(found.confidence).all(), language
        for start, kind in zip(range(0, len(asked), n), KINDS, strict=True):
            rows = slice(start, start + n)
            agreement = compare(
                model, _taken(found, rows), asked[rows], mine=_taken(mine, rows)
            )
            yield language, kind, agreement


def _taken(said, rows):
    return Answers(
        *(None if part is None else part[rows] for part in vars(said).values())
    )
