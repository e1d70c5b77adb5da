"""Relational and median LVQ: published equations, finite differences, exchanges."""

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import cross_val_score
from tests.prototypes.test_glvq import numerical

from widemargin import GLVQClassifier, RelationalLVQClassifier
from widemargin._core.temperature import LeftOut
from widemargin.margins import Exponential, Sigmoid
from widemargin.metrics import tangent_distances
from widemargin.prototypes.relational import (
    Block,
    clusters,
    exchange_costs,
    mixture,
    relational_distances,
    relational_sums,
    self_terms,
    with_terms_of,
)
from widemargin.tangents import ImageTangents

X, y = load_iris(return_X_y=True)
SQUARED = pairwise_distances(X, metric="sqeuclidean")
BLOCKS = pairwise_distances(X, metric="cityblock")
squares = partial(pairwise_distances, metric="sqeuclidean")
METHODS = ["relational", "median"]
every_method = pytest.mark.parametrize("method", METHODS)


def test_what_another_fit_says_is_told_by_the_self_terms_of_this_one():
    """A class whose mixtures are otherwise the same, nearer by 2 to every sample."""
    rng = np.random.default_rng(0)
    codes, D = np.arange(60) % 3, rng.uniform(9, 12, (60, 3))
    theirs = LeftOut(D, D.argmin(axis=1), codes, np.ones(60))
    nearer = np.where(np.arange(3) == 1, 2.0, 0.0)
    # What samples are away from mixtures of their own is of no account.
    D = np.where(codes[:, None] == np.arange(3), 0, D - nearer)
    mine = LeftOut(D, D.argmin(axis=1), codes, np.ones(60))
    said = LeftOut(rng.uniform(5, 8, (7, 3)), None, codes[:7], np.ones(7))
    found = with_terms_of(said, mine, theirs)
    np.testing.assert_allclose(found.costs, said.costs - nearer)
    assert (found.answers == found.costs.argmin(axis=1)).all()


def test_wide_samples_are_as_sure_as_they_are_right():
    """Fits without a part said .41 where .55 were right: the largest class."""
    rng = np.random.default_rng([7, 5])
    shares, centres = np.array([6, 3, 2]) / 11, 0.075 * rng.normal(size=(3, 1500))

    def draw(n):
        codes = rng.choice(3, n, p=shares)
        return centres[codes] + rng.normal(size=(n, 1500)), codes

    (X, y), (Z, z) = draw(267), draw(1000)
    model = RelationalLVQClassifier(metric=squares, random_state=0).fit(X, y)
    said = model.predict_proba(Z).max(axis=1).mean()
    assert abs(said - model.score(Z, z)) < 0.1


def slow_distances(D, A):
    """d(x_i, a_j) = (D a_j)_i - a_j' D a_j / 2, entry by entry."""
    out = np.empty((len(D), len(A)))
    for i in range(len(D)):
        for j, a in enumerate(A):
            row = sum(D[i, k] * a[k] for k in range(len(D)))
            own = sum(
                a[k] * D[k, m] * a[m] for k in range(len(D)) for m in range(len(D))
            )
            out[i, j] = row - own / 2
    return out


def slow_cost(d, labels, codes, weights, loss):
    total = 0.0
    for i, c in enumerate(codes):
        plus, minus = d[i, labels == c].min(), d[i, labels != c].min()
        mu = (minus - plus) / (minus + plus)
        total += weights[i] * float(loss.value(np.array([mu]))[0])
    return total


