"""Hard margins by NumPy and by the compiled rounds: the same planes."""

import numpy as np
import pytest
from hypothesis import given, settings
from tests.linear.oracles import separable_sets

from widemargin._compute.engines import chosen
from widemargin._core.left_out import squared_spans
from widemargin.hyperplanes import active_set
from widemargin.linear import MaxMarginClassifier


def both_ways(monkeypatch, X, y, **options):
    """Fit by NumPy alone, and with rounds and certificates compiled."""
    with chosen("formulas"):
        plain = MaxMarginClassifier(C=np.inf, **options).fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(active_set, "_WORTH_IT", 0)
        return plain, MaxMarginClassifier(C=np.inf, **options).fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "options",
    [{}, {"penalize_intercept": True, "intercept_scaling": 2.0}, {"multiclass": "ovr"}],
)
def test_small_and_large_samples_have_the_same_planes(monkeypatch, options, dtype):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = (rng.normal(size=(120, 8)) + 6 * np.eye(3, 8)[y]).astype(dtype)
    plain, compiled = both_ways(monkeypatch, X, y, tol=1e-6, **options)
    for name in ("coef_", "intercept_", "margin_", "margin_upper_bound_"):
        one, other = getattr(plain, name), getattr(compiled, name)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert max(np.max(plain.gap_), np.max(compiled.gap_)) <= 1e-6
    # Samples are left out by the same rule.
    assert plain.temperature_ == pytest.approx(compiled.temperature_, rel=1e-4)


@settings(deadline=None)
@given(separable_sets())
def test_working_sets_have_the_same_optimum(problem):
    X, signs = problem
    Z = np.ascontiguousarray(signs[:, None] * X)
    for rho in (-1.0, 2.0):
        args = Z, signs, np.zeros(len(Z)), 0.0, rho, 10.0, 1e-9
        found = []
        for choice in ("formulas", "engines"):
            with chosen(choice):
                status, alpha, _, _ = active_set.solve_working_set(*args)
            assert status == active_set.SOLVED
            found.append(alpha @ Z)
        size = np.abs(found[0]).max()
        np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-7 * size)


def test_both_ways_prove_that_nothing_separates(monkeypatch):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    for least in (0, np.inf):
        monkeypatch.setattr(active_set, "_WORTH_IT", least)
        with pytest.raises(ValueError, match=r"no hyperplane separates .* .proven"):
            MaxMarginClassifier(C=np.inf).fit(X, y)


@pytest.mark.parametrize("bias", [False, True])
def test_compiled_spans_are_those_of_numpy(bias):
    from widemargin._compute import spans

    rng = np.random.default_rng(0)
    for m, d in ((1, 2), (6, 9), (40, 60)):
        X, private = rng.normal(size=(m, d)), rng.uniform(0, 1, m)
        expected = squared_spans(X @ X.T, private, bias=bias)
        found = spans.squared_spans(X @ X.T, private, bias)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
