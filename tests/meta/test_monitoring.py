"""A watch over a guarantee: alarms, labels that come later, streams that go on."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import widemargin as wm
from widemargin import PromiseMonitor

X, y = load_digits(return_X_y=True)
# As they come they are writer after writer, which the watch tells.
IN_ORDER = X, y
shuffled = np.random.RandomState(0).permutation(len(X))
X, y = X[shuffled], y[shuffled]
MODEL = wm.RejectingClassifier(
    wm.GLVQClassifier(2, random_state=0), max_error=0.05, random_state=0
).fit(X[:800], y[:800])
FRESH, TRUTH = X[1000:], y[1000:]


def monitor(model=MODEL, **options):
    return PromiseMonitor(model, **({"random_state": 0} | options)).fit(X[800:1000])


class Number(ClassifierMixin, BaseEstimator):
    """Answers 0 always."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), int)


ZERO = Number().fit(None, [0, 1])


def bare(**options):
    given = {"max_error": 0.05, "outlier_score": lambda _, X: X[:, 0]}
    return PromiseMonitor(ZERO, random_state=0, **(given | options)).fit()


def test_all_is_well():
    watch = monitor()
    numbers, answers = watch.watch(FRESH)
    np.testing.assert_array_equal(numbers, np.arange(len(FRESH)))
    np.testing.assert_array_equal(answers, MODEL.predict(FRESH))
    watch.label(numbers[::-1], TRUTH[::-1])
    answered = answers != -1
    assert watch.n_labelled_ == answered.sum() < len(answers)
    assert watch.n_wrong_ == np.sum(answers[answered] != TRUTH[answered])
    assert watch.error_bounds_[0] <= watch.error_ <= watch.error_bounds_[1]
    assert not watch.alarm_


def test_digits_as_they_come_are_not_exchangeable():
    Z, t = IN_ORDER
    model = clone(MODEL).fit(Z[:800], t[:800])
    watch = PromiseMonitor(model, random_state=0).fit(Z[800:1000])
    watch.watch(Z[1000:])
    assert watch.shift_alarm_ is not None


def test_more_mistakes_and_other_samples_are_seen():
    watch = bare()
    rng = np.random.default_rng(0)
    numbers, _ = watch.watch(rng.normal(size=(3000, 1)))
    watch.label(numbers, (rng.random(3000) < 0.04).astype(int))
    assert not watch.alarm_
    numbers, _ = watch.watch(rng.normal(0.8, 1, size=(1000, 1)))
    assert watch.error_alarm_ is None
    assert 3000 < watch.shift_alarm_ < 3200
    watch.label(numbers, (rng.random(1000) < 0.12).astype(int))
    assert 3000 < watch.error_alarm_ < 3500
    assert watch.alarm_
    raised = watch.error_alarm_, watch.shift_alarm_
    numbers, _ = watch.watch(rng.normal(size=(1000, 1)))
    watch.label(numbers, np.zeros(1000, int))
    assert raised == (watch.error_alarm_, watch.shift_alarm_)


def test_few_alarms_are_false():
    # At the guarantee itself: 60 streams, of which three may raise an alarm.
    rng = np.random.default_rng(1)
    alarms = np.zeros(2)
    for _ in range(60):
        watch = bare()
        numbers, _ = watch.watch(rng.integers(0, 3, (600, 1)).astype(float))
        watch.label(numbers, (rng.random(600) < 0.05).astype(int))
        alarms += watch.error_alarm_ is not None, watch.shift_alarm_ is not None
    assert (alarms <= 3).all()


def test_batches_do_not_matter():
    whole, parts = monitor(), monitor()
    numbers, _ = whole.watch(FRESH)
    whole.label(numbers, TRUTH)
    for rows in np.array_split(np.arange(len(FRESH)), 9):
        numbers, _ = parts.watch(FRESH[rows])
        parts.label(numbers, TRUTH[rows])
    np.testing.assert_allclose(parts._of_errors.products, whole._of_errors.products)
    np.testing.assert_allclose(
        parts._shift_curve.points[-1], whole._shift_curve.points[-1], rtol=1e-6
    )
    assert parts.error_bounds_[0] >= whole.error_bounds_[0] - 1e-12


