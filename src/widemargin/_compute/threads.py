"""Threads over chunks, with BLAS held to one thread per worker.

Results never depend on the number of workers: a chunk is computed by exactly one of
them, with the same single-threaded products it would see alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from numbers import Integral
from threading import Lock
from typing import Any, TypeVar

from joblib import effective_n_jobs
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
        with ThreadPoolExecutor(workers) as pool:
            results = _mapped(pool, function, items)
            return list(announced(results, description, weights))


def _mapped(pool, function, items):
    """Begin when first asked: threads that inherit a context find the loop open."""
    yield from pool.map(function, items)


def batched_slices(n: int, size: int) -> Iterable[slice]:
    """Cut ``range(n)`` into consecutive slices of at most `size`."""
    size = max(1, int(size))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


@contextmanager
def held_threads(n_jobs: int | None = None) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield an ordered ``map`` that runs on `n_jobs` threads, BLAS held to one each."""
    workers = worker_count(n_jobs)
    with one_blas_thread():
        if workers == 1:
            yield map
            return
        with ThreadPoolExecutor(workers) as pool:
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
