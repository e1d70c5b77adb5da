import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.metrics import log_loss
from sklearn.preprocessing import FunctionTransformer

from widemargin.metrics import TangentMetric, tangent_distances
from widemargin.neighbors import DensityClassifier, TangentDensityClassifier
from widemargin.tangents import (
    ImageTangents,
    LearnedTangents,
    image_affines,
    image_shifts,
)


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


def slow_posterior(d2, y, gamma, weights):
    """Straight from the formula."""
    density = np.exp(-gamma * d2) * weights
    sums = np.column_stack([density[:, y == c].sum(axis=1) for c in np.unique(y)])
    return sums / sums.sum(axis=1, keepdims=True)


def brier_with_one_more(posteriors, rights):
    """Squared errors of samples, and of one more whose class is any of the others."""
    own, other = [], []
    for p, right in zip(posteriors, rights, strict=True):
        squares = [((p - e) ** 2).sum() for e in np.eye(len(p))]
        own.append(squares[right.argmax()])
        other.append((sum(squares) - own[-1]) / (len(p) - 1))
    return (sum(own) + np.mean(other)) / (len(own) + 1)


@pytest.mark.parametrize("sides", ["both", "reference", "midpoint"])
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
    nearest = tangent_distances(
        X_test, X, tangents=np.empty((0, 16)), sides="reference"
    )
    np.testing.assert_array_equal(model.predict(X_test), y[nearest.argmin(axis=1)])


def test_shifts_are_more_training_and_test_images(data):
    X, y, X_test, _ = data
    shifts = image_shifts((4, 4), diagonal=False)
    generator = ImageTangents((4, 4), ["rotation"])
    every = np.concatenate([X, *(s(X) for s in shifts)])
    ends = {"tangents": generator, "sides": "both"}
    plain = TangentDensityClassifier(0.3, **ends).fit(every, np.tile(y, 5))
    train_only = TangentDensityClassifier(
        0.3, **ends, transformations=shifts, transform_test=False
    ).fit(X, y)
    np.testing.assert_allclose(
        train_only.predict_proba(X_test), plain.predict_proba(X_test), rtol=1e-9
    )
    both = train_only.set_params(transform_test=True).fit(X, y)
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


@pytest.mark.parametrize("transform_test", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_gamma_leaves_groups_out_with_all_their_copies(data, grouped, transform_test):
    X, y, *_ = data
    shifts = image_shifts((4, 4), diagonal=False)
    gammas = np.array([0.05, 0.2, 1.0])
    groups = np.repeat(np.arange(8), 5) if grouped else np.arange(len(X))
    model = TangentDensityClassifier(
        gammas, transformations=shifts, transform_test=transform_test
    )
    model.fit(X, y, groups=np.char.add("writer ", groups.astype(str)))
    every, labels = np.concatenate([X, *(s(X) for s in shifts)]), np.tile(y, 5)
    for gamma, error, score in zip(
        gammas, model.cv_errors_, model.cv_scores_, strict=True
    ):
        truth = []
        for i in range(len(X)):
            others = np.tile(groups, 5) != groups[i]
            asked = [X[i : i + 1]]
            asked += [s(X[i : i + 1]) for s in shifts] if transform_test else []
            d2 = np.hstack([((x - every[others]) ** 2).sum(axis=1) for x in asked])
            answers = np.tile(labels[others], len(asked))
            posterior = slow_posterior(d2[None], answers, gamma, 1.0)[0]
            right = np.array(list("abc")) == y[i]
            truth.append((posterior, right))
        posteriors, rights = np.array(truth).transpose(1, 0, 2)
        wrong = posteriors.argmax(axis=1) != rights.argmax(axis=1)
        assert error == pytest.approx(wrong.mean())
        assert score == pytest.approx(brier_with_one_more(posteriors, rights))
    assert model.gamma_ == gammas[model.cv_scores_.argmin()]
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
    model = TangentDensityClassifier(tangents=generator, sides="both")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y).predict(X)
    assert ["1 of 40" in str(w.message) for w in caught] == [True]
    assert caught[0].filename == __file__


def test_tiny_float32_samples_have_a_posterior(data):
    X, y, *_ = data
    tiny = (1e-12 * X).astype(np.float32)
    proba = TangentDensityClassifier().fit(tiny, y).predict_proba(tiny)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_chosen_gamma_has_no_unit(data):
    X, y, *_ = data
    small, large = (TangentDensityClassifier().fit(s * X, y) for s in (1.0, 10.0))
    assert large.gamma_ == pytest.approx(small.gamma_ / 100)


