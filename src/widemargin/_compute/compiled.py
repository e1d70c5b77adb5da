"""Compiled kernels: one compilation per dtype, kept on disk where there is room for it.

Kernels never write to their inputs, so that an array that must not be written (a
memory map, a column of a polars frame) is shown to them as any other: numba would
compile once more for it, which takes seconds.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

# Sums may be reordered, which lets loops over features vectorise; infinities and NaN
# keep their meaning. The order depends on the lengths alone.
REORDER = frozenset({"reassoc", "contract", "nsz"})
# Sums are never reordered: results must not depend on how a block was cut.
IN_ORDER = frozenset({"contract", "nsz", "arcp"})


def njit(**options: Any) -> Callable[[Callable], Any]:
    """Compile a function when it is first called, without holding the lock of Python.

    Options are numba's. Machine code is kept beside the source or in the user's cache;
    where neither can be written it is made again in every process.
    """
    # Without a check at every division code is smaller, and made faster; nobody in C
    # calls it.
    usual = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    options = {**usual, **options, "cache": True}
    if isinstance(options.get("fastmath"), frozenset):
        options["fastmath"] = set(options["fastmath"])

    def compiled(function: Callable) -> Any:
        try:
            kernel = numba.njit(**options)(function)
        except RuntimeError:
            # There is no folder that can be written.
            kernel = numba.njit(**(options | {"cache": False}))(function)
        kernel.__class__ = _kernel_class(type(kernel))
        return kernel

    return compiled


_classes: dict[type, type] = {}


def _kernel_class(dispatcher: Any) -> type:
    """Subclass numba's dispatcher, so that kernels still call each other directly."""
    if dispatcher not in _classes:

        class Kernel(dispatcher):
            def __call__(self, *args: Any) -> Any:
                return super().__call__(*map(_plain, args))

        _classes[dispatcher] = Kernel
    return _classes[dispatcher]


class _Memory:
    """An array's memory under the numbers that describe it, said to be writable."""

    def __init__(self, array: np.ndarray):
        self.array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def _plain(value: Any) -> Any:
    """Return what must not be written in the type of what may, without a copy."""
    if hasattr(value, "_fields"):
        return value._make(map(_plain, value))
    if not isinstance(value, np.ndarray) or value.flags.writeable:
        return value
    if not value.flags.c_contiguous or not value.flags.aligned:
        return np.array(value, order="C")
    return np.asarray(_Memory(value)) if value.size else np.array(value)
