"""Compiled kernels: one compilation per dtype, kept on disk where there is room for it.

Kernels never write to their inputs, so that an array that must not be written (a
memory map, a column of a polars frame) is shown to them as any other: numba would
compile once more for it, which takes seconds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Timer
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import intrinsic

from widemargin._compute.progress import note

# Sums may be reordered, which lets loops over features vectorise; infinities and NaN
# keep their meaning. The order depends on the lengths alone.
REORDER = frozenset({"reassoc", "contract", "nsz"})
# The same where all are numbers: the smallest of them is then found by lanes.
NUMBERS = REORDER | {"nnan"}
# Sums are never reordered: results must not depend on how a block was cut.
IN_ORDER = frozenset({"contract", "nsz", "arcp"})


class _LinkedOnly(JITCodeLibrary):
    """Code that callers put into theirs: nobody asks for its address.

    Machine code of it alone would be a fifth of what kernels compile.
    """

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def serialize_using_object_code(self) -> Any:
        return self.serialize_using_bitcode()

    @property
    def codegen(self) -> Any:
        """Whom numba tells the environment of machine code, of which there is none."""
        return SimpleNamespace(set_env=lambda *_: None)


class _InnerCompiler(Compiler):
    """numba's compiler, but for machine code."""

    def define_pipelines(self) -> Any:
        state = self.state
        name = state.func_id.func_qualname
        state.library = _LinkedOnly(state.targetctx.codegen(), name)
        return super().define_pipelines()


def njit(*, inner: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """Compile a function when it is first called, without holding the lock of Python.

    Options are numba's; what is `inner` is called by kernels alone, has no machine code
    of its own and compiles in less time. Code is kept beside the source or in the
    user's cache; where neither can be written it is made again in every process.
    """
    # Without a check at every division code is smaller, and made faster; nobody in C
    # calls it.
    usual = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    options = {**usual, "no_cpython_wrapper": inner, **options, "cache": True}
    if inner:
        options["pipeline_class"] = _InnerCompiler
    if options.get("fastmath"):
        # Of a function that is called there are two versions, the process that compiles
        # it takes one and those after it the other: their sums would differ.
        options["forceinline"] = True
    if isinstance(options.get("fastmath"), frozenset):
        options["fastmath"] = set(options["fastmath"])

    def compiled(function: Callable) -> Any:
        try:
            kernel = numba.njit(**options)(function)
        except RuntimeError:
            # There is no folder that can be written.
            kernel = numba.njit(**(options | {"cache": False}))(function)
        kernel.__class__ = _kernel_class(type(kernel), inner)
        _stamp_of_all_sources(kernel)
        return kernel

    return compiled


def _stamp_of_all_sources(kernel: Any) -> None:
    """Let machine code on disk be of the files of all kernels that this one may call.

    numba compares the time and size of the kernel's own file, and would go on with what
    it has put in from others. Where numba keeps that elsewhere, its own rule holds.
    """
    with suppress(AttributeError):
        file = kernel._cache._cache_file
        stamps = {*file._source_stamp}
        for other in kernel.py_func.__globals__.values():
            if isinstance(other, numba.core.registry.CPUDispatcher):
                cache: Any = getattr(other, "_cache", None)
                stamps |= {*cache._cache_file._source_stamp}
        file._source_stamp = tuple(sorted(stamps))


_classes: dict[tuple[type, bool], type] = {}
# Kernels compiled by this process, those that others call included: the command counts.
COMPILED: list[str] = []
# Seconds after which compiling is worth a word.
LONG = 1.0


@contextmanager
def _announced(kernel: Any) -> Iterator[None]:
    """Count a kernel that is compiled, and tell who listens if that takes long."""
    loaded = sum(kernel.stats.cache_hits.values())
    text = f"compiling {kernel.py_func.__name__} for this machine, once"
    timer = Timer(LONG, note, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if sum(kernel.stats.cache_hits.values()) == loaded:
        COMPILED.append(kernel.py_func.__name__)


def _kernel_class(dispatcher: Any, inner: bool = False) -> type:
    """Subclass numba's dispatcher, so that kernels still call each other directly."""
    if (dispatcher, inner) not in _classes:

        class Kernel(dispatcher):
            def compile(self, signature: Any) -> Any:
                with _announced(self):
                    return super().compile(signature)

            def __call__(self, *args: Any) -> Any:
                if inner:
                    raise TypeError(f"only kernels can call {self.py_func.__name__}.")
                try:
                    return super().__call__(*map(_plain, args))
                except SystemError as error:
                    # Ctrl-C or SIGTERM while numba hands the result over.
                    cause = error.__cause__
                    if cause is None or isinstance(cause, Exception):
                        raise
                    raise cause from None

        _classes[dispatcher, inner] = Kernel
    return _classes[dispatcher, inner]


class _Memory:
    """An array's memory under the numbers that describe it, said to be writable."""

    def __init__(self, array: np.ndarray):
        self.array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def _plain(value: Any) -> Any:
    """Return what must not be written in the type of what may, without a copy."""
    if not isinstance(value, np.ndarray):
        named = isinstance(value, tuple) and hasattr(value, "_fields")
        return value._make(map(_plain, value)) if named else value
    if value.flags.writeable:
        return value
    if not value.flags.c_contiguous or not value.flags.aligned:
        return np.array(value, order="C")
    return np.asarray(_Memory(value)) if value.size else np.array(value)


@intrinsic
def _fetch(context: Any, array: Any, row: Any, column: Any) -> Any:
    """Ask for the memory of one element, without waiting for it."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, number, byte = signature.args[0], ir.IntType(32), ir.IntType(8)
        values = context.make_array(kind)(context, builder, args[0])
        place = cgutils.get_item_pointer(context, builder, kind, values, args[1:])
        place = builder.bitcast(place, byte.as_pointer())
        takes = [place.type, number, number, number]
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), takes), "llvm.prefetch.p0"
        )
        # To be read, to be kept in every cache, and data.
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return numba.types.void(array, row, column), code


@njit(inline="always")
def fetch(X: Any, i: Any) -> None:
    """Ask for a row that is needed soon, line by line of the cache."""
    for f in range(0, X.shape[1], 64 // X.itemsize):
        _fetch(X, i, f)  # type: ignore[call-arg]


@njit(fastmath=REORDER)
def dot(u: Any, v: Any) -> Any:
    """Inner product of two vectors."""
    total = u.dtype.type(0)
    for f in range(u.shape[0]):
        total += u[f] * v[f]
    return total


@njit(inner=True, fastmath=REORDER)
def add_times(total: Any, factor: Any, x: Any) -> None:
    """Add a multiple of one vector to another."""
    for f in range(x.shape[0]):
        total[f] += factor * x[f]


@njit(inner=True, fastmath=REORDER)
def squared_distance(x: Any, p: Any) -> Any:
    """Squared Euclidean distance of two vectors."""
    total = x.dtype.type(0)
    for f in range(x.shape[0]):
        delta = x[f] - p[f]
        total += delta * delta
    return total


@njit(inner=True, fastmath=NUMBERS)
def least_of(scores: Any, start: int, stop: int) -> Any:
    """Smallest of some scores."""
    least = scores.dtype.type(np.inf)
    for j in range(start, stop):
        least = min(least, scores[j])
    return least


@njit(inner=True)
def up_to(scores: Any, start: int, stop: int, limit: Any) -> Any:
    """How many columns have scores up to `limit`, and the sum of their numbers."""
    count, columns = np.int32(0), np.int32(0)
    for j in range(start, stop):
        if scores[j] <= limit:
            count += np.int32(1)
            columns += np.int32(j)
    return count, columns
