"""scikit-learn's own checks."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.neighbors import TangentDensityClassifier, TangentKNeighborsClassifier

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"


def expected_failures(estimator):
    if isinstance(estimator, TangentKNeighborsClassifier) and estimator.n_neighbors > 1:
        return {
            WEIGHTS: "a repeated sample takes several of the k places, a weighted one "
            "takes one"
        }
    if isinstance(estimator, TangentDensityClassifier) and estimator.beta == "auto":
        return {
            WEIGHTS: "beta is chosen by leaving samples out, and the copies of a "
            "repeated sample stay in"
        }
    return {}


@parametrize_with_checks(
    [
        TangentKNeighborsClassifier(),
        TangentKNeighborsClassifier(n_neighbors=3, weights="distance"),
        TangentDensityClassifier(),
        TangentDensityClassifier(beta=1.0),
    ],
    expected_failed_checks=expected_failures,
)
def test_sklearn_checks(estimator, check):
    check(estimator)
