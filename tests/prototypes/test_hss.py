import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_circles

from widemargin._core.decisions import relative_distances
from widemargin._core.duplicates import duplicate_groups
from widemargin._core.left_out import left_out_folds
from widemargin._core.samples import Samples, check_samples, merge_duplicates
from widemargin._core.select import select
from widemargin._core.temperature import LeftOut, fit_temperature
from widemargin.metrics import tangent_distances
from widemargin.prototypes import HSSClassifier, TVQClassifier
from widemargin.prototypes.counts import prototype_counts
from widemargin.prototypes.initialization import within_class_spread
from widemargin.prototypes.tangent_models import (
    tried_rows,
    tried_tangents,
)
from widemargin.tangents import ImageTangents, LearnedTangents

TWO = {"sides": "both", "tangents": ImageTangents((8, 8))}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300] / 16, y[:300]


def test_one_model_is_the_class_covariance(digits):
    X, y = digits
    model = HSSClassifier(1, n_tangents=4).fit(X, y)
    own = X[y == 3]
    assert_allclose(model.prototypes_[3], own.mean(axis=0), atol=1e-12)
    _, vectors = np.linalg.eigh(np.cov(own.T, bias=True))
    space = model.tangents_[3].T @ model.tangents_[3]
    assert_allclose(space, vectors[:, -4:] @ vectors[:, -4:].T, atol=1e-9)
    assert model.history_["objective"][0] == pytest.approx(
        sum(
            np.linalg.eigvalsh(np.cov(X[y == c].T, bias=True))[:-4].sum()
            * np.sum(y == c)
            for c in range(10)
        )
    )


