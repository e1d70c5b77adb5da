"""``widemargin doctor``: what this machine gives the library to work with."""

import json
import os
import platform
import time
from importlib import metadata
from importlib.util import find_spec

import joblib
from rich.table import Table
from threadpoolctl import threadpool_info

import widemargin
from widemargin._compute.machine import available_bytes
from widemargin.cli import console

PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl"),
    *("matplotlib", "typer", "rich", "skops", "pooch", "pyarrow", "pillow", "torch"),
)


def findings() -> list[tuple[str, str]]:
    """Return everything that is shown, as (what, value)."""
    rows = [
        ("widemargin", widemargin.__version__),
        ("Python", f"{platform.python_version()} on {platform.platform()}"),
        *((name, _version(name)) for name in PACKAGES),
        *_thread_pools(),
        ("CPUs", f"{os.cpu_count()}, {joblib.cpu_count()} usable"),
        ("memory", f"{available_bytes() / 2**30:.1f} GiB can be had"),
        ("GPU", _gpu()),
        ("numba cache", _numba_cache()),
        ("first kernel", _kernel_seconds()),
        ("data folder", _data_folder()),
    ]
    return rows


def run(as_json: bool) -> None:
    """Print the findings."""
    if as_json:
        print(json.dumps(dict(findings())))
        return
    table = Table(show_header=False, box=None)
    for what, value in findings():
        table.add_row(what, value)
    console().print(table)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _thread_pools() -> list[tuple[str, str]]:
    import scipy.linalg  # noqa: F401  loads its BLAS, so that it is listed

    return [
        (
            str(pool["user_api"]).upper(),
            f"{pool['internal_api']} {pool.get('version') or ''}, "
            f"{pool['num_threads']} threads",
        )
        for pool in threadpool_info()
    ]


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return "not looked for: pip install 'widemargin[gpu]' brings torch"
    if not torch.cuda.is_available():
        return f"none that torch {torch.__version__} can use"
    free, total = torch.cuda.mem_get_info()
    kernels = "Triton" if find_spec("triton") else "no Triton: plain torch kernels"
    return (
        f"{torch.cuda.get_device_name()}, {free / 2**30:.1f} GiB free of "
        f"{total / 2**30:.1f}, {kernels}"
    )


def _numba_cache() -> str:
    from widemargin._compute.compiled import dot

    folder = dot._cache.cache_path
    if folder is None:
        return (
            "nowhere to write: every start compiles; set NUMBA_CACHE_DIR to a "
            "writable folder"
        )
    files = [
        os.path.join(base, name)
        for base, _, names in os.walk(folder)
        for name in names
        if name.endswith((".nbi", ".nbc"))
    ]
    size = sum(map(os.path.getsize, files))
    return f"{len(files)} files, {size / 2**20:.1f} MiB in {folder}"


def _kernel_seconds() -> str:
    """Time one two-sided distance: compiles the kernel where no cache has it."""
    import numpy as np

    from widemargin.metrics import tangent_distances

    start = time.perf_counter()
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(2, 8)), rng.normal(size=(2, 2, 8))
    try:
        tangent_distances(X, X_tangents=T, Y_tangents=T)
    except RuntimeError as error:
        return f"fails: {error}"
    seconds = time.perf_counter() - start
    state = "as from a cache" if seconds < 2 else "as when compiling"
    return f"{seconds:.2f} s, {state}"


def _data_folder() -> str:
    from widemargin.datasets import get_data_home

    home = get_data_home()
    if not home.is_dir():
        return f"{home} (not there yet; set WIDEMARGIN_DATA to use another)"
    return f"{home}: {', '.join(sorted(p.name for p in home.iterdir() if p.is_dir()))}"
