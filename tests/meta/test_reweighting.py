import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from widemargin.margins import margins_of
from widemargin.meta import MarginReweightingClassifier
from widemargin.neighbors import (
    TangentDensityClassifier,
    TangentKNeighborsClassifier,
)
from widemargin.prototypes import GLVQClassifier, MarginLVQClassifier, TVQClassifier


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def three():
    return make_classification(
        300, 6, n_informative=4, n_classes=3, flip_y=0.1, random_state=0
    )


def test_weights_are_those_of_the_rule(three):
    X, y = three
    seen = []

    class Spy(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            seen.append(np.array(sample_weight))
            return super().fit(X, y, sample_weight)

    model = MarginReweightingClassifier(
        Spy(), theta=0.5, weight_gain=1, max_iter=4, validation_fraction=None
    ).fit(X, y)
    counts = np.ones(len(y))
    for weights in seen:
        assert_allclose(weights, counts * len(y) / counts.sum())
        learner = GaussianNB().fit(X, y, weights)
        mu = margins_of(learner, X, y)
        counts += mu < 0.5
    assert len(seen) == model.n_iter_ == 4
    assert_allclose(model.sample_weight_.mean(), 1)


def test_running_mean_of_uniform_distributions(three):
    X, y = three
    model = MarginReweightingClassifier(
        GaussianNB(),
        theta=0.5,
        weight_gain="ratio",
        max_iter=1,
        validation_fraction=None,
    )
    mu = margins_of(GaussianNB().fit(X, y), X, y)
    mistakes = mu < 0.5
    gamma = model.fit(X, y).sample_weight_ / len(y)
    assert_allclose(gamma, (1 / len(y) + mistakes / mistakes.sum()) / 2)


def test_converges_to_the_hinge(cancer):
    """For one number to learn, re-weighting finds the minimum of the hinge at theta."""

    class Shift(ClassifierMixin, BaseEstimator):
        """Answers sign(x - b); one small step of b up the weighted mean margin."""

        def fit(self, X, y, sample_weight=None):
            self.classes_ = np.unique(y)
            self.b_ = getattr(self, "b_", 0.0)
            side = np.where(y == 1, 1, -1)
            self.b_ -= 0.01 * (sample_weight @ side) / sample_weight.sum()
            return self

        def partial_fit(self, X, y, classes=None, sample_weight=None):
            return self.fit(X, y, sample_weight)

        def margins(self, X, y):
            return np.clip(np.where(y == 1, 1, -1) * (X[:, 0] - self.b_), -1, 1)

        def predict(self, X):
            return (X[:, 0] > self.b_).astype(int)

    rng = np.random.RandomState(0)
    y = np.repeat([0, 1], [60, 30])
    X = np.where(y == 1, 0.3, -0.1)[:, None] + 0.15 * rng.standard_normal((90, 1))
    model = MarginReweightingClassifier(
        Shift(), theta=0.2, weight_gain="ratio", max_iter=800, update="partial_fit",
        validation_fraction=None,
    ).fit(X, y)  # fmt: skip
    side = np.where(y == 1, 1, -1)
    grid = np.linspace(-0.5, 0.5, 2001)
    hinge = [np.maximum(0, 0.2 - side * (X[:, 0] - b)).mean() for b in grid]
    assert model.history_["loss"][-1] < min(hinge) + 2e-3


def test_lifts_the_low_margins(cancer):
    X, y = cancer
    model = MarginReweightingClassifier(
        LogisticRegression(C=0.1), theta=0.3, validation_fraction=None
    ).fit(X, y)
    assert model.history_["loss"][-1] < 0.95 * model.history_["loss"][0]
    assert (
        model.history_["n_theta_mistakes"][-1] <= model.history_["n_theta_mistakes"][0]
    )


def test_round_one_is_the_plain_learner(three):
    X, y = three
    model = MarginReweightingClassifier(
        GaussianNB(), max_iter=1, validation_fraction=None
    ).fit(X, y)
    assert_array_equal(model.predict(X), GaussianNB().fit(X, y).predict(X))


def test_best_round_is_kept(three):
    X, y = three
    model = MarginReweightingClassifier(
        DecisionTreeClassifier(max_depth=3), theta=0.9, random_state=0
    ).fit(X, y)
    scores = model.history_["validation_score"]
    assert model.best_iteration_ == int(np.argmax(scores))
    assert len(scores) == model.n_iter_


@pytest.mark.parametrize(
    ("estimator", "update"),
    [
        (SGDClassifier(), "partial_fit"),
        (LogisticRegression(), "warm_start"),
        (LogisticRegression(), "auto"),
        (KNeighborsClassifier(3), "auto"),
        (LinearSVC(), "refit"),
        (TVQClassifier(max_iter=5), "refit"),
    ],
)
def test_any_learner(three, estimator, update):
    X, y = three
    y = np.array(["low", "middle", "top"])[y]
    model = MarginReweightingClassifier(
        estimator, update=update, max_iter=3, random_state=0
    )
    assert model.fit(X, y).score(X, y) > 0.5
    again = clone(model).fit(X, y)
    assert_array_equal(model.predict(X), again.predict(X))
    mu = model.margins(X, y)
    right = model.predict(X) == y
    assert np.all(right[mu > 0])
    assert not np.any(right[mu < 0])
    assert np.all(np.abs(mu) <= 1)


def test_stops_without_mistakes():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), [0, 0, 1, 1]
    model = MarginReweightingClassifier(
        DecisionTreeClassifier(), theta=0.5, validation_fraction=None
    ).fit(X, y)
    assert model.n_iter_ == 1


