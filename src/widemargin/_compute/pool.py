"""Threads that are held for many short calls.

Setting BLAS to one thread per worker and starting a pool costs about as much as one
pass of a small model over its data; a training of hundreds of passes does it once.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from joblib import effective_n_jobs

from widemargin._compute.threads import check_n_jobs, one_blas_thread


@contextmanager
def held_threads(n_jobs: int | None = None) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield an ordered ``map`` that runs on `n_jobs` threads, BLAS held to one each."""
    workers = effective_n_jobs(check_n_jobs(n_jobs))
    with one_blas_thread():
        if workers == 1:
            yield map
            return
        with ThreadPoolExecutor(workers) as pool:
            yield pool.map
