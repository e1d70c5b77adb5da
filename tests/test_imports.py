"""Imports point one way, and importing the package costs next to nothing."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "widemargin"

# Each part may import from the parts named with it, and from itself.
GROUND = {"_compute", "_core"}
CORE = GROUND | {"tangents", "metrics", "margins", "datasets"}
ESTIMATORS = {"prototypes", "neighbors", "svm", "linear", "meta"}
ALLOWED: dict[str, set[str]] = {
    # For type checkers only; a test below holds that nothing loads.
    "__init__": ESTIMATORS | {"progress"},
    "_core": {"_compute"},
    "progress": {"_compute"},
    "_compute": set(),
    "margins": {"_core"},
    "datasets": {"_core"},
    "tangents": GROUND,
    "metrics": GROUND | {"tangents"},
    **dict.fromkeys(ESTIMATORS, CORE),
    "inspection": CORE | ESTIMATORS,
    "export": CORE | ESTIMATORS | {"__init__"},
    "reproduce": CORE | ESTIMATORS | {"inspection"},
    "cli": CORE
    | ESTIMATORS
    | {"inspection", "export", "reproduce", "progress", "__init__"},
}


def part_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Every part of widemargin that a file imports, at the top or inside a function."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            modules = [node.module or ""]
            if node.module == "widemargin":
                modules = [f"widemargin.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            pieces = module.split(".")
            if pieces[0] == "widemargin":
                parts.add(pieces[1] if len(pieces) > 1 else "__init__")
    return parts


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_imports_point_downward(path):
    part = part_of(path)
    assert part in ALLOWED, f"say in ALLOWED what {part} may import"
    assert imported_parts(path) - {part} <= ALLOWED[part]


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
        "heavy = ('numba', 'matplotlib', 'typer', 'pooch', 'skops', 'onnx')\n"
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
    # Processor time, and the least of a few: the machine may be busy.
    assert min(seconds) < 0.05


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
        *widemargin._FUNCTIONS,
        "__version__",
    }