def test_weights_reach_a_step_of_a_pipeline(three):
    X, y = three
    with sklearn.config_context(enable_metadata_routing=True):
        step = LogisticRegression().set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = MarginReweightingClassifier(
            make_pipeline(scaler, step), theta=0.5, max_iter=2, validation_fraction=None
        ).fit(X, y)
        seen = model.estimator_[1].n_iter_
    assert model.n_iter_ == 2
    assert len(seen) == 1


def test_metadata_go_to_the_estimator(three):
    X, y = three

    class Wants(GaussianNB):
        def fit(self, X, y, sample_weight=None, colour=None):
            self.colour_ = colour
            return super().fit(X, y, sample_weight)

    model = MarginReweightingClassifier(Wants(), max_iter=2)
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        model.fit(X, y, colour="red")
    with sklearn.config_context(enable_metadata_routing=True):
        model = MarginReweightingClassifier(
            Wants().set_fit_request(colour=True, sample_weight=True), max_iter=2
        ).fit(X, y, colour="red")
    assert model.estimator_.colour_ == "red"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"theta": 1.0}, "theta"),
        ({"theta": np.nan}, "theta"),
        ({"margin": "distance"}, "margin must be"),
        ({"validation_fraction": np.nan}, "validation_fraction"),
        ({"max_iter": 0}, "max_iter"),
        ({"margin": lambda e, X, y: [2.0] * len(y)}, r"\[-1, 1\]"),
        ({"update": "warm_start"}, "warm_start"),
        ({"update": "again"}, "update must be"),
        ({"validation_fraction": 1.5}, "validation_fraction"),
        ({"weight_gain": -1.0}, "weight_gain"),
    ],
)
def test_bad_parameters(three, parameters, message):
    X, y = three
    with pytest.raises(ValueError, match=message):
        MarginReweightingClassifier(GaussianNB(), **parameters).fit(X, y)


