"""Exported models against their originals: answers, sizes and single predictions.

float32 test sets of scikit-learn's digits, USPS and letter. Answers of ONNX graphs and
of C headers (compiled with sanitisers) next to Python's in float64; then the time of
one prediction of TVQ on digits in Python, onnxruntime and C, one thread each, and of
one row in Python next to scikit-learn's LogisticRegression. "points" asks every kind of
model that leaves Python, of float32, about 10 000 points of every kind: training rows,
halfway between two, in their box, one-hot, 50 and 10^6 times as far away.

Run: python benchmarks/export.py [--sections agreement points speed rows] [--points N]
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median

import numpy as np
from common import machine, percent, print_table, train_test
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin as wm
from widemargin.datasets import load_letter, load_usps
from widemargin.export import NotExportable, check_export, to_c, to_onnx
from widemargin.export import agreement as agreement_module
from widemargin.export.agreement import c_answers, code_bytes, compile_header
from widemargin.tangents import ImageTangents

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SECTIONS = ("agreement", "points", "speed", "rows")


def digits() -> tuple:
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    return X[:1200], y[:1200], X[1200:], y[1200:]


def float32(load) -> tuple:
    X, y, X_test, y_test = train_test(load)
    return X.astype(np.float32), y, X_test.astype(np.float32), y_test


def models(shape: tuple | None) -> dict:
    """Every kind of model; those with tangents of the inputs where there are images."""
    several = {"random_state": 0, "prototypes_per_class": 4}
    found = {
        "LVQ": wm.LVQClassifier(**several),
        "margin LVQ": wm.MarginLVQClassifier(**several, max_iter=5),
        "GLVQ": wm.GLVQClassifier(**several),
        "GMLVQ": wm.GMLVQClassifier(random_state=0, max_iter=10),
        "HSS": wm.HSSClassifier(),
        "TVQ": wm.TVQClassifier(max_iter=40),
        "TD-Neuron": wm.TDNeuronClassifier(random_state=0, max_iter=3),
        "max margin": wm.MaxMarginClassifier(max_iter=50, tol=0.1),
        "scaled GLVQ": make_pipeline(StandardScaler(), wm.GLVQClassifier(**several)),
        "rejecting TVQ": wm.RejectingClassifier(
            wm.TVQClassifier(max_iter=40), max_error=0.05, random_state=0
        ),
    }
    if shape is not None:
        tangents = ImageTangents(shape)
        found |= {
            "TVQ, two-sided": wm.TVQClassifier(
                sides="both", tangents=tangents, max_iter=5
            ),
            "SVC, two-sided": wm.TangentSVC(
                tangents=tangents, sides="both", spring=0.1
            ),
            "1-NN, two-sided": wm.TangentKNeighborsClassifier(tangents=tangents),
            "5-NN, mean": wm.TangentKNeighborsClassifier(
                5, tangents=tangents, sides="mean"
            ),
        }
    return found


def agreement() -> None:
    rows = []
    for name, data, shape in (
        ("digits", digits(), (8, 8)),
        ("USPS", float32(load_usps), (16, 16)),
        ("letter", float32(load_letter), None),
    ):
        X, y, X_test, _ = data
        # Every 4th sample and 300 rows where references are kept: minutes, not hours.
        for title, model in models(shape).items():
            keeps = "NN" in title or "SVC" in title
            slow = len(X) > 2000 and (keeps or "two" in title or "margin" in title)
            step = 4 if slow else 1
            model.fit(X[::step].astype(float), y[::step])
            samples = X_test[:300] if keeps and len(X) > 2000 else X_test
            for kind, write in (
                ("ONNX", to_onnx),
                ("C", to_c),
                ("C, int8", lambda model: to_c(model, dtype="int8")),
            ):
                try:
                    exported = write(model)
                except NotExportable:
                    continue
                rows.append([name, title, kind, *compared(model, exported, samples)])
                print(*rows[-1], flush=True)
    print_table(
        "Answers against Python's; error and bound in units of the margin's scale",
        ["data", "model", "as", "rows", "KiB", "differ", "close calls", "these differ",
         "accepted", "margin error"],
        rows,
    )  # fmt: skip


def of_every_kind(n: int, seeds: int) -> None:
    """Compare on n points of every kind; perceptrons of 20 classes for many seeds."""
    from tests.export import models as zoo
    from tests.export import points

    # Many points need a compiler that optimises.
    agreement_module.SANITISERS = ("-O1",)
    asked = [
        (f"{title}, {data}", make(), points.DATA[data])
        for data in points.DATA
        for title, make in points.MODELS.items()
    ]
    asked += [(f"{title}, digits", m(), points.digits) for title, m in zoo.ALL.items()]
    asked += [
        (f"{kind.__name__}, 20 blobs, seed {seed}", kind(random_state=seed), many)
        for kind in (wm.FixedMarginPerceptron, wm.MarginPerceptron)
        for many in [points.DATA["20 blobs"]]
        for seed in range(1, seeds)
    ]
    found: dict = {}
    for title, model, load in asked:
        X, y = load()
        for language, kind, agreement in points.compared(model.fit(X, y), X, n):
            rows = found.setdefault((language, kind), [])
            rows.append(agreement)
            if agreement.n_wrong or agreement.margin_error > 1e-4:
                print(f"{title}, {language}, {kind}: {agreement}", flush=True)
    print_table(
        f"{n} points of every kind: sure labels that differ, close calls, margins",
        ["as", "points", "models", "sure labels differ", "close calls",
         "these differ", "largest margin error"],
        [
            [*key, len(rows), sum(r.n_wrong for r in rows),
             sum(r.n_close for r in rows), sum(r.n_close_differing for r in rows),
             f"{max(r.margin_error for r in rows):.1e}"]
            for key, rows in found.items()
        ],
    )  # fmt: skip


def compared(model, exported, X) -> list:
    found = check_export(model, exported, X)
    raw = exported if isinstance(exported, str) else exported.SerializeToString()
    error = f"{found.margin_error:.1e}"
    if found.bound is not None:
        error += f", bound {found.bound:.1e}"
    return [
        found.n_samples,
        f"{len(raw) / 1024:.0f}",
        f"{found.n_wrong}{'' if found.agrees else ' FAILS'}",
        found.n_close,
        found.n_close_differing,
        ""
        if found.n_accepted is None
        else f"{found.n_accepted} of {found.n_accepted_python}",
        error,
    ]


TIMING = """
#include <stdio.h>
#include <time.h>
#include "model.h"

