"""Kernels compile once per dtype, whatever holds the numbers, cache or no cache."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from widemargin._compute import compiled, engines, frames, models, tangent_elimination
from widemargin._compute.compiled import njit
from widemargin.metrics import tangent_distances
from widemargin.tangents import Bundle, ImageTangents

KERNELS = [tangent_elimination.two_sided, tangent_elimination.one_sided, frames._align]


@pytest.fixture
def kernels():
    with engines.chosen("engines"):
        yield


def test_read_only_and_strided_arrays_do_not_compile_again(tmp_path, kernels):
    X = np.random.default_rng(0).random((40, 16))
    X[1] = X[0]
    generator = ImageTangents((4, 4))

    def ask(samples):
        return [
            tangent_distances(samples, samples, tangents=generator, sides=sides)
            for sides in ("both", "mean", "query", "reference")
        ]

    expected = ask(X)
    before = [len(kernel.signatures) for kernel in KERNELS]
    np.save(tmp_path / "X.npy", X)
    read_only = X.copy()
    read_only.setflags(write=False)
    for samples in (
        read_only,
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
    ):
        for found, wanted in zip(ask(samples), expected, strict=True):
            assert_array_equal(found, wanted)
    shared = Bundle.from_tangents(X, X[:2])
    tangent_distances(shared, X, tangents=X[:2], spring=0)
    assert [len(kernel.signatures) for kernel in KERNELS] == before


@njit()
def _first(values):
    return values[0]


@njit()
def _first_by_another(values):
    return _first(values) + 0.0


class Named(NamedTuple):
    values: np.ndarray
    shift: float


@njit()
def _first_of_named(named):
    return named.values[0] + named.shift


def test_what_must_not_be_written_is_shown_without_a_copy():
    values = np.arange(6.0)
    assert _first(values) == _first_by_another(values) == 0
    values.setflags(write=False)
    assert _first(values[2:]) == 2
    assert _first_by_another(values[::2]) == 0
    assert _first(np.frombuffer(b"\0" * 9, np.float64, 1, 1)) == 0
    assert len(_first.signatures) == len(_first_by_another.signatures) == 1
    assert _first_of_named(Named(values, 1.0)) == 1
    assert _first_of_named(Named(np.ones(2), 1.0)) == 2
    assert len(_first_of_named.signatures) == 1


@njit(inner=True)
def _second(values):
    return values[1]


@njit()
def _second_by_another(values):
    return _second(values)


def test_what_is_inner_is_called_by_kernels_alone():
    assert _second_by_another(np.arange(3.0)) == 1
    with pytest.raises(TypeError, match="only kernels can call _second"):
        _second(np.arange(3.0))


def test_no_sum_depends_on_who_compiled_it():
    """A process that compiles would else call another version than those after it."""
    inner = models._squared_distances

    @numba.njit
    def outer(Z, norms, offsets, squared):
        inner(Z, norms, offsets, squared)
        inner(Z, norms, offsets, squared)

    Z, offsets = np.ones((4, 5), np.float32), np.ones((2, 2), np.float32)
    outer(Z, Z[0], offsets, np.empty((2, 5), np.float32))
    (code,) = outer.inspect_llvm().values()
    called = [line for line in code.splitlines() if " call " in line]
    assert called
    assert not any("_squared_distances" in line for line in called)


def test_without_a_place_to_write_there_is_no_cache(tmp_path):
    source = Path(tangent_elimination.__file__).parents[2]
    code = (
        "from numba.core import caching\n"
        "for locator in caching.CacheImpl._locator_classes:\n"
        "    locator.from_function = classmethod(lambda *_: None)\n"
        "from widemargin._compute import frames\n"
        "from widemargin._compute.compiled import njit\n"
        "print(type(frames.gram_schmidt._cache).__name__)\n"
        "print(njit()(lambda x: x + 1.0)(0.0))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )  # fmt: skip
    assert result.stdout.split() == ["NullCache", "1.0"]


@pytest.mark.parametrize("cause", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_interrupt_stays_one(cause):
    class Dispatcher:
        def __call__(self, *args):
            raise SystemError("a result with an exception set") from cause()

    expected = SystemError if cause is ValueError else cause
    with pytest.raises(expected):
        compiled._kernel_class(Dispatcher)()(1)
