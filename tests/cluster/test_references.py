"""References in partitions, distances in blocks: the numbers of one machine."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from widemargin import TangentDensityClassifier, TangentKNeighborsClassifier
from widemargin.metrics import (
    TangentMetric,
    tangent_alignment,
    tangent_distances,
    tangent_kernel,
)
from widemargin.tangents import ImageTangents, image_shifts

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

X, y = load_digits(return_X_y=True)
# A lattice of few values, so that there are ties to be decided.
X = (X[:330] // 4).astype(float)
y = np.array(list("abcdefghij"))[y[:330]]
Q, q = X[250:], y[250:]
R, r = X[:250], y[:250]
IMAGES = ImageTangents((8, 8))


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


SETTINGS = {
    "one": {"tangents": IMAGES},
    "three": {"tangents": IMAGES, "n_neighbors": 3},
    "plain": {"tangents": "none", "n_neighbors": 4, "weights": "distance"},
    "plain one": {"tangents": "none", "class_weight": "balanced"},
    "shared": {"tangents": np.eye(2, 64), "n_neighbors": 5, "class_weight": {"a": 3}},
    "midpoint": {"tangents": IMAGES, "sides": "midpoint"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_neighbours_among_partitions_are_those_of_one_index(name):
    weights = np.where(np.arange(250) % 7 == 3, 0.0, 1 + np.arange(250) % 3)
    here = TangentKNeighborsClassifier(**SETTINGS[name]).fit(R, r, weights)
    there = TangentKNeighborsClassifier(**SETTINGS[name]).fit(
        da.from_array(R, chunks=((60, 0, 130, 60), 64)),
        da.from_array(r, chunks=50),
        sample_weight=weights,
    )
    # Tangents half way are made for every pair, for seconds.
    n = 40 if name == "midpoint" else len(Q)
    X_asked, y_asked = Q[:n], q[:n]
    asked = da.from_array(X_asked, chunks=(33, 40))
    for method in ("predict", "predict_proba", "decision_function", "confidence"):
        one, other = getattr(here, method)(X_asked), getattr(there, method)(asked)
        assert (other.dtype, other.shape) == (one.dtype, one.shape)
        np.testing.assert_array_equal(other.compute(), one)
        np.testing.assert_array_equal(getattr(there, method)(X_asked), one)
    np.testing.assert_array_equal(
        there.margins(asked, y_asked).compute(), here.margins(X_asked, y_asked)
    )
    pairs = zip(there.kneighbors(asked, 6), here.kneighbors(X_asked, 6), strict=True)
    for other, one in pairs:
        np.testing.assert_array_equal(other.compute(), one)
    found = there.kneighbors(X_asked, n_neighbors=2, return_distance=False)
    np.testing.assert_array_equal(found, here.kneighbors(X_asked, 2)[1])
    assert there.score(asked, y_asked) == here.score(X_asked, y_asked)
    assert there.margin_unit == here.margin_unit


DENSITIES = {
    "given": {"gamma": 0.01, "tangents": IMAGES},
    "chosen": {"tangents": "none", "max_cv_samples": 60, "random_state": 0},
    "weighted": {"gamma": 0.02, "tangents": IMAGES, "class_weight": {"a": 3.0}},
    "copies": {
        "gamma": 0.02,
        "tangents": "none",
        "transformations": image_shifts((8, 8)),
    },
}


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_of_partitions_add_up(name):
    # By class, so that most partitions lack most classes.
    order = np.argsort(r, kind="stable")
    weights = 1.0 + np.arange(250) % 3
    here = TangentDensityClassifier(**DENSITIES[name]).fit(R[order], r[order], weights)
    lazy = da.from_array(R[order], chunks=((60, 0, 130, 60), 64))
    there = TangentDensityClassifier(**DENSITIES[name]).fit(lazy, r[order], weights)
    assert there.gamma_ == pytest.approx(here.gamma_)
    asked = da.from_array(Q, chunks=(33, 40))
    for method in ("predict_proba", "decision_function", "confidence"):
        one, other = getattr(here, method)(Q), getattr(there, method)(asked)
        assert (other.dtype, other.shape) == (one.dtype, one.shape)
        np.testing.assert_allclose(other.compute(), one, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(getattr(there, method)(Q), one, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(there.predict(asked).compute(), here.predict(Q))
    with pytest.raises(ValueError, match="cannot be saved or sent"):
        pickle.dumps(there)
    with pytest.raises(ValueError, match="groups must be None"):
        there.fit(lazy, r[order], groups=r[order])


def test_sizes_of_float32_in_other_units():
    far = (R * 1e-12).astype(np.float32)
    here = TangentKNeighborsClassifier(tangents="none").fit(far, r)
    there = TangentKNeighborsClassifier(tangents="none").fit(
        da.from_array(far, chunks=(99, 64)), r
    )
    asked = (Q * 1e-12).astype(np.float32)
    for one, other in zip(here.kneighbors(asked), there.kneighbors(asked), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_parts_stay_parts():
    knn = TangentKNeighborsClassifier(tangents="none")
    knn.fit(da.from_array(R, chunks=(50, 64)), r)
    sizes = dask.compute(*knn._parts.parts)
    assert [len(part.value.bundle_) for part in sizes] == [50] * 5
    assert sys.getsizeof(sizes[0]) >= 50 * 64 * 8
    assert not hasattr(knn, "bundle_")
    with pytest.raises(ValueError, match="cannot be saved or sent"):
        pickle.dumps(knn)
    with pytest.raises(ValueError, match=r"X of .*kneighbors must be given"):
        knn.kneighbors()
    with pytest.raises(ValueError, match="n_neighbors"):
        knn.kneighbors(Q, 251)
    knn.fit(R, r)
    assert len(pickle.loads(pickle.dumps(knn)).bundle_) == 250


def test_a_part_moves_as_it_is(monkeypatch):
    lazy = da.from_array(R, chunks=(125, 64))
    for model in (
        TangentKNeighborsClassifier(tangents=IMAGES),
        TangentDensityClassifier(gamma=0.01, tangents=IMAGES),
    ):
        (part, _) = dask.compute(*model.fit(lazy, r)._parts.parts)
        expected = part.value._found(Q, model._question("predict"))
        with monkeypatch.context() as patch:
            # What has moved needs no tangents to be made again.
            patch.setattr(TangentMetric, "bundle", None)
            moved = pickle.loads(pickle.dumps(part))
        assert sys.getsizeof(moved) >= sys.getsizeof(part) > 125 * 8 * 64 * 8
        found = moved.value._found(Q, model._question("predict"))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_what_is_wrong_with_a_partition():
    knn = TangentKNeighborsClassifier(tangents="none")
    bad = R.copy()
    bad[120, 3] = np.nan
    with pytest.raises(ValueError, match=r"X, partition 2: .*NaN"):
        knn.fit(da.from_array(bad, chunks=(50, 64)), r)
    assert not hasattr(knn, "classes_")
    with pytest.raises(ValueError, match="it holds one class, 'a'"):
        knn.fit(da.from_array(R, chunks=(50, 64)), np.full(250, "a"))
    with pytest.raises(ValueError, match="none of which has one"):
        knn.fit(da.from_array(R, chunks=(50, 64)), r, np.zeros(250))
    with pytest.raises(ValueError, match=r"partition \d: .*[Nn]egative"):
        knn.fit(da.from_array(R, chunks=(50, 64)), r, np.full(250, -1.0))
    knn.fit(da.from_array(R, chunks=(50, 64)), r)
    strange = da.from_array(
        np.where(np.arange(80) == 70, np.inf, Q.T).T, chunks=(40, 64)
    )
    with pytest.raises(ValueError, match=r"X, partition 1: .*infinity"):
        knn.predict(strange).compute()


def test_classes_that_only_the_last_partition_has():
    order = np.argsort(r, kind="stable")
    lazy = da.from_array(R[order], chunks=(50, 64))
    there = TangentKNeighborsClassifier(tangents="none").fit(lazy, r[order])
    here = TangentKNeighborsClassifier(tangents="none").fit(R[order], r[order])
    np.testing.assert_array_equal(there.classes_, here.classes_)
    np.testing.assert_array_equal(there.decision_function(Q), here.decision_function(Q))


@pytest.mark.parametrize("sides", ["both", "mean", "midpoint"])
def test_distances_are_lazy_blocks(sides):
    options = {"tangents": IMAGES, "sides": sides}
    whole = tangent_distances(X[:50], X[50:90], **options)
    x, z = (
        da.from_array(X[:50], chunks=(20, 64)),
        da.from_array(X[50:90], chunks=(15, 9)),
    )
    for one, other in ((x, z), (x, X[50:90]), (X[:50], z)):
        lazy = tangent_distances(one, other, **options)
        assert (lazy.shape, lazy.dtype) == (whole.shape, whole.dtype)
        np.testing.assert_allclose(lazy.compute(), whole, rtol=1e-9)
    assert tangent_distances(x, z, **options).numblocks == (3, 3)
    own = tangent_distances(x, **options).compute()
    np.testing.assert_allclose(own, tangent_distances(X[:50], **options), rtol=1e-9)
    assert not own.diagonal().any()
    some = x[x[:, 2] > 1]
    assert tangent_distances(some, z, **options).compute().shape[1] == 40
    single = tangent_distances(x.astype(np.float32), z.astype(np.float32), **options)
    assert single.dtype == single.compute().dtype == np.float32


@pytest.mark.parametrize("kernel", ["rbf", "nd", "log", np.exp])
def test_kernels_are_lazy_blocks(kernel):
    x = da.from_array(X[:50] / 16, chunks=(20, 64))
    options = {"kernel": kernel, "tangents": IMAGES}
    there = tangent_kernel(x, **options).compute()
    np.testing.assert_allclose(there, tangent_kernel(X[:50] / 16, **options), rtol=1e-7)
    options |= {"gamma": 0.5}
    there = tangent_kernel(x, x[:10], **options).compute()
    here = tangent_kernel(X[:50] / 16, X[:10] / 16, **options)
    np.testing.assert_allclose(there, here, rtol=1e-7)


def test_distances_that_cannot_be():
    x = da.from_array(X[:50], chunks=(20, 64))
    with pytest.raises(ValueError, match="X_tangents must be a generator"):
        tangent_distances(x, X_tangents=np.zeros((50, 1, 64)))
    with pytest.raises(ValueError, match="takes no Dask collections"):
        tangent_alignment(x, x, tangents=IMAGES)
    with pytest.raises(ValueError, match="gamma='scale' would depend"):
        tangent_kernel(x, x, tangents=IMAGES)
    huge = da.from_array((X[:50] * 1e13).astype(np.float32), chunks=(20, 64))
    with pytest.raises(ValueError, match="X has values of up to"):
        tangent_distances(huge, tangents=IMAGES).compute()
