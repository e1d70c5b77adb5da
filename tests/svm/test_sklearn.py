"""scikit-learn's own checks."""

from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.svm import (
    DDAGClassifier,
    InvariantHyperplaneSVC,
    JitteredSVC,
    TangentSVC,
    VirtualSVC,
)


def expected_failures(estimator):
    if isinstance(estimator, DDAGClassifier):
        return {}
    return {
        "check_sample_weight_equivalence_on_dense_data": "gamma='scale' and Nyström "
        "samples are taken of the samples there are, and solvers stop within tol"
    }


@parametrize_with_checks(
    [
        TangentSVC(),
        TangentSVC("nd", multiclass="ovo", probability=True),
        TangentSVC(landmarks=50, random_state=0),
        DDAGClassifier(LogisticRegression()),
        VirtualSVC(),
        JitteredSVC(),
        InvariantHyperplaneSVC(),
        InvariantHyperplaneSVC(kernel="rbf", n_components=50, random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
def test_sklearn_checks(estimator, check):
    check(estimator)
