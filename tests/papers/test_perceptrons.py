"""The reproduction of the perceptron paper runs and its claims hold."""

from pathlib import Path

import numpy as np
import pytest
from papers.perceptrons import (
    crossing_set,
    digit_pair,
    known_margin_set,
    last_unhelpful,
    main,
    margin_ratio,
    search_table,
    sonar,
    stepwise_convergence,
    variant_table,
)

from widemargin.linear import MaxMarginClassifier


@pytest.mark.parametrize("d", [2, 7])
def test_known_margins(d):
    for problem in (known_margin_set(60, d, 0.2), crossing_set(d, 0.2)):
        model = MaxMarginClassifier(C=np.inf, tol=1e-9)
        model.fit(problem.X, problem.signs)
        assert model.margin_ == pytest.approx(problem.margin)


@pytest.mark.parametrize("problem", [known_margin_set(60, 3, 0.3), digit_pair(1, 7)])
def test_every_bound_holds(problem):
    rows = variant_table(problem, 3.0)
    assert {row.equation for row in rows} == {"2.11", "2.29", "2.45", "2.48", "2.58"}
    for row in rows:
        assert 0 < row.updates <= row.bound
        assert 0 < row.margin_share <= 1 + 1e-6


def test_every_update_helps_after_the_onset():
    for values, onset in stepwise_convergence(crossing_set(30, 0.9), 0.01).values():
        assert len(values) > onset
        assert last_unhelpful(values) <= onset + 1


def test_geometric_over_directional():
    heights = np.array([0.3, 3.0, 30.0])
    ratio, bound, sharper = margin_ratio(known_margin_set(60, 3, 0.3), heights)
    assert np.all(ratio >= 1 - 1e-9)
    assert np.all(ratio <= sharper * (1 + 1e-9))
    assert np.all(sharper <= bound)
    assert np.all(np.diff(ratio) < 0)


def test_searches_enclose_the_known_margin():
    problem = known_margin_set(60, 3, 0.3)
    for _, margin, upper, _, _ in search_table(problem, max_iter=2000):
        assert margin <= 0.3 * (1 + 1e-9)
        assert upper >= 0.3 * (1 - 1e-9)
        assert margin >= 0.95 * upper


def test_sonar_is_optional(tmp_path):
    assert sonar(tmp_path) is None
    folder = Path("../shared/data")
    if not (folder / "sonar").exists():
        pytest.skip("sonar is not in ../shared/data")
    problem = sonar(folder)
    model = MaxMarginClassifier(C=np.inf, tol=1e-3).fit(problem.X, problem.signs)
    assert model.gap_ <= 1e-3


def test_main_draws(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path))
    paths = main(quick=True, out=tmp_path)
    assert all(path.stat().st_size > 1000 for path in paths)
    printed = capsys.readouterr().out
    assert "2.58" in printed
    assert "sonar: data not found" in printed
