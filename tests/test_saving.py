"""Models in files: whole, safe, small, and the same afterwards."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin
from widemargin._core.callbacks import HAS_CALLBACKS
from widemargin.cli import models
from widemargin.tangents import ImageTangents, LearnedTangents, TransformTangents

X, y = load_digits(return_X_y=True)
X, y, NEW = X[:200] / 16, y[:200], X[200:260] / 16
IMAGE = ImageTangents(shape=(8, 8))


def own_distance(A, B):
    return np.abs(A[:, None] - B).sum(axis=2)


def again(model, tmp_path):
    widemargin.save(model, tmp_path / "m.skops")
    return widemargin.load(tmp_path / "m.skops")


@pytest.mark.parametrize(
    "model",
    [
        widemargin.TVQClassifier(random_state=0, max_iter=3),
        widemargin.TangentKNeighborsClassifier(tangents=IMAGE),
        widemargin.TangentKNeighborsClassifier(
            3,
            tangents=LearnedTangents(2, per_class=True),
            sides="reference",
            algorithm="rerank",
        ),
        widemargin.TangentKNeighborsClassifier(tangents=IMAGE, sides="midpoint"),
        widemargin.TangentKNeighborsClassifier(tangents=np.eye(64)[:2]),
        widemargin.TangentDensityClassifier(tangents=IMAGE, random_state=0),
        make_pipeline(StandardScaler(), widemargin.GLVQClassifier(random_state=0)),
        widemargin.ProductClassifier(
            [
                ("far", LogisticRegression()),
                ("near", widemargin.GLVQClassifier(random_state=0)),
            ],
            weights=[1, 1],
        ),
        widemargin.RejectingClassifier(
            widemargin.HSSClassifier(random_state=0), max_error=0.2, random_state=0
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_was_saved_answers_the_same(model, tmp_path):
    model.fit(X, y)
    loaded = again(model, tmp_path)
    assert type(loaded) is type(model)
    assert np.array_equal(loaded.predict(NEW), model.predict(NEW))
    if hasattr(model, "confidence"):
        assert np.array_equal(loaded.confidence(NEW), model.confidence(NEW))


def test_huge_samples_come_back_in_their_unit(tmp_path):
    model = widemargin.TangentKNeighborsClassifier(tangents="none").fit(1e59 * X, y)
    loaded = again(model, tmp_path)
    assert np.array_equal(loaded.kneighbors(1e59 * NEW), model.kneighbors(1e59 * NEW))


@pytest.mark.parametrize(
    "kind",
    [widemargin.TangentKNeighborsClassifier, widemargin.TangentDensityClassifier],
)
def test_files_of_remembered_samples_hold_points_only(kind, tmp_path):
    model = kind(tangents=IMAGE).fit(X, y)
    widemargin.save(model, tmp_path / "m.skops")
    assert (tmp_path / "m.skops").stat().st_size < X.nbytes
    assert len(pickle.dumps(model)) < 1.3 * X.nbytes


def test_parameters_set_after_the_fit_change_no_file(tmp_path):
    model = widemargin.TangentKNeighborsClassifier(tangents=IMAGE).fit(X, y)
    before = model.kneighbors(NEW, 3)
    model.set_params(algorithm="rerank", n_candidates=1, sides="query")
    assert np.array_equal(pickle.loads(pickle.dumps(model)).kneighbors(NEW, 3), before)


def test_the_command_reads_what_python_saved_and_the_other_way_round(tmp_path):
    model = widemargin.TangentKNeighborsClassifier(tangents=IMAGE).fit(X, y)
    widemargin.save(model, tmp_path / "m.skops")
    saved = models.load(tmp_path / "m.skops")
    assert saved.image_shape == (8, 8)
    assert saved.n_features == 64
    models.save(saved, tmp_path / "n.skops")
    assert widemargin.load(tmp_path / "n.skops").score(X, y) == 1.0


def test_names_of_features_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    widemargin.save(widemargin.GLVQClassifier().fit(frame, y), tmp_path / "m")
    assert models.load(tmp_path / "m").names == ["a", "b", "c"]


def test_refusals_say_what_would_work(tmp_path):
    with pytest.raises(ValueError, match="fit first"):
        widemargin.save(widemargin.TVQClassifier(), tmp_path / "m")
    odd = widemargin.TangentKNeighborsClassifier(
        metric=lambda A, B: own_distance(A, B), tangents="none"
    )
    with pytest.raises(ValueError, match="module of its own"):
        widemargin.save(odd.fit(X, y), tmp_path / "m")
    with pytest.raises(FileNotFoundError, match="no such model"):
        widemargin.load(tmp_path / "m")
    (tmp_path / "m").write_bytes(b"PK")
    with pytest.raises(ValueError, match="damaged"):
        widemargin.load(tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_of_a_search_its_best_is_saved(tmp_path):
    search = GridSearchCV(
        widemargin.GLVQClassifier(random_state=0), {"max_iter": [1, 2]}, cv=2
    ).fit(X, y)
    with pytest.raises(ValueError, match="save its best_estimator_"):
        widemargin.save(search, tmp_path / "m.skops")
    loaded = again(search.best_estimator_, tmp_path)
    assert np.array_equal(loaded.predict(NEW), search.predict(NEW))


def test_classifiers_of_scikit_learn_around_and_inside(tmp_path):
    inner = widemargin.GLVQClassifier(1, max_iter=3, random_state=0)
    for model in (
        CalibratedClassifierCV(inner, cv=2),
        VotingClassifier([("a", inner), ("b", LogisticRegression(max_iter=500))]),
    ):
        model.fit(X, y)
        answers = again(model, tmp_path).predict(NEW)
        np.testing.assert_array_equal(answers, model.predict(NEW))
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"Tree inside cannot be saved.*joblib\.dump"):
        widemargin.save(forest, tmp_path / "m.skops")


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn < 1.9 has no callbacks")
def test_who_watched_a_fit_is_no_part_of_the_model(tmp_path, capfd):
    from sklearn.callback import ProgressBar

    glvq = widemargin.GLVQClassifier(max_iter=3)
    for model in (
        glvq,
        make_pipeline(StandardScaler(), glvq),
        widemargin.RejectingClassifier(glvq, max_error=0.5, random_state=0),
    ):
        model = clone(model).set_callbacks(ProgressBar()).fit(X, y)
        found = again(model, tmp_path)
        np.testing.assert_array_equal(found.predict(NEW), model.predict(NEW))
        assert isinstance(model._skl_callbacks[0], ProgressBar)


def brighter(X, p):
    return X * np.exp(p)


@pytest.mark.parametrize(
    ("model", "functions"),
    [
        (
            widemargin.TangentKNeighborsClassifier(
                tangents=TransformTangents([brighter])
            ),
            [brighter],
        ),
        (
            widemargin.TangentKNeighborsClassifier(
                metric=own_distance, tangents="none"
            ),
            [own_distance],
        ),
    ],
)
def test_functions_of_a_module_are_saved_by_name_and_taken_if_given(
    model, functions, tmp_path
):
    model = clone(model).fit(X, y)
    widemargin.save(model, tmp_path / "m")
    loaded = widemargin.load(tmp_path / "m", functions=functions)
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    name = functions[0].__name__
    with pytest.raises(ValueError, match=rf"functions=\[{name}\]"):
        widemargin.load(tmp_path / "m")
    with pytest.raises(ValueError, match="not loaded"):
        widemargin.load(tmp_path / "m", functions=[again])
    with pytest.raises(TypeError, match="functions of a module"):
        widemargin.load(tmp_path / "m", functions=["brighter"])
