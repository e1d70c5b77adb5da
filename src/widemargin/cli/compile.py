"""Compile ahead what larger fits compile: for containers, CI and shared machines.

Every kernel is compiled once per machine and kept on disk. Small fits need none; for
larger ones this does the waiting before the first user comes.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin.cli import Refusal, console, near

DTYPES = ("float64", "float32")


def estimators() -> dict[str, Callable[[], Any]]:
    """Models whose kernels are compiled, by the names that the command knows."""
    import widemargin as w
    from widemargin.tangents import ImageTangents

    tangents = ImageTangents(shape=(8, 8))
    return {
        "glvq": lambda: w.GLVQClassifier(3, max_iter=4),
        "gmlvq": lambda: w.GMLVQClassifier(3, max_iter=4),
        "lvq": lambda: w.LVQClassifier(
            3, algorithm=("glvq", "lvq1", "olvq1", "lvq2.1", "lvq3"), max_iter=1
        ),
        "kernel-lvq": lambda: w.KernelLVQClassifier(3, max_iter=2),
        "hss": lambda: w.HSSClassifier(2),
        "tvq": lambda: w.TVQClassifier(2, n_tangents=3, max_iter=3),
        "tvq-two-sided": lambda: w.TVQClassifier(
            2, n_tangents=3, sides="both", tangents=tangents, max_iter=3
        ),
        "knn": lambda: w.TangentKNeighborsClassifier(tangents=tangents),
        "density": lambda: w.TangentDensityClassifier(tangents=tangents),
        "tangent-svc": lambda: w.TangentSVC(tangents=tangents),
        "max-margin": lambda: w.MaxMarginClassifier(),
        "hard-margin": lambda: w.MaxMarginClassifier(C=np.inf, max_iter=1000),
        "perceptron": lambda: w.MarginPerceptron(),
    }


def run(models: list[str] | None = None, dtype: str = "both") -> None:
    """Compile the kernels of the named models, or of all."""
    known = estimators()
    unknown = [name for name in models or [] if name not in known]
    if unknown:
        raise Refusal(f"no model {unknown[0]!r}: {near(unknown[0], known)}")
    if dtype not in (*DTYPES, "both"):
        raise Refusal(f"--dtype must be float32, float64 or both; got {dtype!r}")
    chosen = models or list(known)
    dtypes = DTYPES if dtype == "both" else (dtype,)
    out = console()
    out.print(f"kernels are kept in {place()}")
    for name in chosen:
        start, made = time.perf_counter(), 0
        for kind in dtypes:
            made += compiled(known[name](), kind)
        seconds = time.perf_counter() - start
        what = f"{made} compiled" if made else "ready"
        out.print(f"{name:14} {what}, {seconds:.1f} s")


def compiled(model: Any, dtype: str) -> int:
    """Fit and ask a model by its engines; return how many kernels that compiled."""
    from sklearn.datasets import load_digits

    from widemargin._compute import engines
    from widemargin._compute.compiled import COMPILED

    X, y = load_digits(return_X_y=True)
    X, y = (X[:150] / 16).astype(dtype), y[:150]
    before = len(COMPILED)
    with engines.chosen("engines"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y).predict(X)
        model.predict(X[:1])
    return len(COMPILED) - before


def place() -> str:
    """Return the folder where numba keeps what it compiled."""
    from widemargin._compute import compiled as kernels

    folder = kernels.dot.stats.cache_path
    return str(folder) if folder else "no folder: none can be written"
