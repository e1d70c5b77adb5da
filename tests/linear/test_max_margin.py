"""The certified maximum margin: right, in every form of input, and honest."""

import tracemalloc
import warnings
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import cross_val_score
from tests.linear.oracles import augmented, best_direction, separable_sets

from widemargin.hyperplanes import active_set
from widemargin.hyperplanes.active_set import solve_active_set
from widemargin.hyperplanes.certificate import plane_margin, upper_bound
from widemargin.hyperplanes.descent import enclose, solve_descent
from widemargin.hyperplanes.patterns import (
    midpoint_of_means,
    random_state_array,
    reflect,
)
from widemargin.hyperplanes.problem import Options
from widemargin.hyperplanes.spaces import Kernel, KernelSpace, LinearSpace
from widemargin.hyperplanes.walks import Budget, search_bisection_of_paper, start_walk
from widemargin.linear import MarginPerceptron, MaxMarginClassifier
from widemargin.margins import directional_margin, geometric_margin

SEARCHES = ("dynamic", "bisection", "bisection2")
PAPER = ("paper-bisection", "paper-bisection2")
few = settings(max_examples=20, deadline=None)


def geometric_optimum(X, signs):
    """Largest geometric margin: directional at great height around the middle."""
    return MaxMarginClassifier(C=np.inf, tol=1e-10).fit(X, signs).margin_


@few
@given(separable_sets(), st.floats(0.3, 5.0))
def test_directional_optimum(data, rho):
    X, signs = data
    gamma_d, _ = best_direction(augmented(X, signs, rho))
    model = MaxMarginClassifier(
        C=np.inf, intercept_scaling=rho, penalize_intercept=True, tol=1e-9
    )
    model.fit(X, signs)
    # The oracle's search may stop a little short of the best; never beyond the bound.
    assert gamma_d * (1 - 1e-4) <= model.directional_margin_ <= gamma_d * (1 + 1e-3)
    assert model.directional_margin_upper_bound_ >= gamma_d * (1 - 1e-9)
    assert model.directional_margin_upper_bound_ >= model.directional_margin_
    w, b = model.coef_[0], model.intercept_[0]
    measured = directional_margin(X, w, b, signs, intercept_scaling=rho).min()
    assert measured == pytest.approx(model.directional_margin_, rel=1e-9)
    assert geometric_margin(X, w, b, signs).min() == pytest.approx(model.margin_)


@few
@given(separable_sets(), st.floats(0.05, 5.0))
def test_geometric_over_directional(data, rho):
    """(2.67), its sharper form, and the limit of a centre on the hyperplane."""
    X, signs = data
    model = MaxMarginClassifier(C=np.inf, tol=1e-10).fit(X, signs)
    gamma = model.margin_
    gamma_d = best_direction(augmented(X, signs, rho))[0]
    longest = np.linalg.norm(X, axis=1).max()
    ratio = gamma / gamma_d
    assert ratio >= 1 - 1e-6
    assert ratio <= np.sqrt(1 + (longest / rho) ** 2) * (1 + 1e-6)
    assert ratio <= np.sqrt(1 + ((longest - gamma) / rho) ** 2) * (1 + 1e-4)
    centred, _ = best_direction(augmented(X, signs, rho, model.center_[0]))
    assert centred == pytest.approx(gamma, rel=1e-4)
    assert model.directional_margin_ == model.margin_


@few
@given(separable_sets(), st.sampled_from(SEARCHES), st.booleans())
def test_searches_are_certified(data, method, free_bias):
    X, signs = data
    model = MaxMarginClassifier(
        method, C=np.inf, intercept_scaling=1.0, penalize_intercept=not free_bias,
        tol=0.05, random_state=0, max_iter=20_000,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, signs)
    if free_bias:
        best, reached = geometric_optimum(X, signs), model.margin_
        upper = model.margin_upper_bound_
    else:
        best, _ = best_direction(augmented(X, signs, 1.0))
        reached, upper = (
            model.directional_margin_,
            model.directional_margin_upper_bound_,
        )
    assert reached <= best * (1 + 1e-6)
    assert upper >= best * (1 - 1e-6)
    assert model.gap_ == pytest.approx(1 - reached / upper, abs=1e-9)
    assert reached >= (1 - max(model.gap_, 0.05)) * best * (1 - 1e-9)


