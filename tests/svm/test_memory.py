"""Gram matrices that memory does not hold are refused; what is promised is kept."""

from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_digits

from widemargin import MaxMarginClassifier
from widemargin._compute import machine
from widemargin._compute.machine import available_bytes
from widemargin.hyperplanes import pairwise
from widemargin.metrics import (
    image_distortion_distances,
    tangent_distances,
    tangent_kernel,
)
from widemargin.svm import JitteredSVC, TangentSVC
from widemargin.tangents import ImageTangents

GIB = 2**30


def system(root, available_kib=100 * 2**20, groups="", **files):
    """A made-up /proc and /sys."""
    files = {
        "proc/meminfo": f"MemTotal: 9 kB\nMemAvailable:   {available_kib} kB\n",
        "proc/self/cgroup": groups,
        **files,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_memory_there_is():
    assert 1e6 < available_bytes() < 1e16


def test_memory_of_the_machine(tmp_path):
    assert available_bytes(system(tmp_path, 5 * 2**20)) == 5 * GIB


@pytest.mark.parametrize("path", ["/", "/host/only/path"])
def test_memory_of_a_container(tmp_path, path):
    group = {
        "sys/fs/cgroup/memory.max": f"{3 * GIB}\n",
        "sys/fs/cgroup/memory.current": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory.stat": f"anon 7\ninactive_file {GIB // 2}\n",
    }
    root = system(tmp_path, groups=f"0::{path}\n", **group)
    assert available_bytes(root) == 1.5 * GIB


def test_every_group_up_to_the_root_limits(tmp_path):
    group = {
        "sys/fs/cgroup/memory.max": "max\n",
        "sys/fs/cgroup/memory.current": "1\n",
        "sys/fs/cgroup/outer/memory.max": f"{2 * GIB}\n",
        "sys/fs/cgroup/outer/memory.current": f"{GIB}\n",
        "sys/fs/cgroup/outer/inner/memory.max": f"{9 * GIB}\n",
        "sys/fs/cgroup/outer/inner/memory.current": "0\n",
    }
    assert available_bytes(system(tmp_path, groups="0::/outer/inner\n", **group)) == GIB


def test_memory_of_a_group_of_the_first_version(tmp_path):
    folder = "sys/fs/cgroup/memory/docker/abc"
    group = {
        f"{folder}/memory.limit_in_bytes": f"{4 * GIB}\n",
        f"{folder}/memory.usage_in_bytes": f"{3 * GIB}\n",
        f"{folder}/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB}\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
    }
    lines = "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n"
    assert available_bytes(system(tmp_path, groups=lines, **group)) == 2 * GIB


def test_an_exhausted_group_has_nothing_left(tmp_path):
    group = {
        "sys/fs/cgroup/memory.max": "10\n",
        "sys/fs/cgroup/memory.current": "20\n",
    }
    assert available_bytes(system(tmp_path, groups="0::/\n", **group)) == 0


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:160] / 16, y[:160]


@pytest.mark.parametrize(
    ("settings", "dtype", "bytes_per_entry"),
    [
        ({}, np.float64, 8),
        ({}, np.float32, 12),
        ({"sides": "reference"}, np.float64, 8),
        ({"probability": True}, np.float64, 24),
        ({"psd_correction": "shift"}, np.float64, 16),
        ({"psd_correction": "clip", "probability": True}, np.float32, 24),
    ],
)
def test_too_large_a_gram_matrix(digits, monkeypatch, settings, dtype, bytes_per_entry):
    X, y = digits
    needed = 160**2 * (bytes_per_entry + 4)
    monkeypatch.setattr(machine, "available_bytes", lambda: needed - 1)
    message = rf"160 × 160 × {bytes_per_entry} bytes.*n_landmarks=1000"
    with pytest.raises(MemoryError, match=message):
        TangentSVC(**settings).fit(X.astype(dtype), y)
    TangentSVC(n_landmarks=10).fit(X, y)
    monkeypatch.setattr(machine, "available_bytes", lambda: needed)
    TangentSVC(**settings).fit(X.astype(dtype), y)


@pytest.mark.parametrize(("repair", "size"), [("auto", 8), ("shift", 16), ("flip", 24)])
def test_too_large_a_jittered_gram_matrix(digits, monkeypatch, repair, size):
    there = 160**2 * (size + 4) - 1
    monkeypatch.setattr(machine, "available_bytes", lambda: there)
    with pytest.raises(MemoryError, match=rf"160 × 160 × {size} bytes.*VirtualSVC"):
        JitteredSVC(psd_correction=repair).fit(*digits)


IMAGES = ImageTangents((8, 8))


@pytest.mark.parametrize(
    ("ask", "way_out"),
    [
        (lambda X: tangent_distances(X, X[:50], tangents=IMAGES), "n_landmarks=1000"),
        (lambda X: tangent_kernel(X, X[:50], gamma=1.0, tangents=IMAGES), "landmarks"),
        (
            lambda X: tangent_distances(X, X[:50], tangents=IMAGES, sides="midpoint"),
            "some rows of X",
        ),
        (
            lambda X: image_distortion_distances(X, X[:50], shape=(8, 8)),
            "some rows of X",
        ),
    ],
)
def test_too_many_pairs(digits, monkeypatch, ask, way_out):
    monkeypatch.setattr(machine, "available_bytes", lambda: 160 * 50 * 8 - 1)
    expected = ask(digits[0])
    message = rf"^X: .* 160 × 50 × 8 bytes, and .* available\. .*{way_out}"
    with (
        sklearn.config_context(working_memory=0.01),
        pytest.raises(MemoryError, match=message),
    ):
        ask(digits[0])
    monkeypatch.setattr(machine, "available_bytes", lambda: 160 * 50 * 8)
    with sklearn.config_context(working_memory=0.01):
        np.testing.assert_allclose(ask(digits[0]), expected)


def test_too_large_a_kernel_matrix_of_a_plane(monkeypatch):
    X = np.random.default_rng(0).normal(size=(1200, 3))
    y = X[:, 0] > 0
    plane = MaxMarginClassifier(kernel="rbf", gamma=0.1, C=1e-3)
    monkeypatch.setattr(machine, "available_bytes", lambda: 24 * 1001**2)
    with pytest.raises(MemoryError, match=r"^X: .* × 24 bytes.*kernel='linear'"):
        plane.fit(X, y)


def status(name):
    """A size of this process in bytes, as Linux tells it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    return pytest.skip("no memory status here")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sides": "reference"},
        {"probability": True},
        {"kernel": lambda d2: np.exp(-0.1 * d2) + 0 * d2},
        {"kernel": "nd", "psd_correction": "clip"},
        {"kernel": "log", "psd_correction": "flip"},
        {"psd_correction": "shift"},
    ],
)
def test_no_more_memory_than_promised(settings, dtype, monkeypatch):
    reset = Path("/proc/self/clear_refs")
    n = 1500
    X, y = load_digits(return_X_y=True)
    X, y = (X[:n] / 16).astype(dtype), y[:n]
    asked = {}
    monkeypatch.setattr(
        pairwise, "require_gram_fits", lambda n, size, way_out: asked.update({n: size})
    )
    svc = TangentSVC(tangents=ImageTangents((8, 8), ["x_shift"]), **settings)
    svc.fit(X[:80], y[:80])
    try:
        reset.write_text("5")
    except OSError:
        pytest.skip("the peak of memory cannot be reset here")
    before = status("VmRSS")
    svc.fit(X, y)
    # Frames, blocks of products and the solver's cache do not grow with n².
    slack = 16 * 2**20
    assert status("VmHWM") - before < n**2 * asked[n] + slack
