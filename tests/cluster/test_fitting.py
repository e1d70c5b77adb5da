"""Fits over the partitions of a Dask collection: the models of one machine."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from tests.contract.registry import NAMES, make

from widemargin import (
    GLVQClassifier,
    GMLVQClassifier,
    HSSClassifier,
    KernelLVQClassifier,
    MarginLVQClassifier,
    TVQClassifier,
)
from widemargin._core import shards
from widemargin._core.lazy import Part
from widemargin._core.shards import added
from widemargin.margins import Hinge
from widemargin.prototypes import training
from widemargin.prototypes.margin_ascent import QUANTILES, quantiles_of_counts
from widemargin.tangents import ImageTangents

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

X, y = load_digits(return_X_y=True)
X, y = X[:400] / 16, np.array(list("abcdefghij"))[y[:400]]
IMAGES = ImageTangents((8, 8))
# One with no row, one with one class, and the last with labels that no other has.
order = np.concatenate(
    [np.flatnonzero(y == "c"), np.flatnonzero(~np.isin(y, ["c", "j"]))]
)
order = np.concatenate([order, np.flatnonzero(y == "j")])
X, y = X[order], y[order]
CHUNKS = (20, 0, 130, 210, 40)
WHOLE = {"batch_size": 400, "max_iter": 8, "random_state": 0}


def fits_lazily(name):
    return "fit" in getattr(make(name), "lazy_methods", ())


MODELS = {
    "TVQ": TVQClassifier(2, 3, max_iter=12, random_state=0),
    "TVQ, two-sided": TVQClassifier(
        1,
        3,
        sides="both",
        tangents=IMAGES,
        weight_gain="ratio",
        max_iter=4,
        random_state=0,
    ),
    "TVQ, fixed rate": TVQClassifier(
        1, 2, weight_gain=0, learning_rate=1.0, max_iter=5
    ),
    "HSS": HSSClassifier(1, 3),
    "HSS, several": HSSClassifier(3, 3, random_state=0),
    "HSS, two-sided": HSSClassifier(
        2, 3, sides="both", tangents=IMAGES, max_iter=3, random_state=0
    ),
    "GLVQ": GLVQClassifier(**WHOLE),
    "GLVQ, soft": GLVQClassifier(2, loss="rslvq", scale="within_class_std", **WHOLE),
    "GLVQ, a loss": GLVQClassifier(1, loss=Hinge(), class_weight="balanced", **WHOLE),
    "GMLVQ": GMLVQClassifier(2, **WHOLE),
    "GMLVQ, few rows": GMLVQClassifier(2, n_components=3, regularization=0.1, **WHOLE),
    "GMLVQ, diagonal": GMLVQClassifier(metric="diagonal", sparsity=0.1, **WHOLE),
    "GMLVQ, local": GMLVQClassifier(2, metric="local", n_components=3, **WHOLE),
    "margin LVQ": MarginLVQClassifier(2, update="batch", random_state=0),
    "margin LVQ, divided": MarginLVQClassifier(
        2, update="batch", scale="within_class_std", random_state=0
    ),
}


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(**options):
    return da.from_array(X, chunks=(CHUNKS, 40), **options)


def assert_same_model(one, other, atol=1e-9):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_array_equal(one.prototype_labels_, other.prototype_labels_)
    np.testing.assert_allclose(one.prototypes_, other.prototypes_, atol=atol)
    if hasattr(one, "omega_"):
        np.testing.assert_allclose(one.omega_, other.omega_, atol=atol)
    if hasattr(one, "tangents_"):
        # The same spaces: the sign of an eigenvector means nothing.
        for T, S in zip(one.tangents_, other.tangents_, strict=True):
            np.testing.assert_allclose(T.T @ T, S.T @ S, atol=1e-8)
    assert one.n_iter_ == other.n_iter_
    for name, values in one.history_.items():
        near = 0.03 if name == "margin_quantiles" else atol
        np.testing.assert_allclose(values, other.history_[name], atol=near, rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_over_partitions_is_the_fit_of_one_machine(name):
    weights = 1.0 + np.arange(400) % 3
    weights[::17] = 0
    here = clone(MODELS[name]).fit(X, y, weights)
    there = clone(MODELS[name]).fit(lazy(), da.from_array(y, chunks=90), weights)
    assert_same_model(here, there)
    if hasattr(here, "temperature_"):
        assert there.temperature_ == pytest.approx(here.temperature_)
    assert there.n_features_in_ == 64


@pytest.mark.parametrize("chunks", [CHUNKS, (1, 0, 2, 396, 1), (400,)])
@pytest.mark.parametrize(
    "model",
    [
        GLVQClassifier(scale="none", **WHOLE),
        MarginLVQClassifier("auto", update="batch", scale="none", random_state=0),
    ],
)
def test_promises_are_those_of_one_machine(model, chunks):
    blocks = da.from_array(X, chunks=(chunks, 64))
    here, there = clone(model).fit(X, y), clone(model).fit(blocks, y)
    radii = there.certified_radius(blocks).compute()
    np.testing.assert_allclose(radii, here.certified_radius(X), atol=1e-9)
    one, other = (fit.margin_bound(X, y, theta=0.1) for fit in (here, there))
    assert other.value == pytest.approx(one.value)
    assert other.samples_needed == pytest.approx(one.samples_needed)
    with pytest.raises(ValueError, match="margin_bound does not take"):
        there.margin_bound(blocks, y, theta=0.1)


def test_sums_are_over_all_samples_where_choices_are_on_some(monkeypatch):
    monkeypatch.setattr(shards, "MANY", 150)
    assert_same_model(*(HSSClassifier(1, 3).fit(data, y) for data in (X, lazy())))
    first = {"init": X[::40], "init_labels": y[::40]}
    with pytest.raises(ValueError, match="init has no prototype"):
        GLVQClassifier(**first).fit(lazy(), y)
    rows = [np.flatnonzero(y == label)[0] for label in np.unique(y)]
    first = {"init": X[rows], "init_labels": y[rows]}
    plain = MarginLVQClassifier(
        update="batch", margin_scale=1.0, scale="none", max_iter=9, **first
    )
    assert_same_model(*(clone(plain).fit(data, y) for data in (X, lazy())))
    # The unit of steps is that of some samples: the first loss is before any step.
    glvq = GLVQClassifier(scale="none", **WHOLE | first)
    here, there = (clone(glvq).fit(data, y).history_["loss"] for data in (X, lazy()))
    assert here[0] == pytest.approx(there[0], rel=1e-12)
    tvq = TVQClassifier(1, 3, theta=0.3, max_iter=6, random_state=0).fit(lazy(), y)
    margins = tvq.margins(X, y)
    hinge = np.maximum(0, 0.3 - margins).mean()
    assert tvq.history_["loss"][-1] == pytest.approx(hinge, rel=1e-9)
    assert tvq.history_["n_theta_mistakes"][-1] == np.count_nonzero(margins < 0.3)


@pytest.mark.parametrize(
    "name", ["TVQ", "TVQ, two-sided", "HSS, several", "GLVQ", "GMLVQ", "margin LVQ"]
)
def test_only_sums_travel(name, monkeypatch):
    monkeypatch.setattr(shards, "MANY", 100)
    ask, sizes = shards._asked, []

    def asked(shared, *parts):
        """Note how large it is what leaves a worker: all that is no part."""
        answer = ask(shared, *parts)
        given = answer.term if isinstance(answer, Part) else answer
        function = getattr(shared[1], "__name__", "part")
        size = max(len(pickle.dumps(given)), sizes[-1].get(function, 0))
        sizes[-1][function] = size
        return answer

    monkeypatch.setattr(shards, "_asked", asked)
    for times in (1, 8):
        sizes.append({})
        many = da.from_array(np.tile(X, (times, 1)), chunks=(200 * times, 64))
        clone(MODELS[name]).set_params(max_iter=3).fit(many, np.tile(y, times))
    few, many = sizes
    assert few.keys() == many.keys()
    # The samples that choices are made on are some hundred, of however many.
    assert many.pop("_drawn") < 2 * few.pop("_drawn")
    for function, size in many.items():
        # A prototype that no sample of a part is near has no moments.
        assert size <= 1.2 * few[function] + 100, function


def test_some_samples_stand_for_all(monkeypatch):
    monkeypatch.setattr(shards, "MANY", 100)
    model = GLVQClassifier(random_state=0)
    given = shards.check_shards(model, lazy(), y, np.arange(400.0))
    some = given.subsample()
    assert given.n_rows == 399
    assert 100 <= len(some) < 160
    assert {*some.labels} == {*y}
    for label in given.classes:
        total = np.arange(400.0)[y == label].sum()
        assert some.weights[some.labels == label].sum() == pytest.approx(total)
    np.testing.assert_array_equal(X[some.rows], some.X)
    np.testing.assert_array_equal(y[some.rows], some.labels)


def test_batches_take_a_share_of_every_partition():
    model = GLVQClassifier(2, max_iter=10, random_state=0).fit(lazy(), y)
    assert model.score(X, y) > 0.9
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    matrix = GMLVQClassifier(1, batch_size=30, max_iter=5, random_state=0)
    assert matrix.fit(lazy(), y).score(lazy(), y) > 0.9


@pytest.mark.parametrize("kind", [GLVQClassifier, GMLVQClassifier])
def test_equal_rows_are_one_sample_for_the_temperature(kind):
    # One of 150 rows is there twice.
    flowers, labels = load_iris(return_X_y=True)
    model = kind(max_iter=5, batch_size=150, random_state=0)
    blocks = da.from_array(flowers, chunks=(40, 4))
    here, there = (clone(model).fit(data, labels) for data in (flowers, blocks))
    assert_same_model(here, there)
    assert there.temperature_ == pytest.approx(here.temperature_, rel=1e-9)


def test_where_nothing_can_be_held_out_it_is_said():
    model = GLVQClassifier(early_stopping=True, validation_fraction=0.01)
    with pytest.raises(ValueError, match="of 400 samples holds none out"):
        model.fit(lazy(), y)


def test_the_temperature_is_that_of_what_is_held_out():
    model = GLVQClassifier(1, early_stopping=True, max_iter=4, random_state=0)
    model.fit(lazy(), y)
    given = shards.check_shards(model, lazy(), y)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    held = given.taken(training._held_out, 0.1, seed, True).few(400)
    assert 0 < len(held) < 80
    before = model.temperature_
    model._calibrate(model._costs_of_unseen(held))
    assert model.temperature_ == pytest.approx(before, rel=1e-9)


def test_early_stopping_holds_out_of_every_partition():
    model = TVQClassifier(1, 2, early_stopping=True, max_iter=8, random_state=0)
    model.fit(lazy(), y)
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_iter_
    assert max(scores) > 0.8
    again = clone(model).fit(lazy(), y)
    np.testing.assert_array_equal(again.prototypes_, model.prototypes_)


@pytest.mark.parametrize("name", [n for n in NAMES if fits_lazily(n)])
def test_every_fit_takes_frames_and_blocks_of_unknown_size(name):
    options = {"MarginLVQClassifier": {"update": "batch"}}.get(name, {})
    model = make(name, **options)
    table = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)])
    framed = clone(model).fit(
        dd.from_pandas(table, npartitions=3),
        dd.from_pandas(pd.Series(y), npartitions=3),
    )
    assert list(framed.feature_names_in_) == list(table.columns)
    # The rows of the frame's partitions, in blocks that do not know how many they are.
    cuts = (134, 133, 133)
    there_X = da.from_array(X, chunks=(cuts, 64))
    kept, there_y = (da.from_array(a, chunks=(cuts,)) for a in (np.full(400, True), y))
    there = clone(model).fit(there_X[kept], there_y[kept])
    answers = framed.decision_function(table), there.decision_function(X)
    np.testing.assert_allclose(*answers, rtol=1e-9, atol=1e-9)
    labels = there.predict(X)
    np.testing.assert_array_equal(framed.predict(table), labels)
    assert labels.dtype == y.dtype
    assert np.mean(labels == y) > 0.8


def test_callbacks_hear_every_epoch():
    heard = []

    class Recorder:
        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            heard.append((context.task_name, context.task_id))

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            heard.append(fitted_estimator.score(X, y))

    model = clone(MODELS["TVQ"]).set_params(max_iter=3, tol=0)
    model.set_callbacks(Recorder()).fit(lazy(), y)
    there, heard[:] = list(heard), []
    model.fit(X, y)
    assert there == heard
    assert there.count(("epoch", 2)) == 1


def test_frames_bring_their_names():
    names = [f"p{i}" for i in range(64)]
    frame = pd.DataFrame(X, columns=names)
    table = dd.from_pandas(frame, npartitions=3)
    labels = dd.from_pandas(pd.Series(y), npartitions=3)
    there = TVQClassifier(1, 2, max_iter=4).fit(table, labels)
    here = TVQClassifier(1, 2, max_iter=4).fit(frame, y)
    assert list(there.feature_names_in_) == names
    np.testing.assert_allclose(there.prototypes_, here.prototypes_, atol=1e-9)
    assert there.predict(table).compute().iloc[0] == here.predict(frame)[0]


def test_blocks_that_are_tensors(monkeypatch):
    torch = pytest.importorskip("torch")
    sklearn = pytest.importorskip("sklearn")
    from widemargin._core import arrays

    monkeypatch.setattr(arrays, "EVERY_TENSOR_IS_ON_A_DEVICE", True)
    blocks = (
        lazy()
        .rechunk((CHUNKS, 64))
        .map_blocks(torch.from_numpy, dtype=float, meta=np.empty((0, 0)))
    )
    for name in ("GLVQ, a loss", "TVQ", "HSS"):
        here = clone(MODELS[name]).fit(X, y)
        with sklearn.config_context(array_api_dispatch=True):
            there = clone(MODELS[name]).fit(blocks, y)
        np.testing.assert_allclose(there.prototypes_, here.prototypes_, atol=1e-6)
        assert isinstance(there.prototypes_, np.ndarray)


def test_what_is_wrong_with_a_partition():
    model = TVQClassifier(1, 2, max_iter=3)
    bad = X.copy()
    bad[160, 3] = np.inf
    with pytest.raises(ValueError, match=r"X, partition 3: .*infinity"):
        model.fit(da.from_array(bad, chunks=(CHUNKS, 64)), y)
    with pytest.raises(ValueError, match="y must have one entry per sample"):
        model.fit(lazy(), y[:399])
    unknown = lazy()[da.from_array(np.arange(400) > 5, chunks=(CHUNKS,))]
    with pytest.raises(ValueError, match=r"X, partition \d: .*inconsistent"):
        model.fit(unknown, da.from_array(y, chunks=((20, 0, 120, 220, 40),)))
    assert not hasattr(model, "classes_")


def test_what_needs_all_samples_in_one_place_is_refused():
    with pytest.raises(ValueError, match=r"weight_gain must be a number or 'ratio'"):
        TVQClassifier(weight_gain=lambda weights, mistakes: 1.0).fit(lazy(), y)
    with pytest.raises(ValueError, match="record_weights must be False"):
        TVQClassifier(record_weights=True).fit(lazy(), y)
    with pytest.raises(ValueError, match="update must be 'batch'"):
        MarginLVQClassifier().fit(lazy(), y)
    with pytest.raises(ValueError, match=r"KernelLVQClassifier\.fit does not take"):
        KernelLVQClassifier().fit(lazy(), y)
    with pytest.raises(ValueError, match=r"GLVQClassifier\.partial_fit does not take"):
        GLVQClassifier().partial_fit(lazy(), y, classes=np.unique(y))


def test_sums_of_structures():
    terms = [(1, np.ones(2)), None, (2, np.arange(2))]
    total, array = added(terms)
    assert total == 3
    np.testing.assert_array_equal(array, [1, 2])
    assert added([None, None]) is None


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_quantiles_from_counts_are_within_an_interval(n):
    mu = np.random.default_rng(n).uniform(-0.9, 0.99, n) ** 3
    counts, edges = np.histogram(mu, 4096, (-1, 1))
    exact = np.quantile(mu, QUANTILES, method="inverted_cdf")
    assert np.abs(quantiles_of_counts(counts) - exact).max() <= edges[1] - edges[0]
