"""show_progress draws what long work announces, once, and leaves nothing behind."""

import io
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin
from widemargin import DDAGClassifier, GLVQClassifier, TangentSVC
from widemargin._compute import progress
from widemargin._compute.machine import process_map, thread_map
from widemargin._compute.progress import (
    announce,
    announced,
    is_observed,
    observed_by,
    observer,
    silent,
)
from widemargin._core.callbacks import HAS_CALLBACKS
from widemargin.metrics import (
    image_distortion_distances,
    pseudo_2d_distortion_distances,
    tangent_distances,
)
from widemargin.neighbors import TangentDensityClassifier, TangentKNeighborsClassifier
from widemargin.svm import InvariantHyperplaneSVC, JitteredSVC, VirtualSVC
from widemargin.tangents import ImageTangents, image_shifts

rich_console = pytest.importorskip("rich.console")
X, y = load_digits(return_X_y=True)
X = X / 16.0
TANGENTS = ImageTangents(shape=(8, 8))


class Listener:
    """An observer that writes down every loop: name, total, what was done."""

    def __init__(self):
        self.loops, self.open = [], 0

    @contextmanager
    def __call__(self, description, total):
        assert self.open == 0, "a loop inside a loop was announced"
        self.open, seen = 1, [description, total, []]
        self.loops.append(seen)
        try:
            yield lambda amount=1: seen[2].append(amount)
        finally:
            self.open = 0

    def named(self, name):
        return [loop for loop in self.loops if loop[0] == name]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_only_the_outermost_loop_speaks(n_jobs):
    listener = Listener()
    with observed_by(listener):
        thread_map(
            lambda i: thread_map(lambda j: i * j, range(3), n_jobs, "inner"),
            range(4),
            n_jobs,
            "outer",
        )
    assert listener.loops == [["outer", 4, [1, 1, 1, 1]]]
    assert observer() is None


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_loop_of_one_item_lets_its_inside_speak(n_jobs):
    listener = Listener()
    with observed_by(listener):
        thread_map(lambda i: list(announced("abc", "inner")), [0], n_jobs, "outer")
    assert listener.loops == [["inner", 3, [1, 1, 1]]]


def test_weights_share_the_total_out():
    listener = Listener()
    with observed_by(listener):
        assert thread_map(abs, [-1, -2], description="x", weights=[3, 1]) == [1, 2]
    assert listener.loops == [["x", 2, [1.5, 0.5]]]


def test_nobody_listens_by_default():
    items = [1, 2]
    assert announced(items, "x") is items
    with announce("x", 3) as advance:
        assert advance is silent
    assert not is_observed()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_leave_the_hook_as_it_was(error, n_jobs):
    def fail(item):
        raise error

    def loop():
        for item in announced(range(3), "body"):
            fail(item)

    listener = Listener()
    with observed_by(listener):
        with pytest.raises(error):
            thread_map(fail, range(3), n_jobs)
        assert observer() is listener
        with pytest.raises(error):
            loop()
        assert observer() is listener
        with pytest.raises(error), announce("block", 2):
            fail(None)
        assert observer() is listener
    assert not is_observed()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_calls_in_processes_are_announced(n_jobs):
    listener = Listener()
    with observed_by(listener):
        assert process_map(pow, [(2, 3), (3, 2)], n_jobs, "powers") == [8, 9]
    assert listener.loops == [["powers", 2, [1, 1]]]


def knn():
    return TangentKNeighborsClassifier(tangents=TANGENTS).fit(X[:300], y[:300])


WORK = {
    "distances": lambda: tangent_distances(X[:400], tangents=TANGENTS),
    "midpoint": lambda: tangent_distances(X[:90], tangents=TANGENTS, sides="midpoint"),
    "distortion": lambda: image_distortion_distances(X[:90], shape=(8, 8)),
    "pseudo 2-D": lambda: pseudo_2d_distortion_distances(X[:90], shape=(8, 8)),
    "tangents": lambda: ImageTangents(shape=(8, 8)).tangents(X[:1500]),
    "neighbours": lambda: knn().kneighbors(X[300:1200])[1],
    "margins": lambda: knn().margins(X[300:900], y[300:900]),
    "densities": lambda: (
        TangentDensityClassifier(1.0, tangents=TANGENTS)
        .fit(X[:300], y[:300])
        .decision_function(X[300:])
    ),
    "kernel": lambda: (
        TangentSVC(tangents=TANGENTS).fit(X[:200], y[:200]).decision_function(X[200:])
    ),
    "duels": lambda: (
        TangentSVC(n_landmarks=50, random_state=0).fit(X[:200], y[:200]).coef_
    ),
    "solve": lambda: TangentSVC().fit(X[:200], y[:200]).coef_,
    "jittered": lambda: (
        JitteredSVC(transformations=image_shifts(shape=(8, 8)))
        .fit(X[:100], y[:100])
        .decision_function(X[100:200])
    ),
    "virtual": lambda: VirtualSVC().fit(X[:100], y[:100]).decision_function(X[100:]),
    "whitening": lambda: (
        InvariantHyperplaneSVC(tangents=TANGENTS).fit(X[:600], y[:600]).whitening_
    ),
    "nodes": lambda: DDAGClassifier().fit(X[:200], y[:200]).decision_function(X[200:]),
    "problems": lambda: (
        widemargin.MaxMarginClassifier(C=np.inf).fit(X[:200], y[:200]).coef_
    ),
    "rounds": lambda: widemargin.MaxMarginClassifier().fit(X, y < 5).coef_,
    "epochs": lambda: GLVQClassifier(max_iter=3, random_state=0).fit(X, y).prototypes_,
}
SAID = {
    "midpoint": "distances",
    "distortion": "distances",
    "pseudo 2-D": "distances",
    "jittered": "kernel",
    "virtual": "decisions",
}


