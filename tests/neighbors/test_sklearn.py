"""scikit-learn's own checks."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.neighbors import TangentDensityClassifier, TangentKNeighborsClassifier

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"


BALANCE = "check_class_weight_classifiers"


def expected_failures(estimator):
    if isinstance(estimator, TangentKNeighborsClassifier):
        failures = {BALANCE: "few neighbours vote, and those of other classes do not"}
        if estimator.n_neighbors > 1:
            failures[WEIGHTS] = (
                "a repeated sample takes several of the k places, a weighted one one"
            )
        return failures
    if estimator.gamma == "cv":
        return {
            WEIGHTS: "gamma is chosen by leaving samples out, and the copies of a "
            "repeated sample stay in"
        }
    return {BALANCE: "bumps as sharp as these are outweighed by no factor"}


@parametrize_with_checks(
    [
        TangentKNeighborsClassifier(),
        TangentKNeighborsClassifier(n_neighbors=3, weights="distance"),
        TangentDensityClassifier(),
        TangentDensityClassifier(gamma=1.0),
    ],
    expected_failed_checks=expected_failures,
)
def test_sklearn_checks(estimator, check):
    check(estimator)
