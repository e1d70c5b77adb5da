import numpy as np
import pytest
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_sample_weight

from widemargin.svm import VirtualSVC
from widemargin.tangents import ImageTangents, image_shifts


def test_second_stage_sees_supports_and_their_copies(digits):
    X, y, X_test, y_test = digits
    shifts = image_shifts((8, 8), diagonal=False)
    ours = VirtualSVC(gamma=0.05, transformations=shifts).fit(X, y)
    first = SVC(C=10, gamma=0.05).fit(X, y)
    np.testing.assert_array_equal(ours.first_support_, first.support_)
    kept, labels = X[first.support_], y[first.support_]
    second = SVC(C=10, gamma=0.05).fit(
        np.concatenate([kept, *(s(kept) for s in shifts)]), np.tile(labels, 5)
    )
    assert ours.n_virtual_ == 4 * len(kept)
    np.testing.assert_allclose(
        ours.decision_function(X_test), second.decision_function(X_test), atol=1e-9
    )
    margins = ours.margins(X_test, np.roll(y_test, 1))
    right = ours.predict(X_test) == np.roll(y_test, 1)
    np.testing.assert_array_equal(margins > 0, right)


def test_tangents_move_both_ways(digits):
    X, y, X_test, _ = digits
    generator = ImageTangents((8, 8), ["x_shift", "rotation"])
    ours = VirtualSVC(gamma=0.05, tangents=generator, step=0.5).fit(X, y)
    kept, labels = X[ours.first_support_], y[ours.first_support_]
    t = generator.tangents(kept)
    copies = [kept, *(kept + s * t[:, i] for i in (0, 1) for s in (0.5, -0.5))]
    second = SVC(C=10, gamma=0.05).fit(np.concatenate(copies), np.tile(labels, 5))
    np.testing.assert_allclose(
        ours.decision_function(X_test), second.decision_function(X_test), atol=1e-9
    )


def test_without_anything_to_vary_it_is_the_plain_machine(digits):
    X, y, X_test, _ = digits
    plain = SVC(C=10, gamma=1 / X.var(axis=0).sum()).fit(X, y)
    ours = VirtualSVC().fit(X, y)
    np.testing.assert_allclose(
        ours.decision_function(X_test), plain.decision_function(X_test)
    )


def test_virtual_samples_help_against_shifts(digits):
    X, y, X_test, y_test = digits
    shifted = image_shifts((8, 8), diagonal=False)[0](X_test)
    ours = VirtualSVC(transformations=image_shifts((8, 8))).fit(X[:60], y[:60])
    plain = SVC(C=10).fit(X[:60], y[:60])
    assert ours.score(shifted, y_test) > plain.score(shifted, y_test)


def test_weights_go_to_copies_too(digits):
    X, y, X_test, _ = digits
    shifts = image_shifts((8, 8), diagonal=False)
    half = (np.arange(160) < 80).astype(float)
    some = VirtualSVC(gamma=0.05, transformations=shifts).fit(X, y, half)
    alone = VirtualSVC(gamma=0.05, transformations=shifts).fit(X[:80], y[:80])
    np.testing.assert_allclose(
        some.decision_function(X_test), alone.decision_function(X_test), atol=1e-6
    )


@pytest.mark.parametrize("class_weight", [None, {0: 3.0}, "balanced"])
def test_weights_of_the_whole_set_hold_in_both_stages(digits, class_weight):
    X, y, X_test, _ = digits
    kept = (y > 0) | (np.arange(160) % 4 == 0)
    X, y = X[kept], y[kept]
    shifts = image_shifts((8, 8), diagonal=False)
    weights = np.linspace(0.01, 2, len(X))
    ours = VirtualSVC(
        C=0.1, transformations=shifts, class_weight=class_weight
    ).fit(X, y, weights)  # fmt: skip
    # "scale" and the weights are those of the training set, not of its supports.
    factors = weights * compute_sample_weight(class_weight, y)
    if class_weight == "balanced":
        # What counts is the weight of a class, not its number of samples.
        totals = np.bincount(y, weights)
        factors = weights * (totals.mean() / totals)[y]
    variances = np.average(X**2, 0, factors) - np.average(X, 0, factors) ** 2
    svc = SVC(C=0.1, gamma=1 / variances.sum())
    rows = svc.fit(X, y, factors).support_
    np.testing.assert_array_equal(ours.first_support_, rows)
    copies = np.concatenate([X[rows], *(s(X[rows]) for s in shifts)])

    def second(factors):
        svc.fit(copies, np.tile(y[rows], 5), np.tile(factors, 5))
        return svc.decision_function(X_test)

    found = ours.decision_function(X_test)
    np.testing.assert_allclose(found, second(factors[rows]), atol=1e-9)
    for wrong in (
        np.ones(len(rows)),
        weights[rows] * compute_sample_weight("balanced", y[rows]),
    ):
        assert np.abs(second(wrong) - found).max() > 0.01
    svc.set_params(gamma=1 / copies.var(axis=0).sum())
    assert np.abs(second(factors[rows]) - found).max() > 1e-3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": -1}, "C must be a finite number above 0"),
        ({"step": 0}, "step must be a finite number above 0"),
        ({"transformations": "shift"}, "sequence of functions"),
        ({"transformations": (t for t in [np.copy])}, "sequence of functions"),
        ({"class_weight": {99: 2.0}}, "class_weight names 99, which is no class of y"),
        ({"transformations": [lambda X: X[:2]]}, "must return finite samples"),
        ({"tangents": np.ones((1, 5))}, "tangents has 5 features"),
    ],
)
def test_bad_parameters(digits, settings, message):
    with pytest.raises(ValueError, match=message):
        VirtualSVC(**settings).fit(*digits[:2])
