"""Kohonen's rules against a plain loop; guard, repair, chains and weights."""

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from tests.prototypes import oracle

from widemargin._compute import engines
from widemargin._compute.nearest import narrowed
from widemargin._compute.presentations import Balls, Moving, Presentations
from widemargin._compute.projection_bounds import (
    ProjectionBounds,
    lower_bounds,
    move_projection,
)
from widemargin._core.samples import Samples
from widemargin.prototypes import LVQClassifier
from widemargin.prototypes.lvq import class_balls, pair_epoch, presentation_order

CHAIN = ("olvq1", "lvq2.1")


def problem(seed, n=60, d=3, n_classes=3, k=2):
    rng = np.random.RandomState(seed)
    y = rng.randint(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    X = rng.standard_normal((n, d)) + y[:, None]
    P = rng.standard_normal((n_classes * k, d)) + np.repeat(
        np.arange(n_classes), k
    ).reshape(-1, 1)
    return X, y, P, np.repeat(np.arange(n_classes), k)


def plain(rule, P, labels, **options):
    """A model that does what the book says and nothing more."""
    return LVQClassifier(
        algorithm=rule,
        init=P,
        init_labels=labels,
        shuffle=False,
        stay_in_class=False,
        reinit_dead=False,
        scale="none",
        **options,
    )


@pytest.mark.parametrize("rule", ["glvq", "lvq1", "olvq1", "lvq2.1", "lvq3"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), epochs=st.integers(1, 3))
def test_equal_to_a_plain_loop(rule, seed, epochs):
    X, y, P, labels = problem(seed)
    model = plain(rule, P, labels, max_iter=epochs, learning_rate=0.2, window=0.4)
    order = np.tile(np.arange(len(X)), epochs)
    expected = oracle.kohonen(P, labels, X, y, order, rule, 0.2, window=0.4)
    np.testing.assert_allclose(
        model.fit(X, y).prototypes_, expected, rtol=1e-9, atol=1e-9
    )


def test_chain_is_one_stage_after_the_other():
    X, y, P, labels = problem(1)
    order = np.tile(np.arange(len(X)), 2)
    middle = oracle.kohonen(P, labels, X, y, order, "olvq1", 0.3)
    expected = oracle.kohonen(middle, labels, X, y, order[: len(X)], "lvq2.1", 0.05)
    model = plain(CHAIN, P, labels, max_iter=(2, 1), learning_rate=(0.3, 0.05))
    assert model.fit(X, y).n_iter_ == 3
    np.testing.assert_allclose(model.prototypes_, expected, rtol=1e-9, atol=1e-9)


def test_float32_is_kept_and_close_to_float64():
    X, y, P, labels = problem(2)
    single = plain("lvq1", P, labels).fit(X.astype(np.float32), y)
    double = plain("lvq1", P, labels).fit(X, y)
    assert single.prototypes_.dtype == np.float32
    np.testing.assert_allclose(single.prototypes_, double.prototypes_, atol=1e-3)


def test_guard_keeps_prototypes_in_the_ball_of_their_class():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 2))
    y = rng.randint(0, 2, 400)
    start = {"init": np.array([[0.1, 0.0], [-0.1, 0.0]]), "init_labels": [0, 1]}
    options = {"window": 0.9, "learning_rate": 0.5, "max_iter": 20, "random_state": 0}
    options |= start | {"algorithm": "lvq2.1"}
    with pytest.warns(ConvergenceWarning, match="out of the data"):
        LVQClassifier(stay_in_class=False, **options).fit(X, y)
    safe = LVQClassifier(**options).fit(X, y)
    samples = Samples(X, y, np.ones(400), np.arange(2), np.arange(400))
    centres, radii_squared = class_balls(samples, 2)
    reach = ((safe.prototypes_ - centres) ** 2).sum(axis=1)
    assert np.all(reach <= radii_squared)


def test_guard_changes_nothing_where_nothing_runs_away():
    X, y, _, _ = problem(3, n=200)
    options = {"prototypes_per_class": 2, "max_iter": 3, "random_state": 0}
    with_guard = LVQClassifier(algorithm="lvq3", **options).fit(X, y)
    without = LVQClassifier(algorithm="lvq3", stay_in_class=False, **options).fit(X, y)
    np.testing.assert_array_equal(with_guard.prototypes_, without.prototypes_)


