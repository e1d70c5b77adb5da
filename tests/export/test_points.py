"""Exported answers are Python's on training rows, between them, and far away."""

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.export.points import DATA, HYPERPLANES, MODELS, compared

pytestmark = [
    pytest.mark.usefixtures("gcc"),
    # Some are told to stop early.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def check(model, X, n, monkeypatch):
    """No answer differs where Python is sure, in either language, of any kind."""
    # Thousands of samples need a compiler that optimises.
    monkeypatch.setattr("widemargin.export.agreement.SANITISERS", ("-O1",))
    for language, kind, agreement in compared(model, X, n):
        assert not agreement.n_wrong, (language, kind, agreement)
        assert agreement.margin_error < 1e-4, (language, kind, agreement)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", HYPERPLANES)
def test_hyperplanes_of_many_pairs(name, scaled, monkeypatch):
    """Of equal votes, how clearly is asked: far away by numbers that are all large."""
    X, y = DATA["20 blobs"]()
    model = HYPERPLANES[name]()
    model = make_pipeline(StandardScaler(), model) if scaled else model
    check(model.fit(X, y), X, 400, monkeypatch)


@pytest.mark.parametrize("data", ["blobs", "whole numbers", "one-hot"])
@pytest.mark.parametrize("name", MODELS)
def test_points_of_every_kind(name, data, monkeypatch):
    X, y = DATA[data]()
    check(MODELS[name]().fit(X, y), X, 150, monkeypatch)
