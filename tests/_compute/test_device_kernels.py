"""Triton kernels, compiled for GPUs that are not there and interpreted on the CPU."""

import ctypes
import importlib.util
import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from widemargin._compute.device import kernels  # noqa: E402
from widemargin._compute.progress import observed_by  # noqa: E402

# .ci/run installs the lowest and the newest that the extra allows.
PLACES = sorted(Path(".venv/triton").glob("*/triton"))
TRITONS = {place.parent.name: str(place.parent.resolve()) for place in PLACES}
if importlib.util.find_spec("triton"):
    TRITONS["installed"] = ""


@pytest.mark.parametrize("what", ["compile 80", "compile 90", "interpret"])
@pytest.mark.parametrize("triton", list(TRITONS) or [None])
def test_kernels_without_a_gpu(triton, what, tmp_path):
    if triton is None:
        pytest.skip("no Triton: .ci/run installs two for this test")
    source = Path(kernels.__file__).parents[3]
    script = source.parent / ".ci" / "kernels.py"
    # A cache of its own: what was compiled before the change would hide its error.
    places = {"TRITON_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    places["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source), TRITONS[triton]]))
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *what.split()],
        env=os.environ | places,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]


NVRTC = next(Path(".venv/nvrtc").glob("nvidia/*/lib/libnvrtc.so.*"), None)


@pytest.mark.parametrize(("patch", "window"), [(0, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("capability", [80, 90])
def test_cuda_c_is_compiled_without_a_gpu(capability, patch, window):
    if NVRTC is None:
        pytest.skip("no compiler of CUDA C: .ci/run installs one for this test")
    from widemargin._compute.device import distortion

    nvrtc, program, size = ctypes.CDLL(str(NVRTC)), ctypes.c_void_p(), ctypes.c_size_t()
    source = distortion.source_for(28, 28, 2, patch, window).encode()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source, b"distortion.cu", 0, None, None
    )
    assert created == 0
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{capability}".encode())
    failed = nvrtc.nvrtcCompileProgram(program, 1, options)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert not failed, log.value.decode()
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    assert size.value > 0


def test_kernels_are_compiled_in_threads_and_waited_for_when_launched(monkeypatch):
    import threading

    ran, entered = [], threading.Event()

    class Kernel:
        def __init__(self, name):
            self.name = name

        def warmup(self, *arguments, grid, **constants):
            # The caller goes on meanwhile.
            assert entered.wait(60)
            ran.append(f"compile {self.name}")

        def __getitem__(self, grid):
            return lambda *arguments, **constants: ran.append(f"run {self.name}")

    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    one, other = Kernel("one"), Kernel("other")
    calls = {kernel: partial(kernels.launch, kernel, (1,)) for kernel in (one, other)}
    told = []

    @contextmanager
    def listen(description, total):
        told.append(description)
        yield lambda amount=1: None

    with observed_by(listen):
        assert kernels.compile_ahead(calls, torch.device("cuda", 0))
        # Those on their way are not compiled twice.
        assert not kernels.compile_ahead(calls, torch.device("cuda", 0))
        assert kernels.compiling()
        assert not ran
        entered.set()
        calls[one]()
        assert not kernels.compiling()
        assert sorted(ran[:2]) == ["compile one", "compile other"]
        calls[other]()
        assert not kernels.compile_ahead(calls, torch.device("cuda", 0))
    assert ran[2:] == ["run one", "run other"]
    assert told == ["kernels"]


@pytest.mark.parametrize("busy", [True, False])
def test_few_pairs_do_not_wait_for_kernels(busy, monkeypatch):
    from widemargin._compute.device import search
    from widemargin.metrics import TangentMetric

    monkeypatch.setattr(search, "compiling", lambda: busy)
    alone = []

    def nearest(self, points, frames, n_neighbors):
        alone.append(kernels._thread.torch_alone)

    monkeypatch.setattr(search.DeviceSearch, "_nearest", nearest)
    points, frames = torch.randn(30, 8), torch.zeros(30, 2, 8)
    known = SimpleNamespace(points=points, frames=frames, is_shared=False)
    finder = search.DeviceSearch(known, np.zeros(30, int), 1, TangentMetric())
    finder.nearest(points[:2], frames[:2], 1)
    monkeypatch.setattr(search, "FEW_PAIRS", 59)
    finder.nearest(points[:2], frames[:2], 1)
    assert alone == [busy, False]
    # What was so before is so again.
    assert not kernels._thread.torch_alone


def test_the_extra_allows_the_versions_that_the_code_knows():
    import tomllib

    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    asked = project["optional-dependencies"]["gpu"][1].split(";")[0]
    assert asked == f"triton{kernels.WANTED}"


@pytest.mark.parametrize("version", [None, "3.1.0", "3.10.0", "4.0"])
def test_torch_alone_where_triton_is_not_known(version, monkeypatch):
    there = None if version is None else SimpleNamespace(__version__=version)
    monkeypatch.setitem(sys.modules, "triton", there)
    monkeypatch.setattr(kernels, "EVERYWHERE", True)
    kernels._triton.cache_clear()
    with pytest.warns(UserWarning, match=r"torch alone .*triton>=3.2,<3.10"):
        assert kernels.triton_for(torch.ones(1)) is None
    # Once.
    assert kernels.triton_for(torch.ones(1)) is None
    kernels._triton.cache_clear()


def test_torch_alone_on_a_gpu_too_old(monkeypatch):
    there = SimpleNamespace(__version__="3.2.0")
    monkeypatch.setitem(sys.modules, "triton", there)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla T4")
    kernels._triton.cache_clear()
    with pytest.warns(
        UserWarning, match=r"torch alone .*Tesla T4 has no compute capability 8.0"
    ):
        assert kernels._triton(torch.device("cuda", 0)) is None
    kernels._triton.cache_clear()
