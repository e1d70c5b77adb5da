"""NaN in X: learned from and asked about completed samples, by every door."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import widemargin
from widemargin import (
    GLVQClassifier,
    GMLVQClassifier,
    KernelLVQClassifier,
    LVQClassifier,
    TangentKNeighborsClassifier,
)
from widemargin._compute.machine import COMPLETED_BY
from widemargin._compute.missing import learned_factors
from widemargin.tangents import ImageTangents

X, Y = load_iris(return_X_y=True)
MEMBERS = [
    LVQClassifier(random_state=0),
    GLVQClassifier(random_state=0),
    GLVQClassifier(loss="rslvq", random_state=0),
    GLVQClassifier(init="samples", prototypes_per_class=4, random_state=0),
    GLVQClassifier(init="means", prototypes_per_class=2, random_state=0),
    *[
        GMLVQClassifier(metric=metric, random_state=0)
        for metric in ("full", "diagonal", "class", "local")
    ],
    GMLVQClassifier(n_components=2, loss="cross_entropy", random_state=0),
]
every_member = pytest.mark.parametrize("model", MEMBERS, ids=repr)


def with_holes(X, share, seed=0):
    """X with NaN at random, never a whole row."""
    rng = np.random.RandomState(seed)
    holes = rng.uniform(size=X.shape) < share
    holes[np.arange(len(X)), rng.randint(X.shape[1], size=len(X))] = False
    return np.where(holes, np.nan, X)


HOLES = with_holes(X, 0.2)


@every_member
class TestMembers:
    def test_it_learns_and_answers_from_what_is_there(self, model):
        model = model.fit(HOLES, Y)
        assert np.isfinite(model.prototypes_).all()
        assert model.score(HOLES, Y) > 0.9
        codes = model.predict(HOLES)
        assert np.array_equal(model.margins(HOLES, Y) > 0, codes == Y)
        assert np.array_equal(model.confidence(HOLES), model.margins(HOLES, codes))
        if hasattr(model, "predict_proba"):
            chances = model.predict_proba(HOLES)
            np.testing.assert_allclose(chances.sum(axis=1), 1)
            assert np.array_equal(chances.argmax(axis=1), codes)
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.confidence(HOLES), model.confidence(HOLES))
        assert model.__sklearn_tags__().input_tags.allow_nan

    def test_stopping_early_and_float32(self, model):
        model.set_params(early_stopping=True)
        try:
            model.fit(HOLES.astype(np.float32), Y)
        finally:
            model.set_params(early_stopping=False)
        assert model.prototypes_.dtype == np.float32
        assert model.score(HOLES, Y) > 0.85

    def test_batches_may_lack_a_feature(self, model):
        for start in range(5):
            batch = HOLES[start::5].copy()
            rows = np.arange(len(batch)) if start else np.flatnonzero(Y[::5] < 2)
            if start == 1:
                batch[:, 1] = np.nan
                batch[np.isnan(batch).all(axis=1), 0] = 5.0
            model.partial_fit(batch[rows], Y[start::5][rows], classes=[0, 1, 2])
        vars(model).pop("_rng", None)
        fitted = model.prototypes_
        for name in [name for name in vars(model) if name.endswith("_")]:
            delattr(model, name)
        assert np.isfinite(fitted).all()
        # Class 2 came first with a batch that did not know feature 1.
        assert fitted[:, 1].min() > 1

    def test_no_radius_is_certain_where_values_are_missing(self, model):
        model.fit(HOLES, Y)
        radii, whole = model.certified_radius(HOLES), ~np.isnan(HOLES).any(axis=1)
        assert np.all(radii[~whole] == 0)
        assert np.array_equal(radii[whole], model.certified_radius(HOLES[whole]))
        assert radii[whole].max() > 0

    def test_it_sees_completed_samples(self, model):
        twin = clone(model)
        answers = model.fit(HOLES, Y).predict(HOLES)
        full = model._completion.factors.completed(HOLES)
        assert np.array_equal(model.predict(full), answers)
        assert np.array_equal(model.margins(full, Y), model.margins(HOLES, Y))
        one = np.concatenate([model.confidence(HOLES[i : i + 1]) for i in range(9)])
        np.testing.assert_allclose(one, model.confidence(HOLES)[:9], rtol=1e-9)
        if not model._exact_weights:
            # Others order the samples by their values, missing ones included.
            twin.fit(full, Y)
            assert np.array_equal(twin.prototypes_, model.prototypes_)

    def test_whole_samples_know_of_no_other(self, model):
        model.fit(X, Y)
        before = model.confidence(X)
        mixed = X.copy()
        mixed[::7, 2] = np.nan
        whole = np.arange(len(X)) % 7 > 0
        assert np.array_equal(model.confidence(mixed)[whole], before[whole])
        assert model.score(mixed, Y) > 0.9
        assert np.array_equal(model.confidence(X), before)

    def test_files_know_what_to_expect(self, model, tmp_path):
        pytest.importorskip("skops")
        model.fit(X, Y)
        widemargin.save(model, tmp_path / "model.skops")
        again = widemargin.load(tmp_path / "model.skops")
        assert np.array_equal(again.confidence(HOLES), model.confidence(HOLES))


@pytest.mark.parametrize("model", [GLVQClassifier(2), GMLVQClassifier(2)], ids=repr)
def test_weight_two_is_the_sample_twice_bit_by_bit(model):
    weights = 1.0 + (np.arange(len(X)) % 3 == 0)
    rows = np.repeat(np.arange(len(X)), weights.astype(int))
    rows = np.random.RandomState(0).permutation(rows)
    model.set_params(random_state=0, max_iter=3)
    once = model.fit(HOLES, Y, sample_weight=weights).prototypes_
    assert np.array_equal(model.fit(HOLES[rows], Y[rows]).prototypes_, once)


def test_unequal_units_are_noticed():
    wine, y = load_wine(return_X_y=True)
    wine = with_holes(wine, 0.2)
    model = GLVQClassifier(random_state=0).fit(wine[::2], y[::2])
    assert model.scale_ is not None
    raw = GLVQClassifier(scale="none", random_state=0).fit(wine[::2], y[::2])
    assert model.score(wine[1::2], y[1::2]) > 0.1 + raw.score(wine[1::2], y[1::2])


def test_neighbours_of_completed_samples():
    some, rest = HOLES[::2], HOLES[1::2]
    model = TangentKNeighborsClassifier(3, tangents="none").fit(some, Y[::2])
    full = model._completion.factors.completed
    D = np.linalg.norm(full(rest)[:, None] - full(some), axis=2)
    distances, indices = model.kneighbors(rest)
    expected = np.sort(D, axis=1)[:, :3]
    np.testing.assert_allclose(distances, expected, atol=1e-9)
    np.testing.assert_allclose(np.take_along_axis(D, indices, 1), expected, atol=1e-9)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(rest), model.predict_proba(rest))
    # Whole references, asked about samples that are not.
    whole = TangentKNeighborsClassifier(tangents="none").fit(X[::2], Y[::2])
    assert whole.score(rest, Y[1::2]) > 0.9
    again = pickle.loads(pickle.dumps(whole))
    assert np.array_equal(again.predict(rest), whole.predict(rest))


@pytest.mark.parametrize(
    "model",
    [
        GLVQClassifier(5, random_state=0),
        GMLVQClassifier(5, metric="class", random_state=0),
        TangentKNeighborsClassifier(5, tangents="none"),
    ],
    ids=repr,
)
def test_better_than_means(model):
    digits, y = load_digits(return_X_y=True)
    digits = with_holes(digits, 0.4)
    a, b = slice(0, None, 4), slice(1, None, 4)
    means = make_pipeline(SimpleImputer(), clone(model)).fit(digits[a], y[a])
    model.fit(digits[a], y[a])
    wrong = 1 - model.score(digits[b], y[b])
    assert wrong < 0.75 * (1 - means.score(digits[b], y[b]))


def test_batches_learn_what_to_expect_from_all_so_far():
    digits, y = load_digits(return_X_y=True)
    digits = np.concatenate([digits, digits[:400] + 1])
    y = np.concatenate([y, y[:400]])
    model, seen = GLVQClassifier(random_state=0), []
    for start in range(0, len(digits), 300):
        batch = slice(start, start + 300)
        model.partial_fit(digits[batch], y[batch], classes=np.arange(10))
        seen.append(model._completion)
    # Learned again whenever there are twice as many, until there are enough.
    changes = [i for i in range(1, len(seen)) if seen[i] is not seen[i - 1]]
    assert changes == [1, 3, 6]
    assert model._stream.first is None
    held = with_holes(digits, 0.3)
    some = slice(0, COMPLETED_BY[1])
    best = learned_factors(digits[some], y[some], np.ones(COMPLETED_BY[1]))
    own = model._completion.factors
    holes = np.isnan(held)
    error, least = (
        np.mean((f.completed(held) - digits)[holes] ** 2) for f in (own, best)
    )
    assert error < 1.2 * least
    model.fit(digits, y)
    assert model._completion is not seen[-1]


def test_completed_samples_are_mapped():
    model = GMLVQClassifier(random_state=0).fit(HOLES, Y)
    full = model._completion.factors.completed(HOLES)
    assert np.array_equal(model.transform(HOLES), model.transform(full))


class TestRefusals:
    @every_member
    def test_nothing_known(self, model):
        blank = HOLES.copy()
        blank[:, 2] = np.nan
        with pytest.raises(ValueError, match="X has no value of feature 2 in any"):
            model.fit(blank, Y)
        blank = HOLES.copy()
        blank[[7, 9]] = np.nan
        with pytest.raises(ValueError, match="X has no value in row 7 and 1 more"):
            model.fit(blank, Y)
        with pytest.raises(ValueError, match="X has no value in row 7 and 1 more"):
            model.fit(HOLES, Y).predict(blank)
        with pytest.raises(ValueError, match="infinity"):
            model.predict(np.where(np.isnan(HOLES), np.inf, HOLES))

    def test_what_needs_whole_samples(self):
        model = GLVQClassifier(scale="none", random_state=0).fit(HOLES, Y)
        with pytest.raises(ValueError, match="missing values"):
            model.margin_bound(HOLES, Y, theta=0.1)
        with pytest.raises(ValueError, match="NaN"):
            KernelLVQClassifier().fit(HOLES, Y)
        tangents = np.eye(4)[:1]
        with pytest.raises(ValueError, match="NaN"):
            TangentKNeighborsClassifier(tangents=tangents).fit(HOLES, Y)


def test_what_is_set_after_fit_takes_no_missing_values_away():
    X = np.array([[0.0, 1.0], [np.nan, 2.0], [5.0, 6.0], [6.0, np.nan]])
    y = np.array([0, 0, 1, 1])
    model = TangentKNeighborsClassifier(1, tangents="none").fit(X, y)
    before = model.predict(X)
    model.set_params(tangents=ImageTangents((1, 2)))
    np.testing.assert_array_equal(model.predict(X), before)
