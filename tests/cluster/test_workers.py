"""Workers in other processes: what is sent, what is lost with one, what is heard."""

import os
import signal
import time
from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_digits

from widemargin import (
    GLVQClassifier,
    HSSClassifier,
    MarginLVQClassifier,
    MaxMarginClassifier,
    TangentKNeighborsClassifier,
    TVQClassifier,
)
from widemargin._compute.progress import observed_by
from widemargin._core import shards
from widemargin.tangents import ImageTangents

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

X, y = load_digits(return_X_y=True)
X, y = X[:600] / 16, y[:600]
lazy_X, lazy_y = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)


@pytest.fixture(scope="module")
def cluster():
    settings = {
        # Idle workers would take the samples of others, if these are slow to begin.
        "distributed.scheduler.work-stealing": False,
        "distributed.worker.multiprocessing-method": "forkserver",
        # How long the others may call one that was killed.
        "distributed.comm.timeouts.connect": "4s",
    }
    with dask.config.set(settings):
        # Workers, and those that follow them, are copies of one that has imported all.
        context = distributed.utils.get_mp_context()
        context.set_forkserver_preload(
            ["distributed", "widemargin.prototypes", "numba"]
        )
        with distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            memory_limit=0,
            silence_logs=50,
        ) as workers:
            yield workers


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as one:
        one.wait_for_workers(2, timeout=30)
        yield one


def kill_one(client):
    os.kill(sorted(client.run(os.getpid).values())[0], signal.SIGKILL)


class Probe:
    """Something in a model that says where it was unpacked."""

    def __init__(self, path):
        self.path = path

    def __setstate__(self, state):
        self.__dict__.update(state)
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")


def test_the_model_is_sent_once_per_worker(client, tmp_path):
    model = GLVQClassifier(1, max_iter=2, random_state=0).fit(X, y)
    model.probe = Probe(str(tmp_path / "places"))
    many = da.from_array(np.tile(X, (4, 1)), chunks=(50, 64))
    answers = model.predict(many).compute()
    np.testing.assert_array_equal(answers, np.tile(model.predict(X), 4))
    places = Counter((tmp_path / "places").read_text().split())
    here = str(os.getpid())
    assert 1 <= len(places.keys() - {here}) <= 2
    assert all(count <= 2 for place, count in places.items() if place != here)


def test_a_worker_lost_while_it_answers_costs_time_only(client):
    model = GLVQClassifier(1, max_iter=2, random_state=0).fit(X, y)
    slow = lazy_X.map_blocks(slowly, dtype=float)
    answer = client.compute(model.confidence(slow))
    time.sleep(0.3)
    kill_one(client)
    np.testing.assert_allclose(answer.result(timeout=60), model.confidence(X))


def slowly(block):
    time.sleep(0.15)
    return block


@pytest.mark.parametrize(
    ("model", "fitted", "at"),
    [
        (TVQClassifier(1, 2, max_iter=8, random_state=0), "prototypes_", 12),
        (GLVQClassifier(1, batch_size=600, max_iter=6), "prototypes_", 8),
        (MaxMarginClassifier(), "coef_", 5),
    ],
    ids=["TVQ", "GLVQ", "MaxMargin"],
)
def test_a_worker_lost_in_a_fit_costs_time_only(client, model, fitted, at, monkeypatch):
    model.set_params(random_state=0)
    expected = getattr(model.fit(lazy_X, lazy_y), fitted)
    asked, ask = [], shards.Shards._ask

    def kill(self, *args, **options):
        asked.append(1)
        if len(asked) == at:
            kill_one(client)
        return ask(self, *args, **options)

    monkeypatch.setattr(shards.Shards, "_ask", kill)
    there = getattr(model.fit(lazy_X, lazy_y), fitted)
    assert len(asked) > at
    np.testing.assert_allclose(there, expected, atol=1e-9)


def test_references_that_were_lost_are_made_again(client):
    options = {"tangents": ImageTangents((8, 8)), "n_neighbors": 3, "spring": 0.1}
    here = TangentKNeighborsClassifier(**options).fit(X[:400], y[:400])
    there = TangentKNeighborsClassifier(**options).fit(lazy_X[:400], lazy_y[:400])
    held = client.who_has(distributed.futures_of(there._parts.parts))
    assert len(held) == 4
    assert all(held.values())
    kill_one(client)
    pairs = zip(
        dask.compute(*there.kneighbors(lazy_X[400:])),
        here.kneighbors(X[400:]),
        strict=True,
    )
    for one, other in pairs:
        np.testing.assert_array_equal(one, other)


def test_samples_that_are_nowhere_else(client, monkeypatch):
    monkeypatch.setattr(shards, "MANY", 1000)
    many = da.random.default_rng(0).normal(size=(8000, 64), chunks=(1000, 64))
    labels = (many[:, 0] + many[:, 1] > 0).astype(int)
    many, labels = client.persist([many, labels])
    model = MarginLVQClassifier(2, update="batch", max_iter=3, random_state=0)
    model.fit(many, labels)
    assert model.score(many, labels) > 0.7
    hss = HSSClassifier(1, 3).fit(many, labels)
    assert hss.predict(many).shape == (8000,)


def bytes_given(dask_worker):
    """Bytes that a worker has sent to anyone since it was last asked."""
    log = dask_worker.transfer_outgoing_log
    total = sum(one["total"] for one in log)
    log.clear()
    return total


def bytes_to_fetch(task, place):
    """Bytes that a task would need from other workers."""
    return sum(one.nbytes for one in task.dependencies if place not in one.who_has)


def test_only_sums_travel(client, cluster, monkeypatch):
    monkeypatch.setattr(shards, "MANY", 100)
    # On a busy machine Dask would rather send samples to an idle worker than wait.
    monkeypatch.setattr(cluster.scheduler, "worker_objective", bytes_to_fetch)
    given, take = [], TVQClassifier._set_fitted

    def count(self, state):
        given.append(sum(client.run(bytes_given).values()))
        return take(self, state)

    monkeypatch.setattr(TVQClassifier, "_set_fitted", count)
    many = client.persist(da.concatenate([lazy_X] * 80).rechunk((12_000, 64)))
    TVQClassifier(1, 2, theta=0.4, max_iter=5, tol=0).fit(many, np.tile(y, 80))
    # Ten models, their sums and what counts margins; never one number per sample.
    assert 0 < np.median(given[1:5]) < 50 * 10 * 64 * 8 < 8 * len(many)


def test_progress_is_heard(client):
    told = Counter()

    class Loop:
        def __init__(self, description, total):
            self.description = description

        def __enter__(self):
            return lambda amount=1: told.update([self.description])

        def __exit__(self, *error):
            return None

    with observed_by(Loop):
        TVQClassifier(1, 2, max_iter=4, tol=0).fit(lazy_X, lazy_y)
    assert told["epochs"] == 4
