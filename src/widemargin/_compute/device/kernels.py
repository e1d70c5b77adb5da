"""Kernels of one's own: Triton's, where it is present and the device can run them.

Every launch goes through `launch`. It makes Python's own numbers of NumPy's, which
Triton takes for no compile-time arguments, and it can compile what it would launch for
a device that is not there: CI does so with every kernel, by the code that users run.
"""

import linecache
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from widemargin._compute.progress import announce

# Versions of Triton that CI compiles with: from the first to before the second. The
# extra `gpu` says the same.
VERSIONS = (3, 2), (3, 10)
WANTED = ">={}.{},<{}.{}".format(*VERSIONS[0], *VERSIONS[1])
# Compute capability from which there are the instructions that kernels need.
CAPABILITY = (8, 0)
# Tests set these: kernels of tensors in main memory are interpreted, or all that is
# launched is compiled and nothing run.
EVERYWHERE = False
ONLY_COMPILED = False
_thread = threading.local()


def triton_for(array: Tensor, double: bool = False) -> ModuleType | None:
    """Return Triton for float32 numbers on a GPU; None where torch has to do.

    If `double`, float64 will do too.
    """
    if not (array.is_cuda or EVERYWHERE) or getattr(_thread, "torch_alone", False):
        return None
    if array.dtype != torch.float32 and not (double and array.dtype == torch.float64):
        return None
    return _triton(array.device)


@cache
def _triton(device: torch.device) -> ModuleType | None:
    """Return Triton where it works, or say once why torch alone does the work."""
    faster = f"pip install 'triton{WANTED}' is faster."
    try:
        import triton
    except ImportError:
        return _alone(f"Triton is not installed; {faster}")
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if not VERSIONS[0] <= version < VERSIONS[1]:
        return _alone(f"Triton {triton.__version__} is not known here; {faster}")
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < CAPABILITY:
        name, least = torch.cuda.get_device_name(device), "{}.{}".format(*CAPABILITY)
        return _alone(f"{name} has no compute capability {least}, as kernels need.")
    return triton


def _alone(reason: str) -> ModuleType | None:
    warnings.warn(
        f"torch alone computes on the device, with the same answers: {reason}",
        UserWarning,
        stacklevel=2,
    )
    return None


def jitted(
    name: str, source: str, of: str = "", aligned: Collection[str] | None = None
) -> Any:
    """Make a kernel of the function `name` in a source text; `of` tells versions apart.

    Triton compiles anew for numbers and addresses that are multiples of 16, or 1. Where
    `aligned` is given it does so for these alone.
    """
    import triton

    place = f"<{name} {of}>"
    # Triton reads the source of what it compiles.
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    space: dict[str, Any] = {"tl": triton.language}
    exec(compile(source, place, "exec"), space)
    function = space[name]
    plain: list[str] = []
    if aligned is not None:
        kinds = function.__annotations__
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        plain = [one for one in names if one not in kinds and one not in aligned]
    return triton.jit(function, do_not_specialize=plain)


_launched: set[int] = set()
# Kernels that a thread compiles, see `compile_ahead`.
_compiling: dict[int, Future] = {}


def launch(kernel: Any, grid: Sequence[int], *arguments: Any, **constants: Any) -> None:
    """Run a kernel on tensors and numbers; `constants` are known when it is compiled.

    Among them are Triton's own, `num_warps` and `num_stages`.
    """
    given = [_plain(argument) for argument in arguments]
    named = {name: _plain(value) for name, value in constants.items()}
    if ONLY_COMPILED or getattr(_thread, "only_compiles", False):
        compiled = kernel.warmup(*given, grid=tuple(grid), **named)
        if not ONLY_COMPILED:
            # Triton makes a launcher, by a C compiler, when a kernel's `run` is asked.
            _ = compiled.run
        return
    if not compiling():
        _take_in()
    if id(kernel) in _launched:
        kernel[tuple(grid)](*given, **named)
        return
    # The first call compiles, for seconds where nothing was compiled before.
    with announce("kernels"):
        # For all that are on their way: another is asked for next.
        wait(_compiling.values())
        _take_in()
        kernel[tuple(grid)](*given, **named)
    _launched.add(id(kernel))


def _take_in() -> None:
    """Count what threads have compiled among what was launched."""
    _launched.update(_compiling)
    _compiling.clear()


@contextmanager
def torch_alone(wanted: bool = True) -> Iterator[None]:
    """Let torch do within what kernels would do."""
    before = getattr(_thread, "torch_alone", False)
    _thread.torch_alone = before or wanted
    try:
        yield
    finally:
        _thread.torch_alone = before


def compile_ahead(launches: dict[Any, Callable[[], Any]], device: torch.device) -> bool:
    """Compile kernels in threads, and return at once; say whether any is new.

    Each kernel comes with a call that launches it: that compiles it, and runs nothing.
    `launch` waits for those that are on their way. An error is that of the launch.
    """
    known = _launched.union(_compiling)
    new = {k: call for k, call in launches.items() if id(k) not in known}
    if not new or device.type != "cuda":
        return False

    def compile_only(call: Callable[[], Any]) -> None:
        _thread.only_compiles = True
        with torch.cuda.device(device):
            call()

    pool = ThreadPoolExecutor(len(new))
    for kernel, call in new.items():
        _compiling[id(kernel)] = pool.submit(compile_only, call)
    pool.shutdown(wait=False)
    return True


def compiling() -> bool:
    """Whether a thread compiles a kernel now."""
    return not all(future.done() for future in _compiling.values())


def _plain(value: Any) -> Any:
    """Return Python's number for one of NumPy; keep all others."""
    return value.item() if isinstance(value, np.generic) else value
