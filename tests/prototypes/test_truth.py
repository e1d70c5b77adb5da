"""Answers that hold on hard data: exact nearest, certificates, finite models."""

from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from widemargin.margins import Hinge, prototype_displacement
from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    HSSClassifier,
    KernelLVQClassifier,
    LVQClassifier,
    MarginLVQClassifier,
    TDNeuronClassifier,
    TVQClassifier,
)
from widemargin.prototypes.hss import random_models
from widemargin.prototypes.tangent_models import weighted_moments
from widemargin.tangents import TangentGenerator

iris, y = load_iris(return_X_y=True)
MODELS = [
    LVQClassifier(2, max_iter=5, random_state=0),
    MarginLVQClassifier(2, max_iter=5, random_state=0),
    MarginLVQClassifier(2, max_iter=5, update="batch", random_state=0),
    MarginLVQClassifier(3, max_iter=5, decision="parzen", random_state=0),
    GLVQClassifier(2, max_iter=5, random_state=0),
    GMLVQClassifier(2, max_iter=5, random_state=0),
    KernelLVQClassifier(2, max_iter=5, random_state=0),
    HSSClassifier(2, 1, random_state=0),
    TVQClassifier(2, 1, max_iter=5, random_state=0),
    TDNeuronClassifier(1, max_iter=5, random_state=0),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=repr)
rng = np.random.RandomState(0)
HARD = {
    "two labels on one point": ([[0.0], [0], [1], [2]], [0, 1, 0, 1]),
    "constant": (np.ones((6, 3)), [0, 1, 0, 1, 0, 1]),
    "xor": ([[0.0, 0], [0, 1], [1, 0], [1, 1]] * 3, [0, 1, 1, 0] * 3),
    "binary features, noisy labels": (
        rng.randint(0, 2, (60, 4)).astype(np.float32),
        rng.randint(0, 2, 60),
    ),
    "a sentinel in float32": (
        np.r_[iris, [[-9999.0] * 4]].astype(np.float32),
        np.r_[y, 0],
    ),
    "an outlier": (np.r_[iris, [[1e8] * 4]], np.r_[y, 0]),
    "no spread within classes": (
        np.repeat(np.eye(3), 4, axis=0),
        np.repeat(range(3), 4),
    ),
    "more classes than sense": (rng.standard_normal((200, 2)), rng.randint(0, 26, 200)),
}


@every_model
@pytest.mark.parametrize("name", HARD)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_are_finite(model, name):
    X, labels = np.asarray(HARD[name][0]), np.asarray(HARD[name][1])
    model = clone(model)
    if isinstance(model, TDNeuronClassifier | HSSClassifier | TVQClassifier):
        model.set_params(**{"max_tangents" if "max_tangents" in model.get_params()
                            else "n_tangents": min(1, X.shape[1] - 1)})  # fmt: skip
    model.fit(X, labels)
    assert np.isfinite(model.prototypes_).all()
    margins = model.margins(X, labels)
    assert np.isfinite(margins).all()
    assert np.array_equal(margins > 0, (model.predict(X) == labels) & (margins != 0))
    np.testing.assert_array_equal(
        model.confidence(X), model.margins(X, model.predict(X))
    )
    assert np.all(model.confidence(X) >= 0)


@every_model
@pytest.mark.parametrize("scale", [2.0**-190, 2.0**190])
def test_units_do_not_matter(model, scale):
    plain = clone(model).fit(iris, y)
    scaled = clone(model).fit(scale * iris, y)
    np.testing.assert_array_equal(scaled.predict(scale * iris), plain.predict(iris))
    np.testing.assert_allclose(
        scaled.margins(scale * iris, y), plain.margins(iris, y), atol=1e-6
    )


@every_model
def test_batches_of_one_class(model):
    if not hasattr(model, "partial_fit"):
        pytest.skip("has no partial_fit")
    model = clone(model)
    for c in (0, 1, 2):
        model.partial_fit(iris[y == c], y[y == c], classes=[0, 1, 2])
        assert np.isfinite(model.prototypes_).all()
        assert np.isfinite(model.margins(iris, y)).all()
    assert set(model.prototype_labels_) == {0, 1, 2}


