"""scikit-learn's own checks, of every classifier the package exports.

A classifier that is new in the registry is checked with its defaults; SETTINGS holds
what else deserves it, and WAIVED what cannot hold, with the reason.
"""

from unittest import SkipTest

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import widemargin as wm
from widemargin.tangents import TangentGenerator


class Brightness(TangentGenerator):
    """A direction that inputs of any width have."""

    n_tangents = 1
    is_affine = True

    def _tangents_of(self, X, y):
        return lambda rows: np.ones_like(X[rows])[:, np.newaxis]


class _Distances:
    """A metric that is written alike in every process: names of tests must be."""

    def __call__(self, X, Y=None):
        return euclidean_distances(X, Y)

    def __repr__(self):
        return "euclidean_distances"

    def __deepcopy__(self, memo):
        return self


DISTANCES = _Distances()


TWO_SIDED = {"sides": "both", "tangents": Brightness(), "spring": 0.5, "max_iter": 5}

# The checks fit hundreds of models of a few samples: few epochs do.
SETTINGS = {
    "ConformalClassifier": [
        wm.ConformalClassifier(LogisticRegression(), alpha=0.5, random_state=0),
        wm.ConformalClassifier(GaussianNB(), alpha=0.5, random_state=0),
    ],
    "DDAGClassifier": [wm.DDAGClassifier(LogisticRegression())],
    "FixedMarginPerceptron": [wm.FixedMarginPerceptron(max_iter=10)],
    "GLVQClassifier": [wm.GLVQClassifier(max_iter=5)],
    "GMLVQClassifier": [
        wm.GMLVQClassifier(max_iter=5),
        wm.GMLVQClassifier(n_components=2, max_iter=5),
    ],
    "HSSClassifier": [
        wm.HSSClassifier(),
        wm.HSSClassifier(2),
        wm.HSSClassifier(**TWO_SIDED),
    ],
    "InvariantHyperplaneSVC": [
        wm.InvariantHyperplaneSVC(),
        wm.InvariantHyperplaneSVC(kernel="rbf", n_components=50, random_state=0),
    ],
    "KernelLVQClassifier": [
        wm.KernelLVQClassifier(max_iter=5),
        wm.KernelLVQClassifier(kernel="precomputed", max_iter=5),
    ],
    "RelationalLVQClassifier": [
        wm.RelationalLVQClassifier(max_iter=2),
        wm.RelationalLVQClassifier(2, method="median"),
        wm.RelationalLVQClassifier(metric=DISTANCES, max_iter=2),
    ],
    "LVQClassifier": [
        wm.LVQClassifier(max_iter=5),
        wm.LVQClassifier(algorithm="lvq3", max_iter=5, prototypes_per_class=2),
    ],
    "MarginLVQClassifier": [
        wm.MarginLVQClassifier(max_iter=5),
        wm.MarginLVQClassifier(2, decision="parzen", max_iter=5),
    ],
    "MarginPerceptron": [
        wm.MarginPerceptron(max_iter=10),
        wm.MarginPerceptron("relaxation", max_iter=10),
    ],
    "MarginReweightingClassifier": [
        wm.MarginReweightingClassifier(LogisticRegression(), max_iter=3),
        wm.MarginReweightingClassifier(
            LogisticRegression(tol=1e-8),
            max_iter=3,
            validation_fraction=None,
            update="refit",
        ),
    ],
    "MaxMarginClassifier": [
        # The equivalence of weights and repetitions is asked to seven digits.
        wm.MaxMarginClassifier(tol=1e-9),
        wm.MaxMarginClassifier(tol=1e-9, kernel="rbf", multiclass="ddag"),
        wm.MaxMarginClassifier(
            tol=1e-9, multiclass="ovo", penalize_intercept=True, intercept_scaling=1.0
        ),
        wm.MaxMarginClassifier("dynamic", tol=0.1, max_iter=200),
    ],
    "ProductClassifier": [
        wm.ProductClassifier([("a", LogisticRegression()), ("b", GaussianNB())]),
        wm.ProductClassifier(
            [("a", LogisticRegression(tol=1e-8)), ("b", GaussianNB())], weights=[1, 0.5]
        ),
    ],
    "RejectingClassifier": [
        wm.RejectingClassifier(LogisticRegression(), max_error=0.98, random_state=0),
        wm.RejectingClassifier(GaussianNB(), max_error=0.98, random_state=0),
        wm.RejectingClassifier(LogisticRegression(), coverage=0.5, random_state=0),
    ],
    "TDNeuronClassifier": [wm.TDNeuronClassifier(max_iter=10)],
    "TVQClassifier": [
        wm.TVQClassifier(max_iter=5),
        wm.TVQClassifier(2, max_iter=5, init="mean"),
        wm.TVQClassifier(**TWO_SIDED),
    ],
    "DensityClassifier": [
        wm.DensityClassifier(),
        wm.DensityClassifier(gamma=1.0, metric=DISTANCES),
        wm.DensityClassifier(n_candidates=20, candidate_transform=PCA()),
    ],
    "TangentDensityClassifier": [
        wm.TangentDensityClassifier(),
        wm.TangentDensityClassifier(gamma=1.0),
    ],
    "TangentKNeighborsClassifier": [
        wm.TangentKNeighborsClassifier(),
        wm.TangentKNeighborsClassifier(n_neighbors=3, weights="distance"),
    ],
    "TangentSVC": [
        wm.TangentSVC(),
        wm.TangentSVC("nd", multiclass="ovo", probability=True),
        wm.TangentSVC(n_landmarks=50, random_state=0),
    ],
}

WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
ONLINE = (
    "updates happen one sample after the other: a weight is the size of a step, or how "
    "often the sample comes, and a repeated sample is seen twice in another order"
)
PLACES = "a repeated sample takes several of the k places, a weighted one takes one"
FOLDED = (
    "the temperature is that of samples left out by folds, which repeated ones shift"
)
FEW = "few neighbours vote, and those of other classes do not"
SHARP = "bumps as sharp as these are outweighed by no factor"
SOLVER = "gamma and landmarks are taken of the samples there are; solvers stop at tol"
SPLIT = "samples are held out row by row"
CAGED = (
    "the check presents samples of one class only and wants the others gone; a "
    "prototype is pushed by the samples it is nearest to, and they also keep it in"
)
SADDLE = (
    "the means of the check's three classes coincide within their spread; with weight "
    "on one class alone that is a saddle of the mean margin, which local steps keep to"
)
NO_MATRIX = "the check gives samples where a matrix of kernel values is due"
REFUSED = "a refused sample is answered by reject_label, which no score predicts"


def waived(estimator) -> dict[str, str]:
    """Checks that this estimator need not pass, with the reason."""
    weights = None
    others = {}
    if estimator.__sklearn_tags__().array_api_support:
        # A model answers in the kind of the question, whatever it was fitted on.
        others["check_array_api_same_namespace"] = "answers in any kind"
    match estimator:
        case wm.MarginPerceptron() | wm.FixedMarginPerceptron():
            weights = ONLINE
        case wm.MaxMarginClassifier(method="dynamic"):
            weights = ONLINE
        case wm.LVQClassifier() | wm.MarginLVQClassifier(decision="parzen"):
            weights = ONLINE
            others["check_class_weight_classifiers"] = CAGED
        case wm.MarginLVQClassifier():
            weights = ONLINE
        case wm.TVQClassifier(prototypes_per_class="auto", sides="reference"):
            pass
        case (
            wm.KernelLVQClassifier(kernel="precomputed")
            | wm.RelationalLVQClassifier(metric="precomputed")
        ):
            others["check_decision_proba_consistency"] = NO_MATRIX
        case wm.RelationalLVQClassifier():
            others["check_class_weight_classifiers"] = CAGED
        case wm.TVQClassifier(init="mean") | wm.TDNeuronClassifier():
            others["check_class_weight_classifiers"] = SADDLE
        case wm.TangentKNeighborsClassifier():
            weights = PLACES if estimator.n_neighbors > 1 else FOLDED
            others["check_class_weight_classifiers"] = FEW
        case wm.DensityClassifier(gamma="cv") | wm.TangentDensityClassifier(gamma="cv"):
            weights = None if estimator.n_candidates is None else PLACES
        case wm.DensityClassifier() | wm.TangentDensityClassifier():
            others["check_class_weight_classifiers"] = SHARP
        case wm.DDAGClassifier():
            pass
        case (
            wm.TangentSVC()
            | wm.VirtualSVC()
            | wm.JitteredSVC()
            | wm.InvariantHyperplaneSVC()
        ):
            weights = SOLVER
        case wm.ConformalClassifier():
            weights = SPLIT
            others["check_classifiers_classes"] = REFUSED
            others["check_classifiers_train"] = REFUSED
        case wm.RejectingClassifier():
            weights = SPLIT
            if estimator.coverage is not None:
                others["check_classifiers_classes"] = REFUSED
                others["check_classifiers_train"] = REFUSED
    return others | (dict.fromkeys(WEIGHTS, weights) if weights else {})


# What other settings of a class may change; the rest is about the class and its door.
OF_SETTINGS = {
    "check_all_zero_sample_weights_error", "check_class_weight_classifiers",
    "check_classifiers_classes", "check_classifiers_one_label",
    "check_classifiers_train", "check_decision_proba_consistency",
    "check_dict_unchanged", "check_estimator_sparse_array", "check_estimators_nan_inf",
    "check_estimators_pickle", "check_fit2d_1feature", "check_fit2d_1sample",
    "check_fit_idempotent", "check_methods_sample_order_invariance",
    "check_methods_subset_invariance", "check_non_transformer_estimators_n_iter",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}  # fmt: skip


def cases():
    """Yield estimators and checks, those of several settings once where one tells."""
    for name in wm._ESTIMATORS:
        for i, estimator in enumerate(SETTINGS.get(name) or [getattr(wm, name)()]):
            every = parametrize_with_checks([estimator], expected_failed_checks=waived)
            for case in every.args[1]:
                check = getattr(case, "values", case)[1]
                # What takes samples that cannot be written takes others, too.
                writable = "readonly_memmap" not in check.keywords and check.func in (
                    estimator_checks.check_classifiers_train,
                    estimator_checks.check_estimators_pickle,
                )
                if not writable and (i == 0 or check.func.__name__ in OF_SETTINGS):
                    yield case


IDS = parametrize_with_checks([]).kwargs["ids"]
set_params = BaseEstimator.set_params


def set_fewer(self, **given):
    """Set parameters, but 300 epochs instead of a thousand."""
    given = {"max_iter": 300} if given == {"max_iter": 1000} else given
    return set_params(self, **given)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:max_error=0.98 could not be shown")
@pytest.mark.parametrize(("estimator", "check"), list(cases()), ids=IDS)
def test_scikit_learn_checks(estimator, check, request, monkeypatch):
    # These compare probabilities, which folds decide: of these as many as usual.
    if check.func.__name__ not in WEIGHTS:
        request.getfixturevalue("few_folds")
    if check.func is estimator_checks.check_class_weight_classifiers:
        monkeypatch.setattr(BaseEstimator, "set_params", set_fewer)
    try:
        check(estimator)
    except Exception as error:
        waived = request.node.get_closest_marker("xfail")
        if waived is None or isinstance(error, SkipTest):
            raise
        # Nobody sees its traceback, for which pytest would read long sources.
        raise AssertionError(str(error)) from None
