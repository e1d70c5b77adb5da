"""The machine: threads over chunks, how large a chunk may be, and what memory is left.

BLAS is held to one thread per worker. Results never depend on the number of workers: a
chunk is computed by exactly one of them, with the same single-threaded products it
would see alone.

Chunks are sized by scikit-learn's ``working_memory``. A container's limit is not in
/proc/meminfo: a process that goes by that alone is killed where it could have said what
is too large. Every group from our own up to the root may limit us; what it holds of
files not in use can be had as well.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from itertools import pairwise
from numbers import Integral
from pathlib import Path, PurePosixPath
from threading import Lock, local
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config, set_config
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import ThreadpoolController

from widemargin._compute.progress import announced, observer

Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _libraries() -> list[Any]:
    # Looking for them takes milliseconds; numpy's and scipy's are loaded by now.
    import scipy.linalg.blas  # noqa: F401

    return ThreadpoolController().select(user_api="blas").lib_controllers


class _OneBlasThread(AbstractContextManager):
    """Hold BLAS to one thread for as long as anybody in the process asks for it.

    The limit belongs to the process: whoever comes first sets it, the last to leave
    restores what the first found, in whatever order they come and go.
    """

    def __init__(self) -> None:
        self._lock, self._holders = Lock(), 0
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._before = [(one, one.num_threads) for one in _libraries()]
                for library, _ in self._before:
                    _set_threads(library, 1)
            self._holders += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                for library, threads in self._before:
                    _set_threads(library, threads)


def _set_threads(library: Any, threads: int) -> None:
    # threadpoolctl lets one thread alone change OpenBLAS, and ignores all others; here
    # the first and the last to come may be two.
    change = getattr(library, "_real_set_num_threads", library.set_num_threads)
    change(threads)


_one_blas_thread = _OneBlasThread()


def one_blas_thread() -> AbstractContextManager:
    """Hold BLAS to one thread: the workers are the threads."""
    return _one_blas_thread


def check_n_jobs(n_jobs: Any) -> int | None:
    """Return `n_jobs` if joblib can make workers of it."""
    if n_jobs is None:
        return None
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if not whole or not 0 < abs(int(n_jobs)) < 2**31:
        raise ValueError(
            "n_jobs must be None, a number of workers, or negative to count from the "
            f"number of cores, where -1 is all of them; got {n_jobs!r}."
        )
    return int(n_jobs)


def worker_count(n_jobs: int | None) -> int:
    """How many workers `n_jobs` means here and now, as scikit-learn counts them."""
    return effective_n_jobs(check_n_jobs(n_jobs))


def thread_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    n_jobs: int | None = None,
    description: str = "blocks",
    weights: Sequence[float] | None = None,
) -> list[Result]:
    """Apply `function` to every item, in order, on `n_jobs` threads.

    `n_jobs` follows scikit-learn: None is one worker unless a
    ``joblib.parallel_config`` says otherwise, -1 is one per core. At most one item
    per worker is under way, so that the memory of a call is bounded by
    `n_jobs` times that of one item. Whoever watches is told each item done, of
    `weights` if these differ.
    """
    items, n_jobs = list(items), check_n_jobs(n_jobs)
    # One item needs no pool, and may have something to announce itself.
    workers = 1 if len(items) == 1 else worker_count(n_jobs)
    weights = [1] * len(items) if weights is None else weights
    with one_blas_thread():
        if workers == 1:
            return list(announced(map(function, items), description, weights))
        with _threads(workers) as pool:
            results = _mapped(pool, function, items)
            return list(announced(results, description, weights))


def _threads(workers: int) -> ThreadPoolExecutor:
    """Return threads with the caller's settings of scikit-learn: each has its own."""
    return ThreadPoolExecutor(workers, initializer=partial(set_config, **get_config()))


def _mapped(pool, function, items):
    """Begin when first asked: threads that inherit a context find the loop open."""
    yield from pool.map(function, items)


