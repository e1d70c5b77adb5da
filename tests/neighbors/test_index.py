"""The protocol of an index, by one oracle for all that keep it."""

import numpy as np
import pytest
from scipy.special import logsumexp

from widemargin._compute.engines import chosen
from widemargin._core import arrays
from widemargin.metrics import TangentMetric, tangent_distances
from widemargin.neighbors.base import IndexOptions, index_of
from widemargin.neighbors.index import FeatureCandidates, FunctionMetric, Index
from widemargin.neighbors.plain import PlainIndex
from widemargin.neighbors.pruned import PrunedIndex
from widemargin.tangents import Bundle, as_bundle

RNG = np.random.default_rng(0)
X, Q = RNG.normal(size=(80, 7)), RNG.normal(size=(15, 7))
# Copies, ties and a query that is a reference.
X[50:55], Q[0] = X[:5], X[3]
# Class 1 of five has no reference.
CODES = np.repeat([0, 2, 3, 4], 20)
GAMMAS = np.array([0.3, 4.0])
LOG_WEIGHTS = np.where(np.arange(80) % 3, 0.0, -2.0)


def tangents(kind, n):
    if kind == "own":
        return RNG.normal(size=(n, 2, 7))
    return np.zeros((0, 7)) if kind == "none" else np.eye(7)[:2] + 0.1


def squares(x, y):
    return ((x[:, None] - y) ** 2).sum(axis=2)


def device(*given, **options):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from widemargin._compute.device.search import DeviceSearch

    torch.set_num_threads(1)
    return DeviceSearch(given[0].to("cpu"), *given[1:], **options)


# Who keeps the protocol, and for which tangents.
INDICES = {
    "all": (Index, "own", {}),
    "pruned": (PrunedIndex, "own", {"n_components": 3}),
    "pruned, brute": (PrunedIndex, "own", {"algorithm": "brute"}),
    "pruned, one frame": (PrunedIndex, "one", {"n_components": 3}),
    "reranked": (PrunedIndex, "own", {"algorithm": "rerank", "n_candidates": 80}),
    "plain": (PlainIndex, "one", {}),
    "plain, no frame": (PlainIndex, "none", {}),
    "device": (device, "own", {"n_components": 4}),
    "device, all": (device, "own", {}),
    "device, one frame": (device, "one", {}),
    "device, no frame": (device, "none", {"n_components": 4}),
    "device, reranked": (device, "own", {"n_candidates": 80, "reranks": True}),
}


@pytest.fixture(params=["engines", "formulas"], autouse=True)
def either_way(request, monkeypatch):
    monkeypatch.setattr("widemargin.neighbors.pruned.MANY_PRODUCTS", 0)
    monkeypatch.setattr("widemargin.neighbors.pruned.MOST_LEFT", 1.0)
    monkeypatch.setattr(arrays, "EVERY_TENSOR_IS_ON_A_DEVICE", True)
    with chosen(request.param):
        yield


def place(index, queries):
    return queries if isinstance(index, Index) else queries.to("cpu")


def check(index, queries, d2, n_neighbors=6):
    """Compare all answers with what squared distances (n, m) say."""
    queries, rows = place(index, queries), np.arange(len(queries))
    order = np.argsort(d2.round(9), axis=1, kind="stable")[:, :n_neighbors]
    distances, found = index.query(queries, n_neighbors)
    np.testing.assert_array_equal(found, order)
    near = np.sqrt(np.take_along_axis(d2, order, axis=1))
    np.testing.assert_allclose(distances, near, rtol=1e-5, atol=1e-6)
    of_class = np.full((len(queries), 5), np.inf)
    sums = np.full((2, len(queries), 5), -np.inf)
    for c in np.unique(CODES):
        own = d2[:, c == CODES]
        of_class[:, c] = own.min(axis=1)
        bumps = LOG_WEIGHTS[c == CODES] - GAMMAS[:, None, None] * own
        sums[:, :, c] = logsumexp(bumps, axis=2)
    found = index.class_distances(queries)
    np.testing.assert_allclose(found, of_class, rtol=1e-5, atol=1e-9)
    for wanted in (None, rows % 5):
        label = of_class.argmin(axis=1) if wanted is None else wanted
        others = of_class.copy()
        others[rows, label] = np.inf
        for one, other in zip(
            index.two_class_distances(queries, wanted),
            (of_class[rows, label], others.min(axis=1)),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-9)
    found = index.sums(*index.measured(queries), LOG_WEIGHTS, GAMMAS)
    np.testing.assert_allclose(found, sums, atol=1e-4)
    found = index.sum_exp(queries, LOG_WEIGHTS, GAMMAS[1])
    np.testing.assert_allclose(found, sums[1], atol=1e-4)
    assert index.max_queries() >= 1


