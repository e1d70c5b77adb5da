"""GLVQ and GMLVQ: finite differences, exact weights, descent, transform."""

import numba
import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import cross_val_score
from tests.margins.test_losses import LOSSES as EVERY_LOSS

from widemargin._compute import engines
from widemargin._compute import glvq as compiled_glvq
from widemargin._compute.engines import compiled_loss, is_compiled
from widemargin._compute.glvq import class_columns
from widemargin._compute.lvq import loss_and_slope
from widemargin._compute.rounding import product_error
from widemargin._core.shards import added
from widemargin.margins import (
    Exponential,
    Hinge,
    LinearLoss,
    Sigmoid,
    nearest_right_wrong,
    relative_margin,
)
from widemargin.prototypes import (
    GLVQClassifier,
    GMLVQClassifier,
    KernelLVQClassifier,
    optimizer,
)
from widemargin.prototypes.glvq import (
    Centred,
    glvq_sums,
)
from widemargin.prototypes.gmlvq import (
    Diagonal,
    FullMatrix,
    Local,
    discriminant_directions,
)

rng = np.random.RandomState(0)
X = rng.standard_normal((30, 4))
codes = rng.randint(0, 3, 30)
weights = rng.uniform(0.5, 2, 30)
P = rng.standard_normal((6, 4))
labels = np.repeat([0, 1, 2], 2)
Omega = rng.standard_normal((2, 4))
BATCH = Centred(X, codes, weights, (X**2).sum(axis=1), None, False)
SHARDS = [slice(0, 7), slice(7, 20), slice(20, 30)]
LOSSES = [Sigmoid(3.0), LinearLoss(), Exponential(2.0)]


def cost(P, Omega, loss):
    Z, Q = X @ Omega.T, P @ Omega.T
    D = ((Z[:, None] - Q[None]) ** 2).sum(axis=2)
    d_plus, d_minus, _, _ = nearest_right_wrong(D, labels, codes)
    return float(weights @ loss.value(relative_margin(d_plus, d_minus)))


def numerical(function, at, step=1e-6):
    out = np.empty_like(at)
    for index in np.ndindex(at.shape):
        forward, back = at.copy(), at.copy()
        forward[index] += step
        back[index] -= step
        out[index] = (function(forward) - function(back)) / (2 * step)
    return out


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_prototype_gradient(loss):
    sums = glvq_sums(BATCH, P, labels, loss)
    assert sums.loss == pytest.approx(cost(P, np.eye(4), loss))
    expected = numerical(lambda p: cost(p, np.eye(4), loss), P)
    np.testing.assert_allclose(sums.gradients["prototypes"], expected, atol=1e-6)


