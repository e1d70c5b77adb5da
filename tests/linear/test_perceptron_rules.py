"""Every [T] of the perceptron analysis, on the compiled loop itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.linear.oracles import (
    augmented,
    best_direction,
    replay,
    separable_sets,
    sweep_reference,
)

from widemargin._compute import patterns as perceptron
from widemargin._compute.patterns import Rule, Trace
from widemargin.hyperplanes.patterns import random_state_array, reflect
from widemargin.hyperplanes.walks import (
    Budget,
    directional_margin,
    run_sweeps,
    start_walk,
)
from widemargin.margins import perceptron_bounds
from widemargin.margins import perceptrons as bounds_of

SLACK = 1 + 1e-9
few = settings(max_examples=15, deadline=None)


def go(patterns, walk, kind, max_sweeps=20_000, **options):
    """Sweep with a rule; its numbers and other options come in one dict."""
    names = set(Rule._fields)
    numbers = {k: v for k, v in options.items() if k in names}
    others = {k: v for k, v in options.items() if k not in names}
    seed = others.pop("seed", random_state_array(1))
    rule, quick = Rule(kind, **numbers), others.pop("quick", False)
    shuffle = others.pop("shuffle", True)
    others["order"] = "quick" if quick else "random" if shuffle else "given"
    budget = Budget(max_sweeps, updates=others.pop("max_updates", np.inf))
    return run_sweeps(patterns, walk, rule, budget, seed, **others)


def run(X, signs, rho, kind, n_trace=200_000, start=None, **options):
    """Run the loop with a trace; (walk, patterns, indices, steps, status)."""
    patterns = reflect(X, signs, rho=rho)
    walk = start_walk(patterns, start)
    trace = Trace(np.zeros(n_trace, dtype=np.int64), np.zeros(n_trace))
    status = go(patterns, walk, kind, max_updates=n_trace, trace=trace, **options)
    t = min(walk.n_updates, n_trace)
    return walk, patterns, trace[0][:t], trace[1][:t], status


def lengths(Y):
    norms = np.linalg.norm(Y, axis=1)
    return norms.max(), norms.min()


def assert_always_helps(vectors, u, after):
    """u_t.u rises with every update from number `after` on."""
    norms = np.linalg.norm(vectors, axis=1)
    cosines = vectors[norms > 0] @ u / norms[norms > 0]
    first = int(np.floor(after)) + 1
    rises = np.diff(cosines[max(0, first - 1) :])
    assert np.all(rises > -1e-12)


@few
@given(separable_sets(), st.floats(0.1, 3.0), st.floats(0.05, 2.0))
def test_standard_margin(data, b, eta):
    X, signs = data
    Y = augmented(X, signs, 1.0)
    gamma_d, u = best_direction(Y)
    R, r = lengths(Y)
    f = np.linspace(0.5, 1.5, len(X))
    walk, patterns, trace, steps, status = run(
        X, signs, 1.0, perceptron.STANDARD, b=b, rate=eta, factors=f
    )
    assert status == perceptron.QUIET
    bounds = perceptron_bounds(
        "standard", R=R, r=r, gamma_d=gamma_d, b=b, learning_rate=eta,
        f_min=f.min(), f_max=f.max(),
    )  # fmt: skip
    assert walk.n_updates <= bounds.updates * SLACK
    assert walk.norm <= bounds.norm * SLACK
    assert directional_margin(patterns, walk) >= bounds.margin / SLACK
    vectors = replay(Y, trace, steps)
    assert_always_helps(vectors, u, bounds.onset)
    np.testing.assert_allclose(np.linalg.norm(vectors[-1]), walk.norm, rtol=1e-9)
    ratio = f.max() / f.min()
    assert bounds.updates > 2 * ratio * bounds.onset


@few
@given(separable_sets(), st.floats(0.1, 1.9), st.floats(0.2, 0.9))
def test_relaxation(data, eta, share):
    X, signs = data
    Y = augmented(X, signs, 1.0)
    gamma_d, _ = best_direction(Y)
    R, r = lengths(Y)
    walk, patterns, _, _, status = run(
        X, signs, 1.0, perceptron.RELAXATION, b=share, b_upper=1.0, rate=eta
    )
    assert status == perceptron.QUIET
    bounds = perceptron_bounds(
        "relaxation", R=R, r=r, gamma_d=gamma_d, b=share, b_u=1.0, learning_rate=eta
    )
    assert walk.n_updates <= bounds.updates * SLACK
    assert directional_margin(patterns, walk) >= bounds.margin / SLACK
    longest = bounds_of.relaxation_norm(r, 1.0, walk.n_updates, learning_rate=eta)
    assert walk.norm <= longest * SLACK


@few
@given(separable_sets(), st.floats(0.05, 0.9), st.booleans())
def test_fixed_margin_of_free_length(data, share, shaped):
    X, signs = data
    Y = augmented(X, signs, 1.0)
    gamma_d, u = best_direction(Y)
    R, r = lengths(Y)
    beta = share * gamma_d
    walk, patterns, trace, steps, status = run(
        X, signs, 1.0, perceptron.FREE_LENGTH, beta=beta, shaped=shaped
    )
    assert status == perceptron.QUIET
    assert directional_margin(patterns, walk) > beta * (1 - 1e-12)
    factors = bounds_of.projected_factor_range(r, beta) if shaped else (1.0, 1.0)
    f_min, f_max = factors
    assert np.all(steps >= f_min / SLACK)
    assert np.all(steps <= f_max * SLACK)
    for bound in (
        bounds_of.free_length_updates_simple,
        bounds_of.free_length_updates,
    ):
        assert walk.n_updates <= bound(R, gamma_d, beta, f_min=f_min, f_max=f_max)
    onset = bounds_of.free_length_onset(R, gamma_d, beta, f_min=f_min, f_max=f_max)
    assert_always_helps(replay(Y, trace, steps), u, onset)


@few
@given(separable_sets(max_samples=15), st.floats(0.1, 0.8), st.floats(0.05, 0.95))
def test_fixed_margin_of_fixed_length(data, share, rate):
    X, signs = data
    Y = augmented(X, signs, 1.0)
    gamma_d, u = best_direction(Y)
    R, _ = lengths(Y)
    beta = share * gamma_d
    critical = bounds_of.fixed_length_critical_rate(R, gamma_d, beta)
    optimal = bounds_of.fixed_length_optimal_rate(R, gamma_d, beta)
    assert optimal < critical / 2
    start = np.zeros(len(X))
    start[0] = beta / np.linalg.norm(Y[0])
    options = {"beta": beta, "start": start, "n_trace": 20_000}
    walk, patterns, trace, steps, status = run(
        X, signs, 1.0, perceptron.FIXED_LENGTH, rate=rate * critical, **options
    )
    vectors = start[0] * Y[0] + replay(Y, trace, steps)
    if np.linalg.norm(vectors[-1]) < 1e80:
        assert_always_helps(vectors, u, 0)
    walk, patterns, _, _, status = run(
        X, signs, 1.0, perceptron.FIXED_LENGTH, rate=optimal, **options
    )
    bound = bounds_of.fixed_length_optimal_updates(R, gamma_d, beta)
    if bound < 20_000:
        assert status == perceptron.QUIET
        assert walk.n_updates < bound
        assert directional_margin(patterns, walk) > beta * (1 - 1e-9)


@few
@given(separable_sets(), st.floats(0.02, 0.5), st.booleans())
def test_dynamic_margin(data, eps, quick):
    X, signs = data
    gamma_d, _ = best_direction(augmented(X, signs, 1.0))
    walk, patterns, _, _, status = run(
        X, signs, 1.0, perceptron.DYNAMIC, eps=eps, quick=quick
    )
    assert status == perceptron.QUIET
    margin = directional_margin(patterns, walk)
    assert margin >= (1 - eps) * walk.upper_bound / SLACK
    assert margin >= (1 - eps) * gamma_d / SLACK
    assert walk.upper_bound >= gamma_d / SLACK


@few
@given(separable_sets(), st.sampled_from(["b", "free", "fixed", "dynamic"]))
def test_upper_bound_at_every_moment(data, kind):
    X, signs = data
    Y = augmented(X, signs, 1.0)
    gamma_d, _ = best_direction(Y)
    rule, options = {
        "b": (perceptron.STANDARD, {"b": 1.0}),
        "free": (perceptron.FREE_LENGTH, {"beta": 0.9 * gamma_d}),
        "fixed": (perceptron.FIXED_LENGTH, {"beta": 0.5 * gamma_d, "rate": 0.01}),
        "dynamic": (perceptron.DYNAMIC, {"eps": 0.1}),
    }[kind]
    start = np.zeros(len(X))
    start[0] = float(kind == "fixed")
    _, _, trace, steps, _ = run(
        X, signs, 1.0, rule, n_trace=2_000, start=start, **options
    )
    vectors = start[0] * Y[0] + replay(Y, trace, steps)[1:]
    mass = start[0] + np.cumsum(steps)
    usable = mass < 1e80
    bounds = np.linalg.norm(vectors[usable], axis=1) / mass[usable]
    assert np.all(bounds >= gamma_d * (1 - 1e-7))


@few
@given(separable_sets(), st.floats(1.05, 3.0), st.booleans())
def test_out_of_reach_is_proven(data, factor, quick):
    X, signs = data
    gamma_d, _ = best_direction(augmented(X, signs, 1.0))
    beta = factor * gamma_d
    walk, _, _, _, status = run(
        X, signs, 1.0, perceptron.FREE_LENGTH, beta=beta, quick=quick
    )
    assert status == perceptron.INFEASIBLE
    assert walk.upper_bound <= beta * SLACK
    assert np.isfinite(walk.norm)


@few
@given(separable_sets(), st.floats(0.1, 0.9))
def test_chain_of_growing_margins_is_one_run(data, share):
    X, signs = data
    Y = augmented(X, signs, 1.0)
    gamma_d, _ = best_direction(Y)
    R, _ = lengths(Y)
    patterns, walk = reflect(X, signs, rho=1.0), None
    walk = start_walk(patterns)
    for beta in np.linspace(0.1, share, 4) * gamma_d if share > 0.1 else [0.05]:
        go(patterns, walk, perceptron.FREE_LENGTH, beta=beta, max_sweeps=100_000)
    bound = bounds_of.free_length_updates(R, gamma_d, beta)
    assert walk.n_updates <= bound


@few
@given(separable_sets(), st.integers(0, 3))
def test_agrees_with_numpy(data, which):
    X, signs = data
    rho = 0.7
    Y = augmented(X, signs, rho)
    rules = [
        (perceptron.STANDARD, {"b": 0.8, "rate": 0.5},
         lambda y, a: y @ a <= 0.8, lambda y, a: 0.5),
        (perceptron.RELAXATION, {"b": 0.8, "b_upper": 1.7, "rate": 1.2},
         lambda y, a: y @ a <= 0.8, lambda y, a: 1.2 * (1.7 - y @ a) / (y @ y)),
        (perceptron.FREE_LENGTH, {"beta": 0.02},
         lambda y, a: y @ a <= 0.02 * np.linalg.norm(a), lambda y, a: 1.0),
        (perceptron.FREE_LENGTH, {"beta": 0.02, "shaped": True},
         lambda y, a: y @ a <= 0.02 * np.linalg.norm(a),
         lambda y, a: 1 - 0.02 * (y @ a) / np.linalg.norm(a) / (y @ y)
         if a.any() else 1.0),
    ]  # fmt: skip
    rule, options, test, step = rules[which]
    expected, updates = sweep_reference(Y, test, step, max_sweeps=300)
    patterns = reflect(X, signs, rho=rho)
    walk = start_walk(patterns)
    go(patterns, walk, rule, max_sweeps=300, shuffle=False, **options)
    assert walk.n_updates == updates
    np.testing.assert_allclose(walk.m @ Y, expected, atol=1e-8 * updates)


@pytest.mark.parametrize("quick", [False, True])
def test_centre_and_private_coordinates(quick):
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(20, 3)) + 5, np.where(rng.random(20) > 0.5, 1.0, -1.0)
    centre, diag = rng.normal(size=3) + 5, np.full(20, 0.6)
    patterns = reflect(X, signs, rho=0.8, centre=centre, diag=diag)
    walk = start_walk(patterns)
    go(patterns, walk, perceptron.DYNAMIC, eps=0.1, max_sweeps=1000, quick=quick)
    private = np.diag(np.sqrt(diag))
    Y = np.hstack([augmented(X, signs, 0.8, centre), private])
    a = walk.m @ Y
    np.testing.assert_allclose(np.linalg.norm(a), walk.norm, rtol=1e-9)
    assert (Y @ a).min() / np.linalg.norm(a) >= 0.9 * walk.upper_bound / SLACK


@pytest.mark.parametrize("d", [10, 30])
def test_runs_that_outlast_the_onset(d):
    """Sets of supports only, where the runs do go on after t_c."""
    gamma, rho = 0.9, 0.01
    axes = np.vstack([np.eye(d)[1:], -np.eye(d)[1:]])
    X = np.vstack([axes + gamma * np.eye(d)[0], axes - gamma * np.eye(d)[0]])
    signs = np.repeat([1.0, -1.0], 2 * (d - 1))
    Y, u = augmented(X, signs, rho), np.eye(d + 1)[0]
    R, _ = lengths(Y)
    _, _, trace, steps, _ = run(X, signs, rho, perceptron.STANDARD, b=R**2)
    onset = bounds_of.standard_onset(R, gamma, b=R**2)
    assert len(trace) > onset + 1
    assert_always_helps(replay(Y, trace, steps), u, onset)
    beta = 0.9 * gamma
    _, _, trace, steps, _ = run(
        X, signs, rho, perceptron.FREE_LENGTH, beta=beta, shuffle=False
    )
    onset = bounds_of.free_length_onset(R, gamma, beta)
    assert len(trace) > onset + 1
    assert_always_helps(replay(Y, trace, steps), u, onset)


@few
@given(separable_sets(), st.floats(0.1, 0.8), st.integers(1, 9))
def test_free_length_for_any_N(data, share, N):
    """(2.42) along the run and (2.43) at its end."""
    X, signs = data
    Y = augmented(X, signs, 1.0)
    gamma_d, _ = best_direction(Y)
    R, _ = lengths(Y)
    beta = share * gamma_d
    _, _, trace, steps, _ = run(X, signs, 1.0, perceptron.FREE_LENGTH, beta=beta)
    norms = np.linalg.norm(replay(Y, trace, steps), axis=1)
    for t in range(N + 1, len(norms)):
        assert norms[t] <= bounds_of.free_length_norm(R, gamma_d, beta, t, N) * SLACK
    assert len(trace) <= bounds_of.free_length_updates_general(R, gamma_d, beta, N)


@few
@given(separable_sets(), st.floats(0.5, 1.5), st.floats(0.2, 0.9))
def test_relaxation_with_weights(data, eta, share):
    X, signs = data
    Y = augmented(X, signs, 1.0)
    gamma_d, _ = best_direction(Y)
    R, r = lengths(Y)
    f = np.linspace(0.4, 1.0, len(X))
    walk, patterns, _, _, status = run(
        X, signs, 1.0, perceptron.RELAXATION, b=share, b_upper=1.0, rate=eta, factors=f
    )
    bounds = perceptron_bounds(
        "relaxation", R=R, r=r, gamma_d=gamma_d, b=share, b_u=1.0, learning_rate=eta,
        f_min=f.min(), f_max=f.max(),
    )  # fmt: skip
    if bounds.updates < 200_000:
        assert status == perceptron.QUIET
    assert walk.n_updates <= bounds.updates * SLACK
    if status == perceptron.QUIET:
        assert directional_margin(patterns, walk) >= bounds.margin / SLACK