def random_problem(seed, n=12, symmetric=False):
    rng = np.random.RandomState(seed)
    D = rng.uniform(1, 2, (n, n))
    D = (D + D.T) / 2 if symmetric else D
    np.fill_diagonal(D, 0)
    codes = np.arange(n) % 3
    A = rng.dirichlet(np.ones(n), 6)
    return D, codes, rng.uniform(0.5, 2, n), A, np.repeat([0, 1, 2], 2), rng


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_distances_are_the_published_ones(seed):
    D, _, _, A, _, rng = random_problem(seed)
    found = relational_distances(D, A, self_terms(D, A))
    np.testing.assert_allclose(found, np.maximum(slow_distances(D, A), 0), atol=1e-12)
    # Of squared Euclidean distances they are those to the mixtures themselves.
    Z = rng.standard_normal((12, 3))
    D = pairwise_distances(Z, metric="sqeuclidean")
    expected = pairwise_distances(Z, A @ Z, metric="sqeuclidean")
    found = relational_distances(D, A, self_terms(D, A))
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("loss", "symmetric"), [(Sigmoid(3.0), True), (Exponential(1.0), False)], ids=repr
)
def test_gradient_in_the_weights(loss, symmetric):
    D, codes, weights, A, labels, _ = random_problem(1, symmetric=symmetric)
    rows = slice(2, 11)

    def cost(A):
        d = slow_distances(D, A)[rows]
        return slow_cost(d, labels, codes[rows], weights[rows], loss)

    given = D[rows], codes[rows], weights[rows], loss
    all_of_them = [Block(slice(None), slice(None), (D + D.T) / 2)]
    sums = relational_sums(A, labels, all_of_them, *given)
    assert sums.loss == pytest.approx(cost(A))
    np.testing.assert_allclose(sums.gradients["weights"], numerical(cost, A), atol=1e-6)
    assert sums.wins.sum() == 9
    # Made of the samples of their class, the first four of each.
    order = np.argsort(codes, kind="stable")
    D, codes, weights = D[np.ix_(order, order)], codes[order], weights[order]
    given = D[rows], codes[rows], weights[rows], loss
    A = np.where(labels[:, None] == codes, A, 0)
    A /= A.sum(axis=1, keepdims=True)
    parts = [slice(4 * c, 4 * c + 4) for c in range(3)]
    halves = [(D[s, s] + D[s, s].T) / 2 for s in parts]
    pairs = (np.array([2 * c, 2 * c + 1]) for c in range(3))
    blocks = [Block(*each) for each in zip(pairs, parts, halves, strict=True)]
    sums = relational_sums(A, labels, blocks, *given)
    assert sums.loss == pytest.approx(cost(A))
    inside = labels[:, None] == codes
    expected = numerical(cost, A)[inside]
    np.testing.assert_allclose(sums.gradients["weights"][inside], expected, atol=1e-6)


def test_weights_are_a_mixture_of_the_own_class():
    labels, codes = np.array([0, 1]), np.array([0, 0, 1, 1, 1])
    A = mixture(np.random.RandomState(0).standard_normal((2, 5)), labels, codes)
    np.testing.assert_allclose(A.sum(axis=1), 1)
    assert np.array_equal(A > 0, labels[:, None] == codes)


def test_clusters_are_those_of_k_means():
    Z = np.concatenate([np.zeros((5, 2)), 9 + np.eye(2)[[0, 1, 0]], [[30.0, 0]]])
    w = np.arange(1, 10) / 9
    D = pairwise_distances(Z, metric="sqeuclidean")
    A = clusters(D, w, 3, np.random.RandomState(0))
    means = A @ Z
    expected = [[0, 0], np.average(Z[5:8], axis=0, weights=w[5:8]), [30, 0]]
    order = np.argsort(means[:, 0])
    np.testing.assert_allclose(means[order], expected)
    assert len(clusters(np.zeros((4, 4)), np.ones(4), 3, np.random.RandomState(0))) == 1


def test_exchange_costs_are_those_of_the_exchanged():
    D, codes, weights, _, _, _ = random_problem(4)
    medoids, labels = np.array([0, 3, 1, 2]), np.array([0, 0, 1, 2])
    tried = np.flatnonzero(codes == 0)
    loss = Sigmoid(5.0)
    costs = exchange_costs(D, medoids, labels, codes, weights, loss, 0, tried)
    for candidate, cost in zip(tried, costs, strict=True):
        put = np.array([candidate, *medoids[1:]])
        assert cost == pytest.approx(slow_cost(D[:, put], labels, codes, weights, loss))


