"""One solver for both routes: weights, tolerance and calibration reach it."""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from widemargin.svm.pairwise import PairwiseMachine, as_columns, calibrate

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


def test_the_calibrator_counts_weights(problem):
    matrices, y = problem
    K, two = matrices["gram"], (y == 0).astype(int)
    weights = np.where(two == 1, 6.0, 0.5)
    calibrator = calibrate(PairwiseMachine("gram", 0.5), K, two, weights)
    scores = cross_val_predict(
        PairwiseMachine("gram", 0.5), K, two, cv=5, method="decision_function",
        params={"sample_weight": weights},
    )  # fmt: skip
    p = calibrator.predict_proba(as_columns(scores))[:, 1]
    # What a sigmoid with an offset must satisfy, for the weights it was fitted with.
    assert np.average(p, weights=weights) == pytest.approx(
        np.average(two, weights=weights), abs=0.02
    )
    assert abs(p.mean() - two.mean()) > 0.1


def test_scores_to_calibrate_with_come_from_weighted_machines(problem):
    matrices, y = problem
    seen = []

    class Recording(PairwiseMachine):
        def fit(self, K, y, sample_weight=None):
            seen.append(sample_weight)
            return super().fit(K, y, sample_weight)

    weights = np.linspace(0.5, 2, 90)
    calibrate(Recording("gram"), matrices["gram"], y, weights)
    folds = StratifiedKFold(5).split(y, y)
    for found, (train, _) in zip(seen, folds, strict=True):
        np.testing.assert_array_equal(found, weights[train])


def test_calibration_is_by_votes_whatever_the_scheme(problem):
    matrices, y = problem
    by_votes, by_graph = (
        calibrate(PairwiseMachine("gram", 0.5, scheme), matrices["gram"], y, None)
        for scheme in ("ovo", "ddag")
    )
    scores = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_array_equal(
        by_votes.predict_proba(scores), by_graph.predict_proba(scores)
    )
