"""How time and memory of every classifier grow with its data; scikit-learn's beside.

One number grows at a time, the others stay: samples, features, classes, prototypes per
class. Each way up is a process of its own on one thread, the child of one that has
imported and compiled. Seconds are those of the processor, of the quicker of two fits;
memory is what the peak of a fit or of a `predict` of 1000 rows lies above its start. A
number doubles until a fit or that `predict` takes ``--most`` seconds. The exponent is
the slope of log time over log number through the last three doublings, of memory too: 1
is linear, 2 quadratic, 0 constant.

Classes are Gaussian, alike in all features but five, and overlap; estimators have their
defaults, and those that take others a GLVQ.
"""

import argparse
import ctypes
import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import widemargin

# What stays while another grows, and where that one begins and ends.
STAYS = {"samples": 2000, "features": 20, "classes": 5}
LADDERS = {"samples": (500, 128_000), "features": (10, 2560), "classes": (2, 256),
           "prototypes": (1, 128)}  # fmt: skip
ASKED = 1000
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
# The clock of the processor ticks every 4 ms; less than a mebibyte is of no matter.
LONG_ENOUGH, BYTES = 0.04, 2**20
THEIRS = {
    "SVC (scikit-learn)": SVC,
    "KNeighborsClassifier (scikit-learn)": KNeighborsClassifier,
    "LogisticRegression (scikit-learn)": partial(LogisticRegression, max_iter=200),
    "RandomForestClassifier (scikit-learn)": partial(
        RandomForestClassifier, random_state=0
    ),
}
squares = partial(pairwise_distances, metric="sqeuclidean")


def make(name: str, prototypes: int | None = None) -> Any:
    """Return an estimator of this name with its defaults."""
    if name in THEIRS:
        return THEIRS[name]()
    glvq = widemargin.GLVQClassifier(random_state=0)
    needs: dict[str, dict[str, Any]] = {
        "ConformalClassifier": {"estimator": glvq},
        "MarginReweightingClassifier": {"estimator": glvq},
        "ProductClassifier": {"estimators": [("a", glvq), ("b", LogisticRegression())]},
        "RejectingClassifier": {"estimator": glvq, "coverage": 0.8},
        "RelationalLVQClassifier": {"metric": squares},
    }
    model = getattr(widemargin, name)(**needs.get(name, {}))
    given = {"random_state": 0, "prototypes_per_class": prototypes}
    known = model.get_params(deep=False)
    return model.set_params(
        **{k: v for k, v in given.items() if k in known and v is not None}
    )


def draw(n: int, n_features: int, n_classes: int, seed: int = 0) -> tuple:
    """Return samples of overlapping Gaussian classes; all seeds have one law."""
    law, rng = np.random.default_rng(0), np.random.default_rng([1, seed])
    centres = np.zeros((n_classes, n_features))
    centres[:, :5] = 2.5 * law.normal(size=(n_classes, 5)) * n_classes**0.2
    y = rng.permutation(np.arange(n) % n_classes)
    return centres[y] + rng.normal(size=(n, n_features)), y


def memory(field: str) -> int:
    """Bytes in VmRSS or VmHWM, of now or of the peak."""
    with open("/proc/self/status") as status:
        return 1024 * int(re.search(rf"{field}:\s+(\d+)", status.read())[1])


def watched(call: Callable[[], Any]) -> tuple[float, int]:
    """Seconds of the processor, and bytes that the peak lies above the start."""
    gc.collect()
    # What earlier calls have freed is given back, so that it counts again.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    start, before, turns = memory("VmRSS"), time.process_time(), 1
    call()
    above = memory("VmHWM") - start
    while (spent := time.process_time() - before) < LONG_ENOUGH and turns < 100:
        call()
        turns += 1
    return spent / turns, above


def measure(name: str, axis: str, number: int) -> tuple:
    """Seconds and bytes of a fit, and of 1000 answers."""
    sizes = dict(STAYS)
    if axis in sizes:
        sizes[axis] = number
    X, y = draw(sizes["samples"], sizes["features"], sizes["classes"])
    Q, _ = draw(ASKED, sizes["features"], sizes["classes"], seed=1)
    model = make(name, number if axis == "prototypes" else None)
    # A first fit of this size may load and compile what smaller ones do without.
    fits = [watched(lambda: model.fit(X, y)) for _ in range(2)]
    model.predict(Q[:2])
    return *map(min, zip(*fits, strict=True)), *watched(lambda: model.predict(Q))


