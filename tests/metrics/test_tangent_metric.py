"""TangentMetric against least squares, and against the function that uses it."""

import pickle
import warnings
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tests.metrics.oracle import all_pairs, midpoint_pairs

from widemargin.metrics import TangentMetric, tangent_distances
from widemargin.metrics.tangent import on_a_shared_frame
from widemargin.tangents import Bundle, ImageTangents, LearnedTangents, as_bundle

X = np.random.default_rng(0).random((30, 16))
Y = np.random.default_rng(1).random((7, 16))
labels = np.repeat([0, 1, 2], 10)
IMAGE = ImageTangents((4, 4), directions=["x_shift", "rotation", "brightness"])
SIDES = ["query", "reference", "both", "mean", "midpoint"]


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_function(sides, dtype):
    metric = TangentMetric(IMAGE, sides, 0.1).check().fit(X)
    x, y = metric.bundle(X.astype(dtype)), metric.bundle(Y.astype(dtype))
    found = metric.squared_distances(x, y)
    expected = tangent_distances(
        X.astype(dtype), Y.astype(dtype), tangents=IMAGE, sides=sides, spring=0.1
    )
    assert found.dtype == dtype
    assert_array_equal(found, expected)
    assert_allclose(metric.distances(x, y) ** 2, found, rtol=1e-5)
    own = metric.squared_distances(x)
    assert_allclose(own, metric.squared_distances(x, x), rtol=1e-3, atol=1e-6)
    if sides not in ("query", "reference"):
        assert_array_equal(own, own.T)
    for end, bundle in (("query", x), ("reference", y)):
        points = X if end == "query" else Y
        bare = metric.bundle(points.astype(dtype), end=end)
        assert bare.n_tangents == (3 if metric.looks_at(end) else 0)
        assert_array_equal(bare.points, bundle.points)


@settings(max_examples=60, deadline=None)
@given(
    sides=st.sampled_from(SIDES[:-1]),
    other=st.sampled_from([None, *SIDES[:-1]]),
    spring=st.sampled_from([0.0, 1e-5, 0.3, 50.0]),
    n_tangents=st.integers(0, 5),
    seed=st.integers(0, 2**16),
)
def test_shared_tangents_equal_least_squares(sides, other, spring, n_tangents, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(2, 5, 4))
    metric = TangentMetric(rng.normal(size=(n_tangents, 4)), sides, spring)
    metric = metric.check().fit(A)
    assert metric.has_tangents == (n_tangents > 0)
    x, y = metric.bundle(A), metric.bundle(B)
    found = metric.squared_distances(x, y, sides=other)
    expected = all_pairs(A, x.frames, B, y.frames, other or sides, spring)
    assert_allclose(found, expected, atol=1e-8)


def test_midpoint_equals_its_oracle():
    metric = TangentMetric(IMAGE, "midpoint", 0.2).check().fit(X)
    x, y = metric.bundle(X[:4]), metric.bundle(Y)
    assert x.n_tangents == 0
    expected = midpoint_pairs(X[:4], Y, IMAGE, 0.2)
    assert_allclose(metric.squared_distances(x, y), expected, atol=1e-9)


def test_labels_reach_the_generator():
    generator = LearnedTangents(2, per_class=True)
    metric = TangentMetric(generator).check().fit(X, labels)
    assert not hasattr(generator, "tangents_")
    found = metric.bundle(X, labels)
    assert_array_equal(found.frames, metric.tangents.bundle(X, labels).frames)
    assert not np.array_equal(found.frames, metric.bundle(X).frames)


@pytest.mark.parametrize("sides", SIDES[:-1])
def test_a_shared_frame_needs_one_end(sides):
    metric = TangentMetric(np.eye(16)[:3], sides, 0.3).check()
    one = TangentMetric(metric.tangents, *on_a_shared_frame(sides, 0.3))
    x, y = metric.bundle(X), metric.bundle(Y)
    assert x.is_shared
    expected = all_pairs(X, x.frames, Y, y.frames, sides, 0.3)
    assert_allclose(one.squared_distances(x, y), expected)


def test_a_shared_frame_of_another_dtype_stays_one():
    bundle = Bundle.from_tangents(X.astype(np.float32), np.eye(16)[:2])
    on_doubles = as_bundle(X, bundle)
    assert on_doubles.is_shared
    assert on_doubles.frames.dtype == np.float64
    found = tangent_distances(X, Y, X_tangents=bundle, Y_tangents=bundle[:7])
    assert_allclose(found, tangent_distances(X, Y, tangents=np.eye(16)[:2]))


def test_it_does_not_change_and_travels():
    metric = TangentMetric(IMAGE)
    with pytest.raises(FrozenInstanceError):
        metric.spring = 1.0
    copy = pickle.loads(pickle.dumps(metric.fit(X)))
    assert_array_equal(copy.bundle(Y).frames, metric.bundle(Y).frames)


@pytest.mark.parametrize("sides", SIDES)
def test_blanks_are_told_where_they_matter(sides):
    some = X.copy()
    some[3] = 0
    generator = ImageTangents((4, 4))
    metric = TangentMetric(generator, sides).check()
    bundle = metric.bundle(some)
    if sides == "both":
        with pytest.warns(UserWarning, match="1 of 30 samples here have no") as all_:
            assert metric.warn_of_blanks(bundle, "samples here")
        assert all_[0].filename == __file__
    else:
        assert not metric.warn_of_blanks(bundle)


