"""``widemargin doctor``: what this machine gives the library to work with."""

import json
import os
import platform
import time
from importlib import metadata
from importlib.util import find_spec

from rich.table import Table
from threadpoolctl import threadpool_info

import widemargin
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
        ("CPUs", _cpus()),
        ("memory", _memory()),
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


def _cpus() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return f"{os.cpu_count()}" + (f", {usable} usable" if usable else "")


def _memory() -> str:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total, free = (
            os.sysconf(n) * page for n in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES")
        )
    except (ValueError, OSError, AttributeError):
        return "unknown on this system"
    return f"{free / 2**30:.1f} GiB free of {total / 2**30:.1f}"


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
    folder = _cache_folder()
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


def _cache_folder() -> str | None:
    """Return where numba writes: where it is told to, beside the code, or at home."""
    import widemargin._compute as compute

    told = os.environ.get("NUMBA_CACHE_DIR")
    beside = os.path.join(os.path.dirname(str(compute.__file__)), "__pycache__")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for folder in (told,) if told else (beside, os.path.join(home, "numba")):
        above = folder
        while not os.path.isdir(above) and os.path.dirname(above) != above:
            above = os.path.dirname(above)
        if os.access(above, os.W_OK | os.X_OK):
            return folder
    return None


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