static float rows[1000][UPPER_FEATURES];

int main(void)
{
  const int n = (int)fread(rows, sizeof rows[0], 1000, stdin);
  float margin, sum = 0;
  int pass, i;
  double best = 1e9;
  for (pass = 0; pass < 200; pass++) {
    const clock_t start = clock();
    double spent;
    for (i = 0; i < n; i++) {
      sum += (float)NAME_predict(rows[i], &margin);
      sum += margin;
    }
    spent = (double)(clock() - start) / CLOCKS_PER_SEC / n;
    best = spent < best ? spent : best;
  }
  printf("%.9f %f\\n", best, sum);
  return 0;
}
"""


def c_seconds(header: str, X: np.ndarray) -> float:
    with tempfile.TemporaryDirectory() as folder:
        program = compile_header(header, TIMING, "model", Path(folder), "-O2")
        out = subprocess.run(
            [str(program)], input=X[:1000].tobytes(), capture_output=True, check=True
        )
    return float(out.stdout.split()[0])


def one_row(function, repeats: int = 2000) -> float:
    """Median seconds of a call, of processor time: others use the cores too."""
    for _ in range(50):
        function()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return median(times)


def speed() -> None:
    import onnxruntime

    X, y, X_test, y_test = digits()
    model = wm.TVQClassifier(max_iter=100).fit(X, y)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        to_onnx(model).SerializeToString(), options, ["CPUExecutionProvider"]
    )
    row = X_test[:1]
    python = one_row(lambda: model.predict(row))
    runtime = one_row(lambda: session.run(["label", "confidence"], {"X": row}))
    print_table(
        "One prediction, TVQ on digits",
        ["what", "µs", "ratio", "bar"],
        [
            ["Python", f"{1e6 * python:.0f}", "1×", ""],
            ["onnxruntime", f"{1e6 * runtime:.0f}", f"{runtime / python:.2f}×",
             "≤ 0.5×"],
        ],
    )  # fmt: skip
    error = percent(model.predict(X_test) != y_test)
    rows = []
    for dtype, bar in (("float32", 30), ("int8", 8)):
        header = to_c(model, dtype=dtype)
        answers = c_answers(header, X_test, model.classes_, None)
        tables = int(header.split("tables of ")[1].split()[0])
        rows.append(
            [
                dtype,
                f"{1e6 * c_seconds(header, X_test):.2f} (≤ 5)",
                f"{tables / 1024:.1f} KiB (≤ {bar})",
                f"{(code_bytes(header) or 0) / 1024:.1f} KiB",
                f"{percent(answers.labels != y_test):.2f} (Python {error:.2f})",
            ]
        )
    print_table(
        "C header, TVQ on digits, gcc -O2 (code: -Os), with bars",
        ["tables", "µs per prediction", "tables", "code", "error, %"],
        rows,
    )


def single_rows() -> None:
    X, y, X_test, _ = digits()
    peer = LogisticRegression(max_iter=200).fit(X, y)
    row = X_test[:1]
    base = one_row(lambda: peer.predict(row))
    rows = [["LogisticRegression", f"{1e6 * base:.0f}", "1×", ""]]
    for model in (wm.GLVQClassifier(random_state=0), wm.TVQClassifier(max_iter=20)):
        model.fit(X, y)
        # In turn, so that a busy machine is busy for both.
        times = [
            (one_row(lambda m=model: m.predict(row), 300),
             one_row(lambda: peer.predict(row), 300))
            for _ in range(5)
        ]  # fmt: skip
        ratio = median(own / other for own, other in times)
        own = median(own for own, _ in times)
        rows.append([type(model).__name__, f"{1e6 * own:.0f}", f"{ratio:.2f}×", "≤ 3×"])
    X, y, X_test, _ = train_test(load_usps)
    for dtype in (np.float32, np.float64):
        knn = wm.TangentKNeighborsClassifier(tangents=ImageTangents((16, 16)))
        knn.fit(X.astype(dtype), y)
        queries = iter(X_test.astype(dtype)[:, None])
        own = one_row(lambda m=knn, q=queries: m.predict(next(q)), 60)
        name = f"TangentKNeighborsClassifier on USPS, {np.dtype(dtype)}"
        rows.append([name, f"{1e6 * own:.0f}", f"{own / base:.0f}×", "≤ 3000 µs"])
    print_table("One row in Python", ["model", "µs", "ratio", "bar"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--points", type=int, default=10_000, help="of every kind")
    parser.add_argument("--seeds", type=int, default=20, help="of perceptrons")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    functions = {
        "agreement": agreement,
        "points": lambda: of_every_kind(given.points, given.seeds),
        "speed": speed,
        "rows": single_rows,
    }
    for section in given.sections:
        functions[section]()


if __name__ == "__main__":
    main()
