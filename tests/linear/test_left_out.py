"""Planes without one of their samples: the closed form against fits without it."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from widemargin._core.duplicates import observation_groups
from widemargin._core.left_out import squared_spans
from widemargin.hyperplanes.left_out import Expansion, LeaveOneOut, loo_shifts
from widemargin.hyperplanes.spaces import LinearSpace
from widemargin.linear import (
    FixedMarginPerceptron,
    MarginPerceptron,
    MaxMarginClassifier,
)


def overlapping(n, d, seed=0, gap=1.0):
    """Two Gaussians, `gap` standard deviations of each from the middle."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[:, 0] += gap * (2 * y - 1)
    return X, y


def left_out_by_formula(model, X, y, weights=None):
    """Functional margins of samples, each left out, as a fit computes them."""
    seen = np.zeros(len(y))
    real = model._calibrate_without

    def spy(samples, shifts, leave):
        (rows, values), *_ = shifts
        seen[rows] = values
        return real(samples, shifts, leave)

    model._calibrate_without = spy
    model._left_out_parts = lambda samples: []
    model.fit(X, y, weights)
    del model._calibrate_without, model._left_out_parts
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    functional = model.decision_function(X) * model.weight_norm_[0]
    return signs * functional - seen, signs * functional


def supports(model):
    """Samples with a weight, rounding aside."""
    weights = np.abs(model.dual_coef_[0])
    return set(model.support_[weights > 1e-9 * weights.max()].tolist())


def left_out_by_fits(model, X, y, weights=None, pairwise=False, groups=None):
    """The same from fits without the sample; NaN where the supports change."""
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    whole = supports(model)
    groups = np.arange(len(y)) if groups is None else groups
    params = model.get_params()
    if params["gamma"] == "scale" and params["kernel"] == "rbf":
        params["gamma"] = model._kernel_state["gamma"]
    if model.penalize_intercept and model.intercept_scaling is None:
        params["intercept_scaling"] = model.intercept_scaling_
    out = np.full(len(y), np.nan)
    for i in range(len(y)):
        rest = np.flatnonzero(groups != groups[i])
        inner = X[np.ix_(rest, rest)] if pairwise else X[rest]
        asked = X[[i]][:, rest] if pairwise else X[[i]]
        own = None if weights is None else weights[rest]
        other = MaxMarginClassifier(**params).fit(inner, y[rest], own)
        same = whole - set(np.flatnonzero(groups == groups[i]).tolist())
        if {int(rest[k]) for k in supports(other)} == same:
            value = other.decision_function(asked)[0] * other.weight_norm_[0]
            out[i] = signs[i] * value
    return out


FITS = {
    "soft": ({}, (40, 3, 1.0)),
    "dear slack": ({"C": 10.0}, (40, 3, 1.0)),
    "soft, height": (
        {"penalize_intercept": True, "intercept_scaling": 2.0},
        (40, 3, 1.0),
    ),
    "soft, more features": ({}, (20, 40, 1.0)),
    "hard": ({"C": np.inf}, (30, 20, 1.0)),
    "hard, height": (
        {"C": np.inf, "penalize_intercept": True, "intercept_scaling": 2.0},
        (40, 20, 1.0),
    ),
    "kernel": ({"kernel": "rbf"}, (40, 3, 1.0)),
    "kernel, height": ({"kernel": "rbf", "penalize_intercept": True}, (40, 3, 1.0)),
    "kernel, dear slack": ({"kernel": "rbf", "C": 100.0}, (40, 3, 1.0)),
    "kernel, hard": ({"kernel": "rbf", "C": np.inf}, (40, 10, 1.0)),
}


