import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.svm import SVC

from widemargin.svm import JitteredSVC
from widemargin.tangents import image_shifts

SHIFTS = image_shifts((8, 8), diagonal=False)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=3, return_X_y=True)
    X = X / 16
    return X[:60], y[:60], X[60:100], y[60:100]


def kernel_value(name, x, y):
    if name == "rbf":
        return np.exp(-0.05 * ((x - y) ** 2).sum())
    if name == "linear":
        return x @ y
    return (0.05 * (x @ y) + 1) ** 2


def slow_jittered(name, x, y):
    """k(x, q) for the copy q of y nearest to x in feature space."""
    copies = [y, *(shift(y[None])[0] for shift in SHIFTS)]
    values = [kernel_value(name, x, q) for q in copies]
    squared = [
        kernel_value(name, q, q) - 2 * value
        for q, value in zip(copies, values, strict=True)
    ]
    return values[int(np.argmin(squared))]


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_duels_are_those_of_the_slow_kernel(digits, kernel):
    X, y, X_test, _ = digits

    def gram(A, B):
        both = [
            [(slow_jittered(kernel, a, b) + slow_jittered(kernel, b, a)) / 2 for b in B]
            for a in A
        ]
        return np.array(both)

    ours = JitteredSVC(
        kernel, gamma=0.05, degree=2, coef0=1.0, C=1.0, transformations=SHIFTS,
        multiclass="ovo", psd_correction="none",
    ).fit(X, y)  # fmt: skip
    svc = SVC(kernel="precomputed", C=1.0).fit(gram(X, X), y)
    np.testing.assert_allclose(
        ours.decision_function(X_test[:10]),
        svc.decision_function(gram(X_test[:10], X)),
        atol=1e-4,
    )


def test_without_transformations_it_is_the_plain_machine(digits):
    X, y, X_test, _ = digits
    ours = JitteredSVC(multiclass="ovo").fit(X, y)
    plain = SVC(C=10, gamma=1 / X.var(axis=0).sum()).fit(X, y)
    np.testing.assert_allclose(
        ours.decision_function(X_test), plain.decision_function(X_test), atol=1e-4
    )


def test_jittering_helps_against_shifts(digits):
    X, y, X_test, y_test = digits
    shifted = SHIFTS[0](X_test)
    ours = JitteredSVC(transformations=SHIFTS).fit(X[:30], y[:30])
    plain = JitteredSVC().fit(X[:30], y[:30])
    assert ours.score(shifted, y_test) > plain.score(shifted, y_test)
    margins = ours.margins(shifted, y_test)
    np.testing.assert_array_equal(margins > 0, ours.predict(shifted) == y_test)


def test_weights_are_repetitions(digits):
    X, y, X_test, _ = digits
    times = 1 + np.arange(len(X)) % 3
    svc = JitteredSVC(C=0.1, gamma=0.05, transformations=SHIFTS, multiclass="ovo")
    weighted = svc.fit(X, y, times.astype(float)).decision_function(X_test)
    svc.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted, svc.decision_function(X_test), atol=0.02)
    assert np.abs(svc.fit(X, y).decision_function(X_test) - weighted).max() > 0.1
    halved = svc.set_params(C=0.2).fit(X, y, times / 2).decision_function(X_test)
    np.testing.assert_allclose(halved, weighted, atol=0.01)


def test_supports_are_transformed_once_per_call(digits):
    X, y, X_test, _ = digits
    seen = []

    def shift(X):
        seen.append(len(X))
        return SHIFTS[0](X)

    svc = JitteredSVC(transformations=[shift]).fit(X, y)
    n = len(svc.support_vectors_)
    X_test = np.concatenate([X_test] * 30)
    expected = svc.decision_function(X_test)
    seen.clear()
    # 80 bytes for each pair: a few chunks.
    with config_context(working_memory=400 * 80 * n / 2**20):
        found = svc.decision_function(X_test)
    assert seen == [n, 400, 400, 400]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "nd"}, "kernel must be one of"),
        ({"gamma": 0.0}, "gamma must be 'scale' or a finite number above 0"),
        ({"transformations": [1]}, "sequence of functions"),
        ({"transformations": iter(SHIFTS)}, "sequence of functions"),
        ({"class_weight": {99: 2.0}}, "class_weight names 99, which is no class of y"),
        ({"multiclass": "ovr"}, "multiclass must be one of"),
        (
            {"psd_correction": None},
            "psd_correction must be one of 'auto', 'none', 'clip', 'flip'",
        ),
    ],
)
def test_bad_parameters(digits, settings, message):
    with pytest.raises(ValueError, match=message):
        JitteredSVC(**settings).fit(*digits[:2])


def test_poly_matches_scikit_learn():
    x, y = np.random.default_rng(0).random((2, 64))
    expected = polynomial_kernel(x[None], y[None], degree=2, gamma=0.05, coef0=1)[0, 0]
    assert kernel_value("poly", x, y) == pytest.approx(expected)
