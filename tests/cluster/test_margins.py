"""Margins over shards carry the guarantee that they carry on one machine."""

from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from widemargin import MaxMarginClassifier
from widemargin._core.samples import check_samples
from widemargin._core.shards import check_shards
from widemargin.hyperplanes import shards
from widemargin.hyperplanes.base import signed_rows, two_class_problems
from widemargin.hyperplanes.certificate import no_plane
from widemargin.hyperplanes.problem import private_lengths

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

# benchmarks/certificates.py looks at 500.
N_PROBLEMS = 30


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


def clouds(n, d, apart, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    X = rng.normal(size=(n, d))
    X[:, 0] += np.where(y, apart, -apart)
    if apart >= 4:
        X[:, 0] = np.where(y, 1, -1) * np.maximum(np.abs(X[:, 0]), 1)
    return X, np.where(y, "up", "down")


def check_certificate(model, X, y):
    """The margin is at most that of the plane, and no plane has more than the bound."""
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    distances = signs * model.pairwise_distances(X)[:, 0]
    assert model.margin_ <= distances.min()
    assert model.margin_ >= distances.min() * (1 - 1e-9)
    assert model.margin_ <= model.margin_upper_bound_
    assert model.gap_ <= 1e-3


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("scale", [1.0, 1e-40])
def test_hard_margin(offset, scale):
    X, y = clouds(600, 4, 4)
    X = (X + offset) * scale
    here = MaxMarginClassifier(C=np.inf).fit(X, y)
    there = MaxMarginClassifier(C=np.inf).fit(da.from_array(X, chunks=(77, 3)), y)
    check_certificate(there, X, y)
    assert there.margin_ >= here.margin_ * (1 - 2e-3)
    assert there.margin_upper_bound_ >= here.margin_
    # The bound is that of the supports that are named, in the units of X.
    dual = there.dual_coef_[0]
    signs = np.sign(dual)
    halves = [dual[signs == s] @ X[there.support_[signs == s]] for s in (1, -1)]
    points = [
        h / dual[signs == s].sum() * s for h, s in zip(halves, (1, -1), strict=True)
    ]
    half = np.linalg.norm(points[0] + points[1]) / 2
    assert half == pytest.approx(there.margin_upper_bound_, rel=1e-6)


@pytest.mark.parametrize("price", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_soft_margin(price, dtype):
    X, y = clouds(600, 4, 1)
    X = X.astype(dtype)
    weights = 1 + np.arange(600) % 2
    here = MaxMarginClassifier(C=price).fit(X, y, weights)
    lazy = da.from_array(X, chunks=(90, 4))
    there = MaxMarginClassifier(C=price).fit(lazy, y, weights)
    assert there.gap_ <= 1e-3
    assert there.temperature_ == pytest.approx(here.temperature_, rel=0.02)
    assert there.margin_ == pytest.approx(here.margin_, rel=2e-3)
    assert there.margin_ <= here.margin_upper_bound_ * (1 + 1e-9)
    assert there.coef_.dtype == dtype
    # What is certified: one over the root of twice the primal objective.
    signs = np.where(y == there.classes_[1], 1.0, -1.0)
    scores = X.astype(float) @ there.coef_[0].astype(float) + there.intercept_[0]
    norm = there.weight_norm_[0]
    slack = np.maximum(0, 1 - norm * signs * scores)
    twice = norm**2 + 2 * price * weights @ slack**2
    assert there.margin_ == pytest.approx(1 / np.sqrt(twice), rel=1e-6)


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_many_classes_and_shards_of_one(multiclass):
    X, y = load_digits(n_class=4, return_X_y=True)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    lazy = da.from_array(X, chunks=((100, 0, 300, 320), 64))
    there = MaxMarginClassifier(multiclass=multiclass).fit(lazy, y)
    here = MaxMarginClassifier(multiclass=multiclass).fit(X, y)
    assert np.max(there.gap_) <= 1e-3
    np.testing.assert_allclose(there.margin_, here.margin_, rtol=2e-3)
    np.testing.assert_array_equal(there.predict(lazy).compute(), here.predict(X))


@pytest.mark.parametrize("part", range(2))
def test_no_false_certificate_over_any_partition(part):
    from tests.cluster.partitions import KINDS, PARTITIONS, examine, problems

    n = N_PROBLEMS // 2
    found, wrong = Counter(), []
    for i, problem in enumerate(problems(n, seed=part)):
        kinds = [PARTITIONS[(i + j) % 6] for j in (0, 3)]
        for partition, verdict, details in examine(problem, kinds):
            found[verdict] += 1
            if verdict == "false":
                wrong.append((problem.name, problem.options, partition, details))
    assert len(KINDS) <= n
    assert not wrong
    assert found["true"] > 0.8 * sum(found.values())
    assert not found["open"]


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("by_class", [False, True])
def test_noise_in_blocks_of_a_hundred(by_class, tol):
    """Samples that stood for others had the price of all of these."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = (X[:, 0] + 0.7 * rng.normal(size=600) > 0).astype(int)
    here = MaxMarginClassifier(tol=1e-9).fit(X, y)
    order = np.argsort(y, kind="stable") if by_class else np.arange(600)
    lazy = da.from_array(X[order], chunks=(100, 4))
    there = MaxMarginClassifier(tol=tol).fit(lazy, y[order])
    assert there.margin_ <= here.margin_upper_bound_
    assert there.margin_upper_bound_ >= here.margin_
    assert 0 < there.gap_ <= tol
    assert np.count_nonzero(there.predict(X) != here.predict(X)) <= 600 * 5 * tol


@pytest.mark.parametrize("scale", [1.0, 1e-40])
@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_the_margin_without_a_plane_is_that_of_all_samples(multiclass, scale):
    X, y = load_digits(n_class=4, return_X_y=True)
    X, weights = X * scale, 0.5 + np.arange(len(y)) % 5
    model = MaxMarginClassifier(multiclass=multiclass, C=0.1, class_weight={0: 3.0})
    given = check_shards(model, da.from_array(X, chunks=(99, 64)), y, weights)
    unit = 1.0 if scale == 1 else 2.0**-120
    problems = two_class_problems(4, multiclass)
    found = shards.no_planes(given, problems, 0.1, unit)
    samples = check_samples(model, X, y, weights)
    for problem, none in zip(problems, found, strict=True):
        rows, signs = signed_rows(samples.codes, problem)
        private = private_lengths(0.1 * samples.weights[rows])
        assert none.margin == pytest.approx(no_plane(private, signs), rel=1e-12)
        assert none.side == np.sign(signs @ samples.weights[rows])


def test_samples_join_round_by_round(monkeypatch):
    monkeypatch.setattr(shards, "JOINING", 2)
    X, y = clouds(600, 4, 4)
    # All of one class in one shard: none has a plane of its own.
    order = np.argsort(y, kind="stable")
    lazy = da.from_array(X[order], chunks=(np.bincount(y == "up").tolist(), 4))
    there = MaxMarginClassifier(C=np.inf).fit(lazy, y[order])
    check_certificate(there, X, y)


@pytest.mark.parametrize("price", [1.0, np.inf])
def test_a_gap_that_stays_open_is_told_and_true(price, monkeypatch):
    monkeypatch.setattr(shards, "JOINING", 2)
    X, y = clouds(600, 4, 4 if price == np.inf else 1)
    order = np.argsort(y, kind="stable")
    lazy = da.from_array(X[order], chunks=(np.bincount(y == "up").tolist(), 4))
    exact = MaxMarginClassifier(C=price, tol=1e-9).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 sweeps .*max_iter=2"):
        model = MaxMarginClassifier(C=price, max_iter=2).fit(lazy, y[order])
    assert model.n_iter_ == 2
    assert model.gap_ > 1e-3
    assert model.margin_ <= exact.margin_ <= model.margin_upper_bound_
    # Of samples that never joined, the margin is that of the stored plane all the same.
    again = MaxMarginClassifier(C=price).fit(lazy, y[order])
    assert again.gap_ <= 1e-3
    assert again.n_iter_ > 2


def test_a_height_is_that_of_all_samples():
    X, y = clouds(200, 3, 1)
    X[:100] *= 1e-90
    here = MaxMarginClassifier(intercept_scaling=1.0, tol=1e-9).fit(X, y)
    there = MaxMarginClassifier(intercept_scaling=1.0).fit(
        da.from_array(X, chunks=(100, 3)), y
    )
    assert there.margin_ <= here.margin_ <= there.margin_upper_bound_
    assert there.gap_ <= 1e-3


def test_what_cannot_be():
    X, y = clouds(200, 3, 0.5)
    lazy = da.from_array(X, chunks=(50, 3))
    with pytest.raises(ValueError, match="no hyperplane separates the classes"):
        MaxMarginClassifier(C=np.inf).fit(lazy, y)
    for name, value in {
        "method": "dynamic",
        "kernel": "rbf",
        "penalize_intercept": True,
        "warm_start": True,
    }.items():
        with pytest.raises(ValueError, match=f"{name} must be .* Dask collection"):
            MaxMarginClassifier(**{name: value}).fit(lazy, y)
