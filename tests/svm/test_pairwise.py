"""One solver for both routes: weights, tolerance and calibration reach it."""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

from widemargin.hyperplanes.pairwise import PairwiseMachine, left_out_duels

WEIGHTS = 1 + np.arange(90) % 3


@pytest.fixture(scope="module")
def problem():
    """Kernel values, features with the same inner products, and noisy labels."""
    X, y = load_digits(n_class=3, return_X_y=True)
    K = rbf_kernel(X[:90] / 16, gamma=0.05)
    y = np.where(np.arange(90) % 7 == 0, (y[:90] + 1) % 3, y[:90])
    values, vectors = eigh(K)
    return {"gram": K, "features": vectors * np.sqrt(np.maximum(values, 0))}, y


def decisions(matrix, problem, weights=None, repeated=False, **options):
    values, y = problem[0][matrix], problem[1]
    machine = PairwiseMachine(matrix, **{"C": 0.5, "tol": 1e-6, **options})
    if not repeated:
        machine.fit(values, y, weights)
        return values @ machine.coef_ + machine.intercept_
    rows = np.repeat(np.arange(90), WEIGHTS)
    if matrix == "features":
        machine.fit(values[rows], y[rows])
        return values @ machine.coef_ + machine.intercept_
    machine.fit(values[np.ix_(rows, rows)], y[rows])
    return values[:, rows] @ machine.coef_ + machine.intercept_


@pytest.mark.parametrize("matrix", ["gram", "features"])
def test_weights_are_repetitions(problem, matrix):
    weighted = decisions(matrix, problem, WEIGHTS.astype(float))
    repeated = decisions(matrix, problem, repeated=True)
    np.testing.assert_allclose(weighted, repeated, atol=1e-3)
    assert np.abs(weighted - decisions(matrix, problem)).max() > 0.1


@pytest.mark.parametrize("matrix", ["gram", "features"])
def test_weights_are_factors_on_the_penalty(problem, matrix):
    np.testing.assert_allclose(
        decisions(matrix, problem, np.full(90, 0.37)),
        decisions(matrix, problem, C=0.5 * 0.37),
        atol=1e-4,
    )


@pytest.mark.parametrize("matrix", ["gram", "features"])
def test_the_tolerance_reaches_the_solver(problem, matrix):
    exact, fine, rough = (
        decisions(matrix, problem, C=10.0, tol=tol) for tol in (1e-8, 1e-5, 0.5)
    )
    np.testing.assert_allclose(fine, exact, atol=1e-3)
    assert np.abs(rough - exact).max() > 1e-2


@pytest.mark.parametrize("matrix", ["gram", "features"])
def test_left_out_duels_come_from_weighted_machines_without_the_sample(problem, matrix):
    matrices, y = problem
    K, weights = matrices[matrix], np.linspace(0.5, 2, 90)
    machine = PairwiseMachine(matrix, random_state=0)
    found = left_out_duels(machine, K, y, weights)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for train, test in folds.split(y, y):
        columns = train if matrix == "gram" else np.arange(K.shape[1])
        machine.fit(K[np.ix_(train, columns)], y[train], weights[train])
        duels = K[np.ix_(test, columns)] @ machine.coef_ + machine.intercept_
        np.testing.assert_allclose(found[test], duels)