def test_repair_revives_a_prototype_that_wins_nothing():
    X, y, _, _ = problem(4, n=120, n_classes=2)
    P = np.array([[0.0, 0, 0], [1e3, 1e3, 1e3], [1.0, 1, 1]])
    options = {"init": P, "init_labels": [0, 0, 1], "max_iter": 5, "random_state": 0}
    dead = LVQClassifier(algorithm="lvq1", reinit_dead=False, **options).fit(X, y)
    alive = LVQClassifier(algorithm="lvq1", **options).fit(X, y)
    assert np.abs(dead.prototypes_).max() == 1e3
    assert np.abs(alive.prototypes_).max() < 10


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=30), st.integers(0, 100))
def test_presentations_follow_the_weights(weights, seed):
    weights = np.array(weights)
    order = presentation_order(weights, True, np.random.RandomState(seed))
    expected = len(weights) * weights / weights.sum()
    counts = np.bincount(order, minlength=len(weights))
    assert len(order) == len(weights)
    assert np.all(np.abs(counts - expected) < 1 + 1e-9)


def test_presentations_are_unbiased():
    weights = np.array([0.5, 1.0, 2.5, 0.7])
    rng = np.random.RandomState(0)
    counts = sum(
        np.bincount(presentation_order(weights, False, rng), minlength=4)
        for _ in range(4000)
    )
    np.testing.assert_allclose(counts / 4000, 4 * weights / weights.sum(), atol=0.03)


def test_order_is_kept_without_shuffle():
    order = presentation_order(np.ones(5), False, np.random.RandomState(0))
    assert order.tolist() == [0, 1, 2, 3, 4]


def test_weights_move_the_border():
    rng = np.random.RandomState(0)
    X = np.concatenate(
        [rng.standard_normal((300, 1)), rng.standard_normal((300, 1)) + 1]
    )
    y = np.repeat([0, 1], 300)
    for weights in ({"class_weight": {0: 10.0}}, {"class_weight": {1: 10.0}}):
        model = LVQClassifier(1, algorithm="lvq1", random_state=0, **weights).fit(X, y)
        heavy = next(iter(weights["class_weight"]))
        assert np.mean(model.predict(X) == heavy) > 0.6


def test_partial_fit_equals_presentations_at_a_constant_rate():
    X, y, P, labels = problem(5)
    model = plain("lvq1", P, labels, learning_rate=0.1)
    for batch in np.array_split(np.arange(len(X)), 3):
        model.partial_fit(X[batch], y[batch], classes=[0, 1, 2])
    expected = P.copy()
    for x, label in zip(X, y, strict=True):
        j = ((expected - x) ** 2).sum(axis=1).argmin()
        expected[j] += (0.1 if labels[j] == label else -0.1) * (x - expected[j])
    np.testing.assert_allclose(model.prototypes_, expected, atol=1e-12)
    assert model.n_iter_ == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "lvq9"}, "algorithm must be"),
        ({"algorithm": ()}, "or a tuple of them"),
        ({"algorithm": 2}, "algorithm must be"),
        ({"prototypes_per_class": "lvq1"}, "prototypes_per_class must be"),
        ({"reinit_dead": "dead"}, "reinit_dead must be"),
        ({"learning_rate": 1.5}, "learning_rate"),
        ({"learning_rate": (0.1, 0.2)}, "one for each of the 1 rules"),
        ({"algorithm": CHAIN, "learning_rate": (0.1,)}, "one for each of the 2 rules"),
        ({"algorithm": CHAIN, "max_iter": (1, 2, 3)}, "one for each of the 2 rules"),
        ({"max_iter": 0}, "max_iter"),
        ({"window": 1.0}, "window"),
        ({"algorithm": "lvq3", "epsilon": 0.0}, "epsilon"),
        ({"early_stopping": True, "validation_fraction": 1.0}, "validation_fraction"),
    ],
)
def test_bad_parameters_are_named(options, message):
    X, y, _, _ = problem(0)
    with pytest.raises((ValueError, TypeError), match=message):
        LVQClassifier(**options).fit(X, y)


def test_glvq_pushes_no_farther_than_the_box():
    X, y, P, labels = problem(6)
    box = np.stack([np.r_[X, P].min(axis=0), np.r_[X, P].max(axis=0)])
    everywhere = np.array([[-np.inf], [np.inf]]) + np.zeros((1, 3))
    rest = (1.0, 0.1, 0.1, Balls(np.zeros((0, 3)), np.zeros(0)))
    beyond = 0
    for i in range(len(X)):
        inside, free = P.copy(), P.copy()
        for Q, edges in ((inside, box), (free, everywhere)):
            moving = Moving(Q, labels, np.zeros(6, np.intp), edges)
            shown = Presentations(X, y, np.array([i]), 0, np.inf)
            pair_epoch(moving, shown, *rest, None)
        np.testing.assert_array_equal(inside, np.clip(free, *box))
        beyond += not np.array_equal(inside, free)
    assert beyond