def with_prototypes(P, labels):
    model = LVQClassifier(
        algorithm="lvq1",
        init=P,
        init_labels=labels,
        max_iter=1,
        learning_rate=1e-12,
        scale="none",
    )
    return model.fit(P, labels)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from([np.float32, np.float64]),
    offset=st.sampled_from([0.0, 1e4, 1e8]),
    outlier=st.sampled_from([1.0, 1e4, 1e8]),
    gap=st.sampled_from([1.0, 1e-3, 1e-6]),
)
def test_nearest_is_nearest(seed, dtype, offset, outlier, gap):
    rng = np.random.RandomState(seed)
    P = rng.standard_normal((6, 3))
    P[1] = P[0] + gap * rng.standard_normal(3)
    P[5] *= outlier
    P = (P + offset).astype(dtype)
    labels = np.arange(6) % 3
    model = with_prototypes(P, labels)
    P = model.prototypes_
    near = P[0].astype(float) + gap * rng.standard_normal((40, 3))
    X = np.concatenate([near, P.astype(float) + rng.standard_normal((6, 3))])
    X = X.astype(dtype)
    exact = ((X[:, None].astype(np.longdouble) - P) ** 2).sum(axis=2)
    by_class = np.stack([exact[:, labels == c].min(axis=1) for c in range(3)], axis=1)
    first, second = np.sort(by_class, axis=1)[:, :2].T
    clear = second - first > 8 * np.finfo(dtype).eps * second
    answers = model.predict(X)
    np.testing.assert_array_equal(answers[clear], by_class.argmin(axis=1)[clear])
    alone = np.concatenate([model.predict(x[None]) for x in X])
    np.testing.assert_array_equal(alone[clear], answers[clear])


def decimal_distance(x, p):
    pairs = zip(x.tolist(), p.tolist(), strict=True)
    return sum((Decimal(a) - Decimal(b)) ** 2 for a, b in pairs).sqrt()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from([np.float32, np.float64]),
    outlier=st.sampled_from([1.0, 1e4, 1e8]),
)
def test_radius_never_exceeds_the_margin(seed, dtype, outlier):
    getcontext().prec = 60
    rng = np.random.RandomState(seed)
    P = rng.standard_normal((5, 2))
    P[4] *= outlier
    model = with_prototypes(P.astype(dtype), [0, 1, 0, 1, 0])
    X = np.concatenate([rng.standard_normal((8, 2)), P[:2] + P[2:4]]).astype(dtype)
    radii = model.certified_radius(X)
    for x, radius in zip(X, radii, strict=True):
        d = [decimal_distance(x, p) for p in model.prototypes_]
        zero, one = min(d[0], d[2], d[4]), min(d[1], d[3])
        truth = abs(zero - one) / 2
        assert Decimal(float(radius)) <= truth
        # Less what answers in the type of the samples may round.
        rounding = 4 * float(np.finfo(dtype).eps) * float(zero + one)
        least = float(truth) * (1 - 1e-5) - 1e-7 * outlier - rounding
        assert float(radius) >= least


@pytest.mark.parametrize("algorithm", ["lvq1", "olvq1"])
def test_prototypes_that_flee_are_brought_back(algorithm):
    rng = np.random.RandomState(0)
    X, labels = rng.standard_normal((600, 2)), rng.randint(0, 20, 600)
    model = LVQClassifier(
        1, algorithm=algorithm, max_iter=40, learning_rate=0.3, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="more prototypes_per_class"):
        model.fit(X, labels)
    assert np.abs(model.prototypes_).max() < 3 * np.abs(X).max()
    start = clone(model).set_params(max_iter=1, learning_rate=1e-9).fit(X, labels)
    assert model.score(X, labels) >= start.score(X, labels) - 0.02


@pytest.mark.parametrize("algorithm", ["glvq", "lvq1", "olvq1", "lvq2.1", "lvq3"])
def test_sane_data_never_meet_the_box(algorithm, recwarn):
    for X, labels in (load_iris(return_X_y=True), load_digits(return_X_y=True)):
        model = LVQClassifier(5, algorithm=algorithm, max_iter=20, random_state=0)
        model.fit(X, labels)
    assert not recwarn


