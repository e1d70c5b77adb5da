"""What all machines of the package promise, whatever they are given."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from widemargin import KernelLVQClassifier, MaxMarginClassifier
from widemargin._core.decisions import class_pairs, combine, duel_margins
from widemargin.svm import (
    DDAGClassifier,
    InvariantHyperplaneSVC,
    JitteredSVC,
    TangentSVC,
    VirtualSVC,
)
from widemargin.tangents import ImageTangents, LearnedTangents, image_shifts

GENERATOR = ImageTangents((8, 8), ["x_shift", "y_shift", "rotation"])
SHIFTS = image_shifts((8, 8), diagonal=False)
MACHINES = {
    "tangent": TangentSVC(tangents=GENERATOR),
    "landmarks": TangentSVC(tangents=GENERATOR, n_landmarks=40, random_state=0),
    "virtual": VirtualSVC(tangents=GENERATOR),
    "copies": VirtualSVC("poly", transformations=SHIFTS),
    "jittered": JitteredSVC(transformations=SHIFTS),
    "invariant": InvariantHyperplaneSVC(tangents=GENERATOR),
}
every = pytest.mark.parametrize("name", MACHINES)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    X = X / 16
    return X[:120], np.array(list("abcd"))[y[:120]], X[120:200]


@pytest.mark.parametrize(
    "model",
    [
        InvariantHyperplaneSVC(tangents="none"),
        InvariantHyperplaneSVC(kernel="rbf", tangents="none", random_state=0),
        VirtualSVC("linear", tangents="none"),
        VirtualSVC(tangents=np.eye(4)[:1], step=0.2),
        JitteredSVC("linear", transformations=[]),
        JitteredSVC(transformations=[]),
        DDAGClassifier(),
    ],
    ids=lambda model: f"{type(model).__name__} {getattr(model, 'kernel', '')}",
)
def test_the_origin_may_be_anywhere(model):
    X, y = load_iris(return_X_y=True)
    # A shift changes no digit of these.
    X = np.round(X * 2**8) / 2**8
    expected = clone(model).fit(X[::2], y[::2]).predict(X)
    shifts = [2.0**7, 2.0**24, 2.0**31, [0.0, 0.0, 2.0**31, 0.0]]
    for shift in shifts:
        far = X + shift
        found = clone(model).fit(far[::2], y[::2]).predict(far)
        # One sample or two may lie within the tolerance of a solver.
        assert (found == expected).mean() > 0.98
    narrow = (X + 2.0**13).astype(np.float32)
    assert (narrow == X + 2.0**13).all()
    found = clone(model).fit(narrow[::2], y[::2]).predict(narrow)
    assert (found == expected).mean() > 0.98


@pytest.mark.parametrize("value", [2026.0, 1.7e9])
def test_a_constant_column_does_not_spoil_the_nodes_of_a_graph(value):
    X, y = load_iris(return_X_y=True)
    wider = np.c_[X, np.full(len(X), value)]
    expected = DDAGClassifier().fit(X[::2], y[::2]).predict(X)
    found = DDAGClassifier().fit(wider[::2], y[::2]).predict(wider)
    np.testing.assert_array_equal(found, expected)
    assert (expected == y).mean() > 0.95


def test_a_polynomial_far_from_the_origin_is_refused_by_name():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="scale the data, for instance by Stand"):
        VirtualSVC("poly", tangents="none").fit(X + 1e7, y)


def test_every_machine_keeps_what_gamma_became():
    X, y = load_iris(return_X_y=True)
    expected = 1 / X.var(axis=0).sum()
    for model in (
        MaxMarginClassifier(kernel="rbf"),
        KernelLVQClassifier(scale="none", random_state=0),
        InvariantHyperplaneSVC(kernel="rbf", tangents="none", n_components=20),
        VirtualSVC(tangents="none"),
        JitteredSVC(transformations=[]),
    ):
        assert model.fit(X, y).gamma_ == pytest.approx(expected)


@every
@pytest.mark.parametrize("multiclass", ["ovo", "ddag"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_contract(digits, name, multiclass, n_classes):
    X, y, X_test = digits
    y = np.where(y < "c", "a", "b") if n_classes == 2 else y
    model = clone(MACHINES[name]).set_params(multiclass=multiclass, C=0.5).fit(X, y)
    answers, scores = model.predict(X_test), model.decision_function(X_test)
    codes = np.searchsorted(model.classes_, answers)
    np.testing.assert_array_equal(
        codes, scores > 0 if n_classes == 2 else scores.argmax(axis=1)
    )
    confidence = model.confidence(X_test)
    assert (confidence > 0).all()
    np.testing.assert_array_equal(confidence, model.margins(X_test, answers))
    for label in model.classes_:
        margins = model.margins(X_test, np.full(len(X_test), label))
        np.testing.assert_array_equal(margins > 0, answers == label)
    alone = np.concatenate([model.margins(row[None], ["a"]) for row in X_test[:4]])
    together = model.margins(X_test, np.full(len(X_test), "a"))[:4]
    np.testing.assert_allclose(alone, together, rtol=1e-9, atol=1e-12)
    assert model.margin_unit == "distance"


@every
def test_parameters_are_those_of_fit(digits, name):
    X, y, X_test = digits
    model = clone(MACHINES[name]).fit(X, y)
    before = model.decision_function(X_test)
    model.set_params(kernel="linear", gamma=9.0, C=1e-3, multiclass="ddag")
    model.set_params(**{p: None for p in ("tangents",) if p in model.get_params()})
    for parameter in ("degree", "coef0", "step"):
        if parameter in model.get_params():
            model.set_params(**{parameter: 7})
    np.testing.assert_array_equal(model.decision_function(X_test), before)


SCALES = [(-190, "d"), (190, "d"), (-38, "f"), (34, "f")]


@pytest.mark.parametrize(
    "name", ["tangent", "landmarks", "virtual", "copies", "jittered"]
)
@pytest.mark.parametrize(("exponent", "dtype"), SCALES)
def test_any_scale_is_the_same_problem(digits, name, exponent, dtype):
    X, y, X_test = (a.astype(dtype) if a.dtype.kind == "f" else a for a in digits)
    scale = X.dtype.type(2.0**exponent)
    plain = clone(MACHINES[name]).fit(X, y)
    scaled = clone(MACHINES[name]).fit(X * scale, y)
    np.testing.assert_allclose(
        scaled.decision_function(X_test * scale),
        plain.decision_function(X_test),
        rtol=1e-4,
        atol=1e-4,
    )


def noise(scale, n=200, d=5):
    rng = np.random.default_rng(0)
    return scale * rng.normal(size=(n, d)), rng.integers(2, size=n)


@pytest.mark.parametrize(
    "model",
    [
        TangentSVC("nd", gamma=2, tangents="none"),
        TangentSVC("nd", gamma=2, tangents="none", n_landmarks=50, random_state=0),
        VirtualSVC("linear", tangents="none"),
        JitteredSVC("linear", transformations=[]),
        InvariantHyperplaneSVC(tangents="none"),
    ],
)
def test_the_solver_stops_and_says_so(model):
    X, y = noise(100.0)
    model = clone(model).set_params(max_iter=2000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert [w.category for w in caught] == [ConvergenceWarning]
    assert "max_iter=2000 before it reached tol=0.001" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert np.isfinite(model.decision_function(X)).all()


def test_probabilities_depend_on_the_scheme_by_the_answer_only():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    found, answers, temperatures = [], [], []
    for multiclass in ("ovo", "ddag"):
        svc = TangentSVC(probability=True, multiclass=multiclass, tangents="none")
        svc.fit(X[:400], y[:400])
        found.append(svc.predict_proba(X[400:]))
        answers.append(svc.predict(X[400:]))
        temperatures.append(svc.temperature_)
        assert log_loss(y[400:], found[-1]) < 0.3
        svc.temperature_ = temperatures[0]
        found[-1] = svc.predict_proba(X[400:])
    same = answers[0] == answers[1]
    assert 0.95 < same.mean() < 1
    np.testing.assert_allclose(found[0][same], found[1][same])
    assert temperatures[0] == pytest.approx(temperatures[1], rel=0.05)


@pytest.mark.parametrize("model", [TangentSVC, VirtualSVC, InvariantHyperplaneSVC])
@pytest.mark.parametrize(
    ("tangents", "error", "message"),
    [
        (ImageTangents, TypeError, "tangents is the class ImageTangents"),
        (3.0, TypeError, "tangents must be a generator"),
        (np.full((1, 64), np.nan), ValueError, "tangents contains NaN"),
        (np.ones((1, 5)), ValueError, "tangents has 5 features"),
        ("shift", TypeError, "tangents must be a generator"),
    ],
)
def test_tangents_that_are_none(digits, model, tangents, error, message):
    with pytest.raises(error, match=message):
        model(tangents=tangents).fit(*digits[:2])


@pytest.mark.parametrize("transformations", [np.copy, 3.0, [np.nan]])
def test_transformations_that_are_none(digits, transformations):
    for model in (JitteredSVC, VirtualSVC):
        with pytest.raises(ValueError, match="transformations must be a sequence"):
            model(transformations=transformations).fit(*digits[:2])


@pytest.mark.parametrize("model", [TangentSVC, VirtualSVC, InvariantHyperplaneSVC])
def test_without_tangents_they_say_so(digits, model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="given no tangents"):
            model().fit(*digits[:2])
        model(tangents="none").fit(*digits[:2])
        with pytest.raises(UserWarning, match="given no transformations"):
            JitteredSVC().fit(*digits[:2])
        JitteredSVC(transformations=[]).fit(*digits[:2])
        VirtualSVC(transformations=SHIFTS).fit(*digits[:2])


def test_training_samples_have_the_tangents_of_their_class(digits):
    X, y, _ = digits
    svc = TangentSVC(tangents=LearnedTangents(2, local=True), spring=0.3).fit(X, y)
    fitted = svc.input_tangents_
    expected = fitted.bundle(X, y)[svc.support_]
    np.testing.assert_array_equal(svc.support_bundle_.frames, expected.frames)
    assert np.abs(expected.frames - fitted.bundle(X)[svc.support_].frames).max() > 0.01


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 6),
    multiclass=st.sampled_from(["ovo", "ddag"]),
    whole=st.booleans(),
)
def test_margins_of_duels(seed, n_classes, multiclass, whole):
    rng = np.random.default_rng(seed)
    duels = rng.normal(size=(30, len(class_pairs(n_classes))))
    duels = np.round(duels) if whole else duels
    scores = combine(duels, n_classes, multiclass)
    winners = scores.argmax(axis=1)
    by_label = duel_margins(duels, n_classes, multiclass)
    own = by_label[np.arange(30), winners]
    if n_classes > 2:
        assert (own >= 0).all()
        others = np.arange(n_classes) != winners[:, None]
        assert (by_label[others] <= 0).all()
    if not whole:
        np.testing.assert_array_equal(
            by_label > 0, np.arange(n_classes) == winners[:, None]
        )
    # A class that wins all its duels is as sure as the closest of them, or surer.
    column = {pair: c for c, pair in enumerate(class_pairs(n_classes))}
    for row, winner, margin in zip(duels, winners, own, strict=True):
        rivals = [c for c in range(n_classes) if c != winner]
        met = [
            row[column[winner, c]] if winner < c else -row[column[c, winner]]
            for c in rivals
        ]
        if min(met) > 0:
            close = min(met)
            assert margin == close if multiclass == "ovo" else margin >= close


def test_a_failed_fit_leaves_the_old_model(digits):
    X, y, X_test = digits
    for model in MACHINES.values():
        fitted = clone(model).fit(X, y)
        before = fitted.decision_function(X_test)
        with pytest.raises(ValueError, match="class"):
            fitted.fit(X, np.full(len(X), "a"))
        np.testing.assert_array_equal(fitted.decision_function(X_test), before)


def test_neither_copies_nor_the_order_of_samples_choose():
    """A copy that is held out is known: it would speak for the largest C."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.standard_normal((120, 10)) + 0.5 * y[:, None]
    model = TangentSVC(tangents="none", probability=True)
    once = clone(model).fit(X, y)
    twice = clone(model).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    heavy = clone(model).fit(X, y, sample_weight=np.full(120, 2.0))
    order = rng.permutation(120)
    other = clone(model).fit(X[order], y[order])
    assert once.C_ == twice.C_ == heavy.C_ == other.C_ == 1
    assert other.temperature_ == pytest.approx(once.temperature_, rel=1e-2)
    assert twice.temperature_ == pytest.approx(heavy.temperature_, rel=1e-2)


@pytest.mark.parametrize(
    "model", [VirtualSVC(), InvariantHyperplaneSVC(), DDAGClassifier()]
)
def test_files_of_before_samples_were_centred_are_asked_as_they_were(model):
    X, y = load_iris(return_X_y=True)
    model = clone(model).fit(X - X.mean(axis=0), y)
    expected = model.decision_function(X[:9] - X.mean(axis=0))
    del model._centre
    assert np.shape(model.decision_function(X[:9])) == np.shape(expected)
