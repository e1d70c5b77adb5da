"""scikit-learn's own checks, for every tangent model."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.prototypes import HSSClassifier, TDNeuronClassifier, TVQClassifier
from widemargin.tangents import TangentGenerator

SADDLE = (
    "the means of the check's three classes coincide within their spread; with weight "
    "on one class alone that is a saddle of the mean margin, which local steps keep to"
)


def expected_failures(estimator):
    if isinstance(estimator, HSSClassifier):
        return {}
    return {"check_class_weight_classifiers": SADDLE}


class Brightness(TangentGenerator):
    """A direction that inputs of any width have."""

    n_tangents = 1
    is_affine = True

    def _tangents_of(self, X, y):
        return lambda rows: np.ones_like(X[rows])[:, np.newaxis]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        HSSClassifier(),
        HSSClassifier(2),
        TVQClassifier(max_iter=20),
        TVQClassifier(2, max_iter=10, init="mean"),
        TDNeuronClassifier(max_iter=10),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        HSSClassifier(sides="two", tangents=Brightness(), spring=0.5, max_iter=5),
        TVQClassifier(sides="two", tangents=Brightness(), spring=0.5, max_iter=5),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks_two_sided(estimator, check):
    check(estimator)
