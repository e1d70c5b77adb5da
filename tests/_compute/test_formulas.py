"""Formulas over arrays against the compiled loops that stand in for them."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from widemargin import TangentDensityClassifier, TangentKNeighborsClassifier
from widemargin._compute import (
    engines,
    formulas,
    frames,
    pairs,
    tangent_elimination,
)
from widemargin.tangents import ImageTangents

X, y = load_digits(return_X_y=True)
IMAGE = ImageTangents((8, 8))


def ends(dtype, n=30, l_x=3, l_y=2, d=9, scale=1.0):
    rng = np.random.default_rng([n, l_x, l_y])
    x, z = rng.normal(size=(n, d)), rng.normal(size=(20, d))
    x[3] = z[5]
    x[4] = z[6] + 1e-9
    u = frames.orthonormal(rng.normal(size=(n, l_x, d)), 1e-10)
    v = frames.orthonormal(rng.normal(size=(20, l_y, d)), 1e-10)
    if min(l_x, l_y):
        # Frames that agree, and one that is blank.
        u[3, 0], v[7] = v[5, 0], 0
        u[3] = frames.orthonormal(u[3:4], 1e-10)[0]
    return [(scale * a).astype(dtype) for a in (x,)] + [
        a.astype(dtype) for a in (u, scale * z, v)
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sides", ["query", "reference", "both", "mean"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("tangents", [(3, 2), (2, 5), (4, 0)])
@pytest.mark.parametrize("spring", [0.0, 1e-5, 0.3, 1e30])
def test_pairs_are_those_of_the_kernels(dtype, sides, lower, tangents, spring):
    x, u, z, v = ends(dtype, 30, *tangents)
    found = []
    for choice in ("engines", "formulas"):
        with engines.chosen(choice):
            found.append(
                pairs.pair_distances(
                    x, u, z, v, sides=sides, spring=spring, lower=lower
                )
            )
    one, other = found
    error = 2e-4 if dtype == np.float32 else 1e-8
    if lower:
        # Where nothing can be said either is negative.
        known = (one >= 0) & (other >= 0)
        assert known.mean() > 0.8 or spring < 1e-4
        one, other = one[known], other[known]
    np.testing.assert_allclose(other, one, rtol=error, atol=error)


@pytest.mark.parametrize("spring", [0.0, 1e-5, 0.3])
@pytest.mark.parametrize("sides", ["reference", "both", "mean"])
def test_single_pairs_are_those_of_the_kernel(sides, spring):
    x, u, z, v = ends(np.float64)
    shape = len(x), len(z)
    i, j = (a.ravel() for a in np.indices(shape))
    d2 = formulas.listed_distances(x, u, z, v, i, j, sides, spring)
    by_kernel = tangent_elimination.listed_distances(x, u, z, v, i, j, sides, spring)
    np.testing.assert_allclose(d2, by_kernel, rtol=1e-9, atol=1e-15)
    assert d2.reshape(shape)[3, 5] == 0
    alone = [
        formulas.listed_distances(x, u, z, v, i[at], j[at], sides, spring)[0]
        for at in np.arange(len(i))[:, None]
    ]
    np.testing.assert_array_equal(alone, d2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(20, 4, 9), (20, 9, 4), (5, 1, 3), (3, 2, 1)])
def test_frames_are_those_of_the_kernel(shape, dtype):
    rng = np.random.default_rng(shape)
    tangents = rng.normal(size=shape) * np.geomspace(1, 1e150, len(shape))[1]
    if shape[1] > 2:
        tangents[1, 2] = tangents[1, 0] - 3 * tangents[1, 1]
        tangents[2], tangents[4, 1] = 0, 0
    if dtype == np.float32:
        tangents /= np.abs(tangents).max()
    tangents = tangents.astype(dtype)
    rtol = 1e-6
    found, compiled = formulas.gram_schmidt(tangents, rtol), frames.orthonormal
    np.testing.assert_allclose(found, compiled(tangents, rtol), atol=1e-10)
    products = found @ found.transpose(0, 2, 1)
    ones = np.einsum("nll->nl", products)
    np.testing.assert_allclose(
        products, ones[:, :, None] * np.eye(shape[1]), atol=1e-13
    )
    for i in range(shape[0]):
        alone = formulas.gram_schmidt(tangents[i : i + 1], rtol)
        np.testing.assert_array_equal(alone[0], found[i])


def by_either(function, *arguments):
    found = []
    for choice in ("engines", "formulas"):
        with engines.chosen(choice):
            found.append(function(*arguments))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sides", ["reference", "both", "mean"])
@pytest.mark.parametrize("kind", [formulas.ALL, formulas.SAME, formulas.OTHER])
@pytest.mark.parametrize("shared", [False, True])
def test_the_nearest_are_those_of_the_kernels(dtype, sides, kind, shared):
    x, u, z, v = ends(dtype, l_x=0 if sides == "reference" else 3)
    v = v[:1] if shared else v
    labels, own = np.arange(len(x)) % 4, np.arange(len(z)) % 3
    rest = (x, u, z, v, sides, 1e-5, formulas.Counted(labels, own, kind), 8, None)
    d2 = formulas.listed_distances(
        x, u, z, v, *(a.ravel() for a in np.indices((30, 20))), sides, 1e-5
    ).reshape(30, 20)
    bounds = (0.9 * d2 - 1e-3).astype(dtype)
    candidates = np.argsort(d2, axis=1)[:, :9]
    for function, material in (
        (formulas.nearest_under_bounds, bounds),
        (formulas.nearest_of_candidates, candidates),
    ):
        by_kernel, by_formula = by_either(function, material, *rest)
        np.testing.assert_array_equal(by_kernel[1], by_formula[1])
        np.testing.assert_allclose(by_kernel[0], by_formula[0], rtol=1e-9, atol=1e-15)
    # Of some labels there are fewer than wanted.
    assert (by_formula[1] == 20).any() == (kind != formulas.ALL)


@pytest.mark.parametrize("n", [1, 6])
def test_midpoints_are_those_of_the_kernel(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 9)), rng.normal(size=(7, 9))
    u, v = rng.normal(size=(n, 3, 9)), rng.normal(size=(7, 3, 9))
    # Tangents that cancel, some that depend on others, and none.
    u[0, 1], v[1, 1], v[2, 2], v[3] = -v[0, 1], v[1, 0], 0, 0
    by_kernel, by_formula = by_either(formulas.affine_midpoint_tile, x, u, y, v, 1e-5)
    np.testing.assert_allclose(by_formula, by_kernel, rtol=1e-8)


@pytest.mark.parametrize("spring", [0.0, 1e-5, 0.3])
def test_best_moves_are_those_of_the_kernel(spring):
    x, u, z, v = ends(np.float32)
    found = by_either(formulas.best_moves, x[:20] - z, u[:20], v, spring)
    for by_kernel, by_formula in zip(*found, strict=True):
        np.testing.assert_allclose(by_formula, by_kernel, rtol=1e-6, atol=1e-9)


def test_projected_frames_are_those_of_the_kernel():
    rng = np.random.default_rng(0)
    v, axes = ends(np.float64)[3], np.linalg.qr(rng.normal(size=(9, 4)))[0].T
    by_kernel, by_formula = by_either(formulas.projected, v, axes)
    np.testing.assert_allclose(by_formula, by_kernel, atol=1e-12)


def test_the_nearest_of_listed_pairs():
    i, j = np.array([1, 0, 1, 1, 1]), np.array([4, 2, 3, 1, 5])
    d2 = np.array([0.5, 1.0, 0.5, 2.0, 3.0])
    found = formulas.nearest_listed(i, j, d2, 3, 2, 9)
    np.testing.assert_array_equal(found[0], [[1, np.inf], [0.5, 0.5], [np.inf] * 2])
    np.testing.assert_array_equal(found[1], [[2, 9], [3, 4], [9, 9]])


@pytest.mark.parametrize(
    "Classifier", [TangentKNeighborsClassifier, TangentDensityClassifier]
)
def test_either_way_answers_alike(Classifier):
    scores = []
    for choice in ("engines", "formulas"):
        with engines.chosen(choice):
            model = Classifier(tangents=IMAGE).fit(X[:200], y[:200])
            scores.append(model.decision_function(X[200:300]))
    np.testing.assert_allclose(*scores, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "Classifier", [TangentKNeighborsClassifier, TangentDensityClassifier]
)
def test_a_sample_alone_is_answered_as_among_others(Classifier):
    model = Classifier(tangents=IMAGE).fit(X[:200], y[:200])
    answers = model.predict(X[200:300])
    for i in range(0, 100, 9):
        assert model.predict(X[200 + i : 201 + i])[0] == answers[i]


@pytest.mark.parametrize(
    "name", ["TangentKNeighborsClassifier", "TangentDensityClassifier"]
)
def test_small_work_compiles_nothing(name):
    code = f"""
import sys
from sklearn.datasets import load_digits
from widemargin import {name}
from widemargin.tangents import ImageTangents
X, y = load_digits(return_X_y=True)
model = {name}(tangents=ImageTangents((8, 8))).fit(X[:900], y[:900])
model.predict(X[900:])
model.margins(X[900:950], y[900:950])
model.predict_proba(X[900:950])
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
