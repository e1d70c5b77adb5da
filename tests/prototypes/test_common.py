"""scikit-learn's own checks, for every prototype estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    KernelLVQClassifier,
    LVQClassifier,
    MarginLVQClassifier,
)

IN_EXPECTATION = (
    "online: the weight of a sample is how often it is presented, so it equals "
    "repetition in expectation and not bit by bit"
)

CAGED = (
    "the check presents samples of one class only and wants the others gone; a "
    "prototype is pushed by the samples it is nearest to, and they also keep it in"
)

# The checks fit hundreds of models of a few samples: few epochs do.
ESTIMATORS = [
    LVQClassifier(max_iter=5),
    LVQClassifier(algorithm="lvq3", max_iter=5, prototypes_per_class=2),
    MarginLVQClassifier(max_iter=10),
    MarginLVQClassifier(2, decision="parzen", max_iter=10),
    GLVQClassifier(max_iter=20),
    GMLVQClassifier(max_iter=20),
    GMLVQClassifier(n_components=2, max_iter=20),
    KernelLVQClassifier(max_iter=20),
    KernelLVQClassifier(kernel="precomputed", max_iter=20),
]


def expected_failures(estimator):
    if not isinstance(estimator, LVQClassifier | MarginLVQClassifier):
        return {}
    expected = {"check_sample_weight_equivalence_on_dense_data": IN_EXPECTATION}
    if estimator.prototypes_per_class == 2:
        expected["check_class_weight_classifiers"] = CAGED
    return expected


# Some checks give random labels, which drive prototypes away.
@pytest.mark.filterwarnings("ignore:.*out of the data")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
