import numpy as np
import pytest
from sklearn.datasets import load_digits

from widemargin.svm import TangentSVC
from widemargin.tangents import ImageTangents

GENERATOR = ImageTangents((8, 8), ["x_shift", "y_shift", "rotation"])


def machine(**options):
    defaults = {"gamma": 0.1, "tangents": GENERATOR, "spring": 1e-5, "tol": 1e-5}
    return TangentSVC(**{**defaults, "random_state": 0, **options})


@pytest.mark.parametrize("C", [0.3, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_all_landmarks_are_the_machine_of_the_gram(digits, C, weighted, class_weight):
    X, y, X_test, _ = digits
    kept = (y > 0) | (np.arange(160) % 3 == 0)
    X, y = X[kept], y[kept]
    weights = np.linspace(0.05, 3, len(X)) if weighted else None
    options = {"C": C, "class_weight": class_weight}
    whole = machine(n_landmarks=np.int64(160), **options).fit(X, y, weights)
    exact = machine(psd_correction="clip", **options).fit(X, y, weights)
    expected = exact.duels(X_test)
    # LIBLINEAR penalises the offsets: near, not equal.
    np.testing.assert_allclose(whole.duels(X_test), expected, atol=0.08)
    if weighted and C < 1:
        plain = machine(n_landmarks=160, **options).fit(X, y)
        assert np.abs(plain.duels(X_test) - expected).max() > 0.25


def test_some_landmarks_are_enough(digits):
    X, y, X_test, y_test = digits
    some = machine(n_landmarks=60).fit(X, y)
    exact = machine().fit(X, y)
    assert some.score(X_test, y_test) >= exact.score(X_test, y_test) - 0.05
    assert len(some.support_bundle_) == 60


@pytest.mark.parametrize("sides", ["mean", "reference", "both"])
def test_the_scale_does_not_depend_on_the_number_of_landmarks(digits, sides):
    X, y, *_ = digits
    exact = machine(gamma="scale", sides=sides).fit(X, y).gamma_
    for m in (2, 5, 50):
        found = machine(gamma="scale", sides=sides, n_landmarks=m).fit(X, y).gamma_
        assert found == pytest.approx(exact)


def test_the_scale_of_many_samples_is_estimated():
    X, y = load_digits(return_X_y=True)
    exact = TangentSVC().fit(X, y).gamma_
    found = TangentSVC(n_landmarks=5, random_state=0).fit(X, y).gamma_
    assert found == pytest.approx(exact, rel=0.05)
    assert found != exact


def test_a_kernel_that_is_nowhere_positive(digits):
    X, y, *_ = digits
    with pytest.raises(ValueError, match="no positive eigenvalue"):
        machine(kernel="nd", gamma=1.0, n_landmarks=1).fit(X, y)