@pytest.mark.parametrize(
    "options", [{"prototypes_per_class": 3}, TWO, TWO | {"prototypes_per_class": 2}]
)
@pytest.mark.parametrize("spring", [1e-5, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_objective_never_rises(digits, options, spring, weighted):
    X, y = digits
    weights = np.random.RandomState(0).uniform(0, 3, len(y)) if weighted else None
    model = HSSClassifier(
        n_tangents=3, spring=spring, tol=0, max_iter=12, random_state=0, **options
    ).fit(X, y, weights)
    objective = np.array(model.history_["objective"])
    assert len(objective) > 1
    assert np.all(np.diff(objective) <= 1e-9 * objective[0])


@pytest.mark.parametrize("options", [{}, {"prototypes_per_class": 3}, TWO])
def test_distances_are_tangent_distances(digits, options):
    X, y = digits
    model = HSSClassifier(n_tangents=3, random_state=0, spring=1e-5, **options)
    model.fit(X, y)
    two = "tangents" in options
    D = tangent_distances(
        X[:20],
        model.prototypes_,
        X_tangents=TWO["tangents"] if two else None,
        Y_tangents=model.tangents_,
        sides="both" if two else "reference",
        spring=1e-5 if two else 0,
    )
    assert_allclose(model._squared_distances(X[:20]), D, atol=1e-9)
    labels = model.prototype_labels_[D.argmin(axis=1)]
    assert_array_equal(model.predict(X[:20]), labels)


def test_two_sided_does_not_mind_what_may_vary(digits):
    X, y = digits
    brighter = X + np.random.RandomState(0).uniform(0, 2, (len(X), 1))
    model = HSSClassifier(1, n_tangents=3, sides="both", tangents=np.ones((1, 64)))
    model.set_params(spring=1e-9).fit(X, y)
    assert_allclose(model.margins(brighter, y), model.margins(X, y), atol=1e-5)
    plain = HSSClassifier(1, n_tangents=3).fit(X, y)
    assert np.abs(plain.margins(brighter, y) - plain.margins(X, y)).max() > 0.1


def test_certified_radius_is_for_one_side(digits):
    X, y = digits
    model = HSSClassifier(1, n_tangents=3).fit(X, y)
    radius = model.certified_radius(X[:30])
    rng = np.random.RandomState(0)
    step = rng.standard_normal((30, 64))
    step *= 0.999 * radius[:, None] / np.linalg.norm(step, axis=1, keepdims=True)
    assert_array_equal(model.predict(X[:30] + step), model.predict(X[:30]))
    with pytest.raises(ValueError, match="sides='reference'"):
        HSSClassifier(1, n_tangents=3, **TWO, spring=1e-5).fit(X, y).certified_radius(X)
    with pytest.raises(ValueError, match="n_tangents=0"):
        model.margin_bound(X, y, theta=0.1)


def test_learned_and_shared_tangents(digits):
    X, y = digits
    learned = HSSClassifier(1, n_tangents=2, sides="both", tangents=LearnedTangents(2))
    assert learned.fit(X, y).score(X, y) > 0.8
    shared = HSSClassifier(1, n_tangents=2, sides="both", tangents=np.ones((1, 64)))
    assert shared.fit(X, y).score(X, y) > 0.8


def test_single_samples_constant_features_and_duplicates():
    X = np.array([[0.0, 0, 1], [0, 1, 1], [5, 5, 1], [5, 5, 1], [5, 6, 1]])
    y = np.array(["a", "a", "b", "c", "c"])
    model = HSSClassifier(prototypes_per_class=2, n_tangents=2, random_state=0).fit(
        X, y
    )
    assert np.isfinite(model.tangents_).all()
    assert np.sum(model.prototype_labels_ == "b") == 1
    assert_allclose(model.margins(X[2:3], ["b"]), 0, atol=1e-12)
    one = model.tangents_[model.prototype_labels_ == "b"]
    assert_array_equal(one, 0)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_float32_is_kept(digits, n_jobs):
    X, y = digits
    model = HSSClassifier(1, n_tangents=2, n_jobs=n_jobs).fit(X.astype(np.float32), y)
    assert model.prototypes_.dtype == model.tangents_.dtype == np.float32
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_tangents": 64}, "n_tangents must be at least 0 and below"),
        ({"n_tangents": 1.5}, "n_tangents must be 'auto' or an integer"),
        ({"prototypes_per_class": 0}, "prototypes_per_class"),
        ({"sides": "one"}, "sides must be one of"),
        ({"sides": "both"}, "needs tangents"),
        ({"tangents": ImageTangents((8, 8))}, "sides='reference'"),
        ({"sides": "both", "tangents": np.ones((300, 1, 64))}, "all samples share"),
        ({"sides": "both", "tangents": ImageTangents((8, 8)), "spring": 0}, "spring"),
        ({"tol": -1.0}, "tol"),
        ({"scale": "std"}, "scale must be one of"),
        (
            {
                "sides": "both",
                "tangents": ImageTangents((8, 8)),
                "scale": "within_class_std",
            },
            "scale='none'",
        ),
    ],
)
def test_bad_parameters(digits, parameters, message):
    with pytest.raises(ValueError, match=message):
        HSSClassifier(**parameters).fit(*digits)


def test_auto_is_the_smallest_that_is_not_clearly_worse_where_held_out():
    samples = merge_duplicates(
        check_samples(HSSClassifier(), *load_wine(return_X_y=True))
    )
    X, y = samples.X, samples.codes
    found = HSSClassifier(scale="none", random_state=0).fit(X, y)
    trials = tried_rows(y, np.random.RandomState(0))
    asked = np.concatenate([rows for _, rows in trials])
    assert sorted(asked) == list(range(len(X)))
    wrong, size = {}, {}
    for m in tried_tangents("auto", 13):
        for one_per_class in (True, False):
            size[m, one_per_class], parts = 0, []
            for fit, held in trials:
                counts = prototype_counts(
                    1 if one_per_class else "auto",
                    np.arange(3), y[fit], np.ones(len(fit)), size=1 + m, most=30,
                )  # fmt: skip
                model = HSSClassifier(
                    dict(enumerate(counts.tolist())), m, max_iter=3, tol=0,
                    scale="none", random_state=0,
                ).fit(X[fit], y[fit])  # fmt: skip
                parts.append(model.predict(X[held]) != y[held])
                size[m, one_per_class] += counts.sum() * (1 + m)
            wrong[m, one_per_class] = np.concatenate(parts)
    chosen = found.tangents_.shape[1], len(found.prototypes_) == 3
    assert chosen == select(sorted(size, key=size.get), wrong.__getitem__)
    assert wrong[chosen].sum() < wrong[1, True].sum()
    assert len(HSSClassifier(1, random_state=0).fit(X, y).prototypes_) == 3
    # Circles need several points of a class, and no tangent of one helps.
    Z, z = make_circles(200, noise=0.1, factor=0.5, random_state=0)
    assert len(HSSClassifier(random_state=0).fit(Z, z).prototypes_) > 2


