import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.meta import MarginReweightingClassifier
from widemargin.meta.learners import takes_weights
from widemargin.meta.margins import gap
from widemargin.prototypes import TVQClassifier

SPLIT = "the validation samples are drawn row by row"


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def three():
    return make_classification(
        300, 6, n_informative=4, n_classes=3, flip_y=0.1, random_state=0
    )


def expected_failures(estimator):
    if estimator.validation_fraction is None:
        return {}
    kinds = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{kind}_data": SPLIT for kind in kinds}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        MarginReweightingClassifier(LogisticRegression(), max_iter=3),
        MarginReweightingClassifier(
            LogisticRegression(tol=1e-8),
            max_iter=3,
            validation_fraction=None,
            update="refit",
        ),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_weights_are_those_of_the_rule(three):
    X, y = three
    seen = []

    class Spy(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            seen.append(np.array(sample_weight))
            return super().fit(X, y, sample_weight)

    model = MarginReweightingClassifier(
        Spy(), theta=0.5, k=1, max_iter=4, validation_fraction=None
    ).fit(X, y)
    counts = np.ones(len(y))
    for weights in seen:
        assert_allclose(weights, counts * len(y) / counts.sum())
        learner = GaussianNB().fit(X, y, weights)
        mu = gap(learner.predict_proba(X), y)
        counts += mu < 0.5
    assert len(seen) == model.n_iter_ == 4
    assert_allclose(model.sample_weight_.mean(), 1)


def test_running_mean_of_uniform_distributions(three):
    X, y = three
    model = MarginReweightingClassifier(
        GaussianNB(), theta=0.5, k="ratio", max_iter=1, validation_fraction=None
    )
    mu = gap(GaussianNB().fit(X, y).predict_proba(X), y)
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
        Shift(), theta=0.2, k="ratio", max_iter=800, update="partial_fit",
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
        assert takes_weights(model.estimator)
    assert model.n_iter_ == 2
    assert not takes_weights(make_pipeline(StandardScaler(), LogisticRegression()))


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
        ({"margin": "distance"}, "margin must be"),
        ({"margin": "decision_function"}, "no such method"),
        ({"margin": lambda e, X, y: [2.0] * len(y)}, r"\[-1, 1\]"),
        ({"update": "warm_start"}, "warm_start"),
        ({"update": "again"}, "update must be"),
        ({"validation_fraction": 1.5}, "validation_fraction"),
        ({"k": -1.0}, "k"),
    ],
)
def test_bad_parameters(three, parameters, message):
    X, y = three
    with pytest.raises(ValueError, match=message):
        MarginReweightingClassifier(GaussianNB(), **parameters).fit(X, y)


def test_learner_without_scores(three):
    class Mute(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.zeros(len(X), int)

    with pytest.raises(ValueError, match="pass margin="):
        MarginReweightingClassifier(Mute()).fit(*three)