def batched_slices(n: int, size: int) -> Iterable[slice]:
    """Cut ``range(n)`` into consecutive slices of at most `size`."""
    size = max(1, int(size))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def even_slices(n: int, size: int) -> Iterable[slice]:
    """Cut ``range(n)`` into slices of about equal length, at most `size`.

    Their number is even where they are more than a few rows, so that two threads end
    together; it does not depend on how many threads there are.
    """
    count = -(-n // max(1, int(size)))
    if n > 256:
        count += count % 2
    edges = [n * i // max(1, count) for i in range(count + 1)]
    return [slice(*pair) for pair in pairwise(edges)]


@contextmanager
def held_threads(n_jobs: int | None = None) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield an ordered ``map`` that runs on `n_jobs` threads, BLAS held to one each."""
    workers = worker_count(n_jobs)
    with one_blas_thread():
        if workers == 1:
            yield map
            return
        with _threads(workers) as pool:
            yield pool.map


def process_map(
    function: Callable[..., Result],
    arguments: Sequence[tuple],
    n_jobs: int | None = None,
    description: str = "calls",
) -> list[Result]:
    """Call `function` with every tuple of `arguments`, in order, through joblib.

    `n_jobs` follows scikit-learn; one worker is this process.
    """
    n_jobs = check_n_jobs(n_jobs)
    calls = (delayed(function)(*one) for one in arguments)
    if observer() is None:
        return Parallel(n_jobs=n_jobs)(calls)
    return list(announced(_results(n_jobs, calls), description, [1] * len(arguments)))


def _results(n_jobs: int | None, calls: Any) -> Any:
    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    except ValueError:
        # A backend that gives everything at once, at the end.
        parallel = Parallel(n_jobs=n_jobs)
    yield from parallel(calls)


# Blocks of these sizes stay near a core's cache: rows of samples, rows of a matrix of
# pairs, and numbers. They do not depend on the number of threads, so that no result
# does. On a device a block is what fills it.
SAMPLE_ROWS, PAIR_ROWS = 1024, 256
BLOCK_NUMBERS, DEVICE_NUMBERS = 2**19, 2**26
# Distances that are held at once where all of some queries are.
MOST_DISTANCES = 2**30


def rows_in_budget(bytes_per_row: float, n_jobs: int | None = 1) -> int:
    """How many rows of `bytes_per_row` each worker may hold at once, at least one."""
    workers = 1 if n_jobs == 1 else worker_count(n_jobs)
    budget = get_config()["working_memory"] * 2**20
    return max(1, int(budget / (workers * max(1.0, bytes_per_row))))


class Scratch(local):
    """Arrays that each thread writes over, block after block.

    Fresh pages may cost as much as what is computed on them: an allocator that is told
    to hand memory back at once, as in a worker of Dask, gets them for every block.
    """

    def __reduce__(self) -> Any:
        # Nothing to take along.
        return Scratch, ()

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array that holds anything, until the same name is taken again."""
        held, size = self.__dict__.get(name), math.prod(shape)
        if held is None or held.size < size or held.dtype != dtype:
            held = self.__dict__[name] = np.empty(size, dtype)
        return held[:size].reshape(shape)


def require_room(
    n: int, m: int, bytes_per_entry: int, way_out: str, beside: float = 0.0
) -> None:
    """Refuse a matrix of all pairs that memory does not hold, before any of it exists.

    `beside` are bytes that come on top.
    """
    needed, there = float(n) * m * bytes_per_entry + beside, available_bytes()
    if needed > there:
        raise MemoryError(
            f"X: the matrix of all pairs needs {needed / 2**30:.1f} GiB, {n} × {m} × "
            f"{bytes_per_entry} bytes{' and what the solver keeps' if beside else ''}, "
            f"and {there / 2**30:.1f} GiB of memory are available. {way_out}"
        )


def matrix_of_pairs(n: int, m: int, dtype: Any, way_out: str = "") -> np.ndarray:
    """Return an array for all pairs, to be filled, if memory holds it."""
    size = np.dtype(dtype).itemsize
    # To ask the system takes as long as to answer a question.
    if n * m * size > get_config()["working_memory"] * 2**20:
        require_room(n, m, size, f"Pass some rows of X at a time{way_out}.")
    return np.empty((n, m), dtype)


_FOLDER = "sys/fs/cgroup"
# Where groups are, and what their files and the entry of reclaimable memory are called.
_UNIFIED = (_FOLDER, "memory.max", "memory.current", "inactive_file")
_FIRST_VERSION = (
    f"{_FOLDER}/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
)


def available_bytes(root: Path = Path("/")) -> float:
    """Bytes that can still be allocated, as far as the system says; else infinity."""
    return max(0.0, min([_of_machine(root), *_of_groups(root)]))


def _of_machine(root: Path) -> float:
    available = _entry(root / "proc/meminfo", "MemAvailable:")
    if available is not None:
        return 1024.0 * available
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _of_groups(root: Path) -> Iterator[float]:
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folder, *names = _UNIFIED
        elif "memory" in controllers.split(","):
            folder, *names = _FIRST_VERSION
        else:
            continue
        group = PurePosixPath(path.strip("/"))
        # Inside a container the path may be the host's: only the root is there then.
        for part in (group, *group.parents):
            left = _left(root / folder / part, *names)
            if left is not None:
                yield left


def _left(group: Path, limit: str, usage: str, reclaimable: str) -> float | None:
    try:
        most, used = ((group / name).read_text().strip() for name in (limit, usage))
        if most == "max":
            return None
        spare = _entry(group / "memory.stat", reclaimable) or 0
        return float(int(most) - int(used) + spare)
    except (OSError, ValueError):
        return None


def _entry(file: Path, name: str) -> int | None:
    """Find the number that follows `name` at the beginning of a line."""
    for line in _lines(file):
        words = line.split()
        if words[:1] == [name]:
            return int(words[1])
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
