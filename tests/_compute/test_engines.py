"""Engines: each does what its formula does, and is taken where it is worth it."""

import numpy as np
import pytest

from widemargin._compute import engines, nearest

RNG = np.random.RandomState(0)


def distances(dtype):
    D = RNG.uniform(1, 2, size=(40, 7)).astype(dtype)
    D[::3, 2] = D[::3, 5] = 0.5
    return D


# For every formula: the function, and arguments that reach all that it does.
EXAMPLES = {
    "class_minima": lambda dtype: (
        nearest.class_minima,
        (distances(dtype), np.array([3, 0, 0, 1, 3, 1, 1]), 5),
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
# What answers are made of: the same bits, whatever the batch.
ANSWERS = {"class_minima", "doubtful"}


def as_arrays(found):
    return [np.asarray(a) for a in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(engines.ENGINES))
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


def test_sizes_decide_and_nothing_else():
    few, many = np.ones((10, 10)), np.ones((10_000, 1000))
    assert engines.engine_for("class_minima", few, np.arange(10), 10) is None
    assert engines.engine_for("class_minima", many, np.arange(1000), 1000) is not None
    assert engines.engine_for("nothing of the name", many) is None


def test_engines_take_what_kernels_know():
    half = np.ones((10_000, 1000), np.float16)
    with engines.chosen("engines"):
        assert engines.engine_for("class_minima", half, np.arange(1000), 9) is None