@few
@given(separable_sets())
def test_engines_agree(data):
    X, signs = data
    options = Options(1e-6, 100_000, True, 0)
    kernel = Kernel("linear", 1.0, 3, 0.0)
    spaces = [LinearSpace(X), LinearSpace(sp.csr_array(X)), KernelSpace(X, kernel)]
    margins = []
    for space in spaces:
        found = solve_active_set(space, signs, None, options)
        margins.append(plane_margin(space, signs, found.coef, found.bias))
        assert margins[-1] <= upper_bound(space, signs, found.dual)
    assert margins == pytest.approx([margins[0]] * 3, rel=1e-5)
    rough = options._replace(tol=0.05, max_iter=3000)
    patterns = reflect(X, signs, rho=1.0, centre=midpoint_of_means(X, signs))
    found = solve_descent(patterns, rough)
    plane = (found.coef, found.bias)
    margin, upper, _ = enclose(patterns, found.dual, *plane, True)
    assert margin <= margins[0] * (1 + 1e-6)
    assert upper >= margins[0] * (1 - 1e-6)


@few
@given(separable_sets(), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_plain_problems_have_the_certificates_of_all(data, dtype, twice):
    """One compiled call says what many calls on arrays say."""
    X, signs = data
    X, signs = (np.tile(X, (2, 1)), np.tile(signs, 2)) if twice else (X, signs)
    X = X.astype(dtype)
    takes, models = active_set.takes_rows, []
    for plain in (True, False):

        def taken(problem, plain=plain):
            assert takes(problem)
            return plain

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(active_set, "takes_rows", taken)
            patch.setattr(active_set, "_WORTH_IT", 0)
            models.append(MaxMarginClassifier(C=np.inf, warm_start=True).fit(X, signs))
    for name, value in vars(models[0]).items():
        if isinstance(value, float | np.ndarray):
            other = getattr(models[1], name)
            np.testing.assert_allclose(value, other, rtol=1e-7, atol=1e-10)
    every = np.arange(len(X))
    one, other = (model._starts[0].dual_of(every) for model in models)
    np.testing.assert_allclose(one, other)
    assert models[0].coef_.dtype == dtype


@pytest.mark.parametrize("free_bias", [True, False])
@pytest.mark.parametrize("C", [np.inf, 1.0])
@pytest.mark.parametrize("method", ["dual", *SEARCHES])
def test_a_second_fit_takes_no_more_sweeps(method, C, free_bias):
    """What is proven already is not looked for again, wherever the samples lie."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    signs = np.where(X[:, 1] > 0, 1, -1)
    X[:, 1] += 0.5 * signs
    X[:, 0] += 1e4 * free_bias
    model = MaxMarginClassifier(
        method,
        C=C,
        penalize_intercept=not free_bias,
        tol=0.05,
        warm_start=True,
        random_state=0,
    )
    first = model.fit(X, signs).n_iter_
    assert model.fit(X, signs).n_iter_ <= first
    quick = method == "dual" and not np.isfinite(C)
    assert quick or (model.n_iter_, model.n_updates_) == (1, 0)
    assert model.gap_ <= model.tol


def soft_optimum(X, signs, C, rho):
    """Primal optimum of the 2-norm soft margin by a general minimiser."""
    d = X.shape[1]

    def primal(z):
        f = X @ z[:d] + z[d]
        slack = np.maximum(0, 1 - signs * f)
        value = 0.5 * z[:d] @ z[:d] + np.sum(C * slack**2)
        pull = 2 * C * slack * signs
        slope = np.append(z[:d] - X.T @ pull, -pull.sum())
        if rho is not None:
            value += 0.5 * (z[d] / rho) ** 2
            slope[d] += z[d] / rho**2
        return value, slope

    found = minimize(
        primal, np.zeros(d + 1), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    return found.fun


@pytest.mark.parametrize("rho", [None, 1.3])
@pytest.mark.parametrize("method", ["dual", *SEARCHES])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_soft_margin(rho, method, form):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3)) + 1
    signs = np.where(X @ [1, -1, 0.5] + rng.normal(size=80) > 0.5, 1.0, -1.0)
    weight = rng.uniform(0.5, 2.0, 80)
    tol = 1e-8 if method == "dual" else 0.03
    model = MaxMarginClassifier(
        method,
        C=0.7,
        intercept_scaling=rho,
        penalize_intercept=rho is not None,
        tol=tol,
        random_state=0,
    )
    model.fit(form(X), signs, sample_weight=weight)
    best = soft_optimum(X, signs, 0.7 * weight, rho)
    assert model.margin_ <= (1 + 1e-7) / np.sqrt(2 * best)
    assert model.margin_upper_bound_ >= (1 - 1e-7) / np.sqrt(2 * best)
    assert model.gap_ <= tol
    scale = model.weight_norm_[0]
    f = (X @ model.coef_[0] + model.intercept_[0]) * scale
    reached = 0.5 * scale**2 + np.sum(0.7 * weight * np.maximum(0, 1 - signs * f) ** 2)
    if rho is not None:
        reached += 0.5 * (model.intercept_[0] * scale / rho) ** 2
    assert 1 / np.sqrt(2 * reached) == pytest.approx(model.margin_, rel=1e-6)


def test_soft_margin_by_descent_and_by_kernel():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4))
    signs = np.where(X[:, 0] + rng.normal(size=60) > 0, 1.0, -1.0)
    best = 1 / np.sqrt(2 * soft_optimum(X, signs, np.full(60, 2.0), None))
    patterns = reflect(X, signs, rho=1.0, diag=np.full(60, 0.25))
    found = solve_descent(patterns, Options(1e-4, 10_000, True, 0))
    margin, upper, _ = enclose(patterns, found.dual, found.coef, found.bias, True)
    assert margin <= best * (1 + 1e-9) <= upper * (1 + 2e-9)
    gram = X @ X.T
    model = MaxMarginClassifier(C=2.0, kernel="precomputed", tol=1e-9).fit(gram, signs)
    assert model.margin_ == pytest.approx(best, rel=1e-6)
    plain = MaxMarginClassifier(C=2.0, tol=1e-9).fit(X, signs)
    np.testing.assert_allclose(
        model.decision_function(gram), plain.decision_function(X), atol=1e-6
    )


def test_signed_distance_in_a_feature_space():
    X, y = make_blobs(60, centers=3, random_state=2, cluster_std=2.0)
    kernels = [
        {"kernel": "rbf", "gamma": 0.3},
        {"kernel": "polynomial", "degree": 2, "gamma": 0.5, "coef0": 1.0},
        {"kernel": lambda a, b, p: (a @ b + p) ** 2, "kernel_params": {"p": 1.0}},
    ]
    for options in kernels:
        model = MaxMarginClassifier(C=10.0, tol=1e-7, **options).fit(X, y == 0)
        extra = {k: v for k, v in options.items() if k != "kernel"}
        extra |= extra.pop("kernel_params", {})
        K = pairwise_kernels(X, metric=options["kernel"], filter_params=True, **extra)
        beta = np.zeros(60)
        beta[model.support_] = model.dual_coef_[0]
        norm = np.sqrt(beta @ K @ beta)
        assert norm == pytest.approx(model.weight_norm_[0])
        slack = np.maximum(
            0, 1 - np.where(y == 0, 1, -1) * model.decision_function(X) * norm
        )
        primal = 0.5 * norm**2 + 10.0 * slack @ slack
        assert model.margin_ == pytest.approx(1 / np.sqrt(2 * primal), rel=1e-6)
        assert model.gap_ < 1e-7


def test_hard_margin_with_kernel():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 80)
    radius = np.where(np.arange(80) % 2, 1.0, 2.0)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
    y = np.arange(80) % 2
    model = MaxMarginClassifier(C=np.inf, kernel="rbf", gamma=1.0, tol=1e-6).fit(X, y)
    assert model.gap_ <= 1e-6
    assert model.margins(X, y).min() == pytest.approx(model.margin_, rel=1e-5)


@pytest.mark.parametrize("method", ["dual", "dynamic"])
def test_sparse_is_dense(method):
    X, y = make_blobs(50, centers=2, n_features=4, random_state=0, cluster_std=0.5)
    X[np.abs(X) < 1.5] = 0.0
    dense = MaxMarginClassifier(method, C=np.inf, tol=0.05, random_state=0).fit(X, y)
    rows, columns = np.nonzero(np.ones_like(X))
    halves = np.concatenate([X[rows, columns] / 2] * 2)
    messy = sp.coo_array((halves, (np.tile(rows, 2), np.tile(columns, 2))), X.shape)
    unsummed = sp.csr_array(
        (
            np.repeat(X.ravel() / 2, 2),
            np.repeat(np.tile(np.arange(4), 50), 2).astype(np.int64),
            np.arange(0, 8 * 50 + 1, 8, dtype=np.int64),
        ),
        shape=X.shape,
    )
    assert not unsummed.has_canonical_format
    for matrix in (messy, unsummed):
        before = matrix.nnz
        other = clone(dense).fit(matrix, y)
        assert matrix.nnz == before
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-7)
        np.testing.assert_allclose(
            other.decision_function(matrix), dense.decision_function(X), atol=1e-6
        )


def test_warm_start_saves_work():
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    cold = MaxMarginClassifier(C=np.inf, warm_start=True, tol=1e-6).fit(X, y)
    first = cold.n_updates_
    again = cold.fit(X, y)
    assert again.n_updates_ < first / 3
    assert again.gap_ <= 1e-6
    soft = MaxMarginClassifier(C=0.01, warm_start=True, tol=1e-6).fit(X, y)
    steps = soft.n_updates_
    assert soft.set_params(C=0.011).fit(X, y).n_updates_ < steps
    walk = MaxMarginClassifier("dynamic", C=np.inf, warm_start=True, tol=0.1)
    walk.set_params(random_state=0).fit(X, y)
    steps = walk.n_updates_
    assert walk.fit(X, y).n_updates_ < steps / 2


def test_warm_descent_saves_work():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 200))
    signs = np.where(rng.random(60) > 0.5, 1.0, -1.0)
    patterns = reflect(X, signs, rho=10.0)
    options = Options(1e-3, 1000, True, 0)
    cold = solve_descent(patterns, options)
    warm = solve_descent(patterns, options, cold.dual)
    assert warm.n_updates < cold.n_updates / 3


def test_many_features_use_descent():
    rng = np.random.default_rng(1)
    X = sp.random_array((2100, 2500), density=0.01, rng=rng, format="csr")
    signs = np.where(np.arange(2100) % 2, 1.0, -1.0)
    hard = MaxMarginClassifier(C=np.inf, tol=0.05, random_state=0).fit(X, signs)
    assert hard.gap_ <= 0.05
    margin = geometric_margin(X, hard.coef_[0], hard.intercept_[0], signs).min()
    assert margin == pytest.approx(hard.margin_, rel=1e-9)
    soft = MaxMarginClassifier(C=1.0, tol=1e-3, random_state=0).fit(X, signs)
    assert soft.gap_ <= 1e-3


@pytest.mark.parametrize("scheme", ["ovr", "ovo", "ddag"])
def test_multiclass(scheme):
    X, y = load_iris(return_X_y=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    model = MaxMarginClassifier(multiclass=scheme).fit(X, labels)
    predicted = model.predict(X)
    assert np.mean(predicted == labels) > 0.9
    assert np.array_equal(model.margins(X, labels) > 0, predicted == labels)
    assert model.coef_.shape == (3, 4)
    assert model.margin_.shape == (3,)
    scores = model.decision_function(X)
    assert np.array_equal(model.classes_[scores.argmax(1)], predicted)
    parallel = clone(model).set_params(n_jobs=2).fit(X, labels)
    np.testing.assert_array_equal(parallel.coef_, model.coef_)


def test_dag_follows_its_path():
    X, y = load_digits(return_X_y=True)
    model = MaxMarginClassifier(C=np.inf, multiclass="ddag").fit(X, y)
    distances = model.pairwise_distances(X[:50])
    pairs = {(j, i): p for p, (i, j) in enumerate(combinations(range(10), 2))}
    for row, predicted in zip(distances, model.predict(X[:50]), strict=True):
        alive = list(range(10))
        while len(alive) > 1:
            first, last = alive[0], alive[-1]
            alive.remove(first if row[pairs[last, first]] > 0 else last)
        assert alive == [predicted]


def test_zero_weight_is_absence_and_class_weight_is_weight():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    weight = np.ones(40)
    weight[30:] = 0
    model = MaxMarginClassifier(tol=1e-9)
    a = clone(model).fit(X, y, sample_weight=weight)
    b = clone(model).fit(X[:30], y[:30])
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-7)
    assert a.support_.max() < 30
    c = clone(model).set_params(class_weight={0: 2.0, 1: 0.5}).fit(X, y)
    d = clone(model).fit(X, y, sample_weight=np.where(y == 0, 2.0, 0.5))
    np.testing.assert_allclose(c.coef_, d.coef_, rtol=1e-9)


def test_partial_fit_learns_and_bounds():
    X, signs = make_blobs(200, centers=2, random_state=0, cluster_std=0.4)
    signs = np.where(signs == 1, 1.0, -1.0)
    model = MaxMarginClassifier(
        "dynamic", C=np.inf, intercept_scaling=2.0, tol=0.3, random_state=0
    )
    before, after = -1, 0
    # The rule ends: a pass that adds nothing proves the margin, in any order.
    for _ in range(100):
        for part in np.array_split(np.arange(200), 4):
            model.partial_fit(X[part], signs[part], classes=[-1.0, 1.0])
        before, after = after, model.n_updates_
        if before == after:
            break
    assert before == after
    gamma_d, _ = best_direction(augmented(X, signs, 2.0))
    w, b = model.coef_[0], model.intercept_[0]
    assert model.margin_upper_bound_ >= gamma_d * (1 - 1e-9)
    margins = directional_margin(X, w, b, signs, intercept_scaling=2.0)
    assert margins.min() > 0.7 * gamma_d * (1 - 1e-9)
    with pytest.raises(AttributeError, match="partial_fit"):
        MaxMarginClassifier("dual").partial_fit(X, signs)
    with pytest.raises(ValueError, match="classes"):
        MaxMarginClassifier("dynamic").partial_fit(X, signs)


@pytest.mark.parametrize("method", ["dual", *SEARCHES])
def test_inseparable_is_proven_and_C_is_named(method):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), np.arange(100) % 2
    model = MaxMarginClassifier(method, C=np.inf, max_iter=50, random_state=0)
    with pytest.raises(ValueError, match=r"no hyperplane.*upper bound.*finite C"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="finite C"):
        model.set_params(penalize_intercept=True).fit(X, y)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_features_cannot_be_separated(value):
    X, y = np.full((10, 3), value), np.arange(10) % 2
    with pytest.raises(ValueError, match="finite C"):
        MaxMarginClassifier(C=np.inf).fit(X, y)
    soft = MaxMarginClassifier(C=1.0).fit(X, y)
    assert np.isfinite(soft.decision_function(X)).all()


def test_cap_warns_with_the_gap():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = X[:, 0] > 0
    model = MaxMarginClassifier("dynamic", C=np.inf, max_iter=3, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"certified gap of \d"):
        model.fit(X, y)
    assert model.gap_ > model.tol


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "method must be one of"),
        ({"multiclass": "all"}, "multiclass must be one of"),
        ({"intercept_scaling": 0.0}, "intercept_scaling"),
        ({"intercept_scaling": -1.0}, "intercept_scaling"),
        ({"C": 0.0}, "C"),
        ({"tol": 0.0}, "tol"),
        ({"tol": 1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"kernel": "rbf", "method": "dynamic"}, "method='dual'"),
        ({"kernel_params": {"p": 1}}, "callable kernel"),
        ({"gamma": "auto", "kernel": "rbf"}, "gamma must be 'scale' or"),
        ({"C": np.nan}, "C must be"),
        ({"tol": np.nan}, "tol must be"),
        ({"class_weight": {0: np.nan}}, "class_weight"),
        ({"class_weight": {0: 0.0}}, "class_weight"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        MaxMarginClassifier(**options).fit([[0.0], [1.0]], [0, 1])


def test_bad_data():
    model = MaxMarginClassifier()
    with pytest.raises(ValueError, match="one class"):
        model.fit([[0.0], [1.0]], [1, 1])
    with pytest.raises(ValueError, match="NaN"):
        model.fit([[0.0], [np.nan]], [0, 1])
    with pytest.raises(ValueError, match="square"):
        MaxMarginClassifier(kernel="precomputed").fit(np.eye(3)[:, :2], [0, 1, 1])
    with pytest.raises(ValueError, match="y contains 7"):
        model.fit([[0.0], [1.0]], [0, 1]).margins([[0.0]], [7])
    with pytest.raises(ValueError, match="one label per sample"):
        model.margins([[0.0]], [0, 1])


def test_single_precision_is_kept():
    X, y = make_blobs(40, centers=2, random_state=0)
    model = MaxMarginClassifier().fit(X.astype(np.float32), y)
    assert model.coef_.dtype == np.float32
    assert model.score(X, y) == 1.0


def test_a_soft_kernel_machine_stores_what_it_certifies():
    X, y = make_moons(300, noise=0.2, random_state=0)
    model = MaxMarginClassifier(kernel="rbf", gamma=0.1, C=100).fit(X, y)
    assert model.score(X, y) > 0.97
    scale = model.weight_norm_[0]
    slack = np.maximum(
        0, 1 - np.where(y == 1, 1, -1) * model.decision_function(X) * scale
    )
    reached = 1 / np.sqrt(scale**2 + 200 * slack @ slack)
    assert reached == pytest.approx(model.margin_, rel=1e-9)


def test_an_income_column_is_no_proof():
    rng = np.random.default_rng(0)
    X = np.c_[rng.uniform(0, 1e6, 100), np.tile([0.0, 1.0], 50)]
    for form in (np.asarray, sp.csr_array):
        model = MaxMarginClassifier(C=np.inf).fit(form(X), X[:, 1])
        assert model.margin_ <= 0.5 <= model.margin_upper_bound_
        assert model.gap_ <= 1e-3


@pytest.mark.parametrize("method", ["bisection", "bisection2", *PAPER])
def test_every_loop_ends(method):
    model = MaxMarginClassifier(method, C=1e-6, intercept_scaling=0.1, max_iter=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit([[-0.84], [0.86], [1.26]], [1, 0, 0])
        X, y = load_iris(return_X_y=True)
        MaxMarginClassifier(method, max_iter=50).fit(X * 1e-6, y)
    assert model.n_iter_ <= 10


def test_indefinite_kernels_are_refused():
    X, y = make_blobs(20, centers=2, random_state=0)
    K = X @ X.T
    K[0, 0] -= 1e3
    for C in (1.0, np.inf):
        with pytest.raises(ValueError, match="not positive semidefinite"):
            MaxMarginClassifier(C=C, kernel="precomputed").fit(K, y)
        with pytest.raises(ValueError, match="not positive semidefinite"):
            MaxMarginClassifier(C=C, kernel="sigmoid", gamma=1.0).fit(X, y)
    with pytest.raises(ValueError, match="not symmetric"):
        MaxMarginClassifier(kernel="precomputed").fit(np.triu(X @ X.T), y)


def test_far_from_the_origin_and_in_single_precision():
    X, y = make_blobs(60, centers=2, random_state=0, cluster_std=0.4)
    near = MaxMarginClassifier(C=np.inf).fit(X, y)
    for offset in (1e5, 1e9, 1e12):
        far = MaxMarginClassifier(C=np.inf).fit(X + offset, y)
        assert far.margin_ <= far.margin_upper_bound_
        assert far.margin_ == pytest.approx(near.margin_, rel=1e-2)
        soft = MaxMarginClassifier().fit(X + offset, y)
        assert soft.score(X + offset, y) == 1.0
    single = (X + 1e5).astype(np.float32)
    model = MaxMarginClassifier(C=np.inf).fit(single, y)
    assert model.coef_.dtype == np.float32
    assert model.score(single, y) == 1.0
    assert model.margins(single, y).min() >= model.margin_ * (1 - 1e-6)


@pytest.mark.parametrize("method", ["dual", *SEARCHES])
def test_dual_coefficients_have_the_length_of_functional_margin_one(method):
    X, y = make_blobs(60, centers=2, random_state=0, cluster_std=0.4)
    model = MaxMarginClassifier(method, C=np.inf, tol=0.05, random_state=0).fit(X, y)
    total = np.abs(model.dual_coef_).sum()
    assert total == pytest.approx(model.weight_norm_[0] ** 2, rel=0.2)


def test_parameters_set_after_fit_change_nothing():
    X, y = load_iris(return_X_y=True)
    model = MaxMarginClassifier(kernel="rbf", gamma=0.5, multiclass="ovr").fit(X, y)
    before = model.decision_function(X)
    model.set_params(gamma=9.0, multiclass="ddag", kernel="linear")
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_one_against_the_rest_measures_distances_to_borders():
    X, y = load_iris(return_X_y=True)
    model = MaxMarginClassifier(multiclass="ovr").fit(X, y)
    margins, predicted = model.confidence(X), model.predict(X)
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(50, 4))
    steps /= np.linalg.norm(steps, axis=1)[:, None]
    for step in steps:
        moved = X + 0.999 * margins[:, None] * step
        np.testing.assert_array_equal(model.predict(moved), predicted)
    assert cross_val_score(model, X, y).mean() >= 0.95
    assert cross_val_score(MaxMarginClassifier(), X, y).mean() >= 0.95


def test_bisections_follow_the_steps_of_the_paper():
    """Section 3: beta = step = r/2; halve the step, add it or take it away."""
    X, signs = make_blobs(40, centers=2, random_state=3, cluster_std=0.5)
    signs = np.where(signs == 1, 1.0, -1.0)
    patterns = reflect(X, signs, rho=2.0)
    r = np.sqrt(patterns.squares.min())
    gamma_d, _ = best_direction(augmented(X, signs, 2.0))
    for modules in (1, 2):
        found = search_bisection_of_paper(
            patterns, start_walk(patterns), 2.0**-8, Budget(10**6),
            random_state_array(0), modules=modules, checks=2000,
        )  # fmt: skip
        beta = step = r / 2
        for asked, ending in found.rounds:
            assert asked == beta
            # With enough checks a round succeeds exactly if the margin exists.
            assert (ending in ("reached", "known")) == (asked < gamma_d)
            step /= 2
            beta += step if asked < gamma_d else -step
        assert len(found.rounds) == 8
        assert step == pytest.approx(r / 2 * 2.0**-8)
        assert gamma_d - 2 * step <= found.margin <= gamma_d * (1 + 1e-9)


def test_soft_margins_close_their_gap_on_raw_digits():
    """Newton's bound may rise for a few steps: the objective says whether to go on."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:1300]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MaxMarginClassifier().fit(X[order], y[order])
    assert model.gap_.max() <= model.tol


@pytest.mark.parametrize("scale", [1e4, 1e6, 1e8, 1e10])
def test_slack_at_large_scales(scale):
    X, y = load_iris(return_X_y=True)
    model = MaxMarginClassifier().fit(X * scale, y)
    assert model.gap_.max() <= model.tol
    assert model.score(X * scale, y) > 0.98


def test_slack_at_the_end_of_the_scale_is_honest():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="Rounding leaves it open") as caught:
        model = MaxMarginClassifier().fit(X * 1e58, y)
    assert len(caught) == 1
    assert (model.margin_ <= model.margin_upper_bound_).all()
    assert model.score(X * 1e58, y) > 0.98


