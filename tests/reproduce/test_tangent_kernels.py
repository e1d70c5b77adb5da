import numpy as np
import pytest
from sklearn.datasets import load_digits

from widemargin.reproduce import tangent_kernels
from widemargin.reproduce.tangent_kernels import PUBLISHED, Digits, rivals, tables


@pytest.fixture(scope="module")
def digits():
    """scikit-learn's 8×8 digits, every pixel doubled, in the paper's scaling."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X = np.kron(X.reshape(-1, 8, 8)[:150] / 16, np.ones((2, 2))).reshape(-1, 256)
    return Digits.scaled(X[:100], y[:100], X[100:], y[100:150])


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
        assert 0 <= line.error <= 20
        assert 0 <= line.error_at_papers <= 20
        assert line.supports > 0
    # The grid of ND is the paper's own choice for Euclid: both columns must agree.
    nd = next(line for line in lines if line.name == "ND")
    assert nd.error == nd.error_at_papers


def test_rivals(digits):
    lines = list(rivals(digits))
    assert len(lines) == 5
    assert all(line.error <= 20 and line.supports > 0 for line in lines)


def test_figures(digits):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from widemargin.reproduce import tangent_kernel_figures as figures

    X, y = digits.X_train, digits.y_train
    titles = [axes.get_title() for axes in figures.figure_2().axes]
    assert [title[:2] for title in titles] == ["1S", "2S", "MN", "MP"]
    d = [float(title.split("=")[1]) for title in titles]
    assert d[1] <= d[0]
    assert len(figures.figure_3(X, y, 2).axes) == 6
    assert len(figures.figure_4(X[0]).axes) == 16
    plt.close("all")
    assert tangent_kernels.SHAPE == (16, 16)