@pytest.mark.parametrize(
    "sums",
    [
        lambda rows: glvq_sums(rows, P, labels, LOSSES[0]),
        lambda rows: FullMatrix().sums(rows, P, Omega, labels, labels, LOSSES[0]),
    ],
    ids=["glvq", "gmlvq"],
)
def test_sums_of_shards_are_the_sums_of_all(sums):
    whole, parts = sums(BATCH), added([sums(BATCH[s]) for s in SHARDS])
    for total, summed in zip(whole[:2], parts[:2], strict=True):
        np.testing.assert_allclose(total, summed, atol=1e-12)
    for name, gradient in whole.gradients.items():
        np.testing.assert_allclose(gradient, parts.gradients[name], atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_matrix_gradients(loss):
    found = FullMatrix().sums(BATCH, P, Omega, labels, labels, loss).gradients
    dP, dOmega = found["prototypes"], found["omega"]
    np.testing.assert_allclose(
        dP, numerical(lambda p: cost(p, Omega, loss), P), atol=1e-6
    )
    np.testing.assert_allclose(
        dOmega, numerical(lambda o: cost(P, o, loss), Omega), atol=1e-6
    )


def test_adam_steps_do_not_depend_on_the_scale_of_the_gradient():
    gradient = rng.standard_normal((3, 2))
    small, large = optimizer.start("p", gradient), optimizer.start("p", gradient)
    for factor in (1.0, 2.0, 0.5):
        small, a = optimizer.adam(small, "p", 1e-5 * factor * gradient)
        large, b = optimizer.adam(large, "p", 1e5 * factor * gradient)
    np.testing.assert_allclose(a, b)
    assert np.all(np.abs(a) < 1.5)
    _, none = optimizer.adam(optimizer.start("p", gradient), "p", np.zeros((3, 2)))
    assert not none.any()


@pytest.mark.parametrize("model", [GLVQClassifier(2), GMLVQClassifier(2)], ids=repr)
class TestBoth:
    def test_loss_falls(self, model):
        data, y = load_iris(return_X_y=True)
        losses = model.set_params(random_state=0).fit(data, y).history_["loss"]
        assert losses[-1] < losses[0]

    def test_weight_two_is_the_sample_twice_bit_by_bit(self, model):
        data, y = load_iris(return_X_y=True)
        counts = np.random.RandomState(1).randint(0, 4, len(y))
        order = np.random.RandomState(2).permutation(len(y))
        model.set_params(random_state=0, early_stopping=True)
        weighted = model.fit(data[order], y[order], counts[order]).prototypes_
        repeated = model.fit(data.repeat(counts, axis=0), y.repeat(counts)).prototypes_
        np.testing.assert_array_equal(weighted, repeated)

    def test_partial_fit_learns_and_takes_classes_as_they_come(self, model):
        data, y = load_iris(return_X_y=True)
        model = type(model)(2, random_state=0)
        seen = np.flatnonzero(y < 2)
        for _ in range(3):
            model.partial_fit(data[seen], y[seen], classes=[0, 1, 2])
        assert set(model.predict(data)) == {0, 1}
        assert np.all(model.margins(data[y == 2], y[y == 2]) == -1)
        for _ in range(30):
            model.partial_fit(data, y)
        assert model.score(data, y) > 0.95


def test_losses_can_be_named_or_own():
    data, y = load_iris(return_X_y=True)

    class Squared:
        def value(self, margin):
            return (1 - margin) ** 2

        def derivative(self, margin):
            return -2 * (1 - margin)

    for loss in ("linear", Hinge(2.0), Squared()):
        assert (
            GLVQClassifier(loss=loss, random_state=0).fit(data, y).score(data, y) > 0.9
        )
    for bad in ("cross-entropy", 3.0, Sigmoid):
        with pytest.raises(ValueError, match="loss"):
            GLVQClassifier(loss=bad).fit(data, y)


def test_repair_brings_a_far_prototype_back():
    data, y = load_iris(return_X_y=True)
    start = np.concatenate([data[[0, 60, 120]], [[500.0] * 4]])
    options = {"init": start, "init_labels": [0, 1, 2, 2], "random_state": 0}
    lost = GLVQClassifier(reinit_dead=False, **options).fit(data, y)
    found = GLVQClassifier(**options).fit(data, y)
    assert np.abs(lost.prototypes_).max() > 400
    assert np.abs(found.prototypes_).max() < 20


def test_raw_wine_needs_the_metric():
    data, y = load_wine(return_X_y=True)
    plain = GLVQClassifier(scale="none", random_state=0)
    raw = cross_val_score(plain, data, y).mean()
    scaled = cross_val_score(GLVQClassifier(random_state=0), data, y).mean()
    learned = cross_val_score(GMLVQClassifier(random_state=0), data, y).mean()
    assert min(learned, scaled) > 0.93 > 0.8 > raw


def test_a_sentinel_does_not_poison():
    data, y = load_wine(return_X_y=True)
    model = GLVQClassifier(random_state=0)
    clean = cross_val_score(model, data, y).mean()
    data[np.random.RandomState(0).permutation(len(data))[:10], 3] = -9999
    assert cross_val_score(model, data, y).mean() > clean - 0.04


LOCAL = np.stack([Omega, 2 * Omega[::-1], Omega + 1])


def local_cost(P, omegas, groups, loss):
    gaps = X[:, None] - P[None]
    D = np.stack([((gaps[:, j] @ omegas[g].T) ** 2).sum(1) for j, g in groups], 1)
    d_plus, d_minus, _, _ = nearest_right_wrong(D, labels, codes)
    return float(weights @ loss.value(relative_margin(d_plus, d_minus)))


@pytest.mark.parametrize("groups", [labels, np.arange(6)], ids=["class", "local"])
def test_local_gradients(groups):
    loss = LOSSES[0]
    omegas = LOCAL if groups is labels else np.concatenate([LOCAL, 1 - LOCAL])
    pairs = list(enumerate(groups))
    sums = Local().sums(BATCH, P, omegas, labels, groups, loss)
    assert sums.loss == pytest.approx(local_cost(P, omegas, pairs, loss))
    expected = numerical(lambda p: local_cost(p, omegas, pairs, loss), P)
    np.testing.assert_allclose(sums.gradients["prototypes"], expected, atol=1e-6)
    expected = numerical(lambda o: local_cost(P, o, pairs, loss), omegas)
    np.testing.assert_allclose(sums.gradients["omega"], expected, atol=1e-6)
    parts = [Local().sums(BATCH[s], P, omegas, labels, groups, loss) for s in SHARDS]
    whole = sum(part.gradients["omega"] for part in parts)
    np.testing.assert_allclose(sums.gradients["omega"], whole, atol=1e-12)
    D = Local().distances(X, P, omegas, groups)
    gaps = np.stack([X - P[j] for j in range(6)], 1)
    slow = [((gaps[:, j] @ omegas[g].T) ** 2).sum(1) for j, g in pairs]
    np.testing.assert_allclose(D, np.stack(slow, 1), rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_diagonal_gradients(loss):
    o = np.abs(Omega[0]) + 0.1
    sums = Diagonal().sums(BATCH, P, o, labels, labels, loss)
    assert sums.loss == pytest.approx(cost(P, np.diag(o), loss))
    expected = numerical(lambda p: cost(p, np.diag(o), loss), P)
    np.testing.assert_allclose(sums.gradients["prototypes"], expected, atol=1e-6)
    expected = numerical(lambda o: cost(P, np.diag(o), loss), o)
    np.testing.assert_allclose(sums.gradients["omega"], expected, atol=1e-6)


def test_log_det_slopes():
    def half_log_det(o):
        return np.linalg.slogdet(o @ o.T)[1] / 2

    expected = numerical(half_log_det, Omega)
    np.testing.assert_allclose(FullMatrix().log_det_slope(Omega), expected, atol=1e-6)
    slopes = Local().log_det_slope(LOCAL[:1])
    np.testing.assert_allclose(slopes[0], expected, atol=1e-6)
    o = np.abs(Omega[0]) + 0.1
    expected = numerical(lambda o: np.log(o).sum(), o)
    np.testing.assert_allclose(Diagonal().log_det_slope(o), expected, atol=1e-6)


def useful_and_noise(n=600):
    rng = np.random.RandomState(0)
    y = rng.randint(0, 3, n)
    data = rng.standard_normal((n, 50))
    data[:, :3] += 2.5 * np.eye(3)[y]
    return data * rng.uniform(0.1, 10, 50), y


def test_relevances_find_what_is_useful_and_a_penalty_drops_the_rest():
    data, y = useful_and_noise()
    model = GMLVQClassifier(2, metric="diagonal", random_state=0).fit(data, y)
    shares = model.relevances_ * data.var(axis=0)
    assert shares[:3].sum() > 0.9 * shares.sum()
    np.testing.assert_allclose(model.relevance_matrix_, np.diag(model.relevances_))
    np.testing.assert_allclose(model.transform(data), data * model.omega_)
    sparse = model.set_params(sparsity=0.1).fit(data, y)
    assert np.count_nonzero(sparse.relevances_) < 25
    assert sparse.relevances_[:3].all()
    assert sparse.score(data, y) > 0.9


@pytest.mark.parametrize("metric", ["class", "local"])
def test_local_matrices_are_whole_models(metric):
    data, y = load_iris(return_X_y=True)
    data = np.column_stack([data, data[:, 0] + data[:, 1]])
    model = GMLVQClassifier(2, metric=metric, regularization=0.01, random_state=0).fit(
        data, y
    )
    n_groups = 3 if metric == "class" else len(model.prototypes_)
    assert model.omega_.shape == (n_groups, 5, 5)
    assert model.relevances_.shape == (n_groups, 5)
    assert model.score(data, y) > 0.95
    right = model.predict(data) == y
    np.testing.assert_array_equal(model.margins(data, y) > 0, right)
    assert np.all(model.certified_radius(data) >= 0)
    # What no training sample shows counts nothing.
    unseen = np.array([1.0, 1.0, 0.0, 0.0, -1.0])
    assert np.abs(model.omega_ @ unseen).max() < 1e-4 * np.abs(model.omega_).max()
    with pytest.raises(ValueError, match="one map"):
        model.transform(data)
    grown = GMLVQClassifier(metric=metric, random_state=0).fit(data, y)
    assert len(grown.omega_) == (3 if metric == "class" else len(grown.prototypes_))
    batches = GMLVQClassifier(1, metric=metric, random_state=0)
    for rows in np.array_split(np.arange(150), 3):
        batches.partial_fit(data[rows], y[rows], classes=[0, 1, 2])
    assert batches.score(data, y) > 0.5


def test_omega_relevances_and_transform_agree():
    data, y = load_wine(return_X_y=True)
    model = GMLVQClassifier(n_components=3, random_state=0).fit(data, y)
    assert model.omega_.shape == (3, 13)
    np.testing.assert_allclose(model.relevances_.sum(), 1)
    np.testing.assert_allclose(np.diag(model.relevance_matrix_), model.relevances_)
    delta = data[0] - model.prototypes_[0]
    expected = delta @ model.relevance_matrix_ @ delta
    assert model._squared_distances(data[:1])[0, 0] == pytest.approx(expected)
    np.testing.assert_allclose(model.transform(data), data @ model.omega_.T)
    assert model.get_feature_names_out().tolist() == [
        f"gmlvqclassifier{i}" for i in range(3)
    ]


def test_limited_rank_starts_where_the_classes_are():
    noise = np.random.RandomState(0).standard_normal((300, 5))
    y = np.repeat([0, 1], 150)
    data = noise.copy()
    data[:, 3] += 4 * y
    direction = discriminant_directions(data, y, np.ones(300), 1, None)[0]
    assert np.abs(direction).argmax() == 3


@pytest.mark.parametrize("rank", [3, 30])
def test_few_samples_of_many_features_start_as_if_there_were_fewer(rank):
    """Directions in which no sample varies change nothing but the mean variance."""
    rng = np.random.RandomState(0)
    few, y = rng.standard_normal((20, 12)), np.arange(20) % 3
    weights = rng.uniform(1, 2, 20)
    turn = np.linalg.qr(rng.standard_normal((40, 40)))[0][:12]
    # Once with the samples' own directions alone, once with all features.
    S = np.cov(
        (few - [np.average(few[y == c], 0, weights[y == c]) for c in y]).T,
        aweights=weights,
        bias=True,
    )
    W = np.linalg.inv(sqrtm(S + 0.1 * np.trace(S) / 40 * np.eye(12)))
    T = np.cov(few.T, aweights=weights, bias=True)
    expected = (np.linalg.eigh(W @ T @ W)[1][:, ::-1].T @ W)[:rank]
    found = discriminant_directions(few @ turn, y, weights, rank, rng)
    assert found.shape == (rank, 40)
    matrix = found.T @ found
    np.testing.assert_allclose(
        turn @ matrix @ turn.T, expected.T @ expected, rtol=1e-6, atol=1e-9
    )


def test_few_samples_favour_no_feature_for_its_place():
    """Of more directions than samples; by default there are fewer."""
    rng = np.random.RandomState(0)
    data, y = rng.standard_normal((40, 150)), np.arange(40) % 2
    directions = discriminant_directions(data, y, np.ones(40), 90, rng)
    first, others = np.split((directions**2).sum(axis=0), [50])
    assert 0.8 < first.mean() / others.mean() < 1.25
    assert GMLVQClassifier(2, max_iter=1).fit(data, y).omega_.shape == (39, 150)


def test_digits_with_a_learned_metric():
    data, y = load_digits(return_X_y=True)
    model = GMLVQClassifier(2, n_components=20, random_state=0).fit(data[:900], y[:900])
    assert model.score(data[900:], y[900:]) > 0.92


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0}, "learning_rate"),
        ({"batch_size": 0}, "batch_size"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 5}, "n_components=5 must not exceed"),
        ({"matrix_learning_rate": -1.0}, "matrix_learning_rate"),
    ],
)
def test_bad_parameters_are_named(options, message):
    data, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        GMLVQClassifier(**options).fit(data, y)