def test_the_whole_matrix_of_a_kernel_is_the_same_as_its_blocks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    kernel = Kernel("rbf", 0.5, 3, 0.0)
    held, rows = KernelSpace(X, kernel), rng.permutation(12)
    np.testing.assert_allclose(held.gram(rows), kernel(X[rows], X[rows]))
    some = rows[:3]
    np.testing.assert_allclose(held.gram(some), kernel(X[some], X[some]))
    coef = np.where(np.arange(12) % 3, 0.0, 1.0)
    np.testing.assert_allclose(held.scores(coef), kernel(X, X) @ coef)


@pytest.mark.parametrize("unit", [1e-2, 2e-3, 1e-3, 1e-6, 1e-12, 1e-30])
@pytest.mark.parametrize("n_features", [4, 1100])
def test_small_units_have_a_plane(unit, n_features):
    """All samples are inside the margin: the squared hinge is least squares."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], y[y > 0]
    noise = np.random.default_rng(0).normal(size=(100, n_features - 4))
    X = np.hstack([X, 1e-3 * noise])
    X = unit * (X - X.mean(axis=0))
    model = MaxMarginClassifier(random_state=0).fit(X, y)
    signs = np.where(y == 1, -1.0, 1.0)
    assert (model.weight_norm_ * np.abs(model.decision_function(X)) < 1).all()
    # (I / 2C + X'X) w = X'l in as many unknowns as samples, the mean at zero.
    w = X.T @ np.linalg.solve(0.5 * np.eye(100) + X @ X.T, signs)
    assert model.coef_[0] @ w / np.linalg.norm(w) == pytest.approx(1, abs=1e-3)
    assert model.weight_norm_[0] == pytest.approx(np.linalg.norm(w), rel=0.05)
    assert model.gap_ <= model.tol
    assert (model.predict(X) == np.where(X @ w > 0, 2, 1)).mean() >= 0.99


@pytest.mark.parametrize("free_bias", [True, False])
def test_the_gap_is_that_of_what_a_plane_adds(free_bias):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), np.arange(90) % 3 > 0
    X[y] += 0.3
    weights = rng.uniform(0.5, 2, 90)
    model = MaxMarginClassifier(
        C=0.02, tol=0.05, penalize_intercept=not free_bias, intercept_scaling=2.0
    )
    model.fit(X, y, sample_weight=weights)
    signs = np.where(y, 1.0, -1.0)

    def objective(bias):
        slack = np.maximum(0.0, 1 - signs * bias)
        return 0.02 * weights @ slack**2 + (0 if free_bias else (bias / 2) ** 2 / 2)

    none = 1 / np.sqrt(2 * minimize_scalar(objective).fun)
    upper = model.margin_upper_bound_
    assert none < model.margin_ <= upper
    gap = (upper - model.margin_) / (upper - none)
    assert model.gap_ == pytest.approx(gap, abs=1e-6)
    assert 1 - model.margin_ / upper < model.gap_ <= 0.05


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_classes_of_one_mean_have_no_plane(seed, copies, kernel):
    """What is left of the normal is rounding, and no direction."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(41, 3))
    X = np.r_[X, *(X[rng.permutation(41)] for _ in range(copies))]
    y = np.arange(len(X)) < 41
    model = MaxMarginClassifier(kernel=kernel).fit(X, y)
    assert not model.weight_norm_.any()
    assert model.gap_ <= model.tol
    # Slack alone, at the best bias: 2 C (1 - b)^2 for each sample.
    few, many = 41, 41 * copies
    paid = 2 * 4 * few * many / (few + many)
    assert model.margin_ == pytest.approx(1 / np.sqrt(paid), rel=1e-9)
    if copies == 2:
        assert not model.predict(X).any()