def test_margins_are_positive_where_right(data):
    X, y, X_test, y_test = data
    model = TangentDensityClassifier(0.3).fit(X, y)
    margins = model.margins(X_test, y_test)
    np.testing.assert_array_equal(margins > 0, model.predict(X_test) == y_test)
    assert 0 < np.mean(margins > 0) < 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 0}, "gamma must be a number above 0"),
        ({"gamma": [1.0, -1.0]}, "gamma must be a number above 0"),
        ({"gamma": "best"}, "gamma must be a number above 0"),
        ({"transformations": [3]}, "transformations must be a sequence of functions"),
        ({"transformations": 3}, "transformations must be a sequence of functions"),
        (
            {"transformations": iter([abs])},
            "transformations must be a sequence of functions",
        ),
        (
            {"transformations": [lambda X: X[:, :3]]},
            "each of transformations must return finite samples",
        ),
        ({"max_cv_samples": 0}, "max_cv_samples must be an integer"),
        ({"sides": "left"}, "sides must be one of"),
    ],
)
def test_bad_parameters(data, settings, message):
    with pytest.raises(ValueError, match=message):
        TangentDensityClassifier(**settings).fit(*data[:2])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(40), "one group"),
        (np.arange(39), "groups must have one label per sample: X has 40"),
        (np.ones((40, 2)), "groups must be a 1d array"),
    ],
)
def test_bad_groups(data, groups, message):
    with pytest.raises(ValueError, match=message):
        TangentDensityClassifier().fit(*data[:2], groups=groups)


def test_queries_beyond_the_dtype_of_the_model_are_refused(data):
    X, y, X_test, _ = data
    model = TangentDensityClassifier(0.3).fit(X.astype(np.float32), y)
    with pytest.raises(ValueError, match=r"^X .* float32"):
        model.predict(X_test * 1e19)


@pytest.mark.parametrize("sides", ["both", "midpoint"])
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-59, "d"), (1e58, "d"), (1e-11, "f"), (1e10, "f")],
)
def test_any_scale_is_the_same_problem(data, scale, dtype, sides):
    X, y, X_test, y_test = data
    options = {
        "tangents": ImageTangents((4, 4), ["x_shift"]),
        "sides": sides,
        "transformations": image_shifts((4, 4), diagonal=False)[:1],
    }
    # The nearest power of two, so that nothing is rounded.
    scale = 2.0 ** np.round(np.log2(scale))
    plain = TangentDensityClassifier(**options).fit(X.astype(dtype), y)
    scaled = TangentDensityClassifier(**options).fit((X * scale).astype(dtype), y)
    asked = X_test.astype(dtype), (X_test * scale).astype(dtype)
    np.testing.assert_allclose(
        scaled.predict_proba(asked[1]), plain.predict_proba(asked[0]), rtol=1e-4
    )
    margins = scaled.margins(asked[1], y_test)
    np.testing.assert_allclose(margins, plain.margins(asked[0], y_test), rtol=1e-3)
    assert np.isfinite(scaled.gamma_)


@settings(max_examples=60, deadline=None)
@given(
    far=st.floats(-60, 60).map(lambda e: 10.0**e),
    gamma=st.floats(-200, 200).map(lambda e: 10.0**e),
    dtype=st.sampled_from([np.float32, np.float64]),
    weights=st.lists(st.floats(-49, 49).map(lambda e: 10.0**e), min_size=4, max_size=4),
)
def test_posteriors_sum_to_one_and_margins_are_numbers(far, gamma, dtype, weights):
    X = np.array([[-1.0, 0], [1, 0], [0, 2], [3, 1]], dtype)
    y = np.array([0, 1, 1, 2])
    model = TangentDensityClassifier(gamma).fit(X, y, weights)
    at = np.array([[0.0, far], [0.5, -far]])
    if far > 1e12 and dtype == np.float32:
        at = at / far * 1e12
    proba = model.predict_proba(at.astype(dtype))
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
    scores = model.decision_function(at.astype(dtype))
    assert np.isfinite(scores).all()
    for c in range(3):
        margins = model.margins(at.astype(dtype), [c, c])
        assert np.isfinite(margins).all()
        assert ((margins > 0) <= (model.predict(at.astype(dtype)) == c)).all()


def test_outliers_have_a_posterior():
    model = TangentDensityClassifier(1.0).fit([[-1.0, 0], [1, 0]], [0, 1])
    np.testing.assert_array_equal(model.predict_proba([[0.0, 1e8]]), [[0.5, 0.5]])
    np.testing.assert_array_equal(model.margins([[0.0, 1e8]] * 2, [0, 1]), [0, 0])


