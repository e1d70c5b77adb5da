import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from widemargin._core.samples import Samples
from widemargin.hyperplanes import blocks
from widemargin.hyperplanes.pairwise import (
    pairwise_coefficients,
    pairwise_planes,
    spanned_duels,
)
from widemargin.svm import InvariantHyperplaneSVC
from widemargin.tangents import ImageTangents

GENERATOR = ImageTangents((8, 8), ["x_shift", "y_shift"])


def test_lambda_one_is_the_plain_machine(digits):
    X, y, X_test, _ = digits
    ours = InvariantHyperplaneSVC(1.0, tangents=GENERATOR).fit(X, y)
    centre = X.mean(axis=0)
    plain = SVC(kernel="linear", C=10).fit(X - centre, y)
    np.testing.assert_allclose(
        ours.decision_function(X_test), plain.decision_function(X_test - centre)
    )
    kernel = InvariantHyperplaneSVC(
        1.0, kernel="rbf", gamma=0.05, n_components=40, random_state=0
    ).fit(X, y)
    features = Nystroem("rbf", gamma=0.05, n_components=40, random_state=0).fit(X)
    plain = SVC(kernel="linear", C=10).fit(features.transform(X), y)
    np.testing.assert_allclose(
        kernel.decision_function(X_test),
        plain.decision_function(features.transform(X_test)),
    )


def test_the_whitening_is_the_inverse_root_of_the_covariance(digits):
    X, y, *_ = digits
    ours = InvariantHyperplaneSVC(0.2, tangents=GENERATOR).fit(X, y)
    t = GENERATOR.tangents(X).reshape(-1, 64)
    C = t.T @ t
    mixed = 0.8 * C / np.trace(C) + 0.2 * np.eye(64)
    B = ours.whitening_
    np.testing.assert_allclose(B @ mixed @ B, np.eye(64), atol=1e-9)
    np.testing.assert_allclose(B, B.T, atol=1e-12)


def test_smaller_lambda_is_more_invariant(digits):
    X, y, X_test, _ = digits
    t = GENERATOR.tangents(X_test)[:, 0]
    two = (y > 1).astype(int)

    def sensitivity(kernel, shrinkage):
        svc = InvariantHyperplaneSVC(
            shrinkage,
            kernel=kernel,
            tangents=GENERATOR,
            n_components=60,
            random_state=0,
        ).fit(X, two)
        moved = svc.decision_function(X_test + 0.1 * t)
        still = svc.decision_function(X_test)
        return np.abs(moved - still).mean() / still.std()

    for kernel in ("linear", "rbf", "poly"):
        assert sensitivity(kernel, 0.01) < sensitivity(kernel, 1.0)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights_reach_the_solver(digits, kernel):
    X, y, X_test, _ = digits
    weights = np.linspace(0.01, 2, len(X))
    ours = InvariantHyperplaneSVC(
        0.2, kernel=kernel, C=0.05, gamma=0.05, tangents=GENERATOR, n_components=40,
        random_state=0,
    ).fit(X, y, weights)  # fmt: skip
    mapped = [ours._map(ours._inside(part)) @ ours.whitening_ for part in (X, X_test)]
    svc = SVC(kernel="linear", C=0.05)
    found = ours.decision_function(X_test)
    expected = svc.fit(mapped[0], y, weights).decision_function(mapped[1])
    np.testing.assert_allclose(found, expected, atol=1e-9)
    plain = svc.fit(mapped[0], y).decision_function(mapped[1])
    assert np.abs(plain - found).max() > 0.1


def test_weights_are_repetitions(digits):
    X, y, X_test, _ = digits
    times = 1 + np.arange(len(X)) % 3
    # Directions that all samples share: repeating samples does not change their mean.
    svc = InvariantHyperplaneSVC(0.2, C=0.01, tangents=np.eye(64)[20:24])
    weighted = svc.fit(X, y, times.astype(float)).decision_function(X_test)
    svc.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted, svc.decision_function(X_test), atol=0.02)
    assert np.abs(svc.fit(X, y).decision_function(X_test) - weighted).max() > 0.1


def test_margins_are_positive_where_right(digits):
    X, y, X_test, y_test = digits
    svc = InvariantHyperplaneSVC(0.1, tangents=GENERATOR).fit(X, y)
    asked = np.roll(y_test, 1)
    right = svc.predict(X_test) == asked
    np.testing.assert_array_equal(svc.margins(X_test, asked) > 0, right)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"shrinkage": 0},
            "shrinkage must be a finite number above 0 and of at most 1",
        ),
        (
            {"shrinkage": 1.5},
            "shrinkage must be a finite number above 0 and of at most 1",
        ),
        ({"kernel": "nd"}, "kernel must be one of"),
        ({"C": 0}, "C must be a finite number above 0"),
        ({"step": -1}, "step must be a finite number above 0"),
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"n_components": 0.5}, "n_components must be an integer of at least 1"),
        ({"class_weight": {99: 2.0}}, "class_weight names 99, which is no class of y"),
    ],
)
def test_bad_parameters(digits, settings, message):
    with pytest.raises(ValueError, match=message):
        InvariantHyperplaneSVC(**settings).fit(*digits[:2])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_lambda_has_no_unit(digits, kernel):
    X, y, *_ = digits
    model = InvariantHyperplaneSVC(
        tangents=GENERATOR, kernel=kernel, n_components=40, random_state=0
    )
    expected = model.fit(X, y).whitening_
    for unit in (1e-3, 255.0):
        found = model.fit(unit * X, y).whitening_
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_samples_without_tangents_are_left_as_they_are():
    X, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]]), [0, 1, 1]
    model = InvariantHyperplaneSVC(0.25, tangents=np.zeros((1, 2))).fit(X, y)
    np.testing.assert_allclose(model.whitening_, 2 * np.eye(2))


