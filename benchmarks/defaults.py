"""Defaults against defaults on four sets as they come: the table of the README.

Every model is ``Estimator().fit(X, y)`` with seed 0, nothing scaled and nothing chosen;
"+ tangents" is given ``ImageTangents(shape)``. digits are split 70 to 30, stratified,
seed 0; the others as their files say. One thread.

Run: python benchmarks/defaults.py
"""

import argparse
from time import process_time

from common import machine
from prototypes import load_any, percent_wrong
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from widemargin import (
    GLVQClassifier,
    GMLVQClassifier,
    TangentDensityClassifier,
    TangentKNeighborsClassifier,
    TangentSVC,
    TVQClassifier,
)
from widemargin.tangents import ImageTangents

SETS = ("digits", "usps", "letter", "satimage")
SHAPES = {"digits": (8, 8), "usps": (16, 16)}
MODELS = {
    "scikit-learn `KNeighborsClassifier`": KNeighborsClassifier(),
    "scikit-learn `SVC`": SVC(),
    "scikit-learn `RandomForestClassifier`": RandomForestClassifier(random_state=0),
    "`GLVQClassifier`": GLVQClassifier(random_state=0),
    "`GMLVQClassifier`": GMLVQClassifier(random_state=0),
    "`TVQClassifier`": TVQClassifier(random_state=0),
    "`TangentSVC` + tangents": TangentSVC(),
    "`TangentKNeighborsClassifier` + tangents": TangentKNeighborsClassifier(),
    "`TangentDensityClassifier` + tangents": TangentDensityClassifier(random_state=0),
}


def cell(model, data, shape):
    """Error in percent and microseconds of a prediction, or a dash without a shape."""
    X, y, X_test, y_test = data
    model = clone(model)
    if "tangents" in model.get_params() and not isinstance(model, TVQClassifier):
        if shape is None:
            return "–"
        model.set_params(tangents=ImageTangents(shape))
    model.fit(X, y).predict(X_test[:10])
    start = process_time()
    wrong = percent_wrong(model, X_test, y_test)
    spent = (process_time() - start) / len(y_test)
    return f"{wrong:.1f} % ({1e6 * spent:.0f})"


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(machine())
    sets = {name: load_any(name) for name in SETS}
    print("| default, error (µs per prediction) |", " | ".join(SETS), "|")
    print("|---" * (1 + len(SETS)) + "|")
    with threadpool_limits(1):
        for name, model in MODELS.items():
            cells = (cell(model, data, SHAPES.get(key)) for key, data in sets.items())
            print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