def test_many_features_have_twenty_tangents_and_nothing_is_tried():
    draw = np.random.RandomState(0)
    X, y = draw.standard_normal((60, 160)), np.arange(60) % 2
    one, auto = (HSSClassifier(*given).fit(X, y) for given in ((1, 20), ()))
    assert_array_equal(one.tangents_, auto.tangents_)


def test_batches_keep_what_the_first_chose():
    X, y = load_wine(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(X))
    X, y = X[order], y[order]
    model = HSSClassifier(random_state=0).fit(X[:100], y[:100])
    before = model.tangents_.shape
    assert before != (3, 1, 13)
    model.partial_fit(X[100:], y[100:])
    assert model.tangents_.shape == before
    # One sample has nothing to be held out.
    alone = HSSClassifier().partial_fit(X[:1], y[:1], classes=[0, 1, 2])
    assert alone.tangents_.shape == (1, 1, 13)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=30), st.integers(0, 99))
def test_every_class_keeps_a_sample_that_is_not_left_out(sizes, seed):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    codes = np.random.RandomState(seed).permutation(codes)
    X = np.zeros((len(codes), 1))
    samples = Samples(X, codes, X[:, 0], np.arange(len(sizes)), np.arange(len(X)))
    assert not left_out_folds(samples, many=len(codes) // len(sizes))
    folds = left_out_folds(samples, many=1000)
    rows = np.concatenate([*folds, np.empty(0, int)])
    assert len(set(rows)) == len(rows)
    left_out = np.isin(codes, np.flatnonzero(np.array(sizes) > 1)).sum()
    assert len(rows) == left_out if len(codes) <= 500 else len(rows) >= 0.8 * 500
    for part in folds:
        assert set(np.delete(codes, part)) == set(codes)


DRIFT = np.stack([np.ones(100), np.linspace(-1, 1, 100)])


def drifting(n, seed):
    """Three classes of signals, a peak each, on a line of any height and slope."""
    rng = np.random.RandomState(seed)
    y, t = np.arange(n) % 3, np.arange(100)
    peaks = np.exp(-(((t - 40 - 3 * y[:, None]) / 8) ** 2))
    size, lines = rng.lognormal(0, 0.2, (n, 1)), rng.normal(size=(n, 2)) @ DRIFT
    return size * peaks + lines + rng.normal(0, 0.01, (n, 100)), y


@pytest.mark.parametrize("Model", [HSSClassifier, TVQClassifier])
@pytest.mark.parametrize("n_tangents", [3, 20])
def test_few_samples_that_bend_are_as_sure_as_right(Model, n_tangents):
    """Twenty tangents hold the twenty samples of a class, and no other."""
    X, y = drifting(660, seed=0)
    model = Model(1, n_tangents, sides="both", tangents=DRIFT).fit(X[:60], y[:60])
    P = model.predict_proba(X[60:])
    assert model.score(X[60:], y[60:]) > 0.97
    assert -np.log(P[np.arange(600), y[60:]]).mean() < 0.15


@pytest.mark.parametrize(
    "model",
    [
        HSSClassifier(1, 5),
        HSSClassifier(1, 5, sides="both", tangents=DRIFT, max_iter=3),
        TVQClassifier(1, 5, learning_rate=1e-3, max_iter=6),
    ],
    ids=["one", "two", "tvq"],
)
def test_temperatures_of_few_samples_are_those_of_models_without_them(model):
    X, y = drifting(90, seed=1)
    X = X + np.random.RandomState(0).normal(0, 0.3, X.shape)
    w = np.random.RandomState(1).uniform(0.5, 2, 90)
    # As a fit has them.
    X, y, w = (a[np.argsort(duplicate_groups(X, y))] for a in (X, y, w))
    folds = left_out_folds(Samples(X, y, w, np.arange(3), np.arange(90)), many=100)
    D = []
    for rows in folds:
        others = clone(model).fit(*(np.delete(a, rows, axis=0) for a in (X, y, w)))
        D.append(others._class_distances(X[rows]))
    rows, D = np.concatenate(folds), np.concatenate(D)
    costs, weights = relative_distances(D), w[rows] / w[rows].mean()
    T, _ = fit_temperature(LeftOut(costs, D.argmin(axis=1), y[rows], weights))
    assert model.fit(X, y, w).temperature_ == pytest.approx(T, rel=1e-3)


def test_margins_that_decide_about_tangents_are_those_of_fits_without_the_samples():
    X, y = drifting(90, seed=0)
    model = HSSClassifier(1, 5, sides="both", tangents=DRIFT, spring=1e-5, max_iter=3)
    model.fit(X, y)
    samples = Samples(X, y, np.ones(90), np.arange(3), np.arange(90))
    bundle = model._bundle_references(samples)
    parts = np.array_split(np.random.RandomState(0).permutation(90), 3)
    trials = [(np.setdiff1d(np.arange(90), part), part) for part in parts]
    expected = [
        clone(model).fit(X[fit], y[fit]).margins(X[asked], y[asked])
        for fit, asked in trials
    ]
    found = model._left_out_margins(samples, bundle, trials)
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-6)


