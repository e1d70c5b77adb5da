"""NaN in X: slow distances over what is there, finite differences, every door."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics.pairwise import nan_euclidean_distances
from tests.prototypes import oracle
from tests.prototypes.test_glvq import numerical

from widemargin import (
    GLVQClassifier,
    GMLVQClassifier,
    KernelLVQClassifier,
    LVQClassifier,
    TangentKNeighborsClassifier,
)
from widemargin._compute.nearest import (
    distances_there,
    second_moments,
    squared_distances,
)
from widemargin._core.samples import Samples
from widemargin.margins import Sigmoid, nearest_right_wrong, relative_margin
from widemargin.prototypes.glvq import Mapped, glvq_sums
from widemargin.prototypes.learned_metrics import Diagonal, FullMatrix, Local
from widemargin.prototypes.placing import class_means, filled, within_class_spread
from widemargin.prototypes.soft import SoftLoss, soft_pairs
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


def slow_distance(x, p, omega):
    there = ~np.isnan(x)
    gap = np.where(there, x - p, 0)
    return x.size / there.sum() * float(np.sum((omega @ gap) ** 2))


@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0, 0.9))
@settings(max_examples=40, deadline=None)
def test_distances_are_those_of_scikit_learn(seed, d, share):
    rng = np.random.RandomState(seed)
    A, B = (rng.standard_normal((n, d)) for n in (5, 4))
    A, B = with_holes(A, share, seed), with_holes(B, share, seed + 1)
    expected = nan_euclidean_distances(A, B, squared=True)
    expected = np.where(np.isnan(expected), np.inf, expected)
    np.testing.assert_allclose(distances_there(A, B), expected, rtol=1e-9, atol=1e-9)
    whole = np.nan_to_num(B)
    np.testing.assert_allclose(
        squared_distances(A, whole), nan_euclidean_distances(A, whole) ** 2, atol=1e-9
    )


def test_whole_rows_do_not_notice_others():
    mixed = X.copy()
    mixed[::7, 2] = np.nan
    P = X[:5] + 0.1
    whole = np.arange(len(X)) % 7 > 0
    expected = squared_distances(X, P)
    assert np.array_equal(squared_distances(mixed, P)[whole], expected[whole])


def test_means_spread_and_moments_over_what_is_there():
    w = np.random.RandomState(1).uniform(0.5, 2, len(X))
    mine = [np.flatnonzero(c == Y) for c in range(3)]
    H = HOLES.copy()
    H[mine[1], 3] = np.nan
    means, spread = class_means(H, Y, w, 3), within_class_spread(H, Y, w)
    R = H - means[Y]
    for f in range(4):
        there = ~np.isnan(H[:, f])
        for c, rows in enumerate(mine):
            own = rows[there[rows]] if there[rows].any() else np.flatnonzero(there)
            expected = np.average(H[own, f], weights=w[own])
            assert means[c, f] == pytest.approx(expected)
        variance = np.average(R[there, f] ** 2, weights=w[there])
        assert spread[f] == pytest.approx(np.sqrt(variance))
        for g in range(4):
            both = there & ~np.isnan(H[:, g])
            expected = np.average(R[both, f] * R[both, g], weights=w[both])
            assert second_moments(R, w)[f, g] == pytest.approx(expected)
    whole = filled(H, Y, w)
    assert np.array_equal(whole, np.where(np.isnan(H), means[Y], H))
    assert filled(X, Y, w) is X


class TestGradients:
    rng = np.random.RandomState(0)
    X = with_holes(rng.standard_normal((30, 4)), 0.3)
    codes, weights = rng.randint(0, 3, 30), rng.uniform(0.5, 2, 30)
    P, labels = rng.standard_normal((6, 4)), np.repeat([0, 1, 2], 2)
    order = np.arange(30)
    samples = Samples(X, codes, weights, np.arange(3), order)
    centre, BATCH = Mapped(samples, X).centred(order)
    LOSSES = (Sigmoid(3.0), SoftLoss("rslvq", 2.0), SoftLoss("cross_entropy", 2.0))

    def cost(self, P, omegas, loss):
        D = np.array(
            [
                [slow_distance(x, p, o) for p, o in zip(P, omegas, strict=True)]
                for x in self.X - self.centre
            ]
        )
        w = self.weights / self.weights.mean()
        if isinstance(loss, SoftLoss):
            return soft_pairs(D, self.labels, self.codes, w, loss).loss
        d_plus, d_minus, _, _ = nearest_right_wrong(D, self.labels, self.codes)
        return float(w @ loss.value(relative_margin(d_plus, d_minus)))

    @pytest.mark.parametrize("loss", LOSSES, ids=repr)
    @pytest.mark.parametrize("risky", [False, True])
    def test_plain(self, loss, risky):
        from dataclasses import replace

        eyes = np.repeat(np.eye(4)[None], 6, axis=0)
        sums = glvq_sums(self.P, self.labels, replace(self.BATCH, is_risky=risky), loss)
        assert sums.loss == pytest.approx(self.cost(self.P, eyes, loss))
        expected = numerical(lambda P: self.cost(P, eyes, loss), self.P)
        np.testing.assert_allclose(sums.gradient, expected, atol=1e-5)

    @pytest.mark.parametrize("loss", LOSSES, ids=repr)
    @pytest.mark.parametrize("kind", ["diagonal", "full", "local"])
    def test_learned(self, loss, kind):
        rng, groups = np.random.RandomState(3), np.zeros(6, int)
        if kind == "diagonal":
            metric, omega = Diagonal(), rng.uniform(0.5, 2, 4)
            maps = lambda o: np.repeat(np.diag(o)[None], 6, axis=0)  # noqa: E731
        elif kind == "full":
            metric, omega = FullMatrix(), rng.standard_normal((2, 4))
            maps = lambda o: np.repeat(o[None], 6, axis=0)  # noqa: E731
        else:
            metric, omega = Local(), rng.standard_normal((6, 3, 4))
            maps, groups = (lambda o: o), np.arange(6)
        sums = metric.sums(self.P, omega, self.labels, groups, self.BATCH, loss)
        assert sums.loss == pytest.approx(self.cost(self.P, maps(omega), loss))
        by_P = numerical(lambda P: self.cost(P, maps(omega), loss), self.P)
        np.testing.assert_allclose(sums.prototypes, by_P, atol=1e-5)
        by_omega = numerical(lambda o: self.cost(self.P, maps(o), loss), omega)
        np.testing.assert_allclose(sums.omega, by_omega, atol=1e-5)
        D = metric.distances(self.X, self.P, omega, groups)
        expected = [
            [slow_distance(x, p, o) for p, o in zip(self.P, maps(omega), strict=True)]
            for x in self.X
        ]
        np.testing.assert_allclose(D, expected, rtol=1e-9)


@pytest.mark.parametrize("rule", ["glvq", "lvq1", "olvq1", "lvq2.1", "lvq3"])
def test_kohonens_rules_skip_what_is_missing(rule):
    P, labels = X[[0, 20, 60, 80, 110, 130]] + 0.05, Y[[0, 20, 60, 80, 110, 130]]
    model = LVQClassifier(
        algorithm=rule, init=P, init_labels=labels, max_iter=2, learning_rate=0.1,
        shuffle=False, guard=False, repair="none", scale="none", window=0.4,
    )  # fmt: skip
    order = np.tile(np.arange(len(X)), 2)
    expected = oracle.kohonen(P, labels, HOLES, Y, order, rule, 0.1, window=0.4)
    np.testing.assert_allclose(model.fit(HOLES, Y).prototypes_, expected, rtol=1e-9)


@pytest.mark.parametrize("metric", [None, "full", "diagonal", "class", "local"])
def test_training_descends_the_loss_over_what_is_there(metric):
    # One batch: the loss of the first epoch is that of where it started.
    P, labels = X[::15] + 0.05, Y[::15]
    options = {"init": P, "init_labels": labels, "max_iter": 1, "scale": "none"}
    options |= {"batch_size": len(X), "random_state": 0}
    if metric is None:
        model = GLVQClassifier(**options)
    else:
        model = GMLVQClassifier(metric=metric, **options)
    weights = np.arange(len(X)) + 1.0
    model.fit(HOLES, Y, sample_weight=weights)
    D = nan_euclidean_distances(HOLES, P, squared=True)
    d_plus, d_minus, _, _ = nearest_right_wrong(D, labels, Y)
    losses = Sigmoid(10.0).value(relative_margin(d_plus, d_minus))
    assert model.history_["loss"][0] == pytest.approx(
        np.average(losses, weights=weights)
    )


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

    def test_a_radius_holds_for_the_values_there(self, model):
        model.fit(HOLES, Y)
        radii = model.certified_radius(HOLES)
        rng = np.random.RandomState(0)
        for _ in range(5):
            step = np.where(np.isnan(HOLES), 0, rng.standard_normal(HOLES.shape))
            step *= (radii / np.linalg.norm(step, axis=1))[:, None]
            moved = model.predict(HOLES + 0.999 * step)
            assert np.array_equal(moved, model.predict(HOLES))


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


def slow_distances(A, B):
    gaps = A[:, None] - B
    both = np.count_nonzero(~np.isnan(gaps), axis=2)
    D = A.shape[1] / np.maximum(both, 1) * np.nansum(gaps**2, axis=2)
    return np.sqrt(np.where(both > 0, D, np.inf))


def test_neighbours_over_what_both_have():
    some, rest = HOLES[::2], HOLES[1::2]
    model = TangentKNeighborsClassifier(3, tangents="none").fit(some, Y[::2])
    D = slow_distances(rest, some)
    distances, indices = model.kneighbors(rest)
    expected = np.sort(D, axis=1)[:, :3]
    np.testing.assert_allclose(distances, expected, atol=1e-9)
    np.testing.assert_allclose(np.take_along_axis(D, indices, 1), expected, atol=1e-9)
    one = TangentKNeighborsClassifier(tangents="none").fit(some, Y[::2])
    own = np.stack([D[:, Y[::2] == c].min(axis=1) ** 2 for c in range(3)], axis=1)
    rest_of = np.stack([np.delete(own, c, axis=1).min(axis=1) for c in range(3)], 1)
    expected = relative_margin(own, rest_of)[np.arange(len(rest)), Y[1::2]]
    np.testing.assert_allclose(one.margins(rest, Y[1::2]), expected, atol=1e-9)
    assert np.array_equal(one.predict(rest), own.argmin(axis=1))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(rest), model.predict_proba(rest))
    # Whole references, asked about samples that are not.
    whole = TangentKNeighborsClassifier(tangents="none").fit(X[::2], Y[::2])
    D = slow_distances(rest, X[::2])
    nearest = whole.kneighbors(rest)[0][:, 0]
    np.testing.assert_allclose(nearest, D.min(axis=1), atol=1e-9)
    assert whole.score(rest, Y[1::2]) > 0.9


def test_who_shares_nothing_has_no_vote():
    A = np.array([[0.0, np.nan], [np.nan, 1.0], [np.nan, 2.0]])
    model = TangentKNeighborsClassifier(3, tangents="none").fit(A, [0, 1, 1])
    assert model.predict([[5.0, np.nan]]) == [0]
    np.testing.assert_array_equal(model.predict_proba([[5.0, np.nan]]), [[1, 0]])
    one = TangentKNeighborsClassifier(tangents="none").fit(A, [0, 1, 1])
    assert one.margins([[5.0, np.nan]], [0]) == [1]


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
        mapped = GMLVQClassifier(random_state=0).fit(HOLES, Y).transform(HOLES)
        holes = np.isnan(HOLES).any(axis=1)
        assert np.array_equal(np.isnan(mapped), np.repeat(holes[:, None], 4, axis=1))
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
