"""Indefinite Gram matrices: repairs against NumPy, and machines that work."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from widemargin.hyperplanes import gram
from widemargin.metrics import tangent_kernel
from widemargin.svm import JitteredSVC, TangentSVC, VirtualSVC
from widemargin.tangents import SignalTangents

DRIFT = SignalTangents(["shift", "scale", "offset", "slope"])
ROLLS = [lambda X, k=k: np.roll(X, k, 1) for k in (-4, -2, 2, 4)]


def beats(n, seed):
    """Three classes of sharp peaks that come too early or late, on a drifting line."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    t = np.linspace(-0.5, 0.5, 96) - rng.normal(0, 0.03, (n, 1))
    wide = np.where(y == 2, 0.1, 0.06)[:, None]
    X = 1.2 * np.exp(-((t / 0.025) ** 2)) + 0.3 * np.exp(-(((t - 0.25) / wide) ** 2))
    X += (y != 1)[:, None] * 0.15 * np.exp(-(((t + 0.2) / 0.05) ** 2))
    X += rng.normal(0, 0.2, (n, 1)) + rng.normal(0, 0.2, (n, 1)) * t
    return X + rng.normal(0, 0.03, X.shape), y


@pytest.fixture(scope="module")
def signals():
    return *beats(150, seed=11), *beats(300, seed=12)


def oracle(K, k, y, method):
    """Duels of new samples: eigenvalues of K, on coefficients of sum zero, changed."""
    n = len(K)
    P = np.eye(n) - 1 / n
    values, V = np.linalg.eigh(P @ K @ P)
    change = {
        "clip": np.maximum(values, 0),
        "flip": np.abs(values),
        "shift": values - min(values[0], 0),
    }[method]
    svc = SVC(kernel="precomputed", C=10, decision_function_shape="ovo", tol=1e-6)
    svc.fit((V * change) @ V.T, y)
    # A new sample is a mixture of training samples in as far as the kernel tells.
    centred = (k - K.mean(axis=0)) @ P
    if method != "shift":
        signs = np.where(values < 0, 0.0 if method == "clip" else -1.0, 1.0)
        centred = centred @ (V * signs) @ V.T
    return svc.decision_function(centred), values[0]


@pytest.mark.parametrize("kernel", ["rbf", "nd"])
@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
def test_repairs_are_those_of_the_slow_version(signals, kernel, method):
    X, y, X_new, _ = signals
    values = {"kernel": kernel, "gamma": 0.8, "tangents": DRIFT, "sides": "mean"}
    expected, smallest = oracle(
        tangent_kernel(X, **values), tangent_kernel(X_new, X, **values), y, method
    )
    options = {"gamma": 0.8, "C": 10.0, "spring": 1e-5, "tol": 1e-6, "tangents": DRIFT}
    svc = TangentSVC(kernel, psd_correction=method, **options).fit(X, y)
    assert svc.smallest_eigenvalue_ == pytest.approx(smallest)
    assert smallest < -0.1
    scale = np.abs(expected).max()
    np.testing.assert_allclose(svc.duels(X_new), expected, atol=1e-4 * scale)
    if method == "clip":
        auto = TangentSVC(kernel, **options).fit(X, y)
        np.testing.assert_array_equal(auto.duels(X_new), svc.duels(X_new))


def test_jittered_repairs_are_those_of_the_slow_version(signals):
    X, y, X_new, _ = signals

    def values(A, B):
        def one(A, B):
            copies = [B, *(roll(B) for roll in ROLLS)]
            squares = [((A[:, None] - C) ** 2).sum(axis=2) for C in copies]
            return np.exp(-0.05 * np.min(squares, axis=0))

        return (one(A, B) + one(B, A).T) / 2

    expected, smallest = oracle(values(X, X), values(X_new, X), y, "clip")
    svc = JitteredSVC(gamma=0.05, transformations=ROLLS, tol=1e-6).fit(X, y)
    assert svc.smallest_eigenvalue_ == pytest.approx(smallest)
    assert smallest < -1
    scale = np.abs(expected).max()
    np.testing.assert_allclose(svc._duels(X_new), expected, atol=1e-4 * scale)


@pytest.mark.parametrize(
    ("model", "least"),
    [
        (TangentSVC(tangents=DRIFT), 0.95),
        (TangentSVC("nd", tangents=DRIFT), 0.95),
        (TangentSVC(tangents=DRIFT, sides="both"), 0.95),
        (TangentSVC(tangents=DRIFT, n_landmarks=100, random_state=0), 0.95),
        (JitteredSVC(transformations=ROLLS), 0.8),
    ],
    ids=["mean", "nd", "both", "landmarks", "jittered"],
)
def test_signals_with_sharp_peaks(signals, model, least):
    X, y, X_new, y_new = signals
    model.fit(X, y)
    assert model.score(X_new, y_new) > least
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize(
    "model",
    [
        TangentSVC(tangents=DRIFT, C=10.0, spring=1e-5, psd_correction="none"),
        JitteredSVC(transformations=ROLLS, psd_correction="none"),
    ],
    ids=["tangent", "jittered"],
)
def test_a_solver_that_found_nothing_is_told(signals, model):
    X, y, X_new, y_new = signals
    with pytest.warns(ConvergenceWarning, match=r"no machine.*psd_correction='clip'"):
        model.fit(X, y)
    assert model.score(X_new, y_new) < 0.7
    assert not hasattr(model, "smallest_eigenvalue_")