@pytest.mark.parametrize("what", WORK)
def test_long_work_announces_itself_and_stays_the_same(what):
    listener = Listener()
    with observed_by(listener):
        watched = WORK[what]()
    np.testing.assert_array_equal(watched, WORK[what]())
    loops = listener.named(SAID.get(what, what))
    assert loops
    for _, total, done in loops:
        assert total is None or sum(done) == pytest.approx(total)


@pytest.mark.parametrize("method", ["dynamic", "bisection", "bisection2"])
def test_sweeps_in_pieces_are_the_same_walk(method):
    model = widemargin.MaxMarginClassifier(method, random_state=0, tol=0.05)
    listener = Listener()
    with observed_by(listener):
        model.fit(X, y < 5)
    (loop,) = listener.loops
    assert loop[0] == "sweeps"
    assert sum(loop[2]) == model.n_iter_
    plain = widemargin.MaxMarginClassifier(method, random_state=0, tol=0.05)
    np.testing.assert_array_equal(model.coef_, plain.fit(X, y < 5).coef_)
    assert model.n_updates_ == plain.n_updates_


def terminal():
    return rich_console.Console(file=io.StringIO(), force_terminal=True, width=80)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "_DELAY", 0.0)


def slowly(n=3):
    return thread_map(lambda i: time.sleep(0.15), range(n), description="naps")


def test_a_bar_is_drawn_and_goes(at_once):
    console = terminal()
    with widemargin.show_progress(console):
        slowly()
    shown = console.file.getvalue()
    assert "naps" in shown
    assert " 33%" in shown or " 67%" in shown  # a busy machine may skip one
    assert "100%" in shown
    assert shown.endswith("\x1b[2K")  # the line is wiped
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor


def test_work_without_a_known_end_shows_the_time(at_once):
    console = terminal()
    with widemargin.show_progress(console), announce("solve"):
        time.sleep(0.3)
    shown = console.file.getvalue()
    assert "solve" in shown
    assert "0:00:00" in shown
    assert "%" not in shown


def test_short_work_draws_nothing():
    console = terminal()
    with widemargin.show_progress(console):
        WORK["distances"]()
    assert console.file.getvalue() == ""


def test_a_file_gets_one_line_per_loop(at_once):
    console = rich_console.Console(file=io.StringIO(), width=80)
    with widemargin.show_progress(console):
        slowly()
    shown = console.file.getvalue()
    assert shown.count("naps") == shown.count("100%") == 1


def test_nothing_is_drawn_where_stderr_is_no_terminal(at_once, capsys):
    with widemargin.show_progress():
        assert not is_observed()
        slowly(2)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_errors_leave_the_terminal_as_it_was(error, at_once):
    console, threads = terminal(), threading.active_count()
    streams = sys.stdout, sys.stderr

    def fail(i):
        time.sleep(0.1)
        raise error

    with pytest.raises(error), widemargin.show_progress(console):
        thread_map(fail, range(2))
    shown = console.file.getvalue()
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    assert not is_observed()
    assert (sys.stdout, sys.stderr) == streams
    # rich's own thread sees at its next tick that it is over.
    deadline = time.monotonic() + 5
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == threads


def test_within_another_the_outer_one_draws(at_once):
    outer, inner = terminal(), terminal()
    with widemargin.show_progress(outer), widemargin.show_progress(inner):
        slowly()
    assert "naps" in outer.file.getvalue()
    assert inner.file.getvalue() == ""


def test_without_rich_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with (
        pytest.raises(ImportError, match=r'pip install "widemargin\[cli\]"'),
        widemargin.show_progress(),
    ):
        pass


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn < 1.9 has no callbacks")
def test_one_bar_for_one_thing(capsys):
    from sklearn.callback import ProgressBar

    listener = Listener()
    with observed_by(listener):
        GLVQClassifier(max_iter=3).set_callbacks(ProgressBar()).fit(X, y)
        TangentSVC().set_callbacks(ProgressBar()).fit(X[:200], y[:200])
    assert listener.loops == []


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn < 1.9 has no callbacks")
def test_what_watched_a_fit_is_not_saved(tmp_path, capsys):
    pytest.importorskip("skops")
    from sklearn.callback import ProgressBar

    model = make_pipeline(StandardScaler(), GLVQClassifier(max_iter=3, random_state=0))
    model.set_callbacks(ProgressBar()).fit(X, y)
    widemargin.save(model, tmp_path / "model.skops")
    again = widemargin.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(again, "_skl_callbacks")
    assert len(model._skl_callbacks) == 1


def test_notes_are_read_from_inside_loops_and_threads():
    read = []

    @contextmanager
    def listener(description, total):
        yield lambda amount=1: None

    listener.note = read.append
    progress.note("nobody listens")
    with progress.observed_by(listener):
        for _ in progress.announced([1, 2], "loop"):
            with progress.observed_by(None):
                worker = threading.Thread(target=progress.note, args=["one line"])
                worker.start()
                worker.join()
    progress.note("nobody listens any more")
    assert read == ["one line", "one line"]
