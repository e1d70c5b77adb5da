"""NaN in X: learners name it, and a pipeline with MixtureImputer takes it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from tests.meta.test_imputing import with_holes

from widemargin import (
    GLVQClassifier,
    GMLVQClassifier,
    LVQClassifier,
    MixtureImputer,
    TangentKNeighborsClassifier,
)

X, Y = load_iris(return_X_y=True)
MEMBERS = [
    LVQClassifier(random_state=0),
    GLVQClassifier(random_state=0),
    GLVQClassifier(loss="rslvq", random_state=0),
    *[
        GMLVQClassifier(metric=metric, random_state=0)
        for metric in ("full", "diagonal", "class", "local")
    ],
    TangentKNeighborsClassifier(3, tangents="none"),
]
every_member = pytest.mark.parametrize("model", MEMBERS, ids=repr)

HOLES = with_holes(X, 0.2)


@every_member
def test_it_learns_and_answers_from_what_is_there(model):
    imputer = MixtureImputer()
    pipeline = make_pipeline(imputer, clone(model)).fit(HOLES, Y)
    assert pipeline.score(HOLES, Y) > 0.9
    alone = clone(model).fit(imputer.transform(HOLES), Y)
    np.testing.assert_array_equal(
        pipeline.predict(HOLES), alone.predict(imputer.transform(HOLES))
    )


@every_member
def test_without_it_nan_is_named_with_the_way_out(model):
    message = rf"X contains NaN, which {type(model).__name__} does not take: .*Mixture"
    with pytest.raises(ValueError, match=message):
        clone(model).fit(HOLES, Y)
    fitted = clone(model).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        fitted.predict(HOLES)
    if hasattr(model, "partial_fit"):
        with pytest.raises(ValueError, match=message):
            fitted.partial_fit(HOLES, Y)
    assert not fitted.__sklearn_tags__().input_tags.allow_nan


def test_unequal_units_are_noticed():
    wine, y = load_wine(return_X_y=True)
    wine = MixtureImputer().fit_transform(with_holes(wine, 0.2), y)
    model = GLVQClassifier(random_state=0).fit(wine[::2], y[::2])
    assert model.scale_ is not None
    raw = GLVQClassifier(scale="none", random_state=0).fit(wine[::2], y[::2])
    assert model.score(wine[1::2], y[1::2]) > 0.1 + raw.score(wine[1::2], y[1::2])


@pytest.mark.parametrize(
    "model",
    [
        GLVQClassifier(5, random_state=0),
        GMLVQClassifier(5, metric="class", random_state=0),
        TangentKNeighborsClassifier(5, tangents="none"),
    ],
    ids=repr,
)
def test_better_than_means(model):
    digits, y = load_digits(return_X_y=True)
    digits = with_holes(digits, 0.4)
    a, b = slice(0, None, 4), slice(1, None, 4)
    wrong = [
        1 - make_pipeline(one, clone(model)).fit(digits[a], y[a]).score(digits[b], y[b])
        for one in (MixtureImputer(), SimpleImputer())
    ]
    assert wrong[0] < 0.75 * wrong[1]
