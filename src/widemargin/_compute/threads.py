"""Threads over chunks, with BLAS held to one thread per worker.

Results never depend on the number of workers: a chunk is computed by exactly one of
them, with the same single-threaded products it would see alone.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    n_jobs: int | None = None,
) -> list[Result]:
    """Apply `function` to every item, in order, on `n_jobs` threads.

    `n_jobs` follows scikit-learn: None is one worker unless a
    ``joblib.parallel_config`` says otherwise, -1 is one per core. At most one item
    per worker is under way, so that the memory of a call is bounded by
    `n_jobs` times that of one item.
    """
    workers = effective_n_jobs(n_jobs)
    with threadpool_limits(limits=1, user_api="blas"):
        if workers == 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(function, items))


def batched_slices(n: int, size: int) -> Iterable[slice]:
    """Cut ``range(n)`` into consecutive slices of at most `size`."""
    size = max(1, int(size))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
