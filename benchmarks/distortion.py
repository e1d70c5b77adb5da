"""Distortion models on the CPU: microseconds a pair, one thread.

The peer is the kernel of commit 0a0f5be, taken from the history of the repository: it
made a pass over the image for each channel and each shift of a patch.

Run: python benchmarks/distortion.py [--pairs 40] [--repeats 8]
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import machine, print_table

from widemargin._compute.distortion import (
    distortion_tile,
    gradient_images,
    lanes_for,
    pseudo_2d_tile,
)

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40, help="images at each end")
    parser.add_argument("--repeats", type=int, default=8)
    options = parser.parse_args()
    print(machine(), flush=True)
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
