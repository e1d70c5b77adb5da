"""What two worker processes of one thread do beside one process with two threads.

    python benchmarks/cluster.py [--share 0.1] [predict neighbours passes memory margin]

Digits of scikit-learn, moved by random shifts, on a LocalCluster of two workers. With
--share all numbers of rows are that part of those in the table.
"""

import argparse
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import psutil
from common import machine, print_table
from dask.distributed import Client, LocalCluster, wait
from sklearn.datasets import load_digits

from widemargin import (
    MaxMarginClassifier,
    TangentKNeighborsClassifier,
    TVQClassifier,
)
from widemargin._compute.threads import held_threads
from widemargin.tangents import ImageTangents

DIGITS, LABELS = load_digits(return_X_y=True)


def moved(n, seed, side=8):
    """Make n digits, each shifted by up to a pixel, and in images of other sizes."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(DIGITS), size=n)
    images = (DIGITS[rows] / 16).astype(np.float32).reshape(n, 8, 8)
    shifts = rng.uniform(-1, 1, size=(n, 2, 1, 1)).astype(np.float32)
    for axis in (1, 2):
        t = shifts[:, axis - 1]
        neighbours = np.roll(images, 1, axis), np.roll(images, -1, axis)
        images = (1 - np.abs(t)) * images + np.abs(t) * np.where(t > 0, *neighbours)
    images = images.repeat(side // 8, axis=1).repeat(side // 8, axis=2)
    noise = rng.normal(scale=0.02, size=(n, side * side)).astype(np.float32)
    return images.reshape(n, -1) + noise, LABELS[rows]


def made_there(n, n_blocks, side=8):
    """Return the same as lazy arrays: every block is made by a worker."""
    size, make = n // n_blocks, dask.delayed(moved, nout=2)
    parts = [make(size, seed, side) for seed in range(n_blocks)]
    X = [da.from_delayed(x, (size, side * side), np.float32) for x, _ in parts]
    y = [da.from_delayed(labels, (size,), np.int64) for _, labels in parts]
    return da.concatenate(X), da.concatenate(y)


def held(client, *arrays):
    """Return arrays that the workers hold."""
    arrays = client.persist(arrays)
    wait(arrays)
    return arrays


def best(function, repeats=3):
    """Shortest of a few times, after one that compiles."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def predict(client, share):
    n = int(1_000_000 * share) // 20 * 20
    model = TVQClassifier(1, 8, max_iter=10, n_jobs=2).fit(*moved(2000, 99))
    X, _ = held(client, *made_there(n, 20))
    there = best(lambda: model.predict(X).compute())
    here = np.concatenate([moved(n // 20, seed)[0] for seed in range(20)])
    local = best(lambda: model.predict(here))
    same = np.array_equal(model.predict(X).compute(), model.predict(here))
    bar = "≤ 1.25"
    return f"predict {n} digits by TVQ", local, there, bar, f"labels equal: {same}"


def neighbours(client, share):
    n, queries = int(200_000 * share) // 4 * 4, int(10_000 * share) // 4 * 4
    options = {"tangents": ImageTangents((8, 8)), "sides": "y", "n_jobs": 2}
    X, y = held(client, *made_there(n, 4))
    Q, _ = held(client, *made_there(queries, 4))
    there = TangentKNeighborsClassifier(**options | {"n_jobs": 1}).fit(X, y)
    distant = best(lambda: dask.compute(*there.kneighbors(Q, 3)), 1)
    parts = [moved(n // 4, seed) for seed in range(4)]
    here = TangentKNeighborsClassifier(**options).fit(
        *(np.concatenate(part) for part in zip(*parts, strict=True))
    )
    asked = Q.compute()
    local = best(lambda: here.kneighbors(asked, 3), 1)
    answers = zip(
        dask.compute(*there.kneighbors(Q, 3)), here.kneighbors(asked, 3), strict=True
    )
    same = all(np.array_equal(one, other) for one, other in answers)
    what = f"k-NN {n} × {queries}"
    return what, local, distant, "≤ 1.3", f"bit-identical: {same}"


def one_pass(client, share):
    n = int(200_000 * share) // 4 * 4
    model = {"prototypes_per_class": 1, "n_tangents": 8, "theta": 0.4, "tol": 0}
    X, y = held(client, *made_there(n, 4, 16))
    few = held(client, *made_there(400, 4, 16))
    parts = [moved(n // 4, seed, 16) for seed in range(4)]
    whole = [np.concatenate(part) for part in zip(*parts, strict=True)]

    def per_pass(data, **options):
        """Median time between the ends of two passes."""
        times, take = [], TVQClassifier._take

        def timed(self, state):
            times.append(time.perf_counter())
            take(self, state)

        TVQClassifier._take = timed
        for _ in range(2):
            # The first compiles.
            times.clear()
            TVQClassifier(**model, max_iter=9, **options).fit(*data)
        TVQClassifier._take = take
        return float(np.median(np.diff(times)[:-1]))

    distant, local = per_pass((X, y)), per_pass(whole, n_jobs=2)
    overhead = f"overhead {1e3 * per_pass(few):.0f} ms per pass"
    return f"a pass of TVQ, {n} × 256", local, distant, "≤ 1.5", overhead


def peak():
    """Most memory a process has had; the parent's is not counted, as rusage would."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if "VmHWM" in line) / 1024


def memory(share):
    rows = []
    for factor in (1, 4):
        n = int(250_000 * share) * factor
        with workers() as cluster, Client(cluster) as client:
            model = TVQClassifier(1, 8, max_iter=3).fit(*moved(2000, 99))
            before = psutil.Process().memory_info().rss / 2**20
            X, y = made_there(n, 10 * factor)
            model.score(X, y)
            model.confidence(X).mean().compute()
            grown = psutil.Process().memory_info().rss / 2**20 - before
            rows.append((n, f"{grown:.0f}", f"{max(client.run(peak).values()):.0f}"))
    ratio = float(rows[1][2]) / float(rows[0][2])
    rows.append(("ratio", "", f"{ratio:.2f} (bar 1 ± 0.15)"))
    title = "predict and score, made on the workers and not kept"
    print_table(title, ("rows", "client grows by, MB", "peak of a worker, MB"), rows)


def block(n, seed, d=50):
    """Make two classes that a plane parts, with a margin of about a tenth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    normal = np.ones(d) / np.sqrt(d)
    side = X @ normal
    X += np.outer(np.sign(side) * 0.1, normal)
    return X, (side > 0).astype(int)


def margin(client, share):
    n = int(1_000_000 * share) // 8 * 8
    make = dask.delayed(block, nout=2)
    parts = [make(n // 8, seed) for seed in range(8)]
    X = da.concatenate([da.from_delayed(x, (n // 8, 50), float) for x, _ in parts])
    y = da.concatenate([da.from_delayed(s, (n // 8,), int) for _, s in parts])
    X, y = held(client, X, y)
    blocks = (block(n // 8, seed) for seed in range(8))
    whole = [np.concatenate(part) for part in zip(*blocks, strict=True)]
    there, here = (MaxMarginClassifier(C=np.inf, random_state=0) for _ in range(2))
    distant, local = best(lambda: there.fit(X, y), 1), best(lambda: here.fit(*whole), 1)
    both = f"margins {there.margin_:.6f}, {here.margin_:.6f} here"
    return (
        f"hard margin, {n} × 50",
        local,
        distant,
        "gap ≤ 1e-3",
        (f"gap {there.gap_:.1e} ({here.gap_:.1e} here); {both}"),
    )


def workers():
    return LocalCluster(2, threads_per_worker=1, dashboard_address=":0", memory_limit=0)


PARTS = {
    "predict": predict,
    "neighbours": neighbours,
    "passes": one_pass,
    "margin": margin,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[*PARTS, "memory"])
    parser.add_argument("--share", type=float, default=1.0)
    asked = parser.parse_args()
    print(machine(), f"load {psutil.getloadavg()[0]:.1f}", sep="; ")
    rows = []
    with workers() as cluster, Client(cluster) as client, held_threads(2):
        for name in asked.parts:
            if name in PARTS:
                what, local, there, bar, note = PARTS[name](client, asked.share)
                ratio = f"{there / local:.2f}"
                rows.append((what, f"{local:.3g}", f"{there:.3g}", ratio, bar, note))
                print(*rows[-1], f"load {psutil.getloadavg()[0]:.1f}", flush=True)
    header = ("work", "two threads, s", "two workers, s", "ratio", "bar", "")
    print_table("Two workers beside two threads", header, rows)
    if "memory" in asked.parts:
        memory(asked.share)