@pytest.mark.parametrize("of", FITS)
def test_left_out_as_by_a_fit_without_the_sample(of):
    params, (n, d, gap) = FITS[of]
    X, y = overlapping(n, d, gap=gap)
    model = MaxMarginClassifier(tol=1e-9, **params)
    found, seen = left_out_by_formula(model, X, y)
    expected = left_out_by_fits(model, X, y)
    exact = ~np.isnan(expected)
    np.testing.assert_allclose(found[exact], expected[exact], atol=1e-7)
    # Some of them matter.
    assert np.abs(expected - seen)[exact].max() > 0.2


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_weight_leaves_with_its_sample(kernel):
    X, y = overlapping(40, 3)
    weights = np.random.default_rng(0).uniform(0.3, 3.0, 40)
    model = MaxMarginClassifier(tol=1e-9, kernel=kernel, gamma=0.3)
    found, _ = left_out_by_formula(model, X, y, weights)
    expected = left_out_by_fits(model, X, y, weights)
    exact = ~np.isnan(expected)
    np.testing.assert_allclose(found[exact], expected[exact], atol=1e-7)
    assert exact.sum() > 10


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_copies_leave_together(kernel):
    X, y = overlapping(40, 3)
    twice = np.concatenate([np.arange(40), np.arange(0, 40, 3)])
    pairwise = kernel == "precomputed"
    X = rbf_kernel(X, gamma=0.3)[:, twice] if pairwise else X
    X, y = X[twice], y[twice]
    model = MaxMarginClassifier(tol=1e-9, kernel=kernel, gamma=0.3)
    found, _ = left_out_by_formula(model, X, y)
    expected = left_out_by_fits(model, X, y, pairwise=pairwise, groups=twice)
    exact = ~np.isnan(expected)
    np.testing.assert_allclose(found[exact], expected[exact], atol=1e-7)
    assert exact.sum() > 20


@pytest.mark.parametrize("sparse", [False, True])
def test_who_is_the_same_observation(sparse):
    def groups(X, y):
        X = sp.csr_array(X) if sparse else X
        return observation_groups(X, np.asarray(y))

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    X[9] = X[4]
    assert groups(X, np.where(np.arange(50) == 9, 1, 0)) is None
    found = groups(X, np.zeros(50, int))
    assert found[9] == found[4]
    assert len(np.unique(found)) == 49
    # Few values, both classes at each: equal rows are no copies.
    cells = rng.integers(0, 2, (50, 2)).astype(float)
    assert groups(cells, rng.integers(0, 2, 50)) is None
    if not sparse:
        assert groups(cells, np.zeros(50, int)) is None
    assert groups(np.zeros((0, 2)), np.zeros(0, int)) is None


def slow_span(K, private, i, others, bias):
    """Distance from combinations, by the stationary point of its square."""
    o = [k for k in others if k != i]
    system = K[np.ix_(o, o)] + np.diag(private[o])
    v = K[o, i]
    if bias:
        ones = np.ones((len(o), 1))
        system = np.block([[system, ones], [ones.T, np.zeros((1, 1))]])
        v = np.append(v, 1.0)
    return K[i, i] + private[i] - v @ np.linalg.solve(system, v)