@pytest.mark.parametrize("model", [MaxMarginClassifier(), MarginPerceptron()])
def test_memory_of_many_classes_is_not_that_of_pairs_of_pairs(model):
    """1770 pairs: their products would be 25 MB."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 2)
    X = np.repeat(10 * rng.standard_normal((60, 5)), 2, axis=0)
    X += 0.01 * rng.standard_normal(X.shape)
    clone(model).fit(X[:20], y[:20])
    tracemalloc.start()
    clone(model).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e7


@pytest.mark.parametrize("C", [1e10, 1e12, 1e14])
def test_slack_that_is_too_dear_leaves_no_gap(C):
    """Slacks are rounding there, and times their price no combination that bounds."""
    for seed in (2, 5, 8, 12, 56):
        rng = np.random.default_rng(seed)
        X, u = rng.normal(size=(104, 5)), rng.normal(size=5)
        u /= np.linalg.norm(u)
        side = np.sign(X @ u)
        X += 0.18 * side[:, None] * u
        model = MaxMarginClassifier(C=C).fit(X, side)
        assert model.gap_ <= 1e-3
        hard = MaxMarginClassifier(C=np.inf, tol=1e-6).fit(X, side)
        assert model.margin_upper_bound_ >= hard.margin_
        assert model.margin_ == pytest.approx(hard.margin_, rel=2e-3)
