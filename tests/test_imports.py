"""Imports point one way, and importing the package costs next to nothing."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "widemargin"

# Each part may import from the parts named with it, and from itself.
GROUND = {"_compute", "_core"}
CORE = GROUND | {"tangents", "metrics", "margins", "datasets"}
ESTIMATORS = {"prototypes", "neighbors", "svm", "linear", "meta", "fewshot"}
ALLOWED: dict[str, set[str]] = {
    # For type checkers only; a test below holds that nothing loads.
    "__init__": ESTIMATORS | {"_compute", "comparison", "saving"},
    "_core": {"_compute"},
    "saving": {"_core", "__init__"},
    "__main__": {"cli"},
    "_compute": set(),
    "margins": GROUND,
    "datasets": {"_core"},
    "tangents": GROUND,
    "metrics": GROUND | {"tangents"},
    "hyperplanes": CORE,
    **dict.fromkeys(ESTIMATORS, CORE),
    # Two public names of one room.
    "linear": CORE | {"hyperplanes"},
    "svm": {"hyperplanes"},
    "inspection": CORE | ESTIMATORS,
    "export": CORE | ESTIMATORS | {"hyperplanes", "__init__"},
    "comparison": CORE | ESTIMATORS | {"inspection"},
    "cli": CORE
    | ESTIMATORS
    | {"comparison", "inspection", "export", "saving", "__init__"},
}

# Within the shared packages, floors from the ground up: a module imports from lower
# floors only. Those on no floor stand above all of them, side by side; only kernels
# may call kernels.
FLOORS: dict[str, list[set[str]]] = {
    "_compute": [{"progress", "rounding"}, {"compiled"}, {"machine"}],
    "_core": [
        {"lazy", "select", "split"},
        {"arrays"},
        {"checks", "duplicates"},
        {"callbacks"},
        {"decisions", "temperature"},
        {"samples"},
        {"shards", "left_out"},
        {"classifier"},
        {"confidence"},
    ],
    "tangents": [
        {"bundle"},
        {"preparing"},
        {"generator", "spectra"},
        {"learned", "signal"},
    ],
    "metrics": [{"tangent"}],
}
# What only the machine's package may know.
MACHINE = {"numba", "threadpoolctl"}


def part_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement inside, however deep; expressions hold no imports."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()):
            yield inner
            yield from statements(inner)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path: Path) -> set[str]:
    """Every module that a file imports, at the top or inside a function."""
    modules = set()
    for node in statements(tree(path)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                modules.add(inside if inside in MODULES else str(node.module))
    return modules


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {name_of(path) for path in FILES}


@cache
def imports() -> dict[str, set[str]]:
    """What every module imports; read when the first test asks, not to name tests."""
    return {name_of(path): imported(path) for path in FILES}


def imported_parts(path: Path) -> set[str]:
    """Every part of widemargin that a file imports."""
    pieces = [module.split(".") for module in imports()[name_of(path)]]
    return {
        piece[1] if len(piece) > 1 else "__init__"
        for piece in pieces
        if piece[0] == "widemargin"
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downward(path):
    part = part_of(path)
    assert part in ALLOWED, f"say in ALLOWED what {part} may import"
    assert imported_parts(path) - {part} <= ALLOWED[part]


def within(part: str) -> dict[str, set[str]]:
    """For every module of a package, the modules of the same package it imports."""
    top = f"widemargin.{part}."
    return {
        module.removeprefix(top): {
            other.removeprefix(top) for other in others if other.startswith(top)
        }
        for module, others in imports().items()
        if module.startswith(top)
    }


@pytest.mark.parametrize("part", FLOORS)
def test_modules_import_from_lower_floors(part):
    graph = within(part)
    floor = {name: i for i, names in enumerate(FLOORS[part]) for name in names}
    assert set(floor) <= set(graph), f"FLOORS names what is not in {part}"
    for module, others in graph.items():
        for other in others:
            if part == "_compute" and not {module, other} & set(floor):
                continue
            lower = floor.get(other, len(FLOORS[part]))
            assert lower < floor.get(module, len(FLOORS[part])), f"{module} → {other}"


@pytest.mark.parametrize("part", sorted({part_of(path) for path in FILES}))
def test_no_modules_import_each_other(part):
    graph = within(part)
    while leaves := [module for module, others in graph.items() if not others]:
        graph = {
            module: others - set(leaves)
            for module, others in graph.items()
            if module not in leaves
        }
    assert not graph, "these import each other, in a circle"


def test_only_the_machine_knows_the_machine():
    for module, others in imports().items():
        roots = {other.partition(".")[0] for other in others}
        if not module.startswith(("widemargin._compute", "widemargin.cli.doctor")):
            assert not roots & MACHINE, module


def test_private_names_stay_where_they_are():
    for path in FILES:
        for node in statements(tree(path)):
            if isinstance(node, ast.ImportFrom) and "widemargin." in str(node.module):
                private = [a.name for a in node.names if a.name.startswith("_")]
                assert set(private) <= {"_compute", "_core"}, path


def run(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout


def test_heavy_libraries_load_only_when_used():
    parts = sorted(
        path.name
        for path in SOURCE.iterdir()
        if (path / "__init__.py").is_file() and not path.name.startswith("_")
    )
    code = (
        "import importlib, sys, widemargin\n"
        # scikit-learn imports pandas, and pandas pyarrow, where they are installed.
        "assert 'rich' not in sys.modules\n"
        f"for part in {parts!r}: importlib.import_module('widemargin.' + part)\n"
        "for name in widemargin.__all__: getattr(widemargin, name)\n"
        "heavy = ('numba', 'matplotlib', 'typer', 'pooch', 'skops', 'onnx', 'dask')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert run(code).strip() == "[]"


def test_import_adds_little_to_scikit_learn():
    code = (
        "import sklearn, sys, time\n"
        "before, start = set(sys.modules), time.process_time()\n"
        "import widemargin\n"
        "spent = time.process_time() - start\n"
        "print(spent, *(name for name in sys.modules if name not in before))"
    )
    seconds = []
    for _ in range(5):
        spent, *loaded = run(code).split()
        # What makes an import slow is what it loads: here nothing but itself.
        assert loaded == ["widemargin"]
        seconds.append(float(spent))
        if seconds[-1] < 0.05:
            return
    # Processor time, and the least of a few: the machine may be busy.
    pytest.fail(f"import widemargin takes {min(seconds):.3f} s above scikit-learn's")


def test_public_names_exist_and_the_rest_is_refused():
    import widemargin

    for name in dir(widemargin):
        assert getattr(widemargin, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = widemargin.nonsense


def test_the_estimators_listed_are_the_estimators_there_are():
    import widemargin

    public = {
        name: part
        for part in ESTIMATORS
        if (SOURCE / part).is_dir()
        for name in importlib.import_module(f"widemargin.{part}").__all__
    }
    classes = {
        name: part
        for name, part in public.items()
        if hasattr(getattr(widemargin.__getattr__(part), name), "predict")
    }
    assert classes == widemargin._ESTIMATORS
    assert set(widemargin.__all__) == {
        *classes,
        *widemargin._SUBPACKAGES,
        *widemargin._OTHERS,
        "__version__",
    }
