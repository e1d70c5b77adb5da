"""Small soft pairs that are solved together against one problem after the other."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.linear.exact import false_claims

from widemargin.hyperplanes import blocks, small_pairs
from widemargin.linear import MaxMarginClassifier


def classes(sizes, d, spread=1.0, seed=0):
    """Gaussian classes of the sizes, means `spread` apart, in a mixed order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return spread * rng.normal(size=(len(sizes), d))[y] + rng.normal(
        size=(len(y), d)
    ), y


def one_by_one(monkeypatch, model, *data):
    """Fit without solving anything together."""
    with monkeypatch.context() as patch:
        patch.setattr(small_pairs, "MOST", 0)
        return model.fit(*data)


CASES = {
    "equal sizes": ([12] * 6, 5, {}),
    "unequal sizes": ([3, 30, 11, 12, 1, 40], 4, {}),
    "more features than samples": ([6] * 5, 40, {}),
    "separable": ([10] * 5, 30, {"C": 100.0}),
    "overlapping": ([20] * 4, 2, {"C": 0.01}),
    "prices of classes": ([10, 20, 5, 9], 3, {"class_weight": "balanced"}),
    "many at once": ([7] * 40, 3, {}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pairs_together_are_those_one_by_one(monkeypatch, case, dtype):
    sizes, d, options = CASES[case]
    X, y = classes(sizes, d)
    X = X.astype(dtype)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    options = {**options, "tol": 1e-7}
    together = MaxMarginClassifier(**options).fit(X, y, weights)
    alone = one_by_one(monkeypatch, MaxMarginClassifier(**options), X, y, weights)
    assert np.max(together.gap_) <= 1e-7 or dtype == np.float32
    # Each within its tolerance of the truth, which is between the other's bounds.
    assert (together.margin_ <= alone.margin_upper_bound_).all()
    assert (together.margin_upper_bound_ >= alone.margin_).all()
    np.testing.assert_allclose(together.coef_, alone.coef_, atol=2e-3)
    np.testing.assert_allclose(together.intercept_, alone.intercept_, atol=1e-2)
    np.testing.assert_array_equal(together.predict(X), alone.predict(X))
    np.testing.assert_allclose(together.temperature_, alone.temperature_, rtol=0.02)


def test_pairs_together_leave_out_the_same(monkeypatch):
    X, y = classes([12, 9, 15, 10], 4)
    given = {}

    def spied(name, model):
        real = model._calibrate_without

        def spy(samples, shifts, leave):
            given[name] = [(rows.copy(), values.copy()) for rows, values in shifts]
            return real(samples, shifts, leave)

        model._calibrate_without = spy
        model._left_out_parts = lambda samples: []
        return model

    spied("together", MaxMarginClassifier(tol=1e-9)).fit(X, y)
    one_by_one(monkeypatch, spied("alone", MaxMarginClassifier(tol=1e-9)), X, y)
    for (rows, values), (others, expected) in zip(
        given["together"], given["alone"], strict=True
    ):
        np.testing.assert_array_equal(rows, others)
        np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-6)
        assert (values > 0).any()


def of_pair(model, p):
    """See one pair of a model as a model of two classes."""
    rows = np.flatnonzero(model.dual_coef_[p])
    view = SimpleNamespace(
        C=model.C, kernel="linear", penalize_intercept=False,
        support_=model.support_[rows], dual_coef_=model.dual_coef_[p : p + 1, rows],
    )  # fmt: skip
    for name in ("coef_", "intercept_", "weight_norm_"):
        setattr(view, name, getattr(model, name)[p : p + 1])
    for name in (
        "margin_", "margin_upper_bound_", "directional_margin_", "intercept_scaling_",
        "gap_", "directional_margin_upper_bound_",
    ):  # fmt: skip
        setattr(view, name, float(getattr(model, name)[p]))
    return view


# Of large samples and dear slack rounding may leave a gap, and a fit says so.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_no_false_certificate_of_pairs_together(C, scale):
    for seed in range(2, 4):
        X, y = classes([5, 6, 4, 8], seed - 1, spread=seed, seed=seed)
        X = (np.round(4 * X) if seed == 3 else X) * scale
        model = MaxMarginClassifier(C=C, tol=1e-3).fit(X, y)
        p = 0
        for i in range(4):
            for j in range(i + 1, 4):
                there = np.flatnonzero((y == i) | (y == j))
                view = of_pair(model, p)
                view.classes_ = np.array([i, j])
                view.support_ = np.searchsorted(there, view.support_)
                assert not false_claims(view, X[there], y[there])
                p += 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_steps_end_where_rounding_keeps_the_gap_open(monkeypatch):
    X, y = classes([5, 6, 4, 8], 1, spread=2, seed=2)
    taken = []
    real = small_pairs._descend

    def counted(*given):
        found = real(*given)
        taken.extend(found[3])
        return found

    monkeypatch.setattr(small_pairs, "_descend", counted)
    model = MaxMarginClassifier(tol=1e-3, max_iter=10_000).fit(1e4 * X, y)
    assert len(taken) == 6
    assert min(taken) >= 1
    assert max(taken) < 100
    assert np.isfinite(model.margin_upper_bound_).all()


def test_what_doubles_leave_open_is_solved_alone():
    signs = np.array([[1.0, 1.0, -1.0, -1.0]])
    X = np.array([[[1.0], [2.0], [-1.0], [-2.0]]])
    asked = np.ones((1, 4), bool)
    options = small_pairs.Options(1e-3, 100, True, 0)

    def sure(X, diag):
        given = X, signs, np.full((1, 4), diag), options, 10.0, np.float64, asked
        return bool(small_pairs.solve_pairs(*given).sure[0])

    assert sure(X, 0.5)
    # A plane adds nothing that doubles see; classes of one mean; slack for nothing.
    assert not sure(1e-9 * X, 0.5)
    assert not sure(np.abs(X) % 2, 0.5)
    assert not sure(X, 1e-230)


def test_memory_of_pairs_is_that_of_their_supports():
    X, y = classes([4] * 60, 3)
    model = MaxMarginClassifier().fit(X, y)
    pairs = len(model.coef_)
    assert model.dual_coef_.shape == (pairs, len(model.support_))
    assert model._dual.nnz == np.count_nonzero(model.dual_coef_) <= 8 * pairs
    assert model._dual.nnz < model.dual_coef_.size / 20


def test_threads_change_no_bit_of_pairs():
    X, y = classes([9] * 30, 6)
    one, two = (MaxMarginClassifier(n_jobs=n).fit(X, y) for n in (1, 2))
    for name in ("coef_", "intercept_", "dual_coef_", "margin_", "temperature_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_blocks_of_distances_change_no_answer(monkeypatch):
    X, y = classes([9] * 12, 6)
    model = MaxMarginClassifier().fit(X, y)
    expected = model.predict_proba(X), model.decision_function(X), model.margins(X, y)
    monkeypatch.setattr(blocks, "ENTRIES", 7 * len(model.coef_))
    again = MaxMarginClassifier().fit(X, y)
    assert again.temperature_ == pytest.approx(model.temperature_, rel=1e-9)
    found = model.predict_proba(X), model.decision_function(X), model.margins(X, y)
    for some, others in zip(found, expected, strict=True):
        np.testing.assert_allclose(some, others, rtol=1e-9, atol=1e-12)
