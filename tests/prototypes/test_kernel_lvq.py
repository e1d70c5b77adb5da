"""Kernel LVQ: distances by the definition, every kind of kernel, bounded memory."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_iris, make_circles, make_classification, make_moons
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from widemargin.prototypes import GLVQClassifier, KernelLVQClassifier

iris, y = load_iris(return_X_y=True)


def gaussian(A, B):
    return rbf_kernel(A, B, gamma=0.1)


def test_distances_are_those_of_the_combinations():
    """||phi(x) - sum_s a_s phi(x_s)||^2, written out with kernel values."""
    model = KernelLVQClassifier(2, gamma=0.1, max_support=60, random_state=0)
    model.fit(iris, y)
    a, S = model.dual_coef_, model.support_vectors_
    assert a.shape == (6, 60)
    assert np.array_equal(S, iris[model.support_])
    K = gaussian(iris, S)
    expected = 1 - 2 * K @ a.T + np.einsum("js,st,jt->j", a, gaussian(S, S), a)
    np.testing.assert_allclose(model._squared_distances(iris), expected, atol=1e-6)


@pytest.mark.parametrize("max_support", [1000, 50])
def test_named_callable_and_precomputed_agree(max_support):
    # Without duplicates, which only the first two can merge.
    X, rows = np.unique(iris, axis=0, return_index=True)
    labels = y[rows]
    options = {"random_state": 0, "max_support": max_support}
    named = KernelLVQClassifier(2, gamma=0.1, **options).fit(X, labels)
    called = KernelLVQClassifier(2, kernel=gaussian, **options).fit(X, labels)
    given = KernelLVQClassifier(2, kernel="precomputed", **options)
    given.fit(gaussian(X, X), labels)
    np.testing.assert_allclose(
        called.decision_function(X), named.decision_function(X), atol=1e-6
    )
    assert given.score(gaussian(X, X), labels) > 0.95
    assert named.score(X, labels) > 0.95


def test_linear_kernel_is_glvq():
    X = iris - iris.mean(axis=0)
    kernel = KernelLVQClassifier(kernel="linear", random_state=0).fit(X, y)
    plain = GLVQClassifier(1, random_state=0).fit(X, y)
    images = kernel.dual_coef_ @ kernel.support_vectors_
    assert np.mean(kernel.predict(X) == plain.predict(X)) > 0.97
    expected = ((X - images[0]) ** 2).sum(axis=1)
    np.testing.assert_allclose(kernel._squared_distances(X)[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("kernel", ["poly", "sigmoid", "laplacian", "cosine"])
def test_other_kernels_fit(kernel):
    model = KernelLVQClassifier(kernel=kernel, gamma=0.01, random_state=0).fit(iris, y)
    assert model.score(iris, y) > 0.8


def test_circles_need_a_kernel():
    X, labels = make_circles(400, factor=0.4, noise=0.08, random_state=0)
    kernel = KernelLVQClassifier(1, gamma=2.0, random_state=0).fit(X, labels)
    plain = GLVQClassifier(1, random_state=0).fit(X, labels)
    assert kernel.score(X, labels) > 0.97 > 0.8 > plain.score(X, labels)


def test_zero_weights_keep_rows_and_columns_together():
    weights = (np.arange(150) % 3 > 0).astype(float)
    kept = weights > 0
    K = gaussian(iris, iris)
    options = {"kernel": "precomputed", "random_state": 0}
    dropped = KernelLVQClassifier(**options).fit(K, y, weights)
    removed = KernelLVQClassifier(**options).fit(K[np.ix_(kept, kept)], y[kept])
    assert np.array_equal(dropped.support_, np.flatnonzero(kept))
    np.testing.assert_allclose(
        dropped.decision_function(K), removed.decision_function(K[:, kept]), atol=1e-8
    )
    np.testing.assert_allclose(
        dropped.predict_proba(K), removed.predict_proba(K[:, kept]), atol=1e-8
    )


def test_weights_are_exact():
    counts = np.random.RandomState(1).randint(0, 3, 150)
    model = KernelLVQClassifier(2, max_support=40, random_state=0)
    weighted = model.fit(iris, y, counts).decision_function(iris)
    repeated = model.fit(iris.repeat(counts, axis=0), y.repeat(counts))
    np.testing.assert_array_equal(weighted, repeated.decision_function(iris))


def test_support_keeps_every_class_and_grows_with_a_stream():
    model = KernelLVQClassifier(max_support=10, random_state=0).fit(iris, y)
    assert set(y[model.support_]) == {0, 1, 2}
    online = KernelLVQClassifier(gamma=0.1, random_state=0)
    order = np.random.RandomState(0).permutation(150)
    for i, row in enumerate(order):
        online.partial_fit(iris[[row]], y[[row]], classes=[0, 1, 2])
        # Begun anew whenever there are twice as many samples, less their duplicates.
        rows = order[: 2 ** int(np.log2(i + 1))]
        assert len(online.support_) == len(np.unique(iris[rows], axis=0))
        np.testing.assert_array_equal(
            online.support_vectors_, iris[order[online.support_]]
        )
    assert online.score(iris, y) > 0.95
    fitted = KernelLVQClassifier(gamma=0.1, random_state=0).fit(iris[::2], y[::2])
    support = fitted.support_vectors_
    assert fitted.partial_fit(iris, y).support_vectors_ is support


def test_batches_of_a_precomputed_kernel_have_the_columns_of_the_first():
    K = rbf_kernel(iris, iris[::2], gamma=0.1)
    model = KernelLVQClassifier(2, kernel="precomputed", random_state=0)
    model.partial_fit(K[::2], y[::2], classes=[0, 1, 2])
    for rows in np.array_split(np.arange(150), 30):
        model.partial_fit(K[rows], y[rows])
    assert model.score(K, y) > 0.9


def test_memory_is_bounded():
    with (
        config_context(working_memory=0.01),
        pytest.raises(ValueError, match="lower max_support or raise working_memory"),
    ):
        KernelLVQClassifier().fit(iris, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "gauss"}, "kernel must be a callable"),
        ({"kernel": lambda A, B: np.ones(3)}, "kernel must return an array of shape"),
        ({"kernel": lambda A, B: -(A @ B.T)}, "no positive eigenvalue"),
        ({"gamma": -1.0}, "gamma"),
        ({"max_support": 0}, "max_support"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        KernelLVQClassifier(**options).fit(iris, y)


def test_precomputed_must_be_square():
    with pytest.raises(ValueError, match="square matrix"):
        KernelLVQClassifier(kernel="precomputed").fit(gaussian(iris, iris[:100]), y)


@pytest.mark.parametrize("kernel", [rbf_kernel, laplacian_kernel])
def test_features_are_divided_before_every_kernel(kernel):
    X, y = make_classification(120, 6, n_informative=4, random_state=0)
    X = X * np.logspace(-2, 2, 6)
    name = kernel.__name__.removesuffix("_kernel")
    model = KernelLVQClassifier(2, kernel=name, gamma=0.3, scale="within_class_std")
    model.fit(X, y)
    S, a = model.support_vectors_ / model.scale_, model.dual_coef_
    own = np.einsum("ps,st,pt->p", a, kernel(S, gamma=0.3), a)
    expected = 1 - 2 * kernel(X / model.scale_, S, gamma=0.3) @ a.T + own
    np.testing.assert_allclose(model._squared_distances(X), expected, atol=1e-8)


@pytest.mark.parametrize("n_components", [1, 7, 200, "auto"])
def test_few_coordinates_leave_distances_exact(n_components):
    X, y = make_classification(90, 6, n_informative=4, random_state=0)
    model = KernelLVQClassifier(
        2, gamma=0.3, scale="none", n_components=n_components, random_state=0
    ).fit(X, y)
    K = rbf_kernel(X, model.support_vectors_, gamma=0.3)
    a = model.dual_coef_
    own = np.einsum("ps,st,pt->p", a, rbf_kernel(model.support_vectors_, gamma=0.3), a)
    expected = 1 - 2 * K @ a.T + own
    np.testing.assert_allclose(model._squared_distances(X), expected, atol=1e-8)
    assert model.prototypes_.shape[1] <= min(90, 200)
    if isinstance(n_components, int):
        assert model.prototypes_.shape[1] == min(n_components, 90)


@pytest.mark.parametrize("scale", ["none", "within_class_std"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_no_move_within_the_radius_changes_a_label(kernel, scale):
    X, labels = make_moons(200, noise=0.15, random_state=0)
    X *= [1, 30]
    gamma = 5.0 if scale == "within_class_std" else 0.1
    model = KernelLVQClassifier(kernel=kernel, gamma=gamma, scale=scale, random_state=0)
    model.fit(X, labels)
    radius, answers = model.certified_radius(X), model.predict(X)
    assert np.median(radius) > 0
    for angle in np.linspace(0, 2 * np.pi, 60):
        moves = 0.999 * radius[:, None] * [np.cos(angle), np.sin(angle)]
        np.testing.assert_array_equal(model.predict(X + moves), answers)


@pytest.mark.parametrize("kernel", ["poly", "laplacian", gaussian])
def test_a_radius_needs_images_that_move_no_faster(kernel):
    model = KernelLVQClassifier(1, kernel=kernel, max_iter=1).fit(iris, y)
    with pytest.raises(ValueError, match="certified_radius needs kernel='rbf' or"):
        model.certified_radius(iris)


def test_a_feature_that_was_constant_decides_nothing_when_it_moves():
    X, y = load_iris(return_X_y=True)
    train = np.c_[X, np.full(len(X), 2026.0)]
    model = KernelLVQClassifier(random_state=0).fit(train, y)
    moved = train + np.array([0, 0, 0, 0, 0.1])
    np.testing.assert_array_equal(model.predict(moved), model.predict(train))


@pytest.mark.parametrize("Model", [KernelLVQClassifier, GLVQClassifier])
def test_counts_are_judged_by_samples_left_out(Model):
    draw = np.random.RandomState(2)
    y = np.arange(300) % 2
    X = draw.standard_normal((300, 1000))
    X[:, :20] += y[:, None]
    model = Model(random_state=0).fit(X[:100], y[:100])
    assert len(model.prototypes_) == 2
    assert model.score(X[100:], y[100:]) > 0.8
    # Where a class has clusters, they stay.
    Z, z = make_circles(200, noise=0.1, factor=0.5, random_state=0)
    assert len(GLVQClassifier(random_state=0).fit(Z, z).prototypes_) > 2


def unequal(n, n_features, seed=0):
    draw = np.random.RandomState(seed)
    y = (draw.random_sample(n) < 0.35).astype(int)
    X = draw.standard_normal((n, n_features))
    X[:, :40] += y[:, None]
    return X, y


def test_noise_of_unequal_classes_is_taken_out_of_distances(monkeypatch):
    X, y = unequal(520, 2000)
    train, new = slice(0, 120), slice(120, None)
    model = KernelLVQClassifier(random_state=0).fit(X[train], y[train])
    assert len(model.prototypes_) == 2
    # It knows how often it is right.
    sure = model.predict_proba(X[new]).max(axis=1).mean()
    assert abs(sure - model.score(X[new], y[new])) < 0.1
    monkeypatch.setattr(
        KernelLVQClassifier, "_postprocess", lambda self, state, data: state
    )
    plain = KernelLVQClassifier(random_state=0).fit(X[train], y[train])
    assert plain.score(X[new], y[new]) < 0.75
    assert model.score(X[new], y[new]) > 0.85
    # Distances to the means differ by those of their noise, for every sample.
    own = [plain._coordinates_of(X[train][y[train] == c]) for c in (0, 1)]
    noise = [z.var(axis=0, ddof=1).sum() / len(z) for z in own]
    means = np.array([z.mean(axis=0) for z in own])
    z = plain._coordinates_of(X[new])
    before = ((z[:, None] - means) ** 2).sum(axis=2)
    change = np.diff(model._squared_distances(X[new]) - before, axis=1)[:, 0]
    np.testing.assert_allclose(change, -np.diff(noise)[0], rtol=1e-6)
    # A number that was given is the rule of the reference.
    given = KernelLVQClassifier(1, random_state=0).fit(X[train], y[train])
    monkeypatch.undo()
    again = KernelLVQClassifier(1, random_state=0).fit(X[train], y[train])
    np.testing.assert_array_equal(given.prototypes_, again.prototypes_)
