"""Callbacks see every task of every fit; without them all is as before."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import euclidean_distances, pairwise_distances

import widemargin
from widemargin._core import callbacks
from widemargin._core.callbacks import HAS_CALLBACKS, FitProgress
from widemargin.prototypes import GLVQClassifier, LVQClassifier, MarginLVQClassifier
from widemargin.tangents import ImageTangents, image_shifts

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
        LVQClassifier(algorithm=("lvq1", "lvq3"), max_iter=2, random_state=0),
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
    LVQClassifier(algorithm="lvq1", max_iter=3, random_state=0).set_callbacks(
        keeper
    ).fit(X, y)
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
    shown = capsys.readouterr().out
    assert "GLVQClassifier - fit" in shown
    assert "100%" in shown


@needs_callbacks
def test_teardown_runs_when_the_fit_fails():
    recorder = Recorder()
    model = GLVQClassifier(2, max_iter=2).set_callbacks(recorder)
    model._step = lambda data, rng, n_epochs: lambda state, epoch: 1 / 0
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
    monkeypatch.setattr(callbacks, "HAS_CALLBACKS", has_callbacks)
    progress = FitProgress(GLVQClassifier(), 5, state=dict)
    seen = []
    for epoch in progress:
        seen.append(epoch)
        if epoch == 2:
            progress.stop()
    assert seen == [0, 1, 2]
    assert list(FitProgress(GLVQClassifier(), 3)) == [0, 1, 2]


DIGITS, NUMBERS = load_digits(return_X_y=True)
DIGITS, NUMBERS = DIGITS[:240] / 16.0, NUMBERS[:240]
TANGENTS = ImageTangents(shape=(8, 8))
SHIFTS = image_shifts(shape=(8, 8))


def squares(X, Y):
    return euclidean_distances(X, Y, squared=True)


class Tree:
    """Writes down the tree of tasks: begins and ends, each with its path."""

    def __init__(self):
        self.events, self.begun = [], []

    def setup(self, estimator, context):
        self.events.append(("setup", ()))

    def teardown(self, estimator, context):
        self.events.append(("teardown", ()))

    def _path(self, context):
        path = []
        while context is not None:
            path.insert(0, (context.task_name, context.task_id))
            context = context.parent
        return tuple(path)

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        assert X is not None
        assert y is not None
        self.events.append(("begin", self._path(context)))
        self.begun.append((self._path(context), context.max_subtasks))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", self._path(context)))

    def names(self, depth):
        """Names of the tasks this far below the fit, in order."""
        return [path[-1][0] for path, _ in self.begun if len(path) == depth + 1]

    def check(self):
        """Every task ends after it began and before its parent; none too many."""
        assert self.events[0][0] == "setup"
        assert self.events[-1][0] == "teardown"
        under_way = []
        for kind, path in self.events[1:-1]:
            if kind == "begin":
                assert list(path[:-1]) == [p[-1] for p in under_way]
                under_way.append(path)
            else:
                assert under_way.pop() == path
        assert not under_way
        for path, most in self.begun:
            children = [p for p, _ in self.begun if p[:-1] == path]
            assert [p[-1][1] for p in children] == list(range(len(children)))
            assert most is None or len(children) <= most


# The estimator, the names of its tasks, the names of their parts.
FITS = {
    "TangentSVC": (
        widemargin.TangentSVC(
            tangents=TANGENTS, probability=True, psd_correction="clip"
        ),
        ["tangents", "distances", "repair", "solve", "calibrate"],
        {"distances"},
    ),
    "TangentSVC landmarks": (
        widemargin.TangentSVC(n_landmarks=150, random_state=0),
        ["tangents", "distances", "features", "solve"],
        {"duels"},
    ),
    "DDAGClassifier": (widemargin.DDAGClassifier(), ["node"] * 45, set()),
    "VirtualSVC": (
        widemargin.VirtualSVC(transformations=SHIFTS),
        ["tangents", "solve", "virtual samples", "solve again"],
        set(),
    ),
    "JitteredSVC": (
        widemargin.JitteredSVC(transformations=SHIFTS),
        ["kernel", "repair", "solve"],
        {"kernel"},
    ),
    "InvariantHyperplaneSVC": (
        widemargin.InvariantHyperplaneSVC(tangents=TANGENTS),
        ["tangents", "features", "whitening", "solve"],
        set(),
    ),
    "TangentKNeighborsClassifier": (
        widemargin.TangentKNeighborsClassifier(tangents=TANGENTS),
        ["tangents", "projections"],
        # Which ends move is tried on left-out samples.
        {"distances"},
    ),
    "DensityClassifier": (
        widemargin.DensityClassifier(metric=squares),
        ["epoch"],
        set(),
    ),
    "TangentDensityClassifier": (
        widemargin.TangentDensityClassifier(tangents=TANGENTS),
        ["epoch"],
        set(),
    ),
    "TangentDensityClassifier beta": (
        widemargin.TangentDensityClassifier(gamma=1.0),
        [],
        set(),
    ),
    "MarginPerceptron": (
        widemargin.MarginPerceptron(multiclass="ovr", random_state=0),
        ["problem"] * 10,
        {"sweeps"},
    ),
    "FixedMarginPerceptron": (
        widemargin.FixedMarginPerceptron(
            1e-4, normalize=True, multiclass="ovr", random_state=0
        ),
        ["problem"] * 10,
        {"sweeps"},
    ),
    "MaxMarginClassifier": (
        widemargin.MaxMarginClassifier(C=float("inf"), multiclass="ovo"),
        ["problem"] * 45,
        {"rounds"},
    ),
    # Soft margins of few samples are solved together.
    "MaxMarginClassifier soft": (
        widemargin.MaxMarginClassifier(multiclass="ovo"),
        ["problem"],
        set(),
    ),
    "MaxMarginClassifier search": (
        widemargin.MaxMarginClassifier("dynamic", multiclass="ovr", random_state=0),
        ["problem"] * 10,
        {"sweeps"},
    ),
    "MaxMarginClassifier kernel": (
        widemargin.MaxMarginClassifier(kernel="rbf", C=float("inf"), multiclass="ovr"),
        ["problem"] * 10,
        {"rounds"},
    ),
    "MaxMarginClassifier threads": (
        widemargin.MaxMarginClassifier(C=float("inf"), n_jobs=2),
        ["problems"],
        {"problems"},
    ),
    "LVQClassifier": (
        widemargin.LVQClassifier(algorithm="lvq1", max_iter=3, random_state=0),
        ["epoch"] * 3,
        set(),
    ),
    "MarginLVQClassifier": (
        widemargin.MarginLVQClassifier(max_iter=3, random_state=0),
        ["epoch"] * 3,
        set(),
    ),
    "GLVQClassifier": (
        widemargin.GLVQClassifier(max_iter=3, random_state=0),
        ["epoch"] * 3,
        set(),
    ),
    "GMLVQClassifier": (
        widemargin.GMLVQClassifier(max_iter=3, random_state=0),
        ["epoch"] * 3,
        set(),
    ),
    "KernelLVQClassifier": (
        widemargin.KernelLVQClassifier(max_iter=3, random_state=0),
        ["epoch"] * 3,
        set(),
    ),
    "RelationalLVQClassifier": (
        widemargin.RelationalLVQClassifier(
            metric=pairwise_distances, max_iter=3, random_state=0
        ),
        ["epoch"] * 3,
        set(),
    ),
    "TVQClassifier": (
        widemargin.TVQClassifier(n_tangents=2, max_iter=3, random_state=0),
        ["epoch"] * 3,
        set(),
    ),
    "HSSClassifier": (
        widemargin.HSSClassifier(
            prototypes_per_class=2, n_tangents=2, max_iter=2, random_state=0
        ),
        ["epoch"] * 2,
        set(),
    ),
    "TDNeuronClassifier": (
        widemargin.TDNeuronClassifier(2, max_iter=3, random_state=0),
        ["epoch"] * 4,
        set(),
    ),
    "TDNeuronClassifier without tangents": (
        widemargin.TDNeuronClassifier(0, max_iter=3, random_state=0),
        ["epoch"],
        set(),
    ),
    "RejectingClassifier": (
        widemargin.RejectingClassifier(
            widemargin.GLVQClassifier(max_iter=3, random_state=0),
            max_error=0.5,
            random_state=0,
        ),
        ["estimator", "threshold"],
        set(),
    ),
    "ConformalClassifier": (
        widemargin.ConformalClassifier(
            widemargin.GLVQClassifier(max_iter=3, random_state=0),
            alpha=0.2,
            random_state=0,
        ),
        ["estimator", "calibration"],
        set(),
    ),
    "FewShotImageClassifier": (
        widemargin.FewShotImageClassifier(),
        ["views and members", "weights"],
        set(),
    ),
    "SignalClassifier": (
        widemargin.SignalClassifier(n_features=200),
        ["features", "regression"],
        set(),
    ),
    "SpectrumClassifier": (
        widemargin.SpectrumClassifier(),
        ["preprocessing", "regression"],
        set(),
    ),
    "ProductClassifier": (
        widemargin.ProductClassifier(
            [("a", widemargin.GLVQClassifier(max_iter=3, random_state=0))], cv=2
        ),
        ["a"] * 3,
        set(),
    ),
    "MarginReweightingClassifier": (
        widemargin.MarginReweightingClassifier(
            widemargin.GLVQClassifier(max_iter=3),
            max_iter=2,
            theta=0.99,
            random_state=0,
        ),
        ["round"] * 2,
        set(),
    ),
}


def test_every_classifier_is_in_the_list():
    assert {name.split()[0] for name in FITS} == set(widemargin._ESTIMATORS)


@needs_callbacks
@pytest.mark.parametrize("name", FITS)
def test_every_classifier_announces_its_work(name):
    model, tasks, parts = FITS[name]
    tree = Tree()
    watched = clone(model).set_callbacks(tree).fit(DIGITS, NUMBERS)
    tree.check()
    assert tree.names(0) == ["fit"]
    assert tree.names(1) == tasks
    assert set(tree.names(2)) == parts
    plain = clone(model).fit(DIGITS, NUMBERS)
    for method in ("decision_function", "predict"):
        np.testing.assert_array_equal(
            getattr(watched, method)(DIGITS), getattr(plain, method)(DIGITS)
        )


@needs_callbacks
@pytest.mark.parametrize("name", FITS)
def test_callbacks_survive_pickle_and_clone(name):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    bar = ProgressBar()
    model = clone(FITS[name][0]).set_callbacks(bar)
    assert clone(model)._skl_callbacks == [bar]
    fitted = pickle.loads(pickle.dumps(model)).fit(DIGITS, NUMBERS)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(DIGITS), fitted.predict(DIGITS))
    assert not hasattr(again.set_callbacks(), "_skl_callbacks")


@pytest.mark.parametrize("name", FITS)
def test_fits_without_the_callback_api(name, monkeypatch):
    monkeypatch.setattr(callbacks, "HAS_CALLBACKS", False)
    model = clone(FITS[name][0]).fit(DIGITS, NUMBERS)
    assert model.predict(DIGITS[:2]).shape == (2,)


@needs_callbacks
def test_sweeps_are_counted():
    tree = Tree()
    model = widemargin.MarginPerceptron(
        max_iter=40, margin_threshold=1e6, random_state=0
    )
    with pytest.warns(ConvergenceWarning):
        model.set_callbacks(tree).fit(DIGITS, NUMBERS < 5)
    assert tree.names(2) == ["sweeps"] * 40 == ["sweeps"] * model.n_iter_


@needs_callbacks
def test_many_parts_are_announced_by_the_hundredth():
    tree = Tree()
    model = widemargin.MarginPerceptron(
        margin_threshold=1e9, max_iter=350, n_iter_no_change=None, random_state=0
    )
    with pytest.warns(ConvergenceWarning):
        model.set_callbacks(tree).fit(DIGITS, NUMBERS < 5)
    tree.check()
    assert len(tree.names(2)) == 100


class Spreading(Tree):
    """A callback that goes on to the estimators inside."""

    max_propagation_depth = None


@needs_callbacks
@pytest.mark.parametrize(
    ("outer", "task", "inner"),
    [
        (
            widemargin.DDAGClassifier(widemargin.MaxMarginClassifier()),
            "node",
            "problem",
        ),
        (
            widemargin.RejectingClassifier(
                widemargin.GLVQClassifier(max_iter=2), max_error=0.5, random_state=0
            ),
            "estimator",
            "epoch",
        ),
        (
            widemargin.MarginReweightingClassifier(
                widemargin.TangentDensityClassifier(gamma=1.0),
                max_iter=2,
                theta=0.99,
                random_state=0,
            ),
            "round",
            None,
        ),
    ],
)
def test_estimators_inside_join_the_tree(outer, task, inner):
    tree = Spreading()
    clone(outer).set_callbacks(tree).fit(DIGITS, NUMBERS)
    tree.check()
    # The task of the outer estimator and the fit of the inner one are the same.
    assert "fit" in tree.names(1)
    assert task not in tree.names(1)
    assert (inner in tree.names(2)) == (inner is not None)


@needs_callbacks
def test_a_bar_over_nodes_in_processes(capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    model = widemargin.DDAGClassifier(widemargin.MaxMarginClassifier(), n_jobs=2)
    few = NUMBERS < 4
    model.set_callbacks(ProgressBar()).fit(DIGITS[few], NUMBERS[few])
    shown = capsys.readouterr().out
    assert shown.count("DDAGClassifier - node | MaxMarginClassifier - fit") == 6
    assert shown.count("100%") >= 7