def two_gaussians(n, d, seed, gap=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[:, 0] += gap * (2 * y - 1)
    return X, y


def test_samples_are_left_out_as_by_machines_without_them():
    """Exact where the classes are separated and the same others support the plane."""
    X, y = two_gaussians(30, 20, 0)
    signs = np.where(y == 0, 1.0, -1.0)
    samples = Samples(X, y, np.ones(30), np.arange(2), np.arange(30))
    options = {"C": 1e6, "kernel": "linear", "tol": 1e-9}
    svc = SVC(**options).fit(X, y)
    found = signs * spanned_duels(svc, X, samples, np.arange(30), None)[:, 0]
    n_same = 0
    for i in svc.support_:
        rest = np.flatnonzero(np.arange(30) != i)
        other = SVC(**options).fit(X[rest], y[rest])
        if set(rest[other.support_]) == set(svc.support_) - {i}:
            expected = -signs[i] * other.decision_function(X[[i]])[0]
            assert found[i] == pytest.approx(expected, abs=1e-4)
            n_same += 1
    assert n_same > 1
    unseen = np.setdiff1d(np.arange(30), svc.support_)
    np.testing.assert_allclose(
        found[unseen], -(signs * svc.decision_function(X))[unseen]
    )


def test_copies_are_left_out_together():
    X, y = two_gaussians(30, 3, 0)
    twice = np.concatenate([np.arange(30), np.arange(0, 30, 2)])
    once = Samples(X, y, np.bincount(twice) * 1.0, np.arange(2), np.arange(30))
    copies = Samples(X[twice], y[twice], np.ones(45), np.arange(2), np.arange(45))
    options = {"C": 1.0, "kernel": "linear", "tol": 1e-9}
    weighed = SVC(**options).fit(X, y, once.weights)
    repeated = SVC(**options).fit(X[twice], y[twice])
    rows = np.arange(30)
    found = spanned_duels(repeated, X[twice], copies, rows, twice)
    alone = spanned_duels(repeated, X[twice], copies, rows, None)
    assert np.abs(found - alone).max() > 0.01
    expected = spanned_duels(weighed, X, once, rows, None)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("n", "d"), [(60, 2), (60, 20), (200, 100)])
def test_overlapping_classes_are_better_than_saying_nothing(kernel, n, d):
    X, y = two_gaussians(n, d, 1)
    new, truth = two_gaussians(2000, d, 2)
    model = InvariantHyperplaneSVC(kernel=kernel, tangents="none", random_state=0)
    P = model.fit(X, y).predict_proba(new)
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(new))
    assert log_loss(truth, P) < 0.68
    surer = P.max(axis=1).mean() - np.mean(P.argmax(axis=1) == truth)
    assert -0.15 < surer < 0.08


def test_a_machine_of_many_classes_has_probabilities(digits):
    X, y = digits[:2]
    model = InvariantHyperplaneSVC(0.2, tangents=GENERATOR).fit(X[::2], y[::2])
    P = model.predict_proba(X[1::2])
    np.testing.assert_allclose(P.sum(axis=1), 1)
    said, right = P.max(axis=1).mean(), model.score(X[1::2], y[1::2])
    assert abs(said - right) < 0.05


def test_fewer_tangents_than_features_need_no_large_matrix(digits):
    X, y, *_ = digits
    few = InvariantHyperplaneSVC(0.2, tangents=GENERATOR).fit(X[:20], y[:20])
    t = GENERATOR.tangents(X[:20]).reshape(-1, 64)
    C = t.T @ t
    mixed = 0.8 * C / np.trace(C) + 0.2 * np.eye(64)
    B = few.whitening_
    np.testing.assert_allclose(B @ mixed @ B, np.eye(64), atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_polynomial_far_from_the_origin_answers_a_row_alone_as_among_others():
    X = 10_000.0 + np.array([1, 0, -2, 2, -1, -2, 1, -2, 1, 0, 1, 1])[:, None]
    y = np.array(list("uuvuvvuuvvvu"))
    weights = np.array([34, 34, 38, 64, 79, 38, 45, 87, 79, 38, 34, 64]) / 100
    model = InvariantHyperplaneSVC(kernel="poly", tangents="none", random_state=0)
    model.fit(X, y, weights)
    asked = X[[2, 1, 2]]
    alone = np.concatenate([model.decision_function(row[None]) for row in asked])
    np.testing.assert_allclose(alone, model.decision_function(asked), rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_planes_are_sums_over_all_supports(n_classes):
    rng = np.random.default_rng(n_classes)
    y = np.arange(60) % n_classes
    svc = SVC(kernel="linear", C=10.0).fit(rng.normal(size=(60, 4)), y)
    coef, intercept = pairwise_coefficients(svc)
    planes, offsets = pairwise_planes(svc)
    np.testing.assert_allclose(planes, svc.support_vectors_.T @ coef, atol=1e-12)
    np.testing.assert_array_equal(offsets, intercept)


def test_parts_of_the_duels_change_no_answer(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 20
    X = rng.normal(size=(20, 5))[y] + rng.normal(size=(200, 5))
    asked = []
    model = InvariantHyperplaneSVC(tangents="none").fit(X, y)
    decided = model._duels
    monkeypatch.setattr(model, "_duels", lambda X: asked.append(len(X)) or decided(X))
    ask = (model.predict, model.decision_function, model.confidence)
    expected = [*(method(X) for method in ask), model._costs(X)[0]]
    assert set(asked) == {200}
    monkeypatch.setattr(blocks, "ENTRIES", 70 * 190)
    found = [*(method(X) for method in ask), model._costs(X)[0]]
    assert asked[-3:] == [70, 70, 60]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