@pytest.mark.parametrize("Model", [HSSClassifier, TVQClassifier])
def test_samples_bend_only_where_models_are_clearly_better(Model, monkeypatch):
    X, y = drifting(60, seed=0)
    model = Model(1, 0, sides="both", tangents=DRIFT)
    assert model.fit(X, y).metric_.has_tangents

    def by_chance(self, samples, bundle, trials):
        """Better with tangents by one deviation of what chance does."""
        random = np.random.RandomState(0)
        known, noise = random.uniform(-0.2, 1, 60), random.normal(0, 0.3, 60)
        noise += 0.3 / 60**0.5 - noise.mean()
        return known + noise * self.metric_.has_tangents

    monkeypatch.setattr(Model, "_left_out_margins", by_chance)
    still = model.fit(X, y).metric_
    assert not still.has_tangents
    assert still.sides == "reference"


@pytest.mark.parametrize(
    ("options", "offset"),
    [
        ({}, 0.0),
        ({"n_tangents": 3}, 0.0),
        ({"n_tangents": 3}, 1e6),
    ],
)
def test_a_scale_is_that_of_samples_divided_by_it(options, offset):
    X, y = load_wine(return_X_y=True)
    spread = within_class_spread(X, y, np.ones(len(X)))
    Z = X / spread
    plain = HSSClassifier(**options, scale="none", random_state=0).fit(Z[::2], y[::2])
    X = X + offset * spread
    model = HSSClassifier(**options, random_state=0).fit(X[::2], y[::2])
    # Of the training samples alone, and chosen.
    own = within_class_spread(X[::2], y[::2], np.ones(len(X[::2])))
    assert_allclose(model.scale_, own, rtol=1e-6)
    scaled = HSSClassifier(**options, scale="none", random_state=0)
    scaled.fit((X[::2] - offset * spread) / own, y[::2])
    asked = (X - offset * spread) / own
    close = {"rtol": 1e-6, "atol": 1e-6}
    assert_allclose(
        model.prototypes_, scaled.prototypes_ * own + offset * spread, rtol=1e-6
    )
    for ask in ("decision_function", "confidence"):
        assert_allclose(getattr(model, ask)(X), getattr(scaled, ask)(asked), **close)
    assert_allclose(
        model._distances_to_classes(X), scaled._distances_to_classes(asked), **close
    )
    assert model.score(X[1::2], y[1::2]) > plain.score(X[1::2], y[1::2])
    # A step of that length changes no answer, in the units of the features.
    radius = model.certified_radius(X)
    moves = np.random.default_rng(0).normal(size=(20, *X.shape))
    moves *= (radius / np.linalg.norm(moves, axis=2))[..., None]
    for move in moves:
        assert_array_equal(model.predict(X + 0.999 * move), model.predict(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_distances_are_those_of_divided_features(dtype):
    X, y = load_wine(return_X_y=True)
    X = X.astype(dtype)
    model = HSSClassifier(4, 2, scale="within_class_std", random_state=0).fit(X, y)
    assert model.prototypes_.dtype == dtype
    scale, labels = model.scale_.astype(float), model.prototype_labels_
    D = np.empty((len(X), len(labels)))
    for k, (C, T) in enumerate(zip(model.prototypes_, model.tangents_, strict=True)):
        delta = (X.astype(float) - C) / scale
        D[:, k] = np.linalg.norm(delta - delta @ T.T @ T, axis=1)
    expected = np.column_stack([D[:, labels == c].min(axis=1) for c in range(3)])
    atol = 1e-9 if dtype == np.float64 else 1e-3
    assert_allclose(model._distances_to_classes(X), expected, rtol=atol, atol=atol)


def test_pixels_stay_as_they_are_and_so_do_features_that_bend(digits):
    assert HSSClassifier().fit(*digits).scale_ is None
    bends = HSSClassifier(1, 2, sides="both", tangents=ImageTangents((8, 8)))
    assert bends.fit(*digits).scale_ is None
    X, y = load_wine(return_X_y=True)
    model = HSSClassifier(1, 2).fit(X, y)
    assert model.scale_ is not None
    # What was chosen before is forgotten.
    assert model.set_params(scale="none").fit(X, y).scale_ is None


@pytest.mark.parametrize("size", [1, 7, 60])
def test_batches_of_a_stream_are_the_model_of_all_in_its_units(size):
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    # Enough that the first 500 have been seen, and more have come.
    rows = rng.integers(len(X), size=700 if size > 1 else 90)
    X, y = X[rows] + 0.01 * rng.normal(size=(len(rows), 13)), y[rows]
    stream = HSSClassifier(1, 3, random_state=0)
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        stream.partial_fit(X[part], y[part], classes=np.unique(y))
    assert stream.scale_ is not None
    whole = HSSClassifier(1, 3, scale="none").fit(X / stream.scale_, y)
    assert_allclose(stream.prototypes_, whole.prototypes_ * stream.scale_, rtol=1e-6)
    assert_allclose(
        stream.decision_function(X),
        whole.decision_function(X / stream.scale_),
        atol=1e-6,
    )


def test_inputs_that_do_not_bend_are_in_the_units_of_a_fit_without_tangents():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 6)) * [1, 1, 1, 1, 1, 30]
    X[:, 0] += 4 * y
    # Along this direction nothing would tell the classes apart.
    harmful = np.eye(6)[:1]
    model = HSSClassifier(n_tangents=1, sides="both", tangents=harmful).fit(X, y)
    usual = HSSClassifier(n_tangents=1).fit(X, y)
    assert not model.metric_.has_tangents
    assert usual.scale_ is not None
    np.testing.assert_array_equal(model.scale_, usual.scale_)
    np.testing.assert_array_equal(model.prototypes_, usual.prototypes_)
    new = rng.normal(size=(50, 6)) * [1, 1, 1, 1, 1, 30]
    np.testing.assert_array_equal(
        model.decision_function(new), usual.decision_function(new)
    )
    # A batch that comes later is divided by the same.
    more = model.partial_fit(X + 0.1, y), usual.partial_fit(X + 0.1, y)
    np.testing.assert_allclose(*(one.prototypes_ for one in more))


@pytest.mark.parametrize("kind", [HSSClassifier, TVQClassifier])
def test_classes_that_hold_a_sample_in_their_span_are_equally_near(kind):
    """Both distances were rounding, and relative margins of up to 1 came of them."""
    rng = np.random.default_rng(0)
    few = {} if kind is HSSClassifier else {"max_iter": 2, "random_state": 0}
    for _ in range(5):
        two = rng.normal(size=(2, 6))
        model = kind(1, n_tangents=1, **few)
        model.fit(two[[0, 1, 0, 1]], [0, 0, 1, 1])
        on_the_line = two[0] + rng.normal(size=(9, 1)) * (two[1] - two[0])
        assert (model.confidence(on_the_line) == 0).all()
        assert (model.predict(on_the_line) == 0).all()