def test_learner_without_scores(three):
    class Mute(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            return np.zeros(len(X), int)

    with pytest.raises(ValueError, match="nothing tells how sure"):
        MarginReweightingClassifier(Mute()).fit(*three)


@pytest.mark.parametrize(
    "learner",
    [
        LogisticRegression(),
        TangentDensityClassifier(gamma=1.0),
        TangentKNeighborsClassifier(),
        TangentKNeighborsClassifier(3),
        MarginLVQClassifier(max_iter=3, random_state=0),
    ],
)
def test_margins_are_relative_whatever_the_learner(three, learner):
    X, y = three
    model = MarginReweightingClassifier(
        learner, max_iter=2, validation_fraction=None, random_state=0
    ).fit(X, y)
    assert model.margin_unit == "relative"
    answers = model.predict(X)
    confidence = model.confidence(X)
    assert np.all((confidence >= 0) & (confidence <= 1))
    assert_array_equal(confidence, model.margins(X, answers))
    for label in model.classes_:
        margins = model.margins(X, np.repeat(label, len(X)))
        assert np.all(np.abs(margins) <= 1)
        assert np.all(answers[margins > 0] == label)
    assert -1 < model.theta_ <= 1


def test_units_of_the_data_play_no_part(three):
    class Mean(ClassifierMixin, BaseEstimator):
        """Nearest of two weighted means; its margins are distances."""

        margin_unit = "distance"

        def fit(self, X, y, sample_weight):
            self.classes_ = np.unique(y)
            self.means_ = [
                np.average(X[y == c], axis=0, weights=sample_weight[y == c])
                for c in self.classes_
            ]
            return self

        def decision_function(self, X):
            far = [np.linalg.norm(X - mean, axis=1) for mean in self.means_]
            return -np.transpose(far)

        def predict(self, X):
            return self.classes_[self.decision_function(X).argmax(axis=1)]

    X, y = three
    models = [
        MarginReweightingClassifier(
            Mean(), theta=0.3, max_iter=6, validation_fraction=None
        ).fit(X * unit, y)
        for unit in (1.0, 2.0**-10, 2.0**40)
    ]
    assert 0 < models[0].history_["n_theta_mistakes"][0] < len(y)
    for model in models[1:]:
        assert_array_equal(model.sample_weight_, models[0].sample_weight_)
        assert model.history_["loss"] == models[0].history_["loss"]


def test_first_round_honours_weights_by_drawing(three):
    X, y = three

    class Seen(KNeighborsClassifier):
        def fit(self, X, y):
            self.labels_ = np.asarray(y)
            return super().fit(X, y)

    model = MarginReweightingClassifier(
        Seen(), max_iter=1, validation_fraction=None, random_state=0
    )
    plain = model.fit(X, y).estimator_.labels_
    assert_array_equal(plain, y)
    drawn = model.fit(X, y, sample_weight=np.where(y == 1, 20.0, 1.0)).estimator_
    assert np.mean(drawn.labels_ == 1) > 0.8


def test_of_equal_rounds_margins_decide():
    """Few held-out samples cannot tell by mistakes: all rounds make none."""
    X, y = load_iris(return_X_y=True)
    model = MarginReweightingClassifier(
        LogisticRegression(max_iter=500), random_state=0
    )
    model.fit(X, y)
    assert len(set(model.history_["validation_score"])) == 1
    assert model.best_iteration_ > 0
    assert model.history_["loss"][model.best_iteration_] < model.history_["loss"][0]


def test_certain_margins_are_large_enough():
    X, y = load_iris(return_X_y=True)
    model = MarginReweightingClassifier(DecisionTreeClassifier(random_state=0))
    assert model.fit(X, y).theta_ < 1
    assert model.n_iter_ == 1


@pytest.mark.parametrize(
    "model",
    [
        MarginReweightingClassifier(
            GaussianNB(), theta=0.9, weight_gain=1.0, random_state=0
        ),
        MarginReweightingClassifier(
            GaussianNB(),
            theta=0.9,
            weight_gain=1.0,
            update="partial_fit",
            random_state=0,
        ),
        MarginReweightingClassifier(
            DecisionTreeClassifier(max_depth=5, random_state=0),
            theta=0.9,
            validation_fraction=None,
        ),
        MarginReweightingClassifier(
            GLVQClassifier(1, random_state=0),
            theta=0.9,
            weight_gain=1.0,
            random_state=0,
        ),
    ],
    ids=["refit", "partial_fit", "tree", "ours"],
)
def test_hard_samples_do_not_make_answers_unsure(model):
    """Probabilities are right of fresh samples, not of the weights of training."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    X = rng.normal(size=(3000, 5)) + 0.8 * y[:, None]
    model.fit(X[:500], y[:500])
    P = model.predict_proba(X[500:])
    assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[500:]))
    right = model.score(X[500:], y[500:])
    assert P.max(axis=1).mean() == pytest.approx(right, abs=0.04)


@pytest.mark.parametrize("seed", [0, 2])
def test_weights_are_copies_to_what_is_held_out(seed):
    """The same observations are held out, wherever they stand; .36 and .79 before."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + 0.8 * rng.normal(size=60) > 0).astype(int)
    counts, Z = rng.integers(1, 4, 60), rng.normal(size=(100, 4))
    rows = rng.permutation(np.repeat(np.arange(60), counts))
    glvq = GLVQClassifier(1, random_state=0)
    model = MarginReweightingClassifier(glvq, theta=0.3, random_state=0)
    weighed = model.fit(X, y, counts).predict_proba(Z)
    copied = model.fit(X[rows], y[rows]).predict_proba(Z)
    assert_allclose(weighed, copied, atol=1e-9)


def test_probabilities_of_frames_and_of_classes_of_one_sample():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0.0, 1.0, 5.0, 6.0], "b": [0.0, 1.0, 0.0, 1.0]})
    model = MarginReweightingClassifier(GaussianNB(), max_iter=2)
    assert model.fit(frame, ["x", "x", "y", "y"]).predict_proba(frame).shape == (4, 2)
    alone = model.fit(frame, ["x", "y", "z", "w"])
    P = alone.predict_proba(frame)
    assert_allclose(P, alone.estimator_.predict_proba(frame), atol=0.02)
