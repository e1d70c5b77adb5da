"""Every Triton kernel without a GPU: compiled for one, or interpreted on the CPU.

The library's own functions launch them, on CPU tensors. test_device_kernels.py runs
this, each time in a process of its own: python .ci/kernels.py compile 90
"""

import os
import sys
from types import SimpleNamespace

WHAT = sys.argv[1]
if WHAT == "interpret":
    os.environ["TRITON_INTERPRET"] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402

from widemargin._compute.device import (  # noqa: E402
    bounds,
    kernels,
    pairs,
    search,
)

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


def numbers_of_arrays():
    """Let interpreters before 3.9 read a number off an array of one, as NumPy did."""
    from triton.runtime import interpreter

    prepare = interpreter._patch_lang_tensor

    def prepared(tensor, *rest):
        prepare(tensor, *rest)
        tensor.__index__ = lambda self: int(self.handle.data.squeeze())

    interpreter._patch_lang_tensor = prepared


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


def frames():
    """Check frames, of tangents that depend on each other, vanish, or are huge."""
    T = torch.randn(5, 3, 12, generator=torch.Generator().manual_seed(0))
    T[0], T[1], T[2, 1], T[3] = 0, T[1, :1], 2 * T[2, 0], T[3] * 1e30
    for given in (T, T.double()):
        both(_frames, given, 1e-6)


def _frames(tangents, rtol):
    return [pairs.gram_schmidt(tangents, rtol)]


def samples(n, n_tangents, d, seed):
    """Points near each other, one twice, and their frames, one without."""
    rng = torch.Generator().manual_seed(seed)
    points = torch.randn(n, d, generator=rng) + 3
    frames = torch.randn(n, n_tangents, d, generator=rng)
    frames = pairs.gram_schmidt(frames, 1e-6).float()
    points[1], frames[1], frames[2] = points[0], frames[0], 0
    return points, frames


def listed_pairs():
    """Check the bounds of listed pairs."""
    for l_x, l_y in ((1, 2), (7, 7)):
        x, y = (
            pairs.Ends.prepare(*samples(6, rows, 40, 0), torch.zeros(40).double())
            for rows in (l_x, l_y)
        )
        i, j = torch.arange(6), torch.arange(6).flip(0)
        both(search.paired_bounds, x, i, y, j, 1e-5)


def searches():
    """Check neighbours and densities, whose bounds are made and listed in one kernel.

    With so little room that lists are made again, and some queries never have any.
    """
    search.FEWEST, search.ROOM, search.ROUNDS = 1, 16, 1
    known, asked = samples(150, 2, 20, 0), samples(5, 3, 20, 1)
    finder = finder_of(*known, n_components=16)
    if WHAT == "interpret":
        both(finder.nearest, *asked, 1)
        both(_densities, finder, asked)
        return
    for n_tangents in (2, 7):
        known = samples(150, n_tangents, 200, 0)
        finder = finder_of(*known, n_components=128)
        shadow = finder.shadow
        side, zeros = finder._side(), torch.zeros(150)
        x = bounds.Side.of_queries(shadow)
        # Room is a number of any size.
        for room in (16, 23):
            bounds.within(x, side, zeros, zeros, room, 1e-5, np.float64(1e-3))


def finder_of(points, frames, n_components):
    """Return the search of references of one class."""
    known = SimpleNamespace(points=points, frames=frames, is_shared=False)
    metric = SimpleNamespace(sides="both", spring=1e-5)
    codes = np.zeros(len(points), int)
    return search.DeviceSearch(known, codes, 1, metric, n_components=n_components)


def _densities(finder, asked):
    starts, weights = [0, 70], torch.zeros(150)
    return [finder.log_densities(*asked, starts, weights, 0.5)]


if WHAT == "compile":
    compile_only(int(sys.argv[2]))
else:
    numbers_of_arrays()
for check in (tails, frames, listed_pairs, searches):
    check()
print(triton.__version__, *sorted(set(COMPILED)))