@pytest.mark.parametrize("how", ["pickle", "file"])
def test_goes_on_after_a_restart(how, tmp_path):
    watch = monitor()
    numbers, _ = watch.watch(FRESH[:300])
    watch.label(numbers[:100], TRUTH[:100])
    if how == "pickle":
        again = pickle.loads(pickle.dumps(watch))
    else:
        wm.save(watch, tmp_path / "monitor.skops")
        again = wm.load(tmp_path / "monitor.skops")
    for one in (watch, again):
        later, _ = one.watch(FRESH[300:])
        one.label(np.append(numbers[100:], later), TRUTH[100:])
    assert again.n_labelled_ == watch.n_labelled_ > 200
    assert again.error_bounds_ == watch.error_bounds_
    assert again._shift_curve.points == watch._shift_curve.points
    with pytest.raises(ValueError, match="labelled already"):
        again.label(numbers[:1], TRUTH[:1])


def test_a_long_stream_stays_small():
    watch = bare(max_waiting=50)
    for _ in range(100):
        numbers, _ = watch.watch(np.zeros((40, 1)))
        watch.label(numbers[20:], np.zeros(20, int))
    assert 0 < len(watch._waiting) <= 50
    assert len(watch._error_curve.points) == 2000
    assert watch._error_curve.points[-1][0] == 2000
    with pytest.raises(ValueError, match="max_waiting=50 samples ago"):
        watch.label([0], [0])


@pytest.mark.parametrize("labels", ["numbers", "strings"])
def test_scores_of_all_kinds_of_classifiers(labels):
    t = y if labels == "numbers" else np.array([f"d{digit}" for digit in y])
    for model in (
        LogisticRegression(max_iter=3000),
        wm.ConformalClassifier(wm.HSSClassifier(1, n_tangents=4), random_state=0),
        wm.TangentKNeighborsClassifier(tangents="none"),
    ):
        watch = monitor(model.fit(X[:800], t[:800]), max_error=0.2)
        numbers, _ = watch.watch(FRESH)
        watch.label(numbers, t[1000:])
        assert watch.error_alarm_ is None
        noise = np.random.RandomState(0).randint(0, 17, (200, 64))
        watch.watch(noise)
        assert watch.shift_alarm_ is not None


def test_a_class_that_was_never_learned_is_a_mistake():
    watch = bare()
    numbers, _ = watch.watch(np.zeros((3, 1)))
    assert watch.label(numbers, [0, 7, 0]).n_wrong_ == 1


def test_fit_begins_anew_and_clones():
    watch = monitor()
    watch.watch(FRESH)
    assert watch.fit(X[800:]).n_watched_ == 0
    assert np.isnan(watch.error_)
    assert clone(watch).get_params()["delta"] == 0.05


@pytest.mark.parametrize(
    ("numbers", "labels", "said"),
    [
        ([0], [0], "labelled already"),
        ([5, 5], [0, 0], r"holds \[5\], which were labelled already"),
        ([20], [0], r"numbers holds \[20\], but 20 samples were watched"),
        ([-1], [0], "numbers holds"),
        ([1.5], [0], "numbers must be integers"),
        ([[1]], [0], "numbers must be integers"),
        ([5, 6], [0], "y"),
        ([5], ["a"], "labels like the answers"),
    ],
)
def test_bad_labels_change_nothing(numbers, labels, said):
    watch = bare()
    watch.watch(np.zeros((20, 1)))
    watch.label(np.arange(5), np.zeros(5, int))
    with pytest.raises(ValueError, match=said):
        watch.label(numbers, labels)
    assert watch.n_labelled_ == 5
    assert watch.label(np.arange(5, 20), np.zeros(15, int)).n_labelled_ == 20


def test_bad_parameters():
    with pytest.raises(ValueError, match="max_error must be given: Number guarantees"):
        PromiseMonitor(ZERO).fit()
    with pytest.raises(ValueError, match="delta"):
        bare(delta=1.0)
    with pytest.raises(ValueError, match="outlier_score must be None or a function"):
        bare(outlier_score="far")
    with pytest.raises(ValueError, match="one number per sample"):
        bare(outlier_score=lambda _, X: np.zeros(3)).watch(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="estimator must be a fitted classifier"):
        PromiseMonitor(LogisticRegression, max_error=0.1).fit()
    with pytest.raises(Exception, match="not fitted"):
        PromiseMonitor(LogisticRegression(), max_error=0.1).fit()
    with pytest.raises(Exception, match="not fitted"):
        PromiseMonitor(ZERO, max_error=0.1).watch(X)
