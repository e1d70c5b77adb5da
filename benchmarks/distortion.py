"""Distortion models on the CPU: microseconds a pair, and where to find the nearest.

The peer of the speed is the kernel of commit 0a0f5be, taken from the history of the
repository: it made a pass over the image for each channel and each shift of a patch.

--recall asks on MNIST's training set, a sixth of whose writers is held out, how often
the nearest in distortion distance is among the nearest in pixels and in direction
features. --mnist times all test images on their candidates, with errors; parameters are
those of the defaults, nothing is chosen there.

Run: python benchmarks/distortion.py [--pairs 40] [--repeats 8]
     python benchmarks/distortion.py --recall [--asked 300] [--jobs 2]
     python benchmarks/distortion.py --mnist [--test 10000] [--candidates 200]
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from common import data_folder, machine, percent, print_table, seconds, train_test

from widemargin._compute.distortion import (
    distortion_tile,
    gradient_images,
    lanes_for,
    pseudo_2d_tile,
)
from widemargin.datasets import load_mnist
from widemargin.datasets.digits import read_idx
from widemargin.metrics import image_distortion_distances
from widemargin.neighbors import TangentKNeighborsClassifier
from widemargin.neighbors.index import FeatureCandidates
from widemargin.tangents import Bundle, DirectionFeatures

SHAPE = (28, 28)
WRITERS = "qmnist-labels/qmnist-train-labels-idx2-int.gz"
COUNTS = (50, 200, 500)
METRICS = {
    "Sobel gradients": {},
    "normalised, penalty 0.033": {"gradients": "normalised", "penalty": 0.033},
}
PEER = "0a0f5be:src/widemargin/_compute/distortion.py"
CASES = [(28, 2, 1), (28, 3, 2), (16, 2, 1)]


def old_kernel(folder):
    """Import the old kernel from a file of its own."""
    root = Path(__file__).resolve().parents[1]
    found = subprocess.run(
        ["git", "show", PEER], cwd=root, capture_output=True, text=True, check=False
    )
    if found.returncode:
        sys.exit(f"the peer, {PEER}, is not in the history: {found.stderr.strip()}")
    file = Path(folder) / "old_distortion.py"
    file.write_text(found.stdout)
    spec = importlib.util.spec_from_file_location("old_distortion", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.distortion_tile


def least_times(functions, repeats, n_pairs):
    """Least microseconds a pair of each, in turn; of this thread, whatever the load."""
    times = np.full((repeats, len(functions)), np.inf)
    for function in functions:
        function()
    for row in times:
        for k, function in enumerate(functions):
            start = time.thread_time()
            function()
            row[k] = time.thread_time() - start
    return 1e6 * times.min(axis=0) / n_pairs


def case(side, window, patch, old, n, repeats):
    """Return times of the old kernel, ours and the pseudo two-dimensional model."""
    X, Y = np.random.default_rng(0).random((2, n, side * side)).astype(np.float32)
    shape = (side, side)
    lanes = (0,) * lanes_for(side, patch)
    patches, moves = (0,) * (2 * patch + 1), (0,) * (2 * window + 1)

    def images(Z, pad, more=0):
        return gradient_images(Z, shape, pad, 0.0, -1.0, more)

    x, y = images(X, patch, len(lanes)), images(Y, patch + window, len(lanes))
    far = images(Y, patch + window + 1, len(lanes))
    rows = images(X, patch).reshape(n, 2, side + 2 * patch, -1)
    rows = np.pad(rows, ((0, 0), (0, 0), (0, 0), (0, 2 * window))).reshape(n, 2, -1)
    rows, plain = np.ascontiguousarray(rows), images(Y, patch + window)
    one, two, three = np.empty((3, n, n), np.float32)
    times = least_times(
        [
            lambda: old(rows, plain, side, side, patch, window, one),
            lambda: distortion_tile(x, y, shape, window, 0.0, patches, lanes, two),
            lambda: pseudo_2d_tile(x, far, shape, window, patches, moves, lanes, three),
        ],
        repeats,
        n * n,
    )
    np.testing.assert_allclose(two, one, rtol=1e-5)
    return times


def recall(options):
    """Share of nearest references found among the first few by other distances."""
    X = train_test(load_mnist)[0].astype(np.float32)
    held = held_out_writers()
    random = np.random.default_rng(0)
    asked = random.permutation(np.flatnonzero(held))[: options.asked]
    known, queries = X[~held], X[asked]
    metric = partial(image_distortion_distances, shape=SHAPE, n_jobs=options.jobs)
    rows = []
    for what, settings in METRICS.items():
        true = metric(queries, known, **settings).argmin(axis=1)
        for name, transform in (
            ("pixels", None),
            ("direction features", DirectionFeatures(SHAPE).fit(known)),
        ):
            most = FeatureCandidates(transform, known, max(COUNTS))
            shares = []
            for count in COUNTS:
                most.n_candidates = count
                near = most.candidates(Bundle(queries, queries[:, None][:, :0]))
                shares.append(f"{percent((near == true[:, None]).any(axis=1)):.1f} %")
            rows.append((what, name, *shares))
    header = ("metric", "candidates by", *(f"first {count}" for count in COUNTS))
    title = f"MNIST, {len(asked)} images of held-out writers, {len(known)} references"
    print_table(title, header, rows)


def held_out_writers():
    """Training images of a sixth of the writers."""
    by = read_idx(data_folder() / WRITERS)[:, 2]
    everyone = np.unique(by)
    some = np.random.default_rng(0).choice(everyone, len(everyone) // 6, replace=False)
    return np.isin(by, some)


def mnist(options):
    """All test images on candidates by direction features: seconds and errors."""
    X, y, X_test, y_test = train_test(load_mnist)
    X, X_test = X.astype(np.float32), X_test[: options.test].astype(np.float32)
    rows = []
    for what, settings in METRICS.items():
        knn = TangentKNeighborsClassifier(
            metric=partial(image_distortion_distances, shape=SHAPE, **settings),
            algorithm="rerank",
            n_candidates=options.candidates,
            candidate_transform=DirectionFeatures(SHAPE),
            n_jobs=options.jobs,
        )
        fitting = seconds(partial(knn.fit, X, y))
        start, busy = time.perf_counter(), time.process_time()
        wrong = knn.predict(X_test) != y_test[: options.test]
        took = time.perf_counter() - start
        # Of a machine that others use too, the clock says little.
        busy = (time.process_time() - busy) / options.jobs
        seconds_of = (f"{t:.0f} s" for t in (fitting, took, busy))
        rows.append((what, *seconds_of, "≤ 150 s", f"{percent(wrong):.2f} %"))
    among = f"1-NN among {options.candidates} candidates, {options.jobs} threads"
    header = ("metric", "fit", "predict", "CPU per thread", "bar", "error")
    print_table(f"MNIST, {len(X_test)} images, {among}", header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40, help="images at each end")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--recall", action="store_true", help="of candidates")
    parser.add_argument("--asked", type=int, default=300, help="images for --recall")
    parser.add_argument("--mnist", action="store_true", help="time and errors")
    parser.add_argument("--test", type=int, default=10_000, help="images for --mnist")
    parser.add_argument("--candidates", type=int, default=200, help="for --mnist")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(machine(), flush=True)
    if options.recall or options.mnist:
        (recall if options.recall else mnist)(options)
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        old = old_kernel(folder)
        for side, window, patch in CASES:
            times = case(side, window, patch, old, options.pairs, options.repeats)
            before, after, pseudo = times
            what = f"{side}², window {window}, patch {patch}"
            ratio = f"{before / after:.1f}×"
            rows.append(
                (what, f"{before:.1f}", f"{after:.1f}", ratio, "3×", f"{pseudo:.1f}")
            )
    header = ("µs a pair", "commit 0a0f5be", "now", "ratio", "aim", "pseudo 2-D")
    print_table("Distortion models, float32, one thread", header, rows)


if __name__ == "__main__":
    main()
