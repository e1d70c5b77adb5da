import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from widemargin._core.samples import Samples
from widemargin.prototypes import HSSClassifier, TDNeuronClassifier
from widemargin.prototypes.tdneuron import START, Training, Units


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600]


def training():
    rng = np.random.RandomState(0)
    X, codes = rng.standard_normal((40, 6)), np.arange(40) % 3
    X += codes[:, None]
    weights, rows = rng.uniform(0.5, 2, 40), np.arange(40)
    return Training.of(Samples(X, codes, weights, np.arange(3), rows))


def slow_error(self, units):
    error = 0.0
    for x, w, t in zip(self.X, self.weights, self.targets, strict=True):
        for j, model in enumerate(units.stack):
            A, b = model[1:].T, x - model[0]
            z = ((b - A @ np.linalg.lstsq(A, b, rcond=None)[0]) ** 2).sum()
            u = np.exp(units.log_slope[j]) * (z / units.scale - units.threshold[j])
            error += w * (1 / (1 + np.exp(u)) - t[j]) ** 2
    return error


@pytest.mark.parametrize("n_tangents", [0, 1, 3])
def test_gradient_by_finite_differences(n_tangents):
    d = training()
    units = d.first()
    for _ in range(n_tangents):
        units = d.add_tangent(units)
    slope = d.slope(units)
    assert slope.error == pytest.approx(slow_error(d, units))
    rng, h = np.random.RandomState(1), 1e-6
    for name in ("stack", "log_slope", "threshold"):
        value = getattr(units, name)
        direction = rng.standard_normal(value.shape)
        ahead = slow_error(d, units._replace(**{name: value + h * direction}))
        behind = slow_error(d, units._replace(**{name: value - h * direction}))
        found = (getattr(slope, name) * direction).sum()
        assert found == pytest.approx((ahead - behind) / (2 * h), rel=1e-4, abs=1e-8)


def test_error_falls():
    d = training()
    first = d.first()
    units, after, _ = d.train(first, 30, 0.0)
    assert after < d.slope(first).error
    units = d.add_tangent(units)
    added = d.slope(units).error
    units, after, n_steps = d.train(units, 30, 0.0)
    assert after < added
    assert n_steps == 30
    frames = units.stack[:, 1:]
    assert_allclose(frames @ frames.transpose(0, 2, 1), np.ones((3, 1, 1)))


def test_number_of_tangents_is_the_best_on_held_out_samples(digits):
    model = TDNeuronClassifier(8, random_state=0).fit(*digits)
    scores = model.history_["validation_score"]
    assert model.n_tangents_ == model.history_["n_tangents"][int(np.argmax(scores))]
    assert model.tangents_.shape == (10, model.n_tangents_, 64)


def test_answers_are_the_largest_outputs(digits):
    X, y = digits
    model = TDNeuronClassifier(4, random_state=0).fit(X, y)
    outputs = model.outputs(X)
    assert np.all((outputs >= 0) & (outputs <= 1))
    assert_array_equal(model.predict(X), outputs.argmax(axis=1))
    assert_array_equal(model.margins(X, y) > 0, model.predict(X) == y)
    z = HSSClassifier._squared_distances
    hss = HSSClassifier(1, n_tangents=4).fit(X, y)
    hss.prototypes_, hss.tangents_ = model.prototypes_, model.tangents_
    u = model.slopes_ * (z(hss, X) - model.thresholds_)
    assert_allclose(outputs, 1 / (1 + np.exp(u)), atol=1e-12)


def test_no_unit_and_no_threads(digits):
    X, y = digits
    plain = TDNeuronClassifier(3, max_iter=8, random_state=0).fit(X, y)
    scaled = TDNeuronClassifier(3, max_iter=8, random_state=0).fit(1e4 * X, y)
    assert_allclose(scaled.history_["error"], plain.history_["error"], rtol=1e-6)
    two = TDNeuronClassifier(3, max_iter=8, random_state=0, n_jobs=2).fit(X, y)
    assert_array_equal(two.prototypes_, plain.prototypes_)


