"""Callbacks see every epoch and can stop a fit; without them all is as before."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from widemargin import _callbacks
from widemargin._callbacks import HAS_CALLBACKS, FitProgress
from widemargin.prototypes import GLVQClassifier, LVQClassifier, MarginLVQClassifier

needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="scikit-learn < 1.9 has no callback API"
)
X, y = load_iris(return_X_y=True)


class Recorder:
    """Writes down what it is told; asks to stop after `stop_after` epochs."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.begun, self.ended, self.scores = [], [], []
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun.append((context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.ended.append((context.task_name, context.task_id))
        self.scores.append(fitted_estimator.score(X, y))
        epochs = sum(name == "epoch" for name, _ in self.ended)
        return self.stop_after is not None and epochs >= self.stop_after


@needs_callbacks
@pytest.mark.parametrize(
    "model",
    [
        GLVQClassifier(max_iter=4, random_state=0),
        MarginLVQClassifier(max_iter=4, random_state=0),
        LVQClassifier(("lvq1", "lvq3"), max_iter=2, random_state=0),
    ],
)
def test_every_epoch_is_announced_with_a_usable_estimator(model):
    recorder = Recorder()
    model.set_callbacks(recorder).fit(X, y)
    epochs = [("epoch", i) for i in range(4)]
    assert recorder.begun == [("fit", 0), *epochs]
    assert recorder.ended == [*epochs, ("fit", 0)]
    assert recorder.events == ["setup", "teardown"]
    assert recorder.scores[-1] == model.score(X, y)


@needs_callbacks
def test_the_estimator_of_an_epoch_is_a_copy():
    class Keeper(Recorder):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            self.ended.append(fitted_estimator.prototypes_)

    keeper = Keeper()
    LVQClassifier("lvq1", max_iter=3, random_state=0).set_callbacks(keeper).fit(X, y)
    assert not np.array_equal(keeper.ended[0], keeper.ended[1])


@needs_callbacks
def test_a_callback_can_stop_the_fit():
    recorder = Recorder(stop_after=2)
    model = GLVQClassifier(max_iter=50, random_state=0).set_callbacks(recorder)
    assert model.fit(X, y).n_iter_ == 2


@needs_callbacks
def test_progress_bar_runs(capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    GLVQClassifier(max_iter=3, random_state=0).set_callbacks(ProgressBar()).fit(X, y)


@needs_callbacks
def test_teardown_runs_when_the_fit_fails():
    recorder = Recorder()
    model = GLVQClassifier(max_iter=2).set_callbacks(recorder)
    model._trainer = lambda samples, rng: lambda epoch: 1 / 0
    with pytest.raises(ZeroDivisionError):
        model.fit(X, y)
    assert recorder.events == ["setup", "teardown"]


def test_callbacks_do_not_change_the_model():
    plain = GLVQClassifier(max_iter=3, random_state=0).fit(X, y)
    again = GLVQClassifier(max_iter=3, random_state=0)
    if HAS_CALLBACKS:
        again.set_callbacks(Recorder())
    assert np.array_equal(plain.prototypes_, again.fit(X, y).prototypes_)


@pytest.mark.parametrize("has_callbacks", [False, HAS_CALLBACKS])
def test_progress_counts_and_stops(monkeypatch, has_callbacks):
    monkeypatch.setattr(_callbacks, "HAS_CALLBACKS", has_callbacks)
    progress = FitProgress(GLVQClassifier(), 5, state=dict)
    seen = []
    for epoch in progress:
        seen.append(epoch)
        if epoch == 2:
            progress.stop()
    assert seen == [0, 1, 2]
    assert list(FitProgress(GLVQClassifier(), 3)) == [0, 1, 2]