@pytest.mark.parametrize("D", [SQUARED, BLOCKS], ids=["squares", "blocks"])
def test_median_ends_where_no_exchange_helps(D):
    model = RelationalLVQClassifier(2, method="median", random_state=0).fit(D, y)
    losses = model.history_["loss"]
    assert np.all(np.diff(losses) <= 1e-12)
    assert model.n_iter_ < 30
    chosen, labels = model.prototype_indices_, model.prototype_labels_
    assert np.array_equal(y[chosen], labels)
    assert len(set(chosen)) == len(chosen)
    args = labels, y, np.ones(len(y)), Sigmoid(10.0)
    cost = slow_cost(D[:, chosen], *args)
    assert cost / len(y) == pytest.approx(losses[-1])
    for j in range(len(chosen)):
        own = np.setdiff1d(np.flatnonzero(y == labels[j]), chosen)
        costs = exchange_costs(D, chosen, *args, j, own)
        assert costs.min() >= cost * (1 - 1e-9)
    np.testing.assert_array_equal(model.self_terms_, 0)


def test_weights_that_hardly_count_are_left_out():
    fast = RelationalLVQClassifier(3, learning_rate=1.0, random_state=0)
    few = SQUARED[:, fast.fit(SQUARED, y).support_]
    assert few.shape[1] < 75
    assert np.array_equal(fast.confidence(few), fast.confidence(SQUARED))


def test_relational_descends_and_is_made_of_its_class():
    model = RelationalLVQClassifier(3, random_state=0).fit(SQUARED, y)
    losses = model.history_["loss"]
    assert losses[-1] < losses[0]
    A, own = model.coefficients_, y[model.support_] == model.prototype_labels_[:, None]
    np.testing.assert_allclose(A.sum(axis=1), 1)
    assert np.all(A >= 0)
    assert not A[~own].any()
    # Squared distances are those of points: GLVQ's predictions from the same points.
    P = A @ X[model.support_]
    nearest = pairwise_distances(X, P).argmin(axis=1)
    assert np.array_equal(model.predict(SQUARED), model.prototype_labels_[nearest])
    points = GLVQClassifier(3, random_state=0).fit(X, y)
    assert model.score(SQUARED, y) > points.score(X, y) - 0.02


@every_method
@pytest.mark.parametrize("D", [SQUARED, BLOCKS], ids=["squares", "blocks"])
class TestBoth:
    def test_the_support_is_enough(self, method, D):
        model = RelationalLVQClassifier(method=method, random_state=0).fit(D, y)
        few = D[:, model.support_]
        assert method == "relational" or few.shape[1] == len(model.prototype_labels_)
        for ask in (model.predict, model.confidence, model.predict_proba):
            assert np.array_equal(ask(few), ask(D))
        assert np.array_equal(model.margins(few, y) > 0, model.predict(D) == y)
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.confidence(D), model.confidence(D))

    def test_scikit_learn_slices_the_matrix(self, method, D):
        model = RelationalLVQClassifier(method=method, random_state=0)
        assert cross_val_score(model, D, y, cv=5).mean() > 0.92

    def test_weights_count(self, method, D):
        # Without class 2 but for one sample, and that of no weight.
        some = (y < 2) | (np.arange(len(y)) == 149)
        weights = np.where(y < 2, 1.0, 0.0)[some]
        model = RelationalLVQClassifier(2, method=method, random_state=0)
        model.fit(D[np.ix_(some, some)], y[some], sample_weight=weights)
        assert list(model.classes_) == [0, 1]
        assert model.support_.max() < 100
        alone = RelationalLVQClassifier(2, method=method, random_state=0)
        alone.fit(D[:100, :100], y[:100])
        assert np.array_equal(alone.support_, model.support_)

    def test_stopping_early(self, method, D):
        model = RelationalLVQClassifier(
            method=method, early_stopping=True, random_state=0
        ).fit(D, y)
        assert max(model.history_["validation_score"]) > 0.9
        assert model.score(D, y) > 0.9


@every_method
def test_a_function_stands_for_its_matrix(method):
    made = RelationalLVQClassifier(method=method, metric=squares, random_state=0)
    made.fit(X, y)
    assert np.array_equal(made.support_vectors_, X[made.support_])
    assert made.score(X, y) > 0.93
    assert np.array_equal(made.predict(X), pickle.loads(pickle.dumps(made)).predict(X))
    weights = 1.0 + (np.arange(len(y)) % 2)
    rows = np.repeat(np.arange(len(y)), weights.astype(int))
    once = made.fit(X, y, sample_weight=weights).confidence(X)
    assert np.array_equal(made.fit(X[rows], y[rows]).confidence(X), once)