def test_bounds_are_refused_where_the_theorem_does_not_hold():
    for model in (
        GMLVQClassifier(random_state=0),
        MarginLVQClassifier(2, decision="parzen", random_state=0),
        MarginLVQClassifier(2, decision="k_nearest", random_state=0),
        TDNeuronClassifier(0),
        HSSClassifier(1, n_tangents=1),
        TVQClassifier(random_state=0),
        GLVQClassifier(scale="within_class_std", random_state=0),
        KernelLVQClassifier(scale="none", random_state=0),
    ):
        with pytest.raises(ValueError, match="margin_bound holds for"):
            model.fit(iris, y).margin_bound(iris, y, theta=0.1)
    for model in (
        LVQClassifier(scale="none", random_state=0),
        HSSClassifier(1, n_tangents=0),
        KernelLVQClassifier(scale="none", gamma=0.1, random_state=0),
    ):
        assert model.fit(iris, y).margin_bound(iris, y, theta=0.1).value > 0
    assert "same sample" in " ".join(LVQClassifier.margin_bound.__doc__.split())


def test_a_bound_pays_for_the_distance_that_the_samples_chose():
    chosen, given = (
        GLVQClassifier(1, scale=scale, random_state=0).fit(iris, y)
        for scale in ("auto", "none")
    )
    assert chosen.scale_ is None
    paid = given.margin_bound(iris, y, theta=0.1, delta=0.05)
    assert chosen.margin_bound(iris, y, theta=0.1, delta=0.1).value == paid.value


def test_a_bound_pays_for_prototypes_that_the_samples_asked_for():
    model = LVQClassifier(scale="none", random_state=0).fit(iris, y)
    counts = np.unique(model.prototype_labels_, return_counts=True)[1]
    paid = model.margin_bound(iris, y, theta=0.1, delta=0.1).value
    # What fit decided stays.
    model.set_params(prototypes_per_class=int(counts[0]))
    assert model.margin_bound(iris, y, theta=0.1, delta=0.1).value == paid
    model._counts_chosen = False
    delta = 0.1 / np.prod(counts * (counts + 1.0))
    assert model.margin_bound(iris, y, theta=0.1, delta=delta).value == paid
    assert model.margin_bound(iris, y, theta=0.1, delta=0.1).value < paid


class NamesLabels(TangentGenerator):
    """Tangents that depend on the label, where one is known."""

    n_tangents = 1
    is_affine = False
    seen: list = []  # noqa: RUF012

    def _tangents_of(self, X, y):
        self.seen.append(None if y is None else len(y))
        return lambda rows: np.ones_like(X[rows])[:, np.newaxis]


@pytest.mark.parametrize("model", [HSSClassifier, TVQClassifier])
def test_training_samples_bring_their_labels_and_frames_are_made_once(model):
    NamesLabels.seen.clear()
    model(
        n_tangents=1, sides="both", tangents=NamesLabels(), spring=0.1, max_iter=3
    ).fit(iris, y)
    # One look at the parameters, then the frames of the distinct samples; the last
    # models are asked about some of them as they would be, without labels.
    first, made, *asked = NamesLabels.seen
    assert (first, made) == (None, len(np.unique(np.c_[iris, y], axis=0)))
    assert len(asked) <= 2
    assert not any(asked)


def test_kernel_map_is_made_once():
    calls = []

    def kernel(A, B):
        calls.append((len(A), len(B)))
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))

    KernelLVQClassifier(2, kernel=kernel, max_iter=3, random_state=0).fit(iris, y)
    n = len(np.unique(np.c_[iris, y], axis=0))
    # The support's own matrix, its map, and k(x, x) in small squares.
    assert calls.count((n, n)) == 2
    assert all(a == b <= 16 for a, b in calls if a != n)


def test_distance_between_sets_is_what_a_margin_survives():
    model = LVQClassifier(2, random_state=0).fit(iris, y)
    radius = model.certified_radius(iris)
    shift = np.random.RandomState(0).standard_normal(model.prototypes_.shape)
    moved = clone(model).fit(iris, y)
    for size in (0.01, 0.1, 0.5):
        moved.prototypes_ = model.prototypes_ + size * shift
        rho = prototype_displacement(model.prototypes_, moved.prototypes_)
        assert rho == pytest.approx(size * np.linalg.norm(shift, axis=1).max())
        safe = radius > rho
        if not safe.any():
            continue
        assert np.array_equal(moved.predict(iris[safe]), model.predict(iris[safe]))


