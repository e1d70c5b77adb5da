"""All of MNIST on one GPU, against bare products and against the CPU of the machine.

Every row is printed as soon as it is measured; one that fails says so and the rest goes
on. Times on the GPU are the best of three after a first call, synchronised; those of
the CPU of one call, with all its cores. Where 150 passes would take the CPU minutes, a
few are timed and the rest are counted.

A row that falls short of its bar, or fails, makes the exit code an error. `--write`
puts the table into benchmarks/gpu.md, with the commit.

Run: make gpu [DATA=FOLDER] [COMMIT=NAME]             (tests, all rows, the page)
     python benchmarks/gpu.py [--data FOLDER] [--only exact,host] [--profile]
     python benchmarks/gpu.py --device cpu --tiny     (does it run? times mean nothing)
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import sklearn
import torch
from common import data_home
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from widemargin._compute import engines
from widemargin._compute.device import distortion, pairs, search
from widemargin._core import arrays
from widemargin.datasets.digits import read_idx
from widemargin.metrics import TangentMetric
from widemargin.neighbors import TangentDensityClassifier, TangentKNeighborsClassifier
from widemargin.prototypes import GLVQClassifier, TVQClassifier
from widemargin.tangents import (
    Bundle,
    GaussianSmoother,
    ImageTangents,
    image_shifts,
    orthonormalize,
)

PAGE = Path(__file__).with_name("gpu.md")
BEGIN, END = "<!-- written by make gpu -->", "<!-- end -->"
SHAPE, SMOOTHING, SIGMA, SPRING = (28, 28), 0.7, 0.5, 1e-5
NEIGHBOURS = 10


class Bench:
    """The data on both sides, prepared when first asked for."""

    def __init__(self, folder, device, tiny):
        self.device, self.tiny = torch.device(device), tiny
        raw = [
            read_idx(folder / f"{part}-{what}.gz")
            for part in ("train", "t10k")
            for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
        ]
        X, y, X_test, y_test = raw
        if tiny:
            X, y, X_test, y_test = X[:300], y[:300], X_test[:20], y_test[:20]
        self.X, self.X_test = (
            (a.reshape(len(a), -1) / np.float32(255)).astype(np.float32)
            for a in (X, X_test)
        )
        self.y, self.y_test = y.astype(int), y_test.astype(int)
        self._known = {}

    def put(self, array):
        """Return a tensor on the device."""
        return torch.from_numpy(array).to(self.device)

    def once(self, name, make):
        """Return what was made before under this name, or make it."""
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    @property
    def smooth(self):
        """Smoothed samples as NumPy arrays."""

        def make():
            smoother = GaussianSmoother(SHAPE, SMOOTHING).fit(self.X)
            return smoother.transform(self.X), smoother.transform(self.X_test)

        return self.once("smooth", make)

    @property
    def bundles(self):
        """Training and test samples with their frames, on the device."""
        generator = ImageTangents(SHAPE, sigma=SIGMA)
        return self.once(
            "bundles", lambda: [generator.bundle(self.put(a)) for a in self.smooth]
        )

    def forget(self):
        """Give the memory back."""
        self._known.clear()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def synchronize(self):
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def timed(self, function, repeats=3):
        """Best seconds of a few calls after the first, and the answer."""
        answer = function()
        self.synchronize()
        best = np.inf
        for _ in range(1 if self.tiny else repeats):
            start = time.perf_counter()
            answer = function()
            self.synchronize()
            best = min(best, time.perf_counter() - start)
        return best, answer


def clock(function):
    start = time.perf_counter()
    answer = function()
    return time.perf_counter() - start, answer


def profile(bench, name, function):
    """Print what the time of a call is spent by."""
    if bench.device.type != "cuda":
        return
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as record:
        function()
        bench.synchronize()
    events = record.key_averages()
    total = sum(e.self_device_time_total for e in events) / 1e6
    print(f"    profile of {name}: {total:.3f} s on the device")
    events = sorted(events, key=lambda e: -e.self_device_time_total)
    for e in events[:8]:
        print(
            f"      {e.self_device_time_total / 1e6:.3f} s {e.count:6d}× {e.key[:90]}"
        )


def knn(**options):
    return TangentKNeighborsClassifier(
        NEIGHBOURS, tangents=ImageTangents(SHAPE, sigma=SIGMA), spring=SPRING, **options
    )


def bare_products(x, y):
    """Return the products of a two-sided distance and nothing else, by chunks."""
    X = torch.cat([x.points[:, None], x.frames], 1)
    Y = torch.cat([y.points[:, None], y.frames], 1).transpose(0, 1)
    Y = Y.reshape(-1, X.shape[2])
    rows = X.shape[1]
    size = pairs.chunk_size(len(y), rows, rows, X)

    def run():
        for start in range(0, len(X), size):
            X[start : start + size].reshape(-1, X.shape[2]) @ Y.T

    return run


def row_frames(bench):
    """Smoothing, tangents and frames of all images."""
    X = bench.put(np.concatenate([bench.X, bench.X_test]))
    smoother = GaussianSmoother(SHAPE, SMOOTHING).fit(X)
    generator = ImageTangents(SHAPE, sigma=SIGMA)
    seconds, _ = bench.timed(lambda: generator.bundle(smoother.transform(X)))
    return f"{seconds:.3f} s", "≤ 0.3 s", seconds <= 0.3


def finder_of(known, sides="both", n_components=None):
    """Return the search of a bundle whose samples are of one class."""
    codes, metric = np.zeros(len(known), int), TangentMetric(None, sides, SPRING)
    return search.DeviceSearch(known, codes, 1, metric, n_components=n_components)


def row_brute(bench):
    """Brute, 10 neighbours, float32 products, against the bare products."""
    known, asked = bench.bundles
    finder = finder_of(known)
    bare, _ = bench.timed(bare_products(asked, known))
    ours, _ = bench.timed(
        lambda: finder.nearest(asked.points, asked.frames, NEIGHBOURS)
    )
    if bench.profile:
        profile(bench, "brute", lambda: finder.nearest(
            asked.points, asked.frames, NEIGHBOURS))  # fmt: skip
    text = f"{ours:.3f} s, bare {bare:.3f} s: {ours / bare:.3f}×"
    return text, "≤ 1.12×", ours / bare <= 1.12


def row_exact(bench):
    """Exact, 10 neighbours, from tensors: frames of the queries and the search."""
    smooth, asked = map(bench.put, bench.smooth)
    model = knn().fit(smooth, bench.y)
    seconds, (_, indices) = bench.timed(lambda: model.kneighbors(asked))
    known, queries = bench.bundles
    p = 20 if bench.tiny else 128
    finder = finder_of(known, n_components=p)
    alone, (_, found) = bench.timed(
        lambda: finder.nearest(queries.points, queries.frames, NEIGHBOURS)
    )
    if bench.profile:
        profile(bench, "the search", lambda: finder.nearest(
            queries.points, queries.frames, NEIGHBOURS))  # fmt: skip
    same = float((found == indices).double().mean())
    return (
        f"search {alone:.3f} s (p = {p}); kneighbors {seconds:.3f} s; agree {same:.4f}",
        "≤ 0.12 s; ≤ 0.14 s; 1",
        alone <= 0.12 and seconds <= 0.14 and same == 1,
    )


def sets(bench):
    """Three sets, as points and frames on the device: references, then queries."""
    known, asked = bench.bundles
    yield "MNIST", known, asked
    digits = (load_digits().data / 16).astype(np.float32)
    bundle = ImageTangents((8, 8), sigma=SIGMA).bundle(bench.put(digits))
    yield "digits", bundle[:797], bundle[797:]
    # Curves, one of them many times, with frames of other numbers at either end.
    rng = np.random.default_rng(0)
    n = 600 if bench.tiny else 20000
    curves = np.cumsum(rng.normal(size=(n, 96)), axis=1).astype(np.float32)
    curves[100:150] = curves[0]
    ends = []
    for some, n_tangents in ((curves, 5), (curves[:1000] + np.float32(0.1), 3)):
        tangents = rng.normal(size=(len(some), n_tangents, 96)).astype(np.float32)
        ends.append(Bundle(bench.put(some), bench.put(orthonormalize(tangents))))
    yield "curves", *ends


def row_neighbours(bench):
    """Neighbours of 3000 queries of three sets, every `sides`, by brute in float64."""
    found = []
    for name, known, asked in sets(bench):
        asked, wrong, n = asked[:1000], 0, 0
        for sides in ("both", "mean", "query", "reference"):
            finder = finder_of(known, sides, min(128, known.n_features // 2))
            _, there = finder.nearest(asked.points, asked.frames, NEIGHBOURS)
            for start in range(0, len(there), 100):
                rows = slice(start, start + 100)
                d2 = pairs.pair_distances(
                    *(a[rows].double() for a in (asked.points, asked.frames)),
                    *(a.double() for a in (known.points, known.frames)),
                    sides=sides, spring=SPRING,
                )  # fmt: skip
                best = d2.topk(NEIGHBOURS, dim=1, largest=False).values
                ours = d2.gather(1, there[rows])
                # Not another index: some samples are there twice.
                scale = d2.abs().amax(1, keepdim=True)
                wrong += int(((ours - best).abs() > 1e-9 * scale).sum())
                n += best.numel()
        found.append((name, wrong, n))
    text = ", ".join(f"{name} {wrong} of {n}" for name, wrong, n in found)
    return f"{text} differ", "0", all(wrong == 0 for _, wrong, _ in found)


FIRST = """
import sys, time
sys.path[:0] = {path!r}
import torch
from widemargin._compute.progress import observed_by
from contextlib import contextmanager
from types import SimpleNamespace
from widemargin._compute.device.search import DeviceSearch
from widemargin.metrics import TangentMetric

