"""Nothing that is certified is false, in exact arithmetic over many problems."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from tests.linear.exact import examine, far_kernels, is_separable, problems

from widemargin.hyperplanes import active_set, spaces
from widemargin.hyperplanes.spaces import Kernel
from widemargin.linear import MaxMarginClassifier

# benchmarks/certificates.py looks at thousands.
N_PROBLEMS = 800
PARTS = 2


@pytest.mark.parametrize("part", range(PARTS))
def test_no_false_certificate(part, monkeypatch):
    if part:
        # Compiled, as large samples are.
        monkeypatch.setattr(active_set, "_WORTH_IT", 0)
    found, wrong = Counter(), []
    for problem in problems(N_PROBLEMS // PARTS, seed=part):
        verdict, details = examine(problem)
        found[verdict] += 1
        if verdict == "false":
            wrong.append((problem.name, problem.options, details))
    total = sum(found.values())
    print(f"false certificates: {len(wrong)} of {total} ({dict(found)})")
    assert not wrong
    assert total == N_PROBLEMS // PARTS
    assert found["proven"] > 0.05 * total
    assert found["undecided"] < 0.05 * total


def test_no_false_certificate_of_a_kernel_wherever_the_origin_is():
    found, wrong = Counter(), []
    for problem in far_kernels(360):
        verdict, details = examine(problem)
        found[problem.options["kernel"], verdict] += 1
        if verdict == "false":
            wrong.append((problem.name, problem.options, details))
    print(dict(found))
    assert not wrong
    # Of differences nothing is left open, however far they are from the origin.
    assert found["rbf", "true"] + found["rbf", "proven"] >= 0.95 * (360 * 2 / 5)


@pytest.mark.parametrize("C", [np.inf, 10.0])
@pytest.mark.parametrize("gamma", ["scale", 5.0])
def test_a_kernel_of_differences_has_its_margin_at_any_offset(C, gamma):
    X, y = load_iris(return_X_y=True)
    X, y = (X[50:], y[50:]) if np.isfinite(C) else (X[:100], y[:100])
    options = {"kernel": "rbf", "C": C, "gamma": gamma}
    truth = MaxMarginClassifier(tol=1e-9, **options).fit(X, y)
    for offset in (1e3, 1e5, 1e8, 1.7e9, 1e12):
        far = np.c_[X, np.full(len(X), offset)]
        model = MaxMarginClassifier(tol=1e-6, **options).fit(far, y)
        assert model.margin_ <= truth.margin_upper_bound_
        assert model.margin_upper_bound_ >= truth.margin_
        assert model.gap_ <= 1e-6
        assert model.score(far, y) == truth.score(X, y)


@pytest.mark.parametrize("n", [40, 1000])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "chi2", "cosine", "polynomial",
                                    "sigmoid", "additive_chi2"])  # fmt: skip
def test_values_of_kernels_are_as_right_as_they_say(kernel, sparse, n, monkeypatch):
    """In extended precision; by products where the samples are many."""
    if sparse and "chi2" in kernel:
        pytest.skip("scikit-learn has no chi2 of sparse samples")
    monkeypatch.setattr(spaces, "_DIFFERENCES", 10**5)
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(n, 5))) + np.array([0.0, 1e2, 1e3, 0.0, 0.0])
    gamma = {"rbf": 0.1, "sigmoid": 1e-7}.get(kernel, 1e-3)
    value = Kernel(kernel, gamma, 3, -0.5)
    given = sp.csr_array(X) if sparse else X
    off, relative = value.error(given)
    K = value(given, given)
    U, V = X[:, None].astype(np.longdouble), X[None, :40].astype(np.longdouble)
    gamma, coef0 = np.longdouble(value.gamma), np.longdouble(-0.5)
    inner = (U * V).sum(axis=2)
    exact = {
        "rbf": lambda: np.exp(-gamma * ((U - V) ** 2).sum(axis=2)),
        "laplacian": lambda: np.exp(-gamma * np.abs(U - V).sum(axis=2)),
        "chi2": lambda: np.exp(-gamma * ((U - V) ** 2 / (U + V)).sum(axis=2)),
        "additive_chi2": lambda: -((U - V) ** 2 / (U + V)).sum(axis=2),
        "cosine": lambda: inner / np.sqrt((U**2).sum(axis=2) * (V**2).sum(axis=2)),
        "polynomial": lambda: (gamma * inner + coef0) ** 3,
        "sigmoid": lambda: np.tanh(gamma * inner + coef0),
    }[kernel]()
    allowed = off + relative * np.abs(K).max()
    error = float(np.abs(K[:, :40] - exact).max())
    assert 0 < error <= allowed
    assert allowed < 1e-9 * max(1.0, float(np.abs(exact).max()))


def test_the_judge_can_tell():
    assert is_separable(np.array([[0.0], [1e-300]]), [0, 1])
    assert not is_separable(np.array([[0.0], [1.0], [2.0]]), [0, 1, 0])
