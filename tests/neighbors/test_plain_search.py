"""Neighbours without frames of their own: scikit-learn's finds, made exact."""

import subprocess
import sys

import numpy as np
import pytest

from widemargin import TangentKNeighborsClassifier
from widemargin.metrics import TangentMetric, tangent_distances
from widemargin.neighbors.plain import PlainIndex
from widemargin.tangents import Bundle, orthonormalize

NO_FRAMES = np.empty((0, 6))


def search(X, frames=NO_FRAMES, **options):
    codes = options.pop("codes", np.zeros(len(X), int))
    metric = TangentMetric(None, **{"sides": "both", "spring": 1e-5, **options})
    return PlainIndex(bundle(X, frames), codes, 6, metric, n_candidates=20)


def bundle(X, frames=NO_FRAMES):
    frames = np.asarray(frames, X.dtype)
    return Bundle(X, np.broadcast_to(frames, (len(X), *frames.shape)))


def oracle(Q, X, k):
    """Nearest by distance and index, from differences."""
    d2 = ((Q[:, None].astype(np.longdouble) - X) ** 2).sum(axis=2)
    order = np.lexsort((np.broadcast_to(np.arange(len(X)), d2.shape), d2), axis=1)
    order = order[:, :k]
    return np.sqrt(np.take_along_axis(d2, order, axis=1)).astype(float), order


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 5, 300])
@pytest.mark.parametrize("kind", ["plain", "far", "outlier", "grid", "copies"])
def test_finds_what_differences_say(kind, k, dtype):
    rng = np.random.default_rng([k, len(kind)])
    X, Q = rng.normal(size=(300, 6)), rng.normal(size=(70, 6))
    if kind == "far":
        X, Q = X + 1000, Q + 1000
    elif kind == "outlier":
        X[7], Q[3] = 1e5, -1e6
    elif kind == "grid":
        # So many ties that the k-th is never clear.
        X, Q = rng.integers(2, size=(300, 6)), rng.integers(2, size=(70, 6))
    elif kind == "copies":
        X[100:] = X[rng.integers(100, size=200)]
        Q[:30] = X[:30]
    X, Q = X.astype(dtype), Q.astype(dtype)
    distances, indices = search(X).query(bundle(Q), k)
    expected, nearest = oracle(Q, X, k)
    np.testing.assert_allclose(distances, expected, rtol=1e-12)
    np.testing.assert_array_equal(indices, nearest)


@pytest.mark.parametrize("sides", ["query", "reference", "both", "mean"])
def test_a_frame_that_all_share_is_ignored(sides):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(200, 6)), rng.normal(size=(40, 6))
    frame = orthonormalize(rng.normal(size=(1, 2, 6)))[0]
    # What lies along the frame is large, and rounds what is left.
    X += 1e4 * rng.normal(size=(200, 2)) @ frame
    found, indices = search(X, frame, sides=sides, spring=1e-9).query(
        bundle(Q, frame), 4
    )
    d = tangent_distances(Q, X, tangents=frame, sides=sides, spring=1e-9, squared=False)
    np.testing.assert_array_equal(indices, np.argsort(d, axis=1)[:, :4])
    np.testing.assert_allclose(found, np.sort(d, axis=1)[:, :4], rtol=1e-6)


def test_alone_as_among_others():
    rng = np.random.default_rng(1)
    X, Q = rng.normal(size=(2000, 30)), rng.normal(size=(600, 30))
    frame = np.empty((0, 30))
    found = search(X, frame)
    distances, indices = found.query(bundle(Q, frame), 3)
    for i in (0, 1, 311, 599):
        d, j = found.query(bundle(Q[i : i + 1], frame), 3)
        np.testing.assert_array_equal(d[0], distances[i])
        np.testing.assert_array_equal(j[0], indices[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [6, 40])
@pytest.mark.parametrize(
    "kind", ["plain", "far", "outlier", "grid", "copies", "equal", "close", "tiny"]
)
def test_nearest_of_every_class(kind, d, dtype):
    rng = np.random.default_rng(2)
    X, Q = rng.normal(size=(150, d)), rng.normal(size=(20, d))
    if kind == "far":
        X, Q = X + 1000, Q + 1000
    elif kind == "outlier":
        # Of lengths whose squares float32 does not hold, beside the references.
        X[7], Q[3], Q[4] = 1e5, -1e6, 1e25
    elif kind == "grid":
        X, Q = rng.integers(2, size=(150, d)), rng.integers(2, size=(20, d))
    elif kind == "copies":
        X[100:] = X[rng.integers(100, size=50)]
        Q[:15] = X[:15]
    elif kind == "equal":
        X[:], Q[:10] = X[0], X[0]
    elif kind == "close":
        # What tells them apart is beyond float32 beside what all share.
        X, Q = 1e-5 * X, 1e-5 * Q
        X[75:] += 1.0
        Q[::2] += 1.0
    elif kind == "tiny":
        X, Q = 1e-12 * X, 1e-12 * Q
    X, Q = X.astype(dtype), Q.astype(dtype)
    codes = np.sort(rng.integers(5, size=150))
    codes[codes == 3] = 4
    frame = np.empty((0, d))
    index = search(X, frame, codes=codes)
    found = index.class_distances(bundle(Q, frame))
    for i in (0, 3, 19):
        alone = index.class_distances(bundle(Q[i : i + 1], frame))
        np.testing.assert_array_equal(alone[0], found[i])
    Q = Q.astype(float)
    d2 = ((Q[:, None] - X.astype(float)) ** 2).sum(axis=2)
    for c in range(6):
        own = d2[:, codes == c]
        expected = own.min(axis=1) if own.size else np.full(len(Q), np.inf)
        np.testing.assert_allclose(found[:, c], expected, rtol=1e-12)
    d_plus, d_minus = index.two_class_distances(bundle(Q, frame), None)
    np.testing.assert_allclose(d_plus, d2.min(axis=1), rtol=1e-12)
    other = np.where(codes == codes[d2.argmin(axis=1), None], np.inf, d2)
    np.testing.assert_allclose(d_minus, other.min(axis=1), rtol=1e-12)


def test_queries_beyond_the_dtype_of_the_references():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 6)).astype(np.float32)
    Q = 1e40 * rng.normal(size=(3, 6))
    distances, indices = search(X).query(bundle(Q), 2)
    expected, nearest = oracle(Q, X, 2)
    np.testing.assert_allclose(distances, expected, rtol=1e-12)
    np.testing.assert_array_equal(indices, nearest)


def test_nothing_is_compiled():
    code = """
import sys
import numpy as np
from widemargin.metrics import TangentMetric
from widemargin.neighbors.plain import PlainIndex
from widemargin.tangents import Bundle
X = Bundle.bare(np.random.default_rng(0).normal(size=(100, 5)))
search = PlainIndex(X, np.repeat([0, 1], 50), 2, TangentMetric())
search.query(X, 3)
search.two_class_distances(X, None)
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_many_queries_need_no_matrix_of_pairs():
    import tracemalloc

    rng = np.random.default_rng(4)
    X, Q = rng.normal(size=(20_000, 8)), rng.normal(size=(2000, 8))
    knn = TangentKNeighborsClassifier(3, tangents="none").fit(X, X[:, 0] > 0)
    knn.predict(Q[:10])
    tracemalloc.start()
    knn.predict(Q)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