def test_hard_input_has_finite_answers():
    X = np.array([[0.0, 0], [0, 0], [1, 1], [1, 1], [1, 1], [2, 2]])
    model = TDNeuronClassifier(random_state=0).fit(X, [0, 0, 1, 1, 2, 2])
    assert np.isfinite(model.outputs(X)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_tangents": 64}, "max_tangents must be at least 0"),
        ({"validation_fraction": 0.0}, "validation_fraction"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters(digits, parameters, message):
    with pytest.raises(ValueError, match=message):
        TDNeuronClassifier(**parameters).fit(*digits)


def test_no_certified_radius(digits):
    X, y = digits
    model = TDNeuronClassifier(1, max_iter=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="outputs and not distances"):
        model.certified_radius(X)


def test_batches_are_steps_of_the_descent(digits):
    X, y = digits
    model = TDNeuronClassifier(3, max_iter=1, random_state=0).fit(X, y)
    whole = Training.of(Samples(X, y, np.ones(len(X)), np.arange(10), np.arange(600)))
    stack = np.concatenate([model.prototypes_[:, None], model.tangents_], axis=1)
    units = Units(stack, np.log(model.slopes_), model.thresholds_, 1.0)
    units, errors = whole.shifted(units.measured_in(model._training["scale"]), -1), []
    mistakes = 0.06
    for _ in range(4):
        mistakes = (200 * mistakes + 600 * (1 - model.score(X, y))) / 800
        model.partial_fit(X, y)
        units, error = whole.step(units, START * max(0.09, 15 * mistakes))
        errors.append(error)
    assert_allclose(model.history_["error"][-4:], errors, rtol=1e-6)
    assert_allclose(model.prototypes_, whole.shifted(units, 1).stack[:, 0], atol=1e-6)
    assert errors == sorted(errors, reverse=True)


def test_batches_bring_classes_as_they_come(digits):
    X, y = digits
    model = TDNeuronClassifier(4, random_state=0)
    for c in (5, 3, 9, 1, 0, 2, 4, 8, 7, 6):
        own = np.flatnonzero(y == c)
        model.partial_fit(X[own], y[own], classes=np.arange(10))
        assert c in model.prototype_labels_
    assert_array_equal(model.prototype_labels_, np.arange(10))
    for rows in np.array_split(np.random.RandomState(0).permutation(600), 6):
        model.partial_fit(X[rows], y[rows])
    assert model.tangents_.shape == (10, model.n_tangents_, 64)
    assert model.score(X, y) > 0.9


def test_batches_go_on_after_a_fit_and_units_have_no_unit(digits):
    X, y = digits
    model = TDNeuronClassifier(2, random_state=0).fit(X, y)
    before, error = model.prototypes_, model.history_["error"][-1]
    model.partial_fit(X, y)
    assert model.history_["error"][-1] <= error * (1 + 1e-6)
    assert not np.array_equal(model.prototypes_, before)
    scaled = TDNeuronClassifier(2, random_state=0).fit(64 * X, y).partial_fit(64 * X, y)
    assert_allclose(scaled.prototypes_, 64 * model.prototypes_, rtol=1e-6, atol=1e-4)
    kept = model.prototypes_
    with pytest.raises(ValueError, match="is not what the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    assert model.prototypes_ is kept


def test_models_without_some_samples_have_the_tangents_of_the_whole(monkeypatch):
    """They choose others where samples are few, and are right as often as those are."""
    X, y = load_digits(return_X_y=True)
    X, y, seen, plain = X[:300], y[:300], [], TDNeuronClassifier._costs_of_unseen
    monkeypatch.setattr(
        TDNeuronClassifier,
        "_costs_of_unseen",
        lambda model, samples: seen.append(model.n_tangents_) or plain(model, samples),
    )
    model = TDNeuronClassifier(random_state=0).fit(X, y)
    model.predict_proba(X[:2])
    assert len(seen) > 1
    assert set(seen) == {model.n_tangents_}
