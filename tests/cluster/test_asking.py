"""Questions about Dask collections: lazy, block by block, the usual answers."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.contract.registry import NAMES, make

from widemargin import (
    GLVQClassifier,
    MaxMarginClassifier,
    RejectingClassifier,
    TangentKNeighborsClassifier,
    TangentSVC,
)
from widemargin._core.lazy import ROWWISE, is_lazy
from widemargin.tangents import (
    Deskew,
    DirectionFeatures,
    GaussianSmoother,
    image_affines,
)

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
X = np.concatenate([c + rng.normal(size=(15, 6)) for c in 3 * np.eye(3, 6)])
y = np.repeat(["ant", "bee", "cow"], 15)
order = rng.permutation(45)
X, y = X[order], y[order]


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def model():
    return GLVQClassifier(max_iter=3, random_state=0).fit(X, y)


class Counting:
    """Samples that know how often they were looked at."""

    looked_at = 0


def watched(block):
    Counting.looked_at += 1
    return block


def in_pieces(ask):
    """Answers of one machine about the same blocks: products of others may round."""
    found = [ask(X[rows]) for rows in (slice(0, 20), slice(20, 21), slice(21, 45))]
    if type(found[0]) is not tuple:
        return np.concatenate(found)
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_every_classifier_answers_lazily_as_it_does_here(name):
    fitted = make(name).fit(X, y)
    Counting.looked_at = 0
    # Columns are cut too, and blocks are of unequal size.
    lazy = da.from_array(X, chunks=((20, 1, 24), 4)).map_blocks(watched, dtype=float)
    asked = [n for n in ROWWISE if callable(getattr(fitted, n, None))]
    asked.remove("margins")
    if name in ("TDNeuronClassifier", "RelationalLVQClassifier"):
        asked.remove("certified_radius")
    assert {"predict", "decision_function", "confidence"} <= {*asked}
    for method in asked:
        here = in_pieces(getattr(fitted, method))
        there = getattr(fitted, method)(lazy)
        pairs = (
            zip(here, there, strict=True) if type(here) is tuple else [(here, there)]
        )
        for one, other in pairs:
            assert is_lazy(other)
            assert other.dtype == one.dtype
            assert other.shape == one.shape
            np.testing.assert_array_equal(other.compute(), one)
            assert other.compute().dtype == other.dtype
    lazy_y = da.from_array(y, chunks=10)
    there = fitted.margins(lazy, y=lazy_y)
    np.testing.assert_allclose(there.compute(), fitted.margins(X, y), atol=1e-12)
    assert fitted.score(lazy, lazy_y) == pytest.approx(fitted.score(X, y))


def test_nothing_is_computed_before_it_is_asked_for(model):
    lazy = da.from_array(X, chunks=(10, 6)).map_blocks(watched, dtype=float)
    Counting.looked_at = 0
    answers = model.predict(lazy), model.confidence(lazy), model.margins(lazy, y)
    assert Counting.looked_at == 0
    dask.compute(*answers)
    assert Counting.looked_at > 0


def test_the_model_is_one_node_that_all_blocks_depend_on(model):
    answer = model.predict(da.from_array(X, chunks=(5, 6)))
    graph = dict(answer.__dask_graph__())
    nodes = [key for key in graph if "widemargin-model" in str(key)]
    assert len(nodes) == 1
    tasks = [task for task in graph.values() if hasattr(task, "dependencies")]
    assert sum(nodes[0] in task.dependencies for task in tasks) == 9


def test_blocks_of_unknown_size_and_empty_ones(model):
    lazy = da.from_array(X, chunks=(15, 6))
    kept = np.arange(45) >= 15
    some = lazy[da.from_array(kept, chunks=15)]
    assert np.isnan(some.shape[0])
    labels = da.from_array(y, chunks=15)[da.from_array(kept, chunks=15)]
    np.testing.assert_array_equal(model.predict(some).compute(), model.predict(X[15:]))
    np.testing.assert_array_equal(
        model.decision_function(some).compute(), model.decision_function(X[15:])
    )
    margins = model.margins(some, labels)
    np.testing.assert_array_equal(margins.compute(), model.margins(X[15:], y[15:]))
    assert model.score(some, labels) == pytest.approx(model.score(X[15:], y[15:]))


def test_answers_about_a_frame_are_columns_with_its_index():
    names = list("uvwxyz")
    frame = pd.DataFrame(X, columns=names, index=np.arange(45) + 100)
    model = GLVQClassifier(max_iter=3, random_state=0).fit(frame, y)
    lazy = dd.from_pandas(frame, npartitions=4)
    labels = dd.from_pandas(pd.Series(y, index=frame.index), npartitions=4)
    answer = model.predict(lazy)
    assert answer.name == "predict"
    pd.testing.assert_series_equal(
        answer.compute().astype(object),
        pd.Series(model.predict(frame), frame.index, object, "predict"),
    )
    shares = model.predict_proba(lazy)
    assert list(shares.columns) == list(model.classes_)
    assert list(shares.dtypes) == [np.float64] * 3
    expected = pd.DataFrame(model.predict_proba(frame), frame.index, model.classes_)
    pd.testing.assert_frame_equal(shares.compute(), expected, check_column_type=False)
    margins = model.margins(lazy, labels).compute()
    np.testing.assert_allclose(margins.to_numpy(), model.margins(frame, y), rtol=1e-12)
    assert model.score(lazy, labels) == pytest.approx(model.score(frame, y))
    knn = TangentKNeighborsClassifier(tangents="none").fit(frame, y)
    for one, other in zip(
        knn.kneighbors(lazy, 2), knn.kneighbors(frame, 2), strict=True
    ):
        np.testing.assert_array_equal(one.compute(), other)
    empty = lazy[lazy.u > 1e9]
    assert len(model.predict(empty).compute()) == 0
    with pytest.raises(ValueError, match="feature names"):
        model.predict(lazy.rename(columns={"u": "a"}))


def test_rejecting(model):
    careful = RejectingClassifier(model, cv="prefit", coverage=0.5, delta=None)
    careful.fit(X, y)
    lazy = da.from_array(X, chunks=(20, 6))
    assert careful.accepts(lazy).dtype == bool
    assert careful.predict(lazy).dtype == careful.predict(X).dtype
    np.testing.assert_array_equal(careful.predict(lazy).compute(), careful.predict(X))
    assert careful.score(lazy, y) == pytest.approx(careful.score(X, y))
    weights = np.linspace(0, 1, 45)
    lazily = careful.score(lazy, y, da.from_array(weights, chunks=4))
    assert lazily == pytest.approx(careful.score(X, y, weights))


def test_methods_that_need_a_parameter_are_lazy_too():
    lazy = da.from_array(X, chunks=(20, 6))
    for model in (
        TangentSVC(tangents="none", probability=True),
        RejectingClassifier(LogisticRegression(), max_error=0.5, random_state=0),
    ):
        P = model.fit(X, y).predict_proba(lazy)
        assert is_lazy(P)
        np.testing.assert_allclose(P.compute(), model.predict_proba(X))
    with pytest.raises(ValueError, match="X is a Dask collection"):
        MaxMarginClassifier(method="dynamic").partial_fit(lazy, y)


def test_neighbours_are_two_arrays():
    knn = TangentKNeighborsClassifier(tangents="none").fit(X, y)
    distances, indices = knn.kneighbors(da.from_array(X[:9], chunks=(4, 6)), 3)
    assert indices.dtype == knn.kneighbors(X[:9], 3)[1].dtype
    d, i = dask.compute(distances, indices)
    np.testing.assert_array_equal(d, knn.kneighbors(X[:9], 3)[0])
    np.testing.assert_array_equal(i, knn.kneighbors(X[:9], 3)[1])
    alone = knn.kneighbors(da.from_array(X, chunks=(9, 6)), 2, return_distance=False)
    np.testing.assert_array_equal(
        alone.compute(), knn.kneighbors(X, 2, return_distance=False)
    )


def test_transformers_and_sparse_blocks():
    images = rng.random((10, 16))
    lazy = da.from_array(images, chunks=(3, 16))
    for made in (GaussianSmoother, Deskew, DirectionFeatures):
        ready = made((4, 4)).fit(images)
        assert is_lazy(ready.transform(lazy))
        np.testing.assert_allclose(
            ready.transform(lazy).compute(), ready.transform(images), rtol=1e-12
        )
        with pytest.raises(ValueError, match=r"X is a Dask .*X.compute\(\)"):
            ready.fit(lazy)
    moved = image_affines((4, 4))[0]
    assert is_lazy(moved(lazy))
    np.testing.assert_array_equal(moved(lazy).compute(), moved(images))
    sparse = pytest.importorskip("scipy.sparse")
    plane = MaxMarginClassifier().fit(X, y)
    blocks = da.from_array(X, chunks=(20, 6)).map_blocks(sparse.csr_array)
    np.testing.assert_array_equal(plane.predict(blocks).compute(), plane.predict(X))


def test_blocks_that_are_tensors(model):
    torch = pytest.importorskip("torch")
    sklearn = pytest.importorskip("sklearn")
    blocks = da.from_array(X, chunks=(20, 6)).map_blocks(
        torch.from_numpy, dtype=float, meta=np.empty((0, 0))
    )
    with sklearn.config_context(array_api_dispatch=True):
        labels, sure = dask.compute(
            TangentKNeighborsClassifier(tangents="none").fit(X, y).predict(blocks),
            model.confidence(blocks),
        )
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_allclose(sure, model.confidence(X), rtol=1e-12)


def test_errors_name_the_partition(model):
    bad = X.copy()
    bad[33, 2] = np.inf
    answer = model.predict(da.from_array(bad, chunks=(15, 6)))
    with pytest.raises(ValueError, match=r"X, partition 2: .*infinity"):
        answer.compute()
    strange = np.where(np.arange(45) == 20, "yak", y)
    with pytest.raises(ValueError, match="partition 1: y contains 'yak'"):
        model.margins(da.from_array(X, chunks=(15, 6)), strange).compute()


def test_what_cannot_be_is_refused_at_once(model):
    lazy = da.from_array(X, chunks=(15, 6))
    with pytest.raises(ValueError, match="X has 5 features"):
        model.predict(lazy[:, :5])
    with pytest.raises(ValueError, match="X must be a Dask array of shape"):
        model.predict(lazy[:, 0])
    with pytest.raises(ValueError, match=r"margin_bound does not take; pass X\.comp"):
        model.margin_bound(lazy, y, theta=0.1)
    with pytest.raises(ValueError, match="one entry per sample: X has 45"):
        model.margins(lazy, y[:40])
    with pytest.raises(ValueError, match=r"X of .*margins must be a Dask collection"):
        model.margins(X, da.from_array(y))
    unknown = lazy[lazy[:, 0] > 0]
    with pytest.raises(TypeError, match=r"y of .*margins must be given"):
        model.margins(lazy)
    with pytest.raises(ValueError, match="y is in one place"):
        model.margins(unknown, y)
    with pytest.raises(ValueError, match="cut into 2 blocks and X into 3"):
        model.margins(unknown, da.from_array(y, chunks=23))
    with pytest.raises(ValueError, match="X must be a Dask collection"):
        model.score(X, da.from_array(y))
    with pytest.raises(ValueError, match=r"LVQClassifier\.fit does not take"):
        make("LVQClassifier").fit(lazy, y)