@pytest.mark.parametrize("size", [1e-49, 1e49])
def test_only_ratios_of_weights_count(data, size):
    X, y, X_test, _ = data
    weights = np.linspace(0.5, 2, len(X))
    for dtype in ("f", "d"):
        Z = X.astype(dtype)
        for gamma in (0.3, "cv"):
            plain = TangentDensityClassifier(gamma).fit(Z, y, weights)
            sized = TangentDensityClassifier(gamma).fit(Z, y, weights * size)
            np.testing.assert_allclose(
                sized.predict_proba(X_test), plain.predict_proba(X_test), rtol=1e-4
            )


def test_weights_of_any_size_are_counted():
    X, y = np.array([[0.0], [1], [2]], np.float32), [0, 1, 1]
    model = TangentDensityClassifier(1.0).fit(X, y, [1e-80, 1.0, 1.0])
    # Far to the left, the first sample is near enough to outweigh its weight.
    found = model.margins(np.float32([[-200.0]]), [0])[0]
    expected = -80 * np.log(10) - 200**2 + 201**2
    assert found == pytest.approx(expected, rel=1e-4)


def test_class_weight_is_a_factor_on_the_bumps(data):
    X, y, X_test, _ = data
    weighted = TangentDensityClassifier(0.3, class_weight={"b": 3.0}).fit(X, y)
    same = TangentDensityClassifier(0.3).fit(X, y, np.where(y == "b", 3.0, 1.0))
    np.testing.assert_allclose(
        weighted.predict_proba(X_test), same.predict_proba(X_test), rtol=1e-12
    )


def test_parameters_are_those_of_fit(data):
    X, y, X_test, _ = data
    shifts = image_shifts((4, 4), diagonal=False)
    generator = ImageTangents((4, 4), ["x_shift", "y_shift"])
    model = TangentDensityClassifier(0.3, tangents=generator, transformations=shifts)
    before = model.fit(X, y).predict_proba(X_test)
    model.set_params(
        gamma=9.0, sides="reference", spring=0.7, transformations=None,
        transform_test=False, tangents=None,
    )  # fmt: skip
    np.testing.assert_array_equal(model.predict_proba(X_test), before)


def test_references_have_the_tangents_of_their_class():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 3
    generator = LearnedTangents(2, local=True)
    for shifts in (None, [lambda X: X + 1]):
        model = TangentDensityClassifier(
            1.0, tangents=generator, transformations=shifts
        ).fit(X, y)
        fitted = model.input_tangents_
        versions = [X] if shifts is None else [X, X + 1]
        labels = np.tile(y, len(versions))
        order = np.argsort(labels, kind="stable")
        expected = fitted.bundle(np.concatenate(versions)[order], labels[order])
        np.testing.assert_array_equal(model.bundle_.frames, expected.frames)


def test_without_tangents_it_says_so(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="given no tangents"):
            TangentDensityClassifier(1.0).fit(*data[:2])
        TangentDensityClassifier(1.0, tangents="none").fit(*data[:2])


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


@pytest.mark.parametrize("unit", [1.0, 1024.0, 2.0**-20])
def test_copies_do_not_hide_the_unit_of_the_data(unit):
    X = np.repeat(np.arange(6.0)[:, None], 2, axis=0)
    y = np.arange(12) // 6
    model = TangentDensityClassifier(tangents="none").fit(X / unit, y)
    expected = TangentDensityClassifier(tangents="none").fit(X, y)
    assert model.gamma_ == expected.gamma_ * unit**2


def chebyshev(X, Y):
    return np.abs(X[:, None] - Y).max(axis=2)


def test_any_metric_is_the_formula(data):
    X, y, X_test, _ = data
    weights = np.linspace(0.5, 2, len(X))
    model = DensityClassifier(0.7, metric=chebyshev, n_jobs=2).fit(X, y, weights)
    expected = slow_posterior(chebyshev(X_test, X), y, 0.7, weights)
    np.testing.assert_allclose(model.predict_proba(X_test), expected, rtol=1e-9)
    np.testing.assert_allclose(
        model.decision_function(X_test), np.log(expected), rtol=1e-9
    )


