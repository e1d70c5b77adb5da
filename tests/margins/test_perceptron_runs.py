"""Every bound of the perceptrons, against slow runs on small separable sets."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from widemargin.margins import directional_margin, geometric_margin
from widemargin.margins import perceptrons as formulas

modest = settings(max_examples=60, deadline=None)
TINY = 1e-10
seeds = st.integers(0, 2**32 - 1)


def shortest(Y):
    """Shortest vector of the convex hull of the rows, and the weights that give it."""
    E = np.vstack([Y.T, np.ones(len(Y))])
    c, _ = nnls(E, np.eye(len(E))[-1])
    c /= c.sum()
    v = c @ Y
    # Optimal, because no row lies before the plane through v: upper and lower bound.
    assert (Y @ v).min() >= (v @ v) * (1 - 1e-7)
    return v


class Patterns:
    def __init__(self, X, labels, rho):
        self.X, self.labels, self.rho = X, labels, rho
        self.Y = labels[:, None] * np.column_stack([X, np.full(len(X), rho)])
        lengths = np.linalg.norm(self.Y, axis=1)
        self.R, self.r = lengths.max(), lengths.min()
        v = shortest(self.Y)
        self.gamma_d = np.linalg.norm(v)
        self.u = v / self.gamma_d

    def margin(self, a):
        return (self.Y @ a).min() / np.linalg.norm(a)


@st.composite
def patterns(draw, max_ratio=8.0):
    rng = np.random.default_rng(draw(seeds))
    d, n = draw(st.integers(1, 3)), draw(st.integers(2, 9))
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(n, d))
    labels = np.where(rng.random(n) < 0.5, 1, -1)
    labels[:2] = 1, -1
    # Mirror what lies on the wrong side, then open a gap.
    side = labels * (X @ w)
    gap = draw(st.floats(0.05, 1.5))
    X += (labels * (np.maximum(-2 * side, 0) + gap))[:, None] * w
    X += rng.normal(size=d) * draw(st.floats(0, 1))
    P = Patterns(X, labels, draw(st.floats(0.3, 3.0)))
    assume(P.gamma_d > P.R / max_ratio)
    return P


def run(P, a, wrong, factor, eta, length=None, most=20_000):
    """Plain sweeps until one is quiet; the weight vector and factor of each update."""
    path, factors = [a.copy()], []
    quiet = False
    while not quiet:
        quiet = True
        for y in P.Y:
            if wrong(y, a):
                quiet = False
                f = factor(y, a)
                a = a + eta * f * y
                if length is not None:
                    a = length * a / np.linalg.norm(a)
                path.append(a)
                factors.append(f)
        assert len(factors) < most
    return np.array(path), np.array(factors)


def alignment(path, P):
    """Cosine of the angle to the best direction, after the first update on."""
    return path[1:] @ P.u / np.linalg.norm(path[1:], axis=1)


def certificate(path, factors, eta):
    return np.linalg.norm(path[1:], axis=1) / (eta * np.cumsum(factors))


def assert_improves_after(path, P, onset):
    cosine = alignment(path, P)
    # Update t + 1 of the run leads from cosine[t - 1] to cosine[t].
    t = np.arange(1, len(cosine))
    assert (np.diff(cosine)[t > onset] > -TINY).all()


def least_gain(P, t, wrong, f_min, f_max, eta, seed):
    """Least gain of the next update, over states that t updates may lead to.

    All that is known of such a state is its component along the best direction. Runs
    rarely last beyond the onset, so states are drawn, not run into.
    """
    rng = np.random.default_rng(seed)
    worst = 0
    for spread in (0.0, 0.03, 0.1, 0.3, 1.0, 3.0):
        along = eta * f_min * P.gamma_d * t
        e = rng.normal(size=len(P.u))
        e -= (e @ P.u) * P.u
        e /= np.linalg.norm(e)
        a = along * (P.u + spread * e)
        # The hardest pattern there could be, turned away from a, and those there are.
        away = math.sqrt(max(P.R**2 - P.gamma_d**2, 0)) * e
        for y in [P.gamma_d * P.u - away, P.gamma_d * P.u + away, *P.Y]:
            if wrong(y, a):
                after = a + eta * rng.choice([f_min, f_max]) * y
                gain = after @ P.u / np.linalg.norm(after) - along / np.linalg.norm(a)
                worst = min(worst, gain)
    return worst


def drawn_factor(f_min, f_max, seed):
    rng = np.random.default_rng(seed)
    return lambda y, a: rng.uniform(f_min, f_max)


factor_ranges = st.tuples(st.floats(0.5, 1), st.floats(1, 1.5))


@modest
@given(patterns(), st.floats(0.01, 5), st.floats(0.3, 3), factor_ranges)
def test_standard_condition(P, b, eta, factor_range):
    f_min, f_max = factor_range
    b *= P.R**2
    path, factors = run(
        P,
        np.zeros(len(P.u)),
        lambda y, a: y @ a <= b,
        drawn_factor(f_min, f_max, 0),
        eta,
    )
    parameters = {"learning_rate": eta, "f_min": f_min, "f_max": f_max}
    arguments = (P.R, P.gamma_d, b)
    t_N = formulas.standard_updates(*arguments, **parameters)
    t_c = formulas.standard_onset(*arguments, **parameters)
    assert len(factors) <= t_N * (1 + TINY)
    assert t_N > 2 * f_max / f_min * t_c
    norm = formulas.standard_norm(*arguments, **parameters)
    assert (np.linalg.norm(path, axis=1) <= norm * (1 + TINY)).all()
    guarantee = formulas.standard_margin(*arguments, **parameters)
    assert P.margin(path[-1]) > b / np.linalg.norm(path[-1]) * (1 - TINY)
    assert b / np.linalg.norm(path[-1]) >= guarantee * (1 - TINY)
    assert guarantee == pytest.approx(b / norm)
    assert (certificate(path, factors, eta) >= P.gamma_d * (1 - 1e-7)).all()
    assert_improves_after(path, P, t_c)


@modest
@given(patterns(), st.floats(0.01, 5), st.floats(0.3, 3), factor_ranges, seeds)
def test_standard_onset(P, b, eta, factor_range, seed):
    f_min, f_max = factor_range
    b *= P.R**2
    t_c = formulas.standard_onset(
        P.R, P.gamma_d, b, learning_rate=eta, f_min=f_min, f_max=f_max
    )
    state = (lambda y, a: y @ a <= b, f_min, f_max, eta, seed)
    assert least_gain(P, 1.001 * t_c, *state) >= -TINY


@modest
@given(patterns(), st.floats(0.1, 1.9), st.floats(0.2, 0.8))
def test_relaxation(P, eta, fraction):
    b_u = P.R**2
    b = fraction * b_u
    path, factors = run(
        P,
        np.zeros(len(P.u)),
        lambda y, a: y @ a <= b,
        lambda y, a: (b_u - y @ a) / (y @ y),
        eta,
    )
    updates = formulas.relaxation_updates(
        P.R, P.r, P.gamma_d, b, b_u, learning_rate=eta
    )
    assert len(factors) <= updates * (1 + TINY)
    for t, a in enumerate(path):
        norm = formulas.relaxation_norm(P.r, b_u, t, learning_rate=eta)
        assert np.linalg.norm(a) <= norm * (1 + TINY)
    guarantee = formulas.relaxation_margin(
        P.R, P.r, P.gamma_d, b, b_u, learning_rate=eta
    )
    assert P.margin(path[-1]) >= guarantee * (1 - TINY)
    spelled_out = b * (2 - eta) * (b_u - b) * P.r**2 * P.gamma_d / (b_u * P.R) ** 2
    assert guarantee == pytest.approx(spelled_out)
    best = formulas.relaxation_margin(
        P.R, P.r, P.gamma_d, b_u / 2, b_u, learning_rate=eta
    )
    assert best == pytest.approx((2 - eta) / 4 * (P.r / P.R) ** 2 * P.gamma_d)
    assert guarantee <= best * (1 + TINY)
    assert (certificate(path, factors, eta) >= P.gamma_d * (1 - 1e-7)).all()


def projected_factor(beta):
    def factor(y, a):
        norm = np.linalg.norm(a)
        return 1 - beta * (a @ y) / (norm * (y @ y)) if norm else 1.0

    return factor


@modest
@given(patterns(), st.floats(0.05, 0.85), st.booleans())
def test_free_length(P, fraction, projected):
    beta = fraction * P.gamma_d
    f_min, f_max, factor = 1.0, 1.0, lambda y, a: 1.0
    if projected:
        f_min, f_max = formulas.projected_factor_range(P.r, beta)
        factor = projected_factor(beta)
    path, factors = run(
        P,
        np.zeros(len(P.u)),
        lambda y, a: y @ a <= beta * np.linalg.norm(a),
        factor,
        1.0,
    )
    assert (factors >= f_min - TINY).all()
    assert (factors <= f_max + TINY).all()
    assert P.margin(path[-1]) > beta * (1 - TINY)
    assert (certificate(path, factors, 1.0) >= P.gamma_d * (1 - 1e-7)).all()
    arguments = {
        "R": P.R, "gamma_d": P.gamma_d, "margin": beta, "f_min": f_min, "f_max": f_max,
    }  # fmt: skip
    for bound in (formulas.free_length_updates, formulas.free_length_updates_simple):
        assert len(factors) <= bound(**arguments)
        if projected:
            vacuous = beta >= P.gamma_d * P.r / (P.r + P.gamma_d)
            assert math.isinf(bound(**arguments)) == vacuous
    assert_improves_after(path, P, formulas.free_length_onset(**arguments))


@modest
@given(patterns(), st.floats(0.05, 0.95), factor_ranges, seeds)
def test_free_length_onset(P, fraction, factor_range, seed):
    f_min, f_max = factor_range
    beta = fraction * P.gamma_d
    t_c = formulas.free_length_onset(P.R, P.gamma_d, beta, f_min=f_min, f_max=f_max)
    state = (lambda y, a: y @ a <= beta * np.linalg.norm(a), f_min, f_max, 1.0, seed)
    assert least_gain(P, 1.001 * t_c, *state) >= -TINY


@modest
@given(patterns())
def test_a_chain_of_rising_margins_counts_as_one_run(P):
    a, total = np.zeros(len(P.u)), 0
    for beta in np.array([0.2, 0.5, 0.7]) * P.gamma_d:
        path, factors = run(
            P,
            a,
            lambda y, a, beta=beta: y @ a <= beta * np.linalg.norm(a),
            lambda y, a: 1.0,
            1.0,
        )
        a, total = path[-1], total + len(factors)
    assert total <= formulas.free_length_updates(P.R, P.gamma_d, beta)


@modest
@given(patterns(), st.floats(0.1, 0.7), st.floats(0.2, 1.0), st.booleans())
def test_fixed_length(P, fraction, rate, optimal):
    assume(P.gamma_d * (1 + 1e-6) < P.R)
    beta = fraction * P.gamma_d
    critical = formulas.fixed_length_critical_rate(P.R, P.gamma_d, beta)
    eta_opt = formulas.fixed_length_optimal_rate(P.R, P.gamma_d, beta)
    assert eta_opt < critical / 2
    eta = eta_opt if optimal else rate * critical
    path, factors = run(
        P,
        beta * P.Y[0] / np.linalg.norm(P.Y[0]),
        lambda y, a: y @ a <= beta * np.linalg.norm(a),
        lambda y, a: 1.0,
        eta,
        length=beta,
    )
    assert P.margin(path[-1]) > beta * (1 - TINY)
    assert (np.diff(path @ P.u / beta) > -TINY).all()
    assert len(factors) < formulas.fixed_length_updates(P.R, P.gamma_d, beta, eta)
    if optimal:
        bound = formulas.fixed_length_optimal_updates(P.R, P.gamma_d, beta)
        assert len(factors) < bound
        assert bound == pytest.approx(
            formulas.fixed_length_updates(P.R, P.gamma_d, beta, eta)
        )


def test_learning_rates_above_the_critical_one_can_lose_ground():
    # Two patterns, each the worst case for the other: (2.51) is not far from sharp.
    P = Patterns(np.array([[1.0], [-1.0]]), np.array([1, -1]), 10.0)
    beta = 0.9 * P.gamma_d
    critical = formulas.fixed_length_critical_rate(P.R, P.gamma_d, beta)
    start = beta * (P.u + 0.01 * np.array([0.0, 1.0]))
    start *= beta / np.linalg.norm(start)
    y = P.Y[1]
    assert y @ start <= beta**2
    gains = []
    for eta in (0.99 * critical, 30 * critical):
        after = start + eta * y
        gains.append(after @ P.u / np.linalg.norm(after) - start @ P.u / beta)
    assert gains[0] > 0 > gains[1]


@modest
@given(patterns(max_ratio=50.0))
def test_best_geometric_margin_against_best_directional_margin(P):
    X, labels = P.X, P.labels
    differences = X[labels == 1][:, None] - X[labels == -1]
    w = shortest(differences.reshape(-1, X.shape[1]))
    gamma = np.linalg.norm(w) / 2
    b = -((X @ w)[labels == 1].min() + (X @ w)[labels == -1].max()) / 2
    assert geometric_margin(X, w, b, labels).min() == pytest.approx(gamma, rel=1e-6)
    best = directional_margin(
        X, P.u[:-1], P.rho * P.u[-1], labels, intercept_scaling=P.rho
    ).min()
    assert best == pytest.approx(P.gamma_d, rel=1e-6)
    R_x = np.linalg.norm(X, axis=1).max()
    assert pytest.approx(np.hypot(P.rho, R_x)) == P.R
    ratio = gamma / P.gamma_d
    sharper = math.hypot(1, (R_x - gamma) / P.rho)
    assert 1 - 1e-6 <= ratio <= sharper * (1 + 1e-6)
    assert sharper <= formulas.margin_ratio_bound(P.R, P.rho) * (1 + TINY)