def ladder(name: str, axis: str, most: float, last: int | None) -> None:
    """Print axis, number, fit seconds, bytes, predict seconds, bytes, line by line."""
    number = LADDERS[axis][0]
    spent = (0.0, 0, 0.0, 0)
    while number <= (last or LADDERS[axis][1]) and max(spent[0], spent[2]) <= most:
        # The process ends where a fit takes many times what the one before it took.
        signal.setitimer(signal.ITIMER_PROF, max(8 * most, 4))
        spent = measure(name, axis, number)
        print(json.dumps([axis, number, *spent]), flush=True)
        number *= 2


def ladders(name: str, axes: list[str], most: float, last: int | None) -> None:
    """Compile once, and climb every ladder in a child of its own."""
    X, y = draw(*STAYS.values())
    make(name).fit(X, y).predict(X)
    for axis in axes:
        if name not in names_for(axis):
            continue
        if not (child := os.fork()):
            ladder(name, axis, most, last)
            os._exit(0)
        os.waitpid(child, 0)


def climb(name: str, axes: list[str], most: float, last: int | None) -> list[list]:
    """Return what `ladders` prints in a process of its own."""
    command = [sys.executable, __file__, "--axis", *axes, "--only", name]
    command += ["--most", str(most), "--ladder"]
    command += ["--last", str(last)] if last else []
    done = subprocess.run(
        command, env=os.environ | ONE_THREAD, capture_output=True, text=True
    )
    if done.stderr:
        print(f"{name}: {done.stderr[-300:]}", file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def exponent(numbers: Any, values: Any, least: float) -> float:
    """Slope in logarithms through the last four values that are above `least`."""
    kept = [(n, v) for n, v in zip(numbers, values, strict=True) if v > least][-4:]
    if len(kept) < 2:
        return float("nan")
    n, v = np.log(np.array(kept, float)).T
    return float(np.polyfit(n, v, 1)[0])


def told(name: str, rows: list[tuple]) -> list[str]:
    """Return a row of the table: the largest number, and the way up to it."""
    if not rows:
        return [name, *"–" * 9]
    numbers, fit, fit_bytes, asked, asked_bytes = zip(*rows, strict=True)
    cells = [name, str(numbers[-1]), f"{fit[-1]:.3f}"]

    def slope(values: Any, least: float) -> str:
        value = exponent(numbers, values, least)
        return "–" if np.isnan(value) else f"{value:.1f}"

    cells += [slope(fit, 0), f"{fit_bytes[-1] / 2**20:.0f}"]
    cells += [slope(fit_bytes, BYTES), f"{1000 * asked[-1]:.1f}", slope(asked, 0)]
    return [*cells, f"{asked_bytes[-1] / 2**20:.0f}", slope(asked_bytes, BYTES)]


def names_for(axis: str) -> list[str]:
    """Return the classifiers that have such a number."""
    if axis != "prototypes":
        return [*sorted(widemargin._ESTIMATORS), *THEIRS]
    every = {name: make(name) for name in sorted(widemargin._ESTIMATORS)}
    return [n for n, m in every.items() if hasattr(m, "prototypes_per_class")]


def main() -> None:
    """Print one table per number that grows."""
    from common import machine, print_table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, default=1.5, metavar="SECONDS",
                        help="a fit that takes longer is the last")  # fmt: skip
    parser.add_argument("--axis", choices=LADDERS, nargs="*", default=[*LADDERS])
    parser.add_argument("--only", default="", help="pattern of the names")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--last", type=int, default=None, help="the largest number")
    parser.add_argument("--ladder", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.ladder:
        ladders(args.only, args.axis, args.most, args.last)
        return
    begun = time.time()
    print(machine())
    header = ["classifier", "largest", "fit s", "^", "fit MiB", "^", "predict ms", "^",
              "predict MiB", "^"]  # fmt: skip
    every = {name for axis in args.axis for name in names_for(axis)}
    asked = sorted(name for name in every if re.search(args.only, name))
    way = partial(climb, axes=args.axis, most=args.most, last=args.last)
    with ThreadPoolExecutor(args.jobs) as pool:
        climbed = dict(zip(asked, pool.map(way, asked), strict=True))
    for axis in args.axis:
        rows = [
            told(name, [tuple(row[1:]) for row in climbed[name] if row[0] == axis])
            for name in names_for(axis)
            if name in climbed
        ]
        others = ", ".join(f"{v} {k}" for k, v in STAYS.items() if k != axis)
        print_table(f"### {axis.capitalize()} ({others})", header, rows)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime
    print(f"\n{time.time() - begun:.0f} s, {spent:.0f} s of the processor")


if __name__ == "__main__":
    main()
