"""What a model compared a sample with, against its own answers and plain loops."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import widemargin
from widemargin.inspection import AlignmentDisplay, TangentDisplay
from widemargin.inspection.models import nearest_references
from widemargin.metrics import tangent_distances
from widemargin.tangents import ImageTangents, SignalTangents

X, y = load_digits(return_X_y=True)
X, y, NEW = X[:150] / 16, y[:150], X[150:180] / 16
IMAGE = ImageTangents(shape=(8, 8))


@pytest.mark.parametrize(
    "model",
    [
        widemargin.GLVQClassifier(2, random_state=0),
        widemargin.GLVQClassifier(2, scale="within_class_std", random_state=0),
        widemargin.LVQClassifier(2, random_state=0),
        *(
            widemargin.GMLVQClassifier(random_state=0, max_iter=5, metric=metric)
            for metric in ("full", "diagonal", "class", "local")
        ),
        widemargin.HSSClassifier(1, n_tangents=3, random_state=0),
        widemargin.HSSClassifier(1, n_tangents=3, scale="within_class_std"),
        widemargin.TangentKNeighborsClassifier(tangents=IMAGE),
        widemargin.TangentKNeighborsClassifier(tangents="none"),
    ],
    ids=repr,
)
def test_the_nearest_reference_has_the_label_of_the_answer(model):
    model.fit(X, y)
    found = nearest_references(model, NEW)
    assert np.array_equal(found.labels[found.nearest], model.predict(NEW))


def test_what_is_left_has_the_length_of_the_distance():
    model = widemargin.TangentKNeighborsClassifier(tangents=IMAGE, sides="both")
    found = nearest_references(model.fit(X, y), NEW)
    distances, places = model.kneighbors(NEW)
    assert np.array_equal(found.points[found.nearest], X[places[:, 0]])
    assert np.allclose(found.distances, distances[:, 0], rtol=1e-5)
    left = np.linalg.norm(found.residuals, axis=1)
    assert np.allclose(left, distances[:, 0], rtol=0.02)


def test_frames_of_divided_features_are_shown_as_changes_of_samples():
    model = widemargin.HSSClassifier(1, n_tangents=3, scale="within_class_std")
    model.fit(X, y)
    found = nearest_references(model, NEW)
    nearest = model._distances_to_classes(NEW).min(axis=1)
    assert np.allclose(found.distances, nearest)
    assert np.array_equal(found.points, model.prototypes_)
    left = np.linalg.norm(found.residuals / model.scale_, axis=1)
    assert np.allclose(left, nearest)
    shown = AlignmentDisplay.from_estimator(model, NEW[0], shape=(8, 8))
    assert np.isclose(shown.tangent_distance, nearest[0])
    assert np.allclose(shown.x, NEW[0])
    assert np.allclose(shown.y, model.prototypes_[found.nearest[0]])
    # Along its own tangents a model is as near as before.
    swept = TangentDisplay.from_estimator(model, index=0, shape=(8, 8))
    moved = model.prototypes_[0] + 0.5 * np.asarray(swept.tangents).sum(axis=0)
    assert np.allclose(model._squared_distances(moved[None])[0, 0], 0)
    assert model._squared_distances(moved[None] + 0.1)[0, 0] > 0.01


def test_tangents_that_the_fit_put_aside_align_nothing():
    at = np.linspace(0, 1, 60)
    rng = np.random.default_rng(0)
    late = np.repeat([0.3, 0.315], 60) + rng.normal(0, 0.002, 120)
    beats = np.exp(-(((at - late[:, None]) / 0.1) ** 2))
    beats += rng.normal(0, 0.02, beats.shape)
    moves = SignalTangents(["shift"])
    model = widemargin.TangentKNeighborsClassifier(tangents=moves)
    model.fit(beats, np.repeat([0, 1], 60))
    assert model.sides_ == "none"
    found = nearest_references(model, beats[:5] + 0.01)
    assert np.allclose(found.distances, model.kneighbors(beats[:5] + 0.01)[0][:, 0])


def test_euclidean_references_leave_the_difference():
    model = widemargin.GLVQClassifier(random_state=0).fit(X, y)
    found = nearest_references(model, NEW)
    assert np.allclose(found.residuals, NEW - model.prototypes_[found.nearest])


def test_support_vectors_are_the_nearest_under_the_kernel():
    model = widemargin.TangentSVC(tangents=IMAGE, sides="both").fit(X, y)
    found = nearest_references(model, NEW)
    D = tangent_distances(NEW, X[model.support_], tangents=IMAGE, spring=model.spring_)
    assert np.array_equal(found.nearest, D.argmin(axis=1))


def test_hyperplanes_keep_no_samples():
    model = widemargin.MaxMarginClassifier().fit(X, y)
    assert nearest_references(model, NEW) is None
