"""MixtureImputer: conditional means, in front of any classifier."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import widemargin
from widemargin import GMLVQClassifier, MixtureImputer

X, Y = load_iris(return_X_y=True)


def with_holes(X, share, seed=0):
    """X with NaN at random, never a whole row."""
    rng = np.random.RandomState(seed)
    holes = rng.uniform(size=X.shape) < share
    holes[np.arange(len(X)), rng.randint(X.shape[1], size=len(X))] = False
    return np.where(holes, np.nan, X)


HOLES = with_holes(X, 0.2)


@parametrize_with_checks([MixtureImputer()])
def test_it_is_a_transformer_of_scikit_learn(estimator, check):
    check(estimator)


def test_of_one_gaussian_it_is_the_conditional_mean():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 3))
    S, mean = A @ A.T, np.array([1.0, -2, 3])
    Z = rng.multivariate_normal(mean, S, 2000)
    model = MixtureImputer().fit(Z)
    asked = rng.multivariate_normal(mean, S, 200)
    hidden = asked.copy()
    hidden[:, 2] = np.nan
    expected = mean[2] + (asked[:, :2] - mean[:2]) @ np.linalg.solve(
        S[:2, :2], S[:2, 2]
    )
    found = model.transform(hidden)
    np.testing.assert_array_equal(found[:, :2], asked[:, :2])
    assert np.corrcoef(found[:, 2], expected)[0, 1] > 0.995
    assert np.abs(found[:, 2] - expected).mean() < 0.1 * asked[:, 2].std()


def test_it_beats_means_before_any_classifier():
    digits, y = load_digits(return_X_y=True)
    train, test = with_holes(digits[:900], 0.3), with_holes(digits[900:], 0.3, 1)
    for learner in (GMLVQClassifier, RandomForestClassifier):
        scores = []
        for imputer in (MixtureImputer(), SimpleImputer()):
            model = make_pipeline(imputer, learner(random_state=0))
            scores.append(model.fit(train, y[:900]).score(test, y[900:]))
        assert scores[0] > scores[1]


def test_classes_help_and_are_not_asked_for():
    model, blind = MixtureImputer().fit(HOLES, Y), MixtureImputer().fit(HOLES)
    holes = np.isnan(HOLES)
    told, guessed = (np.abs(m.transform(HOLES) - X)[holes] for m in (model, blind))
    assert told.mean() < guessed.mean()


def test_rows_are_filled_in_one_by_one():
    model = MixtureImputer().fit(HOLES, Y)
    whole = model.transform(HOLES)
    alone = np.concatenate([model.transform(HOLES[i : i + 1]) for i in range(len(X))])
    np.testing.assert_array_equal(alone, whole)
    assert np.isfinite(whole).all()
    np.testing.assert_array_equal(model.transform(X), X)
    assert model.transform(HOLES.astype(np.float32)).dtype == np.float32


def test_weights_count():
    weights = np.where(Y == 0, 1e3, 1.0)
    heavy = MixtureImputer().fit(HOLES, sample_weight=weights)
    asked = np.array([[np.nan, 3.0, np.nan, np.nan]])
    plain = MixtureImputer().fit(HOLES).transform(asked)
    assert heavy.transform(asked)[0, 2] < plain[0, 2]


def test_it_survives_being_stored(tmp_path):
    pipeline = make_pipeline(MixtureImputer(), GMLVQClassifier(random_state=0))
    pipeline.fit(HOLES, Y)
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.predict(HOLES), pipeline.predict(HOLES))
    pytest.importorskip("skops")
    widemargin.save(pipeline, tmp_path / "model.skops")
    again = widemargin.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(HOLES), pipeline.predict(HOLES))


def test_names_of_features_are_kept():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(HOLES, columns=list("abcd"))
    model = MixtureImputer().set_output(transform="pandas").fit(frame, Y)
    assert list(model.transform(frame).columns) == list("abcd")


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (np.where(np.arange(4) == 1, np.nan, X), {}, "X has no value of feature 1"),
        (np.where(np.arange(150)[:, None] == 7, np.nan, X), {}, "no value in row 7"),
        (X, {"max_samples": 0}, "max_samples must be an integer of at least 1"),
    ],
)
def test_bad_input_is_named(given, options, message):
    with pytest.raises(ValueError, match=message):
        MixtureImputer(**options).fit(given, Y)
