"""Arrays that are written over: each thread has its own."""

import pickle

import numpy as np

from widemargin._compute.machine import Scratch, thread_map


def test_the_same_memory_while_it_is_large_enough():
    scratch = Scratch()
    first = scratch.take("a", (4, 3), np.float64)
    smaller = scratch.take("a", (2, 5), np.float64)
    assert smaller.shape == (2, 5)
    assert np.shares_memory(first, smaller)
    assert not np.shares_memory(first, scratch.take("b", (4, 3), np.float64))
    assert not np.shares_memory(first, scratch.take("a", (4, 4), np.float64))
    assert scratch.take("a", (2, 2), np.float32).dtype == np.float32
    assert scratch.take("none", (0, 7), np.float32).shape == (0, 7)


def test_it_travels_empty():
    scratch = Scratch()
    scratch.take("a", (4, 3), np.float64)
    again = pickle.loads(pickle.dumps(scratch))
    assert isinstance(again, Scratch)
    assert not again.__dict__


def test_threads_do_not_share_it():
    scratch = Scratch()

    def fill(value):
        own = scratch.take("a", (20_000,), np.float64)
        own[:] = value
        return float(own.sum()) / 20_000

    assert thread_map(fill, range(200), 4) == list(range(200))
