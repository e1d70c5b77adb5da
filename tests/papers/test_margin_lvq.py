"""The paper's figures: what they claim holds in the numbers behind them."""

import numpy as np
import pytest
from papers import margin_lvq

from widemargin.prototypes import GLVQClassifier


def test_figure_3_losses_bound_the_mistakes():
    curves = margin_lvq.figure_3()
    for name in ("hinge", "broken linear", "exponential"):
        assert np.all(curves[name] >= curves["zero one"])
    assert curves["broken linear"].max() == 2
    at_zero = np.flatnonzero(curves["margin"] == 0)
    assert curves["hinge"][at_zero] == curves["exponential"][at_zero] == 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_figure_4_the_hinge_loss_falls(seed):
    curve = margin_lvq.figure_4(8000, random_state=seed)
    assert curve["presentations"][-1] == 8000
    assert curve["hinge"][-1] < curve["hinge"][0] - 5
    assert curve["error"][-1] < curve["error"][0]
    # It settles: the second half moves less than the first.
    half = len(curve["hinge"]) // 2
    assert np.ptp(curve["hinge"][half:]) < np.ptp(curve["hinge"][:half])


def test_toy_problem_has_the_size_of_the_paper():
    X, y = margin_lvq.toy_problem()
    assert X.shape == (800, 2)
    assert np.bincount(y).tolist() == [267, 267, 266]


def test_few_prototypes_beat_the_nearest_neighbour():
    table = margin_lvq.prototypes_against_neighbours((2, 4), n_repeats=2, n_test=2000)
    for name in ("OLVQ1", "margin LVQ", "GLVQ"):
        assert np.all(table[name] < table["1-NN"] - 0.02)


def test_bound_has_an_optimum_that_the_error_shares():
    train = margin_lvq.toy_problem(2000)
    test = margin_lvq.toy_problem(2000, random_state=1)
    counts = (1, 2, 8)
    model = GLVQClassifier(scale="none", random_state=0)
    curve = margin_lvq.bound_curve(model, *train, *test, counts, n_samples=10**8)
    assert counts[int(curve["bound"].argmin())] == 2
    assert curve["test error"][0] > curve["test error"][1]
    # Alpha is all that depends on the margins; the rest only grows.
    assert np.all(np.diff(curve["bound"] - curve["alpha"]) > 0)
    as_it_is = margin_lvq.bound_curve(model, *train, *test, counts)
    assert np.all(as_it_is["bound"] > 1)


def test_main_prints_and_draws(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    results = margin_lvq.main(quick=True, out=tmp_path)
    assert set(results) == {"losses", "olvq1", "neighbours", "bound"}
    assert "Theorem 1" in capsys.readouterr().out
    picture = tmp_path / "margin_lvq.png"
    assert picture.stat().st_size > 20_000
