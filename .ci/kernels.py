"""Every Triton kernel without a GPU: compiled for one, or interpreted on the CPU.

The library's own functions launch them, on CPU tensors. test_device_kernels.py runs
this, each time in a process of its own: python .ci/kernels.py compile 90
"""

import os
import sys

WHAT = sys.argv[1]
if WHAT == "interpret":
    os.environ["TRITON_INTERPRET"] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402

from widemargin._compute.device import kernels, pairs  # noqa: E402

kernels.EVERYWHERE = True
COMPILED: list[str] = []


def compile_only(capability):
    """Let every launch compile for a GPU of this capability, and run nothing."""
    from triton.backends.compiler import GPUTarget

    class Driver:
        def get_current_target(self):
            return GPUTarget("cuda", capability, 32)

        def get_current_device(self):
            return 0

        def get_current_stream(self, device=None):
            return 0

    triton.runtime.driver.set_active(Driver())
    compiled = triton.runtime.jit.JITFunction.warmup

    def warmup(self, *arguments, **options):
        # Some versions of Triton refuse a number of NumPy, others do not.
        for value in (*arguments, *options.values()):
            assert not isinstance(value, np.generic), (self.__name__, value)
        made = compiled(self, *arguments, **options)
        assert made.asm["cubin"], self.__name__
        COMPILED.append(self.__name__)

    triton.runtime.jit.JITFunction.warmup = warmup
    kernels.ONLY_COMPILED = True


def both(function, *given):
    """Compare what a function gives with Triton to what it gives with torch alone."""
    found = function(*given)
    kernels.EVERYWHERE = False
    expected = function(*given)
    kernels.EVERYWHERE = True
    for one, other in zip(found, expected, strict=True):
        if WHAT == "interpret":
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def tails():
    """Check what is left of a pair once its products are there."""
    for n, l_x, l_y in ((1, 0, 2), (7, 2, 2), (48, 7, 7)):
        rng = torch.Generator().manual_seed(0)
        G = 0.1 * torch.randn(3, 1 + l_x, 1 + l_y, n, generator=rng)
        nx, ny = 9 + torch.rand(3, generator=rng), 9 + torch.rand(n, generator=rng)
        a0 = torch.randn(3, l_x, generator=rng)
        b0 = torch.randn(l_y, n, generator=rng)
        # Numbers as they come: of Python and of NumPy.
        for rounding in (0.0, -1e-3, np.float64(1e-3)):
            both(_tail, G, nx, a0, ny, b0, 0.1, 1e-6, rounding)


def _tail(*given):
    # The scale is that of a distance, not of a bound.
    return pairs.tail(*given)[: 1 if given[-1] else 2]


if WHAT == "compile":
    compile_only(int(sys.argv[2]))
tails()
print(triton.__version__, *sorted(set(COMPILED)))