@pytest.mark.parametrize("sides", ["query", "reference", "both", "mean"])
@pytest.mark.parametrize("name", sorted(INDICES))
def test_all_answers_are_those_of_all_distances(name, sides):
    kind, of, options = INDICES[name]
    references = as_bundle(X, tangents(of, len(X)))
    frames = references.frames[:1].repeat(len(Q), axis=0)
    queries = Bundle(Q, frames)
    if of == "own":
        queries = as_bundle(Q, tangents(of, len(Q)))
    metric = TangentMetric(None, sides, 1e-3)
    d2 = tangent_distances(queries, references, sides=sides, spring=1e-3)
    if of == "none":
        d2 = squares(Q, X)
    check(kind(references, CODES, 5, metric, **options), queries, d2)


@pytest.mark.parametrize("name", ["all", "device", "device, all"])
def test_members_of_a_group_are_kept_apart(name):
    kind, of, options = INDICES[name]
    bundle = as_bundle(X, tangents(of, len(X)))
    index = kind(bundle, CODES, 5, TangentMetric(None, "both", 1e-3), **options)
    groups = np.arange(80) % 4
    apart = groups[:15], groups
    d2 = tangent_distances(bundle[:15], bundle, spring=1e-3)
    d2[apart[0][:, None] == groups] = np.inf
    queries = place(index, bundle[:15])
    values, places = index.measured(queries, apart=apart)
    assert places is None
    np.testing.assert_allclose(arrays.to_numpy(values), d2, rtol=1e-5, atol=1e-9)
    found = index.sums(values, places, LOG_WEIGHTS, GAMMAS)
    for c in np.unique(CODES):
        bumps = LOG_WEIGHTS[c == CODES] - GAMMAS[0] * d2[:, c == CODES]
        np.testing.assert_allclose(found[0, :, c], logsumexp(bumps, axis=1), atol=1e-5)


def test_a_function_is_measured_as_it_is():
    metric = FunctionMetric(function=squares)
    index = Index(Bundle.bare(X), CODES, 5, metric, squared=False)
    d2 = squares(Q, X)
    order = np.argsort(d2.round(9), axis=1, kind="stable")[:, :3]
    distances, found = index.query(Bundle.bare(Q), 3)
    np.testing.assert_array_equal(found, order)
    np.testing.assert_allclose(distances, np.take_along_axis(d2, order, axis=1))
    check(Index(Bundle.bare(X), CODES, 5, metric), Bundle.bare(Q), d2)


def test_candidates_and_their_copies():
    """Of every sample two versions; those of the nearest ten are looked at."""
    versions = np.arange(80).reshape(2, 40).T
    metric, apart = TangentMetric(), (np.arange(15), np.arange(80) % 40)
    features = FeatureCandidates(None, X, 10, versions=versions)
    index = Index(Bundle.bare(X), CODES, 5, metric, candidates=features)
    values, places = index.measured(Bundle.bare(Q), 1)
    nearest = np.argsort(squares(Q, X[:40]), axis=1)[:, :10]
    expected = np.sort(np.concatenate([nearest, nearest + 40], axis=1), axis=1)
    np.testing.assert_array_equal(places, expected)
    d2 = np.take_along_axis(squares(Q, X), places, axis=1)
    np.testing.assert_allclose(values, d2)
    found = index.class_distances(Bundle.bare(Q))
    sums = index.sums(*index.measured(Bundle.bare(Q)), LOG_WEIGHTS, GAMMAS)
    for i in range(15):
        for c in range(5):
            own = CODES[places[i]] == c
            assert found[i, c] == pytest.approx(d2[i, own].min(initial=np.inf))
            # A class without candidates is as far as the farthest.
            bumps = -GAMMAS[:, None] * d2[i].max()
            if own.any():
                weights = LOG_WEIGHTS[places[i, own]]
                bumps = weights - GAMMAS[:, None] * d2[i, own]
            np.testing.assert_allclose(
                sums[:, i, c], logsumexp(bumps, axis=1), atol=1e-9
            )
    own = index.measured(Bundle.bare(X[:15]), 1, None, apart)
    there = own[1] >= 0
    assert not (own[1] % 40 == np.arange(15)[:, None])[there].any()
    np.testing.assert_array_equal(np.isinf(own[0]), ~there)


def test_who_is_asked():
    wanted = IndexOptions("exact", n_neighbors=1, n_candidates=5)
    bundle = as_bundle(X, tangents("own", len(X)))
    for references, metric, request, kind in (
        (bundle, TangentMetric(), wanted, PrunedIndex),
        (Bundle.bare(X), TangentMetric(), wanted, PlainIndex),
        (bundle, TangentMetric(), IndexOptions(), Index),
        (bundle, FunctionMetric(function=squares), wanted, Index),
    ):
        assert type(index_of(references, CODES, 5, metric, request)) is kind
    there = bundle.to(device_of_tensors())
    found = index_of(there, CODES, 5, TangentMetric(), wanted)
    assert type(found).__name__ == "DeviceSearch"


def device_of_tensors():
    pytest.importorskip("torch", reason="torch is not installed")
    return "cpu"