def test_tangent_densities_are_a_case(data):
    X, y, X_test, _ = data
    generator = ImageTangents((4, 4), ["x_shift", "y_shift"])
    shifts = image_shifts((4, 4), diagonal=False)
    options = {"transformations": shifts, "transform_test": True}
    tangent = TangentDensityClassifier(tangents=generator, sides="both", **options)
    tangent.fit(X, y)
    any_ = DensityClassifier(metric=TangentMetric(generator), **options).fit(X, y)
    assert tangent.gamma_ == any_.gamma_
    np.testing.assert_array_equal(
        tangent.predict_proba(X_test), any_.predict_proba(X_test)
    )
    plain = TangentDensityClassifier(tangents="none").fit(X, y)
    np.testing.assert_array_equal(
        plain.predict_proba(X_test), DensityClassifier().fit(X, y).predict_proba(X_test)
    )


def slow_near(model, x, X, y, transform, n_candidates, moves, gamma):
    """Posterior of one sample from its candidates and their copies."""
    features = transform.transform(X)
    apart = ((transform.transform(x[None]) - features) ** 2).sum(axis=1)
    near = np.argsort(apart, kind="stable")[:n_candidates]
    every = np.concatenate([X[near], *(move(X[near]) for move in moves)])
    labels = np.tile(y[near], 1 + len(moves))
    d2 = model.metric(x[None], every)[0]
    sums = [
        np.exp(-gamma * d2)[labels == c].sum()
        if (labels == c).any()
        else np.exp(-gamma * d2.max())
        for c in np.unique(y)
    ]
    return np.array(sums) / np.sum(sums)


@pytest.mark.parametrize("n_candidates", [3, 10, 500])
def test_candidates_and_copies(data, n_candidates):
    X, y, X_test, _ = data
    moves = image_affines((4, 4))
    transform = PCA(3)
    model = DensityClassifier(
        0.7, metric=chebyshev, transformations=moves, n_candidates=n_candidates,
        candidate_transform=transform,
    ).fit(X, y)  # fmt: skip
    fitted = PCA(3).fit(X)
    expected = [
        slow_near(model, x, X, y, fitted, n_candidates, moves, 0.7) for x in X_test
    ]
    found = model.predict_proba(X_test)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.isfinite(model.decision_function(X_test)).all()
    two = clone(model).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(two.predict_proba(X_test), found)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X_test), found)
    with config_context(working_memory=0.01):
        np.testing.assert_array_equal(model.predict_proba(X_test), found)
    if n_candidates > len(X):
        whole = DensityClassifier(0.7, metric=chebyshev, transformations=moves)
        whole.fit(X, y)
        np.testing.assert_allclose(whole.predict_proba(X_test), found, rtol=1e-9)


def test_gamma_of_candidates_leaves_groups_out(data):
    X, y, *_ = data
    groups = np.repeat(np.arange(8), 5)
    moves = image_affines((4, 4))
    gammas = np.array([0.2, 1.0, 5.0])
    model = DensityClassifier(
        gammas, metric=chebyshev, transformations=moves, n_candidates=9
    )
    model.fit(X, y, groups=groups)
    identity = FunctionTransformer()
    for gamma, error, score in zip(
        gammas, model.cv_errors_, model.cv_scores_, strict=True
    ):
        posteriors = []
        for i in range(len(X)):
            others = groups != groups[i]
            posteriors.append(
                slow_near(model, X[i], X[others], y[others], identity, 9, moves, gamma)
            )
        rights = np.unique(y) == y[:, None]
        wrong = np.argmax(posteriors, axis=1) != rights.argmax(axis=1)
        assert score == pytest.approx(brier_with_one_more(posteriors, rights))
        assert error == pytest.approx(np.mean(wrong))


def test_few_others_than_those_of_a_group(data):
    """More candidates are asked for than a left-out sample has."""
    X, y, *_ = data
    groups = np.where(np.arange(40) < 36, 0, 1)
    all_of_them = DensityClassifier(metric=chebyshev).fit(X, y, groups=groups)
    near = DensityClassifier(metric=chebyshev, n_candidates=30)
    near.fit(X, y, groups=groups)
    assert np.isfinite(near.cv_scores_).all()
    # The sharper half, in which only the nearest count.
    last = slice(-8, None)
    np.testing.assert_allclose(
        near.cv_scores_[last], all_of_them.cv_scores_[last], 2e-2
    )


def test_tangent_distances_to_candidates(data):
    X, y, X_test, _ = data
    generator = ImageTangents((4, 4), ["x_shift", "y_shift"])
    metric = TangentMetric(generator)
    near = DensityClassifier(0.3, metric=metric, n_candidates=40).fit(X, y)
    whole = DensityClassifier(0.3, metric=metric).fit(X, y)
    np.testing.assert_allclose(
        near.predict_proba(X_test), whole.predict_proba(X_test), rtol=1e-7
    )


