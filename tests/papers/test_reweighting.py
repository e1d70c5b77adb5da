import numpy as np
import pytest
from numpy.testing import assert_array_equal
from papers import Split, load_split, reweighting
from papers.reweighting import (
    PAPER_1,
    PAPER_2,
    errors,
    followed,
    stage,
    total_variation,
)
from sklearn.datasets import load_digits

from widemargin.prototypes import TVQClassifier


@pytest.fixture(scope="module")
def small():
    """Digits blown up to 16×16: the shape of nist3, at hand everywhere."""
    X, y = load_digits(return_X_y=True)
    images = np.kron(X.reshape(-1, 8, 8) / 16, np.ones((2, 2)))
    X = images.reshape(len(X), 256).astype(np.float32)
    return Split(X[:200], y[:200], X[200:400], y[200:400])


@pytest.fixture(scope="module")
def model(small):
    return followed(small, TVQClassifier(1, 4, theta=0.4, max_iter=6, random_state=0))


def test_the_last_stage_is_the_model(small, model):
    X, y = small.X_test, small.y_test
    last = stage(model, model.n_iter_)
    assert_array_equal(last.margins(X, y), model.margins(X, y))
    first = stage(model, 1).margins(small.X_train, small.y_train)
    assert model.margins(small.X_train, small.y_train).mean() > first.mean()


def test_errors_are_those_of_shorter_fits(small, model):
    curve = errors(model, small)
    short = TVQClassifier(1, 4, theta=0.4, max_iter=3, tol=0.0, random_state=0)
    short.fit(small.X_train, small.y_train)
    assert curve["test_error"][2] == 1 - short.score(small.X_test, small.y_test)
    assert len(curve["train_error"]) == model.n_iter_


def test_total_variation_is_that_of_distributions(small, model):
    distances = total_variation(model, small, range(1, model.n_iter_ + 1))
    assert np.all((distances >= 0) & (distances <= 1))


def test_the_paper_in_figures():
    assert min(PAPER_2.values()) == 2.10
    assert min(PAPER_1.values()) == 2.82


@pytest.mark.slow
def test_main_writes_tables_and_figures(small, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.setattr(reweighting, "load_split", lambda load, n: small)
    found = reweighting.main(quick=True, out=tmp_path, sets=["nist3"])
    assert len(found["tables"]["nist3"]) == len(PAPER_1) + len(PAPER_2) + 1
    for curve in found["figures"]["figure_8"].values():
        assert curve.rejection_rate[0] == 0
    text = (tmp_path / "reweighting.md").read_text(encoding="utf-8")
    assert "| HSS 1-sided" in text
    assert "| HSS 1-sided" in capsys.readouterr().out
    for number in range(3, 9):
        assert (tmp_path / f"figure-{number}.png").stat().st_size > 5000


def test_a_split_is_both_parts_or_the_first_of_each():
    def load(subset, return_X_y):
        start = 0 if subset == "train" else 100
        return np.arange(start, start + 9), np.arange(9)

    split = load_split(load, 4)
    assert_array_equal(split.X_test, [100, 101, 102, 103])
    assert len(load_split(load).y_train) == 9
