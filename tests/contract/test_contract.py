"""What every classifier of the package promises, held over all that it exports."""

import inspect
import pickle
import re
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from tests.contract.registry import (
    DATA,
    MAY_BE_INFINITE,
    NAMES,
    data,
    each_number,
    make,
)

import widemargin
from widemargin.margins import MARGIN_UNITS

pytestmark = [
    pytest.mark.usefixtures("few_folds"),
    # Few iterations are a matter of the tests' time, and what is said about data that
    # cannot be learned is not the matter here.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def every(without: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Parametrize over every classifier there is, less those that a table excuses."""
    return pytest.mark.parametrize("name", [n for n in NAMES if n not in without])


def fit(name: str, X: Any, y: Any) -> BaseEstimator:
    return make(name).fit(X, y)


@cache
def fitted(name: str, of: str) -> BaseEstimator:
    """A model for tests that ask and change nothing."""
    return fit(name, *data(of)[:2])


def class_scores(model: BaseEstimator, X: Any) -> np.ndarray:
    """Scores as a matrix: of two classes the margin of the second against none."""
    decision = model.decision_function(X)
    if decision.ndim == 2:
        return decision
    return np.column_stack([np.zeros(len(decision)), decision])


def chances(model: BaseEstimator, X: Any) -> np.ndarray:
    """Probabilities of the classes, of a model that has them."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return np.empty((len(X), 0))


def answered(model: BaseEstimator, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Answers, and which of them were given: a rejecting classifier may refuse."""
    answers = model.predict(X)
    if not hasattr(model, "reject_label_"):
        return answers, np.ones(len(answers), bool)
    return answers, ~np.isin(answers, [model.reject_label_])


def given(model: BaseEstimator, X: Any) -> np.ndarray:
    """Answers as if none were refused."""
    return model.classes_[class_scores(model, X).argmax(axis=1)]


# What is large or small in float64 is so in float32, too.
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float64, 1.0), (np.float32, 1e-3), (np.float32, 1e6)],
)
@pytest.mark.parametrize("of", DATA)
@every()
def test_answers_margins_and_confidences_tell_one_story(name, of, dtype, scale):
    X, y, queries = data(of, dtype, scale)
    model = fit(name, X, y)
    assert np.array_equal(model.classes_, np.unique(y))

    scores = class_scores(model, queries)
    answers, spoken = answered(model, queries)
    best = model.classes_[scores.argmax(axis=1)]
    assert np.array_equal(answers[spoken], best[spoken])

    confidence = model.confidence(queries)
    assert confidence.shape == (len(queries),)
    assert np.isfinite(scores).all()
    assert np.isfinite(confidence).all()
    assert (confidence >= 0).all()
    assert np.array_equal(confidence, model.margins(queries, best))

    if hasattr(model, "predict_proba"):
        P = model.predict_proba(queries)
        assert P.shape == (len(queries), len(model.classes_))
        assert np.isfinite(P).all()
        assert (P >= 0).all()
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
        assert np.array_equal(model.classes_[P.argmax(axis=1)], best)

    tied = (scores == scores.max(axis=1, keepdims=True)).sum(axis=1) > 1
    assert (confidence[tied] == 0).all()
    unit = model.margin_unit
    assert unit in MARGIN_UNITS
    for label in model.classes_:
        margins = model.margins(queries, np.repeat(label, len(queries)))
        assert np.isfinite(margins).all()
        right = best == label
        assert (margins[right] >= 0).all()
        assert (margins[~right] <= 0).all()
        if unit in ("relative", "vote_fraction"):
            assert (np.abs(margins) <= 1).all()

    for path, numbers in each_number(model, name, set()):
        if path.rpartition(".")[2] not in MAY_BE_INFINITE:
            assert np.isfinite(numbers).all(), path


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float64, 1e56), (np.float64, 1e-59), (np.float32, 1e9), (np.float32, 1e-11)],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
@every()
def test_what_the_door_lets_in_is_answered(name, dtype, scale):
    X, y, queries = data("two", dtype, scale)
    if name == "InvariantHyperplaneSVC" and scale == 1e56:
        # Its linear kernel keeps the scale, and LIBSVM finds no finite planes.
        with pytest.raises(ValueError, match="scale the data"):
            fit(name, X, y)
        return
    model = fit(name, X, y)
    numbers = class_scores(model, queries), model.confidence(queries)
    assert all(
        np.isfinite(array).all() for array in (*numbers, chances(model, queries))
    )
    answers, spoken = answered(model, queries)
    assert np.array_equal(answers[spoken], given(model, queries)[spoken])


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float64, 1e61), (np.float64, 1e-62), (np.float32, 1e13), (np.float32, 1e-14)],
)
@every()
def test_sizes_beyond_the_door_are_refused(name, dtype, scale):
    X, y, queries = data("two", dtype, scale)
    with pytest.raises(ValueError, match=r"X has values of up to .* divide them by"):
        fit(name, X, y)
    if scale > 1:
        model = fit(name, *data("two", dtype)[:2])
        with pytest.raises(ValueError, match="X has values of up to"):
            model.predict(queries)


