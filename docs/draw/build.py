"""Build the page to draw on: two exported models and all that runs them in a browser.

Fits TVQ and two-sided nearest neighbours on scikit-learn's digits, each around by a
classifier that refuses, exports them to ONNX, checks the export, and puts them beside
the page and onnxruntime-web, which npm brings. The folder that comes out needs a server
of files and nothing else:

    python docs/draw/build.py            # into docs/draw_site/draw
    python -m http.server -d docs/draw_site
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from widemargin import RejectingClassifier, TangentKNeighborsClassifier, TVQClassifier
from widemargin.export import check_export, to_onnx
from widemargin.metrics import tangent_distances
from widemargin.tangents import ImageTangents

HERE = Path(__file__).parent
SHAPE = (8, 8)
# Learned by TVQ, and remembered as neighbours: as many as answer within 30 ms.
N_LEARNED, N_REMEMBERED = 1200, 800
MAX_ERROR, LIKE_A_DIGIT = 0.02, 0.98
RUNTIME = (
    "ort.wasm.min.mjs",
    "ort-wasm-simd-threaded.mjs",
    "ort-wasm-simd-threaded.wasm",
)


def fit(estimator, n_learned, X, y):
    """Return a classifier that refuses where its answers would be wrong too often.

    The digits stand in the order of their writers: the last ones are by others than
    those whose digits were learned, as whoever draws on the page is.
    """
    estimator.fit(X[:n_learned], y[:n_learned])
    refusing = RejectingClassifier(estimator, max_error=MAX_ERROR, cv="prefit")
    return refusing.fit(X[N_LEARNED:], y[N_LEARNED:])


def distances(tvq, X):
    """How far samples are from the nearest model, bent."""
    found = tangent_distances(
        X, tvq.prototypes_, Y_tangents=tvq.tangents_, sides="y", squared=False
    )
    return found.min(axis=1)


def build_models(out):
    """Write both models, and what the page draws of TVQ's."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    tvq = TVQClassifier(2, n_tangents=7, max_iter=80, random_state=0)
    knn = TangentKNeighborsClassifier(tangents=ImageTangents(shape=SHAPE))
    models = {"tvq": fit(tvq, N_LEARNED, X, y), "knn": fit(knn, N_REMEMBERED, X, y)}
    page = {"shape": SHAPE, "classes": [str(label) for label in np.unique(y)]}
    for name, model in models.items():
        graph = to_onnx(model)
        agreement = check_export(model, graph, X[:200])
        if not agreement.agrees:
            raise SystemExit(f"{name}: the exported model disagrees: {agreement}")
        (out / f"{name}.onnx").write_bytes(graph.SerializeToString())
        page[name] = {
            "threshold": float(model.threshold_),
            "coverage": float(model.coverage_),
            "maxError": MAX_ERROR,
        }
        print(f"{name}: {agreement}; refuses below {model.threshold_:.3f}")
    tvq = models["tvq"].estimator_
    page["models"] = [
        {
            "label": str(label),
            "centre": np.round(centre.astype(float), 4).tolist(),
            "frame": np.round(frame.astype(float), 4).tolist(),
        }
        for label, centre, frame in zip(
            tvq.prototype_labels_, tvq.prototypes_, tvq.tangents_, strict=True
        )
    ]
    # What is farther from every model than nearly all digits of others is no digit.
    page["limit"] = float(np.quantile(distances(tvq, X[N_LEARNED:]), LIKE_A_DIGIT))
    (out / "models.json").write_text(json.dumps(page))


def bring_runtime(out, given=None):
    """Copy onnxruntime-web from a folder that has it, else from npm's."""
    if given is None and shutil.which("npm") is None:
        raise SystemExit("npm is needed to bring onnxruntime-web; install Node.js")
    with tempfile.TemporaryDirectory() as folder:
        dist = given
        if dist is None:
            subprocess.run(
                ["npm", "install", "--no-save", "--no-package-lock", "--no-audit",
                 "--ignore-scripts", "--silent", "--prefix", folder, "onnxruntime-web"],
                check=True,
            )  # fmt: skip
            dist = Path(folder, "node_modules", "onnxruntime-web", "dist")
        (out / "ort").mkdir(exist_ok=True)
        for name in RUNTIME:
            shutil.copy(Path(dist, name), out / "ort" / name)


def main():
    """Build everything into one folder."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE.parent / "draw_site" / "draw")
    parser.add_argument("--runtime", type=Path, help="folder with onnxruntime-web")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in ("index.html", "draw.css", "draw.js"):
        shutil.copy(HERE / name, options.out / name)
    build_models(options.out)
    bring_runtime(options.out, options.runtime)
    print(f"Built: {options.out}")


if __name__ == "__main__":
    main()
