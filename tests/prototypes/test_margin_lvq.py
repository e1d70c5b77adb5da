"""Algorithm 1: the sign, the three decisions and their margins, every loss."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine
from tests.prototypes import oracle

from widemargin.margins import (
    Exponential,
    Hinge,
    LinearLoss,
    MarginLoss,
    Ramp,
    Sigmoid,
)
from widemargin.prototypes import MarginLVQClassifier
from widemargin.prototypes.initialization import within_class_spread

LOSSES = [Hinge(2.0), Ramp(0.7), Exponential(0.5), Sigmoid(3.0), LinearLoss()]
DECISIONS = ["nearest", "k_nearest", "parzen"]
iris, iris_y = load_iris(return_X_y=True)


class Disguised(MarginLoss):
    """A named loss that the compiled loop cannot recognise."""

    def __init__(self, loss=None):
        self.loss = loss

    def _value(self, margin):
        return self.loss.value(margin)

    def _derivative(self, margin):
        return self.loss.derivative(margin)


def fitted(seed=0, **options):
    rng = np.random.RandomState(seed)
    P = rng.standard_normal((7, 3))
    labels = np.array([0, 0, 0, 1, 1, 1, 2])
    paper = {"margin_scale": 1.0, "scale": "none"}
    options = {"n_neighbors": 2, "bandwidth": 0.3, **paper, **options}
    model = MarginLVQClassifier(init=P, init_labels=labels, shuffle=False, **options)
    return model, rng, P, labels


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("decision", DECISIONS)
def test_one_presentation_descends_the_loss_along_its_gradient(loss, decision):
    """p_new - p_old is -2 gamma times the numerical gradient of L(theta)."""
    gamma = 1e-3
    model, rng, P, labels = fitted(3, decision=decision, loss=loss, max_iter=1)
    X = rng.standard_normal((3, 3))
    y = np.array([0, 1, 2])

    def cost(P):
        theta = oracle.hypothesis_margin(X[0], y[0], P, labels, decision, 2, 0.3)
        return float(loss.value(np.array([theta]))[0])

    gradient = np.empty_like(P)
    for index in np.ndindex(P.shape):
        up, down = P.copy(), P.copy()
        up[index] += 1e-6
        down[index] -= 1e-6
        gradient[index] = (cost(up) - cost(down)) / 2e-6
    model.set_params(learning_rate=gamma)
    model.partial_fit(X[:1], y[:1], classes=[0, 1, 2])
    moved = model.prototypes_ - P
    # The paper absorbs the 1/2 of theta into the step.
    np.testing.assert_allclose(moved, -2 * gamma * gradient, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("decision", DECISIONS)
def test_own_loss_equals_named_loss(loss, decision):
    options = {"decision": decision, "max_iter": 3, "random_state": 0}
    named = MarginLVQClassifier(2, loss=loss, **options).fit(iris, iris_y)
    own = MarginLVQClassifier(2, loss=Disguised(loss), **options).fit(iris, iris_y)
    np.testing.assert_allclose(own.prototypes_, named.prototypes_, rtol=1e-6)
    np.testing.assert_allclose(own.history_["loss"], named.history_["loss"], rtol=1e-6)


@pytest.mark.parametrize("decision", DECISIONS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_margins_are_the_definition_and_positive_iff_right(decision, seed):
    model, rng, _, _ = fitted(seed, decision=decision, max_iter=2)
    X, y = rng.standard_normal((40, 3)), rng.randint(0, 3, 40)
    y[:3] = [0, 1, 2]
    model.fit(X, y)
    margins = model.margins(X, y)
    thetas = [
        oracle.hypothesis_margin(
            x, c, model.prototypes_, model.prototype_labels_, decision, 2, 0.3
        )
        for x, c in zip(X, y, strict=True)
    ]
    right = np.array(thetas) > 0
    assert np.array_equal(np.sign(margins), np.sign(thetas))
    assert np.all(np.abs(margins) <= 1)
    np.testing.assert_allclose(
        model.certified_radius(X)[right], np.array(thetas)[right], atol=1e-6
    )
    assert np.array_equal(margins > 0, model.predict(X) == y)
    np.testing.assert_allclose(
        model.decision_function(X)[np.arange(40), y], margins, atol=1e-12
    )


@pytest.mark.parametrize("decision", DECISIONS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_radius_is_certified_for_every_decision(decision, seed):
    model, rng, _, _ = fitted(seed, decision=decision, max_iter=1)
    X, y = rng.standard_normal((30, 3)), np.arange(30) % 3
    model.fit(X, y)
    radius = model.certified_radius(X)
    assert np.all(radius >= 0)
    direction = rng.standard_normal((30, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    moved = X + 0.999 * radius[:, None] * direction
    assert np.array_equal(model.predict(moved), model.predict(X))
    # Lemma 1: prototypes may all move as far without changing the answer.
    before = model.predict(X)
    shift = rng.standard_normal(model.prototypes_.shape)
    shift /= np.linalg.norm(shift, axis=1, keepdims=True)
    i = int(radius.argmax())
    model.prototypes_ = model.prototypes_ + 0.999 * radius[i] * shift
    assert model.predict(X[i : i + 1]) == before[i]


def test_k_nearest_is_the_majority_for_two_classes():
    rng = np.random.RandomState(0)
    P, labels = rng.standard_normal((20, 2)), np.repeat([0, 1], 10)
    X, y = rng.standard_normal((50, 2)), np.arange(50) % 2
    model = MarginLVQClassifier(
        init=P, init_labels=labels, decision="k_nearest", n_neighbors=3, max_iter=1,
        scale="none",
    ).fit(X, y)  # fmt: skip
    d = ((X[:, None] - model.prototypes_[None]) ** 2).sum(axis=2)
    votes = model.prototype_labels_[np.argsort(d, axis=1)[:, :5]].sum(axis=1)
    assert np.array_equal(model.predict(X), votes >= 3)


def test_narrow_parzen_window_is_the_nearest_prototype():
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((60, 3)), np.arange(60) % 3
    options = {"max_iter": 1, "random_state": 0}
    nearest = MarginLVQClassifier(3, **options).fit(X, y)
    parzen = MarginLVQClassifier(3, decision="parzen", bandwidth=1e-6, **options)
    np.testing.assert_allclose(
        parzen.fit(X, y).prototypes_, nearest.prototypes_, atol=1e-4
    )


def test_huge_slopes_do_not_throw_prototypes_away():
    model = MarginLVQClassifier(
        2, loss=Exponential(50.0), margin_scale=1.0, random_state=0
    )
    model.fit(iris, iris_y)
    assert np.abs(model.prototypes_).max() < 100


def test_learns():
    model = MarginLVQClassifier(2, random_state=0).fit(iris, iris_y)
    assert model.score(iris, iris_y) > 0.95
    assert model.history_["loss"][-1] < model.history_["loss"][0]


@pytest.mark.parametrize("update", ["online", "batch"])
@pytest.mark.parametrize("decision", DECISIONS)
def test_divided_features_are_those_of_another_unit(decision, update):
    options = {
        "decision": decision, "update": update, "max_iter": 5, "random_state": 0,
    }  # fmt: skip
    start = {"init": iris[::30], "init_labels": iris_y[::30]}
    model = MarginLVQClassifier(scale="within_class_std", **start, **options)
    model.fit(iris[:120], iris_y[:120])
    np.testing.assert_allclose(
        model.scale_, within_class_spread(iris[:120], iris_y[:120], np.ones(120))
    )
    unit = model.scale_
    start["init"] = start["init"] / unit
    plain = MarginLVQClassifier(scale="none", **start, **options)
    plain.fit(iris[:120] / unit, iris_y[:120])
    for _ in range(2):
        np.testing.assert_allclose(model.prototypes_, plain.prototypes_ * unit, 1e-9)
        found, expected = (m.margins for m in (model, plain))
        np.testing.assert_allclose(
            found(iris, iris_y), expected(iris / unit, iris_y), atol=1e-9
        )
        np.testing.assert_allclose(
            model.support_weights(iris, iris_y),
            plain.support_weights(iris / unit, iris_y),
            atol=1e-7,
        )
        model.partial_fit(iris[120:], iris_y[120:])
        plain.partial_fit(iris[120:] / unit, iris_y[120:])
    radius = plain.certified_radius(iris / unit) * unit.min()
    np.testing.assert_allclose(model.certified_radius(iris), radius, 1e-6, 1e-9)
    with pytest.raises(ValueError, match="scale='none'"):
        model.margin_bound(iris, iris_y, theta=0.05)


def test_defaults_take_tables_as_they_come():
    X, y = load_wine(return_X_y=True)
    model = MarginLVQClassifier(random_state=0).fit(X[::2], y[::2])
    assert model.scale_ is not None
    paper = MarginLVQClassifier(1, scale="none", random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9 > paper.score(X[1::2], y[1::2]) + 0.1


def test_bound_of_a_fitted_model():
    model = MarginLVQClassifier(2, scale="none", random_state=0).fit(iris, iris_y)
    bound = model.margin_bound(iris, iris_y, theta=0.05, delta=0.1)
    radius = np.linalg.norm(iris - iris.mean(axis=0), axis=1).max()
    right = model.predict(iris) == iris_y
    theta = np.where(right, model.certified_radius(iris), -1)
    alpha = np.mean(theta / radius < 0.05)
    assert bound.alpha == pytest.approx(alpha)
    assert bound.vacuous
    assert bound.n_samples == 150
    fewer = MarginLVQClassifier(1, scale="none", random_state=0).fit(iris, iris_y)
    simpler = fewer.margin_bound(iris, iris_y, theta=0.05, delta=0.1)
    assert simpler.vc_dimension < bound.vc_dimension


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decision": "vote"}, "decision must be one of"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"margin_scale": -1.0}, "margin_scale"),
        ({"scale": "units"}, "scale must be one of"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"loss": "log"}, "loss"),
        ({"loss": object()}, "loss"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MarginLVQClassifier(**options).fit(iris, iris_y)