def test_batch_form_is_the_sum_of_section_5_1():
    X, labels = iris[::3], y[::3]
    P, codes = X[[0, 20, 40, 3, 25]], labels[[0, 20, 40, 3, 25]]
    loss, gamma = Hinge(0.5), 0.3
    model = MarginLVQClassifier(
        init=P, init_labels=codes, loss=loss, margin_scale=1.0, scale="none",
        update="batch", max_iter=1, learning_rate=gamma,
    ).fit(X, labels)  # fmt: skip
    expected = P.copy()
    for x, c in zip(X, labels, strict=True):
        d = np.linalg.norm(x - P, axis=1)
        right = np.where(codes == c, d, np.inf).argmin()
        wrong = np.where(codes != c, d, np.inf).argmin()
        theta = (d[wrong] - d[right]) / 2
        slope = float(loss.derivative([theta])[0])
        for r, sign in ((right, 1), (wrong, -1)):
            if d[r] > 0:
                step = gamma * slope * sign * (x - P[r]) / d[r]
                expected[r] -= step / len(X)
    order = np.argsort(codes, kind="stable")
    np.testing.assert_allclose(model.prototypes_, expected[order], atol=1e-12)


def test_weights_hold_the_prototypes_at_a_minimum():
    X, labels = iris[:100], y[:100]
    model = MarginLVQClassifier(
        1, loss="exponential", update="batch", max_iter=4000, learning_rate=2.0,
        scale="none",
    ).fit(X, labels)  # fmt: skip
    weights = model.support_weights(X, labels)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    P = model.prototypes_
    for r, c in enumerate(model.prototype_labels_):
        d = np.linalg.norm(X - P[r], axis=1)
        other = np.linalg.norm(X - P[1 - r], axis=1)
        sign = np.where(labels == c, 1, -1)
        theta = sign * (other - d) / 2 / model.margin_scale_
        alpha = -np.exp(-theta) * sign / d
        np.testing.assert_allclose(weights[:, r], alpha / alpha.sum(), rtol=1e-6)


def test_random_distributions_give_the_moments_of_equation_4():
    X, w = iris[:50], np.ones(50)
    C, T = random_models(X, w, 3, 2, np.random.RandomState(0))
    draws = np.random.RandomState(0).exponential(size=(3, 50))
    for c, t, gamma in zip(C, T, draws, strict=True):
        mean, covariance = weighted_moments(X, gamma)
        np.testing.assert_allclose(c, mean)
        values = np.linalg.eigvalsh(covariance)[::-1]
        np.testing.assert_allclose(np.diag(t @ covariance @ t.T), values[:2])
    assert np.abs(C[0] - C[1]).max() > 1e-3


def test_batches_of_hss_add_up():
    X, labels = load_digits(return_X_y=True)
    batched = HSSClassifier(1, n_tangents=3)
    for rows in np.array_split(np.arange(600), 3):
        batched.partial_fit(X[rows], labels[rows], classes=np.arange(10))
    whole = HSSClassifier(1, n_tangents=3).fit(X[:600], labels[:600])
    np.testing.assert_allclose(batched.prototypes_, whole.prototypes_, atol=1e-9)
    for one, other in zip(batched.tangents_, whole.tangents_, strict=True):
        np.testing.assert_allclose(one.T @ one, other.T @ other, atol=1e-8)


@pytest.mark.parametrize("count", [1, 2])
def test_batches_of_hss_go_on_from_a_fit(count):
    """The covariance of a fit goes on without what is beyond the frame."""
    X, labels = load_digits(return_X_y=True)
    model = HSSClassifier(count, n_tangents=3, random_state=0)
    model.fit(X[:400], labels[:400])
    C, T = model.prototypes_.copy(), model.tangents_.copy()
    model.partial_fit(X[400:401], labels[400:401])
    c = labels[400]
    moved = np.abs(model.prototypes_ - C).max(axis=1) > 1e-9
    assert moved.sum() == 1
    assert model.prototype_labels_[moved] == c
    if count > 1:
        return
    own = X[:400][labels[:400] == c]
    n, mean = len(own), own.mean(axis=0)
    np.testing.assert_allclose(model.prototypes_[c], (n * mean + X[400]) / (n + 1))
    S = np.cov(own.T, bias=True)
    along = T[c] @ S @ T[c].T
    rest = (np.trace(S) - np.trace(along)) / 61
    S = T[c].T @ along @ T[c] + rest * (np.eye(64) - T[c].T @ T[c])
    away = X[400] - mean
    S = n / (n + 1) * S + n / (n + 1) ** 2 * np.outer(away, away)
    frame = np.linalg.eigh(S)[1][:, -3:]
    np.testing.assert_allclose(
        model.tangents_[c].T @ model.tangents_[c], frame @ frame.T, atol=1e-8
    )
