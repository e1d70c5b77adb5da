"""Slow and obvious versions of what the package computes fast."""

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import minimize


@st.composite
def separable_sets(draw, max_samples=30, max_features=4):
    """Random separable (X, signs): a cloud cut by a plane and pulled apart."""
    seed = draw(st.integers(0, 2**31 - 1))
    n = draw(st.integers(4, max_samples))
    d = draw(st.integers(1, max_features))
    gap = draw(st.floats(0.05, 1.0))
    shift = draw(st.floats(-3.0, 3.0))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    u = rng.normal(size=d)
    u /= np.linalg.norm(u)
    scores = X @ u
    signs = np.where(scores > np.median(scores), 1.0, -1.0)
    return X + gap * signs[:, None] * u + shift, signs


def augmented(X, signs, rho, centre=0.0):
    """Reflected augmented patterns, one per row."""
    height = np.full((len(X), 1), rho)
    return signs[:, None] * np.hstack([X - centre, height])


def best_direction(Y):
    """Largest directional margin of the patterns and its unit vector, by SLSQP."""
    n = len(Y)
    gram = Y @ Y.T
    scale = np.abs(np.diag(gram)).mean()
    found = minimize(
        lambda c: c @ gram @ c / scale,
        np.full(n, 1 / n),
        jac=lambda c: 2 * gram @ c / scale,
        bounds=[(0, None)] * n,
        constraints={"type": "eq", "fun": lambda c: c.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    a = found.x @ Y
    u = a / np.linalg.norm(a)
    return float((Y @ u).min()), u


def replay(Y, trace, steps):
    """All vectors a_0 = 0, a_1, ... of a recorded run."""
    return np.vstack([np.zeros(Y.shape[1]), np.cumsum(steps[:, None] * Y[trace], 0)])


def sweep_reference(Y, test, step, max_sweeps=10_000, start=None):
    """The perceptron loop in NumPy, patterns in their given order."""
    a = np.zeros(Y.shape[1]) if start is None else start.copy()
    updates = 0
    for _ in range(max_sweeps):
        quiet = True
        for y in Y:
            if test(y, a):
                a = a + step(y, a) * y
                updates += 1
                quiet = False
        if quiet:
            return a, updates
    return a, updates
