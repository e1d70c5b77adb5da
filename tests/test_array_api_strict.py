"""scikit-learn's check of the array API, and arrays that allow nothing else.

Nothing is skipped here: without array_api_strict, or without SCIPY_ARRAY_API=1 (which
conftest.py sets), these tests fail.
"""

import os

import array_api_strict as strict
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_array_api_input

import widemargin
from widemargin.fewshot import FewShotImageClassifier
from widemargin.metrics import tangent_distances
from widemargin.neighbors import (
    DensityClassifier,
    TangentDensityClassifier,
    TangentKNeighborsClassifier,
)
from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    HSSClassifier,
    TVQClassifier,
)
from widemargin.tangents import (
    Deskew,
    DirectionFeatures,
    GaussianSmoother,
    ImageTangents,
    LearnedTangents,
    SignalTangents,
    image_affines,
    image_shifts,
)

ESTIMATORS = [
    TangentKNeighborsClassifier(3, tangents="none"),
    TangentKNeighborsClassifier(tangents=LearnedTangents(2)),
    DensityClassifier(gamma=1.0),
    TangentDensityClassifier(1.0, tangents="none"),
    GLVQClassifier(max_iter=2),
    GMLVQClassifier(max_iter=2),
    HSSClassifier(1, n_tangents=2),
    TVQClassifier(n_tangents=2, max_iter=2),
    FewShotImageClassifier(),
    GaussianSmoother(),
    LearnedTangents(2),
    SignalTangents(),
]


def test_the_check_does_not_skip():
    assert os.environ["SCIPY_ARRAY_API"] == "1"
    with sklearn.config_context(array_api_dispatch=True):
        pass


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_scikit_learns_check(estimator):
    assert estimator.__sklearn_tags__().array_api_support
    check_array_api_input(
        type(estimator).__name__, estimator, "array_api_strict",
        check_values=True, check_sample_weight=True,
    )  # fmt: skip


def test_every_classifier_with_the_tag_is_checked():
    tagged = {
        name
        for name in widemargin._ESTIMATORS
        if getattr(widemargin, name).device_methods
    }
    assert tagged == {type(e).__name__ for e in ESTIMATORS if hasattr(e, "predict")}


def test_answers_are_strict_arrays():
    X, y = load_digits(return_X_y=True)
    model = TVQClassifier(n_tangents=3, max_iter=2)
    with sklearn.config_context(array_api_dispatch=True):
        there = clone(model).fit(strict.asarray(X[:99]), strict.asarray(y[:99]))
        answers = there.predict(strict.asarray(X[:9]))
        found = tangent_distances(strict.asarray(X[:9]), tangents=ImageTangents((8, 8)))
        # A model of one kind, asked in another.
        labels = there.predict(X[:9])
    assert type(answers).__module__.startswith("array_api_strict")
    assert type(found).__module__.startswith("array_api_strict")
    np.testing.assert_array_equal(
        labels, clone(model).fit(X[:99], y[:99]).predict(X[:9])
    )


@pytest.mark.parametrize("transformer", [Deskew, DirectionFeatures, GaussianSmoother])
def test_images_are_made_ready_in_kind(transformer):
    X = load_digits().data[:20]
    here = transformer((8, 8)).fit(X)
    T = ImageTangents((8, 8)).tangents(X)
    with sklearn.config_context(array_api_dispatch=True):
        there = transformer((8, 8)).fit(strict.asarray(X))
        answers = [(there.transform(strict.asarray(X)), here.transform(X))]
        if transformer is DirectionFeatures:
            pushed = there.jvp(strict.asarray(X), strict.asarray(T))
            answers.append((pushed, here.jvp(X, T)))
        moves = image_shifts((8, 8))[0], image_affines((8, 8))[0]
        answers += [(move(strict.asarray(X)), move(X)) for move in moves]
    for found, expected in answers:
        assert type(found).__module__.startswith("array_api_strict")
        np.testing.assert_array_equal(np.asarray(found), expected)
