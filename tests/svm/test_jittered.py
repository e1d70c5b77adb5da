import numpy as np
import pytest
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
        multiclass="ovo",
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
    plain = SVC(C=10).fit(X, y)
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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "nd"}, "kernel must be one of"),
        ({"gamma": 0.0}, "gamma must be a number above 0"),
        ({"transformations": [1]}, "sequence of functions"),
        ({"multiclass": "ovr"}, "multiclass must be one of"),
    ],
)
def test_bad_parameters(digits, settings, message):
    with pytest.raises(ValueError, match=message):
        JitteredSVC(**settings).fit(*digits[:2])


def test_poly_matches_scikit_learn():
    x, y = np.random.default_rng(0).random((2, 64))
    expected = polynomial_kernel(x[None], y[None], degree=2, gamma=0.05, coef0=1)[0, 0]
    assert kernel_value("poly", x, y) == pytest.approx(expected)