def test_compiled_adam_is_the_published_one():
    rng = np.random.default_rng(0)
    shape, rates = (3, 4), (0.9, 0.999)
    state, m, v = optimizer.start("P", np.zeros(shape)), 0.0, 0.0
    for t in range(1, 5):
        gradient = rng.normal(size=shape)
        gradient[0] = 0
        moments, ascent = optimizer.adam(state, "P", gradient, *rates)
        state = {**state, **moments}
        m = rates[0] * m + (1 - rates[0]) * gradient
        v = rates[1] * v + (1 - rates[1]) * gradient**2
        root = np.sqrt(v / (1 - rates[1] ** t))
        root += root == 0
        root += 1e-10 * root.max() ** 2 / root
        np.testing.assert_allclose(ascent, m / (1 - rates[0] ** t) / root, rtol=1e-12)
    assert state["P_t"] == 4


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adam_of_tensors_is_the_compiled_one(dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    here = optimizer.start("P", np.zeros((3, 4), dtype))
    there = {name: torch.tensor(value) for name, value in here.items()} | {"P_t": 0}
    for factor in (1.0, 1e-6, 1e6, 0.0):
        gradient = (factor * rng.normal(size=(3, 4))).astype(dtype)
        gradient[0] = 0
        moments, ascent = optimizer.adam(here, "P", gradient)
        here = {**here, **moments}
        moments, again = optimizer.adam(there, "P", torch.tensor(gradient))
        there = {**there, **moments}
        assert again.dtype == torch.tensor(gradient).dtype
        rtol = 50 * np.finfo(dtype).eps
        np.testing.assert_allclose(again.numpy(), ascent, rtol=rtol)
        for name in ("P_m", "P_v"):
            np.testing.assert_allclose(there[name].numpy(), here[name], rtol=rtol)


def test_adam_takes_no_step_along_rounding():
    gradient = np.array([[1.0, 1e-3, 1e-12, 0.0]])
    _, ascent = optimizer.adam(optimizer.start("P", gradient), "P", gradient)
    np.testing.assert_allclose(ascent, [[1, 1, 0, 0]], atol=1e-3)
    assert 0 < ascent[0, 2] < 1e-13


compiled_losses = pytest.mark.parametrize(
    "loss", [loss for loss in EVERY_LOSS if is_compiled(loss)], ids=repr
)


@compiled_losses
def test_compiled_losses_are_the_losses(loss):
    margins = np.linspace(-1.5, 1.5, 32)
    found = [loss_and_slope(*compiled_loss(loss), margin) for margin in margins]
    expected = np.stack([loss.value(margins), loss.derivative(margins)], axis=1)
    # Of a sigmoid near 1, one less it is rounded.
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_kernels_know_no_loss_but_those_they_have():
    assert {type(loss).__name__ for loss in EVERY_LOSS if is_compiled(loss)} == {
        *engines.LOSSES
    }
    assert not is_compiled(type("Sigmoid", (Sigmoid,), {})())
    assert np.isnan(loss_and_slope(len(engines.LOSSES), 1.0, 0.3)).all()


@compiled_losses
def test_a_compiled_pass_descends_its_loss(loss):
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    fits = []
    for choice in ("engines", "formulas"):
        with engines.chosen(choice):
            model = GLVQClassifier(2, loss=loss, max_iter=3, random_state=0).fit(X, y)
        fits.append((model.history_["loss"], model.prototypes_))
    np.testing.assert_allclose(fits[0][0], fits[1][0], rtol=1e-9)
    np.testing.assert_allclose(fits[0][1], fits[1][1], atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model",
    [GLVQClassifier(4), GMLVQClassifier(4), KernelLVQClassifier(4)],
    ids=lambda model: type(model).__name__,
)
def test_compiled_epochs_are_the_sums_and_steps_of_numpy(model, dtype):
    """A subclass is unknown to the kernels: it goes batch by batch."""
    X, y = load_wine(return_X_y=True)
    model = clone(model).set_params(max_iter=3, random_state=0)
    fits = []
    for kind in (Sigmoid, type("Own", (Sigmoid,), {})):
        model.set_params(loss=kind(beta=7.0)).fit(X.astype(dtype), y, y + 1.0)
        fits.append((model.history_["loss"], model.prototypes_))
    rtol = 2e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(fits[0][0], fits[1][0], rtol=rtol)
    scale = np.abs(fits[1][1]).max(axis=0)
    np.testing.assert_allclose(fits[0][1] / scale, fits[1][1] / scale, atol=rtol)
    assert fits[0][1].dtype == fits[1][1].dtype


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7])
@pytest.mark.parametrize("unit", [1.0, 2.0**-200, 2.0**200])
def test_float32_products_decide_nothing_that_they_cannot(offset, unit):
    """Prototypes 1e-6 apart, far from the origin: differences in float64 decide."""

    rng = np.random.RandomState(0)
    centres = rng.standard_normal((3, 5)) + offset
    P = (np.repeat(centres, 4, axis=0) + 1e-6 * rng.standard_normal((12, 5))) * unit
    X = (centres[rng.randint(3, size=50)] + 1e-6 * rng.standard_normal((50, 5))) * unit
    labels, codes = rng.permutation(np.arange(12) % 3), rng.randint(3, size=50)
    columns = class_columns(labels, codes)
    scale = 1 / np.abs(X).max()
    packed, norms = np.empty((12, 5), np.float32), np.empty(12, np.float32)
    largest = compiled_glvq._prepared(P, columns.order, scale, packed, norms)
    scores = (X * scale).astype(np.float32) @ packed.T
    error = product_error(np.float32, 5) * (5 + largest) + compiled_glvq.TINY
    D = ((X[:, None] / unit - P / unit) ** 2).sum(axis=2)
    for x, row, code, d in zip(X, scores, codes, D, strict=True):
        found = settled_pair(row, norms, code, error, x, P, columns)
        own = np.where(labels == code, d, np.inf)
        others = np.where(labels == code, np.inf, d)
        assert found[:2] == (own.argmin(), others.argmin())
        np.testing.assert_allclose(
            np.array(found[2:]) / unit / unit, [own.min(), others.min()], rtol=1e-6
        )


@numba.njit
def settled_pair(row, norms, code, error, x, P, columns):
    """Only kernels call this one."""
    return compiled_glvq.settled_pair(row, norms, code, error, x, P, columns)


def test_an_epoch_counts_a_class_without_prototypes_as_before():
    """Classes come with their first batch: until then a side may be empty."""
    X = np.array([[0.0], [1.0], [5.0]])
    model = GLVQClassifier(1, random_state=0)
    model.partial_fit(X[:2], [0, 0], classes=[0, 1])
    assert model.prototypes_.shape == (1, 1)
    assert model.history_["loss"] == [Sigmoid(beta=10.0).value(np.ones(1))[0]]
    model.partial_fit(X, [0, 0, 1])
    assert model.predict(X).tolist() == [0, 0, 1]
