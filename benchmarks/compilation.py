"""Processor seconds that kernels compile for one fit and prediction, nothing kept.

    python benchmarks/compilation.py [knn hard glvq gmlvq lvq tvq svc]

Every estimator has a process and an empty cache of its own, and takes every engine.
Own seconds of a kernel are without those of the kernels that it calls.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter

MODELS = {
    "knn": "TangentKNeighborsClassifier(tangents=ImageTangents((8, 8)))",
    "hard": "MaxMarginClassifier(C=float('inf'))",
    "glvq": "GLVQClassifier(2, max_iter=3)",
    "gmlvq": "GMLVQClassifier(2, max_iter=3)",
    "lvq": "LVQClassifier(2, max_iter=3)",
    "tvq": "TVQClassifier(2, n_tangents=3, max_iter=3)",
    "svc": "TangentSVC(tangents=ImageTangents((8, 8)))",
}


def compiled(name: str) -> None:
    """Fit and predict, and print what was compiled."""
    from numba.core import event
    from sklearn.datasets import load_digits

    import widemargin
    from widemargin._compute.engines import chosen
    from widemargin.tangents import ImageTangents

    own: Counter = Counter()
    open_: list[list[float]] = []

    class Watch(event.Listener):
        def on_start(self, event):
            open_.append([time.process_time(), 0.0])

        def on_end(self, event):
            start, inner = open_.pop()
            seconds = time.process_time() - start
            own[event.data["dispatcher"].py_func.__qualname__] += seconds - inner
            if open_:
                open_[-1][1] += seconds

    event.register("numba:compile", Watch())
    X, y = load_digits(return_X_y=True)
    known = {"ImageTangents": ImageTangents, **vars(widemargin)}
    known |= {n: getattr(widemargin, n) for n in widemargin.__all__}
    with chosen("engines"):
        model = eval(MODELS[name], known)  # a line of the table above
        model.fit(X[:900] / 16, y[:900]).predict(X[900:950] / 16)
    slowest = ", ".join(f"{kernel} {t:.1f}" for kernel, t in own.most_common(5))
    print(f"{name:<6}{own.total():6.1f} s: {slowest}")


def main() -> None:
    """Ask every model in a process of its own."""
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory() as empty:
            alone = {"NUMBA_CACHE_DIR": empty, "OMP_NUM_THREADS": "1", "ONE": "1"}
            subprocess.run(
                [sys.executable, __file__, name], check=True, env=os.environ | alone
            )


if __name__ == "__main__":
    if os.environ.get("ONE"):
        compiled(sys.argv[1])
    else:
        main()
