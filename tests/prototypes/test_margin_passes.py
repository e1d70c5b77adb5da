"""Margins against slow distances, gradients against finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from widemargin._compute import engines
from widemargin._compute.frames import straighten
from widemargin._compute.machine import held_threads
from widemargin.margins import relative_margin
from widemargin.metrics import TangentMetric, tangent_distances
from widemargin.prototypes.margin_ascent import OneSidedPass, TwoSidedPass
from widemargin.prototypes.tangent_models import random_frames
from widemargin.tangents import Bundle

SPRING = 0.05


@pytest.fixture(params=["engines", "formulas"], autouse=True)
def choice(request):
    """Whether passes are compiled: both do the same."""
    with engines.chosen(request.param):
        yield request.param


def problem(seed=0, n=30, d=8, n_models=5, m=2, n_own=0, dtype=float):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    frames = random_frames(n, n_own, d, rng).astype(dtype)
    codes = np.arange(n) % 3
    model_codes = np.arange(n_models) % 3
    C = rng.standard_normal((n_models, 1, d))
    stack = np.concatenate([C, random_frames(n_models, m, d, rng)], axis=1)
    gamma = rng.dirichlet(np.ones(n))
    return Bundle(X, frames), codes[:, None] == model_codes, stack, gamma


def make_pass(bundle, right, sides):
    centre = bundle.points.mean(axis=0)
    if sides == "reference":
        return OneSidedPass(bundle.points, right, centre), centre
    metric = TangentMetric(None, "both", SPRING)
    return TwoSidedPass(bundle, right, centre, metric), centre


def shifted(stack, centre):
    out = stack.copy()
    out[:, 0] -= centre
    return out


def slow_margins(bundle, right, stack, sides):
    """Margins by least squares, for tangents that need not be orthonormal."""
    spring = SPRING if sides == "both" else 0.0
    z = np.empty(right.shape)
    for i, (x, U) in enumerate(zip(bundle.points, bundle.frames, strict=True)):
        for j, model in enumerate(stack):
            A = np.concatenate([-U, model[1:]]).T
            A = np.concatenate([A, np.sqrt(spring) * np.eye(A.shape[1])])
            b = np.concatenate([x - model[0], np.zeros(A.shape[1])])
            p = np.linalg.lstsq(A, b, rcond=None)[0]
            z[i, j] = ((A @ p - b) ** 2).sum()
    plus = np.where(right, z, np.inf).min(axis=1)
    return relative_margin(plus, np.where(right, np.inf, z).min(axis=1))


@pytest.mark.parametrize(("sides", "n_own"), [("reference", 0), ("both", 2)])
def test_margins(sides, n_own):
    bundle, right, stack, gamma = problem(n_own=n_own)
    run_pass, centre = make_pass(bundle, right, sides)
    found = run_pass(shifted(stack, centre), gamma)
    assert_allclose(found.margins, slow_margins(bundle, right, stack, sides), atol=1e-9)
    D = tangent_distances(
        bundle.points,
        stack[:, 0],
        X_tangents=bundle.frames,
        Y_tangents=stack[:, 1:],
        sides="both" if n_own else "reference",
        spring=SPRING if n_own else 0.0,
    )
    assert_array_equal(found.nearest[:, 0], np.where(right, D, np.inf).argmin(1))
    assert_array_equal(found.nearest[:, 1], np.where(right, np.inf, D).argmin(1))


@pytest.mark.parametrize(
    ("sides", "n_own"), [("reference", 0), ("both", 1), ("both", 3)]
)
@pytest.mark.parametrize("m", [0, 1, 3])
def test_gradient_by_finite_differences(sides, n_own, m):
    bundle, right, stack, gamma = problem(n_own=n_own, m=m, seed=m)
    run_pass, centre = make_pass(bundle, right, sides)
    gradient = run_pass(shifted(stack, centre), gamma).gradient

    def H(stack):
        return float(gamma @ slow_margins(bundle, right, stack, sides))

    rng, step = np.random.RandomState(5), 1e-6
    for row in range(1 + m):
        direction = np.zeros_like(stack)
        direction[:, row] = rng.standard_normal(direction[:, row].shape)
        slope = (H(stack + step * direction) - H(stack - step * direction)) / (2 * step)
        assert_allclose((gradient * direction).sum(), slope, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(("sides", "n_own"), [("reference", 0), ("both", 2)])
def test_sizes_and_moments(sides, n_own):
    bundle, right, stack, gamma = problem(n_own=n_own)
    run_pass, centre = make_pass(bundle, right, sides)
    found = run_pass(shifted(stack, centre), gamma)
    assert_allclose(found.moments, found.moments.transpose(0, 2, 1))
    diagonal = np.einsum("kii->ki", found.moments)
    assert np.all(found.sizes >= np.abs(diagonal) - 1e-12)
    only_right = np.setdiff1d(found.nearest[:, 0], found.nearest[:, 1])
    assert_allclose(found.sizes[only_right], diagonal[only_right])


@pytest.mark.parametrize(("sides", "n_own"), [("reference", 0), ("both", 2)])
def test_threads_change_nothing(sides, n_own):
    bundle, right, stack, gamma = problem(n=1500, n_own=n_own)
    run_pass, centre = make_pass(bundle, right, sides)
    stack = shifted(stack, centre)
    with held_threads(1) as run:
        alone = run_pass(stack, gamma, run)
    with held_threads(2) as run:
        together = run_pass(stack, gamma, run)
    for one, two in zip(alone, together, strict=True):
        assert_array_equal(one, two)


@pytest.mark.parametrize("choice", ["engines"], indirect=True)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [1e-3, 0.5])
def test_models_that_are_left_out_are_not_nearest(step, dtype):
    bundle, right, stack, gamma = problem(n=400, d=40, n_models=12, m=15, dtype=dtype)
    # A class that varies in few directions has tangents of zeros.
    stack[0, -2:] = 0
    run_pass, _ = make_pass(bundle, right, "reference")
    rng, waits = np.random.RandomState(0), []
    for _ in range(12):
        stack = stack + step * rng.standard_normal(stack.shape) * (stack != 0)
        straighten(stack, 1)
        found = run_pass(stack, gamma)
        fresh = make_pass(bundle, right, "reference")[0](stack, gamma)
        assert_array_equal(found.nearest, fresh.nearest)
        for one, other in zip(found, fresh, strict=True):
            assert_allclose(one, other, atol=1e4 * np.finfo(dtype).eps)
        waits.append(run_pass.known.waits[0])
    # Models that hardly move are left out, and others only tried.
    assert sum(waits) == 0 or (step == 0.5 and max(waits) > 0)


def test_float32_is_close():
    bundle, right, stack, gamma = problem(n=200)
    narrow = Bundle(bundle.points.astype(np.float32), bundle.frames.astype(np.float32))
    wide_pass, centre = make_pass(bundle, right, "reference")
    narrow_pass, _ = make_pass(narrow, right, "reference")
    wide = wide_pass(shifted(stack, centre), gamma)
    found = narrow_pass(shifted(stack, centre), gamma)
    assert_allclose(found.gradient, wide.gradient, atol=1e-4)


def test_samples_in_both_models_have_no_slope():
    X = np.zeros((4, 3))
    right = (np.arange(4) % 2)[:, None] == np.arange(2)
    found = OneSidedPass(X, right, np.zeros(3))(np.zeros((2, 1, 3)), np.full(4, 0.25))
    assert_array_equal(found.margins, 0)
    assert_array_equal(found.gradient, 0)
