"""Tables 1 and 2 of the re-weighting paper: its numbers and ours, side by side.

SVMs are those of the paper: one machine per class against the rest, kernels
(x·x' + 1)^d, C = 1/mean k(x, x) (the default of SVM-light), the largest score answers.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from widemargin.datasets.nist3 import Split
from widemargin.prototypes import (
    HSSClassifier,
    LVQClassifier,
    TDNeuronClassifier,
    TVQClassifier,
)
from widemargin.tangents import ImageTangents

PAPER_1 = {
    ("HSS 1-sided", "15 tangents"): 3.58,
    ("LVQ 2.1", "16 codebooks"): 3.52,
    ("TD-Neuron", "15 tangents"): 3.51,
    ("HSS 2-sided", "9 tangents"): 3.40,
    ("Euclidean 1-NN", "training examples"): 3.16,
    ("SVM", "linear"): 10.64,
    ("SVM", "poly d=2"): 2.82,
    ("SVM", "poly d=3"): 3.23,
    ("SVM", "poly d=4"): 4.02,
}
# (theta, tangents, models per class) -> error in percent.
PAPER_2 = {
    (0.1, 0, 1): 6.40,
    (0.1, 0, 3): 4.26,
    (0.3, 10, 1): 2.40,
    (0.3, 10, 3): 2.10,
    (0.3, 15, 1): 2.20,
    (0.3, 15, 3): 2.26,
    (0.4, 10, 1): 3.00,
    (0.4, 10, 3): 2.43,
    (0.4, 15, 1): 2.22,
    (0.4, 15, 3): 2.10,
}


class Row(NamedTuple):
    """One line of a table: errors in percent, seconds to fit and to test."""

    method: str
    parameters: str
    paper: float | None
    ours: float
    fit_seconds: float
    test_seconds: float


def poly_svm(X: np.ndarray, degree: int) -> OneVsRestClassifier:
    """Build the SVM of the paper for data like `X`; degree 1 is linear."""
    norms = np.einsum("ij,ij->i", X, X, dtype=float)
    if degree == 1:
        return OneVsRestClassifier(SVC(kernel="linear", C=1 / norms.mean()))
    C = 1 / ((norms + 1) ** degree).mean()
    machine = SVC(kernel="poly", degree=degree, gamma=1, coef0=1, C=C, cache_size=400)
    return OneVsRestClassifier(machine)


def table_1_methods(X: np.ndarray, seed: int) -> dict[tuple[str, str], Any]:
    """Every method of Table 1, not fitted yet."""
    images = ImageTangents((16, 16))
    methods = [
        HSSClassifier(n_tangents=15),
        LVQClassifier(algorithm="lvq2.1", prototypes_per_class=16, random_state=seed),
        TDNeuronClassifier(15, random_state=seed),
        HSSClassifier(n_tangents=9, sides="two", tangents=images),
        KNeighborsClassifier(1),
        *(poly_svm(X, degree) for degree in (1, 2, 3, 4)),
    ]
    return dict(zip(PAPER_1, methods, strict=True))


def measure(name: tuple[str, str], model: Any, split: Split, paper: Any) -> Row:
    """Fit and test one model."""
    start = time.perf_counter()
    model.fit(split.X_train, split.y_train)
    fitted = time.perf_counter()
    error = 100 * (1 - model.score(split.X_test, split.y_test))
    tested = time.perf_counter()
    return Row(*name, paper, round(error, 2), fitted - start, tested - fitted)


def table_1(split: Split, *, seed: int = 0) -> tuple[list[Row], dict[str, Any]]:
    """Measure every method of Table 1.

    Returns
    -------
    rows : list of Row
        In the order of the paper.
    models : dict
        Fitted models by "method, parameters".
    """
    methods = table_1_methods(split.X_train, seed)
    rows = [
        measure(name, model, split, PAPER_1[name]) for name, model in methods.items()
    ]
    return rows, {", ".join(name): model for name, model in methods.items()}


def table_2(split: Split, *, seed: int = 0, max_iter: int = 150) -> list[Row]:
    """Measure TVQ with all thresholds and sizes of Table 2."""
    rows = []
    for (theta, n_tangents, n_models), paper in PAPER_2.items():
        model = TVQClassifier(
            n_models, n_tangents, theta=theta, max_iter=max_iter, random_state=seed
        )
        name = (f"TVQ {n_tangents}×{n_models}", f"θ = {theta}")
        rows.append(measure(name, model, split, paper))
    return rows


def two_sided(split: Split, *, seed: int = 0, max_iter: int = 60) -> Row:
    """Measure TVQ with inputs that bend as well: 480 vectors in all."""
    model = TVQClassifier(
        3, 15, theta=0.5, sides="two", tangents=ImageTangents((16, 16), sigma=1.1),
        max_iter=max_iter, random_state=seed,
    )  # fmt: skip
    return measure(("TVQ 15×3, two-sided", "θ = 0.5"), model, split, None)
