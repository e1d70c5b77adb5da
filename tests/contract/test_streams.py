"""What `partial_fit` promises, held over every classifier that has it."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from tests.contract.registry import NAMES, make

from widemargin._core.samples import Samples
from widemargin.prototypes.training import Stream

ONLINE = [name for name in NAMES if hasattr(make(name), "partial_fit")]
# A perceptron is as good as its last mistakes, here and elsewhere: one pass over few
# samples is not much, and its answers come and go.
HYPERPLANES = {"FixedMarginPerceptron", "MarginPerceptron"}
PROTOTYPES = [name for name in ONLINE if name not in HYPERPLANES]
every = pytest.mark.parametrize("name", ONLINE)
every_prototype = pytest.mark.parametrize("name", PROTOTYPES)
sizes = pytest.mark.parametrize("size", [1, 50])
# Few iterations are a matter of the tests' time.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("few_folds"),
]
X, y = load_digits(return_X_y=True)
order = np.random.RandomState(0).permutation(len(X))
X, y = X[order], y[order]
FIRST, OTHER, ASKED = slice(0, 300), slice(300, 600), slice(600, 1200)
CLASSES = np.arange(10)


def stream(model, rows, size, shift=0.0):
    """Yield the model after every batch of `size` of a slice of rows."""
    for start in range(rows.start, rows.stop, size):
        batch = slice(start, min(start + size, rows.stop))
        yield model.partial_fit(X[batch] + shift, y[batch], CLASSES)


def after(*args, **options):
    *_, model = stream(*args, **options)
    return model


def score(model, shift=0.0):
    return model.score(X[ASKED] + shift, y[ASKED])


@sizes
@every
def test_a_stream_is_learned(name, size):
    _, firsts = np.unique(y[FIRST], return_index=True)
    nearest = KNeighborsClassifier(1).fit(X[firsts], y[firsts])
    reached = score(after(make(name), FIRST, size))
    if name in HYPERPLANES:
        assert reached > 0.5
    else:
        assert reached > max(0.85, score(nearest))


@sizes
@every_prototype
def test_more_samples_do_not_harm_a_fit(name, size):
    model = make(name).fit(X[FIRST], y[FIRST])
    before = score(model)
    rows = slice(OTHER.start, min(OTHER.stop, OTHER.start + 100 * size))
    for n, _ in enumerate(stream(model, rows, size)):
        # After the first batch, and now and then.
        assert n % 30 or score(model) > before - 0.02
    assert score(model) > before - 0.02


@every_prototype
def test_a_stream_that_moves_is_followed(name):
    """Every feature goes its way, as far as it varies."""
    away = np.random.RandomState(1).choice([-1.0, 1.0], 64) * X.std(axis=0)
    model = make(name).fit(X[FIRST], y[FIRST])
    before, lost = score(model), score(model, away)
    for t in np.linspace(0, 1, 5):
        after(model, slice(0, 600), 50, shift=t * away)
    assert score(model, away) > (before + lost) / 2
    assert score(model, away) > 0.85


@every_prototype
def test_a_stream_can_be_interrupted_and_repeated(name):
    """A pickle between batches, and a batch that is refused, change no bit."""
    model = after(make(name), slice(0, 30), 3)
    again = pickle.loads(pickle.dumps(after(make(name), slice(0, 30), 3)))
    with pytest.raises(ValueError, match="77"):
        again.partial_fit(X[:2], [3, 77])
    for one in (model, again):
        after(one, slice(30, 90), 3)
    np.testing.assert_array_equal(
        model.decision_function(X[ASKED]), again.decision_function(X[ASKED])
    )
    assert model.n_iter_ == again.n_iter_ == 30


@pytest.mark.parametrize(
    "name", [n for n in PROTOTYPES if getattr(make(n), "_exact_weights", True)]
)
@pytest.mark.parametrize("fitted", [False, True])
def test_a_weight_of_two_is_two_samples(name, fitted):
    one, two = make(name), make(name)
    for model in (one, two) if fitted else ():
        model.fit(X[FIRST], y[FIRST])
    counts = np.random.RandomState(2).randint(1, 4, 60)
    for rows in np.array_split(np.arange(60), 6):
        one.partial_fit(X[rows], y[rows], CLASSES, counts[rows])
        repeated = rows.repeat(counts[rows])
        two.partial_fit(X[repeated], y[repeated], CLASSES)
    np.testing.assert_array_equal(
        one.decision_function(X[ASKED]), two.decision_function(X[ASKED])
    )


def test_what_a_stream_keeps_and_how_long_its_steps_are():
    rng = np.random.RandomState(0)
    batch = Samples(X[:7], y[:7], np.ones(7), CLASSES, np.arange(1, 8))
    now, begun, mistakes = Stream(), [], 0.06
    for wrong in (None, *rng.uniform(size=200) ** 4):
        now = now.after(batch, 8, wrong, rng, 500, True)
        if wrong is not None:
            mistakes = (200 * mistakes + 7 * wrong) / 207
        assert now.pace(7) == pytest.approx(7 / 200 * min(1, max(0.03, 5 * mistakes)))
        if now.begins(500):
            now, known = now.begin(500)
            begun.append(len(known))
            assert np.array_equal(known.X, np.tile(X[:7], (len(known) // 7, 1)))
            rows = np.arange(8 * (len(known) // 7)).reshape(-1, 8)[:, 1:]
            assert np.array_equal(known.rows, rows.ravel())
    assert begun == [7, 14, 28, 56, 112, 224, 448, 504]
    assert now.first is None
    assert np.array_equal(now.latest.X, np.tile(X[:7], (29, 1))[-200:])
    many = Samples(X[:700], y[:700], np.ones(700), CLASSES, np.arange(700))
    for wrong, pace in ((0.0, 0.03), (1.0, 1.0)):
        last = replace(now, mistakes=wrong).after(many, 700, wrong, rng, 500, True)
        assert last.pace(700) == pytest.approx(pace)
        assert last.joined(many) is many
        assert last.first is None
    assert len(np.unique(last.latest.rows)) == 200
    assert last.latest.rows.min() >= now.rows == 201 * 8
