"""RejectingClassifier with guarantees per predicted class, true class or group."""

import pickle

import numpy as np
import pytest
import sklearn
from benchmarks import rejection as simulation
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_validate
from sklearn.neighbors import KNeighborsClassifier

import widemargin as wm
from widemargin import RejectingClassifier

X, y = load_digits(return_X_y=True)
ORDER = np.random.RandomState(0).permutation(len(X))
X, y = X[ORDER], y[ORDER]
TRAIN, TEST = slice(0, 1300), slice(1300, None)
MODEL = wm.GLVQClassifier(random_state=0).fit(X[:700], y[:700])
CALIBRATION = slice(700, 1300)
WORLDS = simulation.worlds()


def rejecting(**options):
    given = {"max_error": 0.1, "cv": "prefit", "random_state": 0} | options
    return RejectingClassifier(MODEL, **given)


@pytest.mark.filterwarnings("ignore:Nothing is answered as")
def test_a_threshold_for_each_predicted_class():
    model = rejecting(per="predicted").fit(X[CALIBRATION], y[CALIBRATION])
    assert model.class_thresholds_.shape == (10,)
    assert model.threshold_ == model.class_thresholds_.min()
    answers, sure = MODEL.predict(X[TEST]), MODEL.confidence(X[TEST])
    accepted = sure >= model.class_thresholds_[answers]
    np.testing.assert_array_equal(model.accepts(X[TEST]), accepted)
    np.testing.assert_array_equal(
        model.predict(X[TEST]), np.where(accepted, answers, -1)
    )
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.accepts(X[TEST]), accepted)
    some = np.isfinite(model.class_thresholds_) | (model.class_thresholds_ < 0)
    assert model.class_delta_ <= 0.05 / some.sum()


def test_rare_answers_are_named_with_the_number_that_would_do():
    rows = np.flatnonzero((y < 2) | (np.arange(len(y)) % 12 == 0))
    model = rejecting(per="predicted", max_error=0.2)
    with pytest.warns(UserWarning, match=r"as 2 \(\d+\), .* would do"):
        model.fit(X[rows], y[rows])
    assert np.isfinite(model.class_delta_)
    assert model.class_thresholds_[2] == np.inf > model.class_thresholds_[0]
    assert not (model.predict(X[TEST]) == 2).any()


@pytest.mark.parametrize("per", ["true", "group"])
def test_one_threshold_for_all(per):
    groups = {"groups": np.array(["odd", "even"])[y[CALIBRATION] % 2]}
    model = rejecting(per=per).fit(
        X[CALIBRATION], y[CALIBRATION], **(groups if per == "group" else {})
    )
    assert model.class_thresholds_ is None
    of = y if per == "true" else y % 2
    accepted = model.accepts(X[TEST])
    wrong = model.predict(X[TEST]) != y[TEST]
    for g in np.unique(of):
        own = accepted & (of[TEST] == g)
        assert own.any()
        assert wrong[own].mean() <= 0.1


def test_samples_of_every_class_are_held_out():
    rare = np.append(np.flatnonzero(y != 3), np.flatnonzero(y == 3)[:80])
    model = RejectingClassifier(
        wm.GLVQClassifier(random_state=0), max_error=0.1, per="true", random_state=0
    ).fit(X[rare], y[rare])
    assert model.n_held_out_ >= 10 * 29
    with pytest.raises(ValueError, match=r"max_error=0.05 for 3 \(40\): .* 59 of each"):
        model.set_params(max_error=0.05).fit(X[rare], y[rare])


def test_with_a_threshold_on_distances():
    model = rejecting(per="predicted", max_error=0.3, outlier_fraction=0.05)
    model.fit(X[CALIBRATION], y[CALIBRATION])
    assert not model.accepts(X[TEST][:, ::-1] + 20).any()
    assert 0.5 < model.accepts(X[TEST]).mean() < 0.99


def test_coverage_of_every_class():
    for per in ("predicted", "true"):
        model = rejecting(per=per, max_error=None, coverage=0.7)
        model.fit(X[CALIBRATION], y[CALIBRATION])
        accepted = model.accepts(X[TEST])
        of = MODEL.predict(X[TEST]) if per == "predicted" else y[TEST]
        assert min(accepted[of == c].mean() for c in range(10)) > 0.6


def test_without_delta():
    model = rejecting(per="predicted", delta=None).fit(X[CALIBRATION], y[CALIBRATION])
    assert model.class_delta_ is None
    assert np.isfinite(model.class_thresholds_).any() or model.threshold_ == -np.inf


def test_groups_are_routed_in_cross_validation():
    model = RejectingClassifier(
        KNeighborsClassifier(), max_error=0.2, per="group", random_state=0
    )
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(groups=True)
        found = cross_validate(
            model, X[:600], y[:600], cv=2, params={"groups": y[:600] % 2},
            error_score="raise",
        )  # fmt: skip
    assert found["test_score"].min() > 0.3


def test_bad_input():
    with pytest.raises(ValueError, match="per must be"):
        rejecting(per="class").fit(X[CALIBRATION], y[CALIBRATION])
    with pytest.raises(ValueError, match="groups go with per='group'"):
        rejecting(per="group").fit(X[CALIBRATION], y[CALIBRATION])
    with pytest.raises(ValueError, match="groups go with per='group'"):
        rejecting().fit(X[CALIBRATION], y[CALIBRATION], groups=y[CALIBRATION])
    with pytest.raises(ValueError, match="groups"):
        rejecting(per="group").fit(X[CALIBRATION], y[CALIBRATION], groups=[1, 2])


def test_export_refuses_thresholds_of_classes():
    pytest.importorskip("onnx")
    from widemargin.export import to_onnx

    model = rejecting(per="predicted", max_error=0.3)
    with pytest.raises(ValueError, match="fit with per=None"):
        to_onnx(model.fit(X[CALIBRATION], y[CALIBRATION]))


@pytest.mark.parametrize("per", ["predicted", "true", "group"])
@pytest.mark.parametrize("name", ["nearly separable", "heavy tails"])
@pytest.mark.filterwarnings("ignore:Nothing is answered as")
def test_guarantees_are_kept(name, per):
    world, delta, n_draws = simulation.worlds()[name], 0.2, 30
    world.n *= 4
    allowed = delta + 3 * np.sqrt(delta * (1 - delta) / n_draws)
    cells, rng = np.arange(len(world.cells))[:, None], np.random.default_rng(1)
    for guarantee in ({"max_error": world.max_error}, {"coverage": 0.6}):
        broken = 0
        for draw in range(n_draws):
            Z, t = world.draw(rng)
            given = (
                {"groups": Z[:, 0] % simulation.CELL_GROUPS} if per == "group" else {}
            )
            model = RejectingClassifier(
                simulation.Table(len(cells)), confidence_func=world.confidence,
                delta=delta, per=per, reject_label=-1, random_state=draw, **guarantee,
            ).fit(Z, t, **given)  # fmt: skip
            answers = model.estimator_.predict(cells)
            asked = world, answers, model.accepts(cells), per, guarantee
            broken += simulation.is_broken(*asked)
        assert broken <= allowed * n_draws
