from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg.blas
from sklearn import config_context, get_config
from threadpoolctl import threadpool_info, threadpool_limits

from widemargin._compute.machine import (
    batched_slices,
    even_slices,
    held_threads,
    one_blas_thread,
    thread_map,
)


def blas_threads(_=None):
    # scipy's library is not numpy's; both must be held.
    scipy.linalg.blas.dgemm(1.0, np.eye(2), np.eye(2))
    return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blas_has_one_thread_per_worker_and_gets_the_others_back(n_jobs):
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        seen = thread_map(blas_threads, range(4), n_jobs)
        with held_threads(n_jobs) as run:
            seen += list(run(blas_threads, range(4)))
        assert before
        assert all(set(threads) == {1} for threads in seen)
        assert blas_threads() == before


@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
def test_results_come_in_order(n_jobs):
    assert thread_map(lambda i: i**2, iter(range(50)), n_jobs) == [
        i**2 for i in range(50)
    ]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_have_the_settings_of_who_asks(n_jobs):
    def setting(_):
        return get_config()["working_memory"]

    with config_context(working_memory=7):
        assert set(thread_map(setting, range(9), n_jobs)) == {7}
        with held_threads(n_jobs) as run:
            assert set(run(setting, range(9))) == {7}


@pytest.mark.parametrize(("n", "size"), [(0, 3), (7, 3), (7, 7), (7, 100), (5, 0.5)])
def test_slices_cover_everything_once(n, size):
    rows = [i for part in batched_slices(n, size) for i in range(n)[part]]
    assert rows == list(range(n))


@pytest.mark.parametrize("n", [0, 1, 256, 257, 1000, 1024, 5000])
def test_even_slices_end_together(n):
    parts = even_slices(n, 1024)
    assert [i for part in parts for i in range(n)[part]] == list(range(n))
    lengths = [part.stop - part.start for part in parts]
    assert not n or max(lengths) - min(lengths) <= 1
    assert max(lengths, default=0) <= 1024
    assert n <= 256 or len(parts) % 2 == 0


@pytest.mark.parametrize("first_out", [0, 1])
def test_concurrent_callers_give_blas_its_threads_back(first_out):
    """Whoever leaves last restores what the first one found."""
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert set(before) == {2}
        holders = [one_blas_thread(), one_blas_thread()]
        for holder in holders:
            holder.__enter__()
        holders[first_out].__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        holders[1 - first_out].__exit__(None, None, None)
        assert blas_threads() == before
        with ThreadPoolExecutor(4) as pool:
            seen = list(
                pool.map(lambda _: thread_map(blas_threads, range(3), 2), range(9))
            )
        assert all(set(one) == {1} for many in seen for one in many)
        assert blas_threads() == before