@pytest.mark.parametrize("scale", [2.0**-190, 2.0**190])
def test_candidates_of_samples_of_any_size(data, scale):
    X, y, X_test, _ = data
    model = DensityClassifier(n_candidates=7, candidate_transform=PCA(3))
    expected = model.fit(X, y).predict_proba(X_test)
    found = model.fit(X * scale, y).predict_proba(X_test * scale)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "manhattan"}, "metric must be one of 'euclidean'"),
        ({"metric": lambda X, Y: np.ones(3)}, "metric must return distances of shape"),
        (
            {"metric": lambda X, Y: -np.ones((len(X), len(Y)))},
            "metric must return finite distances of at least 0; got -1.0",
        ),
        ({"n_candidates": 0}, "n_candidates must be None or an integer"),
        ({"candidate_transform": PCA(2)}, "candidate_transform needs n_candidates"),
        (
            {"candidate_transform": PCA, "n_candidates": 5},
            "candidate_transform must be None or a transformer",
        ),
        (
            {
                "candidate_transform": FunctionTransformer(lambda X: X[1:]),
                "n_candidates": 5,
            },
            "candidate_transform must return one row per sample; it made 39 of 40",
        ),
        (
            {
                "candidate_transform": FunctionTransformer(lambda X: X[:, 0]),
                "n_candidates": 5,
            },
            r"candidate_transform must return a table.* of shape \(40,\)",
        ),
        (
            {
                "candidate_transform": FunctionTransformer(lambda X: X[:, : len(X)]),
                "n_candidates": 5,
                "gamma": 1.0,
            },
            "candidate_transform must make as many features of every sample; it made 3",
        ),
    ],
)
def test_bad_metrics_and_candidates(data, settings, message):
    X, y, *_ = data
    with pytest.raises(ValueError, match=message):
        DensityClassifier(**settings).fit(X, y).predict(X[:3])


def test_a_sample_given_twice_is_left_out_twice(data):
    """Else its twin, at no distance, makes the sharpest bumps look best."""
    X, y, *_ = data
    model = TangentDensityClassifier(tangents="none")
    once = clone(model).fit(X, y)
    twice = clone(model).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    heavy = clone(model).fit(X, y, sample_weight=np.full(len(y), 2.0))
    assert once.gamma_ == pytest.approx(twice.gamma_)
    np.testing.assert_allclose(once.cv_scores_, twice.cv_scores_)
    np.testing.assert_allclose(once.cv_scores_, heavy.cv_scores_)


def test_the_order_of_samples_does_not_choose_gamma():
    """One class is a thousand times as dense as the others, and comes first."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 210)
    X = rng.normal(size=(630, 2)) * np.where(y == 0, 1e-3, 1)[:, None]
    X[:, 0] += [-9, 0, 1] @ (y == np.arange(3)[:, None])
    model = TangentDensityClassifier(tangents="none", random_state=0)
    for max_cv_samples in (1000, 300):
        model.set_params(max_cv_samples=max_cv_samples)
        order = rng.permutation(630)
        sorted_, shuffled = clone(model).fit(X, y), clone(model).fit(X[order], y[order])
        assert sorted_.gamma_ == pytest.approx(shuffled.gamma_)
        assert sorted_.gamma_ < 1e4


@pytest.mark.parametrize("n_features", [1, 2])
def test_gammas_go_on_beyond_an_end(n_features):
    """In few dimensions the nearest is nearer by far than a bump is wide."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 2
    X = rng.standard_normal((1000, n_features)) + 0.5 * y[:, None]
    model = TangentDensityClassifier(tangents="none").fit(X[:500], y[:500])
    best = int(model.cv_scores_.argmin())
    assert 0 < best < len(model.gammas_) - 1
    assert len(model.gammas_) == len(model.cv_errors_) > 19
    np.testing.assert_allclose(np.diff(np.log(model.gammas_)), np.log(512) / 18)
    assert model.gamma_ == model.gammas_[best]
    # Better than to say one half of everything.
    assert log_loss(y[500:], model.predict_proba(X[500:])) < 0.69
    given = TangentDensityClassifier(model.gammas_[:3], tangents="none").fit(X, y)
    np.testing.assert_array_equal(given.gammas_, model.gammas_[:3])


def test_without_a_mistake_the_sharpest_is_not_the_best():
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [5, 0], [0, 5]])
    y = np.arange(3060) % 3
    X = centres[y] + rng.standard_normal((3060, 2))
    model = TangentDensityClassifier(tangents="none").fit(X[:60], y[:60])
    assert model.cv_errors_[model.cv_scores_.argmin()] <= 1 / 60
    assert log_loss(y[60:], model.predict_proba(X[60:])) < 0.1
