"""How many prototypes "auto" takes: the smallest number that is not clearly worse."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from widemargin._core.samples import check_samples
from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    HSSClassifier,
    KernelLVQClassifier,
    LVQClassifier,
    MarginLVQClassifier,
)
from widemargin.prototypes.counts import briefly_trained

MODELS = (GLVQClassifier, GMLVQClassifier, LVQClassifier, KernelLVQClassifier)


def gaussians(n, per_class=1, n_classes=5, seed=0):
    """So many Gaussians per class, far enough apart for one mistake in twenty."""
    means = np.random.RandomState(7).standard_normal((per_class * n_classes, 50))
    rng = np.random.RandomState(seed)
    part = rng.randint(0, len(means), n)
    return 0.47 * means[part] + rng.standard_normal((n, 50)), part % n_classes


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("n", [400, 1000, 8000])
def test_one_gaussian_per_class_needs_one_prototype_whatever_the_number_of_rows(
    Model, n
):
    X, y = gaussians(n)
    model = Model(random_state=0).fit(X, y)
    assert len(model.prototypes_) <= 10
    assert model.score(*gaussians(3000, seed=1)) > 0.9


@pytest.mark.parametrize("Model", [*MODELS, MarginLVQClassifier, HSSClassifier])
def test_classes_of_several_parts_get_what_they_need(Model):
    X, y = gaussians(1500, per_class=3)
    model = Model(random_state=0).fit(X, y)
    one = Model(1, random_state=0).fit(X, y)
    assert len(model.prototypes_) >= 10
    asked = gaussians(3000, per_class=3, seed=1)
    assert model.score(*asked) > one.score(*asked) + 0.02
    X, y = make_moons(600, noise=0.1, random_state=0)
    model = Model(random_state=0).fit(X, y)
    assert len(model.prototypes_) > 2
    assert model.score(*make_moons(2000, noise=0.1, random_state=1)) > 0.97


@pytest.mark.parametrize("Model", [GLVQClassifier, GMLVQClassifier])
def test_weights_count_as_copies_do(Model):
    X, y = gaussians(300, per_class=2, n_classes=3)
    w = np.random.RandomState(0).randint(1, 4, 300)
    rows = np.repeat(np.arange(300), w)
    weighed = Model(random_state=0).fit(X, y, w)
    copied = Model(random_state=0).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighed.prototypes_, copied.prototypes_)


def test_copies_tell_nothing_of_each_other():
    """Labels without a pattern: copies left in training would answer for those out."""
    X, y = np.random.RandomState(0).standard_normal((120, 5)), np.arange(120) % 2
    X, y = np.repeat(X, 6, axis=0), np.repeat(y, 6)
    assert len(LVQClassifier(random_state=0).fit(X, y).prototypes_) <= 4


def test_numbers_that_are_given_are_not_judged(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError

    monkeypatch.setattr("widemargin.prototypes.counts.smallest", refuse)
    X, y = gaussians(200)
    assert len(GLVQClassifier(4, random_state=0).fit(X, y).prototypes_) == 20


def test_a_class_of_one_sample_is_never_left_out():
    X, y = gaussians(200)
    X, y = np.vstack([X, X[:1] + 9]), np.append(y, 7)
    model = GLVQClassifier(random_state=0).fit(X, y)
    assert set(model.prototype_labels_) == {0, 1, 2, 3, 4, 7}


@pytest.mark.parametrize("scale", ["none", "within_class_std"])
def test_models_that_are_trained_together_are_those_trained_alone(monkeypatch, scale):
    """Batches are all samples, which are in the same ones then."""
    X, y = gaussians(150, per_class=2, n_classes=3)
    model = GLVQClassifier(batch_size=1000, scale=scale, random_state=0).fit(X, y)
    samples = check_samples(model, X, y)
    trials = [samples.take(np.arange(150) % 3 != k) for k in range(3)]
    data = [model._prepare(one, None, map, False) for one in trials]
    states = []
    for together in (1000, 0):
        monkeypatch.setattr("widemargin.prototypes.counts.TOGETHER", together)
        trial = model._trial(2)
        starts = [trial._start(one, np.random.RandomState(0)) for one in data]
        # The unit of a step is one for all.
        starts = [{**start, "spread": starts[0]["spread"]} for start in starts]
        states.append(briefly_trained(trial, data, starts))
    for together, alone in zip(*states, strict=True):
        np.testing.assert_array_equal(together["codes"], alone["codes"])
        # The smallest gradient that counts is a share of the largest of all.
        np.testing.assert_allclose(
            together["prototypes"], alone["prototypes"], atol=1e-4
        )


def test_no_larger_number_is_tried_where_one_errs_once(monkeypatch):
    sizes, plain = [], GLVQClassifier._trial
    monkeypatch.setattr(
        GLVQClassifier,
        "_trial",
        lambda model, size: sizes.append(size) or plain(model, size),
    )
    X, y = gaussians(100, n_classes=2)
    GLVQClassifier(random_state=0).fit(X + 9 * y[:, None], y)
    assert sizes == [1]