@pytest.mark.parametrize("n", [2, 9, 80])
@pytest.mark.parametrize("bias", [True, False])
def test_spans_are_distances(bias, n):
    rng = np.random.default_rng(0)
    V = rng.normal(size=(n, n + 3))
    K, private = V @ V.T, rng.uniform(0.1, 1, n)
    given = K.copy()
    found = squared_spans(K, private, bias=bias)
    np.testing.assert_array_equal(K, given)
    expected = [slow_span(K, private, i, range(n), bias) for i in range(n)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_spans_of_dependent_samples_are_none(bias):
    V = np.random.default_rng(0).normal(size=(9, 3))
    V[1] = V[0]
    K = V @ V.T
    assert squared_spans(K, bias=bias).max() < 1e-6 * np.diag(K).mean()
    zeros = squared_spans(np.zeros((4, 4)), bias=bias)
    assert np.isfinite(zeros).all()
    assert np.isfinite(squared_spans(np.ones((1, 1)), bias=bias)).all()


def test_some_of_the_span_makes_nobody_too_sure(monkeypatch):
    """Gradients that stop early find a longer way to the span, never a shorter one."""
    from widemargin.hyperplanes import left_out

    X, _ = overlapping(400, 600)
    alpha, private = np.random.default_rng(0).uniform(0.1, 1, (2, 400))
    plane = Expansion(LinearSpace(X), alpha, private, None)
    left = LeaveOneOut(np.ones(400, bool))
    exact = loo_shifts(plane, left)
    monkeypatch.setattr(left_out, "_FEW", 100)
    rough = loo_shifts(plane, left)
    assert 1.0 <= rough.mean() / exact.mean() < 1.2
    assert np.corrcoef(rough, exact)[0, 1] > 0.95


KINDS = {
    "linear": MaxMarginClassifier(),
    "hard": MaxMarginClassifier(C=np.inf),
    "kernel": MaxMarginClassifier(kernel="rbf"),
    "kernel, dear slack": MaxMarginClassifier(kernel="rbf", C=100.0),
    "dynamic": MaxMarginClassifier("dynamic", tol=0.1),
    "plain": MarginPerceptron(random_state=0),
    "relaxation": MarginPerceptron("relaxation", random_state=0),
    "Rosenblatt": FixedMarginPerceptron(random_state=0),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("n", "d"), [(60, 2), (60, 20), (200, 100)])
@pytest.mark.parametrize("kind", KINDS)
def test_overlapping_classes_are_better_than_saying_nothing(kind, n, d):
    X, y = overlapping(n, d, seed=1)
    new, truth = overlapping(2000, d, seed=2)
    model = clone(KINDS[kind])
    if kind == "hard" and d == 2:
        pytest.skip("no plane separates them")
    P = model.fit(X, y).predict_proba(new)
    assert log_loss(truth, P) < 0.68
    # Right as often as it says, more or less: never much less.
    surer = P.max(axis=1).mean() - np.mean(P.argmax(axis=1) == truth)
    assert -0.2 < surer < 0.08


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_classes_that_are_the_same_are_nearly_equally_likely(kind):
    X, y = overlapping(80, 100, gap=0.0)
    new, truth = overlapping(1000, 100, seed=2, gap=0.0)
    P = clone(KINDS[kind]).fit(X, y).predict_proba(new)
    assert log_loss(truth, P) < 0.75


@pytest.mark.parametrize("kind", ["plain", "relaxation", "Rosenblatt"])
def test_a_first_batch_is_no_surer_than_a_fit(kind):
    X, y = overlapping(200, 100, seed=1)
    new, truth = overlapping(2000, 100, seed=2)
    model = clone(KINDS[kind]).partial_fit(X, y, classes=[0, 1])
    assert log_loss(truth, model.predict_proba(new)) < 0.69


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [MarginPerceptron, FixedMarginPerceptron])
def test_perceptrons_are_left_out_about_as_by_fits(make):
    """No formula is exact: orders differ. The mean is what a temperature asks for."""
    X, y = overlapping(60, 30, seed=3)
    signs = 2.0 * y - 1
    model = make(random_state=0)
    found, seen = left_out_by_formula(model, X, y)
    expected = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        other = make(intercept_scaling=model.intercept_scaling_, random_state=1).fit(
            X[rest], y[rest]
        )
        value = other.decision_function(X[[i]])[0] * other.weight_norm_[0]
        expected[i] = signs[i] * value
    gain = seen.mean() - expected.mean()
    assert gain > 0
    assert 0.5 * gain < seen.mean() - found.mean() < 2 * gain
    assert np.corrcoef(found, expected)[0, 1] > np.corrcoef(seen, expected)[0, 1]


# Few samples are left out of other fits, many in closed form.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("n", "d"), [(60, 20), (200, 2)])
@pytest.mark.parametrize("kind", ["linear", "kernel", "plain"])
def test_a_probability_waits_until_it_is_asked_for(kind, n, d):
    X, y = overlapping(n, d, seed=1)
    asked = clone(KINDS[kind]).fit(X, y)
    expected = asked.predict_proba(X)
    model = clone(KINDS[kind]).fit(X.copy(), y.copy())
    assert "temperature_" not in vars(model)
    sent = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(sent.predict_proba(X), expected)
    # What becomes of the samples after the fit is no matter.
    given, labels = X.copy(), y.copy()
    model.fit(given, labels)
    given[:], labels[:] = 0.0, 0
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert model._later._given == ()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_products_that_are_no_numbers_leave_nobody_out(bad):
    K = np.eye(4)
    K[0, 1] = K[1, 0] = bad
    with np.errstate(all="ignore"):
        assert np.isnan(squared_spans(K, bias=True)).all()
    X = np.eye(4)
    X[0, 0] = bad
    plane = Expansion(LinearSpace(X), np.ones(4), None, None)
    assert np.isfinite(loo_shifts(plane, LeaveOneOut(np.ones(4, bool)))).all()
