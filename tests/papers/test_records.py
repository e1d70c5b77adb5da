"""The records run end to end on a few digits, by the protocol, and go on where cut."""

import json

import numpy as np
import pytest
from papers import Measured, Split, records
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from widemargin import TVQClassifier
from widemargin.tangents import image_affines


def padded(side):
    X, y = load_digits(return_X_y=True)
    wide = np.zeros((len(X), side, side), np.float32)
    at = (side - 8) // 2
    wide[:, at : at + 8, at : at + 8] = X.reshape(-1, 8, 8) / 16
    return wide.reshape(len(X), -1), y


@pytest.fixture
def small(monkeypatch):
    """Loaders of small sets; the test part must not be asked for by a quick run."""

    def loader(side):
        X, y = padded(side)

        def load(subset, return_X_y):
            rows = slice(0, 400) if subset == "train" else slice(400, 500)
            return X[rows], y[rows]

        return load

    for name, side in (("load_usps", 16), ("load_nist3", 16), ("load_mnist", 28)):
        monkeypatch.setattr(records, name, loader(side))
    monkeypatch.setattr(records, "mnist_writers", lambda: np.arange(400) // 5)
    monkeypatch.setattr(records, "QUICK", 120)
    monkeypatch.setattr(records, "N_CANDIDATES", 8)
    monkeypatch.setattr(records, "N_DRAWS", 2)
    brief = {"max_iter": 10}
    monkeypatch.setattr(
        records, "TVQClassifier", lambda *a, **k: TVQClassifier(*a, **k | brief)
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_usps_rows_and_where_they_were_cut(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        records, "image_affines", lambda shape: image_affines(shape)[:2]
    )
    rows = records.measure(["usps"], True, tmp_path)
    names = ["USPS, at most 500 vectors", "USPS, one metric", "USPS, product"]
    assert [row.name for row in rows] == names
    assert all(row.error < 30 for row in rows)
    assert rows[1].chosen in records.metrics((16, 16))
    assert rows[2].chosen.startswith("weights ")
    out = capsys.readouterr().out
    assert "USPS, product" in out
    file = tmp_path / "quick_records.json"
    kept = json.loads(file.read_text())
    assert [row["name"] for row in kept] == names
    file.write_text(json.dumps(kept[:2]))

    def never(*args):
        raise AssertionError("what is known is not chosen again")

    monkeypatch.setattr(records, "chosen_tvq", never)
    monkeypatch.setattr(records, "chosen_density", never)
    again = records.measure(["usps"], True, tmp_path)
    assert again[2]._replace(seconds=0) == rows[2]._replace(seconds=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_few_labels_are_balanced_draws(small, monkeypatch):
    seen = []

    class Model:
        named_estimators_ = Bunch(distortion=Bunch(cv_scores_=np.ones(1)))

        def __getitem__(self, last):
            return self

        def fit(self, X, y):
            seen.append((X, y))

    monkeypatch.setattr(records, "of_few", lambda *args: Model())
    monkeypatch.setattr(records.Digits, "error", lambda *args: Measured(4.0, 1.0))
    digits = records.mnist(quick=True)
    row = records.few_labels(20, (2.0, 1.0), digits, None)
    assert (row.error, row.standard_error) == (4.0, 0.0)
    assert len(seen) == 2
    assert all(np.bincount(y).tolist() == [2] * 10 for _, y in seen)
    assert not np.array_equal(seen[0][0], seen[1][0])


def test_copies_keep_their_labels():
    X, y = padded(16)

    class Model(BaseEstimator):
        def fit(self, X, y):
            self.classes_, self.seen_ = np.unique(y), (X, y)
            return self

    moves = image_affines((16, 16))
    model = records.WithCopies(Model(), moves).fit(X[:5], y[:5])
    seen, labels = model.estimator_.seen_
    np.testing.assert_array_equal(seen[:5], X[:5])
    np.testing.assert_array_equal(seen[30:], moves[-1](X[:5]))
    assert labels.tolist() == 7 * y[:5].tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_product_from_few_labels(small, monkeypatch):
    monkeypatch.setattr(records, "FEW_TANGENTS", 5)
    monkeypatch.setattr(records, "N_DRAWS", 1)
    row = records.few_labels(50, (2.0, 1.0), records.mnist(quick=True), None)
    assert row.error < 20
    (upright, product) = records.of_few((28, 28), None)
    assert upright.resize == records.RESIZE
    assert len(product.estimators[0][1].transformations) == 6


def test_groups_are_stretches_parts_and_writers(small):
    assert len(np.unique(records.usps().groups)) == 10
    assert len(records.nist3().splits()) == 5
    ((fit, held),) = records.mnist().splits()
    writers = records.mnist().groups
    assert len(fit) + len(held) == 400
    assert not set(writers[fit]) & set(writers[held])


def test_a_quick_run_sees_training_images_only(small):
    full, quick = records.usps(), records.usps(quick=True)
    assert isinstance(quick.split, Split)
    np.testing.assert_array_equal(quick.split.X_test, full.split.X_train[120:240])
    np.testing.assert_array_equal(quick.split.X_train, full.split.X_train[:120])


def test_models_keep_to_their_number_of_vectors(small):
    for most in (250, 500):
        for model in records.tvq_candidates(records.usps(), most, None).values():
            tvq = model[-1]
            assert tvq.prototypes_per_class == 1
            assert 10 * (1 + tvq.n_tangents) <= most


def test_names_say_what_is_done_to_images_first():
    assert records.FEW in records.metrics((28, 28))
    model = records.density(records.FEW, (28, 28), None, 7)
    assert [type(step).__name__ for step in model] == ["Deskew", "DensityClassifier"]
    assert model[0].resize == records.RESIZE
    assert model[-1].n_candidates == 7
    deskewed = "distortion, window 2, patch 1, deskewed"
    assert records.density(deskewed, (28, 28), None, 7)[0].resize == 0
    plain = records.density("P2DHMDM, window 2, patch 1", (16, 16), None, 7)
    assert len(plain) == 1
