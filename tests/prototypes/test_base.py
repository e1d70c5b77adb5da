"""What every model by nearest prototype owes its user, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs

from widemargin._compute.nearest import class_minima
from widemargin.margins import nearest_right_wrong, relative_margin
from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    KernelLVQClassifier,
    LVQClassifier,
    MarginLVQClassifier,
)

iris, y = load_iris(return_X_y=True)
names = np.array(["setosa", "versicolor", "virginica"])[y]
MODELS = [
    LVQClassifier(1, max_iter=3, random_state=0),
    MarginLVQClassifier(max_iter=3, random_state=0),
    GLVQClassifier(max_iter=3, random_state=0),
    GMLVQClassifier(max_iter=3, random_state=0),
    KernelLVQClassifier(max_iter=3, random_state=0),
]
every_model = pytest.mark.parametrize(
    "model", MODELS, ids=lambda model: type(model).__name__
)


@every_model
def test_margins_are_positive_iff_right_and_read_off_the_decision(model):
    model = clone(model).set_params(prototypes_per_class=2).fit(iris, names)
    scores = model.decision_function(iris)
    margins = model.margins(iris, names)
    assert scores.shape == (150, 3)
    assert np.array_equal(model.classes_[scores.argmax(axis=1)], model.predict(iris))
    assert np.array_equal(margins > 0, model.predict(iris) == names)
    np.testing.assert_array_equal(margins, scores[np.arange(150), y])
    assert model.prototype_labels_.dtype == names.dtype
    assert set(model.prototype_labels_) == set(names)


@every_model
def test_two_classes_have_one_column(model):
    two = y < 2
    model = clone(model).fit(iris[two], names[two])
    scores = model.decision_function(iris[two])
    assert scores.shape == (100,)
    assert np.array_equal(scores > 0, model.predict(iris[two]) == "versicolor")
    margins = model.margins(iris[two], names[two])
    np.testing.assert_allclose(margins, np.where(y[two] == 1, scores, -scores))


@every_model
def test_chunks_do_not_change_answers(model):
    model = clone(model).fit(iris, y)
    whole = model.decision_function(iris)
    memory = 0.05 if isinstance(model, KernelLVQClassifier) else 0.001
    with config_context(working_memory=memory):
        np.testing.assert_allclose(model.decision_function(iris), whole, atol=1e-9)


@every_model
@pytest.mark.parametrize("init", ["kmeans", "means", "samples"])
def test_every_init_and_counts_by_label(model, init):
    counts = {"setosa": 1, "versicolor": 3, "virginica": 2}
    model = clone(model).set_params(init=init, prototypes_per_class=counts)
    model.fit(iris, names)
    found = {c: int(np.sum(model.prototype_labels_ == c)) for c in counts}
    assert found == counts
    assert model.score(iris, names) > 0.8


@every_model
def test_given_prototypes_are_the_start(model):
    start = iris[[0, 10, 60, 120]]
    model = clone(model).set_params(init=start, init_labels=names[[0, 10, 60, 120]])
    model.fit(iris, names)
    assert model.prototype_labels_.tolist() == names[[0, 10, 60, 120]].tolist()
    assert model.score(iris, names) > 0.8
    np.testing.assert_array_equal(start, iris[[0, 10, 60, 120]])


@every_model
def test_early_stopping_returns_the_best(model):
    model = clone(model).set_params(early_stopping=True, max_iter=40)
    model.set_params(n_iter_no_change=3).fit(iris, y)
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_iter_ == len(model.history_["loss"]) < 80
    assert len(scores) - 1 - int(np.argmax(scores)) <= 3


@every_model
def test_class_weight_balanced_equals_those_sample_weights(model):
    rows = np.concatenate([np.arange(20), np.arange(50, 150)])
    counts = np.bincount(y[rows])
    weights = (120 / (3 * counts))[y[rows]]
    balanced = clone(model).set_params(class_weight="balanced").fit(iris[rows], y[rows])
    weighted = clone(model).fit(iris[rows], y[rows], weights)
    np.testing.assert_allclose(balanced.prototypes_, weighted.prototypes_, rtol=1e-9)


@every_model
def test_weight_zero_is_absence(model):
    weights = (np.arange(150) % 5 > 0).astype(float)
    kept = weights > 0
    one = clone(model).fit(iris, y, weights).decision_function(iris)
    other = clone(model).fit(iris[kept], y[kept]).decision_function(iris)
    np.testing.assert_allclose(one, other)


@every_model
def test_thousands_of_classes(model):
    n_classes = 1200
    rng = np.random.RandomState(0)
    labels = np.repeat(np.arange(n_classes), 3)
    X = rng.uniform(-50, 50, (n_classes, 4))[labels] + rng.uniform(-1, 1, (3600, 4))
    model = clone(model).set_params(max_iter=1, prototypes_per_class=2)
    if isinstance(model, KernelLVQClassifier):
        model.set_params(gamma=0.01, max_support=300, prototypes_per_class=1)
    model.fit(X, labels)
    assert len(model.classes_) == n_classes
    bar = 0.5 if isinstance(model, KernelLVQClassifier) else 0.9
    assert model.score(X, labels) > bar


@every_model
def test_a_class_with_few_samples_gets_few_prototypes(model):
    rows = np.concatenate([[0, 1, 1], np.arange(50, 150)])
    model = (
        clone(model).set_params(prototypes_per_class=10).fit(iris[rows], names[rows])
    )
    counts = {c: int(np.sum(model.prototype_labels_ == c)) for c in set(names)}
    assert counts == {"setosa": 2, "versicolor": 10, "virginica": 10}


BAD_DATA = [
    (lambda: (iris[:50], y[:50], None), "at least 2 classes"),
    (lambda: (np.where(iris == 5.1, np.inf, iris), y, None), "infinity"),
    (lambda: (iris, y, -np.ones(150)), "[Nn]egative"),
    (lambda: (iris, y, np.full(150, np.nan)), "NaN"),
    (lambda: (iris, y, np.zeros(150)), "zero for every sample"),
    (lambda: (iris, names, (y == 0).astype(float)), "one class, 'setosa'"),
    (lambda: (1e160 * iris, y, None), "X has values of up to"),
    (lambda: (1e-160 * iris, y, None), "divide them"),
    (lambda: (iris, np.linspace(0, 1, 150), None), "Unknown label type"),
]


@every_model
@pytest.mark.parametrize(("make", "message"), BAD_DATA)
def test_bad_data_is_refused_with_a_reason(model, make, message):
    X, labels, weights = make()
    with pytest.raises(ValueError, match=message):
        clone(model).fit(X, labels, weights)


BAD_OPTIONS = [
    ({"prototypes_per_class": 0}, "prototypes_per_class"),
    ({"prototypes_per_class": 1.5}, "prototypes_per_class"),
    ({"prototypes_per_class": {0: 1, 1: 1}}, r"missing \[2\]"),
    ({"prototypes_per_class": {0: 1, 1: 1, 2: 1, 9: 1}}, r"unknown \[9\]"),
    ({"init": "random"}, "init .* must be one of"),
    ({"init_labels": [0, 1, 2]}, "init_labels goes with an array"),
    ({"init": iris[:3, :2], "init_labels": [0, 1, 2]}, "init must have shape"),
    ({"init": iris[:3]}, "init_labels must give"),
    ({"init": iris[:3], "init_labels": [0, 1]}, "init_labels must have shape"),
    ({"init": iris[:3], "init_labels": [0, 1, 7]}, "init_labels contains 7"),
    ({"init": iris[:3], "init_labels": [0, 1, 1]}, "no prototype for the classes"),
    ({"class_weight": {7: 1.0}}, "class_weight names"),
    ({"class_weight": {0: -1.0}}, r"class_weight\[0\] must be"),
    ({"class_weight": "even"}, "class_weight must be"),
    ({"max_iter": 0}, "max_iter"),
    ({"early_stopping": True, "validation_fraction": 0.001}, "holds none out"),
]


@every_model
@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options_are_refused_with_a_reason(model, options, message):
    with pytest.raises(ValueError, match=message):
        clone(model).set_params(**options).fit(iris, y)


@every_model
def test_partial_fit_wants_its_classes_once(model):
    model = clone(model)
    with pytest.raises(ValueError, match="classes must be given"):
        model.partial_fit(iris, y)
    with pytest.raises(ValueError, match="classes does not name"):
        clone(model).partial_fit(iris, y, classes=[0, 1])
    model.partial_fit(iris, y, classes=[0, 1, 2]).partial_fit(iris, y)
    assert model.n_iter_ == 2
    with pytest.raises(ValueError, match="is not what the first call"):
        model.partial_fit(iris, y, classes=[0, 1])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(iris[:, :2], y)


@every_model
def test_float32_is_kept(model):
    single = iris.astype(np.float32)
    model = clone(model).fit(single, y)
    assert model.prototypes_.dtype == np.float32
    assert model.decision_function(single).dtype == np.float32


@pytest.mark.parametrize("model", MODELS[:4], ids=lambda m: type(m).__name__)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_certified_radius_holds_in_the_space_of_the_features(model, seed):
    X, labels = make_blobs(60, 3, centers=4, cluster_std=3.0, random_state=seed)
    model = clone(model).set_params(max_iter=2).fit(X, labels)
    radius = model.certified_radius(X)
    direction = np.random.RandomState(seed).standard_normal(X.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    moved = X + 0.999 * radius[:, None] * direction
    assert np.array_equal(model.predict(moved), model.predict(X))


def test_relative_margin_is_that_of_the_margins_package():
    model = GLVQClassifier(2, scale="none", random_state=0).fit(iris, y)
    D = ((iris[:, None] - model.prototypes_[None]) ** 2).sum(axis=2)
    d_plus, d_minus, _, _ = nearest_right_wrong(D, model.prototype_labels_, y)
    expected = relative_margin(d_plus, d_minus)
    np.testing.assert_allclose(model.margins(iris, y), expected, atol=1e-9)


def test_distances_far_from_the_origin_keep_their_digits():
    near = LVQClassifier(1, max_iter=1, init="means", random_state=0).fit(iris, y)
    far = clone(near).fit(iris + 1e6, y)
    np.testing.assert_allclose(
        far.decision_function(iris + 1e6), near.decision_function(iris), atol=1e-5
    )


def test_class_distances_of_a_bare_class_are_infinite():
    D = class_minima(np.array([[3.0, 1.0, 2.0]]), np.array([2, 0, 2]), 3)
    assert D.tolist() == [[1.0, np.inf, 2.0]]