told = []

@contextmanager
def listen(description, total):
    told.append(description)
    yield lambda amount=1: None

torch.manual_seed(0)
points, frames = torch.randn(20000, 200), torch.randn(20000, 7, 200)
frames = torch.linalg.qr(frames.mT)[0].mT.contiguous()
points, frames = points.to("{device}"), frames.to("{device}")

def call():
    start = time.perf_counter()
    known = SimpleNamespace(points=points, frames=frames, is_shared=False)
    codes, metric = torch.zeros(20000).long().numpy(), TangentMetric()
    finder = DeviceSearch(known, codes, 1, metric, n_components=128)
    finder.nearest(points[:500], frames[:500], 10)[0].cpu()
    return time.perf_counter() - start

torch.linalg.eigh(torch.eye(9, device="{device}"))
with observed_by(listen):
    first = call()
print(first, call(), len(told))
"""


def row_first(bench):
    """Time of the first search, its kernels not compiled, and of the next."""
    code = FIRST.format(path=sys.path, device=bench.device)
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"TRITON_CACHE_DIR": folder},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    first, then, told = map(float, ended.stdout.split()[-3:])
    text = f"{first:.1f} s, the next {then:.2f} s; told {told:.0f} times"
    return text, "≤ 5 s; told", first <= 5 and told > 0


def row_host(bench):
    """Fit and predict from NumPy arrays in host memory, transfers included."""
    model = make_pipeline(GaussianSmoother(SHAPE, SMOOTHING), knn(n_jobs=-1))
    labels = bench.y

    def there():
        fitted = clone(model).fit(bench.put(bench.X), labels)
        return fitted.predict(bench.put(bench.X_test)).cpu().numpy()

    ours, answers = bench.timed(there)
    if bench.profile:
        profile(bench, "fit and predict", there)
    warm = clone(model).fit(bench.X[:600], labels[:600])
    warm.predict(bench.X_test[:20])
    cpu, expected = clock(
        lambda: clone(model).fit(bench.X, labels).predict(bench.X_test)
    )
    return (
        f"{ours:.3f} s, {os.cpu_count()} cores {cpu:.1f} s: {cpu / ours:.1f}×; "
        f"{int((answers != expected).sum())} labels differ; errors "
        f"{100 * np.mean(answers != bench.y_test):.2f} %",
        "≤ 0.3 s; ≥ 30×; 0 labels",
        ours <= 0.3 and cpu / ours >= 30 and bool((answers == expected).all()),
    )


def row_density(bench):
    """Densities with 8 shifts of every training image."""
    model = TangentDensityClassifier(
        10.0, tangents=ImageTangents(SHAPE, sigma=SIGMA), spring=SPRING,
        transformations=image_shifts(SHAPE), transform_test=False,
    )  # fmt: skip
    smooth, asked = map(bench.put, bench.smooth)
    bench.synchronize()
    fitting, _ = clock(lambda: (model.fit(smooth, bench.y), bench.synchronize()))
    seconds, answers = bench.timed(lambda: model.predict(asked), repeats=1)
    if bench.profile:
        profile(bench, "densities", lambda: model.predict(asked))
    errors = 100 * np.mean(answers.cpu().numpy() != bench.y_test)
    n = len(model.bundle_)
    return (
        f"{seconds:.2f} s for {len(asked)} × {n}; fit {fitting:.2f} s; "
        f"errors {errors:.2f} %",
        "≤ 2 s",
        seconds <= 2,
    )


def _distortion(bench, window, patch, bar):
    known, asked = map(bench.put, (bench.X, bench.X_test))
    x = distortion.gradient_images(asked, patch, SHAPE, 0.0, -1.0)
    y = distortion.gradient_images(known, patch + window, SHAPE, 0.0, -1.0)

    def run():
        return distortion.distortion_distances(x, y, patch=patch, window=window)

    seconds, _ = bench.timed(run, repeats=1)
    speed = len(x) * len(y) / seconds / 1e6
    text = f"{seconds:.1f} s, {speed:.0f} million pairs/s"
    return text, f"≤ {bar} s", seconds <= bar


def row_distortion(bench):
    """Distortion distances of all pairs, window 2, patch 1."""
    return _distortion(bench, 2, 1, 7)


def row_distortion_wide(bench):
    """Distortion distances of all pairs, window 3, patch 2."""
    return _distortion(bench, 3, 2, 18)


def row_tvq(bench):
    """TVQ 15×1 two-sided, 150 passes."""
    model = TVQClassifier(
        1, 15, sides="both", tangents=ImageTangents(SHAPE, sigma=SIGMA), init="mean",
        spring=SPRING, max_iter=150, tol=0, n_iter_no_change=10**6, theta=0.5,
        random_state=0, n_jobs=-1,
    )  # fmt: skip
    if bench.tiny:
        model.set_params(max_iter=4)
    X, y = bench.smooth[0], bench.y
    there = bench.put(X)
    clone(model).set_params(max_iter=1).fit(there, y)
    bench.synchronize()
    ours, fitted = clock(lambda: clone(model).fit(there, y))
    passes = fitted.n_iter_
    from_hss, best = clock(
        lambda: clone(model).set_params(init="hss", max_iter=10).fit(there, y)
    )
    if bench.profile:
        profile(bench, "10 passes", lambda: clone(model).set_params(
            max_iter=10).fit(there, y))  # fmt: skip
    clone(model).set_params(max_iter=1).fit(X[:500], y[:500])
    one, _ = clock(lambda: clone(model).set_params(max_iter=1).fit(X, y))
    three, _ = clock(lambda: clone(model).set_params(max_iter=3).fit(X, y))
    cpu = one + (three - one) / 2 * (passes - 1)
    answers = fitted.predict(bench.put(bench.smooth[1])).cpu().numpy()
    errors = 100 * np.mean(answers != bench.y_test)
    return (
        f"{ours:.2f} s for {passes} passes; CPU {(three - one) / 2:.2f} s a pass, "
        f"{cpu:.0f} s in all: {cpu / ours:.1f}×; errors {errors:.2f} %; HSS first, "
        f"then {best.n_iter_} passes: {from_hss:.2f} s",
        "≥ 20×",
        cpu / ours >= 20,
    )


def row_agreement(bench):
    """Labels and margins in float64, here and on the CPU."""
    X, X_test = (a.astype(float) for a in bench.smooth)
    some = slice(0, 200)
    found = []
    model = knn(n_jobs=-1).set_params(n_neighbors=1)
    here = clone(model).fit(X, bench.y)
    there = clone(model).fit(bench.put(X), bench.y)
    found.append(("kNN", here, there, some))
    tvq = TVQClassifier(
        1, 15, sides="both", tangents=ImageTangents(SHAPE, sigma=SIGMA), max_iter=3,
        random_state=0, n_jobs=-1,
    )  # fmt: skip
    part = slice(0, 6000)
    here = clone(tvq).fit(X[part], bench.y[part])
    there = clone(tvq).fit(bench.put(X[part]), bench.y[part])
    found.append(("TVQ", here, there, slice(0, 1000)))
    parts, kept = [], True
    for name, here, there, rows in found:
        x, y = X_test[rows], bench.y_test[rows]
        margins = np.abs(
            here.margins(x, y) - there.margins(bench.put(x), y).cpu().numpy()
        ).max()
        labels = here.predict(x) != there.predict(bench.put(x)).cpu().numpy()
        parts.append(f"{name}: {int(labels.sum())} labels, margins {margins:.1e}")
        kept = kept and not labels.any() and margins <= 1e-4
    return "; ".join(parts), "0 labels, 1e-4", kept


def row_glvq(bench):
    """GLVQ, 20 prototypes per class, 50 epochs."""
    model = GLVQClassifier(20, max_iter=50, random_state=0)
    if bench.tiny:
        model.set_params(max_iter=4)
    X, y = bench.X, bench.y
    there = bench.put(X)
    clone(model).set_params(max_iter=1).fit(there, y)
    ours, fitted = clock(lambda: clone(model).fit(there, y))
    # Compiled before, and all of it timed: two epochs would not tell.
    with engines.chosen("engines"):
        clone(model).set_params(max_iter=1).fit(X[:900], y[:900])
    cpu, _ = clock(lambda: clone(model).fit(X, y))
    found = fitted.predict(bench.put(bench.X_test)).cpu().numpy()
    errors = 100 * np.mean(found != bench.y_test)
    return (
        f"{ours:.2f} s, CPU {cpu:.1f} s: {cpu / ours:.1f}×; errors {errors:.2f} %",
        "≥ 2×",
        cpu >= 2 * ours,
    )


ROWS = {
    name.removeprefix("row_"): function
    for name, function in list(globals().items())
    if name.startswith("row_")
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data_home() / "mnist")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    sklearn.set_config(array_api_dispatch=True)
    arrays.EVERY_TENSOR_IS_ON_A_DEVICE = options.device == "cpu"
    # Rows measure kernels, not what torch does while these are compiled; the first
    # search has a process of its own.
    search.FEW_PAIRS = 0
    if options.device == "cpu":
        torch.set_num_threads(1)
    elif not torch.cuda.is_available():
        sys.exit("no GPU: torch.cuda sees none here; try --device cpu --tiny")
    if not (options.data / "train-images-idx3-ubyte.gz").exists():
        sys.exit(f"no MNIST in {options.data}: give its folder by --data, or DATA=")
    bench = Bench(options.data, options.device, options.tiny)
    bench.profile = options.profile
    print(machine(options.device), flush=True)
    table, short = [], []
    for row in options.only.split(","):
        start = time.perf_counter()
        print(f"{row}: {ROWS[row].__doc__}", flush=True)
        try:
            found, bar, kept = ROWS[row](bench)
        except Exception as error:
            traceback.print_exc()
            found, bar, kept = f"failed: {error}".splitlines()[0], "", False
        print(f"    {found}   [{bar}] {'kept' if kept else 'NOT KEPT'}")
        print(f"    ({time.perf_counter() - start:.1f} s in all)", flush=True)
        table.append((ROWS[row].__doc__.rstrip("."), found, bar, kept))
        short += [] if kept else [row]
        if row in ("agreement", "density", "host"):
            bench.forget()
        if options.write:
            write(table, machine(options.device), options.commit or commit())
    if short and not options.tiny:
        sys.exit(f"bars not kept: {', '.join(short)}")


def machine(device):
    """Say what this was measured on."""
    if device == "cpu":
        return f"cpu; torch {torch.__version__}"
    import triton

    return (
        f"{torch.cuda.get_device_name()}; {os.cpu_count()} CPU cores; torch "
        f"{torch.__version__}; Triton {triton.__version__}"
    )


def commit():
    """Name the commit, where there is a repository."""
    asked = ["git", "-C", str(PAGE.parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def write(table, where, name):
    """Put the table into the page, between its marks."""
    lines = [f"`make gpu` at {name or 'an unnamed commit'}: {where}.", ""]
    lines += ["| work | measured | bar | |", "|---|---|---|---|"]
    for work, found, bar, kept in table:
        lines.append(f"| {work} | {found} | {bar} | {'kept' if kept else 'not kept'} |")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text("\n".join([before + BEGIN, "", *lines, "", END + after]))


if __name__ == "__main__":
    main()
