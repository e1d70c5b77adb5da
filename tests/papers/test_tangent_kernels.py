import numpy as np
import pytest
from papers import Split, tangent_kernels
from papers.tangent_kernels import (
    PUBLISHED,
    SPRINGS,
    rivals,
    scaled,
    stretches,
    supports_per_duel,
    tables,
)
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from widemargin.svm import TangentSVC


@pytest.fixture(scope="module")
def digits():
    """scikit-learn's 8×8 digits, every pixel doubled, in the paper's scaling."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X = np.kron(X.reshape(-1, 8, 8)[:150] / 16, np.ones((2, 2))).reshape(-1, 256)
    return scaled(Split(X[:100], y[:100], X[100:], y[100:150]))


def test_published_numbers_of_the_paper():
    assert len(PUBLISHED) == 10
    best = min(PUBLISHED, key=lambda row: row.error)
    assert (best.name, best.error, best.supports) == ("RBF MN", 3.4, 133)


def test_images_are_at_most_one_long(digits):
    assert np.linalg.norm(digits.X_train, axis=1).max() == pytest.approx(1)


def test_tables_have_both_columns(digits):
    grid = {"rbf": {"gamma": (5, 10), "C": (10,)}, "nd": {"gamma": (1.0,), "C": (10,)}}
    lines = list(tables(digits, grid=grid))
    assert {line.name for line in lines} == {row.name for row in PUBLISHED}
    for line in lines:
        assert line.gamma in (5, 10, 1.0)
        assert line.spring in (SPRINGS if line.paper.sides == "both" else SPRINGS[:1])
        assert 0 <= line.error <= 20
        assert 0 <= line.error_at_papers <= 20
        assert line.supports > 0
    # The grid of ND is the paper's own choice for Euclid: both columns must agree.
    nd = next(line for line in lines if line.name == "ND")
    assert nd.error == nd.error_at_papers


def test_two_sided_kernels_choose_the_spring_of_the_least_error(digits):
    row = next(row for row in PUBLISHED if row.name == "RBF 2S")
    grid = {"rbf": {"gamma": (300,), "C": (10,)}}
    alone = {
        spring: next(tables(digits, rows=(row,), grid=grid, springs=(spring,)))
        for spring in (1e-5, 0.1, 30.0)
    }
    errors = [line.cv_error for line in alone.values()]
    assert len(set(errors)) > 1
    line = next(tables(digits, rows=(row,), grid=grid, springs=tuple(alone)))
    assert line.cv_error == min(errors)
    assert line.error == alone[line.spring].error
    # The second column is the paper's, which has no spring.
    assert line.error_at_papers == alone[1e-5].error_at_papers


def test_stretches_are_contiguous_and_about_as_long():
    groups = stretches(17, 5)
    assert (np.diff(groups) >= 0).all()
    counts = np.bincount(groups)
    assert len(counts) == 5
    assert set(counts) == {3, 4}


def test_supports_are_counted_in_every_duel(digits):
    X, y = digits.X_train, digits.y_train
    machine = TangentSVC(gamma=8.0).fit(X, y)
    from_duels = [
        len(
            SVC(C=10, gamma=8.0)
            .fit(X[(y == i) | (y == j)], y[(y == i) | (y == j)])
            .support_
        )
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    assert supports_per_duel(machine) == pytest.approx(np.mean(from_duels), abs=1)


def test_rivals(digits):
    lines = list(rivals(digits))
    assert len(lines) == 5
    assert all(line.error <= 20 and line.supports > 0 for line in lines)


def test_figures(digits, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    X, y = digits.X_train, digits.y_train
    titles = [axes.get_title() for axes in tangent_kernels.figure_2().axes]
    assert [title[:2] for title in titles] == ["1S", "2S", "MN", "MP"]
    d = [float(title.split("=")[1]) for title in titles]
    assert d[1] <= d[0]
    assert len(tangent_kernels.figure_4(X[0]).names) == 7
    tangent_kernels.save_figures(X, y, tmp_path)
    assert len(list(tmp_path.glob("tangent_kernels_figure_*.png"))) == 3
