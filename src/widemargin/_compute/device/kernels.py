"""Kernels of one's own: Triton where it is present, and where it pays."""

import linecache
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor


def triton_for(array: Tensor) -> ModuleType | None:
    """Return Triton for float32 numbers on a GPU; None where torch has to do."""
    return _triton() if array.is_cuda and array.dtype == torch.float32 else None


@cache
def _triton() -> ModuleType | None:
    try:
        import triton
    except ImportError:
        return None
    return triton


def jitted(name: str, source: str, of: str = "") -> Any:
    """Compile the function `name` of a source text; `of` tells versions apart."""
    triton: Any = _triton()
    place = f"<{name} {of}>"
    # Triton reads the source of what it compiles.
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    space: dict[str, Any] = {"tl": triton.language}
    exec(compile(source, place, "exec"), space)
    return triton.jit(space[name])