def test_column_names_are_no_reason_to_warn():
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(16)])
    generator = ImageTangents((4, 4)).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sides in SIDES:
            found = tangent_distances(frame, tangents=generator, sides=sides)
            fresh = ImageTangents((4, 4))
            expected = tangent_distances(X, tangents=generator, sides=sides)
            assert_array_equal(found, expected)
            assert_array_equal(
                tangent_distances(frame, tangents=fresh, sides=sides), expected
            )


NONE_OF = "tangents must be a generator such as ImageTangents"
BAD = [
    (
        {"sides": "one"},
        ValueError,
        "sides must be one of 'query', 'reference', 'both'",
    ),
    ({"sides": ["query"]}, ValueError, "sides must be one of"),
    ({"spring": -1}, ValueError, "spring must be a finite number of at least 0"),
    ({"spring": np.nan}, ValueError, "spring must be a finite number"),
    ({"spring": np.inf}, ValueError, "spring must be a finite number"),
    ({"spring": "1"}, ValueError, "spring must be a finite number"),
    ({"spring": True}, ValueError, "spring must be a finite number"),
    ({"tangents": ImageTangents}, TypeError, "tangents is the class ImageTangents"),
    ({"tangents": 3}, TypeError, NONE_OF),
    ({"tangents": np.nan}, TypeError, NONE_OF),
    ({"tangents": "simard7"}, TypeError, NONE_OF),
    ({"tangents": (row for row in X)}, TypeError, NONE_OF),
    ({"tangents": np.full((2, 16), np.nan)}, ValueError, "tangents contains NaN"),
    ({"tangents": X[0]}, ValueError, f"{NONE_OF}.*got 1 axis"),
    ({"tangents": X[None]}, ValueError, f"{NONE_OF}.*got 3 axes"),
    ({"tangents": [["a"]]}, ValueError, "tangents must hold numbers only"),
    ({"tangents": [[1.0], [1.0, 2.0]]}, ValueError, "rows of different lengths"),
    ({"tangents": {"a": 1}}, (TypeError, ValueError), "tangents must be"),
    ({"tangents": None, "sides": "midpoint"}, ValueError, "needs a generator"),
    ({"tangents": X[:2], "sides": "midpoint"}, ValueError, "needs a generator"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD)
def test_bad_parameters_are_named(options, kind, message):
    with pytest.raises(kind, match=message):
        TangentMetric(**{"tangents": IMAGE, **options}).check()


def test_tangents_must_fit_the_samples():
    with pytest.raises(ValueError, match=r"tangents has 3 features but .* have 16"):
        TangentMetric(np.eye(3)).check().fit(X)
    with pytest.raises(
        ValueError, match="sides must be one of 'query', 'reference'; got 'both'"
    ):
        TangentMetric(None).check(("query", "reference"))


@pytest.mark.parametrize("background", [0.0, -1.0])
@pytest.mark.parametrize("sides", ["both", "mean", "query"])
def test_samples_that_can_fade_away_are_told(sides, background):
    images = np.random.default_rng(2).random((20, 64)) + background
    contrast = ImageTangents(
        (8, 8), directions=["rotation", "contrast"], background=background
    )
    faded = TangentMetric(contrast, sides).check().fit(images)
    bundle = faded.bundle(images)
    if sides == "both":
        # Copies side by side, too.
        for some in (bundle, faded.bundle(np.repeat(images[:40], 3, axis=0))):
            with pytest.warns(UserWarning, match="both ends fade away"):
                faded.warn_of_blanks(some)
        with pytest.warns(UserWarning, match="most samples in X lie in the span"):
            tangent_distances(images, tangents=contrast)
    else:
        assert not faded.warn_of_blanks(bundle)
        tangent_distances(images, tangents=contrast, sides=sides)
    held = TangentMetric(contrast, sides, 0.3)
    assert not held.warn_of_blanks(bundle)
    plain = TangentMetric(ImageTangents((8, 8), background=background), sides)
    assert not plain.warn_of_blanks(plain.bundle(images))


def test_a_new_metric_is_a_function_of_a_few_lines():
    """A mixture of two distances, for the neighbours of any estimator."""
    from widemargin import TangentKNeighborsClassifier

    def mixed(A, B):
        shifted = TangentMetric(IMAGE, "mean", 0.1).check()
        plain = TangentMetric(None).check()
        return sum(
            metric.distances(metric.bundle(A), metric.bundle(B))
            for metric in (shifted, plain)
        )

    model = TangentKNeighborsClassifier(1, metric=mixed, tangents=IMAGE)
    assert model.fit(X, labels).score(X, labels) == 1
    expected = np.argsort(mixed(Y, X), axis=1)[:, :3]
    assert_array_equal(model.kneighbors(Y, 3, return_distance=False), expected)


def test_what_is_no_bundle_is_refused_by_name():
    metric, bundle = TangentMetric(), as_bundle(np.eye(3), np.ones((1, 3)))
    with pytest.raises(TypeError, match="y must be a Bundle"):
        metric.prepare(np.eye(3))
    with pytest.raises(TypeError, match="prepared must be None or"):
        metric.squared_distances(bundle, bundle, prepared={})
