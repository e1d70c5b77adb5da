"""scikit-learn's own checks of all three estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.linear import (
    FixedMarginPerceptron,
    MarginPerceptron,
    MaxMarginClassifier,
)

ONLINE = (
    "updates happen one sample after the other: a weight is the size of a step, and a "
    "repeated sample is seen twice in another order"
)
EXPECTED = {
    name: {
        "check_sample_weight_equivalence_on_dense_data": ONLINE,
        "check_sample_weight_equivalence_on_sparse_data": ONLINE,
    }
    for name in ("MarginPerceptron", "FixedMarginPerceptron", "dynamic")
}

ESTIMATORS = [
    MarginPerceptron(max_iter=200),
    MarginPerceptron("relaxation", max_iter=200),
    FixedMarginPerceptron(max_iter=200),
    # The equivalence of weights and repetitions is asked to seven digits.
    MaxMarginClassifier(tol=1e-9),
    MaxMarginClassifier(tol=1e-9, kernel="rbf", multiclass="ddag"),
    MaxMarginClassifier(tol=1e-9, multiclass="ovo", recenter=False, rho=1.0),
    MaxMarginClassifier("dynamic", tol=0.1, max_iter=200),
]


def expected_failures(estimator):
    method = getattr(estimator, "method", "")
    return EXPECTED.get(method or type(estimator).__name__, {})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_sklearn_checks(estimator, check):
    check(estimator)
