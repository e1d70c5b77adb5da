"""Every classifier that the package exports, with settings that make it quick.

An estimator is in by existing: `widemargin._ESTIMATORS` names it, defaults do, and an
estimator that must be given another gets a cheap one. `QUICK` is only for those whose
defaults are slow or that cannot be fitted without a choice.
"""

import inspect
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import pairwise_distances

import widemargin

_squares = partial(pairwise_distances, metric="sqeuclidean")

QUICK: dict[str, dict[str, Any]] = {
    "ConformalClassifier": {"alpha": 0.5, "cv": 0.5},
    "FixedMarginPerceptron": {"max_iter": 50},
    "GLVQClassifier": {"max_iter": 5},
    "GMLVQClassifier": {"max_iter": 5},
    "KernelLVQClassifier": {"max_iter": 5},
    "LVQClassifier": {"max_iter": 5},
    "MarginLVQClassifier": {"max_iter": 5},
    "MarginPerceptron": {"max_iter": 50},
    "MarginReweightingClassifier": {"max_iter": 3},
    "MaxMarginClassifier": {"max_iter": 200},
    "ProductClassifier": {"cv": 2},
    "RejectingClassifier": {"coverage": 0.5, "delta": None},
    "RelationalLVQClassifier": {"max_iter": 5, "metric": _squares},
    "TDNeuronClassifier": {"max_iter": 3},
    "TVQClassifier": {"max_iter": 5},
}


@cache
def parameters(name: str) -> dict[str, inspect.Parameter]:
    """What an estimator of this name can be given."""
    return dict(inspect.signature(getattr(widemargin, name)).parameters)


def make(name: str, **settings: Any) -> BaseEstimator:
    """Return an unfitted estimator that is quick and always decides the same."""
    there = parameters(name)
    chosen = {k: v for k, v in QUICK.get(name, {}).items() if k in there}
    if "random_state" in there:
        chosen["random_state"] = 0
    if "estimator" in there and there["estimator"].default is inspect.Parameter.empty:
        chosen["estimator"] = make("GLVQClassifier")
    if "estimators" in there:
        chosen["estimators"] = [
            ("a", make("GLVQClassifier")),
            ("b", make("TangentDensityClassifier", tangents="none")),
        ]
    return getattr(widemargin, name)(**(chosen | settings))


NAMES = sorted(widemargin._ESTIMATORS)


def _blobs(seed: int, n: int, d: int, n_classes: int, apart: float) -> tuple:
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    centres = apart * rng.normal(size=(n_classes, d))
    return centres[codes] + rng.normal(size=(n, d)), codes


def _two() -> tuple:
    X, codes = _blobs(0, 40, 3, 2, 1.0)
    return X, np.array(["no", "yes"])[codes]


def _three() -> tuple:
    X, codes = _blobs(1, 45, 4, 3, 4.0)
    return X, np.array([5, 2, 9])[codes]


def _lattice() -> tuple:
    """Equal rows, contradicting labels, ties: what real tables of categories hold."""
    X = np.stack(np.meshgrid([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]), axis=-1).reshape(-1, 2)
    X = np.concatenate([X, X, X[:4], X[:1]])
    return X, np.array(["a", "b", "c"])[np.arange(len(X)) % 3]


def _line() -> tuple:
    X = np.array([0, 1, 2, 3, 4, 5, 20, 21, 22, 23, 24, 25], float)[:, None]
    return X, np.repeat([False, True], 6)


DATA = {"two": _two, "three": _three, "lattice": _lattice, "line": _line}


def data(name: str, dtype: Any = np.float64, scale: float = 1.0) -> tuple:
    """Return (X, y, queries): queries are samples, points between, and outliers."""
    X, y = DATA[name]()
    between = (X + X[::-1]) / 2
    queries = np.concatenate([X, between, X[:5] * 100, X[:2] * 0])
    return (X * scale).astype(dtype), y, (queries * scale).astype(dtype)


def each_number(value: Any, path: str, seen: set):
    """Every array and number that a fitted model holds, with the way to it."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield path, value
        elif value.dtype.kind == "O":
            for i, item in enumerate(value.ravel()):
                yield from each_number(item, f"{path}[{i}]", seen)
    elif isinstance(value, float | np.floating):
        yield path, np.asarray(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from each_number(item, f"{path}[{key!r}]", seen)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from each_number(item, f"{path}[{i}]", seen)
    elif type(value).__module__.startswith("widemargin") and hasattr(value, "__dict__"):
        for key, item in vars(value).items():
            if key.endswith("_") or not isinstance(value, BaseEstimator):
                yield from each_number(item, f"{path}.{key}", seen)


# Numbers that may say "none": documented in the docstrings of their estimators.
MAY_BE_INFINITE = {
    "threshold_", "class_thresholds_", "error_", "updates", "margin_upper_bound_",
    "directional_margin_upper_bound_",
}  # fmt: skip
