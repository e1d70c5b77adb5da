"""What every benchmark needs: the data folder, medians, a table, the machine."""

import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np


def data_home() -> Path:
    """Where the reference data should be: WIDEMARGIN_DATA, or ../shared/data."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("WIDEMARGIN_DATA", beside))


def data_folder() -> Path:
    """Folder of the reference data; ends the benchmark where it is absent."""
    folder = data_home()
    if not folder.is_dir():
        sys.exit(
            "benchmark data not found: set WIDEMARGIN_DATA to a folder laid out as "
            "benchmarks/README.md says"
        )
    return folder


def train_test(load: Callable) -> tuple:
    """X_train, y_train, X_test, y_test of a loader of widemargin.datasets."""
    options = {
        "data_home": data_folder(),
        "download_if_missing": False,
        "return_X_y": True,
    }
    return *load(subset="train", **options), *load(subset="test", **options)


def seconds(function: Callable[[], object]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alternate(functions: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Median seconds of each function, called in turn so that drift hits all alike."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for record, function in zip(times, functions, strict=True):
            record.append(seconds(function))
    return [median(record) for record in times]


def percent(wrong) -> float:
    """Share of True, in per cent."""
    return 100 * float(sum(wrong.ravel()) / wrong.size)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence]) -> None:
    """Print a Markdown table, aligned."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[c]) for row in cells) for c in range(len(header))]
    lines = [
        "| " + " | ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    print(f"\n{title}\n", *lines, sep="\n", flush=True)


def machine() -> str:
    """One line about what this ran on."""
    import numba
    import numpy
    import sklearn
    from threadpoolctl import threadpool_info

    blas = sorted(
        {
            f"{pool['internal_api']} {pool['version']} ({pool.get('architecture')})"
            for pool in threadpool_info()
            if pool["user_api"] == "blas"
        }
    )
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, numpy {numpy.__version__}, numba "
        f"{numba.__version__}, scikit-learn {sklearn.__version__}, {', '.join(blas)}"
    )


def calibration_error(P, right, n_bins=15):
    """Return the expected calibration error of the likeliest class, in equal bins."""
    top = P.max(axis=1)
    bins = np.minimum((top * n_bins).astype(int), n_bins - 1)
    gaps = [abs(np.sum((right - top)[bins == b])) for b in range(n_bins)]
    return sum(gaps) / len(top)
