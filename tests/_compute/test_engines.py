"""Engines: each does what its formula does, and is taken where it is worth it."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris

from widemargin._compute import engines, nearest, sequential
from widemargin._compute.patterns import (
    DYNAMIC,
    FIXED_LENGTH,
    FREE_LENGTH,
    RELAXATION,
    STANDARD,
    Limits,
    Order,
    Rule,
    Trace,
)
from widemargin.hyperplanes.active_set import solve_working_set
from widemargin.hyperplanes.patterns import reflect
from widemargin.hyperplanes.sweeps import shuffle, sweep
from widemargin.hyperplanes.walks import start_walk
from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    LVQClassifier,
    MarginLVQClassifier,
    TVQClassifier,
    margin_lvq,
    tangent_models,
)

RNG = np.random.RandomState(0)


def test_formulas_have_names_of_their_own():
    def class_minima(D):
        return D

    with pytest.raises(TypeError, match="there is a formula class_minima in widemar"):
        engines.formula(class_minima)


def test_kernels_are_compiled_again_when_one_they_call_changes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    njit = "from widemargin._compute.compiled import njit\n"
    called, caller = tmp_path / "called_kernel.py", tmp_path / "calling_kernel.py"
    caller.write_text(
        f"{njit}from called_kernel import f\n@njit()\ndef g(x):\n    return f(x)\n"
    )
    for more in (1, 20, 20):
        called.write_text(f"{njit}@njit()\ndef f(x):\n    return x + {more}\n")
        for name in ("called_kernel", "calling_kernel"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        assert importlib.import_module("calling_kernel").g(1.0) == 1.0 + more
    monkeypatch.delitem(sys.modules, "called_kernel")
    monkeypatch.delitem(sys.modules, "calling_kernel")


def distances(dtype):
    D = RNG.uniform(1, 2, size=(40, 7)).astype(dtype)
    D[::3, 2] = D[::3, 5] = 0.5
    return D


def frames_of_all_kinds():
    """Nearly orthonormal, oblique, dependent and zero rows."""
    frames = np.stack([np.eye(4, 9) for _ in range(5)])
    frames[:2] += 0.1 * RNG.standard_normal((2, 4, 9))
    frames[1, 2] = frames[1, 0] + 2 * frames[1, 1]
    frames[2, 1] = 0
    frames[3, 3] = 1e-3 * frames[3, 0] + 1e-9 * frames[3, 3]
    frames[4] *= 1e6
    return frames


def working_set():
    """Reflected patterns of two classes, begun from some; a free bias."""
    signs = np.where(np.arange(40) % 2, 1.0, -1.0)
    X = RNG.standard_normal((40, 12)) + signs[:, None]
    start = np.where(np.arange(40) < 4, 0.1, 0.0)
    return signs[:, None] * X, signs, start, 0.0, -1.0, 10.0, 1e-9


def swept(rule, sparse=False, cycle=True, mix=False):
    """Sweep over patterns, `mix` draws orders; return the status and where that led."""
    signs = np.where(np.arange(30) % 2, 1.0, -1.0)
    X = RNG.standard_normal((30, 5)) + signs[:, None]
    start, diag = np.where(np.arange(30) < 3, 0.5, 0.0), np.full(30, 0.3)
    patterns = reflect(csr_array(X) if sparse else X, signs, rho=2.0, diag=diag)
    factors = RNG.uniform(0.5, 1.5, 30)

    repeat = cycle and rule.kind in (FREE_LENGTH, DYNAMIC) and not rule.shaped
    order = Order(np.arange(30), np.array([7], np.uint64), repeat, cycle, mix)
    walk, limits = start_walk(patterns, start), Limits(6, 300.0, 31, 6)

    def run(rows, factors, walk, rule, show, limits):
        trace = Trace(np.zeros(40, np.int64), np.zeros(40))
        walk, order, seed = walk.copy(), show.order.copy(), show.seed.copy()
        show = show._replace(order=order, seed=seed)
        end = sweep(rows, factors, walk, rule, show, limits, trace)
        return *end, *walk, *trace, order, seed

    return run, (patterns.rows, factors, walk, rule, order, limits)


RULES = {
    "standard": Rule(STANDARD, b=0.5, rate=0.7),
    "relaxation": Rule(RELAXATION, b=0.5, b_upper=2.0, rate=0.9),
    "free": Rule(FREE_LENGTH, beta=0.6),
    "shaped": Rule(FREE_LENGTH, beta=0.6, shaped=True),
    "fixed": Rule(FIXED_LENGTH, beta=0.6),
    "dynamic": Rule(DYNAMIC, eps=0.3),
    "beyond": Rule(FREE_LENGTH, beta=5.0),
}


# For every formula: the function, and arguments that reach all that it does.
EXAMPLES = {
    "class_minima": lambda dtype: (
        nearest.class_minima,
        (distances(dtype), np.array([3, 0, 0, 1, 3, 1, 1]), 5),
    ),
    # Steps are counted otherwise: the kernel takes two patterns at once.
    "solve_working_set": lambda dtype: (
        lambda *given: solve_working_set(*given)[:3],
        working_set(),
    ),
    "sweep": lambda dtype: swept(RULES["dynamic"], sparse=dtype == np.float32),
    "retract": lambda dtype: (
        tangent_models.retract,
        (frames_of_all_kinds(),),
    ),
    "margin_coefficients": lambda dtype: (
        margin_lvq.margin_coefficients,
        (
            distances(dtype)[:6],
            np.array([0, 2, 2, 5, 6]),
            distances(dtype),
            RNG.randint(4, size=40),
            margin_lvq.SOFT,
            2,
            0.3,
        ),
    ),
    "nearest_rows": lambda dtype: (
        nearest.nearest_rows,
        (distances(dtype), distances(dtype)[::5].copy()),
    ),
    "doubtful": lambda dtype: (
        nearest.doubtful,
        (
            distances(dtype),
            RNG.uniform(0, 1e-3, 40).astype(dtype),
            RNG.uniform(0, 1e-3, 7).astype(dtype),
            1e-3,
        ),
    ),
}
# Those that are compared in test_formulas.
IN_FORMULAS = {
    *(
        "elimination",
        "elimination of a pass",
        "nearest_under_bounds",
        "nearest_of_candidates",
    ),
    *("project_midpoints", "best_moves", "orthonormal", "projected"),
}
# Learners, for the engines of whole passes.
IRIS = load_iris(return_X_y=True)
FITS = {
    "one_sided": TVQClassifier(2, n_tangents=1, random_state=0),
    "glvq_pass": GLVQClassifier(3, random_state=0),
    "gmlvq_pass": GMLVQClassifier(2, random_state=0),
    "lvq1_epoch": LVQClassifier(3, algorithm=("lvq1", "olvq1"), random_state=0),
    "window_epoch": LVQClassifier(3, algorithm=("lvq3", "lvq2.1"), random_state=0),
    "pair_epoch": LVQClassifier(3, random_state=0),
    "margin_epoch": MarginLVQClassifier(
        3, decision="k_nearest", loss="exponential", random_state=0
    ),
}
# What answers are made of: the same bits, whatever the batch.
ANSWERS = {"class_minima", "doubtful", "nearest_rows"}


def as_arrays(found):
    return [np.asarray(a) for a in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_engine_does_what_its_formula_does(name, dtype):
    function, arguments = EXAMPLES[name](dtype)
    with engines.chosen("engines"):
        assert engines.engine_for(name, *arguments) is not None
        by_engine = as_arrays(function(*arguments))
    with engines.chosen("formulas"):
        by_formula = as_arrays(function(*arguments))
    for a, b in zip(by_engine, by_formula, strict=True):
        if name in ANSWERS:
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
        else:
            scale = np.finfo(dtype).eps * 1e3
            np.testing.assert_allclose(a, b, rtol=scale, atol=scale)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("cycle", [False, True])
@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_few_patterns_are_swept_over_as_many_are(rule, mix, cycle, sparse):
    run, given = swept(RULES[rule], sparse, cycle, mix)
    found = []
    for choice in ("engines", "formulas"):
        with engines.chosen(choice):
            found.append(as_arrays(run(*given)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 64, 65, 66, 300])
def test_few_patterns_are_shown_in_the_order_of_many(n):
    orders, seeds = np.tile(np.arange(n), (2, 1)), np.full((2, 1), 2**63 + 11, "u8")
    for _ in range(3):
        sequential.shuffle(orders[0], n, seeds[0])
        shuffle(orders[1], seeds[1])
        np.testing.assert_array_equal(*orders)
        np.testing.assert_array_equal(*seeds)


def test_every_engine_has_an_example():
    compiled = {
        name
        for name in engines.ENGINES
        if any(one.compiles for one in engines.listed(name))
    }
    assert {*EXAMPLES, *FITS, *IN_FORMULAS} == compiled


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(FITS))
def test_an_engine_trains_as_its_formula_does(name, dtype):
    X, y = IRIS
    fitted = []
    for choice in ("engines", "formulas"):
        with engines.chosen(choice):
            fitted.append(clone(FITS[name]).fit(X.astype(dtype), y))
    by_engine, by_formula = fitted
    assert by_engine.prototypes_.dtype == dtype
    # What rounding decides is not the same: in float32 only the ends are compared.
    rtol = 1e-9 if dtype == np.float64 else 0.02
    np.testing.assert_allclose(
        by_engine.prototypes_, by_formula.prototypes_, rtol=rtol, atol=rtol
    )
    losses = [model.history_["loss"] for model in fitted]
    np.testing.assert_allclose(*losses, rtol=rtol, atol=rtol)


def test_sizes_decide_and_nothing_else():
    few, many = np.ones((10, 10)), np.ones((10_000, 1000))
    assert engines.engine_for("class_minima", few, np.arange(10), 10) is None
    assert engines.engine_for("class_minima", many, np.arange(1000), 1000) is not None
    assert engines.engine_for("nothing of the name", many) is None


SMALL = """
import sys, warnings
from sklearn.datasets import load_{data}
from widemargin.linear import *
from widemargin.prototypes import *
X, y = load_{data}(return_X_y=True)
warnings.simplefilter("ignore")
{model}.fit(X[:{n}], y[:{n}]).predict(X)
assert "numba" not in sys.modules
"""


@pytest.mark.parametrize(
    ("model", "data", "n"),
    [
        ("GLVQClassifier()", "iris", 150),
        ("GMLVQClassifier()", "iris", 150),
        ("LVQClassifier()", "iris", 150),
        ("KernelLVQClassifier()", "iris", 150),
        ("MarginLVQClassifier()", "iris", 150),
        ("HSSClassifier()", "digits", 900),
        ("TVQClassifier()", "digits", 900),
        ("MaxMarginClassifier()", "iris", 150),
        ("MaxMarginClassifier(C=float('inf'))", "iris", 100),
        ("MaxMarginClassifier(C=float('inf'), kernel='rbf')", "iris", 100),
        ("MaxMarginClassifier(C=float('inf'), penalize_intercept=True)", "iris", 100),
    ],
)
def test_small_fits_compile_nothing(model, data, n, tmp_path):
    subprocess.run(
        [sys.executable, "-c", SMALL.format(model=model, data=data, n=n)],
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )


def test_engines_take_what_kernels_know():
    half = np.ones((10_000, 1000), np.float16)
    with engines.chosen("engines"):
        assert engines.engine_for("class_minima", half, np.arange(1000), 9) is None
