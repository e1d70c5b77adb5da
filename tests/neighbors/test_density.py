import warnings

import numpy as np
import pytest
from sklearn import config_context

from widemargin.metrics import tangent_distances
from widemargin.neighbors import TangentDensityClassifier
from widemargin.tangents import ImageTangents, image_shifts


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=60)
    X = rng.normal(size=(60, 16)) + 1.5 * y[:, None] * (np.arange(16) == 3)
    return (
        X[:40],
        np.array(["a", "b", "c"])[y[:40]],
        X[40:],
        np.array(["a", "b", "c"])[y[40:]],
    )


def slow_posterior(d2, y, beta, weights):
    """Straight from the formula."""
    density = np.exp(-beta * d2) * weights
    sums = np.column_stack([density[:, y == c].sum(axis=1) for c in np.unique(y)])
    return sums / sums.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("sides", ["two", "y", "midpoint"])
def test_posterior_is_the_formula(data, sides):
    X, y, X_test, _ = data
    weights = np.linspace(0.5, 2, len(X))
    generator = ImageTangents((4, 4), ["x_shift", "y_shift"])
    model = TangentDensityClassifier(0.3, tangents=generator, sides=sides)
    model.fit(X, y, weights)
    d2 = tangent_distances(X_test, X, tangents=generator, sides=sides)
    expected = slow_posterior(d2, y, 0.3, weights)
    np.testing.assert_allclose(model.predict_proba(X_test), expected, rtol=1e-9)
    np.testing.assert_allclose(
        model.decision_function(X_test), np.log(expected), rtol=1e-9
    )


def test_far_samples_underflow_nowhere(data):
    X, y, X_test, _ = data
    model = TangentDensityClassifier(1e4).fit(X, y)
    decision = model.decision_function(X_test)
    assert np.isfinite(decision).all()
    nearest = tangent_distances(X_test, X, tangents=np.empty((0, 16)), sides="y")
    np.testing.assert_array_equal(model.predict(X_test), y[nearest.argmin(axis=1)])


def test_shifts_are_more_training_and_test_images(data):
    X, y, X_test, _ = data
    shifts = image_shifts((4, 4), diagonal=False)
    generator = ImageTangents((4, 4), ["rotation"])
    every = np.concatenate([X, *(s(X) for s in shifts)])
    plain = TangentDensityClassifier(0.3, tangents=generator).fit(every, np.tile(y, 5))
    train_only = TangentDensityClassifier(
        0.3, tangents=generator, shifts=shifts, shift_test=False
    ).fit(X, y)
    np.testing.assert_allclose(
        train_only.predict_proba(X_test), plain.predict_proba(X_test), rtol=1e-9
    )
    both = train_only.set_params(shift_test=True)
    d2 = [
        tangent_distances(t, every, tangents=generator)
        for t in (X_test, *(s(X_test) for s in shifts))
    ]
    sums = sum(
        np.column_stack(
            [np.exp(-0.3 * m)[:, np.tile(y, 5) == c].sum(axis=1) for c in "abc"]
        )
        for m in d2
    )
    expected = sums / sums.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(both.predict_proba(X_test), expected, rtol=1e-9)


