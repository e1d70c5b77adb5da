"""Every bound of the perceptrons, against slow runs on small separable sets."""

import math

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from widemargin.margins import (
    directional_margin,
    geometric_margin,
    perceptron_bounds,
)
from widemargin.margins import perceptron_fixed as fixed
from widemargin.margins import perceptron_standard as standard

modest = settings(max_examples=60, deadline=None)
TINY = 1e-10


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
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
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


def run(P, a, wrong, factor, eta, length=None, most=200_000):
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
    event(f"updates after the onset: {(t > onset).any()}")
    assert (np.diff(cosine)[t > onset] > -TINY).all()


def drawn_factor(f_min, f_max, seed):
    rng = np.random.default_rng(seed)
    return lambda y, a: rng.uniform(f_min, f_max)


@modest
@given(
    patterns(),
    st.floats(0.01, 10),
    st.floats(0.1, 3),
    st.floats(0.5, 1),
    st.floats(1, 1.5),
)
def test_standard_margin_condition(P, b, eta, f_min, f_max):
    b *= P.R**2
    path, factors = run(
        P,
        np.zeros(len(P.u)),
        lambda y, a: y @ a <= b,
        drawn_factor(f_min, f_max, 0),
        eta,
    )
    parameters = {"eta": eta, "f_min": f_min, "f_max": f_max}
    arguments = (P.R, P.gamma_d, b)
    t_N = standard.standard_updates(*arguments, **parameters)
    t_c = standard.standard_onset(*arguments, **parameters)
    assert len(factors) <= t_N * (1 + TINY)
    assert t_N > 2 * f_max / f_min * t_c
    norm = standard.standard_norm(*arguments, **parameters)
    assert (np.linalg.norm(path, axis=1) <= norm * (1 + TINY)).all()
    guarantee = standard.standard_margin(*arguments, **parameters)
    assert P.margin(path[-1]) > b / np.linalg.norm(path[-1]) * (1 - TINY)
    assert b / np.linalg.norm(path[-1]) >= guarantee * (1 - TINY)
    assert guarantee == pytest.approx(b / norm)
    assert (certificate(path, factors, eta) >= P.gamma_d * (1 - 1e-7)).all()
    assert_improves_after(path, P, t_c)