@every_method
def test_not_symmetric(method):
    rng = np.random.RandomState(0)
    D = SQUARED * rng.uniform(0.8, 1.2, SQUARED.shape)
    model = RelationalLVQClassifier(method=method, random_state=0).fit(D, y)
    assert model.score(D, y) > 0.93


@every_method
def test_tangent_distances_of_digits(method):
    images, digits = load_digits(return_X_y=True)
    images, digits = images[:400], digits[:400]
    D = tangent_distances(images, images, tangents=ImageTangents((8, 8))) ** 2
    model = RelationalLVQClassifier(3, method=method, random_state=0)
    model.fit(D[:200, :200], digits[:200])
    assert model.score(D[200:, :200], digits[200:]) > 0.85


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            before, row[j] = (
                row[j],
                min(row[j] + 1, row[j - 1] + 1, before + (left != right)),
            )
    return row[-1]


@every_method
def test_edit_distances_of_words(method):
    rng = np.random.RandomState(0)
    words, kinds = [], []
    for root in ("kitten", "sunday", "gravel"):
        for _ in range(12):
            word = list(root)
            word[rng.randint(len(word))] = rng.choice(list("xyz"))
            words.append("".join(word))
            kinds.append(root)
    D = np.array([[float(edit_distance(a, b)) for b in words] for a in words])
    model = RelationalLVQClassifier(1, method=method, random_state=0).fit(D, kinds)
    assert model.score(D, kinds) == 1


@pytest.mark.parametrize("seed", [0, 18, 26])
def test_no_cluster_loses_all_its_members(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 40))
    count = int(rng.integers(2, n))
    D = rng.random((n, n)) ** 3
    D += D.T
    np.fill_diagonal(D, 0)
    A = clusters(D, np.ones(n), count, np.random.RandomState(seed))
    assert A.shape == (count, n)


class TestRefusals:
    @pytest.mark.parametrize("value", [-0.5, np.nan, np.inf])
    def test_entries(self, value):
        bad = SQUARED.copy()
        bad[3, 5] = value
        message = "^X must hold finite dissimilarities"
        with pytest.raises(ValueError, match=message):
            RelationalLVQClassifier().fit(bad, y)
        model = RelationalLVQClassifier(random_state=0).fit(SQUARED, y)
        for asked in (bad, bad[:, model.support_] if value else bad):
            asked = asked.copy()
            asked[3, 0] = value
            with pytest.raises(ValueError, match=message):
                model.predict(asked)
        with pytest.raises(ValueError, match=r"of at least 0; got -0\.5 \(Negative"):
            model.predict(-0.5 + 0 * SQUARED)

    def test_shapes(self):
        with pytest.raises(ValueError, match=r"square matrix .* \(150, 4\)"):
            RelationalLVQClassifier().fit(X, y)
        model = RelationalLVQClassifier(random_state=0).fit(SQUARED, y)
        with pytest.raises(ValueError, match=r"149 features.*of support_"):
            model.predict(SQUARED[:, :149])

    def test_metric(self):
        with pytest.raises(ValueError, match="metric"):
            RelationalLVQClassifier(metric="cityblock").fit(SQUARED, y)
        with pytest.raises(ValueError, match=r"metric must return .* \(149, 149\)"):
            RelationalLVQClassifier(metric=lambda a, b: a).fit(X, y)
        with pytest.raises(ValueError, match="metric must hold finite"):
            RelationalLVQClassifier(metric=lambda a, b: -squares(a, b)).fit(X, y)

    def test_what_has_no_meaning(self):
        model = RelationalLVQClassifier(random_state=0).fit(SQUARED, y)
        assert not hasattr(model, "partial_fit")
        with pytest.raises(ValueError, match="certified_radius is not defined"):
            model.certified_radius(SQUARED)
        with pytest.raises(ValueError, match="margin_bound holds"):
            model.margin_bound(SQUARED, y, theta=0.1)
