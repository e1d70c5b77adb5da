"""What every tangent generator promises; a new one needs one line in GENERATORS."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from widemargin.tangents import (
    ImageTangents,
    LearnedTangents,
    SignalTangents,
    SpectrumTangents,
    TangentUnion,
    TransformTangents,
)
from widemargin.tangents import (
    bundle as bundles,
)

N, D = 23, 36


def power(X, p):
    return np.sign(X) * np.abs(X) ** (1 + p)


def drift(X, p):
    return X + p * np.linspace(0, 1, X.shape[1], dtype=X.dtype)


GENERATORS = {
    "image": ImageTangents((6, 6)),
    "image all": ImageTangents((6, 6), directions=ImageTangents._known, sigma=0.3),
    "image affine": ImageTangents((6, 6), ("rotation", "blur", "contrast"), 1.0, -1.0),
    "image colour": ImageTangents((4, 3, 3), background=0.5),
    "signal": SignalTangents(),
    "signal all": SignalTangents(SignalTangents._known, sigma=2.0),
    "signal channels": SignalTangents(("warp", "offset", "slope"), n_channels=3),
    "spectrum": SpectrumTangents(
        ("gain", "scatter", "shift", "stretch", "offset", "slope", "curvature", "cubic")
    ),
    "spectrum, known": SpectrumTangents(
        "shift",
        wavelengths=np.geomspace(900, 1700, D),
        interferents=np.eye(D)[3:5],
        pairs=(np.eye(D), np.eye(D) + np.linspace(0, 1, D)),
    ),
    "transform": TransformTangents([power, drift]),
    "transform step": TransformTangents(power, step=1e-3),
    "learned": LearnedTangents(n_tangents=4, n_neighbors=2),
    "learned class": LearnedTangents(n_tangents=3, per_class=True),
    "learned local": LearnedTangents(n_tangents=3, local=True),
    "union": TangentUnion(
        [ImageTangents((6, 6), "blur"), LearnedTangents(2), LearnedTangents(1)]
    ),
    "union affine": TangentUnion([("a", SignalTangents()), ("b", LearnedTangents(2))]),
}
FIXED_DTYPE = [np.float64, np.float32]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).cumsum(axis=1)
    return X, np.arange(N) % 3


@pytest.fixture(params=GENERATORS, scope="module")
def unfitted(request):
    return GENERATORS[request.param]


@pytest.fixture
def generator(unfitted, data):
    return clone(unfitted).fit(*data)


@pytest.mark.parametrize("dtype", FIXED_DTYPE)
def test_tangents_have_the_shape_and_dtype_of_the_samples(generator, data, dtype):
    X = data[0].astype(dtype)
    tangents = generator.tangents(X)
    assert tangents.shape == (N, generator.n_tangents, D)
    assert tangents.dtype == dtype
    assert np.isfinite(tangents).all()
    assert np.abs(tangents).max() > 0


@pytest.mark.parametrize("dtype", FIXED_DTYPE)
def test_bundle_spans_the_tangents(generator, data, dtype):
    X = data[0].astype(dtype)
    bundle = generator.bundle(X, n_jobs=2)
    assert bundle.frames.dtype == dtype
    np.testing.assert_array_equal(bundle.points, X)
    tol = 1e-12 if dtype == np.float64 else 1e-6
    units = bundle.frames.astype(float)
    for frame, rank, raw in zip(
        units, bundle.ranks, generator.tangents(X), strict=True
    ):
        expected = np.diag(np.arange(len(frame)) < rank)
        np.testing.assert_allclose(frame @ frame.T, expected, atol=tol)
        raw = raw.astype(float)
        outside = np.linalg.norm(raw - raw @ frame.T @ frame, axis=1)
        assert (outside <= 1e-4 * np.linalg.norm(raw, axis=1)).all()


def test_blocks_and_threads_do_not_change_a_bit(generator, data, monkeypatch):
    X, y = data
    expected = generator.bundle(X, y).frames
    tangents = generator.tangents(X, y)
    for block in (1, 7 * D, 50 * D):
        monkeypatch.setattr(bundles, "BLOCK_NUMBERS", block)
        for n_jobs in (1, 2):
            found = generator.bundle(X, y, n_jobs=n_jobs).frames
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(generator.tangents(X, y), tangents)
    with config_context(working_memory=0.001):
        np.testing.assert_array_equal(generator.bundle(X, y).frames, expected)


def test_a_sample_has_the_tangents_it_has_alone(generator, data):
    X, y = data
    alone = np.concatenate([generator.tangents(X[[i]], y[[i]]) for i in range(N)])
    np.testing.assert_array_equal(alone, generator.tangents(X, y))


def test_is_affine_is_true_exactly_where_midpoints_have_mean_tangents(generator, data):
    X = data[0]
    left, right = X[:-1], X[1:]
    mean = (generator.tangents(left) + generator.tangents(right)) / 2
    middle = generator.tangents((left + right) / 2)
    holds = np.allclose(mean, middle, rtol=1e-9, atol=1e-9)
    assert generator.is_affine == holds


def test_input_is_left_alone_and_may_be_awkward(generator, data):
    X = data[0]
    expected = generator.tangents(X)
    frozen = X.copy()
    frozen.setflags(write=False)
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    for awkward in (frozen, strided, np.asfortranarray(X), X.tolist()):
        np.testing.assert_array_equal(generator.tangents(awkward), expected)
    np.testing.assert_array_equal(frozen, X)


def test_integers_are_float64(generator, data):
    X = np.rint(10 * data[0]).astype(np.int16)
    found = generator.tangents(X)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, generator.tangents(X.astype(float)))
    assert generator.bundle(X).points.dtype == np.float64


def test_clone_params_repr_and_pickle(unfitted, generator, data):
    X = data[0]
    copy = clone(unfitted)
    assert copy is not unfitted
    assert repr(copy) == repr(unfitted)
    assert type(unfitted).__name__ in repr(unfitted)
    params = unfitted.get_params(deep=False)
    assert clone(unfitted).set_params(**params).get_params(deep=False) == params
    again = pickle.loads(pickle.dumps(generator))
    np.testing.assert_array_equal(again.tangents(X), generator.tangents(X))


def test_only_what_learns_needs_fit(unfitted, data):
    X = data[0]
    fresh = clone(unfitted)
    if fresh.__sklearn_tags__().requires_fit or "LearnedTangents" in repr(fresh):
        with pytest.raises(NotFittedError):
            fresh.tangents(X)
    else:
        expected = clone(unfitted).fit(X).tangents(X)
        np.testing.assert_array_equal(fresh.tangents(X), expected)


def test_bad_samples_are_refused(generator, data):
    X = data[0]
    for value in (np.nan, np.inf):
        bad = X.copy()
        bad[2, 3] = value
        with pytest.raises(ValueError, match="contains"):
            generator.tangents(bad)
        with pytest.raises(ValueError, match="contains"):
            generator.bundle(bad)
    with pytest.raises(ValueError, match="0 sample"):
        generator.bundle(X[:0])
    with pytest.raises(ValueError, match=f"{D} features"):
        generator.tangents(X[:, :-1])
    with pytest.raises(ValueError, match="2D array"):
        generator.tangents(X[0])


def test_blank_samples_are_silent(generator):
    frames_of_zero = generator.bundle(np.zeros((2, D))).frames
    assert np.isfinite(frames_of_zero).all()


class NearestMean(ClassifierMixin, BaseEstimator):
    """Smallest estimator with a generator for a parameter: one-sided distances."""

    def __init__(self, tangents=None):
        self.tangents = tangents

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == c].mean(axis=0) for c in self.classes_])
        self.generator_ = clone(self.tangents).fit(X, y)
        return self

    def predict(self, X):
        bundle = self.generator_.bundle(X)
        delta = bundle.points[:, np.newaxis] - self.means_
        along = np.einsum("nld,ncd->ncl", bundle.frames, delta)
        square = (delta**2).sum(axis=2) - (along**2).sum(axis=2)
        return self.classes_[square.argmin(axis=1)]


@pytest.mark.parametrize(
    ("tangents", "grid"),
    [
        (ImageTangents((6, 6)), {"tangents__sigma": [0.3, 1.0]}),
        (
            TangentUnion([ImageTangents((6, 6)), LearnedTangents(2)]),
            {
                "tangents__imagetangents__sigma": [0.3, 1.0],
                "tangents__learnedtangents": [LearnedTangents(1), LearnedTangents(3)],
            },
        ),
    ],
)
def test_grid_search_reaches_nested_parameters(tangents, grid, data):
    search = GridSearchCV(NearestMean(tangents), grid, cv=2).fit(*data)
    assert set(search.best_params_) == set(grid)
    sigmas = {params[next(iter(grid))] for params in search.cv_results_["params"]}
    assert sigmas == {0.3, 1.0}
    assert 0 <= search.best_score_ <= 1


def test_a_new_generator_is_a_class_of_a_few_lines():
    """What varies with temperature: all one needs to add it to everything."""
    from widemargin import TangentKNeighborsClassifier
    from widemargin.metrics import tangent_distances
    from widemargin.tangents import TangentGenerator

    class Drift(TangentGenerator):
        is_affine = True
        n_tangents = 1

        def __init__(self, power=1.0):
            self.power = power

        def _tangents_of(self, X, y):
            ramp = np.linspace(0, 1, X.shape[1], dtype=X.dtype) ** self.power
            return lambda rows: np.broadcast_to(ramp, (len(X[rows]), 1, X.shape[1]))

    rng = np.random.default_rng(0)
    X, y = rng.random((40, 12)), np.repeat([0, 1], 20)
    X[y == 1] += np.sin(np.arange(12))
    drifted = X + 5 * rng.normal(size=(40, 1)) * np.linspace(0, 1, 12) ** 2
    generator = Drift().set_params(power=2)
    found = tangent_distances(drifted, X, tangents=generator, sides="both", spring=0)
    np.testing.assert_allclose(np.diag(found), 0, atol=1e-12)
    model = TangentKNeighborsClassifier(1, tangents=generator, sides="both")
    model.fit(X, y)
    assert model.score(drifted, y) == 1
    assert generator.bundle(X).n_tangents == 1


@pytest.mark.parametrize("name", GENERATORS)
def test_dask_tells_what_was_learned(name, data):
    tokenize = pytest.importorskip("dask.base").tokenize
    X, y = data
    generator = clone(GENERATORS[name])
    fitted = clone(generator).fit(X, y)
    assert tokenize(fitted) == tokenize(clone(generator).fit(X, y))
    assert tokenize(fitted) != tokenize(generator)
    if "learned" in name or "union" in name:
        other = clone(generator).fit(X[:, ::-1] ** 2, y)
        assert tokenize(fitted) != tokenize(other)