def test_other_machines_tell_as_well(signals):
    def kernel(A, B):
        return tangent_kernel(A, B, gamma=0.8, tangents=DRIFT)

    with pytest.warns(ConvergenceWarning, match=r"no machine.*kernel='rbf'"):
        VirtualSVC(kernel, transformations=[]).fit(*signals[:2])


def test_choices_are_judged_on_what_is_repaired(signals):
    X, y, *_ = signals
    model = TangentSVC(tangents=DRIFT).fit(X, y)
    assert (model.C_, model.spring_) == (10.0, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        misled = TangentSVC(tangents=DRIFT, psd_correction="none").fit(X, y)
    assert (misled.C_, misled.spring_) != (10.0, 1e-5)


def test_probabilities_of_a_repaired_machine(signals):
    X, y, X_new, y_new = signals
    model = TangentSVC(tangents=DRIFT, probability=True).fit(X, y)
    found = model.predict_proba(X_new)
    np.testing.assert_array_equal(found.argmax(axis=1), model.predict(X_new))
    assert -np.log(found[np.arange(len(y_new)), y_new]).mean() < 0.2


def test_nothing_is_repaired_where_little_is_negative(digits):
    X, y, X_test, _ = digits
    for kernel in ("rbf", "nd", "log"):
        auto = TangentSVC(kernel, tangents="none").fit(X, y)
        plain = TangentSVC(kernel, tangents="none", psd_correction="none").fit(X, y)
        assert not hasattr(auto, "smallest_eigenvalue_")
        np.testing.assert_array_equal(auto.duels(X_test), plain.duels(X_test))


def matrix(values, seed=0):
    """A matrix with these eigenvalues on vectors of sum zero, and any constant."""
    rng = np.random.default_rng(seed)
    n = len(values) + 1
    V = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, n - 1))]))[0]
    K = (V[:, 1:] * values) @ V[:, 1:].T
    row = rng.normal(size=n)
    return K + row + row[:, None] - 7.0, V[:, 1:]


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_a_look_sees_the_share(scale):
    others = np.linspace(0, 1, 60)
    for share, expected in ((0.0, False), (0.9, False), (1.1, True), (50.0, True)):
        size = np.linalg.norm(others)
        K, _ = matrix([-share * gram.SHARE * size, *others])
        assert gram.is_indefinite(scale * K) is expected
    assert not gram.is_indefinite(np.zeros((3, 3)))
    assert not gram.is_indefinite(np.full((30, 30), 0.1))


def test_many_samples_lose_what_is_lowest(monkeypatch):
    monkeypatch.setattr(gram, "WHOLE", 300)
    low = np.array([-3.0, -2.0, -1.0, -0.2, -0.1])
    values = np.concatenate([low, np.zeros(300), np.geomspace(1e-3, 20, 60)])
    K, V = matrix(values)
    repaired = gram.repair_gram(K, "auto", 1e-16)
    assert repaired.repair.smallest_eigenvalue == pytest.approx(-3)
    left = V.T @ K @ V
    clipped = np.diag(np.maximum(values, 0))
    np.testing.assert_allclose(left, clipped, atol=1e-3)
    np.testing.assert_allclose(left[:3, :3], 0, atol=1e-6)


def test_what_lanczos_leaves_is_clipped_too(monkeypatch):
    monkeypatch.setattr(gram, "WHOLE", 300)
    monkeypatch.setattr(gram, "LOWEST", 4)
    values = np.concatenate([-np.linspace(1, 3, 40), np.geomspace(1e-3, 20, 325)])
    K, V = matrix(values)
    plain = K.copy()
    repaired = gram.repair_gram(K, "auto", 1e-16)
    for own in (K, repaired.repair.transform(plain)):
        left = V.T @ own @ V
        np.testing.assert_allclose(left, np.diag(np.maximum(values, 0)), atol=1e-6)
    assert repaired.repair.smallest_eigenvalue == pytest.approx(-3)


def test_auto_repairs_what_its_look_let_pass(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 10))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.7).astype(int) + (X[:, 2] > 1)
    step = 0.1 * np.eye(10)[8]
    copies = [lambda X: X + step, lambda X: X - step]
    auto, clip = (
        JitteredSVC("linear", transformations=copies, psd_correction=repair).fit(X, y)
        for repair in ("auto", "clip")
    )
    assert auto.smallest_eigenvalue_ == clip.smallest_eigenvalue_ < 0
    np.testing.assert_array_equal(auto.predict(X), clip.predict(X))
    monkeypatch.setattr(gram, "LARGE", 10)
    with pytest.warns(ConvergenceWarning, match="found no machine"):
        clone(auto).fit(X, y)


def test_powers_in_float32_are_those_of_float64():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(80, 10)) + 30).astype(np.float32)
    y = (X[:, 0] > 30).astype(int)
    model = JitteredSVC("poly", transformations=[lambda X: X + 0.1]).fit(X, y)
    alone = np.concatenate([model.decision_function(row[None]) for row in X])
    np.testing.assert_allclose(alone, model.decision_function(X), atol=1e-8)