def test_glvq_stays_where_lvq21_drives_prototypes_out():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 2))
    y = (X[:, 0] + 0.8 * rng.standard_normal(400) > 0).astype(int)
    options = {"stay_in_class": False, "random_state": 0}
    with pytest.warns(ConvergenceWarning, match=r"lvq2\.1 drives"):
        hard = LVQClassifier(
            2, algorithm="lvq2.1", window=0.5, learning_rate=0.1, **options
        ).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        soft = LVQClassifier(2, **options).fit(X, y)
    assert np.abs(soft.prototypes_).max() < 1.5 * np.abs(X).max()
    assert soft.score(X, y) > hard.score(X, y)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_glvq_descends_the_smooth_count_of_mistakes(seed):
    """One presentation to partial_fit, against finite differences of s."""
    X, y, P, labels = problem(seed)
    x, own, beta = X[-1], labels == y[-1], 10 * 4**0.75

    def count(Q):
        D = ((Q - x) ** 2).sum(axis=1)
        plus, minus = D[own].min(), D[~own].min()
        return 1 / (1 + np.exp(beta * (minus - plus) / (minus + plus))), plus + minus

    model = plain("glvq", P, labels, learning_rate=0.4)
    model.partial_fit(X[-1:], y[-1:], classes=[0, 1, 2])
    gradient = np.zeros_like(P)
    for at in np.ndindex(P.shape):
        step = np.zeros_like(P)
        step[at] = 1e-6
        gradient[at] = (count(P + step)[0] - count(P - step)[0]) / 2e-6
    moved = -0.1 * gradient * count(P)[1] / beta
    np.testing.assert_allclose(model.prototypes_ - P, moved, atol=1e-7)


# Every rule, and both dtypes of two: each is compiled for all of them.
@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize(
    ("rule", "dtype"),
    [
        *product(["glvq", "lvq1"], [np.float32, np.float64]),
        ("olvq1", np.float32),
        ("lvq2.1", np.float64),
        ("lvq3", np.float64),
    ],
)
def test_bounds_change_no_bit(rule, offset, dtype):
    """Half of the samples are 1e-9 apart, and two prototypes are one and the same."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((300, 60)) * np.geomspace(1, 0.01, 60) + offset
    X[150:] = X[rng.randint(5, size=150)] + 1e-9 * rng.standard_normal((150, 60))
    X = X.astype(dtype)
    y = rng.randint(3, size=300)
    P = X[rng.permutation(300)[:40]]
    P[7] = P[3]
    labels, order = np.arange(40) % 3, rng.permutation(300)
    model = LVQClassifier(algorithm=rule)
    model.classes_ = np.arange(3)
    balls = Balls(np.zeros((3, 60), dtype) + dtype(offset), np.full(3, 100, dtype))
    box = X.mean(axis=0) + np.array([[-3], [3]], dtype) * X.std(axis=0)
    found = []
    for bounded in (False, True):
        Q, wins, rates = P.copy(), np.zeros(40, np.intp), np.full(40, 0.3)
        search = heads_of(X).at(Q) if bounded else None
        shown = Presentations(X, y, order, 0, 300.0)
        epoch, options = model._epoch(rule, rates, balls)
        with engines.chosen("engines"):
            told = epoch(Moving(Q, labels, wins, box), shown, 0.4, *options, search)
        found.append((Q, wins, rates, told))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def heads_of(X):
    centre = X.mean(axis=0)
    Z, unit = narrowed(X, centre)
    return ProjectionBounds(Z, centre, unit)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), dtype=st.sampled_from([np.float32, np.float64]))
def test_heads_bound_distances_wherever_prototypes_went(seed, dtype):
    rng = np.random.RandomState(seed)
    spread = np.geomspace(1, 1e-3, 150)
    X = (rng.standard_normal((80, 150)) * spread * 10.0 ** rng.uniform(-9, 9)).astype(
        dtype
    )
    P = X[:5] + X[5:10]
    search = heads_of(X).at(P)
    for _ in range(200):
        j, i, rate = rng.randint(5), rng.randint(80), rng.uniform(-0.05, 0.1)
        distance = ((X[i].astype(float) - P[j]) ** 2).sum()
        P[j] += dtype(rate) * (X[i] - P[j])
        move_projection(j, i, rate, distance, P, search)
    low = np.empty((80, 5))
    for i in range(80):
        lower_bounds(i, search)
        low[i] = search.low
    D = ((X[:, None].astype(float) - P) ** 2).sum(axis=2)
    assert np.all(low <= D)
    # They tell something: most of the distance.
    assert np.median(low / D) > 0.9
