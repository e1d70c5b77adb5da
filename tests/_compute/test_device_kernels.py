"""Triton kernels, compiled for GPUs that are not there and interpreted on the CPU."""

import ctypes
import importlib.util
import os
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

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


def test_kernels_are_compiled_in_threads_while_others_run(monkeypatch):
    import threading

    ran, entered = [], threading.Event()

    class Kernel:
        def __init__(self, name):
            self.name = name

        def warmup(self, *arguments, grid, **constants):
            # The body goes on meanwhile.
            assert entered.wait(60)
            ran.append(f"compile {self.name}")

        def __getitem__(self, grid):
            return lambda *arguments, **constants: ran.append(f"run {self.name}")

    class Device:
        def __init__(self, device):
            pass

        def __enter__(self):
            pass

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(torch.cuda, "device", Device)
    one, other = Kernel("one"), Kernel("other")
    calls = {kernel: partial(kernels.launch, kernel, (1,)) for kernel in (one, other)}
    told = []

    @contextmanager
    def listen(description, total):
        told.append(description)
        yield lambda amount=1: None

    for _ in range(2):
        with observed_by(listen):
            with kernels.compiled_meanwhile(calls, torch.device("cuda", 0)):
                entered.set()
                # Waits for its own kernel, and says nothing more.
                calls[one]()
                assert "compile one" in ran
                assert ran[-1] == "run one" or ran[-1] == "compile other"
            calls[other]()
    assert sorted(set(ran)) == ["compile one", "compile other", "run one", "run other"]
    assert ran.count("compile one") == ran.count("compile other") == 1
    assert told == ["kernels"]


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
