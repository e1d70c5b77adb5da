"""What pytest leaves out where an optional library is not installed, and needs set."""

import atexit
import gc
import os
from importlib.util import find_spec

import pytest

# Workers of pytest share the cores: threads of BLAS beside them wait for each other in
# loops that take more time than the work. The tests of threads ask for their own.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# scikit-learn's checks of other arrays skip without it, and it is read but once.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Tests, and what numba holds as it compiles, are a million objects that stay: they are
# looked through for garbage less often. Compiling alone in a script took 15 % less.
gc.set_threshold(100_000, 20, 20)

# Doctests import the modules they are in.
collect_ignore_glob = ["tests/typed_user.py"]  # read by mypy, never run
if find_spec("torch") is None:
    collect_ignore_glob.append("src/widemargin/_compute/device/*.py")

# A worker of pytest-xdist has sent its results when it ends. What else wants to end is
# registered later and comes before; taking apart a million objects took ten seconds.
if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(os._exit, 0)


@pytest.fixture
def few_folds(monkeypatch):
    """Fit two models without some samples, not ten, where temperatures do not matter.

    They take half of the time of tests that ask such models for probabilities.
    """
    from widemargin._core import left_out

    monkeypatch.setattr(left_out, "FOLDS", 2)
    monkeypatch.setattr(left_out, "FINE", 2)


def pytest_configure(config):
    """Let every run have the same examples: what fails fails again."""
    # Whoever only hands tests to workers need not know of it.
    if not getattr(config.option, "numprocesses", None):
        from hypothesis import settings

        settings.register_profile("tests", derandomize=True)
        settings.load_profile("tests")


def pytest_collection_finish():
    """Modules and tests stay: the collector of garbage need not look at them again."""
    gc.freeze()


# Two workers begin with halves of the tests: with parts that compile different kernels,
# or both would compile the same ones. What is many and short ends either half.
HALVES = (
    (
        "prototypes",
        "linear",
        "_core",
        "cluster",
        "cli",
        "export",
        "inspection",
        "papers",
        "browser",
    ),
    ("metrics", "neighbors", "svm", "tangents"),
)
SHORT = ("contract", "test_sklearn_checks.py")


def pytest_collection_modifyitems(items):
    """Put what takes long first, in two halves."""
    parts = {}
    for item in items:
        _, _, within = item.nodeid.partition("::")[0].partition("/")
        parts.setdefault(within.partition("/")[0], []).append(item)
    first, second, short = (
        [item for part in names for item in parts.pop(part, ())]
        for names in (*HALVES, SHORT)
    )
    rest = [item for part in parts.values() for item in part]
    middle = max(0, len(items) // 2 - len(first))
    items[:] = first + short[:middle] + second + rest + short[middle:]
