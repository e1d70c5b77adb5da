import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

from widemargin.datasets.nist3 import Split
from widemargin.prototypes import TVQClassifier
from widemargin.reproduce import reweighting, reweighting_data
from widemargin.reproduce.reweighting_figures import figure_7, figure_8, follow
from widemargin.reproduce.reweighting_tables import PAPER_1, PAPER_2, poly_svm


@pytest.fixture(scope="module")
def small():
    """Digits blown up to 16×16: the shape of nist3, at hand everywhere."""
    X, y = load_digits(return_X_y=True)
    images = np.kron(X.reshape(-1, 8, 8) / 16, np.ones((2, 2)))
    X = images.reshape(len(X), 256).astype(np.float32)
    return Split(X[:200], y[:200], X[200:400], y[200:400])


def test_follow_meets_the_model_at_the_end(small):
    model = TVQClassifier(1, 4, theta=0.4, max_iter=6)
    followed = follow(model, small, np.array([0, 3, 6]))
    assert followed["iteration"] == [0, 3, 6]
    assert_allclose(
        followed["test"][-1], model.margins(small.X_test, small.y_test), atol=1e-4
    )
    assert np.mean(followed["train"][-1]) > np.mean(followed["train"][0])


def test_weights_are_a_distribution(small):
    found = figure_7(small, 5, 0)
    for weights in found["weights"].values():
        assert np.mean(weights) == pytest.approx(1)
    assert np.all(
        (found["total_variation"][1] >= 0) & (found["total_variation"][1] <= 1)
    )


def test_rejection_starts_at_the_error(small):
    models = {
        "TVQ": TVQClassifier(1, 4, max_iter=3),
        "SVM": poly_svm(small.X_train, 2),
    }
    for model in models.values():
        model.fit(small.X_train, small.y_train)
    for name, (errors, rejected) in figure_8(models, small).items():
        score = models[name].score(small.X_test, small.y_test)
        assert errors[0] == pytest.approx(100 * (1 - score))
        assert rejected[0] == 0


def test_the_paper_in_figures():
    assert min(PAPER_2.values()) == 2.10
    assert min(PAPER_1.values()) == 2.82


@pytest.mark.slow
def test_main_writes_tables_and_figures(small, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(reweighting, "load_set", lambda name, home, quick: small)
    found = reweighting.main(quick=True, out=tmp_path, sets=["nist3"])
    assert len(found["tables"]["nist3"]) == len(PAPER_1) + len(PAPER_2) + 1
    text = (tmp_path / "reweighting.md").read_text(encoding="utf-8")
    assert "| HSS 1-sided" in text
    assert "| HSS 1-sided" in capsys.readouterr().out
    for number in range(3, 9):
        assert (tmp_path / f"figure-{number}.png").stat().st_size > 5000


def test_missing_data_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="WIDEMARGIN_DATA"):
        reweighting_data.data_folder(tmp_path / "nowhere")