@pytest.mark.parametrize("shift_test", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_beta_leaves_groups_out_with_all_their_copies(data, grouped, shift_test):
    X, y, *_ = data
    shifts = image_shifts((4, 4), diagonal=False)
    betas = np.array([0.05, 0.2, 1.0])
    groups = np.repeat(np.arange(8), 5) if grouped else np.arange(len(X))
    model = TangentDensityClassifier(betas, shifts=shifts, shift_test=shift_test)
    model.fit(X, y, groups=np.char.add("writer ", groups.astype(str)))
    every, labels = np.concatenate([X, *(s(X) for s in shifts)]), np.tile(y, 5)
    for beta, error, score in zip(
        betas, model.cv_errors_, model.cv_scores_, strict=True
    ):
        truth = []
        for i in range(len(X)):
            others = np.tile(groups, 5) != groups[i]
            asked = [X[i : i + 1]]
            asked += [s(X[i : i + 1]) for s in shifts] if shift_test else []
            d2 = np.hstack([((x - every[others]) ** 2).sum(axis=1) for x in asked])
            answers = np.tile(labels[others], len(asked))
            posterior = slow_posterior(d2[None], answers, beta, 1.0)[0]
            right = np.array(list("abc")) == y[i]
            brier = ((posterior - right) ** 2).sum()
            truth.append((brier, not right[posterior.argmax()]))
        squares, wrong = np.array(truth).T
        assert error == pytest.approx(wrong.mean())
        assert score == pytest.approx(squares.mean())
    assert model.beta_ == betas[model.cv_scores_.argmin()]
    if not grouped:
        model.fit(X, y)
        assert score == pytest.approx(model.cv_scores_[-1])


def test_weightless_samples_take_their_groups_along(data):
    X, y, *_ = data
    groups, weights = np.arange(40) // 4, np.tile([1.0, 2.0, 0.0, 1.0], 10)
    kept = weights > 0
    some = TangentDensityClassifier().fit(X, y, weights, groups=groups)
    same = TangentDensityClassifier()
    same.fit(X[kept], y[kept], weights[kept], groups=groups[kept])
    np.testing.assert_array_equal(some.cv_scores_, same.cv_scores_)


def test_blank_samples_are_mentioned_once(data):
    X, y, *_ = data
    X = X.copy()
    X[3] = 0
    generator = ImageTangents((4, 4), ["x_shift", "y_shift"])
    model = TangentDensityClassifier(tangents=generator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y).predict(X)
    assert ["1 of 40" in str(w.message) for w in caught] == [True]
    assert caught[0].filename == __file__


def test_tiny_float32_samples_have_a_posterior(data):
    X, y, *_ = data
    tiny = (1e-19 * X).astype(np.float32)
    proba = TangentDensityClassifier().fit(tiny, y).predict_proba(tiny)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_auto_beta_has_no_unit(data):
    X, y, *_ = data
    small, large = (TangentDensityClassifier().fit(s * X, y) for s in (1.0, 10.0))
    assert large.beta_ == pytest.approx(small.beta_ / 100)


def test_margins_are_positive_where_right(data):
    X, y, X_test, y_test = data
    model = TangentDensityClassifier(0.3).fit(X, y)
    margins = model.margins(X_test, y_test)
    np.testing.assert_array_equal(margins > 0, model.predict(X_test) == y_test)
    assert 0 < np.mean(margins > 0) < 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 0}, "beta must be a number above 0"),
        ({"beta": [1.0, -1.0]}, "beta must be a number above 0"),
        ({"beta": "best"}, "beta must be a number above 0"),
        ({"shifts": [3]}, "shifts must be a sequence of functions"),
        ({"shifts": 3}, "shifts must be a sequence of functions"),
        ({"shifts": iter([abs])}, "shifts must be a sequence of functions"),
        ({"shifts": [lambda X: X[:, :3]]}, "each of shifts must return finite samples"),
        ({"cv_samples": 0}, "cv_samples must be an integer"),
        ({"sides": "left"}, "sides must be one of"),
    ],
)
def test_bad_parameters(data, settings, message):
    with pytest.raises(ValueError, match=message):
        TangentDensityClassifier(**settings).fit(*data[:2])


def test_one_sample_cannot_be_left_out():
    with pytest.raises(ValueError, match="give beta a number"):
        TangentDensityClassifier().fit([[1.0, 2.0]], [0])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(40), "one group"),
        (np.arange(39), "one entry per sample, 40"),
        (np.ones((40, 2)), "1d array"),
    ],
)
def test_bad_groups(data, groups, message):
    with pytest.raises(ValueError, match=message):
        TangentDensityClassifier().fit(*data[:2], groups=groups)


def test_squares_that_overflow_are_refused(data):
    X, y, X_test, _ = data
    model = TangentDensityClassifier(0.3).fit(X.astype(np.float32), y)
    for huge in (X.astype(np.float32) * np.float32(1e19), X_test * 1e19):
        with pytest.raises(ValueError, match=r"X contains .* overflow float32"):
            model.predict(huge)
    with pytest.raises(ValueError, match="scale the data"):
        TangentDensityClassifier(0.3).fit(X * 1e160, y)


def test_a_class_of_one_sample_is_fine(data):
    X, y, *_ = data
    X, y = np.concatenate([X, X[:1] + 9]), np.append(y, "z")
    model = TangentDensityClassifier().fit(X, y)
    assert model.predict(X[-1:]) == "z"


def test_progress_is_announced(data):
    callback = pytest.importorskip("sklearn.callback")

    class Count(callback.ProgressBar):
        begun = 0

        def on_fit_task_begin(self, *args, **kwargs):
            type(self).begun += 1
            return super().on_fit_task_begin(*args, **kwargs)

    with config_context(working_memory=0.001):
        TangentDensityClassifier().set_callbacks(Count()).fit(*data[:2])
    assert Count.begun > len(data[0])