@pytest.mark.parametrize("of", DATA)
@every()
def test_one_row_alone_is_the_row_in_the_batch(name, of):
    *_, queries = data(of)
    model = fitted(name, of)
    together = class_scores(model, queries)
    margins = model.confidence(queries)
    answers, P = given(model, queries), chances(model, queries)
    size = np.abs(together).max()
    for i in range(0, len(queries), 3):
        row = queries[i : i + 1]
        # Products of one row and of many round differently; only that may decide.
        if margins[i] > 1e-9 * margins.max():
            assert given(model, row)[0] == answers[i]
        np.testing.assert_allclose(
            class_scores(model, row)[0], together[i], rtol=1e-9, atol=1e-9 * size
        )
        np.testing.assert_allclose(
            model.confidence(row)[0], margins[i], rtol=1e-6, atol=1e-9 * margins.max()
        )
        np.testing.assert_allclose(chances(model, row)[0], P[i], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("of", ["two", "three"])
@every()
def test_float32_answers_as_float64(name, of):
    X, y, queries = data(of, np.float32)
    exact = fit(name, X.astype(np.float64), y)
    model = fit(name, X, y)
    sure = exact.confidence(queries.astype(np.float64))
    # A fit in float32 rounds at every step: compare where that cannot decide.
    clear = sure > 0.05 * np.median(sure)
    wide = queries.astype(np.float64)
    assert np.array_equal(given(model, queries)[clear], given(exact, wide)[clear])
    # A model that is there answers the same question the same, whatever its dtype.
    sure = model.confidence(wide)
    clear = sure > 1e-4 * np.median(sure)
    assert np.array_equal(given(model, queries)[clear], given(model, wide)[clear])


# Why the scale of the data does not cancel.
SCALE_MATTERS = {
    "InvariantHyperplaneSVC": "C weighs slacks against a norm in units of the data",
    "MaxMarginClassifier": "C weighs slacks against a norm in units of the data",
}


@pytest.mark.parametrize("of", DATA)
@every(SCALE_MATTERS)
def test_the_unit_of_the_data_does_not_matter(name, of):
    X, y, queries = data(of)
    model, scaled = fitted(name, of), fit(name, X / 1024, y)
    sure = model.confidence(queries)
    clear = sure > 1e-6 * np.median(sure)
    answers, others = given(model, queries), given(scaled, queries / 1024)
    assert np.array_equal(answers[clear], others[clear])


# Why the origin of the data matters.
SHIFT_MATTERS = {
    "FixedMarginPerceptron": "the plane passes the origin of the space with rho added",
    "MarginPerceptron": "the plane passes the origin of the space with rho added",
}


@pytest.mark.parametrize("of", DATA)
@every(SHIFT_MATTERS)
def test_the_origin_of_the_data_does_not_matter(name, of):
    X, y, queries = data(of)
    # Multiples of 2⁻²⁰: a shift by 17 million changes no digit of them.
    by = 2.0**24
    X, queries = (np.round(a * 2**20) / 2**20 for a in (X, queries))
    model, shifted = fit(name, X, y), fit(name, X + by, y)
    sure = model.confidence(queries)
    clear = sure > 1e-6 * np.median(sure)
    answers, others = given(model, queries), given(shifted, queries + by)
    assert np.array_equal(answers[clear], others[clear])


# Online learners see the samples one after the other; the rest draw samples by place.
ORDER_MATTERS = {
    "ConformalClassifier": "holds out rows by place",
    "FixedMarginPerceptron": "online",
    "LVQClassifier": "online",
    "MarginLVQClassifier": "online",
    "MarginPerceptron": "online",
    "MarginReweightingClassifier": "holds out rows by place",
    "ProductClassifier": "holds out rows by place",
    "RejectingClassifier": "holds out rows by place",
    "TDNeuronClassifier": "holds out rows by place",
}


@pytest.mark.parametrize("of", DATA)
@every(ORDER_MATTERS)
def test_the_order_of_the_samples_does_not_matter(name, of):
    X, y, queries = data(of)
    order = np.random.default_rng(3).permutation(len(X))
    model, shuffled = fitted(name, of), fit(name, X[order], y[order])
    sure = model.confidence(queries)
    # Solvers stop within their tolerance, at one side or the other.
    clear = sure > 0.05 * np.quantile(sure, 0.75)
    answers, others = given(model, queries), given(shuffled, queries)
    assert np.array_equal(answers[clear], others[clear])


# Where classes take turns in their order, in the presentation, the draw or the graph.
NAMES_MATTER = {
    "DDAGClassifier": "the graph lets the first class meet the last",
    "FixedMarginPerceptron": "orders are drawn for one class after the other",
    "MarginPerceptron": "orders are drawn for one class after the other",
    "JitteredSVC": "the graph lets the first class meet the last",
    "TangentSVC": "the graph lets the first class meet the last",
}
# Batches and folds are cut from samples sorted by class, and several prototypes are
# drawn class after class; the meta-estimators here wrap GLVQ.
BATCHED = {
    "ConformalClassifier",
    "HSSClassifier",
    "LVQClassifier",
    "MarginLVQClassifier",
    "RelationalLVQClassifier",
    "TVQClassifier",
    "GLVQClassifier",
    "GMLVQClassifier",
    "KernelLVQClassifier",
    "MarginReweightingClassifier",
    "ProductClassifier",
    "RejectingClassifier",
}


@pytest.mark.parametrize("of", ["two", "three", "line"])
@every(BATCHED)
def test_the_names_of_the_classes_do_not_matter(name, of):
    X, y, queries = data(of)
    codes = np.unique(y, return_inverse=True)[1]
    if name in NAMES_MATTER and codes.max() > 1:
        pytest.skip(NAMES_MATTER[name])
    model, renamed = fit(name, X, codes), fit(name, X, codes.max() - codes)
    sure = model.confidence(queries)
    # Solvers stop within their tolerance, at one side or the other.
    clear = sure > 0.05 * np.quantile(sure, 0.75)
    answers, others = given(model, queries), codes.max() - given(renamed, queries)
    assert np.array_equal(answers[clear], others[clear])


@every()
def test_labels_of_any_kind_are_only_names(name):
    X, y, queries = data("two")
    codes = np.unique(y, return_inverse=True)[1]
    expected = given(fit(name, X, codes), queries)
    kinds = {
        "numbers": np.array([2.0, 7.0]),
        "objects": np.array(["a", "b"], dtype=object),
        "flags": np.array([False, True]),
        "texts": np.array(["α", "β"]),
    }
    for kind, labels in kinds.items():
        model = fit(name, X, labels[codes])
        assert np.array_equal(given(model, queries), labels[expected]), kind


@pytest.mark.parametrize("of", ["two", "three"])
@every()
def test_parameters_set_after_fit_change_nothing(name, of):
    X, y, queries = data(of)
    model = fit(name, X, y)
    answers, scores = model.predict(queries), model.decision_function(queries)
    confidence, unit = model.confidence(queries), model.margin_unit
    asked = hasattr(model, "predict_proba")
    P = chances(model, queries)
    for parameter, value in model.get_params(deep=False).items():
        if parameter == "n_jobs":
            other: Any = 1
        elif parameter == "estimator":
            other = LogisticRegression()
        else:
            # What would be refused by a fit is no question either.
            other = "set after fit"
        model.set_params(**{parameter: other})
        assert np.array_equal(model.predict(queries), answers), parameter
        assert np.array_equal(model.decision_function(queries), scores), parameter
        assert np.array_equal(model.confidence(queries), confidence), parameter
        assert model.margin_unit == unit, parameter
        if asked:
            assert np.array_equal(model.predict_proba(queries), P), parameter
        model.set_params(**{parameter: value})


def frozen(model: BaseEstimator) -> dict[str, bytes]:
    return {name: pickle.dumps(value) for name, value in vars(model).items()}


@every()
def test_a_failed_fit_leaves_the_old_model_whole(name):
    X, y, queries = data("two")
    model = fit(name, X, y)
    before, answers = frozen(model), given(model, queries)
    wide = np.column_stack([X, X])
    gaps = wide.copy()
    gaps[3, 1] = np.inf
    failures = [
        (gaps, y),
        (wide, np.repeat("only", len(y))),
        (wide, y[:-1]),
        (wide, np.linspace(0, 1, len(y))),
    ]
    for bad_X, bad_y in failures:
        with pytest.raises(ValueError):
            model.fit(bad_X, bad_y)
        assert frozen(model) == before
    kept = model.get_params(deep=False)
    for parameter in kept:
        if parameter in ("estimator", "n_jobs", "random_state", "reject_label"):
            continue
        model.set_params(**{parameter: {"no": "such value"}})
        with pytest.raises((ValueError, TypeError), match=parameter):
            model.fit(wide, y)
        model.set_params(**{parameter: kept[parameter]})
        assert frozen(model) == before, parameter
    assert np.array_equal(given(model, queries), answers)


@every()
def test_a_model_survives_being_stored(name):
    skops = pytest.importorskip("skops.io")
    X, y, queries = data("three")
    model = fit(name, X, y)
    scores, sure = model.decision_function(queries), model.confidence(queries)
    P, stored = chances(model, queries), skops.dumps(model)
    kinds = skops.get_untrusted_types(data=stored)
    copies = {
        "pickle": pickle.loads(pickle.dumps(model)),
        "skops": skops.loads(stored, trusted=kinds),
        "clone": clone(model).fit(X, y),
        "second fit": model.fit(X, y),
    }
    for how, copy in copies.items():
        assert np.array_equal(copy.decision_function(queries), scores), how
        assert np.array_equal(copy.confidence(queries), sure), how
        assert np.array_equal(chances(copy, queries), P), how


@every()
def test_labels_are_checked_against_the_samples(name):
    X, y, _ = data("two")
    model = fitted(name, "two")
    for bad in (y[:-1], y[:1], y[:0], np.tile(y, 2), y[:, None].repeat(2, axis=1)):
        with pytest.raises(ValueError, match=r"\by\b"):
            model.margins(X, bad)
    with pytest.raises(ValueError, match="neither"):
        model.margins(X, np.where(np.arange(len(y)) == 3, "neither", y))


@every()
def test_warnings_point_at_the_caller(name):
    X, y, _ = data("lattice")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(name, X, y)
    for warning in caught:
        assert warning.filename == __file__, str(warning.message)
        assert issubclass(warning.category, ConvergenceWarning | UserWarning)


# Why there is no predict_proba.
NO_PROBABILITIES = {
    "DDAGClassifier": "nodes answer in units of their own",
    "JitteredSVC": "decisions of samples that trained it say nothing",
    "TangentSVC": "decisions of samples that trained it say nothing; probability=True",
    "VirtualSVC": "decisions of samples that trained it say nothing",
}


@every()
def test_there_are_probabilities_unless_a_table_says_why(name):
    model = make(name)
    assert hasattr(model, "predict_proba") == (name not in NO_PROBABILITIES)
    if name in NO_PROBABILITIES:
        with pytest.raises(AttributeError, match=r"CalibratedClass|probability=True"):
            model.predict_proba([[0.0]])


@pytest.mark.parametrize("of", ["two", "three", "line"])
@every(NO_PROBABILITIES)
def test_batches_have_probabilities_too(name, of):
    X, y, queries = data(of)
    order = np.random.default_rng(0).permutation(len(X))
    model = make(name)
    if not hasattr(model, "partial_fit"):
        pytest.skip("not online")
    for rows in np.array_split(order, 4):
        model.partial_fit(X[rows], y[rows], classes=np.unique(y))
        P = model.predict_proba(queries)
        np.testing.assert_allclose(P.sum(axis=1), 1)
        assert np.array_equal(model.classes_[P.argmax(axis=1)], given(model, queries))
    # One sample more, an outlier with a wrong label, is one of many.
    before = model.predict_proba(queries).max(axis=1).mean()
    model.partial_fit(X[:1] * 3, y[-1:])
    assert abs(model.predict_proba(queries).max(axis=1).mean() - before) < 0.1


@every()
def test_dask_tells_two_fits_apart(name):
    """A dataclass is its fields to Dask; a model is what it learned, too."""
    tokenize = pytest.importorskip("dask.base").tokenize
    X, y, _ = data("two")
    model, same, other = fit(name, X, y), fit(name, X, y), fit(name, X[::-1] + 1.0, y)
    assert tokenize(model) == tokenize(same)
    assert tokenize(model) != tokenize(other)
    assert tokenize(model) != tokenize(make(name))


@every()
def test_parameters_are_named_and_nothing_else(name):
    kind = getattr(widemargin, name)
    signature = inspect.signature(kind).parameters
    assert sorted(signature) == sorted(make(name).get_params(deep=False))
    told = inspect.getdoc(kind).partition("\nParameters\n")[2]
    told = told.partition("\nAttributes\n")[0].partition("\nNotes\n")[0]
    named = re.findall(r"^(\w+(?:, \w+)*) : ", told, re.MULTILINE)
    assert sorted(", ".join(named).split(", ")) == sorted(signature)
    assert "_" not in signature
    first, *rest = signature.values()
    assert first.kind is first.POSITIONAL_OR_KEYWORD
    if name not in ("HSSClassifier", "TVQClassifier"):
        assert all(one.kind is one.KEYWORD_ONLY for one in rest)
    # An own __init__ that says nothing to ours is a subclass as any other.
    defaults = {k: p.default for k, p in signature.items() if p.default is not p.empty}

    class Mine(kind):
        def __init__(self, **given):
            vars(self).update(given)

    mine = Mine(**{k: v for k, v in vars(make(name)).items() if k not in defaults})
    assert all(getattr(mine, k) is v for k, v in defaults.items())
