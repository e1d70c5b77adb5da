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
from widemargin._compute.machine import held_threads
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


def timed(function):
    """Return the seconds of a call, and what it answers."""
    start = time.perf_counter()
    answer = function()
    return time.perf_counter() - start, answer


def best(function, repeats=3):
    """Shortest of a few times, after one that compiles."""
    function()
    return min(timed(function)[0] for _ in range(repeats))


def sent(dask_worker):
    """Bytes that a worker has given to others and to the client since it was asked."""
    log = dask_worker.transfer_outgoing_log
    total = sum(one["total"] for one in log)
    log.clear()
    return total


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
    options = {"tangents": ImageTangents((8, 8)), "sides": "reference", "n_jobs": 2}
    X, y = held(client, *made_there(n, 4))
    Q, _ = held(client, *made_there(queries, 4))
    asked, parts = Q.compute(), [moved(n // 4, seed) for seed in range(4)]
    whole = [np.concatenate(part) for part in zip(*parts, strict=True)]
    there, here = (TangentKNeighborsClassifier(**options) for _ in range(2))
    fitted = timed(lambda: there.fit(X, y))[0], timed(lambda: here.fit(*whole))[0]
    # What compiles, and shows the scheduler how long a task takes.
    dask.compute(*there.kneighbors(Q[:: max(1, queries // 200)], 3))
    here.kneighbors(asked[:100], 3)
    client.run(sent)
    distant, found = timed(lambda: dask.compute(*there.kneighbors(Q, 3)))
    travelled = sum(client.run(sent).values()) / 1e6
    local, expected = timed(lambda: here.kneighbors(asked, 3))
    same = all(map(np.array_equal, found, expected))
    note = f"bit-identical: {same}; {travelled:.1f} MB travelled; fitted in "
    note += f"{fitted[0]:.1f} s, {fitted[1]:.1f} s here"
    return f"k-NN {n} × {queries}", local, distant, "≤ 1.3", note


def one_pass(client, share):
    n = int(200_000 * share) // 4 * 4
    model = {"prototypes_per_class": 1, "n_tangents": 8, "theta": 0.4, "tol": 0}
    X, y = held(client, *made_there(n, 4, 16))
    few = held(client, *made_there(400, 4, 16))
    parts = [moved(n // 4, seed, 16) for seed in range(4)]
    whole = [np.concatenate(part) for part in zip(*parts, strict=True)]

    def per_pass(data, **options):
        """Median time between the ends of two passes, and what travels in one."""
        times, given, take = [], [], TVQClassifier._set_fitted

        # Not a subclass: cloudpickle sends a class of a script by value, and its
        # methods, once they are read again here, append to another list.
        def watched(self, state):
            times.append(time.perf_counter())
            take(self, state)

        TVQClassifier._set_fitted = watched
        for _ in range(2):
            # The first compiles.
            times.clear()
            client.run(sent)
            TVQClassifier(**model, max_iter=9, **options).fit(*data)
            given.append(sum(client.run(sent).values()) / 1e6)
        TVQClassifier._set_fitted = take
        return float(np.median(np.diff(times)[:-1])), given[-1]

    (distant, travelled), (local, _) = per_pass((X, y)), per_pass(whole, n_jobs=2)
    overhead, least = per_pass(few)
    note = f"overhead {1e3 * overhead:.0f} ms per pass; {travelled:.1f} MB travelled in"
    note += f" a fit, {least:.1f} MB in that of 400 rows"
    return f"a pass of TVQ, {n} × 256", local, distant, "≤ 1.5", note


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
    # What compiles.
    some = slice(None, None, max(1, n // 4000))
    MaxMarginClassifier(C=np.inf).fit(X[some], y[some])
    here.fit(*(part[some] for part in whole))
    distant, _ = timed(lambda: there.fit(X, y))
    local, _ = timed(lambda: here.fit(*whole))
    note = f"gap {there.gap_:.1e} ({here.gap_:.1e} here); margins {there.margin_:.6f},"
    note += f" {here.margin_:.6f} here"
    return f"hard margin, {n} × 50", local, distant, "gap ≤ 1e-3", note


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
