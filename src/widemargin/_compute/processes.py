"""Work in processes, one call after the other announced as it ends."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sklearn.utils.parallel import Parallel, delayed

from widemargin._compute.progress import announced, observer
from widemargin._compute.threads import check_n_jobs

Result = TypeVar("Result")


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
